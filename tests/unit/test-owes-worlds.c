// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Verdicts on those who do not do what they owe (lib/node/owes.c), among simulated processes (verdict-worlds.h) that take part in an array, and wait for each
 * other there. Whatever happens: all who are delivered a verdict judge it alike. Nobody is excluded who has done what it owes in time, or waits for a disk;
 * nor for those that wait for their own kernels; nor while it waits for another node, except the highest of a circle. What must hold is computed here in
 * another way, from what has got its place in the order. Once nothing more happens, the end of a chain is excluded in time, and it alone.
 */
#include "tests/unit/verdict-worlds.h"
#include "lib/node/debt.h"
#include "lib/node/owes.h"
#include "lib/wire/msg.h"

#define LIMIT	20000u		/* ms */

static struct {
	uint64_t since[NODES][NODES];		/* the first node waits for the second since then; 0: it does not */
	uint64_t done[NODES];			/* the node has done something, or waited itself, or joined */
	uint64_t kernels, disk[NODES];		/* all wait for their kernels since; the node for a disk */
	bool wedged[NODES];			/* it does nothing of what it owes */
	struct ddr_node_debts said[NODES];	/* by its last pulse that has its place in the order */
	bool legal[MESSAGES];			/* a verdict that may hold */
	unsigned int excluded, last;
} debts;

static const uint8_t array[16] = { 1 };

static void on_start(struct process *p)
{
	unsigned int n = p->node;

	for (unsigned int i = 0; i < NODES; i++)
		debts.since[n][i] = debts.since[i][n] = 0;
	debts.said[n].n = 0;
	debts.disk[n] = 0;
	debts.wedged[n] = false;
	debts.done[n] = world.now;
	assert_int_equal(ddr_group_ride(&p->g, array), 0);
	ddr_group_begin(&p->g, 0);
}

static uint64_t old(uint64_t since)
{
	return since && world.now - since >= DDR_DEBT_OLD_MS;
}

static struct ddr_node_debt one(uint8_t kind, unsigned int node, uint64_t since, uint64_t moved, uint8_t why)
{
	struct ddr_node_debt d = { .uuid = { 1 }, .kind = kind, .node = node + 1, .why = why };

	d.since_ms = (uint32_t)(world.now - since);
	d.quiet_ms = (uint32_t)(world.now - (moved > since ? moved : since));
	return d;
}

/* As lib/cluster/sm_debt.c does it. */
static void list(unsigned int n, struct ddr_node_debts *l)
{
	uint64_t oldest = 0;

	l->n = 0;
	for (unsigned int i = 0; i < NODES; i++) {
		if (debts.since[n][i])
			l->debt[l->n++] = one(DDR_DEBT_EX_ACK, i, debts.since[n][i], 0, DDR_WHY_UNKNOWN);
		if (old(debts.since[n][i]))
			debts.done[n] = world.now;
		if (debts.since[i][n] && (!oldest || debts.since[i][n] < oldest))
			oldest = debts.since[i][n];
	}
	if (debts.disk[n])
		debts.done[n] = world.now;
	if (oldest)
		l->debt[l->n++] = one(DDR_DEBT_EX_ACK, n, oldest, debts.done[n], debts.disk[n] ? DDR_WHY_DISK : DDR_WHY_UNKNOWN);
	if (debts.kernels)
		l->debt[l->n++] = one(DDR_DEBT_MEMBER_ACK, n, debts.kernels, 0, DDR_WHY_KERNEL);
	l->total = l->n;
}

static uint32_t limit(void *ctx, const uint8_t uuid[16])
{
	(void)ctx;
	assert_memory_equal(uuid, array, sizeof(array));
	return LIMIT;
}

static void on_pulse(struct process *p)
{
	struct ddr_node_verdict v = { .total = machines(world.part[p->node]), .quorum = QUORUM, .flags = DDR_VERDICT_OWES };
	const struct ddr_group_process *debtor;
	struct ddr_node_debts l = { .n = 0 };

	if (p->g.array[0].stage == DDR_GROUP_RIDES)
		list(p->node, &l);
	ddr_debt_ours(&p->g, &l);
	debtor = ddr_owes_due(&p->g, world.now, limit, NULL, &v.owed);
	if (!debtor || p->g.held || p->g.ring != world.ring[world.part[p->node]])
		return;
	ddr_verdict_voters(&p->g, &v);
	for (uint32_t i = 0; i < v.n; i++)
		v.node[i].votes = 1;
	ddr_verdict_send(&p->g, debtor, &v);
}

/* ---- what may be --------------------------------------------------------------------- */

