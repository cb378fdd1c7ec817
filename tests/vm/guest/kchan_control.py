# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases: descriptors, bind, the gate, members and the small commands. See kchan_cases.py."""
import ctypes
import errno
import os
import select
import struct
import subprocess
import sys
import threading
import time

import kchan
from kchan import (APPEARED, APPLIED, Array, BITS, CONFIG, Channel, DRAIN, DRAINED, FREEZE, F_READS, GRANT, IO,
                   KC_AHEAD, KC_TIMEOUT_MS, KILL, KM_IN_SYNC, KM_LEAVING, KM_OUT, KM_REBUILDING, LIST_END, LOCK,
                   MEMBER, NO_MEMBER, PING, PONG, REMOVED, RESUMED, STATUS, THAW, code, wait_for)
from kchan_common import RB, array, stops, written

# ---- control descriptor, bind ---------------------------------------------------------------

def case_control():
    """The list on open, then what appears, is resumed and disappears."""
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
    """A reader that falls behind gets the whole list again; nothing that exists is missing in it."""
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
        assert ch.bind_abi(a.uuid) == (errno.EPROTO, kchan.ABI)
        assert code(ch.bind, a.uuid, 1, flags=2) == errno.EINVAL
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
        assert b.majors[3:] == b.minors[3:] == (0,) * 8
        st = os.stat(a.path)
        assert (b.dm_major, b.dm_minor) == (os.major(st.st_rdev), os.minor(st.st_rdev))
        with open("/sys/module/dm_ddraid/parameters/protocol", encoding="ascii") as f:
            assert [b.lowest, b.highest] == list(map(int, f.read().split()))
        assert 0 < b.lowest <= b.highest
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


def bound_before_resume(a):
    """An array that was loaded and not resumed is bound and enabled; what the control descriptor reports next."""
    control = Channel()
    control.until(LIST_END)
    ch = Channel()
    assert code(ch.bind, a.uuid, 1) == errno.EAGAIN
    a.epoch = 1
    b = ch.bind(a.uuid, 1, flags=1)
    assert b.flags == 1 and [os.makedev(*n) for n in zip(b.majors[:3], b.minors[:3])] == [os.stat(d).st_rdev for d in a.devices]
    assert ch.held() == set()
    a.enable(ch)
    return control, ch


def case_bind_loaded():
    """An array is served before its device is there. The first resume of another table, or without the daemon, waits for a daemon all the same."""
    with array(resume=False) as a:
        control, ch = bound_before_resume(a)
        assert ch.refused(MEMBER, seq=9, member=1, a0=KM_IN_SYNC) == 0
        ch.until(APPLIED, seq=9)
        assert a.dm("status", a.name).stdout.strip() == ""
        a.dm("resume", a.name)
        control.expect(RESUMED, count=1)
        assert IO(a.path, 0).done() == 0
        a.dm("suspend", a.name)
        a.dm("resume", a.name)
        control.expect(RESUMED, count=0)
        ch.close()
        control.close()
    with array(resume=False) as a:
        control, ch = bound_before_resume(a)
        a.devices = [a.devices[1], a.devices[0], a.devices[2]]
        a.dm("load", a.name, "--table", a.table())
        a.dm("resume", a.name)
        control.expect(RESUMED, count=0)
        read = IO(a.path, 0)
        read.waits()
        ch.send(kchan.ENABLE)           # it does not know of that table
        read.waits()
        ch.close()
        ch = a.attach()
        assert read.done() == 0
        ch.close()
        control.close()
    with array(resume=False) as a:
        control, ch = bound_before_resume(a)
        ch.close()
        a.dm("resume", a.name)
        read = IO(a.path, 0)
        read.waits()
        ch = a.attach()
        assert read.done() == 0
        ch.close()
        control.close()


