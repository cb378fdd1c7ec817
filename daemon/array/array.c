// SPDX-License-Identifier: GPL-2.0-or-later
/* The life of an array on this node; array.h has the table of its states. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qb/qblog.h>
#include <uuid/uuid.h>

#include "daemon/array/array.h"
#include "daemon/array/events.h"
#include "lib/error.h"

#define WAIT_MS		1000u	/* between two attempts to join a cluster that seems to be available */
#define OWN_MS		5000u	/* between two attempts to start, if this process or its machine is the reason why the first one failed */
#define PART_MS		10000u	/* time from the removal of an array until this node lets go of it */

static void array_down(struct ddr_array *a);
static void on_gone(void *ctx, int error);

/* ---- bind and load -------------------------------------------------------------- */

/* a->error has the reason. */
static void refused(struct ddr_array *a)
{
	a->state = DDR_ARRAY_REFUSED;
	ddr_event_plain(a, LOG_ERR, "refused", a->error);
}

/* ddr_arrays_retry() continues. */
static void wait_until(struct ddr_array *a, const char *why, uint64_t retry_ms)
{
	a->state = DDR_ARRAY_DOWN;
	a->waiting = true;
	a->retry_ms = retry_ms;
	snprintf(a->error, sizeof(a->error), "%s", why);
}

/*
 * The array did not start because this process has no memory, descriptor or thread left (@why). That is no evidence against a member,
 * and nothing was written.
 */
static void try_again(struct ddr_array *a, const char *why)
{
	char text[DDR_ERROR_LEN];

	snprintf(text, sizeof(text), "this node cannot start the array now: %.800s; trying again every %u s", why, OWN_MS / 1000);
	wait_until(a, text, ddr_now_ms() + OWN_MS);
	qb_log(LOG_ERR, "array '%s': %s", a->name, a->error);
}

/* Is this result (a negative errno) of a call of ours no evidence against anything but this process? EAGAIN: a thread could not be created. */
static bool is_own(int ret)
{
	return ret == -EAGAIN || ddr_own_failure(-ret);
}

/* The members were loaded, but the array did not start. a->error has the reason. */
static void not_started(struct ddr_array *a, int error)
{
	const char *waits = a->d->transport->waits(a->d);

	ddr_kchan_close(a->chan);
	a->chan = NULL;
	if (is_own(error)) {
		try_again(a, strerror(-error));
		return;
	}
	if (error != -ENOTCONN) {
		refused(a);
		return;
	}
	wait_until(a, waits ? waits : "the cluster does not answer; retrying", ddr_now_ms() + WAIT_MS);
	qb_log(LOG_WARNING, "array '%s': the connection to the cluster was lost while the members were being read: %s", a->name, a->error);
}

/* Uses the name of the mapped device until the superblock gives the array's. */
static void name_by_device(struct ddr_array *a)
{
	char name[sizeof(a->name)];

	if (ddr_device_dm_name(a->bind.dm_major, a->bind.dm_minor, name, sizeof(name)))
		snprintf(a->name, sizeof(a->name), "%s", name);
}

/* --older was given for one start, and this was none. */
static void keep_older(struct ddr_array *a, const struct ddr_load *l)
{
	if (!l->older.generation || l->behind)
		return;
	memcpy(a->d->older.uuid, a->uuid, sizeof(a->uuid));
	a->d->older.known = l->older;
}

static void loaded(void *ctx)
{
	struct ddr_array *a = ctx;
	struct ddr_load *l = a->load;
	int ret;

	a->load = NULL;
	if (a->state != DDR_ARRAY_CLOSING && ddr_still_held(&l->still)) {	/* what it has read is as old as the standstill */
		ddr_identity_not_started(a);
		ddr_array_close(a, true);
		ddr_load_free(l);
		return;
	}
	if (a->state == DDR_ARRAY_CLOSING) {
		if (a->rebind)
			ddr_identity_not_started(a);
		ddr_load_free(l);
		array_down(a);
		return;
	}
	if (l->name[0])
		memcpy(a->name, l->name, sizeof(a->name));
	if (!l->ok) {
		ddr_kchan_close(a->chan);
		a->chan = NULL;
		if (l->error.own) {
			keep_older(a, l);
			ddr_identity_not_started(a);
			try_again(a, l->error.text);
		} else {
			snprintf(a->error, sizeof(a->error), "%s", l->error.text);
			refused(a);
		}
	} else {
		a->state = DDR_ARRAY_RUNNING;
		a->resumed = true;
		ret = ddr_drive_start(a, l);
		if (ret) {
			not_started(a, ret);
		} else if (l->assembly.note[0]) {
			/* not earlier: clients that receive it may ask for the state machine of a running array */
			ddr_event_plain(a, LOG_WARNING, "assembled", l->assembly.note);
		}
	}
	ddr_load_free(l);
}

