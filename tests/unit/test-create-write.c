/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cli/create_write.c on image files: what is on the members afterwards, and that no failing write leaves half an array behind. The
 * linker puts __wrap_ functions in front of the device functions, so that any single call can fail.
 */
#include <errno.h>
#include <unistd.h>

#include "tests/unit/fixture.h"
#include "cli/create.h"
#include "cli/guard.h"
#include "lib/disk/signature.h"

#define MIB	(1u << 20)
#define SIZE	(24u * MIB)
#define N	4u		/* order 1, parity 1, one spare */
#define MOST	11u		/* order 3, parity 2, one spare */
#define OLD_COPY_1	(7u * MIB - DDR_META_BLOCK)

static struct create_plan plan;
static char path[MOST][32];

/* Calls until one fails; -1: none does. */
static int supers_left = -1, writes_left = -1, syncs_left = -1;
static bool undo_fails;
/* The array that is created has format 2. */
static bool owned;
/* For each device: its old superblock was overwritten, and that was flushed. */
static bool watch_order, blanked[MOST], retired[MOST];

void cli_guard_at(const char *at, const char *writing)
{
	(void)at, (void)writing;
}

int __real_ddr_dev_write_owned(const struct ddr_dev *dev, const struct ddr_super *sb, const struct ddr_owners *owners, struct ddr_error *err);
int __wrap_ddr_dev_write_owned(const struct ddr_dev *dev, const struct ddr_super *sb, const struct ddr_owners *owners, struct ddr_error *err);
int __real_ddr_dev_write(const struct ddr_dev *dev, const void *buf, size_t len, uint64_t offset, struct ddr_error *err);
int __wrap_ddr_dev_write(const struct ddr_dev *dev, const void *buf, size_t len, uint64_t offset, struct ddr_error *err);
int __real_ddr_dev_zero(const struct ddr_dev *dev, uint64_t offset, uint64_t len, struct ddr_error *err);
int __wrap_ddr_dev_zero(const struct ddr_dev *dev, uint64_t offset, uint64_t len, struct ddr_error *err);
int __real_ddr_dev_sync(const struct ddr_dev *dev, struct ddr_error *err);
int __wrap_ddr_dev_sync(const struct ddr_dev *dev, struct ddr_error *err);

static bool fails(int *left)
{
	if (*left < 0)
		return false;
	return (*left)-- == 0;
}

/*
 * Nothing may be written to a device whose old superblock could still come back, and no data to any device while one of them has its
 * old superblock.
 */
static void check_order(const struct ddr_dev *dev, uint64_t offset)
{
	size_t i = (size_t)(dev - plan.dev);

	if (!watch_order)
		return;
	if (offset == OLD_COPY_1 && !retired[i]) {
		blanked[i] = true;
		return;
	}
	assert_true(retired[i]);
	for (unsigned int m = 0; m < N && offset == plan.super.data_offset; m++)
		assert_true(retired[m]);
}

int __wrap_ddr_dev_write_owned(const struct ddr_dev *dev, const struct ddr_super *sb, const struct ddr_owners *owners, struct ddr_error *err)
{
	/* the worst case: the write landed, but its result is an error */
	int rc = __real_ddr_dev_write_owned(dev, sb, owners, err);

	return fails(&supers_left) ? ddr_error_set(err, "%s: cannot write superblock", dev->path) : rc;
}

int __wrap_ddr_dev_write(const struct ddr_dev *dev, const void *buf, size_t len, uint64_t offset, struct ddr_error *err)
{
	check_order(dev, offset);
	if (fails(&writes_left))
		return ddr_error_set(err, "%s: cannot write", dev->path);
	return __real_ddr_dev_write(dev, buf, len, offset, err);
}

int __wrap_ddr_dev_zero(const struct ddr_dev *dev, uint64_t offset, uint64_t len, struct ddr_error *err)
{
	if (undo_fails && offset == DDR_SB_OFFSET)
		return ddr_error_set(err, "%s: cannot zero", dev->path);
	check_order(dev, offset);
	return __real_ddr_dev_zero(dev, offset, len, err);
}

