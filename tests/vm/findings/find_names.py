# SPDX-License-Identifier: GPL-2.0-or-later
"""Disks that become members and cease to be, and the names of arrays: replacements, rename, wipe."""
import json
import pathlib
import re
import sys

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TESTS / "drills")]
from guest import Guest  # noqa: E402
from serving import DEV, serving  # noqa: E402,F401

VM = {"disks": 6, "size": "96M"}
MIB = 1 << 20


def examine(node, disk):
    return json.loads(node.run(f"ddraid examine --json {disk}", check=False).out)[0]


def test_a_replacement_that_is_a_little_smaller(serving):
    """Findings S14, P10: a disk 8 sectors smaller was refused: "has 256 MiB, and the members need 256 MiB"."""
    node, guest = serving.node, serving.guest
    sectors = node.disks[0].size // 512
    for name, size in (("little", sectors - 8), ("small", sectors - sectors // 50)):
        node.run(f"dmsetup create {name} --table '0 {size} linear /dev/vde 0'" if name == "little" else
                 f"dmsetup create {name} --table '0 {size} linear /dev/vdf 0'")
    try:
        serving.begin()
        guest.create_and_start("data", 1, 1, "rotating", ["/dev/vda", "/dev/vdb", "/dev/vdc"])
        node.run(f"dd if=/dev/urandom of=/tmp/written bs=1M count=8 status=none && dd if=/tmp/written of={DEV} bs=1M oflag=direct status=none")
        grown = guest.command("grow data", check=False)
        assert grown.code == 1 and "stays free" in grown.err, grown         # it is not for the array to grow into
        refused = guest.command("add data /dev/mapper/small", check=False)
        has = (sectors - sectors // 50) * 512
        assert refused.code == 1 and f"/dev/mapper/small has {has} bytes" in refused.err and "more); use a larger disk" in refused.err, refused
        guest.watch_events()
        guest.command("fail data 1")
        guest.command("add data /dev/mapper/little")
        serving.event("rebuild-done", 60)
        guest.command("fail data 0")                    # what is read now comes from the new disk
        node.run(f"dd if={DEV} bs=1M count=8 iflag=direct status=none | cmp - /tmp/written")
        guest.stop("data")
        assert "degraded" in guest.command("start data").out        # and the small one is found and used again
        node.run(f"dd if={DEV} bs=1M count=8 iflag=direct status=none | cmp - /tmp/written")
        guest.stop("data")
    finally:
        node.run("ddraid stop --all --force; dmsetup remove --retry little; dmsetup remove --retry small", check=False)


def test_two_arrays_of_one_name(serving):
    """Finding S13: create accepted it, start --all took the one whose disks came first, and the other one could never run: there was no rename."""
    node, guest = serving.node, serving.guest
    first, second = ["/dev/vda", "/dev/vdb"], ["/dev/vdc", "/dev/vdd"]
    serving.begin()
    guest.create("data", 0, 1, "dedicated", first)
    refused = node.run(f"ddraid create data --order 0 --parity 1 {' '.join(second)}", check=False)
    assert refused.code == 1 and "an array with the name data already exists" in refused.err, refused
    node.run(f"DDRAID_DEVICES='{' '.join(second)}' ddraid create data --order 0 --parity 1 {' '.join(second)}")     # disks from another machine
    uuid = {disk: examine(node, disk)["array_uuid"] for disk in ("/dev/vda", "/dev/vdc")}
    started = guest.command("start --all --wait-disks 0", check=False)
    assert started.code == 1 and started.err.count("is not started: another array has the same name") == 2, started
    assert all(u in started.err for u in uuid.values()) and "ddraid rename UUID NEWNAME" in started.err
    assert node.run("dmsetup ls --target ddraid", check=False).out.split()[:1] != ["data"]
    refused = guest.command("start data", check=False)
    assert refused.code == 1 and "two arrays have the name data" in refused.err, refused
    guest.command(f"start {uuid['/dev/vda']}")
    node.run(f"dd if=/dev/urandom of=/tmp/written bs=1M count=4 status=none && dd if=/tmp/written of={DEV} bs=1M oflag=direct status=none")
    refused = guest.command(f"rename {uuid['/dev/vda']} one", check=False)
    assert refused.code == 1 and "is started on this node" in refused.err, refused
    refused = guest.command(f"rename {uuid['/dev/vdc']} data", check=False)
    assert refused.code == 1 and "an array with the name data already exists" in refused.err, refused
    guest.command(f"rename {uuid['/dev/vdc']} two")             # beside the other one, which runs
    guest.command("start two")
    assert {a["name"] for a in guest.arrays()} == {"data", "two"}
    guest.stop("two")
    guest.stop("data")
    guest.command("rename data one")
    assert guest.command("rename data one", check=False).code == 1
    for disk in first:
        report = examine(node, disk)
        assert report["name"] == "one" and report["generation"] == 1 and "errors" not in report, report
    assert "no device belongs" in guest.command("start data", check=False).err
    guest.command("start --all --wait-disks 0")
    node.run("dd if=/dev/mapper/one bs=1M count=4 iflag=direct status=none | cmp - /tmp/written")
    guest.stop("one")
    guest.stop("two")


def test_rename_waits_for_all_disks(serving):
    """Finding S13: a disk that is not there would keep the old name. What a crash has left dirty does not matter to the name, and is synced as ever."""
    node, guest = serving.node, serving.guest
    serving.begin()
    guest.create_and_start("data", 0, 1, "dedicated", ["/dev/vda", "/dev/vdb"])
    guest.stop("data")
    refused = node.run("DDRAID_DEVICES=/dev/vda ddraid rename data other", check=False)
    assert refused.code == 1 and "the disk of member 1 is missing" in refused.err, refused
    guest.start("data")
    serving.write(0)
    guest.kill_daemon()
    node.run("dmsetup remove --force --retry data || dmsetup remove --retry data", check=False)
    serving.begin()
    guest.command("rename data other")
    guest.start("other")
    assert guest.status("other")["state"] == "optimal"
    guest.wait_idle("other")
    guest.stop("other")
    serving.check_idle(2)


def test_rename_in_a_cluster(make_cluster, stage):
    """Finding S13: while another node has the array started its name is left alone; once all have stopped it, one node changes it for all."""
    del stage
    cluster = make_cluster(nodes=2, disks=2, size="64M")
    cluster.boot()
    cluster.start_corosync()
    guests = [Guest(cluster.node(i)) for i in (1, 2)]
    for guest in guests:
        guest.start_daemon()
    guests[0].create("data", 0, 1, "dedicated", ["/dev/vda", "/dev/vdb"])
    guests[0].command("rename data shared", timeout=60)
    guests[1].start("shared")
    refused = guests[0].command("rename shared other", check=False, timeout=60)
    assert refused.code == 1 and "node 2" in refused.err, refused
    guests[1].stop("shared")
    guests[0].command("rename shared other", timeout=60)
    for guest in guests:
        guest.start("other")
    assert guests[0].status("other")["state"] == "optimal"
    for guest in guests:
        guest.stop("other")


def test_names_that_cannot_work_and_devices_that_were_renamed(serving):
    """Findings S15, P8: arrays called `control` or like a uuid, or whose device dmsetup had renamed, ran and could not be used, stopped or found."""
    node, guest = serving.node, serving.guest
    serving.begin()
    for name in ("control", "0e6f9f86-0000-4000-8000-000000000000"):
        refused = guest.command(f"create {name} --order 0 --parity 1 /dev/vda /dev/vdb", check=False)
        assert refused.code == 2 and f"'{name}' cannot name an array" in refused.err, refused
    guest.create_and_start("data", 0, 1, "dedicated", ["/dev/vda", "/dev/vdb"])
    uuid = guest.status("data")["uuid"]
    node.run("dmsetup rename data moved")
    assert guest.status("data")["device"] == "/dev/mapper/moved"
    assert "/dev/mapper/moved on this node" in guest.command("status data").out
    assert guest.command("status moved").out.startswith("data: optimal")
    assert "is already started, as /dev/mapper/moved" in guest.command("start data").out
    node.run("dd if=/dev/urandom of=/dev/mapper/moved bs=1M count=4 oflag=direct status=none")
    guest.watch_events()
    guest.command("fail moved 1")
    assert serving.event("member-failed")["name"] == "data"
    refused = node.run(f"DDRAID_DEVICES='/dev/vdc /dev/vdd' ddraid create moved --order 0 --parity 1 /dev/vdc /dev/vdd", check=False)
    assert refused.code == 1 and "/dev/mapper/moved already" in refused.err, refused
    guest.stop("data")
    assert "moved" not in node.run("dmsetup ls", check=False).out
    for which in ("moved", uuid):                   # by the device's name, and by uuid
        guest.start("data")
        node.run("dmsetup rename data moved")
        guest.stop(which)
        assert "moved" not in node.run("dmsetup ls", check=False).out


def test_a_disk_is_wiped(serving):
    """Finding P7: the manual's dd left the second superblock, and the array came back with it. Members of a running array are refused."""
    node, guest = serving.node, serving.guest
    serving.begin()
    guest.create_and_start("data", 0, 2, "dedicated", ["/dev/vda", "/dev/vdb", "/dev/vdc"])
    refused = guest.command("wipe --yes /dev/vda", check=False)
    assert refused.code == 1 and "/dev/vda" in refused.err and "in use" in refused.err, refused
    guest.command("fail data 2")
    guest.command("remove data 2")
    node.wait_until("! dmsetup deps -o devname data | grep -q vdc", 30)
    wiped = guest.command("wipe --yes /dev/vdc")
    assert "which no longer uses it" in wiped.err and wiped.out == "/dev/vdc: wiped\n", wiped
    guest.command("add data /dev/vdc")              # a blank disk needs no option
    guest.stop("data")
    guest.command("wipe --yes /dev/vdb")            # a member of a stopped array
    guest.kill_daemon()                             # without the daemon it is unknown whose slot that is
    refused = node.run("ddraid wipe --yes /dev/vda", check=False)
    assert refused.code == 1 and "or that node died while using it" in refused.err, refused
    node.run("ddraid wipe --yes --overwrite /dev/vda /dev/vdc")
    serving.begin()
    assert "no device belongs" in guest.command("start data", check=False).err
    for disk in ("/dev/vda", "/dev/vdb", "/dev/vdc"):
        assert node.run(f"blkid -p {disk}", check=False).code == 2
        assert not examine(node, disk)["valid"]


def test_raid_10_of_4kn_disks(make_nodes, stage):
    """Issue 25: disks with sectors of 4096 bytes, as the README says: mirrors under dm-stripe."""
    del stage
    node, = make_nodes(disks=4, size="64M", logical_block_size=4096, physical_block_size=4096)
    node.boot()
    guest = Guest(node)
    guest.start_daemon(idle_time="1s")
    text = (pathlib.Path(__file__).resolve().parents[3] / "README").read_text()
    section = text[text.index("4Kn disks: RAID 10"):text.index("Limits\n------")]
    recipe = [line.strip().replace("/dev/sd", "/dev/vd") for line in re.findall(r"^    (.*)$", section, re.M) if not line.startswith("mkfs")]
    assert len(recipe) == 6 and "striped" in recipe[-1], recipe
    refused = node.run("ddraid create r --order 1 --parity 1 /dev/vda /dev/vdb /dev/vdc", check=False)
    assert refused.code == 1 and "sectors of 4096 bytes are larger than the chunk" in refused.err, refused
    node.run("set -e; modprobe dm_mod; " + "; ".join(recipe), timeout=120)
    assert node.run("blockdev --getss /dev/mapper/data").out.strip() == "4096"
    megabytes = int(node.run("blockdev --getsize64 /dev/mapper/data").out) >> 20
    assert megabytes >= 100
    fio = (f"fio --name=w --filename=/dev/mapper/data --direct=1 --ioengine=libaio --iodepth=8 --rw=write --bs=64k --size={megabytes}m "
           "--verify=crc32c --randseed=5 --output-format=terse")
    node.run(f"{fio} --do_verify=0", timeout=300)
    guest.command("fail m0 0")
    guest.command("fail m1 1")
    node.run(f"{fio} --verify_only", timeout=300)
    node.run("dmsetup remove --retry data")
    for name in ("m0", "m1"):
        guest.stop(name)
    node.run("set -e; " + "; ".join(recipe[2:]), timeout=120)
    node.run(f"{fio} --verify_only", timeout=300)
    node.run("dmsetup remove --retry data")
