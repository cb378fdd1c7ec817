// SPDX-License-Identifier: LGPL-2.1-or-later
/* libdevmapper; see dm.h. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libdevmapper.h>

#include "lib/dm.h"

static char last_message[256];	/* the last message of libdevmapper */

static void on_log(int level, const char *file, int line, int error, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

static void on_log(int level, const char *file, int line, int error, const char *format, ...)
{
	va_list ap;

	(void)file;
	(void)line;
	(void)error;
	if ((level & 7) > 4)	/* _LOG_WARN */
		return;
	va_start(ap, format);
	vsnprintf(last_message, sizeof(last_message), format, ap);
	va_end(ap);
}

bool ddr_dm_has_udev(void)
{
	return !getenv("DM_DISABLE_UDEV");
}

void ddr_dm_init(void)
{
	dm_log_with_errno_init(on_log);
	/* without a running udev nobody would create the node, or complete the cookie */
	if (access("/run/udev/control", F_OK))
		setenv("DM_DISABLE_UDEV", "1", 1);
}

void ddr_dm_forget(void)
{
	last_message[0] = '\0';
}

const char *ddr_dm_said(void)
{
	return last_message[0] ? last_message : strerror(errno);
}

bool ddr_dm_run_synced(struct dm_task *t, bool ok)
{
	uint32_t cookie = 0;

	ok = ok && dm_task_set_cookie(t, &cookie, 0) && dm_task_run(t);
	if (t)
		dm_task_destroy(t);
	dm_udev_wait(cookie);
	return ok;
}
