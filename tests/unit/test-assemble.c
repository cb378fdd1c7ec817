/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Assembly, on histories as they occur: machines that die between two superblock writes, members that come back, mirrors whose halves
 * are started one at a time.
 */
#include "tests/unit/fixture.h"
#include "lib/disk/assemble.h"

#define GIB	(1ull << 30)
#define SIZE	(4 * GIB)

/* An array, and the content of each of its disks. */
struct world {
	struct ddr_super now;			/* what the running array knows */
	struct ddr_super disk[DDR_MAX_MEMBERS];
	struct ddr_candidate cand[DDR_ASSEMBLE_MAX];
	size_t n;
	uint64_t next_id;
	struct ddr_assembly out;
	struct ddr_error err;
};

static const char *const names[DDR_MAX_MEMBERS] = {
	"sda", "sdb", "sdc", "sdd", "sde", "sdf", "sdg", "sdh", "sdi", "sdj", "sdk", "sdl", "sdm", "sdn", "sdo", "sdp",
};

/* Writes the array's current superblock to the disks of @set. */
static void write_disks(struct world *w, uint32_t set)
{
	w->now.seq++;
	for (uint32_t m = 0; m < w->now.members; m++) {
		if (!(set >> m & 1))
			continue;
		w->disk[m] = w->now;
		w->disk[m].this_member = (uint16_t)m;
		assert_int_equal(ddr_super_check(&w->disk[m]).code, DDR_FE_OK);
	}
}

static void new_world(struct world *w, uint8_t order, uint8_t parity, uint16_t spares)
{
	memset(w, 0, sizeof(*w));
	fixture_super(&w->now, order, parity, DDR_LAYOUT_DEDICATED, SIZE, spares);
	w->next_id = 1000;
	write_disks(w, UINT32_MAX);
}

/* The next generation, with member @m in @state, written to the disks of @set. */
static void change(struct world *w, uint32_t m, uint8_t state, uint32_t set)
{
	memcpy(w->now.gen_prev, w->now.gen_id, DDR_UUID_LEN);
	fixture_uuid(w->now.gen_id, w->next_id++);
	w->now.generation++;
	w->now.member[m].state = state;
	w->now.member[m].since = w->now.generation;
	write_disks(w, set);
}

static void show(struct world *w, uint32_t m)
{
	w->cand[w->n++] = (struct ddr_candidate){ .device = names[m], .super = &w->disk[m], .bytes = SIZE };
}

static void show_set(struct world *w, uint32_t set)
{
	w->n = 0;
	for (uint32_t m = 0; m < w->now.members; m++)
		if (set >> m & 1)
			show(w, m);
}

static int assemble(struct world *w)
{
	w->err.text[0] = '\0';
	return ddr_assemble(w->cand, w->n, NULL, &w->out, &w->err);
}

static void starts(struct world *w)
{
	if (assemble(w))
		fail_msg("refused: %s", w->err.text);
}

static void refused(struct world *w, const char *words)
{
	if (assemble(w) == 0)
		fail_msg("started, but '%s' was expected", words);
	if (!strstr(w->err.text, words))
		fail_msg("'%s' does not speak of '%s'", w->err.text, words);
	assert_null(strchr(w->err.text, '\n'));
}

/* -------------------------------------------------- nothing wrong */

static void test_whole(void **state)
{
	struct world w;

	(void)state;
	for (unsigned int n = 0; n < 12; n++) {
		new_world(&w, n % 4, n / 4, 2 - n % 2);
		/* in any order */
		for (uint32_t m = w.now.members; m-- > 0; )
			show(&w, m);
		starts(&w);
		assert_false(w.out.degraded);
		assert_false(w.out.doubtful);
		assert_string_equal(w.out.note, "");
		assert_int_equal(w.out.usable, (1u << w.now.roles) - 1);
		assert_int_equal(w.out.current, (1u << w.now.members) - 1);
		assert_int_equal(w.out.missing | w.out.stale, 0);
		for (uint32_t m = 0; m < w.now.members; m++)
			assert_string_equal(w.cand[w.out.device[m]].device, names[m]);
		for (uint32_t r = 0; r < w.now.roles; r++)
			assert_int_equal(ddr_assembly_role(&w.out, r), w.out.device[r]);
	}
}

