/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Assembly of an array from superblocks; the rules stand in assemble.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <uuid/uuid.h>

#include "lib/disk/assemble.h"
#include "lib/disk/layout.h"
#include "lib/math/uuid.h"

static bool uuid_equal(const uint8_t a[DDR_UUID_LEN], const uint8_t b[DDR_UUID_LEN])
{
	return memcmp(a, b, DDR_UUID_LEN) == 0;
}

const char *ddr_verdict_name(enum ddr_verdict verdict)
{
	static const char *const name[] = {
		[DDR_V_CURRENT] = "current", [DDR_V_STALE] = "stale", [DDR_V_OUT] = "out of the array",
		[DDR_V_REMOVED] = "removed", [DDR_V_TOO_SMALL] = "too small", [DDR_V_UNREADABLE] = "unreadable",
		[DDR_V_FOREIGN] = "overwritten by another program",
	};

	return (unsigned int)verdict < sizeof(name) / sizeof(name[0]) ? name[verdict] : "unknown";
}

const char *ddr_member_state_name(uint8_t state)
{
	static const char *const name[] = {
		[DDR_MEMBER_NONE] = "none", [DDR_MEMBER_IN_SYNC] = "in-sync",
		[DDR_MEMBER_REBUILDING] = "rebuilding", [DDR_MEMBER_FAULTY] = "faulty",
		[DDR_MEMBER_MISSING] = "missing", [DDR_MEMBER_SPARE] = "spare",
	};

	return state < sizeof(name) / sizeof(name[0]) ? name[state] : "unknown";
}

/* -------------------------------------------------- do the histories agree? */

/* Entry of @sb's member table with this uuid, or -1. */
static int32_t find_member(const struct ddr_super *sb, const uint8_t uuid[DDR_UUID_LEN])
{
	for (uint32_t i = 0; i < sb->members; i++)
		if (uuid_equal(sb->member[i].uuid, uuid))
			return (int32_t)i;
	return -1;
}

static const uint8_t *own_uuid(const struct ddr_super *sb)
{
	return sb->member[sb->this_member].uuid;
}

/* What the newer superblock says about the time of the older one must agree with what the older one says. */
static int check_past(const struct ddr_candidate *new, const struct ddr_candidate *old, struct ddr_error *err)
{
	for (uint32_t i = 0; i < new->super->members; i++) {
		const struct ddr_member *now = &new->super->member[i];
		int32_t then = find_member(old->super, now->uuid);
		uint8_t state;

		if (now->since > old->super->generation)
			continue;	/* it took this state later */
		state = then < 0 ? DDR_MEMBER_NONE : old->super->member[then].state;
		if (state != now->state)
			return ddr_error_set(err, "%s and %s diverged (split brain): generation %" PRIu64 " on %s has member %u %s since "
					     "generation %" PRIu64 ", but generation %" PRIu64 " on %s had it %s. Decide which disks hold the "
					     "valid data, and wipe or disconnect the others",
					     new->device, old->device, new->super->generation, new->device, i,
					     ddr_member_state_name(now->state), now->since, old->super->generation,
					     old->device, ddr_member_state_name(state));
	}
	return 0;
}

static int check_history(const struct ddr_candidate *a, const struct ddr_candidate *b, struct ddr_error *err)
{
	const struct ddr_candidate *new = a->super->generation >= b->super->generation ? a : b;
	const struct ddr_candidate *old = new == a ? b : a;
	uint64_t gap = new->super->generation - old->super->generation;

	if (gap == 0 && !uuid_equal(new->super->gen_id, old->super->gen_id))
		return ddr_error_set(err, "%s and %s diverged (split brain): both are at generation %" PRIu64 ", but not the same one, because the "
				     "array was changed on each without the other. Decide which disks hold the valid data, and wipe or disconnect "
				     "the others", a->device, b->device,
				     a->super->generation);
	if (gap == 1 && !uuid_equal(new->super->gen_prev, old->super->gen_id))
		return ddr_error_set(err, "%s and %s diverged (split brain): generation %" PRIu64 " on %s does not follow generation %" PRIu64 " "
				     "on %s. Decide which disks hold the valid data, and wipe or disconnect the others", new->device, old->device,
				     new->super->generation,
				     new->device, old->super->generation, old->device);
	return check_past(new, old, err);
}

