# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases: grants and exclusive ranges. See kchan_cases.py."""
import errno
import random
import time

from kchan import (CLOSED, CONFIG, Channel, DRAIN, DRAINED, ENABLE, F_AHEAD, F_RESENT, GRANT, IO, KC_AHEAD,
                   LOCK, REAP, REAPED, REFUSE, RELEASE, Server, fio, fio_ends)
from kchan_common import RB, array, grant, written, member_bytes

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
        w = IO(a.path, 5 * RB, 1)                       # requested again
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

        ch.send(GRANT, start=20, count=2)               # nobody requested it
        assert IO(a.path, 20 * RB, 1).done() == IO(a.path, 21 * RB, 1).done() == 0
        ch.silent()
        assert int(a.status()[5]) == 9, a.status()
        ch.close()


def case_ahead():
    """A stream has the following regions requested before it needs them."""
    with array() as a:
        ch = a.attach(ahead=2)
        written(a, ch, 0)
        w = IO(a.path, RB, 1)
        r = ch.expect(LOCK, start=1)
        first = set(range(1, 1 + r.count))
        assert r.flags == 0
        grant(ch, r)
        while first != {1, 2, 3}:                       # a reader that reads during the request gets them one by one
            r = ch.expect(LOCK, start=max(first) + 1, flags=F_AHEAD)
            first |= set(range(r.start, r.start + r.count))
            grant(ch, r)
        assert w.done() == 0
        assert IO(a.path, 2 * RB, 1).done() == 0        # no wait; moves the window
        r = ch.expect(LOCK, start=4, count=1, flags=F_AHEAD)
        # refused while a write has come to wait for it: the write requests it itself
        w = IO(a.path, 4 * RB, 1)
        a.wait_parked(1)
        ch.send(REFUSE, seq=r.seq, start=4, count=1, status=-errno.EIO)
        again = ch.until(LOCK, start=4)
        assert not again.flags & F_AHEAD
        grant(ch, again)
        assert w.done() == 0
        ch.send(CONFIG, a0=KC_AHEAD, a1=0)
        ch.close()


def case_waits_before_ahead():
    """A daemon that reads during the request of a stream's write learns of the region that the write waits for before those ahead of it."""
    regions, window, size = 1920, 60, 16        # a window lies in one word of the map
    for _ in range(4):
        with array(region=size * 8, blocks=regions * size) as a:
            ch = a.attach()
            for first in range(0, regions, 64):
                ch.send(CONFIG, a0=KC_AHEAD, a1=0)
                w = IO(a.path, first * size, 1)
                grant(ch, ch.expect(LOCK, start=first))
                assert w.done() == 0
                ch.send(CONFIG, a0=KC_AHEAD, a1=window)
                w = IO(a.path, (first + 1) * size, 1)
                r = ch.spin()
                assert r.type == LOCK and r.start == first + 1, f"{r} comes before what a write waits for"
                grant(ch, r)
                end = r.start + r.count
                while end < first + 2 + window:
                    r = ch.expect(LOCK, start=end, flags=F_AHEAD)
                    grant(ch, r)
                    end += r.count
                assert w.done() == 0
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
    """Held regions are declared, requests are repeated with their number, and what the previous binding had begun is void."""
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
        assert IO(a.path, 2 * RB, 1).done() == 0        # continues meanwhile
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
        for flags in range(1, 16):
            assert ch.refused(DRAIN, flags=flags, seq=12, start=0, count=1) == errno.EINVAL
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


def case_drain_held():
    """The EX of a daemon that is gone holds until the next one is enabled."""
    with array() as a:
        ch = a.attach()
        written(a, ch, 0)
        ch.send(DRAIN, seq=20, start=0, count=1)
        ch.expect(DRAINED, seq=20)
        w = IO(a.path, 0, 1)
        w.waits()
        ch.close()
        w.waits(0.2)                                    # the old one's job may still write
        new = a.attach(enable=False)
        assert new.found == {0}
        w.waits(0.2)
        assert IO(a.path, 9, 1).done() == 0             # granted still, and no EX there
        assert new.refused(RELEASE, seq=20) == errno.ENOENT
        new.send(DRAIN, seq=20, start=0, count=1)       # its own numbers
        a.enable(new)
        new.expect(DRAINED, seq=20)
        assert w.done() == 0
        new.send(RELEASE, seq=20)
        new.silent()
        new.close()


def case_drain_rebind():
    """Each daemon has room for all its EX ranges, though those of the ones before it are in force until one sends ENABLE."""
    with array() as a:
        written(a, a.attach(), 0)
        for _ in range(4):                              # each tells the kernel the same, and is closed before it enables
            ch = a.attach(enable=False)
            for i in range(100):
                ch.send(DRAIN, seq=1 + i, start=2 * i, count=1)
        ch.silent()
        w = IO(a.path, 198, 1)
        w.waits()
        a.enable(ch)
        assert {ch.until(DRAINED).seq for _ in range(100)} == set(range(1, 101))
        w.waits()
        for i in range(100):
            ch.send(RELEASE, seq=1 + i)
        assert w.done() == 0

        # a range that only overlaps an older one is kept; there is room for those of one daemon beside the own ones
        ch.send(GRANT, start=1, count=2)
        for first in (0, 1):
            for i in range(128):
                ch.send(DRAIN, seq=1 + i, start=RB + 4 * i + first, count=2)
            assert ch.refused(DRAIN, seq=500, start=0, count=1) == errno.ENOSPC
            ch = a.attach(enable=False)
        assert ch.refused(DRAIN, seq=500, start=0, count=1) == errno.ENOSPC
        ios = [IO(a.path, RB + 4 * 127 + block, 1) for block in (0, 2)]     # of the older one, of the other one
        assert IO(a.path, RB + 3, 1).done() == 0
        for w in ios:
            w.waits()
        a.enable(ch)
        assert [w.done() for w in ios] == [0, 0]

        # a part of an older one is not kept
        ch.send(DRAIN, seq=500, start=0, count=4)
        ch.until(DRAINED, seq=500)
        for _ in range(3):
            ch = a.attach(enable=False)
            for i in range(128):
                ch.send(DRAIN, seq=1 + i, start=i % 4, count=1)
        w = IO(a.path, 3, 1)
        w.waits()
        ch = a.attach()
        assert w.done() == 0
        ch.send(DRAIN, seq=1, start=0, count=a.blocks)
        ch.until(DRAINED, seq=1)
        ch.close()
