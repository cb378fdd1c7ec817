// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The region map: one for the array, changed only by MAP_SET in the total order,
 * written by one node of the view.
 *
 * Each block counts its changes; since they come in the total order, the count is the
 * same on all nodes. The writer writes a block that changed, and MAP_DONE reports which
 * version is durable. A change that a node requested is durable when every
 * block that it changed is durable at the version that the block had then.
 *
 * Must never: change the map outside the total order; call a change durable that is not
 * on all members in sync; have two writes of one block out.
 */
#include "sm_int.h"

/* ---- asking for a change ---------------------------------------------------- */

void ddr_sm_accept(struct ddr_sm *sm, const struct ddr_input *in)
{
	struct ddr_sm_mapreq *q = &sm->own.mq;
	struct ddr_output *out;

	if (in->count == 0 || in->start >= sm->shared.regions || in->count > sm->shared.regions - in->start ||
	    q->state != DDR_MQ_FREE || q->n == DDR_MAP_RUNS || !ddr_sm_running(sm) || sm->shared.sb.parity == 0) {
		out = ddr_sm_event(sm, DDR_EV_REFUSED, q->state != DDR_MQ_FREE ?
				   "the region map is being changed; try again" :
				   "no such regions, or the array is not running");
		out->a = q->state != DDR_MQ_FREE ? EAGAIN : EINVAL;
		return;
	}
	q->run[q->n++] = (struct ddr_msg_map_run){ (uint32_t)in->start, (uint32_t)in->count, DDR_MAP_OP_ACCEPT };
}

static void request_send(struct ddr_sm *sm)
{
	struct ddr_sm_mapreq *q = &sm->own.mq;
	struct ddr_msg msg = { .type = DDR_M_MAP_SET };

	if (q->state == DDR_MQ_FREE && q->n) {
		q->state = DDR_MQ_SEND;
		sm->own.map_id = sm->own.map_id < UINT32_MAX ? sm->own.map_id + 1 : 1;	/* 0 is used by a new writer */
		q->id = sm->own.map_id;
	}
	if (q->state != DDR_MQ_SEND || !ddr_sm_may_send(sm))
		return;
	msg.map_set.id = q->id;
	msg.map_set.n = q->n;
	memcpy(msg.map_set.run, q->run, q->n * sizeof(q->run[0]));
	ddr_sm_send(sm, &msg);
	q->state = DDR_MQ_SENT;
}

static void request_wait_for(struct ddr_sm *sm, uint64_t block)
{
	struct ddr_sm_mapreq *q = &sm->own.mq;

	for (uint32_t i = 0; i < q->n_wait; i++)
		if (q->wait[i].block == block)
			return;
	q->wait[q->n_wait].block = (uint32_t)block;
	q->wait[q->n_wait++].version = sm->shared.version[block].mem;
}

static void request_check(struct ddr_sm *sm)
{
	struct ddr_sm_mapreq *q = &sm->own.mq;

	if (q->state != DDR_MQ_WAIT)
		return;
	for (uint32_t i = 0; i < q->n_wait; i++)
		if (sm->shared.version[q->wait[i].block].dur < q->wait[i].version)
			return;
	memset(q, 0, sizeof(*q));
	ddr_sm_batch_mapped(sm);
	ddr_sm_works_mapped(sm);
	ddr_sm_rebuild_mapped(sm);
	sm->again = true;
}

/* ---- the total order -------------------------------------------------------- */

static void run_apply(struct ddr_sm *sm, struct ddr_sm_shared *s, const struct ddr_msg_map_run *run)
{
	for (uint64_t r = run->start; r < (uint64_t)run->start + run->count; r++) {
		struct ddr_output *out;
		bool suspect;

		if (!ddr_order_map_region(s, r, run->op, &suspect))
			continue;
		ddr_sm_bits_changed(sm, r);
		if (suspect && sm->o->n < DDR_SM_HANDLER_OUT - 1) {
			out = ddr_sm_event(sm, DDR_EV_SUSPECT, run->op == DDR_MAP_OP_DOUBT ? "a member was rebuilt there from chunks that do not match" : NULL);
			out->start = r;
			out->count = 1;
			out->a = sm->shared.n_suspect;
		}
	}
	sm->kernel.status = true;
}

