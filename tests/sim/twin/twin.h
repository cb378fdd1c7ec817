/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The daemon's own glue in the simulator. Each node has a ddraidd: the files of daemon/, unchanged, linked with twins of what they call of the
 * system. Nothing of the world is different: disks, kernels, networks and the checks are those of ddrsim (sim.h). Only what stands between
 * the state machine and these is the daemon itself, instead of node.c, node_start.c and the schedule of node_io.c.
 *
 *	node.c		the life of a daemon: start, kill, power (node.h, for the schedule)
 *	choice.c	which of all that may happen to it next does
 *	step.c		what the world sees of each step of the state machine, and its rules
 *	loop.c		libqb's loop
 *	call.c		system calls: time, descriptors, files
 *	module.c	modprobe, and the watch on /dev
 *	worker.c	threads that sleep (daemon/base/worker.h), as coroutines
 *	disk.c		members, byte by byte, on disks whose chunks are tokens; requests of aio.c
 *	device.c	opening and locking of members, the search for them, what hangs (lib/disk)
 *	kernel.c	/dev/ddraid and tables
 *	group.c		corosync: process groups, quorum, votes
 *	list.c		its list of nodes
 *	fence.c		the process that runs agents
 *	memory.c	what a daemon that is killed had allocated
 *	rare.c		what seldom does
 *	starts.c	what does while it starts or adopts an array, and what must not come of it
 *	world.c		what befalls it beside crashes
 *	main.c		options
 *
 * A daemon may be killed at each of its effects: a record to the kernel, a request to a member, a message, an order to an agent.
 */
#ifndef DDR_TESTS_SIM_TWIN_H
#define DDR_TESTS_SIM_TWIN_H

#include <poll.h>
#include <setjmp.h>

#include "daemon/array/array.h"
#include "tests/sim/kernel.h"
#include "tests/sim/node.h"

#define TWIN_FD		4096	/* descriptors of the simulator have numbers from here on */
#define TWIN_FDS	1024u
#define TWIN_MAJOR	259u	/* of members: the minor number is that of the member + 1 */
#define TWIN_DM_MAJOR	253u
#define TWIN_DM_NAME	"rig"
#define TWIN_KEYS	64u

struct worker;

/* What a load that adopts the array has read of stamps, and written over them. Masks are of members. */
struct twin_claim {
	const struct ddr_worker *of;	/* the thread of that load: one that was cancelled may still be at work */
	uint32_t read[3];		/* the first time, again, and after the claims */
	uint32_t moved, newer;		/* another machine has written stamps, superblocks, since this load has read them */
	uint32_t checked;		/* after the second look its superblock was read */
	uint32_t late;			/* did not answer in time */
	uint32_t must;			/* these have shown that another machine uses the array: it must be refused */
	bool other_disk;		/* or its disks do not keep what is written: it may be refused */
	struct { uint64_t seq; uint32_t ms; } found[SIM_MAX_NODES][2];	/* the newest stamp of each place of each slot: how long its owner is waited for */
	uint32_t wait_ms;		/* each of the two waits, at least */
	uint64_t read_ms, wrote_ms;	/* the end of the first look, and of the claims */
};

/* One ddraidd. */
struct proc {
	struct sim *s;
	struct node *n;
	bool alive;
	jmp_buf dies;
	struct ddr_daemon *d;
	qb_loop_timer_handle tick;
	struct worker *workers;
	struct ddr_table *table;	/* one that is to be loaded */
	const struct ddr_input *news;	/* of the group or the quorum service, for the callback that is being called */
	bool unseen;			/* its kernel has a table that no daemon was bound to since */
	uint32_t fails;			/* kinds of calls that fail next (enum world_call) */
	int error[WORLD_CALLS];
	bool hears, quorate, due;	/* it is being told of a view or of quorum; whether it had quorum before, and has then */
	bool was_refused;		/* since it began, a device could not be opened, for a reason of its own */
	uint32_t absent;		/* members whose devices are not there, since this daemon began */
	uint32_t late_looks;		/* members with a thread that hangs and was given up */
	struct ddr_known known;		/* the file of state.h, which outlives it */
	bool remembered;		/* when it began, that had a generation that the disks did not have */
	struct ddr_identity_file file;	/* of ident.h, likewise */
	uint64_t began_ms, ran_ms;	/* when it was started; when it ran last */
	uint64_t stood_ms;		/* when it went on, after it had not run for seconds */
	bool settled, rests;		/* all of its arrays have started, or were refused; nothing of them needs a tick */
	bool unheard;			/* since it stood still none of its pulses came back, from number @pulse_due on */
	uint64_t pulse, pulse_due;	/* @pulse: the last one that it sent */
	bool unlooked;			/* without a cluster: since it went on after a standstill, at @woke_ms, it has seen no stamp of its array */
	uint64_t woke_ms;
	uint64_t cookie;		/* of the array object, as its kernel had it last */
	struct twin_claim claim;
	struct { void *cpg, *quorum; } context;
	int cpg_fd, quorum_fd, fence_fd, control_fd, uevent_fd;
	uint32_t view[SIM_MAX_NODES], pids[SIM_MAX_NODES], n_view;	/* as the group told it last */
	uint64_t view_ring, joined_in;	/* its ring then; the ring in which it joined the group */
};

