// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A scan in which a disk hangs, and a table line with another device at one place. (What is found on real disks is tested in virtual
 * machines.)
 */
#include <pthread.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/fixture.h"
#include "lib/disk/scan.h"

#define HEAD	"0a1b 1 1 rotating 2048 2048 3 "

/* ---- the scan -------------------------------------------------------------------- */

#define MEMBER_BYTES	(16u << 20)
#define LIMIT_MS	2000u
#define IN_USE		makedev(259, 77)

static struct {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	char dir[32];
	char pattern[64];		/* the devices to scan */
	bool hangs;			/* reads of a file with "hung" in its name hang */
	unsigned int slow_ms;		/* such reads answer one by one, and take this long in all */
	bool computes;			/* the same, but for lack of processor time */
	unsigned int hung_reads;	/* number of such reads that have begun */
} disk = { .lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER };

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

int __real_ddr_dev_read_supers(const struct ddr_dev *dev, struct ddr_supers *out, struct ddr_error *err);
int __wrap_ddr_dev_read_supers(const struct ddr_dev *dev, struct ddr_supers *out, struct ddr_error *err);

int __wrap_ddr_dev_read_supers(const struct ddr_dev *dev, struct ddr_supers *out, struct ddr_error *err)
{
	if (strstr(dev->path, "hung")) {
		pthread_mutex_lock(&disk.lock);
		disk.hung_reads++;
		while (disk.hangs)
			pthread_cond_wait(&disk.cond, &disk.lock);
		pthread_mutex_unlock(&disk.lock);
		for (uint64_t end = now_ms() + disk.slow_ms; disk.slow_ms && now_ms() < end; )
			if (!disk.computes)
				usleep(20 * 1000);
	}
	return __real_ddr_dev_read_supers(dev, out, err);
}

int __real_stat(const char *path, struct stat *st);
int __wrap_stat(const char *path, struct stat *st);

/* A file that is called a device. */
int __wrap_stat(const char *path, struct stat *st)
{
	int ret = __real_stat(path, st);

	if (ret == 0 && strstr(path, "device")) {
		st->st_mode = S_IFBLK | 0600;
		st->st_rdev = IN_USE;
	}
	return ret;
}

static void hang(bool yes)
{
	pthread_mutex_lock(&disk.lock);
	disk.hangs = yes;
	pthread_cond_broadcast(&disk.cond);
	pthread_mutex_unlock(&disk.lock);
}

static unsigned int hung_reads(void)
{
	unsigned int n;

	pthread_mutex_lock(&disk.lock);
	n = disk.hung_reads;
	pthread_mutex_unlock(&disk.lock);
	return n;
}

static void make_member(const char *name, uint16_t member)
{
	struct ddr_super sb;
	struct ddr_error err;
	struct ddr_dev dev;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", disk.dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(ftruncate(fileno(f), MEMBER_BYTES), 0);
	fclose(f);
	fixture_super(&sb, 1, 1, DDR_LAYOUT_ROTATING, MEMBER_BYTES, 0);
	sb.this_member = member;
	assert_int_equal(ddr_dev_open(&dev, path, DDR_DEV_WRITE | DDR_DEV_FILE, &err), 0);
	for (sb.seq = 1; sb.seq <= 2; sb.seq++)
		assert_int_equal(ddr_dev_write_super(&dev, &sb, &err), 0);
	ddr_dev_close(&dev);
}

/* Three members; the one in the middle hangs if the test wants it. */
static int make_disks(void **state)
{
	(void)state;
	strcpy(disk.dir, "test-scan-XXXXXX");
	assert_non_null(mkdtemp(disk.dir));
	make_member("a", 0);
	make_member("b-hung", 1);
	make_member("c", 2);
	snprintf(disk.pattern, sizeof(disk.pattern), "%s/*", disk.dir);
	disk.hung_reads = 0;
	return 0;
}

static int remove_disks(void **state)
{
	static const char *const names[] = { "a", "b-hung", "c", "d-device" };
	char path[64];

	(void)state;
	hang(false);
	for (unsigned int i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "%s/%s", disk.dir, names[i]);
		unlink(path);
	}
	return rmdir(disk.dir);
}

