// SPDX-License-Identifier: GPL-2.0-or-later
/* Rule 12 on several nodes: which node writes the superblocks, what it has to read before, and which nodes it waits for. */
#include "sm-cluster.h"

static int setup(void **state)
{
	return cx_setup(state, 2);
}

/* ---- the writer dies ------------------------------------------------------------ */

/*
 * Rule 12: the writer died after the superblocks were written and before its message that they are durable. The next writer follows
 * what is on the disks.
 */
static void the_next_writer_follows_the_disks(void **state)
{
	struct cx *c = *state;
	uint8_t id[16];

	cx_forget(c);
	c->answers = CX_KERNEL;
	cx_record(c, 1, (struct ddr_rec){ .type = DDR_K_ERROR, .seq = 5, .member = 2, .status = DDR_EC_IO, .arg[0] = DDR_OP_WRITE });
	cx_deliver(c, &c->node[0], NULL);
	cx_deliver(c, &c->node[1], NULL);
	cx_done(c, &c->node[0], (uint32_t)cx_find(&c->node[0], DDR_OUT_SB_WRITE, 0));
	assert_int_equal(c->sb.generation, 2);
	memcpy(id, c->sb.gen_id, sizeof(id));
	cx_kill(c, 0);
	c->answers = CX_ALL;
	cx_view(c, 2, 2, true);
	cx_settle(c);
	assert_int_equal(c->sb.generation, 2);	/* the dead one could still be writing */
	c->answers = CX_ALL | CX_FENCE;
	cx_settle(c);
	assert_int_equal(c->sb.generation, 3);
	assert_memory_equal(c->sb.gen_prev, id, sizeof(id));
	assert_int_equal(cx_status(&c->node[1]).member_state[2], DDR_MEMBER_FAULTY);
	assert_true(cx_find(&c->node[1], DDR_OUT_KERNEL, DDR_U_RESOLVE) >= 0);
}

/* The second node writes to region 3 and is done with it: the region is clean in the map. */
static void cleans(struct cx *c)
{
	cx_record(c, 1, (struct ddr_rec){ .type = DDR_K_LOCK, .seq = 3, .start = 3, .count = 1 });
	cx_settle(c);
	cx_record(c, 1, (struct ddr_rec){ .type = DDR_K_CLOSED, .start = 3, .count = 1 });
	cx_settle(c);
	cx_tick(c, 1000);
	cx_tick(c, 1000);
}

/* Writes the map as the last writer left it: with changes of which it told no other node, and with a sequence that is higher by @times. */
static void write_map(struct cx *c, const uint8_t nibble[4], uint64_t times)
{
	struct ddr_disk_log *blk = &c->disk[CX_SLOTS];
	struct ddr_log_info info = { .slot = DDR_MAP_SLOT, .seq = le64toh(blk->seq.raw) + times, .generation = c->sb.generation };

	memcpy(info.array_uuid, c->sb.array_uuid, sizeof(info.array_uuid));
	for (uint32_t r = 0; r < 4; r++)
		ddr_map_set(blk->payload, r, nibble[r]);
	ddr_log_encode(blk, &info);
}

/*
 * The writer died after it alone had been delivered changes of the map, had written them, and had cleared marks accordingly: the next
 * writer tells the group. What the group knows and the disks do not have is kept; and a copy that was unreadable is older than the
 * next one.
 */
static void a_new_writer_learns_the_map_from_the_disks(void **state)
{
	static const uint8_t there[4] = { DDR_REGION_CLEAN, DDR_REGION_NEEDS_SYNC | DDR_REGION_F_WRITTEN | DDR_REGION_F_SUSPECT,
					  DDR_REGION_NEEDS_SYNC | DDR_REGION_F_WRITTEN, DDR_REGION_UNWRITTEN };
	struct cx *c = *state;
	const struct ddr_disk_log *blk = &c->disk[CX_SLOTS];
	uint64_t seq;

	cleans(c);
	assert_int_equal(cx_status(&c->node[1]).clean, 1);
	write_map(c, there, 1);
	seq = le64toh(blk->seq.raw);
	cx_kill(c, 0);
	c->answers = CX_ALL | CX_FENCE;
	cx_view(c, 2, 2, true);
	cx_settle(c);
	cx_tick(c, 1000);
	assert_int_equal(cx_status(&c->node[1]).unwritten, 0);
	assert_int_equal(ddr_map_get(blk->payload, 0) & DDR_REGION_STATE_MASK, DDR_REGION_CLEAN);
	assert_true(ddr_map_get(blk->payload, 1) & DDR_REGION_F_SUSPECT);
	assert_true(ddr_map_get(blk->payload, 2) & DDR_REGION_F_WRITTEN);
	assert_int_equal(ddr_map_get(blk->payload, 3) & DDR_REGION_STATE_MASK, DDR_REGION_CLEAN);
	assert_true(le64toh(blk->seq.raw) > seq + 100);	/* not only behind its own writes */
}

