// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ddraid stop --shutdown; see godown.h. No acknowledged write is lost: I/O that waits for an array that is not served was not
 * written, and was not acknowledged.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/dm.h"
#include "cli/godown.h"
#include "lib/dm.h"

#define ARRAYS_MAX	256
#define LOOK_MS		1000
#define LIMIT_MS	30000	/* how long an array may be unserved */

struct array {
	char name[128];
	uint64_t unserved_ms;		/* since when; 0: it is served */
	bool suspended;			/* it was suspended at the last check, too */
	bool failed;
	bool here;
};

struct down {
	struct ddr_ipc *ipc;		/* for this check; NULL: the daemon does not answer */
	struct array array[ARRAYS_MAX];
	unsigned int n;
};

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static struct array *array_of(struct down *d, const char *name)
{
	for (unsigned int i = 0; i < d->n; i++)
		if (strcmp(d->array[i].name, name) == 0)
			return &d->array[i];
	if (d->n == ARRAYS_MAX)
		return NULL;
	snprintf(d->array[d->n].name, sizeof(d->array[d->n].name), "%s", name);
	return &d->array[d->n++];
}

/* Are reads and writes answered, according to the daemon? */
static bool served(struct down *d, const struct cli_dm_info *info)
{
	struct json_object *data = NULL, *cluster;
	char why[1200];
	bool yes = false;

	if (d->ipc && client_try(d->ipc, client_request("status", info->uuid), &data, CLIENT_TIMEOUT_MS, why, sizeof(why)) &&
	    client_length(data)) {
		cluster = client_object(client_at(data, 0), "cluster");
		yes = client_flag(client_at(data, 0), "ready") &&
		      (strcmp(client_text(cluster, "transport"), "local") == 0 || client_flag(cluster, "quorate"));
	}
	json_object_put(data);
	return yes;
}

/* The size of the device; 0: unknown. */
static uint64_t sectors_of(const struct cli_dm_info *info)
{
	unsigned long long n = 0;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/size", info->major, info->minor);
	f = fopen(path, "re");
	if (f) {
		if (fscanf(f, "%llu", &n) != 1)
			n = 0;
		fclose(f);
	}
	return n;
}

/* In a process of its own: a member that hangs blocks it, and must not delay the other arrays. */
static void fail(struct array *a, uint64_t sectors)
{
	struct ddr_error err;
	pid_t pid;

	a->failed = true;
	cli_warn("stop", "'%s' has not been served for %d seconds (no quorum, or no ddraidd), and the machine is shutting down: waiting I/O fails "
		 "now. None of it was acknowledged", a->name, LIMIT_MS / 1000);
	fflush(NULL);
	pid = fork();
	if (pid)
		return;
	if (cli_dm_fail(a->name, sectors, &err))
		cli_warn("stop", "%s", err.text);
	_exit(0);
}

static void unsuspend(struct array *a, const struct cli_dm_info *info)
{
	struct ddr_error err;

	/* at two checks: the daemon suspends a device for a moment when it loads a table */
	if (info->suspended && a->suspended) {
		cli_warn("stop", "'%s' is suspended, and the machine is shutting down: resuming it", a->name);
		if (cli_dm_resume(a->name, &err))
			cli_warn("stop", "%s", err.text);
	}
	a->suspended = info->suspended;
}

static int look_at(const struct cli_dm_info *info, void *ctx)
{
	struct down *d = ctx;
	struct array *a = array_of(d, info->name);
	uint64_t now = now_ms();

	if (!a)
		return 0;
	a->here = true;
	unsuspend(a, info);
	if (a->failed || !info->live)		/* nothing can wait for a device that was never visible */
		return 0;
	if (served(d, info))
		a->unserved_ms = 0;
	else if (!a->unserved_ms)
		a->unserved_ms = now;
	else if (now - a->unserved_ms >= LIMIT_MS)
		fail(a, sectors_of(info));
	return 0;
}

/* Is any array left? */
static bool look(struct down *d)
{
	struct ddr_error err;
	char why[600];
	bool any = false;

	for (unsigned int i = 0; i < d->n; i++)
		d->array[i].here = false;
	if (!client_reach(&d->ipc, why, sizeof(why)))
		d->ipc = NULL;
	if (cli_dm_each(look_at, d, &err) < 0) {
		cli_warn("stop", "%s", err.text);
		any = true;
	}
	ddr_ipc_close(d->ipc);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	for (unsigned int i = 0; i < d->n; i++)
		any = any || d->array[i].here;
	return any;
}

int cli_go_down(void)
{
	const struct timespec pause = { .tv_sec = LOOK_MS / 1000 };
	static struct down d;

	/* udev may end before us, so it is not waited for */
	setenv("DM_DISABLE_UDEV", "1", 1);
	ddr_dm_init();
	while (look(&d))
		nanosleep(&pause, NULL);
	return CLI_DONE;
}
