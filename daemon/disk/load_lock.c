// SPDX-License-Identifier: GPL-2.0-or-later
/* The locks of the members while an array is loaded: who holds them, how long they are waited for, and which members are left out. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <qb/qblog.h>

#include "daemon/base/clock.h"
#include "daemon/disk/load_lock.h"

#define RETRY_MS	50
#define NAME_EVERY	(1000 / RETRY_MS)	/* tries between two searches for the holder: that takes longer than a try */
#define SAY_AFTER_MS	3000			/* a shorter wait for a lock is not logged */

static pthread_mutex_t waits_lock = PTHREAD_MUTEX_INITIALIZER;

void ddr_load_waits(struct ddr_load *l, char *buf, size_t size)
{
	pthread_mutex_lock(&waits_lock);
	snprintf(buf, size, "%s", l->waits);
	pthread_mutex_unlock(&waits_lock);
}

void ddr_load_set_waits(struct ddr_load *l, const char *text)
{
	pthread_mutex_lock(&waits_lock);
	snprintf(l->waits, sizeof(l->waits), "%s", text);
	pthread_mutex_unlock(&waits_lock);
}

static void set_waits(struct ddr_load *l, const struct ddr_members_busy *who, uint32_t busy)
{
	unsigned int first = busy ? (unsigned int)__builtin_ctz(busy) : 0, more = (unsigned int)__builtin_popcount(busy) - 1;

	pthread_mutex_lock(&waits_lock);
	l->waits[0] = '\0';
	if (busy)
		snprintf(l->waits, sizeof(l->waits), "%s is locked by %s", l->members->name[first], who->holder[first].text);
	if (busy && more)
		snprintf(l->waits + strlen(l->waits), sizeof(l->waits) - strlen(l->waits), ", and %u more members are locked", more);
	pthread_mutex_unlock(&waits_lock);
}

/* Stops waiting for programs other than an earlier ddraidd that have the usual node locked. Returns their members. */
static uint32_t pass_others(struct ddr_load *l, const struct ddr_members_busy *who)
{
	uint32_t passed = 0;

	for (unsigned int p = 0; p < l->members->n; p++) {
		if (!(who->usual & (1u << p)) || !who->holder[p].other)
			continue;
		qb_log(LOG_NOTICE, "array '%s': %s is locked by %s, which is not ddraidd; the array is served anyway", l->members->array,
		       l->members->name[p], who->holder[p].text);
		ddr_dev_pass_usual(&l->members->dev[p]);
		passed |= 1u << p;
	}
	return passed;
}

int ddr_load_lock(struct ddr_load *l, uint64_t due_ms, uint32_t *busy, struct ddr_members_busy *who)
{
	const struct timespec pause = { .tv_nsec = RETRY_MS * 1000000L };
	uint64_t begun_ms = ddr_now_ms(), now = begun_ms;
	bool said = false;

	for (unsigned int i = 0;; i++, now = ddr_now_ms()) {
		bool late = now >= due_ms, find = late || i % NAME_EVERY == 0;

		*busy = ddr_members_lock(l->members, find ? who : NULL);
		if (find && (l->resumed || now - begun_ms >= l->limit_ms))
			*busy &= ~pass_others(l, who);
		if (find || !*busy)
			set_waits(l, who, *busy);
		if (late && *busy & who->own)
			return ddr_error_call(&l->error, ENOLCK, "it is unknown whether the members are locked: a call failed for lack of memory or the like");
		if (!*busy || late)
			return 0;
		if (atomic_load(&l->cancel))
			return ddr_error_set(&l->error, "the array was removed while its members were locked");
		if (find && !said && now - begun_ms >= SAY_AFTER_MS) {
			qb_log(LOG_NOTICE, "array '%s': %s; waiting until it is unlocked", l->members->array, l->waits);
			said = true;
		}
		nanosleep(&pause, NULL);
	}
}

void ddr_load_leave_out_locked(struct ddr_load *l, uint32_t busy, const struct ddr_members_busy *who)
{
	char why[160];

	for (unsigned int p = 0; p < l->members->n; p++) {
		if (!(busy & (1u << p)))
			continue;
		snprintf(why, sizeof(why), "locked by %s; it is taken back when it is unlocked", who->holder[p].text);
		qb_log(LOG_ERR, "array '%s' starts without %s: %s", l->members->array, l->members->name[p], why);
		ddr_members_leave_out(l->members, p, why);
	}
	l->locked_at |= busy;
	set_waits(l, who, 0);
}
