/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cli/upgrade_write.c on image files: the power may go within any write. The array is there all the same, whole, of format 1 or 2, and nothing that it
 * used has changed; it may be started in between; and the same again gives format 2 to all.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/rename.h"
#include "cli/upgrade.h"
#include "lib/disk/assemble.h"
#include "lib/math/crc32c.h"
#include "tests/unit/fixture.h"

#define SIZE	(8u << 20)
#define PATTERN	(16u << 10)
#define N	4u		/* order 1, parity 1, one spare */

static struct ddr_super super;
static struct ddr_dev dev[N];
static char path[N][64];
static uint64_t seed;
static int writes_left = -1;		/* until one is torn, and all that follow fail; -1: none is */

ssize_t __real_pwrite(int fd, const void *buf, size_t len, off_t at);
ssize_t __wrap_pwrite(int fd, const void *buf, size_t len, off_t at);

/* Any of its sectors lands. */
ssize_t __wrap_pwrite(int fd, const void *buf, size_t len, off_t at)
{
	if (writes_left == -1 || writes_left > 0) {
		writes_left -= writes_left > 0;
		return __real_pwrite(fd, buf, len, at);
	}
	for (size_t s = 0; writes_left == 0 && s < len; s += 512)
		if (fixture_random(&seed) & 1)
			assert_int_equal(__real_pwrite(fd, (const char *)buf + s, 512, at + (off_t)s), 512);
	writes_left = -2;
	errno = EIO;
	return -1;
}

/* ---- the array --------------------------------------------------------------------- */

/* @tight: the gap does not suffice, and the map has to give up blocks. @behind: member 1 missed the last generation. */
static void make(bool tight, bool behind)
{
	static uint8_t content[SIZE] __attribute__((aligned(4096)));
	struct ddr_error err;

	writes_left = -1;
	fixture_super(&super, 1, 1, DDR_LAYOUT_ROTATING, SIZE, 1);
	if (tight) {
		super.slots = 40;
		super.map_offset = ddr_log_offset(&super, 40, 0, 0);
		super.map_blocks = 60;
	}
	super.generation = 7;
	fixture_uuid(super.gen_prev, 101);
	super.log_base = 3;
	assert_int_equal(ddr_super_check(&super).code, DDR_FE_OK);
	for (uint16_t m = 0; m < N; m++) {
		struct ddr_super own = super;

		fixture_fill(content, PATTERN, &seed);
		for (uint32_t at = PATTERN; at < SIZE; at += PATTERN)
			memcpy(content + at, content, PATTERN);
		/* what is behind the map is not used */
		memset(content + ddr_map_offset(&super, super.map_blocks, 0), 0, super.data_offset - ddr_map_offset(&super, super.map_blocks, 0));
		assert_int_equal(__real_pwrite(dev[m].fd, content, SIZE, 0), SIZE);
		own.this_member = m;
		if (behind && m == 1) {
			own.generation--;
			memcpy(own.gen_id, own.gen_prev, sizeof(own.gen_id));
			fixture_uuid(own.gen_prev, 102);
		}
		for (own.seq = 40; own.seq <= 41; own.seq++)
			assert_int_equal(ddr_dev_write_super(&dev[m], &own, &err), 0);
	}
	super.seq = 41;
}

/* The crc of what the array uses on member @m beside superblocks: its log, the map's blocks in use, and its data. */
static uint32_t used(uint16_t m)
{
	uint64_t blocks = (ddr_super_regions(&super) + DDR_MAP_REGIONS - 1) / DDR_MAP_REGIONS;
	uint8_t *image = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, dev[m].fd, 0);
	uint32_t crc;

	assert_ptr_not_equal(image, MAP_FAILED);
	crc = ddr_crc32c(image + super.log_offset, ddr_map_offset(&super, (uint32_t)blocks, 0) - super.log_offset) ^
	      ddr_crc32c(image + super.data_offset, SIZE - super.data_offset) * 3 ^ ddr_crc32c(image, DDR_SB_OFFSET) * 5;
	munmap(image, SIZE);
	return crc;
}

static struct ddr_supers found[N];
static struct ddr_assembly assembly;

