// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The stamps of this node's slot (format 2, rule I3): every two seconds one on each member that is part of the array. They show any machine that can read
 * the disks, whichever cluster it belongs to, that the owner of the slot lives.
 *
 * A member that does not hold what this node has put there is not written to before its superblocks were read (drive_check.c). Then the disk is another
 * one, and has failed; or it is the member's, and lost a write: this node begins again there; or it is the member's, and holds a claim or the stamp of
 * another owner, and still does after that: then the array is another machine's, and this node stops it.
 *
 * Without a cluster nobody declares a daemon dead that stood still. But another machine may have adopted the array by then. So the array is held
 * (daemon/base/still.h) until all members were looked at in this way, of which the first part only reads; and before a kernel that had stopped is let go on,
 * they are looked at again. Where nothing on the disks shows yet that this node has the array, it is loaded again.
 *
 * Must never: go on with an array that another machine has claimed; stop one because of a disk that was not seen to be the member's.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <qb/qblog.h>
#include <uuid/uuid.h>

#include "daemon/array/drive.h"
#include "daemon/array/events.h"
#include "daemon/base/waited.h"

#define STAMP_MS	DDR_REST_MS	/* at full multiples of the clock, when arrays that rest wake up anyway */
#define LOOK_MS		500u		/* between two looks at the pairs, while the array is held */

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

/* The array was held for the same standstill, and its members have just been looked at. */
static bool just_looked(const struct ddr_array *a)
{
	return a->look.good_ms && ddr_still_now() - a->look.good_ms < DDR_STILL_MS;
}

bool ddr_drive_looks_first(struct ddr_array *a)
{
	struct ddr_stamp stamp;

	if (just_looked(a) || a->d->transport->cluster || !a->super.owner_pages || !a->d->ident.stored || !a->ready || a->broken || !make_stamp(a, &stamp))
		return false;
	qb_log(LOG_WARNING, "array '%s': the kernel has stopped its I/O because it did not hear of ddraidd; it goes on once the members show that no other machine "
	       "has taken the array over meanwhile", a->name);
	a->stamp.stopped = true;
	a->stamp.begun = a->stamp.done = a->stamp.good = 0;
	a->stamp.turn = 0;
	ddr_drive_check(a, UINT32_MAX);
	return true;
}

/* A member has shown something else, and has not been read again: also if it was as it should be before. */
static bool in_doubt(const struct ddr_array *a)
{
	return a->stamp.doubt & ddr_drive_in_use(a);
}

