// SPDX-License-Identifier: GPL-2.0-or-later
/* What the daemon records of an event of the state machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <unistd.h>

#include <cmocka.h>
#include <json-c/json.h>

#include "daemon/array/array.h"
#include "daemon/array/events.h"
#include "daemon/ipc/notice.h"
#include "lib/disk/layout.h"

#define NOW	1000u

static struct ddr_transport_ops ops;
static void take(void *ctx, const struct ddr_notice *n);
static struct ddr_daemon d = { .transport = &ops, .sink.take = take };

/* ---- what events.c uses ---------------------------------------------------------- */

uint64_t ddr_now_ms(void) { return NOW; }
static struct { bool listens; struct json_object *event; } client;
static struct { uint64_t bytes; int error; } device;	/* answer of BLKGETSIZE64 */

static void take(void *ctx, const struct ddr_notice *n)
{
	(void)ctx;
	if (!client.listens)
		return;
	json_object_put(client.event);
	client.event = ddr_notice_json(n);
}

int __wrap_ioctl(int fd, unsigned long request, uint64_t *bytes);

int __wrap_ioctl(int fd, unsigned long request, uint64_t *bytes)
{
	assert_int_equal(fd, 99);
	assert_int_equal(request, BLKGETSIZE64);
	*bytes = device.bytes;
	errno = device.error;
	return device.error ? -1 : 0;
}

static struct ddr_super super = { .order = 6, .roles = 4, .members = 4, .parity = 1, .array_blocks = 64 * 3 * 1000, .chunk = 2048, .data_offset = 1 << 20 };

const char ddr_sm_elsewhere[] = "another cluster's";
const uint8_t *ddr_sm_cluster(const struct ddr_sm *sm) { static const uint8_t id[16] = { 7 }; (void)sm; return id; }

int ddr_identity_elsewhere(struct ddr_array *a, const struct ddr_super *sb, const uint8_t recorded[16])
{
	assert_ptr_equal(sb, &super);
	snprintf(a->error, sizeof(a->error), "cluster %u has used it", recorded[0]);
	return -1;
}

const struct ddr_super *ddr_sm_super(const struct ddr_sm *sm) { (void)sm; return &super; }

static const char *node_name(const struct ddr_daemon *daemon, uint32_t node, char *buf, size_t size)
{
	(void)daemon;
	snprintf(buf, size, node == 2 ? "south" : "node %u", node);
	return buf;
}

static struct { int error, fd, says; char path[64], wrote[16]; } sysfs;	/* open() fails, what it gives else, and what write() says then */

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
ssize_t __real_write(int fd, const void *buf, size_t n);
ssize_t __wrap_write(int fd, const void *buf, size_t n);

int __wrap_open(const char *path, int flags, ...)
{
	if (strncmp(path, "/sys/dev/block/", 15) != 0)
		return __real_open(path, flags, 0600);
	snprintf(sysfs.path, sizeof(sysfs.path), "%s", path);
	errno = sysfs.error;
	return sysfs.error ? -1 : (sysfs.fd = __real_open("/dev/null", O_WRONLY | O_CLOEXEC));
}

ssize_t __wrap_write(int fd, const void *buf, size_t n)
{
	if (fd != sysfs.fd || !fd)
		return __real_write(fd, buf, n);
	snprintf(sysfs.wrote, sizeof(sysfs.wrote), "%.*s", (int)n, (const char *)buf);
	errno = EIO;
	return sysfs.says ? sysfs.says : (ssize_t)n;
}

/* ---- the tests ------------------------------------------------------------------- */

static struct ddr_array stopping(void)
{
	struct ddr_array a = { .d = &d, .ready = true, .clean_asked = true, .quiet_until_ms = UINT64_MAX };

	return a;
}

static void tell(struct ddr_array *a, enum ddr_event event, uint64_t number, const char *text)
{
	struct ddr_output o = { .type = DDR_OUT_EVENT, .event = event, .member = DDR_NO_MEMBER, .node = DDR_NO_MEMBER, .a = number, .text = text };

	ddr_event_array(a, &o);
}

