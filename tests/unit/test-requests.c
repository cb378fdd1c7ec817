// SPDX-License-Identifier: GPL-2.0-or-later
/* Clients that have asked for a replacement, or for a clean stop, and wait: what they are answered, and when. */
#include "tests/unit/requests.h"

/* ---- the tests ------------------------------------------------------------------- */

/* A client that waits: the spare is one still. */
static struct ddr_client asks(void)
{
	struct ddr_client c;

	fresh();
	c = request("{\"cmd\":\"replace\",\"name\":\"data\",\"member\":\"1\",\"spare\":\"5\",\"timeout_ms\":20000}");
	assert_string_equal(answer, "");
	assert_int_equal(c.wait, DDR_WAIT_REPLACE);
	return c;
}

#define FOR_ONE_THAT_IS_OUT	"{\"cmd\":\"replace\",\"name\":\"data\",\"member\":\"1\",\"spare\":\"5\",\"role\":1,\"timeout_ms\":20000}"

static void takes(uint32_t role)
{
	array.super.member[SPARE].role = (uint16_t)role;
	array.super.member[SPARE].state = status.member_state[SPARE] = DDR_MEMBER_REBUILDING;
	status.rebuilding = SPARE;
}

static void expect(struct ddr_client *c, const char *words)
{
	ddr_client_check(c, now);
	if (!strstr(answer, words) || !*answer)
		fail_msg("'%s' is not in the answer '%s'", words, answer);
	assert_int_equal(late, 0);
}

static void a_request_replaces_a_member(void **state)
{
	struct ddr_client c = asks();

	(void)state;
	ddr_client_check(&c, now);
	assert_string_equal(answer, "");
	status.member_state[SPARE] = DDR_MEMBER_REBUILDING;
	status.rebuilding = SPARE;
	status.replaced = 1;
	expect(&c, "ok");
	c = asks();
	status.member_state[SPARE] = DDR_MEMBER_IN_SYNC;	/* so small an array is copied at once */
	expect(&c, "ok");
}

/* A change of the policy for suspect reads is answered when it has taken effect; other settings are answered at once. */
static void a_policy_is_waited_for(void **state)
{
	struct ddr_client c;

	(void)state;
	fresh();
	c = request("{\"cmd\":\"set\",\"name\":\"data\",\"key\":\"suspect-reads\",\"value\":\"error\",\"timeout_ms\":20000}");
	assert_int_equal(c.wait, DDR_WAIT_POLICY);
	ddr_client_check(&c, now);
	assert_string_equal(answer, "");
	array.super.policy = DDR_POLICY_SUSPECT_READS_ERROR;
	expect(&c, "ok");
	answer[0] = '\0';
	c = request("{\"cmd\":\"set\",\"name\":\"data\",\"key\":\"suspect_reads\",\"value\":\"error\"}");
	assert_string_equal(answer, "ok");
	answer[0] = '\0';
	c = request("{\"cmd\":\"set\",\"name\":\"data\",\"key\":\"suspect-reads\",\"value\":\"pass\",\"timeout_ms\":20000}");
	ddr_client_check(&c, now + 20000);
	assert_non_null(strstr(answer, "has not carried out the request yet"));
	answer[0] = '\0';
	c = request("{\"cmd\":\"set\",\"name\":\"data\",\"key\":\"suspect-reads\",\"value\":\"perhaps\"}");
	assert_non_null(strstr(answer, "expected error or pass"));
}

static void settings_are_listed(void **state)
{
	(void)state;
	fresh();
	ddr_conf_defaults(&d.conf);
	array.tune = d.conf.tune;
	array.tune.idle_ms = 700;
	(void)request("{\"cmd\":\"settings\",\"name\":\"data\"}");
	assert_non_null(strstr(given, "\"idle_time\":\"700ms\""));
	assert_non_null(strstr(given, "\"suspect_reads\":\"pass\""));
	assert_null(strstr(given, "node_id"));		/* not an array's */
	answer[0] = '\0';
	(void)request("{\"cmd\":\"settings\",\"name\":\"nothing\"}");
	assert_non_null(strstr(answer, "no array 'nothing'"));
}

static uint32_t seventh(const struct ddr_daemon *daemon)
{
	(void)daemon;
	return 7;
}

