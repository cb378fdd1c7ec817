// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the group, fencing, fresh reads of the members and the kernel's channel say to an array, and what becomes of answers that come when the array
 * has ended. The rest of the world is played (drive-fixture.h).
 */
#include "tests/unit/drive-fixture.h"

/* ---- the group ----------------------------------------------------------------------- */

static void quorum(struct ddr_array *a, uint32_t n, bool quorate, uint64_t ring)
{
	static uint32_t nodes[DDR_SM_MAX_QUORUM + 1];

	for (uint32_t i = 0; i < n; i++)
		nodes[i] = i + 1;
	ddr_drive_transport_events.quorum(a, nodes, n, quorate, ring);
}

static void quorum_and_messages_are_given_on(void **state)
{
	struct ddr_array *a = begin(true);
	const uint8_t msg[3] = { 1, 2, 3 };

	(void)state;
	quorum(a, 2, true, 9);
	assert_int_equal(play.last.type, DDR_IN_QUORUM);
	assert_int_equal(play.last.n_nodes, 2);
	assert_int_equal(play.last.nodes[1], 2);
	assert_true(play.last.quorate);
	assert_int_equal(play.last.ring, 9);
	quorum(a, DDR_SM_MAX_QUORUM + 1, true, 10);		/* more than can be listed */
	assert_int_equal(play.last.n_nodes, DDR_SM_MAX_QUORUM);
	ddr_drive_transport_events.message(a, 2, msg, sizeof(msg));
	assert_int_equal(play.last.type, DDR_IN_MSG);
	assert_int_equal(play.last.node, 2);
	assert_ptr_equal(play.last.msg, msg);
	assert_int_equal(play.last.msg_len, sizeof(msg));
	end();
}

/* Rule 8: a node that hears its group no more has no quorum, at once; it begins anew when the cluster is back, and only then. */
static void a_lost_group_is_no_quorum(void **state)
{
	struct ddr_array *a = begin(true);

	(void)state;
	quorum(a, 3, true, 9);
	assert_int_equal(play.taken_back, 0);
	ddr_drive_transport_events.lost(a, "corosync ended");
	assert_int_equal(play.taken_back, 1);			/* its superblocks: others may start the array */
	assert_int_equal(play.last.type, DDR_IN_QUORUM);
	assert_false(play.last.quorate);
	assert_int_equal(play.last.n_nodes, 1);
	assert_int_equal(play.last.nodes[0], 1);
	assert_int_equal(play.last.ring, 9);
	assert_string_equal(play.event, "cluster-lost");
	assert_non_null(strstr(a->error, "corosync ended"));
	assert_false(ddr_drive_leave(a));			/* there is nobody to say it to */
	group_away = "corosync is not there";
	ddr_arrays_retry(&d);
	assert_int_equal(a->state, DDR_ARRAY_RUNNING);
	group_away = NULL;
	ddr_arrays_retry(&d);
	assert_int_equal(a->state, DDR_ARRAY_LOADING);
	assert_int_equal(play.binds, 2);
	assert_false(a->cluster.lost);
	assert_int_equal(play.left, 1);
	loaded();
	assert_int_equal(a->state, DDR_ARRAY_RUNNING);
	end();
}

/* The version of a view goes to the state machine with it; and the group hears whether a higher one would hurt a node that is missed. */
static void the_version_is_given_on(void **state)
{
	struct ddr_array *a = begin(true);
	const uint32_t node = 1, number = 7;
	const uint8_t fences = DDR_FENCES_YES;

	(void)state;
	ddr_drive_transport_events.version(a, 99);
	ddr_drive_transport_events.view(a, &node, &number, &fences, 1, 9);
	assert_int_equal(play.last.type, DDR_IN_VIEW);
	assert_int_equal(play.last.version, 99);
	assert_int_equal(play.last.fences[0], DDR_FENCES_YES);
	assert_false(ddr_drive_transport_events.complete(a));
	play.complete = true;
	assert_true(ddr_drive_transport_events.complete(a));
	a->broken = "played";
	assert_false(ddr_drive_transport_events.complete(a));
	a->broken = NULL;
	end();
}

/* Whose daemon was excluded, and who has a slot: both are the state machine's to know. */
static void exclusions_and_slots_are_the_state_machines(void **state)
{
	struct ddr_array *a = begin(true);
	struct ddr_sm *sm = a->sm;

	(void)state;
	ddr_drive_transport_events.excluded(a, 3);
	assert_int_equal(play.last.type, DDR_IN_EXCLUDED);
	assert_int_equal(play.last.node, 3);
	play.owner = 3;
	assert_true(ddr_drive_transport_events.has_slot(a, 3));
	assert_false(ddr_drive_transport_events.has_slot(a, 2));
	a->sm = NULL;
	assert_true(ddr_drive_transport_events.has_slot(a, 2));	/* nothing is known yet */
	a->sm = sm;
	end();
}

