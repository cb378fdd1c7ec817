// SPDX-License-Identifier: GPL-2.0-or-later
/* Malformed and hostile requests of clients, and which node `fence-ack` means. */
#include "tests/unit/requests.h"

/* A request that is refused with these words: the array was not asked, and no client waits. */
static void refused(const char *text, const char *words)
{
	struct ddr_client c;

	fresh();
	array.state = DDR_ARRAY_RUNNING;
	array.super.array_blocks = 1000;
	array.super.order = 1;
	array.super.log_blocks = array.super.map_blocks = 4;
	array.super.region_size = 4u << 20;
	c = request(text);
	if (!strstr(answer, words))
		fail_msg("%s: '%s' is not in the answer '%s'", text, words, answer);
	assert_int_equal(c.wait, DDR_WAIT_NONE);
	assert_int_equal(asked, 0);
	assert_false(array.clean_asked);
}

static void malformed_requests_are_refused(void **state)
{
	static const char *const texts[] = {
		"", "{", "[]", "1", "null", "\"status\"", "{\"cmd\":\"status\"", "{\"cmd\":\"status\"} {}", "{\"cmd\":\"status\"}x", "\xff\xfe",
	};
	char deep[4096];

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		refused(texts[i], "not one JSON object");
	memset(deep, '[', sizeof(deep) - 1);
	deep[sizeof(deep) - 1] = '\0';
	refused(deep, "not one JSON object");
	refused("{}", "unknown request ''");
	refused("{\"cmd\":7}", "unknown request ''");
	refused("{\"cmd\":[\"status\"]}", "unknown request ''");
	refused("{\"cmd\":\"Status\"}", "unknown request 'Status'");
	refused("{\"cmd\":\"status\\u0000\"}", "unknown request ''");
	refused("{\"cmd\":\"\\u001b[2J\"}", "unknown request ''");
}

/* Each that needs an array is given none, one of another type, one that is too long, and one that is not there. */
static void arrays_that_nobody_has(void **state)
{
	static const char *const cmds[] = {
		"findings", "stop", "set", "settings", "fail", "add", "remove", "seek", "replace", "verify", "grow",
	};
	char text[400];

	(void)state;
	for (size_t i = 0; i < sizeof(cmds) / sizeof(cmds[0]); i++) {
		snprintf(text, sizeof(text), "{\"cmd\":\"%s\"}", cmds[i]);
		refused(text, "names no array");
		snprintf(text, sizeof(text), "{\"cmd\":\"%s\",\"name\":{\"name\":\"data\"}}", cmds[i]);
		refused(text, "names no array");
		snprintf(text, sizeof(text), "{\"cmd\":\"%s\",\"name\":\"%0300d\"}", cmds[i], 1);
		refused(text, "names no array");
		snprintf(text, sizeof(text), "{\"cmd\":\"%s\",\"name\":\"da\\u000ata\"}", cmds[i]);
		refused(text, "names no array");
		snprintf(text, sizeof(text), "{\"cmd\":\"%s\",\"name\":\"nobody\"}", cmds[i]);
		refused(text, "nobody");
	}
}

#define DATA(cmd, rest)	"{\"cmd\":\"" cmd "\",\"name\":\"data\"" rest "}"

static void settings_that_do_not_exist(void **state)
{
	(void)state;
	refused(DATA("set", ""), "needs a key and a value");
	refused(DATA("set", ",\"key\":\"resync\",\"value\":1"), "needs a key and a value");
	refused(DATA("set", ",\"key\":\"nonsense\",\"value\":\"1\""), "man ddraid.conf");
	refused(DATA("set", ",\"key\":\"fence_command\",\"value\":\"/bin/true\""), "man ddraid.conf");
	refused(DATA("set", ",\"key\":\"resync_priority\",\"value\":\"6\""), "man ddraid.conf");
	refused(DATA("set", ",\"key\":\"resync_max_rate\",\"value\":\"-1\""), "man ddraid.conf");
	refused(DATA("set", ",\"key\":\"suspect_reads\",\"value\":\"maybe\""), "expected error or pass");
	refused(DATA("set", ",\"key\":\"suspect\",\"value\":\"error\""), "expected accept");
	fresh();
	array.tune.resync_min = 10;
	request(DATA("set", ",\"key\":\"resync_max_rate\",\"value\":\"9\""));
	assert_non_null(strstr(answer, "resync_max_rate would be below"));
	assert_int_equal(array.tune.resync_max, 0);
	answer[0] = '\0';
	request(DATA("set", ",\"key\":\"resync_max_rate\",\"value\":\"1M\""));
	assert_string_equal(answer, "ok");
	assert_int_equal(array.tune.resync_max, 1u << 20);
}

