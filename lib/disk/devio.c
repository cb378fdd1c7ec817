/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Unbuffered device access; see devio.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/disk/devio.h"
#include "lib/disk/own_node.h"

#define READS		5u		/* of superblocks that another node changes meanwhile; a change is seen only once */
#define ZERO_RUN	(1u << 20)	/* bytes written at once by ddr_dev_zero() */

/* -------------------------------------------------- open and close */

static int learn_block(struct ddr_dev *dev, struct ddr_error *err)
{
	int logical = 0;
	unsigned int physical = 0;

	if (ioctl(dev->fd, BLKGETSIZE64, &dev->bytes) || ioctl(dev->fd, BLKSSZGET, &logical) ||
	    ioctl(dev->fd, BLKPBSZGET, &physical))
		return ddr_error_call(err, errno, "%s: cannot read its size and sector size: %s", dev->path, strerror(errno));
	if (logical < 512 || physical < (unsigned int)logical)
		return ddr_error_set(err, "%s: reports impossible sector sizes: %d bytes (logical) and %u bytes (physical)", dev->path, logical,
				     physical);
	dev->logical_sector = (uint32_t)logical;
	dev->physical_sector = physical;
	return 0;
}

uint64_t ddr_dev_size(const struct ddr_dev *dev)
{
	uint64_t bytes = 0;
	struct stat st;

	if (dev->is_block)
		return ioctl(dev->fd, BLKGETSIZE64, &bytes) ? 0 : bytes;
	return fstat(dev->fd, &st) ? 0 : (uint64_t)st.st_size;
}

static int learn(struct ddr_dev *dev, unsigned int flags, struct ddr_error *err)
{
	struct stat st;

	if (fstat(dev->fd, &st))
		return ddr_error_call(err, errno, "%s: %s", dev->path, strerror(errno));
	dev->is_block = S_ISBLK(st.st_mode);
	if (dev->is_block) {
		dev->rdev = st.st_rdev;
		return learn_block(dev, err);
	}
	if (!S_ISREG(st.st_mode) || !(flags & DDR_DEV_FILE))
		return ddr_error_set(err, "%s: is not a block device; give a disk, a partition or a loop device",
				     dev->path);
	dev->rdev = st.st_dev;
	dev->ino = st.st_ino;
	dev->logical_sector = 512;
	dev->bytes = (uint64_t)st.st_size / dev->logical_sector * dev->logical_sector;
	dev->physical_sector = 512;
	return 0;
}

/* The type is checked before the open: opening a fifo or a tape drive can block or do harm. */
static int check_type(const char *path, unsigned int flags, struct stat *st, struct ddr_error *err)
{
	if (stat(path, st))
		return ddr_error_call(err, errno, "%s: %s", path, strerror(errno));
	if (S_ISBLK(st->st_mode) || (S_ISREG(st->st_mode) && flags & DDR_DEV_FILE))
		return 0;
	return ddr_error_set(err, "%s: is not a block device; give a disk, a partition or a loop device", path);
}

/*
 * Opens our own node. If it cannot be created, the usual node is used: udev then waits for our lock on it, but the
 * array can start.
 */
static int open_own(struct ddr_dev *dev, dev_t rdev, int mode, struct ddr_error *err)
{
	bool absent;

	dev->fd = ddr_own_node_open(rdev, mode, &absent, err);
	if (dev->fd >= 0) {
		dev->own = true;
		return ddr_dev_lock_prepare(dev, err);
	}
	dev->own_error = errno;
	return absent ? 0 : ddr_error_prefix(err, "%s", dev->path);
}

static int open_usual(struct ddr_dev *dev, int mode, unsigned int flags, struct ddr_error *err)
{
	/* without O_CREAT, O_EXCL only has a meaning for block devices */
	dev->fd = open(dev->path, mode | (flags & DDR_DEV_EXCL ? O_EXCL : 0));
	if (dev->fd < 0 && errno == EINVAL && flags & DDR_DEV_FILE)
		dev->fd = open(dev->path, mode & ~O_DIRECT);	/* a file on a file system without O_DIRECT */
	if (dev->fd >= 0)
		return 0;
	if (errno == EBUSY)
		return ddr_error_set(err, "%s: is in use (mounted, or held by another device: see lsblk %s)", dev->path, dev->path);
	return ddr_error_call(err, errno, "%s: %s", dev->path, strerror(errno));
}

