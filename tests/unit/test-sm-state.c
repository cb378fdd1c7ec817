// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A joiner gets a state with a correct digest and wrong content, as from a node with faulty memory. Whatever it is, the joiner gives
 * up or continues with what is consistent, and nothing in it leads to out-of-bounds accesses (under the sanitizers). One byte in 89
 * is changed: each takes a new machine.
 */
#include "sm-cluster.h"

#define STATE_MAX	(64u * DDR_STATE_DATA)

struct fx { struct cx *c; struct ddr_msg head; uint8_t bytes[STATE_MAX]; uint32_t used; };

/* As lib/cluster/sm_join.c makes it, from doc/protocol.md. */
static uint64_t digest_of(const uint8_t *p, uint32_t n)
{
	uint64_t h = n;

	for (uint32_t i = 0; i < n; i += 8) {
		uint64_t x = 0;

		memcpy(&x, p + i, n - i < 8 ? n - i : 8);
		x ^= h;
		x += 0x9e3779b97f4a7c15ull;
		x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
		x = (x ^ x >> 27) * 0x94d049bb133111ebull;
		h = x ^ x >> 31;
	}
	return h;
}

/* Two nodes with a region held, and a third one that waits for the state; all its chunks are taken away from it. */
static void join_begins(struct fx *f)
{
	struct cx *c = f->c;

	cx_up(c, 2, true);
	c->node[2].cfg = c->node[1].cfg;
	c->node[2].cfg.node = 3;
	c->node[2].cookie = 7;
	cx_record(c, 1, (struct ddr_rec){ .type = DDR_K_LOCK, .seq = 100, .start = 1, .count = 1 });
	cx_settle(c);
	cx_third_joins(c);
}

static void chunks_take(struct fx *f)
{
	struct cx *c = f->c;
	struct cx_node *joiner = &c->node[2];
	struct cx_message m;
	struct ddr_msg msg;

	f->used = 0;
	do {
		assert_true(joiner->n_queue > 0);
		m = joiner->queue[0];
		memmove(joiner->queue, joiner->queue + 1, --joiner->n_queue * sizeof(m));
		assert_null(ddr_msg_decode(m.bytes, m.len, &msg));
		assert_int_equal(msg.type, DDR_M_STATE);
		if (!f->used)
			f->head = msg;
		assert_true(f->used + msg.state.bytes <= STATE_MAX);
		memcpy(f->bytes + f->used, msg.state.data, msg.state.bytes);
		f->used += msg.state.bytes;
		cx_deliver(c, &c->node[0], NULL);
		cx_deliver(c, &c->node[1], NULL);
	} while (msg.state.index + 1 < msg.state.count);
	assert_int_equal(digest_of(f->bytes, f->used), f->head.state.digest);
}

static void chunks_give(struct fx *f)
{
	struct cx_node *joiner = &f->c->node[2];
	struct cx_message as = { .sender = f->head.sender };
	struct ddr_msg msg = f->head;

	msg.state.digest = digest_of(f->bytes, f->used);
	for (uint32_t i = 0; i < msg.state.count; i++) {
		msg.state.index = i;
		msg.state.bytes = f->used - i * DDR_STATE_DATA < DDR_STATE_DATA ? f->used - i * DDR_STATE_DATA : DDR_STATE_DATA;
		memcpy(msg.state.data, f->bytes + i * DDR_STATE_DATA, msg.state.bytes);
		as.len = (uint32_t)ddr_msg_encode(&msg, as.bytes, sizeof(as.bytes));
		joiner->n_queue++;
		cx_deliver(f->c, joiner, &as);
	}
}

/* Some time at the joiner, which hears nothing more: cx_step() looks at its consistency at each step. */
static void joiner_lives(struct fx *f)
{
	struct ddr_input in = { .type = DDR_IN_TICK };
	struct cx_node *joiner = &f->c->node[2];

	for (uint32_t i = 0; i < 4; i++) {
		for (uint32_t o = 0; o < joiner->n && o < 200; o++)
			if (joiner->open[o] && cx_is_io(&joiner->log[o]) && joiner->log[o].type != DDR_OUT_SB_WRITE)
				cx_done(f->c, joiner, o);
		in.now_ms = f->c->now += 1000;
		cx_step(f->c, joiner, &in);
	}
}

