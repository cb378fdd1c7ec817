// SPDX-License-Identifier: GPL-2.0-or-later
/* Looks at the stamps of an array, claims slots, and looks again. See claim.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include <qb/qblog.h>
#include <uuid/uuid.h>

#include "daemon/base/clock.h"
#include "daemon/disk/claim.h"
#include "daemon/disk/load_lock.h"
#include "daemon/disk/loader.h"
#include "lib/disk/look.h"
#include "lib/math/uuid.h"

#define STOP_MOST_MS	600000u	/* a kernel takes no longer stop time (uapi.h), so a stamp that has one does not make anybody wait for it */
#define PAUSE_MS	500u	/* how often a wait looks whether the load was cancelled */
#define PAIR		(2u * DDR_META_BLOCK)

/* All stamps on all members that delivered them. */
struct picture {
	uint32_t read;
	struct ddr_look *look[DDR_MAX_MEMBERS];
};

/* What a place holds that is not what it should hold. */
struct mover {
	bool any, known;		/* there is such a place; one of them holds a valid stamp */
	uint32_t slot;
	struct ddr_stamp stamp;		/* known: the newest of these stamps */
};

static const struct ddr_super *super_of(const struct ddr_load *l)
{
	return &l->assembly.super;
}

static uint8_t *block_at(const struct picture *p, unsigned int m, uint32_t slot, unsigned int place)
{
	return (uint8_t *)p->look[m]->buf + slot * (size_t)PAIR + place * (size_t)DDR_META_BLOCK;
}

/* ---- what is to be claimed, and for how long is waited ----------------------------- */

static bool same_instance(const struct ddr_instance *a, const struct ddr_instance *b)
{
	return a->cookie == b->cookie && memcmp(a->boot_id, b->boot_id, sizeof(a->boot_id)) == 0;
}

uint64_t ddr_claim_open(const struct ddr_claim *c, const struct ddr_super *sb, const struct ddr_owners *owners)
{
	uint64_t open = 0;

	for (uint32_t s = 0; s < sb->slots; s++)
		if (sb->slot_node[s] && !same_instance(&owners->slot[s].instance, &c->instance))
			open |= 1ull << s;
	return open;
}

static bool earlier_boot(const struct ddr_claim *c, const uint8_t machine[DDR_UUID_LEN], const uint8_t boot_id[DDR_UUID_LEN])
{
	return memcmp(machine, c->machine, sizeof(c->machine)) == 0 && !ddr_uuid_is_zero(boot_id) &&
	       memcmp(boot_id, c->instance.boot_id, sizeof(c->instance.boot_id)) != 0;
}

/* By what the superblocks say, which is all that identity.c refuses by. */
static bool own_slot(const struct ddr_claim *c, const struct ddr_owner *o)
{
	return ddr_uuid_is_zero(o->machine) || earlier_boot(c, o->machine, o->instance.boot_id);
}

static bool earlier_slot(const struct ddr_claim *c, const struct ddr_owner *o, const struct ddr_claim_found *f)
{
	if (!ddr_uuid_is_zero(o->machine) ? !earlier_boot(c, o->machine, o->instance.boot_id) : !f->n)
		return false;
	for (unsigned int i = 0; i < f->n; i++)
		if (!earlier_boot(c, f->stamp[i].machine, f->stamp[i].instance.boot_id))
			return false;
	return true;
}

uint32_t ddr_claim_wait(const struct ddr_claim *c, uint64_t open, const struct ddr_owners *owners, const struct ddr_claim_found *found)
{
	uint32_t stop_ms = c->stop_ms;
	bool earlier = true, own = true;

	for (uint32_t s = 0; s < DDR_MAX_SLOTS; s++) {
		if (!(open >> s & 1))
			continue;
		earlier &= earlier_slot(c, &owners->slot[s], &found[s]);
		own &= own_slot(c, &owners->slot[s]);
		for (unsigned int i = 0; i < found[s].n; i++)
			stop_ms = found[s].stamp[i].stop_ms > stop_ms ? found[s].stamp[i].stop_ms : stop_ms;
	}
	if (!open || !(c->adopted || (c->alone && own)))
		return 0;
	if (c->alone && earlier)
		return DDR_CLAIM_MORE_MS;
	return (stop_ms < STOP_MOST_MS ? stop_ms : STOP_MOST_MS) + DDR_CLAIM_MORE_MS;
}

