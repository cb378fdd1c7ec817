# SPDX-License-Identifier: GPL-2.0-or-later
"""The agent in the guest: runs commands for the harness over a virtio-serial port.

One thread, one poll loop, any number of commands at once.  A frame is two
little-endian u32 (length of the JSON header, length of the raw body), the
header, the body; the same in both directions.

host -> guest   {"op": "begin", "name": n, "time": t}   body: random bytes. Once after each "up", before all else; name and time only
                                                where the machine goes on from a saved state, which had another one's
                {"op": "spawn", "id": n, "cmd": string or list, "env": {}}  body: stdin
                {"op": "kill", "id": n, "signal": s}    the whole process group
                {"op": "put", "id": n, "path": p, "mode": m, "append": bool}  body: data
                {"op": "get", "id": n, "path": p}
guest -> host   {"ev": "up"}                            the first of all, then nothing until "begin"
                {"ev": "hello", "boot_id": ...}         it has begun
                {"ev": "out", "id": n, "fd": 1 or 2}    body: data
                {"ev": "exit", "id": n, "code": c}      c < 0: ended by signal -c
                {"ev": "done", "id": n, "error": text or null}   body: data of a get
"""

import fcntl
import json
import os
import select
import signal
import struct
import subprocess
import time

CHUNK = 1 << 16
PORT_NAME = "ddvm.agent"
READY = "/run/ddvm.ready"
RNDRESEEDCRNG = 0x5207


def find_port():
    """Device of the port that the harness speaks on."""
    base = "/sys/class/virtio-ports"
    for name in os.listdir(base):
        with open(f"{base}/{name}/name", encoding="ascii") as handle:
            if handle.read().strip() == PORT_NAME:
                return f"/dev/{name}"
    raise SystemExit("no port " + PORT_NAME)


class Job:
    """A started command: its process, its two pipes, its pidfd."""

    def __init__(self, ident, head, stdin):
        self.ident = ident
        command = head["cmd"]
        argv = ["sh", "-c", command] if isinstance(command, str) else command
        env = dict(os.environ, **head.get("env", {}))
        with os.fdopen(os.memfd_create("stdin"), "w+b") as data:
            data.write(stdin)
            data.seek(0)
            self.proc = subprocess.Popen(
                argv, stdin=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env=env, cwd="/root", preexec_fn=self._in_child)
        self.pidfd = os.pidfd_open(self.proc.pid)
        self.pipes = {self.proc.stdout.fileno(): 1, self.proc.stderr.fileno(): 2}
        for fd in self.pipes:
            os.set_blocking(fd, False)

    @staticmethod
    def _in_child():
        os.setsid()
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as handle:
            handle.write("0")


