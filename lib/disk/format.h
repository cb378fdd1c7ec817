/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Codec of the on-disk format: superblocks, log blocks and map blocks, between the
 * little-endian structures of <ddraid/format.h> and host structures.
 *
 * This is the only code that interprets bytes from a member's metadata. It checks
 * every field before it hands one out, and names the first one that is wrong.
 * It must never: do I/O, allocate, log, read a clock, or trust a byte.
 * All functions are pure and reentrant.
 */
#ifndef DDR_LIB_FORMAT_H
#define DDR_LIB_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ddraid/format.h>
#include "lib/math/geometry.h"
#include "lib/math/uuid.h"

/* data_offset is at most this: it bounds the search for copy 1 where copy 0 is lost. */
#define DDR_DATA_OFFSET_MAX	(32u << 20)
/* A member's superblock copies: copy 0 at DDR_SB_OFFSET, copy 1 at data_offset - 4096. */
#define DDR_SB_COPIES		2u

/* One entry of the member table. */
struct ddr_member {
	uint8_t uuid[DDR_UUID_LEN];
	uint8_t state;			/* enum ddr_member_state */
	uint8_t flags;			/* DDR_MEMBER_F_* */
	uint16_t role;			/* its role in units that are not rotated, or DDR_ROLE_NONE */
	uint32_t export_node;		/* node that exports the disk, 0: shared */
	uint64_t cursor;		/* blocks; rebuilding only, otherwise 0 */
	uint64_t since;			/* generation at which it took this state */
	uint32_t err_read;
	uint32_t err_write;
	uint32_t err_corrected;
	uint8_t last_gen[DDR_LAST_GEN_LEN];	/* faulty, missing: the first bytes of the id of the last generation that it belonged to */
};

/* The current verify, or the last one. */
struct ddr_verify {
	uint32_t serial;		/* number of verifies started so far */
	uint8_t state;			/* enum ddr_verify_state */
	uint8_t priority;		/* 1 .. 5, or 0 */
	uint8_t flags;			/* DDR_VERIFY_F_* */
	uint64_t begun, ended;		/* seconds since 1970, or 0 */
	uint64_t cursor;		/* blocks */
	uint64_t found, repaired;	/* blocks */
};

/* A superblock, checked and in host byte order. */
struct ddr_super {
	uint64_t seq;			/* of this copy; copy = seq & 1 */
	uint32_t compat;
	uint32_t ro_compat;
	uint32_t incompat;
	uint32_t policy;		/* DDR_POLICY_* */
	uint8_t array_uuid[DDR_UUID_LEN];
	char name[DDR_NAME_LEN];	/* NUL-terminated */
	uint8_t order;
	uint8_t parity;
	uint8_t layout;			/* enum ddr_layout */
	uint32_t chunk;			/* bytes */
	uint32_t block_size;		/* bytes */
	uint32_t region_size;		/* bytes */
	uint64_t array_blocks;		/* blocks */
	uint64_t data_offset;		/* bytes */
	uint64_t generation;
	uint8_t gen_id[DDR_UUID_LEN];
	uint8_t gen_prev[DDR_UUID_LEN];
	uint64_t log_base;		/* generation */
	uint64_t log_offset;		/* bytes */
	uint32_t log_blocks;		/* of a slot */
	uint32_t slots;
	uint64_t map_offset;		/* bytes */
	uint32_t map_blocks;
	uint16_t roles;
	uint16_t members;
	uint16_t this_member;
	uint64_t owner_offset;		/* bytes; format 2 (format_owner.h), else 0, as are the next two */
	uint16_t owner_pages;		/* of one copy */
	uint32_t owner_crc;		/* of the pages that belong to this seq */
	uint64_t created;		/* seconds since 1970 */
	uint64_t updated;
	struct ddr_verify verify;
	struct ddr_member member[DDR_MAX_MEMBERS];
	uint32_t slot_node[DDR_MAX_SLOTS];	/* node id that owns the slot, 0: free */
};

/* The header of a log or map block, checked and in host byte order. */
struct ddr_log_info {
	uint16_t slot;			/* DDR_MAP_SLOT: a block of the region map */
	uint32_t index;
	uint64_t seq;			/* place = seq & 1 */
	uint64_t generation;
	uint8_t array_uuid[DDR_UUID_LEN];
	uint8_t boot_id[DDR_UUID_LEN];	/* zero: not owned */
	uint64_t cookie;
	uint32_t node;
	uint16_t repair[DDR_LOG_REPAIRS];	/* as in struct ddr_disk_log */
};

/*
 * Limits of the numbers that only grow. The sequence of a log or map block continues from that of the superblock, shifted by 32 bits. No array comes near: at
 * one change a second it takes 68 years. A higher number was not written by ddraid, and must not be continued. An array is not started shortly before
 * the limit, so that it never reaches it while it runs.
 */
