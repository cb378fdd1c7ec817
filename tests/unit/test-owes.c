// SPDX-License-Identifier: GPL-2.0-or-later
/* Verdicts on those who pulse, but do not do what they owe (lib/node/owes.c), case by case. test-owes-worlds.c has what happens by chance. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "lib/node/verdict.h"
#include "lib/wire/msg.h"

#define SELF	3u
#define RING	7u
#define LIMIT	250000u

static struct ddr_group g;
static uint64_t pulses;
static const uint8_t array[16] = { 1 };

static enum ddr_group_answer deliver_of(uint32_t node, uint32_t pid, const struct ddr_node_msg *m)
{
	uint8_t buf[DDR_NODE_MSG_MAX];
	size_t len = ddr_node_msg_encode(m, buf, sizeof(buf));
	unsigned int entry;
	const char *why;

	assert_true(len > 0);
	return ddr_group_deliver(&g, (struct ddr_group_id){ node, pid }, buf, len, &entry, &why);
}

static enum ddr_group_answer deliver(uint32_t node, const struct ddr_node_msg *m)
{
	return deliver_of(node, 100 + node, m);
}

static void says_hello(uint32_t node, uint32_t out)
{
	struct ddr_node_msg m = { .type = DDR_N_HELLO, .sender = node,
				  .hello = { .lowest = DDR_MSG_OWES - 1, .highest = DDR_MSG_OWES, .version = g.use.version, .n = 1, .n_out = out != 0 } };

	m.hello.round = g.use.round;
	m.hello.ride[0].number = node;
	memcpy(m.hello.ride[0].uuid, array, sizeof(array));
	m.hello.out[0] = (struct ddr_group_id){ out, 100 + out };
	deliver(node, &m);
}

static void move_up(void)
{
	for (uint32_t i = 0; i < g.n; i++) {
		struct ddr_node_msg m = { .type = DDR_N_READY, .sender = g.process[i].id.node, .ready = { .turn = g.use.turn, .round = g.use.round } };

		assert_int_equal(deliver(m.sender, &m), DDR_GROUP_TAKEN);
	}
	assert_int_equal(g.use.version, DDR_MSG_OWES);
}

/* Nodes 1 to @n, each with one process that takes part in the array. This one is node 3. All have said hello, and use a version with such verdicts. */
static void begin(uint32_t n)
{
	struct ddr_group_id now[8];

	for (uint32_t i = 0; i < n; i++)
		now[i] = (struct ddr_group_id){ i + 1, 101 + i };
	pulses = 0;
	ddr_group_init(&g, SELF, 100 + SELF, DDR_MSG_OWES - 1, DDR_MSG_OWES);
	ddr_group_ring(&g, RING);
	assert_true(ddr_group_members(&g, now, n, NULL, 0, false, false));
	for (uint32_t i = 1; i <= n; i++)
		says_hello(i, 0);
	g.hello_due = false;
	move_up();
}

static struct ddr_node_debt debt(uint8_t kind, uint32_t node, uint32_t since, uint32_t quiet)
{
	struct ddr_node_debt d = { .kind = kind, .node = node, .since_ms = since, .quiet_ms = quiet };

	memcpy(d.uuid, array, sizeof(array));
	return d;
}

static void says(uint32_t node, uint32_t n, const struct ddr_node_debt *d)
{
	struct ddr_node_msg m = { .type = DDR_N_PULSE, .sender = node, .pulse = { .counter = ++pulses, .debts = { .n = n, .total = n } } };

	if (n)
		memcpy(m.pulse.debts.debt, d, n * sizeof(*d));
	assert_int_equal(deliver(node, &m), DDR_GROUP_TAKEN);
}

/* Node @node waits for node @debtor for so long, and for nothing else. */
static void waits(uint32_t node, uint8_t kind, uint32_t debtor, uint32_t ms)
{
	struct ddr_node_debt d = debt(kind, debtor, ms, ms);

	says(node, 1, &d);
}

