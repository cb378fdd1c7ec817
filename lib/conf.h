/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * The configuration of ddraidd: one table of options, used by the parser of the file, by `ddraid set`, by
 * --dump-config and by the check of the manual page.
 *
 * It must never: use an unchecked value, guess the meaning of an unknown key, or keep a half-read file:
 * ddr_conf_load() gives a complete configuration or an error.
 */
#ifndef DDR_LIB_CONF_H
#define DDR_LIB_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define DDR_CONF_PATH_MAX	256u	/* bytes of a path, with the NUL */
#define DDR_CONF_ERROR_MAX	512u	/* buffer size that suffices for every error message */

/* Auto: corosync where it is configured, else local. */
enum ddr_conf_transport { DDR_TRANSPORT_AUTO = 0, DDR_TRANSPORT_LOCAL, DDR_TRANSPORT_COROSYNC };

/* Values of fence_command that are not commands. */
#define DDR_FENCE_NONE		"none"
#define DDR_FENCE_EXTERNAL	"external"
enum ddr_conf_engine { DDR_ENGINE_AUTO = 0, DDR_ENGINE_URING, DDR_ENGINE_THREADS };

/* What can be changed for one array while it runs. */
struct ddr_tunables {
	uint64_t idle_ms;		/* a region that was unused for this long is cleared */
	uint64_t resync_min;		/* bytes of the device a second while the array is in use */
	uint64_t resync_max;		/* bytes of the device a second at most, 0: no limit */
	uint64_t resync_priority;	/* 1 .. 5: its share of the time while the array is in use */
	uint64_t resync_parallel;	/* ranges in work at once */
	uint64_t max_corrected;		/* a member with more corrected bad places than this fails; 0: never */
	uint64_t verify_min;		/* minimum bytes of the device a second that verify gets */
	uint64_t verify_max;		/* bytes of the device a second at most, 0: no limit */
	uint64_t verify_priority;	/* 1 .. 5, for a verify that is started without a priority */
	uint64_t verify_every_ms;	/* from the start of one verify to the start of the next; 0: never automatically */
	uint64_t verify_hours;		/* DDR_HOURS(), local time: for verifies that start automatically */
	uint64_t hot_spare;		/* 1: a spare is taken automatically */
	uint64_t take_back;		/* 1: a member whose disk was disconnected is taken back automatically */
	uint64_t resync;		/* 0: paused */
	uint64_t grant_ahead;		/* regions requested ahead of a sequential writer */
	uint64_t daemon_timeout_ms;	/* the kernel treats a silent daemon as gone after this time */
	uint64_t io_timeout_ms;		/* a member that has not answered the daemon for this long has failed */
};

/* POWER: proof for everything that the machine had. STORAGE: proof for the disks that the command was given, and the machine may run on. */
enum ddr_conf_method { DDR_FENCE_BY_POWER, DDR_FENCE_BY_STORAGE };

struct ddr_conf {
	uint64_t transport;		/* enum ddr_conf_transport */
	uint64_t node_id;		/* 0: auto */
	uint64_t io_engine;		/* enum ddr_conf_engine */
	uint64_t log_level;		/* syslog priority */
	uint64_t log_syslog;		/* 0 or 1 */
	uint64_t fence_method;		/* enum ddr_conf_method */
	uint64_t fence_timeout_ms;	/* a fence command that runs longer than this has failed */
	uint64_t settle_ms;		/* from the fencing or the boot of a machine until nothing that it had sent can reach a member any more; DDR_SETTLE_AUTO */
	uint64_t away_ms;		/* a node whose daemon is gone is fenced after this */
	uint64_t owe_ms;		/* a node that owes others something for so long without progress is declared dead; 0: never; DDR_OWE_AUTO: by io_timeout */
	uint64_t verify_parallel;	/* arrays that are verified automatically at the same time */
	uint64_t verify_reads;		/* 1: tables that `ddraid start` makes here have this option ... */
	uint64_t fail_if_no_daemon;	/* ... and this one */
	char state_dir[DDR_CONF_PATH_MAX];
	char run_dir[DDR_CONF_PATH_MAX];
	char fence_command[DDR_CONF_PATH_MAX];	/* a program and its arguments, or DDR_FENCE_* */
	struct ddr_tunables tune;	/* defaults of every array */
};

enum ddr_option_type { DDR_OPT_INT, DDR_OPT_BOOL, DDR_OPT_MS, DDR_OPT_BYTES, DDR_OPT_ENUM, DDR_OPT_HOURS, DDR_OPT_PATH,
		       DDR_OPT_COMMAND };

/* One option. All values but paths are uint64_t at @offset in struct ddr_conf. */
struct ddr_option {
	const char *key;		/* '_' and '-' are the same */
	enum ddr_option_type type;
	size_t offset;
	bool per_array;			/* `ddraid set` takes it: it lies in struct ddr_tunables */
	const char *value;		/* default, as it would stand in the file */
	uint64_t min, max;		/* in the unit of the field */
	const char *const *names;	/* DDR_OPT_ENUM: words, NULL at the end. DDR_OPT_INT, DDR_OPT_MS: words for other values, or NULL */
	const uint64_t *values;		/* what they mean; NULL: their position */
	const char *help;		/* one line */
};

/* The table; returns the number of options. */
size_t ddr_conf_options(const struct ddr_option **options);

/* "resync" or "verify" if its maximum rate is below its minimum (refused), else NULL. */
const char *ddr_conf_rates_wrong(const struct ddr_tunables *tune);

#define DDR_SETTLE_AUTO		UINT64_MAX
/* What `settle` is for an array; @kept: one of its members may have commands of a machine that is gone (ddr_bus_keeps()). */
uint32_t ddr_conf_settle_ms(const struct ddr_conf *conf, bool kept);

#define DDR_OWE_AUTO		UINT64_MAX
/* How long a node may owe something without progress, where members have @io_timeout_ms: 0: for ever; otherwise some seconds longer than that at least. */
uint64_t ddr_conf_owe_ms(const struct ddr_conf *conf, uint64_t io_timeout_ms);

/* All defaults. */
void ddr_conf_defaults(struct ddr_conf *conf);

/*
 * Sets one option from text. @per_array: only those that `ddraid set` may change.
 * Returns 0, or -EINVAL (bad value) or -ENOENT (no such key) with one line in @err.
 */
int ddr_conf_set(struct ddr_conf *conf, const char *key, const char *value, bool per_array,
		 char *err, size_t err_size) __attribute__((warn_unused_result));

/*
 * Loads the defaults, then the file. A missing file is an error only if @must_exist. Returns 0, or a negative errno
 * with "FILE:LINE: what is wrong" in @err; @conf is unchanged then.
 */
int ddr_conf_load(struct ddr_conf *conf, const char *path, bool must_exist,
		  char *err, size_t err_size) __attribute__((warn_unused_result));

/* The value of @opt in @conf as it would stand in the file. Returns @buf. */
const char *ddr_conf_format(const struct ddr_conf *conf, const struct ddr_option *opt, char *buf, size_t size);

/* Does the fence_command have a %N, for which there is nothing if the node's name is not known? */
bool ddr_conf_wants_name(const struct ddr_conf *conf);

/* All options with their values, as a file that ddr_conf_load() takes. */
void ddr_conf_dump(const struct ddr_conf *conf, FILE *out);

#endif
