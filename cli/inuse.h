/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Finds what uses a block device: mounts (in other mount namespaces too), swap, devices on top of it, and processes that have it, or a file
 * of its file system, open. For messages: it reads only /proc and /sys, and waits for no disk.
 */
#ifndef DDR_CLI_INUSE_H
#define DDR_CLI_INUSE_H

#include <stddef.h>

struct cli_inuse_roots {
	const char *proc, *sys;		/* /proc and /sys, or what a test puts in their place */
};

/*
 * One line: "mounted on /mnt; dm-3 (vg-lv) lies on it; dd (pid 7) has it open". Of what is many the first ones. Where nothing is
 * found it says so. @text is cut to @size.
 */
void cli_inuse_describe(const struct cli_inuse_roots *roots, unsigned int major, unsigned int minor, char *text, size_t size);

#endif
