// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The configuration: every option of the table, every kind of bad line, and that a file
 * with an error changes nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#include "lib/conf.h"
#include "lib/schedule.h"

static char err[DDR_CONF_ERROR_MAX];

/* Loads a file with this text; @path receives its name unless NULL. */
static int load(struct ddr_conf *conf, const void *text, size_t len, char *path)
{
	char name[] = "/tmp/ddraid-conf-XXXXXX";
	int fd = mkstemp(name), ret;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, len), (ssize_t)len);
	close(fd);
	err[0] = '\0';
	ret = ddr_conf_load(conf, name, true, err, sizeof(err));
	unlink(name);
	if (path)
		strcpy(path, name);
	return ret;
}

static int load_text(struct ddr_conf *conf, const char *text)
{
	return load(conf, text, strlen(text), NULL);
}

static void defaults_are_the_documented_ones(void **state)
{
	struct ddr_conf c;

	(void)state;
	ddr_conf_defaults(&c);
	assert_int_equal(c.transport, DDR_TRANSPORT_AUTO);
	assert_string_equal(c.fence_command, DDR_FENCE_NONE);
	assert_int_equal(c.node_id, 0);		/* auto */
	assert_int_equal(c.log_level, LOG_INFO);
	assert_int_equal(c.log_syslog, 1);
	assert_int_equal(c.io_engine, DDR_ENGINE_AUTO);
	assert_int_equal(c.tune.idle_ms, 5000);
	assert_int_equal(c.tune.resync, 1);
	assert_int_equal(c.tune.resync_min, 10 << 20);
	assert_int_equal(c.tune.resync_max, 0);
	assert_int_equal(c.tune.verify_min, 0);
	assert_int_equal(c.tune.verify_max, 0);
	assert_int_equal(c.tune.daemon_timeout_ms, 30000);
	assert_int_equal(c.tune.io_timeout_ms, 60000);
	assert_true(c.tune.verify_every_ms == 30ull * 86400 * 1000);
	assert_true(c.tune.verify_hours == DDR_HOURS(0, 24));
	assert_int_equal(c.verify_parallel, 1);
	assert_int_equal(c.verify_reads, 0);
	assert_int_equal(c.fail_if_no_daemon, 0);
	assert_true(c.owe_ms == DDR_OWE_AUTO);
}

/* A disk must fail before a node is declared dead that waits for it. */
static void a_node_may_owe_for_longer_than_a_disk(void **state)
{
	struct ddr_conf c;

	(void)state;
	ddr_conf_defaults(&c);
	assert_int_equal(ddr_conf_owe_ms(&c, 60000), 250000);
	assert_int_equal(load_text(&c, "owe_time = 70s\n"), 0);
	assert_int_equal(ddr_conf_owe_ms(&c, 60000), 70000);
	assert_int_equal(ddr_conf_owe_ms(&c, 100000), 110000);	/* an array whose io_timeout was made longer */
	assert_int_equal(load_text(&c, "owe_time = 0\n"), 0);
	assert_int_equal(ddr_conf_owe_ms(&c, 60000), 0);
	assert_int_equal(load_text(&c, "io_timeout = 20s\nowe_time = auto\n"), 0);
	assert_int_equal(ddr_conf_owe_ms(&c, c.tune.io_timeout_ms), 90000);
	assert_int_equal(load_text(&c, "owe_time = 69999ms\n"), -EINVAL);
	assert_non_null(strstr(err, "owe_time is below io_timeout + 10s"));
	assert_int_equal(load_text(&c, "owe_time = 70s\nio_timeout = 61s\n"), -EINVAL);
	assert_int_equal(load_text(&c, "owe_time = never\n"), -EINVAL);
	assert_non_null(strstr(err, "or auto"));
}

