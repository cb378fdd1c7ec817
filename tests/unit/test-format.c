/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The superblock codec. Every field of <ddraid/format.h> is damaged here: once as a
 * disk would do it (the crc32c must notice), and once as a program would (the crc32c is
 * right, and the fault must name the field). A field that no row speaks of fails
 * test_every_field_has_a_row.
 */
#include <inttypes.h>

#include "tests/unit/fixture.h"

#define CRC_AT	offsetof(struct ddr_disk_sb, crc32c)
#define AT(f)	offsetof(struct ddr_disk_sb, f)
#define MIB	(1ull << 20)

/* The array that the rows below damage: order 2, parity 1, a spare; copy 0. */
static void make(struct ddr_super *sb, uint8_t *buf)
{
	fixture_super(sb, 2, 1, DDR_LAYOUT_ROTATING, 64 * MIB, 1);
	sb->generation = 5;
	fixture_uuid(sb->gen_prev, 99);
	sb->log_base = 3;
	sb->seq = 8;
	sb->slot_node[0] = 1;
	sb->slot_node[1] = 7;
	sb->verify = (struct ddr_verify){ 6, DDR_VERIFY_RUNNING, 4, DDR_VERIFY_F_REPAIR, 1700000001, 1700000002, 1000, 12, 11 };
	sb->member[1].state = DDR_MEMBER_REBUILDING;
	sb->member[1].cursor = 77;
	sb->member[1].since = 4;
	assert_int_equal(ddr_super_encode(sb, buf).code, DDR_FE_OK);
}

static void fix_crc(uint8_t *buf)
{
	fixture_put(buf + CRC_AT, fixture_crc32c(buf, 4096, (long)CRC_AT), 4);
}

static struct ddr_fault decode(const uint8_t *buf, struct ddr_super *sb)
{
	return ddr_super_decode(buf, 0, DDR_SB_OFFSET, sb);
}

/* -------------------------------------------------- what is right */

static void test_round_trip(void **state)
{
	static const uint64_t sizes[] = { 64 * MIB, 1ull << 40, 60ull << 40 };
	struct ddr_super sb, back;
	uint8_t buf[4096];

	(void)state;
	for (unsigned int n = 0; n < 4 * 3 * 2 * 3; n++) {
		fixture_super(&sb, n % 4, n / 4 % 3, n / 12 % 2, sizes[n / 24], n % 5);
		for (sb.seq = 1; sb.seq <= 2; sb.seq++) {
			unsigned int copy = ddr_super_copy(sb.seq);

			assert_int_equal(ddr_super_encode(&sb, buf).code, DDR_FE_OK);
			memset(&back, 0xee, sizeof(back));
			assert_int_equal(ddr_super_decode(buf, copy, ddr_super_offset(&sb, copy), &back).code, DDR_FE_OK);
			assert_memory_equal(&sb, &back, sizeof(sb));
		}
	}
}

/* Bytes at the offsets that doc/on-disk-format.md gives, little-endian, crc by another implementation. */
static void test_bytes_on_disk(void **state)
{
	struct ddr_super sb;
	uint8_t buf[4096];

	(void)state;
	make(&sb, buf);
	assert_memory_equal(buf, "DDrd", 4);
	assert_int_equal(fixture_get(buf + 4, 2), 1);
	assert_int_equal(fixture_get(buf + 8, 4), 4096);
	assert_int_equal(fixture_get(buf + 12, 4), fixture_crc32c(buf, 4096, 12));
	assert_int_equal(fixture_get(buf + 16, 8), 8);
	assert_memory_equal(buf + 40, sb.array_uuid, 16);
	assert_string_equal((char *)buf + 56, "fixture");
	assert_int_equal(buf[120], 2);
	assert_int_equal(buf[121], 1);
	assert_int_equal(buf[122], 1);
	assert_int_equal(fixture_get(buf + 124, 4), 1024);
	assert_int_equal(fixture_get(buf + 132, 4), sb.region_size);
	assert_int_equal(fixture_get(buf + 136, 8), sb.array_blocks);
	assert_int_equal(fixture_get(buf + 144, 8), sb.data_offset);
	assert_int_equal(fixture_get(buf + 152, 8), 5);
	assert_memory_equal(buf + 1024 + 64, sb.member[1].uuid, 16);
	assert_int_equal(buf[1024 + 64 + 16], DDR_MEMBER_REBUILDING);
	assert_int_equal(fixture_get(buf + 1024 + 64 + 24, 8), 77);
	assert_int_equal(fixture_get(buf + 2048 + 32, 4), 7);
}

