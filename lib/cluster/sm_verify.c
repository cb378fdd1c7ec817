// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Verify: does the parity of everything that was written match the data?
 *
 * The group agrees on the verify and its progress, and the superblocks record them,
 * so it continues whichever node dies. The writer reads, without locks and without messages. Blocks that are
 * being written at that moment look wrong, and are read again. Blocks that still look wrong are passed to
 * sm_fix.c, which reads them again under an exclusive range. Regions without valid parity
 * are skipped: unwritten, needs-sync, dirty at a crash, suspect.
 *
 * Must never: call blocks wrong that were read without a range; let the cursor pass blocks that
 * were not verified; work while a member is missing or rebuilt (there is nothing to compare then).
 */
#include "sm_int.h"

#define CURSOR_MS	60000u	/* between two reports of progress ... */
#define CURSOR_PARTS	64u	/* ... or after 1/64 of the array */
#define LOOKS		3u	/* reads of a range before it is locked exclusively */

static bool is_on(const struct ddr_sm *sm)
{
	return sm->shared.sb.verify.state == DDR_VERIFY_RUNNING;
}

/* ---- the record, in the total order ----------------------------------------- */

static void event(struct ddr_sm *sm, enum ddr_event type)
{
	const struct ddr_verify *v = &sm->shared.sb.verify;
	bool alone = type == DDR_EV_VERIFY_START && (v->flags & DDR_VERIFY_F_SCHEDULED);
	struct ddr_output *out = ddr_sm_event(sm, type, alone ? "started by verify_every" : NULL);

	out->a = type == DDR_EV_VERIFY_START ? v->priority : v->found;
	out->b = type == DDR_EV_VERIFY_START ? v->flags & DDR_VERIFY_F_REPAIR : v->repaired;
	out->count = type == DDR_EV_VERIFY_DONE ? sm->shared.n_suspect : 0;
	sm->kernel.status = true;
}

void ddr_sm_verify_message(struct ddr_sm *sm, const struct ddr_msg *msg, bool changed, enum ddr_event told)
{
	if (msg->sender == sm->node) {
		sm->own.vf.sent = false;
		if (msg->verify.op == sm->own.vf.ask)
			sm->own.vf.ask = 0;
		sm->own.vf.told_found = sm->own.vf.told_repaired = 0;
	}
	sm->again = true;
	sm->kernel.status |= changed;
	if (told != DDR_EV_BUG)
		event(sm, told);
}

void ddr_sm_op_verify(struct ddr_sm *sm, const struct ddr_input *in)
{
	const struct ddr_verify *v = &sm->shared.sb.verify;
	const char *why = NULL;

	if (!ddr_sm_running(sm) || sm->own.vf.ask)
		why = "the array is not running, or the previous verify request is still being processed; try again";
	else if (sm->shared.sb.parity == 0)
		why = "the array has no parity, so there is nothing to compare";
	else if (in->key != DDR_VERIFY_OP_START && v->state == DDR_VERIFY_NONE)
		why = "no verify is running";
	else if (in->key == DDR_VERIFY_OP_START && (in->value < 1 || in->value > 5 || (in->members & ~DDR_VERIFY_F_ALL)))
		why = "the priority of a verify must be 1 (verify first) to 5 (everything else first)";
	if (why) {
		ddr_sm_event(sm, DDR_EV_REFUSED, why)->a = EBUSY;
		return;
	}
	sm->own.vf.ask = in->key;
	sm->own.vf.ask_priority = (uint32_t)in->value;
	sm->own.vf.ask_flags = in->members;
}

static void send(struct ddr_sm *sm, uint32_t op, uint64_t cursor)
{
	struct ddr_sm_verify *vf = &sm->own.vf;
	struct ddr_msg msg = { .type = DDR_M_VERIFY };
	bool ours = op == DDR_VERIFY_OP_PROGRESS || op == DDR_VERIFY_OP_DONE;

	msg.verify.op = op;
	msg.verify.time = op == DDR_VERIFY_OP_START || op == DDR_VERIFY_OP_DONE ? sm->wall : 0;
	if (op == DDR_VERIFY_OP_START) {
		msg.verify.priority = vf->ask_priority;
		msg.verify.flags = vf->ask_flags;
	}
	if (ours) {
		msg.verify.serial = sm->shared.sb.verify.serial;
		msg.verify.cursor = cursor;
		msg.verify.found = vf->found;
		msg.verify.repaired = vf->repaired;
		vf->told_found = vf->found;
		vf->told_repaired = vf->repaired;
		vf->found = vf->repaired = 0;
		vf->told_at = sm->now;
	}
	vf->sent = true;
	ddr_sm_send(sm, &msg);
}

static bool same(const struct ddr_verify *a, const struct ddr_verify *b)
{
	return a->serial == b->serial && a->state == b->state && a->priority == b->priority && a->flags == b->flags && a->begun == b->begun &&
	       a->ended == b->ended && a->cursor == b->cursor && a->found == b->found && a->repaired == b->repaired;
}

