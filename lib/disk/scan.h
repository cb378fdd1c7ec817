/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Finds the members of arrays among the block devices of this machine, and assembles one array: for `table` and
 * `start`, and for a daemon that searches for members that no table names.
 *
 * It reads every block device that has a size (ddr_scan_by_udev(): only some of them, if these are enough), except: devices held by anything but a ddraid device (paths below a
 * multipath device or another mapping are left to the device above), suspended devices, ddraid devices and what lies
 * on them, and loop devices. The caller may list other devices instead (how.listed); the command does so if its
 * environment has DDRAID_DEVICES. Nothing here reads the environment: the daemon lists none and always reads all
 * devices.
 *
 * Devices are opened read-only and closed again, each by a thread of its own: one that hangs counts as missing
 * (look.h).
 */
#ifndef DDR_LIB_SCAN_H
#define DDR_LIB_SCAN_H

#include <limits.h>

#include "lib/disk/assemble.h"
#include "lib/disk/devio.h"

/* A device that is, or was, a member of some array: at least part of a superblock was found. */
struct ddr_scan_device {
	char path[PATH_MAX];
	uint64_t bytes;
	struct ddr_supers supers;	/* supers.newest < 0: damaged, with the faults in supers */
	struct ddr_error error;		/* then: the message */
	unsigned int at;		/* its place in the order of the search */
	char foreign[DDR_FOREIGN_LEN];	/* another program's signature on it, or "" */
};

/* A device that did not answer. */
struct ddr_scan_hung {
	char path[PATH_MAX];
	bool pending;			/* not late yet, but the scan did not wait for it: it may still answer */
	bool known;			/* late, and already reported by an earlier scan of this process */
};

struct ddr_scan {
	struct ddr_scan_device *dev;
	size_t n;
	struct ddr_scan_hung *hung;
	size_t n_hung;
	bool cut;			/* wait_ms passed while pending devices were still making progress */
};

#define DDR_SCAN_LIMIT_MS	60000u	/* for callers without an io_timeout */
#define DDR_SCAN_GRACE_MS	1500u	/* once everything needed is found, others are only waited for until none has made progress for this long */

struct ddr_scan_how {
	unsigned int limit_ms;		/* a device that has not answered within this time counts as missing */
	unsigned int wait_ms;		/* not 0: the scan ends after this time; a later scan continues with the pending devices */
	/*
	 * May be NULL. True: everything needed was found. From then on only devices that make progress
	 * (ddr_look_moves()) are waited for: one of them may hold a copy of a member, which must not be missed
	 * because the disk is slow. A device without progress for the grace time is left alone, and is pending.
	 */
	bool (*enough)(void *ctx, const struct ddr_scan *scan);
	void *ctx;
	const dev_t *leave_out;		/* block devices that must not be opened */
	size_t n_leave_out;
	/*
	 * Paths or shell patterns, separated by blanks, that are read instead of all block devices; regular files are
	 * accepted there, too. Or NULL.
	 */
	const char *listed;
	/*
	 * Only for ddr_scan_by_udev(): leaves out devices by what udev's database says of them (scan_udev.h). NULL: none. Has no
	 * meaning with a list.
	 */
	struct ddr_scan_first *first;
};

/*
 * Scans. Devices that cannot be opened or read, and those without any trace of ddraid, are left out. Sleeps, but only
 * for long if devices hang. 0, or -1 with @err and nothing to free.
 */
int ddr_scan_devices(struct ddr_scan *scan, const struct ddr_scan_how *how, struct ddr_error *err);
void ddr_scan_free(struct ddr_scan *scan);
/*
 * In scan_sys.c, for scan.c: may the block device with this name in sysfs hold a member? Neither opens it. The first one only knows the
 * name, the second one reads sysfs.
 */
bool ddr_scan_never_a_member(const char *name);
bool ddr_scan_worth_opening(const char *name);
/*
 * In scan_first.c: the same as ddr_scan_devices(), but at first only reads the devices that udev's database has as members of @which (a
 * uuid; a name, or NULL: as members of any array), and those of which it does not know what they hold. If that gives the whole array, or
 * whole arrays and at least one, other devices are not read. Else all are, as by ddr_scan_devices(). What was read from the disks decides,
 * never udev.
 */
int ddr_scan_by_udev(struct ddr_scan *scan, const struct ddr_scan_how *how, const char *which, struct ddr_error *err);

/* An assembled array; the candidates borrow from the scan. */
struct ddr_scan_array {
	struct ddr_candidate cand[DDR_ASSEMBLE_MAX];
	size_t n;
	struct ddr_assembly assembly;
};

/*
 * Assembles the array that @which names: a uuid, or a name. @known: see ddr_assemble(). Returns 0, or -1 with @err
 * (no such array, two arrays with this name, or a refusal of ddr_assemble()).
 */
int ddr_scan_assemble(const struct ddr_scan *scan, const char *which, const struct ddr_known *known,
		  struct ddr_scan_array *array, struct ddr_error *err);

struct ddr_scan_name {
	uint8_t uuid[DDR_UUID_LEN];
	char name[DDR_NAME_LEN];	/* from its newest superblock: a disk that was missing when the array was renamed still has the old name */
	size_t device;			/* index of the device with that superblock */
};

/* Lists the arrays that the scan found, each once, sorted by name. Returns how many were stored, at most @max. */
size_t ddr_scan_arrays(const struct ddr_scan *scan, struct ddr_scan_name *list, size_t max);
/* Another array of @list with the same name as entry @i, or NULL. */
const struct ddr_scan_name *ddr_scan_twin(const struct ddr_scan_name *list, size_t n, size_t i);

/* The device's size in 512-byte sectors. */
static inline uint64_t ddr_scan_sectors(const struct ddr_super *sb)
{
	return sb->array_blocks * (DDR_BLOCK_SIZE / 512);
}

/* Options of the table, see dm-ddraid(7). */
#define DDR_TABLE_VERIFY_READS		1u	/* not for an array without parity */
#define DDR_TABLE_FAIL_IF_NO_DAEMON	2u

/*
 * The parameters of the table line, without start, length and target name: for libdevmapper and `table`. Stale and
 * missing members are '-'. @options: DDR_TABLE_*. Returns 0, or -1 if @size is too small.
 */
int ddr_scan_table_params(const struct ddr_scan_array *array, unsigned int options, char *buf, size_t size);

/*
 * The parameters @params with the device "@major:@minor" (both 0: "-") at place @place of the stripe; the rest stays
 * the same. A "replace" option for this place is dropped, and so is one that names this device elsewhere; one for
 * another member stays. Returns the new text, which the caller frees, or NULL: @params is no ddraid table, or out of
 * memory. *@same: the table already said this.
 */
char *ddr_scan_table_replace(const char *params, uint32_t place, uint32_t major, uint32_t minor, bool *same);
/*
 * The same, with that device as the replacement of the one at @place; both 0: without any replacement. Not for a
 * table with nosync.
 */
char *ddr_scan_table_shadow(const char *params, uint32_t place, uint32_t major, uint32_t minor, bool *same);

#endif
