// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Durable metadata writes and flushes. See metaio.h.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <qb/qblist.h>
#include <qb/qblog.h>

#include "daemon/disk/metaio_int.h"

#define QUEUE_DEPTH	256u
_Static_assert(DDR_AIO_LANES >= DDR_MAX_MEMBERS + DDR_MEMBERS_OLD, "a lane for each device that may be asked");

#define SUPERS		4u	/* operations with room for superblocks: their writes are rare and run one after the other */

/* ---- memory ---------------------------------------------------------------------- */

static bool preallocated(const struct ddr_meta_op *op)
{
	return op >= op->m->ops && op < op->m->ops + op->m->cfg.operations;
}

static void op_free(struct ddr_meta_op *op)
{
	qb_list_del(&op->list);
	for (unsigned int i = 0; op->supers && i < DDR_MAX_MEMBERS; i++)
		free(op->supers->pair[i]);
	for (unsigned int c = 0; op->supers && c < DDR_SB_COPIES; c++)
		free(op->supers->pages[c]);
	free(op->supers);
	if (preallocated(op))
		return;
	free(op->block);
	free(op);
}

static void *blocks_new(size_t n)
{
	void *blocks;

	if (posix_memalign(&blocks, DDR_META_BLOCK, n * DDR_META_BLOCK))
		return NULL;
	memset(blocks, 0, n * DDR_META_BLOCK);
	return blocks;
}

/* Room for the superblocks of these members. */
static bool op_pairs(struct ddr_meta_op *op, uint32_t members)
{
	for (unsigned int i = 0; i < DDR_MAX_MEMBERS; i++) {
		uint8_t **pair = &op->supers->pair[i];

		if (!(members >> i & 1) || *pair)
			continue;
		*pair = blocks_new(2 + op->m->cfg.owner_pages);
		if (!*pair)
			return false;
	}
	return true;
}

static bool op_init(struct ddr_meta_op *op, struct ddr_metaio *m, uint8_t *block, bool supers)
{
	op->m = m;
	op->block = block;
	qb_list_init(&op->list);
	if (!supers)
		return true;
	op->supers = calloc(1, sizeof(*op->supers));
	for (unsigned int c = 0; op->supers && m->cfg.owner_pages && c < DDR_SB_COPIES; c++) {
		op->supers->pages[c] = blocks_new(m->cfg.owner_pages);
		if (!op->supers->pages[c])
			return false;
	}
	return op->supers && op_pairs(op, m->cfg.members->open);
}

/* One more than those that are preallocated. */
static struct ddr_meta_op *op_new(struct ddr_metaio *m, bool supers)
{
	struct ddr_meta_op *op = calloc(1, sizeof(*op));
	uint8_t *block = op ? blocks_new(1) : NULL;

	if (block && op_init(op, m, block, supers))
		return op;
	if (block)
		op_free(op);
	else
		free(op);
	return NULL;
}

static void free_list(struct qb_list_head *head)
{
	while (!qb_list_empty(head))
		op_free(qb_list_first_entry(head, struct ddr_meta_op, list));
}

static void metaio_free(struct ddr_metaio *m)
{
	free_list(&m->free_one);
	free_list(&m->free_all);
	for (unsigned int i = 0; i < DDR_MAX_MEMBERS; i++)
		ddr_meta_stamp_free(m->stamp[i]);
	ddr_members_put(m->cfg.members);
	free(m->ops);
	free(m->blocks);
	free(m);
}

static bool preallocate(struct ddr_metaio *m)
{
	m->ops = calloc(m->cfg.operations, sizeof(*m->ops));
	m->blocks = blocks_new(m->cfg.operations);
	if (!m->ops || !m->blocks)
		return false;
	for (unsigned int i = 0; i < m->cfg.operations; i++) {
		struct ddr_meta_op *op = &m->ops[i];
		bool fits = op_init(op, m, m->blocks + (size_t)i * DDR_META_BLOCK, i < SUPERS);

		qb_list_add_tail(&op->list, i < SUPERS ? &m->free_all : &m->free_one);
		if (!fits)
			return false;
	}
	return true;
}

