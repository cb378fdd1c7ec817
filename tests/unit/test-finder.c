// SPDX-License-Identifier: GPL-2.0-or-later
/* The search for the devices of members, on image files: only what is read after the lock counts. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <qb/qblog.h>
#include <qb/qbloop.h>

#include "tests/unit/fixture.h"
#include "daemon/disk/finder.h"
#include "daemon/disk/members.h"
#include "lib/disk/scan.h"

#define MEMBER_BYTES	(16u << 20)

static struct {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	char dir[32];
	char pattern[64];
	bool hangs;			/* reads of a file with "hung" in its name hang */
	void (*before_lock)(const char *path);	/* what another program does before it releases the disk */
} disk = { .lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER };

int __real_ddr_dev_lock(struct ddr_dev *dev, unsigned int wait_ms, struct ddr_error *err);
int __wrap_ddr_dev_lock(struct ddr_dev *dev, unsigned int wait_ms, struct ddr_error *err);
int __real_ddr_dev_read_supers(const struct ddr_dev *dev, struct ddr_supers *out, struct ddr_error *err);
int __wrap_ddr_dev_read_supers(const struct ddr_dev *dev, struct ddr_supers *out, struct ddr_error *err);

int __real_ddr_scan_devices(struct ddr_scan *scan, const struct ddr_scan_how *how, struct ddr_error *err);
int __wrap_ddr_scan_devices(struct ddr_scan *scan, const struct ddr_scan_how *how, struct ddr_error *err);

/* The daemon looks at all block devices, whatever its environment says. Here only these files exist. */
int __wrap_ddr_scan_devices(struct ddr_scan *scan, const struct ddr_scan_how *how, struct ddr_error *err)
{
	struct ddr_scan_how here = *how;

	assert_null(how->listed);
	here.listed = disk.pattern;
	return __real_ddr_scan_devices(scan, &here, err);
}

int __wrap_ddr_dev_lock(struct ddr_dev *dev, unsigned int wait_ms, struct ddr_error *err)
{
	if (disk.before_lock)
		disk.before_lock(dev->path);
	return __real_ddr_dev_lock(dev, wait_ms, err);
}

int __wrap_ddr_dev_read_supers(const struct ddr_dev *dev, struct ddr_supers *out, struct ddr_error *err)
{
	pthread_mutex_lock(&disk.lock);
	while (disk.hangs && strstr(dev->path, "hung"))
		pthread_cond_wait(&disk.cond, &disk.lock);
	pthread_mutex_unlock(&disk.lock);
	return __real_ddr_dev_read_supers(dev, out, err);
}

void ddr_members_tell_usual(const struct ddr_dev *dev)
{
	(void)dev;
}

static void hang(bool yes)
{
	pthread_mutex_lock(&disk.lock);
	disk.hangs = yes;
	pthread_cond_broadcast(&disk.cond);
	pthread_mutex_unlock(&disk.lock);
}

/* Both superblocks: as member @member of the array number @array, at generation @generation. */
static void write_member(const char *path, uint16_t member, uint64_t array, uint64_t generation)
{
	struct ddr_super sb;
	struct ddr_error err;
	struct ddr_dev dev;

	fixture_super(&sb, 1, 1, DDR_LAYOUT_ROTATING, MEMBER_BYTES, 0);
	sb.this_member = member;
	sb.generation = generation;
	if (generation > 1)
		fixture_uuid(sb.gen_prev, 99);
	fixture_uuid(sb.array_uuid, array);
	assert_int_equal(ddr_dev_open(&dev, path, DDR_DEV_WRITE | DDR_DEV_FILE, &err), 0);
	for (sb.seq = 1; sb.seq <= 2; sb.seq++)
		if (ddr_dev_write_super(&dev, &sb, &err))
			fail_msg("%s", err.text);
	ddr_dev_close(&dev);
}

static const char *path_of(const char *name)
{
	static char path[64];

	snprintf(path, sizeof(path), "%s/%s", disk.dir, name);
	return path;
}