#define DDR_SUPER_SEQ_MAX	0xffffffffull
#define DDR_SUPER_SEQ_START	0xffff0000ull	/* a start needs a lower one */
#define DDR_LOG_SEQ_MAX		(UINT64_MAX - 0xffffffffull)
#define DDR_GENERATION_MAX	((uint64_t)INT64_MAX)
#define DDR_GENERATION_START	(DDR_GENERATION_MAX - 0xffffffffu)	/* likewise */

/* What can be wrong with a metadata block. DDR_FE_OK is 0. */
enum ddr_format_error {
	DDR_FE_OK = 0,
	DDR_FE_BLANK,		/* all bytes are zero */
	DDR_FE_MAGIC,
	DDR_FE_VERSION,
	DDR_FE_LENGTH,
	DDR_FE_CRC,
	DDR_FE_INCOMPAT,	/* unknown incompat feature bits */
	DDR_FE_RO_COMPAT,	/* encoder only: unknown ro-compat feature bits */
	DDR_FE_RESERVED,	/* a reserved byte is not zero; a: its offset */
	DDR_FE_SEQ,		/* zero, or not of this place */
	DDR_FE_SEQ_LIMIT,	/* nothing can follow it */
	DDR_FE_POLICY,
	DDR_FE_VERIFY,		/* state, priority, flags and cursor of the verify do not go together */
	DDR_FE_UUID,
	DDR_FE_NAME,
	DDR_FE_ORDER,
	DDR_FE_PARITY,
	DDR_FE_LAYOUT,
	DDR_FE_CHUNK,
	DDR_FE_BLOCK_SIZE,
	DDR_FE_REGION_SIZE,
	DDR_FE_ARRAY_BLOCKS,
	DDR_FE_REGIONS,		/* array_blocks and region_size make too many regions */
	DDR_FE_DATA_OFFSET,
	DDR_FE_GENERATION,
	DDR_FE_GENERATION_LIMIT,
	DDR_FE_GEN_ID,
	DDR_FE_GEN_PREV,
	DDR_FE_LOG_BASE,
	DDR_FE_LOG_OFFSET,
	DDR_FE_LOG_BLOCKS,
	DDR_FE_SLOTS,
	DDR_FE_MAP_OFFSET,
	DDR_FE_MAP_BLOCKS,
	DDR_FE_ROLES,
	DDR_FE_MEMBERS,
	DDR_FE_THIS_MEMBER,
	DDR_FE_M_UUID,		/* from here: index is the entry of the member table */
	DDR_FE_M_UUID_TWICE,	/* a: the other entry */
	DDR_FE_M_STATE,
	DDR_FE_M_FLAGS,
	DDR_FE_M_ROLE,
	DDR_FE_M_ROLE_TWICE,	/* a: the role */
	DDR_FE_M_ROLE_NOBODY,	/* a: a role that no entry holds */
	DDR_FE_M_CURSOR,
	DDR_FE_M_SINCE,
	DDR_FE_M_UNUSED,	/* an entry behind the last one is not zero */
	DDR_FE_S_FLAGS,		/* from here: index is the entry of the slot table */
	DDR_FE_S_NODE_TWICE,	/* a: the node */
	DDR_FE_S_UNUSED,
	DDR_FE_POSITION,	/* a superblock that does not belong where it was read; a: where it says it lies */
	DDR_FE_L_UUID,		/* log and map blocks: of another array */
	DDR_FE_L_SLOT,
	DDR_FE_L_INDEX,
	DDR_FE_L_GENERATION,
	DDR_FE_L_OWNER,		/* cookie or boot id without a node id */
	DDR_FE_L_BIT,		/* a region beyond the array is marked; a: the region */
	DDR_FE_L_STATE,		/* a region has no valid state; a: the region */
	DDR_FE_L_REPAIR,	/* a repair names a region that is not marked, or is out of order; a: its number */
	DDR_FE_O_AREA,		/* owner_offset: no place for the owner pages, or set in format 1 */
	DDR_FE_O_PAGES,
	DDR_FE_O_PAGE,		/* from here: index is the page. Blank, torn or damaged; a: the DDR_FE_* */
	DDR_FE_O_SEQ,		/* of another sequence than the superblock */
	DDR_FE_O_CRC,		/* not those that the superblock was written with */
	DDR_FE_O_KIND,
	DDR_FE_O_CLUSTER,	/* the pages name different clusters */
	DDR_FE_O_STATE,		/* from here: index is the slot, the quarantined disk or the debtor */
	DDR_FE_O_NODE,		/* not the node that the superblock has in this slot */
	DDR_FE_O_INSTANCE,	/* incomplete: a cookie without boot id, a stamp without machine */
	DDR_FE_O_FENCED,	/* a fenced instance without a time, or a time without one */
	DDR_FE_O_LOG,		/* log_seq is too high, or zero although the log was renewed */
	DDR_FE_O_NAME,
	DDR_FE_O_UNUSED,
	DDR_FE_O_DISK,
	DDR_FE_O_DEBTOR,	/* a quarantined disk is owed by an entry that is not used; a: the entry */
	DDR_FE_COUNT
};