int ddr_metaio_open(struct ddr_metaio **out, const struct ddr_metaio_config *cfg)
{
	struct ddr_metaio *m = calloc(1, sizeof(*m));
	int ret = -ENOMEM;

	*out = NULL;
	if (!m)
		return -ENOMEM;
	m->cfg = *cfg;
	ddr_members_get(m->cfg.members);
	qb_list_init(&m->free_one);
	qb_list_init(&m->free_all);
	qb_list_init(&m->busy);
	if (preallocate(m) && ddr_meta_stamp_prepare(m, m->cfg.members->open))
		ret = ddr_aio_open(&m->aio, cfg->loop, cfg->engine, QUEUE_DEPTH, false);
	if (ret) {
		metaio_free(m);
		return ret;
	}
	m->aio->still = cfg->still;
	*out = m;
	return 0;
}

int ddr_metaio_prepare(struct ddr_metaio *m, unsigned int member)
{
	struct qb_list_head *const lists[] = { &m->free_all, &m->busy };
	struct ddr_meta_op *op;

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		qb_list_for_each_entry(op, lists[i], list)
			if (op->supers && !op_pairs(op, 1u << member))
				return -ENOMEM;
	return ddr_meta_stamp_prepare(m, 1u << member) ? 0 : -ENOMEM;
}

void ddr_metaio_close(struct ddr_metaio *m)
{
	struct qb_list_head *iter, *next;
	struct ddr_meta_op *op;

	if (!m)
		return;
	m->closing = true;
	qb_list_for_each_safe(iter, next, &m->busy) {
		op = qb_list_entry(iter, struct ddr_meta_op, list);
		if (!op->flying)
			op_free(op);	/* it only waited for a tick */
		else
			op->waiting = op->flying;	/* and so did the other members */
	}
	ddr_members_keep(m->cfg.members, DDR_MEMBERS_META, ddr_metaio_asked(m));
	ddr_aio_close(m->aio);
	if (qb_list_empty(&m->busy))
		metaio_free(m);
}

struct ddr_meta_op *ddr_metaio_get(struct ddr_metaio *m, enum ddr_metaio_kind kind, uint64_t io, uint32_t members)
{
	bool supers = ddr_meta_of_supers(kind);
	struct qb_list_head *head = supers ? &m->free_all : &m->free_one;
	struct ddr_meta_op *op;

	if (!qb_list_empty(head)) {
		op = qb_list_first_entry(head, struct ddr_meta_op, list);
		qb_list_del(&op->list);
	} else {
		op = op_new(m, supers);
	}
	if (!op || (supers && !op_pairs(op, members & m->cfg.members->open))) {
		qb_log(LOG_CRIT, "array '%s': out of memory for metadata operations; ddraidd ends, and systemd starts it again", m->cfg.members->array);
		abort();
	}
	op->kind = kind;
	op->io = io;
	op->members = members & ((1u << DDR_MAX_MEMBERS) - 1);
	op->waiting = op->flying = op->failed = op->no_space = op->returned = 0;
	op->reported = op->back = false;
	op->offset = 0;
	return op;
}

void *ddr_metaio_block(struct ddr_meta_op *op, unsigned int member)
{
	return op->supers && op->supers->pair[member] ? op->supers->pair[member] : op->block;
}

void ddr_metaio_at(struct ddr_meta_op *op, uint64_t offset)
{
	op->offset = offset;
}

void ddr_metaio_refuse(struct ddr_meta_op *op)
{
	op->failed |= op->members;	/* it may be refused twice: for a superblock, and for its owner pages */
	op->members = 0;
}

/* Must never: begin a write that the state machine counts as failed. Others may have the member, or newer metadata, by now. */
static void give_up(struct ddr_meta_op *op)
{
	for (unsigned int i = 0; i < DDR_MAX_MEMBERS; i++)
		if (op->flying >> i & 1)
			op->req[i].given_up = true;
}

static void report(struct ddr_meta_op *op)
{
	if (op->reported)
		return;
	op->reported = true;
	give_up(op);
	op->m->returned = op->returned;
	if (!op->m->closing && op->kind != DDR_META_STAMP)
		op->m->cfg.done(op->m->cfg.ctx, op->kind, op->io, op->failed | op->waiting, op->no_space);
	op->m->returned = 0;
	op->waiting = op->flying;	/* a member that was only pausing is not waited for any more */
}

