// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Steps of an array's state machine, and what happens when an output cannot be carried out. This is the lowest layer of drive_*.c:
 * the outputs are carried out by drive.c, through a->carry_out. See drive.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <qb/qblog.h>

#include "daemon/array/drive.h"
#include "daemon/array/events.h"
#include "daemon/base/waited.h"
#include "lib/cluster/slots.h"

/*
 * The kernel accepts everything that is written to it, so a queue that is flushed at half cannot overflow: the other half must hold
 * the outputs of one step and a ping. It fills up only if the kernel accepts nothing: see ddr_drive_break().
 */
_Static_assert(DDR_KCHAN_QUEUE > 2 * DDR_SM_MAX_OUT, "queue to the kernel");

/* ---- when an output fails -------------------------------------------------------- */

const char *ddr_drive_node_name(void *ctx, uint32_t node, char *buf, size_t size)
{
	const struct ddr_array *a = ctx;

	return a->d->transport->node_name(a->d, node, buf, size);
}

/* Logs why, and what to do; @why already contains both, except where slots are the reason. */
static void tell_give_up(struct ddr_array *a, const char *why)
{
	struct ddr_sm_status st;

	if (why == ddr_slots_none_free) {
		ddr_sm_get_status(a->sm, &st);
		ddr_slots_taken(ddr_sm_super(a->sm), &st, ddr_drive_node_name, a, a->error, sizeof(a->error));
		return;
	}
	snprintf(a->error, sizeof(a->error), "this node cannot serve the array: %s", why);
}

void ddr_drive_give_up(struct ddr_array *a, const struct ddr_output *o)
{
	struct ddr_rec kill = { .type = DDR_U_KILL, .member = DDR_NO_MEMBER };

	qb_log(LOG_CRIT, "array '%s': this node stops serving it, and its I/O on this node fails: %s", a->name, o->text);
	tell_give_up(a, o->text);
	ddr_kchan_put(a->chan, &kill);		/* always fits */
	a->cluster.gave_up = a->d->transport->cluster;
	ddr_event_array(a, o);
}

/* From here on nobody hears for this kernel that quorum is lost (rule 8): it waits until the next load has attached it. */
void ddr_drive_anew(struct ddr_array *a, const struct ddr_output *o)
{
	struct ddr_rec freeze = { .type = DDR_U_FREEZE, .flags = DDR_F_READS, .member = DDR_NO_MEMBER };

	if (a->broken)
		return;
	ddr_drive_to_kernel(a, &freeze);
	a->anew_generation = a->super.generation;
	a->anew = true;
	a->broken = "the array is being loaded again";
	qb_log(LOG_NOTICE, "array '%s': %s; its members are looked for again", a->name, o->text);
}

void ddr_drive_break(struct ddr_array *a, const char *why)
{
	struct ddr_output out = { .type = DDR_OUT_GIVE_UP, .event = DDR_EV_EVICTED };
	char text[DDR_ERROR_LEN];

	if (a->broken)
		return;
	a->broken = why;
	if (a->d->transport->cluster) {
		snprintf(text, sizeof(text), "%s. Stop the array on this node and start it again; if this happens again, report it as a bug in "
			 "ddraid, with the log of ddraidd", why);
		out.text = text;
		ddr_drive_give_up(a, &out);
		return;
	}
	snprintf(text, sizeof(text), "%s; the array is being attached again, and new writes wait until then; if this happens again, report it as a "
		 "bug in ddraid, with the log of ddraidd", why);
	ddr_event_plain(a, LOG_ERR, "broken", text);
}

void ddr_drive_unable(void *ctx, int error)
{
	struct ddr_array *a = ctx;

	qb_log(LOG_CRIT, "array '%s': requests to members could not be made for %u s: %s", a->name, (unsigned int)(a->tune.io_timeout_ms / 1000),
	       strerror(-error));
	ddr_drive_break(a, "requests to members cannot be made on this node, for lack of memory or the like (ddraidd's log has the error)");
}

void ddr_drive_to_kernel(struct ddr_array *a, const struct ddr_rec *rec)
{
	if (!ddr_kchan_put(a->chan, rec))
		ddr_drive_break(a, "the queue to the kernel is full");
}

/* ---- the timer ------------------------------------------------------------------ */

void ddr_drive_arm(struct ddr_array *a, uint64_t ms)
{
	if (qb_loop_timer_add(a->d->loop, QB_LOOP_HIGH, ms * QB_TIME_NS_IN_MSEC, a, a->on_tick, &a->tick)) {
		a->tick = 0;
		qb_log(LOG_CRIT, "array '%s': out of memory for its timer: this daemon no longer looks after it, and new writes stop after a while. Free "
		       "memory, then: systemctl restart ddraidd; the array stays up", a->name);
	}
}

void ddr_drive_wake(struct ddr_array *a)
{
	uint64_t now;

	if (!a->rests)
		return;
	now = ddr_now_ms();
	a->rests = false;
	if (now < a->tick_ms + a->rest_ms + DDR_STOOD_STILL_MS) {	/* else the next tick sees that this process stood still */
		a->tick_ms = now;
		a->waited_ms = ddr_waited_ms();
		a->rest_ms = 0;
	}
	if (a->tick)
		qb_loop_timer_del(a->d->loop, a->tick);
	ddr_drive_arm(a, DDR_TICK_MS);
	ddr_daemon_wake(a->d);
}

