// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Members, byte by byte, on the model disks (disk.c of ddrsim): metadata is as there, and a chunk of data is its token again and again. Parity is
 * linear byte by byte, so that of such chunks is such a chunk. And the engine of aio.h: requests, which end one by one, when the schedule says so,
 * and outlive their daemon.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/disk/aio.h"
#include "twin.h"

#define SECTOR	512u
#define OVERDUE_MS	5000u

/* ---- bytes ----------------------------------------------------------------------- */

enum area { AREA_NONE, AREA_SUPER, AREA_PAGES, AREA_STAMP, AREA_LOG, AREA_MAP, AREA_DATA };

/* What lies at a byte of a member: 4096 bytes of metadata, or (AREA_DATA) a block. */
static enum area area_of(const struct sim *s, struct disk *d, uint64_t at, uint32_t *slot, uint8_t **place, uint64_t *block)
{
	uint64_t first = at / DDR_META_BLOCK * DDR_META_BLOCK, log = ddr_log_offset(&s->sb0, 0, 0, 0), map = ddr_map_offset(&s->sb0, 0, 0);
	uint64_t stamps = ddr_stamp_offset(&s->sb0, 0, 0);

	for (unsigned int c = 0; c < 2; c++) {
		if (first == ddr_super_offset(&s->sb0, c)) {
			*place = d->sb[c];
			return AREA_SUPER;
		}
		if (first >= ddr_owner_offset(&s->sb0, c) && first < ddr_owner_offset(&s->sb0, c) + sizeof(d->pages[c])) {
			*place = d->pages[c][(first - ddr_owner_offset(&s->sb0, c)) / DDR_META_BLOCK];
			return AREA_PAGES;
		}
		if (first == map + c * DDR_META_BLOCK) {
			*place = d->map[c];
			return AREA_MAP;
		}
	}
	if (first >= stamps && first < stamps + 2ull * s->sb0.slots * DDR_META_BLOCK) {
		*slot = (uint32_t)((first - stamps) / DDR_META_BLOCK / 2);
		*place = d->stamp[*slot][(first - stamps) / DDR_META_BLOCK % 2];
		return AREA_STAMP;
	}
	if (first >= log && first < log + 2ull * s->sb0.slots * DDR_META_BLOCK) {
		*slot = (uint32_t)((first - log) / DDR_META_BLOCK / 2);
		*place = d->log[*slot][(first - log) / DDR_META_BLOCK % 2];
		return AREA_LOG;
	}
	*block = at >= s->sb0.data_offset ? (at - s->sb0.data_offset) / s->sb0.chunk : SIM_MAX_BLOCKS;
	return *block < SIM_MAX_BLOCKS ? AREA_DATA : AREA_NONE;
}

/* The superblock of another array and its owner pages, which are on the disk that is behind the device now. */
static const uint8_t *foreign(const struct sim *s, const struct disk *d, unsigned int copy, const uint8_t **pages)
{
	static uint8_t bytes[DDR_META_BLOCK], all[SIM_PAGES][DDR_META_BLOCK];
	static struct ddr_owners owners;
	struct ddr_super sb = s->sb0;

	memset(sb.array_uuid, 0xf0, sizeof(sb.array_uuid));
	for (uint32_t m = 0; m < sb.members; m++)
		sb.member[m].uuid[0] ^= 0xf0;
	sb.this_member = (uint16_t)(d - s->disk);
	sb.seq = 2 + copy;
	ddr_owners_init(&owners, &sb);
	if (ddr_owners_encode(&owners, &sb, all).code != DDR_FE_OK || ddr_super_encode(&sb, bytes).code != DDR_FE_OK)
		abort();
	ddr_super_set_copy(bytes, copy);
	*pages = all[0];
	return bytes;
}

/* What is at @place of a disk that is another one by now. */
static void get_foreign(const struct sim *s, const struct disk *d, enum area area, const uint8_t *place, uint64_t at, uint8_t *to)
{
	unsigned int copy = area == AREA_SUPER ? place == d->sb[1] : place >= d->pages[1][0];
	const uint8_t *pages, *super;

	if (d->blank || (area != AREA_SUPER && area != AREA_PAGES))
		return;
	super = foreign(s, d, copy, &pages);
	memcpy(to, (area == AREA_SUPER ? super : pages + (place - d->pages[copy][0])) + at % DDR_META_BLOCK, SECTOR);
}

