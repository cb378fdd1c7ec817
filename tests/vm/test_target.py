# SPDX-License-Identifier: GPL-2.0-or-later
"""The target without a daemon (nosync): odd bios, overlaps, flushes, zeroes, reloads, failing members.

Wrong table lines are in test_badinput.py, the matrix of geometries in test_matrix.py.
What lies on the members is checked on the host by rawcheck.py, which knows nothing of
the kernel's code. Where members have to fail, each is a dm-forget over its disk.
"""

import pathlib
import sys
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "drills"))
import tools  # noqa: E402
from ddvm.config import time_scale  # noqa: E402

VM = {"disks": 6, "size": "24M"}

MIB = 1 << 20
OFFSET = MIB                    # of the data on each member
REGION = MIB
UUID = "12345678-9abc-4def-8123-456789abcdef"
DEV = "/dev/mapper/r"

IO_TOOL = r'''
import mmap, os, random, sys, threading
DEV = "/dev/mapper/r"
def odd_vector(rng, length, fill):
    """An iovec of whole blocks, each anywhere in memory at 512 bytes, and its bytes."""
    vec, left = [], length
    while left:
        n = min(left, 4096 * rng.randint(1, 6))
        at = 512 * rng.randint(0, 15)
        m = mmap.mmap(-1, n + 8192)
        v = memoryview(m)[at:at + n]
        if fill:
            v[:] = rng.randbytes(n)
        vec.append(v)
        left -= n
    return vec
'''


class Array:
    """A nosync array `r` over the first disks, or over dm-forget on each of them."""

    def __init__(self, node, order=2, parity=1, layout="rotating", blocks=4096, forget=False, missing=(), options="nosync",
                 uuid="-", region=REGION):
        self.node, self.order, self.parity, self.layout = node, order, parity, layout
        self.blocks, self.options, self.uuid, self.region = blocks, options, uuid, region
        self.n = (1 << order) + parity
        self.disks = node.disks[:self.n]
        self.forget = forget
        self.paths = [f"/dev/mapper/f{i}" if forget else d.dev for i, d in enumerate(self.disks)]
        for i, disk in enumerate(self.disks):
            disk.wipe()
            if forget:
                node.run(["dmsetup", "create", f"f{i}", "--table", f"0 {disk.size // 512} forget {disk.dev} 0"])
        node.run(["dmsetup", "create", "r"], stdin=self.table(missing))

    def table(self, missing=(), **other):
        """The table line; `other` replaces attributes."""
        v = {**self.__dict__, **other}
        devices = " ".join("-" if i in missing else p for i, p in enumerate(self.paths))
        options = v["options"].split()
        return (f"0 {v['blocks'] * 8} ddraid {v['uuid']} {v['order']} {v['parity']} {v['layout']} {v['region'] // 512} "
                f"{OFFSET // 512} {self.n} {devices} {len(options)} {' '.join(options)}\n")

    def message(self, member, *words):
        self.node.run(["dmsetup", "message", f"f{member}", "0", *map(str, words)])

    def counters(self, member):
        out = self.node.run(f"dmsetup status f{member}").out
        return {k: int(v) for k, v in (w.split("=") for w in out.split() if "=" in w)}

    def status(self):
        """letters, sync, action, progress, mismatches, dirty, parked, daemon."""
        return self.node.run("dmsetup status r").out.split()[3:]

    def letters(self):
        return self.status()[0]

    def python(self, code, check=True, timeout=120):
        return self.node.run(["python3", "-SIE", "-c", IO_TOOL + code], check=check, timeout=timeout)

    def fio(self, options, check=True, timeout=180):
        return self.node.run(f"fio --name=t --filename={DEV} --direct=1 --ioengine=libaio --output-format=terse "
                             f"--terse-version=3 {options}", check=check, timeout=timeout)

    def verify_load(self, seconds):
        """Command of a load that checks what it wrote; code 0 if every byte was right and nothing failed. On a slow kernel it lasts longer, as all else.

        It goes over the device many times, so without serialize_overlap fio would read a block back while it writes it anew, and no device
        with more than one member guarantees what such a read returns.
        """
        return (f"fio --name=t --filename={DEV} --direct=1 --ioengine=libaio --iodepth=16 --rw=randrw --bsrange=4k-256k "
                f"--time_based --runtime={round(seconds * time_scale())} --serialize_overlap=1 --verify=crc32c --verify_interval=4096 --verify_fatal=1 "
                f"--verify_backlog=64 --output-format=terse >/tmp/fio.log 2>&1")

    def stop(self):
        self.node.run("dmsetup remove --retry r")
        if self.forget:
            for i in range(self.n):
                self.node.run(f"dmsetup message f{i} 0 fail none; dmsetup remove --retry f{i}")

    def raw(self, command, *options, missing=()):
        lost = ["--missing", ",".join(map(str, missing))] if missing else []
        return tools.rawcheck(command, [d.path for d in self.disks], "--order", self.order, "--parity", self.parity,
                              "--layout", self.layout, "--data-offset", OFFSET, "--blocks", self.blocks,
                              "--region-size", self.region, *lost, *options, ok=(0,))

    def check_parity(self, missing=()):
        """Stops the array; every stripe on the disks must be consistent."""
        self.stop()
        report = self.raw("check", "--holes", "--assert-none", missing=missing)
        assert report["checked_blocks"] == self.blocks

    def check_content(self, missing=()):
        """What the device shows is what the members hold, by another reader. Stops the array."""
        shown = self.node.run(f"dd if={DEV} bs=1M iflag=direct 2>/dev/null | sha256sum").out.split()[0]
        self.stop()
        assert self.raw("data", missing=missing)["sha256"] == shown


