// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Who may serve an array: the cluster that its superblocks name, or any single node. See array.h.
 *
 * A node without a cluster, or in a cluster of one node, does not serve an array of a cluster, nor one with a slot that another node
 * owns, unless the operator has just adopted it. No cluster serves an array that another one has used last. The state machine enforces
 * the same (lib/cluster/sm_mark.c); this file gives the message that says what to do.
 *
 * Must never: keep an adoption for a later start than the one that it was given for.
 */
#include <stdio.h>
#include <string.h>

#include "daemon/array/array.h"
#include "lib/disk/assemble.h"
#include "lib/math/uuid.h"

#define ADOPT_MS	120000u	/* time from the request until the load of the array must begin; how long that takes (daemon/disk/claim.h) does not matter */

bool ddr_identity_alone(const struct ddr_daemon *d)
{
	return d->transport->nodes(d) == 1;
}

/* Does what the operator saw on the disks name another cluster? Whether that is still so, the state machine judges. */
static bool is_elsewhere(const struct ddr_daemon *d, const uint8_t recorded[16])
{
	uint8_t own[16];

	d->transport->cluster_id(d, own);
	return !ddr_uuid_is_zero(recorded) && memcmp(recorded, own, sizeof(own)) != 0;
}

const char *ddr_identity_adopt(struct ddr_daemon *d, const uint8_t uuid[16], const uint8_t recorded[16], char *buf, size_t size)
{
	const char *waits = d->transport->waits(d);
	struct ddr_adoption *place = NULL;
	uint32_t nodes = waits ? 0 : d->transport->nodes(d);
	uint64_t now = ddr_now_ms();

	if (waits)
		return waits;
	if (nodes != 1 && !is_elsewhere(d, recorded)) {
		char count[16] = "several";

		if (nodes)
			snprintf(count, sizeof(count), "%u", nodes);
		snprintf(buf, size, "this node belongs to a cluster of %s nodes: start the array without --adopt. Missing nodes of the cluster get "
			 "fenced; where that is impossible, power them off and type ddraid fence-ack", count);
		return buf;
	}
	for (unsigned int i = 0; i < DDR_ADOPTIONS; i++)
		if (memcmp(d->adopt[i].uuid, uuid, sizeof(d->adopt[i].uuid)) == 0)
			place = &d->adopt[i];
	for (unsigned int i = 0; !place && i < DDR_ADOPTIONS; i++)
		if (now >= d->adopt[i].until_ms)
			place = &d->adopt[i];
	if (!place)
		return "too many arrays are being adopted at once; try again in two minutes";
	memcpy(place->uuid, uuid, sizeof(place->uuid));
	place->until_ms = now + ADOPT_MS;
	place->alone = nodes == 1;
	return NULL;
}

bool ddr_identity_adopted(struct ddr_array *a)
{
	struct ddr_adoption *all = a->d->adopt;

	memset(&a->adopted, 0, sizeof(a->adopted));
	for (unsigned int i = 0; i < DDR_ADOPTIONS; i++) {
		if (memcmp(all[i].uuid, a->uuid, sizeof(a->uuid)) != 0 || ddr_now_ms() >= all[i].until_ms)
			continue;
		a->adopted = all[i];
		memset(&all[i], 0, sizeof(all[i]));
	}
	return ddr_identity_adopts(a);
}

bool ddr_identity_adopts(const struct ddr_array *a)
{
	return a->adopted.until_ms && a->adopted.alone == ddr_identity_alone(a->d);
}

void ddr_identity_not_started(struct ddr_array *a)
{
	struct ddr_adoption *all = a->d->adopt, *place = NULL;

	for (unsigned int i = 0; i < DDR_ADOPTIONS; i++) {
		bool same = memcmp(all[i].uuid, a->uuid, sizeof(a->uuid)) == 0;

		if (same && ddr_now_ms() < all[i].until_ms)
			return;		/* the operator has adopted it again meanwhile */
		if (same || (!place && ddr_now_ms() >= all[i].until_ms))
			place = &all[i];
	}
	if (a->adopted.until_ms && place)
		*place = a->adopted;
	memset(&a->adopted, 0, sizeof(a->adopted));
}

void ddr_identity_claim(struct ddr_array *a, struct ddr_claim *claim)
{
	const struct ddr_transport_ops *transport = a->d->transport;
	char name[DDR_NODE_NAME_LEN];

	memset(claim, 0, sizeof(*claim));
	claim->adopted = ddr_identity_adopted(a);
	claim->alone = ddr_identity_alone(a->d);
	claim->node = transport->node(a->d);
	memcpy(claim->machine, a->d->ident.id.machine, sizeof(claim->machine));
	memcpy(claim->instance.boot_id, a->d->boot_id, sizeof(claim->instance.boot_id));
	claim->instance.cookie = a->bind.cookie;
	claim->stop_ms = (uint32_t)a->tune.daemon_timeout_ms;
	transport->known_name(a->d, claim->node, name, sizeof(name));
	ddr_owner_name(claim->name, name);
}

int ddr_identity_elsewhere(struct ddr_array *a, const struct ddr_super *sb, const uint8_t recorded[16])
{
	struct ddr_error err;
	uint8_t own[16];

	a->d->transport->cluster_id(a->d, own);
	if (!ddr_assemble_elsewhere(sb, recorded, own, a->d->transport->cluster, &err))
		return 0;
	snprintf(a->error, sizeof(a->error), "%s", err.text);
	return -1;
}

/* Is the kernel's array the owner of a slot? Then it has been served here all the time, whatever has become of the id. */
static bool has_slot(const struct ddr_array *a, const struct ddr_owners *owners)
{
	for (uint32_t i = 0; i < DDR_MAX_SLOTS; i++) {
		const struct ddr_owner *o = &owners->slot[i];

		if (o->state == DDR_SLOT_OWNED && o->instance.cookie == a->bind.cookie && memcmp(o->instance.boot_id, a->d->boot_id, sizeof(a->d->boot_id)) == 0)
			return true;
	}
	return false;
}

int ddr_identity_check(struct ddr_array *a, const struct ddr_super *sb, const struct ddr_owners *owners)
{
	struct ddr_error err;

	/* in a cluster these superblocks may be old: the group reads them again, and ddr_identity_elsewhere() says why it refuses */
	if (!a->d->transport->cluster && !has_slot(a, owners) && ddr_identity_elsewhere(a, sb, owners->cluster))
		return -1;
	if (!ddr_identity_alone(a->d))
		return 0;
	/* with corosync, owners of slots are waited for, and fenced */
	if (a->d->transport->cluster ? ddr_assemble_unclustered(sb, &err) : ddr_assemble_alone(sb, a->d->transport->node(a->d), &err)) {
		snprintf(a->error, sizeof(a->error), "%s", err.text);
		return -1;
	}
	return 0;
}
