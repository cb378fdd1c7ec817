# SPDX-License-Identifier: GPL-2.0-or-later
"""An array that grows into members that have become larger, on one node, with the real module and device-mapper."""
import json
import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "drills"), str(TESTS / "tools")]
import tools  # noqa: E402
from guest import Guest  # noqa: E402
from serving import DEV, MEMBERS, serving  # noqa: E402,F401

VM = {"disks": 5, "size": "96M"}
GAP = 1 << 20           # of each disk, before the device that is a member: a scan finds one of them only
SMALL, LARGE = 40 << 20, 90 << 20
DEVICES = [f"/dev/mapper/m{i}" for i in range(5)]


def lines(serving, size, which=range(5), new=False):
    """The members' devices have @size bytes."""
    for i in which:
        table = f"0 {size // 512} linear {MEMBERS[i]} {GAP // 512}"
        serving.node.run(f"dmsetup create m{i} --table '{table}'" if new else
                         f"dmsetup load m{i} --table '{table}' && dmsetup resume m{i}")
    serving.node.run("dmsetup mknodes")


def begin(serving, order=2, parity=1, **options):
    lines(serving, SMALL, new=True)
    serving.guest = Guest(serving.node, DEVICES)
    serving.begin(**options)
    count = (1 << order) + parity
    serving.guest.create_and_start("data", order, parity, "rotating", DEVICES[:count])
    serving.guest.watch_events()


def size(serving):
    return int(serving.node.run(f"blockdev --getsize64 {DEV}").out)


def fio(serving, at, megabytes, what="--do_verify=0", name="w"):
    return (f"fio --name={name} --filename={DEV} --direct=1 --ioengine=libaio --iodepth=8 --rw=write --bs=256k --offset={at}m --size={megabytes}m "
            f"--verify=crc32c --randseed=7 {what} --output-format=terse")


def raw(serving, tmp_path, count=5):
    """The independent checker, on what the devices held: parity is right everywhere."""
    paths = []
    for i in range(count):
        with open(serving.node.disks[i].path, "rb") as disk, open(tmp_path / f"m{i}", "wb") as member:
            disk.seek(GAP)
            member.write(disk.read(LARGE))
        paths.append(tmp_path / f"m{i}")
    return tools.rawcheck("check", paths, "--assert-idle")


def end(serving):
    serving.guest.stop("data")
    serving.node.run("for i in 0 1 2 3 4; do dmsetup remove --retry m$i || exit 1; done")


def test_grows_under_load(serving, tmp_path):
    """Members get longer while fio writes and verifies, the array takes that, and after a restart data and parity are right."""
    begin(serving)
    before = size(serving)
    serving.node.run(fio(serving, 0, 32), timeout=180)
    last = before >> 20 << 8            # the last whole MiB of the device, in blocks: the region that the array ends in is written, and clean
    serving.node.run(f"dd if=/dev/urandom of={DEV} bs=4096 count=64 seek={last - 256} oflag=direct conv=nocreat status=none")
    serving.guest.wait_idle("data")
    load = serving.node.spawn(f"exec fio --name=l --filename={DEV} --direct=1 --ioengine=libaio --iodepth=8 --rw=randwrite --offset=40m --size=40m "
                              "--bsrange=4k-64k --verify=crc32c --verify_backlog=64 --verify_fatal=1 --serialize_overlap=1 --time_based --runtime=25 "
                              "--output-format=terse")
    serving.node.wait_until("test $(ddraid status data --json | grep -c granted) -gt 0", 20)
    lines(serving, LARGE, range(4))
    small = serving.guest.command("grow data", check=False)
    assert small.code == 1 and "/dev/mapper/m4" in small.err and f"room for {SMALL - SMALL // 100} bytes" in small.err, small
    lines(serving, LARGE, [4])
    done = json.loads(serving.guest.command("grow data --json", timeout=180).out)
    assert done["old"] == before and done["new"] > 2 * before
    assert size(serving) == done["new"]
    grown = serving.event("grown")
    assert grown["old_blocks"] * 4096 == before and grown["blocks"] * 4096 == done["new"]
    status = serving.guest.status("data")
    assert status["size"] == status["device_size"] == done["new"] and status["regions"]["total"] == -(-done["new"] // (4 << 20))
    assert load.wait(120).code == 0, load.err[-1000:]
    more = (done["new"] >> 20) - (before >> 20) - 2
    serving.node.run(fio(serving, (before >> 20) - 4, more, name="n"), timeout=240)
    serving.node.run(fio(serving, (before >> 20) - 4, more, "--verify_only", name="n"), timeout=240)
    serving.guest.wait_idle("data")
    serving.guest.stop("data")
    raw(serving, tmp_path)
    serving.guest.start("data")
    assert size(serving) == done["new"]
    serving.node.run(fio(serving, 0, 32, "--verify_only"), timeout=180)
    serving.guest.command("fail data 2")        # what is reconstructed in the new part is right
    serving.node.run(fio(serving, (before >> 20) - 4, more, "--verify_only", name="n"), timeout=240)
    degraded = serving.guest.command("grow data", check=False)
    assert degraded.code == 1 and "missing or being rebuilt" in degraded.err, degraded
    end(serving)


def test_what_is_refused(serving):
    begin(serving)
    before = size(serving)
    for text, words in (("", f"room for {SMALL - SMALL // 100} bytes"), (f"--size {before - (16 << 10)}", "cannot shrink"), (f"--size {before}", "already"),
                        (f"--size {before + 4096}", "multiple of 16384"), ("--size 100T", "at most"), (f"--size {before + (16 << 10)}", "/dev/mapper/m0")):
        refused = serving.guest.command(f"grow data {text}", check=False)
        assert refused.code == 1 and words in refused.err and refused.err.count("\n") == 1, (text, refused)
    assert serving.guest.command("grow data --size 0", check=False).code == 2
    assert size(serving) == before
    end(serving)


def test_a_part_of_it_and_a_daemon_that_dies(serving, tmp_path):
    """--size takes a part; a table that was loaded too short by hand is made longer when the daemon attaches."""
    begin(serving, order=1, parity=2)
    line = serving.node.run("ddraid table data").out.strip()
    before = size(serving)
    lines(serving, LARGE, range(4))
    wanted = before + (10 << 20)
    serving.guest.command(f"grow data --size {wanted}", timeout=180)
    assert size(serving) == wanted
    serving.guest.kill_daemon()
    serving.guest.start_daemon(**serving.config)
    serving.wait_ready()
    assert serving.guest.status("data")["size"] == size(serving) == wanted
    serving.node.run(fio(serving, 0, wanted >> 20), timeout=180)
    serving.guest.stop("data")
    serving.node.run(f"echo '{line}' | dmsetup create data")     # the table of before
    serving.node.wait_until(f"test $(blockdev --getsize64 {DEV}) -eq {wanted}", 60)
    serving.node.run(fio(serving, 0, wanted >> 20, "--verify_only"), timeout=180)
    serving.guest.wait_idle("data")
    serving.guest.stop("data")
    raw(serving, tmp_path, 4)
    serving.guest.start("data")
    end(serving)
