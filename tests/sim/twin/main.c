// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ddrsim --daemon: seeds with real daemons (twin.h).
 *
 *	ddrsim --daemon [--seeds A-B | --seed N] [--events N] [--nodes N] [--trace] [--quiet] [--rules-only] [--shrink SECONDS]
 *	ddrsim --daemon --finding NAME ...	looks for a known defect (finding.c)
 *	ddrsim --daemon [--rules-only] --run FILE [--trace]	a scenario that begins with "> sim" and says daemons=1
 *
 * Without arguments: a few seconds of seeds on one node, and on three. A seed that fails is shrunk as those of ddrsim are. Exit code: 0 no rule was broken,
 * 1 one was (the seed is printed), 2 usage.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim.h"

struct options { uint64_t first, last, events, shrink; uint32_t nodes; bool trace, quiet, rules_only; enum finding finding; };

static void usage(void)
{
	fprintf(stderr, "usage: ddrsim --daemon [--seeds A-B | --seed N] [--events N] [--nodes N] [--trace] [--quiet] [--rules-only] [--shrink SECONDS] [--finding NAME] | [--rules-only] --run FILE [--trace]\n");
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

static void tell(const struct options *o, const uint64_t *stats)
{
	printf("daemons, seeds %llu-%llu of %llu events, %u nodes: no rule was broken (writes %llu, flushes %llu, power cuts %llu, daemons killed %llu, faults %llu, "
	       "job ranges %llu, marks cleared %llu, errors %llu, suspect %llu, kernels that stopped for want of a daemon %llu", (unsigned long long)o->first, (unsigned long long)o->last,
	       (unsigned long long)o->events, o->nodes, (unsigned long long)stats[STAT_WRITES], (unsigned long long)stats[STAT_FLUSHES],
	       (unsigned long long)stats[STAT_CRASHES], (unsigned long long)stats[STAT_KILLS], (unsigned long long)stats[STAT_FAULTS],
	       (unsigned long long)stats[STAT_JOBS], (unsigned long long)stats[STAT_CLEARS], (unsigned long long)stats[STAT_ERRORS],
	       (unsigned long long)stats[STAT_SUSPECT], (unsigned long long)stats[STAT_SILENCES]);
	if (o->nodes > 1)
		printf("; nodes died %llu, networks split or healed %llu, fenced %llu, slots recovered %llu, joined %llu, evicted %llu, left %llu, messages %llu, "
		       "debtors declared lost (as each node heard it) %llu",
		       (unsigned long long)stats[STAT_DEATHS], (unsigned long long)stats[STAT_SPLITS], (unsigned long long)stats[STAT_FENCED],
		       (unsigned long long)stats[STAT_RECOVERED], (unsigned long long)stats[STAT_JOINED], (unsigned long long)stats[STAT_EVICTED],
		       (unsigned long long)stats[STAT_LEFT], (unsigned long long)stats[STAT_MESSAGES], (unsigned long long)stats[STAT_OWED]);
	printf(")\n");
}

/* Returns whether no rule was broken. */
static bool seeds(struct sim *s, const struct options *o)
{
	uint64_t stats[STATS] = { 0 };

	for (uint64_t seed = o->first; seed <= o->last; seed++) {
		if (!sim_run_seed(s, &(struct sim_run){ .seed = seed, .events = o->events, .nodes = o->nodes, .trace = o->trace, .rules_only = o->rules_only,
							  .finding = o->finding })) {
			if (!o->finding && o->shrink && !o->trace && !o->quiet)
				shrink_seed(seed, o->events, o->nodes, o->rules_only, o->shrink, stdout);
			return false;
		}
		for (int i = 0; i < STATS; i++)
			stats[i] += s->stats[i];
	}
	if (!o->quiet)
		tell(o, stats);
	return true;
}

static void parse(int argc, char **argv, struct options *o)
{
	char *end;

	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : "";

		if (strcmp(argv[i], "--trace") == 0) {
			o->trace = true;
		} else if (strcmp(argv[i], "--quiet") == 0) {
			o->quiet = true;
		} else if (strcmp(argv[i], "--rules-only") == 0) {
			o->rules_only = true;
		} else if (strcmp(argv[i], "--finding") == 0) {
			if (!finding_named(value, &o->finding))
				usage();
			i++;
		} else {
			uint64_t v = number(value, &end);

			if (strcmp(argv[i], "--seed") == 0 || strcmp(argv[i], "--seeds") == 0) {
				o->first = v;
				o->last = *end == '-' ? number(end + 1, &end) : v;
			} else if (strcmp(argv[i], "--events") == 0) {
				o->events = v;
			} else if (strcmp(argv[i], "--shrink") == 0) {
				o->shrink = v;
			} else if (strcmp(argv[i], "--nodes") == 0 && v >= 1 && v <= SIM_MAX_NODES) {
				o->nodes = (uint32_t)v;
			} else {
				usage();
			}
			if (*end)
				usage();
			i++;
		}
	}
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

int main(int argc, char **argv)
{
	struct options o = { .first = 1, .last = 20, .events = 3000, .nodes = 1, .shrink = 60 };
	struct sim *s = malloc(sizeof(*s));
	int run = argc > 1 && strcmp(argv[1], "--rules-only") == 0 ? 2 : 1;
	bool good;

	if (argc > run + 1 && strcmp(argv[run], "--run") == 0) {
		free(s);
		return run_file(argv[run + 1], argc > run + 2, run == 2);
	}
	if (!s)
		return 2;
	parse(argc, argv, &o);
	good = seeds(s, &o);
	if (argc == 1) {
		o.nodes = 3;
		good = good && seeds(s, &o);
	}
	free(s);
	return good ? 0 : 1;
}
