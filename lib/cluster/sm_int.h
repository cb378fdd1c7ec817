/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Internal interface of the state machine: the contracts between its files. Their data is in sm_state.h, and the part that all
 * nodes share in sm_shared.h.
 *
 * The files form layers. A file only calls files below it. Instead of calling up, it records what it wants in the state, where a
 * pump of the upper file finds it. From the bottom to the top, in the order of this header:
 *
 * outputs, and questions
 *	sm_out.c	outputs, events, records to the kernel, messages; the ends of this instance
 *	sm_cells.c	the tables of the small machines (sm_cells.h)
 *	sm_wait.c	texts for what the array waits for
 *	sm_ask.c	nodes and slots: who votes, who writes, who is lost
 *	sm_state_codec.c	the shared state as bytes; what is forgotten
 *	sm_ask_member.c	members: which are in sync, which leave, which the array can lose
 *	sm_apply.c	applies a change to the superblock
 *	sm_room.c	the size to which the array may grow
 *	sm_set.c	changes of the superblocks on request
 *	sm_region.c	what the region map says of each region
 * what a delivered message changes on all nodes alike (sm_order.h)
 *	sm_order_ex.c	exclusive ranges
 *	sm_order_owner.c	which machine has a slot, and whether it is dead
 *	sm_order_node.c	nodes and slots
 *	sm_order.c	growing, the map, verify, devices
 *	sm_order_member.c	members
 *	sm_mark.c	whether the array belongs to a cluster, and its adoption by a node that is in none
 *	sm_order_start.c	START
 * members that fail, or have no space
 *	sm_space.c	writes that wait because a member has no space left
 *	sm_fault.c	errors of members: counts, events, reports
 * regions, log and grants
 *	sm_bits.c	what our kernel is told about each region
 *	sm_dirty.c	regions that are marked, must be resynced, or are checked again
 *	sm_grant.c	LOCK and GRANT, the plan after a start
 *	sm_log.c	the writes of the dirty log
 *	sm_clear.c	REAP, CLOSED, flushes, clearing of marks
 * members
 *	sm_table.c	the member states that our kernel is told, and its table
 * exclusive ranges, and the jobs in them
 *	sm_turn.c	the queue of requests when all places are taken
 *	sm_use.c	which nodes use the device, reported for the pace of background work
 *	sm_ex.c		requests, drains, acknowledgements, release
 *	sm_fix.c	repair of bad sectors and wrong chunks in place
 *	sm_error.c	errors and mismatches that the kernel reports
 *	sm_resync.c	which regions are resynced, and when
 *	sm_rebuild.c	assigning spares, folding earlier writes into the map, the rebuild and its cursor
 *	sm_verify.c	the agreed verify, and its reads
 *	sm_range.c	a range of ours from start to end, its job, and who learns the result
 * changes of the members and the map
 *	sm_seek.c	which node sees which member; members that are added, removed, or come back
 *	sm_grow.c	growing the array into the room of its members
 *	sm_owner.c	the owner pages beside the superblocks
 *	sm_super.c	the superblocks of a change, and their writes
 *	sm_map.c	the region map: MAP_SET and MAP_DONE, its writes
 *	sm_member.c	member failure: intent, superblocks, done, acknowledgement
 * nodes and views
 *	sm_recover.c	taking over the slot of a dead node
 *	sm_leave.c	the clean stop, and leaving
 *	sm_nodes.c	nodes that come and go, who writes, and the status of the nodes
 *	sm_gone.c	what this machine was before and is no more
 *	sm_fence.c	lost nodes, and their fencing
 *	sm_settle.c	what is settled before the next event, and what is sent again
 *	sm_join.c	reading the disks at the group's start and at a change of the writer; sending the state to joiners
 *	sm_cluster.c	views, quorum, HELLO, agreement on a view
 * the step
 *	sm_kernel.c	attach and declaration, enable, the records of our kernel
 *	sm_view.c	messages in, the start of this node
 *	sm_debt.c	what is owed to this node, and by it
 *	sm_check.c	consistency checks
 *	sm_dump.c	the shared state as text
 *	sm.c		memory, loading, the step, status
 *
 * A delivered message is handled in two parts: first a function that gets only struct ddr_sm_shared and the message makes the changes that are
 * the same on all nodes (sm_order.h); then the consequences for this node follow. Three messages do not change the shared state: HELLO concerns the
 * view, STATE replaces the shared state as a whole, and USE concerns the pace of this node's work.
 *
 * Types say who may change the shared state: in struct ddr_sm it is const. Only the step (sm.c) can change it. It passes a struct ddr_sm_shared * to
 * the handlers of views and messages, to the function that builds a state from the disks, and to those that settle. A function without that
 * argument cannot change the shared state, so no pump can. tests/tools/test_shared.py shows what does not compile.
 *
 * Every input is handled in two parts as well. Its handler changes the state and emits a bounded
 * number of outputs (DDR_SM_HANDLER_OUT at most). Then the pumps run. Each of them
 * advances one task as far as possible. A pump looks at the state only, so it does
 * not matter which input made the task possible. A pump that changed anything sets sm->again,
 * and all pumps run again. A pump that has no room for its outputs stops, and the
 * driver calls again with DDR_IN_NONE.
 */
#ifndef DDR_LIB_SM_INT_H
#define DDR_LIB_SM_INT_H

#include "sm_ask.h"
#include "sm_order.h"
#include "sm_state.h"

/* ---- sm_out.c ------------------------------------------------------------------ */

