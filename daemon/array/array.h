/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One array of this node: its channel to the kernel, its members, and the state machine that decides. array.c has its life, drive.c
 * carries out what the state machine asks for, status.c describes it.
 *
 * Everything belongs to the loop's thread. Once the array runs, nothing between a LOCK record and its GRANT allocates memory or
 * sleeps.
 */
#ifndef DDR_DAEMON_ARRAY_H
#define DDR_DAEMON_ARRAY_H

#include "daemon/base/daemon.h"
#include "daemon/disk/loader.h"
#include "daemon/disk/metaio.h"
#include "daemon/disk/stall.h"
#include "daemon/group/transport.h"
#include "daemon/job/job.h"
#include "daemon/job/rate.h"
#include "daemon/kernel/kchan.h"
#include "lib/cluster/sm.h"
#include "lib/schedule.h"

/*
 * State x event; combinations that are not in the table cannot occur.
 *
 *              bound     loaded    refused    resumed   channel gone  removed   closed
 * DOWN      -> LOADING   -         REFUSED    (bind)    -             freed     -
 * LOADING   -> -         RUNNING   REFUSED    CLOSING   CLOSING       CLOSING   -
 * RUNNING   -> -         -         -          CLOSING   CLOSING       (parts)   -
 * REFUSED   -> -         -         -          (bind)    DOWN          freed     -
 * CLOSING   -> -         -         -          stays     stays         stays     DOWN, (bind)
 *                                             (again)                 (freed)
 *
 * DOWN binds when the array appears, and when it is resumed (before that the kernel has no table to bind to). CLOSING waits for the
 * loader's thread to end. A RUNNING array that is removed parts: it reads the kernel's last records, clears the marks of the grants
 * that were closed without an error, and is then freed, after PART_MS at the latest.
 *
 * In a cluster: DOWN also waits for corosync (LOADING becomes DOWN if corosync is gone when the load ends). An array that parts tells
 * the group that this node no longer uses it. A RUNNING array closes and binds again when its group was lost and can be joined again.
 *
 * An array that broke while RUNNING (an output could not be carried out) is closed and bound again without a cluster; in a cluster
 * this node has stopped serving it, and that stays so.
 */
enum ddr_array_state { DDR_ARRAY_DOWN, DDR_ARRAY_LOADING, DDR_ARRAY_RUNNING, DDR_ARRAY_REFUSED, DDR_ARRAY_CLOSING };

#define DDR_ARRAY_RELOADS	16u	/* reads of the members at the same time */
#define DDR_ARRAY_ANSWERS	128u	/* requests of the state machine that wait for a tick, or for the operator */
#define DDR_NODE_NAME_LEN	64u
#define DDR_ARRAY_WITHDRAWN	16u	/* requests that clients gave up on within one tick */
#define DDR_ARRAY_FINDINGS	64u	/* how many of the last ones are kept */

struct ddr_finder;
struct ddr_grow;
struct ddr_reload;
struct ddr_table;

typedef void (*ddr_tick_fn)(void *data);

struct ddr_array_seen {
	uint32_t node;
	bool here;
	uint64_t lost_ms;		/* gone: the latest time at which a node of the view may have seen it */
};

struct ddr_array_answer {
	bool used;
	bool external;			/* waits for fence-ack */
	enum ddr_in_type type;		/* FENCED, RELOADED, SLOT_DONE */
	uint32_t node;
	uint64_t failure, io;
	int result;
	uint64_t due_ms;
};

/* Used by drive_cluster.c. */
struct ddr_array_cluster {
	bool lost;			/* the group is gone */
	bool gave_up;			/* this node stopped serving the array, and leaves the group */
	uint32_t foreign;		/* a node of the view whose daemon is of another release; 0: none known */
	uint16_t foreign_version;	/* the version of its messages */
	bool leaving, left;		/* OP_LEAVE was given; it was answered */
	bool left_over;			/* devices were left out whose locks I/O of an earlier daemon may hold */
	uint16_t version;		/* of the group's messages; 0: not known yet */
	char waits[512];		/* what the array waits for in the group of the daemons, or "" */
	char debt[1024];		/* the oldest debt of a node in the array, or "" */
	uint64_t quorum_ring, view_ring;
	uint32_t n_seen;
	struct ddr_array_seen seen[DDR_SM_MAX_NODES];
	struct ddr_reload *reload[DDR_ARRAY_RELOADS];
	struct ddr_array_answer answer[DDR_ARRAY_ANSWERS];
};

