#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of tests/vm/test_channel.py; each runs in a guest:  kchan_cases.py CASE [ARGUMENT]

A case makes its arrays and leaves none. It ends with exit code 0 or with a traceback.
"""

import contextlib
import ctypes
import errno
import os
import random
import select
import signal
import struct
import subprocess
import sys
import threading
import time

import kchan
from kchan import (APPEARED, APPLIED, BITS, BLOCK, CLOSED, CONFIG, DRAIN, DRAINED, ENABLE, ERROR, F_AHEAD, F_READS,
                   F_RESENT, F_REVOKE, FREEZE, GRANT, HELD, IO, KC_AHEAD, KC_TIMEOUT_MS, KILL, KM_IN_SYNC, KM_OUT,
                   KM_REBUILDING, LIST_END, LOCK, MEMBER, NO_MEMBER, PING, PONG, REAP, REAPED, REFUSE, RELEASE,
                   REMOVED, RESOLVE, RESUMED, STATUS, SUSPEND, THAW, Array, Channel, Daemon, Server, code, fio,
                   fio_ends, wait_for)

RB = 256        # blocks in a region of the usual array


@contextlib.contextmanager
def array(**kwargs):
    """An array that is gone afterwards, whatever waits in it."""
    a = Array(**kwargs)
    try:
        yield a
    finally:
        # force ends what waits; whoever waited may take a moment to close the device
        wait_for(lambda: not (a.dm("remove", "--force", a.name, check=False), os.path.exists(a.path))[1], 30)


def grant(ch, r):
    ch.send(GRANT, seq=r.seq, start=r.start, count=r.count)


def written(a, ch, region, data=0x11):
    """Writes the first block of a region that is not granted yet, granting it."""
    w = IO(a.path, region * RB, data)
    r = ch.until(LOCK, start=region)
    grant(ch, r)
    assert w.done() == 0
    return r


# ---- control descriptor, bind ---------------------------------------------------------------

def case_control():
    """List on open, then what appears, resumes and goes."""
    with array() as a:
        ch = Channel()
        assert ch.poll(1) & select.POLLIN
        u = struct.unpack("=QQ", a.uuid)
        first = ch.expect(APPEARED, a0=u[0], a1=u[1])
        assert first.start and first.member == NO_MEMBER
        ch.expect(RESUMED, a0=u[0], a1=u[1], start=first.start)
        ch.expect(LIST_END)
        ch.silent()
        assert code(os.write, ch.fd, kchan.rec(PING, seq=1)) == errno.ENOTCONN
        with array(devices=["/dev/vdd", "/dev/vde", "-"], resume=False) as b:
            v = struct.unpack("=QQ", b.uuid)
            second = ch.expect(APPEARED, a0=v[0], a1=v[1])
            assert second.start > first.start
            ch.silent()
            b.dm("resume", b.name)
            ch.expect(RESUMED, a0=v[0], a1=v[1], start=second.start)
        ch.until(REMOVED, a0=v[0], a1=v[1], start=second.start)
        with array(devices=["/dev/vdd", "/dev/vde", "-"], options="nosync"):
            ch.silent()
        ch.close()


def case_control_overrun():
    """Who does not read gets the whole list again; nothing that exists is missing in it."""
    with array() as a:
        ch = Channel()
        ch.expect(APPEARED)
        ch.expect(RESUMED)
        ch.expect(LIST_END)
        for _ in range(35):
            Array.dm("suspend", a.name)
            Array.dm("resume", a.name)
        with array(devices=["/dev/vdd", "/dev/vde", "-"], resume=False) as b:
            for _ in range(30):
                Array.dm("suspend", a.name)
                Array.dm("resume", a.name)
            seen = set()
            while True:
                r = ch.next(1)
                if r.type == LIST_END:
                    break
                assert r.type in (APPEARED, RESUMED), r
                if r.type == APPEARED:
                    seen.add(struct.pack("=QQ", r.a0, r.a1))
            assert seen == {a.uuid, b.uuid}, seen
        ch.close()


def case_bind():
    """What BIND answers and refuses."""
    with array() as a:
        ch = Channel()
        assert ch.bind_abi(a.uuid) == (errno.EPROTO, 1)
        assert code(ch.bind, a.uuid, 1, flags=1) == errno.EINVAL
        assert code(ch.bind, a.uuid, 1, timeout_ms=999) == errno.EINVAL
        assert code(ch.bind, a.uuid, 1, timeout_ms=600001) == errno.EINVAL
        assert code(ch.bind, bytes(16), 1) == errno.ENOENT
        assert code(ch.bind, a.uuid, 0) == errno.ESTALE
        b = ch.bind(a.uuid, 7)
        assert (b.order, b.parity, b.layout, b.region_sectors, b.members) == (1, 1, 1, 2048, 3)
        assert (b.data_offset, b.sectors, b.epoch, b.uuid) == (2048, a.blocks * 8, 7, a.uuid)
        for m, device in enumerate(a.devices):
            st = os.stat(device)
            assert (b.majors[m], b.minors[m]) == (os.major(st.st_rdev), os.minor(st.st_rdev))
        assert b.majors[3:] == b.minors[3:] == (0,) * 7
        st = os.stat(a.path)
        assert (b.dm_major, b.dm_minor) == (os.major(st.st_rdev), os.minor(st.st_rdev))
        assert ch.held() == set()
        assert code(ch.bind, a.uuid, 8) == errno.EBUSY

        other = Channel()
        assert code(other.bind, a.uuid, 7) == errno.ESTALE
        again = other.bind(a.uuid, 8)
        assert again.cookie == b.cookie
        assert ch.poll(1) & (select.POLLERR | select.POLLHUP) == select.POLLERR | select.POLLHUP
        assert code(os.read, ch.fd, 64) == errno.ESTALE
        assert ch.refused(PING, seq=1) == errno.ESTALE
        assert code(ch.bind, a.uuid, 9) == errno.ESTALE
        assert code(os.read, other.fd, 63) == errno.EINVAL
        ch.close()
        other.close()
        cookie = b.cookie
    with array(uuid=a.uuid) as a:
        a.attach()
        assert a.bound.cookie > cookie
    with array(resume=False) as a:
        ch = Channel()
        assert code(ch.bind, a.uuid, 1) == errno.EAGAIN
        a.dm("resume", a.name)
        ch.bind(a.uuid, 1)
        ch.close()
    with array(options="nosync") as a:
        assert code(Channel().bind, a.uuid, 1) == errno.EOPNOTSUPP
    ch = Channel()
    assert code(kchan.fcntl.ioctl, ch.fd, 0x1234, 0) == errno.ENOTTY
    ch.close()


def case_not_root():
    """Nobody without CAP_SYS_ADMIN opens the device, whatever its mode."""
    mode = os.stat(kchan.DEV).st_mode & 0o777
    os.chmod(kchan.DEV, 0o666)
    try:
        done = subprocess.run([sys.executable, "-c", "import os; os.setuid(65534)\ntry: os.open('/dev/ddraid', 2)\n"
                               "except PermissionError as e: print(e.errno)"], capture_output=True, text=True,
                              check=True)
    finally:
        os.chmod(kchan.DEV, mode)
    assert done.stdout.strip() == str(errno.EPERM), done
    assert mode == 0o600


# ---- the gate ---------------------------------------------------------------------------------

def case_enable():
    """Nothing runs before ENABLE; reads go on without a daemon after it."""
    with array() as a:
        r = IO(a.path, 0)
        r.waits()
        ch = a.attach(enable=False)
        r.waits(0.2)
        assert a.parked() == 1
        a.enable(ch)
        assert r.done() == 0
        assert a.status()[7] == "attached"
        ch.close()
        assert a.status()[7] == "detached"
        assert IO(a.path, 5).done() == 0


def case_freeze():
    with array() as a:
        ch = a.attach()
        written(a, ch, 0)
        ch.send(FREEZE)
        w = IO(a.path, 1, 1)
        w.waits()
        assert IO(a.path, 1).done() == 0
        ch.send(FREEZE, flags=F_READS)
        r = IO(a.path, 1)
        r.waits()
        ch.send(FREEZE)
        assert r.done() == 0
        w.waits()
        ch.send(THAW)
        assert w.done() == 0
        ch.close()


def case_kill():
    """All that waits, anywhere, fails, and all that comes."""
    with array() as a:
        ch = a.attach()
        written(a, ch, 0)
        ch.send(DRAIN, seq=5, start=0, count=1)
        ch.until(DRAINED, seq=5)
        waiting = [IO(a.path, 0, 1), IO(a.path, 3 * RB, 1)]     # behind EX, for a grant
        ch.until(LOCK, start=3)
        ch.send(FREEZE, flags=F_READS)
        waiting += [IO(a.path, 9, 1), IO(a.path, 9)]            # at the gate
        for w in waiting:
            w.waits(0.1)
        ch.send(KILL)
        for w in waiting:
            assert w.done() == errno.EIO
        assert IO(a.path, 1, 1).done() == IO(a.path, 1).done() == errno.EIO
        ch.send(THAW)
        assert IO(a.path, 1, 1).done() == errno.EIO
        assert a.parked() == 0
        ch.close()


def case_fail_if_no_daemon():
    with array(options="fail_if_no_daemon") as a:
        assert IO(a.path, 0).done() == IO(a.path, 0, 1).done() == errno.EIO
        ch = a.attach(enable=False)
        r = IO(a.path, 0)
        r.waits()
        ch.close()
        assert r.done() == errno.EIO
        ch = a.attach(timeout_ms=1000)
        written(a, ch, 0)
        w = IO(a.path, 2 * RB, 1)
        ch.until(LOCK)
        w.waits()
        ch.close()
        assert w.done() == errno.EIO
        assert IO(a.path, 0).done() == 0                # reads go on
        assert IO(a.path, 4 * RB, 1).done() == errno.EIO
        time.sleep(1.2)
        assert IO(a.path, 0, 1).done() == errno.EIO     # granted, but the time is over
        ch = a.attach()
        assert IO(a.path, 0, 1).done() == 0
        ch.close()


# ---- grants -----------------------------------------------------------------------------------

def case_grant():
    """Grant, refuse, late, partial, doubled, unknown, unasked."""
    with array() as a:
        ch = a.attach()
        w = IO(a.path, 0, 1)
        r = ch.expect(LOCK, start=0, count=1, flags=0)
        assert r.seq
        w.waits(1.5)
        assert a.parked() == 1
        assert ch.refused(GRANT, seq=r.seq + 1, start=0, count=1) == errno.ENOENT
        assert ch.refused(GRANT, seq=r.seq, start=0, count=2) == errno.ENOENT
        w.waits(0.1)
        grant(ch, r)
        assert w.done() == 0 and a.parked() == 0
        grant(ch, r)                                    # twice does no harm
        assert IO(a.path, 0, 1).done() == 0
        ch.silent()

        w = IO(a.path, 5 * RB, 1)
        r = ch.expect(LOCK, start=5)
        assert ch.refused(REFUSE, seq=r.seq, start=5, count=1, status=-errno.EAGAIN) == errno.EINVAL
        assert ch.refused(REFUSE, seq=r.seq, start=5, count=1) == errno.EINVAL
        assert ch.refused(REFUSE, seq=r.seq + 1, start=5, count=1, status=-errno.EIO) == errno.ENOENT
        ch.send(REFUSE, seq=r.seq, start=5, count=1, status=-errno.EIO)
        assert w.done() == errno.EIO
        assert ch.refused(GRANT, seq=r.seq, start=5, count=1) == errno.ENOENT
        w = IO(a.path, 5 * RB, 1)                       # asked for anew
        again = ch.expect(LOCK, start=5)
        assert again.seq != r.seq
        ch.send(REFUSE, seq=again.seq, start=5, count=1, status=-errno.ENOSPC)
        assert w.done() == errno.ENOSPC
        w = IO(a.path, 5 * RB, 1)
        ch.expect(LOCK, start=5)
        ch.send(REFUSE, start=0, count=a.regions, status=-errno.EIO)    # all that waits; 0 is granted
        assert w.done() == errno.EIO and IO(a.path, 0, 1).done() == 0

        many = [IO(a.path, (10 + i) * RB, 1) for i in range(6)]
        got = set()
        while len(got) < 6:
            r = ch.expect(LOCK)
            got |= set(range(r.start, r.start + r.count))
            if r.count > 1:                             # one by one, from behind
                for region in reversed(range(r.start, r.start + r.count)):
                    ch.send(GRANT, seq=r.seq, start=region, count=1)
            else:
                grant(ch, r)
        assert got == set(range(10, 16))
        assert [w.done() for w in many] == [0] * 6

        ch.send(GRANT, start=20, count=2)               # nobody asked
        assert IO(a.path, 20 * RB, 1).done() == IO(a.path, 21 * RB, 1).done() == 0
        ch.silent()
        assert int(a.status()[5]) == 9, a.status()
        ch.close()


def case_ahead():
    """A stream has the following regions asked for before it needs them."""
    with array() as a:
        ch = a.attach(ahead=2)
        written(a, ch, 0)
        w = IO(a.path, RB, 1)
        r = ch.expect(LOCK, start=1)
        first = {1} if r.count == 1 else {1, 2, 3}
        assert r.flags == 0
        grant(ch, r)
        if first == {1}:
            r = ch.expect(LOCK, start=2, count=2, flags=F_AHEAD)
            grant(ch, r)
        assert w.done() == 0
        assert IO(a.path, 2 * RB, 1).done() == 0        # no wait; moves the window
        r = ch.expect(LOCK, start=4, count=1, flags=F_AHEAD)
        # refused while a write has come to wait for it: the write asks for itself
        w = IO(a.path, 4 * RB, 1)
        a.wait_parked(1)
        ch.send(REFUSE, seq=r.seq, start=4, count=1, status=-errno.EIO)
        again = ch.until(LOCK, start=4)
        assert not again.flags & F_AHEAD
        grant(ch, again)
        assert w.done() == 0
        ch.send(CONFIG, a0=KC_AHEAD, a1=0)
        ch.close()


def case_reap():
    """The clock: what was used since the last REAP stays."""
    with array() as a:
        ch = a.attach()
        for region in (3, 4, 5, 9):
            written(a, ch, region)
        ch.send(REAP, seq=50, count=100)
        ch.expect(REAPED, seq=50, start=4, count=0)
        assert IO(a.path, 4 * RB, 1).done() == 0
        ch.send(REAP, seq=51, count=100)
        assert ch.refused(REAP, seq=52, count=1) == errno.EBUSY
        got = [ch.next() for _ in range(4)]
        assert [(r.type, r.start, r.count, r.status) for r in got[:3]] == \
            [(CLOSED, 3, 1, 0), (CLOSED, 5, 1, 0), (CLOSED, 9, 1, 0)], got
        assert got[3][:5] == (REAPED, 0, 51, 1, 3), got
        assert IO(a.path, 4 * RB, 1).done() == 0
        w = IO(a.path, 5 * RB, 1)                       # closed is closed
        r = ch.expect(LOCK, start=5)
        w.waits()
        grant(ch, r)
        assert w.done() == 0
        assert ch.refused(REAP, seq=53, count=0) == errno.EINVAL
        ch.close()


def case_closed_before_lock():
    """A write that comes between the close and its CLOSED: LOCK follows CLOSED, and a GRANT that crosses is void."""
    with array() as a:
        ch = a.attach()
        lock = written(a, ch, 3)
        for seq in (60, 61):
            ch.send(REAP, seq=seq, count=10)
            if seq == 60:
                ch.expect(REAPED, seq=60, count=0)
        w = IO(a.path, 3 * RB, 7)
        a.wait_parked(1)
        ch.send(GRANT, start=3, count=1)                # crosses CLOSED
        assert ch.refused(GRANT, seq=lock.seq, start=3, count=1) == errno.ENOENT
        w.waits(0.2)
        ch.expect(CLOSED, start=3, count=1)
        ch.until(REAPED, seq=61)
        r = ch.expect(LOCK, start=3)
        w.waits(0.2)
        grant(ch, r)
        assert w.done() == 0
        ch.close()


def case_rebind():
    """Held regions are declared, requests come again with their number, void what the old one had begun."""
    with array() as a:
        ch = a.attach()
        for region in (0, 1, 2, 7):
            written(a, ch, region)
        w = IO(a.path, 20 * RB, 1)
        r = ch.expect(LOCK, start=20)
        ch.send(REAP, seq=1, count=100)
        ch.expect(REAPED, seq=1)
        assert IO(a.path, 7 * RB, 1).done() == 0
        ch.send(REAP, seq=2, count=2)                   # closes 0 and 1; CLOSED is not read
        new = a.attach(enable=False)
        assert new.found == {2, 7}, new.found
        assert ch.refused(GRANT, seq=r.seq, start=20, count=1) == errno.ESTALE
        assert IO(a.path, 2 * RB, 1).done() == 0        # goes on meanwhile
        again = new.expect(LOCK, start=20)
        assert again.seq == r.seq and again.flags == F_RESENT, again
        new.silent()                                    # no CLOSED, no REAPED of the old one
        a.enable(new)
        grant(new, again)
        assert w.done() == 0
        w = IO(a.path, 0, 1)
        grant(new, new.expect(LOCK, start=0))
        assert w.done() == 0
        ch.close()
        assert a.status()[7] == "attached"              # the old one's close means nothing
        new.close()


def case_not_before_held():
    """Before HELD_END was read nothing may be built on the grants."""
    with array() as a:
        ch = Channel()
        ch.bind(a.uuid, 1)
        for kind, fields in ((GRANT, {"start": 0, "count": 1}), (REAP, {"seq": 1, "count": 1}), (ENABLE, {}),
                             (DRAIN, {"seq": 1, "start": 0, "count": 1}),
                             (REFUSE, {"seq": 1, "start": 0, "count": 1, "status": -errno.EIO})):
            assert ch.refused(kind, **fields) == errno.EBUSY, kind
        assert ch.held() == set()
        ch.send(GRANT, start=0, count=1)
        ch.close()


# ---- EX ---------------------------------------------------------------------------------------

def member_bytes(a, block, blocks):
    """What the members hold of a range, past every cache."""
    out = []
    for device in a.devices:
        fd = os.open(device, os.O_RDONLY | os.O_DIRECT)
        area = kchan.mmap.mmap(-1, blocks * BLOCK // 2)
        assert os.preadv(fd, [area], a.offset * 512 + block * BLOCK // 2) == len(area)
        out.append(bytes(area))
        os.close(fd)
    return out


def case_drain():
    """EX blocks what overlaps it and nothing else."""
    with array() as a:
        ch = a.attach()
        written(a, ch, 0)
        ch.send(DRAIN, seq=9, start=10, count=5)
        ch.expect(DRAINED, seq=9, start=10, count=5)
        assert ch.refused(DRAIN, seq=9, start=100, count=1) == errno.EEXIST
        inside = [IO(a.path, b, 0x55) for b in (10, 14)]
        across = IO(a.path, 8, 0x66, blocks=4)
        for block in (7, 15, 200):          # a later write to 9 would wait behind the one across
            assert IO(a.path, block, 0x33).done() == 0
        assert IO(a.path, 12).done() == 0               # plain reads see the old data
        for w in [*inside, across]:
            w.waits(0.1)
        # a second EX over the first waits for it, and what overlaps both for both
        ch.send(DRAIN, seq=11, start=0, count=RB)
        ch.silent()
        ch.send(RELEASE, seq=9)
        assert [w.done() for w in inside] == [0, 0] and across.done() == 0
        ch.expect(DRAINED, seq=11)
        late = IO(a.path, 255, 1)
        late.waits()
        ch.send(RELEASE, seq=11)
        assert late.done() == 0
        assert ch.refused(RELEASE, seq=11) == errno.ENOENT
        for start, count in ((a.blocks, 1), (a.blocks - 1, 2), (0, 0), (1 << 63, 1 << 63), (1, (1 << 64) - 1),
                             (0, (1 << 18) + 1)):
            assert ch.refused(DRAIN, seq=12, start=start, count=count) == errno.ERANGE
        for seq in range(100, 228):
            ch.send(DRAIN, seq=seq, start=seq, count=1)
        assert ch.refused(DRAIN, seq=500, start=0, count=1) == errno.ENOSPC
        for seq in range(100, 228):
            ch.send(RELEASE, seq=seq)
        ch.send(DRAIN, seq=500, start=0, count=a.blocks)        # many units at once
        ch.until(DRAINED, seq=500)
        ch.send(RELEASE, seq=500)
        ch.close()


def case_drain_load(seconds):
    """Under load the members do not change in a range from DRAINED to RELEASE; fio sees its own data."""
    seconds = int(seconds)
    with array() as a:
        server = Server(a, a.attach(), reap=0.3)
        job = fio(a, seconds)
        end, rounds, moved = time.monotonic() + seconds - 2, 0, 0
        while time.monotonic() < end or rounds < 10:
            count = random.choice((1, 16, 256, 512, 700))
            start = random.randrange(a.blocks - count)
            seq = 10000 + rounds
            before = member_bytes(a, start & ~7, 512)
            server.ch.send(DRAIN, seq=seq, start=start, count=count)
            server.answer(DRAINED, seq=seq, start=start, count=count)
            lo, hi = start + -start % 8, (start + count) & ~7
            if hi > lo:
                first = member_bytes(a, lo, hi - lo)
                time.sleep(0.02)
                assert member_bytes(a, lo, hi - lo) == first, f"EX {start}+{count} was written to"
                moved += first != before
            server.ch.send(RELEASE, seq=seq)
            rounds += 1
        fio_ends(job, seconds + 60)
        server.stop()
        assert moved, rounds
        assert a.parked() == 0
        server.ch.close()
        print(f"{rounds} EX ranges, {server.locks} LOCK records")


def case_revoke():
    """EX with REVOKE closes all regions that it touches: CLOSED first, then DRAINED."""
    with array() as a:
        ch = a.attach()
        for region in (0, 1, 2, 4):
            written(a, ch, region)
        ch.send(DRAIN, flags=F_REVOKE, seq=3, start=RB, count=2 * RB)
        ch.expect(CLOSED, start=1, count=2, status=0)
        ch.expect(DRAINED, seq=3)
        w = IO(a.path, RB, 1)
        r = ch.expect(LOCK, start=1)
        grant(ch, r)
        w.waits()                                       # granted, but EX holds it
        ch.send(RELEASE, seq=3)
        assert w.done() == 0
        assert IO(a.path, 0, 1).done() == IO(a.path, 4 * RB, 1).done() == 0
        ch.silent()

        # with a write in flight there (behind another EX) CLOSED and DRAINED wait for it
        ch.send(DRAIN, seq=20, start=4 * RB, count=1)
        ch.expect(DRAINED, seq=20)
        w = IO(a.path, 4 * RB, 1)
        w.waits()
        ch.send(DRAIN, flags=F_REVOKE, seq=21, start=4 * RB + 100, count=1)
        ch.silent()
        late = IO(a.path, 4 * RB + 9, 1)                # CLOSING: parks, and does not ask yet
        late.waits(0.2)
        ch.silent(0.1)
        ch.send(RELEASE, seq=20)
        assert w.done() == 0
        ch.expect(CLOSED, start=4, count=1, status=0)
        ch.expect(DRAINED, seq=21)
        grant(ch, ch.expect(LOCK, start=4))
        assert late.done() == 0
        ch.send(RELEASE, seq=21)
        ch.close()


def case_revoke_rebind():
    """A revoke that was under way when the daemon went is void; EX holds until the next one is enabled."""
    with array() as a:
        ch = a.attach()
        written(a, ch, 0)
        ch.send(DRAIN, seq=20, start=0, count=1)
        ch.expect(DRAINED, seq=20)
        w = IO(a.path, 0, 1)
        w.waits()
        ch.send(DRAIN, flags=F_REVOKE, seq=21, start=100, count=1)
        late = IO(a.path, 9, 1)
        late.waits(0.2)
        ch.close()
        w.waits(0.2)                                    # the old one's job may still write
        new = a.attach(enable=False)
        assert new.found == {0}
        w.waits(0.2)
        assert late.done() == 0                         # granted still, and no EX there
        assert new.refused(RELEASE, seq=20) == errno.ENOENT
        new.send(DRAIN, seq=20, start=0, count=1)       # its own numbers
        a.enable(new)
        new.expect(DRAINED, seq=20)
        assert w.done() == 0
        new.send(RELEASE, seq=20)
        new.silent()
        new.close()


# ---- daemons that go ------------------------------------------------------------------------------

def case_daemon_death(timeout_ms):
    """kill -9 under load: granted regions go on, within the bound; nothing fails, nothing is lost."""
    timeout = int(timeout_ms) / 1000
    with array() as a:
        d = Daemon(a, int(timeout_ms))
        half = a.blocks * BLOCK // 2
        job = fio(a, 12, jobs=1, size=half // 2)
        time.sleep(2)
        assert IO(a.path, a.blocks // 2, 1).done() == 0
        d.kill()
        died = time.monotonic()
        wait_for(lambda: a.status()[7] == "detached", 2)
        assert IO(a.path, a.blocks // 2 + 1, 1).done() == 0     # granted: goes on
        new = IO(a.path, a.blocks - 1, 1)                       # not granted: waits
        new.waits(0.2)
        assert time.monotonic() - died < timeout - 0.3, "too slow a machine for this timeout"
        time.sleep(max(0, died + timeout + 0.5 - time.monotonic()))
        w = IO(a.path, a.blocks // 2 + 2, 1)
        w.waits()                                               # the bound is over
        assert IO(a.path, a.blocks // 2 + 2).done() == 0        # reads go on
        before = [member_bytes(a, b, 512) for b in range(0, a.blocks // 4, 512)]
        time.sleep(0.5)
        assert [member_bytes(a, b, 512) for b in range(0, a.blocks // 4, 512)] == before, "somebody writes"
        assert job.poll() is None
        d = Daemon(a, int(timeout_ms))
        assert w.done() == new.done() == 0
        fio_ends(job, 60)
        d.kill()


def case_daemon_deaths(rounds):
    """Again and again, faster than the bound: fio notices nothing."""
    with array() as a:
        d = Daemon(a, 10000)
        job = fio(a, 2 + int(rounds))
        for _ in range(int(rounds)):
            time.sleep(0.7)
            d.kill()
            time.sleep(random.uniform(0, 0.5))
            d = Daemon(a, 10000)
        fio_ends(job, 90 + int(rounds) * 5)
        d.kill()


def case_daemon_hung():
    """A daemon that says nothing counts as gone, and is back with its next word."""
    with array() as a:
        d = Daemon(a, 1500)
        assert IO(a.path, 0, 1).done() == 0
        d.signal(signal.SIGSTOP)
        assert IO(a.path, 1, 1).done() == 0
        wait_for(lambda: a.status()[7] == "detached", 4)
        w = IO(a.path, 2, 1)
        w.waits()
        assert IO(a.path, 2).done() == 0
        d.signal(signal.SIGCONT)
        assert w.done() == 0
        assert a.status()[7] == "attached"
        d.kill()


def case_not_enabled_is_no_daemon():
    """A daemon that attaches and does not get ready does not keep old member states alive."""
    with array() as a:
        ch = a.attach(timeout_ms=1000)
        written(a, ch, 0)
        ch.close()
        ch = a.attach(timeout_ms=1000, enable=False)
        end = time.monotonic() + 1.5
        while time.monotonic() < end:
            ch.send(PING, seq=1)
            ch.until(PONG, seq=1)
            time.sleep(0.05)
        assert a.status()[7] == "attached"
        w = IO(a.path, 0, 1)
        for _ in range(5):
            w.waits(0.1)
            ch.send(PING, seq=2)
        a.enable(ch)
        assert w.done() == 0
        ch.close()


# ---- suspend, remove, reload ------------------------------------------------------------------------

def parked_everywhere(a, ch):
    """Writes that wait for a grant, and behind EX; a read and a write at the gate."""
    written(a, ch, 0)
    ch.send(DRAIN, seq=77, start=0, count=4)
    ch.until(DRAINED, seq=77)
    ios = [IO(a.path, 1, 0x41), IO(a.path, 6 * RB, 0x42), IO(a.path, 6 * RB + 1, 0x43)]
    ch.until(LOCK, start=6)
    for w in ios:
        w.waits(0.1)
    ch.send(FREEZE, flags=F_READS)
    ios += [IO(a.path, 50, 0x44), IO(a.path, 50)]
    for w in ios:
        w.waits(0.1)
    return ios


def case_suspend_noflush():
    """All that is parked goes back to dm, and comes again with the resume."""
    with array() as a:
        ch = a.attach()
        ios = parked_everywhere(a, ch)
        a.dm("suspend", "--noflush", "--nolockfs", a.name, timeout=10)
        assert a.parked() == 0
        ch.until(SUSPEND, status=1)
        for w in ios:
            w.waits(0.1)
        a.dm("resume", a.name)
        ch.until(SUSPEND, status=0)
        for w in ios:
            w.waits(0.1)
        ch.send(THAW)
        assert ios[3].done() == ios[4].done() == 0
        # the LOCK is still open, or was asked again: whoever answers has done enough
        ch.send(GRANT, start=6, count=1)
        assert ios[1].done() == ios[2].done() == 0
        ios[0].waits(0.1)
        ch.send(RELEASE, seq=77)
        assert ios[0].done() == 0
        assert a.parked() == 0
        ch.close()


def case_suspend_noflush_alone():
    """The same with no daemon at all, twice."""
    with array() as a:
        ch = a.attach()
        ios = parked_everywhere(a, ch)
        ch.close()
        for _ in range(2):
            a.dm("suspend", "--noflush", "--nolockfs", a.name, timeout=10)
            assert a.parked() == 0
            a.dm("resume", a.name)
        for w in ios:
            w.waits(0.1)
        ch = a.attach()
        ch.send(THAW)
        ch.send(GRANT, start=6, count=1)
        assert [w.done() for w in ios] == [0] * 5
        ch.close()


def case_suspend_flush():
    """A flushing suspend waits for what is parked, can be interrupted, and is served while it waits."""
    with array() as a:
        ch = a.attach()
        w = IO(a.path, 3 * RB, 1)
        r = ch.until(LOCK, start=3)
        with subprocess.Popen(["dmsetup", "suspend", a.name]) as dm:
            time.sleep(0.5)
            assert dm.poll() is None
            dm.send_signal(signal.SIGTERM)
            assert dm.wait(10) != 0
        w.waits(0.1)
        with subprocess.Popen(["dmsetup", "suspend", a.name]) as dm:
            time.sleep(0.5)
            assert dm.poll() is None
            grant(ch, r)
            assert dm.wait(10) == 0
        assert w.done() == 0
        ch.until(SUSPEND, status=1)
        a.dm("resume", a.name)
        ch.until(SUSPEND, status=0)
        assert IO(a.path, 3 * RB, 1).done() == 0
        ch.close()


def case_suspend_unserved():
    """What no daemon ever let run ends with an error in a flushing suspend; once enabled it waits, but not for force."""
    with array() as a:
        for ch in (None, a.attach(enable=False)):
            ios = [IO(a.path, 3 * RB, 1), IO(a.path, 0)]
            a.wait_parked(2)
            a.dm("suspend", a.name, timeout=20)
            assert [w.done() for w in ios] == [errno.EIO] * 2, f"bound: {ch is not None}"
            a.dm("resume", a.name)
            w = IO(a.path, 3 * RB, 1)
            w.waits(0.3)
            a.dm("load", a.name, "--table", a.table())  # the resume suspends
            a.dm("resume", a.name, timeout=20)
            assert w.done() == errno.EIO
        w = IO(a.path, 3 * RB, 1)
        w.waits(0.3)
        a.enable(ch)
        grant(ch, ch.until(LOCK, start=3))
        assert w.done() == 0
        w = IO(a.path, 5 * RB, 1)
        ch.until(LOCK, start=5)
        ch.close()
        with subprocess.Popen(["dmsetup", "suspend", a.name]) as dm:
            w.waits(2)
            assert dm.poll() is None, "a suspend did not wait for a write that a daemon had been asked for"
            dm.send_signal(signal.SIGTERM)
            assert dm.wait(10) != 0
        w.waits(0.1)
        a.remove("--force", check=False)
        assert w.done() == errno.EIO


def case_suspend_noflush_load():
    """noflush suspends under load, with a daemon that reaps all the time."""
    with array() as a:
        server = Server(a, a.attach(), reap=0.05)
        job = fio(a, 10)
        for _ in range(12):
            time.sleep(0.3)
            a.dm("suspend", "--noflush", "--nolockfs", a.name, timeout=20)
            time.sleep(0.1)
            a.dm("resume", a.name)
        fio_ends(job, 60)
        server.stop()
        assert a.parked() == 0
        server.ch.close()


def case_remove():
    """remove is refused while in use; by force all that waits fails; the daemon learns all, then the end."""
    with array() as a:
        ch = a.attach()
        ios = parked_everywhere(a, ch)
        assert a.remove(check=False).returncode != 0
        for w in ios:
            w.waits(0.05)
        control = Channel()
        control.until(LIST_END)
        fd = os.open(kchan.DEV, os.O_RDWR)              # keeps the module, not the array
        a.remove("--force", check=False)
        for w in ios:
            assert w.done() == errno.EIO
        wait_for(lambda: a.remove(check=False).returncode != 0)
        u = struct.unpack("=QQ", a.uuid)
        control.until(REMOVED, a0=u[0], a1=u[1])
        ch.until(CLOSED, start=0, count=1, status=0)
        while ch.queue or ch.read():                    # then the end of file
            ch.queue.clear()
        assert ch.poll(1) & select.POLLHUP
        assert ch.refused(PING, seq=1) == errno.ENODEV
        assert subprocess.run(["rmmod", "dm-ddraid"], check=False, capture_output=True).returncode != 0
        ch.close()
        control.close()
        os.close(fd)


def case_reload():
    """Grants, members and channel survive a reload; another geometry or device does not get the array."""
    with array() as a:
        ch = a.attach()
        written(a, ch, 2)
        w = IO(a.path, 9 * RB, 1)
        r = ch.until(LOCK, start=9)
        for options in ("verify_reads", ""):
            a.dm("load", a.name, "--table", a.table(options))
            a.dm("suspend", "--noflush", "--nolockfs", a.name)
            a.dm("resume", a.name)
            assert IO(a.path, 2 * RB, 1).done() == 0    # no LOCK for it
        grant(ch, r)
        assert w.done() == 0
        while ch.poll(0.2):
            assert all(x.type in (SUSPEND, LOCK) and x.start in (0, 9) for x in ch.read())
        other = a.table().replace(" rotating ", " dedicated ")
        assert a.dm("load", a.name, "--table", other, check=False).returncode != 0
        assert a.dm("load", a.name, "--table", a.table("nosync"), check=False).returncode != 0
        assert a.dm("create", "thief", "--table", a.table(), check=False).returncode != 0
        new = a.attach()
        assert new.found == {2, 9}, new.found
        ch.close()
        new.close()


def case_unload():
    """The module goes when nothing uses it, and comes back."""
    for _ in range(3):
        with array() as a:
            ch = a.attach()
            written(a, ch, 0)
        assert ch.until(CLOSED, start=0)
        ch.close()
        wait_for(lambda: subprocess.run(["rmmod", "dm-ddraid"], check=False, capture_output=True).returncode == 0, 5)
        subprocess.run(["modprobe", "dm-ddraid"], check=True)


# ---- errors of members ----------------------------------------------------------------------------------

@contextlib.contextmanager
def breakable(device="/dev/vdc"):
    """A member that can be broken: its path, and what breaks (True) and mends it."""
    sectors = subprocess.run(["blockdev", "--getsz", device], capture_output=True, text=True, check=True).stdout.strip()
    tables = {True: f"0 {sectors} error", False: f"0 {sectors} linear {device} 0"}
    Array.dm("create", "weak", "--table", tables[False])

    def switch(broken):
        Array.dm("load", "weak", "--table", tables[broken])
        Array.dm("resume", "weak")

    try:
        yield "/dev/mapper/weak", switch
    finally:
        Array.dm("remove", "--force", "weak", check=False)


def reap_all(ch, seq):
    """CLOSED records of all idle grants: the clock goes round twice."""
    closed = []
    for _ in range(2):
        ch.send(REAP, seq=seq, count=1 << 30)
        while True:
            r = ch.next()
            if r.type == REAPED:
                break
            assert r.type == CLOSED, r
            closed.append(r)
    return closed


def case_member_error():
    """A failed write waits with its region and range; RETRY without the member ends it, FAIL leaves the region to resync."""
    with breakable() as (weak, switch), array(devices=["/dev/vda", "/dev/vdb", weak]) as a:
        ch = a.attach()
        for region in (0, 1, 2, 4):
            written(a, ch, region)
        switch(True)
        w = IO(a.path, 0, 1)
        e = ch.expect(ERROR, member=2, status=1, a0=1, start=0, count=1)
        w.waits(0.2)
        ch.send(DRAIN, seq=5, start=0, count=1)         # EX waits for the failed write
        assert not [r for r in reap_all(ch, 9) if r.start == 0]
        ch.silent(0.2)
        assert ch.refused(RESOLVE, seq=e.seq + 1, a0=kchan.RES_RETRY) == errno.ENOENT
        assert ch.refused(RESOLVE, seq=e.seq, a0=kchan.RES_PASS) == errno.EINVAL
        ch.send(RESOLVE, seq=e.seq, a0=kchan.RES_FAIL)
        assert w.done() == errno.EIO
        ch.expect(DRAINED, seq=5)
        ch.send(RELEASE, seq=5)
        assert ch.refused(RESOLVE, seq=e.seq, a0=kchan.RES_FAIL) == errno.ENOENT
        closed = reap_all(ch, 10)
        assert [(r.start, r.count, r.status) for r in closed] == [(0, 1, -errno.EIO)], closed

        w = IO(a.path, 0, 1)                            # the new grant has no error
        grant(ch, ch.until(LOCK, start=0))
        e = ch.until(ERROR, member=2)
        ch.close()                                      # an open error outlives the daemon
        w.waits(0.2)
        ch = a.attach(enable=False)
        again = ch.expect(ERROR, member=2)
        assert again.seq == e.seq and again.flags == F_RESENT
        for m, state in enumerate((KM_IN_SYNC, KM_IN_SYNC, KM_OUT)):
            ch.send(MEMBER, seq=m + 1, member=m, a0=state)
            ch.expect(APPLIED, seq=m + 1)
        ch.send(ENABLE)
        ch.send(RESOLVE, seq=again.seq, a0=kchan.RES_RETRY)
        assert w.done() == 0
        assert IO(a.path, 0).done() == 0
        closed = reap_all(ch, 11)
        assert [(r.start, r.count, r.status) for r in closed] == [(0, 1, 0)], closed
        ch.close()


def case_member_error_alone():
    """Writes that wait for RESOLVE: a noflush suspend takes them back; with fail_if_no_daemon they fail with the daemon."""
    with breakable() as (weak, switch), array(devices=["/dev/vda", "/dev/vdb", weak]) as a:
        ch = a.attach()
        written(a, ch, 0)
        switch(True)
        w = IO(a.path, 0, 1)
        behind = IO(a.path, 0, 1)                       # waits for its range
        e = ch.expect(ERROR)
        a.dm("suspend", "--noflush", "--nolockfs", a.name, timeout=10)
        a.dm("load", a.name, "--table", a.table("fail_if_no_daemon"))
        switch(False)
        ch.send(RESOLVE, seq=e.seq, a0=kchan.RES_RETRY)
        a.dm("resume", a.name)
        assert w.done() == behind.done() == 0
        switch(True)
        w = IO(a.path, 0, 1)
        ch.until(ERROR)
        w.waits(0.1)
        ch.close()
        assert w.done() == errno.EIO
        switch(False)


# ---- members, small commands --------------------------------------------------------------------------

def case_member():
    with array(devices=["/dev/vda", "/dev/vdb", "-"]) as a:
        ch = a.attach(enable=False)
        good = {"seq": 5, "member": 0, "a0": KM_IN_SYNC}
        assert ch.refused(MEMBER, **{**good, "seq": 0}) == errno.EINVAL
        assert ch.refused(MEMBER, **{**good, "member": 3}) == errno.ERANGE
        assert ch.refused(MEMBER, **{**good, "member": NO_MEMBER}) == errno.ERANGE
        assert ch.refused(MEMBER, **{**good, "a0": 3}) == errno.EINVAL
        assert ch.refused(MEMBER, **{**good, "a0": 1 << 32}) == errno.EINVAL
        assert ch.refused(MEMBER, **{**good, "start": 1}) == errno.ERANGE
        assert ch.refused(MEMBER, **{**good, "member": 2}) == errno.ENODEV
        assert ch.refused(MEMBER, seq=5, member=1, a0=KM_REBUILDING, start=a.blocks + 1) == errno.ERANGE
        assert a.status()[0] == "DD-", a.status()
        ch.send(MEMBER, seq=6, member=1, a0=KM_REBUILDING, start=a.blocks)
        ch.expect(APPLIED, seq=6, member=1)
        ch.send(MEMBER, seq=7, member=2, a0=KM_OUT)
        ch.expect(APPLIED, seq=7, member=2)
        ch.send(MEMBER, **good)
        assert ch.refused(MEMBER, **good) in (0, errno.EBUSY)
        ch.expect(APPLIED, seq=5, member=0)
        assert a.status()[0] == "Aa-", a.status()
        ch.close()


def case_small():
    """PING, STATUS, BITS, CONFIG, and reads that fault or are too small."""
    with array() as a:
        ch = a.attach()
        for seq in (1, 2, 3):
            ch.send(PING, seq=seq)
        ch.expect(PONG, seq=3)                          # one for those unanswered
        ch.silent(0.1)
        ch.send(STATUS, a0=3, start=12, count=34, a1=5, a2=6)
        assert a.status()[1:5] == [f"5/{a.regions}", "verify", "12/34", "6"], a.status()
        assert ch.refused(STATUS, a0=5) == errno.EINVAL
        assert ch.refused(STATUS, a1=a.regions + 1) == errno.ERANGE
        ch.send(BITS, start=0, count=a.regions, a0=3)
        assert ch.refused(BITS, start=0, count=1, a0=4) == errno.EINVAL
        assert ch.refused(BITS, start=0, count=1, a0=1 << 32) == errno.EINVAL
        for key, value, want in ((KC_TIMEOUT_MS, 999, errno.ERANGE), (KC_TIMEOUT_MS, 600001, errno.ERANGE),
                                 (KC_TIMEOUT_MS, 5000, 0), (KC_AHEAD, 1025, errno.ERANGE), (KC_AHEAD, 1 << 32,
                                 errno.ERANGE), (KC_AHEAD, 1024, 0), (0, 1, errno.EINVAL), (3, 1, errno.EINVAL)):
            assert ch.refused(CONFIG, a0=key, a1=value) == want, (key, value)
        ch.send(CONFIG, a0=KC_AHEAD)

        w = IO(a.path, 7 * RB, 1)
        a.wait_parked(1)
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.read(ch.fd, ctypes.c_void_p(8), ctypes.c_size_t(4096)) == -1
        assert ctypes.get_errno() == errno.EFAULT
        assert libc.write(ch.fd, ctypes.c_void_p(8), ctypes.c_size_t(64)) == -1
        assert ctypes.get_errno() == errno.EFAULT
        r = ch.expect(LOCK, start=7)                    # nothing was lost
        assert r.flags == 0
        # write() stops at the first bad record, and says what it took
        good, bad = kchan.rec(GRANT, seq=r.seq, start=7, count=1), kchan.rec(GRANT, start=a.regions, count=1)
        assert ch.write(good, bad, good) == 64
        assert w.done() == 0
        assert code(ch.write, bad, good) == errno.ERANGE
        assert ch.write() == 0
        for size in (1, 63, 65, 127):
            assert code(os.write, ch.fd, b"\0" * size) == errno.EINVAL
        ch.close()


def case_blocking_read():
    """A blocking read wakes with what comes, and with the end of its descriptor's time."""
    with array() as a:
        ch = a.attach()
        os.set_blocking(ch.fd, True)
        got = []

        def reader():
            try:
                while True:
                    got.append(os.read(ch.fd, 64))
            except OSError as error:
                got.append(error.errno)

        t = threading.Thread(target=reader, daemon=True)
        t.start()
        time.sleep(0.2)
        assert not got
        w = IO(a.path, 0, 1)
        wait_for(lambda: got)
        r = kchan.Rec(*kchan.REC.unpack(got[0]))
        assert r.type == LOCK
        os.write(ch.fd, kchan.rec(GRANT, seq=r.seq, start=0, count=1))      # while another thread reads
        assert w.done() == 0
        new = a.attach()
        t.join(5)
        assert got[-1] == errno.ESTALE, got
        ch.close()
        new.close()


