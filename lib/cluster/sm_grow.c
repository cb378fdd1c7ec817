// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Growing the array into the room of its members, which have become larger.
 *
 * All nodes learn the request (GROW) at its place in the order. Each node that takes part reads the sizes of its open
 * devices, and reports them (ROOM). When all have reported, all nodes come to the same result. The writer then requests the change (MEMBER_SET, GROW),
 * prepares the members, and writes superblocks of a new generation with the new size. Log and map have had room since the
 * array was created, and what they say of the new regions is true already: not dirty, unwritten. The exception is the end of
 * the array's last region: the map may call that region clean, so its new part is zeroed, which has correct parity, before the superblocks
 * include it. When all nodes have acknowledged the change, each node gives its kernel a longer table.
 *
 * Must never: make blocks a part of the array for which a node that takes part has no room; let a kernel address a block before all
 * nodes know that it exists; write superblocks of the new size before all members are prepared.
 */
#include "sm_int.h"
#include "lib/disk/layout.h"

#define RETRY_MS	1000u
#define LONG_MS		5000u	/* for this time a table may be longer than the array */

/* ---- shared state ----------------------------------------------------------- */

/* Members that have to be large enough: all to which superblocks are written. */
static uint32_t members_asked(const struct ddr_sm *sm)
{
	uint32_t mask = ddr_sm_written(sm);

	for (uint32_t m = 0; m < sm->shared.sb.members; m++)
		if (sm->shared.sb.member[m].state == DDR_MEMBER_SPARE)
			mask |= 1u << m;
	return mask;
}

/* The request to grow has ended, or was replaced by another node's. */
static void end(struct ddr_sm *sm)
{
	sm->own.g.room_sent = sm->own.g.room_known = false;
	sm->again = true;
}

static void refuse(struct ddr_sm *sm, const char *why, const struct ddr_sm_node *node, uint64_t want)
{
	struct ddr_output *out = ddr_sm_event(sm, DDR_EV_GROW_REFUSED, why);

	if (!node)
		return;
	out->b = node->id;
	out->a = node->room;
	out->count = want;
	out->member = node->room_member;
}

uint64_t ddr_sm_grow_room(const struct ddr_sm *sm)
{
	return sm->own.g.room;
}

void ddr_sm_grow_settle(struct ddr_sm *sm, struct ddr_sm_shared *s)
{
	struct ddr_order_small n;

	if (!ddr_order_grow_settle(s, &n))
		return;
	if (n.by == sm->node)
		refuse(sm, n.why, n.node, n.want);
	end(sm);
}

/* ---- the total order -------------------------------------------------------- */

void ddr_sm_grow_told(struct ddr_sm *sm, const struct ddr_msg *msg, const char *why)
{
	bool ours = msg->sender == sm->node;

	if (ours)
		sm->own.g.op = sm->own.g.op_sent = false;
	if (!why)
		end(sm);
	else if (ours)
		refuse(sm, why, NULL, 0);
}

void ddr_sm_room_told(struct ddr_sm *sm, struct ddr_sm_shared *s, uint32_t sender, bool counts)
{
	if (sender == sm->node)
		sm->own.g.room_sent = false;
	sm->again = true;
	if (counts)
		ddr_sm_grow_settle(sm, s);
}

/* The members changed: reports about their devices are void. */
void ddr_sm_grow_members(struct ddr_sm *sm)
{
	sm->own.g.room_known = false;
}

void ddr_sm_grown(struct ddr_sm *sm, uint64_t before)
{
	struct ddr_output *out;

	end(sm);
	sm->own.g.prepared = 0;
	sm->own.g.resized = 0;
	sm->kernel.status = true;
	out = ddr_sm_event(sm, DDR_EV_GROWN, NULL);
	out->a = before;
	out->b = sm->shared.sb.array_blocks;
}

void ddr_sm_grow_view(struct ddr_sm *sm)
{
	sm->own.g.op_sent = sm->own.g.room_sent = false;
}

void ddr_sm_grow_forget(struct ddr_sm *sm)
{
	if (sm->own.g.op)
		refuse(sm, "this node left the group meanwhile", NULL, 0);
	sm->own.g.op = false;
	sm->own.g.prepared = sm->own.g.preparing = 0;
	end(sm);
	ddr_sm_grow_view(sm);
}

