# SPDX-License-Identifier: GPL-2.0-or-later
"""Requests that cannot be carried out in time, because another node does not do its part."""
import time

import serving  # noqa: F401 (it makes the drills importable)
from ddvm.config import time_scale
from guest import Guest

NAME = "shared"
DEV = f"/dev/mapper/{NAME}"
OPTIONS = {"fence_command": "/ddvm/fence", "idle_time": "60s", "io_timeout": "600s"}


def members(guest):
    return [(m["index"], m["state"]) for m in guest.status(NAME)["members"]]


def wait_acknowledged(guest):
    """Until a change of the members is possible again: the array takes the new disk then."""
    deadline = time.monotonic() + 60 * time_scale()
    while (done := guest.command(f"add {NAME} /dev/vdd --overwrite --yes", check=False, timeout=90)).code:
        assert time.monotonic() < deadline, done.err
        time.sleep(1)
    return done


def test_T5_an_add_that_the_command_gave_up_on(make_cluster, stage):
    """Finding T5: a disk hangs on node 2, so it does not acknowledge that the member fails. `add` gives up, names it, and leaves nothing behind."""
    del stage
    cluster = make_cluster(nodes=2, disks=4, size="48M")
    cluster.boot()
    cluster.start_corosync()
    one, two = Guest(cluster.node(1)), Guest(cluster.node(2), ["/dev/mapper/hangs", "/dev/vdb", "/dev/vdc", "/dev/vdd"])
    two.node.run("dmsetup create hangs --table \"0 $(blockdev --getsz /dev/vda) linear /dev/vda 0\"")
    for guest in (one, two):
        guest.start_daemon(**OPTIONS)
    one.create(NAME, 1, 1, "rotating", ["/dev/vda", "/dev/vdb", "/dev/vdc"], f"--overwrite --yes --region-size {1 << 20}")
    for guest in (one, two):
        guest.start(NAME)
    two.node.run(f"dd if=/dev/zero of={DEV} bs=4096 count=1 oflag=direct conv=nocreat status=none")
    two.node.run("dmsetup suspend hangs")
    writer = two.node.spawn(f"dd if=/dev/zero of={DEV} bs=4096 count=1 oflag=direct conv=nocreat status=none")
    two.node.wait_until("ps -eo stat,comm | grep -q '^D.*dd'", 30)
    one.command(f"fail {NAME} 0")

    for _ in range(2):
        gave_up = one.command(f"add {NAME} /dev/vdd --overwrite --yes", check=False, timeout=90)
        assert gave_up.code == 1 and "withdrawn" in gave_up.err and "node 2" in gave_up.err, gave_up
    stopped = one.node.spawn(f"ddraid add {NAME} /dev/vdd --overwrite --yes")
    time.sleep(3)
    stopped.kill(2)
    assert stopped.wait(30, check=False).code != 0
    assert len(members(one)) == 3, members(one)

    two.node.run("dmsetup resume hangs")
    writer.wait(60)
    wait_acknowledged(one)
    assert len(members(one)) == 4, f"more entries than disks: {members(one)}"
    for guest in (one, two):
        guest.stop(NAME)
