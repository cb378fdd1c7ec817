// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The state machine: its memory, what is loaded from disk, the step, and its status.
 *
 * Must never: allocate, read a clock, log, or do I/O (see sm.h); a step must end, and
 * must not emit more than its outputs hold.
 */
#include "sm_int.h"

#define ALIGNMENT	64u

/* ---- memory -------------------------------------------------------------------- */

/* Walks through the parts of an instance: with base NULL it only counts. */
struct layout {
	uint8_t *base;
	size_t used;
};

static void *part(struct layout *l, size_t bytes)
{
	void *p = l->base ? l->base + l->used : NULL;

	l->used += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	return p;
}

static void lay_out(struct layout *l, struct ddr_sm *sm, uint32_t n_log, uint32_t n_map)
{
	size_t bytes = (size_t)n_log * DDR_WORDS_LOG * sizeof(uint64_t);
	uint64_t **maps[] = { &sm->own.mark, &sm->own.fly, &sm->own.dur, &sm->own.want, &sm->own.granted, &sm->kernel.held, &sm->own.resync,
			      &sm->own.work, &sm->own.clr, &sm->own.rep, &sm->own.rep_fly, &sm->own.look, &sm->own.skip, &sm->own.rb.unfit, &sm->kernel.kclean, &sm->kernel.ksusp,
			      &sm->kernel.bchg };

	for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++)
		*maps[i] = part(l, bytes);
	sm->in_order.map = part(l, (size_t)n_map * DDR_LOG_PAYLOAD);
	sm->own.log = part(l, n_log * sizeof(*sm->own.log));
	sm->own.mapb = part(l, n_map * sizeof(*sm->own.mapb));
	sm->in_order.version = part(l, n_map * sizeof(*sm->shared.version));
	sm->own.rb.map_want = part(l, n_map * sizeof(*sm->own.rb.map_want));
	sm->kernel.err = part(l, DDR_SM_ERRORS * sizeof(*sm->kernel.err));
	sm->own.c.buf = part(l, ddr_sm_state_size(n_map));
	sm->own.c.disk_map = part(l, (size_t)n_map * DDR_LOG_PAYLOAD);
	sm->own.c.rc_map = part(l, bytes);
	sm->own.c.rc_rep = part(l, bytes);
	sm->own.c.rc_log = part(l, n_log * sizeof(*sm->own.log));
}

/* Numbers of log and map blocks; false: the configuration is out of limits. */
static bool limits(const struct ddr_sm_config *cfg, uint32_t *n_log, uint32_t *n_map)
{
	const struct ddr_super *sb = cfg->super;
	uint64_t regions;

	if (!sb || cfg->node == 0 || ddr_super_check(sb).code != DDR_FE_OK)
		return false;
	if (cfg->present >> sb->members)
		return false;
	regions = ddr_super_regions(sb);
	if (regions == 0 || regions > DDR_MAX_REGIONS)
		return false;
	/* all blocks: the array may grow into them */
	*n_log = sb->log_blocks;
	*n_map = sb->map_blocks;
	return true;
}

size_t ddr_sm_size(const struct ddr_sm_config *cfg)
{
	struct layout l = { NULL, 0 };
	struct ddr_sm sm;
	uint32_t n_log, n_map;

	if (!limits(cfg, &n_log, &n_map))
		return 0;
	part(&l, sizeof(struct ddr_sm));
	lay_out(&l, &sm, n_log, n_map);
	return l.used;
}

struct ddr_sm *ddr_sm_init(void *mem, size_t size, const struct ddr_sm_config *cfg)
{
	struct layout l = { mem, 0 };
	struct ddr_sm_shared *s;
	struct ddr_sm *sm;
	uint32_t n_log, n_map;

