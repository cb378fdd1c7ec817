/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The inside of the state machine: the contracts between its files. What they work on is in sm_state.h, and what all nodes
 * share in sm_shared.h.
 *
 * The files are in layers. One calls down alone: it asks a question, or leaves a wish in the state for a pump to find. From
 * the bottom to the top, as below:
 *
 * what comes out, and questions
 *	sm_out.c	outputs, events, records to the kernel, messages; the ends of this instance
 *	sm_cells.c	the tables of the small machines (sm_cells.h)
 *	sm_wait.c	what is waited for, in words
 *	sm_ask.c	nodes and slots: who votes, who writes, who is lost
 *	sm_shared.c	what all share, as bytes; what is forgotten
 *	sm_ask_member.c	members: who is in sync, who goes, what the array can do without
 *	sm_apply.c	what a change makes of the superblock
 *	sm_room.c	what size the array may grow to
 *	sm_set.c	changes of the superblocks that somebody asks for
 *	sm_region.c	what the region map says of each region
 * what a delivered message changes for all alike (sm_order.h)
 *	sm_order_ex.c	exclusive ranges
 *	sm_order_node.c	nodes and slots
 *	sm_order.c	growing, the map, verify, devices
 *	sm_order_member.c	members
 *	sm_mark.c	whether the array is a cluster's, and its adoption by a node that is in none
 *	sm_order_start.c	START
 * members that fail, and want of space
 *	sm_space.c	what meets a member that has no space left, and waits for some
 *	sm_fault.c	what failed on members: counted, told, reported
 * regions, log and grants
 *	sm_bits.c	what our kernel is told of each
 *	sm_dirty.c	what is marked, must be resynced, or looked at again
 *	sm_grant.c	LOCK and GRANT, the plan after a start
 *	sm_log.c	the writes of the dirty log
 *	sm_clear.c	REAP, CLOSED, flushes, clearing of marks
 * members
 *	sm_table.c	member states as our kernel is told them, and its table
 * exclusive ranges, and the jobs in them
 *	sm_turn.c	whose turn it is to ask for one, when all places are taken
 *	sm_use.c	who uses the device, told to whoever does background work
 *	sm_ex.c		requests, drains, acknowledgements, release
 *	sm_fix.c	bad sectors and wrong chunks that are put right in place
 *	sm_error.c	errors and mismatches that the kernel reports
 *	sm_resync.c	what is resynced and when
 *	sm_rebuild.c	spares taken, what is written before them folded into the map, the rebuild and its cursor
 *	sm_verify.c	the verify that all agree on, and its reads
 *	sm_range.c	the life of a range of ours, its job, and who is told of the end
 * changes of the members and the map
 *	sm_seek.c	who sees which member; members that are added, removed, or come back
 *	sm_grow.c	the array takes what its members have room for
 *	sm_super.c	what is in the superblocks of a change, and the writes of them
 *	sm_map.c	the region map: MAP_SET and MAP_DONE, its writes
 *	sm_member.c	member failure: intent, superblocks, done, acknowledgement
 * nodes and views
 *	sm_recover.c	taking over the slot of a dead node
 *	sm_leave.c	the clean stop, and leaving
 *	sm_nodes.c	nodes that come and go, and who writes
 *	sm_fence.c	nodes that are lost, and their fencing
 *	sm_settle.c	what is settled before the next event, and what is sent again
 *	sm_join.c	what is on disk at the group's start and at a change of the writer; a joiner's state
 *	sm_cluster.c	views of several nodes, quorum, hellos, agreement on a view
 * the step
 *	sm_kernel.c	attach and declaration, enable, the records of our kernel
 *	sm_view.c	messages in, the start of this node
 *	sm_check.c	consistency of all that
 *	sm_dump.c	what all share, for people
 *	sm.c		memory, loading, the step, status
 *
 * A delivered message is handled in two parts: first what it changes for all alike, by a function that is given struct ddr_sm_shared and the
 * message alone (sm_order.h), then what follows from that for this node. HELLO is of the view, STATE is all that is shared at once, and USE is
 * for the pace of this node's work: these three change no part of what is shared.
 *
 * Every input is handled in two parts, too. Its handler changes the state and emits a bounded
 * number of outputs (DDR_SM_HANDLER_OUT at most). Then the pumps run, each of which
 * carries one thing on as far as it can: a pump looks at the state only, so that it does
 * not matter which input made it possible. A pump that changed anything sets sm->again,
 * and all of them run once more; one that has no room for its outputs stops and the
 * driver comes back with DDR_IN_NONE.
 */
