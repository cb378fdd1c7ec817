/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The simulator: model disks, model kernels, the driver of the state machine, and checkers, controlled by one seeded schedule.
 * Everything that happens is one event, and the next one is drawn from the seed, so a seed replays exactly.
 *
 *	disk.c		members with volatile caches, torn metadata writes, failures
 *	kernel.c	grants, ranges, writes, reads and flushes in flight
 *	kernel_channel.c	its channel: records to and from the daemon
 *	kernel_table.c	another table
 *	node.c		what a daemon does with the machine's outputs; crashes
 *	node_out.c	what the world notes of these outputs
 *	node_start.c	how it starts
 *	node_io.c	its I/O on the members
 *	job.c		its jobs: resync, verify, rebuild
 *	grow.c		members that become larger, and the array that grows into them
 *	bus.c		messages in total order, views
 *	late.c		requests of a machine that died, which land later or never
 *	check.c		the safety rules, checked on the disks and the model only
 *	check_meta.c	those about superblocks, logs and the map; what these say
 *	parity.c	tokens that stand for data, and their parity
 *	check_cluster.c	those about several nodes
 *	cluster.c	several nodes: group, quorum, networks, machines, fencing
 *	tape.c		acts, their recording, and replay
 *	tape_text.c	a tape as a scenario
 *	shrink.c	the shortest schedule that still fails
 *	schedule.c	what happens to several nodes, and when
 *	scale.c		the cost of operations in large clusters
 *	single.c	a world, the schedule of one node, liveness
 *	faults.c	failures of members, and what the operator does about members
 *	finding.c	known defects that are looked for
 *	rare.c		what seldom befalls their machines
 *	starts.c	and what befalls them while an array starts, or is adopted
 *	world.c		what befalls real daemons beside that: processes that stop, corosync that ends, calls that fail, events of devices
 *	main.c		options
 *
 * A chunk is a token of 64 bits. P is the XOR of the data tokens and Q their Reed-Solomon sum byte by byte, so parity is as real as
 * on disks.
 */
#ifndef DDR_TESTS_SIM_SIM_H
#define DDR_TESTS_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/disk/format_owner.h"
#include "rig.h"
#include "tape.h"

#define SIM_MAX_NODES	8
#define SIM_MAX_EVENTS	2048
#define SIM_MAX_BLOCKS	1024
#define SIM_MAX_REGIONS	64
#define SIM_MAX_OPS	24
#define SIM_MAX_IO	64
#define SIM_PAGES	3	/* of the owners of up to 15 slots */
#define SIM_MAX_QUEUE	4096
#define SIM_MAX_EX	64
#define SIM_MAX_LATER	64
#define SIM_DIGESTS	1024
#define SIM_MAX_FENCES	256
#define SIM_BOOT	1
#define SIM_NOBODY	0xffu

struct sim;
struct node;

/* ---- disks --------------------------------------------------------------------- */

enum disk_fault { FAULT_NONE, FAULT_WRITE, FAULT_FLUSH, FAULT_META, FAULT_READ_IO, FAULT_READ_MEDIUM, FAULT_NOSPC };

struct disk {
	uint64_t media[SIM_MAX_BLOCKS], cache[SIM_MAX_BLOCKS];
	bool cached[SIM_MAX_BLOCKS];
	uint64_t since[SIM_MAX_BLOCKS];		/* when the block entered the cache */
	uint8_t log[SIM_MAX_NODES][2][DDR_META_BLOCK], map[2][DDR_META_BLOCK], sb[2][DDR_META_BLOCK];
	uint8_t pages[2][SIM_PAGES][DDR_META_BLOCK];	/* the owner pages of each copy of the superblock */
	uint8_t stamp[SIM_MAX_NODES][2][DDR_META_BLOCK];	/* real daemons: of each slot */
	unsigned int strayed;	/* stamps that were written since another disk is there */
	/* decoded when they change (disk_landed) */
	uint64_t log_seq[SIM_MAX_NODES][2], map_seq[2];	/* 0: not valid */
	struct ddr_super super;			/* the newer valid copy */
	struct ddr_owners owners;		/* beside it */
	bool has_super;
	bool dead;		/* every request fails, for good */
	bool failed;		/* it has failed something since it was put in */
	bool chosen;		/* it may fail; no more members than the parity covers may */
	uint32_t cut;		/* nodes that do not reach it: their requests fail, like those to a dead disk (bit: index of the node) */
	uint64_t back_at;		/* when it was mended, or put back, last */
	uint64_t hangs_until[SIM_MAX_NODES];	/* real daemons: requests of this node end no earlier (s->now) */
	uint32_t hangs_kernel;	/* nodes on which that holds for the kernel's own requests, too */
	uint32_t was_cut;	/* nodes whose kernel may still report such a failure */
	uint32_t faulted;	/* nodes whose kernel has seen it fail a write or flush: its contents may be old */
	bool dropped;		/* a flush failed, and its cache was dropped */
	uint32_t daemon_failed;	/* nodes for whose living daemon it failed something */
	enum disk_fault once;	/* the next request of this kind fails */
	bool full;		/* its pool is full: some writes get no space. That is no failure */
	uint64_t full_until;	/* event at which that ends */
	bool exchanged;		/* another disk is behind its devices (finding.c, rare.c) */
	bool blank, small;	/* which is empty, or too small */
	bool lies;		/* the next read of a sector that was just rewritten delivers other contents */
	uint32_t sour;		/* this many reads of a fix fail: it looks for a bad sector that was reported */
	bool bad[SIM_MAX_BLOCKS];	/* these cannot be read until they are written */
	uint32_t n_bad;
	bool wrong;		/* a verify, or what follows from it, reads other contents of this block than it holds, until it is written */
	uint64_t wrong_block;
	bool foreign;		/* another program has made a file system on it */
	bool was_bad;		/* it had some, and counts as one that fails (chosen) */
};

