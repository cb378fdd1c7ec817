/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Worlds of simulated processes of the group (lib/node/group.c), for tests of verdicts: they start, end, are stopped and go on, are cut off from each other and
 * meet again, and each reads what is delivered to it in its own time; at times the whole group stands still. Whatever happens: all who are
 * delivered a message judge it alike.
 *
 * A test may add what processes do, and what has to hold: struct hooks.
 */
#ifndef DDR_TESTS_VERDICT_WORLDS_H
#define DDR_TESTS_VERDICT_WORLDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "lib/node/verdict.h"

#define NODES	5u
#define QUORUM	3u
#define BOX	8192u		/* deliveries that wait for a process */
#define OUT	64u
#define STEP_MS	100u
#define EARLIEST_MS	(3 * DDR_PULSE_MS)	/* a process is silent for that long before it is excluded: five pulses, the first of which may come late */
#define MESSAGES	(1u << 15)

struct item {
	enum { MEMBERS, RING, MESSAGE } what;
	struct ddr_group_id now[NODES], left[NODES], from;
	unsigned int n, n_left;
	bool nodes, met;
	uint64_t ring;
	unsigned int number;	/* of the message */
	size_t len;
	uint8_t msg[256];
};

struct process {
	struct ddr_group g;
	unsigned int node, pid;
	bool alive, stopped;
	uint64_t pulse_ms, spoke_ms;	/* when its next pulse is due; when its last message got its place in the order */
	struct item box[BOX];
	unsigned int first, n;
	struct { size_t len; uint8_t msg[256]; } out[OUT];	/* given to the group service, and not ordered yet */
	unsigned int n_out;
	struct ddr_group_id seen[NODES];
	unsigned int n_seen;
};

static struct {
	struct process process[NODES];
	unsigned int part[NODES];
	uint64_t ring[NODES], rings, stands_ms, now;
	uint64_t judged[MESSAGES];	/* what the first who was delivered the message knew then; 0: nobody was yet */
	bool early[MESSAGES];		/* a verdict on a process that had spoken just before */
	unsigned int messages, excluded;
	uint32_t seed;
} world;

/* What a test adds; each may be NULL. */
static struct {
	uint16_t version;				/* that all processes speak; 0: 1 */
	void (*starts)(struct process *p);
	void (*pulses)(struct process *p);		/* its next pulse is about to be sent; and then it may have to send a verdict */
	void (*ordered)(const struct process *p, const struct item *item);	/* it has its place in the order; @p: of whom */
	void (*excluded)(const struct item *item, const struct ddr_node_verdict *v);	/* by that message */
} hook;

static inline unsigned int any(unsigned int n)
{
	world.seed = world.seed * 1664525u + 1013904223u;
	return (world.seed >> 10) % n;
}

static void put(struct process *p, const struct item *item)
{
	assert_true(p->n < BOX);
	p->box[(p->first + p->n++) % BOX] = *item;
}

static bool is_in(const struct ddr_group_id *list, unsigned int n, struct ddr_group_id id)
{
	for (unsigned int i = 0; i < n; i++)
		if (list[i].node == id.node && list[i].pid == id.pid)
			return true;
	return false;
}

static bool in_part(unsigned int node, unsigned int part)
{
	return world.process[node].alive && world.part[node] == part;
}

/* Each process is told who is in its partition, if that is news; @nodes: and then of which ring it is. */
static void change(bool nodes)
{
	for (unsigned int i = 0; i < NODES; i++) {
		struct process *p = &world.process[i];
		struct item item = { .what = MEMBERS, .nodes = nodes };

		if (!p->alive)
			continue;
		for (unsigned int j = 0; j < NODES; j++)
			if (in_part(j, world.part[i]))
				item.now[item.n++] = (struct ddr_group_id){ j + 1, world.process[j].pid };
		for (unsigned int j = 0; j < p->n_seen; j++)
			if (!is_in(item.now, item.n, p->seen[j]))
				item.left[item.n_left++] = p->seen[j];
		for (unsigned int j = 0; j < item.n; j++)
			item.met |= nodes && !is_in(p->seen, p->n_seen, item.now[j]);
		if (item.n != p->n_seen || item.n_left)
			put(p, &item);
		memcpy(p->seen, item.now, sizeof(item.now));
		p->n_seen = item.n;
		if (nodes)
			put(p, &(struct item){ .what = RING, .ring = world.ring[world.part[i]] });
	}
}

static void end_process(struct process *p)
{
	p->alive = false;
	p->n_seen = 0;
	change(false);
}

