#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""One node loses its path to a disk.

Topology: three nodes, one array of four disks (order 1, P and Q), GFS2 on it, mounted on all; each disk is below a device that can be made
to fail, on every node; corosync over two rings; a fence device that cuts the power.
Phases: a file is written and left untouched; load. Variant covered, load on all: one node cannot reach a member any more. The array can do
without it, so it fails for all; no node sees an error, and nobody is fenced; the path is there again, and `ddraid add` takes the member
back.
Variant gives-up, load on the others: two members have failed already, and the node cannot reach a third. It stops serving the array [rule
4], is fenced, and the others continue with that member; the node comes back with its path, and the two members too. All data that was
reported durable, and the file, are read on every node, and nothing is inconsistent.
"""
import functools
import sys
import time

import drill
from faulty import FaultyRig
from rig import DEV, NAME


def covered(rig, victim, lost):
    rig.load()
    rig.progress()
    rig.tell(victim, "fail all", [lost])
    rig.wait_failed(victim)
    rig.progress()
    rig.raw()
    rig.back(lost, victim)
    rig.progress()
    rig.settle()
    rig.assert_nobody_fenced()
    return f"node {lost} lost its path to member {victim}: out for all, and back"


def one_too_many(rig, victim, lost):
    others = [i for i in rig.all if i != lost]
    out = [m for m in range(rig.members) if m != victim][:2]
    rig.wait_idle()
    for m in out:
        rig.guests[1].command(f"fail {NAME} {m}")
        rig.wait_failed(m)
    rig.load(others)
    rig.progress()
    began = time.monotonic()
    rig.tell(victim, "fail all", [lost])
    # a write of its own, beside the file system, which may find out by reads alone and write nothing any more
    rig.node(lost).spawn(f"/tmp/writer pulse {DEV} {rig.tail() + (lost - 1) * rig.region_blocks} 1 5")
    rig.wait_fenced(lost)
    rig.wait_recovered(lost)
    took = time.monotonic() - began
    rig.progress()
    for i in others:
        state = rig.guests[i].status(NAME)["members"][victim]["state"]
        assert state == "in-sync", f"node {i}: member {victim} is {state}"
    rig.settle(raw=False)
    rig.bring([lost])
    for m in out:
        rig.back(lost, m, whole=m == out[-1])
    rig.raw()
    return f"node {lost} lost its path to member {victim}, one too many: it gave up and was fenced, recovered after {took:.1f} s"


def round_of(what, rig, number):
    seen = what(rig, (number - 1) % rig.members, (number - 1) % len(rig.all) + 1)
    rig.read_still()
    return seen


VARIANTS = {"covered": functools.partial(round_of, covered), "gives-up": functools.partial(round_of, one_too_many)}


if __name__ == "__main__":
    sys.exit(drill.main("cluster_path", __doc__, VARIANTS, disks=4, kind=FaultyRig))
