# SPDX-License-Identifier: GPL-2.0-or-later
"""Stop and shutdown in a cluster whose nodes run systemd: a clean stop of corosync, and a node without quorum that goes down."""
import time

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


def mounted(node, timeout):
    node.wait_until(f"mountpoint -q {MOUNT}", timeout)


def mount(node):
    """Once the device has appeared, which no unit waits for; systemd may be at it itself then."""
    node.wait_until(f"test -b {DEV}", 60)
    node.run(f"mountpoint -q {MOUNT} || mount {MOUNT} || mountpoint -q {MOUNT}", timeout=180)


def served_and_written(node, name):
    node.run(f"dd if=/dev/urandom of={MOUNT}/{name} bs=64k count=16 conv=fsync status=none", timeout=90)


def not_lost(cluster, one, seconds):
    """So long the node is neither fenced nor lost to the other one."""
    deadline = time.monotonic() + seconds * time_scale()
    while time.monotonic() < deadline:
        assert not cluster.fencer.log, cluster.fencer.log
        assert cluster.node(one).alive()
        time.sleep(1)


def test_S36_corosync_is_stopped_and_restarted_in_order(make_cluster):
    """Finding S36: stop and restart of corosync stop the arrays first, GFS2 mounted and under load: nothing is dirty and nobody is fenced. A crash is one."""
    cluster, _ = units(make_cluster)
    up(cluster, [1, 2])
    array(cluster, "mkfs.gfs2 -q -O -K -p lock_dlm -t ddvm:data -j 2", [1, 2])
    one, two = cluster.node(1), cluster.node(2)
    for node in (one, two):
        mount(node)
    events = one.spawn("exec ddraid events --json")
    events.wait_output('"event":"state"')
    load = one.spawn(f"while :; do dd if=/dev/urandom of={MOUNT}/load bs=64k count=16 conv=fsync status=none || exit 1; done")
    served_and_written(two, "two")

    two.run("systemctl stop corosync", timeout=200)
    assert NAME not in two.run("dmsetup ls").out.split()
    not_lost(cluster, 2, 45)
    assert '"event":"node-left"' in events.out and '"event":"node-lost"' not in events.out, events.out[-2000:]
    two.run("systemctl start corosync dlm ddraidd ddraid", timeout=300)
    mounted(two, 180)
    served_and_written(two, "again")

    two.run("systemctl restart corosync", timeout=300)
    mounted(two, 180)
    not_lost(cluster, 2, 30)
    served_and_written(two, "restarted")
    assert '"event":"node-lost"' not in events.out and '"event":"recovery"' not in events.out, events.out[-2000:]
    assert load.poll() is None, load.err

    two.run("systemctl kill -s KILL corosync")
    cluster.wait_fenced(2, timeout=120)


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
