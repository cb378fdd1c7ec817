# SPDX-License-Identifier: GPL-2.0-or-later
"""A cluster with one array and GFS2 on it, for the drills named cluster_*: nodes, faults, checks.

The file system takes all of the device but its last regions, where each node beats in a region of its own and
in one that all share (load.py), so that the array's stalls are seen apart from the file system's.
"""
import concurrent.futures
import shutil
import subprocess
import time

import tools
from ddvm.cluster import DDRAIDD, DLM
from ddvm.config import time_scale
from guest import Guest
from load import Load, SHARED_FILE, fill, verify

NAME = "shared"
DEV = f"/dev/mapper/{NAME}"
MOUNT = "/mnt"
REGION = 1 << 20                # bytes



class Rig:
    """The cluster's machines are off, share their disks, and have a member for each role of the shape."""

    def __init__(self, cluster, writer, shape=(2, 1, "rotating"), filesystem=True, **options):
        """`filesystem`: GFS2, and dlm_controld to fence beside ddraidd; else the loads that need none."""
        self.cluster, self.shape, self.filesystem, self.options = cluster, shape, filesystem, options
        self.region_blocks = REGION // 4096
        self.writer = writer.read_bytes()
        self.all = list(range(1, len(cluster.nodes) + 1))
        self.guests = {}
        self.loads = {}
        self.ledgers = {i: tools.Ledger() for i in self.all}
        self.appended = {}              # number of a record of the shared file -> the node that was promised it
        self.sequence = 0
        self.blocks = 0
        self.marks = {}
        self.fenced = {}
        self.cut = {}                   # node that went -> what the writes of its load followed from

    # -- nodes

    def up(self):
        return sorted(self.guests)

    def node(self, number):
        return self.cluster.node(number)

    def boot(self, numbers=None, alone=False):
        """Power on (all, or these), corosync, dlm, the daemon; no array yet. `alone`: cut off; dlm is for later."""
        numbers = list(numbers or self.all)
        self.cluster.boot(numbers)
        self.cluster.start_corosync(numbers, wait=not alone)
        if not alone:
            self.start_dlm(numbers)
        for i in numbers if alone else ():
            self.cluster.wait_members([i], [i], quorate=False)
        for i in numbers:
            self.node(i).put("/tmp/writer", self.writer, 0o755)
            self.guests[i] = Guest(self.node(i))
            self.start_daemon(i)
        for i in numbers:
            self.watch(i)

    def start_dlm(self, numbers):
        if self.filesystem:
            self.cluster.start_dlm(numbers)

    def start_daemon(self, number):
        self.guests[number].start_daemon(wait=False, **{"fence_command": "/ddvm/fence", "idle_time": "1s", "take_back": "no", **self.options})

    def watch(self, number):
        """Until the daemon answers; its events count from now on."""
        self.guests[number].wait_daemon()
        self.guests[number].watch_events()
        self.marks[number] = 0

    def create(self):
        """The array, started on all nodes, and what is on it."""
        first = self.guests[min(self.guests)]
        first.create(NAME, *self.shape, [d.dev for d in first.node.disks], f"--region-size {REGION}")
        self.start()
        self.prepare()

    def prepare(self):
        """What is on the array, once all have it: the file system, mounted, and the files of the load."""
        first = self.guests[min(self.guests)]
        self.blocks = int(first.node.run(f"blockdev --getsize64 {DEV}").out) // 4096
        if self.filesystem:
            first.node.run(f"mkfs.gfs2 -q -O -K -p lock_dlm -t ddvm:fs -j {len(self.all)} -J 8 {DEV} {self.tail()}", timeout=120)
            self.mount()
            self.ledgers = {i: tools.Ledger() for i in self.all}        # nothing is promised on a new file system
            self.appended = {}
            first.node.run(f": > {SHARED_FILE}")
            self.on_each(lambda i: fill(self.node(i), i))

    def tail(self):
        """The first block that the file system does not have."""
        return (self.blocks // self.region_blocks - len(self.all) - 1) * self.region_blocks

    def start(self, numbers=None):
        """The array on nodes, side by side; until they and those that had it take part."""
        numbers = list(numbers or self.guests)
        self.on_each(self.start_one, numbers)
        self.wait_active(self.up())

    def start_one(self, number):
        self.guests[number].command(f"start {NAME}", timeout=120)

    def stop_one(self, number):
        self.guests[number].stop(NAME)

    def mount(self, numbers=None):
        if self.filesystem:
            self.on_each(lambda i: self.node(i).run(f"mount -t gfs2 -o noatime {DEV} {MOUNT}", timeout=120), numbers)

    def bring(self, numbers):
        """Nodes that were off take part again, see what was promised, and have the file system."""
        self.boot(numbers)
        self.start(numbers)
        self.mount(numbers)
        for i in numbers:
            verify(self, i)

    def on_each(self, what, numbers=None):
        """Does something for each node (all, or these) at the same time; a list of results."""
        numbers = list(numbers or self.up())
        with concurrent.futures.ThreadPoolExecutor(len(numbers)) as pool:
            return list(pool.map(what, numbers))

    def wait_active(self, numbers, timeout=60):
        """Waits until each of these nodes reports exactly these as active."""
        deadline = time.monotonic() + timeout * time_scale()
        for i in numbers:
            while True:
                cluster = self.guests[i].status(NAME)["cluster"]
                active = {n["id"] for n in cluster["nodes"] if n["state"] == "active"}
                if active == set(numbers) and cluster["quorate"]:
                    break
                assert time.monotonic() < deadline, f"node {i}: {cluster}"
                time.sleep(0.3)

    def wait_ready(self, number, timeout=60):
        """Until the node's daemon serves the array."""
        deadline = time.monotonic() + timeout * time_scale()
        while not any(a["ready"] for a in self.guests[number].arrays() if a["name"] == NAME):
            assert time.monotonic() < deadline, f"node {number}: the array is not served: {self.guests[number].arrays()}"
            time.sleep(0.3)

    def slot(self, number):
        """The node's slot, as another node reports it."""
        other = next(i for i in self.up() if i != number)
        return next(n["slot"] for n in self.guests[other].status(NAME)["cluster"]["nodes"] if n["id"] == number)

    # -- faults

    def die(self, *numbers):
        """Power cut of these at the same moment."""
        for i in numbers:
            self.node(i).qemu.process.kill()
        for i in numbers:
            self.node(i).kill()
            self.gone(i)

    def shut_down(self, number):
        """Power off as a system does it: its daemons end in order first. The array is stopped there."""
        self.node(number).run("kill -TERM $(pidof ddraidd)")
        self.guests[number].daemon.wait(60)
        self.cluster.stop(number)
        self.node(number).shutdown()
        self.gone(number)

    def gone(self, number):
        """The machine is off: what its load was promised is known from outside."""
        self.guests.pop(number)
        load = self.loads.pop(number, None)
        if load:
            load.note()
            self.cut[number] = load.writes

    def wait_fenced(self, number, timeout=90, program=DDRAIDD):
        """Until the node's power was cut on request of ddraidd since the mark."""
        self.cluster.wait_fenced(number, self.fenced[number, program] + 1, timeout, program)
        if number in self.guests:
            self.gone(number)

    def node_fenced(self, number):
        """How often ddraidd and dlm had the node's power cut since the mark."""
        return [self.cluster.fencer.count(number, program) - self.fenced[number, program] for program in (DDRAIDD, DLM)]

    def wait_recovered(self, *numbers, timeout=90):
        """Waits until all survivors know that the nodes' regions are taken over, and dlm will not fence them any more either."""
        for survivor in self.up():
            for dead in numbers:
                self.wait_event(survivor, "node-recovered", timeout, node=dead)
        for dead in numbers if self.filesystem else ():
            self.wait_fenced(dead, timeout, DLM)

    # -- load

    def start_load(self, number, command):
        """A part of the load on a node; its job."""
        return self.node(number).spawn(command)

    def load(self, numbers=None, **options):
        """A load on nodes until it is stopped or the node dies; returns when all of it runs."""
        for i in numbers or self.up():
            self.loads[i] = Load(self, i, **options)
        for i in numbers or self.up():
            self.loads[i].wait_running()

    def stop_load(self, numbers=None):
        """Ends it; it must have seen no error. {node: the longest stalls in s, by name}."""
        numbers = list(numbers or self.loads)
        stalls = dict(zip(numbers, self.on_each(lambda i: self.loads[i].stop(), numbers))) if numbers else {}
        for i in numbers:
            self.loads.pop(i)
        return stalls

    def progress(self, numbers=None, timeout=90):
        """Until each part of each load has gone on."""
        for i in numbers or list(self.loads):
            self.loads[i].progress(timeout)

    # -- checks

    def mark(self):
        """From now on wait_event() and wait_fenced() look only at what comes."""
        for i, guest in self.guests.items():
            self.marks[i] = len(guest.events_seen())
        self.fenced = {(i, program): self.cluster.fencer.count(i, program) for i in self.all for program in (DDRAIDD, DLM)}

    def events(self, number):
        return self.guests[number].events_seen()[self.marks[number]:]

    def wait_event(self, number, event, timeout=60, **fields):
        """Until a node's events since the mark held one such; it."""
        guest, deadline = self.guests[number], time.monotonic() + timeout * time_scale()
        while True:
            found = [e for e in self.events(number) if e["event"] == event and all(e.get(k) == v for k, v in fields.items())]
            if found:
                return found[-1]
            assert time.monotonic() < deadline, f"node {number}: no event {event} {fields}: {self.events(number)[-8:]}, {guest.status(NAME)['cluster']}"
            time.sleep(0.2)

    def disks(self):
        return [d.path for d in self.cluster.nodes[0].disks]

    def raw(self, *options):
        """What a power cut of all at this moment would leave, by an independent reader; its report."""
        directory = self.cluster.run.path / "snapshot"
        directory.mkdir(exist_ok=True)
        began = time.monotonic()
        with self.cluster.frozen():
            subprocess.run(["cp", "--sparse=auto", *self.disks(), directory], check=True)
        frozen = time.monotonic() - began
        report = tools.rawcheck("check", [directory / path.name for path in self.disks()], *options)
        report["frozen"] = frozen
        shutil.rmtree(directory)
        assert report["bad_outside_dirty"] == [], f"inconsistent stripes outside dirty regions: {report['bad_outside_dirty']}; {report}"
        assert report["log_unreadable"] == [], f"log blocks are unreadable: {report['log_unreadable']}"
        return report

    def wait_idle(self, to_sync=True, timeout=120):
        """Waits until no node has a dirty region and (`to_sync`) none waits for its first resync, as long as the number decreases."""
        left, deadline = None, 0
        while True:
            regions = [guest.status(NAME)["regions"] for guest in self.guests.values()]
            now = sum(r["dirty"] + (r["needs_sync"] if to_sync else 0) for r in regions)
            if not now:
                return
            if left is None or now < left:
                left, deadline = now, time.monotonic() + timeout * time_scale()
            assert time.monotonic() < deadline, f"for {timeout} s not less than {left} regions to do: {regions}"
            time.sleep(0.3)

    def settle(self, torn=False, raw=True):
        """The end of a round: load off, all data that was reported durable is on every node, nothing is inconsistent; the stalls.

        `torn`: see load.verify; the files of the nodes that died are rewritten. `raw`: False if so many members have failed that no parity is
        left to check.
        """
        stalls = self.stop_load()
        self.wait_idle(to_sync=False)
        harmed = self.on_each(lambda i: verify(self, i, torn))
        for on, blocks in zip(self.up(), harmed):
            if blocks:
                print(f"      read on node {on}: in flight at the crash, garbage, in suspect regions: {blocks} (node: blocks of its ledger)", flush=True)
        for i in self.cut if torn else ():
            # In-flight blocks may still change when the member is recomputed. Data of survivors that was reported durable stays so.
            fill(self.node(self.up()[0]), i)
            self.ledgers[i] = tools.Ledger()
        self.cut = {}
        if raw:
            self.raw()
        return stalls

    def accept_suspect(self, timeout=60):
        """What is suspect was looked at, and the array is whole: it is accepted, so that what the next crash leaves is seen apart. How many regions."""
        self.wait_idle()
        count, deadline = self.guests[min(self.guests)].status(NAME)["regions"]["suspect"], time.monotonic() + timeout * time_scale()
        while any(guest.status(NAME)["regions"]["suspect"] for guest in self.guests.values()):
            assert time.monotonic() < deadline, f"still suspect: {[guest.status(NAME)['suspect'] for guest in self.guests.values()]}"
            self.guests[min(self.guests)].command(f"set {NAME} suspect=accept", check=False)      # refused while the map is being changed
            time.sleep(0.5)
        return count

    def slow(self, rate):
        """Rebuild and resync on all nodes so fast, whatever else the disks do; None: as fast as they can."""
        steps = [f"resync_min_rate={rate}", f"resync_max_rate={rate}"] if rate else ["resync_max_rate=0", "resync_min_rate=10M"]
        for step in steps:              # the least must not be above the most, at no time
            self.on_each(lambda i, step=step: self.guests[i].command(f"set {NAME} {step}"))

    def unmount(self, numbers=None):
        if self.filesystem:
            self.on_each(lambda i: self.node(i).run(f"umount {MOUNT}", timeout=120), numbers)

    def stop(self, numbers=None):
        numbers = list(numbers or self.up())
        self.unmount(numbers)
        for i in numbers:
            self.stop_one(i)

    def finish(self, between=None):
        """All stop (between unmounting and stopping `between(rig)`); then no stripe is wrong and nothing is dirty or waits for a resync."""
        self.wait_idle()
        self.unmount()
        if between:
            between(self)
        for i in self.up():
            self.stop_one(i)
        tools.rawcheck("check", self.disks(), "--assert-none", "--assert-idle")
        for node in self.cluster.nodes:
            node.dmesg_check()