@pytest.fixture
def node(shared_node, stage, load_forget):
    del stage
    shared_node.run("modprobe dm_ddraid")
    load_forget(shared_node)
    yield shared_node
    if shared_node.alive():
        shared_node.run("for d in /dev/mapper/f?; do dmsetup message $d 0 fail none; dmsetup message $d 0 hang off; done; "
                        "dmsetup remove_all --force", check=False)


GEOMETRIES = [(0, 1, "dedicated"), (0, 2, "rotating"), (1, 1, "rotating"), (1, 2, "dedicated"), (2, 0, "rotating"),
              (2, 1, "rotating"), (2, 2, "rotating")]


# check tests a mirror, one parity, two; the others are for longer runs
SOME = [g if g in [(0, 1, "dedicated"), (2, 2, "rotating")] else pytest.param(g, marks=pytest.mark.slow) for g in GEOMETRIES]


def geometry_id(value):
    return f"{value[0]}+{value[1]}-{value[2]}"


# ---- bios of all shapes ------------------------------------------------------------------

@pytest.mark.parametrize("geometry", SOME, ids=geometry_id)
def test_odd_vectors(node, geometry):
    """Blocks at any 512 bytes of memory: chunks lie across pages, vectors end within chunks."""
    a = Array(node, *geometry)
    a.python(f'''
rng = random.Random(1)
fd = os.open(DEV, os.O_RDWR | os.O_DIRECT)
shadow = bytearray({a.blocks} * 4096)
for i in range(150):
    n = 4096 * rng.choice([1, 1, 2, 3, 7, 16, 61, 256, 300])
    at = 4096 * rng.randrange({a.blocks} - n // 4096)
    vec = odd_vector(rng, n, True)
    assert os.pwritev(fd, vec, at) == n
    shadow[at:at + n] = b"".join(vec)
    at = 4096 * rng.randrange({a.blocks} - n // 4096)
    vec = odd_vector(rng, n, False)
    assert os.preadv(fd, vec, at) == n
    assert b"".join(vec) == shadow[at:at + n], f"read of {{n}} at {{at}}"
whole = mmap.mmap(-1, len(shadow))
assert os.preadv(fd, [whole], 0) == len(shadow)
assert whole[:] == shadow
''')
    a.check_content()
    if a.parity:
        a.raw("check", "--holes", "--assert-none")