/* A process that starts an array without a cluster has to know which node it is; in a cluster the group decides that. */
static void ping_reports_the_node_id_without_a_cluster(void **state)
{
	(void)state;
	fresh();
	ops.node = seventh;
	(void)request("{\"cmd\":\"ping\"}");
	assert_non_null(strstr(given, "\"alone\":7"));
	assert_non_null(strstr(given, "\"nodes\":1"));
	assert_null(strstr(given, "cluster"));
	ops.cluster = true;
	has_id = 3;
	answer[0] = '\0';
	(void)request("{\"cmd\":\"ping\"}");
	assert_null(strstr(given, "alone"));
	assert_non_null(strstr(given, "\"cluster\":\"03000000-0000-0000-0000-000000000000\""));
	has_id = 0;
	ops.cluster = false;
}

/* What `start` is to put into each table. */
static void ping_reports_the_options_of_tables(void **state)
{
	(void)state;
	fresh();
	ops.node = seventh;
	ddr_conf_defaults(&d.conf);
	(void)request("{\"cmd\":\"ping\"}");
	assert_non_null(strstr(given, "\"verify_reads\":false"));
	assert_non_null(strstr(given, "\"fail_if_no_daemon\":false"));
	d.conf.verify_reads = 1;
	answer[0] = '\0';
	(void)request("{\"cmd\":\"ping\"}");
	assert_non_null(strstr(given, "\"verify_reads\":true"));
	assert_non_null(strstr(given, "\"fail_if_no_daemon\":false"));
	ddr_conf_defaults(&d.conf);
}

/* A client that waits for an array hears of a refusal at once; a missing cluster, or a missing list from the kernel, is not a refusal. */
static void waits_where_nothing_is_refused(void **state)
{
	struct ddr_client c;

	(void)state;
	fresh();
	array.state = DDR_ARRAY_DOWN;
	snprintf(array.error, sizeof(array.error), "corosync does not run");
	array.waiting = true;
	c = request("{\"cmd\":\"wait\",\"name\":\"data\",\"timeout_ms\":1000}");
	assert_string_equal(answer, "");
	array.waiting = false;
	ddr_client_check(&c, now);
	assert_string_equal(answer, "corosync does not run");
	answer[0] = '\0';
	array.state = DDR_ARRAY_RUNNING;
	array.cluster.lost = true;
	c = request("{\"cmd\":\"wait\",\"name\":\"data\",\"timeout_ms\":1000}");
	now += 1000;
	ddr_client_check(&c, now);
	assert_string_equal(answer, "ok");
	answer[0] = '\0';
	d.listed = false;
	(void)request("{\"cmd\":\"wait\",\"name\":\"other\",\"timeout_ms\":0}");
	assert_string_equal(answer, "ok");
	answer[0] = '\0';
	d.listed = true;
	(void)request("{\"cmd\":\"wait\",\"name\":\"other\",\"timeout_ms\":0}");
	assert_string_equal(answer, "the kernel has no array 'other'");
}

/* The disk is not a spare any more, and replaces nobody: that is not a success. */
static void a_replacement_that_became_something_else_is_reported(void **state)
{
	struct ddr_client c = asks();

	(void)state;
	status.member_state[SPARE] = DDR_MEMBER_FAULTY;		/* its first superblock could not be written */
	expect(&c, "is now faulty");
	c = asks();
	status.member_state[SPARE] = DDR_MEMBER_REBUILDING;	/* a hot spare for another role */
	status.rebuilding = SPARE;
	expect(&c, "has taken the place of a failed member");
	c = asks();
	status.member_state[SPARE] = DDR_MEMBER_MISSING;
	memset(array.super.member[SPARE].uuid, 0x77, sizeof(array.super.member[SPARE].uuid));
	expect(&c, "was removed");
	c = asks();
	memset(array.super.member[SPARE].uuid, 0x77, sizeof(array.super.member[SPARE].uuid));	/* and another one has its number */
	expect(&c, "was removed");
	c = asks();
	array.replace.refusal = "the members have changed meanwhile";
	expect(&c, "replaces no member: the members have changed meanwhile");
}

