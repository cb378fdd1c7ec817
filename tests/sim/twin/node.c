// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The life of a real daemon in the simulator: what node.c and node_start.c are for one whose hands are ddrsim's. Also what happens to it next: a callback
 * of its loop, a thread that goes on, a request that ends. One thing happens at a time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <qb/qbloop.h>

#include "daemon/array/drive.h"
#include "daemon/group/ask.h"
#include "daemon/group/corosync.h"
#include "daemon/group/fence.h"
#include "daemon/group/link.h"
#include "daemon/kernel/table.h"
#include "daemon/kernel/uevent.h"
#include "twin.h"

#define TICK_MS		200u
#define LEAVE_MS	2000u	/* as in daemon/main.c */
#define STOOD_STILL_MS	2000u	/* as in daemon/array/drive.c */

struct proc twin_proc[SIM_MAX_NODES];
struct proc *me;
const bool sim_real = true;

/* ---- running its code -------------------------------------------------------------- */

void twin_effect(void)
{
	struct node *n = me->n;

	if (twin_in_thread())
		return;
	if (n->crash_after == 0 && !node_limit_open(me->s))
		longjmp(me->dies, 1);
	n->crash_after -= n->crash_after > 0;
}

struct ddr_array *twin_array(const struct proc *p)
{
	struct ddr_array *a;

	qb_list_for_each_entry(a, &p->d->arrays, list)
		return a;
	return NULL;
}

/* Since it began some member was not there, for it hung, or was cut off from this node alone (rule 4: that costs the node, and not the array). */
static bool unreachable(const struct proc *p)
{
	for (uint32_t m = 0; m < DDR_MAX_MEMBERS; m++)
		if (p->s->disk[m].hangs_until[p->n - p->s->node] > p->began_ms || (p->s->disk[m].cut >> (p->n - p->s->node) & 1))
			return true;
	return false;
}

bool twin_remembers_newer(const struct proc *p)
{
	struct ddr_super sb;

	return p->n->newer && check_newest_super(p->s, &sb) &&
	       (p->known.generation > sb.generation || (p->known.generation == sb.generation && memcmp(p->known.gen_id, sb.gen_id, sizeof(sb.gen_id)) != 0));
}

/* A table that nothing has used yet was made before members exchanged their roles. Who refuses it says which table is the right one by now. */
static bool outdated(const struct proc *p)
{
	const struct kernel *k = &p->n->k;
	struct ddr_super sb;

	if (!k->there || k->enabled || !check_newest_super(p->s, &sb))
		return false;
	for (uint32_t place = 0; place < p->s->g.roles; place++)
		if (k->disk[place] < sb.members && sb.member[k->disk[place]].role != place)
			return true;
	return false;
}

/* The operator removes the table, which nothing has used, and starts the array anew. */
static void starts_anew(struct proc *p)
{
	kernel_power(p->s, &p->n->k);
	node_kill(p->s, p->n);
}

static void table_is_back(struct proc *p)
{
	p->n->removed = false;
	kernel_new(p->s, &p->n->k);
	sim_trace(p->s, "node %u: the table of the array is there again", p->n->id);
	twin_control_tell(p, DDR_K_APPEARED, p->n->k.cookie, 0);
	twin_control_tell(p, DDR_K_RESUMED, 0, 0);
}

/* It has read a generation whose superblocks reached one disk only, before its writer and that disk died. Nothing rests on it, which no daemon can know. */
static bool lost_newest(const struct proc *p)
{
	struct ddr_super sb;

	return p->s->cluster && check_newest_super(p->s, &sb) && p->known.generation > sb.generation;
}

/*
 * Also if the array went on since it was read, which takes as long as a member hangs: then it is read again. And if it did between the operator's look
 * and this start: then the look is repeated.
 */
static bool says_older(struct proc *p)
{
	struct node *n = p->n;

	n->newer |= lost_newest(p);
	if (!p->remembered && !twin_remembers_newer(p) && !(n->newer && n->older))
		return false;
	n->older |= twin_remembers_newer(p);
	starts_anew(p);
	return true;
}

