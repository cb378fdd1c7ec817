// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The table of our kernel: makes it name the device of a member that took over a place, and binds to a table that was resumed without
 * leaving the group if all of its devices are known.
 *
 * Must never: answer for a table that was not loaded; take over a table with devices whose superblocks were not read.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <qb/qblog.h>

#include "daemon/array/drive.h"
#include "daemon/array/events.h"
#include "daemon/kernel/table.h"

#define AGAIN_MS	1000u	/* between two attempts, if the first one failed because of this process */

/* ---- TABLE ----------------------------------------------------------------------- */

void ddr_drive_table_output(struct ddr_array *a, const struct ddr_output *o)
{
	if (o->member == DDR_NO_MEMBER) {
		a->table_unshadow = true;
		return;
	}
	a->table_asked |= 1u << o->member;
	a->table_place[o->member] = (uint8_t)o->index;
}

static void answer(struct ddr_array *a, uint32_t member, uint32_t index, int result)
{
	struct ddr_input *in = ddr_drive_input(a, DDR_IN_TABLE_DONE);

	in->member = member;
	in->value = index;
	in->result = result;
	ddr_drive_step(a, in);
}

/* The kernel uses it as a replacement, beside the device at its place. */
static bool beside(const struct ddr_array *a, uint32_t member, uint32_t index)
{
	return index != DDR_UAPI_SHADOW && a->bind.shadow_place == index && a->bind.dev_major[DDR_UAPI_SHADOW] == a->members->major[member] &&
	       a->bind.dev_minor[DDR_UAPI_SHADOW] == a->members->minor[member];
}

static void refuse(struct ddr_array *a, uint32_t member, uint32_t index, const char *why, int error)
{
	const char *name = a->members->name[member][0] ? a->members->name[member] : "no device";
	char text[DDR_ERROR_LEN];

	if (beside(a, member, index))
		snprintf(text, sizeof(text), "this node's table still references the disk replaced by member %u (%s) and keeps it open: %.300s",
			 member, name, why);
	else
		snprintf(text, sizeof(text), "member %u (%s) cannot be added to the device table on this node: %.300s", member, name, why);
	ddr_event_plain(a, LOG_ERR, "table-failed", text);
	answer(a, member, index, error);
}

/* The table was not changed because of this process (@error): that is no failure of the member. True: it is tried again. */
static bool again(struct ddr_array *a, uint32_t member, int error)
{
	if (error != -EAGAIN && !ddr_own_failure(-error))
		return false;
	qb_log(LOG_WARNING, "array '%s': the device table could not be changed for member %u on this node: %s; trying again every %u s", a->name, member,
	       strerror(-error), AGAIN_MS / 1000);
	a->table_asked |= 1u << member;
	a->table_ms = ddr_now_ms() + AGAIN_MS;
	return true;
}

static void resize_failed(struct ddr_array *a, const char *why)
{
	char text[DDR_ERROR_LEN];

	snprintf(text, sizeof(text), "the device on this node still has %" PRIu64 " bytes, the array has %" PRIu64 ": %.300s; retrying",
		 (uint64_t)a->bind.sectors * 512, ddr_sm_super(a->sm)->array_blocks * DDR_BLOCK_SIZE, why);
	ddr_event_plain(a, LOG_ERR, "resize-failed", text);
}

/* The kernel reports its new table by RESUMED. ddr_drive_rebind() then informs the state machine. */
static void on_table(void *ctx, struct ddr_table *t)
{
	uint32_t index = t->shadow ? DDR_UAPI_SHADOW : t->place;
	struct ddr_array *a = ctx;

	if (a)
		a->table = NULL;
	if (a && t->sectors) {
		if (t->result && t->result != -EALREADY)
			resize_failed(a, t->error.text);
	} else if (a && t->member == DDR_NO_MEMBER) {
		if (t->result && t->result != -EALREADY)
			qb_log(LOG_WARNING, "array '%s': the table still references a device that is no longer used, and is changed again in a moment: %s", a->name,
			       t->error.text);
		if (t->shadow && t->result)
			answer(a, t->member, index, t->result == -EALREADY ? 0 : t->result);
	} else if (a) {
		if (t->result == -EALREADY)
			answer(a, t->member, index, 0);
		else if (t->result && !again(a, t->member, t->result))
			refuse(a, t->member, index, t->error.text, t->result);
	}
	ddr_table_free(t);
}

