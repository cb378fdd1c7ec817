// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Model of the kernel target: it does what doc/kernel-interface.md promises, and no more.
 *
 * A failure is reported when the round has ended on all members; the operation starts to wait for the answer a little later, so the
 * daemon may be quicker. There is one open error for each member, class and operation; operations that wait for it take the last
 * answer.
 *
 * A write is admitted, gets a grant for its region, waits for its range, and is then in flight on every member that the kernel may
 * write; the write of each member ends separately. Ranges of blocks are granted in the order of arrival: writes and EX exclude
 * everything that overlaps them, reads (all as if they reconstructed) are shared.
 */
#include <string.h>

#include "kernel.h"

const struct node *kernel_node(const struct sim *s, const struct kernel *k)
{
	const struct node *n = s->node;

	while (&n->k != k)
		n++;
	return n;
}

static bool overlap(uint64_t a, uint64_t na, uint64_t b, uint64_t nb)
{
	return a < b + nb && b < a + na;
}

/* ---- ranges -------------------------------------------------------------------- */

/* A write that waits for the answer to an error keeps its range, a read does not. */
static bool holds_range(const struct op *op)
{
	return (op->kind == OP_WRITE && (op->state == OP_FLIGHT || op->state == OP_PARKING || op->state == OP_ERROR)) ||
	       (op->kind == OP_READ && op->state == OP_FLIGHT);
}

/* May an operation with @order start on these blocks? @read: it is shared with reads. @ex: ranges of the previous daemon do not count. */
static bool range_free(const struct kernel *k, uint64_t start, uint64_t count, uint64_t order, bool read, bool ex)
{
	for (const struct op *op = k->op; op < k->op + SIM_MAX_OPS; op++) {
		bool waits = op->state == OP_RANGE && op->order < order;

		if ((!holds_range(op) && !waits) || op->order == order || (read && op->kind == OP_READ))
			continue;
		if (overlap(start, count, op->start, op->count))
			return false;
	}
	for (const struct kex *x = k->ex; x < k->ex + SIM_MAX_EX; x++)
		if (x->used && x->order != order && (x->drained || x->order < order) && !(ex && x->old) &&
		    overlap(start, count, x->start, x->count))
			return false;
	return true;
}

bool kernel_writes(const struct kernel *k, uint64_t block)
{
	for (const struct op *op = k->op; op < k->op + SIM_MAX_OPS; op++)
		if (holds_range(op) && op->kind == OP_WRITE && overlap(block, 1, op->start, op->count))
			return true;
	return false;
}

bool kernel_may_write(const struct sim *s, const struct kernel *k, uint64_t block)
{
	/* a kernel with a longer table waits for ENABLE as a whole, whatever was granted and drained */
	if (!k->there || k->killed || k->unjudged || block >= k->blocks || !k->granted[region_of(s, block)])
		return kernel_writes(k, block);
	for (const struct kex *x = k->ex; x < k->ex + SIM_MAX_EX; x++)
		if (x->used && x->drained && overlap(block, 1, x->start, x->count))
			return kernel_writes(k, block);
	return true;
}

/* ---- operations ---------------------------------------------------------------- */

uint32_t kernel_written(const struct sim *s, const struct kernel *k)
{
	uint32_t mask = 0;

	for (uint32_t m = 0; m < s->g.roles; m++)
		if (k->state[m] != DDR_KM_OUT)
			mask |= 1u << m;
	return k->state[DDR_UAPI_SHADOW] != DDR_KM_OUT ? mask | 1u << DDR_UAPI_SHADOW : mask;
}

uint32_t kernel_members(const struct sim *s, const struct kernel *k, uint32_t places)
{
	uint32_t mask = 0;

	for (uint32_t p = 0; p < s->g.roles; p++)
		if (places >> p & 1)
			mask |= 1u << k->disk[p];
	if ((places >> DDR_UAPI_SHADOW & 1) && k->disk[DDR_UAPI_SHADOW] != SIM_NOBODY)
		mask |= 1u << k->disk[DDR_UAPI_SHADOW];
	return mask;
}

