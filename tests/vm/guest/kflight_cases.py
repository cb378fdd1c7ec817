# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes that hang on a member, and what must not be said or done meanwhile.

Runs in a guest, with kchan.py and kerr_cases.py beside it; the argument names a case.
Each is the proof of one safety rule: nothing of a write in flight may be called over.
"""
import sys

from kchan import CLOSED, DRAIN, DRAINED, IO, REAP, REAPED, RELEASE
from kerr_cases import CHUNK, array, content, forget, raw, ready


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


if __name__ == "__main__":
    sys.exit(globals()["case_" + sys.argv[1]]())
