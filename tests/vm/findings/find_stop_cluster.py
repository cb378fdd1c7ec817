# SPDX-License-Identifier: GPL-2.0-or-later
"""Stop and shutdown in a cluster whose nodes run systemd: an orderly stop of corosync, and a node without quorum that goes down."""
import serving  # noqa: F401 (it makes the drills importable)
from cluster_reboot import image
from ddvm.config import time_scale
from rig import DEV, MOUNT, NAME

UNITS = ("corosync", "dlm", "ddraidd")


def units(make_cluster, **options):
    """Two machines that start corosync, dlm and ddraid by their enabled units, and a line for GFS2 in /etc/fstab."""
    cluster = make_cluster(nodes=2, disks=3, size="256M", systemd=True, **options)
    stage = image(cluster, cluster.run.path / f"units-{id(cluster)}")
    for node in cluster.nodes:
        node.stage = stage
    return cluster, stage


def up(cluster, numbers):
    cluster.boot(numbers)
    for i in numbers:
        cluster.node(i).run(f"mkdir -p {MOUNT}")
        for unit in UNITS:
            cluster.node(i).wait_until(f"systemctl is-active {unit}", 180)


def array(cluster, mkfs, numbers):
    disks = " ".join(d.dev for d in cluster.node(1).disks)
    cluster.node(1).run(f"ddraid create {NAME} --order 1 --nodes 4 {disks}", timeout=90)
    for i in numbers:
        cluster.node(i).run(f"ddraid start {NAME} && udevadm settle", timeout=180)
    cluster.node(1).run(f"{mkfs} {DEV} && udevadm settle", timeout=180)


def goes_down(node, limit):
    node.spawn("systemctl poweroff")
    assert node.qemu.wait(limit * time_scale()), f"not down after {limit} s\n{node.console_tail(80)}"
    node.kill()


def without_two_node(cluster, stage):
    """A node that is alone has no quorum."""
    path = stage / "etc/corosync/corosync.conf"
    text = path.read_text().replace("two_node: 1", "two_node: 0")
    path.unlink()
    path.write_text(text)


def test_S43_a_node_without_quorum_goes_down(make_cluster):
    """Finding S43: a node lost quorum while its file system is written; what waits fails after 30 seconds, and the machine is down soon."""
    cluster, stage = units(make_cluster)
    without_two_node(cluster, stage)
    up(cluster, [1, 2])
    array(cluster, "mkfs.ext4 -q -E nodiscard", [1, 2])
    one = cluster.node(1)
    one.run(f"mount -t ext4 {DEV} /srv && dd if=/dev/urandom of=/srv/file bs=64k count=16 conv=fsync status=none", timeout=90)
    cluster.node(2).kill()
    one.wait_until(f"ddraid status {NAME} | grep -q 'NO QUORUM'", 90)
    one.spawn("dd if=/dev/urandom of=/srv/more bs=64k count=160 conv=fsync status=none")
    one.allow_dmesg("blocked for more than|Call Trace")
    goes_down(one, 200)
