// SPDX-License-Identifier: GPL-2.0-or-later
#include "rig.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "lib/disk/layout.h"

static void uuid_of(uint8_t uuid[16], uint64_t n)
{
	uint64_t state = n * 1000003 + 1;

	for (int i = 0; i < 16; i++)
		uuid[i] = (uint8_t)rig_random(&state);
}

void rig_super(struct ddr_super *sb, const struct rig_geometry *g)
{
	uint64_t regions = (g->blocks + g->region_blocks - 1) / g->region_blocks;

	memset(sb, 0, sizeof(*sb));
	uuid_of(sb->array_uuid, 1);
	uuid_of(sb->gen_id, 2);
	strcpy(sb->name, "rig");
	sb->seq = 2;
	sb->order = g->order;
	sb->parity = g->parity;
	sb->layout = g->layout;
	sb->chunk = DDR_BLOCK_SIZE >> g->order;
	sb->block_size = DDR_BLOCK_SIZE;
	sb->region_size = g->region_blocks * DDR_BLOCK_SIZE;
	sb->array_blocks = g->blocks;
	sb->generation = 1;
	sb->slots = g->slots ? g->slots : DDR_DEF_SLOTS;
	sb->log_blocks = (uint32_t)((regions + DDR_LOG_REGIONS - 1) / DDR_LOG_REGIONS);
	sb->map_blocks = (uint32_t)((regions + DDR_MAP_REGIONS - 1) / DDR_MAP_REGIONS);
	sb->log_offset = 2 * DDR_META_BLOCK;
	sb->map_offset = sb->log_offset + 2ull * sb->slots * sb->log_blocks * DDR_META_BLOCK;
	sb->data_offset = sb->map_offset + 2ull * sb->map_blocks * DDR_META_BLOCK + DDR_META_BLOCK;
	sb->data_offset = (sb->data_offset + DDR_DATA_ALIGN - 1) / DDR_DATA_ALIGN * DDR_DATA_ALIGN;
	sb->roles = (uint16_t)((1u << g->order) + g->parity);
	sb->members = (uint16_t)(sb->roles + g->spares);
	sb->created = sb->updated = 1700000000;
	if (g->owners)
		ddr_layout_owners(sb, NULL);
	for (uint16_t i = 0; i < sb->members; i++) {
		uuid_of(sb->member[i].uuid, 10 + i);
		sb->member[i].state = i < sb->roles ? DDR_MEMBER_IN_SYNC : DDR_MEMBER_SPARE;
		sb->member[i].role = i < sb->roles ? i : DDR_ROLE_NONE;
		sb->member[i].since = 1;
	}
}

struct ddr_sm *rig_sm(const struct ddr_sm_config *cfg)
{
	size_t size = ddr_sm_size(cfg);
	void *mem = size ? aligned_alloc(64, size) : NULL;
	struct ddr_sm *sm = mem ? ddr_sm_init(mem, size, cfg) : NULL;

	if (!sm)
		free(mem);
	return sm;
}

/* ---- ticks that are not due ------------------------------------------------------ */

/* A driver has room for the messages that sm.h promises. */
static bool sends_too_much(const struct ddr_outputs *out)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < out->n; i++)
		n += out->out[i].type == DDR_OUT_MCAST && out->out[i].msg_len > DDR_SM_MSG_SHORT;
	return n > DDR_SM_MSG_LONG;
}

const char *rig_step(struct ddr_sm *sm, const struct ddr_input *in, struct ddr_outputs *out)
{
	bool early = in->type == DDR_IN_TICK && in->now_ms < ddr_sm_due(sm);
	size_t size = early ? malloc_usable_size(sm) : 0;
	struct ddr_sm *before = early ? malloc(size) : NULL;
	const char *why = NULL;
	bool refused;

	if (before)
		memcpy(before, sm, size);
	ddr_sm_step(sm, in, out);
	refused = out->n && out->out[0].type == DDR_OUT_EVENT && out->out[0].event == DDR_EV_BUG;	/* a clock that went backwards */
	if (before && out->n && !refused)
		why = "a tick that was not due had outputs: a wait does not ask for its tick (ddr_sm_time())";
	else if (before && !refused && !ddr_sm_same(before, sm, size))
		why = "a tick that was not due changed the state: a wait does not ask for its tick (ddr_sm_time())";
	else if (sends_too_much(out))
		why = "a step sends more long messages than its driver has to queue (DDR_SM_MSG_LONG)";
	free(before);
	return why;
}