/* Whoever judges must have been delivered two pulses of each process. */
static void nobody_waits(void)
{
	for (uint32_t i = 0; i < 2 * g.n; i++)
		says(g.process[i % g.n].id.node, 0, NULL);
}

static struct ddr_group_process *process_of(uint32_t node)
{
	for (unsigned int i = 0; i < g.n; i++)
		if (g.process[i].id.node == node)
			return &g.process[i];
	fail_msg("node %u is not in the group", node);
	return NULL;
}

static bool is_out(uint32_t node)
{
	return process_of(node)->silence.out;
}

/* A verdict of node @by on node @on for this debt; each node has a vote. */
static struct ddr_node_msg verdict(uint32_t by, uint32_t on, uint8_t kind, uint32_t ms)
{
	struct ddr_node_msg m = { .type = DDR_N_VERDICT, .sender = by,
				  .verdict = { .ring = RING, .process = { on, 100 + on }, .total = g.n, .quorum = g.n / 2 + 1, .flags = DDR_VERDICT_OWES,
					       .owed = { .kind = kind, .ms = ms } } };

	memcpy(m.verdict.owed.uuid, array, sizeof(array));
	ddr_verdict_voters(&g, &m.verdict);
	for (uint32_t i = 0; i < m.verdict.n; i++)
		m.verdict.node[i].votes = 1;
	return m;
}

/* Node 1 accuses node @on of an EX_ACK: is it excluded? */
static bool holds(uint32_t on)
{
	struct ddr_node_msg m = verdict(1, on, DDR_DEBT_EX_ACK, LIMIT);

	deliver(1, &m);
	return is_out(on);
}

static uint32_t limit(void *ctx, const uint8_t uuid[16])
{
	assert_memory_equal(uuid, array, sizeof(array));
	return ctx ? *(const uint32_t *)ctx : LIMIT;
}

/* ---- what makes it count, and what makes it void ----------------------------------- */

/* Node 2 pulses, and owes for 250 s what node 1 waits for. All pulse, and so was node 2 heard since, too. */
static void who_does_not_do_it_is_lost(void **state)
{
	struct ddr_node_debt own = debt(DDR_DEBT_EX_ACK, 2, LIMIT, LIMIT);

	(void)state;
	begin(3);
	assert_int_equal(ddr_group_ride(&g, array), 0);
	own.why = DDR_WHY_KERNEL;
	nobody_waits();
	waits(1, DDR_DEBT_EX_ACK, 2, LIMIT);
	says(2, 1, &own);
	says(2, 1, &own);
	assert_true(holds(2));
	assert_int_equal(process_of(2)->n, 0);
	assert_true(ddr_verdict_node_out(&g, 2));
	assert_int_equal(ddr_group_excluded(&g, 0), 2);
	assert_int_equal(process_of(2)->silence.why, DDR_OUT_OWES);
	assert_int_equal(process_of(2)->silence.owed.kind, DDR_DEBT_EX_ACK);
}

static void who_is_accused_hears_it(void **state)
{
	struct ddr_node_msg m;

	(void)state;
	begin(3);
	nobody_waits();
	waits(1, DDR_DEBT_MAP_DONE, SELF, LIMIT);
	m = verdict(1, SELF, DDR_DEBT_MAP_DONE, LIMIT);
	assert_int_equal(deliver(1, &m), DDR_GROUP_EXCLUDED);
	assert_int_equal(process_of(SELF)->silence.why, DDR_OUT_OWES);
}

/* The clock is that of those who wait: progress restarts it. It is the verdict that says how long is too long. */
static void progress_restarts_the_clock(void **state)
{
	struct ddr_node_debt d = debt(DDR_DEBT_EX_ACK, 2, LIMIT + 9000, LIMIT - 1);
	struct ddr_node_msg m;

	(void)state;
	begin(3);
	nobody_waits();
	says(1, 1, &d);
	assert_false(holds(2));
	m = verdict(1, 2, DDR_DEBT_EX_ACK, LIMIT - 1);
	deliver(1, &m);
	assert_true(is_out(2));
}

