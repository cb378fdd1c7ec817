#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""How long a grant, a recovery and a join take, on 3 nodes and on 5.

Topology: three, then five nodes, one array of five disks (order 2, one parity); no file system and no load, so that nothing but
the array's own work is timed.
Phases: each node writes cold regions, one block each, and then the same block again: the difference is the grant. The last node
dies with regions that are dirty (counted): from its fencing until every survivor knows that they are taken over. It comes back: from ddraid start until all take part. Prints a line of a table for each size;
tests/sim/ddrsim --scale is its counterpart for clusters that do not fit into one machine.
"""
import datetime
import statistics
import sys
import time

import drill
from rig import DEV, NAME
from cluster_node import dirty_of, recovered_regions

COLD = 8                # regions that each node is granted
SIZES = (3, 5)


def first_block(rig, node, n):
    """Of the n-th region that this node uses; no two share a log bit."""
    return ((node - 1) * COLD + n) * rig.region_blocks


def grants(rig, node):
    """(ms of the first write, ms of the later ones: median) for each cold region, one after the other."""
    seen = []
    for n in range(COLD):
        out = rig.node(node).run(f"/tmp/writer pulse {DEV} {first_block(rig, node, n)} 1 1 50").out
        first, *rest = [int(line.split()[2]) / 1000 for line in out.splitlines() if line.startswith("P ")]
        seen.append((first, statistics.median(rest)))
    return seen


def moment(event):
    return datetime.datetime.fromisoformat(event["time"].rstrip("Z"))


def recovery(rig, victim):
    """The node dies; (its dirty regions, s from its fencing until the last survivor knows that they are taken over)."""
    slot = rig.slot(victim)
    rig.die(victim)
    dirty = dirty_of(rig.raw(), slot)
    rig.wait_recovered(victim)
    fenced = min(moment(rig.wait_event(i, "node-fenced", node=victim)) for i in rig.up())
    recovered = max(moment(rig.wait_event(i, "node-recovered", node=victim)) for i in rig.up())
    found = recovered_regions(rig, victim)
    assert found == dirty > 0, f"regions recovered: {found}; dirty in the dead node's slot: {dirty}"
    return dirty, (recovered - fenced).total_seconds()


def join(rig, node):
    rig.boot([node])
    began = time.monotonic()
    rig.start([node])
    return time.monotonic() - began


def round_of(rig, _number):
    rig.wait_idle()
    for i in rig.up():
        rig.guests[i].command(f"set {NAME} grant_ahead=0")
        rig.guests[i].command(f"set {NAME} idle_time=60min")
    seen = [pair for i in rig.up() for pair in grants(rig, i)]
    cold, granted = (statistics.median(column) for column in zip(*seen))
    dirty, recovered = recovery(rig, len(rig.all))
    joined = join(rig, len(rig.all))
    for i in rig.up():
        rig.guests[i].command(f"set {NAME} idle_time=1s")
    return (f"| {len(rig.all)} | {cold:.1f} ms | {granted:.1f} ms | {dirty} regions in {recovered:.2f} s | {joined:.1f} s |")


def main():
    print("| nodes | write to a cold region | to a granted one | recovery after the fencing | join |", flush=True)
    return max(drill.main("cluster_scale", __doc__, round_of, nodes=nodes, filesystem=False) for nodes in SIZES)


if __name__ == "__main__":
    sys.exit(main())
