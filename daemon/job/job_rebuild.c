// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Rebuild of a range: which other members it needs, and the contents of the new one. See job.h.
 *
 * Must never: compute from members that were not read, or from one that could not be read; keep to itself that what it computed from does
 * not fit together, where that can be seen.
 */
#include <string.h>

#include "daemon/job/job_int.h"
#include "lib/math/parity.h"

static uint32_t lost_roles(const struct ddr_job_work *r, uint32_t readable, uint64_t block)
{
	const struct ddr_geometry *g = &r->j->geo;
	uint32_t lost = 0;

	for (unsigned int role = 0; role < g->roles; role++)
		if (!(readable >> ddr_geo_member(g, role, block) & 1))
			lost |= 1u << role;
	return lost;
}

/* Never P, unless Q is lost: what is lost is computed from P, with or without a comparison. */
int ddr_job_to_compare(const struct ddr_job_work *r, uint32_t lost)
{
	unsigned int q = ddr_geo_data(&r->j->geo) + 1;

	if (!(r->what.fix & DDR_FIX_FITS) || r->j->geo.parity < 2 || lost & (lost - 1))
		return -1;
	return (int)(lost == 1u << q ? q - 1 : q);
}

uint32_t ddr_job_needs(const struct ddr_job_work *r, uint32_t readable, uint64_t block)
{
	uint32_t places = 0, lost = lost_roles(r, readable, block);
	int compared = ddr_job_to_compare(r, lost);
	struct ddr_recovery plan;

	if (ddr_recovery_plan(&plan, &r->j->geo, lost))
		return 0;
	for (unsigned int i = 0; i < plan.data; i++)
		places |= 1u << ddr_geo_member(&r->j->geo, plan.source[i], block);
	return compared < 0 ? places : places | 1u << ddr_geo_member(&r->j->geo, (unsigned int)compared, block);
}

struct sources { uint32_t places; bool impossible; };

static void segment_sources(struct ddr_job_work *r, uint64_t block, size_t from, size_t len, void *ctx)
{
	uint32_t places = ddr_job_needs(r, r->readable, block);
	struct sources *s = ctx;

	(void)from;
	(void)len;
	s->places |= places;
	s->impossible |= !places;
}

bool ddr_job_sources(struct ddr_job_work *r, uint32_t *places)
{
	struct sources s = { 0 };

	ddr_job_segments(r, segment_sources, &s);
	*places = s.places;
	return !s.impossible;
}

/* @block is the first one. Notes in the result which blocks differ between @read and @calc. Called in the order of the blocks. */
static void compare(struct ddr_job_work *r, uint64_t block, const uint8_t *read, const uint8_t *calc, size_t len)
{
	size_t chunk = r->j->geo.chunk;

	for (size_t at = 0; at < len; at += chunk, block++) {
		if (memcmp(read + at, calc + at, chunk) == 0)
			continue;
		if (!r->result.mismatches++)
			r->result.bad_start = block;
		r->result.bad_count = block - r->result.bad_start + 1;
	}
}

void ddr_job_compute(struct ddr_job_work *r, uint32_t readable, uint64_t block, size_t from, size_t len)
{
	const struct ddr_geometry *g = &r->j->geo;
	uint32_t lost = lost_roles(r, readable, block);
	int compared = ddr_job_to_compare(r, lost);
	void *piece[DDR_MAX_ROLES];
	struct ddr_recovery plan;
	unsigned int spare = 0;

	for (unsigned int role = 0; role < g->roles; role++) {
		unsigned int place = ddr_geo_member(g, role, block);
		bool other = (!(readable >> place & 1) && place != r->target) || (int)role == compared;

		piece[role] = (other ? r->calc[spare++] : r->piece[place]) + from;
	}
	/* cannot fail: it succeeded before the reads */
	ddr_recovery_plan(&plan, g, compared < 0 ? lost : lost | 1u << compared);
	ddr_recovery_run(&plan, len, piece);
	if (compared >= 0)
		compare(r, block, r->piece[ddr_geo_member(g, (unsigned int)compared, block)] + from, piece[compared], len);
}

static void segment_rebuild(struct ddr_job_work *r, uint64_t block, size_t from, size_t len, void *ctx)
{
	(void)ctx;
	ddr_job_compute(r, r->readable, block, from, len);
}

void ddr_job_rebuild(struct ddr_job_work *r)
{
	ddr_job_step(r, STEP_WRITE);
	if (r->copy) {
		ddr_job_copy_whole(r);
		return;
	}
	ddr_job_segments(r, segment_rebuild, NULL);
	r->written = 1u << r->target;
	ddr_job_request(r, DDR_AIO_WRITE, r->target, 0, ddr_job_bytes(r));
}

void ddr_job_copy_whole(struct ddr_job_work *r)
{
	r->written |= 1u << DDR_JOB_COPY;
	ddr_job_request(r, DDR_AIO_WRITE, DDR_JOB_COPY, 0, ddr_job_bytes(r));
}