/* Used by drive_seek.c. */
struct ddr_array_seek {
	uint32_t wanted;		/* members whose devices are searched for */
	uint32_t dropped;		/* members that were removed: their devices are closed, once they are not being prepared for a larger array */
	uint32_t replaced;		/* members that were replaced: the same, once our table does not name their devices any more */
	uint64_t at_ms;			/* when to search (again) */
	uint32_t locked;		/* members that the array was started without only because they were locked: they are taken back */
	uint64_t back_ms;		/* not earlier */
	uint32_t told[DDR_MAX_MEMBERS];	/* crc of the last log message about each */
	struct ddr_finder *finder;	/* running */
	struct ddr_finder *ready;	/* its result, until it can be used */
};

/* Used by drive_return.c; bits and indexes are member numbers. */
struct ddr_array_return {
	uint32_t away;			/* failed because their disk was gone: they are taken back when it is there again */
	uint32_t in;			/* working, at the last tick */
	uint32_t watched;		/* failed at out_ms; it is being checked whether their disk is gone */
	uint32_t by_hand;		/* failed by the operator on this node */
	uint64_t out_ms[DDR_MAX_MEMBERS], look_ms[DDR_MAX_MEMBERS];
	uint64_t first_ms[DDR_MAX_MEMBERS];	/* when it came back for the first time ... */
	unsigned int times[DDR_MAX_MEMBERS];	/* ... and how often since */
};

/* Used by drive_grow.c. */
struct ddr_array_grow {
	uint64_t room_io;		/* 0: the state machine has not asked for the sizes of the devices */
	uint32_t room_members;
	uint64_t io;			/* members are being prepared; 0: none */
	uint32_t waiting, failed, no_space;
	int error;			/* the preparation could not be started for some */
	uint64_t due_ms;		/* members that are not ready by then have failed */
	struct ddr_grow *work[DDR_MAX_MEMBERS];
	uint64_t resize;		/* blocks that our kernel's table must get; 0: it has them */
	uint64_t resize_ms;		/* not earlier */
	char refusal[DDR_ERROR_LEN];	/* why the array did not grow as requested, or "" */
};

/* A place that this node has found to be wrong or unreadable: an event REPAIRED or MISMATCH, kept for `ddraid verify NAME status`. */
struct ddr_finding {
	uint64_t time;			/* seconds since 1970; the last time, if the same was found more than once */
	uint64_t start, count;		/* from the first block to the last */
	uint64_t blocks;		/* number of bad blocks among them */
	uint32_t member;		/* or DDR_NO_MEMBER: unknown */
	bool repaired;
	const char *text;		/* static, or NULL */
};

struct ddr_array {
	struct qb_list_head list;
	struct ddr_daemon *d;
	enum ddr_array_state state;
	uint8_t uuid[16];
	char uuid_text[37];
	char name[DDR_NAME_LEN];	/* from the superblock, or of the dm device */
	char error[DDR_ERROR_LEN];	/* why it was refused, or ""; kept until it runs */
	bool resumed;			/* the device existed before this daemon, or was already served by it: writers may be waiting */
	bool fresh;			/* the next RESUMED record refers to the table that is already bound */
	bool removed;			/* removed from the kernel; requests do not find it any more */
	bool rebind;			/* CLOSING: bind again afterwards */
	bool waiting;			/* DOWN: for the cluster ... */
	uint64_t retry_ms;		/* ... and does not bind again earlier */
	qb_loop_timer_handle tick;
	ddr_tick_fn on_tick;		/* array.c sets it, for drive_step.c */
	bool rests;			/* nothing is under way, and the next tick is further away than others are: see ddr_drive_rests() */
	uint64_t rest_ms;		/* how long, from the last tick on; 0: ticks come one after the other */
	struct ddr_tunables tune;