/* The last request of the operation has ended: it may be reused. */
static void retire(struct ddr_meta_op *op)
{
	struct ddr_metaio *m = op->m;

	qb_list_del(&op->list);
	qb_list_init(&op->list);
	if (op->kind == DDR_META_STAMP && op->stamp->left)
		ddr_meta_stamp_free(op);
	else if (m->closing && op->kind != DDR_META_STAMP)	/* stamps are freed with all the rest */
		op_free(op);
	else if (op->kind != DDR_META_STAMP)
		qb_list_add_tail(&op->list, op->supers ? &m->free_all : &m->free_one);
	if (m->closing && qb_list_empty(&m->busy))
		metaio_free(m);
}

static const char *const kind_name[] = {
	[DDR_META_LOG] = "dirty log write", [DDR_META_MAP] = "region map write",
	[DDR_META_SB] = "superblock write", [DDR_META_FLUSH] = "cache flush", [DDR_META_CHECK] = "check of the superblocks",
};

static void member_failed(struct ddr_meta_op *op, unsigned int member, int result)
{
	op->failed |= 1u << member;
	if (op->back)
		op->returned |= 1u << member;	/* whatever its last request said: nobody has asked for more */
	else if (result == -ENOSPC && op->kind != DDR_META_FLUSH)
		op->no_space |= 1u << member;	/* the state machine reports it, once */
	else if (result && !op->m->closing)	/* what a queue drops when it is closed is no error of the member */
		ddr_members_log(op->m->cfg.members, member, kind_name[op->kind], result);
}

/* Does the member's part of the operation continue? If the operation was reported or dropped, nothing more is started. */
static bool goes_on(struct ddr_meta_op *op, unsigned int member, int result)
{
	enum ddr_meta_next next = result ? DDR_MN_FAILED : DDR_MN_DONE;

	if (op->kind == DDR_META_STAMP)
		next = !op->m->closing && ddr_meta_stamp_next(op, member, result) ? DDR_MN_GOES_ON : DDR_MN_DONE;
	if (op->back)
		next = DDR_MN_FAILED;
	else if (ddr_meta_of_supers(op->kind) && !op->reported && !op->m->closing)
		next = ddr_meta_super_next(op, member, result);
	if (next == DDR_MN_GOES_ON)
		return true;
	op->waiting &= ~(1u << member);
	if (next == DDR_MN_FAILED)
		member_failed(op, member, result);
	return false;
}

static void request_done(struct ddr_aio_req *req)
{
	struct ddr_meta_op *op = (struct ddr_meta_op *)req->tag;
	unsigned int member = (unsigned int)(req - op->req);

	op->flying &= ~(1u << member);
	if (goes_on(op, member, req->result))
		return;
	if (op->m->closing)
		ddr_members_keep(op->m->cfg.members, DDR_MEMBERS_META, ddr_metaio_asked(op->m));
	if (op->waiting)
		return;
	report(op);
	retire(op);
}

void ddr_metaio_submit(struct ddr_meta_op *op, unsigned int member, enum ddr_aio_op what, void *buf, unsigned int blocks, uint64_t offset)
{
	struct ddr_aio_req *req = &op->req[member];

	op->flying |= 1u << member;
	*req = (struct ddr_aio_req){
		.op = what,
		.fd = ddr_members_fd(op->m->cfg.members, member),
		.buf = buf,
		.len = blocks * DDR_META_BLOCK,
		.offset = offset,
		.done = request_done,
		.tag = (uintptr_t)op,
		.look = what == DDR_AIO_READ && (op->kind == DDR_META_CHECK || op->kind == DDR_META_STAMP),
		.begin_by_ms = what == DDR_AIO_WRITE && op->kind == DDR_META_STAMP ? op->stamp->begun_ms + DDR_STILL_MS : 0,
	};
	ddr_aio_submit(op->m->aio, req);
}

void ddr_metaio_take_back(struct ddr_metaio *m)
{
	struct ddr_meta_op *op;

	qb_list_for_each_entry(op, &m->busy, list) {
		uint32_t pausing = op->waiting & ~op->flying;

		if (op->kind != DDR_META_SB || op->reported)
			continue;
		op->back = true;
		give_up(op);
		op->failed |= pausing;
		op->returned |= pausing;
		op->waiting = op->flying;
		if (!op->waiting)
			op->deadline_ms = 0;	/* the next tick reports it */
	}
}

uint32_t ddr_metaio_returned(const struct ddr_metaio *m)
{
	return m->returned;
}

