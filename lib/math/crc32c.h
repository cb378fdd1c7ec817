/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * CRC-32C (Castagnoli, reflected, initial value and final XOR all ones, as in iSCSI: RFC 3720 appendix B.4), by
 * ISA-L. Pure; must never read beyond the length.
 */
#ifndef DDR_LIB_CRC32C_H
#define DDR_LIB_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* CRC of @len bytes at @buf. */
uint32_t ddr_crc32c(const void *buf, size_t len);
/*
 * CRC of a metadata block of @len bytes whose own crc field, four bytes at byte
 * @field, counts as zero.
 */
uint32_t ddr_crc32c_block(const void *block, size_t len, size_t field);

#endif