	if (!limits(cfg, &n_log, &n_map) || size < ddr_sm_size(cfg))
		return NULL;
	memset(mem, 0, size);
	sm = part(&l, sizeof(*sm));
	s = &sm->in_order;
	lay_out(&l, sm, n_log, n_map);
	sm->own.n_log = n_log;
	s->n_map = n_map;
	sm->own.words = (uint64_t)n_log * DDR_WORDS_LOG;
	s->sb = *cfg->super;
	sm->own.several = cfg->several;
	sm->own.adopt = cfg->adopt;
	sm->own.vf.recorded = sm->shared.sb.verify;
	sm->node = cfg->node;
	s->cluster = cfg->cluster;
	sm->own.slot = cfg->cluster ? DDR_SM_NO_SLOT : ddr_shared_slot_choose(s, cfg->node);
	sm->own.c.synced = sm->own.c.writer_ready = !cfg->cluster;	/* the state is what we read; no other node wrote since then */
	sm->own.c.fencing = cfg->fencing;
	sm->own.c.size = ddr_sm_state_size(n_map);
	ddr_sm_members_loaded(sm, cfg);
	sm->own.behind = cfg->behind;
	memcpy(sm->own.entropy, cfg->entropy, sizeof(sm->own.entropy));
	memcpy(sm->own.machine, cfg->machine, sizeof(sm->own.machine));
	sm->own.booted_ms = cfg->booted_ms;
	sm->own.settle_ms = cfg->settle_ms;
	if (cfg->name)
		ddr_owner_name(sm->own.name, cfg->name);
	s->owned = ddr_super_has_owners(&s->sb);
	if (cfg->owners && s->owned)
		ddr_owners_take(&s->owners, cfg->owners->slot, cfg->owners->cluster, s->sb.slots);
	s->regions = ddr_super_regions(&s->sb);
	s->region_blocks = ddr_super_region_blocks(&s->sb);
	sm->own.g.room = sm->shared.sb.array_blocks;	/* the node that loaded the superblocks has checked that the devices are that large */
	sm->own.idle_ms = 5000;
	sm->own.away_ms = 30000;
	sm->own.parallel = 4;
	for (uint32_t i = 0; i < n_map; i++)
		ddr_order_version(s, i)->mem = 1;
	memset(sm->kernel.sent, 0xff, sizeof(sm->kernel.sent));
	sm->kernel.shadow = sm->kernel.shadow_asked = DDR_NO_MEMBER;
	return sm;
}

/* ---- loading ------------------------------------------------------------------- */

static uint64_t dirty_in(const struct ddr_sm *sm, uint32_t index, const uint8_t *payload)
{
	uint64_t n = 0;

	for (uint64_t r = (uint64_t)index * DDR_LOG_REGIONS; r < sm->shared.regions && r / DDR_LOG_REGIONS == index; r++)
		n += !payload || ddr_log_get(payload, (uint32_t)(r % DDR_LOG_REGIONS));
	return n;
}

/* The slot of another node, or ours with another owner's marks: this node must not recover anything in it. */
static void load_foreign(struct ddr_sm *sm, uint32_t slot, uint32_t index, const uint8_t *payload, uint32_t node)
{
	uint64_t n;

	if (!payload)
		node = sm->shared.sb.slot_node[slot];
	if (!payload && !node)
		return;
	n = dirty_in(sm, index, payload);
	if (n) {
		sm->own.foreign_regions += n;
		sm->own.foreign_node = node;
	}
}

/* Is what is loaded now the slot of a dead node, which this one takes over? */
static bool of_dead(const struct ddr_sm *sm)
{
	return sm->shared.cluster ? sm->own.start != DDR_S_READ : sm->own.c.rc == DDR_RC_READ;
}

void ddr_sm_load_log(struct ddr_sm *sm, uint32_t slot, uint32_t index, const uint8_t *payload, uint64_t seq,
		     uint32_t node, const uint8_t boot_id[16], uint64_t cookie)
{
	struct ddr_sm_log *b;

	if (slot >= sm->shared.sb.slots || index >= sm->own.n_log)
		return;
	if (of_dead(sm)) {
		ddr_sm_slot_load(sm, index, payload, seq);
		if (payload && cookie && boot_id)
			ddr_sm_slot_instance(sm, seq, boot_id, cookie);
		return;
	}
	if (slot != sm->own.slot || (payload && node && node != sm->node)) {
		if (!sm->own.adopt)
			load_foreign(sm, slot, index, payload, node);
		if (slot != sm->own.slot)
			return;
	}
	b = &sm->own.log[index];
	b->loaded = payload != NULL;
	b->seq = seq;
	b->node = payload ? node : 0;
	b->cookie = payload ? cookie : 0;
	if (payload && boot_id)
		memcpy(b->boot_id, boot_id, sizeof(b->boot_id));
	for (uint64_t r = (uint64_t)index * DDR_LOG_REGIONS; r < sm->shared.regions && r / DDR_LOG_REGIONS == index; r++) {
		ddr_bit_clear(sm->own.rep, r);
		(payload && ddr_log_get(payload, (uint32_t)(r % DDR_LOG_REGIONS)) ? ddr_bit_set : ddr_bit_clear)(sm->own.mark, r);
	}
}

