// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A change of the superblocks on one member, step by step, and the check of what a member holds.
 *
 * In format 2 each copy of the superblock has owner pages, and only counts together with them: they are read behind it, and written and flushed
 * before it.
 *
 * First both copies are read. If not both are superblocks of this member, the disk may have been exchanged between the two reads: it may be the
 * other disk that has the bad copy, which would be written first. So they are read again a second later, until two reads in a row show the same. If
 * neither copy is this member's then, the device is another disk now, and this node writes nothing to it. Otherwise the copy that is bad or older is
 * written, flushed and read back; only if it was read back as it was written, the other copy follows. So there is a valid copy at every moment,
 * however often power fails, and after a change both copies have its generation.
 *
 * A copy that is this member's, and as new as what this node knows, may name another cluster: then that one has adopted the array, and this node writes
 * nothing over it (rule I3).
 *
 * Must never: write to a disk that was not seen to be this member within the same operation; write because of a single read in which a copy was
 * not this member's; write a copy while the other one is not known to be valid; write a superblock before its pages are durable.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <qb/qblog.h>

#include "daemon/disk/metaio_int.h"
#include "lib/disk/format_owner.h"
#include "lib/math/uuid.h"

#define AGAIN_MS	1000u	/* between two reads of both copies */
#define LOOKS_MAX	4u	/* a device that shows something else each time is not this member's */
#define BOTH		((1u << DDR_SB_COPIES) - 1)

static struct ddr_meta_super *state_of(struct ddr_meta_op *op, unsigned int member)
{
	return &op->supers->member[member];
}

static uint8_t *written(struct ddr_meta_op *op, unsigned int member)
{
	return op->supers->pair[member];
}

static uint8_t *read_buffer(struct ddr_meta_op *op, unsigned int member)
{
	return written(op, member) + DDR_META_BLOCK;
}

static uint8_t *pages_buffer(struct ddr_meta_op *op, unsigned int member)
{
	return read_buffer(op, member) + DDR_META_BLOCK;
}

static void set_text(char *buf, size_t size, const struct ddr_super *sb)
{
	snprintf(buf, size, "a superblock of member %u of array '%s'", sb->this_member, sb->name);
}

void ddr_metaio_supers(struct ddr_meta_op *op, const struct ddr_super *now, const struct ddr_super *next)
{
	struct ddr_meta_supers *s = op->supers;

	memcpy(s->array, now->array_uuid, sizeof(s->array));
	for (unsigned int m = 0; m < DDR_MAX_MEMBERS; m++) {
		memcpy(s->uuid[0][m], now->member[m].uuid, DDR_UUID_LEN);
		memcpy(s->uuid[1][m], next->member[m].uuid, DDR_UUID_LEN);
	}
	for (unsigned int c = 0; c < DDR_SB_COPIES; c++)
		s->offset[c] = ddr_super_offset(now, c);
	s->owned = false;
	s->clusters = 0;
}

void ddr_metaio_whose(struct ddr_meta_op *op, const uint8_t (*cluster)[DDR_UUID_LEN], unsigned int n, uint64_t generation, const struct ddr_super *loaded)
{
	op->supers->clusters = n < DDR_META_CLUSTERS ? n : DDR_META_CLUSTERS;
	op->supers->generation = generation;
	op->supers->loaded_generation = loaded->generation;
	op->supers->loaded_seq = loaded->seq;
	memcpy(op->supers->whose, cluster, (size_t)op->supers->clusters * DDR_UUID_LEN);
}

struct ddr_fault ddr_metaio_owners(struct ddr_meta_op *op, const struct ddr_owners *owners, const struct ddr_super *next)
{
	struct ddr_meta_supers *s = op->supers;
	struct ddr_super sb = *next;
	struct ddr_fault fault = { .code = DDR_FE_OK };