/* -------------------------------------------------- members missing */

static void test_every_missing_set(void **state)
{
	struct world w;

	(void)state;
	for (unsigned int n = 0; n < 12; n++) {
		new_world(&w, n % 4, n / 4, 0);
		for (uint32_t set = 1; set < 1u << w.now.roles; set++) {
			unsigned int lost = w.now.roles - (unsigned int)__builtin_popcount(set);

			show_set(&w, set);
			if (lost > w.now.parity) {
				refused(&w, "is missing");
				continue;
			}
			starts(&w);
			assert_int_equal(w.out.usable, set);
			assert_int_equal(w.out.missing, ~set & ((1u << w.now.roles) - 1));
			assert_int_equal(w.out.degraded, lost > 0);
			assert_int_equal(w.out.note[0] != '\0', lost > 0);
			/* the missing members could have formed the array on their own */
			assert_int_equal(w.out.doubtful, lost >= 1u << w.now.order);
			for (uint32_t r = 0; r < w.now.roles; r++)
				assert_int_equal(ddr_assembly_role(&w.out, r) >= 0, set >> r & 1);
		}
	}
}

/* Once the superblocks say that the other half has failed, the half that is present may start again by itself. */
static void test_mirror_known_to_be_alone(void **state)
{
	struct world w;

	(void)state;
	new_world(&w, 0, 1, 0);
	change(&w, 1, DDR_MEMBER_MISSING, 1);
	show_set(&w, 1);
	starts(&w);
	assert_true(w.out.degraded);
	assert_false(w.out.doubtful);
}

static void test_spare_missing(void **state)
{
	struct world w;

	(void)state;
	new_world(&w, 2, 1, 1);
	show_set(&w, 0x1f);
	starts(&w);
	assert_false(w.out.degraded);
	assert_int_equal(w.out.missing, 0);
	assert_int_equal(w.out.device[5], -1);
}

/* Nobody updates the superblock of a spare: however far the array's generation has advanced, it remains a spare, and nothing else. */
static void test_spare_of_an_old_generation(void **state)
{
	struct world w;

	(void)state;
	new_world(&w, 2, 2, 2);
	for (uint32_t i = 0; i < 5; i++)
		change(&w, 1, i % 2 ? DDR_MEMBER_MISSING : DDR_MEMBER_FAULTY, 0x3d);	/* all but member 1 and the spares */
	show_set(&w, 0xfd);
	starts(&w);
	assert_int_equal(w.out.super.generation, 6);
	assert_int_equal(w.out.current, 0xfd);
	assert_int_equal(w.out.stale, 0);
	assert_int_equal(w.out.device[6], 5);
	assert_int_equal(w.out.device[7], 6);
	/* one spare was taken, and comes back as it was before (a copy of the disk) */
	w.now.member[6].role = w.now.member[1].role;
	w.now.member[1].role = DDR_ROLE_NONE;
	change(&w, 6, DDR_MEMBER_IN_SYNC, 0x3d);
	change(&w, 2, DDR_MEMBER_FAULTY, 0x39);
	show_set(&w, 0xf9);
	starts(&w);
	assert_int_equal(w.out.device[6], -1);
	assert_int_equal(w.out.verdict[w.out.other[6]], DDR_V_STALE);
	assert_int_equal(w.out.stale, 1u << 6);
	assert_int_equal(w.out.device[7], 5);
}

/* -------------------------------------------------- generations */

/* "Generation 8 on m0, m2 and 7 on the rest at a crash": the highest counts, and all belong to it. */
static void test_crash_between_superblocks(void **state)
{
	struct world w;

	(void)state;
	for (uint32_t reached = 1; reached < 16; reached++) {
		new_world(&w, 2, 1, 0);
		change(&w, 4, DDR_MEMBER_FAULTY, reached);
		show_set(&w, 0x1f);
		starts(&w);
		assert_int_equal(w.out.super.generation, 2);
		assert_int_equal(w.out.usable, 0xf);
		assert_true(w.out.degraded);
		assert_int_equal(w.out.verdict[4], DDR_V_STALE);
		assert_int_equal(w.out.device[4], -1);
		assert_int_equal(w.out.other[4], 4);
	}
}

