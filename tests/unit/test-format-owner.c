/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The codec of format 2's owner pages and stamps: round trip, every byte changed, torn writes, every rule broken with a right crc; and their place. */
#include <inttypes.h>

#include "lib/disk/format_owner.h"
#include "tests/unit/fixture.h"

#define GIB	(1ull << 30)
#define PAGE	4096u
#define CRC_AT	offsetof(struct ddr_disk_page, crc32c)

static struct ddr_super sb;
static struct ddr_owners full;
static uint8_t pages[DDR_MAX_OWNER_PAGES * PAGE], work[DDR_MAX_OWNER_PAGES * PAGE];

/* An array of @slots slots of format 2, and owner pages in which everything is used. */
static void make(uint32_t slots)
{
	struct ddr_layout_request req = { .member_bytes = 300 * GIB, .order = 2, .parity = 1, .slots = slots };
	struct ddr_error err;
	uint64_t seed = slots;

	fixture_super(&sb, 2, 1, DDR_LAYOUT_ROTATING, 2 * GIB, 0);
	assert_int_equal(ddr_layout_compute(&req, &sb, &err), 0);
	sb.data_offset = 16u << 20;		/* room for any number of slots */
	if (ddr_layout_owners(&sb, &err))
		fail_msg("%s", err.text);
	for (uint32_t i = 0; i < slots; i++)
		sb.slot_node[i] = i % 3 ? 100 + i : 0;
	ddr_owners_init(&full, &sb);
	fixture_uuid(full.cluster, 9);
	for (uint32_t i = 0; i < slots; i++) {
		struct ddr_owner *o = &full.slot[i];

		fixture_uuid(o->machine, 1000 + i);
		fixture_uuid(o->instance.boot_id, 2000 + i);
		o->instance.cookie = fixture_random(&seed);
		o->since = 1700000000 + i;
		snprintf(o->name, sizeof(o->name), "node%u.example", i);
		o->log_seq = i % 3 ? (uint64_t)(i + 1) << 32 : 0;
		o->renewed = i % 3 == 1;
		if (i % 3 == 2) {
			o->state = DDR_SLOT_FENCED;
			o->fenced = o->instance;
			o->fenced_time = 1700000001;
		}
	}
	for (uint32_t i = 0; i < ddr_owner_debtor_pages(slots) * DDR_PAGE_DEBTORS; i++) {
		full.debtor[i].node = 100 + i;
		fixture_uuid(full.debtor[i].machine, 3000 + i);
		fixture_uuid(full.debtor[i].boot_id, 4000 + i);
		snprintf(full.debtor[i].name, sizeof(full.debtor[i].name), "debtor%u", i);
	}
	for (uint32_t i = 0; i < DDR_MAX_HAUNTED; i++) {
		struct ddr_haunted *h = &full.haunted[i];

		*h = (struct ddr_haunted){ .kind = (uint8_t)(1 + i % 3), .flags = i % 2, .settle = 10, .since = 1700000000, .unanswered = i };
		fixture_uuid(h->member, 5000 + i);
		snprintf(h->id, sizeof(h->id), "naa.5000c500%08x", i);
		h->owes[0] = (uint8_t)(1u << i % 8);
		h->owes[3] = 0x20;		/* debtor 29: the last one of a page */
	}
	memset(pages, 0xee, sizeof(pages));
	assert_int_equal(ddr_owners_encode(&full, &sb, pages).code, DDR_FE_OK);
}

static void fix_crc(uint8_t *block)
{
	fixture_put(block + CRC_AT, fixture_crc32c(block, PAGE, (long)CRC_AT), 4);
}