extern struct proc twin_proc[SIM_MAX_NODES];
extern struct proc *me;		/* whose code runs; NULL: the world's */

static inline struct proc *twin_of(const struct sim *s, const struct node *n)
{
	return &twin_proc[n - s->node];
}

static inline uint64_t twin_ms(const struct proc *p)
{
	return p->s->now + 1000;	/* 0 is no time */
}

/* ---- node.c -------------------------------------------------------------------- */

/* The daemon whose code runs changes the world. It may die just before. */
void twin_effect(void);
/* What may happen to it next, by kind: callbacks of the loop, threads that go on, requests that end; the one of those that may. */
enum twin_what { TWIN_LOOP = 1, TWIN_THREADS, TWIN_REQUESTS, TWIN_WHATS };
void twin_happens(struct proc *p, enum twin_what what, unsigned int which);
/* Has it not run for so long, while it was in the group, that it must do nothing before it has heard a pulse of its own (rule L8)? */
bool twin_stood_still(const struct proc *p);
/* Likewise, while it had an array without a cluster (rule I3). */
bool twin_stood_alone(const struct proc *p);
/* It is about to do what a daemon that stood still must not do yet. */
void twin_serves(struct proc *p, const char *what);
/* Calls into the daemon, which may die within. */
void twin_run(struct proc *p, void (*what)(struct proc *p, const void *arg), const void *arg);
/* Its array, or NULL. */
struct ddr_array *twin_array(const struct proc *p);
/* Does it remember a generation that the disks never had? */
bool twin_remembers_newer(const struct proc *p);

/* ---- choice.c ------------------------------------------------------------------- */

struct act twin_choice(struct sim *s, struct node *n);

/* ---- rare.c -------------------------------------------------------------------- */

/* start --adopt */
void twin_adopt(struct proc *p);
/* If another machine has its array (struct rare, taken): no more. It has changed nothing. */
void twin_given_back(struct sim *s, const struct node *n);

/* ---- starts.c ------------------------------------------------------------------ */

/* A thread begins: is it that of a load? */
void twin_load_begins(struct proc *p, const struct ddr_worker *w);
/* It has read all stamps of a member, the superblock of one, has claimed a slot there. */
void twin_stamps_read(struct proc *p, uint32_t m);
void twin_super_read(struct proc *p, uint32_t m);
void twin_stamps_written(struct proc *p, uint32_t m);
/* The array starts. */
void twin_load_ends(struct proc *p, const struct ddr_sm_config *cfg);
/* Is it right that an adoption was refused? */
bool twin_not_adopted(const struct proc *p);
/* The acts. */
bool twin_others(struct sim *s, struct node *n, uint64_t how, uint64_t members);
bool twin_mute(struct sim *s, struct node *n, uint64_t members, uint64_t ms);
bool twin_looks_mute(const struct proc *p, uint32_t m);
bool twin_strangers(struct sim *s, struct node *n, uint64_t members);
bool twin_strangers_go(struct proc *p);	/* false: there were none */
bool twin_no_table(struct node *n, uint64_t error);

/* ---- world.c ------------------------------------------------------------------- */

/* Does this call fail now? Then errno is set. */
bool twin_fails(enum world_call what);

/* ---- step.c -------------------------------------------------------------------- */

/* The state machine of the node has gone: what it had under way is under way still, and nobody waits for it. */
void twin_orphans(struct sim *s, struct node *n);

/* ---- loop.c -------------------------------------------------------------------- */

/* Callbacks that are due: descriptors that are ready, timers. */
unsigned int twin_loop_ready(const struct proc *p);
/* What the one of them is, whatever its place among the others (twin_choice()); likewise for threads and requests. Never more than 40 bits. */
uint64_t twin_loop_kind(const struct proc *p, unsigned int which);
void twin_loop_call(const struct proc *p, unsigned int which);
/* Timers that are due now, each once. */
void twin_loop_timers(const struct proc *p);
/* The callback of one descriptor. */
void twin_loop_event(const struct proc *p, int fd);
/* Does the loop look at this descriptor? */
bool twin_loop_polls(const struct proc *p, int fd);

/* ---- call.c -------------------------------------------------------------------- */

enum file_kind { FILE_EVENT, FILE_CONTROL, FILE_CHANNEL, FILE_DISK, FILE_QUIET, FILE_LIST };
#define TWIN_NEWS	8u

