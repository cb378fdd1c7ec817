/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A driver for unit tests of the state machine: it records every output, and answers each one automatically unless the test answers
 * it itself.
 */
#ifndef DDR_TESTS_UNIT_SM_FIXTURE_H
#define DDR_TESTS_UNIT_SM_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/sim/rig.h"

#define FX_MAX 8192

enum { FX_MSG = 1, FX_IO = 2, FX_KERNEL = 4, FX_ALL = 7 };

struct fx {
	struct ddr_super sb;
	struct ddr_sm_config cfg;
	struct ddr_sm *sm;
	struct ddr_output buf[DDR_SM_MAX_OUT];
	struct ddr_output log[FX_MAX];	/* everything since fx_forget() */
	bool open[FX_MAX];		/* not answered yet */
	uint32_t n;
	uint32_t answers;		/* FX_*: what is answered automatically */
};

static inline void fx_step(struct fx *f, const struct ddr_input *in)
{
	struct ddr_outputs outs = { .out = f->buf };
	struct ddr_input next = *in;

	do {
		const char *why = rig_step(f->sm, &next, &outs);

		if (why)
			fail_msg("%s", why);
		if (ddr_sm_check(f->sm))
			fail_msg("the state machine is inconsistent: %s", ddr_sm_check(f->sm));
		for (uint32_t i = 0; i < outs.n; i++) {
			assert_true(f->n < FX_MAX);
			f->open[f->n] = true;
			f->log[f->n++] = outs.out[i];
		}
		next = (struct ddr_input){ .type = DDR_IN_NONE };
	} while (outs.more);
}

static inline void fx_record(struct fx *f, struct ddr_rec rec)
{
	struct ddr_input in = { .type = DDR_IN_K_REC, .rec = rec };

	fx_step(f, &in);
}

static inline void fx_message(struct fx *f, uint32_t node, const uint8_t *bytes, uint32_t len)
{
	struct ddr_input in = { .type = DDR_IN_MSG, .node = node, .msg = bytes, .msg_len = len };

	fx_step(f, &in);
}

/* The kernel's answer to output @i: APPLIED, DRAINED or REAPED. */
static inline void fx_kernel_answer(struct fx *f, uint32_t i)
{
	struct ddr_rec was = f->log[i].rec, rec = { .seq = was.seq, .start = was.start };

	f->open[i] = false;
	rec.type = was.type == DDR_U_MEMBER ? DDR_K_APPLIED : was.type == DDR_U_DRAIN ? DDR_K_DRAINED : DDR_K_REAPED;
	rec.count = was.type == DDR_U_REAP ? 0 : was.count;
	fx_record(f, rec);
}

static inline void fx_done(struct fx *f, uint32_t i, uint32_t failed, int result, uint64_t mismatches)
{
	static const enum ddr_in_type types[] = {
		[DDR_OUT_LOG_WRITE] = DDR_IN_LOG_DONE, [DDR_OUT_MAP_WRITE] = DDR_IN_MAP_DONE,
		[DDR_OUT_SB_WRITE] = DDR_IN_SB_DONE, [DDR_OUT_FLUSH] = DDR_IN_FLUSH_DONE,
		[DDR_OUT_JOB_RANGE] = DDR_IN_JOB_DONE,
	};
	struct ddr_input in = { .type = types[f->log[i].type], .io = f->log[i].io, .failed_members = failed,
				.result = result, .mismatches = mismatches };

	f->open[i] = false;
	fx_step(f, &in);
}

static inline bool fx_is_io(const struct ddr_output *o)
{
	return o->type >= DDR_OUT_LOG_WRITE && o->type <= DDR_OUT_JOB_RANGE;
}

static inline bool fx_asks_kernel(const struct ddr_output *o)
{
	return o->type == DDR_OUT_KERNEL &&
	       (o->rec.type == DDR_U_MEMBER || o->rec.type == DDR_U_DRAIN || o->rec.type == DDR_U_REAP);
}

