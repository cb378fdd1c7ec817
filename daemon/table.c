// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Loading a table. See table.h.
 */
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <libdevmapper.h>
#include <qb/qblog.h>

#include "daemon/table.h"
#include "lib/dm.h"
#include "lib/scan.h"

#define TARGET		"ddraid"

static pthread_mutex_t dm_lock = PTHREAD_MUTEX_INITIALIZER;	/* libdevmapper is for one thread */

/* ---- the ioctls ------------------------------------------------------------------ */

static int failed(struct ddr_table *t, const char *what)
{
	ddr_error_set(&t->error, "%s of the table failed: %s", what, ddr_dm_said());
	return -EIO;
}

static struct dm_task *task(const struct ddr_table *t, int type)
{
	struct dm_task *task = dm_task_create(type);

	ddr_dm_forget();
	if (task && (!dm_task_set_major(task, (int)t->dm_major) || !dm_task_set_minor(task, (int)t->dm_minor))) {
		dm_task_destroy(task);
		task = NULL;
	}
	return task;
}

/* The parameters as they should be; NULL: there is no such place, or no memory. */
static char *table_text(const struct ddr_table *t, const char *params, bool *same)
{
	return (t->shadow ? ddr_scan_table_shadow : ddr_scan_table_replace)(params, t->place, t->major, t->minor, same);
}

/* The table as it should be, and its length in sectors. */
static int read_table(struct ddr_table *t, char **text, uint64_t *sectors)
{
	struct dm_task *get = task(t, DM_DEVICE_TABLE);
	char *type = NULL, *params = NULL;
	bool same = false;
	uint64_t start;
	int ret = 0;

	*text = NULL;
	if (!get || !dm_task_run(get)) {
		ret = failed(t, "reading");
	} else {
		dm_get_next_target(get, NULL, &start, sectors, &type, &params);
		if (type && params && strcmp(type, TARGET) == 0 && t->sectors) {
			same = *sectors == t->sectors;
			*sectors = t->sectors;
			*text = strdup(params);
		} else if (type && params && strcmp(type, TARGET) == 0) {
			*text = table_text(t, params, &same);
		}
		if (!*text) {
			ddr_error_set(&t->error, "the mapped device has no table of " TARGET " with a place %u", t->place);
			ret = -EINVAL;
		}
	}
	if (get)
		dm_task_destroy(get);
	return same ? -EALREADY : ret;
}

/* A table that did not become active would wait for whoever resumes the device next. */
static void clear(struct ddr_table *t)
{
	struct dm_task *task = dm_task_create(DM_DEVICE_CLEAR);

	if (!task || !dm_task_set_major(task, (int)t->dm_major) || !dm_task_set_minor(task, (int)t->dm_minor) || !dm_task_run(task))
		qb_log(LOG_WARNING, "device %u:%u keeps an inactive table: dmsetup clear takes it away", t->dm_major, t->dm_minor);
	if (task)
		dm_task_destroy(task);
}

/* A load, and a resume that suspends by itself: there is no moment at which the end of this process leaves it suspended. */
static int change(struct ddr_table *t)
{
	struct dm_task *load, *resume;
	uint64_t sectors = 0;
	char *text;
	int ret = read_table(t, &text, &sectors);

	if (ret == 0) {
		load = task(t, DM_DEVICE_RELOAD);
		if (!load || !dm_task_add_target(load, 0, sectors, TARGET, text) || !dm_task_run(load))
			ret = failed(t, "loading");
		if (load)
			dm_task_destroy(load);
	}
	if (ret == 0) {
		resume = task(t, DM_DEVICE_RESUME);
		if (!ddr_dm_run_synced(resume, resume && dm_task_no_flush(resume) && dm_task_skip_lockfs(resume))) {
			ret = failed(t, "activation");
			clear(t);
		}
	}
	free(text);
	return ret;
}

/* ---- the thread ------------------------------------------------------------------ */

static void run(struct ddr_worker *w)
{
	struct ddr_table *t = ddr_worker_of(w, struct ddr_table, worker);

	pthread_mutex_lock(&dm_lock);
	t->result = change(t);
	pthread_mutex_unlock(&dm_lock);
}

static void done(struct ddr_worker *w)
{
	struct ddr_table *t = ddr_worker_of(w, struct ddr_table, worker);

	t->done(t->ctx, t);
}

int ddr_table_start(struct ddr_table *t, qb_loop_t *loop)
{
	t->worker.run = run;
	t->worker.done = done;
	return ddr_worker_start(&t->worker, loop);
}

void ddr_table_free(struct ddr_table *t)
{
	free(t);
}
