// SPDX-License-Identifier: GPL-2.0-or-later
/* The group's messages: every type survives the wire, and nothing damaged is accepted as something else. */
#include "sm-fixture.h"

static void sample(struct ddr_msg *m, enum ddr_msg_type type)
{
	memset(m, 0, sizeof(*m));
	m->type = type;
	m->version = DDR_MSG_VERSION;
	m->sender = 0x01020304;
	m->ring = 0x1122334455667788u;
	m->serial = 99;
	memset(m->uuid, 0xab, sizeof(m->uuid));
	switch (type) {
	case DDR_M_START:
		m->start.slot = 3;
		m->start.missing = 5;
		m->start.cookie = 0xfedcba9876543210u;
		memset(m->start.boot_id, 7, 16);
		memset(m->start.machine, 8, 16);
		strcpy(m->start.name, "node 1.example");
		m->start.time = 1700000000;
		break;
	case DDR_M_HELLO:
		m->hello.view = 0x8877665544332211u;
		m->hello.history = 5;
		m->hello.flags = DDR_HELLO_SYNCED | DDR_HELLO_ALONE | DDR_HELLO_UNDO;
		m->hello.shared = 7;
		m->hello.undo_epoch = 8;
		m->hello.undo_history = 6;
		m->hello.settle = 10000;
		m->hello.n_out = 2;
		m->hello.out[0] = 0x01020304;
		m->hello.out[1] = 9;
		break;
	case DDR_M_STATE:
		m->state.digest = 0xfedcba9876543210u;
		m->state.epoch = 6;
		m->state.index = 2;
		m->state.count = 3;
		m->state.bytes = DDR_STATE_DATA;
		memset(m->state.data, 0xcd, DDR_STATE_DATA);
		break;
	case DDR_M_LEAVE:
		m->leave.slot = 1;
		m->leave.dirty = 17;
		m->leave.time = 1700000001;
		break;
	case DDR_M_FENCED:
		m->fenced.node = 3;
		m->fenced.how = DDR_FENCED_OPERATOR;
		m->fenced.failure = 1ull << 32;
		m->fenced.time = 1700000002;
		break;
	case DDR_M_RECOVER: m->recover.slot = 63; break;
	case DDR_M_RECOVERED:
		m->recover.slot = 63;
		m->recover.cookie = 5;
		m->recover.boot_id[15] = 4;
		m->recover.time = 1700000003;
		break;
	case DDR_M_GONE:
		m->gone.node = 2;
		m->gone.failure = 7ull << 32;
		m->gone.time = 1700000004;
		m->gone.cookie = 6;
		m->gone.boot_id[15] = 3;
		m->gone.machine[0] = 9;
		break;
	case DDR_M_RENEWED: m->renewed.slot = 5; m->renewed.seq = 9ull << 32; break;
	case DDR_M_MEMBER_FAIL:
		m->fail.hard = 4;
		m->fail.exchanged = 4;
		m->fail.soft = 2;
		break;
	case DDR_M_MEMBER_DONE:
		m->done.generation = 12;
		m->done.seq = 34;
		memset(m->done.gen_id, 1, 16);
		memset(m->done.gen_prev, 2, 16);
		m->done.faulty = 1;
		m->done.missing = 2;
		m->done.slots = 1ull << 63;
		m->done.owner[63] = 9;
		m->done.set = (struct ddr_msg_member_set){ DDR_MEMBER_OP_ADD, 6, 0, 0, { 7 } };
		break;
	case DDR_M_MEMBER_SET: m->set = (struct ddr_msg_member_set){ DDR_MEMBER_OP_CURSOR, 6, 0, 1ull << 40, { 0 } }; break;
	case DDR_M_GROW: m->grow.blocks = 1ull << 33; break;
	case DDR_M_ROOM:
		m->room.bytes = 1ull << 45;
		m->room.member = 3;
		m->room.generation = 7;
		break;
	case DDR_M_SEEK: m->seek.member = 5; break;
	case DDR_M_SEEN: m->seen.members = 0x7f; m->seen.generation = 9; break;
	case DDR_M_VERIFY:
		m->verify.op = DDR_VERIFY_OP_DONE;
		m->verify.serial = 3;
		m->verify.time = 1700000000;
		m->verify.cursor = 1ull << 40;
		m->verify.found = 7;
		m->verify.repaired = 5;
		break;
	case DDR_M_FOLDED: m->folded.since = 12; break;
	case DDR_M_MEMBER_ACK: m->ack.seq = 34; break;
	case DDR_M_EX_REQUEST:
		m->ex.id = 8;
		m->ex.mode = DDR_EX_RANGE;
		m->ex.job = 1;
		m->ex.start = 1ull << 40;
		m->ex.count = DDR_EX_BLOCKS;
		break;
	case DDR_M_EX_ACK:
		m->ex_ack.owner = 1;
		m->ex_ack.id = 8;
		m->ex_ack.dirty = 3;
		break;
	case DDR_M_EX_RELEASE: m->ex_release.id = 8; break;
	case DDR_M_EX_VOID: break;
	case DDR_M_USE: m->use.used = 1; break;
	case DDR_M_MAP_SET:
		m->map_set.id = 1;
		m->map_set.n = DDR_MAP_RUNS;
		for (uint32_t i = 0; i < DDR_MAP_RUNS; i++)
			m->map_set.run[i] = (struct ddr_msg_map_run){ i * 10, i + 1, 1 + i % 6 };
		break;
	case DDR_M_MAP_DONE:
		m->map_done.n = DDR_MAP_DONES;
		for (uint32_t i = 0; i < DDR_MAP_DONES; i++)
			m->map_done.block[i] = (struct ddr_msg_map_done){ i, 1ull << i };
		break;
	}
}

