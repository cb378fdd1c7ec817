// SPDX-License-Identifier: GPL-2.0-or-later
/* What `ddraid status --json` shows of an array in each of its states. The state machine is simulated. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <json-c/json.h>
#include <uuid/uuid.h>

#include "daemon/array/array.h"
#include "daemon/ipc/status.h"

#define REGIONS	200u
#define ME	3u
#define OTHER	7u

static struct ddr_array array;
static struct ddr_daemon d;
static struct ddr_transport_ops ops;
static struct ddr_members members;
static struct ddr_super super;
static struct ddr_sm_status status;
static struct ddr_sm_progress progress;
static struct ddr_owner owner;	/* of slot 0 */
static uint8_t region[REGIONS];
static struct json_object *said;
static const char *schedule, *loading;
static uint64_t now, due;

/* ---- what status.c uses ----------------------------------------------------------- */

uint64_t ddr_now_ms(void) { return now; }
void ddr_sm_get_status(const struct ddr_sm *sm, struct ddr_sm_status *st) { assert_non_null(sm); *st = status; }
const struct ddr_super *ddr_sm_super(const struct ddr_sm *sm) { assert_non_null(sm); return &super; }
void ddr_sm_owner(const struct ddr_sm *sm, uint32_t slot, struct ddr_owner *o)
{
	assert_non_null(sm);
	memset(o, 0, sizeof(*o));
	if (!slot)
		*o = owner;
}
void ddr_sm_verify_progress(const struct ddr_sm *sm, struct ddr_sm_progress *p) { assert_non_null(sm); *p = progress; }
void ddr_sm_rebuild_progress(const struct ddr_sm *sm, struct ddr_sm_progress *p) { assert_non_null(sm); *p = progress; }
const char *ddr_schedule_waits(const struct ddr_array *a) { (void)a; return schedule; }
uint64_t ddr_schedule_due(const struct ddr_array *a) { (void)a; return due; }
void ddr_load_waits(struct ddr_load *l, char *buf, size_t size) { (void)l; snprintf(buf, size, "%s", loading); }
void ddr_device_name(unsigned int major, unsigned int minor, char *buf, size_t size) { snprintf(buf, size, "/dev/%u:%u", major, minor); }

bool ddr_sm_suspect_run(const struct ddr_sm *sm, uint64_t *start, uint64_t *n)
{
	for ((void)sm; *start < REGIONS && !(region[*start] & DDR_REGION_F_SUSPECT); (*start)++);
	for (*n = 0; *start + *n < REGIONS && region[*start + *n] & DDR_REGION_F_SUSPECT; (*n)++);
	return *n != 0;
}

bool ddr_device_dm_name(unsigned int major, unsigned int minor, char *buf, size_t size)
{
	(void)minor;
	snprintf(buf, size, "data");
	return major != 0;
}

static uint32_t own_node(const struct ddr_daemon *daemon)
{
	(void)daemon;
	return ME;
}

static const char *node_name(const struct ddr_daemon *daemon, uint32_t node, char *buf, size_t size)
{
	(void)daemon;
	snprintf(buf, size, "n%u", node);
	return buf;
}

/* ---- the stage -------------------------------------------------------------------- */

