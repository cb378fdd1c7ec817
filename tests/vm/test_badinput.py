# SPDX-License-Identifier: GPL-2.0-or-later
"""Bad input: each kind is refused with one line that names the error, and nothing on any disk changes."""
import contextlib
import hashlib
import json
import os
import pathlib
import struct
import sys
import zlib

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "drills"), str(TESTS / "tools")]
import rawcheck  # noqa: E402
from guest import CONFIG, Guest  # noqa: E402

VM = {"disks": 6, "size": "96M"}
MIB = 1 << 20


def fingerprint(disks):
    """Of everything that is on the disks: extents that may hold data, without their zeroes."""
    out = []
    for disk in disks:
        digest = hashlib.sha256()
        member = rawcheck.Member(disk.path)
        for start, end in member.extents(0, disk.size):
            for at in range(start, end, MIB):
                piece = member.read(at, min(MIB, end - at))
                if piece.count(0) < len(piece):
                    digest.update(b"%d " % at + piece)
        member.close()
        out.append(digest.hexdigest())
    return out


@contextlib.contextmanager
def nothing_changes(node):
    """AssertionError when a disk has other content afterwards."""
    node.run("sync; for d in /dev/vd?; do blockdev --flushbufs $d; done")
    before = fingerprint(node.disks)
    yield
    node.run("sync")
    assert fingerprint(node.disks) == before, "a disk was changed"


def refused(node, command, words, code=1, env=None):
    """The command ends with @code and one error line that holds all of @words."""
    with nothing_changes(node):
        result = node.run(command, check=False, env=env)
    assert result.code == code, result
    lines = result.err.strip().splitlines()
    assert len(lines) == (1 if code == 1 else 2), f"more than the line (and the usage): {result}"
    for word in [words] if isinstance(words, str) else words:
        assert word in lines[0], f"{word!r} is not in: {lines[0]}"
    return lines[0]


@pytest.fixture
def node(shared_node, stage):
    """The shared machine, its disks wiped, nothing mapped."""
    del stage
    shared_node.run("umount /mnt 2>/dev/null; dmsetup remove_all --force", check=False)
    for disk in shared_node.disks:
        disk.wipe()
    shared_node.run("for d in /dev/vd?; do blockdev --flushbufs $d; done")
    return shared_node


def dev(node, *numbers):
    return " ".join(node.disks[i].dev for i in numbers)


def create(node, name="t", disks=(0, 1, 2), options="--order 1 --parity 1"):
    """As on another machine: the name of an array on other disks is not seen."""
    node.run(f"DDRAID_DEVICES='{dev(node, *disks)}' ddraid create {name} {options} {dev(node, *disks)}")


# ---- create ----------------------------------------------------------------------------

USAGE = [
    ("create", "give the name"),
    ("create t", "give the name"),
    ("create t --order 4 D0 D1 D2", "--order must be 0, 1, 2 or 3"),
    ("create t --order x D0 D1 D2", "not 'x'"),
    ("create t --order -1 D0 D1 D2", "--order must be"),
    ("create t --order 1 --parity 3 D0 D1 D2", "--parity must be 0, 1 or 2"),
    ("create t --order 1 --layout left D0 D1 D2", "--layout must be dedicated or rotating"),
    ("create t --order 1 --region-size 3M D0 D1 D2", "--region-size must be a power of two"),
    ("create t --order 1 --region-size 32K D0 D1 D2", "from 64KiB to 1GiB"),
    ("create t --order 1 --region-size 2G D0 D1 D2", "from 64KiB to 1GiB"),
    ("create t --order 1 --region-size 99999999999999999999 D0 D1 D2", "--region-size must be"),
    ("create t --order 1 --nodes 0 D0 D1 D2", "--nodes must be 1 to 64"),
    ("create t --order 1 --nodes 65 D0 D1 D2", "--nodes must be 1 to 64"),
    ("create t --order 1 --bogus D0 D1 D2", "--bogus"),
    ("create t --order", "--order"),
    ("create t D0 D1 D2", "--order is missing"),
    ("create t --order 1 D0 D1", "needs 3 devices, 2 were given"),
    ("create t --order 2 --parity 2 D0 D1 D2 D3 D4", "needs 6 devices, 5 were given"),
    ("create 'a b' --order 1 D0 D1 D2", "'a b' cannot name an array"),
    ("create ../x --order 1 D0 D1 D2", "cannot name an array"),
    ("create '' --order 1 D0 D1 D2", "cannot name an array"),
    (f"create {'x' * 64} --order 1 D0 D1 D2", "cannot name an array"),
    ("frobnicate", "unknown command 'frobnicate'"),
    ("examine", "give"),
    ("table", "give the name"),
    ("table --uuid 12345", "not a uuid"),
]