static const char *field(const char *key)
{
	return json_object_get_string(json_object_object_get(client.event, key));
}

/* Finding S41: a disk that was pulled is reported as "gone", whatever error class the kernel or an empty read gave. */
static void a_device_that_is_gone_is_called_so(void **state)
{
	static const struct { uint64_t bytes; int error; bool gone; } cases[] = {
		{ 4096, 0, false }, { 0, 0, true }, { 4096, ENXIO, true }, { 4096, ENODEV, true }, { 0, ENOTTY, false },
	};
	struct ddr_members members = { .open = 4, .n = 3, .dev[2] = { .fd = 99 }, .name[2] = "/dev/sdc" };
	struct ddr_array a = { .d = &d, .members = &members, .name = "data" };
	struct ddr_output o = { .type = DDR_OUT_EVENT, .event = DDR_EV_MEMBER_ERROR, .member = 2, .node = DDR_NO_MEMBER, .a = DDR_EC_MEDIUM,
				.b = DDR_OP_WRITE, .start = 7, .count = 1 };

	(void)state;
	client.listens = true;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		device.bytes = cases[i].bytes;
		device.error = cases[i].error;
		o.event = DDR_EV_MEMBER_ERROR;
		ddr_event_array(&a, &o);
		assert_string_equal(field("error"), cases[i].gone ? "device gone" : "bad sector");
		assert_string_equal(field("operation"), "write");
		assert_string_equal(field("text"), cases[i].gone ? "member 2 (/dev/sdc): device gone on write of blocks 7+1" :
				    "member 2 (/dev/sdc): bad sector on write of blocks 7+1");
		o.event = DDR_EV_MEMBER_FAILED;
		ddr_event_array(&a, &o);
		assert_int_equal(strstr(field("text"), "its device is gone") != NULL, cases[i].gone);
	}
	members.open = 0;			/* not open here: nothing is known of it */
	o.event = DDR_EV_MEMBER_ERROR;
	ddr_event_array(&a, &o);
	assert_string_equal(field("error"), "bad sector");
	client.listens = false;
	json_object_put(client.event);
	client.event = NULL;
}

/* For a while nothing is begun: the device is about to be removed. */
static void a_clean_stop_has_ended(void **state)
{
	struct ddr_array a = stopping();

	(void)state;
	tell(&a, DDR_EV_CLEAN, 3, NULL);
	assert_false(a.clean_asked);
	assert_null(a.clean_refusal);
	assert_int_equal(a.dirty_left, 3);
	assert_true(a.quiet_until_ms > NOW);
	assert_true(a.quiet_until_ms < NOW + 60000);
}

/* The state machine has dropped the stop. The daemon must drop it too, or it would never resume a resync or begin a verify. */
static void a_clean_stop_was_refused(void **state)
{
	struct ddr_array a = stopping();

	(void)state;
	tell(&a, DDR_EV_CLEAN_REFUSED, 11, "no quorum");
	assert_false(a.clean_asked);
	assert_int_equal(a.quiet_until_ms, 0);
	assert_string_equal(a.clean_refusal, "no quorum");
	assert_string_equal(a.refusal, "no quorum");
}

/* Other refusals meanwhile do not end it. */
static void a_refusal_of_something_else(void **state)
{
	struct ddr_array a = stopping();

	(void)state;
	tell(&a, DDR_EV_REFUSED, 11, "the region map is being changed; try again");
	assert_true(a.clean_asked);
	assert_int_equal(a.quiet_until_ms, UINT64_MAX);
	assert_null(a.clean_refusal);
}

static void found(struct ddr_array *a, enum ddr_event event, uint32_t member, uint64_t start)
{
	struct ddr_output o = { .type = DDR_OUT_EVENT, .event = event, .member = member, .node = DDR_NO_MEMBER, .start = start, .count = 3, .a = 2,
				.text = "so it is" };

	ddr_event_array(a, &o);
}

