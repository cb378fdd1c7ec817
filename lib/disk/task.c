// SPDX-License-Identifier: LGPL-2.1-or-later
/* The state of a thread or process, from /proc; see task.h. */
#include <inttypes.h>
#include <stdio.h>

#include "lib/disk/task.h"

bool ddr_task_read(struct ddr_task *t, const char *status)
{
	uint64_t voluntary = 0, other = 0;
	char line[128];
	FILE *f = fopen(status, "re");

	*t = (struct ddr_task){ .state = 'R' };
	if (!f)
		return false;
	while (fgets(line, sizeof(line), f)) {
		sscanf(line, "State: %c", &t->state);
		sscanf(line, "voluntary_ctxt_switches: %" SCNu64, &voluntary);
		sscanf(line, "nonvoluntary_ctxt_switches: %" SCNu64, &other);
	}
	fclose(f);
	t->switches = voluntary + other;
	return true;
}
