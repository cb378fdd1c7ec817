// SPDX-License-Identifier: GPL-2.0-or-later
/* A world as `create` makes it, and the schedule of one node. Several nodes: schedule.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include "check.h"
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

/* Stores what was broken, and the same without numbers: rules are distinguished by their text. */
__attribute__((format(printf, 2, 0)))
static void judge(struct sim *s, const char *fmt, va_list ap)
{
	struct verdict *v = s->verdict;
	size_t n = 0;

	v->broken = true;
	v->inside = s->tape && s->tape->inside;
	v->event = s->event;
	vsnprintf(v->text, sizeof(v->text), fmt, ap);
	if (!strstr(fmt, "%s")) {
		snprintf(v->rule, sizeof(v->rule), "%s", fmt);
		return;
	}
	for (const char *p = v->text; *p; p++) {
		bool digit = *p >= '0' && *p <= '9' && strncmp(v->text, "rule ", 5) != 0;

		if (!digit || !n || v->rule[n - 1] != '#')
			v->rule[n++] = digit ? '#' : *p;
	}
	v->rule[n] = 0;
}

void sim_violation(struct sim *s, const char *fmt, ...)
{
	va_list ap;

	if (s->verdict) {
		va_start(ap, fmt);
		judge(s, fmt, ap);
		va_end(ap);
		longjmp(broken, 1);
	}
	fflush(stdout);
	printf("seed %llu, event %llu: ", (unsigned long long)s->seed, (unsigned long long)s->event);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n  replay: ddrsim %s--seed %llu --events %llu --nodes %u --trace\n", sim_real ? "--daemon " : "", (unsigned long long)s->seed, (unsigned long long)s->events, s->n_nodes);
	longjmp(broken, 1);
}

void sim_abandon(struct sim *s, const char *why)
{
	sim_trace(s, "the run ends here: %s", why);
	s->stats[STAT_ABANDONED]++;
	longjmp(broken, 2);
}

/* ---- a world ------------------------------------------------------------------- */