static bool readable(const struct kernel *k, uint32_t place, uint64_t block)
{
	return k->state[place] == DDR_KM_IN_SYNC || (k->state[place] == DDR_KM_REBUILDING && block < k->cursor[place]);
}

uint32_t kernel_reads(const struct kernel *k, uint32_t place, uint64_t block)
{
	if (readable(k, place, block))
		return k->disk[place];
	return place == k->shadow_place && k->disk[DDR_UAPI_SHADOW] != SIM_NOBODY && readable(k, DDR_UAPI_SHADOW, block) ?
	       k->disk[DDR_UAPI_SHADOW] : SIM_NOBODY;
}

static void promise_begin(struct sim *s, struct op *op)
{
	for (uint64_t b = 0; b < s->blocks; b++)
		op->promise[b] = s->truth[b].acked;
}

/* The flush succeeded: what was acknowledged when it started is safe from now on. */
static void promise_keep(struct sim *s, const struct op *op)
{
	for (uint64_t b = 0; b < s->blocks; b++) {
		struct truth *t = &s->truth[b];
		uint32_t kept = 0, v = op->promise[b];

		if (v <= t->promised)
			continue;	/* a flush that started later has already ended */
		t->promised = v;
		if (!t->failed)		/* a write that failed since has changed what it reached, and a rebuild made something of that */
			t->unknown = 0;
		for (uint32_t role = 0; role < ddr_geo_data(&s->g); role++)
			if (!(t->unknown >> role & 1))
				t->base[role] = sim_token(v, role, b);
		for (uint32_t i = 0; i < t->n_later; i++)
			if (t->later[i] > v)
				t->later[kept++] = t->later[i];
		t->n_later = kept;
		if (t->acked == v)
			t->acked = 0;
	}
}

/* Versions are numbered in the order in which writes to a block follow each other. */
static void write_begin(struct sim *s, const struct kernel *k, struct op *op)
{
	op->version = ++s->version;
	for (uint64_t b = op->start; b < op->start + op->count; b++) {
		struct truth *t = &s->truth[b];

		if (t->n_later == SIM_MAX_LATER) {	/* drops the oldest: this only makes the check weaker */
			memmove(t->later, t->later + 1, (SIM_MAX_LATER - 1) * sizeof(t->later[0]));
			t->n_later--;
		}
		t->later[t->n_later++] = op->version;
		if (!t->ever && s->geo.spares)
			check_before(s, b);
		t->ever = true;
	}
	check_marks(s, kernel_node(s, k), op->start, op->count, false, "a write");
	check_whose(s, kernel_node(s, k));
}

/* The places that the kernel reads for all of these blocks. */
static uint32_t read_members(const struct sim *s, const struct kernel *k, uint64_t start, uint64_t count)
{
	uint32_t mask = 0;

	for (uint32_t m = 0; m < s->g.roles; m++)
		if (kernel_reads(k, m, start + count - 1) != SIM_NOBODY)
			mask |= 1u << m;
	return mask;
}

/* The members at those places. */
static uint32_t sources(const struct sim *s, const struct kernel *k, uint64_t start, uint64_t count)
{
	uint32_t mask = 0;

	for (uint32_t p = 0; p < s->g.roles; p++)
		if (kernel_reads(k, p, start + count - 1) != SIM_NOBODY)
			mask |= 1u << kernel_reads(k, p, start + count - 1);
	return mask;
}

/* The write needs a member for which the table has no device: it waits until that member has failed. */
static bool op_absent(struct sim *s, struct kernel *k, struct op *op, uint32_t todo)
{
	if (!(todo >> DDR_UAPI_SHADOW & 1) || k->disk[DDR_UAPI_SHADOW] != SIM_NOBODY)
		return false;
	op->pend = 0;
	op->class[DDR_UAPI_SHADOW] = DDR_EC_ABSENT;
	op->blame = DDR_UAPI_SHADOW;
	kernel_report(s, k, op, DDR_UAPI_SHADOW);
	op->state = OP_PARKING;
	return true;
}

