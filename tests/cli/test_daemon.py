# SPDX-License-Identifier: GPL-2.0-or-later
"""ddraidd itself: its arguments, its configuration, how it starts and ends.

A daemon that runs has a network and a mount namespace of its own: it does not meet this machine's daemon (the names of abstract sockets
belong to a network namespace), and it finds no kernel module, no corosync and no disks but what the test gives it.
"""
import json
import os
import pathlib
import resource
import signal
import subprocess
import time

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("DDRAID_BUILDDIR", TOP / "build")).resolve()
DDRAIDD, DDRAID = BUILD / "daemon" / "ddraidd", BUILD / "cli" / "ddraid"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")


def call(*args, **kwargs):
    return subprocess.run([DDRAIDD, *args], capture_output=True, text=True, timeout=60, check=False, **kwargs)


def refused(done, code, *texts):
    assert done.returncode == code and not done.stdout, (done.returncode, done.stdout)
    for text in texts:
        assert text in done.stderr, done.stderr


# ---- what it is called with -----------------------------------------------------------------

def test_help_and_version():
    assert call("--help").stdout.startswith("usage: ddraidd ")
    assert call("-V").stdout.startswith("ddraidd ")
    assert call("-h").returncode == call("--version").returncode == 0


@pytest.mark.parametrize("args", (("--nonsense",), ("-c",), ("-f", "-x")))
def test_unknown_options(args):
    refused(call(*args), 2, "usage: ddraidd ")


def test_unexpected_argument():
    refused(call("-f", "start"), 2, "unexpected argument 'start'", "usage: ddraidd ")


# ---- what stands in its configuration -------------------------------------------------------

HOSTILE = (b"nonsense = 1\n", b"transport = token-ring\n", b"transport\n", b"io_timeout = -1\n", b"io_timeout = 99999999999999999999999\n",
           b"io_timeout = 60x\n", b"= 5\n", b"transport = local\ntransport = auto\n", b"fence_command = " + b"x" * 100000 + b"\n", b"\xff\xfe\0\0 = 1\n",
           b"io_timeout = 6\x000\n")


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_configuration(tmp_path, text):
    """The file and the line are named, and nothing is started: neither a daemon nor a dump of the configuration."""
    conf = tmp_path / "ddraid.conf"
    conf.write_bytes(b"# a comment\n" + text)
    for option in ("-f", "--dump-config", "--transport"):
        done = call("-c", str(conf), option)
        refused(done, 1, f"ddraidd: {conf}", "2" if text != b"transport = local\ntransport = auto\n" else "3")
        assert len(done.stderr) < 2000


def test_no_such_configuration(tmp_path):
    refused(call("-c", str(tmp_path / "nothing")), 1, "nothing")
    refused(call("-c", str(tmp_path)), 1, str(tmp_path))


def test_dump_is_a_configuration(tmp_path):
    conf = tmp_path / "ddraid.conf"
    conf.write_text("transport = local\nio_timeout = 77\n")
    first = call("-c", str(conf), "--dump-config")
    assert first.returncode == 0 and "77" in first.stdout
    conf.write_text(first.stdout)
    assert call("-c", str(conf), "--dump-config").stdout == first.stdout


