// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The stamps of this node's slot (format 2, rule I3): every two seconds one on each member that is part of the array. They show any machine that can read
 * the disks, whichever cluster it belongs to, that the owner of the slot lives.
 *
 * A member that does not hold what this node has put there is not written to before its superblocks were read (drive_check.c). Then the disk is another
 * one, and has failed; or it is the member's, and lost a write: this node begins again there; or it is the member's, and holds a claim or the stamp of
 * another owner, and still does after that: then the array is another machine's, and this node stops it.
 *
 * Without a cluster nobody declares a daemon dead that stood still, and nothing holds it when it goes on. But another machine may have adopted the array by
 * then, at the earliest when this node's kernel has stopped. So before that is let go on, all members are looked at in this way.
 *
 * Must never: go on with an array that another machine has claimed; stop one because of a disk that was not seen to be the member's.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <qb/qblog.h>
#include <uuid/uuid.h>

#include "daemon/array/drive.h"
#include "daemon/array/events.h"

#define STAMP_MS	DDR_REST_MS	/* at full multiples of the clock, when arrays that rest wake up anyway */

/* ---- what a stamp says ------------------------------------------------------------- */

/* False: this node has no slot on the disks yet, or is not known there by this instance. */
static bool make_stamp(struct ddr_array *a, struct ddr_stamp *stamp)
{
	uint32_t slot = ddr_sm_slot(a->sm);
	struct ddr_owner owner;
	char name[DDR_NODE_NAME_LEN];

	ddr_sm_owner(a->sm, slot, &owner);
	if (owner.node != a->d->transport->node(a->d) || owner.state != DDR_SLOT_OWNED || owner.instance.cookie != a->bind.cookie ||
	    memcmp(owner.instance.boot_id, a->d->boot_id, sizeof(a->d->boot_id)) != 0)
		return false;
	*stamp = (struct ddr_stamp){
		.slot = (uint16_t)slot, .kind = DDR_STAMP_OWNER, .generation = ddr_sm_super(a->sm)->generation, .node = owner.node, .instance = owner.instance,
		.time = (uint64_t)time(NULL), .stop_ms = (uint32_t)a->tune.daemon_timeout_ms,
	};
	memcpy(stamp->array_uuid, a->uuid, sizeof(stamp->array_uuid));
	memcpy(stamp->machine, a->d->ident.id.machine, sizeof(stamp->machine));
	a->d->transport->known_name(a->d, owner.node, name, sizeof(name));
	ddr_owner_name(stamp->name, name);
	return true;
}

bool ddr_drive_looks_first(struct ddr_array *a)
{
	struct ddr_stamp stamp;

	if (a->d->transport->cluster || !a->super.owner_pages || !a->d->ident.stored || !a->ready || a->broken || !make_stamp(a, &stamp))
		return false;
	qb_log(LOG_WARNING, "array '%s': the kernel has stopped its I/O because it did not hear of ddraidd; it goes on once the members show that no other machine "
	       "has taken the array over meanwhile", a->name);
	a->stamp.stopped = true;
	a->stamp.begun = a->stamp.done = a->stamp.good = 0;
	a->stamp.turn = 0;
	ddr_drive_check(a, UINT32_MAX);
	return true;
}

/* Has each member that is part of the array been looked at, and is one at least as it should be? A node that has no slot any more has nothing to lose. */
static bool looked_at(struct ddr_array *a)
{
	struct ddr_stamp stamp;

	if (!make_stamp(a, &stamp))
		return true;
	return !a->check.wanted && !a->check.out && !a->stamp.suspect && a->stamp.good && !(ddr_drive_in_use(a) & ~a->stamp.done);
}

/* The kernel, which had stopped, goes on. */
static void go_on(struct ddr_array *a)
{
	struct ddr_input *in;

	if (!a->stamp.stopped || a->broken || !looked_at(a))
		return;
	a->stamp.stopped = false;
	in = ddr_drive_input(a, DDR_IN_K_REC);
	in->rec = (struct ddr_rec){ .type = DDR_K_STOPPED, .member = DDR_NO_MEMBER };
	ddr_drive_step(a, in);
}

