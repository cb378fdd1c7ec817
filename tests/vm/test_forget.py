# SPDX-License-Identifier: GPL-2.0-or-later
"""dm-forget is the disk that it says it is: what was flushed stays, the rest goes.

Every test has a device of its own over the same disk, filled with a known
pattern first, and compares the device and the disk below with what must be there.
"""

import json
import random
import re
import time

import pytest

from ddvm import CommandFailed

VM = {"disks": 1, "size": "64M"}

SECTOR = 512
MIB = 1 << 20
LENGTH = 8 * MIB        # of the device under test
OFFSET = 2048           # sectors, on the disk

IO_TOOL = r'''
import ctypes, fcntl, mmap, os, sys
def io(dev, op, offset, length, fill=0):
    fd = os.open(dev, os.O_RDWR | os.O_DIRECT | (os.O_DSYNC if op == "fua" else 0))
    buf = mmap.mmap(-1, length)
    if op == "read":
        assert os.preadv(fd, [buf], offset) == length
        return bytes(buf)
    if op == "flush":
        return os.fsync(fd)
    if op in ("zeroes", "discard"):
        code = {"zeroes": 0x127f, "discard": 0x1277}[op]
        arg = bytearray(offset.to_bytes(8, "little") + length.to_bytes(8, "little"))
        return fcntl.ioctl(fd, code, arg)
    buf.write(bytes([fill]) * length)
    assert os.pwritev(fd, [buf], offset) == length
'''


class Forget:
    """A device `forget` in the guest, at OFFSET of the disk, and the content of the disk."""

    def __init__(self, node):
        self.node, self.disk = node, node.disks[0]
        self.path = "/dev/mapper/forget"
        self.disk.write(OFFSET * SECTOR, b"\xee" * LENGTH)
        node.run(f"blockdev --flushbufs {self.disk.dev}")
        node.run(["dmsetup", "create", "forget", "--table",
                  f"0 {LENGTH // SECTOR} forget {self.disk.dev} {OFFSET}"])

    def io(self, op, offset=0, length=SECTOR, fill=0, check=True):
        """One direct I/O; zeroes and discards too; bytes of a read."""
        code = (IO_TOOL + f"\nr = io({self.path!r}, {op!r}, {offset}, {length}, {fill})\n"
                "sys.stdout.buffer.write(r or b'')\n")
        return self.node.run(["python3", "-SIE", "-c", code], check=check)

    def write(self, offset, length, fill, fua=False):
        """Write; with `fua` as one FUA write.

        A block device's O_DSYNC write is a FUA write and then a flush: the
        flush is made to fail, so that it makes nothing durable.
        """
        if not fua:
            self.io("write", offset, length, fill)
            return
        self.message("fail", "flush")
        self.io("fua", offset, length, fill, check=False)
        self.message("fail", "none")

    def flush(self):
        self.io("flush")

    def read(self, offset, length):
        return self.io("read", offset, length).raw

    def message(self, *words, check=True):
        return self.node.run(["dmsetup", "message", "forget", "0", *map(str, words)], check=check)

    def below(self, offset, length):
        """What the disk holds."""
        return self.disk.read(OFFSET * SECTOR + offset, length)

    def power_cut(self, *how):
        self.message("forget", *how)
        self.message("revive")

    def status(self):
        out = self.node.run(["dmsetup", "status", "forget"]).out
        found = {k: int(v) for k, v in re.findall(r"(\w+)=(\d+)", out)}
        found["dead"] = " dead " in out
        return found


@pytest.fixture
def forget(shared_node, load_forget):
    load_forget(shared_node)
    device = Forget(shared_node)
    yield device
    if shared_node.alive():
        shared_node.run("dmsetup message forget 0 hang off; dmsetup remove --retry forget")


def sectors(data):
    """The fill byte of each sector; every sector has to be of one byte only."""
    pieces = [data[i:i + SECTOR] for i in range(0, len(data), SECTOR)]
    assert all(p == p[:1] * SECTOR for p in pieces), "a sector is torn within"
    return [p[0] for p in pieces]


