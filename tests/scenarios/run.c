// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Runs conversations with the state machine that are written down as text.
 *
 *	run [--rewrite] [FILE...]
 *
 * Without files it runs all of $srcdir/tests/scenarios (as `make check` does).
 *
 * A file holds comments (#), and commands (> command), each followed by what the machine
 * answered: one indented line for each output. The runner gives the commands, compares,
 * and says where the first difference is; --rewrite writes what was answered instead.
 * After every step ddr_sm_check() must find nothing.
 *
 * One file may hold several nodes (init nodes=1,2,3): each has an instance, a kernel, I/O and a queue of what the group
 * delivers. What one sends is queued, in one order, at all that are in its view and have it in theirs. A command that
 * begins with "N:" is for node N, any other for all nodes that are up, one after the other; answers begin with the node.
 *
 * A file whose first command is "> sim" is a schedule of the simulator, with its disks, kernels and rules (tests/sim/tape_text.c): what
 * `ddrsim` made of a seed that failed. It has no answers; a rule that is broken fails it. With daemons=1 there, the simulator with real daemons runs it.
 *
 * Whatever the answers are, some must be among them, or must never be:
 *	never [N:] TEXT			from now on no answer (of node N) contains the text; without a text: forgets what must never be
 *	since | must [N:] TEXT		among the answers since then one (of node N) contains the text
 *	known RULE			this breaks today, as the answers "broken: ..." show, until RULE is built. The file fails if nothing is
 *					broken any more (take the line away, then), or if anything else in it differs
 *
 * Commands (regions a+n, members and regions as lists 1,2,3):
 *	init order=N parity=N [layout=N] regions=N [region-blocks=N] [spares=N] [present=LIST] [node=N] [slots=N]
 *	     [cluster] [fencing] [several] [marked] [adopt] [owners] [nodes=LIST]	owners: format 2; marked: the superblock says that the array is a cluster's of several nodes
 *	own SLOT NODE			before "up": the superblock says that the node owns the slot
 *	state MEMBER STATE		before "up": the member's state (number of enum ddr_member_state)
 *	settles MS			before "up": then nothing of an earlier boot of the node's machine is on its way any more
 *	up				makes the instance; then, before its first step:
 *	log SLOT INDEX [dirty=LIST] [seq=N] [node=N] [boot=N] [cookie=N] | log SLOT INDEX unreadable
 *	map INDEX [CHAR for each region: u n c, upper case: suspect] | map INDEX unreadable
 *	auto [msg] [io] [kernel] [disk]	from now on: messages are delivered, I/O ends well, the kernel answers at once; what is
 *	     read anew is what was written (superblocks, block 0 of logs and map)
 *	disk log SLOT ... | disk map ...	as log and map: what "auto disk" reads of what nobody wrote yet
 *	quiet | loud			answers are not shown | shown again
 *	down				the daemon dies; "up" starts another one
 *	stop | cont			the daemon gets no CPU, and what is for it waits | it does again
 *	adopt				before "up": the operator adopts the array on this node
 *	id N				before "up": the machine's id in the cluster is N now; views and "N:" name the machine still
 *	landing 1|0			one of its writes may land still | none does any more
 *	left-over 1|0			something of its earlier daemons is on its way | nothing is any more
 *	view NODES [no-quorum] [ring=N]
 *	attach cookie=N [boot=N] [held=a+n]	with the whole declaration
 *	detach
 *	lock a+n [ahead] | closed a+n [status=N] | reaped closed=N | drained N (the N-th DRAIN) | applied N (the N-th MEMBER)
 *	error seq=N member=N class=N op=N start=N count=N | mismatch seq=N start=N count=N
 *	record type=N seq=N start=N count=N
 *	pass MS				time passes for all that run, in steps of a second
 *	tick MS | deliver (the oldest message) | drop (it) | foreign NODE (the oldest message, in the name of NODE)
 *	done log N | map N | sb | flush | job N	[failed=LIST] [result=N] [mismatches=N]
 *	quorum NODES [no-quorum] [ring=N]	of the quorum service, with a cluster
 *	super [seq=N]			the superblock of the disks, between a reload and its end
 *	done reload | slot | slotwrite N	[result=N]
 *	excluded NODE			a verdict has excluded its daemon: the view without it follows
 *	leave | fence-ack NODE | fenced NODE [failure=N] [result=N]
 *	fenced NODE | fail MEMBER | clean | set KEY VALUE | accept a+n | region N | status
 */
#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"
#include "tests/sim/tape.h"
#include "world.h"

#define MAX_ARGS	16

static const char *current;	/* the file, for error messages */
static int line_number;
static FILE *transcript;	/* the output for the file, and its text: printed if the file cannot continue */
static char *transcript_text;

void die(const char *what, const char *arg)
{
	if (transcript) {
		fflush(transcript);
		fputs(transcript_text, stdout);
	}
	fprintf(stderr, "%s:%d: %s: %s\n", current, line_number, what, arg);
	exit(2);
}

/* ---- arguments ----------------------------------------------------------------- */

struct args { char *v[MAX_ARGS]; int n; };

static void split(char *line, struct args *a)
{
	a->n = 0;
	for (char *p = strtok(line, " \t\n"); p && a->n < MAX_ARGS; p = strtok(NULL, " \t\n"))
		a->v[a->n++] = p;
}

static const char *named(const struct args *a, const char *name)
{
	size_t len = strlen(name);

	for (int i = 0; i < a->n; i++)
		if (strncmp(a->v[i], name, len) == 0 && a->v[i][len] == '=')
			return a->v[i] + len + 1;
	return NULL;
}

static bool flag(const struct args *a, const char *name)
{
	for (int i = 0; i < a->n; i++)
		if (strcmp(a->v[i], name) == 0)
			return true;
	return false;
}

static uint64_t number(const struct args *a, const char *name, uint64_t def)
{
	const char *v = named(a, name);

	return v ? strtoull(v, NULL, 0) : def;
}

static uint64_t at(const struct args *a, int i)
{
	if (i >= a->n)
		die("an argument is missing after", a->v[0]);
	return strtoull(a->v[i], NULL, 0);
}

static uint64_t list(const char *v)
{
	uint64_t mask = 0;

	for (const char *p = v; p && *p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
		if (isdigit((unsigned char)*p))
			mask |= 1ull << strtoul(p, NULL, 10);
	return mask;
}

static void run_of(const struct args *a, int i, uint64_t *start, uint64_t *count)
{
	const char *plus = i < a->n ? strchr(a->v[i], '+') : NULL;

	if (!plus)
		die("start+count is missing after", a->v[0]);
	*start = strtoull(a->v[i], NULL, 0);
	*count = strtoull(plus + 1, NULL, 0);
}

/* ---- commands ------------------------------------------------------------------ */

static void cmd_done(struct world *w, const struct args *a)
{
	static const struct { const char *name; enum ddr_out_type type; } kinds[] = {
		{ "log", DDR_OUT_LOG_WRITE }, { "map", DDR_OUT_MAP_WRITE }, { "sb", DDR_OUT_SB_WRITE },
		{ "flush", DDR_OUT_FLUSH }, { "job", DDR_OUT_JOB_RANGE },
		{ "reload", DDR_OUT_RELOAD }, { "slot", DDR_OUT_SLOT_READ }, { "slotwrite", DDR_OUT_SLOT_WRITE },
	};

	for (size_t k = 0; a->n > 1 && k < sizeof(kinds) / sizeof(kinds[0]); k++)
		for (uint32_t i = 0; i < w->me->n_io && strcmp(a->v[1], kinds[k].name) == 0; i++) {
			uint64_t id = kinds[k].type == DDR_OUT_JOB_RANGE ? w->me->io[i].start : w->me->io[i].index;

			if (w->me->io[i].type != kinds[k].type || (a->n > 2 && isdigit((unsigned char)a->v[2][0]) && id != at(a, 2)))
				continue;
			io_done(w, i, (uint32_t)list(named(a, "failed")), (int32_t)strtol(named(a, "result") ? named(a, "result") : "0", NULL, 10),
				number(a, "mismatches", 0));
			return;
		}
	die("no such I/O is open", a->n > 1 ? a->v[1] : "");
}

static void cmd_answer(struct world *w, const struct args *a, uint32_t type)
{
	uint64_t n = a->n > 1 && isdigit((unsigned char)a->v[1][0]) ? at(a, 1) : 0;

	for (uint32_t i = 0; i < w->me->n_kernel; i++)
		if (w->me->kernel[i].rec.type == type && n-- == 0) {
			kernel_answer(w, i, number(a, "closed", 0));
			return;
		}
	die("the kernel was not asked for that", a->v[0]);
}

static void node_down(struct node *n)
{
	free(n->sm);
	n->sm = NULL;
	n->n_io = n->n_kernel = n->n_msg = 0;
	n->view = 0;
	n->stopped = false;
}

static void cmd_init(struct world *w, const struct args *a)
{
	uint64_t nodes = named(a, "nodes") ? list(named(a, "nodes")) : 1ull << number(a, "node", 1);
	FILE *to = w->to, *nowhere = w->nowhere;

	for (uint32_t i = 0; i < w->n; i++)
		node_down(&w->node[i]);
	memset(w, 0, sizeof(*w));
	w->to = to;
	w->nowhere = nowhere;
	w->geo.order = (uint8_t)number(a, "order", 2);
	w->geo.parity = (uint8_t)number(a, "parity", 1);
	w->geo.layout = (uint8_t)number(a, "layout", 0);
	w->geo.region_blocks = (uint32_t)number(a, "region-blocks", 256);
	w->geo.blocks = number(a, "regions", 8) * w->geo.region_blocks;
	w->geo.spares = (uint16_t)number(a, "spares", 0);
	w->geo.slots = (uint32_t)number(a, "slots", 4);
	w->geo.owners = flag(a, "owners");
	rig_super(&w->sb, &w->geo);
	ddr_owners_init(&w->owners, &w->sb);
	w->sb.ro_compat = flag(a, "marked") ? DDR_RO_COMPAT_CLUSTER : 0;
	for (uint32_t id = 0; id < 64; id++) {
		struct ddr_sm_config *cfg = &w->node[w->n].cfg;

		if (!(nodes >> id & 1))
			continue;
		if (w->n++ == MAX_NODES)
			die("too many nodes", "");
		w->node[w->n - 1].label = id;
		cfg->super = &w->sb;
		cfg->node = id;
		cfg->machine[0] = (uint8_t)id;
		cfg->cluster = flag(a, "cluster");
		cfg->fencing = flag(a, "fencing");
		cfg->several = flag(a, "several");
		cfg->adopt = flag(a, "adopt");
		cfg->present = named(a, "present") ? (uint32_t)list(named(a, "present")) : (1u << w->sb.members) - 1;
	}
	w->me = w->node;
}

static void cmd_up(struct world *w)
{
	struct node *n = w->me;

	node_down(n);
	n->pid++;
	if (w->n > 1) {		/* random values that each process draws for itself */
		n->cfg.entropy[0] = (uint8_t)n->label;
		n->cfg.entropy[1] = (uint8_t)n->pid;
	}
	n->sm = rig_sm(&n->cfg);
	if (!n->sm)
		die("the configuration is refused", "");
}

/* Sets a block of the model's disk. */
static void disk_set(struct world *w, uint32_t place, const uint8_t *payload, const struct args *a)
{
	struct ddr_log_info info = { .slot = place == MAP ? DDR_MAP_SLOT : (uint16_t)place, .seq = number(a, "seq", 1),
				     .generation = w->sb.generation, .node = (uint32_t)number(a, "node", 1),
				     .cookie = number(a, "cookie", 0), .boot_id[0] = (uint8_t)number(a, "boot", 1) };

	memcpy(info.array_uuid, w->sb.array_uuid, sizeof(info.array_uuid));
	memcpy(w->disk[place].payload, payload, DDR_LOG_PAYLOAD);
	ddr_log_encode(&w->disk[place], &info);
}

static void cmd_log(struct world *w, const struct args *a, int arg, bool disk)
{
	uint8_t payload[DDR_LOG_PAYLOAD] = { 0 }, boot[16] = { (uint8_t)number(a, "boot", 1) };
	uint64_t dirty = list(named(a, "dirty"));
	bool unreadable = flag(a, "unreadable");

	for (uint32_t r = 0; r < 64; r++)
		ddr_log_set(payload, r, dirty >> r & 1);
	if (disk)
		disk_set(w, (uint32_t)at(a, arg) % MAX_SLOTS, payload, a);
	else
		ddr_sm_load_log(w->me->sm, (uint32_t)at(a, arg), (uint32_t)at(a, arg + 1), unreadable ? NULL : payload,
				number(a, "seq", 1), (uint32_t)number(a, "node", 1), boot, number(a, "cookie", 0));
}

static void cmd_map(struct world *w, const struct args *a, int arg, bool disk)
{
	uint8_t payload[DDR_LOG_PAYLOAD] = { 0 };
	const char *s = a->n > arg + 1 ? a->v[arg + 1] : "";
	bool unreadable = flag(a, "unreadable");

	for (uint32_t i = 0; s[i] && !unreadable; i++) {
		int c = tolower((unsigned char)s[i]);
		uint8_t state = c == 'n' ? DDR_REGION_NEEDS_SYNC : c == 'c' ? DDR_REGION_CLEAN : DDR_REGION_UNWRITTEN;

		ddr_map_set(payload, i, (uint8_t)(state | (isupper((unsigned char)s[i]) ? DDR_REGION_F_SUSPECT : 0)));
	}
	if (disk)
		disk_set(w, MAP, payload, a);
	else
		ddr_sm_load_map(w->me->sm, (uint32_t)at(a, arg), unreadable ? NULL : payload, 1);
}

static void cmd_attach(struct world *w, const struct args *a)
{
	struct ddr_input in = { .type = DDR_IN_K_ATTACHED, .cookie = number(a, "cookie", 7), .members = 0xffff,
				.count = number(a, "blocks", w->sb.array_blocks) };
	uint64_t n = 0;

	in.boot_id[0] = (uint8_t)number(a, "boot", 1);
	w->me->n_kernel = 0;
	step(w, &in);
	in.type = DDR_IN_K_REC;
	if (named(a, "held")) {
		in.rec.type = DDR_K_HELD;
		in.rec.start = strtoull(named(a, "held"), NULL, 0);
		n = strchr(named(a, "held"), '+') ? strtoull(strchr(named(a, "held"), '+') + 1, NULL, 0) : 1;
		in.rec.count = n;
		step(w, &in);
	}
	in.rec = (struct ddr_rec){ .type = DDR_K_HELD_END, .count = n };
	step(w, &in);
}

static void cmd_view(struct world *w, const struct args *a, enum ddr_in_type type)
{
	struct ddr_input in = { .type = type, .quorate = !flag(a, "no-quorum"), .ring = number(a, "ring", 1) };
	uint64_t nodes = list(a->n > 1 ? a->v[1] : "1");

	for (uint32_t n = 0; n < 64; n++)
		if (nodes >> n & 1) {
			in.nodes[in.n_nodes] = n;
			for (const struct node *o = w->node; o < w->node + w->n && w->n > 1; o++)
				if (o->label == n) {
					in.nodes[in.n_nodes] = o->cfg.node;
					in.pids[in.n_nodes] = o->pid;
				}
			in.n_nodes++;
		}
	if (type == DDR_IN_VIEW)
		w->me->view = nodes;
	step(w, &in);
}

static void cmd_status(const struct world *w)
{
	struct ddr_sm_status s;

	ddr_sm_get_status(w->me->sm, &s);
	fprintf(begin(w), "regions=%" PRIu64 " unwritten=%" PRIu64 " clean=%" PRIu64 " needs-sync=%" PRIu64 " suspect=%" PRIu64
		" dirty=%" PRIu64 " granted=%" PRIu64 " resync=%" PRIu64 "\n", s.regions, s.unwritten, s.clean, s.needs_sync,
		s.suspect, s.dirty, s.granted, s.resync_regions);
	fprintf(begin(w), "generation=%" PRIu64 " attached=%d ready=%d quorate=%d degraded=%d failed=%d gave-up=%d writes: log=%"
		PRIu64 " map=%" PRIu64 " sb=%" PRIu64 " flushes=%" PRIu64 " mcasts=%" PRIu64 "\n", s.generation, s.attached, s.ready,
		s.quorate, s.degraded, s.failed, s.gave_up, s.log_writes, s.map_writes, s.sb_writes, s.flushes, s.mcasts);
}

/* A record of the kernel, or an input with plain arguments. Returns false if there is no such command. */
static bool cmd_input(struct world *w, const struct args *a)
{
	const char *c = a->v[0];
	struct ddr_input in = { .type = DDR_IN_K_REC };

	in.rec.member = (uint32_t)number(a, "member", DDR_NO_MEMBER);
	in.rec.seq = number(a, "seq", 0);
	in.rec.start = number(a, "start", 0);
	in.rec.count = number(a, "count", 0);
	if (strcmp(c, "lock") == 0 || strcmp(c, "closed") == 0) {
		uint64_t start, count;

		run_of(a, 1, &start, &count);
		in.rec.type = c[0] == 'l' ? DDR_K_LOCK : DDR_K_CLOSED;
		in.rec.start = start;
		in.rec.count = count;
		in.rec.status = named(a, "status") ? (int)strtol(named(a, "status"), NULL, 10) : 0;
	} else if (strcmp(c, "error") == 0) {
		in.rec.type = DDR_K_ERROR;
		in.rec.status = (int)number(a, "class", 1);
		in.rec.arg[0] = number(a, "op", DDR_OP_WRITE);
	} else if (strcmp(c, "mismatch") == 0) {
		in.rec.type = DDR_K_MISMATCH;
	} else if (strcmp(c, "record") == 0) {
		in.rec.type = (uint32_t)number(a, "type", 0);
	} else if (strcmp(c, "detach") == 0) {
		in.type = DDR_IN_K_DETACHED;
	} else if (strcmp(c, "tick") == 0) {
		in.type = DDR_IN_TICK;
		in.now_ms = w->now_ms = at(a, 1);
	} else if (strcmp(c, "fenced") == 0) {
		in.type = DDR_IN_FENCED;
		in.node = (uint32_t)at(a, 1);
		in.failure = number(a, "failure", 0);
		in.result = (int32_t)strtol(named(a, "result") ? named(a, "result") : "0", NULL, 10);
	} else if (strcmp(c, "excluded") == 0) {
		in.type = DDR_IN_EXCLUDED;
		in.node = (uint32_t)at(a, 1);
	} else if (strcmp(c, "fence-ack") == 0) {
		in.type = DDR_IN_OP_FENCE_ACK;
		in.node = (uint32_t)at(a, 1);
	} else if (strcmp(c, "leave") == 0) {
		in.type = DDR_IN_OP_LEAVE;
	} else if (strcmp(c, "fail") == 0) {
		in.type = DDR_IN_OP_FAIL_MEMBER;
		in.member = (uint32_t)at(a, 1);
	} else if (strcmp(c, "clean") == 0) {
		in.type = DDR_IN_OP_CLEAN;
	} else if (strcmp(c, "set") == 0) {
		in.type = DDR_IN_OP_SET;
		in.key = (uint32_t)at(a, 1);
		in.value = at(a, 2);
	} else if (strcmp(c, "accept") == 0) {
		in.type = DDR_IN_OP_ACCEPT;
		run_of(a, 1, &in.start, &in.count);
	} else {
		return false;
	}
	step(w, &in);
	return true;
}

static void cmd_pass(struct world *w, uint64_t ms)
{
	uint64_t end = w->now_ms + ms;

	while (w->now_ms < end) {
		struct ddr_input in = { .type = DDR_IN_TICK };

		in.now_ms = w->now_ms = w->now_ms + 1000 < end ? w->now_ms + 1000 : end;
		for (uint32_t i = 0; i < w->n; i++) {
			w->me = &w->node[i];
			if (w->me->sm && !w->me->stopped)
				step(w, &in);
		}
		answer_all(w);
	}
}

/* The arguments again, as one text. */
static const char *joined(const struct args *a)
{
	static char text[512];
	size_t n = 0;

	text[0] = 0;
	for (int i = 1; i < a->n; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", i > 1 ? " " : "", a->v[i]);
	return text;
}

/* What must be answered, or must never be. Returns false if there is no such command. */
static bool cmd_expect(struct world *w, const struct args *a)
{
	const char *c = a->v[0];

	if (strcmp(c, "known") == 0)
		expect_known(joined(a));
	else if (strcmp(c, "never") == 0 && a->n == 1)
		expect_anything();
	else if (strcmp(c, "never") == 0)
		expect_never(joined(a));
	else if (strcmp(c, "since") == 0)
		expect_since();
	else if (strcmp(c, "must") == 0)
		expect_must(joined(a), w->to);
	else
		return false;
	return true;
}

/* Commands that concern no particular node. Returns false if there is no such command. */
static bool cmd_world(struct world *w, const struct args *a)
{
	const char *c = a->v[0];

	if (strcmp(c, "init") == 0) {
		cmd_init(w, a);
	} else if (strcmp(c, "own") == 0) {
		w->sb.slot_node[at(a, 1) % DDR_MAX_SLOTS] = (uint32_t)at(a, 2);
	} else if (strcmp(c, "state") == 0) {
		w->sb.member[at(a, 1) % DDR_MAX_MEMBERS].state = (uint8_t)at(a, 2);
	} else if (strcmp(c, "disk") == 0 && a->n > 2 && strcmp(a->v[1], "log") == 0) {
		cmd_log(w, a, 2, true);
	} else if (strcmp(c, "disk") == 0) {
		cmd_map(w, a, 1, true);
	} else if (strcmp(c, "auto") == 0) {
		w->auto_msg = flag(a, "msg");
		w->auto_io = flag(a, "io");
		w->auto_kernel = flag(a, "kernel");
		w->auto_disk = flag(a, "disk");
	} else if (strcmp(c, "quiet") == 0 || strcmp(c, "loud") == 0) {
		w->quiet = c[0] == 'q';
	} else if (strcmp(c, "pass") == 0) {
		cmd_pass(w, at(a, 1));
	} else {
		return cmd_expect(w, a);
	}
	return true;
}

static void cmd_super(struct world *w, const struct args *a)
{
	struct ddr_super sb = w->sb;

	sb.seq = number(a, "seq", sb.seq);
	ddr_sm_load_super(w->me->sm, &sb);
}

/* Commands for one node. */
static void cmd_node(struct world *w, const struct args *a)
{
	const char *c = a->v[0];

	if (strcmp(c, "up") == 0) {
		cmd_up(w);
		return;
	}
	if (strcmp(c, "id") == 0) {
		w->me->cfg.node = (uint32_t)at(a, 1);
		return;
	}
	if (strcmp(c, "settles") == 0) {
		w->me->cfg.booted_ms = at(a, 1);
		return;
	}
	if (strcmp(c, "adopt") == 0) {
		w->me->cfg.adopt = true;
		return;
	}
	if (!w->me->sm)
		die("before the instance is up", c);
	if (strcmp(c, "down") == 0)
		node_down(w->me);
	else if (strcmp(c, "stop") == 0 || strcmp(c, "cont") == 0)
		w->me->stopped = c[0] == 's';
	else if (strcmp(c, "landing") == 0)
		ddr_sm_landing(w->me->sm, at(a, 1));
	else if (strcmp(c, "left-over") == 0)
		ddr_sm_left_over(w->me->sm, at(a, 1));
	else if (strcmp(c, "log") == 0)
		cmd_log(w, a, 1, false);
	else if (strcmp(c, "map") == 0)
		cmd_map(w, a, 1, false);
	else if (strcmp(c, "super") == 0)
		cmd_super(w, a);
	else if (strcmp(c, "view") == 0)
		cmd_view(w, a, DDR_IN_VIEW);
	else if (strcmp(c, "quorum") == 0)
		cmd_view(w, a, DDR_IN_QUORUM);
	else if (strcmp(c, "attach") == 0)
		cmd_attach(w, a);
	else if (strcmp(c, "deliver") == 0)
		deliver(w, 0, true);
	else if (strcmp(c, "foreign") == 0)
		deliver(w, (uint32_t)at(a, 1), true);
	else if (strcmp(c, "drop") == 0)
		deliver(w, 0, false);
	else if (strcmp(c, "done") == 0)
		cmd_done(w, a);
	else if (strcmp(c, "drained") == 0)
		cmd_answer(w, a, DDR_U_DRAIN);
	else if (strcmp(c, "applied") == 0)
		cmd_answer(w, a, DDR_U_MEMBER);
	else if (strcmp(c, "reaped") == 0)
		cmd_answer(w, a, DDR_U_REAP);
	else if (strcmp(c, "region") == 0)
		fprintf(begin(w), "%#x\n", ddr_sm_region(w->me->sm, at(a, 1)));
	else if (strcmp(c, "status") == 0)
		cmd_status(w);
	else if (!cmd_input(w, a))
		die("no such command", c);
}

static void command(struct world *w, char *line)
{
	struct args a;
	uint32_t only = 0;
	bool done = false;

	split(line, &a);
	if (a.n && strchr(a.v[0], ':')) {
		only = (uint32_t)strtoul(a.v[0], NULL, 10);
		memmove(a.v, a.v + 1, (size_t)--a.n * sizeof(a.v[0]));
	}
	if (a.n == 0)
		die("an empty command", "");
	if (!cmd_world(w, &a)) {
		for (uint32_t i = 0; i < w->n; i++) {
			w->me = &w->node[i];
			if (only ? w->me->label != only : w->n > 1 && (!w->me->sm || w->me->stopped) && strcmp(a.v[0], "up") != 0)
				continue;
			cmd_node(w, &a);
			done = true;
		}
		if (!done)
			die("no such node, or none is up, for", a.v[0]);
	}
	answer_all(w);
}

/* ---- files --------------------------------------------------------------------- */

/* Runs the commands of a file and returns its text with the new answers. The caller frees it. */
static char *replay(FILE *in)
{
	static struct world w;
	static size_t size;
	char line[512], copy[512];

	memset(&w, 0, sizeof(w));
	expect_begin();
	transcript = w.to = open_memstream(&transcript_text, &size);
	w.nowhere = fopen("/dev/null", "w");
	for (line_number = 1; fgets(line, sizeof(line), in); line_number++) {
		if (line[0] == ' ')
			continue;	/* an old answer */
		fputs(line, w.to);
		if (line[0] != '>')
			continue;
		strcpy(copy, line + 1);
		command(&w, copy);
	}
	for (uint32_t i = 0; i < w.n; i++)
		node_down(&w.node[i]);
	fclose(w.nowhere);
	fclose(w.to);
	transcript = NULL;
	return transcript_text;
}

static char *read_all(FILE *in)
{
	char *text = NULL;
	size_t size = 0;
	FILE *to = open_memstream(&text, &size);

	for (int c = fgetc(in); c != EOF; c = fgetc(in))
		fputc(c, to);
	fclose(to);
	return text;
}

/* Prints where two texts first differ. */
static void complain(const char *want, const char *got)
{
	int n = 1;
	size_t w, g;

	while (*want && *got) {
		w = strcspn(want, "\n");
		g = strcspn(got, "\n");
		if (w != g || memcmp(want, got, w) != 0)
			break;
		want += w + (want[w] == '\n');
		got += g + (got[g] == '\n');
		n++;
	}
	printf("%s:%d: differs\n  expected: %.*s\n  answered: %.*s\n", current, n, (int)strcspn(want, "\n"), want,
	       (int)strcspn(got, "\n"), got);
}

/* Is its first command "sim"? @real: with real daemons. */
static bool is_schedule(FILE *f, bool *real)
{
	char line[512] = "";

	while (line[0] != '>' && fgets(line, sizeof(line), f))
		;
	rewind(f);
	*real = strstr(line, " daemons=1\n");
	return strncmp(line, "> sim ", 6) == 0;
}

static char daemons[4096];	/* the simulator with real daemons, which is built beside this program */

static bool run_daemons(const char *path)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		execl(daemons, daemons, "--run", path, (char *)NULL);
		perror(daemons);
		_exit(127);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Is what was expected broken if, and only if, it is known to be? */
static bool as_expected(void)
{
	const char *rule = expect_known_rule(), *first;
	uint32_t n = expect_broken(&first);

	if (rule && !n)
		printf("%s: marked as known until %s is built, and nothing is broken any more: take the mark away\n", current, rule);
	else if (!rule && n)
		printf("%s: broken: %s\n", current, first);
	return !rule == !n;
}

static int n_known;	/* files that failed as they are known to */

static bool run_file(const char *path, bool rewrite)
{
	FILE *f = fopen(path, "r");
	char *want, *got;
	bool same, good, real;

	current = path;
	if (!f) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		exit(2);
	}
	if (is_schedule(f, &real)) {
		same = real ? run_daemons(path) : tape_run_file(f, path, false, false);
		fclose(f);
		return same;
	}
	want = read_all(f);
	rewind(f);
	got = replay(f);
	fclose(f);
	same = strcmp(want, got) == 0;
	if (!same && rewrite) {
		f = fopen(path, "w");
		if (!f || fputs(got, f) < 0 || fclose(f) != 0) {
			fprintf(stderr, "%s: %s\n", path, strerror(errno));
			exit(2);
		}
	} else if (!same) {
		complain(want, got);
		if (expect_known_rule())
			printf("  it is known to fail until %s is built, but not so\n", expect_known_rule());
	}
	good = as_expected() && (same || rewrite);
	n_known += good && expect_known_rule();
	free(want);
	free(got);
	return good;
}

int main(int argc, char **argv)
{
	bool rewrite = argc > 1 && strcmp(argv[1], "--rewrite") == 0;
	const char *srcdir = getenv("srcdir");
	int failed = 0, n = argc - 1 - rewrite;
	char pattern[4096];
	glob_t all = { 0 };

	snprintf(daemons, sizeof(daemons), "%.*s../sim/ddrsim-daemon", (int)(strrchr(argv[0], '/') ? strrchr(argv[0], '/') + 1 - argv[0] : 0), argv[0]);
	for (int i = 1 + rewrite; i < argc; i++)
		failed += !run_file(argv[i], rewrite);
	if (n == 0) {
		snprintf(pattern, sizeof(pattern), "%s/tests/scenarios/*.txt", srcdir ? srcdir : ".");
		if (glob(pattern, 0, NULL, &all) != 0) {
			fprintf(stderr, "no scenarios: %s\n", pattern);
			return 2;
		}
		n = (int)all.gl_pathc;
		for (int i = 0; i < n; i++)
			failed += !run_file(all.gl_pathv[i], rewrite);
		globfree(&all);
	}
	printf("%d scenarios, %d failed, %d more are known to fail\n", n, failed, n_known);
	return failed != 0;
}
