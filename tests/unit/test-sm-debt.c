// SPDX-License-Identifier: GPL-2.0-or-later
/* What nodes owe each other, and since when (lib/cluster/sm_debt.c). */
#include "lib/wire/node_msg.h"
#include "tests/unit/sm-cluster.h"

static struct ddr_node_debts list;

/* What node @at + 1 knows now that node @node owes; NULL: it owes nothing of that kind. */
static const struct ddr_node_debt *owes(const struct cx *c, uint32_t at, enum ddr_debt_kind kind, uint32_t node)
{
	memset(&list, 0, sizeof(list));
	ddr_sm_debts(c->node[at].sm, c->now, &list);
	assert_true(list.n <= list.total);
	for (uint32_t i = 0; i < list.n; i++)
		if (list.debt[i].kind == kind && list.debt[i].node == node)
			return &list.debt[i];
	return NULL;
}

static uint32_t total(const struct cx *c, uint32_t at)
{
	owes(c, at, DDR_DEBT_HELLO, 0);
	return list.total;
}

static void is_owed(const struct cx *c, uint32_t at, enum ddr_debt_kind kind, uint32_t node, uint32_t since, uint32_t quiet)
{
	const struct ddr_node_debt *d = owes(c, at, kind, node);

	assert_non_null(d);
	assert_memory_equal(d->uuid, c->sb.array_uuid, sizeof(d->uuid));
	assert_int_equal(d->since_ms, since);
	assert_int_equal(d->quiet_ms, quiet);
}

static int two_nodes(void **state)
{
	return cx_setup(state, 2);
}

static int three_nodes(void **state)
{
	return cx_setup(state, 3);
}

/* The first node writes to the region. */
static void writes(struct cx *c, uint64_t region)
{
	c->answers = CX_ALL;
	cx_record(c, 0, (struct ddr_rec){ .type = DDR_K_LOCK, .seq = 900 + region, .start = region, .count = 1 });
	cx_settle(c);
	cx_forget(c);
	c->answers = CX_IO | CX_KERNEL;
}

/* Its write there fails, so it resyncs the region, and wants a range. Messages are delivered by the caller. */
static void wants_range(struct cx *c, uint64_t region)
{
	cx_record(c, 0, (struct ddr_rec){ .type = DDR_K_CLOSED, .seq = 900 + region, .start = region, .count = 1, .status = -5 });
	cx_settle(c);
}

static void wants_resync(struct cx *c, uint64_t region)
{
	writes(c, region);
	wants_range(c, region);
}

static void deliver_to(struct cx *c, uint32_t i)
{
	for (uint32_t n = c->node[i].n_queue; n; n--)
		cx_deliver(c, &c->node[i], NULL);
	cx_settle(c);
}

static void who_has_all_owes_nothing(void **state)
{
	const struct cx *c = *state;

	assert_int_equal(total(c, 0), 0);
	assert_int_equal(total(c, 1), 0);
}

/* The owner of the range knows who has not acknowledged it. The debtor says why; the third node has nothing to do with it. */
static void a_range_is_not_acknowledged(void **state)
{
	struct cx *c = *state;

	wants_resync(c, 3);
	deliver_to(c, 0);		/* the request, and the acknowledgement of the first node */
	deliver_to(c, 0);
	is_owed(c, 0, DDR_DEBT_EX_ACK, 2, 0, 0);
	cx_tick(c, 4000);
	is_owed(c, 0, DDR_DEBT_EX_ACK, 2, 4000, 4000);
	is_owed(c, 0, DDR_DEBT_EX_ACK, 3, 4000, 4000);
	assert_null(owes(c, 0, DDR_DEBT_EX_ACK, 1));
	assert_int_equal(owes(c, 0, DDR_DEBT_EX_ACK, 2)->why, DDR_WHY_UNKNOWN);
	c->answers = CX_IO;		/* the kernels of the others keep it */
	deliver_to(c, 1);
	deliver_to(c, 2);
	cx_tick(c, 2000);
	assert_int_equal(owes(c, 1, DDR_DEBT_EX_ACK, 2)->why, DDR_WHY_KERNEL);
	is_owed(c, 1, DDR_DEBT_EX_ACK, 2, 2000, 2000);
	assert_null(owes(c, 1, DDR_DEBT_EX_ACK, 3));
	c->answers = CX_IO | CX_KERNEL;
	cx_settle(c);
	c->answers = CX_IO;
	deliver_to(c, 0);
	assert_null(owes(c, 0, DDR_DEBT_EX_ACK, 2));
	assert_null(owes(c, 1, DDR_DEBT_EX_ACK, 3));
}