/* The dead writer had found that a member was rebuilt there from what does not match: a resync would make the parity match it. */
static void a_new_writer_learns_what_is_suspect_and_not_resynced(void **state)
{
	static const uint8_t there[4] = { DDR_REGION_UNWRITTEN, DDR_REGION_UNWRITTEN, DDR_REGION_UNWRITTEN, DDR_REGION_CLEAN | DDR_REGION_F_SUSPECT };
	struct cx *c = *state;

	cleans(c);
	write_map(c, there, 1);
	cx_forget(c);
	cx_kill(c, 0);
	c->answers = CX_ALL | CX_FENCE;
	cx_view(c, 2, 2, true);
	cx_settle(c);
	cx_tick(c, 1000);
	assert_int_equal(ddr_map_get(c->disk[CX_SLOTS].payload, 3), DDR_REGION_CLEAN | DDR_REGION_F_SUSPECT);
	assert_int_equal(cx_status(&c->node[1]).suspect, 1);
	assert_int_equal(cx_find(&c->node[1], DDR_OUT_JOB_RANGE, 0), -1);
}

/* Rule 11: the old writer wrote the map many times after the new one had last read it. A start takes the copy with the highest sequence. */
static void a_new_writer_continues_the_sequence_of_the_map(void **state)
{
	static const uint8_t there[4] = { DDR_REGION_CLEAN, DDR_REGION_CLEAN, DDR_REGION_CLEAN, DDR_REGION_UNWRITTEN };
	struct cx *c = *state;
	const struct ddr_disk_log *blk = &c->disk[CX_SLOTS];
	uint64_t seq;

	write_map(c, there, 1ull << 40);
	seq = le64toh(blk->seq.raw);
	cx_kill(c, 0);
	c->answers = CX_ALL | CX_FENCE;
	cx_view(c, 2, 2, true);
	cleans(c);
	assert_int_equal(ddr_map_get(blk->payload, 3) & DDR_REGION_STATE_MASK, DDR_REGION_CLEAN);
	assert_true(le64toh(blk->seq.raw) > seq);
}

/* All is answered, up to the write of a dead node's slot. */
static uint32_t slot_write(struct cx *c, struct cx_node *n)
{
	c->answers = CX_MSG | CX_KERNEL | CX_FENCE;
	cx_settle(c);
	for (uint32_t i = 0; i < n->n;) {
		bool waits = n->open[i] && cx_is_io(&n->log[i]) && n->log[i].type != DDR_OUT_SLOT_WRITE;

		if (waits)
			cx_done(c, n, i);
		cx_settle(c);
		i = waits ? 0 : i + 1;
	}
	return cx_open(n, DDR_OUT_SLOT_WRITE);
}

/*
 * Rule 11: a member has no space for the slot of a dead node, which nobody could read. The block is written again, at the same place, since the other
 * one may hold the only copy of that member, and with a higher sequence, since others have this one.
 */
static void a_slot_without_space_is_written_again(void **state)
{
	struct cx *c = *state;
	struct cx_node *n = &c->node[0];
	struct ddr_input in = { .type = DDR_IN_LOG_DONE, .failed_members = 1 << 2, .no_space = 1 << 2 };
	struct ddr_disk_log blk;
	uint64_t seq;
	uint32_t at;

	cx_record(c, 1, (struct ddr_rec){ .type = DDR_K_LOCK, .seq = 3, .start = 2, .count = 1 });
	cx_settle(c);
	c->bad_reads = 1;
	cx_kill(c, 1);
	cx_view(c, 1, 1, true);
	at = slot_write(c, n);
	ddr_sm_slot_block(n->sm, n->log[at].index, &blk);
	seq = le64toh(blk.seq.raw);
	in.io = n->log[at].io;
	n->open[at] = false;
	cx_step(c, n, &in);
	cx_tick(c, 5000);
	at = slot_write(c, n);
	ddr_sm_slot_block(n->sm, n->log[at].index, &blk);
	assert_true(le64toh(blk.seq.raw) > seq);
	assert_int_equal(le64toh(blk.seq.raw) & 1, seq & 1);
	cx_done(c, n, at);
	c->answers = CX_ALL | CX_FENCE;
	cx_settle(c);
	assert_true(cx_event(n, DDR_EV_NODE_RECOVERED) >= 0);
}

