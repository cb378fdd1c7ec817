// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The state machine's own changes of the superblocks, interrupted by power cuts (super-disks.h): starts with members missing, members
 * that fail and come back, and nodes that die in the middle of a change and are succeeded by another writer. The first change after a
 * cut often raises the generation. Whatever was cut, and however often in a row: the next start leaves out no member that is in the
 * newest superblocks, and the array is not refused.
 */
#include "tests/unit/super-disks.h"
#include "tests/unit/sm-cluster.h"

#define NODES		3u

static struct {
	struct cx *c;
	uint32_t nodes;			/* of the cluster; 1: without one */
	uint32_t chance;		/* one of this many changes is cut */
	bool off;			/* all power is off */
	/* what was covered */
	unsigned int raised;		/* changes that were cut while they raised the generation */
	unsigned int succeeded;		/* nodes that died in a change while others lived */
	unsigned int missing;		/* starts with a member missing */
} l;

/* ---- the disks, as a node reads them ------------------------------------------------ */

/* What a start would find now; no member is left out. */
static void newest(struct ddr_super *sb)
{
	struct found f;

	assemble(&f, NULL);
	*sb = f.assembly.super;
}

static bool super_of(uint32_t m, struct ddr_super *sb)
{
	struct ddr_dev dev = { .fd = w.disk[m], .path = (char *)"disk", .bytes = BYTES };
	struct ddr_supers supers;
	struct ddr_error err;

	if (ddr_dev_read_supers(&dev, &supers, &err))
		return false;
	*sb = supers.copy[supers.newest].super;
	return true;
}

/* Members that have the newest generation. */
static uint32_t newest_on(const struct ddr_super *last)
{
	struct ddr_super sb;
	uint32_t mask = 0;

	for (uint32_t m = 0; m < last->members; m++)
		mask |= super_of(m, &sb) && sb.generation == last->generation ? 1u << m : 0;
	return mask;
}

static uint32_t in_sync(const struct ddr_super *sb)
{
	uint32_t mask = 0;

	for (uint32_t m = 0; m < sb->members; m++)
		mask |= sb->member[m].state == DDR_MEMBER_IN_SYNC ? 1u << m : 0;
	return mask;
}

/* ---- cuts ------------------------------------------------------------------------- */

static uint32_t nodes_up(void)
{
	uint32_t mask = 0;

	for (uint32_t i = 0; i < l.nodes; i++)
		mask |= l.c->node[i].sm ? 1u << i : 0;
	return mask;
}

/* One node dies, and the others see it; or all nodes die. */
static void node_dies(uint32_t i)
{
	cx_kill(l.c, i);
	if (!nodes_up() || pick(3) == 0) {
		l.off = true;
		return;
	}
	l.succeeded++;
	cx_view(l.c, nodes_up(), nodes_up(), true);
}

static void superblocks_written(uint32_t i, uint32_t at)
{
	struct cx_node *n = &l.c->node[i];
	struct ddr_input in = { .type = DDR_IN_SB_DONE, .io = n->log[at].io };

	n->open[at] = false;
	w.sb = *ddr_sm_super(n->sm);
	ddr_sm_superblock(n->sm, 0, &w.next);
	w.targets = n->log[at].members;
	if (change(pick(l.chance) ? WHOLE : pick(60))) {
		cx_step(l.c, n, &in);
		return;
	}
	l.raised += w.next.generation > w.sb.generation;
	node_dies(i);
}

static bool answer_io(uint32_t i)
{
	struct cx_node *n = &l.c->node[i];

	for (uint32_t o = 0; n->sm && o < n->n; o++) {
		if (!n->open[o] || !cx_is_io(&n->log[o]))
			continue;
		if (n->log[o].type == DDR_OUT_SB_WRITE) {
			superblocks_written(i, o);
			return true;
		}
		if (n->log[o].type == DDR_OUT_RELOAD)
			newest(&l.c->sb);
		cx_done(l.c, n, o);
		return true;
	}
	return false;
}

/* Answers outputs until none is left; false: the power failed. */
static bool settle(void)
{
	for (uint32_t limit = 0, again = 1; again; limit++) {
		assert_true(limit < 100000);
		again = 0;
		cx_settle(l.c);
		for (uint32_t i = 0; i < l.nodes && !again && !l.off; i++)
			again = answer_io(i);
	}
	cx_forget(l.c);
	return !l.off;
}

/* ---- what happens ------------------------------------------------------------------ */

static void start_alone(void)
{
	struct cx_node *n = &l.c->node[0];
	struct ddr_input view = { .type = DDR_IN_VIEW, .n_nodes = 1, .nodes[0] = 1, .quorate = true, .ring = ++l.c->ring };
	struct ddr_input in = { .type = DDR_IN_K_ATTACHED, .cookie = 77, .boot_id[0] = 3, .count = l.c->sb.array_blocks };

	cx_daemon(l.c, 0);
	for (uint32_t s = 0; s < CX_SLOTS; s++)
		cx_read(l.c, n, &(struct ddr_output){ .type = DDR_OUT_SLOT_READ, .slot = s });
	cx_read(l.c, n, &(struct ddr_output){ .type = DDR_OUT_RELOAD });
	n->view = 2;
	cx_step(l.c, n, &view);
	in.members = n->cfg.present;
	cx_step(l.c, n, &in);
	in = (struct ddr_input){ .type = DDR_IN_K_REC, .rec = { .type = DDR_K_HELD_END } };
	cx_step(l.c, n, &in);
}

/*
 * The power is back, and often one member is missing. But some member has the newest generation, or the array would continue without
 * it elsewhere.
 */
