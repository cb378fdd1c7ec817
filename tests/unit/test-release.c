// SPDX-License-Identifier: GPL-2.0-or-later
/* Which advice fits the programs that run after an upgrade: restarting a daemon that cannot serve the loaded module would stop all arrays. */
#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/fixture.h"
#include "ddraid/proto.h"
#include "ddraid/uapi.h"
#include "lib/wire/ipc_fault.h"
#include "lib/release.h"

static char dir[] = "/tmp/test-release-XXXXXX";

static void put(const char *name, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void gone(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	assert_int_equal(unlink(path), 0);
}

static int setup(void **state)
{
	char path[256];

	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/parameters", dir);
	return mkdir(path, 0755);
}

static int teardown(void **state)
{
	char command[256];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

static unsigned int lowest = DDR_SERVES_LOWEST, highest = DDR_SERVES_HIGHEST;

static struct ddr_release look(const char *version, unsigned int abi)
{
	struct ddr_release r;
	char text[16];

	snprintf(text, sizeof(text), "%u\n", abi);
	put("version", version);
	put("parameters/abi", text);
	snprintf(text, sizeof(text), "%u %u\n", lowest, highest);
	put("parameters/protocol", text);
	ddr_release_look(&r, dir);
	snprintf(r.daemon, sizeof(r.daemon), "%s", r.ours);
	r.pid = 77;
	return r;
}

static const char *words(const struct ddr_release *r)
{
	static char buf[600];

	return ddr_release_words(r, buf, sizeof(buf));
}

static void says(const struct ddr_release *r, const char *text)
{
	if (!strstr(words(r), text))
		fail_msg("no \"%s\" in: %s", text, words(r));
}

static void equal_releases_give_no_message(void **state)
{
	struct ddr_release r = look(PACKAGE_VERSION "\n", DDR_ABI_VERSION);

	(void)state;
	assert_string_equal(r.module, PACKAGE_VERSION);
	assert_int_equal(r.abi, DDR_ABI_VERSION);
	assert_string_equal(words(&r), "");
	ddr_release_look(&r, "/nonexistent");		/* no module: the daemon reports that itself */
	assert_false(r.loaded);
	assert_string_equal(words(&r), "");
}

/* Finding S33: what an upgrade left running is named, and the advice fits. */
static void an_incomplete_upgrade_is_named(void **state)
{
	struct ddr_release r = look(PACKAGE_VERSION "\n", DDR_ABI_VERSION);

	(void)state;
	strcpy(r.daemon, "0.0.9");
	says(&r, "ddraidd (process 77) is release 0.0.9, but " PACKAGE_VERSION " is installed; systemctl restart ddraidd");
	strcpy(r.daemon, r.ours);
	r.replaced = true;
	says(&r, "ddraidd (process 77) runs a program file that was replaced or removed");
	says(&r, "systemctl restart ddraidd");
	r = look("0.0.9\n", DDR_ABI_VERSION);
	says(&r, "the loaded kernel module is release 0.0.9");
	says(&r, "modprobe -r dm-ddraid");
}

/* Finding S33: with another interface a restart would be the end of all I/O, so nothing may advise it. */
static void a_daemon_of_another_kernel_interface_is_not_restarted(void **state)
{
	struct ddr_release r = look("0.0.9\n", DDR_ABI_VERSION + 1);

	(void)state;
	strcpy(r.daemon, "0.0.9");
	r.replaced = true;
	says(&r, "Do not restart ddraidd while an array is up");
	says(&r, "ddraid stop --all");
	gone("parameters/abi");		/* a module of before there was a parameter */
	gone("version");
	ddr_release_look(&r, dir);
	strcpy(r.daemon, "0.0.9");
	says(&r, "the loaded module an older version. Do not restart ddraidd");
}

/* The module serves none of the versions that the installed daemon speaks with other nodes; which of both is to be replaced depends on who is older. */
static void a_daemon_of_another_protocol_is_not_restarted(void **state)
{
	struct ddr_release r;

	(void)state;
	lowest = highest = DDR_MSG_LOWEST - 1;
	r = look(PACKAGE_VERSION "\n", DDR_ABI_VERSION);
	assert_int_equal(r.lowest, lowest);
	assert_int_equal(r.highest, highest);
	says(&r, "the protocol between nodes, the loaded module serves 19 to 19. Do not restart ddraidd while an array is up");
	says(&r, "ddraid stop --all");
	lowest = highest = DDR_MSG_HIGHEST + 1;
	r = look(PACKAGE_VERSION "\n", DDR_ABI_VERSION);
	says(&r, "Install the ddraid of the module's release");
	lowest = DDR_MSG_HIGHEST;
	highest = DDR_MSG_HIGHEST + 5;
	r = look(PACKAGE_VERSION "\n", DDR_ABI_VERSION);
	assert_string_equal(words(&r), "");
	lowest = DDR_SERVES_LOWEST;
	highest = DDR_SERVES_HIGHEST;
}

/* Finding S33: a process whose program file was replaced by a rename, as dpkg does it. */
static void a_replaced_program_is_seen(void **state)
{
	char program[128], other[128], command[600];
	struct ddr_process p;
	pid_t pid;

	(void)state;
	assert_true(strlen(dir) < 64);
	snprintf(program, sizeof(program), "%s/sleep", dir);
	snprintf(other, sizeof(other), "%s/sleep.new", dir);
	snprintf(command, sizeof(command), "cp $(command -v sleep) %s && cp %s %s", program, program, other);
	assert_int_equal(system(command), 0);
	pid = vfork();
	if (pid == 0) {
		execl(program, program, "600", (char *)NULL);
		_exit(1);
	}
	assert_true(pid > 0);		/* vfork: it runs the program by now */
	assert_true(ddr_process_look(&p, pid));
	assert_false(p.replaced);
	assert_int_equal(rename(other, program), 0);
	assert_true(ddr_process_look(&p, pid));
	assert_true(p.replaced);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void packages_can_read_what_runs(void **state)
{
	char path[256], line[64], want[64], least[64];
	unsigned int found = 0;
	FILE *f;

	(void)state;
	assert_int_equal(ddr_release_write(dir, "corosync"), 0);
	snprintf(path, sizeof(path), "%s/ddraidd.release", dir);
	f = fopen(path, "r");
	assert_non_null(f);
	snprintf(want, sizeof(want), "protocol=%u\n", DDR_MSG_HIGHEST);
	snprintf(least, sizeof(least), "lowest=%u\n", DDR_MSG_LOWEST);
	while (fgets(line, sizeof(line), f))
		found += strcmp(line, want) == 0 || strcmp(line, least) == 0 || strcmp(line, "transport=corosync\n") == 0;
	fclose(f);
	assert_int_equal(found, 3);
	assert_int_equal(ddr_release_write("/nonexistent", "local"), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_releases_give_no_message),
		cmocka_unit_test(an_incomplete_upgrade_is_named),
		cmocka_unit_test(a_daemon_of_another_kernel_interface_is_not_restarted),
		cmocka_unit_test(a_daemon_of_another_protocol_is_not_restarted),
		cmocka_unit_test(a_replaced_program_is_seen),
		cmocka_unit_test(packages_can_read_what_runs),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
