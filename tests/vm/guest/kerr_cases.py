#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of members that fail, leave and come back, with kchan.py as the daemon; run in a guest.

usage: kerr_cases.py CASE      (dm-forget is loaded; the members are /dev/vda to /dev/vdc)
"""

import errno
import os
import subprocess
import sys

from kchan import (APPLIED, BLOCK, CLOSED, ENABLE, ERROR, F_RESENT, KILL, KM_IN_SYNC, KM_LEAVING, KM_OUT, KM_REBUILDING,
                   MEMBER, REAP, REAPED, RESOLVE, RES_FAIL, RES_PASS, RES_RETRY, IO, wait_for)
from kforget import (CHUNK, DISKS, EC_ABSENT, EC_IO, OP_FLUSH, OP_READ, OP_WRITE, Flush, absent, array, content, forget,
                     other, out, raw, ready, reload, retry)


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


if __name__ == "__main__":
    sys.exit(globals()["case_" + sys.argv[1]]())