/* Rule F7: what reserves disks lets the machine run, and read. The operator has to say that it is meant. */
static void agents_that_switch_nothing_off(void **state)
{
	struct ddr_conf c;

	(void)state;
	assert_int_equal(load_text(&c, "fence_command = /usr/sbin/fence_scsi --plug=%N\n"), -EINVAL);
	assert_non_null(strstr(err, "switches nothing off"));
	assert_int_equal(load_text(&c, "fence_command = /usr/sbin/fence_mpath\nfence_method = power\n"), -EINVAL);
	assert_int_equal(load_text(&c, "fence_command = /usr/sbin/fence_scsi --plug=%N\nfence_method = storage\n"), 0);
	assert_int_equal(c.fence_method, DDR_FENCE_BY_STORAGE);
	assert_int_equal(load_text(&c, "fence_command = /opt/fence_scsi/reset %n\n"), 0);
	assert_int_equal(c.fence_method, DDR_FENCE_BY_POWER);
	assert_int_equal(load_text(&c, "fence_command = /usr/sbin/fence_scsi2 %n\n"), 0);
	assert_int_equal(load_text(&c, "fence_command = none\n"), 0);
	assert_int_equal(load_text(&c, "fence_method = both\n"), -EINVAL);
	assert_int_equal(load_text(&c, "fence_method = storage\n"), -EINVAL);
	assert_int_equal(load_text(&c, "fence_method = storage\nfence_command = external\n"), -EINVAL);
	assert_non_null(strstr(err, "which is told the disks"));
}

static void values_are_read_in_their_units(void **state)
{
	struct ddr_conf c;

	(void)state;
	assert_int_equal(load_text(&c, "# a comment\n\n  idle-time =  250ms  \nresync_min_rate=1M\n"
				   "resync_max_rate = 2GiB\nio_timeout = 2min\ndaemon_timeout = 7\n"
				   "log_level = debug\nlog_syslog = off\nresync = paused\nio_engine = threads\n"
				   "state_dir = /some/where\nnode_id = 4294967295\nresync_parallel = 8\n"
				   "verify_every = 7d\nverify_hours = 22-6\nverify_parallel = 3\nverify-reads = yes\nfail_if_no_daemon = on"), 0);
	assert_int_equal(c.tune.idle_ms, 250);
	assert_int_equal(c.tune.resync_min, 1 << 20);
	assert_true(c.tune.resync_max == 2ull << 30);
	assert_int_equal(c.tune.io_timeout_ms, 120000);
	assert_int_equal(c.tune.daemon_timeout_ms, 7000);
	assert_int_equal(c.log_level, LOG_DEBUG);
	assert_int_equal(c.log_syslog, 0);
	assert_int_equal(c.tune.resync, 0);
	assert_int_equal(c.io_engine, DDR_ENGINE_THREADS);
	assert_string_equal(c.state_dir, "/some/where");
	assert_true(c.node_id == 4294967295u);
	assert_int_equal(c.tune.resync_parallel, 8);
	assert_true(c.tune.verify_every_ms == 7ull * 86400 * 1000);
	assert_true(c.tune.verify_hours == DDR_HOURS(22, 6));
	assert_int_equal(c.verify_parallel, 3);
	assert_int_equal(c.verify_reads, 1);
	assert_int_equal(c.fail_if_no_daemon, 1);
}