/* Order 1 with one parity member and a spare, alone; everything is well. */
static int setup(void **state)
{
	(void)state;
	memset(&array, 0, sizeof(array));
	memset(&members, 0, sizeof(members));
	memset(&super, 0, sizeof(super));
	status = (struct ddr_sm_status){ .n_nodes = 1, .node[0] = { .id = ME, .state = DDR_NS_ACTIVE } };
	memset(&progress, 0, sizeof(progress));
	memset(&owner, 0, sizeof(owner));
	memset(region, 0, sizeof(region));
	ops = (struct ddr_transport_ops){ .name = "local", .node = own_node, .node_name = node_name };
	d.transport = &ops;
	memset(&d.ident, 0, sizeof(d.ident));
	d.ident.id.machine[0] = 1;
	snprintf(d.conf.fence_command, sizeof(d.conf.fence_command), "none");
	schedule = loading = NULL;
	due = UINT64_MAX;
	now = 1000;
	snprintf(array.name, sizeof(array.name), "data");
	array.d = &d;
	array.state = DDR_ARRAY_RUNNING;
	array.sm = (struct ddr_sm *)(void *)&status;
	array.members = &members;
	array.bind = (struct ddr_bind){ .order = 1, .parity = 1, .members = 3, .region_sectors = 8192, .sectors = 80000, .dm_major = 253 };
	super.members = 4;
	super.order = 1;
	super.parity = 1;
	super.chunk = 2048;
	super.region_size = 4u << 20;
	super.array_blocks = 10000;
	members.n = 4;
	for (unsigned int m = 0; m < 4; m++) {
		super.member[m].role = m < 3 ? (uint16_t)m : DDR_ROLE_NONE;
		memset(super.member[m].uuid, (int)(0xa0 + m), sizeof(super.member[m].uuid));
		status.err_read[m] = 10 + m, status.err_write[m] = 20 + m, status.err_corrected[m] = 30 + m;
		status.member_state[m] = m < 3 ? DDR_MEMBER_IN_SYNC : DDR_MEMBER_SPARE;
		members.open |= 1u << m;
		snprintf(members.name[m], sizeof(members.name[m]), "/dev/sd%c", (int)('a' + m));
	}
	array.super = super;
	status.regions = REGIONS;
	status.rebuilding = status.replaced = DDR_NO_MEMBER;
	status.quorate = true;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	json_object_put(said);
	said = NULL;
	return 0;
}

static void look(void)
{
	json_object_put(said);
	said = ddr_status_array(&array);
	assert_non_null(said);
}

/* The value at @path ("jobs", "0", "rate" as "jobs/0/rate"), as JSON. "nothing": there is no such field. */
static const char *at(const char *path)
{
	struct json_object *o;

	return json_pointer_getf(said, &o, "/%s", path) ? "nothing" : o ? json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE) : "null";
}

#define is(path, json) assert_string_equal(at(path), json)

/* ---- tests ------------------------------------------------------------------------ */

static void status_of_a_healthy_array(void **state)
{
	(void)state;
	look();
	is("state", "\"optimal\"");
	is("device", "\"/dev/mapper/data\"");
	is("may_fail", "1");
	is("size", "40960000");
	is("region_size", "4194304");
	is("layout", "\"dedicated\"");
	is("members/2/role", "2");
	is("members/3/role", "null");
	is("members/3/state", "\"spare\"");
	is("members/0/reason", "null");
	is("members/2/errors", "{\"read\":12,\"write\":22,\"corrected\":32}");	/* of this start too, which are not in the superblock */
	is("jobs", "[]");
	is("suspect", "[]");
	is("cluster/fencing", "\"none\"");
	is("cluster/id", "null");				/* the id of this machine could not be stored yet */
	is("cluster/machine", "\"01000000-0000-0000-0000-000000000000\"");
	d.ident.stored = true;
	look();
	is("cluster/id", "\"01000000-0000-0000-0000-000000000000\"");	/* without a cluster the machine is one of its own */
	is("cluster/writer", "null");
	is("cluster/waits", "null");
	is("cluster/elsewhere", "[]");
	is("cluster/nodes", "[{\"id\":3,\"name\":\"n3\",\"state\":\"active\",\"slot\":0}]");
	is("verify/due", "null");
	is("error", "null");
	is("no_space", "null");
	is("stopping", "false");
	array.quiet_until_ms = now + 1;
	array.bind.dm_major = 0;
	array.bind.layout = DDR_LAYOUT_ROTATING;
	due = 77;
	look();
	is("stopping", "true");
	is("device", "nothing");
	is("layout", "\"rotating\"");
	is("verify/due", "77");
}

