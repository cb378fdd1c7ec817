// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the world notes of an output of the state machine, whoever carries it out: events, what is sent, and what rule 4 allows.
 */
#include "node.h"

static bool takes_part(const struct node *n)
{
	struct ddr_sm_status st;

	ddr_sm_get_status(n->sm, &st);
	return st.joined && !n->left;
}

/*
 * Would there be too few members without those that do not answer @who, and without others that have failed something and may be
 * about to fail?
 */
static bool needs_cut(const struct sim *s, uint32_t in_sync, uint32_t who)
{
	uint32_t failing = 0;

	for (uint32_t m = 0; m < s->sb0.members; m++)
		if (s->disk[m].dead || s->disk[m].faulted || s->disk[m].daemon_failed || s->disk[m].was_cut)
			failing |= 1u << m;
	for (uint32_t m = 0; m < s->sb0.members; m++)
		if ((in_sync >> m & 1) && (s->disk[m].was_cut & who) &&
		    (uint32_t)__builtin_popcount(in_sync & ~failing & ~(1u << m)) < ddr_geo_data(&s->g))
			return true;
	return false;
}

/*
 * Rule 4: is there a member that only this node does not reach, and without which there would be too few? If this node does not take
 * part and only hears of it: one that another node does not reach.
 */
bool node_cut_too_far(const struct sim *s, const struct node *n)
{
	struct ddr_super sb;
	uint32_t in_sync = check_newest_super(s, &sb) ? check_in_sync(&sb) : 0;
	uint32_t who = takes_part(n) ? 1u << (n - s->node) : ~0u;

	/* the disks may already list one more in sync, which was not known when the failure was judged */
	return needs_cut(s, in_sync, who) || needs_cut(s, check_in_sync(ddr_sm_super(n->sm)), who);
}

void node_event_out(struct sim *s, struct node *n, const struct ddr_output *out)
{
	switch (out->event) {
	case DDR_EV_BUG:
		sim_violation(s, "the machine says that this cannot be: %s", out->text);
	case DDR_EV_MEMBER_ERROR:
		if (out->member < DDR_MAX_MEMBERS && !s->disk[out->member].failed && !(out->event == DDR_EV_MEMBER_ERROR && out->a == DDR_EC_NOSPC))
			sim_violation(s, "an error is told of member %u, which has failed nothing", out->member);
		return;
	case DDR_EV_FAILED:
		if (s->cluster && node_cut_too_far(s, n))
			sim_abandon(s, "the only node that took part does not reach a member that the array needs");
		if (!s->lossy)
			sim_violation(s, "the array failed although the parity covers what happened");
		n->failed = true;
		return;
	case DDR_EV_REBUILD_DONE:
		if (out->node != DDR_NO_MEMBER)
			check_replaced(s, out->node, out->member);
		check_whole_again(s);
		return;
	case DDR_EV_CLEAN:
		n->clean = true;
		return;
	case DDR_EV_READY:
		n->ready = true;
		return;
	case DDR_EV_NODE_JOINED:
		s->stats[STAT_JOINED] += out->b == n->nid;
		s->node[cluster_machine(s, (uint32_t)out->b)->id - 1].replaced = false;	/* the slot is its own now */
		return;
	case DDR_EV_NODE_RECOVERED:
		s->stats[STAT_RECOVERED]++;
		return;
	case DDR_EV_LEFT:
		n->left = true;
		return;
	case DDR_EV_SUSPECT:
		s->stats[STAT_SUSPECT]++;
		return;
	default:
		return;
	}
}

void node_check_sent(struct sim *s, const struct node *n, const struct ddr_output *out)
{
	struct ddr_msg msg;

	if (ddr_msg_decode(out->msg, out->msg_len, &msg) || msg.type != DDR_M_RECOVERED)
		return;
	check_recovered(s, n, msg.recover.slot);
	finding_recovered(s, msg.recover.slot, false);
}

/*
 * A flush failed, dropped a cache, and the superblocks do not record it yet. What happens if the daemon dies or power fails just now
 * is not promised (doc/protocol.md), so these events are postponed.
 */
bool node_limit_open(const struct sim *s)
{
	struct ddr_super sb;

	if (!check_newest_super(s, &sb))
		return false;
	for (uint32_t m = 0; m < s->sb0.members; m++)
		if (s->disk[m].dropped && !s->disk[m].dead && (check_in_sync(&sb) >> m & 1))
			return true;
	return false;
}
