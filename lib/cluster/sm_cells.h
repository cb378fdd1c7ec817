/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Transition tables of the small machines: state, event, next state. Transitions that are not listed are impossible: ddr_sm_move()
 * reports a bug, and the state stays. The code changes these states in no other way, except that it may reset the whole object.
 *
 * These lists generate the states, the events, the tables, the names of cells that the simulator has not reached (ddrsim --cells),
 * and the tables of doc/protocol.md (tests/tools/cells.py prints them, a test compares).
 *
 * S(state), E(event), C(machine, state, event, next state, what happens)
 *
 * Must never: be included by anything but the state machine's own files.
 */
#ifndef DDR_LIB_SM_CELLS_H
#define DDR_LIB_SM_CELLS_H

#include <stdint.h>

/* A range of this node, from its request to the end of its release. */
#define DDR_STATES_RANGE(S) \
	S(FREE) \
	S(ASK) \
	S(ASKED) \
	S(ACKS) \
	S(JOB) \
	S(HELD) \
	S(RELEASE) \
	S(RELEASED)
#define DDR_EVENTS_RANGE(E) \
	E(WANTED) \
	E(UNWANTED) \
	E(SENT) \
	E(REFUSED) \
	E(IN_FORCE) \
	E(CANCELLED) \
	E(ALL_ACKED) \
	E(UNDONE) \
	E(ENDED) \
	E(MEMBER_FAILED) \
	E(JUDGED) \
	E(RELEASED) \
	E(NEW_VIEW) \
	E(ARRAY_FAILED)
#define DDR_CELLS_RANGE(C) \
	C(RANGE, FREE, WANTED, ASK, "a work, a fix, a mismatch or the rebuild needs these blocks exclusively") \
	C(RANGE, ASK, UNWANTED, FREE, "no request was sent yet, and the range is no longer needed") \
	C(RANGE, ASK, SENT, ASKED, "EX_REQUEST was sent") \
	C(RANGE, ASK, ARRAY_FAILED, RELEASE, "no job will run") \
	C(RANGE, ASKED, REFUSED, ASK, "it overlaps a range in force, members are changing, or all places are taken: it is requested again") \
	C(RANGE, ASKED, IN_FORCE, ACKS, "every kernel drains the blocks") \
	C(RANGE, ASKED, NEW_VIEW, ASK, "the request was not delivered in the previous ring") \
	C(RANGE, ACKS, CANCELLED, ASK, "a member failed before all had acknowledged: it is requested again, with another number") \
	C(RANGE, ACKS, ALL_ACKED, JOB, "our kernel has drained as well: the job begins") \
	C(RANGE, ACKS, UNDONE, RELEASE, "the job is impossible with the members that are left, or our kernel was lost before it began") \
	C(RANGE, ACKS, ARRAY_FAILED, RELEASE, "no job will run") \
	C(RANGE, JOB, ENDED, RELEASE, "its result counts, or the job is repeated: its owner decides") \
	C(RANGE, JOB, MEMBER_FAILED, HELD, "the nodes first agree on the failure of the member") \
	C(RANGE, HELD, JUDGED, RELEASE, "all nodes know that the member is out, or that it stays") \
	C(RANGE, HELD, ARRAY_FAILED, RELEASE, "none of its writes can still land") \
	C(RANGE, RELEASE, SENT, RELEASED, "EX_RELEASE was sent") \
	C(RANGE, RELEASE, ARRAY_FAILED, FREE, "our kernel lets its writers continue, whatever the other nodes do") \
	C(RANGE, RELEASED, RELEASED, FREE, "the release was delivered: every kernel lets its writers continue") \
	C(RANGE, RELEASED, NEW_VIEW, RELEASE, "the release was not delivered in the previous ring")

/* A region in resync. */
#define DDR_STATES_WORK(S) \
	S(FREE) \
	S(MARK) \
	S(RUN) \
	S(FLUSH) \
	S(MAP) \
	S(MAP_SENT)
#define DDR_EVENTS_WORK(E) \
	E(BEGUN) \
	E(MARKED) \
	E(AGAIN) \
	E(SKIPPED) \
	E(STOPPED) \
	E(ALL_RUN) \
	E(FLUSHED) \
	E(ASKED) \
	E(KNOWN)
#define DDR_CELLS_WORK(C) \
	C(WORK, FREE, BEGUN, MARK, "the region is marked in the dirty log") \
	C(WORK, MARK, MARKED, RUN, "the mark is durable: ranges begin") \
	C(WORK, MARK, STOPPED, FREE, "the array stops, or a member is missing and nothing was in flight there") \
	C(WORK, RUN, AGAIN, MARK, "members changed, a range failed, or a bad sector was found: the whole region is repeated") \
	C(WORK, RUN, SKIPPED, FREE, "background work found a bad sector: the region is done later") \
	C(WORK, RUN, STOPPED, FREE, "as in MARK, once its ranges have ended") \
	C(WORK, RUN, ALL_RUN, FLUSH, "all its ranges have ended: all members are flushed") \
	C(WORK, FLUSH, FLUSHED, MAP, "a flush that was issued afterwards has succeeded") \
	C(WORK, MAP, ASKED, MAP_SENT, "a change of the map is requested for the region") \
	C(WORK, MAP, KNOWN, FREE, "the map says so already; the mark may be cleared") \
	C(WORK, MAP, AGAIN, MARK, "members changed: the whole region is repeated") \
	C(WORK, MAP_SENT, AGAIN, MARK, "the same") \
	C(WORK, MAP_SENT, KNOWN, FREE, "the map on the disks says so; the mark may be cleared")

