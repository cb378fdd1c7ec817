/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The member devices of one array, open and locked, shared by everything that does I/O on them.
 *
 * They are opened through device nodes of our own (own_node.h). The lock (flock, exclusive) on such a node shows a new daemon whether
 * its predecessor's I/O has ended: requests in flight hold the open file beyond the death of their process. So a descriptor is only
 * closed when nothing uses it any more; otherwise a late request could go to another file that got the same number. When the array is
 * closed here, each member is unlocked as soon as no request of ours can reach it any more: one that hangs keeps its own lock, not
 * those of the others.
 */
#ifndef DDR_DAEMON_MEMBERS_H
#define DDR_DAEMON_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include <ddraid/uapi.h>

#include "daemon/base/still.h"
#include "lib/conf.h"
#include "lib/disk/devio.h"

#define DDR_MEMBERS_OLD	32u
#define DDR_DEVICE_PATH_LEN	160u	/* bytes: "/dev/mapper/" and the 127 that device-mapper allows, or a node of the kernel */
#define DDR_MEMBERS_WHO	192u	/* bytes for ddr_members_who() */

/* Users whose requests to members may outlive the array. Reading the members again (reload.h) does no harm, so it is not one of them. */
enum ddr_members_user { DDR_MEMBERS_META, DDR_MEMBERS_JOBS, DDR_MEMBERS_GROW, DDR_MEMBERS_USERS };

/* Indexed by the number of the member; before ddr_members_arrange() by the place in the table, with added devices behind. */
struct ddr_members {
	unsigned int refs;			/* only used by the loop's thread */
	uint8_t uuid[16];			/* of the array; set by the driver */
	char array[64];				/* the array in log messages: its name, or its uuid until that is known; set by the loader */
	struct ddr_members **all, *next;	/* list of those that have ended, of one daemon */
	unsigned int n;				/* number of members; before ddr_members_arrange(): of devices */
	uint32_t open;				/* bit m: dev[m] is open and locked */
	struct ddr_dev dev[DDR_MAX_MEMBERS];
	char name[DDR_MAX_MEMBERS][DDR_DEVICE_PATH_LEN];		/* for messages: /dev/..., "" if no device is known */
	uint32_t named;				/* bit m: a device is known */
	uint32_t major[DDR_MAX_MEMBERS], minor[DDR_MAX_MEMBERS];	/* its numbers */
	char error[DDR_MAX_MEMBERS][320];	/* why it is not open, or "" */
	uint32_t exchanged;			/* bit m: dev[m] is another disk now; nothing is sent to it */
	char found[DDR_MAX_MEMBERS][128];	/* what that disk holds */
	struct ddr_still still;			/* of an array that is served without a cluster; with it, since what waits for them may outlive the array */
	bool ended;				/* the array is closed: a member is unlocked when no request to it is in progress */
	uint32_t kept[DDR_MEMBERS_USERS];	/* then: members with requests of this user in progress */
	unsigned int n_old;
	struct ddr_dev old[DDR_MEMBERS_OLD];	/* descriptors of devices that were members; they may still be in use */
};

/* Nothing open; one reference. NULL: out of memory. */
struct ddr_members *ddr_members_new(void);
void ddr_members_get(struct ddr_members *m);
/* The last reference closes everything. */
void ddr_members_put(struct ddr_members *m);
/* The descriptor of member @i, or -1: none is open, or its device is another disk now. */
int ddr_members_fd(const struct ddr_members *m, unsigned int i);

/*
 * Opens the devices that @bind names, O_DIRECT. A device that cannot be opened, or not within @limit_ms, is not an error: it is not
 * in @m->open, and its error[] says why. -1 with @err: this process could not try it, for lack of memory or the like; then nothing is
 * known of that device. May sleep.
 */
int ddr_members_open(struct ddr_members *m, const struct ddr_bind *bind, unsigned int limit_ms, struct ddr_error *err);
/*
 * The same for one more device, which is added at the end. @path: its node. One that was added already, or for which there is no room,
 * is no error either.
 */
