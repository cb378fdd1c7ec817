// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The hands of the state machine: what the daemon does with its outputs, in order, and
 * how it comes up from what is on disk. It may die between any two outputs; the I/O that
 * is out then ends by itself, with nobody to hear of it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

/* ---- coming up ----------------------------------------------------------------- */

static void load_blocks(struct sim *s, struct node *n, uint32_t in_sync, uint32_t slot, bool unreadable)
{
	bool map = slot == SIM_MAP;
	const struct ddr_disk_log *best = NULL;
	struct ddr_log_info info;
	uint64_t seq, top = 0;
	struct ddr_super sb = n->sb;

	sb.array_blocks = ddr_super_most_blocks(&sb);	/* how large the array is by now, others may know */
	for (uint32_t m = 0; m < n->sb.members; m++) {
		const struct ddr_disk_log *blk = in_sync >> m & 1 ? check_newest(s, m, slot, &seq) : NULL;

		if (blk && seq > top) {
			best = blk;
			top = seq;
		}
	}
	if (unreadable || !best) {
		if (map)
			ddr_sm_load_map(n->sm, 0, NULL, 0);
		else
			ddr_sm_load_log(n->sm, slot, 0, NULL, 0, 0, NULL, 0);
		return;
	}
	ddr_log_decode(best, &sb, (uint16_t)slot, 0, top & 1, &info);
	if (map)
		ddr_sm_load_map(n->sm, 0, best->payload, top);
	else
		ddr_sm_load_log(n->sm, slot, 0, best->payload, top, info.node, info.boot_id, info.cookie);
	if (!map)
		ddr_sm_load_repairs(n->sm, slot, 0, info.repair);
}

bool node_may_start(const struct node *n)
{
	return !n->sm && !n->n_io;	/* else the locks of the last daemon are still held */
}

/* The members that the kernel's table names at their roles. */
static uint32_t named_by(const struct sim *s, const struct node *n)
{
	const struct ddr_super *sb = ddr_sm_super(n->sm);
	uint32_t members = 0;

	for (uint32_t p = 0; p < s->g.roles; p++)
		if (sb->member[n->k.disk[p]].role == p)
			members |= 1u << n->k.disk[p];
	return members;
}

static uint32_t shadow_of(const struct sim *s, const struct node *n)
{
	uint32_t m = n->k.disk[DDR_UAPI_SHADOW];

	(void)s;
	return m != SIM_NOBODY && ddr_sm_super(n->sm)->member[m].role == n->k.shadow_place ? m : DDR_NO_MEMBER;
}

static void attach(struct sim *s, struct node *n)
{
	struct ddr_input in = { .type = DDR_IN_K_ATTACHED, .cookie = n->k.cookie, .count = n->k.blocks };

	in.boot_id[0] = n->k.boot;
	in.boot_id[1] = (uint8_t)n->id;
	in.members = named_by(s, n);
	in.member = shadow_of(s, n);
	in.value = (n->k.disk[DDR_UAPI_SHADOW] != SIM_NOBODY ? DDR_SHADOW_NAMED : 0) | (n->k.state[DDR_UAPI_SHADOW] != DDR_KM_OUT ? DDR_SHADOW_USED : 0);
	n->table_due = false;
	node_step(s, n, &in);
	kernel_bind(s, &n->k);
	kernel_run(s, &n->k);
}

static void takes_spares(struct sim *s, struct node *n)
{
	struct ddr_input in = { .type = DDR_IN_OP_SET, .key = DDR_SM_HOT_SPARE, .value = 1 };

	if (n->sm)
		node_step(s, n, &in);
}

/* A daemon of a cluster comes up: it reads nothing yet, and joins the group. */
static void join(struct sim *s, struct node *n)
{
	struct ddr_input in = { .type = DDR_IN_TICK, .now_ms = s->now };

	n->failed = n->ready = n->clean = n->gave_up = n->leaving = n->left = n->quorate = false;
	n->crash_after = -1;
	n->v_ring = n->q_ring = 0;
	n->pid++;
	if (!n->k.there)
		kernel_new(s, &n->k);
	sim_trace(s, "node %u: daemon %u starts", n->id, n->pid);
	node_step(s, n, &in);
	in = (struct ddr_input){ .type = DDR_IN_OP_SET, .key = DDR_SM_AWAY_MS, .value = s->storm.away_ms };
	node_step(s, n, &in);
	in.key = DDR_SM_IDLE_MS;
	in.value = s->storm.idle_ms;
	node_step(s, n, &in);
	takes_spares(s, n);
	if (n->sm)
		attach(s, n);
	if (n->sm)
		cluster_joined(s, n);
}

