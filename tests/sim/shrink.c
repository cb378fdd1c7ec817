// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A seed fails: finds the shortest schedule that still breaks the same rule. Removes acts in ever smaller pieces as long as the rest
 * fails in the same way (ddmin: A. Zeller, R. Hildebrandt, Simplifying and Isolating Failure-Inducing Input, 2002). Two steps of its
 * own: everything that happens between two outside acts (messages, ends of I/O) becomes one act that completes all of it, or all but
 * that of some nodes or of one kind; and draws within an act are removed.
 *
 * A trial run ends where it breaks the rule, so everything after that is removed at once.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sim.h"

struct shrink {
	struct sim *s;
	struct sim_run run;
	struct tape best, trial;
	struct verdict want;
	uint64_t runs, ran;		/* runs, and acts in them */
	double until;
	bool blind;
};

/* Seconds of CPU time of this process: on a busy machine it gets as far as on an idle one. */
static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static bool late(const struct shrink *z)
{
	return now() >= z->until;
}

/* Runs the trial; if it fails in the right way, it becomes the best schedule. */
static bool fails(struct shrink *z)
{
	struct verdict v = { 0 };
	struct tape t;

	if (late(z))
		return false;
	z->run.tape = &z->trial;
	z->run.verdict = &v;
	z->trial.replay = true;
	z->trial.blind = z->blind;
	z->trial.inside = false;
	sim_run_seed(z->s, &z->run);
	z->runs++;
	z->ran += z->trial.at;
	if (!v.broken || strcmp(v.rule, z->want.rule) != 0)
		return false;
	z->trial.n = z->trial.at < z->trial.n ? z->trial.at + 1 : z->trial.n;
	t = z->best;
	z->best = z->trial;
	z->trial = t;
	z->trial.pool = z->best.pool;	/* shared by both */
	return true;
}

/* The trial becomes the best schedule without the acts from..to, with @one in their place if it is not NULL. */
static void without(struct shrink *z, size_t from, size_t to, const struct act *one)
{
	const struct tape *b = &z->best;

	memcpy(z->trial.act, b->act, from * sizeof(*b->act));
	z->trial.n = from;
	if (one)
		z->trial.act[z->trial.n++] = *one;
	memcpy(z->trial.act + z->trial.n, b->act + to, (b->n - to) * sizeof(*b->act));
	z->trial.n += b->n - to;
}

/* ---- removing ------------------------------------------------------------------ */

/* In pieces from half of them down to @least acts. */
static bool chunks(struct shrink *z, size_t least)
{
	bool any = false;

	for (size_t size = (z->best.n + 1) / 2; size >= least && !late(z); size = size > 1 ? (size + 1) / 2 : 0)
		for (size_t at = 0; at < z->best.n && !late(z);) {
			size_t end = at + size < z->best.n ? at + size : z->best.n;

			without(z, at, end, NULL);
			if (fails(z))
				any = true;
			else
				at = end;
		}
	return any;
}

#define ANY	UINT32_MAX

/* All acts of this kind, of this node. */
static bool without_all(struct shrink *z, uint32_t verb, uint32_t sub, uint32_t node)
{
	z->trial.n = 0;
	for (size_t i = 0; i < z->best.n; i++) {
		const struct act *a = &z->best.act[i];

		if ((verb != ANY && a->verb != verb) || (sub != ANY && a->sub != sub) || (node != ANY && a->node != node))
			z->trial.act[z->trial.n++] = *a;
	}
	return z->trial.n < z->best.n && fails(z);
}

/* A whole node; all acts of a kind, or of a kind of one node; and each kind of fault, of I/O, of request by itself. */
static bool kinds(struct shrink *z)
{
	bool any = false;

	for (uint32_t node = 1; node <= z->run.nodes; node++)
		any |= without_all(z, ANY, ANY, node);
	for (uint32_t verb = 0; verb <= ACT_SETTLE; verb++) {
		bool gone = without_all(z, verb, ANY, ANY);

		any |= gone;
		for (uint32_t node = 1; node <= z->run.nodes && !gone; node++)
			any |= without_all(z, verb, ANY, node);
		for (uint32_t sub = 0; sub < 64 && !gone && (verb == ACT_DISK || verb == ACT_OPERATOR || verb == ACT_CALL || verb == ACT_UEVENT || verb == ACT_RARE || verb == ACT_IO || verb == ACT_DONE); sub++)
			any |= without_all(z, verb, sub, ANY);
	}
	return any;
}