void ddr_sm_load_repairs(struct ddr_sm *sm, uint32_t slot, uint32_t index, const uint16_t repair[DDR_LOG_REPAIRS])
{
	bool dead = of_dead(sm);
	uint64_t *of = dead ? sm->own.c.rc_rep : sm->own.rep, first = (uint64_t)index * DDR_LOG_REGIONS;

	if (slot >= sm->shared.sb.slots || index >= sm->own.n_log || (!dead && slot != sm->own.slot))
		return;
	for (uint32_t i = 0; i < DDR_LOG_REPAIRS && repair[i]; i++)
		if (repair[i] <= DDR_LOG_REGIONS && first + repair[i] - 1 < sm->shared.regions)
			ddr_bit_set(of, first + repair[i] - 1);
}

void ddr_sm_load_map(struct ddr_sm *sm, uint32_t index, const uint8_t *payload, uint64_t seq)
{
	size_t at = (size_t)index * DDR_LOG_PAYLOAD;

	if (index >= sm->shared.n_map)
		return;
	if (sm->shared.cluster && !sm->own.c.building) {	/* a new writer: the sequence continues, and the group gets what it lacks */
		if (seq > sm->own.mapb[index].seq)
			sm->own.mapb[index].seq = seq;
		memcpy(sm->own.c.disk_map + at, payload ? payload : sm->shared.map + at, DDR_LOG_PAYLOAD);
		sm->own.c.disk_changed |= memcmp(sm->shared.map + at, sm->own.c.disk_map + at, DDR_LOG_PAYLOAD) != 0;
		return;
	}
	sm->own.mapb[index].loaded = payload != NULL;
	sm->own.mapb[index].seq = seq;
	if (payload)
		memcpy(ddr_order_map(&sm->in_order) + at, payload, DDR_LOG_PAYLOAD);
}

/* ---- the step ------------------------------------------------------------------ */

static void tick(struct ddr_sm *sm, uint64_t now)
{
	if (sm->ticked && now < sm->now) {
		ddr_sm_bug(sm, "the clock went backwards");
		return;
	}
	if (!sm->ticked)
		sm->own.reap_at = sm->own.judged_ms = now;
	sm->ticked = true;
	sm->now = now;
}

static void op_set(struct ddr_sm *sm, uint32_t key, uint64_t value)
{
	switch (key) {
	case DDR_SM_SUSPECT_READS:
		ddr_sm_op_policy(sm, value ? DDR_POLICY_SUSPECT_READS_ERROR : 0);
		return;
	case DDR_SM_IDLE_MS:
		if (value < 100 || value > 3600000)
			break;
		sm->own.idle_ms = value;
		return;
	case DDR_SM_RESYNC_PAUSED:
		sm->own.paused = value != 0;
		if (!value && !sm->own.clean_wanted)
			sm->own.stopping = false;
		return;
	case DDR_SM_VERIFY_PAUSED:
		sm->own.vf.paced = value != 0;
		return;
	case DDR_SM_USED:
		ddr_sm_op_used(sm, value != 0);
		return;
	case DDR_SM_MAX_CORRECTED:
	case DDR_SM_SETTLE_MS:
		if (value > UINT32_MAX)
			break;
		*(key == DDR_SM_SETTLE_MS ? &sm->own.settle_ms : &sm->own.max_corrected) = (uint32_t)value;
		return;
	case DDR_SM_HOT_SPARE:
		sm->own.hot_spare = value != 0;
		return;
	case DDR_SM_AWAY_MS:
		if (value < 1000 || value > 3600000)
			break;
		sm->own.away_ms = value;
		return;
	case DDR_SM_RESYNC_PARALLEL:
		if (value < 1 || value > DDR_SM_PARALLEL)
			break;
		sm->own.parallel = (uint32_t)value;
		return;
	}
	ddr_sm_event(sm, DDR_EV_REFUSED, "no such setting, or its value is out of range")->a = EINVAL;
}

