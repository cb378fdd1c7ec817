// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The messages of the total order, and the start of this node.
 *
 * Must never: act on a message of another ring, array, version or sender than the group service names; count a node that left as one
 * that agrees before it is proven dead; or let this node act on an array in which another owner's slot is dirty.
 */
#include "sm_int.h"

/* ---- messages --------------------------------------------------------------- */

static const char *refuse(const struct ddr_sm *sm, const struct ddr_input *in, const struct ddr_msg *msg)
{
	if (memcmp(msg->uuid, sm->shared.sb.array_uuid, sizeof(msg->uuid)) != 0)
		return "message of another array";
	if (msg->sender != in->node)
		return "message in the name of another node";
	if (!sm->own.viewed || msg->ring != sm->own.ring)
		return "message of another ring";
	if (!ddr_sm_viewer(sm, in->node))
		return "message of a node outside the view";
	/* the epoch after the highest would be the lowest, and the oldest state would count as the newest */
	if (msg->epoch > DDR_SM_MAX_EPOCH)
		return "the epoch has reached its limit; stop the array on all nodes, and start it again";
	return NULL;
}

/*
 * May this message change the state here? One of an earlier epoch is refused by all nodes alike and sent again; a node without the
 * state has nothing to change.
 */
static bool in_turn(struct ddr_sm *sm, struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	if (msg->type == DDR_M_HELLO)
		return true;
	if (msg->epoch != sm->own.c.epoch || ddr_sm_viewer(sm, msg->sender)->other)
		return false;
	sm->own.c.undo = false;
	if (msg->sender != sm->node)
		sm->own.c.shared = sm->own.c.epoch;
	if (msg->type == DDR_M_STATE)
		return true;
	if (!sm->own.c.synced || sm->own.c.transfer || ddr_sm_node_at(sm, msg->sender) < 0)
		return false;
	ddr_sm_settle(sm, s);
	s->history = ddr_sm_mix(s->history ^ ((uint64_t)msg->sender << 32 | msg->serial)) + msg->type;
	return true;
}

/* An impossible message is reported, and changes nothing. */
static bool believed(struct ddr_sm *sm, const char *why)
{
	if (why)
		ddr_sm_bug(sm, why);
	return !why;
}

/*
 * First what the message changes for all nodes alike (sm_order.h), then its consequences on this node. Three groups: exclusive
 * ranges; members and the map; nodes. Returns false if the message belongs to another group.
 */
static bool in_order_ex(struct ddr_sm *sm, struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	enum ddr_ex_answer answer;
	struct ddr_sm_ex *x;

	switch (msg->type) {
	case DDR_M_EX_REQUEST:
		answer = ddr_order_ex_request(s, msg, &x);
		ddr_sm_ex_requested(sm, msg, answer, x);
		return true;
	case DDR_M_EX_ACK:
		ddr_order_ex_ack(s, msg);
		return true;
	case DDR_M_EX_RELEASE:
		x = ddr_order_ex_release(s, msg);
		ddr_sm_ex_released(sm, msg, x);
		return true;
	case DDR_M_EX_VOID:
		ddr_order_ex_void(s, msg);
		ddr_sm_ex_voided(sm, msg);
		return true;
	default:
		return false;
	}
}

static void member_failed(struct ddr_sm *sm, struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	struct ddr_order_fail n;

	if (ddr_order_member_fail(s, msg, &n))
		ddr_sm_member_failed(sm, msg, &n);
	else
		ddr_sm_bug(sm, "a member failed that does not exist");
}

static void member_done(struct ddr_sm *sm, struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	struct ddr_order_done n;
	enum ddr_done_answer answer = ddr_order_member_done(s, msg, &n);

	if (answer == DDR_DONE_WRONG)
		ddr_sm_bug(sm, "a change of the members ended that was never started");
	else if (answer == DDR_DONE_DONE)
		ddr_sm_member_done(sm, msg, &n);
}

