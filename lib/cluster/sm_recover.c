// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The slots of dead nodes: taken over by one survivor, region by region.
 *
 * Once every lost node is proven dead, the lowest node that takes part claims a slot
 * (RECOVER), reads its log again, and marks each dirty region in its own slot as one to be
 * resynced. When these marks are durable, it clears the dead slot and reports that
 * (RECOVERED). From then on they are its own dirty regions. Whichever node dies meanwhile,
 * each region is dirty in one slot or the other, so the recovery can start again (rule 12).
 *
 * Must never: read a slot whose owner may still write it (rule 6); clear it before its marks
 * are durable elsewhere; treat an unreadable block as clean (rule 11).
 */
#include "sm_int.h"

#define RETRY_MS	1000u

/* ---- messages --------------------------------------------------------------- */

void ddr_sm_recover_told(struct ddr_sm *sm, const struct ddr_msg *msg, enum ddr_recover_answer answer)
{
	struct ddr_sm_cluster *c = &sm->own.c;
	uint32_t slot = msg->recover.slot;
	bool ours = msg->sender == sm->node;
	struct ddr_output *out;

	if (answer == DDR_RECOVER_WRONG) {
		ddr_sm_bug(sm, "a slot was recovered for which no recovery is due");
		return;
	}
	if (ours)
		c->rc_sent = false;
	if (answer == DDR_RECOVER_DONE) {
		if (ours)
			c->rc = DDR_RC_IDLE;
		out = ddr_sm_event(sm, DDR_EV_NODE_RECOVERED, NULL);
		out->a = slot;
		out->b = sm->shared.sb.slot_node[slot];
		sm->own.rb.fold_at = 0;
		sm->again = true;
	} else if (answer == DDR_RECOVER_TAKEN && ours) {
		c->rc = DDR_RC_READ;
		c->rc_slot = slot;
		c->rc_io = 0;
		c->rc_cookie = c->rc_seq = 0;
	}
}

void ddr_sm_recover_resend(struct ddr_sm *sm)
{
	sm->own.c.rc_sent = false;
}

static void say(struct ddr_sm *sm, enum ddr_msg_type type, uint32_t slot)
{
	struct ddr_msg msg = { .type = type };

	msg.recover.slot = slot;
	msg.recover.time = sm->wall;
	if (type == DDR_M_RECOVERED && sm->own.c.rc_cookie) {
		msg.recover.cookie = sm->own.c.rc_cookie;
		memcpy(msg.recover.boot_id, sm->own.c.rc_boot_id, sizeof(msg.recover.boot_id));
	}
	sm->own.c.rc_sent = true;
	ddr_sm_send(sm, &msg);
}

/* ---- reading ---------------------------------------------------------------- */

static uint64_t read_slot(struct ddr_sm *sm, uint32_t slot)
{
	struct ddr_output *out = ddr_sm_out(sm, DDR_OUT_SLOT_READ);

	out->io = ddr_sm_io(sm, 0);
	out->slot = slot;
	out->since = sm->shared.owners.slot[slot].log_seq;
	out->members = ddr_sm_in_sync(sm) & sm->own.present;
	return out->io;
}

/* A block of the dead slot. */
void ddr_sm_slot_load(struct ddr_sm *sm, uint32_t index, const uint8_t *payload, uint64_t seq)
{
	struct ddr_sm_log *b = &sm->own.c.rc_log[index];

	b->loaded = payload != NULL;
	b->seq = seq;
	b->dirty = false;
	for (uint64_t r = (uint64_t)index * DDR_LOG_REGIONS; r < sm->shared.regions && r / DDR_LOG_REGIONS == index; r++) {
		ddr_bit_clear(sm->own.c.rc_map, r);
		ddr_bit_clear(sm->own.c.rc_rep, r);
		if (payload && !ddr_log_get(payload, (uint32_t)(r % DDR_LOG_REGIONS)))
			continue;
		ddr_bit_set(sm->own.c.rc_map, r);
		b->dirty = true;
	}
}

void ddr_sm_slot_instance(struct ddr_sm *sm, uint64_t seq, const uint8_t boot_id[16], uint64_t cookie)
{
	if (sm->own.c.rc_cookie && seq < sm->own.c.rc_seq)
		return;
	sm->own.c.rc_cookie = cookie;
	sm->own.c.rc_seq = seq;
	memcpy(sm->own.c.rc_boot_id, boot_id, sizeof(sm->own.c.rc_boot_id));
}

