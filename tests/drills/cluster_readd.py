#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A disk is pulled while all nodes write, and put back after 30 seconds.

Topology: three nodes, one array of four disks (order 1, P and Q), GFS2 on it, mounted on all; corosync over two rings; a fence device.
Phases: a file is written that nobody touches again; load on all; a member's disk is pulled from all machines at once, and the cluster agrees that it failed; the
load goes on for 30 s. The disk is put back into all machines (under whatever name), and `ddraid add` on one of them takes it back: all
find it, and it gets what was written without it, and nothing else (counted), while the load goes on; nobody sees an error and nobody
is fenced. While that goes on, and after it, the disks hold nothing inconsistent outside of dirty regions; everything that anybody
was promised is read on every node. In even rounds another member is failed by hand after that, so that what the disk got is needed, and taken back too.
"""
import sys
import time

import drill
from rig import NAME
from still import STILL, StillRig

AWAY = 30                       # s


class ReaddRig(StillRig):
    """P and Q, so that what is left can be checked while a member is missing."""

    def __init__(self, *args, **options):
        super().__init__(*args, shape=(1, 2, "rotating"), **options)

    def back(self, by, index):
        """`ddraid add` on a node; (blocks that were copied, blocks that were ever written)."""
        node = self.node(by)
        self.marks = {i: len(self.guests[i].events_seen()) for i in self.all}
        node.run(f"ddraid add {NAME} {node.disks[index].dev}", timeout=90)
        for i in self.all:
            start = self.wait_event(i, "rebuild-start", 90)
            assert start["member"] == index and "written without it" in start["text"], start
        self.raw()
        copied = sum(self.wait_event(i, "rebuild-done", 240)["blocks"] for i in self.all)
        status = self.guests[by].status(NAME)
        assert status["state"] == "optimal", status
        return copied, (status["regions"]["total"] - status["regions"]["unwritten"]) * self.region_blocks


def round_of(rig, number):
    members = len(rig.cluster.nodes[0].disks)
    victim, by = (number - 1) % members, (number - 1) % len(rig.all) + 1
    for i in rig.all:
        rig.node(i).allow_dmesg(r".*(I/O error|vd[a-z]|virtio|dm-\d+|ddraid).*")
    rig.load()
    rig.progress()
    rig.on_each(lambda i: rig.node(i).unplug(rig.node(i).disks[victim]))
    for i in rig.all:
        rig.wait_event(i, "member-failed", 90, member=victim)
    rig.progress()
    time.sleep(AWAY)
    rig.raw()
    rig.on_each(lambda i: rig.node(i).plug(rig.node(i).disks[victim]))
    began = time.monotonic()
    copied, written = rig.back(by, victim)
    took = time.monotonic() - began
    # nothing of the file that nobody touched need be copied; half of it is room for regions that hold something else as well
    assert 0 < copied <= written - (STILL << 20) // 4096 // 2, f"{copied} blocks were copied of {written} that were ever written"
    rig.progress()
    rig.settle()
    rig.read_still()
    if number % 2 == 0:
        other = (victim + 1) % members
        rig.guests[by].command(f"fail {NAME} {other}")
        rig.load()
        rig.progress()
        rig.settle()
        rig.read_still()
        rig.back(by, other)
        rig.settle()
    assert not any(any(rig.node_fenced(i)) for i in rig.all), f"somebody was fenced: {rig.cluster.fencer.log}"
    return f"member {victim} pulled, back after {AWAY} s: in sync {took:.1f} s later, {copied * 4096 >> 20} MiB copied of {written * 4096 >> 20} MiB"


if __name__ == "__main__":
    sys.exit(drill.main("cluster_readd", __doc__, round_of, disks=4, kind=ReaddRig))
