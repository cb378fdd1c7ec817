// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Our kernel: attach and declaration, member states, bits and freezing towards it,
 * and the dispatch of its records.
 *
 * Must never: believe a region, range or number before it was checked; enable the
 * array before the kernel knows all member states; leave it unfrozen without quorum.
 */
#include "sm_int.h"

/* ---- records out --------------------------------------------------------------- */

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

/* ---- attach -------------------------------------------------------------------- */

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

/* Regions start..+count exist? */
static bool regions_valid(const struct ddr_sm *sm, const struct ddr_rec *rec)
{
	return rec->count > 0 && rec->start < sm->shared.regions && rec->count <= sm->shared.regions - rec->start;
}

static void held(struct ddr_sm *sm, const struct ddr_rec *rec)
{
	if (sm->kernel.state != DDR_K_DECLARING) {
		ddr_sm_bug(sm, "HELD outside a declaration");
		return;
	}
	for (uint64_t r = rec->start; r < rec->start + rec->count; r++)
		ddr_bit_set(sm->kernel.held, r);
	sm->kernel.declared += rec->count;
}

static void held_end(struct ddr_sm *sm, const struct ddr_rec *rec)
{
	if (sm->kernel.state != DDR_K_DECLARING || rec->count != sm->kernel.declared) {
		ddr_sm_bug(sm, "the kernel's declaration is not complete");
		return;
	}
	sm->kernel.state = DDR_K_ATTACHED;
	ddr_sm_event(sm, DDR_EV_ATTACHED, NULL);
	if (sm->own.planned)
		ddr_sm_redeclared(sm);
	ddr_sm_bits_all(sm);
	sm->kernel.status = true;
}

/* ---- members ------------------------------------------------------------------- */

/* A member that replaces another one has its role, and not yet its place. */
uint32_t ddr_sm_member_at(const struct ddr_sm *sm, uint32_t position)
{
	for (uint32_t m = 0; m < sm->shared.sb.members; m++)
		if (sm->shared.sb.member[m].role == position && position < sm->shared.sb.roles && !(sm->shared.sb.member[m].flags & DDR_MEMBER_F_REPLACING))
			return m;
	return DDR_NO_MEMBER;
}

/* Has the holder of this place come in as a shadow, and the table does not name it there yet? */
static bool shadow_serves(const struct ddr_sm *sm, uint32_t position)
{
	uint32_t m = sm->kernel.shadow;

	return m < sm->shared.sb.members && ddr_sm_member_at(sm, position) == m && !(sm->kernel.table >> m & 1);
}

/*
 * The member that lost its role to another one in the change that not all have acknowledged: it failed, or was copied to the end.
 * Both took their state with that change, and whose role somebody took in another way had been out before.
 */
static uint32_t left_member(const struct ddr_sm *sm)
{
	for (uint32_t m = 0; m < sm->shared.sb.members; m++) {
		const struct ddr_member *old = &sm->shared.sb.member[m];

		if (!(sm->shared.change.leaving >> m & 1) || old->role != DDR_ROLE_NONE)
			continue;
		for (uint32_t i = 0; i < sm->shared.sb.members; i++) {
			const struct ddr_member *new = &sm->shared.sb.member[i];

			if (new->since == old->since && new->role != DDR_ROLE_NONE && (new->state == DDR_MEMBER_IN_SYNC || new->state == DDR_MEMBER_REBUILDING))
				return m;
		}
	}
	return DDR_NO_MEMBER;
}

/* The member that our kernel is to use at the position, or DDR_NO_MEMBER: nobody, or one that goes. */
static uint32_t wanted_at(const struct ddr_sm *sm, uint32_t position)
{
	uint32_t m = sm->kernel.shadow;

	if (position != DDR_UAPI_SHADOW)
		return shadow_serves(sm, position) ? DDR_NO_MEMBER : ddr_sm_member_at(sm, position);
	return m < sm->shared.sb.members && shadow_serves(sm, sm->shared.sb.member[m].role) ? m : ddr_sm_replacing(sm);
}

static bool named(const struct ddr_sm *sm, uint32_t position, uint32_t m)
{
	return position == DDR_UAPI_SHADOW ? sm->kernel.shadow == m : sm->kernel.table >> m & 1;
}

