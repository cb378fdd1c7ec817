/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Synchronous, unbuffered access to one member device: for create, examine, assembly and the start of the daemon.
 * (I/O beside user I/O goes through the daemon's io_uring instead.)
 *
 * Everything is O_DIRECT on block devices: the page cache of a member is coherent neither with the target's bios nor
 * with other nodes. Regular files are accepted where the caller allows them (tests). The functions block, so they
 * must not be called in an event loop. One struct ddr_dev must not be used by two threads at once. Must never write
 * what it was not asked to.
 */
#ifndef DDR_LIB_DEVIO_H
#define DDR_LIB_DEVIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/disk/format_owner.h"
#include "lib/disk/holder.h"
#include "lib/error.h"

#define DDR_DEV_WRITE	(1u << 0)	/* read and write; default: read only */
#define DDR_DEV_EXCL	(1u << 1)	/* refuse a block device that is in use (mounted, held by dm, md...) */
#define DDR_DEV_FILE	(1u << 2)	/* accept regular files, too */
#define DDR_DEV_OWN	(1u << 3)	/* through a device node of our own (own_node.h): for I/O that may outlive this process */

struct ddr_dev_lock;

struct ddr_dev {
	int fd;
	char *path;			/* as given; owned */
	bool is_block;
	dev_t rdev;			/* block: its number; file: that of the file system */
	ino_t ino;			/* file: inode; block: 0 */
	uint64_t bytes;
	uint32_t logical_sector;	/* bytes */
	uint32_t physical_sector;	/* bytes */
	bool own;			/* fd is of our own node */
	int own_error;			/* DDR_DEV_OWN, but fd is of the usual node: why our own could not be created */
	struct ddr_dev_lock *lock;	/* what its lock needs besides fd; owned, may be NULL */
};

/* Opens @path and learns its sizes. Returns 0, or -1 with @err and nothing open. */
int ddr_dev_open(struct ddr_dev *dev, const char *path, unsigned int flags, struct ddr_error *err);
/* Closes what ddr_dev_open() opened. A struct with fd -1 and path NULL is allowed. */
void ddr_dev_close(struct ddr_dev *dev);
/*
 * Opens a second descriptor of the same open file: its lock lasts until both are closed. Copies nothing else. The
 * caller closes @copy. 0 or -1.
 */
int ddr_dev_dup(const struct ddr_dev *dev, struct ddr_dev *copy);

/*
 * Locks (dev_lock.c). All programs of ddraid exclude each other through our own node.
 *
 * A program that uses a device through our own node (DDR_DEV_OWN: the daemon) holds its lock until its last request
 * has ended, even beyond its own death. It never holds the lock of the usual node, because udev would wait for it. It
 * only checks once that nobody holds that one exclusively, as daemons of earlier releases did.
 *
 * A program that uses a device through its usual node (the command, for seconds) locks both, the usual one against
 * other programs (of a partition: the one of the whole disk). A regular file has one lock.
 */
enum ddr_lock_state {
	DDR_LOCK_TAKEN,
	DDR_LOCK_BUSY,		/* our own node is locked: by another program of ddraid, or by I/O of a daemon that has died */
	DDR_LOCK_BUSY_USUAL,	/* the usual node is locked by another program; we hold our own */
	DDR_LOCK_FAILED,
};

/*
 * Tries once, and does not sleep. @holder (may be NULL): if it is busy, who holds the lock; finding that out takes
 * some milliseconds. @err: set if FAILED.
 */
enum ddr_lock_state ddr_dev_try_lock(struct ddr_dev *dev, struct ddr_holder *holder, struct ddr_error *err);
/* DDR_DEV_OWN: the holder of the usual node's lock is no daemon of an earlier release. It is not waited for any more. */
void ddr_dev_pass_usual(struct ddr_dev *dev);
/*
 * Tries for @wait_ms, and sleeps. With DDR_DEV_OWN, a program other than ddraidd that holds the usual node's lock is
 * not waited for. Returns 0, or -1 with @err, which names the holder.
 */
int ddr_dev_lock(struct ddr_dev *dev, unsigned int wait_ms, struct ddr_error *err);
/*
 * For ddr_dev_open() and ddr_dev_close(). Opens what the lock of a DDR_DEV_OWN device needs of its usual node. 0 or
 * -1 with @err.
 */
int ddr_dev_lock_prepare(struct ddr_dev *dev, struct ddr_error *err);
void ddr_dev_lock_free(struct ddr_dev_lock *lock);
/* The current size in bytes, which may be larger than when it was opened; 0: unknown. */
uint64_t ddr_dev_size(const struct ddr_dev *dev);
/* True if both are the same disk or file. */
bool ddr_dev_same(const struct ddr_dev *a, const struct ddr_dev *b);

/* Zeroed memory for unbuffered I/O of @size bytes (rounded up to 4096). NULL: out of memory. Free it with free(). */
void *ddr_dev_buffer(size_t size);
/*
 * Whole reads and writes: @buf from ddr_dev_buffer(), @len and @offset multiples of
 * 4096. Return 0, or -1 with @err and errno. A write is durable after ddr_dev_sync().
 */
int ddr_dev_read(const struct ddr_dev *dev, void *buf, size_t len, uint64_t offset, struct ddr_error *err);
int ddr_dev_write(const struct ddr_dev *dev, const void *buf, size_t len, uint64_t offset, struct ddr_error *err);
/* Zeroes @len bytes at @offset, both multiples of 4096, by writing. */
int ddr_dev_zero(const struct ddr_dev *dev, uint64_t offset, uint64_t len, struct ddr_error *err);
int ddr_dev_sync(const struct ddr_dev *dev, struct ddr_error *err);
/* Drops the page cache of a block device (BLKFLSBUF), so that buffered readers see the disk. */
int ddr_dev_drop_cache(const struct ddr_dev *dev, struct ddr_error *err);

/* What was found at the places of a member's superblocks. */
struct ddr_supers {
	struct {
		bool found;			/* super holds a checked superblock */
		bool read_failed;		/* error says why; fault is not set */
		uint64_t offset;		/* where it was read; copy 1: 0 if it was not found anywhere */
		struct ddr_fault fault;
		struct ddr_super super;
		struct ddr_error error;
	} copy[DDR_SB_COPIES];
	bool conflict;				/* both are valid, but of different members or arrays */
	int newest;				/* index of the copy that is used, -1: none */
	struct ddr_owners owners;		/* that belong to it; of format 1: only the nodes that have slots */
};

/*
 * Reads both copies of @dev's superblock, and of format 2 the owner pages of each: a copy counts as valid only together with its pages. Copy 0 says where copy 1 lies; if copy 0 is lost, copy 1 is searched for at
 * every place where it may lie. Returns 0 if a valid one was found, else -1 with one sentence in @err; @out is filled
 * in both cases.
 */
int ddr_dev_read_supers(const struct ddr_dev *dev, struct ddr_supers *out, struct ddr_error *err);
/*
 * A single read: false if there is nothing of ours at the place of the first superblock. Such a device can only be a member whose first
 * superblock was overwritten. True in all other cases, also if it cannot be read.
 */
bool ddr_dev_may_be_member(const struct ddr_dev *dev);
/*
 * Writes @sb to the copy that its sequence number selects. Durable when it returns 0. The caller makes sure that
 * sequence numbers only grow, by one step per write. Of format 2, the pages with @owners are written before it, and are durable then; of format 1
 * @owners may be NULL.
 */
int ddr_dev_write_owned(const struct ddr_dev *dev, const struct ddr_super *sb, const struct ddr_owners *owners, struct ddr_error *err);
/* The same for an array of format 1; others are refused. */
int ddr_dev_write_super(const struct ddr_dev *dev, const struct ddr_super *sb, struct ddr_error *err);

/*
 * Has the device behind @fd gone away: was its disk pulled, or its last path lost? Its size is 0 then, and the kernel
 * answers I/O to it with "no space" or not at all. Does not block. Always false for anything but a block device.
 */
bool ddr_dev_gone(int fd);
/* The text of @error, a negative errno. If the device behind @fd has gone away, the text says that instead. */
const char *ddr_dev_strerror(int fd, int error);

#endif