/* The slot of a failed member: a spare may have taken it automatically before the request, or another disk did. */
static void a_replacement_may_take_the_place_of_a_failed_member(void **state)
{
	struct ddr_client c;

	(void)state;
	fresh();
	c = request(FOR_ONE_THAT_IS_OUT);
	assert_string_equal(answer, "");
	assert_int_equal(asked, 1);
	takes(1);
	expect(&c, "ok");
	fresh();
	takes(1);
	request(FOR_ONE_THAT_IS_OUT);
	assert_string_equal(answer, "ok");
	assert_int_equal(asked, 0);
	fresh();
	c = request(FOR_ONE_THAT_IS_OUT);
	takes(2);
	expect(&c, "has taken the place of a failed member");
	fresh();
	c = request(FOR_ONE_THAT_IS_OUT);
	takes(1);
	array.replace.refusal = "the members have changed meanwhile";	/* it was quicker than the request */
	expect(&c, "ok");
}

/* Settings that are not given for a running verify stay as they are. */
static void a_resumed_verify_keeps_its_options(void **state)
{
	(void)state;
	fresh();
	array.tune.verify_priority = 4;
	request("{\"cmd\":\"verify\",\"name\":\"data\",\"action\":\"start\"}");
	assert_int_equal(verify_priority, 4);
	assert_int_equal(verify_flags, 0);
	fresh();
	array.tune.verify_priority = 4;
	array.super.verify = (struct ddr_verify){ .state = DDR_VERIFY_PAUSED, .priority = 2, .flags = DDR_VERIFY_F_REPAIR | DDR_VERIFY_F_SCHEDULED };
	request("{\"cmd\":\"verify\",\"name\":\"data\",\"action\":\"start\"}");
	assert_int_equal(verify_priority, 2);
	assert_int_equal(verify_flags, DDR_VERIFY_F_REPAIR);
	answer[0] = '\0';
	request("{\"cmd\":\"verify\",\"name\":\"data\",\"action\":\"start\",\"priority\":5,\"repair\":false}");
	assert_int_equal(verify_priority, 5);
	assert_int_equal(verify_flags, 0);
}

/* A client that stops waiting withdraws its request. */
static void a_client_that_disconnects_withdraws_its_request(void **state)
{
	struct ddr_client c = asks();

	(void)state;
	status.unseen_by[SPARE] = 3;
	ddr_client_check(&c, now + 19999);
	assert_string_equal(answer, "");
	ddr_client_check(&c, now + 20000);
	assert_non_null(strstr(answer, "n3 does not see"));
	assert_int_equal(late, 1u << SPARE);
	ddr_client_gone(&c);
	c = asks();
	ddr_client_gone(&c);
	assert_int_equal(late, 1u << SPARE);
	c = asks();
	status.member_state[SPARE] = DDR_MEMBER_IN_SYNC;
	ddr_client_check(&c, now);
	ddr_client_gone(&c);
	assert_int_equal(late, 0);
}

/* A client that waits for a clean stop, which is under way. */
static struct ddr_client stops(void)
{
	static const char text[] = "{\"cmd\":\"stop\",\"name\":\"data\",\"timeout_ms\":60000}";
	struct ddr_client c = { .d = &d };

	fresh();
	ddr_client_request(&c, text, sizeof(text) - 1);
	assert_string_equal(answer, "");
	assert_int_equal(c.wait, DDR_WAIT_CLEAN);
	assert_false(array.clean_late);
	return c;
}

/* A client that stops waiting for a stop withdraws it; otherwise the stop would block all background work. */
static void a_client_that_disconnects_withdraws_its_stop(void **state)
{
	struct ddr_client c = stops();

	(void)state;
	ddr_client_check(&c, now + 59999);
	assert_string_equal(answer, "");
	assert_false(array.clean_late);
	ddr_client_check(&c, now + 60000);
	assert_non_null(strstr(answer, "did not become clean in time"));
	assert_true(array.clean_late);
	c = stops();
	ddr_client_gone(&c);			/* interrupted */
	assert_true(array.clean_late);
	assert_int_equal(late, 0);
	c = stops();
	others_wait = DDR_WAIT_CLEAN;
	ddr_client_gone(&c);
	assert_false(array.clean_late);
	c = stops();
	array.state = DDR_ARRAY_CLOSING;	/* and when the daemon closes it, nothing */
	ddr_client_gone(&c);
	assert_false(array.clean_late);
}

