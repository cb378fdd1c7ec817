// SPDX-License-Identifier: GPL-2.0-or-later
/* The process group of all daemons (lib/node/group.c), case by case. test-group-worlds.c has what happens by chance. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "lib/node/group.h"
#include "lib/node/verdict.h"

static void uuid_of(unsigned int array, uint8_t uuid[16])
{
	memset(uuid, 0, 16);
	uuid[0] = (uint8_t)(array + 1);
}

#define SELF	1u
#define PID	100u

static struct ddr_group g;

static void members_of(const struct ddr_group_id *now, size_t n, const struct ddr_group_id *left, size_t n_left, bool met)
{
	assert_true(ddr_group_members(&g, now, n, left, n_left, met, met));
}

static enum ddr_group_answer deliver(uint32_t node, uint32_t pid, const struct ddr_node_msg *m)
{
	uint8_t buf[DDR_NODE_MSG_MAX];
	size_t len = ddr_node_msg_encode(m, buf, sizeof(buf));
	unsigned int array;
	const char *why;

	assert_true(len > 0);
	return ddr_group_deliver(&g, (struct ddr_group_id){ node, pid }, buf, len, &array, &why);
}

static struct ddr_ride ride_of(unsigned int array, uint32_t number)
{
	struct ddr_ride r = { .number = number };

	uuid_of(array, r.uuid);
	return r;
}

/* A process that speaks these versions, and takes part in array 0 if @number is not 0. It has heard what this node has heard. */
static void speaks_on(uint32_t node, uint32_t pid, uint8_t machine, uint16_t lowest, uint16_t highest, uint32_t number)
{
	struct ddr_node_msg m = { .type = DDR_N_HELLO, .sender = node,
				  .hello = { .lowest = lowest, .highest = highest, .n = number ? 1 : 0, .round = g.use.round, .version = g.use.version,
					     .machine = { machine } } };

	m.hello.ride[0] = ride_of(0, number);
	assert_int_equal(deliver(node, pid, &m), DDR_GROUP_TAKEN);
}

static void speaks(uint32_t node, uint32_t pid, uint16_t lowest, uint16_t highest, uint32_t number)
{
	speaks_on(node, pid, 0, lowest, highest, number);
}

static void hello_of(uint32_t node, uint32_t pid, uint32_t number)
{
	speaks(node, pid, 1, 2, number);
}

static void ready_of(uint32_t node, uint32_t pid)
{
	struct ddr_node_msg m = { .type = DDR_N_READY, .sender = node, .ready = { .turn = g.use.turn, .round = g.use.round } };

	assert_int_equal(deliver(node, pid, &m), DDR_GROUP_TAKEN);
}

/* What this node has to say is delivered to it at once. */
static unsigned int send_all(void)
{
	uint8_t buf[DDR_NODE_MSG_MAX];
	unsigned int n = 0, array;
	const char *why;
	size_t len;

	while ((len = ddr_group_next(&g, buf, sizeof(buf))) > 0) {
		ddr_group_sent(&g);
		assert_int_equal(ddr_group_deliver(&g, g.self, buf, len, &array, &why), DDR_GROUP_TAKEN);
		n++;
	}
	return n;
}

static unsigned int begin_as(uint16_t lowest, uint16_t highest, const struct ddr_group_id *now, size_t n)
{
	uint8_t uuid[16];

	ddr_group_init(&g, SELF, PID, lowest, highest);
	ddr_group_ring(&g, 1);
	members_of(now, n, NULL, 0, false);
	uuid_of(0, uuid);
	assert_int_equal(ddr_group_ride(&g, uuid), 0);
	ddr_group_begin(&g, 0);
	return send_all();
}

static unsigned int begin_with(const struct ddr_group_id *now, size_t n)
{
	return begin_as(1, 1, now, n);
}

/* Rides are counted anew by each process: one with the pid and the number of the one before is another one all the same. */
static void a_process_with_the_same_pid_is_another_one(void **state)
{
	struct ddr_group_id now[] = { { SELF, PID }, { 2, 200 } }, left = { 2, 200 };
	struct ddr_group_view v;

	(void)state;
	begin_with(now, 2);
	hello_of(2, 200, 7);
	send_all();
	assert_int_equal(ddr_group_view(&g, 0, &v), DDR_GROUP_NEW_VIEW);
	assert_int_equal(v.n, 2);
	assert_int_equal(ddr_group_view(&g, 0, &v), DDR_GROUP_NO_NEWS);
	members_of(now, 2, &left, 1, true);		/* it left and came in one event */
	assert_int_equal(ddr_group_view(&g, 0, &v), DDR_GROUP_NO_NEWS);
	ddr_group_ring(&g, 2);
	hello_of(2, 200, 7);
	send_all();
	assert_int_equal(ddr_group_view(&g, 0, &v), DDR_GROUP_NEW_VIEW);
	assert_int_equal(v.n, 1);			/* the view without it */
	assert_int_equal(ddr_group_view(&g, 0, &v), DDR_GROUP_NEW_VIEW);
	assert_int_equal(v.n, 2);
}

/* When partitions meet the view goes on in the new ring with those that it had, until all have said in what they take part. */
static void who_comes_back_is_seen_when_all_are_known(void **state)
{
	struct ddr_group_id now[] = { { SELF, PID }, { 2, 200 }, { 3, 300 }, { 4, 400 } }, left = { 2, 200 };
	struct ddr_group_view v;

	(void)state;
	begin_with(now, 2);
	hello_of(2, 200, 7);
	send_all();
	assert_int_equal(ddr_group_view(&g, 0, &v), DDR_GROUP_NEW_VIEW);
	members_of(now, 4, NULL, 0, true);
	ddr_group_ring(&g, 2);
	assert_int_equal(ddr_group_view(&g, 0, &v), DDR_GROUP_NEW_VIEW);
	assert_int_equal(v.n, 2);
	assert_int_equal(v.ring, 2);
	send_all();
	hello_of(3, 300, 7);
	assert_int_equal(ddr_group_view(&g, 0, &v), DDR_GROUP_NO_NEWS);
	members_of((struct ddr_group_id[]){ now[0], now[2], now[3] }, 3, &left, 1, false);	/* who ends meanwhile is gone at once */
	assert_int_equal(ddr_group_view(&g, 0, &v), DDR_GROUP_NEW_VIEW);
	assert_int_equal(v.n, 1);
	assert_true(g.meets);
	hello_of(4, 400, 0);
	assert_false(g.meets);
	assert_int_equal(ddr_group_view(&g, 0, &v), DDR_GROUP_NEW_VIEW);
	assert_int_equal(v.n, 2);
	assert_int_equal(v.node[1], 3);
}

