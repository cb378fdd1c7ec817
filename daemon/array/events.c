// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Events of arrays. See events.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <qb/qblog.h>

#include "daemon/array/events.h"
#include "lib/disk/layout.h"

#define TEXT_MAX	640u
#define QUIET_MS	10000u	/* from a clean stop to the removal of the device */

/* The name of each event, and the names of its numbers in `ddraid events --json`; doc/ddraid.8 lists them. */
static const struct {
	const char *name;
	int priority;
	const char *a, *b;		/* fields for output.a and .b; NULL: none */
	const char *start, *count;	/* fields for a range */
} events[] = {
	[DDR_EV_ATTACHED]	= { .name = "attached", .priority = LOG_INFO },
	[DDR_EV_DETACHED]	= { .name = "detached", .priority = LOG_INFO },
	[DDR_EV_READY]		= { .name = "ready", .priority = LOG_NOTICE },
	[DDR_EV_RECOVERY]	= { .name = "recovery", .priority = LOG_NOTICE, .a = "regions", .b = "node" },
	[DDR_EV_RESYNC_START]	= { .name = "resync-start", .priority = LOG_NOTICE, .a = "regions" },
	[DDR_EV_RESYNC_DONE]	= { .name = "resync-done", .priority = LOG_NOTICE, .a = "regions", .b = "blocks" },
	[DDR_EV_MEMBER_FAILED]	= { .name = "member-failed", .priority = LOG_ERR, .a = "generation" },
	[DDR_EV_MEMBER_ERROR]	= { .name = "member-error", .priority = LOG_WARNING, .start = "first_block", .count = "blocks" },
	[DDR_EV_DEGRADED]	= { .name = "degraded", .priority = LOG_WARNING, .a = "may_fail" },
	[DDR_EV_SUSPECT]	= { .name = "suspect", .priority = LOG_WARNING, .a = "total", .start = "first_region", .count = "regions" },
	[DDR_EV_FAILED]		= { .name = "failed", .priority = LOG_CRIT },
	[DDR_EV_CLEAN]		= { .name = "clean", .priority = LOG_INFO, .a = "dirty" },
	[DDR_EV_CLEAN_REFUSED]	= { .name = "refused", .priority = LOG_WARNING, .a = "errno" },
	[DDR_EV_VIEW]		= { .name = "view", .priority = LOG_INFO, .a = "nodes", .b = "quorate" },
	[DDR_EV_REFUSED]	= { .name = "refused", .priority = LOG_WARNING, .a = "errno" },
	[DDR_EV_BUG]		= { .name = "bug", .priority = LOG_CRIT },
	[DDR_EV_NODE_JOINED]	= { .name = "node-joined", .priority = LOG_NOTICE, .a = "slot", .b = "node" },
	[DDR_EV_NODE_LEFT]	= { .name = "node-left", .priority = LOG_NOTICE, .b = "node" },
	[DDR_EV_NODE_LOST]	= { .name = "node-lost", .priority = LOG_ERR, .a = "failure", .b = "node" },
	[DDR_EV_NODE_FENCED]	= { .name = "node-fenced", .priority = LOG_NOTICE, .a = "failure", .b = "node" },
	[DDR_EV_NODE_RECOVERED]	= { .name = "node-recovered", .priority = LOG_NOTICE, .a = "slot", .b = "node" },
	[DDR_EV_WAIT]		= { .name = "wait", .priority = LOG_WARNING, .b = "node" },
	[DDR_EV_EVICTED]	= { .name = "evicted", .priority = LOG_CRIT },
	[DDR_EV_LEFT]		= { .name = "left", .priority = LOG_INFO },
	[DDR_EV_REBUILD_START]	= { .name = "rebuild-start", .priority = LOG_NOTICE, .a = "generation" },
	[DDR_EV_MEMBER_ADDED]	= { .name = "member-added", .priority = LOG_NOTICE, .a = "generation" },
	[DDR_EV_MEMBER_REMOVED]	= { .name = "member-removed", .priority = LOG_NOTICE, .a = "generation" },
	[DDR_EV_NO_SPACE]	= { .name = "no-space", .priority = LOG_ERR },
	[DDR_EV_SPACE]		= { .name = "space", .priority = LOG_NOTICE },
	[DDR_EV_POLICY]		= { .name = "policy", .priority = LOG_NOTICE },
	[DDR_EV_VERIFY_START]	= { .name = "verify-start", .priority = LOG_NOTICE, .a = "priority", .b = "repair" },
	[DDR_EV_VERIFY_PAUSED]	= { .name = "verify-paused", .priority = LOG_NOTICE, .a = "found", .b = "repaired" },
	[DDR_EV_VERIFY_STOPPED]	= { .name = "verify-stopped", .priority = LOG_NOTICE, .a = "found", .b = "repaired" },
	[DDR_EV_VERIFY_DONE]	= { .name = "verify-done", .priority = LOG_NOTICE, .a = "found", .b = "repaired", .count = "suspect" },
	[DDR_EV_REPAIRED]	= { .name = "repaired", .priority = LOG_WARNING, .a = "repaired", .start = "first_block", .count = "blocks" },
	[DDR_EV_MISMATCH]	= { .name = "mismatch", .priority = LOG_ERR, .a = "found", .start = "first_block", .count = "blocks" },
	[DDR_EV_GROWN]		= { .name = "grown", .priority = LOG_NOTICE, .a = "old_blocks", .b = "blocks" },
	[DDR_EV_GROW_REFUSED]	= { .name = "grow-refused", .priority = LOG_WARNING, .a = "bytes", .b = "node" },
	[DDR_EV_REBUILD_DONE]	= { .name = "rebuild-done", .priority = LOG_NOTICE, .a = "generation", .b = "blocks" },
};

