// SPDX-License-Identifier: GPL-2.0-or-later
/* Loading an array, or reading it anew, while a member hangs or stays locked: files that are called devices. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include <linux/dm-ioctl.h>
#include <qb/qbloop.h>
#include <qb/qbutil.h>

#include "tests/unit/fixture.h"
#include "daemon/base/daemon.h"
#include "daemon/disk/finder.h"
#include "daemon/disk/loader.h"
#include "daemon/disk/reload.h"
#include "daemon/disk/state.h"
#include "lib/disk/look.h"
#include "lib/disk/scan.h"

#define MEMBERS		3u
#define MEMBER_BYTES	(16u << 20)
#define LIMIT_MS	1500u
#define MAJOR		511u
#define SEQ		2u			/* of what all members have in the log of slot 0, and in the map */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	char dir[32];
	uint32_t open_hangs, read_hangs;	/* members */
	uint32_t area_hangs;			/* what is read of log and map */
	uint32_t area_fails;
	unsigned int hung[MEMBERS];		/* threads that have come so far */
	struct ddr_super sb;
	qb_loop_t *loop;
	struct ddr_load *load;
	bool whole;				/* log and map, too */
	bool ended;
	const char *dm_name;			/* beginning of what device-mapper calls the members */
	int locked[MEMBERS];			/* descriptors of another program */
	uint32_t usual_locked;			/* members: the usual node is */
	bool usual_other, resumed;
	bool unshown;				/* the members are in no sysfs yet ... */
	unsigned int asked_dm;			/* ... and device-mapper was asked for a name */
} rig = { .lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER, .dm_name = "" };

/* ---- devices --------------------------------------------------------------------- */

static bool member_of(const char *path, unsigned int *m)
{
	const char *at = strstr(path, "ddtest");

	return at && sscanf(at, "ddtest%u", m) == 1 && *m < MEMBERS;
}

static void hang(const uint32_t *which, unsigned int m)
{
	pthread_mutex_lock(&rig.lock);
	if (*which & (1u << m))
		rig.hung[m]++;
	while (*which & (1u << m))
		pthread_cond_wait(&rig.cond, &rig.lock);
	pthread_mutex_unlock(&rig.lock);
}

int __real_ddr_dev_open(struct ddr_dev *dev, const char *path, unsigned int flags, struct ddr_error *err);
int __wrap_ddr_dev_open(struct ddr_dev *dev, const char *path, unsigned int flags, struct ddr_error *err);
int __wrap_ddr_dev_open(struct ddr_dev *dev, const char *path, unsigned int flags, struct ddr_error *err)
{
	char file[64];
	unsigned int m;

	assert_true(member_of(path, &m));
	hang(&rig.open_hangs, m);
	snprintf(file, sizeof(file), "%s/ddtest%u", rig.dir, m);
	return __real_ddr_dev_open(dev, file, flags | DDR_DEV_FILE, err);
}

enum ddr_lock_state __real_ddr_dev_try_lock(struct ddr_dev *dev, struct ddr_holder *holder, struct ddr_error *err);
enum ddr_lock_state __wrap_ddr_dev_try_lock(struct ddr_dev *dev, struct ddr_holder *holder, struct ddr_error *err);
enum ddr_lock_state __wrap_ddr_dev_try_lock(struct ddr_dev *dev, struct ddr_holder *holder, struct ddr_error *err)
{
	unsigned int m;

	assert_true(member_of(dev->path, &m));
	if (!(rig.usual_locked & (1u << m)))
		return __real_ddr_dev_try_lock(dev, holder, err);
	if (holder)
		*holder = (struct ddr_holder){ .text = "mkfs (pid 7)", .other = rig.usual_other };
	return DDR_LOCK_BUSY_USUAL;
}

void __wrap_ddr_dev_pass_usual(struct ddr_dev *dev);
void __wrap_ddr_dev_pass_usual(struct ddr_dev *dev)
{
	unsigned int m;

	assert_true(member_of(dev->path, &m));
	rig.usual_locked &= ~(1u << m);
}

