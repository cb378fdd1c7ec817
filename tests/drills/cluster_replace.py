#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A working disk is replaced while all nodes write.

Topology: three nodes, one array of four disks (order 1, P and Q) and a disk that is not a member, GFS2 on it, mounted on all; corosync over
two rings; a fence device.
Phases: load on all; a disk is replaced by the spare one; the load continues without an error anywhere, and nobody is fenced; while it is
copied, and after that, the disks hold nothing inconsistent outside of dirty regions. In even rounds the old disk is pulled from all
machines in the middle: the rest is a rebuild. All data that was reported durable is read on every node. Then all stop, the disk is put back
blank, and the array is recreated.
"""
import sys
import time

import drill
from cluster_spare import SpareRig
from rig import NAME


def copying(rig):
    """The replace that runs, or None."""
    for i in rig.up():
        for job in rig.guests[i].status(NAME)["jobs"]:
            if job["type"] == "replace":
                return job
    return None


def round_of(rig, number):
    new = len(rig.cluster.nodes[0].disks) - 1
    old, pulled = (number - 1) % new, []
    for i in rig.all:
        rig.node(i).allow_dmesg(r".*(I/O error|vd[a-z]|virtio|dm-\d+|ddraid).*")
    rig.load()
    rig.progress()
    for i in rig.all:       # time for what happens in the middle
        rig.guests[i].command(f"set {NAME} resync_min_rate=64K resync_max_rate=2M")
    began = time.monotonic()
    first = rig.guests[min(rig.guests)]
    first.command(f"replace {NAME} {first.node.disks[old].dev}")
    for i in rig.all:
        assert rig.wait_event(i, "rebuild-start", 90)["member"] == new
    job = copying(rig)
    assert job and job["replaces"] == old, job
    rig.raw()
    if number % 2 == 0:
        rig.pull(old)
        pulled.append(old)
        for i in rig.all:
            rig.wait_event(i, "member-failed", 90, member=old)
    for i in rig.all:
        rig.guests[i].command(f"set {NAME} resync_max_rate=1G resync_min_rate=4M")
    for i in rig.all:
        rig.wait_event(i, "rebuild-done", 300)
    replaced = time.monotonic() - began
    rig.progress()
    for i in rig.all:
        status = rig.guests[i].status(NAME)
        assert status["state"] == "optimal" and status["members"][new]["state"] == "in-sync", status
        assert status["members"][old]["state"] in ("missing", "faulty"), status
    stalls = rig.settle()
    assert not any(any(rig.node_fenced(i)) for i in rig.all), f"somebody was fenced: {rig.cluster.fencer.log}"
    rig.stop()
    rig.put_back(pulled)
    rig.create()
    longest = max(s for node in stalls.values() for s in node.values())
    return f"member {old} replaced after {replaced:.1f} s{', pulled in the middle' if pulled else ''}; longest stall {longest:.1f} s"


if __name__ == "__main__":
    sys.exit(drill.main("cluster_replace", __doc__, round_of, disks=5, kind=SpareRig, resync_min_rate="4M"))