	struct ddr_bind bind;
	struct ddr_kchan *chan;
	struct ddr_load *load;		/* LOADING, and CLOSING until its thread ends */
	struct ddr_adoption adopted;	/* that this load, or the start that follows, is for; until_ms 0: none */

	/* RUNNING */
	struct ddr_super super;		/* as loaded: geometry and names; the size is kept up, the states are not: the state machine has them */
	struct ddr_owners owners;	/* what goes beside the superblocks: as loaded, and kept up with the agreed owners of the slots */
	struct ddr_members *members;
	struct ddr_metaio *meta;
	struct ddr_jobs *jobs;
	struct ddr_transport *transport;
	struct ddr_sm *sm;		/* never NULL while the array is visibly RUNNING */
	struct ddr_input in;
	struct ddr_outputs outs;	/* no array takes a step within another one's */
	void (*carry_out)(struct ddr_array *a);	/* set by drive.c, for drive_step.c */
	bool ready;			/* READY was reported: the device serves I/O */
	bool clean_asked;		/* OP_CLEAN is in progress */
	bool clean_late;		/* no client waits for it any more: the next tick cancels it */
	const char *clean_refusal;	/* why it ended without making the array clean, or NULL */
	bool parting;			/* removed, and the channel has ended: this side answers in place of the kernel */
	const char *broken;		/* set by ddr_drive_break() and others: why nothing more is done with what was loaded, or NULL */
	bool anew;			/* broken, and to be loaded again */
	uint64_t anew_generation;	/* of the superblocks that were loaded then; 0: it never was */
	uint64_t part_until_ms;		/* removed: it is freed then at the latest */
	const char *refusal;		/* why the last operator's request was refused, or NULL */
	struct {
		uint32_t spare;		/* in the last request */
		const char *refusal;	/* why a request that had been accepted was dropped, or NULL */
		uint32_t late;		/* spares whose replacement no client waits for any more */
	} replace;
	uint8_t withdrawn[DDR_ARRAY_WITHDRAWN][16];	/* disks whose ADD no client waits for any more */
	unsigned int n_withdrawn;
	uint64_t dirty_left;		/* after the last clean stop */
	uint64_t quiet_until_ms;	/* a clean stop: jobs do not continue earlier, and then only if the device still exists; 0: there was none */
	uint64_t ping_seq, ping_due_ms;
	uint32_t table_asked;			/* bit m: our table must name the device of member m ... */
	uint8_t table_place[DDR_MAX_MEMBERS];	/* ... at this place */
	uint32_t table_unname;			/* places at which it must not name a device any more */
	bool table_unshadow;			/* it must not name a replacement for a member any more */
	uint64_t table_ms;			/* not earlier: the last attempt to change it failed because of this process */
	struct ddr_array_seek seek;
	struct ddr_array_return back;
	struct ddr_table *table;		/* the one that is being loaded */
	uint64_t gen_writing;		/* generation of the superblock write in progress ... */
	uint32_t gen_members;		/* ... and the members that it goes to */
	uint8_t gen_id_writing[16], cluster_writing[16];
	uint64_t gen_noted;		/* the last generation given to state.h */
	uint8_t gen_id_noted[16];