/*
 * The dead writer let a node begin while this one was cut off: that node's slot is on the disks, with its marks. This node must not
 * take it away.
 */
static void a_writer_evicts_itself_if_the_disks_name_an_unknown_owner(void **state)
{
	struct cx *c = *state;

	c->sb.seq += 2;
	c->sb.slot_node[CX_SLOTS - 1] = 4;
	cx_kill(c, 0);
	cx_forget(c);
	c->answers = CX_ALL | CX_FENCE;
	cx_view(c, 2, 2, true);
	cx_settle(c);
	assert_true(cx_find(&c->node[1], DDR_OUT_RELOAD, 0) >= 0);
	assert_true(cx_find(&c->node[1], DDR_OUT_GIVE_UP, 0) >= 0);
	assert_int_equal(cx_find(&c->node[1], DDR_OUT_SB_WRITE, 0), -1);
	assert_int_equal(c->sb.slot_node[CX_SLOTS - 1], 4);
}

/* ---- an array that nobody owns ------------------------------------------------- */

/* Node 1 has built a state of the array, which nobody owns, and is to be its first writer. It is cut off; then its read ends. */
static void first_writer_is_cut_off(struct cx *c)
{
	cx_down(c);
	cx_make(c, 2, true);
	cx_start(c, 0, 0, 0);
	cx_start(c, 1, 0, 0);
	c->answers = CX_MSG | CX_KERNEL;
	cx_view(c, 1, 1, true);
	cx_settle(c);
	cx_done(c, &c->node[0], cx_open(&c->node[0], DDR_OUT_RELOAD));
	cx_settle(c);
	assert_int_equal(cx_sees(&c->node[0], 1).state, DDR_NS_ACTIVE);
	cx_view(c, 1, 1, false);
	cx_done(c, &c->node[0], cx_open(&c->node[0], DDR_OUT_RELOAD));
	assert_int_equal(cx_find(&c->node[0], DDR_OUT_SB_WRITE, 0), -1);
	c->answers = CX_ALL;
}

/* Notes 8, 9: the other node took the array meanwhile. Its state is on the disks; the state that was only read is not. */
static void a_state_that_was_written_by_counts_more_than_one_that_was_read(void **state)
{
	struct cx *c = *state;

	first_writer_is_cut_off(c);
	cx_view(c, 2, 2, true);
	cx_settle(c);
	assert_true(cx_status(&c->node[1]).joined);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	assert_int_equal(cx_find(&c->node[0], DDR_OUT_SB_WRITE, 0), -1);
	assert_false(cx_status(&c->node[1]).gave_up);
	assert_false(cx_status(&c->node[0]).gave_up);	/* it has written nothing, and joins */
	assert_true(cx_status(&c->node[0]).joined);
	assert_int_equal(cx_sees(&c->node[0], 2).slot, 0);	/* the node that took the array has the first slot */
}

/* The other node took it, and died: when the first has quorum again it reads again, and finds an owner to fence. */
static void a_first_writer_reads_again_in_each_epoch(void **state)
{
	struct cx *c = *state;
	uint64_t seq;

	first_writer_is_cut_off(c);
	cx_view(c, 2, 2, true);
	cx_settle(c);
	seq = c->sb.seq;
	cx_kill(c, 1);
	cx_view(c, 1, 1, true);
	cx_settle(c);
	assert_int_equal(cx_find(&c->node[0], DDR_OUT_SB_WRITE, 0), -1);
	assert_int_equal(cx_sees(&c->node[0], 2).state, DDR_NS_SUSPECT);
	c->answers = CX_ALL | CX_FENCE;
	cx_tick(c, 31000);
	assert_true(cx_status(&c->node[0]).joined);
	assert_true(c->sb.seq > seq);
}

/*
 * Node 2 was given the same view twice and sent a hello for each; the second one is ordered after the message that the state is void,
 * and refers to that state. It does not count: no node has that state any more.
 */
