// SPDX-License-Identifier: GPL-2.0-or-later
/* A member that is prepared for a larger array: what is zeroed, what is never touched, and how a disk without room is reported. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>

#include <qb/qbloop.h>

#include "daemon/disk/grow.h"
#include "tests/unit/fixture.h"

#define BYTES	(64ull << 20)
#define PIECE	4096u
#define FILLED	0xa5

static char path[128];
static struct ddr_members *members;
static struct ddr_super sb;
static struct ddr_grow *ended;
static qb_loop_t *loop;
static struct ddr_still still;
static unsigned int writes;
static struct {
	unsigned int stands_at;	/* at this write the daemon has not run for too long; 0: never */
	int write_error, sync_error;
	off_t write_at;		/* that one alone; 0: any */
	uint64_t shrinks;	/* the device has this size from then on */
} fault;

ssize_t __real_pwrite(int fd, const void *buf, size_t len, off_t at);
ssize_t __wrap_pwrite(int fd, const void *buf, size_t len, off_t at);
int __real_fsync(int fd);
int __wrap_fsync(int fd);

ssize_t __wrap_pwrite(int fd, const void *buf, size_t len, off_t at)
{
	if (++writes == fault.stands_at)
		atomic_store(&still.until_ms, 1);
	if (!fault.write_error || (fault.write_at && fault.write_at != at))
		return __real_pwrite(fd, buf, len, at);
	if (fault.shrinks)
		assert_int_equal(ftruncate(fd, (off_t)fault.shrinks), 0);
	errno = fault.write_error;
	return -1;
}

int __wrap_fsync(int fd)
{
	if (!fault.sync_error)
		return __real_fsync(fd);
	errno = fault.sync_error;
	return -1;
}

/* ---- the stage -------------------------------------------------------------------- */

static void fill(int fd, uint64_t bytes)
{
	static uint8_t buf[1u << 20];

	memset(buf, FILLED, sizeof(buf));
	for (uint64_t at = 0; at < bytes; at += sizeof(buf))
		assert_int_equal(__real_pwrite(fd, buf, sizeof(buf), (off_t)at), sizeof(buf));
}

/* One member of BYTES, full of old data; the array ends in the middle of its fourth region. */
static int setup(void **state)
{
	struct ddr_error err;
	int fd;

	(void)state;
	memset(&fault, 0, sizeof(fault));
	memset(&still, 0, sizeof(still));
	writes = 0;
	snprintf(path, sizeof(path), "%s/ddraid-grow-XXXXXX", fixture_dir("/tmp"));
	fd = mkstemp(path);
	assert_true(fd >= 0);
	fill(fd, BYTES);
	close(fd);
	fixture_super(&sb, 1, 1, DDR_LAYOUT_ROTATING, BYTES, 0);
	sb.array_blocks = ddr_super_region_blocks(&sb) * 7 / 2;
	members = ddr_members_new();
	assert_non_null(members);
	members->n = 2;
	if (ddr_dev_open(&members->dev[1], path, DDR_DEV_WRITE | DDR_DEV_FILE, &err))
		fail_msg("%s", err.text);
	members->open = 1u << 1;
	loop = qb_loop_create();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ddr_grow_free(ended);
	ended = NULL;
	assert_int_equal(members->kept[DDR_MEMBERS_GROW], 0);
	ddr_members_put(members);
	qb_loop_destroy(loop);
	unlink(path);
	return 0;
}

static void done(void *ctx, struct ddr_grow *g)
{
	assert_ptr_equal(ctx, &sb);
	ended = g;
	qb_loop_stop(loop);
}

static int prepare(uint64_t blocks)
{
	struct ddr_grow *g = calloc(1, sizeof(*g));

	assert_non_null(g);
	*g = (struct ddr_grow){ .still = &still, .members = members, .member = 1, .super = sb, .blocks = blocks, .done = done, .ctx = &sb };
	ddr_members_keep(members, DDR_MEMBERS_GROW, 1u << 1);
	assert_int_equal(ddr_grow_start(g, loop), 0);
	qb_loop_run(loop);
	assert_non_null(ended);
	return ended->result;
}

/* From @from to @to everything is @byte. */
static void all(uint64_t from, uint64_t to, uint8_t byte, const char *what)
{
	int fd = open(path, O_RDONLY);
	uint8_t buf[PIECE];

	for (uint64_t at = from; at < to; at += sizeof(buf)) {
		size_t n = to - at < sizeof(buf) ? (size_t)(to - at) : sizeof(buf);

		assert_int_equal(pread(fd, buf, n, (off_t)at), n);
		for (size_t i = 0; i < n; i++)
			if (buf[i] != byte)
				fail_msg("%s: byte %llu is %02x", what, (unsigned long long)at + i, buf[i]);
	}
	close(fd);
}

static uint64_t end_of(uint64_t blocks)
{
	struct ddr_super larger = sb;

	larger.array_blocks = blocks;
	return ddr_layout_data_end(&larger);
}

/* ---- tests ------------------------------------------------------------------------ */

/* The rest of the region that the array ends in, the tail behind the new end, the end of the disk: and not one byte more. */
static void the_end_is_zeroed_and_nothing_else(void **state)
{
	uint64_t region = ddr_super_region_blocks(&sb), from = ddr_layout_data_end(&sb), blocks = region * 11 / 2;
	uint64_t to = end_of(blocks), tail = to + DDR_TAIL_BYTES, last = BYTES - DDR_SIGNATURE_BYTES;

	(void)state;
	assert_true(tail < last);
	assert_int_equal(prepare(blocks), 0);
	all(0, from, FILLED, "what the array has");
	all(from, end_of(region * 4), 0, "the rest of its last region");
	all(end_of(region * 4), to, FILLED, "regions that nobody has written");
	all(to, tail, 0, "the tail");
	all(tail, last, FILLED, "behind the tail");
	all(last, BYTES, 0, "the end of the disk");
}