/* There is no majority vote: one disk of the newest generation outweighs all others. */
static void test_no_vote(void **state)
{
	struct world w;

	(void)state;
	new_world(&w, 2, 2, 0);
	change(&w, 0, DDR_MEMBER_FAULTY, 0x3e);
	change(&w, 1, DDR_MEMBER_FAULTY, 0x20);
	show_set(&w, 0x3f);
	starts(&w);
	assert_int_equal(w.out.super.generation, 3);
	assert_int_equal(w.out.usable, 0x3c);
	/* without that disk the previous generation counts: nothing shows that it is not the last */
	show_set(&w, 0x1f);
	starts(&w);
	assert_int_equal(w.out.super.generation, 2);
}

static void test_stale_member(void **state)
{
	struct world w;

	(void)state;
	new_world(&w, 2, 1, 0);
	change(&w, 1, DDR_MEMBER_MISSING, 0x1d);
	show_set(&w, 0x1f);
	starts(&w);
	assert_int_equal(w.out.verdict[1], DDR_V_STALE);
	assert_int_equal(w.out.usable, 0x1d);
	assert_int_equal(w.out.stale, 2);
	assert_int_equal(ddr_assembly_role(&w.out, 1), -1);
	assert_non_null(strstr(w.out.note, "member 1 is stale (sdb)"));
	/* a stale one does not fill a gap, whatever the number of disks */
	show_set(&w, 0x0f);
	refused(&w, "needs 4 members in sync, and has 3; member 1 is stale (sdb), member 4 is missing");
}

/* The table has it in sync, but its superblock is older than any crash can leave it: an old copy of the disk. */
static void test_restored_from_an_image(void **state)
{
	struct world w;
	struct ddr_super image;

	(void)state;
	new_world(&w, 2, 2, 0);
	image = w.disk[2];
	change(&w, 0, DDR_MEMBER_FAULTY, 0x3e);
	change(&w, 0, DDR_MEMBER_MISSING, 0x3e);
	w.disk[2] = image;
	show_set(&w, 0x3e);
	starts(&w);
	assert_int_equal(w.out.usable, 0x3a);
	assert_int_equal(w.out.verdict[1], DDR_V_STALE);
}

static void test_member_that_failed_and_is_current(void **state)
{
	struct world w;

	(void)state;
	new_world(&w, 2, 1, 0);
	change(&w, 3, DDR_MEMBER_FAULTY, 0x1f);	/* its last write still reached it */
	show_set(&w, 0x1f);
	starts(&w);
	assert_int_equal(w.out.verdict[3], DDR_V_OUT);
	assert_int_equal(w.out.usable, 0x17);
}

static void test_rebuilding_does_not_count(void **state)
{
	struct world w;

	(void)state;
	new_world(&w, 2, 1, 0);
	change(&w, 3, DDR_MEMBER_MISSING, 0x17);
	change(&w, 3, DDR_MEMBER_REBUILDING, 0x1f);
	show_set(&w, 0x1f);
	starts(&w);
	assert_int_equal(w.out.usable, 0x17);
	assert_int_equal(w.out.current, 0x1f);
	assert_true(w.out.degraded);
	assert_true(ddr_assembly_role(&w.out, 3) >= 0);
	show_set(&w, 0x1e);
	refused(&w, "member 0 is missing, member 3 is rebuilding (sdd)");
}

/*
 * The power failed during the change that called the member back, before it had a superblock of that change: it need not be called
 * back again.
 */
static void test_called_back(void **state)
{
	static const struct { uint8_t flags, id; uint64_t cursor; bool plays; } rows[] = {
		{ 0, 0, 0, true }, { 0, 0, 8, false },
		{ DDR_MEMBER_F_PARTIAL, 1, 0, true }, { DDR_MEMBER_F_PARTIAL, 0, 0, false }, { DDR_MEMBER_F_PARTIAL, 1, 8, false },
	};
	struct world w;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		new_world(&w, 2, 1, 0);
		change(&w, 2, DDR_MEMBER_FAULTY, ~4u);
		change(&w, 2, DDR_MEMBER_REBUILDING, 0);
		w.now.member[2].flags = rows[i].flags;
		w.now.member[2].cursor = rows[i].cursor;
		if (rows[i].id)
			memcpy(w.now.member[2].last_gen, w.disk[2].gen_id, DDR_LAST_GEN_LEN);
		write_disks(&w, ~4u);
		show_set(&w, 31);
		starts(&w);
		assert_int_equal(w.out.verdict[2], rows[i].plays ? DDR_V_CURRENT : DDR_V_STALE);
		assert_int_equal(w.out.usable, 31 & ~4u);
	}
}

