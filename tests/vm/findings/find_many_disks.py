# SPDX-License-Identifier: GPL-2.0-or-later
"""A machine with 36 SCSI disks: is an event of a disk ever delayed by us? (What our rules and units cost at its boot: ./quickstart bench boot.)"""
import pytest
from many_disks import ARRAYS, prepare, scsi


@pytest.fixture
def node(make_nodes, tmp_path):
    machine, = make_nodes(disks=0, systemd=True, neighbours=True, persistent=True, memory=1024, devices=scsi(tmp_path))
    machine.boot(300)
    prepare(machine)
    return machine


def test_S18_no_event_of_36_disks_is_delayed(node):
    """Findings S18, U10: a trigger of all disks while arrays run delays no event: udev takes a disk's lock for each, and retries later
    if it is held.
    """
    node.run("systemctl start ddraidd ddraid", timeout=120)
    node.wait_until(f"test $(ddraid status --json | grep -o optimal | wc -l) = {ARRAYS}", 120)
    node.run("udevadm control --log-level=debug && journalctl --rotate && udevadm trigger --settle && journalctl --sync", timeout=300)
    delayed = node.run("journalctl -b -o cat -u systemd-udevd | grep -i -e 'locked, ' -e 'currently locked' -e requeu", check=False).out
    assert not delayed, delayed[-2000:]
    assert node.run("journalctl -b -o cat -u systemd-udevd | grep -c 'Device processed'").out.strip() != "0"
    # checks that the test detects a delay: a lock is held for the time of an event
    node.run("flock /dev/sdz sleep 5 & sleep 1; udevadm trigger /dev/sdz; wait; udevadm settle; journalctl --sync", timeout=120)
    assert node.run("journalctl -b -o cat -u systemd-udevd | grep -i -e 'locked, ' -e 'currently locked' -e requeu", check=False).out
