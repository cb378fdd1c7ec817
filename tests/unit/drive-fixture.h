/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The simulated surroundings of the daemon's driver: the kernel behind /dev/ddraid, the state machine, the members, the group and the
 * loader. The channel's queue, the driver and the array's life cycle are the real code. Included by one program only.
 */
#ifndef DDR_TESTS_UNIT_DRIVE_FIXTURE_H
#define DDR_TESTS_UNIT_DRIVE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <linux/fs.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "daemon/array/array.h"
#include "daemon/array/drive.h"
#include "daemon/array/events.h"
#include "daemon/base/waited.h"
#include "daemon/disk/finder.h"
#include "daemon/disk/grow.h"
#include "daemon/disk/loader.h"
#include "daemon/disk/metaio.h"
#include "daemon/disk/reload.h"
#include "daemon/disk/state.h"
#include "daemon/group/fence.h"
#include "daemon/ipc/ipc_server.h"
#include "daemon/kernel/table.h"
#include "tests/unit/fixture.h"

#define TOLD_MAX	(4 * DDR_KCHAN_QUEUE)

/* What is simulated, and what it recorded. */
static bool bind_early;			/* a bind is to a table that was not resumed yet */
static uint16_t bind_serves[2] = { DDR_SERVES_LOWEST, DDR_SERVES_HIGHEST };	/* the module, by the answer */

static struct {
	/* the kernel */
	int fd, peer;			/* the channel, and the socket that makes it readable */
	int refuse;			/* write() fails with it; 0: takes all */
	struct ddr_rec told[TOLD_MAX];
	unsigned int n_told, binds;
	uint64_t gone;			/* bit: the descriptor belongs to a disk that is gone */
	uint32_t minor[DDR_UAPI_MAX_ROLES];	/* of the devices in its table, 0: '-' */
	/* the state machine */
	unsigned int steps, made;
	bool again;			/* made from superblocks that were loaded again */
	void (*answer)(const struct ddr_input *in, struct ddr_outputs *out);
	struct ddr_input last;
	/* the group */
	unsigned int sent, room, left, nodes;
	/* the loader */
	struct ddr_load *load;
	struct ddr_members *members;
	struct ddr_super super;
	struct ddr_table *table;	/* that is being loaded */
	struct ddr_grow *grow[DDR_MAX_MEMBERS];	/* members that are being prepared */
	int grow_fails;
	bool prepare_fails;		/* no memory for the superblocks of one more member */
	uint64_t job_blocks;		/* as passed to the jobs */
	struct ddr_finder *finder;	/* that looks for devices */
	unsigned int found_freed;
	bool takes_part;
	bool complete;			/* the state machine misses no node */
	uint32_t owner;			/* the node that has a slot */
	uint32_t sought, replaced, let_go;	/* members */
	bool busy;			/* requests are under way */
	uint64_t meta_delay, jobs_delay;	/* that they were given in all */
	uint32_t kept_growing;		/* members that are being zeroed when the array ends */
	unsigned int ends;
	uint32_t meta_asked, jobs_asked;	/* to these members */
	unsigned int taken_back;	/* times that superblocks were */
	uint32_t meta_writes, jobs_writes, late;	/* writes; of an instance that has ended */
	uint32_t stamped, looked_at;	/* members that have stamps of this node; whose pairs were read while the array was held */
	uint32_t stamps_begun;		/* on these members */
	unsigned int stalls, late_stalls;	/* looks whether members hang; of these, with stamps that have just begun */
	uint32_t owner_pages;		/* of superblocks that are loaded */
	bool landing, left_over;	/* as passed to the state machine */
	uint32_t settle_ms, fence_settle_ms;
	char fence_devices[512];
	int jobs_fd;			/* or this descriptor; 0: none */
	struct ddr_metaio_config meta;
	uint64_t generation_seen;	/* that was noted last; 0: none */
	uint64_t lost_ms;		/* of the node that is to be fenced: since when */
	const char *nameless;		/* not NULL: node 3 has no name that is known */
	char fence_name[64];		/* with which the last agent was called */
	uint32_t bearer;		/* of node 3's name: another node that runs */
	bool takes;			/* a fencing, or members to be read anew; else these fail at once */
	ddr_fence_done_fn fenced;	/* the answer to the last fencing that was taken */
	void *fence_ctx;
	unsigned int forgotten;		/* times that fencing was told to forget an array */
	struct ddr_reload *reload;	/* the last one that was taken, */
	unsigned int reloads_freed;
	unsigned int supers, maps, logs, repairs;	/* and what the state machine was given of it */
	struct ddr_owner owners_loaded;	/* of slot 0, likewise */
	uint8_t machine[16];		/* of this node, likewise */
	char own_name[64];
	/* owner pages */
	struct ddr_owner owner_known;	/* what the state machine knows of slot 0; state 0: nothing */
	bool super_writes;		/* superblocks are written */
	struct ddr_owners pages;	/* beside the last ones */
	unsigned int pages_given, refused;
	int bind_error, load_error;	/* of the next bind to the kernel's array; of the next load's start */
	/* events */
	char event[32];
	unsigned int n_events;
	uint64_t now, due;		/* the state machine needs its next tick then */
	uint64_t waited;		/* for a processor, in ms */
	uint8_t cluster_id;		/* the first byte of the id; 0: none */
	uint8_t cluster_told;		/* to the state machine */
	uint8_t cluster_known[16];	/* to the group: that has used the array last */
} play;