/* It belongs to its owner then, and writers of all nodes wait there until it has ended. */
static void a_range_is_not_released(void **state)
{
	struct cx *c = *state;

	wants_resync(c, 3);
	deliver_to(c, 0);
	c->answers = 0;
	deliver_to(c, 1);
	cx_tick(c, 3000);
	is_owed(c, 1, DDR_DEBT_EX_ACK, 2, 3000, 3000);
	c->answers = CX_MSG | CX_KERNEL;	/* the job's disk hangs; only from now on it is the owner's turn */
	cx_settle(c);
	is_owed(c, 1, DDR_DEBT_EX_RELEASE, 1, 0, 0);
	cx_tick(c, 6000);
	is_owed(c, 1, DDR_DEBT_EX_RELEASE, 1, 6000, 6000);
	assert_int_equal(owes(c, 1, DDR_DEBT_EX_RELEASE, 1)->why, DDR_WHY_UNKNOWN);
	assert_int_equal(owes(c, 0, DDR_DEBT_EX_RELEASE, 1)->why, DDR_WHY_DISK);
	assert_null(owes(c, 0, DDR_DEBT_EX_ACK, 2));
	c->answers = CX_ALL;
	cx_settle(c);
	assert_int_equal(total(c, 1), 0);
	assert_int_equal(total(c, 0), 0);
}

/* When the oldest range is acknowledged, the debtor has done something, and the next one has its own age. */
static void the_oldest_range_counts(void **state)
{
	struct cx *c = *state;
	uint32_t drain;

	writes(c, 1);
	wants_resync(c, 3);
	deliver_to(c, 0);
	cx_tick(c, 1000);
	wants_range(c, 1);
	deliver_to(c, 0);
	deliver_to(c, 0);
	cx_tick(c, 3000);
	is_owed(c, 0, DDR_DEBT_EX_ACK, 2, 4000, 4000);
	c->answers = CX_IO;
	deliver_to(c, 1);
	for (drain = 0; c->node[1].log[drain].type != DDR_OUT_KERNEL || c->node[1].log[drain].rec.type != DDR_U_DRAIN; drain++)
		assert_true(drain < c->node[1].n);
	cx_kernel_answer(c, &c->node[1], drain);	/* of the first range alone */
	deliver_to(c, 0);
	is_owed(c, 0, DDR_DEBT_EX_ACK, 2, 3000, 0);
	cx_tick(c, 500);
	is_owed(c, 0, DDR_DEBT_EX_ACK, 2, 3500, 500);
}

/* Who does not acknowledge a change of the members is known to all; whoever writes the superblocks as well. */
static void a_change_is_not_acknowledged(void **state)
{
	struct cx *c = *state;
	struct ddr_input in = { .type = DDR_IN_OP_FAIL_MEMBER, .member = 1 };

	c->answers = CX_MSG | CX_KERNEL;
	cx_step(c, &c->node[1], &in);
	cx_settle(c);
	cx_tick(c, 2000);
	is_owed(c, 0, DDR_DEBT_MEMBER_DONE, 1, 2000, 0);	/* by its own clock */
	assert_int_equal(owes(c, 0, DDR_DEBT_MEMBER_DONE, 1)->why, DDR_WHY_DISK);
	is_owed(c, 2, DDR_DEBT_MEMBER_DONE, 1, 2000, 2000);
	c->answers = CX_MSG | CX_IO;
	cx_settle(c);
	cx_tick(c, 5000);
	is_owed(c, 2, DDR_DEBT_MEMBER_ACK, 2, 5000, 5000);
	is_owed(c, 1, DDR_DEBT_MEMBER_ACK, 2, 5000, 0);	/* it waits for the others itself */
	assert_int_equal(owes(c, 1, DDR_DEBT_MEMBER_ACK, 2)->why, DDR_WHY_KERNEL);
	assert_int_equal(owes(c, 2, DDR_DEBT_MEMBER_ACK, 2)->why, DDR_WHY_UNKNOWN);
	assert_null(owes(c, 2, DDR_DEBT_MEMBER_DONE, 1));
	c->answers = CX_ALL;
	cx_settle(c);
	assert_int_equal(total(c, 2), 0);
}

