// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What a fence agent is told: the name of the node, and with storage fencing the disks to cut it off from. The agent's success is proof for those disks
 * alone, so it gets every member that the node may write to, of this array, and of the others that the node has (rule F7).
 *
 * Must never: let a name through that another machine has, or leave a member out without saying so.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/array/drive.h"
#include "daemon/group/fence.h"
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

/* ---- storage fencing ---------------------------------------------------------------- */

/*
 * Appends the devices of all members that a node may write to, each after a comma. The member that has none here is returned, or DDR_MAX_MEMBERS: then
 * this machine cannot cut a node off from the array.
 */
static unsigned int list_devices(const struct ddr_array *a, char *list, size_t size)
{
	const struct ddr_super *sb = ddr_sm_super(a->sm);
	size_t n = strlen(list);

	for (unsigned int m = 0; m < sb->members; m++) {
		if (sb->member[m].state != DDR_MEMBER_IN_SYNC && sb->member[m].state != DDR_MEMBER_REBUILDING)
			continue;
		if (ddr_members_fd(a->members, m) < 0 || strchr(a->members->name[m], ','))
			return m;
		n += (size_t)snprintf(list + n, size - n, ",%s", a->members->name[m]);
		if (n >= size)
			return m;
	}
	return DDR_MAX_MEMBERS;
}

/* The agent may as well cover the other arrays that the node has: they ask, too. What does not fit they ask for themselves. */
static void list_more(const struct ddr_array *a, uint32_t node, char *list, size_t size)
{
	struct ddr_array *other;

	qb_list_for_each_entry(other, &a->d->arrays, list) {
		size_t n = strlen(list);

		if (other != a && other->sm && ddr_sm_has_slot(other->sm, node) && list_devices(other, list, size) != DDR_MAX_MEMBERS)
			list[n] = '\0';
	}
}

const char *ddr_drive_cut_off(struct ddr_array *a, struct ddr_fence_whom *whom, struct ddr_fence_disks *disks, char *why, size_t size)
{
	unsigned int m;

	if (a->d->conf.fence_method != DDR_FENCE_BY_STORAGE)
		return NULL;
	memset(disks, 0, sizeof(*disks));
	m = list_devices(a, disks->own, sizeof(disks->own));
	if (m != DDR_MAX_MEMBERS) {
		snprintf(why, size, "this machine has not opened the disk of member %u, so it cannot cut the node off from it", m);
		return why;
	}
	list_more(a, whom->node, disks->more, sizeof(disks->more));
	whom->devices = disks->own + 1;
	whom->more = disks->more;
	return NULL;
}
