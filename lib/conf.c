// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * Configuration: the table of options and what walks it. See conf.h.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "lib/conf.h"
#include "lib/schedule.h"

#ifndef RUNSTATEDIR
#define RUNSTATEDIR "/run"
#endif
#ifndef LOCALSTATEDIR
#define LOCALSTATEDIR "/var"
#endif

#define LINE_BYTES_MAX	1024u
#define MIB		(1024ull * 1024)

static const char *const transport_names[] = { "auto", "local", "corosync", NULL };
static const char *const auto_names[] = { "auto", NULL };
static const uint64_t owe_values[] = { DDR_OWE_AUTO };
static const uint64_t settle_values[] = { DDR_SETTLE_AUTO };
static const char *const method_names[] = { "power", "storage", NULL };
static const char *const engine_names[] = { "auto", "io_uring", "threads", NULL };
static const char *const level_names[] = { "error", "warning", "notice", "info", "debug", NULL };
static const uint64_t level_values[] = { LOG_ERR, LOG_WARNING, LOG_NOTICE, LOG_INFO, LOG_DEBUG };
static const char *const resync_names[] = { "paused", "run", NULL };

#define CONF(field) offsetof(struct ddr_conf, field)
#define TUNE(field) offsetof(struct ddr_conf, tune.field)

