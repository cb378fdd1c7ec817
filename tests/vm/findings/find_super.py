# SPDX-License-Identifier: GPL-2.0-or-later
"""Superblocks: a member's device that holds another disk all at once, and the same place of all disks written over."""
import hashlib

import pytest

from serving import DEV, serving  # noqa: F401

VM = {"disks": 5, "size": "64M"}
MIB = 1 << 20
MEMBERS = [f"/dev/mapper/m{i}" for i in range(3)]
DISKS = ["/dev/vda", "/dev/vdb", "/dev/vdc"]


def table(node, name, disk, command="create"):
    line = f"0 $(blockdev --getsz {disk}) linear {disk} 0"
    node.run(f"dmsetup create {name} --table \"{line}\"" if command == "create"
             else f"dmsetup reload {name} --table \"{line}\" && dmsetup suspend --noflush --nolockfs {name} && dmsetup resume {name}")


def content(disk):
    """What is on all of the disk."""
    return hashlib.sha256(disk.read(0, disk.size)).hexdigest()


@pytest.mark.parametrize("what", ["empty", "member"])
def test_the_disk_of_a_member_is_exchanged(serving, what):
    """Finding S27: log and superblocks were written over the disk that a device held all at once, also over a member of another array, and
    the state stayed optimal."""
    node, guest = serving.node, serving.guest
    node.allow_dmesg(r".*")
    for name, disk in zip(("m0", "m1", "m2"), ("/dev/vda", "/dev/vdb", "/dev/vdc")):
        table(node, name, disk)
    try:
        serving.begin()
        if what == "member":
            guest.create_and_start("other", 0, 1, "dedicated", ["/dev/vdd", "/dev/vde"])
            node.run("dd if=/dev/urandom of=/tmp/others bs=1M count=4 status=none && "
                     "dd if=/tmp/others of=/dev/mapper/other bs=1M oflag=direct conv=nocreat status=none")
            guest.wait_idle("other")
            guest.stop("other")
        before = content(node.disks[3])
        guest.create_and_start("data", 1, 1, "rotating", MEMBERS)
        node.run(f"dd if=/dev/urandom of=/tmp/written bs=1M count=8 status=none && dd if=/tmp/written of={DEV} bs=1M oflag=direct conv=nocreat status=none")
        guest.wait_idle("data")
        guest.watch_events()
        table(node, "m1", "/dev/vdd", "switch")
        event = serving.event("exchanged", 30)
        found = "superblock of member 0 of array 'other'" if what == "member" else "no superblock of ddraid"
        assert "is now another disk" in event["text"] and found in event["text"], event
        serving.event("member-failed", 30)
        assert guest.status("data")["members"][1]["state"] == "faulty"
        node.run(f"dd if=/tmp/written of={DEV} bs=1M seek=8 oflag=direct conv=nocreat status=none")     # marks, data and superblocks
        guest.wait_idle("data")
        node.run(f"dd if={DEV} bs=1M count=8 iflag=direct status=none | cmp - /tmp/written")
        guest.stop("data")
        assert content(node.disks[3]) == before, "the other disk was written"
        if what == "member":
            node.run("dmsetup remove --retry m1")
            guest.start("other")
            assert guest.status("other")["state"] == "optimal"
            node.run("dd if=/dev/mapper/other bs=1M count=4 iflag=direct status=none | cmp - /tmp/others")
            guest.stop("other")
            table(node, "m1", "/dev/vdb")
        else:
            table(node, "m1", "/dev/vdb", "switch")
        guest.start("data")
        guest.watch_events()
        guest.command("add data /dev/mapper/m1")        # its own disk is there again: it gets all
        serving.event("rebuild-done", 120)
        guest.command("fail data 0")
        for place in (0, 8):
            node.run(f"dd if={DEV} bs=1M skip={place} count=8 iflag=direct status=none | cmp - /tmp/written")
        guest.stop("data")
    finally:
        node.run("ddraid stop --all --force; for i in 0 1 2; do dmsetup remove --retry m$i; done", check=False, timeout=120)


def test_one_place_of_all_disks_is_zeroed(serving):
    """Finding S12: 12 KiB zeroed near the start of each disk, and the array was refused as older than what the node had seen; nothing named a
    way out."""
    node, guest = serving.node, serving.guest
    serving.begin()
    serving.array(order=1, devices=DISKS)
    node.run(f"dd if=/dev/urandom of=/tmp/written bs=1M count=8 status=none && dd if=/tmp/written of={DEV} bs=1M oflag=direct conv=nocreat status=none")
    guest.wait_idle("data")
    guest.command("fail data 2")                        # the newest generation, in one copy once
    guest.stop("data")
    for disk in node.disks[:3]:
        disk.write(4096, bytes(3 * 4096))
    node.run("for d in /dev/vd[abc]; do blockdev --flushbufs $d; done")
    guest.start("data")
    node.run(f"dd if={DEV} bs=1M count=8 iflag=direct status=none | cmp - /tmp/written")
    assert guest.status("data")["members"][2]["state"] == "faulty"
    guest.command("set data suspect=accept")            # where the log was, it is unknown what was in flight
    node.wait_until("ddraid status data --json | grep -q '\"suspect\": *0'", 60)
    guest.stop("data")


def test_older_disks_start_by_the_word_that_the_refusal_names(serving):
    """Finding S12: disks whose newest superblocks are gone for good were refused for good; only removing a file helped that no message named."""
    node, guest = serving.node, serving.guest
    serving.begin()
    serving.array(order=1, devices=DISKS)
    node.run(f"dd if=/dev/urandom of=/tmp/written bs=1M count=8 status=none && dd if=/tmp/written of={DEV} bs=1M oflag=direct conv=nocreat status=none")
    guest.wait_idle("data")
    guest.stop("data")
    older = [disk.read(0, disk.size) for disk in node.disks[:3]]
    guest.start("data")
    guest.command("fail data 2")
    generation = guest.status("data")["generation"]
    guest.stop("data")
    for disk, was in zip(node.disks, older):
        disk.write(0, was)
    node.run("for d in /dev/vd[abc]; do blockdev --flushbufs $d; done")
    refused = guest.command("start data", check=False)
    assert refused.code == 1 and "ddraid start data --older" in refused.err, refused
    asked = guest.command("start data --older", check=False)
    assert asked.code == 1 and "--yes" in asked.err, asked
    guest.command("start data --older --yes")
    status = guest.status("data")
    assert status["state"] == "optimal" and status["generation"] == generation + 1, status
    node.run(f"dd if={DEV} bs=1M count=8 iflag=direct status=none | cmp - /tmp/written")
    guest.stop("data")
    guest.start("data")                                 # and the operator's consent is not needed any more
    guest.stop("data")
