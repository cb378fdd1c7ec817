// SPDX-License-Identifier: GPL-2.0-or-later
/* Who a machine is (lib/node/machine.c): when its id stays, when it needs another one, and what a file may say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include <ddraid/proto.h>

#include "lib/math/crc32c.h"
#include "lib/node/machine.h"

#define MACHINE_ID	"0123456789abcdef0123456789abcdef"
#define PRODUCT		"4c4c4544-0042-3510-8052-b4c04f4d3732"

static const uint8_t first[16] = { 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff, 0x01 };
static const uint8_t second[16] = { 2, 3 };

static struct ddr_identity id;
static struct ddr_identity_file file;
static bool write;

static enum ddr_machine_news decide(const char *machine_id, const char *product, const uint8_t random[16])
{
	struct ddr_machine_marks marks;

	ddr_machine_marks(&marks, machine_id, product);
	return ddr_machine_decide(&id, &file, &marks, random, &write);
}

static void save(void)
{
	file.how = DDR_IDENTITY_READ;
	file.len = ddr_identity_format(&id, file.text);
}

/* A file that this machine has made. */
static int made(void **state)
{
	(void)state;
	file = (struct ddr_identity_file){ .how = DDR_IDENTITY_MISSING };
	assert_int_equal(decide(MACHINE_ID "\n", PRODUCT "\n", first), DDR_MACHINE_FIRST);
	assert_true(write);
	save();
	return 0;
}

static void an_id_is_made_once(void **state)
{
	(void)state;
	assert_memory_equal(id.machine, first, 16);
	assert_int_equal(decide(MACHINE_ID "\n", PRODUCT "\n", second), DDR_MACHINE_SAME);
	assert_false(write);
	assert_memory_equal(id.machine, first, 16);
	assert_string_equal(id.marks.machine_id, MACHINE_ID);
	assert_string_equal(id.marks.product, PRODUCT);
}

/* People read and compare this file. */
static void the_file_is_text(void **state)
{
	char end[32], all[] = "# Who this machine is for ddraid. Do not copy this file to another machine.\n"
			      "machine 11223344-5566-7788-99aa-bbccddeeff01\nmachine-id " MACHINE_ID "\nproduct " PRODUCT "\n";

	(void)state;
	snprintf(end, sizeof(end), "crc32c %08x\n", ddr_crc32c(all, strlen(all)));
	assert_int_equal(file.len, strlen(all) + strlen(end));
	assert_memory_equal(file.text, all, strlen(all));
	assert_memory_equal(file.text + strlen(all), end, strlen(end));
	id.cluster = (struct ddr_cluster_ids){ .id = { 1 }, .other = { 2 }, .promised = DDR_BALLOT_MAX, .ballot = 7 };
	save();
	file.text[file.len] = '\0';
	assert_non_null(strstr(file.text, "cluster-proposed 01000000-0000-0000-0000-000000000000\nother-cluster 02000000-0000-0000-0000-000000000000\n"
					  "promised 281474976710656\nballot 7\ncrc32c "));
	id.cluster = (struct ddr_cluster_ids){ 0 };
	assert_int_equal(decide(MACHINE_ID, PRODUCT, second), DDR_MACHINE_SAME);
	assert_true(id.cluster.promised == DDR_BALLOT_MAX && id.cluster.ballot == 7 && !id.cluster.agreed);
	assert_int_equal(id.cluster.id[0], 1);
}

/* Finding T1, note 24: a disk image that was cloned brings the file of another machine. */
static void a_copy_gets_an_id_of_its_own(void **state)
{
	static const char *const other[][2] = {
		{ "1123456789abcdef0123456789abcdef\n", PRODUCT "\n" },			/* the machine-id was made anew, as it should be */
		{ MACHINE_ID "\n", "4c4c4544-0042-3510-8052-b4c04f4d3733\n" },		/* a template that was cloned as it is */
		{ "1123456789abcdef0123456789abcdef\n", NULL },
		{ NULL, "4c4c4544-0042-3510-8052-b4c04f4d3733\n" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
		made(NULL);
		assert_int_equal(decide(other[i][0], other[i][1], second), DDR_MACHINE_COPIED);
		assert_true(write);
		assert_memory_equal(id.machine, second, 16);
		save();
		assert_int_equal(decide(other[i][0], other[i][1], first), DDR_MACHINE_SAME);
		assert_memory_equal(id.machine, second, 16);
	}
}

/* What cannot be read now says nothing, and the file keeps it; what is known only now is added. */
static void what_is_not_known_changes_nothing(void **state)
{
	static const char *const unknown[] = { NULL, "", "\n", "uninitialized\n", "00000000000000000000000000000000\n", MACHINE_ID "0\n", "0123456789abcdef0123456789abcdeg\n" };
	static const char *const no_product[] = { NULL, "", "Not Settable\n", "00000000-0000-0000-0000-000000000000\n", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF\n",
						  "4c4c4544-0042-3510-8052_b4c04f4d3733\n" };

	(void)state;
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
		assert_int_equal(decide(unknown[i], PRODUCT, second), DDR_MACHINE_SAME);
		assert_false(write);
		assert_string_equal(id.marks.machine_id, MACHINE_ID);
	}
	for (size_t i = 0; i < sizeof(no_product) / sizeof(no_product[0]); i++) {
		assert_int_equal(decide(MACHINE_ID, no_product[i], second), DDR_MACHINE_SAME);
		assert_false(write);
		assert_string_equal(id.marks.product, PRODUCT);
	}
	file.how = DDR_IDENTITY_MISSING;
	assert_int_equal(decide(NULL, NULL, first), DDR_MACHINE_FIRST);
	save();
	assert_int_equal(decide(NULL, NULL, second), DDR_MACHINE_SAME);
	assert_false(write);
	assert_int_equal(decide(MACHINE_ID, NULL, second), DDR_MACHINE_SAME);
	assert_true(write);
	save();
	assert_int_equal(decide(NULL, PRODUCT, second), DDR_MACHINE_SAME);
	assert_true(write);
	save();
	assert_memory_equal(id.machine, first, 16);
	assert_int_equal(decide("1123456789abcdef0123456789abcdef", PRODUCT, second), DDR_MACHINE_COPIED);
}

