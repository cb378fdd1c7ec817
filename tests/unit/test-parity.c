/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * lib/math/parity.c against arithmetic written out byte by byte: P and Q of every geometry,
 * and the recovery of every set of lost roles that the parity covers.
 */
#include "tests/unit/fixture.h"
#include "lib/math/parity.h"

#define RUN_MAX		(64u << 10)

/* Multiplication in GF(2^8) modulo x^8 + x^4 + x^3 + x^2 + 1, by shifting. */
static uint8_t reference_mul(uint8_t a, uint8_t b)
{
	unsigned int product = 0, x = a;

	for (; b; b >>= 1) {
		if (b & 1)
			product ^= x;
		x = x << 1 ^ (x & 0x80 ? 0x11d : 0);
	}
	return (uint8_t)product;
}

static void reference_parity(const struct ddr_geometry *g, size_t len, uint8_t *const piece[], uint8_t *p, uint8_t *q)
{
	for (size_t j = 0; j < len; j++) {
		uint8_t power = 1, sum = 0, qsum = 0;

		for (uint32_t i = 0; i < ddr_geo_data(g); i++) {
			sum ^= piece[i][j];
			qsum ^= reference_mul(power, piece[i][j]);
			power = reference_mul(power, 2);
		}
		p[j] = sum;
		q[j] = qsum;
	}
}

struct pieces {
	uint8_t *piece[DDR_GEO_MAX_ROLES];	/* 64-aligned, RUN_MAX each */
	uint8_t *copy[DDR_GEO_MAX_ROLES];
	uint8_t *p, *q;
};

static int setup(void **state)
{
	static struct pieces s;

	for (unsigned int i = 0; i < DDR_GEO_MAX_ROLES; i++) {
		s.piece[i] = aligned_alloc(64, RUN_MAX);
		s.copy[i] = aligned_alloc(64, RUN_MAX);
	}
	s.p = malloc(RUN_MAX);
	s.q = malloc(RUN_MAX);
	*state = &s;
	return 0;
}

static int teardown(void **state)
{
	struct pieces *s = *state;

	for (unsigned int i = 0; i < DDR_GEO_MAX_ROLES; i++) {
		free(s->piece[i]);
		free(s->copy[i]);
	}
	free(s->p);
	free(s->q);
	return 0;
}

/* Random data in all pieces, right parity in those that hold it. */
static void make_stripes(struct pieces *s, const struct ddr_geometry *g, size_t len, uint64_t *seed)
{
	for (uint32_t i = 0; i < DDR_GEO_MAX_ROLES; i++)
		fixture_fill(s->piece[i], len, seed);
	ddr_parity_generate(g, len, (void *const *)s->piece);
	for (uint32_t i = 0; i < g->roles; i++)
		memcpy(s->copy[i], s->piece[i], len);
}

static void check_generate(struct pieces *s, const struct ddr_geometry *g, size_t len, uint64_t *seed)
{
	make_stripes(s, g, len, seed);
	reference_parity(g, len, s->piece, s->p, s->q);
	if (g->parity >= 1)
		assert_memory_equal(s->piece[ddr_geo_data(g)], s->p, len);
	if (g->parity == 2)
		assert_memory_equal(s->piece[ddr_geo_data(g) + 1], s->q, len);
	/* data is not touched, and with parity 0 nothing is */
	for (uint32_t i = 0; i < ddr_geo_data(g); i++)
		assert_memory_equal(s->piece[i], s->copy[i], len);
}

static void test_generate(void **state)
{
	static const size_t blocks[] = { 1, 2, 3, 7, 16 };
	struct ddr_geometry g;
	uint64_t seed = 1;

	for (unsigned int n = 0; n < 12; n++) {
		assert_true(ddr_geo_init(&g, n / 3, n % 3, 0));
		for (unsigned int b = 0; b < 5; b++)
			check_generate(*state, &g, blocks[b] * g.chunk, &seed);
	}
}

/* Order 0: a mirror and a three-way mirror, P = Q = D. */
static void test_mirror(void **state)
{
	struct pieces *s = *state;
	struct ddr_geometry g;
	uint64_t seed = 2;

	assert_true(ddr_geo_init(&g, 0, 2, 0));
	make_stripes(s, &g, 4096, &seed);
	assert_memory_equal(s->piece[0], s->piece[1], 4096);
	assert_memory_equal(s->piece[0], s->piece[2], 4096);
}

static void check_recovery(struct pieces *s, const struct ddr_geometry *g, uint32_t lost, size_t len, uint64_t *seed)
{
	void *piece[DDR_GEO_MAX_ROLES];
	struct ddr_recovery plan;
	uint32_t read = 0;

	make_stripes(s, g, len, seed);
	assert_int_equal(ddr_recovery_plan(&plan, g, lost), 0);
	assert_int_equal(plan.n_lost, __builtin_popcount(lost));
	for (unsigned int i = 0; i < plan.data; i++)
		read |= 1u << plan.source[i];
	assert_int_equal(__builtin_popcount(read), ddr_geo_data(g));
	assert_int_equal(read & lost, 0);
	assert_int_equal(read >> g->roles, 0);
	/* a member that is neither a source nor lost may not even exist */
	for (uint32_t i = 0; i < g->roles; i++)
		piece[i] = (read | lost) >> i & 1 ? s->piece[i] : NULL;
	for (uint32_t i = 0; i < g->roles; i++)
		if (lost >> i & 1)
			fixture_fill(s->piece[i], len, seed);
	ddr_recovery_run(&plan, len, piece);
	for (uint32_t i = 0; i < g->roles; i++)
		assert_memory_equal(s->piece[i], s->copy[i], len);
}

static void test_recover_every_lost_set(void **state)
{
	struct ddr_geometry g;
	unsigned int sets = 0;
	uint64_t seed = 3;

	for (unsigned int n = 0; n < 12; n++) {
		assert_true(ddr_geo_init(&g, n / 3, n % 3, 0));
		for (uint32_t lost = 1; lost < 1u << g.roles; lost++) {
			if (__builtin_popcount(lost) > g.parity)
				continue;
			sets++;
			check_recovery(*state, &g, lost, g.chunk, &seed);
			check_recovery(*state, &g, lost, 5u * g.chunk, &seed);
		}
	}
	/* singles: parity 1: 2+3+5+9, parity 2: 3+4+6+10; pairs: 3+6+15+45 */
	assert_int_equal(sets, 19 + 23 + 69);
}

static void test_recovery_refuses(void **state)
{
	struct ddr_recovery plan;
	struct ddr_geometry g;

	(void)state;
	for (unsigned int n = 0; n < 12; n++) {
		assert_true(ddr_geo_init(&g, n / 3, n % 3, 0));
		assert_int_equal(ddr_recovery_plan(&plan, &g, 0), -1);
		assert_int_equal(ddr_recovery_plan(&plan, &g, 1u << g.roles), -1);
		for (uint32_t lost = 1; lost < 1u << g.roles; lost++)
			assert_int_equal(ddr_recovery_plan(&plan, &g, lost),
					 __builtin_popcount(lost) > g.parity ? -1 : 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_generate),
		cmocka_unit_test(test_mirror),
		cmocka_unit_test(test_recover_every_lost_set),
		cmocka_unit_test(test_recovery_refuses),
	};

	return cmocka_run_group_tests_name("parity", tests, setup, teardown);
}
