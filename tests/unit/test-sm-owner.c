// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Whose the slots are (format 2): which machine, which instance, and whether it is dead. All nodes know it, the owner pages of the disks have it, and a
 * later start goes by it.
 */
#include "tests/unit/sm-cluster.h"

#include "lib/cluster/sm_int.h"

#define TIME	1700000000u

/* Arrays of format 2, and nodes with names. */
static struct cx *make(uint32_t nodes, bool owners)
{
	static const char *const name[CX_NODES] = { "one", "two", "three\xc3\xa9", "four" };
	struct cx *c = calloc(1, sizeof(*c));

	assert_non_null(c);
	cx_make(c, nodes, false);
	c->geo.owners = owners;
	rig_super(&c->sb, &c->geo);
	ddr_owners_init(&c->owners, &c->sb);
	for (uint32_t i = 0; i < CX_NODES; i++) {
		struct ddr_sm_config *cfg = &c->node[i].cfg;

		*cfg = c->node[0].cfg;
		cfg->node = i + 1;
		cfg->name = name[i];
		cfg->machine[0] = (uint8_t)(0xa0 + i);
		c->node[i].cookie = 70 + i;	/* each kernel's own */
	}
	return c;
}

static void clock_set(struct cx *c, uint64_t wall)
{
	struct ddr_input in = { .type = DDR_IN_TICK, .value = wall };

	in.now_ms = c->now += 10;
	for (struct cx_node *n = c->node; n < c->node + CX_NODES; n++)
		if (n->sm)
			cx_step(c, n, &in);
	cx_settle(c);
}

static struct cx *up(uint32_t nodes, bool owners)
{
	struct cx *c = make(nodes, owners);

	for (uint32_t i = 0; i < nodes; i++)
		cx_start(c, i, 0, 0);
	clock_set(c, TIME);
	cx_view(c, (1u << nodes) - 1, (1u << nodes) - 1, true);
	cx_settle(c);
	for (uint32_t i = 0; i < nodes; i++)
		assert_true(cx_status(&c->node[i]).joined);
	return c;
}

static void down(struct cx *c)
{
	cx_down(c);
	free(c);
}

static uint32_t slot_of(const struct cx *c, uint32_t node)
{
	for (uint32_t s = 0; s < CX_SLOTS; s++)
		if (c->sb.slot_node[s] == node)
			return s;
	fail_msg("no slot of the disks is node %u's", node);
	return 0;
}

/* Node 2, at place 1, dies, and its death is acknowledged on node 1. */
static void second_dies(struct cx *c)
{
	cx_kill(c, 1);
	cx_view(c, 1, 1, true);
	cx_settle(c);
	assert_true(cx_status(&c->node[0]).wait != NULL);
	cx_op(c, 0, DDR_IN_OP_FENCE_ACK, 2);
	cx_settle(c);
	assert_null(cx_status(&c->node[0]).wait);
}

/* All daemons and kernels are gone, and node 1 alone starts, in a quorate view. */
static void first_starts_alone(struct cx *c)
{
	cx_down(c);
	c->node[0].cookie = 170;
	cx_start(c, 0, 0, 0);
	cx_view(c, 1, 1, true);
	cx_settle(c);
}

/* ---- who it is ------------------------------------------------------------------- */

static void a_start_says_who_it_is(void **state)
{
	struct cx *c = up(3, true);
	struct ddr_owner o;

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		const struct ddr_owner *w = &c->owners.slot[slot_of(c, i + 1)];

		assert_int_equal(w->state, DDR_SLOT_OWNED);
		assert_int_equal(w->machine[0], 0xa0 + i);
		assert_int_equal(w->instance.cookie, 70 + i);
		assert_int_equal(w->instance.boot_id[0], 1);
		assert_int_equal(w->since, TIME);
		for (uint32_t k = 0; k < 3; k++) {	/* every node knows what the disks have */
			ddr_sm_owner(c->node[k].sm, slot_of(c, i + 1), &o);
			assert_memory_equal(&o, w, sizeof(o));
		}
	}
	assert_string_equal(c->owners.slot[slot_of(c, 1)].name, "one");
	assert_string_equal(c->owners.slot[slot_of(c, 3)].name, "three??");	/* what cannot be written is replaced */
	ddr_sm_owner(c->node[0].sm, CX_SLOTS, &o);
	assert_int_equal(o.node, 0);
	down(c);
}

