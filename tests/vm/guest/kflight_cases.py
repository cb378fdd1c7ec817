# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes that hang on a member, and what must not be reported or done meanwhile.

Runs in a guest, with kchan.py and kforget.py beside it; the argument names a case. Each tests one safety rule: a write in flight must
not be treated as ended.
"""
import errno
import signal
import subprocess
import sys
import time

from kchan import (BLOCK, CLOSED, CONFIG, DRAIN, DRAINED, ERROR, F_READS, FREEZE, GRANT, IO, KC_TIMEOUT_MS, KILL, REAP, REAPED, RELEASE,
                   RESOLVE, RES_RETRY, THAW, wait_for)
from kforget import CHUNK, array, content, forget, out, raw, ready

UNIT = 256      # blocks of the largest I/O


def hanging(a, block, data, member=1):
    """A write that waits on @member."""
    forget(member, "hang", "on")
    w = IO(a.path, block, data)
    w.waits()
    return w


def case_reap():
    """A grant in whose region a write is in flight is not closed, however often the clock's hand passes."""
    with array() as a:
        ch = ready(a)
        w = hanging(a, 4, 0x22)
        for seq in (70, 71, 72):
            ch.send(REAP, seq=seq, count=100)
            ch.expect(REAPED, seq=seq, start=1, count=0)
        forget(1, "hang", "off")
        assert w.done() == 0
        for seq in (73, 74):
            ch.send(REAP, seq=seq, count=100)
            if (r := ch.next()).type == CLOSED:
                assert (r.start, r.count, r.status) == (0, 1, 0), r
                break
        else:
            raise AssertionError("an idle grant is not closed")
        ch.close()


def case_drain():
    """DRAINED comes after the writes in the range, and waits for no others."""
    with array() as a:
        ch = ready(a)
        w = hanging(a, 4, 0x22)
        ch.send(DRAIN, seq=80, start=0, count=16)
        ch.send(DRAIN, seq=81, start=32, count=16)
        ch.expect(DRAINED, seq=81)
        ch.silent(1)
        forget(1, "hang", "off")
        assert w.done() == 0
        ch.until(DRAINED, seq=80)
        ch.send(RELEASE, seq=80)
        ch.send(RELEASE, seq=81)
        ch.close()


def case_overlap():
    """A second write of a block reaches no member before the first one is over on all."""
    with array() as a:
        ch = ready(a)
        first = hanging(a, 4, 0x22)
        second = IO(a.path, 4, 0x33)
        second.waits(1)
        assert raw(0, 4) == bytes([0x22]) * CHUNK, "the second write overtook the first on a member"
        forget(1, "hang", "off")
        assert (first.done(), second.done()) == (0, 0)
        assert content(a, 4)[:8] == bytes([0x33]) * 8
        assert [raw(m, 4)[:1] for m in range(3)] == [b"\x33", b"\x33", b"\x00"]
        ch.close()


