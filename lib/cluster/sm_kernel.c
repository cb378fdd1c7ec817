// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Our kernel: attach and declaration, enabling, its status line, and the dispatch of its records.
 *
 * Must never: use a region, range or number before it was checked; enable the array before the kernel knows all member states.
 */
#include "sm_int.h"

/* ---- attach ----------------------------------------------------------------- */

void ddr_sm_attached(struct ddr_sm *sm, const struct ddr_input *in)
{
	if (sm->kernel.state != DDR_K_GONE)
		ddr_sm_detached(sm);
	sm->kernel.state = DDR_K_DECLARING;
	sm->kernel.same = sm->kernel.cookie == in->cookie && memcmp(sm->kernel.boot_id, in->boot_id, sizeof(in->boot_id)) == 0;
	sm->kernel.cookie = in->cookie;
	memcpy(sm->kernel.boot_id, in->boot_id, sizeof(sm->kernel.boot_id));
	sm->kernel.table = in->members;
	sm->kernel.outdated = false;
	sm->kernel.blocks = in->count;
	sm->own.g.resized = 0;
	sm->kernel.table_asked = 0;
	sm->kernel.shadow = in->value & DDR_SHADOW_NAMED && in->member < DDR_MAX_MEMBERS ? in->member : DDR_NO_MEMBER;
	sm->kernel.shadow_named = in->value & DDR_SHADOW_NAMED;
	sm->kernel.shadow_asked = DDR_NO_MEMBER;
	sm->kernel.unname_asked = false;
	sm->kernel.tidy_at = 0;
	sm->kernel.sent[DDR_UAPI_SHADOW] = in->value & DDR_SHADOW_USED ? 0xff : DDR_KM_OUT;
	sm->kernel.cursor[DDR_UAPI_SHADOW] = 0;
	sm->kernel.declared = 0;
	memset(sm->kernel.held, 0, sm->own.words * sizeof(uint64_t));
}

void ddr_sm_detached(struct ddr_sm *sm)
{
	if (sm->kernel.state == DDR_K_GONE)
		return;
	sm->kernel.state = DDR_K_GONE;
	sm->kernel.enabled = false;
	sm->kernel.stopped = false;
	sm->kernel.freeze_told = false;
	sm->kernel.applying = 0;
	sm->kernel.bits = false;
	memset(sm->kernel.sent, 0xff, sizeof(sm->kernel.sent));
	sm->kernel.reap_seq = 0;
	sm->own.ready_told = false;
	ddr_sm_errors_forget(sm);
	ddr_sm_ex_detached(sm);
	ddr_sm_event(sm, DDR_EV_DETACHED, NULL);
}

/* Do the regions start..+count exist? */
static bool regions_valid(const struct ddr_sm *sm, const struct ddr_rec *rec)
{
	return rec->count > 0 && rec->start < sm->shared.regions && rec->count <= sm->shared.regions - rec->start;
}

static void held(struct ddr_sm *sm, const struct ddr_rec *rec)
{
	if (sm->kernel.state != DDR_K_DECLARING) {
		ddr_sm_bug(sm, "the kernel sent HELD outside a declaration");
		return;
	}
	for (uint64_t r = rec->start; r < rec->start + rec->count; r++)
		ddr_bit_set(sm->kernel.held, r);
	sm->kernel.declared += rec->count;
}

static void held_end(struct ddr_sm *sm, const struct ddr_rec *rec)
{
	if (sm->kernel.state != DDR_K_DECLARING || rec->count != sm->kernel.declared) {
		ddr_sm_bug(sm, "the kernel's declaration is incomplete");
		return;
	}
	sm->kernel.state = DDR_K_ATTACHED;
	ddr_sm_event(sm, DDR_EV_ATTACHED, NULL);
	if (sm->own.planned)
		ddr_sm_redeclared(sm);
	ddr_sm_bits_all(sm);
	sm->kernel.status = true;
}

/* ---- enable, status --------------------------------------------------------- */

