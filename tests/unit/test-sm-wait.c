// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Several nodes: what a node must not do before another one has done its part, and what continues although another never will. The
 * simulator found each of these cases; they are tests because a seed finds one only once in hundreds of runs.
 */
#include "sm-cluster.h"

static int setup(void **state)
{
	return cx_setup(state, 3);
}

static void lock(struct cx *c, uint32_t i, uint64_t region)
{
	cx_record(c, i, (struct ddr_rec){ .type = DDR_K_LOCK, .seq = 3, .start = region, .count = 1 });
}

static void member_fails(struct cx *c, uint32_t i)
{
	cx_record(c, i, (struct ddr_rec){ .type = DDR_K_ERROR, .seq = 5, .member = 2, .status = DDR_EC_IO, .arg[0] = DDR_OP_WRITE });
}

/* Another boot of the machine: its kernel holds nothing. */
static void reboot(struct cx *c, uint32_t i)
{
	c->node[i].cookie++;
	cx_start(c, i, 0, 0);
}

/* The kernel's answer to every record of the type that waits for one. */
static void kernel_answers(struct cx *c, uint32_t i, uint32_t type)
{
	struct cx_node *n = &c->node[i];

	for (uint32_t k = 0; k < n->n; k++)
		if (n->open[k] && n->log[k].type == DDR_OUT_KERNEL && n->log[k].rec.type == type)
			cx_kernel_answer(c, n, k);
}

static bool sent(const struct cx_node *n, enum ddr_msg_type type, struct ddr_msg *msg)
{
	for (uint32_t k = n->n; k-- > 0;)
		if (n->log[k].type == DDR_OUT_MCAST && !ddr_msg_decode(n->log[k].msg, n->log[k].msg_len, msg) && msg->type == type)
			return true;
	return false;
}

static int events(const struct cx_node *n, enum ddr_event event)
{
	int found = 0;

	for (uint32_t k = 0; k < n->n; k++)
		found += n->log[k].type == DDR_OUT_EVENT && n->log[k].event == event;
	return found;
}

/* Region 0 is clean, by the map and by all kernels. */
static void one_is_clean(struct cx *c)
{
	lock(c, 0, 0);
	cx_settle(c);
	cx_record(c, 0, (struct ddr_rec){ .type = DDR_K_CLOSED, .start = 0, .count = 1 });
	cx_settle(c);
	cx_tick(c, 1000);
	cx_tick(c, 1000);
	assert_int_equal(cx_status(&c->node[0]).clean, 1);
	cx_forget(c);
}

/* ---- the writer ---------------------------------------------------------------- */

/* A group that starts over: an absent node may have been the writer, and its write may still land. */
static void nobody_writes_while_an_owner_is_absent(void **state)
{
	struct cx *c = *state;
	uint64_t seq = c->sb.seq;

	cx_down(c);
	cx_start(c, 0, 0, 0);
	cx_start(c, 1, 0, 0);
	cx_view(c, 3, 7, true);
	cx_settle(c);
	assert_int_equal(cx_sees(&c->node[0], 3).state, DDR_NS_SUSPECT);
	assert_int_equal(cx_sees(&c->node[0], 1).state, DDR_NS_ACTIVE);
	assert_int_equal(cx_find(&c->node[0], DDR_OUT_SB_WRITE, 0), -1);
	c->answers = CX_ALL | CX_FENCE;
	cx_tick(c, 31000);
	assert_true(cx_status(&c->node[0]).joined && cx_status(&c->node[1]).joined);
	assert_true(c->sb.seq > seq);
}

/*
 * The same, and a node that takes part on one side of a split may be the writer there as soon as the absent one is proven dead. So
 * the other side, where the absent one is proven dead too, has no writer until the first side is as well.
 */
static void nobody_writes_while_a_starter_is_lost(void **state)
{
	struct cx *c = *state;
	struct cx_node *n = &c->node[1];

	cx_down(c);
	cx_start(c, 0, 0, 0);
	cx_start(c, 1, 0, 0);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	cx_tick(c, 31000);
	assert_int_equal(cx_sees(n, 1).state, DDR_NS_ACTIVE);
	cx_view(c, 1, 1, false);
	cx_view(c, 2, 6, true);
	cx_settle(c);
	cx_tick(c, 31000);
	assert_int_equal(cx_sees(n, 1).state, DDR_NS_FENCING);
	for (uint32_t i = 0; i < n->n; i++)
		if (n->open[i] && n->log[i].type == DDR_OUT_FENCE && n->log[i].node == 3)
			cx_fenced(c, n, i, 0);
	cx_settle(c);
	assert_int_equal(cx_sees(n, 3).state, DDR_NS_RECOVERING);
	assert_int_equal(cx_find(n, DDR_OUT_SB_WRITE, 0), -1);
	cx_fenced(c, n, cx_open(n, DDR_OUT_FENCE), 0);
	cx_settle(c);
	assert_true(cx_find(n, DDR_OUT_SB_WRITE, 0) >= 0);
}

