// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Jobs of a daemon on the disks: resync, verify, fix and rebuild of one range each. Read, write and flush are separate events, so
 * that anything may happen in between.
 */
#include <errno.h>
#include <string.h>

#include "sim.h"

/* The member that held the role when the job started. */
static uint32_t job_member(const struct sim *s, const struct io *io, uint32_t role, uint64_t block)
{
	return io->at[ddr_geo_member(&s->g, role, block)];
}

/* A bad sector does not fail the member, and is not reported if another member failed with a worse error (daemon/job/job_request.c). */
static void job_read_failed(struct io *io, uint32_t m, int error)
{
	if (io->result == -EIO && error == -ENODATA)
		return;
	if (io->result != error)
		io->failed = 0;
	io->failed |= 1u << m;
	io->result = error;
}

/* A plain error of a read counts as a bad sector if the others have the missing data. */
static void job_read_lost(const struct sim *s, struct io *io, uint32_t m)
{
	bool enough = (uint32_t)__builtin_popcount(io->members & ~io->failed & ~(1u << m)) >= ddr_geo_data(&s->g);

	job_read_failed(io, m, !io->strict && enough ? -ENODATA : -EIO);
}

/* Reads the members of the parity roles of the range; a range only spans several rotations if all are there. */
static void job_read(struct sim *s, const struct node *n, struct io *io)
{
	uint32_t data = ddr_geo_data(&s->g);

	for (uint64_t b = io->start; b < io->start + io->count; b++) {
		uint64_t tokens[8], pq[2];
		bool wrong = false;

		for (uint32_t i = 0; i < data; i++) {
			uint32_t m = job_member(s, io, i, b);

			if (!(io->members >> m & 1))
				sim_violation(s, "a job on blocks of which data is missing");
			if (node_io_fails(s, n, &s->disk[m], FAULT_READ_IO))
				job_read_lost(s, io, m);
			else if (node_io_fails(s, n, &s->disk[m], FAULT_READ_MEDIUM))
				job_read_failed(io, m, -ENODATA);
			tokens[i] = disk_read(&s->disk[m], b);
			if (io->from != DDR_NO_MEMBER && m == io->from)
				io->copy[b - io->start] = tokens[i];
			/* it dropped its cache and has not failed yet: the job reads old data (not promised) */
			s->truth[b].lost |= s->disk[m].dropped;
		}
		sim_parity(s, tokens, pq);
		for (uint32_t i = data; i < s->g.roles; i++) {
			uint32_t m = job_member(s, io, i, b);

			io->parity[i - data][b - io->start] = pq[i - data];
			if (io->from != DDR_NO_MEMBER && m == io->from)
				io->copy[b - io->start] = pq[i - data];
			wrong |= (io->members >> m & 1) && disk_read(&s->disk[m], b) != pq[i - data];
		}
		io->differs[b - io->start] = wrong || io->from != DDR_NO_MEMBER;
		if (wrong && !io->mismatches++)
			io->bad_start = b;
		if (wrong)
			io->bad_count = b - io->bad_start + 1;
	}
}

/* Reads the member that is being replaced; false: part of it is unreadable, and is computed from the others if they suffice. */
static bool copy_read(struct sim *s, const struct node *n, struct io *io)
{
	struct disk *d = &s->disk[io->from];
	bool medium = false, plain = false;

	if (!(io->members >> io->from & 1))
		sim_violation(s, "a copy of member %u, which cannot be read", io->from);
	for (uint64_t b = io->start; b < io->start + io->count; b++) {
		plain |= node_io_fails(s, n, d, FAULT_READ_IO);
		medium |= plain || node_io_fails(s, n, d, FAULT_READ_MEDIUM);
		io->parity[0][b - io->start] = disk_read(d, b);
		io->differs[b - io->start] = true;
		s->truth[b].lost |= d->dropped;
	}
	if (!medium)
		return true;
	if ((uint32_t)__builtin_popcount(io->members & ~(1u << io->from)) >= ddr_geo_data(&s->g)) {
		io->members &= ~(1u << io->from);
		return false;
	}
	job_read_failed(io, io->from, plain ? -EIO : -ENODATA);
	return true;
}

/* Continues without an unreadable source, if the others suffice. */
static void rebuild_without(const struct sim *s, struct io *io, uint32_t m, int error)
{
	if ((uint32_t)__builtin_popcount(io->members & ~(1u << m)) >= ddr_geo_data(&s->g))
		io->members &= ~(1u << m);
	else
		job_read_failed(io, m, error);
}

