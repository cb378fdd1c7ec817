// SPDX-License-Identifier: GPL-2.0-or-later
/* Several nodes: joining with the state in chunks, views, losses, merges, fencing, leaving; and hostile messages. */
#include "sm-cluster.h"

#define RING_WORD	32	/* offsets in a message's header */
#define EPOCH_WORD	44

static int setup(void **state)
{
	return cx_setup(state, 2);
}

static struct ddr_msg decoded(const struct cx_message *m)
{
	struct ddr_msg msg;

	assert_null(ddr_msg_decode(m->bytes, m->len, &msg));
	return msg;
}

/* The state that results from the total order is the same on all nodes of @mask. */
static void assert_alike(struct cx *c, uint32_t mask)
{
	struct ddr_sm_status first, st;
	int one = -1;

	for (uint32_t i = 0; i < CX_NODES; i++) {
		if (!(mask >> i & 1))
			continue;
		st = cx_status(&c->node[i]);
		if (one < 0)
			first = st;
		one = (int)i;
		assert_int_equal(st.generation, first.generation);
		assert_int_equal(st.clean, first.clean);
		assert_int_equal(st.unwritten, first.unwritten);
		assert_memory_equal(st.member_state, first.member_state, sizeof(st.member_state));
		assert_int_equal(st.n_nodes, first.n_nodes);
		assert_memory_equal(st.node, first.node, st.n_nodes * sizeof(st.node[0]));
	}
}

/* ---- the state of a joiner ----------------------------------------------------- */

/* Node 3 is to join nodes 1 and 2; all hellos are delivered, of the state nothing. */
static void join_begins(struct cx *c)
{
	cx_forget(c);
	cx_third_joins(c);
}

static void a_joiner_gets_the_state_in_chunks(void **state)
{
	struct cx *c = *state;
	struct cx_node *joiner = &c->node[2];
	struct ddr_msg first, m;
	uint32_t got = 0;

	c->node[2].cfg = c->node[1].cfg;
	c->node[2].cfg.node = 3;
	c->node[2].cookie = 7;
	join_begins(c);
	first = decoded(&joiner->queue[0]);
	assert_int_equal(joiner->n_queue, DDR_SM_CHUNKS < first.state.count ? DDR_SM_CHUNKS : first.state.count);
	assert_true(first.state.count > 1);
	for (; got < first.state.count; got++) {
		m = decoded(&joiner->queue[0]);
		assert_int_equal(m.type, DDR_M_STATE);
		assert_int_equal(m.sender, 1);
		assert_int_equal(m.state.index, got);
		assert_int_equal(m.state.count, first.state.count);
		assert_int_equal(m.state.digest, first.state.digest);
		assert_int_equal(m.state.epoch, first.state.epoch);
		assert_false(cx_status(joiner).synced);
		assert_true(joiner->n_queue <= DDR_SM_CHUNKS);
		for (uint32_t i = 0; i < 3; i++)
			cx_deliver(c, &c->node[i], NULL);
	}
	assert_true(cx_status(joiner).synced);
	assert_false(cx_status(joiner).joined);
	c->answers = CX_ALL;
	cx_settle(c);
	assert_true(cx_status(joiner).joined && cx_status(joiner).ready);
	assert_alike(c, 7);
}

#define STATE_DATA	72u	/* the offset of a chunk's bytes in its message */

/* One byte of one chunk is changed: the digest of the whole is wrong, and none of it is accepted. */
static void a_damaged_chunk_is_not_believed(void **state)
{
	struct cx *c = *state;
	struct cx_node *joiner = &c->node[2];
	struct cx_message bad;
	int at;

	c->node[2].cfg = c->node[1].cfg;
	c->node[2].cfg.node = 3;
	join_begins(c);
	bad = joiner->queue[0];
	bad.bytes[STATE_DATA] ^= 1;		/* of the history's name: only the digest shows that it is wrong */
	cx_deliver(c, joiner, &bad);
	c->answers = CX_ALL;
	cx_settle(c);
	at = cx_find(joiner, DDR_OUT_GIVE_UP, 0);
	assert_true(at >= 0);
	assert_non_null(strstr(joiner->log[at].text, "damaged"));
	assert_false(cx_status(joiner).joined);
	assert_true(cx_status(&c->node[0]).ready && cx_status(&c->node[1]).ready);
}