def case_not_root():
    """No process without CAP_SYS_ADMIN opens the device, whatever its mode."""
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
    """Nothing runs before ENABLE; reads continue without a daemon after it."""
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
        ch = a.attach()
        written(a, ch, 0)
        w = IO(a.path, 2 * RB, 1)
        ch.until(LOCK)
        w.waits()
        before = stops(a)
        ch.send(CONFIG, a0=KC_TIMEOUT_MS, a1=4000)
        ch.close()
        assert w.done() == errno.EIO
        assert IO(a.path, 0).done() == 0                # reads continue
        assert IO(a.path, 4 * RB, 1).done() == errno.EIO
        wait_for(lambda: stops(a) > before, 60)
        assert IO(a.path, 0, 1).done() == errno.EIO     # granted, but the time is over
        ch = a.attach()
        assert IO(a.path, 0, 1).done() == 0
        ch.close()


def case_fail_if_no_daemon_ex():
    """Bios that wait behind an EX range wait for the daemon, which alone can end it; those that wait for another write do not."""
    with array(options="fail_if_no_daemon") as a:
        ch = a.attach()
        written(a, ch, 0)
        ch.send(DRAIN, seq=20, start=0, count=4)
        ch.until(DRAINED, seq=20)
        waiting = [IO(a.path, 0, 1), IO(a.path, 3, 2, blocks=4).submitted()]
        waiting += [IO(a.path, 6, 3)]                   # waits for the one before it
        for w in waiting:
            w.waits(0.1)
        ch.close()
        assert [w.done() for w in waiting] == [errno.EIO, errno.EIO, 0]
        assert IO(a.path, 2, 1).done() == errno.EIO
        assert IO(a.path, 4, 1).done() == 0
        assert IO(a.path, 0).done() == 0
        ch = a.attach(enable=False)                     # it may release them yet
        w = IO(a.path, 0, 1)
        w.waits()
        a.enable(ch)
        assert w.done() == 0 and a.parked() == 0
        ch.close()


# ---- members, small commands --------------------------------------------------------------------------

def case_member():
    with array(devices=["/dev/vda", "/dev/vdb", "-"]) as a:
        ch = a.attach(enable=False)
        good = {"seq": 5, "member": 0, "a0": KM_IN_SYNC}
        assert ch.refused(MEMBER, **{**good, "seq": 0}) == errno.EINVAL
        assert ch.refused(MEMBER, **{**good, "member": 3}) == errno.ERANGE
        assert ch.refused(MEMBER, **{**good, "member": NO_MEMBER}) == errno.ERANGE
        assert ch.refused(MEMBER, **{**good, "a0": 4}) == errno.EINVAL
        assert ch.refused(MEMBER, **{**good, "a0": 1 << 32}) == errno.EINVAL
        assert ch.refused(MEMBER, **{**good, "start": 1}) == errno.ERANGE
        assert ch.refused(MEMBER, **{**good, "member": 2}) == errno.ENODEV
        assert ch.refused(MEMBER, **{**good, "a0": KM_LEAVING, "start": 1}) == errno.ERANGE
        assert ch.refused(MEMBER, seq=5, member=1, a0=KM_REBUILDING, start=a.blocks + 1) == errno.ERANGE
        assert a.status()[0] == "DD-", a.status()
        ch.send(MEMBER, seq=6, member=1, a0=KM_REBUILDING, start=a.blocks)
        ch.expect(APPLIED, seq=6, member=1)
        for state in (KM_OUT, KM_LEAVING):              # no device is needed for either
            ch.send(MEMBER, seq=7, member=2, a0=state)
            ch.expect(APPLIED, seq=7, member=2)
        for state, letter in ((KM_LEAVING, "a"), (KM_OUT, "D"), (KM_LEAVING, "D")):     # a member that was reported as failed stays failed
            ch.send(MEMBER, seq=8, member=0, a0=state)
            ch.expect(APPLIED, seq=8, member=0)
            assert a.status()[0] == f"{letter}a-", a.status()
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
        assert ch.poll(10) & select.POLLIN
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.read(ch.fd, ctypes.c_void_p(8), ctypes.c_size_t(4096)) == -1
        assert ctypes.get_errno() == errno.EFAULT
        assert libc.write(ch.fd, ctypes.c_void_p(8), ctypes.c_size_t(64)) == -1
        assert ctypes.get_errno() == errno.EFAULT
        r = ch.expect(LOCK, start=7)                    # nothing was lost
        assert r.flags == 0
        # write() stops at the first bad record, and returns how much it took
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