/* A role with two holders while it is copied: the one in sync plays. */
static void test_copying_to_a_spare(void **state)
{
	struct world w;

	(void)state;
	new_world(&w, 2, 1, 1);
	w.now.member[5].role = 2;
	w.now.member[5].flags = DDR_MEMBER_F_REPLACING;
	change(&w, 5, DDR_MEMBER_REBUILDING, 0x3f);
	show_set(&w, 0x3f);
	starts(&w);
	assert_int_equal(ddr_assembly_role(&w.out, 2), 2);
	assert_false(w.out.degraded);
	show_set(&w, 0x3b);
	starts(&w);
	assert_true(w.out.degraded);
	assert_string_equal(w.cand[ddr_assembly_role(&w.out, 2)].device, "sdf");
}

/* -------------------------------------------------- histories that cannot both be true */

/* Day 1 starts {m0}, day 2 starts {m1}: each has its own generation 2. */
static void test_mirror_split_in_halves(void **state)
{
	struct world w, other;

	(void)state;
	new_world(&w, 0, 1, 0);
	other = w;
	other.next_id = 2000;
	change(&w, 1, DDR_MEMBER_MISSING, 1);
	change(&other, 0, DDR_MEMBER_MISSING, 2);
	w.disk[1] = other.disk[1];
	show_set(&w, 3);
	refused(&w, "diverged (split brain)");
	show_set(&w, 1);
	starts(&w);
	show_set(&w, 2);
	starts(&w);
}

/* The same, but one half went through more generations: by the numbers alone the other half would be stale. */
static void test_mirror_split_uneven(void **state)
{
	struct world w, other;

	(void)state;
	for (unsigned int more = 1; more < 4; more++) {
		new_world(&w, 0, 1, 0);
		other = w;
		other.next_id = 2000;
		change(&w, 1, DDR_MEMBER_MISSING, 1);
		/* the state of the missing one changes again, so that "since" moves on */
		for (unsigned int i = 0; i < more; i++)
			change(&w, 1, i % 2 ? DDR_MEMBER_MISSING : DDR_MEMBER_FAULTY, 1);
		change(&other, 0, DDR_MEMBER_MISSING, 2);
		w.disk[1] = other.disk[1];
		show_set(&w, 3);
		refused(&w, "diverged (split brain)");
	}
}

/* Order 1 with two parities: either pair is enough, and each pair was started without the other. */
static void test_pairs_split(void **state)
{
	struct world w, other;

	(void)state;
	new_world(&w, 1, 2, 0);
	other = w;
	other.next_id = 2000;
	change(&w, 2, DDR_MEMBER_MISSING, 3);
	change(&w, 3, DDR_MEMBER_MISSING, 3);
	change(&other, 0, DDR_MEMBER_MISSING, 0xc);
	change(&other, 1, DDR_MEMBER_MISSING, 0xc);
	w.disk[2] = other.disk[2];
	w.disk[3] = other.disk[3];
	show_set(&w, 0xf);
	refused(&w, "diverged (split brain)");
	for (uint32_t set = 5; set <= 0xa; set++) {	/* one of each */
		if (set != 5 && set != 6 && set != 9 && set != 0xa)
			continue;
		show_set(&w, set);
		refused(&w, "diverged (split brain)");
	}
}

/* Finding S12: started from older superblocks (start --older): the next generation leaps behind the one that was seen, and names the one that was here. */
static void test_leap_behind_what_was_seen(void **state)
{
	struct world w, older;

	(void)state;
	new_world(&w, 1, 1, 0);
	older = w;
	older.next_id = 2000;
	for (unsigned int i = 0; i < 3; i++)	/* somewhere else */
		change(&w, 2, i % 2 ? DDR_MEMBER_IN_SYNC : DDR_MEMBER_FAULTY, 7);
	older.now.generation = w.now.generation;
	change(&older, 2, DDR_MEMBER_IN_SYNC, 1);	/* the power failed when one member had it */
	assert_int_equal(older.disk[0].generation, w.now.generation + 1);
	show_set(&older, 7);
	starts(&older);
	assert_int_equal(older.out.current, 7);
	older.disk[1] = w.disk[1];			/* one that has the generation that was seen is back */
	show_set(&older, 7);
	refused(&older, "diverged (split brain)");
}

