# SPDX-License-Identifier: GPL-2.0-or-later
"""Memory, throttling and waiting in the kernel module: one hung or throttled user must not stop the others."""
import json
import pathlib
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TESTS / "vm"), str(TESTS / "drills")]
import rig                                      # noqa: E402
import tools                                    # noqa: E402

VM = {"disks": 6, "size": "64M"}
MIB = 1 << 20
CGROUP = "/sys/fs/cgroup"
SLOW = 65536                    # bytes a second of the limited job


def nosync(node, name, members):
    """An array of order 1 with one parity that needs no daemon, over three devices of 48 MiB and more."""
    node.run(["dmsetup", "create", name], stdin=f"0 {32 * MIB // 512 * 2} ddraid - 1 1 rotating 2048 2048 3 {' '.join(members)} 1 nosync\n")


def fio(node, device, options, seconds=None):
    """Result of an fio job that runs in the guest: a dictionary."""
    limit = f"--time_based --runtime={seconds}" if seconds else ""
    out = node.run(f"fio --name=t --filename={device} --direct=1 --ioengine=libaio --output-format=json {limit} {options}", timeout=300).out
    return json.loads(out[out.index("{"):])["jobs"][0]["write"]


def slow_cgroup(node, devices):
    """A cgroup that may write SLOW bytes a second to each of the devices."""
    node.run(f"mountpoint -q {CGROUP} || mount -t cgroup2 none {CGROUP}; echo +io >{CGROUP}/cgroup.subtree_control; mkdir -p {CGROUP}/slow")
    for device in devices:
        node.run(f"echo $(lsblk -dno MAJ:MIN {device} 2>/dev/null || dmsetup info -c --noheadings -o major,minor {device}) "
                 f"wbps={SLOW} >{CGROUP}/slow/io.max")


def slow_job(node, device, options=""):
    """A job in that cgroup that writes as much as it may: 48 writes of 1 MiB wait all the time."""
    return node.spawn(f"echo $$ >{CGROUP}/slow/cgroup.procs; exec fio --name=slow --filename={device} --direct=1 --ioengine=libaio --rw=write "
                      f"--bs=1M --iodepth=48 --time_based --runtime=600 {options}")


def slow_job_ends(node, device, job):
    """
    Without a limit any more, or what is on its way would take minutes. The process in which fio writes has a session of its own: a signal to
    the job does not reach it, so all of the cgroup is killed. It has the device open until what it wrote has ended.
    """
    node.run(f"cut -d' ' -f1 {CGROUP}/slow/io.max | while read d; do echo $d wbps=max >{CGROUP}/slow/io.max; done")
    node.run(f"echo 1 >{CGROUP}/slow/cgroup.kill")
    job.wait(120, check=False)
    node.wait_until(f"test $(dmsetup info -c --noheadings -o open {device}) -eq 0", 60)


@pytest.fixture
def machine(shared_node, stage, load_forget):
    del stage
    shared_node.run("modprobe dm_ddraid")
    load_forget(shared_node)
    yield shared_node
    if shared_node.alive():
        shared_node.run("for d in /dev/mapper/f?; do dmsetup message $d 0 hang off; dmsetup message $d 0 delay 0; done; "
                        "dmsetup remove_all --force", check=False)


def test_k4_a_hung_array_leaves_memory_to_others(machine):
    """Finding K4: 48 writes of 1 MiB wait in an array with a hung member; another array keeps nine tenths of its throughput."""
    for i, disk in enumerate(machine.disks):
        machine.run(["dmsetup", "create", f"f{i}", "--table", f"0 {disk.size // 512} forget {disk.dev} 0 through"])
    nosync(machine, "hung", [f"/dev/mapper/f{i}" for i in range(3)])
    nosync(machine, "well", [f"/dev/mapper/f{i}" for i in range(3, 6)])
    # what such members do in a second hangs on how many writes they have at once
    for i in range(3, 6):
        machine.run(f"dmsetup message f{i} 0 delay 300")
    load = "--rw=write --bs=256k --iodepth=12"
    alone = fio(machine, "/dev/mapper/well", load, 8)["bw"]
    machine.run("dmsetup message f1 0 hang on")
    job = machine.spawn("exec fio --name=h --filename=/dev/mapper/hung --direct=1 --ioengine=libaio --rw=write --bs=1M --iodepth=48 --size=48M")
    machine.wait_until("dmsetup status f1 | grep -q 'held=[1-9]'", 20)
    machine.run("sleep 2")
    beside = fio(machine, "/dev/mapper/well", load, 8)["bw"]
    print(f"{alone} KiB/s alone, {beside} KiB/s beside the hung array")
    machine.run("dmsetup message f1 0 hang off")
    job.wait(60, check=True)
    assert beside >= 0.9 * alone, f"{beside} KiB/s beside a hung array, {alone} KiB/s alone"


@pytest.mark.parametrize("where", ["members", "array"])
def test_t12_a_throttled_cgroup_delays_nobody(machine, where):
    """Findings T12, S23, K11: a job limited to 64 KiB/s delays no writer outside of its cgroup, wherever the limit is set."""
    members = [d.dev for d in machine.disks[:3]]
    nosync(machine, "r", members)
    slow_cgroup(machine, members if where == "members" else ["/dev/mapper/r"])
    job = slow_job(machine, "/dev/mapper/r", "--size=32M")
    machine.run("sleep 3")
    other = fio(machine, "/dev/mapper/r", "--rw=randwrite --bs=4k --iodepth=1 --offset=32M --size=32M", 8)
    slow_job_ends(machine, "/dev/mapper/r", job)
    worst = other["clat_ns"]["max"] / 1e9
    print(f"{other['total_ios']} writes, the slowest took {worst:.2f} s")
    assert other["total_ios"] > 100 and worst < 2, f"{other['total_ios']} writes in 8 s, the slowest took {worst:.2f} s"


def test_t12_a_throttled_cgroup_in_a_cluster(stage, make_cluster, tmp_path):
    """Findings T12, S23, K11: other writers of its node wait for less than two seconds, those of another node not at all."""
    del stage
    one = rig.Rig(make_cluster(nodes=2, disks=5, size=48 << 20), tools.build_writer(tmp_path), filesystem=False)
    one.boot()
    one.create()
    first = one.node(1)
    slow_cgroup(first, [d.dev for d in first.disks])
    job = slow_job(first, rig.DEV, "--size=64M")
    first.run("sleep 3")
    results = one.on_each(lambda i: fio(one.node(i), rig.DEV, f"--rw=randwrite --bs=4k --iodepth=1 --offset={64 + 32 * i}M --size=24M", 15))
    for i, result in enumerate(results, 1):
        print(f"node {i}: {result['total_ios']} writes, the slowest took {result['clat_ns']['max'] / 1e9:.2f} s")
    slow_job_ends(first, rig.DEV, job)
    for result in results:
        assert result["total_ios"] > 100 and result["clat_ns"]["max"] < 2e9
    one.stop()
