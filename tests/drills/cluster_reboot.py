#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A node reboots with its systemd units.

Topology: three nodes whose init is systemd, one array of five disks (order 2, one parity), GFS2 on it by a line in /etc/fstab; corosync,
dlm, ddraidd and ddraid are enabled units, installed as a package would. /etc is in the machines' image, since their root file system is
lost with the power.
Phases: load on the others; node N reboots by systemctl reboot. Its units shut it down in order: it leaves, nobody is fenced and no region
is recovered. It comes up, and takes part with the file system mounted, without a command; all data that was reported durable is read there.
"""
import pathlib
import shutil
import sys
import time

import drill
from ddvm.cluster import FENCE_AGENT
from ddvm.config import stage_dir
from guest import Guest
from rig import DEV, MOUNT, NAME, Rig

NETWORK = """[Unit]
Description=addresses of the rings
DefaultDependencies=no
After=systemd-udev-settle.service
Wants=systemd-udev-settle.service
Before=corosync.service network-online.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh /usr/lib/ddvm-network
"""
ADDRESSES = """modprobe virtio_net
for d in /sys/class/net/*; do
	IFS=: read -r a b c d4 ring number < $d/address
	[ "$a$b$c$d4" = 525400dd ] || continue
	ip addr add 10.77.$((0x$ring)).$((0x$number))/24 dev ${d##*/} && ip link set ${d##*/} up
done
"""
# As doc/cluster.md has them.
OPTIONS = ("noatime,_netdev,nofail,x-systemd.device-timeout=0,x-systemd.wanted-by=dev-mapper-shared.device,"
           "x-systemd.requires=dlm.service,x-systemd.after=ddraid.service")


def image(cluster, directory, units=()):
    """A stage with what an administrator would have put into /etc; its path. `units`: enabled besides."""
    shutil.copytree(stage_dir(), directory, symlinks=True)
    files = {
        "etc/corosync/corosync.conf": cluster.corosync_conf(),
        "etc/ddraid/ddraid.conf": f"fence_command = {FENCE_AGENT}\nidle_time = 1s\n",
        "etc/dlm/dlm.conf": f"post_join_delay=3\nenable_startup_fencing=0\nfence_all {FENCE_AGENT}\n",
        "etc/fstab": f"{DEV} {MOUNT} gfs2 {OPTIONS} 0 0\n",
        # What all programs said until the machine's end is on its console, which is kept when the drill fails.
        "etc/systemd/journald.conf.d/console.conf": "[Journal]\nForwardToConsole=yes\nTTYPath=/dev/ttyS0\nMaxLevelConsole=info\n",
        "etc/systemd/system/ddvm-network.service": NETWORK,
        "usr/lib/ddvm-network": ADDRESSES,
    }
    for name, text in files.items():
        path = pathlib.Path(directory) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="ascii")
    wants = pathlib.Path(directory) / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(parents=True, exist_ok=True)
    for unit in ("ddvm-network", "corosync", "dlm", "ddraidd", "ddraid", *units):
        where = "/etc" if unit == "ddvm-network" else "/usr/lib"
        (wants / f"{unit}.service").symlink_to(f"{where}/systemd/system/{unit}.service")
    return directory


class UnitsRig(Rig):
    """Machines that start everything by themselves."""
    units = ()

    def boot(self, numbers=None, alone=False):
        if not (stage := self.cluster.run.path / "units").exists():
            image(self.cluster, stage, self.units)
            for node in self.cluster.nodes:
                node.stage, node.systemd = stage, True
        numbers = list(numbers or self.all)
        self.cluster.boot(numbers)
        for i in numbers:
            self.take_part(i)

    def take_part(self, number):
        """Until the units of a machine that is on run."""
        node = self.node(number)
        node.put("/tmp/writer", self.writer, 0o755)
        for unit in ("corosync", "dlm", "ddraidd"):
            node.wait_until(f"systemctl is-active {unit}", 120)
        # An array that joins waits for corosync within the daemon's only thread, and corosync has much to do while a machine comes up.
        node.wait_until("ddraid status", 60)
        self.guests[number] = Guest(node)
        self.guests[number].watch_events()
        self.marks[number] = 0

    def mount(self, numbers=None):
        self.on_each(lambda i: self.node(i).run(f"mount {MOUNT}", timeout=120), numbers)


def round_of(rig, number):
    one = len(rig.all) - (number - 1) % len(rig.all)
    others = [i for i in rig.up() if i != one]
    rig.load(others)
    rig.progress()
    began = time.monotonic()
    rig.node(one).spawn("systemctl reboot")
    assert rig.node(one).qemu.wait(180), f"node {one} did not go down:\n{rig.node(one).console_tail()}"
    rig.node(one).kill()
    rig.gone(one)
    down = time.monotonic() - began
    for i in others:
        rig.wait_event(i, "node-left", node=one)
    began = time.monotonic()
    rig.boot([one])
    rig.node(one).wait_until(f"mountpoint -q {MOUNT}", 120)
    up = time.monotonic() - began
    rig.wait_active(rig.all)
    rig.progress()
    assert not any(any(rig.node_fenced(i)) for i in rig.all), f"somebody was fenced: {rig.cluster.fencer.log}"
    assert not any(e["event"] in ("node-lost", "recovery") for i in others for e in rig.events(i)), "the node was lost to the others"
    rig.settle()
    return f"node {one}: down in {down:.0f} s, up and mounted in {up:.0f} s, by its units ({NAME})"


if __name__ == "__main__":
    sys.exit(drill.main("cluster_reboot", __doc__, round_of, kind=UnitsRig))