/*
 * The array was refused for a reason that ends now: another machine used it, its disks did not answer or were others, or one had superblocks that a
 * dying node wrote to it alone, its table was a wrong one.
 */
static bool ends_reason(struct proc *p)
{
	if (twin_not_adopted(p)) {
		p->n->adopts = true;
		node_kill(p->s, p->n);
		return true;
	}
	if (!twin_strangers_go(p) && !p->n->wrong_table && !outdated(p) && !sim_wipes_diverged(p->s))
		return false;
	p->n->wrong_table = 0;
	starts_anew(p);
	return true;
}

/* After whatever it did. */
static void settle(struct proc *p)
{
	struct node *n = p->n;
	struct ddr_array *a = twin_array(p);
	struct ddr_sm *sm = a && a->state == DDR_ARRAY_RUNNING ? a->sm : NULL;

	bool had = n->sm && !sm;

	n->another &= !sm || !n->ready || n->pid != n->adopt_pid;	/* else the array has its new id */
	if (had) {
		n->sm = NULL;
		twin_orphans(p->s, n);
		disk_forget_daemon(p->s, n);	/* as if it had died: what loads the array again writes all of it anew */
	}
	n->sm = sm;
	if (!a || !a->load)
		n->claims = 0;
	if (a && a->state == DDR_ARRAY_REFUSED && ends_reason(p))
		return;
	if (sm && twin_remembers_newer(p) && p->known.generation > ddr_sm_super(sm)->generation)
		sim_violation(p->s, "node %u has seen generation %llu, starts the array from generation %llu, and nobody said --older", n->id,
			      (unsigned long long)p->known.generation, (unsigned long long)ddr_sm_super(sm)->generation);
	if (a && a->state == DDR_ARRAY_REFUSED && says_older(p))
		return;
	if (n->removed && !n->k.there && sim_chance(p->s, 8))
		table_is_back(p);
	if (a && a->state == DDR_ARRAY_REFUSED && a->stamp.taken && p->s->rare.taken == n->id) {	/* the other one stops it, and this machine boots */
		if (!n->k.killed)
			sim_violation(p->s, "I3: node %u does not serve its array any more, and its kernel goes on", n->id);
		twin_given_back(p->s, n);
		node_power(p->s, n);
		return;
	}
	/* without a cluster, the id of the machine is what the array remembers */
	if (a && a->state == DDR_ARRAY_REFUSED && !p->s->cluster && (n->another || p->d->ident.fixed)) {
		n->adopts = n->another;
		n->hidden = false;
		node_kill(p->s, n);
		return;
	}
	if (a && a->state == DDR_ARRAY_REFUSED && !p->s->finding && !p->s->lossy && !p->absent && !p->was_refused && !unreachable(p))
		sim_violation(p->s, "node %u refuses the array: %s", n->id, a->error);
	if (a && a->stamp.taken && p->s->rare.taken != n->id)
		sim_violation(p->s, "I3: node %u stops its array for another machine, and there is none: %s", n->id, a->error);
	if (a && a->stamp.lost)
		sim_violation(p->s, "I3: node %u misses %u of its stamps, and no disk has lost one", n->id, a->stamp.lost);
	if (a && a->broken && a->cluster.gave_up) {	/* without its state machine: requests could not be made for too long */
		n->gave_up = true;
		p->s->stats[STAT_GAVE_UP]++;
	}
	if (n->gave_up || (a && a->state == DDR_ARRAY_REFUSED)) {
		node_kill(p->s, n);
	} else if (n->left && !a) {
		p->s->stats[STAT_LEFT]++;
		n->leaving = false;
		node_kill(p->s, n);
		n->left = true;
	} else if (had && !a && !n->k.there) {	/* it was stopped for too long to leave in order */
		n->leaving = false;
		node_kill(p->s, n);
	}
}