/* What the array waits for in the group is an event, and status shows it until it has ended. */
static void what_the_group_waits_for_is_said(void **state)
{
	struct ddr_array *a = begin(true);

	(void)state;
	ddr_drive_transport_events.waits(a, "node 2 has not said hello");
	assert_string_equal(play.event, "wait");
	assert_string_equal(a->cluster.waits, "node 2 has not said hello");
	play.n_events = 0;
	ddr_drive_transport_events.waits(a, NULL);
	assert_string_equal(a->cluster.waits, "");
	assert_int_equal(play.n_events, 0);
	end();
}

/* What a node owes is an event when it begins and when it ends, and status shows it as it is now. */
static void what_nodes_owe_is_said(void **state)
{
	struct ddr_array *a = begin(true);

	(void)state;
	ddr_drive_transport_events.debt(a, DDR_DEBT_BEGINS, "node 2 owes");
	assert_string_equal(play.event, "wait");
	assert_string_equal(a->cluster.debt, "");
	ddr_drive_transport_events.debt(a, DDR_DEBT_ENDS, "this has ended");
	assert_string_equal(play.event, "wait-over");
	play.n_events = 0;
	ddr_drive_transport_events.debt(a, DDR_DEBT_LASTS, "node 2 owes for 7 s");
	assert_string_equal(a->cluster.debt, "node 2 owes for 7 s");
	ddr_drive_transport_events.debt(a, DDR_DEBT_LASTS, NULL);
	assert_string_equal(a->cluster.debt, "");
	assert_int_equal(play.n_events, 0);
	end();
}

/* ---- fencing -------------------------------------------------------------------------- */

static uint64_t failure;

static void asks_to_fence(const struct ddr_input *in, struct ddr_outputs *out)
{
	if (in->type == DDR_IN_NONE)
		asks(out, DDR_OUT_FENCE, 3, ++failure);
	for (uint32_t i = 0; i < out->n; i++)
		out->out[i].settle_ms = 4321;
}

static void fence(struct ddr_array *a)
{
	play.answer = asks_to_fence;
	step(a);
	play.answer = NULL;
	play.last.type = DDR_IN_NONE;
}

/* Rule 6: the answer is that of the failure that was asked for. What fails within the request is answered by the next tick. */
static void fencing_is_answered(void **state)
{
	struct ddr_array *a = begin(true);

	(void)state;
	play.takes = true;
	fence(a);
	assert_ptr_equal(play.fence_ctx, a);
	assert_string_equal(play.fence_name, "n3");
	play.fenced(a, 3, failure, 0, "");
	assert_string_equal(play.event, "fenced");
	assert_int_equal(play.last.type, DDR_IN_FENCED);
	assert_int_equal(play.last.node, 3);
	assert_int_equal(play.last.failure, failure);
	assert_int_equal(play.last.result, 0);
	fence(a);
	play.fenced(a, 3, failure, -EIO, "the switch is off");
	assert_string_equal(play.event, "fence-failed");
	assert_int_equal(play.last.type, DDR_IN_FENCED);
	assert_int_equal(play.last.failure, failure);
	assert_int_equal(play.last.result, -EIO);
	play.last.type = DDR_IN_NONE;
	play.fenced(a, 3, failure, 0, "");			/* it has succeeded after its time was over */
	assert_int_equal(play.last.type, DDR_IN_FENCED);
	assert_int_equal(play.last.result, 0);
	play.takes = false;					/* it cannot even be asked for */
	fence(a);
	assert_int_equal(play.last.type, DDR_IN_NONE);
	assert_string_equal(play.event, "fence-failed");
	ddr_drive_cluster_tick(a, play.now);
	assert_int_equal(play.last.type, DDR_IN_FENCED);
	assert_int_equal(play.last.result, -EAGAIN);
	play.last.type = DDR_IN_NONE;
	ddr_drive_cluster_tick(a, play.now + 10000);		/* once */
	assert_int_equal(play.last.type, DDR_IN_NONE);
	play.takes = true;
	fence(a);
	ddr_array_close(a, true);				/* whoever asked is told nothing any more */
	assert_int_equal(play.forgotten, 1);
	loaded();
	end();
}

