#!/usr/bin/python3 -SIE
# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs in a guest: append.py FILE NODE. Appends numbered records to a file that all nodes append to.

A record is its number, from 1, and the node, in 16 bytes. Under flock(), which GFS2 keeps across
the cluster, the last number is read, and the next is written and made durable; then it is printed.
So the file must hold 1, 2, 3 ... without a gap, and every record that was printed by the node that
printed it. Ends when /tmp/stop exists.
"""
import fcntl
import os
import sys
import time

RECORD = 16


def last(handle):
    end = os.fstat(handle).st_size
    if end % RECORD:
        sys.exit(f"the file has {end} bytes: a record is torn")
    return int(os.pread(handle, RECORD, end - RECORD).split()[0]) if end else 0


def main():
    handle = os.open(sys.argv[1], os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
    while not os.path.exists("/tmp/stop"):
        fcntl.flock(handle, fcntl.LOCK_EX)
        number = last(handle) + 1
        os.write(handle, b"%10d %4d\n" % (number, int(sys.argv[2])))
        os.fsync(handle)
        fcntl.flock(handle, fcntl.LOCK_UN)
        print(number, flush=True)
        time.sleep(0.1)


main()