static void op_end(struct sim *s, struct kernel *k, struct op *op, bool good);

/* One round: whatever is not written yet on the members that are in the array now. */
static void op_submit(struct sim *s, struct kernel *k, struct op *op)
{
	uint32_t todo = kernel_written(s, k) & ~op->done;

	op->state = OP_FLIGHT;
	op->generation = ++k->order;
	op->failed = 0;
	if (op->kind == OP_READ) {
		op->pend = 1;
		op->sees = sources(s, k, op->start, op->count);
		return;
	}
	if (op_absent(s, k, op, todo))
		return;
	if ((uint32_t)__builtin_popcount(read_members(s, k, 0, k->blocks)) < ddr_geo_data(&s->g) || (todo & op->lost)) {
		op_end(s, k, op, false);
		return;
	}
	op->targets = op->pend = todo;
	if (!todo)
		op_end(s, k, op, true);
}

static void op_flight(struct sim *s, struct kernel *k, struct op *op)
{
	op->done = op->lost = op->broken = 0;
	op->issued = disk_now();
	if (op->kind == OP_WRITE)
		write_begin(s, k, op);
	if (op->kind == OP_FLUSH)
		promise_begin(s, op);
	op_submit(s, k, op);
}

/* The members that reads in flight in the kernel may still use. */
static uint32_t in_reads(const struct kernel *k)
{
	uint32_t mask = 0;

	for (const struct op *op = k->op; op < k->op + SIM_MAX_OPS; op++)
		if (op->kind == OP_READ && op->state == OP_FLIGHT)
			mask |= op->sees;
	return mask;
}

/* Rule 3: when an operation completes without a member, no living node reads that member any more. */
static void nobody_reads(struct sim *s, const struct kernel *k, const struct op *op)
{
	uint32_t done = kernel_members(s, k, op->done & ~op->broken);

	for (const struct node *n = s->node; n < s->node + s->n_nodes && op->kind != OP_READ; n++) {
		uint32_t read = 0;

		if (!n->k.there || !n->k.enabled || n->k.killed)
			continue;
		for (uint32_t p = 0; p < s->g.roles; p++)
			if (kernel_reads(&n->k, p, op->start) != SIM_NOBODY)
				read |= 1u << kernel_reads(&n->k, p, op->start);
		read |= &n->k != k ? in_reads(&n->k) : 0;
		if (read & ~done)
			sim_violation(s, "rule 3: a %s completes without member %d, which the kernel of node %u reads",
				      op->kind == OP_WRITE ? "write" : "flush", __builtin_ctz(read & ~done), n->id);
	}
}

/* The places whose part is written, on the disk there or on its replacement. */
static uint32_t places_done(const struct sim *s, const struct kernel *k, const struct op *op)
{
	uint32_t shadow = op->done >> DDR_UAPI_SHADOW & 1 ? 1u << k->shadow_place : 0;

	return (op->done | shadow) & ((1u << s->g.roles) - 1);
}

static void op_end(struct sim *s, struct kernel *k, struct op *op, bool good)
{
	uint64_t r = region_of(s, op->start);

	if (op->kind == OP_WRITE) {
		k->flight[r]--;
		k->error[r] |= !good;
		for (uint64_t b = op->start; b < op->start + op->count; b++) {
			s->truth[b].failed = s->truth[b].spoiled = !good;
			if (!good)
				continue;
			s->truth[b].acked = op->version;
			s->truth[b].torn = s->truth[b].lost = s->truth[b].wild = false;
		}
		if ((uint32_t)__builtin_popcount(places_done(s, k, op) | (good ? 0 : op->targets & ((1u << s->g.roles) - 1))) < s->g.roles)
			s->missing_write[r] = true;
	}
	if (good) {
		check_completion(s, k, op);
		nobody_reads(s, k, op);
	}
	if (op->kind == OP_FLUSH && good) {
		promise_keep(s, op);
		s->stats[STAT_FLUSHES]++;
	}
	sim_trace(s, "kernel: operation %llu ends %s", (unsigned long long)op->order, good ? "well" : "with an error");
	op->state = OP_FREE;
}

