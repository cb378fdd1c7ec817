# SPDX-License-Identifier: GPL-2.0-or-later
"""Every allocation of the kernel module that may fail, fails; every member operation fails in every way, or ends late.

Runs in a guest like kraces_cases.py, whose head lists what has to be there. After each fault the data is read back and the parity is
compared on the members themselves.
"""
import errno
import os
import subprocess
import sys

from kchan import (APPLIED, BLOCK, DRAIN, DRAINED, ENABLE, ERROR, GRANT, IO, KM_IN_SYNC, KM_OUT, KM_REBUILDING, MEMBER, RELEASE, RESOLVE, RES_RETRY,
                   SHADOW, Array, Channel, Server, code, fio, fio_ends, wait_for)
from kforget import CHUNK, DATA, EC_IO, EC_MEDIUM, Flush, array, content, dm, forget, out, raw, ready, rebuild
from kpoint import counts, point

EC_FENCED, EC_NOSPC, EC_TIMEOUT, EC_INVAL = 3, 4, 5, 6
OP_READ, OP_WRITE, OP_FLUSH, OP_ZEROES = range(4)
UNIT = 256
MOST = 200          # no call makes this many allocations


def parity_right(blocks=UNIT):
    """Order 1 and P: the three chunks of a block are 0 together, wherever they lie."""
    areas = []
    for m in range(3):
        fd = os.open(f"/dev/mapper/f{m}", os.O_RDONLY)
        areas.append(int.from_bytes(os.pread(fd, blocks * CHUNK, DATA), "little"))
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)
    return areas[0] ^ areas[1] ^ areas[2] == 0


def each_allocation(attempt, undo=lambda: None):
    """
    Calls @attempt, which is true if it succeeded, with the first allocation failing, the second, ... until none is left to fail.
    Returns how many there are.
    """
    for skip in range(MOST):
        point("alloc", "off")
        point("alloc", "fail", 1, skip)
        done = attempt()
        hurt = counts("alloc")[1]
        point("alloc", "off")
        if not hurt:
            assert done, "it fails without an allocation that does"
            return skip
        assert not done, f"it succeeded although allocation {skip} failed"
        undo()
    raise AssertionError("no end of allocations")


def case_alloc_create():
    """A table that is loaded for a new array: an error, nothing left behind, and it works afterwards."""
    members = ["/dev/mapper/f0", "/dev/mapper/f1", "/dev/mapper/f2"]
    with array() as a:                                  # the members' dm-forget
        a.dm("remove", a.name)
        b = Array.__new__(Array)
        b.__dict__.update(a.__dict__)
        for options in ("", "verify_reads"):
            dm("create", b.name, "--notable")
            number = each_allocation(lambda o=options: b.dm("load", b.name, "--table", b.table(o), check=False).returncode == 0)
            assert number >= 20, number
            dm("remove", b.name)
        assert b.devices == members
        dm("create", a.name, "--table", a.table())
        ch = ready(a)
        assert content(a) == b"\x11" * BLOCK and parity_right()
        ch.close()


def case_alloc_reload():
    """A table that is loaded again, and one that is longer: running I/O continues, whatever fails."""
    with array(blocks=4096) as a:
        ch = ready(a)
        for blocks in (4096, 8192):
            a.blocks = blocks
            assert each_allocation(lambda: a.dm("load", a.name, "--table", a.table(), check=False).returncode == 0,
                                   lambda: content(a) == b"\x11" * BLOCK)
            a.dm("suspend", "--noflush", "--nolockfs", a.name)
            a.dm("resume", a.name)
            ch.close()
            ch = a.attach()
            assert content(a) == b"\x11" * BLOCK
        ch.send(GRANT, start=0, count=32)
        assert IO(a.path, 8000, 0x33).done() == 0 and content(a, 8000) == b"\x33" * BLOCK
        assert parity_right()
        ch.close()


def case_alloc_daemon():
    """A descriptor that cannot be opened, an EX range for which there is no memory: reported, and nothing is changed."""
    with array() as a:
        ch = ready(a)

        def opened():
            r = []
            error = code(lambda: r.append(Channel()))
            assert error in (0, errno.ENOMEM), error
            for c in r:
                c.close()
            return not error

        assert each_allocation(opened) == 1
        errors = set()
        assert each_allocation(lambda: not (errors.add(e := ch.refused(DRAIN, seq=80, start=0, count=1024)), e)[1]) == 1
        assert errors == {0, errno.ENOMEM}, errors
        ch.until(DRAINED, seq=80)
        ch.send(RELEASE, seq=80)
        assert IO(a.path, 4, 0x22).done() == 0 and content(a, 4) == b"\x22" * BLOCK and parity_right()
        ch.close()


def case_pages():
    """No page is to be had without waiting: I/O runs on its reserves, slowly, and ends."""
    with array(blocks=2048) as a:
        ch = a.attach()
        server = Server(a, ch)
        for fails in (("fail",), ("fail", 1 << 20, 50)):
            point("page", "off")
            point("page", *fails)
            job = fio(a, 4, jobs=2, depth=4)
            fio_ends(job, 90)
            assert counts("page")[1] > 0
        point("page", "off")
        server.stop()
        assert parity_right(a.blocks)
        ch.close()


