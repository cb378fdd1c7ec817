# SPDX-License-Identifier: GPL-2.0-or-later
"""An array over three dm-forget, with kchan.py as the daemon: what the cases of failing members share."""

import contextlib
import mmap
import os
import subprocess

from kchan import APPLIED, ERROR, KM_OUT, GRANT, MEMBER, RESOLVE, RES_RETRY, IO, Array, wait_for

EC_IO, EC_MEDIUM, EC_ABSENT = 1, 2, 7
OP_READ, OP_WRITE, OP_FLUSH = 0, 1, 2
RB_CLEAN, RB_SUSPECT_ERROR = 1, 2
DISKS = ["/dev/vda", "/dev/vdb", "/dev/vdc"]
DATA = 2048 * 512           # where the data begins on a member
CHUNK = 2048


def dm(*args):
    subprocess.run(["dmsetup", *args], check=True, timeout=30, capture_output=True)


def forget(member, *words):
    dm("message", f"f{member}", "0", *map(str, words))


@contextlib.contextmanager
def array(**kwargs):
    """An array over three dm-forget."""
    for i, disk in enumerate(DISKS):
        size = int(subprocess.run(["blockdev", "--getsz", disk], check=True, capture_output=True).stdout)
        dm("create", f"f{i}", "--table", f"0 {size} forget {disk} 0")
    a = Array(devices=[f"/dev/mapper/f{i}" for i in range(3)], **kwargs)
    try:
        yield a
    finally:
        for i in range(3):
            forget(i, "fail", "none")
            forget(i, "hang", "off")
        a.dm("remove", "--force", a.name, check=False)
        wait_for(lambda: not os.path.exists(a.path), 10)
        for i in range(3):
            dm("remove", "--retry", f"f{i}")


def raw(member, block, data=None):
    """A chunk on a member, through its dm-forget: read it, or write @data."""
    fd = os.open(f"/dev/mapper/f{member}", os.O_RDWR | os.O_DIRECT)
    try:
        area = mmap.mmap(-1, CHUNK)
        if data is not None:
            area[:] = data
            os.pwritev(fd, [area], DATA + block * CHUNK)
        else:
            os.preadv(fd, [area], DATA + block * CHUNK)
        return area[:]
    finally:
        os.close(fd)


def flush(member):
    fd = os.open(f"/dev/mapper/f{member}", os.O_RDWR)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def ready(a, regions=1):
    """An attached channel; the first regions are granted and block 0 holds 0x11."""
    ch = a.attach()
    ch.send(GRANT, start=0, count=regions)
    assert IO(a.path, 0, 0x11).done() == 0
    return ch


def out(ch, member, seq=50, state=KM_OUT, cursor=0):
    ch.send(MEMBER, seq=seq, member=member, a0=state, start=cursor)
    ch.until(APPLIED, seq=seq, member=member)


def content(a, block=0):
    read = IO(a.path, block)
    assert read.done() == 0
    return read.area[:]


def reload(a, without=None):
    """A table that names no device for that member becomes the active one."""
    words = a.table().split()
    if without is not None:
        words[words.index(a.devices[without])] = "-"
    a.dm("suspend", "--noflush", "--nolockfs", a.name, timeout=10)
    a.dm("load", a.name, "--table", " ".join(words))
    a.dm("resume", a.name)


class Flush(IO):
    """A flush, and nothing else."""

    def __init__(self, path):
        super().__init__(path, 0)

    def run(self):
        fd = os.open(self.path, os.O_RDWR)
        try:
            self.calling = True
            os.fsync(fd)
            self.result = 0
        except OSError as error:
            self.result = error.errno
        finally:
            os.close(fd)


def absent(ch, flags=0):
    """The records of a write and of a flush that the table leaves member 1 out of, by operation."""
    records = {}
    while len(records) < 2:
        e = ch.until(ERROR, member=1, status=EC_ABSENT)
        assert e.a0 in (OP_WRITE, OP_FLUSH) and e.a0 not in records and e.flags & flags == flags, (e, records)
        records[e.a0] = e.seq
    return records


def retry(ch, records):
    for seq in records.values():
        ch.send(RESOLVE, seq=seq, a0=RES_RETRY)


@contextlib.contextmanager
def other(target):
    """An array, and a device of the size of its member 1: @target, with {disk} for the device that the member is on."""
    size = int(subprocess.run(["blockdev", "--getsz", DISKS[1]], check=True, capture_output=True).stdout)
    dm("create", "g1", "--table", f"0 {size} " + target.format(disk=DISKS[1]))
    try:
        with array() as a:
            yield a, "/dev/mapper/g1"
    finally:
        dm("remove", "--retry", "g1")


def rebuild(member, unit):
    """Order 1 and P: each chunk is the XOR of the two others."""
    size, at = 256 * CHUNK, DATA + unit * 256 * CHUNK
    pieces = []
    for m in range(3):
        if m != member:
            fd = os.open(f"/dev/mapper/f{m}", os.O_RDONLY | os.O_DIRECT)
            area = mmap.mmap(-1, size)
            assert os.preadv(fd, [area], at) == size
            os.close(fd)
            pieces.append(int.from_bytes(area[:], "little"))
    area = mmap.mmap(-1, size)
    area[:] = (pieces[0] ^ pieces[1]).to_bytes(size, "little")
    fd = os.open(f"/dev/mapper/f{member}", os.O_WRONLY | os.O_DIRECT)
    assert os.pwritev(fd, [area], at) == size
    os.close(fd)
