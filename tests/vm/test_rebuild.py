# SPDX-License-Identifier: GPL-2.0-or-later
"""Spares on one node, with the real module and device-mapper: taken by themselves, rebuilt under load, right to the last block."""
import json
import pathlib
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "drills"), str(TESTS / "tools")]
import tools  # noqa: E402
from serving import DEV, MEMBERS, serving  # noqa: E402,F401

VM = {"disks": 7, "size": "96M"}
SPARES = ["/dev/vdf", "/dev/vdg"]


def states(serving):
    return [m["state"] for m in serving.guest.status("data")["members"]]


def raw(serving, skip=()):
    """The independent checker on the disks of the array: parity is right everywhere."""
    return tools.rawcheck("check", [d.path for i, d in enumerate(serving.node.disks) if i not in skip], "--assert-idle")


def begin(serving, spares=1, parity=1, **options):
    serving.begin(**options)
    serving.guest.create("data", 2, parity, "rotating", MEMBERS if parity == 1 else [*MEMBERS, SPARES[0]],
                         " ".join(f"--spare {s}" for s in SPARES[parity - 1:parity - 1 + spares]))
    serving.guest.start("data")
    serving.guest.watch_events()


def fill(serving, megabytes, seed=7):
    serving.node.run(f"fio --name=w --filename={DEV} --direct=1 --ioengine=libaio --iodepth=8 --rw=write --bs=256k --size={megabytes}m "
                     f"--verify=crc32c --randseed={seed} --do_verify=0 --output-format=terse", timeout=180)


def verify(serving, megabytes, seed=7):
    serving.node.run(f"fio --name=w --filename={DEV} --direct=1 --ioengine=libaio --iodepth=8 --rw=write --bs=256k --size={megabytes}m "
                     f"--verify=crc32c --randseed={seed} --verify_only --output-format=terse", timeout=180)


def test_spare_takes_the_place_of_a_failed_member(serving):
    """Taken automatically, rebuilt where anything was written, read from afterwards; and the array starts from it again."""
    begin(serving)
    fill(serving, 32)
    serving.guest.wait_idle("data")
    before = serving.guest.status("data")["regions"]
    assert before["unwritten"] > before["clean"] > 0
    serving.guest.command("fail data 1")
    assert serving.event("rebuild-start")["member"] == 5
    assert serving.event("rebuild-done", 120)["device"] == "/dev/vdf"
    assert states(serving) == ["in-sync", "faulty", "in-sync", "in-sync", "in-sync", "in-sync"]
    assert serving.guest.status("data")["state"] == "optimal"
    table = serving.node.run("dmsetup table data").out.split()
    number = serving.node.run("stat -c '%Hr:%Lr' /dev/vdf").out.strip()
    assert number in table and serving.node.run("stat -c '%Hr:%Lr' /dev/vdb").out.strip() not in table
    serving.guest.stop("data")
    raw(serving)
    serving.guest.start("data")
    assert states(serving)[5] == "in-sync"
    serving.guest.command("fail data 0")                # what the spare holds is needed now
    verify(serving, 32)


def test_rebuild_under_load(serving):
    """A disk is pulled while fio writes; the spare is rebuilt under it, and every block is right in the end."""
    begin(serving, resync_min_rate="100M")
    fill(serving, 48)
    fio = serving.node.spawn(f"exec fio --name=w --filename={DEV} --direct=1 --ioengine=libaio --iodepth=16 --rw=randwrite --offset=48m "
                             "--bsrange=4k-128k --size=48m --verify=crc32c --verify_backlog=64 --verify_fatal=1 --serialize_overlap=1 "
                             "--time_based --runtime=20 --output-format=terse")
    serving.node.wait_until("test $(ddraid status data --json | grep -c granted) -gt 0", 20)
    disk = serving.node.disks[2]
    serving.node.allow_dmesg(r".*")
    serving.node.unplug(disk)
    try:
        serving.event("rebuild-done", 120)
        assert fio.wait(120).code == 0, fio.err[-1000:]
        assert states(serving) == ["in-sync", "in-sync", "faulty", "in-sync", "in-sync", "in-sync"]
        verify(serving, 48)
        serving.guest.wait_idle("data")
        serving.guest.stop("data")
        raw(serving, skip={2})
    finally:
        serving.node.plug(disk)


def test_daemon_killed_in_a_rebuild_goes_on(serving):
    """The cursor is on the disks: the next daemon continues at it, and the kernel's table has the spare already."""
    begin(serving)
    fill(serving, 64)
    serving.guest.wait_idle("data")
    slow = {"resync_min_rate": "1M", "resync_max_rate": "2M"}
    serving.guest.command("set data " + " ".join(f"{key}={value}" for key, value in slow.items()))
    serving.guest.command("fail data 3")
    serving.event("rebuild-start")
    serving.node.wait_until("ddraid when data | grep -q 'rebuild.* [1-9][0-9.]* %'", 60)
    action, progress = serving.node.run("dmsetup status data").out.split()[5:7]
    done, total = map(int, progress.split("/"))
    assert action == "rebuild" and 0 < done < total == serving.guest.status("data")["size"] // 4096, progress
    serving.guest.kill_daemon()
    serving.guest.start_daemon(**{**serving.config, **slow})
    serving.wait_ready()
    serving.guest.watch_events()
    assert states(serving)[5] == "rebuilding"
    serving.guest.command("set data resync_max_rate=0")
    serving.event("rebuild-done", 120)
    assert states(serving) == ["in-sync", "in-sync", "in-sync", "faulty", "in-sync", "in-sync"]
    serving.guest.stop("data")
    raw(serving)
    serving.guest.start("data")
    serving.guest.command("fail data 0")
    verify(serving, 64)