static void verifies_that_cannot_be(void **state)
{
	(void)state;
	refused(DATA("verify", ""), "needs an action");
	refused(DATA("verify", ",\"action\":\"begin\""), "needs an action");
	refused(DATA("verify", ",\"action\":\"start\",\"priority\":0"), "priority from 1 to 5");
	refused(DATA("verify", ",\"action\":\"start\",\"priority\":6"), "priority from 1 to 5");
	refused(DATA("verify", ",\"action\":\"start\",\"priority\":4294967297"), "priority from 1 to 5");
	refused(DATA("verify", ",\"action\":\"start\",\"priority\":-1e300"), "priority from 1 to 5");
	refused(DATA("verify", ",\"action\":\"start\",\"priority\":\"high\""), "priority from 1 to 5");
}

static void sizes_that_cannot_be(void **state)
{
	(void)state;
	refused(DATA("grow", ",\"size\":0"), "a size in bytes");
	refused(DATA("grow", ",\"size\":-4096"), "a size in bytes");
	refused(DATA("grow", ",\"size\":\"large\""), "a size in bytes");
	refused(DATA("grow", ",\"size\":[]"), "a size in bytes");
	refused(DATA("grow", ",\"size\":1e300"), "have room for at most");
	refused(DATA("grow", ",\"size\":9223372036854775807"), "have room for at most");
	refused(DATA("grow", ",\"size\":4096000"), "already has 4096000 bytes");
	refused(DATA("grow", ",\"size\":4095999"), "cannot shrink");
	refused(DATA("grow", ",\"size\":4096001"), "use 4096000");
}

static void disks_that_have_no_name(void **state)
{
	(void)state;
	refused(DATA("add", ""), "needs the uuid");
	refused(DATA("add", ",\"uuid\":\"/dev/sda\""), "needs the uuid");
	refused(DATA("add", ",\"uuid\":17"), "needs the uuid");
	refused("{\"cmd\":\"older\",\"name\":\"data\",\"generation\":5}", "names no array and generation");
	refused("{\"cmd\":\"older\",\"name\":\"01000000-0000-0000-0000-000000000000\",\"generation\":0,"
		"\"generation_id\":\"01000000-0000-0000-0000-000000000000\"}", "names no array and generation");
	refused("{\"cmd\":\"older\",\"name\":\"01000000-0000-0000-0000-000000000000\",\"generation\":5,\"generation_id\":\"5\"}",
		"names no array and generation");
}

/* ---- fence-ack: an oath, for one node alone ---------------------------------------- */

static const char *acking(const char *which)
{
	char text[200];

	fresh();
	fence_acked = 0;
	qb_list_init(&d.arrays);
	qb_list_add_tail(&array.list, &d.arrays);
	status.n_nodes = 3;
	status.node[0].id = 2;		/* named "n2" */
	status.node[1].id = 3;
	status.node[2].id = 7;
	snprintf(text, sizeof(text), "{\"cmd\":\"fence-ack\",\"node\":\"%s\"}", which);
	request(text);
	return answer;
}

static const char *odd_name(const struct ddr_daemon *daemon, uint32_t node, char *buf, size_t size)
{
	(void)daemon;
	snprintf(buf, size, "%s", node == 2 ? "3" : node == 3 ? "twin" : "twin");
	return buf;
}