static void a_joiner_is_told(void **state)
{
	struct cx *c = up(2, true);
	static uint8_t buf[3][70000];
	uint64_t place[3];
	uint32_t bytes[3];

	(void)state;
	cx_start(c, 2, 0, 0);
	clock_set(c, TIME + 5);
	cx_view(c, 7, 7, true);
	cx_settle(c);
	assert_true(cx_status(&c->node[2]).joined);
	for (uint32_t i = 0; i < 3; i++) {
		struct ddr_owner o;

		assert_true(ddr_sm_state_at(c->node[i].sm, buf[i], sizeof(buf[i]), &place[i], &bytes[i]));
		assert_true(place[i] == place[0] && bytes[i] == bytes[0]);
		assert_memory_equal(buf[i], buf[0], bytes[0]);
		ddr_sm_owner(c->node[i].sm, slot_of(c, 2), &o);
		assert_string_equal(o.name, "two");
	}
	assert_int_equal(c->owners.slot[slot_of(c, 3)].since, TIME + 5);
	down(c);
}

static void who_leaves_is_remembered_as_the_last_one(void **state)
{
	struct cx *c = up(2, true);
	uint32_t slot = slot_of(c, 2);
	struct ddr_input gone = { .type = DDR_IN_K_DETACHED };

	(void)state;
	cx_step(c, &c->node[1], &gone);
	clock_set(c, TIME + 9);
	cx_op(c, 1, DDR_IN_OP_LEAVE, 0);
	cx_settle(c);
	assert_true(cx_event(&c->node[1], DDR_EV_LEFT) >= 0);
	assert_int_equal(c->sb.slot_node[slot], 0);
	assert_int_equal(c->owners.slot[slot].state, DDR_SLOT_FREE);
	assert_int_equal(c->owners.slot[slot].since, TIME + 9);
	assert_string_equal(c->owners.slot[slot].name, "two");
	assert_int_equal(c->owners.slot[slot].fenced_time, 0);
	assert_int_equal(c->owners.slot[slot].log_seq, 0);	/* nobody writes its log to members that are rebuilt any more */
	down(c);
}

static void format_1_has_none(void **state)
{
	struct cx *c = up(2, false);
	struct ddr_owner o, none;

	(void)state;
	memset(&none, 0, sizeof(none));
	ddr_sm_owner(c->node[0].sm, 1, &o);
	assert_int_equal(o.since, 0);
	assert_memory_equal(o.machine, none.machine, sizeof(o.machine));
	second_dies(c);
	first_starts_alone(c);
	assert_true(cx_status(&c->node[0]).wait != NULL);	/* as before format 2: node 2 has to be acknowledged again */
	down(c);
}

/* ---- the dead (rule F5) ----------------------------------------------------------- */

/* Findings T6, T7: what was fenced or acknowledged once is not asked for again. */
static void a_later_start_does_not_ask_again(void **state)
{
	struct cx *c = up(2, true);
	uint32_t slot = slot_of(c, 2);
	const struct ddr_owner *w = &c->owners.slot[slot];

	(void)state;
	cx_wrote(c, 1, 0);
	clock_set(c, TIME + 60);
	second_dies(c);
	assert_true(cx_event(&c->node[0], DDR_EV_NODE_RECOVERED) >= 0);
	assert_int_equal(w->state, DDR_SLOT_FREE);
	assert_int_equal(c->sb.slot_node[slot], 0);
	assert_int_equal(w->fenced.cookie, 71);
	assert_int_equal(w->fenced.boot_id[0], 1);
	assert_int_equal(w->fenced_time, TIME + 60);
	first_starts_alone(c);
	assert_null(cx_status(&c->node[0]).wait);
	assert_true(cx_status(&c->node[0]).ready);
	for (uint32_t i = 0; i < c->node[0].n; i++)
		assert_false(c->node[0].log[i].type == DDR_OUT_EVENT && c->node[0].log[i].event == DDR_EV_NODE_LOST && c->node[0].log[i].b == 2);
	assert_int_equal(w->fenced.cookie, 71);
	down(c);
}

