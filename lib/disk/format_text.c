/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The texts for the on-disk format: the names of its fields and a sentence for each fault, for errors and for `ddraid
 * examine`. Must never interpret a block.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "lib/disk/format_owner.h"

/* -------------------------------------------------- fields */

#define SB(f) { #f, offsetof(struct ddr_disk_sb, f), sizeof(((struct ddr_disk_sb *)0)->f), 1, 0 }
#define MB(f) { "member[]." #f, offsetof(struct ddr_disk_sb, member) + offsetof(struct ddr_disk_member, f), \
		sizeof(((struct ddr_disk_member *)0)->f), DDR_MAX_MEMBERS, sizeof(struct ddr_disk_member) }
#define SL(f) { "slot[]." #f, offsetof(struct ddr_disk_sb, slot) + offsetof(struct ddr_disk_slot, f), \
		sizeof(((struct ddr_disk_slot *)0)->f), DDR_MAX_SLOTS, sizeof(struct ddr_disk_slot) }
#define LG(f) { #f, offsetof(struct ddr_disk_log, f), sizeof(((struct ddr_disk_log *)0)->f), 1, 0 }

static const struct ddr_field super_fields[] = {
	SB(magic), SB(version), SB(reserved0), SB(length), SB(crc32c), SB(seq), SB(compat), SB(ro_compat),
	SB(incompat), SB(policy), SB(array_uuid), SB(name), SB(order), SB(parity), SB(layout), SB(reserved1),
	SB(chunk), SB(block_size), SB(region_size), SB(array_blocks), SB(data_offset), SB(generation), SB(gen_id),
	SB(gen_prev), SB(log_base), SB(log_offset), SB(log_blocks), SB(slots), SB(map_offset), SB(map_blocks),
	SB(roles), SB(members), SB(this_member), SB(reserved2), SB(reserved3), SB(created), SB(updated),
	SB(verify_serial), SB(verify_state), SB(verify_priority), SB(verify_flags), SB(reserved5), SB(verify_begun),
	SB(verify_ended), SB(verify_cursor), SB(verify_found), SB(verify_repaired), SB(owner_offset), SB(owner_pages), SB(reserved6),
	SB(owner_crc), SB(reserved4),
	MB(uuid), MB(state), MB(flags), MB(role), MB(export_node), MB(cursor), MB(since), MB(err_read),
	MB(err_write), MB(err_corrected), MB(last_gen), MB(reserved),
	SL(node), SL(flags), SL(reserved),
};

static const struct ddr_field log_fields[] = {
	LG(magic), LG(version), LG(slot), LG(index), LG(crc32c), LG(seq), LG(generation), LG(array_uuid),
	LG(boot_id), LG(cookie), LG(node), LG(length), LG(repair), LG(payload),
};

size_t ddr_fields(bool log, const struct ddr_field **fields)
{
	*fields = log ? log_fields : super_fields;
	return log ? sizeof(log_fields) / sizeof(log_fields[0]) : sizeof(super_fields) / sizeof(super_fields[0]);
}

const char *ddr_field_at(bool log, uint32_t offset, char *buf, size_t size)
{
	const struct ddr_field *f;
	size_t n = ddr_fields(log, &f);

	for (size_t i = 0; i < n; i++, f++) {
		uint32_t entry = f->stride && offset >= f->offset ? (offset - f->offset) / f->stride : 0;
		uint32_t from = f->offset + entry * f->stride;
		int table = 0;

		if (entry >= f->count || offset < from || offset - from >= f->size)
			continue;
		while (f->count > 1 && f->name[table] != '[')
			table++;
		if (f->count > 1)
			snprintf(buf, size, "%.*s[%" PRIu32 "]%s", table, f->name, entry, f->name + table + 2);
		else
			snprintf(buf, size, "%s", f->name);
		return buf;
	}
	snprintf(buf, size, "byte %" PRIu32, offset);
	return buf;
}

/* -------------------------------------------------- faults */