/* With two parities one more is there than is needed. */
static void rebuild_compares(struct sim *s, struct io *io, uint64_t b)
{
	uint32_t p = ddr_geo_data(&s->g), role = ddr_geo_role(&s->g, (uint32_t)io->place, b), compared = role == p + 1 ? p : p + 1, m;
	uint64_t token;

	if (!io->fits || s->g.parity < 2 || io->result || (uint32_t)__builtin_popcount(io->members) + 1 < s->g.roles)
		return;
	m = job_member(s, io, compared, b);
	if (!check_chunk(s, b, compared, io->members & ~(1u << m), &token) || token == disk_read(&s->disk[m], b))
		return;
	check_unfit(s, b, 1, io->members);
	if (!io->mismatches++)
		io->bad_start = b;
	io->bad_count = b - io->bad_start + 1;
}

/* Computes the contents of the member @io->member from the others. */
static void rebuild_read(struct sim *s, const struct node *n, struct io *io)
{
	uint32_t place = 0;

	while (place < s->g.roles && io->at[place] != (io->from != DDR_NO_MEMBER ? io->from : io->member))
		place++;
	io->place = place;
	if (place == s->g.roles || (io->members >> io->member & 1))
		sim_violation(s, "a rebuild of member %u, which has no place or is its own source", io->member);
	if (io->from != DDR_NO_MEMBER && copy_read(s, n, io))
		return;
	for (uint64_t b = io->start; b < io->start + io->count; b++) {
		for (uint32_t m = 0; m < s->sb0.members; m++) {
			if (!(io->members >> m & 1))
				continue;
			if (node_io_fails(s, n, &s->disk[m], FAULT_READ_IO))
				rebuild_without(s, io, m, -EIO);
			else if (node_io_fails(s, n, &s->disk[m], FAULT_READ_MEDIUM))
				rebuild_without(s, io, m, -ENODATA);
			s->truth[b].lost |= s->disk[m].dropped;
		}
		/* a range may span several rotations */
		if (!io->result && !check_chunk(s, b, ddr_geo_role(&s->g, place, b), io->members, &io->parity[0][b - io->start]))
			sim_violation(s, "a rebuild of blocks of which too little is there");
		io->differs[b - io->start] = true;
		rebuild_compares(s, io, b);
	}
}

static void rebuild_write_block(struct sim *s, const struct node *n, struct io *io, uint64_t b)
{
	struct disk *d = &s->disk[io->member];

	if (node_job_fails(s, n, io, io->member))
		return;
	disk_write(d, b, io->parity[0][b - io->start]);
	if (io->from == DDR_NO_MEMBER || !(io->members >> io->from & 1))
		check_rebuilt(s, b, ddr_geo_role(&s->g, (uint32_t)io->place, b), io->parity[0][b - io->start]);
}

/* ---- fix ----------------------------------------------------------------------- */

static bool fix_reads(struct sim *s, const struct node *n, struct io *io, uint32_t m)
{
	struct disk *d = &s->disk[m];
	bool plain = node_io_fails(s, n, d, FAULT_READ_IO);

	if (!plain && !d->sour && !node_io_fails(s, n, d, FAULT_READ_MEDIUM))
		return true;
	d->sour -= d->sour > 0;
	io->plain |= plain ? 1u << m : 0;
	if (io->count > 1)
		job_read_failed(io, m, -ENODATA);
	io->lost |= 1u << m;
	return false;
}

/* One block that some members cannot deliver. What is written is what was there, unless that is unknown. */
static void fix_lost(struct sim *s, struct io *io)
{
	struct truth *t = &s->truth[io->start];
	uint32_t k = 0;

	for (uint32_t role = 0; role < s->g.roles; role++) {
		uint32_t m = job_member(s, io, role, io->start);
		uint64_t token;

		if (!(io->lost >> m & 1))
			continue;
		if (k == s->g.parity || !check_chunk(s, io->start, role, io->members & ~io->lost, &token)) {
			io->result = io->plain ? -EIO : -ENODATA;
			io->failed = io->plain ? io->plain : io->lost;
			return;
		}
		if (token != disk_read(&s->disk[m], io->start) && t->ever && !t->torn && !t->failed && !t->lost && !t->spoiled && !t->wild)
			sim_violation(s, "a bad sector of member %u at block %llu is rewritten with something else", m, (unsigned long long)io->start);
		if (!t->ever && role < ddr_geo_data(&s->g))
			t->unknown |= (uint8_t)(1u << role);	/* its contents were never defined, nor is its parity */
		io->put[k][0] = (uint8_t)m;
		io->parity[k++][0] = token;
	}
	io->differs[0] = true;
	io->repaired = 1;
	io->fixed = io->lost;
}