def test_usage(node):
    """One call for each, in one test: a machine is slow to ask and quick to answer."""
    script = []
    for command, _ in USAGE:
        for i in range(6):
            command = command.replace(f"D{i}", f"/dev/vd{'abcdef'[i]}")
        script.append(f"ddraid {command} >/dev/null 2>/tmp/err; echo \"$? $(head -n 1 /tmp/err)\"")
    with nothing_changes(node):
        answers = node.run("\n".join(script), timeout=180).out.splitlines()
    wrong = [f"{command}: {answer}" for (command, word), answer in zip(USAGE, answers)
             if not answer.startswith("2 ") or word not in answer]
    assert len(answers) == len(USAGE) and not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind,prepare,bad,words", [
    ("absent", "true", "/dev/absent", ["/dev/absent", "No such file"]),
    ("character", "true", "/dev/zero", ["/dev/zero", "not a block device"]),
    ("file", "truncate -s 96M /tmp/file", "/tmp/file", ["/tmp/file", "not a block device"]),
    ("directory", "true", "/tmp", ["/tmp", "not a block device"]),
    ("small", "echo 0 2048 linear /dev/vdc 0 | dmsetup create small", "/dev/mapper/small", ["small", "too small", "larger"]),
    ("sector", "echo 0 8 linear /dev/vdc 0 | dmsetup create sector", "/dev/mapper/sector", ["sector", "too small"]),
    ("read-only", "echo 0 190000 linear /dev/vdc 0 | dmsetup create --readonly ro", "/dev/mapper/ro", ["/dev/mapper/ro", "read-only"]),
    ("twice", "true", "/dev/vda", ["same device", "its own disk"]),
    ("twice-by-link", "ln -sf /dev/vda /tmp/link", "/tmp/link", ["same device"]),
    ("held", "echo 0 1000 linear /dev/vdc 0 | dmsetup create hold", "/dev/vdc", ["/dev/vdc", "in use"]),
    ("mounted", "mkfs.ext4 -q /dev/vdc && mount -o ro /dev/vdc /mnt", "/dev/vdc", ["/dev/vdc", "in use"]),
    ("ext4", "mkfs.ext4 -q /dev/vdc", "/dev/vdc", ["/dev/vdc", "ext4 file system", "--overwrite"]),
    ("ext4-read", "mkfs.ext4 -q -b 1024 /dev/vdc", "/dev/vdc", ["ext4 file system"]),
    ("swap", "mkswap -q /dev/vdc || mkswap /dev/vdc", "/dev/vdc", ["swap"]),
    ("md", "modprobe raid1; mdadm -q --create /dev/md9 --run --metadata=1.2 -l1 -n2 --assume-clean /dev/vdc missing && "
     "mdadm -q --stop /dev/md9", "/dev/vdc", ["linux_raid_member"]),
    ("md-at-the-end", "modprobe raid1; mdadm -q --create /dev/md9 --run --metadata=1.0 -l1 -n2 --assume-clean /dev/vdc missing && "
     "mdadm -q --stop /dev/md9", "/dev/vdc", ["linux_raid_member"]),
    ("ddraid", "ddraid create other --order 0 /dev/vdc /dev/vdd", "/dev/vdc", ["member of ddraid array other"]),
], ids=lambda v: v if isinstance(v, str) and len(v) < 16 and "/" not in v else "")
def test_create_refuses(node, kind, prepare, bad, words):
    del kind
    node.run(prepare)
    refused(node, f"ddraid create t --order 1 --parity 1 /dev/vda /dev/vdb {bad}", words)


