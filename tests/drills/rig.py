# SPDX-License-Identifier: GPL-2.0-or-later
"""A cluster with one array, for the drills named cluster_*: nodes, load on all of them, ledgers, the raw checker.

Each node writes blocks of its own (two nodes that write one block are a file system's business).
What a node was promised is noted outside of it, so that it can die.
"""
import time

import tools
from guest import Guest

NAME = "shared"
DEV = f"/dev/mapper/{NAME}"


class Rig:
    """The cluster's machines are off, share their disks, and have a member for each role of the shape."""

    def __init__(self, cluster, writer, shape=(2, 1, "rotating"), **options):
        self.cluster, self.shape, self.options = cluster, shape, options
        self.writer = writer.read_bytes()
        self.guests = {}
        self.loads = {}
        self.ledgers = {i: tools.Ledger() for i in range(1, len(cluster.nodes) + 1)}
        self.sequence = 0
        self.blocks = 0

    # -- nodes

    def boot(self, numbers=None):
        """Power on (all, or these), corosync, the daemon; no array yet."""
        numbers = list(numbers or self.ledgers)
        self.cluster.boot(numbers)
        self.cluster.start_corosync(numbers)
        for i in numbers:
            node = self.cluster.node(i)
            node.put("/tmp/writer", self.writer, 0o755)
            self.guests[i] = Guest(node)
            self.guests[i].start_daemon(wait=False, **{"fence_command": "/ddvm/fence", "idle_time": "1s", **self.options})
        for i in numbers:
            self.guests[i].wait_daemon()
            self.guests[i].watch_events()

    def create(self):
        first = self.guests[min(self.guests)]
        first.create(NAME, *self.shape, [d.dev for d in first.node.disks])

    def start(self, numbers=None):
        """The array on nodes, side by side."""
        jobs = [self.guests[i].node.spawn(f"exec ddraid start {NAME}") for i in numbers or self.guests]
        for job in jobs:
            job.wait(120, check=True)
        one = self.guests[min(numbers or self.guests)].node
        self.blocks = int(one.run(f"blockdev --getsize64 {DEV}").out) // 4096

    def wait_active(self, numbers, timeout=60):
        """Until each of these nodes says that exactly these take part."""
        deadline = time.monotonic() + timeout
        for i in numbers:
            while True:
                cluster = self.guests[i].status(NAME)["cluster"]
                active = {n["id"] for n in cluster["nodes"] if n["state"] == "active"}
                if active == set(numbers) and cluster["quorate"]:
                    break
                assert time.monotonic() < deadline, f"node {i}: {cluster}"
                time.sleep(0.3)

    def die(self, number):
        """Power cut."""
        self.cluster.node(number).kill()
        self.note(number)
        self.guests.pop(number)

    # -- load

    def window(self, number):
        """(first, count) of the blocks that a node writes."""
        share = self.blocks // len(self.ledgers)
        return (number - 1) * share, share

    def load(self, numbers=None, threads=4, longest=32):
        """A load on nodes, each in its window, until it is stopped or the node dies."""
        for i in numbers or self.guests:
            first, count = self.window(i)
            self.sequence += 1 << 24
            self.loads[i] = self.guests[i].node.spawn(
                f"exec /tmp/writer load {DEV} {first} {count} {threads} {longest} {self.sequence} {self.sequence >> 24} 0")
        for i in numbers or list(self.guests):
            self.loads[i].wait_output("F ", 60)

    def note(self, number):
        """What the node was promised so far; its load may have seen no error."""
        job = self.loads.pop(number, None)
        if job:
            self.ledgers[number].read(job.out)
        assert not self.ledgers[number].errors, f"node {number}: the load saw errors: {self.ledgers[number].errors}"

    def stop_load(self, numbers=None):
        for i in list(numbers or self.loads):
            assert self.loads[i].poll() is None, f"node {i}: the load ended: {self.loads[i].out[-300:]} {self.loads[i].err}"
            self.loads[i].kill()
            self.loads[i].wait(60)
            self.note(i)

    def progress(self, number, timeout=60):
        """Seconds until the node's load reports a further write as durable."""
        job, begin = self.loads[number], time.monotonic()
        seen = job.out.count("\nF ")
        job.channel.wait_for(lambda: job.out.count("\nF ") > seen or job.poll() is not None, timeout)
        assert job.out.count("\nF ") > seen, f"node {number}: its load stands still: {self.guests[number].status(NAME)}"
        return time.monotonic() - begin

    # -- checks

    def verify(self, on):
        """All that any node was promised, read on node `on`."""
        for i, ledger in self.ledgers.items():
            first, count = self.window(i)
            result = self.guests[on].node.run(f"/tmp/writer verify {DEV} {first} {count}", stdin=ledger.expectations(),
                                              timeout=240, check=False)
            assert result.code == 0, f"what node {i} wrote, read on {on}: {result.out[-1000:]}"

    def raw(self, *options):
        return tools.rawcheck("check", [d.path for d in self.cluster.nodes[0].disks], *options)

    def wait_event(self, number, event, timeout=60, **fields):
        """Until a node's events held one such; it."""
        guest, deadline = self.guests[number], time.monotonic() + timeout
        while True:
            found = [e for e in guest.events_seen() if e["event"] == event and all(e.get(k) == v for k, v in fields.items())]
            if found:
                return found[-1]
            assert time.monotonic() < deadline, f"node {number}: no event {event} {fields}: {guest.events_seen()[-8:]}"
            time.sleep(0.2)

    def wait_idle(self, timeout=120):
        for guest in self.guests.values():
            guest.wait_idle(NAME, timeout)

    def stop(self, numbers=None):
        for i in numbers or list(self.guests):
            self.guests[i].stop(NAME)