/* Node 2 dies, its death is acknowledged, and the disks say so. Nothing else is done. */
static void second_is_dead_by_the_disks(struct cx *c)
{
	cx_kill(c, 1);
	cx_view(c, 1, 1, true);
	cx_settle(c);
	cx_op(c, 0, DDR_IN_OP_FENCE_ACK, 2);
	c->answers = CX_MSG | CX_KERNEL;
	cx_settle(c);
	for (uint32_t i = 0; i < c->node[0].n; i++)
		if (c->node[0].open[i] && c->node[0].log[i].type == DDR_OUT_SB_WRITE)
			cx_done(c, &c->node[0], i);
	c->answers = CX_ALL;
	assert_int_equal(c->owners.slot[slot_of(c, 2)].state, DDR_SLOT_FENCED);
}

/* The group ends before the dead node's regions were taken over: the next start does that. */
static void what_was_not_recovered_is_recovered(void **state)
{
	struct cx *c = up(2, true);
	struct ddr_rec lock = { .type = DDR_K_LOCK, .seq = 5, .start = 2, .count = 1 };
	uint32_t slot = slot_of(c, 2);
	struct ddr_sm_status st;

	(void)state;
	cx_record(c, 1, lock);
	cx_settle(c);
	second_is_dead_by_the_disks(c);
	first_starts_alone(c);
	assert_true(cx_event(&c->node[0], DDR_EV_RECOVERY) >= 0);
	assert_int_equal(c->owners.slot[slot].state, DDR_SLOT_FREE);
	st = cx_status(&c->node[0]);
	assert_true(st.ready && !st.wait);
	down(c);
}

static void the_dead_instance_never_starts_again(void **state)
{
	struct cx *c = up(2, true);
	int at;

	(void)state;
	second_dies(c);
	first_starts_alone(c);
	cx_start(c, 1, 0, 0);	/* the kernel that was acknowledged as powered off */
	cx_view(c, 3, 3, true);
	cx_settle(c);
	at = cx_find(&c->node[1], DDR_OUT_GIVE_UP, 0);
	assert_true(at >= 0);
	assert_int_equal(c->node[1].log[at].event, DDR_EV_EVICTED);
	down(c);
}

/* The group's table of nodes has forgotten the node, and it has got another id since. */
static void nor_does_it_under_another_id(void **state)
{
	struct cx *c = up(2, true);
	int at;

	(void)state;
	second_dies(c);
	first_starts_alone(c);
	c->node[2].cookie = 71;
	cx_start(c, 2, 0, 0);
	cx_view(c, 5, 5, true);
	cx_settle(c);
	at = cx_find(&c->node[2], DDR_OUT_GIVE_UP, 0);
	assert_true(at >= 0);
	assert_non_null(strstr(c->node[2].log[at].text, "fenced, or acknowledged as powered off"));
	down(c);
}

static void after_a_reboot_it_starts(void **state)
{
	struct cx *c = up(2, true);
	const struct ddr_owner *w = &c->owners.slot[slot_of(c, 2)];

	(void)state;
	second_dies(c);
	c->node[1].cookie = 171;
	cx_start(c, 1, 0, 0);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	assert_true(cx_status(&c->node[1]).joined);
	assert_int_equal(w->state, DDR_SLOT_OWNED);
	assert_int_equal(w->instance.cookie, 171);
	assert_int_equal(w->fenced.cookie, 71);		/* kept: that one never comes back */
	first_starts_alone(c);
	assert_true(cx_status(&c->node[0]).wait != NULL);	/* the new instance was not fenced */
	assert_false(cx_status(&c->node[0]).ready);
	down(c);
}

/* All I/O ends but that of superblocks. */
static void settle_without_supers(struct cx *c)
{
	for (bool again = true; again;) {
		again = false;
		c->answers = CX_MSG | CX_KERNEL;
		cx_settle(c);
		for (struct cx_node *n = c->node; n < c->node + CX_NODES && !again; n++)
			for (uint32_t i = 0; i < n->n && !again; i++)
				if (n->open[i] && cx_is_io(&n->log[i]) && n->log[i].type != DDR_OUT_SB_WRITE) {
					cx_done(c, n, i);
					again = true;
				}
	}
	c->answers = CX_ALL;
}