/* Answers all but requests of one type. */
static void settle_but(struct cx *c, enum ddr_out_type type)
{
	c->answers = CX_MSG | CX_KERNEL | CX_FENCE;
	for (bool again = true; again;) {
		again = false;
		cx_settle(c);
		for (uint32_t i = 0; i < CX_NODES && !again; i++)
			for (uint32_t o = 0; c->node[i].sm && o < c->node[i].n && !again; o++)
				if (c->node[i].open[o] && cx_is_io(&c->node[i].log[o]) && c->node[i].log[o].type != type) {
					cx_done(c, &c->node[i], o);
					again = true;
				}
	}
}

/* A node whose kernel has no array any more cannot acknowledge: its daemon binds it again, and until then it is that what is waited for. */
static void a_kernel_is_absent(void **state)
{
	struct cx *c = *state;
	struct ddr_input gone = { .type = DDR_IN_K_DETACHED }, in = { .type = DDR_IN_OP_FAIL_MEMBER, .member = 1 };

	c->answers = CX_MSG | CX_IO;
	cx_step(c, &c->node[0], &in);
	cx_settle(c);
	cx_step(c, &c->node[1], &gone);
	cx_settle(c);
	cx_tick(c, 2000);
	assert_int_equal(owes(c, 1, DDR_DEBT_MEMBER_ACK, 2)->why, DDR_WHY_ABSENT);
	assert_int_equal(owes(c, 2, DDR_DEBT_MEMBER_ACK, 3)->why, DDR_WHY_KERNEL);
}

/* A node has clean regions, and the writer has not made that durable in the map: the writer's disk is waited for. */
static void the_map_is_not_durable(void **state)
{
	struct cx *c = *state;

	cx_record(c, 1, (struct ddr_rec){ .type = DDR_K_LOCK, .seq = 3, .start = 3, .count = 1 });
	cx_settle(c);
	cx_record(c, 1, (struct ddr_rec){ .type = DDR_K_CLOSED, .start = 3, .count = 1 });
	for (int i = 0; i < 2; i++) {
		settle_but(c, DDR_OUT_MAP_WRITE);
		c->answers = 0;
		cx_tick(c, 1000);
	}
	settle_but(c, DDR_OUT_MAP_WRITE);
	c->answers = 0;
	cx_tick(c, 6000);
	assert_non_null(owes(c, 1, DDR_DEBT_MAP_DONE, 1));
	assert_in_range(list.debt[0].since_ms, 6000, 8000);
	assert_int_equal(owes(c, 1, DDR_DEBT_MAP_DONE, 1)->why, DDR_WHY_UNKNOWN);
	assert_int_equal(owes(c, 0, DDR_DEBT_MAP_DONE, 1)->why, DDR_WHY_DISK);
	c->answers = CX_ALL;
	cx_settle(c);
	assert_int_equal(total(c, 0), 0);
	assert_int_equal(total(c, 1), 0);
}

/* A node recovers the slot of a dead node, and its disks do not answer. The others wait for that node. */
static void a_slot_is_not_recovered(void **state)
{
	struct cx *c = *state;

	cx_record(c, 2, (struct ddr_rec){ .type = DDR_K_LOCK, .seq = 3, .start = 3, .count = 1 });
	cx_settle(c);
	cx_kill(c, 2);
	cx_view(c, 3, 3, true);
	settle_but(c, DDR_OUT_SLOT_READ);
	c->answers = 0;
	cx_tick(c, 6000);
	is_owed(c, 1, DDR_DEBT_RECOVERED, 1, 6000, 6000);
	assert_int_equal(owes(c, 1, DDR_DEBT_RECOVERED, 1)->why, DDR_WHY_UNKNOWN);
	assert_int_equal(owes(c, 0, DDR_DEBT_RECOVERED, 1)->why, DDR_WHY_DISK);
	assert_null(owes(c, 1, DDR_DEBT_RETURN, 3));
	c->answers = CX_ALL;
	cx_settle(c);
	cx_tick(c, 10);
	assert_int_equal(total(c, 0), 0);
	assert_int_equal(total(c, 1), 0);
}

