// SPDX-License-Identifier: GPL-2.0-or-later
/* What the daemon remembers of an event of the state machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/array.h"
#include "daemon/events.h"
#include "daemon/ipc_server.h"

#define NOW	1000u

static struct ddr_transport_ops ops;
static struct ddr_daemon d = { .transport = &ops };

/* ---- what events.c uses ---------------------------------------------------------- */

uint64_t ddr_now_ms(void) { return NOW; }
unsigned int ddr_ipcs_listeners(const struct ddr_ipcs *s) { (void)s; return 0; }
void ddr_ipcs_event(struct ddr_ipcs *s, struct json_object *e) { (void)s, (void)e; fail(); }
void ddr_ipcs_changed(struct ddr_ipcs *s, const struct ddr_array *a) { (void)s, (void)a; }
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

/* The state machine has forgotten it. So must the daemon, or it would never resume a resync nor begin a verify. */
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

/* What else is refused meanwhile does not end it. */
static void a_refusal_of_something_else(void **state)
{
	struct ddr_array a = stopping();

	(void)state;
	tell(&a, DDR_EV_REFUSED, 11, "the region map is being changed: try again");
	assert_true(a.clean_asked);
	assert_int_equal(a.quiet_until_ms, UINT64_MAX);
	assert_null(a.clean_refusal);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_clean_stop_has_ended), cmocka_unit_test(a_clean_stop_was_refused), cmocka_unit_test(a_refusal_of_something_else),
	};

	return cmocka_run_group_tests_name("events", tests, NULL, NULL);
}