/* The pages in @work decode as @want, if their crcs and that of the superblock are right. */
static void expect(enum ddr_format_error want, const char *what)
{
	struct ddr_super right = sb;
	struct ddr_owners back;
	struct ddr_fault fault;
	char text[256];

	for (uint32_t i = 0; i < sb.owner_pages; i++)
		fix_crc(work + i * PAGE);
	right.owner_crc = fixture_crc32c(work, (size_t)sb.owner_pages * PAGE, -1);
	memset(&back, 0xee, sizeof(back));
	fault = ddr_owners_decode(work, &right, &back);
	if (fault.code != want)
		fail_msg("%s: %s", what, ddr_fault_text(&fault, text, sizeof(text)));
	if (want)
		assert_int_equal(back.slot[0].node, 0xeeeeeeeeu);
}

/* ---- pages ------------------------------------------------------------------------- */

static void test_round_trip(void **state)
{
	static const uint32_t slots[] = { 1, 2, 15, 16, 30, 31, 45, 46, 60, 61, 64 };
	struct ddr_owners back;

	(void)state;
	for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++) {
		make(slots[i]);
		assert_true(sb.owner_pages <= DDR_MAX_OWNER_PAGES);
		assert_int_equal(sb.owner_crc, fixture_crc32c(pages, (size_t)sb.owner_pages * PAGE, -1));
		memset(&back, 0, sizeof(back));
		assert_int_equal(ddr_owners_decode(pages, &sb, &back).code, DDR_FE_OK);
		assert_memory_equal(&back, &full, sizeof(back));
		assert_int_equal(ddr_owners_decode(pages, &sb, NULL).code, DDR_FE_OK);
	}
}

/* The numbers of doc/on-disk-format.md, section 10. */
static void test_sizes(void **state)
{
	(void)state;
	assert_int_equal(ddr_owner_pages(16), 4);
	assert_int_equal(ddr_owner_bytes(16), 163840);
	assert_int_equal(ddr_owner_pages(64), 9);
	assert_int_equal(ddr_owner_bytes(64), 598016);
	assert_int_equal(ddr_owner_pages(64), DDR_MAX_OWNER_PAGES);
	assert_int_equal(ddr_owner_debtor_pages(64) * DDR_PAGE_DEBTORS, DDR_MAX_DEBTORS);
}

static void test_every_byte_flip_is_noticed(void **state)
{
	(void)state;
	make(16);
	for (uint32_t i = 0; i < sb.owner_pages * PAGE; i++) {
		pages[i] ^= (uint8_t)(1u << i % 8);
		assert_int_not_equal(ddr_owners_decode(pages, &sb, NULL).code, DDR_FE_OK);
		pages[i] ^= (uint8_t)(1u << i % 8);
	}
	assert_int_equal(ddr_owners_decode(pages, &sb, NULL).code, DDR_FE_OK);
}

/*
 * With the crc of its page and that of the superblock right, every changed byte changes what is read, or is refused: no byte is without a meaning.
 */
static void test_every_byte_means_something(void **state)
{
	struct ddr_super right;
	struct ddr_owners back;

	(void)state;
	make(16);
	for (uint32_t i = 0; i < sb.owner_pages * PAGE; i++) {
		memcpy(work, pages, sizeof(work));
		work[i] ^= 0x41;
		if (i % PAGE >= CRC_AT && i % PAGE < CRC_AT + 4)
			continue;
		fix_crc(work + i / PAGE * PAGE);
		right = sb;
		right.owner_crc = fixture_crc32c(work, (size_t)sb.owner_pages * PAGE, -1);
		if (ddr_owners_decode(work, &right, &back).code == DDR_FE_OK)
			assert_memory_not_equal(&back, &full, sizeof(back));
		if (i % 37)
			i += 2;		/* every one takes too long bit by bit; the step is coprime to the size of all entries */
	}
}