uint32_t ddr_sm_device_at(const struct ddr_sm *sm, uint32_t position, bool absent)
{
	uint32_t m = wanted_at(sm, position), left = left_member(sm);

	if (m == DDR_NO_MEMBER)
		return left;
	if (named(sm, position, m))
		return m;
	/* the one that had the place and failed as this one got it */
	if (left != DDR_NO_MEMBER && sm->shared.sb.member[left].since == sm->shared.sb.member[m].since)
		return left;
	return absent ? m : DDR_NO_MEMBER;	/* the device that our table still has there is one that was out before */
}

/* It goes, nobody reads it, and it cannot be had here: others must not wait until it can. */
static bool given_up(const struct ddr_sm *sm, uint32_t position, uint32_t m)
{
	return (ddr_sm_going(sm) >> m & 1) && sm->shared.sb.member[m].state == DDR_MEMBER_REBUILDING && !named(sm, position, m) &&
	       (position == DDR_UAPI_SHADOW || sm->shared.sb.member[m].cursor == 0);
}

static uint8_t kernel_state(const struct ddr_sm *sm, uint32_t position)
{
	uint32_t m = wanted_at(sm, position);
	bool of_left = position == DDR_UAPI_SHADOW || shadow_serves(sm, position);

	/* others may read it still: nothing completes without it, whether our table names it or not */
	if (m == DDR_NO_MEMBER || given_up(sm, position, m)) {
		of_left |= m != DDR_NO_MEMBER;
		return of_left && left_member(sm) != DDR_NO_MEMBER ? DDR_KM_LEAVING : DDR_KM_OUT;
	}
	if (sm->shared.change.leaving >> m & 1)
		return DDR_KM_LEAVING;
	switch (sm->shared.sb.member[m].state) {
	case DDR_MEMBER_IN_SYNC: return DDR_KM_IN_SYNC;
	case DDR_MEMBER_REBUILDING: return DDR_KM_REBUILDING;
	}
	return DDR_KM_OUT;
}

/* What its table does not have, the kernel is told nothing of. */
static uint64_t kernel_regions(const struct ddr_sm *sm)
{
	uint64_t regions = (sm->kernel.blocks + sm->shared.region_blocks - 1) / sm->shared.region_blocks;

	return regions < sm->shared.regions ? regions : sm->shared.regions;
}

static uint64_t cursor_of(const struct ddr_sm *sm, uint32_t position)
{
	uint64_t cursor;

	if (kernel_state(sm, position) != DDR_KM_REBUILDING)
		return 0;
	cursor = sm->shared.sb.member[wanted_at(sm, position)].cursor;
	return cursor < sm->kernel.blocks ? cursor : sm->kernel.blocks;
}

/* Of whom there is something to tell, whatever the table names. */
static uint8_t subject(const struct ddr_sm *sm, uint32_t position)
{
	uint32_t m = wanted_at(sm, position);

	return (uint8_t)(m != DDR_NO_MEMBER ? m : left_member(sm));
}

/* Of this member: what was said of the one that had the place before does not count. Of nobody there is nothing to say but that he is out. */
static bool told(const struct ddr_sm *sm, uint32_t position)
{
	uint8_t state = kernel_state(sm, position);

	return sm->kernel.sent[position] == state && sm->kernel.cursor[position] == cursor_of(sm, position) &&
	       (state == DDR_KM_OUT || sm->kernel.sent_of[position] == subject(sm, position));
}

/* The positions in the order in which they are told: a place may be read from its shadow as soon as it is not read itself. */
static uint32_t position_of(uint32_t i)
{
	return i == 0 ? DDR_UAPI_SHADOW : i - 1;
}

static bool all_told(const struct ddr_sm *sm)
{
	if (sm->kernel.state != DDR_K_ATTACHED)
		return false;
	for (uint32_t i = 0; i <= sm->shared.sb.roles; i++)
		if (!told(sm, position_of(i)))
			return false;
	return true;
}

/* One that replaces a member has to wait while another one, which did so, still serves as a shadow. */
static bool shadow_awaited(const struct ddr_sm *sm)
{
	uint32_t m = ddr_sm_replacing(sm);

	return m != DDR_NO_MEMBER && !(ddr_sm_going(sm) >> m & 1) && wanted_at(sm, DDR_UAPI_SHADOW) != m;
}

bool ddr_sm_members_told(const struct ddr_sm *sm)
{
	return all_told(sm) && !shadow_awaited(sm);
}

bool ddr_sm_applied(const struct ddr_sm *sm)
{
	return ddr_sm_members_told(sm) && !sm->kernel.applying;
}

