# SPDX-License-Identifier: GPL-2.0-or-later
"""Corosync is stopped (SIGSTOP) on one of three nodes, as where it hangs or its machine swaps: the daemon goes on, and says what it waits for (rule L4)."""
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "drills"))
from ddvm.config import time_scale  # noqa: E402
from guest import Guest  # noqa: E402

RUNS, LATER = "runs", "later"
CREATE = f"--overwrite --yes --region-size {1 << 20}"
ASKED = "ddraidd on this node waits for corosync: it was asked to "


def says(guest):
    """What status says of each array, as text; it answers at once."""
    begun = time.monotonic()
    text = guest.command("status", timeout=30).out
    assert time.monotonic() - begun < 5 * time_scale(), "status waits for corosync"
    return text


def wait_said(guest, text, seconds, arrays=1):
    """Until status says it of so many arrays."""
    deadline = time.monotonic() + seconds * time_scale()
    while says(guest).count(text) != arrays:
        assert time.monotonic() < deadline, f"status does not say '{text}' of {arrays}: {says(guest)}\n{guest.daemon.err[-2000:]}"
        time.sleep(0.5)


def writes(node, name, pattern):
    """A block of a region that the kernel may write, and that is read again."""
    node.run(f"yes {pattern} | head -c 4096 > /tmp/block && dd if=/tmp/block of=/dev/mapper/{name} bs=4096 count=1 oflag=direct conv=nocreat status=none && "
             f"dd if=/dev/mapper/{name} bs=4096 count=1 iflag=direct status=none | cmp - /tmp/block", timeout=30)


def test_corosync_is_stopped(make_cluster, stage):
    """Nobody else uses the array, so nobody fences the node. What was granted is written all the time; a second array waits, and starts when corosync goes on."""
    del stage
    cluster = make_cluster(nodes=3, disks=4, size="48M")
    cluster.boot()
    cluster.start_corosync()
    guests = {i: Guest(cluster.node(i)) for i in (1, 2, 3)}
    for guest in guests.values():
        guest.start_daemon(fence_command="none", idle_time="1h")
    node, guest = cluster.node(3), guests[3]
    guest.create_and_start(RUNS, 0, 1, "rotating", ["/dev/vda", "/dev/vdb"], CREATE)
    guest.create(LATER, 0, 1, "rotating", ["/dev/vdc", "/dev/vdd"], CREATE)
    writes(node, RUNS, "before")

    node.run("pkill -STOP -x corosync")
    wait_said(guest, ASKED, 20)
    later = node.spawn(f"exec ddraid start {LATER}")
    wait_said(guest, ASKED, 30, arrays=2)
    for _ in range(10):
        writes(node, RUNS, "during")
        says(guest)
        time.sleep(1)
    assert "did not run for" not in guest.daemon.err, "the loop stood still"
    assert guest.daemon.err.count("warning: " + ASKED) == 1, guest.daemon.err       # and once of each array
    assert guest.daemon.poll() is None and later.poll() is None

    node.run("pkill -CONT -x corosync")
    cluster.wait_members([1, 2, 3], [1, 2, 3])
    assert later.wait(60).code == 0, later.err
    deadline = time.monotonic() + 60 * time_scale()
    while "waits " in says(guest):
        assert time.monotonic() < deadline, says(guest)
        time.sleep(0.5)
    assert "corosync has answered ddraidd after" in guest.daemon.err, guest.daemon.err
    for name in (RUNS, LATER):
        writes(node, name, "behind")
    guest.stop(LATER)
    guest.stop(RUNS)


def test_the_daemon_ends_while_corosync_is_stopped(make_cluster, stage):
    """It does not wait for corosync for longer than some seconds, and says so; the next one serves the array when corosync goes on."""
    del stage
    cluster = make_cluster(nodes=3, disks=2, size="48M")
    cluster.boot()
    cluster.start_corosync()
    node, guest = cluster.node(3), Guest(cluster.node(3))
    guest.start_daemon(fence_command="none")
    guest.create_and_start(RUNS, 0, 1, "rotating", ["/dev/vda", "/dev/vdb"], CREATE)
    writes(node, RUNS, "before")
    node.run("pkill -STOP -x corosync")
    begun = time.monotonic()
    guest.daemon.kill(15)
    assert guest.daemon.wait(60, check=False).code == 0
    assert time.monotonic() - begun < 15 * time_scale(), "the end waits for corosync"
    assert "ddraidd ends although corosync was asked to" in guest.daemon.err, guest.daemon.err
    guest.start_daemon(fence_command="none")        # which connects: so it waits, and answers all the same
    wait_said(guest, "ddraidd on this node waits for corosync: it was asked to let ddraidd connect at ", 30)
    node.run("pkill -CONT -x corosync")
    cluster.wait_members([1, 2, 3], [1, 2, 3])
    node.wait_until(f"ddraid status {RUNS} | grep -q -v waits && dd if=/dev/mapper/{RUNS} of=/dev/null bs=4096 count=1 iflag=direct", 60)
    writes(node, RUNS, "behind")
    guest.stop(RUNS)