/* All members have ended: reports an error, or completes the operation. */
static void op_settle(struct sim *s, struct kernel *k, struct op *op)
{
	op->done |= op->targets & ~op->failed;
	if (!op->failed) {
		op_end(s, k, op, true);
		return;
	}
	for (uint32_t m = 0; m < DDR_UAPI_PLACES; m++)
		if (op->failed >> m & 1) {
			kernel_report(s, k, op, m);
			op->blame = m;
		}
	if (op->kind == OP_FLUSH)
		op->lost |= op->failed;
	op->state = OP_PARKING;
}

/* The daemon has decided about a member that failed. */
void kernel_op_resume(struct sim *s, struct kernel *k, struct op *op, uint32_t answer)
{
	if (answer == DDR_RES_RETRY)
		op_submit(s, k, op);
	else
		op_end(s, k, op, false);
}

/* The operation starts to wait for the answer, unless that has already arrived. */
static void op_park(struct sim *s, struct kernel *k, struct op *op)
{
	const struct kerror *e = kernel_error_of(k, op, op->blame);

	op->state = OP_ERROR;
	if (!e->open)
		kernel_op_resume(s, k, op, e->answer);
}

/* What the member holds of a block after this version was written. */
static uint64_t chunk(const struct sim *s, uint32_t version, uint32_t m, uint64_t b)
{
	uint32_t role = ddr_geo_role(&s->g, m, b), data = ddr_geo_data(&s->g);
	uint64_t tokens[8], pq[2];

	if (role < data)
		return sim_token(version, role, b);
	for (uint32_t i = 0; i < data; i++)
		tokens[i] = sim_token(version, i, b);
	sim_parity(s, tokens, pq);
	return pq[role - data];
}

/* The replacement at a place holds the same as the place. */
static uint32_t place_of(const struct kernel *k, uint32_t m)
{
	return m == DDR_UAPI_SHADOW ? k->shadow_place : m;
}

static void member_write(struct sim *s, const struct kernel *k, struct op *op, uint32_t m)
{
	for (uint64_t b = op->start; b < op->start + op->count; b++)
		disk_write(&s->disk[k->disk[m]], b, chunk(s, op->version, place_of(k, m), b));
}

/* One member's part of an operation ends. */
static void member_end(struct sim *s, struct kernel *k, struct op *op, uint32_t m)
{
	const struct node *n = kernel_node(s, k);
	struct disk *d = &s->disk[k->disk[m]];
	bool failed = false;

	op->pend &= ~(1u << m);
	op->class[m] = DDR_EC_IO;
	if (op->kind == OP_WRITE && disk_fails(s, n, d, FAULT_WRITE)) {
		failed = true;
	} else if (op->kind == OP_WRITE && (disk_fails(s, n, d, FAULT_NOSPC) || disk_full(s, n, d))) {
		failed = true;
		d->failed |= m == DDR_UAPI_SHADOW;	/* the array does not need this disk: a failed write costs it its place */
		op->class[m] = DDR_EC_NOSPC;
	} else if (op->kind == OP_WRITE) {
		member_write(s, k, op, m);
	} else if (op->kind == OP_FLUSH) {
		failed = disk_fails(s, n, d, FAULT_FLUSH);
		if (!failed)
			disk_flush(d, op->issued);
	}
	if (failed) {
		op->failed |= 1u << m;
		op->broken |= op->class[m] == DDR_EC_IO ? 1u << m : 0;
		sim_trace(s, "kernel: member %u fails operation %llu", m, (unsigned long long)op->order);
	}
	if (!op->pend)
		op_settle(s, k, op);
}