	struct ddr_array_cluster cluster;
	struct ddr_array_grow grow;
	struct {
		uint32_t wanted;	/* members whose devices must be checked */
		uint64_t at_ms;		/* not earlier */
		bool out;		/* a check is in progress */
		uint32_t asked;		/* the members that it reads */
		uint32_t done, fine;	/* members that were read, and of these, those whose superblocks are theirs; done: reset by who wants to know */
	} check;			/* used by drive_check.c */
	struct {
		uint64_t turn;		/* the last one, in units of the clock */
		uint32_t suspect;	/* members that do not hold this node's stamp: their superblocks are to be read first */
		uint32_t doubt;		/* the same, and those that have been read since, but whose pairs have not */
		uint32_t seen;		/* of the suspects before the last turn, those whose superblocks are the members' */
		bool stopped;		/* the kernel has stopped for want of this daemon, and the members are looked at before it goes on: */
		uint32_t begun, done, good;	/* members whose stamps were begun since, have ended, and were as they should be */
		unsigned int lost;	/* how often a member of ours did not hold it */
		bool taken;		/* another machine uses the array: it is refused at the next tick */
	} stamp;			/* used by drive_stamp.c */
	struct {
		uint64_t since_ms;	/* the standstill that it is for: its ddr_still.since_ms; 0: none */
		uint64_t at_ms, due_ms;	/* the pairs are read again then; members that have not delivered theirs until then are not waited for */
		uint64_t begun_ms[DDR_MAX_MEMBERS], good_ms;	/* of each member's pair; of the last one that was as it should be */
	} look;				/* used by drive_stamp.c while the array is held: its look at the members */

	/* used by events.c; sorted by time, and kept until the device is removed or the daemon ends */
	struct ddr_finding finding[DDR_ARRAY_FINDINGS];
	unsigned int n_findings;

	struct ddr_stall stall;
	uint64_t tick_ms;		/* the last tick, or the start */
	uint64_t waited_ms;		/* ddr_waited_ms() then */

	struct ddr_rate rate;

	/* used by watch.c: jobs of any node, as far as the group knows them */
	struct {
		struct ddr_watch {
			uint64_t job;		/* identifies it; 0: none */
			uint64_t at;		/* the block of the array that it had reached ... */
			uint64_t at_ms;		/* ... when this was reported ... */
			uint64_t done;		/* ... with this number of blocks done */
			uint64_t per_s;		/* blocks a second, smoothed; 0: unknown */
			bool heard;		/* something was reported about this job */
		} rebuild, verify;
	} watch;

	/* used by schedule.c: the next verify */
	struct {
		uint64_t ready_ms;	/* since then only its turn has been missing */
		uint64_t asked_ms;	/* when this node requested it */
		struct ddr_sched_progress seen;	/* the verify in progress */
		bool closed;		/* outside of its hours, on this node */
		bool told;		/* an event said that it is late */
	} sched;
};

/* ---- array.c ------------------------------------------------------------------- */

struct ddr_array *ddr_array_by_uuid(struct ddr_daemon *d, const uint8_t uuid[16]);
/* By name or uuid. */
struct ddr_array *ddr_array_find(struct ddr_daemon *d, const char *name);
/* For records of the control descriptor. */
void ddr_array_appeared(struct ddr_daemon *d, const uint8_t uuid[16], bool listed);
void ddr_array_resumed(struct ddr_daemon *d, const uint8_t uuid[16], bool as_bound);
void ddr_array_removed(struct ddr_daemon *d, const uint8_t uuid[16], uint64_t cookie);
/* Releases all arrays; the kernel's targets keep their grants. */
void ddr_arrays_close(struct ddr_daemon *d);
/* Stops serving the array, which is RUNNING; a->error says why. Its device stays. Not from within a step. */
void ddr_array_refuse(struct ddr_array *a);
/* Retries arrays that wait for the cluster; call it regularly. */
void ddr_arrays_retry(struct ddr_daemon *d);
/* Status shows from now on that arrays which wait for the cluster wait for this. */
void ddr_arrays_wait_for(struct ddr_daemon *d, const char *what);
/* It was reported as not started; now it has a state of its own. */
void ddr_array_forget_unstarted(struct ddr_daemon *d, const uint8_t uuid[16]);
/* Has every array that the kernel listed been served or refused? */
bool ddr_arrays_settled(const struct ddr_daemon *d);
/* Do all arrays rest? */
bool ddr_arrays_rest(const struct ddr_daemon *d);
/* Stops what runs; @rebind: and starts again. Not from within a step. */
void ddr_array_close(struct ddr_array *a, bool rebind);