static bool says(unsigned int n, unsigned int of, uint8_t kind, uint32_t since, uint32_t quiet, uint8_t why)
{
	for (uint32_t i = 0; i < debts.said[n].n; i++) {
		const struct ddr_node_debt *d = &debts.said[n].debt[i];

		if (d->node == of + 1 && d->kind == kind && d->since_ms >= since && d->quiet_ms >= quiet && (!why || d->why == why))
			return true;
	}
	return false;
}

/* Does it wait for a node, unless it is the highest of a circle? */
static bool waits_for_another(unsigned int n)
{
	bool path[NODES][NODES];

	for (unsigned int i = 0; i < NODES; i++)
		for (unsigned int j = 0; j < NODES; j++)
			path[i][j] = i != j && says(i, j, DDR_DEBT_EX_ACK, DDR_DEBT_OLD_MS, 0, 0);
	for (unsigned int k = 0; k < NODES; k++)
		for (unsigned int i = 0; i < NODES; i++)
			for (unsigned int j = 0; j < NODES; j++)
				path[i][j] |= path[i][k] && path[k][j];
	for (unsigned int i = 0; i < NODES; i++)
		if (i != n && path[n][i] && (!path[i][n] || i > n))
			return true;
	return false;
}

static bool has_old_wait(unsigned int n)
{
	for (unsigned int i = 0; i < NODES; i++)
		if (i != n && says(n, i, DDR_DEBT_EX_ACK, DDR_DEBT_OLD_MS, 0, 0))
			return true;
	return false;
}

static bool may_hold(unsigned int part, const struct ddr_node_verdict *v)
{
	unsigned int d = v->process.node - 1;

	if (waits_for_another(d) || says(d, d, DDR_DEBT_EX_ACK, 0, 0, DDR_WHY_DISK) ||
	    (!has_old_wait(d) && says(d, d, DDR_DEBT_EX_ACK, 0, 0, 0) && !says(d, d, DDR_DEBT_EX_ACK, 0, v->owed.ms, 0)))
		return false;
	for (unsigned int i = 0; i < NODES; i++)
		if (in_part(i, part) && i != d && debts.since[i][d] && world.now - debts.since[i][d] >= v->owed.ms &&
		    says(i, d, DDR_DEBT_EX_ACK, v->owed.ms, v->owed.ms, 0) && !says(i, i, DDR_DEBT_MEMBER_ACK, DDR_DEBT_OLD_MS, 0, DDR_WHY_KERNEL) &&
		    !says(i, i, DDR_DEBT_EX_ACK, DDR_DEBT_OLD_MS, 0, DDR_WHY_DISK))
			return true;
	return false;
}

static void on_order(const struct process *p, const struct item *item)
{
	struct ddr_node_msg m;

	if (!ddr_node_msg_is(item->msg, item->len)) {	/* it does what it owes */
		for (unsigned int i = 0; i < NODES; i++)
			debts.since[i][p->node] = 0;
		return;
	}
	assert_null(ddr_node_msg_decode(item->msg, item->len, &m));
	if (m.type == DDR_N_PULSE)
		debts.said[p->node] = m.pulse.debts;
	debts.legal[item->number] = m.type == DDR_N_VERDICT && m.verdict.flags & DDR_VERDICT_OWES && may_hold(world.part[p->node], &m.verdict);
}

static void on_excluded(const struct item *item, const struct ddr_node_verdict *v)
{
	if (!(v->flags & DDR_VERDICT_OWES))
		return;
	assert_true(debts.legal[item->number]);
	debts.excluded++;
	debts.last = v->process.node - 1;
}

/* ---- what happens -------------------------------------------------------------------- */

static bool takes_part(const struct process *p)
{
	return p->alive && !p->stopped && p->g.array[0].stage == DDR_GROUP_RIDES;
}

static void does(struct process *p)
{
	struct ddr_msg m = { .type = DDR_M_EX_ACK, .sender = p->node + 1 };

	memcpy(m.uuid, array, sizeof(array));
	p->out[p->n_out].len = ddr_msg_encode(&m, p->out[p->n_out].msg, sizeof(p->out[0].msg));
	assert_true(p->out[p->n_out++].len > 0);
	debts.done[p->node] = world.now;
}

static void owe(unsigned int waiter, unsigned int debtor)
{
	if (waiter != debtor && !debts.since[waiter][debtor])
		debts.since[waiter][debtor] = world.now;
}