/* The table of fields covers each of the 4096 bytes once. */
static void test_fields_cover_the_block(void **state)
{
	(void)state;
	for (int log = 0; log <= 1; log++) {
		const struct ddr_field *f;
		size_t n = ddr_fields(log, &f);
		uint8_t seen[4096] = { 0 };
		char name[64];

		for (size_t i = 0; i < n; i++)
			for (uint32_t k = 0; k < f[i].count; k++)
				for (uint32_t b = 0; b < f[i].size; b++)
					seen[f[i].offset + k * f[i].stride + b]++;
		for (uint32_t b = 0; b < 4096; b++) {
			assert_int_equal(seen[b], 1);
			assert_null(strstr(ddr_field_at(log, b, name, sizeof(name)), "byte"));
		}
	}
}

static void test_field_names(void **state)
{
	char name[64];

	(void)state;
	assert_string_equal(ddr_field_at(false, 120, name, sizeof(name)), "order");
	assert_string_equal(ddr_field_at(false, 1024 + 3 * 64 + 16, name, sizeof(name)), "member[3].state");
	assert_string_equal(ddr_field_at(false, 2048 + 63 * 32 + 31, name, sizeof(name)), "slot[63].reserved");
	assert_string_equal(ddr_field_at(true, 4095, name, sizeof(name)), "payload");
	assert_string_equal(ddr_field_at(true, 16, name, sizeof(name)), "seq");
}

/* -------------------------------------------------- damage as a disk does it */

static void test_every_bit_flip_is_noticed(void **state)
{
	struct ddr_super sb, back;
	uint8_t buf[4096];

	(void)state;
	make(&sb, buf);
	for (uint32_t byte = 0; byte < 4096; byte++) {
		enum ddr_format_error want = byte < 4 ? DDR_FE_MAGIC : byte == 4 || byte == 5 ? DDR_FE_VERSION :
					     byte >= 8 && byte < 12 ? DDR_FE_LENGTH : DDR_FE_CRC;

		buf[byte] ^= (uint8_t)(1u << byte % 8);
		assert_int_equal(decode(buf, &back).code, want);
		buf[byte] ^= (uint8_t)(1u << byte % 8);
	}
	assert_int_equal(decode(buf, &back).code, DDR_FE_OK);
}

/* A write that the disk cut at any sector: the old end or nothing behind the new beginning. */
static void test_torn_write(void **state)
{
	struct ddr_super sb, back;
	uint8_t old[4096], new[4096], torn[4096];

	(void)state;
	make(&sb, old);
	sb.seq += 2;
	sb.member[5].err_read = 1;
	sb.slot_node[15] = 9;
	sb.updated++;
	assert_int_equal(ddr_super_encode(&sb, new).code, DDR_FE_OK);
	for (uint32_t cut = 512; cut < 4096; cut += 512) {
		memcpy(torn, new, cut);
		memcpy(torn + cut, old + cut, 4096 - cut);
		/* from the last changed sector on, nothing is torn any more */
		assert_int_equal(decode(torn, &back).code, memcmp(torn, new, 4096) ? DDR_FE_CRC : DDR_FE_OK);
		memset(torn + cut, 0, 4096 - cut);
		assert_int_equal(decode(torn, &back).code, memcmp(torn, new, 4096) ? DDR_FE_CRC : DDR_FE_OK);
	}
	memset(torn, 0, sizeof(torn));
	assert_int_equal(decode(torn, &back).code, DDR_FE_BLANK);
}

/* -------------------------------------------------- damage with a right crc */

struct row {
	const char *field;		/* as in the table of fields */
	uint32_t offset;
	uint8_t size;
	uint64_t value;
	enum ddr_format_error want;
	uint32_t index;
};

#define ROW(f, v, e)	{ #f, AT(f), sizeof(((struct ddr_disk_sb *)0)->f), v, e, 0 }
#define BYTE(f, b, v, e) { #f, AT(f) + (b), 1, v, e, 0 }
#define MEM(i, f, v, e)	{ "member[]." #f, AT(member[i].f), sizeof(((struct ddr_disk_member *)0)->f), v, e, i }
#define MEMB(i, f, b, v, e) { "member[]." #f, AT(member[i].f) + (b), 1, v, e, i }
#define SLOT(i, f, v, e) { "slot[]." #f, AT(slot[i].f), sizeof(((struct ddr_disk_slot *)0)->f), v, e, i }