static void marks_take(struct ddr_sm *sm)
{
	struct ddr_output *out;

	sm->own.c.rc_regions = 0;
	for (uint64_t r = 0; r < sm->shared.regions && sm->shared.sb.parity; r++)
		if (ddr_bit(sm->own.c.rc_map, r) && ddr_bit(sm->own.c.rc_rep, r)) {
			ddr_sm_look(sm, r);
		} else if (ddr_bit(sm->own.c.rc_map, r)) {
			sm->own.c.rc_regions++;
			ddr_sm_need_resync(sm, r);
		}
	if (sm->own.c.rc_regions) {
		out = ddr_sm_event(sm, DDR_EV_RECOVERY, NULL);
		out->a = sm->own.c.rc_regions;
		out->b = sm->shared.sb.slot_node[sm->own.c.rc_slot];
	}
	sm->own.c.rc = DDR_RC_MARK;
	sm->own.c.rc_index = 0;
	sm->own.c.rc_failed = 0;
}

void ddr_sm_slot_done(struct ddr_sm *sm, const struct ddr_input *in)
{
	struct ddr_sm_cluster *c = &sm->own.c;

	if (c->read_io && in->io == c->read_io) {
		c->read_io = 0;
		c->read_at = sm->now + RETRY_MS;
		if (in->result == 0 && sm->own.start == DDR_S_READ) {
			sm->own.start = DDR_S_DONE;
			ddr_sm_plan(sm);
		}
	} else if (c->rc_io && in->io == c->rc_io && c->rc == DDR_RC_READ) {
		c->rc_io = 0;
		if (in->result == 0)
			marks_take(sm);
		else
			c->rc_at = sm->now + RETRY_MS;
	} else {
		ddr_sm_bug(sm, "a read of the dirty log or the region map ended that was never started");
	}
	sm->again = true;
}

void ddr_sm_read_pump(struct ddr_sm *sm)
{
	if (sm->own.start == DDR_S_READ && !sm->own.c.read_io && ddr_sm_active(sm) && ddr_sm_time(sm, sm->own.c.read_at) && ddr_sm_room(sm, 1))
		sm->own.c.read_io = read_slot(sm, sm->own.slot);
}

/* ---- clearing --------------------------------------------------------------- */

/*
 * Are the marks durable in our own slot? A mark that was durable once need not be checked again. A mark that existed for a grant
 * counts when its block names no kernel any more: until then our next daemon would treat it as a mere grant. If a mark
 * is gone, the region was resynced meanwhile.
 */
static bool marks_durable(struct ddr_sm *sm)
{
	uint64_t open = 0, grants;

	for (uint64_t w = 0; w < sm->own.words && sm->shared.sb.parity; w++) {
		grants = sm->own.log[w / DDR_WORDS_LOG].dur_ours ? sm->own.resync[w] & sm->own.granted[w] : 0;
		sm->own.c.rc_map[w] &= sm->own.mark[w] & ~(sm->own.dur[w] & ~grants & (sm->own.rep[w] | ~sm->own.rep_fly[w]));
		open |= sm->own.c.rc_map[w];
	}
	return !open;
}

void ddr_sm_slot_block(const struct ddr_sm *sm, uint32_t index, struct ddr_disk_log *blk)
{
	struct ddr_log_info info = { .slot = (uint16_t)sm->own.c.rc_slot, .index = index, .generation = sm->shared.sb.generation };

	memset(blk, 0, sizeof(*blk));
	info.seq = sm->own.c.rc_log[index].seq;
	info.node = sm->shared.sb.slot_node[sm->own.c.rc_slot];
	memcpy(info.array_uuid, sm->shared.sb.array_uuid, sizeof(info.array_uuid));
	ddr_log_encode(blk, &info);
}

/*
 * A sequence above all copies that may become readable later: the owner's next START raises the superblock's sequence again. An
 * earlier, unfinished recovery may have written as well, in an earlier epoch.
 */
static uint64_t seq_next(const struct ddr_sm *sm, const struct ddr_sm_log *b)
{
	uint64_t epoch = sm->own.c.epoch & 0x3fffff;
	uint64_t top = (sm->shared.sb.seq << DDR_SM_SEQ_SHIFT) + (1ull << (DDR_SM_SEQ_SHIFT - 1)) + (epoch << 8);

	return b->loaded ? ddr_sm_seq_behind(b->seq + 1, top) : top;
}

