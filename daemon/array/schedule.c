// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The schedule of verify: requests what lib/schedule.c decides, as the operator would. See array.h.
 *
 * Must never: pause or stop a verify that the operator started; start one on an array whose superblocks are written by another node.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <time.h>

#include "daemon/array/array.h"
#include "daemon/array/events.h"
#include "daemon/base/zone.h"
#include "lib/schedule.h"

#define LOOK_MS		1000u
#define ASKED_MS	10000u	/* a request without effect is repeated after this time */

/* Without hours no clock is needed; until the hour is known, it counts as outside of the hours. */
static bool is_closed(const struct ddr_array *a, uint64_t now, uint64_t now_ms)
{
	unsigned int hour;

	if (a->tune.verify_hours == DDR_HOURS(0, 24))
		return false;
	return !ddr_zone_hour(a->d, now, now_ms, &hour) || !ddr_sched_open(a->tune.verify_hours, hour);
}

/* An array that is leaving, or does not take part, would refuse a request, and a refusal would end the leaving. */
static bool is_served(const struct ddr_array *a)
{
	struct ddr_sm_status st;

	if (!a->sm || !a->ready || a->broken || a->parting || !ddr_sm_super(a->sm)->parity)
		return false;
	if (a->cluster.leaving || a->cluster.lost || a->cluster.gave_up)
		return false;
	ddr_sm_get_status(a->sm, &st);
	return st.ready && st.quorate && !st.failed && !st.gave_up;
}

static uint64_t every_s(const struct ddr_array *a)
{
	return (a->tune.verify_every_ms + 999) / 1000;
}

uint64_t ddr_schedule_due(const struct ddr_array *a)
{
	const struct ddr_super *sb = ddr_sm_super(a->sm);

	return sb->parity ? ddr_sched_due(sb->created, sb->verify.begun, every_s(a), (uint64_t)time(NULL)) : DDR_SCHED_NEVER;
}

const char *ddr_schedule_waits(const struct ddr_array *a)
{
	const struct ddr_verify *v = &ddr_sm_super(a->sm)->verify;
	struct ddr_sm_status st;

	ddr_sm_get_status(a->sm, &st);
	if (v->state == DDR_VERIFY_PAUSED)
		return "it was paused; ddraid verify start resumes it";
	if (v->state == DDR_VERIFY_NONE && ddr_schedule_due(a) > (uint64_t)time(NULL))
		return NULL;
	if (st.degraded || st.rebuilding != DDR_NO_MEMBER)
		return "a member is missing or being rebuilt";
	if (st.resync_regions)
		return "regions are being resynced";
	if (a->sched.closed && (v->state == DDR_VERIFY_NONE || (v->flags & DDR_VERIFY_F_SCHEDULED)))
		return "the current hour is outside verify_hours";
	return v->state == DDR_VERIFY_NONE ? "another array is being verified, or the node that runs this verify has not started it yet" : NULL;
}

/* A date that was written with a wrong clock makes an array count as due for ever; it is not reported as late then. */
static void too_late(struct ddr_array *a, const struct ddr_sched_array *s, uint64_t now)
{
	uint64_t every = every_s(a);
	bool late = s->ours && s->due != DDR_SCHED_NEVER && s->due != every && now > s->due && now - s->due > every;
	char text[224];

	if (late && !a->sched.told) {
		snprintf(text, sizeof(text), "a verify has been due for %" PRIu64 " hours (verify_every is %" PRIu64 " hours); ddraid verify %s "
					     "status shows what it waits for",
			 (now - s->due) / 3600, every / 3600, a->name);
		ddr_event_plain(a, LOG_WARNING, "verify-overdue", text);
	}
	a->sched.told = late;
}

/*
 * The node that writes the superblocks carries out the verify and knows its own hours. The hours of another node are not known here,
 * and ours do not matter to it: a verify that pauses for hours or weeks must not keep all others waiting.
 */
static bool reads(struct ddr_array *a, bool ours, uint64_t now_ms)
{
	const struct ddr_verify *v = &ddr_sm_super(a->sm)->verify;
	bool moves;

	if (v->state != DDR_VERIFY_RUNNING) {
		a->sched.seen.at_ms = 0;
		return false;
	}
	moves = ddr_sched_moves(&a->sched.seen, v->serial, v->cursor, now_ms);
	return ours ? !a->rate.scan_closed : moves;
}

static void look_at(struct ddr_array *a, struct ddr_sched_array *s, uint64_t now, uint64_t now_ms)
{
	const struct ddr_verify *v = &ddr_sm_super(a->sm)->verify;
	struct ddr_sm_status st;
	bool whole, running, asked = a->sched.asked_ms && now_ms - a->sched.asked_ms < ASKED_MS;

	ddr_sm_get_status(a->sm, &st);
	whole = !st.degraded && st.rebuilding == DDR_NO_MEMBER && !st.resync_regions;
	a->sched.closed = is_closed(a, now, now_ms);
	a->rate.scan_closed = a->sched.closed && (v->flags & DDR_VERIFY_F_SCHEDULED);
	*s = (struct ddr_sched_array){ .due = ddr_schedule_due(a), .ours = st.writer == a->d->transport->node(a->d) };
	memcpy(s->uuid, a->uuid, sizeof(s->uuid));
	s->able = whole && !a->sched.closed && v->state == DDR_VERIFY_NONE && now_ms >= a->quiet_until_ms && !asked;
	running = reads(a, s->ours, now_ms);
	s->reads = whole && (running || (asked && v->state == DDR_VERIFY_NONE));
	too_late(a, s, now);
}

/* Sets for how long only its turn has been missing, that is, while fewer than @parallel arrays are being read. */
static void patience(struct ddr_array *a, struct ddr_sched_array *s, bool full, uint64_t now, uint64_t now_ms)
{
	if (!a->sched.ready_ms || full || !s->able || s->due > now)
		a->sched.ready_ms = now_ms;
	s->ready_s = (now_ms - a->sched.ready_ms) / 1000;
}

static void ask(struct ddr_array *a, uint64_t now_ms)
{
	a->sched.asked_ms = now_ms;
	ddr_drive_verify(a, DDR_VERIFY_OP_START, (uint32_t)a->tune.verify_priority, DDR_VERIFY_F_SCHEDULED);
}

void ddr_schedule_tick(struct ddr_daemon *d, uint64_t now_ms)
{
	uint64_t now = (uint64_t)time(NULL);
	struct ddr_sched_array *list;
	struct ddr_array *a, **of;
	size_t n = 0, reading = 0;
	int pick;

	if (now_ms - d->schedule_ms < LOOK_MS || !d->n_arrays)
		return;
	d->schedule_ms = now_ms;
	list = calloc(d->n_arrays, sizeof(*list));
	of = calloc(d->n_arrays, sizeof(struct ddr_array *));
	if (list && of) {
		qb_list_for_each_entry(a, &d->arrays, list)
			if (is_served(a) && n < d->n_arrays) {
				look_at(a, &list[n], now, now_ms);
				of[n++] = a;
			}
		for (size_t i = 0; i < n; i++)
			reading += list[i].reads;
		for (size_t i = 0; i < n; i++)
			patience(of[i], &list[i], reading >= d->conf.verify_parallel, now, now_ms);
		pick = ddr_sched_pick(list, n, now, d->conf.verify_parallel);
		if (pick >= 0)
			ask(of[pick], now_ms);
	}
	free(list);
	free(of);
}