/* A process that stood still finds its timers first, perhaps; one that did not has heard of what ended. */
static void catch_up(struct proc *p)
{
	bool stood_still = p->s->now - p->ran_ms >= STOOD_STILL_MS;
	int fd;

	if (twin_stood_still(p)) {
		p->unheard = true;
		p->pulse_due = p->pulse + 1;
	}
	if (twin_stood_alone(p)) {
		p->unlooked = true;
		p->woke_ms = p->s->now;
	}
	p->ran_ms = p->s->now;
	if (stood_still)
		p->stood_ms = p->s->now;	/* what is next at this moment comes before these, too: it may be a view, whose word the world knows already */
	while (p->stood_ms != p->s->now && (fd = twin_request_overdue(p)) >= 0)
		twin_loop_event(p, fd);
}

void twin_run(struct proc *p, void (*what)(struct proc *p, const void *arg), const void *arg)
{
	if (setjmp(p->dies) == 0) {
		me = p;
		catch_up(p);
		what(p, arg);
		me = NULL;
		settle(p);
		return;
	}
	me = NULL;
	p->n->crash_after = -1;
	node_kill(p->s, p->n);
}

/* ---- start and end ------------------------------------------------------------------ */

static void on_tick(void *data)
{
	struct proc *p = data;

	qb_loop_timer_add(p->d->loop, QB_LOOP_MED, TICK_MS * QB_TIME_NS_IN_MSEC, p, on_tick, &p->tick);
	ddr_still_held(&p->d->still);
	ddr_arrays_retry(p->d);
	ddr_schedule_tick(p->d, ddr_now_ms());
	p->settled |= ddr_arrays_settled(p->d);		/* what main.c reports to the service manager, and when it leaves out ticks */
	p->rests = p->settled && ddr_arrays_rest(p->d);
}

static void on_control(void *ctx, const struct ddr_kctl_news *news)
{
	struct ddr_daemon *d = ctx;

	switch (news->what) {
	case DDR_KCTL_APPEARED: ddr_array_appeared(d, news->uuid, news->listed); return;
	case DDR_KCTL_RESUMED: ddr_array_resumed(d, news->uuid, news->as_bound); return;
	case DDR_KCTL_REMOVED: ddr_array_removed(d, news->uuid, news->cookie); return;
	case DDR_KCTL_LISTED: d->listed = true; return;
	case DDR_KCTL_LOST:		/* as in main.c */
		d->listed = false;
		ddr_arrays_close(d);
		return;
	}
}

static void configure(const struct sim *s, struct ddr_daemon *d, const struct node *n)
{
	ddr_conf_defaults(&d->conf);
	d->conf.node_id = n->id;
	d->conf.tune.hot_spare = 1;
	d->conf.settle_ms = 0;		/* by the machine that runs the simulator it would be another one on each */
	d->conf.tune.io_timeout_ms = 20000;
	if (s->rare.kinds >> RARE_WEDGE & 1)
		d->conf.owe_ms = 35000;
	strcpy(d->conf.fence_command, s->fencing && (s->finding != FINDING_T10 || n->id > 1) ? "agent" : DDR_FENCE_NONE);
	/* What the world does about it is the same. In the end a node may be lost with a disk that nobody can cut it off from: then the operator has it switched off. */
	if (s->cluster && !s->finding && !s->calm && s->seed % 4 == 1)
		d->conf.fence_method = DDR_FENCE_BY_STORAGE;
	if (s->cluster) {
		d->conf.away_ms = s->storm.away_ms;
		d->conf.tune.idle_ms = s->storm.idle_ms;
	}
	d->boot_id[0] = n->k.boot;
	d->boot_id[1] = (uint8_t)n->id;
	d->transport = s->cluster && !n->outside ? &ddr_transport_corosync : &ddr_transport_local;
}