/* Seeds with many bad sectors: tests repairs, and concurrent writes there. Not drawn in the others. */
static bool bad_sector(struct sim *s)
{
	return s->seed % 5 == 2 && s->g.parity && !s->lossy && sim_chance(s, 6);
}

/* A read that fails on a member continues without it, if the others have the data. */
static void read_end(struct sim *s, struct kernel *k, struct op *op)
{
	const struct node *n = kernel_node(s, k);
	uint32_t m = (uint32_t)sim_rand(s, s->g.roles), left = read_members(s, k, op->start, op->count) & ~op->failed;
	struct disk *d;
	uint32_t at = m;
	bool medium, enough;

	if (!(left >> m & 1)) {
		op_end(s, k, op, (uint32_t)__builtin_popcount(left) >= ddr_geo_data(&s->g));
		return;
	}
	if (kernel_reads(k, m, op->start + op->count - 1) != k->disk[m])
		at = DDR_UAPI_SHADOW;
	d = &s->disk[k->disk[at]];
	medium = !disk_gone(s, n, d) && (disk_fails(s, n, d, FAULT_READ_MEDIUM) || disk_bad(d, op->start, op->count) || bad_sector(s));
	if (medium) {
		d->sour = (uint32_t)sim_rand(s, 5);
		d->failed = true;
	}
	if (!medium && !disk_fails(s, n, d, FAULT_READ_IO)) {
		op_end(s, k, op, true);
		return;
	}
	enough = (uint32_t)__builtin_popcount(left & ~(1u << m)) >= ddr_geo_data(&s->g);
	op->class[at] = medium || enough ? DDR_EC_MEDIUM : DDR_EC_IO;	/* kernel/read.c */
	op->failed |= 1u << m;
	op->blame = at;
	sim_trace(s, "kernel: member %u fails operation %llu", at, (unsigned long long)op->order);
	kernel_report(s, k, op, at);
	if (enough)
		return;
	if (medium)
		op_end(s, k, op, false);
	else
		op->state = OP_PARKING;
}

uint64_t kernel_ended[SIM_MAX_NODES][DDR_MAX_MEMBERS];

uint32_t kernel_pending(const struct kernel *k, uint32_t member)
{
	uint32_t n = 0;

	for (const struct op *op = k->op; op < k->op + SIM_MAX_OPS; op++)
		for (uint32_t p = 0; op->state == OP_FLIGHT && op->pend >> p; p++)
			n += op->pend >> p & 1 && k->disk[p] == member;
	return n;
}

/* Places of members that hang for this kernel: nothing in flight to them ends. */
static uint32_t hanging(struct sim *s, struct kernel *k)
{
	uint32_t i = (uint32_t)(kernel_node(s, k) - s->node), places = 0;

	for (uint32_t p = 0; sim_real && (!s->calm || s->node[i].lasting) && p < DDR_UAPI_PLACES; p++)
		if (k->disk[p] != SIM_NOBODY && s->disk[k->disk[p]].hangs_kernel >> i & 1 && s->disk[k->disk[p]].hangs_until[i] > s->now)
			places |= 1u << p;
	return places;
}

/* Does any part of it end without outside help? A read waits for all that it reads from. */
static bool op_moves(struct sim *s, struct kernel *k, const struct op *op)
{
	uint32_t hang;

	if (op->state != OP_FLIGHT || !op->pend)
		return op->state == OP_PARKING;
	hang = hanging(s, k);
	return op->kind == OP_READ ? !hang : op->pend & ~hang;
}

static void op_event(struct sim *s, struct kernel *k, struct op *op, uint32_t m)
{
	if (op->state == OP_PARKING) {
		op_park(s, k, op);
	} else if (op->kind == OP_READ) {
		read_end(s, k, op);
	} else {
		uint32_t hang = hanging(s, k);

		do {
			while (!(op->pend & ~hang & 1u << m))
				m = (m + 1) % DDR_UAPI_PLACES;
			kernel_ended[kernel_node(s, k) - s->node][k->disk[m] % DDR_MAX_MEMBERS]++;
			member_end(s, k, op, m);
		} while (s->cluster && op->state == OP_FLIGHT && op->pend & ~hang && !sim_chance(s, 4));
	}
	kernel_run(s, k);
}