static void get_bytes(const struct sim *s, struct disk *d, uint8_t *to, size_t len, uint64_t at)
{
	for (; len; len -= SECTOR, to += SECTOR, at += SECTOR) {
		uint32_t slot;
		uint64_t block, token;
		uint8_t *place;
		enum area area = area_of(s, d, at, &slot, &place, &block);

		memset(to, 0, SECTOR);
		if (area == AREA_DATA) {
			token = disk_read(d, block);
			for (unsigned int i = 0; i < SECTOR; i += sizeof(token))
				memcpy(to + i, &token, sizeof(token));
		} else if (area != AREA_NONE && d->exchanged) {
			get_foreign(s, d, area, place, at, to);
		} else if (area != AREA_NONE) {
			memcpy(to, place + at % DDR_META_BLOCK, SECTOR);
		}
	}
}

/* The token of a chunk. */
static uint64_t token_of(struct sim *s, const uint8_t *bytes)
{
	uint64_t token, other;

	memcpy(&token, bytes, sizeof(token));
	for (uint32_t i = sizeof(token); i < s->sb0.chunk; i += sizeof(token)) {
		memcpy(&other, bytes + i, sizeof(other));
		if (other != token)
			sim_violation(s, "a job writes a chunk that was computed of different blocks");
	}
	return token;
}

/* A thread has read it. */
static void seen(struct proc *p, uint32_t m, uint64_t offset)
{
	uint64_t block;
	uint32_t slot;
	uint8_t *place;
	enum area area = area_of(p->s, &p->s->disk[m], offset, &slot, &place, &block);

	if (area == AREA_STAMP)
		twin_stamps_read(p, m);
	else if (area == AREA_SUPER)
		twin_super_read(p, m);
}

int twin_read(struct proc *p, uint32_t m, void *buf, size_t len, uint64_t offset)
{
	struct disk *d = &p->s->disk[m];

	if (disk_gone(p->s, p->n, d)) {
		d->failed = true;
		return -EIO;
	}
	get_bytes(p->s, d, buf, len, offset);
	seen(p, m, offset);
	return 0;
}

/* Zeroes for a larger array (daemon/disk/grow.c), claims to slots (daemon/disk/claim.c), and nothing else. */
int twin_write(struct proc *p, uint32_t m, const void *buf, size_t len, uint64_t offset)
{
	struct sim *s = p->s;
	struct disk *d = &s->disk[m];

	if (disk_gone(s, p->n, d)) {
		d->failed = true;
		return -EIO;
	}
	for (uint64_t at = offset; at < offset + len; at += s->sb0.chunk) {
		uint32_t slot;
		uint64_t block;
		uint8_t *place;
		enum area area = area_of(s, d, at, &slot, &place, &block);

		if (area == AREA_STAMP && !d->exchanged)
			memcpy(place + at % DDR_META_BLOCK, (const uint8_t *)buf + (at - offset), s->sb0.chunk);
		if (area == AREA_STAMP && at == offset)
			twin_stamps_written(p, m);
		if (area == AREA_NONE || area == AREA_STAMP)
			continue;
		if (area != AREA_DATA || token_of(s, (const uint8_t *)buf + (at - offset)))
			sim_violation(s, "a thread of node %u writes metadata of member %u", p->n->id, m);
		for (const struct node *n = s->node; n < s->node + s->n_nodes; n++)
			if (s->truth[block].ever || (n->k.there && n->k.enabled && !n->k.killed && n->k.blocks > block))
				sim_violation(s, "block %llu is prepared for an array that has it already", (unsigned long long)block);
		d->media[block] = 0;
		d->cached[block] = false;
	}
	return 0;
}

uint64_t twin_ended[DDR_MAX_MEMBERS];

bool twin_hangs(const struct proc *p, uint32_t m)
{
	return p->s->disk[m].hangs_until[p->n - p->s->node] > p->s->now;
}

/* A node that is about to load the array sees the size that the disks have by then, if the array has grown. */
uint64_t twin_bytes(const struct proc *p, uint32_t m)
{
	struct ddr_super sb;

	if (p->s->disk[m].exchanged && p->s->disk[m].small)
		return p->s->sb0.data_offset + DDR_TAIL_BYTES;
	if (!p->n->sm && check_newest_super(p->s, &sb) && p->n->room < sb.array_blocks)
		p->n->room = p->s->room;
	return p->s->sb0.data_offset + p->n->room * p->s->sb0.chunk + DDR_TAIL_BYTES;
}

