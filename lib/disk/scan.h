/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Finds the members of arrays among the block devices of this machine, and assembles
 * one array: for `table` and `start`, and for a daemon that searches for members which no table names.
 *
 * It reads every block device that has a size, that no device but one of ddraid holds (paths
 * below a multipath device or another mapping are left to the device above), and
 * that is neither suspended, nor a ddraid device, nor lies on one; no loop devices. The caller may list
 * other devices instead (how.listed); the command does so if its environment has DDRAID_DEVICES. Nothing here reads the environment: the daemon,
 * which lists none, reads all devices in any case. Devices are opened read-only and closed again, each by a thread of its own: one that hangs counts as missing (look.h).
 */
#ifndef DDR_LIB_SCAN_H
#define DDR_LIB_SCAN_H

#include <limits.h>

#include "lib/disk/assemble.h"
#include "lib/disk/devio.h"

/* A device that is, or was, a member of some array: at least a part of a superblock was found. */
struct ddr_scan_device {
	char path[PATH_MAX];
	uint64_t bytes;
	struct ddr_supers supers;	/* supers.newest < 0: damaged, supers say how */
	struct ddr_error error;		/* then: the sentence */
	unsigned int at;		/* its place in the order of the search */
	char foreign[DDR_FOREIGN_LEN];	/* another program's signature on it, or "" */
};

/* A device that did not answer. */
struct ddr_scan_hung {
	char path[PATH_MAX];
	bool pending;			/* it is not late yet, and the scan did not wait for it: it may still answer */
	bool known;			/* it is late, and an earlier scan of this process has reported it */
};

struct ddr_scan {
	struct ddr_scan_device *dev;
	size_t n;
	struct ddr_scan_hung *hung;
	size_t n_hung;
	bool cut;			/* wait_ms was over before all that is pending had got on with nothing for the grace */
};

#define DDR_SCAN_LIMIT_MS	60000u	/* for callers without an io_timeout */
#define DDR_SCAN_GRACE_MS	1500u	/* whoever has enough waits for others until none of them has got on for so long */

struct ddr_scan_how {
	unsigned int limit_ms;		/* a device that has not answered by then counts as missing */
	unsigned int wait_ms;		/* not 0: the scan ends by then, and what has not answered is pending: a later scan goes on with it */
	/*
	 * May be NULL. True: what was found is all that is needed. Then only such devices are waited for as get on (ddr_look_moves()): one of them may
	 * be the copy of a member, which must not be missed for being slow. What answers nothing for the grace is left alone, and is pending.
	 */
	bool (*enough)(void *ctx, const struct ddr_scan *scan);
	void *ctx;
	const dev_t *leave_out;		/* block devices that must not be opened */
	size_t n_leave_out;
	/* Paths or shell patterns, separated by blanks, to look at instead of all block devices; regular files count there too. Or NULL. */
	const char *listed;
};

/*
 * Scans. Devices that cannot be opened or read, and those without any trace of ddraid, are left out. Sleeps, for long only where
 * devices hang. 0, or -1 with @err and nothing to free.
 */
int ddr_scan_devices(struct ddr_scan *scan, const struct ddr_scan_how *how, struct ddr_error *err);
void ddr_scan_free(struct ddr_scan *scan);
/* scan_sys.c, for scan.c: may the block device of that name (in sysfs) hold a member? It is not opened. */
bool ddr_scan_worth_opening(const char *name);

/* An array that was assembled; the candidates borrow from the scan. */
struct ddr_scan_array {
	struct ddr_candidate cand[DDR_ASSEMBLE_MAX];
	size_t n;
	struct ddr_assembly assembly;
};

/*
 * Assembles the array that @which names: a uuid, or a name. @known: see ddr_assemble().
 * Returns 0, or -1 with @err (no such array, a name that two arrays have, or a refusal
 * of ddr_assemble()).
 */
int ddr_scan_assemble(const struct ddr_scan *scan, const char *which, const struct ddr_known *known,
		  struct ddr_scan_array *array, struct ddr_error *err);

struct ddr_scan_name {
	uint8_t uuid[DDR_UUID_LEN];
	char name[DDR_NAME_LEN];	/* from its newest superblock: a disk that was missing when the array was renamed has the old name */
	size_t device;			/* index of the device with that superblock */
};

/*
 * The arrays that the scan found, each once, in the order of their names. Returns how
 * many were stored, at most @max.
 */
size_t ddr_scan_arrays(const struct ddr_scan *scan, struct ddr_scan_name *list, size_t max);
/* The other array of @list that has the name of entry @i, or NULL. */
const struct ddr_scan_name *ddr_scan_twin(const struct ddr_scan_name *list, size_t n, size_t i);

/* The device's size in 512-byte sectors. */
static inline uint64_t ddr_scan_sectors(const struct ddr_super *sb)
{
	return sb->array_blocks * (DDR_BLOCK_SIZE / 512);
}

/* Options of the table, see dm-ddraid(7). */
#define DDR_TABLE_VERIFY_READS		1u	/* an array without parity does not take it */
#define DDR_TABLE_FAIL_IF_NO_DAEMON	2u

/*
 * The parameters of the table line, without start, length and target name: for
 * libdevmapper and `table`. Stale and missing members are '-'. @options: DDR_TABLE_*. Returns 0, or -1
 * if @size is too small.
 */
int ddr_scan_table_params(const struct ddr_scan_array *array, unsigned int options, char *buf, size_t size);

/*
 * The parameters of a table with "@major:@minor" (both 0: with "-") at @place of the stripe, else as they were. What stood beside that place,
 * to replace what was there, goes, and so does this device where it stood beside another one; what replaces another member stays. Returns
 * the new text, to be freed, or NULL: it is no table of ours, or there is no memory. *@same: it says so already.
 */
char *ddr_scan_table_replace(const char *params, uint32_t place, uint32_t major, uint32_t minor, bool *same);
/* Likewise, with that device as the one that replaces what stands at @place; both 0: with none anywhere. Not for one with nosync. */
char *ddr_scan_table_shadow(const char *params, uint32_t place, uint32_t major, uint32_t minor, bool *same);

#endif
