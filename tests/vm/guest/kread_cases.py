#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases of reads that fail or do not match, with kchan.py as the daemon; run in a guest.

usage: kread_cases.py CASE      (dm-forget is loaded; the members are /dev/vda to /dev/vdc)
"""

import errno
import os
import sys
import time

from kchan import (APPLIED, BITS, BLOCK, DRAIN, DRAINED, ERROR, KM_IN_SYNC, KM_OUT, KM_REBUILDING, MEMBER, MISMATCH, NO_MEMBER,
                   RELEASE, RESOLVE, RES_FAIL, RES_PASS, RES_RETRY, IO, Server, fio, fio_ends_now)
from kforget import (CHUNK, DATA, EC_MEDIUM, OP_READ, RB_CLEAN, RB_SUSPECT_ERROR, array, content, flush, forget, out, raw,
                     ready, rebuild)


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
        job = fio(a, 3600)
        seq = 100
        for member in (2, 0, 1, 2):
            time.sleep(1)
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
        fio_ends_now(job)
        server.stop()
        assert a.parked() == 0
        ch.close()


if __name__ == "__main__":
    sys.exit(globals()["case_" + sys.argv[1]]())