int ddr_members_add(struct ddr_members *m, const char *path, unsigned int limit_ms, struct ddr_error *err);
/* Closes the device at place @i, which is open: it counts as absent. Only before ddr_members_arrange(). */
void ddr_members_leave_out(struct ddr_members *m, unsigned int i, const char *why);
/*
 * From now on devices are indexed by member: the one at place from[i] is member i, for i < @n; -1: no device is known. Those of
 * @playing stay open, all others are closed.
 */
void ddr_members_arrange(struct ddr_members *m, const int from[], unsigned int n, uint32_t playing);
/*
 * Gives member @i another device: @dev, which is open and locked, and is taken over (NULL: none). False: too many replaced ones are
 * still in use. The members must not be read meanwhile (ddr_reload).
 */
bool ddr_members_replace(struct ddr_members *m, unsigned int i, struct ddr_dev *dev);
/* The device of member @i is another disk now, which holds @found: nothing is sent to it any more. It stays locked. */
void ddr_members_exchanged(struct ddr_members *m, unsigned int i, const char *found);
/* The device was checked again since, and holds the member. */
void ddr_members_own_again(struct ddr_members *m, unsigned int i);
/* Closes a replaced device, old[i]. Only while no request to it can be in progress. */
void ddr_members_close_old(struct ddr_members *m, unsigned int i);
/* "array 'data': member 2 (/dev/sdc)", for the log; the array is left out while its name is unknown. Returns @buf. */
const char *ddr_members_who(const struct ddr_members *m, unsigned int i, char *buf, size_t size);
/* Logs that @what failed on member @i with @error, a negative errno; if the device is gone, the message says that instead. */
void ddr_members_log(const struct ddr_members *m, unsigned int i, const char *what, int error);
/*
 * How long something that a machine has sent to the members may still arrive after its end, in ms: `settle`, or by what lies between this machine and the
 * devices (lib/disk/bus.h).
 */
uint32_t ddr_members_settle_ms(const struct ddr_members *m, const struct ddr_conf *conf);
/* The member whose device has these numbers, or DDR_NO_MEMBER. */
uint32_t ddr_members_by_device(const struct ddr_members *m, uint32_t major, uint32_t minor);
/* Members whose lock another program holds, and which program. */
struct ddr_members_busy {
	uint32_t usual;				/* of these: only the usual node is locked by another program; we hold our own node's lock */
	uint32_t own;				/* of these: it is unknown whether they are locked, because of a failure of this process */
	struct ddr_holder holder[DDR_MAX_MEMBERS];
};

/*
 * Locks all open devices. Returns the bits of those that another program has locked. Does not sleep. @busy may be NULL; finding out
 * who holds a lock takes some milliseconds.
 */
uint32_t ddr_members_lock(struct ddr_members *m, struct ddr_members_busy *busy);

/*
 * @user, which starts no new requests, only has requests to @members in progress. If the array has ended, members without any
 * requests are unlocked.
 */
void ddr_members_keep(struct ddr_members *m, enum ddr_members_user user, uint32_t members);
/*
 * The array is closed, and all users have reported their requests in progress. From now on members are unlocked when these end;
 * descriptors are closed with the last reference, and until then it is in the list @all of its daemon.
 */
void ddr_members_end(struct ddr_members *m, struct ddr_members **all);

/* Members of the array @uuid that requests of earlier instances on this node, which the list @all has, may still reach. */
uint32_t ddr_members_late(const struct ddr_members *all, const uint8_t uuid[16]);

/* Logs that no device node of our own could be created for a device that was opened with DDR_DEV_OWN. */
void ddr_members_tell_usual(const struct ddr_dev *dev);

/* The node of a block device, by the kernel's name ("/dev/sda"). False with errno: there is none, or it could not be looked up. */
bool ddr_device_node(unsigned int major, unsigned int minor, char *buf, size_t size);
/* The name of a device-mapper device; false: it is none, or the name does not fit. */
bool ddr_device_dm_name(unsigned int major, unsigned int minor, char *buf, size_t size);
/* A full name for messages that also opens the device: /dev/mapper/NAME for dm devices that have such a node, else the kernel's node. */
void ddr_device_name(unsigned int major, unsigned int minor, char *buf, size_t size);

#endif