/* The first fault found in a block. code == DDR_FE_OK: none. */
struct ddr_fault {
	enum ddr_format_error code;
	uint32_t index;		/* entry of a table, where the code is about one */
	uint64_t a;		/* the value found */
	uint64_t b;		/* the expected value, if there is only one */
};

/* Short name of the damaged field ("order", "member uuid", ...); never NULL. */
const char *ddr_format_error_name(enum ddr_format_error code);
/* One sentence without newline or full stop in @buf: what is wrong, what was found and what was expected. Returns @buf. */
const char *ddr_fault_text(const struct ddr_fault *fault, char *buf, size_t size);

/*
 * Checks a host superblock as the decoder does, except for magic, length, crc and reserved bytes. The encoder and the
 * state machine's tests use it.
 */
struct ddr_fault ddr_super_check(const struct ddr_super *sb);

/*
 * Decodes the 4096 bytes at @buf, which were read as copy @copy (0 or 1) from byte
 * @offset of a member. @sb is filled only if the result's code is DDR_FE_OK.
 * Unknown ro-compat bits are no fault; see ddr_super_ro_only().
 */
struct ddr_fault ddr_super_decode(const void *buf, unsigned int copy, uint64_t offset, struct ddr_super *sb);
/*
 * Encodes into the 4096 bytes at @buf, with crc32c. Refuses what the decoder would
 * refuse (the fault is returned and @buf is zeroed). Unknown compat bits are
 * dropped, since the reserved bytes that they explain are not kept.
 */
struct ddr_fault ddr_super_encode(const struct ddr_super *sb, void *buf);

/*
 * Turns the encoded superblock at @buf into the one for copy @copy: each change has two sequence numbers, and this
 * sets the one for that copy.
 */
void ddr_super_set_copy(void *buf, unsigned int copy);

/* Format 2: sets the crc of the owner pages that are written beside it. Call it after ddr_super_set_copy(). */
void ddr_super_set_owner_crc(void *buf, uint32_t crc);

/* True if the superblock has ro-compat features that this version does not know: it may be examined, but not started. */
static inline bool ddr_super_ro_only(const struct ddr_super *sb)
{
	return (sb->ro_compat & ~DDR_FEATURE_RO_COMPAT_KNOWN) != 0;
}

/* The copy that a superblock of this sequence number is written to. */
static inline unsigned int ddr_super_copy(uint64_t seq)
{
	return (unsigned int)(seq & 1);
}

/*
 * Each change of the superblocks has two sequence numbers: an even one for copy 0 and the next odd one for copy 1.
 * Returns the higher one of the change that follows a superblock with number @seq.
 */
static inline uint64_t ddr_super_seq_behind(uint64_t seq)
{
	return (seq | 1) + 2;
}

/* Byte offset of superblock copy @copy on a member. */
static inline uint64_t ddr_super_offset(const struct ddr_super *sb, unsigned int copy)
{
	return copy ? sb->data_offset - DDR_META_BLOCK : DDR_SB_OFFSET;
}

/* True if @name (of @size bytes, NUL-filled) can name an array: 1 to 63 of [A-Za-z0-9._+-], a letter or digit first. */
bool ddr_name_valid(const char *name, size_t size);
/*
 * Why no array should get this name, or NULL if it may have it. (Whether the name of an existing array is valid is
 * decided by ddr_name_valid() alone.) Device-mapper has a file "control" in the directory of the arrays' devices, and
 * a name that looks like a uuid would be taken for one.
 */
const char *ddr_name_refused(const char *name);

/* The newer of two decoded copies of one member. NULL: that copy is not valid. */
const struct ddr_super *ddr_super_newer(const struct ddr_super *copy0, const struct ddr_super *copy1);
/* True if both copies are of one member of one array with one geometry (what never changes in a member's life). */
bool ddr_super_same_member(const struct ddr_super *a, const struct ddr_super *b);
/*
 * Is @disk, the newest superblock of a disk, the last one that member @member of @sb can have had while it was in
 * sync? @sb: the array's superblock, which lists that member as faulty or missing.
 */
bool ddr_super_is_last(const struct ddr_super *sb, uint32_t member, const struct ddr_super *disk);
/*
 * The name of the first field of the geometry in which two members of one array differ, or NULL. The size of the
 * array is not one of them: it grows with a new generation, and a disk that missed that has the smaller one. Neither is the format: it is raised
 * with a new generation, which may also take blocks from the end of the map.
 */
