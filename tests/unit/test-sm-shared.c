// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What the nodes of a group share (lib/cluster/sm_shared.h), as doc/protocol.md, "The state, as a joiner gets it", specifies it.
 *
 * The bytes are made here a second time, from the document. Each field of the array gets a value of its own, a joiner takes them, and
 * must pass on the same bytes: so a field that the machine does not carry, or carries in another place, is found. This is the only
 * test that looks inside the machine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/cluster/sm_int.h"
#include "tests/sim/rig.h"

#define SLOTS	4u
#define MAX	131072u

static bool owned;	/* the array has owner pages */

struct bytes { uint8_t b[MAX]; uint32_t n, size_at, change_at; uint64_t next; uint8_t flag; };

/* ---- the document, once more ---------------------------------------------------- */

static void put(struct bytes *o, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		o->b[o->n++] = (uint8_t)(rig_random(&o->next) % 255 + 1);
}

static void put_value(struct bytes *o, unsigned int n, uint64_t value)
{
	for (unsigned int i = 0; i < n; i++)
		o->b[o->n++] = (uint8_t)(value >> 8 * i);
}

static void flags(struct bytes *o, unsigned int n)
{
	put_value(o, n, 0);
	memset(o->b + o->n - n, o->flag, n);
}

static void group(struct bytes *o)
{
	put(o, 8 + 8 + 4 + 4);		/* history, the ring's beginning, failures, writer */
	flags(o, 2);			/* not proven; failed */
	put(o, 8 + 4 * DDR_MAX_SLOTS);	/* slots to be recovered, by whom */
}

static void superblock(struct bytes *o)
{
	put(o, 8 + 8 + 8);		/* generation, sequence, log_base */
	o->size_at = o->n;
	put_value(o, 8, 512);		/* blocks: it must fit the disks */
	put(o, 4 + 4 + 16 + 16 + 2);	/* policy, ro_compat, id, the one before, members */
	for (uint32_t i = 0; i < DDR_MAX_MEMBERS; i++)
		put(o, 16 + 1 + 1 + 2 + 8 + 8 + 8);
	put(o, SLOTS * 4);
	put(o, 4 + 3 + 5 * 8);		/* verify */
}

static void change(struct bytes *o)
{
	o->change_at = o->n;
	flags(o, 1);
	put(o, 8 + 4 * 4 + 8 + 8 + 1);	/* acked; faulty, missing, leaving, exchanged; slots, died; mark */
	flags(o, 1);
	put(o, 4 * DDR_MAX_SLOTS);
	put(o, 4 * 3 + 8 + 16);		/* MEMBER_SET */
	put(o, 4);
	flags(o, 1);
}

static void nodes(struct bytes *o)
{
	for (uint32_t i = 0; i < DDR_SM_MAX_NODES; i++) {
		put(o, 4);
		flags(o, 8);
		put(o, 4);
		flags(o, 1);
		put(o, 8 + 4 + 4 + 4 + 8 + 16 + 8);
	}
}

static void ranges(struct bytes *o)
{
	for (uint32_t i = 0; i < DDR_SM_EX; i++) {
		flags(o, 1);
		put(o, 4 + 4 + 8 + 8 + 8 + 8);
		flags(o, 1);
	}
}

static void owners(struct bytes *o)
{
	put(o, 4 + 16);			/* changes, cluster */
	for (uint32_t i = 0; i < SLOTS; i++) {
		put(o, 4 + 1 + 16);	/* the last of them, state, machine */
		put(o, 16 + 8 + 8 + 64);	/* boot id, cookie, since, name */
		put(o, 16 + 8 + 8);	/* boot id, cookie and time of what was fenced */
		flags(o, 1);		/* its log is written anew ... */
		put(o, 8);		/* ... with this sequence and above */
	}
}

static void versions_and_map(struct bytes *o, uint32_t n_map)
{
	put(o, 16 * n_map);
	put(o, DDR_LOG_PAYLOAD);	/* of the one block that has regions */
}

/* @flag: of all flags. Returns the offset of the versions. */
static uint32_t document(struct bytes *o, uint8_t flag, uint32_t n_map)
{
	uint32_t versions;

	memset(o, 0, sizeof(*o));
	o->next = 42;
	o->flag = flag;
	group(o);
	superblock(o);
	change(o);
	nodes(o);
	ranges(o);
	put(o, 4 + 8);			/* growing */
	if (owned)
		owners(o);
	versions = o->n;
	versions_and_map(o, n_map);
	return versions;
}

/* ---- the machine ----------------------------------------------------------------- */

struct fx { struct ddr_super sb; struct ddr_sm *sm; struct bytes in, out; uint32_t versions; };

static void hand_on(struct fx *f)
{
	f->out.n = ddr_sm_state_encode(f->sm, f->out.b, MAX);
}

static void same(struct fx *f)
{
	assert_true(ddr_sm_state_decode(f->sm, &f->sm->in_order, f->in.b, f->in.n));
	hand_on(f);
	assert_int_equal(f->out.n, f->in.n);
	for (uint32_t i = 0; i < f->in.n; i++)
		if (f->in.b[i] != f->out.b[i])
			fail_msg("byte %u of the state: %02x was handed on as %02x", i, f->in.b[i], f->out.b[i]);
}

static void every_field_is_handed_on(void **state)
{
	struct fx *f = *state;

	f->versions = document(&f->in, 1, f->sb.map_blocks);
	same(f);
	/* of these bytes; they are the same for all arrays, but for the owners */
	assert_int_equal(ddr_sm_state_digest(f->in.b, f->in.n), owned ? 0xc089d6eeae88c537ull : 0xf755c5e0205781b3ull);
	document(&f->in, 0, f->sb.map_blocks);
	same(f);
	assert_int_equal(ddr_sm_state_digest(f->in.b, f->in.n), owned ? 0x161f6a5a564e9d68ull : 0xf52ef6593d9253e0ull);
}

