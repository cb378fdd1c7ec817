// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A tape as text: a scenario whose first command is "> sim". tests/scenarios/run.c runs it beside the others.
 *
 *	> sim seed=17 nodes=3			the array, its disks, and what is likely, as of this seed; with daemons=1: for ddrsim --daemon
 *	> 2: write start=12 count=2 id=1	an act of node 2; what is 0 is left out
 *	> network parts=0x10			... of no node
 *	> 2: op id=1 draws=1,0,1		what the act draws itself, as far as it is not 0
 *
 * table[] has the acts and what their numbers mean.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"

static const struct word { const char *name; enum act_verb verb; int sub; const char *arg[ACT_ARGS]; } table[] = {
	{ "start", ACT_START, 0, { NULL } },
	{ "kill", ACT_KILL, 0, { NULL } },
	{ "kill-soon", ACT_KILL_SOON, 0, { "outputs" } },
	{ "power-off", ACT_POWER_OFF, 0, { NULL } },
	{ "power-on", ACT_POWER_ON, 0, { "renamed", "another" } },		/* with another id in the cluster, if that may be; another machine with the id of this one */
	{ "blackout", ACT_BLACKOUT, 0, { NULL } },
	{ "network", ACT_NETWORK, 0, { "parts" } },			/* hexadecimal: the part of node 1 is the last digit */
	{ "together", ACT_TOGETHER, 0, { "begin" } },
	{ "quorum-changes", ACT_QUORATE, 0, { NULL } },
	{ "fenced", ACT_FENCE_ENDS, 0, { "target", "failed", "done", "which" } },	/* failed and done: it reports failure, but fenced */
	{ "fence-ack", ACT_FENCE_BY_HAND, 0, { NULL } },
	{ "late", ACT_LATE, 0, { "which", "lands" } },
	{ "leave", ACT_LEAVE, 0, { NULL } },
	{ "stay", ACT_STAY, 0, { NULL } },
	{ "leave-goes-on", ACT_LEAVE_GOES_ON, 0, { NULL } },
	{ "disk-dies", ACT_DISK, FAULT_NONE, { "member" } },
	{ "disk-fails-write", ACT_DISK, FAULT_WRITE, { "member" } },
	{ "disk-fails-flush", ACT_DISK, FAULT_FLUSH, { "member" } },
	{ "disk-fails-metadata", ACT_DISK, FAULT_META, { "member" } },
	{ "disk-fails-read", ACT_DISK, FAULT_READ_IO, { "member" } },
	{ "disk-bad-sector", ACT_DISK, FAULT_READ_MEDIUM, { "member" } },
	{ "disk-no-space", ACT_DISK, FAULT_NOSPC, { "member" } },
	{ "disk-cut-off", ACT_CUT, 0, { "member" } },
	{ "disk-bad-sectors", ACT_BAD, 0, { "member", "start", "count", "apart" } },	/* until they are written */
	{ "disk-hangs", ACT_HANG, 0, { "member", "ms", "kernel" } },	/* kernel: its own requests, too */
	{ "disks-full", ACT_FULL, 0, { "members" } },			/* a mask */
	{ "disks-have-space", ACT_SPACE, 0, { "members" } },
	{ "disks-grow", ACT_ROOM, 0, { "blocks", "seen-by" } },
	{ "put-back", ACT_PUT_BACK, 0, { "member", "dead", "unasked" } },
	{ "stop-or-continue", ACT_STOP, 0, { "stop" } },			/* the rest is of real daemons */
	{ "end", ACT_END, 0, { NULL } },					/* in order, and the arrays stay up */
	{ "corosync", ACT_COROSYNC, 0, { "ends" } },
	{ "open-fails", ACT_CALL, CALL_OPEN, { "errno" } },
	{ "bind-fails", ACT_CALL, CALL_BIND, { "errno" } },
	{ "eventfd-fails", ACT_CALL, CALL_EVENTFD, { "errno" } },
	{ "thread-fails", ACT_CALL, CALL_THREAD, { "errno" } },
	{ "memory-fails", ACT_CALL, CALL_MEMORY, { "errno" } },
	{ "connect-fails", ACT_CALL, CALL_CONNECT, { "errno" } },		/* to corosync: /dev/shm is full */
	{ "corosync-is-busy", ACT_CALL, CALL_BUSY, { "errno" } },
	{ "fence-order-fails", ACT_CALL, CALL_FENCE, { "errno" } },
	{ "sysfs-fails", ACT_CALL, CALL_SYSFS, { "errno" } },
	{ "read-fails", ACT_CALL, CALL_READ, { "errno" } },		/* by a thread */
	{ "request-fails", ACT_CALL, CALL_REQUEST, { "errno" } },	/* asynchronous, of any kind */
	{ "lock-fails", ACT_CALL, CALL_LOCK, { "errno" } },
	{ "inotify-fails", ACT_CALL, CALL_INOTIFY, { "errno" } },
	{ "control-fails", ACT_CALL, CALL_CONTROL, { "errno" } },	/* the module is lost, and comes back */
	{ "state-fails", ACT_CALL, CALL_STATE, { "errno" } },		/* the file of the generation that was seen last cannot be read */
	{ "device-changed", ACT_UEVENT, NEWS_CHANGED, { "member" } },
	{ "path-is-back", ACT_UEVENT, NEWS_PATH, { "member" } },
	{ "events-lost", ACT_UEVENT, NEWS_LOST, { "member" } },
	{ "clock-is-set", ACT_RARE, RARE_CLOCK, { "seconds" } },	/* forward */
	{ "lock", ACT_RARE, RARE_LOCK, { "member", "ms" } },		/* by another program */
	{ "module-goes", ACT_RARE, RARE_MODULE, { "times", "blind" } },	/* and is so often looked for in vain; blind: without a watch on /dev */
	{ "group-of-array-ends", ACT_RARE, RARE_GROUP, { NULL } },	/* only the connection to it */
	{ "status", ACT_RARE, RARE_STATUS, { NULL } },
	{ "requests-fail", ACT_RARE, RARE_SHORTAGE, { "ms" } },		/* all of them, for want of memory */
	{ "command-in-group", ACT_RARE, RARE_USER, { "is" } },		/* of the array, as an older ddraidd would be; or it ends */
	{ "identity-damaged", ACT_RARE, RARE_DAMAGED, { "byte" } },
	{ "identity-copied", ACT_RARE, RARE_COPIED, { "from" } },	/* of that node */
	{ "identity-hidden", ACT_RARE, RARE_HIDDEN, { "is" } },
	{ "state-is-read-only", ACT_RARE, RARE_READONLY, { "ms" } },
	{ "machine-is-a-copy", ACT_RARE, RARE_CLONE, { "of" } },		/* of that node; 0: no more, for its identity was removed */
	{ "no-way-into-group", ACT_RARE, RARE_NO_GROUP, { "ms" } },	/* of the array */
	{ "second-path", ACT_RARE, RARE_PATH, { "member", "ms" } },
	{ "file-system", ACT_RARE, RARE_FOREIGN, { "member" } },		/* on a disk that is not in use */
	{ "wrong-contents", ACT_RARE, RARE_WRONG, { "member", "block" } },	/* are what a verify reads */
	{ "adopt", ACT_RARE, RARE_ADOPT, { NULL } },
	{ "kernel-is-wedged", ACT_RARE, RARE_WEDGE, { "ms" } },		/* it drains no range, and applies no change of members */
	{ "wrong-table", ACT_RARE, RARE_TABLE, { "what" } },		/* or module, will be loaded after the next reboot */
	{ "looks-hang", ACT_RARE, RARE_SLOW, { "member", "ms" } },		/* at a member that is not in use */
	{ "other-disk", ACT_RARE, RARE_SWAP, { "member", "what" } },	/* 1: of another array; 2: an empty one; 3: a smaller one */
	{ "remembers-newer", ACT_RARE, RARE_OLDER, { "by" } },		/* generation than the disks ever had; 0: another one of that number */
	{ "reads-back-other", ACT_RARE, RARE_LIES, { "member" } },
	{ "removed-while-loaded", ACT_RARE, RARE_GONE, { NULL } },
	{ "another-machine-has-it", ACT_RARE, RARE_TAKEN, { "ms" } },	/* without a cluster: it stands still for so long, and the array is adopted elsewhere */
	{ "another-machine-uses-it", ACT_RARE, RARE_OTHERS, { "how", "members" } },	/* while it is adopted; 1: stamps, 2: claims, 3: overwrites a stamp, 4: writes superblocks */
	{ "stamps-hang", ACT_RARE, RARE_MUTE, { "members", "ms" } },	/* for who adopts the array */
	{ "disks-of-another-array", ACT_RARE, RARE_STRANGERS, { "members" } },	/* are in place of these */
	{ "table-fails", ACT_RARE, RARE_MAPS, { "errno" } },		/* the one that is being loaded */
	{ "set", ACT_OPERATOR, DDR_IN_OP_SET, { "key", "value" } },
	{ "clean", ACT_OPERATOR, DDR_IN_OP_CLEAN, { NULL } },
	{ "clean-no-more", ACT_OPERATOR, DDR_IN_OP_STAY, { NULL } },
	{ "fail", ACT_OPERATOR, DDR_IN_OP_FAIL_MEMBER, { NULL, NULL, "member", "how" } },
	{ "replace", ACT_OPERATOR, DDR_IN_OP_REPLACE, { NULL, "by", "member" } },
	{ "add", ACT_OPERATOR, DDR_IN_OP_ADD, { NULL, "disk" } },			/* a disk that not all nodes see, so it is not added */
	{ "add-no-more", ACT_OPERATOR, DDR_IN_OP_WITHDRAW, { NULL, "disk" } },	/* its client has waited for long enough */
	{ "verify", ACT_OPERATOR, DDR_IN_OP_VERIFY, { "what", "speed", NULL, "flags" } },
	{ "grow", ACT_OPERATOR, DDR_IN_OP_GROW, { NULL, NULL, NULL, NULL, "blocks" } },
	{ "tick", ACT_TICK, 0, { "ms" } },
	{ "write", ACT_IO, OP_WRITE, { "start", "count", "id" } },
	{ "read", ACT_IO, OP_READ, { "start", "count", "id" } },
	{ "flush", ACT_IO, OP_FLUSH, { "start", "count", "id" } },
	{ "mismatch", ACT_IO, OP_MISMATCH, { "start", "count", "id" } },
	{ "order", ACT_ORDER, 0, { NULL } },				/* its oldest message gets its place in the order */
	{ "deliver", ACT_DELIVER, 0, { NULL } },
	{ "quorum", ACT_QUORUM, 0, { NULL } },
	{ "message", ACT_BUS, 0, { NULL } },
	{ "record", ACT_RECORD, 0, { "what", "which", "number" } },	/* the oldest record of its kernel; real daemons: twin/choice.c */
	{ "look", ACT_SEEK, 0, { NULL } },
	{ "table", ACT_TABLE, 0, { NULL } },
	{ "resize", ACT_RESIZE, 0, { NULL } },
	{ "done-log", ACT_DONE, DDR_OUT_LOG_WRITE, { "index", NULL, "which" } },
	{ "done-map", ACT_DONE, DDR_OUT_MAP_WRITE, { "index", NULL, "which" } },
	{ "done-sb", ACT_DONE, DDR_OUT_SB_WRITE, { "index", NULL, "which" } },
	{ "done-flush", ACT_DONE, DDR_OUT_FLUSH, { "index", NULL, "which" } },
	{ "done-job", ACT_DONE, DDR_OUT_JOB_RANGE, { "start", NULL, "which" } },
	{ "done-reload", ACT_DONE, DDR_OUT_RELOAD, { "index", NULL, "which" } },
	{ "done-slot", ACT_DONE, DDR_OUT_SLOT_READ, { "index", "slot", "which" } },
	{ "done-slotwrite", ACT_DONE, DDR_OUT_SLOT_WRITE, { "index", "slot", "which" } },
	{ "done-room", ACT_DONE, DDR_OUT_ROOM, { "index", NULL, "which" } },
	{ "done-prepare", ACT_DONE, DDR_OUT_PREPARE, { "start", NULL, "which" } },
	{ "op", ACT_OP, 0, { "id", "member" } },
	{ "settle", ACT_SETTLE, 0, { "but-nodes", "but-kinds" } },	/* masks; kinds: 1 messages, 2 records, 4 I/O of daemons, 8 of kernels */
	{ "calm", ACT_CALM, 0, { "rng" } },				/* no more faults: everything must come to rest */
};