const char *ddr_super_geometry_differs(const struct ddr_super *a, const struct ddr_super *b);

/* Geometry for lib/math/geometry.h. @sb is a checked superblock. */
void ddr_super_geometry(const struct ddr_super *sb, struct ddr_geometry *geo);

/* Blocks in a region, regions in the array (the last one may be short). */
static inline uint64_t ddr_super_region_blocks(const struct ddr_super *sb)
{
	return sb->region_size / DDR_BLOCK_SIZE;
}

static inline uint64_t ddr_super_regions(const struct ddr_super *sb)
{
	uint64_t n = ddr_super_region_blocks(sb);

	return (sb->array_blocks + n - 1) / n;
}

/* The number of regions that log and map have room for. */
static inline uint64_t ddr_super_most_regions(const struct ddr_super *sb)
{
	uint64_t log = (uint64_t)sb->log_blocks * DDR_LOG_REGIONS, map = (uint64_t)sb->map_blocks * DDR_MAP_REGIONS;
	uint64_t least = log < map ? log : map;

	return least < DDR_MAX_REGIONS ? least : DDR_MAX_REGIONS;
}

/* The largest size that the array can have, in blocks. */
static inline uint64_t ddr_super_most_blocks(const struct ddr_super *sb)
{
	return ddr_super_most_regions(sb) * ddr_super_region_blocks(sb);
}

/* The number of blocks that a member of @bytes has room for, with a tail behind them: a multiple of 2^order. */
static inline uint64_t ddr_super_blocks_in(const struct ddr_super *sb, uint64_t bytes)
{
	uint64_t taken = sb->data_offset + DDR_TAIL_BYTES, blocks = bytes < taken ? 0 : (bytes - taken) / sb->chunk;

	return blocks - blocks % (1u << sb->order);
}

/* Byte offset on a member of place @place of block @index of slot @slot's log. */
static inline uint64_t ddr_log_offset(const struct ddr_super *sb, uint32_t slot, uint32_t index, unsigned int place)
{
	return sb->log_offset + (((uint64_t)slot * sb->log_blocks + index) * 2 + place) * DDR_META_BLOCK;
}

/* Likewise for block @index of the region map. */
static inline uint64_t ddr_map_offset(const struct ddr_super *sb, uint32_t index, unsigned int place)
{
	return sb->map_offset + ((uint64_t)index * 2 + place) * DDR_META_BLOCK;
}

/*
 * Checks a log block (@slot < sb->slots) or a map block (@slot == DDR_MAP_SLOT) that was read from place @place of
 * block @index. The payload may be used in place (((struct ddr_disk_log *)buf)->payload) only if the result's code is
 * DDR_FE_OK.
 */
struct ddr_fault ddr_log_decode(const void *buf, const struct ddr_super *sb, uint16_t slot, uint32_t index,
				unsigned int place, struct ddr_log_info *info);
/* Fills in header and crc32c of @blk; the payload must be there already. It has to be written to place info->seq & 1. */
void ddr_log_encode(struct ddr_disk_log *blk, const struct ddr_log_info *info);

/* The bits of a log payload and the nibbles of a map payload; @i: region within the block. */
static inline bool ddr_log_get(const uint8_t *payload, uint32_t i)
{
	return payload[i / 8] >> (i % 8) & 1;
}

static inline void ddr_log_set(uint8_t *payload, uint32_t i, bool dirty)
{
	uint8_t bit = (uint8_t)(1u << (i % 8));

	payload[i / 8] = (uint8_t)(dirty ? payload[i / 8] | bit : payload[i / 8] & ~bit);
}

static inline uint8_t ddr_map_get(const uint8_t *payload, uint32_t i)
{
	return payload[i / 2] >> (i % 2 * 4) & 15;
}

static inline void ddr_map_set(uint8_t *payload, uint32_t i, uint8_t nibble)
{
	unsigned int shift = i % 2 * 4;

	payload[i / 2] = (uint8_t)((payload[i / 2] & ~(15u << shift)) | (unsigned int)(nibble & 15) << shift);
}

/* One named field of the on-disk superblock or log block, for reports of damage. */
struct ddr_field {
	const char *name;		/* as in <ddraid/format.h>; fields of a table entry: "member[].state" */
	uint16_t offset, size;		/* bytes */
	uint16_t count, stride;		/* entries of the table, bytes from one to the next */
};

/* The fields of a superblock (@log: of a log or map block), without gaps, in order. Returns their number. */
size_t ddr_fields(bool log, const struct ddr_field **fields);
/* Name of the field that byte @offset (< 4096) of such a block belongs to, in @buf: "order", "member[3].state". */
const char *ddr_field_at(bool log, uint32_t offset, char *buf, size_t size);

#endif