# what a status of a member's operation means: its class, or None for "try again"
STATUSES = {"resource": None, "again": None, "dev_resource": None, "fenced": EC_FENCED, "ioerr": EC_IO, "medium": EC_IO, "target": EC_IO, "nospc": EC_NOSPC, "timeout": EC_TIMEOUT,
            "protection": EC_IO, "transport": EC_IO, "notsupp": EC_INVAL}
CLASS_OF_READ = {"medium": EC_MEDIUM, "protection": EC_MEDIUM, "ioerr": EC_MEDIUM, "target": EC_MEDIUM}   # while the others have it
ZEROES_WRITTEN = ("notsupp", "target")


class Zeroes(IO):
    """Write-zeroes of a block."""

    def sleeps(self):
        return self.calling                 # it is another process that waits in the kernel

    def run(self):
        self.calling = True
        self.result = subprocess.run(["blkdiscard", "-z", "-o", str(self.block * BLOCK), "-l", str(self.blocks * BLOCK), self.path],
                                     check=False, capture_output=True).returncode


def back(a, ch, member):
    """A failed member is rebuilt, as a daemon does it, and is in sync again."""
    ch.send(DRAIN, seq=90, start=0, count=UNIT)
    ch.until(DRAINED, seq=90)
    rebuild(member, 0)
    ch.send(RELEASE, seq=90)
    out(ch, member, seq=91, state=KM_IN_SYNC)
    assert parity_right(), f"member {member} is not right after its rebuild"


def fails_once(a, ch, name, status, role, start, right, again=back, whole=parity_right):
    """One operation of a role ends with @status; the daemon does what it has to; the I/O ends well and the data is right."""
    point(name, "off")
    point(name, "status", status, 1, 0, role)
    io = start()
    op = {"member_read": OP_READ, "member_write": OP_WRITE, "member_flush": OP_FLUSH, "member_zeroes": OP_ZEROES}[name]
    want = CLASS_OF_READ.get(status, STATUSES[status]) if op == OP_READ else STATUSES[status]
    if op == OP_ZEROES and status in ZEROES_WRITTEN:
        want = None
    member = None
    if want is not None:
        e = ch.until(ERROR)
        assert (e.status, e.a0) == (want, op), (name, status, e)
        member = e.member
        if op != OP_READ:
            io.waits(0.05)
            out(ch, member, seq=70)
        ch.send(RESOLVE, seq=e.seq, a0=RES_RETRY)
    assert io.done(20) == 0, (name, status, role, io.result)
    assert counts(name)[1] == 1, f"{name} {status} {role}: nothing failed"
    point(name, "off")
    right()
    if member is not None and op != OP_READ:
        again(a, ch, member)
    assert whole(), (name, status, role)
    ch.silent(0.02)


def each_status(a, ch, name, start, right, roles=range(3), **how):
    for status in STATUSES:
        for role in roles:
            fails_once(a, ch, name, status, role, lambda s=status, r=role: start(s, r), right, **how)


def case_member_write():
    with array() as a:
        ch = ready(a)
        last = [0]

        def start(status, role):
            last[0] = last[0] % 250 + 1
            return IO(a.path, 0, last[0], blocks=16)

        def right():
            r = IO(a.path, 0, blocks=16)
            assert r.done() == 0 and r.area[:] == bytes([last[0]]) * (16 * BLOCK)

        each_status(a, ch, "member_write", start, right)
        ch.close()


def each_read(options="", order=1, parity=1, roles=range(2), whole=parity_right):
    with array(options=options, order=order, parity=parity, blocks=8192 if order else 4096) as a:
        ch = ready(a)
        assert IO(a.path, 0, 0x22, blocks=16).done() == 0
        ios = []

        def start(status, role):
            ios.append(IO(a.path, 0, blocks=16))
            return ios[-1]

        def right():
            assert ios[-1].area[:] == b"\x22" * (16 * BLOCK)

        each_status(a, ch, "member_read", start, right, roles, whole=whole)
        ch.close()


def copies_right():
    """Of a mirror of three, block 0 to 15."""
    return all(raw(m, block) == b"\x22" * CHUNK for m in range(3) for block in range(32))     # chunks are twice as large there


def case_member_read():
    each_read()                                         # of a healthy read the parity is no part


def case_member_read_checked():
    """With verify_reads the parity is read too; its failure is no mismatch and no error of the read."""
    each_read("verify_reads", roles=range(3))


def case_member_read_mirror():
    """Straight to the pages of the caller, and through buffers where all copies are compared."""
    each_read(order=0, parity=2, roles=(0,), whole=copies_right)
    each_read("verify_reads", order=0, parity=2, whole=copies_right)


def case_member_flush():
    with array() as a:
        ch = ready(a)

        def right():
            assert content(a) == b"\x11" * BLOCK

        each_status(a, ch, "member_flush", lambda s, r: Flush(a.path), right)
        ch.close()


