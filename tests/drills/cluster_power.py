#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""All nodes lose their power at once, under load.

Topology: three nodes, one array of five disks (order 2, one parity), GFS2 on it, mounted on all.
Phases: load on all; power cut of all; on the raw disks every inconsistent stripe lies in a dirty region; all (even rounds: two; the third
is fenced as absent, and comes later) start again: the dirty regions of all slots are resynced and no others; GFS2 replays its journals; all
data that was reported durable is there on every node.
"""
import sys
import time

import drill


def round_of(rig, number):
    absent = number // 2 % len(rig.all) + 1 if number % 2 == 0 else None
    first = [i for i in rig.all if i != absent]
    rig.load()
    rig.progress()
    rig.cluster.power_off()
    for i in rig.all:
        rig.gone(i)
    cut = rig.raw()
    dirty = sum(count for runs in cut["slots"].values() for _, count in runs)
    rig.boot(first)
    began = time.monotonic()
    rig.start(first)
    if absent:
        rig.wait_fenced(absent)
        for i in first:
            rig.wait_event(i, "node-recovered", node=absent)
    rig.mount(first)
    mounted = time.monotonic() - began
    rig.wait_idle()
    found = sum(e["regions"] for i in first for e in rig.events(i) if e["event"] == "recovery")
    assert found == dirty, f"regions recovered: {found}; dirty in the slots of all: {dirty}"
    rig.settle()
    if absent:
        rig.bring([absent])
    return (f"{cut['bad_blocks']} stripes inconsistent, {dirty} regions dirty in {len(cut['slots'])} slots, all resynced; "
            f"mounted after {mounted:.1f} s{f' without node {absent}' if absent else ''}")


if __name__ == "__main__":
    sys.exit(drill.main("cluster_power", __doc__, round_of, away_time="5s"))
