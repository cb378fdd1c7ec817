# SPDX-License-Identifier: GPL-2.0-or-later
"""Stop and shutdown on one machine:

running arrays are stopped cleanly, however they were started, and an array that cannot be stopped is still served.
"""
import json

import pytest

from ddvm.config import time_scale

DEV = "/dev/mapper/data"

pytestmark = pytest.mark.vm(disks=3, size="128M", systemd=True)


def array(node):
    """The daemon's unit, and an array that is started by hand."""
    disks = " ".join(d.dev for d in node.disks)
    node.run("systemctl start ddraidd")
    node.run(f"ddraid create data --order 1 --region-size 1M {disks} && ddraid start data && udevadm settle", timeout=90)


def write(node, target, regions=40):
    """Writes one block to each of this many regions of 1 MiB, just now: their marks are set."""
    node.run(f"for r in $(seq 1 {regions}); do dd if=/dev/urandom of={target} bs=4096 count=1 seek=$((r * 256)) oflag=direct "
             "conv=nocreat,notrunc status=none || exit 1; done")


def down(node, how="systemctl poweroff", limit=150):
    """Until the machine is off."""
    node.spawn(how)
    assert node.qemu.wait(limit * time_scale()), f"not down after {limit} s\n{node.console_tail(80)}"
    node.kill()


def dirty(node):
    """Regions that the members say are dirty; the machine has just booted, and nothing is started."""
    found = {}
    for disk in node.disks:
        for slot in json.loads(node.run(f"ddraid examine --json {disk.dev}").out)[0]["slots"]:
            found.update({r: slot["node"] for r in slot["dirty"]})
    return found


def pid(node):
    return node.run("cat /run/ddraid/ddraidd.pid").out.strip()


def test_S39_an_array_that_was_started_by_hand_is_stopped(node):
    """Finding S39: no unit was started for the arrays; the shutdown stops them all the same."""
    array(node)
    write(node, DEV)
    down(node)
    node.boot()
    assert not dirty(node)


def test_S7_a_device_on_the_array(node):
    """Finding S7: dm-linear on the array, and md on that, made by hand: no unit takes them down, and yet nothing is dirty afterwards."""
    array(node)
    node.run(f"dmsetup create top --table \"0 $(blockdev --getsz {DEV}) linear {DEV} 0\"")
    node.run("modprobe raid1; mdadm --create /dev/md0 --run --force --level 1 --raid-devices 1 --metadata 1.2 /dev/mapper/top", timeout=90)
    write(node, "/dev/md0")
    down(node, limit=240)
    node.boot()
    assert not dirty(node)


@pytest.mark.vm(disks=3, size="128M", systemd=True, neighbours=True, memory=1024)
def test_S31_LVM_and_LUKS_on_the_array(node):
    """Finding S31: blk-availability shuts down what is on the array, while the daemon still serves it."""
    array(node)
    node.run("systemctl is-active blk-availability || systemctl start blk-availability")
    node.run(f"pvcreate -q {DEV} && vgcreate -q vg {DEV} && lvcreate -q -W n -Z n -L 80M -n lv vg && udevadm settle", timeout=120)
    node.run("echo -n secret >/tmp/key && modprobe dm-crypt && cryptsetup -q luksFormat --pbkdf pbkdf2 --pbkdf-force-iterations 1000 /dev/vg/lv /tmp/key && "
             "cryptsetup open --key-file /tmp/key /dev/vg/lv box && mkfs.ext4 -q /dev/mapper/box && mount /dev/mapper/box /mnt", timeout=180)
    node.run("dd if=/dev/urandom of=/mnt/file bs=1M count=24 status=none && sync && sha256sum </mnt/file >/mnt/sum && dd if=/dev/zero of=/mnt/late bs=1M count=8 status=none")
    down(node, limit=240)
    node.boot()
    assert not dirty(node)
    node.run("systemctl start ddraidd && ddraid start data && udevadm settle && vgchange -q -ay vg && echo -n secret >/tmp/key", timeout=120)
    node.run("modprobe dm-crypt && cryptsetup open --key-file /tmp/key /dev/vg/lv box && mount /dev/mapper/box /mnt && sha256sum </mnt/file | diff - /mnt/sum "
             "&& test $(stat -c %s /mnt/late) = 8388608", timeout=120)