/* ---- steps ---------------------------------------------------------------------- */

uint32_t ddr_drive_landing(const struct ddr_array *a)
{
	uint32_t members = ddr_metaio_writes(a->meta) | ddr_jobs_writes(a->jobs) | ddr_members_late(a->d->ended, a->uuid);

	for (unsigned int m = 0; m < DDR_MAX_MEMBERS; m++)
		members |= a->grow.work[m] ? 1u << m : 0;
	return members;
}

const char *ddr_drive_members_text(uint32_t members, char *buf)
{
	size_t at = 0;

	buf[0] = '\0';
	for (unsigned int m = 0; m < DDR_MAX_MEMBERS; m++)
		if (members >> m & 1)
			at += (size_t)snprintf(buf + at, DDR_MEMBERS_TEXT - at, "%s%u", at ? ", " : "", m);
	return buf;
}

/*
 * All arrays use the same memory for the outputs of a step. A step that began while the outputs of another one are being carried out
 * would overwrite the rest of these: a mark that is never written, an answer that the kernel waits for, or another array's write in its
 * place. So the process ends before that; kernels wait for its successor, which starts afresh.
 */
static void begin_step(struct ddr_array *a)
{
	if (a->d->steps) {
		qb_log(LOG_CRIT, "a step of array '%s' began within one of array '%s': a bug in ddraid. ddraidd ends, so that its successor starts afresh",
		       a->name, a->d->steps->name);
		abort();
	}
	a->d->steps = a;
}

static void step_once(struct ddr_array *a, const struct ddr_input *in)
{
	static const struct ddr_input none = { .type = DDR_IN_NONE };

	do {
		begin_step(a);
		a->outs.n = 0;
		a->outs.more = false;
		if (a->cluster.leaving)
			ddr_sm_landing(a->sm, ddr_drive_landing(a) != 0);
		ddr_sm_left_over(a->sm, a->cluster.left_over || a->d->ident.doubled || ddr_members_late(a->d->ended, a->uuid));
		ddr_sm_step(a->sm, in, &a->outs);
		a->carry_out(a);
		if (a->outs.lost)
			ddr_drive_break(a, "a step of the state machine produced more outputs than fit");
		if (ddr_kchan_room(a->chan) < DDR_KCHAN_QUEUE / 2)
			ddr_kchan_flush(a->chan);
		a->d->steps = NULL;
		in = &none;
	} while (a->outs.more && !a->broken);
}

struct ddr_input *ddr_drive_input(struct ddr_array *a, enum ddr_in_type type)
{
	memset(&a->in, 0, sizeof(a->in));
	a->in.type = type;
	return &a->in;
}

/* The answer of a kernel that has no such array any more: nothing is granted, written or in flight. NULL: no answer. */
static struct ddr_input *answer_of_gone(struct ddr_array *a, const struct ddr_rec *asked)
{
	static const uint32_t answers[][2] = {
		{ DDR_U_GRANT, DDR_K_CLOSED }, { DDR_U_REAP, DDR_K_REAPED }, { DDR_U_DRAIN, DDR_K_DRAINED },
		{ DDR_U_MEMBER, DDR_K_APPLIED },
	};
	struct ddr_input *in;

	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
		if (answers[i][0] != asked->type)
			continue;
		in = ddr_drive_input(a, DDR_IN_K_REC);
		in->rec.type = answers[i][1];
		in->rec.seq = asked->seq;
		in->rec.member = asked->member;
		if (asked->type == DDR_U_GRANT || asked->type == DDR_U_DRAIN) {
			in->rec.start = asked->start;
			in->rec.count = asked->count;
		}
		return in;
	}
	return NULL;
}

/* A node that stopped serving the array leaves the group at once; its instance stays for `status`. */
static void leave_group(struct ddr_array *a)
{
	struct ddr_transport *t = a->transport;

	if (!a->cluster.gave_up || !t)
		return;
	a->transport = NULL;
	t->ops->leave(t);
}

void ddr_drive_step(struct ddr_array *a, const struct ddr_input *in)
{
	struct ddr_rec asked;

	if (!a->sm || a->broken)
		return;
	if (a->rests && in->type != DDR_IN_TICK) {	/* times are counted from the clock, which is old by now */
		struct ddr_input clock = { .type = DDR_IN_TICK, .now_ms = ddr_now_ms(), .value = (uint64_t)time(NULL) };

		ddr_drive_wake(a);
		step_once(a, &clock);
	}
	if (!a->broken)
		step_once(a, in);
	while (a->parting && !a->broken && ddr_kchan_take(a->chan, &asked)) {
		in = answer_of_gone(a, &asked);
		if (in)
			step_once(a, in);
	}
	ddr_kchan_flush(a->chan);
	ddr_metaio_kick(a->meta);
	leave_group(a);
}
