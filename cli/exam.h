/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What `ddraid examine` finds on one device: everything that is valid, and a message for everything that is damaged. Read-only; a
 * disk may hold anything.
 */
#ifndef DDR_CLI_EXAM_H
#define DDR_CLI_EXAM_H

#include "lib/disk/devio.h"

/* The dirty log of one slot, as found on this device. */
struct exam_slot {
	uint32_t node;			/* the owner in the newest log block; 0: none */
	uint64_t cookie;
	uint8_t boot_id[DDR_UUID_LEN];
	uint64_t n_dirty;		/* regions */
	uint32_t unreadable;		/* log blocks without a valid place: all their regions may be dirty */
	uint8_t *dirty;			/* one bit for each region, in the order of ddr_log_get() */
	uint64_t n_repairs;		/* of these: only marked for a repair */
};

struct exam {
	bool opened;			/* else there is a single error with the reason */
	char **error;			/* messages about damage */
	size_t n_errors;
	struct ddr_supers supers;
	const struct ddr_super *sb;	/* the superblock that is used, or NULL; everything below needs it */
	uint64_t bytes;			/* size of the device */
	uint64_t regions;
	struct exam_slot slot[DDR_MAX_SLOTS];
	struct ddr_stamp stamp[DDR_MAX_SLOTS];	/* format 2: the newest valid one; seq 0: none */
	uint8_t *map;			/* one byte for each region: state and flags; EXAM_UNKNOWN: its block is unreadable */
	uint64_t n_state[3];		/* regions in each enum ddr_region_state */
	uint64_t n_suspect, n_written, n_unknown;
};

#define EXAM_UNKNOWN	0xffu

/*
 * Examines @path. @exam can always be passed to exam_free(); what could not be read is listed in exam->error. Returns true if the
 * device has a valid superblock.
 */
bool exam_device(struct exam *exam, const char *path);
void exam_free(struct exam *exam);

/* Two ways to print it: as text on stdout, and as the object of `examine --json`. */
struct json_object;
void exam_print(const struct exam *exam, const char *path);
struct json_object *exam_json(const struct exam *exam, const char *path);

/* A time from a disk, as text in @buf; returns @buf. */
const char *exam_time(uint64_t seconds, char *buf, size_t size);

/* exam_owner.c: the parts of both that are about machines and clusters. Of an exam with a valid superblock. */
bool exam_knows_owner(const struct exam *exam, uint32_t slot);		/* there is something to print */
void exam_print_cluster(const struct exam *exam);
void exam_print_owner(const struct exam *exam, uint32_t slot);
void exam_print_haunted(const struct exam *exam);
/* Add their fields to the object of a slot, and to that of the device. */
void exam_json_owner(const struct exam *exam, uint32_t slot, struct json_object *o);
void exam_json_owners(const struct exam *exam, struct json_object *o);

#endif