/* By the debtor's own words something was done more recently: its clock stands still while it waits for a disk. */
static void the_debtors_own_clock_counts(void **state)
{
	struct ddr_node_debt own = debt(DDR_DEBT_EX_ACK, 2, LIMIT + 9000, LIMIT - 1);

	(void)state;
	begin(3);
	nobody_waits();
	waits(1, DDR_DEBT_EX_ACK, 2, LIMIT);
	says(2, 1, &own);
	assert_false(holds(2));
	own.quiet_ms = LIMIT;
	says(2, 1, &own);
	assert_true(holds(2));
}

/* What it owes to nobody, or something else, or in another array, is no reason. Nor is it what it says itself, or what was paid by the last pulse. */
static void somebody_has_to_wait_for_it(void **state)
{
	struct ddr_node_debt d = debt(DDR_DEBT_EX_ACK, 2, LIMIT, LIMIT);

	(void)state;
	begin(3);
	nobody_waits();
	assert_false(holds(2));
	says(2, 1, &d);
	assert_false(holds(2));
	waits(1, DDR_DEBT_ROOM, 2, LIMIT);
	assert_false(holds(2));
	d.uuid[0]++;
	says(1, 1, &d);
	assert_false(holds(2));
	waits(1, DDR_DEBT_EX_ACK, 3, LIMIT);
	assert_false(holds(2));
	waits(1, DDR_DEBT_EX_ACK, 2, LIMIT);
	waits(1, DDR_DEBT_EX_ACK, 2, 0);
	assert_false(holds(2));
	waits(1, DDR_DEBT_EX_ACK, 2, LIMIT);
	assert_true(holds(2));
}

/* All owe their answer, and wait for that of the others: of each debtor it is known that nobody is lost for it, and not only of the highest in the circle. */
static void what_is_known_where_a_disk_hangs_everywhere(void **state)
{
	struct ddr_node_debt all[] = { debt(DDR_DEBT_MEMBER_ACK, 1, LIMIT, LIMIT), debt(DDR_DEBT_MEMBER_ACK, 2, LIMIT, LIMIT),
				       debt(DDR_DEBT_MEMBER_ACK, 3, LIMIT, LIMIT) };
	struct ddr_node_msg m;

	(void)state;
	begin(3);
	nobody_waits();
	for (uint32_t by = 1; by <= 3; by++) {
		for (uint32_t i = 0; i < 3; i++)
			all[i].why = i + 1 == by ? DDR_WHY_KERNEL : DDR_WHY_UNKNOWN;
		says(by, 3, all);
	}
	for (uint32_t on = 1; on <= 3; on++) {
		m = verdict(on == 1 ? 2 : 1, on, DDR_DEBT_MEMBER_ACK, 1);
		assert_int_equal(ddr_owes_judge(&g, process_of(on), &m.verdict.owed, NULL), DDR_OWES_ALL);
	}
}

/* Note 31: the same disk hangs on all nodes. Who waits for its own kernel or disk may not accuse anybody; who does so for a moment may. */
static void where_a_disk_hangs_everywhere_nobody_is_lost(void **state)
{
	struct ddr_node_debt of_1[] = { debt(DDR_DEBT_EX_ACK, 2, LIMIT, LIMIT), debt(DDR_DEBT_MEMBER_ACK, 1, DDR_DEBT_OLD_MS, 0) };

	(void)state;
	begin(3);
	nobody_waits();
	of_1[1].why = DDR_WHY_KERNEL;
	says(1, 2, of_1);
	assert_false(holds(2));
	of_1[1].why = DDR_WHY_DISK;
	says(1, 2, of_1);
	assert_false(holds(2));
	of_1[1].uuid[0]++;				/* in another array */
	says(1, 2, of_1);
	assert_true(holds(2));
	begin(3);
	nobody_waits();
	of_1[1].uuid[0]--;
	of_1[1].since_ms--;				/* it has just begun to */
	says(1, 2, of_1);
	assert_true(holds(2));
	begin(3);
	nobody_waits();
	of_1[1].since_ms++;
	says(1, 2, of_1);
	waits(3, DDR_DEBT_EX_ACK, 2, LIMIT);		/* the disk answers node 3 */
	assert_true(holds(2));
}

