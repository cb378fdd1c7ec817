/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * One array of this node: its channel to the kernel, its members, and the state machine
 * that decides. array.c is its life, drive.c carries out what the state machine says,
 * status.c describes it.
 *
 * Everything belongs to the loop's thread. Once the array runs, nothing on the way from
 * a LOCK record to its GRANT allocates memory or sleeps.
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
 * State x event; what is not in the table cannot be.
 *
 *              bound     loaded    refused    resumed   channel gone  removed   closed
 * DOWN      -> LOADING   -         REFUSED    (bind)    -             freed     -
 * LOADING   -> -         RUNNING   REFUSED    CLOSING   CLOSING       CLOSING   -
 * RUNNING   -> -         -         -          CLOSING   CLOSING       (parts)   -
 * REFUSED   -> -         -         -          (bind)    DOWN          freed     -
 * CLOSING   -> -         -         -          stays     stays         stays     DOWN, (bind)
 *                                             (again)                 (freed)
 * DOWN binds when the array appears, and when it resumes (before that the kernel has no
 * table to bind to). CLOSING waits for the loader's thread to end. A RUNNING array that is
 * removed parts: it reads what the kernel said last, and goes when the marks of the grants
 * that it closed well are cleared, or soon if that does not come to an end. In a cluster DOWN also waits
 * for corosync (and LOADING becomes that if corosync has gone by the end of the load); an array that parts then tells the
 * group that this node is done with it; and a RUNNING one closes and binds again when its group was lost and may be joined
 * anew. A RUNNING one that broke (an output that could not be carried out) is closed and bound again without a cluster; in one
 * it was given up, and stays so.
 */
enum ddr_array_state { DDR_ARRAY_DOWN, DDR_ARRAY_LOADING, DDR_ARRAY_RUNNING, DDR_ARRAY_REFUSED, DDR_ARRAY_CLOSING };

#define DDR_ARRAY_RELOADS	16u	/* reads of the members at once */
#define DDR_ARRAY_ANSWERS	128u	/* questions of the state machine that wait for a tick, or for the operator */
#define DDR_NODE_NAME_LEN	64u
#define DDR_ARRAY_FINDINGS	64u	/* the last ones that are remembered */

struct ddr_finder;
struct ddr_grow;
struct ddr_reload;
struct ddr_table;

