// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * How the daemon ends; see ending.h.
 *
 * Must never: end because of STOP while an array needs the daemon.
 */
#include <string.h>

#include <qb/qblog.h>

#include "daemon/array/array.h"
#include "daemon/ending.h"

/* Does the array need this daemon? It is served, or about to be, or its last marks are being cleared. */
static bool needs_us(const struct ddr_array *a)
{
	return a->state == DDR_ARRAY_RUNNING || a->state == DDR_ARRAY_LOADING || a->state == DDR_ARRAY_CLOSING ||
	       (a->state == DDR_ARRAY_DOWN && a->waiting);
}

/* Clears the marks of regions that are not being written, as a clean stop does; regions that are written meanwhile stay marked. */
static void begin_rest(struct ddr_array *a)
{
	struct ddr_sm_status st;

	if (a->state != DDR_ARRAY_RUNNING || !a->ready || a->removed || a->broken || a->clean_asked)
		return;
	ddr_sm_get_status(a->sm, &st);
	if (st.dirty || st.granted)
		ddr_drive_clean(a);
}

/*
 * A member has failed here, a flush of it for example, and the superblocks do not say so yet. If this daemon ended now nobody would know: the next one would take
 * the member for one in sync, and what it has lost would be lost (rule 3).
 */
static bool knows_alone(const struct ddr_array *a)
{
	struct ddr_sm_status st;

	if (a->state != DDR_ARRAY_RUNNING || a->broken)
		return false;
	ddr_sm_get_status(a->sm, &st);
	return st.failing != 0;
}

static bool at_rest(const struct ddr_array *a)
{
	return a->state != DDR_ARRAY_RUNNING || !(a->removed || a->parting || a->clean_asked);
}

void ddr_ending_begin(struct ddr_ending *e, struct ddr_daemon *d, enum ddr_ending_how how, uint64_t now_ms)
{
	struct qb_list_head *iter;

	if (e->how >= how)
		return;
	e->how = how;
	e->refused = false;
	e->until_ms = now_ms + DDR_ENDING_REST_MS;
	qb_list_for_each(iter, &d->arrays)
		begin_rest(qb_list_entry(iter, struct ddr_array, list));
}

static void refuse(const struct ddr_daemon *d, const struct ddr_array *a)
{
	const char *users = "all I/O on it would hang";

	/* to every terminal: somebody may be about to shut the cluster down */
	if (d->transport->cluster)
		qb_log(LOG_EMERG, "array '%s' is still started here, so ddraidd does not stop: %s. If corosync stops now, the other nodes fence this node. "
		       "Unmount the array, or stop what uses it, then: ddraid stop %s", a->name, users, a->name);
	else
		qb_log(LOG_ERR, "array '%s' is still started, so ddraidd does not stop: %s. Unmount the array, or stop what uses it, then: "
		       "ddraid stop %s. ddraidd ends by itself then", a->name, users, a->name);
}

/* Continues to serve the arrays: the time for clearing marks is over. */
static void stay(struct ddr_ending *e, struct ddr_daemon *d)
{
	struct qb_list_head *iter;

	e->refused = true;
	qb_list_for_each(iter, &d->arrays) {
		struct ddr_array *a = qb_list_entry(iter, struct ddr_array, list);

		if (!needs_us(a) || a->removed)
			continue;
		refuse(d, a);
		if (a->clean_asked)
			ddr_drive_clean_late(a);
	}
}

/* That takes longer than a change of the superblocks should. */
static void tells(struct ddr_ending *e, struct ddr_daemon *d)
{
	struct ddr_array *a;

	e->refused = true;
	qb_list_for_each_entry(a, &d->arrays, list)
		if (knows_alone(a))
			qb_log(LOG_WARNING, "array '%s': a member has failed, and its superblocks do not say so yet. ddraidd waits for that before it ends, for at most "
			       "%u s. ddraid status %s shows what the array waits for", a->name, DDR_ENDING_TELL_MS / 1000, a->name);
}

bool ddr_ending_due(struct ddr_ending *e, struct ddr_daemon *d, uint64_t now_ms)
{
	bool needed = false, resting = true, untold = false, late = now_ms >= e->until_ms;
	struct qb_list_head *iter;

	if (e->how == DDR_ENDING_NOT)
		return false;
	qb_list_for_each(iter, &d->arrays) {
		struct ddr_array *a = qb_list_entry(iter, struct ddr_array, list);

		needed = needed || needs_us(a);
		resting = resting && at_rest(a);
		untold = untold || knows_alone(a);
	}
	if (e->how == DDR_ENDING_LEAVE && untold) {
		if (late && !e->refused)
			tells(e, d);
		return now_ms >= e->until_ms + DDR_ENDING_TELL_MS;
	}
	if (e->how == DDR_ENDING_LEAVE)
		return resting || late;
	if (needed && late && !e->refused)
		stay(e, d);
	return !needed;
}