/* A node that has said that it leaves writes no more, not even what its own leaving makes necessary. */
static void a_writer_that_left_writes_no_more(void **state)
{
	struct cx *c = *state;

	cx_forget(c);
	cx_op(c, 0, DDR_IN_K_DETACHED, 0);
	cx_op(c, 0, DDR_IN_OP_LEAVE, 0);
	cx_settle(c);
	assert_true(cx_event(&c->node[0], DDR_EV_LEFT) >= 0);
	assert_int_equal(cx_find(&c->node[0], DDR_OUT_SB_WRITE, 0), -1);
	cx_kill(c, 0);
	cx_view(c, 6, 7, true);
	cx_settle(c);
	assert_true(cx_find(&c->node[1], DDR_OUT_SB_WRITE, 0) >= 0);
	assert_int_equal(c->sb.slot_node[0], 0);
}

/* Between its LEAVE and the delivery of that a member fails: the change is the next writer's, since nobody would fence this node. */
static void a_writer_that_leaves_begins_nothing(void **state)
{
	struct cx *c = *state;
	struct ddr_msg msg;

	cx_forget(c);
	c->answers = CX_KERNEL;
	member_fails(c, 1);
	cx_op(c, 0, DDR_IN_K_DETACHED, 0);
	cx_op(c, 0, DDR_IN_OP_LEAVE, 0);
	assert_true(sent(&c->node[0], DDR_M_LEAVE, &msg));
	cx_deliver(c, &c->node[0], NULL);	/* MEMBER_FAIL */
	assert_int_equal(cx_find(&c->node[0], DDR_OUT_SB_WRITE, 0), -1);
	c->answers = CX_ALL;
	cx_settle(c);
	assert_true(cx_event(&c->node[0], DDR_EV_LEFT) >= 0);
	assert_int_equal(cx_find(&c->node[0], DDR_OUT_SB_WRITE, 0), -1);
	cx_kill(c, 0);
	cx_view(c, 6, 7, true);
	cx_settle(c);
	assert_int_equal(cx_status(&c->node[1]).member_state[2], DDR_MEMBER_FAULTY);
}

/* ---- leaving ------------------------------------------------------------------- */

static void goes(struct cx *c, uint32_t i)
{
	cx_op(c, i, DDR_IN_K_DETACHED, 0);
	cx_op(c, i, DDR_IN_OP_LEAVE, 0);
}

/* Its kernel is gone, and a write of its log is not: that could still land when its slot belongs to another node. */
static void a_leaving_node_waits_for_its_writes(void **state)
{
	struct cx *c = *state;
	struct ddr_msg msg;

	cx_forget(c);
	c->answers = CX_MSG | CX_KERNEL;
	lock(c, 1, 2);
	cx_op(c, 1, DDR_IN_K_DETACHED, 0);
	cx_op(c, 1, DDR_IN_OP_LEAVE, 0);
	cx_settle(c);
	assert_false(sent(&c->node[1], DDR_M_LEAVE, &msg));
	cx_done(c, &c->node[1], cx_open(&c->node[1], DDR_OUT_LOG_WRITE));
	cx_settle(c);
	assert_true(sent(&c->node[1], DDR_M_LEAVE, &msg));
	assert_int_equal(msg.leave.dirty, 1);
}

/*
 * Note 6: no longer than for a write that was abandoned when its time was over. Otherwise nobody would wait for the write, nor fence
 * the node.
 */
static void a_leaving_node_waits_for_abandoned_writes(void **state)
{
	struct cx *c = *state;
	struct ddr_msg msg;

	cx_forget(c);
	ddr_sm_landing(c->node[1].sm, true);
	cx_op(c, 1, DDR_IN_OP_CLEAN, 0);
	cx_settle(c);
	goes(c, 1);
	cx_settle(c);
	cx_tick(c, 60000);
	assert_false(sent(&c->node[1], DDR_M_LEAVE, &msg));
	assert_int_equal(cx_event(&c->node[1], DDR_EV_LEFT), -1);
	ddr_sm_landing(c->node[1].sm, false);
	cx_tick(c, 100);
	assert_true(sent(&c->node[1], DDR_M_LEAVE, &msg));
	assert_true(cx_event(&c->node[1], DDR_EV_LEFT) >= 0);
}