static void a_hello_from_before_the_state_was_void(void **state)
{
	struct cx *c = *state;
	struct cx_node *n = &c->node[0], *late = &c->node[1];
	struct cx_message hello = { .sender = 2 };
	uint32_t at;

	cx_down(c);
	cx_make(c, 2, true);
	cx_start(c, 0, 0, 0);
	cx_start(c, 1, 0, 0);
	c->answers = CX_MSG | CX_KERNEL;
	cx_view(c, 3, 3, true);
	cx_settle(c);
	cx_done(c, n, cx_open(n, DDR_OUT_RELOAD));
	cx_settle(c);
	at = late->n;
	cx_view(c, 3, 3, true);
	while (late->log[at].type != DDR_OUT_MCAST)
		at++;
	hello.len = late->log[at].msg_len;
	memcpy(hello.bytes, late->log[at].msg, hello.len);
	cx_settle(c);
	cx_done(c, n, cx_open(n, DDR_OUT_RELOAD));	/* of the epoch before */
	c->sb.seq++;
	c->answers = CX_KERNEL;
	cx_done(c, n, cx_open(n, DDR_OUT_RELOAD));
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(c->node[i].n_queue, 1);
		c->node[i].queue[c->node[i].n_queue++] = hello;
	}
	c->answers = CX_ALL;
	cx_settle(c);
	assert_true(cx_status(n).joined);
	assert_true(cx_status(late).joined);
}

/* Rule 3: a member fails the first superblock write, and the state is void then. The failure stays one. */
static void a_failure_outlives_the_state(void **state)
{
	struct cx *c = *state;
	struct cx_node *n = &c->node[0];
	struct ddr_input in = { .type = DDR_IN_SB_DONE, .failed_members = 1 << 1 };
	uint32_t at;

	first_writer_is_cut_off(c);
	c->answers = CX_MSG | CX_KERNEL;
	cx_view(c, 1, 1, true);
	cx_settle(c);
	cx_done(c, n, cx_open(n, DDR_OUT_RELOAD));
	cx_settle(c);
	at = cx_open(n, DDR_OUT_SB_WRITE);
	cx_view(c, 1, 1, false);
	cx_write(c, n, &n->log[at]);
	in.io = n->log[at].io;
	n->open[at] = false;
	cx_step(c, n, &in);
	c->answers = CX_ALL;
	cx_view(c, 1, 1, true);
	cx_settle(c);
	assert_true(cx_status(n).joined);
	assert_int_equal(cx_status(n).member_state[1], DDR_MEMBER_FAULTY);
}

/*
 * The driver has taken its first write back, since this node lost quorum: no member has failed. Another node takes the array meanwhile, which no disk says of
 * this one; it joins then, and goes by what the other one has written.
 */
static void what_was_taken_back_is_no_failure(void **state)
{
	struct cx *c = *state;
	struct cx_node *n = &c->node[0];
	struct ddr_input in = { .type = DDR_IN_SB_DONE, .failed_members = 63, .members = 63 };
	uint32_t at;

	first_writer_is_cut_off(c);
	c->answers = CX_MSG | CX_KERNEL;
	cx_view(c, 1, 1, true);
	cx_settle(c);
	cx_done(c, n, cx_open(n, DDR_OUT_RELOAD));
	cx_settle(c);
	at = cx_open(n, DDR_OUT_SB_WRITE);
	cx_view(c, 1, 1, false);
	in.io = n->log[at].io;
	cx_forget(c);
	cx_step(c, n, &in);
	c->answers = CX_ALL;
	cx_view(c, 2, 2, true);
	cx_settle(c);
	assert_true(cx_status(&c->node[1]).joined);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	assert_int_equal(cx_find(n, DDR_OUT_SB_WRITE, 0), -1);
	assert_true(cx_status(n).joined);
	for (uint32_t m = 0; m < 6; m++)
		assert_int_equal(cx_status(n).member_state[m], DDR_MEMBER_IN_SYNC);
}

