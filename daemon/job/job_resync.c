// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Resync and verify of a range: where does the parity differ from that of the data? A resync corrects it. See job.h.
 *
 * Must never: write parity of a range that verify only reads.
 */
#include <string.h>

#include "daemon/job/job_int.h"
#include "lib/math/parity.h"

/* First and last byte + 1 of the chunks in [from, from + len) that differ from @calc; marks their blocks in @diff. */
static size_t differing(const struct ddr_job_work *r, const uint8_t *disk, const uint8_t *calc, size_t from, size_t len,
			size_t *first, uint8_t *diff)
{
	size_t chunk = r->j->geo.chunk, end = 0;

	for (size_t i = from; i < from + len; i += chunk) {
		if (memcmp(disk + i, calc + i, chunk) == 0)
			continue;
		diff[i / chunk] = 1;
		if (end == 0)
			*first = i;
		end = i + chunk;
	}
	return end;
}

void ddr_job_check(struct ddr_job_work *r, uint64_t block, size_t from, size_t len, void *ctx)
{
	const struct ddr_geometry *g = &r->j->geo;
	void *piece[DDR_MAX_ROLES];
	unsigned int data = ddr_geo_data(g);

	for (unsigned int i = 0; i < data; i++)
		piece[i] = r->piece[ddr_geo_member(g, i, block)] + from;
	for (unsigned int p = 0; p < g->parity; p++)
		piece[data + p] = r->calc[p] + from;
	ddr_parity_generate(g, len, piece);
	for (unsigned int p = 0; p < g->parity; p++) {
		unsigned int m = ddr_geo_member(g, data + p, block);
		size_t first = 0, end;

		if (!(r->readable & (1u << m)))
			continue;
		end = differing(r, r->piece[m], r->calc[p], from, len, &first, ctx);
		if (!end || !r->what.repair)
			continue;
		memcpy(r->piece[m] + first, r->calc[p] + first, end - first);
		r->written |= 1u << m;
		ddr_job_request(r, DDR_AIO_WRITE, m, first, end - first);
	}
}

void ddr_job_differing(struct ddr_job_work *r, const uint8_t *diff)
{
	uint64_t last = 0;

	for (uint64_t i = 0; i < r->what.count; i++) {
		if (!diff[i])
			continue;
		if (!r->result.mismatches++)
			r->result.bad_start = r->what.start + i;
		last = r->what.start + i;
	}
	if (r->result.mismatches)
		r->result.bad_count = last - r->result.bad_start + 1;
}

void ddr_job_compare(struct ddr_job_work *r)
{
	uint8_t diff[DDR_JOB_BLOCKS_MAX] = { 0 };

	ddr_job_step(r, STEP_WRITE);
	ddr_job_segments(r, ddr_job_check, diff);
	ddr_job_differing(r, diff);
	if (r->copy)
		ddr_job_copy_whole(r);
}