static void make_disk(const char *name, uint16_t member, uint64_t array)
{
	FILE *f = fopen(path_of(name), "w");

	assert_non_null(f);
	assert_int_equal(ftruncate(fileno(f), MEMBER_BYTES), 0);
	fclose(f);
	write_member(path_of(name), member, array, 1);
}

/* Swap space, as mkswap makes it. */
static void make_swap(const char *path)
{
	static const uint8_t head[12] = { 1, 0, 0, 0, 100 };
	FILE *f = fopen(path, "r+");

	assert_non_null(f);
	assert_int_equal(fseek(f, 1024, SEEK_SET), 0);
	assert_int_equal(fwrite(head, 1, sizeof(head), f), sizeof(head));
	assert_int_equal(fseek(f, 4086, SEEK_SET), 0);
	assert_int_equal(fwrite("SWAPSPACE2", 1, 10, f), 10);
	assert_int_equal(fclose(f), 0);
}

static int make_disks(void **state)
{
	(void)state;
	strcpy(disk.dir, "test-finder-XXXXXX");
	assert_non_null(mkdtemp(disk.dir));
	make_disk("a-hung", 0, 7);		/* of another array */
	make_disk("b", 1, 1);
	snprintf(disk.pattern, sizeof(disk.pattern), "%s/*", disk.dir);
	setenv("DDRAID_DEVICES", "/nothing/here", 1);
	disk.before_lock = NULL;
	return 0;
}

static int remove_disks(void **state)
{
	(void)state;
	hang(false);
	unlink(path_of("a-hung"));
	unlink(path_of("b"));
	unlink(path_of("c"));
	return rmdir(disk.dir);
}

static void on_done(void *ctx, struct ddr_finder *f)
{
	(void)f;
	qb_loop_stop(ctx);
}

/* Looks for member 1 of array 1. */
static struct ddr_finder *find(unsigned int limit_ms)
{
	qb_loop_t *loop = qb_loop_create();
	struct ddr_finder *f = calloc(1, sizeof(*f));
	struct ddr_super sb;

	assert_true(loop && f);
	fixture_super(&sb, 1, 1, DDR_LAYOUT_ROTATING, MEMBER_BYTES, 0);
	memcpy(f->array, sb.array_uuid, sizeof(f->array));
	memcpy(f->uuid[1], sb.member[1].uuid, sizeof(f->uuid[1]));
	snprintf(f->name, sizeof(f->name), "one");
	f->bytes = MEMBER_BYTES;
	f->want = 2;
	f->limit_ms = limit_ms;
	f->open_flags = DDR_DEV_FILE;
	f->done = on_done;
	f->ctx = loop;
	assert_int_equal(ddr_finder_start(f, loop), 0);
	qb_loop_run(loop);
	qb_loop_destroy(loop);
	return f;
}

static void not_found(const char *why)
{
	struct ddr_finder *f = find(60 * 1000);

	assert_int_equal(f->found, 0);
	assert_int_equal(f->dev[1].fd, -1);
	if (!strstr(f->error[1].text, why))
		fail_msg("'%s' does not say '%s'", f->error[1].text, why);
	ddr_finder_free(f);
}

static void an_unchanged_disk_is_found(void **state)
{
	struct ddr_finder *f = find(60 * 1000);

	(void)state;
	assert_int_equal(f->found, 2);
	assert_true(f->dev[1].fd >= 0);
	assert_int_equal(f->super[1].generation, 1);
	ddr_finder_free(f);
}

static void goes_to_another_array(const char *path)
{
	write_member(path, 1, 5, 1);
}

static void becomes_another_member(const char *path)
{
	write_member(path, 2, 1, 1);
}

static void is_written_anew(const char *path)
{
	write_member(path, 1, 1, 2);
}