/* A zeroed output of @type. Never NULL: beyond the array it is the last one, and sm->bug is set. */
struct ddr_output *ddr_sm_out(struct ddr_sm *sm, enum ddr_out_type type);
/* Room for @n more outputs? Otherwise the step ends here and continues with DDR_IN_NONE. */
bool ddr_sm_room(struct ddr_sm *sm, uint32_t n);
struct ddr_output *ddr_sm_event(struct ddr_sm *sm, enum ddr_event event, const char *text);
/* An impossible input: reported, otherwise ignored. */
void ddr_sm_bug(struct ddr_sm *sm, const char *text);
/*
 * Has the time @at (ms) come? If not, the step asks for a tick then. Whatever waits for a time has to ask here, from a pump, and so in each step: a comparison
 * with sm->now alone would be made again only when something else happens. The simulator finds a wait that does not (rig_step()).
 */
static inline bool ddr_sm_time(const struct ddr_sm *sm, uint64_t at)
{
	if (sm->now >= at)
		return true;
	if (sm->o && at < sm->o->due_ms)
		sm->o->due_ms = at;
	return false;
}

/* A new io id that carries @index (16 bits). */
uint64_t ddr_sm_io(struct ddr_sm *sm, uint32_t index);
static inline uint32_t ddr_sm_io_index(uint64_t io)
{
	return (uint32_t)(io & 0xffff);
}
/* The advice in most texts of GIVE_UP: after what must happen first, or alone. The driver adds no advice of its own. */
#define DDR_SM_ANEW		", stop the array on this node and start it again"
#define DDR_SM_START_ANEW	". Stop the array on this node and start it again"
void ddr_sm_give_up(struct ddr_sm *sm, const char *text);
void ddr_sm_array_failed(struct ddr_sm *sm, const char *text);
void ddr_sm_send(struct ddr_sm *sm, struct ddr_msg *msg);
/* A message may be sent now, and there is room for it. */
bool ddr_sm_may_send(struct ddr_sm *sm);
void ddr_sm_evict(struct ddr_sm *sm, const char *text);
/* The driver loads the array again: what it has loaded is too old to start with. */
void ddr_sm_anew(struct ddr_sm *sm, const char *text);
/* A record to the kernel, with a number of its own if @seq is 0. */
struct ddr_rec *ddr_sm_rec(struct ddr_sm *sm, uint32_t type, uint64_t seq, uint64_t start, uint64_t count);
uint64_t ddr_sm_kseq(struct ddr_sm *sm);

/* ---- sm_wait.c ----------------------------------------------------------------- */

/* What waits while a member has no space. */
const char *ddr_sm_space_text(enum ddr_space kind);

/* ---- sm_ask.c ------------------------------------------------------------------ */

/* May this node act at all: in a quorate view, not failed, not given up? */
static inline bool ddr_sm_active(const struct ddr_sm *sm)
{
	return sm->own.quorate && !sm->shared.failed && !sm->own.gave_up;
}

/* The recovery plan is made and the kernel is attached: our log is written. */
static inline bool ddr_sm_logs(const struct ddr_sm *sm)
{
	return ddr_sm_active(sm) && sm->own.planned && sm->kernel.state == DDR_K_ATTACHED && !sm->own.c.leave_sent;
}

/* Besides, the superblocks say from which sequence on the log is ours: grants and jobs may run. */
static inline bool ddr_sm_running(const struct ddr_sm *sm)
{
	return ddr_sm_logs(sm) && sm->own.start == DDR_S_DONE;
}

/* May this node change the state of the group? Only once all of the view agree on the view, and all have the state. */
static inline bool ddr_sm_talks(const struct ddr_sm *sm)
{
	return sm->own.c.phase == DDR_V_AGREED && sm->own.c.synced && !sm->own.c.transfer && sm->own.quorate;
}

/* Is this node the writer, and does it know what the last writer left on the disks? */
static inline bool ddr_sm_writes(const struct ddr_sm *sm)
{
	return ddr_sm_writer(sm) == sm->node && sm->own.c.writer_ready;
}

struct ddr_sm_viewer *ddr_sm_viewer(const struct ddr_sm *sm, uint32_t id);
/* Does @v take its turn to fence the lost node @n? It has the state, can fence, and is another node. All nodes answer alike. */
bool ddr_sm_fences_in_turn(const struct ddr_sm *sm, const struct ddr_sm_node *n, const struct ddr_sm_viewer *v);
/* How many do. */
uint32_t ddr_sm_fencers(const struct ddr_sm *sm, const struct ddr_sm_node *n);
/* Can no node of the view fence this lost one, as far as we know? */
bool ddr_sm_nobody_fences(const struct ddr_sm *sm, const struct ddr_sm_node *n);
/* The node whose turn it is to fence this one; 0: nobody can. */
uint32_t ddr_sm_fence_turn(const struct ddr_sm *sm, const struct ddr_sm_node *n);
/* Have as many attempts to fence this lost node failed as there are nodes that fence? */
bool ddr_sm_all_failed(const struct ddr_sm *sm, const struct ddr_sm_node *n);
bool ddr_sm_in_quorum(const struct ddr_sm *sm, uint32_t id);

/* ---- sm_state_codec.c --------------------------------------------------------------- */

