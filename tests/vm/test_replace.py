# SPDX-License-Identifier: GPL-2.0-or-later
"""A member that works is copied to a new disk, which takes its place: under load, without parity, slowly, with deaths in the middle."""
import time

import pytest

from serving import DEV, serving  # noqa: F401
from test_members import refused
from test_rebuild import begin, fill, raw, states, verify

VM = {"disks": 7, "size": "96M"}
LOAD = (f"fio --name=load --filename={DEV} --direct=1 --ioengine=libaio --iodepth=4 --rw=randwrite --bs=16k --offset=40m --size=16m "
        "--time_based --runtime=600 --output-format=terse >/run/load.log 2>&1 & echo $! >/run/load.pid")


def table(serving):
    return serving.node.run("dmsetup table data").out


def job(serving):
    return next((j for j in serving.guest.status("data")["jobs"] if j["type"] == "replace"), None)


def slowly(serving, rate="512K"):
    """Limits the rebuild rate, so that there is time for events in the middle."""
    serving.guest.command(f"set data resync_min_rate=64K resync_max_rate={rate}")


def begin_slowly(serving, member):
    """A slow copy of the member to /dev/vdf begins."""
    begin(serving, spares=0)
    fill(serving, 32)
    serving.guest.wait_idle("data")
    slowly(serving)
    serving.guest.command(f"replace data {member} /dev/vdf")
    serving.event("rebuild-start")


def fast(serving):
    serving.guest.command("set data resync_max_rate=1G resync_min_rate=64M")


def settled(serving, old, new):
    """The new disk has the place of the old one, and no process holds the old one any more."""
    serving.node.wait_until("! dmsetup table data | grep -q replace", 60)
    number = serving.node.run(f"cat /sys/block/{new[5:]}/dev").out.strip()
    assert number in table(serving)
    serving.node.wait_until(f"test -z \"$(ls /sys/block/{old[5:]}/holders)\"", 30)


def test_member_is_replaced_under_load(serving):
    """Nothing is degraded at any time, both disks hold the same at the end, and what the new one holds is right where it is needed."""
    begin(serving, spares=0)
    fill(serving, 32)
    serving.guest.wait_idle("data")
    serving.node.run(LOAD)
    slowly(serving, "4M")
    out = serving.guest.command("replace data /dev/vdb /dev/vdf").out
    assert "member 1 of array 'data' is being copied to member 5" in out, out
    assert "is replacing member 1" in serving.event("rebuild-start")["text"]
    seen = job(serving)
    assert seen and seen["member"] == 5 and seen["replaces"] == 1, seen
    assert serving.guest.status("data")["state"] == "optimal"
    assert "replace 1 " in table(serving)
    assert "replace" in refused(serving, "replace data 2 /dev/vdg")
    fast(serving)
    done = serving.event("rebuild-done", 180)
    assert "has replaced member 1" in done["text"]
    assert not any(e["event"] in ("degraded", "member-failed") for e in serving.guest.events_seen()), serving.guest.events_seen()
    serving.node.run("kill -INT $(cat /run/load.pid); while kill -0 $(cat /run/load.pid) 2>/dev/null; do sleep 0.2; done; ! grep -i error /run/load.log")
    settled(serving, "/dev/vdb", "/dev/vdf")
    assert states(serving) == ["in-sync", "missing", "in-sync", "in-sync", "in-sync", "in-sync"]
    assert serving.guest.status("data")["state"] == "optimal"
    verify(serving, 32)
    serving.guest.stop("data")
    raw(serving)
    serving.guest.start("data")
    assert serving.guest.status("data")["state"] == "optimal"
    serving.guest.command("fail data 0")        # what the new one holds is needed now
    verify(serving, 32)


def test_without_parity(serving):
    """The only way off a disk that is about to die, if nothing covers it."""
    serving.begin()
    serving.guest.create("data", 2, 0, "dedicated", ["/dev/vda", "/dev/vdb", "/dev/vdc", "/dev/vdd"], "")
    serving.guest.start("data")
    serving.guest.watch_events()
    fill(serving, 32)
    serving.guest.command("replace data 2 /dev/vde")
    serving.event("rebuild-done", 180)
    settled(serving, "/dev/vdc", "/dev/vde")
    serving.node.run("dd if=/dev/urandom of=/dev/vdc bs=1M conv=nocreat oflag=direct 2>/dev/null || true", timeout=120)
    verify(serving, 32)
    serving.guest.stop("data")
    serving.guest.start("data")
    verify(serving, 32)


def test_a_start_in_the_middle_makes_the_device(serving):
    """The daemon resumes the device first, since it adds the new disk to the table; that makes no node without udev."""
    begin_slowly(serving, 2)
    serving.guest.stop("data")
    out = serving.guest.command("start data").out
    assert "replace 2 " in table(serving), "the daemon did not add the new disk"
    assert "/dev/mapper/data" in out
    serving.node.run(f"test -b {DEV}")
    serving.end()


@pytest.mark.slow
def test_old_disk_dies_in_the_middle(serving):
    """What was copied stays, and the rest is computed from the others."""
    begin_slowly(serving, 2)
    until = time.monotonic() + 120
    while not (job(serving) or {"done": 0})["done"]:
        assert time.monotonic() < until, "nothing is copied"
        time.sleep(1)
    serving.node.allow_dmesg(r".*")
    serving.node.unplug(serving.node.disks[2])
    fill(serving, 4, seed=9)
    serving.event("member-failed")
    fast(serving)
    serving.event("rebuild-done", 180)
    assert states(serving)[5] == "in-sync" and serving.guest.status("data")["state"] == "optimal"
    verify(serving, 4, seed=9)
    serving.guest.command("fail data 0")
    verify(serving, 4, seed=9)
    serving.end()
    serving.node.plug(serving.node.disks[2])


