// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Which node sees which member, and members that come: new disks, and old ones that return.
 *
 * Each node reports which devices it has open (SEEN). A disk is taken into the array only when all nodes that take part
 * see it, since from that change on every kernel writes to it. A member that is out comes back on request
 * (SEEK): every node searches for its device, and when all have it, the writer requests its rebuild (BACK). If its
 * superblock is the last one that it can have had, and the map has recorded what was written since it left, only
 * those regions are rebuilt (READD).
 *
 * Must never: take a member back because of a report from before it left; rebuild only the regions written since on a disk whose superblock is
 * older than the last generation in which it was complete, or of another history.
 */
#include "sm_int.h"

void ddr_sm_members_loaded(struct ddr_sm *sm, const struct ddr_sm_config *cfg)
{
	sm->own.present = cfg->present;
	sm->own.judged = ddr_sm_written(sm);
	sm->own.again = cfg->again;
}

/* ---- inputs ----------------------------------------------------------------- */

void ddr_sm_present(struct ddr_sm *sm, const struct ddr_input *in)
{
	uint32_t bit = in->member < DDR_MAX_MEMBERS ? 1u << in->member : 0;

	if (!bit || in->member >= sm->shared.sb.members) {
		ddr_sm_bug(sm, "a device was reported for a member that does not exist");
		return;
	}
	if (ddr_sm_written(sm) & bit)
		return;		/* it came in meanwhile: this node reported that it has the device */
	sm->own.present |= bit;
	sm->own.sk.last = in->value & DDR_PRESENT_LAST ? sm->own.sk.last | bit : sm->own.sk.last & ~bit;
	sm->kernel.table = in->value & DDR_PRESENT_TABLE ? sm->kernel.table | bit : sm->kernel.table & ~bit;
	sm->again = true;
}

static struct ddr_output *refuse(struct ddr_sm *sm, uint32_t member, const char *why)
{
	struct ddr_output *out = ddr_sm_event(sm, DDR_EV_REFUSED, why);

	out->a = EBUSY;
	out->member = member;
	return out;
}

void ddr_sm_op_seek(struct ddr_sm *sm, uint32_t member)
{
	if (!ddr_sm_running(sm) || (!ddr_sm_is_out(sm, member) && (member >= sm->shared.sb.members || sm->shared.sb.member[member].state != DDR_MEMBER_SPARE))) {
		refuse(sm, member, "the array is not running, or the member is neither a spare nor failed");
		return;
	}
	sm->own.sk.ask |= 1u << member;
}

/* The operator gives a spare the role of a member: of a working one (it is copied), or of a failed or missing one. */
static bool replaces(const struct ddr_msg_member_set *set)
{
	return set->op == DDR_MEMBER_OP_REPLACE || set->op == DDR_MEMBER_OP_TAKE;
}

/* The index of a new disk in the table: one that is no longer needed, or the one after the last. */
static uint32_t free_place(const struct ddr_sm *sm)
{
	for (uint32_t m = 0; m < sm->shared.sb.members; m++)
		if (ddr_sm_is_out(sm, m) && sm->shared.sb.member[m].role == DDR_ROLE_NONE)
			return m;
	return sm->shared.sb.members;
}

void ddr_sm_op_member(struct ddr_sm *sm, uint32_t op, const struct ddr_input *in)
{
	struct ddr_msg_member_set set = { .op = op, .member = op == DDR_MEMBER_OP_ADD ? free_place(sm) : in->member };

	memcpy(set.uuid, in->uuid, sizeof(set.uuid));
	if (op == DDR_MEMBER_OP_REMOVE && replaces(&sm->own.sk.set) && sm->own.sk.set.member == set.member)
		sm->own.sk.set.op = 0;
	if (sm->own.sk.set.op)
		refuse(sm, set.member, "another change of the members is in progress; try again");
	else if (!ddr_sm_running(sm) || !ddr_sm_set_valid(sm, &set))
		refuse(sm, set.member, op == DDR_MEMBER_OP_ADD ? "the array is not running, or its member table is full; remove failed members "
								 "first (ddraid remove)" :
		       "the array is not running, or the member is in use; fail it first (ddraid fail)");
	else
		sm->own.sk.set = set;
}

/*
 * Finding T5: whoever asked for the ADD gives the disk its superblock once it has an entry; without him the entry would be a spare that no node
 * ever sees. If the request is in flight or accepted, its entry is removed as soon as it is there. If this node dies before that, the entry stays.
 */