bool kernel_op_act(struct sim *s, struct kernel *k, uint32_t id, uint32_t m)
{
	for (struct op *op = k->op; op < k->op + SIM_MAX_OPS; op++)
		if (op->id == id && op_moves(s, k, op)) {
			op_event(s, k, op, m % DDR_UAPI_PLACES);
			return true;
		}
	return false;
}

bool kernel_op_any(struct sim *s, struct kernel *k)
{
	for (struct op *op = k->op; op < k->op + SIM_MAX_OPS; op++)
		if (op_moves(s, k, op)) {
			op_event(s, k, op, 0);
			return true;
		}
	return false;
}

bool kernel_event(struct sim *s, struct kernel *k)
{
	uint32_t first = (uint32_t)sim_rand(s, SIM_MAX_OPS);
	struct act a = act_of(ACT_OP, kernel_node(s, k));

	for (uint32_t i = 0; i < SIM_MAX_OPS; i++) {
		struct op *op = &k->op[(first + i) % SIM_MAX_OPS];

		a.arg[0] = op->id;
		a.arg[1] = sim_rand(s, s->g.roles);
		if (op_moves(s, k, op))
			return sim_act(s, a);
	}
	return false;
}

/* ---- progress ------------------------------------------------------------------- */

static void ask(struct sim *s, struct kernel *k, uint64_t r)
{
	uint64_t ahead = sim_chance(s, 4) ? 1 + sim_rand(s, 2) : 0;

	if (k->asked[r] && !sim_chance(s, 16))
		return;		/* usually requests do not overlap */
	for (uint64_t i = r; i <= r + ahead && i <= region_of(s, k->blocks - 1); i++)
		if (i == r || !k->granted[i]) {
			k->asked[i] = true;
			kernel_tell_regions(s, k, DDR_K_LOCK, i, 1, 0);
		}
}

static bool op_advance(struct sim *s, struct kernel *k, struct op *op)
{
	uint64_t r = region_of(s, op->start);

	if (k->killed) {
		if (op->state == OP_FREE || op->state == OP_FLIGHT)
			return false;
		for (uint64_t b = op->start; holds_range(op) && op->kind == OP_WRITE && b < op->start + op->count; b++)
			s->truth[b].failed = true;
		sim_trace(s, "kernel: operation %llu ends with its kernel", (unsigned long long)op->order);
		op->state = OP_FREE;
		return true;
	}
	if (k->stopped && (k->stops_reads || (op->kind != OP_READ && op->kind != OP_MISMATCH)))
		return false;
	switch (op->state) {
	case OP_ADMIT:
		if (!k->enabled || k->frozen || k->suspended || k->unjudged)
			return false;
		op->state = op->kind == OP_WRITE ? OP_GRANT : OP_RANGE;
		if (op->kind == OP_FLUSH) {
			op_flight(s, k, op);
		} else if (op->kind == OP_MISMATCH) {
			op->state = OP_ERROR;
			op->blame = DDR_NO_MEMBER;
			op->seq = ++k->seq;
			kernel_tell_mismatch(s, k, op);
		}
		return true;
	case OP_GRANT:
		if ((s->cluster && k->frozen) || k->suspended)
			return false;
		if (!k->granted[r]) {
			if (!k->asked[r] && k->attached)
				ask(s, k, r);
			return false;
		}
		k->touched[r] = true;
		k->flight[r]++;
		op->state = OP_RANGE;
		op->order = ++k->order;
		return true;
	case OP_RANGE:
		if ((s->cluster && k->frozen) || k->suspended || !range_free(k, op->start, op->count, op->order, op->kind == OP_READ, false))
			return false;
		op_flight(s, k, op);
		return true;
	default:
		return false;
	}
}