/* ---- requests -------------------------------------------------------------------- */

struct request {
	struct request *next;
	struct node *n;
	struct proc *p;			/* NULL: its daemon has died */
	struct ddr_aio *q;
	struct ddr_aio_req *req;
	struct file *file;
	enum ddr_aio_op op;
	bool soon;			/* a stamp's: ends when its daemon runs next, and is no event of its own */
	bool waits;			/* a thread of a daemon that is stopped has it, and has not given it to the kernel */
	uint32_t member, len;
	uint64_t offset, issued, begun_ms;
	uint8_t *bytes;			/* of a write */
};

static struct request *requests;	/* of all nodes, the oldest first */

struct ended { struct ddr_aio_req *head, **tail; };

static int engine_open(struct ddr_aio *q)
{
	struct ended *e = calloc(1, sizeof(*e));

	if (!e)
		return -ENOMEM;
	e->tail = &e->head;
	q->priv = e;
	q->room = q->depth < 64 ? q->depth : 64;
	return 0;
}

static void answer(struct ddr_aio *q, struct ddr_aio_req *req, int result)
{
	struct ended *e = q->priv;

	req->result = result;
	req->next = NULL;
	*e->tail = req;
	e->tail = &req->next;
	twin_file(q->event_fd)->count++;
}

/* Most stamps: there are so many that little else would happen. */
static bool ends_soon(const struct request *r)
{
	struct sim *s = r->p->s;
	uint32_t slot;
	uint64_t block;
	uint8_t *place;

	return area_of(s, &s->disk[r->member], r->offset, &slot, &place, &block) == AREA_STAMP && s->stamps++ % 8;
}

/* Rule 12: nobody has written a later change meanwhile. */
static void check_latest(struct sim *s, const struct request *r)
{
	struct ddr_super newest, sb;
	uint32_t slot;
	uint64_t block;
	uint8_t *place;

	if (area_of(s, &s->disk[r->member], r->offset, &slot, &place, &block) != AREA_SUPER || !check_newest_super(s, &newest) ||
	    ddr_super_decode(r->bytes, place == s->disk[r->member].sb[1], r->offset, &sb).code != DDR_FE_OK)
		return;
	if ((newest.seq | 1) > (sb.seq | 1))
		sim_violation(s, "rule 12: node %u writes superblocks %llu, and there are superblocks %llu", r->n->id, (unsigned long long)sb.seq,
			      (unsigned long long)newest.seq);
}

static bool engine_put(struct ddr_aio *q, struct ddr_aio_req *req)
{
	struct proc *p = me;
	struct request *r, **last = &requests;

	if (req->fd < 0) {		/* the member has no device that may be used (daemon/disk/members.h) */
		answer(q, req, -EBADF);
		return true;
	}
	if (req->op == DDR_AIO_WRITE || req->op == DDR_AIO_WRITE_DURABLE) {
		twin_serves(p, "writes to a member");
		if (p->s->rare.taken == p->n->id)
			sim_violation(p->s, "rule I3: node %u writes to a member of an array that another machine has by now", p->n->id);
	}
	if (req->op != DDR_AIO_READ)
		twin_effect();
	r = twin_own(sizeof(*r));
	*r = (struct request){ .n = p->n, .p = p, .q = q, .req = req, .file = twin_file(req->fd), .op = req->op, .len = req->len, .offset = req->offset,
			       .issued = disk_now(), .begun_ms = p->s->now };
	r->member = r->file->member;
	if (req->op == DDR_AIO_WRITE || req->op == DDR_AIO_WRITE_DURABLE) {
		r->bytes = twin_own(req->len);
		memcpy(r->bytes, req->buf, req->len);
		check_latest(p->s, r);
	}
	r->soon = ends_soon(r);
	twin_get(r->file);
	while (*last)
		last = &(*last)->next;
	*last = r;
	return true;
}

static void engine_kick(struct ddr_aio *q)
{
	(void)q;
}

static struct ddr_aio_req *engine_get(struct ddr_aio *q)
{
	struct ended *e = q->priv;
	struct ddr_aio_req *req = e->head;

	if (req) {
		e->head = req->next;
		if (!e->head)
			e->tail = &e->head;
	}
	return req;
}

static void engine_close(struct ddr_aio *q)
{
	free(q->priv);
}