/* Each byte that a node may know and another one not makes another digest, and is carried on as it is. */
static void every_byte_of_the_state_changes_its_digest(void **state)
{
	struct fx *f = *state;
	uint64_t digest;

	f->versions = document(&f->in, 1, f->sb.map_blocks);
	digest = ddr_sm_state_digest(f->in.b, f->in.n);
	for (uint32_t i = 0; i < f->in.n; i += i < f->versions ? 1 : 37) {
		if (i > f->in.size_at + 1 && i < f->in.size_at + 8)
			continue;	/* no array is so large */
		f->in.b[i] ^= 1;
		same(f);
		assert_true(ddr_sm_state_digest(f->out.b, f->out.n) != digest);
		f->in.b[i] ^= 1;
	}
	same(f);
}

static void a_state_that_is_cut_is_refused(void **state)
{
	struct fx *f = *state;

	document(&f->in, 1, f->sb.map_blocks);
	for (uint32_t cut = 1; cut < f->in.n; cut += 101)
		assert_false(ddr_sm_state_decode(f->sm, &f->sm->in_order, f->in.b, f->in.n - cut));
	assert_false(ddr_sm_state_decode(f->sm, &f->sm->in_order, f->in.b, f->in.n + 1));
}

/* Nothing of it is left but the superblock, the versions and the map, which the next state replaces as a whole. */
static void forgetting_clears_every_field(void **state)
{
	struct ddr_outputs outs = { .out = calloc(DDR_SM_MAX_OUT, sizeof(struct ddr_output)) };
	struct fx *f = *state;
	uint32_t super;

	f->versions = document(&f->in, 1, f->sb.map_blocks);
	super = f->in.size_at - 24;
	assert_true(ddr_sm_state_decode(f->sm, &f->sm->in_order, f->in.b, f->in.n));
	f->sm->o = &outs;
	ddr_sm_forget(f->sm, &f->sm->in_order);
	hand_on(f);
	free(outs.out);
	assert_int_equal(f->out.n, f->in.n);
	for (uint32_t i = 0; i < f->versions; i++) {
		bool kept = i >= super && i < f->in.change_at;

		if (f->out.b[i] != (kept ? f->in.b[i] : 0))
			fail_msg("byte %u of the state is %02x", i, f->out.b[i]);
	}
	assert_memory_equal(f->out.b + f->versions, f->in.b + f->versions, f->in.n - f->versions);
}

static void the_state_is_dumped_as_text(void **state)
{
	struct fx *f = *state;
	char *text = (char *)f->out.b;
	size_t n = ddr_sm_dump(f->sm, text, MAX), lines = 0;

	assert_true(n < MAX && strstr(text, "super.generation 1\n") && strstr(text, "member[2].role 2\n") && !strstr(text, "nodes["));
	document(&f->in, 1, f->sb.map_blocks);
	assert_true(ddr_sm_state_decode(f->sm, &f->sm->in_order, f->in.b, f->in.n));
	n = ddr_sm_dump(f->sm, text, MAX);
	assert_true(n < MAX && strlen(text) == n);
	for (const char *p = text; (p = strchr(p, '\n')); p++)
		lines++;
	/* of the group, the superblock, a change, nodes, ranges, growing, versions: a line for each number, and for each row of bytes */
	assert_int_equal(lines, 7 + 64 + 9 + 16 * 7 + SLOTS + 9 + 13 + 64 + 64 * 18 + 128 * 8 + 2 + 2 * f->sb.map_blocks + (owned ? 2 + SLOTS * 12 : 0));
	assert_int_equal(ddr_sm_dump(f->sm, text, 10), n);
	assert_int_equal(strlen(text), 9);
}

static int setup(void **state)
{
	struct fx *f = calloc(1, sizeof(*f));
	struct rig_geometry geo = { .order = 2, .parity = 2, .blocks = 1024, .region_blocks = 256, .slots = SLOTS };
	struct ddr_sm_config cfg = { .node = 1, .super = &f->sb, .cluster = true };

	assert_non_null(f);
	rig_super(&f->sb, &geo);
	f->sm = rig_sm(&cfg);
	assert_non_null(f->sm);
	f->sm->in_order.owned = owned;
	*state = f;
	return 0;
}

static int setup_owned(void **state)
{
	owned = true;
	return setup(state);
}

static int teardown(void **state)
{
	struct fx *f = *state;

	free(f->sm);
	free(f);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_field_is_handed_on, setup, teardown),
		cmocka_unit_test_setup_teardown(every_byte_of_the_state_changes_its_digest, setup, teardown),
		cmocka_unit_test_setup_teardown(forgetting_clears_every_field, setup, teardown),
		cmocka_unit_test_setup_teardown(the_state_is_dumped_as_text, setup, teardown),
		cmocka_unit_test_setup_teardown(a_state_that_is_cut_is_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(every_field_is_handed_on, setup_owned, teardown),
		cmocka_unit_test_setup_teardown(every_byte_of_the_state_changes_its_digest, setup_owned, teardown),
		cmocka_unit_test_setup_teardown(forgetting_clears_every_field, setup_owned, teardown),
		cmocka_unit_test_setup_teardown(the_state_is_dumped_as_text, setup_owned, teardown),
		cmocka_unit_test_setup_teardown(a_state_that_is_cut_is_refused, setup_owned, teardown),
	};

	return cmocka_run_group_tests_name("state machine: what all share", tests, NULL, NULL);
}