static const struct row rows[] = {
	ROW(magic, 0x64724445, DDR_FE_MAGIC), ROW(magic, DDR_LOG_MAGIC, DDR_FE_MAGIC),
	ROW(version, 0, DDR_FE_VERSION), ROW(version, 2, DDR_FE_VERSION),
	ROW(reserved0, 1, DDR_FE_RESERVED),
	ROW(length, 0, DDR_FE_LENGTH), ROW(length, 4095, DDR_FE_LENGTH), ROW(length, 8192, DDR_FE_LENGTH),
	ROW(seq, 0, DDR_FE_SEQ), ROW(seq, 9, DDR_FE_SEQ),
	/* Finding U9: numbers that nothing can follow; the largest that there are */
	ROW(seq, 0xfffffffe, DDR_FE_OK), ROW(seq, 1ull << 32, DDR_FE_SEQ_LIMIT), ROW(seq, UINT64_MAX - 1, DDR_FE_SEQ_LIMIT),
	ROW(generation, INT64_MAX, DDR_FE_OK), ROW(generation, 1ull << 63, DDR_FE_GENERATION_LIMIT), ROW(generation, UINT64_MAX, DDR_FE_GENERATION_LIMIT),
	ROW(verify_serial, UINT32_MAX, DDR_FE_OK), SLOT(0, node, UINT32_MAX, DDR_FE_OK), SLOT(0, node, 65, DDR_FE_OK), SLOT(0, node, 64, DDR_FE_OK),
	ROW(compat, 1, DDR_FE_OK), ROW(ro_compat, 2, DDR_FE_OK),
	ROW(incompat, 1, DDR_FE_O_PAGES), ROW(incompat, 2, DDR_FE_INCOMPAT), ROW(incompat, 1u << 31, DDR_FE_INCOMPAT),
	ROW(policy, 2, DDR_FE_POLICY), ROW(policy, DDR_POLICY_SUSPECT_READS_ERROR, DDR_FE_OK),
	BYTE(name, 0, 0, DDR_FE_NAME), BYTE(name, 0, '-', DDR_FE_NAME), BYTE(name, 2, '/', DDR_FE_NAME),
	BYTE(name, 2, 0x1b, DDR_FE_NAME), BYTE(name, 2, ' ', DDR_FE_NAME), BYTE(name, 2, 0xc3, DDR_FE_NAME),
	BYTE(name, 20, 'x', DDR_FE_NAME), BYTE(name, 63, 'x', DDR_FE_NAME), BYTE(name, 2, 0, DDR_FE_NAME),
	ROW(order, 4, DDR_FE_ORDER), ROW(order, 255, DDR_FE_ORDER), ROW(order, 1, DDR_FE_CHUNK),
	ROW(order, 3, DDR_FE_CHUNK),
	ROW(parity, 3, DDR_FE_PARITY), ROW(parity, 2, DDR_FE_ROLES), ROW(parity, 0, DDR_FE_VERIFY),
	ROW(layout, 2, DDR_FE_LAYOUT), ROW(layout, 0, DDR_FE_OK),
	ROW(reserved1, 1, DDR_FE_RESERVED),
	ROW(chunk, 0, DDR_FE_CHUNK), ROW(chunk, 2048, DDR_FE_CHUNK), ROW(chunk, UINT32_MAX, DDR_FE_CHUNK),
	ROW(block_size, 0, DDR_FE_BLOCK_SIZE), ROW(block_size, 512, DDR_FE_BLOCK_SIZE),
	ROW(block_size, 8192, DDR_FE_BLOCK_SIZE),
	ROW(region_size, 0, DDR_FE_REGION_SIZE), ROW(region_size, 32 << 10, DDR_FE_REGION_SIZE),
	ROW(region_size, 2u << 30, DDR_FE_REGION_SIZE), ROW(region_size, 5 << 20, DDR_FE_REGION_SIZE),
	ROW(array_blocks, 0, DDR_FE_ARRAY_BLOCKS), ROW(array_blocks, 1, DDR_FE_ARRAY_BLOCKS),
	ROW(array_blocks, 4u * 4097 + 2, DDR_FE_ARRAY_BLOCKS), ROW(array_blocks, UINT64_MAX & ~3ull, DDR_FE_REGIONS),
	ROW(array_blocks, 1ull << 31, DDR_FE_REGIONS), ROW(array_blocks, 31745ull << 10, DDR_FE_LOG_BLOCKS),
	ROW(array_blocks, 7937ull << 10, DDR_FE_MAP_BLOCKS),
	ROW(data_offset, 0, DDR_FE_DATA_OFFSET), ROW(data_offset, MIB + 4096, DDR_FE_DATA_OFFSET),
	ROW(data_offset, 33 * MIB, DDR_FE_DATA_OFFSET), ROW(data_offset, UINT64_MAX - MIB + 1, DDR_FE_DATA_OFFSET),
	ROW(generation, 0, DDR_FE_GENERATION), ROW(generation, 1, DDR_FE_GEN_PREV), ROW(generation, 2, DDR_FE_LOG_BASE),
	ROW(generation, 3, DDR_FE_M_SINCE),
	ROW(log_base, 6, DDR_FE_LOG_BASE), ROW(log_base, UINT64_MAX, DDR_FE_LOG_BASE),
	ROW(log_offset, 0, DDR_FE_LOG_OFFSET), ROW(log_offset, 4096, DDR_FE_LOG_OFFSET),
	ROW(log_offset, 8193, DDR_FE_LOG_OFFSET), ROW(log_offset, 2 * MIB, DDR_FE_LOG_OFFSET),
	ROW(log_offset, UINT64_MAX - 4095, DDR_FE_LOG_OFFSET), ROW(log_offset, 12288, DDR_FE_MAP_OFFSET),
	ROW(log_blocks, 0, DDR_FE_LOG_BLOCKS), ROW(log_blocks, 2, DDR_FE_MAP_OFFSET),
	ROW(log_blocks, 35, DDR_FE_LOG_BLOCKS), ROW(log_blocks, UINT32_MAX, DDR_FE_LOG_BLOCKS),
	ROW(slots, 0, DDR_FE_SLOTS), ROW(slots, 65, DDR_FE_SLOTS), ROW(slots, UINT32_MAX, DDR_FE_SLOTS),
	ROW(slots, 17, DDR_FE_MAP_OFFSET), ROW(slots, 1, DDR_FE_S_UNUSED),
	ROW(map_offset, 0, DDR_FE_MAP_OFFSET), ROW(map_offset, 8192, DDR_FE_MAP_OFFSET),
	ROW(map_offset, 8192 + 16 * 8192 + 1, DDR_FE_MAP_OFFSET), ROW(map_offset, MIB - 4096, DDR_FE_DATA_OFFSET),
	ROW(map_offset, MIB - 8192, DDR_FE_DATA_OFFSET), ROW(map_offset, UINT64_MAX - 4095, DDR_FE_MAP_OFFSET),
	ROW(map_blocks, 0, DDR_FE_MAP_BLOCKS), ROW(map_blocks, 2, DDR_FE_OK),
	ROW(map_blocks, 134, DDR_FE_MAP_BLOCKS), ROW(map_blocks, UINT32_MAX, DDR_FE_MAP_BLOCKS),
	ROW(roles, 0, DDR_FE_ROLES), ROW(roles, 6, DDR_FE_ROLES), ROW(roles, UINT16_MAX, DDR_FE_ROLES),
	ROW(members, 0, DDR_FE_MEMBERS), ROW(members, 4, DDR_FE_MEMBERS), ROW(members, 17, DDR_FE_MEMBERS),
	ROW(members, 5, DDR_FE_M_UNUSED), ROW(members, 7, DDR_FE_M_UUID),
	ROW(this_member, 6, DDR_FE_THIS_MEMBER), ROW(this_member, UINT16_MAX, DDR_FE_THIS_MEMBER),
	ROW(reserved2, 1, DDR_FE_RESERVED), ROW(reserved3, 1, DDR_FE_RESERVED),
	ROW(created, UINT64_MAX, DDR_FE_OK), ROW(updated, 0, DDR_FE_OK),
	ROW(verify_serial, 0, DDR_FE_VERIFY), ROW(verify_state, 0, DDR_FE_VERIFY), ROW(verify_state, 2, DDR_FE_OK), ROW(verify_state, 3, DDR_FE_VERIFY),
	ROW(verify_priority, 0, DDR_FE_VERIFY), ROW(verify_priority, 6, DDR_FE_VERIFY), ROW(verify_flags, 4, DDR_FE_VERIFY),
	ROW(verify_cursor, UINT64_MAX, DDR_FE_VERIFY), ROW(verify_begun, 0, DDR_FE_OK), ROW(verify_ended, UINT64_MAX, DDR_FE_OK),
	ROW(verify_found, UINT64_MAX, DDR_FE_OK), ROW(verify_repaired, UINT64_MAX, DDR_FE_OK), ROW(reserved5, 1, DDR_FE_RESERVED),
	ROW(owner_offset, 4096, DDR_FE_O_AREA), ROW(owner_pages, 4, DDR_FE_O_AREA), ROW(owner_crc, 1, DDR_FE_O_AREA), ROW(reserved6, 1, DDR_FE_RESERVED),
	BYTE(reserved4, 0, 1, DDR_FE_RESERVED), BYTE(reserved4, 703, 1, DDR_FE_RESERVED),

	MEM(0, state, 0, DDR_FE_M_STATE), MEM(3, state, 6, DDR_FE_M_STATE), MEM(3, state, 255, DDR_FE_M_STATE),
	MEM(3, state, DDR_MEMBER_SPARE, DDR_FE_M_ROLE), MEM(5, state, DDR_MEMBER_IN_SYNC, DDR_FE_M_ROLE),
	MEM(5, state, DDR_MEMBER_FAULTY, DDR_FE_OK), MEM(3, state, DDR_MEMBER_MISSING, DDR_FE_OK),
	MEM(2, flags, 1, DDR_FE_M_FLAGS), MEM(15, flags, 1, DDR_FE_M_UNUSED), MEM(1, flags, 1, DDR_FE_OK),
	MEM(1, flags, 2, DDR_FE_M_FLAGS), MEMB(0, last_gen, 7, 1, DDR_FE_OK), MEMB(9, last_gen, 0, 1, DDR_FE_M_UNUSED),
	MEM(0, role, 5, DDR_FE_M_ROLE), MEM(0, role, DDR_ROLE_NONE, DDR_FE_M_ROLE), MEM(5, role, 0, DDR_FE_M_ROLE),
	MEM(2, export_node, 5, DDR_FE_OK),
	MEM(0, cursor, 1, DDR_FE_M_CURSOR), MEM(1, cursor, UINT64_MAX, DDR_FE_M_CURSOR),
	MEM(1, cursor, 0, DDR_FE_OK),
	MEM(0, since, 0, DDR_FE_M_SINCE), MEM(1, since, 6, DDR_FE_M_SINCE), MEM(1, since, UINT64_MAX, DDR_FE_M_SINCE),
	MEM(0, err_read, UINT32_MAX, DDR_FE_OK), MEM(0, err_write, UINT32_MAX, DDR_FE_OK),
	MEM(0, err_corrected, UINT32_MAX, DDR_FE_OK),
	MEMB(0, reserved, 0, 1, DDR_FE_RESERVED), MEMB(15, reserved, 3, 1, DDR_FE_RESERVED),
	MEM(6, state, 1, DDR_FE_M_UNUSED), MEM(15, cursor, 1, DDR_FE_M_UNUSED), MEM(9, role, 1, DDR_FE_M_UNUSED),
	MEM(9, err_read, 1, DDR_FE_M_UNUSED), MEM(9, err_write, 1, DDR_FE_M_UNUSED),
	MEM(9, err_corrected, 1, DDR_FE_M_UNUSED), MEM(9, since, 1, DDR_FE_M_UNUSED),
	MEM(9, export_node, 1, DDR_FE_M_UNUSED), MEMB(9, uuid, 3, 1, DDR_FE_M_UNUSED),
	SLOT(2, node, 7, DDR_FE_S_NODE_TWICE), SLOT(16, node, 9, DDR_FE_S_UNUSED), SLOT(63, node, 9, DDR_FE_S_UNUSED),
	SLOT(2, node, 9, DDR_FE_OK),
	SLOT(0, flags, 1, DDR_FE_S_FLAGS), SLOT(63, flags, 1, DDR_FE_S_FLAGS),
	{ "slot[].reserved", AT(slot[0].reserved), 1, 1, DDR_FE_RESERVED, 0 },
	{ "slot[].reserved", AT(slot[63].reserved) + 23, 1, 1, DDR_FE_RESERVED, 0 },
};