/* The same node does not delay the others meanwhile: a kernel that is gone has nothing to obey. */
static void a_leaving_node_acknowledges_member_failures(void **state)
{
	struct cx *c = *state;

	cx_forget(c);
	c->answers = CX_MSG | CX_KERNEL;
	lock(c, 1, 2);
	cx_op(c, 1, DDR_IN_K_DETACHED, 0);
	cx_op(c, 1, DDR_IN_OP_LEAVE, 0);
	member_fails(c, 0);
	cx_settle(c);
	cx_done(c, &c->node[0], cx_open(&c->node[0], DDR_OUT_SB_WRITE));
	cx_settle(c);
	assert_true(cx_find(&c->node[0], DDR_OUT_KERNEL, DDR_U_RESOLVE) >= 0);
}

/* All leave at the same moment: the last one in the order of their messages stays until the others are gone, and frees all slots. */
static void all_leave_at_once(void **state)
{
	struct cx *c = *state;

	cx_forget(c);
	for (uint32_t i = 0; i < 3; i++)
		goes(c, i);
	cx_settle(c);
	assert_true(cx_event(&c->node[0], DDR_EV_LEFT) >= 0);
	assert_true(cx_event(&c->node[1], DDR_EV_LEFT) >= 0);
	assert_int_equal(cx_event(&c->node[2], DDR_EV_LEFT), -1);
	cx_kill(c, 0);
	cx_kill(c, 1);
	cx_view(c, 4, 7, true);
	cx_settle(c);
	assert_true(cx_event(&c->node[2], DDR_EV_LEFT) >= 0);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(c->sb.slot_node[i], 0);
}

/* It begins no change either between its LEAVE and the delivery of that: it does not know yet which nodes stay. */
static void a_leaving_writer_begins_nothing(void **state)
{
	struct cx *c = *state;
	struct cx_node *n = &c->node[0];

	cx_down(c);
	cx_up(c, 2, true);
	cx_forget(c);
	c->answers = 0;
	goes(c, 1);
	goes(c, 0);
	assert_true(cx_deliver(c, n, NULL));		/* LEAVE of node 2: its slot is to be freed */
	assert_int_equal(cx_find(n, DDR_OUT_SB_WRITE, 0), -1);
	assert_true(cx_deliver(c, n, NULL));		/* its own: no node would be left, so it stays */
	assert_true(cx_find(n, DDR_OUT_SB_WRITE, 0) >= 0);
}

/* Another node is present that takes no part yet: the last one waits until it does, and leaves its slot to it. */
static void the_last_node_stays_until_a_starting_node_takes_part(void **state)
{
	struct cx *c = *state;

	for (uint32_t i = 2; i > 0; i--) {
		goes(c, i);
		cx_settle(c);
		cx_kill(c, i);
		cx_view(c, (1u << i) - 1, 7, true);
		cx_settle(c);
	}
	cx_forget(c);
	cx_daemon(c, 1);
	cx_view(c, 3, 7, true);
	cx_settle(c);
	goes(c, 0);
	cx_settle(c);
	assert_int_equal(cx_event(&c->node[0], DDR_EV_LEFT), -1);
	cx_start(c, 1, 0, 0);
	cx_view(c, 3, 7, true);
	cx_settle(c);
	assert_true(cx_event(&c->node[0], DDR_EV_LEFT) >= 0);
	cx_kill(c, 0);
	cx_view(c, 2, 7, true);
	cx_settle(c);
	assert_true(cx_status(&c->node[1]).joined);
	assert_int_equal(cx_event(&c->node[1], DDR_EV_NODE_LOST), -1);
	assert_int_equal(c->sb.slot_node[cx_sees(&c->node[1], 2).slot], 2);
	for (uint32_t i = 0; i < c->sb.slots; i++)
		assert_true(c->sb.slot_node[i] == 0 || c->sb.slot_node[i] == 2);
}

/* ---- slots --------------------------------------------------------------------- */

/* Node 3 is dead, and node 1 reads its slot; nothing that is read arrives. */
static void slot_is_being_recovered(struct cx *c)
{
	lock(c, 2, 2);
	cx_settle(c);
	cx_kill(c, 2);
	c->answers = CX_MSG | CX_KERNEL | CX_FENCE;
	cx_view(c, 3, 3, true);
	cx_settle(c);
	assert_int_equal(cx_sees(&c->node[0], 3).state, DDR_NS_RECOVERING);
}

/*
 * Its owner came back on its own, fenced the others, was about to write as the first, and meets them: it is evicted and fenced once
 * more. The node that recovers its slot continues.
 */
