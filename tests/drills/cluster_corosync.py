#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""corosync is killed on a living node.

Topology: three nodes, one array of five disks (order 2, one parity), GFS2 on it, mounted on all.
Phases: load on all; kill -9 of corosync on node N. Its daemon has lost the cluster: the node's I/O stands still, it does not fail. The
others, which still have quorum, fence it and recover its regions; their load continues; all data that was reported durable is read on them,
including that of node N; the node comes back.
"""
import sys
import time

import drill


def round_of(rig, number):
    victim = len(rig.all) - (number - 1) % len(rig.all)
    rig.load()
    rig.progress()
    rig.cluster.corosync[victim].kill()
    began = time.monotonic()
    rig.wait_event(victim, "cluster-lost", 10)
    rig.wait_fenced(victim)
    fenced = time.monotonic() - began
    rig.wait_recovered(victim)
    recovered = time.monotonic() - began
    rig.raw()
    rig.progress()
    rig.settle()
    rig.bring([victim])
    return f"node {victim} without corosync: fenced after {fenced:.1f} s, recovered after {recovered:.1f} s"


if __name__ == "__main__":
    sys.exit(drill.main("cluster_corosync", __doc__, round_of))
