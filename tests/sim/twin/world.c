// SPDX-License-Identifier: GPL-2.0-or-later
/* What befalls a real daemon in the simulator beside crashes (world.c of ddrsim has when): it is stopped, a call fails, its kernel reports a device. */
#include <errno.h>
#include <string.h>

#include "lib/error.h"
#include "twin.h"

#define UNHEARD_MS	5000u	/* rule L8 */

/* A device that cannot be opened for a reason of its own counts as missing; no other call that fails is evidence against a member. */
static bool costs(uint32_t what, int error)
{
	return what == CALL_OPEN && !ddr_own_failure(error);
}

bool twin_fails(enum world_call what)
{
	if (!me || !(me->fails >> what & 1))
		return false;
	me->fails &= ~(1u << what);
	errno = me->error[what];
	me->was_refused |= costs(what, errno);
	return true;
}

bool twin_stood_still(const struct proc *p)
{
	return p->cpg_fd && p->s->now - p->ran_ms >= UNHEARD_MS;
}

bool twin_stood_alone(const struct proc *p)
{
	const struct ddr_array *a = p->d && !p->d->transport->cluster ? twin_array(p) : NULL;

	return a && (a->state == DDR_ARRAY_RUNNING || a->state == DDR_ARRAY_LOADING) && p->s->now - p->ran_ms >= UNHEARD_MS;
}

void twin_serves(struct proc *p, const char *what)
{
	if (p->unheard)
		sim_violation(p->s, "rule L8: the daemon of node %u stood still, and %s before a pulse of its own came back", p->n->id, what);
	if (p->s->rare.taken == p->n->id && p->n->k.killed)
		return;			/* nothing goes on there any more; what it writes to members is looked at as well (disk.c) */
	if (p->s->rare.taken == p->n->id)
		sim_violation(p->s, "rule I3: the daemon of node %u %s, though another machine has its array by now", p->n->id, what);
	if (p->unlooked)
		sim_violation(p->s, "rule I3: the daemon of node %u stood still, and %s before it has looked whether another machine has the array", p->n->id, what);
}

bool node_held_for_good(const struct sim *s, const struct node *n)
{
	const struct proc *p = twin_of(s, n);
	const struct ddr_array *a = p->alive ? twin_array(p) : NULL;
	const struct ddr_super *sb = n->sm ? ddr_sm_super(n->sm) : NULL;

	if (!s->lossy || !a || !sb || a->broken || !a->look.since_ms)
		return false;
	for (uint32_t m = 0; m < sb->members; m++)
		if ((sb->member[m].state == DDR_MEMBER_IN_SYNC || sb->member[m].state == DDR_MEMBER_REBUILDING) && !disk_gone(s, n, &s->disk[m]))
			return false;
	return true;
}

bool node_stands_still(const struct sim *s, const struct node *n)
{
	const struct proc *p = twin_of(s, n);

	return p->alive && p->d->still.held;
}

bool node_holds_back(const struct sim *s, const struct node *n, const struct io *io)
{
	const struct proc *p = twin_of(s, n);

	return p->alive && (p->unheard || twin_stood_still(p)) && !io->orphan && !twin_request_writes(s, n, io, true);
}

static void goes_on(struct proc *p)
{
	me = p;
	twin_requests_go_on(p);
	me = NULL;
}

bool node_stops(struct sim *s, struct node *n, bool stop)
{
	if (!twin_of(s, n)->alive || n->stopped == stop)
		return false;
	if (stop)
		twin_requests_stop(twin_of(s, n));
	else
		goes_on(twin_of(s, n));
	n->stopped = stop;
	sim_trace(s, "node %u: daemon %s", n->id, stop ? "is stopped" : "goes on");
	return true;
}

bool node_call_fails(struct sim *s, struct node *n, uint32_t what, int error)
{
	struct proc *p = twin_of(s, n);

	if (what >= WORLD_CALLS) {	/* all of it ends */
		p->fails = 0;
		if (p->alive)
			p->d->conf.fence_method = DDR_FENCE_BY_POWER;	/* as for the next one (node.c, configure()) */
	}
	if (!p->alive || what >= WORLD_CALLS || (costs(what, error) && !s->faults_left && !s->lossy))
		return false;
	s->faults_left -= costs(what, error) && !s->lossy;
	p->fails |= 1u << what;
	p->error[what] = error;
	sim_trace(s, "node %u: the next call of kind %u fails: %s", n->id, what, strerror(error));
	return true;
}

bool node_hears(struct sim *s, struct node *n, uint32_t what, uint32_t member)
{
	struct proc *p = twin_of(s, n);
	struct file *f = p->alive && p->uevent_fd ? twin_file(p->uevent_fd) : NULL;

	if (!f || f->count == TWIN_NEWS)
		return false;
	f->news[f->count].what = (uint8_t)what;
	f->news[f->count++].member = (uint8_t)member;
	return true;
}

/* A real daemon gives its machine the clock itself (daemon/array/drive_step.c). */
void node_wakes(struct sim *s, struct node *n)
{
	(void)s;
	(void)n;
}