/* Chunks that are skipped, repeated, of another agreement or not from the provider. */
static void state_chunks_out_of_order_are_refused(void **state)
{
	struct cx *c = *state;
	struct cx_node *joiner = &c->node[2];
	struct cx_message second, other;
	struct ddr_msg m;

	c->node[2].cfg = c->node[1].cfg;
	c->node[2].cfg.node = 3;
	join_begins(c);
	second = joiner->queue[1];
	other = joiner->queue[0];
	m = decoded(&other);
	m.sender = other.sender = 2;
	other.len = (uint32_t)ddr_msg_encode(&m, other.bytes, sizeof(other.bytes));
	cx_forget(c);
	for (int i = 0; i < 3; i++) {
		joiner->n_queue++;	/* room for the messages that it gets in between */
		memmove(joiner->queue + 1, joiner->queue, (joiner->n_queue - 1) * sizeof(joiner->queue[0]));
		if (i == 2) {		/* of an epoch that is over */
			other = joiner->queue[1];
			other.bytes[EPOCH_WORD] ^= 1;
		}
		cx_deliver(c, joiner, i == 0 ? &second : &other);
		assert_int_equal(cx_event(joiner, DDR_EV_BUG) >= 0, i == 0);
		cx_forget(c);
	}
	c->answers = CX_ALL;
	cx_settle(c);
	assert_true(cx_status(joiner).joined);	/* the right ones counted, and nothing else */
	assert_alike(c, 7);
}

/* A new view in the middle of the transfer, with one more joiner: the transfer starts over, for both. */
static void a_new_view_restarts_a_state_transfer(void **state)
{
	struct cx *c = *state;

	for (uint32_t i = 2; i < 4; i++) {
		c->node[i].cfg = c->node[1].cfg;
		c->node[i].cfg.node = i + 1;
	}
	join_begins(c);
	for (int chunk = 0; chunk < 5; chunk++)
		for (uint32_t i = 0; i < 3; i++)
			cx_deliver(c, &c->node[i], NULL);
	cx_start(c, 3, 0, 0);
	cx_view(c, 15, 15, true);
	assert_false(cx_status(&c->node[2]).synced);
	c->answers = CX_ALL;
	cx_settle(c);
	for (uint32_t i = 0; i < 4; i++)
		assert_true(cx_status(&c->node[i]).joined);
	assert_alike(c, 15);
}

/* During the transfer no node changes the state: a failure is reported when it has ended. */
static void nobody_changes_the_state_in_transfer(void **state)
{
	struct cx *c = *state;

	c->node[2].cfg = c->node[1].cfg;
	c->node[2].cfg.node = 3;
	join_begins(c);
	cx_record(c, 0, (struct ddr_rec){ .type = DDR_K_ERROR, .seq = 5, .member = 2, .status = DDR_EC_IO, .arg[0] = DDR_OP_WRITE });
	cx_deliver(c, &c->node[0], NULL);
	for (uint32_t i = 0; i < c->node[0].n; i++)
		if (c->node[0].log[i].type == DDR_OUT_MCAST) {
			struct ddr_msg m;

			assert_null(ddr_msg_decode(c->node[0].log[i].msg, c->node[0].log[i].msg_len, &m));
			assert_true(m.type == DDR_M_STATE || m.type == DDR_M_HELLO);
		}
	c->answers = CX_ALL;
	cx_settle(c);
	assert_int_equal(cx_status(&c->node[2]).member_state[2], DDR_MEMBER_FAULTY);
	assert_alike(c, 7);
}

static void two_joins_at_once(void **state)
{
	struct cx *c = *state;

	for (uint32_t i = 2; i < 4; i++) {
		c->node[i].cfg = c->node[1].cfg;
		c->node[i].cfg.node = i + 1;
		cx_start(c, i, 0, 0);
	}
	cx_view(c, 15, 15, true);
	cx_settle(c);
	for (uint32_t i = 0; i < 4; i++) {
		assert_true(cx_status(&c->node[i]).joined && cx_status(&c->node[i]).ready);
		for (uint32_t j = 0; j < i; j++)
			assert_int_not_equal(cx_sees(&c->node[0], i + 1).slot, cx_sees(&c->node[0], j + 1).slot);
	}
	assert_alike(c, 15);
}

/* ---- leaving, dying, coming back ----------------------------------------------- */