/* Scans; how many ms that took. */
static uint64_t scan_for(struct ddr_scan *scan, unsigned int limit_ms)
{
	const struct ddr_scan_how how = { .limit_ms = limit_ms, .listed = disk.pattern };
	uint64_t begin = now_ms();
	struct ddr_error err;

	if (ddr_scan_devices(scan, &how, &err))
		fail_msg("%s", err.text);
	return now_ms() - begin;
}

static bool is(const char *path, const char *name)
{
	return strcmp(strrchr(path, '/') + 1, name) == 0;
}

/* The others are found, and the hanging disk is reported once. One thread stays in it, and nothing waits for that thread. */
static void a_disk_that_hangs_counts_as_not_there(void **state)
{
	struct ddr_scan scan;

	(void)state;
	hang(true);
	assert_in_range(scan_for(&scan, LIMIT_MS), LIMIT_MS, 20 * LIMIT_MS);
	assert_int_equal(scan.n, 2);
	assert_true(is(scan.dev[0].path, "a") && is(scan.dev[1].path, "c"));
	assert_int_equal(scan.dev[1].supers.copy[scan.dev[1].supers.newest].super.this_member, 2);
	assert_int_equal(scan.n_hung, 1);
	assert_true(is(scan.hung[0].path, "b-hung"));
	assert_false(scan.hung[0].known);
	ddr_scan_free(&scan);

	assert_in_range(scan_for(&scan, 3600 * 1000), 0, 60 * 1000);
	assert_int_equal(scan.n, 2);
	assert_int_equal(scan.n_hung, 1);
	assert_true(scan.hung[0].known);
	assert_int_equal(hung_reads(), 1);
	ddr_scan_free(&scan);
}

/* Its thread ends long after its callers have gone; then the disk is like any other. */
static void a_disk_that_answers_again_is_found(void **state)
{
	struct ddr_scan scan;

	(void)state;
	hang(true);
	scan_for(&scan, LIMIT_MS);
	ddr_scan_free(&scan);
	assert_int_equal(hung_reads(), 1);
	hang(false);
	for (unsigned int i = 0; i < 1000; i++) {	/* the thread is not ours to wait for */
		scan_for(&scan, 60 * 1000);
		if (scan.n == 3)
			break;
		assert_true(scan.n_hung == 1 && scan.hung[0].known);
		ddr_scan_free(&scan);
		usleep(10 * 1000);
	}
	assert_int_equal(scan.n, 3);
	assert_true(is(scan.dev[1].path, "b-hung"));
	assert_int_equal(scan.n_hung, 0);
	ddr_scan_free(&scan);
}

static bool two_are_enough(void *ctx, const struct ddr_scan *scan)
{
	(void)ctx;
	return scan->n == 2;
}

/*
 * Finding T14: a hanging disk that does not belong to the array delayed its start for a minute, and each attempt of start --all
 * again. If the other disks suffice, this one has a moment to answer, and the same thread keeps looking at it.
 */
static void a_disk_that_nobody_needs_delays_nothing(void **state)
{
	const struct ddr_scan_how enough = { .limit_ms = 3600 * 1000, .enough = two_are_enough, .listed = disk.pattern };
	const struct ddr_scan_how turn = { .limit_ms = 3600 * 1000, .wait_ms = 100, .listed = disk.pattern };
	struct ddr_error err;
	struct ddr_scan scan;
	uint64_t begun = now_ms();

	(void)state;
	hang(true);
	assert_int_equal(ddr_scan_devices(&scan, &enough, &err), 0);
	assert_in_range(now_ms() - begun, DDR_SCAN_GRACE_MS, 60 * 1000);
	assert_true(scan.n == 2 && is(scan.dev[0].path, "a") && is(scan.dev[1].path, "c"));
	assert_true(scan.n_hung == 1 && scan.hung[0].pending && !scan.hung[0].known && !scan.cut);
	ddr_scan_free(&scan);
	for (unsigned int i = 0; i < 3; i++) {
		begun = now_ms();
		assert_int_equal(ddr_scan_devices(&scan, &turn, &err), 0);
		assert_in_range(now_ms() - begun, 0, 60 * 1000);
		assert_int_equal(scan.n + scan.n_hung, 3);	/* on a busy machine the others may be late, too */
		assert_true(scan.n_hung && scan.hung[scan.n_hung > 1 && !is(scan.hung[0].path, "b-hung")].pending);
		ddr_scan_free(&scan);
	}
	assert_int_equal(hung_reads(), 1);
	hang(false);
	assert_int_equal(scan_for(&scan, 3600 * 1000) < 60 * 1000 ? scan.n : 0, 3);
	assert_true(is(scan.dev[1].path, "b-hung"));
	assert_int_equal(scan.n_hung, 0);
	ddr_scan_free(&scan);
}

