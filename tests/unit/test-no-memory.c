// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The daemon without free memory: it may be asked for a grant because the kernel wants to write pages back to get memory. From READY
 * on every allocation in its code fails here, yet grants, clearing marks, a resync and a member failure still work. State machine,
 * member I/O and channel are the real ones; the members are files, the kernel is simulated.
 */
#include "tests/unit/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/array/array.h"
#include "daemon/array/drive.h"
#include "daemon/array/events.h"
#include "daemon/group/fence.h"
#include "daemon/disk/grow.h"
#include "daemon/disk/reload.h"
#include "daemon/disk/state.h"
#include "daemon/disk/finder.h"
#include "daemon/disk/grow.h"
#include "daemon/kernel/table.h"

#define MEMBER_BYTES	(64ull << 20)
#define REGIONS		32u
#define GIVE_UP_MS	20000u	/* of waiting for anything here */

static struct {
	bool no_memory;
	unsigned int refused;		/* allocations */
	int fd, peer;			/* the channel, and the kernel's end of it */
	uint64_t granted;		/* bit r: region r */
	unsigned int resolved, ready, out;
	uint64_t now;
	qb_loop_t *loop;
	bool (*reached)(void);
} play;

static struct ddr_daemon d;
static struct ddr_array a;

/* ---- memory ---------------------------------------------------------------------- */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size);
int __real_posix_memalign(void **p, size_t align, size_t size);
int __wrap_posix_memalign(void **p, size_t align, size_t size);

static bool refuse(void)
{
	play.refused += play.no_memory;
	return play.no_memory;
}

void *__wrap_malloc(size_t size)
{
	return refuse() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return refuse() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t size)
{
	return refuse() ? NULL : __real_realloc(p, size);
}

int __wrap_posix_memalign(void **p, size_t align, size_t size)
{
	return refuse() ? ENOMEM : __real_posix_memalign(p, align, size);
}

/* ---- the kernel ------------------------------------------------------------------ */

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __real_ioctl(int fd, unsigned long request, void *arg);
int __wrap_ioctl(int fd, unsigned long request, void *arg);
ssize_t __real_write(int fd, const void *buf, size_t len);
ssize_t __wrap_write(int fd, const void *buf, size_t len);

