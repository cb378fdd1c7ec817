#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A node dies where ddraidd may fence nobody.

Topology: three nodes, one array of five disks (order 2, one parity), GFS2 on it, mounted on all; fence_command is none (dlm_controld fences
for itself).
Phases: load on all; node N loses its power. Nothing of it is recovered; status shows on each survivor what is waited for and what to do;
the survivors' pulses continue. The operator's ddraid fence-ack allows the recovery; a fence-ack for a node that is not lost is refused. Its
regions are recovered; all data that was reported durable is read; the node comes back.
"""
import sys
import time

import drill


def round_of(rig, number):
    victim = len(rig.all) - (number - 1) % len(rig.all)
    rig.load()
    rig.progress()
    rig.die(victim)
    one, other = rig.up()
    for i in rig.up():
        rig.wait_event(i, "wait", 60, node=victim)
        waits = rig.guests[i].status("shared")["cluster"]["waits"]
        assert waits and "fence-ack" in waits, f"node {i} does not say what to do: {waits}"
        rig.loads[i].beats("own", 20)
    text = rig.guests[one].command("status").out
    assert "fence-ack" in text, f"ddraid status does not say what to do: {text}"
    refused = rig.guests[one].command(f"fence-ack {other}", check=False)
    assert refused.code == 1 and refused.err.count("\n") == 1, f"fence-ack of a node that takes part: {refused}"
    assert not any(e["event"] == "node-recovered" for i in rig.up() for e in rig.events(i)), "recovered without proof"
    rig.raw()
    rig.guests[number % 2 and one or other].command(f"fence-ack {victim}")
    began = time.monotonic()
    rig.wait_recovered(victim)
    recovered = time.monotonic() - began
    rig.progress()
    rig.settle()
    rig.bring([victim])
    return f"node {victim} died; recovered {recovered:.1f} s after fence-ack"


if __name__ == "__main__":
    sys.exit(drill.main("cluster_unfenced", __doc__, round_of, fence_command="none"))
