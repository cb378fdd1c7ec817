# SPDX-License-Identifier: GPL-2.0-or-later
"""udev, LVM and multipath: what our rules cost, what they say of members and arrays, and whose findings they respect."""
import json
import time

import pytest

VM = {"disks": 3, "size": "64M", "systemd": True, "neighbours": True}
RULE = "/etc/udev/rules.d/62-ddraid-member.rules"       # masks the one that is installed


@pytest.fixture
def node(shared_node):
    """The machine of the tests on plain disks, without an array, as if the disks were new."""
    shared_node.run("systemctl stop ddraid ddraidd; dmsetup remove_all --force; rm -rf /run/ddraid/held /etc/udev/rules.d/*; udevadm control --reload; "
                    f"for d in {devices(shared_node)}; do wipefs -qa $d; dd if=/dev/zero of=$d bs=1M oflag=direct conv=nocreat; done; udevadm settle", check=False,
                    timeout=120)
    assert shared_node.run("dmsetup ls").out.split() == ["No", "devices", "found"]
    return shared_node


def devices(node):
    return " ".join(d.dev for d in node.disks)


def udev(node, device):
    text = node.run(f"udevadm settle && udevadm info -q property {device}").out
    return dict(line.split("=", 1) for line in text.splitlines())


def event(node, device):
    """Reads of the device, and seconds, that one change event costs."""
    name = node.run(f"readlink -f {device}").out.strip().rsplit("/", 1)[-1]

    def reads():
        return int(node.run(f"cat /sys/block/{name}/stat").out.split()[0])

    node.run("udevadm settle")
    before, begun = reads(), time.monotonic()
    node.run(f"echo 3 >/proc/sys/vm/drop_caches; udevadm trigger --action=change {device} && udevadm settle --timeout=170", timeout=180)
    return reads() - before, time.monotonic() - begun


def cost(node, device):
    """What our rule adds to that."""
    with_rule = event(node, device)
    node.run(f"ln -s /dev/null {RULE} && udevadm control --reload")
    without = event(node, device)
    node.run(f"rm {RULE} && udevadm control --reload")
    return with_rule[0] - without[0], with_rule[1] - without[1]


def test_S18_one_read_decides(node):
    """Findings S18, U10: an event of a disk costs one read more with our rule; one with medium errors, or that takes seconds for a command, no more."""
    node.run("systemctl start ddraidd")
    assert cost(node, node.disks[0].dev)[0] <= 1
    # everything after the first 4 KiB is unreadable
    size = int(node.run(f"blockdev --getsz {node.disks[0].dev}").out)
    node.run(f"printf '0 8 linear {node.disks[0].dev} 0\\n8 {size - 8} error\\n' | dmsetup create bad")
    assert cost(node, "/dev/mapper/bad")[0] <= 1
    node.run("dmsetup remove bad && modprobe dm-delay")
    node.run(f"echo '0 {size} delay {node.disks[1].dev} 0 1000' | dmsetup create slow", timeout=180)
    reads, seconds = cost(node, "/dev/mapper/slow")
    assert reads <= 1 and seconds < 6, (reads, seconds)
    node.run("udevadm settle --timeout=100; dmsetup remove --retry slow", timeout=120)


def test_S18_a_disk_that_does_not_answer(node):
    """Findings S18, U10: the probe gives up after three seconds, and the process that it left behind delays nothing."""
    size = int(node.run(f"blockdev --getsz {node.disks[0].dev}").out)
    node.run(f"echo '0 {size} linear {node.disks[0].dev} 0' | dmsetup create hung && udevadm settle && dmsetup suspend hung")
    begun = time.monotonic()
    probe = node.run("/usr/lib/udev/ddraid-probe /dev/mapper/hung", check=False, timeout=30)
    assert probe.code == 1 and "has not answered within 3 s" in probe.err and 2.5 < time.monotonic() - begun < 20, probe
    node.run("dmsetup resume hung && udevadm settle && dmsetup remove --retry hung")


def test_S18_what_udev_says_of_members_and_arrays(node):
    """Findings S18, U10: members have the properties that members of other kinds have; an array has links by name and uuid."""
    node.run(f"systemctl start ddraidd && ddraid create data --order 1 {devices(node)}")
    made = json.loads(node.run(f"ddraid examine --json {node.disks[1].dev}").out)[0]
    said = udev(node, node.disks[1].dev)
    assert (said["ID_FS_TYPE"], said["ID_FS_USAGE"], said["ID_FS_VERSION"]) == ("ddraid_member", "raid", "1")
    assert (said["ID_FS_LABEL"], said["ID_FS_UUID"], said["ID_FS_UUID_SUB"]) == ("data", made["array_uuid"], made["member"]["uuid"])
    assert said["SYSTEMD_WANTS"] == f"ddraid-start@{made['array_uuid']}.service"
    node.run("test ! -e /dev/disk/by-label/data && ddraid start data && udevadm settle")
    dm = node.run("readlink -f /dev/mapper/data").out
    for link in ("ddraid-name-data", f"ddraid-uuid-{made['array_uuid']}"):
        assert node.run(f"readlink -f /dev/disk/by-id/{link}").out == dm
    node.run("udevadm trigger --settle /dev/mapper/data && test -e /dev/disk/by-id/ddraid-name-data && ddraid stop data")


