// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Which devices a start opens, by what udev's database says of them, and when it opens all the same. The machine here is a table:
 * files stand for its disks, and the table gives their records in udev's database.
 */
#include <dirent.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/fixture.h"
#include "lib/disk/look.h"
#include "lib/disk/scan.h"
#include "lib/disk/scan_udev.h"

#define MEMBER_BYTES	(16u << 20)
#define DISKS		16u
#define DATA		1u		/* arrays, by the number of their uuid */
#define OTHER		2u

static struct {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	char dir[32];
	struct disk {
		char name[16];
		struct ddr_scan_record record;
		unsigned int opened, searched;	/* searched: both superblocks were looked for */
	} disk[DISKS];
	unsigned int n;
	char hangs[16];			/* the disk that does not answer */
} machine = { .lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER };

static struct disk *disk_of(const char *path)
{
	const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;

	for (unsigned int i = 0; i < machine.n; i++)
		if (strcmp(machine.disk[i].name, name) == 0)
			return &machine.disk[i];
	fail_msg("no disk %s", path);
	return NULL;
}

/* ---- the machine ----------------------------------------------------------------- */

uid_t __wrap_geteuid(void);
int __wrap_scandir(const char *dir, struct dirent ***list, int (*filter)(const struct dirent *), int (*order)(const struct dirent **, const struct dirent **));
void __wrap_ddr_scan_record_read(const char *name, struct ddr_scan_record *record);
bool __wrap_ddr_scan_worth_opening(const char *name);
int __real_ddr_dev_open(struct ddr_dev *dev, const char *path, unsigned int flags, struct ddr_error *err);
int __wrap_ddr_dev_open(struct ddr_dev *dev, const char *path, unsigned int flags, struct ddr_error *err);
int __real_ddr_dev_read_supers(const struct ddr_dev *dev, struct ddr_supers *out, struct ddr_error *err);
int __wrap_ddr_dev_read_supers(const struct ddr_dev *dev, struct ddr_supers *out, struct ddr_error *err);
bool __real_ddr_dev_may_be_member(const struct ddr_dev *dev);
bool __wrap_ddr_dev_may_be_member(const struct ddr_dev *dev);

uid_t __wrap_geteuid(void)
{
	return 0;
}

int __wrap_scandir(const char *dir, struct dirent ***list, int (*filter)(const struct dirent *), int (*order)(const struct dirent **, const struct dirent **))
{
	static const char *const never[] = { ".", "..", "loop0", "sr0" };
	int n = 0;

	(void)order;
	assert_string_equal(dir, "/sys/class/block");
	*list = calloc(DISKS + 4, sizeof(**list));
	for (unsigned int i = 0; i < machine.n + 4; i++) {
		struct dirent *e = calloc(1, sizeof(*e));

		snprintf(e->d_name, sizeof(e->d_name), "%s", i < 4 ? never[i] : machine.disk[i - 4].name);
		if (filter(e))
			(*list)[n++] = e;
		else
			free(e);
	}
	return n;
}

void __wrap_ddr_scan_record_read(const char *name, struct ddr_scan_record *record)
{
	*record = disk_of(name)->record;
}

bool __wrap_ddr_scan_worth_opening(const char *name)
{
	return disk_of(name) != NULL;
}

int __wrap_ddr_dev_open(struct ddr_dev *dev, const char *path, unsigned int flags, struct ddr_error *err)
{
	char file[64];

	if (strncmp(path, "/dev/", 5) != 0)
		return __real_ddr_dev_open(dev, path, flags, err);
	snprintf(file, sizeof(file), "%s/%s", machine.dir, path + 5);
	pthread_mutex_lock(&machine.lock);
	disk_of(path)->opened++;
	pthread_mutex_unlock(&machine.lock);
	return __real_ddr_dev_open(dev, file, flags | DDR_DEV_FILE, err);
}

static void maybe_hang(const char *path)
{
	pthread_mutex_lock(&machine.lock);
	while (machine.hangs[0] && strstr(path, machine.hangs))
		pthread_cond_wait(&machine.cond, &machine.lock);
	pthread_mutex_unlock(&machine.lock);
}