static struct ddr_transport_ops cluster_ops, alone_ops;
static struct ddr_daemon d;

uint64_t ddr_now_ms(void)
{
	return play.now += 100;
}

uint64_t ddr_waited_ms(void)
{
	return play.waited;
}

/* ---- the kernel ------------------------------------------------------------------ */

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_ioctl(int fd, unsigned long request, void *arg);
ssize_t __real_write(int fd, const void *buf, size_t len);
ssize_t __wrap_write(int fd, const void *buf, size_t len);

int __wrap_open(const char *path, int flags, ...)
{
	int fds[2];

	if (strcmp(path, "/dev/" DDR_DEVICE_NAME) != 0)
		return __real_open(path, flags, 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
	if (play.peer > 0)
		close(play.peer);
	play.fd = fds[0];
	play.peer = fds[1];
	play.binds++;
	return play.fd;
}

int __wrap_ioctl(int fd, unsigned long request, void *arg)
{
	struct ddr_bind *b = arg;

	if (request == BLKGETSIZE64) {
		*(uint64_t *)arg = play.gone >> fd & 1 ? 0 : 1u << 30;
		return 0;
	}
	assert_int_equal(fd, play.fd);
	assert_int_equal(request, DDR_IOC_BIND);
	assert_int_equal(b->flags, DDR_BIND_F_LOADED);
	errno = play.bind_error;
	if (play.bind_error)
		return -1;
	b->flags = bind_early ? DDR_BIND_F_LOADED : 0;
	b->cookie = 7;
	b->lowest = bind_serves[0];
	b->highest = bind_serves[1];
	b->shadow_place = DDR_NO_MEMBER;
	b->members = 5;
	for (unsigned int p = 0; p < b->members; p++) {
		b->dev_major[p] = play.minor[p] ? 8 : 0;
		b->dev_minor[p] = play.minor[p];
	}
	return 0;
}

ssize_t __wrap_write(int fd, const void *buf, size_t len)
{
	if (fd != play.fd)
		return __real_write(fd, buf, len);
	if (play.refuse) {
		errno = play.refuse;
		return -1;
	}
	assert_true(play.n_told + len / sizeof(struct ddr_rec) <= TOLD_MAX);
	memcpy(&play.told[play.n_told], buf, len);
	play.n_told += (unsigned int)(len / sizeof(struct ddr_rec));
	return (ssize_t)len;
}

/* ---- the state machine, the members ------------------------------------------------ */

#include "tests/unit/drive-members.h"
#include "tests/unit/drive-sm.h"

/* ---- the rest of the daemon ------------------------------------------------------ */

int ddr_fence_ask(struct ddr_fence *f, const struct ddr_conf *conf, const struct ddr_fence_whom *whom, ddr_fence_done_fn done, void *ctx)
{
	(void)f, (void)conf;
	snprintf(play.fence_name, sizeof(play.fence_name), "%s", whom->name);
	play.lost_ms = whom->lost_ms;
	play.fence_settle_ms = whom->settle_ms;
	snprintf(play.fence_devices, sizeof(play.fence_devices), "%s|%s", whom->devices ? whom->devices : "none", whom->devices ? whom->more : "");
	play.fenced = done;
	play.fence_ctx = ctx;
	return play.takes ? 0 : -EAGAIN;
}

void ddr_fence_forget(struct ddr_fence *f, const void *ctx)
{
	(void)f;
	play.forgotten += ctx == play.fence_ctx;
}

/* Clients that wait look at once, and ask the state machine of whatever runs. */
static void clients_look(void *ctx, const struct ddr_notice *n)
{
	struct ddr_array *a;

	(void)ctx, (void)n;
	qb_list_for_each_entry(a, &d.arrays, list)
		assert_true(a->state != DDR_ARRAY_RUNNING || a->sm);
}

void ddr_event_plain(struct ddr_array *a, int priority, const char *name, const char *text)
{
	(void)priority;
	ddr_sink_tell(&a->d->sink, NULL);
	assert_true(strlen(text) > 0);
	snprintf(play.event, sizeof(play.event), "%s", name);
	play.n_events++;
}

void ddr_event_array(struct ddr_array *a, const struct ddr_output *o)
{
	bool gave_up = o->type == DDR_OUT_GIVE_UP;

	if (!gave_up && o->event == DDR_EV_CLEAN_REFUSED)
		a->refusal = "played";
	ddr_event_plain(a, 0, gave_up ? "give-up" : "event", gave_up ? a->error : "told");
}

/* The names of the mapped devices, by minor number; "": no such device. */
static const char *dm_name[4] = { "", "", "", "" };

bool ddr_device_dm_name(unsigned int major, unsigned int minor, char *buf, size_t size)
{
	(void)major;
	return minor < 4 && *dm_name[minor] && (size_t)snprintf(buf, size, "%s", dm_name[minor]) < size;
}

void ddr_device_name(unsigned int major, unsigned int minor, char *buf, size_t size)
{
	(void)major, (void)minor;
	snprintf(buf, size, "/dev/mapper/played");
}

void ddr_state_seen(const char *dir, const uint8_t uuid[16], uint64_t generation, const uint8_t gen_id[16])
{
	(void)dir, (void)uuid, (void)gen_id;
	play.generation_seen = generation;
}

void ddr_rate_done(struct ddr_rate *r, uint64_t blocks, uint64_t us)
{
	(void)r, (void)blocks, (void)us;
}

void ddr_rate_scanned(struct ddr_rate *r, uint64_t blocks, uint64_t us)
{
	(void)r;
	(void)blocks;
	(void)us;
}

void ddr_rate_tick(struct ddr_rate *r, uint64_t now_ms)
{
	(void)r, (void)now_ms;
}

void ddr_watch_tick(struct ddr_array *a, uint64_t now_ms)
{
	(void)a, (void)now_ms;
}

void ddr_stall_tick(struct ddr_stall *s, uint64_t now_ms, uint64_t limit_ms)
{
	(void)s, (void)now_ms, (void)limit_ms;
	play.stalls++;
	play.late_stalls += play.stamps_begun != 0;
}

/* ---- the group ------------------------------------------------------------------- */

static struct ddr_transport group;
static int group_refuses;
static const char *group_away;		/* why no group can be joined, or NULL */

static const char *group_waits(const struct ddr_daemon *daemon)
{
	(void)daemon;
	return group_away;
}

static uint32_t group_node(const struct ddr_daemon *daemon)
{
	(void)daemon;
	return 1;
}

static uint32_t group_nodes(const struct ddr_daemon *daemon)
{
	(void)daemon;
	return play.nodes ? play.nodes : 3;
}

static const char *group_node_name(const struct ddr_daemon *daemon, uint32_t node, char *buf, size_t size)
{
	(void)daemon;
	snprintf(buf, size, "node %u", node);
	return buf;
}

static bool group_known_name(const struct ddr_daemon *daemon, uint32_t node, char *buf, size_t size)
{
	(void)daemon;
	snprintf(buf, size, "n%u", node);
	if (node == 3 && play.nameless)
		buf[0] = '\0';
	return *buf;
}

static uint32_t group_bearer(const struct ddr_daemon *daemon, const char *name, uint32_t except)
{
	(void)daemon;
	assert_true(except && strncmp(name, "n", 1) == 0);
	return play.bearer;
}

static bool group_cluster_id(const struct ddr_daemon *daemon, uint8_t id[16])
{
	(void)daemon;
	memset(id, 0, 16);
	id[0] = play.cluster_id;
	return play.cluster_id;
}

static int group_join(struct ddr_transport **out, struct ddr_daemon *daemon, const uint8_t uuid[16],
		      const struct ddr_transport_events *events, void *ctx)
{
	(void)uuid, (void)events, (void)ctx;
	if (group_refuses)
		return group_refuses;
	group.ops = daemon->transport;
	*out = &group;
	return 0;
}

static bool group_mcast(struct ddr_transport *t, const uint8_t *msg, uint32_t len)
{
	(void)msg, (void)len;
	assert_ptr_equal(t, &group);
	if (!play.room)
		return false;
	play.room--;
	play.sent++;
	return true;
}

static void group_leave(struct ddr_transport *t)
{
	assert_ptr_equal(t, &group);
	clients_look(NULL, NULL);
	play.left++;
}

/* ---- an array that runs ---------------------------------------------------------- */

static const uint8_t uuid[16] = { 1 };

static void loaded(void)
{
	struct ddr_load *l = play.load;

	assert_non_null(l);
	play.load = NULL;
	l->ok = true;
	l->members = play.members;
	memset(&l->members->still, 0, sizeof(l->members->still));	/* others than those of an earlier load */
	fixture_super(&l->assembly.super, 2, 1, DDR_LAYOUT_ROTATING, 64u << 20, 0);
	l->assembly.super.owner_pages = play.owner_pages;
	l->log = calloc((size_t)l->assembly.super.slots * l->assembly.super.log_blocks, sizeof(*l->log));
	l->map = calloc(l->assembly.super.map_blocks, sizeof(*l->map));
	/* the driver reads them only while it starts */
	struct ddr_load_block *log = l->log, *map = l->map;

	l->done(l->ctx);
	free(log);
	free(map);
}

/* @minor: of the first device of the table, which names consecutive ones; 0: it names none. */
static struct ddr_array *begin_on(bool cluster, uint32_t minor)
{
	struct ddr_array *a;

	memset(&play, 0, sizeof(play));
	for (uint32_t p = 0; minor && p < 5; p++)
		play.minor[p] = minor + p;
	play.room = UINT32_MAX;
	group_refuses = 0;
	group_away = NULL;
	play.members = calloc(1, sizeof(*play.members));
	memset(&d, 0, sizeof(d));
	qb_list_init(&d.arrays);
	ddr_conf_defaults(&d.conf);
	cluster_ops = (struct ddr_transport_ops){
		.name = "played", .cluster = true, .waits = group_waits, .node = group_node, .nodes = group_nodes, .node_name = group_node_name,
		.known_name = group_known_name, .bearer = group_bearer, .cluster_id = group_cluster_id,
		.join = group_join, .mcast = group_mcast, .leave = group_leave,
	};
	alone_ops = cluster_ops;
	alone_ops.cluster = false;
	play.nodes = cluster ? 3 : 1;
	d.sink.take = clients_look;
	d.transport = cluster ? &cluster_ops : &alone_ops;
	d.loop = qb_loop_create();
	ddr_array_appeared(&d, uuid, false);
	a = ddr_array_by_uuid(&d, uuid);
	assert_non_null(a);
	loaded();
	assert_int_equal(a->state, DDR_ARRAY_RUNNING);
	assert_int_equal(play.binds, 1);
	play.n_told = play.n_events = 0;
	return a;
}

static inline struct ddr_array *begin(bool cluster)
{
	return begin_on(cluster, 0);
}

static void stop(void *data)
{
	qb_loop_stop(data);
}

/* Lets a few ticks pass. */
static inline void run(void)
{
	qb_loop_timer_handle timer;

	assert_int_equal(qb_loop_timer_add(d.loop, QB_LOOP_LOW, 350 * QB_TIME_NS_IN_MSEC, d.loop, stop, &timer), 0);
	qb_loop_run(d.loop);
}

static void end(void)
{
	play.answer = NULL;
	ddr_arrays_close(&d);
	if (play.load)
		play.load->done(play.load->ctx);	/* its thread has ended */
	free(play.members);
	free(d.outs);
	qb_loop_destroy(d.loop);
	close(play.peer);
}

static inline void step(struct ddr_array *a)
{
	ddr_drive_step(a, ddr_drive_input(a, DDR_IN_NONE));
}

/* The state machine emits one output. */
static inline void asks(struct ddr_outputs *out, enum ddr_out_type type, uint32_t node, uint64_t number)
{
	memset(&out->out[0], 0, sizeof(*out->out));
	out->out[0].type = type;
	out->out[0].node = node;
	out->out[0].io = out->out[0].failure = number;
	out->n = 1;
}

#endif
