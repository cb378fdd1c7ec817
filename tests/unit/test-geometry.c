/* SPDX-License-Identifier: GPL-2.0-or-later */
/* lib/math/geometry.h against the sentences of the design, for every order, parity and layout. */
#include "tests/unit/fixture.h"
#include "lib/math/geometry.h"

#define FOR_EACH_GEOMETRY(g) \
	for (unsigned int n_ = 0; n_ < 4 * 3 * 2; n_++) \
		if (ddr_geo_init(&(g), n_ / 6, n_ / 2 % 3, n_ % 2))

static const uint64_t blocks[] = {
	0, 1, 255, 256, 257, 511, 512, 256 * 9, 256 * 10, 256 * 90 - 1, 256 * 90, 1234567890123ull % (1ull << 38),
	(1ull << 38) - 256, (1ull << 38) - 1,
};

#define N_BLOCKS	(sizeof(blocks) / sizeof(blocks[0]))

static void test_init(void **state)
{
	struct ddr_geometry g;
	unsigned int valid = 0;

	(void)state;
	FOR_EACH_GEOMETRY(g) {
		valid++;
		assert_int_equal(g.chunk << g.order, 4096);
		assert_int_equal(g.roles, ddr_geo_data(&g) + g.parity);
	}
	assert_int_equal(valid, 24);
	assert_false(ddr_geo_init(&g, 4, 0, 0));
	assert_false(ddr_geo_init(&g, 0, 3, 0));
	assert_false(ddr_geo_init(&g, 0, 0, 2));
	assert_false(ddr_geo_init(&g, 0x10000000, 0, 0));
}

/* Every role has one member and every member one role, and each is the inverse of the other. */
static void test_role_and_member_are_inverse(void **state)
{
	struct ddr_geometry g;

	(void)state;
	FOR_EACH_GEOMETRY(g) {
		for (size_t i = 0; i < N_BLOCKS; i++) {
			uint32_t seen = 0;

			for (uint32_t role = 0; role < g.roles; role++) {
				uint32_t member = ddr_geo_member(&g, role, blocks[i]);

				assert_true(member < g.roles);
				assert_int_equal(ddr_geo_role(&g, member, blocks[i]), role);
				seen |= 1u << member;
			}
			assert_int_equal(seen, (1u << g.roles) - 1);
		}
	}
}

/* Dedicated: role r on member r. Rotating: on (r + u) mod n, u = b / 256. */
static void test_layouts(void **state)
{
	struct ddr_geometry g;

	(void)state;
	FOR_EACH_GEOMETRY(g) {
		for (size_t i = 0; i < N_BLOCKS; i++) {
			for (uint32_t role = 0; role < g.roles; role++) {
				uint64_t want = g.rotating ? (role + blocks[i] / 256) % g.roles : role;

				assert_int_equal(ddr_geo_member(&g, role, blocks[i]), want);
			}
		}
	}
}

/* The turn changes at unit borders only, and there by one. */
static void test_turn(void **state)
{
	struct ddr_geometry g;

	(void)state;
	FOR_EACH_GEOMETRY(g) {
		for (uint64_t b = 1; b < 256 * 25; b++) {
			uint32_t before = ddr_geo_turn(&g, b - 1), now = ddr_geo_turn(&g, b);

			if (b % 256 || !g.rotating)
				assert_int_equal(before, now);
			else
				assert_int_equal(now, (before + 1) % g.roles);
		}
	}
}

static void test_offset(void **state)
{
	struct ddr_geometry g;

	(void)state;
	FOR_EACH_GEOMETRY(g)
		for (size_t i = 0; i < N_BLOCKS; i++)
			assert_int_equal(ddr_geo_offset(&g, blocks[i]), blocks[i] * (4096u >> g.order));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_init),
		cmocka_unit_test(test_role_and_member_are_inverse),
		cmocka_unit_test(test_layouts),
		cmocka_unit_test(test_turn),
		cmocka_unit_test(test_offset),
	};

	return cmocka_run_group_tests_name("geometry", tests, NULL, NULL);
}
