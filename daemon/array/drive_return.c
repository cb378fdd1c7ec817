// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Members whose disk was gone are taken back automatically: a disk that was late when the array was started, that was pulled, or
 * whose last path was lost. As soon as the disk is there again, this node asks for it as `ddraid add` would, and the member gets what
 * it has missed.
 *
 * Not taken back are: a disk that failed while it was there (it would fail again), a member that the operator failed on this node,
 * one whose place was taken by another one, and one that was gone again and again.
 *
 * Must never: take back a member whose disk was there all the time.
 */
#include <string.h>

#include <qb/qblog.h>

#include "daemon/array/drive.h"

#define GONE_MS		300000u	/* a disk that disappears within this time after its member failed was already failing because of that */
#define FAIL_MS		60000u	/* time for all nodes to agree that a member failed at the operator's request */
#define LOOK_MS		5000u	/* between two checks whether the disk is gone */
#define TIMES		3u	/* how often a member is taken back ... */
#define WITHIN_MS	3600000u	/* ... within this time; after that only the operator can do it */

static bool is_out(const struct ddr_super *sb, unsigned int m)
{
	return m < sb->members && (sb->member[m].state == DDR_MEMBER_FAULTY || sb->member[m].state == DDR_MEMBER_MISSING);
}

void ddr_drive_return_start(struct ddr_array *a, const struct ddr_load *l)
{
	memset(&a->back, 0, sizeof(a->back));
	a->back.away = ddr_assembly_absent(&l->assembly) & ~l->locked;
	for (unsigned int m = 0; m < l->assembly.super.members; m++)
		a->back.in |= is_out(&l->assembly.super, m) ? 0 : 1u << m;
}

static void was_away(struct ddr_array *a, unsigned int m)
{
	ddr_drive_wake(a);
	a->back.away |= 1u << m;
	a->back.watched &= ~(1u << m);
	a->seek.at_ms = 0;		/* the disk may be there again already */
}

/* Members that failed since the last tick: did their disk disappear? The kernel may report that a little later. */
static void watch(struct ddr_array *a, unsigned int m, uint64_t now_ms)
{
	uint32_t bit = 1u << m;

	if (!is_out(ddr_sm_super(a->sm), m)) {
		if (!(a->back.in & bit) || now_ms >= a->back.out_ms[m] + FAIL_MS)
			a->back.by_hand &= ~bit;	/* it is back, or it did not fail */
		a->back.in |= bit;
		a->back.watched &= ~bit;
		return;
	}
	if (a->back.in & bit) {
		a->back.in &= ~bit;
		a->back.watched |= a->back.by_hand & bit ? 0 : bit;
		a->back.out_ms[m] = a->back.look_ms[m] = now_ms;
	}
	if (!(a->back.watched & bit) || now_ms < a->back.look_ms[m])
		return;
	a->back.look_ms[m] = now_ms + LOOK_MS;
	if ((a->members->open & bit) && ddr_dev_gone(a->members->dev[m].fd))
		was_away(a, m);
	else if (now_ms >= a->back.out_ms[m] + GONE_MS)
		a->back.watched &= ~bit;
}

uint32_t ddr_drive_returning(const struct ddr_array *a)
{
	const struct ddr_super *sb = ddr_sm_super(a->sm);
	uint32_t members = 0;

	if (!a->ready || !a->tune.take_back || !sb->parity || a->clean_asked)
		return 0;
	for (unsigned int m = 0; m < sb->members; m++)
		if ((a->back.away & (1u << m)) && is_out(sb, m) && sb->member[m].role != DDR_ROLE_NONE)
			members |= 1u << m;
	return members;
}

void ddr_drive_return_tick(struct ddr_array *a, uint64_t now_ms)
{
	for (unsigned int m = 0; m < ddr_sm_super(a->sm)->members; m++)
		watch(a, m, now_ms);
}

void ddr_drive_return_found(struct ddr_array *a, unsigned int m)
{
	uint64_t now = ddr_now_ms();
	const char *why;

	if (now >= a->back.first_ms[m] + WITHIN_MS || !a->back.times[m]) {
		a->back.first_ms[m] = now;
		a->back.times[m] = 0;
	}
	if (a->back.times[m] >= TIMES) {
		qb_log(LOG_WARNING, "array '%s': the disk of member %u is back, for time %u within an hour, so it is no longer taken back "
		       "automatically. Check its cable, slot and power, then type: ddraid add %s %s", a->name, m, TIMES + 1, a->name,
		       a->members->name[m]);
		a->back.away &= ~(1u << m);
		return;
	}
	why = ddr_drive_seek(a, m);
	if (why) {
		qb_log(LOG_INFO, "array '%s': the disk of member %u is back, but is not taken back yet: %s", a->name, m, why);
		return;
	}
	a->back.away &= ~(1u << m);
	a->back.times[m]++;
	qb_log(LOG_NOTICE, "array '%s': the disk of member %u is back: taking it back", a->name, m);
}

/* The member is not taken back automatically. */
static void by_hand(struct ddr_array *a, uint32_t member)
{
	if (member >= DDR_MAX_MEMBERS)
		return;
	a->back.by_hand |= 1u << member;
	a->back.away &= ~(1u << member);
	a->back.watched &= ~(1u << member);
	a->back.out_ms[member] = ddr_now_ms();
}

const char *ddr_drive_fail_by_hand(struct ddr_array *a, uint32_t member)
{
	by_hand(a, member);
	return ddr_drive_fail(a, member);
}

void ddr_drive_path_is_back(struct ddr_daemon *d, uint32_t major, uint32_t minor)
{
	struct qb_list_head *iter;

	qb_list_for_each(iter, &d->arrays) {
		struct ddr_array *a = qb_list_entry(iter, struct ddr_array, list);
		uint32_t m = a->state == DDR_ARRAY_RUNNING ? ddr_members_by_device(a->members, major, minor) : DDR_NO_MEMBER;

		if (m != DDR_NO_MEMBER && is_out(ddr_sm_super(a->sm), m) && !(a->back.by_hand & (1u << m)))
			was_away(a, m);
	}
}
