// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Devices of members that this node lacks: searches for them when the state machine asks, and again when the kernel has new block
 * devices or this daemon closes one. Also closes the devices of former members.
 *
 * Must never: use a device whose member has changed, that is in use, or that an old request may still reach through the same
 * descriptor; close a descriptor that a request may still use.
 */
#include <stdlib.h>
#include <string.h>

#include <qb/qblog.h>

#include "daemon/array/drive.h"
#include "daemon/array/events.h"
#include "daemon/disk/finder.h"
#include "lib/disk/layout.h"
#include "lib/math/crc32c.h"

#define AGAIN_MS	5000u	/* between two searches for a device that was there but could not be used */

void ddr_drive_seek_output(struct ddr_array *a, const struct ddr_output *o)
{
	a->seek.wanted |= 1u << o->member;
	a->seek.at_ms = 0;
}

/* The members are not being read: descriptors may be exchanged. */
static bool no_readers(const struct ddr_array *a)
{
	for (unsigned int i = 0; i < DDR_ARRAY_RELOADS; i++)
		if (a->cluster.reload[i])
			return false;
	return true;
}

/* A thread may still write zeroes to a member, for a larger array, through the descriptor that it was started with. It cannot be stopped. */
static bool growing(const struct ddr_array *a)
{
	for (unsigned int m = 0; m < DDR_MAX_MEMBERS; m++)
		if (a->grow.work[m])
			return true;
	return false;
}

/* Spares, and members that the operator searches for; others are not searched for any more. */
static uint32_t still_wanted(const struct ddr_array *a)
{
	struct ddr_sm_status st;
	uint32_t wanted;

	ddr_sm_get_status(a->sm, &st);
	wanted = st.sought;
	for (unsigned int m = 0; m < DDR_MAX_MEMBERS; m++)
		wanted |= st.member_state[m] == DDR_MEMBER_SPARE ? 1u << m : 0;
	return a->seek.wanted & wanted;
}

/* ---- what was found ---------------------------------------------------------------- */

static bool in_table(const struct ddr_array *a, unsigned int m, uint16_t role)
{
	return role < DDR_UAPI_MAX_ROLES && a->bind.dev_major[role] == a->members->major[m] && a->bind.dev_minor[role] == a->members->minor[m];
}

/* A request that was given up may still be carried out, and would overwrite newer data once the member is back. */
static uint32_t asked(const struct ddr_array *a)
{
	return ddr_metaio_asked(a->meta) | ddr_jobs_asked(a->jobs);
}

/* Why the device that was found cannot be used now and must be searched for again; NULL: it can be used. */
static const char *not_yet(const struct ddr_array *a, const struct ddr_finder *f, unsigned int m)
{
	bool same = f->same & (1u << m), open = a->members->open & (1u << m);

	if (a->seek.dropped & (1u << m))
		return "the device that had its number before is still in use";	/* otherwise the new one would be closed in its place */
	if (same && (!open || a->members->dev[m].rdev != f->rdev[m]))
		return "its device was closed meanwhile";
	if (a->grow.work[m])
		return "zeroes for a larger array may still be in flight to it";
	if (same && (asked(a) & (1u << m)))
		return "requests from before it disappeared may still be in flight to it";
	return NULL;
}

static void present(struct ddr_array *a, struct ddr_finder *f, unsigned int m)
{
	const struct ddr_super *sb = ddr_sm_super(a->sm);
	/* what was written to it meanwhile went to another disk */
	bool exchanged = a->members->exchanged & (1u << m);
	struct ddr_input *in;
	const char *wait;

	if (memcmp(sb->member[m].uuid, f->uuid[m], sizeof(f->uuid[m])) != 0 || !(still_wanted(a) & (1u << m)))
		return;		/* it was removed meanwhile, or does not need its device any more */
	wait = not_yet(a, f, m);
	if (!wait && ddr_metaio_prepare(a->meta, m))
		wait = "there is not enough memory for writes of its superblock";
	if (wait) {
		qb_log(LOG_NOTICE, "array '%s': member %u was found, but must wait: %s", a->name, m, wait);
		return;
	}
	if (!(f->same & (1u << m)) && !ddr_members_replace(a->members, m, &f->dev[m]))
		return;
	ddr_drive_set(a, DDR_SM_SETTLE_MS, ddr_members_settle_ms(a->members, &a->d->conf));
	ddr_members_own_again(a->members, m);
	qb_log(LOG_INFO, "array '%s': %s is member %u", a->name, a->members->name[m], m);
	a->seek.told[m] = 0;
	a->seek.wanted &= ~(1u << m);
	in = ddr_drive_input(a, DDR_IN_PRESENT);
	in->member = m;
	in->value = (in_table(a, m, sb->member[m].role) ? DDR_PRESENT_TABLE : 0) | (!exchanged && ddr_super_is_last(sb, m, &f->super[m]) ? DDR_PRESENT_LAST : 0);
	ddr_drive_step(a, in);
}

