# SPDX-License-Identifier: GPL-2.0-or-later
"""Small faults of the kernel module. Runs in a guest like kraces_cases.py, whose head lists what has to be there."""
import contextlib
import errno
import fcntl
import mmap
import os
import subprocess
import sys
import uuid

import kforget
from kchan import (ABI, BIND, BLOCK, CONFIG, DRAIN, DRAINED, ERROR, GRANT, IO, KC_TIMEOUT_MS, KILL, RELEASE, RESOLVE, RES_FAIL, RES_RETRY, Array,
                   Channel, code, wait_for)
from kforget import DISKS, Flush, array, content, forget, out, raw, ready
from kpoint import counts, point

EC_TIMEOUT = 5
OP_WRITE, OP_FLUSH = 1, 2


def cache(member):
    """Counters of a member's dm-forget."""
    line = subprocess.run(["dmsetup", "status", f"f{member}"], check=True, capture_output=True, text=True).stdout
    return {k: int(v) for k, v in (word.split("=") for word in line.split() if "=" in word)}


def case_tries():
    """The count of a member's lacks of resources restarts after the daemon's answer."""
    with array() as a:
        ch = ready(a)
        point("member_write", "off")
        point("member_write", "status", "resource", 251, 0, 0)
        w = IO(a.path, 4, 0x22)
        e = ch.until(ERROR, timeout=40)
        assert (e.status, e.a0) == (EC_TIMEOUT, OP_WRITE), e
        point("member_write", "off")
        point("member_write", "status", "resource", 1)
        ch.send(RESOLVE, seq=e.seq, a0=RES_RETRY)
        assert w.done() == 0
        assert counts("member_write")[1] == 1
        ch.silent()
        point("member_write", "off")
        ch.close()


def case_bind():
    """A bind with a nonzero reserved field is refused; the number that others have is not ours."""
    with array() as a:
        for reserved in ((1, 0, 0), (0, 1, 0), (0, 0, 1)):
            with contextlib.closing(Channel()) as ch:
                assert code(ch.bind, a.uuid, 1, reserved=reserved) == errno.EINVAL
        with contextlib.closing(Channel()) as ch:
            data = bytearray(BIND.pack(ABI, 0, a.uuid, 1, 10000, *[0] * 37))
            old = (3 << 30) | (BIND.size << 16) | (ord("R") << 8) | 0xd0      # of RFCOMM's range
            assert code(fcntl.ioctl, ch.fd, old, data) == errno.ENOTTY
            ch.bind(a.uuid, 1)


def case_background():
    """Background writes of the page cache are marked as such for the members."""
    for name, value in (("dirty_expire_centisecs", 1), ("dirty_writeback_centisecs", 10)):
        with open(f"/proc/sys/vm/{name}", "w", encoding="ascii") as f:
            f.write(str(value))
    with array() as a:
        ch = a.attach()
        ch.send(GRANT, start=0, count=a.regions)
        with open(a.path, "r+b", buffering=0) as f:
            f.write(b"\x22" * (1 << 20))
            wait_for(lambda: all(cache(m)["background"] for m in range(3)), 20, lambda: [cache(m) for m in range(3)])
        ch.close()


def case_priority():
    """
    The I/O priority of a task reaches the members, also where its I/O carries none of its own. It did before K10 as well: since Linux 6.0 each
    bio that is submitted gets its task's.
    """
    with array() as a:
        ch = ready(a)
        subprocess.run(["ionice", "-c", "2", "-n", "1", "dd", f"if={a.path}", "of=/dev/null", "bs=4k", "count=1"], check=True,
                       capture_output=True)
        assert cache(0)["prio"] == 2 << 13 | 1, cache(0)
        ch.close()