/* It waits for a disk, which fails after its time limit. For another debt that is no excuse, nor if others say so. */
static void a_disk_has_its_own_limit(void **state)
{
	struct ddr_node_debt own = debt(DDR_DEBT_EX_ACK, 2, LIMIT, LIMIT), of_1 = own;

	(void)state;
	begin(3);
	nobody_waits();
	own.why = of_1.why = DDR_WHY_DISK;
	says(1, 1, &of_1);
	says(2, 1, &own);
	assert_false(holds(2));
	own.kind = DDR_DEBT_MAP_DONE;
	says(2, 1, &own);
	assert_true(holds(2));
}

/* Interleaving 32: node 1 waits for node 2, and that one for node 4: only node 4 is lost. */
static void only_the_end_of_a_chain_is_lost(void **state)
{
	struct ddr_node_debt of_2 = debt(DDR_DEBT_MEMBER_DONE, 4, DDR_DEBT_OLD_MS, 0);
	struct ddr_node_msg m;

	(void)state;
	begin(5);
	nobody_waits();
	waits(1, DDR_DEBT_EX_ACK, 2, LIMIT);
	says(2, 1, &of_2);
	assert_false(holds(2));
	m = verdict(1, 4, DDR_DEBT_MEMBER_DONE, LIMIT);
	deliver(1, &m);					/* and that one not yet */
	assert_false(is_out(4));
	of_2.since_ms--;				/* a moment is no reason */
	says(2, 1, &of_2);
	assert_true(holds(2));
	begin(5);
	nobody_waits();
	waits(1, DDR_DEBT_EX_ACK, 2, LIMIT);
	of_2 = debt(DDR_DEBT_MEMBER_DONE, 4, LIMIT, LIMIT);
	says(2, 1, &of_2);
	deliver(1, &m);
	assert_true(is_out(4));
	assert_false(is_out(2));
	of_2.uuid[0]++;					/* it waits in another array */
	says(2, 1, &of_2);
	assert_true(holds(2));
}

/* Nodes 2, 4 and 5 wait for each other: the highest is lost. If one of them waits for node 1 too, that one is. */
static void of_a_circle_the_highest_is_lost(void **state)
{
	struct ddr_node_debt of_4[] = { debt(DDR_DEBT_EX_ACK, 5, LIMIT, LIMIT), debt(DDR_DEBT_ROOM, 1, 9000, 9000) };

	(void)state;
	begin(5);
	nobody_waits();
	waits(2, DDR_DEBT_EX_ACK, 4, LIMIT);
	says(4, 1, of_4);
	waits(5, DDR_DEBT_EX_ACK, 2, LIMIT);
	assert_false(holds(2));
	assert_false(holds(4));
	says(4, 2, of_4);
	assert_false(holds(5));
	says(4, 1, of_4);
	assert_true(holds(5));
}

/* Who waits for the return of a lost node waits for its fencing. The lost one is not in the group, or has been excluded, or has just come back. */
static void a_lost_node_is_not_lost_twice(void **state)
{
	struct ddr_node_debt of_2 = debt(DDR_DEBT_RETURN, 9, 9000, 9000);
	struct ddr_node_msg m;
	uint32_t behind = 0;

	(void)state;
	begin(3);
	nobody_waits();
	waits(1, DDR_DEBT_EX_ACK, 2, LIMIT);
	says(2, 1, &of_2);
	assert_false(holds(2));
	m = verdict(1, 2, DDR_DEBT_EX_ACK, LIMIT);
	assert_int_equal(ddr_owes_judge(&g, process_of(2), &m.verdict.owed, &behind), DDR_OWES_BEHIND);
	assert_int_equal(behind, 9);
	says(2, 0, NULL);
	waits(1, DDR_DEBT_RETURN, 2, LIMIT);
	m = verdict(1, 2, DDR_DEBT_RETURN, LIMIT);
	deliver(1, &m);
	assert_false(is_out(2));
}