static void put(struct io *io, uint32_t k, uint64_t b, uint32_t m, uint64_t token)
{
	io->put[k][b - io->start] = (uint8_t)m;
	io->parity[k][b - io->start] = token;
	io->differs[b - io->start] = true;
	io->fixed |= 1u << m;
}

/* With P and Q: finds the one chunk whose change makes both match. */
static bool fix_one(const struct sim *s, struct io *io, uint64_t b, uint64_t *tokens, const uint64_t pq[2])
{
	uint32_t data = ddr_geo_data(&s->g);
	uint64_t p = disk_read(&s->disk[job_member(s, io, data, b)], b), q = disk_read(&s->disk[job_member(s, io, data + 1, b)], b);

	if (p == pq[0] || q == pq[1]) {
		put(io, 0, b, job_member(s, io, data + (p == pq[0]), b), pq[p == pq[0]]);
		return true;
	}
	for (uint32_t i = 0; i < data; i++) {
		uint64_t was = tokens[i], now[2];

		tokens[i] ^= p ^ pq[0];
		sim_parity(s, tokens, now);
		if (now[0] == p && now[1] == q) {
			put(io, 0, b, job_member(s, io, i, b), tokens[i]);
			return true;
		}
		tokens[i] = was;
	}
	return false;
}

static bool fix_block(const struct sim *s, struct io *io, uint64_t b, uint64_t *tokens, const uint64_t pq[2])
{
	uint32_t data = ddr_geo_data(&s->g);

	if (s->g.parity == 2 && fix_one(s, io, b, tokens, pq))
		return true;
	for (uint32_t k = 0; k < s->g.parity && (io->fix & DDR_FIX_PARITY); k++)
		put(io, k, b, job_member(s, io, data + k, b), pq[k]);
	return io->fix & DDR_FIX_PARITY;
}

static void fix_compare(const struct sim *s, struct io *io)
{
	uint32_t data = ddr_geo_data(&s->g);

	for (uint64_t b = io->start; b < io->start + io->count; b++) {
		uint64_t tokens[8], pq[2];
		bool wrong = false;

		for (uint32_t i = 0; i < data; i++)
			tokens[i] = disk_read(&s->disk[job_member(s, io, i, b)], b);
		sim_parity(s, tokens, pq);
		for (uint32_t k = 0; k < s->g.parity; k++)
			wrong |= disk_read(&s->disk[job_member(s, io, data + k, b)], b) != pq[k];
		if (wrong && fix_block(s, io, b, tokens, pq))
			io->repaired++;
		else
			io->mismatches += wrong;
	}
}

static void fix_read(struct sim *s, const struct node *n, struct io *io)
{
	memset(io->put, 0xff, sizeof(io->put));
	memset(io->differs, 0, sizeof(io->differs));
	for (uint32_t m = 0; m < s->sb0.members; m++)
		if (io->members >> m & 1)
			fix_reads(s, n, io, m);
	if (!io->result && io->lost)
		fix_lost(s, io);
	else if (!io->result && (io->fix & DDR_FIX_WRONG) && (uint32_t)__builtin_popcount(io->members) == s->g.roles)
		fix_compare(s, io);
}

static void fix_write_block(struct sim *s, const struct node *n, struct io *io, uint64_t b)
{
	for (uint32_t k = 0; k < 2; k++) {
		uint32_t m = io->put[k][b - io->start];

		if (m == 0xff)
			continue;
		if (!node_job_fails(s, n, io, m))
			disk_write(&s->disk[m], b, io->parity[k][b - io->start]);
	}
}