@pytest.mark.slow
def test_write_is_read_back_and_stays_above(forget):
    forget.write(4096, 8192, 0x11)
    assert forget.read(4096, 8192) == b"\x11" * 8192
    assert forget.below(4096, 8192) == b"\xee" * 8192
    assert forget.status()["unflushed_bytes"] == 8192


def test_unflushed_write_is_lost(forget):
    forget.write(4096, 8192, 0x11)
    forget.power_cut()
    assert forget.read(4096, 8192) == b"\xee" * 8192
    assert forget.below(4096, 8192) == b"\xee" * 8192
    assert forget.status()["unflushed_bytes"] == 0


def test_flushed_write_is_kept(forget):
    forget.write(0, 65536, 0x22)
    forget.write(MIB, 512, 0x23)
    forget.flush()
    assert forget.status()["unflushed_bytes"] == 0
    assert forget.below(0, 65536) == b"\x22" * 65536
    assert forget.below(MIB, 512) == b"\x23" * 512
    forget.write(512, 512, 0x33)
    forget.power_cut()
    assert forget.read(0, 65536) == b"\x22" * 65536
    assert forget.read(MIB, 512) == b"\x23" * 512


def test_fua_keeps_itself_only(forget):
    forget.write(0, 4096, 0x44)
    forget.write(8192, 4096, 0x55, fua=True)
    state = forget.status()
    assert state["fua"] == 1 and state["unflushed_bytes"] == 4096
    forget.power_cut()
    assert forget.read(0, 12288) == b"\xee" * 8192 + b"\x55" * 4096


@pytest.mark.slow
def test_fua_of_a_part_of_a_unit(forget):
    forget.write(0, 4096, 0x44)
    forget.write(1024, 512, 0x55, fua=True)
    assert forget.read(0, 4096) == b"\x44" * 1024 + b"\x55" * 512 + b"\x44" * 2560
    forget.power_cut()
    assert forget.read(0, 4096) == b"\xee" * 1024 + b"\x55" * 512 + b"\xee" * 2560


@pytest.mark.slow
def test_read_mixes_cache_and_disk(forget):
    forget.write(512, 1024, 0x66)
    forget.write(5120, 512, 0x67)
    want = (b"\xee" * 512 + b"\x66" * 1024 + b"\xee" * 3584 + b"\x67" * 512 + b"\xee" * 2560)
    assert forget.read(0, 8192) == want


@pytest.mark.slow
@pytest.mark.parametrize("op", ["zeroes", "discard"])
def test_zeroes_go_through_the_cache(forget, op):
    forget.write(0, 16384, 0x77)
    forget.flush()
    forget.io(op, 512, 12288)
    want = b"\x77" * 512 + b"\0" * 12288 + b"\x77" * 3584
    assert forget.read(0, 16384) == want
    assert forget.below(0, 16384) == b"\x77" * 16384
    forget.write(1024, 512, 0x78)
    forget.flush()
    want = want[:1024] + b"\x78" * 512 + want[1536:]
    assert forget.below(0, 16384) == want == forget.read(0, 16384)


@pytest.mark.slow
def test_discard_is_lost_without_flush(forget):
    forget.io("discard", 0, LENGTH)
    assert forget.read(0, MIB) == b"\0" * MIB
    forget.power_cut()
    assert forget.read(0, MIB) == b"\xee" * MIB


@pytest.mark.slow
def test_dead_until_revived(forget):
    forget.write(0, 4096, 0x11)
    forget.message("forget")
    assert forget.status()["dead"]
    for op in ("read", "write", "fua", "flush"):
        result = forget.io(op, 0, 4096, check=False)
        assert result.code != 0 and "Errno 5" in result.err, op
    forget.message("revive")
    assert forget.read(0, 4096) == b"\xee" * 4096


def test_torn_loses_sectors_by_the_seed(forget):
    def cut(seed):
        forget.disk.write(OFFSET * SECTOR, b"\xee" * LENGTH)
        forget.write(0, 262144, 0x11)
        forget.power_cut("torn", seed)
        got = sectors(forget.read(0, 262144))
        assert got == sectors(forget.below(0, 262144))
        assert set(got) == {0x11, 0xee}
        assert 150 < got.count(0x11) < 362
        return got

    first = cut(1)
    assert cut(1) == first
    assert cut(2) != first