/* The new end lies in the same region as the old one: zeroing ends exactly where the array ends. */
static void an_array_grows_within_its_last_region(void **state)
{
	uint64_t from = ddr_layout_data_end(&sb), blocks = sb.array_blocks + 2, tail = end_of(blocks) + DDR_TAIL_BYTES;

	(void)state;
	assert_int_equal(ddr_grow_bytes(&sb, blocks), 2 * sb.chunk);
	assert_int_equal(prepare(blocks), 0);
	all(0, from, FILLED, "what the array has");
	all(from, tail, 0, "the new blocks, and the tail");
	all(tail, BYTES - DDR_SIGNATURE_BYTES, FILLED, "behind the tail");
}

/* The array ended with a region: there is no rest of one. */
static void an_array_that_ended_with_a_region_grows(void **state)
{
	uint64_t region = ddr_super_region_blocks(&sb);

	(void)state;
	sb.array_blocks = region * 3;
	assert_int_equal(ddr_grow_bytes(&sb, region * 5), 0);
	assert_int_equal(prepare(region * 5), 0);
	all(0, end_of(region * 5), FILLED, "what the array has, and gets");
	all(end_of(region * 5), end_of(region * 5) + DDR_TAIL_BYTES, 0, "the tail");
}

/* The disk has become larger since it was opened: that counts. */
static void the_size_is_looked_at_again(void **state)
{
	struct ddr_super larger = sb;

	(void)state;
	larger.array_blocks = sb.array_blocks + (96ull << 20) / sb.chunk;
	assert_true(ddr_layout_member_bytes(&larger) > BYTES);
	assert_int_equal(truncate(path, (off_t)(BYTES * 4)), 0);
	assert_int_equal(prepare(larger.array_blocks), 0);
	all(BYTES * 4 - DDR_SIGNATURE_BYTES, BYTES * 4, 0, "the end of the disk");
	all(0, ddr_layout_data_end(&sb), FILLED, "what the array has");
}

/* That is not a lack of space, for which one could wait: the disk is too small. Nothing was written. */
static void a_disk_that_is_too_small(void **state)
{
	(void)state;
	assert_int_equal(prepare(sb.array_blocks + BYTES / sb.chunk), -EIO);
	assert_non_null(strstr(ended->error.text, "too small for the new size"));
	all(0, BYTES, FILLED, "the disk");
}

static void an_array_does_not_shrink(void **state)
{
	(void)state;
	assert_int_equal(prepare(sb.array_blocks), -EIO);
	all(0, BYTES, FILLED, "the disk");
}

static void no_space(void **state)
{
	(void)state;
	fault.write_error = ENOSPC;
	assert_int_equal(prepare(sb.array_blocks + 2), -ENOSPC);
}

/* Each of the three places is looked at. */
static void an_error_at_any_place(void **state)
{
	uint64_t blocks = sb.array_blocks + 2, at[] = { ddr_layout_data_end(&sb), end_of(blocks), BYTES - DDR_SIGNATURE_BYTES };

	(void)state;
	fault.write_error = EIO;
	for (unsigned int i = 0; i < 3; i++) {
		fault.write_at = (off_t)at[i];
		assert_int_equal(prepare(blocks), -EIO);
		assert_non_null(strstr(ended->error.text, "cannot write"));
		ddr_grow_free(ended);
		ended = NULL;
	}
	fault.write_error = 0;
	assert_int_equal(prepare(blocks), 0);
}

/* A disk that was pulled reports "no space", too. */
static void a_disk_that_was_pulled(void **state)
{
	(void)state;
	fault.write_error = ENOSPC;
	fault.shrinks = PIECE;
	assert_int_equal(prepare(sb.array_blocks + 2), -EIO);
}

/* Earlier writes may be lost: more space does not bring them back. */
static void no_space_at_a_flush(void **state)
{
	(void)state;
	fault.sync_error = ENOSPC;
	assert_int_equal(prepare(sb.array_blocks + 2), -EIO);
}

/*
 * The daemon stands still, and other nodes go on without it: nothing is begun any more.
 * Neither the disk nor its space is to blame.
 */
static void a_daemon_that_stood_still_zeroes_no_more(void **state)
{
	uint64_t blocks = sb.array_blocks + ddr_super_region_blocks(&sb) * 2;

	(void)state;
	assert_int_equal(prepare(blocks), 0);
	assert_true(writes > 2);
	ddr_grow_free(ended);
	writes = 0;
	fault.stands_at = 2;
	assert_int_equal(prepare(blocks), -EAGAIN);
	assert_int_equal(writes, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_end_is_zeroed_and_nothing_else, setup, teardown),
		cmocka_unit_test_setup_teardown(an_array_grows_within_its_last_region, setup, teardown),
		cmocka_unit_test_setup_teardown(an_array_that_ended_with_a_region_grows, setup, teardown),
		cmocka_unit_test_setup_teardown(the_size_is_looked_at_again, setup, teardown),
		cmocka_unit_test_setup_teardown(a_disk_that_is_too_small, setup, teardown),
		cmocka_unit_test_setup_teardown(an_array_does_not_shrink, setup, teardown),
		cmocka_unit_test_setup_teardown(no_space, setup, teardown),
		cmocka_unit_test_setup_teardown(an_error_at_any_place, setup, teardown),
		cmocka_unit_test_setup_teardown(a_disk_that_was_pulled, setup, teardown),
		cmocka_unit_test_setup_teardown(no_space_at_a_flush, setup, teardown),
		cmocka_unit_test_setup_teardown(a_daemon_that_stood_still_zeroes_no_more, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
