// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The process group of all daemons (lib/node/group.c), among simulated processes: they start, end, are cut off from each other and meet again,
 * begin and end to take part in arrays, and each reads what is delivered to it in its own time. Whatever happens: all that are in the same two
 * views of an array in a row have got the same messages between them; and once nothing more happens each view has those that take part.
 *
 * The processes speak different versions, and so do the modules below them: a process says what both do, and where they do nothing in common none starts. Those that
 * are in a view use the same one there, which each of them speaks, and each one's module serves; and it moves up only while
 * nobody is missed: a process that ended, or was cut off, while it took part in an array is missed by the others until a message says that it is
 * dead, or its node takes part again.
 *
 * Each node stores the id of its cluster in its own time, and may end meanwhile, before or after that is durable; now and then it comes from another cluster. At
 * the end all have the same id, and whoever gave up another one knows that one, too. Whatever happens, the nodes agree on one id only: others are used
 * only if they were brought from another cluster.
 *
 * Some nodes are copies of others, and have the same machine id. No view has both, and who serves an array is not stopped by a copy that comes later.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lib/node/group.h"
#include "lib/node/verdict.h"
#include "lib/wire/msg.h"

#define NODES	5u
#define ARRAYS	3u
#define BOX	512u		/* deliveries that wait for a process */
#define OUT	64u
#define LOG	2048u
#define STEPS	600u		/* short worlds find more than long ones in the same time */
#define PROCESSES	256u
#define WORLDS	2000u

/* ---- the world ------------------------------------------------------------------ */

struct item {
	enum { MEMBERS, RING, MESSAGE } what;
	struct ddr_group_id now[NODES], left[NODES], from;
	unsigned int n, n_left;
	bool nodes, met;
	uint64_t ring;
	size_t len;
	uint8_t msg[DDR_NODE_MSG_MAX];
};

/* What an array of a process was told: a view, by its name, or a message, by its number. */
struct told {
	bool view;
	uint64_t what;
	uint64_t nodes;		/* of a view: its name without the version, and that */
	uint16_t version;
};

struct rides {
	int entry;		/* in the group; -1: none */
	struct ddr_group_view last;
	struct told *log;
	unsigned int n;
	bool sure;			/* it knows who is missed */
	uint32_t missed[NODES];		/* by its ride; 0: it is not */
};

struct process {
	struct ddr_group g;
	unsigned int node, pid, part;
	struct ddr_speaks module;	/* that was loaded when it started: it holds it */
	bool alive, stopped;
	struct item *box;
	unsigned int first, n;
	struct { size_t len; uint8_t msg[DDR_NODE_MSG_MAX]; } out[OUT];	/* given to the group service, and not ordered yet */
	unsigned int n_out;
	bool stores;			/* @ids */
	struct ddr_cluster_ids ids;
	struct rides array[ARRAYS];
	struct ddr_group_id seen[NODES];	/* its group, as it will have been told */
	unsigned int n_seen;
};

static struct {
	struct process *process;		/* all that ever were, in @pool */
	unsigned int n;
	struct process *of_node[NODES];		/* that lives, or NULL */
	unsigned int part[NODES];
	uint64_t ring[NODES];			/* of each partition */
	uint64_t rings, messages;
	uint32_t left[ARRAYS][NODES];		/* the ride that each node ended last on its own */
	struct ddr_speaks daemon[NODES], module[NODES];	/* versions of the next process of each node, and of the module that is loaded there */
	uint8_t machine[NODES];			/* its machine id, from 1 on */
	struct ddr_cluster_ids ids[NODES];	/* that it has stored */
	unsigned int ids_made;
	unsigned int down[NODES];		/* steps for which it does not start again */
	uint8_t agreed_on[16];			/* the id that the nodes have agreed on; zero: none */
	bool plain;				/* one release, no copies, and no nodes of other clusters; but power is often lost while an id is being agreed */
	struct { uint32_t dead, missed[NODES]; bool sure; } word[8192];	/* what each message of an array says besides */
	unsigned int rises, refused, copied, yielded, met, ended, ids_agreed, unfit;
	uint32_t seed;
} world;

static struct process *pool;			/* what they are made of, used again in each world */
static uint32_t running;			/* the seed of the world that has not ended */

static unsigned int any(unsigned int n)
{
	world.seed = world.seed * 1664525u + 1013904223u;
	return (world.seed >> 10) % n;
}

static void put(struct process *p, const struct item *item)
{
	assert_true(p->n < BOX);
	p->box[(p->first + p->n++) % BOX] = *item;
}

