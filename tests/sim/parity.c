// SPDX-License-Identifier: GPL-2.0-or-later
/* Tokens that stand for data, their parity, and what a reader computes from the tokens that are there. */
#include "check.h"

uint64_t sim_token(uint32_t version, uint32_t role, uint64_t block)
{
	uint64_t state = ((uint64_t)version << 32 | block << 8 | role) * 0x2545f4914f6cdd1du + 1;

	return rig_random(&state);
}

/* x * 2 in GF(2^8) modulo 0x11d, for each of the eight bytes. */
static uint64_t gf_double(uint64_t x)
{
	uint64_t high = x >> 7 & 0x0101010101010101u;

	return ((x & 0x7f7f7f7f7f7f7f7fu) << 1) ^ high * 0x1d;
}

/* The same for x * c. */
static uint64_t gf_times(uint64_t x, uint8_t c)
{
	uint64_t sum = 0;

	for (; c; c >>= 1) {
		if (c & 1)
			sum ^= x;
		x = gf_double(x);
	}
	return sum;
}

static uint8_t gf_power(uint8_t x, unsigned int n)
{
	uint8_t y = 1;

	while (n--)
		y = (uint8_t)gf_times(y, x);
	return y;
}

void sim_parity(const struct sim *s, const uint64_t *data, uint64_t pq[2])
{
	uint32_t n = ddr_geo_data(&s->g);

	pq[0] = pq[1] = 0;
	for (uint32_t i = n; i-- > 0;) {
		pq[0] ^= data[i];
		pq[1] = gf_double(pq[1]) ^ data[i];
	}
}

/* The token of a data role as a reader with @members gets it; false: impossible. */
bool parity_read(const struct sim *s, uint64_t b, uint32_t role, uint32_t members, reader get, uint64_t *token)
{
	uint32_t data = ddr_geo_data(&s->g), missing = 0, other = role, have = 0;
	uint64_t tokens[10] = { 0 }, pq[2];

	for (uint32_t i = 0; i < s->g.roles; i++) {
		uint32_t m = check_member(s, i, b);

		if (members >> m & 1) {
			tokens[i] = get(&s->disk[m], b);
			have |= 1u << i;
		} else if (i < data) {
			missing++;
			other = i == role ? other : i;
		}
	}
	*token = tokens[role];
	if (have >> role & 1)
		return true;
	if (missing > 2 || (missing == 2 && (have >> data & 3) != 3) || !(have >> data))
		return false;
	sim_parity(s, tokens, pq);	/* of those that are there: the others count as zero */
	pq[0] ^= tokens[data];
	pq[1] ^= tokens[data + 1];
	if (missing == 1 && (have >> data & 1)) {
		*token = pq[0];
	} else if (missing == 1) {
		*token = gf_times(pq[1], gf_power(gf_power(2, role), 254));
	} else {
		uint8_t both = gf_power(2, role) ^ gf_power(2, other);

		*token = gf_times(pq[1] ^ gf_times(pq[0], gf_power(2, other)), gf_power(both, 254));
	}
	return true;
}

/* A data role is missing: do P and Q, if both are there, give the same result? */
static bool both_agree(const struct sim *s, uint64_t b, uint32_t role, uint32_t members, reader get)
{
	uint32_t p = check_member(s, ddr_geo_data(&s->g), b), q = check_member(s, s->g.roles - 1, b);
	uint64_t by_p, by_q;

	if (s->g.parity < 2 || !parity_read(s, b, role, members & ~(1u << q), get, &by_p) ||
	    !parity_read(s, b, role, members & ~(1u << p), get, &by_q))
		return true;	/* cannot be determined */
	return by_p == by_q;
}

/* Is the parity of a block correct, as far as @members hold it? */
bool parity_right(const struct sim *s, uint64_t b, uint32_t members, reader get)
{
	uint32_t data = ddr_geo_data(&s->g);
	uint64_t tokens[8], pq[2];

	for (uint32_t i = 0; i < data; i++) {
		uint32_t m = check_member(s, i, b);

		if (!(members >> m & 1))
			return both_agree(s, b, i, members, get);
		tokens[i] = get(&s->disk[m], b);
	}
	sim_parity(s, tokens, pq);
	for (uint32_t i = data; i < s->g.roles; i++) {
		uint32_t m = check_member(s, i, b);

		if ((members >> m & 1) && get(&s->disk[m], b) != pq[i - data])
			return false;
	}
	return true;
}
