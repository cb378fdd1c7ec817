/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Opens one device, and reads its superblocks, or reads (or writes) a part of an open one, in a thread of its own. So a disk that neither
 * answers nor fails delays nobody for longer than a limit.
 *
 * A thread that hangs in the kernel cannot be ended. It is left alone and keeps what it uses: the look, the descriptor and the memory of
 * the read belong to it until it ends by itself. While it hangs, its device is not opened again.
 * Must never: write anything but what ddr_look_write() was given; touch the look of a thread that has not ended.
 */
#ifndef DDR_LIB_LOOK_H
#define DDR_LIB_LOOK_H

#include <limits.h>
#include <stdbool.h>

#include "lib/disk/assemble.h"
#include "lib/disk/devio.h"

struct ddr_look {
	char path[PATH_MAX];
	unsigned int flags;		/* DDR_DEV_... */
	/* results; valid only after ddr_look_wait() returned true */
	bool opened;			/* else error has the reason */
	struct ddr_dev dev;		/* ddr_look_open(): the open device; the code that takes it over leaves fd -1 and no path */
	uint64_t bytes;
	struct ddr_supers supers;	/* newest < 0: error has the reason */
	char foreign[DDR_FOREIGN_LEN];	/* ddr_look_start() and ddr_look_member(): another program's signature on the member (foreign.h), or "" */
	bool whole;			/* ddr_look_bytes(): all of buf was read; ddr_look_write(): it is durable; else error has the reason */
	void *buf;			/* freed with the look */
	struct ddr_error error;
	/* internal */
	enum { DDR_LOOK_ALL, DDR_LOOK_OPEN, DDR_LOOK_READ, DDR_LOOK_MEMBER, DDR_LOOK_BYTES, DDR_LOOK_WRITE } what;
	uint64_t offset;
	size_t len;
	struct ddr_look *next;
	unsigned int refs;
	bool ended, told;
	bool brief;			/* DDR_LOOK_BRIEF, and nobody who waits for it needs more */
	bool cut_short;			/* it found nothing, and will not search any more */
	int tid;			/* of the thread, once it runs */
	uint64_t due_ms;
};

/*
 * A flag for ddr_look_start(), beside DDR_DEV_...: if there is nothing of ours at the place of the first superblock, the second one is not
 * searched for. That search takes 32 reads.
 */
#define DDR_LOOK_BRIEF	(1u << 16)

enum ddr_look_start { DDR_LOOK_RUNS, DDR_LOOK_HANGS, DDR_LOOK_FAILED };

/*
 * Starts to look at @path, read-only, for at most @limit_ms. RUNS: wait for *@look, and put it. If an earlier call of
 * this function for the same path is in progress and not late, that one is returned; a brief one then becomes a full one. HANGS: an earlier thread for
 * this path is late. FAILED: out of memory, or no thread could be started; see @err. The functions below wait for an
 * earlier thread that is not late.
 */
enum ddr_look_start ddr_look_start(struct ddr_look **look, const char *path, unsigned int flags, unsigned int limit_ms, struct ddr_error *err);
/* The same, but opens the device with @flags and reads nothing. */
enum ddr_look_start ddr_look_open(struct ddr_look **look, const char *path, unsigned int flags, unsigned int limit_ms, struct ddr_error *err);
/*
 * The same for an open device: reads its superblocks. The thread has its own descriptor of the same open file, and so
 * holds its lock.
 */
enum ddr_look_start ddr_look_read(struct ddr_look **look, const struct ddr_dev *dev, unsigned int limit_ms, struct ddr_error *err);
/* The same, and searches for another program's signature. */
enum ddr_look_start ddr_look_member(struct ddr_look **look, const struct ddr_dev *dev, unsigned int limit_ms, struct ddr_error *err);
/* The same, but reads @len bytes (not 0) at @offset of an open device, both multiples of 4096. */
enum ddr_look_start ddr_look_bytes(struct ddr_look **look, const struct ddr_dev *dev, uint64_t offset, size_t len, unsigned int limit_ms, struct ddr_error *err);
/*
 * The same, but writes a copy of the @len bytes at @from, and flushes the device. One that is late may still land, at any time: the thread has the lock
 * until it has ended.
 */
enum ddr_look_start ddr_look_write(struct ddr_look **look, const struct ddr_dev *dev, const void *from, uint64_t offset, size_t len, unsigned int limit_ms,
				   struct ddr_error *err);
/* Waits until the look has ended, or its limit has passed. Returns false then: nothing of @look but its path may be read. */
bool ddr_look_wait(struct ddr_look *look);
/*
 * Waits until one of @n has ended or is late, or until @until_ms (of ddr_look_now()). Returns its index, or -1 if the
 * time passed first.
 */
int ddr_look_wait_first(struct ddr_look *const look[], size_t n, uint64_t until_ms);
/* Has it ended? Then its fields may be read. */
bool ddr_look_ended(struct ddr_look *look);
/*
 * The progress of its thread, as a number: it changes while the thread computes, waits for a processor, or completes reads one by
 * one (slow); it stays the same while the thread waits for a single answer (hanging).
 */
uint64_t ddr_look_moves(struct ddr_look *look);
/* Milliseconds of the monotonic clock. */
uint64_t ddr_look_now(void);
/* True once for each late look at @path, so that it is only reported once. */
bool ddr_look_tell(const char *path);
/* Releases it; a thread that still runs continues without the caller. NULL is allowed. */
void ddr_look_put(struct ddr_look *look);

#endif
