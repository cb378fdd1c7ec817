/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the unit tests of the on-disk format share: a valid superblock to start from, reproducible random bytes, and a crc32c that
 * shares no code with the one under test.
 */
#ifndef DDR_TESTS_UNIT_FIXTURE_H
#define DDR_TESTS_UNIT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/disk/format.h"
#include "lib/disk/layout.h"

/* A long test does only a part of its work if DDRAID_TESTS=short is set. `make check` sets it, `./quickstart check` does not. */
static inline bool fixture_short(void)
{
	const char *tests = getenv("DDRAID_TESTS");

	return tests && strcmp(tests, "short") == 0;
}

/* Where image files lie: on @usual, a disk, or in memory if the run is to be short and there is room: their flushes take most of the time. */
static inline const char *fixture_dir(const char *usual)
{
	struct statvfs room;

	if (!fixture_short() || statvfs("/dev/shm", &room) || room.f_bavail * room.f_frsize < 1u << 30 || access("/dev/shm", W_OK))
		return usual;
	return "/dev/shm";
}

/* splitmix64 (S. Vigna, public domain algorithm): repeats from its seed. */
static inline uint64_t fixture_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static inline void fixture_fill(void *buf, size_t len, uint64_t *state)
{
	uint8_t *p = buf;

	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)fixture_random(state);
}

/* Bit by bit, from the polynomial 0x1edc6f41 reflected; @skip: four bytes there count as zero, -1: none. */
static inline uint32_t fixture_crc32c(const void *buf, size_t len, long skip)
{
	const uint8_t *p = buf;
	uint32_t crc = 0xffffffffu;

	for (size_t i = 0; i < len; i++) {
		crc ^= skip >= 0 && i >= (size_t)skip && i < (size_t)skip + 4 ? 0 : p[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
	}
	return ~crc;
}

/* Little-endian bytes, whatever the machine. */
static inline void fixture_put(uint8_t *at, uint64_t value, unsigned int size)
{
	for (unsigned int i = 0; i < size; i++)
		at[i] = (uint8_t)(value >> (8 * i));
}

static inline uint64_t fixture_get(const uint8_t *at, unsigned int size)
{
	uint64_t v = 0;

	for (unsigned int i = 0; i < size; i++)
		v |= (uint64_t)at[i] << (8 * i);
	return v;
}

/* Uuid number @n, never zero. */
static inline void fixture_uuid(uint8_t uuid[DDR_UUID_LEN], uint64_t n)
{
	uint64_t state = n * 1000003 + 1;

	fixture_fill(uuid, DDR_UUID_LEN, &state);
}

/* A new array: generation 1, members in sync, then @spares; this_member 0, sequence 2. */
static inline void fixture_super(struct ddr_super *sb, uint8_t order, uint8_t parity, uint8_t layout,
				 uint64_t member_bytes, uint16_t spares)
{
	struct ddr_layout_request req = {
		.member_bytes = member_bytes, .order = order, .parity = parity, .layout = layout,
		.slots = DDR_DEF_SLOTS,
	};
	struct ddr_error err;

	memset(sb, 0, sizeof(*sb));
	if (ddr_layout_compute(&req, sb, &err))
		fail_msg("%s", err.text);
	sb->seq = 2;
	fixture_uuid(sb->array_uuid, 1);
	fixture_uuid(sb->gen_id, 100);
	strcpy(sb->name, "fixture");
	sb->generation = 1;
	sb->created = sb->updated = 1700000000;
	sb->members = (uint16_t)(sb->roles + spares);
	for (uint16_t i = 0; i < sb->members; i++) {
		fixture_uuid(sb->member[i].uuid, 10 + i);
		sb->member[i].state = i < sb->roles ? DDR_MEMBER_IN_SYNC : DDR_MEMBER_SPARE;
		sb->member[i].role = i < sb->roles ? i : DDR_ROLE_NONE;
		sb->member[i].since = 1;
	}
}

#endif
