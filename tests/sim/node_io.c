// SPDX-License-Identifier: GPL-2.0-or-later
/* The I/O of a daemon: what it writes, how it ends on each member, and what happens to it when power fails. It may outlive its daemon. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "node.h"

/* The superblock copy that is written next: the bad one, else the older one (daemon/disk/metaio_super.c). */
static unsigned int copy_of(const struct sim *s, uint32_t m)
{
	struct ddr_super copy[2];

	for (unsigned int c = 0; c < 2; c++)
		if (!disk_copy(s, &s->disk[m], c, &copy[c], NULL))
			return c;
	return copy[0].seq < copy[1].seq ? 0 : 1;
}

static uint8_t *place_of(struct sim *s, const struct io *io, uint32_t m)
{
	struct disk *d = &s->disk[m];

	if (io->type == DDR_OUT_SB_WRITE)
		return d->sb[copy_of(s, m)];
	return io->type == DDR_OUT_MAP_WRITE ? d->map[io->place] : d->log[io->slot][io->place];
}

static const uint8_t *bytes_of(const struct sim *s, struct io *io, uint32_t m)
{
	if (io->type != DDR_OUT_SB_WRITE)
		return io->block[0];
	ddr_super_set_copy(io->block[m], copy_of(s, m));
	ddr_super_set_owner_crc(io->block[m], io->crc[copy_of(s, m)]);
	return io->block[m];
}

/* The owner pages are durable before the superblock is written. */
static void pages_land(struct sim *s, struct io *io, uint32_t m, unsigned int copy)
{
	memcpy(s->disk[m].pages[copy], io->pages[copy], sizeof(io->pages[copy]));
	disk_landed(s, &s->disk[m], s->disk[m].sb[copy]);
}

/* One metadata block of the request lands on the member. */
static void lands(struct sim *s, struct io *io, uint32_t m)
{
	const uint8_t *bytes = bytes_of(s, io, m);
	uint8_t *place = place_of(s, io, m);

	if (io->type == DDR_OUT_SB_WRITE)
		pages_land(s, io, m, copy_of(s, m));
	memcpy(place, bytes, DDR_META_BLOCK);
	disk_landed(s, &s->disk[m], place);
	if (io->type == DDR_OUT_SB_WRITE)
		check_level(s);
}

/* Do the disks name it, other than as one that was fenced or acknowledged? Its slot is not waited for then, and a new kernel there is not known yet. */
static bool is_named(const struct sim *s, const struct node *n)
{
	const struct ddr_owners *owners = check_owners_now(s);
	uint32_t slot = check_slot_of(s, n);
	struct ddr_super sb;

	return !check_newest_super(s, &sb) ||
	       (slot != DDR_SM_NO_SLOT && !(owners && ddr_super_has_owners(&sb) && owners->slot[slot].state == DDR_SLOT_FENCED));
}

/* The superblocks that the node writes free its slot: as soon as one of them has landed, no disk that counts names the node. */
static bool frees_its_slot(const struct sim *s, const struct io *io, const struct node *n)
{
	struct ddr_super sb;

	for (uint32_t m = 0; m < DDR_MAX_MEMBERS; m++)
		for (unsigned int c = 0; (io->pend >> m & 1) && c < 2; c++)
			if (ddr_super_decode(io->block[m], c, ddr_super_offset(&s->sb0, c), &sb).code == DDR_FE_OK)
				return check_slot_in(&sb, n) == DDR_SM_NO_SLOT;
	return false;
}

/*
 * A node that owns no slot yet, or none any more, or one that is that of a dead one still: no disk names it until the superblocks that it writes have landed,
 * or from the first of them on.
 * That is a documented limit (doc/protocol.md), so they always land, unless the daemon has not given them to any disk: it stood still, and drops them.
 */
void node_first_write_lands(struct sim *s, struct node *n)
{
	bool named = is_named(s, n);

	for (struct io *io = n->io; io < n->io + SIM_MAX_IO && n->n_io; io++) {
		if (!io->used || io->type != DDR_OUT_SB_WRITE || (named && !frees_its_slot(s, io, n)) || node_holds_back(s, n, io))
			continue;
		for (uint32_t m = 0; m < DDR_MAX_MEMBERS; m++)
			if (io->pend >> m & 1)
				lands(s, io, m);
		io->used = false;
		n->n_io--;
		node_supers_land(s, n);
	}
}

