// SPDX-License-Identifier: GPL-2.0-or-later
/* Spares on several nodes: which is taken, what is folded into the map before, the rebuild and its cursor, its end. */
#include <errno.h>

#include "sm-rebuild.h"

/* The whole rebuild, undisturbed: only blocks that were ever written are rebuilt, from the members in sync, by the writer alone. */
static void a_spare_takes_the_place(void **state)
{
	struct cx *c = *state;
	struct cx_node *writer = &c->node[0], *other = &c->node[1];
	int at;

	wants(c, 1, 1);
	member_fails(c, 1, ROLE, 5);
	cx_settle(c);
	cx_tick(c, 100);
	for (uint32_t i = 0; i < 2; i++) {
		struct ddr_sm_status st = cx_status(&c->node[i]);

		at = cx_find(&c->node[i], DDR_OUT_TABLE, 0);
		assert_true(at >= 0);
		assert_int_equal(c->node[i].log[at].member, SPARE);
		assert_int_equal(c->node[i].log[at].index, ROLE);
		assert_true(cx_event(&c->node[i], DDR_EV_REBUILD_START) >= 0 && cx_event(&c->node[i], DDR_EV_REBUILD_DONE) >= 0);
		assert_int_equal(st.member_state[SPARE], DDR_MEMBER_IN_SYNC);
		assert_int_equal(st.member_state[ROLE], DDR_MEMBER_FAULTY);
		assert_false(st.degraded);
	}
	at = cx_find(writer, DDR_OUT_JOB_RANGE, 0);
	assert_true(at >= 0);
	assert_int_equal(writer->log[at].member, SPARE);
	assert_int_equal(writer->log[at].members, 0x3f & ~(1u << ROLE));
	assert_true(covered(writer, 256) && covered(writer, 511));
	assert_false(covered(writer, 0) || covered(writer, 512));
	assert_int_equal(cx_find(other, DDR_OUT_JOB_RANGE, 0), -1);
	assert_int_equal(c->sb.member[SPARE].role, ROLE);
	assert_int_equal(c->sb.member[ROLE].role, DDR_ROLE_NONE);
	assert_int_equal(c->sb.generation, 4);		/* failed, taken, in sync */
	assert_int_equal(c->sb.log_base, 4);		/* a member that failed earlier needs all of it */
}

/* Node 2 wrote a region for the first time, and has it still dirty: the map records that before the region could be taken for never written. */
static void dirty_regions_are_in_the_map_before_a_rebuild(void **state)
{
	struct cx *c = *state;
	bool folded = false;

	wants(c, 1, 3);
	cx_forget(c);
	c->answers = CX_MSG | CX_KERNEL;
	member_fails(c, 1, ROLE, 5);
	for (uint32_t round = 0; round < 200; round++) {
		cx_settle(c);
		for (uint32_t i = 0; i < 2; i++)
			for (uint32_t o = 0; o < c->node[i].n; o++) {
				bool map = c->node[i].log[o].type == DDR_OUT_MAP_WRITE;

				if (!c->node[i].open[o] || !cx_is_io(&c->node[i].log[o]))
					continue;
				cx_done(c, &c->node[i], o);
				folded |= map && (ddr_map_get(c->disk[CX_SLOTS].payload, 3) & DDR_REGION_STATE_MASK) == DDR_REGION_NEEDS_SYNC;
				assert_true(folded || cx_find(&c->node[0], DDR_OUT_JOB_RANGE, 0) < 0);
			}
		cx_tick(c, 10);
	}
	assert_true(folded);
	assert_true(covered(&c->node[0], 3 * 256));
}

/* Node 1 was away, so that node 2 is the writer, and node 1 the lowest, which recovers slots. */
static void the_second_writes(struct cx *c)
{
	cx_kill(c, 0);
	c->answers |= CX_FENCE;
	cx_view(c, 0xe, 0xe, true);
	cx_settle(c);
	c->node[0].cookie++;
	cx_start(c, 0, 0, 0);
	cx_view(c, 0xf, 0xf, true);
	cx_settle(c);
	assert_true(cx_status(&c->node[0]).ready && cx_status(&c->node[1]).ready);
	assert_int_equal(cx_status(&c->node[0]).writer, 2);
	takes_spares(c, 0);
}

