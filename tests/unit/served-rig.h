/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Arrays of one node on files, for test-memory.c and test-no-memory.c: state machine, member I/O and channel are the real ones, the
 * kernel is simulated.
 */
#ifndef DDR_TESTS_UNIT_SERVED_RIG_H
#define DDR_TESTS_UNIT_SERVED_RIG_H

#include "tests/unit/fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/array/array.h"
#include "daemon/array/drive.h"
#include "daemon/array/events.h"
#include "daemon/base/waited.h"
#include "daemon/group/fence.h"
#include "daemon/disk/reload.h"
#include "daemon/disk/state.h"
#include "daemon/disk/finder.h"
#include "daemon/disk/grow.h"
#include "daemon/kernel/table.h"

static struct {
	int fd, peer;			/* the channel, and the kernel's end of it */
	uint64_t granted;		/* bit r: region r */
	unsigned int resolved, ready, out;
	uint64_t now;
	qb_loop_t *loop;
} play;

static struct ddr_daemon d;
static struct ddr_array a;

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
	((struct ddr_bind *)arg)->lowest = DDR_SERVES_LOWEST;
	((struct ddr_bind *)arg)->highest = DDR_SERVES_HIGHEST;
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

uint64_t ddr_waited_ms(void)
{
	return 0;
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

int ddr_fence_ask(struct ddr_fence *f, const struct ddr_conf *conf, const struct ddr_fence_whom *whom, ddr_fence_done_fn done, void *ctx)
{
	(void)f, (void)conf, (void)whom, (void)done, (void)ctx;
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

static void open_member(struct ddr_members *members, unsigned int m, uint64_t bytes)
{
	char path[] = "/tmp/ddraid-no-memory-XXXXXX";
	int fd = mkstemp(path);
	struct ddr_error err;

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
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

/* @array starts with @sb's members as they were created. */
static void start(struct ddr_array *array, const struct ddr_super *sb, uint64_t member_bytes)
{
	struct ddr_load load = { .present = (1u << sb->roles) - 1, .table = (1u << sb->roles) - 1 };
	size_t blocks = (size_t)sb->slots * sb->log_blocks;

	array->d = &d;
	array->state = DDR_ARRAY_RUNNING;
	array->tune = d.conf.tune;
	load.assembly.super = *sb;
	load.members = ddr_members_new();
	load.members->n = sb->roles;
	for (unsigned int m = 0; m < sb->roles; m++) {
		open_member(load.members, m, member_bytes);
		put_supers(&load.members->dev[m], sb, (uint16_t)m);
	}
	load.log = calloc(blocks, sizeof(*load.log));
	load.map = calloc(sb->map_blocks, sizeof(*load.map));
	for (size_t i = 0; i < blocks; i++)
		load.log[i].valid = true;
	for (uint32_t i = 0; i < sb->map_blocks; i++)
		load.map[i].valid = true;
	assert_int_equal(ddr_kchan_open(&array->chan, d.loop, &array->bind, &kchan_ops, array), 0);
	array->bind.sectors = sb->array_blocks * (DDR_BLOCK_SIZE / 512);
	assert_int_equal(ddr_drive_start(array, &load), 0);
	free(load.log);
	free(load.map);
	ddr_members_put(load.members);
}

static void begin(uint64_t engine)
{
	memset(&play, 0, sizeof(play));
	memset(&d, 0, sizeof(d));
	qb_list_init(&d.arrays);
	memset(&a, 0, sizeof(a));
	ddr_conf_defaults(&d.conf);
	d.conf.node_id = 1;
	d.conf.io_engine = engine;
	d.transport = &ddr_transport_local;
	d.loop = play.loop = qb_loop_create();
}

#endif