/* It has quorum again, and nobody was there: it reads the disks again, and writes. */
static void what_was_taken_back_is_written_later(void **state)
{
	struct cx *c = *state;
	struct cx_node *n = &c->node[0];
	struct ddr_input in = { .type = DDR_IN_SB_DONE, .failed_members = 62, .members = 62 };
	uint64_t seq;
	uint32_t at;

	first_writer_is_cut_off(c);
	seq = c->sb.seq;
	c->answers = CX_MSG | CX_KERNEL;
	cx_view(c, 1, 1, true);
	cx_settle(c);
	cx_done(c, n, cx_open(n, DDR_OUT_RELOAD));
	cx_settle(c);
	at = cx_open(n, DDR_OUT_SB_WRITE);
	cx_view(c, 1, 1, false);
	cx_write(c, n, &n->log[at]);	/* one member has it */
	in.io = n->log[at].io;
	cx_forget(c);
	cx_step(c, n, &in);
	assert_int_equal(cx_find(n, DDR_OUT_SB_WRITE, 0), -1);
	c->answers = CX_ALL;
	cx_view(c, 1, 1, true);
	cx_settle(c);
	assert_true(cx_status(n).joined);
	assert_true(c->sb.seq > seq);
	for (uint32_t m = 0; m < 6; m++)
		assert_int_equal(cx_status(n).member_state[m], DDR_MEMBER_IN_SYNC);
}

/* The same, with its first write in flight: when that has ended it reads what its write may have met there. */
static void a_first_writer_reads_again_behind_its_write(void **state)
{
	struct cx *c = *state;
	struct cx_node *n = &c->node[0];

	first_writer_is_cut_off(c);
	c->answers = CX_MSG | CX_KERNEL;
	cx_view(c, 1, 1, true);
	cx_settle(c);
	cx_done(c, n, cx_open(n, DDR_OUT_RELOAD));
	cx_settle(c);
	cx_view(c, 1, 1, true);
	cx_settle(c);
	cx_done(c, n, cx_open(n, DDR_OUT_SB_WRITE));
	cx_open(n, DDR_OUT_RELOAD);
}

/* A read that began in one epoch and ends in the next shows nothing of what was written in between. */
static void a_reading_of_another_epoch_does_not_count(void **state)
{
	struct cx *c = *state;
	uint32_t at;

	first_writer_is_cut_off(c);
	c->answers = CX_MSG | CX_KERNEL;
	cx_view(c, 1, 1, true);
	cx_settle(c);
	at = cx_open(&c->node[0], DDR_OUT_RELOAD);
	cx_view(c, 1, 1, true);
	cx_settle(c);
	cx_done(c, &c->node[0], at);
	assert_int_equal(cx_find(&c->node[0], DDR_OUT_SB_WRITE, 0), -1);
	cx_done(c, &c->node[0], cx_open(&c->node[0], DDR_OUT_RELOAD));
	assert_true(cx_find(&c->node[0], DDR_OUT_SB_WRITE, 0) >= 0);
}

/* Two have only read, as far as they know, and one of them wrote: the other waits until that one is proven dead, and reads again. */
static void a_first_writer_waits_for_nodes_that_may_have_written(void **state)
{
	struct cx *c = *state;
	struct cx_node *other = &c->node[1];
	uint64_t seq = 0;

	first_writer_is_cut_off(c);
	c->answers = CX_IO | CX_KERNEL;
	cx_view(c, 2, 2, true);
	while (cx_find(other, DDR_OUT_SB_WRITE, 0) < 0 || cx_status(other).sb_writes == 0 || seq == 0) {
		cx_settle(c);
		if (cx_find(other, DDR_OUT_SB_WRITE, 0) >= 0)
			seq = c->sb.seq;	/* it has ended, and that is not delivered yet */
		else
			assert_true(cx_deliver(c, other, NULL));
	}
	c->answers = CX_ALL;
	cx_forget(c);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	assert_true(cx_find(other, DDR_OUT_GIVE_UP, 0) >= 0);
	assert_int_equal(cx_find(&c->node[0], DDR_OUT_RELOAD, 0), -1);
	assert_int_equal(cx_find(&c->node[0], DDR_OUT_SB_WRITE, 0), -1);
	cx_kill(c, 1);
	c->answers = CX_ALL | CX_FENCE;
	cx_view(c, 1, 1, true);
	cx_settle(c);
	assert_int_equal(c->sb.seq, seq);	/* another node owns it: that one is to be proven dead again */
	cx_tick(c, 31000);
	assert_true(cx_status(&c->node[0]).joined);
	assert_true(c->sb.seq > seq);
}

/*
 * A first writer was cut off with its write in flight, and the others, who could not know, took the array. It is evicted when they
 * meet. Then their writer dies: the next one reads what that one left after the stranger, too, is proven dead.
 */