	if (next->owner_pages != op->m->cfg.owner_pages)
		return (struct ddr_fault){ .code = DDR_FE_O_PAGES, .a = next->owner_pages, .b = op->m->cfg.owner_pages };
	for (unsigned int c = 0; c < DDR_SB_COPIES && !fault.code; c++) {
		sb.seq = (next->seq & ~1ull) | c;
		fault = ddr_owners_encode(owners, &sb, s->pages[c]);
		s->crc[c] = sb.owner_crc;
		s->pages_offset[c] = ddr_owner_offset(next, c);
	}
	s->owned = !fault.code;
	return fault;
}

/* ---- requests -------------------------------------------------------------------- */

static void look_at(struct ddr_meta_op *op, unsigned int member, unsigned int copy)
{
	struct ddr_meta_super *s = state_of(op, member);

	s->step = DDR_MS_READ;
	s->copy = copy;
	ddr_metaio_submit(op, member, DDR_AIO_READ, read_buffer(op, member), 1, op->supers->offset[copy]);
}

static void put_super(struct ddr_meta_op *op, unsigned int member)
{
	struct ddr_meta_super *s = state_of(op, member);

	s->step = DDR_MS_WRITE;
	ddr_metaio_submit(op, member, DDR_AIO_WRITE_DURABLE, written(op, member), 1, op->supers->offset[s->copy]);
}

static void put(struct ddr_meta_op *op, unsigned int member, unsigned int copy)
{
	struct ddr_meta_super *s = state_of(op, member);

	s->copy = copy;
	ddr_super_set_copy(written(op, member), copy);
	if (!op->supers->owned) {
		put_super(op, member);
		return;
	}
	ddr_super_set_owner_crc(written(op, member), op->supers->crc[copy]);
	s->step = DDR_MS_WRITE_PAGES;
	ddr_metaio_submit(op, member, DDR_AIO_WRITE_DURABLE, op->supers->pages[copy], op->m->cfg.owner_pages, op->supers->pages_offset[copy]);
}

void ddr_meta_super_begin(struct ddr_meta_op *op, unsigned int member)
{
	*state_of(op, member) = (struct ddr_meta_super){ .left = op->kind == DDR_META_SB ? DDR_SB_COPIES : 0 };
	look_at(op, member, 0);
}

void ddr_meta_super_tick(struct ddr_meta_op *op, uint64_t now_ms)
{
	uint32_t paused = op->waiting & ~op->flying;

	for (unsigned int m = 0; paused >> m && !op->reported; m++) {
		struct ddr_meta_super *s = state_of(op, m);

		if (!(paused >> m & 1) || now_ms < s->again_ms)
			continue;
		s->ours = s->torn = s->unread = 0;
		look_at(op, m, 0);
	}
}

/* ---- what was read ---------------------------------------------------------------- */

static bool is_ours(const struct ddr_meta_op *op, unsigned int member, const struct ddr_super *sb)
{
	const uint8_t *own = sb->member[sb->this_member].uuid;

	return memcmp(sb->array_uuid, op->supers->array, DDR_UUID_LEN) == 0 &&
	       (memcmp(own, op->supers->uuid[0][member], DDR_UUID_LEN) == 0 || memcmp(own, op->supers->uuid[1][member], DDR_UUID_LEN) == 0);
}

static bool decode(struct ddr_meta_op *op, unsigned int member, struct ddr_super *sb)
{
	unsigned int copy = state_of(op, member)->copy;

	return ddr_super_decode(read_buffer(op, member), copy, op->supers->offset[copy], sb).code == DDR_FE_OK;
}

/*
 * Takes a copy that was read. False: its pages are read next. A check needs them only to know whose the array is. A member that missed the change to
 * format 2 has none.
 */
