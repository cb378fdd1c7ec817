/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Finds the members of arrays among the block devices of this machine, and assembles
 * one array: for `table` and `start`.
 *
 * Looked at: every block device with a size that nothing but a ddraid device holds (the
 * paths below a multipath or other mapping are left to what is on top of them), and
 * that is no ddraid device itself. The environment variable DDRAID_DEVICES
 * replaces that: a list of paths or shell patterns, separated by blanks; regular files
 * count there too. Devices are opened read-only and closed again.
 */
#ifndef DDR_CLI_SCAN_H
#define DDR_CLI_SCAN_H

#include <limits.h>

#include "lib/assemble.h"
#include "lib/devio.h"

/* A device that is a member of some array, or was once: something of a superblock was found. */
struct scan_device {
	char path[PATH_MAX];
	uint64_t bytes;
	struct ddr_supers supers;	/* supers.newest < 0: damaged, supers say how */
	struct ddr_error error;		/* then: the sentence */
};

struct scan {
	struct scan_device *dev;
	size_t n;
};

/* Scans. Devices that cannot be opened or read, and those without any trace of ddraid, are left out. */
int scan_devices(struct scan *scan, struct ddr_error *err);
void scan_free(struct scan *scan);

/* An array that was assembled; the candidates borrow from the scan. */
struct scan_array {
	struct ddr_candidate cand[DDR_ASSEMBLE_MAX];
	size_t n;
	struct ddr_assembly assembly;
};

/*
 * Assembles the array that @which names: a uuid, or a name. @known: see ddr_assemble().
 * Returns 0, or -1 with @err (no such array, a name that two arrays have, or a refusal
 * of ddr_assemble()).
 */
int scan_assemble(const struct scan *scan, const char *which, const struct ddr_known *known,
		  struct scan_array *array, struct ddr_error *err);

struct scan_name {
	uint8_t uuid[DDR_UUID_LEN];
	char name[DDR_NAME_LEN];
};

/*
 * The arrays that the scan found, each once, in the order of their names. Returns how
 * many were stored, at most @max.
 */
size_t scan_arrays(const struct scan *scan, struct scan_name *list, size_t max);

/* The device's size in 512-byte sectors. */
static inline uint64_t scan_sectors(const struct ddr_super *sb)
{
	return sb->array_blocks * (DDR_BLOCK_SIZE / 512);
}

/*
 * The parameters of the table line, without start, length and target name: for
 * libdevmapper and `table`. Stale and missing members are '-'. Returns 0, or -1
 * if @size is too small.
 */
int scan_table_params(const struct scan_array *array, char *buf, size_t size);

#endif
