// SPDX-License-Identifier: GPL-2.0-or-later
/* By what a verdict on a process may be sent: the votes that are left without it, and how long it may owe something. See link.h. */
#include <string.h>

#include "daemon/base/daemon.h"
#include "daemon/group/link_int.h"
#include "lib/node/verdict.h"

bool ddr_link_same_ring(const struct ddr_link *l)
{
	const struct ddr_quorum *q = ddr_corosync_quorum(l->d->corosync);

	return l->group.ring_known && !l->group.held && q->quorate && ddr_link_ring(&q->ring) == l->group.ring;
}

/*
 * The votes are asked for before a verdict needs them, at each pulse from the third one on that comes back since a process was heard (votes.h), and while a node
 * owes something for which it may be declared dead later. If the membership changes afterwards, the answer does not count: a verdict that was sent by it is
 * delivered in another ring, and is void.
 */
void ddr_link_ask_votes(struct ddr_link *l)
{
	struct ddr_node_verdict v = { 0 };

	if (!(ddr_verdict_near(&l->group) || ddr_owes_near(&l->group, ddr_link_owe_limit, l)) || !ddr_link_same_ring(l))
		return;
	ddr_verdict_voters(&l->group, &v);
	ddr_votes_ask(&l->votes, l->d->asks, l->group.self.node, l->group.ring, &v);
}

uint32_t ddr_link_owe_limit(void *ctx, const uint8_t uuid[16])
{
	struct ddr_link *l = ctx;
	uint64_t ms = l->d->conf.tune.io_timeout_ms;

	for (unsigned int i = 0; i < DDR_NODE_RIDES; i++)
		if (l->rider[i] && memcmp(l->group.array[i].ride.uuid, uuid, 16) == 0)
			ms = l->rider[i]->events->io_timeout(l->rider[i]->ctx);
	return (uint32_t)ddr_conf_owe_ms(&l->d->conf, ms);
}

bool ddr_link_votes(struct ddr_link *l, struct ddr_node_verdict *v)
{
	ddr_verdict_voters(&l->group, v);
	return ddr_link_same_ring(l) && ddr_votes_known(&l->votes, l->group.ring, v);
}
