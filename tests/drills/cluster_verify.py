#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Data, P and Q rot on the disks, behind everybody's back, and verify puts them right while all nodes write.

Topology: three nodes, one array of six disks (order 2, P and Q), GFS2 on it, mounted on all; corosync over two rings; a fence device.
Phases: a file is written that nobody touches again; load on all; of blocks of that file a sector is overwritten on the raw disk, on each member in
turn. `ddraid verify` is started on one node, and done by the one that writes the superblocks; every node says how it ended, and the numbers are
those of the blocks that were spoilt, no more and no less, though the load went on all the time. In even rounds the daemon that does it is killed as soon as
the log says that it is about to put a block right, and whoever comes behind must not believe what is wrong there. The file is read on every node, from the
disks; parity is right everywhere. (Nothing else lies in the regions in which blocks are spoilt: what rots where somebody writes as a daemon dies is not promised.)
"""
import json
import pathlib
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent / "tools")]

import drill
import rawcheck
from rig import NAME
from still import StillRig

ROTTEN = 12                     # blocks that are spoilt


class VerifyRig(StillRig):
    """P and Q, so that it is known which chunk is wrong."""

    def __init__(self, *args, **options):
        super().__init__(*args, shape=(2, 2, "rotating"), **options)

    def rot(self, number):
        """Spoils a sector of @ROTTEN blocks of the file; each member has its turn."""
        node, still = self.node(self.up()[0]), set(self.still_blocks)
        region = self.region_blocks
        alone = [b for b in self.still_blocks if still.issuperset(range(b - b % region, b - b % region + region))]
        blocks = [alone[i * (len(alone) // ROTTEN) + number] for i in range(ROTTEN)]
        for i, block in enumerate(blocks):
            disk = node.disks[i % len(node.disks)]
            node.run(f"dd if=/dev/urandom of={disk.dev} bs=512 count=1 seek={self.sector(block)} oflag=direct conv=notrunc,nocreat status=none")
        return sorted(blocks)

    def wait_repair(self, seconds):
        """Until a slot names a region that is marked for a repair."""
        array, deadline = rawcheck.Array.assemble(self.disks()), time.monotonic() + seconds
        while not array.repairs():
            assert time.monotonic() < deadline, "nothing was put right"
            time.sleep(0.002)
        array.close()

    def verify_record(self, i):
        return json.loads(self.node(i).run(f"ddraid verify {NAME} status --json").out)


def verify_ends(rig, by, priority, kill):
    """One verify, asked of node @by; what all nodes say of it. @kill: the daemon of the node that does it is killed on the way."""
    rig.mark()
    rig.node(by).run(f"ddraid verify {NAME} start --priority {priority}", timeout=60)
    if kill:
        rig.wait_repair(240)
        writer = rig.guests[by].status(NAME)["cluster"]["writer"]
        rig.guests[writer].kill_daemon()
        rig.start_daemon(writer)
        rig.watch(writer)
        rig.wait_ready(writer)
    for i in rig.up():
        if not kill or i != writer:     # its listener went with the daemon
            rig.wait_event(i, "verify-done", 240)
    records = [rig.verify_record(i) for i in rig.up()]
    assert all(r == records[0] and r["state"] == "idle" for r in records), records
    return records[0]


def round_of(rig, number):
    by, kill = (number - 1) % len(rig.all) + 1, number % 2 == 0
    rig.wait_idle()
    spoilt = rig.rot(number)
    rig.load()
    rig.progress()
    done = verify_ends(rig, by, 3 if kill else 2, kill)
    assert done["found"] == done["repaired"] and (done["found"] == len(spoilt) or kill), f"{done}, not {len(spoilt)}: {spoilt}"
    if kill:                            # what its daemon had not told yet is not in the numbers; but it was put right
        done = verify_ends(rig, by, 1, False)
        assert (done["found"], done["repaired"]) == (0, 0), done
    assert not any(any(rig.node_fenced(i)) for i in rig.all)
    rig.progress()
    rig.settle()
    rig.read_still()
    return f"{len(spoilt)} blocks spoilt and put right{', the daemon killed that did it' if kill else ''}"


if __name__ == "__main__":
    sys.exit(drill.main("cluster_verify", __doc__, round_of, disks=6, kind=VerifyRig))