/* Two nodes each write "their" next generation, and one of them continues: the link is broken. */
static void test_broken_link(void **state)
{
	struct world w, other;

	(void)state;
	new_world(&w, 2, 2, 0);
	other = w;
	other.next_id = 2000;
	change(&other, 5, DDR_MEMBER_FAULTY, 0x01);
	change(&w, 5, DDR_MEMBER_FAULTY, 0x1e);
	change(&w, 4, DDR_MEMBER_FAULTY, 0x0e);
	w.disk[0] = other.disk[0];
	show_set(&w, 0x0f);
	refused(&w, "does not follow");
}

static void test_equal_numbers(void **state)
{
	struct world w, other;

	(void)state;
	new_world(&w, 2, 2, 0);
	other = w;
	other.next_id = 2000;
	change(&other, 5, DDR_MEMBER_FAULTY, 0x01);
	change(&w, 5, DDR_MEMBER_FAULTY, 0x1e);
	w.disk[0] = other.disk[0];
	show_set(&w, 0x1f);
	refused(&w, "both are at generation 2");
}

/* The generation that this node remembers of the array. */
static void test_known_generation(void **state)
{
	struct ddr_known known = { 0 };
	struct world w;

	(void)state;
	new_world(&w, 0, 1, 0);
	change(&w, 1, DDR_MEMBER_MISSING, 1);
	known.generation = w.now.generation;
	memcpy(known.gen_id, w.now.gen_id, sizeof(known.gen_id));
	show_set(&w, 1);
	assert_int_equal(ddr_assemble(w.cand, w.n, &known, &w.out, &w.err), 0);
	/* the other half alone is older than what was seen */
	show_set(&w, 2);
	assert_int_equal(ddr_assemble(w.cand, w.n, &known, &w.out, &w.err), -1);
	assert_non_null(strstr(w.err.text, "newer members are missing"));
	show_set(&w, 1);
	known.gen_id[0] ^= 1;
	assert_int_equal(ddr_assemble(w.cand, w.n, &known, &w.out, &w.err), -1);
	assert_non_null(strstr(w.err.text, "was changed elsewhere"));
	known.generation = 1;
	assert_int_equal(ddr_assemble(w.cand, w.n, &known, &w.out, &w.err), 0);
}

/* -------------------------------------------------- devices that do not fit */

static void test_mixed_arrays(void **state)
{
	struct world w;

	(void)state;
	new_world(&w, 2, 1, 0);
	fixture_uuid(w.disk[3].array_uuid, 4711);
	strcpy(w.disk[3].name, "foreign");
	show_set(&w, 0x1f);
	refused(&w, "sda and sdd belong to different arrays (fixture and foreign)");
}

static void test_same_member_twice(void **state)
{
	struct world w;

	(void)state;
	new_world(&w, 2, 1, 0);
	show_set(&w, 0x1f);
	w.disk[7] = w.disk[2];
	show(&w, 7);
	refused(&w, "sdc and sdh are the same member, 2");
}

static void test_unequal_geometry(void **state)
{
	static const char *const fields[] = {
		"region size", "array size", "layout", "number of slots", "creation time", "log offset", "map offset",
	};
	struct world w;

	(void)state;
	for (unsigned int i = 0; i < 7; i++) {
		struct ddr_super *d = &w.disk[2];

		new_world(&w, 2, 1, 0);
		d->region_size *= i == 0 ? 2 : 1;
		d->array_blocks -= i == 1 ? 4 : 0;
		d->layout ^= i == 2;
		d->slots -= i == 3 ? 1 : 0;
		d->created += i == 4 ? 1 : 0;
		d->log_offset += i == 5 ? 4096 : 0;
		d->map_offset += i >= 5 ? 4096 : 0;
		assert_int_equal(ddr_super_check(d).code, DDR_FE_OK);
		show_set(&w, 0x1f);
		refused(&w, fields[i]);
		assert_non_null(strstr(w.err.text, "sdc"));
	}
}

