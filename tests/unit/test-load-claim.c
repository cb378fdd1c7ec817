// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Taking over slots whose owners nobody has proved dead: look, claim, look (daemon/disk/claim.h). Time passes only in the waits, and what other machines do
 * happens within them.
 */
#include "tests/unit/load-rig.h"

#define STOP_MS		30000u
#define WAIT_MS		(STOP_MS + DDR_CLAIM_MORE_MS)
#define OPEN		(1ull << 0 | 1ull << 3)	/* slots with owners: nodes 1 and 7 */
#define ALL		7u			/* members */

enum { HERE = 1, OTHER = 2, THIRD = 3 };	/* machines */

static struct ddr_owners owners;
static struct ddr_claim me;
static unsigned int writes;			/* by the loader, to members */
static uint32_t write_fails;			/* to these members */
static void (*meanwhile)(unsigned int slept_ms);	/* after each piece of a wait, or NULL */
static unsigned int done;			/* what meanwhile() has done */
static char waited[2][192];			/* what was said of each wait */

/* ---- the world --------------------------------------------------------------------- */

int __wrap_nanosleep(const struct timespec *ts, struct timespec *left);
int __wrap_nanosleep(const struct timespec *ts, struct timespec *left)
{
	(void)left;
	rig.slept_ms += (unsigned int)(ts->tv_sec * 1000 + ts->tv_nsec / 1000000);
	ddr_load_waits(rig.load, waited[rig.slept_ms > WAIT_MS], sizeof(waited[0]));
	if (meanwhile)
		meanwhile(rig.slept_ms);
	return 0;
}

int __real_ddr_dev_write(const struct ddr_dev *dev, const void *buf, size_t len, uint64_t offset, struct ddr_error *err);
int __wrap_ddr_dev_write(const struct ddr_dev *dev, const void *buf, size_t len, uint64_t offset, struct ddr_error *err);
int __wrap_ddr_dev_write(const struct ddr_dev *dev, const void *buf, size_t len, uint64_t offset, struct ddr_error *err)
{
	unsigned int m;

	if (!member_of(dev->path, &m))
		abort();
	__atomic_add_fetch(&writes, 1, __ATOMIC_RELAXED);	/* looks at several members run at once */
	return write_fails & (1u << m) ? ddr_error_set(err, "%s: cannot write", dev->path) : __real_ddr_dev_write(dev, buf, len, offset, err);
}

/* What cannot be, in whichever thread: cmocka knows only one. */
static void must(bool holds)
{
	if (!holds)
		abort();
}

static void open_member(struct ddr_dev *dev, unsigned int m)
{
	struct ddr_error err;
	char path[64];

	snprintf(path, sizeof(path), "%s/ddtest%u", rig.dir, m);
	must(__real_ddr_dev_open(dev, path, DDR_DEV_WRITE | DDR_DEV_FILE, &err) == 0);
}

static void uuid_of(uint8_t uuid[16], uint8_t which)
{
	memset(uuid, which, 16);
}

/* Another machine's stamp, or (@claim) claim. */
static void stamp(unsigned int m, uint32_t slot, uint64_t seq, uint8_t machine, bool claim)
{
	struct ddr_stamp s = { .slot = (uint16_t)slot, .kind = claim ? DDR_STAMP_CLAIM : DDR_STAMP_OWNER, .seq = seq, .generation = 1, .node = 40u + machine,
			       .time = 1700000000 + seq, .stop_ms = 20000 };
	void *buf = ddr_dev_buffer(DDR_META_BLOCK);
	struct ddr_error err;
	struct ddr_dev dev;

	memcpy(s.array_uuid, rig.sb.array_uuid, sizeof(s.array_uuid));
	uuid_of(s.machine, machine);
	uuid_of(s.instance.boot_id, 0x70 + machine);
	if (claim)
		uuid_of(s.claim, 0x50 + machine);
	snprintf(s.name, sizeof(s.name), "n%u", machine);
	must(buf && ddr_stamp_encode(&s, &rig.sb, buf).code == DDR_FE_OK);
	open_member(&dev, m);
	must(__real_ddr_dev_write(&dev, buf, DDR_META_BLOCK, ddr_stamp_offset(&rig.sb, slot, seq & 1), &err) == 0);
	ddr_dev_close(&dev);
	free(buf);
}

