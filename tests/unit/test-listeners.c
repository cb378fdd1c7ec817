// SPDX-License-Identifier: GPL-2.0-or-later
/* Event listeners that read slowly, or not at all: what they get, and when they are dropped. The connections are simulated. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/array/array.h"
#include "daemon/ipc/ipc_client.h"
#include "daemon/ipc/ipc_server.h"

static struct ddr_daemon d;
static struct qb_ipcs_service_handlers handlers;
static uint64_t now;

struct qb_ipcs_connection {
	void *context;
	unsigned int room, sent;	/* events it takes still, and took */
	bool gone;
	char last[160];
};

/* ---- what ipc_server.c uses ------------------------------------------------------ */

uint64_t ddr_now_ms(void) { return now; }
void ddr_client_request(struct ddr_client *c, const char *text, size_t len) { (void)text, (void)len; c->listening = true; }
void ddr_client_gone(struct ddr_client *c) { (void)c; }
void ddr_client_check(struct ddr_client *c, uint64_t now_ms) { (void)c, (void)now_ms; }
struct ddr_array *ddr_array_find(struct ddr_daemon *daemon, const char *name) { (void)daemon, (void)name; return NULL; }

qb_ipcs_service_t *qb_ipcs_create(const char *name, int32_t id, enum qb_ipc_type type, struct qb_ipcs_service_handlers *h)
{
	(void)name, (void)id, (void)type;
	handlers = *h;
	return (qb_ipcs_service_t *)&handlers;
}

void qb_ipcs_poll_handlers_set(qb_ipcs_service_t *s, struct qb_ipcs_poll_handlers *h) { (void)s, (void)h; }
void qb_ipcs_enforce_buffer_size(qb_ipcs_service_t *s, uint32_t size) { (void)s, (void)size; }
int32_t qb_ipcs_run(qb_ipcs_service_t *s) { (void)s; return 0; }
void qb_ipcs_destroy(qb_ipcs_service_t *s) { (void)s; }
void qb_ipcs_context_set(qb_ipcs_connection_t *c, void *context) { c->context = context; }
void *qb_ipcs_context_get(qb_ipcs_connection_t *c) { return c->context; }
ssize_t qb_ipcs_response_sendv(qb_ipcs_connection_t *c, const struct iovec *iov, size_t n) { (void)c, (void)iov, (void)n; return 1; }

ssize_t qb_ipcs_event_sendv(qb_ipcs_connection_t *c, const struct iovec *iov, size_t n)
{
	assert_int_equal(n, 2);
	assert_false(c->gone);
	if (!c->room)
		return -EAGAIN;
	c->room--;
	c->sent++;
	snprintf(c->last, sizeof(c->last), "%.*s", (int)iov[1].iov_len, (const char *)iov[1].iov_base);
	return (ssize_t)(iov[0].iov_len + iov[1].iov_len);
}

void qb_ipcs_disconnect(qb_ipcs_connection_t *c)
{
	assert_false(c->gone);
	c->gone = true;
	handlers.connection_closed(c);
}

/* ---- the tests ------------------------------------------------------------------- */

static void listens(qb_ipcs_connection_t *c, unsigned int room)
{
	struct qb_ipc_request_header h = { .size = sizeof(h) };

	*c = (struct qb_ipcs_connection){ .room = room };
	assert_int_equal(handlers.connection_accept(c, 0, 0), 0);
	handlers.connection_created(c);
	handlers.msg_process(c, &h, sizeof(h));
}

static void happen(unsigned int events)
{
	while (events--)
		ddr_sink_tell(&d.sink, &(struct ddr_notice){ .event = "played" });
}

static void later(uint64_t ms)
{
	now += ms;
	ddr_ipcs_tick(d.ipc, now);
}

/* While it holds its place no other listener is admitted. */
static void a_listener_that_reads_nothing_is_dropped(void **state)
{
	struct qb_ipcs_connection c[DDR_CLIENTS_MAX], other = { 0 };

	(void)state;
	for (unsigned int i = 0; i < DDR_CLIENTS_MAX; i++)
		listens(&c[i], 10);
	assert_int_equal(handlers.connection_accept(&other, 0, 0), -EAGAIN);
	happen(10 + DDR_CLIENT_EVENTS);
	later(60000);			/* it is only behind: all waits for it */
	assert_int_equal(ddr_ipcs_listeners(d.ipc), DDR_CLIENTS_MAX);
	happen(1);
	ddr_ipcs_tick(d.ipc, now - 1);	/* a listener that had begun before */
	later(4999);
	assert_int_equal(ddr_ipcs_listeners(d.ipc), DDR_CLIENTS_MAX);
	c[0].room = 1;			/* it takes something: more time */
	later(1);
	assert_int_equal(ddr_ipcs_listeners(d.ipc), 1);
	assert_false(c[0].gone);
	assert_int_equal(handlers.connection_accept(&other, 0, 0), 0);
	later(5000);
	assert_true(c[0].gone);
	assert_int_equal(ddr_ipcs_listeners(d.ipc), 0);
}

/* It gets the events that had waited, and a note that some were lost. */
static void a_listener_that_reads_late_is_told_of_lost_events(void **state)
{
	struct qb_ipcs_connection c;

	(void)state;
	listens(&c, 0);
	happen(DDR_CLIENT_EVENTS + 20);
	later(3000);
	assert_false(c.gone);
	c.room = 1000;
	later(3000);
	assert_int_equal(c.sent, DDR_CLIENT_EVENTS + 1);
	assert_non_null(strstr(c.last, "lost"));
	assert_true(c.gone);
}

static void a_listener_that_reads_in_time_stays(void **state)
{
	struct qb_ipcs_connection c;

	(void)state;
	listens(&c, 0);
	for (unsigned int i = 0; i < 5; i++) {
		happen(DDR_CLIENT_EVENTS);
		later(10000);
		c.room = DDR_CLIENT_EVENTS;
		later(1);
	}
	assert_int_equal(c.sent, 5 * DDR_CLIENT_EVENTS);
	assert_false(c.gone);
	handlers.connection_closed(&c);
}

static int setup(void **state)
{
	(void)state;
	now = 100000;
	return ddr_ipcs_open(&d);
}

static int teardown(void **state)
{
	(void)state;
	ddr_ipcs_close(&d);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_listener_that_reads_nothing_is_dropped, setup, teardown),
		cmocka_unit_test_setup_teardown(a_listener_that_reads_late_is_told_of_lost_events, setup, teardown),
		cmocka_unit_test_setup_teardown(a_listener_that_reads_in_time_stays, setup, teardown),
	};

	return cmocka_run_group_tests_name("listeners", tests, NULL, NULL);
}