/* A write that was cut at any sector leaves pages that do not go with either superblock. */
static void test_torn_write(void **state)
{
	struct ddr_super new;
	static uint8_t next[sizeof(pages)];
	unsigned int seen = 0;
	bool whole;

	(void)state;
	make(16);
	new = sb;
	new.seq += 2;
	full.slot[1].since++;
	assert_int_equal(ddr_owners_encode(&full, &new, next).code, DDR_FE_OK);
	assert_int_equal(ddr_owners_decode(next, &sb, NULL).code, DDR_FE_O_SEQ);
	assert_int_equal(ddr_owners_decode(pages, &new, NULL).code, DDR_FE_O_SEQ);
	for (uint32_t cut = 512; cut < sb.owner_pages * PAGE; cut += 512) {
		memcpy(work, next, cut);
		memcpy(work + cut, pages + cut, sizeof(work) - cut);
		assert_int_not_equal(ddr_owners_decode(work, &sb, NULL).code, DDR_FE_OK);
		whole = memcmp(work, next, (size_t)sb.owner_pages * PAGE) == 0;	/* the last entries are not used */
		assert_int_equal(ddr_owners_decode(work, &new, NULL).code == DDR_FE_OK, whole);
		seen += whole;
	}
	assert_true(seen < 10);
	memset(work, 0, sizeof(work));
	assert_int_equal(ddr_owners_decode(work, &sb, NULL).code, DDR_FE_O_PAGE);	/* the superblock is not blank */
}

/* All right in themselves, with the right seq, but another change's: another writer used the same number. */
static void test_another_change_of_the_same_seq(void **state)
{
	struct ddr_super other = sb;

	(void)state;
	make(16);
	other = sb;
	full.slot[1].since++;
	assert_int_equal(ddr_owners_encode(&full, &other, work).code, DDR_FE_OK);
	assert_int_equal(ddr_owners_decode(work, &sb, NULL).code, DDR_FE_O_CRC);
}

struct row {
	const char *what;
	uint32_t page, offset;
	uint16_t size;
	uint64_t value;
	enum ddr_format_error want;
};

#define HEAD(f, v, e)		{ #f, 1, offsetof(struct ddr_disk_page, f), sizeof(((struct ddr_disk_page *)0)->f), v, e }
#define SLOT(n, f, v, e)	{ "slot " #f, n / 15, (uint32_t)(256 + n % 15 * 256 + offsetof(struct ddr_disk_owner, f)), \
				  sizeof(((struct ddr_disk_owner *)0)->f) <= 8 ? sizeof(((struct ddr_disk_owner *)0)->f) : 1, v, e }
#define DISK(n, f, v, e)	{ "disk " #f, 2, (uint32_t)(256 + n * 256 + offsetof(struct ddr_disk_haunted, f)), \
				  sizeof(((struct ddr_disk_haunted *)0)->f) <= 8 ? sizeof(((struct ddr_disk_haunted *)0)->f) : 1, v, e }
#define DEBT(n, f, v, e)	{ "debtor " #f, 3, (uint32_t)(256 + n * 128 + offsetof(struct ddr_disk_debtor, f)), \
				  sizeof(((struct ddr_disk_debtor *)0)->f) <= 8 ? sizeof(((struct ddr_disk_debtor *)0)->f) : 1, v, e }

