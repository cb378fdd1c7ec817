// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The process group of all daemons (lib/node/group.c), among simulated processes: they start, end, are cut off from each other and meet again,
 * begin and end to take part in arrays, and each reads what is delivered to it in its own time. Whatever happens: all that are in the same two
 * views of an array in a row have got the same messages between them; and once nothing more happens each view has those that take part.
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
#include "lib/wire/msg.h"

#define NODES	5u
#define ARRAYS	3u
#define BOX	4096u		/* deliveries that wait for a process */
#define OUT	64u
#define LOG	8192u

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
};

struct rides {
	int entry;		/* in the group; -1: none */
	struct ddr_group_view last;
	struct told *log;
	unsigned int n;
};

struct process {
	struct ddr_group g;
	unsigned int node, pid, part;
	bool alive, stopped;
	struct item *box;
	unsigned int first, n;
	struct { size_t len; uint8_t msg[DDR_NODE_MSG_MAX]; } out[OUT];	/* given to the group service, and not ordered yet */
	unsigned int n_out;
	struct rides array[ARRAYS];
	struct ddr_group_id seen[NODES];	/* its group, as it will have been told */
	unsigned int n_seen;
};

static struct {
	struct process *process;		/* all that ever were */
	unsigned int n;
	struct process *of_node[NODES];		/* that lives, or NULL */
	unsigned int part[NODES];
	uint64_t ring[NODES];			/* of each partition */
	uint64_t rings, messages;
	uint32_t seed;
} world;

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
	struct process *p = &world.process[world.n++];
	struct item ring = { .what = RING, .ring = world.ring[world.part[node]] };

	memset(p, 0, sizeof(*p));
	p->node = node;
	p->pid = 100 + world.n;
	p->alive = true;
	p->box = calloc(BOX, sizeof(*p->box));
	for (unsigned int a = 0; a < ARRAYS; a++) {
		p->array[a].entry = -1;
		p->array[a].log = calloc(LOG, sizeof(struct told));
	}
	ddr_group_init(&p->g, node + 1, p->pid, 1, 1);
	world.of_node[node] = p;
	put(p, &ring);
	change(false);
}

static void end_process(unsigned int node)
{
	world.of_node[node]->alive = false;
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

static uint64_t name_of(const struct ddr_group_view *v)
{
	uint64_t name = v->ring * 0x9e3779b97f4a7c15u + v->n;

	for (uint32_t i = 0; i < v->n; i++)
		name = (name ^ ((uint64_t)v->node[i] << 32 | v->number[i])) * 0x9e3779b97f4a7c15u;
	return name;
}

static void note(struct rides *r, bool view, uint64_t what)
{
	assert_true(r->n < LOG);
	r->log[r->n++] = (struct told){ .view = view, .what = what };
}

/* A node whose ride is another one was not there in between. */
static void check_rides(const struct rides *r, const struct ddr_group_view *v)
{
	for (uint32_t i = 0; i < v->n; i++)
		for (uint32_t j = 0; j < r->last.n; j++)
			if (r->last.node[j] == v->node[i])
				assert_int_equal(r->last.number[j], v->number[i]);
}

static void tell(struct process *p)
{
	struct ddr_group_view v;

	if (!p->g.changed)
		return;
	p->g.changed = false;
	for (unsigned int a = 0; a < ARRAYS; a++)
		while (p->array[a].entry >= 0 && ddr_group_view(&p->g, (unsigned int)p->array[a].entry, &v) == DDR_GROUP_NEW_VIEW) {
			check_rides(&p->array[a], &v);
			p->array[a].last = v;
			note(&p->array[a], true, name_of(&v));
		}
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
			if (p->array[a].entry == (int)entry)
				note(&p->array[a], false, m.use.used | (uint64_t)m.serial << 32);
		break;
	case DDR_GROUP_DROPPED:		/* it was sent in another partition, or before the process took part again */
	case DDR_GROUP_TAKEN:
		break;
	}
}

static void read_one(struct process *p)
{
	struct item *item = &p->box[p->first];

	p->first = (p->first + 1) % BOX;
	p->n--;
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
	note(&p->array[array], true, 0);	/* what it was told before counts no more */
	flush(p);
}

static void part(struct process *p, unsigned int array)
{
	ddr_group_off(&p->g, (unsigned int)p->array[array].entry);
	p->array[array].entry = -1;
	flush(p);
}

static void say(struct process *p, unsigned int array)
{
	struct ddr_msg m = { .type = DDR_M_USE, .sender = p->node + 1, .ring = 1, .serial = (uint32_t)++world.messages };
	uint8_t buf[DDR_MSG_MAX];

	if (p->n_out == OUT || p->g.array[p->array[array].entry].stage != DDR_GROUP_RIDES)
		return;
	uuid_of(array, m.uuid);
	queue(p, buf, ddr_msg_encode(&m, buf, sizeof(buf)));
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

/* The last view that each was told is the one that there is. */
static void check_views(void)
{
	for (unsigned int a = 0; a < ARRAYS; a++) {
		struct ddr_group_view v = { .ring = world.ring[0] };

		for (unsigned int i = 0; i < NODES; i++) {
			struct process *p = world.of_node[i];

			if (!p || p->array[a].entry < 0)
				continue;
			v.node[v.n] = i + 1;
			v.number[v.n++] = p->g.array[p->array[a].entry].ride.number;
		}
		for (unsigned int i = 0; i < NODES; i++) {
			struct process *p = world.of_node[i];
			uint64_t last = 0;

			if (!p || p->array[a].entry < 0)
				continue;
			for (unsigned int k = 0; k < p->array[a].n; k++)
				last = p->array[a].log[k].view ? p->array[a].log[k].what : last;
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

static void act(void)
{
	unsigned int node = any(NODES), array = any(ARRAYS);
	struct process *p = world.of_node[node];

	switch (any(60)) {
	case 0:
		divide(any(3) > 0);
		return;
	case 1:
	case 2:
		if (!p)
			start_process(node);
		else if (any(3) == 0)
			end_process(node);
		return;
	case 3:
		if (p && any(2))
			p->stopped = !p->stopped;
		return;
	default:
		break;
	}
	if (!p || p->stopped)
		return;
	if (p->array[array].entry < 0 && any(8) == 0)
		take_part(p, array);
	else if (p->array[array].entry >= 0 && any(30) == 0)
		part(p, array);
	else if (p->array[array].entry >= 0 && any(2))
		say(p, array);
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

static void settle(void)
{
	bool more = true;

	for (unsigned int i = 0; i < world.n; i++)
		world.process[i].stopped = false;
	divide(true);
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

static void one_seed(uint32_t seed)
{
	memset(&world, 0, sizeof(world));
	world.seed = seed;
	world.rings = 1;
	world.ring[0] = 1;
	world.process = calloc(512, sizeof(*world.process));
	for (unsigned int i = 0; i < 6000 && world.n < 500; i++) {
		act();
		for (unsigned int k = 0; k < 4; k++)
			run_world();
	}
	settle();
	check_order();
	check_views();
	for (unsigned int i = 0; i < world.n; i++) {
		free(world.process[i].box);
		for (unsigned int a = 0; a < ARRAYS; a++)
			free(world.process[i].array[a].log);
	}
	free(world.process);
}

static void random_worlds(void **state)
{
	const char *first = getenv("DDRAID_GROUP_SEED");

	(void)state;
	if (first) {
		one_seed((uint32_t)strtoul(first, NULL, 10));
		return;
	}
	for (uint32_t seed = 1; seed <= 40; seed++) {
		print_message("seed %u\n", seed);
		one_seed(seed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_worlds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