struct ddr_array_seen {
	uint32_t node;
	bool here;
	uint64_t lost_ms;		/* not here: when anybody of the view may have seen it last */
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

/* drive_cluster.c's. */
struct ddr_array_cluster {
	bool lost;			/* the group is gone */
	bool gave_up;			/* the group is to be left */
	uint32_t foreign;		/* node of the view whose daemon is of another release; 0: none is known */
	uint16_t foreign_version;	/* of its messages */
	bool leaving, left;		/* OP_LEAVE was given; was answered */
	uint64_t quorum_ring, view_ring;
	uint32_t n_seen;
	struct ddr_array_seen seen[DDR_SM_MAX_NODES];
	struct ddr_reload *reload[DDR_ARRAY_RELOADS];
	struct ddr_array_answer answer[DDR_ARRAY_ANSWERS];
};

/* drive_seek.c's. */
struct ddr_array_seek {
	uint32_t wanted;		/* members whose devices are looked for */
	uint32_t dropped;		/* members that were removed: their devices are let go, once they are not being prepared for a larger array */
	uint32_t replaced;		/* members that were replaced: likewise, once our table names their devices no more */
	uint64_t at_ms;			/* when to look (again) */
	uint32_t locked;		/* members that the array was started without for a lock alone: they are called back */
	uint64_t back_ms;		/* not before */
	uint32_t told[DDR_MAX_MEMBERS];	/* crc of what the log was told last about each */
	struct ddr_finder *finder;	/* at work */
	struct ddr_finder *ready;	/* what it found, until it may be taken */
};

/* drive_return.c's, all by the bit or the number of the member. */
struct ddr_array_return {
	uint32_t away;			/* out since their disk was not there: they come back with it */
	uint32_t in;			/* not out, at the last tick */
	uint32_t watched;		/* out since out_ms; whether their disk has gone is looked at */
	uint32_t by_hand;		/* the operator has failed them here */
	uint64_t out_ms[DDR_MAX_MEMBERS], look_ms[DDR_MAX_MEMBERS];
	uint64_t first_ms[DDR_MAX_MEMBERS];	/* when it came back for the first time ... */
	unsigned int times[DDR_MAX_MEMBERS];	/* ... of so many */
};

/* drive_grow.c's. */
struct ddr_array_grow {
	uint64_t room_io;		/* 0: nobody asks how large devices are */
	uint32_t room_members;
	uint64_t io;			/* members are being prepared; 0: none is */
	uint32_t waiting, failed, no_space;
	int error;			/* it could not be begun for some */
	uint64_t due_ms;		/* then those that are waited for have failed */
	struct ddr_grow *work[DDR_MAX_MEMBERS];
	uint64_t resize;		/* blocks that our kernel's table is to have; 0: it has them */
	uint64_t resize_ms;		/* not before */
	char refusal[DDR_ERROR_LEN];	/* why the array did not grow as the operator wanted, or "" */
};

/* What this node has found wrong, or unreadable: an event REPAIRED or MISMATCH, kept for `ddraid verify NAME status`. */
struct ddr_finding {
	uint64_t time;			/* seconds since 1970; of the last time, where the same was found more than once */
	uint64_t start, count;		/* from the first block to the last */
	uint64_t blocks;		/* so many of them */
	uint32_t member;		/* or DDR_NO_MEMBER: nobody knows */
	bool repaired;
	const char *text;		/* static, or NULL */
};

struct ddr_array {
	struct qb_list_head list;
	struct ddr_daemon *d;
	enum ddr_array_state state;
	uint8_t uuid[16];
	char uuid_text[37];
	char name[DDR_NAME_LEN];	/* of the superblock, or of the dm device */
	char error[DDR_ERROR_LEN];	/* why it was refused, or ""; kept until it runs */
	bool resumed;			/* the device was there before this daemon, or was served by it: somebody may wait for it */
	bool fresh;			/* the RESUMED that comes next tells of what is bound already */
	bool removed;			/* gone in the kernel; requests do not find it any more */
	bool rebind;			/* CLOSING: bind again after it */
	bool waiting;			/* DOWN: for the cluster ... */
	uint64_t retry_ms;		/* ... and not bound again before */
	qb_loop_timer_handle tick;
	struct ddr_tunables tune;

	struct ddr_bind bind;
	struct ddr_kchan *chan;
	struct ddr_load *load;		/* LOADING, and CLOSING while its thread lives */

	/* RUNNING */
	struct ddr_super super;		/* as loaded: geometry and names; states are the state machine's, and so is the size, which is kept up */
	struct ddr_members *members;
	struct ddr_metaio *meta;
	struct ddr_jobs *jobs;
	struct ddr_transport *transport;
	struct ddr_sm *sm;		/* never NULL while anybody can see that the array is RUNNING */
	uint32_t slot;
	struct ddr_input in;
	struct ddr_outputs outs;
	void (*carry_out)(struct ddr_array *a);	/* drive.c's, for drive_step.c */
	bool ready;			/* READY was told: the device serves */
	bool clean_asked;		/* OP_CLEAN is under way */
	bool clean_late;		/* nobody waits for it any more: the next tick takes it back */
	const char *clean_refusal;	/* it ended, and nothing was made clean: why; or NULL */
	bool parting;			/* removed, and the channel is at its end: the kernel's part is played here */
	const char *broken;		/* drive.c's ddr_drive_break(): why, or NULL */
	uint64_t part_until_ms;		/* removed: it goes then at the latest */
	const char *refusal;		/* why the last operator's request was refused, or NULL */
	struct {
		uint32_t spare;		/* of the last request */
		const char *refusal;	/* it had been taken, and is dropped: why; or NULL */
		uint32_t late;		/* spares whose replacement nobody waits for any more */
	} replace;
	uint64_t dirty_left;		/* of the last clean stop */
	uint64_t quiet_until_ms;	/* a clean stop: no job goes on before, if the device is still there then; 0: there was none */
	uint64_t ping_seq, ping_due_ms;
	uint32_t table_asked;			/* bit m: a table of ours is asked to name the device of member m ... */
	uint8_t table_place[DDR_MAX_MEMBERS];	/* ... at this place */
	uint32_t table_unname;			/* places where it shall name nobody any more */
	bool table_unshadow;			/* it is asked to name nobody who replaces another one */
	struct ddr_array_seek seek;
	struct ddr_array_return back;
	struct ddr_table *table;		/* one that is being loaded */
	uint64_t gen_writing;		/* generation of the superblock write that is out, */
	uint32_t gen_members;		/* and the members that it goes to */
	uint8_t gen_id_writing[16];
	uint64_t gen_noted;		/* generation that was given to state.h last */
	uint8_t gen_id_noted[16];