/* The last findings are kept, each place once. */
/* Finding T1: the reason that the command prints has both ids; the event has the state machine's text. */
static void an_array_of_another_cluster_is_refused_with_the_ids(void **state)
{
	struct ddr_array a = stopping();

	(void)state;
	a.ready = false;
	tell(&a, DDR_EV_REFUSED, EBUSY, ddr_sm_elsewhere);
	assert_string_equal(a.error, "cluster 7 has used it");
	assert_ptr_equal(a.refusal, ddr_sm_elsewhere);
}

static void the_last_findings_are_kept(void **state)
{
	static struct ddr_array a;

	(void)state;
	a = stopping();
	found(&a, DDR_EV_MISMATCH, DDR_NO_MEMBER, 7);
	found(&a, DDR_EV_REPAIRED, 4, 7);
	assert_int_equal(a.n_findings, 2);
	assert_int_equal(a.finding[0].member, DDR_NO_MEMBER);
	assert_false(a.finding[0].repaired);
	assert_true(a.finding[0].time > 1700000000);
	assert_int_equal(a.finding[1].member, 4);
	assert_int_equal(a.finding[1].start, 7);
	assert_int_equal(a.finding[1].count, 3);
	assert_int_equal(a.finding[1].blocks, 2);
	assert_true(a.finding[1].repaired);
	assert_string_equal(a.finding[1].text, "so it is");
	found(&a, DDR_EV_MISMATCH, DDR_NO_MEMBER, 7);	/* the same once more */
	assert_int_equal(a.n_findings, 2);
	assert_true(a.finding[0].repaired);
	assert_false(a.finding[1].repaired);
	for (uint64_t i = 0; i < DDR_ARRAY_FINDINGS; i++)
		found(&a, DDR_EV_REPAIRED, 1, 100 * (i + 1));
	assert_int_equal(a.n_findings, DDR_ARRAY_FINDINGS);
	assert_int_equal(a.finding[0].start, 100);
	found(&a, DDR_EV_REPAIRED, 1, 8);
	assert_int_equal(a.n_findings, DDR_ARRAY_FINDINGS);
	assert_int_equal(a.finding[0].start, 200);
	assert_int_equal(a.finding[DDR_ARRAY_FINDINGS - 1].start, 8);
	found(&a, DDR_EV_REPAIRED, 1, 300);
	assert_int_equal(a.n_findings, DDR_ARRAY_FINDINGS);
	assert_int_equal(a.finding[1].start, 400);
	assert_int_equal(a.finding[DDR_ARRAY_FINDINGS - 1].start, 300);
	tell(&a, DDR_EV_POLICY, 0, NULL);		/* no finding */
	assert_int_equal(a.n_findings, DDR_ARRAY_FINDINGS);
}

/* Finding S25: nothing said that the verify had skipped suspect regions, nor what to type. */
static void suspect_regions_say_what_to_do(void **state)
{
	struct ddr_array a = { .d = &d, .name = "data" };
	struct ddr_output o = { .type = DDR_OUT_EVENT, .event = DDR_EV_SUSPECT, .member = DDR_NO_MEMBER, .node = DDR_NO_MEMBER,
				.a = 3, .start = 7, .count = 2 };

	(void)state;
	client.listens = true;
	ddr_event_array(&a, &o);
	assert_non_null(strstr(field("text"), "type ddraid set data suspect=accept"));
	o.text = "why";
	ddr_event_array(&a, &o);
	assert_non_null(strstr(field("text"), "regions 7+2 are suspect (3 in all): why; check"));
	assert_non_null(strstr(field("text"), "type ddraid set data suspect=accept"));
	o = (struct ddr_output){ .type = DDR_OUT_EVENT, .event = DDR_EV_VERIFY_DONE, .member = DDR_NO_MEMBER, .node = DDR_NO_MEMBER, .count = 3 };
	ddr_event_array(&a, &o);
	assert_string_equal(field("suspect"), "3");
	assert_non_null(strstr(field("text"), "; 3 suspect regions were skipped: ddraid status tells"));
	assert_non_null(strstr(field("text"), "type ddraid set data suspect=accept"));
	o.count = 0;
	ddr_event_array(&a, &o);
	assert_null(strstr(field("text"), "suspect"));
}

