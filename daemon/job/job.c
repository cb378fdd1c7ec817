// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Resync, verify and rebuild of a range. See job.h.
 *
 * A range goes through: read all members that are in sync (of a rebuild: those that it takes) -> compute and compare ->
 * write the parity that differs (what the new member holds, what a fix has found) -> flush the members that were written -> read
 * bad sectors back that were rewritten -> done. A copy of a disk with bad sectors takes more steps (job_copy.c). Each
 * arrow waits for all requests of the step before. In here a member is called by its place in the stripe; in
 * what is given and reported, by its number.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <qb/qblog.h>

#include "daemon/job/job_int.h"
#include "lib/math/parity.h"

#define QUEUE_DEPTH	256u
_Static_assert(QUEUE_DEPTH >= DDR_JOB_PARALLEL * REQUESTS_MAX, "room for all ranges");

static void jobs_free(struct ddr_jobs *j)
{
	for (unsigned int i = 0; i < DDR_JOB_PARALLEL; i++) {
		for (unsigned int m = 0; m < DDR_MAX_ROLES; m++)
			free(j->range[i].piece[m]);
		for (unsigned int p = 0; p < DDR_MAX_PARITY; p++)
			free(j->range[i].calc[p]);
	}
	ddr_members_put(j->cfg.members);
	free(j);
}

static uint8_t *aligned(size_t size)
{
	void *p;

	return posix_memalign(&p, 4096, size) ? NULL : p;
}

/* Buffers are kept. Those of the first places are made at the start, others at the first use of their place. */
static int get_buffers(struct ddr_job_work *r)
{
	size_t size = (size_t)DDR_JOB_BLOCKS_MAX * r->j->geo.chunk;

	for (unsigned int m = 0; m < r->j->geo.roles; m++)
		if (!r->piece[m] && !(r->piece[m] = aligned(size)))
			return -ENOMEM;
	for (unsigned int p = 0; p < r->j->geo.parity; p++)
		if (!r->calc[p] && !(r->calc[p] = aligned(size)))
			return -ENOMEM;
	return 0;
}