#define N_ROWS	(sizeof(rows) / sizeof(rows[0]))

static bool about_an_entry(enum ddr_format_error code)
{
	return code >= DDR_FE_M_UUID && code <= DDR_FE_S_UNUSED && code != DDR_FE_M_ROLE_NOBODY;
}

static void test_every_field_is_checked(void **state)
{
	struct ddr_super sb, back;
	uint8_t good[4096], buf[4096];
	char text[256];

	(void)state;
	make(&sb, good);
	for (size_t i = 0; i < N_ROWS; i++) {
		const struct row *r = &rows[i];
		struct ddr_fault fault;

		memcpy(buf, good, sizeof(buf));
		fixture_put(buf + r->offset, r->value, r->size);
		assert_memory_not_equal(buf, good, sizeof(buf));	/* the defect is there */
		fix_crc(buf);
		memset(&back, 0xee, sizeof(back));
		fault = decode(buf, &back);
		if (fault.code != r->want)
			fail_msg("row %zu, %s = %" PRIu64 ": %s (%s), not %s", i, r->field, r->value,
				 ddr_format_error_name(fault.code), ddr_fault_text(&fault, text, sizeof(text)),
				 ddr_format_error_name(r->want));
		if (about_an_entry(fault.code) && strstr(r->field, "[]"))
			assert_int_equal(fault.index, r->index);
		if (fault.code) {	/* nothing was handed out */
			for (size_t b = 0; b < sizeof(back); b++)
				assert_int_equal(((uint8_t *)&back)[b], 0xee);
		}
	}
}