void ddr_sm_op_withdraw(struct ddr_sm *sm, const uint8_t uuid[DDR_UUID_LEN])
{
	struct ddr_sm_seek *sk = &sm->own.sk;

	if (sk->set.op == DDR_MEMBER_OP_ADD && !memcmp(sk->set.uuid, uuid, sizeof(sk->set.uuid))) {
		sk->set.op = 0;
		if (!sm->own.rb.set_sent)
			return;		/* the group has never heard of it */
	}
	memmove(sk->unwanted[1], sk->unwanted[0], sizeof(sk->unwanted) - sizeof(sk->unwanted[0]));
	memcpy(sk->unwanted[0], uuid, sizeof(sk->unwanted[0]));
	sm->again = true;
}

/*
 * The policy for suspect reads: no node applies it before it is on the disks. The last request counts, even if
 * the previous one was not carried out yet, or is in flight.
 */
void ddr_sm_op_policy(struct ddr_sm *sm, uint32_t policy)
{
	struct ddr_msg_member_set set = { .op = DDR_MEMBER_OP_POLICY, .cursor = policy };

	if (sm->own.sk.set.op && sm->own.sk.set.op != DDR_MEMBER_OP_POLICY)
		ddr_sm_event(sm, DDR_EV_REFUSED, "another change of the superblocks is in progress; try again")->a = EBUSY;
	else if (!ddr_sm_running(sm))
		ddr_sm_event(sm, DDR_EV_REFUSED, "the array is not running")->a = EBUSY;
	else
		sm->own.sk.set = set;
}

/* May the spare replace the member, once all nodes see it? NULL, or why not. */
static const char *not_replaceable(const struct ddr_sm *sm, const struct ddr_msg_member_set *set)
{
	uint32_t holder = set->role < sm->shared.sb.roles ? ddr_sm_member_at(sm, set->role) : DDR_NO_MEMBER;

	if (holder == DDR_NO_MEMBER)
		return "the member to replace has no role in the array";
	if (set->op == DDR_MEMBER_OP_REPLACE && sm->shared.sb.member[holder].state != DDR_MEMBER_IN_SYNC)
		return "the member to replace is no longer in sync; try again";
	if (set->member >= sm->shared.sb.members || sm->shared.sb.member[set->member].state != DDR_MEMBER_SPARE)
		return "the new disk is not a spare of the array";
	if (ddr_sm_rebuilding(sm) != DDR_NO_MEMBER)
		return "another member is being rebuilt or replaced; wait until that has finished";
	return NULL;
}

/* Cancels a request that was not started. If it is in flight to the group already, it may still be carried out. */
static void replace_forget(struct ddr_sm *sm, uint32_t spare)
{
	if (replaces(&sm->own.sk.set) && sm->own.sk.set.member == spare)
		sm->own.sk.set.op = 0;
}

void ddr_sm_op_replace(struct ddr_sm *sm, const struct ddr_input *in)
{
	uint32_t role = in->member < sm->shared.sb.members ? sm->shared.sb.member[in->member].role : DDR_ROLE_NONE;
	struct ddr_msg_member_set set = { .op = ddr_sm_is_out(sm, in->member) ? DDR_MEMBER_OP_TAKE : DDR_MEMBER_OP_REPLACE,
					  .member = in->value < DDR_MAX_MEMBERS ? (uint32_t)in->value : DDR_NO_MEMBER, .role = role };
	const char *why = not_replaceable(sm, &set);

	if (in->value == DDR_NO_MEMBER)
		replace_forget(sm, in->member);
	else if (sm->own.sk.set.op)
		refuse(sm, in->member, "another change of the members is in progress; try again");
	else if (!ddr_sm_running(sm))
		refuse(sm, in->member, "the array is not running");
	else if (why)
		refuse(sm, in->member, why);
	else
		sm->own.sk.set = set;
}

/* ---- the total order -------------------------------------------------------- */

void ddr_sm_seek(struct ddr_sm *sm, uint32_t sender, uint32_t m)
{
	if (sender == sm->node) {
		sm->own.sk.ask &= ~(1u << m);
		sm->own.sk.ask_sent = false;
	}
	sm->own.sk.looked &= ~(1u << m);
	sm->again = true;
}

void ddr_sm_seen(struct ddr_sm *sm, uint32_t sender)
{
	if (sender == sm->node)
		sm->own.sk.seen_sent = false;
	sm->again = true;
}

void ddr_sm_members_gone(struct ddr_sm *sm, uint32_t members)
{
	sm->own.present &= ~members;
	sm->own.sk.last &= ~members;
	sm->own.sk.looked &= ~members;
}

/*
 * Our kernel's table was checked against the superblock @was. If it names a device for a member that has no role any more, that device is not at its
 * role, whichever role it gets. A member that has another role now is at the wrong place, and changing one place at a time cannot correct that table.
 */