static int check_pair(const struct ddr_candidate *a, const struct ddr_candidate *b, struct ddr_error *err)
{
	const char *field;

	if (!uuid_equal(a->super->array_uuid, b->super->array_uuid))
		return ddr_error_set(err, "%s and %s belong to different arrays (%s and %s); give the devices of one array",
				     a->device, b->device, a->super->name, b->super->name);
	if (uuid_equal(own_uuid(a->super), own_uuid(b->super)))
		return ddr_error_set(err, "%s and %s are the same member, %u of array %s: one is a copy of the other, or both "
				     "are paths to one disk; remove the copy, or put the paths under multipath",
				     a->device, b->device, a->super->this_member, a->super->name);
	field = ddr_super_geometry_differs(a->super, b->super);
	if (!field && a->super->generation == b->super->generation && a->super->array_blocks != b->super->array_blocks)
		field = "array size";	/* it grows with a new generation */
	if (!field && a->super->generation == b->super->generation && a->super->incompat != b->super->incompat)
		field = "format";	/* it is raised with a new generation */
	if (field)
		return ddr_error_set(err, "%s and %s are members of array %s, but differ in %s; one of them was damaged or tampered with. Find out "
				     "which, and disconnect it", a->device, b->device,
				     a->super->name, field);
	return check_history(a, b, err);
}

/* -------------------------------------------------- which device serves as which member */

/* Of equal generations, the one with the higher sequence number: its error counts and cursors are more recent. */
static bool newer(const struct ddr_super *a, const struct ddr_super *b)
{
	return a->generation != b->generation ? a->generation > b->generation : a->seq > b->seq;
}

/*
 * The member was taken back, and nothing was rebuilt yet. The superblocks that record this are written before the
 * disk itself gets one. So an old superblock on the disk is accepted here if nothing on it is trusted (cursor 0, full
 * rebuild), or if the disk is proven to be unchanged since it left (partial rebuild).
 */
static bool needs_nothing(const struct ddr_super *disk, const struct ddr_super *newest, uint32_t member)
{
	const struct ddr_member *m = &newest->member[member];

	return m->cursor == 0 && (!(m->flags & DDR_MEMBER_F_PARTIAL) || ddr_super_is_last(newest, member, disk));
}

static enum ddr_verdict judge(const struct ddr_candidate *c, const struct ddr_super *newest, int32_t member)
{
	uint8_t state;

	if (member < 0)
		return DDR_V_REMOVED;
	state = newest->member[member].state;
	if (state == DDR_MEMBER_FAULTY || state == DDR_MEMBER_MISSING)
		return c->super->generation == newest->generation ? DDR_V_OUT : DDR_V_STALE;
	if (state == DDR_MEMBER_REBUILDING && needs_nothing(c->super, newest, (uint32_t)member))
		return c->bytes < ddr_layout_data_end(newest) ? DDR_V_TOO_SMALL : DDR_V_CURRENT;
	/*
	 * One generation behind and still in the table: the last superblock write did not reach it. A spare holds no
	 * data that could be old, and its superblock is not written again before it is taken.
	 */
	if (c->super->generation + 1 < newest->generation && !uuid_equal(newest->gen_prev, c->super->gen_id) &&
	    (state != DDR_MEMBER_SPARE || c->super->member[c->super->this_member].state != DDR_MEMBER_SPARE))
		return DDR_V_STALE;
	if (c->bytes < ddr_layout_data_end(newest))
		return DDR_V_TOO_SMALL;
	return DDR_V_CURRENT;
}