static const struct ddr_option options[] = {
	{ "transport", DDR_OPT_ENUM, CONF(transport), false, "auto", 0, 0, transport_names, NULL,
	  "how the nodes communicate: corosync; local: one node alone; auto: corosync if it is configured" },
	{ "node_id", DDR_OPT_INT, CONF(node_id), false, "auto", 1, UINT32_MAX, auto_names, NULL,
	  "id of this node without corosync; auto: that of corosync.conf if it lists one node, else 1" },
	{ "fence_command", DDR_OPT_COMMAND, CONF(fence_command), false, DDR_FENCE_NONE, 0, 0, NULL, NULL,
	  "program that powers off a node: %n is its id, %N its name; or external, or none" },
	{ "fence_method", DDR_OPT_ENUM, CONF(fence_method), false, "power", 0, 0, method_names, NULL,
	  "what fence_command does. power: it switches the machine off or resets it; storage: it cuts the machine off from the members" },
	{ "fence_timeout", DDR_OPT_MS, CONF(fence_timeout_ms), false, "60s", 1000, 3600 * 1000, NULL, NULL,
	  "a fence command that runs longer than this has failed" },
	{ "settle", DDR_OPT_MS, CONF(settle_ms), false, "auto", 0, 600 * 1000, auto_names, settle_values,
	  "time after a machine was fenced, or has booted, until nothing that it had sent before can reach a member any more; auto: 0 or 10 s, by the disks" },
	{ "away_time", DDR_OPT_MS, CONF(away_ms), false, "30s", 1000, 3600 * 1000, NULL, NULL,
	  "time after which a node is fenced whose ddraidd died, or that is absent when the group starts" },
	{ "owe_time", DDR_OPT_MS, CONF(owe_ms), false, "auto", 0, 86400 * 1000, auto_names, owe_values,
	  "time without progress after which a node is declared dead for which others wait; auto: 4 x io_timeout + 10 s; 0: never" },
	{ "verify_parallel", DDR_OPT_INT, CONF(verify_parallel), false, "1", 1, 256, NULL, NULL,
	  "number of arrays whose scheduled verify runs at the same time" },
	{ "verify_reads", DDR_OPT_BOOL, CONF(verify_reads), false, "no", 0, 1, NULL, NULL,
	  "each read of arrays started here checks the parity, as with ddraid start --verify-reads" },
	{ "fail_if_no_daemon", DDR_OPT_BOOL, CONF(fail_if_no_daemon), false, "no", 0, 1, NULL, NULL,
	  "I/O fails instead of waiting for a missing daemon, as with ddraid start --fail-if-no-daemon" },
	{ "log_level", DDR_OPT_ENUM, CONF(log_level), false, "info", 0, 0, level_names, level_values,
	  "lowest priority of messages that are logged" },
	{ "log_syslog", DDR_OPT_BOOL, CONF(log_syslog), false, "yes", 0, 1, NULL, NULL,
	  "log to syslog (facility daemon)" },
	{ "io_engine", DDR_OPT_ENUM, CONF(io_engine), false, "auto", 0, 0, engine_names, NULL,
	  "how the daemon writes to members; auto: io_uring, threads where the kernel refuses it" },
	{ "state_dir", DDR_OPT_PATH, CONF(state_dir), false, LOCALSTATEDIR "/lib/ddraid", 0, 0, NULL, NULL,
	  "directory that keeps the last generation seen of each array" },
	{ "run_dir", DDR_OPT_PATH, CONF(run_dir), false, RUNSTATEDIR "/ddraid", 0, 0, NULL, NULL,
	  "path of the pid file" },
	{ "idle_time", DDR_OPT_MS, TUNE(idle_ms), true, "5s", 100, 3600 * 1000, NULL, NULL,
	  "time without a write after which a region is cleared from the dirty log" },
	{ "resync", DDR_OPT_ENUM, TUNE(resync), true, "run", 0, 0, resync_names, NULL,
	  "paused: no resync is started" },
	{ "resync_min_rate", DDR_OPT_BYTES, TUNE(resync_min), true, "10M", 64 * 1024, UINT64_MAX, NULL, NULL,
	  "bytes of the array per second that resync gets while the array is in use" },
	{ "resync_max_rate", DDR_OPT_BYTES, TUNE(resync_max), true, "0", 0, UINT64_MAX, NULL, NULL,
	  "bytes of the array per second that resync takes at most; 0: no limit" },
	{ "resync_priority", DDR_OPT_INT, TUNE(resync_priority), true, "5", 1, 5, NULL, NULL,
	  "priority of resync and rebuild while the array is in use: 1 goes first; 5 leaves the disks to everything else, except resync_min_rate" },
	{ "resync_parallel", DDR_OPT_INT, TUNE(resync_parallel), true, "2", 1, 8, NULL, NULL,
	  "number of ranges that resync works on at once" },
	{ "max_corrected", DDR_OPT_INT, TUNE(max_corrected), true, "256", 0, 1000000, NULL, NULL,
	  "a member on which more places than this were repaired since the start is failed; 0: never" },
	{ "verify_priority", DDR_OPT_INT, TUNE(verify_priority), true, "4", 1, 5, NULL, NULL,
	  "default priority of a verify: 1 goes first, 5 leaves the disks to everything else" },
	{ "verify_min_rate", DDR_OPT_BYTES, TUNE(verify_min), true, "0", 0, UINT64_MAX, NULL, NULL,
	  "bytes of the array per second that verify gets while the array is in use, at any priority" },
	{ "verify_max_rate", DDR_OPT_BYTES, TUNE(verify_max), true, "0", 0, UINT64_MAX, NULL, NULL,
	  "bytes of the array per second that verify reads at most; 0: no limit" },
	{ "verify_every", DDR_OPT_MS, TUNE(verify_every_ms), true, "30d", 0, 3650ull * 86400 * 1000, NULL, NULL,
	  "time from the start of one verify to the start of the next; 0: only on request" },
	{ "verify_hours", DDR_OPT_HOURS, TUNE(verify_hours), true, "0-24", 0, 0, NULL, NULL,
	  "hours of the day (local time) in which a scheduled verify reads; they may span midnight, such as 22-6" },
	{ "hot_spare", DDR_OPT_BOOL, TUNE(hot_spare), true, "yes", 0, 1, NULL, NULL,
	  "a spare replaces a failed member automatically" },
	{ "take_back", DDR_OPT_BOOL, TUNE(take_back), true, "yes", 0, 1, NULL, NULL,
	  "a member whose disk was late, pulled, or without a path is taken back automatically when the disk returns" },
	{ "grant_ahead", DDR_OPT_INT, TUNE(grant_ahead), true, "1", 0, 64, NULL, NULL,
	  "number of regions requested ahead of a sequential writer; 0: none" },
	{ "daemon_timeout", DDR_OPT_MS, TUNE(daemon_timeout_ms), true, "30s", 1000, 600 * 1000, NULL, NULL,
	  "time after which the kernel module treats a silent daemon as dead" },
	{ "io_timeout", DDR_OPT_MS, TUNE(io_timeout_ms), true, "60s", 1000, 3600 * 1000, NULL, NULL,
	  "time after which a member that does not answer the daemon has failed" },
};