/*
 * Handlers of what the group service delivers may change the shared state, so they get a pointer to it. So does RELOADED: where no node has a
 * state, one node builds it from the disks.
 */
static void handle(struct ddr_sm *sm, const struct ddr_input *in)
{
	struct ddr_sm_shared *s = &sm->in_order;

	switch (in->type) {
	case DDR_IN_NONE: return;
	case DDR_IN_TICK: tick(sm, in->now_ms); sm->wall = in->value; return;
	case DDR_IN_VIEW: ddr_sm_view(sm, s, in); return;
	case DDR_IN_EXCLUDED: ddr_sm_exclusion(sm, in->node); return;
	case DDR_IN_MSG: ddr_sm_message(sm, s, in); return;
	case DDR_IN_FENCED: ddr_sm_fence_answer(sm, in); return;
	case DDR_IN_K_ATTACHED: ddr_sm_attached(sm, in); return;
	case DDR_IN_K_DETACHED: ddr_sm_detached(sm); return;
	case DDR_IN_K_REC: ddr_sm_record(sm, &in->rec); return;
	case DDR_IN_LOG_DONE:
		if (!ddr_sm_slot_written(sm, in))	/* of a dead node's slot, or of ours */
			ddr_sm_log_done(sm, in);
		return;
	case DDR_IN_MAP_DONE: ddr_sm_map_done(sm, in); return;
	case DDR_IN_SB_DONE: ddr_sm_sb_done(sm, in); return;
	case DDR_IN_FLUSH_DONE: ddr_sm_flush_done(sm, in); return;
	case DDR_IN_JOB_DONE: ddr_sm_job_done(sm, in); return;
	case DDR_IN_EXCHANGED: ddr_sm_exchanged(sm, in->member); return;
	case DDR_IN_OP_FAIL_MEMBER: ddr_sm_op_fail(sm, in->member); return;
	case DDR_IN_OP_CLEAN: sm->own.stopping = sm->own.clean_wanted = true; return;
	case DDR_IN_OP_STAY: sm->own.stopping = sm->own.clean_wanted = false; return;
	case DDR_IN_OP_SET: op_set(sm, in->key, in->value); return;
	case DDR_IN_OP_ACCEPT: ddr_sm_accept(sm, in); return;
	case DDR_IN_QUORUM: ddr_sm_quorum(sm, in); return;
	case DDR_IN_RELOADED: ddr_sm_reloaded(sm, s, in); return;
	case DDR_IN_SLOT_DONE: ddr_sm_slot_done(sm, in); return;
	case DDR_IN_OP_LEAVE: ddr_sm_op_leave(sm); return;
	case DDR_IN_TABLE_DONE: ddr_sm_table_done(sm, in); return;
	case DDR_IN_PRESENT: ddr_sm_present(sm, in); return;
	case DDR_IN_OP_SEEK: ddr_sm_op_seek(sm, in->member); return;
	case DDR_IN_OP_ADD: ddr_sm_op_member(sm, DDR_MEMBER_OP_ADD, in); return;
	case DDR_IN_OP_WITHDRAW: ddr_sm_op_withdraw(sm, in->uuid); return;
	case DDR_IN_OP_REMOVE: ddr_sm_op_member(sm, DDR_MEMBER_OP_REMOVE, in); return;
	case DDR_IN_OP_GROW: ddr_sm_op_grow(sm, in->count); return;
	case DDR_IN_ROOM: ddr_sm_room_known(sm, in); return;
	case DDR_IN_PREPARED: ddr_sm_grow_prepared(sm, in); return;
	case DDR_IN_OP_REPLACE: ddr_sm_op_replace(sm, in); return;
	case DDR_IN_OP_VERIFY: ddr_sm_op_verify(sm, in); return;
	case DDR_IN_OP_FENCE_ACK: ddr_sm_fence_ack(sm, in->node); return;
	}
	ddr_sm_bug(sm, "the state machine got an input of an unknown type");
}

