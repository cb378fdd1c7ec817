#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A disk fails at the moment at which a node loses its power.

Topology: three nodes, one array of four disks (order 1, P and Q), GFS2 on it, mounted on all; each disk is below a device that can be made
to fail, on every node; corosync over two rings; a fence device that cuts the power.
Phases: a file is written and left untouched; load on all; a member fails on all nodes and one of them dies, in odd rounds the disk just
before the node, in even ones while it goes. The node is fenced, the survivors agree that the member has failed, take over the node's dirty
regions, and continue without an error. All data that was reported durable, and the file, are read on every survivor, but for the blocks
that the dead node was writing: with a member failed the missing chunk of a torn stripe is computed wrongly, and its region is listed as
suspect (load.py has the rule). Then the node comes back, the disk works again, and is taken back.
"""
import concurrent.futures
import sys
import time

import drill
from faulty import FaultyRig


def round_of(rig, number):
    victim, dead = (number - 1) % rig.members, len(rig.all) - (number - 1) % len(rig.all)
    rig.load(append=False)
    rig.progress()
    began = time.monotonic()
    survivors = [i for i in rig.all if i != dead]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        failing = pool.submit(rig.tell, victim, "fail all", survivors if number % 2 == 0 else rig.all)
        if number % 2:
            failing.result()
        rig.die(dead)
        failing.result()
    rig.wait_failed(victim)
    rig.wait_fenced(dead)
    rig.wait_recovered(dead)
    recovered = time.monotonic() - began
    rig.progress()
    rig.raw()
    for i in survivors:
        assert not any(rig.node_fenced(i)), f"node {i} was fenced too: {rig.cluster.fencer.log}"
    stalls = rig.settle(torn=True)
    rig.read_still()
    rig.bring([dead])
    rig.load()
    rig.back(dead, victim)
    rig.progress()
    rig.settle()
    rig.read_still()
    suspect = rig.accept_suspect()
    longest = max(s for node in stalls.values() for s in node.values())
    return f"member {victim} and node {dead}: recovered after {recovered:.1f} s, longest stall {longest:.1f} s; both back; {suspect} regions were suspect"


if __name__ == "__main__":
    sys.exit(drill.main("cluster_member_node", __doc__, round_of, disks=4, kind=FaultyRig))