def partition_table(disk, kind):
    """Writes the least that is one."""
    entry = bytes([0, 0, 2, 0, 0x83 if kind == "dos" else 0xee, 255, 255, 255]) + (1).to_bytes(4, "little") + \
        (disk.size // 512 - 1).to_bytes(4, "little")
    disk.write(446, entry + bytes(48) + b"\x55\xaa")
    if kind == "gpt":
        sectors = disk.size // 512
        entries = bytes(128 * 128)
        for mine, other, table in ((1, sectors - 1, 2), (sectors - 1, 1, sectors - 33)):
            header = bytearray(struct.pack("<8sIIIIQQQQ16sQIII", b"EFI PART", 0x10000, 92, 0, 0, mine, other, 34, sectors - 34,
                                           b"0123456789abcdef", table, 128, 128, zlib.crc32(entries)))
            header[16:20] = zlib.crc32(bytes(header)).to_bytes(4, "little")
            disk.write(mine * 512, bytes(header))
            disk.write(table * 512, entries)


@pytest.mark.parametrize("kind", ["dos", "gpt"])
def test_create_refuses_partition_tables(node, kind):
    partition_table(node.disks[2], kind)
    node.run("blockdev --flushbufs /dev/vdc")
    refused(node, "ddraid create t --order 1 --parity 1 /dev/vda /dev/vdb /dev/vdc", ["/dev/vdc", f"{kind} partition table"])


def test_overwrite_destroys_a_file_system(node):
    """The way out that the refusal names: the old signature is gone afterwards."""
    node.run("mkfs.ext4 -q /dev/vda")
    node.run("ddraid create t --order 1 --overwrite --yes /dev/vda /dev/vdb /dev/vdc")
    assert "ext4" not in node.run("blkid -p /dev/vda", check=False).out


def test_unequal_disks_are_refused(node):
    """With --unequal the smallest counts, and the unused rest of the others is reported."""
    node.run("echo 0 98304 linear /dev/vdc 0 | dmsetup create half")
    refused(node, "ddraid create t --order 1 /dev/vda /dev/vdb /dev/mapper/half",
            ["/dev/mapper/half has 50331648 bytes (48 MiB)", "/dev/vda has 100663296 bytes (96 MiB)", "--unequal"])
    result = node.run("ddraid create t --order 1 --unequal --yes /dev/vda /dev/vdb /dev/mapper/half")
    assert result.err.count("stays unused") == 2 and "/dev/vda" in result.err, result
    state = json.loads(node.run("ddraid examine --json /dev/vda").out)[0]
    assert state["size"] <= 2 * 48 * MIB


@pytest.mark.vm(disks=3, size="96M", logical_block_size=4096)
def test_4kn_disks(nodes, stage):
    """Sectors larger than a chunk are refused; order 0, whose chunk is 4096 bytes, takes them."""
    del stage
    node = nodes[0]
    refused(node, f"ddraid create t --order 1 {dev(node, 0, 1, 2)}", ["sectors of 4096 bytes", "chunk of 2048", "order 0"])
    node.run(f"ddraid create t --order 0 {dev(node, 0, 1)}")


@pytest.mark.vm(disks=3, size="96M", physical_block_size=4096)
def test_512e_disks(nodes, stage):
    """Finding P1: physical sectors larger than a chunk need an option that overrides nothing else; then there is a warning."""
    del stage
    node = nodes[0]
    refused(node, f"ddraid create t --order 1 --overwrite --yes {dev(node, 0, 1, 2)}", ["physical sectors of 4096 bytes", "--allow-512e"])
    refused(node, f"ddraid create t --order 1 --allow-512e {dev(node, 0, 1, 2)}", ["physical sectors of 4096 bytes", "Give --yes to confirm"])
    result = node.run(f"ddraid create t --order 1 --allow-512e --yes {dev(node, 0, 1, 2)}")
    assert "physical sectors of 4096 bytes" in result.err


# ---- damaged metadata ------------------------------------------------------------------

# field: offset, size, a wrong value for it, a word of the complaint
FIELDS = {
    "magic": (0, 4, 0x12345678, ""), "version": (4, 2, 9, "version"), "reserved0": (6, 2, 1, "reserved"),
    "length": (8, 4, 512, "length"), "seq": (16, 8, 0, "seq"), "incompat": (28 + 4, 4, 1 << 31, "incompat"),
    "policy": (36, 4, 1 << 31, "policy"), "name": (56, 1, 0x20, "name"), "order": (120, 1, 4, "order"),
    "parity": (121, 1, 3, "parity"), "layout": (122, 1, 2, "layout"), "reserved1": (123, 1, 1, "reserved"),
    "chunk": (124, 4, 512, "chunk"), "block_size": (128, 4, 512, "block_size"), "region_size": (132, 4, 12345, "region_size"),
    "array_blocks": (136, 8, 0, "array_blocks"), "array_blocks-odd": (136, 8, 7, "array_blocks"),
    "data_offset": (144, 8, 4096, "data_offset"), "generation": (152, 8, 0, "generation"), "log_base": (192, 8, 1 << 40, "log_base"),
    "log_offset": (200, 8, 1, "log_offset"), "log_blocks": (208, 4, 0, "log_blocks"), "slots": (212, 4, 65, "slots"),
    "map_offset": (216, 8, 1, "map_offset"), "map_blocks": (224, 4, 0, "map_blocks"), "roles": (228, 2, 9, "roles"),
    "members": (230, 2, 17, "members"), "this_member": (232, 2, 16, "this_member"), "reserved2": (234, 2, 1, "reserved"),
    "reserved3": (236, 4, 1, "reserved"), "reserved5": (263, 1, 1, "reserved"), "owner_offset": (304, 8, 4096, "owner_offset"), "reserved6": (314, 1, 1, "reserved"), "reserved4": (320, 1, 1, "reserved"), "verify": (260, 1, 9, "verify"), "member-state": (1024 + 16, 1, 9, "entry 0"),
    "member-flags": (1024 + 17, 1, 1, "flags"), "member-role": (1024 + 18, 2, 7, "role"), "member-cursor": (1024 + 24, 8, 5, "cursor"),
    "member-since": (1024 + 32, 8, 99, "entry 0"), "member-reserved": (1024 + 60, 1, 1, "reserved"),
    "member-unused": (1024 + 64 * 12, 1, 1, "entry 12"), "slot-flags": (2048 + 4, 4, 1, "flags"),
    "slot-reserved": (2048 + 8, 1, 1, "reserved"), "slot-unused": (2048 + 32 * 60, 1, 1, "entry 60"),
    "uuid": (40, 16, 0, "uuid"), "gen_id": (160, 16, 0, "gen_id"), "gen_prev": (176, 16, 77, "gen_prev"),
    "member-uuid": (1024, 16, 0, "entry 0"),
}


def damaged(block, offset, size, value, seal=True):
    """A superblock with @value in a field, and a right checksum over it if @seal."""
    block = bytearray(block)
    block[offset:offset + size] = value.to_bytes(size, "little")
    if seal:
        block[12:16] = bytes(4)
        block[12:16] = rawcheck.crc32c(bytes(block)).to_bytes(4, "little")
    return bytes(block)


def damage(disk, offset, size, value):
    """The same in both copies on a disk."""
    for copy in (4096, MIB - 4096):
        disk.write(copy, damaged(disk.read(copy, 4096), offset, size, value))


def with_each_damage(node, variants):
    """For each (copy 0, copy 1) on the first disk: (report of examine, exit code and output of table).

    One script, since a machine is slow to ask. Each variant must lie there unchanged afterwards.
    """
    node.put("/tmp/variants", b"".join(a + b for a, b in variants))
    put = "dd if=/tmp/variants bs=4096 count=1 of=/dev/vda oflag=direct conv=notrunc 2>/dev/null"
    out = node.run(f"""
        i=0
        while [ $i -lt {len(variants)} ]; do
            {put} skip=$((2 * i)) seek=1; {put} skip=$((2 * i + 1)) seek=255
            echo "== examine"; ddraid examine --json /dev/vda 2>/dev/null
            echo "== table"; ddraid table t 2>&1; echo "code $?"
            for at in 1 255; do dd if=/dev/vda bs=4096 skip=$at count=1 iflag=direct 2>/dev/null; done > /tmp/now
            dd if=/tmp/variants bs=8192 skip=$i count=1 2>/dev/null | cmp - /tmp/now || echo changed
            i=$((i + 1))
        done""", timeout=400).out
    assert "changed" not in out, "a superblock was changed by looking at it"
    parts = [part.split("== table\n") for part in out.split("== examine\n")[1:]]
    assert len(parts) == len(variants)
    return [(json.loads(report)[0], table) for report, table in parts]


def test_every_damaged_superblock_field_is_named(node):
    """With a right checksum over the wrong field: examine names it, and the array starts without that disk."""
    create(node)
    good = [node.disks[0].read(at, 4096) for at in (4096, MIB - 4096)]
    variants = [tuple(damaged(block, *field[:3]) for block in good) for field in FIELDS.values()]
    silent = []
    for (name, field), (report, table) in zip(FIELDS.items(), with_each_damage(node, variants)):
        complaint = " ".join(report.get("errors", []))
        if report["valid"] or field[3] not in complaint or "code 0" not in table or " 3 - " not in table:
            silent.append(f"{name}: valid={report['valid']} complaint={complaint!r} table={table!r}")
    assert not silent, "\n".join(silent)


@pytest.mark.slow
def test_every_torn_superblock_is_seen(node):
    """Without a right checksum: the other copy serves, and examine names the damaged one."""
    create(node)
    good = [node.disks[0].read(at, 4096) for at in (4096, MIB - 4096)]
    variants = [(damaged(good[0], *field[:3], seal=False), good[1]) for field in FIELDS.values()]
    silent = []
    for name, (report, table) in zip(FIELDS, with_each_damage(node, variants)):
        if not report["valid"] or "copy 0" not in " ".join(report["errors"]) or "code 0" not in table or " - " in table:
            silent.append(f"{name}: {report.get('errors')} table={table!r}")
    assert not silent, "\n".join(silent)


def test_damaged_log_and_map_blocks_are_named(node):
    """Damaged at one place: reported, and the other place is used. At both places on all members: everything counts as dirty, and
    examine reports that.
    """
    create(node)
    sb = rawcheck.parse_superblock(node.disks[0].read(4096, 4096))
    for offset, what in ((sb["log_offset"], "log"), (sb["map_offset"], "map")):
        goods = [disk.read(0, MIB) for disk in node.disks[:3]]
        for place in (0, 4096):
            for disk in node.disks[:3]:
                disk.write(offset + place + 200, b"\xff")
            node.run("for d in /dev/vd?; do blockdev --flushbufs $d; done")
            report = json.loads(node.run(f"ddraid examine --json {dev(node, 0, 1, 2)}", check=False).out)[0]
            assert what in " ".join(report.get("errors", [])), f"{what}, place {place}: {report.get('errors')}"
        for disk, good in zip(node.disks, goods):
            disk.write(0, good)


# ---- assembly --------------------------------------------------------------------------

def test_unknown_array(node):
    refused(node, "ddraid table nothing", "nothing")


def test_members_of_two_arrays_are_not_mixed(node):
    create(node, "one", (0, 1, 2))
    create(node, "two", (3, 4, 5))
    for name, mine, others in (("one", "abc", "def"), ("two", "def", "abc")):
        line = node.run(f"ddraid table {name}").out
        assert all(f"/dev/vd{c}" in line for c in mine) and not any(f"/dev/vd{c}" in line for c in others), line


def test_two_arrays_of_one_name_need_the_uuid(node):
    create(node, "same", (0, 1, 2))
    create(node, "same", (3, 4, 5))
    refused(node, "ddraid table same", ["same"])


def test_copy_of_a_member_is_refused(node):
    create(node)
    node.run("dd if=/dev/vda of=/dev/vdd bs=1M count=96 oflag=direct 2>/dev/null")
    refused(node, "ddraid table t", ["same member", "copy"])


def test_too_few_members(node):
    create(node)
    node.disks[0].wipe()
    node.run("blockdev --flushbufs /dev/vda")
    assert " 3 - " in node.run("ddraid table t").out
    node.disks[1].wipe()
    node.run("blockdev --flushbufs /dev/vdb")
    refused(node, "ddraid table t", ["cannot start", "needs 2 members"])


def age(node, number):
    """Makes all other members of array t a generation newer, as after the loss of member @number."""
    for i in range(3):
        if i == number:
            continue
        disk = node.disks[i]
        block = bytearray(disk.read(4096, 4096))
        generation = int.from_bytes(block[152:160], "little")
        identity = bytes(block[160:176])
        for offset, size, value in ((152, 8, generation + 1), (176, 16, int.from_bytes(identity, "little")),
                                    (160, 16, 4711), (1024 + 64 * number + 16, 1, 3),
                                    (1024 + 64 * number + 32, 8, generation + 1)):
            damage(disk, offset, size, value)
    node.run("for d in /dev/vd?; do blockdev --flushbufs $d; done")


def test_stale_member_stays_out(node):
    create(node)
    age(node, 1)
    result = node.run("ddraid table t")
    assert " 3 /dev/vda - /dev/vdc" in result.out, result
    assert "stale" in result.err or "out of the array" in result.err, result


def test_unlinked_histories_are_refused(node):
    """Two halves that both went on: neither can be believed."""
    create(node)
    age(node, 1)
    damage(node.disks[1], 152, 8, 2)
    damage(node.disks[1], 160, 16, 999)
    damage(node.disks[1], 176, 16, 888)
    node.run("for d in /dev/vd?; do blockdev --flushbufs $d; done")
    refused(node, "ddraid table t", ["diverged"])


# ---- tables, messages, configuration ---------------------------------------------------

# the parameters after "ddraid"; A B C: devices; the kernel's message
TABLES = [
    ("", "Not enough arguments"), ("-", "Not enough arguments"), ("- 1 1 dedicated 8192 2048", "Not enough arguments"),
    ("xyz 1 1 dedicated 8192 2048 3 A B C", "Invalid array UUID"),
    ("00000000-0000-0000-0000-000000000000 1 1 dedicated 8192 2048 3 A B C", "UUID is zero"),
    ("- 1 1 dedicated 8192 2048 3 A B C", "needs nosync"),
    ("- 4 1 dedicated 8192 2048 3 A B C 1 nosync", "Invalid order"),
    ("- -1 1 dedicated 8192 2048 3 A B C 1 nosync", "Invalid order"),
    ("- x 1 dedicated 8192 2048 3 A B C 1 nosync", "Invalid order"),
    ("- 1 3 dedicated 8192 2048 3 A B C 1 nosync", "Invalid parity"),
    ("- 1 x dedicated 8192 2048 3 A B C 1 nosync", "Invalid parity"),
    ("- 1 1 left 8192 2048 3 A B C 1 nosync", "Unknown layout"),
    ("- 1 1 dedicated 0 2048 3 A B C 1 nosync", "not a power of two"),
    ("- 1 1 dedicated 100 2048 3 A B C 1 nosync", "not a power of two"),
    ("- 1 1 dedicated 64 2048 3 A B C 1 nosync", "Region size is not between"),
    ("- 1 1 dedicated 4194304 2048 3 A B C 1 nosync", "Region size is not between"),
    ("- 1 1 dedicated x 2048 3 A B C 1 nosync", "Invalid region size"),
    ("- 1 1 dedicated 8192 0 3 A B C 1 nosync", "Data offset is zero"),
    ("- 1 1 dedicated 8192 8 3 A B C 1 nosync", "multiple of 2048"),
    ("- 1 1 dedicated 8192 x 3 A B C 1 nosync", "Invalid data offset"),
    ("- 1 1 dedicated 8192 99999999999999999999999 3 A B C 1 nosync", "Invalid data offset"),
    ("- 1 1 dedicated 8192 18446744073709551614 3 A B C 1 nosync", "ata offset"),
    ("- 1 1 dedicated 8192 4503599627370496 3 A B C 1 nosync", ""),
    ("- 1 1 dedicated 8192 2048 2 A B 1 nosync", "not 2^order + parity"),
    ("- 1 1 dedicated 8192 2048 4 A B C A 1 nosync", "not 2^order + parity"),
    ("- 1 1 dedicated 8192 2048 x A B C 1 nosync", "Invalid number of members"),
    ("- 1 1 dedicated 8192 2048 3 A B", "Fewer devices"),
    ("- 1 1 dedicated 8192 2048 3 A B A 1 nosync", "given twice"),
    ("- 1 1 dedicated 8192 2048 3 A B /dev/absent 1 nosync", "cannot be opened"),
    ("- 1 1 dedicated 8192 2048 3 A B /dev/zero 1 nosync", "cannot be opened"),
    ("- 1 1 dedicated 8192 2048 3 A - - 1 nosync", "missing (-)"),
    ("- 1 0 dedicated 8192 2048 2 A - 1 nosync", "missing (-)"),
    ("- 1 1 dedicated 8192 2048 3 A B C 1 bogus", "Unknown option"),
    ("- 1 1 dedicated 8192 2048 3 A B C 2 nosync", "number of options"),
    ("- 1 1 dedicated 8192 2048 3 A B C 1 nosync extra", "number of options"),
    ("- 1 1 dedicated 8192 2048 3 A B C 99 nosync", "number of options"),
    ("- 1 1 dedicated 8192 2048 3 A B C x nosync", "number of options"),
    ("- 1 1 dedicated 8192 2048 3 A B C 2 nosync nosync", "option is given twice"),
    ("- 1 1 dedicated 8192 2048 3 A B C 1 nocalc", "nocalc needs nosync"),
    ("- 1 1 dedicated 8192 2048 3 A B C 2 nosync fail_if_no_daemon", "exclude each other"),
    ("- 1 1 dedicated 8192 2048 3 A B C 3 nosync nocalc verify_reads", "exclude each other"),
    ("- 1 0 dedicated 8192 2048 2 A B 2 nosync verify_reads", "needs parity"),
]
LENGTHS = [(8, "Length is not a multiple"), (65544, "Length is not a multiple"), (1 << 40, ""), (100000000, "too small")]


def said_about(node, length, parameters):
    """What the kernel reports about a table that it refuses; None if it accepted it."""
    line = " ".join({"A": "/dev/vda", "B": "/dev/vdb", "C": "/dev/vdc"}.get(w, w) for w in parameters.split())
    result = node.run(f"dmesg -C; echo '0 {length} ddraid {line}' | dmsetup create bad 2>/dev/null; echo $?; "
                      "dmsetup info bad >/dev/null 2>&1 && { dmsetup remove bad; echo left; }; dmesg", timeout=60).out
    code, _, rest = result.partition("\n")
    return None if code == "0" or rest.startswith("left") else rest


def test_wrong_tables(node):
    """Every kind of wrong line, with the kernel's reason; no device is left, nothing is written."""
    node.run("modprobe dm_ddraid")
    wrong = []
    kinds = [(65536, *t) for t in TABLES] + [(length, "- 1 1 dedicated 8192 2048 3 A B C 1 nosync", word) for length, word in LENGTHS]
    assert len(kinds) >= 25
    with nothing_changes(node):
        for length, parameters, word in kinds:
            said = said_about(node, length, parameters)
            if said is None or not any("ddraid" in l and word in l for l in said.splitlines()):
                wrong.append(f"{length} {parameters!r}: wanted {word!r}, got {said!r}")
    assert not wrong, "\n".join(wrong)


def test_member_with_sectors_larger_than_the_chunk_is_refused(node):
    node.run("modprobe dm_ddraid; modprobe loop; losetup -b 4096 /dev/loop0 /dev/vdc")
    try:
        assert node.run("blockdev --getss /dev/loop0").out.strip() == "4096"
        said = said_about(node, 65536, "- 1 1 dedicated 8192 2048 3 A B /dev/loop0 1 nosync")
        assert said and "logical sectors are larger" in said, said
    finally:
        node.run("losetup -d /dev/loop0")


def test_unknown_messages(node):
    node.run("modprobe dm_ddraid")
    node.run(["dmsetup", "create", "bad"], stdin="0 65536 ddraid - 1 1 dedicated 8192 2048 3 /dev/vda /dev/vdb /dev/vdc 1 nosync\n")
    status = node.run("dmsetup status bad; dmsetup table bad").out
    with nothing_changes(node):
        for message in ("bogus", "resync", "nosync", "'bogus 1 2 3'", "''", "'" + "x" * 2000 + "'", "fail_member", "'fail_member 99'",
                        "'fail_member x'", "'fail_member -1'"):
            result = node.run(f"dmsetup message bad 0 {message}", check=False)
            assert result.code != 0 and result.err, f"{message[:40]}: {result}"
    assert node.run("dmsetup status bad; dmsetup table bad").out == status
    node.run("dmsetup remove bad")


CONFIGS = [
    ("bogus = 1\n", ":1:", "bogus"), ("# fine\n\nidle_time = soon\n", ":3:", "idle_time"), ("idle_time = 1ms\n", ":1:", "100ms"),
    ("no equals sign\n", ":1:", "key = value"), ("= 5\n", ":1:", "no key"), ("node_id = 0\n", ":1:", "node_id"),
    ("node_id = 99999999999\n", ":1:", "node_id"), ("transport = pigeon\n", ":1:", "transport"),
    ("state_dir = relative\n", ":1:", "absolute"), ("idle_time = 5s\nidle_time = 6s\n", ":2:", "line 1"),
    ("log_syslog = maybe\n", ":1:", "yes or no"), ("resync_max_rate = 10X\n", ":1:", "resync_max_rate"),
    ("log_level = " + "x" * 3000 + "\n", ":1:", "longer"), ("node_id = 1\0\n", ":1:", "zero byte"),
]


def test_configuration_errors_have_file_and_line(node):
    node.run("modprobe dm_ddraid; mkdir -p /etc/ddraid")
    wrong = []
    with nothing_changes(node):
        for text, place, word in CONFIGS:
            node.put(CONFIG, text)
            result = node.run("timeout 20 ddraidd --foreground", check=False, timeout=40)
            lines = result.err.strip().splitlines()
            if result.code in (0, 124) or len(lines) != 1 or CONFIG + place not in lines[0] or word not in lines[0]:
                wrong.append(f"{text[:60]!r}: {result}")
    node.run(f"rm {CONFIG}")
    assert not wrong, "\n".join(wrong)


# ---- with a daemon ---------------------------------------------------------------------

@pytest.fixture
def guest(node):
    """A running daemon; stopped afterwards."""
    made = Guest(node)
    made.start_daemon()
    yield made
    made.daemon.kill(15)
    made.daemon.wait(30)


@pytest.mark.parametrize("command,words", [
    ("start nothing", ["nothing"]), ("stop nothing", ["nothing"]), ("status nothing", ["nothing"]),
    ("set nothing idle_time=1s", ["nothing"]),
])
def test_command_on_an_unknown_array(node, guest, command, words):
    del guest
    refused(node, f"ddraid {command}", words)


def test_commands_without_a_daemon(node):
    create(node)
    for command in ("start t", "stop t", "status t", "set t idle_time=1s"):
        refused(node, f"ddraid {command}", ["ddraidd"])
    assert node.run("dmsetup info t", check=False).code != 0, "a device without a daemon was left"


def test_bad_settings(node, guest):
    create(node)
    guest.start("t")
    for setting, word in (("bogus=1", "bogus"), ("idle_time=never", "idle_time"), ("idle_time", "="), ("node_id=2", "node_id")):
        result = node.run(f"ddraid set t {setting}", check=False)
        assert result.code in (1, 2) and word in result.err.splitlines()[0], result
    guest.stop("t")


def give_up_waiting_io(node, job):
    """Removes a device with parked I/O: a flushing suspend would wait for a daemon that serves it."""
    node.run("dmsetup suspend --noflush --nolockfs t && dmsetup wipe_table t")
    assert job.wait(timeout=20).code != 0
    node.run("dmsetup remove t")


def test_stale_member_in_a_table_by_hand_is_not_read(node, guest):
    """dmsetup create with a disk that the newest superblocks call faulty: it is left out, and its old data with it."""
    del guest
    create(node)
    line = node.run("ddraid table t").out
    fill = "dd of=/dev/mapper/t bs=1M oflag=direct conv=nocreat,fsync"
    node.run("for f in old new; do dd if=/dev/urandom of=/tmp/$f bs=1M count=4; done")
    node.run(f"ddraid start t && {fill} if=/tmp/old && ddraid fail t /dev/vdb && {fill} if=/tmp/new && ddraid stop t")
    node.run(["dmsetup", "create", "t"], stdin=line)
    node.wait_until("ddraid status --json | grep -q '\"attached\": true'", timeout=20)
    node.run("ddraid status --json | grep -q '\"state\": \"faulty\"'")
    node.run("cmp -n 4194304 /tmp/new /dev/mapper/t")
    node.run("dmsetup remove t")


def test_wrong_order_of_members_in_a_table_by_hand_is_refused(node, guest):
    create(node)
    words = node.run("ddraid table t").out.split()
    at = words.index("/dev/vda")
    words[at], words[at + 1] = words[at + 1], words[at]
    before = fingerprint(node.disks)
    node.run(["dmsetup", "create", "t"], stdin=" ".join(words) + "\n")
    writer = node.spawn("exec dd if=/dev/zero of=/dev/mapper/t bs=4096 count=1 oflag=direct conv=nocreat")
    node.wait_until("ddraid status --json | grep -q member", timeout=20)
    assert writer.poll() is None, "a write went to an array whose members are in the wrong order"
    assert fingerprint(node.disks) == before
    give_up_waiting_io(node, writer)
    del guest