/* Finding U1: its superblock was read, then the device was locked. In between another process may have made it a member of another array. */
static void a_disk_that_changed_before_it_was_locked_is_not_used(void **state)
{
	struct ddr_finder *f;

	(void)state;
	disk.before_lock = is_written_anew;
	f = find(60 * 1000);
	assert_int_equal(f->found, 2);
	assert_int_equal(f->super[1].generation, 2);
	ddr_finder_free(f);
	disk.before_lock = goes_to_another_array;
	not_found("is no longer that member");
	write_member(path_of("b"), 1, 1, 1);
	disk.before_lock = becomes_another_member;
	not_found("is no longer that member");
	write_member(path_of("b"), 1, 1, 1);
	disk.before_lock = make_swap;
	not_found("it also holds a swap");
}

/* Finding S35: a spare, or a returning member, that another program has written to is not taken. */
static void a_disk_with_another_signature_is_not_used(void **state)
{
	(void)state;
	make_swap(path_of("b"));
	not_found("it also holds a swap other, so another program has written to it; ddraid add --overwrite");
}

/* Finding T14: a disk that hangs and is not looked for delayed each search by a minute, and with it every disk that was added. */
static void a_disk_of_others_that_hangs_delays_nothing(void **state)
{
	struct timespec begun, ended;
	struct ddr_finder *f;

	(void)state;
	hang(true);
	clock_gettime(CLOCK_MONOTONIC, &begun);
	f = find(3600 * 1000);
	clock_gettime(CLOCK_MONOTONIC, &ended);
	assert_int_equal(f->found, 2);
	assert_true(f->hung);
	assert_in_range(ended.tv_sec - begun.tv_sec, 0, 60);
	ddr_finder_free(f);
}

static char logged[4096];	/* lines of the log */

static void keep_line(int32_t target, struct qb_log_callsite *site, struct timespec *when, const char *text)
{
	size_t used = strlen(logged);

	(void)target, (void)site, (void)when;
	snprintf(logged + used, sizeof(logged) - used, "%s\n", text);
}

/* Finding S41: the log named a device that hangs, and not for which array it was looked at. */
static void the_log_names_the_array(void **state)
{
	char name[128];
	int32_t target;

	(void)state;
	qb_log_init("test-finder", 0, 0);
	qb_log_ctl(QB_LOG_SYSLOG, QB_LOG_CONF_ENABLED, QB_FALSE);
	target = qb_log_custom_open(keep_line, NULL, NULL, NULL);
	assert_true(target >= 0);
	qb_log_filter_ctl(target, QB_LOG_FILTER_ADD, QB_LOG_FILTER_FILE, "*", LOG_DEBUG);
	qb_log_ctl(target, QB_LOG_CONF_ENABLED, QB_TRUE);
	hang(true);
	unlink(path_of("b"));
	ddr_finder_free(find(1));
	assert_non_null(strstr(logged, "array 'one': "));
	snprintf(name, sizeof(name), "%s has not answered", path_of("a-hung"));
	assert_non_null(strstr(logged, name));
	qb_log_fini();
}

static void two_disks_that_claim_one_member_are_not_used(void **state)
{
	(void)state;
	make_disk("c", 1, 1);
	not_found("one is a copy of the other");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(an_unchanged_disk_is_found, make_disks, remove_disks),
		cmocka_unit_test_setup_teardown(a_disk_that_changed_before_it_was_locked_is_not_used, make_disks, remove_disks),
		cmocka_unit_test_setup_teardown(a_disk_with_another_signature_is_not_used, make_disks, remove_disks),
		cmocka_unit_test_setup_teardown(a_disk_of_others_that_hangs_delays_nothing, make_disks, remove_disks),
		cmocka_unit_test_setup_teardown(the_log_names_the_array, make_disks, remove_disks),
		cmocka_unit_test_setup_teardown(two_disks_that_claim_one_member_are_not_used, make_disks, remove_disks),
	};

	alarm(300);	/* a search that waits for a hanging disk is to fail */
	return cmocka_run_group_tests_name("finder", tests, NULL, NULL);
}