/* The operator has adopted it: binds again if it had been refused. Returns NULL, or why that is not possible. */
const char *ddr_array_adopted(struct ddr_array *a);

/* ---- identity.c ---------------------------------------------------------------- */

/* Does this node know for sure that its cluster, if any, has no other nodes? Then it does not serve the array of a cluster. */
bool ddr_identity_alone(const struct ddr_daemon *d);
/*
 * Records the operator's assertion that no other machine uses the disks of this array, for its next start here. @recorded: the cluster that the
 * operator saw the disks to name; zero: none. Returns NULL, or why it is not accepted (possibly in @buf): in a cluster of several nodes, an array
 * that no other cluster has used.
 */
const char *ddr_identity_adopt(struct ddr_daemon *d, const uint8_t uuid[16], const uint8_t recorded[16], char *buf, size_t size);
/* Was the array adopted? The adoption is taken out of the list, and is in a->adopted then: it is for the load that begins, and the start that follows. */
bool ddr_identity_adopted(struct ddr_array *a);
/* Is the start that is under way that of an adoption, and is nothing different since in what that was for? */
bool ddr_identity_adopts(const struct ddr_array *a);
/* The load did not lead to a start, and nothing speaks against the next one: the adoption is for that, if it is not too late by then. */
void ddr_identity_not_started(struct ddr_array *a);
/* Fills in who takes over slots when the array is loaded; uses up the adoption like ddr_identity_adopted(). */
void ddr_identity_claim(struct ddr_array *a, struct ddr_claim *claim);
/*
 * May this node serve the array with these superblocks, and these owner pages (of format 1: only the nodes that have slots), without an adoption? 0, or
 * -1 and a->error says what to do.
 */
int ddr_identity_check(struct ddr_array *a, const struct ddr_super *sb, const struct ddr_owners *owners);
/* Was the array used last by another cluster than this node's? 0: no; -1: yes, and a->error says what to do. */
int ddr_identity_elsewhere(struct ddr_array *a, const struct ddr_super *sb, const uint8_t recorded[16]);

/* ---- drive.c ------------------------------------------------------------------- */

/* Creates the state machine from what was loaded, and starts it. 0, or a negative errno with a->error; -ENOTCONN: the cluster is gone. */
int ddr_drive_start(struct ddr_array *a, struct ddr_load *l);
void ddr_drive_stop(struct ddr_array *a);
/* The kernel's side is gone for good and its records were read: clears what can be cleared. False: there is nothing to do. */
bool ddr_drive_part(struct ddr_array *a);
void ddr_drive_tick(struct ddr_array *a, uint64_t now_ms);
/* Is nothing under way that needs ticks? Then in how many ms the next one is needed (at most DDR_REST_MS); else 0. */
uint64_t ddr_drive_rests(const struct ddr_array *a, uint64_t now_ms);
/*
 * What holds the array after a standstill (daemon/base/still.h); NULL: nothing. In a cluster that is the daemon's. Without one the array has its own:
 * while it is loaded, which begins with ddr_drive_watch(), and while it is served if its slots have stamps.
 */