void ddr_sm_map_set(struct ddr_sm *sm, struct ddr_sm_shared *s, const struct ddr_msg *msg)
{
	bool ours = msg->sender == sm->node && sm->own.mq.state == DDR_MQ_SENT && msg->map_set.id == sm->own.mq.id;

	for (uint32_t i = 0; i < msg->map_set.n; i++)
		run_apply(sm, s, &msg->map_set.run[i]);
	if (msg->sender == sm->node && !msg->map_set.id)
		sm->own.c.merge_sent = false;
	if (!ours)
		return;
	sm->own.mq.state = DDR_MQ_WAIT;
	for (uint32_t i = 0; i < sm->own.mq.n; i++) {
		const struct ddr_msg_map_run *r = &sm->own.mq.run[i];

		for (uint64_t b = r->start / DDR_MAP_REGIONS; b <= (r->start + r->count - 1) / DDR_MAP_REGIONS; b++)
			request_wait_for(sm, b);
	}
}

void ddr_sm_map_told(struct ddr_sm *sm, const struct ddr_msg *msg)
{
	for (uint32_t i = 0; i < msg->map_done.n; i++) {
		const struct ddr_msg_map_done *d = &msg->map_done.block[i];

		if (d->version > sm->own.mapb[d->block].fly)
			sm->own.mapb[d->block].fly = d->version;	/* another node wrote it */
	}
}

/* ---- a new writer ----------------------------------------------------------- */

/*
 * What the disks record of a region and the group does not, as an operation; 0: nothing. The dead writer may have written a change
 * that was delivered to it alone, and have cleared marks because of it. Conversely, what the group knows and the disks do not is in
 * flight, and marked. Only SUSPECT ends CLEAN, so the side that has CLEAN, without SUSPECT, knows more. A region that is both is not resynced: DOUBT keeps it so.
 */
static uint32_t lacking(uint8_t group, uint8_t disk)
{
	uint8_t state = group & DDR_REGION_STATE_MASK, there = disk & DDR_REGION_STATE_MASK;
	uint8_t flags = disk & (uint8_t)~group & (DDR_REGION_F_SUSPECT | DDR_REGION_F_WRITTEN);

	if (flags & DDR_REGION_F_SUSPECT)
		return there == DDR_REGION_CLEAN ? DDR_MAP_OP_DOUBT : DDR_MAP_OP_SUSPECT;
	if (there == DDR_REGION_CLEAN && state != DDR_REGION_CLEAN && !(group & DDR_REGION_F_SUSPECT))
		return DDR_MAP_OP_CLEAN;
	if (flags & DDR_REGION_F_WRITTEN)
		return DDR_MAP_OP_DEGRADED;
	return there != DDR_REGION_UNWRITTEN && state == DDR_REGION_UNWRITTEN ? DDR_MAP_OP_WRITTEN : 0;
}

/* The next message with what the group lacks. Regions that need two operations are found again after the first was delivered. */
static uint32_t merge_runs(const struct ddr_sm *sm, struct ddr_msg_map_run *run, uint64_t *at)
{
	uint32_t n = 0;

	for (uint64_t r = *at; r < sm->shared.regions; r++) {
		uint32_t op = lacking(ddr_sm_nibble(sm, r), ddr_map_get(sm->own.c.disk_map, (uint32_t)r));

		if (!op)
			continue;
		if (n && run[n - 1].op == op && run[n - 1].start + run[n - 1].count == r && run[n - 1].count < DDR_MAP_REGIONS) {
			run[n - 1].count++;
			continue;
		}
		if (n == DDR_MAP_RUNS)
			break;
		if (!n)
			*at = r;
		run[n++] = (struct ddr_msg_map_run){ (uint32_t)r, 1, op };
	}
	return n;
}

/* An unreadable copy may be newer than the others, if the last writer died during a write. */
static void sequences_go_on(struct ddr_sm *sm)
{
	uint64_t top = (sm->shared.sb.seq << DDR_SM_SEQ_SHIFT) + ((uint64_t)(sm->own.c.epoch & 0x3fffff) << 8);

	for (struct ddr_sm_map *b = sm->own.mapb; b < sm->own.mapb + sm->shared.n_map; b++)
		b->seq = ddr_sm_seq_behind(b->seq + 2, top);
}

void ddr_sm_map_merge(struct ddr_sm *sm)
{
	struct ddr_msg msg = { .type = DDR_M_MAP_SET };		/* id 0: no node waits for it to be durable */

	if (sm->own.c.merge_sent || !ddr_sm_may_send(sm))
		return;
	msg.map_set.n = merge_runs(sm, msg.map_set.run, &sm->own.c.merge_at);
	if (msg.map_set.n) {
		ddr_sm_send(sm, &msg);
		sm->own.c.merge_sent = true;
		return;
	}
	sequences_go_on(sm);
	sm->own.c.merging = false;
	sm->own.c.writer_ready = true;
	sm->again = true;
}

/* ---- the writer ------------------------------------------------------------- */

