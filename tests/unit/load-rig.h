/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An array that is loaded from files that are called devices; some hang, or are locked. For test-load.c, test-load-area.c, test-load-claim.c and test-load-table.c. */
#ifndef DDR_TESTS_UNIT_LOAD_RIG_H
#define DDR_TESTS_UNIT_LOAD_RIG_H

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
#define SEQ		2u			/* of the log of slot 0, and of the map, on all members */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	char dir[32];
	uint32_t open_hangs, read_hangs;	/* members */
	uint32_t area_hangs;			/* reads of log and map hang */
	uint32_t area_fails;
	unsigned int hung[MEMBERS];		/* threads that hang so far */
	struct ddr_super sb;
	qb_loop_t *loop;
	struct ddr_load *load;
	bool whole;				/* log and map, too */
	bool ended;
	void (*alter)(struct ddr_load *l);	/* what is loaded, before it begins; or NULL */
	void (*after_search)(void);		/* what happens between the search and the lock, or NULL */
	uint32_t found;				/* members that are found among the devices of the machine */
	const char *dm_name;			/* the beginning of the members' device-mapper names */
	int locked[MEMBERS];			/* descriptors of another program */
	uint32_t usual_locked;			/* members: the usual node is */
	bool usual_other, resumed;
	bool unshown;				/* the members are in no sysfs yet ... */
	unsigned int asked_dm;			/* ... and device-mapper was asked for a name */
	uint32_t own_open, own_look, own_read, own_area;	/* calls for these members fail for lack of memory or descriptors */
	uint32_t small_then;		/* members whose devices were smaller when they were opened */
	bool own_node, own_scan, own_state;
	unsigned int moves;			/* another node changes the superblocks so often: after member 0 was read, and before the others are */
	unsigned int moved, seen[MEMBERS];
	unsigned int slept_ms;			/* test-load-claim.c: time that passed only in sleeps */
} rig = { .lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER, .dm_name = "" };

/* ---- devices --------------------------------------------------------------------- */

static inline bool member_of(const char *path, unsigned int *m)
{
	const char *at = strstr(path, "ddtest");

	return at && sscanf(at, "ddtest%u", m) == 1 && *m < MEMBERS;
}

static inline void hang(const uint32_t *which, unsigned int m)
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
	if (rig.own_open & (1u << m)) {
		*dev = (struct ddr_dev){ .fd = -1 };
		return ddr_error_call(err, EMFILE, "%s: too many open files", path);
	}
	snprintf(file, sizeof(file), "%s/ddtest%u", rig.dir, m);
	if (__real_ddr_dev_open(dev, file, flags | DDR_DEV_FILE, err))
		return -1;
	dev->bytes = rig.small_then & (1u << m) ? 1u << 20 : dev->bytes;
	return 0;
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

/* Another node has changed the superblocks twice. */
static inline void change_supers(void)
{
	rig.sb.generation += 2;
	rig.sb.gen_id[0]++;
	rig.sb.gen_prev[0] = rig.sb.gen_id[0] + 1;	/* of the change in between */
	for (unsigned int m = 0; m < MEMBERS; m++) {
		struct ddr_super sb = rig.sb;
		struct ddr_error err;
		struct ddr_dev dev;
		char path[64];

		snprintf(path, sizeof(path), "%s/ddtest%u", rig.dir, m);
		if (__real_ddr_dev_open(&dev, path, DDR_DEV_WRITE | DDR_DEV_FILE, &err))
			abort();
		sb.this_member = (uint16_t)m;
		for (sb.seq = 2 * rig.sb.generation; sb.seq <= 2 * rig.sb.generation + 1; sb.seq++)
			if (ddr_dev_write_super(&dev, &sb, &err))
				abort();	/* not in the thread that cmocka knows */
		ddr_dev_close(&dev);
	}
}

enum ddr_look_start __real_ddr_look_read(struct ddr_look **look, const struct ddr_dev *dev, unsigned int limit_ms, struct ddr_error *err);
enum ddr_look_start __wrap_ddr_look_read(struct ddr_look **look, const struct ddr_dev *dev, unsigned int limit_ms, struct ddr_error *err);
enum ddr_look_start __wrap_ddr_look_read(struct ddr_look **look, const struct ddr_dev *dev, unsigned int limit_ms, struct ddr_error *err)
{
	unsigned int m;

