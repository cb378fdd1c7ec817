# SPDX-License-Identifier: GPL-2.0-or-later
"""Boot: arrays appear by event, late disks come back, and nothing on the way to a login waits for a disk or for quorum."""
import json
import pathlib
import time

import pytest

GUEST = pathlib.Path(__file__).resolve().parents[1] / "guest"
UNIT = "ddraid-start@$(cat /root/uuid)"
# One node of two: no quorum until it is configured that one vote suffices (quorum()).
COROSYNC = """totem {\n version: 2\n cluster_name: ddvm\n transport: knet\n crypto_cipher: none\n crypto_hash: none\n}
system {\n sched_rr: no\n}\nlogging {\n to_syslog: yes\n to_logfile: no\n}
quorum {\n provider: corosync_votequorum\n expected_votes: 2\n}
nodelist {\n node {\n  nodeid: 1\n  name: here\n  ring0_addr: 127.0.0.1\n }\n node {\n  nodeid: 2\n  name: there\n  ring0_addr: 127.0.0.2\n }\n}\n"""

VM = {"disks": 3, "size": "64M", "systemd": True, "persistent": True}


@pytest.fixture
def node(shared_node):
    """The machine of all tests here, without an array, as if the disks were new."""
    for disk in [d for d in shared_node.disks if d.serial in shared_node.unplugged]:
        shared_node.plug(disk)
    shared_node.run("umount -q /mnt /srv/data; systemctl stop ddraid 'ddraid-start@*' ddraidd corosync; systemctl reset-failed; dmsetup remove_all --force; "
                    f"rm -rf /etc/corosync/corosync.conf /run/ddraid/held; for d in {devices(shared_node)}; do wipefs -qa $d; "
                    "dd if=/dev/zero of=$d bs=1M oflag=direct conv=nocreat; done; udevadm settle", check=False, timeout=120)
    assert shared_node.run("dmsetup ls").out.split() == ["No", "devices", "found"]
    return shared_node


def devices(node):
    return " ".join(d.dev for d in node.disks)


def make(node, *more):
    """An array with a file system and a file, stopped, as after a first day of use."""
    node.run("systemctl start ddraidd")
    made = json.loads(node.run(f"ddraid create data --order 1 --json {' '.join(more)} {devices(node)}").out)
    node.run(f"echo {made['uuid']} >/root/uuid")
    node.run("ddraid start data && udevadm settle && mkfs.ext4 -q -E nodiscard -U 11111111-2222-3333-4444-555555555555 /dev/mapper/data"
             " && mount /dev/mapper/data /mnt && cp -r /etc/udev /mnt && umount /mnt && udevadm settle && ddraid stop data")


def status(node):
    return json.loads(node.run("ddraid status --json").out)


def udev(node, device):
    text = node.run(f"udevadm settle && udevadm info -q property {device}").out
    return dict(line.split("=", 1) for line in text.splitlines())


def journal(node, more=""):
    return node.run(f"journalctl --sync; journalctl -b -o cat {more}").out


# ---- disks that are late ------------------------------------------------------------------

def test_S5_an_array_appears_with_its_disks(node):
    """Findings S5, S38: no disk is there when the machine has booted. When they come the array starts, each time, and what was stopped by hand stays so."""
    make(node)
    node.run("systemctl start ddraid")
    node.wait_until("ddraid status --json | grep -q optimal", 60)
    node.run("udevadm settle && ddraid stop data")
    for disk in node.disks:
        node.unplug(disk)
    for disk in node.disks:
        node.plug(disk)
    node.run("udevadm settle; sleep 5")
    assert status(node) == []               # by hand it was stopped
    for disk in node.disks:
        node.unplug(disk)
    node.run("systemctl restart ddraid")
    assert status(node) == []
    for disk in node.disks[:2]:
        node.plug(disk)
    node.wait_until("ddraid status --json | grep -q 'has no disk for member'", 30)
    node.plug(node.disks[2])
    node.wait_until("mountpoint -q /mnt || mount /dev/mapper/data /mnt", 60)
    assert status(node)[0]["state"] == "optimal"
    node.run("diff -r /etc/udev /mnt/udev && umount /mnt")
    assert node.run(f"systemctl is-failed {UNIT}", check=False).out.strip() != "failed"


def test_S38_a_disk_that_was_late_comes_back(node):
    """Findings S5, S38: the third disk appears after the half minute, and another one disappears and returns: no command is needed.
    take_back = no is obeyed.
    """
    make(node)
    node.unplug(node.disks[2])
    node.run("systemctl start ddraid", timeout=120)
    node.wait_until("test -b /dev/mapper/data", 90)
    assert status(node)[0]["state"] == "degraded"
    node.run("mount /dev/mapper/data /mnt && cp -r /usr/share/perl5 /mnt && sync")
    node.plug(node.disks[2])
    node.wait_until("ddraid status | grep -q optimal", 60)
    node.unplug(node.disks[0])
    node.run("cp -r /etc /mnt && sync")
    node.wait_until("ddraid status | grep -q degraded", 60)
    node.plug(node.disks[0])
    node.wait_until("ddraid status | grep -q optimal", 60)
    node.run("ddraid set data take_back=no")
    node.unplug(node.disks[1])
    node.run("cp -r /etc /mnt/again && sync")
    node.plug(node.disks[1])
    node.run("udevadm settle; sleep 10")
    assert status(node)[0]["state"] == "degraded"
    node.run("ddraid set data take_back=yes")
    node.wait_until("ddraid status | grep -q optimal", 60)
    node.run("diff -r /usr/share/perl5 /mnt/perl5 && umount /mnt")