#define ENGINE	{ .name = "simulated", .open = engine_open, .put = engine_put, .kick = engine_kick, .get = engine_get, .close = engine_close }
const struct ddr_aio_engine ddr_aio_uring = ENGINE;
const struct ddr_aio_engine ddr_aio_threads = ENGINE;

static void destroy(struct request **at)
{
	struct request *r = *at;

	*at = r->next;
	twin_put(r->file);
	free(r->bytes);
	free(r);
}

/* Of that node, and to a member that does not hang. */
static bool can_end(const struct request *r, const struct node *n)
{
	return r->n == n && !r->waits && !twin_hangs(r->file->p, r->member);
}

/* As an event. */
static bool may_end(const struct request *r, const struct node *n)
{
	return can_end(r, n) && !(r->soon && r->p);
}

static void destroy(struct request **at);
static void request_ends(struct sim *s, struct request **at);

/*
 * The process is stopped: some of its writes are in a thread that has not given them to the kernel. Of the others, superblocks land now: those of a node that
 * no disk names are a documented limit (doc/protocol.md, "Not promised").
 */
void twin_requests_stop(struct proc *p)
{
	for (struct request **at = &requests; *at;) {
		struct request *r = *at;
		uint64_t block;
		uint32_t slot;
		uint8_t *place;
		enum area area = area_of(p->s, &p->s->disk[r->member], r->offset, &slot, &place, &block);

		if (r->p != p || !r->bytes) {
			at = &r->next;
			continue;
		}
		r->waits = sim_chance(p->s, 2);
		if (!r->waits && !twin_hangs(p, r->member) && (area == AREA_SUPER || area == AREA_PAGES))
			request_ends(p->s, at);
		else
			at = &r->next;
	}
}

void node_supers_land(struct sim *s, struct node *n)
{
	n->short_until = 0;
	for (struct request **at = &requests; *at;) {
		struct request *r = *at;
		uint64_t block;
		uint32_t slot;
		uint8_t *place;
		enum area area = area_of(s, &s->disk[r->member], r->offset, &slot, &place, &block);

		if (r->bytes && can_end(r, n) && (area == AREA_SUPER || area == AREA_PAGES))
			request_ends(s, at);
		else
			at = &r->next;
	}
}

/* The threads go on before the loop does; what they do then is what aio_threads.c does. */
/* What the state machine calls a write to this area; the others are not its own. */
static const enum ddr_out_type types[] = {
	[AREA_SUPER] = DDR_OUT_SB_WRITE, [AREA_PAGES] = DDR_OUT_SB_WRITE, [AREA_LOG] = DDR_OUT_LOG_WRITE, [AREA_MAP] = DDR_OUT_MAP_WRITE,
};

/* A write that was held is given to its disk. */
static void given(struct sim *s, const struct request *r)
{
	struct io io = { 0 };
	uint64_t block;
	uint8_t *place;
	enum area area = area_of(s, &s->disk[r->member], r->offset, &io.slot, &place, &block);

	if (r->op != DDR_AIO_WRITE_DURABLE || area >= sizeof(types) / sizeof(types[0]) || !types[area])
		return;
	io.type = types[area];
	check_given(s, r->n, &io);
}

void twin_requests_go_on(struct proc *p)
{
	for (struct request **at = &requests; *at;) {
		struct request *r = *at;

		if (r->p != p || !r->waits) {
			at = &r->next;
			continue;
		}
		r->waits = false;
		if (!ddr_still_late(r->q->still)) {
			if (twin_stood_still(p) || twin_stood_alone(p))
				sim_violation(p->s, "rules L8 and I3: a thread of node %u writes to a member, after the daemon stood still", p->n->id);
			given(p->s, r);
			at = &r->next;
			continue;
		}
		r->req->late = true;
		answer(r->q, r->req, 0);
		destroy(at);
	}
}

unsigned int twin_requests(const struct node *n)
{
	unsigned int k = 0;

	for (const struct request *r = requests; r; r = r->next)
		k += may_end(r, n);
	return k;
}

bool twin_given(const struct node *n)
{
	for (const struct request *r = requests; r; r = r->next)
		if (r->n == n && r->bytes && !r->waits)
			return true;
	return false;
}

bool twin_writes_by(const struct file *f)
{
	for (const struct request *r = requests; r; r = r->next)
		if (r->file == f && r->op != DDR_AIO_READ)
			return true;
	return false;
}

