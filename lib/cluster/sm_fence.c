// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Lost nodes, and their fencing.
 *
 * A node that leaves the view without LEAVE is lost. It counts in every
 * agreement as one that has not answered, until its START (its daemon is back and has
 * declared what its kernel holds), or a FENCED for this very failure, is delivered. If a verdict
 * has excluded it, only a FENCED counts. The lowest node that can fence does so; if that fails,
 * the next one, and so on, without end. Once each has failed, a pause precedes each further attempt.
 *
 * Must never: treat a node as dead on its own word, on a proof of an earlier failure, or
 * because its daemon is gone (rules 6, 7); ask for the fencing of a node while another machine of the view has its id.
 */
#include "sm_int.h"

/* ---- fencing ---------------------------------------------------------------- */

#define PAUSE_MS	3000u	/* before the first attempt after each node has failed; it doubles up to ... */
#define PAUSE_MOST_MS	60000u

/* How long the nodes wait after the attempt that has just failed. */
static uint64_t pause_ms(const struct ddr_sm *sm, const struct ddr_sm_node *n)
{
	uint32_t again;

	if (!ddr_sm_all_failed(sm, n))
		return 0;
	again = n->attempt - ddr_sm_fencers(sm, n);
	return again < 5 && PAUSE_MS << again < PAUSE_MOST_MS ? PAUSE_MS << again : PAUSE_MOST_MS;
}

static bool due(struct ddr_sm *sm, const struct ddr_sm_node *n)
{
	const struct ddr_sm_viewer *v = ddr_sm_viewer(sm, n->id);

	if (ddr_sm_fence_rests(sm, n))
		return false;
	if ((v && v->other) || n->excluded || ddr_sm_peer(sm, n)->gave_up)
		return true;
	if (!n->absent && !ddr_sm_in_quorum(sm, n->id))
		return true;
	return ddr_sm_time(sm, ddr_sm_peer(sm, n)->lost_at + sm->own.away_ms);
}

/*
 * Another machine of the view has the node's id. An agent that is called for that id may end this one, and then the other would count as dead.
 * That may be the same machine, after it lost its identity; then it is back as soon as its kernel is attached, so all are told only after a while.
 */
static bool stranger(struct ddr_sm *sm, const struct ddr_sm_node *n)
{
	struct ddr_sm_peer *p = ddr_sm_peer(sm, n);

	if (!ddr_sm_stranger(sm, n->id)) {
		p->stranger_told = false;
		return false;
	}
	if (!p->stranger_told && ddr_sm_time(sm, p->lost_at + sm->own.away_ms)) {
		p->stranger_told = true;
		ddr_sm_event(sm, DDR_EV_WAIT, ddr_sm_wait_text(DDR_SM_WAIT_TOLD_STRANGER))->b = n->id;
	}
	return true;
}

static void fence_serve(struct ddr_sm *sm, const struct ddr_sm_node *n)
{
	struct ddr_msg msg = { .type = DDR_M_FENCED };
	struct ddr_output *out;

	if (ddr_sm_peer(sm, n)->how && !ddr_sm_peer(sm, n)->how_sent) {
		msg.fenced.node = n->id;
		msg.fenced.how = ddr_sm_peer(sm, n)->how;
		msg.fenced.failure = n->failure;
		msg.fenced.time = sm->wall;
		ddr_sm_peer(sm, n)->how_sent = true;
		ddr_sm_send(sm, &msg);
		return;
	}
	if (stranger(sm, n))
		return;
	if (ddr_sm_nobody_fences(sm, n) && !ddr_sm_peer(sm, n)->wait_told && due(sm, n)) {
		ddr_sm_peer(sm, n)->wait_told = true;
		out = ddr_sm_event(sm, DDR_EV_WAIT, ddr_sm_wait_text(DDR_SM_WAIT_TOLD_ACK));
		out->b = n->id;
	}
	if (!sm->own.c.fencing || ddr_sm_peer(sm, n)->asked == n->failure || ddr_sm_peer(sm, n)->how || ddr_sm_fence_turn(sm, n) != sm->node || !due(sm, n) ||
	    !ddr_sm_time(sm, ddr_sm_peer(sm, n)->again_at))
		return;
	ddr_sm_peer(sm, n)->asked = n->failure;
	out = ddr_sm_out(sm, DDR_OUT_FENCE);
	out->node = n->id;
	out->failure = n->failure;
	out->settle_ms = ddr_sm_settle_ms(sm);
}