void disk_write(struct disk *d, uint64_t block, uint64_t token);
uint64_t disk_read(const struct disk *d, uint64_t block);
/* The time, for disk_flush(). */
uint64_t disk_now(void);
/* What was cached at the time @issued, in its newest version, is on the media. */
void disk_flush(struct disk *d, uint64_t issued);
void disk_drop_cache(struct disk *d);
/* Does this request of @n fail now? */
bool disk_fails(struct sim *s, const struct node *n, struct disk *d, enum disk_fault kind);
/* Has it no space for this write? */
bool disk_full(struct sim *s, const struct node *n, const struct disk *d);
/* Do all requests of @n fail? */
bool disk_gone(const struct sim *s, const struct node *n, const struct disk *d);
/* The kernel or the daemon of @n is gone: it did not complete what it saw fail, so that does not matter to others. */
void disk_forget_kernel(struct sim *s, const struct node *n);
void disk_forget_daemon(struct sim *s, const struct node *n);
/* Does the read meet a bad sector? */
bool disk_bad(const struct disk *d, uint64_t start, uint64_t count);
/* It has no bad sectors any more. At the end of a run: a region that was never in sync cannot become so while data of it is unreadable, and is tried for ever. */
void disk_readable(struct disk *d);
/* A failed disk works again; its unflushed writes are lost. */
void disk_back(struct sim *s, struct disk *d);
/* Power fails: each cached chunk reached the media or did not. */
void disk_power(struct sim *s, struct disk *d);
/* The metadata block at @place changed; NULL: any may have. */
void disk_landed(struct sim *s, struct disk *d, const uint8_t *place);
/* Is there a superblock of the array with its owner pages? */
bool disk_copy(const struct sim *s, const struct disk *d, unsigned int copy, struct ddr_super *sb, struct ddr_owners *owners);
/* 4096 bytes land completely, in part, or not at all. */
void disk_tear(struct sim *s, uint8_t *place, const uint8_t *block);

/* ---- kernel -------------------------------------------------------------------- */

enum op_kind { OP_WRITE, OP_READ, OP_FLUSH, OP_MISMATCH };
/* PARKING: a failure was reported, and the operation is about to wait for the answer. */
enum op_state { OP_FREE, OP_ADMIT, OP_GRANT, OP_RANGE, OP_FLIGHT, OP_PARKING, OP_ERROR };

struct op {
	enum op_state state;
	enum op_kind kind;
	uint64_t order;
	uint32_t id;			/* for tapes: unique in a run */
	uint64_t start, count;		/* blocks */
	uint32_t version;
	uint64_t generation;		/* of the member states with which it is in flight: an order */
	uint32_t targets, pend, failed;	/* members: of this round, not ended, failed in it; for a read: those that it avoids */
	uint32_t done, lost;		/* written or flushed; members that failed a flush */
	uint32_t sees;			/* for a read: members (not places) that it could read when it started */
	uint32_t blame;			/* the member that it waits for */
	uint32_t broken;		/* members that failed it in a way that must fail them */
	uint64_t seq;			/* of an open mismatch */
	enum ddr_error_class class[DDR_UAPI_PLACES];	/* of the failures, by member */
	uint64_t issued;		/* flush: when it started */
	uint32_t promise[SIM_MAX_BLOCKS];	/* flush: versions that were acknowledged when it started */
};

struct kex { bool used, drained, old; uint64_t seq, start, count, order; };	/* old: of the previous daemon, until ENABLE */
struct kapply { bool used; uint64_t seq, order; };
struct kerror { bool open; uint32_t answer; struct ddr_rec rec; };	/* per member, class and operation: further failures join it */
#define SIM_CLASSES	(DDR_EC_ABSENT + 1)
#define SIM_ERRORS	(DDR_UAPI_PLACES * SIM_CLASSES * (DDR_OP_ZEROES + 1))

struct kernel {
	bool there;			/* the array object exists */
	uint64_t cookie;
	uint8_t boot;
	uint64_t blocks;		/* of its table */
	bool unjudged;			/* a longer table: everything waits until ENABLE */
	bool attached, enabled, frozen, killed;
	/* rule 7, for a daemon with a timeout; all times in ms */
	uint64_t timeout, heard;	/* of the bound daemon */
	uint64_t served_timeout, served;	/* of the last one that sent ENABLE */
	bool serves;			/* the bound daemon has sent ENABLE */
	bool lapsed;			/* it was silent for its timeout, and nothing was heard since */
	bool stopped, stops_reads, told_stop;
	uint8_t disk[DDR_UAPI_PLACES];	/* its table: the member at each place; SIM_NOBODY: no replacement. All masks of the kernel are of places */
	uint32_t shadow_place;		/* the place that is being replaced */
	bool suspended;			/* a table that changes the replacement waits for what is in flight */
	uint32_t state[DDR_UAPI_PLACES];	/* enum ddr_kmember */
	bool said_out[DDR_UAPI_PLACES];	/* it was set to OUT with its present device */
	uint64_t cursor[DDR_UAPI_PLACES];
	bool granted[SIM_MAX_REGIONS], touched[SIM_MAX_REGIONS], asked[SIM_MAX_REGIONS], error[SIM_MAX_REGIONS];
	uint32_t flight[SIM_MAX_REGIONS], bits[SIM_MAX_REGIONS];
	struct op op[SIM_MAX_OPS];
	struct kex ex[SIM_MAX_EX];
	struct kapply apply[DDR_UAPI_PLACES];
	struct kerror errors[SIM_ERRORS];
	struct ddr_rec queue[SIM_MAX_QUEUE];	/* to the daemon */
	uint32_t n_queue;
	uint64_t order, seq;
};