/* ---- looks -------------------------------------------------------------------------- */

static void picture_free(struct picture *p)
{
	for (unsigned int m = 0; m < DDR_MAX_MEMBERS; m++)
		ddr_look_put(p->look[m]);
	memset(p, 0, sizeof(*p));
}

/*
 * The result of a read or write of @what on member @m, begun as @how: 1 it is done; 0 the device failed or hangs, which proves nothing, and was
 * logged; -1 this process failed, and l->error has that.
 */
static int done(struct ddr_load *l, unsigned int m, struct ddr_look *look, const char *what)
{
	if (!look)
		return 0;
	if (!ddr_look_wait(look)) {
		qb_log(LOG_ERR, "array '%s': %s has not delivered %s within %u ms", l->members->array, l->members->name[m], what, l->limit_ms);
		return 0;
	}
	if (look->whole)
		return 1;
	if (look->error.own) {
		l->error = look->error;
		return -1;
	}
	qb_log(LOG_ERR, "array '%s': %s", l->members->array, look->error.text);
	return 0;
}

static bool begun(struct ddr_load *l, enum ddr_look_start how, unsigned int m, const char *what, const struct ddr_error *err)
{
	if (ddr_load_begun(how, l->members, m, what, err))
		return true;
	l->error = *err;
	return false;
}

/* Reads the stamps of all slots on the members in @asked. -1: l->error has the reason; it may be that none delivered them. */
static int look(struct ddr_load *l, uint32_t asked, struct picture *p)
{
	static const char what[] = "the stamps of the slots";
	const struct ddr_super *sb = super_of(l);
	struct ddr_error err;
	bool failed = false;
	int ret;

	memset(p, 0, sizeof(*p));
	for (unsigned int m = 0; m < sb->members; m++)
		if (asked & (1u << m))
			failed |= !begun(l, ddr_look_bytes(&p->look[m], &l->members->dev[m], ddr_stamp_offset(sb, 0, 0), (size_t)sb->slots * PAIR,
							   l->limit_ms, &err), m, what, &err);
	for (unsigned int m = 0; m < sb->members; m++) {
		ret = done(l, m, p->look[m], what);
		failed |= ret < 0;
		p->read |= ret > 0 ? 1u << m : 0;
	}
	if (failed)
		return -1;
	return p->read ? 0 : ddr_error_set(&l->error, "array '%s' is not taken over, because no member delivers the stamps of its slots, so it is unknown whether "
					   "another machine uses it; start the array when its disks answer", sb->name);
}

static bool newer(const struct ddr_stamp *a, const struct ddr_stamp *b)
{
	return a->time != b->time ? a->time > b->time : a->seq > b->seq;
}

/* Compares a place with what it should hold. */
static void compare(const struct ddr_super *sb, const void *want, const void *has, uint32_t slot, unsigned int place, struct mover *who)
{
	struct ddr_stamp stamp;

	if (memcmp(want, has, DDR_META_BLOCK) == 0)
		return;
	if (!who->any)
		who->slot = slot;
	who->any = true;
	if (ddr_stamp_decode(has, sb, slot, place, &stamp).code != DDR_FE_OK || (who->known && !newer(&stamp, &who->stamp)))
		return;
	who->known = true;
	who->slot = slot;
	who->stamp = stamp;
}

/* What is on members that delivered both. */
static void compare_all(const struct ddr_super *sb, const struct picture *want, const struct picture *has, struct mover *who)
{
	memset(who, 0, sizeof(*who));
	for (unsigned int m = 0; m < sb->members; m++)
		for (uint32_t i = 0; want->read & has->read & (1u << m) && i < 2 * sb->slots; i++)
			compare(sb, block_at(want, m, i / 2, i % 2), block_at(has, m, i / 2, i % 2), i / 2, i % 2, who);
}

