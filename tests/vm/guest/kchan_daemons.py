# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases: daemons that end, are silent, or do not get ready, while grants and exclusive ranges are held. See kchan_cases.py."""
import errno
import os
import random
import signal
import time

from kchan import BLOCK, CONFIG, Daemon, ENABLE, F_READS, GRANT, IO, KC_TIMEOUT_MS, PING, PONG, STOPPED, fio, fio_ends, wait_for
from kchan_common import RB, array, stops, written, member_bytes


def under_way(a):
    """Reads and writes that the members have not ended yet."""
    total = 0
    for device in a.devices:
        with open(f"/sys/block/{os.path.basename(device)}/inflight", encoding="ascii") as f:
            total += sum(map(int, f.read().split()))
    return total


def case_daemon_death(timeout_ms):
    """kill -9 under load: writes to granted regions continue, within the bound; nothing fails, nothing is lost."""
    timeout = int(timeout_ms) / 1000
    with array() as a:
        d = Daemon(a, int(timeout_ms))
        half = a.blocks * BLOCK // 2
        job = fio(a, int(timeout) + 10, jobs=1, size=half // 2)
        time.sleep(2)
        assert IO(a.path, a.blocks // 2, 1).done() == 0
        before = stops(a)
        d.kill()
        died = time.monotonic()
        wait_for(lambda: a.status()[7] == "detached", 10)
        assert IO(a.path, a.blocks // 2 + 1, 1).done() == 0     # granted: continues
        new = IO(a.path, a.blocks - 1, 1)                       # not granted: waits
        new.waits(0.2)
        assert time.monotonic() - died < timeout - 0.3, "too slow a machine for this timeout"
        wait_for(lambda: stops(a) > before, timeout + 60)
        w = IO(a.path, a.blocks // 2 + 2, 1)
        w.waits()                                               # the bound is over
        assert IO(a.path, a.blocks // 2 + 2).done() == 0        # reads continue
        wait_for(lambda: under_way(a) == 0)
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
    """A daemon that is silent counts as gone, and is back with its next message; the array goes on once it is enabled again."""
    with array() as a:
        d = Daemon(a, 8000)
        assert IO(a.path, 0, 1).done() == 0
        d.signal(signal.SIGSTOP)
        assert IO(a.path, 1, 1).done() == 0
        wait_for(lambda: a.status()[7] == "detached", 60)
        w = IO(a.path, 2, 1)
        w.waits()
        assert IO(a.path, 2).done() == 0
        d.signal(signal.SIGCONT)
        assert w.done() == 0
        assert a.status()[7] == "attached"
        d.kill()


def silence(a, ch):
    """The daemon is silent until the kernel stops its I/O."""
    before = stops(a)
    ch.send(CONFIG, a0=KC_TIMEOUT_MS, a1=1000)
    wait_for(lambda: stops(a) > before, 60)


def case_silence_ends_with_enable():
    """What a daemon writes first after a silence, it may have decided before: that has no effect, and writes wait until it sends ENABLE again."""
    with array() as a:
        ch = a.attach()
        written(a, ch, 0)
        for data in (2, 3):
            silence(a, ch)
            w = IO(a.path, 0, data)
            assert IO(a.path, 1).done() == 0                    # reads continue
            assert ch.refused(GRANT, start=data, count=1) == errno.ETIME
            ch.send(CONFIG, a0=KC_TIMEOUT_MS, a1=60000)
            ch.expect(STOPPED)
            for seq in (1, 2):
                ch.send(PING, seq=seq)
                ch.expect(PONG, seq=seq)                        # it is told once
            w.waits(0.5)
            ch.send(ENABLE)
            assert w.done() == 0
            written(a, ch, data)                                # that GRANT was not taken: it asks
        silence(a, ch)
        w = IO(a.path, 0, 4)
        assert ch.refused(ENABLE) == errno.ETIME
        w.waits(0.5)
        ch.send(ENABLE)
        assert w.done() == 0
        ch.close()


def case_reads_stop():
    """A daemon whose array is used by other nodes, too, has reads stopped together with writes."""
    with array() as a:
        ch = a.attach()
        written(a, ch, 0)
        ch.send(ENABLE, flags=F_READS)
        assert IO(a.path, 0).done() == 0
        silence(a, ch)
        waiting = [IO(a.path, 0), IO(a.path, 0, 1), IO(a.path, 5 * RB)]
        for io in waiting:
            io.waits(0.2)
        ch.back()
        assert [io.done() for io in waiting] == [0, 0, 0]
        silence(a, ch)                                          # that ENABLE was without the flag
        w = IO(a.path, 0, 2)
        assert IO(a.path, 0).done() == 0
        w.waits(0.2)
        ch.back()
        assert w.done() == 0
        ch.send(ENABLE, flags=F_READS)
        before = stops(a)
        ch.send(CONFIG, a0=KC_TIMEOUT_MS, a1=1000)
        ch.close()                                              # the daemon has ended
        wait_for(lambda: stops(a) > before, 60)
        r = IO(a.path, 0)
        r.waits(0.2)
        ch = a.attach(enable=False)
        r.waits(0.2)
        a.enable(ch)
        assert r.done() == 0
        ch.close()


def case_not_enabled_is_no_daemon():
    """A daemon that attaches and does not get ready does not keep old member states alive."""
    with array() as a:
        ch = a.attach()
        written(a, ch, 0)
        ch.send(CONFIG, a0=KC_TIMEOUT_MS, a1=3000)
        ch.close()
        before = stops(a)
        ch = a.attach(timeout_ms=600000, enable=False)      # what it reports of itself counts once it is ready
        ch.send(CONFIG, a0=KC_TIMEOUT_MS, a1=500000)
        end = time.monotonic() + 60
        while stops(a) == before:
            assert time.monotonic() < end
            ch.send(PING, seq=1)
            ch.until(PONG, seq=1)
            time.sleep(0.05)
        ch.send(CONFIG, a0=KC_TIMEOUT_MS, a1=60000)
        ch.send(PING, seq=1)
        ch.until(PONG, seq=1)
        assert a.status()[7] == "attached"
        w = IO(a.path, 0, 1)
        for _ in range(5):
            w.waits(0.1)
            ch.send(PING, seq=2)
        a.enable(ch)
        assert w.done() == 0
        ch.close()