int __wrap_open(const char *path, int flags, ...)
{
	int fds[2];

	if (strcmp(path, "/dev/" DDR_DEVICE_NAME) != 0)
		return __real_open(path, flags, 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
	play.fd = fds[0];
	play.peer = fds[1];
	return play.fd;
}

int __wrap_ioctl(int fd, unsigned long request, void *arg)
{
	if (request != DDR_IOC_BIND)
		return __real_ioctl(fd, request, arg);
	((struct ddr_bind *)arg)->cookie = 7;
	((struct ddr_bind *)arg)->shadow_place = DDR_NO_MEMBER;
	return 0;
}

static void kernel_says(struct ddr_rec rec)
{
	assert_int_equal(__real_write(play.peer, &rec, sizeof(rec)), sizeof(rec));
}

/* The answer of a real kernel that has nothing in flight. */
static void kernel_hears(const struct ddr_rec *rec)
{
	static const uint32_t answer[][2] = {
		{ DDR_U_MEMBER, DDR_K_APPLIED }, { DDR_U_DRAIN, DDR_K_DRAINED }, { DDR_U_REAP, DDR_K_REAPED },
	};

	if (rec->type == DDR_U_GRANT)
		for (uint64_t r = rec->start; r < rec->start + rec->count; r++)
			play.granted |= 1ull << r;
	play.resolved += rec->type == DDR_U_RESOLVE && rec->arg[0] == DDR_RES_RETRY;
	play.out += rec->type == DDR_U_MEMBER && rec->arg[0] == DDR_KM_OUT;
	for (size_t i = 0; i < sizeof(answer) / sizeof(answer[0]); i++)
		if (answer[i][0] == rec->type)
			kernel_says((struct ddr_rec){ .type = answer[i][1], .seq = rec->seq, .member = rec->member,
						      .start = rec->type == DDR_U_DRAIN ? rec->start : 0,
						      .count = rec->type == DDR_U_DRAIN ? rec->count : 0 });
}

ssize_t __wrap_write(int fd, const void *buf, size_t len)
{
	const struct ddr_rec *rec = buf;

	if (fd != play.fd)
		return __real_write(fd, buf, len);
	for (size_t i = 0; i < len / sizeof(*rec); i++)
		kernel_hears(&rec[i]);
	return (ssize_t)len;
}

/* ---- the rest of the daemon ------------------------------------------------------ */

uint64_t ddr_now_ms(void)
{
	return play.now;
}

void ddr_event_array(struct ddr_array *array, const struct ddr_output *o)
{
	(void)array;
	assert_int_not_equal(o->event, DDR_EV_BUG);
	play.ready += o->event == DDR_EV_READY;
	if (o->event == DDR_EV_READY)
		a.ready = true;
}

void ddr_event_plain(struct ddr_array *array, int priority, const char *name, const char *text)
{
	(void)array, (void)priority;
	fail_msg("%s: %s", name, text);
}

static void on_gone(void *ctx, int error)
{
	(void)ctx, (void)error;
	fail();
}

static const struct ddr_kchan_ops kchan_ops = { .record = ddr_drive_record, .gone = on_gone };

void ddr_state_seen(const char *dir, const uint8_t uuid[16], uint64_t generation, const uint8_t gen_id[16])
{
	(void)dir, (void)uuid, (void)generation, (void)gen_id;
}

int ddr_reload_start(struct ddr_reload *r, qb_loop_t *loop)
{
	(void)r, (void)loop;
	return -ENOMEM;
}

void ddr_reload_free(struct ddr_reload *r)
{
	(void)r;
}

int ddr_fence_ask(struct ddr_fence *f, uint32_t node, const char *name, const struct ddr_conf *conf,
		  uint64_t lost_ms, uint64_t failure, ddr_fence_done_fn done, void *ctx)
{
	(void)f, (void)node, (void)name, (void)conf, (void)lost_ms, (void)failure, (void)done, (void)ctx;
	return -ENOMEM;
}

void ddr_fence_forget(struct ddr_fence *f, const void *ctx)
{
	(void)f, (void)ctx;
}

void ddr_rate_done(struct ddr_rate *r, uint64_t blocks, uint64_t us)
{
	(void)r, (void)blocks, (void)us;
}

void ddr_rate_scanned(struct ddr_rate *r, uint64_t blocks, uint64_t us)
{
	(void)r, (void)blocks, (void)us;
}

void ddr_rate_tick(struct ddr_rate *r, uint64_t now_ms)
{
	(void)r, (void)now_ms;
}

void ddr_watch_tick(struct ddr_array *array, uint64_t now_ms)
{
	(void)array, (void)now_ms;
}

void ddr_stall_tick(struct ddr_stall *s, uint64_t now_ms, uint64_t limit_ms)
{
	(void)s, (void)now_ms, (void)limit_ms;
}

int ddr_grow_start(struct ddr_grow *g, qb_loop_t *loop)
{
	(void)g;
	(void)loop;
	return -ENOMEM;
}

void ddr_grow_free(struct ddr_grow *g)
{
	(void)g;
}

uint64_t ddr_grow_bytes(const struct ddr_super *sb, uint64_t blocks)
{
	(void)sb;
	return blocks;
}

int ddr_finder_start(struct ddr_finder *f, qb_loop_t *loop)
{
	(void)f, (void)loop;
	fail();
	return -1;
}

void ddr_finder_free(struct ddr_finder *f)
{
	(void)f;
}

int ddr_table_start(struct ddr_table *t, qb_loop_t *loop)
{
	(void)t, (void)loop;
	return -ENOSYS;
}

void ddr_table_forget(struct ddr_table *t)
{
	t->ctx = NULL;
}

void ddr_table_free(struct ddr_table *t)
{
	free(t);
}

/* ---- an array on files ----------------------------------------------------------- */

static void open_member(struct ddr_members *members, unsigned int m)
{
	char path[] = "/tmp/ddraid-no-memory-XXXXXX";
	int fd = mkstemp(path);
	struct ddr_error err;

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, MEMBER_BYTES), 0);
	close(fd);
	assert_int_equal(ddr_dev_open(&members->dev[m], path, DDR_DEV_WRITE | DDR_DEV_FILE, &err), 0);
	unlink(path);
	members->open |= 1u << m;
}

/* What a change of the superblocks reads first. */
static void put_supers(const struct ddr_dev *dev, const struct ddr_super *sb, uint16_t member)
{
	struct ddr_super own = *sb;
	struct ddr_error err;

	own.this_member = member;
	for (own.seq = sb->seq - 1; own.seq <= sb->seq; own.seq++)
		assert_int_equal(ddr_dev_write_super(dev, &own, &err), 0);
}