/* ---- writing ------------------------------------------------------------------- */

static const struct word *word_of(const struct act *a)
{
	for (const struct word *w = table; w < table + sizeof(table) / sizeof(table[0]); w++)
		if (w->verb == a->verb && w->sub == a->sub)
			return w;
	return NULL;
}

static void print_act(FILE *to, const struct tape *t, const struct act *a)
{
	const struct word *w = word_of(a);
	uint32_t n = a->n_draws;

	if (!w)
		abort();	/* an act that the language lacks */
	fprintf(to, "> ");
	if (a->node)
		fprintf(to, "%u: ", a->node);
	fputs(w->name, to);
	for (int i = 0; i < ACT_ARGS; i++)
		if (w->arg[i] && a->arg[i])
			fprintf(to, a->arg[i] > 0xffff || a->verb == ACT_NETWORK ? " %s=0x%" PRIx64 : " %s=%" PRIu64, w->arg[i], a->arg[i]);
	while (n && !t->pool[a->draws + n - 1])
		n--;
	for (uint32_t i = 0; i < n; i++)
		fprintf(to, "%s%" PRIu64, i ? "," : " draws=", t->pool[a->draws + i]);
	fputc('\n', to);
}

void tape_print(FILE *to, const struct tape *t, uint64_t seed, uint32_t nodes)
{
	fprintf(to, "> sim seed=%" PRIu64 " nodes=%u%s\n", seed, nodes, sim_real ? " daemons=1" : "");
	for (size_t i = 0; i < t->n; i++)
		print_act(to, t, &t->act[i]);
}

