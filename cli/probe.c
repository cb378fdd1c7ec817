// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ddraid-probe DEV: is this device a member? Run by udev's rule at each event of each block device that no other prober has marked.
 *
 * A single read decides: that of the first superblock. If it is damaged the disk is still a member, and `ddraid start` finds it by
 * the second one; only udev cannot name it. A child does the read: a disk that needs minutes for an answer would delay udev's whole
 * event, with the names and links of the disk, until udev kills it. After LIMIT_MS the disk counts as unknown.
 *
 * Prints what libblkid prints for other kinds of members, and exits with 0; or prints nothing, and exits with 1.
 *
 * Must never: write; read twice; wait for the disk longer than LIMIT_MS.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <uuid/uuid.h>

#include "lib/disk/format_owner.h"

#define LIMIT_MS	3000

/* In the child. Bypasses the page cache of the device, which may be older than what other nodes have written. */
static void read_disk(const char *path, int to)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	void *buf;

	close(STDOUT_FILENO);		/* udev must not wait for the end of this process */
	close(STDERR_FILENO);
	if (fd < 0 || fstat(fd, &st) || posix_memalign(&buf, DDR_META_BLOCK, DDR_META_BLOCK))
		_exit(1);
	if (S_ISBLK(st.st_mode) && fcntl(fd, F_SETFL, O_DIRECT))
		_exit(1);
	if (pread(fd, buf, DDR_META_BLOCK, DDR_SB_OFFSET) != (ssize_t)DDR_META_BLOCK)
		_exit(1);
	_exit(write(to, buf, DDR_META_BLOCK) == (ssize_t)DDR_META_BLOCK ? 0 : 1);	/* written at once: it fits into the pipe */
}

/* What the child has read within the limit. */
static bool read_in_time(const char *path, void *buf)
{
	struct pollfd p;
	int fds[2];
	pid_t pid;

	if (pipe(fds))
		return false;
	pid = fork();
	if (pid == 0) {
		close(fds[0]);
		read_disk(path, fds[1]);
	}
	close(fds[1]);
	p = (struct pollfd){ .fd = fds[0], .events = POLLIN };
	if (pid < 0 || poll(&p, 1, LIMIT_MS) != 1) {
		fprintf(stderr, "ddraid-probe: %s has not answered within %d s; it is ignored\n", path, LIMIT_MS / 1000);
		return false;		/* the child ends when the disk answers */
	}
	return read(fds[0], buf, DDR_META_BLOCK) == (ssize_t)DDR_META_BLOCK;
}

static void print_uuid(const char *key, const uint8_t uuid[DDR_UUID_LEN])
{
	char text[37];

	uuid_unparse_lower(uuid, text);
	printf("%s=%s\n", key, text);
}

int main(int argc, char **argv)
{
	static uint8_t buf[DDR_META_BLOCK];
	struct ddr_fault fault;
	struct ddr_super sb;

	if (argc != 2) {
		fprintf(stderr, "usage: ddraid-probe DEV\n");
		return 2;
	}
	if (!read_in_time(argv[1], buf))
		return 1;
	fault = ddr_super_decode(buf, 0, DDR_SB_OFFSET, &sb);
	if (fault.code == DDR_FE_BLANK || fault.code == DDR_FE_MAGIC)
		return 1;
	/* damaged, or of a later version: other programs must still leave it alone */
	printf("ID_FS_TYPE=ddraid_member\nID_FS_USAGE=raid\n");
	if (fault.code == DDR_FE_OK) {
		print_uuid("ID_FS_UUID", sb.array_uuid);
		print_uuid("ID_FS_UUID_ENC", sb.array_uuid);
		print_uuid("ID_FS_UUID_SUB", sb.member[sb.this_member].uuid);
		/* only letters, digits and . _ + -: nothing that has to be encoded for udev */
		printf("ID_FS_LABEL=%s\nID_FS_LABEL_ENC=%s\nID_FS_VERSION=%u\n", sb.name, sb.name, ddr_super_has_owners(&sb) ? 2u : 1u);
	}
	return fflush(stdout) ? 1 : 0;
}