/* The array is to grow, and a node has not said how much room its devices have: its disks are waited for. */
static void a_size_is_not_told(void **state)
{
	struct ddr_input grow = { .type = DDR_IN_OP_GROW, .count = 2048 };
	struct cx *c = *state;
	uint32_t asked;

	c->answers = CX_MSG | CX_KERNEL;
	cx_step(c, &c->node[0], &grow);
	cx_settle(c);
	asked = cx_open(&c->node[1], DDR_OUT_ROOM);
	for (uint32_t i = 0; i < 3; i += 2)
		cx_done(c, &c->node[i], cx_open(&c->node[i], DDR_OUT_ROOM));
	cx_settle(c);
	c->answers = 0;
	cx_tick(c, 6000);
	is_owed(c, 0, DDR_DEBT_ROOM, 2, 6000, 6000);
	is_owed(c, 2, DDR_DEBT_ROOM, 2, 6000, 6000);
	assert_null(owes(c, 2, DDR_DEBT_ROOM, 1));
	assert_int_equal(owes(c, 0, DDR_DEBT_ROOM, 2)->why, DDR_WHY_UNKNOWN);
	assert_int_equal(owes(c, 1, DDR_DEBT_ROOM, 2)->why, DDR_WHY_DISK);
	is_owed(c, 1, DDR_DEBT_ROOM, 2, 6000, 0);	/* by its own clock, which stands still while it waits for a disk */
	cx_done(c, &c->node[1], asked);
	cx_tick(c, 3000);
	is_owed(c, 1, DDR_DEBT_ROOM, 2, 9000, 3000);
	is_owed(c, 0, DDR_DEBT_ROOM, 2, 9000, 9000);
	c->answers = CX_ALL;
	cx_settle(c);
	assert_int_equal(total(c, 0), 0);
}

/* The first two nodes have not said it. What the second one lacks is not its disk, but it waits for the first one as well: its clock stands still, but not for a moment of that. */
static void who_waits_itself_has_its_time_later(void **state)
{
	struct ddr_input grow = { .type = DDR_IN_OP_GROW, .count = 2048 };
	struct cx *c = *state;

	c->answers = CX_MSG | CX_KERNEL;
	cx_step(c, &c->node[0], &grow);
	cx_settle(c);
	for (uint32_t i = 1; i < 3; i++)
		cx_done(c, &c->node[i], cx_open(&c->node[i], DDR_OUT_ROOM));
	c->answers = 0;
	cx_tick(c, 4000);
	is_owed(c, 1, DDR_DEBT_ROOM, 2, 4000, 4000);
	cx_tick(c, 1000);
	is_owed(c, 1, DDR_DEBT_ROOM, 2, 5000, 0);
	cx_tick(c, 6000);
	is_owed(c, 1, DDR_DEBT_ROOM, 2, 11000, 0);
}

/* Answers all, but the second node's kernel gets no new table: it knows no device for the member. */
static void settle_without_its_table(struct cx *c)
{
	for (bool again = true; again;) {
		c->answers = CX_MSG | CX_IO;
		cx_settle(c);
		again = false;
		for (uint32_t i = 0; i < 3 && !again; i++)
			for (uint32_t o = 0; o < c->node[i].n && !again; o++) {
				const struct ddr_output *out = &c->node[i].log[o];
				uint32_t type = out->type == DDR_OUT_KERNEL ? out->rec.type : 0;

				if (!c->node[i].open[o])
					continue;
				again = type == DDR_U_MEMBER || type == DDR_U_DRAIN || type == DDR_U_REAP || (out->type == DDR_OUT_TABLE && i != 1);
				if (again && type)
					cx_kernel_answer(c, &c->node[i], o);
				else if (again)
					cx_table(c, &c->node[i], o, 0);
			}
	}
}

/* A member is rebuilt, and a node's kernel does not write to it yet, so the node cannot fold its dirty regions into the map. Only the writer waits for that. */
static void a_node_has_not_folded(void **state)
{
	struct cx *c = *state;
	struct ddr_input fail = { .type = DDR_IN_OP_FAIL_MEMBER, .member = 1 }, spare = { .type = DDR_IN_OP_SET, .key = DDR_SM_HOT_SPARE, .value = 1 };

	c->spares = 1;
	cx_down(c);
	cx_up(c, 3, true);
	writes(c, 3);
	cx_step(c, &c->node[0], &spare);
	cx_step(c, &c->node[0], &fail);
	for (int i = 0; i < 10; i++) {
		settle_without_its_table(c);
		c->answers = 0;
		cx_tick(c, 100);
	}
	settle_without_its_table(c);
	assert_int_not_equal(cx_status(&c->node[0]).rebuilding, DDR_NO_MEMBER);
	c->answers = 0;
	cx_tick(c, 6000);
	assert_non_null(owes(c, 0, DDR_DEBT_FOLDED, 2));
	assert_in_range(list.debt[0].since_ms, 6000, 7000);
	assert_null(owes(c, 0, DDR_DEBT_FOLDED, 3));
	assert_null(owes(c, 2, DDR_DEBT_FOLDED, 2));
	assert_non_null(owes(c, 1, DDR_DEBT_FOLDED, 2));	/* it alone knows why */
	assert_int_equal(owes(c, 1, DDR_DEBT_FOLDED, 2)->why, DDR_WHY_KERNEL);
	assert_in_range(owes(c, 1, DDR_DEBT_FOLDED, 2)->quiet_ms, 6000, 7000);
	c->answers = CX_ALL;
	cx_settle(c);
	cx_tick(c, 100);
	assert_int_equal(total(c, 0), 0);
}

