/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* Signatures of other programs on a member; see foreign.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/disk/foreign.h"
#include "lib/disk/format_owner.h"
#include "lib/disk/layout.h"
#include "lib/disk/signature.h"

#define RUN	(1u << 20)	/* bytes read at once */

/*
 * A file in memory as large as the device, with holes where libblkid must see nothing. It is created when there is
 * something to show.
 */
struct view {
	const struct ddr_dev *dev;
	const struct ddr_super *sb;
	uint64_t bytes;			/* size of the device, in whole sectors */
	int fd;				/* -1: nothing to show yet */
};

static bool is_zero(const uint8_t *p, size_t len)
{
	return len == 0 || (p[0] == 0 && memcmp(p, p + 1, len - 1) == 0);
}

static bool is_super(const struct view *v, const void *block, uint64_t offset)
{
	struct ddr_super sb;

	return ddr_super_decode(block, offset == DDR_SB_OFFSET ? 0 : 1, offset, &sb).code == DDR_FE_OK && ddr_super_same_member(&sb, v->sb);
}

/* Is the block at @offset, which lies before the data area, a valid one that ddraid wrote there? */
static bool is_ours(const struct view *v, const void *block, uint64_t offset)
{
	const struct ddr_super *sb = v->sb;
	uint64_t log_end = sb->log_offset + (uint64_t)sb->slots * sb->log_blocks * 2 * DDR_META_BLOCK;
	uint64_t map_end = sb->map_offset + (uint64_t)sb->map_blocks * 2 * DDR_META_BLOCK;
	struct ddr_log_info info;
	uint64_t n;

	if (offset == DDR_SB_OFFSET || offset == ddr_super_offset(sb, 1))
		return is_super(v, block, offset);
	if (offset >= sb->log_offset && offset < log_end) {
		n = (offset - sb->log_offset) / DDR_META_BLOCK;
		return ddr_log_decode(block, sb, (uint16_t)(n / 2 / sb->log_blocks), (uint32_t)(n / 2 % sb->log_blocks), n & 1, &info).code ==
		       DDR_FE_OK;
	}
	if (offset >= sb->map_offset && offset < map_end) {
		n = (offset - sb->map_offset) / DDR_META_BLOCK;
		if (ddr_log_decode(block, sb, DDR_MAP_SLOT, (uint32_t)(n / 2), n & 1, &info).code == DDR_FE_OK)
			return true;
	}
	/* also of a superblock that missed the change to format 2, and so does not name their place */
	return ddr_owner_is_ours(block, sb);
}

/* Makes one block visible to libblkid. */
static int show(struct view *v, const void *block, size_t len, uint64_t offset, struct ddr_error *err)
{
	if (v->fd < 0) {
		v->fd = memfd_create("ddraid-foreign", MFD_CLOEXEC);
		if (v->fd < 0 || ftruncate(v->fd, (off_t)v->bytes))
			return ddr_error_set(err, "%s: out of memory while searching for signatures: %s", v->dev->path, strerror(errno));
	}
	if (pwrite(v->fd, block, len, (off_t)offset) != (ssize_t)len)
		return ddr_error_set(err, "%s: out of memory while searching for signatures: %s", v->dev->path, strerror(errno));
	return 0;
}

static int show_run(struct view *v, const uint8_t *buf, size_t len, uint64_t offset, struct ddr_error *err)
{
	for (size_t i = 0; i < len; i += DDR_META_BLOCK) {
		size_t n = len - i < DDR_META_BLOCK ? len - i : DDR_META_BLOCK;

		if (is_zero(buf + i, n) || (offset + i < v->sb->data_offset && is_ours(v, buf + i, offset + i)))
			continue;
		if (show(v, buf + i, n, offset + i, err))
			return -1;
	}
	return 0;
}

/* Unreadable blocks are skipped: a bad sector is no signature, and is dealt with elsewhere. */
static int show_range(struct view *v, uint8_t *buf, uint64_t from, uint64_t to, struct ddr_error *err)
{
	struct ddr_error ignored;

	for (uint64_t at = from; at < to; at += RUN) {
		size_t len = to - at < RUN ? (size_t)(to - at) : RUN;

		if (ddr_dev_read(v->dev, buf, len, at, &ignored) == 0 && show_run(v, buf, len, at, err))
			return -1;
	}
	return 0;
}

static int show_all(struct view *v, struct ddr_error *err)
{
	uint64_t tail = ddr_layout_data_end(v->sb), end = v->bytes > DDR_SIGNATURE_BYTES ? (v->bytes - DDR_SIGNATURE_BYTES) / DDR_META_BLOCK * DDR_META_BLOCK : 0;
	uint8_t *buf = ddr_dev_buffer(RUN);
	int rc;

	if (!buf)
		return ddr_error_set(err, "%s: out of memory while searching for signatures", v->dev->path);
	rc = show_range(v, buf, 0, v->sb->data_offset, err);
	if (!rc)
		rc = show_range(v, buf, tail > end ? tail : end, v->bytes, err);
	free(buf);
	return rc;
}

int ddr_foreign_find(const struct ddr_dev *dev, const struct ddr_super *sb, char *buf, size_t size, struct ddr_error *err)
{
	struct view v = { .dev = dev, .sb = sb, .bytes = dev->bytes - dev->bytes % dev->logical_sector, .fd = -1 };
	int rc;

	buf[0] = '\0';
	rc = show_all(&v, err);
	if (!rc && v.fd >= 0)
		rc = ddr_signature_probe(v.fd, dev, buf, size, err);
	if (v.fd >= 0)
		close(v.fd);
	return rc;
}
