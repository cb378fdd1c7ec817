// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The requests of a range: what is sent to its members, what their errors mean, and which have not ended. See job.h.
 *
 * Here a member is identified by its place in the stripe; in parameters and results, by its number. job.c decides what follows when
 * all requests of a step have ended: it is called through the pointer in struct ddr_jobs.
 */
#include <errno.h>
#include <string.h>

#include <qb/qblog.h>

#include "daemon/job/job_int.h"

/* A bad sector does not fail the member, unless another request failed with a worse error. */
bool ddr_job_bad_sector(int error)
{
	return error == -ENODATA || error == -EILSEQ;
}

/* Many disks, and all that are reached over a network, also report a bad sector with these errors. */
static bool plain_error(int error)
{
	return error == -EIO || error == -EREMOTEIO;
}

/* A failed read that does not fail the member if the others have the missing data. */
static bool unreadable(const struct ddr_job_work *r, const struct ddr_aio_req *req)
{
	if (req->op != DDR_AIO_READ || r->step == STEP_CHECK)
		return false;
	return ddr_job_bad_sector(req->result) || (plain_error(req->result) && !r->what.strict);
}

/* Only the worst error is reported. A bad sector does not fail the member, nor does a lack of space, whose write is repeated. */
static unsigned int weight(int result)
{
	return result == 0 ? 0 : ddr_job_bad_sector(result) ? 1 : result == -ENOSPC ? 2 : 3;
}

/* The error as it counts: a lack of space only for a write, a bad sector only for a read. */
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
 * The others cannot replace what was not read. If members reported bad sectors, these sectors are lost. Members that only reported
 * that they cannot read may be gone: they are treated like those with any other error.
 */
void ddr_job_too_few(struct ddr_job_work *r)
{
	if (!(r->result.failed & r->plain))
		return;
	r->result.failed &= r->plain;
	r->result.result = -EIO;
}

/* The disk that replaces another one has the place behind all others, and uses the piece of that one. */
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
		if (req->result != -ENOSPC || req->op != DDR_AIO_WRITE)	/* the state machine reports a lack of space, once */
			ddr_members_log(r->j->cfg.members, member, what, req->result);
	}
	if (r->j->closing)
		ddr_members_keep(r->j->cfg.members, DDR_MEMBERS_JOBS, ddr_jobs_asked(r->j));
	if (--r->waiting == 0)
		r->j->ended(r);
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
 * Each step has the full time limit, however long earlier ones took: io_timeout limits a single answer. A range still ends, since the
 * number of its steps is limited: for reads, one more for each source that is left out; for a copy with bad sectors, a few for each
 * block; then one each to write, to flush, and to read back.
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

/* ---- requests in progress --------------------------------------------------------- */

/* Members whose requests of this step have not ended; @writes: only writes. */
static uint32_t requests_out(const struct ddr_job_work *r, bool writes)
{
	uint32_t members = 0;

	for (unsigned int q = 0; q < r->n_req; q++)
		if (!r->req[q].ended && (!writes || r->req[q].op == DDR_AIO_WRITE))
			members |= 1u << member_at(r, r->req_place[q]);
	return members;
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

int ddr_job_own(const struct ddr_job_work *r)
{
	for (unsigned int q = 0; q < r->n_req; q++)
		if (!r->req[q].ended && r->req[q].own)
			return r->req[q].own;
	return 0;
}

void ddr_job_give_up(struct ddr_job_work *r)
{
	for (unsigned int q = 0; q < r->n_req; q++)
		r->req[q].given_up |= !r->req[q].ended;
}

/*
 * Reports as failed the members that do not answer and those with an error worse than a bad sector; a bad sector alone does not fail
 * a member.
 */
void ddr_job_late(struct ddr_job_work *r)
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
	ddr_job_give_up(r);
	if (weight(r->result.result) < weight(-ETIMEDOUT))
		r->result.failed = 0;
	r->result.result = -ETIMEDOUT;
	r->result.failed |= hang;
	for (unsigned int m = 0; m < DDR_MAX_MEMBERS; m++)
		if (hang >> m & 1)
			qb_log(LOG_ERR, "%s: a request of a job did not finish in time", ddr_members_who(r->j->cfg.members, m, who, sizeof(who)));
}