int __real_ddr_dev_read_supers(const struct ddr_dev *dev, struct ddr_supers *out, struct ddr_error *err);
int __wrap_ddr_dev_read_supers(const struct ddr_dev *dev, struct ddr_supers *out, struct ddr_error *err);
int __wrap_ddr_dev_read_supers(const struct ddr_dev *dev, struct ddr_supers *out, struct ddr_error *err)
{
	unsigned int m;

	assert_true(member_of(dev->path, &m));
	hang(&rig.read_hangs, m);
	return __real_ddr_dev_read_supers(dev, out, err);
}

/* Of look.c alone: what reads superblocks is not wrapped in there. */
int __real_ddr_dev_read(const struct ddr_dev *dev, void *buf, size_t len, uint64_t offset, struct ddr_error *err);
int __wrap_ddr_dev_read(const struct ddr_dev *dev, void *buf, size_t len, uint64_t offset, struct ddr_error *err);
int __wrap_ddr_dev_read(const struct ddr_dev *dev, void *buf, size_t len, uint64_t offset, struct ddr_error *err)
{
	unsigned int m;
	int ret;

	assert_true(member_of(dev->path, &m));
	hang(&rig.area_hangs, m);
	ret = __real_ddr_dev_read(dev, buf, len, offset, err);
	return rig.area_fails & (1u << m) ? ddr_error_set(err, "%s: cannot read", dev->path) : ret;
}

FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode)
{
	unsigned int m;
	char file[64];
	FILE *f;

	if (sscanf(path, "/sys/dev/block/511:%u/uevent", &m) != 1)
		return __real_fopen(path, mode);
	snprintf(file, sizeof(file), "%s/uevent", rig.dir);
	f = __real_fopen(file, "w+");
	if (f) {
		if (strstr(path, "/dm/name"))
			fprintf(f, "%s.ddtest%u\n", rig.dm_name, m);
		else
			fprintf(f, "DEVNAME=ddtest%u\n", m);
		rewind(f);
	}
	return f;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
	va_list ap;
	int mode;

	va_start(ap, flags);
	mode = flags & O_CREAT ? va_arg(ap, int) : 0;
	va_end(ap);
	return __real_open(strcmp(path, "/dev/mapper/control") ? path : "/dev/null", flags, mode);
}

/* Is the member in sysfs? */
int __real_access(const char *path, int how);
int __wrap_access(const char *path, int how);
int __wrap_access(const char *path, int how)
{
	unsigned int m;

	return sscanf(path, "/sys/dev/block/511:%u", &m) == 1 ? (rig.unshown ? -1 : 0) : __real_access(path, how);
}

/* What device-mapper knows of the members. */
int __real_ioctl(int fd, unsigned long what, void *arg);
int __wrap_ioctl(int fd, unsigned long what, void *arg);
int __wrap_ioctl(int fd, unsigned long what, void *arg)
{
	struct dm_ioctl *io = arg;

	if (what != DM_DEV_STATUS)
		return __real_ioctl(fd, what, arg);
	assert_int_equal(io->version[0], DM_VERSION_MAJOR);
	assert_int_equal(io->data_size, sizeof(*io));
	if (major(io->dev) != MAJOR) {
		errno = ENXIO;
		return -1;
	}
	rig.asked_dm++;
	snprintf(io->name, sizeof(io->name), "%s.ddtest%u", rig.dm_name, minor(io->dev));
	return 0;
}

int __real_stat(const char *path, struct stat *st);
int __wrap_stat(const char *path, struct stat *st);
int __wrap_stat(const char *path, struct stat *st)
{
	unsigned int m;

	if (strncmp(path, "/dev/", 5) != 0 || strstr(path, "no-node") || !member_of(path, &m))
		return __real_stat(path, st);
	*st = (struct stat){ .st_mode = S_IFBLK | 0600, .st_rdev = makedev(MAJOR, m) };
	return 0;
}

static void let_all_hang(uint32_t open, uint32_t read, uint32_t area)
{
	pthread_mutex_lock(&rig.lock);
	rig.open_hangs = open;
	rig.read_hangs = read;
	rig.area_hangs = area;
	pthread_cond_broadcast(&rig.cond);
	pthread_mutex_unlock(&rig.lock);
}

