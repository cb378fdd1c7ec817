// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The speed of other nodes' jobs. See array.h.
 *
 * The group knows their progress, which is reported every few seconds (CURSOR_MS of lib/cluster/sm_rebuild.c and sm_verify.c). So the
 * rate is the progress between two reports divided by the time between them. It is unknown for a job without a report for much longer
 * than that.
 */
#include <inttypes.h>

#include "daemon/array/array.h"

#define REBUILD_SILENT_MS	30000u
#define VERIFY_SILENT_MS	180000u

/* @job: identifies the job, 0: none; @at: its progress. @silent: ms without a report after which the rate is unknown. */
static void look(struct ddr_watch *w, uint64_t job, uint64_t at, uint64_t silent, const struct ddr_sm *sm,
		 void (*progress)(const struct ddr_sm *, struct ddr_sm_progress *), uint64_t now_ms)
{
	struct ddr_sm_progress p;
	uint64_t rate = 0;

	if (job == w->job && at == w->at) {
		if (now_ms - w->at_ms > silent)
			w->per_s = 0;
		return;
	}
	if (job != w->job)
		*w = (struct ddr_watch){ .job = job };
	progress(sm, &p);
	/* the first report covers work that started at an unknown time */
	if (w->heard && p.done > w->done && now_ms > w->at_ms)
		rate = (p.done - w->done) * 1000 / (now_ms - w->at_ms);
	w->per_s = w->per_s && rate ? (w->per_s + rate) / 2 : rate;
	w->heard = true;
	w->at = at;
	w->done = p.done;
	w->at_ms = now_ms;
}

void ddr_watch_tick(struct ddr_array *a, uint64_t now_ms)
{
	const struct ddr_super *sb = ddr_sm_super(a->sm);
	const struct ddr_verify *v = &sb->verify;
	uint64_t rebuild = 0, cursor = 0;

	for (uint32_t m = 0; m < sb->members; m++)
		if (sb->member[m].state == DDR_MEMBER_REBUILDING) {
			rebuild = sb->member[m].since;		/* a generation, which is never 0 */
			cursor = sb->member[m].cursor;
		}
	look(&a->watch.rebuild, rebuild, cursor, REBUILD_SILENT_MS, a->sm, ddr_sm_rebuild_progress, now_ms);
	look(&a->watch.verify, v->state == DDR_VERIFY_RUNNING ? v->serial : 0, v->cursor, VERIFY_SILENT_MS, a->sm, ddr_sm_verify_progress, now_ms);
}