/* An array as `create` leaves it: the data area keeps the old contents of the disks. */
static void create(struct sim *s)
{
	static struct ddr_owners owners;
	struct ddr_super sb = s->sb0;

	ddr_owners_init(&owners, &sb);
	for (uint32_t m = 0; m < s->sb0.members; m++) {
		struct ddr_log_info info = { .slot = 0, .seq = 1, .generation = 1 };
		struct disk *d = &s->disk[m];

		for (uint64_t b = 0; b < SIM_MAX_BLOCKS; b++)
			d->media[b] = sim_rand(s, UINT64_MAX);
		memcpy(info.array_uuid, sb.array_uuid, sizeof(info.array_uuid));
		sb.this_member = (uint16_t)m;
		for (unsigned int c = 0; c < 2; c++) {
			sb.seq = 2 + c;
			if (ddr_owners_encode(&owners, &sb, d->pages[c]).code)
				sim_violation(s, "the first owner pages are not valid");
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
	if (s->geo.order == 3 && seed % 2 == 0) {	/* not drawn, as below: ranges of a rebuild span several rotations there */
		s->geo.region_blocks = 512;
		s->geo.blocks = SIM_MAX_BLOCKS - (seed % 4 == 0 ? 200 : 0);
	}
	if (s->geo.blocks > SIM_MAX_BLOCKS)
		s->geo.blocks = SIM_MAX_BLOCKS;
	s->lossy = sim_chance(s, 12);
	s->geo.spares = (uint16_t)(s->geo.parity && !s->lossy ? sim_rand(s, 3) : 0);
	s->replaces = seed % 3 == 0 && !s->lossy;	/* not drawn, so that other seeds stay as they were */
	if (s->replaces && !s->geo.spares)
		s->geo.spares = sim_keeps_copies(s) ? 4 : 1;
	s->geo.owners = true;
	rig_super(&s->sb0, &s->geo);
	ddr_super_geometry(&s->sb0, &s->g);
	s->blocks = s->geo.blocks;
	s->regions = (s->blocks + s->geo.region_blocks - 1) / s->geo.region_blocks;
	grow_init(s);
	s->faults_left = s->g.parity;
	s->slow_flush = sim_chance(s, 3);
	s->n_nodes = nodes;
	s->cluster = nodes > 1;
	s->node[0].id = s->node[0].nid = 1;
	s->node[0].quorate = true;
	s->boot = SIM_BOOT;
	create(s);
}

/* ---- faults ----------------------------------------------------------------------- */

bool sim_quorate(struct sim *s, struct node *n)
{
	if (s->cluster || sim_real)	/* a daemon without a cluster does not know what quorum is */
		return false;
	n->quorate = !n->quorate;
	sim_trace(s, "quorum %s", n->quorate ? "regained" : "lost");
	if (n->sm)
		bus_view(s, n);
	return true;
}

static void quorum(struct sim *s, struct node *n)
{
	sim_act(s, act_of(ACT_QUORATE, n));
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
			sim_operator_fails(s, n);
		return;
	}
	sim_operator(s, n, &in, false);
}

void sim_tick(struct sim *s, struct node *n, uint64_t ms)
{
	struct ddr_input in = { .type = DDR_IN_TICK };

	s->now += ms;
	in.now_ms = s->now;
	if (s->cluster)
		cluster_settles(s);
	/* daemons of odd seeds sleep until a tick is due; for the others rig_step() sees that they might have. A real one decides itself. */
	if (n->sm && !sim_real && s->seed % 2 && s->now < ddr_sm_due(n->sm))
		n->slept = true;
	else if (n->sm)
		node_step(s, n, &in);
	n->slept &= n->sm && s->now < ddr_sm_due(n->sm);
	/* whether it uses the device: depends on the time, and is not drawn, so that other seeds stay as they are */
	if (n->sm && s->n_nodes > 1 && s->seed % 7 == 5)
		node_step(s, n, &(struct ddr_input){ .type = DDR_IN_OP_SET, .key = DDR_SM_USED, .value = (s->now / 3000 + s->seed + n->id) % 3 == 0 });
}

static void misfortune(struct sim *s, struct node *n)
{
	struct act a = act_of(ACT_KILL_SOON, n);

	switch (sim_rand(s, 8)) {
	case 0:
		s->stats[STAT_CRASHES] += sim_act(s, act_of(ACT_POWER_OFF, n));
		break;
	case 1:
	case 2:
		if (!n->sm)
			break;
		a.arg[0] = sim_rand(s, 6);
		sim_act(s, a);
		s->stats[STAT_KILLS]++;
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

static bool bus(struct sim *s)
{
	return s->bus.n && sim_act(s, act_of(ACT_BUS, NULL));
}

bool sim_progress(struct sim *s, struct node *n)
{
	switch (sim_rand(s, 3)) {
	case 0: return kernel_event(s, &n->k) || node_event(s, n) || bus(s);
	case 1: return node_event(s, n) || bus(s) || kernel_event(s, &n->k);
	default: return bus(s) || kernel_event(s, &n->k) || node_event(s, n);
	}
}

static void begin(struct sim *s, struct node *n)
{
	sim_act(s, act_of(ACT_START, n));
	if (n->sm)
		sim_old_disk_dies(s);
}

static void one_event(struct sim *s)
{
	struct node *n = &s->node[0];
	uint64_t what = sim_rand(s, 1000);
	struct act tick = act_of(ACT_TICK, n);

	s->event++;
	sim_pools(s);
	if (sim_real)
		world_event(s, n);
	tick.arg[0] = what >= 6 && what < 40 ? 1 + sim_rand(s, 3000) : 0;
	if (what < 6 && !rare_peace(s))
		misfortune(s, n);
	else if (what < 40)
		sim_act(s, tick);
	else if (!n->quorate && what < 60)
		quorum(s, n);
	else if (what < 200 && !rare_quiet(s))
		kernel_start(s, &n->k, sim_chance(s, 8) ? OP_FLUSH : sim_chance(s, 8) ? OP_READ : sim_chance(s, 40) ? OP_MISMATCH : OP_WRITE);
	else if (!n->sm && node_may_start(n) && what < 300)
		begin(s, n);
	else if (!sim_progress(s, n) && rare_quiet(s)) {
		tick.arg[0] = 1 + sim_rand(s, 1000);
		sim_act(s, tick);
	}
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
	if (node_held_for_good(s, n))
		return true;
	if (s->bus.n || node_io_count(n))
		return false;
	ddr_sm_get_status(n->sm, &st);
	if (st.failed && (!n->k.enabled || (sim_real && !n->k.serves)))
		return true;		/* it did not start, so I/O waits; or not again, and the kernel waits for ENABLE */
	if (kernel_busy(&n->k))
		return false;
	if (st.failed)
		return true;
	if (ddr_sm_super(n->sm)->verify.state == DDR_VERIFY_RUNNING && !st.degraded)
		return false;
	/* a change of members is on the disks, and its end on the way to the daemon itself */
	if (sim_real && !s->lossy && st.degraded && (uint32_t)__builtin_popcount(check_in_sync(check_super(s))) >= s->g.roles)
		return false;
	return st.ready && !st.granted && (!st.dirty || (st.degraded && !check_any_marked(s))) && !st.resync_regions && (st.degraded || !st.needs_sync || !s->g.parity);
}

/* No faults and no new work any more: everything must complete within a limit. */
void sim_calm(struct sim *s)
{
	struct node *n = &s->node[0];
	struct ddr_input in = { .type = DDR_IN_OP_SET, .key = DDR_SM_RESYNC_PAUSED, .value = 0 }, stay = { .type = DDR_IN_OP_STAY };

	world_calm(s);
	s->calm = true;
	grow_calm(s);
	for (uint32_t m = 0; m < DDR_MAX_MEMBERS; m++) {
		s->disk[m].once = FAULT_NONE;
		s->disk[m].full = false;
		disk_readable(&s->disk[m]);
		memset(s->disk[m].hangs_until, 0, sizeof(s->disk[m].hangs_until));
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
	for (uint64_t limit = s->event + (sim_real ? 300000 : 30000); !at_rest(s, n); s->event++) {
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

/* All that comes from the seed. */
static void schedule(struct sim *s)
{
	struct act a = act_of(ACT_CALM, NULL);

	if (s->cluster)
		cluster_begin(s);
	else
		sim_act(s, act_of(ACT_START, &s->node[0]));
	while (s->event < s->events)
		(s->cluster ? cluster_one_event : one_event)(s);
	a.arg[0] = s->rng;
	sim_act(s, a);
}

bool sim_run_seed(struct sim *s, const struct sim_run *r)
{
	volatile int end;

	memset(s, 0, sizeof(*s));
	s->trace = r->trace;
	s->rules_only = r->rules_only;
	s->finding = r->finding;
	s->verdict = r->verdict;
	end = setjmp(broken);
	if (end == 0) {
		world_init(s, r->seed, r->events, r->nodes);
		if (s->cluster)
			cluster_init(s);
		if (sim_real) {
			world_draw(s);
			rare_draw(s);
		}
		s->tape = r->tape;
		(s->tape && s->tape->replay ? tape_replay : schedule)(s);
	}
	cluster_free(s);
	return end != 1;
}