/* ---- inputs ----------------------------------------------------------------- */

void ddr_sm_op_grow(struct ddr_sm *sm, uint64_t blocks)
{
	const char *why = NULL;

	if (!ddr_sm_running(sm) || sm->own.stopping)
		why = "the array is not running";
	else if (sm->own.g.op)
		why = "the array is already growing";
	else if (blocks && blocks <= sm->shared.sb.array_blocks)
		why = ddr_grow_has_it;
	else if (blocks % (1u << sm->shared.sb.order) || blocks > ddr_super_most_blocks(&sm->shared.sb))
		why = "the array cannot have that size";
	if (why) {
		ddr_sm_event(sm, DDR_EV_REFUSED, why)->a = EINVAL;
		return;
	}
	sm->own.g.op = true;
	sm->own.g.op_want = blocks;
}

void ddr_sm_room_known(struct ddr_sm *sm, const struct ddr_input *in)
{
	struct ddr_sm_grow *g = &sm->own.g;

	if (!g->room_io || in->io != g->room_io) {
		ddr_sm_bug(sm, "device sizes were reported without a request");
		return;
	}
	g->room_io = 0;
	if (in->result) {
		g->room_at = sm->now + RETRY_MS;
		return;
	}
	/* valid for the requested members; if these have changed since, the sizes are requested again */
	g->room_known = g->room_generation == sm->shared.sb.generation;
	g->room_bytes = in->value;
	g->room_member = in->member;
	if (ddr_sm_room_fits(sm, in->value) > g->room)
		g->room = ddr_sm_room_fits(sm, in->value);
	if (sm->own.start == DDR_S_OFF && g->room < ddr_sm_grow_needs(sm)) {
		g->room_known = false;	/* it may see them larger soon */
		g->room_at = sm->now + RETRY_MS;
	}
	sm->again = true;
	if (g->room_generation == sm->shared.sb.generation && sm->own.start == DDR_S_OFF && g->room < sm->shared.sb.array_blocks)
		ddr_sm_evict(sm, "a member's device is smaller on this node than the array needs. When this node sees the new size (echo 1 "
				 ">/sys/block/DISK/device/rescan)" DDR_SM_ANEW);
}

void ddr_sm_grow_prepared(struct ddr_sm *sm, const struct ddr_input *in)
{
	struct ddr_sm_grow *g = &sm->own.g;
	uint32_t full;

	if (!g->prep_io || in->io != g->prep_io) {
		ddr_sm_bug(sm, "the preparation of a grow ended that was never started");
		return;
	}
	g->prep_io = 0;
	sm->again = true;
	if (!g->preparing)
		return;		/* for a state that was forgotten */
	full = in->failed_members & in->no_space & members_asked(sm);
	ddr_sm_space_none(sm, DDR_SPACE_GROW, full);
	if (in->result || full)	/* if some could not be started, all is done again, whichever members failed meanwhile */
		g->prep_at = sm->now + RETRY_MS;
	else
		g->prepared = g->preparing;
	if (!in->result && !full)
		ddr_sm_space_done(sm, DDR_SPACE_GROW);
	sm->own.t.blocked = in->failed_members & members_asked(sm) & ~full;
	ddr_sm_count_writes(sm, sm->own.t.blocked);
	if (sm->own.t.blocked)
		ddr_sm_report(sm, sm->own.t.blocked, true);
}

/* ---- pumps ------------------------------------------------------------------ */

bool ddr_sm_grow_prepare(struct ddr_sm *sm)
{
	struct ddr_sm_grow *g = &sm->own.g;
	struct ddr_output *out;

	if (sm->own.t.set.op != DDR_MEMBER_OP_GROW)
		return !g->prep_io;
	if (g->prepared == sm->own.t.set.cursor && !g->prep_io)
		return true;
	if (g->prep_io || !ddr_sm_time(sm, g->prep_at) || !ddr_sm_room(sm, 1))
		return false;
	g->prep_io = ddr_sm_io(sm, 0);
	g->preparing = sm->own.t.set.cursor;
	out = ddr_sm_out(sm, DDR_OUT_PREPARE);
	out->io = g->prep_io;
	out->members = members_asked(sm) & ~(sm->own.t.faulty | sm->own.t.missing) & sm->own.present;
	out->start = sm->shared.sb.array_blocks;
	out->count = g->preparing - out->start;
	return false;
}