static void status_line(struct ddr_sm *sm)
{
	uint64_t done, total;
	struct ddr_rec *rec;

	if (!sm->kernel.status || !ddr_sm_room(sm, 1))
		return;
	ddr_sm_resync_progress(sm, &done, &total);
	rec = ddr_sm_rec(sm, DDR_U_STATUS, 0, done, total);
	rec->arg[0] = !ddr_sm_active(sm) ? DDR_KA_FROZEN : !ddr_sm_works_idle(sm) ? DDR_KA_RESYNC :
		      ddr_sm_rebuilding(sm) != DDR_NO_MEMBER ? DDR_KA_REBUILD :
		      sm->shared.sb.verify.state == DDR_VERIFY_RUNNING ? DDR_KA_VERIFY : DDR_KA_IDLE;
	/* these jobs pass through the array in order; counting the regions that they skip would have to be repeated each time */
	if (rec->arg[0] == DDR_KA_VERIFY || rec->arg[0] == DDR_KA_REBUILD) {
		rec->start = rec->arg[0] == DDR_KA_VERIFY ? ddr_sm_verify_at(sm) : ddr_sm_rebuild_at(sm);
		rec->count = sm->shared.sb.array_blocks;
	}
	rec->arg[1] = sm->shared.regions - sm->shared.n_needs_sync;
	if (rec->arg[1] > ddr_sm_kernel_regions(sm))
		rec->arg[1] = ddr_sm_kernel_regions(sm);
	rec->arg[2] = sm->own.mismatches + sm->shared.sb.verify.found;
	sm->kernel.status = false;
}

static void tell_suspects(struct ddr_sm *sm)
{
	struct ddr_output *out;
	uint64_t start = 0;

	if (!sm->shared.n_suspect)
		return;
	while (!(ddr_sm_nibble(sm, start) & DDR_REGION_F_SUSPECT))
		start++;
	out = ddr_sm_event(sm, DDR_EV_SUSPECT, NULL);
	out->start = start;
	while (start + out->count < sm->shared.regions && (ddr_sm_nibble(sm, start + out->count) & DDR_REGION_F_SUSPECT))
		out->count++;
	out->a = sm->shared.n_suspect;
}

/*
 * In a cluster a kernel whose daemon is silent stops reads, too: meanwhile the others may have failed a member, or this node, which its kernel
 * does not know (rule L8).
 */
static void enable(struct ddr_sm *sm)
{
	ddr_sm_rec(sm, DDR_U_ENABLE, 0, 0, 0)->flags = sm->shared.cluster ? DDR_F_READS : 0;
	sm->kernel.enabled = true;
	sm->kernel.stopped = false;
}

void ddr_sm_enable_pump(struct ddr_sm *sm)
{
	if (!ddr_sm_running(sm) || !ddr_sm_room(sm, 4))
		return;
	if (!sm->kernel.enabled && !sm->kernel.bits && ddr_sm_members_told(sm) && ddr_sm_ex_may_enable(sm)) {
		enable(sm);
		sm->again = true;
	}
	if (sm->kernel.enabled && sm->kernel.stopped)
		enable(sm);
	if (sm->kernel.enabled && !sm->own.ready_told) {
		sm->own.ready_told = true;
		ddr_sm_event(sm, DDR_EV_READY, NULL);
		tell_suspects(sm);
	}
	status_line(sm);
}

/* ---- records in ------------------------------------------------------------- */

static bool of_regions(uint32_t type)
{
	return type == DDR_K_HELD || type == DDR_K_LOCK || type == DDR_K_CLOSED;
}

void ddr_sm_record(struct ddr_sm *sm, const struct ddr_rec *rec)
{
	if (sm->kernel.state == DDR_K_GONE) {
		ddr_sm_bug(sm, "a record came from a kernel that is not attached");
		return;
	}
	if (of_regions(rec->type) && !regions_valid(sm, rec)) {
		ddr_sm_bug(sm, "the kernel sent a record with regions that do not exist");
		return;
	}
	switch (rec->type) {
	case DDR_K_HELD: held(sm, rec); return;
	case DDR_K_HELD_END: held_end(sm, rec); return;
	}
	if (sm->kernel.state != DDR_K_ATTACHED) {
		ddr_sm_bug(sm, "the kernel sent another record within a declaration");
		return;
	}
	switch (rec->type) {
	case DDR_K_LOCK: ddr_sm_lock(sm, rec); return;
	case DDR_K_CLOSED: ddr_sm_closed(sm, rec); return;
	case DDR_K_REAPED: ddr_sm_reaped(sm, rec); return;
	case DDR_K_DRAINED: ddr_sm_drained(sm, rec); return;
	case DDR_K_ERROR: ddr_sm_kerror(sm, rec); return;
	case DDR_K_MISMATCH: ddr_sm_kmismatch(sm, rec); return;
	case DDR_K_APPLIED: ddr_sm_member_applied(sm, rec); return;
	case DDR_K_STOPPED: sm->kernel.stopped = true; return;
	case DDR_K_SUSPEND:
	case DDR_K_PONG: return;
	}
	ddr_sm_bug(sm, "the kernel sent a record of an unknown type");
}