/* One that is lost is not there to lose; nor does a spare, or a member in rebuild, help. */
static void how_many_may_still_fail(void **state)
{
	(void)state;
	status.member_state[1] = DDR_MEMBER_FAULTY;
	status.degraded = true;
	members.open &= ~2u;
	snprintf(members.error[1], sizeof(members.error[1]), "it is gone");
	look();
	is("state", "\"degraded\"");
	is("may_fail", "0");
	is("members/1/reason", "\"it is gone\"");
	super.member[3].role = 1;
	status.member_state[3] = DDR_MEMBER_REBUILDING;
	look();
	is("may_fail", "0");
	status.member_state[3] = DDR_MEMBER_IN_SYNC;
	look();
	is("may_fail", "1");
	status.failed = true;
	look();
	is("state", "\"failed\"");
	is("may_fail", "0");
	status.failed = false;
	status.gave_up = true;
	look();
	is("state", "\"failed\"");
	is("gave_up", "true");
	status.gave_up = false;
	array.cluster.gave_up = true;
	look();
	is("state", "\"failed\"");
	is("gave_up", "true");
}

/* A member whose device is open needs no reason; one whose device is not known has none. */
static void devices_that_are_not_there(void **state)
{
	(void)state;
	members.name[0][0] = '\0';
	snprintf(members.error[1], sizeof(members.error[1]), "was once locked");
	members.n = 3;			/* one that was added, and was not looked for yet */
	look();
	is("members/0/device", "null");
	is("members/1/reason", "null");
	is("members/3/device", "null");
	is("members/3/reason", "null");
}

static void suspect(unsigned int from, unsigned int count)
{
	memset(region + from, DDR_REGION_F_SUSPECT, count);
	status.suspect += count;
}

static void runs_of_suspect_regions(void **state)
{
	(void)state;
	suspect(0, 2);
	suspect(5, 1);
	suspect(REGIONS - 3, 3);
	look();
	is("suspect", "[[0,2],[5,1],[197,3]]");
	is("regions/suspect", "6");
	memset(region, 0, sizeof(region));
	status.suspect = 0;
	for (unsigned int r = 0; r < REGIONS; r += 2)
		suspect(r, 1);
	look();
	is("suspect/63", "[126,1]");
	is("suspect/64", "nothing");
}

/* The rate of another node's job is unknown until its progress was received twice; it is not shown as 0 until then. */
static void rates_of_other_nodes(void **state)
{
	(void)state;
	status.writer = OTHER;
	status.rebuilding = 3;
	progress = (struct ddr_sm_progress){ .at = 4, .done = 3, .total = 103 };
	array.rate.per_s = 50;		/* of this node's own job */
	look();
	is("jobs/0/type", "\"rebuild\"");
	is("jobs/0/node", "7");
	is("jobs/0/rate", "null");
	is("jobs/0/eta", "null");
	is("jobs/0/paused", "null");
	is("jobs/0/priority", "null");
	is("jobs/0/position", "16384");
	array.watch.rebuild.per_s = 10;
	look();
	is("jobs/0/rate", "40960");
	is("jobs/0/eta", "10");
	status.writer = ME;
	array.tune.resync = true;
	array.tune.resync_priority = 2;
	look();
	is("jobs/0/rate", "204800");
	is("jobs/0/eta", "2");
	is("jobs/0/paused", "false");
	is("jobs/0/priority", "2");
	array.rate.per_s = 0;
	progress.done = progress.total;
	look();
	is("jobs/0/rate", "0");
	is("jobs/0/eta", "null");
}

static void status_shows_what_a_rebuild_waits_for(void **state)
{
	(void)state;
	status.writer = ME;
	status.rebuilding = 3;
	status.replaced = 1;
	progress.bad_start = 2;
	progress.bad_count = 3;
	look();
	is("jobs/0/type", "\"replace\"");
	is("jobs/0/replaces", "1");
	assert_non_null(strstr(at("jobs/0/waits"), "between byte 8192 and 20479 "));
	progress.bad_count = 0;
	look();
	is("jobs/0/waits", "null");
}