#define OPTIONS (sizeof(options) / sizeof(options[0]))

const char *ddr_conf_rates_wrong(const struct ddr_tunables *tune)
{
	if (tune->resync_max && tune->resync_max < tune->resync_min)
		return "resync";
	return tune->verify_max && tune->verify_max < tune->verify_min ? "verify" : NULL;
}

#define SETTLE_KEPT_MS	10000u

uint32_t ddr_conf_settle_ms(const struct ddr_conf *conf, bool kept)
{
	if (conf->settle_ms == DDR_SETTLE_AUTO)
		return kept ? SETTLE_KEPT_MS : 0;
	return (uint32_t)conf->settle_ms;
}

#define OWE_MORE_MS	10000u	/* than io_timeout: so that a disk fails first */

uint64_t ddr_conf_owe_ms(const struct ddr_conf *conf, uint64_t io_timeout_ms)
{
	uint64_t ms = conf->owe_ms == DDR_OWE_AUTO ? 4 * io_timeout_ms + OWE_MORE_MS : conf->owe_ms;

	return ms && ms < io_timeout_ms + OWE_MORE_MS ? io_timeout_ms + OWE_MORE_MS : ms;
}

size_t ddr_conf_options(const struct ddr_option **out)
{
	*out = options;
	return OPTIONS;
}

static uint64_t *value_of(struct ddr_conf *conf, const struct ddr_option *opt)
{
	return (uint64_t *)((char *)conf + opt->offset);
}

static uint64_t get_value(const struct ddr_conf *conf, const struct ddr_option *opt)
{
	uint64_t v;

	memcpy(&v, (const char *)conf + opt->offset, sizeof(v));
	return v;
}

static bool same_key(const char *a, const char *b)
{
	for (; *a && *b; a++, b++) {
		char x = (char)(*a == '-' ? '_' : *a), y = (char)(*b == '-' ? '_' : *b);

		if (x != y)
			return false;
	}
	return *a == *b;
}

static const struct ddr_option *find(const char *key)
{
	for (size_t i = 0; i < OPTIONS; i++)
		if (same_key(options[i].key, key))
			return &options[i];
	return NULL;
}

/* A decimal number, and the text after it; no sign, no blanks. */
static bool parse_number(const char *s, uint64_t *n, const char **rest)
{
	char *end;

	if (!isdigit((unsigned char)*s))
		return false;
	errno = 0;
	*n = strtoull(s, &end, 10);
	*rest = end;
	return errno == 0;
}

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit ms_units[] = {
	{ "", 1000 }, { "s", 1000 }, { "ms", 1 }, { "m", 60000 }, { "min", 60000 }, { "h", 3600000 }, { "d", 86400000 }, { NULL, 0 }
};
static const struct unit byte_units[] = {
	{ "", 1 }, { "K", 1024 }, { "M", MIB }, { "G", 1024 * MIB }, { "T", MIB * MIB },
	{ "KiB", 1024 }, { "MiB", MIB }, { "GiB", 1024 * MIB }, { "TiB", MIB * MIB }, { NULL, 0 }
};
static const struct unit no_units[] = { { "", 1 }, { NULL, 0 } };

static bool parse_units(const char *s, const struct unit *unit, uint64_t *v)
{
	const char *rest;
	uint64_t n;

	if (!parse_number(s, &n, &rest))
		return false;
	for (; unit->name; unit++)
		if (strcmp(rest, unit->name) == 0)
			return !__builtin_mul_overflow(n, unit->factor, v);
	return false;
}

static bool parse_enum(const struct ddr_option *opt, const char *s, uint64_t *v)
{
	for (size_t i = 0; opt->names[i]; i++)
		if (strcmp(opt->names[i], s) == 0) {
			*v = opt->values ? opt->values[i] : i;
			return true;
		}
	return false;
}

static bool parse_hours(const char *s, uint64_t *v)
{
	uint64_t from, to;

	if (!parse_number(s, &from, &s) || *s != '-' || !parse_number(s + 1, &to, &s) || *s || from > 24 || to > 24 || from == to || from % 24 == to)
		return false;
	*v = DDR_HOURS(from, to);
	return true;
}