/* Logs each reason only once while it stays the same, and puts it into the status. */
static void tell_not_taken(struct ddr_array *a, unsigned int m, const char *why)
{
	uint32_t crc = ddr_crc32c(why, strlen(why));

	if (!(a->members->open & (1u << m)))
		snprintf(a->members->error[m], sizeof(a->members->error[m]), "%.150s", why);
	if (crc == a->seek.told[m])
		return;
	a->seek.told[m] = crc;
	qb_log(LOG_WARNING, "array '%s': searching for member %u: %s", a->name, m, why);
}

static void install(struct ddr_array *a)
{
	struct ddr_finder *f = a->seek.ready;

	if (!f || a->broken || !no_readers(a))
		return;
	a->seek.ready = NULL;
	for (unsigned int m = 0; m < DDR_MAX_MEMBERS && !a->broken; m++) {
		if (f->found & still_wanted(a) & (1u << m))
			present(a, f, m);
		else if (f->found & ddr_drive_returning(a) & (1u << m) && memcmp(ddr_sm_super(a->sm)->member[m].uuid, f->uuid[m], sizeof(f->uuid[m])) == 0)
			ddr_drive_return_found(a, m);
		if (!f->error[m].text[0])
			continue;
		tell_not_taken(a, m, f->error[m].text);
		a->seek.at_ms = ddr_now_ms() + AGAIN_MS;
	}
	if (((a->seek.wanted | ddr_drive_returning(a)) & f->found) && a->seek.at_ms == UINT64_MAX)
		a->seek.at_ms = ddr_now_ms() + AGAIN_MS;
	if (f->failed && a->seek.at_ms == UINT64_MAX)
		a->seek.at_ms = ddr_now_ms() + AGAIN_MS;
	/* the device that hangs may be the one; nothing reports when it answers again */
	if (f->want && f->hung && a->seek.at_ms == UINT64_MAX)
		a->seek.at_ms = ddr_now_ms() + a->tune.io_timeout_ms;
	ddr_finder_free(f);
}

static void on_found(void *ctx, struct ddr_finder *f)
{
	struct ddr_array *a = ctx;

	if (!a) {
		ddr_finder_free(f);
		return;
	}
	a->seek.finder = NULL;
	a->seek.ready = f;
	install(a);
}

/*
 * Devices that this daemon has open as members, and does not search for, could not be locked anyway; and an open of one that hangs
 * would hang, too. Devices of former members are not left out: they may soon be anything.
 */
static void leave_out(struct ddr_finder *f, const struct ddr_array *other, uint32_t but)
{
	uint32_t members = other->members ? other->members->open & ~(but | other->seek.dropped | other->seek.replaced) : 0;

	for (unsigned int m = 0; m < DDR_MAX_MEMBERS; m++)
		if ((members & (1u << m)) && f->n_leave_out < DDR_FINDER_LEAVE_OUT)
			f->leave_out[f->n_leave_out++] = other->members->dev[m].rdev;
}

static void look(struct ddr_array *a)
{
	struct qb_list_head *iter;
	struct ddr_finder *f = calloc(1, sizeof(*f));

	if (!f)
		return;		/* the next tick tries again */
	memcpy(f->array, a->uuid, sizeof(f->array));
	snprintf(f->name, sizeof(f->name), "%s", a->name);
	f->bytes = ddr_layout_member_bytes(&a->super);
	f->want = a->seek.wanted | ddr_drive_returning(a);
	f->have = a->members->open;
	for (unsigned int m = 0; m < DDR_MAX_MEMBERS; m++) {
		memcpy(f->uuid[m], ddr_sm_super(a->sm)->member[m].uuid, sizeof(f->uuid[m]));
		f->rdev[m] = a->members->dev[m].rdev;
	}
	f->limit_ms = (unsigned int)a->tune.io_timeout_ms;
	qb_list_for_each(iter, &a->d->arrays) {
		const struct ddr_array *other = qb_list_entry(iter, struct ddr_array, list);

		leave_out(f, other, other == a ? f->want : 0);
	}
	f->done = on_found;
	f->ctx = a;
	if (ddr_finder_start(f, a->d->loop)) {
		free(f);
		return;
	}
	a->seek.finder = f;
	a->seek.at_ms = UINT64_MAX;		/* until something changes */
}

/*
 * A member that the array was started without because its disk was locked has not really failed. Once the superblocks list it as
 * failed or missing, it is searched for until its lock is free, and taken back, as the operator would do it.
 */