/*
 * Node 4 had written a region for the first time, and dies together with node 3 before it could record that in the map. Node 1, which
 * is not the writer any more, recovers both slots. When the first slot was done it folded the marks that it knew of. It has to do so
 * again; otherwise the writer would skip the region while it is still being resynced here.
 */
static void dirty_regions_of_dead_nodes_are_in_the_map_too(void **state)
{
	struct cx *c = *state;
	struct cx_node *recovers = &c->node[0], *writer = &c->node[1];

	the_second_writes(c);
	wants(c, 3, 3);
	member_fails(c, 3, 5, 5);		/* Q: the others are resynced without it */
	pass_without(c, 50, 8, DDR_OUT_TABLE);
	assert_int_equal(cx_status(writer).rebuilding, SPARE);
	assert_int_equal(ddr_map_get(c->disk[CX_SLOTS].payload, 3) & DDR_REGION_STATE_MASK, DDR_REGION_UNWRITTEN);
	cx_kill(c, 2);
	cx_kill(c, 3);
	cx_forget(c);
	cx_view(c, 3, 3, true);
	pass_without(c, 50, 1, DDR_OUT_JOB_RANGE);
	assert_true(cx_event(recovers, DDR_EV_RECOVERY) >= 0);
	cx_settle(c);
	cx_tick(c, 100);
	assert_true(covered(writer, 3 * 256));
	assert_int_equal(cx_status(writer).member_state[SPARE], DDR_MEMBER_IN_SYNC);
}

/*
 * The same, but the marks of the first slot arrive after node 1 has folded all that it knew of, while it waits for the map. A
 * "folded" message sent between them and RECOVERED would count for these marks too, since it is delivered after RECOVERED.
 */
static void regions_taken_over_while_folding_are_in_the_map(void **state)
{
	struct cx *c = *state;
	struct cx_node *recovers = &c->node[0], *writer = &c->node[1];

	the_second_writes(c);
	wants(c, 3, 2);
	wants(c, 0, 3);
	cx_forget(c);
	member_fails(c, 1, ROLE, 5);
	pass_but(c, 40, (const int[CX_NODES]){ -1, DDR_OUT_MAP_WRITE, -1, DDR_OUT_TABLE });
	assert_int_equal(cx_status(writer).rebuilding, SPARE);
	cx_done(c, writer, cx_open(writer, DDR_OUT_MAP_WRITE));		/* the map as of the beginning of the rebuild */
	pass_but(c, 20, (const int[CX_NODES]){ -1, DDR_OUT_MAP_WRITE, -1, DDR_OUT_TABLE });
	cx_kill(c, 3);
	cx_view(c, 7, 7, true);
	pass_but(c, 60, (const int[CX_NODES]){ DDR_OUT_SLOT_WRITE, DDR_OUT_MAP_WRITE, -1, -1 });
	assert_true(cx_event(recovers, DDR_EV_RECOVERY) >= 0);
	c->answers = 0;
	cx_done(c, writer, cx_open(writer, DDR_OUT_MAP_WRITE));		/* the message about that reaches node 1 after its RECOVERED */
	cx_done(c, recovers, cx_open(recovers, DDR_OUT_SLOT_WRITE));
	pass_without(c, 60, 0, DDR_OUT_MAP_WRITE);
	for (uint32_t round = 0; round < 50; round++)
		cx_tick(c, 500);
	assert_true(covered(writer, 2 * 256));
	assert_true(covered(writer, 3 * 256));
	assert_int_equal(cx_status(writer).member_state[SPARE], DDR_MEMBER_IN_SYNC);
}