/*
 * @place: DDR_UAPI_SHADOW: @member is named as the replacement of the device at its role. @member: DDR_NO_MEMBER: the table must not
 * name a device there. @sectors: not 0: the table only gets this length, and nothing else changes.
 */
static int load_table(struct ddr_array *a, uint32_t member, uint32_t place, uint64_t sectors)
{
	struct ddr_table *t = calloc(1, sizeof(*t));
	int ret;

	if (!t)
		return -ENOMEM;
	memcpy(t->uuid, a->uuid, sizeof(t->uuid));
	t->dm_major = a->bind.dm_major;
	t->dm_minor = a->bind.dm_minor;
	t->sectors = sectors;
	t->shadow = place == DDR_UAPI_SHADOW;
	t->place = !t->shadow ? place : member == DDR_NO_MEMBER ? 0 : ddr_sm_super(a->sm)->member[member].role;
	t->major = member == DDR_NO_MEMBER ? 0 : a->members->major[member];
	t->minor = member == DDR_NO_MEMBER ? 0 : a->members->minor[member];
	t->member = member;
	t->done = on_table;
	t->ctx = a;
	ret = ddr_table_start(t, a->d->loop);
	if (ret)
		ddr_table_free(t);
	else
		a->table = t;
	return ret;
}

void ddr_drive_table_tick(struct ddr_array *a)
{
	uint32_t now = ddr_now_ms() < a->table_ms ? 0 : a->table_asked;	/* an answer may make the state machine ask again at once: that is for the next tick */

	while ((now &= a->table_asked) && !a->table && !a->broken) {
		uint32_t member = (uint32_t)__builtin_ctz(now), place = a->table_place[member];
		int ret;

		now &= now - 1;
		a->table_asked &= ~(1u << member);
		if (ddr_members_fd(a->members, member) < 0) {
			refuse(a, member, place, "its device was not found when the array was attached", -ENODEV);
			continue;
		}
		ret = load_table(a, member, place, 0);
		if (ret && !again(a, member, ret))
			refuse(a, member, place, strerror(-ret), ret);
	}
	if (a->table_unshadow && !a->table && !a->broken && load_table(a, DDR_NO_MEMBER, DDR_UAPI_SHADOW, 0) == 0)
		a->table_unshadow = false;
	if (a->table_unname && !a->table && !a->broken) {
		uint32_t place = (uint32_t)__builtin_ctz(a->table_unname);

		if (load_table(a, DDR_NO_MEMBER, place, 0) == 0)
			a->table_unname &= ~(1u << place);
	}
}

void ddr_drive_table_resize(struct ddr_array *a, uint64_t sectors)
{
	int ret = load_table(a, DDR_NO_MEMBER, 0, sectors);

	if (ret)
		resize_failed(a, strerror(-ret));
}

void ddr_drive_table_stop(struct ddr_array *a)
{
	if (a->table)
		ddr_table_forget(a->table);
	a->table = NULL;
	a->table_asked = 0;
	a->table_ms = 0;
	a->table_unshadow = false;
}

/* ---- after a bind ------------------------------------------------------------------ */

void ddr_drive_configure_kernel(struct ddr_array *a)
{
	struct ddr_rec timeout = { .type = DDR_U_CONFIG, .member = DDR_NO_MEMBER,
				   .arg = { DDR_KC_TIMEOUT_MS, a->tune.daemon_timeout_ms } };
	struct ddr_rec ahead = { .type = DDR_U_CONFIG, .member = DDR_NO_MEMBER,
				 .arg = { DDR_KC_AHEAD, a->tune.grant_ahead } };

	ddr_drive_to_kernel(a, &timeout);
	ddr_drive_to_kernel(a, &ahead);
	ddr_kchan_flush(a->chan);
}

/* The member that replaces another one in the table, if it has that one's role. */
static uint32_t shadow_of(const struct ddr_array *a)
{
	uint32_t m = a->bind.shadow_place == DDR_NO_MEMBER ? DDR_NO_MEMBER :
		     ddr_members_by_device(a->members, a->bind.dev_major[DDR_UAPI_SHADOW], a->bind.dev_minor[DDR_UAPI_SHADOW]);

	if (m == DDR_NO_MEMBER || ddr_sm_super(a->sm)->member[m].role != a->bind.shadow_place || ddr_members_fd(a->members, m) < 0)
		return DDR_NO_MEMBER;
	return m;
}