/*
 * The only two pumps that change the shared state. They settle what all nodes have acknowledged. That follows from delivered messages alone, and
 * every node settles it before the next message at the latest; here this node only acts on it earlier.
 */
static void settle_state(struct ddr_sm *sm)
{
	if (ddr_sm_state_due(sm))
		ddr_sm_settle(sm, &sm->in_order);
}

static void settle_members(struct ddr_sm *sm)
{
	if (ddr_sm_member_due(sm) && ddr_sm_room(sm, DDR_SM_HANDLER_OUT))
		ddr_sm_member_settle(sm, &sm->in_order);
}

/* The order matters: what a later pump tells the kernel may depend on what an earlier one told it. */
static void (*const pumps[])(struct ddr_sm *) = {
	settle_state, ddr_sm_cluster_pump, ddr_sm_start_pump, ddr_sm_read_pump, ddr_sm_renew_pump, ddr_sm_kernel_pump, ddr_sm_member_pump, settle_members, ddr_sm_error_pump, ddr_sm_ex_pump, ddr_sm_bits_pump,
	ddr_sm_enable_pump, ddr_sm_log_pump, ddr_sm_grant_pump, ddr_sm_flush_pump, ddr_sm_batch_pump,
	ddr_sm_resync_pump, ddr_sm_fix_pump, ddr_sm_verify_pump, ddr_sm_owner_pump, ddr_sm_seek_pump, ddr_sm_rebuild_pump, ddr_sm_grow_pump, ddr_sm_use_pump, ddr_sm_space_pump, ddr_sm_map_pump, ddr_sm_reap_pump, ddr_sm_clean_pump,
};

void ddr_sm_step(struct ddr_sm *sm, const struct ddr_input *in, struct ddr_outputs *out)
{
	out->n = 0;
	out->more = false;
	out->lost = false;
	out->due_ms = sm->due = UINT64_MAX;
	if (sm->own.gave_up)
		return;
	sm->o = out;
	handle(sm, in);
	sm->full = false;
	do {
		sm->again = false;
		for (size_t i = 0; i < sizeof(pumps) / sizeof(pumps[0]) && !sm->full && !sm->own.gave_up; i++)
			pumps[i](sm);
	} while (sm->again && !sm->full && !sm->own.gave_up);
	ddr_sm_debts_look(sm);
	out->more = sm->full && !sm->own.gave_up;
	out->lost = sm->bug;
	sm->due = out->due_ms;
	sm->o = NULL;
}

uint64_t ddr_sm_due(const struct ddr_sm *sm)
{
	return sm->ticked || sm->own.gave_up ? sm->due : 0;
}

/* ---- what was written ---------------------------------------------------------- */

static void block_info(const struct ddr_sm *sm, struct ddr_log_info *info, uint16_t slot, uint32_t index, uint64_t seq)
{
	memset(info, 0, sizeof(*info));
	info->slot = slot;
	info->index = index;
	info->seq = seq;
	info->generation = sm->shared.sb.generation;
	memcpy(info->array_uuid, sm->shared.sb.array_uuid, sizeof(info->array_uuid));
}

void ddr_sm_log_block(const struct ddr_sm *sm, uint32_t index, struct ddr_disk_log *blk)
{
	const uint64_t *word = sm->own.fly + (size_t)index * DDR_WORDS_LOG;
	const uint64_t *repair = sm->own.rep_fly + (size_t)index * DDR_WORDS_LOG;
	struct ddr_log_info info;
	uint32_t n = 0;

	memset(blk, 0, sizeof(*blk));
	for (uint32_t i = 0; i < DDR_LOG_PAYLOAD; i++)
		blk->payload[i] = (uint8_t)(word[i / 8] >> (i % 8 * 8));
	block_info(sm, &info, (uint16_t)sm->own.slot, index, sm->own.log[index].seq);
	info.node = sm->node;
	for (uint32_t i = 0; i < DDR_LOG_REGIONS && n < DDR_LOG_REPAIRS; i++)
		if (ddr_bit(repair, i))
			info.repair[n++] = (uint16_t)(i + 1);
	memcpy(info.boot_id, sm->kernel.boot_id, sizeof(info.boot_id));
	if (sm->own.log[index].fly_ours)
		info.cookie = sm->kernel.cookie;
	ddr_log_encode(blk, &info);
}

