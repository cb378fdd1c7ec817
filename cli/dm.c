// SPDX-License-Identifier: GPL-2.0-or-later
/* The device-mapper side of start and stop; see dm.h. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <libdevmapper.h>
#include <uuid/uuid.h>

#include "cli/cli.h"
#include "cli/dm.h"
#include "lib/disk/holder.h"
#include "lib/dm.h"

/* The same as libdevmapper's own retries of a removal. The kernel does not report when a device is closed. */
#define CLOSE_TRIES	25
#define CLOSE_PAUSE_US	200000
#define RUN_DIR		RUNSTATEDIR "/ddraid"
#define LOCK_PAUSE_US	50000
#define LOCK_SAY_TRIES	60
#define NODE_TRIES	200u
#define NODE_PAUSE_US	50000u

static int failed(struct ddr_error *err, const char *what, const char *name)
{
	return ddr_error_set(err, "device-mapper: %s of '%s' failed: %s", what, name,
			     ddr_dm_said());
}

static struct dm_task *task(int type, const char *name)
{
	struct dm_task *t = dm_task_create(type);

	ddr_dm_forget();
	if (t && !dm_task_set_name(t, name)) {
		dm_task_destroy(t);
		t = NULL;
	}
	return t;
}

/* The uuid in the table of a device that was created by hand, or "". */
static void uuid_of_table(const char *name, char *buf, size_t size)
{
	struct dm_task *t = task(DM_DEVICE_TABLE, name);
	char *type = NULL, *params = NULL;
	uint64_t start, length;
	uuid_t parsed;

	buf[0] = '\0';
	if (t && dm_task_run(t))
		dm_get_next_target(t, NULL, &start, &length, &type, &params);
	if (type && params && strcmp(type, "ddraid") == 0) {
		snprintf(buf, size, "%.*s", (int)strcspn(params, " "), params);
		if (uuid_parse(buf, parsed))
			buf[0] = '\0';		/* "-": an array without a daemon */
	}
	if (t)
		dm_task_destroy(t);
}

/* Runs @t, and reads the state of its device, which is called @name, or whose name is unknown (NULL). Takes over @t. */
static int read_info(struct dm_task *t, const char *what, const char *name, struct cli_dm_info *info, struct ddr_error *err)
{
	struct dm_info dmi;
	const char *uuid;

	memset(info, 0, sizeof(*info));
	if (!t || !dm_task_run(t) || !dm_task_get_info(t, &dmi)) {
		if (t)
			dm_task_destroy(t);
		return failed(err, "look-up", what);
	}
	if (!name)
		name = dmi.exists ? dm_task_get_name(t) : "";
	snprintf(info->name, sizeof(info->name), "%s", name ? name : "");
	info->exists = dmi.exists;
	info->major = dmi.exists ? dmi.major : 0;
	info->minor = dmi.exists ? dmi.minor : 0;
	info->suspended = dmi.exists && dmi.suspended;
	info->live = dmi.exists && dmi.live_table;
	info->open_count = (uint32_t)dmi.open_count;
	info->kept = dmi.open_count && (dm_device_has_holders(dmi.major, dmi.minor) || dm_device_has_mounted_fs(dmi.major, dmi.minor));
	uuid = dmi.exists ? dm_task_get_uuid(t) : NULL;
	if (uuid && strncmp(uuid, CLI_DM_PREFIX, strlen(CLI_DM_PREFIX)) == 0)
		snprintf(info->uuid, sizeof(info->uuid), "%s", uuid + strlen(CLI_DM_PREFIX));
	else if (dmi.exists)
		uuid_of_table(info->name, info->uuid, sizeof(info->uuid));
	dm_task_destroy(t);
	return 0;
}

int cli_dm_find(const char *name, struct cli_dm_info *info, struct ddr_error *err)
{
	return read_info(task(DM_DEVICE_INFO, name), name, name, info, err);
}

struct wanted {
	const char *uuid;
	struct cli_dm_info *info;
};

static int is_wanted(const struct cli_dm_info *info, void *ctx)
{
	struct wanted *w = ctx;

	if (strcmp(info->uuid, w->uuid) == 0)
		*w->info = *info;
	return 0;
}

/* A device that was created by hand may have no uuid of its own. */
static int find_by_table(const char *uuid, struct cli_dm_info *info, struct ddr_error *err)
{
	struct wanted w = { .uuid = uuid, .info = info };

	return cli_dm_each(is_wanted, &w, err) < 0 ? -1 : 0;
}

int cli_dm_find_array(const char *uuid, struct cli_dm_info *info, struct ddr_error *err)
{
	struct dm_task *t = dm_task_create(DM_DEVICE_INFO);
	char dm_uuid[64];

	ddr_dm_forget();
	snprintf(dm_uuid, sizeof(dm_uuid), CLI_DM_PREFIX "%s", uuid);
	if (t && !dm_task_set_uuid(t, dm_uuid)) {
		dm_task_destroy(t);
		t = NULL;
	}
	if (read_info(t, uuid, NULL, info, err))
		return -1;
	return info->exists ? 0 : find_by_table(uuid, info, err);
}

int cli_dm_wait_closed(struct cli_dm_info *info, struct ddr_error *err)
{
	char name[sizeof(info->name)];
	unsigned int tries = CLOSE_TRIES;

	snprintf(name, sizeof(name), "%s", info->name);
	while (info->open_count && !info->kept && tries--) {
		usleep(CLOSE_PAUSE_US);
		if (cli_dm_find(name, info, err))
			return -1;
	}
	return 0;
}

