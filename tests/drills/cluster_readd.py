#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A disk is pulled while all nodes write, and put back after 30 seconds.

Topology: three nodes, one array of four disks (order 1, P and Q), GFS2 on it, mounted on all; corosync over two rings; a fence device.
Phases: a file is written and left untouched; load on all; a member's disk is pulled from all machines at once, and the cluster agrees that
it failed; the load continues for 30 s. The disk is put back into all machines (under whatever name), and `ddraid add` on one of them takes
it back: all find it, and it gets the regions that were written without it, and nothing else (counted; the raw disks and the array say which
regions these are, and none of the file's regions is among them), while the load continues; nobody sees an error and nobody is fenced. While
that goes on, and after it, the disks hold nothing inconsistent outside of dirty regions; all data that was reported durable is read on
every node. In even rounds another member is failed by hand after that, so that the disk's new content is needed, and taken back too.
"""
import sys
import time

import drill
from ddvm.config import time_scale
from rig import NAME
from still import STILL, StillRig

AWAY = 30                       # s
RATE = "4M"                     # a second, so that the regions can be looked at while they are copied
SLACK = 2                       # regions that may be written for the first time after the last look, and before the copy has come there


class ReaddRig(StillRig):
    """P and Q, so that what is left can be checked while a member is missing."""

    def __init__(self, *args, **options):
        super().__init__(*args, shape=(1, 2, "rotating"), **options)

    def written_since(self):
        """Regions that the raw disks call written while a member is missing; the file is not in them."""
        report = self.raw()
        regions = {r for first, count in report["written_while_missing"] for r in range(first, first + count)}
        size, still = self.region_blocks, set(self.still_blocks)
        whole = {r for r in {b // size for b in still} if still.issuperset(range(r * size, (r + 1) * size))}
        # one region ahead of a writer is granted (grant_ahead), and counts as written
        stray = [r for r in sorted(regions & whole) if r - 1 not in regions or r - 1 in whole]
        assert not stray, f"nobody wrote in regions {stray} since the member went, and they are to be copied"
        return regions

    def last_look(self):
        """Until the copy has ended: the most bytes that the array reported as missing on the member."""
        most, deadline = 0, time.monotonic() + 240 * time_scale()
        while not all(any(e["event"] == "rebuild-done" for e in self.events(i)) for i in self.all):
            jobs = [j for i in self.all for j in self.guests[i].status(NAME)["jobs"] if j["type"] == "rebuild"]
            if jobs and not most:
                self.slow(None)
            most = max([most, *(j["total"] for j in jobs)])
            assert time.monotonic() < deadline, f"not rebuilt: {jobs}"
            time.sleep(0.1)
        self.slow(None)                 # whether or not there was anything to see
        return most

    def back(self, by, index):
        """`ddraid add` on a node; (blocks that were copied, blocks that were written without it, blocks that were ever written).

        What is copied is counted in whole regions: all that had been written without it before it came, and no more than that and what was
        written for the first time while it came back.
        """
        node, size = self.node(by), self.region_blocks
        self.slow(RATE)
        before = self.written_since()
        self.marks = {i: len(self.guests[i].events_seen()) for i in self.all}
        node.run(f"ddraid add {NAME} {node.disks[index].dev}", timeout=90)
        for i in self.all:
            start = self.wait_event(i, "rebuild-start", 90)
            assert start["member"] == index and "brought up to date" in start["text"], start
        since = before | self.written_since()
        lacked = max(len(since) * size, self.last_look() // 4096)
        copied = sum(self.wait_event(i, "rebuild-done", 240)["blocks"] for i in self.all)
        least = sum(min((r + 1) * size, self.blocks) - r * size for r in before)
        assert least <= copied <= lacked + SLACK * size, (f"{copied} blocks were copied; {least} were written before it came back, {lacked} until it was back: "
                                                          f"regions {sorted(since)}")
        status = self.guests[by].status(NAME)
        assert status["state"] == "optimal", status
        return copied, lacked, (status["regions"]["total"] - status["regions"]["unwritten"]) * self.region_blocks


def round_of(rig, number):
    members = len(rig.cluster.nodes[0].disks)
    victim, by = (number - 1) % members, (number - 1) % len(rig.all) + 1
    for i in rig.all:
        rig.node(i).allow_dmesg(r".*(I/O error|vd[a-z]|virtio|dm-\d+|ddraid).*")
    rig.wait_idle()         # a region that is dirty when the disk fails, or waits for its first resync, counts as written without it: not the file
    rig.load()
    rig.progress()
    rig.on_each(lambda i: rig.node(i).unplug(rig.node(i).disks[victim]))
    for i in rig.all:
        rig.wait_event(i, "member-failed", 90, member=victim)
    rig.progress()
    time.sleep(AWAY)
    rig.on_each(lambda i: rig.node(i).plug(rig.node(i).disks[victim]))
    began = time.monotonic()
    copied, lacked, written = rig.back(by, victim)
    took = time.monotonic() - began
    # No region of the untouched file is among them. Half of it is allowance for regions that hold something else as well.
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
    return (f"member {victim} pulled, back after {AWAY} s: in sync {took:.1f} s later, {copied * 4096 >> 20} MiB copied, "
            f"{lacked * 4096 >> 20} MiB were written without it, {written * 4096 >> 20} MiB ever")


if __name__ == "__main__":
    sys.exit(drill.main("cluster_readd", __doc__, round_of, disks=4, kind=ReaddRig))
