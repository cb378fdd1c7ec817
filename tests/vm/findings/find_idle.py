# SPDX-License-Identifier: GPL-2.0-or-later
"""What a daemon costs that has nothing to do: time of the CPU, wakeups, locked memory; and what a status of a large array costs."""
import json
import time

import pytest
from serving import Guest, time_scale

GIB = 1 << 30
MIB = 1 << 20
REGION = 64 << 10               # the smallest
ARRAYS, MANY = 10, 64
MEMBER = 8192 * REGION + 48 * MIB           # of an array of 16384 regions
LARGE = (1 << 19) * REGION + 128 * MIB      # of one of a million
VM = {"disks": 1, "size": "140G", "memory": 1024}

WINDOW_S, WINDOWS = 15, 4       # two of the moments that all arrays share; what else the host does makes the guest's figures larger, never smaller
STATUSES = 20


class Machine:
    """One large disk, of which each member has a piece; no disk is used for anything but metadata."""

    def __init__(self, node):
        self.node = node
        self.guest = Guest(node)
        self.used = 0           # sectors

    def member(self, name, size):
        sectors = size // 512
        self.node.run(["dmsetup", "create", name, "--table", f"0 {sectors} linear {self.node.disks[0].dev} {self.used}"])
        self.used += sectors
        return f"/dev/mapper/{name}"

    def array(self, name, size):
        """An array of three members that is started and at rest."""
        members = [self.member(f"{name}-{i}", size) for i in range(3)]
        self.guest.env = {"DDRAID_DEVICES": " ".join(members)}
        self.guest.create(name, 1, 1, "rotating", members, f"--region-size {REGION} --overwrite --yes")
        self.guest.start(name)

    def pid(self):
        return int(self.node.run("pidof ddraidd").out.split()[0])

    def spent(self):
        """(ns on a CPU, wakeups) of all threads of the daemon so far."""
        tasks = f"/proc/{self.pid()}/task"
        ns = sum(int(line.split()[0]) for line in self.node.run(f"cat {tasks}/*/schedstat").out.splitlines())
        wakes = sum(int(line.split()[1]) for line in self.node.run(f"grep -h ^voluntary {tasks}/*/status").out.splitlines())
        return ns, wakes

    def window(self):
        """(share of a CPU, wakeups a second) of the daemon in a while in which nobody asks anything of it."""
        before, woken = self.spent()
        began = float(self.node.run("cat /proc/uptime").out.split()[0])
        time.sleep(WINDOW_S)
        after, woken_then = self.spent()
        seconds = float(self.node.run("cat /proc/uptime").out.split()[0]) - began
        return (after - before) / 1e9 / seconds, (woken_then - woken) / seconds

    def locked(self):
        """Bytes."""
        return int(self.node.run(f"grep VmLck /proc/{self.pid()}/status").out.split()[1]) << 10

    def all_at_rest(self, count):
        deadline = time.monotonic() + 120 * time_scale()
        while True:
            arrays = self.guest.arrays()
            if len(arrays) == count and all(a["ready"] and not a["regions"]["dirty"] for a in arrays):
                return
            assert time.monotonic() < deadline, arrays
            time.sleep(1)

    def end(self):
        self.node.run("ddraid stop --all --force", check=False, timeout=600)
        self.guest.daemon.kill(15)
        self.guest.daemon.wait(30, check=False)
        self.node.run("dmsetup remove_all --force; rm -rf /var/lib/ddraid /run/ddraid", check=False)


@pytest.fixture
def machine(shared_node, stage):
    del stage
    m = Machine(shared_node)
    m.guest.start_daemon()
    yield m
    if shared_node.alive():
        m.end()


def test_u8_an_idle_daemon_sleeps(machine):
    """Finding U8: ten arrays of three members that nobody uses take less than 0.3 % of a CPU, and wake its threads less than twice a second."""
    for i in range(ARRAYS):
        machine.array(f"a{i}", MEMBER)
    machine.all_at_rest(ARRAYS)
    time.sleep(10 * time_scale())
    found = [machine.window() for _ in range(WINDOWS)]
    share, wakes = min(f[0] for f in found), min(f[1] for f in found)
    text = ", ".join(f"{100 * f[0]:.3f} % of a CPU and {f[1]:.2f} wakeups a second" for f in found)
    print(text)
    assert share < 0.003 and wakes < 2, text


def test_u8_locked_memory(machine):
    """Finding U8: 64 arrays of 16384 regions lock less than 200 MB: as eight of them show, of which each one locks the same."""
    machine.array("a0", MEMBER)
    machine.all_at_rest(1)
    one = machine.locked()
    for i in range(1, 9):
        machine.array(f"a{i}", MEMBER)
    machine.all_at_rest(9)
    each = (machine.locked() - one) // 8
    total = one + (MANY - 1) * each
    print(f"{one / 1e6:.1f} MB with one array, {each / 1e6:.2f} MB for each further one: {total / 1e6:.0f} MB for {MANY}")
    assert total < 200e6


def test_u8_status_of_a_million_regions(machine):
    """Finding U8: a status of an array with a million regions takes less than 50 ms of the daemon's time."""
    machine.array("large", LARGE)
    machine.all_at_rest(1)
    regions = json.loads(machine.guest.command("status large --json").out)
    before, _ = machine.spent()
    for _ in range(STATUSES):
        machine.guest.command("status large --json")
    after, _ = machine.spent()
    ms = (after - before) / 1e6 / STATUSES
    print(f"{ms:.1f} ms of the daemon for each status: {json.dumps(regions)[:200]}")
    assert ms < 50
