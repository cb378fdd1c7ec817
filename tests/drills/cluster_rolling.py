#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The daemons of a cluster are replaced node by node by those of the next version of the protocol between nodes, and back.

Topology: three nodes, one array of five disks (order 2, one parity), GFS2 on it, mounted on all. Beside the daemon that is tested there is a build
of it that also speaks the next version, in which nothing else is different (DDRAID_NEXT_VERSION).
Phases: load on all. On one node after the other ddraidd ends as for an upgrade of the package (SIGTERM), and the newer one starts: the array stays
up, and all nodes take part in it again. As long as an older daemon takes part, all use the old version; when the last one is replaced, all move to
the new one. Then the old daemon starts on node N, and all use the old version again; the others follow. The load goes on without an error
throughout, and nobody is fenced. All data that was reported durable is read on all nodes.
"""
import signal
import sys
import time

import drill
from ddvm.config import build_dir, time_scale
from rig import NAME, Rig

OLD, NEXT = "ddraidd", "/tmp/ddraidd-next"
TIMEOUT = 60    # s, until all nodes use a version


class RollingRig(Rig):
    def boot(self, numbers=None, alone=False):
        super().boot(numbers, alone)
        for i in numbers or self.all:
            self.node(i).put(NEXT, (build_dir() / "next/daemon/ddraidd").read_bytes(), 0o755)

    def versions(self):
        return {i: guest.status(NAME)["cluster"]["protocol"] for i, guest in self.guests.items()}

    def wait_version(self, version):
        deadline = time.monotonic() + TIMEOUT * time_scale()
        while set(self.versions().values()) != {version}:
            assert time.monotonic() < deadline, f"not all use version {version} after {TIMEOUT} s: {self.versions()}"
            time.sleep(0.2)

    def replace_daemon(self, number, program):
        """Its seconds without a daemon that serves the array."""
        guest, began = self.guests[number], time.monotonic()
        guest.daemon.kill(signal.SIGTERM)
        assert guest.daemon.wait(60).code == 0, f"node {number}: ddraidd ended with {guest.daemon.wait(60).code}"
        guest.program = program
        self.start_daemon(number)
        self.watch(number)
        self.wait_ready(number)
        away = time.monotonic() - began
        self.wait_active(self.up())
        self.progress()
        return away


def round_of(rig, number):
    first = len(rig.all) - (number - 1) % len(rig.all)
    order = [first, *(i for i in rig.up() if i != first)]
    old = min(rig.versions().values())
    rig.load()
    rig.progress()
    away = []
    for i in order:
        rig.wait_version(old)
        away.append(rig.replace_daemon(i, NEXT))
    rig.wait_version(old + 1)
    for i in order:
        away.append(rig.replace_daemon(i, OLD))
        rig.wait_version(old)
    assert not any(any(rig.node_fenced(i)) for i in rig.all), f"somebody was fenced: {rig.cluster.fencer.log}"
    assert not any(e["event"] == "node-recovered" for i in rig.up() for e in rig.events(i)), "the regions of a node were taken over"
    stalls = rig.settle()
    longest = max(s for node in stalls.values() for s in node.values())
    return f"version {old} to {old + 1} and back, beginning with node {first}: a daemon was away for {max(away):.1f} s at most; longest stall {longest:.1f} s"


if __name__ == "__main__":
    sys.exit(drill.main("cluster_rolling", __doc__, round_of, kind=RollingRig))
