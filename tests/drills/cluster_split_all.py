#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The network splits into single nodes, and heals.

Topology: three nodes, one array of five disks (order 2, one parity), loads on the device itself: dlm_controld, which GFS2 needs, wants its
nodes restarted after such a split; the array does not.
Phases: load on all; each node is alone, none has quorum: all I/O waits, no I/O fails, nobody is fenced. The network heals: all nodes resume
automatically; all data that was reported durable is read on every node. Even rounds heal in two steps: first two nodes, which then have
quorum and fence the third. A message that reached only its sender before the network broke makes that node's state differ: then, and only
then, the two nodes with the same state continue and fence it, or of two nodes that meet the first fences the other. Fenced nodes are
brought back, and all continue.
"""
import contextlib
import sys
import time

import drill
import ddvm
from ddvm.config import time_scale
from rig import NAME


def others(rig):
    """Nodes that the rest put out, since they came with another state."""
    return {e["node"] for i in rig.up() for e in rig.events(i) if e["event"] == "node-lost" and "another state" in e["text"]}


def outcome(rig, left_out):
    """The network is whole: (nodes that were fenced, those of them that had another state), once all that are left are active."""
    deadline = time.monotonic() + 90 * time_scale()
    while True:
        fenced = {i for i in rig.all if any(rig.node_fenced(i))}
        for i in fenced & set(rig.up()):
            rig.wait_fenced(i)
        active, other = [], set()
        with contextlib.suppress(ddvm.NodeDied):        # fenced meanwhile
            other = others(rig)
            active = [{n["id"] for n in rig.guests[i].status(NAME)["cluster"]["nodes"] if n["state"] == "active"} for i in rig.up()]
        if active and fenced == other | left_out and (len(active) == 1 or all(a == set(rig.up()) for a in active)):
            return fenced, other
        assert fenced <= other | left_out or not active, f"fenced: {fenced}; with another state: {other}"
        assert time.monotonic() < deadline, f"the network is whole; fenced: {fenced}, with another state: {other}, active: {active}"
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
    left_out = set()
    if number % 2 == 0:
        victim = number // 2 % 3 + 1
        left_out = {victim}
        rig.cluster.network.partition([i for i in rig.all if i != victim], [victim])
        rig.wait_fenced(victim)
    rig.cluster.network.heal()
    fenced, other = outcome(rig, left_out)
    text += f", healed: {'all go on' if not fenced else f'fenced {sorted(fenced)}'}"
    if other:
        text += f" ({sorted(other)} had another state)"
    if len(rig.up()) == 1:      # no quorum before another node is back
        rig.bring(fenced)
        fenced = ()
    rig.wait_recovered(*(left_out | other))
    rig.wait_active(rig.up())
    rig.progress()
    text += f", the load too after {time.monotonic() - began:.1f} s"
    rig.settle()
    if fenced:
        rig.bring(fenced)
    return text


if __name__ == "__main__":
    sys.exit(drill.main("cluster_split_all", __doc__, round_of, filesystem=False))