static const char *const class_name[] = {
	[DDR_EC_IO] = "I/O error", [DDR_EC_MEDIUM] = "bad sector", [DDR_EC_FENCED] = "reservation conflict",
	[DDR_EC_NOSPC] = "no space", [DDR_EC_TIMEOUT] = "timeout", [DDR_EC_INVAL] = "invalid request",
	[DDR_EC_ABSENT] = "not in the table",
};
static const char *const op_name[] = {
	[DDR_OP_READ] = "read", [DDR_OP_WRITE] = "write", [DDR_OP_FLUSH] = "flush", [DDR_OP_ZEROES] = "write-zeroes",
};

static const char *word(const char *const *names, size_t n, uint64_t i)
{
	return i < n && names[i] ? names[i] : "unknown";
}

#define WORD(names, i) word(names, sizeof(names) / sizeof((names)[0]), i)

static const char *device(const struct ddr_array *a, uint32_t member)
{
	const char *name = a->members && member < DDR_MAX_MEMBERS ? a->members->name[member] : "";

	return *name ? name : "missing";
}

/* A device that is gone explains its errors: the kernel has no error class for that and reports several others. */
static bool gone(const struct ddr_array *a, uint32_t member)
{
	return a->members && member < DDR_MAX_MEMBERS && (a->members->open >> member & 1) && ddr_dev_gone(a->members->dev[member].fd);
}

static const char *class_of(const struct ddr_array *a, const struct ddr_output *o)
{
	return gone(a, o->member) ? "device gone" : WORD(class_name, o->a);
}

static const char *node(const struct ddr_array *a, uint64_t id, char *buf, size_t size)
{
	return a->d->transport->node_name(a->d, (uint32_t)id, buf, size);
}

/* At the end of a verify the text names what verify cannot decide: the contents of suspect regions. */
static void verify_text(const struct ddr_array *a, const struct ddr_output *o, char *buf, size_t size)
{
	int n = snprintf(buf, size, "verify %s: %" PRIu64 " blocks did not match or could not be read, %" PRIu64 " of them repaired",
			 o->event == DDR_EV_VERIFY_DONE ? "done" : o->event == DDR_EV_VERIFY_PAUSED ? "paused" : "stopped", o->a, o->b);

	if (o->event == DDR_EV_VERIFY_DONE && o->count && (size_t)n < size)
		snprintf(buf + n, size - (size_t)n, "; %" PRIu64 " suspect regions were skipped: ddraid status tells what to check, then type "
			 "ddraid set %s suspect=accept", o->count, a->name);
}

/* What the smallest device offers, how much of each device the array uses, and what is missing for the requested size. */
static void grow_refused(const struct ddr_array *a, const struct ddr_output *o, char *buf, size_t size)
{
	struct ddr_super sb = *ddr_sm_super(a->sm);
	uint64_t needed = ddr_layout_member_bytes(&sb);
	char name[DDR_NODE_NAME_LEN];
	int n;

	if (!o->b) {
		snprintf(buf, size, "the array does not grow");
		return;
	}
	n = snprintf(buf, size, "the array does not grow: member %u (%s) has room for %" PRIu64 " bytes on %s (1 %% of a disk, at most 100 MiB, "
				"stays free); ",
		     o->member, device(a, o->member), o->a, node(a, o->b, name, sizeof(name)));
	if (n < 0 || (size_t)n >= size)
		return;
	buf += n;
	size -= (size_t)n;
	sb.array_blocks = o->count;
	if (!o->count)
		snprintf(buf, size, "the array already uses %" PRIu64 " bytes of each member", needed);
	else
		snprintf(buf, size, "the new size needs %" PRIu64 ", so %" PRIu64 " bytes are missing", ddr_layout_member_bytes(&sb),
			 ddr_layout_member_bytes(&sb) - o->a);
}