static bool is_in(const struct ddr_group_id *list, unsigned int n, struct ddr_group_id id)
{
	for (unsigned int i = 0; i < n; i++)
		if (list[i].node == id.node && list[i].pid == id.pid)
			return true;
	return false;
}

/* Each process is told who is in its partition, if that is news; @nodes: and then of which ring it is. */
static void change(bool nodes)
{
	for (unsigned int i = 0; i < NODES; i++) {
		struct process *p = world.of_node[i];
		struct item item = { .what = MEMBERS, .nodes = nodes };

		if (!p)
			continue;
		for (unsigned int j = 0; j < NODES; j++)
			if (world.of_node[j] && world.part[j] == world.part[i])
				item.now[item.n++] = (struct ddr_group_id){ j + 1, world.of_node[j]->pid };
		for (unsigned int j = 0; j < p->n_seen; j++)
			if (!is_in(item.now, item.n, p->seen[j]))
				item.left[item.n_left++] = p->seen[j];
		for (unsigned int j = 0; j < item.n; j++)
			item.met |= nodes && !is_in(p->seen, p->n_seen, item.now[j]);
		if (item.n != p->n_seen || item.n_left)
			put(p, &item);
		memcpy(p->seen, item.now, sizeof(item.now));
		p->n_seen = item.n;
		item = (struct item){ .what = RING, .ring = world.ring[world.part[i]] };
		if (nodes)
			put(p, &item);
	}
}

static void start_process(unsigned int node)
{
	struct process *p = &world.process[world.n];
	struct item ring = { .what = RING, .ring = world.ring[world.part[node]] };
	struct ddr_speaks speaks;
	uint8_t machine[16] = { world.machine[node] };
	struct item *box = p->box ? p->box : malloc(BOX * sizeof(*box));
	struct told *log = p->array[0].log ? p->array[0].log : malloc(ARRAYS * LOG * sizeof(*log));

	assert_true(box && log);
	memset(p, 0, sizeof(*p));
	p->box = box;
	p->array[0].log = log;
	if (!ddr_speaks_both(world.daemon[node], world.module[node], &speaks)) {
		world.unfit++;
		return;
	}
	world.n++;
	p->module = world.module[node];
	p->node = node;
	p->pid = 100 + world.n;
	p->alive = true;
	for (unsigned int a = 0; a < ARRAYS; a++) {
		p->array[a].entry = -1;
		p->array[a].log = log + a * LOG;
	}
	ddr_group_init(&p->g, node + 1, p->pid, speaks.lowest, speaks.highest);
	ddr_group_machine(&p->g, machine);
	ddr_cluster_stored(&p->g, &world.ids[node]);
	world.of_node[node] = p;
	put(p, &ring);
	change(false);
}

static bool is_brought(const uint8_t id[16])
{
	return id[2] != 0;
}

/* What it stores is durable. From that moment on an agreed id may be used. */
static void keep(struct process *p)
{
	struct ddr_cluster_ids *old = &world.ids[p->node];
	const uint8_t none[16] = { 0 };

	if (old->agreed && memcmp(old->id, p->ids.id, 16) != 0) {
		assert_memory_equal(p->ids.other, old->id, 16);
		world.met++;
	}
	if (p->ids.agreed && !is_brought(p->ids.id)) {
		if (memcmp(world.agreed_on, none, 16) == 0)
			memcpy(world.agreed_on, p->ids.id, 16);
		assert_memory_equal(world.agreed_on, p->ids.id, 16);
	}
	assert_true(p->ids.promised >= old->promised && p->ids.ballot >= old->ballot);
	*old = p->ids;
}

static void end_process(unsigned int node)
{
	struct process *p = world.of_node[node];

	if (p->stores && any(2))
		keep(p);
	p->alive = false;
	world.of_node[node] = NULL;
	change(false);
}

/* The oldest message of the process gets its place in the order. */
static void order(struct process *p)
{
	struct item item = { .what = MESSAGE, .from = { p->node + 1, p->pid }, .len = p->out[0].len };

	memcpy(item.msg, p->out[0].msg, item.len);
	memmove(&p->out[0], &p->out[1], --p->n_out * sizeof(p->out[0]));
	for (unsigned int i = 0; i < NODES; i++)
		if (world.of_node[i] && world.part[i] == world.part[p->node])
			put(world.of_node[i], &item);
}

/* ---- a process ------------------------------------------------------------------ */

static void queue(struct process *p, const uint8_t *msg, size_t len)
{
	p->out[p->n_out].len = len;
	memcpy(p->out[p->n_out++].msg, msg, len);
}

static void flush(struct process *p)
{
	uint8_t msg[DDR_NODE_MSG_MAX];
	size_t len;

	while (p->n_out < OUT && (len = ddr_group_next(&p->g, msg, sizeof(msg))) > 0) {
		queue(p, msg, len);
		ddr_group_sent(&p->g);
	}
}