static void let_hang(uint32_t open, uint32_t read)
{
	let_all_hang(open, read, 0);
}

static void let_area_hang(uint32_t area)
{
	let_all_hang(0, 0, area);
}

/* How many have come to hang in member @m. */
static unsigned int hung(unsigned int m)
{
	unsigned int n;

	pthread_mutex_lock(&rig.lock);
	n = rig.hung[m];
	pthread_mutex_unlock(&rig.lock);
	return n;
}

/* ---- the rest of the daemon ------------------------------------------------------ */

uint64_t ddr_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static struct ddr_known remembered, lowered;	/* of the array, by the played state */
static struct ddr_known said;			/* by the operator */
static int lower_fails;

void ddr_state_load(const char *dir, const uint8_t uuid[16], struct ddr_known *known)
{
	(void)dir, (void)uuid;
	*known = remembered;
}

int ddr_state_lower(const char *dir, const uint8_t uuid[16], const struct ddr_known *known)
{
	(void)dir, (void)uuid;
	lowered = *known;
	return lower_fails;
}

void ddr_finder_tell_hung(const struct ddr_scan *scan, const char *array, unsigned int limit_ms)
{
	(void)scan, (void)array, (void)limit_ms;
}

/* ---- loads ----------------------------------------------------------------------- */

static void on_loaded(void *ctx)
{
	(void)ctx;
	rig.ended = true;
	qb_loop_stop(rig.loop);
}

static void begin(void)
{
	struct ddr_load *l = calloc(1, sizeof(*l));
	const struct ddr_super *sb = &rig.sb;

	assert_non_null(l);
	memcpy(l->bind.uuid, sb->array_uuid, sizeof(l->bind.uuid));
	l->bind.order = sb->order;
	l->bind.parity = sb->parity;
	l->bind.layout = sb->layout;
	l->bind.region_sectors = sb->region_size / 512;
	l->bind.data_offset_sectors = (uint32_t)(sb->data_offset / 512);
	l->bind.sectors = sb->array_blocks * 8;
	l->bind.members = sb->roles;
	for (unsigned int p = 0; p < MEMBERS; p++)
		l->bind.dev_major[p] = MAJOR, l->bind.dev_minor[p] = p;
	l->supers_only = !rig.whole;
	l->resumed = rig.resumed;
	l->limit_ms = LIMIT_MS;
	l->older = said;
	l->done = on_loaded;
	rig.load = l;
	rig.ended = false;
	assert_int_equal(ddr_load_start(l, rig.loop), 0);
}

static void load(void)
{
	begin();
	while (!rig.ended)
		qb_loop_run(rig.loop);
}

static void end(void)
{
	ddr_load_free(rig.load);
	rig.load = NULL;
}

static void make_block(const struct ddr_dev *dev, uint16_t slot, uint64_t seq)
{
	struct ddr_log_info info = { .slot = slot, .seq = seq, .generation = rig.sb.generation, .node = 1 };
	uint64_t at = slot == DDR_MAP_SLOT ? ddr_map_offset(&rig.sb, 0, seq & 1) : ddr_log_offset(&rig.sb, slot, 0, seq & 1);
	struct ddr_disk_log *blk = ddr_dev_buffer(sizeof(*blk));
	struct ddr_error err;

	assert_non_null(blk);
	memcpy(info.array_uuid, rig.sb.array_uuid, sizeof(info.array_uuid));
	ddr_log_encode(blk, &info);
	assert_int_equal(ddr_dev_write(dev, blk, sizeof(*blk), at, &err), 0);
	free(blk);
}