static void says_flags(uint32_t node, uint32_t pid, uint16_t flags)
{
	struct ddr_node_msg m = { .type = DDR_N_HELLO, .sender = node, .hello = { .lowest = 1, .highest = 1, .n = 1, .round = g.use.round, .version = g.use.version } };

	m.hello.flags = flags;
	m.hello.ride[0] = ride_of(0, node);
	assert_int_equal(deliver(node, pid, &m), DDR_GROUP_TAKEN);
}

/* Finding T10: a view says of each of its nodes whether it can fence, as the node's hello has it; the flags of later releases change nothing. */
static void a_view_says_who_can_fence(void **state)
{
	struct ddr_group_id now[] = { { SELF, PID }, { 4, 400 }, { 3, 300 }, { 2, 200 } };
	struct ddr_group_view v;

	(void)state;
	begin_with(now, 1);
	assert_int_equal(ddr_group_view(&g, 0, &v), DDR_GROUP_NEW_VIEW);
	assert_int_equal(v.fences[0], DDR_FENCES_UNSAID);
	g.fences = DDR_FENCES_NO;
	members_of(now, 4, NULL, 0, true);
	ddr_group_ring(&g, 2);
	send_all();
	says_flags(4, 400, DDR_NODE_FENCES);
	says_flags(3, 300, DDR_NODE_FENCES_NOT | 0x8000);
	says_flags(2, 200, 0x4000);
	send_all();
	assert_int_equal(ddr_group_view(&g, 0, &v), DDR_GROUP_NEW_VIEW);
	assert_int_equal(v.n, 4);
	for (uint32_t i = 0; i < v.n; i++)
		assert_int_equal(v.fences[i], v.node[i] == 4 ? DDR_FENCES_YES : v.node[i] == 2 ? DDR_FENCES_UNSAID : DDR_FENCES_NO);
	members_of(now, 2, NULL, 0, false);		/* they move up */
	assert_int_equal(ddr_group_view(&g, 0, &v), DDR_GROUP_NEW_VIEW);
	assert_int_equal(v.n, 2);
	for (uint32_t i = 0; i < v.n; i++)
		assert_int_equal(v.fences[i], v.node[i] == 4 ? DDR_FENCES_YES : DDR_FENCES_NO);
}

/* Nobody takes part before he knows who else does: this node waits for each hello, and says for whose. */
static void a_new_process_waits_for_every_hello(void **state)
{
	struct ddr_group_id now[] = { { SELF, PID }, { 2, 200 }, { 3, 300 } }, left = { 3, 300 };
	struct ddr_group_view v;

	(void)state;
	assert_int_equal(begin_with(now, 3), 2);	/* its own hello, and once more, for it is a new process itself */
	hello_of(2, 200, 7);
	assert_int_equal(send_all(), 0);
	assert_int_equal(ddr_group_awaits(&g)->id.node, 3);
	members_of(now, 2, &left, 1, false);
	assert_null(ddr_group_awaits(&g));
	assert_int_equal(send_all(), 1);
	assert_int_equal(ddr_group_view(&g, 0, &v), DDR_GROUP_NEW_VIEW);
	assert_int_equal(v.n, 2);
	assert_int_equal(v.node[1], 2);
	assert_int_equal(v.number[1], 7);
}

/* A process that is no ddraidd never says hello; the one of its node that does is enough. */
static void a_stranger_is_not_waited_for(void **state)
{
	struct ddr_group_id now[] = { { SELF, PID }, { 2, 150 }, { 2, 200 } };

	(void)state;
	begin_with(now, 3);
	assert_int_equal(ddr_group_awaits(&g)->id.pid, 150);
	hello_of(2, 200, 0);
	assert_null(ddr_group_awaits(&g));
}

/* A node that speaks none of the versions of those that take part in arrays stays out, and starts when they have gone. */
static void a_node_of_another_release_stays_out(void **state)
{
	struct ddr_group_id now[] = { { SELF, PID }, { 2, 200 } }, left = { 2, 200 };

	(void)state;
	begin_with(now, 2);
	speaks(2, 200, 2, 3, 7);
	assert_int_equal(ddr_version_foreign(&g)->id.node, 2);
	assert_int_equal(ddr_version_refused(&g)->id.node, SELF);
	assert_int_equal(send_all(), 0);
	members_of(now, 1, &left, 1, false);
	assert_null(ddr_version_foreign(&g));
	assert_int_equal(send_all(), 1);
	begin_with(now, 2);				/* it takes part in nothing, so it is the other one that stays out: this node is the lower one */
	speaks(2, 200, 2, 3, 0);
	assert_null(ddr_version_foreign(&g));
	assert_int_equal(ddr_version_refused(&g)->id.node, 2);
	assert_int_equal(send_all(), 1);
}

/*
 * An array that two nodes of different releases serve, which have met: whoever joins it is told no view, as nobody can speak to all. When they are
 * parted again while other nodes come, those who were in that view go on together at once, this node too.
 */
