// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Fixes a range: chunks that P and Q show to be wrong, and bad sectors. See job.h.
 *
 * Must never: write where the correct contents are unknown, unless parity is to be rewritten in any case; write more than the one
 * block of a member with a bad sector.
 */
#include <errno.h>
#include <string.h>

#include <qb/qblog.h>

#include "daemon/job/job_int.h"
#include "lib/math/parity.h"

/* @sure: it is known that the old contents of this member were wrong. */
static void changed(struct ddr_job_work *r, unsigned int place, size_t from, size_t len, bool sure)
{
	if (r->from[place] >= r->to[place])
		r->from[place] = from;
	if (from < r->from[place])
		r->from[place] = from;
	if (from + len > r->to[place])
		r->to[place] = from + len;
	r->result.fixed[r->what.at[place]].blocks++;
	r->result.fixed[r->what.at[place]].unsure += !sure;
}

/* One block that does not match, with its chunks at byte @at of the pieces, and its computed parity. */
static bool fix_block(struct ddr_job_work *r, uint64_t block, size_t at)
{
	const struct ddr_geometry *g = &r->j->geo;
	const void *piece[DDR_MAX_ROLES], *calc[2] = { r->calc[0] + at, g->parity == 2 ? r->calc[1] + at : NULL };
	unsigned int data = ddr_geo_data(g), place;
	int role = -1;

	for (unsigned int i = 0; i < g->roles; i++)
		piece[i] = r->piece[ddr_geo_member(g, i, block)] + at;
	if (g->parity == 2)
		role = ddr_parity_locate(g, g->chunk, piece, calc);
	if (role < 0 && !(r->what.fix & DDR_FIX_PARITY))
		return false;
	if (role >= 0 && role < (int)data) {
		uint8_t *d;

		place = ddr_geo_member(g, (unsigned int)role, block);
		d = r->piece[place] + at;
		for (size_t k = 0; k < g->chunk; k++)
			d[k] ^= ((const uint8_t *)piece[data])[k] ^ r->calc[0][at + k];
		changed(r, place, at, g->chunk, true);
		return true;
	}
	for (unsigned int p = 0; p < g->parity; p++) {
		if (role >= 0 && role != (int)(data + p))
			continue;
		place = ddr_geo_member(g, data + p, block);
		memcpy(r->piece[place] + at, r->calc[p] + at, g->chunk);
		changed(r, place, at, g->chunk, role >= 0);
	}
	return true;
}

static void fix_segment(struct ddr_job_work *r, uint64_t block, size_t from, size_t len, void *ctx)
{
	const struct ddr_geometry *g = &r->j->geo;
	uint8_t *diff = ctx;

	for (size_t at = from; at < from + len; at += g->chunk)
		if (diff[at / g->chunk] && fix_block(r, block, at)) {
			diff[at / g->chunk] = 0;
			r->result.repaired++;
		}
}

static void write_changed(struct ddr_job_work *r)
{
	for (unsigned int p = 0; p < r->j->geo.roles; p++)
		if (r->from[p] < r->to[p]) {
			struct ddr_fixed *f = &r->result.fixed[r->what.at[p]];

			f->start = r->what.start + r->from[p] / r->j->geo.chunk;
			f->count = (r->to[p] - r->from[p]) / r->j->geo.chunk;
			r->written |= 1u << p;
			ddr_job_request(r, DDR_AIO_WRITE, p, r->from[p], r->to[p] - r->from[p]);
		}
}

/* All could be read: where does the parity not match, and which chunk is wrong? */
void ddr_job_fix_wrong(struct ddr_job_work *r)
{
	uint8_t diff[DDR_JOB_BLOCKS_MAX] = { 0 };

	ddr_job_step(r, STEP_WRITE);
	if (!(r->what.fix & DDR_FIX_WRONG) || r->readable != (1u << r->j->geo.roles) - 1)
		return;
	ddr_job_segments(r, ddr_job_check, diff);
	ddr_job_segments(r, fix_segment, diff);
	ddr_job_differing(r, diff);
	write_changed(r);
}

/* Computes the lost chunks. False: the others do not suffice, or do not fit together. */
static bool compute(struct ddr_job_work *r, uint32_t lost, void *piece[], void *scratch)
{
	const struct ddr_geometry *g = &r->j->geo;
	int compared = ddr_job_to_compare(r, lost);
	void *was_read = compared < 0 ? NULL : piece[compared];
	struct ddr_recovery plan;

	if (compared >= 0) {
		lost |= 1u << compared;
		piece[compared] = scratch;
	}
	if (ddr_recovery_plan(&plan, g, lost)) {
		ddr_job_too_few(r);
		return false;
	}
	ddr_recovery_run(&plan, g->chunk, piece);
	if (!was_read || memcmp(was_read, scratch, g->chunk) == 0)
		return true;
	r->result.result = -ENODATA;	/* its disk is not to blame for more than the bad sector */
	return false;
}

/* One block with some unreadable chunks: computes them from the others. False: that is not possible. */
bool ddr_job_fix_unread(struct ddr_job_work *r)
{
	const struct ddr_geometry *g = &r->j->geo;
	void *piece[DDR_MAX_ROLES];
	unsigned int spare = 0;
	uint32_t lost = 0;

	if (!(r->what.fix & DDR_FIX_BAD) || r->what.count != 1)
		return false;
	for (unsigned int role = 0; role < g->roles; role++) {
		unsigned int place = ddr_geo_member(g, role, r->what.start);
		bool there = r->readable >> place & 1;

		lost |= !there || (r->unread >> place & 1) ? 1u << role : 0;
		if (!there && spare == g->parity) {
			ddr_job_too_few(r);
			return false;
		}
		piece[role] = there ? r->piece[place] : r->calc[spare++];
	}
	if (!compute(r, lost, piece, spare < g->parity ? r->calc[spare] : NULL))
		return false;
	ddr_job_step(r, STEP_WRITE);
	for (unsigned int p = 0; p < g->roles; p++)
		if (r->unread >> p & 1) {
			changed(r, p, 0, g->chunk, true);
			r->result.fixed[r->what.at[p]].unread = true;
		}
	r->rewritten = r->unread;
	r->result.repaired = 1;
	r->result.result = 0;
	r->result.failed = 0;
	write_changed(r);
	return true;
}

/* Reads back what was rewritten: at most as many places as there is parity. */
void ddr_job_read_back(struct ddr_job_work *r)
{
	unsigned int n = 0;

	ddr_job_step(r, STEP_CHECK);
	for (unsigned int p = 0; p < r->j->geo.roles; p++)
		if (r->rewritten >> p & 1)
			ddr_job_buffer(r, DDR_AIO_READ, p, 0, r->j->geo.chunk, r->calc[n++]);
}

void ddr_job_check_back(struct ddr_job_work *r)
{
	char who[DDR_MEMBERS_WHO];
	unsigned int n = 0;

	for (unsigned int p = 0; p < r->j->geo.roles; p++) {
		if (!(r->rewritten >> p & 1) || !memcmp(r->piece[p], r->calc[n++], r->j->geo.chunk))
			continue;
		qb_log(LOG_ERR, "%s: a bad sector was rewritten, but different data was read back; replace this disk (ddraid replace)",
		       ddr_members_who(r->j->cfg.members, r->what.at[p], who, sizeof(who)));
		r->result.result = -EIO;
		r->result.failed |= 1u << r->what.at[p];
	}
}
