// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The scan of this machine's disks, for commands, in a process of its own. A process whose thread hangs in a disk is not gone when it
 * ends: whoever started it would wait for the disk. So that process is left behind, and the command ends when its work is done.
 * Must never: keep anything of the command's open in the process that may be left.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "lib/scan.h"

#define FDS_MAX	4096

/* What comes through the pipe first; then the devices, then those that hang. */
struct head {
	int rc;
	size_t n, n_hung;
	struct ddr_error error;
};

/* All of it, written or read. */
static bool move_all(int fd, void *data, size_t len, bool out)
{
	char *p = data;

	while (len) {
		ssize_t n = out ? write(fd, p, len) : read(fd, p, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

static bool put_all(int fd, void *data, size_t len)
{
	return move_all(fd, data, len, true);
}

static bool get_all(int fd, void *data, size_t len)
{
	return move_all(fd, data, len, false);
}

static void child(int fd)
{
	const struct ddr_scan_how how = { .limit_ms = DDR_SCAN_LIMIT_MS };
	long fds = sysconf(_SC_OPEN_MAX);
	struct ddr_scan scan = { 0 };
	struct head head = { 0 };

	for (int i = 0; i < (fds > 0 && fds < FDS_MAX ? fds : FDS_MAX); i++)
		if (i != fd)
			close(i);
	head.rc = ddr_scan_devices(&scan, &how, &head.error);
	head.n = scan.n;
	head.n_hung = scan.n_hung;
	_exit(!(put_all(fd, &head, sizeof(head)) && put_all(fd, scan.dev, scan.n * sizeof(*scan.dev)) &&
		put_all(fd, scan.hung, scan.n_hung * sizeof(*scan.hung))));
}

static int take(int fd, struct ddr_scan *scan, struct ddr_error *err)
{
	struct head head;

	if (!get_all(fd, &head, sizeof(head)))
		return ddr_error_set(err, "the process that looks at the disks has ended early");
	if (head.rc)
		return ddr_error_set(err, "%s", head.error.text);
	scan->n = head.n;
	scan->n_hung = head.n_hung;
	scan->dev = calloc(head.n + 1, sizeof(*scan->dev));
	scan->hung = calloc(head.n_hung + 1, sizeof(*scan->hung));
	if (!scan->dev || !scan->hung)
		return ddr_error_set(err, "out of memory");
	if (!get_all(fd, scan->dev, head.n * sizeof(*scan->dev)) || !get_all(fd, scan->hung, head.n_hung * sizeof(*scan->hung)))
		return ddr_error_set(err, "the process that looks at the disks has ended early");
	return 0;
}

int cli_scan(const char *what, struct ddr_scan *scan, struct ddr_error *err)
{
	int fds[2], rc;
	pid_t pid;

	*scan = (struct ddr_scan){ 0 };
	if (pipe(fds))
		return ddr_error_set(err, "no pipe for the scan of the disks: %s", strerror(errno));
	pid = fork();
	if (pid == 0)
		child(fds[1]);
	close(fds[1]);
	rc = pid < 0 ? ddr_error_set(err, "no process for the scan of the disks: %s", strerror(errno)) : take(fds[0], scan, err);
	close(fds[0]);
	for (size_t i = 0; !rc && i < scan->n_hung; i++)
		cli_warn(what, "%s has not answered for %u seconds: it counts as not there", scan->hung[i].path, DDR_SCAN_LIMIT_MS / 1000);
	if (pid > 0 && !rc && !scan->n_hung)
		waitpid(pid, NULL, 0);
	if (rc)
		ddr_scan_free(scan);
	return rc;
}
