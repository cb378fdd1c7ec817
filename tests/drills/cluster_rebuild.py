#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The node that rebuilds a disk dies, or all of them do, and the rebuild goes on where it was.

Topology: three nodes, one array of four disks (order 1, P and Q), GFS2 on it, mounted on all; each disk lies below a device that can be
made to fail, on every node; corosync over two rings; a fence device that cuts the power.
Phases: a member fails while all nodes write; it is well again, and `ddraid add` takes it back. The rebuild is held to 2 MiB/s. In odd rounds
its node dies at 30 %: another one goes on, from the cursor in the superblocks, and the load of those that are left sees no error. In even
rounds all power is lost at 60 %: after the boot the rebuild goes on, and not from the beginning. Everything that anybody was
promised, and a file that nobody touched, are read on every node; no stripe is wrong. Of the blocks that were in flight at the crash nothing is
asked: with a member out a torn stripe is what nobody wrote, and its region is listed as suspect.
"""
import sys
import time

import drill
from faulty import FaultyRig
from rig import MOUNT, NAME

BALLAST = 40                    # MiB that are written while the member is out, so that there is something to rebuild


def at(rig, percent):
    """Until so much of the rebuild is done; (its node, and the byte of the array that it has come to)."""
    deadline = time.monotonic() + 180
    while True:
        jobs = [j for i in rig.up() for j in rig.guests[i].status(NAME)["jobs"] if j["type"] == "rebuild"]
        best = max(jobs, key=lambda j: j["done"], default=None)
        if best and best["done"] * 100 >= best["total"] * percent:
            assert best["done"] < best["total"], "the rebuild was too fast to be caught"
            return best["node"], best["position"]
        assert time.monotonic() < deadline, f"the rebuild is not {percent} % done: {jobs}"
        time.sleep(0.1)


def rebuild_begins(rig, victim):
    """A member goes and comes back; its rebuild is under way."""
    rig.load(append=False)              # what is in flight at the crash may be anything: that of an appended record holds others, too
    rig.progress()
    rig.tell(victim, "fail all")
    rig.wait_failed(victim)
    rig.progress()
    rig.node(1).run(f"dd if=/dev/urandom of={MOUNT}/ballast bs=1M count={BALLAST} conv=notrunc,fsync status=none", timeout=240)
    rig.slow("2M")
    rig.heal(victim)
    rig.node(2).run(f"ddraid add {NAME} /dev/mapper/m{victim}", timeout=90)
    for i in rig.up():
        rig.wait_event(i, "rebuild-start", 90)


def node_dies(rig):
    dead, done = at(rig, 30)
    rig.mark()
    rig.die(dead)
    rig.raw()
    rig.wait_fenced(dead)
    rig.wait_recovered(dead)
    rig.progress()
    rig.slow(None)
    rig.wait_whole()
    rig.settle(torn=True)
    rig.read_still()
    rig.bring([dead])
    return f"node {dead} died with {done >> 20} MiB rebuilt, another one finished it"


def power_goes(rig):
    _, done = at(rig, 60)
    rig.cluster.power_off()
    for i in rig.all:
        rig.gone(i)
    cursor = next(m["cursor"] for m in rig.raw()["members"] if m["state"] == "rebuilding") * 4096
    total = rig.blocks * 4096
    # it follows by a 64th of the array, and the change of the superblocks takes its time
    assert done > total // 16 and cursor >= done - total // 32, f"of {total} bytes it had come to {done}, and by the superblocks to {cursor}"
    rig.boot()
    rig.start()
    jobs = [j for i in rig.up() for j in rig.guests[i].status(NAME)["jobs"] if j["type"] == "rebuild"]
    resumed = min((j["position"] for j in jobs), default=None)
    assert resumed is None or resumed >= cursor, f"by the superblocks {cursor} bytes were rebuilt, and it went on at {resumed}"
    rig.mount()
    rig.wait_whole()
    rig.settle(torn=True)
    rig.read_still()
    return f"all power lost with {done >> 20} MiB rebuilt, went on at {'the end' if resumed is None else f'{resumed >> 20} MiB'}"


def round_of(rig, number):
    victim = (number - 1) % rig.members
    rebuild_begins(rig, victim)
    seen = node_dies(rig) if number % 2 else power_goes(rig)
    rig.wait_idle()
    for i in rig.up():
        assert rig.guests[i].status(NAME)["state"] == "optimal"
    return f"member {victim}: {seen}"


if __name__ == "__main__":
    sys.exit(drill.main("cluster_rebuild", __doc__, round_of, disks=4, kind=FaultyRig))
