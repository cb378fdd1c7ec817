#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The daemon of a running node is stopped (SIGSTOP), and a verify needs the answer of every node.

Topology: three nodes, one array of five disks (order 2, one parity), GFS2 on it, mounted on all; away_time is 120 s.
Phases: load on all. ddraidd on node N is stopped for four seconds: nobody is fenced. Then it is stopped for good, and on another node a verify
begins, to each range of which every node has to agree. The other daemons exclude the silent one after five pulses (ten seconds) and have the node
fenced, long before away_time; then the load of the other nodes goes on without an error, and the verify ends. Their longest stall is measured: it is
no longer than from the stop until the node was fenced. All data that was reported durable is read on them; the node comes back.
"""
import signal
import sys
import time

import drill
from ddvm.config import time_scale
from rig import NAME

AWAY = 120      # s
SILENT = 12     # s: five pulses, and the one under way when the daemon was stopped
OTHERS = 10     # s: the verdict, the fence agent, the change of the membership, on machines that are emulated
MORE = 1.0      # s that a stall may last beyond what it waits for, and beyond the longest write before


def round_of(rig, number):
    victim = len(rig.all) - (number - 1) % len(rig.all)
    others = [i for i in rig.up() if i != victim]
    by = others[number % len(others)]
    rig.load()
    rig.progress()
    rig.guests[victim].daemon.kill(signal.SIGSTOP)
    time.sleep(4)
    rig.guests[victim].daemon.kill(signal.SIGCONT)
    rig.progress()
    assert not any(rig.node_fenced(victim)), f"node {victim} was fenced although its daemon was stopped for four seconds only"
    noise = max(max(rig.loads[i].stalls().values()) for i in others)
    rig.guests[victim].daemon.kill(signal.SIGSTOP)
    began = time.monotonic()
    rig.guests[by].command(f"verify {NAME} start")
    rig.wait_fenced(victim)
    fenced = time.monotonic() - began
    rig.wait_recovered(victim)
    rig.progress(others)
    rig.wait_event(by, "verify-done", 240)
    stalls = rig.settle()
    longest = max(s for node in stalls.values() for s in node.values())
    seen = (f"node {victim} was fenced {fenced:.1f} s after its daemon was stopped; longest stall of the others {longest:.1f} s "
            f"(before: {noise:.1f} s)")
    assert SILENT - 4 <= fenced <= (SILENT + OTHERS) * time_scale(), seen
    assert longest <= fenced + MORE + noise, seen
    rig.bring([victim])
    return seen


if __name__ == "__main__":
    sys.exit(drill.main("cluster_silent", __doc__, round_of, away_time=f"{AWAY}s"))
