// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Requests about members, verify and size: each is answered when it has taken effect, at once if the array is gone, and when its time is
 * over with what to look at.
 */
#include "tests/unit/requests.h"

#define BLOCKS	1024u

struct waiting {
	const char *text;		/* without the name of the array and the time limit */
	enum ddr_client_wait wait;
	void (*before)(void);		/* the array as the request finds it */
	void (*effect)(const struct ddr_client *c);
	const char *data;		/* of the answer, a part of it */
	const char *late;		/* a part of the answer that comes too late */
};

static struct ddr_client send_one(const struct waiting *w)
{
	struct ddr_client c;
	char text[256];

	fresh();
	qb_list_init(&d.arrays);
	array.super.region_size = DDR_MIN_REGION;
	array.super.log_blocks = array.super.map_blocks = 1;
	array.super.array_blocks = BLOCKS;
	if (w->before)
		w->before();
	snprintf(text, sizeof(text), "{%s,\"name\":\"data\",\"timeout_ms\":20000}", w->text);
	c = request(text);
	assert_string_equal(answer, "");
	assert_int_equal(c.wait, w->wait);
	ddr_client_check(&c, now + 19999);
	assert_string_equal(answer, "");
	return c;
}

/* ---- what takes effect ------------------------------------------------------------ */

static void has_failed(const struct ddr_client *c)
{
	status.member_state[c->member] = DDR_MEMBER_FAULTY;
}

static void is_listed(const struct ddr_client *c)
{
	memcpy(array.super.member[SPARE].uuid, c->uuid, sizeof(c->uuid));
	array.super.member[SPARE].state = DDR_MEMBER_SPARE;
}

/* The place of a removed member gets the uuid that the request gave it. */
static void is_removed(const struct ddr_client *c)
{
	memcpy(array.super.member[c->member].uuid, c->uuid, sizeof(c->uuid));
	array.super.member[c->member].state = DDR_MEMBER_MISSING;
}

static void failed_before(void)
{
	status.member_state[2] = DDR_MEMBER_FAULTY;
}

static void comes_back(const struct ddr_client *c)
{
	status.member_state[c->member] = array.super.member[c->member].state = DDR_MEMBER_REBUILDING;
}

static void runs_before(void)
{
	array.super.verify.state = DDR_VERIFY_RUNNING;
}

static void begins(const struct ddr_client *c)
{
	array.super.verify = (struct ddr_verify){ .state = DDR_VERIFY_RUNNING, .serial = c->serial + 1 };
}

static void pauses(const struct ddr_client *c)
{
	(void)c;
	array.super.verify.state = DDR_VERIFY_PAUSED;
}

static void ends(const struct ddr_client *c)
{
	(void)c;
	array.super.verify.state = DDR_VERIFY_NONE;
}

static void grows(const struct ddr_client *c)
{
	array.super.array_blocks = 2ull * c->blocks;
	array.bind.sectors = array.super.array_blocks * (DDR_BLOCK_SIZE / 512);
}

static const struct waiting all[] = {
	{ "\"cmd\":\"fail\",\"member\":\"2\"", DDR_WAIT_FAILED, NULL, has_failed, "", "member 2 of array 'data' is still in use: ddraid status shows what the array waits for. The request goes on" },
	{ "\"cmd\":\"add\",\"uuid\":\"77777777-7777-7777-7777-777777777777\"", DDR_WAIT_ADDED, NULL, is_listed, "\"member\":5,\"state\":\"spare\"",
	  "the disk was not added to array 'data' in time, so the request was withdrawn: ddraid status shows what the array waits for. If" },
	{ "\"cmd\":\"remove\",\"member\":\"2\"", DDR_WAIT_REMOVED, NULL, is_removed, "\"member\":2,\"state\":\"missing\"",
	  "the members of array 'data' have not changed yet: ddraid status shows what the array waits for. The request goes on" },
	{ "\"cmd\":\"seek\",\"member\":\"2\"", DDR_WAIT_BACK, failed_before, comes_back, "\"member\":2,\"state\":\"rebuilding\"",
	  "the members of array 'data' have not changed yet: ddraid status shows what the array waits for. The request goes on" },
	{ "\"cmd\":\"verify\",\"action\":\"start\",\"priority\":3", DDR_WAIT_VERIFY, NULL, begins, "", "has not carried out the request yet: ddraid status shows what the array waits for. The request goes on" },
	{ "\"cmd\":\"verify\",\"action\":\"pause\",\"priority\":3", DDR_WAIT_VERIFY, runs_before, pauses, "", "has not carried out the request yet: ddraid status shows what the array waits for. The request goes on" },
	{ "\"cmd\":\"verify\",\"action\":\"stop\",\"priority\":3", DDR_WAIT_VERIFY, runs_before, ends, "", "has not carried out the request yet: ddraid status shows what the array waits for. The request goes on" },
	{ "\"cmd\":\"grow\"", DDR_WAIT_GROWN, NULL, grows, "\"old\":4194304,\"new\":8388608", "array 'data' did not grow in time: a lost node must return" },
};
#define ALL	(sizeof(all) / sizeof(all[0]))