static bool wedged(const struct sim *s, const struct kernel *k)
{
	return sim_real && s->now < kernel_node(s, k)->wedged_until;
}

static bool ex_advance(struct sim *s, struct kernel *k, struct kex *x)
{
	struct ddr_rec rec = { .type = DDR_K_DRAINED, .seq = x->seq, .start = x->start, .count = x->count };

	if (!x->used || x->drained || wedged(s, k) || !range_free(k, x->start, x->count, x->order, false, true))
		return false;
	x->drained = true;
	kernel_tell(s, k, &rec);
	return true;
}

/* What was in flight when the states changed must end; what waits, or is about to, will use the new states. */
static bool apply_advance(struct sim *s, struct kernel *k, struct kapply *a)
{
	struct ddr_rec rec = { .type = DDR_K_APPLIED, .seq = a->seq };

	if (!a->used || wedged(s, k))
		return false;
	for (const struct op *op = k->op; op < k->op + SIM_MAX_OPS; op++)
		if (op->state == OP_FLIGHT && op->pend && op->generation < a->order)
			return false;
	a->used = false;
	kernel_tell(s, k, &rec);
	return true;
}

void kernel_run(struct sim *s, struct kernel *k)
{
	bool again = true;

	kernel_judge_silence(s, k);
	while (again) {
		again = false;
		for (uint32_t i = 0; i < SIM_MAX_OPS; i++)
			again |= op_advance(s, k, &k->op[i]);
		for (uint32_t i = 0; i < SIM_MAX_EX; i++)
			again |= ex_advance(s, k, &k->ex[i]);
		for (uint32_t i = 0; i < DDR_UAPI_PLACES; i++)
			again |= apply_advance(s, k, &k->apply[i]);
	}
}

/* The file system above prevents concurrent writes of one block by two nodes, also while a dead node may still write. */
static bool in_use(const struct sim *s, const struct kernel *k, uint64_t start, uint64_t count)
{
	if (late_writes(s, start, count))
		return true;
	for (const struct node *n = s->node; n < s->node + s->n_nodes; n++)
		for (const struct op *op = n->k.op; op < n->k.op + SIM_MAX_OPS && &n->k != k; op++)
			if (op->state != OP_FREE && op->kind == OP_WRITE && overlap(start, count, op->start, op->count))
				return true;
	return false;
}

bool kernel_in_flight(const struct kernel *k)
{
	for (const struct op *op = k->op; op < k->op + SIM_MAX_OPS; op++)
		if (op->state == OP_FLIGHT && op->pend)
			return true;
	return false;
}

/* The start of an operation: mostly where others are active; for a mismatch, where there is one. */
static uint64_t place(struct sim *s, const struct kernel *k, enum op_kind kind)
{
	uint64_t b = sim_rand(s, k->blocks);

	if (!s->cluster)
		return b;
	if (kind != OP_MISMATCH) {
		if (!sim_chance(s, 5))
			b = (s->storm.focus * s->geo.region_blocks + sim_rand(s, s->storm.focus_regions * s->geo.region_blocks)) % k->blocks;
		return b;
	}
	for (uint64_t i = 0; i < k->blocks; i++)
		if (s->truth[(b + i) % k->blocks].ever && !check_parity(s, (b + i) % k->blocks, 1, kernel_members(s, k, (1u << s->g.roles) - 1)))
			return (b + i) % k->blocks;
	return b;
}

static struct op *op_free(struct kernel *k)
{
	for (struct op *op = k->op; op < k->op + SIM_MAX_OPS; op++)
		if (op->state == OP_FREE)
			return op;
	return NULL;
}