LATE = """[Unit]
RequiresMountsFor=/mnt

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true
ExecStop=/bin/sh -c 'sleep 5; echo kept >/mnt/late'
"""


@pytest.mark.vm(disks=3, size="128M", systemd=True, neighbours=True, memory=1024)
def test_S31_a_service_keeps_its_file_system_until_it_has_stopped(node):
    """Finding S31: blk-availability also unmounts, but only what systemd has left mounted once the services are down."""
    array(node)
    node.put("/etc/systemd/system/late.service", LATE)
    node.run(f"mkfs.ext4 -q {DEV} && udevadm settle && echo '{DEV} /mnt ext4 _netdev,nofail,x-systemd.requires=ddraid-stop.service 0 2' >>/etc/fstab")
    node.run("systemctl daemon-reload && systemctl start blk-availability mnt.mount late && mountpoint -q /mnt")
    down(node)
    node.boot()
    assert not dirty(node)
    node.run(f"systemctl start ddraidd && ddraid start data && udevadm settle && mount {DEV} /mnt && grep -q kept /mnt/late", timeout=90)


def test_S44_a_daemon_does_not_stop_below_an_array_in_use(node):
    """Finding S44: the units are stopped while the array is mounted: it stays served, the units say that they failed, and the last user's end is theirs."""
    array(node)
    node.run(f"mkfs.ext4 -q {DEV} && mount {DEV} /mnt && ddraid set data daemon_timeout=2s")
    before = pid(node)
    node.run("systemctl stop ddraid-stop ddraid ddraidd", check=False, timeout=200)
    assert node.run("systemctl is-failed ddraidd", check=False).out.strip() == "failed"
    assert pid(node) == before
    node.run("sleep 6; dd if=/dev/urandom of=/mnt/file bs=1M count=8 conv=fsync status=none", timeout=30)
    journal = node.run("journalctl --sync; journalctl -b -o cat -u ddraidd -u ddraid-stop").out
    assert "array 'data' is still started, so ddraidd does not stop" in journal
    # its start replaces it, as a restart does
    node.run("systemctl start ddraidd", timeout=60)
    assert pid(node) != before and node.run("systemctl is-active ddraidd").out.strip() == "active"
    node.run("dd if=/dev/urandom of=/mnt/file2 bs=1M count=8 conv=fsync status=none", timeout=30)
    # a restart leaves the array alone
    again = pid(node)
    node.run("systemctl restart ddraidd", timeout=60)
    assert pid(node) != again
    node.run("dd if=/dev/urandom of=/mnt/file3 bs=1M count=8 conv=fsync status=none", timeout=30)
    # asked to stop again, it ends after the array
    node.run("systemctl stop ddraidd", check=False, timeout=100)
    last = pid(node)
    node.run(f"test -e /proc/{last} && umount /mnt && udevadm settle && ddraid stop data", timeout=90)
    node.wait_until(f"! test -e /proc/{last}", 30)


def test_S28_reboot_with_a_suspended_array(node):
    """Finding S28: status shows that the array is suspended, and the machine goes down; what was written before is there."""
    array(node)
    node.run(f"mkfs.ext4 -q {DEV} && mount {DEV} /mnt && dd if=/dev/urandom of=/mnt/file bs=1M count=4 status=none && sync && sha256sum /mnt/file >/root/sum")
    total = node.run("cat /root/sum").out
    node.run("dmsetup suspend --nolockfs data")
    node.spawn("dd if=/dev/zero of=/mnt/more bs=1M count=4 conv=fsync")
    assert "SUSPENDED" in node.run("ddraid status").out
    assert json.loads(node.run("ddraid status --json").out)[0]["suspended"] is True
    down(node, "systemctl reboot", limit=120)
    node.boot()
    assert not dirty(node)
    node.run("systemctl start ddraidd && ddraid start data && udevadm settle && mount /dev/mapper/data /mnt", timeout=90)
    assert node.run("sha256sum /mnt/file").out == total


