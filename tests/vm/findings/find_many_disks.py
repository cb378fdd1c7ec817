# SPDX-License-Identifier: GPL-2.0-or-later
"""A machine with 36 SCSI disks: what our rules and units cost at boot, and whether an event of a disk is ever delayed by us."""
import statistics

import pytest
from find_udev import scsi

DISKS, ARRAYS, BOOTS = 36, 3, 5
RULES = ("59-ddraid-array.rules", "62-ddraid-member.rules")
# When udev is through with all disks, in seconds since the kernel began.
SETTLED = """[Unit]
Description=the time at which udev has settled
DefaultDependencies=no
Requires=systemd-udev-settle.service
After=systemd-udev-settle.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'cut -d" " -f1 /proc/uptime >/run/settled'

[Install]
WantedBy=multi-user.target
"""


@pytest.fixture
def node(make_nodes, tmp_path):
    """A machine with three arrays of five disks; the other disks are empty."""
    machine, = make_nodes(disks=0, systemd=True, neighbours=True, persistent=True, memory=1024, devices=scsi(tmp_path, DISKS, paths=1))
    machine.boot()
    machine.put("/etc/systemd/system/settled.service", SETTLED)
    machine.run("systemctl mask --now multipathd multipathd.socket; rm -f /etc/multipath.conf; printf '%s\n' virtio_scsi sd_mod >/etc/modules-load.d/scsi.conf; "
                "systemctl enable settled; modprobe -a sd_mod virtio_scsi; udevadm settle", timeout=300)
    disks = machine.run("lsblk -dno PATH | grep ^/dev/sd").out.split()
    assert len(disks) == DISKS
    machine.run("systemctl start ddraidd")
    for i in range(ARRAYS):
        machine.run(f"ddraid create data{i} --order 2 {' '.join(disks[i * 5:i * 5 + 5])}", timeout=120)
    machine.run("systemctl stop ddraidd")
    return machine


def seconds(node, ours):
    """From the kernel's begin until udev has settled and the machine is up, in a boot with our rules and units, or without."""
    for rule in RULES:
        node.run(f"rm -f /etc/udev/rules.d/{rule}" if ours else f"ln -sf /dev/null /etc/udev/rules.d/{rule}")
    node.run(f"systemctl {'enable' if ours else 'disable'} ddraidd ddraid; sync")
    node.shutdown()
    node.boot()
    node.wait_until("test -s /run/settled && systemctl is-system-running --wait | grep -q -e running -e degraded", 120)
    up = float(node.run("systemctl show -P UserspaceTimestampMonotonic; systemctl show -P FinishTimestampMonotonic").out.split()[1]) / 1e6
    if ours:
        node.wait_until(f"test $(ddraid status --json | grep -o optimal | wc -l) = {ARRAYS}", 60)
    return max(up, float(node.run("cat /run/settled").out))


def test_S18_boot_with_36_disks(node):
    """Findings S18, S32, P2: medians of five boots with ddraid and five without, in turn; and a trigger of all disks while arrays run delays no event."""
    found = {True: [], False: []}
    for _ in range(BOOTS):
        for ours in (False, True):
            found[ours].append(seconds(node, ours))
    ratio = statistics.median(found[True]) / statistics.median(found[False])
    print(f"boot with ddraid {sorted(found[True])} s, without {sorted(found[False])} s: {ratio:.3f}")
    assert ratio <= 1.05, (ratio, found)
    # udev takes each disk's lock for its events, and tries again later where somebody holds it
    node.run("udevadm control --log-level=debug && journalctl --rotate && udevadm trigger --settle && journalctl --sync", timeout=180)
    delayed = node.run("journalctl -b -o cat -u systemd-udevd | grep -i -e 'locked, ' -e 'currently locked' -e requeu", check=False).out
    assert not delayed, delayed[-2000:]
    assert node.run("journalctl -b -o cat -u systemd-udevd | grep -c 'Device processed' ").out.strip() != "0"