static void a_second_fencing_does_not_end_a_recovery(void **state)
{
	struct cx *c = *state;
	struct cx_node *n = &c->node[2];

	slot_is_being_recovered(c);
	reboot(c, 2);
	cx_view(c, 4, 4, true);
	cx_settle(c);
	cx_done(c, n, cx_open(n, DDR_OUT_RELOAD));
	cx_tick(c, 31000);
	cx_done(c, n, cx_open(n, DDR_OUT_RELOAD));
	cx_settle(c);
	cx_open(n, DDR_OUT_SB_WRITE);
	cx_view(c, 7, 7, true);
	cx_settle(c);
	assert_true(cx_find(n, DDR_OUT_GIVE_UP, 0) >= 0);
	assert_int_equal(events(&c->node[0], DDR_EV_NODE_FENCED), 2);
	assert_int_equal(cx_event(&c->node[0], DDR_EV_NODE_RECOVERED), -1);
	cx_kill(c, 2);
	c->answers = CX_ALL | CX_FENCE;
	cx_view(c, 3, 3, true);
	cx_tick(c, 2000);
	assert_true(cx_event(&c->node[0], DDR_EV_NODE_RECOVERED) >= 0);
	assert_int_equal(cx_sees(&c->node[0], 3).state, DDR_NS_LEFT);
}

/*
 * The slot is unreadable. The node that began to clear it dies, and the next one's block gets a higher sequence than the block that
 * may have been written.
 */
static void each_recovery_writes_behind_the_last(void **state)
{
	struct cx *c = *state;
	uint32_t slot = cx_sees(&c->node[0], 3).slot;
	struct cx_node *first = &c->node[0];
	struct ddr_disk_log blk;

	cx_forget(c);
	slot_is_being_recovered(c);
	c->bad_reads = 1;
	cx_done(c, first, cx_open(first, DDR_OUT_SLOT_READ));
	cx_done(c, first, cx_open(first, DDR_OUT_LOG_WRITE));
	assert_int_equal(first->log[cx_open(first, DDR_OUT_SLOT_WRITE)].slot, slot);
	ddr_sm_slot_block(first->sm, 0, &blk);	/* it may land, or may not */
	cx_kill(c, 0);
	c->answers = CX_ALL | CX_FENCE;
	cx_view(c, 2, 2, true);
	cx_settle(c);
	cx_tick(c, 2000);
	cx_tick(c, 2000);
	assert_int_equal(events(&c->node[1], DDR_EV_NODE_RECOVERED), 2);
	assert_true(le64toh(*(const uint64_t *)&c->disk[slot].seq) > le64toh(*(const uint64_t *)&blk.seq));
}

/* Node 3 is in the view again, and waits for its slot; then no node is left that could recover it. */
static void owner_is_back_and_the_others_die(struct cx *c)
{
	reboot(c, 2);
	cx_view(c, 7, 7, true);
	cx_settle(c);
	assert_true(cx_status(&c->node[2]).synced && !cx_status(&c->node[2]).joined);
	cx_kill(c, 0);
	cx_kill(c, 1);
	c->answers = CX_ALL | CX_FENCE;
	cx_view(c, 4, 4, true);
	cx_settle(c);
	cx_tick(c, 31000);
	cx_tick(c, 2000);
}

/* The last node that could recover it dies too. Its owner, which came back and waits, reads the disks, and takes it back. */
static void an_owner_without_survivors_begins(void **state)
{
	struct cx *c = *state;

	slot_is_being_recovered(c);
	owner_is_back_and_the_others_die(c);
	assert_true(cx_status(&c->node[2]).joined);
	assert_int_equal(cx_status(&c->node[2]).resync_regions + cx_status(&c->node[2]).dirty, 0);
}

/* It is fenced by a node that has no kernel yet, so takes no part, and recovers nothing. It resyncs its slot itself. */
static void an_owner_does_not_wait_for_nodes_that_take_no_part(void **state)
{
	struct cx *c = *state;

	cx_down(c);
	c->answers = CX_ALL | CX_FENCE;
	cx_daemon(c, 0);
	cx_view(c, 1, 1, true);
	cx_settle(c);
	cx_tick(c, 31000);
	assert_int_equal(cx_sees(&c->node[0], 3).state, DDR_NS_RECOVERING);
	reboot(c, 2);
	cx_view(c, 5, 5, true);
	cx_settle(c);
	cx_tick(c, 2000);
	assert_true(cx_status(&c->node[2]).joined);
}