@pytest.mark.slow
def test_random_loses_whole_writes(forget):
    forget.node.run(["python3", "-SIE", "-c", IO_TOOL + "for number in range(64):\n"
                     f"    io({forget.path!r}, 'write', number * 4096, 4096, number + 1)"])
    forget.power_cut("random", 3)
    got = sectors(forget.read(0, 64 * 4096))
    kept = 0
    for number in range(64):
        piece = got[number * 8:number * 8 + 8]
        assert piece in ([number + 1] * 8, [0xee] * 8)
        kept += piece[0] != 0xee
    assert 16 < kept < 48


@pytest.mark.slow
def test_torn_keeps_what_was_flushed(forget):
    forget.write(0, 65536, 0x11)
    forget.flush()
    forget.write(0, 65536, 0x22)
    forget.power_cut("torn", 7)
    assert set(sectors(forget.read(0, 65536))) == {0x11, 0x22}


@pytest.mark.slow
def test_leak_reaches_the_disk_and_stays_unflushed(forget):
    forget.message("leak", 50, 1)
    forget.write(0, 262144, 0x33)
    forget.write(4 * MIB, 4096, 0x34, fua=True)     # reaches the disk after the leaked part of the one before
    leaked = sectors(forget.below(0, 262144))
    assert 150 < leaked.count(0x33) < 362
    assert forget.status()["unflushed_bytes"] == 262144
    assert forget.read(0, 262144) == b"\x33" * 262144
    forget.power_cut()
    assert sectors(forget.read(0, 262144)) == leaked


@pytest.mark.slow
def test_limit_writes_out_by_itself(forget):
    forget.message("limit", 1)
    forget.write(0, MIB, 0x44)
    time.sleep(0.5)
    assert forget.status()["unflushed_bytes"] == MIB
    forget.write(MIB, MIB, 0x45)
    forget.node.wait_until("dmsetup status forget | grep -q unflushed_bytes=0")
    assert forget.below(0, 2 * MIB) == b"\x44" * MIB + b"\x45" * MIB


def test_bad_sectors_heal_by_a_flushed_write(forget):
    forget.message("bad", "add", 9, 2)
    result = forget.io("read", 4096, 4096, check=False)
    assert result.code != 0 and "Errno 61" in result.err, "a medium error is ENODATA"
    assert forget.read(0, 4096) == b"\xee" * 4096
    assert forget.read(11 * SECTOR, SECTOR) == b"\xee" * SECTOR
    forget.write(9 * SECTOR, 1024, 0x55)
    assert forget.read(4096, 4096)[512:1536] == b"\x55" * 1024
    forget.power_cut()
    assert forget.io("read", 4096, 4096, check=False).code != 0, "the write never got there"
    forget.write(9 * SECTOR, 1024, 0x56, fua=True)
    assert forget.status()["bad"] == 0
    forget.power_cut()
    assert forget.read(4096, 4096)[512:1536] == b"\x56" * 1024


@pytest.mark.slow
def test_bad_sectors_of_both_kinds(forget):
    """Some disks say only that a read failed, and not that its sector is bad: where a read meets both, that is what it gets."""
    def error(at, length=SECTOR):
        result = forget.io("read", at * SECTOR, length, check=False)
        return next((e for e in ("Errno 5]", "Errno 61]") if e in result.err), None) if result.code else None
    forget.message("bad", "add", 9, 2)
    forget.message("bad", "add", 10, 3, "ioerr")
    assert forget.status()["bad"] == 4
    assert [error(at) for at in range(8, 14)] == [None, "Errno 61]", "Errno 5]", "Errno 5]", "Errno 5]", None]
    assert error(8, 4096) == "Errno 5]"
    forget.message("bad", "add", 12, 1)
    assert error(12) == "Errno 61]" and forget.status()["bad"] == 4
    forget.write(9 * SECTOR, 2 * SECTOR, 0x55, fua=True)
    assert [error(at) for at in range(8, 14)] == [None, None, None, "Errno 5]", "Errno 61]", None]
    forget.write(8 * SECTOR, 4096, 0x56, fua=True)
    assert forget.status()["bad"] == 0 and error(8, 4096) is None


