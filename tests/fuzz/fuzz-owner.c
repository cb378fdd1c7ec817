/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Fuzzes the decoding of owner pages and stamps. The input: one byte each for the kind (bit 0: a stamp), the place and the slot, five of padding, then
 * the stamp, or all pages of an array with 15 slots.
 */
#include <string.h>

#include "lib/disk/format_owner.h"
#include "lib/math/crc32c.h"
#include "tests/fuzz/fuzz.h"

#define HEAD	8u
#define SLOTS	15u
#define PAGES	3u	/* of 15 slots: of slots, of quarantined disks, of debtors */
#define CRC_AT	offsetof(struct ddr_disk_page, crc32c)

_Static_assert(offsetof(struct ddr_disk_stamp, crc32c) == CRC_AT, "fuzz_repair() needs no difference");

static void array_of(struct ddr_super *sb)
{
	memset(sb, 0, sizeof(*sb));
	sb->slots = SLOTS;
	sb->seq = 6;
	sb->incompat = DDR_INCOMPAT_OWNERS;
	sb->slot_node[0] = 1;
	sb->slot_node[14] = 7;
	memset(sb->array_uuid, 0x11, sizeof(sb->array_uuid));
}

static void require_sane(const struct ddr_owners *o, const struct ddr_super *sb)
{
	for (uint32_t i = 0; i < DDR_MAX_SLOTS; i++) {
		fuzz_require(o->slot[i].node == sb->slot_node[i] && o->slot[i].state <= DDR_SLOT_FENCED);
		fuzz_require(strlen(o->slot[i].name) < sizeof(o->slot[i].name));
	}
	for (uint32_t i = 0; i < DDR_MAX_HAUNTED; i++) {
		fuzz_require(strlen(o->haunted[i].id) < sizeof(o->haunted[i].id));
		for (uint32_t d = 0; d < sizeof(o->haunted[i].owes) * 8; d++)
			fuzz_require(!(o->haunted[i].owes[d / 8] >> (d % 8) & 1) || (d < DDR_MAX_DEBTORS && o->debtor[d].node));
	}
}

static struct ddr_fault fuzz_pages(const uint8_t *pages)
{
	static struct ddr_owners o;
	static uint8_t again[PAGES * DDR_META_BLOCK];
	struct ddr_fault fault;
	struct ddr_super sb;

	array_of(&sb);
	sb.owner_crc = ddr_crc32c(pages, PAGES * DDR_META_BLOCK);
	fault = ddr_owners_decode(pages, &sb, &o);
	if (fault.code)
		return fault;
	require_sane(&o, &sb);
	fuzz_require(ddr_owners_encode(&o, &sb, again).code == DDR_FE_OK);
	fuzz_require(memcmp(again, pages, sizeof(again)) == 0);
	return fault;
}

static struct ddr_fault fuzz_stamp(const uint8_t *block, uint32_t slot, unsigned int place)
{
	static uint8_t again[DDR_META_BLOCK];
	struct ddr_fault fault;
	struct ddr_stamp s;
	struct ddr_super sb;

	array_of(&sb);
	fault = ddr_stamp_decode(block, &sb, slot, place, &s);
	if (fault.code)
		return fault;
	fuzz_require(s.slot == slot && slot < SLOTS && (s.seq & 1) == place && strlen(s.name) < sizeof(s.name));
	fuzz_require(ddr_stamp_encode(&s, &sb, again).code == DDR_FE_OK);
	fuzz_require(memcmp(again, block, sizeof(again)) == 0);
	return fault;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t block[PAGES * DDR_META_BLOCK];
	struct ddr_fault fault;
	char text[256];

	if (size < HEAD)
		return 0;
	memset(block, 0, sizeof(block));
	memcpy(block, data + HEAD, size - HEAD < sizeof(block) ? size - HEAD : sizeof(block));
	fault = data[0] & 1 ? fuzz_stamp(block, data[2], data[1] & 1) : fuzz_pages(block);
	fuzz_require(strlen(ddr_fault_text(&fault, text, sizeof(text))) > 0 && !strchr(text, '\n'));
	return 0;
}

static void seed_pages(uint64_t n, uint8_t *pages)
{
	static struct ddr_owners o;
	struct ddr_super sb;

	array_of(&sb);
	ddr_owners_init(&o, &sb);
	memset(o.cluster, (int)(n & 255), sizeof(o.cluster));
	o.slot[14].instance.cookie = n;
	memset(o.slot[14].instance.boot_id, 3, DDR_UUID_LEN);
	strcpy(o.slot[14].name, "node7");
	o.debtor[0].node = 7;
	o.haunted[2] = (struct ddr_haunted){ .kind = 1 + n % 3, .since = n, .owes = { 1 }, .id = "naa.5000c500a1b2c3d4" };
	if (ddr_owners_encode(&o, &sb, pages).code)
		abort();
}

static void seed_stamp(uint64_t n, uint8_t *buf)
{
	struct ddr_stamp s = { .slot = buf[2], .kind = n & 2 ? DDR_STAMP_CLAIM : DDR_STAMP_OWNER, .seq = 1 + (n >> 8), .generation = 2, .node = 7,
			       .machine = { 1 }, .instance = { .boot_id = { 2 }, .cookie = n }, .stop_ms = 30000, .name = "node7" };
	struct ddr_super sb;

	array_of(&sb);
	buf[1] = s.seq & 1;
	s.claim[0] = s.kind == DDR_STAMP_CLAIM;
	memcpy(s.array_uuid, sb.array_uuid, sizeof(s.array_uuid));
	if (ddr_stamp_encode(&s, &sb, buf + HEAD).code)
		abort();
}

size_t fuzz_seed(uint64_t n, uint8_t *buf)
{
	memset(buf, 0, HEAD);
	buf[0] = n & 1;
	buf[2] = (uint8_t)((n >> 4) % SLOTS);
	if (buf[0])
		seed_stamp(n, buf);
	else
		seed_pages(n, buf + HEAD);
	return HEAD + (buf[0] ? 1 : PAGES) * DDR_META_BLOCK;
}

void fuzz_repair(uint8_t *buf, size_t size)
{
	for (size_t at = HEAD; at + DDR_META_BLOCK <= size; at += DDR_META_BLOCK) {
		uint32_t crc = ddr_crc32c_block(buf + at, DDR_META_BLOCK, CRC_AT);

		for (unsigned int i = 0; i < 4; i++)
			buf[at + CRC_AT + i] = (uint8_t)(crc >> (8 * i));
	}
}
