// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Stamps (format 2): the owner of a slot writes one into the slot's pair of places on each member every two seconds. A stamp that moves proves to any
 * machine that can read the disk that the slot's owner lives. See metaio.h, and doc/on-disk-format.md, section 10.
 *
 * The pair is read before each stamp. If it holds what this node has put there, the next stamp goes to the other place. If not, nothing is written: the
 * disk may be another one, or another machine may have claimed the slot, or written here as its owner. What that means is for the array to say.
 *
 * What was read is only good for a moment: this process may be stopped between a read and the write that rests on it, for as long as another machine needs
 * to take the slot over. Nor does a write that had to wait for its turn begin later than that.
 *
 * A stamp that cannot be read or written is no evidence against the member: it is tried again, and the data's own I/O finds out. One that has not ended for
 * the time limit, while nothing else on the member ends either, is (stall.h).
 *
 * Must never: write over a claim or another owner's stamp, once this node's own has been there; have two requests in progress on one member.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <qb/qblog.h>

#include "daemon/base/still.h"
#include "daemon/disk/metaio_int.h"

#define NEVER_LATE	(UINT64_MAX / 2)	/* nobody waits for a stamp */

/* ---- memory ---------------------------------------------------------------------- */

/* The places as this node wrote them, and the pair as read. */
static uint8_t *put_at(struct ddr_meta_op *op, unsigned int place)
{
	return op->block + (size_t)place * DDR_META_BLOCK;
}

static uint8_t *read_at(struct ddr_meta_op *op, unsigned int place)
{
	return op->block + (size_t)(2 + place) * DDR_META_BLOCK;
}

static struct ddr_meta_op *stamp_new(struct ddr_metaio *m)
{
	struct ddr_meta_op *op = calloc(1, sizeof(*op));
	void *block;

	if (!op)
		return NULL;
	op->stamp = calloc(1, sizeof(*op->stamp));
	if (!op->stamp || posix_memalign(&block, DDR_META_BLOCK, 4 * DDR_META_BLOCK)) {
		free(op->stamp);
		free(op);
		return NULL;
	}
	memset(block, 0, 4 * DDR_META_BLOCK);
	op->block = block;
	op->m = m;
	op->kind = DDR_META_STAMP;
	qb_list_init(&op->list);
	return op;
}

bool ddr_meta_stamp_prepare(struct ddr_metaio *m, uint32_t members)
{
	for (unsigned int i = 0; m->cfg.owner_pages && i < DDR_MAX_MEMBERS; i++) {
		if (!(members >> i & 1))
			continue;
		if (m->stamp[i] && m->stamp[i]->flying) {
			m->stamp[i]->stamp->left = true;	/* on its way to the device that the member had */
			m->stamp[i] = NULL;
		}
		if (!m->stamp[i])
			m->stamp[i] = stamp_new(m);
		if (!m->stamp[i])
			return false;
		m->stamp[i]->stamp->mine = 0;
	}
	return true;
}

void ddr_meta_stamp_free(struct ddr_meta_op *op)
{
	if (!op)
		return;
	qb_list_del(&op->list);
	free(op->stamp);
	free(op->block);
	free(op);
}

/* ---- what the pair holds ----------------------------------------------------------- */

/* Does this place hold a claim, or the stamp of another instance? */
static bool is_others(struct ddr_meta_op *op, unsigned int place, struct ddr_stamp *found)
{
	const struct ddr_stamp *ours = &op->stamp->next;

	if (ddr_stamp_decode(read_at(op, place), &op->stamp->sb, ours->slot, place, found).code != DDR_FE_OK)
		return false;
	return found->kind != DDR_STAMP_OWNER || found->instance.cookie != ours->instance.cookie ||
	       memcmp(found->instance.boot_id, ours->instance.boot_id, sizeof(found->instance.boot_id)) != 0;
}

/* The number of the first stamp on this device is higher than all that are there, whoever wrote them. */
static void count_beyond(struct ddr_meta_op *op, unsigned int place)
{
	struct ddr_stamp found;

	if (ddr_stamp_decode(read_at(op, place), &op->stamp->sb, op->stamp->next.slot, place, &found).code == DDR_FE_OK && found.seq > op->stamp->seq)
		op->stamp->seq = found.seq;
}

static enum ddr_meta_stamped judge(struct ddr_meta_op *op, struct ddr_stamp *found)
{
	enum ddr_meta_stamped how = DDR_STAMPED_FINE;

	for (unsigned int p = 0; p < 2; p++) {
		if (!(op->stamp->mine >> p & 1)) {
			count_beyond(op, p);
			continue;
		}
		if (memcmp(read_at(op, p), put_at(op, p), DDR_META_BLOCK) == 0)
			continue;
		if (is_others(op, p, found))
			return DDR_STAMPED_TAKEN;
		how = DDR_STAMPED_LOST;
	}
	return how;
}

/* ---- the steps -------------------------------------------------------------------- */

static void failed(struct ddr_meta_op *op, unsigned int member, int error)
{
	char who[DDR_MEMBERS_WHO];

	if (op->stamp->error != error && error != -ECANCELED)
		qb_log(LOG_WARNING, "%s: the stamp that shows other machines that this node uses the array could not be %s: %s; it is tried again every two seconds",
		       ddr_members_who(op->m->cfg.members, member, who, sizeof(who)), op->stamp->writing ? "written" : "read", strerror(-error));
	op->stamp->error = error;
}

