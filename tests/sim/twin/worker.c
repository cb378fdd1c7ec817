// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The twin of threads that sleep (daemon/base/worker.h): coroutines. One that begins, or goes on, is an event of the schedule; where it sleeps
 * the world goes on. What it does between is one moment.
 */
#include <errno.h>
#include <stdlib.h>
#include <ucontext.h>

#include "twin.h"

#define STACK	(256u << 10)

struct worker {
	struct worker *next;
	struct proc *p;
	struct ddr_worker *w;
	ucontext_t at;
	void *stack;
	uint64_t until_ms;
	bool ended;
};

static ucontext_t world;
static struct worker *running;
/* Stacks that nobody uses: the first word is the next one. They are not cleared, as a thread's is not. */
static void *stacks;

static void *stack_take(void)
{
	void *at = stacks;

	if (!at)
		return twin_own(STACK);
	stacks = *(void **)at;
	return at;
}

static void stack_give(void *at)
{
	*(void **)at = stacks;
	stacks = at;
}

static void body(void)
{
	running->w->run(running->w);
	running->ended = true;
	swapcontext(&running->at, &world);
}

/* Makes k ready to run body() on its own stack. (Apart, since getcontext() may return twice: a caller's variables must not live across it.) */
static void prepare(struct worker *k)
{
	if (getcontext(&k->at))
		abort();
	k->at.uc_stack.ss_sp = k->stack;
	k->at.uc_stack.ss_size = STACK;
	makecontext(&k->at, body, 0);
}

int ddr_worker_start(struct ddr_worker *w, qb_loop_t *loop)
{
	struct proc *p = me;
	struct worker *k, **last = &p->workers;

	(void)loop;
	if (twin_fails(CALL_THREAD))
		return -errno;
	k = twin_own(sizeof(*k));
	k->stack = stack_take();
	k->p = p;
	k->w = w;
	prepare(k);
	while (*last)
		last = &(*last)->next;
	*last = k;
	twin_load_begins(p, w);
	return 0;
}

static void destroy(struct worker *k)
{
	stack_give(k->stack);
	free(k);
}

static bool ready(const struct worker *k)
{
	return k->ended || k->until_ms <= twin_ms(k->p);
}

unsigned int twin_workers_ready(const struct proc *p)
{
	unsigned int n = 0;

	for (const struct worker *k = p->workers; k; k = k->next)
		n += ready(k);
	return n;
}

uint64_t twin_worker_kind(const struct proc *p, unsigned int which)
{
	const struct worker *k = p->workers;

	while (!ready(k) || which--)
		k = k->next;
	return 1 + k->ended;
}

void twin_worker_run(struct proc *p, unsigned int which)
{
	struct worker **at = &p->workers, *k;
	struct ddr_worker *w;

	while (!ready(*at) || which--)
		at = &(*at)->next;
	k = *at;
	if (!k->ended) {
		running = k;
		swapcontext(&world, &k->at);
		running = NULL;
		return;
	}
	*at = k->next;
	w = k->w;
	destroy(k);
	w->done(w);
}

void twin_workers_end(struct proc *p)
{
	running = NULL;		/* the run may have ended within one */
	while (p->workers) {
		struct worker *k = p->workers;

		p->workers = k->next;
		destroy(k);
	}
}

/* What sleeps is not waited for. */
bool ddr_worker_end(struct ddr_worker *w, unsigned int ms)
{
	struct worker **at = &me->workers, *k;

	(void)ms;
	while (*at && (*at)->w != w)
		at = &(*at)->next;
	k = *at;
	if (!k || !ready(k))
		return false;
	if (!k->ended) {
		running = k;
		swapcontext(&world, &k->at);
		running = NULL;
	}
	if (!k->ended)
		return false;
	*at = k->next;
	destroy(k);
	w->done(w);
	return true;
}

const struct ddr_worker *twin_thread(void)
{
	return running ? running->w : NULL;
}

bool twin_in_thread(void)
{
	return running != NULL;
}

void twin_sleep(uint64_t until_ms)
{
	running->until_ms = until_ms;
	swapcontext(&running->at, &world);
}
