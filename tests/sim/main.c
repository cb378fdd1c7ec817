// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ddrsim: runs seeds, reports which broke a rule, and replays one of them in full.
 *
 *	ddrsim [--seeds A-B | --seed N] [--events N] [--nodes N] [--trace] [--quiet] [--rules-only] [--cells] [--shrink SECONDS]
 *
 *	ddrsim --daemon ...	the same with real daemons (twin/main.c): runs the program ddrsim-daemon beside this one
 *	ddrsim [--rules-only] --run FILE [--trace]	a scenario that begins with "> sim"
 *	ddrsim --scale		the cost of operations with up to 64 nodes and a million regions (scale.c)
 *
 * Without arguments: seeds 1-300 on one node, 1-100 on three; with DDRAID_TESTS=short in the environment (`make check`) a fifth of
 * them. --cells lists at the end which cells of the small machines' tables (lib/cluster/sm_cells.h) no node has reached. --rules-only
 * leaves out ddr_sm_check(), so that a bug must show on the disks or in the kernel. A seed that fails is shrunk, unless --quiet or
 * --trace is given: the shortest schedule found within SECONDS of CPU time (60; 0: none) is printed as a scenario (tape_text.c). Exit
 * code: 0 no rule was broken, 1 one was (the seed is printed), 2 usage.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim.h"

/* ---- options ------------------------------------------------------------------- */

static void usage(void)
{
	fprintf(stderr, "usage: ddrsim [--daemon] [--seeds A-B | --seed N] [--events N] [--nodes N] [--trace] [--quiet] [--rules-only] [--cells] [--shrink SECONDS] | [--rules-only] --run FILE [--trace] | --scale\n");
	exit(2);
}

static uint64_t number(const char *text, char **end)
{
	uint64_t v;

	errno = 0;
	v = strtoull(text, end, 10);
	if (errno || *end == text)
		usage();
	return v;
}

struct options { uint64_t first, last, events, shrink; uint32_t nodes; bool trace, quiet, rules_only, cells; };

static void cells_print(void)
{
	uint32_t all = 0, reached = 0;

	for (uint32_t i = 1; ddr_sm_cell(i); i++, all++)
		reached += sim_cells[i / 64] >> (i % 64) & 1;
	printf("cells of the small machines: %u of %u were reached%s\n", reached, all, reached < all ? "; never:" : "");
	for (uint32_t i = 1; ddr_sm_cell(i); i++)
		if (!(sim_cells[i / 64] >> (i % 64) & 1))
			printf("  %s\n", ddr_sm_cell(i));
}

/* Returns true if no rule was broken. */
static bool run(struct sim *s, const struct options *o)
{
	uint64_t stats[STATS] = { 0 };

	for (uint64_t seed = o->first; seed <= o->last; seed++) {
		if (!sim_run_seed(s, &(struct sim_run){ .seed = seed, .events = o->events, .nodes = o->nodes, .trace = o->trace, .rules_only = o->rules_only })) {
			if (o->shrink && !o->trace)
				shrink_seed(seed, o->events, o->nodes, o->rules_only, o->shrink, stdout);
			return false;
		}
		for (int i = 0; i < STATS; i++)
			stats[i] += s->stats[i];
	}
	if (o->quiet)
		return true;
	printf("seeds %llu-%llu of %llu events: no rule was broken (writes %llu, flushes %llu, power cuts %llu, daemons killed %llu, "
		       "faults %llu, job ranges %llu, marks cleared %llu, errors %llu, suspect %llu, longer tables %llu, pools full %llu)\n", (unsigned long long)o->first,
		       (unsigned long long)o->last, (unsigned long long)o->events, (unsigned long long)stats[STAT_WRITES],
		       (unsigned long long)stats[STAT_FLUSHES], (unsigned long long)stats[STAT_CRASHES],
		       (unsigned long long)stats[STAT_KILLS], (unsigned long long)stats[STAT_FAULTS], (unsigned long long)stats[STAT_JOBS],
		       (unsigned long long)stats[STAT_CLEARS], (unsigned long long)stats[STAT_ERRORS], (unsigned long long)stats[STAT_SUSPECT],
		       (unsigned long long)stats[STAT_GROWN], (unsigned long long)stats[STAT_FULL]);
	if (o->nodes > 1)
		printf("  nodes died %llu, networks split or healed %llu, fenced %llu, slots recovered %llu, machines that came back under another id %llu, that were replaced %llu, nodes joined %llu, evicted %llu, "
		       "left %llu, messages %llu, gave up (rule 4) %llu, ended early %llu\n", (unsigned long long)stats[STAT_DEATHS], (unsigned long long)stats[STAT_SPLITS],
		       (unsigned long long)stats[STAT_FENCED], (unsigned long long)stats[STAT_RECOVERED], (unsigned long long)stats[STAT_RENAMED], (unsigned long long)stats[STAT_REPLACED],
		       (unsigned long long)stats[STAT_JOINED], (unsigned long long)stats[STAT_EVICTED],
		       (unsigned long long)stats[STAT_LEFT], (unsigned long long)stats[STAT_MESSAGES],
		       (unsigned long long)stats[STAT_GAVE_UP], (unsigned long long)stats[STAT_ABANDONED]);
	return true;
}