void ddr_sm_fence_answer(struct ddr_sm *sm, const struct ddr_input *in)
{
	int at = ddr_sm_node_at(sm, in->node);
	const struct ddr_sm_node *n = at < 0 ? NULL : &sm->shared.nodes[at];

	if (!n || !n->lost || n->failure != in->failure)
		return;		/* it came back meanwhile, or another node had proof */
	/* an agent that succeeds after its time was over has fenced the node; if it fails then, that was counted already */
	if (in->result && ddr_sm_peer(sm, n)->asked != in->failure)
		return;
	ddr_sm_peer(sm, n)->asked = 0;
	ddr_sm_peer(sm, n)->how = in->result ? DDR_FENCED_FAILED : in->cut_off ? DDR_FENCED_STORAGE : DDR_FENCED_AGENT;
	ddr_sm_peer(sm, n)->how_sent = false;
	sm->again = true;
}

void ddr_sm_fence_ack(struct ddr_sm *sm, uint32_t node)
{
	int at = ddr_sm_node_at(sm, node);

	if (at < 0 || !sm->shared.nodes[at].lost) {
		ddr_sm_event(sm, DDR_EV_REFUSED, "that node is not lost, so there is nothing to acknowledge")->a = ESRCH;
		return;
	}
	sm->own.peer[at].how = DDR_FENCED_OPERATOR;
	sm->own.peer[at].how_sent = false;
	sm->again = true;
}

static const char was_cut_off[] = "cut off from the members; its machine takes part again after a reboot";
const char ddr_sm_acknowledged[] = "acknowledged by the operator";

void ddr_sm_nodes_dead(struct ddr_sm *sm, const struct ddr_order_dead *dead, const char *how)
{
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++) {
		const struct ddr_sm_node *n = &sm->shared.nodes[i];
		struct ddr_output *out;

		if (!(dead->nodes >> i & 1))
			continue;
		out = ddr_sm_event(sm, DDR_EV_NODE_FENCED, how);
		out->a = n->failure;
		out->b = n->id;
		sm->own.peer[i].asked = sm->own.peer[i].how = 0;
		sm->own.peer[i].how_sent = sm->own.peer[i].wait_told = false;
		ddr_sm_ex_ended(sm, n->id, &dead->ended);
		sm->again = true;
	}
	ddr_sm_writer_chosen(sm, dead->writer);
}

void ddr_sm_fence_told(struct ddr_sm *sm, const struct ddr_msg *msg, enum ddr_fenced_answer answer, const struct ddr_order_dead *dead)
{
	const struct ddr_sm_node *n;
	struct ddr_sm_peer *p;
	bool all;

	if (answer == DDR_FA_DEAD)
		ddr_sm_nodes_dead(sm, dead, msg->fenced.how == DDR_FENCED_AGENT ? "fenced" : msg->fenced.how == DDR_FENCED_STORAGE ? was_cut_off : ddr_sm_acknowledged);
	if (answer != DDR_FA_NEXT)
		return;
	n = &sm->shared.nodes[ddr_sm_node_at(sm, msg->fenced.node)];
	p = &sm->own.peer[n - sm->shared.nodes];
	p->again_at = sm->now + pause_ms(sm, n);
	all = ddr_sm_all_failed(sm, n);
	if (p->how == DDR_FENCED_FAILED) {
		p->how = 0;
		p->how_sent = false;
	}
	ddr_sm_event(sm, DDR_EV_WAIT, ddr_sm_wait_text(all ? DDR_SM_WAIT_TOLD_FAILS : DDR_SM_WAIT_TOLD_NEXT))->b = msg->fenced.node;
	sm->again = true;
}

void ddr_sm_gone_told(struct ddr_sm *sm, const struct ddr_order_dead *dead)
{
	ddr_sm_nodes_dead(sm, dead, "its machine is back, and nothing of that time is left on it");
}

void ddr_sm_fence_resend(struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		sm->own.peer[i].how_sent = false;
	if (!sm->own.c.leave_done)
		sm->own.c.leave_sent = false;
}

/* ---- leaving ---------------------------------------------------------------- */

void ddr_sm_fence_pump(struct ddr_sm *sm)
{
	ddr_sm_leave_pump(sm);
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		if (sm->shared.nodes[i].lost && ddr_sm_may_send(sm))
			fence_serve(sm, &sm->shared.nodes[i]);
}