/* The spare has the place, and no node a table yet that names it there; then the old disk fails one more write of node 2. */
static void taken_without_a_table(struct cx *c)
{
	struct cx_node *n = &c->node[1];

	wants(c, 1, 1);
	cx_forget(c);
	member_fails(c, 0, ROLE, 5);
	pass_without(c, 20, 3, DDR_OUT_TABLE);
	assert_true(cx_event(n, DDR_EV_REBUILD_START) >= 0);
	cx_record(c, 1, (struct ddr_rec){ .type = DDR_K_ERROR, .seq = 77, .member = ROLE, .status = DDR_EC_IO, .arg[0] = DDR_OP_WRITE });
	pass_without(c, 20, 3, DDR_OUT_TABLE);
	for (uint32_t o = 0; o < n->n; o++)
		assert_false(n->log[o].type == DDR_OUT_EVENT && n->log[o].event == DDR_EV_MEMBER_ERROR && n->log[o].member == SPARE);
}

static bool answered(const struct cx_node *n, uint64_t seq)
{
	for (uint32_t o = 0; o < n->n; o++)
		if (n->log[o].type == DDR_OUT_KERNEL && n->log[o].rec.type == DDR_U_RESOLVE && n->log[o].rec.seq == seq)
			return n->log[o].rec.arg[0] == DDR_RES_RETRY;
	return false;
}

/* Node 2 has not got a table with the new device: the rebuild waits, and no kernel reads it. If it never can, the member is broken for it. */
static void a_node_that_does_not_reach_the_spare(void **state)
{
	struct cx *c = *state;
	struct cx_node *n = &c->node[1];

	taken_without_a_table(c);
	cx_open(&c->node[0], DDR_OUT_TABLE);
	pass_without(c, 30, 2, DDR_OUT_TABLE);
	assert_int_equal(cx_find(&c->node[0], DDR_OUT_JOB_RANGE, 0), -1);
	for (uint32_t o = 0; o < n->n; o++)
		assert_false(n->log[o].type == DDR_OUT_KERNEL && n->log[o].rec.type == DDR_U_MEMBER && n->log[o].rec.member == ROLE &&
			     n->log[o].rec.arg[0] == DDR_KM_REBUILDING);
	for (uint32_t round = 0; round < 30; round++) {		/* it is tried again until all know, and it never can */
		for (uint32_t o = 0, last = n->n; o < last; o++)
			if (n->open[o] && n->log[o].type == DDR_OUT_TABLE)
				cx_table(c, n, o, -ENXIO);
		pass_without(c, 1, 2, DDR_OUT_TABLE);
	}
	assert_int_equal(cx_status(n).member_state[SPARE], DDR_MEMBER_FAULTY);
	assert_int_equal(cx_status(&c->node[0]).member_state[SPARE], DDR_MEMBER_FAULTY);
	assert_true(answered(n, 77));		/* no new table came that would have ended it */
	assert_false(cx_status(n).gave_up || cx_status(n).failed);
}

/* An error of the failed disk that had the place before is not the spare's error. */
static void an_error_of_the_previous_disk_does_not_count(void **state)
{
	struct cx *c = *state;

	taken_without_a_table(c);
	cx_settle(c);
	cx_tick(c, 100);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(cx_status(&c->node[i]).member_state[SPARE], DDR_MEMBER_IN_SYNC);
	assert_int_equal(c->sb.member[SPARE].err_write, 0);
}

/* A kernel whose table has the old device where the new one has its place is not told that it is in sync. */
static void an_old_table_is_not_believed(void **state)
{
	struct cx *c = *state;
	struct cx_node *n = &c->node[1];

	wants(c, 0, 1);
	member_fails(c, 0, ROLE, 5);
	cx_settle(c);
	cx_tick(c, 100);
	assert_int_equal(cx_status(n).member_state[SPARE], DDR_MEMBER_IN_SYNC);
	cx_kill(c, 1);
	cx_view(c, 1, 3, true);
	cx_settle(c);
	cx_start(c, 1, 0, 0);
	cx_view(c, 3, 3, true);
	pass_without(c, 20, 2, DDR_OUT_TABLE);
	assert_int_equal(n->log[cx_open(n, DDR_OUT_TABLE)].member, SPARE);
	for (uint32_t o = 0; o < n->n; o++)
		assert_false(n->log[o].type == DDR_OUT_KERNEL && n->log[o].rec.type == DDR_U_MEMBER && n->log[o].rec.member == ROLE);
	assert_false(cx_status(n).ready);
	cx_settle(c);
	assert_true(cx_status(n).ready);
}