/* The log of slot 0 is newer on member 1 than on the others. */
static void make_member(unsigned int m)
{
	struct ddr_super sb = rig.sb;
	struct ddr_error err;
	struct ddr_dev dev;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%s/ddtest%u", rig.dir, m);
	fd = open(path, O_CREAT | O_RDWR, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, MEMBER_BYTES), 0);
	close(fd);
	assert_int_equal(__real_ddr_dev_open(&dev, path, DDR_DEV_WRITE | DDR_DEV_FILE, &err), 0);
	sb.this_member = (uint16_t)m;
	for (sb.seq = 1; sb.seq <= 2; sb.seq++)
		assert_int_equal(ddr_dev_write_super(&dev, &sb, &err), 0);
	make_block(&dev, 0, SEQ);
	make_block(&dev, DDR_MAP_SLOT, SEQ);
	if (m == 1)
		make_block(&dev, 0, SEQ + 1);
	ddr_dev_close(&dev);
	rig.locked[m] = -1;
	rig.hung[m] = 0;
}

int __wrap_ddr_scan_devices(struct ddr_scan *scan, const struct ddr_scan_how *how, struct ddr_error *err);

/* The daemon looks at all block devices, whatever its environment says. Here there are none but those of the table. */
int __wrap_ddr_scan_devices(struct ddr_scan *scan, const struct ddr_scan_how *how, struct ddr_error *err)
{
	(void)err;
	assert_null(how->listed);
	*scan = (struct ddr_scan){ 0 };
	return 0;
}

static int set_up(void **state)
{
	(void)state;
	strcpy(rig.dir, "test-load-XXXXXX");
	assert_non_null(mkdtemp(rig.dir));
	fixture_super(&rig.sb, 1, 1, DDR_LAYOUT_ROTATING, MEMBER_BYTES, 0);
	assert_int_equal(rig.sb.roles, MEMBERS);
	for (unsigned int m = 0; m < MEMBERS; m++)
		make_member(m);
	rig.whole = false;
	rig.area_fails = rig.usual_locked = 0;
	rig.usual_other = rig.resumed = false;
	rig.loop = qb_loop_create();
	return rig.loop ? 0 : -1;
}

static void unlock(unsigned int m)
{
	if (rig.locked[m] >= 0)
		close(rig.locked[m]);
	rig.locked[m] = -1;
}

/* Another program, or a request of an earlier daemon. */
static void lock(unsigned int m)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/ddtest%u", rig.dir, m);
	rig.locked[m] = open(path, O_RDWR);
	assert_int_equal(flock(rig.locked[m], LOCK_EX | LOCK_NB), 0);
}

static int tear_down(void **state)
{
	char path[64];

	(void)state;
	let_hang(0, 0);
	for (unsigned int m = 0; m < MEMBERS; m++) {
		unlock(m);
		snprintf(path, sizeof(path), "%s/ddtest%u", rig.dir, m);
		unlink(path);
	}
	snprintf(path, sizeof(path), "%s/uevent", rig.dir);
	unlink(path);
	qb_loop_destroy(rig.loop);
	return rmdir(rig.dir);
}

static void expect_without(unsigned int m)
{
	assert_string_equal(rig.load->error.text, "");
	assert_true(rig.load->ok);
	assert_int_equal(rig.load->present, 7u & ~(1u << m));
	assert_int_equal(rig.load->table, 7u & ~(1u << m));
	assert_int_equal(rig.load->members->open, 7u & ~(1u << m));
	assert_int_equal(rig.load->members->named, 7);
	assert_true(rig.load->members->error[m][0]);
	assert_true(rig.load->assembly.note[0]);
}

static void all_are_there(void **state)
{
	(void)state;
	load();
	assert_true(rig.load->ok);
	assert_int_equal(rig.load->present, 7);
	assert_int_equal(rig.load->members->open, 7);
	assert_string_equal(rig.load->assembly.note, "");
	end();
}

/* Swap space, as mkswap makes it on a disk on which it finds nothing. */
static void make_swap(unsigned int m)
{
	static const uint8_t head[12] = { 1, 0, 0, 0, 100 };
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%s/ddtest%u", rig.dir, m);
	fd = open(path, O_RDWR);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, head, sizeof(head), 1024), sizeof(head));
	assert_int_equal(pwrite(fd, "SWAPSPACE2", 10, 4086), 10);
	close(fd);
}

/*
 * Finding S35: a table that names a member to which another program has written. It is not there for the array; a node that joins others is
 * refused, since they have it in sync, and that would be over by the start of another node.
 */
