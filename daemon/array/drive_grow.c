// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the state machine needs to grow the array: the sizes of the members' devices, members prepared for the new size, and a longer
 * table for our kernel.
 *
 * Must never: answer within the step that asked; prepare members in a place that is in use; load a table of a length that the state
 * machine has not named.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <qb/qblog.h>

#include "daemon/array/drive.h"
#include "daemon/array/events.h"
#include "daemon/disk/grow.h"
#include "lib/disk/devio.h"

#define SLOWEST		(10u << 20)	/* bytes a second: a member gets enough time to be prepared at this rate */
#define AGAIN_MS	10000u		/* between two attempts to load a longer table */

/* ---- ROOM ------------------------------------------------------------------------ */

/* Reports the smallest device; one that is not open has size 0. */
static void give_room(struct ddr_array *a)
{
	struct ddr_input *in = ddr_drive_input(a, DDR_IN_ROOM);

	in->io = a->grow.room_io;
	in->value = UINT64_MAX;
	for (unsigned int m = 0; m < DDR_MAX_MEMBERS; m++) {
		uint64_t bytes = 0;

		if (!(a->grow.room_members & (1u << m)))
			continue;
		if (ddr_members_fd(a->members, m) >= 0)
			bytes = ddr_dev_size(&a->members->dev[m]);
		if (bytes >= in->value)
			continue;
		in->value = bytes;
		in->member = m;
	}
	a->grow.room_io = 0;
	ddr_drive_step(a, in);
}

/* ---- PREPARE --------------------------------------------------------------------- */

static void give_prepared(struct ddr_array *a, int result)
{
	struct ddr_input *in = ddr_drive_input(a, DDR_IN_PREPARED);

	in->io = a->grow.io;
	in->result = result;
	in->failed_members = a->grow.failed | a->grow.waiting;
	in->no_space = a->grow.no_space;
	a->grow.io = 0;
	a->grow.waiting = 0;
	ddr_drive_step(a, in);
}

static void on_prepared(void *ctx, struct ddr_grow *g)
{
	struct ddr_array *a = ctx;

	if (a)
		a->grow.work[g->member] = NULL;
	/* a member whose preparation ended too late has failed by now */
	if (a && a->grow.io == g->io) {
		a->grow.waiting &= ~(1u << g->member);
		if (g->result == -ENOMEM || g->result == -EAGAIN)
			a->grow.error = g->result;
		else if (g->result)
			a->grow.failed |= 1u << g->member;
		a->grow.no_space |= g->result == -ENOSPC ? 1u << g->member : 0;
		if (g->result)
			qb_log(LOG_ERR, "array '%s': %s", a->name, g->error.text);
	}
	ddr_grow_free(g);
}

static int prepare_one(struct ddr_array *a, unsigned int m, uint64_t blocks)
{
	struct ddr_grow *g = a->grow.work[m] ? NULL : calloc(1, sizeof(*g));
	int ret;

	if (!g)
		return -ENOMEM;
	g->still = ddr_drive_still(a);
	g->members = a->members;
	g->member = m;
	g->super = a->super;
	g->blocks = blocks;
	g->io = a->grow.io;
	g->done = on_prepared;
	g->ctx = a;
	ret = ddr_grow_start(g, a->d->loop);
	if (ret) {
		free(g);
		return ret;
	}
	a->grow.work[m] = g;
	a->grow.waiting |= 1u << m;
	return 0;
}

/*
 * If the preparation of a member cannot be made, or not even be started, because of this process, that is not the member's fault: all of it is retried later, when those in
 * progress have ended.
 */
static void prepare(struct ddr_array *a, const struct ddr_output *o)
{
	uint64_t bytes = ddr_grow_bytes(&a->super, o->start + o->count);

	a->grow.io = o->io;
	a->grow.waiting = a->grow.failed = a->grow.no_space = 0;
	a->grow.error = 0;
	a->grow.due_ms = ddr_now_ms() + a->tune.io_timeout_ms + bytes / SLOWEST * 1000;
	for (unsigned int m = 0; m < DDR_MAX_MEMBERS && !a->grow.error; m++) {
		if (!(o->members & (1u << m)))
			continue;
		if (ddr_members_fd(a->members, m) < 0)
			a->grow.failed |= 1u << m;
		else
			a->grow.error = prepare_one(a, m, o->start + o->count);
	}
}

static void prepare_tick(struct ddr_array *a, uint64_t now_ms)
{
	char which[DDR_MEMBERS_TEXT];

	if (!a->grow.io || (a->grow.waiting && now_ms < a->grow.due_ms))
		return;
	if (a->grow.waiting)
		qb_log(LOG_ERR, "array '%s': members %s did not zero the space for the larger array in time, so they count as failed; check these disks, "
		       "then add each of them again (ddraid add %s DEV)", a->name, ddr_drive_members_text(a->grow.waiting, which), a->name);
	else if (a->grow.error)
		a->grow.failed = a->grow.no_space = 0;
	give_prepared(a, a->grow.error);
}

/* ---- RESIZE ---------------------------------------------------------------------- */

static void resize_tick(struct ddr_array *a, uint64_t now_ms)
{
	if (!a->grow.resize || now_ms < a->grow.resize_ms || a->table || a->table_asked)
		return;
	if (a->bind.sectors >= a->grow.resize * (DDR_BLOCK_SIZE / 512)) {
		a->grow.resize = 0;
		return;
	}
	a->grow.resize_ms = now_ms + AGAIN_MS;
	ddr_drive_table_resize(a, a->grow.resize * (DDR_BLOCK_SIZE / 512));
}

/* ---- the loop -------------------------------------------------------------------- */

void ddr_drive_grow_output(struct ddr_array *a, const struct ddr_output *o)
{
	if (o->type == DDR_OUT_ROOM) {
		a->grow.room_io = o->io;
		a->grow.room_members = o->members;
	} else if (o->type == DDR_OUT_PREPARE) {
		prepare(a, o);
	} else {
		a->grow.resize = o->count;
		a->grow.resize_ms = 0;
	}
}

void ddr_drive_sized(struct ddr_array *a)
{
	uint64_t blocks = ddr_sm_super(a->sm)->array_blocks;

	if (a->super.array_blocks == blocks)
		return;
	a->super.array_blocks = blocks;
	ddr_jobs_resize(a->jobs, blocks);
}

const char *ddr_drive_grow(struct ddr_array *a, uint64_t blocks)
{
	struct ddr_input *in = ddr_drive_input(a, DDR_IN_OP_GROW);

	in->count = blocks;
	a->grow.refusal[0] = '\0';
	return ddr_drive_request(a, in);
}

void ddr_drive_grow_tick(struct ddr_array *a, uint64_t now_ms)
{
	if (a->broken)
		return;
	if (a->grow.room_io)
		give_room(a);
	prepare_tick(a, now_ms);
	resize_tick(a, now_ms);
}

void ddr_drive_grow_delay(struct ddr_array *a, uint64_t ms)
{
	a->grow.due_ms += ms;
}

void ddr_drive_grow_stop(struct ddr_array *a)
{
	for (unsigned int m = 0; m < DDR_MAX_MEMBERS; m++)
		if (a->grow.work[m])
			a->grow.work[m]->ctx = NULL;
	memset(&a->grow, 0, sizeof(a->grow));
}