/* Slots 0, 3, 6 ... are free, 1, 4, 7 ... owned, 2, 5, 8 ... fenced. */
static const struct row rows[] = {
	HEAD(magic, DDR_LOG_MAGIC, DDR_FE_O_PAGE), HEAD(version, 2, DDR_FE_O_PAGE), HEAD(length, 8192, DDR_FE_O_PAGE),
	HEAD(index, 2, DDR_FE_L_INDEX), HEAD(index, 9, DDR_FE_L_INDEX), HEAD(seq, 4, DDR_FE_O_SEQ), HEAD(seq, 3, DDR_FE_O_SEQ),
	HEAD(kind, DDR_PAGE_OF_HAUNTED, DDR_FE_O_KIND), HEAD(pages, 5, DDR_FE_O_KIND),
	{ "array_uuid", 1, offsetof(struct ddr_disk_page, array_uuid) + 3, 1, 0xaa, DDR_FE_L_UUID },
	{ "cluster", 1, offsetof(struct ddr_disk_page, cluster) + 3, 1, 0xab, DDR_FE_O_CLUSTER },
	{ "reserved", 1, offsetof(struct ddr_disk_page, reserved) + 100, 1, 1, DDR_FE_RESERVED },
	SLOT(1, node, 102, DDR_FE_O_NODE), SLOT(1, node, 0, DDR_FE_O_NODE), SLOT(0, node, 1, DDR_FE_O_NODE),
	SLOT(1, state, DDR_SLOT_FREE, DDR_FE_O_STATE), SLOT(0, state, DDR_SLOT_OWNED, DDR_FE_O_STATE), SLOT(1, state, 3, DDR_FE_O_STATE),
	SLOT(1, state, DDR_SLOT_FENCED, DDR_FE_O_FENCED), SLOT(2, fenced_time, 0, DDR_FE_O_FENCED), SLOT(1, fenced_time, 1, DDR_FE_O_FENCED),
	SLOT(1, fenced_cookie, 1, DDR_FE_O_INSTANCE), SLOT(1, machine, 0x7d, DDR_FE_OK), SLOT(1, boot_id, 0x7d, DDR_FE_OK),
	SLOT(1, cookie, 0, DDR_FE_OK), SLOT(1, since, UINT64_MAX, DDR_FE_OK), SLOT(1, name, '\n', DDR_FE_O_NAME),
	SLOT(1, log_seq, 0, DDR_FE_O_LOG), SLOT(1, log_seq, DDR_LOG_SEQ_MAX, DDR_FE_OK), SLOT(2, log_seq, UINT64_MAX, DDR_FE_O_LOG), SLOT(2, log_seq, 0, DDR_FE_OK),
	SLOT(0, renewed, 1, DDR_FE_O_LOG), SLOT(2, renewed, 1, DDR_FE_OK), SLOT(1, renewed, 2, DDR_FE_RESERVED),
	SLOT(15, name, 0, DDR_FE_O_NAME), SLOT(1, reserved0, 1, DDR_FE_RESERVED), SLOT(1, reserved1, 1, DDR_FE_RESERVED),
	{ "an entry behind the last slot", 1, 256 + 256, 1, 1, DDR_FE_RESERVED },
	DISK(0, kind, 4, DDR_FE_O_DISK), DISK(0, kind, 0, DDR_FE_O_UNUSED), DISK(0, flags, 2, DDR_FE_O_DISK), DISK(0, id, 0, DDR_FE_O_DISK),
	DISK(0, id, 27, DDR_FE_O_DISK), DISK(0, reserved0, 1, DDR_FE_RESERVED), DISK(0, reserved1, 1, DDR_FE_RESERVED),
	{ "owes", 2, 256 + offsetof(struct ddr_disk_haunted, owes) + 3, 1, 0x40, DDR_FE_O_DEBTOR },
	{ "owes", 2, 256 + offsetof(struct ddr_disk_haunted, owes) + 15, 1, 0x80, DDR_FE_O_DEBTOR },
	DISK(0, settle, 0, DDR_FE_OK), DISK(0, since, 0, DDR_FE_OK), DISK(0, unanswered, 7, DDR_FE_OK), DISK(0, member, 0, DDR_FE_OK),
	DEBT(1, node, 0, DDR_FE_O_DEBTOR), DEBT(28, node, 0, DDR_FE_O_UNUSED), DEBT(1, flags, 1, DDR_FE_RESERVED), DEBT(1, name, 0x7f, DDR_FE_O_NAME),
	DEBT(1, machine, 0, DDR_FE_OK), DEBT(1, boot_id, 0, DDR_FE_OK), DEBT(1, reserved, 1, DDR_FE_RESERVED),
};

