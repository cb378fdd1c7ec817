#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The network splits into single nodes, and heals.

Topology: three nodes, one array of five disks (order 2, one parity), loads on the device itself: dlm_controld, which GFS2 needs,
wants its nodes restarted after such a split; the array does not.
Phases: load on all; each node is alone, nobody has quorum: the I/O of all stands still, no I/O fails, nobody is fenced. The
network heals: all go on by themselves; everything that anybody was promised is read on every node. Even rounds heal
in two steps: first two nodes, which then have quorum and fence the third. corosync may take two such steps by itself: then, and
only then, an odd round may end like an even one.
"""
import contextlib
import sys
import time

import drill
import ddvm
from ddvm.config import time_scale
from rig import NAME


def third(rig):
    """The network is whole: the node that the two others fenced since they had met before, or None once all are active."""
    deadline = time.monotonic() + 90 * time_scale()
    while True:
        for victim in rig.all:
            if any(rig.node_fenced(victim)):
                rest = [i for i in rig.all if i != victim]
                for i in rest:
                    assert [e for e in rig.events(i) if e["event"] == "view" and e["nodes"] == 2 and e["quorate"]], \
                        f"node {victim} was fenced, and node {i} never saw two nodes with quorum: {rig.events(i)}"
                return victim
        active = None
        with contextlib.suppress(ddvm.NodeDied):        # fenced meanwhile, or it stays inactive
            active = [{n["id"] for n in rig.guests[i].status(NAME)["cluster"]["nodes"] if n["state"] == "active"} for i in rig.up()]
            if all(a == set(rig.all) for a in active):
                return None
        assert time.monotonic() < deadline, f"the network is whole, and these are active: {active}"
        time.sleep(0.3)


def round_of(rig, number):
    rig.load()
    rig.progress()
    rig.cluster.network.partition([1], [2], [3])
    began = time.monotonic()
    for i in rig.up():
        rig.wait_event(i, "view", 60, nodes=1, quorate=0)
    for i in rig.up():
        rig.loads[i].stands_still(2)
    rig.raw()
    assert not any(any(rig.node_fenced(i)) for i in rig.all), f"somebody without quorum fenced: {rig.cluster.fencer.log}"
    text = f"all stood still before {time.monotonic() - began:.1f} s"
    began = time.monotonic()
    victim = None
    if number % 2 == 0:
        victim = number // 2 % 3 + 1
        rig.cluster.network.partition([i for i in rig.all if i != victim], [victim])
        rig.wait_fenced(victim)
        rig.wait_recovered(victim)
        text += f", two met, third fenced and recovered after {time.monotonic() - began:.1f} s"
    rig.cluster.network.heal()
    if not victim:
        victim = third(rig)
        if victim:
            rig.wait_fenced(victim)
            rig.wait_recovered(victim)
            text += f", two met first, third fenced and recovered {time.monotonic() - began:.1f} s after it healed"
    rig.wait_active(rig.up())
    rig.progress()
    if not victim:
        text += f", all went on {time.monotonic() - began:.1f} s after it healed"
    rig.settle()
    if victim:
        rig.bring([victim])
    return text


if __name__ == "__main__":
    sys.exit(drill.main("cluster_split_all", __doc__, round_of, filesystem=False))