def test_S18_a_member_alone_starts_no_daemon(node):
    """Findings S18, U10: where arrays do not start automatically, the event of a member starts nothing, the daemon included."""
    node.run(f"systemctl start ddraidd && ddraid create data --order 1 {devices(node)} && udevadm settle && systemctl stop ddraid ddraidd")
    unit = udev(node, node.disks[0].dev)["SYSTEMD_WANTS"]
    disk = node.run(f"readlink -f {node.disks[0].dev}").out.strip()
    node.run(f"systemctl stop {unit}; udevadm trigger --settle --action=remove {disk}; udevadm trigger --settle --action=add {disk}")
    node.wait_until(f"test $(systemctl show -P ConditionTimestampMonotonic {unit}) -gt 0", 30)
    assert node.run(f"systemctl show -P ConditionResult {unit}; systemctl is-active ddraidd", check=False).out.split() == ["no", "inactive"]


def test_S3_what_others_found_is_respected(node):
    """Finding S3: a path of a multipath device is neither marked nor taken as a member, also while the device over it is not there yet; it is waited for."""
    node.run(f"systemctl start ddraidd && ddraid create data --order 1 {devices(node)}")
    name = node.run(f"readlink -f {node.disks[0].dev}").out.strip()
    node.put("/etc/udev/rules.d/56-paths.rules", f'KERNEL=="{name[5:]}", ENV{{DM_MULTIPATH_DEVICE_PATH}}="1", ENV{{ID_FS_TYPE}}="mpath_member"\n')
    node.put("/etc/udev/rules.d/61-paths.rules", f'KERNEL=="{name[5:]}", ENV{{ID_FS_TYPE}}="mpath_member"\n')
    node.run("udevadm control --reload && udevadm trigger --settle")
    said = udev(node, name)
    assert said["ID_FS_TYPE"] == "mpath_member" and "SYSTEMD_WANTS" not in said, said
    started = node.run("ddraid start data")
    assert "degraded" in started.out, started
    assert name not in node.run("dmsetup table data; dmsetup deps -o devname data").out.replace("(", "/dev/").replace(")", " ")
    node.run("ddraid stop data")


def test_S1_LVM_on_an_array_comes_up_with_it(node):
    """
    Findings S1, P4: the event with which the array can be read is the one that LVM's rules take for its activation, also when the daemon is slow, and
    when the table was loaded by hand.
    """
    node.run(f"systemctl start ddraidd && ddraid create data --order 1 {devices(node)} && ddraid start data && udevadm settle")
    node.run("pvcreate -y /dev/mapper/data && vgcreate vg /dev/mapper/data && lvcreate -y -l 50%VG -n lv vg && vgchange -an vg && ddraid stop data", timeout=120)
    node.run("rm -f /run/lvm/vgs_online/* /run/lvm/pvs_online/*")
    start = node.spawn("exec ddraid start data")
    node.run("until dmsetup info data >/dev/null 2>&1; do sleep 0.02; done; pkill -STOP -x ddraidd; sleep 3; pkill -CONT -x ddraidd")
    assert start.wait(60).code == 0
    assert udev(node, "/dev/mapper/data")["DM_ACTIVATION"] == "1"
    node.wait_until("test -e /dev/vg/lv", 30)
    node.run("vgchange -an vg; ddraid stop data; rm -f /run/lvm/vgs_online/* /run/lvm/pvs_online/*")
    table = node.run("ddraid table data").out.strip()
    node.run("systemctl stop ddraidd")
    node.run(f"dmsetup create data -u DDRAID-{table.split()[3]}", stdin=table)
    assert udev(node, "/dev/mapper/data")["SYSTEMD_READY"] == "0"
    node.run("systemctl start ddraidd")
    node.wait_until("test -e /dev/vg/lv", 60)
    node.run("vgchange -an vg; ddraid stop data")


# ---- two paths to each disk ----------------------------------------------------------------

PATHS = 2
MULTIPATH = """defaults {
 user_friendly_names yes
 find_multipaths no
 polling_interval 1
}
overrides {
 no_path_retry fail
}
blacklist {
 devnode "^(vd|loop|sr|fd)"
}
"""