static void jobs_side_by_side(void **state)
{
	(void)state;
	status.writer = ME;
	status.resync_regions = 1;
	status.mismatches = 9;
	super.verify = (struct ddr_verify){ .state = DDR_VERIFY_PAUSED, .priority = 4, .found = 5, .repaired = 1, .begun = 11,
					    .flags = DDR_VERIFY_F_REPAIR };
	array.rate.scan_per_s = 1000;
	schedule = "it waits for its hour";
	look();
	is("jobs/0/type", "\"resync\"");
	is("jobs/0/paused", "true");
	is("jobs/0/mismatches", "9");
	is("jobs/1/type", "\"verify\"");
	is("jobs/1/paused", "true");
	is("jobs/1/rate", "0");
	is("jobs/1/priority", "4");
	is("jobs/1/waits", "\"it waits for its hour\"");
	is("jobs/2", "nothing");
	is("verify/state", "\"paused\"");
	is("verify/begun", "11");
	is("verify/ended", "null");
	is("verify/repair", "true");
	is("verify/scheduled", "false");
	super.verify.state = DDR_VERIFY_RUNNING;
	look();
	is("jobs/1/rate", "4096000");
}

/* This node does not serve the array, so it does not know the state of its members: neither in sync nor missing. */
static void an_array_that_is_not_served(void **state)
{
	(void)state;
	array.state = DDR_ARRAY_REFUSED;
	array.sm = NULL;
	array.members = NULL;
	array.bind.dev_major[1] = 8;
	snprintf(array.error, sizeof(array.error), "refused for a reason");
	look();
	is("state", "\"inactive\"");
	is("may_fail", "0");
	is("members/0/device", "null");
	is("members/1/device", "\"/dev/8:0\"");
	is("members/1/state", "null");
	is("members/3", "nothing");
	is("size", "40960000");
	is("largest_size", "nothing");
	is("verify", "nothing");
	is("jobs", "[]");
	is("cluster/nodes", "[]");
	is("error", "\"refused for a reason\"");
	is("stopping", "false");
	array.bind.members = 4000;	/* reported by the module, and not trusted */
	look();
	is("members/9/state", "null");
	is("members/10", "nothing");
}

/* Who owes what is more than that the nodes have not agreed; but of a lost node the state machine knows what to do. */
static void status_shows_what_nodes_owe(void **state)
{
	(void)state;
	snprintf(array.cluster.debt, sizeof(array.cluster.debt), "n2 (node 2) has not said hello");
	look();
	is("cluster/waits", "\"n2 (node 2) has not said hello\"");
	status.wait = "the nodes have not agreed";
	status.wait_for = DDR_SM_WAIT_VIEW;
	look();
	is("cluster/waits", "\"n2 (node 2) has not said hello\"");
	status.wait_for = DDR_SM_WAIT_QUORUM;
	look();
	is("cluster/waits", "\"the nodes have not agreed\"");
	array.stamp.stopped = true;
	look();
	assert_non_null(strstr(at("cluster/waits"), "its I/O waits until its members were read"));
	array.stamp.stopped = false;
	array.members->still.held = true;
	look();
	assert_non_null(strstr(at("cluster/waits"), "its I/O waits until its members were read"));
	array.members->still.held = false;
	look();
	d.elsewhere[0].uuid[0] = 0xee;
	snprintf(d.elsewhere[0].waits, sizeof(d.elsewhere[0].waits), "n3 is lost");
	look();
	is("cluster/elsewhere", "[{\"uuid\":\"ee000000-0000-0000-0000-000000000000\",\"waits\":\"n3 is lost\"}]");
	memset(d.elsewhere, 0, sizeof(d.elsewhere));
}

static void status_shows_what_an_unserved_array_waits_for(void **state)
{
	(void)state;
	array.state = DDR_ARRAY_LOADING;
	array.load = (struct ddr_load *)(void *)&status;
	loading = "";
	look();
	is("cluster/waits", "null");
	loading = "a lock of member 2";
	look();
	is("cluster/waits", "\"a lock of member 2\"");
	array.state = DDR_ARRAY_DOWN;
	array.load = NULL;
	array.waiting = true;
	snprintf(array.error, sizeof(array.error), "there is no quorum");
	look();
	is("cluster/waits", "\"there is no quorum\"");
}