/* It has begun jobs that wait for the disk. */
static bool works(struct cx *c, uint32_t i)
{
	for (uint32_t o = 0; o < c->node[i].n; o++)
		if (c->node[i].open[o] && c->node[i].log[o].type == DDR_OUT_JOB_RANGE)
			return true;
	return false;
}

/*
 * A disk is replaced while a node resyncs after writes that failed. It folds after that, and not before: a resync may take hours. So while its jobs run, or
 * its rate has them pause, its own clock stands still; a region that is done is progress; and it says why.
 */
static void a_node_resyncs_before_it_folds(void **state)
{
	struct cx *c = *state;
	struct ddr_input pause = { .type = DDR_IN_OP_SET, .key = DDR_SM_RESYNC_PAUSED, .value = 1 };
	struct ddr_input replace = { .type = DDR_IN_OP_REPLACE, .member = 1, .value = 6 };
	struct ddr_rec rec = { .type = DDR_K_LOCK, .count = 1 };

	c->spares = 1;
	cx_down(c);
	cx_up(c, 3, true);
	cx_step(c, &c->node[1], &pause);
	for (rec.start = 3; rec.start < 5; rec.start++) {
		rec.seq = 900 + rec.start;
		rec.type = DDR_K_LOCK;
		rec.status = 0;
		cx_record(c, 1, rec);
		cx_settle(c);
		rec.type = DDR_K_CLOSED;
		rec.status = -5;
		cx_record(c, 1, rec);
		cx_settle(c);
	}
	cx_step(c, &c->node[0], &replace);
	cx_settle(c);
	for (int i = 0; i < 10; i++)
		cx_tick(c, 100);
	assert_int_equal(cx_status(&c->node[0]).rebuilding, 6);
	cx_tick(c, 300000);
	assert_non_null(owes(c, 0, DDR_DEBT_FOLDED, 2));
	assert_true(owes(c, 0, DDR_DEBT_FOLDED, 2)->quiet_ms >= 300000);
	assert_non_null(owes(c, 1, DDR_DEBT_FOLDED, 2));
	assert_int_equal(owes(c, 1, DDR_DEBT_FOLDED, 2)->why, DDR_WHY_RESYNC);
	assert_int_equal(owes(c, 1, DDR_DEBT_FOLDED, 2)->quiet_ms, 0);
	assert_null(owes(c, 2, DDR_DEBT_FOLDED, 2));
	pause.value = 0;
	cx_step(c, &c->node[1], &pause);
	c->answers = CX_MSG | CX_KERNEL;
	cx_settle(c);
	for (uint32_t o = 0; o < c->node[1].n; o++)	/* the marks, not the jobs */
		if (c->node[1].open[o] && cx_is_io(&c->node[1].log[o]) && c->node[1].log[o].type != DDR_OUT_JOB_RANGE)
			cx_done(c, &c->node[1], o);
	cx_settle(c);
	assert_true(works(c, 1));
	cx_tick(c, 20000);
	assert_int_equal(owes(c, 1, DDR_DEBT_FOLDED, 2)->why, DDR_WHY_RESYNC);
	assert_int_equal(owes(c, 1, DDR_DEBT_FOLDED, 2)->quiet_ms, 0);
	c->answers = CX_ALL;
	cx_settle(c);
	cx_tick(c, 100);
	assert_null(owes(c, 0, DDR_DEBT_FOLDED, 2));
	assert_null(owes(c, 1, DDR_DEBT_FOLDED, 2));
}