static void who_was_told_nothing_goes_on_with_the_others(void **state)
{
	struct ddr_group_id now[] = { { SELF, PID }, { 2, 200 }, { 3, 300 }, { 4, 400 } }, left = { 3, 300 };
	struct ddr_group_view v;

	(void)state;
	begin_with(now, 3);
	speaks(2, 200, 1, 1, 7);
	speaks(3, 300, 2, 2, 8);
	send_all();
	assert_int_equal(ddr_group_view(&g, 0, &v), DDR_GROUP_NO_NEWS);
	now[2] = now[3];
	members_of(now, 3, &left, 1, true);
	assert_int_equal(ddr_group_view(&g, 0, &v), DDR_GROUP_NO_NEWS);
	ddr_group_ring(&g, 2);
	assert_int_equal(ddr_group_view(&g, 0, &v), DDR_GROUP_NEW_VIEW);
	assert_int_equal(v.n, 2);
	assert_int_equal(v.node[1], 2);
	assert_int_equal(v.version, 1);
	speaks(2, 200, 1, 1, 7);
	speaks(4, 400, 1, 1, 9);
	assert_int_equal(ddr_group_view(&g, 0, &v), DDR_GROUP_NO_NEWS);
	send_all();
	assert_int_equal(ddr_group_view(&g, 0, &v), DDR_GROUP_NEW_VIEW);
	assert_int_equal(v.n, 3);
}

/* The group begins with the lowest version, for somebody may be missed who speaks no other; it moves up when nobody is, and down for one that comes. */
static void the_version_follows_who_is_there(void **state)
{
	struct ddr_group_id now[] = { { SELF, PID }, { 2, 200 }, { 3, 300 } };
	struct ddr_group_view v;

	(void)state;
	begin_as(1, 3, now, 2);
	hello_of(2, 200, 7);
	send_all();
	assert_int_equal(ddr_group_view(&g, 0, &v), DDR_GROUP_NEW_VIEW);
	assert_int_equal(v.version, 1);
	assert_true(ddr_version_may_rise(&g));
	ready_of(2, 200);
	ddr_version_rise(&g);
	assert_int_equal(send_all(), 1);
	assert_int_equal(ddr_group_view(&g, 0, &v), DDR_GROUP_NEW_VIEW);
	assert_int_equal(v.n, 2);			/* the same nodes agree anew */
	assert_int_equal(v.version, 2);
	assert_false(ddr_version_may_rise(&g));
	members_of(now, 3, NULL, 0, false);
	send_all();
	assert_int_equal(deliver(3, 300, &(struct ddr_node_msg){ .type = DDR_N_HELLO, .sender = 3, .hello = {
			 .lowest = 1, .highest = 1, .flags = DDR_NODE_FIRST } }), DDR_GROUP_TAKEN);
	hello_of(2, 200, 7);
	send_all();
	assert_int_equal(ddr_group_view(&g, 0, &v), DDR_GROUP_NO_NEWS);	/* not before all know it */
	assert_int_equal(ddr_group_unsaid(&g)->id.node, 3);
	speaks(3, 300, 1, 1, 0);
	assert_int_equal(ddr_group_view(&g, 0, &v), DDR_GROUP_NEW_VIEW);
	assert_int_equal(v.version, 1);
}

/* The version stays where it is while somebody is missed who may come back; and what was said before that he left counts no more. */
static void the_version_waits_for_the_lost(void **state)
{
	struct ddr_group_id now[] = { { SELF, PID }, { 2, 200 }, { 3, 300 } }, left = { 3, 300 };
	struct ddr_node_msg late = { .type = DDR_N_READY, .sender = 2 };

	(void)state;
	begin_as(1, 2, now, 3);
	hello_of(2, 200, 7);
	speaks(3, 300, 1, 1, 7);
	send_all();
	assert_int_equal(g.use.version, 1);
	assert_false(ddr_version_may_rise(&g));
	late.ready = (struct ddr_node_ready){ .turn = g.use.turn, .round = g.use.round };
	members_of(now, 2, &left, 1, false);
	assert_true(ddr_version_may_rise(&g));
	assert_int_equal(deliver(2, 200, &late), DDR_GROUP_TAKEN);	/* it had not seen it leave when it said so */
	ddr_version_rise(&g);
	assert_int_equal(send_all(), 1);
	assert_int_equal(g.use.version, 1);
	assert_false(ddr_version_may_rise(&g));		/* said already */
	ready_of(2, 200);
	assert_int_equal(g.use.version, 2);
}

/* Note 51: a daemon speaks what its module serves, and no more. */
static void who_speaks_what_over_which_module(void **state)
{
	static const struct { struct ddr_speaks daemon, module, both; } of[] = {
		{ { 20, 20 }, { 20, 20 }, { 20, 20 } },
		{ { 20, 21 }, { 20, 20 }, { 20, 20 } },		/* a new daemon over an old module */
		{ { 20, 20 }, { 20, 21 }, { 20, 20 } },
		{ { 20, 24 }, { 22, 23 }, { 22, 23 } },
		{ { 21, 23 }, { 20, 22 }, { 21, 22 } },
		{ { 21, 22 }, { 20, 20 }, { 0, 0 } },
		{ { 20, 20 }, { 21, 22 }, { 0, 0 } },
		{ { 20, 20 }, { 0, 0 }, { 0, 0 } },		/* it does not say it */
		{ { 0, 0 }, { 0, 0 }, { 0, 0 } },
	};

	(void)state;
	for (unsigned int i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		struct ddr_speaks both = { 7, 7 };

		assert_int_equal(ddr_speaks_both(of[i].daemon, of[i].module, &both), of[i].both.highest != 0);
		assert_memory_equal(&both, &of[i].both, sizeof(both));
	}
}

