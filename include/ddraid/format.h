/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * On-disk format of ddraid members: superblock, dirty-log block, region-map block, and of format 2 the owner pages and the stamps.
 *
 * These structures are read from disks that may hold anything. No field may
 * be trusted before magic, version, length and crc32c were checked; the codec in
 * lib/disk/format.h and format_owner.h does that, and is the only code that accesses these structures.
 * doc/on-disk-format.md describes every field. All integers are little-endian;
 * the wrapper types make a forgotten conversion a compile error.
 *
 * Layout of a member (byte offsets):
 *
 *	0			untouched by ddraid (boot sectors, partition labels)
 *	4096			superblock, copy 0
 *	log_offset		dirty log: for each slot, for each log block index, two
 *				places of 4096 bytes (place = sequence & 1)
 *	map_offset		region map: for each map block index, two such places
 *	owner_offset		format 2: owner pages, copy 0; the stamps, two places for each slot; owner pages, copy 1
 *	data_offset - 4096	superblock, copy 1
 *	data_offset		data area: array_blocks * chunk bytes
 *	... to the end		a zeroed tail of at least 64 KiB that ddraid never uses
 */
#ifndef DDRAID_FORMAT_H
#define DDRAID_FORMAT_H

#include <stdint.h>

typedef struct { uint16_t raw; } ddr_le16;
typedef struct { uint32_t raw; } ddr_le32;
typedef struct { uint64_t raw; } ddr_le64;

#define DDR_SB_MAGIC		0x64724444u	/* "DDrd" read as little-endian bytes 44 44 72 64 */
#define DDR_LOG_MAGIC		0x6c724444u	/* "DDrl" */
#define DDR_MAP_MAGIC		0x6d724444u	/* "DDrm" */
#define DDR_OWNER_MAGIC		0x6f724444u	/* "DDro" */
#define DDR_STAMP_MAGIC		0x73724444u	/* "DDrs" */
#define DDR_FORMAT_VERSION	1u		/* of each structure */
#define DDR_FORMAT_HIGHEST	2u		/* formats of an array that this code serves: 1 to this one; 2: with DDR_INCOMPAT_OWNERS */

#define DDR_META_BLOCK		4096u		/* bytes: each metadata structure fills one */
#define DDR_BLOCK_SIZE		4096u		/* bytes: one block of the device = one stripe */
#define DDR_SB_OFFSET		4096u		/* bytes: superblock copy 0 */
#define DDR_DATA_ALIGN		(1u << 20)	/* bytes: data_offset is a multiple of this */
#define DDR_TAIL_BYTES		(64u << 10)	/* bytes kept zero behind the data area */

#define DDR_MAX_ORDER		3u
#define DDR_MAX_PARITY		2u
#define DDR_MAX_ROLES		10u		/* 2^3 data + 2 parity */
#define DDR_MAX_MEMBERS		16u		/* roles + spares */
#define DDR_MAX_SLOTS		64u
#define DDR_DEF_SLOTS		16u
#define DDR_MIN_REGION		(64u << 10)	/* bytes */
#define DDR_MAX_REGION		(1u << 30)	/* bytes */
#define DDR_MAX_REGIONS		(1u << 20)
#define DDR_NAME_LEN		64u		/* bytes with the terminating NUL */
#define DDR_UUID_LEN		16u

/* Rotating layout: the roles move by one member every DDR_ROTATE_BLOCKS blocks (1 MiB of the device). */
#define DDR_ROTATE_BLOCKS	256u

enum ddr_layout {
	DDR_LAYOUT_DEDICATED	= 0,	/* role r on member r */
	DDR_LAYOUT_ROTATING	= 1,	/* role r on member (r + block / DDR_ROTATE_BLOCKS) mod n */
};

/* States of a member in the table; the numbers are on disk. */
enum ddr_member_state {
	DDR_MEMBER_NONE		= 0,	/* the table entry is not used */
	DDR_MEMBER_IN_SYNC	= 1,	/* holds its role for every stripe */
	DDR_MEMBER_REBUILDING	= 2,	/* written always, read below the cursor only */
	DDR_MEMBER_FAULTY	= 3,	/* failed: neither read nor written */
	DDR_MEMBER_MISSING	= 4,	/* absent at a start, removed or replaced; neither read nor written */
	DDR_MEMBER_SPARE	= 5,	/* no role */
};

#define DDR_ROLE_NONE		0xffffu