/* A change of one byte of the state; @op: the operation to write at its place for a member, or 0. */
static bool survives_op(struct fx *f, uint32_t at, uint8_t value, uint32_t op_at, uint8_t op)
{
	bool up;

	join_begins(f);
	chunks_take(f);
	if (at < f->used)
		f->bytes[at] = value == f->bytes[at] ? (uint8_t)~value : value;
	if (op)
		f->bytes[op_at] = op;
	chunks_give(f);
	up = cx_find(&f->c->node[2], DDR_OUT_GIVE_UP, 0) < 0;
	if (up)
		joiner_lives(f);
	else
		assert_false(cx_status(&f->c->node[2]).joined);
	cx_down(f->c);
	return up;
}

static bool survives(struct fx *f, uint32_t at, uint8_t value)
{
	return survives_op(f, at, value, 0, 0);
}

#define STEP	89u	/* bytes: meets other places of each record of a table that repeats */

static void a_damaged_state_is_refused_or_harmless(void **state)
{
	struct fx *f = *state;
	uint32_t refused = 0, tried = 0;

	assert_true(survives(f, STATE_MAX, 0));
	for (uint32_t at = 0, end = f->used; at < end; at += STEP, tried++)
		refused += !survives(f, at, tried % 2 ? 0xff : 0x07);
	assert_true(refused > 0 && refused < tried);
}

/* The offset of the member in a pending change (doc/protocol.md, "STATE"): after history, superblock and the earlier operations. */
static uint32_t place_of_set_member(const struct cx *c)
{
	uint32_t head = 8 + 8 + 4 + 4 + 1 + 1 + 8 + 4 * DDR_MAX_SLOTS;
	uint32_t super = 8 + 8 + 8 + 8 + 4 + 4 + 16 + 16 + 2 + DDR_MAX_MEMBERS * (16 + 1 + 1 + 2 + 8 + 8 + 8) + c->sb.slots * 4 + 4 + 3 + 5 * 8;

	return head + super + 1 + 8 + 4 + 4 + 4 + 4 + 8 + 8 + 1 + 1 + 4 * DDR_MAX_SLOTS + 4;
}

static void a_change_of_a_member_that_does_not_exist(void **state)
{
	struct fx *f = *state;
	uint32_t at;

	f->c->spares = 1;
	assert_true(survives(f, STATE_MAX, 0));
	at = place_of_set_member(f->c);
	assert_true(survives_op(f, at, (uint8_t)(f->c->sb.members - 1), at - 4, DDR_MEMBER_OP_BACK));
	assert_false(survives_op(f, at, (uint8_t)f->c->sb.members, at - 4, DDR_MEMBER_OP_BACK));
	assert_false(survives_op(f, at, 0xff, at - 4, DDR_MEMBER_OP_BACK));
	assert_false(survives_op(f, at, 1, at - 4, 0xff));	/* no such operation */
	assert_false(survives_op(f, at + 4, 1, at - 4, DDR_MEMBER_OP_BACK));	/* a role, which is not its to give */
	assert_false(survives_op(f, at + 4, 0xff, at - 4, DDR_MEMBER_OP_TAKE));
	assert_false(survives_op(f, at + 4, 0xff, at - 4, DDR_MEMBER_OP_REPLACE));
}

static int setup(void **state)
{
	struct fx *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->c = calloc(1, sizeof(*f->c));
	assert_non_null(f->c);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fx *f = *state;

	cx_down(f->c);
	free(f->c);
	free(f);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_damaged_state_is_refused_or_harmless, setup, teardown),
		cmocka_unit_test_setup_teardown(a_change_of_a_member_that_does_not_exist, setup, teardown),
	};

	return cmocka_run_group_tests_name("state machine: a wrong state", tests, NULL, NULL);
}