static void cast(const struct ddr_candidate *cand, size_t n, struct ddr_assembly *out)
{
	for (size_t i = 0; i < n; i++) {
		int32_t m;

		if (!cand[i].super) {
			out->verdict[i] = DDR_V_UNREADABLE;
			continue;
		}
		m = find_member(&out->super, own_uuid(cand[i].super));
		out->verdict[i] = judge(&cand[i], &out->super, m);
		/*
		 * its superblock still counts in the choice of the newest state, so that no older state is started
		 * because of it
		 */
		if (out->verdict[i] == DDR_V_CURRENT && cand[i].foreign && cand[i].foreign[0])
			out->verdict[i] = DDR_V_FOREIGN;
		if (out->verdict[i] == DDR_V_CURRENT)
			out->device[m] = (int32_t)i;
		else if (m >= 0)
			out->other[m] = (int32_t)i;
	}
	for (uint32_t m = 0; m < out->super.members; m++) {
		uint8_t state = out->super.member[m].state;

		if (out->device[m] >= 0)
			out->current |= 1u << m;
		else if (state == DDR_MEMBER_IN_SYNC || state == DDR_MEMBER_REBUILDING)
			out->missing |= 1u << m;
		if (out->device[m] >= 0 && state == DDR_MEMBER_IN_SYNC)
			out->usable |= 1u << m;
		if (out->other[m] >= 0 && out->verdict[out->other[m]] == DDR_V_STALE)
			out->stale |= 1u << m;
	}
}

/* The roles that the members in this set hold. */
static uint32_t roles_of(const struct ddr_super *sb, uint32_t members)
{
	uint32_t roles = 0;

	for (uint32_t m = 0; m < sb->members; m++)
		if (members >> m & 1 && sb->member[m].role < sb->roles)
			roles |= 1u << sb->member[m].role;
	return roles;
}

static unsigned int count_bits(uint32_t set)
{
	return (unsigned int)__builtin_popcount(set);
}

int32_t ddr_assembly_role(const struct ddr_assembly *a, uint32_t role)
{
	int32_t found = -1;

	for (uint32_t m = 0; m < a->super.members; m++) {
		if (a->super.member[m].role != role || a->device[m] < 0)
			continue;
		if (found < 0 || a->super.member[m].state == DDR_MEMBER_IN_SYNC)
			found = a->device[m];
	}
	return found;
}

/* -------------------------------------------------- messages */

/* "member 1 is stale (sdb), member 4 is missing": the members with a role that are not usable. */
static void list_absent(const struct ddr_candidate *cand, const struct ddr_assembly *a, char *buf, size_t size)
{
	size_t used = 0;

	buf[0] = '\0';
	for (uint32_t m = 0; m < a->super.members && used < size; m++) {
		const char *sep = used ? ", " : "";
		int n;

		if (a->super.member[m].role >= a->super.roles || a->usable >> m & 1)
			continue;
		if (a->device[m] >= 0)
			n = snprintf(buf + used, size - used, "%smember %u is %s (%s)", sep, m,
				     ddr_member_state_name(a->super.member[m].state), cand[a->device[m]].device);
		else if (a->other[m] >= 0 && a->verdict[a->other[m]] == DDR_V_FOREIGN)
			n = snprintf(buf + used, size - used, "%smember %u is left out (%s also holds a %s, so another program has written to it)",
				     sep, m, cand[a->other[m]].device, cand[a->other[m]].foreign);
		else if (a->other[m] >= 0)
			n = snprintf(buf + used, size - used, "%smember %u is %s (%s)", sep, m,
				     ddr_verdict_name(a->verdict[a->other[m]]), cand[a->other[m]].device);
		else
			n = snprintf(buf + used, size - used, "%smember %u is missing", sep, m);
		used += n > 0 ? (size_t)n : 0;
	}
}

