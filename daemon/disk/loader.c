// SPDX-License-Identifier: GPL-2.0-or-later
/* Loads an array. See loader.h. */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include <qb/qblog.h>
#include <uuid/uuid.h>

#include "daemon/base/clock.h"
#include "daemon/disk/finder.h"
#include "daemon/disk/load_lock.h"
#include "daemon/disk/load_supers.h"
#include "daemon/disk/loader.h"
#include "daemon/disk/state.h"
#include "lib/disk/layout.h"
#include "lib/disk/look.h"
#include "lib/disk/scan.h"

static int refuse(struct ddr_load *l, const char *what, uint64_t table, uint64_t super)
{
	return ddr_error_set(&l->error, "the table has %s %" PRIu64 ", the superblocks have %" PRIu64 "; use the line that `ddraid table` prints",
			     what, table, super);
}

/* Compares every field of the table with the superblock. */
static int check_table(struct ddr_load *l)
{
	const struct ddr_super *sb = &l->assembly.super;
	const struct ddr_bind *b = &l->bind;

	if (memcmp(b->uuid, sb->array_uuid, sizeof(b->uuid)))
		return ddr_error_set(&l->error, "the members do not belong to the array that the table names");
	if (b->order != sb->order)
		return refuse(l, "order", b->order, sb->order);
	if (b->parity != sb->parity)
		return refuse(l, "parity", b->parity, sb->parity);
	if (b->layout != sb->layout)
		return refuse(l, "layout", b->layout, sb->layout);
	if ((uint64_t)b->region_sectors * 512 != sb->region_size)
		return refuse(l, "region sectors", b->region_sectors, sb->region_size / 512);
	if (b->data_offset_sectors != sb->data_offset / 512)
		return refuse(l, "data offset sectors", b->data_offset_sectors, sb->data_offset / 512);
	if (b->sectors > sb->array_blocks * (DDR_BLOCK_SIZE / 512))	/* a shorter table is extended once the array runs */
		return refuse(l, "length in sectors", b->sectors, sb->array_blocks * (DDR_BLOCK_SIZE / 512));
	if (b->members != sb->roles)
		return refuse(l, "members", b->members, sb->roles);
	return 0;
}

/*
 * A device that the table names and that is current must be at the place of its role. A device that is not current (it failed, and
 * another one has its role by now) may be there: it is neither read nor written, and the state machine asks for another table.
 */
static int check_position(struct ddr_load *l, const struct ddr_load_supers *all, size_t c)
{
	const struct ddr_super *sb = &l->assembly.super, *own = all->cand[c].super;
	const char *device = all->cand[c].device;
	unsigned int p = all->place[c];
	uint16_t role;

	if (!own || p >= l->bind.members)
		return 0;
	if (memcmp(own->array_uuid, sb->array_uuid, sizeof(own->array_uuid)))
		return ddr_error_set(&l->error, "%s is a member of another array ('%s'); remove it from the table", device, own->name);
	/* the other nodes use the member: it must not be lost only because this node sees a smaller device */
	if (l->supers_only && l->assembly.verdict[c] == DDR_V_TOO_SMALL)
		return ddr_error_set(&l->error, "%s has %" PRIu64 " bytes on this node, the array needs %" PRIu64 "; rescan the disk so that this "
						"node sees its new size",
				     device, all->cand[c].bytes, ddr_layout_member_bytes(sb));
	/* the same: a running array loses it by ddraid fail, not because another node starts */
	if (l->supers_only && l->assembly.verdict[c] == DDR_V_FOREIGN)
		return ddr_error_set(&l->error, "%s also holds a %s, so another program has written to it; type ddraid fail %s %u on a node that "
				     "runs the array, then ddraid add --overwrite to rebuild it", device, all->cand[c].foreign, sb->name,
				     own->this_member);
	if (l->assembly.verdict[c] == DDR_V_FOREIGN)
		qb_log(LOG_ERR, "array '%s': %s is member %u, but also holds a %s, so another program has written to it. It is not used; ddraid "
		       "add --overwrite rebuilds it", sb->name, device, own->this_member, all->cand[c].foreign);
	if (l->assembly.verdict[c] != DDR_V_CURRENT)
		return 0;
	role = sb->member[own->this_member].role;
	if (role == DDR_ROLE_NONE)
		return ddr_error_set(&l->error, "%s has no role in array '%s' (%s); put '-' in its place in the table", device,
				     sb->name, ddr_member_state_name(sb->member[own->this_member].state));
	if (role != p)
		return ddr_error_set(&l->error, "%s is at position %u of the table, but holds role %u of array '%s'; use the line that `ddraid "
				     "table` prints", device, p, role, sb->name);
	return 0;
}

