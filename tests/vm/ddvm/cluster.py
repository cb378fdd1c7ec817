# SPDX-License-Identifier: GPL-2.0-or-later
"""A cluster: machines with shared disks and a network of their own, corosync, dlm, and a
fence device that really cuts the power.

    cluster = Cluster(run, nodes); cluster.boot()
    cluster.start()                       corosync and dlm_controld on all nodes
    cluster.node(2).kill()                power cut by hand
    cluster.wait_fenced(2)                until a survivor had it fenced
    cluster.node(2).boot(); cluster.start([2])

Node ids are 1, 2, ... in the order of the list. The harness' own channel to a machine
does not use the network, so it outlives every fault of it.
"""

import contextlib
import pathlib
import signal
import socket
import threading
import time

from .config import HarnessError, time_scale
from .network import Network

FENCE_AGENT = "/ddvm/fence"
DDRAIDD, DLM = "ddraidd", "dlm_controld"        # which program fences
TOKEN_MS = 5000         # three emulated machines on two cores, with another test beside them; more machines: more
# Debian's 6.1.192 warns of a copy that dlm makes as it is meant to be: its message ends with bytes that belong to it.
DLM_WARNING = r"memcpy: detected field-spanning write[^\n]* at fs/dlm/requestqueue\.c.*?---\[ end trace [^\n]*"


class Fencer:
    """The power switch of all nodes, on the host. One thread for each machine that may ask."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.lock = threading.Condition()
        self.log = []           # (time, asker, program there, victim, answer)
        self.failures = 0       # this many requests of ddraidd fail before the next one succeeds
        self.delay = 0          # seconds that cutting the power takes

    def watch(self, asker, path):
        """Serve the fence device of a machine that was just switched on."""
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(str(path))
        threading.Thread(target=self._serve, args=(asker, sock), daemon=True).start()

    def _serve(self, asker, sock):
        try:
            with sock, sock.makefile("rw", encoding="ascii") as stream:
                for line in stream:
                    ident, victim, program = line.split()
                    stream.write(f"{ident} {self._cut(asker, program, int(victim))}\n")
                    stream.flush()
        except (OSError, ValueError):
            pass                # the machine went, perhaps in mid-line

    def _cut(self, asker, program, victim):
        time.sleep(self.delay)
        with self.lock:
            if not 1 <= victim <= len(self.cluster.nodes):
                answer = "no such node"
            elif self.failures and program.startswith(DDRAIDD):
                self.failures -= 1
                answer = "failed on purpose"
            else:
                self.cluster.node(victim).kill()
                answer = "ok"
            self.log.append((time.monotonic(), asker, program, victim, answer))
            self.lock.notify_all()
        return answer

    def count(self, victim, program=""):
        """How often the node's power was cut on request (of such a program)."""
        return sum(1 for _, _, p, v, answer in self.log if v == victim and answer == "ok" and p.startswith(program))