static int begin_load(struct ddr_array *a)
{
	struct ddr_load *l = calloc(1, sizeof(*l));
	int ret;

	if (!l)
		return -ENOMEM;
	l->bind = a->bind;
	l->supers_only = a->d->transport->cluster;
	l->resumed = a->resumed;
	l->limit_ms = (unsigned int)a->tune.io_timeout_ms;
	snprintf(l->state_dir, sizeof(l->state_dir), "%s", a->d->conf.state_dir);
	if (memcmp(a->d->older.uuid, a->uuid, sizeof(a->uuid)) == 0) {
		l->older = a->d->older.known;
		a->d->older.known.generation = 0;	/* --older was only given for this start */
	}
	ddr_identity_claim(a, &l->claim);
	l->done = loaded;
	l->ctx = a;
	a->load = l;
	ddr_drive_watch(a);
	ret = ddr_load_start(l, a->d->loop);
	if (ret) {
		a->load = NULL;
		ddr_identity_not_started(a);
		ddr_load_free(l);
		return ret;
	}
	a->state = DDR_ARRAY_LOADING;
	return 0;
}

static bool held(void *ctx)
{
	struct ddr_array *a = ctx;
	struct ddr_still *still = ddr_drive_still(a);

	if (!ddr_still_held(still) || (a->stamp.taken && still != &a->d->still))	/* taken: only KILL is left */
		return false;
	ddr_drive_wake(a);	/* its tick lets the channel go on */
	return true;
}

static const struct ddr_kchan_ops kchan_ops = {
	.held = held, .record = ddr_drive_record, .gone = on_gone,
};

static void bind_array(struct ddr_array *a)
{
	const char *waits = a->d->transport->waits(a->d);
	struct ddr_speaks speaks;
	int ret;

	ddr_drive_wake(a);
	if (waits) {
		wait_until(a, waits, 0);
		return;
	}
	memset(&a->bind, 0, sizeof(a->bind));
	memcpy(a->bind.uuid, a->uuid, sizeof(a->bind.uuid));
	a->bind.timeout_ms = (uint32_t)a->tune.daemon_timeout_ms;
	ret = ddr_kchan_open(&a->chan, a->d->loop, &a->bind, &kchan_ops, a);
	if (ret == -ENOENT || ret == -EOPNOTSUPP || ret == -EAGAIN) {
		/* it is gone; its table allows no daemon; or it was not resumed yet and more than one table was loaded */
		qb_log(LOG_DEBUG, "array %s: nothing to serve: %s", a->uuid_text, strerror(-ret));
		a->state = DDR_ARRAY_DOWN;
		return;
	}
	if (ret == 0) {
		name_by_device(a);
		ret = ddr_drive_speaks(a, &speaks) ? begin_load(a) : -EPROTONOSUPPORT;
	}
	if (ret == 0)
		return;
	ddr_kchan_close(a->chan);
	a->chan = NULL;
	if (is_own(ret)) {
		try_again(a, strerror(-ret));
		return;
	}
	if (ret == -EPROTO)
		snprintf(a->error, sizeof(a->error), "the kernel module speaks version %u of the kernel interface, this ddraidd version %u; "
			 "install module and daemon of the same release", a->bind.abi, DDR_ABI_VERSION);
	else if (ret == -EPROTONOSUPPORT)
		ddr_drive_speaks_not(a);
	else
		snprintf(a->error, sizeof(a->error), "the kernel module refuses the daemon: %s", strerror(-ret));
	refused(a);
}

/* ---- close ---------------------------------------------------------------------- */

static void array_free(struct ddr_array *a)
{
	qb_list_del(&a->list);
	a->d->n_arrays--;
	if (a->tick)
		qb_loop_timer_del(a->d->loop, a->tick);
	free(a);
}

/* Nothing of the array runs any more. */
static void array_down(struct ddr_array *a)
{
	struct ddr_daemon *d = a->d;

	a->state = DDR_ARRAY_DOWN;
	if (a->removed) {
		array_free(a);
		ddr_sink_tell(&d->sink, NULL);
	} else if (a->rebind) {
		a->rebind = false;
		bind_array(a);
	}
}