/* What a start finds: all members, and nothing that is refused. */
static void assemble(void)
{
	struct ddr_candidate cand[N] = { 0 };
	struct ddr_error err;

	for (uint32_t m = 0; m < N; m++) {
		assert_int_equal(ddr_dev_read_supers(&dev[m], &found[m], &err), 0);		/* no cut loses both copies */
		cand[m] = (struct ddr_candidate){ .device = path[m], .super = &found[m].copy[found[m].newest].super, .bytes = SIZE };
	}
	if (ddr_assemble(cand, N, NULL, &assembly, &err))
		fail_msg("%s", err.text);
	assert_false(assembly.degraded || assembly.doubtful);
	for (uint32_t m = 0; m < N; m++)
		assert_int_equal(assembly.verdict[m], DDR_V_CURRENT);
}

/* As the command does. */
static int upgrade(void)
{
	struct upgrade_disk disk[N];
	uint8_t gen_id[DDR_UUID_LEN];
	struct ddr_error err;
	bool begun;

	assemble();
	for (uint16_t m = 0; m < N; m++)
		disk[m] = (struct upgrade_disk){ .dev = &dev[m], .supers = &found[m], .member = m };
	if (upgrade_is_done(disk, N, &assembly.super))
		return 1;
	fixture_fill(gen_id, sizeof(gen_id), &seed);
	return upgrade_write(disk, N, &assembly.super, &found[assembly.source].owners, gen_id, &begun, &err);
}

/* The array is started and stopped: a change of the superblocks on all members, with a new generation. 0, or -1: it was cut. */
static int start_and_stop(void)
{
	struct ddr_super next;
	struct ddr_error err;

	assemble();
	next = assembly.super;
	for (unsigned int level = 2; level--;) {
		next.seq = ddr_super_seq_behind(next.seq);
		if (!level) {
			next.generation++;
			memcpy(next.gen_prev, next.gen_id, sizeof(next.gen_prev));
			fixture_fill(next.gen_id, sizeof(next.gen_id), &seed);
		}
		for (uint16_t m = 0; m < N; m++)
			if (rename_write(&dev[m], &next, &found[assembly.source].owners, m, &err))
				return -1;
	}
	return 0;
}

static void all_have_format_2(const uint32_t before[N])
{
	struct ddr_super want = super;
	struct ddr_error err;

	assert_int_equal(ddr_layout_owners(&want, &err), 0);
	assemble();
	for (uint16_t m = 0; m < N; m++) {
		for (unsigned int c = 0; c < DDR_SB_COPIES; c++) {
			const struct ddr_super *sb = &found[m].copy[c].super;

			assert_true(found[m].copy[c].found && ddr_super_has_owners(sb));
			assert_int_equal(sb->owner_offset, want.owner_offset);
			assert_int_equal(sb->map_blocks, want.map_blocks);
			assert_int_equal(sb->generation, assembly.super.generation);
			assert_int_equal(sb->array_blocks, super.array_blocks);
			assert_int_equal(sb->log_base, super.log_base);
		}
		assert_int_equal(used(m), before[m]);
	}
	assert_int_equal(upgrade(), 1);
}

/* Every write is cut, in both kinds of layout, with all members level or not; then either the same again, or a start before that. */
static void cut_at_each_write(bool tight, bool behind, bool started)
{
	unsigned int cuts = 0, kept = 0, mixed = 0;
	uint32_t before[N];
	struct ddr_error err;
	struct ddr_super trial;

	for (int at = 0; ; at++) {
		make(tight, behind);
		trial = super;
		assert_int_equal(ddr_layout_owners(&trial, &err), 0);
		assert_int_equal(trial.map_blocks < super.map_blocks, tight);
		for (uint16_t m = 0; m < N; m++)
			before[m] = used(m);
		writes_left = at;
		if (upgrade() == 0)
			break;
		writes_left = -1;
		assemble();
		kept += !ddr_super_has_owners(&assembly.super);
		for (uint32_t m = 0; m < N; m++)
			mixed += ddr_super_has_owners(&assembly.super) && !ddr_super_has_owners(&found[m].copy[found[m].newest].super);
		for (uint16_t m = 0; m < N; m++)
			assert_int_equal(used(m), before[m]);
		if (started)
			assert_int_equal(start_and_stop(), 0);
		assert_true(upgrade() >= 0);
		all_have_format_2(before);
		cuts++;
	}
	writes_left = -1;
	all_have_format_2(before);
	/* one write of zeroes a member (or several), and two copies with pages each; and two superblocks each before that if one was behind */
	assert_true(cuts >= 5 * N + (behind ? 2 * N : 0));
	assert_true(kept && mixed);
}