static bool in_order_member(struct ddr_sm *sm, struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	enum ddr_event told;
	bool changed;

	switch (msg->type) {
	case DDR_M_MEMBER_FAIL:
		member_failed(sm, s, msg);
		return true;
	case DDR_M_MEMBER_DONE:
		member_done(sm, s, msg);
		return true;
	case DDR_M_MEMBER_ACK:
		believed(sm, ddr_order_member_ack(s, msg));
		return true;
	case DDR_M_MEMBER_SET:
		changed = ddr_order_member_set(s, msg);
		ddr_sm_member_set(sm, msg, changed);
		return true;
	case DDR_M_FOLDED:
		ddr_order_folded(s, msg);
		ddr_sm_folded(sm, msg->sender);
		return true;
	case DDR_M_SEEK:
		if (believed(sm, ddr_order_seek(s, msg)))
			ddr_sm_seek(sm, msg->sender, msg->seek.member);
		return true;
	case DDR_M_SEEN:
		ddr_order_seen(s, msg);
		ddr_sm_seen(sm, msg->sender);
		return true;
	case DDR_M_GROW:
		ddr_sm_grow_told(sm, msg, ddr_order_grow(s, msg));
		return true;
	case DDR_M_ROOM:
		changed = ddr_order_room(s, msg);
		ddr_sm_room_told(sm, s, msg->sender, changed);
		return true;
	case DDR_M_MAP_SET:
		if (ddr_order_map_set(s, msg))
			ddr_sm_map_set(sm, s, msg);
		else
			ddr_sm_bug(sm, "a change of the region map names regions that do not exist");
		return true;
	case DDR_M_MAP_DONE:
		if (believed(sm, ddr_order_map_done(s, msg)))
			ddr_sm_map_told(sm, msg);
		return true;
	case DDR_M_VERIFY:
		changed = ddr_order_verify(s, msg, &told);
		ddr_sm_verify_message(sm, msg, changed, told);
		return true;
	default:
		return false;
	}
}

static void start_delivered(struct ddr_sm *sm, struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	struct ddr_order_start n;
	enum ddr_start_answer answer = ddr_order_start(s, msg, sm->own.c.n_view, &n);

	ddr_sm_start_told(sm, msg, answer, &n);
}

static void fenced_delivered(struct ddr_sm *sm, struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	struct ddr_order_dead dead;
	enum ddr_fenced_answer answer = ddr_order_fenced(s, msg, &dead);

	ddr_sm_fence_told(sm, msg, answer, &dead);
}

static void gone_delivered(struct ddr_sm *sm, struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	struct ddr_order_dead dead;

	if (ddr_order_gone(s, msg, &dead))
		ddr_sm_gone_told(sm, &dead);
}

static bool in_order_node(struct ddr_sm *sm, struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	bool leaves;

	switch (msg->type) {
	case DDR_M_START:
		start_delivered(sm, s, msg);
		return true;
	case DDR_M_LEAVE:
		leaves = ddr_order_leave(s, msg, ddr_sm_others_move(sm, msg->sender));
		ddr_sm_leave_told(sm, msg, leaves);
		return true;
	case DDR_M_FENCED:
		fenced_delivered(sm, s, msg);
		return true;
	case DDR_M_GONE:
		gone_delivered(sm, s, msg);
		return true;
	case DDR_M_RENEWED:
		ddr_order_owner_renewed(s, msg);
		sm->again = true;
		return true;
	case DDR_M_RECOVER:
	case DDR_M_RECOVERED:
		ddr_sm_recover_told(sm, msg, ddr_order_recover(s, msg));
		return true;
	default:
		return false;
	}
}

void ddr_sm_message(struct ddr_sm *sm, struct ddr_sm_shared *s, const struct ddr_input *in)
{
	struct ddr_msg msg;
	const char *why = in->msg ? ddr_msg_decode(in->msg, in->msg_len, &msg) : "no message";
	struct ddr_output *out;

	if (!why)
		why = refuse(sm, in, &msg);
	if (why) {
		out = ddr_sm_event(sm, DDR_EV_REFUSED, why);
		out->a = EPROTO;
		out->b = in->node;
		return;
	}
	if (!in_turn(sm, s, &msg) || in_order_ex(sm, s, &msg) || in_order_member(sm, s, &msg) || in_order_node(sm, s, &msg))
		return;
	switch (msg.type) {	/* about the view, the whole state, and what only this node uses */
	case DDR_M_HELLO: ddr_sm_hello(sm, s, &msg); return;
	case DDR_M_STATE: ddr_sm_state(sm, s, &msg); return;
	case DDR_M_USE: ddr_sm_use_message(sm, &msg); return;
	default: return;
	}
}

/* ---- start ------------------------------------------------------------------ */

static const char seq_spent[] = "the change counters in the superblocks are near their limit, so the superblocks are probably damaged. "
				"Change nothing on the disks; ddraid examine DEV... shows them";

/* Why this node must not start without a cluster, where no other node is proven dead, or NULL. @node: the node that prevents it. */
static const char *start_refused(const struct ddr_sm *sm, uint32_t *node)
{
	int at;

	for (uint32_t i = 0; i < sm->shared.sb.slots && !sm->own.adopt; i++) {
		*node = sm->shared.sb.slot_node[i];
		at = ddr_sm_node_at(sm, *node);
		if (*node && (at < 0 || !(sm->shared.here >> at & 1)))
			return "a slot belongs to a node outside this group, which may be using the array now";
	}
	*node = sm->own.foreign_node;
	at = ddr_sm_node_at(sm, sm->own.foreign_node);
	if (sm->own.foreign_regions && (at < 0 || !(sm->shared.here >> at & 1)))
		return "regions in the slot of another node are dirty; that node must start the array and resync them";
	return NULL;
}