@pytest.mark.parametrize("geometry", [(0, 1, "rotating"), (1, 2, "rotating"), (2, 1, "rotating")], ids=geometry_id)
def test_pages_that_change_while_they_are_written(node, geometry):
    """Parity belongs to what was written, whatever the owner of the pages does meanwhile."""
    a = Array(node, *geometry)
    a.python(f'''
buf = mmap.mmap(-1, 1 << 20)
stop = False
def scribble():
    rng = random.Random(2)
    while not stop:
        at = rng.randrange(256) * 4096
        buf[at:at + 4096] = rng.randbytes(4096)
threads = [threading.Thread(target=scribble)]
[t.start() for t in threads]
fd = os.open(DEV, os.O_RDWR | os.O_DIRECT)
for i in range(120):
    os.pwritev(fd, [buf], (i % {a.blocks // 256}) << 20)
stop = True
[t.join() for t in threads]
''')
    a.check_parity()


@pytest.mark.parametrize("geometry", [(0, 2, "dedicated"), (2, 1, "dedicated"), (2, 2, "rotating")], ids=geometry_id)
def test_overlapping_writes_are_ordered(node, geometry):
    """Many writers of the same few blocks: each stripe belongs to one of them as a whole."""
    a = Array(node, *geometry)
    a.fio("--rw=randwrite --bsrange=4k-64k --norandommap --size=256k --io_size=6M --iodepth=32 --numjobs=4 "
          "--randrepeat=0 --refill_buffers --buffer_compress_percentage=0")
    a.check_parity()


def test_large_and_small_regions(node):
    """Bios are cut at regions where these are smaller than a rotation unit."""
    for region in (64 << 10, 1 << 30):
        a = Array(node, 2, 1, region=region)
        a.fio("--rw=randwrite --bsrange=4k-1M --size=16M --iodepth=8 --verify=crc32c --verify_interval=4096 --verify_fatal=1")
        a.check_parity()


@pytest.mark.parametrize("geometry", SOME, ids=geometry_id)
def test_zeroes_and_discard(node, geometry):
    """Both zero all members, parity is right afterwards, and the neighbours are untouched."""
    a = Array(node, *geometry)
    node.run(f"dd if=/dev/urandom of={DEV} bs=1M oflag=direct 2>/dev/null", check=False)
    for command, first, count in (("-z", 1, 1), ("-z", 255, 2), ("-z", 511, 769), ("", 2047, 1025)):
        before = a.raw("data")["sha256"]
        node.run(f"dd if={DEV} of=/tmp/image bs=1M iflag=direct 2>/dev/null")
        node.run(f"blkdiscard {command} -o {first * 4096} -l {count * 4096} {DEV}")
        node.run(f"dd if=/dev/zero of=/tmp/image bs=4096 seek={first} count={count} conv=notrunc 2>/dev/null")
        node.run(f"dd if={DEV} bs=1M iflag=direct 2>/dev/null | cmp - /tmp/image")
        assert a.raw("data")["sha256"] != before
    a.check_content()
    if a.parity:
        a.raw("check", "--holes", "--assert-none")


def test_member_that_cannot_write_zeroes_after_all(node):
    """It offered write zeroes, and then refuses: it gets real zeroes and stays in the array."""
    node.run("modprobe loop; truncate -s 24M /tmp/loop; losetup /dev/loop1 /tmp/loop")     # tmpfs cannot zero a range
    try:
        a = Array(node, 1, 1)
        a.stop()
        a.paths[1] = "/dev/loop1"
        node.run(["dmsetup", "create", "r"], stdin=a.table())
        node.run(f"dd if=/dev/urandom of={DEV} bs=1M oflag=direct 2>/dev/null", check=False)
        node.run(f"blkdiscard -z -o 4096 -l {3 * MIB} {DEV}")
        assert a.letters() == "AAA"
        assert node.run(f"dd if={DEV} bs=4096 skip=1 count=768 iflag=direct 2>/dev/null").raw == bytes(3 * MIB)
        chunk = node.run(f"dd if=/tmp/loop iflag=skip_bytes skip={OFFSET + 2048} bs=2048 count=768 2>/dev/null").raw
        assert chunk == bytes(768 * 2048)
        a.stop()
    finally:
        node.run("dmsetup remove --retry r; losetup -d /dev/loop1; rm -f /tmp/loop", check=False)


@pytest.mark.vm(disks=3, size="16M", discard=False, write_zeroes=False)
def test_no_discard_without_write_zeroes(nodes):
    """A disk that offers no write zeroes: the array offers neither, and its limits show that."""
    one = nodes[0]
    one.run("modprobe dm_ddraid")
    a = Array(one, 1, 1, blocks=2048)
    queue = one.run("cd /sys/dev/block/$(stat -L -c %Hr:%Lr /dev/mapper/r)/queue && cat discard_max_bytes write_zeroes_max_bytes").out.split()
    assert queue == ["0", "0"]
    a.stop()