/* A whole field of 16 bytes. */
static void test_uuids(void **state)
{
	static const struct { uint32_t at, from; enum ddr_format_error want; } cases[] = {
		{ AT(array_uuid), 4000, DDR_FE_UUID },		/* 4000: zeroes */
		{ AT(gen_id), 4000, DDR_FE_GEN_ID },
		{ AT(gen_id), AT(gen_prev), DDR_FE_GEN_PREV },	/* the same name for two generations */
		{ AT(gen_prev), 4000, DDR_FE_GEN_PREV },
		{ AT(member[0].uuid), 4000, DDR_FE_M_UUID },
		{ AT(member[5].uuid), 4000, DDR_FE_M_UUID },
		{ AT(member[5].uuid), AT(member[2].uuid), DDR_FE_M_UUID_TWICE },
	};
	struct ddr_super sb, back;
	uint8_t buf[4096], value[16];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		make(&sb, buf);
		memcpy(value, buf + cases[i].from, sizeof(value));
		memcpy(buf + cases[i].at, value, sizeof(value));
		fix_crc(buf);
		assert_int_equal(decode(buf, &back).code, cases[i].want);
	}
}

static void test_every_field_has_a_row(void **state)
{
	const struct ddr_field *f;
	size_t n = ddr_fields(false, &f);

	(void)state;
	for (size_t i = 0; i < n; i++) {
		bool found = strcmp(f[i].name, "crc32c") == 0 || strstr(f[i].name, "uuid") ||
			     strncmp(f[i].name, "gen_", 4) == 0;

		for (size_t r = 0; r < N_ROWS && !found; r++)
			found = strcmp(rows[r].field, f[i].name) == 0;
		if (!found)
			fail_msg("no row damages %s", f[i].name);
	}
}