/* Findings T6, T7: a node that was fenced and does not return keeps no slot. A node that was never there gets it, and later starts wait for nobody. */
static void a_slot_is_free_once_it_is_recovered(void **state)
{
	struct cx *c = make(4, true);
	uint32_t slot;

	(void)state;
	c->geo.slots = 3;
	rig_super(&c->sb, &c->geo);
	ddr_owners_init(&c->owners, &c->sb);
	for (uint32_t i = 0; i < 3; i++)
		cx_start(c, i, 0, 0);
	cx_view(c, 7, 7, true);
	cx_settle(c);
	slot = slot_of(c, 2);
	cx_kill(c, 1);
	cx_view(c, 5, 5, true);
	cx_settle(c);
	cx_op(c, 0, DDR_IN_OP_FENCE_ACK, 2);
	cx_settle(c);
	assert_int_equal(c->sb.slot_node[slot], 0);
	cx_start(c, 3, 0, 0);
	cx_view(c, 13, 13, true);
	cx_settle(c);
	assert_true(cx_status(&c->node[3]).joined);
	assert_int_equal(c->sb.slot_node[slot], 4);
	assert_int_equal(c->owners.slot[slot].fenced.cookie, 71);	/* it never comes back */
	cx_down(c);
	for (uint32_t i = 0; i < 4; i++) {
		c->node[i].cookie += 100;
		if (i != 1)
			cx_start(c, i, 0, 0);
	}
	cx_view(c, 13, 13, true);
	cx_settle(c);
	for (uint32_t i = 0; i < 4; i++)
		if (i != 1)
			assert_true(cx_status(&c->node[i]).joined && !cx_status(&c->node[i]).wait);
	down(c);
}

static void settle_without_supers(struct cx *c);

/* A node dies that has claimed a slot and does not have it yet: it has written nothing there. */
static void nor_does_a_dead_node_keep_what_it_has_claimed(void **state)
{
	struct cx *c = up(1, true);

	(void)state;
	cx_start(c, 1, 0, 0);
	cx_view(c, 3, 3, true);
	settle_without_supers(c);
	assert_int_equal(cx_sees(&c->node[0], 2).state, DDR_NS_ACTIVE);
	cx_kill(c, 1);
	cx_view(c, 1, 1, true);
	settle_without_supers(c);
	cx_op(c, 0, DDR_IN_OP_FENCE_ACK, 2);
	cx_settle(c);
	assert_null(cx_status(&c->node[0]).wait);
	assert_int_equal(c->sb.slot_node[1], 0);
	assert_int_equal(c->owners.slot[1].state, DDR_SLOT_FREE);
	assert_int_equal(c->owners.slot[1].fenced.cookie, 71);
	down(c);
}

/*
 * Superblocks with its last kernel are being written when the node starts anew. They name that one when they are done: the node does not begin in its slot
 * until others name its own. If all died now, the next start would take it for the one before.
 */
static void it_waits_until_the_disks_say_that_it_lives(void **state)
{
	struct cx *c = up(2, true);
	const struct ddr_owner *w = &c->owners.slot[slot_of(c, 2)];

	(void)state;
	for (uint32_t cookie = 171; cookie <= 271; cookie += 100) {	/* it boots twice */
		c->node[1].cookie = cookie;
		cx_start(c, 1, 0, 0);
		cx_view(c, 3, 3, true);
		settle_without_supers(c);
	}
	assert_int_equal(cx_sees(&c->node[0], 2).state, DDR_NS_ACTIVE);	/* its START is delivered */
	assert_int_equal(w->instance.cookie, 71);
	cx_done(c, &c->node[0], cx_open(&c->node[0], DDR_OUT_SB_WRITE));
	settle_without_supers(c);
	assert_int_equal(w->instance.cookie, 171);
	assert_int_equal(cx_find(&c->node[1], DDR_OUT_SLOT_READ, 0), -1);
	cx_settle(c);
	assert_int_equal(w->instance.cookie, 271);
	assert_true(cx_status(&c->node[1]).joined);
	down(c);
}