static bool odd_known(const struct ddr_daemon *daemon, uint32_t node, char *buf, size_t size)
{
	return *odd_name(daemon, node, buf, size);
}

static bool nothing_known(const struct ddr_daemon *daemon, uint32_t node, char *buf, size_t size)
{
	(void)daemon, (void)node, (void)size;
	*buf = '\0';
	return false;
}

static void a_node_by_id_or_name(void **state)
{
	(void)state;
	assert_string_equal(acking("7"), "ok");
	assert_int_equal(fence_acked, 7);
	assert_string_equal(acking("n3"), "ok");
	assert_int_equal(fence_acked, 3);
}

static void nodes_that_nobody_has(void **state)
{
	static const char *const nobody[] = { "4", "n4", "n", "07x", "-1", "4294967298", "18446744073709551618", "N3", "n3 " };

	(void)state;
	refused("{\"cmd\":\"fence-ack\"}", "names no node");
	refused("{\"cmd\":\"fence-ack\",\"node\":7}", "names no node");
	for (size_t i = 0; i < sizeof(nobody) / sizeof(nobody[0]); i++) {
		if (!strstr(acking(nobody[i]), "has a node"))
			fail_msg("'%s' was acknowledged: %s", nobody[i], answer);
		assert_int_equal(fence_acked, 0);
	}
}

/*
 * The operator has seen that one machine is off. A name that fits two nodes may mean the running one: its regions would be taken over
 * while it writes.
 */
static void a_name_that_two_nodes_have(void **state)
{
	static const struct { const char *which; uint32_t node; } cases[] = { { "2", 2 }, { "7", 7 }, { "3", 0 }, { "twin", 0 } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[100];

		acking("nobody");
		ops.known_name = odd_known;
		answer[0] = '\0';
		fence_acked = 0;
		snprintf(text, sizeof(text), "{\"cmd\":\"fence-ack\",\"node\":\"%s\"}", cases[i].which);
		request(text);
		if (fence_acked != cases[i].node)
			fail_msg("'%s' acknowledges node %u", cases[i].which, fence_acked);
		assert_non_null(strstr(answer, cases[i].node ? "ok" : "names more than one node"));
	}
}

/* Finding T8: a name that was made up to be shown is no name, and one that a machine has which does not run the array may mean that one. */
static void names_that_need_not_be_its_own(void **state)
{
	(void)state;
	bearer = 12;
	assert_non_null(strstr(acking("n3"), "names more than one node"));
	assert_int_equal(fence_acked, 0);
	assert_string_equal(acking("3"), "ok");
	assert_int_equal(fence_acked, 3);
	bearer = 0;
	assert_string_equal(acking("n3"), "ok");
	acking("nobody");
	ops.known_name = nothing_known;
	fence_acked = 0;
	for (unsigned int i = 0; i < 3; i++) {
		static const char *const which[] = { "n3", "node 3", "" };
		char text[100];

		answer[0] = '\0';
		snprintf(text, sizeof(text), "{\"cmd\":\"fence-ack\",\"node\":\"%s\"}", which[i]);
		request(text);
		assert_int_equal(fence_acked, 0);
	}
	answer[0] = '\0';
	request("{\"cmd\":\"fence-ack\",\"node\":\"3\"}");
	assert_int_equal(fence_acked, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(malformed_requests_are_refused), cmocka_unit_test(arrays_that_nobody_has), cmocka_unit_test(settings_that_do_not_exist),
		cmocka_unit_test(verifies_that_cannot_be), cmocka_unit_test(sizes_that_cannot_be), cmocka_unit_test(disks_that_have_no_name),
		cmocka_unit_test(a_node_by_id_or_name), cmocka_unit_test(nodes_that_nobody_has), cmocka_unit_test(a_name_that_two_nodes_have),
		cmocka_unit_test(names_that_need_not_be_its_own),
	};

	return cmocka_run_group_tests_name("request input", tests, NULL, NULL);
}