/* The verify in progress, or the last one; the numbers are on disk. */
enum ddr_verify_state { DDR_VERIFY_NONE = 0, DDR_VERIFY_RUNNING = 1, DDR_VERIFY_PAUSED = 2 };
#define DDR_VERIFY_IDLE		5u	/* lowest priority: reads only while the disks are idle, if the kernel's I/O scheduler supports that */
#define DDR_VERIFY_F_REPAIR	1u	/* parity is rewritten where it is unknown which chunk is wrong */
#define DDR_VERIFY_F_SCHEDULED	2u	/* started by the schedule: it keeps to its hours */
#define DDR_VERIFY_F_ALL	3u

/* Flags of a member. */
#define DDR_MEMBER_F_PARTIAL	1u	/* rebuilding: it lacks only regions with DDR_REGION_F_WRITTEN */
#define DDR_MEMBER_F_REPLACING	2u	/* rebuilding: another member is in sync in the same role, until this one takes it over */
#define DDR_LAST_GEN_LEN	8u

/* Feature words: a reader refuses unknown incompat bits, and refuses to start with unknown ro-compat bits. */
#define DDR_FEATURE_COMPAT_KNOWN	DDR_COMPAT_LOG_SEQ
#define DDR_FEATURE_RO_COMPAT_KNOWN	DDR_RO_COMPAT_CLUSTER
#define DDR_FEATURE_INCOMPAT_KNOWN	DDR_INCOMPAT_OWNERS

/* compat: the log_seq of some slot is known (struct ddr_disk_owner), in bytes that are reserved, and zero, for who does not know this bit. */
#define DDR_COMPAT_LOG_SEQ	(1u << 0)

/* ro-compat: the array belongs to a cluster of several nodes. A node outside of a cluster must not serve it, nor a daemon that does not know this bit. */
#define DDR_RO_COMPAT_CLUSTER	(1u << 0)

/* incompat: format 2. There are owner pages and stamps at owner_offset, and a superblock only counts together with the pages of its copy. */
#define DDR_INCOMPAT_OWNERS	(1u << 0)

/* Policy bits of the superblock. */
#define DDR_POLICY_SUSPECT_READS_ERROR	(1u << 0)	/* reconstructing reads of suspect regions fail */
#define DDR_POLICY_ALL			DDR_POLICY_SUSPECT_READS_ERROR

struct ddr_disk_member {		/* 64 bytes */
	uint8_t		uuid[16];
	uint8_t		state;		/* enum ddr_member_state */
	uint8_t		flags;		/* DDR_MEMBER_F_* */
	ddr_le16	role;		/* 0 .. roles-1 or DDR_ROLE_NONE */
	ddr_le32	export_node;	/* node that exports this disk, 0: none (a truly shared disk) */
	ddr_le64	cursor;		/* rebuilding: blocks below it are valid and flushed */
	ddr_le64	since;		/* generation at which it took this state */
	ddr_le32	err_read;	/* errors counted so far, for the reports */
	ddr_le32	err_write;
	ddr_le32	err_corrected;
	uint8_t		last_gen[8];	/* faulty, missing: the first bytes of the id of the last generation that it belonged to;
					 * zero: not known, or it did not hold all of its role then */
	uint8_t		reserved[4];
};

struct ddr_disk_slot {			/* 32 bytes */
	ddr_le32	node;		/* node id that owns the slot, 0: free */
	ddr_le32	flags;		/* 0 */
	uint8_t		reserved[24];
};