static const enum ddr_msg_type types[] = {
	DDR_M_START, DDR_M_HELLO, DDR_M_STATE, DDR_M_LEAVE, DDR_M_FENCED, DDR_M_RECOVER, DDR_M_RECOVERED, DDR_M_RENEWED, DDR_M_GONE, DDR_M_MEMBER_FAIL, DDR_M_MEMBER_DONE, DDR_M_MEMBER_ACK, DDR_M_EX_REQUEST,
	DDR_M_EX_ACK, DDR_M_EX_RELEASE, DDR_M_EX_VOID, DDR_M_MAP_SET, DDR_M_MAP_DONE, DDR_M_MEMBER_SET, DDR_M_FOLDED, DDR_M_SEEK, DDR_M_SEEN, DDR_M_VERIFY, DDR_M_GROW, DDR_M_ROOM,
	DDR_M_USE,
};
#define N_TYPES (sizeof(types) / sizeof(types[0]))

static void every_type_survives_the_wire(void **state)
{
	(void)state;
	for (size_t t = 0; t < N_TYPES; t++) {
		uint8_t buf[DDR_MSG_MAX];
		struct ddr_msg m, got;
		size_t len;

		sample(&m, types[t]);
		len = ddr_msg_encode(&m, buf, sizeof(buf));
		assert_true(len >= DDR_MSG_HEADER && len <= DDR_MSG_MAX);
		assert_null(ddr_msg_decode(buf, len, &got));
		assert_memory_equal(&m, &got, sizeof(m));
	}
}

/* Drivers have room for that (DDR_SM_MSG_LONG). */
static void few_types_are_long(void **state)
{
	static const enum ddr_msg_type many[] = { DDR_M_START, DDR_M_STATE, DDR_M_MEMBER_DONE, DDR_M_MAP_SET, DDR_M_MAP_DONE };
	size_t n = 0;

	(void)state;
	for (size_t t = 0; t < N_TYPES; t++) {
		uint8_t buf[DDR_MSG_MAX];
		struct ddr_msg m;

		sample(&m, types[t]);
		if (ddr_msg_encode(&m, buf, sizeof(buf)) <= DDR_SM_MSG_SHORT)
			continue;
		assert_true(n < sizeof(many) / sizeof(many[0]));
		assert_int_equal(types[t], many[n++]);
	}
	assert_int_equal(n, sizeof(many) / sizeof(many[0]));
}

static void the_bytes_are_little_endian_and_at_their_places(void **state)
{
	static const uint8_t head[] = { 0x44, 0x44, 0x72, 0x67, 20, 0, 33, 0, 64, 0, 0, 0, 4, 3, 2, 1 };
	uint8_t buf[DDR_MSG_MAX];
	struct ddr_msg m;

	(void)state;
	sample(&m, DDR_M_EX_ACK);
	assert_int_equal(ddr_msg_encode(&m, buf, sizeof(buf)), 64);
	assert_memory_equal(buf, head, sizeof(head));
	assert_int_equal(buf[32], 0x88);	/* ring */
	assert_int_equal(buf[40], 99);		/* serial */
	assert_int_equal(buf[48], 1);		/* owner */
	assert_int_equal(buf[52], 8);		/* id */
	assert_int_equal(buf[56], 3);		/* dirty */
}

