// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The cost of operations in a large cluster: the messages and writes of the state machines, counted, and the time that they would
 * take if only messages and disks took time.
 *
 * No faults: disks, kernels, the group and fencing answer as asked, one event after the other, so counts and times are exact and
 * always the same. The time is a model, not a measurement: one bus for all messages, which sends one at a time; disks that need the
 * same time for each access, for any number at once; kernels and fencing that need no time. Prints the table of doc/performance.md.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

#define REGIONS		(1u << 20)
#define REGION_BLOCKS	16u
#define SEND_US		100u	/* one message occupies the bus for this time */
#define DELIVER_US	1000u	/* from then until it is delivered everywhere */
#define DISK_US		5000u	/* one access to all members, or a flush, or a range of a job */

/* Items of the same duration end in the order of their start. */
enum lane { LANE_NOW, LANE_DISK, LANE_BUS, LANES };

struct item { struct item *next; uint64_t at; uint32_t node; struct ddr_input in; uint8_t msg[]; };

struct one {
	struct ddr_sm *sm;		/* NULL: off */
	uint8_t *slot;			/* payloads of its log: slot = index of the node */
	uint64_t *seq;
	bool here;
};

struct scale {
	uint32_t n, blocks, map_blocks;
	struct ddr_super sb;
	struct one node[DDR_SM_MAX_NODES];
	uint8_t *map;
	uint64_t *map_seq, ring;
	struct { struct item *first, **last; } lane[LANES];
	uint64_t now, since, bus;	/* us; the bus is occupied until then */
	uint64_t msgs, log, mapw, super, flush, jobs;
	struct ddr_output out[DDR_SM_MAX_OUT];
};

static void *memory(size_t n)
{
	void *p = calloc(1, n);

	if (!p) {
		fprintf(stderr, "ddrsim: out of memory\n");
		exit(2);
	}
	return p;
}

static void push_at(struct scale *w, enum lane lane, uint64_t at, uint32_t node, const struct ddr_input *in, const struct ddr_output *msg)
{
	struct item *i = memory(sizeof(*i) + (msg ? msg->msg_len : 0));

	i->at = at;
	i->node = node;
	i->in = *in;
	if (msg) {
		memcpy(i->msg, msg->msg, msg->msg_len);
		i->in.msg = i->msg;
		i->in.msg_len = msg->msg_len;
	}
	*w->lane[lane].last = i;
	w->lane[lane].last = &i->next;
}

static void push(struct scale *w, uint32_t node, const struct ddr_input *in)
{
	push_at(w, LANE_NOW, w->now, node, in, NULL);
}

/* ---- what the outputs ask for -------------------------------------------------- */

static void kernel(struct scale *w, uint32_t node, const struct ddr_rec *rec)
{
	struct ddr_input in = { .type = DDR_IN_K_REC, .rec = { .seq = rec->seq, .start = rec->start, .count = rec->count } };

	if (rec->type == DDR_U_MEMBER)
		in.rec = (struct ddr_rec){ .type = DDR_K_APPLIED, .seq = rec->seq };
	else if (rec->type == DDR_U_DRAIN)
		in.rec.type = DDR_K_DRAINED;
	else
		return;
	push(w, node, &in);
}

/* Slots are found by their payload: what the machine writes is stored, what it reads is returned. */
static void log_write(struct scale *w, const struct ddr_sm *sm, const struct ddr_output *out)
{
	bool other = out->type == DDR_OUT_SLOT_WRITE;
	struct one *o = &w->node[other ? out->slot : ddr_sm_slot(sm)];
	struct ddr_disk_log blk;

	(other ? ddr_sm_slot_block : ddr_sm_log_block)(sm, out->index, &blk);
	memcpy(o->slot + (size_t)out->index * DDR_LOG_PAYLOAD, blk.payload, DDR_LOG_PAYLOAD);
	o->seq[out->index] = __builtin_bswap64(__builtin_bswap64(blk.seq.raw));
	w->log++;
}

