# SPDX-License-Identifier: GPL-2.0-or-later
"""Clusters of machines are what drills rely on: corosync, dlm, GFS2, fencing, split networks."""

import time


def test_three_nodes_share_gfs2_and_survive_one(make_cluster):
    """A node dies while it holds GFS2; its power is cut, and a survivor reads what it wrote."""
    cluster = make_cluster(disks=1, size="256M")
    cluster.boot()
    cluster.start()
    dev = cluster.node(1).disks[0].dev
    cluster.node(1).run(f"mkfs.gfs2 -q -O -p lock_dlm -t ddvm:fs -j 3 -J 8 {dev}")
    for number in (1, 2, 3):
        cluster.node(number).run(f"mount -t gfs2 {dev} /mnt")
    for number in (1, 2, 3):
        cluster.node(number).run(f"echo from {number} > /mnt/{number} && sync /mnt/{number}")
    for number in (1, 2, 3):
        assert cluster.node(number).run("cat /mnt/1 /mnt/2 /mnt/3").out == "from 1\nfrom 2\nfrom 3\n"

    writer = cluster.node(3).spawn("while :; do echo x >> /mnt/dead; sync /mnt/dead; echo synced; done")
    writer.wait_output("synced")
    began = time.monotonic()
    cluster.node(3).kill()
    # The dead node's lock on the file is free once it was fenced and its journal replayed.
    lines = cluster.node(1).run("echo still > /mnt/1 && cat /mnt/1 && grep -c x /mnt/dead", timeout=90).out.split()
    assert lines[0] == "still"
    assert int(lines[1]) >= writer.out.count("synced")
    cluster.wait_fenced(3)
    print(f"recovered after {time.monotonic() - began:.1f} s")
    assert cluster.votes(1) == ({1, 2}, True)
    for number in (1, 2):
        cluster.node(number).run("umount /mnt")
