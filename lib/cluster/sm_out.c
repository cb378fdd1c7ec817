// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The outputs of a step: outputs, events, records to our kernel, messages to the group; and the ends of this instance.
 *
 * Must never: emit more than the outputs of a step can hold without reporting it (sm->bug).
 */
#include "sm_int.h"

bool ddr_sm_room(struct ddr_sm *sm, uint32_t n)
{
	if (sm->o->n + n <= DDR_SM_MAX_OUT)
		return true;
	sm->full = true;
	return false;
}

struct ddr_output *ddr_sm_out(struct ddr_sm *sm, enum ddr_out_type type)
{
	struct ddr_output *out;

	if (sm->o->n == DDR_SM_MAX_OUT) {
		sm->bug = true;
		sm->o->n--;
	}
	out = &sm->o->out[sm->o->n++];
	memset(out, 0, offsetof(struct ddr_output, msg));
	out->type = type;
	out->member = out->from = DDR_NO_MEMBER;
	return out;
}

struct ddr_output *ddr_sm_event(struct ddr_sm *sm, enum ddr_event event, const char *text)
{
	struct ddr_output *out = ddr_sm_out(sm, DDR_OUT_EVENT);

	out->event = event;
	out->text = text;
	return out;
}

void ddr_sm_bug(struct ddr_sm *sm, const char *text)
{
	ddr_sm_event(sm, DDR_EV_BUG, text);
}

uint64_t ddr_sm_io(struct ddr_sm *sm, uint32_t index)
{
	return ++sm->io_serial << 16 | index;
}

void ddr_sm_give_up(struct ddr_sm *sm, const char *text)
{
	struct ddr_output *out;

	if (sm->own.gave_up)
		return;
	sm->own.gave_up = true;
	out = ddr_sm_out(sm, DDR_OUT_GIVE_UP);
	out->event = DDR_EV_FAILED;
	out->text = text;
}

void ddr_sm_evict(struct ddr_sm *sm, const char *text)
{
	struct ddr_output *out;

	if (sm->own.gave_up)
		return;
	sm->own.gave_up = true;
	out = ddr_sm_out(sm, DDR_OUT_GIVE_UP);
	out->event = DDR_EV_EVICTED;
	out->text = text;
}

void ddr_sm_anew(struct ddr_sm *sm, const char *text)
{
	sm->own.anew = true;
	ddr_sm_out(sm, DDR_OUT_ANEW)->text = text;
}

void ddr_sm_array_failed(struct ddr_sm *sm, const char *text)
{
	sm->kernel.status = true;
	ddr_sm_event(sm, DDR_EV_FAILED, text);
}

/* ---- records to our kernel -------------------------------------------------- */

uint64_t ddr_sm_kseq(struct ddr_sm *sm)
{
	return ++sm->kernel.seq;
}

struct ddr_rec *ddr_sm_rec(struct ddr_sm *sm, uint32_t type, uint64_t seq, uint64_t start, uint64_t count)
{
	struct ddr_rec *rec = &ddr_sm_out(sm, DDR_OUT_KERNEL)->rec;

	rec->type = type;
	rec->seq = seq;
	rec->start = start;
	rec->count = count;
	rec->member = DDR_NO_MEMBER;
	return rec;
}

/* ---- messages --------------------------------------------------------------- */

void ddr_sm_send(struct ddr_sm *sm, struct ddr_msg *msg)
{
	struct ddr_output *out = ddr_sm_out(sm, DDR_OUT_MCAST);

	msg->sender = sm->node;
	msg->version = sm->own.version;
	msg->ring = sm->own.ring;
	msg->epoch = sm->own.c.epoch;
	msg->serial = ++sm->msg_serial;
	memcpy(msg->uuid, sm->shared.sb.array_uuid, sizeof(msg->uuid));
	out->msg_len = (uint32_t)ddr_msg_encode(msg, out->msg, sizeof(out->msg));
	if (!out->msg_len)
		sm->bug = true;
	sm->own.mcasts++;
	sm->again = true;
}

bool ddr_sm_may_send(struct ddr_sm *sm)
{
	return ddr_sm_talks(sm) && ddr_sm_room(sm, 1);
}
