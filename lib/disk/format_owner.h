/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Codec of what format 2 adds: the owner pages (whose the slots are, which disks are quarantined) and the stamps. The structures are those of
 * <ddraid/format.h>; doc/on-disk-format.md, section 10, has the rules.
 *
 * As format.h: checks every field before it hands one out. It must never do I/O, allocate, read a clock, or trust a byte.
 */
#ifndef DDR_LIB_FORMAT_OWNER_H
#define DDR_LIB_FORMAT_OWNER_H

#include "lib/disk/format.h"

/* A kernel's array object, as other nodes know it: boot id and cookie. All zero: not known. */
struct ddr_instance {
	uint8_t boot_id[DDR_UUID_LEN];
	uint64_t cookie;
};

/* Whose a slot is, or was. */
struct ddr_owner {
	uint32_t node;			/* 0: free */
	uint8_t state;			/* enum ddr_slot_state */
	uint8_t machine[DDR_UUID_LEN];	/* zero: not known */
	struct ddr_instance instance;
	uint64_t since;			/* seconds since 1970 */
	char name[DDR_NODE_NAME];	/* of the node; "": not known */
	struct ddr_instance fenced;	/* the instance that was fenced or acknowledged last */
	uint64_t fenced_time;		/* seconds since 1970 */
	bool renewed;			/* this owner has written all of the slot's log anew, with log_seq and above */
	uint64_t log_seq;		/* a block of the slot's log with a lower seq is one of an earlier owner, and landed late; 0: not known */
};

/* A quarantined disk. */
struct ddr_haunted {
	uint8_t kind;			/* enum ddr_disk_id; DDR_DISK_NONE: the entry is not used */
	uint8_t flags;			/* DDR_HAUNTED_F_MORE */
	uint32_t settle;		/* seconds */
	uint64_t since;			/* seconds since 1970 */
	uint64_t unanswered;		/* seconds since 1970, or 0 */
	uint8_t member[DDR_UUID_LEN];	/* uuid */
	char id[DDR_DISK_ID];
	uint8_t owes[16];		/* bit i % 8 of byte i / 8: debtor i */
};

/* A node that may still have I/O outstanding on a quarantined disk. */
struct ddr_debtor {
	uint32_t node;			/* 0: the entry is not used */
	uint8_t machine[DDR_UUID_LEN];
	uint8_t boot_id[DDR_UUID_LEN];
	char name[DDR_NODE_NAME];
};

/* All that the owner pages hold, checked and in host byte order. */
struct ddr_owners {
	uint8_t cluster[DDR_UUID_LEN];	/* that served the array last; zero: none */
	struct ddr_owner slot[DDR_MAX_SLOTS];
	struct ddr_haunted haunted[DDR_MAX_HAUNTED];
	struct ddr_debtor debtor[DDR_MAX_DEBTORS];
};

/* Pages of one copy: of the slots, of the debtors, and all with the one of quarantined disks. @slots: 1 to 64. */
static inline uint32_t ddr_owner_slot_pages(uint32_t slots)
{
	return (slots + DDR_PAGE_SLOTS - 1) / DDR_PAGE_SLOTS;
}

static inline uint32_t ddr_owner_debtor_pages(uint32_t slots)
{
	return (slots + DDR_PAGE_DEBTORS - 1) / DDR_PAGE_DEBTORS;
}

static inline uint32_t ddr_owner_pages(uint32_t slots)
{
	return ddr_owner_slot_pages(slots) + 1 + ddr_owner_debtor_pages(slots);
}

/* Bytes of the whole area: two copies of the pages, and between them two places for the stamps of each slot. */
static inline uint64_t ddr_owner_bytes(uint32_t slots)
{
	return 2ull * (ddr_owner_pages(slots) + slots) * DDR_META_BLOCK;
}

/* Is the array of format 2? */
static inline bool ddr_super_has_owners(const struct ddr_super *sb)
{
	return (sb->incompat & DDR_INCOMPAT_OWNERS) != 0;
}

