// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Power cuts within changes of the superblocks (super-disks.h). After a cut the machine starts again, and begins with a change of the
 * superblocks, as every start does. The changes are made up by the test; the state machine's own changes are cut in
 * test-super-level.c.
 */
#include "tests/unit/super-disks.h"

/* ---- changes that are made up ------------------------------------------------------ */

static void make(uint64_t seed)
{
	struct ddr_super sb;

	fixture_super(&sb, 1, 1, DDR_LAYOUT_ROTATING, BYTES, 1);
	make_disks(seed, &sb);
	assert_int_equal(ddr_super_has_owners(&w.sb), super_disks_owned);
}

static void new_generation(void)
{
	w.next.generation++;
	memcpy(w.next.gen_prev, w.next.gen_id, sizeof(w.next.gen_prev));
	fixture_fill(w.next.gen_id, sizeof(w.next.gen_id), &w.seed);
}

/* A number of requests within a change: with owner pages it has about twice as many. */
static uint32_t somewhere(void)
{
	return pick(super_disks_owned ? 48 : 24);
}

static void set_state(uint32_t m, uint8_t state)
{
	w.next.member[m].state = state;
	w.next.member[m].since = w.next.generation;
	w.next.member[m].cursor = 0;
}

/*
 * A change as the state machine could make it: of a slot, or a member fails, comes back, or is in sync again. After a start the first
 * change is of a slot, and a member without a superblock of the last change is not made in sync.
 */
static void choose_change(bool only_slots)
{
	uint32_t m = 0;

	w.next = w.sb;
	w.next.seq = ddr_super_seq_behind(w.sb.seq);
	while (m < w.sb.roles && w.sb.member[m].state == DDR_MEMBER_IN_SYNC)
		m++;
	w.targets = alive(&w.sb);
	if (only_slots || pick(3) == 0 || !w.named ||
	    (m < w.sb.roles && w.sb.member[m].state == DDR_MEMBER_REBUILDING && !(w.named >> m & 1))) {
		w.next.slot_node[0] = w.next.slot_node[0] ? 0 : 1;
		return;
	}
	new_generation();
	if (m == w.sb.roles) {
		m = pick(w.sb.roles);
		set_state(m, DDR_MEMBER_FAULTY);
		w.targets &= ~(1u << m);
	} else if (w.sb.member[m].state == DDR_MEMBER_FAULTY) {
		set_state(m, DDR_MEMBER_REBUILDING);
	} else {
		set_state(m, DDR_MEMBER_IN_SYNC);
		w.next.log_base = w.next.generation;
	}
}

/* ---- tests ----------------------------------------------------------------------- */

/* Findings U5, S12: a cut after each request of a change, for many orders of these; the start after it is cut as well. */
static void a_cut_after_each_write(void **state)
{
	unsigned int cuts = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 24; seed++) {
		bool whole = false;

		for (uint32_t at = 0; !whole; at++) {
			make(seed);
			w.what = "a cut after each write";
			choose_change(true);
			assert_true(change(WHOLE));
			w.seed = seed * 1000 + at;
			choose_change(false);
			whole = change(at);
			start_anew();
			choose_change(true);
			change(somewhere());
			start_anew();
			cuts += w.cuts;
			free_disks();
		}
	}
	assert_true(cuts >= 500);
}

/* Finding U5: several cuts in a row, mostly without a completed change in between. */
static void many_cuts_in_a_row(void **state)
{
	unsigned int cuts = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		make(seed * 77);
		w.what = "cuts in a row";
		while (w.cuts < 30) {
			choose_change(pick(4) == 0);
			change(pick(4) == 0 ? WHOLE : somewhere());
			start_anew();
		}
		cuts += w.cuts;
		free_disks();
	}
	assert_true(cuts >= 1000);
}

/* The same place of all disks is written over, as by a tool that makes a partition table. */
static void zero_copies(unsigned int copy)
{
	static const uint8_t zero[DDR_META_BLOCK];

	for (uint32_t m = 0; m < w.sb.members; m++)
		assert_int_equal(pwrite(w.disk[m], zero, sizeof(zero), (off_t)ddr_super_offset(&w.sb, copy)), sizeof(zero));
}