def test_limits(node):
    a = Array(node, 2, 1)
    names = ("logical_block_size", "physical_block_size", "minimum_io_size", "optimal_io_size", "max_sectors_kb",
             "chunk_sectors", "virt_boundary_mask", "stable_writes", "io_poll")
    values = node.run("cd /sys/dev/block/$(stat -L -c %Hr:%Lr /dev/mapper/r)/queue && cat " + " ".join(names)).out.split()
    assert dict(zip(names, map(int, values))) == {
        "logical_block_size": 4096, "physical_block_size": 4096, "minimum_io_size": 4096, "optimal_io_size": MIB,
        "max_sectors_kb": 1024, "chunk_sectors": 0, "virt_boundary_mask": 0, "stable_writes": 0, "io_poll": 0}
    a.stop()


# ---- flush and FUA ------------------------------------------------------------------------

def test_flush_and_fua_reach_every_member(node):
    a = Array(node, 1, 2, forget=True)
    a.python('os.pwrite(os.open(DEV, os.O_RDWR | os.O_DIRECT), mmap.mmap(-1, 4096), 0)')
    before = [a.counters(i) for i in range(a.n)]
    assert all(c["unflushed_bytes"] == 2048 for c in before)
    a.python('os.fsync(os.open(DEV, os.O_RDWR))')
    after = [a.counters(i) for i in range(a.n)]
    assert all(y["flushes"] == x["flushes"] + 1 and not y["unflushed_bytes"] for x, y in zip(before, after))
    a.python('os.pwrite(os.open(DEV, os.O_RDWR | os.O_DIRECT | os.O_DSYNC), mmap.mmap(-1, 4096), 4096)')
    last = [a.counters(i) for i in range(a.n)]
    assert all(y["fua"] == x["fua"] + 1 and not y["unflushed_bytes"] for x, y in zip(after, last))
    a.stop()


@pytest.mark.parametrize("layout,flushed", [("rotating", [1, 1, 1]), ("dedicated", [1, 1, 0])])
def test_flush_without_parity_reaches_all_that_have_data(node, layout, flushed):
    a = Array(node, 1, 1, layout, forget=True, options="nosync nocalc")
    before = [a.counters(i)["flushes"] for i in range(a.n)]
    a.python('os.fsync(os.open(DEV, os.O_RDWR))')
    assert [a.counters(i)["flushes"] - n for i, n in enumerate(before)] == flushed
    a.stop()


def test_member_that_fails_a_flush_is_out(node):
    a = Array(node, 2, 1, forget=True)
    a.message(3, "fail", "flush")
    a.python('fd = os.open(DEV, os.O_RDWR); os.pwrite(fd, bytes(4096), 0); os.fsync(fd)')
    assert a.letters() == "AAADA"
    a.stop()


def test_flush_fails_if_no_member_can_be_spared(node):
    a = Array(node, 2, 0, forget=True)
    a.message(3, "fail", "flush")
    result = a.python('fd = os.open(DEV, os.O_RDWR); os.pwrite(fd, bytes(4096), 0); os.fsync(fd)', check=False)
    assert result.code != 0 and "Errno 5" in result.err
    assert a.letters() == "AAAA"
    a.stop()


def wait_written(node):
    """Until a load writes."""
    node.wait_until("awk '{ exit !$5 }' /sys/dev/block/$(dmsetup info -c --noheadings -o major,minor --separator : r)/stat", timeout=30)


# ---- failing members --------------------------------------------------------------------------

@pytest.mark.parametrize("geometry,failing", [((0, 1, "rotating"), 0), pytest.param((1, 1, "rotating"), 2, marks=pytest.mark.slow),
                                              ((1, 2, "dedicated"), 1), pytest.param((2, 1, "rotating"), 4, marks=pytest.mark.slow)], ids=str)