static void stamps(uint32_t slot, uint64_t seq, uint8_t machine, bool claim)
{
	for (unsigned int m = 0; m < MEMBERS; m++)
		stamp(m, slot, seq, machine, claim);
}

static uint8_t *area(unsigned int m)
{
	uint8_t *buf = ddr_dev_buffer((size_t)rig.sb.slots * 2 * DDR_META_BLOCK);
	struct ddr_error err;
	struct ddr_dev dev;

	must(buf != NULL);
	open_member(&dev, m);
	must(__real_ddr_dev_read(&dev, buf, (size_t)rig.sb.slots * 2 * DDR_META_BLOCK, ddr_stamp_offset(&rig.sb, 0, 0), &err) == 0);
	ddr_dev_close(&dev);
	return buf;
}

/* A place of the stamps; kind 0: there is no valid one. */
static struct ddr_stamp stamp_at(unsigned int m, uint32_t slot, unsigned int place)
{
	struct ddr_stamp s = { .kind = 0 };
	uint8_t *buf = area(m);

	(void)ddr_stamp_decode(buf + ((size_t)slot * 2 + place) * DDR_META_BLOCK, &rig.sb, slot, place, &s);
	free(buf);
	return s;
}

static void write_supers(unsigned int m, const struct ddr_super *of, uint64_t seq)
{
	struct ddr_super sb = *of;
	struct ddr_error err;
	struct ddr_dev dev;

	open_member(&dev, m);
	sb.this_member = (uint16_t)m;
	for (sb.seq = seq; sb.seq < seq + 2; sb.seq++)
		must(ddr_dev_write_owned(&dev, &sb, &owners, &err) == 0);
	ddr_dev_close(&dev);
}

/* Format 2. Nodes 1 and 7 have slots: node 1 was on this machine before it booted, node 7 is another one, and both have stamped them. */
static int begin_world(void **state)
{
	struct ddr_error err;

	write_fails = 0;
	if (set_up(state) || ddr_layout_owners(&rig.sb, &err))
		return -1;
	rig.sb.slot_node[0] = 1;
	rig.sb.slot_node[3] = 7;
	ddr_owners_init(&owners, &rig.sb);
	uuid_of(owners.slot[0].machine, HERE);
	uuid_of(owners.slot[0].instance.boot_id, 0x70 + HERE);
	uuid_of(owners.slot[3].machine, OTHER);
	uuid_of(owners.slot[3].instance.boot_id, 0x70 + OTHER);
	owners.slot[0].instance.cookie = owners.slot[3].instance.cookie = 5;
	for (unsigned int m = 0; m < MEMBERS; m++)
		write_supers(m, &rig.sb, 1);
	rig.sb.seq = 2;
	stamps(0, 10, HERE, false);
	stamps(0, 11, HERE, false);
	stamps(3, 100, OTHER, false);
	me = (struct ddr_claim){ .adopted = true, .alone = true, .node = 1, .instance.cookie = 9, .stop_ms = STOP_MS, .name = "here" };
	uuid_of(me.machine, HERE);
	uuid_of(me.instance.boot_id, 0x60);
	writes = done = rig.slept_ms = 0;
	meanwhile = NULL;
	memset(waited, 0, sizeof(waited));
	return 0;
}

static int end_world(void **state)
{
	rig.slept_ms = 0;
	return tear_down(state);
}

static void with_claim(struct ddr_load *l)
{
	l->claim = me;
}

static void take_over(void)
{
	rig.alter = with_claim;
	load();
}

/* The claim of @slot stands on member @m, numbered from @seq on. */
static void expect_claim(unsigned int m, uint32_t slot, uint64_t seq)
{
	for (uint64_t n = seq; n < seq + 2; n++) {
		struct ddr_stamp s = stamp_at(m, slot, n & 1);

		assert_int_equal(s.kind, DDR_STAMP_CLAIM);
		assert_int_equal(s.seq, n);
		assert_memory_equal(s.claim, rig.load->claim.id, sizeof(s.claim));
		assert_memory_equal(s.machine, me.machine, sizeof(s.machine));
		assert_int_equal(s.instance.cookie, me.instance.cookie);
		assert_int_equal(s.stop_ms, STOP_MS);
		assert_string_equal(s.name, "here");
	}
}

