// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The file that says who this machine is, and what the machine says of itself. See ident.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/ident.h"

#define MACHINE_ID	"/etc/machine-id"
#define PRODUCT		"/sys/class/dmi/id/product_uuid"

/* Up to @size bytes of a file, or a negative errno. A pipe or a device with that name does not delay or harm. */
static ssize_t read_some(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	size_t n = 0;
	ssize_t got = 0;

	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		close(fd);
		return -EINVAL;
	}
	while (n < size && (got = read(fd, buf + n, size - n)) > 0)
		n += (size_t)got;
	got = got < 0 ? -errno : (ssize_t)n;
	close(fd);
	return got;
}

void ddr_ident_read(const char *dir, struct ddr_identity_file *file)
{
	char path[DDR_CONF_PATH_MAX + sizeof(DDR_IDENT_FILE) + 1];
	ssize_t n;

	snprintf(path, sizeof(path), "%s/" DDR_IDENT_FILE, dir);
	n = read_some(path, file->text, sizeof(file->text));
	file->len = n < 0 ? 0 : (size_t)n;
	file->how = n >= 0 ? DDR_IDENTITY_READ : n == -ENOENT || n == -ENOTDIR ? DDR_IDENTITY_MISSING : DDR_IDENTITY_UNREADABLE;
}

static const char *read_text(const char *path, char *buf, size_t size)
{
	ssize_t n = read_some(path, buf, size - 1);

	if (n < 0)
		return NULL;
	buf[n] = '\0';
	return strlen(buf) == (size_t)n ? buf : NULL;
}

void ddr_ident_marks(struct ddr_machine_marks *marks)
{
	char machine_id[64], product[64];

	ddr_machine_marks(marks, read_text(MACHINE_ID, machine_id, sizeof(machine_id)), read_text(PRODUCT, product, sizeof(product)));
}

static int write_file(const char *path, const char *text, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), ret = 0;
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = write(fd, text, len);
	if (n != (ssize_t)len)
		ret = n < 0 ? -errno : -ENOSPC;
	else if (fsync(fd))
		ret = -errno;
	close(fd);
	return ret;
}

int ddr_ident_write(const char *dir, const char *text, size_t len)
{
	char path[DDR_CONF_PATH_MAX + sizeof(DDR_IDENT_FILE) + 1], tmp[sizeof(path) + 4];
	int fd, ret;

	if (mkdir(dir, 0700) && errno != EEXIST)
		return -errno;
	snprintf(path, sizeof(path), "%s/" DDR_IDENT_FILE, dir);
	snprintf(tmp, sizeof(tmp), "%s.new", path);
	ret = write_file(tmp, text, len);
	if (ret)
		return ret;
	if (rename(tmp, path))
		return -errno;
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fsync(fd))
		ret = -errno;
	close(fd);
	return ret;
}