def test_S22_who_holds_the_array_is_named(node):
    """Finding S22: a mount in another namespace, a device on it, an open descriptor: `stop` names each, and what to type."""
    array(node)
    node.run(f"mkfs.ext4 -q {DEV} && udevadm settle")
    job = node.spawn(f"exec unshare --mount --propagation private sh -c 'mount {DEV} /srv && echo held && exec sleep 1000'")
    job.wait_output("held")
    refused = node.run("ddraid stop data", check=False, timeout=60)
    assert refused.code == 1 and "'data' is in use: it is mounted on /srv in the mount namespace of sleep (pid " in refused.err, refused.err
    assert refused.err.rstrip().endswith("then ddraid stop data"), refused.err
    job.kill()
    job.wait(30, check=False)
    node.run(f"udevadm settle; dmsetup create top --table \"0 $(blockdev --getsz {DEV}) linear {DEV} 0\"")
    refused = node.run("ddraid stop data", check=False, timeout=60)
    assert refused.code == 1 and "(top) lies on it" in refused.err, refused.err
    node.run("dmsetup remove top && udevadm settle")
    job = node.spawn(f"exec sleep 1000 <{DEV}")
    node.wait_until(f"dmsetup info -c --noheadings -o open data | grep -qx ' *1'", 20)
    refused = node.run("ddraid stop data", check=False, timeout=60)
    assert refused.code == 1 and "it is open in sleep (pid " in refused.err, refused.err
    job.kill()
    job.wait(30, check=False)
    node.run("ddraid stop data", timeout=60)


def few(node, files):
    """The daemon is restarted, and may have so many open files."""
    return node.run(f"mkdir -p /run/systemd/system/ddraidd.service.d && printf '[Service]\\nLimitNOFILE={files}\\n' "
                    ">/run/systemd/system/ddraidd.service.d/few.conf && systemctl daemon-reload && systemctl restart ddraidd", timeout=90, check=False)


def test_S29_descriptors_of_many_arrays(node):
    """Finding S29: the unit gives the daemon descriptors for 64 arrays of 16 members; if they do run out the message says so."""
    array(node)
    limit = node.run("grep 'Max open files' /proc/$(cat /run/ddraid/ddraidd.pid)/limits").out.split()
    assert int(limit[3]) >= 64 * (16 * 3 + 8), limit
    node.run("ddraid stop data")
    assert few(node, 24).code
    assert "LimitNOFILE" in node.run("journalctl --sync; journalctl -b -o cat -u ddraidd").out
    assert few(node, 64).code == 0
    pid = node.run("cat /run/ddraid/ddraidd.pid").out.strip()
    used = int(node.run(f"ls /proc/{pid}/fd | wc -l").out)
    node.run(f"prlimit --pid {pid} --nofile={used + 6}:64")
    said = ""
    for _ in range(12):
        node.spawn("exec ddraid events")
        done = node.run("ddraid status", check=False, timeout=60)
        if done.code:
            said = done.err
            break
    assert "LimitNOFILE" in said, said