/* All daemons are new, and one module is old: the group speaks what that one serves, until its node has left, or is there with a new one. */
static void the_version_waits_for_the_last_module(void **state)
{
	struct ddr_group_id now[] = { { SELF, PID }, { 2, 200 }, { 3, 300 } }, gone = { 3, 300 };
	struct ddr_speaks new = { 1, 2 }, old = { 1, 1 }, with_old;
	struct ddr_node_msg ends = { .type = DDR_N_OFF, .sender = 3, .ride = ride_of(0, 7) };
	struct ddr_group_view v;

	(void)state;
	assert_true(ddr_speaks_both(new, old, &with_old));
	begin_as(new.lowest, new.highest, now, 3);
	hello_of(2, 200, 7);
	speaks(3, 300, with_old.lowest, with_old.highest, 7);
	send_all();
	assert_int_equal(ddr_group_view(&g, 0, &v), DDR_GROUP_NEW_VIEW);
	assert_int_equal(v.version, 1);
	assert_false(ddr_version_may_rise(&g));		/* whoever misses nobody */
	assert_int_equal(deliver(3, 300, &ends), DDR_GROUP_TAKEN);
	assert_int_equal(ddr_group_view(&g, 0, &v), DDR_GROUP_NEW_VIEW);
	assert_int_equal(v.version, 1);
	assert_false(ddr_version_may_rise(&g));		/* it serves nothing, and may begin to */
	members_of(now, 2, &gone, 1, false);
	assert_true(ddr_version_may_rise(&g));
	ready_of(2, 200);
	ddr_version_rise(&g);
	send_all();
	assert_int_equal(ddr_group_view(&g, 0, &v), DDR_GROUP_NEW_VIEW);
	assert_int_equal(v.version, 2);
	now[2].pid = 301;				/* with a new module */
	members_of(now, 3, NULL, 0, false);
	send_all();
	speaks(3, 301, new.lowest, new.highest, 0);
	hello_of(2, 200, 7);
	send_all();
	assert_int_equal(g.use.version, 2);
}

/* Who missed nobody may miss a node once it begins to take part in an array: it says so anew. */
static void the_version_waits_for_who_begins(void **state)
{
	struct ddr_group_id now[] = { { SELF, PID }, { 2, 200 } };
	struct ddr_node_msg begins = { .type = DDR_N_RIDE, .sender = 2, .ride = ride_of(1, 9) };

	(void)state;
	begin_as(1, 2, now, 2);
	hello_of(2, 200, 0);
	send_all();
	ready_of(2, 200);
	assert_int_equal(deliver(2, 200, &begins), DDR_GROUP_TAKEN);
	ddr_version_rise(&g);
	assert_int_equal(send_all(), 1);
	assert_int_equal(g.use.version, 1);
	ready_of(2, 200);
	assert_int_equal(g.use.version, 2);
}

/* Hellos of an earlier round do not end this one: whoever said them may have used another version since. */
static void a_hello_of_an_earlier_round_does_not_count(void **state)
{
	struct ddr_group_id now[] = { { SELF, PID }, { 2, 200 } };
	struct ddr_node_round before;

	(void)state;
	begin_as(1, 2, now, 2);
	hello_of(2, 200, 7);
	send_all();
	assert_false(g.use.pending);
	before = g.use.round;
	ddr_group_ring(&g, 2);
	send_all();
	assert_true(g.use.pending);
	deliver(2, 200, &(struct ddr_node_msg){ .type = DDR_N_HELLO, .sender = 2, .hello = { .lowest = 1, .highest = 2, .version = 1, .round = before } });
	assert_true(g.use.pending);
	hello_of(2, 200, 7);
	assert_false(g.use.pending);
}

static void more_nodes_than_a_view_has(void **state)
{
	struct ddr_group_id now[DDR_GROUP_NODES + 1] = { { SELF, PID } }, left = { DDR_GROUP_NODES + 1, 200 };
	struct ddr_group_view v;

	(void)state;
	for (uint32_t i = 1; i < DDR_GROUP_NODES + 1; i++)
		now[i] = (struct ddr_group_id){ i + 1, 200 };
	begin_with(now, DDR_GROUP_NODES + 1);
	for (uint32_t i = 1; i < DDR_GROUP_NODES + 1; i++)
		hello_of(i + 1, 200, i < DDR_GROUP_NODES ? 7 : 0);
	send_all();
	assert_int_equal(ddr_group_view(&g, 0, &v), DDR_GROUP_NEW_VIEW);
	assert_int_equal(v.n, DDR_GROUP_NODES);
	hello_of(DDR_GROUP_NODES + 1, 200, 7);
	assert_int_equal(ddr_group_view(&g, 0, &v), DDR_GROUP_CROWD);
	assert_int_equal(ddr_group_view(&g, 0, &v), DDR_GROUP_NO_NEWS);
	members_of(now, DDR_GROUP_NODES, &left, 1, false);
	assert_int_equal(ddr_group_view(&g, 0, &v), DDR_GROUP_NO_NEWS);	/* the view is what it was */
	hello_of(2, 200, 0);
	assert_int_equal(ddr_group_view(&g, 0, &v), DDR_GROUP_NEW_VIEW);
	assert_int_equal(v.n, DDR_GROUP_NODES - 1);
}

/* This node, of the machine @machine, with array 0 that may begin, and others. */
static void begin_on(uint8_t machine, const struct ddr_group_id *now, size_t n)
{
	uint8_t id[16] = { machine }, uuid[16];

	ddr_group_init(&g, SELF, PID, 1, 2);
	ddr_group_machine(&g, id);
	ddr_group_ring(&g, 1);
	members_of(now, n, NULL, 0, false);
	uuid_of(0, uuid);
	assert_int_equal(ddr_group_ride(&g, uuid), 0);
	ddr_group_begin(&g, 0);
	send_all();
}

/* Finding T1, note 24: of a machine and the copy of it that joins later only the first is in a view, whichever has the lower node id. */
static void a_copy_that_joins_later_is_refused(void **state)
{
	struct ddr_group_id now[] = { { SELF, PID }, { 2, 200 } };
	struct ddr_group_view v;

	(void)state;
	for (unsigned int first = 1; first <= 2; first++) {
		begin_on(7, now, 2);
		speaks_on(2, 200, 7, 1, 2, first == 2 ? 5 : 0);
		if (first == 1) {		/* neither takes part in anything */
			assert_true(ddr_version_copied(&g));
			assert_int_equal(ddr_version_refused(&g)->id.node, SELF);
			assert_int_equal(ddr_version_twin(&g, ddr_version_refused(&g))->id.node, 2);
			assert_int_equal(send_all(), 0);
			members_of(now, 1, NULL, 0, false);
			assert_int_equal(send_all(), 1);		/* the copy is gone: RIDE */
			assert_int_equal(ddr_group_view(&g, 0, &v), DDR_GROUP_NEW_VIEW);
			members_of(now, 2, NULL, 0, false);
			send_all();
			speaks_on(2, 200, 7, 1, 2, 0);
		}
		send_all();
		assert_int_equal(ddr_version_copied(&g), first == 2);
		assert_int_equal(g.array[0].stage, first == 1 ? DDR_GROUP_RIDES : DDR_GROUP_WAITS);
		assert_int_equal(ddr_version_refused(&g)->id.node, first == 1 ? 2 : SELF);
		assert_null(ddr_version_foreign(&g));
	}
	speaks_on(2, 200, 8, 1, 2, 5);				/* it has an id of its own now */
	assert_false(ddr_version_copied(&g));
	assert_null(ddr_version_refused(&g));
	send_all();
	assert_int_equal(ddr_group_view(&g, 0, &v), DDR_GROUP_NEW_VIEW);
	assert_int_equal(v.n, 2);
}

