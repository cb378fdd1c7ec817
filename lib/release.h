/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Whether what runs is what is installed: the daemon, the loaded module, and this program. After an upgrade they may be of different
 * releases, and what is to be done about it depends on whether the installed daemon could serve the arrays of the loaded module.
 */
#ifndef DDR_LIB_RELEASE_H
#define DDR_LIB_RELEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define DDR_RELEASE_MODULE	"/sys/module/dm_ddraid"

struct ddr_release {
	char ours[32];			/* the release that is installed: this program's */
	unsigned int our_abi;		/* and the kernel interface that its daemon speaks */
	char daemon[32];		/* "": not known */
	pid_t pid;			/* of the daemon */
	bool replaced;			/* the file of its program was replaced or removed since it began */
	bool loaded;			/* the module is */
	char module[32];		/* "": it does not say, as before there were versions */
	unsigned int abi;		/* of the module; 0: it does not say */
};

/* What this program and the module say of themselves. @module: DDR_RELEASE_MODULE, or another directory in tests. */
void ddr_release_look(struct ddr_release *r, const char *module);
/* One sentence for what does not fit and what to do; "" if all is of one release. Returns @buf. */
const char *ddr_release_words(const struct ddr_release *r, char *buf, size_t size);
/*
 * Writes @run_dir/ddraidd.release: what the daemon that runs speaks, a "key=value" a line. Packages read it, who cannot ask the daemon
 * since the command may be of another release by then. 0, or a negative errno.
 */
int ddr_release_write(const char *run_dir, const char *transport);

#endif