/* What a thread had not given to the kernel goes with it. */
void twin_requests_orphaned(struct node *n)
{
	for (struct request **at = &requests; *at;) {
		struct request *r = *at;

		if (r->n != n) {
			at = &r->next;
		} else if (r->waits) {
			destroy(at);
		} else {
			r->p = NULL;
			at = &r->next;
		}
	}
}

unsigned int twin_pending(const struct proc *p, uint32_t member)
{
	unsigned int k = 0;

	for (const struct request *r = requests; r; r = r->next)
		k += r->n == p->n && r->member == member;
	return k;
}

/* ---- how one ends ----------------------------------------------------------------- */

/* The job of the daemon that works on the block, or NULL. */
static struct io *job_at(struct node *n, uint64_t block)
{
	for (struct io *io = n->io; io < n->io + SIM_MAX_IO && n->n_io; io++)
		if (io->used && io->type == DDR_OUT_JOB_RANGE && block >= io->start && block < io->start + io->count)
			return io;
	return NULL;
}

static bool reads(const struct sim *s, const struct request *r, uint64_t block, uint64_t which)
{
	return which >= block && which < block + r->len / s->sb0.chunk;
}

/*
 * Does another disk deliver wrong contents there, or did it to this job? What a block is without two of its disks, one of which nobody suspects, cannot be told.
 * Only that it does not match can, by a job that has one more than it needs (below).
 */
static bool another_wrong(const struct sim *s, const struct request *r, const struct io *job, uint64_t block)
{
	for (uint32_t m = 0; m < s->sb0.members; m++)
		if (m != r->member && s->disk[m].wrong && reads(s, r, block, s->disk[m].wrong_block))
			return true;
	return job && job->wrong_from && job->wrong_from - 1 != r->member && reads(s, r, block, job->wrong_block);
}

/* Likewise: the other disks that deliver nothing somewhere there, or did not to this job, or are not asked by it. */
static uint32_t others_fail(const struct sim *s, const struct request *r, const struct io *job, uint64_t start, uint64_t count)
{
	uint32_t fail = job ? job->unread : 0;

	for (uint32_t p = 0; p < s->g.roles; p++)
		if (disk_gone(s, r->n, &s->disk[s->at[p]]) || disk_bad(&s->disk[s->at[p]], start, count) || (job && !(job->members >> s->at[p] & 1)))
			fail |= 1u << s->at[p];
	return fail & ~(1u << r->member);
}

/* With two parities a repair of one chunk sees that the others do not match, if the parity did before. */
static bool repair_sees(const struct sim *s, const struct io *job)
{
	return s->g.parity == 2 && job && (job->fix & DDR_FIX_FITS);
}

static int read_data(struct sim *s, struct request *r, uint64_t block)
{
	struct disk *d = &s->disk[r->member];
	const struct io *job = job_at(r->n, block);
	bool rewritten = job && (job->fixed >> r->member & 1);	/* it is read back: a sector that was rewritten is a good one */
	bool only = another_wrong(s, r, job, block) && !(repair_sees(s, job) && !others_fail(s, r, job, job->start, job->count));

	if ((!only || disk_gone(s, r->n, d)) && node_io_fails(s, r->n, d, FAULT_READ_IO))
		return -EIO;
	if (disk_bad(d, block, r->len / s->sb0.chunk)) {
		d->failed = true;
		return -ENODATA;
	}
	if (!rewritten && !only && ((job && job->fix && d->sour && d->sour--) || node_io_fails(s, r->n, d, FAULT_READ_MEDIUM)))
		return -ENODATA;
	for (uint64_t b = block; b < block + r->len / s->sb0.chunk && b < SIM_MAX_BLOCKS; b++)
		s->truth[b].lost |= d->dropped;		/* it is not out yet: the job takes what is old (limits) */
	return 0;
}

/* A kernel has reported that parity and data of the block differ, and waits for the answer. */
static bool kernel_asks(const struct sim *s, uint64_t block)
{
	for (const struct node *n = s->node; n < s->node + s->n_nodes; n++)
		for (const struct op *op = n->k.op; op < n->k.op + SIM_MAX_OPS; op++)
			if (op->state != OP_FREE && op->kind == OP_MISMATCH && block >= op->start && block < op->start + op->count)
				return true;
	return false;
}