static void generation_follows(struct ddr_super *sb, uint64_t generation)
{
	sb->generation = generation;
	sb->log_base = generation - 1;
	memset(sb->gen_prev, 5, sizeof(sb->gen_prev));
	memset(sb->gen_id, 6, sizeof(sb->gen_id));
}

/*
 * Node 3 is bound to a table that was judged by the superblocks @old, and is cut off while the others agree on those of @c. They
 * begin, and the network recovers.
 */
static void joins_with_an_old_table(struct cx *c, const struct ddr_super *old)
{
	struct cx_node *n = &c->node[2];

	assert_int_equal(ddr_super_check(&c->sb).code, DDR_FE_OK);
	n->cfg.super = old;
	cx_start(c, 2, 0, 0);
	cx_view(c, 4, 4, false);
	for (uint32_t i = 0; i < 2; i++)
		cx_start(c, i, 0, 0);
	cx_view(c, 3, 3, true);
	cx_settle(c);
	cx_tick(c, 100);
	assert_true(cx_status(&c->node[0]).ready);
	n->n = 0;
	cx_view(c, 7, 7, true);
	cx_settle(c);
	cx_tick(c, 100);
}

/* Every device of its table is a member in sync, but at a place that now belongs to another member. It must not be read or written. */
static void who_has_every_disk_in_another_place_is_put_out(struct cx *c, const struct ddr_super *old)
{
	struct cx_node *n = &c->node[2];
	int at;

	joins_with_an_old_table(c, old);
	at = cx_find(n, DDR_OUT_GIVE_UP, 0);
	assert_true(at >= 0);
	assert_int_equal(n->log[at].event, DDR_EV_EVICTED);
	assert_int_equal(cx_find(n, DDR_OUT_KERNEL, DDR_U_ENABLE), -1);
	assert_int_equal(cx_find(n, DDR_OUT_TABLE, 0), -1);
	assert_true(cx_status(&c->node[0]).ready);
}

static void a_table_with_exchanged_members_is_not_used(void **state)
{
	struct cx *c = *state;
	static struct ddr_super old;

	cx_down(c);
	cx_make(c, 3, true);
	old = c->sb;
	generation_follows(&c->sb, 30);
	for (uint32_t m = 0; m < 6; m++) {
		c->sb.member[m].role = (uint16_t)((m + 1) % 6);
		c->sb.member[m].since = 10 + m;
	}
	who_has_every_disk_in_another_place_is_put_out(c, &old);
}

/* A member that failed came back as a spare, and took the place of the next one that failed. */
static void a_table_with_a_member_that_lost_its_role_is_not_used(void **state)
{
	struct cx *c = *state;
	static struct ddr_super old;

	cx_down(c);
	cx_make(c, 3, true);
	old = c->sb;
	generation_follows(&c->sb, 9);
	c->sb.member[0].role = 1;
	c->sb.member[0].since = 6;
	c->sb.member[1].role = DDR_ROLE_NONE;
	c->sb.member[1].state = DDR_MEMBER_FAULTY;
	c->sb.member[1].since = 5;
	c->sb.member[SPARE].role = 0;
	c->sb.member[SPARE].state = DDR_MEMBER_FAULTY;
	c->sb.member[SPARE].since = 9;
	who_has_every_disk_in_another_place_is_put_out(c, &old);
}