/*
 * Finding T14: one that is slow may be the copy of a member, and the array must not be started beside a copy. It is waited for, although those that
 * are needed have answered: here it has one answer each 20 ms, and then it lacks the processor.
 */
static void a_slow_disk_does_not_count_as_hung(void **state)
{
	const struct ddr_scan_how how = { .limit_ms = 3600 * 1000, .enough = two_are_enough, .listed = disk.pattern };
	const struct ddr_scan_how soon = { .limit_ms = 3600 * 1000, .wait_ms = 300, .enough = two_are_enough, .listed = disk.pattern };
	struct ddr_error err;
	struct ddr_scan scan;

	(void)state;
	disk.slow_ms = 2 * DDR_SCAN_GRACE_MS;
	for (unsigned int i = 0; i < 2; i++) {
		disk.computes = i;
		assert_int_equal(ddr_scan_devices(&scan, &how, &err), 0);
		assert_int_equal(scan.n, 3);
		assert_int_equal(scan.n_hung, 0);
		ddr_scan_free(&scan);
		assert_int_equal(ddr_scan_devices(&scan, &soon, &err), 0);
		assert_int_equal(scan.n + scan.n_hung, 3);	/* on a busy machine the others may be late, too */
		assert_true(scan.n_hung && scan.cut);		/* the caller has to ask again */
		ddr_scan_free(&scan);
		assert_int_equal(scan_for(&scan, 3600 * 1000) < 60 * 1000 ? scan.n : 0, 3);
		ddr_scan_free(&scan);
	}
	disk.slow_ms = 0;
	disk.computes = false;
}

/*
 * Finding U11: a daemon that was started with DDRAID_DEVICES in its environment searched for members there alone. Only the caller's
 * arguments decide.
 */
static void scanning_ignores_the_environment(void **state)
{
	struct ddr_scan scan;

	(void)state;
	setenv("DDRAID_DEVICES", "/nothing/here", 1);
	scan_for(&scan, 60 * 1000);
	unsetenv("DDRAID_DEVICES");
	assert_int_equal(scan.n, 3);
	ddr_scan_free(&scan);
}

/* A device that the caller has open, and does not search for, is not opened. */
static void devices_that_the_caller_has_open_are_not_opened(void **state)
{
	const dev_t in_use[] = { makedev(8, 1), IN_USE };
	const struct ddr_scan_how how = { .limit_ms = 60 * 1000, .leave_out = in_use, .n_leave_out = 2, .listed = disk.pattern };
	struct ddr_error err;
	struct ddr_scan scan;

	(void)state;
	make_member("d-device", 2);
	scan_for(&scan, 60 * 1000);
	assert_int_equal(scan.n, 4);
	ddr_scan_free(&scan);
	assert_int_equal(ddr_scan_devices(&scan, &how, &err), 0);
	assert_int_equal(scan.n, 3);
	assert_true(is(scan.dev[2].path, "c"));
	ddr_scan_free(&scan);
}