/* A lost node owes nothing but its return, for whatever else is waited. */
static void a_lost_node_owes_its_return(void **state)
{
	struct cx *c = *state;

	wants_resync(c, 3);
	for (int i = 0; i < 3; i++) {
		deliver_to(c, 0);
		deliver_to(c, 1);
	}
	assert_non_null(owes(c, 0, DDR_DEBT_EX_ACK, 3));
	cx_kill(c, 2);
	c->answers = CX_MSG | CX_IO | CX_KERNEL;
	cx_view(c, 3, 7, true);
	cx_settle(c);
	cx_tick(c, 7000);
	is_owed(c, 0, DDR_DEBT_RETURN, 3, 7000, 7000);
	is_owed(c, 1, DDR_DEBT_RETURN, 3, 7000, 7000);
	assert_null(owes(c, 0, DDR_DEBT_EX_ACK, 3));
	assert_int_equal(total(c, 1), 1);
}

/* Before a view is agreed nothing else counts, and without quorum nobody owes anything. */
static void a_hello_is_missing(void **state)
{
	struct cx *c = *state;

	c->answers = CX_IO | CX_KERNEL;
	cx_view(c, 7, 7, true);
	deliver_to(c, 0);
	cx_tick(c, 1000);
	assert_int_equal(total(c, 0), 0);		/* all have said it there */
	is_owed(c, 1, DDR_DEBT_HELLO, 1, 1000, 1000);
	is_owed(c, 1, DDR_DEBT_HELLO, 2, 1000, 1000);
	is_owed(c, 1, DDR_DEBT_HELLO, 3, 1000, 1000);
	assert_true(cx_deliver(c, &c->node[1], NULL));
	assert_int_equal(total(c, 1), 2);
	is_owed(c, 1, DDR_DEBT_HELLO, 3, 1000, 1000);
	cx_view(c, 7, 7, false);
	assert_int_equal(total(c, 1), 0);
}

/* Each part of the state that comes is progress. */
static void the_state_comes_in_parts(void **state)
{
	struct cx *c = *state;

	cx_down(c);
	cx_make(c, 3, true);
	cx_start(c, 0, 0, 0);
	cx_start(c, 1, 0, 0);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	cx_third_joins(c);
	cx_tick(c, 2000);
	is_owed(c, 2, DDR_DEBT_STATE, 1, 2000, 2000);
	is_owed(c, 1, DDR_DEBT_STATE, 1, 2000, 2000);
	assert_true(c->node[2].n_queue > 1);
	assert_true(cx_deliver(c, &c->node[2], NULL));
	cx_tick(c, 500);
	is_owed(c, 2, DDR_DEBT_STATE, 1, 2500, 500);
	c->answers = CX_ALL;
	cx_settle(c);
	assert_null(owes(c, 2, DDR_DEBT_STATE, 1));
}

/* The array of a cluster of one waits for nobody; and only the oldest sixteen are named. */
static void the_oldest_are_named(void **state)
{
	struct cx *c = *state;
	struct ddr_node_debts many = { .n = 0 };

	c->answers = CX_IO | CX_KERNEL;
	cx_view(c, 7, 7, true);
	cx_tick(c, 1000);
	for (uint32_t i = 0; i < 5; i++) {
		ddr_sm_debts(c->node[0].sm, c->now, &many);
		assert_int_equal(many.total, 3 * (i + 1));
		assert_int_equal(many.n, many.total);
	}
	ddr_sm_debts(c->node[0].sm, c->now + 500, &many);		/* these are older */
	assert_int_equal(many.total, 18);
	assert_int_equal(many.n, DDR_NODE_DEBTS);
	for (uint32_t i = 0; i < many.n; i++)
		assert_int_equal(many.debt[i].since_ms, i < 3 ? 1500 : 1000);
}

#define TEST_2(name) cmocka_unit_test_setup_teardown(name, two_nodes, cx_teardown)
#define TEST_3(name) cmocka_unit_test_setup_teardown(name, three_nodes, cx_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_3(who_has_all_owes_nothing), TEST_3(a_range_is_not_acknowledged), TEST_2(a_range_is_not_released), TEST_2(the_oldest_range_counts),
		TEST_3(a_change_is_not_acknowledged), TEST_3(a_lost_node_owes_its_return), TEST_3(a_hello_is_missing), TEST_2(the_state_comes_in_parts),
		TEST_3(the_oldest_are_named), TEST_3(a_kernel_is_absent), TEST_2(the_map_is_not_durable), TEST_3(a_slot_is_not_recovered),
		TEST_3(a_size_is_not_told), TEST_3(who_waits_itself_has_its_time_later), TEST_3(a_node_has_not_folded),
		TEST_3(a_node_resyncs_before_it_folds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