def case_member_zeroes():
    with array() as a:
        ch = ready(a)

        def start(status, role):
            assert IO(a.path, 0, 0x33, blocks=16).done() == 0
            return Zeroes(a.path, 0, blocks=16)

        def right():
            r = IO(a.path, 0, blocks=16)
            assert r.done() == 0 and not any(r.area[:])

        each_status(a, ch, "member_zeroes", start, right)
        ch.close()


def case_member_shadow():
    """The disk that replaces a member fails a write, a flush or zeroes: it alone fails, and the I/O succeeds."""
    dm("create", "s0", "--table", f"0 {24 * 2048} linear /dev/vdd 0")
    try:
        with array(options="replace 0 /dev/mapper/s0") as a:
            ch = a.attach(enable=False)
            for m in range(3):
                out(ch, m, seq=71 + m, state=KM_IN_SYNC)

            def rebuilds(a, ch, member=SHADOW):
                assert member == SHADOW, member
                out(ch, SHADOW, seq=91, state=KM_REBUILDING, cursor=0)

            rebuilds(a, ch)
            ch.send(ENABLE)
            ch.send(GRANT, start=0, count=1)
            last = [0]

            def start(status, role):
                last[0] = last[0] % 250 + 1
                return IO(a.path, 0, last[0], blocks=16)

            def zeroes(status, role):
                assert start(status, role).done() == 0
                return Zeroes(a.path, 0, blocks=16)

            def holds(byte):
                r = IO(a.path, 0, blocks=16)
                assert r.done() == 0 and r.area[:] == bytes([byte]) * (16 * BLOCK)

            how = {"roles": (3,), "again": rebuilds}
            each_status(a, ch, "member_write", start, lambda: holds(last[0]), **how)
            each_status(a, ch, "member_flush", lambda s, r: Flush(a.path), lambda: holds(last[0]), **how)
            each_status(a, ch, "member_zeroes", zeroes, lambda: holds(0), **how)
            ch.close()
    finally:
        dm("remove", "--retry", "s0")


def case_two_fail():
    """Reads that reconstruct, and meet a second member that fails: an error or right data, never wrong data."""
    with array() as a:
        ch = ready(a)
        assert IO(a.path, 0, 0x22, blocks=16).done() == 0
        for first in range(3):
            out(ch, first, seq=60)
            for status in ("resource", "medium"):
                for role in range(3):
                    point("member_read", "off")
                    point("member_read", "status", status, 1, 0, role)
                    r = IO(a.path, 0, blocks=16)
                    result = r.done(20)
                    hurt = counts("member_read")[1]
                    assert result == (0 if status == "resource" or not hurt else errno.ENODATA), (first, status, role, result)
                    assert result or r.area[:] == b"\x22" * (16 * BLOCK)
                    if status == "medium" and hurt:
                        ch.send(RESOLVE, seq=ch.until(ERROR).seq, a0=RES_RETRY)
                    point("member_read", "off")
            back(a, ch, first)
        ch.close()


def case_late():
    """Each operation of each member ends late: nothing is over before, and all is right afterwards."""
    with array() as a:
        ch = ready(a)
        for member in range(3):
            ios = {"write": IO, "flush": None, "zeroes": None, "read": None}
            for name in ios:
                assert IO(a.path, 0, 0x44, blocks=3).done() == 0
                forget(member, "hang", "on")
                io = {"write": lambda: IO(a.path, 0, 0x55, blocks=3), "flush": lambda: Flush(a.path),
                      "zeroes": lambda: Zeroes(a.path, 0, blocks=3), "read": lambda: IO(a.path, 0, blocks=512)}[name]()
                io.waits(0.5)
                forget(member, "hang", "off")
                assert io.done() == 0, (member, name)
                r = IO(a.path, 0, blocks=3)
                want = {"write": b"\x55", "zeroes": b"\x00"}.get(name, b"\x44")
                assert r.done() == 0 and r.area[:] == want * (3 * BLOCK), (member, name)
                assert parity_right()
        ch.close()


def case_late_load():
    """The same under a load that verifies, members that overtake each other, and states that change meanwhile."""
    with array(blocks=2048) as a:
        ch = a.attach()
        server = Server(a, ch)
        for m in range(3):
            forget(m, "delay", 2, 20 * m)
        job = fio(a, 10, jobs=2, depth=8)
        seq = 100
        while job.poll() is None:
            for state, cursor in ((KM_REBUILDING, 0), (KM_REBUILDING, 777), (KM_IN_SYNC, 0)):
                seq += 1
                ch.send(MEMBER, seq=seq, member=seq % 3, a0=state, start=cursor)
                server.answer(APPLIED, seq=seq)
                if state == KM_REBUILDING:              # it is written all the time, so it is right all the time
                    seq += 1
                    ch.send(MEMBER, seq=seq, member=(seq - 1) % 3, a0=KM_IN_SYNC)
                    server.answer(APPLIED, seq=seq)
        fio_ends(job, 60)
        for m in range(3):
            forget(m, "delay", 0)
        server.stop()
        assert parity_right(a.blocks)
        ch.close()


if __name__ == "__main__":
    sys.exit(globals()["case_" + sys.argv[1]]())