/* The form of a sentence: the text, then the value found and the expected one, each as it suits the field. */
enum fault_form {
	FORM_PLAIN,		/* the text alone */
	FORM_FOUND,		/* ... is FOUND */
	FORM_FOUND_WANT,	/* ... is FOUND, not WANT */
	FORM_HEX,		/* likewise, hexadecimal */
	FORM_BITS,		/* unknown bits: FOUND without WANT, hexadecimal */
	FORM_ENTRY,		/* entry INDEX ... */
	FORM_ENTRY_FOUND,	/* entry INDEX ... is FOUND */
};

static const struct {
	const char *name;
	enum fault_form form;
	const char *text;
} faults[DDR_FE_COUNT] = {
	[DDR_FE_OK]		= { "none", FORM_PLAIN, "no fault" },
	[DDR_FE_BLANK]		= { "blank", FORM_PLAIN, "the block is all zeroes: it was never written, or it was wiped" },
	[DDR_FE_MAGIC]		= { "magic", FORM_HEX, "magic" },
	[DDR_FE_VERSION]	= { "version", FORM_FOUND_WANT, "version" },
	[DDR_FE_LENGTH]		= { "length", FORM_FOUND_WANT, "length" },
	[DDR_FE_CRC]		= { "crc32c", FORM_HEX, "crc32c" },
	[DDR_FE_INCOMPAT]	= { "incompat", FORM_BITS, "incompat has features that this version does not know" },
	[DDR_FE_RO_COMPAT]	= { "ro_compat", FORM_BITS, "ro_compat has features that this version cannot write" },
	[DDR_FE_RESERVED]	= { "reserved", FORM_FOUND, "a reserved byte that must be zero is not: its offset" },
	[DDR_FE_SEQ]		= { "seq", FORM_FOUND, "seq does not fit the place where it lies: it" },
	[DDR_FE_SEQ_LIMIT]	= { "seq", FORM_FOUND, "seq is too high to have been written by ddraid: it" },
	[DDR_FE_POLICY]		= { "policy", FORM_BITS, "policy has unknown bits" },
	[DDR_FE_VERIFY]		= { "verify", FORM_PLAIN, "the state, priority, flags and cursor of the verify contradict each other" },
	[DDR_FE_UUID]		= { "array_uuid", FORM_PLAIN, "array_uuid is zero" },
	[DDR_FE_NAME]		= { "name", FORM_PLAIN, "name is not 1 to 63 of A-Z a-z 0-9 . _ + - followed by zeroes" },
	[DDR_FE_ORDER]		= { "order", FORM_FOUND, "order is not 0, 1, 2 or 3: it" },
	[DDR_FE_PARITY]		= { "parity", FORM_FOUND, "parity is not 0, 1 or 2: it" },
	[DDR_FE_LAYOUT]		= { "layout", FORM_FOUND, "layout is neither 0 (dedicated) nor 1 (rotating): it" },
	[DDR_FE_CHUNK]		= { "chunk", FORM_FOUND_WANT, "chunk does not fit order: it" },
	[DDR_FE_BLOCK_SIZE]	= { "block_size", FORM_FOUND_WANT, "block_size" },
	[DDR_FE_REGION_SIZE]	= { "region_size", FORM_FOUND, "region_size is not a power of two from 64 KiB to 1 GiB: it" },
	[DDR_FE_ARRAY_BLOCKS]	= { "array_blocks", FORM_FOUND, "array_blocks is not a multiple of 2^order above 0: it" },
	[DDR_FE_REGIONS]	= { "regions", FORM_FOUND, "array_blocks and region_size make more than 1048576 regions: there" },
	[DDR_FE_DATA_OFFSET]	= { "data_offset", FORM_FOUND, "data_offset is not a multiple of 1 MiB behind the metadata and up to 32 MiB: it" },
	[DDR_FE_GENERATION]	= { "generation", FORM_PLAIN, "generation is zero" },
	[DDR_FE_GENERATION_LIMIT] = { "generation", FORM_FOUND, "generation is too high to have been written by ddraid: it" },
	[DDR_FE_GEN_ID]		= { "gen_id", FORM_PLAIN, "gen_id is zero" },
	[DDR_FE_GEN_PREV]	= { "gen_prev", FORM_FOUND, "gen_prev must be zero in generation 1, otherwise neither zero nor gen_id; the generation" },
	[DDR_FE_LOG_BASE]	= { "log_base", FORM_FOUND, "log_base is above the generation: it" },
	[DDR_FE_LOG_OFFSET]	= { "log_offset", FORM_FOUND, "log_offset is not a multiple of 4096 between the superblocks: it" },
	[DDR_FE_LOG_BLOCKS]	= { "log_blocks", FORM_FOUND, "log_blocks is too small for the number of regions, or too large: it" },
	[DDR_FE_SLOTS]		= { "slots", FORM_FOUND, "slots is not from 1 to 64: it" },
	[DDR_FE_MAP_OFFSET]	= { "map_offset", FORM_FOUND, "map_offset is not a multiple of 4096 between the log and the data: it" },
	[DDR_FE_MAP_BLOCKS]	= { "map_blocks", FORM_FOUND, "map_blocks is too small for the number of regions, or too large: it" },
	[DDR_FE_ROLES]		= { "roles", FORM_FOUND_WANT, "roles does not fit order and parity: it" },
	[DDR_FE_MEMBERS]	= { "members", FORM_FOUND, "members is not from roles to 16: it" },
	[DDR_FE_THIS_MEMBER]	= { "this_member", FORM_FOUND, "this_member is not an entry of the member table: it" },
	[DDR_FE_M_UUID]		= { "member uuid", FORM_ENTRY, "has a zero uuid" },
	[DDR_FE_M_UUID_TWICE]	= { "member uuid", FORM_ENTRY_FOUND, "has the uuid of another entry: that" },
	[DDR_FE_M_STATE]	= { "member state", FORM_ENTRY_FOUND, "has an unknown state: it" },
	[DDR_FE_M_FLAGS]	= { "member flags", FORM_ENTRY_FOUND, "has unknown flags: they" },
	[DDR_FE_M_ROLE]		= { "member role", FORM_ENTRY_FOUND, "has a role that does not fit its state and the array: it" },
	[DDR_FE_M_ROLE_TWICE]	= { "member role", FORM_ENTRY_FOUND, "holds a role that another entry holds: role" },
	[DDR_FE_M_ROLE_NOBODY]	= { "member role", FORM_FOUND, "a role has no member: its number" },
	[DDR_FE_M_CURSOR]	= { "member cursor", FORM_ENTRY_FOUND, "has a cursor that does not fit its state and the array: it" },
	[DDR_FE_M_SINCE]	= { "member since", FORM_ENTRY_FOUND, "took its state in a generation that never existed: it" },
	[DDR_FE_M_UNUSED]	= { "member unused", FORM_ENTRY, "lies behind the last member and is not zero" },
	[DDR_FE_S_FLAGS]	= { "slot flags", FORM_ENTRY_FOUND, "of the slot table has unknown flags: they" },
	[DDR_FE_S_NODE_TWICE]	= { "slot node", FORM_ENTRY_FOUND, "of the slot table has a node that owns another slot: it" },
	[DDR_FE_S_UNUSED]	= { "slot unused", FORM_ENTRY, "of the slot table lies behind the last slot and is not zero" },
	[DDR_FE_POSITION]	= { "position", FORM_FOUND_WANT, "data_offset does not match the position of this copy: the position that follows "
								 "from it" },
	[DDR_FE_L_UUID]		= { "array_uuid", FORM_PLAIN, "array_uuid is that of another array" },
	[DDR_FE_L_SLOT]		= { "slot", FORM_FOUND_WANT, "slot" },
	[DDR_FE_L_INDEX]	= { "index", FORM_FOUND_WANT, "index" },
	[DDR_FE_L_GENERATION]	= { "generation", FORM_PLAIN, "generation is zero" },
	[DDR_FE_L_OWNER]	= { "owner", FORM_PLAIN, "boot_id or cookie is set, but node is zero" },
	[DDR_FE_L_BIT]		= { "payload", FORM_FOUND, "payload names a region beyond the end of the array: it" },
	[DDR_FE_L_STATE]	= { "payload", FORM_FOUND, "payload has a region without a valid state: it" },
	[DDR_FE_O_AREA]		= { "owner_offset", FORM_FOUND, "owner_offset is not a multiple of 4096 with room for the owner pages behind the region map, "
								"or is set in format 1: it" },
	[DDR_FE_O_PAGES]	= { "owner_pages", FORM_FOUND_WANT, "owner_pages does not fit the number of slots: it" },
	[DDR_FE_O_PAGE]		= { "owner page", FORM_ENTRY, "of the owner pages is blank, torn or damaged" },
	[DDR_FE_O_SEQ]		= { "owner seq", FORM_FOUND_WANT, "the owner pages have another seq than the superblock: it" },
	[DDR_FE_O_CRC]		= { "owner_crc", FORM_HEX, "the owner pages are not those that the superblock was written with: their crc32c" },
	[DDR_FE_O_KIND]		= { "kind", FORM_FOUND_WANT, "kind" },
	[DDR_FE_O_CLUSTER]	= { "cluster", FORM_PLAIN, "the owner pages name different clusters" },
	[DDR_FE_O_STATE]	= { "owner state", FORM_ENTRY_FOUND, "of the slots' owners has a state that does not fit its node: it" },
	[DDR_FE_O_NODE]		= { "owner node", FORM_ENTRY_FOUND, "of the slots' owners has another node than the superblock: it" },
	[DDR_FE_O_INSTANCE]	= { "instance", FORM_ENTRY, "has an incomplete instance" },
	[DDR_FE_O_FENCED]	= { "fenced", FORM_ENTRY_FOUND, "of the slots' owners has a fenced instance without a time, or a time without one: the time" },
	[DDR_FE_O_LOG]		= { "log_seq", FORM_ENTRY_FOUND, "of the slots' owners has a log_seq that is too high, or none although its log was renewed: it" },
	[DDR_FE_O_NAME]		= { "node name", FORM_ENTRY, "has a node name that is no text followed by zeroes" },
	[DDR_FE_O_UNUSED]	= { "owner unused", FORM_ENTRY, "of the owner pages is not used, and not zero" },
	[DDR_FE_O_DISK]		= { "quarantined disk", FORM_ENTRY_FOUND, "of the quarantined disks has no valid id; its kind" },
	[DDR_FE_O_DEBTOR]	= { "debtor", FORM_ENTRY_FOUND, "of the quarantined disks names a node that is not in the table: entry" },
	[DDR_FE_L_REPAIR]	= { "repair", FORM_FOUND, "repair names a region that is not marked, or out of order: it" },
};