/* Without calling an agent: the attempt has failed. */
static void is_not_called(struct ddr_array *a)
{
	play.fence_ctx = NULL;
	play.event[0] = '\0';
	fence(a);
	assert_null(play.fence_ctx);
	assert_string_equal(play.event, "fence-failed");
	ddr_drive_cluster_tick(a, play.now);
	assert_int_equal(play.last.type, DDR_IN_FENCED);
	assert_true(play.last.result < 0);
}

/*
 * Finding T8: no agent is called with a name that was made up, nor with that of a machine that runs: it came back under another id, and would be
 * switched off while the old failure counts as fenced (note 41).
 */
static void names_that_no_agent_gets(void **state)
{
	struct ddr_array *a = begin(true);

	(void)state;
	play.takes = true;
	snprintf(d.conf.fence_command, sizeof(d.conf.fence_command), "/usr/sbin/fence_it %%%%N -n %%n");
	play.nameless = "";
	fence(a);
	assert_ptr_equal(play.fence_ctx, a);
	assert_string_equal(play.fence_name, "");
	snprintf(d.conf.fence_command, sizeof(d.conf.fence_command), "/usr/sbin/fence_it -n %%N");
	is_not_called(a);
	play.nameless = NULL;
	play.bearer = 12;
	is_not_called(a);
	play.bearer = 0;
	fence(a);
	assert_ptr_equal(play.fence_ctx, a);
	assert_string_equal(play.fence_name, "n3");
	assert_int_equal(play.fence_settle_ms, 4321);		/* of all nodes the longest: the state machine knows it */
	end();
}

/* Rule F7: a node is cut off from every member that it may write to, or not at all. */
static void disks_that_a_node_is_cut_off_from(void **state)
{
	struct ddr_array *a = begin(true), other = { .d = &d, .sm = a->sm, .members = a->members };
	struct ddr_members *m = a->members;

	(void)state;
	play.takes = true;
	snprintf(d.conf.fence_command, sizeof(d.conf.fence_command), "/usr/sbin/fence_it");
	fence(a);
	assert_string_equal(play.fence_devices, "none|");
	play.fenced(a, 3, failure, 0, "");
	assert_false(play.last.cut_off);
	d.conf.fence_method = DDR_FENCE_BY_STORAGE;
	play.super = a->super;
	m->open = (1u << play.super.members) - 1;
	for (unsigned int i = 0; i < play.super.members; i++)
		snprintf(m->name[i], sizeof(m->name[i]), "/dev/%c", 'a' + i);
	play.super.member[1].state = DDR_MEMBER_FAULTY;
	play.super.member[2].state = DDR_MEMBER_REBUILDING;
	fence(a);
	assert_string_equal(play.fence_devices, "/dev/a,/dev/c,/dev/d,/dev/e|");
	qb_list_add_tail(&other.list, &d.arrays);
	play.owner = 3;
	fence(a);
	assert_string_equal(play.fence_devices, "/dev/a,/dev/c,/dev/d,/dev/e|,/dev/a,/dev/c,/dev/d,/dev/e");
	play.owner = 2;					/* the node has nothing there */
	fence(a);
	assert_string_equal(play.fence_devices, "/dev/a,/dev/c,/dev/d,/dev/e|");
	qb_list_del(&other.list);
	m->open &= ~8u;
	is_not_called(a);
	m->open |= 8u;
	strcpy(m->name[3], "/dev/d,e");			/* no agent could read that list */
	is_not_called(a);
	memset(m->name[3], 'd', sizeof(m->name[3]) - 1);
	fence(a);
	assert_ptr_equal(play.fence_ctx, a);
	play.fenced(a, 3, failure, 0, "");
	assert_true(play.last.cut_off);
	d.conf.fence_method = DDR_FENCE_BY_POWER;
	end();
}

/* What is done by hand has no end of its own, and counts for the node that was named alone. */
static void fencing_by_hand(void **state)
{
	struct ddr_array *a = begin(true);

	(void)state;
	snprintf(d.conf.fence_command, sizeof(d.conf.fence_command), "%s", DDR_FENCE_EXTERNAL);
	fence(a);
	ddr_drive_cluster_tick(a, play.now + 1000000);
	assert_int_equal(play.last.type, DDR_IN_NONE);
	assert_null(ddr_drive_fence_ack(a, 2));
	assert_int_equal(play.last.type, DDR_IN_OP_FENCE_ACK);
	assert_int_equal(play.last.node, 2);
	play.last.type = DDR_IN_NONE;
	ddr_drive_cluster_tick(a, play.now);
	assert_int_equal(play.last.type, DDR_IN_NONE);
	assert_null(ddr_drive_fence_ack(a, 3));
	ddr_drive_cluster_tick(a, play.now);
	assert_int_equal(play.last.type, DDR_IN_FENCED);
	assert_int_equal(play.last.node, 3);
	end();
}

