#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A disk is pulled while all nodes write, and the spare takes its place.

Topology: three nodes, one array of four disks (order 1, P and Q) and a spare, GFS2 on it, mounted on all; corosync over two rings; a fence
device.
Phases: load on all; a member's disk is pulled from all machines at once; the cluster agrees that it failed, one node takes the spare and
rebuilds it, while the load continues without an error anywhere, and nobody is fenced; while that goes on, and after it, the disks hold
nothing inconsistent outside of dirty regions (by the remaining parity); all have the spare in sync and the array is whole; all data that
was reported durable is read on every node. In even rounds another member is pulled after that, and the raw check and the file system read
what the spare holds. Then all stop, the disk is put back blank, and the array is recreated.
"""
import sys
import time

import drill
import tools
from rig import NAME, REGION, Rig


class SpareRig(Rig):
    """The last disk is a spare. P and Q, so that what is left can be checked while a member is missing."""

    def __init__(self, *args, **options):
        super().__init__(*args, shape=(1, 2, "rotating"), **options)

    def create(self):
        self.ledgers = {i: tools.Ledger() for i in self.all}
        self.appended = {}
        first = self.guests[min(self.guests)]
        *members, spare = [d.dev for d in first.node.disks]
        first.create(NAME, *self.shape, members, f"--region-size {REGION} --overwrite --yes --spare {spare}")
        self.start()
        self.prepare()

    def pull(self, index):
        self.on_each(lambda i: self.node(i).unplug(self.node(i).disks[index]))

    def put_back(self, indices):
        """As blank ones, all of them: what lay where the next array writes nothing would be no parity of anything."""
        for index in indices:
            self.on_each(lambda i, index=index: self.node(i).plug(self.node(i).disks[index]))
        node = self.node(min(self.guests))
        for disk in node.disks:
            node.run(f"blkdiscard -z {disk.dev} || dd if=/dev/zero of={disk.dev} bs=1M conv=nocreat,fsync", check=False, timeout=120)


def round_of(rig, number):
    members = len(rig.cluster.nodes[0].disks) - 1
    victim, pulled = (number - 1) % members, []
    for i in rig.all:
        rig.node(i).allow_dmesg(r".*(I/O error|vd[a-z]|virtio|dm-\d+|ddraid).*")
    rig.load()
    rig.progress()
    began = time.monotonic()
    rig.pull(victim)
    pulled.append(victim)
    for i in rig.all:
        assert rig.wait_event(i, "rebuild-start", 90)["member"] == members
    taken = time.monotonic() - began
    rig.raw()
    for i in rig.all:
        rig.wait_event(i, "rebuild-done", 240)
    rebuilt = time.monotonic() - began
    rig.progress()
    for i in rig.all:
        status = rig.guests[i].status(NAME)
        assert status["state"] == "optimal" and status["members"][members]["state"] == "in-sync", status
    stalls = rig.settle()
    if number % 2 == 0:
        other = (victim + 1) % members
        rig.load()
        rig.pull(other)
        pulled.append(other)
        for i in rig.all:
            rig.wait_event(i, "member-failed", 90, member=other)
        rig.progress()
        rig.settle()
    assert not any(any(rig.node_fenced(i)) for i in rig.all), f"somebody was fenced: {rig.cluster.fencer.log}"
    rig.stop()
    rig.put_back(pulled)
    rig.create()
    longest = max(s for node in stalls.values() for s in node.values())
    return f"member {victim} pulled: out of all machines and the spare taken after {taken:.1f} s, rebuilt after {rebuilt:.1f} s; longest stall {longest:.1f} s"


if __name__ == "__main__":
    sys.exit(drill.main("cluster_spare", __doc__, round_of, disks=5, kind=SpareRig, resync_min_rate="4M"))
