/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A driver for unit tests of the state machine on several nodes: one bus with a total order, one set of disks, and
 * for each node a process, a kernel that answers, and a memory of all its outputs.
 *
 * Places count from 0, node ids from 1.
 */
#ifndef DDR_TESTS_UNIT_SM_CLUSTER_H
#define DDR_TESTS_UNIT_SM_CLUSTER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/disk/format_owner.h"
#include "tests/sim/rig.h"

#define CX_NODES	4u
#define CX_MAX		4096u
#define CX_SLOTS	4u

enum { CX_MSG = 1, CX_IO = 2, CX_KERNEL = 4, CX_FENCE = 8, CX_ALL = 7 };	/* what is answered automatically */

struct cx_message { uint32_t sender, len; uint8_t bytes[DDR_SM_MSG_MAX]; };

struct cx_node {
	struct ddr_sm_config cfg;
	struct ddr_sm *sm;		/* NULL: its daemon is down */
	uint32_t pid;
	uint64_t cookie, view;
	uint64_t room;			/* bytes of member 1, the smallest, as it sees it */
	enum ddr_fences fences;		/* as its daemon's hello has it; that of cfg.fencing is apart from it */
	uint8_t boot;			/* of its kernel; 0: the one that all have */
	struct ddr_output log[CX_MAX];	/* everything since cx_forget() */
	bool open[CX_MAX];
	uint32_t n;
	struct cx_message queue[CX_MAX];	/* ordered, not delivered */
	uint32_t n_queue;
};

struct cx {
	struct rig_geometry geo;
	struct ddr_super sb;		/* of the disks */
	struct ddr_owners owners;	/* beside it, if it is of format 2 */
	struct ddr_disk_log disk[CX_SLOTS + 1];	/* log of each slot; the map */
	uint64_t seq[CX_SLOTS + 1];
	struct cx_node node[CX_NODES];
	struct ddr_output buf[DDR_SM_MAX_OUT];
	uint32_t answers;
	uint16_t spares;
	int bad_reads;			/* this many reads of a slot fail; after that none of its blocks is readable */
	uint32_t unprepared;		/* members that cannot be prepared for a larger array */
	int unbegun;			/* the error with which preparing the other members cannot begin */
	uint64_t ring, now;
};

static inline void cx_send(struct cx *c, struct cx_node *from, const struct ddr_output *o)
{
	for (struct cx_node *n = c->node; n < c->node + CX_NODES; n++) {
		struct cx_message *m = &n->queue[n->n_queue];

		if (!n->sm || !(n->view >> from->cfg.node & 1) || !(from->view >> n->cfg.node & 1))
			continue;
		assert_true(n->n_queue < CX_MAX);
		m->sender = from->cfg.node;
		m->len = o->msg_len;
		memcpy(m->bytes, o->msg, o->msg_len);
		n->n_queue++;
	}
}

static inline void cx_step(struct cx *c, struct cx_node *n, const struct ddr_input *in)
{
	struct ddr_outputs outs = { .out = c->buf };
	struct ddr_input next = *in;

	do {
		const char *why = rig_step(n->sm, &next, &outs);

		if (why)
			fail_msg("%s", why);
		if (ddr_sm_check(n->sm))
			fail_msg("the state machine is inconsistent: %s", ddr_sm_check(n->sm));
		for (uint32_t i = 0; i < outs.n; i++) {
			assert_true(n->n < CX_MAX);
			n->open[n->n] = true;
			n->log[n->n++] = outs.out[i];
			if (outs.out[i].type == DDR_OUT_MCAST)
				cx_send(c, n, &outs.out[i]);
		}
		next = (struct ddr_input){ .type = DDR_IN_NONE };
	} while (outs.more);
}

/* ---- the disks ----------------------------------------------------------------- */