@pytest.mark.slow
def test_through_has_no_cache(forget):
    """What is written is below at once, a write heals bad sectors, and faults are as they are with a cache."""
    disk = forget.disk.dev
    forget.node.run(["dmsetup", "remove", "--retry", "forget"])
    forget.node.run(["dmsetup", "create", "forget", "--table", f"0 {LENGTH // SECTOR} forget {disk} {OFFSET} through"])
    assert forget.node.run("dmsetup table forget").out.split()[5:] == ["through"]
    forget.message("bad", "add", 9, 1)
    forget.message("bad", "add", 10, 1, "ioerr")
    assert forget.io("read", 4096, 4096, check=False).code != 0
    forget.write(9 * SECTOR, SECTOR, 0x55)
    assert forget.status()["bad"] == 1
    forget.write(4096, 8192, 0x56)
    assert (forget.status()["bad"], forget.status()["unflushed_bytes"]) == (0, 0)
    assert forget.below(4096, 8192) == b"\x56" * 8192 == forget.read(4096, 8192)
    forget.flush()
    forget.message("fail", "write")
    assert forget.io("write", 4096, 512, 0x57, check=False).code != 0
    forget.message("fail", "none")
    assert forget.below(4096, 512) == b"\x56" * 512
    forget.power_cut()
    assert forget.read(4096, 8192) == b"\x56" * 8192