/* Answers the oldest open output that is answered automatically, until none is left. */
static inline void fx_settle(struct fx *f)
{
	for (uint32_t i = 0; i < f->n; i++) {
		const struct ddr_output *o = &f->log[i];

		if (!f->open[i])
			continue;
		if (o->type == DDR_OUT_MCAST && (f->answers & FX_MSG)) {
			struct ddr_output copy = *o;

			f->open[i] = false;
			fx_message(f, f->cfg.node, copy.msg, copy.msg_len);
		} else if (fx_is_io(o) && (f->answers & FX_IO)) {
			fx_done(f, i, 0, 0, 0);
		} else if (fx_asks_kernel(o) && (f->answers & FX_KERNEL)) {
			fx_kernel_answer(f, i);
		}
	}
}

static inline void fx_forget(struct fx *f)
{
	f->n = 0;
}

/* The number-th output of a type since fx_forget(), or -1. @record: for KERNEL outputs. */
static inline int fx_find_nth(const struct fx *f, enum ddr_out_type type, uint32_t record, uint32_t number)
{
	for (uint32_t i = 0; i < f->n; i++)
		if (f->log[i].type == type && (type != DDR_OUT_KERNEL || f->log[i].rec.type == record) &&
		    (type != DDR_OUT_EVENT || f->log[i].event == record) && number-- == 0)
			return (int)i;
	return -1;
}

static inline int fx_find(const struct fx *f, enum ddr_out_type type, uint32_t record)
{
	return fx_find_nth(f, type, record, 0);
}

static inline int fx_kernel(const struct fx *f, uint32_t record)
{
	return fx_find(f, DDR_OUT_KERNEL, record);
}

static inline int fx_event(const struct fx *f, enum ddr_event event)
{
	return fx_find(f, DDR_OUT_EVENT, event);
}

static inline uint32_t fx_count(const struct fx *f, enum ddr_out_type type, uint32_t record)
{
	uint32_t n = 0;

	while (fx_find_nth(f, type, record, n) >= 0)
		n++;
	return n;
}

/* The first open I/O of a type, or -1. */
static inline int fx_find_open(const struct fx *f, enum ddr_out_type type)
{
	for (uint32_t i = 0; i < f->n; i++)
		if (f->open[i] && f->log[i].type == type)
			return (int)i;
	return -1;
}

/* The same; fails the test if there is none. */
static inline uint32_t fx_open_io(const struct fx *f, enum ddr_out_type type)
{
	int i = fx_find_open(f, type);

	if (i < 0)
		fail_msg("no such I/O is open");
	return (uint32_t)i;
}

/* The last message of a type that was sent, decoded; fails the test if there is none. */
static inline uint32_t fx_sent(const struct fx *f, enum ddr_msg_type type, struct ddr_msg *msg)
{
	for (uint32_t i = f->n; i-- > 0;)
		if (f->log[i].type == DDR_OUT_MCAST && !ddr_msg_decode(f->log[i].msg, f->log[i].msg_len, msg) && msg->type == type)
			return i;
	fail_msg("no such message was sent");
	return 0;
}

static inline void fx_make(struct fx *f, const struct rig_geometry *g)
{
	memset(f, 0, sizeof(*f));
	rig_super(&f->sb, g);
	f->cfg.super = &f->sb;
	f->cfg.node = 1;
	f->cfg.present = (1u << f->sb.members) - 1;
	f->cfg.entropy[3] = 42;
	f->answers = FX_ALL;
}

static inline void fx_load_empty(struct fx *f)
{
	static const uint8_t zero[DDR_LOG_PAYLOAD];
	static const uint8_t boot[16];

	for (uint32_t i = 0; i < f->sb.log_blocks; i++)
		ddr_sm_load_log(f->sm, ddr_sm_slot(f->sm), i, zero, 1, 0, boot, 0);
	for (uint32_t i = 0; i < f->sb.map_blocks; i++)
		ddr_sm_load_map(f->sm, i, zero, 1);
}

static inline void fx_view(struct fx *f, uint32_t n, bool quorate, uint64_t ring)
{
	struct ddr_input in = { .type = DDR_IN_VIEW, .n_nodes = n, .quorate = quorate, .ring = ring };

	for (uint32_t i = 0; i < n; i++)
		in.nodes[i] = i + 1;
	fx_step(f, &in);
	fx_settle(f);
}