static int check_positions(struct ddr_load *l, const struct ddr_load_supers *all)
{
	for (size_t c = 0; c < all->n; c++)
		if (check_position(l, all, c))
			return -1;
	return 0;
}

/*
 * The operator has decided that the array starts from the generation found here (--older). From now on this node remembers that
 * generation, before anything else is done with it. Only the superblocks themselves can still refuse the start.
 */
static int override(struct ddr_load *l, const struct ddr_load_supers *all, const struct ddr_known *known)
{
	const struct ddr_super *sb = &l->assembly.super;
	int ret;

	if (ddr_assemble(all->cand, all->n, NULL, &l->assembly, &l->error))
		return -1;
	if (sb->generation != l->older.generation || memcmp(sb->gen_id, l->older.gen_id, sizeof(sb->gen_id)) != 0)
		return ddr_error_set(&l->error, "array '%s' is no longer at the generation that --older was given for; check its members (ddraid "
						"examine DEV...), and try again",
				     sb->name);
	ret = ddr_state_lower(l->state_dir, l->bind.uuid, &l->older);
	if (ret)
		return ddr_error_set(&l->error, "cannot record in %s that array '%s' is started from generation %" PRIu64 ": %s", l->state_dir,
				     sb->name,
				     l->older.generation, strerror(-ret));
	l->behind = known->generation;
	qb_log(LOG_WARNING, "array '%s': started from generation %" PRIu64 ", although generation %" PRIu64 " was seen, because the operator gave "
			    "--older", sb->name,
	       l->older.generation, known->generation);
	return 0;
}

static int assemble(struct ddr_load *l, const struct ddr_load_supers *all)
{
	struct ddr_known known;
	int ret;

	if (all->n == 0)
		return ddr_error_set(&l->error, "no member in the table can be opened");
	ret = ddr_state_load(l->state_dir, l->bind.uuid, &known);
	if (ret)
		return ddr_error_call(&l->error, -ret, "cannot read in %s which generation of the array was seen last: %s", l->state_dir, strerror(-ret));
	if (ddr_assemble(all->cand, all->n, known.generation ? &known : NULL, &l->assembly, &l->error) == 0)
		return 0;
	return l->older.generation && known.generation ? override(l, all, &known) : -1;
}

/* ---- members that the table names ------------------------------------------------- */

/*
 * Does the newest superblock that was read say that a member is in sync at this place? True as well if there is none. One that is being rebuilt there may have
 * another device, which the table does not name yet.
 */
static bool is_used(const struct ddr_load *l, const struct ddr_load_supers *all, unsigned int place)
{
	const struct ddr_super *newest = NULL;

	for (size_t c = 0; c < all->n; c++) {
		const struct ddr_super *sb = all->cand[c].super;

		if (sb && memcmp(sb->array_uuid, l->bind.uuid, sizeof(l->bind.uuid)) == 0 && (!newest || sb->generation > newest->generation))
			newest = sb;
	}
	for (unsigned int m = 0; newest && m < newest->members; m++)
		if (newest->member[m].role == place && newest->member[m].state == DDR_MEMBER_IN_SYNC)
			return true;
	return !newest;
}