static void any_other_length_is_refused(void **state)
{
	(void)state;
	for (size_t t = 0; t < N_TYPES; t++) {
		uint8_t buf[DDR_MSG_MAX + 8] = { 0 };
		struct ddr_msg m, got;
		size_t len;

		sample(&m, types[t]);
		len = ddr_msg_encode(&m, buf, DDR_MSG_MAX);
		for (size_t n = 0; n <= DDR_MSG_MAX + 8; n++) {
			uint8_t *exact = malloc(n + 1);	/* so that a read beyond the end is seen */

			memcpy(exact, buf, n);
			if (n != len)
				assert_non_null(ddr_msg_decode(exact, n, &got));
			if (n >= 12 && n <= DDR_MSG_MAX && n != len) {	/* and with a length field that agrees */
				exact[8] = (uint8_t)n;
				exact[9] = (uint8_t)(n >> 8);
				assert_non_null(ddr_msg_decode(exact, n, &got));
			}
			free(exact);
		}
		for (size_t n = 0; n < len; n++)
			assert_int_equal(ddr_msg_encode(&m, buf, n), 0);
	}
}

/* A node's name is written to all disks, and shown on terminals. */
static void a_name_is_plain_text(void **state)
{
	static const char bad[] = { 1, 0x1f, 0x7f, (char)0x80, (char)0xff };
	uint8_t buf[DDR_MSG_MAX];
	struct ddr_msg m, got;
	size_t len;

	(void)state;
	sample(&m, DDR_M_START);
	len = ddr_msg_encode(&m, buf, sizeof(buf));
	for (size_t i = 0; i < sizeof(bad); i++) {
		buf[len - DDR_NODE_NAME + 3] = (uint8_t)bad[i];
		assert_non_null(ddr_msg_decode(buf, len, &got));
	}
	buf[len - DDR_NODE_NAME + 3] = 'x';
	assert_null(ddr_msg_decode(buf, len, &got));
	buf[len - 2] = 'x';	/* behind its end */
	assert_non_null(ddr_msg_decode(buf, len, &got));
	memset(buf + len - DDR_NODE_NAME, 'x', DDR_NODE_NAME);	/* without an end */
	assert_non_null(ddr_msg_decode(buf, len, &got));
	buf[len - 1] = 0;
	assert_null(ddr_msg_decode(buf, len, &got));
}

static void another_magic_version_or_type_is_refused(void **state)
{
	uint8_t buf[DDR_MSG_MAX];
	struct ddr_msg m, got;
	size_t len;

	(void)state;
	sample(&m, DDR_M_START);
	len = ddr_msg_encode(&m, buf, sizeof(buf));
	for (int at = 0; at < 8; at++) {
		buf[at] ^= 0x40;
		assert_non_null(ddr_msg_decode(buf, len, &got));
		buf[at] ^= 0x40;
	}
	assert_null(ddr_msg_decode(buf, len, &got));
	assert_int_equal(ddr_msg_other_version(buf, len), 0);
	buf[4]++;
	assert_int_equal(ddr_msg_other_version(buf, len), DDR_MSG_VERSION + 1);
	assert_int_equal(ddr_msg_other_version(buf, 6), DDR_MSG_VERSION + 1);
	assert_int_equal(ddr_msg_other_version(buf, 5), 0);
	buf[0]++;
	assert_int_equal(ddr_msg_other_version(buf, len), 0);
}

static void counts_beyond_their_limit_are_refused(void **state)
{
	uint8_t buf[DDR_MSG_MAX];
	struct ddr_msg m, got;
	size_t len;

	(void)state;
	sample(&m, DDR_M_MAP_SET);
	len = ddr_msg_encode(&m, buf, sizeof(buf));
	for (uint32_t n = 0; n < 256; n++) {
		buf[52] = (uint8_t)n;
		if (n != DDR_MAP_RUNS)
			assert_non_null(ddr_msg_decode(buf, len, &got));
	}
	buf[52] = DDR_MAP_RUNS;
	buf[55] = 0x7f;
	assert_non_null(ddr_msg_decode(buf, len, &got));
	m.map_set.n = DDR_MAP_RUNS + 1;
	assert_int_equal(ddr_msg_encode(&m, buf, sizeof(buf)), 0);
	sample(&m, DDR_M_HELLO);
	len = ddr_msg_encode(&m, buf, sizeof(buf));
	assert_int_equal(buf[76], 2);
	memset(buf + len - 4, 0, 4);		/* no node has the id 0 */
	assert_non_null(ddr_msg_decode(buf, len, &got));
	m.hello.settle = DDR_HELLO_SETTLE + 1;	/* the fencing of a node would never count */
	assert_int_equal(ddr_msg_encode(&m, buf, sizeof(buf)), 0);
	m.hello.settle = DDR_HELLO_SETTLE;
	m.hello.n_out = DDR_HELLO_OUTS + 1;
	assert_int_equal(ddr_msg_encode(&m, buf, sizeof(buf)), 0);
	sample(&m, DDR_M_MAP_DONE);
	m.map_done.n = 0;
	assert_int_equal(ddr_msg_encode(&m, buf, sizeof(buf)), 0);
}