int __wrap_ddr_dev_sync(const struct ddr_dev *dev, struct ddr_error *err)
{
	retired[dev - plan.dev] = blanked[dev - plan.dev];
	return fails(&syncs_left) ? ddr_error_set(err, "%s: cannot flush", dev->path) : __real_ddr_dev_sync(dev, err);
}

/* Images full of old data, with a stale superblock where copy 1 of another array would be searched for. */
static void make_images(uint64_t size)
{
	uint8_t *junk = ddr_dev_buffer(MIB);
	struct ddr_super old = plan.super;
	struct ddr_error err;
	uint64_t seed = 9;

	writes_left = supers_left = syncs_left = -1;
	undo_fails = watch_order = false;
	memset(blanked, 0, sizeof(blanked));
	memset(retired, 0, sizeof(retired));
	old.seq = 5;
	old.data_offset = 7 * MIB;
	old.array_blocks -= old.array_blocks / 2;
	old.incompat = 0;
	old.owner_offset = old.owner_pages = 0;
	fixture_uuid(old.array_uuid, 4);
	fixture_fill(junk, MIB, &seed);
	for (unsigned int i = 0; i < plan.super.members; i++) {
		int fd;

		snprintf(path[i], sizeof(path[i]), "%s/test-create-XXXXXX", fixture_dir("."));
		fd = mkstemp(path[i]);
		assert_true(fd >= 0);
		assert_int_equal(ftruncate(fd, (off_t)size), 0);
		close(fd);
		assert_int_equal(ddr_dev_open(&plan.dev[i], path[i], DDR_DEV_WRITE | DDR_DEV_FILE, &err), 0);
		for (uint64_t at = 0; at < size; at += MIB)
			assert_int_equal(__real_ddr_dev_write(&plan.dev[i], junk, MIB, at, &err), 0);
		assert_int_equal(ddr_dev_write_super(&plan.dev[i], &old, &err), 0);
	}
	free(junk);
}

