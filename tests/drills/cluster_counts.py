#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What a write costs the cluster, counted.

Topology: three nodes, one array of five disks (order 2, one parity); single writes to the device itself.
Phases: regions do not become idle, and no grant is read ahead. A node writes a region that it was granted again and again:
no node sends a message, no log block is written. It writes cold regions, one block each: one log write for each, and no
message. The counters are those of ddraid status --json, of all nodes.
"""
import sys
import time

import drill
from ddvm.config import time_scale
from rig import DEV, NAME

COLD = 8        # regions


def counters(rig):
    """{node: {counter: value}}"""
    return {i: rig.guests[i].status(NAME)["counters"] for i in rig.up()}


def grown(rig, before):
    """Sum over all nodes of what the counters grew by."""
    after = counters(rig)
    return {key: sum(after[i][key] - before[i][key] for i in after) for key in before[rig.up()[0]]}


def until_silent(rig, seconds=4, timeout=60):
    """No node has anything left to say: a node that was working on ranges is told of each device whether it is in use, two seconds after its end, too (sm_use.c)."""
    seen, since, deadline = None, 0, time.monotonic() + timeout * time_scale()
    while seen is None or time.monotonic() - since < seconds * time_scale():
        now = sum(c["messages"] for c in counters(rig).values())
        if now != seen:
            seen, since = now, time.monotonic()
        assert time.monotonic() < deadline, f"messages without end: {seen}"
        time.sleep(0.5)


def count(rig, one):
    """One node writes, on an array that is otherwise unused; (writes, cost) to a granted region, and to cold ones."""
    for i in rig.up():
        rig.guests[i].command(f"set {NAME} idle_time=60min")
        rig.guests[i].command(f"set {NAME} grant_ahead=0")
    node, first = rig.node(one), rig.tail()
    node.run(f"/tmp/writer pulse {DEV} {first} 1 1")
    # the device stays in use: a node reports when it is not for two seconds, as it may be between two commands on a slow machine
    used = node.spawn(f"exec /tmp/writer pulse {DEV} {first} 1 600 >/dev/null")
    until_silent(rig)
    before = counters(rig)
    writes = node.run(f"/tmp/writer pulse {DEV} {first + 1} 1 3").out.count("P ")
    granted = grown(rig, before)
    regions = [first + (i - COLD) * rig.region_blocks for i in range(COLD)]
    before = counters(rig)
    node.run("; ".join(f"dd if=/dev/zero of={DEV} bs=4k count=1 seek={block} oflag=direct conv=notrunc 2>/dev/null" for block in regions))
    cold = grown(rig, before)
    used.kill()
    used.wait(30, check=False)
    return (writes, granted), (COLD, cold)


def judge(seen):
    (writes, granted), (cold, costs) = seen
    assert writes > 10 and granted["messages"] == granted["log_writes"] == 0, f"{writes} writes to a granted region cost {granted}"
    assert costs["messages"] == 0 and costs["log_writes"] == cold, f"one write to each of {cold} cold regions cost {costs}"
    return (f"{writes} writes to a granted region: {granted['messages']} messages, {granted['log_writes']} log writes; one write to each of "
            f"{cold} cold regions: {costs['messages']} messages, {costs['log_writes']} log writes")


def round_of(rig, number):
    rig.wait_idle()
    text = judge(count(rig, (number - 1) % len(rig.all) + 1))
    for i in rig.up():
        rig.guests[i].command(f"set {NAME} idle_time=1s")
    rig.wait_idle()
    return text


if __name__ == "__main__":
    sys.exit(drill.main("cluster_counts", __doc__, round_of, filesystem=False))