/* The place that a table gave a member before the member lost it does not count for the place that the member gets next. */
static void a_place_that_was_left_is_forgotten(void **state)
{
	struct cx *c = *state;
	struct cx_node *n = &c->node[2];
	static struct ddr_super old;
	int at;

	c->spares = 1;
	cx_down(c);
	cx_make(c, 3, true);
	old = c->sb;
	generation_follows(&c->sb, 9);
	c->sb.member[SPARE].role = 0;
	c->sb.member[SPARE].since = 6;
	c->sb.member[SPARE].state = DDR_MEMBER_IN_SYNC;
	c->sb.member[0].role = DDR_ROLE_NONE;
	c->sb.member[0].since = 8;
	c->sb.member[0].state = DDR_MEMBER_SPARE;
	joins_with_an_old_table(c, &old);
	assert_true(cx_status(n).ready);
	at = cx_find(n, DDR_OUT_TABLE, 0);
	assert_int_equal(n->log[at].member, SPARE);
	assert_int_equal(n->log[at].index, 0);
	cx_forget(c);
	for (uint32_t i = 0; i < 3; i++)
		takes_spares(c, i);
	member_fails(c, 0, 1, 5);
	cx_settle(c);
	cx_tick(c, 100);
	assert_int_equal(c->sb.member[0].role, 1);
	at = cx_find(n, DDR_OUT_TABLE, 0);
	assert_true(at >= 0);
	assert_int_equal(n->log[at].member, 0);
	assert_int_equal(n->log[at].index, 1);
}

/* The writer dies: the next one continues at the cursor on the disks, and repeats what was not flushed. */
static void the_next_writer_goes_on(void **state)
{
	struct cx *c = *state;
	struct cx_node *next = &c->node[1];

	wants(c, 1, 0);
	wants(c, 1, 1);
	wants(c, 1, 2);
	wants(c, 1, 3);
	c->answers = CX_MSG | CX_KERNEL;
	member_fails(c, 1, ROLE, 5);
	for (uint32_t round = 0; round < 400 && c->sb.member[SPARE].cursor == 0; round++) {
		bool done = false;

		cx_settle(c);
		for (uint32_t i = 0; i < 2; i++)
			for (uint32_t o = 0; o < c->node[i].n && !done; o++)
				if (c->node[i].open[o] && cx_is_io(&c->node[i].log[o]) &&
				    (c->node[i].log[o].type != DDR_OUT_JOB_RANGE || c->node[i].log[o].start < 512)) {
					cx_done(c, &c->node[i], o);
					done = true;
				}
		cx_tick(c, 10);
	}
	assert_true(c->sb.member[SPARE].cursor > 0 && c->sb.member[SPARE].cursor <= 512);
	assert_true(covered(&c->node[0], 512));		/* under way */
	cx_kill(c, 0);
	cx_forget(c);
	c->answers = CX_ALL | CX_FENCE;
	cx_view(c, 2, 2, true);
	cx_settle(c);
	cx_tick(c, 100);
	assert_true(covered(next, 1023));
	assert_false(covered(next, 0));
	assert_int_equal(cx_status(next).member_state[SPARE], DDR_MEMBER_IN_SYNC);
}

/* Nothing was ever written, so there is nothing to rebuild; but the member is not in sync while writes of this kind are not answered. */
static void not_in_sync_without(struct cx *c, enum ddr_out_type kind)
{
	member_fails(c, 1, ROLE, 5);
	pass_without(c, 200, 3, kind);
	assert_int_equal(cx_status(&c->node[1]).member_state[SPARE], DDR_MEMBER_REBUILDING);
	assert_true(c->node[0].log[cx_open(&c->node[0], kind)].members >> SPARE & 1);
	pass_without(c, 200, 0, kind);
	assert_int_equal(cx_status(&c->node[1]).member_state[SPARE], DDR_MEMBER_IN_SYNC);
}

static void in_sync_with_the_map_only(void **state)
{
	not_in_sync_without(*state, DDR_OUT_MAP_WRITE);
}

static void in_sync_with_the_log_only(void **state)
{
	not_in_sync_without(*state, DDR_OUT_LOG_WRITE);
}

