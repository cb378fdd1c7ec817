/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * cli/rename_write.c on image files: the power may go within any write, and the array is there all the same, whole, of one generation, and with the old
 * name or the new one; the same again gives the new name to all.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "tests/unit/fixture.h"
#include "cli/rename.h"
#include "lib/disk/assemble.h"

#define SIZE	(8u << 20)
#define N	4u		/* order 1, parity 1, one spare */

static struct ddr_super super;
static struct ddr_owners owners_now;	/* beside it in format 2 */
static bool owned;			/* the array has format 2 */
static struct ddr_dev dev[N];
static char path[N][32];
static int writes_left = -1;		/* until one is torn, and all that follow fail; -1: none is */

int __real_ddr_dev_write_owned(const struct ddr_dev *d, const struct ddr_super *sb, const struct ddr_owners *owners, struct ddr_error *err);
int __wrap_ddr_dev_write_owned(const struct ddr_dev *d, const struct ddr_super *sb, const struct ddr_owners *owners, struct ddr_error *err);

int __wrap_ddr_dev_write_owned(const struct ddr_dev *d, const struct ddr_super *sb, const struct ddr_owners *owners, struct ddr_error *err)
{
	uint8_t *buf;

	if (writes_left == -1 || writes_left-- > 0)
		return __real_ddr_dev_write_owned(d, sb, owners, err);
	if (writes_left == -1) {
		buf = ddr_dev_buffer(DDR_META_BLOCK);
		memset(buf, 0x5a, 512);
		assert_int_equal(pwrite(d->fd, buf, 512, (off_t)ddr_super_offset(sb, ddr_super_copy(sb->seq))), 512);
		free(buf);
	}
	writes_left = -2;
	return ddr_error_set(err, "%s: the power is gone", d->path);
}

static void make(void)
{
	struct ddr_error err;

	writes_left = -1;
	fixture_super(&super, 1, 1, DDR_LAYOUT_ROTATING, SIZE, 1);
	super.seq = 41;
	if (owned)
		assert_int_equal(ddr_layout_owners(&super, &err), 0);
	ddr_owners_init(&owners_now, &super);
	fixture_uuid(owners_now.cluster, 8);
	for (uint16_t m = 0; m < N; m++) {
		struct ddr_super own = super;

		own.this_member = m;
		assert_int_equal(ddr_dev_zero(&dev[m], 0, DDR_DATA_OFFSET_MAX < SIZE ? DDR_DATA_OFFSET_MAX : SIZE, &err), 0);
		for (own.seq = 40; own.seq <= 41; own.seq++)
			assert_int_equal(ddr_dev_write_owned(&dev[m], &own, &owners_now, &err), 0);
	}
}

/* As the command decides: from the newest that is there, and behind it. -1: it was cut. */
static int rename_all(const char *name)
{
	static struct ddr_supers s[N];
	struct ddr_candidate cand[N] = { 0 };
	static struct ddr_assembly a;
	struct ddr_error err;
	struct ddr_super sb;

	for (uint32_t m = 0; m < N; m++) {
		assert_int_equal(ddr_dev_read_supers(&dev[m], &s[m], &err), 0);		/* no cut loses both copies */
		cand[m] = (struct ddr_candidate){ .device = path[m], .super = &s[m].copy[s[m].newest].super, .bytes = SIZE };
		assert_int_equal(cand[m].super->generation, super.generation);
		assert_memory_equal(cand[m].super->gen_id, super.gen_id, sizeof(super.gen_id));
	}
	if (ddr_assemble(cand, N, NULL, &a, &err))
		fail_msg("%s", err.text);
	assert_false(a.degraded || a.doubtful);
	for (uint32_t m = 0; m < N; m++)
		assert_int_equal(a.verdict[m], DDR_V_CURRENT);
	assert_true(strcmp(a.super.name, super.name) == 0 || strcmp(a.super.name, "other") == 0);
	if (!name)
		return strcmp(a.super.name, super.name) == 0 ? 0 : 1;
	sb = a.super;
	memset(sb.name, 0, sizeof(sb.name));
	memcpy(sb.name, name, strlen(name));
	sb.seq = ddr_super_seq_behind(sb.seq);
	for (uint16_t m = 0; m < N; m++)
		if (rename_write(&dev[m], &sb, &s[a.source].owners, m, &err))
			return -1;
	return 0;
}