/* ---- words --------------------------------------------------------------------- */

/* A line that grows; what does not fit is cut. */
struct line {
	char *buf;
	size_t size, used;
};

static void __attribute__((format(printf, 2, 3))) say(struct line *l, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(l->buf + l->used, l->size - l->used, fmt, ap);
	va_end(ap);
	if (n > 0)
		l->used = l->used + (size_t)n < l->size ? l->used + (size_t)n : l->size - 1;
}

static void say_mask(struct line *l, const char *name, uint64_t mask)
{
	const char *sep = "";

	say(l, " %s=", name);
	for (int i = 0; i < 64; i++)
		if (mask >> i & 1) {
			say(l, "%s%d", sep, i);
			sep = ",";
		}
	if (!mask)
		say(l, "none");
}

static const char *record_name(uint32_t type)
{
	switch (type) {
	case DDR_K_HELD: return "HELD";
	case DDR_K_HELD_END: return "HELD_END";
	case DDR_K_LOCK: return "LOCK";
	case DDR_K_CLOSED: return "CLOSED";
	case DDR_K_REAPED: return "REAPED";
	case DDR_K_DRAINED: return "DRAINED";
	case DDR_K_ERROR: return "ERROR";
	case DDR_K_APPLIED: return "APPLIED";
	case DDR_K_MISMATCH: return "MISMATCH";
	case DDR_K_STOPPED: return "STOPPED";
	case DDR_U_MEMBER: return "MEMBER";
	case DDR_U_ENABLE: return "ENABLE";
	case DDR_U_GRANT: return "GRANT";
	case DDR_U_REFUSE: return "REFUSE";
	case DDR_U_REAP: return "REAP";
	case DDR_U_DRAIN: return "DRAIN";
	case DDR_U_RELEASE: return "RELEASE";
	case DDR_U_RESOLVE: return "RESOLVE";
	case DDR_U_BITS: return "BITS";
	case DDR_U_FREEZE: return "FREEZE";
	case DDR_U_THAW: return "THAW";
	case DDR_U_KILL: return "KILL";
	case DDR_U_STATUS: return "STATUS";
	}
	return "?";
}

const char *rig_record(const struct ddr_rec *rec, char *buf, size_t size)
{
	static const char *const states[] = { "out", "in-sync", "rebuilding", "leaving" };
	static const char *const answers[] = { "?", "retry", "fail", "pass" };
	struct line l = { buf, size, 0 };

	say(&l, "%s", record_name(rec->type));
	switch (rec->type) {
	case DDR_U_MEMBER:
		say(&l, " %u %s", rec->member, rec->arg[0] < 4 ? states[rec->arg[0]] : "?");
		if (rec->start)
			say(&l, " up to %llu", rec->start);
		return buf;
	case DDR_U_RESOLVE:
		say(&l, " seq=%llu %s", rec->seq, rec->arg[0] < 4 ? answers[rec->arg[0]] : "?");
		return buf;
	case DDR_U_BITS:
		say(&l, " %llu+%llu%s%s", rec->start, rec->count, rec->arg[0] & DDR_RB_CLEAN ? " clean" : "",
		    rec->arg[0] & DDR_RB_SUSPECT_ERROR ? " suspect-error" : "");
		return buf;
	case DDR_U_STATUS:
		say(&l, " action=%llu done=%llu todo=%llu synced=%llu mismatches=%llu", rec->arg[0], rec->start,
		    rec->count, rec->arg[1], rec->arg[2]);
		return buf;
	case DDR_U_FREEZE:
		say(&l, "%s", rec->flags & DDR_F_READS ? " reads too" : "");
		return buf;
	case DDR_U_RELEASE:
		say(&l, " seq=%llu", rec->seq);
		return buf;
	case DDR_U_DRAIN:
		say(&l, " seq=%llu", rec->seq);
		break;
	case DDR_U_ENABLE:
		say(&l, "%s", rec->flags & DDR_F_READS ? " stops-reads" : "");
		return buf;
	case DDR_K_STOPPED:
	case DDR_U_THAW:
	case DDR_U_REAP:
		return buf;
	}
	say(&l, " %llu+%llu", rec->start, rec->count);
	if (rec->status)
		say(&l, " status=%d", rec->status);
	return buf;
}