/* More than are looked at side by side, and in their order. */
static void many_disks_are_found_in_order(void **state)
{
	struct ddr_scan scan;
	char name[16];

	(void)state;
	for (unsigned int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "n%02u", i);
		make_member(name, 0);
	}
	scan_for(&scan, 60 * 1000);
	assert_int_equal(scan.n, 103);
	for (unsigned int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "n%02u", i);
		assert_true(is(scan.dev[3 + i].path, name));
		unlink(scan.dev[3 + i].path);
	}
	ddr_scan_free(&scan);
}

/* ---- the table line -------------------------------------------------------------- */

/* Options come last, with their number first; a line that does not fit is refused. */
static void a_table_line_has_the_options(void **state)
{
	static const char *const tails[] = { "", " 1 verify_reads", " 1 fail_if_no_daemon", " 2 verify_reads fail_if_no_daemon" };
	static struct ddr_scan_array array;
	struct ddr_super *sb = &array.assembly.super;
	char line[256], wanted[256];

	(void)state;
	sb->parity = 1;
	sb->members = sb->roles = 2;
	sb->region_size = 1 << 20;
	sb->data_offset = 1 << 20;
	sb->member[1].role = 1;
	sb->member[0].state = sb->member[1].state = DDR_MEMBER_IN_SYNC;
	array.assembly.device[1] = -1;
	array.cand[0].device = "/dev/sda";
	for (unsigned int options = 0; options < 4; options++) {
		assert_int_equal(ddr_scan_table_params(&array, options, line, sizeof(line)), 0);
		snprintf(wanted, sizeof(wanted), "00000000-0000-0000-0000-000000000000 0 1 dedicated 2048 2048 2 /dev/sda -%s", tails[options]);
		assert_string_equal(line, wanted);
		assert_int_equal(ddr_scan_table_params(&array, options, line, strlen(wanted) + 1), 0);
		assert_int_equal(ddr_scan_table_params(&array, options, line, strlen(wanted)), -1);
	}
}

static void expect(const char *params, uint32_t place, const char *wanted, bool wanted_same)
{
	bool same = !wanted_same;
	char *text = ddr_scan_table_replace(params, place, 259, 11, &same);

	if (!wanted) {
		assert_null(text);
		return;
	}
	assert_string_equal(text, wanted);
	assert_int_equal(same, wanted_same);
	free(text);
}

static void expect_shadow(const char *params, uint32_t minor, const char *wanted, bool wanted_same)
{
	bool same = !wanted_same;
	char *text = ddr_scan_table_shadow(params, 1, minor ? 259 : 0, minor, &same);

	if (!wanted) {
		assert_null(text);
		return;
	}
	assert_string_equal(text, wanted);
	assert_int_equal(same, wanted_same);
	free(text);
}

/* The option that names the disk of a running replacement is added and removed, among other options. */
static void a_shadow_is_named(void **state)
{
	(void)state;
	expect_shadow(HEAD "8:0 8:16 8:32", 7, HEAD "8:0 8:16 8:32 3 replace 1 259:7", false);
	expect_shadow(HEAD "8:0 8:16 8:32 3 replace 1 259:7", 7, HEAD "8:0 8:16 8:32 3 replace 1 259:7", true);
	expect_shadow(HEAD "8:0 8:16 8:32 3 replace 0 259:7", 7, HEAD "8:0 8:16 8:32 3 replace 1 259:7", false);
	expect_shadow(HEAD "8:0 8:16 8:32 4 replace 0 259:9 verify_reads", 7, HEAD "8:0 8:16 8:32 4 verify_reads replace 1 259:7", false);
	expect_shadow(HEAD "8:0 8:16 8:32 4 verify_reads replace 1 259:7", 0, HEAD "8:0 8:16 8:32 1 verify_reads", false);
	expect_shadow(HEAD "8:0 8:16 8:32 3 replace 1 259:7", 0, HEAD "8:0 8:16 8:32", false);
	expect_shadow(HEAD "8:0 8:16 8:32", 0, HEAD "8:0 8:16 8:32", true);
	expect_shadow("0a1b 0 1 dedicated 2048 2048 1 8:0", 7, NULL, false);
	expect_shadow(HEAD "8:0 8:16", 7, NULL, false);
	expect_shadow("0 1 error", 7, NULL, false);
}

