// SPDX-License-Identifier: GPL-2.0-or-later
/* Loading an array of which a member hangs, or stays locked: files that are called devices. */
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include <qb/qbloop.h>
#include <qb/qbutil.h>

#include "tests/unit/fixture.h"
#include "daemon/daemon.h"
#include "daemon/finder.h"
#include "daemon/loader.h"
#include "daemon/state.h"

#define MEMBERS		3u
#define MEMBER_BYTES	(16u << 20)
#define LIMIT_MS	1500u
#define MAJOR		511u

static struct {
	pthread_mutex_t lock;
	pthread_cond_t cond;
	char dir[32];
	uint32_t open_hangs, read_hangs;	/* members */
	unsigned int hung[MEMBERS];		/* threads that have come so far */
	struct ddr_super sb;
	qb_loop_t *loop;
	struct ddr_load *load;
	bool ended;
	int locked[MEMBERS];			/* descriptors of another program */
} rig = { .lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER };

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

int __real_ddr_dev_read_supers(const struct ddr_dev *dev, struct ddr_supers *out, struct ddr_error *err);
int __wrap_ddr_dev_read_supers(const struct ddr_dev *dev, struct ddr_supers *out, struct ddr_error *err);
int __wrap_ddr_dev_read_supers(const struct ddr_dev *dev, struct ddr_supers *out, struct ddr_error *err)
{
	unsigned int m;

	assert_true(member_of(dev->path, &m));
	hang(&rig.read_hangs, m);
	return __real_ddr_dev_read_supers(dev, out, err);
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
		fprintf(f, "DEVNAME=ddtest%u\n", m);
		rewind(f);
	}
	return f;
}

int __real_stat(const char *path, struct stat *st);
int __wrap_stat(const char *path, struct stat *st);
int __wrap_stat(const char *path, struct stat *st)
{
	unsigned int m;

	if (strncmp(path, "/dev/", 5) != 0 || !member_of(path, &m))
		return __real_stat(path, st);
	*st = (struct stat){ .st_mode = S_IFBLK | 0600, .st_rdev = makedev(MAJOR, m) };
	return 0;
}

static void let_hang(uint32_t open, uint32_t read)
{
	pthread_mutex_lock(&rig.lock);
	rig.open_hangs = open;
	rig.read_hangs = read;
	pthread_cond_broadcast(&rig.cond);
	pthread_mutex_unlock(&rig.lock);
}

/* ---- the rest of the daemon ------------------------------------------------------ */

uint64_t ddr_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

void ddr_state_load(const char *dir, const uint8_t uuid[16], struct ddr_known *known)
{
	(void)dir, (void)uuid;
	*known = (struct ddr_known){ 0 };
}

void ddr_finder_tell_hung(const struct ddr_scan *scan, unsigned int limit_ms)
{
	(void)scan, (void)limit_ms;
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
	l->supers_only = true;
	l->limit_ms = LIMIT_MS;
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
	ddr_dev_close(&dev);
	rig.locked[m] = -1;
	rig.hung[m] = 0;
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
	setenv("DDRAID_DEVICES", "/nothing/here", 1);
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

static void one_that_stays_locked(void **state)
{
	uint64_t begun = ddr_now_ms();

	(void)state;
	lock(0);
	load();
	assert_in_range(ddr_now_ms() - begun, LIMIT_MS, 20 * LIMIT_MS);
	expect_without(0);
	end();
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(all_are_there, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_read_that_hangs, set_up, tear_down),
		cmocka_unit_test_setup_teardown(two_that_hang, set_up, tear_down),
		cmocka_unit_test_setup_teardown(one_that_stays_locked, set_up, tear_down),
		cmocka_unit_test_setup_teardown(without_those_that_are_locked_it_cannot_start, set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_open_that_hangs, set_up, tear_down),
	};

	alarm(120);	/* a load that waits for what hangs is to fail */
	return cmocka_run_group_tests_name("load", tests, NULL, NULL);
}