# ---- hostile daemons -------------------------------------------------------------------------------------

def case_hostile():
    """Every field that a record does not use, set; everything out of range: refused, and nothing changed."""
    with array() as a:
        ch = a.attach()
        written(a, ch, 1)
        top = (1 << 64) - 1
        n = a.regions
        good = {
            ENABLE: {}, FREEZE: {}, THAW: {}, KILL: {},
            GRANT: {"start": 4, "count": 1}, REFUSE: {"seq": 9, "start": 4, "count": 1, "status": -errno.EIO},
            REAP: {"seq": 9, "count": 5}, DRAIN: {"seq": 9, "start": 0, "count": 1}, RELEASE: {"seq": 9},
            RESOLVE: {"seq": 9, "a0": 1}, BITS: {"start": 0, "count": 1, "a0": 1}, PING: {"seq": 9},
            MEMBER: {"seq": 9, "member": 0, "a0": 1}, CONFIG: {"a0": 2, "a1": 1},
            STATUS: {"a0": 1, "start": 1, "count": 1, "a1": 1, "a2": 1},
        }
        optional = {GRANT: {"seq"}, REFUSE: {"seq"}, MEMBER: {"start"}, DRAIN: {"flags"}, FREEZE: {"flags"}}
        tried = 0
        for kind, fields in good.items():
            for name, value in (("flags", 1 << 31), ("seq", 1), ("start", 1), ("count", 1), ("status", -5),
                                ("member", 1), ("a0", 1), ("a1", 1), ("a2", 1)):
                if name == "flags":
                    bad = {**fields, name: value}
                elif name in fields or name in optional.get(kind, ()):
                    continue
                else:
                    bad = {**fields, name: value}
                assert ch.refused(kind, **bad) == errno.EINVAL, (kind, bad)
                tried += 1
            if "seq" in fields and kind != REFUSE:
                assert ch.refused(kind, **{**fields, "seq": 0}) == errno.EINVAL, kind
        for kind in (0, 1, 16, 18, 26, 63, 79, 80, 1 << 31, (1 << 32) - 1):
            assert ch.refused(kind) == errno.EINVAL, kind
        for start, count in ((n, 1), (n - 1, 2), (0, 0), (0, n + 1), (top, 1), (1, top), (top, top), (1 << 63, 1 << 63),
                             (n // 2, top - n // 2 + 1)):
            for kind, more in ((GRANT, {}), (REFUSE, {"seq": 1, "status": -errno.EIO}), (BITS, {"a0": 1})):
                assert ch.refused(kind, start=start, count=count, **more) == errno.ERANGE, (kind, start, count)
        assert ch.refused(RESOLVE, seq=12345, a0=1) == errno.ENOENT
        assert ch.refused(RESOLVE, seq=1, a0=0) == ch.refused(RESOLVE, seq=1, a0=4) == errno.EINVAL
        assert tried > 60, tried
        assert a.status()[0] == "AAA"
        new = a.attach()
        assert new.found == {1}, new.found
        w = IO(a.path, 4 * RB, 1)
        new.expect(LOCK, start=4)
        w.waits(0.1)
        new.send(GRANT, start=4, count=1)
        assert w.done() == 0
        ch.close()
        new.close()


def random_record(a, rng):
    """Anything, from pure noise to what is nearly right. Nothing that may legally fail I/O or stop it for good."""
    if rng.random() < 0.2:
        noise = bytearray(rng.randbytes(64))
        if rng.random() < 0.5:
            noise[0:4] = struct.pack("=I", rng.choice((BITS, GRANT, REAP, DRAIN, RELEASE, STATUS, PING, CONFIG)))
        return bytes(noise)
    number = lambda top: rng.choice((0, 1, rng.randrange(top), top - 1, top, top + 1, 1 << 32, (1 << 63) + 5, (1 << 64) - 1))
    kind = rng.choice((GRANT, REFUSE, REAP, DRAIN, RELEASE, RESOLVE, BITS, STATUS, PING, CONFIG, MEMBER, FREEZE, THAW))
    seq = rng.choice((0, rng.randrange(1, 40), rng.randrange(1 << 24)))
    if kind in (GRANT, BITS):
        return kchan.rec(kind, seq=seq if kind == GRANT else 0, start=number(a.regions), count=number(a.regions),
                         a0=rng.randrange(5) if kind == BITS else 0)
    if kind == REFUSE:                  # never a status that is taken
        return kchan.rec(kind, seq=seq, start=number(a.regions), count=number(a.regions), status=rng.choice((0, 5, -11)))
    if kind == DRAIN:
        return kchan.rec(kind, seq=seq, start=number(a.blocks), count=rng.choice((0, 1, 300, number(a.blocks))),
                         flags=rng.choice((0, 0, F_REVOKE, 1)))
    if kind == MEMBER:                  # never one that puts a member out
        return kchan.rec(kind, seq=seq, member=rng.randrange(5), a0=rng.choice((KM_IN_SYNC, 3, 7)), start=number(2))
    if kind == CONFIG:
        return kchan.rec(kind, a0=rng.randrange(5), a1=rng.choice((0, 3, 5000, number(2000))))
    if kind == STATUS:
        return kchan.rec(kind, a0=rng.randrange(7), start=number(9), count=number(9), a1=number(a.regions), a2=number(9))
    if kind in (FREEZE, THAW):
        return kchan.rec(kind, flags=rng.choice((0, F_READS, 8)) if kind == FREEZE else 0)
    return kchan.rec(kind, seq=seq, count=rng.choice((0, 1, 10)) if kind == REAP else 0)


def case_fuzz(seconds, seed):
    """Random records while fio verifies: no crash, no lost bio. At the end everything is released again."""
    rng = random.Random(int(seed))
    with array() as a:
        ch = a.attach()
        stop = threading.Event()
        last = {"fuzz": 0, "taken": 0}

        def keeper():
            """Grants what is asked for, undoes what the fuzz holds up, reads everything."""
            turn = 0
            while not stop.is_set():
                turn += 1
                if turn % 20 == 0:
                    ch.refused(THAW)
                    for seq in range(0, 40):
                        ch.refused(RELEASE, seq=seq)
                if not ch.poll(0.01):
                    continue
                for r in ch.read(1):
                    if r.type == LOCK:
                        ch.refused(GRANT, seq=r.seq, start=r.start, count=r.count)
                    elif r.type == DRAINED:
                        ch.refused(RELEASE, seq=r.seq)

        t = threading.Thread(target=keeper, daemon=True)
        t.start()
        job = fio(a, int(seconds))
        end = time.monotonic() + int(seconds)
        while time.monotonic() < end or last["taken"] <= 50 or last["fuzz"] <= 300:
            assert time.monotonic() < end + 60, last
            batch = b"".join(random_record(a, rng) for _ in range(rng.randrange(1, 40)))
            if rng.random() < 0.1:
                batch = batch[:rng.randrange(len(batch))]
            last["fuzz"] += 1
            last["taken"] += code(os.write, ch.fd, batch) == 0
            time.sleep(0.001)
        # what the fuzz still holds under numbers that nobody knows goes with a new bind
        stop.set()
        t.join(10)
        server = Server(a, a.attach())
        server.ch.send(THAW)
        fio_ends(job, int(seconds) + 60)
        server.stop()
        assert a.parked() == 0
        ch.close()
        server.ch.close()
        print(last)


def case_binds_under_load(rounds):
    """New binds again and again while the old descriptors read and write."""
    with array() as a:
        server = Server(a, a.attach(), reap=0.05)
        job = fio(a, 2 + int(rounds) // 4)
        for _ in range(int(rounds)):
            time.sleep(random.uniform(0.01, 0.2))
            old, server = server, Server(a, a.attach(), reap=0.05)
            old.stop_now = True
            old.join(10)
            assert not old.is_alive()
            assert old.failed is None or old.failed.errno == errno.ESTALE, old.failed
            old.ch.close()
        fio_ends(job, 60 + int(rounds))
        server.stop()
        server.ch.close()


def main():
    sys.exit(globals()["case_" + sys.argv[1]](*sys.argv[2:]))


if __name__ == "__main__":
    main()
