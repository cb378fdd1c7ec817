// SPDX-License-Identifier: GPL-2.0-or-later
/* The twin of what a daemon does while /dev/ddraid is not there: modprobe, and a watch on /dev. call.c has the device itself. */
#include <spawn.h>
#include <sys/inotify.h>
#include <sys/wait.h>

#include "twin.h"

int __wrap_posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr, char *const argv[], char *const env[]);
pid_t __wrap_waitpid(pid_t pid, int *status, int options);
int __wrap_inotify_init1(int flags);
int __wrap_inotify_add_watch(int fd, const char *path, uint32_t mask);

int __wrap_posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr, char *const argv[], char *const env[])
{
	(void)file;
	(void)actions;
	(void)attr;
	(void)argv;
	(void)env;
	*pid = 1;
	return 0;
}

pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
	(void)options;
	*status = me->n->no_module ? 256 : 0;	/* it loads the module, or does not */
	return pid;
}

int __wrap_inotify_init1(int flags)
{
	int fd;

	(void)flags;
	if (twin_fails(CALL_INOTIFY))
		return -1;
	fd = twin_open(FILE_QUIET);
	twin_file(fd)->count = 1;	/* something changes in /dev all the time */
	return fd;
}

int __wrap_inotify_add_watch(int fd, const char *path, uint32_t mask)
{
	(void)fd;
	(void)path;
	(void)mask;
	return 1;
}