static uint32_t members_absent(const struct ddr_sm *sm)
{
	return ddr_sm_written(sm) & ~sm->own.present;
}

#define JUDGED_MS	10000u

/*
 * START says which members are missing: they leave the array, and if they are too many it has failed. So the driver must have looked for them, and not long
 * ago. A member that is in use by now, and was a spare or had failed when the array was loaded, nobody has waited for; and one that was missing then may be
 * there, if this node has had to wait for the others meanwhile. Only before the first START: later this node may know of a fencing that no disk names yet.
 * True: the driver looks again, or this node gives up, as it does where its table is too old.
 */
static bool too_old(struct ddr_sm *sm)
{
	uint32_t absent = members_absent(sm);
	bool unjudged = absent & ~sm->own.judged;

	if (sm->kernel.outdated) {
		ddr_sm_evict(sm, "members have changed places since this node's table was loaded" DDR_SM_START_ANEW);
		return true;
	}
	if (!absent || sm->own.behind || sm->own.judged_ms == UINT64_MAX)	/* behind: the operator has said it for this load alone */
		return false;
	if (unjudged && sm->own.again)
		ddr_sm_evict(sm, "this node does not see the disks that the running nodes write the newest superblocks to. When it sees them" DDR_SM_ANEW);
	else if (unjudged)
		ddr_sm_anew(sm, "a member is in use by now that was not when this node read the superblocks, and whose disk it did not find then");
	else if (!sm->own.again && sm->now - sm->own.judged_ms >= JUDGED_MS)
		ddr_sm_anew(sm, "the disk of a member was not found when this node read the superblocks, and it had to wait since");
	else
		return false;
	return true;
}

void ddr_sm_start_pump(struct ddr_sm *sm)
{
	struct ddr_msg msg = { .type = DDR_M_START };
	struct ddr_output *out;
	const char *why;
	uint32_t node, own = ddr_sm_slot_of(sm, sm->node);

	if (sm->own.start != DDR_S_OFF || sm->own.anew || !ddr_sm_active(sm) || sm->kernel.state != DDR_K_ATTACHED || !ddr_sm_room(sm, 2) ||
	    !ddr_sm_may_send(sm))
		return;
	if (sm->own.c.leave_wanted || ddr_sm_excluded(sm, sm->node) || (own != DDR_SM_NO_SLOT && !ddr_sm_slot_settled(sm, own, sm->node)))
		return;
	if (!ddr_sm_grow_may_start(sm) || ddr_sm_slot_comes(sm) ||
	    (!sm->own.adopt && ddr_shared_stranger_begins(&sm->shared, sm->node, sm->own.machine, sm->kernel.boot_id, sm->kernel.cookie)))
		return;
	msg.start.time = sm->wall;
	memcpy(msg.start.machine, sm->own.machine, sizeof(msg.start.machine));
	memcpy(msg.start.name, sm->own.name, sizeof(msg.start.name));
	msg.start.flags = (sm->own.several ? DDR_START_SEVERAL : 0) | (sm->own.adopt ? DDR_START_ADOPT : 0);
	msg.sender = sm->node;
	msg.start.cookie = sm->kernel.cookie;
	memcpy(msg.start.boot_id, sm->kernel.boot_id, sizeof(msg.start.boot_id));
	memcpy(msg.start.cluster, sm->own.cluster, sizeof(msg.start.cluster));
	node = 0;
	why = sm->shared.sb.seq >= DDR_SUPER_SEQ_START || sm->shared.sb.generation >= DDR_GENERATION_START || sm->own.behind >= DDR_GENERATION_START ? seq_spent : ddr_shared_mark_refused(&sm->shared, &msg);
	if (!why && !sm->shared.cluster)
		why = start_refused(sm, &node);
	if (why) {
		if (!sm->own.refused_told) {
			out = ddr_sm_event(sm, DDR_EV_REFUSED, why);
			out->a = EBUSY;
			out->b = node;
		}
		sm->own.refused_told = true;
		return;
	}
	if (too_old(sm))
		return;
	msg.start.slot = sm->own.slot;
	msg.start.missing = members_absent(sm);
	msg.start.present = sm->own.present;
	msg.start.room = ddr_sm_grow_room(sm);
	msg.start.held = (uint32_t)(sm->own.n_granted > sm->kernel.declared ? sm->own.n_granted : sm->kernel.declared);
	ddr_sm_send(sm, &msg);
	sm->own.judged_ms = UINT64_MAX;
	sm->own.start = DDR_S_SENT;
}