static void map_write(struct scale *w, const struct ddr_sm *sm, const struct ddr_output *out)
{
	struct ddr_disk_log blk;

	ddr_sm_map_block(sm, out->index, &blk);
	memcpy(w->map + (size_t)out->index * DDR_LOG_PAYLOAD, blk.payload, DDR_LOG_PAYLOAD);
	w->map_seq[out->index]++;
	w->mapw++;
}

static void load(struct scale *w, struct ddr_sm *sm, const struct ddr_output *out)
{
	static const uint8_t no_boot[16];

	if (out->type == DDR_OUT_RELOAD)
		ddr_sm_load_super(sm, &w->sb);
	for (uint32_t i = 0; out->type == DDR_OUT_RELOAD && i < w->map_blocks; i++)
		ddr_sm_load_map(sm, i, w->map + (size_t)i * DDR_LOG_PAYLOAD, w->map_seq[i]);
	for (uint32_t i = 0; out->type == DDR_OUT_SLOT_READ && i < w->blocks; i++)
		ddr_sm_load_log(sm, out->slot, i, w->node[out->slot].slot + (size_t)i * DDR_LOG_PAYLOAD, w->node[out->slot].seq[i], 0, no_boot, 0);
}

static void carry_out(struct scale *w, uint32_t node, const struct ddr_output *out)
{
	struct ddr_input in = { .io = out->io, .node = node + 1 };
	struct ddr_sm *sm = w->node[node].sm;

	switch (out->type) {
	case DDR_OUT_KERNEL: kernel(w, node, &out->rec); return;
	case DDR_OUT_EVENT: return;
	case DDR_OUT_ROOM:
	case DDR_OUT_PREPARE:
	case DDR_OUT_RESIZE:
	case DDR_OUT_ANEW:
	case DDR_OUT_SEEK:
	case DDR_OUT_TABLE: exit(2);	/* there is no spare */
	case DDR_OUT_MCAST:
		in.type = DDR_IN_MSG;
		w->msgs++;
		w->bus = (w->bus > w->now ? w->bus : w->now) + SEND_US;
		for (uint32_t i = 0; i < w->n; i++)
			if (w->node[i].here)
				push_at(w, LANE_BUS, w->bus + DELIVER_US, i, &in, out);
		return;
	case DDR_OUT_LOG_WRITE:
	case DDR_OUT_SLOT_WRITE:
		log_write(w, sm, out);
		in.type = DDR_IN_LOG_DONE;
		break;
	case DDR_OUT_MAP_WRITE:
		map_write(w, sm, out);
		in.type = DDR_IN_MAP_DONE;
		break;
	case DDR_OUT_SB_WRITE:
		ddr_sm_superblock(sm, 0, &w->sb);
		w->super++;
		in.type = DDR_IN_SB_DONE;
		break;
	case DDR_OUT_FLUSH: w->flush++; in.type = DDR_IN_FLUSH_DONE; break;
	case DDR_OUT_JOB_RANGE: w->jobs++; in.type = DDR_IN_JOB_DONE; break;
	case DDR_OUT_RELOAD: in.type = DDR_IN_RELOADED; break;
	case DDR_OUT_SLOT_READ: in.type = DDR_IN_SLOT_DONE; break;
	case DDR_OUT_FENCE:
		in.type = DDR_IN_FENCED;
		in.node = out->node;
		in.failure = out->failure;
		break;
	case DDR_OUT_GIVE_UP:
		fprintf(stderr, "ddrsim: node %u gives up: %s\n", node + 1, out->text);
		exit(1);
	}
	if (out->type == DDR_OUT_RELOAD || out->type == DDR_OUT_SLOT_READ)
		load(w, sm, out);	/* nothing changes before the answer */
	if (out->type == DDR_OUT_FENCE)
		push(w, node, &in);
	else
		push_at(w, LANE_DISK, w->now + DISK_US, node, &in, NULL);
}