static bool is_meta(const struct io *io)
{
	return io->type == DDR_OUT_SB_WRITE || io->type == DDR_OUT_LOG_WRITE || io->type == DDR_OUT_MAP_WRITE ||
	       io->type == DDR_OUT_SLOT_WRITE;
}

static uint64_t clears(const struct sim *s, const struct node *n, const struct ddr_disk_log *blk)
{
	uint64_t cleared = 0, seq;
	const struct ddr_disk_log *old = check_newest(s, (uint32_t)__builtin_ctz(check_in_sync(&n->sb)), ddr_sm_slot(n->sm), &seq);

	for (uint64_t r = 0; old && r < s->regions; r++)
		cleared += ddr_log_get(old->payload, (uint32_t)r) && !ddr_log_get(blk->payload, (uint32_t)r);
	return cleared;
}

/* As write_owners() in daemon/array/drive.c. */
static void pages_content(struct sim *s, struct node *n, struct io *io)
{
	static struct ddr_owners owners;
	struct ddr_super sb;

	node_owners(n, &owners);
	ddr_owners_follow(&owners, ddr_sm_super(n->sm));
	ddr_sm_superblock(n->sm, 0, &sb);
	ddr_owners_follow(&owners, &sb);
	ddr_sm_owners(n->sm, &owners);
	for (unsigned int c = 0; c < 2; c++) {
		sb.seq = (sb.seq & ~1ull) | c;
		if (ddr_owners_encode(&owners, &sb, io->pages[c]).code)
			sim_violation(s, "owner pages that are not valid");
		io->crc[c] = sb.owner_crc;
	}
}

static void io_content(struct sim *s, struct node *n, struct io *io)
{
	struct ddr_disk_log *blk = (struct ddr_disk_log *)io->block[0];
	struct ddr_super sb;
	uint64_t seq;

	if (io->type == DDR_OUT_SB_WRITE) {
		pages_content(s, n, io);
		for (uint32_t m = 0; m < n->sb.members; m++) {
			ddr_sm_superblock(n->sm, m, &sb);
			if (sim_real)	/* byte by byte what the daemon writes, which reads it back (node_first_write_lands) */
				sb.updated = (uint64_t)(1700000000 + (int64_t)((s->now + 1000) / 1000) + n->clock_s);
			if (ddr_super_encode(&sb, io->block[m]).code)
				sim_violation(s, "a superblock that is not valid");
			io->place = sb.seq & 1;
		}
		return;
	}
	if (io->type == DDR_OUT_LOG_WRITE)
		ddr_sm_log_block(n->sm, io->index, blk);
	else if (io->type == DDR_OUT_SLOT_WRITE)
		ddr_sm_slot_block(n->sm, io->index, blk);
	else
		ddr_sm_map_block(n->sm, io->index, blk);
	seq = __builtin_bswap64(__builtin_bswap64(blk->seq.raw));
	io->place = seq & 1;
	if (io->type == DDR_OUT_MAP_WRITE) {
		check_log_sequence(s, SIM_MAP, seq);
		return;
	}
	check_log_sequence(s, io->slot, seq);
	s->stats[STAT_CLEARS] += clears(s, n, blk);
	if (!n->quorate)
		sim_violation(s, "rule 8: the log is written without quorum");
}