/* ---- what each says, and its fields ------------------------------------------------- */

#define NONE	.member = DDR_NO_MEMBER, .node = DDR_NO_MEMBER
#define OF(m)	.member = (m), .node = DDR_NO_MEMBER

static const struct {
	struct ddr_output o;
	const char *event, *text, *fields;	/* what the text has, in this order; NULL: no field but those that all have */
} each[] = {
	{ { .event = DDR_EV_ATTACHED, NONE }, "attached", "attached", NULL },
	{ { .event = DDR_EV_DETACHED, NONE }, "detached", "detached", NULL },
	{ { .event = DDR_EV_READY, NONE }, "ready", "ready", NULL },
	{ { .event = DDR_EV_RECOVERY, NONE, .a = 3, .b = 2 }, "recovery",
	  "3 regions|node 2|resynced", "\"regions\":3,\"node\":2" },
	{ { .event = DDR_EV_RESYNC_START, NONE, .a = 3 }, "resync-start", "3 regions", "\"regions\":3" },
	{ { .event = DDR_EV_RESYNC_DONE, NONE, .a = 3, .b = 7 }, "resync-done", "done|3 regions|7 blocks",
	  "\"regions\":3,\"blocks\":7" },
	{ { .event = DDR_EV_MEMBER_FAILED, OF(1), .a = 9 }, "member-failed", "member 1 (/dev/sdb) failed|generation 9|ddraid add data DEV",
	  "\"member\":1,\"device\":\"/dev/sdb\",\"generation\":9" },
	{ { .event = DDR_EV_MEMBER_FAILED, OF(3), .a = 9 }, "member-failed", "member 3 (missing) failed|generation 9|ddraid add data DEV",
	  "\"member\":3,\"device\":\"missing\",\"generation\":9" },
	{ { .event = DDR_EV_MEMBER_ERROR, NONE, .start = 5, .count = 2, .text = "parity differs" }, "member-error", "blocks 5+2|: parity differs",
	  "\"first_block\":5,\"blocks\":2" },
	{ { .event = DDR_EV_MEMBER_ERROR, OF(0), .a = 99, .b = 99, .start = 5, .count = 2 }, "member-error", "member 0 (/dev/sda)|unknown|unknown|5+2",
	  "\"member\":0,\"device\":\"/dev/sda\",\"error\":\"unknown\",\"operation\":\"unknown\",\"first_block\":5,\"blocks\":2" },
	{ { .event = DDR_EV_DEGRADED, NONE, .a = 0 }, "degraded", "degraded|0 more", "\"may_fail\":0" },
	{ { .event = DDR_EV_FAILED, NONE, .text = "reads fail" }, "failed", "failed|: reads fail", NULL },
	{ { .event = DDR_EV_CLEAN, NONE, .a = 4 }, "clean", "4 regions", "\"dirty\":4" },
	{ { .event = DDR_EV_VIEW, NONE, .a = 3, .b = 1 }, "view", "3 nodes, quorate", "\"nodes\":3,\"quorate\":1" },
	{ { .event = DDR_EV_VIEW, NONE, .a = 1 }, "view", "1 nodes, not quorate", "\"nodes\":1,\"quorate\":0" },
	{ { .event = DDR_EV_BUG, NONE, .text = "impossible" }, "bug", ": impossible", NULL },
	{ { .event = DDR_EV_NODE_JOINED, NONE, .a = 1, .b = 2 }, "node-joined", "south joined|slot 1", "\"slot\":1,\"node\":2" },
	{ { .event = DDR_EV_NODE_LEFT, NONE, .b = 2 }, "node-left", "south left", "\"node\":2" },
	{ { .event = DDR_EV_NODE_FENCED, NONE, .a = 8, .b = 2, .text = "fenced" }, "node-fenced", "south|dead|: fenced",
	  "\"failure\":8,\"node\":2" },
	{ { .event = DDR_EV_NODE_RECOVERED, NONE, .a = 1, .b = 2 }, "node-recovered", "south|slot 1",
	  "\"slot\":1,\"node\":2" },
	{ { .event = DDR_EV_WAIT, NONE, .b = 2, .text = "type so" }, "wait", "waiting for south|: type so", "\"node\":2" },
	{ { .event = DDR_EV_WAIT, NONE, .text = "type so" }, "wait", "waiting: type so", "\"node\":0" },
	{ { .event = DDR_EV_REBUILD_START, OF(1), .a = 9 }, "rebuild-start", "member 1 (/dev/sdb) takes the place of|generation 9",
	  "\"member\":1,\"device\":\"/dev/sdb\",\"generation\":9" },
	{ { .event = DDR_EV_REBUILD_START, OF(1), .a = 9, .b = DDR_MEMBER_F_PARTIAL }, "rebuild-start", "member 1 (/dev/sdb) is back|generation 9",
	  "\"member\":1,\"device\":\"/dev/sdb\",\"generation\":9" },
	{ { .event = DDR_EV_REBUILD_START, .member = 1, .node = 0, .a = 9, .b = DDR_MEMBER_F_REPLACING }, "rebuild-start", "member 1 (/dev/sdb) is replacing member 0 (/dev/sda)|generation 9",
	  "\"member\":1,\"device\":\"/dev/sdb\",\"generation\":9" },
	{ { .event = DDR_EV_REBUILD_DONE, OF(1), .a = 9, .b = 77 }, "rebuild-done", "member 1 (/dev/sdb) is rebuilt|generation 9",
	  "\"member\":1,\"device\":\"/dev/sdb\",\"generation\":9,\"blocks\":77" },
	{ { .event = DDR_EV_REBUILD_DONE, .member = 1, .node = 0, .a = 9, .b = 77 }, "rebuild-done", "member 1 (/dev/sdb) has replaced member 0 (/dev/sda)|generation 9",
	  "\"member\":1,\"device\":\"/dev/sdb\",\"generation\":9,\"blocks\":77" },
	{ { .event = DDR_EV_MEMBER_ADDED, OF(3), .a = 9 }, "member-added", "member 3 is a spare|generation 9",
	  "\"member\":3,\"device\":\"missing\",\"generation\":9" },
	{ { .event = DDR_EV_MEMBER_REMOVED, OF(1), .a = 9 }, "member-removed", "member 1 (/dev/sdb) was removed|generation 9",
	  "\"member\":1,\"device\":\"/dev/sdb\",\"generation\":9" },
	{ { .event = DDR_EV_NO_SPACE, OF(1), .text = "writes wait" }, "no-space", "member 1 (/dev/sdb) has no space|add space to the pool|: writes wait",
	  "\"member\":1,\"device\":\"/dev/sdb\"" },
	{ { .event = DDR_EV_SPACE, OF(1) }, "space", "member 1 (/dev/sdb) has space again",
	  "\"member\":1,\"device\":\"/dev/sdb\"" },
	{ { .event = DDR_EV_POLICY, NONE, .a = DDR_POLICY_SUSPECT_READS_ERROR }, "policy",
	  "suspect-reads = error|fail", NULL },
	{ { .event = DDR_EV_POLICY, NONE }, "policy",
	  "suspect-reads = pass", NULL },
	{ { .event = DDR_EV_VERIFY_START, NONE, .a = 20 }, "verify-start", "verify|priority 20", "\"priority\":20,\"repair\":0" },
	{ { .event = DDR_EV_VERIFY_START, NONE, .a = 20, .b = 1 }, "verify-start",
	  "verify|priority 20|parity is recomputed", "\"priority\":20,\"repair\":1" },
	{ { .event = DDR_EV_VERIFY_PAUSED, NONE, .a = 5, .b = 2 }, "verify-paused",
	  "verify paused|5 blocks|2 ", "\"found\":5,\"repaired\":2" },
	{ { .event = DDR_EV_VERIFY_STOPPED, NONE, .a = 5, .b = 2 }, "verify-stopped",
	  "verify stopped|5 blocks|2 ", "\"found\":5,\"repaired\":2" },
	{ { .event = DDR_EV_REPAIRED, OF(1), .a = 2, .start = 5, .count = 8, .text = "a bad sector was rewritten" }, "repaired", "member 1 (/dev/sdb)|5+8|: a bad sector was rewritten",
	  "\"member\":1,\"device\":\"/dev/sdb\",\"repaired\":2,\"first_block\":5,\"blocks\":8" },
	{ { .event = DDR_EV_MISMATCH, NONE, .a = 2, .start = 5, .count = 8, .text = "why" }, "mismatch", "5+8|: why",
	  "\"found\":2,\"first_block\":5,\"blocks\":8" },
	{ { .event = DDR_EV_GROWN, NONE, .a = 10, .b = 20 }, "grown", "40960|81920 bytes", "\"old_blocks\":10,\"blocks\":20" },
	{ { .event = DDR_EV_LEFT, NONE }, "left", "left", NULL },
	{ { .event = DDR_EV_EVICTED, NONE }, "evicted", "evicted", NULL },
	{ { .event = DDR_EV_REFUSED, NONE, .a = EBUSY, .text = "not now" }, "refused", ": not now", "\"errno\":16" },
};