const char *ddr_format_error_name(enum ddr_format_error code)
{
	return (unsigned int)code < DDR_FE_COUNT ? faults[code].name : "unknown fault";
}

const char *ddr_fault_text(const struct ddr_fault *fault, char *buf, size_t size)
{
	unsigned long long a = fault->a, b = fault->b;
	const char *text;

	if ((unsigned int)fault->code >= DDR_FE_COUNT) {
		snprintf(buf, size, "unknown fault %u", (unsigned int)fault->code);
		return buf;
	}
	text = faults[fault->code].text;
	switch (faults[fault->code].form) {
	case FORM_PLAIN:
		snprintf(buf, size, "%s", text);
		break;
	case FORM_FOUND:
		snprintf(buf, size, "%s is %llu", text, a);
		break;
	case FORM_FOUND_WANT:
		snprintf(buf, size, "%s is %llu, not %llu", text, a, b);
		break;
	case FORM_HEX:
		snprintf(buf, size, "%s is 0x%08llx, not 0x%08llx", text, a, b);
		break;
	case FORM_BITS:
		snprintf(buf, size, "%s: 0x%llx", text, a & ~b);
		break;
	case FORM_ENTRY:
		snprintf(buf, size, "entry %u %s", fault->index, text);
		break;
	case FORM_ENTRY_FOUND:
		snprintf(buf, size, "entry %u %s is %llu", fault->index, text, a);
		break;
	}
	return buf;
}

void ddr_owner_name(char to[DDR_NODE_NAME], const char *name)
{
	size_t n = strnlen(name, DDR_NODE_NAME - 1);

	memset(to, 0, DDR_NODE_NAME);
	for (size_t i = 0; i < n; i++) {
		to[i] = name[i];
		if (to[i] < ' ' || to[i] > '~')
			to[i] = '?';
	}
}