/*
 * A member whose disk was exchanged for one of another array has failed, and the table still names its device. That must not keep the array from being
 * served when the daemon is restarted. A device of another array at the place of a member in sync is a wrong table, which is refused.
 * To be called after each read: while the array is loaded, the disk may be exchanged, and another node may fail the member.
 */
static void leave_out_failed(struct ddr_load *l, struct ddr_load_supers *all)
{
	static const char why[] = "holds a superblock of another array, and its member has failed";

	for (size_t c = 0; c < all->n; c++) {
		const struct ddr_super *sb = all->cand[c].super;

		if (!sb || all->place[c] >= l->bind.members || memcmp(sb->array_uuid, l->bind.uuid, sizeof(l->bind.uuid)) == 0 || is_used(l, all, all->place[c]))
			continue;
		ddr_load_leave_out(l, all->place[c], why);
		all->cand[c].super = NULL;
		all->cand[c].error = why;
	}
}

/*
 * Locks and reads the devices that the table names. A lock may be held by I/O of an earlier process that hangs. After the limit such
 * a member counts as absent, as if it hung for us, if the array can start without it: the next generation then lists it as missing,
 * so late writes to it are never read, and it is taken back when it is unlocked (drive_seek.c). If the array needs it, all that is
 * left is to wait.
 *
 * Returns 0 (assembled), 1 (these devices cannot be assembled, see l->error), or -1: cancelled, or a failure of this process.
 */
static int read_table_members(struct ddr_load *l, struct ddr_load_supers *all)
{
	uint64_t due_ms = ddr_now_ms() + l->limit_ms;
	struct ddr_members_busy who;
	uint32_t busy;

	for (;;) {
		if (ddr_load_lock(l, due_ms, &busy, &who))
			return -1;
		all->n = 0;
		if (ddr_load_supers_read(l, all, 0, busy) || ddr_load_supers_settle(l, all, busy) < 0 || ddr_load_foreign_read(l, all, 0))
			return -1;
		leave_out_failed(l, all);
		if (assemble(l, all) == 0)
			break;
		if (l->error.own)
			return -1;
		if (!busy)
			return 1;
		due_ms = UINT64_MAX;
	}
	ddr_load_leave_out_locked(l, busy, &who);
	return 0;
}

/* ---- members that no table names -------------------------------------------------- */

/*
 * Is a member elsewhere than the table says? A member may have taken over a place for which the table still names the old device.
 * Spares are searched for later, while the array runs (drive_seek.c).
 */
static bool some_are_elsewhere(const struct ddr_load *l)
{
	const struct ddr_super *sb = &l->assembly.super;

	for (unsigned int m = 0; m < sb->members; m++)
		if (l->assembly.device[m] < 0 && (sb->member[m].state == DDR_MEMBER_IN_SYNC || sb->member[m].state == DDR_MEMBER_REBUILDING))
			return true;
	return false;
}

/*
 * Is a device used that the table does not name? A spare is, and one that is being rebuilt. A member in sync is if the table names,
 * at its place, another member that it has replaced. Otherwise the table leaves it out, and that was deliberate.
 */
static bool counts(const struct ddr_load *l, const struct ddr_load_supers *all, const struct ddr_super *own)
{
	const struct ddr_member *m = &own->member[own->this_member];

	if (memcmp(own->array_uuid, l->bind.uuid, sizeof(l->bind.uuid)))
		return false;
	if (m->state != DDR_MEMBER_IN_SYNC)
		return m->state == DDR_MEMBER_SPARE || m->state == DDR_MEMBER_REBUILDING;
	for (size_t c = 0; c < all->n; c++) {
		const struct ddr_super *there = all->cand[c].super;

		if (all->place[c] == m->role)
			return there && memcmp(there->array_uuid, own->array_uuid, sizeof(own->array_uuid)) == 0 &&
			       there->this_member != own->this_member;
	}
	return false;
}