static uint64_t nodes_of(const struct ddr_group_view *v)
{
	uint64_t name = v->ring * 0x9e3779b97f4a7c15u + v->n;

	for (uint32_t i = 0; i < v->n; i++)
		name = (name ^ ((uint64_t)v->node[i] << 32 | v->number[i])) * 0x9e3779b97f4a7c15u;
	return name;
}

static uint64_t name_of(const struct ddr_group_view *v)
{
	return (nodes_of(v) ^ v->version) * 0x9e3779b97f4a7c15u;
}

static struct told *note(struct rides *r, bool view, uint64_t what)
{
	assert_true(r->n < LOG);
	r->log[r->n] = (struct told){ .view = view, .what = what };
	return &r->log[r->n++];
}

static const struct process *process_of(uint32_t ride)
{
	for (unsigned int i = 0; i < world.n; i++)
		if (world.process[i].pid == ride >> 10)
			return &world.process[i];
	fail_msg("a ride of no process");
	return NULL;
}

static const struct ddr_group_version *use_of(uint32_t ride)
{
	return &process_of(ride)->g.use;
}

/* Who is in the view is not missed, and who is no more is, unless it ended on its own. */
static void note_missed(struct rides *r, unsigned int array, const struct ddr_group_view *v)
{
	for (uint32_t j = 0; j < r->last.n; j++)
		if (world.left[array][r->last.node[j] - 1] != r->last.number[j])
			r->missed[r->last.node[j] - 1] = r->last.number[j];
	for (uint32_t i = 0; i < v->n; i++)
		r->missed[v->node[i] - 1] = 0;
	r->sure |= v->n == 1 && r->last.n == 0;		/* the first one begins afresh */
}

static bool complete(const struct process *p)
{
	for (unsigned int a = 0; a < ARRAYS; a++) {
		if (p->array[a].entry < 0)
			continue;
		if (!p->array[a].sure || !p->array[a].last.n)
			return false;
		for (unsigned int i = 0; i < NODES; i++)
			if (p->array[a].missed[i])
				return false;
	}
	return true;
}

/* The version has moved up: nobody is missed who does not speak it. */
static void check_rise(const struct process *p)
{
	world.rises++;
	for (unsigned int a = 0; a < ARRAYS; a++)
		for (unsigned int i = 0; i < NODES && p->array[a].entry >= 0 && p->array[a].sure; i++)
			if (p->array[a].missed[i])
				assert_true(use_of(p->array[a].missed[i])->highest >= p->g.use.version);
}

/* A node whose ride is another one was not there in between. */
static void check_rides(const struct rides *r, const struct ddr_group_view *v)
{
	for (uint32_t i = 0; i < v->n; i++)
		for (uint32_t j = 0; j < r->last.n; j++)
			if (r->last.node[j] == v->node[i])
				assert_int_equal(r->last.number[j], v->number[i]);
}

/* Note 51: what is agreed in a view each node's kernel has to do. */
static void check_modules(const struct ddr_group_view *v)
{
	for (uint32_t i = 0; i < v->n && v->version; i++) {
		const struct ddr_speaks *module = &process_of(v->number[i])->module;

		assert_true(module->lowest <= v->version && v->version <= module->highest);
	}
}

/* A machine is in no view twice. */
static void check_machines(const struct ddr_group_view *v)
{
	for (uint32_t i = 0; i < v->n; i++)
		for (uint32_t j = 0; j < i; j++)
			assert_int_not_equal(use_of(v->number[i])->machine[0], use_of(v->number[j])->machine[0]);
}

/* Another node has its machine id, and serves arrays: it stops at once, and the others miss it until they know that it is dead. */
static void yield(struct process *p)
{
	const struct ddr_group_process *self = NULL;

	for (unsigned int i = 0; i < p->g.n; i++)
		if (p->g.process[i].id.node == p->g.self.node)
			self = &p->g.process[i];
	for (unsigned int a = 0; ddr_version_copied(&p->g) && a < ARRAYS; a++) {
		if (p->array[a].entry < 0 || !p->array[a].last.n)
			continue;
		assert_true(ddr_version_twin(&p->g, self)->n > 0);
		ddr_group_off(&p->g, (unsigned int)p->array[a].entry);
		p->array[a].entry = -1;
		world.yielded++;
	}
}