static inline void fx_attach(struct fx *f, uint64_t cookie, uint64_t held_start, uint64_t held_count)
{
	struct ddr_input in = { .type = DDR_IN_K_ATTACHED, .cookie = cookie, .members = 0xffff, .count = f->sb.array_blocks };

	in.boot_id[0] = 1;
	fx_step(f, &in);
	if (held_count)
		fx_record(f, (struct ddr_rec){ .type = DDR_K_HELD, .start = held_start, .count = held_count });
	fx_record(f, (struct ddr_rec){ .type = DDR_K_HELD_END, .count = held_count });
	fx_settle(f);
}

/* A new array of this geometry, started, with its kernel attached. */
static inline void fx_up(struct fx *f, const struct rig_geometry *g)
{
	fx_make(f, g);
	f->sm = rig_sm(&f->cfg);
	assert_non_null(f->sm);
	fx_load_empty(f);
	fx_view(f, 1, true, 1);
	fx_attach(f, 7, 0, 0);
	assert_true(fx_event(f, DDR_EV_READY) >= 0);
	fx_forget(f);
}

static inline void fx_down(struct fx *f)
{
	free(f->sm);
	f->sm = NULL;
}

static inline void fx_tick(struct fx *f, uint64_t ms)
{
	struct ddr_input in = { .type = DDR_IN_TICK, .now_ms = ms };

	fx_step(f, &in);
	fx_settle(f);
}

static inline void fx_lock(struct fx *f, uint64_t start, uint64_t count)
{
	fx_record(f, (struct ddr_rec){ .type = DDR_K_LOCK, .seq = 900, .start = start, .count = count });
	fx_settle(f);
}

static inline void fx_closed(struct fx *f, uint64_t start, uint64_t count, int status)
{
	fx_record(f, (struct ddr_rec){ .type = DDR_K_CLOSED, .start = start, .count = count, .status = status });
	fx_settle(f);
}

static inline void fx_error(struct fx *f, uint64_t seq, uint32_t member, enum ddr_error_class class, enum ddr_error_op op)
{
	struct ddr_rec rec = { .type = DDR_K_ERROR, .seq = seq, .member = member, .status = (int)class, .start = 3, .count = 1 };

	rec.arg[0] = op;
	fx_record(f, rec);
	fx_settle(f);
}

/* Ends the two writes of superblocks of a change: to the members, then to the spare. */
static inline void fx_supers_done(struct fx *f)
{
	for (uint32_t i = 0; i < 2; i++) {
		fx_done(f, fx_open_io(f, DDR_OUT_SB_WRITE), 0, 0, 0);
		fx_settle(f);
	}
}

static inline struct ddr_sm_status fx_status(const struct fx *f)
{
	struct ddr_sm_status st;

	ddr_sm_get_status(f->sm, &st);
	return st;
}

/* The job that waits for its end; there must be one. */
static inline const struct ddr_output *fx_job(const struct fx *f)
{
	return &f->log[fx_open_io(f, DDR_OUT_JOB_RANGE)];
}

/* All I/O but that of jobs is answered. */
static inline void fx_answer_all_but_jobs(struct fx *f)
{
	for (uint32_t i = 0; i < f->n; i++)
		if (f->open[i] && fx_is_io(&f->log[i]) && f->log[i].type != DDR_OUT_JOB_RANGE) {
			fx_done(f, i, 0, 0, 0);
			fx_settle(f);
		}
}

/* Regions of @f->sb.region_blocks: written, closed, and their parity computed as a whole. */
static inline void fx_make_clean(struct fx *f, uint64_t start, uint64_t count)
{
	fx_lock(f, start, count);
	fx_closed(f, start, count, 0);
	fx_tick(f, 100);
	for (uint64_t r = start; r < start + count; r++)
		assert_int_equal(ddr_sm_region(f->sm, r), DDR_REGION_CLEAN);
	fx_forget(f);
}

static const struct rig_geometry fx_five = { .order = 2, .parity = 1, .blocks = 4096, .region_blocks = 256, .slots = 4 };
static const struct rig_geometry fx_six = { .order = 2, .parity = 2, .blocks = 4096, .region_blocks = 256, .slots = 4, .spares = 1 };

/* For cmocka: an array of that geometry that this node has started, its end. */
static inline int fx_setup(void **state, const struct rig_geometry *geo)
{
	struct fx *f = malloc(sizeof(*f));

	fx_up(f, geo);
	*state = f;
	return 0;
}

static inline int fx_teardown(void **state)
{
	struct fx *f = *state;

	fx_down(f);
	free(f);
	return 0;
}

#endif