static void describe(const struct ddr_array *a, const struct ddr_output *o, char *buf, size_t size)
{
	char name[DDR_NODE_NAME_LEN];

	switch (o->event) {
	case DDR_EV_READY:
		snprintf(buf, size, "ready: the device serves reads and writes");
		break;
	case DDR_EV_RECOVERY:
		snprintf(buf, size, "%" PRIu64 " regions were being written when node %" PRIu64 " stopped; they are being resynced", o->a, o->b);
		break;
	case DDR_EV_RESYNC_START:
		snprintf(buf, size, "resync of %" PRIu64 " regions started", o->a);
		break;
	case DDR_EV_RESYNC_DONE:
		snprintf(buf, size, "resync done: %" PRIu64 " regions, parity of %" PRIu64 " blocks rewritten", o->a, o->b);
		break;
	case DDR_EV_MEMBER_FAILED:
		snprintf(buf, size, "member %u (%s) failed and is no longer used%s, generation %" PRIu64 "; if the array has no spare, add a disk: "
			 "ddraid add %s DEV", o->member, device(a, o->member),
			 gone(a, o->member) ? ": its device is gone (the disk was pulled, or its last path was lost)" : "", o->a, a->name);
		break;
	case DDR_EV_REBUILD_START:
		if (o->b & DDR_MEMBER_F_REPLACING) {
			snprintf(buf, size, "member %u (%s) is replacing member %u (%s), whose data is being copied to it, generation %" PRIu64,
				 o->member,
				 device(a, o->member), o->node, device(a, o->node), o->a);
			break;
		}
		snprintf(buf, size, "member %u (%s) %s, generation %" PRIu64, o->member, device(a, o->member), o->b ?
			 "is back, and is being brought up to date" : "takes the place of a failed member, and is being rebuilt", o->a);
		break;
	case DDR_EV_MEMBER_ADDED:
		snprintf(buf, size, "member %u is a spare, generation %" PRIu64, o->member, o->a);
		break;
	case DDR_EV_MEMBER_REMOVED:
		snprintf(buf, size, "member %u (%s) was removed, generation %" PRIu64, o->member, device(a, o->member), o->a);
		break;
	case DDR_EV_NO_SPACE:
		snprintf(buf, size, "member %u (%s) has no space left: add space to the pool that provides the disk; ddraid retries automatically. "
				    "Until then",
			 o->member, device(a, o->member));
		break;
	case DDR_EV_SPACE:
		snprintf(buf, size, "member %u (%s) has space again: waiting requests continue", o->member, device(a, o->member));
		break;
	case DDR_EV_POLICY:
		snprintf(buf, size, "suspect-reads = %s: reads of suspect regions that must be reconstructed %s",
			 o->a & DDR_POLICY_SUSPECT_READS_ERROR ?
			 "error" : "pass", o->a & DDR_POLICY_SUSPECT_READS_ERROR ? "fail" : "return the data as it is");
		break;
	case DDR_EV_REBUILD_DONE:
		if (o->node != DDR_NO_MEMBER) {
			snprintf(buf, size, "member %u (%s) has replaced member %u (%s), which is no longer used, generation %" PRIu64, o->member,
				 device(a, o->member), o->node, device(a, o->node), o->a);
			break;
		}
		snprintf(buf, size, "member %u (%s) is rebuilt and in sync, generation %" PRIu64, o->member, device(a, o->member), o->a);
		break;
	case DDR_EV_VERIFY_START:
		snprintf(buf, size, "verify runs, priority %" PRIu64 "%s", o->a,
			 o->b ? ", parity is recomputed where the wrong block is unknown" : "");
		break;
	case DDR_EV_VERIFY_PAUSED:
	case DDR_EV_VERIFY_STOPPED:
	case DDR_EV_VERIFY_DONE:
		verify_text(a, o, buf, size);
		break;
	case DDR_EV_REPAIRED:
		snprintf(buf, size, "member %u (%s): blocks %" PRIu64 "+%" PRIu64 " repaired from the other members", o->member, device(a, o->member),
			 o->start, o->count);
		break;
	case DDR_EV_MISMATCH:
		snprintf(buf, size, "blocks %" PRIu64 "+%" PRIu64, o->start, o->count);
		break;
	case DDR_EV_GROWN:
		snprintf(buf, size, "grown from %" PRIu64 " to %" PRIu64 " bytes", o->a * DDR_BLOCK_SIZE, o->b * DDR_BLOCK_SIZE);
		break;
	case DDR_EV_GROW_REFUSED:
		grow_refused(a, o, buf, size);
		break;
	case DDR_EV_MEMBER_ERROR:
		if (o->member == DDR_NO_MEMBER)	/* the text names it */
			snprintf(buf, size, "blocks %" PRIu64 "+%" PRIu64, o->start, o->count);
		else
			snprintf(buf, size, "member %u (%s): %s on %s of blocks %" PRIu64 "+%" PRIu64, o->member,
				 device(a, o->member), class_of(a, o), WORD(op_name, o->b), o->start, o->count);
		break;
	case DDR_EV_DEGRADED:
		snprintf(buf, size, "degraded: %" PRIu64 " more members may fail", o->a);
		break;
	case DDR_EV_SUSPECT:
		if (o->text)
			snprintf(buf, size, "regions %" PRIu64 "+%" PRIu64 " are suspect (%" PRIu64 " in all): %s; check the blocks that the event mismatch "
				 "named, restore what is wrong, and type ddraid set %s suspect=accept", o->start, o->count, o->a, o->text, a->name);
		else
			snprintf(buf, size, "regions %" PRIu64 "+%" PRIu64 " are suspect (%" PRIu64 " in all): a block that was in flight at the crash "
				 "may read as garbage; check what was being written then, and type ddraid set %s suspect=accept",
				 o->start, o->count, o->a, a->name);
		break;
	case DDR_EV_FAILED:
		snprintf(buf, size, "failed: more members failed than the parity covers");
		break;
	case DDR_EV_CLEAN:
		if (o->a == UINT64_MAX)
			snprintf(buf, size, "stopped before the dirty log was read; the other nodes, or the next start, resync the dirty regions");
		else
			snprintf(buf, size, "clean: %" PRIu64 " regions stay dirty", o->a);
		break;
	case DDR_EV_VIEW:
		snprintf(buf, size, "view of %" PRIu64 " nodes, %s", o->a, o->b ? "quorate" : "not quorate");
		break;
	case DDR_EV_NODE_JOINED:
		snprintf(buf, size, "%s joined, slot %" PRIu64, node(a, o->b, name, sizeof(name)), o->a);
		break;
	case DDR_EV_NODE_LEFT:
		snprintf(buf, size, "%s left cleanly", node(a, o->b, name, sizeof(name)));
		break;
	case DDR_EV_NODE_LOST:
		snprintf(buf, size, "%s is lost%s%s; its regions wait until it returns or is fenced",
			 node(a, o->b, name, sizeof(name)), o->text ? ": " : "", o->text ? o->text : "");
		break;
	case DDR_EV_NODE_FENCED:
		snprintf(buf, size, "%s is confirmed dead", node(a, o->b, name, sizeof(name)));
		break;
	case DDR_EV_NODE_RECOVERED:
		snprintf(buf, size, "recovery of the regions of %s (slot %" PRIu64 ") started",
			 node(a, o->b, name, sizeof(name)), o->a);
		break;
	case DDR_EV_WAIT:
		snprintf(buf, size, "waiting%s%s", o->b ? " for " : "", o->b ? node(a, o->b, name, sizeof(name)) : "");
		break;
	default:
		snprintf(buf, size, "%s", events[o->event].name);
		break;
	}
	if (o->text && o->event != DDR_EV_SUSPECT) {
		size_t n = strlen(buf);

		snprintf(buf + n, size - n, "%s%s%s", n ? ": " : "", o->text,
			 o->event == DDR_EV_WAIT ? ddr_fence_ack_id(o->text, (uint32_t)o->b, name, sizeof(name)) : "");
	}
}

