/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Events: reported to people (the log) and to programs (`ddraid events`), once each. They allocate memory, so no grant may depend on them. */
#ifndef DDR_DAEMON_EVENTS_H
#define DDR_DAEMON_EVENTS_H

#include "daemon/array/array.h"

/* An event or a GIVE_UP output of the state machine: logs it, sends it, and keeps what status and waiting clients need. */
void ddr_event_array(struct ddr_array *a, const struct ddr_output *o);
/* An event of the array outside of its state machine; @name: one word, @text: one line. */
void ddr_event_plain(struct ddr_array *a, int priority, const char *name, const char *text);

#endif