/* One event of the group in which one node leaves (cleanly, or not) and another one comes. */
static void a_node_that_leaves_and_joins_in_one_event(void **state)
{
	struct cx *c = *state;

	for (int clean = 0; clean < 2; clean++) {
		uint32_t slot;

		cx_down(c);
		cx_up(c, 2, true);
		slot = cx_sees(&c->node[0], 2).slot;
		if (clean) {
			cx_op(c, 1, DDR_IN_K_DETACHED, 0);
			cx_op(c, 1, DDR_IN_OP_LEAVE, 0);
			cx_settle(c);
			assert_true(cx_event(&c->node[1], DDR_EV_LEFT) >= 0);
		}
		cx_kill(c, 1);
		c->node[2].cfg = c->node[0].cfg;
		c->node[2].cfg.node = 3;
		cx_start(c, 2, 0, 0);
		cx_forget(c);
		cx_view(c, 5, 7, true);
		cx_settle(c);
		assert_int_equal(cx_event(&c->node[0], DDR_EV_NODE_LEFT) >= 0, clean);
		assert_int_equal(cx_event(&c->node[0], DDR_EV_NODE_LOST) >= 0, !clean);
		assert_int_equal(cx_sees(&c->node[0], 2).state, clean ? DDR_NS_LEFT : DDR_NS_SUSPECT);
		/* the slot of a node that left is free; that of a lost node is not, and it still counts in every agreement */
		assert_int_equal(cx_sees(&c->node[0], 3).slot == slot, clean);
		assert_int_equal(cx_status(&c->node[2]).joined, clean);
		if (!clean) {
			c->answers = CX_ALL | CX_FENCE;
			cx_tick(c, 40000);
			assert_true(cx_status(&c->node[2]).joined);
			c->answers = CX_ALL;
		}
		assert_alike(c, 5);
	}
}

/* Another process of the same node, without a view in between: the one before is lost until this one has declared. */
static void a_restart_in_one_event(void **state)
{
	struct cx *c = *state;

	cx_record(c, 1, (struct ddr_rec){ .type = DDR_K_LOCK, .seq = 3, .start = 2, .count = 1 });
	cx_settle(c);
	assert_int_equal(cx_status(&c->node[1]).granted, 1);
	cx_forget(c);
	c->answers = CX_MSG | CX_IO;	/* the new process's kernel takes its time */
	cx_start(c, 1, 2, 1);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	assert_true(cx_event(&c->node[0], DDR_EV_NODE_LOST) >= 0);
	assert_true(cx_event(&c->node[0], DDR_EV_NODE_JOINED) >= 0);
	assert_false(cx_status(&c->node[1]).joined);
	assert_true(ddr_sm_region(c->node[1].sm, 2) == ddr_sm_region(c->node[0].sm, 2));	/* not recovered by the other */
	c->answers = CX_ALL;
	cx_settle(c);
	assert_true(cx_status(&c->node[1]).joined);
	assert_int_equal(cx_status(&c->node[1]).granted, 1);
	assert_true(ddr_sm_region(c->node[1].sm, 2) & DDR_SM_REGION_DIRTY);
	assert_int_equal(cx_find(&c->node[0], DDR_OUT_FENCE, 0), -1);
	assert_alike(c, 3);
}

/* Rule 7: a node whose daemon is gone is fenced after its timeout, by the node whose turn it is, and recovered only then. */
static void a_dead_daemon_is_fenced_in_time(void **state)
{
	struct cx *c = *state;

	cx_record(c, 1, (struct ddr_rec){ .type = DDR_K_LOCK, .seq = 3, .start = 2, .count = 1 });
	cx_settle(c);
	cx_kill(c, 1);
	cx_view(c, 1, 3, true);
	cx_settle(c);
	cx_tick(c, 29000);
	assert_int_equal(cx_find(&c->node[0], DDR_OUT_FENCE, 0), -1);
	assert_int_equal(cx_find(&c->node[0], DDR_OUT_SLOT_WRITE, 0), -1);
	cx_tick(c, 2000);
	assert_true(cx_find(&c->node[0], DDR_OUT_FENCE, 0) >= 0);
	assert_int_equal(cx_find(&c->node[0], DDR_OUT_SLOT_WRITE, 0), -1);
	c->answers = CX_ALL | CX_FENCE;
	cx_settle(c);
	assert_true(cx_event(&c->node[0], DDR_EV_NODE_RECOVERED) >= 0);
	assert_int_equal(cx_status(&c->node[0]).resync_regions + cx_status(&c->node[0]).dirty, 0);
	assert_false(ddr_log_get(c->disk[cx_sees(&c->node[0], 2).slot % CX_SLOTS].payload, 2));
}

/* ---- partitions ---------------------------------------------------------------- */

