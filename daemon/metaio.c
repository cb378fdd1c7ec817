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

#include "daemon/aio.h"
#include "daemon/metaio.h"

#define QUEUE_DEPTH	256u
_Static_assert(DDR_AIO_LANES >= DDR_MAX_MEMBERS + DDR_MEMBERS_OLD, "a lane for each device that may be asked");

struct ddr_meta_op {
	struct qb_list_head list;	/* free or busy */
	struct ddr_metaio *m;
	enum ddr_metaio_kind kind;
	uint64_t io;
	uint32_t members;		/* asked */
	uint32_t waiting;		/* not ended yet */
	uint32_t failed;
	uint32_t no_space;		/* of these: for that reason alone */
	bool reported;
	uint64_t deadline_ms;
	uint64_t offset;
	uint8_t *blocks;		/* DDR_MAX_MEMBERS blocks for superblocks, else one */
	bool has_all;			/* blocks has room for superblocks */
	struct ddr_aio_req req[DDR_MAX_MEMBERS];
};

struct ddr_metaio {
	struct ddr_metaio_config cfg;
	struct ddr_aio *aio;
	struct qb_list_head free_one, free_all, busy;
	bool closing;
};

static struct ddr_meta_op *op_new(struct ddr_metaio *m, bool all)
{
	struct ddr_meta_op *op = calloc(1, sizeof(*op));
	size_t size = (all ? DDR_MAX_MEMBERS : 1) * (size_t)DDR_META_BLOCK;
	void *blocks;

	if (!op)
		return NULL;
	if (posix_memalign(&blocks, DDR_META_BLOCK, size)) {
		free(op);
		return NULL;
	}
	memset(blocks, 0, size);
	op->blocks = blocks;
	op->has_all = all;
	op->m = m;
	qb_list_init(&op->list);
	return op;
}

static void op_free(struct ddr_meta_op *op)
{
	qb_list_del(&op->list);
	free(op->blocks);
	free(op);
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
	ddr_members_put(m->cfg.members);
	free(m);
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
	for (unsigned int i = 0; i < cfg->operations; i++) {
		bool all = i < 4;	/* superblock writes are rare and follow one another */
		struct ddr_meta_op *op = op_new(m, all);

		if (!op)
			goto fail;
		qb_list_add_tail(&op->list, all ? &m->free_all : &m->free_one);
	}
	ret = ddr_aio_open(&m->aio, cfg->loop, cfg->engine, QUEUE_DEPTH, false);
	if (ret)
		goto fail;
	*out = m;
	return 0;

fail:
	metaio_free(m);
	return ret;
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
		if (!op->waiting)
			op_free(op);	/* waited for a tick only */
	}
	ddr_members_keep(m->cfg.members, DDR_MEMBERS_META, ddr_metaio_asked(m));
	ddr_aio_close(m->aio);
	if (qb_list_empty(&m->busy))
		metaio_free(m);
}

struct ddr_meta_op *ddr_metaio_get(struct ddr_metaio *m, enum ddr_metaio_kind kind, uint64_t io, uint32_t members)
{
	bool all = kind == DDR_META_SB;
	struct qb_list_head *head = all ? &m->free_all : &m->free_one;
	struct ddr_meta_op *op;

	if (!qb_list_empty(head)) {
		op = qb_list_first_entry(head, struct ddr_meta_op, list);
		qb_list_del(&op->list);
	} else {
		op = op_new(m, all);
		if (!op) {
			qb_log(LOG_CRIT, "out of memory for metadata operations");
			abort();
		}
	}
	op->kind = kind;
	op->io = io;
	op->members = members & ((1u << DDR_MAX_MEMBERS) - 1);
	op->waiting = op->failed = op->no_space = 0;
	op->reported = false;
	op->offset = 0;
	return op;
}

void *ddr_metaio_block(struct ddr_meta_op *op, unsigned int member)
{
	return op->blocks + (op->has_all ? (size_t)member * DDR_META_BLOCK : 0);
}

void ddr_metaio_at(struct ddr_meta_op *op, uint64_t offset)
{
	op->offset = offset;
}

void ddr_metaio_refuse(struct ddr_meta_op *op)
{
	op->failed = op->members;
	op->members = 0;
}

static void report(struct ddr_meta_op *op)
{
	if (op->reported)
		return;
	op->reported = true;
	if (!op->m->closing)
		op->m->cfg.done(op->m->cfg.ctx, op->kind, op->io, op->failed | op->waiting, op->no_space);
}