static void applied(struct ddr_sm *sm, const struct ddr_rec *rec)
{
	for (uint32_t i = 0; i <= sm->shared.sb.roles; i++) {
		uint32_t p = position_of(i);

		if ((sm->kernel.applying >> p & 1) && sm->kernel.member_seq[p] == rec->seq) {
			sm->kernel.applying &= ~(1u << p);
			return;
		}
	}
	ddr_sm_bug(sm, "APPLIED without a MEMBER");
}

static void freeze(struct ddr_sm *sm)
{
	bool want = !ddr_sm_active(sm) && !sm->shared.failed;

	if ((sm->kernel.freeze_told && want == sm->kernel.frozen) || !ddr_sm_room(sm, 1))
		return;
	if (want)
		ddr_sm_rec(sm, DDR_U_FREEZE, 0, 0, 0)->flags = DDR_F_READS;
	else
		ddr_sm_rec(sm, DDR_U_THAW, 0, 0, 0);
	sm->kernel.frozen = want;
	sm->kernel.freeze_told = true;
	sm->kernel.status = true;
}

static void table_ask(struct ddr_sm *sm, uint32_t member, uint32_t position)
{
	struct ddr_output *out = ddr_sm_out(sm, DDR_OUT_TABLE);

	out->member = member;
	out->index = position;
}

/* Another member may have had this place when the kernel got its table: what that names is not to be read nor written as if it were this one. */
static bool table_has(struct ddr_sm *sm, uint32_t position)
{
	uint32_t m = wanted_at(sm, position);

	if (position == DDR_UAPI_SHADOW ? sm->kernel.shadow == m : sm->kernel.table >> m & 1)
		return true;
	if (!ddr_sm_room(sm, 1))
		return false;
	if (position == DDR_UAPI_SHADOW && sm->kernel.shadow_asked != m) {
		table_ask(sm, m, position);
		sm->kernel.shadow_asked = m;
	} else if (position != DDR_UAPI_SHADOW && !(sm->kernel.table_asked >> m & 1)) {
		table_ask(sm, m, position);
		sm->kernel.table_asked |= 1u << m;
	}
	return false;
}

/* What the kernel does not need in its table any more: a device beside another one. Until that is done nothing is wrong, but the next one waits. */
static void table_tidy(struct ddr_sm *sm)
{
	uint32_t m = sm->kernel.shadow, place = m < sm->shared.sb.members ? sm->shared.sb.member[m].role : DDR_NO_MEMBER;

	if (!sm->kernel.shadow_named || !ddr_sm_running(sm) || !all_told(sm) || sm->kernel.applying || sm->now < sm->kernel.tidy_at || !ddr_sm_room(sm, 1))
		return;
	if (kernel_state(sm, DDR_UAPI_SHADOW) == DDR_KM_OUT && !sm->kernel.unname_asked) {
		table_ask(sm, DDR_NO_MEMBER, DDR_UAPI_SHADOW);
		sm->kernel.unname_asked = true;
	} else if (place < sm->shared.sb.roles && shadow_serves(sm, place) && kernel_state(sm, place) == DDR_KM_OUT && !(sm->kernel.table_asked >> m & 1)) {
		table_ask(sm, m, place);
		sm->kernel.table_asked |= 1u << m;
	}
}

static bool table_asked(const struct ddr_sm *sm, uint32_t member, bool shadow)
{
	if (member == DDR_NO_MEMBER)
		return shadow && sm->kernel.unname_asked;
	if (member >= sm->shared.sb.members)
		return false;
	return shadow ? sm->kernel.shadow_asked == member : sm->kernel.table_asked >> member & 1;
}

/* The table is as it was: tried again later. Whoever waits for that is broken for this node. */
static void tidy_failed(struct ddr_sm *sm)
{
	sm->kernel.tidy_at = sm->now + DDR_SM_RETRY_MS;
	if (shadow_awaited(sm))
		ddr_sm_report(sm, 1u << ddr_sm_replacing(sm), true);
}

/* The table could not be made to name the device: for this node the member is broken, unless the kernel has it already as a shadow. */
void ddr_sm_table_done(struct ddr_sm *sm, const struct ddr_input *in)
{
	bool shadow = in->value == DDR_UAPI_SHADOW;
	uint32_t m = in->member;

	if (!table_asked(sm, m, shadow)) {
		ddr_sm_bug(sm, "the end of a change of the table that was not asked for");
		return;
	}
	if (m == DDR_NO_MEMBER) {
		sm->kernel.unname_asked = false;
		sm->kernel.shadow_named = in->result != 0;
	} else if (shadow) {
		sm->kernel.shadow_asked = DDR_NO_MEMBER;
		sm->kernel.shadow = in->result ? sm->kernel.shadow : m;
		sm->kernel.shadow_named |= !in->result;
	} else {
		sm->kernel.table_asked &= ~(1u << m);
		sm->kernel.table |= in->result ? 0 : 1u << m;
	}
	if (in->result && (m == DDR_NO_MEMBER || (!shadow && sm->kernel.shadow == m)))
		tidy_failed(sm);
	else if (in->result)
		ddr_sm_report(sm, 1u << m, true);
}

