// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The votes of nodes. See votes.h.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <corosync/votequorum.h>
#include <qb/qblog.h>

#include "daemon/group/votes.h"

/* It belongs to the thread, and then to the loop. */
struct ddr_votes_question {
	struct ddr_ask ask;
	struct ddr_votes *votes;		/* NULL: it is abandoned */
	uint32_t self;
	uint64_t ring;
	bool answered;
	struct ddr_node_verdict v;
};

static void run(struct ddr_ask *a)
{
	struct ddr_votes_question *q = ddr_ask_of(a, struct ddr_votes_question, ask);
	struct votequorum_info info = { 0 };
	votequorum_handle_t h;
	cs_error_t ret;

	if (votequorum_initialize(&h, NULL) != CS_OK)
		return;
	ret = votequorum_getinfo(h, q->self, &info);
	q->v.total = info.total_votes;
	q->v.quorum = info.quorum;
	q->v.flags = info.flags & VOTEQUORUM_INFO_TWONODE ? DDR_VERDICT_TWO_NODE : 0;
	for (uint32_t i = 0; ret == CS_OK && i < q->v.n; i++) {
		cs_error_t known = votequorum_getinfo(h, q->v.node[i].node, &info);

		q->v.node[i].votes = known == CS_OK ? info.node_votes : 0;
		ret = known == CS_ERR_NOT_EXIST ? CS_OK : known;	/* one that corosync does not know has no votes */
	}
	votequorum_finalize(h);
	q->answered = ret == CS_OK;
}

static void done(struct ddr_ask *a)
{
	struct ddr_votes_question *q = ddr_ask_of(a, struct ddr_votes_question, ask);
	struct ddr_votes *v = q->votes;

	if (v) {
		v->asked = NULL;
		v->known = q->answered;
		v->ring = q->ring;
		v->answer = q->v;
	}
	free(q);
}

void ddr_votes_ask(struct ddr_votes *v, struct ddr_asks *asks, uint32_t self, uint64_t ring, const struct ddr_node_verdict *of)
{
	struct ddr_votes_question *q;

	if (v->asked)
		return;
	q = calloc(1, sizeof(*q));
	if (!q)
		return;		/* it is asked again with the next pulse */
	q->ask = (struct ddr_ask){ .run = run, .done = done, .what = "say how many votes the nodes have" };
	q->votes = v;
	q->self = self;
	q->ring = ring;
	q->v = *of;
	v->asked = q;
	ddr_asks_put(asks, &q->ask);
}

bool ddr_votes_known(const struct ddr_votes *v, uint64_t ring, struct ddr_node_verdict *of)
{
	if (!v->known || v->ring != ring)
		return false;
	for (uint32_t i = 0; i < of->n; i++) {
		uint32_t j = 0;

		while (j < v->answer.n && v->answer.node[j].node != of->node[i].node)
			j++;
		if (j == v->answer.n)
			return false;
		of->node[i].votes = v->answer.node[j].votes;
	}
	of->total = v->answer.total;
	of->quorum = v->answer.quorum;
	of->flags |= v->answer.flags;
	return true;
}

void ddr_votes_forget(struct ddr_votes *v)
{
	if (v->asked)
		v->asked->votes = NULL;
	*v = (struct ddr_votes){ 0 };
}