static bool parse_bool(const char *s, uint64_t *v)
{
	static const char *const yes[] = { "yes", "true", "on", "1" };
	static const char *const no[] = { "no", "false", "off", "0" };

	for (size_t i = 0; i < 4; i++) {
		if (strcmp(s, yes[i]) == 0 || strcmp(s, no[i]) == 0) {
			*v = strcmp(s, yes[i]) == 0;
			return true;
		}
	}
	return false;
}

/* The values that @opt accepts, for error messages. */
static void describe(const struct ddr_option *opt, char *buf, size_t size)
{
	size_t n = 0;

	switch (opt->type) {
	case DDR_OPT_BOOL:
		snprintf(buf, size, "yes or no");
		break;
	case DDR_OPT_PATH:
		snprintf(buf, size, "an absolute path of less than %u bytes", DDR_CONF_PATH_MAX);
		break;
	case DDR_OPT_COMMAND:
		snprintf(buf, size, "the absolute path of a program and its arguments (less than %u bytes), external, or none",
			 DDR_CONF_PATH_MAX);
		break;
	case DDR_OPT_MS:
		snprintf(buf, size, "a time from %" PRIu64 "ms to %" PRIu64 "s, such as 500ms, 5s or 2min%s%s",
			 opt->min, opt->max / 1000, opt->names ? ", or " : "", opt->names ? opt->names[0] : "");
		break;
	case DDR_OPT_HOURS:
		snprintf(buf, size, "two different hours from 0 to 24, such as 0-24, 1-5 or 22-6");
		break;
	case DDR_OPT_INT:
		snprintf(buf, size, "a number from %" PRIu64 " to %" PRIu64 "%s%s", opt->min, opt->max, opt->names ? ", or " : "", opt->names ? opt->names[0] : "");
		break;
	case DDR_OPT_BYTES:
		snprintf(buf, size, "a number of bytes from %" PRIu64 " up, such as 512K, 10M or 1G", opt->min);
		break;
	case DDR_OPT_ENUM:
		for (size_t i = 0; opt->names[i] && n < size; i++)
			n += (size_t)snprintf(buf + n, size - n, "%s%s", i ? ", " : "one of ", opt->names[i]);
		break;
	}
}

static bool parse_value(const struct ddr_option *opt, const char *s, uint64_t *v)
{
	switch (opt->type) {
	case DDR_OPT_BOOL:
		return parse_bool(s, v);
	case DDR_OPT_ENUM:
		return parse_enum(opt, s, v);
	case DDR_OPT_MS:
		return (opt->names && parse_enum(opt, s, v)) || (parse_units(s, ms_units, v) && *v >= opt->min && *v <= opt->max);
	case DDR_OPT_BYTES:
		return parse_units(s, byte_units, v) && *v >= opt->min && *v <= opt->max;
	case DDR_OPT_INT:
		return (opt->names && parse_enum(opt, s, v)) || (parse_units(s, no_units, v) && *v >= opt->min && *v <= opt->max);
	case DDR_OPT_HOURS:
		return parse_hours(s, v);
	case DDR_OPT_PATH:
	case DDR_OPT_COMMAND:
		break;
	}
	return false;
}

/* Is @value stored as it is? */
static bool is_text(const struct ddr_option *opt, const char *value)
{
	if (strlen(value) >= DDR_CONF_PATH_MAX)
		return false;
	if (opt->type == DDR_OPT_COMMAND && (!strcmp(value, DDR_FENCE_NONE) || !strcmp(value, DDR_FENCE_EXTERNAL)))
		return true;
	return (opt->type == DDR_OPT_PATH || opt->type == DDR_OPT_COMMAND) && value[0] == '/';
}

int ddr_conf_set(struct ddr_conf *conf, const char *key, const char *value, bool per_array, char *err, size_t err_size)
{
	const struct ddr_option *opt = find(key);
	char what[160];
	uint64_t v;

	if (!opt || (per_array && !opt->per_array)) {
		snprintf(err, err_size, "%s option '%.64s'", opt ? "not an array's" : "unknown", key);
		return -ENOENT;
	}
	if (is_text(opt, value)) {
		memcpy((char *)conf + opt->offset, value, strlen(value) + 1);
		return 0;
	}
	if (!parse_value(opt, value, &v)) {
		describe(opt, what, sizeof(what));
		snprintf(err, err_size, "%s = '%.64s': expected %s", opt->key, value, what);
		return -EINVAL;
	}
	*value_of(conf, opt) = v;
	return 0;
}