static void one_that_was_overwritten(void **state)
{
	(void)state;
	make_swap(1);
	rig.whole = true;
	load();
	expect_without(1);
	assert_non_null(strstr(rig.load->members->error[1], "holds a swap"));
	end();
	rig.whole = false;
	load();
	assert_false(rig.load->ok);
	assert_non_null(strstr(rig.load->error.text, "ddtest1 also holds a swap"));
	assert_non_null(strstr(rig.load->error.text, "ddraid fail fixture 1"));
	end();
}

/*
 * Finding S10: of a member's name of 87 characters 63 were left, by which no command could open it. Device-mapper allows 127. A name that
 * does not open the device is of no use either: then it is the kernel's. Finding S42: what is not in sysfs yet has its name from device-mapper.
 */
static void a_name_is_whole_and_opens_the_device(void **state)
{
	char name[128], whole[160];

	(void)state;
	memset(name, 'n', 119);
	name[119] = '\0';
	rig.dm_name = name;
	load();
	assert_true(rig.load->ok);
	for (unsigned int m = 0; m < MEMBERS; m++) {
		snprintf(whole, sizeof(whole), "/dev/mapper/%s.ddtest%u", name, m);
		assert_int_equal(strlen(whole), 12 + 127);
		assert_string_equal(rig.load->members->name[m], whole);
	}
	assert_int_equal(rig.asked_dm, 0);		/* sysfs waits for nobody */
	end();
	assert_true(ddr_device_dm_name(MAJOR, 1, whole, sizeof(whole)));
	rig.unshown = true;
	memset(whole, 0, sizeof(whole));
	assert_true(ddr_device_dm_name(MAJOR, 1, whole, sizeof(whole)));
	assert_string_equal(whole + 119, ".ddtest1");
	assert_int_equal(rig.asked_dm, 1);
	assert_false(ddr_device_dm_name(MAJOR + 1, 1, whole, sizeof(whole)));
	rig.unshown = false;
	rig.dm_name = "no-node";
	load();
	assert_true(rig.load->ok);
	assert_string_equal(rig.load->members->name[1], "/dev/ddtest1");
	end();
	rig.dm_name = "";
}

/* What hangs keeps our lock, and is not read again; when it has ended the member is one like others. */
static void a_read_that_hangs(void **state)
{
	uint64_t begun = ddr_now_ms();

	(void)state;
	let_hang(0, 1u << 1);
	load();
	assert_in_range(ddr_now_ms() - begun, LIMIT_MS, 20 * LIMIT_MS);
	expect_without(1);
	end();
	load();
	expect_without(1);
	assert_int_equal(rig.hung[1], 1);
	end();
	let_hang(0, 0);
	for (unsigned int i = 0; i < 100; i++) {	/* the thread is not ours to wait for */
		load();
		if (rig.load->present == 7)
			break;
		expect_without(1);
		end();
	}
	assert_int_equal(rig.load->present, 7);
	end();
}

static void an_open_that_hangs(void **state)
{
	(void)state;
	let_hang(1u << 2, 0);
	load();
	expect_without(2);
	end();
	load();
	expect_without(2);
	assert_int_equal(rig.hung[2], 1);
	end();
}

/* More than the parity covers. */
static void two_that_hang(void **state)
{
	(void)state;
	let_hang(1u << 2, 1u << 0);
	load();
	assert_false(rig.load->ok);
	assert_non_null(strstr(rig.load->error.text, "cannot start"));
	end();
}

static void see_waits(void *data)
{
	assert_false(rig.ended);
	ddr_load_waits(rig.load, data, 192);
}

/* Finding S19: who has it is said while it is waited for, and as the reason afterwards; that it was left out for a lock alone, too. */
static void one_that_stays_locked(void **state)
{
	uint64_t begun = ddr_now_ms();
	char waits[192], who[64];
	qb_loop_timer_handle timer;

	(void)state;
	lock(0);
	snprintf(who, sizeof(who), "locked by test-load (pid %d)", (int)getpid());
	assert_int_equal(qb_loop_timer_add(rig.loop, QB_LOOP_HIGH, LIMIT_MS / 2 * QB_TIME_NS_IN_MSEC, waits, see_waits, &timer), 0);
	load();
	assert_in_range(ddr_now_ms() - begun, LIMIT_MS, 20 * LIMIT_MS);
	expect_without(0);
	assert_int_equal(rig.load->locked, 1);
	assert_non_null(strstr(waits, "ddtest0 is locked by"));
	assert_non_null(strstr(waits, who));
	assert_non_null(strstr(rig.load->members->error[0], who));
	ddr_load_waits(rig.load, waits, sizeof(waits));
	assert_string_equal(waits, "");
	end();
}