void ddr_metaio_run(struct ddr_meta_op *op, uint64_t now_ms, uint64_t timeout_ms)
{
	struct ddr_metaio *m = op->m;

	m->now_ms = now_ms;
	op->timeout_ms = timeout_ms;
	op->deadline_ms = now_ms + timeout_ms;
	qb_list_add_tail(&op->list, &m->busy);
	for (unsigned int i = 0; i < DDR_MAX_MEMBERS; i++) {
		if (!(op->members & (1u << i)))
			continue;
		if (ddr_members_fd(m->cfg.members, i) < 0) {
			op->failed |= 1u << i;
			continue;
		}
		op->waiting |= 1u << i;
		if (ddr_meta_of_supers(op->kind))
			ddr_meta_super_begin(op, i);
		else
			ddr_metaio_submit(op, i, op->kind == DDR_META_FLUSH ? DDR_AIO_FLUSH : DDR_AIO_WRITE_DURABLE, op->block, 1, op->offset);
	}
	if (!op->waiting)
		op->deadline_ms = 0;	/* there is nothing to wait for: the next tick reports it */
}

void ddr_metaio_kick(struct ddr_metaio *m)
{
	ddr_aio_kick(m->aio);
}

/* It is late because of this process. */
static bool given_up(struct ddr_meta_op *op)
{
	int error = 0;

	for (unsigned int i = 0; i < DDR_MAX_MEMBERS; i++)
		if (op->flying >> i & 1 && op->req[i].own)
			error = op->req[i].own;
	if (!error)
		return false;
	op->reported = true;
	op->waiting = op->flying;
	give_up(op);
	op->m->cfg.unable(op->m->cfg.ctx, error);
	return true;
}

void ddr_metaio_tick(struct ddr_metaio *m, uint64_t now_ms)
{
	struct ddr_meta_op *op;
	struct qb_list_head *iter, *next;
	char who[DDR_MEMBERS_WHO];

	m->now_ms = now_ms;
	ddr_aio_retry(m->aio);
	qb_list_for_each_entry(op, &m->busy, list)
		if (ddr_meta_of_supers(op->kind))
			ddr_meta_super_tick(op, now_ms);
	ddr_aio_kick(m->aio);
	qb_list_for_each_safe(iter, next, &m->busy) {
		op = qb_list_entry(iter, struct ddr_meta_op, list);
		if (now_ms < op->deadline_ms || op->reported || given_up(op))
			continue;
		for (unsigned int i = 0; i < DDR_MAX_MEMBERS; i++)
			if (op->waiting >> i & 1)
				qb_log(LOG_ERR, "%s: %s did not finish in time; it counts as failed",
				       ddr_members_who(m->cfg.members, i, who, sizeof(who)), kind_name[op->kind]);
		report(op);
		if (!op->waiting)
			retire(op);
	}
}

void ddr_metaio_delay(struct ddr_metaio *m, uint64_t ms)
{
	struct ddr_meta_op *op;

	qb_list_for_each_entry(op, &m->busy, list)
		op->deadline_ms += ms;
}

void ddr_metaio_delay_held(struct ddr_metaio *m, uint64_t ms)
{
	struct ddr_meta_op *op;

	qb_list_for_each_entry(op, &m->busy, list)
		op->deadline_ms += op->kind == DDR_META_CHECK ? 0 : ms;
}

uint32_t ddr_metaio_asked(const struct ddr_metaio *m)
{
	struct qb_list_head *iter;
	uint32_t members = 0;

	qb_list_for_each(iter, &m->busy)
		members |= qb_list_entry(iter, struct ddr_meta_op, list)->flying;
	return members;
}

uint32_t ddr_metaio_writes(const struct ddr_metaio *m)
{
	struct qb_list_head *iter;
	uint32_t members = 0;

	qb_list_for_each(iter, &m->busy) {
		const struct ddr_meta_op *op = qb_list_entry(iter, struct ddr_meta_op, list);

		members |= op->kind == DDR_META_FLUSH || op->kind == DDR_META_CHECK ? 0 : op->flying;
	}
	return members;
}

bool ddr_metaio_idle(const struct ddr_metaio *m)
{
	return qb_list_empty(&m->busy);
}

bool ddr_metaio_quiet(const struct ddr_metaio *m)
{
	struct qb_list_head *iter;

	qb_list_for_each(iter, &m->busy)
		if (qb_list_entry(iter, struct ddr_meta_op, list)->kind != DDR_META_STAMP)
			return false;
	return true;
}

const char *ddr_metaio_engine(const struct ddr_metaio *m)
{
	return ddr_aio_engine_name(m->aio);
}