static void test_every_rule(void **state)
{
	(void)state;
	make(16);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint8_t *at = work + rows[i].page * PAGE + rows[i].offset;
		char what[100];

		memcpy(work, pages, sizeof(work));
		fixture_put(at, rows[i].value, rows[i].size);
		snprintf(what, sizeof(what), "row %zu, %s", i, rows[i].what);
		if (memcmp(work, pages, sizeof(work)) == 0)
			fail_msg("%s: nothing was changed", what);
		expect(rows[i].want, what);
	}
	memcpy(work, pages, sizeof(work));
	memset(work + 256 + 256 + offsetof(struct ddr_disk_owner, name), 'x', 64);	/* no end */
	expect(DDR_FE_O_NAME, "a name without an end");
	memcpy(work, pages, sizeof(work));
	memset(work + 256 + 256 + offsetof(struct ddr_disk_owner, boot_id), 0, 16);
	expect(DDR_FE_O_INSTANCE, "a cookie without a boot id");
}

/* A later version may use reserved bytes, and says so in compat or ro_compat. */
static void test_reserved_bytes_of_a_later_version(void **state)
{
	(void)state;
	make(16);
	memcpy(work, pages, sizeof(work));
	work[250] = 1;
	expect(DDR_FE_RESERVED, "a reserved byte");
	sb.compat = 1u << 30;
	expect(DDR_FE_OK, "a compat feature");
}

/* What is not valid is not written either. */
static void test_encode_refuses(void **state)
{
	struct ddr_super before;

	(void)state;
	make(16);
	before = sb;
	memset(work, 0x55, sizeof(work));
	full.slot[1].node = 5;
	assert_int_equal(ddr_owners_encode(&full, &sb, work).code, DDR_FE_O_NODE);
	assert_memory_equal(&sb, &before, sizeof(sb));
	assert_int_equal(work[0], 0x55);
}

/* Another owner, about whom nothing is known; an owner that left, who is still known; all others as they were. */
static void test_follow(void **state)
{
	struct ddr_owners o;

	(void)state;
	make(16);
	o = full;
	sb.slot_node[1] = 77;		/* another one's */
	sb.slot_node[2] = 0;		/* was fenced, and is recovered */
	sb.slot_node[3] = 78;		/* was free */
	ddr_owners_follow(&o, &sb);
	assert_int_equal(ddr_owners_check(&o, &sb).code, DDR_FE_OK);
	assert_int_equal(o.slot[1].node, 77);
	assert_int_equal(o.slot[1].state, DDR_SLOT_OWNED);
	assert_true(ddr_uuid_is_zero(o.slot[1].machine) && ddr_uuid_is_zero(o.slot[1].instance.boot_id) && !o.slot[1].name[0]);
	assert_int_equal(o.slot[2].state, DDR_SLOT_FREE);
	assert_string_equal(o.slot[2].name, "node2.example");
	assert_int_equal(o.slot[3].state, DDR_SLOT_OWNED);
	assert_true(ddr_uuid_is_zero(o.slot[3].machine) && !o.slot[3].fenced_time);
	assert_memory_equal(&o.slot[4], &full.slot[4], sizeof(o.slot[4]));
	assert_memory_equal(o.cluster, full.cluster, sizeof(o.cluster));
	assert_memory_equal(o.haunted, full.haunted, sizeof(o.haunted));
}

/* ---- stamps ------------------------------------------------------------------------ */

static void make_stamp(struct ddr_stamp *s, uint64_t seq)
{
	*s = (struct ddr_stamp){ .slot = 5, .kind = DDR_STAMP_OWNER, .seq = seq, .generation = 3, .node = 105, .time = 1700000000, .stop_ms = 30000,
				 .name = "node5" };
	memcpy(s->array_uuid, sb.array_uuid, sizeof(s->array_uuid));
	fixture_uuid(s->machine, 1005);
	fixture_uuid(s->instance.boot_id, 2005);
	s->instance.cookie = 77;
}