struct ddr_still *ddr_drive_still(const struct ddr_array *a);
void ddr_drive_watch(struct ddr_array *a);
/* Something has happened that a tick may have to follow: the array does not rest any more. From anywhere; cheap if it does not rest. */
void ddr_drive_wake(struct ddr_array *a);
/* Sets the array's timer. */
void ddr_drive_arm(struct ddr_array *a, uint64_t ms);
/* Requests of the operator; the array is RUNNING. They return why they were refused, or NULL: in progress, or done. */
const char *ddr_drive_set(struct ddr_array *a, enum ddr_sm_key key, uint64_t value);
const char *ddr_drive_verify(struct ddr_array *a, uint32_t op, uint32_t priority, uint32_t flags);	/* DDR_VERIFY_F_* */
const char *ddr_drive_clean(struct ddr_array *a);	/* a->clean_asked is cleared when it has ended */
/* No client waits for it any more: unless the device is removed, the array stays in use. May be called within a step. */
void ddr_drive_clean_late(struct ddr_array *a);
/* Fails the member: because of errors that this node has seen, or by the operator; then it is not taken back automatically. */
const char *ddr_drive_fail(struct ddr_array *a, uint32_t member);
const char *ddr_drive_fail_by_hand(struct ddr_array *a, uint32_t member);
/* Adds the disk with this uuid as a spare; forgets the member (@uuid: random); searches for its device and takes it back. */
const char *ddr_drive_add(struct ddr_array *a, const uint8_t uuid[16]);
/* No client waits for the ADD any more: the disk must not become a spare. May be called anywhere; the next tick carries it out. */
void ddr_drive_add_late(struct ddr_array *a, const uint8_t uuid[16]);
const char *ddr_drive_remove(struct ddr_array *a, uint32_t member, const uint8_t uuid[16]);
const char *ddr_drive_seek(struct ddr_array *a, uint32_t member);
/* @blocks: the new size; 0: as large as possible. The end is an event, and a->grow.refusal if it was refused. */
const char *ddr_drive_grow(struct ddr_array *a, uint64_t blocks);
/* It starts when all nodes see the spare; a->replace.refusal is set if that becomes impossible. */
const char *ddr_drive_replace(struct ddr_array *a, uint32_t member, uint32_t spare);
/*
 * No client waits for it any more: it must not start. May be called anywhere; the next tick carries it out. What was sent to the
 * group by then may still start.
 */
void ddr_drive_replace_late(struct ddr_array *a, uint32_t spare);
const char *ddr_drive_accept(struct ddr_array *a);	/* the operator accepts the contents of the suspect regions */
/*
 * True if a daemon of another release is in the group (so nothing can be agreed on) and this node does not take part yet: it has to
 * leave. a->error says why.
 */
bool ddr_drive_unfit(struct ddr_array *a);
/*
 * The versions of the protocol in which this node may serve the array: those that this daemon speaks, and the module that has the array serves. False:
 * there are none; ddr_drive_speaks_not() puts it into a->error, with what to do.
 */
bool ddr_drive_speaks(const struct ddr_array *a, struct ddr_speaks *both);
void ddr_drive_speaks_not(struct ddr_array *a);
const char *ddr_drive_fence_ack(struct ddr_array *a, uint32_t node);	/* the operator asserts that it is powered off */
/* The device is gone and everything is cleared: leaves the group. False: there is nothing to wait for; else a->cluster.left reports the end. */
bool ddr_drive_leave(struct ddr_array *a);
/*
 * Another table of the array was resumed: binds to it, and the state machine keeps its place in the group. False: the array has to be
 * closed and loaded again (the table names devices that were not read, or the bind failed).
 */
bool ddr_drive_rebind(struct ddr_array *a, const struct ddr_kchan_ops *ops);
void ddr_drive_tune(struct ddr_array *a);	/* a->tune has changed */

/* For a record from the kernel; @ctx: the array whose channel it came by. */
void ddr_drive_record(void *ctx, const struct ddr_rec *rec);

/* A block device has changed: it may be a member that is searched for, and another disk may be behind a member's device. */
void ddr_drive_uevent(struct ddr_daemon *d, const struct ddr_uevent *e);

/* ---- watch.c ------------------------------------------------------------------- */

/* Notes new progress of other nodes' jobs in a->watch. The array is RUNNING. O(1), or O(regions) if there is new progress. */
void ddr_watch_tick(struct ddr_array *a, uint64_t now_ms);

/* ---- schedule.c ---------------------------------------------------------------- */

/* Starts the verify whose turn it is; call it regularly. */
void ddr_schedule_tick(struct ddr_daemon *d, uint64_t now_ms);
/* Seconds since 1970 from which the next verify is due; UINT64_MAX: never automatically. The array is served. */
uint64_t ddr_schedule_due(const struct ddr_array *a);
/* What a verify that is due, or in progress, waits for: one line, or NULL. The array is served. */
const char *ddr_schedule_waits(const struct ddr_array *a);

#endif
