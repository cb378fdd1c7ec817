/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Device nodes of our own for members: /dev/ddraid-members/MAJOR:MINOR.
 *
 * flock() works per inode. Programs lock a disk through its usual node (/dev/sda), and udev drops events of a disk that is locked there.
 * A lock on a node of our own disturbs no other program, and lasts until the I/O that was started through it has ended.
 *
 * A node is never removed: a process that created a new one would not see the lock that a dead daemon's I/O still has on the old one. It names a number,
 * not a disk: a node that outlives its disk is valid for the next disk with that number.
 */
#ifndef DDR_LIB_OWN_NODE_H
#define DDR_LIB_OWN_NODE_H

#include <sys/types.h>

#include "lib/error.h"

#define DDR_OWN_NODES	"/dev/ddraid-members"

/*
 * Opens the node of the block device @rdev with the flags @mode of open(2), and creates it if there is none. Links, and directories that
 * others may write to, are refused; a node with the wrong number is replaced. Returns the descriptor, or -1 with @err and errno. *@absent: there was
 * no node, and none can be made here, so nobody can have a lock on it.
 */
int ddr_own_node_open(dev_t rdev, int mode, bool *absent, struct ddr_error *err);
/* The same, in another directory; for tests. */
int ddr_own_node_open_in(const char *dir, dev_t rdev, int mode, bool *absent, struct ddr_error *err);

#endif