static void say_runs(struct line *l, const struct ddr_msg *m)
{
	static const char *const ops[] = { "?", "written", "degraded", "clean", "suspect", "accept" };

	for (uint32_t i = 0; i < m->map_set.n; i++)
		say(l, " %u+%u:%s", m->map_set.run[i].start, m->map_set.run[i].count, ops[m->map_set.run[i].op]);
}

static void say_set(struct line *l, const struct ddr_msg_member_set *set)
{
	switch (set->op) {
	case DDR_MEMBER_OP_TAKE: say(l, " take=%u role=%u", set->member, set->role); break;
	case DDR_MEMBER_OP_CURSOR: say(l, " rebuilt=%u up to %" PRIu64, set->member, set->cursor); break;
	case DDR_MEMBER_OP_WHOLE: say(l, " whole=%u", set->member); break;
	case DDR_MEMBER_OP_ADD: say(l, " add=%u", set->member); break;
	case DDR_MEMBER_OP_REMOVE: say(l, " remove=%u", set->member); break;
	case DDR_MEMBER_OP_BACK: say(l, " back=%u", set->member); break;
	case DDR_MEMBER_OP_READD: say(l, " readd=%u", set->member); break;
	case DDR_MEMBER_OP_GROW: say(l, " blocks=%" PRIu64, set->cursor); break;
	case DDR_MEMBER_OP_POLICY: say(l, " policy=%" PRIu64, set->cursor); break;
	case DDR_MEMBER_OP_STAY: say(l, " not whole=%u", set->member); break;
	case DDR_MEMBER_OP_REPLACE: say(l, " replace=%u role=%u", set->member, set->role); break;
	}
}

