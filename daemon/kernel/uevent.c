// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Events of block devices, directly from the kernel: udev need not run. See uevent.h.
 *
 * Must never: conclude more from an event than that something has changed. The sender is checked; the contents need not be trusted.
 */
#include <errno.h>
#include <linux/netlink.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <qb/qblog.h>

#include "daemon/kernel/uevent.h"

#define KERNEL_GROUP	1u

/* Does the event, a header followed by "KEY=VALUE" strings, contain this string? */
static bool has(const char *text, size_t len, const char *what)
{
	for (const char *p = text; p < text + len; p += strlen(p) + 1)
		if (strcmp(p, what) == 0)
			return true;
	return false;
}

/* The number of "KEY=NUMBER"; -1: there is none that a device could have. */
static int64_t number(const char *text, size_t len, const char *key)
{
	size_t n = strlen(key);
	char *end;

	for (const char *p = text; p < text + len; p += strlen(p) + 1)
		if (strncmp(p, key, n) == 0 && p[n] == '=') {
			uint64_t value = strtoull(p + n + 1, &end, 10);

			return p[n + 1] >= '0' && p[n + 1] <= '9' && !*end && value <= UINT32_MAX ? (int64_t)value : -1;
		}
	return -1;
}

static void one_changed(struct ddr_daemon *d, const char *text, size_t len)
{
	int64_t major = number(text, len, "MAJOR"), minor = number(text, len, "MINOR");
	struct ddr_uevent e = { .device = major >= 0 && minor >= 0 };

	if (e.device) {
		e.major = (uint32_t)major;
		e.minor = (uint32_t)minor;
		e.path_back = has(text, len, "DM_ACTION=PATH_REINSTATED");
	}
	d->on_uevent(d, &e);
}

/* Events were lost, or one was cut off: it is unknown which devices they were about. */
static void events_lost(struct ddr_daemon *d)
{
	d->on_uevent(d, &(struct ddr_uevent){ .lost = true });
}

static int32_t on_event(int32_t fd, int32_t revents, void *data)
{
	struct sockaddr_nl from;
	char text[8192];
	struct iovec iov = { text, sizeof(text) - 1 };
	struct msghdr msg = { .msg_name = &from, .msg_namelen = sizeof(from), .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n = recvmsg(fd, &msg, MSG_DONTWAIT);

	(void)revents;
	if (n < 0 && errno == ENOBUFS)
		events_lost(data);
	if (n <= 0 || from.nl_pid != 0)
		return 0;		/* only events from the kernel are accepted */
	if (msg.msg_flags & MSG_TRUNC)
		events_lost(data);
	text[n] = '\0';
	if (has(text, (size_t)n, "SUBSYSTEM=block") && (has(text, (size_t)n, "ACTION=add") || has(text, (size_t)n, "ACTION=change")))
		one_changed(data, text, (size_t)n);
	return 0;
}

void ddr_uevent_open(struct ddr_daemon *d, ddr_uevent_fn on_uevent)
{
	struct sockaddr_nl own = { .nl_family = AF_NETLINK, .nl_groups = KERNEL_GROUP };

	d->on_uevent = on_uevent;
	d->uevent_fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);
	if (d->uevent_fd >= 0 && (bind(d->uevent_fd, (struct sockaddr *)&own, sizeof(own)) ||
				  qb_loop_poll_add(d->loop, QB_LOOP_LOW, d->uevent_fd, POLLIN, d, on_event))) {
		close(d->uevent_fd);
		d->uevent_fd = -1;
	}
	if (d->uevent_fd < 0)
		qb_perror(LOG_WARNING, "new disks are not noticed automatically");
}

void ddr_uevent_close(struct ddr_daemon *d)
{
	if (d->uevent_fd < 0)
		return;
	qb_loop_poll_del(d->loop, d->uevent_fd);
	close(d->uevent_fd);
	d->uevent_fd = -1;
}
