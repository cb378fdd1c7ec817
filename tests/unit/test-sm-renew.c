// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A log that is its owner's (format 2): a kernel that is new to its slot writes all of the log anew, in both places, and the superblocks say from which
 * sequence on it is its own, before anything is granted. What has a lower one landed late (note 25).
 */
#include "tests/unit/sm-cluster.h"

#define SPARE	6u	/* behind the roles */

/* Arrays of format 2. */
static struct cx *make(uint32_t nodes, uint16_t spares)
{
	struct cx *c = calloc(1, sizeof(*c));

	assert_non_null(c);
	c->spares = spares;
	cx_make(c, nodes, false);
	c->geo.owners = true;
	rig_super(&c->sb, &c->geo);
	ddr_owners_init(&c->owners, &c->sb);
	for (uint32_t i = 0; i < nodes; i++)
		c->node[i].cookie = 70 + i;	/* each kernel's own */
	return c;
}

static struct cx *up(uint32_t nodes, uint16_t spares)
{
	struct cx *c = make(nodes, spares);

	for (uint32_t i = 0; i < nodes; i++)
		cx_start(c, i, 0, 0);
	cx_view(c, (1u << nodes) - 1, (1u << nodes) - 1, true);
	cx_settle(c);
	for (uint32_t i = 0; i < nodes; i++)
		assert_true(cx_status(&c->node[i]).joined);
	return c;
}

static void down(struct cx *c)
{
	cx_down(c);
	free(c);
}

static uint32_t slot_of(const struct cx *c, uint32_t node)
{
	for (uint32_t s = 0; s < CX_SLOTS; s++)
		if (c->sb.slot_node[s] == node)
			return s;
	fail_msg("no slot of the disks is node %u's", node);
	return 0;
}

static bool is_mcast(const struct ddr_output *o, enum ddr_msg_type type)
{
	struct ddr_msg msg;

	return o->type == DDR_OUT_MCAST && !ddr_msg_decode(o->msg, o->msg_len, &msg) && msg.type == type;
}

/* How many outputs of the type the node has had, or RENEWED (MCAST). */
static uint32_t count(const struct cx_node *n, enum ddr_out_type type)
{
	uint32_t k = 0;

	for (uint32_t i = 0; i < n->n; i++)
		k += n->log[i].type == type && (type != DDR_OUT_MCAST || is_mcast(&n->log[i], DDR_M_RENEWED));
	return k;
}

/* Ends the node's I/O that is open now, and lets nothing else happen but messages and answers of kernels. */
static void io_ends(struct cx *c, struct cx_node *n, enum ddr_out_type type)
{
	c->answers = CX_MSG | CX_KERNEL;
	cx_done(c, n, cx_open(n, type));
	cx_settle(c);
}

static bool is_granted(const struct cx_node *n)
{
	return cx_find(n, DDR_OUT_KERNEL, DDR_U_GRANT) >= 0 || cx_find(n, DDR_OUT_KERNEL, DDR_U_ENABLE) >= 0;
}

/* A new owner: both places of its log, then the message, then the superblocks; and nothing is granted before. */
static void a_new_owner_writes_its_log_anew(void **state)
{
	struct cx *c = make(1, 0);
	struct cx_node *n = &c->node[0];
	struct ddr_rec lock = { .type = DDR_K_LOCK, .seq = 5, .start = 2, .count = 1 };
	struct ddr_log_info info;
	uint64_t first;

	(void)state;
	cx_start(c, 0, 0, 0);
	c->answers = CX_MSG | CX_KERNEL;
	cx_view(c, 1, 1, true);
	cx_settle(c);
	io_ends(c, n, DDR_OUT_RELOAD);		/* a state from the disks */
	io_ends(c, n, DDR_OUT_RELOAD);		/* the first writer reads again */
	io_ends(c, n, DDR_OUT_SB_WRITE);	/* the slot is its own from here on */
	assert_int_equal(c->sb.slot_node[0], 1);
	assert_false(c->owners.slot[0].renewed);
	assert_int_equal(n->log[cx_open(n, DDR_OUT_SLOT_READ)].since, 0);
	io_ends(c, n, DDR_OUT_SLOT_READ);
	cx_record(c, 0, lock);
	io_ends(c, n, DDR_OUT_LOG_WRITE);
	assert_int_equal(ddr_log_decode(&c->disk[0], &c->sb, 0, 0, 0, &info).code ? ddr_log_decode(&c->disk[0], &c->sb, 0, 0, 1, &info).code : DDR_FE_OK, DDR_FE_OK);
	first = info.seq;
	assert_int_equal(info.boot_id[0], 1);
	assert_int_equal(count(n, DDR_OUT_MCAST), 0);
	io_ends(c, n, DDR_OUT_LOG_WRITE);
	assert_int_equal(ddr_log_decode(&c->disk[0], &c->sb, 0, 0, (first + 1) & 1, &info).code, DDR_FE_OK);
	assert_int_equal(info.seq, first + 1);	/* the other place */
	assert_int_equal(count(n, DDR_OUT_MCAST), 1);
	assert_false(is_granted(n));
	assert_false(cx_status(n).joined);
	io_ends(c, n, DDR_OUT_SB_WRITE);
	assert_true(cx_status(n).joined && cx_status(n).ready);
	assert_true(is_granted(n));
	assert_true(c->owners.slot[0].renewed);
	assert_true(c->owners.slot[0].log_seq && c->owners.slot[0].log_seq <= first);
	assert_int_equal(c->sb.compat, DDR_COMPAT_LOG_SEQ);
	down(c);
}

