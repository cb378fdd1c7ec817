#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Simulates the daemon on /dev/ddraid, and makes arrays and I/O for it; runs in a guest.

As a library for kchan_cases.py, and as a program that serves an array until it is killed:  kchan.py serve UUID EPOCH TIMEOUT_MS [LOGFILE]

Nothing here shares code with the daemon: layouts and numbers are typed from include/ddraid/uapi.h once more, so that a slip there is seen
here.
"""

import collections
import contextlib
import errno
import fcntl
import mmap
import os
import select
import signal
import struct
import subprocess
import sys
import threading
import time

DEV = "/dev/ddraid"
NO_MEMBER = 0xffffffff
BLOCK = 4096

# kernel to daemon
APPEARED, RESUMED, REMOVED, LIST_END = 1, 2, 3, 4
HELD, HELD_END, LOCK, CLOSED, REAPED, DRAINED, ERROR, APPLIED, MISMATCH, SUSPEND, PONG, STOPPED = range(16, 28)
# daemon to kernel
(MEMBER, ENABLE, GRANT, REFUSE, REAP, DRAIN, RELEASE, RESOLVE, BITS, FREEZE, THAW, KILL, STATUS,
 PING, CONFIG) = range(64, 79)
F_AHEAD, F_READS, F_RESENT = 1, 4, 8
ABI = 9
SHADOW = 10
KM_OUT, KM_IN_SYNC, KM_REBUILDING, KM_LEAVING = 0, 1, 2, 3
RES_RETRY, RES_FAIL, RES_PASS = 1, 2, 3
KC_TIMEOUT_MS, KC_AHEAD = 1, 2

REC = struct.Struct("=IIQQQiIQQQ")
BIND = struct.Struct("=II16sQIIIIIIQQQIIII11I11IHHI")
IOC_BIND = (3 << 30) | (BIND.size << 16) | (0xdc << 8) | 0x00

Rec = collections.namedtuple("Rec", "type flags seq start count status member a0 a1 a2")
Bound = collections.namedtuple("Bound", "abi flags uuid epoch timeout order parity layout region_sectors "
                               "members data_offset sectors cookie dm_major dm_minor shadow_place shadow_state majors minors lowest highest")


def rec(kind, flags=0, seq=0, start=0, count=0, status=0, member=NO_MEMBER, a0=0, a1=0, a2=0):
    """Bytes of one record."""
    return REC.pack(kind, flags, seq, start, count, status, member, a0, a1, a2)


def code(call, *args, **kwargs):
    """The errno with which a call fails, 0 if it does not."""
    try:
        call(*args, **kwargs)
    except OSError as error:
        return error.errno
    return 0


class Channel:
    """One descriptor of /dev/ddraid; every wait has a limit."""

    def __init__(self):
        self.fd = os.open(DEV, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
        self.queue = collections.deque()

    def bind(self, uuid, epoch, timeout_ms=10000, abi=ABI, flags=0, reserved=(0, 0, 0)):
        data = bytearray(BIND.pack(abi, flags, uuid, epoch, timeout_ms, *[0] * 34, *reserved))
        fcntl.ioctl(self.fd, IOC_BIND, data)
        v = BIND.unpack(data)
        return Bound(*v[:17], v[17:28], v[28:39], *v[39:41])

    def bind_abi(self, uuid):
        """(errno, abi) of a bind with an ABI that does not exist."""
        # more than 1 KiB, or the interpreter does not hand back what a failed call wrote
        data = bytearray(4096)
        data[:BIND.size] = BIND.pack(77, 0, uuid, 1, 10000, *[0] * 37)
        return code(fcntl.ioctl, self.fd, IOC_BIND, data), struct.unpack_from("=I", data)[0]

    def write(self, *records):
        """Bytes taken."""
        return os.write(self.fd, b"".join(records))

    def send(self, kind, **fields):
        """One record, taken."""
        assert os.write(self.fd, rec(kind, **fields)) == REC.size

    def refused(self, kind, **fields):
        """errno of one record, 0 if it was taken."""
        return code(os.write, self.fd, rec(kind, **fields))

    def back(self):
        """The daemon was silent for too long: what it writes first is refused, and the array waits until it enables it again."""
        assert self.refused(CONFIG, a0=KC_TIMEOUT_MS, a1=60000) == errno.ETIME
        self.send(CONFIG, a0=KC_TIMEOUT_MS, a1=60000)
        self.until(STOPPED)
        self.send(ENABLE)

    def poll(self, timeout):
        p = select.poll()
        p.register(self.fd, select.POLLIN)
        events = p.poll(timeout * 1000)
        return events[0][1] if events else 0

    def read(self, timeout=10):
        """List of records, [] at the end of file; raises TimeoutError."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                data = os.read(self.fd, 64 * REC.size)
                assert len(data) % REC.size == 0
                return [Rec(*r) for r in REC.iter_unpack(data)]
            except BlockingIOError:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"nothing to read for {timeout} s") from None
                self.poll(left)

    def next(self, timeout=10):
        if not self.queue:
            self.queue.extend(self.read(timeout))
        assert self.queue, "end of file"
        return self.queue.popleft()

    def spin(self):
        """The next record, read without a sleep: as close to its making as a program can be."""
        while not self.queue:
            with contextlib.suppress(BlockingIOError):
                data = os.read(self.fd, 64 * REC.size)
                self.queue.extend(Rec(*r) for r in REC.iter_unpack(data))
        return self.queue.popleft()

    def expect(self, kind, timeout=10, **fields):
        """The next record; it has to be this one."""
        r = self.next(timeout)
        assert r.type == kind, f"expected type {kind}, got {r}"
        for name, value in fields.items():
            assert getattr(r, name) == value, f"expected {name}={value}: {r}"
        return r

    def until(self, kind, timeout=10, **fields):
        """Skips records up to one of this kind with these fields; returns it."""
        deadline = time.monotonic() + timeout
        while True:
            r = self.next(max(deadline - time.monotonic(), 0.01))
            if r.type == kind and all(getattr(r, n) == v for n, v in fields.items()):
                return r

    def silent(self, seconds=0.3):
        """Nothing comes for so long."""
        assert not self.queue, self.queue
        events = self.poll(seconds)
        assert not events, f"poll says {events:#x}: {self.read(0)}"

    def held(self):
        """Regions declared after a bind."""
        regions = set()
        while True:
            r = self.next()
            if r.type == HELD_END:
                assert r.count == len(regions), r
                return regions
            assert r.type == HELD, r
            run = set(range(r.start, r.start + r.count))
            assert r.count and not run & regions, r
            regions |= run

    def close(self):
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1


