// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Scans this machine's disks for a command, in a process of its own. A process with a thread that hangs in a disk does not disappear
 * when it ends: its parent would wait for the disk. So that process is left behind, and the command can end when its work is done. It
 * scans as often as requested, and remembers the disks that have not answered yet: no scan waits for one of them twice. Must never:
 * keep open files of the command in the process that may be left behind.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "lib/disk/scan.h"

#define FDS_MAX	4096

/* A request to the process. */
struct question {
	unsigned int wait_ms;		/* as in struct ddr_scan_how */
	char which[DDR_NAME_LEN];	/* an array: once it is complete, disks that hang are not waited for; "": any disks will do */
	bool first;			/* the disks of @array by udev's database at first (ddr_scan_by_udev()) */
	char array[DDR_NAME_LEN];	/* a name or uuid; "": any array */
};

/* The first part of its answer; the devices follow, then those that have not answered. */
struct head {
	int rc;
	bool enough;			/* nothing is missing of the array in the request */
	size_t n, n_hung;
	struct ddr_error error;
};

/* Writes or reads all of it. */
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

/* Have all members of the array answered? Without an array in the request, always true. */
static bool is_complete(void *which, const struct ddr_scan *scan)
{
	static struct ddr_scan_array array;
	struct ddr_error err;

	return !*(const char *)which || (ddr_scan_assemble(scan, which, NULL, &array, &err) == 0 && !ddr_assembly_absent(&array.assembly));
}

static bool answer(int fd, struct question *q)
{
	const struct ddr_scan_how how = { .limit_ms = DDR_SCAN_LIMIT_MS, .wait_ms = q->wait_ms, .enough = is_complete,
					  .ctx = q->which, .listed = getenv("DDRAID_DEVICES") };
	struct ddr_scan scan = { 0 };
	struct head head = { 0 };
	bool ok;

	head.rc = q->first ? ddr_scan_by_udev(&scan, &how, *q->array ? q->array : NULL, &head.error) :
		  ddr_scan_devices(&scan, &how, &head.error);
	head.n = scan.n;
	head.n_hung = scan.n_hung;
	head.enough = !head.rc && !scan.cut && is_complete(q->which, &scan);
	ok = put_all(fd, &head, sizeof(head)) && put_all(fd, scan.dev, scan.n * sizeof(*scan.dev)) &&
	     put_all(fd, scan.hung, scan.n_hung * sizeof(*scan.hung));
	if (!head.rc)
		ddr_scan_free(&scan);
	return ok;
}

/* Closes all descriptors but @fd. One by one only where a filter of system calls does not know close_range(2). */
static void close_others(int fd)
{
	long fds = sysconf(_SC_OPEN_MAX);

	if ((fd == 0 || syscall(SYS_close_range, 0, fd - 1, 0) == 0) && syscall(SYS_close_range, fd + 1, ~0U, 0) == 0)
		return;
	for (int i = 0; i < (fds > 0 && fds < FDS_MAX ? fds : FDS_MAX); i++)
		if (i != fd)
			close(i);
}

static void child(int fd)
{
	struct question q;

	close_others(fd);
	while (get_all(fd, &q, sizeof(q)) && answer(fd, &q))
		;
	_exit(0);
}

static int take(int fd, struct ddr_scan *scan, bool *enough, struct ddr_error *err)
{
	struct head head;

	if (!get_all(fd, &head, sizeof(head)))
		return ddr_error_set(err, "the process that scans the disks ended unexpectedly");
	if (head.rc)
		return ddr_error_set(err, "%s", head.error.text);
	*enough = head.enough;
	scan->n = head.n;
	scan->n_hung = head.n_hung;
	scan->dev = calloc(head.n + 1, sizeof(*scan->dev));
	scan->hung = calloc(head.n_hung + 1, sizeof(*scan->hung));
	if (!scan->dev || !scan->hung)
		return ddr_error_set(err, "out of memory");
	if (!get_all(fd, scan->dev, head.n * sizeof(*scan->dev)) || !get_all(fd, scan->hung, head.n_hung * sizeof(*scan->hung)))
		return ddr_error_set(err, "the process that scans the disks ended unexpectedly");
	return 0;
}