	struct ddr_array_cluster cluster;
	struct ddr_array_grow grow;
	struct {
		uint32_t wanted;	/* members whose devices are to be looked at */
		uint64_t at_ms;		/* not before */
		bool out;		/* a look is under way */
	} check;			/* drive_check.c's */

	/* events.c's; in the order of their times, and kept as long as the device is there and the daemon lives */
	struct ddr_finding finding[DDR_ARRAY_FINDINGS];
	unsigned int n_findings;

	struct ddr_stall stall;
	uint64_t tick_ms;		/* the last tick; 0: there was none since it runs */

	struct ddr_rate rate;

	/* watch.c's: jobs of any node, by what the group knows of them */
	struct {
		struct ddr_watch {
			uint64_t job;		/* names it; 0: there is none */
			uint64_t at;		/* block of the array that it had come to ... */
			uint64_t at_ms;		/* ... as was heard then, */
			uint64_t done;		/* with so many blocks done */
			uint64_t per_s;		/* blocks a second, smoothed; 0: not known */
			bool heard;		/* of this job anything at all */
		} rebuild, verify;
	} watch;

	/* schedule.c's: the next verify */
	struct {
		uint64_t ready_ms;	/* since then nothing but its turn is missing */
		uint64_t asked_ms;	/* this node asked for it */
		struct ddr_sched_progress seen;	/* the verify under way */
		bool closed;		/* it is not one of its hours, here */
		bool told;		/* that it is late */
	} sched;
};

/* ---- array.c ------------------------------------------------------------------- */

struct ddr_array *ddr_array_by_uuid(struct ddr_daemon *d, const uint8_t uuid[16]);
/* By name or uuid. */
struct ddr_array *ddr_array_find(struct ddr_daemon *d, const char *name);
/* What the control descriptor says. */
void ddr_array_appeared(struct ddr_daemon *d, const uint8_t uuid[16], bool listed);
void ddr_array_resumed(struct ddr_daemon *d, const uint8_t uuid[16], bool as_bound);
void ddr_array_removed(struct ddr_daemon *d, const uint8_t uuid[16], uint64_t cookie);
/* Lets all arrays go; the kernel's targets keep what they were granted. */
void ddr_arrays_close(struct ddr_daemon *d);
/* The array, which is RUNNING, is served no more, as a->error says; its device stays. Not from within a step. */
void ddr_array_refuse(struct ddr_array *a);
/* Tries again what waited for the cluster; call it every now and then. */
void ddr_arrays_retry(struct ddr_daemon *d);
/* Has every array that the kernel listed been served or refused? */
bool ddr_arrays_settled(const struct ddr_daemon *d);
/* Ends what runs; @rebind: and begin again. Not from within a step. */
void ddr_array_close(struct ddr_array *a, bool rebind);

/* The operator has adopted it: it is bound again if it had been refused. NULL, or why it cannot be. */
const char *ddr_array_adopted(struct ddr_array *a);

/* ---- identity.c ---------------------------------------------------------------- */

/* Does this node know that it has no other nodes beside it in a cluster? Then it serves no array of a cluster. */
bool ddr_identity_alone(const struct ddr_daemon *d);
/* The operator's word that no other machine uses the disks of this array, for its next start here. NULL, or why it is not taken (in @buf perhaps). */
const char *ddr_identity_adopt(struct ddr_daemon *d, const uint8_t uuid[16], char *buf, size_t size);
/* Was that word given for this array? It is used up. */
bool ddr_identity_adopted(struct ddr_array *a);
/* May this node serve the array of these superblocks without that word? 0, or -1 and a->error says what to do. */
int ddr_identity_check(struct ddr_array *a, const struct ddr_super *sb);

/* ---- drive.c ------------------------------------------------------------------- */

/* Makes the state machine out of what was loaded, and starts it. 0 or a negative errno with a->error; -ENOTCONN: the cluster has gone. */
int ddr_drive_start(struct ddr_array *a, struct ddr_load *l);
void ddr_drive_stop(struct ddr_array *a);
/* The kernel's side is gone for good, and has said how: clears what can be cleared. false: there is nothing to do. */
bool ddr_drive_part(struct ddr_array *a);
void ddr_drive_tick(struct ddr_array *a, uint64_t now_ms);
/* Operator's requests; the array is RUNNING. They return why they were refused, or NULL: under way, or done. */
const char *ddr_drive_set(struct ddr_array *a, enum ddr_sm_key key, uint64_t value);
const char *ddr_drive_verify(struct ddr_array *a, uint32_t op, uint32_t priority, uint32_t flags);	/* DDR_VERIFY_F_* */
const char *ddr_drive_clean(struct ddr_array *a);	/* a->clean_asked goes when it has ended */
/* Nobody waits for it any more: unless the device goes, the array is used on. Also from within a step. */
void ddr_drive_clean_late(struct ddr_array *a);
/* The member fails: for what this node has seen of it, or since the operator wants it out, and then it does not come back by itself. */
const char *ddr_drive_fail(struct ddr_array *a, uint32_t member);
const char *ddr_drive_fail_by_hand(struct ddr_array *a, uint32_t member);
/* A disk with this uuid is to be a spare; the member is forgotten (@uuid: random); its device is looked for, and it comes back. */
const char *ddr_drive_add(struct ddr_array *a, const uint8_t uuid[16]);
const char *ddr_drive_remove(struct ddr_array *a, uint32_t member, const uint8_t uuid[16]);
const char *ddr_drive_seek(struct ddr_array *a, uint32_t member);
/* Blocks that it is to have; 0: as many as there is room for. The end is an event, and a->grow.refusal if it is refused. */
const char *ddr_drive_grow(struct ddr_array *a, uint64_t blocks);
/* It begins when all nodes see the spare; a->replace.refusal if it cannot any more. */
const char *ddr_drive_replace(struct ddr_array *a, uint32_t member, uint32_t spare);
/* Nobody waits for it any more: it shall not begin. From anywhere, done by the next tick; what was sent to the group by then may begin still. */
void ddr_drive_replace_late(struct ddr_array *a, uint32_t spare);
const char *ddr_drive_accept(struct ddr_array *a);	/* what the suspect regions hold is right */
/* A daemon of another release is in the group, so nobody goes on, and this node takes no part yet: it has to go; a->error says why. */
bool ddr_drive_unfit(struct ddr_array *a);
const char *ddr_drive_fence_ack(struct ddr_array *a, uint32_t node);	/* the operator swears that it is dead */
/* The device is gone and all is cleared: leaves the group. false: there is nothing to wait for; else a->cluster.left tells the end. */
bool ddr_drive_leave(struct ddr_array *a);
/*
 * Another table of the array was resumed: binds to it, and the state machine goes on in its place in the group. False: the array has to
 * be closed and loaded anew (the table names devices that were not looked at, or it does not go).
 */
bool ddr_drive_rebind(struct ddr_array *a, const struct ddr_kchan_ops *ops);
void ddr_drive_tune(struct ddr_array *a);	/* a->tune has changed */

/* What the kernel has said; @ctx: the array, by whose channel it came. */
void ddr_drive_record(void *ctx, const struct ddr_rec *rec);

/* A block device has changed: members that are looked for may be there, and another disk may be behind one that is. */
void ddr_drive_uevent(struct ddr_daemon *d, const struct ddr_uevent *e);

/* ---- watch.c ------------------------------------------------------------------- */

/* Looks what is new of the jobs of other nodes: a->watch. The array is RUNNING. O(1), but for O(regions) when there is something new. */
void ddr_watch_tick(struct ddr_array *a, uint64_t now_ms);

/* ---- schedule.c ---------------------------------------------------------------- */

/* Begins with the verify whose turn it is; call it every now and then. */
void ddr_schedule_tick(struct ddr_daemon *d, uint64_t now_ms);
/* Seconds since 1970 from which on the array is to be verified next; UINT64_MAX: never by itself. The array is served. */
uint64_t ddr_schedule_due(const struct ddr_array *a);
/* What a verify that is due, or has begun, waits for: one line, or NULL. The array is served. */
const char *ddr_schedule_waits(const struct ddr_array *a);

#endif