/*
 * Finding S12: after a change both copies are at the newest generation, so losing either one on all disks costs nothing: the array is
 * not refused as older than what this node remembers, and the next change repairs both.
 */
static void either_copy_may_be_lost_on_all_disks(void **state)
{
	struct found f;

	(void)state;
	for (uint64_t seed = 1; seed <= 60; seed++) {
		make(seed);
		w.what = "one copy lost on all disks";
		for (uint32_t n = pick(4); n; n--) {
			choose_change(false);
			assert_true(change(WHOLE));
		}
		choose_change(true);
		w.next.slot_node[0] = 1;
		new_generation();
		assert_true(change(WHOLE));
		zero_copies((unsigned int)(seed & 1));
		assemble(&f, &w.known);
		assert_int_equal(f.assembly.super.generation, w.sb.generation);
		start_anew();
		choose_change(true);
		assert_true(change(WHOLE));
		assemble(&f, &w.known);
		for (uint32_t m = 0; m < w.sb.members; m++)
			for (unsigned int c = 0; c < DDR_SB_COPIES && alive(&w.sb) >> m & 1; c++) {
				assert_true(f.supers[m].copy[c].found);
				assert_int_equal(f.supers[m].copy[c].super.generation, w.sb.generation);
				assert_int_equal(f.supers[m].copy[c].super.slot_node[0], w.sb.slot_node[0]);
			}
		free_disks();
	}
}

/*
 * Format 2: a change writes the pages of a copy, and then its superblock. Between the two this copy is torn, and the other one counts; so it is
 * never the copy that counts whose pages are written. (assemble() compares the pages that are found.)
 */
static int with_owners(void **state)
{
	(void)state;
	super_disks_owned = true;
	return 0;
}

static int without_owners(void **state)
{
	(void)state;
	super_disks_owned = false;
	return 0;
}

/* A disk whose pages were spoiled in one copy is one whose superblock is: the other copy counts, and the next change repairs it. */
static void spoiled_pages_spoil_the_copy(void **state)
{
	uint8_t byte;
	struct found f;

	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		unsigned int copy = seed & 1;
		uint64_t at;

		make(seed);
		w.what = "pages of one copy spoiled";
		choose_change(false);
		assert_true(change(WHOLE));
		for (uint32_t m = 0; m < w.sb.members; m++) {
			at = ddr_owner_offset(&w.sb, copy) + pick(w.sb.owner_pages * DDR_META_BLOCK);
			assert_int_equal(pread(w.disk[m], &byte, 1, (off_t)at), 1);
			byte ^= 0x10;
			assert_int_equal(pwrite(w.disk[m], &byte, 1, (off_t)at), 1);
		}
		assemble(&f, &w.known);
		for (uint32_t m = 0; m < w.sb.members; m++) {
			assert_int_equal(f.supers[m].newest, 1 - copy);
			assert_false(f.supers[m].copy[copy].found);
		}
		start_anew();
		choose_change(true);
		if (!change(somewhere()))	/* the good copy is not the first one to be written */
			start_anew();
		choose_change(true);
		assert_true(change(WHOLE));
		assemble(&f, &w.known);
		for (uint32_t m = 0; m < w.sb.members; m++)
			for (unsigned int c = 0; c < DDR_SB_COPIES && alive(&w.sb) >> m & 1; c++)
				assert_true(f.supers[m].copy[c].found);
		free_disks();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cut_after_each_write),
		cmocka_unit_test(many_cuts_in_a_row),
		cmocka_unit_test(either_copy_may_be_lost_on_all_disks),
		{ "a_cut_after_each_write, format 2", a_cut_after_each_write, with_owners, without_owners, NULL },
		{ "many_cuts_in_a_row, format 2", many_cuts_in_a_row, with_owners, without_owners, NULL },
		{ "either_copy_may_be_lost_on_all_disks, format 2", either_copy_may_be_lost_on_all_disks, with_owners, without_owners, NULL },
		cmocka_unit_test_setup_teardown(spoiled_pages_spoil_the_copy, with_owners, without_owners),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