static int setup(void **state)
{
	(void)state;
	memset(&plan, 0, sizeof(plan));
	fixture_super(&plan.super, 1, 1, DDR_LAYOUT_ROTATING, SIZE, 1);
	make_images(SIZE);
	if (owned)
		assert_int_equal(ddr_layout_owners(&plan.super, NULL), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (unsigned int i = 0; i < plan.super.members; i++) {
		ddr_dev_close(&plan.dev[i]);
		unlink(path[i]);
	}
	return 0;
}

static bool is_zero(const struct ddr_dev *dev, uint64_t offset, size_t len)
{
	uint8_t *buf = ddr_dev_buffer(len);
	struct ddr_error err;
	bool zero = true;

	assert_int_equal(ddr_dev_read(dev, buf, len, offset, &err), 0);
	for (size_t i = 0; i < len; i++)
		zero &= buf[i] == 0;
	free(buf);
	return zero;
}

static void check_logs(const struct ddr_dev *dev, const struct ddr_super *sb)
{
	uint8_t *buf = ddr_dev_buffer(DDR_META_BLOCK);
	struct ddr_log_info info;
	struct ddr_error err;

	for (uint32_t slot = 0; slot <= sb->slots; slot++) {
		uint16_t s = slot == sb->slots ? DDR_MAP_SLOT : (uint16_t)slot;

		for (unsigned int place = 0; place < 2; place++) {
			uint64_t at = s == DDR_MAP_SLOT ? ddr_map_offset(sb, 0, place) : ddr_log_offset(sb, s, 0, place);

			assert_int_equal(ddr_dev_read(dev, buf, DDR_META_BLOCK, at, &err), 0);
			assert_int_equal(ddr_log_decode(buf, sb, s, 0, place, &info).code, DDR_FE_OK);
			assert_int_equal(info.node, 0);
			for (size_t i = DDR_LOG_HEADER; i < DDR_META_BLOCK && s != DDR_MAP_SLOT; i++)
				assert_int_equal(buf[i], 0);
		}
	}
	free(buf);
}

/* In format 2 a copy counts only together with its pages; they say that nobody has used the array, and no stamp is there. */
static void check_owners(const struct ddr_supers *s)
{
	const struct ddr_super *sb = &s->copy[s->newest].super;
	struct ddr_owners fresh;

	assert_int_equal(ddr_super_has_owners(sb), owned);
	ddr_owners_init(&fresh, sb);
	assert_memory_equal(&s->owners, &fresh, sizeof(fresh));
}

static void check_stamps(const struct ddr_dev *dev, const struct ddr_super *sb)
{
	if (owned)
		assert_true(is_zero(dev, ddr_stamp_offset(sb, 0, 0), ddr_owner_offset(sb, 1) - ddr_stamp_offset(sb, 0, 0)));
}

static void test_members(void **state)
{
	struct ddr_supers s;
	struct ddr_error err;

	(void)state;
	if (create_write(&plan, &err))
		fail_msg("%s", err.text);
	for (uint16_t m = 0; m < N; m++) {
		const struct ddr_dev *dev = &plan.dev[m];

		assert_int_equal(ddr_dev_read_supers(dev, &s, &err), 0);
		assert_true(s.copy[0].found && s.copy[1].found);
		assert_int_equal(s.copy[0].super.this_member, m);
		assert_memory_equal(s.copy[0].super.array_uuid, plan.super.array_uuid, 16);
		check_owners(&s);
		check_logs(dev, &plan.super);
		check_stamps(dev, &plan.super);
		assert_true(is_zero(dev, SIZE - DDR_TAIL_BYTES, DDR_TAIL_BYTES));
		/* the first 4 KiB are not ours */
		assert_false(is_zero(dev, 0, 4096));
		/* nor is the old array found when both copies are lost */
		assert_int_equal(ddr_dev_zero(dev, DDR_SB_OFFSET, 4096, &err), 0);
		assert_int_equal(ddr_dev_zero(dev, ddr_super_offset(&plan.super, 1), 4096, &err), 0);
		assert_int_equal(ddr_dev_read_supers(dev, &s, &err), -1);
		assert_int_equal(s.copy[1].offset, 0);
	}
}

/* Is block @b zero on every member that holds a part of it? */
static bool block_is_zero(uint8_t *const data[], uint64_t b)
{
	const struct ddr_super *sb = &plan.super;
	bool zero = true;

	for (unsigned int m = 0; m < sb->roles; m++)
		for (uint32_t i = 0; i < sb->chunk; i++)
			zero &= data[m][b * sb->chunk + i] == 0;
	return zero;
}

/* The zeroed blocks, where an older copy 1 would be searched for: zeroed on all members, so their parity is right whatever the map says. */
static bool is_searched(uint64_t b)
{
	uint64_t at = plan.super.data_offset + b * plan.super.chunk;

	return at < 32 * MIB && at % MIB >= MIB - DDR_META_BLOCK;
}

/* The state that the map must have for region @r, from what is on the disks: zeroed as a whole, in part, or not at all. */
static uint8_t state_by_content(uint8_t *const data[], uint64_t r)
{
	uint64_t region = plan.super.region_size / DDR_BLOCK_SIZE, end = (r + 1) * region, zero = 0, other = 0;

	if (end > plan.super.array_blocks)
		end = plan.super.array_blocks;
	for (uint64_t b = r * region; b < end; b++) {
		if (is_searched(b))
			continue;
		zero += block_is_zero(data, b);
		other += !block_is_zero(data, b);
	}
	if (!plan.super.parity || !zero)
		return DDR_REGION_UNWRITTEN;
	return other ? DDR_REGION_NEEDS_SYNC : DDR_REGION_CLEAN;
}

static void check_map(const struct ddr_dev *dev, uint8_t *const data[], unsigned int seen[3])
{
	uint8_t *buf = ddr_dev_buffer(DDR_META_BLOCK);
	struct ddr_log_info info;
	struct ddr_error err;

	for (uint64_t r = 0; r < ddr_super_regions(&plan.super); r++)
		for (unsigned int place = 0; place < 2; place++) {
			uint8_t state;

			assert_int_equal(ddr_dev_read(dev, buf, DDR_META_BLOCK, ddr_map_offset(&plan.super, 0, place), &err), 0);
			assert_int_equal(ddr_log_decode(buf, &plan.super, DDR_MAP_SLOT, 0, place, &info).code, DDR_FE_OK);
			state = ddr_map_get(((struct ddr_disk_log *)buf)->payload, (uint32_t)r);
			assert_int_equal(state, state_by_content(data, r));
			seen[state]++;
		}
	free(buf);
}

struct shape {
	uint8_t order, parity, layout;
	uint32_t region, mib;
	bool partly, untouched;		/* some region is zeroed in part; not at all */
};

static void check_shape(const struct shape *s)
{
	uint64_t size = (uint64_t)s->mib * MIB;
	struct ddr_layout_request req = { .member_bytes = size, .order = s->order, .parity = s->parity, .layout = s->layout,
					  .region_size = s->region, .slots = 2, .owners = owned };
	unsigned int seen[3] = { 0 };
	uint8_t *data[MOST];
	struct ddr_error err;
	uint64_t blocks, at;

	memset(&plan, 0, sizeof(plan));
	fixture_super(&plan.super, s->order, s->parity, s->layout, size, 1);
	assert_int_equal(ddr_layout_compute(&req, &plan.super, &err), 0);
	make_images(size);
	blocks = plan.super.array_blocks;
	at = plan.super.data_offset;
	if (create_write(&plan, &err))
		fail_msg("%s", err.text);
	for (unsigned int m = 0; m < plan.super.members; m++) {
		data[m] = ddr_dev_buffer(blocks * plan.super.chunk);
		assert_int_equal(ddr_dev_read(&plan.dev[m], data[m], blocks * plan.super.chunk, at, &err), 0);
	}
	for (uint64_t b = 0; b < blocks; b++)
		if (b < 16 * MIB / 4096 || b >= blocks - (blocks < 16 * MIB / 4096 ? blocks : 16 * MIB / 4096))
			assert_true(block_is_zero(data, b));
	for (unsigned int m = 0; m < plan.super.members; m++)
		check_map(&plan.dev[m], data, seen);
	assert_int_equal(seen[DDR_REGION_CLEAN] > 0, s->parity && !(s->partly && s->region > 64 * MIB));
	assert_int_equal(seen[DDR_REGION_NEEDS_SYNC] > 0, s->partly);
	assert_int_equal(seen[DDR_REGION_UNWRITTEN] > 0, s->untouched);
	/* the spare has no part in it */
	assert_int_not_equal(data[plan.super.roles][0], 0);
	for (unsigned int m = 0; m < plan.super.members; m++)
		free(data[m]);
	teardown(NULL);
}

/*
 * Finding S11: data at the beginning or the end of an older array on the same disks showed up on the new one, and a rebuild skipped
 * it. Both ends are zeroed on all members, and the map says so.
 */
static void test_the_ends_are_zeroed(void **state)
{
	static const struct shape shapes[] = {
		{ 0, 0, DDR_LAYOUT_DEDICATED, 0, 40, false, true },
		{ 0, 1, DDR_LAYOUT_DEDICATED, 0, 40, false, true },
		{ 0, 2, DDR_LAYOUT_DEDICATED, 64u << 10, 48, false, true },
		{ 0, 1, DDR_LAYOUT_DEDICATED, 32 * MIB, 72, true, false },	/* the last one is short, and zeroed as a whole */
		{ 0, 1, DDR_LAYOUT_DEDICATED, 32 * MIB, 112, true, true },
		{ 0, 1, DDR_LAYOUT_DEDICATED, 1024 * MIB, 40, true, false },
		{ 0, 1, DDR_LAYOUT_DEDICATED, 0, 20, false, false },		/* less than both ends */
		{ 1, 1, DDR_LAYOUT_ROTATING, 0, 40, false, true },
		{ 1, 2, DDR_LAYOUT_DEDICATED, 16 * MIB, 40, false, true },
		{ 2, 1, DDR_LAYOUT_ROTATING, 0, 24, false, true },
		{ 3, 2, DDR_LAYOUT_ROTATING, 0, 12, false, true },
		{ 3, 1, DDR_LAYOUT_ROTATING, 1u << 20, 12, false, true },
		{ 1, 1, DDR_LAYOUT_ROTATING, 0, 8, false, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i += fixture_short() ? 4 : 1)
		check_shape(&shapes[i]);
}

/* Finding S11: a crash in the middle leaves a member of the old array as it was, or none, and never an old member with new content. */
static void test_the_old_array_ends_first(void **state)
{
	struct ddr_error err;

	(void)state;
	watch_order = true;
	assert_int_equal(create_write(&plan, &err), 0);
	for (unsigned int m = 0; m < N; m++)
		assert_true(retired[m]);
}

static void nothing_is_left(const struct ddr_error *failure)
{
	struct ddr_supers s;
	struct ddr_error err;

	assert_non_null(strstr(failure->text, "the array was not created. No superblock of it is left"));
	for (uint16_t m = 0; m < N; m++) {
		/* the old content may still be found on the disk that failed, but nothing of the new array */
		if (ddr_dev_read_supers(&plan.dev[m], &s, &err) == 0)
			assert_memory_not_equal(s.copy[s.newest].super.array_uuid, plan.super.array_uuid, 16);
		assert_false(s.copy[0].found);
		if (!strstr(failure->text, path[m]))	/* not reported as overwritten: nothing was written */
			assert_false(is_zero(&plan.dev[m], DDR_SB_OFFSET, 4096));
	}
}

/* Each call of each kind fails once. */
static void each_call_fails(int *left, int calls)
{
	struct ddr_error err;

	for (int k = 0; k < calls; k += fixture_short() ? calls - 1 : 1) {	/* the first and the last */
		teardown(NULL);
		setup(NULL);
		*left = k;
		assert_int_equal(create_write(&plan, &err), -1);
		nothing_is_left(&err);
	}
	teardown(NULL);
	setup(NULL);
	*left = calls;
	assert_int_equal(create_write(&plan, &err), 0);	/* there are no more calls than that */
}

static void test_superblock_write_fails(void **state)
{
	(void)state;
	each_call_fails(&supers_left, 2 * N);
}

static void test_metadata_write_fails(void **state)
{
	(void)state;
	each_call_fails(&writes_left, N);
}

static void test_flush_fails(void **state)
{
	(void)state;
	each_call_fails(&syncs_left, 2 * N + N - 1);	/* old superblocks, metadata, the ends on those with a role */
}

/* The message then says which disks still have remains, and does not claim that nothing is left. */
static void test_undo_fails(void **state)
{
	struct ddr_error err;

	(void)state;
	undo_fails = true;
	supers_left = 3;
	assert_int_equal(create_write(&plan, &err), -1);
	assert_non_null(strstr(err.text, "superblocks may be left on"));
	assert_non_null(strstr(err.text, path[0]));
	assert_non_null(strstr(err.text, path[1]));
	assert_null(strstr(err.text, path[3]));
}

/* Only the content of the disk shows that two devices are paths to it. */
static void test_two_paths_to_one_disk(void **state)
{
	char second[48];
	struct ddr_supers s;
	struct ddr_error err;

	(void)state;
	snprintf(second, sizeof(second), "%s/test-create-second-path", fixture_dir("."));
	for (uint32_t other = 2; other < N; other++) {		/* a member, a spare */
		teardown(NULL);
		setup(NULL);
		unlink(second);
		assert_int_equal(link(path[1], second), 0);
		ddr_dev_close(&plan.dev[other]);
		assert_int_equal(ddr_dev_open(&plan.dev[other], second, DDR_DEV_WRITE | DDR_DEV_FILE, &err), 0);
		assert_int_equal(create_write(&plan, &err), -1);
		assert_non_null(strstr(err.text, "are two paths to one disk"));
		assert_non_null(strstr(err.text, path[1]));
		assert_non_null(strstr(err.text, second));
		assert_non_null(strstr(err.text, "No superblock of it is left"));
		for (uint32_t m = 0; m < N; m++)
			if (ddr_dev_read_supers(&plan.dev[m], &s, &err) == 0)
				assert_memory_not_equal(s.copy[s.newest].super.array_uuid, plan.super.array_uuid, 16);
		unlink(second);
	}
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_members),
		cmocka_unit_test(test_the_ends_are_zeroed),
		TEST(test_the_old_array_ends_first),
		TEST(test_superblock_write_fails),
		TEST(test_metadata_write_fails),
		TEST(test_flush_fails),
		TEST(test_undo_fails),
		TEST(test_two_paths_to_one_disk),
	};

	int failed = cmocka_run_group_tests_name("create-write, format 1", tests, NULL, NULL);

	owned = true;
	return failed + cmocka_run_group_tests_name("create-write, format 2", tests, NULL, NULL);
}