static void a_device_in_a_table_line_is_exchanged(void **state)
{
	(void)state;
	expect(HEAD "8:0 8:16 8:32", 0, HEAD "259:11 8:16 8:32", false);
	expect(HEAD "8:0 - 8:32", 1, HEAD "8:0 259:11 8:32", false);
	expect(HEAD "8:0 8:16 -", 2, HEAD "8:0 8:16 259:11", false);
	expect(HEAD "8:0 8:16 8:32 1 verify_reads", 2, HEAD "8:0 8:16 259:11 1 verify_reads", false);
	expect(HEAD "8:0 259:11 8:32", 1, HEAD "8:0 259:11 8:32", true);
	expect(HEAD "8:0 259:1 8:32", 1, HEAD "8:0 259:11 8:32", false);
}

/* A replacement at another place stays; one at this place, or of the device that is put here, is removed. */
static void another_place_keeps_its_shadow(void **state)
{
	(void)state;
	expect(HEAD "8:0 8:16 8:32 3 replace 1 259:7", 0, HEAD "259:11 8:16 8:32 3 replace 1 259:7", false);
	expect(HEAD "8:0 8:16 8:32 4 verify_reads replace 1 259:7", 0, HEAD "259:11 8:16 8:32 4 verify_reads replace 1 259:7", false);
	expect(HEAD "259:11 8:16 8:32 3 replace 1 259:7", 0, HEAD "259:11 8:16 8:32 3 replace 1 259:7", true);
	expect(HEAD "8:0 8:16 8:32 3 replace 1 259:11", 1, HEAD "8:0 259:11 8:32", false);
	expect(HEAD "8:0 8:16 8:32 4 verify_reads replace 1 259:7", 1, HEAD "8:0 259:11 8:32 1 verify_reads", false);
	expect(HEAD "8:0 8:16 8:32 3 replace 1 259:11", 0, HEAD "259:11 8:16 8:32", false);
	expect(HEAD "8:0 259:11 8:32 3 replace 1 259:7", 1, HEAD "8:0 259:11 8:32", false);
	expect(HEAD "8:0 8:16 8:32 3 replace 1 259:1", 0, HEAD "259:11 8:16 8:32 3 replace 1 259:1", false);
}

/* A failed member is removed: its place becomes empty, and a replacement elsewhere continues. */
static void a_place_is_emptied_beside_a_shadow(void **state)
{
	bool same = true;
	char *text = ddr_scan_table_replace(HEAD "8:0 8:16 8:32 3 replace 1 259:7", 2, 0, 0, &same);

	(void)state;
	assert_string_equal(text, HEAD "8:0 8:16 - 3 replace 1 259:7");
	assert_false(same);
	free(text);
}

static void malformed_table_lines_are_refused(void **state)
{
	(void)state;
	expect(HEAD "8:0 8:16 8:32", 3, NULL, false);
	expect(HEAD "8:0 8:16", 2, NULL, false);
	expect("0 1 error", 0, NULL, false);
	expect("", 0, NULL, false);
}

/* ---- names ----------------------------------------------------------------------- */

static void found(struct ddr_scan_device *d, const char *path, uint64_t array, const char *name, uint64_t generation, uint64_t seq)
{
	struct ddr_super *sb = &d->supers.copy[0].super;

	memset(d, 0, sizeof(*d));
	snprintf(d->path, sizeof(d->path), "%s", path);
	fixture_super(sb, 0, 1, DDR_LAYOUT_DEDICATED, MEMBER_BYTES, 0);
	fixture_uuid(sb->array_uuid, array);
	memset(sb->name, 0, sizeof(sb->name));
	memcpy(sb->name, name, strlen(name));
	sb->generation = generation;
	sb->seq = seq;
	d->supers.copy[0].found = true;
	d->bytes = MEMBER_BYTES;
}

