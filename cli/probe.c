// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * ddraid-probe DEV: is this a member? For udev's rule, which runs it at each event of each block device that no other prober has marked.
 *
 * One read decides: of the first superblock. A member whose first superblock is damaged is still a member, and `ddraid start` finds it by the
 * second; only udev cannot name it. A child does the read: a disk that takes minutes for a command would delay udev's whole
 * event, with the names and links of the disk, until udev kills it. After LIMIT_MS the disk counts as unknown.
 *
 * Prints what libblkid prints for other kinds of members, and exits 0; or prints nothing, and exits 1.
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

#include "lib/disk/format.h"

#define LIMIT_MS	3000

/* In the child. The cache of the device is passed by: what it holds may be older than what other nodes have written. */
static void read_disk(const char *path, int to)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	void *buf;

	close(STDOUT_FILENO);		/* udev must not wait for its end */
	close(STDERR_FILENO);
	if (fd < 0 || fstat(fd, &st) || posix_memalign(&buf, DDR_META_BLOCK, DDR_META_BLOCK))
		_exit(1);
	if (S_ISBLK(st.st_mode) && fcntl(fd, F_SETFL, O_DIRECT))
		_exit(1);
	if (pread(fd, buf, DDR_META_BLOCK, DDR_SB_OFFSET) != (ssize_t)DDR_META_BLOCK)
		_exit(1);
	_exit(write(to, buf, DDR_META_BLOCK) == (ssize_t)DDR_META_BLOCK ? 0 : 1);	/* as one piece: it fits into the pipe */
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
	/* damaged, or of a later version: others shall leave it alone all the same */
	printf("ID_FS_TYPE=ddraid_member\nID_FS_USAGE=raid\n");
	if (fault.code == DDR_FE_OK) {
		print_uuid("ID_FS_UUID", sb.array_uuid);
		print_uuid("ID_FS_UUID_ENC", sb.array_uuid);
		print_uuid("ID_FS_UUID_SUB", sb.member[sb.this_member].uuid);
		/* letters, digits and . _ + -: nothing that udev would have to encode */
		printf("ID_FS_LABEL=%s\nID_FS_LABEL_ENC=%s\nID_FS_VERSION=%u\n", sb.name, sb.name, DDR_FORMAT_VERSION);
	}
	return fflush(stdout) ? 1 : 0;
}
