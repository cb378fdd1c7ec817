/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Does the running release match the installed one? Compares the daemon, the loaded module, and this program. After
 * an upgrade they may be of different releases; what to do depends on whether the installed daemon could serve the
 * arrays of the loaded module.
 */
#ifndef DDR_LIB_RELEASE_H
#define DDR_LIB_RELEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define DDR_RELEASE_MODULE	"/sys/module/dm_ddraid"

struct ddr_release {
	char ours[32];			/* the installed release: this program's */
	unsigned int our_abi;		/* the kernel interface of the installed daemon */
	char daemon[32];		/* "": unknown */
	pid_t pid;			/* of the daemon */
	bool replaced;			/* the program's file was replaced or removed since the daemon started */
	bool loaded;			/* the module is loaded */
	char module[32];		/* "": it reports none, as before there were versions */
	unsigned int abi;		/* kernel interface of the module; 0: it reports none */
	unsigned int lowest, highest;	/* versions of the protocol between nodes that the module serves; 0: it reports none */
};

/* Reads the releases of this program and the module. @module: DDR_RELEASE_MODULE, or another directory in tests. */
void ddr_release_look(struct ddr_release *r, const char *module);
/* One sentence that says what does not match and what to do; "" if everything is of one release. Returns @buf. */
const char *ddr_release_words(const struct ddr_release *r, char *buf, size_t size);
/*
 * Writes @run_dir/ddraidd.release: the interfaces of the running daemon, one "key=value" per line. Package scripts
 * read it: they cannot ask the daemon, since the command may be of another release by then. 0, or a negative errno.
 */
int ddr_release_write(const char *run_dir, const char *transport);

#endif
