// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Does each device still hold its member? A LUN may be remapped, or a mapped device may get another table, below a running array. The
 * contents of a member are read before each change of its superblock (metaio_super.c), and here: when the kernel reports a change of
 * the device, or its reports were lost; when this process stood still; and, in a cluster, when the group has agreed on a new
 * generation, which only one node has written. And do they still name this node's cluster? If not, another one has adopted the array (drive_stamp.c).
 *
 * Also: does each member answer (stall.h)?
 *
 * Must never: write; treat a device whose superblocks cannot be read as one that holds another disk.
 */
#include <inttypes.h>
#include <stdio.h>

#include <qb/qblog.h>

#include "daemon/array/drive.h"
#include "daemon/array/events.h"
#include "daemon/kernel/uevent.h"

#define SETTLE_MS	300u	/* a device's node, and the layers on top of it, appear a little later than the device */
#define PAUSE_MS	1000u	/* between two checks: a device may have many events in a row */

void ddr_drive_exchanged(void *ctx, unsigned int member)
{
	struct ddr_array *a = ctx;
	struct ddr_input *in;
	char text[512];

	snprintf(text, sizeof(text), "member %u (%s) is now another disk: two reads found %s. ddraid writes nothing more to it and fails the "
		 "member. Find out what replaced the disk (a remapped LUN, a device-mapper table). When the device is the member's own disk again: "
		 "ddraid add %s %s", member, a->members->name[member], a->members->found[member], a->name, a->members->name[member]);
	ddr_event_plain(a, LOG_CRIT, "exchanged", text);
	in = ddr_drive_input(a, DDR_IN_EXCHANGED);
	in->member = member;
	ddr_drive_step(a, in);
}

/* ---- members that hang ----------------------------------------------------------- */

static uint32_t watched(void *ctx)
{
	struct ddr_array *a = ctx;
	const struct ddr_super *sb = ddr_sm_super(a->sm);
	uint32_t members = 0;

	for (unsigned int m = 0; m < sb->members; m++)
		if (sb->member[m].state == DDR_MEMBER_IN_SYNC || sb->member[m].state == DDR_MEMBER_REBUILDING)
			members |= 1u << m;
	return members;
}

static bool asked(void *ctx, unsigned int m, uint64_t *ended)
{
	return ddr_metaio_stamping(((struct ddr_array *)ctx)->meta, m, ended);
}

static void hangs(void *ctx, unsigned int m, uint64_t ms)
{
	struct ddr_array *a = ctx;
	char text[DDR_DEVICE_PATH_LEN + 128];

	snprintf(text, sizeof(text), "member %u (%s) has not answered for %" PRIu64 " s", m, a->members->name[m], ms / 1000);
	ddr_event_plain(a, LOG_ERR, "hangs", text);
	ddr_drive_fail(a, m);		/* if it cannot fail, the state machine says why */
}

void ddr_drive_stall_start(struct ddr_array *a)
{
	a->stall = (struct ddr_stall){ .watched = watched, .asked = asked, .hangs = hangs, .ctx = a, .members = a->members };
}

/* ---- members that may hold another disk ------------------------------------------- */

void ddr_drive_check(struct ddr_array *a, uint32_t members)
{
	a->check.wanted |= members;
	ddr_drive_wake(a);
}

/* This device may be another disk now. */
static void check_device(struct ddr_daemon *d, uint32_t major, uint32_t minor)
{
	struct qb_list_head *iter;

	qb_list_for_each(iter, &d->arrays) {
		struct ddr_array *a = qb_list_entry(iter, struct ddr_array, list);
		uint32_t m = a->members ? ddr_members_by_device(a->members, major, minor) : DDR_NO_MEMBER;

		if (m != DDR_NO_MEMBER)
			ddr_drive_check(a, 1u << m);
	}
}

static void check_all(struct ddr_daemon *d)
{
	struct qb_list_head *iter;

	qb_list_for_each(iter, &d->arrays)
		ddr_drive_check(qb_list_entry(iter, struct ddr_array, list), UINT32_MAX);
}

void ddr_drive_uevent(struct ddr_daemon *d, const struct ddr_uevent *e)
{
	ddr_drive_seek_again(d, SETTLE_MS);
	if (e->lost)
		check_all(d);
	if (!e->device)
		return;
	check_device(d, e->major, e->minor);
	if (e->path_back)
		ddr_drive_path_is_back(d, e->major, e->minor);
}

void ddr_drive_whose(struct ddr_array *a, struct ddr_meta_op *op, const uint8_t next[DDR_UUID_LEN])
{
	uint8_t cluster[3][DDR_UUID_LEN];

	if (!a->super.owner_pages)
		return;
	memcpy(cluster[0], a->owners.cluster, DDR_UUID_LEN);
	memcpy(cluster[1], ddr_sm_cluster(a->sm), DDR_UUID_LEN);
	if (next)
		memcpy(cluster[2], next, DDR_UUID_LEN);
	else
		a->d->transport->cluster_id(a->d, cluster[2]);
	ddr_metaio_whose(op, cluster, 3, ddr_sm_super(a->sm)->generation, &a->super);
}

void ddr_drive_checked(struct ddr_array *a, uint32_t failed)
{
	uint32_t unread = failed & ~a->members->exchanged;

	a->check.out = false;
	a->check.done |= a->check.asked;
	a->check.fine = (a->check.fine & ~a->check.asked) | (a->check.asked & ~failed);
	for (unsigned int m = 0; unread >> m; m++)
		if (unread >> m & 1)
			ddr_drive_fail(a, m);	/* if it cannot fail, the state machine says why */
}

uint32_t ddr_drive_in_use(const struct ddr_array *a)
{
	const struct ddr_super *sb = ddr_sm_super(a->sm);
	uint32_t members = 0;

	for (unsigned int m = 0; m < sb->members; m++)
		if (sb->member[m].state != DDR_MEMBER_FAULTY && sb->member[m].state != DDR_MEMBER_MISSING && ddr_members_fd(a->members, m) >= 0)
			members |= 1u << m;
	return members;
}

void ddr_drive_check_tick(struct ddr_array *a, uint64_t now_ms)
{
	struct ddr_meta_op *op;
	uint32_t members;

	if (!a->check.wanted || !a->ready || a->broken || a->check.out || now_ms < a->check.at_ms)
		return;
	members = a->check.wanted & ddr_drive_in_use(a);
	a->check.wanted = 0;
	a->check.at_ms = now_ms + PAUSE_MS;
	if (!members)
		return;
	op = ddr_metaio_get(a->meta, DDR_META_CHECK, 0, members);
	ddr_metaio_supers(op, ddr_sm_super(a->sm), ddr_sm_super(a->sm));
	ddr_drive_whose(a, op, NULL);
	a->check.out = true;
	a->check.asked = members;
	ddr_metaio_run(op, now_ms, a->tune.io_timeout_ms);
	ddr_metaio_kick(a->meta);
}
