// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * When an array is looked at next (array.c's pulse). While anything goes on it is, every DDR_ARRAY_TICK_MS; at rest, when its kernel wants to
 * hear of this daemon, when members that hang are looked for, and for what waits for a moment. All of them share these moments, so that
 * the daemon wakes once for many arrays.
 *
 * Whatever changes what is looked at here says so by ddr_array_wake(): each step of the state machine does. Where that was forgotten, it is
 * seen at the next of those moments.
 *
 * Must never: let an array rest while its state machine wants to hear of the time (ddr_sm_next_tick()), or while a request is under way.
 */
#include "daemon/array/array.h"
#include "daemon/array/drive.h"

void ddr_array_wake(struct ddr_array *a)
{
	uint64_t now = ddr_now_ms();

	a->stirred = true;
	ddr_pulse_by(&a->pulse, now + DDR_ARRAY_TICK_MS);
	if (!a->asleep)
		return;
	a->asleep = false;
	ddr_pulse_by(&a->d->pulse, now + DDR_DAEMON_TICK_MS);	/* what has woken it may concern verify's schedule, or a client */
}

/* Nothing waits for the next tick, and no request is under way. */
static bool hands_rest(const struct ddr_array *a)
{
	for (unsigned int i = 0; i < DDR_ARRAY_RELOADS; i++)
		if (a->cluster.reload[i])
			return false;
	for (unsigned int i = 0; i < DDR_ARRAY_ANSWERS; i++)
		if (a->cluster.answer[i].used && !a->cluster.answer[i].external)
			return false;
	if (!ddr_metaio_idle(a->meta) || !ddr_jobs_idle(a->jobs) || a->check.wanted || a->check.out || a->replace.late || a->clean_late)
		return false;
	if (a->table || a->table_asked || a->table_unname || a->table_unshadow || a->grow.room_io || a->grow.io || a->grow.resize)
		return false;
	return !a->seek.dropped && !a->seek.replaced && !a->seek.locked && !a->seek.ready && !a->seek.finder && !a->members->n_old &&
	       !a->parting && !a->clean_asked && !a->cluster.leaving && !a->cluster.lost && !a->cluster.foreign;
}

/* Of members that are out: when it is looked for them, or whether their disks have gone. */
static uint64_t members_next(const struct ddr_array *a)
{
	uint64_t next = a->seek.wanted | ddr_drive_returning(a) ? a->seek.at_ms : DDR_PULSE_NEVER;

	for (unsigned int m = 0; a->back.watched >> m; m++)
		if (a->back.watched >> m & 1)
			next = ddr_pulse_first(next, a->back.look_ms[m]);
	return next;
}

uint64_t ddr_array_next(const struct ddr_array *a, uint64_t now_ms)
{
	uint64_t next = DDR_PULSE_NEVER;

	if (!a->chan || a->state == DDR_ARRAY_DOWN || a->state == DDR_ARRAY_CLOSING)
		return DDR_PULSE_NEVER;
	if (a->state != DDR_ARRAY_RUNNING || a->removed || !a->sm)
		return 0;
	next = ddr_pulse_first(a->ping_due_ms, members_next(a));
	if (a->broken)
		return a->d->transport->cluster ? next : 0;	/* it gave up, and stays so; without a cluster it is bound anew */
	if (!a->ready || !hands_rest(a) || !ddr_rate_rests(&a->rate))
		return 0;
	next = ddr_pulse_first(next, ddr_sm_next_tick(a->sm));
	if (a->quiet_until_ms)
		next = ddr_pulse_first(next, a->quiet_until_ms);
	return ddr_pulse_first(next, ddr_stall_next(&a->stall, now_ms, a->tune.io_timeout_ms));
}
