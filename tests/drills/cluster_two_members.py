#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A second disk fails while the first one's spare is being rebuilt.

Topology: three nodes, one array of four disks (order 1, P and Q) and two spares, GFS2 on it, mounted on all; each disk is below a device
that can be made to fail, on every node; corosync over two rings; a fence device. The rebuild is limited to 2 MiB/s until then, so that it
is still running.
Phases: a file is written and left untouched; load on all; a member fails on all nodes, and a spare takes its place. When a part of it is
rebuilt a second failure occurs; the variants: member: a second one; spare: the spare itself. The array continues as far as the parity
covers it, both places are rebuilt in the end, and the load continues without an error all the time. All data that was reported durable, and
the file, are read on every node; nothing is inconsistent; nobody is fenced. Then the two disks work again, and become the spares of the
next round.
"""
import functools
import sys
import time

import drill
from faulty import FaultyRig
from rig import NAME


def begun(rig, percent=20):
    """Waits until the rebuild has come this far, as its node reports; returns the spare's index."""
    deadline = time.monotonic() + 120
    while True:
        jobs = [(j, i) for i in rig.up() for j in rig.guests[i].status(NAME)["jobs"] if j["type"] == "rebuild"]
        for job, _ in jobs:
            if job["total"] * percent <= job["done"] * 100 < job["total"] * 90:
                return job["member"]
        assert time.monotonic() < deadline, f"no rebuild is {percent} % done: {jobs}"
        time.sleep(0.1)


def spares_again(rig, numbers):
    """Disks that failed are well, and spares."""
    for number in numbers:
        rig.mark()
        rig.heal(number)
        rig.node(1).run(f"ddraid add {NAME} /dev/mapper/m{number}", timeout=90)
        for i in rig.up():
            rig.wait_event(i, "member-added", 60)


def round_of(which, rig, number):
    working = {index: disk for index, (disk, state) in rig.disks_by_index().items() if state == "in-sync"}
    first, second = sorted(working)[(number - 1) % 3:(number - 1) % 3 + 2]
    rig.slow("2M")
    rig.load()
    rig.progress()
    began = time.monotonic()
    rig.tell(working[first], "fail all")
    rig.wait_failed(first)
    spare = begun(rig)
    other = spare if which == "spare" else second
    failed = [working[first], rig.disks_by_index()[other][0]]
    rig.tell(failed[1], "fail all")
    rig.wait_failed(other)
    rig.progress()                      # with two out, nothing is left to check the raw disks by
    rig.slow(None)
    deadline = time.monotonic() + 240
    while not all(rig.guests[i].status(NAME)["state"] == "optimal" for i in rig.up()):
        assert time.monotonic() < deadline, rig.guests[1].status(NAME)
        time.sleep(0.5)
    whole = time.monotonic() - began
    rig.progress()
    rig.raw()
    stalls = rig.settle()
    rig.read_still()
    rig.assert_nobody_fenced()
    spares_again(rig, failed)
    longest = max(s for node in stalls.values() for s in node.values())
    return f"member {first}, and {'the spare' if other == spare else f'member {other}'} during its rebuild: whole after {whole:.1f} s, longest stall {longest:.1f} s"


if __name__ == "__main__":
    sys.exit(drill.main("cluster_two_members", __doc__, {which: functools.partial(round_of, which) for which in ("member", "spare")}, disks=6, kind=FaultyRig, spares=2))