/* Another program may have had a device before it was locked: only what was read after that counts. */
static void forget_what_changed(struct ddr_load *l, struct ddr_load_supers *all, unsigned int from)
{
	size_t kept = 0;

	for (size_t c = 0; c < all->n; c++) {
		const struct ddr_super *own = all->cand[c].super;

		if (all->place[c] >= from && (!own || !counts(l, all, own))) {
			ddr_load_leave_out(l, all->place[c], "was overwritten while it was being opened");
			continue;
		}
		all->cand[kept] = all->cand[c];		/* the candidate points to its superblock and texts, which stay where they are */
		all->place[kept++] = all->place[c];
	}
	all->n = kept;
}

/*
 * Adds the devices of this machine that are used. Devices that cannot be read are not added, nor those that stay locked, unless they
 * are @needed.
 */
static int add_others(struct ddr_load *l, struct ddr_load_supers *all, bool needed)
{
	unsigned int from = l->members->n;
	struct ddr_scan_how how = { .limit_ms = l->limit_ms };
	struct ddr_members_busy who;
	dev_t named[DDR_MAX_MEMBERS];
	struct ddr_scan scan;
	struct ddr_error err;
	uint32_t busy;
	int ret = 0;

	for (unsigned int p = 0; p < from; p++)		/* they would not be added anyway, and may hang */
		if (l->members->named & (1u << p))
			named[how.n_leave_out++] = makedev(l->members->major[p], l->members->minor[p]);
	how.leave_out = named;
	if (ddr_scan_devices(&scan, &how, &err)) {
		if (err.own) {
			l->error = err;
			return -1;
		}
		qb_log(LOG_WARNING, "array '%s': cannot search the devices of this machine for spares: %s", l->members->array, err.text);
		return 0;
	}
	ddr_finder_tell_hung(&scan, l->members->array, l->limit_ms);
	for (size_t i = 0; i < scan.n && !ret; i++) {
		const struct ddr_supers *s = &scan.dev[i].supers;

		if (s->newest >= 0 && counts(l, all, &s->copy[s->newest].super))
			ret = ddr_members_add(l->members, scan.dev[i].path, l->limit_ms, &l->error);
	}
	ddr_scan_free(&scan);
	if (ret)
		return -1;
	if (l->members->n == from)
		return 0;
	if (ddr_load_lock(l, needed ? UINT64_MAX : ddr_now_ms() + l->limit_ms, &busy, &who))
		return -1;
	ddr_load_leave_out_locked(l, busy, &who);
	l->others_locked = busy != 0;
	if (ddr_load_supers_read(l, all, from, 0))
		return -1;
	ret = ddr_load_supers_settle(l, all, 0);
	if (ret < 0 || ddr_load_foreign_read(l, all, ret ? 0 : from))
		return -1;
	leave_out_failed(l, all);
	forget_what_changed(l, all, from);
	return 1;
}

/* ---- from places to members ------------------------------------------------------- */

/* Assigns the devices to members, whose numbers are known now; a member without a device gets what the table names at its place. */
static void arrange(struct ddr_load *l, const struct ddr_load_supers *all)
{
	const struct ddr_assembly *a = &l->assembly;
	int from[DDR_MAX_MEMBERS];

	for (unsigned int m = 0; m < a->super.members; m++) {
		int c = a->device[m] >= 0 ? a->device[m] : a->other[m];
		uint16_t role = a->super.member[m].role;

		from[m] = c >= 0 ? (int)all->place[c] : role < l->bind.members && !(l->members->open & (1u << role)) ? role : -1;
		if (a->device[m] < 0) {
			bool named = from[m] >= 0 && l->members->named & (1u << from[m]);

			/* a locked device was not read: it may be any missing member that the table does not name */
			if (named ? l->locked_at & (1u << from[m]) : l->others_locked)
				l->locked |= a->missing & (1u << m);
			continue;
		}
		l->present |= 1u << m;
		if (from[m] == role)
			l->table |= 1u << m;
	}
	ddr_members_arrange(l->members, from, a->super.members, l->present);
}