static void write_note(const struct ddr_candidate *cand, struct ddr_assembly *out)
{
	char absent[512];

	if (!out->degraded)
		return;
	list_absent(cand, out, absent, sizeof(absent));
	if (out->doubtful)
		snprintf(out->note, sizeof(out->note), "array %s is degraded: %s; the missing members could have formed the array on their own and "
			 "may hold newer data. Make sure that they did not", out->super.name, absent);
	else
		snprintf(out->note, sizeof(out->note), "array %s is degraded: %s", out->super.name, absent);
}

/* -------------------------------------------------- the decision */

static int choose_newest(const struct ddr_candidate *cand, size_t n, struct ddr_assembly *out, struct ddr_error *err)
{
	const struct ddr_super *best = NULL;

	for (size_t i = 0; i < n; i++) {
		if (!cand[i].super || (best && !newer(cand[i].super, best)))
			continue;
		best = cand[i].super;
		out->source = (uint32_t)i;
	}
	if (!best && n > 0)
		return ddr_error_set(err, "none of the %zu devices has a valid superblock; the first one: %s", n,
				     cand[0].error ? cand[0].error : cand[0].device);
	if (!best)
		return ddr_error_set(err, "no device was given");
	out->super = *best;
	return 0;
}

static int check_known(const struct ddr_super *newest, const struct ddr_known *known, struct ddr_error *err)
{
	if (!known || known->generation == 0 || known->generation < newest->generation)
		return 0;
	if (known->generation > newest->generation)
		return ddr_error_set(err, "array %s was seen at generation %" PRIu64 " on this node, but the devices here are at generation "
				     "%" PRIu64 ": newer members are missing. Connect them. If they are lost for good, ddraid start %s --older "
				     "starts the array from the older ones, and shows first what is lost", newest->name,
				     known->generation, newest->generation, newest->name);
	if (!uuid_equal(known->gen_id, newest->gen_id))
		return ddr_error_set(err, "array %s was seen at another generation %" PRIu64 " on this node than the one on the devices here: the "
				     "array was changed elsewhere without them. Connect the members with the valid data. If they are lost for "
				     "good, ddraid start %s --older starts the array from these, and shows first what is lost", newest->name,
				     known->generation, newest->name);
	return 0;
}

/* Is the newest superblock of member @m lost, or could it be? Then nothing shows what that member did on its own. */
static bool silent(const struct ddr_assembly *a, uint32_t m)
{
	return a->other[m] < 0 || a->verdict[a->other[m]] == DDR_V_FOREIGN;
}

static bool any_foreign(const struct ddr_assembly *a)
{
	for (uint32_t m = 0; m < a->super.members; m++)
		if (a->other[m] >= 0 && a->verdict[a->other[m]] == DDR_V_FOREIGN)
			return true;
	return false;
}

static int check_sufficient(const struct ddr_candidate *cand, struct ddr_assembly *out, struct ddr_error *err)
{
	uint32_t need = 1u << out->super.order;
	uint32_t roles = roles_of(&out->super, out->usable);
	uint32_t absent_in_sync = 0;
	char absent[512];

	out->degraded = count_bits(roles) < out->super.roles;
	for (uint32_t m = 0; m < out->super.members; m++)
		if (out->missing >> m & 1 && out->super.member[m].state == DDR_MEMBER_IN_SYNC && silent(out, m))
			absent_in_sync |= 1u << m;
	out->doubtful = count_bits(roles_of(&out->super, absent_in_sync)) >= need;
	if (count_bits(roles) >= need) {
		write_note(cand, out);
		return 0;
	}
	list_absent(cand, out, absent, sizeof(absent));
	return ddr_error_set(err, "array %s cannot start: at generation %" PRIu64 " it needs %" PRIu32 " members in sync, and has %u; %s%s",
			     out->super.name, out->super.generation, need, count_bits(roles), absent,
			     any_foreign(out) ? "; wipefs --all DISK removes such a signature, but does not restore what was overwritten: see "
			     "ddraid(8), start" : "");
}

