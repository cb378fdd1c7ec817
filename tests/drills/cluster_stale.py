#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A disk that missed writes is not taken for a current one, whatever else is missing.

Topology: three nodes, one array of four disks (order 1, P and Q), GFS2 on it, mounted on all; each disk is below a device that can be made
to fail, on every node; corosync over two rings; a fence device.
Phases: a member fails on all nodes while they write; the array is stopped everywhere. Variant not-used: it is started with the stale disk
in place: the disk is not used, by no node, until `ddraid add` takes it back. Variant refused: two other disks are missing at the start:
with the stale one there would be enough, and the start is refused, on each node, with the reason; the data is as it was when the disks are
back. All data that was reported durable, and a file, are read on every node; nothing is inconsistent; nobody is fenced.
"""
import functools
import sys

import drill
from faulty import FaultyRig
from rig import NAME


def refused(rig, victim):
    gone = [m for m in range(rig.members) if m != victim][:2]
    for m in gone:
        rig.on_each(lambda i, m=m: rig.node(i).run(f"dmsetup remove --retry m{m}"))
        rig.on_each(lambda i, m=m: rig.node(i).unplug(rig.node(i).disks[m]))
    for i in rig.all:
        result = rig.guests[i].command(f"start --degraded --yes {NAME}", check=False, timeout=120)
        assert result.code == 1 and result.err.count("\n") == 1 and "needs 2 members in sync, and has 1" in result.err, f"node {i}: {result}"
    for m in gone:
        rig.on_each(lambda i, m=m: rig.node(i).plug(rig.node(i).disks[m]))
        rig.on_each(lambda i, m=m: rig.layer(i, m))
    return result.err.strip()


def round_of(variant, rig, number):
    victim = (number - 1) % rig.members
    rig.load()
    rig.progress()
    rig.tell(victim, "fail all")
    rig.wait_failed(victim)
    rig.progress()
    rig.settle()
    rig.stop()
    rig.heal(victim)
    why = refused(rig, victim) if variant == "refused" else ""
    rig.start()
    for i in rig.all:
        state = rig.guests[i].status(NAME)["members"][victim]["state"]
        assert state == "faulty", f"node {i}: the stale member is {state}"
    rig.mount()
    rig.load()
    rig.progress()
    rig.settle()
    rig.read_still()
    rig.back((number - 1) % len(rig.all) + 1, victim)
    rig.wait_idle()
    rig.read_still()
    rig.raw()
    rig.assert_nobody_fenced()
    return f"member {victim} is stale: {f'refused ({why})' if why else 'not used until it was added'}"


if __name__ == "__main__":
    sys.exit(drill.main("cluster_stale", __doc__, {v: functools.partial(round_of, v) for v in ("not-used", "refused")}, disks=4, kind=FaultyRig))