/* The superblocks are the truth; the kernel hears of a state only when they say it. */
static void member_tell(struct ddr_sm *sm, uint32_t p)
{
	uint8_t state = kernel_state(sm, p);
	struct ddr_rec *rec;

	/* the kernel takes the next state of a member only when it has applied the last */
	if (told(sm, p) || (sm->kernel.applying >> p & 1) || !ddr_sm_room(sm, 1))
		return;
	if ((state == DDR_KM_REBUILDING || state == DDR_KM_IN_SYNC) && !table_has(sm, p))
		return;
	/* what reads this place is its shadow from now on: the kernel must know that first */
	if (p != DDR_UAPI_SHADOW && shadow_serves(sm, p) && kernel_state(sm, DDR_UAPI_SHADOW) == DDR_KM_IN_SYNC && !told(sm, DDR_UAPI_SHADOW))
		return;
	sm->kernel.member_seq[p] = ddr_sm_kseq(sm);
	rec = ddr_sm_rec(sm, DDR_U_MEMBER, sm->kernel.member_seq[p], 0, 0);
	rec->member = p;
	rec->arg[0] = state;
	rec->start = cursor_of(sm, p);
	sm->kernel.sent[p] = state;
	sm->kernel.sent_of[p] = subject(sm, p);
	sm->kernel.cursor[p] = rec->start;
	sm->kernel.applying |= 1u << p;
}

void ddr_sm_kernel_pump(struct ddr_sm *sm)
{
	if (sm->kernel.state != DDR_K_ATTACHED)
		return;
	freeze(sm);
	if (sm->own.start < DDR_S_DELIVERED || (sm->own.start == DDR_S_DELIVERED && !sm->shared.change.ack))
		return;
	for (uint32_t i = 0; i <= sm->shared.sb.roles; i++)
		member_tell(sm, position_of(i));
	table_tidy(sm);
}

/* ---- bits ---------------------------------------------------------------------- */

static uint32_t bits_of(const struct ddr_sm *sm, uint64_t r)
{
	uint8_t nibble = ddr_sm_nibble(sm, r);
	uint32_t bits = 0;

	if ((nibble & DDR_REGION_STATE_MASK) == DDR_REGION_CLEAN && !ddr_bit(sm->own.resync, r))
		bits |= DDR_RB_CLEAN;
	if ((nibble & DDR_REGION_F_SUSPECT) && (sm->shared.sb.policy & DDR_POLICY_SUSPECT_READS_ERROR))
		bits |= DDR_RB_SUSPECT_ERROR;
	return bits;
}

static uint32_t bits_told(const struct ddr_sm *sm, uint64_t r)
{
	return (ddr_bit(sm->kernel.kclean, r) ? DDR_RB_CLEAN : 0) | (ddr_bit(sm->kernel.ksusp, r) ? DDR_RB_SUSPECT_ERROR : 0);
}

void ddr_sm_bits_changed(struct ddr_sm *sm, uint64_t region)
{
	if (bits_of(sm, region) == bits_told(sm, region) || region >= kernel_regions(sm))
		return;
	ddr_bit_set(sm->kernel.bchg, region);
	sm->kernel.bits = true;
	sm->kernel.bits_at = 0;
}

/* A new binding: one record says that nothing is known, and then only what differs follows. */
void ddr_sm_bits_all(struct ddr_sm *sm)
{
	memset(sm->kernel.bchg, 0, sm->own.words * sizeof(uint64_t));
	memset(sm->kernel.kclean, 0, sm->own.words * sizeof(uint64_t));
	memset(sm->kernel.ksusp, 0, sm->own.words * sizeof(uint64_t));
	if (sm->kernel.state != DDR_K_ATTACHED)
		return;
	ddr_sm_rec(sm, DDR_U_BITS, 0, 0, kernel_regions(sm));
	sm->kernel.bits = false;
	for (uint64_t r = 0; sm->own.planned && r < sm->shared.regions; r++)
		ddr_sm_bits_changed(sm, r);
}

