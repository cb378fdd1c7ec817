// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ddraid start, after the devices were created: waits until the daemon serves them, prints what it waits for, and removes those that
 * it refuses.
 *
 * Must never: remove a device that may be in use.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/auto.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/dm.h"
#include "cli/start.h"

#define SLICE_MS	3000	/* how often the daemon is asked what it waits for */
#define SAY_MS		3000	/* a shorter wait is not reported */
#define RETRY_MS	200	/* between attempts to reach a daemon that is gone */
#define TELL_MS		3000	/* after this time without a daemon, that is printed; a restart takes less */

/* A crash and a missing member together must always be reported; and so must a rebuild from what does not match. */
static void tell_suspect(const char *name, struct json_object *status)
{
	struct json_object *runs = client_object(status, "suspect"), *regions = client_object(status, "regions");
	uint64_t n = client_number(regions, "suspect"), dirty = client_number(regions, "dirty");

	if (n) {
		cli_warn("start", "'%s' has %" PRIu64 " suspect regions: blocks that were in flight at a crash while a member was missing, or from which a "
			 "member was rebuilt although they did not match, may read as garbage; ddraid status says what to do", name, n);
		for (size_t i = 0; i < client_length(runs); i++) {
			struct json_object *run = client_at(runs, i);

			cli_warn("start", "suspect: regions %" PRIu64 " to %" PRIu64,
				 json_object_get_uint64(client_at(run, 0)),
				 json_object_get_uint64(client_at(run, 0)) +
				 json_object_get_uint64(client_at(run, 1)) - 1);
		}
	} else if (dirty && strcmp(client_text(status, "state"), "degraded") == 0) {
		cli_warn("start", "'%s' was being written at a crash and has members missing; %" PRIu64 " regions are being checked, and ddraid "
			 "status lists those that stay suspect", name, dirty);
	}
}

/* Reports members that the array was started without, and why, if the daemon knows it. */
static void tell_left_out(const char *name, struct json_object *status)
{
	struct json_object *members = client_object(status, "members");

	for (size_t i = 0; i < client_length(members); i++) {
		struct json_object *m = client_at(members, i);

		if (!client_null(m, "reason") && !client_null(m, "role"))
			cli_warn("start", "'%s' runs without member %d, %s: %s", name, (int)client_number(m, "index"),
				 client_null(m, "device") ? "whose disk is unknown" : client_clean(client_text(m, "device")),
				 client_clean(client_text(m, "reason")));
	}
}

enum answer { SERVED, NOT_YET, REFUSED, GONE };

uint64_t start_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* The daemon is gone, or hangs; usually another one is started at once. False: none came in time; @why says what was wrong. */
static bool reconnect(struct start *s, char *why, size_t size)
{
	const struct timespec pause = { .tv_nsec = RETRY_MS * 1000000L };
	uint64_t now = start_now_ms();
	bool told = s->lost_ms != 0;

	if (!told)
		s->lost_ms = now;
	s->lost = true;
	ddr_ipc_close(s->ipc);
	s->ipc = NULL;
	while (now < s->until_ms && (s->only || now < s->lost_ms + WAIT_MS)) {
		nanosleep(&pause, NULL);
		if (client_reach(&s->ipc, why, size))
			return true;
		now = start_now_ms();
		if (!told && now >= s->lost_ms + TELL_MS) {
			cli_warn("start", "%s; waiting for it, %d seconds at most", why, WAIT_MS / 1000);
			told = true;
		}
	}
	s->ipc = NULL;
	return false;
}

/* While the daemon reports what it waits for (quorum, the fencing of a node), the command prints that and waits, too. */
static void tell_waits(struct made *m, struct json_object *status)
{
	const char *waits = client_clean(client_text(client_object(status, "cluster"), "waits"));

	if (*waits && strcmp(waits, m->told) != 0 && start_now_ms() >= m->begun_ms + SAY_MS) {
		snprintf(m->told, sizeof(m->told), "%s", waits);
		cli_warn("start", "'%s' waits: %s", m->name, m->told);
	}
	if (*waits)
		m->due_ms = start_now_ms() + WAIT_MS;
}

/* Asks the daemon for at most @slice_ms. SERVED: the status is in *@status; REFUSED and GONE: the reason is in @why. */
static enum answer ask(struct start *s, struct made *m, int slice_ms, struct json_object **status, char *why, size_t size)
{
	struct json_object *request = client_request("wait", m->uuid), *data;
	uint64_t now = start_now_ms();
	int rc;