static void tell(struct process *p)
{
	struct ddr_group_view v;
	bool rises = false;

	if (!p->g.changed)
		return;
	p->g.changed = false;
	yield(p);
	for (unsigned int a = 0; a < ARRAYS; a++)
		while (p->array[a].entry >= 0 && ddr_group_view(&p->g, (unsigned int)p->array[a].entry, &v) == DDR_GROUP_NEW_VIEW) {
			struct told *t = note(&p->array[a], true, name_of(&v));

			check_rides(&p->array[a], &v);
			check_machines(&v);
			check_modules(&v);
			note_missed(&p->array[a], a, &v);
			assert_true(!v.version || (v.version >= p->g.use.lowest && v.version <= p->g.use.highest));
			rises |= p->array[a].last.n && p->array[a].last.version && v.version > p->array[a].last.version;
			p->array[a].last = v;
			t->nodes = nodes_of(&v);
			t->version = v.version;
		}
	if (rises)
		check_rise(p);
}

/* What a message says besides. */
static void hear(struct rides *r, uint32_t serial)
{
	for (unsigned int i = 0; i < NODES; i++) {
		if (world.word[serial].dead && r->missed[i] == world.word[serial].dead)
			r->missed[i] = 0;
		if (world.word[serial].sure && !r->sure && !r->missed[i] && world.word[serial].missed[i] != world.word[serial].dead)
			r->missed[i] = world.word[serial].missed[i];
	}
	for (uint32_t i = 0; i < r->last.n; i++)
		r->missed[r->last.node[i] - 1] = 0;
	r->sure |= world.word[serial].sure;
}

static void read_message(struct process *p, const struct item *item)
{
	unsigned int entry;
	struct ddr_msg m;
	const char *why;

	switch (ddr_group_deliver(&p->g, item->from, item->msg, item->len, &entry, &why)) {
	case DDR_GROUP_OF_ARRAY:
		assert_null(ddr_msg_decode(item->msg, item->len, &m));
		for (unsigned int a = 0; a < ARRAYS; a++)
			if (p->array[a].entry == (int)entry) {
				note(&p->array[a], false, m.use.used | (uint64_t)m.serial << 32);
				hear(&p->array[a], m.serial);
			}
		break;
	case DDR_GROUP_DROPPED:		/* it was sent in another partition, or before the process took part again */
	case DDR_GROUP_TAKEN:
		break;
	case DDR_GROUP_EXCLUDED:
		fail_msg("nobody is silent here");
	}
}

static void read_one(struct process *p)
{
	struct item *item = &p->box[p->first];

	p->first = --p->n ? (p->first + 1) % BOX : 0;	/* few pages are touched */
	if (item->what == MEMBERS)
		assert_true(ddr_group_members(&p->g, item->now, item->n, item->left, item->n_left, item->nodes, item->met));
	else if (item->what == RING)
		ddr_group_ring(&p->g, item->ring);
	else
		read_message(p, item);
	tell(p);
	flush(p);
}

static void uuid_of(unsigned int array, uint8_t uuid[16])
{
	memset(uuid, 0, 16);
	uuid[0] = (uint8_t)(array + 1);
}

static void take_part(struct process *p, unsigned int array)
{
	uint8_t uuid[16];

	uuid_of(array, uuid);
	p->array[array].entry = ddr_group_ride(&p->g, uuid);
	assert_true(p->array[array].entry >= 0);
	ddr_group_begin(&p->g, (unsigned int)p->array[array].entry);
	assert_int_equal(ddr_group_ride(&p->g, uuid), -EEXIST);
	p->array[array].last.n = 0;
	p->array[array].sure = false;
	memset(p->array[array].missed, 0, sizeof(p->array[array].missed));
	note(&p->array[array], true, 0);	/* what it was told before counts no more */
	flush(p);
}

static void part(struct process *p, unsigned int array)
{
	world.left[array][p->node] = p->g.array[p->array[array].entry].ride.number;
	ddr_group_off(&p->g, (unsigned int)p->array[array].entry);
	p->array[array].entry = -1;
	flush(p);
}

/* @dead: the ride of one that is missed, and is known to be dead by now; 0: of none. */
static void say(struct process *p, unsigned int array, uint32_t dead)
{
	struct ddr_msg m = { .type = DDR_M_USE, .sender = p->node + 1, .ring = 1, .serial = (uint32_t)++world.messages };
	const struct rides *r = &p->array[array];
	uint8_t buf[DDR_MSG_MAX];

	if (p->n_out == OUT || p->g.array[r->entry].stage != DDR_GROUP_RIDES)
		return;
	assert_true(m.serial < sizeof(world.word) / sizeof(world.word[0]));
	world.word[m.serial].dead = dead;
	world.word[m.serial].sure = r->sure && r->last.n;
	memcpy(world.word[m.serial].missed, r->missed, sizeof(r->missed));
	uuid_of(array, m.uuid);
	queue(p, buf, ddr_msg_encode(&m, buf, sizeof(buf)));
}