/* Partitions meet in which both were served: the lower node goes on, and nobody counts the other one any more. */
static void of_two_that_serve_one_goes_on(void **state)
{
	struct ddr_group_id now[] = { { SELF, PID }, { 2, 200 }, { 3, 300 } };
	struct ddr_group_view v;

	(void)state;
	for (uint32_t other = 0; other <= 2; other += 2) {	/* which of the two others is the copy of this one; 0: one of the other */
		begin_on(7, now, 1);
		assert_int_equal(ddr_group_view(&g, 0, &v), DDR_GROUP_NEW_VIEW);
		members_of(now, 3, NULL, 0, true);
		ddr_group_ring(&g, 2);
		speaks_on(2, 200, other == 2 ? 7 : 6, 1, 2, 8);
		speaks_on(3, 300, 6, 1, 2, 9);
		send_all();
		assert_int_equal(ddr_group_view(&g, 0, &v), DDR_GROUP_NEW_VIEW);
		assert_int_equal(v.n, 2);
		assert_int_equal(v.node[1], other == 2 ? 3 : 2);
		assert_int_equal(ddr_version_refused(&g)->id.node, other == 2 ? 2 : 3);
		assert_false(ddr_version_copied(&g));
	}
	/* the array of node 1 ends: of it and its copy only the copy takes part in something now */
	ddr_group_off(&g, 0);
	send_all();
	assert_true(ddr_version_copied(&g));
	assert_int_equal(ddr_version_refused(&g)->id.node, SELF);
}

/* Releases that say nothing of their machine, and several processes of one node, are no copies of each other. */
static void who_is_no_copy(void **state)
{
	struct ddr_group_id now[] = { { SELF, PID }, { 2, 200 }, { 3, 300 }, { 2, 201 } };

	(void)state;
	begin_on(0, now, 4);
	hello_of(2, 200, 3);
	hello_of(3, 300, 4);
	speaks_on(2, 201, 9, 1, 2, 0);
	send_all();
	assert_null(ddr_version_refused(&g));
	speaks_on(2, 200, 9, 1, 2, 3);
	assert_null(ddr_version_refused(&g));
	speaks_on(3, 300, 9, 1, 2, 4);
	assert_int_equal(ddr_version_refused(&g)->id.node, 3);
}

/* ---- the id of the cluster ---------------------------------------------------- */

#define NO_ID	((struct ddr_cluster_ids){ 0 })
#define AGREED(n) ((struct ddr_cluster_ids){ .id = { n }, .agreed = true })

static struct ddr_cluster_ids promised(uint64_t ballot)
{
	return (struct ddr_cluster_ids){ .promised = ballot };
}

static struct ddr_cluster_ids accepted(uint8_t id, uint64_t ballot, uint64_t promise)
{
	return (struct ddr_cluster_ids){ .id = { id }, .ballot = ballot, .promised = promise };
}

/* A hello of a process on a machine of its own, which has stored @ids. @number: of its ride; 0: it takes part in nothing. */
static void hello_in(uint32_t node, uint32_t pid, struct ddr_cluster_ids ids, uint32_t number)
{
	struct ddr_node_msg m = { .type = DDR_N_HELLO, .sender = node,
				  .hello = { .lowest = 1, .highest = 2, .n = number ? 1 : 0, .round = g.use.round, .version = g.use.version,
					     .machine = { (uint8_t)(10 + node) }, .cluster = { ids.id[0] }, .proposed = !ids.agreed && ids.id[0],
					     .promised = ids.promised, .ballot = ids.ballot } };

	m.hello.ride[0] = ride_of(0, number);
	assert_int_equal(deliver(node, pid, &m), DDR_GROUP_TAKEN);
	send_all();
}

/* What this node has to store, if each node has one vote. */
static enum ddr_cluster_step next_step(uint32_t quorum, struct ddr_cluster_ids *ids)
{
	struct ddr_node_verdict votes = { .quorum = quorum };

	ddr_verdict_voters(&g, &votes);
	for (uint32_t i = 0; i < votes.n; i++)
		votes.node[i].votes = 1;
	return ddr_cluster_next(&g, &votes, ids);
}

/* It stores what it has to, and says so. */
static void stores_next(enum ddr_cluster_step step, struct ddr_cluster_ids *ids)
{
	assert_int_equal(next_step(2, ids), step);
	if (step == DDR_CLUSTER_CREATE)
		ids->id[0] = 4;
	ddr_cluster_stored(&g, ids);
	send_all();
}

static void stays(void)
{
	struct ddr_cluster_ids ids;

	assert_int_equal(next_step(2, &ids), DDR_CLUSTER_STAYS);
}

static void stored(struct ddr_cluster_ids ids)
{
	ddr_cluster_stored(&g, &ids);
}