static void expect_taken(uint32_t members)
{
	assert_string_equal(rig.load->error.text, "");
	assert_true(rig.load->ok);
	assert_true(rig.load->claim.slots == OPEN);
	assert_false(ddr_uuid_is_zero(rig.load->claim.id));
	for (unsigned int m = 0; m < MEMBERS; m++)
		if (members & (1u << m)) {
			expect_claim(m, 0, 12);
			expect_claim(m, 3, 101);
		}
	assert_int_equal(writes, 2 * __builtin_popcount(members));
}

/* It was refused with these words, after so long, and nothing was written. */
static void expect_refused(const char *words, unsigned int slept_ms)
{
	assert_false(rig.load->ok);
	assert_false(rig.load->error.own);
	if (!strstr(rig.load->error.text, words))
		fail_msg("%s", rig.load->error.text);
	assert_true(rig.load->claim.slots == 0);
	assert_int_equal(rig.slept_ms, slept_ms);
	assert_int_equal(writes, slept_ms > WAIT_MS ? 2 * MEMBERS : 0);
}

/* ---- nobody uses it ------------------------------------------------------------------ */

static void what_stands_still_is_claimed_and_taken(void **state)
{
	uint8_t *before = area(0), *after;

	(void)state;
	take_over();
	assert_int_equal(rig.slept_ms, 2 * WAIT_MS);
	assert_string_equal(waited[0], "35 s to see whether another machine uses it (adopted)");
	assert_string_equal(waited[1], "35 s more to see whether another machine uses or claims it (adopted)");
	expect_taken(ALL);
	after = area(0);
	for (uint32_t s = 0; s < rig.sb.slots; s++)
		if (!(OPEN >> s & 1))
			assert_memory_equal(before + (size_t)s * 2 * DDR_META_BLOCK, after + (size_t)s * 2 * DDR_META_BLOCK, 2 * DDR_META_BLOCK);
	free(before);
	free(after);
	ddr_load_waits(rig.load, waited[0], sizeof(waited[0]));
	assert_string_equal(waited[0], "");
	end();
}

/* While it waits, its process stands still, and it goes on before the loop does. */
static void stands_still(unsigned int slept_ms)
{
	(void)slept_ms;
	rig.load->still.until_ms = 1;
}

/* What it has seen is as old as that, and another machine may have done the same. */
static void after_a_standstill_nothing_is_claimed(void **state)
{
	(void)state;
	meanwhile = stands_still;
	take_over();
	expect_refused("stood still", WAIT_MS);
	assert_int_equal(stamp_at(0, 0, 1).seq, 11);
	end();
}

/* The log is read when nobody writes it any more. */
static void another_writes_its_log(unsigned int slept_ms)
{
	struct ddr_dev dev;

	if (slept_ms < WAIT_MS + 10000 || done++)
		return;
	open_member(&dev, 2);
	make_block(&dev, 0, SEQ + 7);
	ddr_dev_close(&dev);
}

/* The owner pages say where the log of a slot begins, and what is older there has landed late (note 25). */
static void a_log_is_read_by_the_owner_pages(void **state)
{
	const struct ddr_load_block *log;

	(void)state;
	owners.slot[0].log_seq = SEQ + 1;
	owners.slot[0].renewed = true;
	for (unsigned int m = 0; m < MEMBERS; m++)
		write_supers(m, &rig.sb, 3);
	rig.whole = true;
	me.adopted = false;
	take_over();
	assert_true(rig.load->ok);
	log = rig.load->log;
	assert_true(!log[0].valid && log[0].late);
	assert_int_equal(log[0].seq, SEQ + 1);
	assert_false(log[3 * rig.sb.log_blocks].late);
	end();
}

static void log_and_map_are_read_afterwards(void **state)
{
	(void)state;
	rig.whole = true;
	meanwhile = another_writes_its_log;
	take_over();
	assert_true(rig.load->ok);
	assert_int_equal(rig.load->log[0].seq, SEQ + 7);
	end();
}

/* An old claim is as good as a stamp; also one of the longest stop time counts. */
static void what_an_earlier_claim_left_is_taken(void **state)
{
	(void)state;
	me.stop_ms = 7000;
	stamps(3, 101, THIRD, true);
	take_over();
	assert_true(rig.load->ok);
	assert_int_equal(rig.slept_ms, 2 * (20000 + DDR_CLAIM_MORE_MS));
	assert_int_equal(stamp_at(2, 3, 0).seq, 102);
	assert_int_equal(stamp_at(2, 3, 1).seq, 103);
	assert_int_equal(stamp_at(2, 3, 1).kind, DDR_STAMP_CLAIM);
	assert_memory_equal(stamp_at(2, 3, 1).claim, rig.load->claim.id, 16);
	end();
}