static void a_cut_within_each_write(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < 8; i++)
		cut_at_each_write(i & 1, i & 2, i & 4);
}

/* Cut again and again, started in between now and then, which may be cut as well. */
static void many_cuts_in_a_row(void **state)
{
	uint32_t before[N];

	(void)state;
	for (unsigned int i = 0; i < 60; i++) {
		make(i & 1, i & 2);
		for (uint16_t m = 0; m < N; m++)
			before[m] = used(m);
		for (unsigned int k = 0; k < 8; k++) {
			writes_left = (int)(fixture_random(&seed) % (5 * N));
			if (k % 3 == 2)
				start_and_stop();
			else
				upgrade();
			writes_left = -1;
			assemble();
		}
		assert_true(upgrade() >= 0);
		all_have_format_2(before);
	}
}

/* A disk of format 1 that was absent is stale, as after any other change; it does not keep the array from starting. */
static void an_absent_disk_is_stale(void **state)
{
	struct ddr_candidate cand[N] = { 0 };
	struct ddr_assembly a;
	struct ddr_error err;
	struct ddr_super old;

	(void)state;
	make(true, false);
	assert_int_equal(upgrade(), 0);
	assert_int_equal(start_and_stop(), 0);
	old = super;
	old.this_member = 2;
	for (old.seq = 40; old.seq <= 41; old.seq++)
		assert_int_equal(ddr_dev_write_super(&dev[2], &old, &err), 0);
	for (uint32_t m = 0; m < N; m++) {
		assert_int_equal(ddr_dev_read_supers(&dev[m], &found[m], &err), 0);
		cand[m] = (struct ddr_candidate){ .device = path[m], .super = &found[m].copy[found[m].newest].super, .bytes = SIZE };
	}
	if (ddr_assemble(cand, N, NULL, &a, &err))
		fail_msg("%s", err.text);
	assert_int_equal(a.verdict[2], DDR_V_STALE);
	assert_true(a.degraded);
}

/* No room: nothing is written. */
static void no_room_no_write(void **state)
{
	struct upgrade_disk disk[N];
	uint8_t gen_id[DDR_UUID_LEN] = { 1 };
	struct ddr_error err;
	bool begun = true;

	(void)state;
	make(false, false);
	super.slots = 64;
	super.map_offset = ddr_log_offset(&super, 64, 0, 0);
	for (uint16_t m = 0; m < N; m++) {
		struct ddr_super own = super;

		own.this_member = m;
		for (own.seq = 40; own.seq <= 41; own.seq++)
			assert_int_equal(ddr_dev_write_super(&dev[m], &own, &err), 0);
	}
	assemble();
	for (uint16_t m = 0; m < N; m++)
		disk[m] = (struct upgrade_disk){ .dev = &dev[m], .supers = &found[m], .member = m };
	writes_left = 0;		/* the first write would end it with another error */
	assert_int_equal(upgrade_write(disk, N, &assembly.super, &found[0].owners, gen_id, &begun, &err), -1);
	assert_non_null(strstr(err.text, "no room for format 2: 64 slots need 598016 bytes"));
	assert_false(begun);
	assert_int_equal(writes_left, 0);
	writes_left = -1;
}

static int begin(void **state)
{
	struct ddr_error err;

	(void)state;
	for (unsigned int i = 0; i < N; i++) {
		int fd;

		snprintf(path[i], sizeof(path[i]), "%s/test-upgrade-XXXXXX", fixture_dir("."));
		fd = mkstemp(path[i]);
		if (fd < 0 || ftruncate(fd, SIZE))
			return -1;
		close(fd);
		if (ddr_dev_open(&dev[i], path[i], DDR_DEV_WRITE | DDR_DEV_FILE, &err))
			return -1;
	}
	return 0;
}

static int end(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < N; i++) {
		ddr_dev_close(&dev[i]);
		unlink(path[i]);
	}
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cut_within_each_write), cmocka_unit_test(many_cuts_in_a_row), cmocka_unit_test(an_absent_disk_is_stale),
		cmocka_unit_test(no_room_no_write),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
