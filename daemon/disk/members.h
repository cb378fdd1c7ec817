/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The member devices of one array, open and locked, shared by all that do I/O on them.
 *
 * They are opened by device nodes of our own (own_node.h), and the lock (flock, exclusive) on those is what tells a new daemon that
 * its predecessor's I/O has ended: requests in flight hold the open file beyond the death of their process. So a
 * descriptor is closed only when nothing uses it any more, or a late request could go
 * to whatever file has taken the number. When the array is closed here, each member's lock goes as soon as nothing of ours
 * can reach that member any more: one that hangs keeps its own, and not those of the others.
 */
#ifndef DDR_DAEMON_MEMBERS_H
#define DDR_DAEMON_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include <ddraid/uapi.h>

#include "lib/disk/devio.h"

#define DDR_MEMBERS_OLD	32u
#define DDR_DEVICE_PATH_LEN	160u	/* bytes: "/dev/mapper/" and the 127 that device-mapper allows, or a node of the kernel */
#define DDR_MEMBERS_WHO	192u	/* bytes for ddr_members_who() */

/* Whose requests to members may outlive the array. What reads the members anew (reload.h) harms nobody, and is none of them. */
enum ddr_members_user { DDR_MEMBERS_META, DDR_MEMBERS_JOBS, DDR_MEMBERS_GROW, DDR_MEMBERS_USERS };

/* Everything by the number of the member; before ddr_members_arrange() by the place in the table, and behind those as added. */
struct ddr_members {
	unsigned int refs;			/* the loop's thread only */
	uint8_t uuid[16];			/* of the array; the driver's */
	char array[64];				/* what it is called in the log: its name, or its uuid before that is known; the loader's */
	struct ddr_members *next;		/* that has ended */
	unsigned int n;				/* members; before: devices */
	uint32_t open;				/* bit m: dev[m] is open and locked */
	struct ddr_dev dev[DDR_MAX_MEMBERS];
	char name[DDR_MAX_MEMBERS][DDR_DEVICE_PATH_LEN];		/* for people: /dev/..., "" if no device is known */
	uint32_t named;				/* bit m: a device is known */
	uint32_t major[DDR_MAX_MEMBERS], minor[DDR_MAX_MEMBERS];	/* of it */
	char error[DDR_MAX_MEMBERS][320];	/* why it is not open, or "" */
	uint32_t exchanged;			/* bit m: another disk is behind dev[m] than this member; nothing is sent to it */
	char found[DDR_MAX_MEMBERS][128];	/* what is on that */
	bool ended;				/* the array is closed: locks go when nothing is under way */
	uint32_t kept[DDR_MEMBERS_USERS];	/* then: members that have requests of this user under way */
	unsigned int n_old;
	struct ddr_dev old[DDR_MEMBERS_OLD];	/* descriptors of devices that were a member; something may use them still */
};

/* Nothing open; one reference. NULL: no memory. */
struct ddr_members *ddr_members_new(void);
void ddr_members_get(struct ddr_members *m);
/* The last one closes everything. */
void ddr_members_put(struct ddr_members *m);
/* Descriptor of member @i, or -1: none is open, or its device holds another disk now. */
int ddr_members_fd(const struct ddr_members *m, unsigned int i);

/*
 * Opens what @bind names, O_DIRECT. A device that does
 * not open, or not within @limit_ms, is not an error: it is not in @m->open, and its error[] says why. May sleep.
 */
void ddr_members_open(struct ddr_members *m, const struct ddr_bind *bind, unsigned int limit_ms);
/*
 * Opens one more device at the end, by the node at @path. False: it does not open, is there already, or there are
 * too many. May sleep.
 */
bool ddr_members_add(struct ddr_members *m, const char *path, unsigned int limit_ms);
/* The device at place @i, which is open, counts as not there: closes it. Before ddr_members_arrange() only. */
void ddr_members_leave_out(struct ddr_members *m, unsigned int i, const char *why);
/*
 * From then on by the numbers of members: what is at place from[i] is member i, for i < @n; -1: no device is known. Those of
 * @playing stay open, all others are closed.
 */
void ddr_members_arrange(struct ddr_members *m, const int from[], unsigned int n, uint32_t playing);
/*
 * Member @i has another device from now on: @dev, which is open and locked, and is taken over (NULL: none). False: too
 * many that were replaced are still in use. Nobody may read the members meanwhile (ddr_reload).
 */
bool ddr_members_replace(struct ddr_members *m, unsigned int i, struct ddr_dev *dev);
/* The device of member @i holds another disk now, with @found on it: nothing of ours may reach it any more. Its lock stays. */
void ddr_members_exchanged(struct ddr_members *m, unsigned int i, const char *found);
/* It was looked at since, and is the member's own again. */
void ddr_members_own_again(struct ddr_members *m, unsigned int i);
/* Closes what was replaced: old[i]. Only while no request to it can be under way. */
void ddr_members_close_old(struct ddr_members *m, unsigned int i);
/* "array 'data': member 2 (/dev/sdc)", for the log; an array that has no name yet is left out. Returns @buf. */
const char *ddr_members_who(const struct ddr_members *m, unsigned int i, char *buf, size_t size);
/* Logs that @what failed on member @i with @error, a negative errno: "the device is gone" if it is, whatever the errno says. */
void ddr_members_log(const struct ddr_members *m, unsigned int i, const char *what, int error);
/* The member whose device has these numbers, or DDR_NO_MEMBER. */
uint32_t ddr_members_by_device(const struct ddr_members *m, uint32_t major, uint32_t minor);
/* Those whose lock is not to be had, and who has it. */
struct ddr_members_busy {
	uint32_t usual;				/* of these: only the usual node is locked; ours is locked by now */
	struct ddr_holder holder[DDR_MAX_MEMBERS];
};

/*
 * Locks all that are open. Returns the bits of those that somebody else has locked. Does not sleep. @busy may be NULL; to find out who
 * has them takes some milliseconds.
 */
uint32_t ddr_members_lock(struct ddr_members *m, struct ddr_members_busy *busy);

/*
 * @user, which begins no new requests, has some under way to @members alone. Where the array has ended, the locks of those to
 * which nobody has any go.
 */
void ddr_members_keep(struct ddr_members *m, enum ddr_members_user user, uint32_t members);
/* The array is closed, and all users have said what they have under way. From now on locks go when that ends; descriptors go with the last reference. */
void ddr_members_end(struct ddr_members *m);

/* Members of the array @uuid to which requests of its instances here that have ended may be under way still. */
uint32_t ddr_members_late(const uint8_t uuid[16]);

/* A line of the log if no device node of our own could be made for a device that was opened with DDR_DEV_OWN. */
void ddr_members_tell_usual(const struct ddr_dev *dev);

/* The node of a block device as the kernel names it ("/dev/sda"); false if there is none. */
bool ddr_device_node(unsigned int major, unsigned int minor, char *buf, size_t size);
/* The name that device-mapper has for it; false: it is no mapped device, or that does not fit. */
bool ddr_device_dm_name(unsigned int major, unsigned int minor, char *buf, size_t size);
/* Its name for people, whole, which opens it: /dev/mapper/NAME for dm devices that have such a node, else the node of the kernel. */
void ddr_device_name(unsigned int major, unsigned int minor, char *buf, size_t size);

#endif