static void all_say(const char *name)
{
	struct ddr_supers s;
	struct ddr_error err;

	for (uint16_t m = 0; m < N; m++) {
		assert_int_equal(ddr_dev_read_supers(&dev[m], &s, &err), 0);
		for (unsigned int i = 0; i < DDR_SB_COPIES; i++) {
			assert_true(s.copy[i].found);
			assert_string_equal(s.copy[i].super.name, name);
			assert_int_equal(s.copy[i].super.this_member, m);
			assert_int_equal(s.copy[i].super.seq & 1, i);
		}
		assert_true(!owned || memcmp(s.owners.cluster, owners_now.cluster, DDR_UUID_LEN) == 0);
	}
}

/* Finding S13: two arrays of one name, and no way to give one of them another. */
static void a_cut_within_each_write(void **state)
{
	unsigned int cuts = 0, seen[2] = { 0 };

	(void)state;
	for (int at = 0; ; at++) {
		make();
		writes_left = at;
		if (rename_all("other") == 0)
			break;
		writes_left = -1;
		seen[rename_all(NULL)]++;
		assert_int_equal(rename_all("other"), 0);
		all_say("other");
		cuts++;
	}
	all_say("other");
	assert_int_equal(cuts, 2 * N);
	assert_true(seen[0] && seen[1]);
	writes_left = -1;
}

/* Cut again and again: no member ever lacks a valid copy. */
static void many_cuts_in_a_row(void **state)
{
	uint64_t seed = 11;

	(void)state;
	make();
	for (unsigned int i = 0; i < 300; i++) {
		writes_left = (int)(fixture_random(&seed) % (2 * N));
		rename_all(i & 1 ? super.name : "other");
		writes_left = -1;
		rename_all(NULL);
	}
	assert_int_equal(rename_all("other"), 0);
	all_say("other");
}

/* The copy that is bad is written first, whichever it is, and the good one stays until that is back. */
static void the_good_copy_is_written_last(void **state)
{
	struct ddr_error err;

	(void)state;
	for (unsigned int bad = 0; bad < DDR_SB_COPIES; bad++) {
		make();
		assert_int_equal(ddr_dev_zero(&dev[2], ddr_super_offset(&super, bad), DDR_META_BLOCK, &err), 0);
		writes_left = 4;		/* the first one of member 2 */
		assert_int_equal(rename_all("other"), -1);
		writes_left = -1;
		rename_all(NULL);
		assert_int_equal(rename_all("other"), 0);
		all_say("other");
	}
}

static void superblocks_changed_meanwhile_are_left_alone(void **state)
{
	struct ddr_super sb, own;
	struct ddr_supers s;
	struct ddr_error err;

	(void)state;
	for (unsigned int what = 0; what < 3; what++) {
		make();
		own = super;
		own.this_member = what == 1 ? 2 : 1;	/* another member is there now, */
		if (what == 2) {			/* or a later generation; what is on the disks is later in any case */
			own.generation++;
			memcpy(own.gen_prev, own.gen_id, sizeof(own.gen_prev));
			fixture_uuid(own.gen_id, 77);
		}
		for (own.seq = 42; own.seq <= 43; own.seq++)
			assert_int_equal(ddr_dev_write_owned(&dev[1], &own, &owners_now, &err), 0);
		sb = super;
		sb.seq = ddr_super_seq_behind(sb.seq);
		memcpy(sb.name, "other", 6);
		assert_int_equal(rename_write(&dev[1], &sb, &owners_now, 1, &err), -1);
		assert_non_null(strstr(err.text, "another program or node"));
		assert_int_equal(ddr_dev_read_supers(&dev[1], &s, &err), 0);
		assert_string_equal(s.copy[0].super.name, super.name);
		assert_string_equal(s.copy[1].super.name, super.name);
	}
}

static int begin(void **state)
{
	struct ddr_error err;

	(void)state;
	for (unsigned int i = 0; i < N; i++) {
		int fd;

		strcpy(path[i], "test-rename-XXXXXX");
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

static int format_2(void **state)
{
	(void)state;
	owned = true;
	return 0;
}

static int format_1(void **state)
{
	(void)state;
	owned = false;
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cut_within_each_write), cmocka_unit_test(many_cuts_in_a_row), cmocka_unit_test(the_good_copy_is_written_last),
		cmocka_unit_test(superblocks_changed_meanwhile_are_left_alone),
		{ "a_cut_within_each_write, format 2", a_cut_within_each_write, format_2, format_1, NULL },
		{ "many_cuts_in_a_row, format 2", many_cuts_in_a_row, format_2, format_1, NULL },
		{ "the_good_copy_is_written_last, format 2", the_good_copy_is_written_last, format_2, format_1, NULL },
		{ "superblocks_changed_meanwhile_are_left_alone, format 2", superblocks_changed_meanwhile_are_left_alone, format_2, format_1, NULL },
	};

	return cmocka_run_group_tests(tests, begin, end);
}