/* The operation's last request ended: it may be used again. */
static void retire(struct ddr_meta_op *op)
{
	struct ddr_metaio *m = op->m;

	qb_list_del(&op->list);
	if (m->closing) {
		qb_list_init(&op->list);
		op_free(op);
		if (qb_list_empty(&m->busy))
			metaio_free(m);
		return;
	}
	qb_list_add_tail(&op->list, op->has_all ? &m->free_all : &m->free_one);
}

static const char *const kind_name[] = {
	[DDR_META_LOG] = "dirty log write", [DDR_META_MAP] = "region map write",
	[DDR_META_SB] = "superblock write", [DDR_META_FLUSH] = "cache flush",
};

static void request_done(struct ddr_aio_req *req)
{
	struct ddr_meta_op *op = (struct ddr_meta_op *)req->tag;
	unsigned int member = (unsigned int)(req - op->req);

	op->waiting &= ~(1u << member);
	if (req->result) {
		op->failed |= 1u << member;
		if (req->result == -ENOSPC && op->kind != DDR_META_FLUSH)
			op->no_space |= 1u << member;	/* the state machine tells of it, once */
		else
			ddr_members_log(op->m->cfg.members, member, kind_name[op->kind], req->result);
	}
	if (op->m->closing)
		ddr_members_keep(op->m->cfg.members, DDR_MEMBERS_META, ddr_metaio_asked(op->m));
	if (op->waiting)
		return;
	report(op);
	retire(op);
}

static enum ddr_aio_op op_kind(enum ddr_metaio_kind kind)
{
	return kind == DDR_META_FLUSH ? DDR_AIO_FLUSH : DDR_AIO_WRITE_DURABLE;
}

void ddr_metaio_run(struct ddr_meta_op *op, uint64_t now_ms, uint64_t timeout_ms)
{
	struct ddr_metaio *m = op->m;

	op->deadline_ms = now_ms + timeout_ms;
	qb_list_add_tail(&op->list, &m->busy);
	for (unsigned int i = 0; i < DDR_MAX_MEMBERS; i++) {
		struct ddr_aio_req *req = &op->req[i];

		if (!(op->members & (1u << i)))
			continue;
		if (ddr_members_fd(m->cfg.members, i) < 0) {
			op->failed |= 1u << i;
			continue;
		}
		op->waiting |= 1u << i;
		*req = (struct ddr_aio_req){
			.op = op_kind(op->kind),
			.fd = ddr_members_fd(m->cfg.members, i),
			.buf = ddr_metaio_block(op, i),
			.len = DDR_META_BLOCK,
			.offset = op->offset,
			.done = request_done,
			.tag = (uintptr_t)op,
		};
		ddr_aio_submit(m->aio, req);
	}
	if (!op->waiting)
		op->deadline_ms = 0;	/* nothing to wait for: the next tick reports it */
}

void ddr_metaio_kick(struct ddr_metaio *m)
{
	ddr_aio_kick(m->aio);
}

void ddr_metaio_tick(struct ddr_metaio *m, uint64_t now_ms)
{
	struct ddr_meta_op *op;
	struct qb_list_head *iter, *next;
	char who[DDR_MEMBERS_WHO];

	ddr_aio_kick(m->aio);
	qb_list_for_each_safe(iter, next, &m->busy) {
		op = qb_list_entry(iter, struct ddr_meta_op, list);
		if (now_ms < op->deadline_ms || op->reported)
			continue;
		for (unsigned int i = 0; i < DDR_MAX_MEMBERS; i++)
			if (op->waiting >> i & 1)
				qb_log(LOG_ERR, "%s: %s did not end in time; it counts as failed",
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

uint32_t ddr_metaio_asked(const struct ddr_metaio *m)
{
	struct qb_list_head *iter;
	uint32_t members = 0;

	qb_list_for_each(iter, &m->busy)
		members |= qb_list_entry(iter, struct ddr_meta_op, list)->waiting;
	return members;
}

uint32_t ddr_metaio_writes(const struct ddr_metaio *m)
{
	struct qb_list_head *iter;
	uint32_t members = 0;

	qb_list_for_each(iter, &m->busy) {
		const struct ddr_meta_op *op = qb_list_entry(iter, struct ddr_meta_op, list);

		members |= op->kind == DDR_META_FLUSH ? 0 : op->waiting;
	}
	return members;
}

bool ddr_metaio_idle(const struct ddr_metaio *m)
{
	return qb_list_empty(&m->busy);
}

const char *ddr_metaio_engine(const struct ddr_metaio *m)
{
	return ddr_aio_engine_name(m->aio);
}