static void clear_next(struct ddr_sm *sm)
{
	struct ddr_sm_cluster *c = &sm->own.c;
	struct ddr_output *out;

	while (c->rc_index < sm->own.n_log && !c->rc_log[c->rc_index].dirty)
		c->rc_index++;
	if (c->rc_index == sm->own.n_log) {
		c->rc = DDR_RC_DONE;
		sm->again = true;
		return;
	}
	c->rc_log[c->rc_index].seq = seq_next(sm, &c->rc_log[c->rc_index]);
	c->rc_io = ddr_sm_io(sm, c->rc_index);
	out = ddr_sm_out(sm, DDR_OUT_SLOT_WRITE);
	out->io = c->rc_io;
	out->slot = c->rc_slot;
	out->index = c->rc_index;
	out->members = ddr_sm_written(sm);
	sm->own.log_writes++;
}

bool ddr_sm_slot_written(struct ddr_sm *sm, const struct ddr_input *in)
{
	struct ddr_sm_cluster *c = &sm->own.c;
	uint32_t full;

	if (!c->rc_io || in->io != c->rc_io || c->rc != DDR_RC_WRITE)
		return false;
	c->rc_io = 0;
	full = in->failed_members & in->no_space & ddr_sm_written(sm);
	c->rc_failed = in->failed_members & ddr_sm_written(sm) & ~full;
	ddr_sm_count_writes(sm, c->rc_failed);
	if (c->rc_failed)
		ddr_sm_report(sm, c->rc_failed, true);
	sm->again = true;
	if (full) {	/* the same block again, at the same place and with a higher sequence, as in log_again() */
		c->rc_log[c->rc_index].seq++;
		c->rc_log[c->rc_index].loaded = true;
		ddr_sm_space_none(sm, DDR_SPACE_SLOT, full);
		return true;
	}
	ddr_sm_space_done(sm, DDR_SPACE_SLOT);
	c->rc_log[c->rc_index++].dirty = false;
	return true;
}

static void write_serve(struct ddr_sm *sm)
{
	if (sm->own.c.rc_io || (sm->own.c.rc_failed && !ddr_sm_agreed_out(sm, sm->own.c.rc_failed)))
		return;
	sm->own.c.rc_failed = 0;
	if (!ddr_sm_space_waits(sm, DDR_SPACE_SLOT) && ddr_sm_room(sm, 1))
		clear_next(sm);
}

/* ---- the pump --------------------------------------------------------------- */

static bool lowest(const struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++)
		if (sm->shared.nodes[i].started && !sm->shared.nodes[i].leaving && sm->shared.nodes[i].id < sm->node)
			return false;
	return true;
}

static void claim(struct ddr_sm *sm)
{
	for (uint32_t s = 0; s < sm->shared.sb.slots && !sm->own.c.rc_sent && !sm->own.c.leave_wanted; s++)
		if ((sm->shared.rec >> s & 1) && !sm->shared.rec_by[s] && lowest(sm))
			say(sm, DDR_M_RECOVER, s);
}

void ddr_sm_recover_pump(struct ddr_sm *sm)
{
	struct ddr_sm_cluster *c = &sm->own.c;

	if (c->rc == DDR_RC_MARK && marks_durable(sm))
		c->rc = DDR_RC_WRITE;
	/* the conditions of rule 6: a quorate view, agreed by all, and every lost node is proven dead */
	if (!ddr_sm_running(sm) || !ddr_sm_may_send(sm) || ddr_sm_any_lost(sm))
		return;
	switch (c->rc) {
	case DDR_RC_IDLE:
		if (sm->shared.rec)
			claim(sm);
		return;
	case DDR_RC_READ:
		if (!c->rc_io && ddr_sm_time(sm, c->rc_at))
			c->rc_io = read_slot(sm, c->rc_slot);
		return;
	case DDR_RC_MARK:
		return;
	case DDR_RC_WRITE:
		write_serve(sm);
		return;
	case DDR_RC_DONE:
		if (!c->rc_sent)
			say(sm, DDR_M_RECOVERED, c->rc_slot);
		return;
	}
}