/* Often it has the pid that the last one of the node had: a daemon that was excluded joins anew. */
static void start_process(unsigned int node)
{
	struct process *p = &world.process[node];
	unsigned int pid = p->pid && any(2) ? p->pid : p->pid + 10;

	memset(p, 0, sizeof(*p));
	p->node = node;
	p->pid = pid;
	p->alive = true;
	p->pulse_ms = world.now + any(DDR_PULSE_MS);
	p->spoke_ms = world.now;
	ddr_group_init(&p->g, node + 1, pid, hook.version ? hook.version : 1, hook.version ? hook.version : 1);
	if (hook.starts)
		hook.starts(p);
	put(p, &(struct item){ .what = RING, .ring = world.ring[world.part[node]] });
	change(false);
}

static bool is_early(const struct item *item, unsigned int part)
{
	struct ddr_node_msg m;
	const struct process *p;

	if (!ddr_node_msg_is(item->msg, item->len))
		return false;
	assert_null(ddr_node_msg_decode(item->msg, item->len, &m));
	p = m.type == DDR_N_VERDICT && !(m.verdict.flags & DDR_VERDICT_OWES) ? &world.process[m.verdict.process.node - 1] : NULL;
	return p && in_part(p->node, part) && p->pid == m.verdict.process.pid && world.now - p->spoke_ms < EARLIEST_MS;
}

/* The oldest message of the process gets its place in the order. */
static void order(struct process *p)
{
	struct item item = { .what = MESSAGE, .from = { p->node + 1, p->pid }, .len = p->out[0].len, .number = ++world.messages };

	assert_true(world.messages < MESSAGES);
	memcpy(item.msg, p->out[0].msg, item.len);
	world.early[item.number] = is_early(&item, world.part[p->node]);
	memmove(&p->out[0], &p->out[1], --p->n_out * sizeof(p->out[0]));
	p->spoke_ms = world.now;
	if (hook.ordered)
		hook.ordered(p, &item);
	for (unsigned int i = 0; i < NODES; i++)
		if (in_part(i, world.part[p->node]))
			put(&world.process[i], &item);
}

/* ---- what has to hold ------------------------------------------------------------- */

/* What a process says of debts, as all know it. */
static uint64_t said_of_debts(const struct ddr_group_process *p)
{
	uint64_t sum = p->owes.told + 1u;

	for (uint32_t i = 0; p->owes.told && i < p->debts.n; i++) {
		const struct ddr_node_debt *d = &p->debts.debt[i];

		sum = (sum ^ d->node ^ (uint64_t)d->kind << 8 ^ (uint64_t)d->why << 16 ^ (uint64_t)d->quiet_ms << 24) * 0x9e3779b97f4a7c15u;
		sum ^= d->since_ms ^ (uint64_t)(p->owes.paid >> i & 1) << 40 ^ (uint64_t)(p->owes.fresh >> i & 1) << 41;
	}
	return sum;
}

/* All that verdicts are judged by, whatever the order of the processes. */
static uint64_t common(const struct ddr_group *g)
{
	uint64_t sum = g->ring + 1;

	for (unsigned int i = 0; i < g->n; i++) {
		const struct ddr_group_process *p = &g->process[i];
		uint64_t x = (uint64_t)p->id.node << 32 | p->id.pid;

		x = (x ^ p->silence.name) * 0x9e3779b97f4a7c15u;
		sum += (x ^ p->said ^ (uint64_t)p->silence.out_said << 1) * 0xff51afd7ed558ccdu;
		sum += (said_of_debts(p) ^ x) * 0xff51afd7ed558ccdu;
	}
	return sum;
}

static unsigned int outs(const struct ddr_group *g)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < g->n; i++)
		n += g->process[i].silence.out;
	return n;
}

/* Those that all know of. A process that has joined since may hear of the others a moment later, and its verdicts count until then. */
static unsigned int outs_said(const struct ddr_group *g)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < g->n; i++)
		n += g->process[i].silence.out_said;
	return n;
}

static unsigned int machines(unsigned int part)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < NODES; i++)
		n += world.part[i] == part;
	return n;
}

/* The message has excluded a process. */
static void check_excluded(const struct process *p, const struct item *item)
{
	struct ddr_node_msg m;

	assert_null(ddr_node_msg_decode(item->msg, item->len, &m));
	if (m.type != DDR_N_VERDICT)
		return;		/* a hello lists those that were excluded before */
	assert_false(world.early[item->number]);
	assert_true(m.verdict.total >= QUORUM + outs_said(&p->g));
	if (hook.excluded)
		hook.excluded(item, &m.verdict);
	world.excluded++;
}

/* ---- a process ------------------------------------------------------------------ */