void ddr_event_plain(struct ddr_array *a, int priority, const char *name, const char *text)
{
	struct ddr_notice n = { .array = a->name, .uuid = a->uuid_text, .event = name, .text = text };

	qb_log((uint8_t)priority, "array '%s': %s", a->name, text);
	ddr_sink_tell(&a->d->sink, &n);
}

static void add(struct ddr_notice *n, unsigned int i, const char *key, uint64_t value)
{
	n->number[i].key = key;
	n->number[i].value = value;
}

static void tell(struct ddr_array *a, const struct ddr_output *o, const char *name, const char *text)
{
	struct ddr_notice n = { .array = a->name, .uuid = a->uuid_text, .event = name, .text = text };

	if (o->member != DDR_NO_MEMBER) {
		n.member = o->member;
		n.device = device(a, o->member);
	}
	if (o->event == DDR_EV_MEMBER_ERROR && o->member != DDR_NO_MEMBER) {
		n.error = class_of(a, o);
		n.operation = WORD(op_name, o->b);
	}
	add(&n, 0, events[o->event].a, o->a);
	add(&n, 1, events[o->event].b, o->b);
	if (o->count) {
		add(&n, 2, events[o->event].start, o->start);
		add(&n, 3, events[o->event].count, o->count);
	}
	ddr_sink_tell(&a->d->sink, &n);
}