struct file {
	enum file_kind kind;
	unsigned int refs;		/* descriptors, and requests under way */
	struct proc *p;
	uint64_t count;			/* of an eventfd; events of devices; of a list, the nodes that it had when it was looked at last */
	bool ended;			/* corosync, whose end of it is gone */
	struct { uint8_t what, member; } news[TWIN_NEWS];
	uint64_t channel;		/* its number; 0: not bound */
	uint32_t member;
	bool locked, passed;		/* passed: others may have the usual node of the device */
	struct ddr_rec rec[16];		/* of a control descriptor */
	unsigned int n_rec;
};

int twin_open(enum file_kind kind);
struct file *twin_file(int fd);
void twin_get(struct file *f);
void twin_put(struct file *f);
bool twin_ready(int fd, int events);
/* The next open file; NULL: the first. */
struct file *twin_next_file(const struct file *f);
void twin_close_all(struct proc *p);

/* ---- worker.c ------------------------------------------------------------------ */

unsigned int twin_workers_ready(const struct proc *p);
uint64_t twin_worker_kind(const struct proc *p, unsigned int which);
void twin_worker_run(struct proc *p, unsigned int which);
void twin_workers_end(struct proc *p);
/* The thread that runs sleeps; the world goes on. */
void twin_sleep(uint64_t until_ms);
bool twin_in_thread(void);
/* The one that runs, or NULL. */
const struct ddr_worker *twin_thread(void);

/* ---- disk.c -------------------------------------------------------------------- */

/* What a reader gets; a negative errno. */
int twin_read(struct proc *p, uint32_t member, void *buf, size_t len, uint64_t offset);
int twin_write(struct proc *p, uint32_t member, const void *buf, size_t len, uint64_t offset);
uint64_t twin_bytes(const struct proc *p, uint32_t member);
/* Requests of the node, whose daemon may have died. */
unsigned int twin_requests(const struct node *n);
unsigned int twin_pending(const struct proc *p, uint32_t member);
extern uint64_t twin_ended[DDR_MAX_MEMBERS];	/* requests, of any node */
bool twin_hangs(const struct proc *p, uint32_t member);
/* Is a write of the node on its way to a disk? */
bool twin_given(const struct node *n);
/* Is a write or flush by this descriptor under way? */
bool twin_writes_by(const struct file *f);
uint64_t twin_request_kind(const struct proc *p, unsigned int which);
void twin_request_end(struct sim *s, struct node *n, unsigned int which);
/*
 * A member that does not hang answers within seconds, however seldom the schedule lets the node's requests end: ends one that is older. The descriptor of its
 * queue, or -1: there is none.
 */
int twin_request_overdue(struct proc *p);
void twin_requests_orphaned(struct node *n);
/* The process is stopped, and goes on. */
void twin_requests_stop(struct proc *p);
void twin_requests_go_on(struct proc *p);
/* Is a write of it to this kind of place under way? */
bool twin_request_writes(const struct sim *s, const struct node *n, const struct io *io, bool given);	/* @given: to the kernel */
void twin_requests_power(struct sim *s, struct node *n);
void twin_disk_end(void);

/* ---- device.c ------------------------------------------------------------------- */

FILE *twin_sysfs(const char *path);
/* Does the file of its identity hold an id of its cluster that was agreed? */
bool twin_knows_cluster(const struct proc *p);

/* ---- kernel.c ------------------------------------------------------------------- */

int twin_bind(struct file *f, struct ddr_bind *bind);
ssize_t twin_channel_read(struct file *f, void *buf, size_t len);
ssize_t twin_channel_write(struct file *f, const void *buf, size_t len);
bool twin_channel_ready(const struct file *f, int events);
void twin_control_opened(struct file *f);
void twin_control_tell(struct proc *p, uint32_t type, uint64_t start, uint64_t count);
void twin_channel_closed(const struct file *f);
void twin_table_done(struct proc *p, int result);

/* ---- group.c, fence.c ------------------------------------------------------------ */

/* A daemon starts, and ends. */
void twin_group_begin(const struct proc *p);
void twin_group_end(struct proc *p);
/* A call that waits for corosync's answer begins. */
void twin_corosync_waits(void);
/* Corosync does not run here, or its sockets have no room (/dev/shm is full). */
bool twin_corosync_refused(void);
/* Has corosync's list of nodes changed since this connection was told? */
bool twin_list_changed(const struct file *f);
/* The connection to the group of its array alone is lost; false: there is none. */
bool twin_own_group_ends(struct proc *p);
void twin_own_group_changed(const struct proc *p);
void twin_fence_answer(struct proc *p, const struct ddr_input *in);

/* ---- memory.c -------------------------------------------------------------------- */

void twin_memory_end(const struct proc *p);
/* Zeroed memory of the simulator, while a daemon runs: not the daemon's, and never refused. free() gives it back. */
void *twin_own(size_t n);

#endif