/* ---- draws --------------------------------------------------------------------- */

static bool draws(struct shrink *z)
{
	bool any = false;

	without(z, 0, 0, NULL);
	for (size_t i = 0; i < z->trial.n; i++) {
		any |= z->trial.act[i].n_draws != 0;
		z->trial.act[i].n_draws = 0;
	}
	if (!any || fails(z))
		return any;
	any = false;
	for (size_t i = 0; i < z->best.n && !late(z); i++)
		for (uint32_t n = z->best.act[i].n_draws; n; n /= 2) {
			without(z, 0, 0, NULL);
			z->trial.act[i].n_draws = n == z->best.act[i].n_draws ? 0 : z->best.act[i].n_draws - n;
			if (!fails(z))
				continue;
			any = true;
			break;
		}
	return any;
}

/* ---- what happens automatically ---------------------------------------------------- */

/* Completes all of it, or all except that of some nodes, or of one kind. Up to four nodes: any of them; more: one. */
static bool settle(struct shrink *z, size_t from, size_t to)
{
	static const uint64_t kind[] = { 0, SETTLE_MESSAGES, SETTLE_RECORDS, SETTLE_IO, SETTLE_OPS };
	struct act one = { .verb = ACT_SETTLE };
	uint32_t sets = z->run.nodes > 4 ? z->run.nodes + 1 : (1u << z->run.nodes) - 1;

	for (uint32_t i = 0; i < 5; i++)
		for (uint32_t set = 0; set < sets && (set == 0 || i == 0); set++) {
			one.arg[0] = z->run.nodes > 4 ? (set ? 1ull << set : 0) : (uint64_t)set << 1;
			one.arg[1] = kind[i];
			without(z, from, to, &one);
			if (fails(z))
				return true;
		}
	return false;
}

/* Each sequence of such acts; if one act cannot replace all of it, its first part. */
static bool stretches(struct shrink *z)
{
	bool any = false;

	for (size_t at = 0; at < z->best.n && !late(z); at++) {
		size_t end = at;

		while (end < z->best.n && act_goes_on(&z->best.act[end]))
			end++;
		for (size_t n = end - at; n > 1; n /= 2)
			if (settle(z, at, at + n)) {
				any = true;
				break;
			}
	}
	return any;
}

/* First step: of all but the last @keep acts, keeps only the outside ones, and completes everything after each. */
static bool skeleton(struct shrink *z, size_t keep)
{
	const struct act one = { .verb = ACT_SETTLE };
	struct tape *t = &z->trial;

	t->n = 0;
	for (size_t i = 0; i < z->best.n; i++) {
		const struct act *a = &z->best.act[i];

		if (i + keep >= z->best.n) {
			t->act[t->n++] = *a;
			continue;
		}
		if (act_goes_on(a))
			continue;
		t->act[t->n++] = *a;
		t->act[t->n++] = one;
	}
	return fails(z);
}

static void begin(struct shrink *z)
{
	size_t keep = 0;

	while (keep < z->best.n && !late(z) && !skeleton(z, keep))
		keep = keep ? 2 * keep : 16;
}

/* ---- time ----------------------------------------------------------------------- */

/* Two successive acts that only pass time become one. */
static bool ticks(struct shrink *z)
{
	bool any = false;

	for (size_t i = 0, next; i < z->best.n && !late(z); i++) {
		if (z->best.act[i].verb != ACT_TICK)
			continue;
		for (next = i + 1; next < z->best.n && z->best.act[next].verb != ACT_TICK; next++)
			;
		if (next == z->best.n)
			break;
		without(z, i, i + 1, NULL);
		z->trial.act[next - 1].arg[0] += z->best.act[i].arg[0];
		if (!fails(z))
			continue;
		any = true;
		i--;
	}
	return any;
}