static void map_complete(struct ddr_sm *sm, struct ddr_sm_map *b, enum ddr_write_event event)
{
	ddr_map_on(sm, b, event);
	b->tell = true;
	sm->again = true;
	if (!b->no_space)
		return;
	b->no_space = false;
	for (uint32_t i = 0; i < sm->shared.n_map; i++)
		if (sm->own.mapb[i].no_space)
			return;
	ddr_sm_space_done(sm, DDR_SPACE_MAP);
}

/* As log_again(): no version becomes durable by this write, and the place stays the same. */
static void map_again(struct ddr_sm *sm, struct ddr_sm_map *b, uint32_t members)
{
	ddr_map_on(sm, b, DDR_WE_NO_SPACE);
	b->no_space = true;
	b->fly = ddr_sm_version(sm, b)->dur;
	b->seq++;
	ddr_sm_space_none(sm, DDR_SPACE_MAP, members);
}

void ddr_sm_map_done(struct ddr_sm *sm, const struct ddr_input *in)
{
	uint32_t i = ddr_sm_io_index(in->io);
	struct ddr_sm_map *b = i < sm->shared.n_map ? &sm->own.mapb[i] : NULL;
	uint32_t full;

	if (!b || b->state != DDR_W_FLYING || b->io != in->io) {
		ddr_sm_bug(sm, "a write of the region map ended that was never started");
		return;
	}
	full = in->failed_members & in->no_space & ddr_sm_written(sm);
	b->failed = in->failed_members & ddr_sm_written(sm) & ~full;
	ddr_sm_count_writes(sm, b->failed);
	if (b->failed)
		ddr_sm_report(sm, b->failed, true);
	if (full)
		map_again(sm, b, full);
	else if (b->failed)
		ddr_map_on(sm, b, DDR_WE_MEMBER_FAILED);
	else
		map_complete(sm, b, DDR_WE_DONE);
}

static void map_write(struct ddr_sm *sm, struct ddr_sm_map *b)
{
	struct ddr_output *out = ddr_sm_out(sm, DDR_OUT_MAP_WRITE);

	ddr_map_on(sm, b, DDR_WE_BEGUN);
	b->fly = ddr_sm_version(sm, b)->mem;
	b->seq++;
	b->io = ddr_sm_io(sm, (uint32_t)(b - sm->own.mapb));
	out->io = b->io;
	out->index = (uint32_t)(b - sm->own.mapb);
	out->members = ddr_sm_written(sm);
	sm->own.map_writes++;
}

static void tell(struct ddr_sm *sm)
{
	struct ddr_msg msg = { .type = DDR_M_MAP_DONE };

	if (!ddr_sm_may_send(sm))
		return;
	for (uint32_t i = 0; i < sm->shared.n_map && msg.map_done.n < DDR_MAP_DONES; i++) {
		struct ddr_sm_map *b = &sm->own.mapb[i];

		if (!b->tell)
			continue;
		msg.map_done.block[msg.map_done.n++] = (struct ddr_msg_map_done){ i, b->fly };
		b->tell = false;
	}
	if (msg.map_done.n)
		ddr_sm_send(sm, &msg);
}

void ddr_sm_map_pump(struct ddr_sm *sm)
{
	if (!ddr_sm_running(sm) || sm->shared.sb.parity == 0)
		return;
	for (struct ddr_sm_map *b = sm->own.mapb; b < sm->own.mapb + sm->shared.n_map; b++) {
		if (b->state == DDR_W_HELD && ddr_sm_agreed_out(sm, b->failed))
			map_complete(sm, b, DDR_WE_OUT);
		if (ddr_sm_writes(sm) && b->state == DDR_W_IDLE && !b->tell && ddr_sm_version(sm, b)->mem > ddr_sm_version(sm, b)->dur &&
		    ddr_sm_version(sm, b)->mem > b->fly && !(b->no_space && ddr_sm_space_waits(sm, DDR_SPACE_MAP)) && ddr_sm_room(sm, 1))
			map_write(sm, b);
	}
	tell(sm);
	request_send(sm);
	request_check(sm);
}

/* A MAP_DONE that was not delivered in the old ring is sent again. */
void ddr_sm_map_view(struct ddr_sm *sm)
{
	for (struct ddr_sm_map *b = sm->own.mapb; b < sm->own.mapb + sm->shared.n_map; b++)
		b->tell |= b->state == DDR_W_IDLE && b->fly > ddr_sm_version(sm, b)->dur;
	if (sm->own.mq.state == DDR_MQ_SENT)
		sm->own.mq.state = DDR_MQ_SEND;
}
