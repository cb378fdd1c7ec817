/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Events: reported to people (the log) and to programs (`ddraid events`), once each. They allocate memory, so no grant may depend on them. */
#ifndef DDR_DAEMON_EVENTS_H
#define DDR_DAEMON_EVENTS_H

#include <stdio.h>
#include <string.h>

#include "daemon/array/array.h"

/* A text that ends with "ddraid fence-ack" lacks the node's id, which follows: " 3" in @buf; or "" if it does not end so. */
static inline const char *ddr_fence_ack_id(const char *text, uint32_t id, char *buf, size_t size)
{
	static const char command[] = "ddraid fence-ack";
	const size_t n = strlen(text), tail = sizeof(command) - 1;

	buf[0] = '\0';
	if (id && n >= tail && strcmp(text + n - tail, command) == 0)
		snprintf(buf, size, " %u", id);
	return buf;
}

/* An event or a GIVE_UP output of the state machine: logs it, sends it, and keeps what status and waiting clients need. */
void ddr_event_array(struct ddr_array *a, const struct ddr_output *o);
/* An event of the array outside of its state machine; @name: one word, @text: one line. */
void ddr_event_plain(struct ddr_array *a, int priority, const char *name, const char *text);

#endif
