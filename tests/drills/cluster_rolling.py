#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A cluster is upgraded node by node to the next version of the protocol between nodes, daemons and kernel modules, and back.

Topology: three nodes, one array of five disks (order 2, one parity), GFS2 on it, mounted on all. Beside the daemon and the module that are tested there is a
build of both that also knows the next version (DDRAID_NEXT_VERSION, include/ddraid/proto.h): in that one a message between nodes has a field more, and
only a module that serves it takes what the daemon writes.
Phases: load on all. On one node after the other ddraidd ends as for an upgrade of the package (SIGTERM), and the newer one starts: the array stays
up, and all nodes take part in it again. The modules are the old ones, so all go on to use the old version, also when the last daemon is a new one (note 51).
Then on one node after the other the load ends, the array is stopped, the newer module is loaded, and all begin again; the load of the other nodes goes on. When
the last module is replaced, all move to the new version. Then node N gets the old daemon and module back, and all use the old version again; the others follow.
The load sees no error throughout, no kernel refuses anything, and nobody is fenced. All data that was reported durable is read on all nodes.
"""
import signal
import sys
import time

import drill
from ddvm.config import build_dir, time_scale
from rig import NAME, Rig

OLD, NEXT = "ddraidd", "/tmp/ddraidd-next"
NEXT_MODULE = "/tmp/dm-ddraid-next.ko"
TIMEOUT = 60    # s, until all nodes use a version
PINGS = 10      # s, in which each daemon writes a PING to its kernel (a quarter of daemon_timeout)


class RollingRig(Rig):
    def boot(self, numbers=None, alone=False):
        super().boot(numbers, alone)
        self.longest = 0
        for i in numbers or self.all:
            self.node(i).put(NEXT, (build_dir() / "next/daemon/ddraidd").read_bytes(), 0o755)
            self.node(i).put(NEXT_MODULE, (build_dir() / "next/kmod/dm-ddraid.ko").read_bytes())

    def versions(self):
        return {i: guest.status(NAME)["cluster"]["protocol"] for i, guest in self.guests.items()}

    def wait_version(self, version):
        deadline = time.monotonic() + TIMEOUT * time_scale()
        while set(self.versions().values()) != {version}:
            assert time.monotonic() < deadline, f"not all use version {version} after {TIMEOUT} s: {self.versions()}"
            time.sleep(0.2)

    def served(self, number):
        """The lowest and the highest version that the loaded module of a node serves."""
        return tuple(map(int, self.node(number).run("cat /sys/module/dm_ddraid/parameters/protocol").out.split()))

    def end_daemon(self, number):
        daemon = self.guests[number].daemon
        daemon.kill(signal.SIGTERM)
        assert daemon.wait(60).code == 0, f"node {number}: ddraidd ended with {daemon.wait(60).code}"
        assert "refused a record" not in daemon.err, f"node {number}: {daemon.err[-2000:]}"

    def begin_daemon(self, number, program):
        self.guests[number].program = program
        self.start_daemon(number)
        self.watch(number)

    def replace_daemon(self, number, program):
        """Its seconds without a daemon that serves the array."""
        began = time.monotonic()
        self.end_daemon(number)
        self.begin_daemon(number, program)
        self.wait_ready(number)
        away = time.monotonic() - began
        self.wait_active(self.up())
        self.progress()
        return away

    def replace_module(self, number, load, program):
        """The array is not there on this node meanwhile, nor is its load. `load`: the command that loads the module."""
        self.longest = max(self.longest, *(s for node in self.stop_load([number]).values() for s in node.values()))
        self.unmount([number])
        self.stop_one(number)
        self.end_daemon(number)
        self.node(number).run(f"rmmod dm_ddraid && {load}", timeout=60)
        self.progress()
        self.begin_daemon(number, program)
        self.start([number])
        self.mount([number])
        self.load([number])
        self.progress()


def upgrade(rig, order, old):
    """The longest seconds without a daemon."""
    away = []
    for i in order:
        away.append(rig.replace_daemon(i, NEXT))
        rig.wait_version(old)
    for i in order:
        assert rig.served(i)[1] == old and set(rig.versions().values()) == {old}, f"a module was older, and yet: {rig.versions()}"
        rig.replace_module(i, f"insmod {NEXT_MODULE}", NEXT)
        assert rig.served(i)[1] == old + 1
    rig.wait_version(old + 1)
    rig.progress()
    time.sleep(PINGS)
    assert set(rig.versions().values()) == {old + 1}
    return max(away)


def round_of(rig, number):
    first = len(rig.all) - (number - 1) % len(rig.all)
    order = [first, *(i for i in rig.up() if i != first)]
    old = min(rig.versions().values())
    rig.load()
    rig.progress()
    away = upgrade(rig, order, old)
    for i in order:
        rig.replace_module(i, "modprobe dm_ddraid", OLD)
        rig.wait_version(old)
    assert not any(any(rig.node_fenced(i)) for i in rig.all), f"somebody was fenced: {rig.cluster.fencer.log}"
    assert not any(e["event"] == "node-recovered" for i in rig.up() for e in rig.events(i)), "the regions of a node were taken over"
    stalls = rig.settle()
    longest = max(rig.longest, *(s for node in stalls.values() for s in node.values()))
    return f"version {old} to {old + 1} and back, beginning with node {first}: a daemon was away for {away:.1f} s at most; longest stall {longest:.1f} s"


if __name__ == "__main__":
    sys.exit(drill.main("cluster_rolling", __doc__, round_of, kind=RollingRig))