/* It left, its slot was to be freed, and it is back; no node is left that could free the slot: it takes the slot back. */
static void an_owner_gets_its_slot_back(void **state)
{
	struct cx *c = *state;

	c->answers = CX_MSG | CX_KERNEL;
	cx_op(c, 2, DDR_IN_K_DETACHED, 0);
	cx_op(c, 2, DDR_IN_OP_LEAVE, 0);
	cx_settle(c);
	cx_kill(c, 2);
	owner_is_back_and_the_others_die(c);
	assert_true(cx_status(&c->node[2]).joined);
}

static uint64_t sequence(const struct ddr_disk_log *blk)
{
	return le64toh(blk->seq.raw);
}

/*
 * Both held the region, and the survivor's mark names its kernel: its next daemon would take it for that kernel's alone, and resync
 * nothing. So the dead slot is cleared after the survivor's block has no owner. A copy of it that could not be read is older, too.
 */
static void a_slot_is_cleared_when_our_block_has_no_owner(void **state)
{
	struct cx *c = *state;
	struct cx_node *n = &c->node[0];
	uint32_t dead = cx_sees(n, 3).slot, own = ddr_sm_slot(n->sm);
	struct ddr_disk_log blk;

	lock(c, 0, 2);
	cx_settle(c);
	assert_int_equal(le64toh(c->disk[own].cookie.raw), 7);
	cx_forget(c);
	slot_is_being_recovered(c);
	cx_done(c, n, cx_open(n, DDR_OUT_SLOT_READ));
	cx_settle(c);
	assert_int_equal(cx_find(n, DDR_OUT_SLOT_WRITE, 0), -1);
	cx_done(c, n, cx_open(n, DDR_OUT_LOG_WRITE));
	assert_int_equal(le64toh(c->disk[own].cookie.raw), 0);
	assert_int_equal(n->log[cx_open(n, DDR_OUT_SLOT_WRITE)].slot, dead);
	ddr_sm_slot_block(n->sm, 0, &blk);
	assert_true(sequence(&blk) > sequence(&c->disk[dead]) + 1);
	assert_true((sequence(&blk) ^ sequence(&c->disk[dead])) & 1);	/* the newest copy is not overwritten */
}

/*
 * Rule 11: a copy that is unreadable on all members at the start may be newer than all that were read; the next write gets a higher
 * sequence.
 */
static void a_new_daemon_writes_above_sequences_that_were_unreadable(void **state)
{
	struct cx *c = *state;
	struct cx_node *n = &c->node[1];
	uint32_t own = ddr_sm_slot(n->sm);
	struct ddr_disk_log blk;

	lock(c, 1, 2);
	cx_settle(c);
	cx_forget(c);
	cx_start(c, 1, 0, 0);
	c->answers = CX_MSG | CX_KERNEL;
	cx_view(c, 7, 7, true);
	cx_settle(c);
	cx_done(c, &c->node[0], cx_open(&c->node[0], DDR_OUT_SB_WRITE));
	cx_settle(c);
	cx_done(c, n, cx_open(n, DDR_OUT_SLOT_READ));
	cx_settle(c);
	cx_open(n, DDR_OUT_LOG_WRITE);
	ddr_sm_log_block(n->sm, 0, &blk);
	assert_true(sequence(&blk) > sequence(&c->disk[own]) + 1);
	assert_true((sequence(&blk) ^ sequence(&c->disk[own])) & 1);
}

/* ---- ranges -------------------------------------------------------------------- */

/* Note 16: its slot is not read yet, so it cannot know that nothing in the range is dirty there. */
static void nothing_is_called_clean_before_the_slot_is_read(void **state)
{
	struct cx *c = *state;
	struct ddr_msg msg;

	one_is_clean(c);
	cx_start(c, 1, 0, 0);
	c->answers = CX_MSG | CX_KERNEL;
	cx_view(c, 7, 7, true);
	cx_settle(c);
	cx_done(c, &c->node[0], cx_open(&c->node[0], DDR_OUT_SB_WRITE));
	cx_settle(c);
	assert_true(cx_find(&c->node[1], DDR_OUT_SLOT_READ, 0) >= 0);
	cx_record(c, 0, (struct ddr_rec){ .type = DDR_K_MISMATCH, .seq = 9, .start = 1, .count = 1 });
	cx_settle(c);
	assert_true(sent(&c->node[2], DDR_M_EX_ACK, &msg));
	assert_int_equal(msg.ex_ack.dirty, 0);
	assert_true(sent(&c->node[1], DDR_M_EX_ACK, &msg));
	assert_int_equal(msg.ex_ack.dirty, ~0ull);
}