def test_old_table_is_replaced(serving):
    """The line from before the spare took the place: its device is found, and the table that runs names it."""
    begin(serving)
    line = serving.node.run("ddraid table data").out.strip()
    fill(serving, 16)
    serving.guest.command("fail data 1")
    serving.event("rebuild-done", 60)
    serving.guest.stop("data")
    assert "/dev/vdb" in line and "/dev/vdf" not in line
    serving.node.run(f"echo '{line}' | dmsetup create data")
    serving.node.wait_until("ddraid status data | grep -q optimal", 30)
    assert states(serving) == ["in-sync", "faulty", "in-sync", "in-sync", "in-sync", "in-sync"]
    number = serving.node.run("stat -c '%Hr:%Lr' /dev/vdf").out.strip()
    assert number in serving.node.run("dmsetup table data").out.split()
    verify(serving, 16)
    serving.node.run("ddraid stop data")
    raw(serving)


def test_two_members_and_two_spares(serving):
    """P and Q: both places are filled, one after the other; then two more may fail."""
    serving.begin()
    serving.guest.create("data", 1, 2, "rotating", MEMBERS[:4], "--spare /dev/vde --spare /dev/vdf")
    serving.guest.start("data")
    serving.guest.watch_events()
    fill(serving, 24)
    serving.guest.command("fail data 0")
    serving.guest.command("fail data 2", check=False)
    serving.node.wait_until("test $(ddraid status data --json | grep -c '\"in-sync\"') -eq 4", 120)
    assert states(serving) == ["faulty", "in-sync", "faulty", "in-sync", "in-sync", "in-sync"]
    serving.guest.stop("data")
    raw(serving)
    serving.guest.start("data")
    serving.guest.command("fail data 1")
    serving.guest.command("fail data 3")
    verify(serving, 24)


@pytest.mark.slow
def test_two_pulled_disks_and_two_spares(serving):
    """Two disks are gone before the first spare is taken: the table still names the other one, which has no size any more."""
    serving.begin(hot_spare="no")
    serving.guest.create("data", 1, 2, "rotating", MEMBERS[:4], "--spare /dev/vde --spare /dev/vdf")
    serving.guest.start("data")
    serving.guest.watch_events()
    fill(serving, 24)
    pulled = [serving.node.disks[i] for i in (0, 2)]
    serving.node.allow_dmesg(r".*")
    try:
        for disk in pulled:
            serving.node.unplug(disk)
        fill(serving, 24, seed=9)
        serving.node.wait_until("test $(ddraid status data --json | grep -c '\"faulty\"') -eq 2", 60)
        serving.guest.command("set data hot_spare=yes")
        serving.node.wait_until("test $(ddraid status data --json | grep -c '\"in-sync\"') -eq 4", 120)
        assert states(serving) == ["faulty", "in-sync", "faulty", "in-sync", "in-sync", "in-sync"]
        verify(serving, 24, seed=9)
        serving.guest.stop("data")
        raw(serving, skip={0, 2})
    finally:
        for disk in pulled:
            serving.node.plug(disk)


def test_no_spare_is_taken_where_the_administrator_forbids_it(serving):
    begin(serving, hot_spare="no")
    fill(serving, 8)
    serving.guest.command("fail data 4")
    serving.event("member-failed")
    fill(serving, 8, seed=9)
    assert states(serving) == ["in-sync"] * 4 + ["faulty", "spare"]
    serving.guest.command("set data hot_spare=yes")
    serving.event("rebuild-done", 60)
    verify(serving, 8, seed=9)
    reports = json.loads(serving.node.run("ddraid examine --json /dev/vdf").out)
    assert reports[0]["member"]["state"] == "in-sync"


def test_a_table_that_the_daemon_loads_keeps_its_options(serving):
    """By the configuration at start, and after a spare took a place."""
    begin(serving, verify_reads="yes", fail_if_no_daemon="yes")
    options = ["2", "verify_reads", "fail_if_no_daemon"]
    assert serving.node.run("dmsetup table data").out.split()[-3:] == options
    fill(serving, 8)
    serving.guest.wait_idle("data")
    serving.guest.command("fail data 1")
    serving.event("rebuild-done", 120)
    number = serving.node.run("stat -c '%Hr:%Lr' /dev/vdf").out.strip()
    table = serving.node.run("dmsetup table data").out.split()
    assert number in table and table[-3:] == options, table
    assert "stays as it is" in serving.node.run("ddraid start data --verify-reads").err


def test_what_has_no_parity_is_not_checked(serving):
    serving.begin()
    serving.guest.create("data", 2, 0, "dedicated", MEMBERS[:4])
    result = serving.node.run("ddraid start data --verify-reads", check=False)
    assert result.code == 1 and "no parity" in result.err, result
    serving.node.run("ddraid start --all --verify-reads --wait-disks 0")
    assert "verify_reads" not in serving.node.run("dmsetup table data").out