/* -------------------------------------------------- rules across the member table */

static void test_roles(void **state)
{
	struct ddr_super sb, ok;
	uint8_t buf[4096];

	(void)state;
	make(&ok, buf);
	sb = ok;
	sb.member[0].role = 2;			/* two in sync, and role 0 empty */
	assert_int_equal(ddr_super_check(&sb).code, DDR_FE_M_ROLE_NOBODY);
	sb.member[5].state = DDR_MEMBER_IN_SYNC;
	sb.member[5].role = 0;
	assert_int_equal(ddr_super_check(&sb).code, DDR_FE_M_ROLE_TWICE);
	sb = ok;				/* a spare that a role is copied to */
	sb.member[5].state = DDR_MEMBER_REBUILDING;
	sb.member[5].role = 3;
	assert_int_equal(ddr_super_check(&sb).code, DDR_FE_M_ROLE_TWICE);	/* and that does not say so */
	sb.member[5].flags = DDR_MEMBER_F_REPLACING;
	assert_int_equal(ddr_super_check(&sb).code, DDR_FE_OK);
	sb.member[5].flags = DDR_MEMBER_F_REPLACING | DDR_MEMBER_F_PARTIAL;
	assert_int_equal(ddr_super_check(&sb).code, DDR_FE_M_FLAGS);
	sb.member[5].flags = DDR_MEMBER_F_REPLACING;
	sb.member[3].state = DDR_MEMBER_FAULTY;	/* of one that is not in sync there is no copy */
	assert_int_equal(ddr_super_check(&sb).code, DDR_FE_M_ROLE_TWICE);
	sb.member[3].role = DDR_ROLE_NONE;	/* nor a copy of nobody */
	assert_int_equal(ddr_super_check(&sb).code, DDR_FE_M_FLAGS);
	sb.member[5].flags = 0;
	assert_int_equal(ddr_super_check(&sb).code, DDR_FE_OK);
	sb = ok;
	sb.member[5].state = DDR_MEMBER_REBUILDING;
	sb.member[5].flags = DDR_MEMBER_F_REPLACING;
	sb.member[5].role = 1;			/* which another member is rebuilding */
	assert_int_equal(ddr_super_check(&sb).code, DDR_FE_M_ROLE_TWICE);
	sb = ok;				/* a spare took the role of one that failed */
	sb.member[2].state = DDR_MEMBER_FAULTY;
	sb.member[2].role = DDR_ROLE_NONE;
	assert_int_equal(ddr_super_check(&sb).code, DDR_FE_M_ROLE_NOBODY);
	sb.member[5].state = DDR_MEMBER_IN_SYNC;
	sb.member[5].role = 2;
	assert_int_equal(ddr_super_check(&sb).code, DDR_FE_OK);
}