/* ---- members that are read anew --------------------------------------------------------- */

static struct ddr_output wanted;

static void asks_to_read(const struct ddr_input *in, struct ddr_outputs *out)
{
	if (in->type != DDR_IN_NONE)
		return;
	out->out[0] = wanted;
	out->n = 1;
}

static struct ddr_reload *read_anew(struct ddr_array *a, enum ddr_out_type type, uint32_t slot, uint32_t members)
{
	wanted = (struct ddr_output){ .type = type, .slot = slot, .members = members, .io = 77 };
	play.reload = NULL;
	play.answer = asks_to_read;
	step(a);
	play.answer = NULL;
	play.last.type = DDR_IN_NONE;
	return play.reload;
}

static void answered(enum ddr_in_type type, int result)
{
	assert_int_equal(play.last.type, type);
	assert_int_equal(play.last.io, 77);
	assert_int_equal(play.last.result, result);
}

static void blocks_read_again_are_loaded_before_the_state_machine_is_told(void **state)
{
	struct ddr_array *a = begin(true);
	struct ddr_reload *r;

	(void)state;
	play.takes = true;
	play.supers = play.maps = play.logs = play.repairs = 0;		/* what the start has loaded */
	play.members->open = 7;
	r = read_anew(a, DDR_OUT_RELOAD, 0, 0);
	assert_int_equal(r->slot, DDR_RELOAD_SUPER);
	assert_int_equal(r->from, 7);					/* of whatever is open */
	r->block = calloc(r->super.map_blocks, sizeof(*r->block));
	r->block[0].valid = true;
	r->owners.slot[0].node = 17;
	r->done(r->ctx, r);
	assert_int_equal(play.supers, 1);
	assert_int_equal(play.owners_loaded.node, 17);
	assert_int_equal(play.maps, a->super.map_blocks);
	answered(DDR_IN_RELOADED, 0);
	r = read_anew(a, DDR_OUT_SLOT_READ, 1, 5);
	assert_int_equal(r->slot, 1);
	assert_int_equal(r->from, 5);
	assert_int_equal(r->super.member[1].state, DDR_MEMBER_FAULTY);	/* as the state machine has named them */
	assert_int_equal(r->super.member[2].state, DDR_MEMBER_IN_SYNC);
	r->block = calloc(r->super.log_blocks, sizeof(*r->block));
	r->block[0].valid = true;
	r->done(r->ctx, r);
	assert_int_equal(play.logs, a->super.log_blocks);
	assert_int_equal(play.repairs, 1);				/* of what is valid */
	answered(DDR_IN_SLOT_DONE, 0);
	assert_int_equal(play.reloads_freed, 2);
	end();
}

/* Nothing of what was not read, or not in time, is believed. */
static void a_read_that_fails_loads_nothing(void **state)
{
	struct ddr_array *a = begin(true);
	struct ddr_reload *r, *under_way[DDR_ARRAY_RELOADS];

	(void)state;
	play.supers = play.maps = play.logs = 0;
	play.takes = true;
	r = read_anew(a, DDR_OUT_RELOAD, 0, 1);
	r->result = -EIO;
	r->done(r->ctx, r);
	answered(DDR_IN_RELOADED, -EIO);
	r = read_anew(a, DDR_OUT_SLOT_READ, 1, 1);
	r->result = -ETIMEDOUT;
	r->done(r->ctx, r);
	answered(DDR_IN_SLOT_DONE, -ETIMEDOUT);
	play.takes = false;						/* it cannot be begun: the answer is not given within the step */
	assert_null(read_anew(a, DDR_OUT_SLOT_READ, 1, 1));
	assert_int_equal(play.last.type, DDR_IN_NONE);
	ddr_drive_cluster_tick(a, play.now);
	answered(DDR_IN_SLOT_DONE, -EAGAIN);
	play.takes = true;
	for (unsigned int i = 0; i < DDR_ARRAY_RELOADS; i++) {
		under_way[i] = read_anew(a, DDR_OUT_SLOT_READ, 1, 1);
		assert_non_null(under_way[i]);
	}
	assert_null(read_anew(a, DDR_OUT_SLOT_READ, 1, 1));		/* one more than can be under way */
	ddr_drive_cluster_tick(a, play.now);
	answered(DDR_IN_SLOT_DONE, -ENOMEM);
	assert_int_equal(play.supers + play.maps + play.logs, 0);
	end();
	for (unsigned int i = 0; i < DDR_ARRAY_RELOADS; i++)		/* they end behind their array */
		under_way[i]->done(under_way[i]->ctx, under_way[i]);
}