static void test_stamps(void **state)
{
	struct ddr_stamp s, back;

	(void)state;
	make(16);
	for (uint64_t seq = 1; seq < 5; seq++) {
		make_stamp(&s, seq);
		if (seq > 2) {
			s.kind = DDR_STAMP_CLAIM;
			fixture_uuid(s.claim, seq);
		}
		assert_int_equal(ddr_stamp_encode(&s, &sb, work).code, DDR_FE_OK);
		memset(&back, 0, sizeof(back));
		assert_int_equal(ddr_stamp_decode(work, &sb, 5, seq & 1, &back).code, DDR_FE_OK);
		assert_memory_equal(&back, &s, sizeof(s));
		assert_int_equal(ddr_stamp_decode(work, &sb, 5, !(seq & 1), &back).code, DDR_FE_SEQ);
		assert_int_equal(ddr_stamp_decode(work, &sb, 6, seq & 1, &back).code, DDR_FE_L_SLOT);
	}
	for (uint32_t i = 0; i < PAGE; i++) {
		work[i] ^= (uint8_t)(1u << i % 8);
		assert_int_not_equal(ddr_stamp_decode(work, &sb, 5, 0, &back).code, DDR_FE_OK);
		work[i] ^= (uint8_t)(1u << i % 8);
	}
	memset(work, 0, PAGE);
	assert_int_equal(ddr_stamp_decode(work, &sb, 5, 0, &back).code, DDR_FE_BLANK);
}

#define STAMP(f, v, e)	{ #f, 0, offsetof(struct ddr_disk_stamp, f), sizeof(((struct ddr_disk_stamp *)0)->f) <= 8 ? \
			  sizeof(((struct ddr_disk_stamp *)0)->f) : 1, v, e }

static const struct row stamp_rows[] = {
	STAMP(magic, DDR_OWNER_MAGIC, DDR_FE_MAGIC), STAMP(version, 0, DDR_FE_VERSION), STAMP(length, 0, DDR_FE_LENGTH),
	STAMP(slot, 16, DDR_FE_L_SLOT), STAMP(slot, UINT16_MAX, DDR_FE_L_SLOT), STAMP(seq, 0, DDR_FE_SEQ), STAMP(seq, 3, DDR_FE_SEQ),
	STAMP(seq, UINT64_MAX - 1, DDR_FE_SEQ_LIMIT), STAMP(array_uuid, 0xaa, DDR_FE_L_UUID), STAMP(generation, 0, DDR_FE_L_GENERATION),
	STAMP(node, 0, DDR_FE_O_INSTANCE), STAMP(kind, 0, DDR_FE_O_KIND), STAMP(kind, 3, DDR_FE_O_KIND),
	STAMP(kind, DDR_STAMP_CLAIM, DDR_FE_O_INSTANCE), STAMP(claim, 1, DDR_FE_O_INSTANCE), STAMP(name, 1, DDR_FE_O_NAME),
	STAMP(reserved0, 1, DDR_FE_RESERVED), STAMP(reserved, 1, DDR_FE_RESERVED), STAMP(cookie, 1, DDR_FE_OK), STAMP(time, 0, DDR_FE_OK),
	STAMP(stop_ms, 0, DDR_FE_OK), STAMP(machine, 0, DDR_FE_OK), STAMP(boot_id, 0, DDR_FE_OK),
};

static void test_every_rule_of_a_stamp(void **state)
{
	struct ddr_stamp s, back;

	(void)state;
	make(16);
	make_stamp(&s, 2);
	for (size_t i = 0; i < sizeof(stamp_rows) / sizeof(stamp_rows[0]); i++) {
		struct ddr_fault fault;
		char text[256];

		assert_int_equal(ddr_stamp_encode(&s, &sb, work).code, DDR_FE_OK);
		fixture_put(work + stamp_rows[i].offset, stamp_rows[i].value, stamp_rows[i].size);
		fix_crc(work);
		memset(&back, 0xee, sizeof(back));
		fault = ddr_stamp_decode(work, &sb, 5, 0, &back);
		if (fault.code != stamp_rows[i].want)
			fail_msg("row %zu, %s: %s", i, stamp_rows[i].what, ddr_fault_text(&fault, text, sizeof(text)));
		if (fault.code)
			assert_int_equal(back.node, 0xeeeeeeeeu);
	}
	s.slot = 16;
	assert_int_equal(ddr_stamp_encode(&s, &sb, work).code, DDR_FE_L_SLOT);
}