static void bad_lines_are_named(void **state)
{
	static const struct {
		const char *text, *where, *why;
	} cases[] = {
		{ "nonsense = 1\n", ":1: ", "unknown option 'nonsense'" },
		{ "\n\nidle_time\n", ":3: ", "is not 'key = value'" },
		{ "= 5\n", ":1: ", "no key" },
		{ "idle_time =\n", ":1: ", "expected a time" },
		{ "idle_time = -1\n", ":1: ", "expected a time" },
		{ "idle_time = 5 s\n", ":1: ", "expected a time" },
		{ "idle_time = 5h\n", ":1: ", "expected a time" },		/* too long */
		{ "idle_time = 5w\n", ":1: ", "expected a time" },
		{ "verify_every = 3651d\n", ":1: ", "expected a time" },
		{ "verify_hours = 5\n", ":1: ", "expected two different hours" },
		{ "verify_hours = 5-25\n", ":1: ", "expected two different hours" },
		{ "verify_hours = 7-7\n", ":1: ", "expected two different hours" },
		{ "verify_hours = 24-0\n", ":1: ", "expected two different hours" },
		{ "verify_hours = 24-24\n", ":1: ", "expected two different hours" },
		{ "verify_hours = 22-6h\n", ":1: ", "expected two different hours" },
		{ "verify_hours = -6\n", ":1: ", "expected two different hours" },
		{ "verify_parallel = 0\n", ":1: ", "expected a number" },
		{ "idle_time = 99ms\n", ":1: ", "expected a time" },
		{ "idle_time = 3601s\n", ":1: ", "expected a time" },
		{ "idle_time = 99999999999999999999\n", ":1: ", "expected a time" },
		{ "idle_time = 18446744073709551\n", ":1: ", "expected a time" },
		{ "idle_time = 18446744073709552\n", ":1: ", "expected a time" },	/* overflows in ms */
		{ "node_id = 0\n", ":1: ", "expected a number" },
		{ "node_id = 4294967296\n", ":1: ", "expected a number" },
		{ "node_id = 1k\n", ":1: ", "expected a number" },
		{ "node_id = 0x1\n", ":1: ", "expected a number" },
		{ "resync_parallel = 9\n", ":1: ", "expected a number" },
		{ "resync_min_rate = 1X\n", ":1: ", "expected a number of bytes" },
		{ "resync_min_rate = 1\n", ":1: ", "expected a number of bytes" },
		{ "resync_max_rate = 99999999T\n", ":1: ", "expected a number of bytes" },
		{ "log_syslog = maybe\n", ":1: ", "expected yes or no" },
		{ "transport = pigeons\n", ":1: ", "expected one of auto, local, corosync" },
		{ "fence_command = poweroff\n", ":1: ", "expected the absolute path of a program" },
		{ "fence_timeout = 10ms\n", ":1: ", "expected a time from 1000ms" },
		{ "log_level = INFO\n", ":1: ", "expected one of error, warning" },
		{ "state_dir = relative\n", ":1: ", "absolute path" },
		{ "idle_time = 5s\nidle-time = 6s\n", ":2: ", "was already set in line 1" },
		{ "resync_max_rate = 1M\n", ":1: ", "below resync_min_rate" },
		{ "verify_min_rate = 2M\nverify_max_rate = 1M\n", ":2: ", "verify_max_rate is below verify_min_rate" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ddr_conf c, before;

		memset(&before, 0x5a, sizeof(before));
		c = before;
		assert_int_equal(load_text(&c, cases[i].text), strstr(cases[i].why, "unknown") ? -ENOENT : -EINVAL);
		if (!strstr(err, cases[i].where) || !strstr(err, cases[i].why))
			fail_msg("%s: %s", cases[i].text, err);
		assert_null(strchr(err, '\n'));
		assert_memory_equal(&c, &before, sizeof(c));	/* nothing changed */
	}
}

static void hostile_bytes_are_refused(void **state)
{
	static const char zero[] = "idle_time = 5s\0node_id = 2\n";
	char path[64], *text = malloc(5000);
	struct ddr_conf c;

	(void)state;
	assert_non_null(text);
	assert_int_equal(load(&c, zero, sizeof(zero) - 1, path), -EINVAL);
	assert_non_null(strstr(err, path));
	assert_int_equal(load(&c, zero, 17, NULL), -EINVAL);	/* the same without an end of line */
	memset(text, 'x', 5000);
	assert_int_equal(load(&c, text, 5000, NULL), -EINVAL);
	assert_non_null(strstr(err, "longer than"));
	memcpy(text, "state_dir = /", 13);
	text[600] = '\n';
	assert_int_equal(load(&c, text, 601, NULL), -EINVAL);
	assert_non_null(strstr(err, "absolute path of less than"));
	free(text);
}

static void a_missing_file_counts_only_where_it_was_named(void **state)
{
	struct ddr_conf c, defaults;

	(void)state;
	memset(&c, 0x5a, sizeof(c));
	ddr_conf_defaults(&defaults);
	assert_int_equal(ddr_conf_load(&c, "/nowhere/ddraid.conf", true, err, sizeof(err)), -ENOENT);
	assert_non_null(strstr(err, "/nowhere/ddraid.conf"));
	assert_int_equal(ddr_conf_load(&c, "/nowhere/ddraid.conf", false, err, sizeof(err)), 0);
	assert_memory_equal(&c, &defaults, sizeof(c));
}

/* What --dump-config prints is a file that reads back as the same configuration, for the defaults and for other values. */
static void dump_reads_back(void **state)
{
	struct ddr_conf in, out;
	char *text = NULL;
	size_t len = 0;
	FILE *f;

	(void)state;
	ddr_conf_defaults(&in);
	assert_int_equal(ddr_conf_set(&in, "idle_time", "250ms", true, err, sizeof(err)), 0);
	assert_int_equal(ddr_conf_set(&in, "resync-max-rate", "123456789", true, err, sizeof(err)), 0);
	assert_int_equal(ddr_conf_set(&in, "log_level", "warning", false, err, sizeof(err)), 0);
	f = open_memstream(&text, &len);
	assert_non_null(f);
	ddr_conf_dump(&in, f);
	fclose(f);
	assert_int_equal(load(&out, text, len, NULL), 0);
	assert_memory_equal(&in, &out, sizeof(in));
	free(text);
}

static void an_array_takes_its_own_settings_only(void **state)
{
	const struct ddr_option *options;
	size_t n = ddr_conf_options(&options), per_array = 0;
	struct ddr_conf c;

	(void)state;
	ddr_conf_defaults(&c);
	for (size_t i = 0; i < n; i++) {
		int ret = ddr_conf_set(&c, options[i].key, options[i].value, true, err, sizeof(err));

		assert_int_equal(ret, options[i].per_array ? 0 : -ENOENT);
		assert_int_equal(options[i].per_array, options[i].offset >= offsetof(struct ddr_conf, tune));
		per_array += options[i].per_array;
		assert_true(strlen(options[i].help) > 10);
	}
	assert_true(per_array > 0 && per_array < n);
}

/* A default as the manual page gives it: for the usual places, wherever this build is to be installed. */
static const char *usual(const char *value, char *buf, size_t size)
{
	static const struct { const char *ours, *usual; } place[] = {
		{ RUNSTATEDIR "/", "/run/" }, { LOCALSTATEDIR "/", "/var/" },	/* the first may lie in the second */
	};

	for (size_t i = 0; i < 2; i++) {
		size_t len = strlen(place[i].ours);

		if (!strncmp(value, place[i].ours, len)) {
			snprintf(buf, size, "%s%s", place[i].usual, value + len);
			return buf;
		}
	}
	return value;
}

/* The manual page lists every option with its real default, and examples for the options without one. */
static void the_manual_page_agrees(void **state)
{
	const char *srcdir = getenv("srcdir");
	static char page[65536];
	const struct ddr_option *options;
	char path[4096], line[256], value[128];
	size_t n = ddr_conf_options(&options), len;
	FILE *f;

	(void)state;
	snprintf(path, sizeof(path), "%s/doc/ddraid.conf.5", srcdir ? srcdir : ".");
	f = fopen(path, "r");
	assert_non_null(f);
	len = fread(page, 1, sizeof(page) - 1, f);
	fclose(f);
	page[len] = '\0';
	for (size_t i = 0; i < n; i++) {
		snprintf(line, sizeof(line), ".BR %s \" = %s\"\n", options[i].key,
			 usual(options[i].value, value, sizeof(value)));
		if (!strstr(page, line))
			fail_msg("doc/ddraid.conf.5 lacks the line %s", line);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_are_the_documented_ones),
		cmocka_unit_test(a_node_may_owe_for_longer_than_a_disk),
		cmocka_unit_test(agents_that_switch_nothing_off), cmocka_unit_test(values_are_read_in_their_units),
		cmocka_unit_test(bad_lines_are_named),
		cmocka_unit_test(hostile_bytes_are_refused),
		cmocka_unit_test(a_missing_file_counts_only_where_it_was_named),
		cmocka_unit_test(dump_reads_back),
		cmocka_unit_test(an_array_takes_its_own_settings_only),
		cmocka_unit_test(the_manual_page_agrees),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