/* The superblocks lag behind the agreed progress: they are written again. */
static void record(struct ddr_sm *sm)
{
	struct ddr_msg_member_set set = { .op = DDR_MEMBER_OP_RECORD };

	if (!same(&sm->own.vf.recorded, &sm->shared.sb.verify))
		ddr_sm_ask(sm, &set);
}

/* ---- reading ---------------------------------------------------------------- */

static bool worth(const struct ddr_sm *sm, uint64_t region)
{
	return ddr_sm_parity_known(sm, ddr_sm_region_start(sm, region), 1) && !(ddr_sm_nibble(sm, region) & DDR_REGION_F_SUSPECT);
}

static void scan_start(struct ddr_sm *sm, struct ddr_sm_scan *s)
{
	struct ddr_output *out = ddr_sm_out(sm, DDR_OUT_JOB_RANGE);

	s->io = ddr_sm_io(sm, DDR_SM_RANGES + (uint32_t)(s - sm->own.vf.scan));
	out->io = s->io;
	out->job = DDR_KA_VERIFY;
	out->unlocked = true;
	out->start = s->start;
	out->count = s->count;
	out->members = ddr_sm_in_sync(sm);
}

static void scan_new(struct ddr_sm *sm, struct ddr_sm_scan *s)
{
	struct ddr_sm_verify *vf = &sm->own.vf;

	while (vf->next < sm->shared.sb.array_blocks) {
		uint64_t region = vf->next / sm->shared.region_blocks;
		uint64_t region_end = ddr_sm_region_start(sm, region) + ddr_sm_region_length(sm, region);
		uint64_t step = (vf->next / DDR_EX_BLOCKS + 1) * DDR_EX_BLOCKS;

		if (!worth(sm, region)) {
			vf->next = region_end;
			continue;
		}
		*s = (struct ddr_sm_scan){ .state = DDR_SC_READ, .start = vf->next, .count = (step < region_end ? step : region_end) - vf->next };
		vf->next += s->count;
		scan_start(sm, s);
		return;
	}
}

/* The range does not match: reads it again, since it may have been written meanwhile; finally under an exclusive range. */
static void scan_doubt(struct ddr_sm_scan *s, const struct ddr_input *in)
{
	if (in->count && in->start >= s->start && in->start - s->start < s->count && in->count <= s->count - (in->start - s->start)) {
		s->start = in->start;
		s->count = in->count;
	}
	s->state = ++s->looks < LOOKS ? DDR_SC_AGAIN : DDR_SC_WRONG;
}

void ddr_sm_scan_done(struct ddr_sm *sm, const struct ddr_input *in)
{
	struct ddr_sm_scan *s = &sm->own.vf.scan[(ddr_sm_io_index(in->io) - DDR_SM_RANGES) % DDR_SM_SCANS];
	bool medium = in->result == -ENODATA || in->result == -EILSEQ;
	const struct ddr_sm_job_error e = { s->start, s->count, in->result, in->failed_members & ddr_sm_written(sm), 0, 0 };

	if (s->state != DDR_SC_READ || s->io != in->io) {
		ddr_sm_bug(sm, "a verify read ended that was never started");
		return;
	}
	sm->again = true;
	ddr_sm_job_errors(sm, &e);
	if (in->result == 0 && !in->failed_members && !in->mismatches)
		s->state = DDR_SC_FREE;
	else if (in->result == 0 && !in->failed_members)
		scan_doubt(s, in);
	else if (medium)
		s->state = DDR_SC_WRONG;
	else
		s->state = DDR_SC_AGAIN;
	if (in->result && !medium) {
		sm->own.vf.again_at = sm->now + DDR_SM_RETRY_MS;
		if (in->result != -ENOSPC)
			ddr_sm_report(sm, in->failed_members & ddr_sm_written(sm), false);
	}
}

/* The parity there is no longer reliable: a resync is due, or the region is suspect. A lost node does not count here, since that is temporary. */
static bool settled_elsewhere(const struct ddr_sm *sm, const struct ddr_sm_scan *s)
{
	return !ddr_sm_any_lost(sm) && !sm->shared.rec && !worth(sm, s->start / sm->shared.region_blocks);
}

static void scan_serve(struct ddr_sm *sm, struct ddr_sm_scan *s, bool may_read)
{
	uint32_t what = DDR_SM_FIX_OF_VERIFY | DDR_FIX_BAD | DDR_FIX_WRONG | (sm->shared.sb.verify.flags & DDR_VERIFY_F_REPAIR ? DDR_FIX_PARITY : 0);

	if ((s->state == DDR_SC_AGAIN || s->state == DDR_SC_WRONG) && settled_elsewhere(sm, s))
		s->state = DDR_SC_FREE;
	if (s->state == DDR_SC_AGAIN && may_read) {
		s->state = DDR_SC_READ;
		scan_start(sm, s);
	}
	if (s->state == DDR_SC_WRONG && ddr_sm_fix_new(sm, s->start, s->count, what))
		s->state = DDR_SC_FREE;
	if (s->state == DDR_SC_FREE && may_read)
		scan_new(sm, s);
}