/* Firmware and tools differ in the case of the digits. */
static void case_does_not_matter(void **state)
{
	(void)state;
	assert_int_equal(decide("0123456789ABCDEF0123456789ABCDEF\n", "4C4C4544-0042-3510-8052-B4C04F4D3732\n", second), DDR_MACHINE_SAME);
	assert_false(write);
}

/* A failing disk must not give the machine another id for ever. */
static void a_file_that_cannot_be_read_is_kept(void **state)
{
	(void)state;
	file.how = DDR_IDENTITY_UNREADABLE;
	assert_int_equal(decide(MACHINE_ID, PRODUCT, second), DDR_MACHINE_HIDDEN);
	assert_false(write);
	assert_memory_equal(id.machine, second, 16);
}

/* Every bit and every length. */
static void a_torn_or_changed_file_is_damaged(void **state)
{
	size_t len = file.len;

	(void)state;
	for (size_t i = 0; i < len * 8; i++) {
		file.text[i / 8] ^= (char)(1 << i % 8);
		assert_int_equal(decide(MACHINE_ID, PRODUCT, second), DDR_MACHINE_DAMAGED);
		assert_true(write);
		assert_memory_equal(id.machine, second, 16);
		file.text[i / 8] ^= (char)(1 << i % 8);
	}
	for (file.len = 0; file.len < len; file.len++)
		assert_int_equal(decide(MACHINE_ID, PRODUCT, second), DDR_MACHINE_DAMAGED);
	for (; file.len < sizeof(file.text); file.text[file.len++] = 'x')
		assert_int_equal(decide(MACHINE_ID, PRODUCT, second), file.len == len ? DDR_MACHINE_SAME : DDR_MACHINE_DAMAGED);
}

static enum ddr_machine_news with_text(const char *text)
{
	file.how = DDR_IDENTITY_READ;
	file.len = (size_t)snprintf(file.text, sizeof(file.text), "%scrc32c %08x\n", text, ddr_crc32c(text, strlen(text)));
	return decide(MACHINE_ID, PRODUCT, second);
}

/* The checksum is right, but not what stands there. */
static void what_stands_in_the_file_is_checked(void **state)
{
	static const char *const bad[] = {
		"", "\n", "machine\n", "machine \n", "machine -\n", "machine 00000000-0000-0000-0000-000000000000\n", "machine 11223344-5566-7788-99aa-bbccddeeff0\n",
		"machine 11223344-5566-7788-99aa-bbccddeeff012\n", "machine 11223344-5566-7788-99aa-bbccddeeffg1\n", "machine 1122334405566-7788-99aa-bbccddeeff01\n",
		"machine 11223344-5566-7788-99aa-bbccddeeff01\nmachine-id 1\n", "machine 11223344-5566-7788-99aa-bbccddeeff01\nproduct --\n",
		"machine 11223344-5566-7788-99aa-bbccddeeff01\nproduct " MACHINE_ID "\n",
		"machine 11223344-5566-7788-99aa-bbccddeeff01\ncluster 1\n", "machine 11223344-5566-7788-99aa-bbccddeeff01\nother-cluster \n",
		"machine 11223344-5566-7788-99aa-bbccddeeff01\npromised 0\n", "machine 11223344-5566-7788-99aa-bbccddeeff01\npromised -1\n",
		"machine 11223344-5566-7788-99aa-bbccddeeff01\npromised 281474976710657\n", "machine 11223344-5566-7788-99aa-bbccddeeff01\npromised 99999999999999999999\n",
		"machine 11223344-5566-7788-99aa-bbccddeeff01\npromised 2\nballot 3\n", "machine 11223344-5566-7788-99aa-bbccddeeff01\nballot 3\n",
		"machine 11223344-5566-7788-99aa-bbccddeeff01\ncluster 11223344-5566-7788-99aa-bbccddeeff01\ncluster-proposed 11223344-5566-7788-99aa-bbccddeeff02\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(with_text(bad[i]), DDR_MACHINE_DAMAGED);
	assert_int_equal(with_text("machine 11223344-5566-7788-99aa-bbccddeeff01\nof-a-later-release 1 2\n"), DDR_MACHINE_SAME);
	assert_memory_equal(id.machine, first, 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(an_id_is_made_once, made),
		cmocka_unit_test_setup(the_file_is_text, made),
		cmocka_unit_test_setup(a_copy_gets_an_id_of_its_own, made),
		cmocka_unit_test_setup(what_is_not_known_changes_nothing, made),
		cmocka_unit_test_setup(case_does_not_matter, made),
		cmocka_unit_test_setup(a_file_that_cannot_be_read_is_kept, made),
		cmocka_unit_test_setup(a_torn_or_changed_file_is_damaged, made),
		cmocka_unit_test_setup(what_stands_in_the_file_is_checked, made),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