def scsi(directory, disks, paths=PATHS, size="64M"):
    """QEMU's arguments for SCSI disks that each have several paths."""
    arguments = ["-device", "virtio-scsi-pci,id=scsi,bus=pcie.0,addr=0x1d"]
    for d in range(disks):
        file = directory / f"scsi{d}.raw"
        file.touch()
        with open(file, "r+b") as image:
            image.truncate(int(size[:-1]) << 20)
        arguments += ["-blockdev", f"driver=file,node-name=scsi{d},filename={file},locking=off,aio=threads,cache.direct=off,discard=unmap"]
        for p in range(paths):
            arguments += ["-device", f"scsi-hd,id=path{d}-{p},bus=scsi.0,channel=0,scsi-id={d},lun={p},drive=scsi{d},share-rw=on,"
                          f"serial=DISK{d},wwn={0x5000c50015ea7000 + d},device_id=DISK{d}"]
    return arguments


@pytest.fixture
def paths(make_nodes, tmp_path):
    """A machine with three SCSI disks of two paths each, and multipath-tools."""
    node, = make_nodes(disks=0, systemd=True, neighbours=True, persistent=True, memory=1024, devices=scsi(tmp_path, 3))
    node.boot()
    node.run("systemctl stop multipathd multipathd.socket; multipath -F; true")
    node.put("/etc/multipath.conf", MULTIPATH)
    node.run("modprobe sd_mod; modprobe virtio_scsi; udevadm settle; lsblk -dno NAME | grep -c '^sd' | grep -qx 6")
    return node


def test_S4_two_paths_of_each_disk(paths):
    """
    Findings S3, S4: the maps are made 6 s after the paths are there: the array waits for them and starts on them; no path becomes a member, and after a
    reboot neither. A path is lost, then all are, and come back, under load: nothing has to be typed.
    """
    node = paths
    node.run("systemctl start multipathd && udevadm settle && ls /dev/mapper/mpatha /dev/mapper/mpathb /dev/mapper/mpathc")
    node.run("systemctl start ddraidd && ddraid create data --order 1 /dev/mapper/mpath[abc] && ddraid start data && udevadm settle")
    node.run("mkfs.ext4 -q -E nodiscard /dev/mapper/data && ddraid stop data && systemctl stop multipathd multipathd.socket && multipath -F")
    # the paths are not known as such
    node.run("mv /etc/multipath.conf /root && multipath -W; echo 'blacklist { devnode \"*\" }' >/etc/multipath.conf; rm -f /etc/multipath/wwids; udevadm trigger --settle")
    node.run("systemctl start ddraid", timeout=60)
    node.run("sleep 6; mv /root/multipath.conf /etc/ && systemctl start multipathd")
    node.wait_until("test -b /dev/mapper/data", 60)
    only_maps(node)
    node.run("systemctl enable multipathd ddraidd ddraid && sync")
    node.shutdown()
    node.boot()
    node.wait_until("ddraid status --json | grep -q optimal", 90)
    only_maps(node)
    node.run("udevadm settle && mount /dev/mapper/data /mnt")
    load = node.spawn("i=0; while test ! -e /tmp/end; do i=$((i + 1)); dd if=/dev/zero of=/mnt/f$((i % 8)) bs=64K count=16 oflag=dsync 2>/dev/null || exit 1; done; sync")
    first, second = paths_of(node, "mpathb")
    node.run(f"multipathd fail path {first}")
    node.run("sleep 2; ddraid status --json | grep -q optimal")
    node.run(f"multipathd reinstate path {first}; echo offline >/sys/block/{first}/device/state; echo offline >/sys/block/{second}/device/state")
    node.wait_until("ddraid status --json | grep -q degraded", 60)
    node.run(f"echo running >/sys/block/{first}/device/state; echo running >/sys/block/{second}/device/state")
    node.wait_until("ddraid status --json | grep -q optimal", 90)
    node.run("touch /tmp/end")
    assert load.wait(60).code == 0
    node.run("umount /mnt && ddraid stop data")


def paths_of(node, name):
    slaves = node.run(f"ls /sys/block/$(basename $(readlink -f /dev/mapper/{name}))/slaves").out.split()
    assert len(slaves) == PATHS, slaves
    return slaves


def only_maps(node):
    deps = node.run("udevadm settle; dmsetup deps -o devname data").out
    assert deps.count("mpath") == 3 and "(sd" not in deps, deps
    for disk in node.run("lsblk -dno NAME | grep ^sd").out.split():
        said = udev(node, f"/dev/{disk}")
        assert said.get("ID_FS_TYPE") != "ddraid_member" and "SYSTEMD_WANTS" not in said, said