/* Note 16: a node dies without having acknowledged the range. Its dirty blocks there are unknown, so a mismatch there is ignored. */
static void dirty_blocks_of_a_dead_node_are_unknown_in_a_range(void **state)
{
	struct cx *c = *state;
	struct cx_node *n = &c->node[0];
	struct ddr_input in = { .type = DDR_IN_JOB_DONE, .mismatches = 1 };
	int at;

	one_is_clean(c);
	c->answers = CX_MSG;
	cx_record(c, 0, (struct ddr_rec){ .type = DDR_K_MISMATCH, .seq = 9, .start = 1, .count = 1 });
	cx_settle(c);
	kernel_answers(c, 0, DDR_U_DRAIN);
	kernel_answers(c, 1, DDR_U_DRAIN);
	cx_settle(c);
	assert_int_equal(cx_find(n, DDR_OUT_JOB_RANGE, 0), -1);
	cx_kill(c, 2);
	c->answers = CX_MSG | CX_FENCE;
	cx_view(c, 3, 3, true);
	cx_settle(c);
	in.io = n->log[cx_open(n, DDR_OUT_JOB_RANGE)].io;
	cx_step(c, n, &in);
	at = cx_find(n, DDR_OUT_KERNEL, DDR_U_RESOLVE);
	assert_true(at >= 0);
	assert_int_equal(n->log[at].rec.arg[0], DDR_RES_PASS);
}

/* The first output of the type that waits at the node is a job that ends so. */
static void job_ends(struct cx *c, uint32_t i, uint64_t mismatches)
{
	struct cx_node *n = &c->node[i];
	uint32_t at = cx_open(n, DDR_OUT_JOB_RANGE);
	struct ddr_input in = { .type = DDR_IN_JOB_DONE, .io = n->log[at].io, .mismatches = mismatches };

	n->open[at] = false;
	cx_step(c, n, &in);
}

/*
 * Note 16: a range that begins after the death, while the dead node's slot is being read. A node that acknowledges it cannot know
 * what is dirty there. Two nodes request the range at once, so that one of them has to wait meanwhile.
 */
static void dirty_blocks_under_recovery_are_unknown_in_a_range(void **state)
{
	const struct ddr_rec mismatch = { .type = DDR_K_MISMATCH, .seq = 9, .start = 1, .count = 1 };
	struct cx *c = *state;
	struct cx_node *n = &c->node[0];
	int at;

	one_is_clean(c);
	c->answers = 0;
	cx_record(c, 1, mismatch);
	cx_record(c, 0, mismatch);
	c->answers = CX_MSG;
	cx_settle(c);		/* ends, too: the node that has to wait for the range does not ask again and again */
	kernel_answers(c, 0, DDR_U_DRAIN);
	kernel_answers(c, 1, DDR_U_DRAIN);
	cx_settle(c);
	cx_kill(c, 2);
	c->answers = CX_MSG | CX_FENCE;
	cx_view(c, 3, 3, true);
	cx_settle(c);
	job_ends(c, 1, 0);
	cx_settle(c);
	kernel_answers(c, 0, DDR_U_DRAIN);
	kernel_answers(c, 1, DDR_U_DRAIN);
	cx_settle(c);
	job_ends(c, 0, 1);
	at = cx_find(n, DDR_OUT_KERNEL, DDR_U_RESOLVE);
	assert_true(at >= 0);
	assert_int_equal(n->log[at].rec.arg[0], DDR_RES_PASS);
	assert_int_equal(events(n, DDR_EV_NODE_RECOVERED), 0);
}

/*
 * Rule 5: a new daemon has the group's state, and its kernel keeps its writers out of a range in which node 1 works. The daemon is
 * cut off before it takes part, and drops the state. The range stays as it is until the others are proven dead.
 */
static void a_range_outlives_the_state(void **state)
{
	struct cx *c = *state;
	struct cx_node *n = &c->node[1];
	int drain, release;

	one_is_clean(c);
	c->answers = CX_MSG | CX_KERNEL;
	cx_record(c, 0, (struct ddr_rec){ .type = DDR_K_MISMATCH, .seq = 9, .start = 1, .count = 1 });
	cx_settle(c);
	cx_open(&c->node[0], DDR_OUT_JOB_RANGE);
	cx_start(c, 1, 0, 1);
	c->answers = CX_KERNEL;
	cx_view(c, 7, 7, true);
	while (!cx_status(n).synced)
		for (uint32_t i = 0; i < 3; i++)
			cx_deliver(c, &c->node[i], NULL);
	drain = cx_find(n, DDR_OUT_KERNEL, DDR_U_DRAIN);
	assert_true(drain >= 0);
	cx_view(c, 2, 6, true);
	c->answers = CX_ALL;
	cx_settle(c);
	cx_tick(c, 31000);
	assert_int_equal(cx_sees(n, 1).state, DDR_NS_FENCING);
	assert_int_equal(cx_find(n, DDR_OUT_KERNEL, DDR_U_RELEASE), -1);
	c->answers = CX_ALL | CX_FENCE;
	cx_settle(c);
	release = cx_find(n, DDR_OUT_KERNEL, DDR_U_RELEASE);
	assert_true(release >= 0);
	assert_int_equal(n->log[release].rec.seq, n->log[drain].rec.seq);
}

