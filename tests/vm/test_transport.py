# SPDX-License-Identifier: GPL-2.0-or-later
"""The daemon's transport over a real corosync: views, order, strangers, daemons and corosyncs that die."""

import pathlib
import shutil
import subprocess

import pytest
from ddvm.config import TOP, stage_dir

UUID = "5d2f4a3e-94a1-4a57-9c8e-1d60e5f7a001"
SOURCES = ["tests/vm/probe/transport.c", "daemon/group/transport_corosync.c", "daemon/group/link.c", "daemon/group/link_debt.c", "daemon/group/link_pulse.c", "daemon/group/link_tell.c", "daemon/group/link_votes.c", "daemon/group/link_wait.c", "daemon/group/presence.c", "daemon/group/ask.c", "daemon/group/corosync.c", "daemon/group/corosync_call.c", "daemon/group/cpg.c", "daemon/group/nodes.c", "daemon/group/link_store.c", "daemon/group/votes.c", "daemon/base/ident.c", "daemon/base/ident_file.c",
           "daemon/base/worker.c"]
LIBRARIES = ["-lcpg", "-lquorum", "-lvotequorum", "-lcmap", "-lqb", "-luuid", "-lisal"]
MESSAGES = 500


@pytest.fixture
def program(tmp_path, stage):
    """The probe, linked with what was built."""
    library = stage_dir().parent / "lib" / "libddraid.a"
    target = tmp_path / "probe"
    subprocess.run([shutil.which("gcc") or "cc", "-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE",
                    f"-I{TOP}", f"-I{TOP}/include", "-o", target, *(TOP / s for s in SOURCES), library, *LIBRARIES], check=True)
    return pathlib.Path(target)


class Probe:
    """A probe that runs on a node."""

    def __init__(self, node, program, name="probe", arguments=""):
        self.node, self.fifo = node, f"/tmp/{name}.in"
        if node.run("test -x /root/probe", check=False).code:
            node.put("/root/probe", program.read_bytes(), 0o755)
        node.run(f"rm -f {self.fifo}; mkfifo {self.fifo}")
        self.job = node.spawn(f"sleep 9999 > {self.fifo} & exec /root/probe {UUID} {arguments} < {self.fifo}")

    def tell(self, command):
        self.node.run(f"echo '{command}' > {self.fifo}")

    def lines(self, word):
        """The lines that it printed for a keyword, each as a list of words."""
        complete = self.job.out[:self.job.out.rfind("\n") + 1]
        return [line.split()[1:] for line in complete.splitlines() if line.split()[0] == word]

    def wait(self, what, check, timeout=60):
        """Until check(self) holds."""
        self.job.channel.wait_for(lambda: check(self) or self.job.poll() is not None, timeout)
        assert check(self), f"{self.node.name}: no {what}: {self.job.out[-1500:]} {self.job.err[-1500:]}"

    def view(self):
        """(ring, {node: pid}) of the last view."""
        views = self.lines("view")
        return (views[-1][0], dict(map(int, m.split(":")) for m in views[-1][1:])) if views else (None, {})

    def quorum(self):
        """(quorate, ring, members) as last reported."""
        told = self.lines("quorum")
        return (told[-1][0] == "yes", told[-1][1], set(map(int, told[-1][2:]))) if told else (False, None, set())

    def agrees(self, members):
        """Quorate with these members, and view and quorum are of one ring."""
        return set(self.view()[1]) == members and self.quorum() == (True, self.view()[0], members)


def test_transport(make_cluster, program):
    cluster = make_cluster(disks=0, stage=False, memory=512)
    cluster.boot()
    probes = {1: Probe(cluster.node(1), program)}      # before corosync: it waits
    probes[1].job.wait_output("waiting for it")
    cluster.start_corosync()
    another_release_is_told(cluster, probes, program)
    probes[3] = Probe(cluster.node(3), program)
    for probe in probes.values():
        probe.wait("view of three", lambda p: p.agrees({1, 2, 3}))
    assert len({str(p.view()) for p in probes.values()}) == 1

    # All messages of all nodes, in the same order everywhere, each node's own in the order sent.
    for probe in probes.values():
        probe.tell(f"send {MESSAGES}")
    for probe in probes.values():
        probe.wait("messages", lambda p: len(p.lines("message")) >= 3 * MESSAGES)
    order = probes[1].lines("message")
    for probe in probes.values():
        assert probe.lines("message") == order
    for i in (1, 2, 3):
        assert [int(s) for n, s in order if n == str(i)] == list(range(1, MESSAGES + 1))

    strangers_are_ignored(cluster, probes, program)
    daemons_come_and_go(cluster, probes, program)
    corosync_dies(cluster, probes)