int ddr_dev_open(struct ddr_dev *dev, const char *path, unsigned int flags, struct ddr_error *err)
{
	int mode = O_CLOEXEC | O_DIRECT | (flags & DDR_DEV_WRITE ? O_RDWR : O_RDONLY);
	struct stat st;

	*dev = (struct ddr_dev){ .fd = -1 };
	if (check_type(path, flags, &st, err))
		return -1;
	dev->path = strdup(path);
	if (!dev->path)
		return ddr_error_call(err, ENOMEM, "%s: out of memory", path);
	if ((!(flags & DDR_DEV_OWN) || !S_ISBLK(st.st_mode) || open_own(dev, st.st_rdev, mode, err) == 0) &&
	    (dev->fd >= 0 || open_usual(dev, mode, flags, err) == 0) && learn(dev, flags, err) == 0)
		return 0;
	ddr_dev_close(dev);
	return -1;
}

void ddr_dev_close(struct ddr_dev *dev)
{
	if (dev->fd >= 0)
		close(dev->fd);
	ddr_dev_lock_free(dev->lock);
	free(dev->path);
	*dev = (struct ddr_dev){ .fd = -1 };
}

int ddr_dev_dup(const struct ddr_dev *dev, struct ddr_dev *copy)
{
	*copy = *dev;
	copy->lock = NULL;
	copy->path = strdup(dev->path);
	copy->fd = fcntl(dev->fd, F_DUPFD_CLOEXEC, 0);
	return copy->path && copy->fd >= 0 ? 0 : -1;
}

bool ddr_dev_same(const struct ddr_dev *a, const struct ddr_dev *b)
{
	return a->is_block == b->is_block && a->rdev == b->rdev && a->ino == b->ino;
}

/* -------------------------------------------------- reading and writing */

void *ddr_dev_buffer(size_t size)
{
	size_t whole = (size + DDR_META_BLOCK - 1) / DDR_META_BLOCK * DDR_META_BLOCK;
	void *buf;

	if (whole < size || posix_memalign(&buf, DDR_META_BLOCK, whole ? whole : DDR_META_BLOCK))
		return NULL;
	memset(buf, 0, whole);
	return buf;
}

static int io_error(const struct ddr_dev *dev, const char *what, uint64_t offset, int error, struct ddr_error *err)
{
	ddr_error_call(err, error, "%s: cannot %s at byte %" PRIu64 ": %s", dev->path, what, offset, strerror(error));
	errno = error;
	return -1;
}

