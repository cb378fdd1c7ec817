/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An array of five members and a spare, whose disks change: for test-drive-members.c and test-drive-seek.c. */
#ifndef DDR_TESTS_UNIT_DRIVE_SPARE_H
#define DDR_TESTS_UNIT_DRIVE_SPARE_H

#include "tests/unit/drive-fixture.h"

#define SPARE	5u
#define PLACE	2u

/* Five members and a spare, 8:10 to 8:15. The table names the five members. */
static inline struct ddr_array *begin_with_spare(void)
{
	struct ddr_array *a;

	a = begin_on(true, 10);
	play.super.members = play.members->n = SPARE + 1;
	for (uint32_t m = 0; m <= SPARE; m++) {
		play.super.member[m].role = m < SPARE ? (uint16_t)m : DDR_ROLE_NONE;
		play.members->major[m] = 8;
		play.members->minor[m] = 10 + m;
		play.members->open |= 1u << m;
		snprintf(play.members->name[m], sizeof(play.members->name[m]), "/dev/sd%c", 'a' + (int)m);
	}
	return a;
}

static inline void prepares(const struct ddr_input *in, struct ddr_outputs *out)
{
	(void)in;
	asks(out, DDR_OUT_PREPARE, 0, 0);
	out->out[0].io = 9;
	out->out[0].members = 1u << PLACE;
	out->out[0].start = out->out[0].count = 100;
	play.answer = NULL;
}

/* The array is to grow, member PLACE hangs while it is zeroed, and some time later it has failed. */
static inline void hangs_while_it_is_zeroed(struct ddr_array *a)
{
	play.answer = prepares;
	step(a);
	assert_non_null(a->grow.work[PLACE]);
	play.now = a->grow.due_ms;
	ddr_drive_grow_tick(a, ddr_now_ms());
	assert_int_equal(play.last.type, DDR_IN_PREPARED);
	assert_int_equal(play.last.failed_members, 1u << PLACE);
	play.super.member[PLACE].state = DDR_MEMBER_FAULTY;
}

static inline void zeroes_end(void)
{
	struct ddr_grow *g = play.grow[PLACE];

	play.grow[PLACE] = NULL;
	g->done(g->ctx, g);
}

static inline void removes(const struct ddr_input *in, struct ddr_outputs *out)
{
	(void)in;
	asks(out, DDR_OUT_EVENT, 0, 0);
	out->out[0].event = DDR_EV_MEMBER_REMOVED;
	out->out[0].member = PLACE;
	play.answer = NULL;
}

#endif