/* A client that does not wait for its answer would receive that of its next request; its stop must not continue unattended. */
static void a_client_that_sends_another_request_withdraws_its_stop(void **state)
{
	static const char *const next[] = { "{\"cmd\":\"ping\"}", "this is not JSON" };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct ddr_client c = stops();

		ddr_client_request(&c, next[i], strlen(next[i]));
		assert_non_null(strstr(answer, "not answered yet"));
		assert_int_equal(c.wait, DDR_WAIT_NONE);
		assert_true(array.clean_late);
		c = asks();
		ddr_client_request(&c, next[i], strlen(next[i]));
		assert_int_equal(late, 1u << SPARE);
	}
}

static void a_stop_without_a_wait_is_none(void **state)
{
	static const char text[] = "{\"cmd\":\"stop\",\"name\":\"data\",\"timeout_ms\":-1}";
	struct ddr_client c = { .d = &d };

	(void)state;
	fresh();
	ddr_client_request(&c, text, sizeof(text) - 1);
	assert_non_null(strstr(answer, "timeout_ms"));
	assert_true(array.clean_late);
}

static void a_stop_ends(void **state)
{
	struct ddr_client c = stops();

	(void)state;
	array.clean_asked = false;
	expect(&c, "ok");
	assert_false(array.clean_late);
	c = stops();
	array.clean_asked = false;
	array.clean_refusal = "without quorum no region can be marked clean";
	expect(&c, "not made clean: without quorum no region can be marked clean");
}

/* However many listen, there is a place for a command. */
static void the_number_of_listeners_is_limited(void **state)
{
	static const char text[] = "{\"cmd\":\"events\"}";
	struct ddr_client c = { .d = &d };

	(void)state;
	fresh();
	qb_list_init(&d.arrays);
	listeners = DDR_LISTENERS_MAX - 1;
	ddr_client_request(&c, text, sizeof(text) - 1);
	assert_string_equal(answer, "ok");
	assert_true(c.listening);
	answer[0] = '\0';
	c.listening = false;
	listeners = DDR_LISTENERS_MAX;
	ddr_client_request(&c, text, sizeof(text) - 1);
	assert_non_null(strstr(answer, "already listen to events"));
	assert_false(c.listening);
	assert_true(DDR_LISTENERS_MAX < DDR_CLIENTS_MAX);
}

/*
 * Finding S37: an array that could not be started automatically is in the status with the reason, until its device exists or the
 * reason no longer applies.
 */
static void what_could_not_be_started_is_listed(void **state)
{
	static const char report[] = "{\"cmd\":\"unstarted\",\"name\":\"old\",\"uuid\":\"03000000-0000-0000-0000-000000000000\",\"waits\":false,\"why\":\"two\\nmembers are missing\"}";

	(void)state;
	fresh();
	qb_list_init(&d.arrays);
	request("{\"cmd\":\"status\"}");
	assert_string_equal(given, "[]");
	answer[0] = '\0';
	request(report);
	assert_string_equal(answer, "ok");
	answer[0] = '\0';
	request("{\"cmd\":\"status\"}");
	assert_non_null(strstr(given, "\"name\":\"old\",\"uuid\":\"03000000-0000-0000-0000-000000000000\",\"state\":\"inactive\""));
	assert_non_null(strstr(given, "\"error\":\"two?members are missing\""));
	answer[0] = '\0';
	request("{\"cmd\":\"status\",\"name\":\"old\"}");
	assert_string_equal(answer, "array 'old' is not started on this node: two?members are missing");
	answer[0] = '\0';
	request("{\"cmd\":\"unstarted\",\"name\":\"old\",\"uuid\":\"03000000-0000-0000-0000-000000000000\"}");
	answer[0] = '\0';
	request("{\"cmd\":\"status\"}");
	assert_string_equal(given, "[]");
	answer[0] = '\0';
	request("{\"cmd\":\"unstarted\",\"name\":\"old\",\"uuid\":\"no\",\"why\":\"x\"}");
	assert_non_null(strstr(answer, "names no array"));
}

