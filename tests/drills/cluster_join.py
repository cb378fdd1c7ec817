#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Nodes join and leave an array that is in use.

Topology: three nodes, one array of five disks (order 2, one parity), GFS2 on it.
Phases: load on all; node 3 leaves cleanly, and joins again while the others write; then 2 and 3 leave, and join at once while node 1
writes. Then leave and join at the same moment: node 3 is off; it comes up cut off from the others; the network changes so that node 2 is
gone and node 3 is there at once (corosync reports it as one change of the membership or, without quorum between them, as two). Node 2 is
fenced and recovered, node 3 joins; then node 2 comes back. No load sees an error; in the end all data that was reported durable is read on
every node.
"""
import sys
import time

import drill


def away(rig, numbers):
    """These nodes leave cleanly: no load, not mounted, array stopped. Nobody is fenced for it."""
    rig.stop_load(numbers)
    rig.stop(numbers)
    rest = [i for i in rig.up() if i not in numbers]
    rig.wait_active(rest)
    rig.progress(rest)


def back(rig, numbers):
    """These join at the same moment, mount, and write; seconds until all take part."""
    began = time.monotonic()
    rig.start(numbers)
    joined = time.monotonic() - began
    rig.mount(numbers)
    rig.load(numbers)
    rig.progress()
    return joined


def round_of(rig, _number):
    rig.load()
    rig.progress()
    away(rig, [3])
    one = back(rig, [3])
    away(rig, [2, 3])
    two = back(rig, [2, 3])
    away(rig, [3])
    assert not any(any(rig.node_fenced(i)) for i in rig.all), f"a node that left in order was fenced: {rig.cluster.fencer.log}"
    rig.shut_down(3)
    assert not any(rig.node_fenced(3)), f"a node that was shut down was fenced: {rig.cluster.fencer.log}"
    rig.cluster.network.partition([1, 2], [3])
    rig.boot([3], alone=True)
    start = rig.node(3).spawn("exec ddraid start shared")
    start.wait_output("waits: no quorum")
    rig.cluster.network.partition([1, 3], [2])
    began = time.monotonic()
    rig.wait_fenced(2)
    rig.wait_event(1, "node-recovered", 90, node=2)
    start.wait(120, check=True)
    rig.wait_active([1, 3])
    swapped = time.monotonic() - began
    rig.raw()
    rig.cluster.network.heal()
    rig.start_dlm([3])
    rig.wait_recovered(2)
    rig.mount([3])
    rig.load([3])
    rig.progress()
    rig.settle()
    rig.bring([2])
    return f"one joined in {one:.1f} s, two at once in {two:.1f} s; node 3 for node 2 in one event: {swapped:.1f} s"


if __name__ == "__main__":
    sys.exit(drill.main("cluster_join", __doc__, round_of))
