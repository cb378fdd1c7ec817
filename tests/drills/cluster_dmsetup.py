#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The array is started by hand: dmsetup create, suspend, resume and remove, on every node, with the daemon running.

Topology: three nodes, one array of five disks (order 2, one parity); each node has it by dmsetup create with the line that ddraid table
prints; loads on the device itself.
Phases: load on all; node N suspends the device: its load waits, the others' continues; it resumes the device, and its load continues
without an error. Then, without load there, it removes the device: the node leaves cleanly, nobody is fenced; it creates it again, takes
part, and writes. All data that was reported durable is read on every node. In the end all remove it; no stripe is wrong, nothing is dirty.
"""
import sys
import time

import drill
from rig import NAME, Rig


class HandRig(Rig):
    """An array that ddraid start and stop never see."""

    def start_one(self, number):
        self.node(number).run(f"ddraid table {NAME} | dmsetup create {NAME} && dmsetup mknodes", timeout=120)
        self.wait_ready(number)

    def stop_one(self, number):
        self.node(number).run(f"dmsetup remove {NAME}", timeout=120)


def round_of(rig, number):
    one = len(rig.all) - (number - 1) % len(rig.all)
    others = [i for i in rig.up() if i != one]
    rig.load()
    rig.progress()
    rig.node(one).run(f"dmsetup suspend {NAME}")
    rig.loads[one].stands_still(2)
    rig.progress(others)
    began = time.monotonic()
    rig.node(one).run(f"dmsetup resume {NAME}")
    rig.progress()
    resumed = time.monotonic() - began
    rig.wait_active(rig.up())
    rig.stop_load([one])
    rig.stop_one(one)
    rig.wait_active(others)
    for i in others:
        rig.wait_event(i, "node-left", node=one)
    rig.progress(others)
    rig.start([one])
    rig.load([one])
    rig.progress()
    assert not any(any(rig.node_fenced(i)) for i in rig.all), f"somebody was fenced: {rig.cluster.fencer.log}"
    rig.settle()
    return f"node {one}: suspended, wrote again {resumed:.1f} s after the resume; removed, left in order, and joined again"


if __name__ == "__main__":
    sys.exit(drill.main("cluster_dmsetup", __doc__, round_of, filesystem=False, kind=HandRig))
