# SPDX-License-Identifier: GPL-2.0-or-later
"""The host's end of the agent channel (frames: see guest/agent.py).

A thread reads all the time, so that the guest never blocks on output.  When
the machine dies, everything that waits gets NodeDied, never silence.
"""

import json
import signal
import socket
import struct
import threading
import time

from .config import time_scale


class NodeDied(Exception):
    """The machine ended, or was killed, while something waited for it."""


class CommandFailed(AssertionError):
    """A checked command ended with a code other than 0."""


class CommandTimeout(AssertionError):
    """A command did not end in its time; it was sent SIGKILL."""


class Result:
    """What a command did: `code` (negative: signal), `out`, `err` as text."""

    def __init__(self, code, out, err):
        self.code, self.raw, self.raw_err = code, out, err

    @property
    def out(self):
        return self.raw.decode(errors="replace")

    @property
    def err(self):
        return self.raw_err.decode(errors="replace")

    def __repr__(self):
        return f"Result(code={self.code}, out={self.out!r}, err={self.err!r})"


class Job:
    """A command that runs in the guest."""

    def __init__(self, channel, ident, command):
        self.channel, self.ident, self.command = channel, ident, command
        self.output = {1: bytearray(), 2: bytearray()}
        self.code = None
        self.heard = None       # called with (1 or 2, bytes) for each piece of output
        self.changed = channel.changed

    @property
    def out(self):
        """Standard output so far, as text."""
        return bytes(self.output[1]).decode(errors="replace")

    @property
    def err(self):
        return bytes(self.output[2]).decode(errors="replace")

    def listen(self, heard):
        """From now on heard(1 or 2, bytes) is called at once for each piece of output, and now for what came before. It must not wait."""
        with self.changed:
            for fd, data in self.output.items():
                if data:
                    heard(fd, bytes(data))
            self.heard = heard

    def poll(self):
        """Exit code, or None while the command runs."""
        return self.code

    def kill(self, sig=signal.SIGKILL):
        """Send a signal to the command's whole process group."""
        self.channel.send({"op": "kill", "id": self.ident, "signal": int(sig)})

    def _result(self):
        return Result(self.code, bytes(self.output[1]), bytes(self.output[2]))

    def wait(self, timeout=60, check=False):
        """Result of the command; CommandTimeout after `timeout` seconds.

        With `check`, CommandFailed unless the code is 0.
        """
        if not self.channel.wait_for(lambda: self.code is not None, timeout):
            self.kill()
            self.channel.wait_for(lambda: self.code is not None, 2)
            raise CommandTimeout(f"{self.channel.name}: no end after {timeout} s: "
                                 f"{self.command}\nout: {self.out[-2000:]}\n"
                                 f"err: {self.err[-2000:]}")
        if check and self.code != 0:
            raise CommandFailed(f"{self.channel.name}: code {self.code}: {self.command}\n"
                                f"out: {self.out[-4000:]}\nerr: {self.err[-4000:]}")
        return self._result()

    def wait_output(self, text, timeout=60):
        """Wait until `text` was printed on either stream; AssertionError if it never is."""
        def seen():
            return text in self.out or text in self.err
        self.channel.wait_for(lambda: seen() or self.code is not None, timeout)
        assert seen(), (f"{self.channel.name}: {self.command}: {text!r} not printed; "
                        f"code {self.code}, out: {self.out[-2000:]} err: {self.err[-2000:]}")


class Channel:
    """Connection to one boot of a guest."""

    def __init__(self, path, name):
        self.name = name
        self.changed = threading.Condition()
        self.jobs, self.replies = {}, {}
        self.up, self.boot_id, self.dead = False, None, False
        self.begun = None       # passed to the agent when it began
        self.last_id = 0
        self.send_lock = threading.Lock()
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(path))
        threading.Thread(target=self._reader, daemon=True).start()

    def close(self):
        self.sock.close()
        self._died()

    def _died(self):
        with self.changed:
            self.dead = True
            self.changed.notify_all()

    def _read_exactly(self, stream, count):
        data = stream.read(count)
        if data is None or len(data) < count:
            raise EOFError
        return data

    def _reader(self):
        try:
            with self.sock.makefile("rb") as stream:
                while True:
                    head_len, body_len = struct.unpack("<II", self._read_exactly(stream, 8))
                    head = json.loads(self._read_exactly(stream, head_len))
                    self._event(head, self._read_exactly(stream, body_len))
        except (EOFError, OSError, ValueError):
            self._died()

    def _event(self, head, body):
        with self.changed:
            job = self.jobs.get(head.get("id"))
            if head["ev"] == "up":
                self._lost_jobs()
                self.up = True
                if self.begun:          # it was started again
                    self.send(*self.begun)
            elif head["ev"] == "hello":
                self.boot_id = head["boot_id"]
            elif head["ev"] == "out" and job:
                job.output[head["fd"]] += body
                if job.heard:
                    job.heard(head["fd"], body)
            elif head["ev"] == "exit" and job:
                job.code = head["code"]
                del self.jobs[head["id"]]
            elif head["ev"] == "done":
                self.replies[head["id"]] = (head["error"], body)
            self.changed.notify_all()

    def _lost_jobs(self):
        """The agent has (re)started: the jobs of an earlier one are out of its reach."""
        for job in self.jobs.values():
            job.output[2] += b"the agent in the guest was restarted"
            job.code = 255
        self.jobs.clear()

    def begin(self, head, body=b""):
        """The agent may begin; it answers with its boot id."""
        self.begun = {"op": "begin", **head}, body
        self.send(*self.begun)

    def wait_for(self, condition, timeout):
        """True once `condition()` holds; NodeDied when it cannot any more."""
        deadline = time.monotonic() + timeout * time_scale()
        with self.changed:
            while not condition():
                if self.dead:
                    raise NodeDied(f"{self.name}: the machine is gone")
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                self.changed.wait(left)
        return True

    def send(self, head, body=b""):
        raw = json.dumps(head).encode()
        try:
            with self.send_lock:
                self.sock.sendall(struct.pack("<II", len(raw), len(body)) + raw + body)
        except OSError as error:
            self._died()
            raise NodeDied(f"{self.name}: the machine is gone") from error

    def _next_id(self):
        with self.changed:
            self.last_id += 1
            return self.last_id

    def spawn(self, command, stdin=b"", env=None):
        job = Job(self, self._next_id(), command)
        with self.changed:
            self.jobs[job.ident] = job
        self.send({"op": "spawn", "id": job.ident, "cmd": command, "env": env or {}}, stdin)
        return job

    def file_op(self, head, body=b"", timeout=60):
        """A put or get; returns the data, OSError with the guest's reason if it failed."""
        ident = self._next_id()
        self.send(dict(head, id=ident), body)
        if not self.wait_for(lambda: ident in self.replies, timeout):
            raise CommandTimeout(f"{self.name}: no answer to {head}")
        error, data = self.replies.pop(ident)
        if error:
            raise OSError(f"{self.name}: {error}")
        return data
