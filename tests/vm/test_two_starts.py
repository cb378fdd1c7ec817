# SPDX-License-Identifier: GPL-2.0-or-later
"""Starts of one array at the same time, as by hand while udev starts it too."""
from serving import serving  # noqa: F401

VM = {"disks": 5, "size": "64M"}


def test_two_starts_at_once(serving):
    """One makes the device, one creates its node, and both report that it is started."""
    serving.begin()
    serving.array()
    for _ in range(8):
        serving.guest.command("stop data")
        starts = [serving.node.spawn("exec ddraid start data") for _ in range(4)]
        done = [start.wait(60) for start in starts]
        assert [d.code for d in done] == [0] * 4, done
        assert serving.guest.status("data")["state"] == "optimal"
    serving.guest.command("stop data")
    held = serving.node.spawn("exec flock /run/ddraid/start.lock sleep 8")
    serving.node.wait_until("! flock -n /run/ddraid/start.lock true", 20)
    start = serving.node.run("ddraid start data")
    assert "(pid " in start.err and "is starting an array; waiting until its device is there" in start.err, start
    assert held.poll() == 0
    assert serving.node.run("stat -c %a /run/ddraid/start.lock").out.strip() == "600"