static inline void cx_write(struct cx *c, struct cx_node *n, const struct ddr_output *o)
{
	uint32_t at = o->type == DDR_OUT_MAP_WRITE ? CX_SLOTS : o->type == DDR_OUT_SLOT_WRITE ? o->slot : ddr_sm_slot(n->sm);

	if (o->type == DDR_OUT_SB_WRITE) {
		ddr_sm_superblock(n->sm, 0, &c->sb);
		ddr_owners_follow(&c->owners, &c->sb);
		if (ddr_super_has_owners(&c->sb))
			ddr_sm_owners(n->sm, &c->owners);
		assert_int_equal(ddr_owners_check(&c->owners, &c->sb).code, DDR_FE_OK);
	} else if (o->type == DDR_OUT_MAP_WRITE)
		ddr_sm_map_block(n->sm, 0, &c->disk[at]);
	else if (o->type == DDR_OUT_SLOT_WRITE)
		ddr_sm_slot_block(n->sm, 0, &c->disk[at]);
	else if (o->type == DDR_OUT_LOG_WRITE)
		ddr_sm_log_block(n->sm, 0, &c->disk[at]);
}

static inline void cx_read(struct cx *c, struct cx_node *n, const struct ddr_output *o)
{
	uint32_t at = o->type == DDR_OUT_RELOAD ? CX_SLOTS : o->slot;
	struct ddr_log_info info;

	memset(&info, 0, sizeof(info));
	for (unsigned int place = 0; place < 2; place++)
		ddr_log_decode(&c->disk[at], &c->sb, at == CX_SLOTS ? DDR_MAP_SLOT : (uint16_t)at, 0, place, &info);
	if (o->type == DDR_OUT_SLOT_READ) {
		ddr_sm_load_log(n->sm, at, 0, info.seq && info.seq < o->since ? NULL : c->disk[at].payload, info.seq, info.node, info.boot_id,
				info.cookie);
		ddr_sm_load_repairs(n->sm, at, 0, info.repair);
		return;
	}
	ddr_sm_load_super(n->sm, &c->sb);
	ddr_sm_load_owners(n->sm, &c->owners);
	ddr_sm_load_map(n->sm, 0, c->disk[at].payload, info.seq);
}

/* ---- answers ------------------------------------------------------------------- */

static inline bool cx_is_io(const struct ddr_output *o)
{
	return (o->type >= DDR_OUT_LOG_WRITE && o->type <= DDR_OUT_JOB_RANGE) || (o->type >= DDR_OUT_RELOAD && o->type != DDR_OUT_TABLE && o->type != DDR_OUT_SEEK && o->type != DDR_OUT_RESIZE);
}

static inline void cx_done(struct cx *c, struct cx_node *n, uint32_t i)
{
	static const enum ddr_in_type types[] = {
		[DDR_OUT_LOG_WRITE] = DDR_IN_LOG_DONE, [DDR_OUT_MAP_WRITE] = DDR_IN_MAP_DONE, [DDR_OUT_SB_WRITE] = DDR_IN_SB_DONE,
		[DDR_OUT_FLUSH] = DDR_IN_FLUSH_DONE, [DDR_OUT_JOB_RANGE] = DDR_IN_JOB_DONE, [DDR_OUT_RELOAD] = DDR_IN_RELOADED,
		[DDR_OUT_SLOT_READ] = DDR_IN_SLOT_DONE, [DDR_OUT_SLOT_WRITE] = DDR_IN_LOG_DONE,
		[DDR_OUT_ROOM] = DDR_IN_ROOM, [DDR_OUT_PREPARE] = DDR_IN_PREPARED,
	};
	const struct ddr_output *o = &n->log[i];
	struct ddr_input in = { .type = types[o->type], .io = o->io };

	n->open[i] = false;
	if (o->type == DDR_OUT_ROOM) {
		in.value = n->room;
		in.member = 1;
	}
	if (o->type == DDR_OUT_PREPARE) {
		in.failed_members = c->unprepared;
		in.result = c->unbegun;
	}
	if (o->type == DDR_OUT_SLOT_READ && c->bad_reads > 1)
		in.result = -5;
	else if (o->type == DDR_OUT_SLOT_READ && c->bad_reads)
		ddr_sm_load_log(n->sm, o->slot, 0, NULL, 0, 0, (const uint8_t[16]){ 0 }, 0);
	else if (o->type == DDR_OUT_RELOAD || o->type == DDR_OUT_SLOT_READ)
		cx_read(c, n, o);
	else
		cx_write(c, n, o);
	c->bad_reads -= o->type == DDR_OUT_SLOT_READ && c->bad_reads > 1;
	cx_step(c, n, &in);
}