/* The pages of an array that was just given format 2 name no instance: what cannot be recognised is not recorded as dead. */
static void an_unknown_instance_is_not_recorded(void **state)
{
	struct cx *c = up(2, true);
	uint32_t slot = slot_of(c, 2);

	(void)state;
	cx_down(c);
	memset(&c->owners, 0, sizeof(c->owners));
	ddr_owners_init(&c->owners, &c->sb);
	memset(&c->disk[slot], 0, sizeof(c->disk[slot]));	/* nor does its log */
	c->node[0].cookie = 170;
	cx_start(c, 0, 0, 0);
	cx_view(c, 1, 1, true);
	cx_settle(c);
	assert_true(cx_status(&c->node[0]).wait != NULL);
	cx_op(c, 0, DDR_IN_OP_FENCE_ACK, 2);
	cx_settle(c);
	assert_true(cx_status(&c->node[0]).ready);
	assert_int_equal(c->owners.slot[slot].state, DDR_SLOT_FREE);
	assert_int_equal(c->owners.slot[slot].fenced_time, 0);
	down(c);
}

/* Node 2, whose kernel was booted as number 8, is cut off from the members (rule F7). */
static struct cx *second_is_cut_off(bool owners)
{
	struct cx *c = make(2, owners);
	struct ddr_input fenced = { .type = DDR_IN_FENCED, .node = 2, .cut_off = true };

	c->node[0].fences = DDR_FENCES_YES;
	c->node[0].cfg.fencing = true;
	c->node[1].boot = 8;
	cx_start(c, 0, 0, 0);
	cx_start(c, 1, 0, 0);
	clock_set(c, TIME);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	cx_kill(c, 1);
	cx_forget(c);
	cx_view(c, 1, 1, true);
	cx_settle(c);
	fenced.failure = cx_sees(&c->node[0], 2).failure;
	cx_step(c, &c->node[0], &fenced);
	cx_settle(c);
	assert_true(cx_event(&c->node[0], DDR_EV_NODE_FENCED) >= 0);
	assert_true(cx_event(&c->node[0], DDR_EV_NODE_RECOVERED) >= 0);
	return c;
}

/* Its kernel of that @boot has another object of the array. Is it taken in? */
static bool second_begins(struct cx *c, uint8_t boot, uint64_t cookie)
{
	c->node[1].boot = boot;
	c->node[1].cookie = cookie;
	cx_start(c, 1, 0, 0);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	return cx_find(&c->node[1], DDR_OUT_GIVE_UP, 0) < 0 && cx_status(&c->node[1]).joined;
}

/* What it has in its page cache is as old as its boot. */
static void who_was_cut_off_comes_back_after_a_reboot_only(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 4; i++) {
		struct cx *c = second_is_cut_off(i & 1);

		assert_int_equal(c->owners.slot[1].fenced.cookie, 0);	/* any of that boot */
		if (i & 1)
			assert_int_equal(c->owners.slot[1].fenced.boot_id[0], 8);
		assert_true(second_begins(c, i & 2 ? 8 : 9, 171) == !(i & 2));
		down(c);
	}
}

/* The group ends in between, and only the disks know. */
static void the_disks_know_who_was_cut_off(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 2; i++) {
		struct cx *c = second_is_cut_off(true);

		first_starts_alone(c);
		assert_null(cx_status(&c->node[0]).wait);
		assert_true(second_begins(c, i ? 8 : 9, 171) == !i);
		if (i)
			assert_non_null(strstr(c->node[1].log[cx_find(&c->node[1], DDR_OUT_GIVE_UP, 0)].text, "reboot it"));
		down(c);
	}
}