static void test_cut_short(void **state)
{
	struct world w;

	(void)state;
	new_world(&w, 2, 1, 0);
	show_set(&w, 0x1f);
	w.cand[4].bytes = ddr_layout_data_end(&w.now) - 512;
	starts(&w);
	assert_int_equal(w.out.verdict[4], DDR_V_TOO_SMALL);
	assert_int_equal(w.out.usable, 0xf);
	assert_non_null(strstr(w.out.note, "member 4 is too small (sde)"));
}

/*
 * Finding S35: a member that another program has written to was in sync at the next start. It is left out, and reported by name; but
 * what its superblock says of the array still counts.
 */
static void test_overwritten(void **state)
{
	struct world w;

	(void)state;
	new_world(&w, 2, 1, 1);
	show_set(&w, 0x3f);
	w.cand[3].foreign = "xfs file system";
	starts(&w);
	assert_int_equal(w.out.verdict[3], DDR_V_FOREIGN);
	assert_int_equal(w.out.usable, 0x17);
	assert_int_equal(w.out.missing, 0x8);
	assert_int_equal(ddr_assembly_role(&w.out, 3), -1);
	assert_int_equal(ddr_assembly_absent(&w.out), 0);	/* no disk is waited for */
	assert_true(w.out.degraded && !w.out.doubtful);
	assert_non_null(strstr(w.out.note, "member 3 is left out (sdd also holds a xfs file system, so another program has written to it)"));
	w.cand[5].foreign = "LVM2_member raid";		/* a spare */
	starts(&w);
	assert_int_equal(w.out.current, 0x17);
	w.cand[0].foreign = "swap";
	refused(&w, "member 0 is left out (sda also holds a swap, so another program has written to it), member 3 is left out (sdd");
	assert_non_null(strstr(w.err.text, "wipefs --all"));

	/* one half of a mirror may have run alone: the superblock that would say so may be overwritten */
	new_world(&w, 0, 1, 0);
	show_set(&w, 3);
	w.cand[1].foreign = "swap";
	starts(&w);
	assert_true(w.out.doubtful);

	/* it did run alone, and its superblock says so: the other half is not started without it */
	change(&w, 0, DDR_MEMBER_FAULTY, 2);
	show_set(&w, 3);
	w.cand[1].foreign = "swap";
	refused(&w, "member 1 is left out (sdb also holds a swap");
}

static void test_unreadable(void **state)
{
	struct world w;

	(void)state;
	new_world(&w, 2, 1, 0);
	show_set(&w, 0x1f);
	w.cand[0].super = NULL;
	w.cand[0].error = "sda: no valid superblock";
	starts(&w);
	assert_int_equal(w.out.verdict[0], DDR_V_UNREADABLE);
	assert_int_equal(w.out.usable, 0x1e);
	for (unsigned int i = 0; i < 5; i++)
		w.cand[i].super = NULL;
	refused(&w, "none of the 5 devices has a valid superblock; the first one: sda: no valid");
}

static void test_removed(void **state)
{
	struct world w;

	(void)state;
	new_world(&w, 2, 1, 1);
	/* the spare is taken out of the table */
	w.now.members = 5;
	memset(&w.now.member[5], 0, sizeof(w.now.member[5]));
	change(&w, 0, DDR_MEMBER_IN_SYNC, 0x1f);
	w.now.members = 6;
	show_set(&w, 0x3f);
	starts(&w);
	assert_int_equal(w.out.verdict[5], DDR_V_REMOVED);
	assert_false(w.out.degraded);
}

static void test_ro_compat(void **state)
{
	struct world w;

	(void)state;
	new_world(&w, 2, 1, 0);
	for (unsigned int m = 0; m < 5; m++)
		w.disk[m].ro_compat = 8;
	show_set(&w, 0x1f);
	refused(&w, "ro_compat 0x8");
}

static void test_numbers_of_devices(void **state)
{
	struct world w;

	(void)state;
	new_world(&w, 2, 1, 0);
	w.n = 0;
	refused(&w, "no device was given");
	w.n = DDR_ASSEMBLE_MAX + 1;
	refused(&w, "more than the 64");
}

