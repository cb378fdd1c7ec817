# SPDX-License-Identifier: GPL-2.0-or-later
"""What ddraidd costs while nothing happens: time of the processor, and locked memory."""
import contextlib
import json
import time

from serving import serving  # noqa: F401

VM = {"disks": 3, "size": "40G", "memory": 2560}
MIB = 1 << 20
SMALL, LARGE = 64, 544          # MiB of a member: some hundred regions; 16 k regions of 64 KiB
QUIET = 40                      # seconds after which the speed of the last resync has fallen to zero, and the arrays rest
MEASURED = 60


@contextlib.contextmanager
def arrays(serving, count, size, extra=""):
    """Arrays a0, a1, ... of three members each, of which one is for parity. Each member is a part of a disk."""
    node, guest = serving.node, serving.guest
    names = [f"a{n}" for n in range(count)]
    sectors = size * MIB // 512
    parts = ";".join(f"m{n}-{d},,,rw,0 {sectors} linear {disk.dev} {n * sectors}" for n in range(count) for d, disk in enumerate(node.disks))
    node.run(["dmsetup", "create", "--concise", parts], timeout=120)
    node.run("udevadm settle", check=False, timeout=120)
    try:
        for n, name in enumerate(names):
            members = [f"/dev/mapper/m{n}-{d}" for d in range(3)]
            guest.env = {"DDRAID_DEVICES": " ".join(members)}
            guest.create_and_start(name, 1, 1, "rotating", members, f"--overwrite --yes {extra}")
        yield names
    finally:
        guest.env = {}
        node.run("ddraid stop --all --force", check=False, timeout=600)
        node.run("for m in $(dmsetup ls --target linear | cut -f1); do dmsetup remove --retry $m; done", check=False, timeout=300)


def daemon(node, what):
    """What a file of the daemon's process says."""
    return node.run(f"cd /proc/$(cat /run/ddraid/ddraidd.pid) && {what}").out


def run_ms(node):
    """Milliseconds for which the daemon's threads have run."""
    return sum(int(line.split()[0]) for line in daemon(node, "cat task/*/schedstat").splitlines()) / 1e6


def idle_share(serving, names):
    """The part of a processor that the daemon takes while nothing happens."""
    for name in names:
        serving.guest.wait_idle(name)
    time.sleep(QUIET)
    began, before = time.monotonic(), run_ms(serving.node)
    time.sleep(MEASURED)
    share = (run_ms(serving.node) - before) / 1000 / (time.monotonic() - began)
    print(f"{len(names)} idle arrays: {100 * share:.3f} % of a processor")
    assert all(a["state"] == "optimal" and a["ready"] for a in serving.guest.arrays())
    return share


def test_U8_an_idle_daemon_rests(serving):
    """Finding U8: ten idle arrays of three members, without stamps (format 1), cost less than 0.3 % of a processor."""
    serving.begin()
    with arrays(serving, 10, SMALL, "--format 1") as names:
        share = idle_share(serving, names)
        assert share < 0.003, f"{100 * share:.3f} % of a processor"


def stamp(node, name):
    """The number of the newest stamp on its first member."""
    disk, = json.loads(node.run(f"ddraid examine --json /dev/mapper/m{name.removeprefix('a')}-0").out)
    return max((s["stamp"]["number"] for s in disk["slots"] if s["stamp"]), default=0)


def test_stamps_cost_little(serving):
    """Ten idle arrays of three members, which this node stamps: less than 1 % of a processor."""
    serving.begin()
    with arrays(serving, 10, SMALL) as names:
        for name in names:
            serving.node.run(f"dd if=/dev/urandom of=/dev/mapper/{name} bs=4096 count=1 oflag=direct,dsync conv=nocreat status=none")
        before = [stamp(serving.node, name) for name in names]
        share = idle_share(serving, names)
        after = [stamp(serving.node, name) for name in names]
        print(f"stamps on a member meanwhile: {after[0] - before[0]}")
        assert all(b - a >= MEASURED // 4 for a, b in zip(before, after)), (before, after)
        assert share < 0.01, f"{100 * share:.3f} % of a processor"


def test_U8_locked_memory_of_many_arrays(serving):
    """Finding U8: 64 arrays of 16 k regions lock less than 200 MB."""
    serving.begin()
    empty = int(daemon(serving.node, "grep VmLck status").split()[1])
    with arrays(serving, 64, LARGE, "--region-size 64KiB"):
        served = serving.guest.arrays()
        regions = min(a["regions"]["total"] for a in served)
        assert len(served) == 64 and all(a["ready"] for a in served) and regions >= 16384, (len(served), regions)
        locked, resident = (int(line.split()[1]) for line in daemon(serving.node, "grep -e VmLck -e VmRSS status").splitlines())
        print(f"locked: {empty // 1024} MiB without arrays, {locked // 1024} MiB with 64 ({resident // 1024} MiB resident)")
        assert locked * 1024 < 200e6, f"{locked} KiB are locked"