int ddr_assemble(const struct ddr_candidate *cand, size_t n, const struct ddr_known *known,
		 struct ddr_assembly *out, struct ddr_error *err)
{
	memset(out, 0, sizeof(*out));
	for (uint32_t m = 0; m < DDR_MAX_MEMBERS; m++) {
		out->device[m] = -1;
		out->other[m] = -1;
	}
	if (n > DDR_ASSEMBLE_MAX)
		return ddr_error_set(err, "%zu devices are more than the %u that can be assembled at once", n, DDR_ASSEMBLE_MAX);
	if (choose_newest(cand, n, out, err))
		return -1;
	cast(cand, n, out);
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; cand[i].super && j < i; j++)
			if (cand[j].super && check_pair(&cand[j], &cand[i], err))
				return -1;
	if (ddr_super_ro_only(&out->super))
		return ddr_error_set(err, "array %s uses features (ro_compat 0x%" PRIx32 ") that this version can only examine; use a newer ddraid",
				     out->super.name, out->super.ro_compat);
	if (check_known(&out->super, known, err))
		return -1;
	return check_sufficient(cand, out, err);
}

#define ADOPT "Only if no other machine uses its disks any more: ddraid start --adopt %s"

int ddr_assemble_unclustered(const struct ddr_super *sb, struct ddr_error *err)
{
	if (!(sb->ro_compat & DDR_RO_COMPAT_CLUSTER))
		return 0;
	return ddr_error_set(err, "array %s belongs to a cluster, and this node is in none (it has no corosync.conf that lists other nodes). A "
			     "node of that cluster may be using the array now, and two nodes that do not know of each other destroy it. Start the "
			     "array on a node of its cluster, or bring this node back into the cluster. " ADOPT, sb->name, sb->name);
}

int ddr_assemble_alone(const struct ddr_super *sb, uint32_t node, struct ddr_error *err)
{
	if (ddr_assemble_unclustered(sb, err))
		return -1;
	for (uint32_t s = 0; s < sb->slots; s++) {
		uint32_t owner = sb->slot_node[s];

		if (owner == 0 || owner == node)
			continue;
		return ddr_error_set(err, "array %s: slot %" PRIu32 " of its dirty log belongs to node %" PRIu32 ", and this is node %" PRIu32 " "
				     "without a cluster: that node may be using the array now, or died with writes in flight. If it was this "
				     "machine under that id, set node_id = %" PRIu32 " in ddraid.conf. If it is another machine, set up corosync "
				     "on both. "
				     ADOPT, sb->name, s, owner, node, owner, sb->name);
	}
	return 0;
}

int ddr_assemble_elsewhere(const struct ddr_super *sb, const uint8_t recorded[DDR_UUID_LEN], const uint8_t own[DDR_UUID_LEN], bool clustered,
			   struct ddr_error *err)
{
	char last[UUID_STR_LEN], here[UUID_STR_LEN + 32] = "in a cluster that has no id yet";

	if (ddr_uuid_is_zero(recorded) || memcmp(recorded, own, DDR_UUID_LEN) == 0)
		return 0;
	uuid_unparse_lower(recorded, last);
	if (!ddr_uuid_is_zero(own)) {
		size_t at = (size_t)snprintf(here, sizeof(here), "%s", clustered ? "in cluster " : "in no cluster, with id ");

		uuid_unparse_lower(own, here + at);
	}
	return ddr_error_set(err, "array %s was used last by another cluster, or by a machine without one (id %s), and this node is %s. Something there may be "
			     "using the array now, and two clusters that do not know of each other destroy it. Start it there. " ADOPT, sb->name, last, here,
			     sb->name);
}

uint32_t ddr_assembly_absent(const struct ddr_assembly *a)
{
	uint32_t absent = 0;

	for (uint32_t m = 0; m < a->super.members; m++)
		if ((a->missing >> m & 1) && a->other[m] < 0)
			absent |= 1u << m;
	return absent;
}