uint64_t ddr_sm_mix(uint64_t x);
/* Maximum size of the state, in bytes, of an array with @n_map blocks of the map. */
uint32_t ddr_sm_state_size(uint32_t n_map);
/* Encodes the state for a joiner. Returns its length in bytes; 0: it does not fit. */
uint32_t ddr_sm_state_encode(const struct ddr_sm *sm, uint8_t *buf, uint32_t size);
/* Decodes the received state without judging its content: the caller does that. False: the length does not match. */
bool ddr_sm_state_decode(struct ddr_sm *sm, struct ddr_sm_shared *s, const uint8_t *buf, uint32_t bytes);
/* Nobody has a state: drops this node's copy. The superblock and the map stay until they are replaced as a whole. */
void ddr_sm_shared_forget(struct ddr_sm_shared *s);
uint64_t ddr_sm_state_digest(const uint8_t *buf, uint32_t bytes);

/* ---- sm_space.c ---------------------------------------------------------------- */

/* A write of this kind found no space on @members (0: none that still counts). It is repeated once ddr_sm_space_waits() is false. */
void ddr_sm_space_none(struct ddr_sm *sm, enum ddr_space kind, uint32_t members);
/* All writes of this kind that had found no space are done. */
void ddr_sm_space_done(struct ddr_sm *sm, enum ddr_space kind);
bool ddr_sm_space_waits(const struct ddr_sm *sm, enum ddr_space kind);
void ddr_sm_space_pump(struct ddr_sm *sm);
void ddr_sm_space_status(const struct ddr_sm *sm, struct ddr_sm_status *st);

/* ---- sm_fault.c ---------------------------------------------------------------- */

/* A job failed on @members: of these @hard in a write or a flush, and of these @flush in a flush, the others in a read. */
struct ddr_sm_job_error {
	uint64_t start, count;
	int32_t result;
	uint32_t members, hard, flush;
};
/* Counts the error for each member, and emits an event with the operation that failed. */
void ddr_sm_job_errors(struct ddr_sm *sm, const struct ddr_sm_job_error *e);
/* This node saw members fail. @hard: they must no longer be used; otherwise the failed operations may be answered with an error. */
void ddr_sm_report(struct ddr_sm *sm, uint32_t members, bool hard);
/* Recent writes to the member may be lost: when its own disk is back, it gets a full rebuild. */
void ddr_sm_exchanged(struct ddr_sm *sm, uint32_t member);
void ddr_sm_count_error(struct ddr_sm *sm, uint32_t member, bool write);
/* Error counts of a member: those of the loaded superblock plus this node's own. */
void ddr_sm_errors(const struct ddr_sm *sm, uint32_t member, uint32_t *read, uint32_t *write, uint32_t *corrected);
/* The daemon's own writes and flushes that failed on @members: of the log, the map and superblocks. */
void ddr_sm_count_writes(struct ddr_sm *sm, uint32_t members);
void ddr_sm_job_event(struct ddr_sm *sm, const struct ddr_sm_job_error *e, uint32_t member, uint32_t op, const char *text);

/* ---- sm_region.c --------------------------------------------------------------- */

/* Blocks of a region: its first one, and how many it has (the last region may be short). */
static inline uint64_t ddr_sm_region_start(const struct ddr_sm *sm, uint64_t region)
{
	return region * sm->shared.region_blocks;
}

static inline uint64_t ddr_sm_region_length(const struct ddr_sm *sm, uint64_t region)
{
	uint64_t left = sm->shared.sb.array_blocks - region * sm->shared.region_blocks;

	return left < sm->shared.region_blocks ? left : sm->shared.region_blocks;
}

/*
 * Sets @done and @total of the progress, by what the map says and @at: for a verify, which reads regions that are clean and not suspect; for a copy of
 * all regions that were written, or (@partial) that were written while a member was missing.
 */
void ddr_sm_progress_verified(const struct ddr_sm *sm, struct ddr_sm_progress *p);
void ddr_sm_progress_copied(const struct ddr_sm *sm, struct ddr_sm_progress *p, bool partial);
/* Counts regions by their state in the map, O(regions); and sets the kept counters from that. */
void ddr_shared_map_count(const struct ddr_sm_shared *s, uint64_t *clean, uint64_t *needs_sync, uint64_t *suspect);
void ddr_order_map_counts(struct ddr_sm_shared *s);
/* Sets blocks of the map that could not be read to the worst that they can have said. */
void ddr_sm_map_unread(struct ddr_sm *sm, struct ddr_sm_shared *s);
/* A sequence above all known ones, and above those of copies that could not be read. */
uint64_t ddr_sm_seq_top(const struct ddr_sm *sm);
/* The first sequence from @top on that belongs to the same place as @seq; @seq itself, if it is not below @top. */
uint64_t ddr_sm_seq_behind(uint64_t seq, uint64_t top);
/* Would the operation change nothing, and is the region's state durable? */
bool ddr_sm_map_holds(const struct ddr_sm *sm, uint64_t region, uint32_t op);
/* Adds a region to the MAP_SET that is being filled; false: it is full, or one is in flight. */
bool ddr_sm_map_want(struct ddr_sm *sm, uint64_t region, uint32_t op);
bool ddr_sm_map_idle(const struct ddr_sm *sm);
/* Is parity known to be right in all of these blocks? */
bool ddr_sm_parity_known(const struct ddr_sm *sm, uint64_t start, uint64_t count);

/* ---- sm_bits.c ----------------------------------------------------------------- */

void ddr_sm_bits_pump(struct ddr_sm *sm);
void ddr_sm_bits_changed(struct ddr_sm *sm, uint64_t region);
void ddr_sm_bits_all(struct ddr_sm *sm);
/* Regions that the kernel's table covers: the kernel is told nothing about later ones. */
uint64_t ddr_sm_kernel_regions(const struct ddr_sm *sm);

