// SPDX-License-Identifier: GPL-2.0-or-later
/* The counters of block devices, in sysfs. See blkstat.h. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "daemon/disk/blkstat.h"

#define FIELDS	17	/* of a kernel that counts flushes, too (Documentation/block/stat.rst) */

bool ddr_blkstat(unsigned int major, unsigned int minor, struct ddr_blkstat *st)
{
	char path[64], text[512], *at = text, *end;
	uint64_t n[FIELDS] = { 0 };
	unsigned int i = 0;
	ssize_t len;
	int fd;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/stat", major, minor);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	len = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (len <= 0)
		return false;
	text[len] = '\0';
	for (; i < FIELDS; i++, at = end) {
		n[i] = strtoull(at, &end, 10);
		if (end == at)
			break;
	}
	*st = (struct ddr_blkstat){ .ended = n[0] + n[4] + n[11] + n[15], .flying = n[8], .sectors = n[2] + n[6] };
	return i > 8;
}