/* ---- refusals ----------------------------------------------------------------------- */

/* What the operator does once the other machine does not use the array any more. */
static const char *again(const struct ddr_load *l)
{
	return l->claim.adopted ? "type ddraid start --adopt" : "start the array";
}

static int in_use(struct ddr_load *l, const struct mover *who)
{
	const char *array = super_of(l)->name, *name = who->stamp.name[0] ? who->stamp.name : "a node without a name", *copy = "";
	char machine[UUID_STR_LEN];

	if (!who->known)
		return ddr_error_set(&l->error, "array '%s' is in use, or its disks do not keep what is written: the stamp of slot %" PRIu32 " has changed while this node "
				     "watched it, and is not valid. Stop the array on the other machine, or power that off; then %s again", array, who->slot,
				     again(l));
	uuid_unparse_lower(who->stamp.machine, machine);
	if (memcmp(who->stamp.machine, l->claim.machine, sizeof(l->claim.machine)) == 0)
		copy = ", a copy of this machine";
	if (who->stamp.kind == DDR_STAMP_CLAIM)
		return ddr_error_set(&l->error, "array '%s': %s (node %" PRIu32 ", machine %s%s) has claimed it at the same time, in slot %" PRIu32 ". Only one machine "
				     "may take it: choose one, and %s there again", array, name, who->stamp.node, machine, copy, who->slot, again(l));
	return ddr_error_set(&l->error, "array '%s' is in use by %s (node %" PRIu32 ", machine %s%s), which has stamped slot %" PRIu32 " while this node watched it. Stop "
			     "the array there, or power that machine off; then %s again", array, name, who->stamp.node, machine, copy, who->slot, again(l));
}

/* ---- waiting ------------------------------------------------------------------------ */

static int wait_for(struct ddr_load *l, uint32_t ms, const char *why)
{
	const struct timespec pause = { .tv_sec = PAUSE_MS / 1000, .tv_nsec = PAUSE_MS % 1000 * 1000000L };
	uint64_t until = ddr_now_ms() + ms;
	char text[192];
	int ret = 0;

	snprintf(text, sizeof(text), "%u s %s (%s)", (unsigned int)((ms + 999ull) / 1000), why, l->claim.adopted ? "adopted" : "after a crash of this machine");
	qb_log(LOG_NOTICE, "array '%s': waits %s", super_of(l)->name, text);
	ddr_load_set_waits(l, text);
	while (!ret && ddr_now_ms() < until) {
		if (atomic_load(&l->cancel))
			ret = ddr_error_set(&l->error, "the array was removed while this node watched who uses it");
		else
			nanosleep(&pause, NULL);
	}
	ddr_load_set_waits(l, "");
	return ret;
}

/* ---- claims ------------------------------------------------------------------------- */

/* The valid stamps of a slot, and the highest number among them. */
static uint64_t take_found(const struct ddr_super *sb, const struct picture *p, uint32_t slot, struct ddr_claim_found *found)
{
	struct ddr_stamp stamp, best;
	uint64_t seq = 0;

	found->n = 0;
	for (unsigned int place = 0; place < 2; place++) {
		best.seq = 0;
		for (unsigned int m = 0; m < sb->members; m++)
			if (p->read & (1u << m) && ddr_stamp_decode(block_at(p, m, slot, place), sb, slot, place, &stamp).code == DDR_FE_OK && stamp.seq > best.seq)
				best = stamp;
		if (best.seq)
			found->stamp[found->n++] = best;
		seq = best.seq > seq ? best.seq : seq;
	}
	return seq;
}