void ddr_conf_defaults(struct ddr_conf *conf)
{
	char err[DDR_CONF_ERROR_MAX];

	memset(conf, 0, sizeof(*conf));
	for (size_t i = 0; i < OPTIONS; i++)
		if (ddr_conf_set(conf, options[i].key, options[i].value, false, err, sizeof(err)))
			abort();	/* the table of options is wrong; tests/unit/test-conf.c checks it */
}

/* Cuts blanks from both ends, in place. */
static char *trim(char *s)
{
	char *end;

	while (isspace((unsigned char)*s))
		s++;
	end = s + strlen(s);
	while (end > s && isspace((unsigned char)end[-1]))
		end--;
	*end = '\0';
	return s;
}

/* Splits one line of the file; -ENOMSG for a blank line or a comment. */
static int split_line(char *line, char **key, char **value, char *err, size_t err_size)
{
	char *eq;

	line = trim(line);
	if (*line == '\0' || *line == '#')
		return -ENOMSG;
	eq = strchr(line, '=');
	if (!eq) {
		snprintf(err, err_size, "'%.64s' is not 'key = value'", line);
		return -EINVAL;
	}
	*eq = '\0';
	*key = trim(line);
	*value = trim(eq + 1);
	if (**key == '\0') {
		snprintf(err, err_size, "no key before '='");
		return -EINVAL;
	}
	return 0;
}

static int load_line(struct ddr_conf *conf, char *line, unsigned int number, unsigned int *seen,
		     char *err, size_t err_size)
{
	const struct ddr_option *opt;
	char *key, *value;
	int ret = split_line(line, &key, &value, err, err_size);

	if (ret)
		return ret == -ENOMSG ? 0 : ret;
	ret = ddr_conf_set(conf, key, value, false, err, err_size);
	if (ret)
		return ret;
	opt = find(key);
	if (seen[opt - options]) {
		snprintf(err, err_size, "%s was already set in line %u", opt->key, seen[opt - options]);
		return -EINVAL;
	}
	seen[opt - options] = number;
	return 0;
}

static int load_stream(struct ddr_conf *conf, FILE *in, unsigned int *number, char *err, size_t err_size)
{
	unsigned int seen[OPTIONS] = { 0 };
	char *line = NULL;
	size_t size = 0;
	ssize_t n;
	int ret = 0;

	while (ret == 0 && (n = getline(&line, &size, in)) > 0) {
		++*number;
		if ((size_t)n > LINE_BYTES_MAX || strlen(line) != (size_t)n) {
			snprintf(err, err_size, "the line is longer than %u bytes or holds a zero byte", LINE_BYTES_MAX);
			ret = -EINVAL;
		} else {
			ret = load_line(conf, line, *number, seen, err, err_size);
		}
	}
	free(line);
	if (ret == 0 && ferror(in)) {
		snprintf(err, err_size, "cannot be read: %s", strerror(errno));
		return -EIO;
	}
	return ret;
}

/* Agents that are known to reserve disks: the machine runs on, and may still read. Success of one is no proof as that of a power switch is (rule F7). */
static bool only_reserves(const struct ddr_conf *conf)
{
	static const char *const agents[] = { "fence_scsi", "fence_mpath" };
	size_t n = strcspn(conf->fence_command, " \t");
	const char *name = conf->fence_command + n;

	while (name > conf->fence_command && name[-1] != '/')
		name--;
	n -= (size_t)(name - conf->fence_command);
	for (size_t i = 0; conf->fence_method == DDR_FENCE_BY_POWER && i < sizeof(agents) / sizeof(agents[0]); i++)
		if (strlen(agents[i]) == n && strncmp(name, agents[i], n) == 0)
			return true;
	return false;
}