void ddr_drive_stamp_tick(struct ddr_array *a, uint64_t now_ms)
{
	struct ddr_stamp stamp;
	uint32_t members;

	go_on(a);
	if (!a->ready || a->broken || a->parting || a->cluster.gave_up || now_ms / STAMP_MS == a->stamp.turn)
		return;
	if (!a->super.owner_pages || !a->d->ident.stored || a->check.wanted || a->check.out || !make_stamp(a, &stamp))
		return;
	a->stamp.turn = now_ms / STAMP_MS;
	a->stamp.seen = a->stamp.suspect & a->check.done & a->check.fine;
	a->stamp.suspect &= ~a->check.done;
	members = ddr_drive_in_use(a) & ~a->stamp.suspect;
	for (unsigned int m = 0; members >> m; m++)
		if ((members >> m & 1) && ddr_metaio_stamp(a->meta, m, &stamp, &a->super))
			a->stamp.begun |= 1u << m;
	ddr_metaio_kick(a->meta);
}

/* ---- what was found instead ---------------------------------------------------------- */

bool ddr_drive_may_stamp(void *ctx, unsigned int member)
{
	const struct ddr_array *a = ctx;

	return a->ready && !a->broken && !a->cluster.gave_up && (ddr_drive_in_use(a) >> member & 1);
}

static void stop(struct ddr_array *a, unsigned int member, const struct ddr_stamp *found)
{
	struct ddr_output out = { .type = DDR_OUT_GIVE_UP, .event = DDR_EV_EVICTED };
	char text[DDR_ERROR_LEN], who[DDR_NODE_NAME + 1], machine[37];

	memcpy(who, found->name, DDR_NODE_NAME);
	who[DDR_NODE_NAME] = '\0';
	uuid_unparse_lower(found->machine, machine);
	snprintf(text, sizeof(text), "another machine %s (node %u, '%s', machine %s; member %u, slot %u). Two machines that use one array and do not belong to one "
		 "cluster destroy it. If it is to be used there, remove its device here (ddraid stop). If not, stop it there, and start it here: ddraid start --adopt %s",
		 found->kind == DDR_STAMP_CLAIM ? "has claimed the array: it was started there with --adopt" : "writes here as the owner of this node's slot",
		 found->node, who, machine, member, found->slot, a->name);
	a->broken = "another machine uses this array";
	a->stamp.taken = true;
	out.text = text;
	ddr_drive_give_up(a, &out);
}

static void begin_again(struct ddr_array *a, unsigned int member)
{
	char text[512];

	a->stamp.lost++;
	snprintf(text, sizeof(text), "member %u (%s) no longer holds the stamp that this node wrote there, but is still the member's disk: the disk lost a write, or went "
		 "back to an older state. Run ddraid verify %s, and replace the disk if this happens again", member, a->members->name[member], a->name);
	ddr_event_plain(a, LOG_ERR, "stamp-lost", text);
	ddr_metaio_stamp_afresh(a->meta, member);
}

/* @member did not hold what this node wrote there. */
static void other_stamp(struct ddr_array *a, unsigned int member, enum ddr_meta_stamped how, const struct ddr_stamp *found)
{
	if (!(a->stamp.seen >> member & 1)) {
		a->stamp.suspect |= 1u << member;
		a->check.done &= ~(1u << member);
		ddr_drive_check(a, 1u << member);
	} else if (how == DDR_STAMPED_TAKEN) {
		stop(a, member, found);
	} else {
		begin_again(a, member);
	}
}

void ddr_drive_stamped(void *ctx, unsigned int member, enum ddr_meta_stamped how, const struct ddr_stamp *found)
{
	struct ddr_array *a = ctx;

	if (a->broken || !(ddr_drive_in_use(a) >> member & 1))
		return;
	if (how == DDR_STAMPED_LOST || how == DDR_STAMPED_TAKEN) {
		other_stamp(a, member, how, found);
		return;
	}
	a->stamp.done |= a->stamp.begun & 1u << member;
	if (how == DDR_STAMPED_FINE)
		a->stamp.good |= a->stamp.begun & 1u << member;
}
