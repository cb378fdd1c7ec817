# SPDX-License-Identifier: GPL-2.0-or-later
"""The command `ddraid` and the process that answers under the daemon's name: strangers, and processes that do not answer.

Each test has a network namespace of its own, since the names of abstract sockets belong to a network namespace: the test does not meet this
machine's daemon. The real daemon is stopped in tests/vm/findings/find_command.py.
"""
import concurrent.futures
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
DDRAID = pathlib.Path(os.environ.get("DDRAID_BUILDDIR", TOP / "build")) / "cli" / "ddraid"
NOBODY = 65534
# argv: uid, and how many connections may wait. libqb fills the rest of the address with zeros.
SERVER = """
import os, socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
os.setresuid(*[int(sys.argv[1])] * 3)
s.bind((b"\\0ddraidd").ljust(108, b"\\0"))
s.listen(int(sys.argv[2]))
print("up", flush=True)
got = b""
while True:
    c, _ = s.accept()
    while data := c.recv(4096):
        os.write(1, b"got %d\\n" % len(data))        # in one piece: it may be killed at once
"""
# The one client that a server with a backlog of 0 has room for.
CLIENT = """
import socket, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
s.connect((b"\\0ddraidd").ljust(108, b"\\0"))
print("in", flush=True)
time.sleep(600)
"""
COMMANDS = (("status",), ("when",), ("events",), ("stop", "x"), ("start", "x"), ("set", "x"), ("fail", "x", "1"), ("fence-ack", "2"),
            ("grow", "x"), ("verify", "x", "start"), ("add", "x", "/dev/null"), ("estimate", "x", "--rate", "1M"))

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces and other users need root")


class Server:
    """A process in a network namespace of its own that has taken the daemon's name."""

    def __init__(self, uid, backlog=16):
        self.process = subprocess.Popen(["unshare", "--net", sys.executable, "-c", SERVER, str(uid), str(backlog)],
                                        stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "up\n"

    @property
    def pid(self):
        return self.process.pid

    def ddraid(self, *args, timeout=30):
        began = time.monotonic()
        done = subprocess.run(["nsenter", f"--net=/proc/{self.pid}/ns/net", DDRAID, *args], capture_output=True, text=True,
                              timeout=timeout, check=False)
        self.took = time.monotonic() - began
        return done

    def end(self):
        self.process.kill()
        self.process.wait()
        return self.process.stdout.read()


@pytest.fixture
def server():
    servers = []

    def make(*args, **kwargs):
        servers.append(Server(*args, **kwargs))
        return servers[-1]
    yield make
    for s in servers:
        s.end()


def one_line(done, code=1):
    assert done.returncode == code and done.stdout == "", done
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


@pytest.mark.parametrize("args", COMMANDS, ids=lambda args: args[0])
def test_a_stranger_is_told_nothing(server, args):
    """Finding U2: a process of another user that has taken the daemon's name receives no request, and is named, with what to do."""
    stranger = server(NOBODY)
    line = one_line(stranger.ddraid(*args))
    assert f"process {stranger.pid}" in line and "user 65534" in line and f"kill {stranger.pid}" in line, line
    assert "start ddraidd" in line
    # the first message of libqb, before it is known who listens: the maximum message size, and nothing of ours
    assert stranger.end() in ("", "got 24\n")
    assert stranger.took < 3


def test_a_process_that_is_stopped_is_named(server):
    """Finding S20: every command ends within seconds, names the process that does not answer, and says what resumes it."""
    daemon = server(0)
    os.kill(daemon.pid, signal.SIGSTOP)
    with concurrent.futures.ThreadPoolExecutor(len(COMMANDS)) as pool:
        for done in pool.map(lambda args: daemon.ddraid(*args, timeout=15), COMMANDS):
            line = one_line(done)
            assert f"process {daemon.pid}" in line and "is stopped" in line and f"kill -CONT {daemon.pid}" in line, line


def test_a_process_that_runs_and_says_nothing(server):
    """Finding S20: it accepts, and never answers."""
    daemon = server(0)
    line = one_line(daemon.ddraid("status"))
    assert f"process {daemon.pid}" in line and "does not answer" in line and "systemctl status ddraidd" in line, line
    assert daemon.took < 8


def test_a_stopped_process_that_takes_no_more_connections(server):
    """Finding S20: more clients wait already than it has room for; that is no "try again in a moment"."""
    daemon = server(0, backlog=0)
    os.kill(daemon.pid, signal.SIGSTOP)
    first = subprocess.Popen(["nsenter", f"--net=/proc/{daemon.pid}/ns/net", sys.executable, "-c", CLIENT], stdout=subprocess.PIPE, text=True)
    try:
        assert first.stdout.readline() == "in\n"
        for _ in range(2):
            line = one_line(daemon.ddraid("status"))
            assert "does not answer" in line and "systemctl status ddraidd" in line, line
            assert daemon.took < 8
    finally:
        first.kill()
        first.wait()


def test_stop_force_goes_on_without_an_answer(server):
    """--force needs no daemon, but reports what is wrong with the one that is there."""
    stranger = server(NOBODY)
    done = stranger.ddraid("stop", "no-such-array", "--force")
    assert done.returncode == 1
    assert "warning" in done.stderr and f"process {stranger.pid}" in done.stderr, done.stderr


def test_nobody_there():
    """Finding T15: "it does not run" is printed only where that is true."""
    for args in COMMANDS:
        done = subprocess.run(["unshare", "--net", DDRAID, *args], capture_output=True, text=True, timeout=30, check=False)
        line = one_line(done)
        assert "ddraidd is not running" in line and "systemctl start ddraidd" in line, line


def test_S21_a_monitor_has_its_answer_in_time(server):
    """Finding S21: `status --check` ends with 3 within five seconds where nothing can be known, and with 64 where it is used wrongly."""
    daemon = server(0)
    for stop in (False, True):
        if stop:
            os.kill(daemon.pid, signal.SIGSTOP)
        line = one_line(daemon.ddraid("status", "--check"), 3)
        assert f"process {daemon.pid}" in line and daemon.took < 5.5, (line, daemon.took)
    one_line(server(NOBODY).ddraid("status", "--check"), 3)
    done = subprocess.run(["unshare", "--net", DDRAID, "status", "--check", "data"], capture_output=True, text=True, timeout=30, check=False)
    assert "ddraidd is not running" in one_line(done, 3)
    for args in (("--check", "a", "b"), ("--check", "--bad"), ("--bad", "--check"), ("a", "b", "--che")):
        done = subprocess.run([DDRAID, "status", *args], capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 64 and "usage: ddraid status" in done.stderr, done
    assert subprocess.run([DDRAID, "status", "a", "b"], capture_output=True, timeout=30, check=False).returncode == 2
    assert subprocess.run([DDRAID, "when", "--check"], capture_output=True, timeout=30, check=False).returncode == 2