bool kernel_start(struct sim *s, struct kernel *k, enum op_kind kind)
{
	struct act a = act_of(ACT_IO, kernel_node(s, k));

	if (!op_free(k) || !k->there)
		return false;
	a.sub = (uint8_t)kind;
	a.arg[0] = place(s, k, kind);
	a.arg[1] = 1 + sim_rand(s, 6);
	a.arg[2] = ++s->op_id;
	if (region_of(s, a.arg[0]) != region_of(s, a.arg[0] + a.arg[1] - 1) || a.arg[0] + a.arg[1] > k->blocks)
		a.arg[1] = 1;
	return sim_act(s, a);
}

bool kernel_begin(struct sim *s, struct kernel *k, enum op_kind kind, uint64_t start, uint64_t count, uint32_t id)
{
	struct op *op = op_free(k);

	if (!op || !k->there || !count || start + count > k->blocks || region_of(s, start) != region_of(s, start + count - 1))
		return false;
	op->kind = kind;
	op->pend = op->failed = 0;
	op->start = start;
	op->count = count;
	op->id = id;
	if (k->killed || ((kind == OP_WRITE || (s->cluster && kind == OP_MISMATCH)) && in_use(s, k, op->start, op->count)))
		return false;
	s->stats[STAT_WRITES] += kind == OP_WRITE;
	op->order = ++k->order;
	op->state = OP_ADMIT;
	sim_trace(s, "kernel: operation %llu: %s of blocks %llu+%llu", (unsigned long long)op->order,
		  kind == OP_WRITE ? "write" : kind == OP_READ ? "read" : kind == OP_FLUSH ? "flush" : "mismatch",
		  (unsigned long long)op->start, (unsigned long long)op->count);
	kernel_run(s, k);
	return true;
}

bool kernel_busy(const struct kernel *k)
{
	for (uint32_t i = 0; i < SIM_MAX_OPS; i++)
		if (k->op[i].state != OP_FREE)
			return true;
	return k->n_queue != 0;
}

void kernel_requeue(struct sim *s, struct kernel *k)
{
	for (struct op *op = k->op; op < k->op + SIM_MAX_OPS; op++) {
		uint64_t r = region_of(s, op->start);

		if (op->state != OP_ERROR && op->state != OP_RANGE)
			continue;
		if (op->kind == OP_WRITE) {
			k->flight[r]--;
			k->error[r] |= op->state == OP_ERROR;
		}
		/* part of it may be written: until it is rewritten, it is like a write that failed */
		for (uint64_t b = op->start; op->kind == OP_WRITE && op->state == OP_ERROR && b < op->start + op->count; b++)
			s->truth[b].failed = s->truth[b].spoiled = true;
		op->state = OP_ADMIT;
	}
}

/* ---- power --------------------------------------------------------------------- */

/* For each member's part that had not ended, each chunk landed or did not; with a cluster it may also land later. */
static void op_power(struct sim *s, const struct node *n, struct op *op, uint32_t m)
{
	uint32_t disk = n->k.disk[m];

	for (uint64_t b = op->start; b < op->start + op->count; b++) {
		if (s->cluster)
			late_chunk(s, n->id, DDR_OUT_KERNEL, disk, b, chunk(s, op->version, place_of(&n->k, m), b));
		else if (sim_chance(s, 2))
			disk_write(&s->disk[disk], b, chunk(s, op->version, place_of(&n->k, m), b));
	}
}

void kernel_power(struct sim *s, struct kernel *k)
{
	const struct node *n = kernel_node(s, k);

	for (struct op *op = k->op; op < k->op + SIM_MAX_OPS; op++) {
		if (op->kind != OP_WRITE || !holds_range(op))
			continue;
		for (uint64_t b = op->start; b < op->start + op->count; b++)
			s->truth[b].wild |= s->cluster;
		for (uint32_t m = 0; m < DDR_UAPI_PLACES; m++)
			if ((op->pend >> m & 1) && !disk_gone(s, n, &s->disk[k->disk[m]]))
				op_power(s, n, op, m);
	}
	memset(k, 0, sizeof(*k));
	disk_forget_kernel(s, n);
}