void node_io_submit(struct sim *s, struct node *n, const struct ddr_output *out)
{
	struct io *io = n->io;

	while (io < n->io + SIM_MAX_IO && io->used)
		io++;
	if (io == n->io + SIM_MAX_IO)
		sim_violation(s, "more than %d requests are out", SIM_MAX_IO);
	memset(io, 0, offsetof(struct io, block));
	io->used = true;
	n->n_io++;
	io->phase = JOB_READ;
	io->type = out->type;
	io->io = out->io;
	io->issued = disk_now();
	io->index = out->index;
	io->slot = out->type == DDR_OUT_LOG_WRITE ? ddr_sm_slot(n->sm) : out->slot;
	io->since = out->since;
	io->members = out->members;
	io->start = out->start;
	io->count = out->count;
	io->job = out->job;
	io->member = out->member;
	io->from = out->type == DDR_OUT_JOB_RANGE && out->job != DDR_KA_VERIFY && out->member != DDR_NO_MEMBER ? out->from : DDR_NO_MEMBER;
	io->fix = out->job == DDR_KA_REBUILD ? 0 : out->fix;
	io->fits = out->fix & DDR_FIX_FITS;
	io->unread = 0;
	io->misled = false;
	io->wrong_from = 0;
	io->strict = out->strict;
	io->unlocked = out->unlocked;
	for (uint32_t m = 0; m < ddr_sm_super(n->sm)->members; m++)
		if (ddr_sm_super(n->sm)->member[m].role < s->g.roles && !(ddr_sm_super(n->sm)->member[m].flags & DDR_MEMBER_F_REPLACING))
			io->at[ddr_sm_super(n->sm)->member[m].role] = (uint8_t)m;
	io->failed = 0;
	io->result = 0;
	io->mismatches = 0;
	io->pend = out->members;
	if (is_meta(io))
		io_content(s, n, io);
	if (s->cluster)
		check_submit(s, n, io);
	if (io->type == DDR_OUT_SLOT_READ)
		memset(n->resynced, 0, sizeof(n->resynced));
	if (io->type == DDR_OUT_JOB_RANGE) {
		io->pend = 1;
		s->stats[STAT_JOBS]++;
		if (!io->unlocked)
			check_job_range(s, io->start, io->count);
		if (io->job == DDR_KA_RESYNC || io->fix)
			check_marks(s, n, io->start, io->count, io->fix && !(io->fix & DDR_FIX_PARITY), "a job");
	}
}

/* RELOAD, SLOT_READ: returns what is on the disks when the read ends. Sometimes it fails. */
static int read_anew(struct sim *s, struct node *n, const struct io *io)
{
	struct ddr_super sb;
	uint32_t there;

	if (!s->calm && sim_chance(s, 20))
		return -EIO;
	if (!check_newest_super(s, &sb))
		return -EIO;
	there = check_in_sync(&sb);
	for (uint32_t m = 0; m < sb.members; m++)
		there &= disk_gone(s, n, &s->disk[m]) ? ~(1u << m) : ~0u;
	if (io->type == DDR_OUT_RELOAD) {
		check_newest_owners(s, &n->owners);
		ddr_sm_load_super(n->sm, &sb);
		ddr_sm_load_owners(n->sm, &n->owners);
		node_load_blocks(s, n, there, SIM_MAP, 0, false);
	} else {
		node_load_blocks(s, n, there, io->slot, io->since, !s->calm && sim_chance(s, 40));
	}
	return 0;
}

void node_io_end(struct sim *s, struct node *n, struct io *io)
{
	static const enum ddr_in_type types[] = {
		[DDR_OUT_LOG_WRITE] = DDR_IN_LOG_DONE, [DDR_OUT_MAP_WRITE] = DDR_IN_MAP_DONE,
		[DDR_OUT_SB_WRITE] = DDR_IN_SB_DONE, [DDR_OUT_FLUSH] = DDR_IN_FLUSH_DONE,
		[DDR_OUT_JOB_RANGE] = DDR_IN_JOB_DONE, [DDR_OUT_SLOT_WRITE] = DDR_IN_LOG_DONE,
		[DDR_OUT_RELOAD] = DDR_IN_RELOADED, [DDR_OUT_SLOT_READ] = DDR_IN_SLOT_DONE,
		[DDR_OUT_ROOM] = DDR_IN_ROOM, [DDR_OUT_PREPARE] = DDR_IN_PREPARED,
	};
	struct ddr_input in = { .type = types[io->type], .io = io->io, .failed_members = io->failed, .no_space = is_meta(io) || io->type == DDR_OUT_PREPARE ? io->full : 0,
				.members = io->type == DDR_OUT_JOB_RANGE && io->phase != JOB_READ ? io->failed : 0,
				.result = io->result, .mismatches = io->mismatches, .repaired = io->repaired,
				.start = io->bad_start, .count = io->bad_count };
	bool orphan = io->orphan;

	for (uint32_t m = 0; m < DDR_MAX_MEMBERS; m++)
		if (io->fixed >> m & 1)
			in.fixed[m] = (struct ddr_fixed){ .start = io->start, .count = io->count, .blocks = io->repaired,
							  .unsure = s->g.parity == 1 && !io->lost ? io->repaired : 0 };
	io->used = false;
	n->n_io--;
	if (!orphan && (io->type == DDR_OUT_RELOAD || io->type == DDR_OUT_SLOT_READ))
		in.result = read_anew(s, n, io);
	if (io->type == DDR_OUT_ROOM)
		grow_room(s, n, io, &in);
	if (io->type == DDR_OUT_PREPARE)
		in.start = in.count = 0;
	if (!orphan)
		node_step(s, n, &in);
}