int cli_scanner_open(struct cli_scanner *s, struct ddr_error *err)
{
	int fds[2];

	*s = (struct cli_scanner){ .fd = -1 };
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		return ddr_error_set(err, "cannot connect to a process that scans the disks: %s", strerror(errno));
	s->pid = fork();
	if (s->pid == 0)
		child(fds[1]);
	close(fds[1]);
	s->fd = fds[0];
	if (s->pid > 0)
		return 0;
	ddr_error_set(err, "cannot create a process that scans the disks: %s", strerror(errno));
	cli_scanner_close(s);
	return -1;
}

void cli_scanner_close(struct cli_scanner *s)
{
	if (s->fd >= 0)
		close(s->fd);
	if (s->pid > 0 && !s->hung)
		waitpid(s->pid, NULL, 0);
	*s = (struct cli_scanner){ .fd = -1 };
}

/* Warns once about each disk that counts as missing. */
static void tell_hung(const char *what, const struct ddr_scan *scan)
{
	for (size_t i = 0; i < scan->n_hung; i++)
		if (!scan->hung[i].pending && !scan->hung[i].known)
			cli_warn(what, "%s has not answered for %u seconds; it counts as missing", scan->hung[i].path, DDR_SCAN_LIMIT_MS / 1000);
}

bool cli_scan_pending(const struct ddr_scan *scan)
{
	for (size_t i = 0; i < scan->n_hung; i++)
		if (scan->hung[i].pending)
			return true;
	return false;
}

static int scan_once(struct cli_scanner *s, const char *what, struct question *q, struct ddr_scan *scan, bool *enough, struct ddr_error *err)
{
	int rc;

	*scan = (struct ddr_scan){ 0 };
	rc = put_all(s->fd, q, sizeof(*q)) ? take(s->fd, scan, enough, err) :
	     ddr_error_set(err, "the process that scans the disks ended unexpectedly");
	if (rc) {
		ddr_scan_free(scan);
		return rc;
	}
	s->hung = scan->n_hung > 0;
	tell_hung(what, scan);
	return 0;
}

int cli_scanner_scan(struct cli_scanner *s, const char *what, struct ddr_scan *scan, struct ddr_error *err)
{
	struct question q = { 0 };
	bool enough;

	return scan_once(s, what, &q, scan, &enough, err);
}

int cli_scanner_scan_first(struct cli_scanner *s, const char *what, const char *array, struct ddr_scan *scan, struct ddr_error *err)
{
	struct question q = { .first = true };
	bool enough;

	snprintf(q.array, sizeof(q.array), "%s", array ? array : "");
	return scan_once(s, what, &q, scan, &enough, err);
}

static int scan_for(const char *what, const char *which, bool first, struct ddr_scan *scan, struct ddr_error *err)
{
	struct question q = { .wait_ms = CLI_SCAN_SAY_MS, .first = first };
	struct cli_scanner s;
	bool enough;
	int rc;

	snprintf(q.which, sizeof(q.which), "%s", which);
	snprintf(q.array, sizeof(q.array), "%s", which);
	if (cli_scanner_open(&s, err))
		return -1;
	rc = scan_once(&s, what, &q, scan, &enough, err);
	if (!rc && !enough && cli_scan_pending(scan)) {
		for (size_t i = 0; i < scan->n_hung; i++)
			if (scan->hung[i].pending)
				cli_warn(what, "%s does not answer yet, and may be a member of '%s'; waiting for it, %u seconds at most",
					 scan->hung[i].path, which, DDR_SCAN_LIMIT_MS / 1000);
		ddr_scan_free(scan);
		q.wait_ms = 0;
		rc = scan_once(&s, what, &q, scan, &enough, err);
	}
	cli_scanner_close(&s);
	return rc;
}

int cli_scan(const char *what, const char *which, struct ddr_scan *scan, struct ddr_error *err)
{
	return scan_for(what, which, false, scan, err);
}

int cli_scan_first(const char *what, const char *which, struct ddr_scan *scan, struct ddr_error *err)
{
	return scan_for(what, which, true, scan, err);
}

void cli_tell_foreign(const char *what, const struct ddr_scan_array *array)
{
	const struct ddr_super *sb = &array->assembly.super;

	for (size_t i = 0; i < array->n; i++)
		if (array->assembly.verdict[i] == DDR_V_FOREIGN)
			cli_warn(what, "'%s': %s is not used: it also holds a %s, so another program has written to it. Once the array runs, "
				 "ddraid add --overwrite %s %s rebuilds it", sb->name, array->cand[i].device, array->cand[i].foreign, sb->name,
				 array->cand[i].device);
}