static void refused(struct ddr_meta_op *op, unsigned int member, const struct ddr_fault *fault)
{
	char who[DDR_MEMBERS_WHO], why[DDR_ERROR_LEN];

	if (op->stamp->error != -EBADMSG)
		qb_log(LOG_CRIT, "%s: refused to write an invalid stamp: %s; other machines cannot see that this node uses the array. Please report it",
		       ddr_members_who(op->m->cfg.members, member, who, sizeof(who)), ddr_fault_text(fault, why, sizeof(why)));
	op->stamp->error = -EBADMSG;
	op->m->cfg.stamped(op->m->cfg.ctx, member, DDR_STAMPED_FAILED, NULL);
}

static bool put(struct ddr_meta_op *op, unsigned int member)
{
	struct ddr_meta_stamp *s = op->stamp;
	struct ddr_fault fault;
	unsigned int place;

	s->next.seq = s->seq < DDR_LOG_SEQ_MAX ? s->seq + 1 : 1;
	place = s->next.seq & 1;
	fault = ddr_stamp_encode(&s->next, &s->sb, put_at(op, place));
	if (fault.code != DDR_FE_OK) {
		refused(op, member, &fault);
		return false;
	}
	s->seq = s->next.seq;
	s->mine &= ~(1u << place);
	s->writing = true;
	ddr_metaio_submit(op, member, DDR_AIO_WRITE, put_at(op, place), 1, ddr_stamp_offset(&s->sb, s->next.slot, place));
	return true;
}

bool ddr_meta_stamp_next(struct ddr_meta_op *op, unsigned int member, int result)
{
	struct ddr_meta_stamp *s = op->stamp;
	struct ddr_stamp found = { 0 };
	enum ddr_meta_stamped how;

	if (s->left)
		return false;
	s->ended++;
	if (result) {
		failed(op, member, result);
		op->m->cfg.stamped(op->m->cfg.ctx, member, DDR_STAMPED_FAILED, NULL);
		return false;
	}
	if (s->writing) {
		s->mine |= 1u << (s->next.seq & 1);
		s->error = 0;
		op->m->cfg.stamped(op->m->cfg.ctx, member, DDR_STAMPED_FINE, NULL);
		return false;
	}
	if (ddr_still_now() - s->begun_ms >= DDR_STILL_MS)
		return false;
	how = judge(op, &found);
	if (s->look && how == DDR_STAMPED_FINE && !s->mine)
		how = DDR_STAMPED_FAILED;	/* there is nothing to compare with */
	if (how == DDR_STAMPED_FINE && !s->look)
		return op->m->cfg.may_stamp(op->m->cfg.ctx, member) && put(op, member);
	op->m->cfg.stamped(op->m->cfg.ctx, member, how, &found);
	return false;
}

/* ---- for the array ------------------------------------------------------------------ */

static bool begin(struct ddr_metaio *m, unsigned int member, const struct ddr_stamp *stamp, const struct ddr_super *sb, bool look)
{
	struct ddr_meta_op *op = m->stamp[member];
	struct ddr_meta_stamp *s;

	if (!op || op->flying || ddr_members_fd(m->cfg.members, member) < 0)
		return false;
	s = op->stamp;
	if (s->next.slot != stamp->slot)
		s->mine = 0;
	s->next = *stamp;
	s->sb = *sb;
	s->look = look;
	s->writing = false;
	s->begun_ms = ddr_still_now();
	op->members = op->waiting = 1u << member;
	op->failed = op->no_space = 0;
	op->reported = false;
	op->deadline_ms = NEVER_LATE;
	qb_list_add_tail(&op->list, &m->busy);
	ddr_metaio_submit(op, member, DDR_AIO_READ, read_at(op, 0), 2, ddr_stamp_offset(sb, stamp->slot, 0));
	return true;
}

bool ddr_metaio_stamp(struct ddr_metaio *m, unsigned int member, const struct ddr_stamp *stamp, const struct ddr_super *sb)
{
	return begin(m, member, stamp, sb, false);
}

bool ddr_metaio_look(struct ddr_metaio *m, unsigned int member, const struct ddr_stamp *stamp, const struct ddr_super *sb)
{
	return begin(m, member, stamp, sb, true);
}

uint32_t ddr_metaio_stamped(const struct ddr_metaio *m)
{
	uint32_t members = 0;

	for (unsigned int i = 0; i < DDR_MAX_MEMBERS; i++)
		members |= m->stamp[i] && m->stamp[i]->stamp->mine ? 1u << i : 0;
	return members;
}

bool ddr_metaio_stamping(const struct ddr_metaio *m, unsigned int member, uint64_t *ended)
{
	const struct ddr_meta_op *op = m->stamp[member];

	*ended = op ? op->stamp->ended : 0;
	return op && op->flying;
}

void ddr_metaio_stamp_afresh(struct ddr_metaio *m, unsigned int member)
{
	if (m->stamp[member])
		m->stamp[member]->stamp->mine = 0;
}
