#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The node that rebuilds a disk dies, or all nodes do, and the rebuild continues where it was.

Topology: three nodes, one array of four disks (order 1, P and Q), GFS2 on it, mounted on all; each disk is below a device that can be made
to fail, on every node; corosync over two rings; a fence device that cuts the power.
Phases: a member fails while all nodes write; it works again, and `ddraid add` takes it back. The rebuild is limited to 2 MiB/s. Variant
node-dies: its node dies at 30 %: another one continues, and the load of the survivors sees no error. Variant power-lost: all power is lost
at 60 %, and the rebuild continues after the boot. In both it continues from the cursor in the superblocks, and not from the beginning: the
blocks that are copied from then on are counted. All data that was reported durable, and a file that nobody touched, are read on every node;
no stripe is wrong. Less is required of the blocks that were being written at the crash: with a member failed the missing chunk of a torn
stripe is computed wrongly, and its region is listed as suspect (load.py has the rule).
"""
import functools
import sys
import time

import drill
from ddvm.config import time_scale
from faulty import FaultyRig
from rig import MOUNT, NAME

BALLAST = 40                    # MiB that are written while the member is failed, so that there is something to rebuild
RATE = "2M"                     # a second, so that the rebuild is there to be caught


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
    """A member fails and comes back; its rebuild is running."""
    rig.load(append=False)              # what is in flight at the crash may be anything: that of an appended record holds others, too
    rig.progress()
    rig.tell(victim, "fail all")
    rig.wait_failed(victim)
    rig.progress()
    rig.node(1).run(f"dd if=/dev/urandom of={MOUNT}/ballast bs=1M count={BALLAST} conv=notrunc,fsync status=none", timeout=240)
    rig.slow(RATE)
    rig.heal(victim)
    rig.node(2).run(f"ddraid add {NAME} /dev/mapper/m{victim}", timeout=90)
    for i in rig.up():
        rig.wait_event(i, "rebuild-start", 90)


def what_is_behind(rig, done):
    """On the raw disks, as the power goes: (byte of the cursor, bytes of the regions below it that the member lacked). `done`: what the rebuild had come to."""
    report, total, size = rig.raw(), rig.blocks * 4096, rig.region_blocks * 4096
    cursor = next(m["cursor"] for m in report["members"] if m["state"] == "rebuilding") * 4096
    # it follows by a 64th of the array, and the change of the superblocks takes its time
    assert done > total // 16 and cursor >= done - total // 32, f"of {total} bytes it had come to {done}, and by the superblocks to {cursor}"
    lacked = {r for first, n in report["written_while_missing"] for r in range(first, first + n)}
    below = size * sum((r + 1) * size <= cursor for r in lacked)
    assert below >= 4 * size, f"hardly anything of {sorted(lacked)} lay below the cursor, {cursor}: nothing would be proven"
    return cursor, below


def goes_on(rig, cursor, below):
    """Waits until the rebuild, which the next node continued at the cursor, has ended; (bytes copied since, bytes that the member lacked in all).

    `status` never reports a position below the cursor, wherever a node works. So the test measures how much was copied: a rebuild from the
    beginning would copy all that the member lacks. This one must copy less by at least half of what was below the cursor; only half,
    because ranges that had to be resynced are copied again, and a region may be written for the first time after the last look.
    """
    total, deadline = 0, time.monotonic() + 240 * time_scale()
    while not all(any(e["event"] == "rebuild-done" for e in rig.events(i)) for i in rig.up()):
        for job in (j for i in rig.up() for j in rig.guests[i].status(NAME)["jobs"] if j["type"] == "rebuild"):
            assert job["position"] >= cursor, f"by the superblocks {cursor} bytes were rebuilt, and it went on at {job['position']}"
            if not total:
                rig.slow(None)          # now that the array has been read
            total = max(total, job["total"])
        assert time.monotonic() < deadline, f"not rebuilt: {rig.guests[min(rig.up())].status(NAME)['jobs']}"
        time.sleep(0.2)
    rig.wait_whole()
    copied = sum(rig.wait_event(i, "rebuild-done")["blocks"] for i in rig.up()) * 4096
    assert total, "the rebuild was over before anybody had looked: nothing is proven"
    assert copied <= total - below + below // 2, (f"{copied} bytes were copied after the crash, of {total} that the member lacked in all; {below} of these lay "
                                                  f"below the cursor, {cursor}: it did not go on there")
    return copied, total


def node_dies(rig):
    dead, done = at(rig, 30)
    rig.mark()
    rig.die(dead)
    cursor, below = what_is_behind(rig, done)
    rig.wait_fenced(dead)
    rig.wait_recovered(dead)
    rig.progress()
    copied, total = goes_on(rig, cursor, below)
    rig.settle(torn=True)
    rig.read_still()
    rig.bring([dead])
    return (f"node {dead} died with {done >> 20} MiB rebuilt, the cursor at {cursor >> 20} MiB; another one finished it: "
            f"{copied >> 20} of {total >> 20} MiB copied after that, {below >> 20} MiB lay below the cursor")


def power_goes(rig):
    _, done = at(rig, 60)
    rig.cluster.power_off()
    for i in rig.all:
        rig.gone(i)
    cursor, below = what_is_behind(rig, done)
    options = rig.options
    rig.options = {**options, "resync_min_rate": RATE, "resync_max_rate": RATE}     # what was set is gone with the power
    rig.boot()
    rig.options = options
    rig.start()
    rig.mount()
    copied, total = goes_on(rig, cursor, below)
    rig.settle(torn=True)
    rig.read_still()
    return (f"all power lost with {done >> 20} MiB rebuilt, the cursor at {cursor >> 20} MiB: {copied >> 20} of {total >> 20} MiB copied after the boot, "
            f"{below >> 20} MiB lay below the cursor")


def round_of(crash, rig, number):
    victim = (number - 1) % rig.members
    rebuild_begins(rig, victim)
    seen = crash(rig)
    rig.wait_idle()
    for i in rig.up():
        assert rig.guests[i].status(NAME)["state"] == "optimal"
    return f"member {victim}: {seen}; {rig.accept_suspect()} regions were suspect"


VARIANTS = {"node-dies": functools.partial(round_of, node_dies), "power-lost": functools.partial(round_of, power_goes)}


if __name__ == "__main__":
    sys.exit(drill.main("cluster_rebuild", __doc__, VARIANTS, disks=4, kind=FaultyRig))
