/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Parity by ISA-L; see parity.h. */
#include <assert.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include <isa-l/erasure_code.h>
#include <isa-l/raid.h>

#include "lib/math/parity.h"

#define RUN_MAX	((size_t)1 << 30)	/* ISA-L takes an int */

static void check_run(size_t len)
{
	assert(len % DDR_PARITY_ALIGN == 0);
	assert(len <= RUN_MAX);
}

void ddr_parity_generate(const struct ddr_geometry *geo, size_t len, void *const piece[])
{
	unsigned int data = ddr_geo_data(geo);
	void *array[DDR_GEO_MAX_ROLES];
	int failed = 0;

	check_run(len);
	if (geo->parity == 0)
		return;
	if (data == 1) {
		/* a mirror: with one data piece P = Q = D, and the library needs at least two */
		for (unsigned int i = 1; i < geo->roles; i++)
			memcpy(piece[i], piece[0], len);
		return;
	}
	memcpy(array, piece, geo->roles * sizeof(array[0]));
	failed = geo->parity == 1 ? xor_gen(geo->roles, (int)len, array) : pq_gen(geo->roles, (int)len, array);
	assert(!failed);	/* only a wrong number of pieces or a wrong length can fail */
	(void)failed;
}

/* The row of the code's matrix that gives role @role from the data roles. */
static void code_row(unsigned int data, unsigned int role, unsigned char *row)
{
	unsigned char power = 1;

	for (unsigned int i = 0; i < data; i++) {
		if (role < data)
			row[i] = i == role;
		else
			row[i] = role == data ? 1 : power;
		power = gf_mul(power, 2);
	}
}

int ddr_recovery_plan(struct ddr_recovery *plan, const struct ddr_geometry *geo, uint32_t lost)
{
	unsigned int data = ddr_geo_data(geo), n = 0;
	unsigned char matrix[8 * 8], inverse[8 * 8], row[8], rows[8 * 2];

	*plan = (struct ddr_recovery){ .data = (uint8_t)data };
	if (!lost || lost >> geo->roles || __builtin_popcount(lost) > geo->parity)
		return -1;
	for (unsigned int r = 0; r < geo->roles; r++) {
		if (lost >> r & 1) {
			plan->lost[plan->n_lost++] = (uint8_t)r;
		} else if (n < data) {
			code_row(data, r, matrix + n * data);
			plan->source[n++] = (uint8_t)r;
		}
	}
	if (data == 1)
		return 0;
	/* any 2^order rows of the code are independent, so this cannot fail for valid input */
	if (gf_invert_matrix(matrix, inverse, (int)data))
		return -1;
	/* lost = code_row(lost) * data, and data = inverse * sources */
	for (unsigned int l = 0; l < plan->n_lost; l++) {
		code_row(data, plan->lost[l], row);
		plan->sum[l] = 1;
		for (unsigned int s = 0; s < data; s++) {
			unsigned char sum = 0;

			for (unsigned int i = 0; i < data; i++)
				sum ^= gf_mul(row[i], inverse[i * data + s]);
			rows[l * data + s] = sum;
			plan->sum[l] &= sum == 1;
		}
	}
	ec_init_tables((int)data, plan->n_lost, rows, plan->tables);
	return 0;
}

/* Without Q among sources and target nothing has to be multiplied: an XOR takes a fraction of the time. */
static void run_sum(const struct ddr_recovery *plan, size_t len, unsigned char *const source[], unsigned char *target)
{
	void *array[8 + 1];
	int failed;

	for (unsigned int s = 0; s < plan->data; s++)
		array[s] = source[s];
	array[plan->data] = target;
	failed = xor_gen(plan->data + 1, (int)len, array);
	assert(!failed);	/* as above */
	(void)failed;
}

void ddr_recovery_run(const struct ddr_recovery *plan, size_t len, void *const piece[])
{
	unsigned char *source[8], *target[2];

	check_run(len);
	for (unsigned int l = 0; l < plan->n_lost; l++)
		target[l] = piece[plan->lost[l]];
	if (plan->data == 1) {
		for (unsigned int l = 0; l < plan->n_lost; l++)
			memcpy(target[l], piece[plan->source[0]], len);
		return;
	}
	for (unsigned int s = 0; s < plan->data; s++)
		source[s] = piece[plan->source[s]];
	for (unsigned int l = 0; l < plan->n_lost; l++) {
		/* the tables are only read; the library's prototype has no const */
		unsigned char *tables = (unsigned char *)(uintptr_t)plan->tables + l * plan->data * 32;

		if (plan->sum[l])
			run_sum(plan, len, source, target[l]);
		else
			ec_encode_data((int)len, plan->data, 1, tables, source, &target[l]);
	}
}

int ddr_parity_locate(const struct ddr_geometry *geo, size_t len, const void *const piece[], const void *const calc[2])
{
	unsigned int data = ddr_geo_data(geo);
	const uint8_t *p = piece[data], *q = piece[data + 1], *p2 = calc[0], *q2 = calc[1];
	unsigned char power = 1;
	bool p_fits = memcmp(p, p2, len) == 0, q_fits = memcmp(q, q2, len) == 0;

	if (p_fits || q_fits)
		return p_fits && q_fits ? -1 : (int)(p_fits ? data + 1 : data);
	for (unsigned int i = 0; i < data; i++, power = gf_mul(power, 2)) {
		size_t k = 0;

		while (k < len && gf_mul(power, p[k] ^ p2[k]) == (q[k] ^ q2[k]))
			k++;
		if (k == len)
			return (int)i;
	}
	return -1;
}