/* Some do nothing of what they owe, for long. */
static void act_on_debts(void)
{
	unsigned int n = any(NODES), other = any(NODES);

	switch (any(200)) {
	case 0:
		debts.kernels = debts.kernels || any(4) ? 0 : world.now;
		return;
	case 1:
		debts.disk[n] = debts.disk[n] || any(2) ? 0 : world.now;
		return;
	case 2:
	case 3:
	case 4:
		debts.wedged[n] = !debts.wedged[n];
		return;
	default:
		if (any(4) == 0 && takes_part(&world.process[n]) && takes_part(&world.process[other]))
			owe(n, other);
		if (any(3) == 0 && takes_part(&world.process[n]) && !debts.wedged[n] && world.process[n].n_out < OUT / 2)
			does(&world.process[n]);
	}
}

static void start(uint32_t seed)
{
	memset(&debts, 0, sizeof(debts));
	hook.version = DDR_MSG_OWES;
	hook.starts = on_start;
	hook.pulses = on_pulse;
	hook.ordered = on_order;
	hook.excluded = on_excluded;
	begin(seed);
}

static void nobody_owes(void)
{
	memset(debts.since, 0, sizeof(debts.since));
	memset(debts.disk, 0, sizeof(debts.disk));
	memset(debts.wedged, 0, sizeof(debts.wedged));
	debts.kernels = 0;
}

static void random_worlds(void **state)
{
	const char *first = getenv("DDRAID_VERDICT_SEED");
	unsigned int excluded = 0;

	(void)state;
	for (uint32_t seed = first ? (uint32_t)strtoul(first, NULL, 10) : 1; seed <= (first ? seed : 300); seed++) {
		print_message("seed %u\n", seed);
		start(seed);
		for (unsigned int i = 0; i < 1500; i++) {
			act();
			act_on_debts();
			act_on_debts();
			pass();
		}
		excluded += debts.excluded;
		if (first)
			return;
	}
	print_message("%u excluded\n", excluded);
	assert_true(excluded > 100);	/* it is the exclusions that are tested */
}

static void calm(uint32_t seed)
{
	start(seed);
	all_run(0);
	let_pass(20000);
}

/* Until the pulses say it, and it is the turn of one that is not accused. */
#define IN_TIME_MS	(LIMIT + 3 * DDR_PULSE_MS + 2 * DDR_TURN_MS)

/* Node 1 waits for node 2, and that one for node 3, which does nothing. Node 3 is lost, in time, and node 2 gets its time after that. */
static void the_end_of_a_chain(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= 20; seed++) {
		calm(seed);
		owe(0, 1);
		owe(1, 2);
		let_pass(LIMIT - 1000);
		assert_int_equal(debts.excluded, 0);
		let_pass(IN_TIME_MS - (LIMIT - 1000));
		assert_true(debts.excluded > 0);	/* by each who judges it */
		assert_int_equal(debts.last, 2);
		debts.excluded = 0;
		let_pass(2 * LIMIT - IN_TIME_MS - 1000);	/* its time began when node 3 was lost, LIMIT after it was owed at the earliest */
		assert_int_equal(debts.excluded, 0);
		let_pass(IN_TIME_MS);
		assert_true(debts.excluded > 0);
		assert_int_equal(debts.last, 1);
	}
}

/* Nodes 2, 3 and 5 wait for each other, and node 1 for node 2. */
static void the_highest_of_a_circle(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= 20; seed++) {
		calm(seed);
		owe(0, 1);
		owe(1, 2);
		owe(2, 4);
		owe(4, 1);
		let_pass(IN_TIME_MS);
		assert_true(debts.excluded > 0);
		assert_int_equal(debts.last, 4);
	}
}

/* Note 31: for however long. When the kernels go on, one that does nothing is lost. */
static void a_disk_that_hangs_everywhere(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= 20; seed++) {
		calm(seed);
		debts.kernels = world.now;
		owe(0, 1);
		owe(3, 1);
		let_pass(4 * LIMIT);
		assert_int_equal(debts.excluded, 0);
		debts.kernels = 0;
		let_pass(IN_TIME_MS);
		assert_true(debts.excluded > 0);
		assert_int_equal(debts.last, 1);
	}
}

/* All wait for each other at times, and nobody for long. */
static void nobody_is_excluded_who_does_it(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= 5; seed++) {
		calm(seed);
		for (unsigned int i = 0; i < 2000; i++) {
			unsigned int n = any(NODES);

			owe(any(NODES), any(NODES));
			if (i % 20 == 0)
				for (n = 0; n < NODES; n++)
					does(&world.process[n]);
			pass();
		}
		assert_int_equal(debts.excluded, 0);
		nobody_owes();
		let_pass(20000);
		assert_int_equal(world.excluded, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_worlds),
		cmocka_unit_test(the_end_of_a_chain),
		cmocka_unit_test(the_highest_of_a_circle),
		cmocka_unit_test(a_disk_that_hangs_everywhere),
		cmocka_unit_test(nobody_is_excluded_who_does_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
