// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * What our kernel is told about each region: whether its parity is correct, and whether reconstructing reads must fail there.
 *
 * Must never: call a region's parity correct while its resync is due.
 */
#include "sm_int.h"

/* Regions that the kernel's table covers: the kernel is told nothing about later ones. */
uint64_t ddr_sm_kernel_regions(const struct ddr_sm *sm)
{
	uint64_t regions = (sm->kernel.blocks + sm->shared.region_blocks - 1) / sm->shared.region_blocks;

	return regions < sm->shared.regions ? regions : sm->shared.regions;
}

static uint32_t bits_of(const struct ddr_sm *sm, uint64_t r)
{
	uint8_t nibble = ddr_sm_nibble(sm, r);
	uint32_t bits = 0;

	if ((nibble & DDR_REGION_STATE_MASK) == DDR_REGION_CLEAN && !ddr_bit(sm->own.resync, r))
		bits |= DDR_RB_CLEAN;
	if ((nibble & DDR_REGION_F_SUSPECT) && (sm->shared.sb.policy & DDR_POLICY_SUSPECT_READS_ERROR))
		bits |= DDR_RB_SUSPECT_ERROR;
	return bits;
}

static uint32_t bits_told(const struct ddr_sm *sm, uint64_t r)
{
	return (ddr_bit(sm->kernel.kclean, r) ? DDR_RB_CLEAN : 0) | (ddr_bit(sm->kernel.ksusp, r) ? DDR_RB_SUSPECT_ERROR : 0);
}

void ddr_sm_bits_changed(struct ddr_sm *sm, uint64_t region)
{
	if (bits_of(sm, region) == bits_told(sm, region) || region >= ddr_sm_kernel_regions(sm))
		return;
	ddr_bit_set(sm->kernel.bchg, region);
	sm->kernel.bits = true;
	sm->kernel.bits_at = 0;
}

/* A new binding: one record clears all bits, and then only regions with bits follow. */
void ddr_sm_bits_all(struct ddr_sm *sm)
{
	memset(sm->kernel.bchg, 0, sm->own.words * sizeof(uint64_t));
	memset(sm->kernel.kclean, 0, sm->own.words * sizeof(uint64_t));
	memset(sm->kernel.ksusp, 0, sm->own.words * sizeof(uint64_t));
	if (sm->kernel.state != DDR_K_ATTACHED)
		return;
	ddr_sm_rec(sm, DDR_U_BITS, 0, 0, ddr_sm_kernel_regions(sm));
	sm->kernel.bits = false;
	for (uint64_t r = 0; sm->own.planned && r < sm->shared.regions; r++)
		ddr_sm_bits_changed(sm, r);
}

/* Sends one run of changed regions with the same bits, from @r on. Returns the region after it. */
static uint64_t bits_run(struct ddr_sm *sm, uint64_t r)
{
	uint32_t bits = bits_of(sm, r);
	uint64_t start = r;

	for (; r < sm->shared.regions && ddr_bit(sm->kernel.bchg, r) && bits_of(sm, r) == bits; r++) {
		ddr_bit_clear(sm->kernel.bchg, r);
		(bits & DDR_RB_CLEAN ? ddr_bit_set : ddr_bit_clear)(sm->kernel.kclean, r);
		(bits & DDR_RB_SUSPECT_ERROR ? ddr_bit_set : ddr_bit_clear)(sm->kernel.ksusp, r);
	}
	ddr_sm_rec(sm, DDR_U_BITS, 0, start, r - start)->arg[0] = bits;
	return r;
}

void ddr_sm_bits_pump(struct ddr_sm *sm)
{
	if (!sm->kernel.bits || !ddr_sm_running(sm))
		return;
	for (uint64_t w = sm->kernel.bits_at; w < sm->own.words; w++) {
		while (sm->kernel.bchg[w]) {
			if (!ddr_sm_room(sm, 1)) {
				sm->kernel.bits_at = w;
				return;
			}
			bits_run(sm, w * 64 + (uint64_t)__builtin_ctzll(sm->kernel.bchg[w]));
		}
	}
	sm->kernel.bits = false;
}
