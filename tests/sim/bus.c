// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The process group: one total order of messages, delivered to every member that is up, including the sender. Views have their place
 * in the order.
 */
#include <string.h>

#include "sim.h"

void bus_send(struct sim *s, uint32_t sender, const uint8_t *bytes, uint32_t len)
{
	struct bus_message *m = &s->bus.queue[s->bus.n];

	if (s->bus.n == SIM_MAX_QUEUE)
		sim_violation(s, "more than %d messages are on their way", SIM_MAX_QUEUE);
	m->sender = sender;
	m->len = len;
	memcpy(m->bytes, bytes, len);
	s->bus.n++;
}

void bus_view(struct sim *s, struct node *n)
{
	struct ddr_input in = { .type = DDR_IN_VIEW, .quorate = n->quorate, .ring = s->bus.ring };

	for (uint32_t i = 0; i < s->n_nodes; i++)
		if (s->node[i].sm)
			in.nodes[in.n_nodes++] = s->node[i].id;
	node_step(s, n, &in);
}

bool bus_event(struct sim *s)
{
	struct bus_message m;
	struct ddr_input in = { .type = DDR_IN_MSG };

	if (!s->bus.n)
		return false;
	m = s->bus.queue[0];
	memmove(s->bus.queue, s->bus.queue + 1, --s->bus.n * sizeof(m));
	in.node = m.sender;
	in.msg = m.bytes;
	in.msg_len = m.len;
	for (uint32_t i = 0; i < s->n_nodes; i++)
		if (s->node[i].sm)
			node_step(s, &s->node[i], &in);
	return true;
}

void bus_forget(struct sim *s, uint32_t sender)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < s->bus.n; i++)
		if (s->bus.queue[i].sender != sender)
			s->bus.queue[kept++] = s->bus.queue[i];
	s->bus.n = kept;
}