/* The device of a dead member can often be opened; only its I/O fails. */
static bool still_there(struct sim *s)
{
	return s->cluster && (s->calm || sim_chance(s, 2));
}

void node_start(struct sim *s, struct node *n)
{
	struct ddr_sm_config cfg = { .node = n->id, .slot = 0, .super = &n->sb };
	uint32_t in_sync;

	if (!check_newest_super(s, &n->sb)) {
		if (!s->lossy)
			sim_violation(s, "no member holds a valid superblock");
		return;
	}
	if (check_hopeless(s))
		return;		/* the node has seen a later generation, and does not start from an older one (note 8) */
	if (n->room < n->sb.array_blocks)
		n->room = s->room;	/* with devices that it sees too small it does not start */
	for (uint32_t m = 0; m < n->sb.members; m++) {
		s->disk[m].cut &= ~(1u << (n - s->node));	/* a node that lost its way to a member starts when it is mended */
		cfg.present |= s->disk[m].dead && !still_there(s) ? 0 : 1u << m;
	}
	for (uint32_t i = 0; i < 16; i++)
		cfg.entropy[i] = (uint8_t)sim_rand(s, 256);
	cfg.cluster = s->cluster;
	cfg.several = s->n_nodes > 1;
	cfg.fencing = s->fencing;
	n->sm = rig_sm(&cfg);
	if (!n->sm)
		sim_violation(s, "the configuration is refused");
	if (s->cluster) {
		join(s, n);
		return;
	}
	in_sync = check_in_sync(&n->sb) & cfg.present;
	load_blocks(s, n, in_sync, 0, !s->calm && sim_chance(s, 40));
	load_blocks(s, n, in_sync, SIM_MAP, !s->calm && sim_chance(s, 80));
	n->failed = n->ready = n->clean = false;
	n->crash_after = -1;
	if (!n->k.there)
		kernel_new(s, &n->k);
	sim_trace(s, "daemon starts, generation %llu, present %x", (unsigned long long)n->sb.generation, cfg.present);
	s->bus.ring++;
	bus_view(s, n);
	takes_spares(s, n);
	attach(s, n);
}

/* Of a superblock's copies the one that is written next: that which is bad, else the older one (daemon/disk/metaio_super.c). */
static unsigned int copy_of(const struct sim *s, uint32_t m)
{
	struct ddr_super copy[2];

	for (unsigned int c = 0; c < 2; c++)
		if (ddr_super_decode(s->disk[m].sb[c], c, ddr_super_offset(&s->sb0, c), &copy[c]).code != DDR_FE_OK)
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
	return io->block[m];
}

/* One block of metadata of the request lands on the member. */
static void lands(struct sim *s, struct io *io, uint32_t m)
{
	const uint8_t *bytes = bytes_of(s, io, m);
	uint8_t *place = place_of(s, io, m);

	memcpy(place, bytes, DDR_META_BLOCK);
	disk_landed(s, &s->disk[m], place);
	if (io->type == DDR_OUT_SB_WRITE)
		check_level(s);
}

/* The first owner of an array: that no disk names it until its first superblocks landed is a limit (doc/protocol.md), so they land. */
static void first_write_lands(struct sim *s, struct node *n)
{
	struct ddr_super sb;
	bool owned = !check_newest_super(s, &sb);

	for (uint32_t i = 0; i < s->sb0.slots; i++)
		owned |= sb.slot_node[i] != 0;
	for (struct io *io = n->io; io < n->io + SIM_MAX_IO && n->n_io && !owned; io++) {
		if (!io->used || io->type != DDR_OUT_SB_WRITE)
			continue;
		for (uint32_t m = 0; m < DDR_MAX_MEMBERS; m++)
			if (io->pend >> m & 1)
				lands(s, io, m);
		io->used = false;
		n->n_io--;
	}
}