/* Every node was alone, none had quorum: nothing was agreed on, so nothing is lost, and all nodes resume. */
static void sides_that_agreed_on_nothing_resume(void **state)
{
	struct cx *c = *state;

	cx_forget(c);
	cx_view(c, 1, 1, false);
	cx_view(c, 2, 2, false);
	cx_settle(c);
	assert_true(cx_find(&c->node[0], DDR_OUT_KERNEL, DDR_U_FREEZE) >= 0);
	assert_true(cx_find(&c->node[1], DDR_OUT_KERNEL, DDR_U_FREEZE) >= 0);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(cx_event(&c->node[i], DDR_EV_NODE_LOST), -1);
		assert_true(cx_status(&c->node[i]).ready);
		assert_int_equal(cx_status(&c->node[i]).n_nodes, 2);
	}
	assert_alike(c, 3);
}

static void all_apart(struct cx *c, uint32_t nodes)
{
	cx_down(c);
	cx_up(c, nodes, true);
	for (uint32_t i = 0; i < nodes; i++)
		cx_view(c, 1u << i, 1u << i, false);
	cx_settle(c);
	cx_forget(c);
}

/* The network heals, two have quorum, and the third needs a moment more: it is not fenced for that. */
static void a_healed_network_brings_them_one_after_the_other(void **state)
{
	struct cx *c = *state;

	all_apart(c, 3);
	cx_view(c, 3, 3, true);
	cx_tick(c, 2900);
	assert_false(cx_status(&c->node[0]).agreed);
	cx_view(c, 7, 7, true);
	cx_settle(c);
	for (uint32_t i = 0; i < 3; i++) {
		assert_true(cx_status(&c->node[i]).agreed && cx_status(&c->node[i]).ready);
		assert_int_equal(cx_event(&c->node[i], DDR_EV_NODE_LOST), -1);
	}
	assert_alike(c, 7);
}

static void an_absent_node_is_fenced(void **state)
{
	struct cx *c = *state;

	all_apart(c, 3);
	cx_view(c, 3, 3, true);
	cx_tick(c, 2900);
	assert_false(cx_status(&c->node[0]).agreed);
	cx_tick(c, 200);
	assert_true(cx_status(&c->node[0]).agreed && cx_status(&c->node[1]).agreed);
	assert_int_equal(cx_sees(&c->node[0], 3).state, DDR_NS_FENCING);
}

/* Two of four keep quorum and agree without the rest. When one comes back they do not wait for the other. */
static void a_node_that_kept_quorum_does_not_wait_for_returning_nodes(void **state)
{
	struct cx *c = *state;

	all_apart(c, 4);
	cx_view(c, 3, 3, true);
	cx_tick(c, 3100);
	assert_int_equal(cx_sees(&c->node[0], 4).state, DDR_NS_FENCING);
	cx_view(c, 7, 7, true);
	cx_settle(c);
	assert_true(cx_status(&c->node[0]).agreed);
	assert_true(cx_find(&c->node[2], DDR_OUT_GIVE_UP, 0) >= 0);
}

/* Two continued with quorum and without the third: it is evicted permanently, and the others fence it before anything is agreed with it. */
static void a_node_that_the_group_left_behind_is_evicted(void **state)
{
	struct cx *c = *state;
	struct ddr_input in = { .type = DDR_IN_NONE };
	int at;

	cx_down(c);
	cx_up(c, 3, true);
	cx_record(c, 2, (struct ddr_rec){ .type = DDR_K_LOCK, .seq = 3, .start = 2, .count = 1 });
	cx_settle(c);
	cx_view(c, 4, 4, false);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	assert_int_equal(cx_sees(&c->node[0], 3).state, DDR_NS_FENCING);	/* it is not in the quorum's members: at once */
	assert_null(c->node[0].log[cx_event(&c->node[0], DDR_EV_NODE_LOST)].text);
	cx_forget(c);
	cx_view(c, 7, 7, true);
	cx_settle(c);
	at = cx_find(&c->node[2], DDR_OUT_GIVE_UP, 0);
	assert_true(at >= 0);
	assert_int_equal(c->node[2].log[at].event, DDR_EV_EVICTED);
	assert_true(cx_status(&c->node[0]).agreed);
	assert_int_equal(cx_sees(&c->node[0], 3).state, DDR_NS_FENCING);
	/* this is final: whatever input comes, it does nothing more */
	cx_forget(c);
	for (enum ddr_in_type t = DDR_IN_NONE; t <= DDR_IN_OP_FENCE_ACK; t++) {
		in.type = t;
		cx_step(c, &c->node[2], &in);
	}
	cx_view(c, 7, 7, true);
	assert_int_equal(c->node[2].n, 0);
}

/*
 * A node that takes no part has the group's state, and is cut off, with quorum. The nodes that do take part may go on without it, and
 * fence nobody for it. So its state is void, and it reads the disks. When they meet again it has done nothing, and joins them.
 */