static inline void cx_kernel_answer(struct cx *c, struct cx_node *n, uint32_t i)
{
	const struct ddr_rec *was = &n->log[i].rec;
	struct ddr_input in = { .type = DDR_IN_K_REC, .rec = { .seq = was->seq, .start = was->start } };

	in.rec.type = was->type == DDR_U_MEMBER ? DDR_K_APPLIED : was->type == DDR_U_DRAIN ? DDR_K_DRAINED : DDR_K_REAPED;
	in.rec.count = was->type == DDR_U_REAP ? 0 : was->count;
	n->open[i] = false;
	cx_step(c, n, &in);
}

static inline void cx_table(struct cx *c, struct cx_node *n, uint32_t i, int result)
{
	struct ddr_input in = { .type = DDR_IN_TABLE_DONE, .member = n->log[i].member, .value = n->log[i].index,
				.result = result };

	n->open[i] = false;
	cx_step(c, n, &in);
}

static inline void cx_fenced(struct cx *c, struct cx_node *n, uint32_t i, int result)
{
	struct ddr_input in = { .type = DDR_IN_FENCED, .node = n->log[i].node, .failure = n->log[i].failure, .result = result };

	n->open[i] = false;
	cx_step(c, n, &in);
}

/* Delivers the oldest queued message to the node, as sent or as @m. */
static inline bool cx_deliver(struct cx *c, struct cx_node *n, struct cx_message *as)
{
	struct cx_message m;
	struct ddr_input in = { .type = DDR_IN_MSG };

	if (!n->sm || !n->n_queue)
		return false;
	m = as ? *as : n->queue[0];
	memmove(n->queue, n->queue + 1, --n->n_queue * sizeof(m));
	in.node = m.sender;
	in.msg = m.bytes;
	in.msg_len = m.len;
	cx_step(c, n, &in);
	return true;
}

static inline bool cx_answer_one(struct cx *c, struct cx_node *n)
{
	if ((c->answers & CX_MSG) && cx_deliver(c, n, NULL))
		return true;
	for (uint32_t i = 0; n->sm && i < n->n; i++) {
		const struct ddr_output *o = &n->log[i];
		uint32_t type = o->type == DDR_OUT_KERNEL ? o->rec.type : 0;

		if (!n->open[i])
			continue;
		if (cx_is_io(o) && (c->answers & CX_IO))
			cx_done(c, n, i);
		else if ((type == DDR_U_MEMBER || type == DDR_U_DRAIN || type == DDR_U_REAP) && (c->answers & CX_KERNEL))
			cx_kernel_answer(c, n, i);
		else if (o->type == DDR_OUT_TABLE && (c->answers & CX_KERNEL))
			cx_table(c, n, i, 0);
		else if (o->type == DDR_OUT_FENCE && (c->answers & CX_FENCE))
			cx_fenced(c, n, i, 0);
		else
			continue;
		return true;
	}
	return false;
}

static inline void cx_settle(struct cx *c)
{
	for (uint32_t again = 1, limit = 0; again; limit++) {
		assert_true(limit < 1000000);
		again = 0;
		for (uint32_t i = 0; i < CX_NODES && !again; i++)
			again = cx_answer_one(c, &c->node[i]);
	}
}

/* ---- nodes, views -------------------------------------------------------------- */

static inline void cx_make(struct cx *c, uint32_t nodes, bool fencing)
{
	uint16_t spares = c->spares;

	memset(c, 0, sizeof(*c));
	c->spares = spares;
	c->geo = (struct rig_geometry){ .order = 2, .parity = 2, .blocks = 1024, .region_blocks = 256, .slots = CX_SLOTS, .spares = spares };
	rig_super(&c->sb, &c->geo);
	c->answers = CX_ALL;
	c->now = 1000;
	for (uint32_t i = 0; i < nodes; i++) {
		struct ddr_sm_config *cfg = &c->node[i].cfg;

		cfg->super = &c->sb;
		cfg->node = i + 1;
		cfg->present = (1u << c->sb.members) - 1;
		cfg->cluster = true;
		cfg->fencing = fencing;
		c->node[i].cookie = 7;
	}
}