/* ---- what all know ------------------------------------------------------------------ */

static void join(uint32_t n)
{
	struct ddr_group_id now[8];

	for (uint32_t i = 0; i < n; i++)
		now[i] = (struct ddr_group_id){ i + 1, 101 + i };
	ddr_group_members(&g, now, n, NULL, 0, false, false);
}

/* Who has joined has not heard the pulses from before, nor what their senders take part in: until all have said hello and pulsed again nobody is accused. */
static void after_a_join_words_are_said_anew(void **state)
{
	(void)state;
	begin(3);
	nobody_waits();
	waits(1, DDR_DEBT_EX_ACK, 2, LIMIT);
	join(4);
	waits(1, DDR_DEBT_EX_ACK, 2, LIMIT);	/* node 4 does not take it from one that it has not heard say hello */
	says(2, 0, NULL);
	assert_false(holds(2));
	says_hello(1, 0);
	says_hello(2, 0);
	says_hello(SELF, 0);
	waits(1, DDR_DEBT_EX_ACK, 2, LIMIT);
	says(2, 0, NULL);
	assert_false(holds(2));
	says_hello(4, 0);
	assert_false(holds(2));			/* what was said before that does not count */
	says(2, 0, NULL);
	says(2, 0, NULL);
	waits(1, DDR_DEBT_EX_ACK, 2, LIMIT);
	assert_false(holds(2));			/* that may have been done before node 1 said so */
	waits(1, DDR_DEBT_EX_ACK, 2, LIMIT);
	assert_true(holds(2));
}

/* The words of one that was excluded, or has left the array, do not count. Nor is one accused in an array that it has left. */
static void who_is_gone_accuses_nobody(void **state)
{
	struct ddr_node_msg off = { .type = DDR_N_OFF, .sender = 1 }, m;

	(void)state;
	memcpy(off.ride.uuid, array, sizeof(array));
	begin(5);
	nobody_waits();
	waits(1, DDR_DEBT_EX_ACK, 2, LIMIT);
	waits(4, DDR_DEBT_EX_ACK, 1, LIMIT);
	assert_true(holds(2));			/* node 1 is the highest of no circle, and waits for node 2 */
	waits(5, DDR_DEBT_EX_ACK, 4, LIMIT);
	waits(4, DDR_DEBT_EX_ACK, 1, 1000);
	m = verdict(5, 4, DDR_DEBT_EX_ACK, LIMIT);
	says_hello(1, 5);			/* a verdict that this node was delivered before excluded node 5 */
	deliver(1, &m);
	assert_false(is_out(4));
	begin(3);
	nobody_waits();
	waits(1, DDR_DEBT_EX_ACK, 2, LIMIT);
	off.ride.number = 1;
	deliver(1, &off);
	assert_false(holds(2));
	begin(3);
	nobody_waits();
	waits(1, DDR_DEBT_EX_ACK, 2, LIMIT);
	off.sender = off.ride.number = 2;
	deliver(2, &off);
	assert_false(holds(2));
}

static void array_message(uint32_t node, enum ddr_msg_type type, uint8_t other)
{
	struct ddr_msg m = { .type = type, .sender = node };
	uint8_t buf[DDR_MSG_MAX];
	unsigned int entry;
	const char *why;
	size_t len;

	memcpy(m.uuid, array, sizeof(array));
	m.uuid[0] = (uint8_t)(m.uuid[0] + other);
	len = ddr_msg_encode(&m, buf, sizeof(buf));
	assert_true(len > 0);
	ddr_group_deliver(&g, (struct ddr_group_id){ node, 100 + node }, buf, len, &entry, &why);
}