static void flush(struct process *p)
{
	uint8_t msg[DDR_NODE_MSG_MAX];
	size_t len;

	while (p->n_out < OUT && (len = ddr_group_next(&p->g, msg, sizeof(msg))) > 0) {
		assert_true(len <= sizeof(p->out[0].msg));
		p->out[p->n_out].len = len;
		memcpy(p->out[p->n_out++].msg, msg, len);
		ddr_group_sent(&p->g);
	}
}

static void read_message(struct process *p, const struct item *item)
{
	unsigned int before = outs(&p->g), entry;
	enum ddr_group_answer answer;
	const char *why;
	uint64_t is;

	answer = ddr_group_deliver(&p->g, item->from, item->msg, item->len, &entry, &why);
	is = common(&p->g);
	if (world.judged[item->number] && world.judged[item->number] != is)
		fail_msg("message %u is judged differently by node %u", item->number, p->node + 1);
	world.judged[item->number] = is;
	if (outs(&p->g) > before)
		check_excluded(p, item);
	if (answer == DDR_GROUP_EXCLUDED) {
		end_process(p);
		start_process(p->node);
	}
}

static void read_one(struct process *p)
{
	struct item item = p->box[p->first];

	p->first = (p->first + 1) % BOX;
	p->n--;
	if (item.what == MEMBERS)
		assert_true(ddr_group_members(&p->g, item.now, item.n, item.left, item.n_left, item.nodes, item.met));
	else if (item.what == RING)
		ddr_group_ring(&p->g, item.ring);
	else
		read_message(p, &item);
	flush(p);
}

/* As daemon/group/link_pulse.c does it. */
static void pulse(struct process *p)
{
	const struct ddr_group_process *silent;
	struct ddr_node_verdict v = { .total = machines(world.part[p->node]), .quorum = QUORUM };

	p->pulse_ms = world.now + DDR_PULSE_MS;
	if (hook.pulses)
		hook.pulses(p);
	ddr_group_pulse(&p->g);
	silent = ddr_verdict_due(&p->g, world.now);
	if (silent && !p->g.held && p->g.ring == world.ring[world.part[p->node]]) {
		ddr_verdict_voters(&p->g, &v);
		for (uint32_t i = 0; i < v.n; i++)
			v.node[i].votes = 1;
		ddr_verdict_send(&p->g, silent, &v);
	}
	flush(p);
}

/* ---- what happens ----------------------------------------------------------------- */

/* Some nodes go into partition 0, the others into 1; or all into 0. */
static void divide(bool whole)
{
	for (unsigned int i = 0; i < NODES; i++)
		world.part[i] = whole ? 0 : any(2);
	world.ring[0] = ++world.rings;
	world.ring[1] = ++world.rings;
	change(true);
}

static void act(void)
{
	struct process *p = &world.process[any(NODES)];

	switch (any(1500)) {
	case 0:
	case 1:
		divide(any(3) > 0);
		return;
	case 2:
		world.stands_ms = world.now + any(30000);
		return;
	case 3:
	case 4:
	case 5:
	case 6:
		if (!p->alive)
			start_process((unsigned int)(p - world.process));
		else if (any(4) == 0)
			end_process(p);
		return;
	case 7:
	case 8:
	case 9:
		p->stopped = p->alive && !p->stopped;
		return;
	}
}

/* A moment passes. All that gets its place in the order does so before the next one; processes that run read soon, or a little later. */
static void pass(void)
{
	world.now += STEP_MS;
	for (unsigned int i = 0; i < NODES; i++)
		while (world.process[i].alive && world.process[i].n_out && world.now >= world.stands_ms && any(4))
			order(&world.process[i]);
	for (unsigned int i = 0; i < NODES; i++) {
		struct process *p = &world.process[i];

		if (p->alive && !p->stopped && world.now >= p->pulse_ms)
			pulse(p);
		while (p->alive && !p->stopped && p->n && any(5))
			read_one(p);
	}
}

static void begin(uint32_t seed)
{
	memset(&world, 0, sizeof(world));
	world.seed = seed;
	world.rings = 1;
	world.ring[0] = 1;
}

static void let_pass(unsigned int ms)
{
	for (uint64_t end = world.now + ms; world.now < end;)
		pass();
}

/* The network is whole, corosync runs, and all nodes have a daemon; those of @stopped are stopped. */
static void all_run(unsigned int stopped)
{
	divide(true);
	world.stands_ms = 0;
	for (unsigned int i = 0; i < NODES; i++) {
		if (!world.process[i].alive)
			start_process(i);
		world.process[i].stopped = stopped >> i & 1;
	}
}

#endif