const char *rig_message(const uint8_t *bytes, uint32_t len, char *buf, size_t size)
{
	struct line l = { buf, size, 0 };
	struct ddr_msg m;
	const char *why = ddr_msg_decode(bytes, len, &m);

	if (why) {
		say(&l, "(%s)", why);
		return buf;
	}
	switch (m.type) {
	case DDR_M_START:
		say(&l, "START%s%s slot=%u", m.start.flags & DDR_START_SEVERAL ? " several" : "", m.start.flags & DDR_START_ADOPT ? " adopt" : "", m.start.slot);
		say_mask(&l, "missing", m.start.missing);
		break;
	case DDR_M_HELLO:
		say(&l, "HELLO epoch=%u%s%s%s", m.epoch, m.hello.flags & DDR_HELLO_SYNCED ? " synced" : "",
		    m.hello.flags & DDR_HELLO_UNPROVEN ? " unproven" : "", m.hello.flags & DDR_HELLO_VOID ? " void" : "");
		for (uint32_t i = 0; i < m.hello.n_out; i++)
			say(&l, "%s%u", i ? "," : " excluded=", m.hello.out[i]);
		break;
	case DDR_M_STATE:
		say(&l, "STATE epoch=%u chunk %u of %u", m.state.epoch, m.state.index + 1, m.state.count);
		break;
	case DDR_M_LEAVE: say(&l, "LEAVE slot=%u dirty=%u", m.leave.slot, m.leave.dirty); break;
	case DDR_M_FENCED:
		say(&l, "FENCED %u failure=%" PRIu64 " how=%u", m.fenced.node, m.fenced.failure, m.fenced.how);
		break;
	case DDR_M_GONE: say(&l, "GONE %u failure=%" PRIu64, m.gone.node, m.gone.failure); break;
	case DDR_M_RENEWED: say(&l, "RENEWED slot=%u seq=%llx", m.renewed.slot, (unsigned long long)m.renewed.seq); break;
	case DDR_M_RECOVER: say(&l, "RECOVER slot=%u", m.recover.slot); break;
	case DDR_M_RECOVERED: say(&l, "RECOVERED slot=%u", m.recover.slot); break;
	case DDR_M_MEMBER_FAIL:
		say(&l, "MEMBER_FAIL");
		say_mask(&l, "hard", m.fail.hard);
		say_mask(&l, "soft", m.fail.soft);
		if (m.fail.exchanged)
			say_mask(&l, "exchanged", m.fail.exchanged);
		break;
	case DDR_M_MEMBER_DONE:
		say(&l, "MEMBER_DONE generation=%" PRIu64 " seq=%" PRIu64, m.done.generation, m.done.seq);
		say_mask(&l, "faulty", m.done.faulty);
		say_mask(&l, "missing", m.done.missing);
		say_mask(&l, "slots", m.done.slots);
		say_set(&l, &m.done.set);
		break;
	case DDR_M_MEMBER_SET:
		say(&l, "MEMBER_SET");
		say_set(&l, &m.set);
		break;
	case DDR_M_SEEK: say(&l, "SEEK member=%u", m.seek.member); break;
	case DDR_M_SEEN:
		say(&l, "SEEN");
		say_mask(&l, "members", m.seen.members);
		break;
	case DDR_M_GROW: say(&l, "GROW blocks=%" PRIu64, m.grow.blocks); break;
	case DDR_M_ROOM: say(&l, "ROOM bytes=%" PRIu64 " member=%u", m.room.bytes, m.room.member); break;
	case DDR_M_USE: say(&l, "USE %u", m.use.used); break;
	case DDR_M_VERIFY:
		say(&l, "VERIFY %s", m.verify.op == DDR_VERIFY_OP_START ? "start" : m.verify.op == DDR_VERIFY_OP_PAUSE ? "pause" :
		    m.verify.op == DDR_VERIFY_OP_STOP ? "stop" : m.verify.op == DDR_VERIFY_OP_DONE ? "done" : "progress");
		if (m.verify.cursor)
			say(&l, " up to %" PRIu64 " found=%" PRIu64 " repaired=%" PRIu64, m.verify.cursor, m.verify.found, m.verify.repaired);
		break;
	case DDR_M_FOLDED: say(&l, "FOLDED since=%" PRIu64, m.folded.since); break;
	case DDR_M_MEMBER_ACK: say(&l, "MEMBER_ACK seq=%" PRIu64, m.ack.seq); break;
	case DDR_M_EX_REQUEST:
		say(&l, "EX_REQUEST id=%u %" PRIu64 "+%" PRIu64, m.ex.id, m.ex.start, m.ex.count);
		break;
	case DDR_M_EX_ACK:
		say(&l, "EX_ACK owner=%u id=%u", m.ex_ack.owner, m.ex_ack.id);
		say_mask(&l, "dirty", m.ex_ack.dirty);
		break;
	case DDR_M_EX_RELEASE: say(&l, "EX_RELEASE id=%u", m.ex_release.id); break;
	case DDR_M_EX_VOID: say(&l, "EX_VOID"); break;
	case DDR_M_MAP_SET:
		say(&l, "MAP_SET");
		say_runs(&l, &m);
		break;
	case DDR_M_MAP_DONE:
		say(&l, "MAP_DONE");
		for (uint32_t i = 0; i < m.map_done.n; i++)
			say(&l, " block=%u", m.map_done.block[i].block);
		break;
	}
	return buf;
}

const char *rig_event(enum ddr_event event)
{
	static const char *const names[] = {
		[DDR_EV_ATTACHED] = "ATTACHED", [DDR_EV_DETACHED] = "DETACHED", [DDR_EV_READY] = "READY",
		[DDR_EV_RECOVERY] = "RECOVERY", [DDR_EV_RESYNC_START] = "RESYNC_START",
		[DDR_EV_RESYNC_DONE] = "RESYNC_DONE", [DDR_EV_MEMBER_FAILED] = "MEMBER_FAILED",
		[DDR_EV_MEMBER_ERROR] = "MEMBER_ERROR", [DDR_EV_DEGRADED] = "DEGRADED", [DDR_EV_SUSPECT] = "SUSPECT",
		[DDR_EV_FAILED] = "FAILED", [DDR_EV_CLEAN] = "CLEAN", [DDR_EV_CLEAN_REFUSED] = "CLEAN_REFUSED", [DDR_EV_VIEW] = "VIEW",
		[DDR_EV_REFUSED] = "REFUSED", [DDR_EV_BUG] = "BUG", [DDR_EV_NODE_JOINED] = "NODE_JOINED",
		[DDR_EV_NODE_LEFT] = "NODE_LEFT", [DDR_EV_NODE_LOST] = "NODE_LOST", [DDR_EV_NODE_FENCED] = "NODE_FENCED",
		[DDR_EV_NODE_RECOVERED] = "NODE_RECOVERED", [DDR_EV_WAIT] = "WAIT", [DDR_EV_EVICTED] = "EVICTED",
		[DDR_EV_LEFT] = "LEFT", [DDR_EV_REBUILD_START] = "REBUILD_START", [DDR_EV_REBUILD_DONE] = "REBUILD_DONE",
		[DDR_EV_MEMBER_ADDED] = "MEMBER_ADDED", [DDR_EV_MEMBER_REMOVED] = "MEMBER_REMOVED",
		[DDR_EV_VERIFY_START] = "VERIFY_START", [DDR_EV_VERIFY_PAUSED] = "VERIFY_PAUSED", [DDR_EV_VERIFY_STOPPED] = "VERIFY_STOPPED",
		[DDR_EV_VERIFY_DONE] = "VERIFY_DONE", [DDR_EV_REPAIRED] = "REPAIRED", [DDR_EV_MISMATCH] = "MISMATCH",
		[DDR_EV_POLICY] = "POLICY", [DDR_EV_GROWN] = "GROWN", [DDR_EV_GROW_REFUSED] = "GROW_REFUSED",
	};

	return (unsigned int)event < sizeof(names) / sizeof(names[0]) && names[event] ? names[event] : "?";
}