/* As main.c does, but for what concerns a process. */
static void begin(struct proc *p, const void *arg)
{
	struct ddr_daemon *d = p->d = calloc(1, sizeof(*d));

	(void)arg;
	if (!d)
		abort();
	qb_list_init(&d->arrays);
	configure(p->s, d, p->n);
	d->loop = qb_loop_create();
	if (ddr_ident_open(&d->ident, d->loop, ""))
		longjmp(p->dies, 1);
	if (d->transport->cluster && (ddr_fence_fork(&d->fence) || ddr_asks_open(&d->asks, d->loop) || ddr_corosync_open(&d->corosync, d->loop, d->asks) || ddr_fence_open(d->fence, d->loop)))
		longjmp(p->dies, 1);
	if (ddr_kctl_open(&d->kctl, d->loop, on_control, d))
		longjmp(p->dies, 1);
	ddr_uevent_open(d, ddr_drive_uevent);
	qb_loop_timer_add(d->loop, QB_LOOP_MED, TICK_MS * QB_TIME_NS_IN_MSEC, p, on_tick, &p->tick);
}

/* The device of a dead member can often be opened; only its I/O fails. */
static bool still_there(struct sim *s)
{
	return s->cluster && (s->calm || sim_chance(s, 2));
}

/* start --older: for the generation that `ddraid start` found before, which is not always what is there by now. */
static void older(struct proc *p)
{
	struct ddr_super sb;
	uint64_t before = p->s->calm || !sim_chance(p->s, 4) ? 0 : 1;

	if (!check_newest_super(p->s, &sb))
		return;
	memcpy(p->d->older.uuid, p->s->sb0.array_uuid, sizeof(p->d->older.uuid));
	p->d->older.known.generation = sb.generation - before;
	memcpy(p->d->older.known.gen_id, sb.gen_id, sizeof(sb.gen_id));
}

bool node_may_start(const struct node *n)
{
	for (const struct proc *p = twin_proc; p < twin_proc + SIM_MAX_NODES; p++)
		if (p->n == n && p->alive)
			return false;
	return true;
}

void node_start(struct sim *s, struct node *n)
{
	struct proc *p = twin_of(s, n);

	twin_given_back(s, n);
	if (check_hopeless(s))
		return;		/* the node has seen a later generation, and does not start from an older one (note 8) */
	if (!check_newest_super(s, &n->sb)) {
		if (!s->lossy)
			sim_violation(s, "no member holds a valid superblock");
		return;
	}
	if (n->room < n->sb.array_blocks)
		n->room = s->room;
	n->failed = n->ready = n->clean = n->gave_up = n->leaving = n->left = n->stopped = false;
	n->quorate = !s->cluster;
	n->crash_after = -1;
	n->v_ring = n->q_ring = 0;
	n->pid++;
	if (!n->k.there) {
		n->wedged_until = 0;
		kernel_new(s, &n->k);
	}
	n->removed = false;
	*p = (struct proc){ .s = s, .n = n, .alive = true, .known = p->known, .file = p->file, .ran_ms = s->now, .began_ms = s->now };
	p->remembered = twin_remembers_newer(p);
	twin_group_begin(p);
	for (uint32_t m = 0; m < n->sb.members; m++) {
		s->disk[m].cut &= ~(1u << (n - s->node));	/* a node that lost its way to a member starts when it is mended */
		p->absent |= s->disk[m].dead && !still_there(s) ? 1u << m : 0;
	}
	n->no_module = s->calm || !sim_chance(s, 10) ? 0 : 1 + (uint32_t)sim_rand(s, 4);
	sim_trace(s, "node %u: daemon %u starts", n->id, n->pid);
	twin_run(p, begin, NULL);
	if (n->older && p->alive)
		older(p);
	if (n->adopts && p->alive) {
		n->adopt_pid = n->pid;
		twin_adopt(p);
	}
	n->adopts = false;
}