/* One member has seen more stamps than the others. */
static void a_claim_is_above_all_that_was_seen(void **state)
{
	(void)state;
	stamp(1, 3, 201, OTHER, false);
	take_over();
	assert_true(rig.load->ok);
	for (unsigned int m = 0; m < MEMBERS; m++) {
		expect_claim(m, 0, 12);
		expect_claim(m, 3, 202);
	}
	end();
}

static void an_own_slot_is_not_waited_for(void **state)
{
	(void)state;
	rig.sb.slot_node[3] = 0;
	ddr_owners_follow(&owners, &rig.sb);
	owners.slot[0].instance = me.instance;
	for (unsigned int m = 0; m < MEMBERS; m++)
		write_supers(m, &rig.sb, 3);
	take_over();
	assert_true(rig.load->ok);
	assert_int_equal(rig.slept_ms, 0);
	assert_int_equal(writes, 0);
	assert_true(ddr_uuid_is_zero(rig.load->claim.id));
	end();
}

static void without_the_operator_nothing_is_claimed(void **state)
{
	(void)state;
	me.adopted = false;
	take_over();
	assert_true(rig.load->ok);
	assert_int_equal(rig.slept_ms, 0);	/* node 7's slot is none of this machine's: the start is refused elsewhere (identity.c) */
	assert_int_equal(writes, 0);
	end();
}

/* Slot 0 is the only one with an owner: an earlier boot of this machine. */
static void crash(void)
{
	rig.sb.slot_node[3] = 0;
	ddr_owners_follow(&owners, &rig.sb);
	for (unsigned int m = 0; m < MEMBERS; m++)
		write_supers(m, &rig.sb, 3);
	me.adopted = false;
}

static void after_a_crash_five_seconds_are_enough(void **state)
{
	(void)state;
	crash();
	take_over();
	assert_true(rig.load->ok);
	assert_int_equal(rig.slept_ms, 2 * DDR_CLAIM_MORE_MS);
	assert_true(rig.load->claim.slots == 1);
	expect_claim(0, 0, 12);
	assert_string_equal(waited[0], "5 s more to see whether another machine uses or claims it (after a crash of this machine)");
	end();
}

static void a_copy_stamps(unsigned int slept_ms)
{
	if (slept_ms >= 2000 && !done++)
		stamp(1, 0, 12, HERE, false);
}

static void a_copy_claims(unsigned int slept_ms)
{
	if (slept_ms <= DDR_CLAIM_MORE_MS || done++)
		return;
	stamps(0, 14, HERE, true);
	stamps(0, 15, HERE, true);
}

/* Note 22: two copies of one machine boot, without a cluster, and each takes the slot for its own crash. */
static void what_a_copy_of_this_machine_uses_is_not_taken(void **state)
{
	(void)state;
	crash();
	meanwhile = a_copy_stamps;
	take_over();
	expect_refused("in use by n1 (node 41, machine 01010101-0101-0101-0101-010101010101, a copy of this machine), which has stamped slot 0", DDR_CLAIM_MORE_MS);
	assert_non_null(strstr(rig.load->error.text, "power that machine off; then start the array again"));
	end();
}

static void of_two_copies_that_boot_at_once_one_serves(void **state)
{
	(void)state;
	crash();
	meanwhile = a_copy_claims;
	take_over();
	assert_false(rig.load->ok);
	assert_true(rig.load->claim.slots == 0);
	assert_int_equal(rig.slept_ms, 2 * DDR_CLAIM_MORE_MS);
	assert_non_null(strstr(rig.load->error.text, "a copy of this machine) has claimed it at the same time, in slot 0. Only one machine may take it: "
						     "choose one, and start the array there again"));
	end();
}

/* ---- the table of claim.h ------------------------------------------------------------- */

static struct ddr_claim_found found[DDR_MAX_SLOTS];