static void test_absent(void **state)
{
	struct world w;

	(void)state;
	new_world(&w, 2, 2, 1);
	show_set(&w, 0x5d);			/* without members 1 and 5; 6 is the spare */
	starts(&w);
	assert_int_equal(ddr_assembly_absent(&w.out), 0x22);
	show_set(&w, 0x1d);			/* a spare is not waited for */
	starts(&w);
	assert_int_equal(ddr_assembly_absent(&w.out), 0x22);
	show_set(&w, 0x05);			/* too few */
	refused(&w, "cannot start");
	assert_int_equal(ddr_assembly_absent(&w.out), 0x3a);
	change(&w, 1, DDR_MEMBER_MISSING, 0x7d);
	change(&w, 2, DDR_MEMBER_FAULTY, 0x79);
	show_set(&w, 0x79);			/* known to have failed: the start does not wait for them */
	starts(&w);
	assert_int_equal(ddr_assembly_absent(&w.out), 0);
}

/* -------------------------------------------------- no cluster, and owners of slots */

static void test_alone(void **state)
{
	struct world w;

	(void)state;
	new_world(&w, 1, 1, 0);
	assert_int_equal(ddr_assemble_alone(&w.now, 1, &w.err), 0);
	w.now.slot_node[0] = 1;			/* a single node leaves this, whether it stopped cleanly or not */
	assert_int_equal(ddr_assemble_alone(&w.now, 1, &w.err), 0);
	w.now.slot_node[w.now.slots - 1] = 7;
	assert_int_equal(ddr_assemble_alone(&w.now, 1, &w.err), -1);
	assert_non_null(strstr(w.err.text, "belongs to node 7, and this is node 1"));
	assert_non_null(strstr(w.err.text, "ddraid start --adopt"));	/* the sentence is whole */
	w.now.slot_node[0] = 0;
	assert_int_equal(ddr_assemble_alone(&w.now, 7, &w.err), 0);
	assert_int_equal(ddr_assemble_alone(&w.now, 1, &w.err), -1);
	assert_int_equal(ddr_assemble_unclustered(&w.now, &w.err), 0);
	w.now.ro_compat = DDR_RO_COMPAT_CLUSTER;
	assert_int_equal(ddr_assemble_unclustered(&w.now, &w.err), -1);
	assert_non_null(strstr(w.err.text, "belongs to a cluster"));
	assert_int_equal(ddr_assemble_alone(&w.now, 7, &w.err), -1);
	assert_non_null(strstr(w.err.text, "belongs to a cluster"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_every_missing_set),
		cmocka_unit_test(test_mirror_known_to_be_alone),
		cmocka_unit_test(test_spare_missing),
		cmocka_unit_test(test_spare_of_an_old_generation),
		cmocka_unit_test(test_crash_between_superblocks),
		cmocka_unit_test(test_no_vote),
		cmocka_unit_test(test_stale_member),
		cmocka_unit_test(test_restored_from_an_image),
		cmocka_unit_test(test_member_that_failed_and_is_current),
		cmocka_unit_test(test_rebuilding_does_not_count),
		cmocka_unit_test(test_called_back),
		cmocka_unit_test(test_copying_to_a_spare),
		cmocka_unit_test(test_mirror_split_in_halves),
		cmocka_unit_test(test_mirror_split_uneven),
		cmocka_unit_test(test_pairs_split),
		cmocka_unit_test(test_leap_behind_what_was_seen), cmocka_unit_test(test_broken_link),
		cmocka_unit_test(test_equal_numbers),
		cmocka_unit_test(test_known_generation),
		cmocka_unit_test(test_mixed_arrays),
		cmocka_unit_test(test_same_member_twice),
		cmocka_unit_test(test_unequal_geometry),
		cmocka_unit_test(test_cut_short),
		cmocka_unit_test(test_overwritten),
		cmocka_unit_test(test_unreadable),
		cmocka_unit_test(test_removed),
		cmocka_unit_test(test_ro_compat),
		cmocka_unit_test(test_numbers_of_devices),
		cmocka_unit_test(test_absent),
		cmocka_unit_test(test_alone),
	};

	return cmocka_run_group_tests_name("assemble", tests, NULL, NULL);
}