static void step(struct scale *w, uint32_t node, const struct ddr_input *in)
{
	struct ddr_outputs outs = { .out = w->out };
	struct ddr_input next = *in;

	do {
		ddr_sm_step(w->node[node].sm, &next, &outs);
		for (uint32_t i = 0; i < outs.n; i++)
			carry_out(w, node, &outs.out[i]);
		next = (struct ddr_input){ .type = DDR_IN_NONE };
	} while (outs.more);
}

/* The item that ends first, or NULL. */
static struct item *pop(struct scale *w)
{
	struct item *i = NULL;
	uint32_t best = 0;

	for (uint32_t l = 0; l < LANES; l++)
		if (w->lane[l].first && (!i || w->lane[l].first->at < i->at)) {
			i = w->lane[l].first;
			best = l;
		}
	if (i) {
		w->lane[best].first = i->next;
		if (!i->next)
			w->lane[best].last = &w->lane[best].first;
	}
	return i;
}

/* Runs until nothing is in progress any more. */
static void run(struct scale *w)
{
	struct item *i;

	while ((i = pop(w))) {
		w->now = i->at;
		if (w->node[i->node].here)
			step(w, i->node, &i->in);
		free(i);
	}
}

/* ---- operations ---------------------------------------------------------------- */

static void view(struct scale *w)
{
	struct ddr_input in = { .type = DDR_IN_VIEW, .ring = ++w->ring, .quorate = true };

	for (uint32_t i = 0; i < w->n; i++)
		if (w->node[i].here) {
			in.pids[in.n_nodes] = 1;
			in.nodes[in.n_nodes++] = i + 1;
		}
	for (int quorum = 0; quorum < 2; quorum++, in.type = DDR_IN_QUORUM)
		for (uint32_t i = 0; i < w->n; i++)
			if (w->node[i].here)
				push(w, i, &in);
}

static void up(struct scale *w, uint32_t i)
{
	struct ddr_sm_config cfg = { .node = i + 1, .super = &w->sb, .present = (1u << w->sb.members) - 1, .entropy = { (uint8_t)(i + 1) },
				     .cluster = true, .fencing = true };
	struct ddr_input in = { .type = DDR_IN_TICK, .now_ms = 1000 };

	w->node[i].sm = rig_sm(&cfg);
	if (!w->node[i].sm)
		exit(2);
	w->node[i].here = true;
	push(w, i, &in);
	in = (struct ddr_input){ .type = DDR_IN_K_ATTACHED, .cookie = i + 1, .boot_id = { 1 }, .members = 0xffff, .count = w->sb.array_blocks };
	push(w, i, &in);
	in = (struct ddr_input){ .type = DDR_IN_K_REC, .rec = { .type = DDR_K_HELD_END } };
	push(w, i, &in);
}

static void record(struct scale *w, uint32_t node, uint32_t type, uint64_t start, uint64_t count, int status)
{
	struct ddr_input in = { .type = DDR_IN_K_REC, .rec = { .type = type, .seq = 1, .start = start, .count = count, .status = status } };

	push(w, node, &in);
	run(w);
}

static void op(struct scale *w, uint32_t node, enum ddr_in_type type)
{
	struct ddr_input in = { .type = type };

	push(w, node, &in);
	run(w);
}

static void count(struct scale *w, const char *what)
{
	printf("| %u | %s | %.1f | %llu | %llu | %llu | %llu | %llu | %llu |\n", w->n, what, (double)(w->now - w->since) / 1000, (unsigned long long)w->msgs, (unsigned long long)w->log,
	       (unsigned long long)w->mapw, (unsigned long long)w->super, (unsigned long long)w->flush, (unsigned long long)w->jobs);
	w->since = w->now;
	w->msgs = w->log = w->mapw = w->super = w->flush = w->jobs = 0;
}

