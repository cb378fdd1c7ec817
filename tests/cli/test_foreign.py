# SPDX-License-Identifier: GPL-2.0-or-later
"""Members on which another program has left its signature, on image files: `ddraid table` leaves them out and names them.

Each signature is the least that libblkid takes for one, at the place where the other program puts it.
"""
import json
import os
import pathlib
import struct
import subprocess
import sys
import zlib

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests/badmeta"))
import badmeta  # noqa: E402
from test_create import ANYTHING  # noqa: E402
DDRAID = pathlib.Path(os.environ.get("DDRAID_BUILDDIR", TOP / "build")) / "cli" / "ddraid"
MIB = 1 << 20
SIZE = 24 * MIB + 24576         # no multiple of 64 KiB, as most disks


def ddraid(*args, **env):
    return subprocess.run([DDRAID, *map(str, args)], capture_output=True, text=True, timeout=120, env=dict(os.environ, **env), check=False)


def gpt(size, where="both"):
    """{offset: bytes} of a partition table with no partition."""
    sectors, entries, parts = size // 512, bytes(128 * 128), {}
    for mine, other, table in ((1, sectors - 1, 2), (sectors - 1, 1, sectors - 33)):
        if where == "end" and mine == 1:
            continue
        header = bytearray(struct.pack("<8sIIIIQQQQ16sQIII", b"EFI PART", 0x10000, 92, 0, 0, mine, other, 34, sectors - 34,
                                       b"0123456789abcdef", table, 128, 128, zlib.crc32(entries)))
        header[16:20] = zlib.crc32(bytes(header)).to_bytes(4, "little")
        parts[mine * 512] = bytes(header)
    if where != "end":
        parts[446] = bytes([0, 0, 2, 0, 0xee, 255, 255, 255]) + (1).to_bytes(4, "little") + (sectors - 1).to_bytes(4, "little") + bytes(48) + b"\x55\xaa"
    return parts