void ddr_sm_map_block(const struct ddr_sm *sm, uint32_t index, struct ddr_disk_log *blk)
{
	struct ddr_log_info info;

	memset(blk, 0, sizeof(*blk));
	memcpy(blk->payload, sm->shared.map + (size_t)index * DDR_LOG_PAYLOAD, DDR_LOG_PAYLOAD);
	block_info(sm, &info, DDR_MAP_SLOT, index, sm->own.mapb[index].seq);
	ddr_log_encode(blk, &info);
}

void ddr_sm_superblock(const struct ddr_sm *sm, uint32_t member, struct ddr_super *sb)
{
	*sb = sm->own.t.writing ? sm->own.next : sm->shared.sb;
	sb->this_member = (uint16_t)member;
	sb->compat = ddr_sm_log_seqs(sm) ? sb->compat | DDR_COMPAT_LOG_SEQ : sb->compat & ~DDR_COMPAT_LOG_SEQ;
	for (uint32_t m = 0; m < sb->members; m++) {
		ddr_sm_errors(sm, m, &sb->member[m].err_read, &sb->member[m].err_write, &sb->member[m].err_corrected);
	}
}

const struct ddr_super *ddr_sm_super(const struct ddr_sm *sm)
{
	return &sm->shared.sb;
}

/* ---- status -------------------------------------------------------------------- */

/* Status may be requested every second, so the counts are kept up to date; but not before this node takes part, while the map is being read. */
static void regions_status(const struct ddr_sm *sm, struct ddr_sm_status *st)
{
	st->regions = sm->shared.regions;
	st->clean = sm->shared.n_clean;
	st->needs_sync = sm->shared.n_needs_sync;
	st->suspect = sm->shared.n_suspect;
	if (!sm->own.planned)
		ddr_shared_map_count(&sm->shared, &st->clean, &st->needs_sync, &st->suspect);
	st->unwritten = st->regions - st->clean - st->needs_sync;
	st->dirty = ddr_sm_marks(sm);
}

void ddr_sm_get_status(const struct ddr_sm *sm, struct ddr_sm_status *st)
{
	memset(st, 0, sizeof(*st));
	regions_status(sm, st);
	st->granted = sm->own.n_granted;
	ddr_sm_resync_progress(sm, &st->resync_done, &st->resync_total);
	st->resync_regions = sm->own.n_resync;
	st->mismatches = sm->own.mismatches;
	st->rebuilding = ddr_sm_rebuilding(sm);
	st->replaced = ddr_sm_replaced(sm);
	ddr_sm_seek_status(sm, st);
	st->writer = ddr_sm_writer(sm);
	st->generation = sm->shared.sb.generation;
	st->attached = sm->kernel.state == DDR_K_ATTACHED;
	st->ready = ddr_sm_running(sm) && sm->kernel.enabled;
	st->quorate = sm->own.quorate;
	st->failed = sm->shared.failed;
	st->gave_up = sm->own.gave_up;
	st->degraded = ddr_sm_degraded(sm);
	st->log_writes = sm->own.log_writes;
	st->map_writes = sm->own.map_writes;
	st->sb_writes = sm->own.sb_writes;
	st->flushes = sm->own.flushes;
	st->mcasts = sm->own.mcasts;
	ddr_sm_space_status(sm, st);
	ddr_sm_nodes_status(sm, st);
	for (uint32_t m = 0; m < sm->shared.sb.members; m++) {
		st->member_state[m] = sm->shared.sb.member[m].state;
		ddr_sm_errors(sm, m, &st->err_read[m], &st->err_write[m], &st->err_corrected[m]);
	}
}

uint8_t ddr_sm_region(const struct ddr_sm *sm, uint64_t region)
{
	if (region >= sm->shared.regions)
		return 0;
	return (uint8_t)(ddr_sm_nibble(sm, region) | (ddr_bit(sm->own.mark, region) ? DDR_SM_REGION_DIRTY : 0));
}