int __wrap_ddr_dev_read_supers(const struct ddr_dev *dev, struct ddr_supers *out, struct ddr_error *err)
{
	maybe_hang(dev->path);
	pthread_mutex_lock(&machine.lock);
	disk_of(dev->path)->searched++;
	pthread_mutex_unlock(&machine.lock);
	return __real_ddr_dev_read_supers(dev, out, err);
}

bool __wrap_ddr_dev_may_be_member(const struct ddr_dev *dev)
{
	maybe_hang(dev->path);
	return __real_ddr_dev_may_be_member(dev);
}

static void hang(const char *name)
{
	pthread_mutex_lock(&machine.lock);
	snprintf(machine.hangs, sizeof(machine.hangs), "%s", name);
	pthread_cond_broadcast(&machine.cond);
	pthread_mutex_unlock(&machine.lock);
}

/* ---- its disks ------------------------------------------------------------------- */

static struct disk *add_disk(const char *name, const char *type)
{
	struct disk *d = &machine.disk[machine.n++];
	char path[64];
	FILE *f;

	memset(d, 0, sizeof(*d));
	snprintf(d->name, sizeof(d->name), "%s", name);
	d->record.known = true;
	snprintf(d->record.type, sizeof(d->record.type), "%s", type);
	snprintf(path, sizeof(path), "%s/%s", machine.dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(ftruncate(fileno(f), MEMBER_BYTES), 0);
	fclose(f);
	return d;
}

static void super_of(struct ddr_super *sb, unsigned int array, uint16_t member)
{
	fixture_super(sb, 1, 1, DDR_LAYOUT_ROTATING, MEMBER_BYTES, 0);
	fixture_uuid(sb->array_uuid, array);
	memset(sb->name, 0, sizeof(sb->name));
	strcpy(sb->name, array == DATA ? "data" : "other");
	sb->this_member = member;
}

static void write_super(const char *name, struct ddr_super *sb)
{
	struct ddr_error err;
	struct ddr_dev dev;
	char path[64];

	snprintf(path, sizeof(path), "%s/%s", machine.dir, name);
	assert_int_equal(__real_ddr_dev_open(&dev, path, DDR_DEV_WRITE | DDR_DEV_FILE, &err), 0);
	for (sb->seq = 1; sb->seq <= 2; sb->seq++)
		assert_int_equal(ddr_dev_write_super(&dev, sb, &err), 0);
	ddr_dev_close(&dev);
}

static void text_of(const uint8_t uuid[DDR_UUID_LEN], char *text)
{
	for (unsigned int i = 0; i < DDR_UUID_LEN; i++)
		text += sprintf(text, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
}

static const char *uuid_of(unsigned int array)
{
	static char text[2][37];
	uint8_t uuid[DDR_UUID_LEN];

	fixture_uuid(uuid, array);
	text_of(uuid, text[array - 1]);
	return text[array - 1];
}

/* A member, and udev knows it. */
static struct disk *add_member(const char *name, unsigned int array, uint16_t member)
{
	struct disk *d = add_disk(name, "ddraid_member");
	struct ddr_super sb;

	super_of(&sb, array, member);
	write_super(name, &sb);
	strcpy(d->record.uuid, uuid_of(array));
	strcpy(d->record.label, sb.name);
	return d;
}

/* Two whole arrays, a file system, an empty disk, and a path of a multipath device. */
static int make_machine(void **state)
{
	(void)state;
	strcpy(machine.dir, "test-scan-udev-XXXXXX");
	assert_non_null(mkdtemp(machine.dir));
	machine.n = 0;
	add_member("a0", DATA, 0);
	add_member("a1", DATA, 1);
	add_member("a2", DATA, 2);
	add_member("b0", OTHER, 0);
	add_member("b1", OTHER, 1);
	add_member("b2", OTHER, 2);
	add_disk("ext", "ext4");
	add_disk("empty", "");
	add_disk("path", "")->record.path = true;
	return 0;
}

static int remove_machine(void **state)
{
	char path[64];

	(void)state;
	hang("");
	for (unsigned int i = 0; i < machine.n; i++) {
		snprintf(path, sizeof(path), "%s/%s", machine.dir, machine.disk[i].name);
		unlink(path);
	}
	return rmdir(machine.dir);
}

/* Searches @which; the names of the devices that were found: "a0 a1 ". */
static const char *search(const char *which)
{
	const struct ddr_scan_how how = { .limit_ms = 60 * 1000 };
	static char found[256];
	struct ddr_error err;
	struct ddr_scan scan;

	for (unsigned int i = 0; i < machine.n; i++)
		machine.disk[i].opened = machine.disk[i].searched = 0;
	if (ddr_scan_by_udev(&scan, &how, which, &err))
		fail_msg("%s", err.text);
	found[0] = '\0';
	for (size_t i = 0; i < scan.n; i++)
		snprintf(found + strlen(found), sizeof(found) - strlen(found), "%s ", strrchr(scan.dev[i].path, '/') + 1);
	ddr_scan_free(&scan);
	return found;
}

/* Which disks were opened, and which of them were searched for both superblocks. */
static void expect_opened(const char *opened, const char *searched)
{
	char all[2][256] = { "", "" };

	for (unsigned int i = 0; i < machine.n; i++) {
		if (machine.disk[i].opened)
			snprintf(all[0] + strlen(all[0]), sizeof(all[0]) - strlen(all[0]), "%s ", machine.disk[i].name);
		if (machine.disk[i].searched)
			snprintf(all[1] + strlen(all[1]), sizeof(all[1]) - strlen(all[1]), "%s ", machine.disk[i].name);
	}
	assert_string_equal(all[0], opened);
	assert_string_equal(all[1], searched);
}

#define ALL	"a0 a1 a2 b0 b1 b2 ext empty "

/* ---- what is opened -------------------------------------------------------------- */

/* Each start of one array of many opened all disks of the machine, and searched each empty one at 32 places. */
static void only_what_may_belong_to_it_is_opened(void **state)
{
	(void)state;
	assert_string_equal(search(uuid_of(DATA)), "a0 a1 a2 ");
	expect_opened("a0 a1 a2 empty ", "a0 a1 a2 ");
	for (unsigned int i = 0; i < machine.n; i++)
		assert_in_range(machine.disk[i].opened, 0, 1);
	/* another array may have the same name */
	assert_string_equal(search("data"), "a0 a1 a2 b0 b1 b2 ");
	expect_opened("a0 a1 a2 b0 b1 b2 empty ", "a0 a1 a2 b0 b1 b2 ");
	assert_string_equal(search(NULL), "a0 a1 a2 b0 b1 b2 ");
	expect_opened("a0 a1 a2 b0 b1 b2 empty ", "a0 a1 a2 b0 b1 b2 ");
}

/* The environment's list of disks is read as it is, whatever udev says. */
static void a_list_is_read_as_it_is(void **state)
{
	struct ddr_scan_how how = { .limit_ms = 60 * 1000 };
	char listed[128];
	struct ddr_error err;
	struct ddr_scan scan;

	(void)state;
	snprintf(listed, sizeof(listed), "%s/b0 %s/ext %s/a*", machine.dir, machine.dir, machine.dir);
	how.listed = listed;
	assert_int_equal(ddr_scan_by_udev(&scan, &how, uuid_of(OTHER), &err), 0);
	assert_int_equal(scan.n, 4);
	expect_opened("", "a0 a1 a2 b0 ext ");
	ddr_scan_free(&scan);
}

/* Without udev, as in a container, nothing is known: all are read, and once. */
static void without_udev_all_are_read_once(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < machine.n; i++)
		machine.disk[i].record = (struct ddr_scan_record){ .path = machine.disk[i].record.path };
	for (unsigned int k = 0; k < 3; k++) {
		assert_string_equal(search(k == 0 ? uuid_of(DATA) : k == 1 ? "nobody" : NULL), "a0 a1 a2 b0 b1 b2 ");
		expect_opened(ALL, ALL);
		for (unsigned int i = 0; i < machine.n; i++)
			assert_in_range(machine.disk[i].opened, 0, 1);
	}
}

/* udev's record of one disk is missing, is being made, says nothing of a type, or knows a member without its array: it is read. */
static void what_udev_does_not_know_is_read(void **state)
{
	struct ddr_scan_record *r = &disk_of("a2")->record;

	(void)state;
	*r = (struct ddr_scan_record){ 0 };
	assert_string_equal(search(uuid_of(DATA)), "a0 a1 a2 ");
	expect_opened("a0 a1 a2 empty ", "a0 a1 a2 ");
	r->known = true;
	assert_string_equal(search(uuid_of(DATA)), "a0 a1 a2 ");
	expect_opened("a0 a1 a2 empty ", "a0 a1 a2 ");
	strcpy(r->type, "ddraid_member");
	assert_string_equal(search(uuid_of(DATA)), "a0 a1 a2 ");
	expect_opened("a0 a1 a2 empty ", "a0 a1 a2 ");
}

/* ---- when all are read ----------------------------------------------------------- */

/* udev's record of a disk may be from before another node made it a member. */
static void an_old_record_hides_no_member(void **state)
{
	struct ddr_scan_record *r = &disk_of("a2")->record;

	(void)state;
	strcpy(r->type, "ext4");
	for (unsigned int k = 0; k < 3; k++) {
		assert_string_equal(search(k == 0 ? uuid_of(DATA) : k == 1 ? "data" : NULL), "a0 a1 a2 b0 b1 b2 ");
		expect_opened(ALL, ALL);
	}
	strcpy(r->type, "ddraid_member");
	strcpy(r->uuid, uuid_of(OTHER));
	strcpy(r->label, "other");
	assert_string_equal(search(uuid_of(DATA)), "a0 a1 a2 b0 b1 b2 ");
	for (unsigned int i = 0; i < 6; i++)
		strcpy(machine.disk[i].record.type, "ext4");
	for (unsigned int k = 0; k < 3; k++) {
		assert_string_equal(search(k == 0 ? uuid_of(DATA) : k == 1 ? "data" : NULL), "a0 a1 a2 b0 b1 b2 ");
		expect_opened(ALL, ALL);
	}
}

/* Only the second superblock is left, and udev has the disk as empty: the single read finds nothing, and the search does. */
static void a_damaged_member_is_found(void **state)
{
	char path[64], zero[8192] = "";
	FILE *f;

	(void)state;
	snprintf(path, sizeof(path), "%s/a2", machine.dir);
	f = fopen(path, "r+");
	assert_non_null(f);
	assert_int_equal(fwrite(zero, sizeof(zero), 1, f), 1);
	fclose(f);
	disk_of("a2")->record.type[0] = '\0';
	assert_string_equal(search(uuid_of(DATA)), "a0 a1 a2 b0 b1 b2 ");
	expect_opened(ALL, ALL);
}

/*
 * A degraded array may have another half, which has run without this one, on disks that udev's records have as something else: both
 * together are refused. So less than all disks is never enough for it.
 */
static void a_degraded_array_is_searched_everywhere(void **state)
{
	static struct ddr_scan_array array;
	const struct ddr_scan_how how = { .limit_ms = 60 * 1000 };
	struct ddr_super sb;
	struct ddr_error err;
	struct ddr_scan scan;

	(void)state;
	for (uint16_t m = 0; m < 2; m++) {
		super_of(&sb, DATA, m);
		sb.generation = 2;
		memcpy(sb.gen_prev, sb.gen_id, sizeof(sb.gen_prev));
		fixture_uuid(sb.gen_id, 200);
		sb.member[2].state = DDR_MEMBER_FAULTY;
		sb.member[2].since = 2;
		write_super(m ? "a1" : "a0", &sb);
	}
	super_of(&sb, DATA, 2);
	sb.generation = 2;
	memcpy(sb.gen_prev, sb.gen_id, sizeof(sb.gen_prev));
	fixture_uuid(sb.gen_id, 201);
	write_super("a2", &sb);
	strcpy(disk_of("a2")->record.type, "ext4");
	assert_int_equal(ddr_scan_by_udev(&scan, &how, uuid_of(DATA), &err), 0);
	assert_int_equal(ddr_scan_assemble(&scan, uuid_of(DATA), NULL, &array, &err), -1);
	ddr_scan_free(&scan);
	assert_string_equal(search("data"), "a0 a1 a2 b0 b1 b2 ");
	expect_opened(ALL, ALL);
}

/* A disk that udev has as empty may hold a copy of a member by now: an array with a copied member is not started. */
static void a_copy_is_not_missed(void **state)
{
	static struct ddr_scan_array array;
	const struct ddr_scan_how how = { .limit_ms = 60 * 1000 };
	struct ddr_super sb;
	struct ddr_error err;
	struct ddr_scan scan;

	(void)state;
	super_of(&sb, DATA, 1);
	write_super("empty", &sb);
	assert_int_equal(ddr_scan_by_udev(&scan, &how, uuid_of(DATA), &err), 0);
	assert_int_equal(ddr_scan_assemble(&scan, uuid_of(DATA), NULL, &array, &err), -1);
	assert_non_null(strstr(err.text, "are the same member"));
	ddr_scan_free(&scan);
}

/* Finding S13: of two arrays with the same name neither is started automatically, so that of one array finds the other, too. */
static void an_array_of_the_same_name_is_found(void **state)
{
	struct ddr_super sb;

	(void)state;
	for (uint16_t m = 0; m < 3; m++) {
		char name[3] = { 'b', (char)('0' + m), '\0' };

		super_of(&sb, OTHER, m);
		memcpy(sb.name, "data\0", 6);
		write_super(name, &sb);
		strcpy(disk_of(name)->record.label, "data");
	}
	assert_string_equal(search(uuid_of(DATA)), "a0 a1 a2 b0 b1 b2 ");
	expect_opened("a0 a1 a2 b0 b1 b2 empty ", "a0 a1 a2 b0 b1 b2 ");
	/* another node has renamed the array to that name: udev does not know which others have it */
	for (unsigned int i = 0; i < 3; i++)
		strcpy(machine.disk[i].record.label, "old");
	assert_string_equal(search(uuid_of(DATA)), "a0 a1 a2 b0 b1 b2 ");
	expect_opened(ALL, ALL);
}

/* ---- disks that hang ------------------------------------------------------------- */

/* The first, short scan does not wait for a disk that hangs; the second one reports it if it is late, and only once. */
static void a_late_disk_is_reported_once(void **state)
{
	const struct ddr_scan_how how = { .limit_ms = 60 * 1000 };
	struct ddr_look *look;
	struct ddr_error err;
	struct ddr_scan scan;

	(void)state;
	hang("a2");
	assert_int_equal(ddr_look_start(&look, "/dev/a2", 0, 50, &err), DDR_LOOK_RUNS);
	assert_false(ddr_look_wait(look));
	ddr_look_put(look);
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(ddr_scan_by_udev(&scan, &how, uuid_of(DATA), &err), 0);
		assert_int_equal(scan.n, 5);
		assert_int_equal(scan.n_hung, 1);
		assert_string_equal(scan.hung[0].path, "/dev/a2");
		assert_int_equal(scan.hung[0].known, i);
		ddr_scan_free(&scan);
	}
	assert_int_equal(disk_of("a2")->opened, 1);
	hang("");
	for (unsigned int i = 0; i < 1000 && strcmp(search(uuid_of(DATA)), "a0 a1 a2 ") != 0; i++)
		usleep(10 * 1000);
	assert_string_equal(search(uuid_of(DATA)), "a0 a1 a2 ");
}

