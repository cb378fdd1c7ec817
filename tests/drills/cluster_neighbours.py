#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Nodes reboot, and corosync is stopped on them, with LVM, LUKS and GFS2 on arrays.

Topology: three nodes whose init is systemd and whose root file system outlives a boot. They share one array (order 2, one parity) with GFS2
on it. Each has a second array on disks of its own, with LVM on it, LUKS on that, and ext4 on that. All of it comes up by units, fstab and crypttab
as doc/cluster.md has them.
Variants, each with load on all of it:
reboot      node N reboots by systemctl reboot. Nobody is fenced, no region is recovered or dirty afterwards, and all is mounted again without
            a command.
corosync    corosync of node N is restarted, or is stopped and started again: the same.
cold        all are down; one node boots alone. It lets people log in at once, long before there is quorum; once the others come all is mounted. Its
            first round waits five minutes, the others half a minute.
"""
import shlex
import sys
import time

import ddvm
import drill
import tools
from cluster_reboot import UnitsRig
from ddvm.config import time_scale
from load import fill
from rig import MOUNT

LOCAL, OWN_DISKS = "/srv/local", 3
ALONE_S, ALONE_AGAIN_S = 300, 30
DOWN_S, UP_S = 180, 240
FIO_RESTS_S = 3
ORDER = "mnt.mount srv-local.mount ddraid-stop.service"
# As doc/cluster.md says: each user of the array is a unit that stops before it.
VOLUMES = """[Unit]
Description=LVM on an array
Requires=ddraid-stop.service
After=ddraid-stop.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true
ExecStop=/sbin/vgchange -an vg{i}

[Install]
WantedBy=multi-user.target
"""
ABOVE = """[Unit]
Requires=volumes.service
After=volumes.service
"""
STACK = """set -e
ddraid create own{i} --order 1 --region-size 1M {disks}
ddraid start own{i}
pvcreate -qq /dev/mapper/own{i} && vgcreate -qq vg{i} /dev/mapper/own{i} && lvcreate -qq -W n -n safe -l 100%FREE vg{i}
(umask 077; head -c 32 /dev/urandom > /etc/own.key)
cryptsetup luksFormat -q --pbkdf pbkdf2 --pbkdf-force-iterations 1000 /dev/vg{i}/safe /etc/own.key
cryptsetup open --key-file /etc/own.key /dev/vg{i}/safe plain && mkfs.ext4 -q /dev/mapper/plain && cryptsetup close plain
echo 'plain /dev/vg{i}/safe /etc/own.key luks,_netdev,nofail,x-systemd.device-timeout=0' >> /etc/crypttab
echo '/dev/mapper/plain {local} ext4 _netdev,nofail,x-systemd.device-timeout=0,x-systemd.wanted-by=dev-vg{i}-safe.device 0 2' >> /etc/fstab
mkdir -p {local}
systemctl daemon-reload && systemctl enable --now volumes.service && systemctl start systemd-cryptsetup@plain.service && systemctl start {local}
head -c 1M /dev/urandom > {local}/kept && sha256sum {local}/kept > /etc/kept.sum && sync
"""
# Appends and syncs until it is told to end or its file system is gone. It pauses as the loads in load.py do: three nodes that only start processes
# would leave the fourth part of two processors to the one that boots.
BUSY = "while echo \"$(date +%s%N)\" >> {local}/busy && sync {local}/busy; do sleep 0.3; done 2>/dev/null"


class NeighboursRig(UnitsRig):
    """Each node has disks of its own after the shared ones, with LVM, LUKS and ext4 on them."""
    units = ("blk-availability",)

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.own, self.busy = {}, {}
        for i, node in enumerate(self.cluster.nodes, 1):
            node.neighbours = node.persistent = True
            node.memory = 1024
            self.own[i] = [ddvm.Disk(node.session.path / f"own{i}-{d}.raw", drill.SIZE, f"own{i}d{d}") for d in range(OWN_DISKS)]
            node.disks = node.disks + self.own[i]

    def disks(self):
        return super().disks()[:drill.DISKS]

    def create(self):
        first = self.guests[min(self.guests)].node
        every, first.disks = first.disks, first.disks[:drill.DISKS]
        try:
            super().create()
        finally:
            first.disks = every
        self.on_each(self.create_own)

    def create_own(self, i):
        node = self.node(i)
        node.run("mkdir -p /etc/systemd/system/systemd-cryptsetup@plain.service.d")
        node.put("/etc/systemd/system/volumes.service", VOLUMES.format(i=i))
        node.put("/etc/systemd/system/systemd-cryptsetup@plain.service.d/volumes.conf", ABOVE)
        node.run(STACK.format(i=i, local=LOCAL, disks=" ".join(d.dev for d in self.own[i])), timeout=180)

    def mount(self, numbers=None):
        """systemd may be at it itself: the device has appeared."""
        self.on_each(lambda i: self.node(i).run(f"mountpoint -q {MOUNT} || mount {MOUNT} || mountpoint -q {MOUNT}", timeout=120), numbers)

    def start_load(self, number, command):
        """As a service would run it that has files open on the file systems and the array itself: it stops before they do."""
        return super().start_load(number, f"exec systemd-run --scope --quiet -p After='{ORDER}' sh -c {shlex.quote(command)}")

    def work(self):
        """Load on the shared file system and on each node's own."""
        self.load(rest=FIO_RESTS_S)
        for i in self.up():
            self.busy[i] = self.start_load(i, BUSY.format(local=LOCAL))
        self.progress()

    def rest(self):
        """All loads end without an error; what was promised is there on every node, and no node's own file has changed."""
        for i in list(self.busy):
            job = self.busy.pop(i)
            assert job.poll() is None, f"node {i}: the load on its own file system ended: {job.err}"
            job.kill()
        self.settle()
        self.on_each(lambda i: self.node(i).run("sha256sum -c --quiet /etc/kept.sum"))

    def wait_mounted(self, number, timeout=UP_S):
        self.node(number).wait_until(f"mountpoint -q {MOUNT} && mountpoint -q {LOCAL}", timeout)

    def wait_down(self, number):
        node = self.node(number)
        assert node.qemu.wait(DOWN_S * time_scale()), f"node {number} did not go down:\n{node.console_tail(60)}"
        node.kill()
        self.gone(number)
        self.busy.pop(number, None)

    def own_is_clean(self, number):
        """Of a node that is down: what it left on its own disks."""
        tools.rawcheck("check", [d.path for d in self.own[number]], "--assert-none", "--assert-idle")

    def nobody_was_lost(self, others):
        assert not any(any(self.node_fenced(i)) for i in self.all), f"somebody was fenced: {self.cluster.fencer.log}"
        lost = [(i, e) for i in others for e in self.events(i) if e["event"] in ("node-lost", "recovery")]
        assert not lost, f"a node was lost to the others: {lost}"

    def finish(self, between=None):
        """The whole cluster stops, as doc/cluster.md says: the arrays while there is quorum. Also the arrays of their own."""
        self.on_each(lambda i: self.node(i).run("systemctl stop dlm ddraid-stop", timeout=DOWN_S))
        self.on_each(lambda i: self.node(i).run("systemctl stop corosync", timeout=DOWN_S))
        tools.rawcheck("check", self.disks(), "--assert-none", "--assert-idle")
        for i in self.all:
            self.own_is_clean(i)


