#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of flushes that fail or lose what they should have made durable, with kchan.py as the daemon; run in a guest.

usage: kflush_cases.py CASE      (dm-forget is loaded; the members are /dev/vda to /dev/vdc)
"""

import errno
import os
import sys

from kchan import BLOCK, ENABLE, ERROR, KM_IN_SYNC, KM_OUT, KM_REBUILDING, RESOLVE, RES_RETRY, IO
from kforget import OP_FLUSH, OP_WRITE, Flush, array, content, forget, out, ready, reload


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


if __name__ == "__main__":
    sys.exit(globals()["case_" + sys.argv[1]]())
