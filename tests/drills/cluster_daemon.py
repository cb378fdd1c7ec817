#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The daemon of a running node is killed: once it comes back in time, once it does not.

Topology: three nodes, one array of five disks (order 2, one parity), GFS2 on it, mounted on all; away_time is 30 s.
Phases: load on all; kill -9 of ddraidd on node N. While it is away the node's writes to regions that it was granted continue (its pulse
beats). It is started again at once: it declares what its kernel holds, and the load of all nodes goes on without an error; nobody is
fenced. Then it is killed again and stays away: after away_time the node is fenced, although it runs, and its regions are recovered; the
others continue; all data that was reported durable is read on them; the node comes back.
"""
import sys
import time

import drill


def round_of(rig, number):
    victim = len(rig.all) - (number - 1) % len(rig.all)
    guest, others = rig.guests[victim], [i for i in rig.up() if i != victim]
    rig.load()
    rig.progress()
    guest.kill_daemon()
    began = time.monotonic()
    rig.loads[victim].beats("own", 10)
    rig.start_daemon(victim)
    rig.watch(victim)
    rig.wait_ready(victim)
    back = time.monotonic() - began
    rig.wait_active(rig.up())
    rig.progress()
    assert not any(rig.node_fenced(victim)), f"node {victim} was fenced although its daemon came back"
    guest.kill_daemon()
    began = time.monotonic()
    rig.wait_fenced(victim)
    away = time.monotonic() - began
    rig.wait_recovered(victim)
    rig.raw()
    rig.progress(others)
    rig.settle()
    rig.bring([victim])
    return f"node {victim}: daemon back and ready after {back:.1f} s; away for good: fenced after {away:.1f} s"


if __name__ == "__main__":
    sys.exit(drill.main("cluster_daemon", __doc__, round_of, away_time="30s"))
