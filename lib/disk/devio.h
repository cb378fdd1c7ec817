/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Synchronous, unbuffered access to one member device: for create, examine, assembly
 * and for the daemon when it starts. (What runs beside user I/O goes through the
 * daemon's io_uring instead.)
 *
 * Everything is O_DIRECT on block devices: the page cache of a member is coherent
 * neither with the target's bios nor with other nodes. Regular files are taken where
 * the caller allows them (tests). Must never write what it was not asked to.
 * The functions block; they are for use outside any event loop. Not thread-safe on one struct ddr_dev.
 */
#ifndef DDR_LIB_DEVIO_H
#define DDR_LIB_DEVIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/disk/format.h"
#include "lib/disk/holder.h"
#include "lib/error.h"

#define DDR_DEV_WRITE	(1u << 0)	/* read and write; default: read only */
#define DDR_DEV_EXCL	(1u << 1)	/* refuse a block device that something uses (mounted, held by dm, md...) */
#define DDR_DEV_FILE	(1u << 2)	/* regular files are taken too */
#define DDR_DEV_OWN	(1u << 3)	/* by a device node of our own (own_node.h): for I/O that may outlive this process */

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
	bool own;			/* fd is of the node of our own */
	int own_error;			/* DDR_DEV_OWN, and fd is of the usual node: why no other one could be made */
	struct ddr_dev_lock *lock;	/* what its lock needs besides fd; owned, may be NULL */
};

/* Opens @path and learns its sizes. Returns 0, or -1 with @err and nothing open. */
int ddr_dev_open(struct ddr_dev *dev, const char *path, unsigned int flags, struct ddr_error *err);
/* Closes what ddr_dev_open() opened. A struct with fd -1 and path NULL is allowed. */
void ddr_dev_close(struct ddr_dev *dev);
/* Another descriptor, and nothing besides, of the same open file: its lock stays until both are closed. The caller closes @copy. 0 or -1. */
int ddr_dev_dup(const struct ddr_dev *dev, struct ddr_dev *copy);

/*
 * Locks (dev_lock.c). All programs of ddraid exclude each other by the node of our own. One that uses a device by it (DDR_DEV_OWN: the
 * daemon) has its lock for as long as requests are under way, beyond its own death, and never keeps the lock of the usual node, for which udev
 * waits: it only sees once that nobody has an exclusive one, since daemons of earlier releases had. One that uses it by its usual node (the command,
 * for seconds) locks that too, against other programs; for a partition that of the whole disk. A regular file has one lock.
 */
enum ddr_lock_state {
	DDR_LOCK_TAKEN,
	DDR_LOCK_BUSY,		/* by our own node: another program of ddraid has it, or I/O of a daemon that has died */
	DDR_LOCK_BUSY_USUAL,	/* by the usual node; ours is locked now */
	DDR_LOCK_FAILED,
};

/* Tries once, and does not sleep. @holder (may be NULL): who has it, if it is busy; finding that out takes some milliseconds. @err: of FAILED. */
enum ddr_lock_state ddr_dev_try_lock(struct ddr_dev *dev, struct ddr_holder *holder, struct ddr_error *err);
/* DDR_DEV_OWN: whoever has the usual node locked is no daemon of an earlier release, and is not waited for any more. */
void ddr_dev_pass_usual(struct ddr_dev *dev);
/*
 * Tries for @wait_ms; a program that is no ddraidd and has the usual node of a DDR_DEV_OWN locked is not waited for. Sleeps.
 * 0, or -1 with @err, which names who has it.
 */
int ddr_dev_lock(struct ddr_dev *dev, unsigned int wait_ms, struct ddr_error *err);
/* For ddr_dev_open() and ddr_dev_close(). Opens what the lock of a DDR_DEV_OWN needs of its usual node. 0 or -1 with @err. */
int ddr_dev_lock_prepare(struct ddr_dev *dev, struct ddr_error *err);
void ddr_dev_lock_free(struct ddr_dev_lock *lock);
/* Its size in bytes as it is now, which may be more than as it was opened; 0: it cannot be learned. */
uint64_t ddr_dev_size(const struct ddr_dev *dev);
/* True if both are the same disk or file. */
bool ddr_dev_same(const struct ddr_dev *a, const struct ddr_dev *b);

/*
 * Zeroed memory for unbuffered I/O of @size bytes (rounded up to 4096). NULL: none
 * left. Free it with free().
 */
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

/* What was found where the superblocks of a member should be. */
struct ddr_supers {
	struct {
		bool found;			/* super holds a checked superblock */
		bool read_failed;		/* error_text says why; fault is not set */
		uint64_t offset;		/* where it was looked for; copy 1: 0 if it was not found anywhere */
		struct ddr_fault fault;
		struct ddr_super super;
		struct ddr_error error;
	} copy[DDR_SB_COPIES];
	bool conflict;				/* both are valid, and of different members or arrays */
	int newest;				/* index of the copy that counts, -1: none */
};

/*
 * Reads both copies of @dev's superblock. Copy 1 lies where copy 0 says; if copy 0 is
 * lost, it is searched for at every place where it may lie. Returns 0 if one counts,
 * else -1 with one sentence in @err; @out is filled in both cases.
 */
int ddr_dev_read_supers(const struct ddr_dev *dev, struct ddr_supers *out, struct ddr_error *err);
/*
 * Writes @sb to the copy that its sequence number names. Durable when it returns 0.
 * The caller owns the rule that sequence numbers only grow, one step a write.
 */
int ddr_dev_write_super(const struct ddr_dev *dev, const struct ddr_super *sb, struct ddr_error *err);

/*
 * The device behind @fd is gone: its disk was pulled, or its last path was lost. The kernel answers I/O to it with "no space" or nothing
 * at all, since it ends at 0 then. Asking waits for nothing. What is no block device is never gone.
 */
bool ddr_dev_gone(int fd);
/* strerror(@error), a negative errno; or that the device behind @fd is gone, whatever the errno says of it. */
const char *ddr_dev_strerror(int fd, int error);

#endif
