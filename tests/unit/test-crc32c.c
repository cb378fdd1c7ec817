/* SPDX-License-Identifier: GPL-2.0-or-later */
/* crc32c against published vectors and against a bit-by-bit implementation. */
#include "tests/unit/fixture.h"
#include "lib/math/crc32c.h"

/* RFC 3720, appendix B.4, and the usual check value of the CRC catalogues. */
static void test_published_vectors(void **state)
{
	uint8_t buf[32];

	(void)state;
	assert_int_equal(ddr_crc32c("123456789", 9), 0xe3069283u);
	memset(buf, 0, sizeof(buf));
	assert_int_equal(ddr_crc32c(buf, sizeof(buf)), 0x8a9136aau);
	memset(buf, 0xff, sizeof(buf));
	assert_int_equal(ddr_crc32c(buf, sizeof(buf)), 0x62a8ab43u);
	for (unsigned int i = 0; i < sizeof(buf); i++)
		buf[i] = (uint8_t)i;
	assert_int_equal(ddr_crc32c(buf, sizeof(buf)), 0x46dd794eu);
	for (unsigned int i = 0; i < sizeof(buf); i++)
		buf[i] = (uint8_t)(31 - i);
	assert_int_equal(ddr_crc32c(buf, sizeof(buf)), 0x113fdb5cu);
	assert_int_equal(ddr_crc32c(buf, 0), 0);
}

static void test_against_reference(void **state)
{
	uint8_t buf[4096 + 16];
	uint64_t seed = 7;

	(void)state;
	fixture_fill(buf, sizeof(buf), &seed);
	for (unsigned int i = 0; i < 400; i++) {
		size_t from = fixture_random(&seed) % 16, len = fixture_random(&seed) % 4097;

		assert_int_equal(ddr_crc32c(buf + from, len), fixture_crc32c(buf + from, len, -1));
	}
}

/* The field that holds the crc counts as zero, wherever it lies and whatever is in it. */
static void test_block_skips_its_field(void **state)
{
	uint8_t buf[4096];
	uint64_t seed = 8;

	(void)state;
	fixture_fill(buf, sizeof(buf), &seed);
	for (size_t field = 0; field + 4 <= sizeof(buf); field += 52) {
		uint32_t crc = ddr_crc32c_block(buf, sizeof(buf), field);

		assert_int_equal(crc, fixture_crc32c(buf, sizeof(buf), (long)field));
		fixture_put(buf + field, crc, 4);
		assert_int_equal(ddr_crc32c_block(buf, sizeof(buf), field), crc);
	}
	assert_int_equal(ddr_crc32c_block(buf, sizeof(buf), 4092), fixture_crc32c(buf, sizeof(buf), 4092));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_published_vectors),
		cmocka_unit_test(test_against_reference),
		cmocka_unit_test(test_block_skips_its_field),
	};

	return cmocka_run_group_tests_name("crc32c", tests, NULL, NULL);
}
