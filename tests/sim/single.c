// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A world as `create` makes it, its faults, and the schedule of one node. That of several: schedule.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include "sim.h"

uint64_t sim_cells[DDR_SM_CELL_WORDS];

static jmp_buf broken;

void sim_trace(struct sim *s, const char *fmt, ...)
{
	va_list ap;

	if (!s->trace)
		return;
	printf("%6llu ", (unsigned long long)s->event);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

void sim_violation(struct sim *s, const char *fmt, ...)
{
	va_list ap;

	fflush(stdout);
	printf("seed %llu, event %llu: ", (unsigned long long)s->seed, (unsigned long long)s->event);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n  replay: ddrsim --seed %llu --events %llu --nodes %u --trace\n", (unsigned long long)s->seed, (unsigned long long)s->events, s->n_nodes);
	longjmp(broken, 1);
}

void sim_abandon(struct sim *s, const char *why)
{
	sim_trace(s, "the run ends here: %s", why);
	s->stats[STAT_ABANDONED]++;
	longjmp(broken, 2);
}

/* ---- a world ------------------------------------------------------------------- */

/* An array as `create` leaves it: whatever was on the disks is in the data area. */
static void create(struct sim *s)
{
	struct ddr_super sb = s->sb0;

	for (uint32_t m = 0; m < s->sb0.members; m++) {
		struct ddr_log_info info = { .slot = 0, .seq = 1, .generation = 1 };
		struct disk *d = &s->disk[m];

		for (uint64_t b = 0; b < SIM_MAX_BLOCKS; b++)
			d->media[b] = sim_rand(s, UINT64_MAX);
		memcpy(info.array_uuid, sb.array_uuid, sizeof(info.array_uuid));
		sb.this_member = (uint16_t)m;
		for (unsigned int c = 0; c < 2; c++) {
			sb.seq = 2 + c;
			if (ddr_super_encode(&sb, d->sb[c]).code)
				sim_violation(s, "the first superblock is not valid");
			info.seq = 1 + (c == 0);
			for (info.slot = 0; info.slot < sb.slots; info.slot++)
				ddr_log_encode((struct ddr_disk_log *)d->log[info.slot][info.seq & 1], &info);
			info.slot = DDR_MAP_SLOT;
			ddr_log_encode((struct ddr_disk_log *)d->map[info.seq & 1], &info);
		}
	}
	for (uint32_t m = 0; m < s->sb0.members; m++)
		disk_landed(s, &s->disk[m], NULL);
	for (uint64_t b = 0; b < s->blocks; b++)
		for (uint32_t i = 0; i < ddr_geo_data(&s->g); i++)
			s->truth[b].base[i] = s->disk[ddr_geo_member(&s->g, i, b)].media[b];
}

static void world_init(struct sim *s, uint64_t seed, uint64_t events, uint32_t nodes)
{
	static const uint8_t shapes[][3] = {	/* order, parity, layout */
		{ 2, 1, 0 }, { 2, 1, 1 }, { 1, 1, 1 }, { 0, 1, 0 }, { 2, 2, 1 }, { 1, 2, 0 }, { 0, 2, 0 }, { 1, 0, 0 }, { 3, 1, 1 },
	};
	const uint8_t *shape;

	s->seed = seed;
	s->rng = seed * 0x9e3779b97f4a7c15u + 12345;
	s->events = events;
	shape = shapes[sim_rand(s, sizeof(shapes) / sizeof(shapes[0]))];
	s->geo.order = shape[0];
	s->geo.parity = shape[1];
	s->geo.layout = shape[2];
	s->geo.region_blocks = sim_chance(s, 3) ? 64 : 16;
	s->geo.blocks = s->geo.region_blocks * (4 + sim_rand(s, 10)) + (sim_chance(s, 3) ? 8 : 0);
	s->geo.slots = nodes;
	if (s->geo.order == 3 && seed % 2 == 0) {	/* not drawn, as below. Ranges of a rebuild cross turns there */
		s->geo.region_blocks = 512;
		s->geo.blocks = SIM_MAX_BLOCKS - (seed % 4 == 0 ? 200 : 0);
	}
	if (s->geo.blocks > SIM_MAX_BLOCKS)
		s->geo.blocks = SIM_MAX_BLOCKS;
	s->lossy = sim_chance(s, 12);
	s->geo.spares = (uint16_t)(s->geo.parity && !s->lossy ? sim_rand(s, 3) : 0);
	s->replaces = seed % 3 == 0 && !s->lossy;	/* not drawn: what happens in the other seeds stays as it was */
	if (s->replaces && !s->geo.spares)
		s->geo.spares = sim_keeps_copies(s) ? 4 : 1;
	rig_super(&s->sb0, &s->geo);
	ddr_super_geometry(&s->sb0, &s->g);
	s->blocks = s->geo.blocks;
	s->regions = (s->blocks + s->geo.region_blocks - 1) / s->geo.region_blocks;
	grow_init(s);
	s->faults_left = s->g.parity;
	s->slow_flush = sim_chance(s, 3);
	s->n_nodes = nodes;
	s->cluster = nodes > 1;
	s->node[0].id = 1;
	s->node[0].quorate = true;
	s->boot = SIM_BOOT;
	create(s);
}

/* ---- faults -------------------------------------------------------------------- */

/* The operator takes out a member that has not failed. */
static void operator_fails(struct sim *s, struct node *n)
{
	struct ddr_input in = { .type = DDR_IN_OP_FAIL_MEMBER, .member = (uint32_t)sim_rand(s, s->sb0.members) };

	if (!n->sm || !s->faults_left || s->disk[in.member].chosen)
		return;
	s->faults_left--;
	s->disk[in.member].chosen = true;
	node_step(s, n, &in);
}

/* Is the member out for every kernel? Before that its disk is no spare part. */
static bool nobody_uses(const struct sim *s, uint32_t member)
{
	for (const struct node *n = s->node; n < s->node + s->n_nodes; n++)
		for (uint32_t p = 0; n->k.there && p < DDR_UAPI_PLACES; p++)
			if (n->k.disk[p] == member && n->k.state[p] != DDR_KM_OUT)
				return false;
	return true;
}

/* A member that is out is put back, without what it had in its cache, and the operator says so on some node. Sometimes the disk is dead still. */
static bool operator_seeks(struct sim *s, struct node *n)
{
	struct ddr_input in = { .type = DDR_IN_OP_SEEK, .member = (uint32_t)sim_rand(s, s->sb0.members) };
	struct disk *d = &s->disk[in.member];
	struct ddr_super sb;

	if (!n->sm || s->lossy || !nobody_uses(s, in.member) || !check_newest_super(s, &sb) || sb.member[in.member].state == DDR_MEMBER_IN_SYNC ||
	    sb.member[in.member].state == DDR_MEMBER_REBUILDING || sb.member[in.member].state == DDR_MEMBER_SPARE)
		return false;
	if (!d->dead || !sim_chance(s, 4)) {
		disk_back(s, d);
		sim_trace(s, "member %u is back", in.member);
	}
	node_step(s, n, &in);
	return true;
}

/*
 * Without parity nobody knows what a node was writing that died, so its copy begins anew. Such an array has its spares once, and a copy hardly comes to its
 * end in time: in every other seed it has more of them, nobody takes one out, and who died stays away for so long (schedule.c).
 */
bool sim_keeps_copies(const struct sim *s)
{
	return s->replaces && !s->geo.parity && s->seed % 2 == 0;
}

/* A member that works is replaced by a spare, or what replaces one is taken out. */
bool sim_replace(struct sim *s, struct node *n)
{
	struct ddr_input in = { .type = DDR_IN_OP_REPLACE, .member = (uint32_t)sim_rand(s, s->sb0.members) };
	struct ddr_super sb;

	if (!n->sm || !check_newest_super(s, &sb))
		return false;
	for (uint32_t m = 0; m < sb.members; m++)
		if (sb.member[m].state == DDR_MEMBER_SPARE)
			in.value = m;
		else if ((sb.member[m].flags & DDR_MEMBER_F_REPLACING) && !sim_keeps_copies(s) && sim_chance(s, 3))
			in = (struct ddr_input){ .type = DDR_IN_OP_FAIL_MEMBER, .member = m };
	node_step(s, n, &in);
	return true;
}

/* A verify is begun, goes on, pauses or ends. */
static void operator_verifies(struct sim *s, struct node *n)
{
	struct ddr_input in = { .type = DDR_IN_OP_VERIFY, .key = sim_chance(s, 3) ? DDR_VERIFY_OP_PAUSE + (uint32_t)sim_rand(s, 2) : DDR_VERIFY_OP_START,
				.value = 1 + sim_rand(s, 5), .members = sim_chance(s, 2) ? DDR_VERIFY_F_REPAIR : 0 };

	if (n->sm)
		node_step(s, n, &in);
}

/* What is to be done with reads that may give garbage, in seeds of its own. */
static bool operator_decides(struct sim *s, struct node *n)
{
	struct ddr_input in = { .type = DDR_IN_OP_SET, .key = DDR_SM_SUSPECT_READS };

	if (s->seed % 7 != 3 || !n->sm || !sim_chance(s, 2))
		return false;
	in.value = sim_chance(s, 2);
	node_step(s, n, &in);
	return true;
}

/* The array cannot do without any member that it has left, and others than @n take part. */
static bool rule_4_applies(const struct sim *s, const struct node *n)
{
	uint32_t others = 0;
	struct ddr_super sb;

	for (const struct node *o = s->node; o < s->node + s->n_nodes; o++)
		others += o != n && o->sm && o->ready && o->quorate;
	return others && check_newest_super(s, &sb) && (uint32_t)__builtin_popcount(check_in_sync(&sb)) == ddr_geo_data(&s->g);
}

static void fails(struct sim *s, struct disk *d, enum disk_fault once)
{
	s->faults_left--;
	d->chosen = true;
	d->dead = once == FAULT_NONE;
	d->once = once;
	s->stats[STAT_FAULTS]++;
	sim_trace(s, "fault: member %d %s", (int)(d - s->disk), d->dead ? "is dead" : "will fail once");
}

/* What hardly happens by chance, in seeds of its own: it is a flush that a member fails. */
static bool flush_fails(struct sim *s, struct disk *d)
{
	if (s->seed % 5 != 1 || s->lossy || !s->faults_left || d->chosen || d->dead || d->once != FAULT_NONE)
		return false;
	fails(s, d, FAULT_FLUSH);
	return true;
}

/* The same: a disk that was partly copied dies as the array is used again after a crash. Without parity that would be one too many. */
static void old_disk_dies(struct sim *s)
{
	struct ddr_super sb;
	uint16_t role = DDR_ROLE_NONE;

	if (!s->replaces || s->seed % 2 || !s->faults_left || !check_newest_super(s, &sb))
		return;
	for (uint32_t m = 0; m < sb.members; m++)
		if ((sb.member[m].flags & DDR_MEMBER_F_REPLACING) && sb.member[m].cursor)
			role = sb.member[m].role;
	for (uint32_t m = 0; m < sb.members && role != DDR_ROLE_NONE; m++)
		if (sb.member[m].role == role && sb.member[m].state == DDR_MEMBER_IN_SYNC && !s->disk[m].chosen && !s->disk[m].dead)
			fails(s, &s->disk[m], FAULT_NONE);
}

/* Seeds of their own: the pool below one disk, or below all of them, is full for a while. */
static bool pool_fills(struct sim *s)
{
	uint32_t one = (uint32_t)sim_rand(s, 2 * s->sb0.members);
	uint64_t until = s->event + 50 + sim_rand(s, 1500);

	for (uint32_t m = 0; m < DDR_MAX_MEMBERS; m++)
		if (m == one || one >= s->sb0.members)
			s->disk[m].full_until = until;
	s->stats[STAT_FULL]++;
	sim_trace(s, "fault: no space on member %d (-1: any) until event %llu", one < s->sb0.members ? (int)one : -1, (unsigned long long)until);
	return true;
}

void sim_member_fault(struct sim *s, struct node *n)
{
	static const enum disk_fault costly[] = { FAULT_WRITE, FAULT_FLUSH, FAULT_META, FAULT_READ_IO };
	struct disk *d = &s->disk[sim_rand(s, s->sb0.members)];

	if (s->seed % 4 == 3 && sim_chance(s, 3) && pool_fills(s))
		return;
	if (flush_fails(s, d) || operator_decides(s, n))
		return;
	if (s->replaces && sim_chance(s, 3) && sim_replace(s, n))
		return;
	if (sim_chance(s, 3) && operator_seeks(s, n))
		return;
	if (sim_chance(s, 4)) {
		operator_verifies(s, n);
		return;
	}
	if (!s->cluster && sim_chance(s, 4)) {
		grow_wanted(s, n);
		return;
	}
	if (s->cluster && sim_chance(s, 6)) {
		operator_fails(s, n);
		return;
	}
	if (d->dead || d->once != FAULT_NONE)
		return;
	if (sim_chance(s, 3)) {
		d->once = sim_chance(s, 2) && s->g.parity ? FAULT_READ_MEDIUM : FAULT_NOSPC;
	} else if (s->lossy || (s->faults_left && !d->chosen)) {
		s->faults_left -= !s->lossy;
		d->chosen = true;
		if (s->cluster && sim_chance(s, 2))
			d->cut |= 1u << (n - s->node);
		else if (sim_chance(s, 2))
			d->dead = true;
		else
			d->once = costly[sim_rand(s, 4)];
	} else if (s->cluster && rule_4_applies(s, n)) {
		d->cut |= 1u << (n - s->node);
	} else {
		return;
	}
	d->was_cut |= d->cut;
	s->stats[STAT_FAULTS]++;
	sim_trace(s, "fault: member %d %s (%d), cut off from nodes %x", (int)(d - s->disk), d->dead ? "is dead" : "will fail once",
		  d->once, d->cut);
}

static void quorum(struct sim *s, struct node *n)
{
	n->quorate = !n->quorate;
	sim_trace(s, "quorum %s", n->quorate ? "regained" : "lost");
	if (n->sm)
		bus_view(s, n);
}

static void operator(struct sim *s, struct node *n)
{
	struct ddr_input in = { .type = DDR_IN_OP_SET };

	if (!n->sm)
		return;
	switch (sim_rand(s, 5)) {
	case 0:
		in.type = sim_chance(s, 3) ? DDR_IN_OP_STAY : DDR_IN_OP_CLEAN;
		break;
	case 1:
		in.key = DDR_SM_RESYNC_PARALLEL;
		in.value = 1 + sim_rand(s, 8);
		break;
	case 2:
		in.key = DDR_SM_RESYNC_PAUSED;
		in.value = sim_rand(s, 3) == 0;
		break;
	case 3:
		quorum(s, n);
		return;
	case 4:
		if (sim_chance(s, 4))
			operator_fails(s, n);
		return;
	}
	node_step(s, n, &in);
}

void sim_tick(struct sim *s, struct node *n, uint64_t ms)
{
	struct ddr_input in = { .type = DDR_IN_TICK };

	s->now += ms;
	in.now_ms = s->now;
	if (n->sm)
		node_step(s, n, &in);
	/* whether it uses the device: by the time, and not drawn, so that what a seed has in store stays as it is */
	if (n->sm && s->n_nodes > 1 && s->seed % 7 == 5)
		node_step(s, n, &(struct ddr_input){ .type = DDR_IN_OP_SET, .key = DDR_SM_USED, .value = (s->now / 3000 + s->seed + n->id) % 3 == 0 });
}

static void misfortune(struct sim *s, struct node *n)
{
	switch (sim_rand(s, 8)) {
	case 0:
		if (node_limit_open(s))
			break;
		node_power(s, n);
		s->stats[STAT_CRASHES]++;
		break;
	case 1:
	case 2:
		if (n->sm) {
			n->crash_after = (int)sim_rand(s, 6);
			s->stats[STAT_KILLS]++;
		}
		break;
	case 3:
	case 4:
		sim_member_fault(s, n);
		break;
	default:
		operator(s, n);
	}
}

/* ---- the schedule -------------------------------------------------------------- */

bool sim_progress(struct sim *s, struct node *n)
{
	switch (sim_rand(s, 3)) {
	case 0: return kernel_event(s, &n->k) || node_event(s, n) || bus_event(s);
	case 1: return node_event(s, n) || bus_event(s) || kernel_event(s, &n->k);
	default: return bus_event(s) || kernel_event(s, &n->k) || node_event(s, n);
	}
}

static void begin(struct sim *s, struct node *n)
{
	node_start(s, n);
	if (n->sm)
		old_disk_dies(s);
}

static void one_event(struct sim *s)
{
	struct node *n = &s->node[0];
	uint64_t what = sim_rand(s, 1000);

	s->event++;
	if (what < 6)
		misfortune(s, n);
	else if (what < 40)
		sim_tick(s, n, 1 + sim_rand(s, 3000));
	else if (!n->quorate && what < 60)
		quorum(s, n);
	else if (what < 200)
		kernel_start(s, &n->k, sim_chance(s, 8) ? OP_FLUSH : sim_chance(s, 8) ? OP_READ : sim_chance(s, 40) ? OP_MISMATCH : OP_WRITE);
	else if (!n->sm && node_may_start(n) && what < 300)
		begin(s, n);
	else
		sim_progress(s, n);
	if (sim_chance(s, 16))
		check_media(s);
	if (sim_chance(s, 16)) {
		check_visible(s, n);
		check_frozen(s, n);
	}
}

static bool at_rest(const struct sim *s, const struct node *n)
{
	struct ddr_sm_status st;

	if (!n->sm)
		return s->lossy;	/* nothing is left to start from */
	if (s->bus.n || node_io_count(n))
		return false;
	ddr_sm_get_status(n->sm, &st);
	if (st.failed && !n->k.enabled)
		return true;		/* it did not start, I/O waits */
	if (kernel_busy(&n->k))
		return false;
	if (st.failed)
		return true;
	if (ddr_sm_super(n->sm)->verify.state == DDR_VERIFY_RUNNING && !st.degraded)
		return false;
	return st.ready && !st.granted && !st.dirty && !st.resync_regions && (st.degraded || !st.needs_sync || !s->g.parity);
}

/* No faults and no new work any more: everything must come to an end within a bound. */
static void calm(struct sim *s)
{
	struct node *n = &s->node[0];
	struct ddr_input in = { .type = DDR_IN_OP_SET, .key = DDR_SM_RESYNC_PAUSED, .value = 0 }, stay = { .type = DDR_IN_OP_STAY };

	s->calm = true;
	grow_calm(s);
	for (uint32_t m = 0; m < DDR_MAX_MEMBERS; m++) {
		s->disk[m].once = FAULT_NONE;
		s->disk[m].full_until = 0;
	}
	n->crash_after = -1;
	if (!n->quorate) {
		n->quorate = true;
		if (n->sm)
			bus_view(s, n);
	}
	if (n->sm)
		node_step(s, n, &stay);
	if (n->sm)
		node_step(s, n, &in);
	for (uint64_t limit = s->event + 30000; !at_rest(s, n); s->event++) {
		if (s->event == limit)
			sim_violation(s, "liveness: it does not come to rest");
		if (!n->sm && node_may_start(n))
			node_start(s, n);
		else if (!sim_progress(s, n))
			sim_tick(s, n, 1000);
	}
	if (!s->lossy)
		check_final(s, n);
}

bool sim_run_seed(struct sim *s, uint64_t seed, uint64_t events, uint32_t nodes, bool trace, bool rules_only)
{
	volatile int end;

	memset(s, 0, sizeof(*s));
	s->trace = trace;
	s->rules_only = rules_only;
	end = setjmp(broken);
	if (end == 0) {
		world_init(s, seed, events, nodes);
		if (s->cluster)
			cluster_init(s);
		else
			node_start(s, &s->node[0]);
		while (s->event < events)
			(s->cluster ? cluster_one_event : one_event)(s);
		(s->cluster ? cluster_calm : calm)(s);
	}
	cluster_free(s);
	return end != 1;
}
