#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A node dies while another is being recovered; and the node that recovers it dies.

Topology: four nodes, of which node 2 has two votes of five, one array of five disks (order 2, one parity), GFS2 on it, mounted on all. The
resync is limited to 1 MiB/s, so that the recovery is still running then.
Phases: load on all; node 4 dies. Odd rounds: when it was fenced, and its regions are being taken over, node 3 dies. Even rounds: when node
1, the lowest, has taken them over and resyncs them, node 1 dies; a third one has to finish both. The two survivors, with three votes,
continue; all data that was reported durable is read on each of them, no stripe is wrong; the two come back together.
"""
import sys
import time

import drill


def round_of(rig, number):
    second, moment = (3, "node-fenced") if number % 2 else (1, "recovery")
    for i in rig.up():
        rig.guests[i].command("set shared resync_min_rate=64K")
        rig.guests[i].command("set shared resync_max_rate=1M")
    rig.load()
    rig.progress()
    rig.die(4)
    began = time.monotonic()
    rig.wait_event(1, moment, 90, node=4)
    rig.die(second)
    rig.raw()
    rig.wait_fenced(second)
    rig.wait_fenced(4)
    rig.wait_recovered(second, 4)
    recovered = time.monotonic() - began
    rig.progress()
    for i in rig.up():
        rig.guests[i].command("set shared resync_max_rate=0")
        rig.guests[i].command("set shared resync_min_rate=10M")
    rig.settle()
    rig.bring([4, second])
    return f"nodes 4 and then, at its event {moment}, {second} died: recovered after {recovered:.1f} s"


if __name__ == "__main__":
    sys.exit(drill.main("cluster_recovery", __doc__, round_of, nodes=4, votes={2: 2}))