/* A node leaves, and its daemon is still running. The regions that it leaves dirty in its slot are taken over when the daemon is gone. */
static void leaves_dirty(struct cx *c, uint32_t i)
{
	struct ddr_msg msg;

	cx_op(c, i, DDR_IN_K_DETACHED, 0);
	cx_op(c, i, DDR_IN_OP_LEAVE, 0);
	cx_done(c, &c->node[i], cx_open(&c->node[i], DDR_OUT_LOG_WRITE));
	cx_settle(c);
	assert_true(sent(&c->node[i], DDR_M_LEAVE, &msg));
	assert_int_equal(msg.leave.dirty, 1);
}

static void mismatch_is_passed(struct cx *c)
{
	struct cx_node *n = &c->node[0];
	int at;

	job_ends(c, 0, 1);
	at = cx_find(n, DDR_OUT_KERNEL, DDR_U_RESOLVE);
	assert_true(at >= 0);
	assert_int_equal(n->log[at].rec.arg[0], DDR_RES_PASS);
}

/* Note 16: its dirty blocks in the range are unknown, whether the range came after it left or it no longer acknowledged it. */
static void dirty_blocks_of_a_node_that_left_are_unknown_in_a_range(void **state)
{
	struct cx *c = *state;

	for (uint32_t before = 0; before < 2; before++) {
		cx_down(c);
		cx_up(c, 3, true);
		one_is_clean(c);
		c->answers = CX_MSG;
		lock(c, 2, 0);
		if (!before)
			leaves_dirty(c, 2);
		cx_record(c, 0, (struct ddr_rec){ .type = DDR_K_MISMATCH, .seq = 9, .start = 1, .count = 1 });
		cx_settle(c);
		kernel_answers(c, 0, DDR_U_DRAIN);
		kernel_answers(c, 1, DDR_U_DRAIN);
		cx_settle(c);
		if (before)
			leaves_dirty(c, 2);
		mismatch_is_passed(c);
	}
}

/* A node that alone cannot write to a member that the array cannot do without gives up: the others know, and do not wait for its daemon. */
static void rule_4_a_node_that_gives_up_is_fenced_at_once(void **state)
{
	struct ddr_input error = { .type = DDR_IN_K_REC, .rec = { .type = DDR_K_ERROR, .seq = 5, .member = 2, .status = DDR_EC_IO,
								 .start = 3, .count = 1, .arg = { DDR_OP_WRITE } } };
	struct cx *c = *state;

	cx_down(c);
	cx_up(c, 3, true);
	for (uint32_t m = 0; m < 2; m++) {
		cx_step(c, &c->node[0], &(struct ddr_input){ .type = DDR_IN_OP_FAIL_MEMBER, .member = m });
		cx_settle(c);
		assert_int_equal(cx_status(&c->node[0]).member_state[m], DDR_MEMBER_FAULTY);
	}
	cx_forget(c);
	cx_step(c, &c->node[2], &error);
	cx_settle(c);
	assert_true(cx_find(&c->node[2], DDR_OUT_GIVE_UP, 0) >= 0);
	c->answers &= ~CX_FENCE;
	cx_view(c, 3, 7, true);
	cx_settle(c);
	assert_true(cx_find(&c->node[0], DDR_OUT_FENCE, 0) >= 0);
	assert_int_equal(cx_status(&c->node[0]).member_state[2], DDR_MEMBER_IN_SYNC);
}

/*
 * The writer leaves while a write of the map is outstanding, which fails for this node alone, on a member that the array cannot do
 * without. Its LEAVE is ordered before its message about that, so one less of @nodes has a say: even if a single one remains, it has
 * not failed anything, and continues. Nor does the leaving node have to give up.
 */