def another_release_is_told(cluster, probes, program):
    """A daemon of another release runs on node 3. The one that starts on node 2 waits for its hello, and says so; then it starts, and both say what is refused."""
    probes[1].wait("view of one", lambda p: set(p.view()[1]) == {1})
    stranger = Probe(cluster.node(3), program, "stranger", "stranger")
    stranger.tell("send 1 200")
    stranger.wait("its message", lambda p: p.job.out.count("sent") == 1)
    probes[2] = Probe(cluster.node(2), program)
    probes[2].wait("word of the hello", lambda p: any("has not said hello" in " ".join(words) for words in p.lines("waits")))
    stranger.tell("send 1 0")
    for probe in probes.values():       # it speaks no version of those that take part, so it is refused, and not they
        probe.wait("view of two", lambda p: set(p.view()[1]) == {1, 2})
        probe.wait("word of another release", lambda p: any("speaks versions" in " ".join(words) for words in p.lines("waits")))
        assert not probe.lines("foreign")
    stranger.tell("quit")
    assert stranger.job.wait(30).code == 0
    for probe in probes.values():
        probe.wait("end of the refusal", lambda p: p.lines("waits")[-1] == ["nothing"])


def strangers_are_ignored(cluster, probes, program):
    """Garbage, and the hello of another release, change nothing for those that take part; the log reports garbage, but not endlessly."""
    before = probes[1].view()
    stranger = Probe(cluster.node(3), program, "stranger", "stranger")
    stranger.tell("send 30 200")
    stranger.tell("send 30 0")
    stranger.wait("two bursts", lambda p: p.job.out.count("sent") == 2)
    probes[1].tell("send 1")
    for probe in probes.values():
        probe.wait("the message behind it", lambda p: len(p.lines("message")) >= 3 * MESSAGES + 1)
        assert len(probe.lines("message")) == 3 * MESSAGES + 1
        assert probe.view() == before
        assert 1 <= probe.job.err.count("ignored") <= 5
        assert not probe.lines("foreign")
    stranger.tell("quit")
    assert stranger.job.wait(30).code == 0


def daemons_come_and_go(cluster, probes, program):
    """A daemon that died is out of the view, and is back under another number, in the same ring."""
    ring, members = probes[1].view()
    probes[3].job.kill()
    for i in (1, 2):
        probes[i].wait("view of two", lambda p: set(p.view()[1]) == {1, 2})
    probes[3] = Probe(cluster.node(3), program)
    for probe in probes.values():
        probe.wait("view of three", lambda p: p.agrees({1, 2, 3}))
        assert probe.view()[0] == ring
        assert probe.view()[1][3] != members[3]


def corosync_dies(cluster, probes):
    """Its daemon is told at once; the others continue in another ring; a node that is alone has no quorum."""
    ring = probes[1].view()[0]
    cluster.corosync[3].kill()
    probes[3].wait("word of the loss", lambda p: p.lines("lost"), timeout=10)
    for i in (1, 2):
        probes[i].wait("view of two", lambda p: p.agrees({1, 2}))
        assert probes[i].view()[0] != ring
    cluster.network.partition([1], [2])
    for i in (1, 2):
        probes[i].wait("loss of quorum", lambda p: not p.quorum()[0] and p.quorum()[1:] == (p.view()[0], set(p.view()[1])) and
                       p.quorum()[2] != {1, 2})
    cluster.network.heal()
    for i in (1, 2):
        probes[i].wait("view of two", lambda p: p.agrees({1, 2}))
    assert probes[1].view() == probes[2].view()