/* An array that ended, or that began anew, gets no answer to what was asked before. */
static void a_read_that_ends_after_its_array_is_dropped(void **state)
{
	struct ddr_array *a = begin(true);
	struct ddr_reload *r;
	unsigned int steps;

	(void)state;
	play.takes = true;
	r = read_anew(a, DDR_OUT_RELOAD, 0, 1);
	ddr_array_close(a, true);
	loaded();
	steps = play.steps;
	r->done(r->ctx, r);
	assert_int_equal(play.steps, steps);
	assert_int_equal(play.reloads_freed, 1);
	end();
}

/* ---- how large the members are ------------------------------------------------------------- */

static void the_smallest_device_is_told(void **state)
{
	struct ddr_array *a = begin(true);

	(void)state;
	play.members->open = 7;
	for (unsigned int m = 0; m < 3; m++)
		play.members->dev[m] = (struct ddr_dev){ .fd = 40 + (int)m, .is_block = true };
	wanted = (struct ddr_output){ .type = DDR_OUT_ROOM, .members = 7, .io = 77 };
	play.answer = asks_to_read;
	step(a);
	play.answer = NULL;
	assert_int_not_equal(play.last.type, DDR_IN_ROOM);		/* not from within the step */
	play.gone = 1ull << 41;
	ddr_drive_grow_tick(a, play.now);
	assert_int_equal(play.last.type, DDR_IN_ROOM);
	assert_int_equal(play.last.io, 77);
	assert_int_equal(play.last.value, 0);				/* a device that is gone has no room */
	assert_int_equal(play.last.member, 1);
	play.gone = 0;
	play.members->open = 3;						/* nor has one that is not open */
	play.answer = asks_to_read;
	step(a);
	play.answer = NULL;
	ddr_drive_grow_tick(a, play.now);
	assert_int_equal(play.last.value, 0);
	assert_int_equal(play.last.member, 2);
	play.members->open = 7;
	play.answer = asks_to_read;
	step(a);
	play.answer = NULL;
	ddr_drive_grow_tick(a, play.now);
	assert_int_equal(play.last.value, 1u << 30);
	play.last.type = DDR_IN_NONE;
	ddr_drive_grow_tick(a, play.now);				/* once */
	assert_int_equal(play.last.type, DDR_IN_NONE);
	play.members->open = 0;
	end();
}

/* Member 0 is to be prepared for a larger array. */
static struct ddr_grow *is_prepared(struct ddr_array *a, uint64_t io)
{
	play.members->open = 1;
	play.members->dev[0] = (struct ddr_dev){ .fd = 40, .is_block = true };
	wanted = (struct ddr_output){ .type = DDR_OUT_PREPARE, .members = 1, .io = io, .count = 10 };
	play.answer = asks_to_read;
	step(a);
	play.answer = NULL;
	play.last.type = DDR_IN_NONE;
	a->tick_ms = play.now;
	return play.grow[0];
}

/* A daemon that stood still blames no member for it: its thread has written nothing meanwhile, and may have stopped for good. */
static void a_standstill_is_no_failure_of_a_member_that_is_prepared(void **state)
{
	struct ddr_array *a = begin(true);
	struct ddr_grow *g = is_prepared(a, 88);

	(void)state;
	assert_ptr_equal(g->still, &d.still);
	play.now = a->grow.due_ms + 60000;
	ddr_drive_tick(a, play.now);
	assert_int_not_equal(play.last.type, DDR_IN_PREPARED);
	g->result = -EAGAIN;
	g->done(g->ctx, g);
	ddr_drive_grow_tick(a, play.now);
	assert_int_equal(play.last.type, DDR_IN_PREPARED);
	assert_int_equal(play.last.result, -EAGAIN);
	assert_int_equal(play.last.failed_members, 0);

	g = is_prepared(a, 89);
	ddr_drive_grow_tick(a, a->grow.due_ms);				/* a daemon that runs does not wait longer */
	assert_int_equal(play.last.type, DDR_IN_PREPARED);
	assert_int_equal(play.last.failed_members, 1);
	g->done(g->ctx, g);
	play.members->open = 0;
	end();

	a = begin(false);			/* without a cluster the array is held by itself, also its threads */
	g = is_prepared(a, 90);
	assert_ptr_equal(g->still, &a->members->still);
	g->done(g->ctx, g);
	play.members->open = 0;
	end();
}