void kernel_new(struct sim *s, struct kernel *k);
void kernel_bind(struct sim *s, struct kernel *k);
void kernel_record(struct sim *s, struct kernel *k, const struct ddr_rec *rec);
/* Lets everything continue that waits for nothing outside. */
void kernel_run(struct sim *s, struct kernel *k);
/* The daemon made a system call; false: it was silent for its timeout before. */
bool kernel_heard(struct sim *s, struct kernel *k);
void kernel_set_timeout(struct kernel *k, uint64_t ms);
/* Stops I/O if its daemon was silent for too long. */
void kernel_judge_silence(struct sim *s, struct kernel *k);
bool kernel_start(struct sim *s, struct kernel *k, enum op_kind kind);
/* The same, with all possible draws. */
bool kernel_begin(struct sim *s, struct kernel *k, enum op_kind kind, uint64_t start, uint64_t count, uint32_t id);
/* One event of those in progress; false: there is none. */
bool kernel_event(struct sim *s, struct kernel *k);
/* An event of one operation, starting with that member; of any. */
bool kernel_op_act(struct sim *s, struct kernel *k, uint32_t id, uint32_t m);
bool kernel_op_any(struct sim *s, struct kernel *k);
bool kernel_busy(const struct kernel *k);
void kernel_power(struct sim *s, struct kernel *k);
bool kernel_writes(const struct kernel *k, uint64_t block);
/* It has a grant and no drained range stops it: a write may start at any moment. */
bool kernel_may_write(const struct sim *s, const struct kernel *k, uint64_t block);
bool kernel_in_flight(const struct kernel *k);
/* Requests of it to the member, and (in all runs) those that have ended. */
uint32_t kernel_pending(const struct kernel *k, uint32_t member);
extern uint64_t kernel_ended[SIM_MAX_NODES][DDR_MAX_MEMBERS];
/* The member from which a read of the block takes the chunk of the place, or SIM_NOBODY. */
uint32_t kernel_reads(const struct kernel *k, uint32_t place, uint64_t block);
/* Everything that waits for the daemon is handed back, and comes again: a table is about to be changed. */
void kernel_requeue(struct sim *s, struct kernel *k);
/* Another device has the place: errors of the old one are not declared as errors of the new one. */
void kernel_forget_errors(struct kernel *k, uint32_t place);
/* The table with n->table_member at n->table_place; false: it waits for what is in flight. */
bool kernel_exchange(struct sim *s, struct node *n);
/* The members at these places in its table. */
uint32_t kernel_members(const struct sim *s, const struct kernel *k, uint32_t places);

/* ---- node ---------------------------------------------------------------------- */

struct bus_message { uint32_t sender, len; uint8_t bytes[DDR_SM_MSG_MAX]; };
/* A message, or a view (len 0), at its place in the order. */
struct bus_event { struct bus_message msg; uint32_t nodes[SIM_MAX_NODES], pids[SIM_MAX_NODES], n; uint64_t ring; bool unjust; };	/* unjust: it accuses a node of what that has done */

enum job_phase { JOB_READ, JOB_WRITE, JOB_FLUSH };

struct io {
	bool used, orphan;		/* orphan: its daemon died */
	enum ddr_out_type type;
	uint64_t io;
	uint64_t issued;		/* flush: when it started */
	uint8_t at[DDR_MAX_ROLES];	/* a job: member at each place */
	uint32_t index, slot, member, from, members, pend, failed, job;
	uint32_t half;			/* superblocks: members on which one of the two copies is written */
	uint32_t fix, lost, plain;	/* DDR_FIX_*; members that could not be read; of these: with a plain I/O error */
	bool unlocked, strict, fits;	/* fits: a rebuild that compares what it can */
	uint32_t unread;		/* twin: members of which a read of it failed */
	bool misled;			/* twin: a rebuild that has read wrong contents */
	uint32_t wrong_from;		/* twin, + 1: the member that gave it wrong contents of this block, and perhaps gives others the right ones by now; 0: none */
	uint64_t wrong_block;
	uint64_t repaired, bad_start, bad_count;
	uint32_t fixed, full;		/* full: members that had no space */
	uint64_t start, count, since;
	uint8_t block[DDR_MAX_MEMBERS][DDR_META_BLOCK];	/* superblocks differ by member, the rest uses [0] */
	uint64_t place;			/* the place of two that a write goes to; a rebuild: the place of the member in the stripe */
	enum job_phase phase;
	int32_t result;
	uint64_t mismatches;
	uint64_t parity[2][512], copy[512];
	uint8_t pages[2][SIM_PAGES][DDR_META_BLOCK];	/* superblocks: the owner pages of each copy, and the crc of these */
	uint32_t crc[2];
	uint8_t put[2][512];		/* a fix: members that get parity[][] of the block; 0xff: none */
	bool differs[512];
};

