# SPDX-License-Identifier: GPL-2.0-or-later
"""A machine with 36 SCSI disks: is an event of a disk ever delayed by us, and what does the start of one array open? (What our rules and units cost at its boot: ./quickstart bench boot.)"""
import pytest
from many_disks import ARRAYS, DISKS, prepare, scsi


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


def opened(node, uuid):
    """The disks that an automatic start of this array opens, with repetitions, and its system calls."""
    node.run("rm -f /run/ddraid/held/*; udevadm settle")
    node.run(f"strace -f -o /run/trace ddraid start --auto {uuid}", timeout=120)
    lines = node.run("cat /run/trace").out.splitlines()
    return sorted(line.split('"')[1] for line in lines if 'openat(AT_FDCWD, "/dev/sd' in line), len(lines)


def test_a_start_opens_the_disks_of_its_array(node):
    """Each start of one array opened all disks of the machine, with 250 system calls for each. An old record of udev delays, and hides nothing."""
    node.run("systemctl start ddraidd", timeout=120)
    disks = sorted(node.run("lsblk -dno PATH | grep ^/dev/sd").out.split())
    label = {disk: node.run(f"udevadm info -q property {disk} | sed -n s/^ID_FS_LABEL=//p").out.strip() for disk in disks}
    own = {f"data{i}": [disk for disk in disks if label[disk] == f"data{i}"] for i in range(ARRAYS)}
    assert all(len(members) == 5 for members in own.values()), own
    others = {disk for name, members in own.items() if name != "data0" for disk in members}
    uuid = node.run(f"udevadm info -q property {own['data0'][0]} | sed -n s/^ID_FS_UUID=//p").out.strip()
    devices, calls = opened(node, uuid)
    print(f"{len(devices)} of {DISKS} disks opened, {calls} system calls")
    assert devices == [disk for disk in disks if disk not in others], devices
    assert calls < 4000
    # udev has one of them as something else by now: all are read, and the array is whole
    node.run("ddraid stop data0")
    node.put("/etc/udev/rules.d/99-old.rules", f'KERNEL=="{own["data0"][1][5:]}", ENV{{ID_FS_TYPE}}="ext4"\n')
    node.run(f"udevadm control --reload; udevadm trigger --settle {own['data0'][1]}", timeout=120)
    devices, _ = opened(node, uuid)
    assert set(devices) == set(disks)
    assert "optimal" in node.run("ddraid status data0").out
