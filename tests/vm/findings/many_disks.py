# SPDX-License-Identifier: GPL-2.0-or-later
"""A machine with 36 SCSI disks and three arrays, for find_many_disks.py and the bench of its boot."""
import find_udev

DISKS, ARRAYS = 36, 3


def scsi(directory):
    """QEMU's arguments for the disks."""
    return find_udev.scsi(directory, DISKS, paths=1)


def prepare(node):
    """The disks are there, at each boot too, and arrays of five disks on the first of them; the other disks are empty, and no daemon runs."""
    node.run("systemctl mask --now multipathd multipathd.socket; rm -f /etc/multipath.conf; printf '%s\\n' virtio_scsi sd_mod >/etc/modules-load.d/scsi.conf; "
             "modprobe -a sd_mod virtio_scsi; udevadm settle", timeout=300)
    disks = node.run("lsblk -dno PATH | grep ^/dev/sd").out.split()
    assert len(disks) == DISKS
    node.run("systemctl start ddraidd", timeout=120)
    for i in range(ARRAYS):
        node.run(f"ddraid create data{i} --order 2 {' '.join(disks[i * 5:i * 5 + 5])}", timeout=120)
    node.run("systemctl stop ddraidd", timeout=120)