struct ddr_disk_sb {			/* 4096 bytes */
	ddr_le32	magic;		/* DDR_SB_MAGIC */
	ddr_le16	version;	/* DDR_FORMAT_VERSION */
	ddr_le16	reserved0;
	ddr_le32	length;		/* 4096 */
	ddr_le32	crc32c;		/* over all 4096 bytes with this field zero */
	ddr_le64	seq;		/* if both copies are valid, the one with the higher seq counts */
	ddr_le32	compat;
	ddr_le32	ro_compat;
	ddr_le32	incompat;
	ddr_le32	policy;		/* DDR_POLICY_* */
	uint8_t		array_uuid[16];
	uint8_t		name[64];	/* NUL-terminated and NUL-filled */
	uint8_t		order;
	uint8_t		parity;
	uint8_t		layout;		/* enum ddr_layout */
	uint8_t		reserved1;
	ddr_le32	chunk;		/* bytes a member holds of one block: 4096 >> order */
	ddr_le32	block_size;	/* 4096 */
	ddr_le32	region_size;	/* bytes */
	ddr_le64	array_blocks;	/* a multiple of 2^order */
	ddr_le64	data_offset;	/* bytes */
	ddr_le64	generation;	/* grows with each change of the member states */
	uint8_t		gen_id[16];	/* random name of this generation */
	uint8_t		gen_prev[16];	/* name of the generation before it; zero at creation */
	ddr_le64	log_base;	/* a member of an older generation than this needs a full rebuild */
	ddr_le64	log_offset;	/* bytes */
	ddr_le32	log_blocks;	/* log blocks a slot has (each in two places) */
	ddr_le32	slots;
	ddr_le64	map_offset;	/* bytes */
	ddr_le32	map_blocks;
	ddr_le16	roles;		/* 2^order + parity */
	ddr_le16	members;	/* entries of the member table in use, spares included */
	ddr_le16	this_member;	/* index of the member that this copy lies on */
	ddr_le16	reserved2;
	ddr_le32	reserved3;
	ddr_le64	created;	/* seconds since 1970 */
	ddr_le64	updated;
	ddr_le32	verify_serial;	/* verifies begun so far */
	uint8_t		verify_state;	/* enum ddr_verify_state */
	uint8_t		verify_priority;	/* 1 .. 5; 0: no verify in progress */
	uint8_t		verify_flags;	/* DDR_VERIFY_F_* */
	uint8_t		reserved5;
	ddr_le64	verify_begun;	/* seconds since 1970, of the current or the last one; 0: there was none */
	ddr_le64	verify_ended;	/* seconds since 1970, of the last one that was completed */
	ddr_le64	verify_cursor;	/* blocks below it were verified; 0: no verify in progress */
	ddr_le64	verify_found;	/* blocks that did not match */
	ddr_le64	verify_repaired;	/* of these: repaired */
	ddr_le64	owner_offset;	/* bytes; format 2, else zero, as are the next ones */
	ddr_le16	owner_pages;	/* of one copy */
	ddr_le16	reserved6;
	ddr_le32	owner_crc;	/* crc32c over the pages of the copy with this superblock's seq */
	uint8_t		reserved4[704];
	struct ddr_disk_member	member[DDR_MAX_MEMBERS];	/* at 1024 */
	struct ddr_disk_slot	slot[DDR_MAX_SLOTS];		/* at 2048 */
};

/*
 * A log block or a map block: a header of 128 bytes and a payload of 3968.
 *
 * Log payload: one bit a region, bit set = the slot's owner may be writing the
 * region. Region r of a slot: block index r / DDR_LOG_REGIONS, byte (r % DDR_LOG_REGIONS) / 8,
 * bit r % 8. Map payload: four bits a region (enum ddr_region_state and flags):
 * block index r / DDR_MAP_REGIONS, byte (r % DDR_MAP_REGIONS) / 2, low nibble first.
 */
#define DDR_LOG_HEADER		128u
#define DDR_LOG_PAYLOAD		(DDR_META_BLOCK - DDR_LOG_HEADER)
#define DDR_LOG_REGIONS		(DDR_LOG_PAYLOAD * 8u)	/* 31744 regions a log block */
#define DDR_MAP_REGIONS		(DDR_LOG_PAYLOAD * 2u)	/* 7936 regions a map block */
#define DDR_LOG_REPAIRS		24u			/* regions that a log block may list as marked for a repair only; a map block lists none */

enum ddr_region_state {			/* the low two bits of a map nibble */
	DDR_REGION_UNWRITTEN	= 0,	/* never written: its content is undefined */
	DDR_REGION_NEEDS_SYNC	= 1,	/* written; parity of never-written blocks not computed yet */
	DDR_REGION_CLEAN	= 2,	/* parity correct in the whole region */
};
#define DDR_REGION_STATE_MASK	3u
#define DDR_REGION_F_SUSPECT	4u	/* was dirty at a crash and could not be resynced (rule 9) */
#define DDR_REGION_F_WRITTEN	8u	/* written since a member is missing */

struct ddr_disk_log {			/* 4096 bytes; slot = DDR_MAP_SLOT: a block of the region map */
	ddr_le32	magic;		/* DDR_LOG_MAGIC or DDR_MAP_MAGIC */
	ddr_le16	version;
	ddr_le16	slot;
	ddr_le32	index;		/* block index within the slot or the map */
	ddr_le32	crc32c;		/* over all 4096 bytes with this field zero */
	ddr_le64	seq;		/* never restarts; place = seq & 1 */
	ddr_le64	generation;	/* of the array when this was written */
	uint8_t		array_uuid[16];
	uint8_t		boot_id[16];	/* kernel's boot id of the owner; zero: not owned */
	ddr_le64	cookie;		/* target instance of the owner's kernel, 0: none */
	ddr_le32	node;		/* owner's node id */
	ddr_le32	length;		/* 4096 */
	ddr_le16	repair[DDR_LOG_REPAIRS];	/* marked for a repair only: numbers of regions in this block + 1, ascending; then zeroes */
	uint8_t		payload[DDR_LOG_PAYLOAD];
};
#define DDR_MAP_SLOT		0xffffu

