#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Disks have unreadable sectors, and no node sees an error.

Topology: three nodes, one array of four disks (order 1, P and Q on disks of their own), GFS2 on it, mounted on all; on every node each disk
is below a device that can simulate bad sectors; corosync over two rings; a fence device.
Phases: a file is written and left untouched; load on all; a sector of several of its blocks goes bad, for some blocks on two members; the
disk reports half of them as bad sectors, and the others only as failed reads. Variant reads: the bad sectors are on the members with the
data, on one node, which reads the file. Variant verify: they are on each member in turn, on the node that runs the verify. The right data
is returned all the same, the sectors are rewritten from the others and are readable afterwards (counted, by member), no member fails, and
the load sees no error. All data that was reported durable, and the file, are read on every node; parity is right everywhere; nobody is
fenced.
"""
import functools
import sys

import drill
from faulty import FaultyRig
from rig import NAME

BAD = 12                        # blocks with a bad sector
KINDS = ("", "ioerr")           # of bad sectors: see dm-forget


def bad_left(rig, i):
    return [int(rig.node(i).run(f"dmsetup status m{m}").out.split("bad=")[1].split()[0]) for m in range(rig.members)]


def corrected(rig, i):
    return [m["errors"]["corrected"] for m in rig.guests[i].status(NAME)["members"][:rig.members]]


def spoil(rig, on, members):
    """Bad sectors on node @on, in blocks of the file, on these members, of each member in turn of one kind and of the other; how many each has."""
    per_member = [0] * rig.members
    for i in range(BAD):
        block = rig.still_blocks[i * len(rig.still_blocks) // BAD]
        for m in {members[i % len(members)], members[(i + (i % 3 == 0)) % len(members)]}:       # every third block: two
            rig.node(on).run(f"dmsetup message m{m} 0 bad add {rig.sector(block)} 1 {KINDS[per_member[m] % len(KINDS)]}")
            per_member[m] += 1
    assert bad_left(rig, on) == per_member and all(n >= len(KINDS) for n in per_member if n), per_member
    return per_member


def round_of(by, rig, number):
    rig.wait_idle()
    on = (number - 1) % len(rig.all) + 1 if by == "reads" else rig.guests[1].status(NAME)["cluster"]["writer"]
    rig.load()
    rig.progress()
    before = corrected(rig, on)
    spoilt = spoil(rig, on, [0, 1] if by == "reads" else list(range(rig.members)))
    if by == "reads":
        rig.read_still()
    else:
        rig.node(max(rig.all)).run(f"ddraid verify {NAME} start --priority 2")
        done = rig.wait_event(on, "verify-done", 240)
        assert done["found"] == done["repaired"] == BAD, done
    for m in range(rig.members):
        rig.node(on).wait_until(f"test \"$(dmsetup status m{m} | grep -o 'bad=[0-9]*')\" = bad=0", 60)
    put_right = [now - was for now, was in zip(corrected(rig, on), before)]
    assert put_right == spoilt, f"put right: {put_right}, bad: {spoilt}"
    assert all(m["state"] == "in-sync" for m in rig.guests[on].status(NAME)["members"])
    assert not [e for i in rig.up() for e in rig.events(i) if e["event"] == "member-failed"]
    rig.progress()
    rig.settle()
    rig.read_still()
    rig.assert_nobody_fenced()
    return f"{sum(spoilt)} sectors bad as node {on} sees it, of both kinds, by member {spoilt}; put right, counted, no member lost"


if __name__ == "__main__":
    sys.exit(drill.main("cluster_bad_sectors", __doc__, {by: functools.partial(round_of, by) for by in ("reads", "verify")}, disks=4, kind=FaultyRig,
                        shape=(1, 2, "dedicated")))