static void table_known(struct ddr_sm *sm, uint32_t m, const struct ddr_member *was)
{
	const struct ddr_member *now = &sm->shared.sb.member[m];
	bool table = sm->kernel.table >> m & 1, shadow = sm->kernel.shadow == m, same = !memcmp(now->uuid, was->uuid, sizeof(was->uuid));

	if (same && now->role == was->role && (!table || !((now->flags ^ was->flags) & DDR_MEMBER_F_REPLACING)))
		return;
	if (same && (table || shadow) && now->role != DDR_ROLE_NONE)
		sm->kernel.outdated = true;
	sm->kernel.table &= ~(1u << m);
	if (shadow)
		sm->kernel.shadow = DDR_NO_MEMBER;
}

void ddr_sm_members_known(struct ddr_sm *sm, const struct ddr_super *was)
{
	for (uint32_t m = 0; m < DDR_MAX_MEMBERS; m++) {
		table_known(sm, m, &was->member[m]);
		if (memcmp(sm->shared.sb.member[m].uuid, was->member[m].uuid, sizeof(was->member[m].uuid)) != 0) {
			sm->own.present &= ~(1u << m);
			sm->own.judged &= ~(1u << m);
			sm->own.sk.last &= ~(1u << m);
			sm->own.sk.looked &= ~(1u << m);
		}
	}
}

/* ---- the pump --------------------------------------------------------------- */

/* Members whose device every node should have: spares, and members that are sought. */
static bool wanted(const struct ddr_sm *sm, uint32_t m)
{
	return sm->shared.sb.member[m].state == DDR_MEMBER_SPARE || (sm->shared.change.back >> m & 1);
}

/* Searches for wanted devices that this node does not have. */
static void look(struct ddr_sm *sm)
{
	for (uint32_t m = 0; m < sm->shared.sb.members; m++) {
		if (!wanted(sm, m) || ((sm->own.present | sm->own.sk.looked) >> m & 1) || !ddr_sm_room(sm, 1))
			continue;
		ddr_sm_out(sm, DDR_OUT_SEEK)->member = m;
		sm->own.sk.looked |= 1u << m;
	}
}

static void tell(struct ddr_sm *sm)
{
	struct ddr_msg msg = { .type = DDR_M_SEEN };
	int self = ddr_sm_node_at(sm, sm->node);

	if (self < 0 || !sm->shared.nodes[self].started || sm->shared.nodes[self].sees == sm->own.present || sm->own.sk.seen_sent || !ddr_sm_may_send(sm))
		return;
	msg.seen.members = sm->own.present;
	msg.seen.generation = sm->shared.sb.generation;
	sm->own.sk.seen_sent = true;
	ddr_sm_send(sm, &msg);
}

static void seek(struct ddr_sm *sm)
{
	struct ddr_msg msg = { .type = DDR_M_SEEK };

	if (!sm->own.sk.ask || sm->own.sk.ask_sent || !ddr_sm_may_send(sm))
		return;
	msg.seek.member = (uint32_t)__builtin_ctz(sm->own.sk.ask);
	sm->own.sk.ask_sent = true;
	ddr_sm_send(sm, &msg);
}

/* Sends the operator's change of the member table until it is accepted; another change may be first. */
static void change(struct ddr_sm *sm)
{
	if (!sm->own.sk.set.op)
		return;
	if (sm->own.sk.set.op == DDR_MEMBER_OP_ADD)
		sm->own.sk.set.member = free_place(sm);
	if (!ddr_sm_members_settled(sm))
		return;
	if (replaces(&sm->own.sk.set) && !ddr_sm_all_see(sm, sm->own.sk.set.member) && !not_replaceable(sm, &sm->own.sk.set))
		return;
	if (sm->own.sk.set.op == DDR_MEMBER_OP_POLICY && sm->own.rb.set_sent)
		return;		/* the opposite may be in flight */
	if (sm->own.sk.set.op == DDR_MEMBER_OP_POLICY && !ddr_sm_set_valid(sm, &sm->own.sk.set)) {
		sm->own.sk.set.op = 0;	/* already done */
		return;
	}
	if (!ddr_sm_set_valid(sm, &sm->own.sk.set)) {
		refuse(sm, sm->own.sk.set.member, "the members have changed meanwhile; check ddraid status, and try again")->b = sm->own.sk.set.op;
		sm->own.sk.set.op = 0;
		return;
	}
	ddr_sm_ask(sm, &sm->own.sk.set);
}