/* The lowest node makes an id, once an array is served: when all have promised the ballot. It is used once all have accepted it. */
static void an_id_is_agreed_when_all_have_it(void **state)
{
	struct ddr_group_id now[] = { { SELF, PID }, { 2, 200 } };
	struct ddr_cluster_ids ids;

	(void)state;
	begin_on(1, now, 2);
	stays();					/* not all have said hello */
	hello_in(2, 200, NO_ID, 0);
	assert_int_equal(next_step(2, &ids), DDR_CLUSTER_STORE);
	assert_int_equal(ids.promised, 1);
	assert_int_equal(ids.id[0] | ids.ballot | ids.agreed, 0);
	stored(ids);
	stays();					/* it has not been said yet */
	send_all();
	stays();					/* the other one has not promised */
	hello_in(2, 200, promised(1), 0);
	stores_next(DDR_CLUSTER_CREATE, &ids);
	assert_int_equal(ids.ballot, 1);
	stays();
	hello_in(2, 200, accepted(4, 1, 1), 0);
	stores_next(DDR_CLUSTER_STORE, &ids);
	assert_int_equal(ids.id[0], 4);
	assert_true(ids.agreed);
	stays();
	begin_on(1, now, 2);
	ddr_group_off(&g, 0);
	hello_in(2, 200, NO_ID, 0);
	stays();					/* nobody serves anything */
}

/* Of the ids that were accepted before, that of the highest ballot may be in use; whoever comes or goes, there is a higher ballot. */
static void the_id_of_the_highest_ballot_stays(void **state)
{
	struct ddr_group_id now[] = { { SELF, PID }, { 2, 200 }, { 3, 300 } }, gone[] = { { 3, 300 } };
	struct ddr_cluster_ids ids;

	(void)state;
	begin_on(1, now, 3);
	stored(accepted(9, 3, 5));
	hello_in(2, 200, accepted(6, 4, 4), 0);
	hello_in(3, 300, accepted(7, 2, 2), 0);
	send_all();
	stores_next(DDR_CLUSTER_STORE, &ids);
	assert_int_equal(ids.promised, 6);
	assert_int_equal(ids.id[0], 9);			/* it is kept until another one is accepted */
	hello_in(2, 200, accepted(6, 4, 6), 0);
	stays();
	hello_in(3, 300, accepted(7, 2, 6), 0);
	stores_next(DDR_CLUSTER_STORE, &ids);
	assert_int_equal(ids.id[0], 6);
	assert_int_equal(ids.ballot, 6);
	hello_in(2, 200, accepted(6, 6, 6), 0);
	stays();					/* not all have accepted */
	members_of(now, 2, gone, 1, false);
	stores_next(DDR_CLUSTER_STORE, &ids);
	assert_int_equal(ids.promised, 7);		/* node 3 may have taken another one in the last ballot */
	assert_false(ids.agreed);
	hello_in(2, 200, accepted(6, 6, 9), 0);		/* it had begun to store that in another partition */
	stores_next(DDR_CLUSTER_STORE, &ids);
	assert_int_equal(ids.promised, 10);
}

/* Two groups may agree on two ids, unless each has the votes of more than half of the nodes: those whose daemons take part in it. */
static void few_nodes_agree_on_nothing(void **state)
{
	struct ddr_group_id now[] = { { SELF, PID }, { 2, 200 } };
	struct ddr_node_verdict votes = { .quorum = 1, .n = 1, .node = { { SELF, 1 } }, .flags = DDR_VERDICT_TWO_NODE };
	struct ddr_cluster_ids ids;

	(void)state;
	begin_on(1, now, 2);
	hello_in(2, 200, NO_ID, 0);
	assert_int_equal(next_step(3, &ids), DDR_CLUSTER_VOTES);
	assert_int_equal(next_step(0, &ids), DDR_CLUSTER_VOTES);
	assert_int_equal(ddr_cluster_next(&g, NULL, &ids), DDR_CLUSTER_VOTES);
	assert_int_equal(ddr_cluster_next(&g, &votes, &ids), DDR_CLUSTER_VOTES);	/* one of two */
	votes.node[votes.n++] = (struct ddr_node_votes){ 2, 1 };
	assert_int_equal(ddr_cluster_next(&g, &votes, &ids), DDR_CLUSTER_STORE);
	hello_in(2, 200, AGREED(5), 0);
	assert_int_equal(next_step(3, &ids), DDR_CLUSTER_STORE);	/* what others have agreed on holds here too */
	assert_int_equal(ids.id[0], 5);
}

/* Of two clusters that meet the lowest node's id stays, and both are known; one that was accepted only yields to an id that is used. */
static void of_two_ids_the_lowest_nodes_stays(void **state)
{
	struct ddr_group_id now[] = { { SELF, PID }, { 2, 200 }, { 3, 300 } };
	struct ddr_cluster_ids ids;

	(void)state;
	begin_on(1, now, 3);
	stored(accepted(9, 1, 1));
	hello_in(3, 300, AGREED(7), 5);
	hello_in(2, 200, NO_ID, 0);
	assert_int_equal(next_step(2, &ids), DDR_CLUSTER_STORE);
	assert_int_equal(ids.id[0], 7);			/* that of node 3 is used, ours is not */
	assert_true(ids.agreed);
	assert_int_equal(ids.other[0], 0);
	hello_in(2, 200, AGREED(6), 0);
	stores_next(DDR_CLUSTER_STORE, &ids);
	assert_int_equal(ids.id[0], 6);
	assert_int_equal(ids.other[0], 7);
	stays();
	stored(AGREED(9));				/* a node that comes from a third one */
	send_all();
	assert_int_equal(next_step(2, &ids), DDR_CLUSTER_STORE);
	assert_int_equal(ids.id[0], 9);			/* it is the lowest: it stays, and knows of the others */
	assert_int_equal(ids.other[0], 6);
	members_of(now, 1, NULL, 0, false);
	send_all();
	stays();
}

