// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Rebuild of a range: which other members it needs, and the contents of the new one. See job.h.
 *
 * Must never: compute from members that were not read, or from one that could not be read.
 */
#include "daemon/job/job_int.h"
#include "lib/math/parity.h"

int ddr_job_plan(const struct ddr_job_work *r, uint32_t readable, uint64_t block, struct ddr_recovery *plan)
{
	const struct ddr_geometry *g = &r->j->geo;
	uint32_t lost = 0;

	for (unsigned int role = 0; role < g->roles; role++)
		if (!(readable >> ddr_geo_member(g, role, block) & 1))
			lost |= 1u << role;
	return ddr_recovery_plan(plan, g, lost);
}

struct sources { uint32_t places; bool impossible; };

static void segment_sources(struct ddr_job_work *r, uint64_t block, size_t from, size_t len, void *ctx)
{
	struct sources *s = ctx;
	struct ddr_recovery plan;

	(void)from;
	(void)len;
	if (ddr_job_plan(r, r->readable, block, &plan)) {
		s->impossible = true;
		return;
	}
	for (unsigned int i = 0; i < plan.data; i++)
		s->places |= 1u << ddr_geo_member(&r->j->geo, plan.source[i], block);
}

bool ddr_job_sources(struct ddr_job_work *r, uint32_t *places)
{
	struct sources s = { 0 };

	ddr_job_segments(r, segment_sources, &s);
	*places = s.places;
	return !s.impossible;
}

void ddr_job_compute(struct ddr_job_work *r, uint32_t readable, uint64_t block, size_t from, size_t len)
{
	const struct ddr_geometry *g = &r->j->geo;
	void *piece[DDR_MAX_ROLES];
	struct ddr_recovery plan;
	unsigned int spare = 0;

	ddr_job_plan(r, readable, block, &plan);	/* cannot fail: it succeeded before the reads */
	for (unsigned int role = 0; role < g->roles; role++) {
		unsigned int place = ddr_geo_member(g, role, block);
		bool other = !(readable >> place & 1) && place != r->target;

		piece[role] = (other ? r->calc[spare++] : r->piece[place]) + from;
	}
	ddr_recovery_run(&plan, len, piece);
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