void ddr_array_close(struct ddr_array *a, bool rebind)
{
	ddr_drive_wake(a);
	a->rebind = rebind;
	a->state = DDR_ARRAY_CLOSING;	/* before its state machine is freed */
	ddr_drive_stop(a);
	ddr_kchan_close(a->chan);
	a->chan = NULL;
	if (a->load)
		ddr_load_cancel(a->load);	/* loaded() continues */
	else
		array_down(a);
}

void ddr_array_refuse(struct ddr_array *a)
{
	ddr_array_close(a, false);
	refused(a);
}

const char *ddr_array_adopted(struct ddr_array *a)
{
	if (a->state == DDR_ARRAY_RUNNING && a->ready)
		return "the array is already served on this node, so there is nothing to adopt";
	if (a->state == DDR_ARRAY_REFUSED)
		bind_array(a);
	else if (a->state == DDR_ARRAY_LOADING && ddr_identity_adopts(a))
		ddr_identity_adopted(a);	/* it waits for the same already, and goes on */
	else if (a->state == DDR_ARRAY_RUNNING || a->state == DDR_ARRAY_LOADING)
		ddr_array_close(a, true);
	return NULL;
}

void ddr_arrays_retry(struct ddr_daemon *d)
{
	const char *waits = d->transport->waits(d);
	struct qb_list_head *iter, *next;
	uint64_t now;

	if (waits) {
		ddr_arrays_wait_for(d, waits);
		return;
	}
	now = ddr_now_ms();
	qb_list_for_each_safe(iter, next, &d->arrays) {
		struct ddr_array *a = qb_list_entry(iter, struct ddr_array, list);

		if (a->state == DDR_ARRAY_DOWN && a->waiting && now >= a->retry_ms) {
			a->waiting = false;
			a->error[0] = '\0';
			bind_array(a);
		} else if (a->state == DDR_ARRAY_RUNNING && a->cluster.lost && (!a->removed || a->d->still.held)) {
			/* what a daemon that stood still has not written yet must never be written, also if it was the last thing that it would have done here */
			ddr_array_close(a, !a->removed);
		}
	}
}

void ddr_arrays_close(struct ddr_daemon *d)
{
	struct qb_list_head *iter, *next;

	qb_list_for_each_safe(iter, next, &d->arrays) {
		struct ddr_array *a = qb_list_entry(iter, struct ddr_array, list);

		a->removed = true;
		ddr_array_close(a, false);
	}
}

/* ---- records from the kernel ------------------------------------------------------- */

/* The device is gone, and what can be cleared has been cleared. May free the array. */
static void parted(struct ddr_array *a)
{
	a->part_until_ms = ddr_now_ms() + PART_MS;
	if (!ddr_drive_leave(a))
		ddr_array_close(a, false);
}

/* The next tick is not needed before @ms; 0: it is the usual one, which the timer is set for. */
static void rest(struct ddr_array *a, uint64_t ms)
{
	a->rests = ms > DDR_TICK_MS && a->tick;
	a->rest_ms = a->rests ? ms : 0;
	if (!a->rests)
		return;
	qb_loop_timer_del(a->d->loop, a->tick);
	ddr_drive_arm(a, ms);
}

static void on_tick(void *data)
{
	struct ddr_array *a = data;
	bool late;

	a->tick = 0;
	ddr_drive_arm(a, DDR_TICK_MS);
	if (a->state == DDR_ARRAY_DOWN || a->state == DDR_ARRAY_CLOSING || !a->chan) {
		rest(a, !a->waiting && a->state != DDR_ARRAY_CLOSING ? ddr_rest_left(ddr_now_ms()) : 0);
		return;
	}
	ddr_drive_tick(a, ddr_now_ms());
	if (a->load && ddr_still_held(&a->load->still)) {
		ddr_array_close(a, true);	/* it is read again */
		return;
	}
	if (a->state == DDR_ARRAY_RUNNING && !a->removed && (a->stamp.taken || ddr_drive_unfit(a))) {
		ddr_array_refuse(a);
		return;
	}
	if (a->state == DDR_ARRAY_RUNNING && a->anew)
		ddr_identity_not_started(a);
	if (a->state == DDR_ARRAY_RUNNING && a->broken && (a->removed || a->anew || !a->d->transport->cluster)) {
		ddr_array_close(a, !a->removed);	/* may free it */
		return;
	}
	if (a->state != DDR_ARRAY_RUNNING || !a->removed) {
		rest(a, a->state == DDR_ARRAY_RUNNING ? ddr_drive_rests(a, ddr_now_ms()) : 0);
		return;
	}
	late = ddr_now_ms() >= a->part_until_ms;
	if (a->cluster.leaving ? a->cluster.left || late : (a->parting && !a->clean_asked) || late)
		parted(a);	/* may free it */
}