/* Could whatever the job makes of it be noticed? A rebuild has no chunk to spare any more if another source fails anywhere in its range. */
static bool may_be_wrong(const struct sim *s, const struct request *r, const struct io *job, uint64_t block)
{
	uint32_t most = repair_sees(s, job) ? 1 : 0;

	if (job->job == DDR_KA_REBUILD)
		return job->fits && job->from == DDR_NO_MEMBER && s->g.parity == 2 && (uint32_t)__builtin_popcount(job->members) + 1 == s->g.roles &&
		       !(others_fail(s, r, job, job->start, job->count) & job->members);
	if (job->fix && s->g.parity == 2 && !most)
		return false;
	return (job->job == DDR_KA_VERIFY || job->fix) && (uint32_t)__builtin_popcount(others_fail(s, r, job, block, 1)) <= most;
}

/* What the disk gives is not what it holds, if it is a verify that reads, or what could see it. No job gets it from two disks: they might fit. */
static void read_wrong(struct sim *s, const struct request *r, uint64_t block)
{
	const struct disk *d = &s->disk[r->member];
	struct io *job = job_at(r->n, block);
	uint8_t *at = (uint8_t *)r->req->buf + (d->wrong_block - block) * s->sb0.chunk;

	if (!d->wrong || !reads(s, r, block, d->wrong_block) || !job || kernel_asks(s, d->wrong_block) ||
	    !may_be_wrong(s, r, job, d->wrong_block) || (job->wrong_from && job->wrong_from - 1 != r->member))
		return;
	if (job->job == DDR_KA_REBUILD) {
		job->misled = true;
		s->truth[d->wrong_block].lost = true;	/* the new chunk may be wrong, and nobody can tell. That its region is suspect is checked where the parity is */
		sim_trace(s, "a rebuild reads wrong contents of block %llu of member %u", (unsigned long long)d->wrong_block, r->member);
	}
	job->wrong_from = r->member + 1;
	job->wrong_block = d->wrong_block;
	for (uint32_t i = 0; i < s->sb0.chunk; i++)
		at[i] = (uint8_t)~at[i];
}

/* What it has just rewritten reads back differently, once. */
static void read_back(struct sim *s, const struct request *r, uint64_t block)
{
	struct disk *d = &s->disk[r->member];
	const struct io *job = job_at(r->n, block);

	if (!d->lies || !job || !(job->fixed >> r->member & 1))
		return;
	d->lies = false;
	d->failed = true;
	sim_trace(s, "fault: member %u reads block %llu back differently", r->member, (unsigned long long)block);
	for (uint32_t i = 0; i < r->len; i++)
		((uint8_t *)r->req->buf)[i] ^= 1;
}

static int read_ends(struct sim *s, struct request *r, enum area area, uint64_t block)
{
	struct disk *d = &s->disk[r->member];
	struct io *job = area == AREA_DATA ? job_at(r->n, block) : NULL;
	int ret = 0;

	if (area == AREA_DATA)
		ret = read_data(s, r, block);
	else if (area == AREA_STAMP)
		ret = disk_gone(s, r->n, d) ? -EIO : 0;
	else if (disk_gone(s, r->n, d))
		ret = disk_fails(s, r->n, d, FAULT_META) ? -EIO : 0;	/* rule 3 is about writes: a look that fails need not cost the member */
	if (ret && job) {
		job->unread |= 1u << r->member;
		job->misled = false;		/* it reads the others again, and nothing wrong any more */
	}
	if (!ret && r->p)
		get_bytes(s, d, r->req->buf, r->len, r->offset);
	if (!ret && r->p && area == AREA_STAMP && r->begun_ms >= r->p->woke_ms)
		r->p->unlooked = false;
	if (!ret && r->p && area == AREA_DATA)
		read_wrong(s, r, block);
	if (!ret && r->p && area == AREA_DATA)
		read_back(s, r, block);
	return ret;
}

/* What lands late on a member that is out is never read (it was given up, and that is why the member is out). */
static bool counts(const struct sim *s, uint32_t member)
{
	struct ddr_super sb;

	return !check_newest_super(s, &sb) || sb.member[member].state == DDR_MEMBER_IN_SYNC || sb.member[member].state == DDR_MEMBER_REBUILDING;
}