static void a_state_of_nodes_that_take_no_part_is_forgotten(void **state)
{
	struct cx *c = *state;
	struct cx_node *n = &c->node[2];

	n->cfg = c->node[0].cfg;
	n->cfg.node = 3;
	cx_daemon(c, 2);
	cx_view(c, 7, 7, true);
	cx_settle(c);
	assert_true(cx_status(n).synced);
	cx_forget(c);
	cx_view(c, 4, 6, true);
	cx_settle(c);
	assert_true(cx_find(n, DDR_OUT_RELOAD, 0) >= 0);
	assert_int_equal(cx_sees(n, 1).state, DDR_NS_SUSPECT);
	cx_view(c, 7, 7, true);
	cx_settle(c);
	assert_int_equal(cx_find(n, DDR_OUT_GIVE_UP, 0), -1);
	assert_true(cx_status(n).synced);
	assert_int_equal(cx_sees(n, 1).state, DDR_NS_ACTIVE);
	assert_alike(c, 7);
}

/* The instance that was fenced never takes part again; another one of the same node does. */
static void a_fenced_instance_never_comes_back(void **state)
{
	struct cx *c = *state;

	cx_kill(c, 1);
	c->answers = CX_ALL | CX_FENCE;
	cx_view(c, 1, 1, true);
	cx_settle(c);
	assert_true(cx_event(&c->node[0], DDR_EV_NODE_FENCED) >= 0);
	cx_start(c, 1, 0, 0);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	assert_true(cx_find(&c->node[1], DDR_OUT_GIVE_UP, 0) >= 0);
	assert_false(cx_status(&c->node[1]).joined);
	c->node[1].cookie++;
	cx_start(c, 1, 0, 0);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	assert_true(cx_status(&c->node[1]).joined);
	assert_alike(c, 3);
}

/* ---- fencing ------------------------------------------------------------------- */

/* A message of @type as node 2 would send it now, with a body that could be. */
static struct cx_message forged(struct cx *c, enum ddr_msg_type type)
{
	struct ddr_msg m = { .type = type, .sender = 2, .ring = c->ring, .serial = 9999 };
	struct cx_message out = { .sender = 2 };

	memcpy(m.uuid, c->sb.array_uuid, sizeof(m.uuid));
	m.epoch = 1;
	switch (type) {
	case DDR_M_STATE:
		m.state.count = 1;
		m.state.bytes = 8;
		break;
	case DDR_M_FENCED:
		m.fenced.node = 2;
		m.fenced.how = DDR_FENCED_OPERATOR;
		m.fenced.failure = 1;
		break;
	case DDR_M_MEMBER_FAIL: m.fail.soft = 1; break;
	case DDR_M_MEMBER_DONE: m.done.faulty = 1; m.done.generation = 9; m.done.seq = 99; break;
	case DDR_M_EX_REQUEST: m.ex.id = 77; m.ex.mode = DDR_EX_RANGE; m.ex.count = 1; break;
	case DDR_M_EX_ACK: m.ex_ack.owner = 1; m.ex_ack.id = 77; break;
	case DDR_M_MAP_SET: m.map_set.n = 1; m.map_set.run[0] = (struct ddr_msg_map_run){ 0, 1, DDR_MAP_OP_CLEAN }; break;
	case DDR_M_MAP_DONE: m.map_done.n = 1; m.map_done.block[0].version = 1; break;
	default: break;
	}
	out.len = (uint32_t)ddr_msg_encode(&m, out.bytes, sizeof(out.bytes));
	assert_true(out.len > 0);
	return out;
}

/* A fence-ack is for the failure that the operator saw: when it arrives the node had come back, and was lost once more. */
static void a_fence_ack_is_for_one_failure(void **state)
{
	struct cx *c = *state;
	struct cx_message word;
	struct ddr_msg m;
	uint64_t failure;

	cx_down(c);
	cx_up(c, 2, false);
	cx_kill(c, 1);
	cx_view(c, 1, 3, true);
	cx_settle(c);
	failure = cx_sees(&c->node[0], 2).failure;
	cx_start(c, 1, 0, 0);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	assert_int_equal(cx_sees(&c->node[0], 2).state, DDR_NS_ACTIVE);
	cx_kill(c, 1);
	cx_view(c, 1, 3, true);
	cx_settle(c);
	assert_int_not_equal(cx_sees(&c->node[0], 2).failure, failure);
	assert_true(cx_sees(&c->node[0], 2).failure != 0);
	/* the fence-ack for the first failure arrives now */
	word = forged(c, DDR_M_FENCED);
	m = decoded(&word);
	m.sender = word.sender = 1;
	m.epoch = 4;
	m.fenced.failure = failure;
	word.len = (uint32_t)ddr_msg_encode(&m, word.bytes, sizeof(word.bytes));
	c->node[0].n_queue = 1;
	cx_deliver(c, &c->node[0], &word);
	assert_true(cx_sees(&c->node[0], 2).failure != 0);
	m.fenced.failure = cx_sees(&c->node[0], 2).failure;
	word.len = (uint32_t)ddr_msg_encode(&m, word.bytes, sizeof(word.bytes));
	c->node[0].n_queue = 1;
	cx_deliver(c, &c->node[0], &word);	/* the same, for this failure: so only the failure's name made the difference */
	assert_int_equal(cx_sees(&c->node[0], 2).failure, 0);
	cx_forget(c);
	cx_op(c, 0, DDR_IN_OP_FENCE_ACK, 1);	/* no node is lost there */
	assert_true(cx_event(&c->node[0], DDR_EV_REFUSED) >= 0);
}

