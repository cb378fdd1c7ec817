// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A change of the superblocks on one member, step by step, and the check of what a member holds.
 *
 * First both copies are read. If neither is a superblock of this member, they are read again a second later. If that has not changed,
 * the device is another disk now, and this node writes nothing to it. Otherwise the copy that is bad or older is written, flushed and
 * read back; only if it was read back as it was written, the other copy follows. So there is a valid copy at every moment, however
 * often power fails, and after a change both copies have its generation.
 *
 * Must never: write to a disk that was not seen to be this member within the same operation; write a copy while the other one is not
 * known to be valid.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <qb/qblog.h>

#include "daemon/disk/metaio_int.h"

#define AGAIN_MS	1000u	/* between the first and the second read */

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
}

/* ---- requests -------------------------------------------------------------------- */

static void look_at(struct ddr_meta_op *op, unsigned int member, unsigned int copy)
{
	struct ddr_meta_super *s = state_of(op, member);

	s->step = DDR_MS_READ;
	s->copy = copy;
	ddr_metaio_submit(op, member, DDR_AIO_READ, read_buffer(op, member), op->supers->offset[copy]);
}

static void put(struct ddr_meta_op *op, unsigned int member, unsigned int copy)
{
	struct ddr_meta_super *s = state_of(op, member);

	s->step = DDR_MS_WRITE;
	s->copy = copy;
	ddr_super_set_copy(written(op, member), copy);
	ddr_metaio_submit(op, member, DDR_AIO_WRITE_DURABLE, written(op, member), op->supers->offset[copy]);
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
		s->again = true;
		s->ours = s->unread = 0;
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

static void take_copy(struct ddr_meta_op *op, unsigned int member, int result)
{
	struct ddr_meta_super *s = state_of(op, member);
	struct ddr_super sb;
	bool valid = !result && ddr_super_decode(read_buffer(op, member), s->copy, op->supers->offset[s->copy], &sb).code == DDR_FE_OK;

	if (result) {
		s->unread |= 1u << s->copy;
	} else if (valid && is_ours(op, member, &sb)) {
		s->ours |= 1u << s->copy;
		s->seq[s->copy] = sb.seq;
	} else if (valid) {
		set_text(s->found, sizeof(s->found), &sb);
	}
}

/* The second read has to wait: somebody may be exchanging disks just now. */
static enum ddr_meta_next not_ours(struct ddr_meta_op *op, unsigned int member)
{
	struct ddr_meta_super *s = state_of(op, member);

	if (!s->again) {
		s->step = DDR_MS_PAUSE;
		s->again_ms = op->m->now_ms + AGAIN_MS;
		op->deadline_ms = s->again_ms + op->timeout_ms;
		return DDR_MN_GOES_ON;
	}
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
	if (s->ours != (1u << DDR_SB_COPIES) - 1)
		return s->ours & 1 ? 1 : 0;
	return s->seq[0] < s->seq[1] ? 0 : 1;
}

static enum ddr_meta_next looked(struct ddr_meta_op *op, unsigned int member)
{
	struct ddr_meta_super *s = state_of(op, member);

	if (!s->ours && s->unread && !s->found[0])
		return DDR_MN_FAILED;		/* its identity cannot be read: that is an error like that of any other member */
	if (!s->ours)
		return not_ours(op, member);
	if (s->left == 0)
		return DDR_MN_DONE;
	put(op, member, first_copy(s));
	return DDR_MN_GOES_ON;
}

/* ---- the steps ------------------------------------------------------------------- */

static enum ddr_meta_next came_back(struct ddr_meta_op *op, unsigned int member)
{
	struct ddr_meta_super *s = state_of(op, member);
	char who[DDR_MEMBERS_WHO];

	if (memcmp(read_buffer(op, member), written(op, member), DDR_META_BLOCK) != 0) {
		qb_log(LOG_ERR, "%s: superblock copy %u was written, but different data was read back; replace this disk (ddraid replace)",
		       ddr_members_who(op->m->cfg.members, member, who, sizeof(who)), s->copy);
		return DDR_MN_FAILED;
	}
	if (--s->left == 0)
		return DDR_MN_DONE;
	put(op, member, 1 - s->copy);
	return DDR_MN_GOES_ON;
}

enum ddr_meta_next ddr_meta_super_next(struct ddr_meta_op *op, unsigned int member, int result)
{
	struct ddr_meta_super *s = state_of(op, member);

	op->deadline_ms = op->m->now_ms + op->timeout_ms;
	switch (s->step) {
	case DDR_MS_READ:
		take_copy(op, member, result);
		if (s->copy == 1)
			return looked(op, member);
		look_at(op, member, 1);
		return DDR_MN_GOES_ON;
	case DDR_MS_WRITE:
		if (result)
			return DDR_MN_FAILED;
		s->step = DDR_MS_BACK;
		ddr_metaio_submit(op, member, DDR_AIO_READ, read_buffer(op, member), op->supers->offset[s->copy]);
		return DDR_MN_GOES_ON;
	case DDR_MS_BACK:
		return result ? DDR_MN_FAILED : came_back(op, member);
	case DDR_MS_PAUSE:
		break;
	}
	return DDR_MN_FAILED;
}