/* Has each member that is part of the array been looked at, and is one at least as it should be? A node that has no slot any more has nothing to lose. */
static bool looked_at(struct ddr_array *a)
{
	struct ddr_stamp stamp;

	if (!make_stamp(a, &stamp))
		return true;
	return !a->check.wanted && !a->check.out && !in_doubt(a) && a->stamp.good && !(ddr_drive_in_use(a) & ~a->stamp.done);
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

/* Members that are asked in this turn; of the suspects, it is known by now whether their superblocks are theirs. */
static uint32_t turn(struct ddr_array *a)
{
	a->stamp.seen = a->stamp.suspect & a->check.done & a->check.fine;
	a->stamp.suspect &= ~a->check.done;
	return ddr_drive_in_use(a) & ~a->stamp.suspect;
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
	members = turn(a);
	for (unsigned int m = 0; members >> m; m++)
		if ((members >> m & 1) && ddr_metaio_stamp(a->meta, m, &stamp, &a->super))
			a->stamp.begun |= 1u << m;
	ddr_metaio_kick(a->meta);
}

/* ---- an array that is held ------------------------------------------------------------- */

struct ddr_still *ddr_drive_still(const struct ddr_array *a)
{
	if (a->d->transport->cluster)
		return &a->d->still;
	return a->load ? &a->load->still : a->members ? &a->members->still : NULL;
}

void ddr_drive_watch(struct ddr_array *a)
{
	struct ddr_still *still = ddr_drive_still(a);

	if (still == &a->d->still)
		return;
	still->looks = true;
	ddr_still_watch(still);
}

/* Members that hold what this node has put there, as far as it knows: only these can show whether somebody has overwritten it. */
static uint32_t marked(struct ddr_array *a, struct ddr_stamp *stamp)
{
	return a->ready && make_stamp(a, stamp) ? ddr_drive_in_use(a) & ddr_metaio_stamped(a->meta) : 0;
}

static void begin_look(struct ddr_array *a, const struct ddr_still *still)
{
	if (!a->look.since_ms)
		qb_log(LOG_WARNING, "array '%s': ddraidd did not run for %" PRIu64 " ms; another machine may have taken the array over meanwhile, so nothing is written, "
		       "and its kernel gets no answers, until the members show that none has", a->name, still->stood_ms);
	a->look.since_ms = still->since_ms;
	a->look.at_ms = a->look.due_ms = a->look.good_ms = 0;
	a->stamp.begun = a->stamp.done = a->stamp.good = 0;
	a->check.at_ms = 0;
	ddr_drive_check(a, UINT32_MAX);
}

/* Nothing of what is held counts as late. */
static void lend(struct ddr_array *a, uint64_t now_ms, bool begins)
{
	uint64_t ms = now_ms - a->tick_ms;

	a->tick_ms = now_ms;
	a->waited_ms = ddr_waited_ms();
	a->rest_ms = 0;
	if (begins)
		ddr_metaio_delay(a->meta, ms);
	else
		ddr_metaio_delay_held(a->meta, ms);
	ddr_jobs_delay(a->jobs, ms);
	ddr_stall_delay(&a->stall, ms);
	ddr_drive_grow_delay(a, ms);
}

/* Reads the pairs, again and again until the last one has ended: what was read first gets old. */
static void look(struct ddr_array *a, uint64_t now_ms, const struct ddr_stamp *stamp)
{
	uint64_t begun_ms = ddr_still_now();
	uint32_t members;

	if (a->check.wanted || a->check.out || now_ms < a->look.at_ms)
		return;
	a->look.at_ms = now_ms + LOOK_MS;
	if (!a->look.due_ms)
		a->look.due_ms = now_ms + a->tune.io_timeout_ms;
	members = turn(a);
	for (unsigned int m = 0; members >> m; m++) {
		if (!(members >> m & 1) || !ddr_metaio_look(a->meta, m, stamp, &a->super))
			continue;
		a->stamp.begun |= 1u << m;
		a->look.begun_ms[m] = begun_ms;
	}
	ddr_metaio_kick(a->meta);
}

/*
 * One that delivers neither its superblocks nor its pair is not waited for any longer than its limit. But one member at least has to have what this node has
 * put there, and a moment ago.
 */
static bool has_looked(const struct ddr_array *a, uint32_t members, uint64_t now_ms)
{
	uint32_t silent = a->look.due_ms && now_ms >= a->look.due_ms ? UINT32_MAX : a->check.done & ~a->check.fine;

	return !a->check.wanted && !a->check.out && !in_doubt(a) && a->stamp.good && just_looked(a) &&
	       !(members & ~(a->stamp.done | silent));
}

bool ddr_drive_look_tick(struct ddr_array *a, uint64_t now_ms)
{
	struct ddr_still *still = ddr_drive_still(a);
	struct ddr_stamp stamp;
	uint32_t members;
	bool begins;

	if (still == &a->d->still || !a->sm || a->broken)
		return true;
	members = marked(a, &stamp);
	if (!members) {
		a->broken = "ddraidd stood still, and no member shows whether another machine has the array";
		qb_log(LOG_WARNING, "array '%s': ddraidd did not run for %" PRIu64 " ms, and no member shows whether another machine has taken the array over meanwhile; "
		       "it is loaded again", a->name, still->stood_ms);
		return true;
	}
	begins = still->since_ms != a->look.since_ms;
	lend(a, now_ms, begins);
	if (begins)
		begin_look(a, still);
	ddr_metaio_tick(a->meta, now_ms);
	ddr_drive_check_tick(a, now_ms);
	look(a, now_ms, &stamp);
	if (a->broken || !has_looked(a, members, now_ms) || !ddr_still_heard(still, a->look.since_ms))
		return true;
	a->look.since_ms = 0;
	qb_log(LOG_NOTICE, "array '%s': no other machine has taken it over while ddraidd did not run: it is served again, after %" PRIu64 " ms", a->name,
	       still->ran_ms - still->since_ms);
	return false;
}

/* ---- what was found instead ---------------------------------------------------------- */

bool ddr_drive_may_stamp(void *ctx, unsigned int member)
{
	const struct ddr_array *a = ctx;

	return a->ready && !a->broken && !a->cluster.gave_up && (ddr_drive_in_use(a) >> member & 1);
}

/* Without a cluster the kernel gets KILL though the array may be held, and nothing before it: what was decided then must not let a write go first. */
static void stop(struct ddr_array *a, const char *text)
{
	const struct ddr_still *still = ddr_drive_still(a);
	struct ddr_rec rec;
	struct ddr_output out = { .type = DDR_OUT_GIVE_UP, .event = DDR_EV_EVICTED };

	while (still != &a->d->still && ddr_kchan_take(a->chan, &rec))
		;
	a->broken = "another machine uses this array";
	a->stamp.taken = true;
	a->stamp.stopped = false;
	out.text = text;
	ddr_drive_give_up(a, &out);
	if (still != &a->d->still)
		ddr_kchan_flush(a->chan);
}

static void stop_by_stamp(struct ddr_array *a, unsigned int member, const struct ddr_stamp *found)
{
	char text[DDR_ERROR_LEN], who[DDR_NODE_NAME + 1], machine[37];

	memcpy(who, found->name, DDR_NODE_NAME);
	who[DDR_NODE_NAME] = '\0';
	uuid_unparse_lower(found->machine, machine);
	snprintf(text, sizeof(text), "another machine %s (node %u, '%s', machine %s; member %u, slot %u). Two machines that use one array and do not belong to one "
		 "cluster destroy it. If it is to be used there, remove its device here (ddraid stop). If not, stop it there, and start it here: ddraid start --adopt %s",
		 found->kind == DDR_STAMP_CLAIM ? "has claimed the array: it was started there with --adopt" : "writes here as the owner of this node's slot",
		 found->node, who, machine, member, found->slot, a->name);
	stop(a, text);
}

void ddr_drive_taken(void *ctx, unsigned int member, const struct ddr_super *sb, const uint8_t cluster[DDR_UUID_LEN])
{
	struct ddr_array *a = ctx;
	char text[DDR_ERROR_LEN], id[37];

	if (a->broken)
		return;
	uuid_unparse_lower(cluster, id);
	snprintf(text, sizeof(text), "the superblocks on member %u (%s) name another cluster, %s, and were written by that (generation %" PRIu64 "): the array was started "
		 "there with --adopt. Two clusters that use one array destroy it. If it is to be used there, remove its device here (ddraid stop). If not, stop it "
		 "there, and start it here: ddraid start --adopt %s", member, a->members->name[member], id, sb->generation, a->name);
	stop(a, text);
}

static void begin_again(struct ddr_array *a, unsigned int member)
{
	char text[512];

	a->stamp.lost++;
	snprintf(text, sizeof(text), "member %u (%s) no longer holds the stamp that this node wrote there, but is still the member's disk: the disk lost a write, or went "
		 "back to an older state. Run ddraid verify %s, and replace the disk if this happens again", member, a->members->name[member], a->name);
	ddr_event_plain(a, LOG_ERR, "stamp-lost", text);
	ddr_metaio_stamp_afresh(a->meta, member);
	a->stamp.doubt &= ~(1u << member);
}

/* @member did not hold what this node wrote there. */
static void other_stamp(struct ddr_array *a, unsigned int member, enum ddr_meta_stamped how, const struct ddr_stamp *found)
{
	if (!(a->stamp.seen >> member & 1)) {
		a->stamp.suspect |= 1u << member;
		a->stamp.doubt |= 1u << member;
		a->check.done &= ~(1u << member);
		ddr_drive_check(a, 1u << member);
	} else if (how == DDR_STAMPED_TAKEN) {
		stop_by_stamp(a, member, found);
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
	if (how == DDR_STAMPED_FINE)
		a->stamp.doubt &= ~(1u << member);
	a->stamp.done |= a->stamp.begun & 1u << member;
	if (how != DDR_STAMPED_FINE || !(a->stamp.begun >> member & 1))
		return;
	a->stamp.good |= 1u << member;
	if (a->look.begun_ms[member] > a->look.good_ms)
		a->look.good_ms = a->look.begun_ms[member];
}