def test_S30_run_is_full(node):
    """Finding S30: the file system of the pid file is full: a warning, and the daemon serves."""
    disks = " ".join(d.dev for d in node.disks)
    node.run("mkdir -p /run/ddraid && mount -t tmpfs -o size=4k tmpfs /run/ddraid && head -c 8192 /dev/zero >/run/ddraid/fill; df /run/ddraid | grep 100%")
    node.run("systemctl start ddraidd", timeout=60)
    assert "cannot write /run/ddraid/ddraidd.pid" in node.run("journalctl --sync; journalctl -b -o cat -u ddraidd").out
    node.run(f"ddraid create data --order 1 {disks} && ddraid start data && ddraid status data && ddraid stop data", timeout=90)


COROSYNC = """totem {
	version: 2
	cluster_name: one
	transport: udpu
	token: 10000
}
quorum {
	provider: corosync_votequorum
	expected_votes: 1
}
nodelist {
	node {
		nodeid: 1
		name: NAME
		ring0_addr: 127.0.0.1
	}
}
"""


# It is started once, and has failed if the array is not there by then.
NEEDS = """[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/bin/dd if=/dev/mapper/data of=/dev/null bs=4096 count=1 iflag=direct
"""


def resource(name):
    ops = "".join(f'<op id="{name}-{op}" name="{op}" interval="{30 if op == "monitor" else 0}s" timeout="300s"/>' for op in ("start", "stop", "monitor"))
    return f'<primitive id="{name}" class="systemd" type="{name}"><operations>{ops}</operations></primitive>'


@pytest.mark.vm(disks=3, size="128M", systemd=True, neighbours=True, memory=1024)
def test_S40_arrays_as_resources_of_Pacemaker(node):
    """Finding S40: as doc/cluster.md has it: standby and a shutdown leave nothing dirty; where a stop fails the array stays served."""
    disks = " ".join(d.dev for d in node.disks)
    node.put("/etc/corosync/corosync.conf", COROSYNC.replace("NAME", node.run("hostname").out.strip()))
    node.run("systemctl start ddraidd; systemctl enable ddraidd 2>/dev/null; systemctl disable ddraidd ddraid 2>/dev/null; "
             f"ddraid create data --order 1 --region-size 1M {disks} && systemctl stop ddraidd", timeout=120)
    node.put("/etc/systemd/system/needs-array.service", NEEDS)
    node.run("systemctl daemon-reload; mkdir -p /var/log/cluster /var/log/pacemaker; systemctl restart corosync && systemctl start pacemaker", timeout=180)
    node.wait_until("crm_mon -1 | grep -q Online:", 180)
    node.run("crm_attribute --name stonith-enabled --update false", timeout=60)
    node.run(["cibadmin", "--create", "-o", "resources", "--xml-text",
              f'<clone id="storage-clone"><group id="storage">{resource("ddraidd")}{resource("ddraid-all")}{resource("needs-array")}</group></clone>'], timeout=60)
    serves = "systemctl is-active needs-array && ddraid status data --json | grep -q '\"ready\": true'"
    node.wait_until(serves, 180)
    node.run("udevadm settle")
    write(node, DEV)

    standby = "crm_attribute --node $(crm_node -n) --name standby --update "
    node.run(standby + "on", timeout=60)
    node.wait_until("! systemctl is-active ddraidd", 180)
    assert "data" not in node.run("dmsetup ls").out.split()
    assert not dirty(node)
    node.run(standby + "off", timeout=60)
    node.wait_until(serves, 180)

    job = node.spawn(f"exec sleep 1000 <{DEV}")
    node.run("ddraid set data daemon_timeout=2s; " + standby + "on", timeout=60)
    node.wait_until("systemctl is-failed ddraidd", 240)
    write(node, DEV)
    job.kill()
    job.wait(30, check=False)
    node.run("udevadm settle; ddraid stop data", timeout=90)
    node.wait_until("! pidof ddraidd", 30)
    assert not dirty(node)

    node.run("crm_resource --cleanup; " + standby + "off", timeout=60)
    node.wait_until(serves, 180)
    node.run("udevadm settle")
    write(node, DEV)
    down(node, limit=300)
    node.boot()
    assert not dirty(node)