	assert_true(member_of(dev->path, &m));
	if (!(rig.own_look & (1u << m)))
		return __real_ddr_look_read(look, dev, limit_ms, err);
	ddr_error_call(err, EAGAIN, "%s: cannot create a thread that reads it", dev->path);
	err->own = true;
	return DDR_LOOK_FAILED;
}

int __real_ddr_dev_read_supers(const struct ddr_dev *dev, struct ddr_supers *out, struct ddr_error *err);
int __wrap_ddr_dev_read_supers(const struct ddr_dev *dev, struct ddr_supers *out, struct ddr_error *err);
int __wrap_ddr_dev_read_supers(const struct ddr_dev *dev, struct ddr_supers *out, struct ddr_error *err)
{
	unsigned int m;
	int ret;

	assert_true(member_of(dev->path, &m));
	hang(&rig.read_hangs, m);
	if (rig.own_read & (1u << m)) {
		memset(out, 0, sizeof(*out));
		out->newest = -1;
		return ddr_error_call(err, ENOMEM, "%s: out of memory", dev->path);
	}
	pthread_mutex_lock(&rig.lock);
	while (m && rig.moves && rig.seen[m] == rig.moved)
		pthread_cond_wait(&rig.cond, &rig.lock);
	rig.seen[m] = rig.moved;
	ret = __real_ddr_dev_read_supers(dev, out, err);
	if (!m && rig.moves) {
		change_supers();
		rig.moves--;
		rig.moved++;
		pthread_cond_broadcast(&rig.cond);
	}
	pthread_mutex_unlock(&rig.lock);
	return ret;
}

/* Wraps the calls of look.c only: the reads of superblocks are not wrapped there. */
int __real_ddr_dev_read(const struct ddr_dev *dev, void *buf, size_t len, uint64_t offset, struct ddr_error *err);
int __wrap_ddr_dev_read(const struct ddr_dev *dev, void *buf, size_t len, uint64_t offset, struct ddr_error *err);
int __wrap_ddr_dev_read(const struct ddr_dev *dev, void *buf, size_t len, uint64_t offset, struct ddr_error *err)
{
	unsigned int m;
	int ret;

	assert_true(member_of(dev->path, &m));
	hang(&rig.area_hangs, m);
	ret = __real_ddr_dev_read(dev, buf, len, offset, err);
	if (rig.own_area & (1u << m))
		return ddr_error_call(err, ENOMEM, "%s: out of memory", dev->path);
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
	if (rig.own_node && strstr(path, "/uevent")) {
		errno = EMFILE;
		return NULL;
	}
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

static inline void let_all_hang(uint32_t open, uint32_t read, uint32_t area)
{
	pthread_mutex_lock(&rig.lock);
	rig.open_hangs = open;
	rig.read_hangs = read;
	rig.area_hangs = area;
	pthread_cond_broadcast(&rig.cond);
	pthread_mutex_unlock(&rig.lock);
}

static inline void let_hang(uint32_t open, uint32_t read)
{
	let_all_hang(open, read, 0);
}

static inline void let_area_hang(uint32_t area)
{
	let_all_hang(0, 0, area);
}

/* The number of threads that hang in member @m. */
static inline unsigned int hung(unsigned int m)
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
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000 + rig.slept_ms;
}

static struct ddr_known remembered, lowered;	/* of the array, by the played state */
static struct ddr_known said;			/* by the operator */
static int lower_fails;

int ddr_state_load(const char *dir, const uint8_t uuid[16], struct ddr_known *known)
{
	(void)dir, (void)uuid;
	*known = remembered;
	return rig.own_state ? -EMFILE : 0;
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

static inline void on_loaded(void *ctx)
{
	(void)ctx;
	rig.ended = true;
	qb_loop_stop(rig.loop);
}

static inline void begin(void)
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
	if (rig.alter)
		rig.alter(l);
	rig.load = l;
	rig.ended = false;
	assert_int_equal(ddr_load_start(l, rig.loop), 0);
}