/* As main.c does when it has been told to end, and the rest is over (daemon/ending.c). */
static void ends(struct proc *p, const void *arg)
{
	struct ddr_daemon *d = p->d;

	(void)arg;
	ddr_uevent_close(d);
	ddr_arrays_close(d);
	ddr_kctl_close(d->kctl);
	ddr_fence_close(d->fence);
	ddr_link_close(d);
	ddr_corosync_close(d->corosync);
	ddr_ident_close(&d->ident);
	ddr_asks_close(d->asks, LEAVE_MS);
}

bool node_ends(struct sim *s, struct node *n)
{
	static struct ddr_sm_status st;
	struct proc *p = twin_of(s, n);

	if (!p->alive || n->stopped || n->leaving)
		return false;
	if (n->sm)
		ddr_sm_get_status(n->sm, &st);
	if (n->sm && st.failing)
		return false;		/* it tells the disks first, which takes less time than it has (daemon/ending.c) */
	sim_trace(s, "node %u: daemon ends", n->id);
	twin_run(p, ends, NULL);
	if (p->alive)
		node_kill(s, n);
	return true;
}

static void end(struct proc *p)
{
	p->alive = p->n->stopped = false;
	p->n->looks_at = p->n->claims = 0;
	twin_workers_end(p);
	twin_requests_orphaned(p->n);
	twin_close_all(p);
	twin_memory_end(p);
	p->table = NULL;
	p->n->sm = NULL;
}

/* A process that waits for a request does not end when it is killed. */
static bool driver_hangs(const struct sim *s, const struct node *n)
{
	const struct proc *p = twin_of(s, n);

	for (uint32_t m = 0; m < s->sb0.members; m++)
		if (twin_hangs(p, m) && twin_pending(p, m))
			return true;
	return false;
}

void node_kill(struct sim *s, struct node *n)
{
	struct proc *p = twin_of(s, n);

	sim_trace(s, "node %u: daemon dies", n->id);
	if (s->cluster)
		node_first_write_lands(s, n);
	n->stuck = s->finding == FINDING_T3 && n->up && n->in_group && driver_hangs(s, n);
	end(p);
	n->table_due = false;
	n->resize = 0;
	n->k.suspended = false;
	n->k.attached = false;
	n->k.n_queue = 0;
	disk_forget_daemon(s, n);	/* the next one writes all of it anew */
	twin_orphans(s, n);
	twin_group_end(p);
}

void node_free(struct sim *s, struct node *n)
{
	struct proc *p = twin_of(s, n);

	me = NULL;
	n->in_group = false;
	if (p->alive)
		end(p);
	n->sm = NULL;
	memset(p, 0, sizeof(*p));
	twin_disk_end();
}

void node_power(struct sim *s, struct node *n)
{
	sim_trace(s, "node %u: power is lost", n->id);
	if (twin_of(s, n)->alive)
		node_kill(s, n);
	twin_requests_power(s, n);
	twin_orphans(s, n);
	kernel_power(s, &n->k);
	if (s->cluster) {	/* the disks are not its own */
		check_death(s);
		return;
	}
	for (uint32_t m = 0; m < s->sb0.members; m++) {
		s->disk[m].faulted = 0;
		s->disk[m].dropped = false;	/* what it lost, the others have lost too */
		disk_power(s, &s->disk[m]);
		disk_landed(s, &s->disk[m], NULL);
	}
	check_crash(s);
	s->boot++;
}

/* ---- what happens to it ------------------------------------------------------------- */

static void call_back(struct proc *p, const void *arg)
{
	twin_loop_call(p, *(const unsigned int *)arg);
}

static void thread(struct proc *p, const void *arg)
{
	twin_worker_run(p, *(const unsigned int *)arg);
}

void twin_happens(struct proc *p, enum twin_what what, unsigned int which)
{
	switch (what) {
	case TWIN_LOOP: twin_run(p, call_back, &which); return;
	case TWIN_THREADS: twin_run(p, thread, &which); return;
	default:
		twin_request_end(p->s, p->n, which);
		twin_orphans(p->s, p->n);
	}
}

