# SPDX-License-Identifier: GPL-2.0-or-later
"""Cases: suspend, remove, reload, and errors of members. See kchan_cases.py."""
import contextlib
import errno
import os
import pathlib
import select
import signal
import struct
import subprocess
import threading
import time

import kchan
from kchan import (APPLIED, Array, CLOSED, Channel, DRAIN, DRAINED, ENABLE, ERROR, FREEZE, F_READS, F_RESENT, GRANT,
                   IO, KM_IN_SYNC, KM_OUT, LIST_END, LOCK, MEMBER, PING, REAP, REAPED, RELEASE, REMOVED, RESOLVE,
                   SUSPEND, Server, THAW, fio, fio_ends, rec, wait_for)
from kchan_common import RB, array, grant, written

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
    """All parked bios go back to dm, and come again with the resume."""
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
        # the LOCK is still open, or was requested again: one answer is enough
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


@contextlib.contextmanager
def slow_rcu(jiffies=600):
    """A processor that idles is found to do so after so long: what waits for RCU waits."""
    path = pathlib.Path("/sys/module/rcutree/parameters/jiffies_till_first_fqs")
    usual = path.read_text(encoding="ascii")
    path.write_text(str(jiffies), encoding="ascii")
    try:
        yield
    finally:
        path.write_text(usual, encoding="ascii")


class Changes(threading.Thread):
    """Changes members on a channel until the array is gone, and closes it then: nothing else holds the array."""

    def __init__(self, ch):
        super().__init__(daemon=True)
        self.ch, self.taken, self.refused = ch, 0, None
        self.start()

    def run(self):
        while self.refused != errno.ENODEV:
            while self.ch.poll(0.01) & select.POLLIN and self.ch.read():
                pass                                    # a member whose APPLIED was not read is not changed again
            for m in range(3):
                self.refused = self.ch.refused(MEMBER, seq=70 + m, member=m, a0=KM_IN_SYNC)
                self.taken += self.refused == 0
        self.ch.close()


def case_removed_while_turning(times="3"):
    """An array that is removed while a change of its members waits for an RCU grace period, and nothing waits for that change, waits for it
    itself.
    """
    with slow_rcu():                                    # a change takes a second: one is always under way
        for _ in range(int(times)):
            with array() as a:
                changes = Changes(a.attach(enable=False))
                wait_for(lambda changes=changes: changes.taken > 3)
                a.remove()
                changes.join(10)
                assert not changes.is_alive() and changes.refused == errno.ENODEV
    time.sleep(2)                                       # the last change; the kernel's log is looked at


def case_removed_behind_ex():
    """An array that is removed while one EX waits behind another, and whose daemon released neither, ends both before it frees what they
    use.
    """
    for _ in range(4):
        with array() as a:
            ch = a.attach()
            ch.send(DRAIN, seq=1, start=0, count=1)
            ch.until(DRAINED, seq=1)
            ch.send(DRAIN, seq=2, start=0, count=2)
            ch.silent(0.1)
            a.remove()
            ch.close()
    time.sleep(1)                                       # the array is freed by and by; the kernel's log is looked at


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
    """The module can be unloaded when nothing uses it, and loaded again."""
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
    """CLOSED records of all idle grants: the clock completes two rounds."""
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