static uint32_t not_there(void)
{
	uint32_t on = newest_on(&w.sb), m = pick(w.sb.members);

	if (pick(2) || !(alive(&w.sb) >> m & 1) || on == 1u << m)
		return 0;
	if (__builtin_popcount(in_sync(&w.sb) & ~(1u << m)) < 1 << w.sb.order)
		return 0;
	l.missing++;
	return 1u << m;
}

static bool power_on(void)
{
	uint32_t present = alive(&w.sb) & ~not_there();

	l.off = false;
	cx_forget(l.c);
	l.c->sb = w.sb;
	for (uint32_t i = 0; i < l.nodes; i++) {
		cx_kill(l.c, i);
		l.c->node[i].cfg.present = present;
		l.c->node[i].cfg.cluster = l.nodes > 1;
		if (l.nodes == 1)
			start_alone();
		else
			cx_start(l.c, i, 0, 0);
	}
	if (l.nodes > 1)
		cx_view(l.c, nodes_up(), nodes_up(), true);
	return settle();
}

static void one(uint32_t i, enum ddr_in_type type, uint32_t member, uint64_t value)
{
	struct ddr_input in = { .type = type, .member = member, .value = value };

	if (l.c->node[i].sm)
		cx_step(l.c, &l.c->node[i], &in);
}

/* A failed member is searched for, and every node finds it. */
static bool comes_back(uint32_t m)
{
	struct ddr_super sb;

	one((uint32_t)__builtin_ctz(nodes_up()), DDR_IN_OP_SEEK, m, 0);
	if (!settle())
		return false;
	for (uint32_t i = 0; i < l.nodes; i++)
		if (super_of(m, &sb) && l.c->node[i].sm)
			one(i, DDR_IN_PRESENT, m, DDR_PRESENT_TABLE | (ddr_super_is_last(ddr_sm_super(l.c->node[i].sm), m, &sb) ? DDR_PRESENT_LAST : 0));
	return settle();
}

static bool node_is_back(uint32_t i)
{
	if (l.c->node[i].sm)
		return true;
	newest(&l.c->sb);
	l.c->node[i].cfg.present = alive(&l.c->sb);
	cx_start(l.c, i, 0, 0);
	cx_view(l.c, nodes_up(), nodes_up(), true);
	return settle();
}

static bool something_happens(void)
{
	uint32_t i = (uint32_t)__builtin_ctz(nodes_up()), m = pick(w.sb.members);
	struct ddr_super sb;

	newest(&sb);
	switch (pick(4)) {
	case 0:
		one(i, DDR_IN_OP_FAIL_MEMBER, m, 0);
		break;
	case 1:
		for (m = 0; m < sb.members && (alive(&sb) >> m & 1);)
			m++;
		return m == sb.members || comes_back(m);
	case 2:
		return node_is_back(pick(l.nodes));
	default:
		cx_record(l.c, i, (struct ddr_rec){ .type = DDR_K_LOCK, .seq = 900, .start = m % 4, .count = 1 });
		if (!settle())
			return false;
		if (l.c->node[i].sm)
			cx_record(l.c, i, (struct ddr_rec){ .type = DDR_K_CLOSED, .start = m % 4, .count = 1 });
	}
	if (!settle())
		return false;
	l.c->answers &= ~(uint32_t)CX_IO;
	cx_tick(l.c, 100);
	return settle();
}

static void life(uint64_t seed, unsigned int cuts)
{
	l.c->spares = 0;
	cx_make(l.c, l.nodes, true);
	l.c->answers = CX_MSG | CX_KERNEL | CX_FENCE;
	make_disks(seed, &l.c->sb);
	w.what = l.nodes == 1 ? "cuts in a row on one node" : "cuts in a row in a cluster";
	for (unsigned int starts = 0; w.cuts < cuts; starts++) {
		assert_true(starts < 20 * cuts);
		if (power_on())
			for (unsigned int n = 0; n < 12 && something_happens();)
				n++;
		for (uint32_t i = 0; i < l.nodes; i++)
			cx_kill(l.c, i);
		start_anew();
	}
	cx_down(l.c);
	free_disks();
}

static void lives(uint32_t nodes, uint64_t seeds, unsigned int cuts)
{
	memset(&l, 0, sizeof(l));
	l.c = calloc(1, sizeof(*l.c));
	assert_non_null(l.c);
	l.nodes = nodes;
	for (uint64_t seed = 1; seed <= seeds; seed++) {
		l.chance = 2 + (uint32_t)(seed % 4);
		super_disks_owned = seed % 2 == 0;	/* every other array is of format 2 */
		life(seed * 7919, cuts);
	}
	free(l.c);
}

/* Finding U5: one node, the power fails again and again, and the next change may raise the generation at once. */
static void superblocks_of_one_node_stay_level(void **state)
{
	(void)state;
	lives(1, fixture_short() ? 4 : 16, 40);
	assert_true(l.missing > (fixture_short() ? 0 : 100));
	assert_true(l.raised > (fixture_short() ? 0 : 100));
}

/* Finding U5: nodes die in the middle of a change, and the next writer continues after it. */
static void a_new_writer_levels_the_superblocks(void **state)
{
	(void)state;
	lives(NODES, fixture_short() ? 4 : 16, 40);
	assert_true(l.succeeded > (fixture_short() ? 0 : 100));
	assert_true(l.raised > (fixture_short() ? 0 : 100));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(superblocks_of_one_node_stay_level),
		cmocka_unit_test(a_new_writer_levels_the_superblocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
