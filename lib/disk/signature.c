/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* What a disk already holds; see signature.h. */
#include <blkid/blkid.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lib/disk/assemble.h"
#include "lib/disk/foreign.h"
#include "lib/disk/signature.h"

#define WIPE_ROUNDS	64	/* more than any disk has: stops if libblkid keeps finding what it has just wiped */

/* NULL: the device cannot be probed. */
static blkid_probe new_probe(int fd, const struct ddr_dev *dev, struct ddr_error *err)
{
	blkid_probe pr = blkid_new_probe();

	if (pr && blkid_probe_set_device(pr, fd, 0, 0) == 0 &&
	    blkid_probe_set_sectorsize(pr, dev->logical_sector) == 0 &&
	    blkid_probe_enable_superblocks(pr, 1) == 0 &&
	    blkid_probe_set_superblocks_flags(pr, BLKID_SUBLKS_TYPE | BLKID_SUBLKS_USAGE | BLKID_SUBLKS_MAGIC |
					      BLKID_SUBLKS_BADCSUM) == 0 &&
	    blkid_probe_enable_partitions(pr, 1) == 0 &&
	    blkid_probe_set_partitions_flags(pr, BLKID_PARTS_MAGIC | BLKID_PARTS_FORCE_GPT) == 0)
		return pr;
	ddr_error_set(err, "%s: libblkid cannot open it", dev->path);
	blkid_free_probe(pr);
	return NULL;
}

/* Opens *@fd; the caller closes it after blkid_free_probe(). */
static blkid_probe open_probe(const struct ddr_dev *dev, int mode, int *fd, struct ddr_error *err)
{
	blkid_probe pr;

	*fd = -1;
	/* this node's page cache does not show what other nodes or the target wrote */
	if (ddr_dev_drop_cache(dev, err))
		return NULL;
	*fd = open(dev->path, mode | O_CLOEXEC);
	if (*fd < 0) {
		ddr_error_set(err, "%s: %s", dev->path, strerror(errno));
		return NULL;
	}
	pr = new_probe(*fd, dev, err);
	if (!pr) {
		close(*fd);
		*fd = -1;
	}
	return pr;
}

static void close_probe(blkid_probe pr, int fd)
{
	blkid_free_probe(pr);
	close(fd);
}

static void describe(blkid_probe pr, char *buf, size_t size)
{
	const char *type = NULL, *usage = NULL;

	if (!blkid_probe_lookup_value(pr, "PTTYPE", &type, NULL) && type) {
		snprintf(buf, size, "%s partition table", type);
		return;
	}
	blkid_probe_lookup_value(pr, "TYPE", &type, NULL);
	blkid_probe_lookup_value(pr, "USAGE", &usage, NULL);
	snprintf(buf, size, "%s%s%s", type ? type : "unknown signature", usage ? " " : "",
		 !usage ? "" : strcmp(usage, "filesystem") == 0 ? "file system" : usage);
}

/* Damaged superblocks of ours count as well: somebody may still want to read them. */
static bool find_own(const struct ddr_dev *dev, char *buf, size_t size)
{
	struct ddr_supers s;
	struct ddr_error err;

	if (ddr_dev_read_supers(dev, &s, &err) == 0) {
		char foreign[DDR_FOREIGN_LEN] = "";

		ddr_foreign_find(dev, &s.copy[s.newest].super, foreign, sizeof(foreign), &err);
		snprintf(buf, size, "%s%smember of ddraid array %s", foreign, *foreign ? ", " : "", s.copy[s.newest].super.name);
		return true;
	}
	for (unsigned int i = 0; i < DDR_SB_COPIES; i++) {
		enum ddr_format_error code = s.copy[i].fault.code;

		if (!s.copy[i].read_failed && code != DDR_FE_BLANK && code != DDR_FE_MAGIC) {
			snprintf(buf, size, "damaged member of a ddraid array");
			return true;
		}
	}
	return false;
}

static int find(blkid_probe pr, const struct ddr_dev *dev, char *buf, size_t size, struct ddr_error *err)
{
	int found = blkid_do_probe(pr);

	if (found == 0)
		describe(pr, buf, size);
	return found < 0 ? ddr_error_set(err, "%s: libblkid cannot read it", dev->path) : 0;
}

int ddr_signature_probe(int fd, const struct ddr_dev *dev, char *buf, size_t size, struct ddr_error *err)
{
	blkid_probe pr = new_probe(fd, dev, err);
	int rc = pr ? find(pr, dev, buf, size, err) : -1;

	blkid_free_probe(pr);
	return rc;
}

int ddr_signature_find(const struct ddr_dev *dev, char *buf, size_t size, struct ddr_error *err)
{
	blkid_probe pr;
	int fd, rc;

	buf[0] = '\0';
	if (find_own(dev, buf, size))
		return 0;
	pr = open_probe(dev, O_RDONLY, &fd, err);
	if (!pr)
		return -1;
	rc = find(pr, dev, buf, size, err);
	close_probe(pr, fd);
	return rc;
}

int ddr_signature_wipe(const struct ddr_dev *dev, struct ddr_error *err)
{
	int fd, found = 1, rounds = 0, rc = 0;
	blkid_probe pr = open_probe(dev, O_RDWR, &fd, err);
	char what[128];

	if (!pr)
		return -1;
	while (!rc && (found = blkid_do_probe(pr)) == 0) {
		describe(pr, what, sizeof(what));
		if (blkid_do_wipe(pr, 0) || ++rounds > WIPE_ROUNDS)
			rc = ddr_error_set(err, "%s: cannot wipe the %s", dev->path, what);
	}
	if (!rc && found < 0)
		rc = ddr_error_set(err, "%s: libblkid cannot read it", dev->path);
	if (!rc && fsync(fd))
		rc = ddr_error_set(err, "%s: cannot flush after wiping: %s", dev->path, strerror(errno));
	/* the kernel forgets wiped partitions; the call fails where there were none, or if the device is a partition */
	if (!rc && rounds && dev->is_block)
		ioctl(fd, BLKRRPART);
	close_probe(pr, fd);
	return rc;
}