static void job_write_block(struct sim *s, const struct node *n, struct io *io, uint64_t b)
{
	uint32_t data = ddr_geo_data(&s->g);

	if (io->job == DDR_KA_REBUILD || io->fix) {
		(io->fix ? fix_write_block : rebuild_write_block)(s, n, io, b);
		return;
	}
	if (io->from != DDR_NO_MEMBER) {
		if (!node_job_fails(s, n, io, io->member))
			disk_write(&s->disk[io->member], b, io->copy[b - io->start]);
	}
	for (uint32_t i = data; i < s->g.roles; i++) {
		uint32_t m = job_member(s, io, i, b);

		if (!(io->members >> m & 1))
			continue;
		if (!node_job_fails(s, n, io, m))
			disk_write(&s->disk[m], b, io->parity[i - data][b - io->start]);
	}
}

void job_event(struct sim *s, struct node *n, struct io *io)
{
	if (io->phase == JOB_READ) {
		if (io->orphan) {
			node_io_end(s, n, io);
			return;
		}
		if (io->job == DDR_KA_REBUILD)
			rebuild_read(s, n, io);
		else if (io->fix)
			fix_read(s, n, io);
		else
			job_read(s, n, io);
		if (io->result || (io->job == DDR_KA_VERIFY && !io->fixed))
			node_io_end(s, n, io);
		else
			io->phase = JOB_WRITE;
	} else if (io->phase == JOB_WRITE) {
		/* until it can no longer land, nobody else may write there, whether its daemon lives or not */
		check_job_range(s, io->start, io->count);
		for (uint64_t b = io->start; b < io->start + io->count; b++)
			if (io->differs[b - io->start])
				job_write_block(s, n, io, b);
		io->phase = JOB_FLUSH;
		if (io->full && !io->result) {
			io->result = -ENOSPC;
			io->failed = io->full;
		}
		if (io->orphan || io->result)
			node_io_end(s, n, io);
	} else {
		uint32_t written = io->job == DDR_KA_REBUILD ? 1u << io->member : io->fix ? io->fixed : io->members | (io->from != DDR_NO_MEMBER ? 1u << io->member : 0);

		for (uint32_t m = 0; m < s->sb0.members; m++) {
			if (!(written >> m & 1))
				continue;
			if (node_io_answers(s, n, io->orphan, &s->disk[m]) && node_io_fails(s, n, &s->disk[m], FAULT_FLUSH)) {
				io->failed |= 1u << m;
				io->result = -EIO;
			} else {
				disk_flush(&s->disk[m], disk_now());
			}
		}
		n->resynced[io->start / s->geo.region_blocks] |= !io->result && !io->orphan && io->job == DDR_KA_RESYNC;
		if (!io->result && io->job == DDR_KA_RESYNC)	/* until now a power failure could have made it wrong again */
			check_whole(s, io->start, io->count, io->members);
		node_io_end(s, n, io);
	}
}

void job_power(struct sim *s, const struct node *n, struct io *io)
{
	for (uint64_t b = io->start; b < io->start + io->count; b++) {
		if (!io->differs[b - io->start])
			continue;
		if (!s->cluster && sim_chance(s, 2))
			job_write_block(s, n, io, b);
		if (s->cluster && io->job == DDR_KA_REBUILD && !disk_gone(s, n, &s->disk[io->member]))
			late_chunk(s, n->id, DDR_OUT_JOB_RANGE, io->member, b, io->parity[0][b - io->start]);
		if (s->cluster && io->job == DDR_KA_RESYNC && io->from != DDR_NO_MEMBER && !disk_gone(s, n, &s->disk[io->member]))
			late_chunk(s, n->id, DDR_OUT_JOB_RANGE, io->member, b, io->copy[b - io->start]);
		for (uint32_t k = 0; k < 2 && s->cluster && io->fix; k++)
			if (io->put[k][b - io->start] != 0xff && !disk_gone(s, n, &s->disk[io->put[k][b - io->start]]))
				late_chunk(s, n->id, DDR_OUT_JOB_RANGE, io->put[k][b - io->start], b, io->parity[k][b - io->start]);
		for (uint32_t i = ddr_geo_data(&s->g); i < s->g.roles && s->cluster && io->job == DDR_KA_RESYNC; i++) {
			uint32_t m = job_member(s, io, i, b);

			if ((io->members >> m & 1) && !disk_gone(s, n, &s->disk[m]))
				late_chunk(s, n->id, DDR_OUT_JOB_RANGE, m, b, io->parity[i - ddr_geo_data(&s->g)][b - io->start]);
		}
	}
}