/* -------------------------------------------------- format 2 */

static void test_format_2(void **state)
{
	static const struct row owned[] = {
		ROW(owner_pages, 0, DDR_FE_O_PAGES), ROW(owner_pages, 5, DDR_FE_O_PAGES), ROW(owner_offset, 0, DDR_FE_O_AREA),
		ROW(owner_offset, 4097, DDR_FE_O_AREA), ROW(owner_offset, UINT64_MAX - 4095, DDR_FE_O_AREA), ROW(incompat, 0, DDR_FE_O_AREA),
		ROW(incompat, 3, DDR_FE_INCOMPAT), ROW(owner_crc, 7, DDR_FE_OK), ROW(reserved6, 1, DDR_FE_RESERVED),
	};
	struct ddr_super sb, back;
	struct ddr_error err;
	uint8_t good[4096], buf[4096];
	uint64_t place;

	(void)state;
	make(&sb, buf);
	assert_int_equal(ddr_layout_owners(&sb, &err), 0);
	sb.owner_crc = 0x12345678;
	assert_int_equal(ddr_super_encode(&sb, good).code, DDR_FE_OK);
	assert_int_equal(decode(good, &back).code, DDR_FE_OK);
	assert_memory_equal(&back, &sb, sizeof(sb));
	ddr_super_set_owner_crc(good, 0x9abcdef0);
	assert_int_equal(decode(good, &back).code, DDR_FE_OK);
	assert_int_equal(back.owner_crc, 0x9abcdef0);
	for (size_t i = 0; i < sizeof(owned) / sizeof(owned[0]); i++) {
		memcpy(buf, good, sizeof(buf));
		fixture_put(buf + owned[i].offset, owned[i].value, owned[i].size);
		fix_crc(buf);
		if (decode(buf, &back).code != owned[i].want)
			fail_msg("row %zu, %s: %s", i, owned[i].field, ddr_format_error_name(decode(buf, &back).code));
	}
	/* every place between the map and copy 1, and no other */
	for (place = 4096; place <= sb.data_offset + 4096; place += 4096) {
		bool fits = place >= ddr_map_offset(&sb, sb.map_blocks, 0) && place + 163840 <= sb.data_offset - 4096;

		memcpy(buf, good, sizeof(buf));
		fixture_put(buf + AT(owner_offset), place, 8);
		fix_crc(buf);
		assert_int_equal(decode(buf, &back).code, fits ? DDR_FE_OK : DDR_FE_O_AREA);
	}
}

/* -------------------------------------------------- features */

static void test_features(void **state)
{
	struct ddr_super sb, back;
	uint8_t buf[4096];

	(void)state;
	/* a compat feature may use reserved bytes; writing drops it, bit and bytes */
	make(&sb, buf);
	fixture_put(buf + AT(compat), 4, 4);
	fixture_put(buf + AT(reserved4), 0x1234, 8);
	fix_crc(buf);
	assert_int_equal(decode(buf, &back).code, DDR_FE_OK);
	assert_false(ddr_super_ro_only(&back));
	assert_int_equal(back.compat, 4);
	assert_int_equal(ddr_super_encode(&back, buf).code, DDR_FE_OK);
	assert_int_equal(fixture_get(buf + AT(compat), 4), 0);
	assert_int_equal(fixture_get(buf + AT(reserved4), 8), 0);
	/* an ro-compat feature: readable, not writable */
	make(&sb, buf);
	fixture_put(buf + AT(ro_compat), 2, 4);
	fix_crc(buf);
	assert_int_equal(decode(buf, &back).code, DDR_FE_OK);
	assert_true(ddr_super_ro_only(&back));
	assert_int_equal(ddr_super_encode(&back, buf).code, DDR_FE_RO_COMPAT);
}

static void test_encode_refuses(void **state)
{
	struct ddr_super sb;
	uint8_t buf[4096], zero[4096] = { 0 };

	(void)state;
	make(&sb, buf);
	sb.order = 3;
	assert_int_equal(ddr_super_encode(&sb, buf).code, DDR_FE_CHUNK);
	assert_memory_equal(buf, zero, sizeof(buf));
}

