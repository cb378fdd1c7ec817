// SPDX-License-Identifier: GPL-2.0-or-later
/* Arrays that start automatically; see auto.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/auto.h"
#include "cli/cli.h"
#include "cli/client.h"

#define RUN_DIR		RUNSTATEDIR "/ddraid"
#define HELD_DIR	RUN_DIR "/held"
#define UNIT		"ddraid-start@%s.service"

extern char **environ;

static void held_path(const char *uuid, char *buf, size_t size)
{
	snprintf(buf, size, HELD_DIR "/%s", uuid);
}

/* If the file cannot be created, the array is started at the next event of one of its disks; nothing worse happens. */
void cli_auto_hold(const char *uuid)
{
	char path[PATH_MAX];
	int fd;

	held_path(uuid, path, sizeof(path));
	mkdir(RUN_DIR, 0755);
	mkdir(HELD_DIR, 0755);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd >= 0)
		close(fd);
}

void cli_auto_release(const char *uuid)
{
	DIR *dir = uuid ? NULL : opendir(HELD_DIR);
	char path[PATH_MAX];
	struct dirent *e;

	if (uuid) {
		held_path(uuid, path, sizeof(path));
		unlink(path);
	}
	while (dir && (e = readdir(dir)))
		if (e->d_name[0] != '.')
			unlinkat(dirfd(dir), e->d_name, 0);
	if (dir)
		closedir(dir);
}

bool cli_auto_held(const char *uuid)
{
	char path[PATH_MAX];

	held_path(uuid, path, sizeof(path));
	return access(path, F_OK) == 0;
}

int cli_auto_units(const struct ddr_scan_name list[], size_t n)
{
	char **argv = calloc(n + 4, sizeof(*argv)), uuid[37];
	size_t args = 0;
	int status = 0, rc;
	pid_t pid;

	if (!argv || n == 0) {
		free(argv);
		return argv ? CLI_DONE : cli_fail("start", "out of memory");
	}
	argv[args++] = (char[]){ "systemctl" };
	argv[args++] = (char[]){ "--no-block" };
	argv[args++] = (char[]){ "start" };
	for (size_t i = 0; i < n; i++) {
		cli_format_uuid(list[i].uuid, uuid);
		if (asprintf(&argv[args], UNIT, uuid) > 0)
			args++;
	}
	argv[args] = NULL;
	rc = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);
	while (rc == 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	for (size_t i = 3; i < args; i++)
		free(argv[i]);
	free(argv);
	if (rc)
		return cli_fail("start", "cannot run systemctl: %s", strerror(rc));
	return status ? cli_fail("start", "systemctl could not start the units of the arrays; see its message above") : CLI_DONE;
}

static void report(struct ddr_ipc *ipc, const char *uuid, const char *name, const char *why, bool waits)
{
	struct json_object *request = client_request("unstarted", *name ? name : uuid), *data;
	char ignored[256];

	json_object_object_add(request, "uuid", json_object_new_string(uuid));
	json_object_object_add(request, "why", json_object_new_string(why));
	json_object_object_add(request, "waits", json_object_new_boolean(waits));
	if (!ipc)
		json_object_put(request);
	else if (client_try(ipc, request, &data, CLIENT_TIMEOUT_MS, ignored, sizeof(ignored)))
		json_object_put(data);
}

void cli_auto_report(struct ddr_ipc *ipc, const char *uuid, const char *name, const char *why)
{
	report(ipc, uuid, name, why, false);
}

void cli_auto_report_waits(struct ddr_ipc *ipc, const char *uuid, const char *name, const char *why)
{
	report(ipc, uuid, name, why, true);
}
