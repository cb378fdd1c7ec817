#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A node loses its power under load.

Topology: three nodes, one array of five disks (order 2, one parity), GFS2 on it, mounted on all; corosync over two rings; a fence device
that cuts the power, for ddraidd and for dlm_controld.
Phases: load on all; node N dies; at that moment the disks hold nothing inconsistent outside of dirty regions; it is fenced, its dirty
regions (counted) are taken over by one survivor and no others are resynced; the survivors' load goes on without an error, and its longest
stall is measured, in a region that the dead node held dirty (at most token timeout, fencing and 1 s) and in one that it did not (at most
the change of the membership and 1 s); all data that was reported durable is read on every survivor; the node comes back, joins, and reads
it too. In the end all stop the array, no stripe is wrong, nothing is dirty.
"""
import datetime
import sys
import time

import drill

MORE = 1.0      # s that a stall may last beyond what it waits for, and beyond the longest write before the fault


def dirty_of(report, slot):
    return sum(count for _, count in report["slots"].get(str(slot), []))


def recovered_regions(rig, victim):
    """How many dirty regions of a dead node the survivors found and took over, in all."""
    return sum(e["regions"] for i in rig.up() for e in rig.events(i) if e["event"] == "recovery" and e["node"] == victim)


def membership_change(events):
    """The longest change of the membership on a node, in seconds: from its first message in the log until quorum was back."""
    longest, since = 0, None
    for event in (e for e in events if e["event"] == "view"):
        at = datetime.datetime.fromisoformat(event["time"].rstrip("Z"))
        if event["quorate"] and since:
            longest, since = max(longest, (at - since).total_seconds()), None
        elif not event["quorate"]:
            since = since or at
    return longest


def death(rig, victim):
    """A node dies under load, and all but its stalls is judged; figures."""
    slot = rig.slot(victim)
    rig.load()
    rig.progress()
    noise = max(max(rig.loads[i].stalls().values()) for i in rig.up())
    rig.die(victim)
    began = time.monotonic()
    dirty = dirty_of(rig.raw(), slot)
    rig.wait_fenced(victim)
    fenced = time.monotonic() - began
    rig.wait_recovered(victim)
    recovered = time.monotonic() - began
    rig.progress()
    found = recovered_regions(rig, victim)
    assert found == dirty, f"regions recovered: {found}; dirty in the dead node's slot: {dirty}"
    change = max(membership_change(rig.events(i)) for i in rig.up())
    stalls = rig.settle()
    own, shared = (max(s[name] for s in stalls.values()) for name in ("own", "shared"))
    rig.bring([victim])
    return {"fenced": fenced, "recovered": recovered, "dirty": dirty, "change": change, "own": own, "shared": shared, "noise": noise}


def say(victim, seen):
    return ("node {victim} died: fenced after {fenced:.1f} s, recovered after {recovered:.1f} s ({dirty} regions); longest stall {shared:.2f} s "
            "in its regions, {own:.2f} s in others; membership change {change:.2f} s; longest write before the fault {noise:.2f} s"
            .format(victim=victim, **seen))


def round_of(rig, number):
    victim = len(rig.all) - (number - 1) % len(rig.all)
    seen = death(rig, victim)
    more = MORE + seen["noise"]
    assert seen["shared"] <= seen["fenced"] + more, f"a write to a region of the dead node stood still for too long: {say(victim, seen)}"
    assert seen["own"] <= seen["change"] + more, f"a write to a region of a survivor's own stood still for too long: {say(victim, seen)}"
    return say(victim, seen)


if __name__ == "__main__":
    sys.exit(drill.main("cluster_node", __doc__, round_of))