@pytest.mark.parametrize("option", ("--dump-config", "--transport", "--version", "--help"))
def test_what_cannot_be_written(tmp_path, option):
    """A script that asks must not take nothing for an answer."""
    conf = tmp_path / "ddraid.conf"
    conf.write_text("transport = local\n")
    with open("/dev/full", "w") as full:
        done = subprocess.run([DDRAIDD, "-c", conf, option], stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
    assert done.returncode == 1


@needs_root
def test_only_root_runs_it(tmp_path):
    conf = tmp_path / "ddraid.conf"
    conf.write_text(f"transport = local\nrun_dir = {tmp_path}\n")
    for path in (tmp_path, *tmp_path.parents[:2]):
        path.chmod(0o755)
    refused(call("-f", "-c", str(conf), user=65534, group=65534, extra_groups=[]), 1, "must run as root")


# ---- a daemon that runs ---------------------------------------------------------------------

# $1: the folder that stands in for the machine; the rest is run. /etc/corosync is the folder's, modprobe loads nothing, and a search for
# block devices finds none.
ENTER = """
set -e
mkdir -p "$1/corosync" /etc/corosync
mount --bind "$1/corosync" /etc/corosync
mount --bind /bin/false "$(readlink -f "$(command -v modprobe)")"
mount -t tmpfs none /dev
for d in null zero full random urandom; do case $d in null) n=3;; zero) n=5;; full) n=7;; random) n=8;; urandom) n=9;; esac; mknod -m 666 /dev/$d c 1 $n; done
mkdir /dev/shm; mount -t tmpfs none /dev/shm
shift
exec "$@"
"""


class Machine:
    def __init__(self, folder, conf=""):
        self.folder, self.daemons = folder, []
        (folder / "corosync").mkdir()
        (folder / "run").mkdir()
        (folder / "state").mkdir()
        self.conf = folder / "ddraid.conf"
        self.conf.write_text(f"transport = local\nrun_dir = {folder}/run\nstate_dir = {folder}/state\nlog_syslog = no\n{conf}")
        self.inside = subprocess.Popen(["unshare", "--net", "--mount", "sh", "-c", ENTER, "sh", str(folder), "sh", "-c", "echo up; exec sleep 600"],
                                       stdout=subprocess.PIPE, text=True)
        assert self.inside.stdout.readline() == "up\n"

    def run(self, *command, **kwargs):
        return subprocess.run(self.command(*command), capture_output=True, text=True, timeout=60, check=False, **kwargs)

    def command(self, *command):
        return ["nsenter", f"--net=/proc/{self.inside.pid}/ns/net", f"--mount=/proc/{self.inside.pid}/ns/mnt", *map(str, command)]

    def daemon(self, *args, **kwargs):
        """In the foreground; its log goes to a file, whose name is returned."""
        log = self.folder / f"log{len(self.daemons)}"
        with open(log, "w") as out:
            self.daemons.append(subprocess.Popen(self.command(DDRAIDD, "-f", "-c", self.conf, *args), stderr=out, stdout=out, **kwargs))
        return self.daemons[-1], log

    def up(self):
        def answers():
            assert self.daemons[-1].poll() is None, [p.read_text() for p in self.folder.glob("log*")]
            return self.run(DDRAID, "status", "--json").returncode == 0
        self.until(answers, "the daemon answers nobody")

    def until(self, true, what):
        end = time.monotonic() + 60
        while not true():
            assert time.monotonic() < end, (what, [p.read_text() for p in self.folder.glob("log*")])
            time.sleep(0.05)

    def end(self):
        for process in (*self.daemons, self.inside):
            if process.poll() is None:
                process.kill()
            process.wait()
        self.inside.stdout.close()


@pytest.fixture
def machine(tmp_path):
    machines = []

    def make(*args):
        machines.append(Machine(tmp_path, *args))
        return machines[-1]
    yield make
    for each in machines:
        each.end()


def ends(process, code=0):
    assert process.wait(30) == code


@needs_root
def test_it_serves_without_the_module_and_ends(machine):
    m = machine()
    process, log = m.daemon()
    m.up()
    assert json.loads(m.run(DDRAID, "status", "--json").stdout) == []
    for args in (("status", "x"), ("stop", "x"), ("fail", "x", "1"), ("set", "x", "resync_max_rate=1M"), ("fence-ack", "2")):
        done = m.run(DDRAID, *args)
        assert done.returncode == 1 and len(done.stderr.splitlines()) == 1, (args, done)
    process.send_signal(signal.SIGHUP)
    m.until(lambda: "SIGHUP is ignored" in log.read_text(), "SIGHUP")
    process.terminate()
    ends(process)
    text = log.read_text()
    assert "the module dm-ddraid is not loaded; waiting for it" in text and "the daemon ends" in text


@needs_root
@pytest.mark.parametrize("how", (signal.SIGINT, signal.SIGUSR1))
def test_it_ends_by_each_signal(machine, how):
    m = machine()
    process, _ = m.daemon("-d")
    m.up()
    process.send_signal(how)
    ends(process)


@needs_root
def test_a_second_one_is_refused(machine):
    m = machine()
    first, _ = m.daemon()
    m.up()
    second, log = m.daemon()
    ends(second, 1)
    assert f"{first.pid}" in log.read_text()
    m.run("true")
    assert m.run(DDRAID, "status").returncode == 0
    first.terminate()
    ends(first)


@needs_root
def test_somebody_has_its_name(machine):
    """Any process may take the name of the daemon's socket while it does not run: the message names that process."""
    m = machine()
    taker = subprocess.Popen(m.command("python3", "-c", "import socket, time\ns = socket.socket(socket.AF_UNIX)\n"
                                       "s.bind((b'\\0ddraidd').ljust(108, b'\\0'))\ns.listen(4)\nprint('up', flush=True)\ntime.sleep(600)"),
                             stdout=subprocess.PIPE, text=True)
    try:
        assert taker.stdout.readline() == "up\n"
        process, log = m.daemon()
        ends(process, 1)
        assert f"process {taker.pid} (python3) of user 0 occupies the socket name" in log.read_text()
    finally:
        taker.kill()
        taker.wait()
        taker.stdout.close()


@needs_root
def test_in_the_background(machine):
    """The process that starts it waits until it is up, and no longer; a daemon that cannot start returns an exit code."""
    m = machine()
    done = m.run(DDRAIDD, "-c", m.conf)
    assert done.returncode == 0, done
    assert m.run(DDRAID, "status").returncode == 0
    pid = int((m.folder / "run" / "ddraidd.pid").read_text())
    assert m.run(DDRAIDD, "-c", m.conf).returncode == 1
    os.kill(pid, signal.SIGTERM)
    m.until(lambda: not pathlib.Path(f"/proc/{pid}").exists(), "it does not end")


@needs_root
def test_readiness_and_watchdog(machine):
    """A service manager is notified that it is up, even without the module, then at intervals that it runs, then that it ends."""
    import socket
    m = machine()
    path = m.folder / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(str(path))
        s.settimeout(30)
        process, _ = m.daemon(env={**os.environ, "NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": "600000"})
        said = ""
        while said.count("WATCHDOG=1") < 3:
            said += s.recv(4096).decode() + "\n"
        assert "READY=1\nSTATUS=there is no /dev/ddraid" in said and said.count("READY=1") == 1
        process.terminate()
        while "STOPPING=1" not in said:
            said += s.recv(4096).decode() + "\n"
        ends(process)


@needs_root
@pytest.mark.parametrize("files", (5, 6, 7, 8, 12, 63))
def test_too_few_descriptors(machine, files):
    """It neither ends without a word nor serves what it cannot: the reason, and what to do."""
    m = machine()
    process, log = m.daemon(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)))
    ends(process, 1)
    assert f"the limit of open files is {files}, and ddraidd needs 64 at least; raise LimitNOFILE=" in log.read_text()


