# SPDX-License-Identifier: GPL-2.0-or-later
"""The stamps of format 2, seen from another machine at the same disks, and what their owner does when that machine writes there."""
import json
import pathlib
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "drills"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
from ddvm.config import time_scale  # noqa: E402
from guest import Guest  # noqa: E402
from rawcheck import crc32c  # noqa: E402

NAME = "stamped"
DEV = f"/dev/mapper/{NAME}"
MEMBERS = ["/dev/vda", "/dev/vdb", "/dev/vdc"]
TURN = 2                        # seconds from one stamp to the next
OWNERS = struct.Struct("<QH")   # of the superblock: owner_offset, owner_pages
KIND, SEQ, NODE, MACHINE, BOOT_ID, CLAIM, CRC = 52, 16, 48, 56, 72, 96, 12    # offsets of fields: doc/on-disk-format.md, "A stamp"


def seen_from(node):
    """The newest stamp of slot 0 on each member, as another machine reads it."""
    stamps = []
    for member in MEMBERS:
        disk, = json.loads(node.run(f"ddraid examine --json {member}").out)
        stamps.append(disk["slots"][0]["stamp"])
    return stamps


def served(make_nodes):
    """Two machines that see the same disks and know nothing of each other; the first one uses an array on them."""
    one, two = make_nodes(nodes=2, disks=3, size="48M")
    for node in one, two:
        node.boot()
    first = Guest(one)
    first.start_daemon(idle_time="1s")
    first.create_and_start(NAME, 1, 1, "rotating", MEMBERS, f"--overwrite --yes --region-size {1 << 20}")
    one.run(f"dd if=/dev/urandom of={DEV} bs=4096 count=1 oflag=direct,dsync conv=nocreat status=none")
    return first, two


def moved(node, before):
    """Waits until all members have newer stamps than these, and returns them."""
    deadline = time.monotonic() + 5 * TURN * time_scale()
    while True:
        stamps = seen_from(node)
        if all(s and (not b or s["number"] > b["number"]) for s, b in zip(stamps, before)):
            return stamps
        assert time.monotonic() < deadline, f"stamps do not move: {before}, {stamps}"


def block_at(node, member, at):
    node.run(f"dd if={member} of=/tmp/block bs=4096 skip={at // 4096} count=1 iflag=direct status=none")
    return bytearray(node.get("/tmp/block"))


def write_there(node, member, area, kind):
    """What another machine writes into both places of slot 0 on that member, made of the stamps that are there."""
    for place in range(2):
        at = area + place * 4096
        block = block_at(node, member, at)
        number = int.from_bytes(block[SEQ:SEQ + 8], "little") + 2
        block[SEQ:SEQ + 8] = number.to_bytes(8, "little")
        block[KIND:KIND + 2] = kind.to_bytes(2, "little")
        block[NODE:NODE + 4] = (9).to_bytes(4, "little")
        block[MACHINE:MACHINE + 16] = bytes(range(16))
        block[BOOT_ID:BOOT_ID + 16] = bytes(range(16, 32))
        block[CLAIM:CLAIM + 16] = bytes(range(32, 48)) if kind == 2 else bytes(16)
        block[CRC:CRC + 4] = bytes(4)
        block[CRC:CRC + 4] = crc32c(bytes(block)).to_bytes(4, "little")
        node.put("/tmp/block", bytes(block))
        node.run(f"dd if=/tmp/block of={member} bs=4096 seek={at // 4096} count=1 oflag=direct conv=nocreat status=none")


def test_another_machine_sees_that_the_owner_lives(make_nodes, stage):
    """Stamps move while the daemon runs, and stand still while it is stopped and after it has ended in order."""
    del stage
    first, two = served(make_nodes)
    before = moved(two, [None] * 3)
    after = moved(two, before)
    assert all(s["kind"] == "stamp" and s["machine"] == after[0]["machine"] and s["stop_ms"] == 30000 for s in after), after
    first.stop(NAME)
    still = seen_from(two)
    first.node.run(f"sleep {2 * TURN}")
    assert seen_from(two) == still, "stamps are written after the array was stopped"


def test_a_claim_stops_the_array(make_nodes, stage):
    """Finding T1: another machine claims the slot on one member. Its owner stops within a few turns, says who, and writes nothing there any more."""
    del stage
    first, two = served(make_nodes)
    moved(two, moved(two, [None] * 3))
    offset, pages = OWNERS.unpack_from(block_at(two, MEMBERS[1], 4096), 304)
    area = offset + pages * 4096
    writer = first.node.spawn(f"while dd if=/dev/urandom of={DEV} bs=4096 count=1 seek=5 oflag=direct conv=nocreat status=none; do :; done")
    write_there(two, MEMBERS[1], area, 2)
    claim = seen_from(two)[1]
    assert claim["kind"] == "claim", claim
    writer.wait(10 * TURN * time_scale(), check=False)          # its writes fail
    first.node.wait_until("ddraid status --json | grep -q 'has claimed the array'", 10)
    says = first.command("status").out
    assert f"ddraid start --adopt {NAME}" in says and "node 9" in says, says
    first.node.run(f"sleep {3 * TURN}")
    assert seen_from(two)[1] == claim, "the claim was written over"