/* Finding S13: of two arrays with the same name, the one whose disks appeared first was started, and the other one never could be. */
static void two_arrays_of_one_name(void **state)
{
	struct ddr_scan scan = { .dev = calloc(4, sizeof(*scan.dev)), .n = 4 };
	static struct ddr_scan_array array;
	struct ddr_scan_name list[4];
	struct ddr_error err;

	(void)state;
	found(&scan.dev[0], "/a", 1, "data", 1, 2);
	found(&scan.dev[1], "/b", 2, "data", 9, 2);
	found(&scan.dev[2], "/c", 3, "other", 1, 2);
	found(&scan.dev[3], "/d", 1, "data", 1, 2);
	scan.dev[3].supers.copy[0].super.this_member = 1;
	assert_int_equal(ddr_scan_arrays(&scan, list, 4), 3);
	assert_ptr_equal(ddr_scan_twin(list, 3, 0), &list[1]);
	assert_ptr_equal(ddr_scan_twin(list, 3, 1), &list[0]);
	assert_null(ddr_scan_twin(list, 3, 2));
	assert_int_equal(ddr_scan_assemble(&scan, "data", NULL, &array, &err), -1);
	assert_non_null(strstr(err.text, "two arrays have the name data"));
	assert_non_null(strstr(err.text, "ddraid rename"));
	free(scan.dev);
}

/* A disk that was absent when its array was renamed, or a spare, still has the old name: the newest superblock decides. */
static void the_newest_name_counts(void **state)
{
	struct ddr_scan scan = { .dev = calloc(3, sizeof(*scan.dev)), .n = 3 };
	static struct ddr_scan_array array;
	struct ddr_scan_name list[3];
	struct ddr_error err;

	(void)state;
	for (unsigned int later = 0; later < 2; later++) {
		found(&scan.dev[0], "/a", 1, "data", 4, 10);
		found(&scan.dev[1], "/b", 1, "new", later ? 5 : 4, later ? 2 : 12);
		found(&scan.dev[2], "/c", 2, "data", 1, 2);
		scan.dev[1].supers.copy[0].super.this_member = 1;
		memcpy(scan.dev[1].supers.copy[0].super.gen_prev, scan.dev[0].supers.copy[0].super.gen_id, 16);
		assert_int_equal(ddr_scan_arrays(&scan, list, 3), 2);
		assert_string_equal(list[0].name, "data");
		assert_int_equal(list[0].device, 2);
		assert_string_equal(list[1].name, "new");
		assert_int_equal(list[1].device, 1);
		ddr_scan_assemble(&scan, "data", NULL, &array, &err);
		assert_int_equal(array.n, 1);
		assert_string_equal(array.cand[0].device, "/c");
		ddr_scan_assemble(&scan, "new", NULL, &array, &err);
		assert_int_equal(array.n, 2);
	}
	free(scan.dev);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_disk_that_hangs_counts_as_not_there, make_disks, remove_disks),
		cmocka_unit_test_setup_teardown(a_disk_that_answers_again_is_found, make_disks, remove_disks),
		cmocka_unit_test_setup_teardown(a_disk_that_nobody_needs_delays_nothing, make_disks, remove_disks),
		cmocka_unit_test_setup_teardown(devices_that_the_caller_has_open_are_not_opened, make_disks, remove_disks),
		cmocka_unit_test_setup_teardown(a_slow_disk_does_not_count_as_hung, make_disks, remove_disks),
		cmocka_unit_test_setup_teardown(scanning_ignores_the_environment, make_disks, remove_disks),
		cmocka_unit_test_setup_teardown(many_disks_are_found_in_order, make_disks, remove_disks),
		cmocka_unit_test(two_arrays_of_one_name), cmocka_unit_test(the_newest_name_counts),
		cmocka_unit_test(a_table_line_has_the_options), cmocka_unit_test(a_shadow_is_named), cmocka_unit_test(a_device_in_a_table_line_is_exchanged), cmocka_unit_test(another_place_keeps_its_shadow),
		cmocka_unit_test(a_place_is_emptied_beside_a_shadow), cmocka_unit_test(malformed_table_lines_are_refused),
	};

	alarm(300);	/* a scan that waits for a hanging disk is to fail */
	return cmocka_run_group_tests_name("scan", tests, NULL, NULL);
}