@needs_root
def test_a_limit_that_can_be_raised_is(machine):
    m = machine()
    process, _ = m.daemon(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (20, 200)))
    m.up()
    assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == (200, 200)
    process.terminate()
    ends(process)


@needs_root
def test_transport(machine):
    """auto: as corosync.conf has it. One that cannot be understood is a cluster's, or a node would serve alone what others use."""
    m = machine()
    m.conf.write_text("transport = auto\n")
    corosync = m.folder / "corosync" / "corosync.conf"

    def transport():
        done = m.run(DDRAIDD, "-c", m.conf, "--transport")
        return done.stdout.strip()
    assert transport() == "local"
    corosync.write_text("totem {\n  version: 2\n")
    assert transport() != "local"
    corosync.write_bytes(b"\xff" * 100000)
    assert transport() != "local"
    corosync.unlink()
    corosync.mkdir()
    assert transport() != "local"


@needs_root
def test_a_cluster_without_corosync(machine):
    """It waits, reports that, and serves the command meanwhile. The process that runs fence commands ends with it."""
    m = machine("fence_command = /bin/false\n")
    m.conf.write_text(m.conf.read_text().replace("transport = local", "transport = corosync"))
    process, _ = m.daemon()
    m.up()
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert [pathlib.Path(f"/proc/{c}/comm").read_text() for c in children] == ["ddraidd-fence\n"]
    process.terminate()
    ends(process)
    m.until(lambda: not pathlib.Path(f"/proc/{children[0]}").exists(), "the fence helper stays")
