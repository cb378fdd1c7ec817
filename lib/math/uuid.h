/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Uuids of arrays, members and generations. All zero: none. */
#ifndef DDR_LIB_UUID_H
#define DDR_LIB_UUID_H

#include <stdbool.h>
#include <stdint.h>

#include <ddraid/format.h>

static inline bool ddr_uuid_is_zero(const uint8_t uuid[DDR_UUID_LEN])
{
	uint8_t any = 0;

	for (unsigned int i = 0; i < DDR_UUID_LEN; i++)
		any |= uuid[i];
	return !any;
}

#endif