/* How long is waited for slot 0, of @page's machine (0: not known; + 100: the boot of now), with a stamp of @stamp's (the same). */
static uint32_t wait_for_slot(unsigned int page, unsigned int stamped)
{
	struct ddr_owners o = { .slot[0] = { .node = 1, .state = DDR_SLOT_OWNED } };

	memset(found, 0, sizeof(found));
	if (page) {
		uuid_of(o.slot[0].machine, (uint8_t)(page % 100));
		uuid_of(o.slot[0].instance.boot_id, page < 100 ? 0x70 : 0x60);
	}
	if (stamped) {
		found[0].n = 1;
		uuid_of(found[0].stamp[0].machine, (uint8_t)(stamped % 100));
		uuid_of(found[0].stamp[0].instance.boot_id, stamped < 100 ? 0x70 : 0x60);
		found[0].stamp[0].stop_ms = 40000;
	}
	return ddr_claim_wait(&me, 1, &o, found);
}

static void the_wait_is_that_of_the_table(void **state)
{
	struct ddr_owners none = { 0 };

	(void)state;
	for (int i = 0; i < 4; i++) {
		uint32_t more = DDR_CLAIM_MORE_MS, earlier, any, doubt;

		me.adopted = i & 1;
		me.alone = i & 2;
		earlier = me.alone ? more : me.adopted ? 40000 + more : 0;
		any = me.adopted ? 40000 + more : 0;
		doubt = me.adopted || me.alone ? 40000 + more : 0;	/* by its owner page it is this machine's, and nobody refuses the start */
		assert_int_equal(ddr_claim_wait(&me, 0, &none, found), 0);
		assert_int_equal(wait_for_slot(HERE, HERE), earlier);
		assert_int_equal(wait_for_slot(0, HERE), earlier);
		assert_int_equal(wait_for_slot(HERE, 0), me.alone ? earlier : me.adopted ? STOP_MS + more : 0);
		assert_int_equal(wait_for_slot(0, 0), me.adopted || me.alone ? STOP_MS + more : 0);
		assert_int_equal(wait_for_slot(OTHER, HERE), any);
		assert_int_equal(wait_for_slot(HERE, OTHER), doubt);
		assert_int_equal(wait_for_slot(100 + HERE, HERE), any);		/* a copy of this machine, or another array object of it */
		assert_int_equal(wait_for_slot(HERE, 100 + HERE), doubt);
	}
}

/* A disk may say anything: 49 days, for example. */
static void no_stop_time_is_longer_than_a_kernel_takes(void **state)
{
	struct ddr_owners none = { 0 };

	(void)state;
	me.adopted = true;
	memset(found, 0, sizeof(*found));
	found[0].n = 1;
	found[0].stamp[0].stop_ms = UINT32_MAX;
	assert_int_equal(ddr_claim_wait(&me, 1, &none, found), 600000 + DDR_CLAIM_MORE_MS);
	found[0].stamp[0].stop_ms = 600000;
	assert_int_equal(ddr_claim_wait(&me, 1, &none, found), 600000 + DDR_CLAIM_MORE_MS);
	found[0].stamp[0].stop_ms = 599999;
	assert_int_equal(ddr_claim_wait(&me, 1, &none, found), 599999 + DDR_CLAIM_MORE_MS);
}

/* ---- somebody uses it ------------------------------------------------------------------ */

static void node_7_stamps(unsigned int slept_ms)
{
	if (slept_ms >= 2000 && !done++)
		stamp(1, 3, 101, OTHER, false);
}

/* Finding T1: the cluster that the array belongs to uses it. */
static void who_stamps_is_not_taken_over(void **state)
{
	(void)state;
	meanwhile = node_7_stamps;
	take_over();
	expect_refused("array 'fixture' is in use by n2 (node 42, machine 02020202-", WAIT_MS);
	assert_non_null(strstr(rig.load->error.text, "Stop the array there, or power that machine off"));
	for (unsigned int m = 0; m < MEMBERS; m++)
		for (unsigned int i = 0; i < 2 * rig.sb.slots; i++)
			assert_int_not_equal(stamp_at(m, i / 2, i % 2).kind, DDR_STAMP_CLAIM);
	end();
}

/* Any change counts, also in a slot that nobody has. */
static void another_starts(unsigned int slept_ms)
{
	if (slept_ms == 2000)
		stamps(3, 101, OTHER, false);
	if (slept_ms == 4000)
		stamps(9, 301, THIRD, false);
}

static void the_newest_that_moved_is_named(void **state)
{
	(void)state;
	meanwhile = another_starts;
	take_over();
	expect_refused("in use by n3 (node 43", WAIT_MS);
	end();
}

static void another_claims_early(unsigned int slept_ms)
{
	if (slept_ms >= 2000 && !done++)
		stamps(3, 101, THIRD, true);
}