/* ---- the kernel's channel --------------------------------------------------------------------- */

/* The kernel has no such array any more: what can be cleared is, without its kernel, and then it goes. */
static void the_kernel_lets_the_array_go(void **state)
{
	(void)state;
	for (int how = 0; how < 2; how++) {
		struct ddr_array *a = begin(false);

		a->ready = how == 1;
		shutdown(play.peer, SHUT_WR);
		run();
		if (how == 0) {						/* nothing was ever granted */
			assert_int_equal(d.n_arrays, 0);
			end();
			continue;
		}
		assert_true(a->removed);
		assert_null(ddr_array_by_uuid(&d, uuid));		/* nobody finds it by its name any more */
		assert_true(a->parting);
		assert_int_equal(d.n_arrays, 1);			/* the state machine is at it still */
		assert_true(a->clean_asked);
		a->part_until_ms = 0;
		run();
		assert_int_equal(d.n_arrays, 0);
		end();
	}
}

/* A kernel that says half a record is not understood: the array is bound anew. So it is when another process has bound it. */
static void a_channel_that_ends(void **state)
{
	struct ddr_array *a = begin(false);

	(void)state;
	assert_int_equal(__real_write(play.peer, "half", 4), 4);
	run();
	assert_int_equal(a->state, DDR_ARRAY_LOADING);
	assert_int_equal(play.binds, 2);
	assert_false(a->removed);
	end();
}

/* What a kernel answers that has none of the array any more: so the marks of what it had can be cleared. */
static unsigned int answers;
static struct ddr_input answer[8];

static void asks_a_kernel(const struct ddr_input *in, struct ddr_outputs *out)
{
	static const uint32_t asked[] = { DDR_U_GRANT, DDR_U_REAP, DDR_U_DRAIN, DDR_U_MEMBER, DDR_U_RELEASE };

	if (in->type == DDR_IN_K_REC) {
		assert_true(answers < 8);
		answer[answers++] = *in;
		return;
	}
	if (in->type != DDR_IN_NONE)
		return;
	for (unsigned int i = 0; i < 5; i++) {
		memset(&out->out[i], 0, sizeof(*out->out));
		out->out[i].type = DDR_OUT_KERNEL;
		out->out[i].rec = (struct ddr_rec){ .type = asked[i], .seq = 10 + i, .member = i, .start = 100 + i, .count = 5 };
	}
	out->n = 5;
}

static void a_kernel_that_is_gone_answers(void **state)
{
	static const uint32_t answers_by[] = { DDR_K_CLOSED, DDR_K_REAPED, DDR_K_DRAINED, DDR_K_APPLIED };
	struct ddr_array *a = begin(false);

	(void)state;
	a->ready = true;
	shutdown(play.peer, SHUT_WR);
	run();
	assert_true(a->parting);
	answers = 0;
	play.answer = asks_a_kernel;
	step(a);
	play.answer = NULL;
	assert_int_equal(answers, 4);					/* and to what has no answer there is none */
	for (unsigned int i = 0; i < 4; i++) {
		assert_int_equal(answer[i].rec.type, answers_by[i]);
		assert_int_equal(answer[i].rec.seq, 10 + i);
		assert_int_equal(answer[i].rec.member, i);
		assert_int_equal(answer[i].rec.start, i % 2 ? 0 : 100 + i);
		assert_int_equal(answer[i].rec.count, i % 2 ? 0 : 5);
	}
	end();
}

/* ---- an array that cannot be served ---------------------------------------------------------------- */

static struct ddr_array *bound_with(int error)
{
	struct ddr_array *a = begin(false);

	play.bind_error = error;
	ddr_array_close(a, true);
	return a;
}