static void one_that_hangs_was_not_locked(void **state)
{
	(void)state;
	let_hang(1u << 2, 0);
	load();
	expect_without(2);
	assert_int_equal(rig.load->locked, 0);
	end();
}

/* ---- the usual node, locked by @usual_holder ------------------------------------------ */

/* Finding S19: a program that is no ddraidd is waited for, for the limit, and costs the array nothing. */
static void what_another_program_has_locked_stays(void **state)
{
	uint64_t begun = ddr_now_ms();
	char waits[192];
	qb_loop_timer_handle timer;

	(void)state;
	rig.usual_locked = 1u << 1;
	rig.usual_other = true;
	assert_int_equal(qb_loop_timer_add(rig.loop, QB_LOOP_HIGH, LIMIT_MS / 2 * QB_TIME_NS_IN_MSEC, waits, see_waits, &timer), 0);
	load();
	assert_in_range(ddr_now_ms() - begun, LIMIT_MS, 20 * LIMIT_MS);
	assert_true(rig.load->ok);
	assert_int_equal(rig.load->present, 7);
	assert_int_equal(rig.load->locked, 0);
	assert_non_null(strstr(waits, "ddtest1 is locked by mkfs (pid 7)"));
	end();
}

/* Finding S19: writers wait for a daemon that is started anew, and it waits for no program but a predecessor. */
static void who_takes_over_waits_for_no_other_program(void **state)
{
	uint64_t begun = ddr_now_ms();

	(void)state;
	rig.usual_locked = 7;
	rig.usual_other = rig.resumed = true;
	load();
	assert_true(ddr_now_ms() - begun < LIMIT_MS);
	assert_true(rig.load->ok);
	assert_int_equal(rig.load->present, 7);
	end();
}

static void a_predecessor_is_waited_for_by_the_usual_node(void **state)
{
	(void)state;
	rig.usual_locked = 1u << 1;
	rig.resumed = true;
	load();
	expect_without(1);
	assert_int_equal(rig.load->locked, 2);
	end();
}

/*
 * Finding S12: a newer generation was seen than the one that is here. It is started only if the operator has said so of the very generation that is
 * here, and only when that is remembered.
 */
static void an_older_generation_if_the_operator_says_so(void **state)
{
	const struct ddr_super *sb = &rig.sb;

	(void)state;
	remembered.generation = sb->generation + 3;
	memset(remembered.gen_id, 5, sizeof(remembered.gen_id));
	for (unsigned int i = 0; i < 4; i++) {
		lower_fails = i == 2 ? -EROFS : 0;
		lowered.generation = 0;
		if (i) {
			said.generation = sb->generation;
			memcpy(said.gen_id, sb->gen_id, sizeof(sb->gen_id));
			said.gen_id[3] ^= i == 1;		/* of another history */
		}
		load();
		assert_int_equal(rig.load->ok, i == 3);
		assert_int_equal(rig.load->behind, i == 3 ? remembered.generation : 0);
		assert_int_equal(lowered.generation, i < 2 ? 0 : sb->generation);
		if (i == 0)
			assert_non_null(strstr(rig.load->error.text, "--older"));
		end();
	}
	remembered.generation = said.generation = 0;
}

static void unlock_all(void *data)
{
	(void)data;
	assert_false(rig.ended);	/* longer than the limit */
	for (unsigned int m = 0; m < MEMBERS; m++)
		unlock(m);
}

