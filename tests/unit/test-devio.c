/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Device access on image files: finding superblocks on whole and damaged members, bounds of writes. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/fixture.h"
#include "lib/disk/devio.h"

#define MIB	(1u << 20)
#define SIZE	(64u * MIB)

static char path[] = "test-devio-XXXXXX";
static struct ddr_dev dev;
static struct ddr_super sb;
static struct ddr_error err;

/* An empty image, opened, and a superblock for it whose data begins at 2 MiB. */
static int open_image(void **state)
{
	int fd;

	(void)state;
	strcpy(path, "test-devio-XXXXXX");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, SIZE), 0);
	close(fd);
	if (ddr_dev_open(&dev, path, DDR_DEV_WRITE | DDR_DEV_EXCL | DDR_DEV_FILE, &err))
		fail_msg("%s", err.text);
	fixture_super(&sb, 2, 1, DDR_LAYOUT_ROTATING, SIZE, 0);
	sb.data_offset = 2 * MIB;
	sb.array_blocks -= 1024;
	assert_int_equal(ddr_super_check(&sb).code, DDR_FE_OK);
	return 0;
}

static int close_image(void **state)
{
	(void)state;
	ddr_dev_close(&dev);
	unlink(path);
	return 0;
}

static void put(uint64_t seq)
{
	sb.seq = seq;
	if (ddr_dev_write_super(&dev, &sb, &err))
		fail_msg("%s", err.text);
}

static void damage(uint64_t offset)
{
	uint8_t *buf = ddr_dev_buffer(4096);

	assert_int_equal(ddr_dev_read(&dev, buf, 4096, offset, &err), 0);
	buf[120] ^= 1;
	assert_int_equal(ddr_dev_write(&dev, buf, 4096, offset, &err), 0);
	free(buf);
}

static void test_alternating_writes(void **state)
{
	struct ddr_supers s;

	(void)state;
	for (uint64_t seq = 1; seq < 8; seq++) {
		put(seq);
		assert_int_equal(ddr_dev_read_supers(&dev, &s, &err), 0);
		assert_int_equal(s.newest, (int)(seq & 1));
		assert_int_equal(s.copy[s.newest].super.seq, seq);
		assert_memory_equal(&s.copy[s.newest].super, &sb, sizeof(sb));
		/* the one before is still there */
		assert_int_equal(s.copy[1 - s.newest].found, seq > 1);
		if (seq > 1)
			assert_int_equal(s.copy[1 - s.newest].super.seq, seq - 1);
	}
}

static void test_torn_copies(void **state)
{
	struct ddr_supers s;

	(void)state;
	put(1);
	put(2);
	damage(DDR_SB_OFFSET);
	assert_int_equal(ddr_dev_read_supers(&dev, &s, &err), 0);
	assert_int_equal(s.newest, 1);
	assert_int_equal(s.copy[1].offset, 2 * MIB - 4096);
	assert_int_equal(s.copy[0].fault.code, DDR_FE_CRC);
	put(4);
	damage(2 * MIB - 4096);
	assert_int_equal(ddr_dev_read_supers(&dev, &s, &err), 0);
	assert_int_equal(s.newest, 0);
	assert_int_equal(s.copy[1].fault.code, DDR_FE_CRC);
	damage(DDR_SB_OFFSET);
	assert_int_equal(ddr_dev_read_supers(&dev, &s, &err), -1);
	assert_int_equal(s.newest, -1);
	assert_non_null(strstr(err.text, "copy 0: crc32c"));
	assert_non_null(strstr(err.text, "copy 1: crc32c"));
}

/* A member inside the data of a member: its superblock is not mistaken for copy 1. */
static void test_superblock_in_the_data(void **state)
{
	struct ddr_super inner = sb;
	struct ddr_supers s;
	uint8_t *buf = ddr_dev_buffer(4096);

	(void)state;
	put(1);
	inner.seq = 99;
	fixture_uuid(inner.array_uuid, 77);
	assert_int_equal(ddr_super_encode(&inner, buf).code, DDR_FE_OK);
	/* the image of the inner member begins at 1 MiB of the data area */
	assert_int_equal(ddr_dev_write(&dev, buf, 4096, 3 * MIB + 2 * MIB - 4096, &err), 0);
	free(buf);
	assert_int_equal(ddr_dev_read_supers(&dev, &s, &err), 0);
	assert_int_equal(s.copy[1].super.seq, 1);
	damage(2 * MIB - 4096);
	assert_int_equal(ddr_dev_read_supers(&dev, &s, &err), -1);
	assert_int_equal(s.copy[1].fault.code, DDR_FE_CRC);
	assert_int_equal(s.copy[1].offset, 2 * MIB - 4096);
}