/* ---- reading ------------------------------------------------------------------- */

static bool parse_draws(struct tape *t, struct act *a, char *text)
{
	char *end = text;

	for (a->draws = (uint32_t)t->n_pool; *text; text = *end ? end + 1 : end, a->n_draws++) {
		t->pool = realloc(t->pool, (t->n_pool + 1) * sizeof(*t->pool));
		if (!t->pool)
			abort();
		t->pool[t->n_pool++] = strtoull(text, &end, 0);
		if (end == text || (*end && *end != ','))
			return false;
	}
	return true;
}

static bool parse_arg(struct tape *t, const struct word *w, struct act *a, char *text)
{
	char *value = strchr(text, '='), *end;

	if (!value)
		return false;
	*value++ = 0;
	if (strcmp(text, "draws") == 0)
		return parse_draws(t, a, value);
	for (int i = 0; i < ACT_ARGS; i++)
		if (w->arg[i] && strcmp(w->arg[i], text) == 0) {
			a->arg[i] = strtoull(value, &end, 0);
			return *value && !*end;
		}
	return false;
}

static const char *parse_act(struct tape *t, char *text)
{
	struct act a = { 0 };
	const struct word *w = table;
	char *node = text + strspn(text, " "), *end;

	a.node = (uint8_t)strtoul(node, &end, 10);
	text = strtok(end != node && *end == ':' ? end + 1 : text, " \t\n");
	while (text && w < table + sizeof(table) / sizeof(table[0]) && strcmp(w->name, text) != 0)
		w++;
	if (!text || w == table + sizeof(table) / sizeof(table[0]))
		return "no such command";
	a.verb = (uint8_t)w->verb;
	a.sub = (uint8_t)w->sub;
	while ((text = strtok(NULL, " \t\n")))
		if (!parse_arg(t, w, &a, text))
			return "the command has no such argument, or its value is no number";
	t->act = realloc(t->act, (t->n + 1) * sizeof(*t->act));
	if (!t->act)
		abort();
	t->act[t->n++] = a;
	return NULL;
}

