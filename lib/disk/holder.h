/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Which program holds a lock (flock) on a file: to name it in messages, and to distinguish a living program from the I/O of
 * a daemon that has died. Only reads /proc, and may take some milliseconds.
 */
#ifndef DDR_LIB_HOLDER_H
#define DDR_LIB_HOLDER_H

#include <stdbool.h>

struct ddr_holder {
	char text[96];			/* "NAME (pid N)", or what is known in its place */
	bool other;			/* all locks on the file belong to living programs other than ddraidd */
};

/* By /proc/locks and the descriptors of processes. Nothing found: a text that says so, and @other is false. */
void ddr_holder_find(int fd, struct ddr_holder *holder);

#endif