/* The two blocks that claim a slot: in both places, numbered above all that was there. */
static int make_claim(struct ddr_load *l, uint32_t slot, uint64_t above, uint8_t pair[PAIR])
{
	const struct ddr_claim *c = &l->claim;
	struct ddr_stamp stamp = {
		.slot = (uint16_t)slot, .kind = DDR_STAMP_CLAIM, .generation = super_of(l)->generation, .node = c->node, .instance = c->instance,
		.time = (uint64_t)time(NULL), .stop_ms = c->stop_ms,
	};
	char why[DDR_ERROR_LEN];
	struct ddr_fault fault;

	memcpy(stamp.array_uuid, super_of(l)->array_uuid, sizeof(stamp.array_uuid));
	memcpy(stamp.machine, c->machine, sizeof(stamp.machine));
	memcpy(stamp.claim, c->id, sizeof(stamp.claim));
	memcpy(stamp.name, c->name, sizeof(stamp.name));
	for (unsigned int i = 1; i <= 2; i++) {
		stamp.seq = above + i;
		fault = ddr_stamp_encode(&stamp, super_of(l), pair + (stamp.seq & 1) * DDR_META_BLOCK);
		if (fault.code != DDR_FE_OK)
			return ddr_error_set(&l->error, "array '%s': slot %" PRIu32 " cannot be claimed: %s", super_of(l)->name, slot, ddr_fault_text(&fault, why, sizeof(why)));
	}
	return 0;
}

/*
 * Is the device still that member of the array? Else it does not count any more. -1: it is, and another node has changed the superblocks since they were
 * loaded. (A current member may have older ones than the newest.)
 */
static int check_member(struct ddr_load *l, struct picture *p, unsigned int m, const struct ddr_look *look)
{
	const struct ddr_super *sb = super_of(l), *has = look->supers.newest < 0 ? NULL : &look->supers.copy[look->supers.newest].super;

	if (!has || memcmp(has->array_uuid, sb->array_uuid, sizeof(sb->array_uuid)) != 0 ||
	    memcmp(has->member[has->this_member].uuid, sb->member[m].uuid, DDR_UUID_LEN) != 0) {
		qb_log(LOG_ERR, "array '%s': %s does not hold member %u any more, so nothing is claimed on it%s%s", sb->name, l->members->name[m], m,
		       has ? "" : ": ", has ? "" : look->error.text);
		p->read &= ~(1u << m);
		return 0;
	}
	if (has->generation < sb->generation || (has->generation == sb->generation && has->seq <= sb->seq))
		return 0;
	return ddr_error_set(&l->error, "array '%s' is in use: its superblocks have changed while this node watched it. Stop the array on the other machine, or power "
			     "that off; then %s again", sb->name, again(l));
}

/* Before anything is written: a disk may have been exchanged since the members were found. */
static int check_members(struct ddr_load *l, struct picture *p)
{
	static const char what[] = "the superblock";
	struct ddr_look *look[DDR_MAX_MEMBERS] = { NULL };
	struct ddr_error err;
	bool failed = false;

	for (unsigned int m = 0; m < DDR_MAX_MEMBERS; m++)
		if (p->read & (1u << m))
			failed |= !begun(l, ddr_look_read(&look[m], &l->members->dev[m], l->limit_ms, &err), m, what, &err);
	for (unsigned int m = 0; m < DDR_MAX_MEMBERS; m++) {
		if (!(p->read & (1u << m)))
			continue;
		if (look[m] && ddr_look_wait(look[m]) && look[m]->supers.newest < 0 && look[m]->error.own) {
			l->error = look[m]->error;
			failed = true;
		} else if (look[m] && ddr_look_wait(look[m])) {
			failed |= check_member(l, p, m, look[m]) != 0;
		} else {
			p->read &= ~(1u << m);
		}
		ddr_look_put(look[m]);
	}
	return failed ? -1 : 0;
}