/* The spare fails while it is rebuilt: it is not needed, and no data of the array is lost. */
static void the_spare_fails(void **state)
{
	struct cx *c = *state;
	struct ddr_input in = { .type = DDR_IN_JOB_DONE, .result = -5, .failed_members = 1u << SPARE };
	uint32_t at;

	wants(c, 1, 1);
	member_fails(c, 1, ROLE, 5);
	pass_without(c, 200, 3, DDR_OUT_JOB_RANGE);
	at = cx_open(&c->node[0], DDR_OUT_JOB_RANGE);
	in.io = c->node[0].log[at].io;
	c->node[0].open[at] = false;
	cx_step(c, &c->node[0], &in);
	c->answers = CX_ALL;
	cx_settle(c);
	assert_int_equal(cx_status(&c->node[1]).member_state[SPARE], DDR_MEMBER_FAULTY);
	assert_int_equal(cx_status(&c->node[1]).rebuilding, DDR_NO_MEMBER);
	assert_false(cx_status(&c->node[1]).failed);
	assert_true(cx_find(&c->node[1], DDR_OUT_KERNEL, DDR_U_RESOLVE) >= 0);
}

/* A bad sector with no redundancy left: status can show which blocks delay the rebuild, until they are written. */
static void status_shows_what_delays_a_rebuild(void **state)
{
	struct cx *c = *state;
	struct cx_node *n = &c->node[0];
	struct ddr_input bad = { .type = DDR_IN_JOB_DONE, .result = -ENODATA, .failed_members = 1 };
	struct ddr_sm_progress p;
	int at;

	wants(c, 1, 1);
	member_fails(c, 0, ROLE, 5);
	pass_without(c, 50, 1, DDR_OUT_JOB_RANGE);
	at = cx_find(n, DDR_OUT_JOB_RANGE, 0);
	assert_true(at >= 0 && n->open[at] && n->log[at].job == DDR_KA_REBUILD);
	ddr_sm_rebuild_progress(n->sm, &p);
	assert_true(p.total > 0 && p.bad_count == 0);
	bad.io = n->log[at].io;
	n->open[at] = false;
	cx_step(c, n, &bad);
	ddr_sm_rebuild_progress(n->sm, &p);
	assert_int_equal(p.bad_start, n->log[at].start);
	assert_int_equal(p.bad_count, n->log[at].count);
	assert_true(p.at <= p.bad_start && p.done < p.total);
	ddr_sm_rebuild_progress(c->node[1].sm, &p);	/* known to the node that runs it */
	assert_int_equal(p.bad_count, 0);
	pass_without(c, 800, 0, DDR_OUT_JOB_RANGE);	/* it is tried again, and can be read */
	ddr_sm_rebuild_progress(n->sm, &p);
	assert_int_equal(p.total + p.bad_count, 0);
	assert_int_equal(cx_status(n).member_state[SPARE], DDR_MEMBER_IN_SYNC);
}

/* What the kernel was last told, for `dmsetup status`. */
static struct ddr_rec last_status(const struct cx_node *n)
{
	struct ddr_rec rec = { 0 };

	for (uint32_t i = 0; i < n->n; i++)
		if (n->log[i].type == DDR_OUT_KERNEL && n->log[i].rec.type == DDR_U_STATUS)
			rec = n->log[i].rec;
	return rec;
}