static inline void cx_tick(struct cx *c, uint64_t ms)
{
	struct ddr_input in = { .type = DDR_IN_TICK };

	in.now_ms = c->now += ms;
	for (struct cx_node *n = c->node; n < c->node + CX_NODES; n++)
		if (n->sm)
			cx_step(c, n, &in);
	cx_settle(c);
}

/* A new process of the node's daemon. It has no kernel, and is in no view yet. */
static inline void cx_daemon(struct cx *c, uint32_t i)
{
	struct cx_node *n = &c->node[i];
	struct ddr_input in = { .type = DDR_IN_TICK, .now_ms = c->now };

	free(n->sm);
	n->pid++;
	n->n = n->n_queue = 0;
	n->view = 0;
	n->cfg.entropy[0] = (uint8_t)n->cfg.node;
	n->cfg.entropy[1] = (uint8_t)n->pid;
	n->sm = rig_sm(&n->cfg);
	assert_non_null(n->sm);
	cx_step(c, n, &in);
}

/* The same; its kernel is as it was, with these regions held. */
static inline void cx_start(struct cx *c, uint32_t i, uint64_t held, uint64_t n_held)
{
	struct cx_node *n = &c->node[i];
	struct ddr_input in;

	cx_daemon(c, i);
	in = (struct ddr_input){ .type = DDR_IN_K_ATTACHED, .cookie = n->cookie, .boot_id[0] = n->boot ? n->boot : 1, .members = n->cfg.present & ((1u << c->sb.roles) - 1), .count = c->sb.array_blocks };
	cx_step(c, n, &in);
	in = (struct ddr_input){ .type = DDR_IN_K_REC, .rec = { .type = DDR_K_HELD, .start = held, .count = n_held } };
	if (n_held)
		cx_step(c, n, &in);
	in.rec = (struct ddr_rec){ .type = DDR_K_HELD_END, .count = n_held };
	cx_step(c, n, &in);
}

static inline void cx_kill(struct cx *c, uint32_t i)
{
	free(c->node[i].sm);
	c->node[i].sm = NULL;
	c->node[i].n = c->node[i].n_queue = 0;
	c->node[i].view = 0;
}

/* The nodes of @mask (bit: place) that are up have a view of themselves, and the quorum service sees those of @machines. */
static inline void cx_view(struct cx *c, uint32_t mask, uint32_t machines, bool quorate)
{
	struct ddr_input view = { .type = DDR_IN_VIEW, .ring = ++c->ring };
	struct ddr_input quorum = { .type = DDR_IN_QUORUM, .ring = c->ring, .quorate = quorate };
	uint64_t ids = 0;

	for (uint32_t i = 0; i < CX_NODES; i++) {
		if (machines >> i & 1)
			quorum.nodes[quorum.n_nodes++] = i + 1;
		if (!(mask >> i & 1) || !c->node[i].sm)
			continue;
		view.nodes[view.n_nodes] = i + 1;
		view.fences[view.n_nodes] = (uint8_t)c->node[i].fences;
		view.pids[view.n_nodes++] = c->node[i].pid;
		ids |= 2ull << i;
	}
	for (uint32_t i = 0; i < CX_NODES; i++) {
		if (!(ids >> (i + 1) & 1))
			continue;
		c->node[i].n_queue = 0;		/* messages of the old view were delivered before this, or are dropped */
		c->node[i].view = ids;
	}
	for (uint32_t i = 0; i < CX_NODES; i++)
		if (ids >> (i + 1) & 1)
			cx_step(c, &c->node[i], &view);
	for (uint32_t i = 0; i < CX_NODES; i++)
		if (ids >> (i + 1) & 1)
			cx_step(c, &c->node[i], &quorum);
}

/* A cluster of @nodes that all take part. */
static inline void cx_up(struct cx *c, uint32_t nodes, bool fencing)
{
	cx_make(c, nodes, fencing);
	for (uint32_t i = 0; i < nodes; i++)
		cx_start(c, i, 0, 0);
	cx_view(c, (1u << nodes) - 1, (1u << nodes) - 1, true);
	cx_settle(c);
	for (uint32_t i = 0; i < nodes; i++) {
		struct ddr_sm_status st;

		ddr_sm_get_status(c->node[i].sm, &st);
		assert_true(st.ready && st.joined);
	}
}