def test_member_that_fails_writes_is_out(node, geometry, failing):
    """The load sees no error, the array continues without the member, and the others hold everything."""
    a = Array(node, *geometry, forget=True)
    load = node.spawn(a.verify_load(8))
    wait_written(node)
    a.message(failing, "fail", "write")
    assert load.wait(60).code == 0, node.run("cat /tmp/fio.log").out
    assert a.letters() == "".join("D" if i == failing else "A" for i in range(a.n))
    node.run("sync")
    a.python('os.fsync(os.open(DEV, os.O_RDWR))')
    a.check_content(missing=(failing,))


def test_second_failure_with_one_parity_is_an_error(node):
    """Nothing is acknowledged that could not be read again, and no member is put out in vain."""
    a = Array(node, 2, 1, forget=True)
    a.message(0, "fail", "write")
    a.python('os.pwrite(os.open(DEV, os.O_RDWR | os.O_DIRECT), mmap.mmap(-1, 4096), 0)')
    assert a.letters() == "DAAAA"
    a.message(1, "fail", "write")
    result = a.python('os.pwrite(os.open(DEV, os.O_RDWR | os.O_DIRECT), mmap.mmap(-1, 4096), 0)', check=False)
    assert result.code != 0 and "Errno 5" in result.err
    assert a.letters() == "DAAAA"
    a.stop()


def test_two_members_fail_at_once_with_two_parities(node):
    a = Array(node, 2, 2, forget=True)
    load = node.spawn(a.verify_load(8))
    wait_written(node)
    node.run("dmsetup message f1 0 fail all; dmsetup message f4 0 fail all")
    assert load.wait(60).code == 0, node.run("cat /tmp/fio.log").out
    assert a.letters() == "ADAADA"
    a.python('os.fsync(os.open(DEV, os.O_RDWR))')
    a.check_content(missing=(1, 4))