bool ddr_sm_scans_idle(const struct ddr_sm *sm)
{
	for (uint32_t i = 0; i < DDR_SM_SCANS; i++)
		if (sm->own.vf.scan[i].state == DDR_SC_READ)
			return false;
	return true;
}

/* Everything below this block was verified, and wrong blocks were handled. */
static uint64_t done_to(const struct ddr_sm *sm)
{
	uint64_t lowest = sm->own.vf.next;

	for (const struct ddr_sm_scan *s = sm->own.vf.scan; s < sm->own.vf.scan + DDR_SM_SCANS; s++)
		if (s->state != DDR_SC_FREE && s->start < lowest)
			lowest = s->start;
	return ddr_sm_fix_lowest(sm, lowest);
}

uint64_t ddr_sm_verify_at(const struct ddr_sm *sm)
{
	uint64_t done = is_on(sm) && sm->own.vf.begun && sm->own.vf.serial == sm->shared.sb.verify.serial ? done_to(sm) : 0;

	return done > sm->shared.sb.verify.cursor ? done : sm->shared.sb.verify.cursor;
}

void ddr_sm_verify_progress(const struct ddr_sm *sm, struct ddr_sm_progress *p)
{
	memset(p, 0, sizeof(*p));
	if (sm->shared.sb.verify.state == DDR_VERIFY_NONE)
		return;
	p->at = ddr_sm_verify_at(sm);
	ddr_sm_progress_verified(sm, p);	/* as worth(), except that during the recovery of a node nothing is, for a moment */
}

/* ---- the pump --------------------------------------------------------------- */

/* A new verify, or ours, which other nodes have continued meanwhile. */
static void begin(struct ddr_sm *sm)
{
	struct ddr_sm_verify *vf = &sm->own.vf;

	for (uint32_t i = 0; i < DDR_SM_SCANS; i++)
		if (vf->scan[i].state != DDR_SC_READ)
			vf->scan[i].state = DDR_SC_FREE;
	/* repaired blocks were found once; blocks that stay wrong are found again */
	vf->repaired = vf->serial == sm->shared.sb.verify.serial ? vf->repaired : 0;
	vf->found = vf->repaired;
	vf->begun = true;
	vf->serial = sm->shared.sb.verify.serial;
	vf->next = sm->shared.sb.verify.cursor;
	vf->told_at = sm->now;
}

static bool reads_allowed(const struct ddr_sm *sm)
{
	if (sm->own.vf.paced || sm->own.stopping || !ddr_sm_time(sm, sm->own.hold_until) || !ddr_sm_time(sm, sm->own.vf.again_at))
		return false;
	if (ddr_sm_any_lost(sm) || sm->shared.rec || ddr_sm_left_dirty(sm) || sm->own.n_resync)
		return false;
	return !ddr_sm_degraded(sm) && ddr_sm_rebuilding(sm) == DDR_NO_MEMBER;
}

static void work(struct ddr_sm *sm)
{
	struct ddr_sm_verify *vf = &sm->own.vf;
	bool may_read = reads_allowed(sm);
	uint64_t done;

	if (!vf->begun || vf->serial != sm->shared.sb.verify.serial || vf->next < sm->shared.sb.verify.cursor)
		begin(sm);
	for (struct ddr_sm_scan *s = vf->scan; s < vf->scan + DDR_SM_SCANS; s++)
		if (ddr_sm_room(sm, 4))
			scan_serve(sm, s, may_read);
	done = done_to(sm);
	if (vf->sent || !ddr_sm_may_send(sm))
		return;
	if (done >= sm->shared.sb.array_blocks)
		send(sm, DDR_VERIFY_OP_DONE, sm->shared.sb.array_blocks);
	else if (done > sm->shared.sb.verify.cursor &&
		 (done - sm->shared.sb.verify.cursor >= sm->shared.sb.array_blocks / CURSOR_PARTS || ddr_sm_time(sm, vf->told_at + CURSOR_MS)))
		send(sm, DDR_VERIFY_OP_PROGRESS, done);
}

void ddr_sm_verify_pump(struct ddr_sm *sm)
{
	if (!ddr_sm_running(sm) || !sm->kernel.enabled)
		return;
	if (sm->own.vf.ask && !sm->own.vf.sent && ddr_sm_may_send(sm))
		send(sm, sm->own.vf.ask, 0);
	if (!ddr_sm_writes(sm)) {
		sm->own.vf.begun = false;
		return;
	}
	if (!sm->own.stopping)
		record(sm);
	if (is_on(sm))
		work(sm);
}

void ddr_sm_verify_view(struct ddr_sm *sm)
{
	/* progress that was not delivered in the old view is reported again, */
	sm->own.vf.found += sm->own.vf.told_found;
	sm->own.vf.repaired += sm->own.vf.told_repaired;
	sm->own.vf.told_found = sm->own.vf.told_repaired = 0;
	sm->own.vf.sent = false;
	sm->own.vf.begun = false;	/* and the work continues from the cursor that all nodes know */
}
