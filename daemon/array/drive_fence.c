// SPDX-License-Identifier: GPL-2.0-or-later
/* What a fence agent is told. */
#include <stdio.h>

#include "daemon/array/drive.h"
#include "daemon/group/transport.h"

const char *ddr_drive_fence_name(struct ddr_array *a, uint32_t node, char name[DDR_NODE_NAME_LEN], char *why, size_t size)
{
	uint32_t bearer;

	if (!a->d->transport->known_name(a->d, node, name, DDR_NODE_NAME_LEN))
		return ddr_conf_wants_name(&a->d->conf) ?
		       "fence_command has %N, and the node's name is not known: corosync.conf does not have it" : NULL;
	bearer = a->d->transport->bearer(a->d, name, node);
	if (!bearer)
		return NULL;
	snprintf(why, size, "node %u, which runs, has this name, so no agent is called with it", bearer);
	return why;
}