/* An earlier process that has not ended at all is waited for. */
static void without_those_that_are_locked_it_cannot_start(void **state)
{
	qb_loop_timer_handle timer;

	(void)state;
	lock(0);
	lock(1);
	assert_int_equal(qb_loop_timer_add(rig.loop, QB_LOOP_HIGH, 2ull * LIMIT_MS * QB_TIME_NS_IN_MSEC, NULL, unlock_all, &timer), 0);
	load();
	assert_true(rig.load->ok);
	assert_int_equal(rig.load->present, 7);
	end();
}

/* ---- log and map ----------------------------------------------------------------- */

static void expect_all(void)
{
	assert_string_equal(rig.load->error.text, "");
	assert_true(rig.load->ok);
	assert_int_equal(rig.load->present, 7);
	assert_int_equal(rig.load->table, 7);
	assert_int_equal(rig.load->members->open, 7);
}

/* @seq of the log of slot 0, 0: it could not be read. Nothing was ever written to the others. */
static void expect_log(uint64_t seq, uint64_t map)
{
	const struct ddr_load *l = rig.load;

	for (unsigned int i = 0; i < rig.sb.slots * rig.sb.log_blocks; i++)
		assert_int_equal(l->log[i].valid, i == 0 && seq);
	assert_int_equal(l->log[0].seq, seq);
	for (unsigned int i = 0; i < rig.sb.map_blocks; i++)
		assert_int_equal(l->map[i].valid, i == 0 && map);
	assert_int_equal(l->map[0].seq, map);
}

static void the_newest_log_counts(void **state)
{
	(void)state;
	rig.whole = true;
	load();
	expect_all();
	expect_log(SEQ + 1, SEQ);
	end();
}

/* Any copy will do. It hangs in the first area, and nobody asks it for the others. */
static void a_log_that_hangs(void **state)
{
	uint64_t begun = ddr_now_ms();

	(void)state;
	rig.whole = true;
	let_area_hang(1u << 1);
	load();
	assert_in_range(ddr_now_ms() - begun, LIMIT_MS, 20 * LIMIT_MS);
	expect_all();
	expect_log(SEQ, SEQ);
	assert_int_equal(hung(1), 1);
	end();
}

static void a_log_that_cannot_be_read(void **state)
{
	(void)state;
	rig.whole = true;
	rig.area_fails = 1u << 1;
	load();
	expect_all();
	expect_log(SEQ, SEQ);
	end();
}

/* What is in the log is not known, and will be: it is not all dirty. */
static void a_log_that_hangs_everywhere(void **state)
{
	uint64_t begun = ddr_now_ms();

	(void)state;
	rig.whole = true;
	let_area_hang(7);
	load();
	assert_in_range(ddr_now_ms() - begun, LIMIT_MS, 20 * LIMIT_MS);
	assert_false(rig.load->ok);
	assert_non_null(strstr(rig.load->error.text, "start the array when its disks answer"));
	for (unsigned int m = 0; m < MEMBERS; m++)
		assert_int_equal(hung(m), 1);
	end();
}

/* One that hangs may have what the others cannot read. */
static void a_log_that_hangs_or_cannot_be_read(void **state)
{
	(void)state;
	rig.whole = true;
	rig.area_fails = 6;
	let_area_hang(1);
	load();
	assert_false(rig.load->ok);
	assert_non_null(strstr(rig.load->error.text, "start the array when its disks answer"));
	end();
}

static void a_log_that_cannot_be_read_anywhere(void **state)
{
	(void)state;
	rig.whole = true;
	rig.area_fails = 7;
	load();
	expect_all();
	expect_log(0, 0);
	end();
}

/* ---- reading anew ---------------------------------------------------------------- */

static void on_reloaded(void *ctx, struct ddr_reload *r)
{
	(void)r;
	on_loaded(ctx);
}

/* Of the members that were loaded. */
static struct ddr_reload *reload(uint16_t slot)
{
	struct ddr_reload *r = calloc(1, sizeof(*r));
	uint64_t begun = ddr_now_ms();

	assert_non_null(r);
	r->members = rig.load->members;
	r->super = rig.sb;
	r->from = 7;
	r->slot = slot;
	r->limit_ms = LIMIT_MS;
	r->done = on_reloaded;
	rig.ended = false;
	assert_int_equal(ddr_reload_start(r, rig.loop), 0);
	while (!rig.ended)
		qb_loop_run(rig.loop);
	assert_true(ddr_now_ms() - begun < 20 * LIMIT_MS);
	return r;
}