static void a_claim_in_the_first_wait_is_refused(void **state)
{
	(void)state;
	meanwhile = another_claims_early;
	take_over();
	expect_refused("n3 (node 43, machine 03030303-0303-0303-0303-030303030303) has claimed it at the same time", WAIT_MS);
	end();
}

/* Of two that claim only the last one finds its own. */
static void another_claims_over_it(unsigned int slept_ms)
{
	if (slept_ms <= WAIT_MS || done++)
		return;
	for (unsigned int n = 0; n < 2; n++) {
		stamps(0, 12 + n, THIRD, true);
		stamps(3, 101 + n, THIRD, true);
	}
}

static void the_last_claim_stands(void **state)
{
	uint8_t id[16];

	(void)state;
	uuid_of(id, 0x50 + THIRD);
	meanwhile = another_claims_over_it;
	take_over();
	expect_refused("n3 (node 43, machine 03030303-0303-0303-0303-030303030303) has claimed it at the same time", 2 * WAIT_MS);
	assert_true(rig.load->claim.slots == 0);
	for (unsigned int m = 0; m < MEMBERS; m++)
		for (unsigned int place = 0; place < 2; place++)
			assert_memory_equal(stamp_at(m, 3, place).claim, id, sizeof(id));
	end();
}

/* An owner that was slow, on a single disk. */
static void node_7_wakes(unsigned int slept_ms)
{
	if (slept_ms > WAIT_MS + 8000 && !done++)
		stamp(2, 3, 101, OTHER, false);
}

static void an_owner_that_wakes_is_not_taken_over(void **state)
{
	(void)state;
	meanwhile = node_7_wakes;
	take_over();
	expect_refused("in use by n2 (node 42", 2 * WAIT_MS);
	end();
}

/* A place may also have been zeroed, or be torn. */
static void a_disk_forgets(unsigned int slept_ms)
{
	struct ddr_error err;
	struct ddr_dev dev;

	if (slept_ms <= WAIT_MS || done++)
		return;
	open_member(&dev, 0);
	must(ddr_dev_zero(&dev, ddr_stamp_offset(&rig.sb, 3, 1), DDR_META_BLOCK, &err) == 0);
	ddr_dev_close(&dev);
}

static void what_is_not_as_written_is_refused(void **state)
{
	(void)state;
	meanwhile = a_disk_forgets;
	take_over();
	expect_refused("the stamp of slot 3 has changed while this node watched it, and is not valid", 2 * WAIT_MS);
	end();
}

static void another_changes_the_superblocks(unsigned int slept_ms)
{
	if (slept_ms >= 2000 && !done++)
		write_supers(1, &rig.sb, 3);
}

static void changed_superblocks_are_a_sign_of_life(void **state)
{
	(void)state;
	meanwhile = another_changes_the_superblocks;
	take_over();
	expect_refused("its superblocks have changed while this node watched it", WAIT_MS);
	end();
}

/* ---- disks that fail ------------------------------------------------------------------- */

static void a_member_that_cannot_be_read_is_left_out(void **state)
{
	(void)state;
	rig.area_fails = 1u << 1;
	take_over();
	expect_taken(ALL & ~(1u << 1));
	assert_int_equal(stamp_at(1, 3, 0).seq, 100);
	assert_int_equal(stamp_at(1, 3, 1).kind, 0);
	end();
}

static void a_member_that_hangs_is_left_out(void **state)
{
	(void)state;
	let_area_hang(1u << 2);
	take_over();
	expect_taken(ALL & ~(1u << 2));
	assert_int_equal(hung(2), 1);
	end();
}

static void what_no_member_delivers_is_not_taken(void **state)
{
	(void)state;
	rig.area_fails = ALL;
	take_over();
	expect_refused("no member delivers the stamps of its slots", 0);
	end();
}

/* Those that fail in the second look do not count either. */
static void two_fail(unsigned int slept_ms)
{
	if (slept_ms >= 2000)
		rig.area_fails = 6;
	if (slept_ms == 4000)
		stamp(1, 3, 101, OTHER, false);
}

static void only_what_was_read_twice_counts(void **state)
{
	(void)state;
	meanwhile = two_fail;
	take_over();
	expect_taken(1);
	end();
}

static void a_member_that_takes_no_claim_is_left_out(void **state)
{
	(void)state;
	write_fails = 1u << 0;
	take_over();
	assert_true(rig.load->ok);
	for (unsigned int m = 1; m < MEMBERS; m++)
		expect_claim(m, 3, 101);
	assert_int_equal(stamp_at(0, 3, 0).seq, 100);
	end();
}

