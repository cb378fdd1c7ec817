// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Verdicts on silent processes (lib/node/verdict.c), among simulated ones: they start, end, are stopped and go on, are cut off from each other and
 * meet again, and each reads what is delivered to it in its own time; at times the whole group stands still. Whatever happens: all who are
 * delivered a message judge it alike; nobody is excluded who has sent anything in the last six seconds, nor without quorum for the rest. Once
 * nothing more happens, a process that is stopped is excluded in time, and one that is not takes part again.
 */
#include "tests/unit/verdict-worlds.h"

/* Does each process that runs take those of @stopped for excluded, and nobody else; and does it wait for nobody? */
static void check_rest(unsigned int stopped)
{
	for (unsigned int i = 0; i < NODES; i++) {
		const struct ddr_group *g = &world.process[i].g;

		if (stopped >> i & 1)
			continue;
		assert_int_equal(g->n, NODES);
		assert_null(ddr_group_unsaid(g));
		assert_false(g->use.pending);		/* nor is the version that is used still open */
		assert_int_equal(g->use.version, 1);
		for (unsigned int j = 0; j < NODES; j++) {
			assert_int_equal(ddr_verdict_node_out(g, j + 1), stopped >> j & 1);
			assert_int_equal(g->process[j].silence.out, stopped >> (g->process[j].id.node - 1) & 1);
		}
	}
}

/* Five pulses, three seconds for each lower node that is stopped too, and what the steps of the timers add. */
#define IN_TIME_MS	(7 * DDR_PULSE_MS + 2 * (DDR_TURN_MS + DDR_PULSE_MS))

static void one_seed(uint32_t seed)
{
	unsigned int stopped = 0;

	begin(seed);
	for (unsigned int i = 0; i < 1500; i++) {
		act();
		act();
		pass();
	}
	all_run(0);
	let_pass(60000);
	check_rest(0);
	while ((stopped = any(1u << NODES)), __builtin_popcount(stopped) > (int)(NODES - QUORUM)) {
	}
	all_run(stopped);
	let_pass(IN_TIME_MS);
	check_rest(stopped);
	all_run(0);
	let_pass(60000);
	check_rest(0);
}

static void random_worlds(void **state)
{
	const char *first = getenv("DDRAID_VERDICT_SEED");
	unsigned int excluded = 0;

	(void)state;
	if (first) {
		one_seed((uint32_t)strtoul(first, NULL, 10));
		return;
	}
	for (uint32_t seed = 1; seed <= 300; seed++) {
		print_message("seed %u\n", seed);
		one_seed(seed);
		excluded += world.excluded;
	}
	assert_true(excluded > 500);	/* it is the exclusions that are tested */
}

/* However long it lasts: who talks is never excluded, nor is anybody while the group stands still. */
static void nobody_is_excluded_who_talks(void **state)
{
	(void)state;
	begin(1);
	all_run(0);
	for (unsigned int i = 0; i < 20; i++) {
		let_pass(30000);
		world.stands_ms = world.now + any(60000);
	}
	assert_int_equal(world.excluded, 0);
}

/* Three of five are stopped: two stay lost at most, for the rest would not be quorate without a third. */
static void a_minority_excludes_nobody(void **state)
{
	unsigned int n = 0;

	(void)state;
	begin(2);
	all_run(0);
	let_pass(20000);
	all_run(1 << 0 | 1 << 2 | 1 << 4);
	let_pass(120000);
	for (unsigned int j = 0; j < NODES; j++)
		n += ddr_verdict_node_out(&world.process[1].g, j + 1);
	assert_int_equal(n, NODES - QUORUM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_worlds),
		cmocka_unit_test(nobody_is_excluded_who_talks),
		cmocka_unit_test(a_minority_excludes_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
