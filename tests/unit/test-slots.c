// SPDX-License-Identifier: GPL-2.0-or-later
/* The message for a node that gets no slot. */
#include "tests/unit/fixture.h"
#include "lib/cluster/slots.h"

static const char *name(void *ctx, uint32_t node, char *buf, size_t size)
{
	assert_null(ctx);
	snprintf(buf, size, "node%u", node);
	return buf;
}

/* Finding T17: which nodes own the slots, and what frees one; starting again does not. */
static void a_node_without_a_slot_is_told_what_frees_one(void **state)
{
	struct ddr_super sb = { .slots = 2, .slot_node = { 4, 2 }, .name = "data" };
	struct ddr_sm_status st = { .n_nodes = 2 };
	char text[1024];

	(void)state;
	st.node[0].id = 2;
	st.node[0].state = DDR_NS_LEFT;
	st.node[1].id = 4;
	st.node[1].state = DDR_NS_ACTIVE;
	ddr_slots_taken(&sb, &st, name, NULL, text, sizeof(text));
	assert_non_null(strstr(text, "has 2 slots"));
	assert_non_null(strstr(text, "node4 (uses the array), node2 (not there)"));
	assert_non_null(strstr(text, "ddraid stop data"));
	assert_non_null(strstr(text, "corosync.conf"));
	sb.incompat = DDR_INCOMPAT_OWNERS;	/* format 2: a dead node keeps no slot */
	ddr_slots_taken(&sb, &st, name, NULL, text, sizeof(text));
	assert_non_null(strstr(text, "fenced, or acknowledged as powered off, is free when its regions are taken over"));
	assert_null(strstr(text, "node id of the old one"));
	sb.slots = 1;
	ddr_slots_taken(&sb, NULL, name, NULL, text, sizeof(text));
	assert_non_null(strstr(text, "has 1 slot in its dirty log, and other nodes have it: node4 (not there). "));
	assert_non_null(strstr(text, "ddraid.conf"));
}

static void the_sentence_for_64_slots_fits(void **state)
{
	struct ddr_super sb = { .slots = DDR_MAX_SLOTS };
	struct ddr_sm_status st = { 0 };
	char text[1024];

	(void)state;
	memset(sb.name, 'x', sizeof(sb.name) - 1);
	for (uint32_t s = 0; s < sb.slots; s++)
		sb.slot_node[s] = 1000000000 + s;
	ddr_slots_taken(&sb, &st, name, NULL, text, sizeof(text));
	assert_true(strlen(text) < sizeof(text) - 1);
	assert_non_null(strstr(text, "and 58 more. "));
	assert_non_null(strstr(text, "start the array here again"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_node_without_a_slot_is_told_what_frees_one),
		cmocka_unit_test(the_sentence_for_64_slots_fits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
