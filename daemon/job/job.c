// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Ranges and their steps. See job.h. The contents of the steps are in job_resync.c, job_rebuild.c, job_copy.c and job_fix.c;
 * job_request.c sends the requests to the members.
 *
 * The steps of a range: read all members that are in sync (a rebuild: those that it needs) -> compute and compare -> write the parity
 * that differs (a rebuild: the contents of the new member; a fix: what it has corrected) -> flush the members that were written ->
 * read rewritten bad sectors back -> done. A copy of a disk with bad sectors takes more steps (job_copy.c). Each arrow waits for all
 * requests of the step before. Here a member is identified by its place in the stripe; in parameters and results, by its number.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/job/job_int.h"

#define QUEUE_DEPTH	256u
_Static_assert(QUEUE_DEPTH >= DDR_JOB_PARALLEL * REQUESTS_MAX, "room for all ranges");

static size_t piece_bytes(const struct ddr_jobs *j)
{
	return (size_t)DDR_JOB_BLOCKS_MAX * j->geo.chunk;
}

static size_t range_bytes(const struct ddr_jobs *j)
{
	return piece_bytes(j) * (j->geo.roles + j->geo.parity);
}

static int get_buffers(struct ddr_job_work *r)
{
	const struct ddr_jobs *j = r->j;
	uint8_t *at;

	r->memory = ddr_job_stock_take(*j->cfg.stock, range_bytes(j));
	if (!r->memory)
		return -ENOMEM;
	at = r->memory->at;
	for (unsigned int m = 0; m < j->geo.roles; m++, at += piece_bytes(j))
		r->piece[m] = at;
	for (unsigned int p = 0; p < j->geo.parity; p++, at += piece_bytes(j))
		r->calc[p] = at;
	return 0;
}

static void put_buffers(struct ddr_job_work *r)
{
	if (r->memory)
		r->memory->used = false;
	r->memory = NULL;
}

static void jobs_free(struct ddr_jobs *j)
{
	for (unsigned int i = 0; i < DDR_JOB_PARALLEL; i++)
		put_buffers(&j->range[i]);
	ddr_job_stock_leave(j->cfg.stock);
	ddr_members_put(j->cfg.members);
	free(j);
}

static uint64_t now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static void report(struct ddr_job_work *r)
{
	if (r->reported)
		return;
	r->reported = true;
	r->result.us = now_us() - r->began_us;
	if (!r->j->closing)
		r->j->cfg.done(r->j->cfg.ctx, &r->result);
}

static void retire(struct ddr_job_work *r)
{
	struct ddr_jobs *j = r->j;

	r->step = STEP_FREE;
	put_buffers(r);
	j->busy--;
	if (j->closing && j->busy == 0)
		jobs_free(j);
}

static void finish(struct ddr_job_work *r)
{
	report(r);
	retire(r);
}

/* ---- the steps ------------------------------------------------------------------ */

static void flush(struct ddr_job_work *r)
{
	uint32_t places = r->written;

	ddr_job_step(r, STEP_FLUSH);
	for (unsigned int p = 0; places; p++, places >>= 1)
		if (places & 1)
			ddr_job_request(r, DDR_AIO_FLUSH, p, 0, 0);
}

/* Reads what the range needs; false: there are not enough members. */
static bool read_places(struct ddr_job_work *r)
{
	uint32_t places = r->readable;

	if (r->what.rebuild && r->copy)
		places = 1u << r->target;
	else if (r->what.rebuild && !ddr_job_sources(r, &places))
		return false;
	ddr_job_step(r, STEP_READ);
	r->unread = 0;
	for (unsigned int p = 0; p < r->j->geo.roles; p++)
		if (places >> p & 1)
			ddr_job_request(r, DDR_AIO_READ, p, 0, ddr_job_bytes(r));
	return true;
}

/* Some blocks of a source cannot be read: a rebuild continues without that source if the parity covers one more. */
static bool read_others(struct ddr_job_work *r)
{
	uint32_t readable = r->readable;

	if (!r->what.rebuild || r->copy || r->step != STEP_READ || r->reported || !ddr_job_bad_sector(r->result.result))
		return false;
	r->readable &= ~r->unread;
	if (!read_places(r)) {
		r->readable = readable;
		ddr_job_too_few(r);
		return false;
	}
	r->result.result = 0;
	r->result.failed = 0;
	ddr_aio_kick(r->j->aio);
	return true;
}