struct node {
	uint32_t id;			/* of the machine */
	uint32_t nid;			/* its id in the cluster, which may change when it boots (not of real daemons) */
	uint64_t settles_at;		/* ms: it booted under another id, and what it had sent before ends no later; 0: that has ended, or ends at its next start */
	uint8_t hardware;		/* another machine has had its name and id since: so many (not of real daemons) */
	bool replaced;			/* what the one before had sent may still land, and nobody has said yet that it is off */
	struct ddr_sm *sm;		/* NULL: the daemon is down */
	struct kernel k;
	struct io io[SIM_MAX_IO];
	struct ddr_super sb;		/* as loaded */
	struct ddr_owners owners;	/* beside it, or as read last */
	bool quorate, failed, clean;
	bool ready;
	bool slept;			/* its daemon has left out ticks that were not due: the clock comes before what happens next */
	bool table_due;			/* its kernel must get a table with the member at the place */
	uint32_t table_member, table_place;
	uint32_t seek;			/* members whose devices its daemon searches for */
	uint64_t resize;		/* blocks: its kernel must get a table of this length; 0: no */
	uint64_t room;			/* blocks for which the members have room, as this node sees them */
	/* with a cluster */
	bool up;			/* the machine has power */
	bool in_group;			/* its daemon is a member of the process group */
	bool gave_up, leaving, clean_asked, left;
	bool anew;			/* it is to load the array again (not of real daemons) */
	uint8_t boot;
	uint32_t pid, part;		/* part: of the network */
	bool q_quorate;
	uint64_t q_ring, v_ring;	/* as delivered */
	uint64_t off_until;
	struct bus_event *events;	/* SIM_MAX_EVENTS: ordered, not delivered yet */
	uint32_t n_events;
	struct bus_message *outbox;	/* SIM_MAX_EVENTS: sent, not ordered yet */
	uint32_t n_outbox;
	uint64_t did_ms[64];		/* by the type of an array's message: when the last one of it got its place in the order; 0: when it joined the group */
	bool unjust;			/* so is the message that it is delivered now */
	bool quorum_due;
	uint32_t n_io;			/* of io[], used */
	bool resynced[SIM_MAX_REGIONS];	/* by a job of it, since it last read a dead node's slot */
	uint64_t asleep;		/* event until which its daemon gets no CPU time */
	/* real daemons (world.c) */
	bool stopped;			/* by SIGSTOP: neither callbacks nor timers nor threads */
	bool deaf;			/* corosync does not run on it */
	uint32_t no_module;		/* so often its daemon looks for the module in vain */
	uint64_t stopped_until, deaf_until;	/* events */
	int64_t clock_s;		/* by which its clock is wrong */
	uint64_t short_until;		/* no request of its daemon can be made */
	bool another;			/* it lost what says who it is, and is another machine: its operator adopts the array, as long as that names the old one */
	uint32_t adopt_pid;		/* the daemon that was told so */
	bool adopts;			/* with its next start */
	uint32_t clone_of;		/* its disk image is that of this node, with all that tells machines apart */
	uint64_t readonly_until;	/* nothing can be written where the daemon keeps what it knows */
	uint64_t no_group_until;	/* corosync does not let its daemon into the group of the array */
	uint64_t path_until;		/* a second device is a path to this member */
	uint32_t path_to;
	uint64_t wedged_until;		/* its kernel drains no range and applies no change of members, and everything else goes on */
	bool hidden;			/* the file that says who it is cannot be read */
	uint32_t wrong_table;		/* what is wrong in the table, or the module, that its operator loads next, or has loaded; 0: nothing */
	uint64_t locked_until[DDR_MAX_MEMBERS];	/* another program has locked the member's usual node (s->now) */
	uint64_t slow_until[DDR_MAX_MEMBERS];	/* whoever opens a member that is not in use, or reads its superblock, hangs (s->now) */
	uint32_t looks_at;		/* + 1: the member that a thread of its daemon opens or reads just now */
	bool newer;			/* it remembers a generation that the disks never had */
	bool older;			/* so its operator starts the array with --older */
	uint32_t claims;		/* its daemon adopts the array: bit 0: it has read stamps, bit 1: it has claimed a slot */
	uint32_t mute;			/* members that hang for who adopts ... */
	uint64_t mute_until;		/* ... until then (s->now) */
	uint32_t strangers;		/* members in whose place disks of another array are, until the array was refused */
	bool strangers_gone;		/* they were taken away when all faults ended, and the load under way may have read them */
	int no_table;			/* so ends its attempt to load the next table */
	bool removed;			/* the array was removed while it was loaded, and its operator loads the table again */
	/* finding.c */
	bool lasting;			/* what befell it does not end */
	bool stuck;			/* its dead daemon hangs in the driver, and is in the group still */
	bool unlisted;			/* corosync's list does not have it */
	bool outside;			/* its daemon knows of no cluster */
	bool recovered;			/* it was fenced and recovered, and has not started since */
	uint32_t recovering_pid;	/* + 1: of its last daemon, as its slot was recovered */
	uint64_t outside_until;		/* event */
	int crash_after;		/* the daemon dies after this many more outputs; -1: it does not */
	struct ddr_output out[DDR_SM_MAX_OUT];
};

void node_start(struct sim *s, struct node *n);
void node_kill(struct sim *s, struct node *n);		/* the daemon */
void node_power(struct sim *s, struct node *n);		/* the machine */
void node_free(struct sim *s, struct node *n);		/* the run is over */
void node_step(struct sim *s, struct node *n, const struct ddr_input *in);
/* Gives its machine the clock, if it has left out ticks that were not due. */
void node_wakes(struct sim *s, struct node *n);
bool node_event(struct sim *s, struct node *n);
/* The choices of node_event(); false: there is none. */
bool node_record(struct sim *s, struct node *n);	/* its kernel's oldest record; real daemons: anything */
bool node_does(struct sim *s, struct node *n, const struct act *a);	/* real daemons: what the act names, if it may happen now */
bool node_seeks(struct sim *s, struct node *n);
/* Does the node know the id of its cluster, and have all others the same? */
bool node_has_id(const struct sim *s, const struct node *n);
/* What its daemon knows of the owner pages of the disks, apart from its state machine. */
void node_owners(const struct node *n, struct ddr_owners *owners);
bool node_table(struct sim *s, struct node *n);
bool node_resizes(struct sim *s, struct node *n);
bool node_io_act(struct sim *s, struct node *n, const struct act *a);
bool node_io_any(struct sim *s, struct node *n);
bool node_limit_open(const struct sim *s);
bool node_may_start(const struct node *n);
uint32_t node_io_count(const struct node *n);
/* A request of the daemon has ended: notifies it, and frees @io. */
void node_io_end(struct sim *s, struct node *n, struct io *io);
bool node_io_fails(struct sim *s, const struct node *n, struct disk *d, enum disk_fault kind);
/* Does this write of a job fail on the member? */
bool node_job_fails(struct sim *s, const struct node *n, struct io *io, uint32_t m);
bool node_io_answers(const struct sim *s, const struct node *n, bool orphan, const struct disk *d);

