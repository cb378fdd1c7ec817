#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of failing members and mismatches, with kchan.py as the daemon; run in a guest.

usage: kerr_cases.py CASE      (dm-forget is loaded; the members are /dev/vda to /dev/vdc)
"""

import contextlib
import errno
import mmap
import os
import subprocess
import sys
import time

from kchan import (APPLIED, BITS, BLOCK, CLOSED, DRAIN, DRAINED, ENABLE, ERROR, F_RESENT, KILL, KM_IN_SYNC, KM_LEAVING, KM_OUT,
                   KM_REBUILDING, LOCK, GRANT, MEMBER, MISMATCH, NO_MEMBER, REAP, REAPED, RELEASE, RESOLVE, RES_FAIL, RES_PASS,
                   RES_RETRY, IO, Array, Server, fio, fio_ends, wait_for)

EC_IO, EC_MEDIUM, EC_ABSENT = 1, 2, 7
OP_READ, OP_WRITE, OP_FLUSH = 0, 1, 2
RB_CLEAN, RB_SUSPECT_ERROR = 1, 2
DISKS = ["/dev/vda", "/dev/vdb", "/dev/vdc"]
DATA = 2048 * 512           # where the data begins on a member
CHUNK = 2048


def dm(*args):
    subprocess.run(["dmsetup", *args], check=True, timeout=30, capture_output=True)


def forget(member, *words):
    dm("message", f"f{member}", "0", *map(str, words))


@contextlib.contextmanager
def array(**kwargs):
    """An array over three dm-forget."""
    for i, disk in enumerate(DISKS):
        size = int(subprocess.run(["blockdev", "--getsz", disk], check=True, capture_output=True).stdout)
        dm("create", f"f{i}", "--table", f"0 {size} forget {disk} 0")
    a = Array(devices=[f"/dev/mapper/f{i}" for i in range(3)], **kwargs)
    try:
        yield a
    finally:
        for i in range(3):
            forget(i, "fail", "none")
            forget(i, "hang", "off")
        a.dm("remove", "--force", a.name, check=False)
        wait_for(lambda: not os.path.exists(a.path), 10)
        for i in range(3):
            dm("remove", "--retry", f"f{i}")


def raw(member, block, data=None):
    """A chunk on a member, through its dm-forget: read it, or write @data."""
    fd = os.open(f"/dev/mapper/f{member}", os.O_RDWR | os.O_DIRECT)
    try:
        area = mmap.mmap(-1, CHUNK)
        if data is not None:
            area[:] = data
            os.pwritev(fd, [area], DATA + block * CHUNK)
        else:
            os.preadv(fd, [area], DATA + block * CHUNK)
        return area[:]
    finally:
        os.close(fd)


def flush(member):
    fd = os.open(f"/dev/mapper/f{member}", os.O_RDWR)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def ready(a, regions=1):
    """An attached channel; the first regions are granted and block 0 holds 0x11."""
    ch = a.attach()
    ch.send(GRANT, start=0, count=regions)
    assert IO(a.path, 0, 0x11).done() == 0
    return ch


def out(ch, member, seq=50, state=KM_OUT, cursor=0):
    ch.send(MEMBER, seq=seq, member=member, a0=state, start=cursor)
    ch.until(APPLIED, seq=seq, member=member)


def content(a, block=0):
    read = IO(a.path, block)
    assert read.done() == 0
    return read.area[:]


def case_write_out():
    """The write ends once the member has failed, and not before; the other members have it."""
    with array() as a:
        ch = ready(a)
        forget(1, "fail", "write")
        w = IO(a.path, 4, 0x22, blocks=2)
        e = ch.until(ERROR)
        assert (e.member, e.status, e.a0, e.start, e.count) == (1, EC_IO, OP_WRITE, 4, 2), e
        w.waits()
        a.wait_parked(1)
        out(ch, 1)
        w.waits()
        ch.send(RESOLVE, seq=e.seq, a0=RES_RETRY)
        assert w.done() == 0 and a.parked() == 0
        forget(1, "fail", "all")
        assert content(a, 4) == b"\x22" * BLOCK
        assert IO(a.path, 6, 0x33).done() == 0
        ch.silent()
        assert a.status()[0] == "ADA"
        assert ch.refused(RESOLVE, seq=e.seq, a0=RES_RETRY) == errno.ENOENT
        ch.send(REAP, seq=9, count=99)      # the first REAP finds it in use
        ch.until(REAPED, seq=9)
        ch.send(REAP, seq=10, count=99)
        assert ch.until(CLOSED).status == 0
        ch.close()


def case_leaving():
    """A member leaves while other nodes may still read it: it is not read here, but no write and no flush ends without it."""
    with array() as a:
        ch = ready(a)
        out(ch, 0, seq=49, state=KM_LEAVING)
        assert a.status()[0] == "aAA"
        raw(0, 0, b"\x99" * CHUNK)                     # a reader gets this
        assert content(a, 0) == b"\x11" * BLOCK
        assert IO(a.path, 4, 0x22).done() == 0
        assert raw(0, 4) == b"\x22" * CHUNK           # written still
        forget(0, "fail", "write")
        w = IO(a.path, 4, 0x33)
        e = ch.until(ERROR, member=0)
        ch.send(RESOLVE, seq=e.seq, a0=RES_RETRY)       # not failed: the write fails again, and the kernel asks again
        again = ch.until(ERROR, member=0)
        assert again.seq != e.seq
        w.waits()
        assert raw(1, 4) == b"\x33" * CHUNK
        ch.close()                                      # a new daemon finds it so
        ch = a.attach(enable=False)
        again = ch.expect(ERROR, member=0)
        for m, state in enumerate((KM_LEAVING, KM_IN_SYNC, KM_IN_SYNC)):
            out(ch, m, seq=60 + m, state=state)
        ch.send(ENABLE)
        w.waits()
        out(ch, 0, seq=70)
        w.waits()
        ch.send(RESOLVE, seq=again.seq, a0=RES_RETRY)
        assert w.done() == 0
        assert content(a, 4) == b"\x33" * BLOCK
        out(ch, 0, seq=71, state=KM_LEAVING)            # what is complete without it is never written to it again
        assert a.status()[0] == "DAA"
        assert IO(a.path, 4, 0x44).done() == 0
        ch.silent()
        ch.close()


def case_write_again():
    """The member was well after all: all members get the data as it is then, since its owner may have changed it."""
    with array() as a:
        ch = ready(a)
        forget(1, "fail", "write")
        w = IO(a.path, 4, 0x22)
        e = ch.until(ERROR, member=1)
        assert raw(0, 4) == b"\x22" * CHUNK
        w.area[:] = b"\x77" * BLOCK
        forget(1, "fail", "none")
        ch.send(RESOLVE, seq=e.seq, a0=RES_RETRY)
        assert w.done() == 0
        assert [raw(m, 4)[:1] for m in range(3)] == [b"\x77", b"\x77", b"\x00"]
        ch.close()


def case_write_fails():
    """FAIL: an error upwards, and the region is closed as one to be resynced."""
    with array() as a:
        ch = ready(a)
        forget(1, "fail", "write")
        w = IO(a.path, 4, 0x22)
        e = ch.until(ERROR, member=1)
        assert ch.refused(RESOLVE, seq=e.seq, a0=RES_PASS) == errno.EINVAL
        w.waits(0.1)
        ch.send(RESOLVE, seq=e.seq, a0=RES_FAIL)
        assert w.done() == errno.EIO
        ch.send(REAP, seq=9, count=99)
        ch.until(REAPED, seq=9)
        ch.send(REAP, seq=10, count=99)
        assert ch.until(CLOSED).status != 0
        ch.close()


def reload(a, without=None):
    """A table that names no device for that member becomes the active one."""
    words = a.table().split()
    if without is not None:
        words[words.index(a.devices[without])] = "-"
    a.dm("suspend", "--noflush", "--nolockfs", a.name, timeout=10)
    a.dm("load", a.name, "--table", " ".join(words))
    a.dm("resume", a.name)


class Flush(IO):
    """A flush, and nothing else."""

    def __init__(self, path):
        super().__init__(path, 0)

    def run(self):
        fd = os.open(self.path, os.O_RDWR)
        try:
            self.calling = True
            os.fsync(fd)
            self.result = 0
        except OSError as error:
            self.result = error.errno
        finally:
            os.close(fd)


def absent(ch, flags=0):
    """The records of a write and of a flush that the table leaves member 1 out of, by operation."""
    records = {}
    while len(records) < 2:
        e = ch.until(ERROR, member=1, status=EC_ABSENT)
        assert e.a0 in (OP_WRITE, OP_FLUSH) and e.a0 not in records and e.flags & flags == flags, (e, records)
        records[e.a0] = e.seq
    return records


def retry(ch, records):
    for seq in records.values():
        ch.send(RESOLVE, seq=seq, a0=RES_RETRY)


def case_absent():
    """No write or flush completes without a member that is in the array, if the table has no device for it: the member fails first."""
    with array() as a:
        ch = ready(a)
        reload(a, without=1)
        w, f = IO(a.path, 4, 0x22, blocks=2), Flush(a.path)
        first = absent(ch)
        w.waits()
        f.waits(0.1)
        a.wait_parked(2)
        assert content(a) == b"\x11" * BLOCK             # reads do without
        retry(ch, first)                                # not failed: asked again
        again = absent(ch)
        assert not set(again.values()) & set(first.values())
        w.waits()
        ch.close()                                      # the next daemon finds it so, and judges the table
        ch = a.attach(enable=False)
        again = absent(ch, F_RESENT)
        assert ch.refused(MEMBER, seq=60, member=1, a0=KM_IN_SYNC) == errno.ENODEV
        out(ch, 1, seq=61, state=KM_LEAVING)            # other nodes may still read it
        retry(ch, again)
        again = absent(ch)
        w.waits()
        out(ch, 1, seq=62)
        w.waits()
        ch.send(ENABLE)
        retry(ch, again)
        assert w.done() == 0 and f.done() == 0 and a.parked() == 0
        assert content(a, 4) == b"\x22" * BLOCK
        assert IO(a.path, 6, 0x33, flags=os.O_DSYNC).done() == 0
        ch.silent()
        ch.close()


def case_absent_back():
    """A table that has the device again: what waited is written to it too. FAIL and KILL end what waits."""
    with array() as a:
        ch = ready(a)
        raw(2, 4, b"\xff" * CHUNK)
        reload(a, without=2)
        w = IO(a.path, 4, 0x22)
        e = ch.until(ERROR, member=2, status=EC_ABSENT)
        w.waits(0.1)
        ch.send(RESOLVE, seq=e.seq, a0=RES_FAIL)
        assert w.done() == errno.EIO
        w = IO(a.path, 4, 0x33)
        ch.until(ERROR, member=2, status=EC_ABSENT)
        a.wait_parked(1)
        reload(a)
        w.waits()                                       # it may be another disk: the daemon has to look
        ch.close()
        ch = a.attach()
        assert w.done() == 0 and a.parked() == 0
        assert raw(0, 4) == raw(1, 4) == b"\x33" * CHUNK and raw(2, 4) == bytes(CHUNK)
        reload(a, without=2)
        w = IO(a.path, 4, 0x44)
        a.wait_parked(1)                                # the record of before is still open
        ch.send(KILL)
        assert w.done() == errno.EIO and a.parked() == 0
        ch.close()


@contextlib.contextmanager
def other(target):
    """An array, and a device of the size of its member 1: @target, with {disk} for the device that the member is on."""
    size = int(subprocess.run(["blockdev", "--getsz", DISKS[1]], check=True, capture_output=True).stdout)
    dm("create", "g1", "--table", f"0 {size} " + target.format(disk=DISKS[1]))
    try:
        with array() as a:
            yield a, "/dev/mapper/g1"
    finally:
        dm("remove", "--retry", "g1")


def case_other_device():
    """Another device in the place of a member may hold anything: no I/O before a daemon that has seen the table enables it."""
    with other("error") as (a, device):
        ch = ready(a)
        reload(a)
        assert content(a) == b"\x11" * BLOCK and a.parked() == 0    # the same devices
        right, a.devices[1] = a.devices[1], device
        reload(a)
        r, w = IO(a.path, 0), IO(a.path, 4, 0x22)
        a.wait_parked(2)
        ch.send(ENABLE)                             # of a daemon that has not seen it
        r.waits()
        w.waits(0.1)
        ch.close()
        ch = a.attach(enable=False)
        r.waits()
        for m in (0, 2):
            out(ch, m, seq=60 + m, state=KM_IN_SYNC)
        out(ch, 1, seq=61)
        ch.send(ENABLE)
        assert r.done() == 0 and r.area[:] == b"\x11" * BLOCK
        assert w.done() == 0
        a.devices[1] = right
        reload(a)
        r = IO(a.path, 4)
        r.waits()
        ch.close()
        ch = a.attach(enable=False)
        for m in (0, 2):
            out(ch, m, seq=60 + m, state=KM_IN_SYNC)
        ch.send(ENABLE)
        assert r.done() == 0 and r.area[:] == b"\x22" * BLOCK
        raw(1, 8, bytes(CHUNK))                     # whatever another case left there
        reload(a, without=1)                        # one that has failed anyway
        assert content(a, 4) == b"\x22" * BLOCK and IO(a.path, 8, 0x33).done() == 0
        reload(a)
        out(ch, 1, seq=70, state=KM_LEAVING)        # that was reported of the previous device at the place: others may read this one
        assert IO(a.path, 12, 0x44).done() == 0
        assert raw(1, 12) == b"\x44" * CHUNK and raw(1, 8) != b"\x33" * CHUNK
        out(ch, 1, seq=71)
        ch.silent()
        ch.close()


def case_empty_device():
    """A device without a size, which a disk that was pulled is too, is refused if the array has not had it."""
    empty = "/dev/loop7"                                # nothing is attached to it
    subprocess.run(["modprobe", "loop"], check=True)
    wait_for(lambda: os.path.exists(empty))
    with array() as a:
        ch = ready(a)
        right, a.devices[1] = a.devices[1], empty
        assert a.dm("load", a.name, "--table", a.table(), check=False).returncode != 0
        a.devices[1] = right
        reload(a)
        assert content(a) == b"\x11" * BLOCK
        ch.close()
        a.devices = [DISKS[0], empty, DISKS[2]]
    assert a.dm("create", "n1", "--table", a.table(), check=False).returncode != 0     # the array is new
    log = subprocess.run(["dmesg"], check=True, capture_output=True, text=True).stdout
    assert log.count("has no sectors") == 2, log[-2000:]


def case_error_of_the_one_before():
    """An unanswered failure of the previous device of a place is not declared again once the table names another device there."""
    with other("linear {disk} 0") as (a, device):
        ch = ready(a)
        forget(1, "fail", "write")
        w = IO(a.path, 4, 0x22)
        e = ch.until(ERROR, member=1)
        a.wait_parked(1)
        out(ch, 1)
        reload(a)                                   # the same device
        assert w.done() == 0                        # it was given back, and went again without the member
        ch.close()
        ch = a.attach(enable=False)
        again = ch.until(ERROR, member=1)
        assert again.seq == e.seq and again.flags & F_RESENT
        a.devices[1] = device
        reload(a)
        assert ch.refused(RESOLVE, seq=e.seq, a0=RES_RETRY) == errno.ENOENT
        ch.close()
        ch = a.attach(enable=False)
        ch.silent()
        for m in (0, 2):
            out(ch, m, seq=60 + m, state=KM_IN_SYNC)
        out(ch, 1, seq=61, state=KM_REBUILDING)
        ch.send(ENABLE)
        assert IO(a.path, 8, 0x33).done() == 0 and a.parked() == 0
        assert content(a, 4) == b"\x22" * BLOCK
        ch.silent()
        ch.close()


def case_one_record():
    """Many writes that fail the same way are one record, and one answer frees them."""
    with array() as a:
        ch = ready(a)
        forget(2, "fail", "write")
        writes = [IO(a.path, 4 * i, 0x22) for i in range(1, 21)]
        e = ch.until(ERROR, member=2)
        a.wait_parked(20)
        ch.silent()
        out(ch, 2)
        ch.send(RESOLVE, seq=e.seq, a0=RES_RETRY)
        assert all(w.done() == 0 for w in writes)
        ch.close()


def case_read_and_flush():
    """A flush that fails as a read did is a record of its own: a member may be kept for the one and not for the other."""
    with array() as a:
        ch = ready(a)
        assert IO(a.path, 8, 0x12, flags=os.O_DSYNC).done() == 0
        out(ch, 0)
        forget(1, "fail", "all")
        r = IO(a.path, 8)
        read = ch.until(ERROR, member=1, a0=OP_READ)
        a.wait_parked(1)
        f = Flush(a.path)
        second = ch.until(ERROR, member=1, a0=OP_FLUSH)
        assert second.status == read.status and second.seq != read.seq
        a.wait_parked(2)
        ch.send(RESOLVE, seq=read.seq, a0=RES_FAIL)
        assert r.done() == errno.EIO
        f.waits()
        ch.send(RESOLVE, seq=second.seq, a0=RES_FAIL)
        assert f.done() == errno.EIO
        ch.close()


def case_two_members():
    """The second failure is one too many: the daemon reports that."""
    with array() as a:
        ch = ready(a)
        forget(0, "fail", "write")
        forget(1, "fail", "write")
        w = IO(a.path, 4, 0x22)
        first, second = ch.until(ERROR), ch.until(ERROR)
        assert {first.member, second.member} == {0, 1} and first.seq != second.seq
        out(ch, 0)
        ch.send(RESOLVE, seq=next(e.seq for e in (first, second) if e.member == 0), a0=RES_RETRY)
        w.waits()
        ch.send(RESOLVE, seq=next(e.seq for e in (first, second) if e.member == 1), a0=RES_FAIL)
        assert w.done() == errno.EIO
        assert a.status()[0] == "DAA"
        ch.close()


def case_flush():
    """A flush that failed once is never good on that member, not even the second time."""
    with array() as a:
        ch = ready(a)
        for state, result in ((None, errno.EIO), (KM_OUT, 0)):
            forget(2, "fail", "flush")
            w = IO(a.path, 4, 0x22, flags=os.O_DSYNC)
            e = ch.until(ERROR, member=2)
            assert e.a0 == OP_FLUSH or e.a0 == OP_WRITE, e
            if e.a0 == OP_WRITE:                # the FUA write came first
                raise AssertionError(e)
            forget(2, "fail", "none")
            if state is not None:
                out(ch, 2)
            ch.send(RESOLVE, seq=e.seq, a0=RES_RETRY)
            assert w.done() == result, (state, w.result)
        ch.close()


def case_flush_of_others():
    """A member that failed a flush may have lost any earlier write: no flush ends before that is decided, whenever it began."""
    with array() as a:
        ch = ready(a)
        forget(2, "fail", "flush")
        first = Flush(a.path)
        e = ch.until(ERROR, member=2, a0=OP_FLUSH)
        forget(2, "fail", "none")
        second = Flush(a.path)
        second.waits()
        a.wait_parked(2)
        reload(a)                               # gives both back: they start over
        a.wait_parked(2)
        first.waits()
        ch.close()
        ch = a.attach(enable=False)
        assert ch.until(ERROR, member=2, a0=OP_FLUSH).seq == e.seq
        out(ch, 2)
        for m in (0, 1):
            out(ch, m, seq=60 + m, state=KM_IN_SYNC)
        ch.send(ENABLE)
        first.waits()
        ch.send(RESOLVE, seq=e.seq, a0=RES_RETRY)
        assert first.done() == 0 and second.done() == 0 and Flush(a.path).done() == 0
        ch.silent()
        ch.close()


def case_flush_under_way():
    """A flush waits for one member while another member fails a different flush: the waiting flush does not cover what that member lost."""
    with array() as a:
        ch = ready(a)
        forget(1, "hang", "on")
        first = Flush(a.path)
        first.waits()
        forget(2, "fail", "flush")
        second = Flush(a.path)
        e = ch.until(ERROR, member=2, a0=OP_FLUSH)      # at once, though member 1 has not answered
        forget(2, "fail", "none")
        forget(1, "hang", "off")
        first.waits()
        a.wait_parked(2)
        ch.send(RESOLVE, seq=e.seq, a0=RES_RETRY)       # and it is not out
        assert first.done() == errno.EIO and second.done() == errno.EIO
        assert Flush(a.path).done() == 0
        ch.close()


def case_flush_two():
    """Two members fail one flush, and the parity covers both: it waits for each."""
    with array(order=0, parity=2, blocks=4096) as a:
        ch = ready(a)
        forget(1, "fail", "flush")
        forget(2, "fail", "flush")
        f = Flush(a.path)
        errors = {e.member: e for e in (ch.until(ERROR, a0=OP_FLUSH), ch.until(ERROR, a0=OP_FLUSH))}
        assert set(errors) == {1, 2}
        for member in (2, 1):
            f.waits()
            out(ch, member, seq=60 + member)
            f.waits(0.1)
            ch.send(RESOLVE, seq=errors[member].seq, a0=RES_RETRY)
        assert f.done() == 0 and a.parked() == 0
        assert content(a) == b"\x11" * BLOCK
        ch.close()


def case_flush_kept_lost():
    """A member has kept what this flush was for, then failed another one: it may have lost it again."""
    with array(order=0, parity=2, blocks=4096) as a:
        ch = ready(a)
        for state, result in ((KM_IN_SYNC, errno.EIO), (KM_OUT, 0)):
            forget(1, "hang", "on")
            first = Flush(a.path)
            first.waits()                                   # members 0 and 2 have ended it
            forget(2, "fail", "flush")
            second = Flush(a.path)
            e2 = ch.until(ERROR, member=2, a0=OP_FLUSH)
            forget(2, "fail", "none")
            forget(1, "fail", "flush")
            forget(1, "hang", "off")
            e1 = ch.until(ERROR, member=1, a0=OP_FLUSH)
            a.wait_parked(2)
            forget(1, "fail", "none")
            out(ch, 1)
            ch.send(RESOLVE, seq=e1.seq, a0=RES_RETRY)
            first.waits()
            second.waits(0.1)
            out(ch, 2, seq=51, state=state)
            first.waits(0.1)
            ch.send(RESOLVE, seq=e2.seq, a0=RES_RETRY)
            assert first.done() == result and second.done() == result, (state, first.result, second.result)
            assert a.parked() == 0
            if state == KM_IN_SYNC:
                out(ch, 1, seq=52, state=KM_IN_SYNC)
        assert content(a) == b"\x11" * BLOCK
        ch.close()


def case_flush_kept_lost_late():
    """The same, while the flush waits for a member that joined after the other one had ended it."""
    with array(order=0, parity=2, blocks=4096) as a:
        ch = ready(a)
        out(ch, 0)
        forget(1, "fail", "flush")
        first = Flush(a.path)                               # member 2 has ended it
        e1 = ch.until(ERROR, member=1, a0=OP_FLUSH)
        a.wait_parked(1)
        forget(0, "hang", "on")
        out(ch, 1, seq=51)
        out(ch, 0, seq=52, state=KM_REBUILDING)
        ch.send(RESOLVE, seq=e1.seq, a0=RES_RETRY)
        first.waits()
        forget(2, "fail", "flush")
        second = Flush(a.path)
        e2 = ch.until(ERROR, member=2, a0=OP_FLUSH)
        forget(2, "fail", "none")
        forget(0, "hang", "off")
        first.waits()
        a.wait_parked(2)
        ch.send(RESOLVE, seq=e2.seq, a0=RES_RETRY)           # and it is not out
        assert first.done() == errno.EIO and second.done() == errno.EIO and a.parked() == 0
        ch.close()


def case_read_error():
    """Reconstructed at once; the daemon is told, and nothing waits for it.

    A plain I/O error is treated as a bad sector while the others have the data.
    """
    with array() as a:
        ch = ready(a)
        forget(1, "fail", "read")
        assert content(a) == b"\x11" * BLOCK
        e = ch.until(ERROR, member=1)
        assert (e.status, e.a0, e.start, e.count) == (EC_MEDIUM, OP_READ, 0, 1)
        assert a.parked() == 0
        assert content(a) == b"\x11" * BLOCK
        ch.silent()
        ch.send(RESOLVE, seq=e.seq, a0=RES_RETRY)
        assert content(a) == b"\x11" * BLOCK
        assert ch.until(ERROR, member=1).seq != e.seq
        ch.close()


def case_bad_sector():
    """Reconstructed at once, whatever the disk reports; the daemon is told, and a write of the sector repairs it."""
    with array() as a:
        ch = ready(a)
        assert IO(a.path, 1, 0x12, flags=os.O_DSYNC).done() == 0    # bad sectors are seen by what was flushed only
        for kind in ((), ("ioerr",)):
            forget(1, "bad", "add", DATA // 512, 1, *kind)
            assert content(a) == b"\x11" * BLOCK
            e = ch.until(ERROR, member=1)
            assert (e.status, e.a0, e.start, e.count) == (EC_MEDIUM, OP_READ, 0, 1)
            assert a.parked() == 0
            ch.send(RESOLVE, seq=e.seq, a0=RES_RETRY)
            chunk = bytes(x ^ y for x, y in zip(raw(0, 0), raw(2, 0)))      # as the daemon does it, from the others
            raw(1, 0, chunk)
            flush(1)
            assert raw(1, 0) == chunk and content(a) == b"\x11" * BLOCK
            ch.silent()
        ch.close()


def case_read_lost():
    """With no redundancy left a read waits for the daemon; a bad sector does not."""
    with array() as a:
        ch = ready(a)
        assert IO(a.path, 1, 0x12, flags=os.O_DSYNC).done() == 0    # bad sectors are seen by what was flushed only
        out(ch, 0)
        forget(1, "bad", "add", DATA // 512, 1)
        r = IO(a.path, 0)
        assert r.done() in (errno.EIO, errno.ENODATA)
        e = ch.until(ERROR, member=1)
        assert (e.status, e.a0) == (EC_MEDIUM, OP_READ)
        ch.send(RESOLVE, seq=e.seq, a0=RES_RETRY)
        forget(1, "bad", "clear")

        forget(1, "fail", "read")
        r = IO(a.path, 0)
        e = ch.until(ERROR, member=1)
        r.waits()
        forget(1, "fail", "none")
        ch.send(RESOLVE, seq=e.seq, a0=RES_RETRY)
        assert r.done() == 0 and r.area[:] == b"\x11" * BLOCK

        forget(1, "fail", "read")
        r = IO(a.path, 0)
        e = ch.until(ERROR, member=1)
        ch.send(RESOLVE, seq=e.seq, a0=RES_FAIL)
        assert r.done() == errno.EIO
        ch.close()


def case_member_joins():
    """A write that waits is written to a member that came meanwhile, and APPLIED does not wait for it."""
    with array() as a:
        ch = ready(a)
        out(ch, 2)
        raw(2, 4, b"\xff" * CHUNK)
        forget(1, "fail", "write")
        w = IO(a.path, 4, 0x22)
        e = ch.until(ERROR, member=1)
        out(ch, 2, state=KM_REBUILDING, seq=51)
        w.waits(0.1)
        forget(1, "fail", "none")
        ch.send(RESOLVE, seq=e.seq, a0=RES_RETRY)
        assert w.done() == 0
        assert raw(2, 4) == bytes(CHUNK)
        ch.close()


def case_applied_waits():
    """APPLIED means that no I/O is left that did not know; what hangs on the member counts."""
    with array() as a:
        ch = ready(a)
        forget(1, "hang", "on")
        w = IO(a.path, 4, 0x22)
        w.waits()
        ch.send(MEMBER, seq=60, member=1, a0=KM_OUT)
        ch.send(MEMBER, seq=61, member=2, a0=KM_IN_SYNC)
        ch.silent(1)
        assert IO(a.path, 8, 0x33).done() == 0      # what comes later obeys at once
        assert ch.refused(MEMBER, seq=62, member=1, a0=KM_OUT) == errno.EBUSY
        forget(1, "hang", "off")
        assert w.done() == 0
        assert {ch.until(APPLIED).seq, ch.until(APPLIED).seq} == {60, 61}
        ch.close()


def case_rebind():
    """A new daemon is told of the open errors, and its answers count as well."""
    with array() as a:
        ch = ready(a)
        forget(1, "fail", "write")
        w = IO(a.path, 4, 0x22)
        e = ch.until(ERROR, member=1)
        ch.close()
        ch = a.attach(enable=False)
        again = ch.until(ERROR, member=1)
        assert again.seq == e.seq and again.flags & F_RESENT
        w.waits(0.1)
        out(ch, 1)
        ch.send(RESOLVE, seq=e.seq, a0=RES_RETRY)
        assert w.done() == 0
        forget(1, "fail", "none")
        a.enable(ch)
        ch.close()


def case_suspend():
    """A noflush suspend takes back what waits for an answer, and it is written after the resume."""
    with array() as a:
        ch = ready(a)
        forget(1, "fail", "write")
        w = IO(a.path, 4, 0x22)
        ch.until(ERROR, member=1)
        a.wait_parked(1)
        a.dm("suspend", "--noflush", "--nolockfs", a.name, timeout=10)
        assert a.parked() == 0
        w.waits(0.1)
        forget(1, "fail", "none")
        a.dm("resume", a.name)
        assert w.done() == 0
        assert raw(1, 4) == b"\x22" * CHUNK
        ch.send(REAP, seq=9, count=99)
        ch.until(REAPED, seq=9)
        ch.send(REAP, seq=10, count=99)
        assert ch.until(CLOSED).status != 0     # the first try left the stripe torn
        ch.close()


def case_kill():
    with array() as a:
        ch = ready(a)
        forget(1, "fail", "write")
        w = IO(a.path, 4, 0x22)
        ch.until(ERROR, member=1)
        a.wait_parked(1)
        ch.send(KILL)
        assert w.done() == errno.EIO and a.parked() == 0
        ch.close()


def case_mismatch():
    """verify_reads: the daemon decides, where parity has to be right."""
    with array(options="verify_reads") as a:
        ch = ready(a)
        good = raw(2, 0)
        raw(2, 0, b"\x01" * CHUNK)
        assert content(a) == b"\x11" * BLOCK    # the region is not known to be clean
        ch.silent(0.2)
        ch.send(BITS, start=0, count=1, a0=RB_CLEAN)
        for action, result in ((RES_PASS, 0), (RES_FAIL, errno.EIO), (RES_RETRY, 0)):
            r = IO(a.path, 0)
            m = ch.until(MISMATCH)
            assert (m.start, m.count, m.member) == (0, 1, NO_MEMBER), m
            r.waits(0.1)
            a.wait_parked(1)
            if action == RES_RETRY:             # the daemon repairs under EX first
                ch.send(DRAIN, seq=70, start=0, count=1)
                ch.until(DRAINED, seq=70)
                raw(2, 0, good)
                ch.send(RELEASE, seq=70)
            ch.send(RESOLVE, seq=m.seq, a0=action)
            assert r.done() == result
            assert ch.refused(RESOLVE, seq=m.seq, a0=action) == errno.ENOENT
        assert content(a) == b"\x11" * BLOCK
        ch.silent(0.2)
        raw(2, 0, b"\x01" * CHUNK)
        r = IO(a.path, 0)
        m = ch.until(MISMATCH)
        ch.close()
        ch = a.attach(enable=False)
        assert ch.until(MISMATCH).seq == m.seq
        ch.send(RESOLVE, seq=m.seq, a0=RES_PASS)
        assert r.done() == 0
        a.enable(ch)
        ch.close()


def case_suspect():
    """What may reconstruct to garbage is not read, if the operator wants it so."""
    with array() as a:
        ch = ready(a)
        ch.send(BITS, start=0, count=1, a0=RB_SUSPECT_ERROR)
        assert content(a) == b"\x11" * BLOCK
        out(ch, 0)
        assert IO(a.path, 0).done() == errno.EIO
        ch.send(BITS, start=0, count=1, a0=0)
        assert content(a) == b"\x11" * BLOCK
        ch.close()


def case_rebuilding():
    """A member that is being rebuilt is read below its cursor only, and always written."""
    with array() as a:
        ch = ready(a)
        out(ch, 0, state=KM_REBUILDING, cursor=4)
        raw(0, 0, b"\x99" * CHUNK)
        raw(0, 4, b"\x99" * CHUNK)
        assert content(a, 0) == b"\x99" * CHUNK + b"\x11" * CHUNK
        assert content(a, 4)[:CHUNK] != b"\x99" * CHUNK
        assert IO(a.path, 4, 0x22).done() == 0
        assert raw(0, 4) == b"\x22" * CHUNK
        assert a.status()[0] == "aAA"
        ch.close()


def case_load():
    """Members fail and come back under a load that verifies; it sees nothing."""
    with array(blocks=2048) as a:
        ch = a.attach()
        server = Server(a, ch)
        job = fio(a, 40)
        seq, rounds = 100, 0
        for member in (2, 0, 1, 2):
            time.sleep(1)
            if job.poll() is not None:
                break
            rounds += 1
            forget(member, "fail", "write")
            e = server.answer(ERROR, member=member)
            seq += 1
            ch.send(MEMBER, seq=seq, member=member, a0=KM_OUT)
            server.answer(APPLIED, seq=seq)
            ch.send(RESOLVE, seq=e.seq, a0=RES_RETRY)
            time.sleep(0.5)
            forget(member, "fail", "none")
            # as a rebuild would do it, but all at once: everything under EX, parity and data by hand
            for unit in range(a.blocks // 256):
                seq += 1
                ch.send(DRAIN, seq=seq, start=unit * 256, count=256)
                server.answer(DRAINED, seq=seq)
                rebuild(member, unit)
                # the unit is right from here on, and stays right: writes reach the member
                if unit == 0:
                    seq += 1
                    ch.send(MEMBER, seq=seq, member=member, a0=KM_REBUILDING, start=0)
                    server.answer(APPLIED, seq=seq)
                    rebuild(member, unit)
                ch.send(RELEASE, seq=seq if unit else seq - 1)
            seq += 1
            ch.send(MEMBER, seq=seq, member=member, a0=KM_IN_SYNC)
            server.answer(APPLIED, seq=seq)
        fio_ends(job, 90)
        server.stop()
        assert rounds >= 2 and a.parked() == 0
        ch.close()


def rebuild(member, unit):
    """Order 1 and P: each chunk is the XOR of the two others."""
    size, at = 256 * CHUNK, DATA + unit * 256 * CHUNK
    pieces = []
    for m in range(3):
        if m != member:
            fd = os.open(f"/dev/mapper/f{m}", os.O_RDONLY | os.O_DIRECT)
            area = mmap.mmap(-1, size)
            assert os.preadv(fd, [area], at) == size
            os.close(fd)
            pieces.append(int.from_bytes(area[:], "little"))
    area = mmap.mmap(-1, size)
    area[:] = (pieces[0] ^ pieces[1]).to_bytes(size, "little")
    fd = os.open(f"/dev/mapper/f{member}", os.O_WRONLY | os.O_DIRECT)
    assert os.pwritev(fd, [area], at) == size
    os.close(fd)


if __name__ == "__main__":
    sys.exit(globals()["case_" + sys.argv[1]]())
