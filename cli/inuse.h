/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Finds what uses a block device: mounts (also in other mount namespaces), swap, devices on top of it, and processes that have it, or
 * a file of its file system, open. For messages. It only reads /proc and /sys, and does not wait for a disk.
 */
#ifndef DDR_CLI_INUSE_H
#define DDR_CLI_INUSE_H

#include <stddef.h>

struct cli_inuse_roots {
	const char *proc, *sys;		/* /proc and /sys, or other directories in tests */
};

/*
 * One line: "mounted on /mnt; dm-3 (vg-lv) lies on it; dd (pid 7) has it open". Long lists are shortened. If nothing is found, the
 * line says so. @text is cut to @size.
 */
void cli_inuse_describe(const struct cli_inuse_roots *roots, unsigned int major, unsigned int minor, char *text, size_t size);

#endif