/*
 * Format 2: the owner pages, a second superblock area. They say which machine has each slot, and which disks are quarantined. There are two copies,
 * one for each copy of the superblock: all pages of a copy have its seq, and the superblock has the crc32c of all of them.
 *
 * A page: a header of 256 bytes and a payload of 3840. First the pages of slots (DDR_PAGE_SLOTS entries each), then one of quarantined disks, then
 * the pages of debtors: the nodes that may still have I/O outstanding on such disks.
 */
#define DDR_PAGE_HEADER		256u
#define DDR_PAGE_PAYLOAD	(DDR_META_BLOCK - DDR_PAGE_HEADER)
#define DDR_PAGE_SLOTS		15u
#define DDR_PAGE_DEBTORS	30u
#define DDR_MAX_HAUNTED		15u	/* quarantined disks */
#define DDR_MAX_DEBTORS		90u	/* as many pages of them as there must be for one a slot */
#define DDR_MAX_OWNER_PAGES	9u
#define DDR_NODE_NAME		64u	/* bytes of a node's name with the terminating NUL */
#define DDR_DISK_ID		128u	/* bytes of a disk's id, likewise */

enum ddr_page_kind { DDR_PAGE_OF_SLOTS = 1, DDR_PAGE_OF_HAUNTED = 2, DDR_PAGE_OF_DEBTORS = 3 };

/* States of a slot; the numbers are on disk. */
enum ddr_slot_state {
	DDR_SLOT_FREE	= 0,		/* machine, instance and name are those of the last owner, if there was one */
	DDR_SLOT_OWNED	= 1,
	DDR_SLOT_FENCED	= 2,		/* owned, and the instance in fenced_* was fenced or acknowledged: only its recovery is due */
};

/* How a quarantined disk is known; the numbers are on disk. */
enum ddr_disk_id { DDR_DISK_NONE = 0, DDR_DISK_WWN = 1, DDR_DISK_SERIAL = 2, DDR_DISK_PATH = 3 };

#define DDR_HAUNTED_F_MORE	1u	/* more nodes owe than the table of debtors could name: only the operator releases the disk */

struct ddr_disk_owner {			/* 256 bytes: a slot */
	ddr_le32	node;		/* as in the slot table of the superblock */
	uint8_t		state;		/* enum ddr_slot_state */
	uint8_t		renewed;	/* 1: this owner has written all of the slot's log anew, and log_seq is of that; 0: not yet */
	uint8_t		reserved0[2];
	uint8_t		machine[16];	/* zero: not known */
	uint8_t		boot_id[16];	/* the instance: boot id and cookie of the kernel's array object; zero: not known */
	ddr_le64	cookie;
	ddr_le64	since;		/* seconds since 1970: when it took the slot, or freed it */
	uint8_t		name[64];	/* the node's, NUL-terminated and NUL-filled */
	uint8_t		fenced_boot_id[16];	/* the instance that was fenced last; zero: none */
	ddr_le64	fenced_cookie;
	ddr_le64	fenced_time;	/* seconds since 1970 */
	ddr_le64	log_seq;	/* a block of the slot's log with a lower seq is one of an earlier owner, and landed late; 0: not known */
	uint8_t		reserved1[96];
};

struct ddr_disk_haunted {		/* 256 bytes: a quarantined disk */
	uint8_t		kind;		/* enum ddr_disk_id; DDR_DISK_NONE: the entry is not used */
	uint8_t		flags;		/* DDR_HAUNTED_F_MORE */
	ddr_le16	reserved0;
	ddr_le32	settle;		/* seconds that must pass after the last node reported that it has nothing outstanding */
	ddr_le64	since;		/* seconds since 1970 */
	ddr_le64	unanswered;	/* seconds since 1970: when I/O last ended without an answer of the disk; 0: never */
	uint8_t		member[16];	/* uuid of the member that it was */
	uint8_t		id[128];	/* NUL-terminated and NUL-filled */
	uint8_t		owes[16];	/* bit: entry of the table of debtors */
	uint8_t		reserved1[72];
};