/* Udev's rules ignore an array until it is served; this makes them look at it. A uevent through sysfs waits for nothing. */
static void tell_udev(const struct ddr_array *a)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/uevent", a->bind.dm_major, a->bind.dm_minor);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (write(fd, "change", 6) != 6)
		qb_perror(LOG_WARNING, "telling udev that the array is ready");
	close(fd);
}

static bool same_finding(const struct ddr_finding *a, const struct ddr_finding *b)
{
	return a->start == b->start && a->count == b->count && a->member == b->member && a->repaired == b->repaired;
}

/* The same place found again, for example by the next verify, must not push others out of the list. */
static void remember_finding(struct ddr_array *a, const struct ddr_output *o)
{
	bool repaired = o->event == DDR_EV_REPAIRED;
	struct ddr_finding f = { .start = o->start, .count = o->count, .blocks = o->a, .member = repaired ? o->member : DDR_NO_MEMBER,
				 .repaired = repaired, .text = o->text };
	struct timespec ts;
	unsigned int i = 0;

	clock_gettime(CLOCK_REALTIME, &ts);
	f.time = (uint64_t)ts.tv_sec;
	while (i < a->n_findings && !same_finding(&a->finding[i], &f))
		i++;
	if (i == DDR_ARRAY_FINDINGS)
		i = 0;
	if (i < a->n_findings) {
		a->n_findings--;
		memmove(&a->finding[i], &a->finding[i + 1], (a->n_findings - i) * sizeof(f));
	}
	a->finding[a->n_findings++] = f;
}

/* Keeps what status and waiting clients need of the event. */
static void remember(struct ddr_array *a, const struct ddr_output *o, const char *text)
{
	switch (o->event) {
	case DDR_EV_READY:
		a->ready = true;
		a->error[0] = '\0';
		tell_udev(a);
		break;
	case DDR_EV_FAILED:
		snprintf(a->error, sizeof(a->error), "%s", text);
		break;
	case DDR_EV_REFUSED:
		a->refusal = o->text ? o->text : "refused";
		if ((o->b == DDR_MEMBER_OP_REPLACE || o->b == DDR_MEMBER_OP_TAKE) && o->member == a->replace.spare)
			a->replace.refusal = a->refusal;
		a->cluster.left |= a->cluster.leaving && o->a == EBUSY;
		if (o->text == ddr_sm_elsewhere && ddr_identity_elsewhere(a, ddr_sm_super(a->sm), ddr_sm_cluster(a->sm)))
			break;			/* with both ids */
		if (!a->ready && o->a != EPROTO)	/* EPROTO: about a message of another node */
			snprintf(a->error, sizeof(a->error), "%s", a->refusal);
		break;
	case DDR_EV_CLEAN_REFUSED:
		a->refusal = a->clean_refusal = o->text ? o->text : "refused";
		a->clean_asked = false;
		a->quiet_until_ms = 0;
		break;
	case DDR_EV_CLEAN:
		a->clean_asked = false;
		a->dirty_left = o->a;
		a->quiet_until_ms = ddr_now_ms() + QUIET_MS;
		break;
	case DDR_EV_GROW_REFUSED:
		snprintf(a->grow.refusal, sizeof(a->grow.refusal), "%s", text);
		break;
	case DDR_EV_LEFT:
		a->cluster.left = true;
		break;
	case DDR_EV_REPAIRED:
	case DDR_EV_MISMATCH:
		remember_finding(a, o);
		break;
	default:
		break;
	}
}

void ddr_event_array(struct ddr_array *a, const struct ddr_output *o)
{
	bool known = (size_t)o->event < sizeof(events) / sizeof(events[0]);
	char text[TEXT_MAX];

	if (o->type == DDR_OUT_GIVE_UP) {
		ddr_event_plain(a, LOG_CRIT, "give-up", a->error);
		return;
	}
	if (!known)
		return;
	describe(a, o, text, sizeof(text));
	remember(a, o, text);
	qb_log((uint8_t)events[o->event].priority, "array '%s': %s", a->name, text);
	tell(a, o, events[o->event].name, text);
}