/* ---- hostile messages ---------------------------------------------------------- */

static const enum ddr_msg_type all_types[] = {
	DDR_M_START, DDR_M_HELLO, DDR_M_STATE, DDR_M_LEAVE, DDR_M_FENCED, DDR_M_RECOVER, DDR_M_RECOVERED, DDR_M_MEMBER_FAIL,
	DDR_M_MEMBER_DONE, DDR_M_MEMBER_ACK, DDR_M_EX_REQUEST, DDR_M_EX_ACK, DDR_M_EX_RELEASE, DDR_M_EX_VOID, DDR_M_MAP_SET,
	DDR_M_MAP_DONE, DDR_M_USE,
};
#define N_TYPES	(sizeof(all_types) / sizeof(all_types[0]))

/* Delivers it to node 1, which must say why it refuses it, or (@silent) say nothing, and stay as it was. */
static void refused(struct cx *c, struct cx_message *m, bool silent)
{
	struct ddr_sm_status before = cx_status(&c->node[0]), after;

	cx_forget(c);
	c->node[0].n_queue = 1;
	cx_deliver(c, &c->node[0], m);
	assert_int_equal(c->node[0].n, silent ? 0 : 1);
	if (!silent)
		assert_int_equal(cx_event(&c->node[0], DDR_EV_REFUSED), 0);
	after = cx_status(&c->node[0]);
	assert_memory_equal(&before, &after, sizeof(before));
}

static void messages_that_are_not_whole(void **state)
{
	struct cx *c = *state;

	for (size_t t = 0; t < N_TYPES; t++) {
		struct cx_message m = forged(c, all_types[t]);
		uint32_t len = m.len;

		for (m.len = 0; m.len < len; m.len++)
			refused(c, &m, false);
		m.len = len + 4;
		refused(c, &m, false);
	}
}

static void messages_of_other_groups_are_refused(void **state)
{
	struct cx *c = *state;

	for (size_t t = 0; t < N_TYPES; t++) {
		struct cx_message good = forged(c, all_types[t]), m = good;

		m.sender = 3;			/* in the name of another */
		refused(c, &m, false);
		m.bytes[12] = 3;		/* not of a node in the view */
		refused(c, &m, false);
		m = good;
		m.bytes[16] ^= 1;		/* of another array */
		refused(c, &m, false);
		m = good;
		m.bytes[RING_WORD] ^= 1;	/* of another ring */
		refused(c, &m, false);
		if (all_types[t] == DDR_M_HELLO)
			continue;
		m = good;
		m.bytes[EPOCH_WORD] ^= 2;	/* of another agreement: all refuse it alike, and it is sent again */
		refused(c, &m, true);
	}
}

/* Well-formed, and it cannot be. Nothing of it is obeyed. */
static void messages_that_contradict(void **state)
{
	static const struct { enum ddr_msg_type type; bool bug; } what[] = {
		{ DDR_M_HELLO, false },		/* of a view that is agreed on */
		{ DDR_M_STATE, false },		/* nobody asked */
		{ DDR_M_FENCED, false },	/* nobody is lost */
		{ DDR_M_RECOVER, true }, { DDR_M_RECOVERED, true },	/* no slot is due */
		{ DDR_M_MEMBER_DONE, true },	/* not from the writer, and of no change */
		{ DDR_M_MEMBER_ACK, true },
		{ DDR_M_EX_RELEASE, true }, { DDR_M_EX_ACK, false },	/* of a range that was cancelled, for all we know */
		{ DDR_M_MAP_DONE, false },	/* of a version that was durable before */
	};
	struct cx *c = *state;

	for (size_t i = 0; i < sizeof(what) / sizeof(what[0]); i++) {
		struct cx_message m = forged(c, what[i].type);
		struct ddr_sm_status before = cx_status(&c->node[0]), after;

		cx_forget(c);
		c->node[0].n_queue = 1;
		cx_deliver(c, &c->node[0], &m);
		assert_int_equal(cx_event(&c->node[0], DDR_EV_BUG) >= 0, what[i].bug);
		assert_int_equal(c->node[0].n, what[i].bug);
		after = cx_status(&c->node[0]);
		assert_memory_equal(&before, &after, sizeof(before));
	}
}