const char *tape_parse(FILE *from, struct tape *t, uint64_t *seed, uint32_t *nodes, int *line)
{
	const char *why = NULL;
	char *text = NULL;
	size_t room = 0;
	bool begun = false;

	memset(t, 0, sizeof(*t));
	for (*line = 1; !why && getline(&text, &room, from) > 0; ++*line) {
		if (text[0] != '>')
			continue;
		if (begun)
			why = parse_act(t, text + 1);
		else if (sscanf(text, "> sim seed=%" SCNu64 " nodes=%u", seed, nodes) != 2 || *nodes < 1 || *nodes > SIM_MAX_NODES)
			why = "the first command must be: sim seed=N nodes=N";
		else if ((strstr(text, " daemons=1") != NULL) != sim_real)
			why = sim_real ? "it is not for ddrsim --daemon" : "it is for ddrsim --daemon";
		begun = true;
	}
	free(text);
	return why ? why : begun ? NULL : "no command";
}

bool tape_run_file(FILE *from, const char *path, bool trace, bool rules_only)
{
	struct sim *s = malloc(sizeof(*s));
	struct verdict v = { 0 };
	struct tape t;
	struct sim_run r = { .trace = trace, .rules_only = rules_only, .tape = &t, .verdict = &v };
	const char *why = s ? NULL : "out of memory";
	int line = 0;

	if (s)
		why = tape_parse(from, &t, &r.seed, &r.nodes, &line);
	if (why) {
		printf("%s:%d: %s\n", path, line - 1, why);
	} else {
		t.replay = true;
		sim_run_seed(s, &r);
		if (v.broken)
			printf("%s: act %llu of %zu: %s\n", path, (unsigned long long)v.event, t.n, v.text);
		tape_free(&t);
	}
	free(s);
	return !why && !v.broken;
}