	if (now < s->until_ms && s->until_ms - now < (uint64_t)slice_ms)
		slice_ms = (int)(s->until_ms - now);
	json_object_object_add(request, "timeout_ms", json_object_new_int(slice_ms));
	if (s->ipc) {
		rc = client_ask(s->ipc, request, &data, slice_ms + CLIENT_TIMEOUT_MS, why, size);
	} else {
		json_object_put(request);
		snprintf(why, size, "ddraidd is not running");
		rc = -ENOTCONN;
	}
	if (rc < 0)
		return reconnect(s, why, size) ? NOT_YET : GONE;
	s->lost_ms = 0;
	if (rc)
		return REFUSED;
	*status = json_object_get(client_at(data, 0));
	json_object_put(data);
	if (client_flag(*status, "ready"))
		return SERVED;
	tell_waits(m, *status);
	json_object_put(*status);
	now = start_now_ms();
	if (now < m->due_ms && now < s->until_ms)
		return NOT_YET;
	snprintf(why, size, "it was not attached in time%s%s; see the log of ddraidd", *m->told ? ": " : "", m->told);
	return REFUSED;
}

/*
 * Removes the device of an array that the daemon refuses, with all I/O that waits in it. If another daemon ran in between, it may
 * have been served meanwhile: then it is only removed if nobody has it open.
 */
static void take_down(struct start *s, const struct made *m)
{
	struct cli_dm_info info;
	struct ddr_error err;

	if (m->kept)
		return;
	if (cli_dm_find(m->name, &info, &err))
		cli_warn("start", "%s", err.text);
	else if (s->lost && info.open_count && info.live)
		cli_warn("start", "'%s' is in use, so its device stays; ddraid stop removes it", m->name);
	else if ((info.live && cli_dm_fail(m->name, m->sectors, &err)) || cli_dm_remove(m->name, &err))
		cli_warn("start", "%s", err.text);
}

int start_failed(struct start *s, const char *uuid, const char *name, const char *why)
{
	if (s->all)
		cli_auto_report(s->ipc, uuid, name, why);
	return cli_fail("start", "'%s': %s", name, why);
}

/* Waits a while for the daemon. Returns an exit code, or -1: ask again. */
static int attach(struct start *s, struct made *m, int slice_ms)
{
	struct json_object *status;
	struct ddr_error err;
	char why[1200];

	switch (ask(s, m, slice_ms, &status, why, sizeof(why))) {
	case NOT_YET:
		return -1;
	case REFUSED:
		take_down(s, m);
		return start_failed(s, m->uuid, m->name, why);
	case GONE:
		return cli_fail("start", "'%s': %s. The device stays%s; ddraid stop --force %s removes it", m->name, why, m->hidden ?
				"; start the array again when ddraidd runs" : ", and is served when ddraidd runs", m->name);
	case SERVED:
		break;
	}
	if (m->hidden && cli_dm_show(m->name, m->uuid, &err)) {
		json_object_put(status);
		return start_failed(s, m->uuid, m->name, err.text);
	}
	printf("%s: started, %s, /dev/mapper/%s\n", m->name, client_clean(client_text(status, "state")), m->name);
	tell_left_out(m->name, status);
	tell_suspect(m->name, status);
	json_object_put(status);
	return cli_finish("start");
}

size_t start_unattached(const struct made *made, size_t n)
{
	size_t left = 0;

	for (size_t i = 0; i < n; i++)
		left += made[i].sectors != 0;
	return left;
}

/* Waits a while for each of them, so that an array that has to wait does not delay reports about others. */
int start_attach_turn(struct start *s, struct made *made, size_t n, int slice_ms)
{
	int worst = CLI_DONE, rc;

	for (size_t i = 0; i < n; i++) {
		if (!made[i].sectors)
			continue;
		rc = attach(s, &made[i], slice_ms);
		if (rc < 0)
			continue;
		worst = rc > worst ? rc : worst;
		made[i].sectors = 0;
	}
	return worst;
}

int start_attach_all(struct start *s, struct made *made, size_t n)
{
	int worst = CLI_DONE, rc;
	size_t left;

	while ((left = start_unattached(made, n))) {
		rc = start_attach_turn(s, made, n, left > 1 ? TURN_MS : SLICE_MS);
		worst = rc > worst ? rc : worst;
	}
	return worst;
}