#ifndef DDR_LIB_SM_INT_H
#define DDR_LIB_SM_INT_H

#include "sm_ask.h"
#include "sm_order.h"
#include "sm_state.h"

/* ---- sm_out.c ------------------------------------------------------------------ */

/* A zeroed output of @type. Never NULL: beyond the array it is the last one, and sm->bug is set. */
struct ddr_output *ddr_sm_out(struct ddr_sm *sm, enum ddr_out_type type);
/* Room for @n more outputs? Otherwise the step is cut here and goes on with DDR_IN_NONE. */
bool ddr_sm_room(struct ddr_sm *sm, uint32_t n);
struct ddr_output *ddr_sm_event(struct ddr_sm *sm, enum ddr_event event, const char *text);
/* An input that cannot be: reported, otherwise ignored. */
void ddr_sm_bug(struct ddr_sm *sm, const char *text);
/* A new io id that carries @index (16 bits). */
uint64_t ddr_sm_io(struct ddr_sm *sm, uint32_t index);
static inline uint32_t ddr_sm_io_index(uint64_t io)
{
	return (uint32_t)(io & 0xffff);
}
/* The one piece of advice of most texts of GIVE_UP: behind what must happen first, or alone. Each text has its own; the driver adds none. */
#define DDR_SM_ANEW		", stop the array on this node and start it again"
#define DDR_SM_START_ANEW	". Stop the array on this node and start it again"
void ddr_sm_give_up(struct ddr_sm *sm, const char *text);
void ddr_sm_array_failed(struct ddr_sm *sm, const char *text);
void ddr_sm_send(struct ddr_sm *sm, struct ddr_msg *msg);
/* A message may be sent now, and there is room for it. */
bool ddr_sm_may_send(struct ddr_sm *sm);
void ddr_sm_evict(struct ddr_sm *sm, const char *text);
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

/* The recovery plan is made and the kernel listens: grants and jobs may run. */
static inline bool ddr_sm_running(const struct ddr_sm *sm)
{
	return ddr_sm_active(sm) && sm->own.planned && sm->kernel.state == DDR_K_ATTACHED && !sm->own.c.leave_sent;
}

/* May this node change the state of the group? Only once all of the view agree on the view, and all have the state. */
static inline bool ddr_sm_talks(const struct ddr_sm *sm)
{
	return !sm->shared.cluster || (sm->own.c.phase == DDR_V_AGREED && sm->own.c.synced && !sm->own.c.transfer && sm->own.quorate);
}

/* Does this node write for all, and knows what the one before left on the disks? */
static inline bool ddr_sm_writes(const struct ddr_sm *sm)
{
	return ddr_sm_writer(sm) == sm->node && sm->own.c.writer_ready;
}

struct ddr_sm_viewer *ddr_sm_viewer(const struct ddr_sm *sm, uint32_t id);
bool ddr_sm_in_quorum(const struct ddr_sm *sm, uint32_t id);

/* ---- sm_shared.c --------------------------------------------------------------- */

uint64_t ddr_sm_mix(uint64_t x);
/* Bytes of the state, at most, of an array with so many blocks of the map. */
uint32_t ddr_sm_state_size(uint32_t n_map);
/* What a joiner gets. Returns how many bytes it is; 0: it does not fit. */
uint32_t ddr_sm_state_encode(const struct ddr_sm *sm, uint8_t *buf, uint32_t size);
/* Takes what was received, whatever it says: the caller judges it. False: it is not that long. */
bool ddr_sm_state_decode(struct ddr_sm *sm, const uint8_t *buf, uint32_t bytes);
/* Nobody has a state: what this node knew of it is void. The superblock and the map stay, to be replaced as a whole. */
void ddr_sm_shared_forget(struct ddr_sm_shared *s);
uint64_t ddr_sm_state_digest(const uint8_t *buf, uint32_t bytes);

/* ---- sm_space.c ---------------------------------------------------------------- */