static void nodes_of_a_cluster(void **state)
{
	(void)state;
	ops.cluster = true;
	ops.name = "corosync";
	snprintf(d.conf.fence_command, sizeof(d.conf.fence_command), "/sbin/agent --secret %%n");
	status.writer = OTHER;
	status.n_nodes = 2;
	status.node[0] = (struct ddr_sm_node_status){ .id = ME, .slot = 1, .state = DDR_NS_ACTIVE };
	status.node[1] = (struct ddr_sm_node_status){ .id = OTHER, .slot = DDR_SM_NO_SLOT, .state = DDR_NS_FENCING };
	status.wait = "the array waits.";
	look();
	is("cluster/nodes", "[{\"id\":3,\"name\":\"n3\",\"state\":\"active\",\"slot\":1},{\"id\":7,\"name\":\"n7\",\"state\":\"fencing\",\"slot\":null}]");
	is("cluster/id", "null");
	d.ident.stored = true;
	d.ident.id.cluster = (struct ddr_cluster_ids){ .id = { 2 } };
	look();
	is("cluster/id", "null");				/* it is proposed */
	d.ident.id.cluster.agreed = true;
	look();
	is("cluster/id", "\"02000000-0000-0000-0000-000000000000\"");
	is("cluster/fencing", "\"command\"");	/* its arguments may be secret */
	is("cluster/writer", "7");
	is("cluster/waits", "\"the array waits.\"");
	status.wait = "is to be fenced";
	status.wait_node = OTHER;
	status.n_nodes = 100000;
	look();
	is("cluster/waits", "\"n7 (node 7) is to be fenced\"");
	status.wait_fencer = ME;
	look();
	is("cluster/waits", "\"n7 (node 7) is to be fenced. It is the turn of n3 (node 3) to fence it; if its fence_command takes longer than fence_timeout, or "
	   "fails, the next node that can fence does it\"");
	snprintf(array.cluster.waits, sizeof(array.cluster.waits), "n7 has not said hello");
	look();
	is("cluster/waits", "\"n7 has not said hello\"");	/* what else is waited for follows from it */
	snprintf(d.conf.fence_command, sizeof(d.conf.fence_command), "external");
	array.cluster.lost = true;
	snprintf(array.error, sizeof(array.error), "corosync has gone");
	look();
	is("cluster/fencing", "\"external\"");
	is("cluster/waits", "\"corosync has gone\"");
}

static void owners_of_the_slots(void **state)
{
	(void)state;
	array.super.slots = 1;
	owner = (struct ddr_owner){ .node = ME, .state = DDR_SLOT_OWNED };
	look();
	is("cluster/slots", "[{\"slot\":0,\"state\":\"owned\",\"node\":3,\"name\":null,\"machine\":null,\"boot_id\":null,\"cookie\":0,\"since\":0,"
	   "\"fenced_boot_id\":null,\"fenced_cookie\":0,\"fenced\":0}]");
	owner = (struct ddr_owner){ .node = OTHER, .state = DDR_SLOT_FENCED, .name = "seven", .machine = { 1 }, .instance = { { 2 }, 5 }, .since = 6,
				    .fenced = { { 2 }, 5 }, .fenced_time = 8 };
	look();
	is("cluster/slots", "[{\"slot\":0,\"state\":\"fenced\",\"node\":7,\"name\":\"seven\",\"machine\":\"01000000-0000-0000-0000-000000000000\","
	   "\"boot_id\":\"02000000-0000-0000-0000-000000000000\",\"cookie\":5,\"since\":6,\"fenced_boot_id\":\"02000000-0000-0000-0000-000000000000\","
	   "\"fenced_cookie\":5,\"fenced\":8}]");
}

static void a_disk_that_a_node_does_not_see(void **state)
{
	(void)state;
	status.unseen_by[3] = OTHER;
	look();
	is("cluster/unseen", "\"n7 does not see the disk of member 3, which is a spare: connect the disk there, or remove the member\"");
	status.sought = 1u << 3;
	look();
	assert_non_null(strstr(at("cluster/unseen"), "which is being taken back"));
	memset(status.unseen_by, 0, sizeof(status.unseen_by));
	status.unseen_by[DDR_MAX_MEMBERS - 1] = OTHER;
	look();
	assert_non_null(strstr(at("cluster/unseen"), "of member 15,"));
}