static void what_takes_no_claim_is_not_taken(void **state)
{
	(void)state;
	write_fails = ALL;
	take_over();
	assert_false(rig.load->ok);
	assert_non_null(strstr(rig.load->error.text, "no member takes a claim to its slots"));
	assert_int_equal(rig.slept_ms, WAIT_MS);
	end();
}

/* Another disk is behind the device by now: it is not ours to write to. */
static void a_disk_is_exchanged(unsigned int slept_ms)
{
	struct ddr_super sb = rig.sb;

	if (slept_ms < 2000 || done++)
		return;
	sb.array_uuid[0]++;
	write_supers(1, &sb, 1);
}

static void nothing_is_claimed_on_another_disk(void **state)
{
	(void)state;
	meanwhile = a_disk_is_exchanged;
	take_over();
	expect_taken(ALL & ~(1u << 1));
	assert_int_equal(stamp_at(1, 3, 0).seq, 100);
	end();
}

/* Without memory nothing is known, and the load is tried again: no evidence against anybody. */
static void memory_fails(unsigned int slept_ms)
{
	rig.own_area = slept_ms >= 2000 ? 1u << 1 : 0;
}

static void a_failure_of_our_own_is_no_answer(void **state)
{
	(void)state;
	meanwhile = memory_fails;
	take_over();
	assert_false(rig.load->ok);
	assert_true(rig.load->error.own);
	assert_int_equal(writes, 0);
	rig.own_area = 0;
	end();
}

/* ---- the end of a wait ------------------------------------------------------------------ */

static void the_array_is_removed(unsigned int slept_ms)
{
	if (slept_ms == 2000)
		ddr_load_cancel(rig.load);
}

static void a_wait_ends_when_the_load_is_cancelled(void **state)
{
	(void)state;
	meanwhile = the_array_is_removed;
	take_over();
	expect_refused("the array was removed while this node watched who uses it", 2000);
	end();
}

/* Format 1 has no stamps. */
static void format_1_has_nothing_to_look_at(void **state)
{
	(void)state;
	fixture_super(&rig.sb, 1, 1, DDR_LAYOUT_ROTATING, MEMBER_BYTES, 0);
	rig.sb.slot_node[3] = 7;
	for (unsigned int m = 0; m < MEMBERS; m++)
		make_member(m);
	writes = 0;
	take_over();
	assert_true(rig.load->ok);
	assert_int_equal(rig.slept_ms, 0);
	assert_int_equal(writes, 0);
	end();
}

#define TEST(name)	cmocka_unit_test_setup_teardown(name, begin_world, end_world)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_stands_still_is_claimed_and_taken), TEST(after_a_standstill_nothing_is_claimed), TEST(a_log_is_read_by_the_owner_pages), TEST(log_and_map_are_read_afterwards),
		TEST(what_an_earlier_claim_left_is_taken),
		TEST(a_claim_is_above_all_that_was_seen), TEST(an_own_slot_is_not_waited_for), TEST(without_the_operator_nothing_is_claimed),
		TEST(after_a_crash_five_seconds_are_enough), TEST(what_a_copy_of_this_machine_uses_is_not_taken),
		TEST(of_two_copies_that_boot_at_once_one_serves), TEST(the_wait_is_that_of_the_table), TEST(no_stop_time_is_longer_than_a_kernel_takes), TEST(who_stamps_is_not_taken_over),
		TEST(the_newest_that_moved_is_named), TEST(a_claim_in_the_first_wait_is_refused), TEST(the_last_claim_stands),
		TEST(an_owner_that_wakes_is_not_taken_over), TEST(what_is_not_as_written_is_refused), TEST(changed_superblocks_are_a_sign_of_life),
		TEST(a_member_that_cannot_be_read_is_left_out), TEST(a_member_that_hangs_is_left_out), TEST(what_no_member_delivers_is_not_taken),
		TEST(only_what_was_read_twice_counts), TEST(a_member_that_takes_no_claim_is_left_out), TEST(what_takes_no_claim_is_not_taken),
		TEST(nothing_is_claimed_on_another_disk), TEST(a_failure_of_our_own_is_no_answer), TEST(a_wait_ends_when_the_load_is_cancelled),
		TEST(format_1_has_nothing_to_look_at),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