/* ---- numbers -------------------------------------------------------------------- */

/* Operations are numbered from 1, and are of one block where that suffices. */
static void small(struct shrink *z)
{
	uint64_t id = 0;

	for (size_t i = 0; i < z->best.n; i++) {
		struct act *a = &z->best.act[i];
		uint64_t old = a->arg[2];

		if (a->verb != ACT_IO)
			continue;
		id++;
		for (size_t j = i; j < z->best.n; j++) {
			struct act *o = &z->best.act[j];

			if (o->verb == ACT_OP && o->arg[0] == old)
				o->arg[0] = id | 1ull << 32;	/* only once */
		}
		a->arg[2] = id;
	}
	for (size_t i = 0; i < z->best.n; i++)
		if (z->best.act[i].verb == ACT_OP)
			z->best.act[i].arg[0] &= 0xffffffff;
	for (size_t i = 0; i < z->best.n && !late(z); i++)
		if (z->best.act[i].verb == ACT_IO && z->best.act[i].arg[1] > 1) {
			without(z, 0, 0, NULL);
			z->trial.act[i].arg[1] = 1;
			fails(z);
		}
}

/* ---- all of it -------------------------------------------------------------------- */

static void minimize(struct shrink *z)
{
	bool again = true;

	begin(z);
	chunks(z, z->best.n / 64 + 1);	/* coarsely: long runs are slow */
	while (again && !late(z)) {
		again = kinds(z);
		again |= chunks(z, 1);
		again |= draws(z);
		again |= stretches(z);
		again |= ticks(z);
	}
	small(z);
}

/* Checks of the disks cost most of the time. If one of them now finds something else first, they are needed. */
static void all_of_it(struct shrink *z)
{
	z->blind = z->want.inside;
	minimize(z);
	without(z, 0, 0, NULL);
	z->blind = false;
	if (z->want.inside && !fails(z))
		minimize(z);
}

/* The run of the seed, as acts. Only the seed draws: the acts after the last event are those of "calm". */
static bool record(struct shrink *z)
{
	z->run.tape = &z->best;
	z->run.verdict = &z->want;
	return !sim_run_seed(z->s, &z->run) && z->best.n;
}

static void report(const struct shrink *z, size_t acts, double seconds, FILE *to)
{
	fprintf(to, "# Breaks: %s\n", z->want.text);
	fprintf(to, "# Seed %" PRIu64 " with %u nodes broke that at event %" PRIu64 ", after %zu acts. Shrunk to %zu in %" PRIu64 " runs of %" PRIu64
		" acts in all, %.1f s of CPU%s.\n", z->run.seed, z->run.nodes, z->want.event, acts, z->best.n, z->runs, z->ran, seconds,
		late(z) ? " (more time might do more)" : "");
	tape_print(to, &z->best, z->run.seed, z->run.nodes);
	fflush(to);
}

void shrink_seed(uint64_t seed, uint64_t events, uint32_t nodes, bool rules_only, uint64_t seconds, FILE *to)
{
	struct shrink z = { .run = { .seed = seed, .events = events, .nodes = nodes, .rules_only = rules_only } };
	double from = now();
	size_t acts;

	z.s = malloc(sizeof(*z.s));
	z.until = from + (double)seconds;
	if (!z.s || !record(&z)) {
		fprintf(to, "# seed %" PRIu64 " does not fail\n", seed);
		free(z.s);
		return;
	}
	acts = z.best.n;
	z.trial.act = malloc((2 * acts + 16) * sizeof(*z.trial.act));
	z.best.act = realloc(z.best.act, (2 * acts + 16) * sizeof(*z.best.act));
	if (!z.trial.act || !z.best.act)
		abort();
	z.trial.pool = z.best.pool;
	without(&z, 0, 0, NULL);
	if (!fails(&z))
		fprintf(to, "# The recorded acts alone do not break the rule: %s\n", z.want.text);
	else
		all_of_it(&z);
	report(&z, acts, now() - from, to);
	free(z.trial.act);
	free(z.best.act);
	free(z.best.pool);
	free(z.s);
}
