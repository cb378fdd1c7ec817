/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* CRC-32C on top of ISA-L; see crc32c.h. */
#include <assert.h>
#include <limits.h>

#include <isa-l/crc.h>

#include "lib/math/crc32c.h"

/* ISA-L continues a CRC without complementing it, and takes an int and no const. */
static uint32_t crc_continue(uint32_t state, const void *buf, size_t len)
{
	const unsigned char *p = buf;

	while (len > 0) {
		int run = len > INT_MAX ? INT_MAX : (int)len;

		state = crc32_iscsi((unsigned char *)(uintptr_t)p, run, state);
		p += run;
		len -= (size_t)run;
	}
	return state;
}

uint32_t ddr_crc32c(const void *buf, size_t len)
{
	return ~crc_continue(~0u, buf, len);
}

uint32_t ddr_crc32c_block(const void *block, size_t len, size_t field)
{
	static const uint8_t zero[4];
	const uint8_t *p = block;
	uint32_t state;

	assert(field + sizeof(zero) <= len);
	state = crc_continue(~0u, p, field);
	state = crc_continue(state, zero, sizeof(zero));
	return ~crc_continue(state, p + field + sizeof(zero), len - field - sizeof(zero));
}
