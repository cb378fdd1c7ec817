// SPDX-License-Identifier: GPL-2.0-or-later
/* What the daemon makes of the nodes of a group: fencing that covers several failures, or is too old, and a node of another release. */
#include "tests/unit/drive-fixture.h"

static unsigned int said;

static void asks_to_fence(const struct ddr_input *in, struct ddr_outputs *out)
{
	if (in->type == DDR_IN_NONE)
		asks(out, DDR_OUT_FENCE, 3, ++said);
}

/* With external fencing each failure of a node is a question to the operator; one answer covers all of them. */
static void a_node_that_fails_often_is_one_question(void **state)
{
	struct ddr_array *a = begin(true);

	(void)state;
	snprintf(d.conf.fence_command, sizeof(d.conf.fence_command), "%s", DDR_FENCE_EXTERNAL);
	said = 0;
	play.answer = asks_to_fence;
	for (unsigned int i = 0; i < 10 * DDR_ARRAY_ANSWERS; i++)
		step(a);
	assert_null(a->broken);
	assert_null(ddr_drive_fence_ack(a, 3));
	play.answer = NULL;
	ddr_drive_cluster_tick(a, ddr_now_ms());
	assert_int_equal(play.last.type, DDR_IN_FENCED);
	assert_int_equal(play.last.node, 3);
	assert_int_equal(play.last.failure, said);
	assert_int_equal(play.last.result, 0);
	end();
}

/* The nodes of the view are those of @nodes, a bit for each. Returns when that was. */
static uint64_t view(struct ddr_array *a, uint32_t nodes, uint64_t ring)
{
	uint32_t node[4], pid[4] = { 11, 12, 13, 14 }, n = 0;
	const uint8_t fences[4] = { DDR_FENCES_YES, DDR_FENCES_YES, DDR_FENCES_YES };

	for (uint32_t i = 1; i < 4; i++)
		if (nodes >> i & 1)
			node[n++] = i;
	ddr_drive_transport_events.view(a, node, pid, fences, n, ring);
	return play.now;
}

/* Node 3 is to be fenced: only a fencing that began after that moment counts. */
static uint64_t fenced_since(struct ddr_array *a)
{
	play.answer = asks_to_fence;
	step(a);
	play.answer = NULL;
	return play.lost_ms;
}

/*
 * Rule 6: the node was lost, and fenced. While this node was cut off, that one came back to the others and was lost once more. The
 * earlier fencing does not prove the later failure dead, and this node cannot know what happened meanwhile.
 */
static void an_old_fence_is_no_proof_for_who_was_away(void **state)
{
	struct ddr_array *a = begin(true);
	uint64_t lost, back;

	(void)state;
	snprintf(d.conf.fence_command, sizeof(d.conf.fence_command), "/bin/true");
	view(a, 0xe, 1);
	lost = view(a, 0x6, 2);
	assert_true(fenced_since(a) <= lost);
	view(a, 0x2, 2);			/* the daemon of node 2 restarts: the node was not away from corosync */
	view(a, 0x6, 2);
	assert_true(fenced_since(a) <= lost);
	lost = view(a, 0x2, 3);			/* we are cut off */
	back = view(a, 0x6, 4);
	assert_true(fenced_since(a) > lost);
	assert_true(fenced_since(a) <= back);
	lost = back;
	back = view(a, 0x6, 5);			/* and so quickly that the view is the same */
	assert_true(fenced_since(a) > lost);
	assert_true(fenced_since(a) <= back);
	end();
}

/*
 * A node that meets another release in the group, and takes no part yet, leaves the group and says why; otherwise no node could agree
 * on anything. A node that takes part stays, since leaving would get it fenced; and every node stays if the other release has left.
 */
static void a_node_that_meets_another_protocol_version_refuses_the_array(void **state)
{
	static const struct { bool takes_part, gone, stays; } cases[] = { { false, false, false }, { true, false, true }, { false, true, true } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ddr_array *a = begin(true);

		play.takes_part = cases[i].takes_part;
		view(a, 0x6, 1);
		ddr_drive_transport_events.foreign(a, 2, 99);
		view(a, 0xe, 2);
		if (cases[i].gone)
			view(a, 0xa, 3);
		assert_int_equal(a->state, DDR_ARRAY_RUNNING);		/* not from within a step */
		run();
		assert_int_equal(a->state, cases[i].stays ? DDR_ARRAY_RUNNING : DDR_ARRAY_REFUSED);
		assert_int_equal(play.left, !cases[i].stays);
		if (!cases[i].stays) {
			assert_null(a->chan);
			assert_string_equal(play.event, "refused");
			assert_non_null(strstr(a->error, "node 2 (node 2) speaks version 99 of the group protocol, this one and its kernel module speak versions "));
		}
		end();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_node_that_fails_often_is_one_question),
		cmocka_unit_test(an_old_fence_is_no_proof_for_who_was_away),
		cmocka_unit_test(a_node_that_meets_another_protocol_version_refuses_the_array),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
