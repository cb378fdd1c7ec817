/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Errors, usage, sizes and JSON output of the command; see cli.h. */
#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <json-c/json.h>
#include <uuid/uuid.h>

#include "cli/cli.h"

#define LINE_MAX_BYTES	2048

/* Is stderr the journal? Then a line may begin with its priority, see sd-daemon(3). */
static bool to_journal(void)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long dev, inode;
	struct stat st;

	return stream && sscanf(stream, "%llu:%llu", &dev, &inode) == 2 && fstat(STDERR_FILENO, &st) == 0 && st.st_dev == dev && st.st_ino == inode;
}

/* Text from a disk, the daemon or an argument must not move the cursor or end the line. */
static void __attribute__((format(printf, 3, 0))) print_line(const char *prefix, const char *what, const char *format, va_list args)
{
	char line[LINE_MAX_BYTES];

	vsnprintf(line, sizeof(line), format, args);
	for (char *p = line; *p; p++)
		if (iscntrl((unsigned char)*p))
			*p = '?';
	fflush(stdout);
	fprintf(stderr, "%sddraid%s%s: %s%s\n", !to_journal() ? "" : *prefix ? "<4>" : "<3>", *what ? " " : "", what, prefix, line);
}

int cli_fail(const char *what, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print_line("", what, format, args);
	va_end(args);
	return CLI_FAILED;
}

void cli_warn(const char *what, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print_line("warning: ", what, format, args);
	va_end(args);
}

int cli_usage(const struct cli_command *cmd, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (*format)
		print_line("", cmd->name, format, args);
	va_end(args);
	fprintf(stderr, "usage: ddraid %s %s\n", cmd->name, cmd->arguments);
	return CLI_USAGE;
}

int cli_bad_option(const struct cli_command *cmd, int c, char **argv)
{
	const char *option = argv[optind - 1];

	if (c == ':')
		return cli_usage(cmd, "option '%s' needs a value", option);
	if (optopt > 0 && optopt < 128 && isprint(optopt))
		return cli_usage(cmd, "unknown option '-%c'", optopt);
	return cli_usage(cmd, "unknown or misused option '%s'", option);
}

int cli_no_options(const struct cli_command *cmd, int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (argv[i][0] == '-')
			return cli_usage(cmd, "unknown or misused option '%s'", argv[i]);
	return CLI_DONE;
}

int cli_finish(const char *what)
{
	if (fflush(stdout) || ferror(stdout))
		return cli_fail(what, "cannot write the output: %s", strerror(errno));
	return CLI_DONE;
}

bool cli_parse_uint(const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	unsigned long long v;
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return false;
	errno = 0;
	v = strtoull(text, &end, 10);
	if (errno || *end || v < min || v > max)
		return false;
	*out = v;
	return true;
}

bool cli_parse_real(const char *text, double min, double max, double *out)
{
	char *end;
	double v;

	if (!isdigit((unsigned char)text[0]))
		return false;
	errno = 0;
	v = strtod(text, &end);
	if (errno || *end || !(v >= min && v <= max))
		return false;
	*out = v;
	return true;
}

bool cli_parse_size(const char *text, uint64_t *bytes)
{
	static const char units[] = "kmgtp";
	unsigned int shift = 0;
	unsigned long long v;
	const char *unit;
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return false;
	errno = 0;
	v = strtoull(text, &end, 10);
	if (errno)
		return false;
	if (*end) {
		unit = strchr(units, tolower((unsigned char)*end));
		if (!unit || (end[1] && strcasecmp(end + 1, "ib") != 0))
			return false;
		shift = 10 * (unsigned int)(unit - units + 1);
	}
	if (v > UINT64_MAX >> shift)
		return false;
	*bytes = (uint64_t)v << shift;
	return true;
}

const char *cli_format_size(uint64_t bytes, char *buf, size_t size)
{
	static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	unsigned int u = 0;
	double v;

	while (u < 6 && bytes >> (10 * (u + 1)))
		u++;
	v = (double)bytes / (double)(1ull << (10 * u));
	if (bytes % (1ull << (10 * u)) == 0)
		snprintf(buf, size, "%" PRIu64 " %s", bytes >> (10 * u), units[u]);
	else
		snprintf(buf, size, "%.*f %s", v < 10 ? 2 : v < 100 ? 1 : 0, v, units[u]);
	return buf;
}

const char *cli_format_bytes(uint64_t bytes, char *buf, size_t size)
{
	char text[32];

	cli_format_size(bytes, text, sizeof(text));
	if (bytes < 1024)
		snprintf(buf, size, "%" PRIu64 " bytes", bytes);
	else
		snprintf(buf, size, "%" PRIu64 " bytes (%s)", bytes, text);
	return buf;
}

const char *cli_format_duration(uint64_t s, char *buf, size_t size)
{
	if (s < 120)
		snprintf(buf, size, "%" PRIu64 " s", s);
	else if (s < 7200)
		snprintf(buf, size, "%" PRIu64 " min", (s + 30) / 60);
	else if (s < 48 * 3600)
		snprintf(buf, size, "%" PRIu64 " h %" PRIu64 " min", s / 3600, s % 3600 / 60);
	else
		snprintf(buf, size, "%" PRIu64 " days %" PRIu64 " h", s / 86400, s % 86400 / 3600);
	return buf;
}

const char *cli_format_time(uint64_t seconds, char *buf, size_t size)
{
	time_t t = (time_t)seconds;
	struct tm tm;

	if (seconds > INT64_MAX || !localtime_r(&t, &tm) || !strftime(buf, size, "%Y-%m-%d %H:%M:%S", &tm))
		snprintf(buf, size, "%" PRIu64 " seconds after 1970", seconds);
	return buf;
}

const char *cli_format_uuid(const uint8_t uuid[16], char *buf)
{
	uuid_unparse_lower(uuid, buf);
	return buf;
}

void cli_print_json(struct json_object *json)
{
	puts(json_object_to_json_string_ext(json, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
					    JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(json);
}