/* Byte offset on a member of the first page of copy @copy; the others follow it. Format 2 only. */
static inline uint64_t ddr_owner_offset(const struct ddr_super *sb, unsigned int copy)
{
	return sb->owner_offset + (copy ? (ddr_owner_pages(sb->slots) + 2ull * sb->slots) * DDR_META_BLOCK : 0);
}

/* Likewise of place @place of slot @slot's stamps. */
static inline uint64_t ddr_stamp_offset(const struct ddr_super *sb, uint32_t slot, unsigned int place)
{
	return sb->owner_offset + (ddr_owner_pages(sb->slots) + 2ull * slot + place) * DDR_META_BLOCK;
}

/* The owner pages of an array of @sb of which nothing is known but the nodes that have slots. */
void ddr_owners_init(struct ddr_owners *o, const struct ddr_super *sb);
/*
 * Makes @o follow @sb, of which it may be older: a slot that has another owner now is that node's, of which nothing else is known; a slot that was
 * freed keeps what is known of its last owner.
 */
void ddr_owners_follow(struct ddr_owners *o, const struct ddr_super *sb);
/*
 * Is this block of the metadata area one of the owner pages or stamps of the array of @sb, whichever and wherever it lies? For the search for other
 * programs' signatures.
 */
bool ddr_owner_is_ours(const void *block, const struct ddr_super *sb);
/*
 * Checks @o for an array of @sb, as the decoder does. index of the fault: the slot, the quarantined disk or the debtor.
 */
struct ddr_fault ddr_owners_check(const struct ddr_owners *o, const struct ddr_super *sb);

/*
 * Encodes the pages that belong to @sb, with its seq, into the ddr_owner_pages() * 4096 bytes at @pages, and puts their crc into @sb. Refuses what
 * the decoder would refuse: the fault is returned, and @pages and @sb are left alone.
 */
struct ddr_fault ddr_owners_encode(const struct ddr_owners *o, struct ddr_super *sb, void *pages);
/*
 * Decodes the pages that were read beside the superblock @sb: they must be those that @sb was written with. @o (may be NULL: they are only checked) is
 * filled if the result's code is DDR_FE_OK.
 */
struct ddr_fault ddr_owners_decode(const void *pages, const struct ddr_super *sb, struct ddr_owners *o);
/* The cluster that used the array last, of pages that were decoded or encoded. */
static inline const uint8_t *ddr_owners_cluster(const void *pages)
{
	return ((const struct ddr_disk_page *)pages)->cluster;
}

/* Copies a node's name so that it may be stored: printable ASCII ('?' for any other byte), cut to what fits, filled up with NUL. */
void ddr_owner_name(char to[DDR_NODE_NAME], const char *name);

/* A stamp or claim, checked and in host byte order. */
struct ddr_stamp {
	uint16_t slot;
	uint16_t kind;			/* enum ddr_stamp_kind */
	uint64_t seq;			/* place = seq & 1 */
	uint8_t array_uuid[DDR_UUID_LEN];
	uint64_t generation;
	uint32_t node;
	uint8_t machine[DDR_UUID_LEN];
	struct ddr_instance instance;
	uint8_t claim[DDR_UUID_LEN];	/* of a stamp: zero */
	uint64_t time;			/* seconds since 1970 */
	uint32_t stop_ms;
	char name[DDR_NODE_NAME];
};

/* Encodes it into the 4096 bytes at @buf. Refuses what the decoder would refuse, and leaves @buf alone. */
struct ddr_fault ddr_stamp_encode(const struct ddr_stamp *stamp, const struct ddr_super *sb, void *buf);
/* Decodes the 4096 bytes at @buf, read from place @place of slot @slot. @stamp is filled only if the result's code is DDR_FE_OK. */
struct ddr_fault ddr_stamp_decode(const void *buf, const struct ddr_super *sb, uint32_t slot, unsigned int place, struct ddr_stamp *stamp);

/* The texts of a slot's state and of the kind of a disk's id; never NULL. */
const char *ddr_slot_state_name(uint8_t state);
const char *ddr_disk_id_name(uint8_t kind);

#endif
