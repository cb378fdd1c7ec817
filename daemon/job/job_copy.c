// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A copy of a disk that has bad sectors. See job.h.
 *
 * Its piece could not be read at once, so it is read block by block. Blocks that cannot be read are computed from the other members,
 * one at a time, since these may have bad sectors elsewhere. All blocks that were obtained are written and flushed, even if some are
 * missing in the end.
 *
 * Must never: compute a block that can be read (the parity may be wrong); write a block to the new disk that was not obtained; report
 * the range as done while a block is missing.
 */
#include <errno.h>
#include <string.h>

#include "daemon/job/job_int.h"

static bool lacks(const struct ddr_job_work *r, uint32_t block)
{
	return r->lacks[block / 64] >> block % 64 & 1;
}

/* Reads the next blocks, as many as there are requests. False: all were read. */
static bool read_pieces(struct ddr_job_work *r)
{
	size_t chunk = r->j->geo.chunk;

	ddr_job_step(r, STEP_PIECES);
	for (; r->next < r->what.count && r->n_req < REQUESTS_MAX; r->next++)
		ddr_job_request(r, DDR_AIO_READ, r->target, r->next * chunk, chunk);
	return r->n_req != 0;
}

/* Notes which of the last reads failed. */
static void note_pieces(struct ddr_job_work *r)
{
	uint32_t first = r->next - r->n_req;

	for (uint32_t i = 0; i < r->n_req; i++)
		if (r->req[i].result)
			r->lacks[(first + i) / 64] |= 1ull << (first + i) % 64;
}

/* The block cannot be obtained: names the members that are the cause. */
static void lose(struct ddr_job_work *r)
{
	r->unreadable |= 1u << r->what.from;
	for (unsigned int p = 0; p < r->j->geo.roles; p++)
		r->unreadable |= r->dropped >> p & 1 ? 1u << r->what.at[p] : 0;
}

/* Reads the sources of the next missing block. False: no block is missing, except those that cannot be obtained. */
static bool read_others(struct ddr_job_work *r)
{
	size_t chunk = r->j->geo.chunk;

	for (; r->next < r->what.count; r->next++, r->dropped = 0) {
		uint32_t places;

		if (!lacks(r, r->next))
			continue;
		places = ddr_job_needs(r, r->readable & ~r->dropped, r->what.start + r->next);
		if (!places) {
			lose(r);
			continue;
		}
		ddr_job_step(r, STEP_OTHERS);
		r->unread = 0;
		for (unsigned int p = 0; places; p++, places >>= 1)
			if (places & 1)
				ddr_job_request(r, DDR_AIO_READ, p, (size_t)r->next * chunk, chunk);
		return true;
	}
	return false;
}

/* The sources of the block were read, or some of them are unreadable. */
static void compute(struct ddr_job_work *r)
{
	size_t chunk = r->j->geo.chunk;

	if (r->unread) {
		r->dropped |= r->unread;
		return;
	}
	ddr_job_compute(r, r->readable & ~r->dropped, r->what.start + r->next, r->next * chunk, chunk);
	r->lacks[r->next / 64] &= ~(1ull << r->next % 64);
	r->next++;
	r->dropped = 0;
}

/* Writes the next runs of blocks that were obtained. False: all are written. */
static bool write_runs(struct ddr_job_work *r)
{
	size_t chunk = r->j->geo.chunk;

	ddr_job_step(r, STEP_RUNS);
	while (r->next < r->what.count && r->n_req < REQUESTS_MAX) {
		uint32_t from = r->next;

		while (r->next < r->what.count && !lacks(r, r->next))
			r->next++;
		if (r->next > from)
			ddr_job_request(r, DDR_AIO_WRITE, DDR_JOB_COPY, from * chunk, (r->next - from) * chunk);
		while (r->next < r->what.count && lacks(r, r->next))
			r->next++;
	}
	r->written |= r->n_req ? 1u << DDR_JOB_COPY : 0;
	return r->n_req != 0;
}

/* Continues with the next kind of step; each is repeated as often as necessary. False: only the flush is left. */
static bool go_on(struct ddr_job_work *r)
{
	switch (r->step) {
	case STEP_READ:
		memset(r->lacks, 0, sizeof(r->lacks));
		r->readable &= ~(1u << r->target);
		r->next = 0;
		return read_pieces(r);
	case STEP_PIECES:
		note_pieces(r);
		if (read_pieces(r))
			return true;
		r->next = r->dropped = 0;
		break;
	case STEP_OTHERS:
		compute(r);
		break;
	default:
		return write_runs(r);
	}
	if (read_others(r))
		return true;
	r->next = 0;
	return write_runs(r);
}

bool ddr_job_copy_step(struct ddr_job_work *r)
{
	bool bad = ddr_job_bad_sector(r->result.result), begins = r->step == STEP_READ && r->what.rebuild && r->copy && bad;

	if (r->reported || !(begins || r->step == STEP_PIECES || r->step == STEP_OTHERS || r->step == STEP_RUNS) || (r->result.result && !bad))
		return false;
	r->result.result = 0;
	r->result.failed = 0;
	if (go_on(r))
		return true;
	r->step = STEP_WRITE;		/* which has ended */
	if (!r->written)
		ddr_job_copy_end(r);
	return false;
}

void ddr_job_copy_end(struct ddr_job_work *r)
{
	if (!r->unreadable)
		return;
	r->result.result = -ENODATA;
	r->result.failed = r->unreadable;
	ddr_job_too_few(r);
}