int ddr_dev_read(const struct ddr_dev *dev, void *buf, size_t len, uint64_t offset, struct ddr_error *err)
{
	uint8_t *p = buf;

	while (len > 0) {
		ssize_t n = pread(dev->fd, p, len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return io_error(dev, "read", offset, errno, err);
		if (n == 0) {
			ddr_error_set(err, "%s: cannot read at byte %" PRIu64 ": the device ends there", dev->path, offset);
			errno = ENODATA;
			return -1;
		}
		p += n;
		len -= (size_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

int ddr_dev_write(const struct ddr_dev *dev, const void *buf, size_t len, uint64_t offset, struct ddr_error *err)
{
	const uint8_t *p = buf;

	/* a write beyond the end of a regular file would extend it */
	if (offset > dev->bytes || len > dev->bytes - offset)
		return io_error(dev, "write", offset, ENOSPC, err);
	while (len > 0) {
		ssize_t n = pwrite(dev->fd, p, len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return io_error(dev, "write", offset, n ? errno : ENOSPC, err);
		p += n;
		len -= (size_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

int ddr_dev_zero(const struct ddr_dev *dev, uint64_t offset, uint64_t len, struct ddr_error *err)
{
	void *zero = ddr_dev_buffer(len < ZERO_RUN ? (size_t)len : ZERO_RUN);	/* most runs are one block */
	int rc = 0;

	if (!zero)
		return ddr_error_call(err, ENOMEM, "%s: out of memory", dev->path);
	while (!rc && len > 0) {
		size_t run = len < ZERO_RUN ? (size_t)len : ZERO_RUN;

		rc = ddr_dev_write(dev, zero, run, offset, err);
		offset += run;
		len -= run;
	}
	free(zero);
	return rc;
}

int ddr_dev_sync(const struct ddr_dev *dev, struct ddr_error *err)
{
	if (fsync(dev->fd)) {
		int error = errno;

		ddr_error_call(err, error, "%s: cannot flush its cache: %s", dev->path, strerror(error));
		errno = error;
		return -1;
	}
	return 0;
}

int ddr_dev_drop_cache(const struct ddr_dev *dev, struct ddr_error *err)
{
	if (dev->is_block && ioctl(dev->fd, BLKFLSBUF, 0))
		return ddr_error_set(err, "%s: cannot drop its page cache: %s", dev->path, strerror(errno));
	return 0;
}

/* -------------------------------------------------- superblocks */

/* Memory for the search: a superblock, its pages, and what the pages of each copy say. */
struct reading {
	void *block;
	void *pages;
	struct ddr_owners *owners;
};

/* The pages of a superblock that is valid by itself. */
static void read_pages(const struct ddr_dev *dev, struct reading *r, unsigned int i, struct ddr_supers *out)
{
	const struct ddr_super *sb = &out->copy[i].super;

	if (!ddr_super_has_owners(sb)) {
		ddr_owners_init(&r->owners[i], sb);
		return;
	}
	if (ddr_dev_read(dev, r->pages, (size_t)sb->owner_pages * DDR_META_BLOCK, ddr_owner_offset(sb, i), &out->copy[i].error)) {
		out->copy[i].read_failed = true;
		out->copy[i].found = false;
		return;
	}
	out->copy[i].fault = ddr_owners_decode(r->pages, sb, &r->owners[i]);
	out->copy[i].found = out->copy[i].fault.code == DDR_FE_OK;
}

static void read_copy(const struct ddr_dev *dev, struct reading *r, unsigned int i, uint64_t offset, struct ddr_supers *out)
{
	out->copy[i].offset = offset;
	out->copy[i].read_failed = false;
	if (ddr_dev_read(dev, r->block, DDR_META_BLOCK, offset, &out->copy[i].error)) {
		out->copy[i].read_failed = true;
		return;
	}
	out->copy[i].fault = ddr_super_decode(r->block, i, offset, &out->copy[i].super);
	out->copy[i].found = out->copy[i].fault.code == DDR_FE_OK;
	if (out->copy[i].found)
		read_pages(dev, r, i, out);
}

/* Looks for copy 1 at every place where it may lie. The one that looked most like a superblock is kept for the report. */
static void search_copy1(const struct ddr_dev *dev, struct reading *r, struct ddr_supers *out)
{
	uint64_t best = 0;

	for (uint64_t end = DDR_DATA_ALIGN; end <= DDR_DATA_OFFSET_MAX && end <= dev->bytes; end += DDR_DATA_ALIGN) {
		read_copy(dev, r, 1, end - DDR_META_BLOCK, out);
		if (out->copy[1].found)
			return;
		if (!out->copy[1].read_failed && out->copy[1].fault.code != DDR_FE_BLANK &&
		    out->copy[1].fault.code != DDR_FE_MAGIC && !best)
			best = end;
	}
	if (best) {
		read_copy(dev, r, 1, best - DDR_META_BLOCK, out);
	} else {
		out->copy[1].offset = 0;
		out->copy[1].read_failed = false;
		out->copy[1].fault = (struct ddr_fault){ .code = DDR_FE_BLANK };
	}
}

static int no_super(const struct ddr_dev *dev, const struct ddr_supers *s, struct ddr_error *err)
{
	char text[2][256];

	for (unsigned int i = 0; i < DDR_SB_COPIES; i++) {
		if (s->copy[i].read_failed)
			snprintf(text[i], sizeof(text[i]), "%.255s", s->copy[i].error.text);
		else
			ddr_fault_text(&s->copy[i].fault, text[i], sizeof(text[i]));
	}
	if (!s->copy[1].offset && !s->copy[0].read_failed &&
	    (s->copy[0].fault.code == DDR_FE_BLANK || s->copy[0].fault.code == DDR_FE_MAGIC))
		return ddr_error_set(err, "%s: is not a ddraid member: no superblock (%s)", dev->path, text[0]);
	if (!s->copy[1].offset)
		return ddr_error_set(err, "%s: no valid superblock: copy 0: %s; copy 1 was not found", dev->path, text[0]);
	return ddr_error_set(err, "%s: no valid superblock: copy 0: %s; copy 1: %s", dev->path, text[0], text[1]);
}

/* Both copies, each with its pages. */
static void read_copies(const struct ddr_dev *dev, struct reading *r, struct ddr_supers *out)
{
	read_copy(dev, r, 0, DDR_SB_OFFSET, out);
	if (out->copy[0].found)
		read_copy(dev, r, 1, ddr_super_offset(&out->copy[0].super, 1), out);
	else
		search_copy1(dev, r, out);
}

/* Decides from what was read. */
static int choose_copy(const struct ddr_dev *dev, struct ddr_supers *out, struct ddr_error *err)
{
	/* one copy alone may be the older one: a member must not look stale only because we had no memory to read the other */
	for (unsigned int i = 0; i < DDR_SB_COPIES; i++)
		if (out->copy[i].read_failed && out->copy[i].error.own) {
			*err = out->copy[i].error;
			return -1;
		}

	if (out->copy[0].found && out->copy[1].found &&
	    !ddr_super_same_member(&out->copy[0].super, &out->copy[1].super)) {
		out->conflict = true;
		return ddr_error_set(err, "%s: its two superblocks are both valid, but of different arrays or members; decide which one is right "
				     "and wipe the other (4096 bytes at %" PRIu64 " or %" PRIu64 ")",
				     dev->path, out->copy[0].offset, out->copy[1].offset);
	}
	if (!out->copy[0].found && !out->copy[1].found)
		return no_super(dev, out, err);
	out->newest = ddr_super_newer(out->copy[0].found ? &out->copy[0].super : NULL,
				      out->copy[1].found ? &out->copy[1].super : NULL) == &out->copy[1].super;
	return 0;
}

/*
 * Is there a superblock whose pages are another one's? If no copy is valid, that may be a change which another node is making: it has written the
 * pages of a copy after we had read its superblock, and then the same with the other copy.
 */
static bool may_be_changing(const struct ddr_supers *s)
{
	for (unsigned int i = 0; i < DDR_SB_COPIES; i++)
		if (!s->copy[i].found && !s->copy[i].read_failed && s->copy[i].fault.code >= DDR_FE_O_PAGE)
			return true;
	return false;
}

int ddr_dev_read_supers(const struct ddr_dev *dev, struct ddr_supers *out, struct ddr_error *err)
{
	struct reading r = {
		.block = ddr_dev_buffer(DDR_META_BLOCK), .pages = ddr_dev_buffer(DDR_MAX_OWNER_PAGES * DDR_META_BLOCK),
		.owners = calloc(DDR_SB_COPIES, sizeof(*r.owners)),
	};
	int rc = ddr_error_call(err, ENOMEM, "%s: out of memory", dev->path);

	memset(out, 0, sizeof(*out));
	out->newest = -1;
	for (unsigned int i = 0; r.block && r.pages && r.owners && i < READS; i++) {
		memset(out, 0, sizeof(*out));
		out->newest = -1;
		read_copies(dev, &r, out);
		rc = choose_copy(dev, out, err);
		if (!rc || !may_be_changing(out))
			break;
	}
	if (!rc)
		out->owners = r.owners[out->newest];
	free(r.block);
	free(r.pages);
	free(r.owners);
	return rc;
}

bool ddr_dev_may_be_member(const struct ddr_dev *dev)
{
	void *buf = ddr_dev_buffer(DDR_META_BLOCK);
	struct ddr_fault fault = { .code = DDR_FE_OK };
	struct ddr_error ignored;
	struct ddr_super sb;

	if (buf && ddr_dev_read(dev, buf, DDR_META_BLOCK, DDR_SB_OFFSET, &ignored) == 0)
		fault = ddr_super_decode(buf, 0, DDR_SB_OFFSET, &sb);
	free(buf);
	return fault.code != DDR_FE_BLANK && fault.code != DDR_FE_MAGIC;
}

/* Encodes the pages, puts their crc into @sb, and writes them. */
static int write_pages(const struct ddr_dev *dev, struct ddr_super *sb, const struct ddr_owners *owners, struct ddr_error *err)
{
	size_t len = (size_t)ddr_owner_pages(sb->slots) * DDR_META_BLOCK;
	void *pages = ddr_dev_buffer(len);
	struct ddr_fault fault;
	char text[256];
	int rc;

	if (!pages)
		return ddr_error_call(err, ENOMEM, "%s: out of memory", dev->path);
	fault = ddr_owners_encode(owners, sb, pages);
	if (fault.code)
		rc = ddr_error_set(err, "%s: refusing to write invalid owner pages: %s", dev->path, ddr_fault_text(&fault, text, sizeof(text)));
	else
		rc = ddr_dev_write(dev, pages, len, ddr_owner_offset(sb, ddr_super_copy(sb->seq)), err);
	if (!rc)
		rc = ddr_dev_sync(dev, err);	/* a superblock must not be there without its pages */
	free(pages);
	return rc;
}

int ddr_dev_write_owned(const struct ddr_dev *dev, const struct ddr_super *sb, const struct ddr_owners *owners, struct ddr_error *err)
{
	struct ddr_super own = *sb;
	struct ddr_fault fault = ddr_super_check(&own);
	char text[256];
	void *buf;
	int rc = 0;

	if (fault.code)
		return ddr_error_set(err, "%s: refusing to write an invalid superblock: %s", dev->path, ddr_fault_text(&fault, text, sizeof(text)));
	if (ddr_super_has_owners(&own) && !owners)
		return ddr_error_set(err, "%s: refusing to write a superblock of format 2 without its owner pages", dev->path);
	buf = ddr_dev_buffer(DDR_META_BLOCK);
	if (!buf)
		return ddr_error_call(err, ENOMEM, "%s: out of memory", dev->path);
	if (ddr_super_has_owners(&own))
		rc = write_pages(dev, &own, owners, err);
	if (!rc) {
		fault = ddr_super_encode(&own, buf);
		rc = fault.code ? ddr_error_set(err, "%s: refusing to write an invalid superblock: %s", dev->path,
						ddr_fault_text(&fault, text, sizeof(text))) :
				  ddr_dev_write(dev, buf, DDR_META_BLOCK, ddr_super_offset(&own, ddr_super_copy(own.seq)), err);
	}
	if (!rc)
		rc = ddr_dev_sync(dev, err);
	free(buf);
	return rc;
}

int ddr_dev_write_super(const struct ddr_dev *dev, const struct ddr_super *sb, struct ddr_error *err)
{
	return ddr_dev_write_owned(dev, sb, NULL, err);
}

bool ddr_dev_gone(int fd)
{
	uint64_t bytes;

	if (fd < 0)
		return false;
	if (ioctl(fd, BLKGETSIZE64, &bytes))
		return errno == ENXIO || errno == ENODEV;
	return bytes == 0;
}

const char *ddr_dev_strerror(int fd, int error)
{
	return ddr_dev_gone(fd) ? "the device is gone: the disk was pulled, or its last path was lost" : strerror(-error);
}