def test_S37_an_array_that_cannot_start_is_seen(node):
    """Finding S37: two of three disks are gone: a failed unit, an error in the journal, and an entry in the status, each with the reason."""
    make(node)
    for disk in node.disks[1:]:
        node.unplug(disk)
    node.run("systemctl start ddraid", timeout=120)
    node.wait_until(f"systemctl is-failed -q {UNIT}", 90)
    one, = status(node)
    assert (one["name"], one["state"]) == ("data", "inactive") and "needs 2 members in sync, and has 1" in one["error"], one
    for unit in ("ddraidd", UNIT):
        assert "needs 2 members in sync" in journal(node, f"-p err -u {unit}"), journal(node, f"-u {unit}")
    shown = node.run("ddraid status").out
    assert "data: inactive" in shown and "needs 2 members" in shown, shown
    for disk in node.disks[1:]:
        node.plug(disk)
    node.wait_until("ddraid status --json | grep -q optimal", 60)
    assert [a["state"] for a in status(node)] == ["optimal"]


# ---- quorum that is late -------------------------------------------------------------------

def test_S32_login_does_not_wait_for_quorum_and_mounts_follow(node):
    """
    Findings S6, S32, S42, P2: a node boots alone. Login is possible at once, no scan of devices hangs on the array, which is not visible
    yet; it can be stopped. When quorum comes, minutes later for systemd, the line of fstab that the manual has is mounted.
    """
    make(node)
    node.run("mkdir -p /etc/corosync /srv/data")
    node.put("/etc/corosync/corosync.conf", COROSYNC)
    line = next(line for line in (pathlib.Path(__file__).resolve().parents[3] / "doc/ddraid.8").read_text().splitlines() if line.startswith("/dev/mapper/NAME"))
    node.put("/etc/fstab", line.replace("\\-", "-").replace("NAME", "data") + "\n")
    # a device is waited for 90 s by default: to wait for longer takes too long here
    node.run("mkdir -p /etc/systemd/system.conf.d && printf '[Manager]\\nDefaultTimeoutStartSec=20s\\nDefaultDeviceTimeoutSec=20s\\n' >/etc/systemd/system.conf.d/t.conf")
    node.run("systemctl enable corosync ddraidd ddraid && systemctl set-default multi-user.target")
    node.shutdown()
    node.boot()
    node.wait_until("test ! -e /run/nologin && systemctl is-active -q systemd-user-sessions multi-user.target", 90)
    node.wait_until("ddraid status --json | grep -q quor", 60)
    begun = time.monotonic()
    node.run("blkid; udevadm trigger --subsystem-match=block && udevadm settle --timeout=30", timeout=60)
    node.run("! test -b /dev/mapper/data && ! grep -q data /proc/mounts")
    took = time.monotonic() - begun
    node.run("sleep 25")
    assert took < 30, f"what looks at all devices took {took:.0f} s"
    node.run("corosync-quorumtool -e 1 >/dev/null")
    node.wait_until("mountpoint -q /srv/data", 60)
    node.run("diff -r /etc/udev /srv/data/udev")
    assert node.run("systemctl --failed --no-legend").out == ""


def test_S42_the_kernel_is_served_before_its_first_resume(node):
    """Finding S42: a daemon serves an array whose device was not resumed yet; what it told the kernel counts for that table alone, and while the daemon runs."""
    node.run("modprobe dm-ddraid")
    for path in GUEST.glob("kchan*.py"):
        node.put(f"/tmp/{path.name}", path.read_bytes())
    node.run(["python3", "/tmp/kchan_cases.py", "bind_loaded"], timeout=120, env={"DM_DISABLE_UDEV": "1"})


def test_S42_nobody_hangs_on_an_array_that_waits(node):
    """Finding S42: without quorum the device is not there for anybody, and the array can be stopped."""
    make(node)
    node.put("/etc/corosync/corosync.conf", COROSYNC)
    node.run("systemctl stop ddraidd && systemctl start corosync ddraidd")
    start = node.spawn("exec ddraid start data")
    node.wait_until("dmsetup info data | grep -q 'Tables present: *INACTIVE'", 30)
    node.run("udevadm trigger --subsystem-match=block && udevadm settle --timeout=30 && ! test -e /dev/mapper/data", timeout=60)
    node.run("for d in /dev/dm-*; do timeout 10 blkid -p $d; test $? -ne 124 || exit 1; done", timeout=60)
    assert start.poll() is None
    node.run("ddraid stop data", timeout=60)
    assert "data" not in node.run("dmsetup ls").out.split()
    assert start.wait(30, check=False).code == 1
    start = node.spawn("exec ddraid start data")
    node.run("corosync-quorumtool -e 1 >/dev/null")
    assert start.wait(60).code == 0
    node.run("udevadm settle && mount /dev/mapper/data /mnt && diff -r /etc/udev /mnt/udev && umount /mnt && ddraid stop data")