/*
 * A member has left the array since it was read, and its disk may have lost writes that the parity on the others still has. So nothing may be computed from
 * what was read.
 */
static bool outdated(const struct ddr_job_work *r)
{
	const struct ddr_jobs_config *cfg = &r->j->cfg;

	return r->step < STEP_WRITE && cfg->valid && (r->what.members & ~cfg->valid(cfg->ctx));
}

/* All requests of the step have ended: starts the next one. */
static void step_done(struct ddr_job_work *r)
{
	if (outdated(r) && !r->reported) {
		r->result.result = -ESTALE;
		r->result.failed = r->result.hard = r->result.flush = 0;
		finish(r);
		return;
	}
	if (ddr_job_copy_step(r)) {
		ddr_aio_kick(r->j->aio);
		return;
	}
	if (read_others(r))
		return;
	if (r->step == STEP_READ && r->unread && !r->reported && ddr_job_bad_sector(r->result.result) && ddr_job_fix_unread(r)) {
		ddr_aio_kick(r->j->aio);
		return;
	}
	if (r->result.result || r->reported) {
		finish(r);
		return;
	}
	switch (r->step) {
	case STEP_READ:
		if (r->what.rebuild)
			ddr_job_rebuild(r);
		else if (r->what.fix)
			ddr_job_fix_wrong(r);
		else
			ddr_job_compare(r);
		break;
	case STEP_WRITE:
		flush(r);
		break;
	case STEP_FLUSH:
		if (r->rewritten) {
			ddr_job_read_back(r);
			break;
		}
		ddr_job_copy_end(r);
		finish(r);
		return;
	case STEP_CHECK:
		ddr_job_check_back(r);
		finish(r);
		return;
	default:
		finish(r);
		return;
	}
	if (r->waiting)
		ddr_aio_kick(r->j->aio);
	else
		finish(r);	/* nothing differed */
}

/* Once the array is closed, others may write to it, and what was read is outdated. */
static void requests_ended(struct ddr_job_work *r)
{
	if (r->j->closing)
		finish(r);
	else
		step_done(r);
}

/*
 * A resync needs every data role of the range, and parity; a rebuild needs a place to write and enough other members; a fix has no
 * fixed requirement.
 */
static int check(const struct ddr_job_work *r)
{
	const struct ddr_jobs *j = r->j;
	const struct ddr_geometry *g = &j->geo;
	uint64_t end;

	if ((g->parity == 0 && !r->copy) || r->what.count == 0 || r->what.count > DDR_JOB_BLOCKS_MAX ||
	    __builtin_add_overflow(r->what.start, r->what.count, &end) || end > j->blocks)
		return -EINVAL;
	if (r->what.fix && !r->what.rebuild)
		return 0;	/* what is missing shows when it is read */
	if (r->copy && (r->target >= g->roles || ddr_members_fd(j->cfg.members, r->what.target) < 0))
		return -EINVAL;
	if (r->what.rebuild)
		return r->target < g->roles && r->copy == (r->readable >> r->target & 1) ? 0 : -EINVAL;
	for (uint64_t b = r->what.start; b < end; b = ((b >> DDR_GEO_UNIT_SHIFT) + 1) << DDR_GEO_UNIT_SHIFT)
		for (unsigned int i = 0; i < ddr_geo_data(g); i++)
			if (!(r->readable & (1u << ddr_geo_member(g, i, b))))
				return -EINVAL;
	return 0;
}

/* Translates the numbers of members to their places. */
static void place_members(struct ddr_job_work *r)
{
	r->readable = 0;
	r->target = DDR_MAX_ROLES;
	r->copy = r->what.copy;
	for (unsigned int p = 0; p < r->j->geo.roles; p++) {
		unsigned int m = r->what.at[p];

		if (m < DDR_MAX_MEMBERS && (r->what.members >> m & 1))
			r->readable |= 1u << p;
		if (r->copy ? m == r->what.from : r->what.rebuild && m == r->what.target)
			r->target = p;
	}
}

static struct ddr_job_work *find_free(struct ddr_jobs *j)
{
	for (unsigned int i = 0; i < DDR_JOB_PARALLEL; i++)
		if (j->range[i].step == STEP_FREE)
			return &j->range[i];
	return NULL;
}