/* It does what it owes, and that is delivered between the last pulse of the one that waits and the verdict. */
static void what_is_done_before_the_verdict_counts(void **state)
{
	(void)state;
	begin(3);
	nobody_waits();
	waits(1, DDR_DEBT_MEMBER_ACK, 2, LIMIT);
	waits(1, DDR_DEBT_EX_ACK, 2, LIMIT);
	array_message(2, DDR_M_EX_ACK, 0);
	assert_false(holds(2));
	waits(1, DDR_DEBT_EX_ACK, 2, LIMIT);
	assert_false(holds(2));			/* node 1 may have sent that before it was delivered what node 2 has done */
	waits(1, DDR_DEBT_EX_ACK, 2, LIMIT);	/* that was another one, then */
	array_message(2, DDR_M_USE, 0);		/* and this was none */
	array_message(3, DDR_M_EX_ACK, 0);
	array_message(2, DDR_M_EX_ACK, 1);
	assert_true(holds(2));
}

/* An older release takes part: it does not know such verdicts. It is the version of the group that counts, and not that of this process. */
static void an_older_release_judges_nothing(void **state)
{
	struct ddr_node_msg m;

	(void)state;
	begin(3);
	nobody_waits();
	waits(1, DDR_DEBT_EX_ACK, 2, LIMIT);
	g.use.version = DDR_MSG_OWES - 1;
	assert_false(holds(2));
	g.use.version = DDR_MSG_OWES;
	g.use.pending = true;			/* who has joined does not know yet which one it is */
	m = verdict(1, 2, DDR_DEBT_EX_ACK, LIMIT);
	assert_int_equal(ddr_owes_judge(&g, process_of(2), &m.verdict.owed, NULL), DDR_OWES_UNKNOWN);
	g.use.pending = false;
	assert_true(holds(2));
}

/* The rest is as for silence: ring, sender, votes. */
static void the_rest_is_as_for_silence(void **state)
{
	struct ddr_node_msg m;

	(void)state;
	begin(3);
	nobody_waits();
	waits(1, DDR_DEBT_EX_ACK, 2, LIMIT);
	m = verdict(1, 2, DDR_DEBT_EX_ACK, LIMIT);
	m.verdict.ring++;
	deliver(1, &m);
	assert_false(is_out(2));
	m.verdict.ring--;
	m.verdict.quorum = 3;
	deliver(1, &m);
	assert_false(is_out(2));
	m.verdict.flags |= DDR_VERDICT_NO_SLOT;	/* it takes part, whatever the sender knows: it is not only left out */
	deliver(1, &m);
	assert_false(is_out(2));
	m.verdict.quorum = 2;
	deliver(1, &m);
	assert_true(is_out(2));
	assert_true(ddr_verdict_node_out(&g, 2));
}

/* ---- whose turn it is ----------------------------------------------------------------- */

static void the_third_node_waits_for_one(void **state)
{
	struct ddr_node_owed owed;
	uint32_t never = 0;

	(void)state;
	begin(4);
	nobody_waits();
	waits(1, DDR_DEBT_EX_ACK, 2, LIMIT - 1);
	assert_null(ddr_owes_due(&g, 1000, limit, NULL, &owed));
	assert_true(ddr_owes_near(&g, limit, NULL));
	waits(1, DDR_DEBT_EX_ACK, 2, LIMIT);
	assert_null(ddr_owes_due(&g, 1000, limit, &never, &owed));
	assert_false(ddr_owes_near(&g, limit, &never));
	assert_null(ddr_owes_due(&g, 1000, limit, NULL, &owed));	/* node 1 is asked first, and node 2 is the one that it is about */
	says(2, 0, NULL);						/* its pulses change nothing */
	assert_null(ddr_owes_due(&g, 1000 + DDR_TURN_MS - 1, limit, NULL, &owed));
	assert_ptr_equal(ddr_owes_due(&g, 1000 + DDR_TURN_MS, limit, NULL, &owed), process_of(2));
	assert_int_equal(owed.kind, DDR_DEBT_EX_ACK);
	assert_int_equal(owed.ms, LIMIT);
	assert_memory_equal(owed.uuid, array, sizeof(array));
	assert_null(ddr_owes_due(&g, 1000 + DDR_TURN_MS, limit, NULL, &owed));
	nobody_waits();
	assert_null(ddr_owes_due(&g, 100000, limit, NULL, &owed));
	waits(1, DDR_DEBT_EX_ACK, 2, LIMIT);				/* it is asked first again */
	assert_null(ddr_owes_due(&g, 100000, limit, NULL, &owed));
	nobody_waits();
	waits(1, DDR_DEBT_EX_ACK, SELF, LIMIT);				/* nobody accuses itself */
	assert_null(ddr_owes_due(&g, 200000, limit, NULL, &owed));
	assert_null(ddr_owes_due(&g, 900000, limit, NULL, &owed));
	assert_true(ddr_owes_near(&g, limit, NULL));			/* but it says whether the others will declare it dead, and needs the votes for that */
	nobody_waits();
	assert_false(ddr_owes_near(&g, limit, NULL));
}

