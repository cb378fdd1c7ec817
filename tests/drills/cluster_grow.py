#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Members become larger, and the array and its file system grow, while all nodes use them.

Topology: three nodes, one array of five disks (order 2, P), GFS2 on it, mounted on all; on every node each disk is below a device that at
first is shorter; corosync over two rings; a fence device.
Phases: load on all; the devices are made longer, except one on one node: growing is refused, with the name of the node and the device. Then
that one is made longer, too, and the array grows, requested on another node in each round: all nodes report it, all have the longer device,
and the load continues without an error; in even rounds a node's power is cut as that begins, and when it comes back the array has grown, or
grows now. The disks hold nothing inconsistent outside of dirty regions, and all data that was reported durable is read on every node. The
load ends, gfs2_grow is run, all nodes have the space, fill it, and read what the others wrote. Nobody else is fenced. Then the array is
recreated, on short devices.
"""
import sys
import time

import drill
from ddvm.config import time_scale
from rig import DEV, MOUNT, NAME, REGION, Rig

SMALL = 48 << 20        # bytes of a member at first; its disk has 64 MiB


class GrowRig(Rig):
    def start_daemon(self, number):
        node = self.node(number)
        if node.run("dmsetup info m0", check=False).code:
            for index, disk in enumerate(node.disks):
                node.run(["dmsetup", "create", f"m{index}", "--table", self.line(disk, self.sizes[index])])
        super().start_daemon(number)

    sizes = [SMALL] * drill.DISKS

    def line(self, disk, size):
        return f"0 {size // 512} linear {disk.dev} 0"

    def lengthen(self, index, numbers=None):
        """The device of a member has all of its disk, on nodes."""
        self.on_each(lambda i: self.node(i).run(f"dmsetup load m{index} --table '{self.line(self.node(i).disks[index], self.node(i).disks[index].size)}' && "
                                                f"dmsetup resume m{index}"), numbers)

    def create(self):
        first = self.guests[min(self.guests)]
        first.create(NAME, *self.shape, [f"/dev/mapper/m{i}" for i in range(len(first.node.disks))], f"--region-size {REGION} --overwrite --yes")
        self.start()
        self.prepare()

    def again(self):
        """A new array on short devices; what the last one left behind them is no matter."""
        self.stop()
        self.sizes = [SMALL] * drill.DISKS
        for i in self.up():
            for index, disk in enumerate(self.node(i).disks):
                self.node(i).run(f"dmsetup remove m{index} && dmsetup create m{index} --table '{self.line(disk, SMALL)}'")
        self.create()

    def device_size(self, number):
        return int(self.node(number).run(f"blockdev --getsize64 {DEV}").out)

    def wait_size(self, size, timeout=60):
        deadline = time.monotonic() + timeout * time_scale()
        for i in self.up():
            while self.device_size(i) != size:
                assert time.monotonic() < deadline, f"node {i}: the device has {self.device_size(i)} bytes, not {size}: {self.events(i)[-6:]}"
                time.sleep(0.3)


def grow(rig, by, dies):
    """The array grows; with @dies that node's power is cut meanwhile. The new size."""
    job = rig.node(by).spawn(f"exec ddraid grow {NAME}")
    if dies:
        time.sleep(0.3)
        rig.die(dies)
        rig.wait_fenced(dies)
    done = job.wait(180)
    if dies:
        rig.wait_recovered(dies)
        rig.bring([dies])
    if done.code:               # the dead node had been asked how large its devices are, and had not answered
        assert dies, done
        rig.node(by).run(f"ddraid grow {NAME}", timeout=180)
    size = rig.guests[by].status(NAME)["size"]
    rig.wait_size(size)
    return size


def space(rig, number):
    """Bytes of the file system on the node."""
    blocks, block = rig.node(number).run(f"stat -f -c '%b %S' {MOUNT}").out.split()
    return int(blocks) * int(block)


def wait_space(rig, number, had, timeout=90):
    """GFS2 sees another node's gfs2_grow at its next look at the common counts, which is every 30 s."""
    deadline = time.monotonic() + timeout * time_scale()
    while space(rig, number) <= had:
        assert time.monotonic() < deadline, f"node {number}: the file system has {space(rig, number)} bytes, as before"
        time.sleep(1)


def round_of(rig, number):
    last, by = drill.DISKS - 1, (number - 1) % len(rig.all) + 1
    late = by % len(rig.all) + 1                # sees the new size of one device later
    dies = (by + 1) % len(rig.all) + 1 if number % 2 == 0 else None
    before = rig.device_size(by)
    rig.load()
    rig.progress()
    for index in range(last):
        rig.lengthen(index)
    rig.lengthen(last, [i for i in rig.up() if i != late])
    refused = rig.node(by).run(f"ddraid grow {NAME}", check=False, timeout=180)
    assert refused.code == 1 and f"/dev/mapper/m{last}" in refused.err and str(SMALL) in refused.err, refused
    assert rig.device_size(by) == before
    rig.lengthen(last, [late])
    rig.sizes = [d.size for d in rig.node(by).disks]
    began = time.monotonic()
    size = grow(rig, by, dies)
    took = time.monotonic() - began
    assert size > before + (16 << 20)
    for i in rig.up():
        if i != dies:
            rig.wait_event(i, "grown", 60, blocks=size // 4096)
    rig.progress()
    rig.raw()
    stalls = rig.settle()
    had = space(rig, by)
    rig.node(by).run(f"gfs2_grow {MOUNT}", timeout=180)
    fill = (size - before) // 2 // len(rig.all) >> 20
    rig.on_each(lambda i: rig.node(i).run(f"dd if=/dev/urandom of={MOUNT}/grown.{i} bs=1M count={fill} conv=fsync status=none && "
                                          f"sha256sum {MOUNT}/grown.{i} >{MOUNT}/sum.{i}", timeout=240))
    for i in rig.up():
        wait_space(rig, i, had)
        rig.node(i).run(f"echo 3 >/proc/sys/vm/drop_caches; sha256sum -c --quiet {MOUNT}/sum.*", timeout=240)
    rig.wait_idle(to_sync=False)
    rig.raw()
    for i in rig.all:
        assert i == dies or not any(rig.node_fenced(i)), f"somebody was fenced: {rig.cluster.fencer.log}"
    rig.again()
    longest = max(s for node in stalls.values() for s in node.values())
    return f"grown from {before >> 20} to {size >> 20} MiB in {took:.1f} s, asked on node {by}{f', node {dies} died' if dies else ''}; longest stall {longest:.1f} s"


if __name__ == "__main__":
    sys.exit(drill.main("cluster_grow", __doc__, round_of, kind=GrowRig))