/* A third node, at place 2, joins two that take part: up to the last hello, behind which it gets the state in chunks. */
static inline void cx_third_joins(struct cx *c)
{
	cx_start(c, 2, 0, 0);
	c->answers = CX_IO | CX_KERNEL;
	cx_view(c, 7, 7, true);
	for (int hello = 0; hello < 3; hello++)
		for (uint32_t i = 0; i < 3; i++)
			assert_true(cx_deliver(c, &c->node[i], NULL));
}

static inline void cx_down(struct cx *c)
{
	for (uint32_t i = 0; i < CX_NODES; i++)
		cx_kill(c, i);
}

static inline void cx_forget(struct cx *c)
{
	for (uint32_t i = 0; i < CX_NODES; i++)
		c->node[i].n = 0;
}

/* ---- looking ------------------------------------------------------------------- */

/* The first output of a type since cx_forget(), or -1. @record: of KERNEL and EVENT outputs. */
static inline int cx_find(const struct cx_node *n, enum ddr_out_type type, uint32_t record)
{
	for (uint32_t i = 0; i < n->n; i++)
		if (n->log[i].type == type && (type != DDR_OUT_KERNEL || n->log[i].rec.type == record) &&
		    (type != DDR_OUT_EVENT || n->log[i].event == record))
			return (int)i;
	return -1;
}

/* An output of the type that is not answered yet; there must be one. */
static inline uint32_t cx_open(const struct cx_node *n, enum ddr_out_type type)
{
	for (uint32_t i = 0; i < n->n; i++)
		if (n->open[i] && n->log[i].type == type)
			return i;
	fail_msg("no output of type %u waits for its answer", (unsigned int)type);
	return 0;
}

static inline int cx_event(const struct cx_node *n, enum ddr_event event)
{
	return cx_find(n, DDR_OUT_EVENT, event);
}

static inline struct ddr_sm_status cx_status(const struct cx_node *n)
{
	struct ddr_sm_status st;

	ddr_sm_get_status(n->sm, &st);
	return st;
}

/* The state of node @id as @n sees it; DDR_NS_LEFT if it does not know the node. */
static inline struct ddr_sm_node_status cx_sees(const struct cx_node *n, uint32_t id)
{
	struct ddr_sm_status st = cx_status(n);

	for (uint32_t i = 0; i < st.n_nodes; i++)
		if (st.node[i].id == id)
			return st.node[i];
	return (struct ddr_sm_node_status){ .id = id, .slot = DDR_SM_NO_SLOT, .state = DDR_NS_LEFT };
}

static inline void cx_op(struct cx *c, uint32_t i, enum ddr_in_type type, uint32_t node)
{
	struct ddr_input in = { .type = type, .node = node };

	cx_step(c, &c->node[i], &in);
}

static inline void cx_record(struct cx *c, uint32_t i, struct ddr_rec rec)
{
	struct ddr_input in = { .type = DDR_IN_K_REC, .rec = rec };

	cx_step(c, &c->node[i], &in);
}

/* The node writes to the region, and the write ends. */
static inline void cx_wrote(struct cx *c, uint32_t i, uint64_t region)
{
	struct ddr_rec rec = { .type = DDR_K_LOCK, .seq = 100 + region, .start = region, .count = 1 };

	cx_record(c, i, rec);
	cx_settle(c);
	rec.type = DDR_K_CLOSED;
	cx_record(c, i, rec);
	cx_settle(c);
	cx_tick(c, 100);
}

/* For cmocka: @nodes that share an array, their end. */
static inline int cx_setup(void **state, uint32_t nodes)
{
	struct cx *c = calloc(1, sizeof(*c));

	assert_non_null(c);
	cx_up(c, nodes, true);
	*state = c;
	return 0;
}

static inline int cx_teardown(void **state)
{
	struct cx *c = *state;

	cx_down(c);
	free(c);
	return 0;
}

#endif
