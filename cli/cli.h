/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the subcommands of `ddraid` share: how they are found, how they fail, how sizes are read and written.
 *
 * A subcommand returns its exit code: CLI_DONE; CLI_FAILED with exactly one line on stderr (cli_fail()); CLI_USAGE with a line that
 * says what is wrong and the usage line (cli_usage()). Results go to stdout, warnings (cli_warn()) and errors to stderr.
 */
#ifndef DDR_CLI_H
#define DDR_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cli_exit {
	CLI_DONE	= 0,
	CLI_FAILED	= 1,
	CLI_USAGE	= 2,
};

/* The answer of create, add and replace to --force, which once overrode several refusals at once. */
#define CLI_NO_FORCE	"--force no longer exists; each override has its own option: --overwrite destroys what disks hold, --allow-512e accepts " \
			"disks whose physical sectors are larger than a chunk"

struct cli_command {
	const char *name;
	const char *arguments;		/* for the usage line */
	const char *summary;		/* for the list of commands */
	/* argv[0] is the name of the command; getopt_long() starts from its beginning */
	int (*run)(const struct cli_command *cmd, int argc, char **argv);
};

/* Prints "ddraid <what>: <sentence>" on stderr as one line; control characters become '?'. Returns CLI_FAILED. */
int cli_fail(const char *what, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same, prefixed "warning: ". */
void cli_warn(const char *what, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Prints the sentence, if there is one (an empty format: none), and the usage line. Returns CLI_USAGE. */
int cli_usage(const struct cli_command *cmd, const char *format, ...) __attribute__((format(printf, 2, 3)));
/*
 * Handles '?' and ':' of getopt_long(): names the option that is unknown or lacks its value. opterr must be 0, and the option string
 * must begin with ':'. Returns CLI_USAGE.
 */
int cli_bad_option(const struct cli_command *cmd, int c, char **argv);
/* For a command without options. CLI_USAGE if one was given, which is named; else CLI_DONE. */
int cli_no_options(const struct cli_command *cmd, int argc, char **argv);
/* Flushes stdout: a full disk or a closed pipe is an error. Returns CLI_DONE or CLI_FAILED. */
int cli_finish(const char *what);

/* ddr_scan_devices() in a process that can be left behind (scan.c). */
struct ddr_scan;
struct ddr_scan_array;
struct ddr_error;
struct cli_scanner {
	int fd;				/* -1: not open */
	int pid;
	bool hung;			/* some disk has not answered */
};

#define CLI_SCAN_SAY_MS	3000u		/* after this time a command says what it waits for */

int cli_scanner_open(struct cli_scanner *s, struct ddr_error *err);
/*
 * Waits for all disks except those that make no progress (DDR_SCAN_GRACE_MS), which are pending. A disk that has not answered for a
 * minute counts as missing, with a warning. 0, or -1 with @err and nothing to free.
 */
int cli_scanner_scan(struct cli_scanner *s, const char *what, struct ddr_scan *scan, struct ddr_error *err);
/* The same by ddr_scan_by_udev(), for the array @array (a name or uuid), or NULL: for all arrays. */
int cli_scanner_scan_first(struct cli_scanner *s, const char *what, const char *array, struct ddr_scan *scan, struct ddr_error *err);
void cli_scanner_close(struct cli_scanner *s);
/* Is there a disk that may still answer? */
bool cli_scan_pending(const struct ddr_scan *scan);
/*
 * One scan for one array, by name or uuid: once all of its members have answered, it does not wait for disks that hang. Warns about
 * disks that do not answer. 0, or -1 with @err and nothing to free.
 */
int cli_scan(const char *what, const char *which, struct ddr_scan *scan, struct ddr_error *err);
/* The same by ddr_scan_by_udev(). */
int cli_scan_first(const char *what, const char *which, struct ddr_scan *scan, struct ddr_error *err);
/* Warns about each member that is left out because another program has written to it. */
void cli_tell_foreign(const char *what, const struct ddr_scan_array *array);

/* A number from @min to @max, like 0.5 or 1e-15, and nothing after it. */
bool cli_parse_real(const char *text, double min, double max, double *out);
/* A decimal integer from @min to @max, and nothing after it. */
bool cli_parse_uint(const char *text, uint64_t min, uint64_t max, uint64_t *out);
/*
 * A size in bytes: an integer with an optional suffix K, M, G, T (or KiB, MiB, GiB, TiB; powers of 1024, upper or lower case). False
 * if it is anything else or overflows.
 */
bool cli_parse_size(const char *text, uint64_t *bytes);
/* "4 MiB", "3.64 TiB", "512 bytes": at most four significant digits. Returns @buf. */
const char *cli_format_size(uint64_t bytes, char *buf, size_t size);
/* "4194304 bytes (4 MiB)": for comparing two sizes that may differ by only a few bytes. Returns @buf. */
const char *cli_format_bytes(uint64_t bytes, char *buf, size_t size);
/* "90 s", "12 min", "3 h 20 min", "19 days 10 h". Returns @buf. */
const char *cli_format_duration(uint64_t s, char *buf, size_t size);
/* Local date and time. If @seconds is not a valid date, the number: it may come from a disk, which can hold any 64 bits. Returns @buf. */
const char *cli_format_time(uint64_t seconds, char *buf, size_t size);
/* The uuid as lower-case text; @buf holds 37 bytes. Returns @buf. */
const char *cli_format_uuid(const uint8_t uuid[16], char *buf);

/* Prints a json-c object or array on stdout, indented, with a newline; takes over the reference. */
struct json_object;
void cli_print_json(struct json_object *json);

int cmd_add(const struct cli_command *cmd, int argc, char **argv);
int cmd_replace(const struct cli_command *cmd, int argc, char **argv);
int cmd_bench(const struct cli_command *cmd, int argc, char **argv);
int cmd_create(const struct cli_command *cmd, int argc, char **argv);
int cmd_estimate(const struct cli_command *cmd, int argc, char **argv);
int cmd_events(const struct cli_command *cmd, int argc, char **argv);
int cmd_examine(const struct cli_command *cmd, int argc, char **argv);
int cmd_fail(const struct cli_command *cmd, int argc, char **argv);
int cmd_fence_ack(const struct cli_command *cmd, int argc, char **argv);
int cmd_grow(const struct cli_command *cmd, int argc, char **argv);
int cmd_verify(const struct cli_command *cmd, int argc, char **argv);
int cmd_rename(const struct cli_command *cmd, int argc, char **argv);
int cmd_upgrade(const struct cli_command *cmd, int argc, char **argv);
int cmd_remove(const struct cli_command *cmd, int argc, char **argv);
int cmd_set(const struct cli_command *cmd, int argc, char **argv);
int cmd_start(const struct cli_command *cmd, int argc, char **argv);
int cmd_status(const struct cli_command *cmd, int argc, char **argv);
int cmd_stop(const struct cli_command *cmd, int argc, char **argv);
int cmd_table(const struct cli_command *cmd, int argc, char **argv);
int cmd_wipe(const struct cli_command *cmd, int argc, char **argv);
int cmd_when(const struct cli_command *cmd, int argc, char **argv);

#endif
