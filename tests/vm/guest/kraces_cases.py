# SPDX-License-Identifier: GPL-2.0-or-later
"""Races of the kernel module, each with its window held open by a test point (kpoint.py).

Runs in a guest, with kchan.py, kforget.py and kpoint.py beside it; the argument names a case. dm-ddraid-points.ko and dm-forget
are loaded.
"""
import subprocess
import sys
import time

from kchan import (APPLIED, BLOCK, CONFIG, ENABLE, ERROR, F_READS, FREEZE, GRANT, IO, KC_TIMEOUT_MS, KILL, KM_IN_SYNC, KM_OUT, KM_REBUILDING,
                   MEMBER, RESOLVE, RES_RETRY, SHADOW, THAW, Channel, wait_for)
from kforget import CHUNK, DISKS, Flush, array, content, dm, forget, out, raw, ready
from kpoint import held


def applied_waits(ch, h, stop, **flags):
    """A thread has passed the gate and is held at @h; after @stop APPLIED must wait for it. Then it is released."""
    h.wait()
    ch.send(stop, **flags)
    ch.send(MEMBER, seq=60, member=2, a0=KM_IN_SYNC)
    ch.silent(1)
    h.go()


def case_gate_write():
    """After FREEZE and APPLIED nothing is on its way that passed the gate before it: a write."""
    with array() as a:
        ch = ready(a)
        with held("write_gate") as h:
            w = IO(a.path, 4, 0x22)
            applied_waits(ch, h, FREEZE)
        ch.until(APPLIED, seq=60)
        assert w.done() == 0
        assert [raw(m, 4)[:1] for m in range(3)] == [b"\x22", b"\x22", b"\x00"]
        ch.send(THAW)
        ch.close()


def case_gate_kill():
    """The same for KILL, and for write-zeroes: what the daemon believes to be over is over."""
    with array() as a:
        ch = ready(a)
        with held("write_gate") as h:
            w = IO(a.path, 4, 0x22)
            applied_waits(ch, h, KILL)
        ch.until(APPLIED, seq=60)
        sent = [raw(m, 4) for m in range(3)]
        assert w.done() == 0
        time.sleep(0.3)
        assert [raw(m, 4) for m in range(3)] == sent, "something was sent after APPLIED"
        ch.close()


def case_gate_flush():
    """The same for a flush."""
    with array() as a:
        ch = ready(a)
        with held("flush_gate") as h:
            f = Flush(a.path)
            applied_waits(ch, h, FREEZE)
        ch.until(APPLIED, seq=60)
        assert f.done() == 0
        ch.send(THAW)
        ch.close()


def case_gate_read():
    """The same for a read, and FREEZE of reads."""
    with array() as a:
        ch = ready(a)
        with held("read_gate") as h:
            r = IO(a.path, 0)
            applied_waits(ch, h, FREEZE, flags=F_READS)
        ch.until(APPLIED, seq=60)
        assert r.done() == 0 and r.area[:] == b"\x11" * BLOCK
        ch.send(THAW)
        ch.close()


def case_gate_late():
    """A read and a flush that passed the gate, and have waited since, do not continue when it is shut: they wait, and end when it opens."""
    with array() as a:
        ch = ready(a)
        with held("buffer", 2) as h:
            f, r = Flush(a.path), IO(a.path, 0)
            h.wait()
            ch.send(FREEZE, flags=F_READS)
            h.go()
        a.wait_parked(2)
        ch.send(THAW)
        assert (f.done(), r.done()) == (0, 0)
        with held("buffer", 2) as h:
            f, r = Flush(a.path), IO(a.path, 0)
            h.wait()
            ch.send(KILL)
            h.go()
        assert f.done() and r.done(), "it ended well although the array was killed before anything was sent"
        ch.close()


def case_cursor():
    """A read that spans the cursor of a rebuild reads nothing from the member; a write that spans it is written to the member too."""
    with array() as a:
        ch = ready(a)
        assert IO(a.path, 0, 0x11, blocks=16).done() == 0
        out(ch, 0, state=KM_REBUILDING, cursor=6)
        for block in range(6, 16):
            raw(0, block, b"\x99" * CHUNK)
        for start, blocks in ((0, 16), (5, 2), (4, 3), (0, 7), (6, 1), (5, 1), (0, 6)):
            r = IO(a.path, start, blocks=blocks)
            assert r.done() == 0 and r.area[:] == b"\x11" * (blocks * BLOCK), f"blocks {start}+{blocks}"
        raw(0, 5, b"\x88" * CHUNK)                      # below the cursor it is read
        assert content(a, 5)[:CHUNK] == b"\x88" * CHUNK
        assert IO(a.path, 4, 0x33, blocks=4).done() == 0
        assert [raw(0, b) for b in range(4, 8)] == [b"\x33" * CHUNK] * 4
        ch.close()