static void reload_fails(uint16_t slot, int result)
{
	struct ddr_reload *r = reload(slot);

	assert_int_equal(r->result, result);
	ddr_reload_free(r);
}

static void reload_finds(uint16_t slot, uint64_t seq)
{
	struct ddr_reload *r = reload(slot);

	assert_int_equal(r->result, 0);
	assert_true(r->block[0].valid);
	assert_int_equal(r->block[0].seq, seq);
	if (slot == DDR_RELOAD_SUPER)
		assert_int_equal(r->super.seq, 2);
	ddr_reload_free(r);
}

/* The threads are not ours to wait for. */
static void until_they_answer(void)
{
	struct ddr_look *look;
	struct ddr_error err;

	let_hang(0, 0);
	for (unsigned int m = 0; m < MEMBERS; m++) {
		while (ddr_look_read(&look, &rig.load->members->dev[m], LIMIT_MS, &err) == DDR_LOOK_HANGS)
			usleep(10000);
		assert_non_null(look);
		ddr_look_wait(look);
		ddr_look_put(look);
	}
}

static void a_slot_that_hangs(void **state)
{
	(void)state;
	load();
	reload_finds(0, SEQ + 1);
	let_area_hang(1u << 1);
	reload_finds(0, SEQ);
	reload_finds(DDR_RELOAD_SUPER, SEQ);
	assert_int_equal(hung(1), 1);
	let_area_hang(7);
	reload_fails(0, -ETIMEDOUT);
	until_they_answer();
	reload_finds(0, SEQ + 1);	/* whoever asks again has it */
	end();
}

static void a_superblock_that_hangs(void **state)
{
	(void)state;
	load();
	let_hang(0, 1u << 1);
	reload_finds(DDR_RELOAD_SUPER, SEQ);
	reload_finds(0, SEQ);
	assert_int_equal(hung(1), 1);
	let_hang(0, 7);
	reload_fails(DDR_RELOAD_SUPER, -EIO);
	until_they_answer();
	reload_finds(DDR_RELOAD_SUPER, SEQ);
	end();
}

/* An array that is closed gives up its locks, and the thread that hangs in one has none of its own. */
static void what_hangs_keeps_no_lock_of_an_array_that_ended(void **state)
{
	(void)state;
	load();
	let_area_hang(1u << 1);
	reload_finds(0, SEQ);
	ddr_members_end(rig.load->members);
	for (unsigned int m = 0; m < MEMBERS; m++)
		lock(m);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(all_are_there, set_up, tear_down),
		cmocka_unit_test_setup_teardown(one_that_was_overwritten, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_name_is_whole_and_opens_the_device, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_read_that_hangs, set_up, tear_down),
		cmocka_unit_test_setup_teardown(two_that_hang, set_up, tear_down),
		cmocka_unit_test_setup_teardown(one_that_stays_locked, set_up, tear_down),
		cmocka_unit_test_setup_teardown(one_that_hangs_was_not_locked, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_another_program_has_locked_stays, set_up, tear_down),
		cmocka_unit_test_setup_teardown(who_takes_over_waits_for_no_other_program, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_predecessor_is_waited_for_by_the_usual_node, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_older_generation_if_the_operator_says_so, set_up, tear_down),
		cmocka_unit_test_setup_teardown(without_those_that_are_locked_it_cannot_start, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_open_that_hangs, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_newest_log_counts, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_log_that_hangs, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_log_that_cannot_be_read, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_log_that_hangs_everywhere, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_log_that_hangs_or_cannot_be_read, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_log_that_cannot_be_read_anywhere, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_slot_that_hangs, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_superblock_that_hangs, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_hangs_keeps_no_lock_of_an_array_that_ended, set_up, tear_down),
	};

	alarm(120);	/* a load that waits for what hangs is to fail */
	return cmocka_run_group_tests_name("load", tests, NULL, NULL);
}