static struct ddr_members devices = { .n = 3, .name = { "/dev/sda", "/dev/sdb", "/dev/sdc" } };

static struct ddr_array named(void)
{
	struct ddr_array a = { .d = &d, .members = &devices, .name = "data", .uuid_text = "0-1", .bind = { .dm_major = 253, .dm_minor = 4 } };

	ops.node_name = node_name;
	client.listens = true;
	sysfs.error = ENOENT;
	return a;
}

static void enough(void)
{
	client.listens = false;
	json_object_put(client.event);
	client.event = NULL;
}

/* The parts of @parts are in @text, in their order. */
static bool has_parts(const char *text, const char *parts)
{
	char part[200];

	while (text && *parts) {
		size_t n = strcspn(parts, "|");

		snprintf(part, sizeof(part), "%.*s", (int)n, parts);
		text = strstr(text, part);
		if (text)
			text += n;
		parts += n + (parts[n] != '\0');
	}
	return text != NULL;
}

static void each_event(void **state)
{
	struct ddr_array a = named();

	(void)state;
	for (size_t i = 0; i < sizeof(each) / sizeof(each[0]); i++) {
		struct ddr_output o = each[i].o;
		char fields[300], text[400];
		const char *all;

		o.type = DDR_OUT_EVENT;
		ddr_event_array(&a, &o);
		assert_string_equal(field("name"), "data");
		assert_string_equal(field("uuid"), "0-1");
		assert_string_equal(field("event"), each[i].event);
		snprintf(text, sizeof(text), "%s", field("text"));
		if (!has_parts(text, each[i].text))
			fail_msg("'%s' says: %s", each[i].event, text);
		for (size_t j = 0; j < 5; j++) {			/* what is left are its own fields */
			static const char *const common[] = { "time", "name", "uuid", "event", "text" };

			json_object_object_del(client.event, common[j]);
		}
		all = json_object_to_json_string_ext(client.event, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
		snprintf(fields, sizeof(fields), "{%s}", each[i].fields ? each[i].fields : "");
		assert_string_equal(all, fields);
	}
	enough();
}

/* A node that is lost says why, if it did not just leave; the end of it is of no use without what the regions do. */
static void a_lost_node(void **state)
{
	struct ddr_array a = named();
	struct ddr_output o = { .type = DDR_OUT_EVENT, .event = DDR_EV_NODE_LOST, NONE, .a = 8, .b = 2 };

	(void)state;
	ddr_event_array(&a, &o);
	assert_true(has_parts(field("text"), "south is lost|regions wait"));
	o.text = "it started again";
	ddr_event_array(&a, &o);
	assert_true(has_parts(field("text"), "south is lost|it started again|regions wait"));
	enough();
}

/* The numbers that somebody who has asked for a size needs: none of them is that of a member that has more. */
static void a_size_that_does_not_fit(void **state)
{
	struct ddr_array a = named();
	struct ddr_output o = { .type = DDR_OUT_EVENT, .event = DDR_EV_GROW_REFUSED, NONE, .text = "the dirty log is full" };
	uint64_t now = ddr_layout_member_bytes(&super), want;
	struct ddr_super larger = super;
	char text[400];

	(void)state;
	ddr_event_array(&a, &o);
	assert_true(has_parts(field("text"), "does not grow|: the dirty log is full"));
	assert_string_equal(a.grow.refusal, field("text"));
	o = (struct ddr_output){ .type = DDR_OUT_EVENT, .event = DDR_EV_GROW_REFUSED, .member = 1, .node = DDR_NO_MEMBER, .a = now + 4096, .b = 2,
				 .text = "a member's device is too small" };
	ddr_event_array(&a, &o);
	snprintf(text, sizeof(text), "member 1 (/dev/sdb)|%llu bytes on south|%llu bytes of each member|: a member's device is too small",
		 (unsigned long long)now + 4096, (unsigned long long)now);
	assert_true(has_parts(field("text"), text));
	o.count = larger.array_blocks = super.array_blocks + 64 * 3 * 100;
	want = ddr_layout_member_bytes(&larger);
	assert_true(want > now + 4096);
	ddr_event_array(&a, &o);
	snprintf(text, sizeof(text), "new size needs %llu|%llu bytes", (unsigned long long)want,
		 (unsigned long long)(want - now - 4096));
	assert_true(has_parts(field("text"), text));
	assert_string_equal(field("device"), "/dev/sdb");
	assert_int_equal(super.array_blocks, 64 * 3 * 1000);		/* a copy was reckoned with */
	enough();
}

/* Udev, which waits for it, is told once the array is served, whatever becomes of that; an error from before is forgotten. */
static void udev_is_notified_when_the_array_is_ready(void **state)
{
	struct ddr_array a = named();

	(void)state;
	for (int how = 0; how < 4; how++) {
		a.ready = false;
		snprintf(a.error, sizeof(a.error), "it was not");
		memset(&sysfs, 0, sizeof(sysfs));
		sysfs.error = how == 1 ? ENOENT : 0;
		sysfs.says = how == 2 ? -1 : how == 3 ? 3 : 0;
		tell(&a, DDR_EV_READY, 0, NULL);
		assert_true(a.ready);
		assert_string_equal(a.error, "");
		assert_string_equal(sysfs.path, "/sys/dev/block/253:4/uevent");
		assert_string_equal(sysfs.wrote, how == 1 ? "" : "change");
		if (how != 1)
			assert_int_equal(fcntl(sysfs.fd, F_GETFD), -1);		/* it is closed again */
	}
	enough();
}

/* Why an array is not served stays until it is. What another node's message was refused for is no reason of ours. */
static void an_event_says_why_an_array_is_not_served(void **state)
{
	struct ddr_array a = named();

	(void)state;
	tell(&a, DDR_EV_REFUSED, EPROTO, "another node's");
	assert_string_equal(a.error, "");
	tell(&a, DDR_EV_REFUSED, EBUSY, "ours");
	assert_string_equal(a.error, "ours");
	tell(&a, DDR_EV_REFUSED, EBUSY, NULL);
	assert_string_equal(a.error, "refused");
	tell(&a, DDR_EV_READY, 0, NULL);
	tell(&a, DDR_EV_REFUSED, EBUSY, "a request");
	assert_string_equal(a.error, "");
	assert_string_equal(a.refusal, "a request");
	tell(&a, DDR_EV_FAILED, 0, "reads fail");
	assert_true(has_parts(a.error, "failed|: reads fail"));
	enough();
}

/* A replacement that had been taken and was dropped: the request for that spare is told, and no other one's. */
static void a_replacement_that_was_dropped(void **state)
{
	struct ddr_array a = named();
	struct ddr_output o = { .type = DDR_OUT_EVENT, .event = DDR_EV_REFUSED, .member = 2, .node = DDR_NO_MEMBER, .b = DDR_MEMBER_OP_REPLACE,
				.text = "it has failed" };

	(void)state;
	a.replace.spare = 3;
	ddr_event_array(&a, &o);
	assert_null(a.replace.refusal);
	a.replace.spare = 2;
	o.b = DDR_MEMBER_OP_REPLACE + 100;
	ddr_event_array(&a, &o);
	assert_null(a.replace.refusal);
	o.b = DDR_MEMBER_OP_REPLACE;
	ddr_event_array(&a, &o);
	assert_string_equal(a.replace.refusal, "it has failed");
	enough();
}

static void leaving_is_an_event(void **state)
{
	struct ddr_array a = named();

	(void)state;
	tell(&a, DDR_EV_REFUSED, EBUSY, "busy");	/* it does not leave */
	assert_false(a.cluster.left);
	a.cluster.leaving = true;
	tell(&a, DDR_EV_REFUSED, EINVAL, "no such thing");
	assert_false(a.cluster.left);
	tell(&a, DDR_EV_REFUSED, EBUSY, "the kernel may still write");
	assert_true(a.cluster.left);
	a.cluster.left = false;
	tell(&a, DDR_EV_LEFT, 0, NULL);
	assert_true(a.cluster.left);
	enough();
}

/* This node stops serving: the reason is the array's, and whoever listens hears it. What no version knows is no event. */
static void giving_up_is_an_event(void **state)
{
	struct ddr_array a = named();
	struct ddr_output o = { .type = DDR_OUT_GIVE_UP, .event = DDR_EV_FAILED, NONE };

	(void)state;
	snprintf(a.error, sizeof(a.error), "the others went on");
	ddr_event_array(&a, &o);
	assert_string_equal(field("event"), "give-up");
	assert_string_equal(field("text"), "the others went on");
	assert_string_equal(field("name"), "data");
	json_object_put(client.event);
	client.event = NULL;
	o = (struct ddr_output){ .type = DDR_OUT_EVENT, .event = 1000, NONE };
	ddr_event_array(&a, &o);
	assert_null(client.event);
	enough();
}

/* The stop that ended before it was known what is dirty has no number of it. */
static void clean_before_the_log_was_read(void **state)
{
	struct ddr_array a = named();

	(void)state;
	tell(&a, DDR_EV_CLEAN, UINT64_MAX, NULL);
	assert_non_null(strstr(field("text"), "stopped before"));
	enough();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_device_that_is_gone_is_called_so),
		cmocka_unit_test(a_clean_stop_has_ended), cmocka_unit_test(a_clean_stop_was_refused), cmocka_unit_test(a_refusal_of_something_else),
		cmocka_unit_test(an_array_of_another_cluster_is_refused_with_the_ids), cmocka_unit_test(the_last_findings_are_kept), cmocka_unit_test(suspect_regions_say_what_to_do),
		cmocka_unit_test(each_event), cmocka_unit_test(a_lost_node), cmocka_unit_test(a_size_that_does_not_fit),
		cmocka_unit_test(udev_is_notified_when_the_array_is_ready), cmocka_unit_test(an_event_says_why_an_array_is_not_served), cmocka_unit_test(a_replacement_that_was_dropped),
		cmocka_unit_test(leaving_is_an_event), cmocka_unit_test(giving_up_is_an_event), cmocka_unit_test(clean_before_the_log_was_read),
	};

	return cmocka_run_group_tests_name("events", tests, NULL, NULL);
}