def memory_taken(a, ch):
    """Large writes, one for each region.

    The first ones wait on member 1 and use up the memory for buffers; the others wait for memory. (writes, those of which the other
    members have a part)
    """
    ch.send(GRANT, start=0, count=a.regions)
    forget(1, "hang", "on")
    writes = [IO(a.path, UNIT * i, 0x22, blocks=UNIT) for i in range(a.blocks // UNIT)]
    for w in writes:
        w.submitted()
    time.sleep(1)
    have = sent(writes)
    assert 0 < len(have) < len(writes), "memory for all writes, or for none"
    return writes, have


def sent(writes):
    """The writes of which a member has data; a member with parity alone has zeroes."""
    return {w.block for w in writes if bytes([0x22]) * CHUNK in (raw(0, w.block), raw(2, w.block))}


def case_kill():
    """A write that waits for memory when KILL comes is not sent to any member any more."""
    with array() as a:
        ch = ready(a)
        writes, have = memory_taken(a, ch)
        ch.send(KILL)
        forget(1, "hang", "off")
        ends = {w.block: w.done(30) for w in writes}
        assert set(ends.values()) == {0, errno.EIO}, ends
        assert {b for b in ends if not ends[b]} <= have
        assert sent(writes) == have
        ch.close()


def case_stop():
    """Nor does it when the daemon is silent for too long; it continues when the daemon enables the array again."""
    with array() as a:
        ch = ready(a)
        writes, have = memory_taken(a, ch)
        behind = IO(a.path, min(have), 0x33)            # waits for the end of another one
        behind.waits()
        ch.send(CONFIG, a0=KC_TIMEOUT_MS, a1=1000)
        wait_for(lambda: a.status()[7] == "detached")
        time.sleep(0.5)
        forget(1, "hang", "off")
        for w in writes:
            if w.block in have:
                assert w.done() == 0
        a.wait_parked(len(writes) - len(have) + 1)
        assert sent(writes) == have
        ch.back()
        assert {w.done(30) for w in writes} == {0} and behind.done() == 0
        assert content(a, min(have))[:8] == bytes([0x33]) * 8
        ch.close()


def case_freeze():
    """Nor is it when the array is frozen."""
    with array() as a:
        ch = ready(a)
        writes, have = memory_taken(a, ch)
        ch.send(FREEZE)
        forget(1, "hang", "off")
        for w in writes:
            if w.block in have:
                assert w.done() == 0
        a.wait_parked(len(writes) - len(have))
        assert sent(writes) == have
        ch.send(DRAIN, seq=90, start=0, count=a.blocks)
        ch.until(DRAINED, seq=90)
        ch.send(RELEASE, seq=90)
        ch.send(THAW)
        assert {w.done(30) for w in writes} == {0}
        ch.close()


def case_memory():
    """Writes that wait for RESOLVE, more than there is memory for: reads, other writes and a suspend do not wait for the daemon."""
    with array() as a:
        ch = ready(a)
        ch.send(GRANT, start=0, count=a.regions)
        forget(1, "fail", "write")
        writes = [IO(a.path, UNIT * i, 0x22, blocks=UNIT) for i in range(2, a.blocks // UNIT)]
        a.wait_parked(len(writes), 20)
        read = IO(a.path, 0, blocks=UNIT)
        assert read.done() == 0 and read.area[:4096] == bytes([0x11]) * 4096
        ch.send(FREEZE, flags=F_READS)
        ios = [IO(a.path, UNIT, 0x33, blocks=UNIT), IO(a.path, 0, blocks=UNIT)]
        a.wait_parked(len(writes) + 2)
        ch.send(THAW)                                   # what ran first waits now, and delays nothing
        assert ios[1].done() == 0
        with subprocess.Popen(["dmsetup", "suspend", "--nolockfs", a.name]) as dm:
            time.sleep(1)
            assert dm.poll() is None
            dm.send_signal(signal.SIGTERM)
            assert dm.wait(10) != 0
        e = ch.until(ERROR, member=1)
        out(ch, 1)
        ch.send(RESOLVE, seq=e.seq, a0=RES_RETRY)
        assert {w.done(30) for w in writes + ios} == {0}
        for start in range(2 * UNIT, a.blocks, UNIT):
            read = IO(a.path, start, blocks=UNIT)
            assert read.done() == 0 and read.area[:] == bytes([0x22]) * (UNIT * BLOCK)
        ch.close()


def hung_writes(a, units):
    """Large writes that wait on member 1, and take all the memory that the array may have for writes of that size."""
    forget(1, "hang", "on")
    writes = [IO(a.path, UNIT * i, 0x22, blocks=UNIT) for i in units]
    for w in writes:
        w.submitted()
    time.sleep(1)
    assert 0 < len(sent(writes)) < len(writes), "memory for all writes, or for none"
    return writes


def case_sleeper():
    """Parked bios run one by one: a read, a flush and a small write do not wait for a large write that sleeps for memory."""
    with array() as a:
        ch = ready(a)
        ch.send(GRANT, start=0, count=a.regions)
        writes = hung_writes(a, range(20))
        ch.send(FREEZE, flags=F_READS)
        large = IO(a.path, UNIT * 24, 0x33, blocks=UNIT)        # the first to run again
        a.wait_parked(1)
        small = IO(a.path, UNIT * 25, 0x33)                     # this one waits on member 1, but reaches member 0 at once
        a.wait_parked(2)
        read = IO(a.path, UNIT * 29, blocks=UNIT)               # the parity of unit 29 is on member 1
        a.wait_parked(3)
        ch.send(THAW)
        assert read.done() == 0
        wait_for(lambda: raw(0, small.block)[:1] == b"\x33" or raw(2, small.block)[:1] == b"\x33")
        assert large.is_alive() and not sent([large])
        forget(1, "hang", "off")
        assert {w.done(30) for w in writes + [large, small]} == {0}
        ch.close()


def case_cold():
    """A small write to a cold region does not wait behind large ones to other cold regions, which came before and sleep for memory."""
    with array() as a:
        ch = ready(a)
        forget(1, "hang", "on")
        writes = [IO(a.path, UNIT * i, 0x22, blocks=UNIT) for i in range(1, 21)]
        a.wait_parked(len(writes))
        small = IO(a.path, UNIT * 25, 0x33)
        a.wait_parked(len(writes) + 1)
        ch.send(GRANT, start=0, count=a.regions)
        wait_for(lambda: raw(0, small.block)[:1] == b"\x33" or raw(2, small.block)[:1] == b"\x33")
        assert 0 < len(sent(writes)) < len(writes), "memory for all large writes, or for none"
        forget(1, "hang", "off")
        assert {w.done(30) for w in writes + [small]} == {0}
        ch.close()


def case_stop_behind_sleepers():
    """Writes stop when the daemon is silent for too long, though hundreds of writes sleep for memory in the kernel's queues."""
    with array() as a:
        ch = ready(a)
        ch.send(GRANT, start=0, count=a.regions)
        ch.send(DRAIN, seq=80, start=UNIT * 20, count=UNIT * 12)
        ch.until(DRAINED, seq=80)
        writes = hung_writes(a, range(20))
        small = [IO(a.path, UNIT * 20 + i, 0x33) for i in range(400)]
        for w in small:
            w.submitted()
        ch.send(RELEASE, seq=80)
        time.sleep(1)
        ch.send(CONFIG, a0=KC_TIMEOUT_MS, a1=1000)
        wait_for(lambda: a.status()[7] == "detached", 5, lambda: "the timer did not come")
        late = IO(a.path, UNIT * 31, 0x44)
        a.wait_parked(1)                                        # at the gate
        late.waits(0.1)
        ch.back()
        forget(1, "hang", "off")
        assert {w.done(30) for w in writes + small + [late]} == {0}
        ch.close()


if __name__ == "__main__":
    sys.exit(globals()["case_" + sys.argv[1]]())
