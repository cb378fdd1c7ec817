# SPDX-License-Identifier: GPL-2.0-or-later
"""Which node fences, and for how long an agent that does not end holds the others up."""
import time

import serving  # noqa: F401 (it makes the drills importable)
from ddvm.config import time_scale
from guest import Guest

NAME = "shared"
TIMEOUT = 5     # s: fence_timeout
AGENT = "/ddvm/fence"
# It writes to a disk that hangs: nobody can kill it.
STUCK = """#!/bin/sh
exec dd if=/dev/zero of=/dev/mapper/hangs bs=4096 count=1 oflag=direct conv=nocreat
"""


def up(make_cluster, commands, **options):
    """Three nodes that take part, each with its own fence_command."""
    cluster = make_cluster(nodes=3, disks=3, size="48M")
    cluster.boot()
    cluster.start_corosync()
    guests = {i: Guest(cluster.node(i)) for i in commands}
    for i, command in commands.items():
        guests[i].start_daemon(fence_command=command, idle_time="1s", away_time="5s", **options)
    guests[1].create(NAME, 1, 1, "rotating", ["/dev/vda", "/dev/vdb", "/dev/vdc"], f"--overwrite --yes --region-size {1 << 20}")
    for guest in guests.values():
        guest.start(NAME)
    guests[2].watch_events()
    return cluster, guests


def lost(cluster, guest, node):
    """When the others know it."""
    cluster.node(node).kill()
    guest.events.wait_output('"event":"node-lost"', 90 * time_scale())
    return time.monotonic()


def recovered(guest, node):
    deadline = time.monotonic() + 60 * time_scale()
    while not any(e["event"] == "node-recovered" and e["node"] == node for e in guest.events_seen()):
        assert time.monotonic() < deadline, guest.events_seen()[-5:]
        time.sleep(0.2)


def test_T9_an_agent_that_nobody_can_kill(make_cluster, stage):
    """Finding T9: the agent of the lowest node waits for a disk in the kernel; the next node fences when fence_timeout is over."""
    del stage
    cluster, guests = up(make_cluster, {1: "/run/stuck", 2: AGENT, 3: AGENT}, fence_timeout=f"{TIMEOUT}s")
    one = cluster.node(1)
    one.put("/run/stuck", STUCK.encode(), 0o755)
    one.run("dmsetup create hangs --table '0 8 zero' && dmsetup suspend hangs")
    began = lost(cluster, guests[2], 3)
    cluster.wait_fenced(3, 1, 60)
    took = time.monotonic() - began
    assert took <= 5 + (TIMEOUT + 2) * time_scale(), f"node 2 fenced {took:.1f} s after node 3 was lost (away_time 5 s, fence_timeout {TIMEOUT} s)"
    assert [asker for _, asker, _, _, _ in cluster.fencer.log] == [2], cluster.fencer.log
    assert one.run("ps -eo stat,comm | grep -w dd").out.startswith("D"), "the agent of node 1 did not hang"
    recovered(guests[2], 3)
    assert "time" in guests[1].daemon.err and "fence" in guests[1].daemon.err, guests[1].daemon.err[-1000:]
    one.run("dmsetup resume hangs")


def test_T10_a_node_that_cannot_fence_is_not_asked(make_cluster, stage):
    """Finding T10: the lowest node has no fence_command; the next one fences."""
    del stage
    cluster, guests = up(make_cluster, {1: "none", 2: AGENT, 3: AGENT})
    began = lost(cluster, guests[2], 3)
    cluster.wait_fenced(3, 1, 60)
    took = time.monotonic() - began
    assert took <= 5 + (TIMEOUT + 2) * time_scale(), f"node 2 fenced {took:.1f} s after node 3 was lost (away_time 5 s)"
    recovered(guests[2], 3)
