# SPDX-License-Identifier: GPL-2.0-or-later
"""Members that fail and come back on one node:

a disk pulled and put back, one failed by hand and taken back, new disks, and what is refused.
"""
import json

from serving import DEV, serving  # noqa: F401
from test_rebuild import begin, fill, raw, states, verify

VM = {"disks": 7, "size": "96M"}


def written(serving, device):
    """KiB that the kernel has written to a disk since it came."""
    return int(serving.node.run(f"cat /sys/block/{device.rsplit('/', 1)[-1]}/stat").out.split()[6]) // 2


def refused(serving, command):
    result = serving.guest.command(command, check=False)
    assert result.code == 1 and result.err.count("\n") == 1, result
    return result.err


def test_disk_that_is_put_back_gets_what_it_missed(serving):
    """32 MiB were there, 4 MiB are written while it is away: about 1 MiB of these is its share, and no more is copied."""
    begin(serving, spares=0)
    fill(serving, 32)
    serving.guest.wait_idle("data")
    digest = f"dd if={DEV} iflag=direct bs=1M skip=4 count=28 2>/dev/null | sha256sum"
    sum_before = serving.node.run(digest).out
    disk = serving.node.disks[2]
    serving.node.allow_dmesg(r".*")
    try:
        serving.node.unplug(disk)
        fill(serving, 4, seed=9)
        serving.event("member-failed")
        serving.node.plug(disk)
        before = written(serving, serving.node.run(f"readlink {disk.dev}").out.strip())
        serving.guest.command(f"add data {disk.dev}")
        start = serving.event("rebuild-start")
        assert "brought up to date" in start["text"]
        assert 1024 <= serving.event("rebuild-done", 60)["blocks"] < 4096
        copied = written(serving, serving.node.run(f"readlink {disk.dev}").out.strip()) - before
        assert 1024 <= copied < 4096, f"{copied} KiB were written to the disk"
        assert serving.guest.status("data")["state"] == "optimal"
        serving.guest.stop("data")
        raw(serving)
        serving.guest.start("data")
        serving.guest.command("fail data 0")        # what it holds is needed now
        verify(serving, 4, seed=9)
        assert serving.node.run(digest).out == sum_before
    finally:
        # under its old name again: while something had it open the kernel gave it another one
        serving.end()
        serving.node.unplug(disk)
        serving.node.plug(disk)


def test_member_that_was_failed_by_hand_comes_back(serving):
    """The same device, which stayed in the table; and again after a restart of the daemon."""
    begin(serving, spares=0)
    fill(serving, 16)
    serving.guest.wait_idle("data")
    serving.guest.command("fail data 1")
    fill(serving, 2, seed=3)
    result = serving.guest.command("add data /dev/vdb")
    assert "member 1" in result.out
    serving.event("rebuild-done", 60)
    serving.guest.command("fail data 4")
    serving.guest.kill_daemon()
    serving.guest.start_daemon(**serving.config)
    serving.wait_ready()
    serving.guest.watch_events()
    fill(serving, 2, seed=4)
    serving.guest.command("add data /dev/vde")
    serving.event("rebuild-done", 60)
    assert states(serving) == ["in-sync"] * 5
    serving.guest.stop("data")
    raw(serving)
    serving.guest.start("data")
    serving.guest.command("fail data 0")
    verify(serving, 2, seed=4)


def test_new_disk_is_a_spare_and_takes_the_next_place(serving):
    begin(serving, spares=0)
    fill(serving, 16)
    assert "spare" in serving.guest.command("add data /dev/vdf").out
    assert states(serving) == ["in-sync"] * 5 + ["spare"]
    serving.guest.command("fail data 3")
    serving.event("rebuild-done", 60)
    assert states(serving) == ["in-sync", "in-sync", "in-sync", "faulty", "in-sync", "in-sync"]
    serving.guest.command("remove data 3")
    serving.event("member-removed")
    assert "works" in refused(serving, "add data /dev/vdf")
    # the disk that was removed belongs to no array: as a new one it needs --overwrite, and takes its old place in the table
    assert "--overwrite" in refused(serving, "add data /dev/vdd")
    serving.guest.command("add data /dev/vdd --overwrite --yes")
    assert states(serving)[3] == "spare"
    serving.guest.stop("data")
    raw(serving)
    serving.guest.start("data")
    assert states(serving) == ["in-sync", "in-sync", "in-sync", "spare", "in-sync", "in-sync"]
    verify(serving, 16)


def test_role_without_a_disk_is_taken_by_a_new_one(serving):
    """Failed, removed (the kernel lets go of it, so that anything may use it), replaced by another disk."""
    begin(serving, spares=0)
    fill(serving, 16)
    serving.guest.command("fail data 2")
    serving.guest.command("remove data /dev/vdc")
    serving.node.wait_until("test ! -d /sys/block/vdc/holders -o -z \"$(ls /sys/block/vdc/holders)\"", 30)
    serving.node.run("mkfs.ext4 -q -F /dev/vdc")
    assert states(serving)[2] == "missing"
    serving.guest.command("add data /dev/vdg")
    serving.event("rebuild-done", 60)
    assert serving.guest.status("data")["state"] == "optimal"
    serving.guest.command("fail data 0")
    verify(serving, 16)


def test_what_is_refused(serving):
    begin(serving, spares=0)
    fill(serving, 4)
    assert "fail it first" in refused(serving, "remove data 1")
    assert "works" in refused(serving, "add data /dev/vda")
    serving.node.run("mkfs.ext4 -q -F /dev/vdf")
    assert "ext4" in refused(serving, "add data /dev/vdf")
    serving.node.run("dd if=/dev/zero of=/dev/vdf bs=1M count=8 conv=fsync 2>/dev/null; echo '0 65536 linear /dev/vdf 0' | dmsetup create small")
    assert "need" in refused(serving, "add data /dev/mapper/small")
    serving.node.run("dmsetup remove small")
    refused(serving, "add data /dev/nothing")
    refused(serving, "add nothing /dev/vdf")
    refused(serving, "remove data 9")
    assert serving.guest.command("add data", check=False).code == 2
    assert serving.guest.command("remove data", check=False).code == 2
    assert states(serving) == ["in-sync"] * 5
    assert json.loads(serving.node.run("ddraid examine --json /dev/vda").out)[0]["generation"] == 1
    verify(serving, 4)
