/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the tests of rebuilding and of replacing share: spares on several nodes, and time that passes while some outputs stay unanswered. */
#ifndef DDR_TESTS_UNIT_SM_REBUILD_H
#define DDR_TESTS_UNIT_SM_REBUILD_H

#include "sm-cluster.h"

#define SPARE	6u		/* the first one behind the roles */
#define ROLE	2u		/* of the member that fails */

static inline void takes_spares(struct cx *c, uint32_t i)
{
	struct ddr_input in = { .type = DDR_IN_OP_SET, .key = DDR_SM_HOT_SPARE, .value = 1 };

	cx_step(c, &c->node[i], &in);
}

static inline int up(void **state, uint32_t nodes)
{
	struct cx *c = calloc(1, sizeof(*c));

	assert_non_null(c);
	c->spares = 2;
	cx_up(c, nodes, true);
	for (uint32_t i = 0; i < nodes; i++)
		takes_spares(c, i);
	*state = c;
	return 0;
}

static inline int setup(void **state)
{
	return up(state, 2);
}

static inline int setup_four(void **state)
{
	return up(state, 4);
}

static inline void answer(struct cx *c, struct cx_node *n, uint32_t o)
{
	uint32_t record = n->log[o].type == DDR_OUT_KERNEL ? n->log[o].rec.type : 0;

	if (cx_is_io(&n->log[o]))
		cx_done(c, n, o);
	else if (n->log[o].type == DDR_OUT_TABLE)
		cx_table(c, n, o, 0);
	else if (record == DDR_U_MEMBER || record == DDR_U_DRAIN || record == DDR_U_REAP)
		cx_kernel_answer(c, n, o);
}

/* Time passes. Everything is answered, but outputs of the kind @kind[i] at place i (-1: none). */
static inline void pass_but(struct cx *c, uint32_t rounds, const int kind[CX_NODES])
{
	uint32_t fence = c->answers & CX_FENCE;

	c->answers = CX_MSG | fence;
	for (uint32_t round = 0; round < rounds; round++) {
		cx_settle(c);
		for (uint32_t i = 0; i < CX_NODES; i++)
			for (uint32_t o = 0; c->node[i].sm && o < c->node[i].n; o++)
				if (c->node[i].open[o] && (int)c->node[i].log[o].type != kind[i])
					answer(c, &c->node[i], o);
		cx_tick(c, 10);
	}
	c->answers = CX_ALL | fence;
}

/* The same: but outputs of this kind at the places of @mask. */
static inline void pass_without(struct cx *c, uint32_t rounds, uint32_t mask, enum ddr_out_type without)
{
	int kind[CX_NODES];

	for (uint32_t i = 0; i < CX_NODES; i++)
		kind[i] = mask >> i & 1 ? (int)without : -1;
	pass_but(c, rounds, kind);
}

static inline void member_fails(struct cx *c, uint32_t i, uint32_t member, uint64_t seq)
{
	cx_record(c, i, (struct ddr_rec){ .type = DDR_K_ERROR, .seq = seq, .member = member, .status = DDR_EC_IO, .arg[0] = DDR_OP_WRITE });
}

static inline void wants(struct cx *c, uint32_t i, uint64_t region)
{
	cx_record(c, i, (struct ddr_rec){ .type = DDR_K_LOCK, .seq = 100 + region, .start = region, .count = 1 });
	cx_settle(c);
}

static inline bool covered(const struct cx_node *n, uint64_t block)
{
	for (uint32_t i = 0; i < n->n; i++)
		if (n->log[i].type == DDR_OUT_JOB_RANGE && n->log[i].job == DDR_KA_REBUILD && block >= n->log[i].start &&
		    block < n->log[i].start + n->log[i].count)
			return true;
	return false;
}

#endif