/* One that is missed is found to be dead: nobody misses it from then on. */
static bool find_dead(struct process *p, unsigned int array)
{
	for (unsigned int i = 0; i < NODES; i++)
		if (p->array[array].missed[i]) {
			say(p, array, p->array[array].missed[i]);
			return true;
		}
	return false;
}

static bool rise(struct process *p)
{
	if (!ddr_version_may_rise(&p->g) || p->g.use.ready_due || !complete(p))
		return false;
	ddr_version_rise(&p->g);
	flush(p);
	return true;
}

/* Of the nodes, whose machines are up whether a process runs there or not, more than half are here. */
static bool quorate(const struct process *p)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < NODES; i++)
		n += world.part[i] == world.part[p->node];
	return n > NODES / 2;
}

static bool has_id(const struct ddr_cluster_ids *ids)
{
	return ids->id[0] || ids->id[1];
}

/* It begins to store an id, or has stored it. */
static bool store(struct process *p)
{
	struct ddr_node_verdict votes = { .quorum = NODES / 2 + 1 };
	enum ddr_cluster_step step;

	if (p->stores) {
		p->stores = false;
		keep(p);
		ddr_cluster_stored(&p->g, &world.ids[p->node]);
		flush(p);
		return true;
	}
	ddr_verdict_voters(&p->g, &votes);
	for (uint32_t i = 0; i < votes.n; i++)
		votes.node[i].votes = 1;
	if (p->n || p->g.ring != world.ring[world.part[p->node]] || !quorate(p))
		return false;
	step = ddr_cluster_next(&p->g, &votes, &p->ids);
	if (step != DDR_CLUSTER_STORE && step != DDR_CLUSTER_CREATE)
		return false;
	assert_true(step != DDR_CLUSTER_CREATE || !has_id(&p->ids));
	if (step == DDR_CLUSTER_CREATE) {
		p->ids.id[0] = (uint8_t)++world.ids_made;
		p->ids.id[1] = (uint8_t)(world.ids_made >> 8);
	}
	p->stores = true;
	return true;
}

/* ---- what has to hold ------------------------------------------------------------- */

/* How often the view was told before place @at: it can come again, when who came in between has left. */
static unsigned int times_before(const struct rides *r, unsigned int at)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < at; i++)
		n += r->log[i].view && r->log[i].what == r->log[at].what;
	return n;
}

/* The place at which the view was told for the time after @times times; -1: it was not. */
static int view_at(const struct rides *r, uint64_t name, unsigned int times)
{
	for (unsigned int i = 0; i < r->n; i++)
		if (r->log[i].view && r->log[i].what == name && times-- == 0)
			return (int)i;
	return -1;
}

static unsigned int next_view(const struct rides *r, unsigned int at)
{
	while (at < r->n && !r->log[at].view)
		at++;
	return at;
}

/* From the view at @i of @x and at @j of @y on, up to the next of each. */
static void same_messages(const struct rides *x, unsigned int i, const struct rides *y, unsigned int j)
{
	unsigned int x_end = next_view(x, i + 1), y_end = next_view(y, j + 1);
	bool both = x_end < x->n && y_end < y->n && x->log[x_end].what == y->log[y_end].what && x->log[x_end].what;

	for (i++, j++; i < x_end && j < y_end; i++, j++)
		assert_true(x->log[i].what == y->log[j].what);
	if (both)
		assert_true(i == x_end && j == y_end);
}

static void check_order(void)
{
	for (unsigned int a = 0; a < ARRAYS; a++)
		for (unsigned int p = 0; p < world.n; p++)
			for (unsigned int q = p + 1; q < world.n; q++) {
				const struct rides *x = &world.process[p].array[a], *y = &world.process[q].array[a];

				for (unsigned int i = next_view(x, 0); i < x->n; i = next_view(x, i + 1)) {
					int j = x->log[i].what ? view_at(y, x->log[i].what, times_before(x, i)) : -1;

					if (j >= 0)
						same_messages(x, i, y, (unsigned int)j);
				}
			}
}

/*
 * The time for which these nodes were told as a view: the same for all that are in it, and its version too. A view in which nobody may speak, for
 * want of a common version, is not told to those who have none yet.
 */