/* Waits for the lock. If udev hangs, it delays the process that resumes a device, and so all that wait for this lock. */
static void lock_wait(int fd)
{
	unsigned int tries = LOCK_SAY_TRIES;
	struct ddr_holder holder;

	while (flock(fd, LOCK_EX | LOCK_NB) && (errno == EWOULDBLOCK || errno == EINTR)) {
		if (tries && --tries == 0) {
			ddr_holder_find(fd, &holder);
			cli_warn("start", "%s is starting an array; waiting until its device is there. If that takes long, see systemctl status "
				 "systemd-udevd", holder.text);
		}
		usleep(LOCK_PAUSE_US);
	}
}

int cli_dm_lock(void)
{
	int fd;

	mkdir(RUN_DIR, 0755);
	fd = open(RUN_DIR "/start.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);	/* only for root: any process that can open it can hold the lock */
	if (fd >= 0)
		lock_wait(fd);
	return fd;
}

void cli_dm_unlock(int fd)
{
	if (fd >= 0)
		close(fd);
}

int cli_dm_create(const char *name, const char *uuid, uint64_t sectors, const char *params, struct ddr_error *err)
{
	struct dm_task *t = task(DM_DEVICE_CREATE, name);
	char dm_uuid[64];
	struct ddr_error ignored;
	bool ok;

	snprintf(dm_uuid, sizeof(dm_uuid), CLI_DM_PREFIX "%s", uuid);
	ok = t && dm_task_set_uuid(t, dm_uuid) && dm_task_run(t);	/* no event is created, so there is nothing to wait for */
	if (t)
		dm_task_destroy(t);
	if (!ok)
		return failed(err, "create", name);
	t = task(DM_DEVICE_RELOAD, name);
	ok = t && dm_task_add_target(t, 0, sectors, "ddraid", params) && dm_task_run(t);
	if (!ok)
		failed(err, "loading the table", name);
	if (t)
		dm_task_destroy(t);
	if (!ok)
		cli_dm_remove(name, &ignored);
	return ok ? 0 : -1;
}

/*
 * Makes sure that a device has its node which somebody else resumed. The daemon resumes it when it exchanges a member, also of an array that is being
 * started: its event has no cookie that could be waited for, and without udev it makes no node.
 */
static int await_node(const char *name, struct ddr_error *err)
{
	char path[PATH_MAX];

	if (!ddr_dm_has_udev()) {
		ddr_dm_forget();
		if (!dm_mknodes(name))
			return failed(err, "making the node", name);
		dm_task_update_nodes();
		return 0;
	}
	snprintf(path, sizeof(path), "%s/%s", dm_dir(), name);
	for (unsigned int i = 0; access(path, F_OK); i++) {
		if (i == NODE_TRIES)
			return ddr_error_set(err, "udev has not made %s within %u s; see systemctl status systemd-udevd", path, NODE_TRIES * NODE_PAUSE_US / 1000000);
		if (i == LOCK_SAY_TRIES)
			cli_warn("start", "waiting until udev has made %s. If that takes long, see systemctl status systemd-udevd", path);
		usleep(NODE_PAUSE_US);
	}
	return 0;
}

int cli_dm_show(const char *name, const char *uuid, struct ddr_error *err)
{
	struct cli_dm_info info;
	int fd = cli_dm_lock(), rc = cli_dm_find(name, &info, err);

	if (!rc && strcmp(info.uuid, uuid) != 0)
		rc = ddr_error_set(err, "its device was removed or renamed meanwhile; start it again");
	else if (!rc)
		rc = info.live ? await_node(name, err) : cli_dm_resume(name, err);
	cli_dm_unlock(fd);
	return rc;
}

int cli_dm_resume(const char *name, struct ddr_error *err)
{
	struct dm_task *t = task(DM_DEVICE_RESUME, name);

	if (!ddr_dm_run_synced(t, t != NULL))
		return failed(err, "resume", name);
	dm_task_update_nodes();
	return 0;
}

int cli_dm_fail(const char *name, uint64_t sectors, struct ddr_error *err)
{
	struct dm_task *t = task(DM_DEVICE_RELOAD, name);
	bool ok = t && dm_task_add_target(t, 0, sectors, "error", "") && dm_task_run(t);

	if (t)
		dm_task_destroy(t);
	if (ok) {
		t = task(DM_DEVICE_RESUME, name);
		ok = ddr_dm_run_synced(t, t && dm_task_no_flush(t) && dm_task_skip_lockfs(t));
	}
	return ok ? 0 : failed(err, "failing the I/O", name);
}

int cli_dm_remove(const char *name, struct ddr_error *err)
{
	struct dm_task *t = task(DM_DEVICE_REMOVE, name);
	bool ok = ddr_dm_run_synced(t, t && dm_task_retry_remove(t));

	if (!ok)
		return failed(err, "removal", name);
	dm_task_update_nodes();
	return 0;
}

int cli_dm_each(int (*fn)(const struct cli_dm_info *info, void *ctx), void *ctx, struct ddr_error *err)
{
	struct dm_task *t = dm_task_create(DM_DEVICE_LIST);
	struct dm_names *n;
	int worst = 0;

	ddr_dm_forget();
	if (!t || !dm_task_run(t) || !(n = dm_task_get_names(t))) {
		if (t)
			dm_task_destroy(t);
		return failed(err, "list", "all devices");
	}
	while (n->dev) {
		struct cli_dm_info info;

		if (cli_dm_find(n->name, &info, err) == 0 && info.uuid[0]) {
			int ret = fn(&info, ctx);

			worst = ret > worst ? ret : worst;
		}
		if (!n->next)
			break;
		n = (struct dm_names *)((char *)n + n->next);
	}
	dm_task_destroy(t);
	return worst;
}
