// SPDX-License-Identifier: GPL-2.0-or-later
/* Log and map of an array that is loaded, and what is read again of its members, while one of them hangs. */
#include "tests/unit/load-rig.h"

/* ---- log and map ----------------------------------------------------------------- */

static void expect_all(void)
{
	assert_string_equal(rig.load->error.text, "");
	assert_true(rig.load->ok);
	assert_int_equal(rig.load->present, 7);
	assert_int_equal(rig.load->table, 7);
	assert_int_equal(rig.load->members->open, 7);
}

/* @seq of the log of slot 0; 0: it was unreadable. The other slots were never written. */
static void expect_log(uint64_t seq, uint64_t map)
{
	const struct ddr_load *l = rig.load;

	for (unsigned int i = 0; i < rig.sb.slots * rig.sb.log_blocks; i++)
		assert_int_equal(l->log[i].valid, i == 0 && seq);
	assert_int_equal(l->log[0].seq, seq);
	for (unsigned int i = 0; i < rig.sb.map_blocks; i++)
		assert_int_equal(l->map[i].valid, i == 0 && map);
	assert_int_equal(l->map[0].seq, map);
}

static void the_newest_log_counts(void **state)
{
	(void)state;
	rig.whole = true;
	load();
	expect_all();
	expect_log(SEQ + 1, SEQ);
	end();
}

/* Any copy will do. The member hangs in the first area, and is not asked for the others. */
static void a_log_that_hangs(void **state)
{
	uint64_t begun = ddr_now_ms();

	(void)state;
	rig.whole = true;
	let_area_hang(1u << 1);
	load();
	assert_in_range(ddr_now_ms() - begun, LIMIT_MS, 20 * LIMIT_MS);
	expect_all();
	expect_log(SEQ, SEQ);
	assert_int_equal(hung(1), 1);
	end();
}

static void a_log_that_cannot_be_read(void **state)
{
	(void)state;
	rig.whole = true;
	rig.area_fails = 1u << 1;
	load();
	expect_all();
	expect_log(SEQ, SEQ);
	end();
}

/* The content of the log is not known yet: that does not make all regions dirty. */
static void a_log_that_hangs_everywhere(void **state)
{
	uint64_t begun = ddr_now_ms();

	(void)state;
	rig.whole = true;
	let_area_hang(7);
	load();
	assert_in_range(ddr_now_ms() - begun, LIMIT_MS, 20 * LIMIT_MS);
	assert_false(rig.load->ok);
	assert_non_null(strstr(rig.load->error.text, "start the array when its disks answer"));
	for (unsigned int m = 0; m < MEMBERS; m++)
		assert_int_equal(hung(m), 1);
	end();
}

/* The member that hangs may have what is unreadable on the others. */
static void a_log_that_hangs_or_cannot_be_read(void **state)
{
	(void)state;
	rig.whole = true;
	rig.area_fails = 6;
	let_area_hang(1);
	load();
	assert_false(rig.load->ok);
	assert_non_null(strstr(rig.load->error.text, "start the array when its disks answer"));
	end();
}

static void a_log_that_cannot_be_read_anywhere(void **state)
{
	(void)state;
	rig.whole = true;
	rig.area_fails = 7;
	load();
	expect_all();
	expect_log(0, 0);
	end();
}

/* ---- reading anew ---------------------------------------------------------------- */

static void on_reloaded(void *ctx, struct ddr_reload *r)
{
	(void)r;
	on_loaded(ctx);
}

/* Of the members that were loaded. @since: log_seq of the slot. */
static struct ddr_reload *reload_since(uint16_t slot, uint64_t since)
{
	struct ddr_reload *r = calloc(1, sizeof(*r));
	uint64_t begun = ddr_now_ms();

	assert_non_null(r);
	r->members = rig.load->members;
	r->super = rig.sb;
	r->from = 7;
	r->slot = slot;
	r->since = since;
	r->limit_ms = LIMIT_MS;
	r->done = on_reloaded;
	rig.ended = false;
	assert_int_equal(ddr_reload_start(r, rig.loop), 0);
	while (!rig.ended)
		qb_loop_run(rig.loop);
	assert_true(ddr_now_ms() - begun < 20 * LIMIT_MS);
	return r;
}