def case_cursor_shadow():
    """The same for the disk that replaces a member: it is read only below its cursor, whatever part of a read is above."""
    dm("create", "s0", "--table", f"0 {24 * 2048} linear /dev/vdd 0")
    try:
        with array(options="replace 0 /dev/mapper/s0") as a:
            ch = a.attach(enable=False)
            out(ch, SHADOW, seq=70, state=KM_REBUILDING, cursor=6)
            for m in range(3):
                out(ch, m, seq=71 + m, state=KM_IN_SYNC)
            ch.send(ENABLE)
            ch.send(GRANT, start=0, count=1)
            assert IO(a.path, 0, 0x11, blocks=16).done() == 0
            out(ch, 0, seq=80)                          # now its shadow is read below 6
            with open("/dev/mapper/s0", "r+b", buffering=0) as f:
                f.seek(2048 * 512 + 6 * CHUNK)
                f.write(b"\x99" * (10 * CHUNK))
            with open("/dev/mapper/s0", "rb", buffering=0) as f:
                f.flush()
            dm("suspend", "s0")                         # what was written is on the disk, not in the cache
            dm("resume", "s0")
            for start, blocks in ((0, 16), (5, 2), (4, 3), (0, 6)):
                r = IO(a.path, start, blocks=blocks)
                assert r.done() == 0 and r.area[:] == b"\x11" * (blocks * BLOCK), f"blocks {start}+{blocks}"
            ch.close()
    finally:
        dm("remove", "--retry", "s0")


def case_cursor_mirror():
    """The same where the whole read would come from one copy."""
    with array(order=0, parity=2, blocks=4096) as a:
        ch = ready(a)
        assert IO(a.path, 0, 0x11, blocks=16).done() == 0
        out(ch, 0, state=KM_REBUILDING, cursor=6)
        for block in range(12, 32):                     # chunks of 4 KiB here: blocks 6 to 15
            raw(0, block, b"\x99" * CHUNK)
        for start, blocks in ((0, 16), (5, 2), (0, 6)):
            r = IO(a.path, start, blocks=blocks)
            assert r.done() == 0 and r.area[:] == b"\x11" * (blocks * BLOCK), f"blocks {start}+{blocks}"
        ch.close()


def stopped_write(a, ch):
    """A write that waits for the range of another one, which its member ends after the daemon was silent for too long."""
    forget(1, "hang", "on")
    first = IO(a.path, 4, 0x11)
    first.waits()
    w = IO(a.path, 4, 0x22)
    w.waits()
    ch.send(CONFIG, a0=KC_TIMEOUT_MS, a1=1000)
    wait_for(lambda: a.status()[7] == "detached")
    time.sleep(0.5)
    forget(1, "hang", "off")
    assert first.done() == 0
    return w


def case_turned_away():
    """A thread that turned a bio away may be late with its next steps: it must not use the bio, and what it uses must still exist when
    the array is removed.

    The bio starts again in the same work item, with another function. It may not wait a second time: a work item that is queued with the
    function that this thread runs would wait for this thread. So the gate is open again by then.
    """
    with array() as a:
        ch = ready(a)
        with held("turned_away") as h, held("turning_away") as before:
            w = stopped_write(a, ch)
            before.wait()
            ch.back()                                       # another thread runs the bio
            before.go()
            h.wait()
            assert w.done() == 0
            a.remove()
            ch.close()
            time.sleep(2)                               # the work that frees the array; RCU
            h.go()
        time.sleep(1)


def case_parked_then_gone():
    """Write-zeroes waits for its second region, and the device is removed completely before the thread that made it wait continues: that
    of a work item, since in the caller's the device cannot be removed."""
    with open("/sys/kernel/tracing/events/ddraid/enable", "w", encoding="ascii") as f:
        f.write("1")
    with array() as a:
        ch = ready(a)                                   # the first region is granted
        with held("region_parked") as h:
            z = subprocess.Popen(["blkdiscard", "-z", "-l", str(2 * 256 * BLOCK), a.path], stderr=subprocess.DEVNULL)
            h.wait()
            ch.send(KILL)
            assert z.wait(10) != 0
            a.remove()
            ch.close()
            time.sleep(2)
            h.go()
        time.sleep(1)


if __name__ == "__main__":
    sys.exit(globals()["case_" + sys.argv[1]]())