/* Asks for the sizes of the devices: for a pending GROW, or because this node must not start with devices that are too small. */
static void measure(struct ddr_sm *sm, bool asked)
{
	struct ddr_sm_grow *g = &sm->own.g;
	struct ddr_output *out;

	if (g->room_io || (g->room_known && g->room_generation == sm->shared.sb.generation) || !ddr_sm_time(sm, g->room_at) || !ddr_sm_room(sm, 1))
		return;
	g->room_io = ddr_sm_io(sm, 0);
	g->room_known = false;
	g->room_generation = sm->shared.sb.generation;
	out = ddr_sm_out(sm, DDR_OUT_ROOM);
	out->io = g->room_io;
	out->members = members_asked(sm) & (asked ? UINT32_MAX : sm->own.present);
}

bool ddr_sm_grow_may_start(struct ddr_sm *sm)
{
	if (sm->kernel.blocks <= sm->shared.sb.array_blocks) {
		sm->own.g.long_at = 0;
	} else {
		if (!sm->own.g.long_at)
			sm->own.g.long_at = sm->now + LONG_MS;
		/* built from superblocks of a change whose outcome is unknown: the array may still get that size */
		if (ddr_sm_time(sm, sm->own.g.long_at))
			ddr_sm_evict(sm, "the device table on this node is longer than the array" DDR_SM_START_ANEW);
		return false;
	}
	if (sm->own.g.room >= ddr_sm_grow_needs(sm))
		return true;
	measure(sm, false);
	return false;
}

static void tell_room(struct ddr_sm *sm)
{
	struct ddr_msg msg = { .type = DDR_M_ROOM };
	int self = ddr_sm_node_at(sm, sm->node);

	if (!sm->shared.grow.by || self < 0 || !ddr_sm_node_active(&sm->shared.nodes[self]) || sm->shared.nodes[self].roomed || sm->own.g.room_sent || ddr_sm_growing(sm))
		return;
	if (!sm->own.g.room_known || sm->own.g.room_generation != sm->shared.sb.generation) {
		measure(sm, true);
		return;
	}
	if (!ddr_sm_may_send(sm))
		return;
	msg.room.bytes = ddr_layout_offered(sm->own.g.room_bytes);	/* the rest stays free, for a slightly smaller disk */
	msg.room.member = sm->own.g.room_member;
	msg.room.generation = sm->shared.sb.generation;
	sm->own.g.room_sent = true;
	ddr_sm_send(sm, &msg);
}

/* The writer requests the change when all have room. */
static void ask(struct ddr_sm *sm)
{
	struct ddr_msg_member_set set = { .op = DDR_MEMBER_OP_GROW, .cursor = ddr_sm_room_target(sm) };

	if (set.cursor && ddr_sm_writes(sm) && !sm->own.stopping)
		ddr_sm_ask(sm, &set);
}

/* All nodes know the new size: our kernel gets a longer table. */
static void resize(struct ddr_sm *sm)
{
	if (sm->kernel.blocks >= sm->shared.sb.array_blocks || sm->own.g.resized == sm->shared.sb.array_blocks || !ddr_sm_members_settled(sm) || !ddr_sm_room(sm, 1))
		return;
	ddr_sm_out(sm, DDR_OUT_RESIZE)->count = sm->shared.sb.array_blocks;
	sm->own.g.resized = sm->shared.sb.array_blocks;
}

void ddr_sm_grow_pump(struct ddr_sm *sm)
{
	struct ddr_msg msg = { .type = DDR_M_GROW };

	if (!ddr_sm_running(sm) || !sm->kernel.enabled)
		return;
	if (sm->own.g.op && !sm->own.g.op_sent && ddr_sm_may_send(sm)) {
		msg.grow.blocks = sm->own.g.op_want;
		sm->own.g.op_sent = true;
		ddr_sm_send(sm, &msg);
	}
	tell_room(sm);
	ask(sm);
	resize(sm);
}