@pytest.mark.slow
def test_bad_clear(forget):
    forget.message("bad", "add", 0, LENGTH // SECTOR)
    assert forget.status()["bad"] == LENGTH // SECTOR
    assert forget.io("read", LENGTH - 512, 512, check=False).code != 0
    forget.message("bad", "clear")
    assert forget.read(LENGTH - 512, 512) == b"\xee" * 512


@pytest.mark.parametrize("what", ["read", "write", "flush", "all"])
def test_fail(forget, what):
    forget.message("fail", what)
    for op in ("read", "write", "flush"):
        failed = forget.io(op, 0, 4096, check=False).code != 0
        assert failed == (what in (op, "all")), op
    forget.message("fail", "none")
    for op in ("read", "write", "flush"):
        forget.io(op, 0, 4096)


@pytest.mark.slow
def test_failed_flush_keeps_data_unflushed(forget):
    forget.write(0, 4096, 0x66)
    forget.message("fail", "flush")
    assert forget.io("flush", check=False).code != 0
    forget.message("fail", "none")
    assert forget.status()["unflushed_bytes"] == 4096
    forget.flush()
    assert forget.below(0, 4096) == b"\x66" * 4096


def times(forget, depth, count):
    """@count writes, @depth at a time: the duration of each from its call on, in ns."""
    out = forget.node.run(f"fio --output-format=json --name=d --filename={forget.path} --rw=randwrite --bs=4k --size=4M --direct=1 "
                          f"--ioengine=libaio --clocksource=clock_gettime --lat_percentiles=1 --iodepth={depth} --number_ios={count}").out
    found = json.loads(out)["jobs"][0]["write"]["lat_ns"]
    return {"min": found["min"], "median": found["percentile"]["50.000000"], "max": found["max"]}


def test_delay(forget):
    """Each write takes 20 ms, also where eight are under way side by side; the median of many, which a stall does not move."""
    forget.message("delay", 20)
    one, eight = times(forget, 1, 80), times(forget, 8, 320)
    forget.message("delay", 0)
    assert one["min"] >= 20e6 and eight["min"] >= 20e6, (one, eight)
    assert one["median"] < 66e6 and eight["median"] < 1.6 * one["median"], (one, eight)


@pytest.mark.slow
def test_delay_with_a_spread(forget):
    forget.message("delay", 0, 40)
    took = times(forget, 8, 160)
    forget.message("delay", 0)
    assert took["min"] < 10e6 and took["max"] > 30e6 and 10e6 < took["median"] < 60e6, took


def test_hang_holds_and_serves_later(forget):
    forget.message("hang", "on")
    job = forget.node.spawn(["python3", "-SIE", "-c", IO_TOOL +
                             f"io('{forget.path}', 'write', 0, 4096, 0x77); print('written')"])
    forget.node.wait_until("dmsetup status forget | grep -q held=1")
    time.sleep(1)
    assert job.poll() is None
    forget.message("hang", "off")
    job.wait(20, check=True)
    assert forget.read(0, 4096) == b"\x77" * 4096
    assert forget.status()["held"] == 0


@pytest.mark.slow
def test_power_cut_while_hanging_fails_what_waits(forget):
    forget.message("hang", "on")
    job = forget.node.spawn(["python3", "-SIE", "-c", IO_TOOL +
                             f"io('{forget.path}', 'flush', 0, 512)"])
    forget.node.wait_until("dmsetup status forget | grep -q held=1")
    forget.power_cut()
    forget.message("hang", "off")
    result = job.wait(20)
    assert result.code != 0 and "Errno 5" in result.err


@pytest.mark.slow
def test_counters(forget):
    forget.message("reset")
    forget.write(0, 4096, 1)
    forget.write(4096, 512, 2, fua=True)
    forget.io("zeroes", 8192, 4096)
    forget.flush()
    state = forget.status()
    assert (state["writes"], state["fua"], state["zeroes"]) == (2, 1, 1)
    assert state["flushes"] == 2
    assert state["written_bytes"] == 4096 + 512 + 4096


@pytest.mark.slow
def test_table_round_trip(forget):
    table = forget.node.run("dmsetup table forget").out.split()
    assert table[:3] == ["0", str(LENGTH // SECTOR), "forget"] and table[4] == str(OFFSET)


BAD_MESSAGES = [
    "nonsense", "forget some", "forget torn", "forget torn x", "forget all 1", "revive now",
    "leak", "leak 101 1", "leak 5", "limit", "limit x", "bad", "bad add 1", "bad add 1 0",
    f"bad add 0 {LENGTH // SECTOR + 1}", f"bad add {LENGTH // SECTOR} 1", "bad add 1 1 medium", "bad add 1 1 ioerr 1", "bad clear 1",
    "fail", "fail some", "delay", "delay -1", "delay 60001", "delay 1 x", "delay 1 1 1", "hang", "hang maybe", "reset 1"]


def test_bad_messages_are_refused(forget):
    before = forget.status()
    loop = "".join(f"dmsetup message forget 0 {w} 2>/dev/null && echo '{w}'; "
                   for w in BAD_MESSAGES)
    assert forget.node.run(loop + "true").out == "", "these were accepted"
    assert forget.status() == before


@pytest.mark.parametrize("table", ["", "/dev/vda", "/dev/vda x", "/dev/vda 0 0", "/dev/null 0",
                                   "/dev/absent 0", "/dev/vda 999999999"])
@pytest.mark.slow
def test_bad_tables_are_refused(shared_node, load_forget, table):
    load_forget(shared_node)
    with pytest.raises(CommandFailed):
        shared_node.run(["dmsetup", "create", "wrong", "--table", f"0 2048 forget {table}"])
    shared_node.run("dmsetup remove wrong", check=False)
    assert "wrong" not in shared_node.run("dmsetup ls").out


def test_random_operations_match_a_model(forget):
    """Hundreds of operations against a plain model of a disk with a cache."""
    span = 128          # sectors
    dice = random.Random(5)
    steps, cached, disk = [], {}, [0xee] * span
    for _ in range(300):
        start = dice.randrange(span)
        count = dice.randrange(1, min(24, span - start) + 1)
        op = dice.choices(["write", "fua", "zeroes", "flush", "read", "cut"],
                          [40, 10, 8, 6, 30, 6])[0]
        fill = dice.randrange(1, 200)
        steps.append((op, start * SECTOR, count * SECTOR, fill))
    code = IO_TOOL + "import subprocess\nfor step in " + repr(steps) + r''':
    op, offset, length, fill = step
    if op == "cut":
        for words in (["forget"], ["revive"]):
            subprocess.run(["dmsetup", "message", "forget", "0", *words], check=True)
    else:
        if op == "fua":
            subprocess.run(["dmsetup", "message", "forget", "0", "fail", "flush"], check=True)
        try:
            data = io("/dev/mapper/forget", op, offset, length, fill)
        except OSError:
            assert op == "fua"
            subprocess.run(["dmsetup", "message", "forget", "0", "fail", "none"], check=True)
        if op == "read":
            print(data[::512].hex())
'''
    forget.node.put("/tmp/steps.py", code)
    lines = iter(forget.node.run(["python3", "-SIE", "/tmp/steps.py"], timeout=300).out.split())
    for number, (op, offset, length, fill) in enumerate(steps):
        where = range(offset // SECTOR, (offset + length) // SECTOR)
        if op in ("write", "zeroes", "fua"):
            cached.update({s: fill if op != "zeroes" else 0 for s in where})
        if op in ("flush", "fua"):
            for sector in list(cached) if op == "flush" else where:
                disk[sector] = cached.pop(sector)
        if op == "cut":
            cached.clear()
        if op == "read":
            want = bytes(cached.get(s, disk[s]) for s in where)
            assert bytes.fromhex(next(lines)) == want, f"step {number}"
    assert sectors(forget.below(0, span * SECTOR)) == disk


@pytest.mark.slow
def test_flush_under_load_keeps_what_was_acknowledged(forget):
    """Writers with fsync run at the power cut: each line that they printed is on the disk."""
    code = IO_TOOL + r'''
fd = os.open("/dev/mapper/forget", os.O_RDWR | os.O_DIRECT)
buf = mmap.mmap(-1, 4096)
me, turn = int(sys.argv[1]), 0
while True:
    turn += 1
    buf.seek(0); buf.write(turn.to_bytes(4, "little") * 1024)
    os.pwritev(fd, [buf], (me * 64 + turn % 64) * 4096)
    os.fsync(fd)
    print(turn, flush=True)
'''
    forget.message("leak", 30, 9)
    forget.node.put("/tmp/writer.py", code)
    jobs = [forget.node.spawn(["python3", "-SIE", "/tmp/writer.py", str(i)]) for i in range(4)]
    for job in jobs:
        job.wait_output("\n9\n")
    forget.message("forget", "torn", 4)
    done = []
    for job in jobs:
        result = job.wait(30)
        assert "Errno 5" in result.err
        done.append(int(result.out.split()[-1]))
    forget.message("revive")
    for number, last in enumerate(done):
        data = forget.read(number * 64 * 4096, 64 * 4096)
        for turn in range(max(1, last - 60), last + 1):
            at = (turn % 64) * 4096
            got = int.from_bytes(data[at:at + 4], "little")
            assert got >= turn, f"writer {number} lost {turn} of {last}: {got}"
            if turn > last - 63:
                assert data[at:at + 4096] in (turn.to_bytes(4, "little") * 1024,)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["all", "random 11"])
def test_file_system_survives_a_power_cut(forget, how):
    """ext4 with its journal on top: what was synced is there, and fsck finds no damage.

    Not with "torn": ext4's superblock is two sectors, and e2fsck gives up on half of one.
    """
    node = forget.node
    node.run("mkfs.ext4 -q /dev/mapper/forget && mkdir -p /mnt/f && mount /dev/mapper/forget "
             "/mnt/f && cp -r /etc/init.d /mnt/f/kept && sync -f /mnt/f && "
             "cp -r /etc/pam.d /mnt/f/maybe")
    forget.message("forget", *how.split())
    node.run("umount /mnt/f", check=False)
    node.run("umount -l /mnt/f", check=False)
    forget.message("revive")
    node.run(f"blockdev --flushbufs {forget.path}")
    assert node.run(["e2fsck", "-fp", forget.path], check=False).code in (0, 1)
    node.run("mount /dev/mapper/forget /mnt/f && diff -r /etc/init.d /mnt/f/kept; "
             "code=$?; umount /mnt/f; exit $code")


@pytest.mark.slow
@pytest.mark.vm(disks=1)
def test_machine_killed_loses_the_cache(node, load_forget):
    load_forget(node)
    forget = Forget(node)
    forget.write(0, 4096, 0x11)
    forget.flush()
    forget.write(4096, 4096, 0x22)
    node.kill()
    assert forget.below(0, 8192) == b"\x11" * 4096 + b"\xee" * 4096