static inline void load(void)
{
	begin();
	while (!rig.ended)
		qb_loop_run(rig.loop);
}

static inline void end(void)
{
	ddr_load_free(rig.load);
	rig.load = NULL;
}

static inline void make_block(const struct ddr_dev *dev, uint16_t slot, uint64_t seq)
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
static inline void make_member(unsigned int m)
{
	struct ddr_super sb = rig.sb;
	struct ddr_error err;
	struct ddr_dev dev;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%s/ddtest%u", rig.dir, m);
	fd = open(path, O_CREAT | O_RDWR, 0600);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 0) | ftruncate(fd, MEMBER_BYTES), 0);
	close(fd);
	assert_int_equal(__real_ddr_dev_open(&dev, path, DDR_DEV_WRITE | DDR_DEV_FILE, &err), 0);
	sb.this_member = (uint16_t)m;
	for (sb.seq = 1; sb.seq <= 2; sb.seq++)
		if (ddr_dev_write_super(&dev, &sb, &err))
			fail_msg("%s", err.text);
	make_block(&dev, 0, SEQ);
	make_block(&dev, DDR_MAP_SLOT, SEQ);
	if (m == 1)
		make_block(&dev, 0, SEQ + 1);
	ddr_dev_close(&dev);
	rig.locked[m] = -1;
	rig.hung[m] = 0;
}

int __wrap_ddr_scan_devices(struct ddr_scan *scan, const struct ddr_scan_how *how, struct ddr_error *err);

/* The daemon looks at all block devices, whatever its environment says. Here only the devices of the table exist, unless a test lets some be found. */
int __wrap_ddr_scan_devices(struct ddr_scan *scan, const struct ddr_scan_how *how, struct ddr_error *err)
{
	assert_null(how->listed);
	*scan = (struct ddr_scan){ 0 };
	if (rig.own_scan)
		return ddr_error_call(err, EMFILE, "/dev/sdz: too many open files");
	if (rig.found == UINT32_MAX)
		return ddr_error_set(err, "no devices can be searched");
	if (!rig.found)
		return 0;
	scan->dev = calloc(MEMBERS, sizeof(*scan->dev));
	assert_non_null(scan->dev);
	for (unsigned int m = 0; m < MEMBERS; m++) {
		struct ddr_dev dev;
		char path[64];

		if (!(rig.found & (1u << m)))
			continue;
		snprintf(path, sizeof(path), "%s/ddtest%u", rig.dir, m);
		assert_int_equal(__real_ddr_dev_open(&dev, path, DDR_DEV_FILE, err), 0);
		__real_ddr_dev_read_supers(&dev, &scan->dev[scan->n].supers, err);
		ddr_dev_close(&dev);
		snprintf(scan->dev[scan->n++].path, sizeof(scan->dev->path), "/dev/ddtest%u", m);
	}
	if (rig.after_search)
		rig.after_search();
	return 0;
}

static inline int set_up(void **state)
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
	rig.own_open = rig.own_look = rig.own_read = rig.own_area = 0;
	rig.own_node = rig.own_scan = rig.own_state = false;
	rig.moves = rig.moved = 0;
	memset(rig.seen, 0, sizeof(rig.seen));
	rig.usual_other = rig.resumed = false;
	rig.alter = NULL;
	rig.after_search = NULL;
	rig.found = 0;
	rig.loop = qb_loop_create();
	return rig.loop ? 0 : -1;
}

static inline void unlock(unsigned int m)
{
	if (rig.locked[m] >= 0)
		close(rig.locked[m]);
	rig.locked[m] = -1;
}

/* Another program, or a request of an earlier daemon. */
static inline void lock(unsigned int m)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/ddtest%u", rig.dir, m);
	rig.locked[m] = open(path, O_RDWR);
	assert_int_equal(flock(rig.locked[m], LOCK_EX | LOCK_NB), 0);
}

static inline int tear_down(void **state)
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

static inline void expect_without(unsigned int m)
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

#endif