/* ---- the tests ------------------------------------------------------------------- */

static void a_request_is_answered_when_it_has_taken_effect(void **state)
{
	(void)state;
	for (size_t i = 0; i < ALL; i++) {
		struct ddr_client c = send_one(&all[i]);

		all[i].effect(&c);
		ddr_client_check(&c, now);
		assert_string_equal(answer, "ok");
		assert_non_null(strstr(given, all[i].data));
	}
}

static void an_array_that_is_removed_meanwhile_ends_the_wait(void **state)
{
	(void)state;
	for (size_t i = 0; i < ALL; i++) {
		struct ddr_client c = send_one(&all[i]);

		array.state = DDR_ARRAY_CLOSING;
		ddr_client_check(&c, now);
		assert_string_equal(answer, "array 'data' was removed meanwhile");
	}
}

static void a_late_answer_says_what_to_look_at(void **state)
{
	(void)state;
	for (size_t i = 0; i < ALL; i++) {
		struct ddr_client c = send_one(&all[i]);

		ddr_client_check(&c, now + 20000);
		assert_non_null(strstr(answer, all[i].late));
	}
}

/* The node whose device is missing is named. */
static void a_member_that_a_node_does_not_see_is_waited_for(void **state)
{
	struct ddr_client c = send_one(&all[3]);

	(void)state;
	status.member_state[2] = DDR_MEMBER_SPARE;
	status.unseen_by[2] = 3;
	ddr_client_check(&c, now);
	assert_string_equal(answer, "");
	ddr_client_check(&c, now + 20000);
	assert_string_equal(answer, "member 2 of array 'data' waits until all nodes see its device; node n3 does not yet. The request goes on");
}

/* Finding T5. Whoever gives up, by time or by ending, leaves no spare behind that has no superblock; and he learns what the array waits for. */
static void an_add_that_nobody_waits_for_is_withdrawn(void **state)
{
	static const struct ddr_sm_status why[] = {
		{ .change_node = 2, .change_acks = true }, { .change_node = 2 }, { .wait = "is lost", .wait_node = 2, .change_node = 1 }, { .wait = "no quorum" },
	};
	static const char *const text[] = { "n2 (node 2) has not ended its requests", "n2 (node 2) has not written the superblocks", "n2 (node 2) is lost",
					    "withdrawn: no quorum" };
	struct ddr_client c = send_one(&all[1]);

	(void)state;
	ddr_client_gone(&c);
	assert_memory_equal(withdrawn, c.uuid, sizeof(c.uuid));
	for (size_t i = 0; i < 4; i++) {
		c = send_one(&all[1]);
		memset(withdrawn, 0, sizeof(withdrawn));
		status = why[i];
		ddr_client_check(&c, now + 20000);
		assert_memory_equal(withdrawn, c.uuid, sizeof(c.uuid));
		assert_non_null(strstr(answer, text[i]));
	}
	memset(withdrawn, 0, sizeof(withdrawn));
	answer[0] = '\0';
	c = request("{\"cmd\":\"add\",\"uuid\":\"77777777-7777-7777-7777-777777777777\",\"name\":\"data\",\"timeout_ms\":-1}");
	assert_non_null(strstr(answer, "timeout_ms must be"));
	assert_int_equal(withdrawn[0], 0x77);
	c = send_one(&all[1]);
	memset(withdrawn, 0, sizeof(withdrawn));
	is_listed(&c);
	ddr_client_check(&c, now);
	ddr_client_gone(&c);
	assert_int_equal(withdrawn[0], 0);
}

/* The new size counts once this node's device has it; a reason why it does not grow is passed on. */
static void a_larger_array_is_waited_for_on_this_node(void **state)
{
	struct ddr_client c = send_one(&all[ALL - 1]);

	(void)state;
	array.super.array_blocks = 2 * BLOCKS;
	array.bind.sectors = BLOCKS * (DDR_BLOCK_SIZE / 512);
	ddr_client_check(&c, now);
	assert_string_equal(answer, "");
	array.bind.sectors *= 2;
	ddr_client_check(&c, now);
	assert_string_equal(answer, "ok");
	c = send_one(&all[ALL - 1]);
	snprintf(array.grow.refusal, sizeof(array.grow.refusal), "member 1 has no room");
	ddr_client_check(&c, now);
	assert_string_equal(answer, "array 'data': member 1 has no room");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_is_answered_when_it_has_taken_effect),
		cmocka_unit_test(an_array_that_is_removed_meanwhile_ends_the_wait),
		cmocka_unit_test(a_late_answer_says_what_to_look_at),
		cmocka_unit_test(a_member_that_a_node_does_not_see_is_waited_for),
		cmocka_unit_test(an_add_that_nobody_waits_for_is_withdrawn),
		cmocka_unit_test(a_larger_array_is_waited_for_on_this_node),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