static bool take_copy(struct ddr_meta_op *op, unsigned int member, int result)
{
	struct ddr_meta_super *s = state_of(op, member);
	struct ddr_super sb;
	bool valid = !result && decode(op, member, &sb);

	if (result) {
		s->unread |= 1u << s->copy;
	} else if (valid && is_ours(op, member, &sb)) {
		s->seq[s->copy] = sb.seq;
		if ((s->left || op->supers->clusters) && ddr_super_has_owners(&sb) && sb.owner_pages == op->m->cfg.owner_pages) {
			s->step = DDR_MS_READ_PAGES;
			ddr_metaio_submit(op, member, DDR_AIO_READ, pages_buffer(op, member), sb.owner_pages, ddr_owner_offset(&sb, s->copy));
			return false;
		}
		s->ours |= 1u << s->copy;
	} else if (valid) {
		set_text(s->found, sizeof(s->found), &sb);
	}
	return true;
}

/*
 * A cluster that may not own the array has written these superblocks. Those of a member that was out meanwhile, or of a spare since the array was adopted, are
 * older, and prove nothing.
 */
static bool is_taken(const struct ddr_meta_op *op, const struct ddr_super *sb, const uint8_t *cluster)
{
	const struct ddr_meta_supers *s = op->supers;
	bool known = !s->clusters || ddr_uuid_is_zero(cluster) || sb->generation < s->generation;

	known |= sb->generation == s->loaded_generation && sb->seq <= s->loaded_seq;
	for (unsigned int i = 0; i < s->clusters; i++)
		known |= memcmp(s->whose[i], cluster, DDR_UUID_LEN) == 0;
	return !known;
}

/*
 * The pages of a copy that is ours: without the right ones it is torn, but for a check, which has found the disk of the member all the same. False: the
 * array is another cluster's.
 */
static bool take_pages(struct ddr_meta_op *op, unsigned int member, int result)
{
	struct ddr_meta_super *s = state_of(op, member);
	const uint8_t *cluster = ddr_owners_cluster(pages_buffer(op, member));
	struct ddr_super sb;
	bool valid = !result && decode(op, member, &sb) && ddr_owners_decode(pages_buffer(op, member), &sb, NULL).code == DDR_FE_OK;

	*(valid || !s->left ? &s->ours : result ? &s->unread : &s->torn) |= 1u << s->copy;
	if (!valid || !is_taken(op, &sb, cluster))
		return true;
	op->m->taken = true;
	op->m->cfg.taken(op->m->cfg.ctx, member, &sb, cluster);
	return false;
}

/* That has to wait: somebody may be exchanging disks just now. */
static enum ddr_meta_next look_again(struct ddr_meta_op *op, unsigned int member)
{
	struct ddr_meta_super *s = state_of(op, member);

	s->step = DDR_MS_PAUSE;
	s->again_ms = op->m->now_ms + AGAIN_MS;
	op->deadline_ms = s->again_ms + op->timeout_ms;
	return DDR_MN_GOES_ON;
}

static enum ddr_meta_next not_ours(struct ddr_meta_op *op, unsigned int member)
{
	struct ddr_meta_super *s = state_of(op, member);

	if (ddr_members_fd(op->m->cfg.members, member) < 0)
		return DDR_MN_FAILED;		/* another operation has found that meanwhile, and reported it */
	ddr_members_exchanged(op->m->cfg.members, member, s->found[0] ? s->found : "no superblock of ddraid");
	if (op->m->cfg.exchanged)
		op->m->cfg.exchanged(op->m->cfg.ctx, member);
	return DDR_MN_FAILED;
}

/* The copy to write first: the bad one, else the older one, so that the newer one stays until its successor is written. */
static unsigned int first_copy(const struct ddr_meta_super *s)
{
	if (s->ours != BOTH)
		return s->ours & 1 ? 1 : 0;
	return s->seq[0] < s->seq[1] ? 0 : 1;
}

static enum ddr_meta_next looked(struct ddr_meta_op *op, unsigned int member)
{
	struct ddr_meta_super *s = state_of(op, member);
	bool same = s->looks && s->before == s->ours;

	s->before = s->ours;
	s->looks++;
	if (!s->ours && (s->unread || s->torn) && !s->found[0])
		return DDR_MN_FAILED;		/* its identity cannot be read: that is an error like that of any other member */
	if (s->left == 0 && s->ours)
		return DDR_MN_DONE;
	if (s->ours != BOTH && !same)
		return s->looks < LOOKS_MAX ? look_again(op, member) : not_ours(op, member);
	if (!s->ours)
		return not_ours(op, member);
	put(op, member, first_copy(s));
	return DDR_MN_GOES_ON;
}