static void values_out_of_range_are_refused(void **state)
{
	uint8_t buf[DDR_MSG_MAX];
	struct ddr_msg m, got;
	size_t len;

	(void)state;
	sample(&m, DDR_M_EX_REQUEST);
	len = ddr_msg_encode(&m, buf, sizeof(buf));
	buf[52] = 2;			/* mode */
	assert_non_null(ddr_msg_decode(buf, len, &got));
	buf[52] = DDR_EX_RANGE;
	buf[54] = 1;			/* reserved */
	assert_non_null(ddr_msg_decode(buf, len, &got));
	buf[54] = 0;
	assert_null(ddr_msg_decode(buf, len, &got));
	m.ex.count = DDR_EX_BLOCKS + 1;
	assert_int_equal(ddr_msg_encode(&m, buf, sizeof(buf)), 0);
	sample(&m, DDR_M_USE);
	m.use.used = 2;
	assert_int_equal(ddr_msg_encode(&m, buf, sizeof(buf)), 0);
	sample(&m, DDR_M_MAP_SET);
	m.map_set.run[3].op = 7;
	assert_int_equal(ddr_msg_encode(&m, buf, sizeof(buf)), 0);
	sample(&m, DDR_M_MEMBER_SET);
	m.set = (struct ddr_msg_member_set){ DDR_MEMBER_OP_GROW, 0, 0, 1ull << 40, { 0 } };
	assert_int_equal(ddr_msg_encode(&m, buf, sizeof(buf)), 88);
	m.set.cursor = 0;		/* no size */
	assert_int_equal(ddr_msg_encode(&m, buf, sizeof(buf)), 0);
	m.set = (struct ddr_msg_member_set){ DDR_MEMBER_OP_GROW, 1, 0, 1ull << 40, { 0 } };
	assert_int_equal(ddr_msg_encode(&m, buf, sizeof(buf)), 0);
	m.set = (struct ddr_msg_member_set){ DDR_MEMBER_OP_POLICY, 0, 0, 0, { 0 } };
	assert_int_equal(ddr_msg_encode(&m, buf, sizeof(buf)), 88);
	m.set.cursor = DDR_POLICY_ALL + 1;
	assert_int_equal(ddr_msg_encode(&m, buf, sizeof(buf)), 0);
	m.set.cursor = DDR_POLICY_ALL | 1ull << 32;
	assert_int_equal(ddr_msg_encode(&m, buf, sizeof(buf)), 0);
	for (uint32_t op = DDR_MEMBER_OP_STAY + 1; op < 20; op++) {
		bool known = op == DDR_MEMBER_OP_GROW || op == DDR_MEMBER_OP_POLICY;

		m.set = (struct ddr_msg_member_set){ op, 0, 0, known, { 0 } };
		assert_int_equal(ddr_msg_encode(&m, buf, sizeof(buf)) != 0, known);
	}
}

/* Whatever bits are flipped: the result is refused, or it is a message whose counts are within their limits. */
static void flipped_bits_do_no_harm(void **state)
{
	(void)state;
	for (size_t t = 0; t < N_TYPES; t++) {
		uint8_t buf[DDR_MSG_MAX];
		struct ddr_msg m, got;
		size_t len;

		sample(&m, types[t]);
		len = ddr_msg_encode(&m, buf, sizeof(buf));
		for (size_t bit = 0; bit < len * 8; bit++) {
			buf[bit / 8] ^= (uint8_t)(1u << (bit % 8));
			if (!ddr_msg_decode(buf, len, &got)) {
				assert_true(got.type != DDR_M_MAP_SET || got.map_set.n <= DDR_MAP_RUNS);
				assert_true(got.type != DDR_M_MAP_DONE || got.map_done.n <= DDR_MAP_DONES);
				assert_true(got.type != DDR_M_EX_REQUEST || got.ex.count <= DDR_EX_BLOCKS);
			}
			buf[bit / 8] ^= (uint8_t)(1u << (bit % 8));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_type_survives_the_wire),
		cmocka_unit_test(few_types_are_long),
		cmocka_unit_test(the_bytes_are_little_endian_and_at_their_places),
		cmocka_unit_test(any_other_length_is_refused),
		cmocka_unit_test(a_name_is_plain_text),
		cmocka_unit_test(another_magic_version_or_type_is_refused),
		cmocka_unit_test(counts_beyond_their_limit_are_refused),
		cmocka_unit_test(values_out_of_range_are_refused),
		cmocka_unit_test(flipped_bits_do_no_harm),
	};

	return cmocka_run_group_tests_name("messages", tests, NULL, NULL);
}