/* Real daemons only (world.c), else false: nothing happens. */
bool node_stops(struct sim *s, struct node *n, bool stop);	/* by SIGSTOP, or goes on */
bool node_ends(struct sim *s, struct node *n);	/* in order, and its arrays stay up: systemctl restart ddraidd */
bool node_call_fails(struct sim *s, struct node *n, uint32_t what, int error);	/* its next call of that kind */
bool node_hears(struct sim *s, struct node *n, uint32_t what, uint32_t member);	/* of a block device, from its kernel */
bool node_rare(struct sim *s, struct node *n, const struct act *a);	/* rare.c */
void node_supers_land(struct sim *s, struct node *n);	/* what of its writes of superblocks is on its way; and nothing keeps back the rest */
bool node_held_for_good(const struct sim *s, const struct node *n);	/* it is held after a standstill, until a member shows that no other machine has the array; and none can any more */
bool node_stands_still(const struct sim *s, const struct node *n);	/* for its kernel and its disks, since it did (rule L8) */
bool node_holds_back(const struct sim *s, const struct node *n, const struct io *io);	/* it does, or will as soon as it runs; and no disk has any of @io */
void node_catches_up(struct sim *s, struct node *n);	/* with what ended before it hears what comes next */
void node_group_ended(struct sim *s, struct node *n);	/* corosync on its machine */
/* Does its daemon look at what the quorum service reports, or at what the group delivers? */
bool node_listens(const struct sim *s, const struct node *n, bool quorum);
/* A message of the node is about to get its place in the order. Does it accuse a node of owing what that has done, or could not do (rule L3)? */
bool node_ordered(struct sim *s, struct node *n, const struct bus_message *msg);

/* ---- job ----------------------------------------------------------------------- */

/* The next step of a job. */
void job_event(struct sim *s, struct node *n, struct io *io);
/* Its writes were in flight when power failed. */
void job_power(struct sim *s, const struct node *n, struct io *io);

/* ---- grow ---------------------------------------------------------------------- */

void grow_init(struct sim *s);
void grow_sized(struct sim *s, uint64_t blocks);
void grow_wanted(struct sim *s, struct node *n);
bool grow_sees(struct sim *s, uint64_t room, uint32_t nodes);	/* these nodes see the size of the devices */
void grow_calm(struct sim *s);
void grow_room(const struct sim *s, const struct node *n, const struct io *io, struct ddr_input *in);
void grow_prepare(struct sim *s, struct io *io, uint32_t m);
void grow_prepare_power(struct sim *s, const struct node *n, const struct io *io, uint32_t m);
void grow_resize(struct sim *s, struct node *n);

/* ---- bus ----------------------------------------------------------------------- */


struct bus {
	struct bus_message queue[SIM_MAX_QUEUE];
	uint32_t n;
	uint64_t ring;
};

void bus_send(struct sim *s, uint32_t sender, const uint8_t *bytes, uint32_t len);
void bus_view(struct sim *s, struct node *n);
bool bus_event(struct sim *s);
void bus_forget(struct sim *s, uint32_t sender);

/* ---- late ---------------------------------------------------------------------- */

/* A request of a dead machine: 4 KiB of metadata (@bytes), or a chunk. */
struct late {
	uint32_t node, member;
	enum ddr_out_type type;		/* DDR_OUT_KERNEL: of its kernel */
	uint32_t slot;
	uint8_t *place, *bytes;
	uint64_t block, token;
};

void late_chunk(struct sim *s, uint32_t node, enum ddr_out_type type, uint32_t member, uint64_t block, uint64_t token);
void late_meta(struct sim *s, uint32_t node, const struct io *io, uint32_t member, uint8_t *place, const uint8_t *bytes);
/* One of them lands, or never will; false: there is none. */
bool late_event(struct sim *s);
bool late_ends(struct sim *s, uint32_t i, bool lands);
/* All of this node (0: of all) land now or never: they were aborted, or enough time has passed. */
void late_settle(struct sim *s, uint32_t node);
bool late_writes(const struct sim *s, uint64_t start, uint64_t count);
bool late_of(const struct sim *s, uint32_t node);
void late_free(struct sim *s);

/* ---- the world ----------------------------------------------------------------- */

/* What is likely in this seed: drawn once, so that seeds differ much. */
#define SIM_MISFORTUNES	20
struct storm {
	uint32_t weight[SIM_MISFORTUNES], sum;
	uint32_t every;			/* events between random faults */
	uint32_t steer;			/* how often a fault follows an output at which something is at stake: 1 in this many; 0: never */
	uint32_t patience;		/* minimum number of events without a fault after one */
	uint64_t peace_until;
	uint32_t hot_left, hot_node;	/* events until the next one, and the node that it hits */
	uint32_t daemon_back, power_back, heal_back;	/* 1 in this many events */
	uint32_t fence_speed, fence_fails;
	uint32_t io;			/* out of 100 events */
	uint64_t focus, focus_regions;	/* where most of the I/O goes */
	uint64_t away_ms, idle_ms;
	uint32_t slow;			/* a node that gets little CPU time, 0: none */
};

/* Events that only real daemons see (world.c), likewise. */
enum world_event { WORLD_STOP, WORLD_COROSYNC, WORLD_CALL, WORLD_UEVENT, WORLD_VANISH, WORLD_BAD, WORLD_END, WORLD_CLIENT, WORLD_EVENTS };
struct world { uint32_t weight[WORLD_EVENTS], sum, every; };

/* What is rare.c's (struct act, sub of ACT_RARE); two of them happen by acts of their own. */
#define SIM_TABLES	9u	/* ways in which a table may be wrong; the last one: the module is */
enum rare_what { RARE_CLOCK, RARE_LOCK, RARE_MODULE, RARE_GROUP, RARE_WEDGE, RARE_STATUS, RARE_SHORTAGE, RARE_USER, RARE_DAMAGED, RARE_COPIED, RARE_HIDDEN, RARE_READONLY, RARE_CLONE, RARE_NO_GROUP, RARE_PATH, RARE_FOREIGN, RARE_WRONG, RARE_ADOPT, RARE_TABLE,
 RARE_BAD_COPY, RARE_HANG,
	RARE_SLOW, RARE_SWAP, RARE_OLDER, RARE_LIES, RARE_GONE, RARE_TAKEN,
	RARE_OTHERS, RARE_MUTE, RARE_STRANGERS, RARE_LOADS, RARE_MAPS, RARE_WHATS };	/* of starts.c; LOADS are acts of other kinds */
/* user: the node with a command in the group of the array; clone: one that is a copy; taken: the one whose array another machine has; 0: none */
struct rare { uint64_t rng; uint32_t kinds, every, user, clone, taken; uint64_t user_until, clone_until, moments, moves; };	/* moments: of starts.c, like rng; moves: of other machines */