class Cluster:
    """Machines (switched off, sharing their disks) as a cluster; id of a node: its place from 1."""

    def __init__(self, run, nodes, transport="knet", rings=2, votes=()):
        """`transport`: knet, or udpu (which uses ring 0 only); `votes`: {id: votes} of nodes with more than one."""
        if transport not in ("knet", "udpu"):
            raise HarnessError(f"corosync transport {transport}: neither knet nor udpu")
        self.run, self.nodes, self.transport = run, list(nodes), transport
        self.votes_of = {i: dict(votes).get(i, 1) for i in range(1, len(self.nodes) + 1)}
        self.token_ms = int(TOKEN_MS * time_scale() * max(1, len(self.nodes) / 3))
        self.network = Network(len(self.nodes), rings)
        self.fencer = Fencer(self)
        for number, node in enumerate(self.nodes, 1):
            node.namespace = self.network.path
            node.forgive(DLM_WARNING)
            node.after_start = lambda n=number: self.fencer.watch(n, self._fence_path(n))
            node.devices += self.network.devices(number) + [
                "-chardev", f"socket,id=fence,path={self._fence_path(number)},server=on,wait=off",
                "-device", "virtserialport,bus=vser.0,chardev=fence,name=ddvm.fence"]
        self.corosync, self.dlm = {}, {}

    def _fence_path(self, number):
        return self.run.path / f"{self.node(number).name}.fence"

    def node(self, number):
        return self.nodes[number - 1]

    def numbers(self, wanted=None):
        """Ids: the wanted ones, or those of all machines that are on."""
        return list(wanted) if wanted else [i for i, n in enumerate(self.nodes, 1) if n.alive()]

    # -- power --------------------------------------------------------------

    def boot(self, numbers=None):
        """Switch machines (all, or these) on side by side, and wait for them."""
        chosen = [self.node(i) for i in numbers or range(1, len(self.nodes) + 1)]
        for node in chosen:
            node.start()
        for node in chosen:
            node.ready()

    def power_off(self):
        """Power cut of all machines at once."""
        for node in self.nodes:
            if node.alive():
                node.qemu.process.kill()
        for node in self.nodes:
            node.kill()

    @contextlib.contextmanager
    def frozen(self):
        """No machine runs or writes meanwhile; what the disks hold is what a power cut of all would leave.

        Short, or the machines lose sight of each other: less than the token timeout.
        """
        processes = [n.qemu.process for n in self.nodes if n.alive()]
        try:
            for process in processes:
                process.send_signal(signal.SIGSTOP)
            for process in processes:
                _wait_stopped(process)
            yield
        finally:
            for process in processes:
                process.send_signal(signal.SIGCONT)

    def close(self):
        """Switch everything off for good."""
        self.power_off()
        self.network.close()

    # -- the stack ----------------------------------------------------------

    def corosync_conf(self):
        """Text of corosync.conf, the same for all nodes."""
        count = len(self.nodes)
        rings = self.network.rings if self.transport == "knet" else 1
        quorum = ["provider: corosync_votequorum", f"expected_votes: {sum(self.votes_of.values())}"]
        if count == 2:
            quorum += ["two_node: 1", "wait_for_all: 0"]
        nodes = "".join(_section("node", [
            f"nodeid: {i}", f"name: {node.name}", f"quorum_votes: {self.votes_of[i]}",
            *(f"ring{r}_addr: {self.network.address(r, i)}" for r in range(rings))], 1)
            for i, node in enumerate(self.nodes, 1))
        return (_section("totem", ["version: 2", "cluster_name: ddvm",
                                   f"transport: {self.transport}", f"token: {self.token_ms}",
                                   "crypto_cipher: none", "crypto_hash: none"])
                + _section("system", ["sched_rr: no", "priority: max"])
                + _section("logging", ["to_stderr: yes", "to_logfile: no", "to_syslog: no"])
                + _section("quorum", quorum) + "nodelist {\n" + nodes + "}\n")

    def start_network(self, number):
        """Addresses of a node's NICs, whatever their names are."""
        for ring in range(self.network.rings):
            self.node(number).run(
                f"modprobe virtio_net; for d in /sys/class/net/*; do read -r mac < $d/address; "
                f"[ $mac = {self.network.mac(ring, number)} ] || continue; "
                f"ip addr add {self.network.address(ring, number)}/24 dev ${{d##*/}} && "
                f"ip link set ${{d##*/}} up && exit 0; done; exit 1")

    def start_corosync(self, numbers=None, wait=True):
        """Runs corosync on nodes (of those that are on); waits until each of them is quorate with all of these."""
        numbers = self.numbers(numbers)
        for i in numbers:
            node = self.node(i)
            self.start_network(i)
            node.run("mkdir -p /etc/corosync /var/lib/corosync /var/log/corosync")
            node.put("/etc/corosync/corosync.conf", self.corosync_conf())
            self.corosync[i] = node.spawn("exec corosync -f")
        if wait:
            self.wait_members(numbers, numbers)

    def votes(self, number):
        """(ids of the members of a node's partition, whether it is quorate), or (set(), False)."""
        out = self.node(number).run("corosync-quorumtool -s", check=False).out
        ids = {int(line.split()[0]) for line in out.splitlines()
               if line.split()[:1] and line.split()[0].isdigit()}
        return ids, any(line.split() == ["Quorate:", "Yes"] for line in out.splitlines())

    def wait_members(self, numbers, members, quorate=True, timeout=60):
        """Until each of `numbers` sees at least `members`, quorate or not."""
        deadline = time.monotonic() + timeout * time_scale()
        for i in numbers:
            while True:
                seen, has_quorum = self.votes(i)
                if seen >= set(members) and has_quorum == quorate:
                    break
                job = self.corosync[i]
                assert job.poll() is None, f"node {i}: corosync ended: {job.err[-2000:]}"
                words = "".join(f"\nnode {n}: {self.corosync[n].err[-1500:]}" for n in {i} | set(members) - seen if n in self.corosync)
                assert time.monotonic() < deadline, f"node {i} sees {sorted(seen)}, quorate {has_quorum}; wanted {members}{words}"
                time.sleep(0.3)

    def start_dlm(self, numbers=None):
        """Runs dlm_controld with our fence agent, and waits until it is a member."""
        numbers = self.numbers(numbers)
        for i in numbers:
            node = self.node(i)
            node.run("modprobe -a dlm gfs2; mkdir -p /dev/misc /etc/dlm; cd /dev/misc; "
                     "ln -sf ../dlm-control ../dlm-monitor ../dlm_plock .")
            # Without startup fencing: a slow machine is no reason to cut the power of those that come later.
            node.put("/etc/dlm/dlm.conf", f"post_join_delay=3\nenable_startup_fencing=0\nfence_all {FENCE_AGENT}\n")
        for i in numbers:
            self.dlm[i] = self.node(i).spawn("exec dlm_controld --foreground")
        for i in numbers:
            self.node(i).wait_until("dlm_tool status | grep -q '^node '", timeout=60)

    def start(self, numbers=None):
        """corosync and dlm_controld on nodes (of those that are on)."""
        self.start_corosync(numbers)
        self.start_dlm(numbers)

    def stop(self, number):
        """dlm_controld and corosync of a node end cleanly, so that no node takes it for failed."""
        for program, jobs in (("dlm_controld", self.dlm), ("corosync", self.corosync)):
            job = jobs.pop(number, None)
            if job:
                self.node(number).run(f"kill -TERM $(pidof {program})")
                job.wait(60)

    # -- what happened ------------------------------------------------------

    def wait_fenced(self, victim, times=1, timeout=60, program=""):
        """Until the node's power was cut `times` times on request of (such a program of) another one."""
        with self.fencer.lock:
            done = self.fencer.lock.wait_for(lambda: self.fencer.count(victim, program) >= times,
                                             timeout * time_scale())
        assert done, f"node {victim} was not fenced in {timeout} s; fence log: {self.fencer.log}"


def _wait_stopped(process):
    """Until every thread has stopped: a write that was in the kernel has ended then."""
    while process.poll() is None:
        states = []
        for stat in pathlib.Path(f"/proc/{process.pid}/task").glob("*/stat"):
            with contextlib.suppress(OSError):  # the thread has ended
                states.append(stat.read_text(encoding="ascii").rpartition(")")[2].split()[0])
        if all(state in "TtZX" for state in states):
            return
        time.sleep(0.001)


def _section(name, lines, depth=0):
    pad = "\t" * depth
    return f"{pad}{name} {{\n" + "".join(f"{pad}\t{line}\n" for line in lines) + f"{pad}}}\n"
