# SPDX-License-Identifier: GPL-2.0-or-later
"""Members on a thin pool that is full for a while:

no member fails, what waits is reported, and everything resumes automatically when there is space again.
"""
import contextlib
import time

from serving import DEV, serving  # noqa: F401

VM = {"disks": 1, "size": "288M"}
THINS = 4
MIB = 2048                          # sectors


class Pool:
    """Thin devices /dev/mapper/t0 to t3 over one disk, and a device that takes what space is left."""

    def __init__(self, node):
        self.node = node
        disk = node.disks[0].dev
        node.run("modprobe dm_thin_pool")
        self.dm(f"create meta --table '0 {8 * MIB} linear {disk} 0'", f"create data0 --table '0 {270 * MIB} linear {disk} {10 * MIB}'")
        node.run("dd if=/dev/zero of=/dev/mapper/meta bs=1M count=1 oflag=direct conv=nocreat status=none")
        self.dm(f"create pool --table '0 {270 * MIB} thin-pool /dev/mapper/meta /dev/mapper/data0 128 0 1 error_if_no_space'")
        for i in range(THINS):
            self.thin(f"t{i}", i, 64)

    def dm(self, *commands):
        for command in commands:
            self.node.run(f"dmsetup {command}")

    def thin(self, name, number, mebibytes):
        self.dm(f"message pool 0 'create_thin {number}'", f"create {name} --table '0 {mebibytes * MIB} thin /dev/mapper/pool {number}'")

    def fill(self):
        """Not one block is left."""
        self.thin("ballast", 9, 512)
        result = self.node.run("dd if=/dev/zero of=/dev/mapper/ballast bs=64k oflag=direct conv=nocreat status=none", check=False, timeout=120)
        assert result.code and "No space left" in result.err, result

    def free(self):
        """How many blocks are left. To ask commits what the pool did before: a block that a discard gave back can be had only after that."""
        used, total = self.node.run("dmsetup status pool").out.split()[5].split("/")
        return int(total) - int(used)

    def give_back(self, block):
        """One block is free from now on."""
        if not self.free():
            self.node.run(f"blkdiscard -o {block * 65536} -l 65536 /dev/mapper/ballast")
        assert self.free() == 1

    def empty(self):
        self.dm("remove --retry ballast", "message pool 0 'delete 9'")

    def end(self):
        self.node.run("ddraid stop --all --force", check=False, timeout=60)
        for name in ("ballast", "t0", "t1", "t2", "t3", "pool", "data0", "meta"):
            self.node.run(f"dmsetup remove --retry {name}", check=False)


@contextlib.contextmanager
def array(serving, spares=0):  # noqa: F811
    serving.node.allow_dmesg(r".*")
    serving.begin(idle_time="1s")
    pool = Pool(serving.node)
    members = [f"/dev/mapper/t{i}" for i in range(3)]
    serving.guest.env = {"DDRAID_DEVICES": " ".join([*members, "/dev/mapper/t3"])}
    try:
        serving.guest.create("data", 1, 1, "rotating", members, " ".join("--spare /dev/mapper/t3" for _ in range(spares)))
        serving.guest.start("data")
        serving.guest.watch_events()
        yield pool
    finally:
        pool.end()
        serving.guest.env = {}


def states(serving):  # noqa: F811
    return [m["state"] for m in serving.guest.status("data")["members"]]


def stays_full(serving, seconds=8):  # noqa: F811
    """For this long no member fails, and status shows what waits for what. One event, however often the write is retried."""
    until = time.monotonic() + seconds
    before = states(serving)
    while time.monotonic() < until:
        status = serving.guest.status("data")
        assert states(serving) == before and status["state"] != "failed", status
        time.sleep(0.5)
    assert "has no space left" in status["no_space"] and "ddraid fail" in status["no_space"], status["no_space"]
    assert "has no space left" in serving.guest.command("status data").out
    names = [e["event"] for e in serving.guest.events_seen()]
    assert names.count("no-space") == 1 and "failed" not in names and names.count("member-error") < 10, names


def tear(serving, pool):  # noqa: F811
    """
    Data that has landed while its parity has not, and cannot: one block of the pool is free, and the write needs one on each member. Where the one
    went to the parity, the region is soon whole, and the next one is tried, which has its parity on another member.
    """
    for i in range(12):
        pool.give_back(i)
        written = serving.node.run(f"dd if=/dev/urandom of={DEV} bs=128k count=1 seek={400 + i * 16} oflag=direct conv=nocreat status=none",
                                   check=False, timeout=60)
        assert written.code, "all of it had space"
        while serving.guest.busy("data"):
            if any(e["event"] == "no-space" for e in serving.guest.events_seen()):
                return
            time.sleep(0.3)
    raise AssertionError("the pool had what each resync needed")


def test_a_write_that_met_no_space_is_resynced_later(serving):  # noqa: F811
    """Finding S26: the write fails alone; its region is torn, and the resync that meets no space fails no member."""
    with array(serving) as pool:
        serving.node.run(f"dd if=/dev/urandom of={DEV} bs=1M count=16 seek=20 oflag=direct conv=nocreat status=none")
        serving.guest.wait_idle("data")
        pool.fill()
        tear(serving, pool)
        assert states(serving) == ["in-sync"] * 3
        stays_full(serving)
        assert serving.node.run(f"dd if={DEV} bs=1M skip=20 count=16 iflag=direct status=none | wc -c").out.strip() == str(16 << 20)
        pool.empty()
        serving.event("space", 30)
        serving.event("resync-done", 60)
        assert serving.guest.status("data")["no_space"] is None
        assert states(serving) == ["in-sync"] * 3 and serving.guest.status("data")["suspect"] == []
        serving.node.run(f"dd if=/dev/urandom of={DEV} bs=1M count=50 seek=40 oflag=direct conv=nocreat status=none")
        serving.guest.wait_idle("data")
        serving.guest.command("verify data start")
        serving.event("verify-done", 60)
        assert serving.guest.status("data")["verify"]["found"] == 0


def test_a_rebuild_waits_for_space(serving):  # noqa: F811
    """Finding S26: a spare without space stays the one that is rebuilt."""
    with array(serving, spares=1) as pool:
        serving.node.run(f"dd if=/dev/urandom of={DEV} bs=1M count=24 seek=20 oflag=direct conv=nocreat status=none")
        before = serving.node.run(f"dd if={DEV} bs=1M count=64 iflag=direct status=none | sha256sum").out
        serving.guest.wait_idle("data")
        pool.fill()
        serving.guest.command("fail data 1")
        serving.event("no-space", 30)
        assert states(serving) == ["in-sync", "faulty", "in-sync", "rebuilding"]
        stays_full(serving)
        pool.empty()
        serving.event("rebuild-done", 60)
        assert states(serving) == ["in-sync", "faulty", "in-sync", "in-sync"]
        assert serving.node.run(f"dd if={DEV} bs=1M count=64 iflag=direct status=none | sha256sum").out == before