static void test_two_arrays(void **state)
{
	struct ddr_supers s;

	(void)state;
	put(2);
	fixture_uuid(sb.array_uuid, 77);
	put(1);
	assert_int_equal(ddr_dev_read_supers(&dev, &s, &err), -1);
	assert_true(s.conflict);
	assert_int_equal(s.newest, -1);
	assert_non_null(strstr(err.text, "different arrays or members"));
}

static void test_blank_and_foreign(void **state)
{
	struct ddr_supers s;
	uint8_t *buf = ddr_dev_buffer(MIB);
	uint64_t seed = 3;

	(void)state;
	assert_int_equal(ddr_dev_read_supers(&dev, &s, &err), -1);
	assert_non_null(strstr(err.text, "is not a ddraid member"));
	fixture_fill(buf, MIB, &seed);
	for (uint64_t at = 0; at < SIZE; at += MIB)
		assert_int_equal(ddr_dev_write(&dev, buf, MIB, at, &err), 0);
	assert_int_equal(ddr_dev_read_supers(&dev, &s, &err), -1);
	assert_non_null(strstr(err.text, "is not a ddraid member"));
	free(buf);
}

static void test_encoder_guards_the_disk(void **state)
{
	struct ddr_supers s;

	(void)state;
	put(2);
	sb.seq = 3;
	sb.chunk = 512;
	assert_int_equal(ddr_dev_write_super(&dev, &sb, &err), -1);
	assert_non_null(strstr(err.text, "chunk does not fit order"));
	assert_int_equal(ddr_dev_read_supers(&dev, &s, &err), 0);
	assert_int_equal(s.copy[0].super.seq, 2);
	assert_false(s.copy[1].found);
}

static void test_bounds(void **state)
{
	uint8_t *buf = ddr_dev_buffer(8192);
	struct stat st;

	(void)state;
	assert_int_equal(dev.bytes, SIZE);
	assert_int_equal(ddr_dev_read(&dev, buf, 8192, SIZE - 4096, &err), -1);
	assert_int_equal(errno, ENODATA);
	assert_int_equal(ddr_dev_write(&dev, buf, 8192, SIZE - 4096, &err), -1);
	assert_int_equal(ddr_dev_write(&dev, buf, 4096, UINT64_MAX - 4095, &err), -1);
	assert_int_equal(ddr_dev_zero(&dev, SIZE - MIB, 2 * MIB, &err), -1);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, SIZE);
	memset(buf, 0xaa, 8192);
	assert_int_equal(ddr_dev_write(&dev, buf, 8192, 3 * MIB - 4096, &err), 0);
	assert_int_equal(ddr_dev_zero(&dev, MIB, 2 * MIB, &err), 0);
	assert_int_equal(ddr_dev_read(&dev, buf, 8192, 3 * MIB - 4096, &err), 0);
	assert_int_equal(buf[4095], 0);
	assert_int_equal(buf[4096], 0xaa);
	free(buf);
}

static void test_open_refuses(void **state)
{
	struct ddr_dev other;

	(void)state;
	assert_int_equal(ddr_dev_open(&other, path, 0, &err), -1);
	assert_non_null(strstr(err.text, "is not a block device"));
	assert_int_equal(ddr_dev_open(&other, ".", DDR_DEV_FILE, &err), -1);
	assert_non_null(strstr(err.text, "is not a block device"));
	assert_int_equal(ddr_dev_open(&other, "/dev/null", DDR_DEV_FILE, &err), -1);
	assert_non_null(strstr(err.text, "is not a block device"));
	assert_int_equal(ddr_dev_open(&other, "does/not/exist", DDR_DEV_FILE, &err), -1);
	assert_non_null(strstr(err.text, "does/not/exist: No such file"));
	assert_int_equal(other.fd, -1);
	assert_null(other.path);
	ddr_dev_close(&other);
}

static void test_same(void **state)
{
	struct ddr_dev a, b;
	char copy[64];
	int fd;

	(void)state;
	snprintf(copy, sizeof(copy), "./%s", path);
	assert_int_equal(ddr_dev_open(&a, copy, DDR_DEV_FILE, &err), 0);
	assert_true(ddr_dev_same(&a, &dev));
	snprintf(copy, sizeof(copy), "%s-b", path);
	fd = open(copy, O_CREAT | O_RDWR, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(ddr_dev_open(&b, copy, DDR_DEV_FILE, &err), 0);
	assert_false(ddr_dev_same(&a, &b));
	ddr_dev_close(&a);
	ddr_dev_close(&b);
	unlink(copy);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_image, close_image)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_alternating_writes),
		TEST(test_torn_copies),
		TEST(test_superblock_in_the_data),
		TEST(test_two_arrays),
		TEST(test_blank_and_foreign),
		TEST(test_encoder_guards_the_disk),
		TEST(test_bounds),
		TEST(test_open_refuses),
		TEST(test_same),
	};

	return cmocka_run_group_tests_name("devio", tests, NULL, NULL);
}