/* ---- the steps ------------------------------------------------------------------- */

/*
 * It was not read back as it was written. A superblock of the same member, newer than what was there before, is another node's; the one that was there
 * before is a write that the disk has lost, and anything else is what the disk made of it.
 */
static void came_back_other(struct ddr_meta_op *op, unsigned int member, bool pages)
{
	struct ddr_meta_super *s = state_of(op, member);
	char who[DDR_MEMBERS_WHO];
	struct ddr_super sb;

	ddr_members_who(op->m->cfg.members, member, who, sizeof(who));
	if (!pages && decode(op, member, &sb) && is_ours(op, member, &sb) && sb.seq > s->seq[s->copy])
		qb_log(LOG_ERR, "%s: superblock copy %u was overwritten while this node wrote it, so another node uses the array. See ddraid status there and here", who,
		       s->copy);
	else
		qb_log(LOG_ERR, "%s: superblock copy %u was written, but different data was read back; replace this disk (ddraid replace)", who, s->copy);
}

/* The superblock, and of format 2 its pages after that, was read back. */
static enum ddr_meta_next came_back(struct ddr_meta_op *op, unsigned int member)
{
	struct ddr_meta_super *s = state_of(op, member);
	bool pages = s->step == DDR_MS_BACK_PAGES;

	if (pages ? memcmp(pages_buffer(op, member), op->supers->pages[s->copy], (size_t)op->m->cfg.owner_pages * DDR_META_BLOCK) != 0 :
		    memcmp(read_buffer(op, member), written(op, member), DDR_META_BLOCK) != 0) {
		came_back_other(op, member, pages);
		return DDR_MN_FAILED;
	}
	if (op->supers->owned && !pages) {
		s->step = DDR_MS_BACK_PAGES;
		ddr_metaio_submit(op, member, DDR_AIO_READ, pages_buffer(op, member), op->m->cfg.owner_pages, op->supers->pages_offset[s->copy]);
		return DDR_MN_GOES_ON;
	}
	if (--s->left == 0)
		return DDR_MN_DONE;
	put(op, member, 1 - s->copy);
	return DDR_MN_GOES_ON;
}

static enum ddr_meta_next copy_read(struct ddr_meta_op *op, unsigned int member)
{
	if (state_of(op, member)->copy == 1)
		return looked(op, member);
	look_at(op, member, 1);
	return DDR_MN_GOES_ON;
}

enum ddr_meta_next ddr_meta_super_next(struct ddr_meta_op *op, unsigned int member, int result)
{
	struct ddr_meta_super *s = state_of(op, member);

	if (op->m->taken)
		return DDR_MN_FAILED;
	op->deadline_ms = op->m->now_ms + op->timeout_ms;
	switch (s->step) {
	case DDR_MS_READ:
		return take_copy(op, member, result) ? copy_read(op, member) : DDR_MN_GOES_ON;
	case DDR_MS_READ_PAGES:
		return take_pages(op, member, result) ? copy_read(op, member) : DDR_MN_FAILED;
	case DDR_MS_WRITE_PAGES:
		if (result)
			return DDR_MN_FAILED;
		put_super(op, member);
		return DDR_MN_GOES_ON;
	case DDR_MS_WRITE:
		if (result)
			return DDR_MN_FAILED;
		s->step = DDR_MS_BACK;
		ddr_metaio_submit(op, member, DDR_AIO_READ, read_buffer(op, member), 1, op->supers->offset[s->copy]);
		return DDR_MN_GOES_ON;
	case DDR_MS_BACK:
	case DDR_MS_BACK_PAGES:
		return result ? DDR_MN_FAILED : came_back(op, member);
	case DDR_MS_PAUSE:
		break;
	}
	return DDR_MN_FAILED;
}