static void start(uint64_t engine)
{
	struct ddr_load load = { .present = 0x1f, .table = 0x1f };
	struct ddr_super *sb = &load.assembly.super;
	size_t blocks;

	fixture_super(sb, 2, 1, DDR_LAYOUT_ROTATING, MEMBER_BYTES, 0);
	load.members = ddr_members_new();
	load.members->n = sb->roles;
	for (unsigned int m = 0; m < sb->roles; m++) {
		open_member(load.members, m);
		put_supers(&load.members->dev[m], sb, (uint16_t)m);
	}
	blocks = (size_t)sb->slots * sb->log_blocks;
	load.log = calloc(blocks, sizeof(*load.log));
	load.map = calloc(sb->map_blocks, sizeof(*load.map));
	for (size_t i = 0; i < blocks; i++)
		load.log[i].valid = true;
	for (uint32_t i = 0; i < sb->map_blocks; i++)
		load.map[i].valid = true;
	d.conf.io_engine = engine;
	assert_int_equal(ddr_kchan_open(&a.chan, d.loop, &a.bind, &kchan_ops, &a), 0);
	a.bind.sectors = sb->array_blocks * (DDR_BLOCK_SIZE / 512);
	assert_int_equal(ddr_drive_start(&a, &load), 0);
	free(load.log);
	free(load.map);
	ddr_members_put(load.members);
}

/* ---- the loop -------------------------------------------------------------------- */

static void on_tick(void *data)
{
	qb_loop_timer_handle timer;

	(void)data;
	play.now += 10;
	ddr_drive_tick(&a, play.now);
	if (play.reached() || play.now >= GIVE_UP_MS)
		qb_loop_stop(play.loop);
	else
		assert_int_equal(qb_loop_timer_add(play.loop, QB_LOOP_LOW, 2 * QB_TIME_NS_IN_MSEC, NULL, on_tick, &timer), 0);
}

static void until(bool (*reached)(void))
{
	qb_loop_timer_handle timer;

	play.reached = reached;
	assert_int_equal(qb_loop_timer_add(play.loop, QB_LOOP_LOW, 2 * QB_TIME_NS_IN_MSEC, NULL, on_tick, &timer), 0);
	qb_loop_run(play.loop);
	assert_true(reached());
	assert_int_equal(play.refused, 0);
	assert_null(a.broken);
}

static bool is_ready(void)
{
	return play.ready;
}

static bool all_granted(void)
{
	return play.granted == (1ull << REGIONS) - 1;
}

static bool all_clear(void)
{
	struct ddr_sm_status st;

	ddr_sm_get_status(a.sm, &st);
	return st.dirty == 0 && st.needs_sync == 0 && st.clean == REGIONS;
}

static bool is_out(void)
{
	return play.resolved && play.out;
}

/* Outstanding requests at the stop are freed when they end, and no loop runs any more then. */
static bool is_idle(void)
{
	return ddr_metaio_idle(a.meta) && ddr_jobs_idle(a.jobs);
}

static void no_memory_with(uint64_t engine)
{
	struct ddr_sm_status st;

	memset(&play, 0, sizeof(play));
	memset(&d, 0, sizeof(d));
	qb_list_init(&d.arrays);
	memset(&a, 0, sizeof(a));
	ddr_conf_defaults(&d.conf);
	d.conf.node_id = 1;
	d.transport = &ddr_transport_local;
	d.loop = play.loop = qb_loop_create();
	a.d = &d;
	a.state = DDR_ARRAY_RUNNING;
	a.tune = d.conf.tune;
	start(engine);
	kernel_says((struct ddr_rec){ .type = DDR_K_HELD_END, .member = DDR_NO_MEMBER });
	until(is_ready);

	play.no_memory = true;
	for (uint64_t r = 0; r < REGIONS; r++)		/* each one a request of its own: as many log writes as it likes */
		kernel_says((struct ddr_rec){ .type = DDR_K_LOCK, .seq = r + 1, .start = r, .count = 1, .member = DDR_NO_MEMBER });
	until(all_granted);
	kernel_says((struct ddr_rec){ .type = DDR_K_CLOSED, .start = 0, .count = REGIONS, .member = DDR_NO_MEMBER });
	until(all_clear);				/* flushed, in the map, cleared, and synced for the first time */
	kernel_says((struct ddr_rec){ .type = DDR_K_ERROR, .seq = 1, .member = 2, .status = DDR_EC_IO, .start = 3, .count = 1,
				      .arg = { DDR_OP_WRITE } });
	until(is_out);
	ddr_sm_get_status(a.sm, &st);
	assert_int_equal(st.member_state[2], DDR_MEMBER_FAULTY);
	assert_int_equal(st.generation, 2);
	play.no_memory = false;

	until(is_idle);
	ddr_drive_stop(&a);
	free(d.outs);
	ddr_kchan_close(a.chan);
	close(play.peer);
	qb_loop_destroy(d.loop);
}

static void no_memory_with_the_best_engine(void **state)
{
	(void)state;
	no_memory_with(DDR_ENGINE_AUTO);
}

static void no_memory_with_threads(void **state)
{
	(void)state;
	no_memory_with(DDR_ENGINE_THREADS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_memory_with_the_best_engine),
		cmocka_unit_test(no_memory_with_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