int ddr_conf_load(struct ddr_conf *conf, const char *path, bool must_exist, char *err, size_t err_size)
{
	char why[DDR_CONF_ERROR_MAX - DDR_CONF_PATH_MAX];
	unsigned int number = 0;
	struct ddr_conf fresh;
	const char *job;
	FILE *in;
	int ret;

	ddr_conf_defaults(&fresh);
	in = fopen(path, "re");
	if (!in) {
		ret = -errno;
		if (ret == -ENOENT && !must_exist) {
			*conf = fresh;
			return 0;
		}
		snprintf(err, err_size, "%.200s: cannot be opened: %s", path, strerror(-ret));
		return ret;
	}
	ret = load_stream(&fresh, in, &number, why, sizeof(why));
	fclose(in);
	if (ret) {
		snprintf(err, err_size, "%.200s:%u: %s", path, number, why);
		return ret;
	}
	job = ddr_conf_rates_wrong(&fresh.tune);
	if (job) {
		snprintf(err, err_size, "%.200s:%u: %s_max_rate is below %s_min_rate", path, number, job, job);
		return -EINVAL;
	}
	if (fresh.fence_method == DDR_FENCE_BY_STORAGE && fresh.fence_command[0] != '/') {
		snprintf(err, err_size, "%.200s:%u: fence_method = storage needs a program as fence_command, which is told the disks", path, number);
		return -EINVAL;
	}
	if (only_reserves(&fresh)) {
		snprintf(err, err_size, "%.200s:%u: fence_command reserves disks and switches nothing off. Use one that does, or see fence_method in ddraid.conf(5)",
			 path, number);
		return -EINVAL;
	}
	if (ddr_conf_owe_ms(&fresh, fresh.tune.io_timeout_ms) > fresh.owe_ms) {
		snprintf(err, err_size, "%.200s:%u: owe_time is below io_timeout + 10s", path, number);
		return -EINVAL;
	}
	*conf = fresh;
	return 0;
}

static const char *format_units(uint64_t v, const struct unit *unit, char *buf, size_t size)
{
	const struct unit *best = NULL;

	for (; unit->name; unit++)
		if (*unit->name && v && v % unit->factor == 0 && (!best || unit->factor > best->factor))
			best = unit;
	snprintf(buf, size, "%" PRIu64 "%s", best ? v / best->factor : v, best ? best->name : "");
	return buf;
}

const char *ddr_conf_format(const struct ddr_conf *conf, const struct ddr_option *opt, char *buf, size_t size)
{
	uint64_t v;

	if (opt->type == DDR_OPT_PATH || opt->type == DDR_OPT_COMMAND) {
		snprintf(buf, size, "%s", (const char *)conf + opt->offset);
		return buf;
	}
	v = get_value(conf, opt);
	switch (opt->type) {
	case DDR_OPT_BOOL:
		snprintf(buf, size, "%s", v ? "yes" : "no");
		break;
	case DDR_OPT_MS:
		if (!opt->names || v != opt->values[0])
			return format_units(v, ms_units, buf, size);
		snprintf(buf, size, "%s", opt->names[0]);
		break;
	case DDR_OPT_BYTES:
		return format_units(v, byte_units, buf, size);
	case DDR_OPT_HOURS:
		snprintf(buf, size, "%" PRIu64 "-%" PRIu64, v >> 8, v & 0xff);
		break;
	case DDR_OPT_ENUM:
		for (size_t i = 0; opt->names[i]; i++)
			if ((opt->values ? opt->values[i] : i) == v)
				snprintf(buf, size, "%s", opt->names[i]);
		break;
	default:
		snprintf(buf, size, "%" PRIu64, v);
		if (opt->names && v < opt->min)
			snprintf(buf, size, "%s", opt->names[v]);
	}
	return buf;
}

bool ddr_conf_wants_name(const struct ddr_conf *conf)
{
	for (const char *s = conf->fence_command; (s = strchr(s, '%')) && s[1]; s += 2)
		if (s[1] == 'N')
			return true;
	return false;
}

void ddr_conf_dump(const struct ddr_conf *conf, FILE *out)
{
	char buf[DDR_CONF_PATH_MAX];

	for (size_t i = 0; i < OPTIONS; i++)
		fprintf(out, "# %s\n%s = %s\n", options[i].help, options[i].key,
			ddr_conf_format(conf, &options[i], buf, sizeof(buf)));
}
