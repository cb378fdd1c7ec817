// SPDX-License-Identifier: GPL-2.0-or-later
/* What the daemon records of an event of the state machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <errno.h>
#include <linux/fs.h>

#include <cmocka.h>
#include <json-c/json.h>

#include "daemon/array/array.h"
#include "daemon/array/events.h"
#include "daemon/ipc/notice.h"

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

const struct ddr_super *ddr_sm_super(const struct ddr_sm *sm) { (void)sm; return NULL; }

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
	o = (struct ddr_output){ .type = DDR_OUT_EVENT, .event = DDR_EV_VERIFY_DONE, .member = DDR_NO_MEMBER, .node = DDR_NO_MEMBER, .count = 3 };
	ddr_event_array(&a, &o);
	assert_string_equal(field("suspect"), "3");
	assert_non_null(strstr(field("text"), "; 3 suspect regions were skipped: check"));
	assert_non_null(strstr(field("text"), "type ddraid set data suspect=accept"));
	o.count = 0;
	ddr_event_array(&a, &o);
	assert_null(strstr(field("text"), "suspect"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_device_that_is_gone_is_called_so),
		cmocka_unit_test(a_clean_stop_has_ended), cmocka_unit_test(a_clean_stop_was_refused), cmocka_unit_test(a_refusal_of_something_else),
		cmocka_unit_test(the_last_findings_are_kept), cmocka_unit_test(suspect_regions_say_what_to_do),
	};

	return cmocka_run_group_tests_name("events", tests, NULL, NULL);
}