static void leaver_cannot_write(struct cx *c, uint32_t nodes)
{
	struct cx_node *leaver = &c->node[0], *stays = &c->node[nodes - 1];
	struct ddr_input failed = { .type = DDR_IN_MAP_DONE, .failed_members = 1u << 2 };
	struct ddr_msg msg;
	uint32_t at;

	cx_down(c);
	cx_up(c, nodes, true);
	for (uint32_t m = 0; m < 2; m++) {
		cx_step(c, leaver, &(struct ddr_input){ .type = DDR_IN_OP_FAIL_MEMBER, .member = m });
		cx_settle(c);
	}
	cx_op(c, 0, DDR_IN_OP_CLEAN, 0);
	cx_settle(c);
	lock(c, nodes - 1, 1);
	cx_settle(c);
	cx_forget(c);
	c->answers = CX_MSG | CX_KERNEL;
	cx_record(c, nodes - 1, (struct ddr_rec){ .type = DDR_K_CLOSED, .start = 1, .count = 1 });
	cx_done(c, stays, cx_open(stays, DDR_OUT_FLUSH));
	cx_settle(c);
	at = cx_open(leaver, DDR_OUT_MAP_WRITE);
	cx_op(c, 0, DDR_IN_K_DETACHED, 0);
	cx_op(c, 0, DDR_IN_OP_LEAVE, 0);
	cx_settle(c);
	assert_false(sent(leaver, DDR_M_LEAVE, &msg));
	failed.io = leaver->log[at].io;
	leaver->open[at] = false;
	cx_step(c, leaver, &failed);
	assert_true(sent(leaver, DDR_M_LEAVE, &msg));
	assert_true(sent(leaver, DDR_M_MEMBER_FAIL, &msg));
	c->answers = CX_ALL;
	cx_settle(c);
	assert_true(cx_event(leaver, DDR_EV_LEFT) >= 0);
	assert_false(cx_status(leaver).gave_up || cx_status(leaver).failed);
	cx_kill(c, 0);
	cx_view(c, (1u << nodes) - 2, (1u << nodes) - 1, true);
	cx_settle(c);
	cx_tick(c, 100);
	assert_false(cx_status(stays).failed || cx_status(stays).gave_up);
	assert_true(cx_status(stays).ready);
	assert_int_equal(ddr_map_get(c->disk[CX_SLOTS].payload, 1) & DDR_REGION_STATE_MASK, DDR_REGION_NEEDS_SYNC);	/* the next writer wrote it */
}

static void errors_of_a_leaving_node_fail_no_member(void **state)
{
	leaver_cannot_write(*state, 2);
	leaver_cannot_write(*state, 3);
}

/* That each value has a text is seen to by the compiler; that no two have the same is not. */
static void every_wait_has_a_text(void **state)
{
	(void)state;
	assert_null(ddr_sm_wait_text(DDR_SM_WAIT_NOTHING));
	for (int i = DDR_SM_WAIT_NOTHING + 1; i <= DDR_SM_WAIT_TOLD_STRANGER; i++) {
		assert_non_null(ddr_sm_wait_text((enum ddr_sm_wait)i));
		for (int j = DDR_SM_WAIT_NOTHING + 1; j < i; j++)
			assert_string_not_equal(ddr_sm_wait_text((enum ddr_sm_wait)i), ddr_sm_wait_text((enum ddr_sm_wait)j));
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, cx_teardown)
	const struct CMUnitTest tests[] = {
		TEST(nobody_writes_while_an_owner_is_absent), TEST(nobody_writes_while_a_starter_is_lost),
		 TEST(a_writer_that_left_writes_no_more),
		TEST(a_writer_that_leaves_begins_nothing),
		TEST(all_leave_at_once), TEST(a_leaving_writer_begins_nothing), TEST(the_last_node_stays_until_a_starting_node_takes_part),
		TEST(a_leaving_node_waits_for_its_writes), TEST(a_leaving_node_waits_for_abandoned_writes), TEST(a_leaving_node_acknowledges_member_failures),
		 TEST(a_second_fencing_does_not_end_a_recovery),
		TEST(each_recovery_writes_behind_the_last),
		TEST(an_owner_without_survivors_begins), TEST(an_owner_gets_its_slot_back), TEST(an_owner_does_not_wait_for_nodes_that_take_no_part), TEST(a_slot_is_cleared_when_our_block_has_no_owner),
		TEST(a_new_daemon_writes_above_sequences_that_were_unreadable), TEST(dirty_blocks_of_a_node_that_left_are_unknown_in_a_range), TEST(a_range_outlives_the_state),
		TEST(nothing_is_called_clean_before_the_slot_is_read), TEST(dirty_blocks_of_a_dead_node_are_unknown_in_a_range),
		TEST(dirty_blocks_under_recovery_are_unknown_in_a_range), TEST(rule_4_a_node_that_gives_up_is_fenced_at_once),
		TEST(errors_of_a_leaving_node_fail_no_member), cmocka_unit_test(every_wait_has_a_text),
	};

	return cmocka_run_group_tests_name("state machine: who waits for whom", tests, NULL, NULL);
}