static void say_event(struct line *l, const struct ddr_output *out)
{
	say(l, "event %s", rig_event(out->event));
	if (out->member != DDR_NO_MEMBER)
		say(l, " member=%u", out->member);
	if (out->a || out->b)
		say(l, " a=%" PRIu64 " b=%" PRIu64, out->a, out->b);
	if (out->count)
		say(l, " %" PRIu64 "+%" PRIu64, out->start, out->count);
	if (out->text)
		say(l, " \"%s\"", out->text);
}

const char *rig_output(const struct ddr_output *out, char *buf, size_t size)
{
	struct line l = { buf, size, 0 };
	char inner[700];

	switch (out->type) {
	case DDR_OUT_KERNEL: say(&l, "kernel %s", rig_record(&out->rec, inner, sizeof(inner))); return buf;
	case DDR_OUT_MCAST: say(&l, "mcast %s", rig_message(out->msg, out->msg_len, inner, sizeof(inner))); return buf;
	case DDR_OUT_EVENT: say_event(&l, out); return buf;
	case DDR_OUT_LOG_WRITE: say(&l, "write log %u", out->index); break;
	case DDR_OUT_MAP_WRITE: say(&l, "write map %u", out->index); break;
	case DDR_OUT_SB_WRITE: say(&l, "write superblocks"); break;
	case DDR_OUT_FLUSH: say(&l, "flush"); break;
	case DDR_OUT_JOB_RANGE:
		say(&l, "job %s %" PRIu64 "+%" PRIu64, out->fix & ~DDR_FIX_FITS ? "fix" : out->unlocked ? "look at" : out->job == DDR_KA_VERIFY ? "verify" : out->job == DDR_KA_REBUILD ? "rebuild" : "resync",
		    out->start, out->count);
		if (out->job == DDR_KA_REBUILD)
			say(&l, " member=%u", out->member);
		if (out->job != DDR_KA_VERIFY && out->member != DDR_NO_MEMBER && out->from != DDR_NO_MEMBER)
			say(&l, " copy of=%u to=%u", out->from, out->member);
		break;
	case DDR_OUT_TABLE: say(&l, "table member=%u place=%u", out->member, out->index); return buf;
	case DDR_OUT_SEEK: say(&l, "seek member=%u", out->member); return buf;
	case DDR_OUT_ROOM: say(&l, "how large"); break;
	case DDR_OUT_PREPARE: say(&l, "prepare %" PRIu64 "+%" PRIu64, out->start, out->count); break;
	case DDR_OUT_RESIZE: say(&l, "table of %" PRIu64 " blocks", out->count); return buf;
	case DDR_OUT_FENCE: say(&l, "fence %u failure=%" PRIu64, out->node, out->failure); return buf;
	case DDR_OUT_RELOAD: say(&l, "reload"); break;
	case DDR_OUT_SLOT_READ: say(&l, "read slot %u", out->slot); break;
	case DDR_OUT_SLOT_WRITE: say(&l, "write slot %u %u", out->slot, out->index); break;
	case DDR_OUT_ANEW: say(&l, "load again \"%s\"", out->text); return buf;
	case DDR_OUT_GIVE_UP: say(&l, "give up \"%s\"", out->text); return buf;
	}
	say_mask(&l, "members", out->members);
	return buf;
}
