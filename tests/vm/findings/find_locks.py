# SPDX-License-Identifier: GPL-2.0-or-later
"""Locks on members: udev is never in the way of the daemon, nor the daemon in udev's; what is only locked is lost to nobody."""
import time

import pytest

from serving import DEV, MEMBERS, serving  # noqa: F401
from ddvm.config import time_scale

VM = {"disks": 6, "size": "64M"}
OWN = "/dev/ddraid-members"


def own_node(node, device):
    """The device node of our own for a disk; made by whoever locks it first."""
    number = node.run(f"stat -L -c '%Hr:%Lr' {device}").out.strip()
    return f"{OWN}/{number}"


def states(serving):
    return [m["state"] for m in serving.guest.status("data")["members"]]


# ---- udev ------------------------------------------------------------------------------

def change_events(node, disks):
    """How long udev takes for a change event of each disk, and what it logs meanwhile."""
    node.run("journalctl --sync; journalctl --rotate; journalctl --vacuum-time=1s; udevadm control --log-level=debug")
    begun = time.monotonic()
    node.run(f"udevadm trigger --action=change {disks} && udevadm settle --timeout=60", timeout=90)
    took = time.monotonic() - begun
    return took, node.run("udevadm control --log-level=info; journalctl --sync; journalctl -b -u systemd-udevd -o cat").out


@pytest.mark.vm(disks=4, size="64M", systemd=True)
def test_S2_events_of_members_are_not_delayed(node):
    """Findings S2, U12: udev handles the events of members, and of a spare, while the array is up, as fast as before."""
    members = " ".join(d.dev for d in node.disks[:3])
    spare = node.disks[3].dev
    node.run(f"systemctl start ddraidd && ddraid create data --order 1 --spare {spare} {members} && udevadm settle")
    before, _ = change_events(node, f"{members} {spare}")
    node.run("ddraid start data && udevadm settle", timeout=60)
    node.wait_until("ddraid status data --json | grep -q '\"state\": \"spare\"'", 20)
    took, seen = change_events(node, f"{members} {spare}")
    assert "Processing device" in seen or "processed" in seen, seen[-500:]
    assert "locked" not in seen, [line for line in seen.splitlines() if "locked" in line]
    assert took < 2 * before + 5, f"{took:.1f} s, {before:.1f} s while it was down"
    node.run("ddraid stop data")


# ---- the proof that a dead daemon's I/O has ended ------------------------------------------

def test_the_lock_lasts_as_long_as_the_io(serving, load_forget):
    """The daemon dies while a request hangs in one member: the lock of that one stays until it ends, nobody has those of the others, nor any usual node."""
    node = serving.node
    with serving.members_that_hang(load_forget) as members:
        serving.begin(io_engine="io_uring", io_timeout="60s", idle_time="60s")
        serving.array(parity=2, order=1, devices=members)
        node.run("dmsetup message f1 0 hang on")
        writer = node.spawn(f"exec dd if=/dev/urandom of={DEV} bs=4096 count=1 oflag=direct conv=nocreat")     # a cold region: a mark
        node.wait_until(f"awk '{{ exit $1 + $2 == 0 }}' /sys/dev/block/{own_node(node, members[1]).split('/')[-1]}/inflight", 20)
        serving.guest.kill_daemon()
        free = node.run("for f in 0 1 2 3; do " + " ".join(["flock -n", OWN + "/$(dmsetup info -c --noheadings -o major,minor --separator : f$f)", "true"])
                        + " && echo own$f; flock -n /dev/mapper/f$f true && echo usual$f; done", check=False).out.split()
        assert sorted(free) == ["own0", "own2", "own3", "usual0", "usual1", "usual2", "usual3"], free
        node.run("dmsetup message f1 0 hang off")
        node.wait_until(f"flock -n {own_node(node, '/dev/mapper/f1')} true", 10)
        serving.begin()
        assert writer.wait(60).code == 0, writer.err
        serving.wait_ready()
        assert set(states(serving)) == {"in-sync"}