class Agent:
    """The loop."""

    def __init__(self):
        self.port = os.open(find_port(), os.O_RDWR | os.O_CLOEXEC)
        self.poll = select.poll()
        self.poll.register(self.port, select.POLLIN)
        self.jobs = {}      # id -> Job that has not ended
        self.by_fd = {}     # pidfd or pipe -> (Job, 0 | 1 | 2)
        self.buffer = bytearray()

    def send(self, head, body=b""):
        raw = json.dumps(head).encode()
        data = memoryview(struct.pack("<II", len(raw), len(body)) + raw + body)
        while data:
            data = data[os.write(self.port, data[:CHUNK]):]

    def watch(self, fd, job, kind):
        self.by_fd[fd] = (job, kind)
        self.poll.register(fd, select.POLLIN)

    def unwatch(self, fd):
        self.poll.unregister(fd)
        del self.by_fd[fd]

    def begin(self, head, body):
        """Becomes a machine of its own. Nothing may read the boot id before: the kernel makes it at the first read."""
        if "name" in head:
            name = head["name"]
            time.clock_settime(time.CLOCK_REALTIME, head["time"])
            with open("/dev/urandom", "wb", buffering=0) as handle:
                handle.write(body)
                fcntl.ioctl(handle, RNDRESEEDCRNG)
            for path, text in (("/proc/sys/kernel/hostname", name), ("/etc/hostname", f"{name}\n"),
                               ("/etc/hosts", f"127.0.0.1 localhost\n127.0.1.1 {name}\n"),
                               ("/dev/kmsg", f"ddvm: goes on as {name}\n")):
                with open(path, "w", encoding="ascii") as handle:
                    handle.write(text)
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as handle:
            self.send({"ev": "hello", "boot_id": handle.read().strip()})

    def spawn(self, head, body):
        ident = head["id"]
        try:
            job = Job(ident, head, body)
        except OSError as error:
            self.send({"ev": "out", "id": ident, "fd": 2}, str(error).encode())
            self.send({"ev": "exit", "id": ident, "code": 127})
            return
        self.jobs[ident] = job
        self.watch(job.pidfd, job, 0)
        for fd, kind in job.pipes.items():
            self.watch(fd, job, kind)

    def kill(self, head, _body):
        job = self.jobs.get(head["id"])
        if job:
            try:
                os.killpg(job.proc.pid, head["signal"])
            except ProcessLookupError:
                pass

    def put(self, head, body):
        flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if head.get("append") else os.O_TRUNC)
        fd = os.open(head["path"], flags, head.get("mode", 0o644))
        with os.fdopen(fd, "wb") as handle:
            handle.write(body)
        return b""

    def get(self, head, _body):
        with open(head["path"], "rb") as handle:
            return handle.read()

    def file_op(self, head, body):
        try:
            data, error = getattr(self, head["op"])(head, body), None
        except OSError as failed:
            data, error = b"", str(failed)
        self.send({"ev": "done", "id": head["id"], "error": error}, data)

    def dispatch(self, head, body):
        if head["op"] in ("put", "get"):
            self.file_op(head, body)
        elif head["op"] in ("begin", "spawn", "kill"):
            getattr(self, head["op"])(head, body)

    def read_port(self):
        data = os.read(self.port, CHUNK)
        if not data:
            raise SystemExit("the harness closed the port")
        self.buffer += data
        while len(self.buffer) >= 8:
            head_len, body_len = struct.unpack_from("<II", self.buffer)
            end = 8 + head_len + body_len
            if len(self.buffer) < end:
                break
            head = json.loads(bytes(self.buffer[8:8 + head_len]))
            body = bytes(self.buffer[8 + head_len:end])
            del self.buffer[:end]
            self.dispatch(head, body)

    def read_pipe(self, fd, job, kind):
        """Pass on what the pipe holds; True while there may be more at once.

        What a command wrote to its standard error before what is read here from its standard output is sent first: a reader that sees the
        one may look for the other.
        """
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return False
        if kind == 1:
            self.read_errors_of(job)
        if not data:
            self.unwatch(fd)
            (job.proc.stdout if kind == 1 else job.proc.stderr).close()
            return False
        if job.ident in self.jobs:
            self.send({"ev": "out", "id": job.ident, "fd": kind}, data)
        return True

    def read_errors_of(self, job):
        """Pass on what the command's standard error holds (a pipe holds no more than CHUNK)."""
        for fd, kind in job.pipes.items():
            if kind == 2 and fd in self.by_fd and self.by_fd[fd][0] is job:
                self.read_pipe(fd, job, kind)

    def ended(self, job):
        """The command itself has ended; what it left in its pipes still counts.

        A process that it left behind may hold the pipes open: they stay read, so that it does not block, but nothing waits for them.
        """
        for fd, kind in job.pipes.items():
            while fd in self.by_fd and self.by_fd[fd][0] is job:
                if not self.read_pipe(fd, job, kind):
                    break
        self.unwatch(job.pidfd)
        os.close(job.pidfd)
        code = job.proc.wait()
        del self.jobs[job.ident]
        self.send({"ev": "exit", "id": job.ident, "code": code})

    def run(self):
        while not os.path.exists(READY):
            time.sleep(0.02)
        self.send({"ev": "up"})
        while True:
            for fd, _events in self.poll.poll():
                if fd == self.port:
                    self.read_port()
                elif fd in self.by_fd:
                    job, kind = self.by_fd[fd]
                    if kind:
                        self.read_pipe(fd, job, kind)
                    else:
                        self.ended(job)


if __name__ == "__main__":
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as adjust:
        adjust.write("-1000")
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    Agent().run()
