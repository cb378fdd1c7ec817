#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Data, P and Q rot silently on the disks, and verify repairs them while all nodes write.

Topology: three nodes, one array of six disks (order 2, P and Q), GFS2 on it, mounted on all; corosync over two rings; a fence device.
Phases: a file is written and left untouched; a sector of several of its blocks is overwritten on the raw disk, of each role in turn: data,
P and Q. An independent check of the disks finds exactly these wrong, and nothing else in the file. Load on all; `ddraid verify` is started
on one node, and runs on the node that writes the superblocks; every node reports how it ended. Variant undisturbed: the counts by member
are exactly those of the damaged blocks, although the load ran all the time. Variant daemon-killed: the daemon that runs it is killed as
soon as the log records that it is about to repair a block, and its successor must not trust the wrong content; nothing else is repaired.
The file is read on every node, from the disks; parity is right everywhere. (Nothing else is in the regions of the damaged blocks: no
promise is made for rot in a region that is written while a daemon dies.)
"""
import collections
import functools
import json
import pathlib
import sys
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent.parent / "tools")]

import drill
import rawcheck
import tools
from rig import NAME
from still import StillRig

ROTTEN = 12                     # blocks that are spoilt
ROLES, DATA_ROLES = 6, 4        # P is the first one behind the data, then Q
TURN = 256                      # blocks, until the roles move on to the next member: doc/on-disk-format.md, 6


class VerifyRig(StillRig):
    """P and Q, so that it is known which chunk is wrong."""

    def __init__(self, *args, **options):
        super().__init__(*args, shape=(2, 2, "rotating"), **options)

    def rot(self, number):
        """Spoils a sector of @ROTTEN blocks of the file; each role has its turn. {block: (role, member)}."""
        node, still = self.node(self.up()[0]), set(self.still_blocks)
        region = self.region_blocks
        alone = [b for b in self.still_blocks if still.issuperset(range(b - b % region, b - b % region + region))]
        spoilt = {}
        for i in range(ROTTEN):
            block, role = alone[i * (len(alone) // ROTTEN) + number], i % ROLES
            spoilt[block] = role, (role + block // TURN) % ROLES
            disk = node.disks[spoilt[block][1]]
            node.run(f"dd if=/dev/urandom of={disk.dev} bs=512 count=1 seek={self.sector(block)} oflag=direct conv=notrunc,nocreat status=none")
        hit = collections.Counter(role for role, _ in spoilt.values())
        assert all(hit[role] == ROTTEN // ROLES for role in range(ROLES)), f"of each role the same number, data, P and Q: {hit}; {spoilt}"
        self.assert_wrong(spoilt)
        return spoilt

    def assert_wrong(self, spoilt):
        """In the file the raw disks are wrong where they are spoilt and nowhere else: where it is data neither P nor Q fits, else the one that is."""
        def blocks(pairs):
            return {b for first, count in pairs for b in range(first, first + count)}
        ranges = self.cluster.run.path / "still-blocks"
        ranges.write_text("".join(f"{b}\n" for b in sorted(self.still_blocks)))
        with self.cluster.frozen():
            report = tools.rawcheck("check", self.disks(), "--ranges-file", ranges)
        p = {b for b, (role, _) in spoilt.items() if role != DATA_ROLES + 1}
        q = {b for b, (role, _) in spoilt.items() if role != DATA_ROLES}
        assert (blocks(report["bad_p"]), blocks(report["bad_q"])) == (p, q), (
            f"P is wrong in {report['bad_p']}, Q in {report['bad_q']}; spoilt, {{block: (role, member)}}: {spoilt}")

    def corrected(self, i):
        """Of each member, as a node counts it."""
        return [m["errors"]["corrected"] for m in self.guests[i].status(NAME)["members"]]

    def repaired(self, i):
        """(member, block) -> how often a node reported its repair, since the mark."""
        return collections.Counter((e["member"], b) for e in self.events(i) if e["event"] == "repaired"
                                   for b in range(e["first_block"], e["first_block"] + e["blocks"]))

    def wait_repair(self, seconds):
        """Until a slot names a region that is marked for a repair."""
        array, deadline = rawcheck.Array.assemble(self.disks()), time.monotonic() + seconds
        while not array.repairs():
            assert time.monotonic() < deadline, "nothing was put right"
            time.sleep(0.002)
        array.close()

    def verify_record(self, i):
        """The record of the last verify, which all nodes report alike, and what only this node has found."""
        record = json.loads(self.node(i).run(f"ddraid verify {NAME} status --json").out)
        return record, record.pop("findings")


def verify_ends(rig, by, priority, kill):
    """One verify, requested on node @by; what all nodes report of it. @kill: the daemon of the node that runs it is killed meanwhile."""
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
    records = [rig.verify_record(i)[0] for i in rig.up()]
    assert all(r == records[0] and r["state"] == "idle" for r in records), records
    return records[0]


def round_of(kill, rig, number):
    by = (number - 1) % len(rig.all) + 1
    rig.wait_idle()
    writer = rig.guests[by].status(NAME)["cluster"]["writer"]
    spoilt, before = rig.rot(number), rig.corrected(writer)
    rig.load()
    rig.progress()
    done = verify_ends(rig, by, 3 if kill else 2, kill)
    wanted = collections.Counter((member, block) for block, (_, member) in spoilt.items())
    told = {i: rig.repaired(i) for i in rig.up()}
    members = collections.Counter(member for member, _ in wanted)
    assert done["found"] == done["repaired"] and (done["found"] == len(spoilt) or kill), f"{done}, not {len(spoilt)}: {spoilt}"
    assert all(wanted.keys() >= of.keys() for of in told.values()), f"(member, block) that were put right, by node: {told}; spoilt: {wanted}"
    if kill:                            # repairs that the dead daemon had not reported yet are not in the counts
        done = verify_ends(rig, by, 1, False)
        assert (done["found"], done["repaired"]) == (0, 0), done
    else:
        assert told[writer] == wanted, f"(member, block) that were put right by node {writer}: {told[writer]}; spoilt: {wanted}"
        listed = collections.Counter((f["member"], f["position"] // 4096) for f in rig.verify_record(writer)[1][-ROTTEN:] if f["repaired"])
        assert listed == wanted, f"(member, block) of the findings of node {writer}: {listed}; spoilt: {wanted}"
        counted = [now - was for now, was in zip(rig.corrected(writer), before)]
        assert counted == [members[m] for m in range(ROLES)], f"counted as put right, by member: {counted}; spoilt: {members}"
    rig.assert_wrong({})
    assert not any(any(rig.node_fenced(i)) for i in rig.all)
    rig.progress()
    rig.settle()
    rig.read_still()
    return f"{len(spoilt)} blocks spoilt, {ROTTEN // ROLES} of each role, by member {[members[m] for m in range(ROLES)]}; put right"


VARIANTS = {"undisturbed": functools.partial(round_of, False), "daemon-killed": functools.partial(round_of, True)}


if __name__ == "__main__":
    sys.exit(drill.main("cluster_verify", __doc__, VARIANTS, disks=6, kind=VerifyRig))
