# SPDX-License-Identifier: GPL-2.0-or-later
"""The units and udev rules, on a machine with systemd: an array lives from create to a second start."""

import json

import pytest

pytestmark = pytest.mark.vm(disks=3, size="64M", systemd=True)


def udev(node, device):
    """udev's properties of a device, after all events have passed."""
    text = node.run(f"udevadm settle && udevadm info -q property {device}").out
    return dict(line.split("=", 1) for line in text.splitlines())


def state(node):
    return json.loads(node.run("ddraid status --json").out)[0]["state"]


def test_units_and_rules(node):
    verify = node.run("systemd-analyze verify --man=no ddraidd.service ddraid.service", check=False)
    assert "ddraid.service:" not in verify.err and "ddraidd.service:" not in verify.err

    node.run("systemctl start ddraidd")
    assert node.run("systemctl show -P StatusText ddraidd").out.strip()
    assert node.run("cat /proc/$(systemctl show -P MainPID ddraidd)/oom_score_adj").out.strip() == "-1000"
    assert "ID_FS_TYPE" not in udev(node, node.disks[0].dev)

    node.run("ddraid create data --order 1 " + " ".join(d.dev for d in node.disks))
    member = udev(node, node.disks[0].dev)
    assert member["ID_FS_TYPE"] == "ddraid_member" and member["ID_FS_USAGE"] == "raid"

    node.run("ddraid start data")
    array = udev(node, "/dev/mapper/data")
    assert array["DDRAID_READY"] == "1" and array["DM_UUID"].startswith("DDRAID-")
    node.run("mkfs.ext4 -q -U 11111111-2222-3333-4444-555555555555 /dev/mapper/data")
    assert udev(node, "/dev/mapper/data")["ID_FS_TYPE"] == "ext4"
    node.run("test -e /dev/disk/by-uuid/11111111-2222-3333-4444-555555555555")
    node.run("mount /dev/mapper/data /mnt && cp -r /etc /mnt/etc")

    # A daemon that dies is replaced, and what is mounted stays mounted.
    before = node.run("systemctl show -P MainPID ddraidd").out
    node.run("systemctl kill -s KILL ddraidd")
    node.wait_until("systemctl is-active ddraidd && test \"$(systemctl show -P MainPID ddraidd)\" != "
                    + before.strip(), timeout=60)
    node.run("udevadm trigger --settle /dev/mapper/data")
    assert udev(node, "/dev/mapper/data").get("SYSTEMD_READY") != "0"
    node.run("cp -r /usr/share/perl* /mnt/ && sync && umount /mnt && udevadm settle")

    node.run("systemctl start ddraid && systemctl stop ddraid ddraidd")
    assert "data" not in node.run("dmsetup ls").out.split()
    node.run("systemctl start ddraid")      # brings the daemon, too
    node.wait_until("ddraid status --json | grep -q optimal", 60)
    node.wait_until("test -e /dev/disk/by-uuid/11111111-2222-3333-4444-555555555555", 30)
    node.run("udevadm settle && mount /dev/disk/by-uuid/11111111-2222-3333-4444-555555555555 /mnt "
             "&& diff -r /etc/udev /mnt/etc/udev && umount /mnt")


@pytest.mark.slow
def test_an_array_that_cannot_start_does_not_keep_the_others_up(node):
    """A disk left over from another array: the start fails and reports that, and at shutdown the arrays that did start are stopped all the same."""
    a, b, c = (d.dev for d in node.disks)
    old = json.loads(node.run(f"systemctl start ddraidd && ddraid create old --order 0 --json {b} {c}").out)["uuid"]
    node.run(f"ddraid create data --order 0 --overwrite --yes {a} {b} && systemctl start ddraid")
    node.wait_until(f"systemctl is-failed -q ddraid-start@{old}", 90)
    assert "'old': array old is degraded" in node.run(f"journalctl --sync && journalctl -u ddraid-start@{old}").out
    assert {x["name"]: x["state"] for x in json.loads(node.run("ddraid status --json").out)} == {"data": "optimal", "old": "inactive"}
    node.run("dd if=/dev/urandom of=/dev/mapper/data bs=1M count=8 oflag=direct conv=nocreat && udevadm settle")    # udev looks at what was written, and has it open
    node.run("systemctl stop ddraid ddraidd")
    assert "data" not in node.run("dmsetup ls").out.split()
    for disk in (a, b):
        slots = json.loads(node.run(f"ddraid examine --json {disk}").out)[0]["slots"]
        assert [s["node"] for s in slots if s["node"]] == [1] and not any(s["dirty"] for s in slots), slots


@pytest.mark.slow
def test_without_the_module_the_boot_goes_on(node):
    """Nothing may wait forever for a daemon that waits for a module; a start of an array returns the reason."""
    node.run("systemctl stop ddraid ddraidd; rmmod dm_ddraid; echo 'install dm_ddraid /bin/false' >/etc/modprobe.d/none.conf")
    node.run("systemctl start ddraidd ddraid", timeout=60)
    assert "the kernel module dm-ddraid is not loaded" in node.run("systemctl show -P StatusText ddraidd").out
    assert "the kernel module is not loaded; modprobe dm-ddraid" in node.run("ddraid start --all", check=False).err
    node.run("rm /etc/modprobe.d/none.conf && modprobe dm_ddraid")
    node.wait_until("systemctl show -P StatusText ddraidd | grep -qx serving", timeout=20)


def test_an_array_without_a_daemon_is_not_scanned(node):
    """Reads wait until a daemon attaches; udev must not be among the readers."""
    node.run("systemctl start ddraidd && ddraid create data --order 1 "
             + " ".join(d.dev for d in node.disks))
    table = node.run("ddraid table data").out.strip()
    uuid = table.split()[3]
    node.run("systemctl stop ddraidd")
    node.run(f"dmsetup create --noudevsync data -u DDRAID-{uuid}", stdin=table)
    array = udev(node, "/dev/dm-0")
    assert array["SYSTEMD_READY"] == "0" and "DDRAID_READY" not in array
    node.run("systemctl start ddraidd")
    node.wait_until("dmsetup status data | grep attached", timeout=60)
    node.wait_until("udevadm info -q property /dev/dm-0 | grep DDRAID_READY=1", timeout=30)
    assert udev(node, "/dev/dm-0").get("SYSTEMD_READY") != "0"
    node.run("ddraid stop data")