static int find_members(struct ddr_load *l, struct ddr_load_supers *all)
{
	int ret = read_table_members(l, all);

	if (ret < 0)
		return -1;
	if (ret || some_are_elsewhere(l)) {
		int more = add_others(l, all, ret != 0);

		if (more < 0)
			return -1;
		if (more)
			ret = assemble(l, all);
	}
	if (ret || check_table(l) || check_positions(l, all))
		return -1;
	if (ddr_super_ro_only(&l->assembly.super))
		return ddr_error_set(&l->error, "array '%s' uses features that this version can only read; start it with a newer version of ddraid",
				     l->assembly.super.name);
	arrange(l, all);
	return 0;
}

/*
 * Reads an area into what was loaded, like ddr_load_area(), except that a block that no member could deliver is no failure: it counts
 * as dirty then.
 */
static int load_area(struct ddr_load *l, uint16_t slot, struct ddr_load_block *out)
{
	uint64_t since = slot == DDR_MAP_SLOT ? 0 : l->owners.slot[slot].log_seq;

	switch (ddr_load_area(l->members, &l->assembly.super, l->present, slot, since, l->limit_ms, out)) {
	case -ENOMEM:
		return ddr_error_call(&l->error, ENOMEM, "out of memory");
	case -ETIMEDOUT:
		/* on a degraded array, dirty regions also become suspect: that must not happen for disks that will still answer */
		return ddr_error_set(&l->error, "array '%s': no member delivered its dirty log within %u ms; start the array when its disks answer",
				     l->assembly.super.name, l->limit_ms);
	}
	return 0;
}

/* A member that hangs by now counts as unreadable: the others have all that it has, and it fails when the array starts to write. */
static int read_log_and_map(struct ddr_load *l)
{
	const struct ddr_super *sb = &l->assembly.super;

	l->log = calloc((size_t)sb->slots * sb->log_blocks, sizeof(*l->log));
	l->map = calloc(sb->map_blocks, sizeof(*l->map));
	if (!l->log || !l->map)
		return ddr_error_call(&l->error, ENOMEM, "out of memory");
	for (uint32_t s = 0; s < sb->slots; s++)
		if (load_area(l, (uint16_t)s, l->log + (size_t)s * sb->log_blocks))
			return -1;
	return load_area(l, DDR_MAP_SLOT, l->map);
}

static void load(struct ddr_load *l)
{
	struct ddr_load_supers *all = calloc(1, sizeof(*all));

	if (!all || ddr_members_open(l->members, &l->bind, l->limit_ms, &l->error)) {
		if (!all)
			ddr_error_call(&l->error, ENOMEM, "out of memory");
		free(all);
		return;
	}
	for (unsigned int p = 0; p < l->members->n; p++)
		if (l->members->error[p][0])
			qb_log(LOG_WARNING, "array '%s': %s; it counts as missing", l->members->array, l->members->error[p]);
	l->ok = find_members(l, all) == 0;
	if (l->ok)
		l->owners = all->s[l->assembly.source].owners;
	/* the log and the map are of value only once nobody writes them any more */
	l->ok = l->ok && ddr_claim_slots(l) == 0 && (l->supers_only || read_log_and_map(l) == 0);
	free(all);
}

static void run(struct ddr_worker *w)
{
	load(ddr_worker_of(w, struct ddr_load, worker));
}

static void done(struct ddr_worker *w)
{
	struct ddr_load *l = ddr_worker_of(w, struct ddr_load, worker);

	l->done(l->ctx);
}

int ddr_load_start(struct ddr_load *l, qb_loop_t *loop)
{
	l->worker.run = run;
	l->worker.done = done;
	l->members = ddr_members_new();
	if (l->members)
		uuid_unparse_lower(l->bind.uuid, l->members->array);	/* until the name is known */
	return l->members ? ddr_worker_start(&l->worker, loop) : -ENOMEM;
}

void ddr_load_cancel(struct ddr_load *l)
{
	atomic_store(&l->cancel, true);
}

void ddr_load_free(struct ddr_load *l)
{
	if (!l)
		return;
	ddr_members_put(l->members);
	free(l->log);
	free(l->map);
	free(l);
}