/* Something of this kind met no space on @members (0: none that still counts) and is to be done again once ddr_sm_space_waits() is over. */
void ddr_sm_space_none(struct ddr_sm *sm, enum ddr_space kind, uint32_t members);
/* All of this kind that had met it is done. */
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
/* Each member is counted and told of, with the operation that failed. */
void ddr_sm_job_errors(struct ddr_sm *sm, const struct ddr_sm_job_error *e);
/* This node saw members fail. @hard: they must not go on being used; else what failed can be refused upwards. */
void ddr_sm_report(struct ddr_sm *sm, uint32_t members, bool hard);
/* What was written to the member since may be nowhere: its own disk gets all when it is back. */
void ddr_sm_exchanged(struct ddr_sm *sm, uint32_t member);
void ddr_sm_count_error(struct ddr_sm *sm, uint32_t member, bool write);
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

/* A region that the job does not pass over. */
static inline void ddr_sm_progress_add(const struct ddr_sm *sm, struct ddr_sm_progress *p, uint64_t region)
{
	uint64_t start = ddr_sm_region_start(sm, region), length = ddr_sm_region_length(sm, region);

	p->total += length;
	if (p->at > start)
		p->done += p->at - start < length ? p->at - start : length;
}

/* Regions that are so by the map: counted, O(regions); and the counters that are kept, as it is counted now. */
void ddr_sm_map_count(const struct ddr_sm *sm, uint64_t *clean, uint64_t *needs_sync, uint64_t *suspect);
void ddr_sm_map_counts(struct ddr_sm *sm);
/* Blocks of the map that could not be read: the worst that they can have said. */
void ddr_sm_map_unread(struct ddr_sm *sm);
/* The highest sequence that is known, and beyond that of what is not. */
uint64_t ddr_sm_seq_top(const struct ddr_sm *sm);
/* The first sequence from @top on that goes to the place where @seq is; @seq, if that is not before @top. */
uint64_t ddr_sm_seq_behind(uint64_t seq, uint64_t top);
/* Does the operation leave the region as it is, and is that durable? */
bool ddr_sm_map_holds(const struct ddr_sm *sm, uint64_t region, uint32_t op);
/* Adds a region to the MAP_SET that is being put together; false: no room in it, or one is on its way. */
bool ddr_sm_map_want(struct ddr_sm *sm, uint64_t region, uint32_t op);
bool ddr_sm_map_idle(const struct ddr_sm *sm);
/* Is parity known to be right in all of these blocks? */
bool ddr_sm_parity_known(const struct ddr_sm *sm, uint64_t start, uint64_t count);

/* ---- sm_bits.c ----------------------------------------------------------------- */

void ddr_sm_bits_pump(struct ddr_sm *sm);
void ddr_sm_bits_changed(struct ddr_sm *sm, uint64_t region);
void ddr_sm_bits_all(struct ddr_sm *sm);
/* What its table does not have, the kernel is told nothing of. */
uint64_t ddr_sm_kernel_regions(const struct ddr_sm *sm);

/* ---- sm_dirty.c ---------------------------------------------------------------- */

void ddr_sm_mark(struct ddr_sm *sm, uint64_t region);
/* Likewise for a repair: until a writer of ours, or a resync, needs the mark as well, the log names it as that. */
void ddr_sm_mark_repair(struct ddr_sm *sm, uint64_t region);
/* Is the region marked on all members in sync, as what it is marked for? */
bool ddr_sm_mark_durable(const struct ddr_sm *sm, uint64_t region);
void ddr_sm_unmark(struct ddr_sm *sm, uint64_t region);
/* What is in the region may have wrong parity: it stays marked until a resync of it, begun after this, has ended. */
void ddr_sm_need_resync(struct ddr_sm *sm, uint64_t region);
/* A repair in the region did not end: it is looked at as a whole. It stays marked until then, or until it is to be resynced (drop). */
void ddr_sm_look(struct ddr_sm *sm, uint64_t region);
void ddr_sm_look_drop(struct ddr_sm *sm, uint64_t region);

/* ---- sm_grant.c ---------------------------------------------------------------- */

/* START took effect: our slot is ours, on disk. */
void ddr_sm_started(struct ddr_sm *sm);
void ddr_sm_lock(struct ddr_sm *sm, const struct ddr_rec *rec);
void ddr_sm_grant_pump(struct ddr_sm *sm);
/* After loading and the kernel's declaration: what is held, what must be resynced. */
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
uint64_t ddr_sm_marks(const struct ddr_sm *sm);

/* ---- sm_apply.c ---------------------------------------------------------------- */