/* The current block and the total: on the node that runs the rebuild, and on the others once the superblocks have them. */
static void kernels_are_told_the_rebuild_cursor(void **state)
{
	struct cx *c = *state;
	struct cx_node *n = &c->node[0];
	int at;

	wants(c, 1, 1);
	wants(c, 1, 2);
	member_fails(c, 1, ROLE, 5);
	pass_without(c, 50, 1, DDR_OUT_JOB_RANGE);
	at = cx_find(n, DDR_OUT_JOB_RANGE, 0);
	assert_true(at >= 0 && n->open[at] && n->log[at].start == 256 && n->log[at].count == 256);
	assert_int_equal(last_status(n).arg[0], DDR_KA_REBUILD);
	assert_int_equal(last_status(n).count, c->sb.array_blocks);
	assert_true(last_status(n).start <= 256);
	cx_done(c, n, (uint32_t)at);
	pass_without(c, 50, 1, DDR_OUT_JOB_RANGE);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(last_status(&c->node[i]).arg[0], DDR_KA_REBUILD);
		assert_int_equal(last_status(&c->node[i]).start, 512);
		assert_int_equal(last_status(&c->node[i]).count, c->sb.array_blocks);
	}
	pass_without(c, 50, 0, DDR_OUT_JOB_RANGE);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(last_status(&c->node[i]).arg[0], DDR_KA_IDLE);
}

/* One node has an array of this geometry, and a region of it was written. The member at ROLE fails, and a spare is rebuilt in its place. */
static void rebuilds_as(struct cx *c, const struct rig_geometry *geo)
{
	cx_down(c);
	cx_make(c, 1, true);
	c->geo = *geo;
	rig_super(&c->sb, &c->geo);
	c->node[0].cfg.present = (1u << c->sb.members) - 1;
	cx_start(c, 0, 0, 0);
	cx_view(c, 1, 1, true);
	cx_settle(c);
	assert_true(cx_status(&c->node[0]).ready);
	takes_spares(c, 0);
	wants(c, 0, 1);
	cx_forget(c);
	member_fails(c, 0, ROLE, 5);
	cx_settle(c);
	cx_tick(c, 100);
}

/* Ranges end at a turn of the roles; but where each member has so little of a block that they are as long as can be. */
static void ranges_give_each_member_enough(void **state)
{
	struct cx *c = *state;

	for (uint8_t order = 0; order <= 3; order++)
		for (uint8_t layout = 0; layout < 2; layout++) {
			const struct rig_geometry geo = { .order = order, .parity = 2, .layout = layout, .blocks = 4096, .region_blocks = 1024,
							  .slots = CX_SLOTS, .spares = 1 };
			uint64_t blocks = layout == DDR_LAYOUT_ROTATING && order < 3 ? 256 : 512, next = 1024;

			rebuilds_as(c, &geo);
			for (uint32_t o = 0; o < c->node[0].n; o++) {
				const struct ddr_output *out = &c->node[0].log[o];

				if (out->type != DDR_OUT_JOB_RANGE || out->job != DDR_KA_REBUILD)
					continue;
				assert_int_equal(out->start, next);
				assert_int_equal(out->count, blocks);
				next += blocks;
			}
			assert_int_equal(next, 2048);
			assert_int_equal(cx_status(&c->node[0]).member_state[c->sb.roles], DDR_MEMBER_IN_SYNC);
		}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, cx_teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_spare_takes_the_place), TEST(dirty_regions_are_in_the_map_before_a_rebuild), TEST(a_node_that_does_not_reach_the_spare),
		TEST(an_error_of_the_previous_disk_does_not_count), TEST(an_old_table_is_not_believed), TEST(a_table_with_exchanged_members_is_not_used), TEST(a_table_with_a_member_that_lost_its_role_is_not_used), TEST(a_place_that_was_left_is_forgotten),
		TEST(the_next_writer_goes_on), TEST(in_sync_with_the_map_only),
		TEST(in_sync_with_the_log_only), TEST(status_shows_what_delays_a_rebuild), TEST(kernels_are_told_the_rebuild_cursor),
		TEST(the_spare_fails), TEST(ranges_give_each_member_enough),
		cmocka_unit_test_setup_teardown(dirty_regions_of_dead_nodes_are_in_the_map_too, setup_four, cx_teardown),
		cmocka_unit_test_setup_teardown(regions_taken_over_while_folding_are_in_the_map, setup_four, cx_teardown),
	};

	return cmocka_run_group_tests_name("state machine: spares and rebuild", tests, NULL, NULL);
}