static void *let_go(void *unused)
{
	usleep((DDR_SCAN_GRACE_MS + 1000) * 1000);
	hang("");
	return unused;
}

/* A disk that was slow at the single read is not opened again: the same look then searches. */
static void a_brief_look_becomes_a_full_one(void **state)
{
	const struct ddr_scan_how how = { .limit_ms = 60 * 1000 };
	struct ddr_error err;
	struct ddr_scan scan;
	pthread_t thread;

	(void)state;
	strcpy(disk_of("a2")->record.type, "ext4");	/* so the first scan is not enough */
	hang("empty");
	assert_int_equal(pthread_create(&thread, NULL, let_go, NULL), 0);
	assert_int_equal(ddr_scan_by_udev(&scan, &how, uuid_of(DATA), &err), 0);
	pthread_join(thread, NULL);
	assert_int_equal(scan.n_hung, 0);
	assert_int_equal(disk_of("empty")->opened, 1);
	assert_int_equal(disk_of("empty")->searched, 1);
	ddr_scan_free(&scan);
}

/* ---- the records ----------------------------------------------------------------- */

static void a_record_is_read(void **state)
{
	struct ddr_scan_record r;

	(void)state;
	assert_true(ddr_scan_record_parse("S:disk/by-id/x\nI:4711\nE:ID_FS_TYPE=ddraid_member\nE:ID_FS_UUID=0a1b\nE:ID_FS_UUID_SUB=77\n"
					  "E:ID_FS_LABEL=data\nG:systemd\nV:1\n", &r));
	assert_true(r.known && !r.path);
	assert_string_equal(r.type, "ddraid_member");
	assert_string_equal(r.uuid, "0a1b");
	assert_string_equal(r.label, "data");
	assert_true(ddr_scan_record_parse("I:4711\nE:ID_FS_TYPE=\nE:DM_MULTIPATH_DEVICE_PATH=1\nV:1", &r));
	assert_true(r.known && r.path && !r.type[0]);
	assert_true(ddr_scan_record_parse("V:1\nI:1\nE:DM_MULTIPATH_DEVICE_PATH=0\nE:nothing\nE:ID_FS_TYPE=mpath_member", &r));
	assert_true(r.known && r.path);
	/* udev is still at it, or has only made a link */
	assert_true(ddr_scan_record_parse("I:1\nE:ID_PROCESSING=1\nV:1\n", &r));
	assert_false(r.known);
	assert_true(ddr_scan_record_parse("S:I:1\nV:1\n", &r));
	assert_false(r.known);
	/* of other formats libudev is asked */
	assert_false(ddr_scan_record_parse("I:1\nE:ID_FS_TYPE=ext4\n", &r));
	assert_false(ddr_scan_record_parse("I:1\nE:ID_FS_TYPE=ext4\nV:2\n", &r));
	assert_false(ddr_scan_record_parse("I:1\nE:ID_FS_TYPE=ext4\nV:10\n", &r));
	assert_false(ddr_scan_record_parse("", &r));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(only_what_may_belong_to_it_is_opened, make_machine, remove_machine),
		cmocka_unit_test_setup_teardown(a_list_is_read_as_it_is, make_machine, remove_machine),
		cmocka_unit_test_setup_teardown(without_udev_all_are_read_once, make_machine, remove_machine),
		cmocka_unit_test_setup_teardown(what_udev_does_not_know_is_read, make_machine, remove_machine),
		cmocka_unit_test_setup_teardown(an_old_record_hides_no_member, make_machine, remove_machine),
		cmocka_unit_test_setup_teardown(a_damaged_member_is_found, make_machine, remove_machine),
		cmocka_unit_test_setup_teardown(a_degraded_array_is_searched_everywhere, make_machine, remove_machine),
		cmocka_unit_test_setup_teardown(a_copy_is_not_missed, make_machine, remove_machine),
		cmocka_unit_test_setup_teardown(an_array_of_the_same_name_is_found, make_machine, remove_machine),
		cmocka_unit_test_setup_teardown(a_late_disk_is_reported_once, make_machine, remove_machine),
		cmocka_unit_test_setup_teardown(a_brief_look_becomes_a_full_one, make_machine, remove_machine),
		cmocka_unit_test(a_record_is_read),
	};

	alarm(300);	/* a scan that waits for a hanging disk is to fail */
	return cmocka_run_group_tests_name("scan_udev", tests, NULL, NULL);
}