/* A copy that is refused, or a release that says nothing of an id, neither brings one nor is waited for. */
static void the_refused_have_no_part_in_the_id(void **state)
{
	struct ddr_group_id now[] = { { 2, 200 }, { 3, 300 }, { SELF, PID } };
	struct ddr_cluster_ids ids;

	(void)state;
	begin_on(13, now, 3);
	hello_of(2, 200, 0);
	hello_in(3, 300, AGREED(5), 8);			/* the machine of this node: it serves, so this one is refused */
	assert_true(ddr_version_copied(&g));
	stays();
	begin_on(11, now, 3);
	hello_of(2, 200, 0);
	hello_in(3, 300, NO_ID, 0);
	stores_next(DDR_CLUSTER_STORE, &ids);
	hello_in(3, 300, promised(1), 0);
	stores_next(DDR_CLUSTER_CREATE, &ids);
	hello_in(3, 300, accepted(4, 1, 1), 0);
	stores_next(DDR_CLUSTER_STORE, &ids);
	assert_true(ids.agreed);			/* node 2 knows nothing of it, and its vote is not needed */
}

/* What others send is believed only of themselves, and nothing that is not well formed. */
static void hostile_messages(void **state)
{
	struct ddr_node_msg m = { .type = DDR_N_HELLO, .sender = 2, .hello = { .lowest = 1, .highest = 1, .n = DDR_NODE_RIDES, .n_out = DDR_NODE_OUTS, .machine = { 1, 2 }, .cluster = { 3 }, .proposed = true, .promised = 9, .ballot = 8 } }, back;
	struct ddr_group_id now[] = { { SELF, PID }, { 2, 200 } };
	uint8_t buf[DDR_NODE_MSG_MAX + 8] = { 0 };
	size_t len;

	(void)state;
	for (unsigned int i = 0; i < DDR_NODE_RIDES; i++)
		m.hello.ride[i] = ride_of(i, i + 1);
	for (unsigned int i = 0; i < DDR_NODE_OUTS; i++)
		m.hello.out[i] = (struct ddr_group_id){ i + 1, i };
	assert_int_equal(ddr_node_msg_encode(&m, buf, DDR_NODE_MSG_MAX - 1), 0);
	len = ddr_node_msg_encode(&m, buf, sizeof(buf));
	assert_int_equal(len, DDR_NODE_MSG_MAX);
	for (size_t cut = 0; cut < len; cut++)
		assert_non_null(ddr_node_msg_decode(buf, cut, &back));
	assert_null(ddr_node_msg_decode(buf, len, &back));
	assert_memory_equal(&back, &m, sizeof(m));
	assert_non_null(ddr_node_msg_decode(buf, len + 1, &back));	/* its length is not what it says */
	for (size_t less = 1; less <= 56; less++) {
		uint32_t length = (uint32_t)(len - less);

		memcpy(buf + 8, &length, sizeof(length));
		assert_int_equal(ddr_node_msg_decode(buf, length, &back) == NULL, less == 56);	/* a release that does not say who its machine is */
	}
	assert_int_equal(back.hello.machine[0] | back.hello.cluster[0] | back.hello.proposed | back.hello.promised | back.hello.ballot, 0);
	assert_true(ddr_node_msg_encode(&m, buf, sizeof(buf)) == len);
	buf[8] = (uint8_t)(buf[8] + 8);
	assert_null(ddr_node_msg_decode(buf, len + 8, &back));		/* a later release says more */
	m.hello.ballot = 10;						/* it has not promised that */
	assert_int_equal(ddr_node_msg_encode(&m, buf, sizeof(buf)), 0);
	m.hello.ballot = 8;
	m.hello.promised = DDR_BALLOT_MAX + 1;
	assert_int_equal(ddr_node_msg_encode(&m, buf, sizeof(buf)), 0);
	m.hello.promised = 9;
	m.hello.n++;
	assert_int_equal(ddr_node_msg_encode(&m, buf, sizeof(buf)), 0);
	m.hello.n -= 2;
	m.hello.n_out++;
	assert_int_equal(ddr_node_msg_encode(&m, buf, sizeof(buf)), 0);
	begin_with(now, 2);
	m = (struct ddr_node_msg){ .type = DDR_N_RIDE, .sender = 2, .ride = ride_of(0, 7) };
	assert_int_equal(deliver(2, 200, &m), DDR_GROUP_DROPPED);	/* it has not said hello */
	hello_of(2, 200, 0);
	assert_int_equal(deliver(2, 201, &m), DDR_GROUP_DROPPED);	/* no member */
	assert_int_equal(deliver(SELF, PID + 1, &m), DDR_GROUP_DROPPED);
	m.sender = 3;
	assert_int_equal(deliver(2, 200, &m), DDR_GROUP_DROPPED);
	m.sender = 2;
	assert_int_equal(deliver(2, 200, &m), DDR_GROUP_TAKEN);
}

static void hostile_verdicts(void **state)
{
	struct ddr_node_msg m = { .type = DDR_N_VERDICT, .sender = 2, .verdict = { .process = { 3, 300 }, .total = 3, .quorum = 2, .n = DDR_NODE_VOTERS } }, back;
	struct ddr_node_msg pulse = { .type = DDR_N_PULSE, .sender = 2, .pulse = { .counter = 1ull << 63 } };
	uint8_t buf[DDR_NODE_MSG_MAX + 8] = { 0 };
	size_t len;

	(void)state;
	for (uint32_t i = 0; i < DDR_NODE_VOTERS; i++)
		m.verdict.node[i] = (struct ddr_node_votes){ i + 1, i };
	len = ddr_node_msg_encode(&m, buf, sizeof(buf));
	assert_true(len > 0);
	for (size_t cut = 0; cut < len; cut++)
		assert_non_null(ddr_node_msg_decode(buf, cut, &back));
	assert_null(ddr_node_msg_decode(buf, len, &back));
	assert_memory_equal(&back.verdict, &m.verdict, sizeof(m.verdict));
	buf[8] = (uint8_t)(buf[8] + 8);
	assert_non_null(ddr_node_msg_decode(buf, len + 8, &back));	/* it has no more to say */
	m.verdict.node[7].node = 4;
	assert_int_equal(ddr_node_msg_encode(&m, buf, sizeof(buf)), 0);	/* a node twice */
	m.verdict.node[7].node = 0;
	assert_int_equal(ddr_node_msg_encode(&m, buf, sizeof(buf)), 0);
	m.verdict.node[7].node = 8;
	m.verdict.flags = DDR_VERDICT_OWES << 1;
	assert_int_equal(ddr_node_msg_encode(&m, buf, sizeof(buf)), 0);
	m.verdict.flags = DDR_VERDICT_TWO_NODE;
	m.verdict.process.node = 0;
	assert_int_equal(ddr_node_msg_encode(&m, buf, sizeof(buf)), 0);
	m.verdict.process.node = 3;
	m.verdict.n++;
	assert_int_equal(ddr_node_msg_encode(&m, buf, sizeof(buf)), 0);
	len = ddr_node_msg_encode(&pulse, buf, sizeof(buf));
	for (size_t cut = 0; cut < len; cut++)
		assert_non_null(ddr_node_msg_decode(buf, cut, &back));
	buf[8] = (uint8_t)(buf[8] + 8);
	assert_null(ddr_node_msg_decode(buf, len + 8, &back));		/* a later release says more */
	assert_true(back.pulse.counter == pulse.pulse.counter);
	pulse.pulse.counter = 0;
	assert_int_equal(ddr_node_msg_encode(&pulse, buf, sizeof(buf)), 0);
}