static void check_versions(const struct rides *x, const struct rides *y)
{
	for (unsigned int i = 0; i < x->n; i++) {
		unsigned int times = 0, j = 0;

		for (unsigned int k = 0; k < i && x->log[i].nodes; k++)
			times += x->log[k].version && x->log[k].nodes == x->log[i].nodes;
		for (; x->log[i].version && j < y->n; j++)
			if (y->log[j].version && y->log[j].nodes == x->log[i].nodes && times-- == 0)
				break;
		if (x->log[i].version && j < y->n)
			assert_int_equal(x->log[i].version, y->log[j].version);
	}
}

static void check_all_versions(void)
{
	for (unsigned int a = 0; a < ARRAYS; a++)
		for (unsigned int p = 0; p < world.n; p++)
			for (unsigned int q = p + 1; q < world.n; q++)
				check_versions(&world.process[p].array[a], &world.process[q].array[a]);
}

/* Nobody is missed any more: all who are not refused use the highest version that all of them speak, and all know whom that is. */
static void check_highest(void)
{
	const struct process *first = NULL;

	for (unsigned int i = 0; i < NODES; i++) {
		const struct process *p = world.of_node[i];
		uint16_t most = UINT16_MAX;
		bool any = false;

		if (!p)
			continue;
		first = first ? first : p;
		assert_false(p->g.use.pending);
		assert_int_equal(p->g.use.version, first->g.use.version);
		for (unsigned int k = 0; k < p->g.n; k++) {
			const struct ddr_group_vote *v = &p->g.process[k].vote;

			any |= v->fits;
			most = v->fits && v->highest < most ? v->highest : most;
			for (unsigned int l = 0; l < first->g.n; l++)
				if (first->g.process[l].id.node == p->g.process[k].id.node)
					assert_int_equal(first->g.process[l].vote.fits, v->fits);
		}
		if (any)
			assert_int_equal(p->g.use.version, most);
		world.refused += !ddr_version_fits(&p->g);
	}
}

static uint32_t rides_of(const struct process *p)
{
	uint32_t n = 0;

	for (unsigned int i = 0; i < DDR_NODE_RIDES; i++)
		n += p->g.array[i].stage == DDR_GROUP_RIDES;
	return n;
}

/* Of two with one machine id who takes part in nothing is refused, also if the other does not either. */
static void check_copies(void)
{
	for (unsigned int i = 0; i < NODES; i++) {
		struct process *p = world.of_node[i];
		bool copied = false;

		for (unsigned int j = 0; p && j < NODES; j++)
			if (j != i && world.of_node[j] && world.of_node[j]->g.use.machine[0] == p->g.use.machine[0])
				copied |= !rides_of(p) || (rides_of(world.of_node[j]) && j < i);
		if (p)
			assert_int_equal(ddr_version_copied(&p->g), copied);
		world.copied += copied;
	}
}

/* All who are not refused have the same id, and use it; and they have one, if arrays are served and they are more than half of the nodes. */
static void check_ids(void)
{
	const struct ddr_cluster_ids *first = NULL;
	bool served = false, agreed = false;
	unsigned int n = 0;

	for (unsigned int i = 0; i < NODES; i++) {
		const struct process *p = world.of_node[i];

		if (!p || !ddr_version_fits(&p->g))
			continue;
		n++;
		served |= rides_of(p) > 0;
		agreed |= world.ids[i].agreed;
	}
	assert_true(agreed || !served || n <= NODES / 2);
	for (unsigned int i = 0; agreed && i < NODES; i++) {
		const struct process *p = world.of_node[i];

		if (!p || !ddr_version_fits(&p->g))
			continue;
		first = first ? first : &world.ids[i];
		assert_true(world.ids[i].agreed);
		assert_memory_equal(first->id, world.ids[i].id, 16);
	}
	world.ids_agreed += agreed && !is_brought(first->id);
}

/* The last view that each was told is the one that there is. */
static void check_views(void)
{
	for (unsigned int a = 0; a < ARRAYS; a++) {
		struct ddr_group_view v = { .ring = world.ring[0] };

		for (unsigned int i = 0; i < NODES; i++) {
			struct process *p = world.of_node[i];

			if (!p || p->array[a].entry < 0 || p->g.array[p->array[a].entry].stage != DDR_GROUP_RIDES || ddr_version_copied(&p->g))
				continue;
			v.node[v.n] = i + 1;
			v.number[v.n++] = p->g.array[p->array[a].entry].ride.number;
		}
		for (unsigned int i = 0; i < NODES; i++) {
			struct process *p = world.of_node[i];
			uint64_t last = 0;

			if (!p || p->array[a].entry < 0 || (ddr_version_copied(&p->g) && rides_of(p)))
				continue;
			if (p->g.array[p->array[a].entry].stage != DDR_GROUP_RIDES) {
				assert_false(ddr_version_fits(&p->g));
				continue;
			}
			v.version = ddr_version_of(&p->g, &v);
			for (unsigned int k = 0; k < p->array[a].n; k++)
				last = p->array[a].log[k].view ? p->array[a].log[k].what : last;
			if (v.version || last)
				assert_true(last == name_of(&v));
		}
	}
}

