/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Checks a disk that shall become a member; see disk.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

#include <linux/fs.h>

#include "cli/disk.h"
#include "lib/disk/signature.h"

#define LOCK_MS	5000u

/* Zoned disks cannot be rewritten in place. The queue of a partition is that of its disk. */
static bool is_zoned(const struct ddr_dev *dev)
{
	char dir[64], path[128], model[32] = "";
	FILE *f;

	snprintf(dir, sizeof(dir), "/sys/dev/block/%u:%u", major(dev->rdev), minor(dev->rdev));
	snprintf(path, sizeof(path), "%s/queue/zoned", dir);
	f = fopen(path, "re");
	if (!f) {
		snprintf(path, sizeof(path), "%s/../queue/zoned", dir);
		f = fopen(path, "re");
	}
	if (!f)
		return false;
	if (!fgets(model, sizeof(model), f))
		model[0] = '\0';
	fclose(f);
	return model[0] && strncmp(model, "none", 4) != 0;
}

static int check_block_device(const struct ddr_dev *dev, struct ddr_error *err)
{
	int read_only = 0;

	if (!dev->is_block)
		return 0;
	if (ioctl(dev->fd, BLKROGET, &read_only) || read_only)
		return ddr_error_set(err, "%s: is read-only", dev->path);
	if (is_zoned(dev))
		return ddr_error_set(err, "%s: is a zoned disk, which cannot rewrite blocks in place", dev->path);
	return 0;
}

static int check_sectors(const struct ddr_dev *dev, uint64_t order, bool allowed, struct ddr_error *err)
{
	uint32_t chunk = DDR_BLOCK_SIZE >> order;
	unsigned int fits = 0;

	while (fits < DDR_MAX_ORDER && DDR_BLOCK_SIZE >> (fits + 1) >= dev->logical_sector)
		fits++;
	if (dev->logical_sector > chunk)
		return ddr_error_set(err, "%s: its sectors of %" PRIu32 " bytes are larger than the chunk of %" PRIu32
				     " bytes that a member holds of each block at order %" PRIu64 "; use order %u at most, "
				     "or disks with smaller sectors", dev->path, dev->logical_sector, chunk, order, fits);
	if (dev->physical_sector > chunk && !allowed)
		return ddr_error_set(err, "%s: its physical sectors of %" PRIu32 " bytes hold the chunks of %" PRIu32 " blocks (%" PRIu32 " bytes "
				     "each at order %" PRIu64 "): a power loss while the disk rewrites one could damage other, already written "
				     "blocks on several members; use disks with smaller physical sectors or a lower order, or --allow-512e if the "
				     "disks protect against it",
				     dev->path, dev->physical_sector, dev->physical_sector / chunk, chunk, order);
	return 0;
}

static int check_content(const struct ddr_dev *dev, bool allowed, char *holds, size_t size, struct ddr_error *err)
{
	if (ddr_signature_find(dev, holds, size, err))
		return -1;
	if (holds[0] && !allowed)
		return ddr_error_set(err, "%s: holds data (%s); use another device, or --overwrite to destroy it", dev->path,
				     holds);
	return 0;
}

int disk_open(struct ddr_dev *dev, const char *path, uint64_t order, const struct disk_allow *allow, char *holds, size_t size, struct ddr_error *err)
{
	unsigned int flags = DDR_DEV_WRITE | DDR_DEV_EXCL | (allow->files ? DDR_DEV_FILE : 0);

	if (ddr_dev_open(dev, path, flags, err))
		return -1;
	if (ddr_dev_lock(dev, LOCK_MS, err) || check_block_device(dev, err) || check_sectors(dev, order, allow->e512, err))
		return -1;
	return check_content(dev, allow->overwrite, holds, size, err);
}

int disk_open_own(struct ddr_dev *dev, const char *path, bool file, struct ddr_error *err)
{
	if (ddr_dev_open(dev, path, DDR_DEV_WRITE | DDR_DEV_EXCL | (file ? DDR_DEV_FILE : 0), err))
		return -1;
	return ddr_dev_lock(dev, LOCK_MS, err) || check_block_device(dev, err) ? -1 : 0;
}