static uint32_t member_with(const struct ddr_sm *sm, const uint8_t uuid[DDR_UUID_LEN])
{
	for (uint32_t m = 0; m < sm->shared.sb.members; m++)
		if (!memcmp(sm->shared.sb.member[m].uuid, uuid, DDR_UUID_LEN))
			return m;
	return DDR_NO_MEMBER;
}

/* May the disk still get an entry? */
static bool may_enter(const struct ddr_sm *sm, const uint8_t uuid[DDR_UUID_LEN])
{
	const struct ddr_msg_member_set *set = &sm->shared.change.set;

	return sm->own.rb.set_sent || (set->op == DDR_MEMBER_OP_ADD && !memcmp(set->uuid, uuid, DDR_UUID_LEN));
}

/* Removes entries whose ADD was withdrawn, one at a time. */
static void withdraw(struct ddr_sm *sm)
{
	static const uint8_t none[DDR_UUID_LEN];

	for (uint32_t i = 0; i < DDR_SM_UNWANTED; i++) {
		struct ddr_msg_member_set *set = &sm->own.sk.set;
		uint8_t *uuid = sm->own.sk.unwanted[i];
		uint32_t m = member_with(sm, uuid);

		if (!memcmp(uuid, none, sizeof(none)))
			continue;
		if (m == DDR_NO_MEMBER ? !may_enter(sm, uuid) : sm->shared.sb.member[m].role != DDR_ROLE_NONE) {
			memset(uuid, 0, DDR_UUID_LEN);		/* it gets none; or somebody gave it a superblock, and it is in use */
		} else if (m != DDR_NO_MEMBER && !set->op && ddr_sm_members_settled(sm)) {
			*set = (struct ddr_msg_member_set){ .op = DDR_MEMBER_OP_REMOVE, .member = m };
			memcpy(set->uuid, uuid, sizeof(set->uuid));
			set->uuid[0] ^= 0xff;	/* as random as the disk's own, and of no disk */
		}
	}
}

/* The writer takes sought members back, one at a time. */
static void call_back(struct ddr_sm *sm)
{
	if (!sm->shared.change.back || !ddr_sm_writes(sm) || sm->own.stopping || sm->shared.sb.parity == 0)
		return;
	for (uint32_t m = 0; m < sm->shared.sb.members; m++) {
		bool readd = (sm->own.sk.last >> m & 1) && ddr_sm_may_readd(sm, m);
		struct ddr_msg_member_set set = { .op = readd ? DDR_MEMBER_OP_READD : DDR_MEMBER_OP_BACK, .member = m };

		if ((sm->shared.change.back >> m & 1) && ddr_sm_set_valid(sm, &set)) {
			ddr_sm_ask(sm, &set);
			return;
		}
	}
}

void ddr_sm_seek_pump(struct ddr_sm *sm)
{
	if (!ddr_sm_running(sm) || !sm->kernel.enabled)
		return;
	look(sm);
	tell(sm);
	seek(sm);
	withdraw(sm);
	change(sm);
	call_back(sm);
}

/* A new view: messages that were sent in the previous ring and not delivered are sent again. */
void ddr_sm_seek_view(struct ddr_sm *sm)
{
	sm->own.sk.seen_sent = sm->own.sk.ask_sent = false;
}

/* The node for which a change of the members waits: one whose kernel has not ended its older requests, or the writer of the superblocks. */
static void change_status(const struct ddr_sm *sm, struct ddr_sm_status *st)
{
	const struct ddr_sm_change *c = &sm->shared.change;
	uint64_t owe = ddr_sm_voters(sm) & ~c->acked;

	if (ddr_sm_members_settled(sm))
		return;
	st->change_acks = c->ack && owe;
	st->change_node = st->change_acks ? sm->shared.nodes[__builtin_ctzll(owe)].id : ddr_sm_writer(sm);
}

void ddr_sm_seek_status(const struct ddr_sm *sm, struct ddr_sm_status *st)
{
	change_status(sm, st);
	st->failing = sm->shared.failed || sm->own.gave_up ? 0 : sm->own.seen_hard & ddr_sm_alive(sm);
	st->sought = sm->shared.change.back;
	for (uint32_t m = 0; m < sm->shared.sb.members; m++)
		for (uint32_t i = 0; i < DDR_SM_MAX_NODES && wanted(sm, m) && !st->unseen_by[m]; i++)
			if ((sm->shared.nodes[i].started || sm->shared.nodes[i].lost) && !sm->shared.nodes[i].leaving && !(sm->shared.nodes[i].sees >> m & 1))
				st->unseen_by[m] = sm->shared.nodes[i].id;
}