int ddr_jobs_open(struct ddr_jobs **out, const struct ddr_jobs_config *cfg)
{
	struct ddr_jobs *j = calloc(1, sizeof(*j));
	int ret;

	*out = NULL;
	if (!j)
		return -ENOMEM;
	j->cfg = *cfg;
	j->cfg.super = NULL;
	ddr_super_geometry(cfg->super, &j->geo);
	j->data_offset = cfg->super->data_offset;
	j->blocks = cfg->super->array_blocks;
	ddr_members_get(cfg->members);
	for (unsigned int i = 0; i < DDR_JOB_PARALLEL; i++)
		j->range[i].j = j;
	for (unsigned int i = 0; i < DDR_JOB_PREPARED; i++) {
		ret = get_buffers(&j->range[i]);
		if (ret)
			goto fail;
	}
	ret = ddr_aio_open(&j->aio, cfg->loop, cfg->engine, QUEUE_DEPTH, true);
	if (ret)
		goto fail;
	*out = j;
	return 0;

fail:
	jobs_free(j);
	return ret;
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

/* Bytes that a member holds of the range. */
static size_t run_bytes(const struct ddr_job_work *r)
{
	return (size_t)r->what.count * r->j->geo.chunk;
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
	j->busy--;
	if (j->closing && j->busy == 0)
		jobs_free(j);
}

static void finish(struct ddr_job_work *r)
{
	report(r);
	retire(r);
}

static void step_done(struct ddr_job_work *r);

/* A bad sector leaves the member in the array, unless another request failed for worse. */
bool ddr_job_bad_sector(int error)
{
	return error == -ENODATA || error == -EILSEQ;
}

/* What many disks, and all that are reached over a network, say of a bad sector, too. */
static bool plain_error(int error)
{
	return error == -EIO || error == -EREMOTEIO;
}

/* A read that failed, and leaves the member in the array if the others have what it should have brought. */
static bool unreadable(const struct ddr_job_work *r, const struct ddr_aio_req *req)
{
	if (req->op != DDR_AIO_READ || r->step == STEP_CHECK)
		return false;
	return ddr_job_bad_sector(req->result) || (plain_error(req->result) && !r->what.strict);
}

/* What weighs more is told alone: a bad sector leaves the member in the array, and so does a want of space, whose write is to be done again. */
static unsigned int weight(int result)
{
	return result == 0 ? 0 : ddr_job_bad_sector(result) ? 1 : result == -ENOSPC ? 2 : 3;
}

/* As it counts: no space is one for what was written alone, and a sector is bad where it was read. */
static int result_of(const struct ddr_job_work *r, const struct ddr_aio_req *req)
{
	bool bad = ddr_job_bad_sector(req->result);

	if (unreadable(r, req))
		return bad ? req->result : -ENODATA;
	return bad || (req->result == -ENOSPC && req->op != DDR_AIO_WRITE) ? -EIO : req->result;
}

static void note_failure(struct ddr_job_work *r, const struct ddr_aio_req *req, unsigned int member)
{
	int result = result_of(r, req);

	if (weight(result) == 1 && !ddr_job_bad_sector(req->result))
		r->plain |= 1u << member;
	if (weight(result) < weight(r->result.result))
		return;
	if (weight(result) > weight(r->result.result)) {
		r->result.failed = 0;
		r->result.result = 0;
	}
	r->result.failed |= 1u << member;
	r->result.hard |= req->op != DDR_AIO_READ ? 1u << member : 0;
	r->result.flush |= req->op == DDR_AIO_FLUSH ? 1u << member : 0;
	if (!r->result.result)
		r->result.result = result;
}

/*
 * The others cannot make up for what was not read. Of members that named a bad sector that sector is lost; of those that said only that
 * they cannot read, they may be gone: whose failure that is, is judged as for any other error.
 */
void ddr_job_too_few(struct ddr_job_work *r)
{
	if (!(r->result.failed & r->plain))
		return;
	r->result.failed &= r->plain;
	r->result.result = -EIO;
}

/* The disk that replaces another one is the place behind all others: it has the piece of that one. */
static unsigned int member_at(const struct ddr_job_work *r, unsigned int place)
{
	return place == DDR_JOB_COPY ? r->what.target : r->what.at[place];
}

static void request_done(struct ddr_aio_req *req)
{
	struct ddr_job_work *r = (struct ddr_job_work *)req->tag;
	unsigned int place = r->req_place[req - r->req], member = member_at(r, place);
	char what[64];

	if (req->result) {
		r->unread |= req->op == DDR_AIO_READ ? 1u << place : 0;
		note_failure(r, req, member);
		snprintf(what, sizeof(what), "a job's %s at byte %llu", req->op == DDR_AIO_READ ? "read" : req->op == DDR_AIO_FLUSH ? "flush" : "write",
			 (unsigned long long)req->offset);
		if (req->result != -ENOSPC || req->op != DDR_AIO_WRITE)	/* the state machine tells of that, once */
			ddr_members_log(r->j->cfg.members, member, what, req->result);
	}
	if (r->j->closing)
		ddr_members_keep(r->j->cfg.members, DDR_MEMBERS_JOBS, ddr_jobs_asked(r->j));
	if (--r->waiting > 0)
		return;
	/* once the array is closed others may write it, and what was read is old */
	if (r->j->closing)
		finish(r);
	else
		step_done(r);
}

void ddr_job_buffer(struct ddr_job_work *r, enum ddr_aio_op op, unsigned int place, size_t from, size_t len, uint8_t *buf)
{
	struct ddr_aio_req *req = &r->req[r->n_req];
	struct ddr_jobs *j = r->j;

	r->req_place[r->n_req++] = place;
	*req = (struct ddr_aio_req){
		.op = op,
		.fd = ddr_members_fd(j->cfg.members, member_at(r, place)),
		.buf = buf,
		.len = (uint32_t)len,
		.offset = j->data_offset + ddr_geo_offset(&j->geo, r->what.start) + from,
		.done = request_done,
		.tag = (uintptr_t)r,
		.idle = r->what.idle,
	};
	r->waiting++;
	ddr_aio_submit(j->aio, req);
}

void ddr_job_request(struct ddr_job_work *r, enum ddr_aio_op op, unsigned int place, size_t from, size_t len)
{
	ddr_job_buffer(r, op, place, from, len, r->piece[place == DDR_JOB_COPY ? r->target : place] + from);
}

/*
 * Whoever is asked now has all of the time to answer, however long others took before: io_timeout is what one answer may take. No range lives
 * for ever by that, since the number of its steps is bounded: of reads, one more for each source that is left out; of a copy with bad sectors,
 * a few for each block; then one to write, to flush, and to read back.
 */
void ddr_job_step(struct ddr_job_work *r, enum ddr_job_step step)
{
	r->step = step;
	r->n_req = 0;
	r->renew = true;
}

void ddr_job_segments(struct ddr_job_work *r, ddr_job_segment_fn fn, void *ctx)
{
	uint64_t unit = 1u << DDR_GEO_UNIT_SHIFT, b = r->what.start, end = b + r->what.count;
	size_t chunk = r->j->geo.chunk;

	while (b < end) {
		uint64_t next = (b / unit + 1) * unit;
		uint64_t n = (next < end ? next : end) - b;

		fn(r, b, (size_t)(b - r->what.start) * chunk, (size_t)n * chunk, ctx);
		b += n;
	}
}

/* First and last byte + 1 of the chunks in [from, from + len) that differ from @calc; counts them in @diff by block. */
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

/* ---- resync and verify ---------------------------------------------------------- */

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

/* The piece of the member that is replaced is right: the one that replaces it gets it. */
static void copy(struct ddr_job_work *r)
{
	r->written |= 1u << DDR_JOB_COPY;
	ddr_job_request(r, DDR_AIO_WRITE, DDR_JOB_COPY, 0, run_bytes(r));
}

static void compare(struct ddr_job_work *r)
{
	uint8_t diff[DDR_JOB_BLOCKS_MAX] = { 0 };

	ddr_job_step(r, STEP_WRITE);
	ddr_job_segments(r, ddr_job_check, diff);
	ddr_job_differing(r, diff);
	if (r->copy)
		copy(r);
}

/* ---- rebuild -------------------------------------------------------------------- */

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

void ddr_job_compute(struct ddr_job_work *r, uint32_t readable, uint64_t block, size_t from, size_t len)
{
	const struct ddr_geometry *g = &r->j->geo;
	void *piece[DDR_MAX_ROLES];
	struct ddr_recovery plan;
	unsigned int spare = 0;

	ddr_job_plan(r, readable, block, &plan);	/* it went before the reads */
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

static void rebuild(struct ddr_job_work *r)
{
	ddr_job_step(r, STEP_WRITE);
	if (r->copy) {
		copy(r);
		return;
	}
	ddr_job_segments(r, segment_rebuild, NULL);
	r->written = 1u << r->target;
	ddr_job_request(r, DDR_AIO_WRITE, r->target, 0, run_bytes(r));
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

/* Reads what the range needs; false: that cannot be had. */
static bool read_places(struct ddr_job_work *r)
{
	struct sources s = { .places = r->readable };

	if (r->what.rebuild && r->copy) {
		s.places = 1u << r->target;
	} else if (r->what.rebuild) {
		s.places = 0;
		ddr_job_segments(r, segment_sources, &s);
		if (s.impossible)
			return false;
	}
	ddr_job_step(r, STEP_READ);
	r->unread = 0;
	for (unsigned int p = 0; p < r->j->geo.roles; p++)
		if (s.places >> p & 1)
			ddr_job_request(r, DDR_AIO_READ, p, 0, run_bytes(r));
	return true;
}

/* Some blocks of a source cannot be read: a rebuild goes without it where the parity covers one more. */
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

/* All requests of the step have ended: what comes next? */
static void step_done(struct ddr_job_work *r)
{
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
			rebuild(r);
		else if (r->what.fix)
			ddr_job_fix_wrong(r);
		else
			compare(r);
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

/* A resync needs every data role of the range, and a parity to be of use; a rebuild, a place to write and enough others; a fix, none for certain. */
static int check(const struct ddr_job_work *r)
{
	const struct ddr_jobs *j = r->j;
	const struct ddr_geometry *g = &j->geo;
	uint64_t end;

	if ((g->parity == 0 && !r->copy) || r->what.count == 0 || r->what.count > DDR_JOB_BLOCKS_MAX ||
	    __builtin_add_overflow(r->what.start, r->what.count, &end) || end > j->blocks)
		return -EINVAL;
	if (r->what.fix)
		return 0;	/* what it lacks shows when it is read */
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

/* From the numbers of members to their places. */
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

/* Members whose requests of this step have not ended; @writes: only writes. */
static uint32_t requests_out(const struct ddr_job_work *r, bool writes)
{
	uint32_t members = 0;

	for (unsigned int q = 0; q < r->n_req; q++)
		if (!r->req[q].ended && (!writes || r->req[q].op == DDR_AIO_WRITE))
			members |= 1u << member_at(r, r->req_place[q]);
	return members;
}

bool ddr_jobs_idle(const struct ddr_jobs *j)
{
	return j->busy == 0;
}

bool ddr_jobs_use(const struct ddr_jobs *j, int fd)
{
	for (const struct ddr_job_work *r = j->range; r < j->range + DDR_JOB_PARALLEL; r++)
		for (unsigned int q = 0; r->step != STEP_FREE && q < r->n_req; q++)
			if (!r->req[q].ended && r->req[q].fd == fd)
				return true;
	return false;
}

static uint32_t all_out(const struct ddr_jobs *j, bool writes)
{
	uint32_t members = 0;

	for (unsigned int i = 0; i < DDR_JOB_PARALLEL; i++)
		if (j->range[i].step != STEP_FREE)
			members |= requests_out(&j->range[i], writes);
	return members;
}

uint32_t ddr_jobs_asked(const struct ddr_jobs *j)
{
	return all_out(j, false);
}

uint32_t ddr_jobs_writes(const struct ddr_jobs *j)
{
	return all_out(j, true);
}

/* Members that do not answer have failed, and those that failed for worse than a bad sector; with a bad sector alone a member stays. */
static void late(struct ddr_job_work *r)
{
	uint32_t hang = requests_out(r, false);
	char who[DDR_MEMBERS_WHO];

	for (unsigned int q = 0; q < r->n_req; q++) {
		uint32_t member = 1u << member_at(r, r->req_place[q]);

		if (r->req[q].ended || r->req[q].op == DDR_AIO_READ)
			continue;
		r->result.hard |= member;
		r->result.flush |= r->req[q].op == DDR_AIO_FLUSH ? member : 0;
	}
	if (weight(r->result.result) < weight(-ETIMEDOUT))
		r->result.failed = 0;
	r->result.result = -ETIMEDOUT;
	r->result.failed |= hang;
	for (unsigned int m = 0; m < DDR_MAX_MEMBERS; m++)
		if (hang >> m & 1)
			qb_log(LOG_ERR, "%s: a request of a job did not finish in time", ddr_members_who(r->j->cfg.members, m, who, sizeof(who)));
	report(r);	/* the buffers stay until the last request ends */
}

void ddr_jobs_delay(struct ddr_jobs *j, uint64_t ms)
{
	for (unsigned int i = 0; i < DDR_JOB_PARALLEL; i++)
		j->range[i].deadline_ms += ms;
}

void ddr_jobs_tick(struct ddr_jobs *j, uint64_t now_ms)
{
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
		} else if (r->step != STEP_FREE && !r->reported && now_ms >= r->deadline_ms) {
			late(r);
		}
	}
}