void ddr_jobs_range(struct ddr_jobs *j, const struct ddr_job_range *what, uint64_t now_ms, uint64_t timeout_ms)
{
	struct ddr_job_work *r = find_free(j);

	if (!r) {
		if (j->n_refused < DDR_JOB_PARALLEL)
			j->refused[j->n_refused++] = what->io;
		return;
	}
	j->busy++;
	r->what = *what;
	r->result = (struct ddr_job_result){ .io = what->io, .blocks = what->count,
					     .scan = what->unlocked };
	r->reported = false;
	r->written = r->rewritten = r->unreadable = r->plain = 0;
	memset(r->from, 0, sizeof(r->from));
	memset(r->to, 0, sizeof(r->to));
	r->began_us = now_us();
	r->waiting = 0;
	r->timeout_ms = timeout_ms;
	r->deadline_ms = now_ms + timeout_ms;
	ddr_job_step(r, STEP_READ);
	place_members(r);
	r->result.result = check(r);
	if (!r->result.result)
		r->result.result = get_buffers(r);
	if (!r->result.result && !read_places(r))
		r->result.result = -EINVAL;
	r->renew = false;
	if (r->result.result) {
		r->step = STEP_REPORT;
		return;
	}
	ddr_aio_kick(j->aio);
}

/* ---- all ranges ------------------------------------------------------------------- */

int ddr_jobs_open(struct ddr_jobs **out, const struct ddr_jobs_config *cfg)
{
	struct ddr_jobs *j = calloc(1, sizeof(*j));
	int ret;

	*out = NULL;
	if (!j)
		return -ENOMEM;
	j->cfg = *cfg;
	j->cfg.super = NULL;
	j->ended = requests_ended;
	ddr_super_geometry(cfg->super, &j->geo);
	j->data_offset = cfg->super->data_offset;
	j->blocks = cfg->super->array_blocks;
	ddr_members_get(cfg->members);
	for (unsigned int i = 0; i < DDR_JOB_PARALLEL; i++)
		j->range[i].j = j;
	ret = ddr_job_stock_join(cfg->stock, range_bytes(j));
	if (ret) {
		ddr_members_put(cfg->members);
		free(j);
		return ret;
	}
	ret = ddr_aio_open(&j->aio, cfg->loop, cfg->engine, QUEUE_DEPTH, true);
	if (ret) {
		jobs_free(j);
		return ret;
	}
	j->aio->still = cfg->still;
	*out = j;
	return 0;
}

void ddr_jobs_resize(struct ddr_jobs *j, uint64_t blocks)
{
	j->blocks = blocks;
}

void ddr_jobs_close(struct ddr_jobs *j)
{
	if (!j)
		return;
	j->closing = true;
	for (unsigned int i = 0; i < DDR_JOB_PARALLEL; i++)
		if (j->range[i].step == STEP_REPORT && !j->range[i].waiting)
			j->busy--;
	ddr_members_keep(j->cfg.members, DDR_MEMBERS_JOBS, ddr_jobs_asked(j));
	ddr_aio_close(j->aio);
	if (j->busy == 0)
		jobs_free(j);
}

bool ddr_jobs_idle(const struct ddr_jobs *j)
{
	return j->busy == 0;
}

void ddr_jobs_delay(struct ddr_jobs *j, uint64_t ms)
{
	for (unsigned int i = 0; i < DDR_JOB_PARALLEL; i++)
		j->range[i].deadline_ms += ms;
}

void ddr_jobs_tick(struct ddr_jobs *j, uint64_t now_ms)
{
	ddr_aio_retry(j->aio);
	ddr_aio_kick(j->aio);
	while (j->n_refused) {
		struct ddr_job_result busy = { .io = j->refused[--j->n_refused], .result = -EBUSY };

		j->cfg.done(j->cfg.ctx, &busy);
	}
	for (unsigned int i = 0; i < DDR_JOB_PARALLEL; i++) {
		struct ddr_job_work *r = &j->range[i];

		if (r->renew)
			r->deadline_ms = now_ms + r->timeout_ms;
		r->renew = false;
		if (r->step == STEP_REPORT) {
			finish(r);
		} else if (r->step != STEP_FREE && !r->reported && now_ms >= r->deadline_ms && ddr_job_own(r)) {
			r->reported = true;
			ddr_job_give_up(r);
			j->cfg.unable(j->cfg.ctx, ddr_job_own(r));
		} else if (r->step != STEP_FREE && !r->reported && now_ms >= r->deadline_ms) {
			ddr_job_late(r);
			report(r);	/* the buffers stay until the last request ends */
		}
	}
}
