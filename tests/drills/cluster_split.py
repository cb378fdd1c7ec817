#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The network splits two to one, and heals.

Topology: three nodes, one array of five disks (order 2, one parity), GFS2 on it, mounted on all; corosync over two rings, of which both are
cut. The fence device takes 6 s, so that the node that is cut off runs on alone for that long.
Phases: load on all; node N is alone. It has no quorum: its I/O waits before it is fenced, and does not fail. The others fence it, recover
its regions and continue. Even rounds: the network heals before the node is off; it is fenced all the same, since the others continued
without it. All data that was reported durable is read; the node comes back.
"""
import sys
import time

import drill


def round_of(rig, number):
    victim = len(rig.all) - (number - 1) % len(rig.all)
    others = [i for i in rig.up() if i != victim]
    rig.load()
    rig.progress()
    rig.cluster.fencer.delay = 6
    rig.cluster.network.partition(others, [victim])
    began = time.monotonic()
    rig.wait_event(victim, "view", 60, nodes=1, quorate=0)
    rig.loads[victim].stands_still(2)
    frozen = time.monotonic() - began
    rig.raw()
    if number % 2 == 0:
        rig.cluster.network.heal()
    rig.wait_fenced(victim)
    fenced = time.monotonic() - began
    rig.cluster.network.heal()
    rig.wait_recovered(victim)
    rig.cluster.fencer.delay = 0
    rig.progress()
    rig.settle()
    rig.bring([victim])
    return (f"node {victim} alone: stood still before {frozen:.1f} s, fenced after {fenced:.1f} s"
            f"{', healed before' if number % 2 == 0 else ''}")


if __name__ == "__main__":
    sys.exit(drill.main("cluster_split", __doc__, round_of))