def test_new_disk_dies_in_the_middle(serving):
    """The array is as it was: nothing ever rested on the new one."""
    begin_slowly(serving, 2)
    serving.node.allow_dmesg(r".*")
    serving.node.unplug(serving.node.disks[5])
    fill(serving, 4, seed=9)                    # a write completes when all know that the new one has failed
    assert serving.event("member-failed")["member"] == 5
    serving.node.wait_until("! dmsetup table data | grep -q replace", 60)
    assert states(serving) == ["in-sync"] * 5 + ["faulty"] and serving.guest.status("data")["state"] == "optimal"
    verify(serving, 4, seed=9)
    serving.guest.stop("data")
    raw(serving, skip=(5,))
    serving.end()
    serving.node.plug(serving.node.disks[5])


@pytest.mark.slow
def test_half_of_a_mirror(serving):
    serving.begin()
    serving.guest.create("data", 0, 1, "dedicated", ["/dev/vda", "/dev/vdb"], "--overwrite --yes")
    serving.guest.start("data")
    serving.guest.watch_events()
    fill(serving, 16)
    serving.guest.wait_idle("data")
    slowly(serving, "4M")
    serving.guest.command("replace data 0 /dev/vdc")
    serving.event("rebuild-start")
    fill(serving, 4, seed=7)
    fast(serving)
    serving.event("rebuild-done", 180)
    settled(serving, "/dev/vda", "/dev/vdc")
    serving.guest.command("fail data 1")        # the new one alone
    verify(serving, 4, seed=7)
    serving.guest.stop("data")
    serving.guest.start("data")
    verify(serving, 4, seed=7)


def test_daemon_dies_and_the_operator_thinks_better_of_it(serving):
    """The next daemon continues at the cursor; failing the new disk leaves the array as it was."""
    begin_slowly(serving, 0)
    serving.guest.kill_daemon()
    serving.guest.start_daemon(**{**serving.config, "resync_min_rate": "64K", "resync_max_rate": "512K"})
    serving.wait_ready()
    serving.guest.watch_events()
    assert job(serving)["replaces"] == 0
    fill(serving, 4, seed=5)
    serving.guest.command("fail data 5")
    serving.node.wait_until("! dmsetup table data | grep -q replace", 60)
    assert states(serving) == ["in-sync"] * 5 + ["faulty"] and serving.guest.status("data")["state"] == "optimal"
    fast(serving)
    serving.guest.command("replace data 0 /dev/vdg")
    serving.event("rebuild-done", 180)
    settled(serving, "/dev/vda", "/dev/vdg")
    verify(serving, 4, seed=5)
    serving.guest.stop("data")
    raw(serving)


def test_member_that_is_out_is_replaced(serving):
    """No spare is taken automatically; then that disk is replaced in its turn, by a name that is a link."""
    begin(serving, spares=0)
    serving.guest.command("set data hot_spare=no")
    fill(serving, 16)
    serving.guest.wait_idle("data")
    node = serving.node
    node.run("dmsetup create lin --table \"0 $(blockdev --getsz /dev/vdf) linear /dev/vdf 0\"; rm -f /dev/mapper/lin; "
             "ln -s ../dm-$(dmsetup info -c --noheadings -o minor lin) /dev/mapper/lin; test -b /dev/mapper/lin")
    serving.guest.command("fail data 1")
    out = serving.guest.command("replace data 1 /dev/mapper/lin").out
    assert "member 5 takes its place and is being rebuilt" in out
    serving.event("rebuild-done", 180)
    status = serving.guest.status("data")
    assert status["state"] == "optimal" and status["may_fail"] == 1
    assert (status["members"][5]["role"], status["members"][1]["role"]) == (1, None)
    verify(serving, 16)
    out = serving.guest.command("replace data /dev/mapper/lin /dev/vdg").out
    assert "member 5 of array 'data' is being copied to member 1," in out     # the entry of the one that failed
    serving.event("rebuild-done", 180)
    serving.node.wait_until("! dmsetup table data | grep -q replace", 60)
    verify(serving, 16)
    serving.guest.stop("data")
    node.wait_until("dmsetup remove lin", 30)
    raw(serving, skip=(1,))


def test_what_is_refused(serving):
    begin(serving, spares=0)
    fill(serving, 4)
    assert "no spare" in refused(serving, "replace data 1")
    assert "not a member" in refused(serving, "replace data 9 /dev/vdf")
    assert "and works" in refused(serving, "replace data 1 /dev/vda")
    serving.node.run("mkfs.ext4 -q -F /dev/vdf")
    assert "ext4" in refused(serving, "replace data 1 /dev/vdf")
    assert "not a block device" in refused(serving, "replace data /dev/vdz /dev/vdf")
    assert "cannot lose ANY other" in serving.guest.command("fail data 3").out
    assert "has already failed" in refused(serving, "fail data 3")
    assert "cannot lose another member" in refused(serving, "fail data 2")
    assert serving.guest.command("fail data --force", check=False).code == 2
    assert serving.guest.command("replace data", check=False).code == 2
    verify(serving, 4)