/* Calls that fail (struct act, sub of ACT_CALL), and what is heard of devices (ACT_UEVENT). */
enum world_call { CALL_OPEN, CALL_BIND, CALL_EVENTFD, CALL_THREAD, CALL_MEMORY, CALL_CONNECT, CALL_BUSY, CALL_FENCE, CALL_SYSFS, CALL_READ, CALL_REQUEST, CALL_LOCK,
	CALL_STATE, CALL_INOTIFY, CALL_CONTROL, WORLD_CALLS };
/* Known defects that a run looks for. */
enum finding { FINDING_NONE, FINDING_T1, FINDING_T2, FINDING_T3, FINDING_T4, FINDING_T6, FINDING_T7, FINDING_T8, FINDING_T9, FINDING_T10, FINDING_T11, FINDING_S27, FINDINGS };
enum world_news { NEWS_CHANGED, NEWS_PATH, NEWS_LOST, WORLD_NEWS };

/* The expected contents of a block. Versions are numbers of writes; 0: the contents before. */
struct truth {
	uint64_t base[8];		/* by data role: durable, as promised by a flush or found after a crash */
	uint32_t promised;		/* version of base, if a flush promised it */
	uint8_t unknown;		/* roles of base that a crash left undefined */
	uint32_t acked;			/* last version acknowledged, 0: base */
	bool failed;			/* the last write ended with an error: undefined */
	bool spoiled;			/* and its parity may be wrong, until its region is closed and resynced */
	bool lost;			/* by a limit that doc/protocol.md names */
	bool wild;			/* in flight when a node died: old or new, chunk by chunk */
	bool torn;			/* its parity was wrong after a crash, and has not been seen correct since */
	bool ever;			/* a write was submitted */
	uint32_t later[SIM_MAX_LATER];	/* versions submitted since base */
	uint32_t n_later;
};

enum { STAT_WRITES, STAT_FLUSHES, STAT_CRASHES, STAT_KILLS, STAT_FAULTS, STAT_JOBS, STAT_CLEARS, STAT_SUSPECT, STAT_ERRORS, STAT_CANCELS,
	STAT_DEATHS, STAT_SPLITS, STAT_FENCED, STAT_RECOVERED, STAT_JOINED, STAT_EVICTED, STAT_LEFT, STAT_MESSAGES, STAT_LATE, STAT_STEERED, STAT_GAVE_UP, STAT_ABANDONED, STAT_GROWN, STAT_FULL,
	STAT_SILENCES, STAT_OWED, STAT_RENAMED, STAT_REPLACED, STATS };

struct sim {
	uint64_t seed, rng, event, events;
	bool trace, calm;		/* calm: no new work, no faults */
	struct tape *tape;		/* events are recorded in it, or come from it; NULL: neither */
	struct verdict *verdict;	/* gets the broken rule, instead of standard output */
	uint32_t op_id;
	unsigned int stamps;		/* requests of stamps up to now (real daemons) */
	bool slow_flush;		/* much else happens while a flush is in flight */
	enum finding finding;
	bool hung;			/* a member hung on one node, until it restarts (finding.c) */
	uint32_t silent;		/* the node with a process in the group that says nothing; 0: none */
	uint64_t silent_ring;
	bool cluster;			/* several nodes: cluster.c has the schedule */
	bool rules_only;		/* ddr_sm_check() is not used */
	struct rig_geometry geo;
	struct ddr_super sb0;
	struct ddr_geometry g;
	uint64_t blocks, regions;	/* by the newest superblock */
	uint64_t room;			/* blocks for which the members have room now */
	uint8_t at[DDR_MAX_ROLES];	/* member at each place */
	uint64_t log_base;
	struct disk disk[DDR_MAX_MEMBERS];
	uint32_t faults_left;		/* number of members that may still fail */
	bool replaces;			/* the operator replaces members */
	bool lossy;			/* more members may fail than the parity covers: data is lost, but nothing may hang */
	struct node node[SIM_MAX_NODES];
	uint32_t n_nodes;
	struct bus bus;
	struct truth truth[SIM_MAX_BLOCKS];
	uint32_t version;
	bool missing_write[SIM_MAX_REGIONS];	/* written while a role had no member */
	bool clear[SIM_MAX_NODES];	/* the slot was recovered or freed, and not written since: an old copy may mark what the newest one had cleared */
	uint64_t cookie, now;
	uint8_t boot;
	uint64_t ring[SIM_MAX_NODES];	/* of each part of the network */
	struct { bool used, hangs; uint32_t by, target; uint64_t failure, pid; } fence[SIM_MAX_FENCES];	/* hangs: until the end of the run */
	bool fencing;
	struct storm storm;
	struct world world;
	struct rare rare;
	struct late *late;		/* in flight from dead machines */
	uint32_t n_late, room_late;
	struct { uint64_t place, digest; } digest[SIM_DIGESTS];
	uint64_t stats[STATS];
};


static inline uint64_t sim_rand(struct sim *s, uint64_t n)
{
	return s->tape ? tape_rand(s, n) : rig_random(&s->rng) % n;
}

static inline bool sim_chance(struct sim *s, uint64_t in)
{
	return s->tape ? tape_chance(s, in) : rig_random(&s->rng) % in == 0;
}