/* A slot that one node recovers is not RECOVERED by another node's message, nor taken by its owner. */
static void only_the_claimer_ends_a_recovery(void **state)
{
	struct cx *c = *state;
	struct cx_message m;
	struct ddr_msg msg;
	uint32_t slot;

	cx_down(c);
	cx_up(c, 3, true);
	cx_record(c, 2, (struct ddr_rec){ .type = DDR_K_LOCK, .seq = 3, .start = 2, .count = 1 });
	cx_settle(c);
	slot = cx_sees(&c->node[0], 3).slot;
	cx_kill(c, 2);
	c->answers = CX_MSG | CX_KERNEL | CX_FENCE;	/* no I/O: the slot is being read */
	cx_view(c, 3, 3, true);
	cx_settle(c);
	assert_int_equal(cx_sees(&c->node[0], 3).state, DDR_NS_RECOVERING);
	assert_true(cx_find(&c->node[0], DDR_OUT_SLOT_READ, 0) >= 0);
	m = forged(c, DDR_M_RECOVERED);
	msg = decoded(&m);
	msg.recover.slot = slot;
	msg.epoch = 2;
	m.len = (uint32_t)ddr_msg_encode(&msg, m.bytes, sizeof(m.bytes));
	for (uint32_t i = 0; i < 2; i++) {
		c->node[i].n_queue = 1;
		cx_deliver(c, &c->node[i], &m);
		assert_int_equal(cx_sees(&c->node[i], 3).state, DDR_NS_RECOVERING);
	}
	/* another process of the owner, after a reboot: its START waits until its slot is recovered */
	c->node[2].cookie++;
	cx_start(c, 2, 0, 0);
	cx_view(c, 7, 7, true);
	cx_settle(c);
	assert_int_equal(cx_sees(&c->node[0], 3).state, DDR_NS_RECOVERING);
	c->answers = CX_ALL;
	cx_tick(c, 2000);
	assert_true(cx_status(&c->node[2]).joined);
	assert_alike(c, 7);
}

/* Rule 11: a slot that is unreadable is read again; a slot whose blocks no member has any more counts as dirty everywhere. */
static void an_unreadable_slot_of_a_dead_node_is_all_dirty(void **state)
{
	struct cx *c = *state;
	int at;

	cx_kill(c, 1);
	cx_forget(c);
	c->bad_reads = 3;
	c->answers = CX_ALL | CX_FENCE;
	cx_view(c, 1, 1, true);
	cx_settle(c);
	assert_int_equal(cx_event(&c->node[0], DDR_EV_NODE_RECOVERED), -1);
	for (int i = 0; i < 3; i++)
		cx_tick(c, 2000);
	at = cx_event(&c->node[0], DDR_EV_RECOVERY);
	assert_true(at >= 0);
	assert_int_equal(c->node[0].log[at].a, cx_status(&c->node[0]).regions);
	assert_true(cx_event(&c->node[0], DDR_EV_NODE_RECOVERED) > at);
	assert_true(cx_find(&c->node[0], DDR_OUT_JOB_RANGE, 0) >= 0);
	assert_int_equal(cx_status(&c->node[0]).clean, cx_status(&c->node[0]).regions);
}

/* ---- rule 3 -------------------------------------------------------------------- */

static int out_told(const struct cx_node *n, uint64_t kmember)
{
	for (uint32_t i = 0; i < n->n; i++)
		if (n->log[i].type == DDR_OUT_KERNEL && n->log[i].rec.type == DDR_U_MEMBER && n->log[i].rec.arg[0] == kmember)
			return (int)i;
	return -1;
}