static void expect(struct scale *w, uint32_t node, uint64_t granted, uint64_t dirty)
{
	static struct ddr_sm_status st;

	ddr_sm_get_status(w->node[node].sm, &st);
	if (!st.ready || st.granted != granted || st.dirty != dirty || st.resync_regions) {
		fprintf(stderr, "ddrsim: node %u holds %llu regions, %llu are dirty, %llu to be resynced\n", node + 1,
			(unsigned long long)st.granted, (unsigned long long)st.dirty, (unsigned long long)st.resync_regions);
		exit(1);
	}
}

static void off(struct scale *w, uint32_t node)
{
	free(w->node[node].sm);
	w->node[node].sm = NULL;
	w->node[node].here = false;
	view(w);
	run(w);
}

static void operations(struct scale *w)
{
	uint32_t last = w->n - 1;

	for (uint32_t i = 0; i < last; i++)
		up(w, i);
	view(w);
	run(w);
	count(w, "start of all but one, together");
	up(w, last);
	view(w);
	run(w);
	expect(w, last, 0, 0);
	count(w, "join of the last one");
	record(w, 1, DDR_K_LOCK, 5000, 1, 0);
	expect(w, 1, 1, 1);
	count(w, "grant of a cold region");
	record(w, 1, DDR_K_LOCK, 6000, 64, 0);
	expect(w, 1, 65, 65);
	count(w, "grant of 64 cold regions asked for at once");
	record(w, 1, DDR_K_LOCK, 5000, 1, 0);
	count(w, "a granted region, asked for again");
	record(w, 1, DDR_K_CLOSED, 5000, 1, -EIO);
	expect(w, 1, 64, 0 + 64);
	count(w, "resync of a region: one EX range, map, mark cleared");
	record(w, last, DDR_K_LOCK, 70000, 64, 0);
	expect(w, last, 64, 64);
	count(w, "grant of 64 cold regions, on the last node");
	off(w, last);
	expect(w, 0, 0, 0);
	count(w, "death of that node: fencing, recovery, resync of its 64 regions");
	if (last > 2) {	/* node 2 still holds regions */
		op(w, last - 1, DDR_IN_OP_CLEAN);
		op(w, last - 1, DDR_IN_K_DETACHED);
		op(w, last - 1, DDR_IN_OP_LEAVE);
		off(w, last - 1);
		count(w, "clean leave of another one");
	}
	record(w, 1, DDR_K_CLOSED, 6000, 64, 0);
	expect(w, 1, 0, 0);
	count(w, "clearing of 64 regions that are idle, and their first resync");
}

static void cluster(uint32_t n)
{
	struct rig_geometry g = { .order = 2, .parity = 1, .layout = 1, .region_blocks = REGION_BLOCKS, .slots = DDR_MAX_SLOTS,
				  .blocks = (uint64_t)REGIONS * REGION_BLOCKS };
	struct scale *w = memory(sizeof(*w));

	rig_super(&w->sb, &g);
	w->n = n;
	for (uint32_t l = 0; l < LANES; l++)
		w->lane[l].last = &w->lane[l].first;
	w->blocks = w->sb.log_blocks;
	w->map_blocks = w->sb.map_blocks;
	w->map = memory((size_t)w->map_blocks * DDR_LOG_PAYLOAD);
	w->map_seq = memory(w->map_blocks * sizeof(uint64_t));
	for (uint32_t i = 0; i < n; i++) {
		w->node[i].slot = memory((size_t)w->blocks * DDR_LOG_PAYLOAD);
		w->node[i].seq = memory(w->blocks * sizeof(uint64_t));
	}
	operations(w);
	for (uint32_t i = 0; i < n; i++) {
		free(w->node[i].sm);
		free(w->node[i].slot);
		free(w->node[i].seq);
	}
	free(w->map);
	free(w->map_seq);
	free(w);
}

void scale(void)
{
	static const uint32_t sizes[] = { 3, 5, 16, 64 };

	printf("| nodes | operation, %u regions | ms | messages | log writes | map writes | superblocks | flushes | job ranges |\n"
	       "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n", REGIONS);
	for (uint32_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		cluster(sizes[i]);
}