/* A pulse of the first releases ends with its counter; one that names debts is complete, or no pulse. */
static void hostile_debts(void **state)
{
	struct ddr_node_msg m = { .type = DDR_N_PULSE, .sender = 2, .pulse = { .counter = 7, .debts = { .n = DDR_NODE_DEBTS, .total = 99 } } }, back;
	struct ddr_node_debt *d = m.pulse.debts.debt;
	uint8_t buf[DDR_NODE_MSG_MAX] = { 0 };
	const size_t first = DDR_NODE_HEADER + 8;
	size_t len;

	(void)state;
	for (uint32_t i = 0; i < DDR_NODE_DEBTS; i++)
		d[i] = (struct ddr_node_debt){ .uuid = { (uint8_t)i }, .kind = (uint8_t)(200 + i), .why = 77, .node = i + 1, .since_ms = 1000 * i + 7, .quiet_ms = i };
	len = ddr_node_msg_encode(&m, buf, sizeof(buf));
	assert_int_equal(len, first + 8 + DDR_NODE_DEBTS * 32);
	assert_null(ddr_node_msg_decode(buf, len, &back));	/* also kinds of a later release */
	assert_memory_equal(&back.pulse, &m.pulse, sizeof(m.pulse));
	for (size_t cut = 0; cut < len; cut++) {
		buf[8] = (uint8_t)cut;
		buf[9] = (uint8_t)(cut >> 8);
		if (cut == first)
			assert_null(ddr_node_msg_decode(buf, cut, &back));
		else
			assert_non_null(ddr_node_msg_decode(buf, cut, &back));
	}
	memcpy(buf + len, buf + first + 8, 32);
	buf[8] = (uint8_t)(len + 32);
	buf[9] = (uint8_t)((len + 32) >> 8);
	assert_null(ddr_node_msg_decode(buf, len + 32, &back));		/* a later release says more */
	buf[first]++;
	assert_non_null(ddr_node_msg_decode(buf, len + 32, &back));	/* more debts than a pulse names */
	buf[8] = (uint8_t)first;
	buf[9] = 0;
	assert_null(ddr_node_msg_decode(buf, first, &back));
	assert_int_equal(back.pulse.debts.n + back.pulse.debts.total, 0);
	m.pulse.debts.total = DDR_NODE_DEBTS - 1;
	assert_int_equal(ddr_node_msg_encode(&m, buf, sizeof(buf)), 0);	/* fewer than are named */
	m.pulse.debts.total = UINT32_MAX;
	m.pulse.debts.n = DDR_NODE_DEBTS + 1;
	assert_int_equal(ddr_node_msg_encode(&m, buf, sizeof(buf)), 0);
	m.pulse.debts.n = 2;
	d[1].node = 0;
	assert_int_equal(ddr_node_msg_encode(&m, buf, sizeof(buf)), 0);
	d[1].node = 5;
	d[1].kind = 0;
	assert_int_equal(ddr_node_msg_encode(&m, buf, sizeof(buf)), 0);
	d[1].kind = 1;
	d[1].quiet_ms = d[1].since_ms + 1;
	assert_int_equal(ddr_node_msg_encode(&m, buf, sizeof(buf)), 0);	/* it did something before it owed anything */
	d[1].quiet_ms--;
	assert_true(ddr_node_msg_encode(&m, buf, sizeof(buf)) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_process_with_the_same_pid_is_another_one),
		cmocka_unit_test(who_comes_back_is_seen_when_all_are_known),
		cmocka_unit_test(a_copy_that_joins_later_is_refused),
		cmocka_unit_test(of_two_that_serve_one_goes_on),
		cmocka_unit_test(who_is_no_copy),
		cmocka_unit_test(an_id_is_agreed_when_all_have_it),
		cmocka_unit_test(the_id_of_the_highest_ballot_stays),
		cmocka_unit_test(few_nodes_agree_on_nothing),
		cmocka_unit_test(of_two_ids_the_lowest_nodes_stays),
		cmocka_unit_test(the_refused_have_no_part_in_the_id),
		cmocka_unit_test(a_new_process_waits_for_every_hello),
		cmocka_unit_test(a_stranger_is_not_waited_for),
		cmocka_unit_test(a_node_of_another_release_stays_out),
		cmocka_unit_test(who_was_told_nothing_goes_on_with_the_others),
		cmocka_unit_test(the_version_follows_who_is_there),
		cmocka_unit_test(the_version_waits_for_the_lost),
		cmocka_unit_test(who_speaks_what_over_which_module),
		cmocka_unit_test(the_version_waits_for_the_last_module),
		cmocka_unit_test(the_version_waits_for_who_begins),
		cmocka_unit_test(a_hello_of_an_earlier_round_does_not_count),
		cmocka_unit_test(more_nodes_than_a_view_has), cmocka_unit_test(a_view_says_who_can_fence),
		cmocka_unit_test(hostile_messages),
		cmocka_unit_test(hostile_verdicts),
		cmocka_unit_test(hostile_debts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
