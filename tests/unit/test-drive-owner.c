// SPDX-License-Identifier: GPL-2.0-or-later
/* What the daemon puts into the owner pages beside superblocks of format 2. The rest of the world is played (drive-fixture.h). */
#include "lib/disk/layout.h"
#include "tests/unit/drive-fixture.h"

/* The state machine writes superblocks in which node 3 has slot 0, and node 4 slot 1. */
static void writes_supers(const struct ddr_input *in, struct ddr_outputs *out)
{
	(void)in;
	asks(out, DDR_OUT_SB_WRITE, 0, 7);
	play.answer = NULL;
}

static struct ddr_array *begin_with_owners(void)
{
	struct ddr_array *a = begin(true);

	fixture_super(&play.super, 2, 1, DDR_LAYOUT_ROTATING, 64u << 20, 0);
	assert_int_equal(ddr_layout_owners(&play.super, NULL), 0);
	ddr_owners_init(&a->owners, &play.super);
	play.super.slot_node[0] = 3;
	play.super.slot_node[1] = 4;
	play.super_writes = true;
	play.owner_known = (struct ddr_owner){ .node = 3, .state = DDR_SLOT_OWNED, .machine = { 9 }, .instance = { { 8 }, 7 }, .since = 6, .name = "three" };
	return a;
}

static void write_supers(struct ddr_array *a)
{
	play.answer = writes_supers;
	step(a);
}

static void the_pages_say_what_the_group_knows(void **state)
{
	struct ddr_array *a = begin_with_owners();

	(void)state;
	write_supers(a);
	assert_int_equal(play.pages_given, 1);
	assert_int_equal(play.refused, 0);
	assert_memory_equal(&play.pages.slot[0], &play.owner_known, sizeof(play.owner_known));
	assert_int_equal(play.pages.slot[1].node, 4);		/* nothing else is known of it */
	assert_int_equal(play.pages.slot[1].state, DDR_SLOT_OWNED);
	assert_int_equal(play.pages.slot[2].state, DDR_SLOT_FREE);
	end();
}

/* The state machine knows which cluster the pages name; the driver tells it which one this node is in, as soon as that is known. */
static void they_name_the_cluster_that_the_state_machine_knows(void **state)
{
	struct ddr_array *a = begin_with_owners();

	(void)state;
	play.owner_known.state = DDR_SLOT_OWNED;
	play.owner_known.node = ddr_sm_super(a->sm)->slot_node[0];
	play.cluster_known[0] = 5;
	write_supers(a);
	assert_int_equal(play.pages.cluster[0], 5);
	assert_int_equal(play.cluster_told, 0);
	play.cluster_id = 6;
	ddr_drive_tick(a, ++play.now);
	assert_int_equal(play.cluster_told, 6);
	end();
}

static void pages_that_no_reader_takes_are_not_written(void **state)
{
	struct ddr_array *a = begin_with_owners();

	(void)state;
	play.owner_known.name[1] = 7;
	write_supers(a);
	assert_int_equal(play.refused, 1);
	end();
}

static void format_1_has_no_pages(void **state)
{
	struct ddr_array *a = begin_with_owners();

	(void)state;
	play.super.incompat = 0;
	play.super.owner_offset = play.super.owner_pages = 0;
	write_supers(a);
	assert_int_equal(play.pages_given, 0);
	end();
}

/* A start says which machine it is on if that stays so, and its name. */
static void the_state_machine_knows_this_node(void **state)
{
	static const uint8_t none[16];

	(void)state;
	begin(true);
	assert_memory_equal(play.machine, none, sizeof(none));
	assert_string_equal(play.own_name, "n1");
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_pages_say_what_the_group_knows), cmocka_unit_test(they_name_the_cluster_that_the_state_machine_knows),
		cmocka_unit_test(pages_that_no_reader_takes_are_not_written), cmocka_unit_test(format_1_has_no_pages),
		cmocka_unit_test(the_state_machine_knows_this_node),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