@pytest.mark.parametrize("geometry", [(0, 1, "dedicated"), (1, 2, "rotating"), pytest.param((2, 1, "rotating"), marks=pytest.mark.slow)], ids=geometry_id)
def test_bad_sectors_are_reconstructed(node, geometry):
    """A read error costs a reconstruction, whatever the disk reports; the member stays. The neighbours are read as usual."""
    a = Array(node, *geometry, forget=True)
    a.fio("--rw=write --bs=64k --size=4M --verify=crc32c --do_verify=0 --end_fsync=1 --verify_interval=4096")
    for member in range(a.n):
        a.message(member, "bad", "add", OFFSET // 512 + 3 * member + 1, 2, *["ioerr"] * (member % 2))
        a.fio("--rw=read --bs=64k --size=4M --verify=crc32c --verify_only --verify_fatal=1 --verify_interval=4096")
        a.message(member, "bad", "clear")
    assert a.letters() == "A" * a.n
    assert "bad sector in read" in node.dmesg()
    a.stop()


def test_bad_sector_without_parity_is_an_error_of_these_blocks_only(node):
    a = Array(node, 2, 0, forget=True)
    a.message(2, "bad", "add", OFFSET // 512, 1)
    code = 'os.preadv(os.open(DEV, os.O_RDWR | os.O_DIRECT), [mmap.mmap(-1, 4096)], %d)'
    assert "Errno" in a.python(code % 0, check=False).err
    a.python(code % 4096)
    assert a.letters() == "AAAA"
    a.stop()


def test_member_that_fails_reads_stays_in(node):
    """Without a daemon a bad sector cannot be distinguished from a broken disk: reads are reconstructed."""
    a = Array(node, 2, 1, forget=True)
    a.message(2, "fail", "read")
    load = node.spawn(a.verify_load(4))
    assert load.wait(60).code == 0, node.run("cat /tmp/fio.log").out
    assert a.letters() == "AAAAA"
    a.check_parity()


def test_fail_member_message(node):
    a = Array(node, 2, 1)
    a.fio("--rw=write --bs=64k --size=4M --verify=crc32c --do_verify=0 --verify_interval=4096")
    events = node.run("dmsetup info -c --noheadings -o events r").out.strip()
    waiter = node.spawn(f"dmsetup wait r {events}")     # for one that comes after those
    node.run("dmsetup message r 0 fail_member 1")
    assert waiter.wait(10).code == 0
    assert a.letters() == "ADAAA"
    a.fio("--rw=read --bs=64k --size=4M --verify=crc32c --verify_only --verify_fatal=1 --verify_interval=4096")
    node.run("dmsetup message r 0 fail_member 1")
    assert node.run("dmsetup message r 0 fail_member 2", check=False).code != 0
    assert node.run("dmsetup message r 0 fail_member 5", check=False).code != 0
    assert a.letters() == "ADAAA"
    a.check_content(missing=(1,))


# ---- verify_reads ---------------------------------------------------------------------------------

@pytest.mark.parametrize("geometry", [(0, 1, "dedicated"), (0, 2, "rotating"), (1, 1, "dedicated"), (1, 2, "rotating"),
                                      (2, 2, "dedicated")], ids=geometry_id)
def test_verify_reads_counts_what_does_not_match(node, geometry):
    """Silent damage on each member in turn: seen, counted, and without a daemon passed on."""
    a = Array(node, *geometry, options="nosync verify_reads")
    node.run(f"dd if=/dev/urandom of={DEV} bs=1M count=4 oflag=direct 2>/dev/null")
    read = f"dd if={DEV} of=/dev/null bs=64k count=64 iflag=direct"
    node.run(read)
    assert a.status()[4] == "0"
    for i, disk in enumerate(a.disks):
        good = disk.read(OFFSET, 512)
        disk.write(OFFSET, bytes([good[0] ^ 1]) + good[1:])
        node.run(read)
        assert a.status()[4] == str(i + 1), f"member {i}"
        disk.write(OFFSET, good)
    node.run(read)
    assert a.status()[4] == str(a.n)
    a.stop()


def test_verify_reads_under_load_finds_nothing(node):
    """A stripe that is read while it is written is no mismatch."""
    a = Array(node, 2, 2, options="nosync verify_reads")
    a.fio("--rw=randrw --bsrange=4k-64k --norandommap --size=256k --io_size=4M --iodepth=32 --numjobs=4")
    assert a.status()[4] == "0"
    a.check_parity()


# ---- tables, suspend, resume, reload, remove ---------------------------------------------------------

@pytest.mark.parametrize("options,missing,uuid", [("nosync", (), "-"), ("nosync nocalc", (), "-"), ("nosync verify_reads", (1,), UUID),
                                                  ("nosync", (0,), UUID)], ids=str)
def test_table_round_trip(node, options, missing, uuid):
    a = Array(node, 1, 1, options=options, missing=missing, uuid=uuid)
    shown = node.run("dmsetup table r").out
    words = a.table(missing).split()
    for i, path in enumerate(a.paths):
        if i not in missing:
            words[10 + i] = node.run(f"stat -L -c %Hr:%Lr {path}").out.strip()
    assert shown.split() == words
    node.run(["dmsetup", "load", "r"], stdin=shown)
    node.run("dmsetup resume r")
    assert node.run("dmsetup table r").out == shown
    a.stop()


def test_status_line(node):
    a = Array(node, 2, 1, missing=(4,))
    assert a.status() == ["AAAA-", "16/16", "idle", "0/0", "0", "0", "0", "nosync"]
    a.stop()


def test_suspend_resume_and_reload_under_load(node):
    a = Array(node, 2, 1, uuid=UUID)
    load = node.spawn(a.verify_load(15))
    rounds = 0
    deadline = time.monotonic() + 8
    while rounds < 2 or time.monotonic() < deadline:
        for flags in ("", "--noflush --nolockfs"):
            node.run(f"dmsetup suspend {flags} r && dmsetup resume r")
            node.run(["dmsetup", "load", "r"], stdin=a.table(options="nosync verify_reads"))
            node.run(f"dmsetup suspend {flags} r && dmsetup resume r")
            node.run(["dmsetup", "load", "r"], stdin=a.table())
            node.run("dmsetup resume r")
        rounds += 1
    assert load.poll() is None, "the load had ended before the last round"
    assert load.wait(60).code == 0, node.run("cat /tmp/fio.log").out
    assert a.status()[4] == "0"
    a.check_parity()


def test_remove_under_load_is_refused_and_harmless(node):
    a = Array(node, 2, 1)
    # fio itself closes the device some times a second, between writing and verifying
    load = node.spawn(f"exec 9<{DEV}; {a.verify_load(20)}")
    wait_written(node)
    answers = node.run("for i in 1 2 3 4 5; do dmsetup remove r; echo $?; rmmod dm_ddraid; echo $?; done").out.split()
    assert load.poll() is None, "the load had ended before the last attempt"
    assert answers == ["1"] * 10
    assert load.wait(60).code == 0, node.run("cat /tmp/fio.log").out
    a.check_parity()
    node.run("rmmod dm_ddraid && modprobe dm_ddraid")


def test_error_table_under_load(node):
    """What `dmsetup remove --force` does: a table of errors over a device that is in use, then the array again."""
    a = Array(node, 2, 1, uuid=UUID)
    load = node.spawn(a.verify_load(6))
    wait_written(node)
    node.run(["dmsetup", "load", "r"], stdin=f"0 {a.blocks * 8} error\n")
    node.run("dmsetup suspend --noflush r; dmsetup resume r")
    assert load.wait(60).code != 0
    node.run(["dmsetup", "load", "r"], stdin=a.table())
    node.run("dmsetup resume r")
    a.fio("--rw=randwrite --bs=64k --size=4M --verify=crc32c --verify_fatal=1")
    a.check_parity()


@pytest.mark.parametrize("uuid", ["-", UUID])
def test_failed_member_stays_out(node, uuid):
    """It is stale: neither suspend and resume nor a reload makes it current again, as long as the module knows the array."""
    a = Array(node, 1, 1, uuid=uuid)
    node.run("dmsetup message r 0 fail_member 0; dmsetup suspend r; dmsetup resume r")
    assert a.letters() == "DAA"
    if uuid != "-":
        node.run(["dmsetup", "load", "r"], stdin=a.table())
        node.run("dmsetup resume r")
        assert a.letters() == "DAA"
        node.run(["dmsetup", "load", "r"], stdin=a.table((2,)), check=False)
    a.stop()


def test_array_belongs_to_one_device(node):
    a = Array(node, 1, 1, uuid=UUID)
    result = node.run(["dmsetup", "create", "twin"], stdin=a.table(), check=False)
    assert result.code != 0
    assert "in use by another mapped device" in node.dmesg()
    a.stop()


@pytest.mark.parametrize("change", [{"blocks": 2048}, {"layout": "dedicated"}, {"region": 4 * MIB}], ids=str)
def test_changed_geometry_is_refused_at_reload(node, change):
    a = Array(node, 1, 1, uuid=UUID)
    assert node.run(["dmsetup", "load", "r"], stdin=a.table(**change), check=False).code != 0
    assert "remove the device first" in node.dmesg()
    a.fio("--rw=randwrite --bs=64k --size=4M --verify=crc32c --verify_fatal=1")
    a.check_parity()


def test_member_that_hangs_does_not_stop_other_blocks(node):
    """A write waits for its slow member; writes and reads that do not need it continue."""
    a = Array(node, 0, 1, layout="dedicated", forget=True)
    a.message(1, "hang", "on")
    write = node.spawn(["python3", "-SIE", "-c", IO_TOOL +
                        "os.pwrite(os.open(DEV, os.O_RDWR | os.O_DIRECT), mmap.mmap(-1, 4096), 0)"])
    node.wait_until("dmsetup status f1 | grep -q held=1", 30)
    assert write.poll() is None
    a.python('os.preadv(os.open(DEV, os.O_RDWR | os.O_DIRECT), [mmap.mmap(-1, 4096)], 0)', timeout=20)
    assert write.poll() is None
    a.message(1, "hang", "off")
    assert write.wait(20).code == 0
    a.check_parity()


def test_little_memory(node):
    """Buffers come from the reserve when memory is short; nothing deadlocks, nothing is wrong."""
    a = Array(node, 2, 2)
    node.run("mkdir -p /tmp/eat && mount -t tmpfs -o size=95% eat /tmp/eat", check=False)
    try:
        node.run("free=$(awk '$1 == \"MemAvailable:\" {print int($2 / 1024) - 60}' /proc/meminfo); "
                 "dd if=/dev/zero of=/tmp/eat/x bs=1M count=$free 2>/dev/null", check=False)
        assert node.run(a.verify_load(6), timeout=90, check=False).code == 0, node.run("cat /tmp/fio.log").out
    finally:
        node.run("rm -f /tmp/eat/x; umount /tmp/eat", check=False)
    a.check_parity()
