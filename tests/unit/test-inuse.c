// SPDX-License-Identifier: GPL-2.0-or-later
/* Which processes use a device: a /proc and a /sys made for the test, in which the device is the one that holds the test's directory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/inuse.h"

#define MOUNT	"36 25 %u:%u / %s rw,relatime shared:1 - ext4 /dev/none rw\n"

static char top[] = "/tmp/test-inuse-XXXXXX", proc[64], sys[64], text[2048];
static unsigned int major_no, minor_no;

static const char *at(const char *format, ...) __attribute__((format(printf, 1, 2)));

static const char *at(const char *format, ...)
{
	static char buf[4][300];
	static unsigned int next;
	char *p = buf[next++ % 4];
	int n = snprintf(p, sizeof(buf[0]), "%s/", top);
	va_list args;

	va_start(args, format);
	vsnprintf(p + n, sizeof(buf[0]) - (size_t)n, format, args);
	va_end(args);
	return p;
}

static void make_dir(const char *path)
{
	char command[400];

	snprintf(command, sizeof(command), "mkdir -p '%s'", path);
	assert_int_equal(system(command), 0);
}

static void put(const char *path, const char *what)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(what, f);
	assert_int_equal(fclose(f), 0);
}

/* A process with a mount namespace of its own, or another one's, and the mounts there. */
static void process(const char *pid, const char *name, const char *ns, const char *mount)
{
	char line[200] = "";

	make_dir(at("proc/%s/ns", pid));
	make_dir(at("proc/%s/fd", pid));
	put(at("proc/%s/comm", pid), name);
	put(at("ns-%s", ns), "");
	assert_int_equal(symlink(at("ns-%s", ns), at("proc/%s/ns/mnt", pid)), 0);
	if (*mount)
		snprintf(line, sizeof(line), MOUNT, major_no, minor_no, mount);
	put(at("proc/%s/mountinfo", pid), line);
}

static const char *describe(void)
{
	const struct cli_inuse_roots roots = { .proc = proc, .sys = sys };

	cli_inuse_describe(&roots, major_no, minor_no, text, sizeof(text));
	return text;
}

static int setup(void **state)
{
	struct stat st;

	(void)state;
	strcpy(top, "/tmp/test-inuse-XXXXXX");
	assert_non_null(mkdtemp(top));
	snprintf(proc, sizeof(proc), "%s/proc", top);
	snprintf(sys, sizeof(sys), "%s/sys", top);
	assert_int_equal(stat(top, &st), 0);
	major_no = major(st.st_dev);
	minor_no = minor(st.st_dev);
	process("self", "test\n", "ours", "");
	return 0;
}

static int teardown(void **state)
{
	char command[400];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", top);
	return system(command);
}

/* Finding S22: an array that is mounted in another mount namespace: the process and its mount are named, once. */
static void a_mount_in_another_namespace_is_named(void **state)
{
	(void)state;
	process("71", "sleep\n", "other", "/srv/data");
	process("72", "sleep\n", "other", "/srv/data");
	process("73", "bash\n", "ours", "/never/read");
	assert_string_equal(describe(), "it is mounted on /srv/data in the mount namespace of sleep (pid 71)");
}

static void a_mount_in_this_namespace_is_named(void **state)
{
	char line[200];

	(void)state;
	snprintf(line, sizeof(line), MOUNT MOUNT, major_no, minor_no, "/mnt/a\\040b", major_no, minor_no + 1, "/another");
	put(at("proc/self/mountinfo"), line);
	assert_string_equal(describe(), "it is mounted on /mnt/a b");
}

static void devices_on_the_disk_are_named(void **state)
{
	(void)state;
	make_dir(at("sys/dev/block/%u:%u/holders/dm-3", major_no, minor_no));
	make_dir(at("sys/dev/block/%u:%u/holders/md0", major_no, minor_no));
	make_dir(at("sys/class/block/dm-3/dm"));
	put(at("sys/class/block/dm-3/dm/name"), "vg-home\n");
	describe();
	assert_non_null(strstr(text, "dm-3 (vg-home)"));
	assert_non_null(strstr(text, "md0"));
	assert_non_null(strstr(text, " lie on it"));
}

/* As after umount -l: no mount is left, and the file system lives as long as a file of it is open. */
static void files_without_a_mount(void **state)
{
	(void)state;
	process("81", "tail\n", "ours", "");
	put(at("file"), "");
	assert_int_equal(symlink(at("file"), at("proc/81/fd/3")), 0);
	assert_string_equal(describe(), "files on it are open in tail (pid 81)");
}

static void a_name_with_control_characters(void **state)
{
	(void)state;
	process("82", "e\033[2Jvil\n", "ours", "");
	put(at("file"), "");
	assert_int_equal(symlink(at("file"), at("proc/82/cwd")), 0);
	assert_string_equal(describe(), "files on it are open in e?[2Jvil (pid 82)");
}

/* Many users: the first ones are named, the others counted, and no buffer overflows. */
static void many_users(void **state)
{
	char pid[24];

	(void)state;
	put(at("file"), "");
	for (int i = 100; i < 140; i++) {
		snprintf(pid, sizeof(pid), "%d", i);
		process(pid, "a-long-name-of-a-process\n", "ours", "");
		assert_int_equal(symlink(at("file"), at("proc/%s/fd/5", pid)), 0);
	}
	describe();
	assert_non_null(strstr(text, " and 36 more"));
	for (size_t size = 1; size < 100; size++) {
		const struct cli_inuse_roots roots = { .proc = proc, .sys = sys };
		char small[101];

		memset(small, 'x', sizeof(small));
		cli_inuse_describe(&roots, major_no, minor_no, small, size);
		assert_true(strnlen(small, size) < size);
		assert_int_equal(small[size], 'x');
	}
}

static void a_busy_disk_without_a_visible_user(void **state)
{
	(void)state;
	assert_non_null(strstr(describe(), "something in the kernel"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_mount_in_another_namespace_is_named, setup, teardown),
		cmocka_unit_test_setup_teardown(a_mount_in_this_namespace_is_named, setup, teardown),
		cmocka_unit_test_setup_teardown(devices_on_the_disk_are_named, setup, teardown),
		cmocka_unit_test_setup_teardown(files_without_a_mount, setup, teardown),
		cmocka_unit_test_setup_teardown(a_name_with_control_characters, setup, teardown),
		cmocka_unit_test_setup_teardown(many_users, setup, teardown),
		cmocka_unit_test_setup_teardown(a_busy_disk_without_a_visible_user, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