void ddr_sm_mark_apply(struct ddr_super *sb, uint32_t mark);
/*
 * @sb, which has its new generation already, becomes what the change makes of it: @set (operation 0: none), members that are
 * @faulty or @missing from now on, @slots that go to the owners in @owner.
 */
void ddr_shared_apply(const struct ddr_sm_shared *s, struct ddr_super *sb, const struct ddr_msg_member_set *set, uint32_t faulty, uint32_t missing,
		  uint64_t slots, const uint32_t *owner);
/* Does every role have a holder that is in sync? */
bool ddr_sm_none_missing(const struct ddr_super *sb);

/* ---- sm_set.c ------------------------------------------------------------------ */

/* Not only how far something is, or what is done with reads. */
bool ddr_sm_changes_members(const struct ddr_msg_member_set *set);
/* Does it put a member in another place or state? */
bool ddr_sm_set_moves(const struct ddr_msg_member_set *set);
/* Asks for a change of the members, if it fits and none is under way; true: it was sent. */
bool ddr_sm_ask(struct ddr_sm *sm, const struct ddr_msg_member_set *set);

/* ---- sm_table.c ---------------------------------------------------------------- */

/* The member whose device our kernel has at the position, one that goes included; or DDR_NO_MEMBER. @absent: our table has none there; who should be. */
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
/* Another node asks for a range: there is work that our use may be in the way of. */
void ddr_sm_use_asked(struct ddr_sm *sm);
void ddr_sm_use_message(struct ddr_sm *sm, const struct ddr_msg *msg);
void ddr_sm_use_pump(struct ddr_sm *sm);
void ddr_sm_use_view(struct ddr_sm *sm);

/* ---- sm_ex.c ------------------------------------------------------------------- */

/* What follows here from a message that was delivered, and from what it has changed. */
void ddr_sm_ex_requested(struct ddr_sm *sm, const struct ddr_msg *msg, enum ddr_ex_answer answer, const struct ddr_sm_ex *x);
void ddr_sm_ex_released(struct ddr_sm *sm, const struct ddr_msg *msg, const struct ddr_sm_ex *x);
void ddr_sm_drained(struct ddr_sm *sm, const struct ddr_rec *rec);
/* They were cancelled: their owners ask again. */
void ddr_sm_ex_cancelled(struct ddr_sm *sm, const struct ddr_ended *ended);
void ddr_sm_ex_view(struct ddr_sm *sm);
/* The state is forgotten: its ranges are not in force for us, but their owners may be at work in them. */
void ddr_sm_ex_forget(struct ddr_sm *sm);
/* Another state is here: ranges that it has too go on as they are in our kernel. */
void ddr_sm_ex_adopt(struct ddr_sm *sm);
void ddr_sm_ex_detached(struct ddr_sm *sm);
/* A free range of ours, filled, or NULL: none is free, or it would overlap one in force. */
struct ddr_sm_range *ddr_sm_range_new(struct ddr_sm *sm, uint64_t start, uint64_t count, uint32_t limit);
uint32_t ddr_sm_ranges_used(const struct ddr_sm *sm);
/* These ranges of the node are over. */
void ddr_sm_ex_ended(struct ddr_sm *sm, uint32_t node, const struct ddr_ended *ended);
/* The node is gone, or begins anew. */
void ddr_sm_ex_gone(struct ddr_sm *sm, uint32_t node);
bool ddr_sm_ex_may_enable(const struct ddr_sm *sm);
struct ddr_sm_range *ddr_sm_range_find(struct ddr_sm *sm, uint32_t id, enum ddr_range_state state);
/* Is a part of it in the range of a node? */
bool ddr_sm_ex_in_force(const struct ddr_sm *sm, uint64_t start, uint64_t count);
/* It is not in force any more: our kernel lets its writers in again. */
void ddr_sm_ex_over(struct ddr_sm *sm, const struct ddr_sm_ex *x);
/* Ranges that our state does not have are over, unless it lacks them because their owner was elsewhere: that one is lost then. */
void ddr_sm_stale_release(struct ddr_sm *sm);
void ddr_sm_void_serve(struct ddr_sm *sm);
void ddr_sm_ex_serve(struct ddr_sm *sm, struct ddr_sm_ex *x);

/* ---- sm_fix.c ------------------------------------------------------------------ */