static struct ddr_reload *reload(uint16_t slot)
{
	return reload_since(slot, 0);
}

static void reload_fails(uint16_t slot, int result)
{
	struct ddr_reload *r = reload(slot);

	assert_int_equal(r->result, result);
	ddr_reload_free(r);
}

static void reload_finds(uint16_t slot, uint64_t seq)
{
	struct ddr_reload *r = reload(slot);

	assert_int_equal(r->result, 0);
	assert_true(r->block[0].valid);
	assert_int_equal(r->block[0].seq, seq);
	if (slot == DDR_RELOAD_SUPER)
		assert_int_equal(r->super.seq, 2);
	ddr_reload_free(r);
}

/*
 * Note 25: one block on one member is older than the log of the slot's owner. It landed late, and may lie over the only copy of a mark, whatever else can be
 * read. The sequence counts all the same: the next write must be above it.
 */
static void a_write_of_an_earlier_owner_landed_late(void **state)
{
	struct ddr_reload *r;

	(void)state;
	load();
	r = reload_since(0, SEQ);
	assert_true(r->result == 0 && r->block[0].valid && !r->block[0].late);
	assert_int_equal(r->block[0].seq, SEQ + 1);
	ddr_reload_free(r);
	r = reload_since(0, SEQ + 1);
	assert_true(r->result == 0 && !r->block[0].valid && r->block[0].late);
	assert_int_equal(r->block[0].seq, SEQ + 1);
	ddr_reload_free(r);
	r = reload_since(DDR_RELOAD_SUPER, SEQ + 1);	/* the map has one writer after the other, and no owner */
	assert_true(r->result == 0 && r->block[0].valid);
	ddr_reload_free(r);
	end();
}

/* The threads are not ours to wait for. */
static void until_they_answer(void)
{
	struct ddr_look *look;
	struct ddr_error err;

	let_hang(0, 0);
	for (unsigned int m = 0; m < MEMBERS; m++) {
		while (ddr_look_read(&look, &rig.load->members->dev[m], LIMIT_MS, &err) == DDR_LOOK_HANGS)
			usleep(10000);
		assert_non_null(look);
		ddr_look_wait(look);
		ddr_look_put(look);
	}
}

static void a_slot_that_hangs(void **state)
{
	(void)state;
	load();
	reload_finds(0, SEQ + 1);
	let_area_hang(1u << 1);
	reload_finds(0, SEQ);
	reload_finds(DDR_RELOAD_SUPER, SEQ);
	assert_int_equal(hung(1), 1);
	let_area_hang(7);
	reload_fails(0, -ETIMEDOUT);
	until_they_answer();
	reload_finds(0, SEQ + 1);	/* the next request for it gets it */
	end();
}

static void a_superblock_that_hangs(void **state)
{
	(void)state;
	load();
	let_hang(0, 1u << 1);
	reload_finds(DDR_RELOAD_SUPER, SEQ);
	reload_finds(0, SEQ);
	assert_int_equal(hung(1), 1);
	let_hang(0, 7);
	reload_fails(DDR_RELOAD_SUPER, -EIO);
	until_they_answer();
	reload_finds(DDR_RELOAD_SUPER, SEQ);
	end();
}

/* An array that is closed gives up its locks, and the thread that hangs in one has none of its own. */
static void a_hung_read_keeps_no_lock_of_an_array_that_ended(void **state)
{
	struct ddr_members *ended = NULL;

	(void)state;
	load();
	let_area_hang(1u << 1);
	reload_finds(0, SEQ);
	ddr_members_end(rig.load->members, &ended);
	for (unsigned int m = 0; m < MEMBERS; m++)
		lock(m);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_newest_log_counts, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_log_that_hangs, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_log_that_cannot_be_read, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_log_that_hangs_everywhere, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_log_that_hangs_or_cannot_be_read, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_log_that_cannot_be_read_anywhere, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_write_of_an_earlier_owner_landed_late, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_slot_that_hangs, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_superblock_that_hangs, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_hung_read_keeps_no_lock_of_an_array_that_ended, set_up, tear_down),
	};

	alarm(120);	/* a load that waits for a hanging disk is to fail */
	return cmocka_run_group_tests_name("load-area", tests, NULL, NULL);
}
