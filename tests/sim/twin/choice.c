// SPDX-License-Identifier: GPL-2.0-or-later
/* What happens to a real daemon next: of all that may, the seed or a tape chooses one. */
#include "twin.h"

static uint64_t (*const kind[TWIN_WHATS])(const struct proc *p, unsigned int which) = {
	[TWIN_LOOP] = twin_loop_kind, [TWIN_THREADS] = twin_worker_kind, [TWIN_REQUESTS] = twin_request_kind,
};

/* How many of each. False: none. */
static bool possible(const struct proc *p, unsigned int n[TWIN_WHATS])
{
	bool runs = p->alive && !p->n->stopped;

	n[TWIN_LOOP] = runs ? twin_loop_ready(p) : 0;
	n[TWIN_THREADS] = runs ? twin_workers_ready(p) : 0;
	n[TWIN_REQUESTS] = p->n ? twin_requests(p->n) : 0;
	return n[TWIN_LOOP] + n[TWIN_THREADS] + n[TWIN_REQUESTS];
}

static unsigned int draw(struct sim *s, const unsigned int n[TWIN_WHATS], unsigned int *which)
{
	unsigned int what = (unsigned int)sim_rand(s, (n[TWIN_LOOP] ? 2 : 0) + (n[TWIN_THREADS] ? 1 : 0) + (n[TWIN_REQUESTS] ? 1 : 0));	/* no draw may be repeated: a tape need not have it */

	what = n[TWIN_LOOP] && what < 2 ? TWIN_LOOP : n[TWIN_THREADS] && what == (n[TWIN_LOOP] ? 2u : 0) ? TWIN_THREADS : TWIN_REQUESTS;
	*which = (unsigned int)sim_rand(s, n[what]);
	return what;
}

/* One thing of those that may happen now; false: there is none. */
bool node_record(struct sim *s, struct node *n)
{
	struct proc *p = twin_of(s, n);
	unsigned int k[TWIN_WHATS], which, what;

	if (!possible(p, k))
		return false;
	what = draw(s, k, &which);
	twin_happens(p, what, which);
	return true;
}

/*
 * The same for a tape: what is drawn is named by what it is, and not by its place in a list, which depends on all that happened before.
 * So an act stays the same when others are removed. Of several that are alike, the number is part of the name.
 */
struct act twin_choice(struct sim *s, struct node *n)
{
	struct act a = act_of(ACT_RECORD, n);
	const struct proc *p = twin_of(s, n);
	unsigned int k[TWIN_WHATS], which, what;

	if (!possible(p, k))
		return a;
	what = draw(s, k, &which);
	a.arg[0] = what;
	a.arg[1] = kind[what](p, which);
	for (unsigned int i = 0; i < which; i++)
		a.arg[2] += kind[what](p, i) == a.arg[1];
	return a;
}

bool node_does(struct sim *s, struct node *n, const struct act *a)
{
	struct proc *p = twin_of(s, n);
	unsigned int k[TWIN_WHATS], found = UINT32_MAX, what = a->arg[0] % TWIN_WHATS;
	uint64_t left = a->arg[2] + 1;

	if (!what || !possible(p, k))
		return false;
	for (unsigned int i = 0; i < k[what] && left; i++)
		if (kind[what](p, i) == a->arg[1]) {
			found = i;
			left--;
		}
	if (found == UINT32_MAX)
		return false;
	twin_happens(p, what, found);
	return true;
}