/* Something is wrong in these blocks (what is beyond their region is left out). False: nothing will be done about it now. @what: DDR_FIX_*, and DDR_SM_FIX_OF_VERIFY. */
#define DDR_SM_FIX_OF_VERIFY	0x80000000u	/* verify counts what it finds, and waits for its end */
bool ddr_sm_fix_new(struct ddr_sm *sm, uint64_t start, uint64_t count, uint32_t what);
/* Is something being put right in these blocks? */
bool ddr_sm_fix_pending(const struct ddr_sm *sm, uint64_t start, uint64_t count);
/* Is there a place for another fix? */
bool ddr_sm_fix_room(const struct ddr_sm *sm);
bool ddr_sm_fix_possible(const struct ddr_sm *sm, const struct ddr_sm_range *r);
void ddr_sm_fix_range(struct ddr_sm *sm, struct ddr_sm_range *r, bool done);
void ddr_sm_fix_pump(struct ddr_sm *sm);
bool ddr_sm_fixes_idle(const struct ddr_sm *sm);
/* The lowest block that verify has found wrong and that is not dealt with; @block, if that is lower. */
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
/* A range ended: what it did counts (@done), or must be done again. */
void ddr_sm_work_range(struct ddr_sm *sm, struct ddr_sm_range *r, bool done);
void ddr_sm_works_mapped(struct ddr_sm *sm);
void ddr_sm_works_restart(struct ddr_sm *sm);
bool ddr_sm_works_idle(const struct ddr_sm *sm);
/* Blocks: of what is resynced after a crash, or else of what the background computes. */
void ddr_sm_resync_progress(const struct ddr_sm *sm, uint64_t *done, uint64_t *total);

/* ---- sm_rebuild.c -------------------------------------------------------------- */

void ddr_sm_rebuild_pump(struct ddr_sm *sm);
void ddr_sm_folded(struct ddr_sm *sm, uint32_t sender);
/* Nobody has folded any more: a member begins to be rebuilt. What is dirty here is folded anew, and our log goes to it. */
void ddr_sm_unfolded(struct ddr_sm *sm);
/* The MAP_SET with what we folded is durable. */
void ddr_sm_fold_mapped(struct ddr_sm *sm);
/* The cursor in the superblock counts, whatever was done since. */
void ddr_sm_rebuild_anew(struct ddr_sm *sm);
void ddr_sm_rebuild_range(struct ddr_sm *sm, const struct ddr_sm_range *r, bool done);
/* What was sent in the ring before and not delivered. */
void ddr_sm_rebuild_view(struct ddr_sm *sm);
/* The block that its rebuild has come to, as far as this node knows. 0: nobody is rebuilt. */
uint64_t ddr_sm_rebuild_at(const struct ddr_sm *sm);

/* ---- sm_verify.c --------------------------------------------------------------- */