/* What a job puts there, by what it is. */
static void job_lands(struct sim *s, struct request *r, uint64_t block, uint64_t token)
{
	struct io *job = job_at(r->n, block);
	struct truth *t = &s->truth[block];
	uint32_t place;

	if (counts(s, r->member))
		check_job_range(s, block, 1);
	disk_write(&s->disk[r->member], block, token);
	if (!job)
		return;
	job->fixed |= job->fix ? 1u << r->member : 0;
	for (place = 0; place < s->g.roles && job->at[place] != r->member; place++)
		;
	if (job->fix && !t->ever && place < s->g.roles && ddr_geo_role(&s->g, place, block) < ddr_geo_data(&s->g))
		t->unknown |= (uint8_t)(1u << ddr_geo_role(&s->g, place, block));
	if (job->job == DDR_KA_REBUILD && job->from == DDR_NO_MEMBER && place < s->g.roles)
		check_rebuilt(s, block, ddr_geo_role(&s->g, place, block), token);
}

static int write_data(struct sim *s, struct request *r, uint64_t block)
{
	struct disk *d = &s->disk[r->member];

	if (node_io_answers(s, r->n, !r->p, d)) {
		if (node_io_fails(s, r->n, d, FAULT_WRITE))
			return -EIO;
		if (disk_full(s, r->n, d))
			return -ENOSPC;
	}
	if ((r->offset - s->sb0.data_offset) % s->sb0.chunk || r->len % s->sb0.chunk)
		sim_violation(s, "a job of node %u writes a part of a chunk", r->n->id);
	for (uint32_t at = 0; at < r->len; at += s->sb0.chunk)
		job_lands(s, r, block + at / s->sb0.chunk, token_of(s, r->bytes + at));
	return 0;
}

static int write_meta(struct sim *s, struct request *r, enum area area, uint8_t *place)
{
	struct disk *d = &s->disk[r->member];

	if (r->len != (area == AREA_PAGES ? sizeof(d->pages[0]) : DDR_META_BLOCK))
		sim_violation(s, "node %u writes %u bytes of metadata at once", r->n->id, r->len);
	if (d->exchanged && (area == AREA_SUPER || area == AREA_PAGES))
		sim_violation(s, "S27: node %u writes the superblock of member %u over that of another disk", r->n->id, r->member);
	if (node_io_answers(s, r->n, !r->p, d)) {
		if (node_io_fails(s, r->n, d, FAULT_META))
			return -EIO;
		if (disk_full(s, r->n, d)) {
			if (sim_chance(s, 2)) {
				disk_tear(s, place, r->bytes);
				disk_landed(s, d, place);
			}
			return -ENOSPC;
		}
	}
	memcpy(place, r->bytes, r->len);
	disk_landed(s, d, place);
	if (area == AREA_SUPER)
		check_level(s);
	return 0;
}

/*
 * A stamp costs a member nothing. On a disk that has come to the member's device since the last look one may be written (one that was exchanged between the
 * look and the write); the next look shows it.
 */
static int write_stamp(struct sim *s, struct request *r, uint32_t slot, uint8_t *place)
{
	struct disk *d = &s->disk[r->member];
	struct ddr_super sb;

	if (disk_gone(s, r->n, d))
		return -EIO;
	if (d->exchanged) {
		if (d->strayed++)
			sim_violation(s, "I3: node %u writes stamps to member %u, which is another disk", r->n->id, r->member);
		return 0;
	}
	if (r->p && check_newest_super(s, &sb) && sb.slot_node[slot] != r->n->id)
		sim_violation(s, "I3: node %u stamps slot %u, which is that of node %u", r->n->id, slot, sb.slot_node[slot]);
	memcpy(place, r->bytes, DDR_META_BLOCK);
	return 0;
}

static int flush_ends(struct sim *s, struct request *r)
{
	struct disk *d = &s->disk[r->member];

	if (node_io_answers(s, r->n, !r->p, d) && node_io_fails(s, r->n, d, FAULT_FLUSH))
		return -EIO;
	disk_flush(d, r->issued);
	return 0;
}

static int request_result(struct sim *s, struct request *r)
{
	uint64_t block = 0;
	uint32_t slot = 0;
	uint8_t *place = NULL;
	enum area area = area_of(s, &s->disk[r->member], r->offset, &slot, &place, &block);

	if (r->op == DDR_AIO_FLUSH)
		return flush_ends(s, r);
	if (r->op == DDR_AIO_READ)
		return read_ends(s, r, area, block);
	if (area == AREA_NONE)
		sim_violation(s, "node %u writes at byte %llu of member %u, where nothing is its own", r->n->id, (unsigned long long)r->offset, r->member);
	if (area == AREA_STAMP)
		return write_stamp(s, r, slot, place);
	return area == AREA_DATA ? write_data(s, r, block) : write_meta(s, r, area, place);
}

