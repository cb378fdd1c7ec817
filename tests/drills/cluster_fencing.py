#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Fencing fails twice, and then succeeds.

Topology: three nodes, one array of five disks (order 2, one parity), GFS2 on it, mounted on all.
Phases: load on all; node N loses its power; the fence device refuses ddraidd twice. The survivors take turns; until one of them succeeds
nothing of the dead node is recovered, status shows what is waited for, and the survivors' pulses continue. Then the regions are recovered;
all data that was reported durable is read on the survivors; the node comes back.
"""
import sys
import time

import drill


def round_of(rig, number):
    victim = len(rig.all) - (number - 1) % len(rig.all)
    rig.load()
    rig.progress()
    fencer = rig.cluster.fencer
    fencer.failures, before = 2, len(fencer.log)
    rig.die(victim)
    began = time.monotonic()
    for i in rig.up():
        rig.wait_event(i, "node-lost", 60, node=victim)
        rig.loads[i].beats("own", 5)
    rig.wait_fenced(victim)
    tries = [(asker, answer) for _, asker, program, _, answer in fencer.log[before:] if program.startswith("ddraidd")]
    assert [answer for _, answer in tries] == ["failed on purpose"] * 2 + ["ok"], f"fencing went so: {tries}"
    assert tries[0][0] != tries[1][0] == rig.up()[1] and tries[2][0] == rig.up()[0], f"they did not take turns: {tries}"
    rig.wait_recovered(victim)
    recovered = time.monotonic() - began
    for i in rig.up():
        rig.wait_event(i, "wait", node=victim)
    rig.raw()
    rig.progress()
    rig.settle()
    rig.bring([victim])
    return f"node {victim} died; fencing by {[asker for asker, _ in tries]}, recovered after {recovered:.1f} s"


if __name__ == "__main__":
    sys.exit(drill.main("cluster_fencing", __doc__, round_of))