/* ---- what happens ----------------------------------------------------------------- */

/* Some nodes go into partition 0, the others into 1; or all into 0. A ring that has other nodes is another one. */
static void divide(bool whole)
{
	for (unsigned int i = 0; i < NODES; i++)
		world.part[i] = whole ? 0 : any(2);
	world.ring[0] = ++world.rings;
	world.ring[1] = ++world.rings;
	change(true);
}

/* Most nodes lose their power at once, and some of them come back only when the others have gone on. */
static void black_out(void)
{
	for (unsigned int i = 0; i < NODES; i++) {
		if (!world.of_node[i] || !any(3))
			continue;
		end_process(i);
		world.down[i] = any(3) ? 0 : any(500);
	}
}

static void act(void)
{
	unsigned int node = any(NODES), array = any(ARRAYS);
	struct process *p = world.of_node[node];

	for (unsigned int i = 0; i < NODES; i++)
		world.down[i] -= world.down[i] > 0;

	switch (any(60)) {
	case 0:
		divide(any(3) > 0);
		return;
	case 1:
	case 2:
		if (!p && !world.plain && any(3) == 0) {	/* another release is installed */
			world.daemon[node].lowest = (uint16_t)(1 + any(8) / 6);
			world.daemon[node].highest = (uint16_t)(world.daemon[node].lowest + any(3));
		}
		if (!p && !world.plain && any(2))		/* and its module is loaded, perhaps later */
			world.module[node] = world.daemon[node];
		if (!p && !world.plain && any(12) == 0)	/* it was in another cluster meanwhile */
			world.ids[node] = (struct ddr_cluster_ids){ .id = { (uint8_t)(world.ids_made + 1), (uint8_t)(++world.ids_made >> 8), 1 }, .agreed = true };
		if (!p && !world.plain)			/* its disk image is copied, or it gets an id of its own */
			world.machine[node] = (uint8_t)(1 + (any(4) == 0 ? any(NODES) : node));
		if (!p && !world.down[node])
			start_process(node);
		else if (!p)
			return;
		else if (any(3) == 0)
			end_process(node);
		return;
	case 3:
		if (p && any(2))
			p->stopped = !p->stopped;
		return;
	case 4:
	case 5:
	case 6:
	case 7:
		if (!p && world.plain && !world.down[node])
			start_process(node);
		break;
	default:
		break;
	}
	p = world.of_node[node];
	if (!p || p->stopped)
		return;
	if (any(6) == 0 && store(p) && world.plain && any(4) == 0)
		black_out();
	if (!p->alive)
		return;
	if (p->array[array].entry < 0 && any(8) == 0)
		take_part(p, array);
	else if (p->array[array].entry >= 0 && any(30) == 0)
		part(p, array);
	else if (p->array[array].entry >= 0 && any(8) == 0)
		find_dead(p, array);
	else if (p->array[array].entry >= 0 && any(2))
		say(p, array, 0);
	else
		rise(p);
}

static void run_world(void)
{
	struct process *p = world.of_node[any(NODES)];

	if (p && p->n_out && any(2))
		order(p);
	p = world.of_node[any(NODES)];
	if (p && p->n && !p->stopped)
		read_one(p);
}

static void drain(void)
{
	bool more = true;

	while (more) {
		more = false;
		for (unsigned int i = 0; i < NODES; i++) {
			struct process *p = world.of_node[i];

			if (!p)
				continue;
			flush(p);
			more |= p->n || p->n_out;
			if (p->n_out)
				order(p);
			if (p->n)
				read_one(p);
		}
	}
}

static void settle(void)
{
	for (unsigned int i = 0; i < world.n; i++)
		world.process[i].stopped = false;
	divide(true);
	drain();
}

/* Does a process take part in this array that is not refused? */
static bool served(unsigned int array)
{
	for (unsigned int i = 0; i < NODES; i++) {
		const struct process *p = world.of_node[i];
		int entry = p ? p->array[array].entry : -1;

		if (entry >= 0 && p->g.array[entry].stage == DDR_GROUP_RIDES && ddr_version_fits(&p->g))
			return true;
	}
	return false;
}

/*
 * A process may be refused that takes part in an array already: partitions that used different versions have met, or another process came before what
 * it began was delivered. It cannot agree with the others of the array, so nobody may say that nobody is missed, until it is fenced, or its operator ends it.
 */