/* ---- the place --------------------------------------------------------------------- */

/* Behind the map, in front of superblock copy 1, and no block of it twice. */
static void check_place(const struct ddr_super *s)
{
	uint64_t at = s->owner_offset;

	assert_true(at >= ddr_map_offset(s, s->map_blocks, 0));
	assert_int_equal(at % PAGE, 0);
	assert_int_equal(ddr_owner_offset(s, 0), at);
	at += (uint64_t)s->owner_pages * PAGE;
	for (uint32_t i = 0; i < s->slots; i++)
		for (unsigned int place = 0; place < 2; place++, at += PAGE)
			assert_int_equal(ddr_stamp_offset(s, i, place), at);
	assert_int_equal(ddr_owner_offset(s, 1), at);
	assert_int_equal(at + (uint64_t)s->owner_pages * PAGE, ddr_super_offset(s, 1));
}

/* Arrays of all sizes: from the gap, from the reserve of the map, or refused with the array unchanged. Nothing but map_blocks becomes less. */
static void test_room(void **state)
{
	unsigned int gap = 0, map = 0, refused = 0, refused_16 = 0;
	uint64_t seed = 6;

	(void)state;
	for (unsigned int i = 0; i < 4000; i++) {
		uint32_t slots = i % 2 ? DDR_DEF_SLOTS : 1 + (uint32_t)(fixture_random(&seed) % DDR_MAX_SLOTS);
		uint64_t bytes = (fixture_random(&seed) >> (16 + fixture_random(&seed) % 22)) % (250ull << 40) + (64u << 20);
		struct ddr_layout_request req = { .member_bytes = bytes, .order = i % 3, .parity = 1, .slots = slots };
		struct ddr_super s, before;
		struct ddr_error err;

		memset(&s, 0, sizeof(s));
		assert_int_equal(ddr_layout_compute(&req, &s, &err), 0);
		before = s;
		if (ddr_layout_owners(&s, &err)) {
			assert_memory_equal(&s, &before, sizeof(s));
			assert_non_null(strstr(err.text, "no room for format 2"));
			refused++;
			refused_16 += slots == DDR_DEF_SLOTS;
			continue;
		}
		check_place(&s);
		assert_true((uint64_t)s.map_blocks * DDR_MAP_REGIONS >= ddr_super_regions(&s));
		gap += s.map_blocks == before.map_blocks;
		map += s.map_blocks < before.map_blocks;
		assert_int_equal(ddr_layout_owners(&s, &err), -1);
		assert_non_null(strstr(err.text, "already"));
		s.map_blocks = before.map_blocks;
		s.owner_offset = s.owner_pages = 0;
		s.incompat = 0;
		assert_memory_equal(&s, &before, sizeof(s));
	}
	printf("room from the gap: %u, from the map: %u, none: %u, of these with 16 slots: %u\n", gap, map, refused, refused_16);
	assert_true(gap > 1000 && map > 100 && refused > 0);
	assert_int_equal(refused_16, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_every_byte_flip_is_noticed),
		cmocka_unit_test(test_every_byte_means_something),
		cmocka_unit_test(test_torn_write),
		cmocka_unit_test(test_another_change_of_the_same_seq),
		cmocka_unit_test(test_every_rule),
		cmocka_unit_test(test_reserved_bytes_of_a_later_version),
		cmocka_unit_test(test_encode_refuses),
		cmocka_unit_test(test_follow),
		cmocka_unit_test(test_stamps),
		cmocka_unit_test(test_every_rule_of_a_stamp),
		cmocka_unit_test(test_room),
	};

	return cmocka_run_group_tests_name("format-owner", tests, NULL, NULL);
}