static int run_file(const char *path, bool trace, bool rules_only)
{
	FILE *f = fopen(path, "r");
	bool good;

	if (!f) {
		perror(path);
		return 2;
	}
	good = tape_run_file(f, path, trace, rules_only);
	fclose(f);
	return good ? 0 : 1;
}

static int run_daemons(char **argv)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s-daemon", argv[0]);
	execv(path, argv + 1);
	perror(path);
	return 2;
}

int main(int argc, char **argv)
{
	struct sim *s;
	struct options o = { .first = 1, .last = 300, .events = 3000, .nodes = 1, .shrink = 60 };
	const char *tests = getenv("DDRAID_TESTS");
	bool good, both = true;		/* one node, then three */
	char *end;

	if (argc > 1 && strcmp(argv[1], "--daemon") == 0)
		return run_daemons(argv);
	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : "";

		both &= strcmp(argv[i], "--cells") == 0;
		if (strcmp(argv[i], "--trace") == 0) {
			o.trace = true;
			continue;
		} else if (strcmp(argv[i], "--scale") == 0) {
			scale();
			return 0;
		} else if (strcmp(argv[i], "--quiet") == 0) {
			o.quiet = true;
			o.shrink = 0;
			continue;
		} else if (strcmp(argv[i], "--rules-only") == 0) {
			o.rules_only = true;
			continue;
		} else if (strcmp(argv[i], "--cells") == 0) {
			o.cells = true;
			continue;
		} else if (strcmp(argv[i], "--seeds") == 0) {
			o.first = number(value, &end);
			o.last = *end == '-' ? number(end + 1, &end) : o.first;
		} else if (strcmp(argv[i], "--seed") == 0) {
			o.first = o.last = number(value, &end);
		} else if (strcmp(argv[i], "--events") == 0) {
			o.events = number(value, &end);
		} else if (strcmp(argv[i], "--shrink") == 0) {
			o.shrink = number(value, &end);
		} else if (strcmp(argv[i], "--run") == 0) {
			return run_file(value, o.trace || (i + 2 < argc && strcmp(argv[i + 2], "--trace") == 0), o.rules_only);
		} else if (strcmp(argv[i], "--nodes") == 0) {
			o.nodes = (uint32_t)number(value, &end);
			if (o.nodes < 1 || o.nodes > SIM_MAX_NODES)
				usage();
		} else {
			usage();
		}
		if (*end)
			usage();
		i++;
	}
	if (both && tests && strcmp(tests, "short") == 0)
		o.last = 60;
	s = malloc(sizeof(*s));
	if (!s)
		return 2;
	good = run(s, &o);
	if (both) {
		o.nodes = 3;
		o.last /= 3;
		good = good && run(s, &o);
	}
	free(s);
	if (o.cells)
		cells_print();
	return good ? 0 : 1;
}
