# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases: daemons that send anything. See kchan_cases.py."""
import errno
import os
import random
import struct
import threading
import time

import kchan
from kchan import (BITS, CONFIG, DRAIN, DRAINED, ENABLE, FREEZE, F_READS, GRANT, IO, KILL, KM_IN_SYNC, LOCK,
                   MEMBER, PING, REAP, REFUSE, RELEASE, RESOLVE, STATUS, Server, THAW, code, fio, fio_ends)
from kchan_common import RB, array, written

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
                         flags=rng.choice((0, 0, 2, 1)))
    if kind == MEMBER:                  # never one that puts a member out
        return kchan.rec(kind, seq=seq, member=rng.randrange(5), a0=rng.choice((KM_IN_SYNC, 4, 7)), start=number(2))
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
            """Grants each request, undoes what the fuzz blocks, reads everything."""
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
        # what the fuzz still holds under unknown numbers is dropped by a new bind
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