static void a_member_without_space(void **state)
{
	(void)state;
	status.no_space = 1u << 2;
	look();
	is("no_space", "null");		/* nothing waits for it */
	status.space_wait = "its log waits";
	look();
	assert_non_null(strstr(at("no_space"), "member 2 (/dev/sdc) has no space left: its log waits;"));
	assert_non_null(strstr(at("no_space"), "(ddraid fail data 2)"));
	members.name[2][0] = '\0';
	look();
	assert_non_null(strstr(at("no_space"), "member 2 (missing)"));
}

/* A request may name anything. */
static void names_of_members(void **state)
{
	static const char *const nobody[] = {
		"", "4", "-1", "+1", "1x", "0x1", " 1", "99999999999999999999999", "4294967296", "18446744073709551616", "/", "/dev/null", "/nowhere",
		"sda", "a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a", "a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1 ",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(nobody) / sizeof(nobody[0]); i++)
		if (ddr_status_find_member(&array, nobody[i]) != -1)
			fail_msg("'%s' names a member", nobody[i]);
	assert_int_equal(ddr_status_find_member(&array, "0"), 0);
	assert_int_equal(ddr_status_find_member(&array, "3"), 3);
	assert_int_equal(ddr_status_find_member(&array, "a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1"), 1);
	assert_int_equal(ddr_status_find_member(&array, "A1A1A1A1-a1a1-a1a1-a1a1-a1a1a1a1a1A1"), 1);
}

static void status_shows_the_findings_of_verify(void **state)
{
	(void)state;
	array.n_findings = 2;
	array.finding[0] = (struct ddr_finding){ .time = 5, .start = 2, .count = 3, .blocks = 2, .member = DDR_NO_MEMBER, .text = "who knows" };
	array.finding[1] = (struct ddr_finding){ .start = UINT64_MAX / DDR_BLOCK_SIZE, .count = 1, .blocks = 1, .member = 1, .repaired = true };
	said = ddr_status_findings(&array);
	is("0/position", "8192");
	is("0/length", "12288");
	is("0/member", "null");
	is("0/repaired", "false");
	is("0/text", "\"who knows\"");
	is("1/position", "18446744073709547520");
	is("1/member", "1");
	is("1/repaired", "true");
	is("1/text", "null");
	is("2", "nothing");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(status_of_a_healthy_array, setup, teardown),
		cmocka_unit_test_setup_teardown(how_many_may_still_fail, setup, teardown),
		cmocka_unit_test_setup_teardown(devices_that_are_not_there, setup, teardown),
		cmocka_unit_test_setup_teardown(runs_of_suspect_regions, setup, teardown),
		cmocka_unit_test_setup_teardown(rates_of_other_nodes, setup, teardown),
		cmocka_unit_test_setup_teardown(status_shows_what_a_rebuild_waits_for, setup, teardown),
		cmocka_unit_test_setup_teardown(jobs_side_by_side, setup, teardown),
		cmocka_unit_test_setup_teardown(an_array_that_is_not_served, setup, teardown),
		cmocka_unit_test_setup_teardown(status_shows_what_an_unserved_array_waits_for, setup, teardown),
		cmocka_unit_test_setup_teardown(status_shows_what_nodes_owe, setup, teardown),
		cmocka_unit_test_setup_teardown(nodes_of_a_cluster, setup, teardown),
		cmocka_unit_test_setup_teardown(owners_of_the_slots, setup, teardown), cmocka_unit_test_setup_teardown(a_disk_that_a_node_does_not_see, setup, teardown),
		cmocka_unit_test_setup_teardown(a_member_without_space, setup, teardown),
		cmocka_unit_test_setup_teardown(names_of_members, setup, teardown),
		cmocka_unit_test_setup_teardown(status_shows_the_findings_of_verify, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