/* Writes the claim of a slot to the members of @p, which holds then what they should. A member that fails does not count any more. */
static int write_claim(struct ddr_load *l, struct picture *p, uint32_t slot, const uint8_t pair[PAIR])
{
	static const char what[] = "the answer to a claim";
	const struct ddr_super *sb = super_of(l);
	struct ddr_look *write[DDR_MAX_MEMBERS] = { NULL };
	struct ddr_error err;
	bool failed = false;
	int ret;

	if (ddr_still_late(&l->still))
		return ddr_error_set(&l->error, "ddraidd stood still while it watched array '%s', which another machine may have taken over meanwhile", sb->name);
	for (unsigned int m = 0; m < sb->members; m++)
		if (p->read & (1u << m))
			failed |= !begun(l, ddr_look_write(&write[m], &l->members->dev[m], pair, ddr_stamp_offset(sb, slot, 0), PAIR, l->limit_ms, &err), m, what,
					 &err);
	for (unsigned int m = 0; m < sb->members; m++) {
		if (!(p->read & (1u << m)))
			continue;
		ret = done(l, m, write[m], what);
		ddr_look_put(write[m]);
		failed |= ret < 0;
		if (ret > 0)
			memcpy(block_at(p, m, slot, 0), pair, PAIR);
		else
			p->read &= ~(1u << m);
	}
	return failed ? -1 : 0;
}

static int write_claims(struct ddr_load *l, struct picture *p, uint64_t open)
{
	const struct ddr_super *sb = super_of(l);
	struct ddr_claim_found found;
	uint8_t *pair;
	int ret = 0;

	if (getrandom(l->claim.id, sizeof(l->claim.id), 0) != sizeof(l->claim.id)) {
		ddr_error_set(&l->error, "the kernel gives no random bytes");
		l->error.own = true;
		return -1;
	}
	pair = calloc(1, PAIR);
	if (!pair)
		return ddr_error_call(&l->error, ENOMEM, "out of memory");
	for (uint32_t s = 0; s < sb->slots && !ret; s++)
		if (open >> s & 1)
			ret = make_claim(l, s, take_found(sb, p, s, &found), pair) || write_claim(l, p, s, pair) ? -1 : 0;
	free(pair);
	if (ret || p->read)
		return ret;
	return ddr_error_set(&l->error, "array '%s' is not taken over, because no member takes a claim to its slots; start the array when its disks answer", sb->name);
}

/* ---- all of it ---------------------------------------------------------------------- */

static int wait_of(struct ddr_load *l, const struct picture *p, uint64_t open, uint32_t *ms)
{
	struct ddr_claim_found *found = calloc(DDR_MAX_SLOTS, sizeof(*found));

	if (!found)
		return ddr_error_call(&l->error, ENOMEM, "out of memory");
	for (uint32_t s = 0; s < super_of(l)->slots; s++)
		take_found(super_of(l), p, s, &found[s]);
	*ms = ddr_claim_wait(&l->claim, open, &l->owners, found);
	free(found);
	return 0;
}

/* @want: what the members should still hold; looks again, and leaves in @want what they hold. */
static int look_again(struct ddr_load *l, struct picture *want)
{
	struct picture has;
	struct mover who;

	if (look(l, want->read, &has)) {
		picture_free(&has);
		return -1;
	}
	compare_all(super_of(l), want, &has, &who);
	picture_free(want);
	*want = has;
	return who.any ? in_use(l, &who) : 0;
}

static int claim(struct ddr_load *l, uint64_t open, struct picture *p)
{
	uint32_t ms = 0;

	if (look(l, l->members->open & l->present, p) || wait_of(l, p, open, &ms))
		return -1;
	if (!ms)
		return 0;
	if (wait_for(l, ms, "to see whether another machine uses it") || look_again(l, p) || check_members(l, p))
		return -1;
	if (write_claims(l, p, open) || wait_for(l, ms, "more to see whether another machine uses or claims it") || look_again(l, p))
		return -1;
	l->claim.slots = open;
	qb_log(LOG_NOTICE, "array '%s': nobody has used it for %u s, and this node has claimed its slots", super_of(l)->name, 2 * (ms / 1000));
	return 0;
}

int ddr_claim_slots(struct ddr_load *l)
{
	uint64_t open = ddr_super_has_owners(super_of(l)) ? ddr_claim_open(&l->claim, super_of(l), &l->owners) : 0;
	struct picture p = { 0 };
	int ret;

	if (!open || !(l->claim.adopted || l->claim.alone))
		return 0;
	ret = claim(l, open, &p);
	picture_free(&p);
	return ret;
}