/*
 * Does this request of the daemon fail? What it was for did not happen. If the daemon dies before it reports that, the next daemon
 * does it again, unless a cache was lost that only this one knows of.
 */
bool node_io_fails(struct sim *s, const struct node *n, struct disk *d, enum disk_fault kind)
{
	uint32_t before = d->faulted;

	if (!disk_fails(s, n, d, kind))
		return false;
	if (d->dropped || (kind != FAULT_META && d->faulted == before))
		return true;
	d->faulted = before;
	if (n->sm && !d->dead)
		d->daemon_failed |= 1u << (n - s->node);
	return true;
}

/* An error that only a dead daemon knows is a documented limit: its requests do not meet temporary errors. */
bool node_io_answers(const struct sim *s, const struct node *n, bool orphan, const struct disk *d)
{
	return !orphan || disk_gone(s, n, d);
}

bool node_job_fails(struct sim *s, const struct node *n, struct io *io, uint32_t m)
{
	struct disk *d = &s->disk[m];

	if (!node_io_answers(s, n, io->orphan, d))
		return false;
	if (node_io_fails(s, n, d, FAULT_WRITE)) {
		io->failed |= 1u << m;
		io->result = -EIO;
		return true;
	}
	io->full |= disk_full(s, n, d) ? 1u << m : 0;
	return io->full >> m & 1;
}

/* A write that had no space may have landed in part. */
static void lands_in_part(struct sim *s, struct io *io, uint32_t m)
{
	const uint8_t *bytes = bytes_of(s, io, m);
	uint8_t *place = place_of(s, io, m);

	if (io->type == DDR_OUT_SB_WRITE)
		pages_land(s, io, m, copy_of(s, m));
	disk_tear(s, place, bytes);
	disk_landed(s, &s->disk[m], place);
}

/* One member's part of a request ends; false: it was the last one, and @io may be another request now. */
static bool part_end(struct sim *s, struct node *n, struct io *io)
{
	uint32_t m = (uint32_t)sim_rand(s, DDR_MAX_MEMBERS);
	struct disk *d;

	while (!(io->pend >> m & 1))
		m = (m + 1) % DDR_MAX_MEMBERS;
	d = &s->disk[m];
	io->pend &= ~(1u << m);
	if (io->type == DDR_OUT_FLUSH) {
		if (node_io_answers(s, n, io->orphan, d) && node_io_fails(s, n, d, FAULT_FLUSH))
			io->failed |= 1u << m;
		else
			disk_flush(d, io->issued);
	} else if (node_io_answers(s, n, io->orphan, d) && node_io_fails(s, n, d, FAULT_META)) {
		io->failed |= 1u << m;
	} else if (node_io_answers(s, n, io->orphan, d) && disk_full(s, n, d)) {
		io->failed |= 1u << m;
		io->full |= 1u << m;
		if (is_meta(io) && sim_chance(s, 2))
			lands_in_part(s, io, m);
	} else if (io->type == DDR_OUT_PREPARE) {
		grow_prepare(s, io, m);
	} else {
		lands(s, io, m);
		if (io->type == DDR_OUT_SB_WRITE && !io->orphan && !(io->half >> m & 1)) {
			io->half |= 1u << m;
			io->pend |= 1u << m;		/* the other copy follows */
		}
	}
	if (io->failed >> m & 1)
		sim_trace(s, "member %u fails a request of the daemon", m);
	if (io->pend)
		return true;
	node_io_end(s, n, io);
	return false;
}

uint32_t node_io_count(const struct node *n)
{
	return n->n_io;
}

static void io_event(struct sim *s, struct node *n, struct io *io)
{
	if (io->type == DDR_OUT_RELOAD || io->type == DDR_OUT_SLOT_READ || io->type == DDR_OUT_ROOM || !io->pend)
		node_io_end(s, n, io);
	else if (io->type == DDR_OUT_JOB_RANGE)
		job_event(s, n, io);
	else
		while (part_end(s, n, io) && s->cluster && !sim_chance(s, 4))
			;
}