def chosen(rig, number):
    """The node whose turn it is, and the others."""
    one = len(rig.all) - (number - 1) % len(rig.all)
    return one, [i for i in rig.up() if i != one]


def reboot(rig, number):
    one, others = chosen(rig, number)
    rig.work()
    began = time.monotonic()
    rig.node(one).spawn("systemctl reboot")
    rig.wait_down(one)
    down = time.monotonic() - began
    for i in others:
        rig.wait_event(i, "node-left", node=one)
    rig.own_is_clean(one)
    began = time.monotonic()
    rig.boot([one])
    rig.wait_mounted(one)
    up = time.monotonic() - began
    rig.wait_active(rig.all)
    rig.progress()
    rig.nobody_was_lost(others)
    rig.rest()
    return f"node {one}: down in {down:.0f} s, up with all mounted in {up:.0f} s"


def corosync(rig, number):
    one, others = chosen(rig, number)
    restart = number % 2
    rig.work()
    rig.stop_load([one])                            # what has files open is no unit here, and would be in the way of any unmount
    rig.busy.pop(one).kill()
    began = time.monotonic()
    if restart:
        rig.node(one).run("systemctl restart corosync", timeout=DOWN_S)
    else:
        rig.node(one).run("systemctl stop corosync", timeout=DOWN_S)
        rig.own_is_clean(one)
    for i in others:
        rig.wait_event(i, "node-left", node=one)
    if not restart:
        rig.node(one).run("systemctl start --no-block multi-user.target")
    rig.wait_mounted(one)
    took = time.monotonic() - began
    rig.guests.pop(one)
    rig.take_part(one)
    rig.wait_active(rig.all)
    rig.progress()
    rig.nobody_was_lost(others)
    rig.rest()
    return f"corosync of node {one} {'restarted' if restart else 'stopped and started'}, all mounted again after {took:.0f} s"


def cold(rig, number):
    one, others = chosen(rig, number)
    alone = ALONE_S if number == 1 else ALONE_AGAIN_S
    rig.unmount()                                   # the last one to go has no quorum, and no lock on a file of GFS2 any more
    rig.on_each(lambda i: rig.node(i).spawn("systemctl poweroff"))
    for i in rig.all:
        rig.wait_down(i)
        rig.own_is_clean(i)
    tools.rawcheck("check", rig.disks(), "--assert-none", "--assert-idle")
    node = rig.node(one)
    rig.cluster.boot([one])
    began = time.monotonic()
    node.wait_until("systemctl is-active systemd-user-sessions.service && ! test -e /run/nologin", 60)
    login = time.monotonic() - began
    node.run("timeout 20 pvs && timeout 20 blkid", check=False)     # nothing that looks at all devices hangs on one that waits
    time.sleep(max(0, alone - (time.monotonic() - began)))
    assert node.run(f"mountpoint -q {MOUNT}", check=False).code, "it was mounted without quorum"
    node.run("ddraid status", check=False)
    rig.boot(others)
    rig.take_part(one)
    for i in rig.all:
        rig.wait_mounted(i)
    rig.wait_active(rig.all)
    rig.nobody_was_lost(rig.all)
    for i in rig.all:
        fill(rig.node(i), i)
    return f"node {one}: login {login:.0f} s after its first command, alone for {alone} s, then all mounted"


if __name__ == "__main__":
    sys.exit(drill.main("cluster_neighbours", __doc__, {"reboot": reboot, "corosync": corosync, "cold": cold}, kind=NeighboursRig))