def case_many_wait():
    """
    Thousands of reads wait for one range: when it ends each of them is looked at about once, and not once for each other one.
    """
    number = 2048
    with array() as a:
        ch = ready(a)
        out(ch, 0)                                      # so that reads reconstruct, and lock their range
        ch.send(DRAIN, seq=80, start=0, count=256)
        ch.until(DRAINED, seq=80)
        number_of = os.stat(a.path).st_rdev
        inflight = f"/sys/dev/block/{os.major(number_of)}:{os.minor(number_of)}/inflight"
        fio = subprocess.Popen(["fio", "--name=r", f"--filename={a.path}", "--ioengine=libaio", "--direct=1", "--rw=randread", "--bs=4k",
                                f"--numjobs={number // 256}", "--iodepth=256", "--size=1M", "--iodepth_batch=64", "--thread"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

        def waiting():
            with open(inflight, encoding="ascii") as f:
                return int(f.read().split()[0])

        wait_for(lambda: waiting() == number, 60, waiting)
        point("range_step", "off")
        ch.send(RELEASE, seq=80)
        text, _ = fio.communicate(timeout=120)
        assert fio.returncode == 0, text
        steps = sum(counts("range_step")[:2])
        assert steps < 10 * number, f"{steps} steps for {number}"
        ch.close()


def case_reload():
    """A reload reuses what the array has, and makes none of it again."""
    point("alloc", "off")
    with array() as a:
        first = counts("alloc")[0]
        ch = ready(a)
        point("alloc", "off")
        a.dm("load", a.name, "--table", a.table())
        again = counts("alloc")[0]
        a.dm("clear", a.name)
        assert again <= first - 10, (first, again)
        assert content(a) == b"\x11" * BLOCK
        ch.close()


@contextlib.contextmanager
def large_sectors():
    """Members with logical sectors of 4 KiB: loop devices over the disks."""
    subprocess.run(["modprobe", "loop"], check=True)
    loops = []
    for i, disk in enumerate(DISKS):
        wait_for(lambda n=i: os.path.exists(f"/dev/loop{n}"))
        loop, disk = os.open(f"/dev/loop{i}", os.O_RDWR), os.open(disk, os.O_RDWR)
        fcntl.ioctl(loop, 0x4c00, disk)                 # LOOP_SET_FD
        fcntl.ioctl(loop, 0x4c09, 4096)                 # LOOP_SET_BLOCK_SIZE
        os.close(disk)
        loops.append(loop)
    own = kforget.DISKS[:]
    kforget.DISKS[:] = [f"/dev/loop{i}" for i in range(len(own))]
    try:
        yield
    finally:
        kforget.DISKS[:] = own
        for loop in loops:
            fcntl.ioctl(loop, 0x4c01, 0)                # LOOP_CLR_FD
            os.close(loop)


def case_mirror_alignment():
    """A read of a mirror whose pieces of memory do not suit the members' drivers is copied, and no member is blamed."""
    with large_sectors(), array(order=0, parity=2, blocks=4096) as a:
        ch = ready(a)
        for m in range(3):
            forget(m, "strict", "on")
        fd = os.open(a.path, os.O_RDONLY | os.O_DIRECT)
        area = mmap.mmap(-1, 4 * BLOCK)
        for blocks, at in ((1, 0), (1, 512), (2, 1024), (3, 512)):
            view = memoryview(area)[at:at + blocks * BLOCK]
            assert os.preadv(fd, [view], 0) == blocks * BLOCK, f"{blocks} blocks at {at}"
            assert bytes(view[:BLOCK]) == b"\x11" * BLOCK
            view.release()
        os.close(fd)
        ch.silent()
        ch.close()


def case_flush_given_back():
    """A flush that a member has failed comes back after a noflush suspend; the daemon answers FAIL meanwhile: it fails."""
    with array() as a:
        ch = ready(a)
        forget(1, "fail", "flush")
        f = Flush(a.path)
        e = ch.until(ERROR, member=1)
        assert e.a0 == OP_FLUSH
        a.wait_parked(1)
        a.dm("suspend", "--noflush", "--nolockfs", a.name, timeout=10)
        forget(1, "fail", "none")
        ch.send(RESOLVE, seq=e.seq, a0=RES_FAIL)
        a.dm("resume", a.name)
        assert f.done() == errno.EIO, "it ended well although what the member had is lost"
        f = Flush(a.path)                               # which one it was is unknown
        assert f.done() == errno.EIO
        out(ch, 1)
        f = Flush(a.path)
        assert f.done() == 0
        assert raw(0, 0) and content(a) == b"\x11" * BLOCK
        ch.close()


TRACE = "/sys/kernel/tracing"


def trace(name, text):
    with open(f"{TRACE}/{name}", "w", encoding="ascii") as f:
        f.write(text)


def case_large_pieces():
    """No I/O, however large, allocates more than two pages of memory in one piece."""
    for kwargs in ({}, {"order": 0, "parity": 2, "blocks": 4096, "options": "verify_reads"}):
        with array(**kwargs) as a:
            ch = a.attach()
            ch.send(GRANT, start=0, count=a.regions)
            trace("events/kmem/kmalloc/filter", "bytes_req > 8192")
            trace("trace", "")
            trace("events/kmem/kmalloc/enable", "1")
            ios = [IO(a.path, 256 * i, 0x22, blocks=256) for i in range(8)]
            assert not any(io.done(30) for io in ios)
            ios = [IO(a.path, 256 * i, blocks=256) for i in range(8)]
            assert not any(io.done(30) for io in ios)
            trace("events/kmem/kmalloc/enable", "0")
            with open(f"{TRACE}/trace", encoding="ascii") as f:
                large = [line for line in f if "mempool" in line or "ddr_" in line]
            assert not large, large[:3]
            assert all(io.area[:] == b"\x22" * (256 * BLOCK) for io in ios)
            ch.close()


def log_of_module(since):
    """The module's lines of the kernel's log behind the line @since."""
    log = subprocess.run(["dmesg"], check=True, capture_output=True).stdout.decode(errors="replace")
    return [line for line in log.split(since, 1)[1].splitlines() if "device-mapper: ddraid: " in line]


def say(text):
    with open("/dev/kmsg", "w", encoding="ascii") as f:
        f.write(text)
    return text


def refused_tables(a):
    """Tables that name what is not there, or is too small; and messages that are none."""
    empty = "/dev/loop7"
    subprocess.run(["modprobe", "loop"], check=True)
    wait_for(lambda: os.path.exists(empty))
    right, devices = a.table(), a.devices[:]
    for table in (right + " 1 nonsense", right.replace(devices[1], "/dev/absent"), right.replace(devices[1], empty),
                  f"0 {8 << 20} {right.split(' ', 2)[2]}"):
        assert a.dm("load", a.name, "--table", table, check=False).returncode != 0, table
    for words in (("fail_member", "1"), ("nonsense",)):
        assert a.dm("message", a.name, "0", *words, check=False).returncode != 0, words


def case_log():
    """Each line of the log begins with the array's uuid and name: those of a table that is refused, and those of I/O."""
    begin = say("the test of the log begins")
    with array() as a:
        refused_tables(a)
        ch = ready(a)
        forget(1, "fail", "write")
        w = IO(a.path, 4, 0x22)
        e = ch.until(ERROR, member=1)
        out(ch, 1)
        ch.send(RESOLVE, seq=e.seq, a0=RES_RETRY)
        assert w.done() == 0
        ch.send(CONFIG, a0=KC_TIMEOUT_MS, a1=1000)
        wait_for(lambda: a.status()[7] == "detached")
        ch.back()
        ch.send(KILL)
        ch.close()
        lines = log_of_module(begin)
        assert all(f"ddraid: {uuid.UUID(bytes=a.uuid)} ({a.name}): " in line for line in lines), lines
        for text in ("nonsense", "/dev/absent cannot be opened", "has no sectors", "the array needs", "fail_member", "has attached", "member 1 (",
                     "ddraidd has not answered", "no daemon", "the daemon is back", "stopped serving"):
            assert any(text in line for line in lines), (text, lines)
    begin = say("the test of the log goes on")
    a = Array(options="nosync")
    a.dm("message", a.name, "0", "fail_member", "1")
    for member in ("2", "9"):
        assert a.dm("message", a.name, "0", "fail_member", member, check=False).returncode != 0
    a.remove()
    lines = log_of_module(begin)
    assert all(f"ddraid: {uuid.UUID(bytes=a.uuid)} ({a.name}): " in line for line in lines), lines
    assert [text for text in ("is no longer used", "cannot do without member 2", "9 is no member") if not any(text in line for line in lines)] == []


def case_log_of_two():
    """Many errors of one array do not keep those of another one out of the log."""
    with array() as a:
        ch = ready(a)
        noisy = Array(devices=a.devices, options="nosync")
        begin = say("the test of the log of two begins")
        point("member_read", "off")
        point("member_read", "status", "medium", 30, 0, 0)
        for _ in range(30):
            content(noisy)
        assert counts("member_read")[1] == 30
        point("member_read", "off")
        forget(1, "fail", "write")
        w = IO(a.path, 4, 0x22)
        e = ch.until(ERROR, member=1)
        out(ch, 1)
        ch.send(RESOLVE, seq=e.seq, a0=RES_RETRY)
        assert w.done() == 0
        noisy.remove()
        ch.close()
        lines = log_of_module(begin)
        assert any(f"({a.name}): member 1 (" in line and "I/O error in write" in line for line in lines), lines
        assert sum(f"({noisy.name}): member " in line for line in lines) < 30, "all are said: this test shows nothing"


if __name__ == "__main__":
    sys.exit(globals()["case_" + sys.argv[1]]())