void ddr_sm_verify_message(struct ddr_sm *sm, const struct ddr_msg *msg, bool changed, enum ddr_event told);
void ddr_sm_op_verify(struct ddr_sm *sm, const struct ddr_input *in);
/* A read without a range has ended; its io has an index from DDR_SM_RANGES on. */
void ddr_sm_scan_done(struct ddr_sm *sm, const struct ddr_input *in);
/* Blocks below which all was looked at, as far as this node knows. */
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
void ddr_sm_present(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_op_seek(struct ddr_sm *sm, uint32_t member);
/* ADD, REMOVE: one of them at a time. */
void ddr_sm_op_member(struct ddr_sm *sm, uint32_t op, const struct ddr_input *in);
/* REPLACE: waits until all nodes see the spare; its REMOVE ends that, and so does a REPLACE that says to forget it. */
void ddr_sm_op_replace(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_op_policy(struct ddr_sm *sm, uint32_t policy);
void ddr_sm_seek(struct ddr_sm *sm, uint32_t sender, uint32_t member);
void ddr_sm_seen(struct ddr_sm *sm, uint32_t sender);
/* The members went: what this node has open of them are devices of members that are out. */
void ddr_sm_members_gone(struct ddr_sm *sm, uint32_t members);
/* Our superblock is another one than it was: the device that is open for a member may be one that was removed, or stand in the wrong place of our kernel's table. */
void ddr_sm_members_known(struct ddr_sm *sm, const struct ddr_super *was);
void ddr_sm_seek_status(const struct ddr_sm *sm, struct ddr_sm_status *st);

/* ---- sm_grow.c ----------------------------------------------------------------- */

void ddr_sm_op_grow(struct ddr_sm *sm, uint64_t blocks);
void ddr_sm_room_known(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_grow_prepared(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_grow_told(struct ddr_sm *sm, const struct ddr_msg *msg, const char *why);
void ddr_sm_room_told(struct ddr_sm *sm, uint32_t sender, bool counts);
uint64_t ddr_sm_grow_room(const struct ddr_sm *sm);	/* blocks that this node has room for, as far as it has looked */
/* What all have said is judged; as ddr_sm_settle(). */
void ddr_sm_grow_settle(struct ddr_sm *sm);
/* The members changed, by what all have agreed on. */
void ddr_sm_grow_members(struct ddr_sm *sm);
void ddr_sm_grown(struct ddr_sm *sm, uint64_t before);
void ddr_sm_grow_view(struct ddr_sm *sm);
void ddr_sm_grow_forget(struct ddr_sm *sm);
/* The writer's members are ready for the change that it is about to write, if that is one of the size. */
bool ddr_sm_grow_prepare(struct ddr_sm *sm);
/* Are the devices here large enough for the array as it is now, and is our kernel's table not longer? */
bool ddr_sm_grow_may_start(struct ddr_sm *sm);
void ddr_sm_grow_pump(struct ddr_sm *sm);

/* ---- sm_super.c ---------------------------------------------------------------- */

/* Writes the superblocks of the change under way. */
void ddr_sm_supers_write(struct ddr_sm *sm);
void ddr_sm_sb_done(struct ddr_sm *sm, const struct ddr_input *in);
/* The writer is another one: what the last left on the disks is where it goes on. */
void ddr_sm_member_takeover(struct ddr_sm *sm, const struct ddr_super *disk);

/* ---- sm_map.c ------------------------------------------------------------------ */

/* MAP_SET changes the map region by region: what follows from each is done at once. */
void ddr_sm_map_set(struct ddr_sm *sm, const struct ddr_msg *msg);
void ddr_sm_map_told(struct ddr_sm *sm, const struct ddr_msg *msg);
void ddr_sm_map_done(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_map_pump(struct ddr_sm *sm);
/* A new writer has read the map: goes on telling the group what it lacks; then the writer is ready. */
void ddr_sm_map_merge(struct ddr_sm *sm);
void ddr_sm_accept(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_map_view(struct ddr_sm *sm);

/* ---- sm_member.c --------------------------------------------------------------- */

/* A member fails that is to take over the role of another one now, or a node dies: what it was writing may differ on the two. So WHOLE is not to be. */
void ddr_sm_whole_void(struct ddr_sm *sm);
/* ... it was called off: what this node has written of it is not to be. */
void ddr_sm_whole_voided(struct ddr_sm *sm);
void ddr_sm_member_failed(struct ddr_sm *sm, const struct ddr_msg *msg, const struct ddr_order_fail *n);
void ddr_sm_member_done(struct ddr_sm *sm, const struct ddr_msg *msg, const struct ddr_order_done *n);
void ddr_sm_member_pump(struct ddr_sm *sm);
void ddr_sm_member_view(struct ddr_sm *sm);
void ddr_sm_member_settle(struct ddr_sm *sm);
void ddr_sm_op_fail(struct ddr_sm *sm, uint32_t member);
void ddr_sm_member_set(struct ddr_sm *sm, const struct ddr_msg *msg, bool taken);

/* ---- sm_recover.c -------------------------------------------------------------- */

void ddr_sm_recover_told(struct ddr_sm *sm, const struct ddr_msg *msg, enum ddr_recover_answer answer);
void ddr_sm_recover_pump(struct ddr_sm *sm);
void ddr_sm_recover_resend(struct ddr_sm *sm);
void ddr_sm_slot_done(struct ddr_sm *sm, const struct ddr_input *in);
bool ddr_sm_slot_written(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_slot_load(struct ddr_sm *sm, uint32_t index, const uint8_t *payload, uint64_t seq);
/* ... names the instance of its owner. */
void ddr_sm_slot_instance(struct ddr_sm *sm, uint64_t seq, const uint8_t boot_id[16], uint64_t cookie);
/* Our slot's log was given by SLOT_READ, or must be asked for. */
void ddr_sm_read_pump(struct ddr_sm *sm);

/* ---- sm_leave.c ---------------------------------------------------------------- */

void ddr_sm_op_leave(struct ddr_sm *sm);
/* Has the view nodes beside this one that could begin, or leave? */
bool ddr_sm_others_move(const struct ddr_sm *sm, uint32_t id);
void ddr_sm_leave_told(struct ddr_sm *sm, const struct ddr_msg *msg, bool leaves);
void ddr_sm_clean_pump(struct ddr_sm *sm);
/* Is that all that is marked in our slot? Not before it was read. */
bool ddr_sm_marks_known(const struct ddr_sm *sm);
bool ddr_sm_at_rest(const struct ddr_sm *sm);
void ddr_sm_leave_pump(struct ddr_sm *sm);

/* ---- sm_nodes.c ---------------------------------------------------------------- */

/* Chooses the writer anew if the last one is gone for good, or proven dead if it is not known who it was. In the total order only. */
void ddr_sm_writer_choose(struct ddr_sm *sm);
/* ... it was: what we knew of the disks as the writer counts no more. */
void ddr_sm_writer_chosen(struct ddr_sm *sm, enum ddr_writer_news news);
/* The place of a node in the table, made if need be. NULL: all 64 are taken by nodes that are here or lost. */
struct ddr_sm_node *ddr_sm_place(struct ddr_sm *sm, uint32_t id);
/* This node has none. */
void ddr_sm_no_place(struct ddr_sm *sm);
/* The node is lost: from now on it counts as one that has not answered. */
void ddr_sm_lose(struct ddr_sm *sm, struct ddr_sm_node *n, bool absent);
/* It took part, and is not in the view that was agreed on: it left cleanly, or is lost. */
void ddr_sm_departed(struct ddr_sm *sm, struct ddr_sm_node *n);

/* ---- sm_fence.c ---------------------------------------------------------------- */

/* Nodes were proven dead. */
void ddr_sm_nodes_dead(struct ddr_sm *sm, const struct ddr_order_dead *dead, uint32_t how);
void ddr_sm_fence_answer(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_fence_ack(struct ddr_sm *sm, uint32_t node);
void ddr_sm_fence_told(struct ddr_sm *sm, const struct ddr_msg *msg, enum ddr_fenced_answer answer, const struct ddr_order_dead *dead);
void ddr_sm_fence_pump(struct ddr_sm *sm);
void ddr_sm_fence_resend(struct ddr_sm *sm);

/* ---- sm_settle.c --------------------------------------------------------------- */

/* What was sent and not delivered before a change of the view is refused after it: it is sent again. */
void ddr_sm_resend(struct ddr_sm *sm);
/*
 * Before whatever comes next in the total order: what all have acknowledged until now is
 * settled, on every node, before the next event may change who has to acknowledge.
 */
void ddr_sm_settle(struct ddr_sm *sm);

/* ---- sm_join.c ----------------------------------------------------------------- */

void ddr_sm_state(struct ddr_sm *sm, const struct ddr_msg *msg);
void ddr_sm_join_view(struct ddr_sm *sm);
void ddr_sm_join_pump(struct ddr_sm *sm);
void ddr_sm_reloaded(struct ddr_sm *sm, const struct ddr_input *in);
/* The state that was built from the disks is not what they hold: nobody has one. */
void ddr_sm_void(struct ddr_sm *sm);
/* We have no state any more, and have not begun. The view stays. */
void ddr_sm_forget(struct ddr_sm *sm);

/* ---- sm_cluster.c -------------------------------------------------------------- */

bool ddr_sm_view_valid(const struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_cluster_view(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_quorum(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_hello(struct ddr_sm *sm, const struct ddr_msg *msg);
void ddr_sm_cluster_pump(struct ddr_sm *sm);
void ddr_sm_start_told(struct ddr_sm *sm, const struct ddr_msg *msg, enum ddr_start_answer answer, const struct ddr_order_start *n);
void ddr_sm_nodes_status(const struct ddr_sm *sm, struct ddr_sm_status *st);

/* ---- sm_kernel.c --------------------------------------------------------------- */

void ddr_sm_attached(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_detached(struct ddr_sm *sm);
void ddr_sm_record(struct ddr_sm *sm, const struct ddr_rec *rec);
void ddr_sm_enable_pump(struct ddr_sm *sm);

/* ---- sm_view.c ----------------------------------------------------------------- */

void ddr_sm_view(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_fenced(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_message(struct ddr_sm *sm, const struct ddr_input *in);
void ddr_sm_start_pump(struct ddr_sm *sm);

#endif