/* Its kernel has no memory or worker for the request, which does not reach the disk. */
static int own_failure(struct proc *p)
{
	struct proc *was = me;
	int ret;

	me = p;
	ret = p->s->now < p->n->short_until ? -ENOMEM : twin_fails(CALL_REQUEST) ? -p->error[CALL_REQUEST] : 0;
	me = was;
	return ret;
}

static void request_ends(struct sim *s, struct request **at)
{
	struct request *r = *at;
	const struct node *n = r->n;
	int ret;

	ret = r->p ? own_failure(r->p) : 0;
	ret = ret ? ret : request_result(s, r);
	sim_trace(s, "node %u: member %u, %s of %u at %llu: %d", n->id, r->member, r->op == DDR_AIO_READ ? "read" : r->op == DDR_AIO_FLUSH ? "flush" : "write", r->len,
		  (unsigned long long)r->offset, ret);
	if (r->p)
		answer(r->q, r->req, ret);
	twin_ended[r->member]++;
	destroy(at);
}

uint64_t twin_request_kind(const struct proc *p, unsigned int which)
{
	const struct request *r = requests;

	while (!may_end(r, p->n) || which--)
		r = r->next;
	return r->member | (uint64_t)r->op << 8 | (r->offset / DDR_META_BLOCK & 0xffff) << 16;
}

void twin_request_end(struct sim *s, struct node *n, unsigned int which)
{
	struct request **at = &requests;

	while (!may_end(*at, n) || which--)
		at = &(*at)->next;
	request_ends(s, at);
}

int twin_request_overdue(struct proc *p)
{
	for (struct request **at = &requests; *at; at = &(*at)->next)
		if (can_end(*at, p->n) && (*at)->p && ((*at)->soon || (*at)->begun_ms + OVERDUE_MS < p->s->now)) {
			int fd = (*at)->q->event_fd;

			request_ends(p->s, at);
			return fd;
		}
	return -1;
}

/* ---- requests of others than those who wait ----------------------------------------- */

bool twin_request_writes(const struct sim *s, const struct node *n, const struct io *io, bool given)
{
	for (const struct request *r = requests; r; r = r->next) {
		uint64_t block;
		uint32_t slot = 0;
		uint8_t *place;
		enum area area = area_of(s, (struct disk *)(uintptr_t)&s->disk[r->member], r->offset, &slot, &place, &block);

		if (r->n != n || r->op != DDR_AIO_WRITE_DURABLE || (given && r->waits))
			continue;
		if (io->type == DDR_OUT_SB_WRITE ? area == AREA_SUPER || area == AREA_PAGES : io->type == DDR_OUT_MAP_WRITE ? area == AREA_MAP : area == AREA_LOG && slot == io->slot)
			return true;
	}
	return false;
}

/* It had not ended as the machine died: with a cluster it may still land at any time, else it is whole, torn or not there. */
static void power(struct sim *s, struct request *r)
{
	struct disk *d = &s->disk[r->member];
	uint64_t block;
	struct io io = { 0 };
	uint8_t *place;
	enum area area = area_of(s, d, r->offset, &io.slot, &place, &block);

	if (!r->bytes || disk_gone(s, r->n, d))
		return;
	if (area == AREA_STAMP) {
		if (sim_chance(s, 2))
			write_stamp(s, r, io.slot, place);
		return;
	}
	if (area != AREA_DATA) {
		io.type = types[area];
		for (uint32_t at = 0; at < r->len; at += DDR_META_BLOCK)
			if (s->cluster)
				late_meta(s, r->n->id, &io, r->member, place + at, r->bytes + at);
			else
				disk_tear(s, place + at, r->bytes + at);
		return;
	}
	for (uint32_t at = 0; at < r->len; at += s->sb0.chunk) {
		if (s->cluster)
			late_chunk(s, r->n->id, DDR_OUT_JOB_RANGE, r->member, block + at / s->sb0.chunk, token_of(s, r->bytes + at));
		else if (sim_chance(s, 2))
			disk_write(d, block + at / s->sb0.chunk, token_of(s, r->bytes + at));
	}
}

void twin_requests_power(struct sim *s, struct node *n)
{
	for (struct request **at = &requests; *at;) {
		if ((*at)->n != n) {
			at = &(*at)->next;
			continue;
		}
		power(s, *at);
		destroy(at);
	}
}

void twin_disk_end(void)
{
	while (requests)
		destroy(&requests);
}