void node_kill(struct sim *s, struct node *n)
{
	sim_trace(s, "daemon dies");
	if (s->cluster)
		first_write_lands(s, n);
	free(n->sm);
	n->sm = NULL;
	n->table_due = false;
	n->seek = 0;
	n->resize = 0;
	n->k.suspended = false;
	n->k.attached = false;
	n->k.n_queue = 0;
	disk_forget_daemon(s, n);	/* the next one writes all of it anew */
	for (uint32_t i = 0; i < SIM_MAX_IO; i++)
		n->io[i].orphan = true;
	if (s->cluster)
		cluster_gone(s, n);
	else
		bus_forget(s, n->id);
}

/* ---- I/O ----------------------------------------------------------------------- */

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

static void io_content(struct sim *s, struct node *n, struct io *io)
{
	struct ddr_disk_log *blk = (struct ddr_disk_log *)io->block[0];
	struct ddr_super sb;
	uint64_t seq;

	if (io->type == DDR_OUT_SB_WRITE) {
		for (uint32_t m = 0; m < n->sb.members; m++) {
			ddr_sm_superblock(n->sm, m, &sb);
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

static void io_submit(struct sim *s, struct node *n, const struct ddr_output *out)
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
	io->members = out->members;
	io->start = out->start;
	io->count = out->count;
	io->job = out->job;
	io->member = out->member;
	io->from = out->type == DDR_OUT_JOB_RANGE && out->job != DDR_KA_VERIFY && out->member != DDR_NO_MEMBER ? out->from : DDR_NO_MEMBER;
	io->fix = out->fix;
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

/* RELOAD, SLOT_READ: what is on the disks when the reading ends. Now and then it fails. */
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
		ddr_sm_load_super(n->sm, &sb);
		load_blocks(s, n, there, SIM_MAP, false);
	} else {
		load_blocks(s, n, there, io->slot, !s->calm && sim_chance(s, 40));
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
 * Does this request of the daemon fail? What it was for did not happen, and goes on in the next daemon's hands if this one dies
 * before it has told of it; unless a cache is gone with it, which nobody else knows of.
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

/* An error that only a dead daemon hears of is a known limit: its requests do not meet one that passes. */
bool node_io_answers(const struct sim *s, const struct node *n, const struct io *io, const struct disk *d)
{
	return !io->orphan || disk_gone(s, n, d);
}

bool node_job_fails(struct sim *s, const struct node *n, struct io *io, uint32_t m)
{
	struct disk *d = &s->disk[m];

	if (!node_io_answers(s, n, io, d))
		return false;
	if (node_io_fails(s, n, d, FAULT_WRITE)) {
		io->failed |= 1u << m;
		io->result = -EIO;
		return true;
	}
	io->full |= disk_full(s, n, d) ? 1u << m : 0;
	return io->full >> m & 1;
}

/* What was written without space may have landed in part. */
static void lands_in_part(struct sim *s, struct io *io, uint32_t m)
{
	const uint8_t *bytes = bytes_of(s, io, m);
	uint8_t *place = place_of(s, io, m);

	disk_tear(s, place, bytes);
	disk_landed(s, &s->disk[m], place);
}

/* One member's part of some request ends; false: it was the last, and what stands at @io now may be another request. */
static bool part_end(struct sim *s, struct node *n, struct io *io)
{
	uint32_t m = (uint32_t)sim_rand(s, DDR_MAX_MEMBERS);
	struct disk *d;

	while (!(io->pend >> m & 1))
		m = (m + 1) % DDR_MAX_MEMBERS;
	d = &s->disk[m];
	io->pend &= ~(1u << m);
	if (io->type == DDR_OUT_FLUSH) {
		if (node_io_answers(s, n, io, d) && node_io_fails(s, n, d, FAULT_FLUSH))
			io->failed |= 1u << m;
		else
			disk_flush(d, io->issued);
	} else if (node_io_answers(s, n, io, d) && node_io_fails(s, n, d, FAULT_META)) {
		io->failed |= 1u << m;
	} else if (node_io_answers(s, n, io, d) && disk_full(s, n, d)) {
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

static bool io_event(struct sim *s, struct node *n)
{
	uint32_t first = (uint32_t)sim_rand(s, SIM_MAX_IO);

	for (uint32_t i = 0; i < SIM_MAX_IO && n->n_io; i++) {
		struct io *io = &n->io[(first + i) % SIM_MAX_IO];

		if (!io->used)
			continue;
		if (io->type == DDR_OUT_FLUSH && s->slow_flush && !s->calm && !sim_chance(s, 16))
			continue;
		if (io->type == DDR_OUT_RELOAD || io->type == DDR_OUT_SLOT_READ || io->type == DDR_OUT_ROOM || !io->pend)
			node_io_end(s, n, io);
		else if (io->type == DDR_OUT_JOB_RANGE)
			job_event(s, n, io);
		else
			while (part_end(s, n, io) && s->cluster && !sim_chance(s, 4))
				;
		return true;
	}
	return false;
}

static bool record_event(struct sim *s, struct node *n)
{
	struct ddr_input in = { .type = DDR_IN_K_REC };

	if (!n->sm || !n->k.n_queue)
		return false;
	in.rec = n->k.queue[0];
	memmove(n->k.queue, n->k.queue + 1, --n->k.n_queue * sizeof(in.rec));
	node_step(s, n, &in);
	return true;
}

/* What is in flight ends before the table is exchanged, and what waits is given back. */
static bool suspended(struct sim *s, struct node *n)
{
	n->k.suspended = true;
	if (kernel_in_flight(&n->k)) {
		kernel_event(s, &n->k);
		return false;
	}
	for (const struct op *op = n->k.op; op < n->k.op + SIM_MAX_OPS; op++)
		if (op->state == OP_PARKING) {
			kernel_event(s, &n->k);
			return false;
		}
	kernel_requeue(s, &n->k);
	n->k.suspended = false;
	return true;
}

/* A new table, and the daemon binds itself anew; or the device cannot be opened here. */
static void table_event(struct sim *s, struct node *n)
{
	struct ddr_input in = { .type = DDR_IN_TABLE_DONE, .member = n->table_member, .value = n->table_place, .result = -ENXIO };
	bool shadow = n->table_place == DDR_UAPI_SHADOW;

	if (n->table_member != DDR_NO_MEMBER && disk_gone(s, n, &s->disk[n->table_member])) {
		n->table_due = false;
		n->k.suspended = false;
		node_step(s, n, &in);
		return;
	}
	if (!suspended(s, n))
		return;
	n->table_due = false;
	sim_trace(s, "node %u: table with member %d at place %u", n->id, (int)n->table_member, n->table_place);
	/* another device at a place, or a shadow that is in use: all waits until the daemon that has seen this table enables it */
	n->k.unjudged |= !shadow || n->k.state[DDR_UAPI_SHADOW] != DDR_KM_OUT;
	n->k.disk[n->table_place] = n->table_member == DDR_NO_MEMBER ? SIM_NOBODY : (uint8_t)n->table_member;
	if (n->table_member != DDR_NO_MEMBER)
		kernel_forget_errors(&n->k, n->table_place);
	n->k.said_out[n->table_place] &= n->table_member == DDR_NO_MEMBER;
	if (shadow && n->table_member != DDR_NO_MEMBER)
		n->k.shadow_place = ddr_sm_super(n->sm)->member[n->table_member].role;
	else if (!shadow && n->k.shadow_place == n->table_place)
		n->k.disk[DDR_UAPI_SHADOW] = SIM_NOBODY;
	attach(s, n);
}

/* The daemon has looked for the device of a member. */
static void seek_event(struct sim *s, struct node *n)
{
	struct ddr_input in = { .type = DDR_IN_PRESENT, .member = (uint32_t)__builtin_ctz(n->seek) };
	const struct disk *d = &s->disk[in.member];
	const struct ddr_super *sb = ddr_sm_super(n->sm);

	n->seek &= n->seek - 1;
	if (disk_gone(s, n, d))
		return;
	in.value |= named_by(s, n) >> in.member & 1 ? DDR_PRESENT_TABLE : 0;
	in.value |= d->has_super && ddr_super_is_last(sb, in.member, &d->super) ? DDR_PRESENT_LAST : 0;
	node_step(s, n, &in);
}

bool node_event(struct sim *s, struct node *n)
{
	if (n->seek && n->sm && sim_chance(s, 4)) {
		seek_event(s, n);
		return true;
	}
	if (n->resize && n->sm && n->k.there && sim_chance(s, 8)) {
		grow_resize(s, n);
		attach(s, n);
		return true;
	}
	if (n->table_due && n->sm && n->k.there && sim_chance(s, 4)) {
		table_event(s, n);
		return true;
	}
	if (sim_chance(s, 2))
		return io_event(s, n) || record_event(s, n);
	return record_event(s, n) || io_event(s, n);
}

/* ---- outputs ------------------------------------------------------------------- */

static bool takes_part(const struct node *n)
{
	struct ddr_sm_status st;

	ddr_sm_get_status(n->sm, &st);
	return st.joined && !n->left;
}

/* Would it be too few without a member that does not answer @who, and those others that have failed something, which may be on their way out? */
static bool needs_cut(const struct sim *s, uint32_t in_sync, uint32_t who)
{
	uint32_t failing = 0;

	for (uint32_t m = 0; m < s->sb0.members; m++)
		if (s->disk[m].dead || s->disk[m].faulted || s->disk[m].daemon_failed || s->disk[m].was_cut)
			failing |= 1u << m;
	for (uint32_t m = 0; m < s->sb0.members; m++)
		if ((in_sync >> m & 1) && (s->disk[m].was_cut & who) &&
		    (uint32_t)__builtin_popcount(in_sync & ~failing & ~(1u << m)) < ddr_geo_data(&s->g))
			return true;
	return false;
}

/*
 * Rule 4: is there a member that only this node does not reach, and without which there would be too few? If this node takes no part,
 * and only hears of it: that another one does not reach.
 */
static bool cut_too_far(const struct sim *s, const struct node *n)
{
	struct ddr_super sb;
	uint32_t in_sync = check_newest_super(s, &sb) ? check_in_sync(&sb) : 0;
	uint32_t who = takes_part(n) ? 1u << (n - s->node) : ~0u;

	/* the disks may say already that one more is in sync, which nobody knew as the failure was judged */
	return needs_cut(s, in_sync, who) || needs_cut(s, check_in_sync(ddr_sm_super(n->sm)), who);
}

static void event_out(struct sim *s, struct node *n, const struct ddr_output *out)
{
	switch (out->event) {
	case DDR_EV_BUG:
		sim_violation(s, "the machine says that this cannot be: %s", out->text);
	case DDR_EV_MEMBER_ERROR:
		if (out->member < DDR_MAX_MEMBERS && !s->disk[out->member].failed && !(out->event == DDR_EV_MEMBER_ERROR && out->a == DDR_EC_NOSPC))
			sim_violation(s, "an error is told of member %u, which has failed nothing", out->member);
		return;
	case DDR_EV_FAILED:
		if (s->cluster && cut_too_far(s, n))
			sim_abandon(s, "the only node that took part does not reach a member that the array needs");
		if (!s->lossy)
			sim_violation(s, "the array failed although the parity covers what happened");
		n->failed = true;
		return;
	case DDR_EV_REBUILD_DONE:
		if (out->node != DDR_NO_MEMBER)
			check_replaced(s, out->node, out->member);
		check_whole_again(s);
		return;
	case DDR_EV_CLEAN:
		n->clean = true;
		return;
	case DDR_EV_READY:
		n->ready = true;
		return;
	case DDR_EV_NODE_JOINED:
		s->stats[STAT_JOINED] += out->b == n->id;
		return;
	case DDR_EV_NODE_RECOVERED:
		s->stats[STAT_RECOVERED]++;
		return;
	case DDR_EV_LEFT:
		n->left = true;
		return;
	case DDR_EV_SUSPECT:
		s->stats[STAT_SUSPECT]++;
		return;
	default:
		return;
	}
}

/* RECOVERED says that the slot is clear. */
static void check_sent(struct sim *s, const struct node *n, const struct ddr_output *out)
{
	struct ddr_msg msg;

	if (!ddr_msg_decode(out->msg, out->msg_len, &msg) && msg.type == DDR_M_RECOVERED)
		check_recovered(s, n, msg.recover.slot);
}

static void carry_out(struct sim *s, struct node *n, const struct ddr_output *out)
{
	char buf[1024];

	if (s->trace && s->cluster)
		sim_trace(s, "%u: %s", n->id, rig_output(out, buf, sizeof(buf)));
	else if (s->trace)
		sim_trace(s, "%s", rig_output(out, buf, sizeof(buf)));
	if (s->cluster)
		storm_steer(s, n, out);
	switch (out->type) {
	case DDR_OUT_KERNEL:
		if (out->rec.type == DDR_U_GRANT && !n->quorate)
			sim_violation(s, "rule 8: a grant without quorum");
		kernel_record(s, &n->k, &out->rec);
		return;
	case DDR_OUT_MCAST:
		s->stats[STAT_MESSAGES]++;
		if (s->cluster) {
			check_sent(s, n, out);
			cluster_send(s, n, out->msg, out->msg_len);
			return;
		}
		bus_send(s, n->id, out->msg, out->msg_len);
		return;
	case DDR_OUT_EVENT:
		event_out(s, n, out);
		return;
	case DDR_OUT_GIVE_UP:
		if (s->cluster) {
			n->gave_up = true;
			n->k.killed = true;
			kernel_run(s, &n->k);	/* what waits ends with an error */
			s->stats[STAT_EVICTED]++;
			if (out->event != DDR_EV_EVICTED && !cut_too_far(s, n))
				sim_violation(s, "node %u gives up: %s", n->id, out->text);
			s->stats[STAT_GAVE_UP] += out->event != DDR_EV_EVICTED;
			return;
		}
		sim_violation(s, "one node has nobody to give up for");
	case DDR_OUT_TABLE:
		n->table_due = true;
		n->table_member = out->member;
		n->table_place = out->index;
		return;
	case DDR_OUT_RESIZE:
		n->resize = out->count;
		return;
	case DDR_OUT_SEEK:
		n->seek |= 1u << out->member;
		return;
	case DDR_OUT_FENCE:
		if (s->cluster) {
			cluster_fence(s, n, out);
			return;
		}
		sim_violation(s, "one node has nobody to give up for, or to fence");
	default:
		io_submit(s, n, out);
	}
}

/*
 * A flush failed, dropped a cache, and the superblocks do not say so yet. What happens if the
 * daemon dies or power fails just now is not promised (doc/protocol.md): it happens a little later.
 */
bool node_limit_open(const struct sim *s)
{
	struct ddr_super sb;

	if (!check_newest_super(s, &sb))
		return false;
	for (uint32_t m = 0; m < s->sb0.members; m++)
		if (s->disk[m].dropped && !s->disk[m].dead && (check_in_sync(&sb) >> m & 1))
			return true;
	return false;
}

void node_step(struct sim *s, struct node *n, const struct ddr_input *in)
{
	struct ddr_input next = *in;
	struct ddr_outputs outs = { .out = n->out };
	const char *why;

	do {
		ddr_sm_step(n->sm, &next, &outs);
		why = s->rules_only ? NULL : ddr_sm_check(n->sm);
		if (why)
			sim_violation(s, "the state machine is inconsistent: %s", why);
		for (uint32_t i = 0; i < outs.n; i++) {
			if (n->crash_after == 0 && !node_limit_open(s)) {
				node_kill(s, n);
				return;
			}
			n->crash_after -= n->crash_after > 0;
			carry_out(s, n, &outs.out[i]);
		}
		if (n->gave_up) {
			node_kill(s, n);
			return;
		}
		next = (struct ddr_input){ .type = DDR_IN_NONE };
	} while (outs.more);
}

/* ---- power --------------------------------------------------------------------- */

/* Its part on a member had not ended: with a cluster it may still land at any time, else it is whole, torn or not there. */
static void meta_power(struct sim *s, const struct node *n, struct io *io, uint32_t m)
{
	if (disk_gone(s, n, &s->disk[m]))
		return;
	if (s->cluster)
		late_meta(s, n->id, io, m, place_of(s, io, m), bytes_of(s, io, m));
	else
		disk_tear(s, place_of(s, io, m), bytes_of(s, io, m));
}

static void io_power(struct sim *s, struct node *n)
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

void node_power(struct sim *s, struct node *n)
{
	sim_trace(s, "power is lost");
	if (n->sm)
		node_kill(s, n);
	io_power(s, n);
	kernel_power(s, &n->k);
	if (s->cluster) {	/* the disks are not its own */
		check_death(s);
		return;
	}
	for (uint32_t m = 0; m < s->sb0.members; m++) {
		s->disk[m].faulted = 0;
		s->disk[m].dropped = false;	/* what it lost, the others have lost too */
		disk_power(s, &s->disk[m]);
		disk_landed(s, &s->disk[m], NULL);
	}
	check_crash(s);
	s->boot++;
}