/* One run of changed regions with the same bits, from @r on. Returns the region behind it. */
static uint64_t bits_run(struct ddr_sm *sm, uint64_t r)
{
	uint32_t bits = bits_of(sm, r);
	uint64_t start = r;

	for (; r < sm->shared.regions && ddr_bit(sm->kernel.bchg, r) && bits_of(sm, r) == bits; r++) {
		ddr_bit_clear(sm->kernel.bchg, r);
		(bits & DDR_RB_CLEAN ? ddr_bit_set : ddr_bit_clear)(sm->kernel.kclean, r);
		(bits & DDR_RB_SUSPECT_ERROR ? ddr_bit_set : ddr_bit_clear)(sm->kernel.ksusp, r);
	}
	ddr_sm_rec(sm, DDR_U_BITS, 0, start, r - start)->arg[0] = bits;
	return r;
}

void ddr_sm_bits_pump(struct ddr_sm *sm)
{
	if (!sm->kernel.bits || !ddr_sm_running(sm))
		return;
	for (uint64_t w = sm->kernel.bits_at; w < sm->own.words; w++) {
		while (sm->kernel.bchg[w]) {
			if (!ddr_sm_room(sm, 1)) {
				sm->kernel.bits_at = w;
				return;
			}
			bits_run(sm, w * 64 + (uint64_t)__builtin_ctzll(sm->kernel.bchg[w]));
		}
	}
	sm->kernel.bits = false;
}

/* ---- enable, status ------------------------------------------------------------ */

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
	/* these go from one end of the array to the other; what they pass over would have to be counted anew each time */
	if (rec->arg[0] == DDR_KA_VERIFY || rec->arg[0] == DDR_KA_REBUILD) {
		rec->start = rec->arg[0] == DDR_KA_VERIFY ? ddr_sm_verify_at(sm) : ddr_sm_rebuild_at(sm);
		rec->count = sm->shared.sb.array_blocks;
	}
	rec->arg[1] = sm->shared.regions - sm->shared.n_needs_sync;
	if (rec->arg[1] > kernel_regions(sm))
		rec->arg[1] = kernel_regions(sm);
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

void ddr_sm_enable_pump(struct ddr_sm *sm)
{
	if (!ddr_sm_running(sm) || !ddr_sm_room(sm, 4))
		return;
	if (!sm->kernel.enabled && !sm->kernel.bits && ddr_sm_members_told(sm) && ddr_sm_ex_may_enable(sm)) {
		ddr_sm_rec(sm, DDR_U_ENABLE, 0, 0, 0);
		sm->kernel.enabled = true;
		sm->again = true;
	}
	if (sm->kernel.enabled && !sm->own.ready_told) {
		sm->own.ready_told = true;
		ddr_sm_event(sm, DDR_EV_READY, NULL);
		tell_suspects(sm);
	}
	status_line(sm);
}

/* ---- records in ---------------------------------------------------------------- */

static bool of_regions(uint32_t type)
{
	return type == DDR_K_HELD || type == DDR_K_LOCK || type == DDR_K_CLOSED;
}

void ddr_sm_record(struct ddr_sm *sm, const struct ddr_rec *rec)
{
	if (sm->kernel.state == DDR_K_GONE) {
		ddr_sm_bug(sm, "a record of a kernel that is not attached");
		return;
	}
	if (of_regions(rec->type) && !regions_valid(sm, rec)) {
		ddr_sm_bug(sm, "a record with regions that do not exist");
		return;
	}
	switch (rec->type) {
	case DDR_K_HELD: held(sm, rec); return;
	case DDR_K_HELD_END: held_end(sm, rec); return;
	}
	if (sm->kernel.state != DDR_K_ATTACHED) {
		ddr_sm_bug(sm, "a record within a declaration");
		return;
	}
	switch (rec->type) {
	case DDR_K_LOCK: ddr_sm_lock(sm, rec); return;
	case DDR_K_CLOSED: ddr_sm_closed(sm, rec); return;
	case DDR_K_REAPED: ddr_sm_reaped(sm, rec); return;
	case DDR_K_DRAINED: ddr_sm_drained(sm, rec); return;
	case DDR_K_ERROR: ddr_sm_kerror(sm, rec); return;
	case DDR_K_MISMATCH: ddr_sm_kmismatch(sm, rec); return;
	case DDR_K_APPLIED: applied(sm, rec); return;
	case DDR_K_SUSPEND:
	case DDR_K_PONG: return;
	}
	ddr_sm_bug(sm, "a record of an unknown type");
}