static struct ddr_array *array_new(struct ddr_daemon *d, const uint8_t uuid[16])
{
	struct ddr_array *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->d = d;
	memcpy(a->uuid, uuid, sizeof(a->uuid));
	uuid_unparse_lower(a->uuid, a->uuid_text);
	snprintf(a->name, sizeof(a->name), "%s", a->uuid_text);
	a->tune = d->conf.tune;
	a->on_tick = on_tick;
	if (qb_loop_timer_add(d->loop, QB_LOOP_HIGH, DDR_TICK_MS * QB_TIME_NS_IN_MSEC, a, on_tick, &a->tick)) {
		free(a);
		return NULL;
	}
	qb_list_add_tail(&a->list, &d->arrays);
	d->n_arrays++;
	return a;
}

/* NULL: it is not served, and that was logged. */
static struct ddr_array *array_add(struct ddr_daemon *d, const uint8_t uuid[16])
{
	struct ddr_array *a = d->n_arrays < DDR_ARRAYS_MAX ? array_new(d, uuid) : NULL;
	char text[37];

	uuid_unparse_lower(uuid, text);
	if (!a)
		qb_log(LOG_ERR, d->n_arrays < DDR_ARRAYS_MAX ? "out of memory for array %s: it is not served, and I/O on it waits; free memory, then: systemctl restart ddraidd" :
		       "this node has its limit of arrays, so array %s is not served, and I/O on it waits; stop another one (ddraid stop NAME), then: systemctl restart ddraidd", text);
	return a;
}

void ddr_array_appeared(struct ddr_daemon *d, const uint8_t uuid[16], bool listed)
{
	struct ddr_array *a = ddr_array_by_uuid(d, uuid);

	ddr_array_forget_unstarted(d, uuid);
	a = a ? a : array_add(d, uuid);
	if (!a)
		return;
	/* a RESUMED record that is already on its way, also one from the list, refers to the table that is bound now */
	a->fresh = !listed || a->state == DDR_ARRAY_DOWN;
	a->resumed |= !d->listed;
	if (a->state == DDR_ARRAY_DOWN)
		bind_array(a);
}

void ddr_array_resumed(struct ddr_daemon *d, const uint8_t uuid[16], bool as_bound)
{
	struct ddr_array *a = ddr_array_by_uuid(d, uuid);
	bool fresh;

	if (!a) {		/* for want of memory as it appeared */
		ddr_array_appeared(d, uuid, true);
		a = ddr_array_by_uuid(d, uuid);
		if (a)
			a->fresh = false;	/* this is the record of the table that is bound now: the next one is of another table */
		return;
	}
	fresh = a->fresh;
	a->fresh = false;
	/* bound before its first resume: the resume activated either this table or a newer one */
	if (a->bind.flags & DDR_BIND_F_LOADED)
		fresh = as_bound;
	a->bind.flags = 0;
	if (a->state == DDR_ARRAY_DOWN || a->state == DDR_ARRAY_REFUSED)
		bind_array(a);
	else if (!fresh && !(a->state == DDR_ARRAY_RUNNING && ddr_drive_rebind(a, &kchan_ops)))
		ddr_array_close(a, true);	/* the table may name other devices now */
}

static void set_removed(struct ddr_array *a)
{
	if (a->removed)
		return;
	qb_log(LOG_INFO, "array '%s' was removed", a->name);
	a->removed = true;
	a->part_until_ms = ddr_now_ms() + PART_MS;
	ddr_drive_wake(a);
	ddr_sink_tell(&a->d->sink, NULL);
}

void ddr_array_removed(struct ddr_daemon *d, const uint8_t uuid[16], uint64_t cookie)
{
	struct ddr_array *a = ddr_array_by_uuid(d, uuid);

	/* another cookie: a newer array with the same uuid, which appeared before this record arrived */
	if (!a || (a->bind.cookie && a->bind.cookie != cookie))
		return;
	set_removed(a);
	if (a->state != DDR_ARRAY_RUNNING)
		ddr_array_close(a, false);
	/* otherwise its channel still has records, and then ends */
}

static void on_gone(void *ctx, int error)
{
	struct ddr_array *a = ctx;

	if (error == -ENODEV) {
		set_removed(a);
		if (a->state != DDR_ARRAY_RUNNING)
			ddr_array_close(a, false);
		else if (!ddr_drive_part(a))
			parted(a);
		return;
	}
	qb_log(LOG_WARNING, "array '%s': the channel to the kernel ended: %s", a->name,
	       error == -ESTALE ? "another process has bound the array" : strerror(-error));
	ddr_array_close(a, true);
}