/* The repair of a place. */
#define DDR_STATES_FIX(S) \
	S(FREE) \
	S(WAIT) \
	S(MARK) \
	S(RUN)
#define DDR_EVENTS_FIX(E) \
	E(FOUND) \
	E(REFUSED) \
	E(ALONE) \
	E(MARKED) \
	E(ENDED)
#define DDR_CELLS_FIX(C) \
	C(FIX, FREE, FOUND, WAIT, "a read, verify, or an unfinished repair found the blocks") \
	C(FIX, WAIT, REFUSED, FREE, "the other members are not reliable there now") \
	C(FIX, WAIT, ALONE, MARK, "no other work is in the region: it is marked") \
	C(FIX, WAIT, ENDED, FREE, "it is no longer possible, or the array stops") \
	C(FIX, MARK, MARKED, RUN, "the mark is durable: ranges begin") \
	C(FIX, MARK, ENDED, FREE, "as in WAIT") \
	C(FIX, RUN, ENDED, FREE, "all was checked, or the repair was given up: the next one that finds the blocks starts again")

/* The write of a block of our dirty log, or of the region map. */
#define DDR_STATES_WRITE(S) \
	S(IDLE) \
	S(FLYING) \
	S(HELD)
#define DDR_EVENTS_WRITE(E) \
	E(BEGUN) \
	E(DONE) \
	E(NO_SPACE) \
	E(MEMBER_FAILED) \
	E(OUT)
#define DDR_CELLS_WRITE(C) \
	C(WRITE, IDLE, BEGUN, FLYING, "the current content is written to all members that take writes") \
	C(WRITE, FLYING, DONE, IDLE, "it is durable") \
	C(WRITE, FLYING, NO_SPACE, IDLE, "the write does not count: it is repeated at the same one of the two places") \
	C(WRITE, FLYING, MEMBER_FAILED, HELD, "it does not count until that member is out") \
	C(WRITE, HELD, OUT, IDLE, "all nodes know that the member is out: it is durable")

/* Our part in a change of the superblocks. */
#define DDR_STATES_TRANS(S) \
	S(IDLE) \
	S(WRITE) \
	S(DONE_SENT)
#define DDR_EVENTS_TRANS(E) \
	E(WANTED) \
	E(WRITTEN) \
	E(NEW_VIEW) \
	E(CALLED_OFF) \
	E(DONE)
#define DDR_CELLS_TRANS(C) \
	C(TRANS, IDLE, WANTED, WRITE, "this node is the writer, and no change waits for acknowledgements") \
	C(TRANS, IDLE, CALLED_OFF, IDLE, "another node writes it") \
	C(TRANS, IDLE, DONE, IDLE, "another node has written it; each node acknowledges when its kernel has applied it") \
	C(TRANS, WRITE, WRITTEN, DONE_SENT, "the superblocks are durable, MEMBER_DONE was sent") \
	C(TRANS, WRITE, CALLED_OFF, WRITE, "a member does not take over a role after all: other superblocks replace these") \
	C(TRANS, WRITE, DONE, IDLE, "the previous writer had written it") \
	C(TRANS, DONE_SENT, NEW_VIEW, WRITE, "MEMBER_DONE was not delivered in the previous ring: it is sent again") \
	C(TRANS, DONE_SENT, CALLED_OFF, WRITE, "MEMBER_DONE will change nothing; other superblocks replace these") \
	C(TRANS, DONE_SENT, DONE, IDLE, "delivered; each node acknowledges when its kernel has applied it")

#define DDR_MACHINES(M) M(RANGE) M(WORK) M(FIX) M(WRITE) M(TRANS)

/* The prefixes that the code uses. */
#define DDR_STATE_R(name)	DDR_R_##name,
#define DDR_STATE_WK(name)	DDR_WK_##name,
#define DDR_STATE_FX(name)	DDR_FX_##name,
#define DDR_STATE_W(name)	DDR_W_##name,
#define DDR_STATE_T(name)	DDR_T_##name,
enum ddr_range_state { DDR_STATES_RANGE(DDR_STATE_R) };
enum ddr_work_state { DDR_STATES_WORK(DDR_STATE_WK) };
enum ddr_fix_state { DDR_STATES_FIX(DDR_STATE_FX) };
enum ddr_write_state { DDR_STATES_WRITE(DDR_STATE_W) };
enum ddr_trans_state { DDR_STATES_TRANS(DDR_STATE_T) };

#define DDR_EVENT_R(name)	DDR_RE_##name,
#define DDR_EVENT_WK(name)	DDR_WKE_##name,
#define DDR_EVENT_FX(name)	DDR_FXE_##name,
#define DDR_EVENT_W(name)	DDR_WE_##name,
#define DDR_EVENT_T(name)	DDR_TE_##name,
enum ddr_range_event { DDR_EVENTS_RANGE(DDR_EVENT_R) };
enum ddr_work_event { DDR_EVENTS_WORK(DDR_EVENT_WK) };
enum ddr_fix_event { DDR_EVENTS_FIX(DDR_EVENT_FX) };
enum ddr_write_event { DDR_EVENTS_WRITE(DDR_EVENT_W) };
enum ddr_trans_event { DDR_EVENTS_TRANS(DDR_EVENT_T) };

#define DDR_MACHINE(name)	DDR_MACHINE_##name,
enum ddr_machine { DDR_MACHINES(DDR_MACHINE) };

struct ddr_sm;

/* Returns the next state by the machine's table, and counts the cell as reached. No such cell: reports a bug and returns @state. */
uint32_t ddr_sm_move(struct ddr_sm *sm, enum ddr_machine machine, uint32_t state, uint32_t event);

#endif