/* ---- sm_dirty.c ---------------------------------------------------------------- */

void ddr_sm_mark(struct ddr_sm *sm, uint64_t region);
/* Marks the region for a repair: the log records that until one of our writers, or a resync, needs the mark as well. */
void ddr_sm_mark_repair(struct ddr_sm *sm, uint64_t region);
/* The writes that its mark stood for have ended, and are flushed and in the map: from now on it is one of the repair that waits (ddr_sm_look()). */
void ddr_sm_mark_only_repair(struct ddr_sm *sm, uint64_t region);
/* Is the mark durable on all members in sync, with its present purpose? */
bool ddr_sm_mark_durable(const struct ddr_sm *sm, uint64_t region);
void ddr_sm_unmark(struct ddr_sm *sm, uint64_t region);
uint64_t ddr_sm_marks(const struct ddr_sm *sm);
/* The region's parity may be wrong: it stays marked until a resync that begins after this call has ended. */
void ddr_sm_need_resync(struct ddr_sm *sm, uint64_t region);
/* A repair in the region was interrupted: the whole region is checked again. It stays marked until then, or until it is to be resynced (drop). */
void ddr_sm_look(struct ddr_sm *sm, uint64_t region);
void ddr_sm_look_drop(struct ddr_sm *sm, uint64_t region);

/* ---- sm_grant.c ---------------------------------------------------------------- */

/* START took effect: the superblocks on disk name us as the owner of our slot. */
void ddr_sm_started(struct ddr_sm *sm, struct ddr_sm_shared *s);
void ddr_sm_lock(struct ddr_sm *sm, const struct ddr_rec *rec);
void ddr_sm_grant_pump(struct ddr_sm *sm);
/* Both places of each block of our log are to be written on all members. */
void ddr_sm_log_renew(struct ddr_sm *sm);
/* After loading and the kernel's declaration: divides dirty regions into held ones and those to be resynced. */
void ddr_sm_plan(struct ddr_sm *sm);
void ddr_sm_redeclared(struct ddr_sm *sm);

/* ---- sm_log.c ------------------------------------------------------------------ */