def dos(size):
    return {446: bytes([0, 0, 2, 0, 0x83, 255, 255, 255]) + (8).to_bytes(4, "little") + (size // 512 - 8).to_bytes(4, "little") + bytes(48) + b"\x55\xaa"}


def md1(offset):
    """md metadata 1.x at @offset."""
    block = bytearray(256)
    struct.pack_into("<II", block, 0, 0xa92b4efc, 1)
    block[16:32] = b"0123456789abcdef"
    struct.pack_into("<Q", block, 144, offset // 512)
    return {offset: bytes(block)}


def md1_at_the_end(size):
    return md1((size // 512 - 16) // 8 * 8 * 512)


def swap(_size):
    return {1024: struct.pack("<III", 1, 100, 0), 4086: b"SWAPSPACE2"}


def lvm(size):
    label = bytearray(512)
    label[:8], label[24:32] = b"LABELONE", b"LVM2 001"
    struct.pack_into("<Q", label, 8, 1)
    struct.pack_into("<I", label, 20, 32)
    label[32:64] = b"0123456789abcdefghijklmnopqrstuv"
    struct.pack_into("<Q", label, 64, size)
    crc = 0xf597a6cf
    for byte in label[20:]:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xedb88320 if crc & 1 else 0)
    struct.pack_into("<I", label, 16, crc)
    return {512: bytes(label)}


def btrfs(_size):
    block = bytearray(4096)
    block[0x20:0x30] = b"0123456789abcdef"
    struct.pack_into("<Q", block, 0x30, 65536)
    block[0x40:0x48] = b"_BHRfS_M"
    return {65536: bytes(block)}


def xfs(size):
    block = bytearray(512)
    struct.pack_into(">4sIQ", block, 0, b"XFSB", 4096, size // 4096)
    block[32:48] = b"0123456789abcdef"
    struct.pack_into(">IIIIH", block, 80, 1, size // 4096, 1, 0, 1024)      # rextsize, agblocks, agcount, rbmblocks, logblocks
    struct.pack_into(">I", block, 96, 1024)
    struct.pack_into(">HHHH", block, 100, 0xb4a4, 512, 512, 8)
    block[120:128] = bytes([12, 9, 9, 3, 13, 0, 0, 25])
    return {0: bytes(block)}


def uberblocks(at):
    """Of a label of ZFS at @at: libblkid looks for them at both ends of a disk."""
    return {at + 131072 + i * 1024: struct.pack("<QQQ", 0x00bab10c, 5000, i + 1) for i in range(128)}


FOREIGN = {"gpt": gpt, "dos": dos, "md-1.1": lambda _: md1(0), "md-1.2": lambda _: md1(4096), "md-1.0": md1_at_the_end, "swap": swap,
           "lvm": lvm, "btrfs": btrfs, "gpt-at-the-end": lambda size: gpt(size, "end")}


def put(path, parts, offset=0):
    with open(path, "r+b") as image:
        for at, data in parts.items():
            image.seek(offset + at)
            image.write(data)


def make(tmp_path, order, parity, size=SIZE):
    paths = [tmp_path / f"disk{i}" for i in range((1 << order) + parity)]
    for path in paths:
        with open(path, "wb") as image:
            image.truncate(size)
    made = ddraid("create", "data", "--order", order, "--parity", parity, *ANYTHING, "--json", *paths)
    assert made.returncode == 0, made
    return paths, json.loads(made.stdout)


def table(paths):
    return ddraid("table", "data", DDRAID_DEVICES=" ".join(map(str, paths)))


@pytest.mark.parametrize("kind", FOREIGN)
def test_what_another_program_wrote_leaves_the_member_out(tmp_path, kind):
    """Finding S35: mkfs, pvcreate, mdadm and parted find nothing on a member and write to it, and the next start took it as in sync."""
    parts = FOREIGN[kind](SIZE)
    blank = tmp_path / "blank"
    with open(blank, "wb") as image:
        image.truncate(SIZE)
    put(blank, parts)
    probe = subprocess.run(["/sbin/blkid", "-p", blank], capture_output=True, text=True, check=False)
    assert kind == "gpt-at-the-end" or probe.returncode == 0, f"libblkid does not take this for a {kind}: {probe}"
    paths, _ = make(tmp_path, 1, 1)
    put(paths[1], parts)
    line = table(paths)
    assert line.returncode == 0, line
    assert line.stdout.split()[-3:] == [str(paths[0]), "-", str(paths[2])], line
    assert f"{paths[1]} is not used: it also holds a " in line.stderr and "ddraid add --overwrite data" in line.stderr, line.stderr
    assert "member 1 is left out" in line.stderr
    report, = json.loads(ddraid("examine", "--json", paths[1]).stdout)
    assert any(error.startswith("also holds a ") for error in report["errors"]), report["errors"]


def test_two_that_were_overwritten_are_too_many(tmp_path):
    """They are refused, all of them named, with the way out."""
    paths, _ = make(tmp_path, 1, 1)
    for path in paths[:2]:
        put(path, swap(SIZE))
    line = table(paths)
    assert line.returncode == 1 and line.stdout == ""
    assert all(str(path) in line.stderr for path in paths[:2]) and "swap" in line.stderr and "wipefs --all" in line.stderr
    assert line.stderr.count("\n") == 1


def test_one_that_was_overwritten_comes_back_as_a_new_disk_only(tmp_path):
    """create and add name both: that it was a member, and what it holds now."""
    paths, _ = make(tmp_path, 1, 1)
    put(paths[1], md1(4096))
    other = tmp_path / "other"
    with open(other, "wb") as image:
        image.truncate(SIZE)
    made = ddraid("create", "new", "--order", 0, *ANYTHING, other, paths[1])
    assert made.returncode == 0 and "linux_raid_member raid, member of ddraid array data" in made.stderr, made


def users(size):
    """What a user may have on an array of this size, in {offset: bytes}: signatures at both ends."""
    parts = {**gpt(size), **md1_at_the_end(size), **{size // 65536 * 65536 - 65536: struct.pack("<II", 0xa92b4efc, 0)}}
    label = size // 262144 * 262144
    for at in (label - 524288, label - 262144):
        parts.update(uberblocks(at))
    return parts


@pytest.mark.parametrize("size", [SIZE, 24 * MIB, 24 * MIB + 12288, 25 * MIB + 4096, 24 * MIB + 512])
@pytest.mark.parametrize("order, parity", [(0, 0), (0, 1), (1, 0), (2, 1), (3, 2)])
def test_user_data_are_no_signature(tmp_path, order, parity, size):
    """Whatever the user has in the array, at its beginning and its end, and at the end of a member's data area."""
    paths, array = make(tmp_path, order, parity, size)
    chunk, n = 4096 >> order, 1 << order
    content = bytearray(array["size"])
    for at, data in users(array["size"]).items():
        content[at:at + len(data)] = data
    end = array["data_offset"] + array["size"] // 4096 * chunk
    for role in range(n):
        with open(paths[role], "r+b") as image:     # as in the dedicated layout: in another one the chunks are those of another member
            image.seek(array["data_offset"])
            image.write(b"".join(content[at + role * chunk:at + (role + 1) * chunk] for at in range(0, len(content), 4096)))
    assert table(paths).stderr == ""
    for path in paths:
        label = size // 262144 * 262144
        with open(path, "r+b") as image:            # and at the very places where libblkid looks
            for at, data in {**uberblocks(label - 524288), **uberblocks(label - 262144), size // 65536 * 65536 - 65536: struct.pack("<II", 0xa92b4efc, 0)}.items():
                if at + len(data) <= end:
                    image.seek(at)
                    image.write(data)
    line = table(paths)
    assert line.returncode == 0 and line.stderr == "" and " - " not in line.stdout, line


def test_what_ddraid_wrote_is_no_signature(tmp_path):
    """A dirty log holds bits as the user's writes set them: eight regions in it look like UFS to libblkid, and a crash leaves them so."""
    paths, array = make(tmp_path, 0, 1, 700 * MIB)
    ddraid("create", "data", "--order", 0, *ANYTHING, "--region-size", "64K", *paths)
    for path in paths:
        with open(path, "r+b") as image:
            image.seek(8192)                            # the first block of slot 0
            block = bytearray(image.read(4096))
            assert block[:4] == b"DDrl"
            block[1372:1376] = struct.pack("<I", 0x00011954)
            badmeta.seal(block)
            image.seek(8192)
            image.write(block)
        probe = subprocess.run(["/sbin/blkid", "-p", path], capture_output=True, text=True, check=False)
        assert 'TYPE="ufs"' in probe.stdout, probe
    line = table(paths)
    assert line.returncode == 0 and line.stderr == "" and array["slots"] == 16, line
    report = json.loads(ddraid("examine", "--json", *paths).stdout)
    assert report[0]["slots"][0]["dirty"] and "errors" not in report[0]