void ddr_drive_attached(struct ddr_array *a, uint32_t table)
{
	struct ddr_input *in = ddr_drive_input(a, DDR_IN_K_ATTACHED);

	in->cookie = a->bind.cookie;
	in->members = table;
	in->count = a->bind.sectors / (DDR_BLOCK_SIZE / 512);
	in->member = shadow_of(a);
	in->value = (a->bind.shadow_place != DDR_NO_MEMBER ? DDR_SHADOW_NAMED : 0) | (a->bind.shadow_state != DDR_KM_OUT ? DDR_SHADOW_USED : 0);
	memcpy(in->boot_id, a->d->boot_id, sizeof(in->boot_id));
	ddr_drive_step(a, in);
}

/* ---- a table that was resumed ----------------------------------------------------- */

/* It may be longer, up to the size of the array. */
static bool same_shape(const struct ddr_array *array, const struct ddr_bind *b)
{
	const struct ddr_bind *a = &array->bind;
	uint64_t most = ddr_sm_super(array->sm)->array_blocks * (DDR_BLOCK_SIZE / 512);

	return a->cookie == b->cookie && a->order == b->order && a->parity == b->parity && a->layout == b->layout &&
	       a->region_sectors == b->region_sectors && a->members == b->members && a->sectors <= b->sectors &&
	       b->sectors <= (most > a->sectors ? most : a->sectors) &&
	       a->data_offset_sectors == b->data_offset_sectors && a->dm_major == b->dm_major && a->dm_minor == b->dm_minor;
}

/* The members whose devices @bind names at their roles. */
static uint32_t members_of(const struct ddr_array *a, const struct ddr_bind *bind)
{
	const struct ddr_super *sb = ddr_sm_super(a->sm);
	uint32_t table = 0;

	for (unsigned int p = 0; p < bind->members; p++) {
		uint32_t m = ddr_members_by_device(a->members, bind->dev_major[p], bind->dev_minor[p]);

		if (m != DDR_NO_MEMBER && sb->member[m].role == p && !(sb->member[m].flags & DDR_MEMBER_F_REPLACING) && ddr_members_fd(a->members, m) >= 0)
			table |= 1u << m;
	}
	return table;
}

/*
 * Does a working member belong at this place? A table without it was made deliberately; then the array is loaded again, which decides
 * about it.
 */
static bool place_works(const struct ddr_super *sb, unsigned int place)
{
	for (unsigned int m = 0; m < sb->members; m++)
		if (sb->member[m].role == place && (sb->member[m].state == DDR_MEMBER_IN_SYNC || sb->member[m].state == DDR_MEMBER_REBUILDING))
			return true;
	return false;
}

/* Has the superblock of every device that is new in this table been read? */
static bool all_known(const struct ddr_array *a, const struct ddr_bind *bind)
{
	for (unsigned int p = 0; p < DDR_UAPI_PLACES; p++) {
		uint32_t major = bind->dev_major[p], minor = bind->dev_minor[p];
		uint32_t m = ddr_members_by_device(a->members, major, minor);
		bool known = m != DDR_NO_MEMBER && ddr_members_fd(a->members, m) >= 0;

		if (major == a->bind.dev_major[p] && minor == a->bind.dev_minor[p])
			continue;
		if (major || minor ? !known : p != DDR_UAPI_SHADOW && place_works(ddr_sm_super(a->sm), p))
			return false;
	}
	return true;
}

bool ddr_drive_rebind(struct ddr_array *a, const struct ddr_kchan_ops *ops)
{
	struct ddr_bind bind = { .timeout_ms = (uint32_t)a->tune.daemon_timeout_ms };
	struct ddr_kchan *chan;

	if (!a->sm || a->broken || a->parting || a->cluster.lost || a->cluster.gave_up)
		return false;
	memcpy(bind.uuid, a->uuid, sizeof(bind.uuid));
	if (ddr_kchan_open(&chan, a->d->loop, &bind, ops, a))
		return false;
	if (!same_shape(a, &bind) || !all_known(a, &bind) || ddr_kchan_start(chan)) {
		ddr_kchan_close(chan);
		return false;
	}
	ddr_kchan_close(a->chan);
	a->chan = chan;
	a->bind = bind;
	a->ready = false;
	qb_log(LOG_INFO, "array '%s': bound to the resumed table", a->name);
	ddr_drive_configure_kernel(a);
	ddr_drive_attached(a, members_of(a, &bind));
	return true;
}