struct ddr_disk_debtor {		/* 128 bytes: a node that may still have I/O outstanding */
	ddr_le32	node;		/* 0: the entry is not used */
	ddr_le32	flags;		/* 0 */
	uint8_t		machine[16];
	uint8_t		boot_id[16];
	uint8_t		name[64];
	uint8_t		reserved[24];
};

struct ddr_disk_page {			/* 4096 bytes */
	ddr_le32	magic;		/* DDR_OWNER_MAGIC */
	ddr_le16	version;	/* DDR_FORMAT_VERSION */
	ddr_le16	index;		/* of this page in its copy */
	ddr_le32	length;		/* 4096 */
	ddr_le32	crc32c;		/* over all 4096 bytes with this field zero */
	ddr_le64	seq;		/* of the superblock copy that this page belongs to */
	uint8_t		array_uuid[16];
	uint8_t		cluster[16];	/* that served the array last; zero: none. The same in all pages */
	ddr_le16	kind;		/* enum ddr_page_kind */
	ddr_le16	pages;		/* of a copy */
	uint8_t		reserved[196];
	union {
		uint8_t			payload[DDR_PAGE_PAYLOAD];
		struct ddr_disk_owner	slot[DDR_PAGE_SLOTS];
		struct ddr_disk_haunted	haunted[DDR_MAX_HAUNTED];
		struct ddr_disk_debtor	debtor[DDR_PAGE_DEBTORS];
	};
};

/* A stamp of a slot's owner, or a claim to the slot. Two places; place = seq & 1. */
enum ddr_stamp_kind { DDR_STAMP_OWNER = 1, DDR_STAMP_CLAIM = 2 };

struct ddr_disk_stamp {			/* 4096 bytes */
	ddr_le32	magic;		/* DDR_STAMP_MAGIC */
	ddr_le16	version;
	ddr_le16	slot;
	ddr_le32	length;		/* 4096 */
	ddr_le32	crc32c;		/* over all 4096 bytes with this field zero */
	ddr_le64	seq;		/* the counter: grows by one with each stamp */
	uint8_t		array_uuid[16];
	ddr_le64	generation;	/* of the array when this was written */
	ddr_le32	node;
	ddr_le16	kind;		/* enum ddr_stamp_kind */
	ddr_le16	reserved0;
	uint8_t		machine[16];
	uint8_t		boot_id[16];
	ddr_le64	cookie;
	uint8_t		claim[16];	/* of a claim: random; of a stamp: zero */
	ddr_le64	time;		/* seconds since 1970, for reports only */
	ddr_le32	stop_ms;	/* a kernel without its daemon stops after this time */
	uint8_t		name[64];
	uint8_t		reserved[3908];
};

#if defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
_Static_assert(sizeof(struct ddr_disk_owner) == 256, "owner of a slot");
_Static_assert(sizeof(struct ddr_disk_haunted) == 256, "quarantined disk");
_Static_assert(sizeof(struct ddr_disk_debtor) == 128, "debtor");
_Static_assert(__builtin_offsetof(struct ddr_disk_page, payload) == DDR_PAGE_HEADER, "page header");
_Static_assert(sizeof(struct ddr_disk_page) == 4096, "owner page");
_Static_assert(__builtin_offsetof(struct ddr_disk_stamp, name) == 124, "stamp fields");
_Static_assert(sizeof(struct ddr_disk_stamp) == 4096, "stamp");
_Static_assert(__builtin_offsetof(struct ddr_disk_sb, owner_offset) == 304, "owner fields");
_Static_assert(sizeof(struct ddr_disk_member) == 64, "member entry");
_Static_assert(sizeof(struct ddr_disk_slot) == 32, "slot entry");
_Static_assert(__builtin_offsetof(struct ddr_disk_sb, array_uuid) == 40, "uuid offset");
_Static_assert(__builtin_offsetof(struct ddr_disk_sb, array_blocks) == 136, "array_blocks offset");
_Static_assert(__builtin_offsetof(struct ddr_disk_sb, member) == 1024, "member table offset");
_Static_assert(__builtin_offsetof(struct ddr_disk_sb, slot) == 2048, "slot table offset");
_Static_assert(sizeof(struct ddr_disk_sb) == 4096, "superblock");
_Static_assert(__builtin_offsetof(struct ddr_disk_log, payload) == 128, "log header");
_Static_assert(sizeof(struct ddr_disk_log) == 4096, "log block");
#endif

#endif