static void call_back_locked(struct ddr_array *a, uint64_t now_ms)
{
	const struct ddr_super *sb = ddr_sm_super(a->sm);

	if (!a->seek.locked || !a->ready || now_ms < a->seek.back_ms)
		return;
	for (unsigned int m = 0; m < DDR_MAX_MEMBERS && !a->broken; m++) {
		bool out = sb->member[m].state == DDR_MEMBER_FAULTY || sb->member[m].state == DDR_MEMBER_MISSING;

		if (!(a->seek.locked & (1u << m)) || !out)
			continue;
		if (ddr_drive_seek(a, m)) {
			a->seek.back_ms = now_ms + AGAIN_MS;
			return;
		}
		a->seek.locked &= ~(1u << m);
		qb_log(LOG_NOTICE, "array '%s': member %u returns when its disk is unlocked", a->name, m);
	}
}

/* ---- former members ------------------------------------------------------------------ */

void ddr_drive_members_changed(struct ddr_array *a, uint32_t removed, uint32_t replaced)
{
	const struct ddr_super *sb = ddr_sm_super(a->sm);

	a->super.members = sb->members;
	memcpy(a->super.member, sb->member, sizeof(a->super.member));
	if (a->members->n < sb->members)
		a->members->n = sb->members;
	if (removed < DDR_MAX_MEMBERS)
		a->seek.dropped |= 1u << removed;
	if (replaced < DDR_MAX_MEMBERS)
		a->seek.replaced |= 1u << replaced;
}

/* Does our kernel's table name its device, at any place? */
static bool named(const struct ddr_array *a, unsigned int m)
{
	for (unsigned int p = 0; p < DDR_UAPI_PLACES; p++)
		if ((a->bind.dev_major[p] || a->bind.dev_minor[p]) && a->bind.dev_major[p] == a->members->major[m] &&
		    a->bind.dev_minor[p] == a->members->minor[m])
			return true;
	return false;
}

/*
 * Kernels write to a member that was replaced until all nodes have agreed that it left the array, and a table may name it even
 * longer. It may also be taken back.
 */
static void let_go_replaced(struct ddr_array *a)
{
	for (unsigned int m = 0; a->seek.replaced >> m; m++) {
		bool out = ddr_sm_super(a->sm)->member[m].state == DDR_MEMBER_MISSING;

		if (!(a->seek.replaced & (1u << m)) || (out && named(a, m)))
			continue;
		a->seek.replaced &= ~(1u << m);
		a->seek.dropped |= out ? 1u << m : 0;
	}
}

/* A member that is being prepared for a larger array keeps its device until that has ended, however late. */
static void let_go(struct ddr_array *a)
{
	bool any = false;

	for (unsigned int m = 0; m < DDR_MAX_MEMBERS; m++) {
		uint16_t role = a->super.member[m].role;

		if (!(a->seek.dropped & (1u << m)) || a->grow.work[m])
			continue;
		if (in_table(a, m, role))
			a->table_unname |= 1u << role;
		ddr_members_replace(a->members, m, NULL);
		a->seek.dropped &= ~(1u << m);
		any = true;
	}
	if (any)
		ddr_drive_seek_again(a->d, 0);
}

/*
 * Closes devices of former members. Verify always has a read in progress on current members; a disk that was removed must not stay
 * locked until verify has ended.
 */
static void close_old(struct ddr_array *a)
{
	if (!a->members->n_old || !no_readers(a) || growing(a) || !ddr_metaio_idle(a->meta))
		return;
	for (unsigned int i = a->members->n_old; i-- > 0;)
		if (!ddr_jobs_use(a->jobs, a->members->old[i].fd))
			ddr_members_close_old(a->members, i);
}

/* ---- the loop ---------------------------------------------------------------------- */

void ddr_drive_seek_again(struct ddr_daemon *d, uint64_t after_ms)
{
	struct qb_list_head *iter;

	qb_list_for_each(iter, &d->arrays) {
		struct ddr_array *a = qb_list_entry(iter, struct ddr_array, list);

		if (a->seek.at_ms == UINT64_MAX)
			a->seek.at_ms = ddr_now_ms() + after_ms;
		ddr_drive_wake(a);
	}
}

void ddr_drive_seek_tick(struct ddr_array *a, uint64_t now_ms)
{
	if (a->broken)
		return;
	let_go_replaced(a);
	if (a->seek.dropped && no_readers(a))
		let_go(a);
	install(a);
	close_old(a);
	call_back_locked(a, now_ms);
	if (a->broken)
		return;
	ddr_drive_return_tick(a, now_ms);
	if (!(a->seek.wanted | ddr_drive_returning(a)) || a->seek.finder || a->seek.ready || now_ms < a->seek.at_ms)
		return;
	a->seek.wanted = still_wanted(a);
	if (a->seek.wanted | ddr_drive_returning(a))
		look(a);
}

void ddr_drive_seek_stop(struct ddr_array *a)
{
	if (a->seek.finder)
		a->seek.finder->ctx = NULL;
	if (a->seek.ready)
		ddr_finder_free(a->seek.ready);
	memset(&a->seek, 0, sizeof(a->seek));
	a->table_unname = 0;
	ddr_drive_seek_again(a->d, 0);
}