/* The daemon of a node that serves no array knows by the pulses of the others what they wait for. */
static void what_others_wait_for_is_in_the_status_without_an_array(void **state)
{
	(void)state;
	fresh();
	qb_list_init(&d.arrays);
	d.elsewhere[0] = (struct ddr_elsewhere){ .uuid = { 0xee }, .waits = "node 3 is lost" };
	request("{\"cmd\":\"status\"}");
	assert_string_equal(given, "[{\"name\":\"ee000000-0000-0000-0000-000000000000\",\"uuid\":\"ee000000-0000-0000-0000-000000000000\","
				   "\"state\":\"inactive\",\"started\":false,\"elsewhere\":true,\"waits\":\"node 3 is lost\"}]");
	answer[0] = '\0';
	listeners = 0;
	given[0] = '\0';
	request("{\"cmd\":\"events\"}");		/* there it is an event */
	assert_string_equal(given, "[]");
	qb_list_add(&array.list, &d.arrays);		/* each array has it in its own object */
	answer[0] = '\0';
	request("{\"cmd\":\"status\"}");
	assert_null(strstr(given, "lost"));
	qb_list_del(&array.list);
	memset(d.elsewhere, 0, sizeof(d.elsewhere));
	answer[0] = '\0';
	request("{\"cmd\":\"status\"}");
	assert_string_equal(given, "[]");
}

/* Finding T1: an adoption is accepted for an array that is not there yet, or that was refused. */
static void an_array_is_adopted(void **state)
{
	(void)state;
	fresh();
	request("{\"cmd\":\"adopt\",\"name\":\"data\"}");
	assert_non_null(strstr(answer, "by its uuid"));
	assert_int_equal(asked, 0);
	answer[0] = '\0';
	request("{\"cmd\":\"adopt\",\"name\":\"02000000-0000-0000-0000-000000000000\"}");
	assert_string_equal(answer, "ok");
	assert_int_equal(asked, 1);
	assert_int_equal(seen, 0);
	answer[0] = '\0';
	request("{\"cmd\":\"adopt\",\"name\":\"02000000-0000-0000-0000-000000000000\",\"cluster\":\"it\"}");
	assert_non_null(strstr(answer, "no cluster by its id"));
	assert_int_equal(asked, 1);
	answer[0] = '\0';
	request("{\"cmd\":\"adopt\",\"name\":\"02000000-0000-0000-0000-000000000000\",\"cluster\":\"07000000-0000-0000-0000-000000000000\"}");
	assert_string_equal(answer, "ok");
	assert_int_equal(seen, 7);
	answer[0] = '\0';
	request("{\"cmd\":\"adopt\",\"name\":\"01000000-0000-0000-0000-000000000000\"}");
	assert_non_null(strstr(answer, "it is served"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_replacement_may_take_the_place_of_a_failed_member), cmocka_unit_test(a_resumed_verify_keeps_its_options),
		cmocka_unit_test(the_number_of_listeners_is_limited), cmocka_unit_test(a_policy_is_waited_for), cmocka_unit_test(settings_are_listed),
		cmocka_unit_test(a_client_that_disconnects_withdraws_its_stop),
		cmocka_unit_test(a_stop_without_a_wait_is_none),
		cmocka_unit_test(a_stop_ends), cmocka_unit_test(an_array_is_adopted), cmocka_unit_test(what_could_not_be_started_is_listed),
		cmocka_unit_test(a_stop_ends), cmocka_unit_test(an_array_is_adopted), cmocka_unit_test(what_others_wait_for_is_in_the_status_without_an_array),
		cmocka_unit_test(a_request_replaces_a_member),
		cmocka_unit_test(ping_reports_the_node_id_without_a_cluster),
		cmocka_unit_test(ping_reports_the_options_of_tables),
		cmocka_unit_test(a_client_that_sends_another_request_withdraws_its_stop),
		cmocka_unit_test(waits_where_nothing_is_refused),
		cmocka_unit_test(a_replacement_that_became_something_else_is_reported), cmocka_unit_test(a_client_that_disconnects_withdraws_its_request),
	};

	return cmocka_run_group_tests_name("requests", tests, NULL, NULL);
}