void ddr_sm_log_done(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_log_pump(struct ddr_sm *sm);
bool ddr_sm_log_idle(const struct ddr_sm *sm);

/* ---- sm_clear.c ---------------------------------------------------------------- */

void ddr_sm_closed(struct ddr_sm *sm, const struct ddr_rec *rec);
void ddr_sm_reaped(struct ddr_sm *sm, const struct ddr_rec *rec);
void ddr_sm_reap_pump(struct ddr_sm *sm);
void ddr_sm_batch_pump(struct ddr_sm *sm);
void ddr_sm_batch_mapped(struct ddr_sm *sm);
void ddr_sm_batch_members(struct ddr_sm *sm);
uint64_t ddr_sm_flush_ticket(struct ddr_sm *sm);
void ddr_sm_flush_done(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_flush_pump(struct ddr_sm *sm);

/* ---- sm_apply.c ---------------------------------------------------------------- */

void ddr_sm_mark_apply(struct ddr_super *sb, uint32_t mark);
/*
 * Applies a change to @sb, which has its new generation already: @set (operation 0: none), members that become
 * @faulty or @missing, @slots that get the owners in @owner.
 */
void ddr_shared_apply(const struct ddr_sm_shared *s, struct ddr_super *sb, const struct ddr_msg_member_set *set, uint32_t faulty, uint32_t missing,
		  uint64_t slots, const uint32_t *owner);
/* Does every role have a holder that is in sync? */
bool ddr_sm_none_missing(const struct ddr_super *sb);

/* ---- sm_set.c ------------------------------------------------------------------ */

/* Does it change more than a progress record or the policy? */
bool ddr_sm_changes_members(const struct ddr_msg_member_set *set);
/* Does it change a member's role or state? */
bool ddr_sm_set_moves(const struct ddr_msg_member_set *set);
/* Requests a change of the members, if it is valid and none is in progress; true: it was sent. */
bool ddr_sm_ask(struct ddr_sm *sm, const struct ddr_msg_member_set *set);

/* ---- sm_table.c ---------------------------------------------------------------- */

/* The member whose device our kernel has at the position, including one that leaves; or DDR_NO_MEMBER. @absent: our table has no device there; the member that should be there. */
uint32_t ddr_sm_device_at(const struct ddr_sm *sm, uint32_t position, bool absent);
void ddr_sm_table_done(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_kernel_pump(struct ddr_sm *sm);
/* Was our kernel told all member states; has it applied them? */
bool ddr_sm_members_told(const struct ddr_sm *sm);
bool ddr_sm_applied(const struct ddr_sm *sm);
void ddr_sm_member_applied(struct ddr_sm *sm, const struct ddr_rec *rec);

/* ---- sm_turn.c ----------------------------------------------------------------- */

/* A request of the node was delivered: all places were taken, or it has one. */
void ddr_sm_turn_refused(struct ddr_sm *sm, uint32_t node);
void ddr_sm_turn_granted(struct ddr_sm *sm, uint32_t node);
void ddr_sm_turn_view(struct ddr_sm *sm);
/* May we ask now? */
bool ddr_sm_turn_ours(const struct ddr_sm *sm);
void ddr_sm_turn_pump(struct ddr_sm *sm);

/* ---- sm_use.c ------------------------------------------------------------------ */

/* The driver says whether the device is in use here. */
void ddr_sm_op_used(struct ddr_sm *sm, bool used);
/* Another node asks for a range: our use of the device may slow its work down. */
void ddr_sm_use_asked(struct ddr_sm *sm);
void ddr_sm_use_message(struct ddr_sm *sm, const struct ddr_msg *msg);
void ddr_sm_use_pump(struct ddr_sm *sm);
void ddr_sm_use_view(struct ddr_sm *sm);

/* ---- sm_ex.c ------------------------------------------------------------------- */

/* Consequences for this node of a delivered message, and of what it changed. */
void ddr_sm_ex_requested(struct ddr_sm *sm, const struct ddr_msg *msg, enum ddr_ex_answer answer, const struct ddr_sm_ex *x);
void ddr_sm_ex_released(struct ddr_sm *sm, const struct ddr_msg *msg, const struct ddr_sm_ex *x);
void ddr_sm_drained(struct ddr_sm *sm, const struct ddr_rec *rec);
/* These ranges were cancelled: their owners ask again. */
void ddr_sm_ex_cancelled(struct ddr_sm *sm, const struct ddr_ended *ended);
void ddr_sm_ex_view(struct ddr_sm *sm);
/* The state is forgotten: its ranges are no longer in force for us, but their owners may be working in them. */
void ddr_sm_ex_forget(struct ddr_sm *sm, struct ddr_sm_shared *s);
/* Another state was taken over: ranges that it contains, too, stay as they are in our kernel. */
void ddr_sm_ex_adopt(struct ddr_sm *sm);
void ddr_sm_ex_detached(struct ddr_sm *sm);
/* A new range of ours, or NULL: no place is free, or it would overlap a range in force. */
struct ddr_sm_range *ddr_sm_range_new(struct ddr_sm *sm, uint64_t start, uint64_t count, uint32_t limit);
uint32_t ddr_sm_ranges_used(const struct ddr_sm *sm);
/* These ranges of the node have ended. */
void ddr_sm_ex_ended(struct ddr_sm *sm, uint32_t node, const struct ddr_ended *ended);
/* The node is gone, or starts again. */
void ddr_sm_ex_gone(struct ddr_sm *sm, struct ddr_sm_shared *s, uint32_t node);
bool ddr_sm_ex_may_enable(const struct ddr_sm *sm);
struct ddr_sm_range *ddr_sm_range_find(struct ddr_sm *sm, uint32_t id, enum ddr_range_state state);
/* Do any of the blocks lie in a range in force? */
bool ddr_sm_ex_in_force(const struct ddr_sm *sm, uint64_t start, uint64_t count);
/* The range is no longer in force: our kernel lets its writers continue. */
void ddr_sm_ex_over(struct ddr_sm *sm, const struct ddr_sm_ex *x);
/* Releases drained ranges that our state does not contain, unless it lacks them because their owner was on another side: then that node is lost. */
void ddr_sm_stale_release(struct ddr_sm *sm);
void ddr_sm_void_serve(struct ddr_sm *sm);
void ddr_sm_ex_serve(struct ddr_sm *sm, const struct ddr_sm_ex *x);

/* ---- sm_fix.c ------------------------------------------------------------------ */

/* Starts the repair of these blocks, as far as they lie in one region. False: not possible now. @what: DDR_FIX_*, and DDR_SM_FIX_OF_VERIFY. */
#define DDR_SM_FIX_OF_VERIFY	0x80000000u	/* verify counts what it finds, and waits for its end */
bool ddr_sm_fix_new(struct ddr_sm *sm, uint64_t start, uint64_t count, uint32_t what);
/* Is a repair pending in these blocks? */
bool ddr_sm_fix_pending(const struct ddr_sm *sm, uint64_t start, uint64_t count);
/* Is there a place for another fix? */
bool ddr_sm_fix_room(const struct ddr_sm *sm);
bool ddr_sm_fix_possible(const struct ddr_sm *sm, const struct ddr_sm_range *r);
void ddr_sm_fix_range(struct ddr_sm *sm, struct ddr_sm_range *r, bool done);
void ddr_sm_fix_pump(struct ddr_sm *sm);
/* The event for blocks of the range that do not match, and stay so. */
void ddr_sm_left_wrong(struct ddr_sm *sm, const struct ddr_sm_range *r, const char *why);
bool ddr_sm_fixes_idle(const struct ddr_sm *sm);
/* The lowest block that verify found wrong and that is not repaired yet; @block, if that is lower. */
uint64_t ddr_sm_fix_lowest(const struct ddr_sm *sm, uint64_t block);

/* ---- sm_error.c ---------------------------------------------------------------- */

void ddr_sm_kerror(struct ddr_sm *sm, const struct ddr_rec *rec);
void ddr_sm_kmismatch(struct ddr_sm *sm, const struct ddr_rec *rec);
void ddr_sm_error_pump(struct ddr_sm *sm);
void ddr_sm_errors_refused(struct ddr_sm *sm, uint32_t members);
void ddr_sm_errors_forget(struct ddr_sm *sm);
void ddr_sm_mismatch_range(struct ddr_sm *sm, const struct ddr_sm_range *r, bool done);

/* ---- sm_resync.c --------------------------------------------------------------- */

void ddr_sm_resync_pump(struct ddr_sm *sm);
/* A range ended: its result counts (@done), or the range must be repeated. */
void ddr_sm_work_range(struct ddr_sm *sm, struct ddr_sm_range *r, bool done);
void ddr_sm_works_mapped(struct ddr_sm *sm);
void ddr_sm_works_restart(struct ddr_sm *sm);
bool ddr_sm_works_idle(const struct ddr_sm *sm);
/* Blocks: of the resync after a crash; if there is none, of background work. */
void ddr_sm_resync_progress(const struct ddr_sm *sm, uint64_t *done, uint64_t *total);

/* ---- sm_rebuild.c -------------------------------------------------------------- */

void ddr_sm_rebuild_pump(struct ddr_sm *sm);
void ddr_sm_folded(struct ddr_sm *sm, uint32_t sender);
/* A member's rebuild begins, so no node has folded: our dirty regions are folded again, and our log is written to the member. */
void ddr_sm_unfolded(struct ddr_sm *sm);
/* The MAP_SET with what we folded, or with regions that a rebuild found to be suspect, is durable. */
void ddr_sm_rebuild_mapped(struct ddr_sm *sm);
/* Restarts the rebuild from the cursor in the superblock. */
void ddr_sm_rebuild_anew(struct ddr_sm *sm);
void ddr_sm_rebuild_range(struct ddr_sm *sm, const struct ddr_sm_range *r, bool done);
/* A new view: messages that were sent in the previous ring and not delivered are sent again. */
void ddr_sm_rebuild_view(struct ddr_sm *sm);
/* The block that the rebuild has reached, as far as this node knows. 0: no rebuild. */
uint64_t ddr_sm_rebuild_at(const struct ddr_sm *sm);

/* ---- sm_verify.c --------------------------------------------------------------- */

void ddr_sm_verify_message(struct ddr_sm *sm, const struct ddr_msg *msg, bool changed, enum ddr_event told);
void ddr_sm_op_verify(struct ddr_sm *sm, const struct ddr_input *in);
/* A read without a range has ended; its io has an index from DDR_SM_RANGES on. */
void ddr_sm_scan_done(struct ddr_sm *sm, const struct ddr_input *in);
/* The block below which everything was verified, as far as this node knows. */
uint64_t ddr_sm_verify_at(const struct ddr_sm *sm);
void ddr_sm_verify_pump(struct ddr_sm *sm);
void ddr_sm_verify_view(struct ddr_sm *sm);

/* ---- sm_range.c ---------------------------------------------------------------- */

void ddr_sm_ex_voided(struct ddr_sm *sm, const struct ddr_msg *msg);
void ddr_sm_ex_pump(struct ddr_sm *sm);
void ddr_sm_job_done(struct ddr_sm *sm, const struct ddr_input *in);
/* The failure of @members was refused: ranges that wait for it end undone. */
void ddr_sm_ranges_refused(struct ddr_sm *sm, uint32_t members);

/* ---- sm_seek.c ----------------------------------------------------------------- */

void ddr_sm_seek_pump(struct ddr_sm *sm);
void ddr_sm_seek_view(struct ddr_sm *sm);
void ddr_sm_members_loaded(struct ddr_sm *sm, const struct ddr_sm_config *cfg);
void ddr_sm_present(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_op_seek(struct ddr_sm *sm, uint32_t member);
/* ADD, REMOVE: one of them at a time. */
void ddr_sm_op_member(struct ddr_sm *sm, uint32_t op, const struct ddr_input *in);
/* The ADD of the disk with this uuid is not wanted any more. */
void ddr_sm_op_withdraw(struct ddr_sm *sm, const uint8_t uuid[DDR_UUID_LEN]);
/* REPLACE: waits until all nodes see the spare; removing the spare cancels it, and so does a REPLACE with DDR_NO_MEMBER. */
void ddr_sm_op_replace(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_op_policy(struct ddr_sm *sm, uint32_t policy);
void ddr_sm_seek(struct ddr_sm *sm, uint32_t sender, uint32_t member);
void ddr_sm_seen(struct ddr_sm *sm, uint32_t sender);
/* The members left: the devices of them that this node has open are those of members that are out. */
void ddr_sm_members_gone(struct ddr_sm *sm, uint32_t members);
/* Our superblock changed from @was: the open device of a member may be one that was removed, or be at the wrong place in our kernel's table. */
void ddr_sm_members_known(struct ddr_sm *sm, const struct ddr_super *was);
void ddr_sm_seek_status(const struct ddr_sm *sm, struct ddr_sm_status *st);

/* ---- sm_grow.c ----------------------------------------------------------------- */

void ddr_sm_op_grow(struct ddr_sm *sm, uint64_t blocks);
void ddr_sm_room_known(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_grow_prepared(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_grow_told(struct ddr_sm *sm, const struct ddr_msg *msg, const char *why);
void ddr_sm_room_told(struct ddr_sm *sm, struct ddr_sm_shared *s, uint32_t sender, bool counts);
uint64_t ddr_sm_grow_room(const struct ddr_sm *sm);	/* blocks that this node has room for, as far as it knows */
/* Judges the reports when all nodes have sent theirs; part of ddr_sm_settle(). */
void ddr_sm_grow_settle(struct ddr_sm *sm, struct ddr_sm_shared *s);
/* An agreed change of the members. */
void ddr_sm_grow_members(struct ddr_sm *sm);
void ddr_sm_grown(struct ddr_sm *sm, uint64_t before);
void ddr_sm_grow_view(struct ddr_sm *sm);
void ddr_sm_grow_forget(struct ddr_sm *sm);
/* Are the members prepared for the change that the writer is about to write? Always true unless the size changes. */
bool ddr_sm_grow_prepare(struct ddr_sm *sm);
/* Are the devices here large enough for the array as it is now, and is our kernel's table not longer? */
bool ddr_sm_grow_may_start(struct ddr_sm *sm);
void ddr_sm_grow_pump(struct ddr_sm *sm);

/* ---- sm_super.c ---------------------------------------------------------------- */

/* Writes the superblocks of the current change. */
void ddr_sm_supers_write(struct ddr_sm *sm);
void ddr_sm_sb_done(struct ddr_sm *sm, const struct ddr_input *in);
/* This node is the new writer, and continues from what the last writer left on the disks. */
void ddr_sm_member_takeover(struct ddr_sm *sm, const struct ddr_super *disk);

/* ---- sm_map.c ------------------------------------------------------------------ */

/* Applies a MAP_SET region by region, with the consequences of each change. */
void ddr_sm_map_set(struct ddr_sm *sm, struct ddr_sm_shared *s, const struct ddr_msg *msg);
void ddr_sm_map_told(struct ddr_sm *sm, const struct ddr_msg *msg);
void ddr_sm_map_done(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_map_pump(struct ddr_sm *sm);
/* A new writer has read the map: sends the group what only the disks know; then the writer is ready. */
void ddr_sm_map_merge(struct ddr_sm *sm);
void ddr_sm_accept(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_map_view(struct ddr_sm *sm);

/* ---- sm_member.c --------------------------------------------------------------- */

/* Cancels a WHOLE that is not delivered yet: its member failed, or a node died, whose writes may differ on the two members. */
void ddr_sm_whole_void(struct ddr_sm *sm, struct ddr_sm_shared *s);
/* A WHOLE was cancelled: what this node has written for it must not take effect. */
void ddr_sm_whole_voided(struct ddr_sm *sm);
void ddr_sm_member_failed(struct ddr_sm *sm, const struct ddr_msg *msg, const struct ddr_order_fail *n);
void ddr_sm_member_done(struct ddr_sm *sm, const struct ddr_msg *msg, const struct ddr_order_done *n);
void ddr_sm_member_pump(struct ddr_sm *sm);
void ddr_sm_member_view(struct ddr_sm *sm);
void ddr_sm_member_settle(struct ddr_sm *sm, struct ddr_sm_shared *s);
/* All have acknowledged the change that was done, and this node has to act on it. */
bool ddr_sm_member_due(const struct ddr_sm *sm);
void ddr_sm_op_fail(struct ddr_sm *sm, uint32_t member);
void ddr_sm_member_set(struct ddr_sm *sm, const struct ddr_msg *msg, bool taken);

/* ---- sm_recover.c -------------------------------------------------------------- */

void ddr_sm_recover_told(struct ddr_sm *sm, const struct ddr_msg *msg, enum ddr_recover_answer answer);
void ddr_sm_recover_pump(struct ddr_sm *sm);
void ddr_sm_recover_resend(struct ddr_sm *sm);
void ddr_sm_slot_done(struct ddr_sm *sm, const struct ddr_input *in);
bool ddr_sm_slot_written(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_slot_load(struct ddr_sm *sm, uint32_t index, const uint8_t *payload, uint64_t seq);
/* The block that was just loaded names this instance as the slot's owner. */
void ddr_sm_slot_instance(struct ddr_sm *sm, uint64_t seq, const uint8_t boot_id[16], uint64_t cookie);
/* Our slot's log was given by SLOT_READ, or must be asked for. */
void ddr_sm_read_pump(struct ddr_sm *sm);

/* ---- sm_leave.c ---------------------------------------------------------------- */

void ddr_sm_op_leave(struct ddr_sm *sm);
/* Are there other nodes in the view that could start, or leave? */
bool ddr_sm_others_move(const struct ddr_sm *sm, uint32_t id);
void ddr_sm_leave_told(struct ddr_sm *sm, const struct ddr_msg *msg, bool leaves);
void ddr_sm_clean_pump(struct ddr_sm *sm);
/* Do we know all marks of our slot? Not before it was read. */
bool ddr_sm_marks_known(const struct ddr_sm *sm);
bool ddr_sm_at_rest(const struct ddr_sm *sm);
void ddr_sm_leave_pump(struct ddr_sm *sm);

/* ---- sm_nodes.c ---------------------------------------------------------------- */

/* Chooses a new writer if the last one is gone for good; see ddr_order_writer(). In the total order only. */
void ddr_sm_writer_choose(struct ddr_sm *sm, struct ddr_sm_shared *s);
/* There is a new writer: what we knew of the disks as the writer no longer counts. */
void ddr_sm_writer_chosen(struct ddr_sm *sm, enum ddr_writer_news news);
/* The place of a node in the table, assigned if necessary. NULL: all 64 are taken by nodes that are here or lost. */
struct ddr_sm_node *ddr_sm_place(struct ddr_sm *sm, struct ddr_sm_shared *s, uint32_t id);
/* This node has no place. */
void ddr_sm_no_place(struct ddr_sm *sm);
/* The node is lost: from now on it counts as one that has not answered. */
void ddr_sm_lose(struct ddr_sm *sm, struct ddr_sm_shared *s, struct ddr_sm_node *n, bool absent);
/* A verdict has excluded the daemon of the node: the next HELLO says so. */
void ddr_sm_exclusion(struct ddr_sm *sm, uint32_t node);
/* A HELLO says that of the node. */
void ddr_sm_exclusion_told(struct ddr_sm *sm, uint32_t node);
/* The view is agreed on: those of these nodes that are lost stay lost until they are proven dead. Returns whether that is new for one of them. */
bool ddr_sm_exclusions_agreed(struct ddr_sm *sm, struct ddr_sm_shared *s);
/* Those who have the state know what the HELLOs of this view name. */
void ddr_sm_exclusions_known(struct ddr_sm *sm);
/* The node took part, and is not in the agreed view: it left cleanly, or is lost. */
void ddr_sm_departed(struct ddr_sm *sm, struct ddr_sm_shared *s, struct ddr_sm_node *n);
/* So long after a machine was fenced, or has booted, what it had sent before may reach a member: the longest time that a node of the view knows. In ms. */
uint32_t ddr_sm_settle_ms(const struct ddr_sm *sm);
/* No agent is called yet: the machine that was this lost node runs under another id, so it need not be switched off, and is about to say so (sm_gone.c). */
bool ddr_sm_fence_rests(const struct ddr_sm *sm, const struct ddr_sm_node *n);
/* What the group knows of its nodes, and what it waits for. */
void ddr_sm_nodes_status(const struct ddr_sm *sm, struct ddr_sm_status *st);

/* ---- sm_gone.c ----------------------------------------------------------------- */

/* No slot is free, and one is about to be that this machine had before. */
bool ddr_sm_slot_comes(const struct ddr_sm *sm);
void ddr_sm_gone_pump(struct ddr_sm *sm);
void ddr_sm_gone_resend(struct ddr_sm *sm);

/* ---- sm_fence.c ---------------------------------------------------------------- */

/* Nodes were proven dead. @how: text of the event. */
void ddr_sm_nodes_dead(struct ddr_sm *sm, const struct ddr_order_dead *dead, const char *how);
/* GONE was delivered. */
void ddr_sm_gone_told(struct ddr_sm *sm, const struct ddr_order_dead *dead);
extern const char ddr_sm_acknowledged[];	/* how, if the operator says so */
void ddr_sm_fence_answer(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_fence_ack(struct ddr_sm *sm, uint32_t node);
void ddr_sm_fence_told(struct ddr_sm *sm, const struct ddr_msg *msg, enum ddr_fenced_answer answer, const struct ddr_order_dead *dead);
void ddr_sm_fence_pump(struct ddr_sm *sm);
void ddr_sm_fence_resend(struct ddr_sm *sm);

/* ---- sm_settle.c --------------------------------------------------------------- */

/* Messages that were sent before a change of the view and not delivered are refused after it: they are sent again. */
void ddr_sm_resend(struct ddr_sm *sm);
/*
 * Called before each event of the total order: what all nodes have acknowledged so far is
 * settled, on every node, before the event may change who has to acknowledge.
 */
void ddr_sm_settle(struct ddr_sm *sm, struct ddr_sm_shared *s);

/* ---- sm_join.c ----------------------------------------------------------------- */

void ddr_sm_state(struct ddr_sm *sm, struct ddr_sm_shared *s, const struct ddr_msg *msg);
/* This node is about to send the state, which is settled before. */
bool ddr_sm_state_due(const struct ddr_sm *sm);
void ddr_sm_join_view(struct ddr_sm *sm);
void ddr_sm_join_pump(struct ddr_sm *sm);
void ddr_sm_reloaded(struct ddr_sm *sm, struct ddr_sm_shared *s, const struct ddr_input *in);
/* The state that was built from the disks differs from what they hold now: nobody has a state. */
void ddr_sm_void(struct ddr_sm *sm, struct ddr_sm_shared *s);
/* Drops our state: we have not started. The view stays. */
void ddr_sm_forget(struct ddr_sm *sm, struct ddr_sm_shared *s);

/* ---- sm_cluster.c -------------------------------------------------------------- */

void ddr_sm_view(struct ddr_sm *sm, struct ddr_sm_shared *s, const struct ddr_input *in);
void ddr_sm_quorum(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_hello(struct ddr_sm *sm, struct ddr_sm_shared *s, const struct ddr_msg *msg);
void ddr_sm_cluster_pump(struct ddr_sm *sm);
void ddr_sm_start_told(struct ddr_sm *sm, const struct ddr_msg *msg, enum ddr_start_answer answer, const struct ddr_order_start *n);

/* ---- sm_kernel.c --------------------------------------------------------------- */

void ddr_sm_attached(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_detached(struct ddr_sm *sm);
void ddr_sm_record(struct ddr_sm *sm, const struct ddr_rec *rec);

/* ---- sm_owner.c ----------------------------------------------------------------- */

/* The writer: superblocks that name no cluster are written again, once this node's has an id. */
void ddr_sm_owner_pump(struct ddr_sm *sm);
/* Do the owner pages that are written now, or were last, say of some slot where its log begins? */
bool ddr_sm_log_seqs(const struct ddr_sm *sm);
/* A new owner of a slot: once its log is written anew, the superblocks say so, and then the start is complete. */
void ddr_sm_renew_pump(struct ddr_sm *sm);
/*
 * Is the node of the view another machine than the lost one whose id it has (rule I5)? All answer alike, by HELLO. This node knows better of itself, once its
 * kernel is attached: ddr_shared_stranger_begins().
 */
bool ddr_sm_stranger(const struct ddr_sm *sm, uint32_t node);
void ddr_sm_enable_pump(struct ddr_sm *sm);

/* ---- sm_view.c ----------------------------------------------------------------- */

void ddr_sm_message(struct ddr_sm *sm, struct ddr_sm_shared *s, const struct ddr_input *in);
void ddr_sm_start_pump(struct ddr_sm *sm);

/* ---- sm_debt.c ----------------------------------------------------------------- */

/* After each step: notes what is owed now. */
void ddr_sm_debts_look(struct ddr_sm *sm);

#endif