/* Each refusal of the kernel has its reason; what only is not there (yet) is none. */
static void a_kernel_that_refuses_the_channel_refuses_the_array(void **state)
{
	static const struct { int error; enum ddr_array_state state; const char *why; } cases[] = {
		{ ENOENT, DDR_ARRAY_DOWN, "" }, { EOPNOTSUPP, DDR_ARRAY_DOWN, "" }, { EAGAIN, DDR_ARRAY_DOWN, "" },
		{ EPROTO, DDR_ARRAY_REFUSED, "install module and daemon of the same release" },
		{ EBUSY, DDR_ARRAY_REFUSED, "Device or resource busy" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ddr_array *a = bound_with(cases[i].error);

		assert_int_equal(a->state, cases[i].state);
		assert_null(a->chan);
		assert_non_null(strstr(a->error, cases[i].why));
		assert_string_equal(play.event, *cases[i].why ? "refused" : "");
		d.listed = true;
		assert_true(ddr_arrays_settled(&d));			/* the daemon is ready all the same */
		play.bind_error = 0;
		ddr_array_resumed(&d, uuid, true);			/* a table that it can serve */
		assert_int_equal(a->state, DDR_ARRAY_LOADING);
		assert_false(ddr_arrays_settled(&d));
		end();
	}
}

/* As ddraid start --adopt does, for an array that another cluster has used. */
static void adopt(struct ddr_array *a)
{
	static const uint8_t other[16] = { 0xee };
	char buf[256];

	assert_null(ddr_identity_adopt(&d, a->uuid, other, buf, sizeof(buf)));
	assert_null(ddr_array_adopted(a));
}

/* The load has ended. */
static void ends(struct ddr_load *l, bool own)
{
	play.load = NULL;
	snprintf(l->error.text, sizeof(l->error.text), "played");
	l->error.own = own;
	l->done(l->ctx);
}

/*
 * The load looks for other machines while the operator waits: an adoption is for exactly one that can answer. One that was begun before it is none of its; one
 * that ended because the process failed, or the table changed, is repeated.
 */
static void an_adoption_is_for_one_load(void **state)
{
	struct ddr_array *a = begin(false);

	(void)state;
	ddr_array_close(a, true);
	assert_false(play.load->claim.adopted);
	adopt(a);
	assert_int_equal(a->state, DDR_ARRAY_CLOSING);			/* that load will not look */
	ends(play.load, false);
	assert_int_equal(a->state, DDR_ARRAY_LOADING);
	assert_true(play.load->claim.adopted);
	ddr_array_close(a, true);					/* another table */
	ends(play.load, false);
	assert_true(play.load->claim.adopted);
	ends(play.load, true);						/* no memory */
	assert_int_equal(a->state, DDR_ARRAY_DOWN);
	a->retry_ms = 0;
	ddr_arrays_retry(&d);
	assert_true(play.load->claim.adopted);
	ends(play.load, false);						/* in use by another node */
	assert_int_equal(a->state, DDR_ARRAY_REFUSED);
	ddr_array_resumed(&d, a->uuid, false);
	assert_int_equal(a->state, DDR_ARRAY_LOADING);
	assert_false(play.load->claim.adopted);
	play.load_error = -EAGAIN;
	adopt(a);
	ends(play.load, false);
	assert_int_equal(a->state, DDR_ARRAY_DOWN);
	play.load_error = 0;
	a->retry_ms = 0;
	ddr_arrays_retry(&d);
	assert_true(play.load->claim.adopted);				/* no load had begun */
	loaded();
	assert_int_equal(a->state, DDR_ARRAY_RUNNING);
	ddr_array_close(a, true);
	assert_false(play.load->claim.adopted);				/* it was for the start */
	loaded();
	end();
}

static void members_that_cannot_be_loaded(void **state)
{
	struct ddr_array *a = begin(false);
	struct ddr_load *l;

	(void)state;
	ddr_array_close(a, true);
	l = play.load;
	play.load = NULL;
	snprintf(l->name, sizeof(l->name), "data");
	snprintf(l->error.text, sizeof(l->error.text), "no member in the table can be opened");
	l->done(l->ctx);
	assert_int_equal(a->state, DDR_ARRAY_REFUSED);
	assert_null(a->chan);
	assert_string_equal(a->name, "data");				/* so that it can be spoken of */
	assert_string_equal(a->error, "no member in the table can be opened");
	assert_string_equal(play.event, "refused");
	adopt(a);							/* another try, from the beginning */
	assert_int_equal(a->state, DDR_ARRAY_LOADING);
	assert_true(play.load->claim.adopted);
	adopt(a);							/* it is at it */
	assert_int_equal(a->state, DDR_ARRAY_LOADING);
	loaded();
	assert_int_equal(a->state, DDR_ARRAY_RUNNING);
	adopt(a);							/* runs, and waits for those who will not come */
	assert_int_equal(a->state, DDR_ARRAY_LOADING);
	loaded();
	a->ready = true;
	assert_non_null(ddr_array_adopted(a));
	assert_int_equal(a->state, DDR_ARRAY_RUNNING);
	end();
}

static void a_load_that_cannot_begin(void **state)
{
	struct ddr_array *a = begin(false);

	(void)state;
	play.load_error = -ENODEV;
	ddr_array_close(a, true);
	assert_int_equal(a->state, DDR_ARRAY_REFUSED);
	assert_null(a->chan);
	assert_null(a->load);
	assert_true(strlen(a->error) > 0);
	play.load_error = -EAGAIN;			/* there is no memory for a thread: that may pass */
	ddr_array_close(a, true);
	assert_int_equal(a->state, DDR_ARRAY_DOWN);
	assert_non_null(strstr(a->error, "trying again"));
	end();
}

/* --older was said of one start of one array. */
static void an_older_generation_is_for_one_start(void **state)
{
	struct ddr_array *a = begin(false);

	(void)state;
	memcpy(d.older.uuid, uuid, sizeof(uuid));
	d.older.known.generation = 5;
	ddr_array_close(a, true);
	assert_int_equal(play.load->older.generation, 5);
	loaded();
	ddr_array_close(a, true);
	assert_int_equal(play.load->older.generation, 0);
	loaded();
	d.older.known.generation = 5;
	d.older.uuid[0]++;
	ddr_array_close(a, true);
	assert_int_equal(play.load->older.generation, 0);
	end();
}

/* It was removed while its members were read: nobody begins it any more, and its namesake is another array. */
static void removed_while_it_is_loaded(void **state)
{
	struct ddr_array *a = begin(false);
	struct ddr_load *l;

	(void)state;
	ddr_array_close(a, true);
	ddr_array_removed(&d, uuid, 8);					/* of a namesake that was here before */
	assert_int_equal(a->state, DDR_ARRAY_LOADING);
	ddr_array_removed(&d, uuid, 7);
	assert_int_equal(a->state, DDR_ARRAY_CLOSING);
	assert_int_equal(d.n_arrays, 1);
	assert_null(ddr_array_by_uuid(&d, uuid));
	ddr_array_removed(&d, uuid, 7);					/* not here any more */
	l = play.load;
	play.load = NULL;
	l->ok = true;
	l->done(l->ctx);
	assert_int_equal(d.n_arrays, 0);
	end();
}

/* As many as can be served, and one more: the others are served as before. */
static void more_arrays_than_can_be(void **state)
{
	struct ddr_array *a = begin(false);
	uint8_t other[16] = { 2 };

	(void)state;
	d.n_arrays = DDR_ARRAYS_MAX;
	memcpy(d.unstarted[3].uuid, other, sizeof(other));
	snprintf(d.unstarted[3].why, sizeof(d.unstarted[3].why), "a member is missing");
	ddr_array_appeared(&d, other, false);
	assert_null(ddr_array_by_uuid(&d, other));
	assert_string_equal(d.unstarted[3].why, "");			/* it was started, and its device says the rest */
	assert_int_equal(a->state, DDR_ARRAY_RUNNING);
	d.n_arrays = 1;
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quorum_and_messages_are_given_on), cmocka_unit_test(a_lost_group_is_no_quorum),
		cmocka_unit_test(the_version_is_given_on), cmocka_unit_test(exclusions_and_slots_are_the_state_machines),
		cmocka_unit_test(what_the_group_waits_for_is_said),
		cmocka_unit_test(what_nodes_owe_is_said),
		cmocka_unit_test(fencing_is_answered), cmocka_unit_test(names_that_no_agent_gets), cmocka_unit_test(disks_that_a_node_is_cut_off_from), cmocka_unit_test(fencing_by_hand),
		cmocka_unit_test(blocks_read_again_are_loaded_before_the_state_machine_is_told), cmocka_unit_test(a_read_that_fails_loads_nothing),
		cmocka_unit_test(a_read_that_ends_after_its_array_is_dropped), cmocka_unit_test(the_smallest_device_is_told), cmocka_unit_test(a_standstill_is_no_failure_of_a_member_that_is_prepared),
		cmocka_unit_test(the_kernel_lets_the_array_go), cmocka_unit_test(a_channel_that_ends), cmocka_unit_test(a_kernel_that_is_gone_answers),
		cmocka_unit_test(a_kernel_that_refuses_the_channel_refuses_the_array), cmocka_unit_test(members_that_cannot_be_loaded), cmocka_unit_test(an_adoption_is_for_one_load), cmocka_unit_test(a_load_that_cannot_begin),
		cmocka_unit_test(an_older_generation_is_for_one_start), cmocka_unit_test(removed_while_it_is_loaded),
		cmocka_unit_test(more_arrays_than_can_be),
	};

	return cmocka_run_group_tests_name("drive, cluster", tests, NULL, NULL);
}