/* What is sent is what was judged, and comes back as it was. */
static void it_goes_over_the_wire(void **state)
{
	struct ddr_node_msg m, back;
	uint8_t buf[DDR_NODE_MSG_MAX];
	size_t len;

	(void)state;
	begin(3);
	m = verdict(SELF, 2, DDR_DEBT_MAP_DONE, 12345);
	ddr_verdict_send(&g, process_of(2), &m.verdict);
	len = ddr_group_next(&g, buf, sizeof(buf));
	assert_null(ddr_node_msg_decode(buf, len, &back));
	assert_int_equal(back.type, DDR_N_VERDICT);
	assert_int_equal(back.verdict.flags, DDR_VERDICT_OWES);
	assert_memory_equal(back.verdict.owed.uuid, array, sizeof(array));
	assert_int_equal(back.verdict.owed.kind, DDR_DEBT_MAP_DONE);
	assert_int_equal(back.verdict.owed.ms, 12345);
	for (size_t cut = 1; cut <= 24; cut++) {
		buf[8] = (uint8_t)(len - cut);
		assert_non_null(ddr_node_msg_decode(buf, len - cut, &back));
	}
	buf[8] = (uint8_t)len;
	buf[len - 7] = 1;			/* reserved */
	assert_non_null(ddr_node_msg_decode(buf, len, &back));
	m.verdict.owed.ms = 0;
	assert_int_equal(ddr_node_msg_encode(&m, buf, sizeof(buf)), 0);
	m.verdict.owed = (struct ddr_node_owed){ .ms = 1 };
	assert_int_equal(ddr_node_msg_encode(&m, buf, sizeof(buf)), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_does_not_do_it_is_lost),
		cmocka_unit_test(who_is_accused_hears_it),
		cmocka_unit_test(progress_restarts_the_clock),
		cmocka_unit_test(the_debtors_own_clock_counts),
		cmocka_unit_test(somebody_has_to_wait_for_it),
		cmocka_unit_test(where_a_disk_hangs_everywhere_nobody_is_lost), cmocka_unit_test(what_is_known_where_a_disk_hangs_everywhere),
		cmocka_unit_test(a_disk_has_its_own_limit),
		cmocka_unit_test(only_the_end_of_a_chain_is_lost),
		cmocka_unit_test(of_a_circle_the_highest_is_lost),
		cmocka_unit_test(a_lost_node_is_not_lost_twice),
		cmocka_unit_test(after_a_join_words_are_said_anew),
		cmocka_unit_test(who_is_gone_accuses_nobody),
		cmocka_unit_test(what_is_done_before_the_verdict_counts),
		cmocka_unit_test(an_older_release_judges_nothing),
		cmocka_unit_test(the_rest_is_as_for_silence),
		cmocka_unit_test(the_third_node_waits_for_one),
		cmocka_unit_test(it_goes_over_the_wire),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
