/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What every test of the state machine needs: an array to run it on, and texts for its outputs. Uses only sm.h of the state machine. */
#ifndef DDR_TESTS_SIM_RIG_H
#define DDR_TESTS_SIM_RIG_H

#include <stdint.h>
#include <stdio.h>

#include "lib/cluster/sm.h"
#include "lib/disk/format.h"
#include "lib/wire/msg.h"

/* splitmix64 (S. Vigna, public domain algorithm): the same sequence for the same seed. */
static inline uint64_t rig_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

struct rig_geometry {
	uint8_t order, parity, layout;
	uint64_t blocks;	/* of the array */
	uint32_t region_blocks;	/* blocks in a region, a power of two from 16 */
	uint16_t spares;
	uint32_t slots;
	bool owners;		/* format 2 */
};

/* A new array as `create` makes it: generation 1, all members in sync, no slot owned. */
void rig_super(struct ddr_super *sb, const struct rig_geometry *g);
/* An instance of the machine in memory from malloc, or NULL (then the memory is freed). */
struct ddr_sm *rig_sm(const struct ddr_sm_config *cfg);
/*
 * ddr_sm_step(). A TICK before ddr_sm_due() must change nothing but the clock: an instance that sleeps until then must behave like one that gets every tick.
 * NULL, or what such a tick has done.
 */
const char *rig_step(struct ddr_sm *sm, const struct ddr_input *in, struct ddr_outputs *out);

/* One line, without newline, of an output, a record and a message. Returns @buf. */
const char *rig_output(const struct ddr_output *out, char *buf, size_t size);
const char *rig_record(const struct ddr_rec *rec, char *buf, size_t size);
const char *rig_message(const uint8_t *bytes, uint32_t len, char *buf, size_t size);
const char *rig_event(enum ddr_event event);

#endif