/* Whichever node is slow, the other ones' kernels do without the member only after it obeys; or after it was proven dead. */
static void rule_3_out_after_all_have_stopped_reading(void **state)
{
	struct cx *c = *state;

	for (uint32_t slow = 0; slow < 6; slow++) {
		bool dies = slow >= 3;
		uint32_t late = slow % 3, seen = (late + 1) % 3;

		if (dies && late == 0)
			continue;	/* the writer: its successor starts over */
		cx_down(c);
		cx_up(c, 3, true);
		cx_forget(c);
		c->answers = CX_MSG | CX_IO;
		cx_record(c, seen, (struct ddr_rec){ .type = DDR_K_ERROR, .seq = 5, .member = 2, .status = DDR_EC_IO,
						     .arg[0] = DDR_OP_WRITE });
		cx_settle(c);
		for (uint32_t i = 0; i < 3; i++) {
			int told = out_told(&c->node[i], DDR_KM_LEAVING);

			assert_true(told >= 0);
			assert_int_equal(out_told(&c->node[i], DDR_KM_OUT), -1);
			if (i == late)
				continue;
			cx_kernel_answer(c, &c->node[i], (uint32_t)told);
		}
		cx_settle(c);
		for (uint32_t i = 0; i < 3; i++)
			assert_int_equal(out_told(&c->node[i], DDR_KM_OUT), -1);
		assert_int_equal(cx_find(&c->node[seen], DDR_OUT_KERNEL, DDR_U_RESOLVE), -1);
		if (dies) {
			cx_kill(c, late);
			cx_view(c, 7 & ~(1u << late), 7 & ~(1u << late), true);
			cx_settle(c);
			assert_int_equal(out_told(&c->node[seen], DDR_KM_OUT), -1);
			c->answers |= CX_FENCE;
		} else {
			cx_kernel_answer(c, &c->node[late], (uint32_t)out_told(&c->node[late], DDR_KM_LEAVING));
		}
		cx_settle(c);
		assert_true(out_told(&c->node[seen], DDR_KM_OUT) >= 0);
		assert_true(cx_find(&c->node[seen], DDR_OUT_KERNEL, DDR_U_RESOLVE) > out_told(&c->node[seen], DDR_KM_OUT));
	}
}

/* ---- a table without a member --------------------------------------------------- */

/* The others use the member: the node is refused, since it reaches fewer members than they do, and the member stays. */
static void rule_4_a_node_whose_table_lacks_a_member_fails_nobody(void **state)
{
	struct ddr_input error = { .type = DDR_IN_K_REC, .rec = { .type = DDR_K_ERROR, .seq = 5, .member = 2, .status = DDR_EC_ABSENT,
								 .start = 3, .count = 1, .arg = { DDR_OP_WRITE } } };
	struct cx *c = *state;

	cx_forget(c);
	c->node[1].cfg.present &= ~4u;
	cx_start(c, 1, 1, 1);
	cx_step(c, &c->node[1], &error);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	assert_true(cx_find(&c->node[1], DDR_OUT_GIVE_UP, 0) >= 0);
	assert_int_equal(cx_find(&c->node[1], DDR_OUT_KERNEL, DDR_U_RESOLVE), -1);	/* KILL ends the waiting bios */
	assert_int_equal(cx_status(&c->node[0]).member_state[2], DDR_MEMBER_IN_SYNC);
	assert_int_equal(cx_status(&c->node[0]).generation, 1);
	assert_true(cx_status(&c->node[0]).ready);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, cx_teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_joiner_gets_the_state_in_chunks), TEST(a_damaged_chunk_is_not_believed), TEST(state_chunks_out_of_order_are_refused),
		TEST(a_new_view_restarts_a_state_transfer), TEST(nobody_changes_the_state_in_transfer), TEST(two_joins_at_once),
		TEST(a_node_that_leaves_and_joins_in_one_event), TEST(a_restart_in_one_event), TEST(a_dead_daemon_is_fenced_in_time),
		TEST(sides_that_agreed_on_nothing_resume), TEST(a_healed_network_brings_them_one_after_the_other), TEST(an_absent_node_is_fenced),
		TEST(a_node_that_kept_quorum_does_not_wait_for_returning_nodes), TEST(a_node_that_the_group_left_behind_is_evicted), TEST(a_state_of_nodes_that_take_no_part_is_forgotten),
		TEST(a_fenced_instance_never_comes_back), TEST(a_fence_ack_is_for_one_failure),
		TEST(messages_that_are_not_whole), TEST(messages_of_other_groups_are_refused), TEST(messages_that_contradict),
		TEST(only_the_claimer_ends_a_recovery), TEST(an_unreadable_slot_of_a_dead_node_is_all_dirty),
		TEST(rule_3_out_after_all_have_stopped_reading),
		TEST(rule_4_a_node_whose_table_lacks_a_member_fails_nobody),
	};

	return cmocka_run_group_tests_name("state machine: several nodes", tests, NULL, NULL);
}