static void a_new_writer_waits_for_strangers(void **state)
{
	struct cx *c = *state;
	struct cx_node *stranger = &c->node[2], *next = &c->node[1];

	cx_down(c);
	cx_make(c, 3, true);
	c->answers = CX_MSG | CX_KERNEL;
	cx_start(c, 2, 0, 0);
	cx_view(c, 4, 4, true);
	cx_settle(c);
	for (uint32_t i = 0; i < 2; i++) {
		cx_done(c, stranger, cx_open(stranger, DDR_OUT_RELOAD));
		cx_settle(c);
	}
	cx_open(stranger, DDR_OUT_SB_WRITE);
	cx_view(c, 4, 4, false);
	cx_forget(c);		/* that write stays on its way */
	cx_start(c, 0, 0, 0);
	cx_start(c, 1, 0, 0);
	c->answers = CX_ALL;
	cx_view(c, 3, 3, true);
	cx_settle(c);
	assert_true(cx_status(next).joined);
	cx_view(c, 7, 7, true);
	cx_settle(c);
	assert_true(cx_find(stranger, DDR_OUT_GIVE_UP, 0) >= 0);
	cx_kill(c, 0);
	cx_kill(c, 2);
	cx_forget(c);
	cx_view(c, 2, 2, true);
	cx_settle(c);
	for (uint32_t i = 0; i < next->n; i++)
		if (next->open[i] && next->log[i].type == DDR_OUT_FENCE && next->log[i].node == 1)
			cx_fenced(c, next, i, 0);
	cx_settle(c);
	assert_int_equal(cx_sees(next, 1).failure, 0);
	assert_int_equal(cx_sees(next, 3).state, DDR_NS_FENCING);
	assert_int_equal(cx_find(next, DDR_OUT_RELOAD, 0), -1);
	cx_fenced(c, next, cx_open(next, DDR_OUT_FENCE), 0);
	cx_settle(c);
	assert_true(cx_find(next, DDR_OUT_RELOAD, 0) >= 0);
}

/*
 * The writer died, and node 2 may have seen that proven where it is now, and be the next one. So when the writer is back it does
 * not write before node 2 is proven dead, or back.
 */
static void a_returning_writer_waits_for_lost_nodes(void **state)
{
	struct cx *c = *state;
	struct cx_node *writer = &c->node[0];

	cx_down(c);
	cx_up(c, 3, true);
	cx_kill(c, 0);
	cx_forget(c);
	c->node[0].cookie++;
	cx_start(c, 0, 0, 0);
	cx_view(c, 5, 5, true);
	cx_settle(c);
	assert_int_equal(cx_sees(&c->node[2], 1).state, DDR_NS_ACTIVE);
	assert_int_equal(cx_sees(writer, 2).state, DDR_NS_FENCING);
	assert_int_equal(cx_find(writer, DDR_OUT_RELOAD, 0), -1);
	assert_int_equal(cx_find(writer, DDR_OUT_SB_WRITE, 0), -1);
	cx_fenced(c, writer, cx_open(writer, DDR_OUT_FENCE), 0);
	cx_settle(c);
	assert_true(cx_find(writer, DDR_OUT_SB_WRITE, 0) >= 0);
	assert_true(cx_status(writer).joined);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, cx_teardown)
	const struct CMUnitTest tests[] = {
		TEST(the_next_writer_follows_the_disks), TEST(a_slot_without_space_is_written_again), TEST(a_new_writer_learns_the_map_from_the_disks), TEST(a_new_writer_learns_what_is_suspect_and_not_resynced),
		TEST(a_new_writer_continues_the_sequence_of_the_map),
		TEST(a_writer_evicts_itself_if_the_disks_name_an_unknown_owner),
		TEST(a_state_that_was_written_by_counts_more_than_one_that_was_read),
		TEST(a_first_writer_reads_again_in_each_epoch), TEST(a_first_writer_reads_again_behind_its_write),
		TEST(a_failure_outlives_the_state), TEST(what_was_taken_back_is_no_failure), TEST(what_was_taken_back_is_written_later), TEST(a_hello_from_before_the_state_was_void), TEST(a_reading_of_another_epoch_does_not_count),
		TEST(a_first_writer_waits_for_nodes_that_may_have_written), TEST(a_new_writer_waits_for_strangers),
		TEST(a_returning_writer_waits_for_lost_nodes),
	};

	return cmocka_run_group_tests_name("state machine: who writes the superblocks", tests, NULL, NULL);
}
