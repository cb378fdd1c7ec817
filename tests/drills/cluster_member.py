#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A disk fails while all nodes use it: its writes fail, or its reads, or all of it hangs.

Topology: three nodes, one array of four disks (order 1, P and Q), GFS2 on it, mounted on all; each disk is below a device that can be made
to fail, on every node; corosync over two rings; a fence device. No answer for 5 s is a failure (io_timeout).
Phases: a file is written and left untouched; load on all; a member fails on all nodes, in one of three ways, the variants: write: writes
end with an error; read: reads do (while all read the file); hang: nothing ends at all, until the disk's driver gives up, which is after the
cluster did. The cluster agrees that the member has failed, and the load continues without an error; the disks hold nothing inconsistent
outside of dirty regions; all data that was reported durable, and the file, are read on every node without the member. It works again,
`ddraid add` takes it back while the load continues, and all of that holds again. Nobody is fenced.
"""
import functools
import sys
import time

import drill
from faulty import FaultyRig
from rig import NAME

WAYS = ("write", "read", "hang")


def strike(rig, way, victim):
    """The fault on all nodes, until the member has failed everywhere."""
    if way == "hang":
        rig.tell(victim, "hang on")
        for i in rig.all:
            rig.guests[i].node.wait_until(f"ddraid status {NAME} --json | grep -q '\"state\": *\"faulty\"'", 90)
        rig.tell(victim, "fail all")            # and its driver gives up
        rig.tell(victim, "hang off")
    else:
        rig.tell(victim, f"fail {way}")
        if way == "read":
            rig.read_still()
    rig.wait_failed(victim)


def round_of(way, rig, number):
    victim, by = (number - 1) % rig.members, (number - 1) % len(rig.all) + 1
    rig.load()
    rig.progress()
    began = time.monotonic()
    strike(rig, way, victim)
    took = time.monotonic() - began
    rig.progress()
    rig.raw()
    stalls = rig.settle()
    rig.read_still()
    rig.assert_nobody_fenced()
    rig.load()
    rig.progress()
    began = time.monotonic()
    rig.back(by, victim)
    back = time.monotonic() - began
    rig.progress()
    rig.settle()
    rig.read_still()
    rig.assert_nobody_fenced()
    longest = max(s for node in stalls.values() for s in node.values())
    return f"member {victim}: out after {took:.1f} s, longest stall {longest:.1f} s; back in sync {back:.1f} s after it was well"


if __name__ == "__main__":
    sys.exit(drill.main("cluster_member", __doc__, {way: functools.partial(round_of, way) for way in WAYS}, disks=4, kind=FaultyRig, io_timeout="5s"))