/* The same, and its log names the instance: then that one is recorded as its regions are taken over. */
static void the_log_may_name_it(void **state)
{
	struct cx *c = up(2, true);
	struct ddr_rec lock = { .type = DDR_K_LOCK, .seq = 5, .start = 2, .count = 1 };
	uint32_t slot = slot_of(c, 2);

	(void)state;
	cx_record(c, 1, lock);
	cx_settle(c);
	cx_down(c);
	memset(&c->owners, 0, sizeof(c->owners));
	ddr_owners_init(&c->owners, &c->sb);
	c->node[0].cookie = 170;
	cx_start(c, 0, 0, 0);
	cx_view(c, 1, 1, true);
	cx_settle(c);
	cx_op(c, 0, DDR_IN_OP_FENCE_ACK, 2);
	cx_settle(c);
	assert_int_equal(c->owners.slot[slot].state, DDR_SLOT_FREE);
	assert_int_equal(c->owners.slot[slot].fenced.cookie, 71);
	assert_int_equal(c->owners.slot[slot].fenced_time, 1);	/* no clock was set */
	down(c);
}

/* Pages that call a slot fenced, and name another instance as its owner, prove nothing about that one. */
static void another_instance_is_not_dead(void **state)
{
	struct cx *c = up(2, true);

	(void)state;
	second_is_dead_by_the_disks(c);
	c->owners.slot[slot_of(c, 2)].instance.cookie = 99;
	first_starts_alone(c);
	assert_true(cx_status(&c->node[0]).wait != NULL);
	down(c);
}

/* The operator adopts the array on a machine whose node id has changed: its kernel is the one that had the slot of the old id, and lives. */
static void who_adopts_is_not_dead(void **state)
{
	struct cx *c = up(2, true);
	uint32_t other = slot_of(c, 1), slot = slot_of(c, 2);

	(void)state;
	cx_down(c);
	c->node[2].cfg.adopt = true;
	c->node[2].cookie = 71;
	cx_start(c, 2, 0, 0);
	cx_view(c, 4, 4, true);
	cx_settle(c);
	assert_true(cx_status(&c->node[2]).joined);
	assert_int_equal(c->owners.slot[other].fenced.cookie, 70);	/* the operator's word for the others */
	assert_int_equal(c->owners.slot[slot].fenced_time, 0);
	c->node[2].cfg.adopt = false;
	cx_start(c, 2, 0, 0);		/* its daemon was replaced */
	cx_view(c, 4, 4, true);
	cx_settle(c);
	assert_int_equal(cx_find(&c->node[2], DDR_OUT_GIVE_UP, 0), -1);
	down(c);
}

/* What another node says of owners is checked before anything of its state counts. */
static void a_state_with_a_wrong_owner_is_refused(void **state)
{
	struct cx *c = up(2, true);

	(void)state;
	c->node[0].sm->in_order.owners.slot[slot_of(c, 1)].name[0] = 7;
	cx_start(c, 2, 0, 0);
	cx_view(c, 7, 7, true);
	cx_settle(c);
	assert_true(cx_find(&c->node[2], DDR_OUT_GIVE_UP, 0) >= 0);
	down(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_start_says_who_it_is),
		cmocka_unit_test(a_joiner_is_told),
		cmocka_unit_test(who_leaves_is_remembered_as_the_last_one),
		cmocka_unit_test(format_1_has_none),
		cmocka_unit_test(a_later_start_does_not_ask_again),
		cmocka_unit_test(what_was_not_recovered_is_recovered),
		cmocka_unit_test(a_slot_is_free_once_it_is_recovered),
		cmocka_unit_test(nor_does_a_dead_node_keep_what_it_has_claimed),
		cmocka_unit_test(the_dead_instance_never_starts_again),
		cmocka_unit_test(nor_does_it_under_another_id),
		cmocka_unit_test(after_a_reboot_it_starts),
		cmocka_unit_test(it_waits_until_the_disks_say_that_it_lives),
		cmocka_unit_test(an_unknown_instance_is_not_recorded),
		cmocka_unit_test(who_was_cut_off_comes_back_after_a_reboot_only), cmocka_unit_test(the_disks_know_who_was_cut_off),
		cmocka_unit_test(the_log_may_name_it),
		cmocka_unit_test(another_instance_is_not_dead),
		cmocka_unit_test(who_adopts_is_not_dead),
		cmocka_unit_test(a_state_with_a_wrong_owner_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