/* Only its daemon has died: the log is its own as before. */
static void a_kernel_that_lived_goes_on_in_its_log(void **state)
{
	struct cx *c = up(2, 0);
	const struct ddr_owner *w = &c->owners.slot[slot_of(c, 2)];
	uint64_t begins = w->log_seq;

	(void)state;
	assert_true(begins && w->renewed);
	cx_start(c, 1, 0, 0);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	assert_true(cx_status(&c->node[1]).joined);
	assert_int_equal(c->node[1].log[cx_find(&c->node[1], DDR_OUT_SLOT_READ, 0)].since, begins);
	assert_int_equal(count(&c->node[1], DDR_OUT_MCAST), 0);
	assert_int_equal(count(&c->node[1], DDR_OUT_LOG_WRITE), 0);
	assert_true(w->renewed && w->log_seq == begins);
	down(c);
}

/* A machine that has booted again reads what its last kernel has marked by where that one's log began, and then begins its own. */
static void another_kernel_begins_its_own(void **state)
{
	struct cx *c = up(2, 0);
	const struct ddr_owner *w = &c->owners.slot[slot_of(c, 2)];
	struct ddr_rec lock = { .type = DDR_K_LOCK, .seq = 5, .start = 2, .count = 1 };
	uint64_t begins = w->log_seq;

	(void)state;
	cx_record(c, 1, lock);
	cx_settle(c);
	c->node[1].cookie = 171;
	cx_start(c, 1, 0, 0);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	assert_true(cx_status(&c->node[1]).joined);
	assert_int_equal(c->node[1].log[cx_find(&c->node[1], DDR_OUT_SLOT_READ, 0)].since, begins);
	assert_int_equal(c->node[1].log[cx_event(&c->node[1], DDR_EV_RECOVERY)].a, 1);	/* the region that was marked */
	assert_true(w->renewed && w->log_seq > begins);
	assert_int_equal(w->instance.cookie, 171);
	down(c);
}

/* A node dies, and what is read of its log was written by somebody before it: nobody knows what it has marked (note 25). */
static void a_log_under_a_late_write_is_all_dirty(void **state)
{
	struct cx *c = up(2, 0);
	uint32_t slot = slot_of(c, 2);
	struct ddr_log_info info = { .slot = (uint16_t)slot, .node = 2, .generation = c->sb.generation };
	int at;

	(void)state;
	memset(&c->disk[slot], 0, sizeof(c->disk[slot]));
	info.seq = c->owners.slot[slot].log_seq - 1;
	memcpy(info.array_uuid, c->sb.array_uuid, sizeof(info.array_uuid));
	ddr_log_encode(&c->disk[slot], &info);
	cx_kill(c, 1);
	cx_view(c, 1, 1, true);
	cx_settle(c);
	cx_op(c, 0, DDR_IN_OP_FENCE_ACK, 2);
	cx_settle(c);
	at = cx_event(&c->node[0], DDR_EV_RECOVERY);
	assert_true(at >= 0);
	assert_int_equal(c->node[0].log[at].a, 4);	/* all regions */
	down(c);
}

/* All ends but jobs. */
static void settle_without_jobs(struct cx *c)
{
	for (bool again = true; again;) {
		again = false;
		c->answers = CX_MSG | CX_KERNEL;
		cx_settle(c);
		for (struct cx_node *n = c->node; n < c->node + CX_NODES && !again; n++)
			for (uint32_t i = 0; i < n->n && !again; i++)
				if (n->open[i] && cx_is_io(&n->log[i]) && n->log[i].type != DDR_OUT_JOB_RANGE) {
					cx_done(c, n, i);
					again = true;
				}
	}
	c->answers = CX_ALL;
}

/* A disk that is rebuilt may have any old block in any place: every node writes both, also one that starts meanwhile and has nothing to write anew. */
static void a_member_that_is_rebuilt_gets_both_places(void **state)
{
	struct ddr_input replace = { .type = DDR_IN_OP_REPLACE, .member = 0, .value = SPARE };
	struct cx *c = up(2, 1);

	(void)state;
	cx_wrote(c, 0, 2);
	cx_forget(c);
	cx_step(c, &c->node[0], &replace);
	settle_without_jobs(c);
	assert_int_equal(c->sb.member[SPARE].state, DDR_MEMBER_REBUILDING);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(count(&c->node[i], DDR_OUT_LOG_WRITE), 2);
	cx_start(c, 1, 0, 0);
	cx_view(c, 3, 3, true);
	settle_without_jobs(c);
	assert_true(cx_status(&c->node[1]).joined);
	assert_int_equal(c->sb.member[SPARE].state, DDR_MEMBER_REBUILDING);
	assert_int_equal(count(&c->node[1], DDR_OUT_LOG_WRITE), 2);
	assert_int_equal(count(&c->node[1], DDR_OUT_MCAST), 0);
	down(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_owner_writes_its_log_anew),
		cmocka_unit_test(a_kernel_that_lived_goes_on_in_its_log),
		cmocka_unit_test(another_kernel_begins_its_own),
		cmocka_unit_test(a_log_under_a_late_write_is_all_dirty),
		cmocka_unit_test(a_member_that_is_rebuilt_gets_both_places),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