/* -------------------------------------------------- two copies */

static void test_place(void **state)
{
	struct ddr_super sb, back;
	uint8_t buf[4096];

	(void)state;
	make(&sb, buf);
	assert_int_equal(ddr_super_decode(buf, 1, ddr_super_offset(&sb, 1), &back).code, DDR_FE_SEQ);
	sb.seq = 9;
	assert_int_equal(ddr_super_encode(&sb, buf).code, DDR_FE_OK);
	assert_int_equal(ddr_super_decode(buf, 1, ddr_super_offset(&sb, 1), &back).code, DDR_FE_OK);
	/* a copy inside user data, at an offset that is not its own */
	assert_int_equal(ddr_super_decode(buf, 1, ddr_super_offset(&sb, 1) + MIB, &back).code, DDR_FE_POSITION);
	sb.seq = 8;
	assert_int_equal(ddr_super_encode(&sb, buf).code, DDR_FE_OK);
	assert_int_equal(ddr_super_decode(buf, 0, 8192, &back).code, DDR_FE_POSITION);
}

static void test_newer(void **state)
{
	struct ddr_super a, b;
	uint8_t buf[4096];

	(void)state;
	make(&a, buf);
	b = a;
	b.seq = a.seq + 1;
	assert_ptr_equal(ddr_super_newer(&a, &b), &b);
	b.seq = a.seq - 1;
	assert_ptr_equal(ddr_super_newer(&a, &b), &a);
	assert_ptr_equal(ddr_super_newer(&a, NULL), &a);
	assert_ptr_equal(ddr_super_newer(NULL, &b), &b);
	assert_null(ddr_super_newer(NULL, NULL));
	assert_true(ddr_super_same_member(&a, &b));
	b.this_member = 2;
	assert_false(ddr_super_same_member(&a, &b));
}

/* Every fault has a name and a sentence of one line. */
static void test_sentences(void **state)
{
	char text[256];

	(void)state;
	for (unsigned int i = 0; i < DDR_FE_COUNT; i++) {
		struct ddr_fault fault = { .code = (enum ddr_format_error)i, .index = 3, .a = 17, .b = 4 };

		assert_true(strlen(ddr_format_error_name(fault.code)) > 1);
		assert_true(strlen(ddr_fault_text(&fault, text, sizeof(text))) > 7);
		assert_null(strchr(text, '\n'));
	}
	assert_non_null(ddr_format_error_name(DDR_FE_COUNT));
}

/* Findings S15, P8: arrays were created with these names and could never be used. Superblocks that have one are read all the same: rename needs that. */
static void test_names_that_cannot_work(void **state)
{
	static const char *const bad[] = { "control", "0e6f9f86-1234-4000-8000-00000000abcd", "0E6F9F86-1234-4000-8000-00000000ABCD", "", ".", "-x", "a/b", "a b", "a:b",
					   "a\n", "\303\244",
					   "0123456789012345678901234567890123456789012345678901234567890123" };
	static const char *const good[] = { "data", "controls", "Control", "0e6f9f86", "0e6f9f86-1234-4000-8000-00000000abc", "0e6f9f86-1234-4000-8000-00000000abcde",
					    "0e6f9f86-1234-4000-8000-00000000abcg", "a.b_c+d-e",
					    "012345678901234567890123456789012345678901234567890123456789012" };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_non_null(ddr_name_refused(bad[i]));
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_null(ddr_name_refused(good[i]));
	for (size_t i = 0; i < 2; i++)
		assert_true(ddr_name_valid(bad[i], strlen(bad[i]) + 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_that_cannot_work),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_bytes_on_disk),
		cmocka_unit_test(test_fields_cover_the_block),
		cmocka_unit_test(test_field_names),
		cmocka_unit_test(test_every_bit_flip_is_noticed),
		cmocka_unit_test(test_torn_write),
		cmocka_unit_test(test_every_field_is_checked),
		cmocka_unit_test(test_uuids),
		cmocka_unit_test(test_every_field_has_a_row),
		cmocka_unit_test(test_roles),
		cmocka_unit_test(test_format_2),
		cmocka_unit_test(test_features),
		cmocka_unit_test(test_encode_refuses),
		cmocka_unit_test(test_place),
		cmocka_unit_test(test_newer),
		cmocka_unit_test(test_sentences),
	};

	return cmocka_run_group_tests_name("format", tests, NULL, NULL);
}