class Array:
    """Order 1, one parity, three members, unless given otherwise; made with dmsetup."""

    count = 0

    def __init__(self, region=2048, devices=("/dev/vda", "/dev/vdb", "/dev/vdc"), options="", blocks=8192,
                 uuid=None, name=None, resume=True, order=1, parity=1):
        Array.count += 1
        self.name = name or f"k{Array.count}"
        self.uuid = uuid or os.urandom(16)
        self.region, self.blocks, self.devices, self.options = region, blocks, list(devices), options
        self.order, self.parity = order, parity
        self.offset = 2048
        self.path = f"/dev/mapper/{self.name}"
        self.region_blocks = region // 8
        self.regions = -(-blocks // self.region_blocks)
        self.epoch = 0
        self.dm("create", self.name, "--notable")
        self.dm("load", self.name, "--table", self.table())
        if resume:
            self.dm("resume", self.name)

    def table(self, options=None):
        options = self.options if options is None else options
        u = self.uuid.hex()
        uuid = "-".join((u[:8], u[8:12], u[12:16], u[16:20], u[20:]))
        words = options.split()
        tail = f" {len(words)} {options}" if words else ""
        return (f"0 {self.blocks * 8} ddraid {uuid} {self.order} {self.parity} rotating {self.region} {self.offset} "
                f"{len(self.devices)} {' '.join(self.devices)}{tail}")

    @staticmethod
    def dm(*args, check=True, timeout=30):
        done = subprocess.run(["dmsetup", *args], capture_output=True, text=True, timeout=timeout, check=False)
        assert not check or done.returncode == 0, f"dmsetup {args}: {done.stderr}"
        return done

    def status(self):
        """Words of the status line after the target's name."""
        return self.dm("status", self.name).stdout.split()[3:]

    def parked(self):
        return int(self.status()[6])

    def wait_parked(self, number, timeout=10):
        wait_for(lambda: self.parked() == number, timeout, lambda: self.status())

    def attach(self, timeout_ms=60000, enable=True, ahead=0, abi=ABI):
        """A bound channel after HELD_END, with all members in sync."""
        ch = Channel()
        self.epoch += 1
        self.bound = ch.bind(self.uuid, self.epoch, timeout_ms, abi)
        ch.found = ch.held()
        ch.send(CONFIG, a0=KC_AHEAD, a1=ahead)
        if enable:
            self.enable(ch)
        return ch

    def enable(self, ch):
        """All members in sync, ENABLE. What is read meanwhile (LOCK) stays to be read."""
        due = set()
        for m, device in enumerate(self.devices):
            if device != "-":
                ch.send(MEMBER, seq=1000 + m, member=m, a0=KM_IN_SYNC)
                due.add((1000 + m, m))
        others = []
        while due:
            r = ch.next()
            if r.type == APPLIED:
                due.remove((r.seq, r.member))
            else:
                others.append(r)
        ch.queue.extendleft(reversed(others))
        ch.send(ENABLE)

    def remove(self, *options, check=True):
        return self.dm("remove", *options, self.name, check=check)


def wait_for(true, timeout=10, what=lambda: ""):
    deadline = time.monotonic() + timeout
    while not true():
        assert time.monotonic() < deadline, f"not in {timeout} s: {what()}"
        time.sleep(0.02)


class IO(threading.Thread):
    """
    One O_DIRECT read or write in a thread of its own; .result: None, 0 or an errno.

    A thread that was started may not have submitted yet: if one I/O has to come before something else, call submitted() or waits().
    """

    def __init__(self, path, block, data=None, blocks=1, flags=0):
        super().__init__(daemon=True)
        self.path, self.block, self.blocks, self.flags = path, block, blocks, flags
        self.write = data is not None
        self.area = mmap.mmap(-1, blocks * BLOCK)
        self.area[:] = bytes([data or 0]) * (blocks * BLOCK)    # a read's too: with its pages there, the call waits for its I/O only
        self.result = None
        self.calling = False
        self.start()

    def run(self):
        try:
            fd = os.open(self.path, (os.O_RDWR if self.write else os.O_RDONLY) | os.O_DIRECT | self.flags)
            try:
                call = os.pwritev if self.write else os.preadv
                self.calling = True
                n = call(fd, [self.area], self.block * BLOCK)
                self.result = 0 if n == len(self.area) else errno.ENODATA
            finally:
                os.close(fd)
        except OSError as error:
            self.result = error.errno

    def done(self, timeout=10):
        self.join(timeout)
        assert not self.is_alive(), f"I/O at block {self.block} does not end"
        return self.result

    def sleeps(self):
        """Does its call sleep in the kernel, as one does that waits for I/O?"""
        try:
            with open(f"/proc/self/task/{self.native_id}/stat", encoding="ascii") as f:
                return self.calling and f.read().rpartition(")")[2].split()[0] == "D"
        except (FileNotFoundError, ProcessLookupError):
            return False

    def submitted(self, timeout=10):
        """Until the array has it: it waits there, or has ended. Returns itself."""
        wait_for(lambda: self.sleeps() or not self.is_alive(), timeout, lambda: f"I/O at block {self.block} is not submitted")
        return self

    def waits(self, seconds=0.3):
        """It is submitted, and does not end for so long."""
        self.submitted()
        self.join(seconds)
        assert self.is_alive(), f"I/O at block {self.block} did not wait: {self.result}"


def write(path, block, data, **kwargs):
    return IO(path, block, data, **kwargs).done()


def fio(array, seconds, *more, jobs=2, depth=8, offset=0, size=None, verify=True):
    """fio in the background: random writes that verify themselves."""
    size = size or array.blocks * BLOCK // jobs
    args = ["fio", "--name=k", f"--filename={array.path}", "--ioengine=libaio", "--direct=1", "--rw=randwrite",
            "--bsrange=4k-128k", f"--iodepth={depth}", f"--numjobs={jobs}", f"--offset={offset}", f"--size={size}",
            f"--offset_increment={size}", "--group_reporting", "--time_based", f"--runtime={seconds}",
            "--randrepeat=0", "--verify_fatal=1", *more]
    if verify:
        # of two passes over the file, writes and reads of the same blocks would be under way side by side
        args += ["--verify=crc32c", "--verify_backlog=64", "--serialize_overlap=1"]
    return subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def fio_ends(job, timeout):
    out, _ = job.communicate(timeout=timeout)
    assert job.returncode == 0, out[-3000:]


def fio_ends_now(job):
    """A load that was to go on until here; so far nothing went wrong."""
    assert job.poll() is None, job.communicate()[0][-3000:]
    job.send_signal(signal.SIGINT)
    out, _ = job.communicate(timeout=60)
    assert job.returncode == 128 and "err= 0:" in out, f"code {job.returncode}: {out[-3000:]}"


class Server(threading.Thread):
    """A daemon that grants everything, pings, reaps; its channel may be written by others too."""

    def __init__(self, array, channel, reap=0.0, log=None):
        super().__init__(daemon=True)
        self.array, self.ch, self.reap, self.log = array, channel, reap, log
        self.seen = collections.deque()         # answers that another thread waits for
        self.stop_now = False
        self.held = set(channel.found)
        self.failed = None
        self.locks = 0
        self.start()

    def run(self):
        try:
            self.serve()
        except OSError as error:
            self.failed = error
        except Exception as error:              # pylint: disable=broad-except
            self.failed = error
            raise

    def serve(self):
        ping = reap = time.monotonic()
        seq = 1 << 32
        while self.ch.queue:
            self.one(self.ch.queue.popleft())
        while not self.stop_now:
            now = time.monotonic()
            if now >= ping:
                error = self.ch.refused(PING, seq=seq)
                if error not in (0, errno.ETIME):       # the latter: this process was stopped
                    raise OSError(error, os.strerror(error))
                seq, ping = seq + 1, now + 0.2
            if self.reap and now >= reap:
                self.ch.refused(REAP, seq=seq, count=1 << 40)
                seq, reap = seq + 1, now + self.reap
            if not self.ch.poll(0.1):
                continue
            for r in self.ch.read(1):
                self.one(r)

    def one(self, r):
        run = set(range(r.start, r.start + r.count)) if r.type in (LOCK, CLOSED) else set()
        if r.type == LOCK:
            assert not run & self.held, f"LOCK of what is held: {r}"
            self.locks += 1
            self.held |= run
            assert self.ch.write(rec(GRANT, seq=r.seq, start=r.start, count=r.count)) == REC.size
            if self.log:
                self.log.write(f"grant {r.start} {r.count}\n")
                self.log.flush()
        elif r.type == CLOSED:
            assert run <= self.held, f"CLOSED of what is not held: {r}"
            assert r.status == 0, r
            self.held -= run
        elif r.type == STOPPED:
            self.ch.send(ENABLE)
        elif r.type not in (PONG, REAPED):
            self.seen.append(r)

    def answer(self, kind, timeout=20, **fields):
        """Waits for a record among those that the server does not use itself."""
        deadline = time.monotonic() + timeout
        while True:
            while self.seen:
                r = self.seen.popleft()
                if r.type == kind and all(getattr(r, n) == v for n, v in fields.items()):
                    return r
            assert not self.failed, self.failed
            assert time.monotonic() < deadline, f"no answer {kind} {fields}"
            time.sleep(0.005)

    def stop(self):
        self.stop_now = True
        self.join(10)
        assert not self.is_alive() and not self.failed, self.failed


def serve_main(uuid, epoch, timeout_ms, log):
    """Program: serve until killed."""
    array = Array.__new__(Array)
    array.uuid, array.epoch = bytes.fromhex(uuid), epoch - 1
    array.devices = ["x"] * 3
    ch = array.attach(timeout_ms)
    with open(log, "a", encoding="ascii") as out:
        out.write(f"attached {len(ch.found)}\n")
        out.flush()
        server = Server(array, ch, log=out)
        server.join()
        sys.exit(str(server.failed))


class Daemon:
    """The same as a process, to be killed or stopped."""

    def __init__(self, array, timeout_ms=2000):
        array.epoch += 1
        self.log = f"/tmp/kchan-{array.name}-{array.epoch}.log"
        self.process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "serve", array.uuid.hex(),
                                         str(array.epoch), str(timeout_ms), self.log])
        wait_for(lambda: os.path.exists(self.log) and os.path.getsize(self.log), 15)

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait(10)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve_main(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