bool node_event(struct sim *s, struct node *n)
{
	const struct proc *p = twin_of(s, n);
	bool idle = !(p->alive && !n->stopped && (twin_loop_ready(p) || twin_workers_ready(p))) && !twin_requests(n);

	if (p->table && !n->stopped && (idle || sim_chance(s, 8)))
		return sim_act(s, act_of(n->table_due ? ACT_TABLE : ACT_RESIZE, n));
	if (idle)
		return false;
	return sim_act(s, s->tape && !s->tape->replay && !s->calm ? twin_choice(s, n) : act_of(ACT_RECORD, n));
}

static void table_done(struct proc *p, const void *arg)
{
	twin_table_done(p, *(const int *)arg);
}

static void table_ends(struct proc *p, int result)
{
	p->n->k.suspended = false;	/* whatever comes of it, the device is resumed */
	if (result == 0) {
		p->unseen = true;
		twin_control_tell(p, DDR_K_RESUMED, 0, 0);
	}
	twin_run(p, table_done, &result);
}

static int fails_to_load(struct node *n)
{
	int error = n->no_table;

	n->no_table = 0;
	return -error;
}

bool node_table(struct sim *s, struct node *n)
{
	struct proc *p = twin_of(s, n);
	uint32_t m = n->table_member;

	if (!n->table_due || !p->table || n->stopped)
		return false;
	if (n->no_table) {
		table_ends(p, fails_to_load(n));
		return true;
	}
	if (!n->sm || !n->k.there || !p->table->ctx)
		table_ends(p, -ENXIO);
	else if (m == DDR_NO_MEMBER ? n->table_place != DDR_UAPI_SHADOW || n->k.disk[n->table_place] == SIM_NOBODY : n->k.disk[n->table_place] == m)
		table_ends(p, -EALREADY);	/* or a place without a device, which the model kernel does not have */
	else if (m != DDR_NO_MEMBER && disk_gone(s, n, &s->disk[m]))
		table_ends(p, -ENXIO);
	else if (kernel_exchange(s, n))
		table_ends(p, 0);
	return true;
}

bool node_resizes(struct sim *s, struct node *n)
{
	struct proc *p = twin_of(s, n);

	if (!n->resize || !p->table || n->stopped)
		return false;
	if (n->no_table) {
		table_ends(p, fails_to_load(n));
		return true;
	}
	if (!n->sm || !n->k.there || !p->table->ctx) {
		table_ends(p, -ENXIO);
		return true;
	}
	grow_resize(s, n);
	table_ends(p, 0);
	return true;
}

bool node_seeks(struct sim *s, struct node *n)
{
	(void)s;
	(void)n;
	return false;
}

/* ---- what the world tells it --------------------------------------------------------- */

/* The operator, by the calls that the service for the command has. */
static void operator(struct ddr_array *a, const struct ddr_input *in)
{
	uint8_t unseen[16] = { 0xad, (uint8_t)in->value };	/* a disk that no node has */

	switch (in->type) {
	case DDR_IN_OP_SET: ddr_drive_set(a, (enum ddr_sm_key)in->key, in->value); return;
	case DDR_IN_OP_CLEAN: ddr_drive_clean(a); return;
	case DDR_IN_OP_STAY: ddr_drive_clean_late(a); return;
	case DDR_IN_OP_FAIL_MEMBER: ddr_drive_fail_by_hand(a, in->member); return;
	case DDR_IN_OP_SEEK: ddr_drive_seek(a, in->member); return;
	case DDR_IN_OP_ADD: ddr_drive_add(a, unseen); return;
	case DDR_IN_OP_WITHDRAW: ddr_drive_add_late(a, unseen); return;
	case DDR_IN_OP_REPLACE:
		if (in->value == DDR_NO_MEMBER)
			ddr_drive_replace_late(a, in->member);
		else
			ddr_drive_replace(a, in->member, (uint32_t)in->value);
		return;
	case DDR_IN_OP_GROW: ddr_drive_grow(a, in->count); return;
	case DDR_IN_OP_VERIFY: ddr_drive_verify(a, in->key, (uint32_t)in->value, in->members); return;
	case DDR_IN_OP_FENCE_ACK: ddr_drive_fence_ack(a, in->node); return;
	case DDR_IN_OP_ACCEPT: ddr_drive_accept(a); return;
	case DDR_IN_OP_LEAVE: return;	/* the daemon leaves by itself when the device is gone */
	default: sim_violation(a->d ? me->s : NULL, "an input that the daemon does not get, type %d", (int)in->type);
	}
}