uint64_t sim_token(uint32_t version, uint32_t role, uint64_t block);
void sim_parity(const struct sim *s, const uint64_t *data, uint64_t pq[2]);
extern const bool sim_real;	/* the daemons are real ones (twin/) */
extern uint64_t sim_cells[DDR_SM_CELL_WORDS];	/* of the small machines: cells that a node has reached, in any seed */
void sim_trace(struct sim *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A rule was broken: prints which, with the seed, and ends the run. */
void sim_violation(struct sim *s, const char *fmt, ...) __attribute__((noreturn, format(printf, 2, 3)));

/* More happened than the array tolerates, so nothing can be said about what follows. */
void sim_abandon(struct sim *s, const char *why) __attribute__((noreturn));

/* ---- single.c ------------------------------------------------------------------- */

struct sim_run {
	uint64_t seed, events;
	uint32_t nodes;
	bool trace, rules_only;
	enum finding finding;
	struct tape *tape;		/* recorded, or replayed */
	struct verdict *verdict;
};

/* False: a rule was broken. */
bool sim_run_seed(struct sim *s, const struct sim_run *r);
void sim_calm(struct sim *s);
bool sim_quorate(struct sim *s, struct node *n);	/* loses quorum if it has it, or the other way round */
/* ---- faults.c ------------------------------------------------------------------- */

/* Faults, as far as the array tolerates them; false: it does not. @m: the member. */
bool sim_disk_fails(struct sim *s, uint32_t m, enum disk_fault once);
bool sim_disk_cut(struct sim *s, struct node *n, uint32_t m);
bool sim_disk_bad(struct sim *s, uint32_t m, uint64_t start, uint64_t count, uint64_t apart);	/* bad sectors, until they are written */
bool sim_disk_lies(struct sim *s, uint32_t m);	/* a sector that it rewrites reads back differently, once */
void sim_disks_mended(struct sim *s);	/* some may have none any more */
bool sim_disk_hangs(struct sim *s, struct node *n, uint32_t m, uint64_t ms, bool kernel);
/* @asked: by the operator; else the kernels report the device, and the daemons see for themselves. */
bool sim_put_back(struct sim *s, struct node *n, uint32_t m, bool dead, bool asked);
bool sim_wipes_diverged(struct sim *s);	/* false: there is no such disk */
bool sim_may_put_back(const struct sim *s, const struct node *n, uint32_t m);
bool sim_may_fail(struct sim *s, uint32_t m, bool counted);
void sim_operator_fails(struct sim *s, struct node *n);
void sim_old_disk_dies(struct sim *s);

/* ---- world.c -------------------------------------------------------------------- */

void world_draw(struct sim *s);
/* Once an event: something may happen to the node, and what has lasted long enough ends. */
void world_event(struct sim *s, struct node *n);
void world_calm(struct sim *s);

/* ---- rare.c --------------------------------------------------------------------- */

void rare_draw(struct sim *s);
/* Once an event. */
void rare_event(struct sim *s, struct node *n);
bool rare_quiet(const struct sim *s);
bool rare_peace(const struct sim *s);	/* nothing else may befall anybody: a copy would never get far enough */
void rare_calm(struct sim *s);	/* all of it ends */

/* ---- starts.c ------------------------------------------------------------------- */

/* Once an event. */
void starts_event(struct sim *s, struct node *n);
void starts_calm(struct sim *s);

/* ---- finding.c ------------------------------------------------------------------ */

bool finding_named(const char *text, enum finding *out);
/* Once an event: something of its kind may happen. */
void finding_event(struct sim *s, struct node *n);
/* Power is lost on the node, and what lasted there ends. */
void finding_power_off(struct sim *s, struct node *n);
/* Everything ends, but not what is looked for. */
void finding_calm(struct sim *s);
/* Failures that the array tolerates and that are kept for what is looked for. */
uint32_t finding_keeps(const struct sim *s);
/* Does the member hang on a node, until that restarts? */
bool finding_hangs(const struct sim *s, uint32_t m);
/* A slot is recovered: that is sent, or delivered. */
void finding_recovered(struct sim *s, uint32_t slot, bool delivered);
/* A node wants another one fenced. */
void finding_fences(struct sim *s, uint32_t by, uint32_t id, bool by_hand);
/* The nodes do not come to rest. */
bool finding_asks_operator(const struct sim *s, const struct node *n);
void finding_no_rest(struct sim *s);

/* ---- checkers ------------------------------------------------------------------ */

/* The newest superblock on any member that is not dead; false: there is none. */
void check_whole_again(struct sim *s);
bool check_newest_super(const struct sim *s, struct ddr_super *sb);
const struct ddr_owners *check_owners_now(const struct sim *s);	/* beside it; NULL: there is none */
void check_newest_owners(const struct sim *s, struct ddr_owners *owners);
/* Which member holds which place by the newest superblock: call it when that may have changed. */
void check_places(struct sim *s);
/* The member that holds the role of a block. */
uint32_t check_member(const struct sim *s, uint32_t role, uint64_t block);
bool check_chunk(const struct sim *s, uint64_t b, uint32_t role, uint32_t members, uint64_t *token);
void check_before(struct sim *s, uint64_t b);
void check_rebuilt(struct sim *s, uint64_t b, uint32_t role, uint64_t token);
/* A rebuild from @members reports that some of these blocks do not match. */
void check_unfit(struct sim *s, uint64_t start, uint64_t count, uint32_t members);
bool check_hopeless(const struct sim *s);
uint32_t check_in_sync(const struct ddr_super *sb);
/* Newest valid log or map block of a member; NULL: none. */
#define SIM_MAP 0xffffu
const struct ddr_disk_log *check_newest(const struct sim *s, uint32_t member, uint32_t slot, uint64_t *seq);
void check_marks(struct sim *s, const struct node *n, uint64_t start, uint64_t count, bool repair, const char *what);	/* @repair: a mark that is named as a repair's suffices */
bool check_marked(const struct ddr_disk_log *blk, uint64_t region, bool repair);
void check_media(struct sim *s);
void check_crash(struct sim *s);
void check_visible(struct sim *s, const struct node *n);
void check_completion(struct sim *s, const struct kernel *k, const struct op *op);
void check_whole(struct sim *s, uint64_t start, uint64_t count, uint32_t members);
/* Is the parity of these blocks correct, as far as @members hold it? */
bool check_parity(const struct sim *s, uint64_t start, uint64_t count, uint32_t members);
void check_frozen(struct sim *s, const struct node *n);
void check_job_range(struct sim *s, uint64_t start, uint64_t count);
void check_log_sequence(struct sim *s, uint32_t slot, uint64_t seq);
/* A node died, or a chunk of one that died has landed. */
void check_death(struct sim *s);
void check_torn(struct sim *s, uint64_t block);
void check_final(struct sim *s, struct node *n);
/* A member was replaced: the new one holds what the old one held. */
void check_replaced(struct sim *s, uint32_t old, uint32_t new);

/* What check_cluster.c needs of the disks. */
bool check_marked_on(const struct sim *s, uint32_t member, uint32_t slot, uint64_t region, bool repair);
bool check_marked_in(const struct sim *s, uint32_t slot, uint64_t region, bool repair);	/* @repair: a mark that is named as a repair's suffices */
/* Is any region marked for more than a repair, which may wait for members that are out? */
bool check_any_marked(const struct sim *s);
bool check_suspect_on(const struct sim *s, uint32_t member, uint64_t region);
uint32_t check_slot_of(const struct sim *s, const struct node *n);
uint32_t check_slot_in(const struct ddr_super *sb, const struct node *n);
uint32_t check_counting(const struct sim *s);

/* ---- check_cluster.c ----------------------------------------------------------- */

/* A request of a daemon with a cluster is about to be submitted. */
void check_submit(struct sim *s, const struct node *n, const struct io *io);
/* A write that a daemon had held back, since it stood still, is given to its disk now. */
void check_given(struct sim *s, const struct node *n, const struct io *io);
void check_level(struct sim *s);
/* RECOVERED is sent: nothing is dirty in the slot. */
void check_recovered(struct sim *s, const struct node *n, uint32_t slot);
/* Equal positions in the total order mean equal states. */
void check_digest(struct sim *s, const struct node *n);
void check_owners(struct sim *s, const struct node *n);
void check_owned(struct sim *s, const struct node *n);
void check_whose(struct sim *s, const struct node *n);

/* ---- scale.c ------------------------------------------------------------------- */

/* Prints what operations cost with 3 to 64 nodes and a million regions. */
void scale(void);

/* ---- cluster.c ----------------------------------------------------------------- */

void cluster_init(struct sim *s);
void cluster_begin(struct sim *s);		/* starts some of the daemons */
void cluster_free(struct sim *s);
bool cluster_order(struct sim *s, struct node *n);
bool cluster_deliver(struct sim *s, struct node *n);
bool cluster_quorum(struct sim *s, struct node *n);
/* What the quorum service says to the node now. */
void cluster_word(struct sim *s, struct node *n, struct ddr_input *in);
/* The members of its partition, as the quorum service lists them. */
void cluster_members(const struct sim *s, const struct node *n, struct ddr_input *in);
void cluster_split(struct sim *s, uint32_t parts);
void cluster_isolate(struct sim *s, struct node *n);
void cluster_heal(struct sim *s);
void cluster_flap(struct sim *s);		/* a new ring of the same nodes */
bool cluster_parts(struct sim *s, uint64_t parts);	/* the part of each node: 4 bits */
bool cluster_corosync(struct sim *s, struct node *n, bool ends);	/* it ends on the node, or comes back */
void cluster_power_off(struct sim *s, struct node *n);
bool cluster_power_on(struct sim *s, struct node *n, bool renamed, bool another);	/* @renamed: with another id in the cluster; @another: another machine with this one's id */
/* Whose id in the cluster that is, or was. */
const struct node *cluster_machine(const struct sim *s, uint32_t nid);
/* May it boot under another id? Only one slot at a time is one of an id that nobody has: else no node might be left to free one. */
bool cluster_may_rename(const struct sim *s, const struct node *n);
bool cluster_replaces(const struct sim *s);
bool cluster_may_replace(const struct sim *s, const struct node *n);	/* by another machine with its id */
/* Time has passed: what renamed machines had sent has ended. */
void cluster_settles(struct sim *s);
void cluster_blackout(struct sim *s);
bool cluster_daemon_start(struct sim *s, struct node *n);
void cluster_silent(struct sim *s, const struct node *n);	/* a process there that says nothing joins the group; NULL: it leaves */
void cluster_unstick(struct sim *s, struct node *n);	/* nothing hangs any more, and its dead daemon leaves the group */
#define SIM_SILENT_PID	99999u
#define SIM_USER_PID	88888u	/* of a command in the group of the array */
void cluster_together(struct sim *s, bool begin);	/* joins and leaves in between are one event for the others */
bool cluster_fence_event(struct sim *s);
bool cluster_fence_ends(struct sim *s, const struct act *a);
bool cluster_operator_fences(struct sim *s, struct node *n);
/* Does it wait for the operator's word on another machine that has a lost node's id? */
bool cluster_waits_for_operator(const struct node *n);

/* ---- schedule.c ---------------------------------------------------------------- */

void storm_draw(struct sim *s);
/* The node gave this output: is it a good moment for a fault? */
void storm_steer(struct sim *s, const struct node *n, const struct ddr_output *out);
void cluster_one_event(struct sim *s);
/* The array is to be stopped on the node; the stop is cancelled; its next step. */
bool leave_begin(struct sim *s, struct node *n);
bool leave_ends(struct sim *s, struct node *n);
bool leave_go_on(struct sim *s, struct node *n);
/* Pools of disks have space again. */
void sim_pools(struct sim *s);
void cluster_calm(struct sim *s);
void cluster_send(struct sim *s, struct node *n, const uint8_t *bytes, uint32_t len);
void cluster_joined(struct sim *s, struct node *n);	/* its daemon joins the group */
void cluster_gone(struct sim *s, struct node *n);	/* it died, or left */
void cluster_fence(struct sim *s, struct node *n, const struct ddr_output *out);
/* A member fails something, once or for good; with a cluster perhaps only requests of @n. */
void sim_member_fault(struct sim *s, struct node *n);
/* The operator has a member replaced, or cancels that. */
bool sim_keeps_copies(const struct sim *s);
bool sim_replace(struct sim *s, struct node *n);
/* The normal work of a node; also used with one node. */
bool sim_progress(struct sim *s, struct node *n);
/* @ms of time pass, and the node's daemon, if it runs, gets a tick. */
void sim_tick(struct sim *s, struct node *n, uint64_t ms);

#endif