/* How a tape identifies a request again: its type, its block or slot, and its number among several such. */
static struct act io_act(const struct node *n, const struct io *io)
{
	struct act a = act_of(ACT_DONE, n);

	a.sub = (uint8_t)io->type;
	a.arg[0] = io->type == DDR_OUT_JOB_RANGE || io->type == DDR_OUT_PREPARE ? io->start : io->index;
	a.arg[1] = io->type == DDR_OUT_SLOT_READ || io->type == DDR_OUT_SLOT_WRITE ? io->slot : 0;
	return a;
}

static bool same(const struct act *a, const struct act *b)
{
	return a->sub == b->sub && a->arg[0] == b->arg[0] && a->arg[1] == b->arg[1];
}

bool node_io_act(struct sim *s, struct node *n, const struct act *a)
{
	uint64_t left = a->arg[2];

	for (struct io *io = n->io; io < n->io + SIM_MAX_IO; io++) {
		struct act b = io_act(n, io);

		if (!io->used || !same(a, &b) || left--)
			continue;
		io_event(s, n, io);
		return true;
	}
	return false;
}

bool node_io_any(struct sim *s, struct node *n)
{
	for (struct io *io = n->io; io < n->io + SIM_MAX_IO && n->n_io; io++)
		if (io->used) {
			io_event(s, n, io);
			return true;
		}
	return false;
}

bool node_io_event(struct sim *s, struct node *n)
{
	uint32_t first = (uint32_t)sim_rand(s, SIM_MAX_IO);
	struct act a, b;

	for (uint32_t i = 0; i < SIM_MAX_IO && n->n_io; i++) {
		struct io *io = &n->io[(first + i) % SIM_MAX_IO];

		if (!io->used)
			continue;
		if (io->type == DDR_OUT_FLUSH && s->slow_flush && !s->calm && !sim_chance(s, 16))
			continue;
		a = io_act(n, io);
		for (const struct io *o = n->io; o < io; o++) {
			b = io_act(n, o);
			a.arg[2] += o->used && same(&a, &b);
		}
		return sim_act(s, a);
	}
	return false;
}

/* Some of the pages have landed. False: not all, so the superblock was not written. */
static bool pages_power(struct sim *s, struct io *io, uint32_t m)
{
	unsigned int copy = copy_of(s, m);
	uint32_t n = (uint32_t)sim_rand(s, SIM_PAGES + 3);

	if (n >= SIM_PAGES) {
		pages_land(s, io, m, copy);
		return true;
	}
	for (uint32_t i = 0; i < n; i++)
		disk_tear(s, s->disk[m].pages[copy][i], io->pages[copy][i]);
	disk_landed(s, &s->disk[m], s->disk[m].sb[copy]);
	return false;
}

/* Its part on a member had not ended: with a cluster it may still land at any time, else it is complete, torn or missing. */
static void meta_power(struct sim *s, const struct node *n, struct io *io, uint32_t m)
{
	if (disk_gone(s, n, &s->disk[m]))
		return;
	if (io->type == DDR_OUT_SB_WRITE && !pages_power(s, io, m))
		return;
	if (s->cluster)
		late_meta(s, n->id, io, m, place_of(s, io, m), bytes_of(s, io, m));
	else
		disk_tear(s, place_of(s, io, m), bytes_of(s, io, m));
}

void node_io_power(struct sim *s, struct node *n)
{
	for (struct io *io = n->io; io < n->io + SIM_MAX_IO && n->n_io; io++) {
		if (!io->used)
			continue;
		for (uint32_t m = 0; is_meta(io) && m < DDR_MAX_MEMBERS; m++)
			if (io->pend >> m & 1)
				meta_power(s, n, io, m);
		for (uint32_t m = 0; io->type == DDR_OUT_PREPARE && m < DDR_MAX_MEMBERS; m++)
			if ((io->pend >> m & 1) && !disk_gone(s, n, &s->disk[m]))
				grow_prepare_power(s, n, io, m);
		if (io->type == DDR_OUT_JOB_RANGE && io->phase == JOB_WRITE)
			job_power(s, n, io);
		io->used = false;
		n->n_io--;
	}
}