/* The array as a command names it: by its uuid, its name, or that of its device. */
static struct ddr_array *named(const struct proc *p, const struct ddr_array *a)
{
	const char *names[] = { a ? a->uuid_text : "", a ? a->name : "", TWIN_DM_NAME, "none" };

	return ddr_array_find(p->d, names[sim_rand(p->s, p->s->calm || p->n->leaving ? 3 : 4)]);
}

/* What it does first, such as a tick after a rest, it does by what it knew before (step.c). */
static void hears(struct proc *p, const struct ddr_input *in)
{
	p->due = p->n->q_quorate && p->n->q_ring == p->n->v_ring;
	p->n->quorate = p->quorate;
	p->hears = true;
	p->news = in;
	twin_loop_event(p, in->type == DDR_IN_VIEW ? p->cpg_fd : p->quorum_fd);
	p->news = NULL;		/* a daemon that has just ended its connection does not read it */
	p->hears = false;
	p->n->quorate = p->quorate = p->due;
}

static void news(struct proc *p, const void *arg)
{
	const struct ddr_input *in = arg;
	struct ddr_array *a = twin_array(p);

	switch (in->type) {
	case DDR_IN_TICK:
		twin_loop_timers(p);
		return;
	case DDR_IN_MSG:
		p->news = in;
		twin_loop_event(p, p->cpg_fd);
		p->news = NULL;
		return;
	case DDR_IN_VIEW:
	case DDR_IN_QUORUM:
		hears(p, in);
		return;
	case DDR_IN_FENCED:
		p->news = in;
		twin_loop_event(p, p->fence_fd);
		p->news = NULL;
		return;
	case DDR_IN_K_DETACHED:
		twin_control_tell(p, DDR_K_REMOVED, p->cookie, 0);
		return;
	default:
		a = named(p, a);
		if (a && a->state == DDR_ARRAY_RUNNING)
			operator(a, in);
	}
}

void node_step(struct sim *s, struct node *n, const struct ddr_input *in)
{
	struct proc *p = twin_of(s, n);

	if (p->alive && !n->stopped)
		twin_run(p, news, in);
}

/* And all daemons have the same. */
bool node_has_id(const struct sim *s, const struct node *n)
{
	const struct ddr_daemon *d = twin_of(s, n)->d;

	for (const struct proc *p = twin_proc; p < twin_proc + SIM_MAX_NODES; p++)
		if (p->alive && memcmp(p->d->ident.id.cluster.id, d->ident.id.cluster.id, sizeof(d->ident.id.cluster.id)) != 0)
			return false;
	return d->ident.stored && (!d->transport->cluster || d->ident.id.cluster.agreed);
}

void node_owners(const struct node *n, struct ddr_owners *owners)
{
	*owners = twin_array(n ? me : NULL)->owners;
}

static void nothing(struct proc *p, const void *arg)
{
	(void)p;
	(void)arg;
}

void node_catches_up(struct sim *s, struct node *n)
{
	twin_run(twin_of(s, n), nothing, NULL);
}

/* Of node_start.c, for node_io.c, which does not read anything here. */
void node_load_blocks(struct sim *s, struct node *n, uint32_t in_sync, uint32_t slot, uint64_t since, bool unreadable)
{
	(void)n;
	(void)in_sync;
	(void)slot;
	(void)since;
	(void)unreadable;
	sim_violation(s, "the simulator reads for a real daemon");
}