static bool end_refused(void)
{
	bool ended = false;

	for (unsigned int i = 0; i < NODES; i++) {
		const struct process *p = world.of_node[i];
		bool stops = false;

		for (unsigned int a = 0; p && a < ARRAYS; a++)
			stops |= p->array[a].entry >= 0 && p->g.array[p->array[a].entry].stage == DDR_GROUP_RIDES && served(a);
		if (!stops || ddr_version_fits(&p->g) || ddr_version_copied(&p->g))
			continue;
		end_process(i);
		ended = true;
		world.ended++;
	}
	return ended;
}

/* Nothing more happens but that all who are missed are found to be dead. */
static void rest(void)
{
	bool more = true;

	settle();
	for (unsigned int i = 0; i < NODES; i++)
		for (unsigned int a = 0; world.of_node[i] && a < ARRAYS; a++)
			world.of_node[i]->array[a].sure = true;
	for (unsigned int times = 0; more; times++) {
		assert_true(times < 100);
		more = end_refused();
		for (unsigned int i = 0; i < NODES; i++) {
			struct process *p = world.of_node[i];

			for (unsigned int a = 0; p && a < ARRAYS; a++)
				more |= p->array[a].entry >= 0 && p->array[a].last.n && find_dead(p, a);
			more |= p && rise(p);
			more |= p && store(p);
		}
		drain();
	}
}

static void one_seed(uint32_t seed, bool plain)
{
	memset(&world, 0, sizeof(world));
	world.seed = seed;
	world.plain = plain;
	world.rings = 1;
	world.ring[0] = 1;
	world.process = pool;
	for (unsigned int i = 0; i < NODES; i++)
		world.daemon[i] = world.module[i] = (struct ddr_speaks){ 1, 1 };
	for (unsigned int i = 0; i < NODES; i++)
		world.machine[i] = (uint8_t)(i + 1);
	for (unsigned int i = 0; i < STEPS && world.n < PROCESSES; i++) {
		act();
		for (unsigned int k = 0; k < 4; k++)
			run_world();
	}
	rest();
	check_order();
	check_views();
	check_all_versions();
	check_highest();
	check_copies();
	check_ids();
}

static int make_pool(void **state)
{
	(void)state;
	pool = calloc(PROCESSES, sizeof(*pool));
	return pool ? 0 : -1;
}

static int free_pool(void **state)
{
	(void)state;
	if (running)
		print_message("the world that failed: DDRAID_GROUP_SEED=%u, or DDRAID_GROUP_FIRST, by the test\n", running);
	for (unsigned int i = 0; i < PROCESSES; i++) {
		free(pool[i].box);
		free(pool[i].array[0].log);
	}
	free(pool);
	return 0;
}

static void random_worlds(void **state)
{
	const char *first = getenv("DDRAID_GROUP_SEED");
	unsigned int rises = 0, refused = 0, copied = 0, yielded = 0, met = 0, ended = 0, unfit = 0;

	(void)state;
	if (first) {
		one_seed((uint32_t)strtoul(first, NULL, 10), false);
		return;
	}
	for (uint32_t i = 1; i <= WORLDS; i++) {
		running = i * 2654435761u;
		one_seed(running, false);
		rises += world.rises;
		refused += world.refused;
		copied += world.copied;
		yielded += world.yielded;
		met += world.met;
		ended += world.ended;
		unfit += world.unfit;
	}
	running = 0;
	print_message("the version moved up %u times, and %u processes were refused at the end\n", rises, refused);
	print_message("%u of them for their machine id; arrays were left %u times to a copy\n", copied, yielded);
	print_message("%u did not begin, since their module serves other versions\n", unfit);
	print_message("%u were ended, since they were refused in an array that others serve\n", ended);
	print_message("%u ids of clusters were given up for another one\n", met);
	assert_true(met > 20 && rises > 50 && refused > 5 && copied > 5 && yielded > 5 && ended > 5 && unfit > 20);
}

/* An id is agreed once in a cluster's life, so it needs many clusters. */
static void first_ids(void **state)
{
	const char *first = getenv("DDRAID_GROUP_FIRST");
	unsigned int agreed = 0;

	(void)state;
	if (first) {
		one_seed((uint32_t)strtoul(first, NULL, 10), true);
		return;
	}
	for (uint32_t i = 1; i <= WORLDS; i++) {
		running = i * 2654435761u;
		one_seed(running, true);
		agreed += world.ids_agreed;
	}
	running = 0;
	print_message("%u clusters have agreed on an id\n", agreed);
	assert_true(agreed > WORLDS / 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(random_worlds, make_pool, free_pool),
		cmocka_unit_test_setup_teardown(first_ids, make_pool, free_pool),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
