#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes members with one defect each, for the tests of `ddraid examine` and of assembly.

    badmeta.py list
    badmeta.py make DEFECT SOURCE TARGET    SOURCE: the image of a good member

A defect is named KIND:BLOCK:FIELD. KIND is `flip` (bytes changed as a disk would: the
checksum is wrong) or `lie` (a value that cannot be, under a right checksum, as a broken program
would write it). BLOCK is `super0`, `super1`, `super` (both copies), `log` (slot 0, block 0,
both places), `log-new` (its newer place), `map`, `map-new` likewise.

The offsets are written down here again, from doc/on-disk-format.md, and the checksum is computed
here: nothing of the code under test takes part. make() verifies that exactly the field (and the
checksum, for a lie) changed.
"""
import shutil
import struct
import sys

BLOCK = 4096
SUPER0 = 4096

# name: (offset, bytes); entries of tables by the entry that is damaged
SUPER = {
    "magic": (0, 4), "version": (4, 2), "reserved0": (6, 2), "length": (8, 4), "crc32c": (12, 4), "seq": (16, 8),
    "compat": (24, 4), "ro_compat": (28, 4), "incompat": (32, 4), "policy": (36, 4), "array_uuid": (40, 16),
    "name": (56, 64), "order": (120, 1), "parity": (121, 1), "layout": (122, 1), "reserved1": (123, 1),
    "chunk": (124, 4), "block_size": (128, 4), "region_size": (132, 4), "array_blocks": (136, 8),
    "data_offset": (144, 8), "generation": (152, 8), "gen_id": (160, 16), "gen_prev": (176, 16),
    "log_base": (192, 8), "log_offset": (200, 8), "log_blocks": (208, 4), "slots": (212, 4),
    "map_offset": (216, 8), "map_blocks": (224, 4), "roles": (228, 2), "members": (230, 2),
    "this_member": (232, 2), "reserved2": (234, 2), "reserved3": (236, 4), "created": (240, 8),
    "updated": (248, 8), "verify_serial": (256, 4), "verify_state": (260, 1), "verify_priority": (261, 1),
    "verify_flags": (262, 1), "reserved5": (263, 1), "verify_begun": (264, 8), "verify_ended": (272, 8), "verify_cursor": (280, 8),
    "verify_found": (288, 8), "verify_repaired": (296, 8), "owner_offset": (304, 8), "owner_pages": (312, 2), "reserved6": (314, 2),
    "owner_crc": (316, 4), "reserved4": (320, 704),
}
MEMBER = {
    "uuid": (0, 16), "state": (16, 1), "flags": (17, 1), "role": (18, 2), "export_node": (20, 4), "cursor": (24, 8),
    "since": (32, 8), "err_read": (40, 4), "err_write": (44, 4), "err_corrected": (48, 4), "last_gen": (52, 8), "reserved": (60, 4),
}
SLOT = {"node": (0, 4), "flags": (4, 4), "reserved": (8, 24)}
LOG = {
    "magic": (0, 4), "version": (4, 2), "slot": (6, 2), "index": (8, 4), "crc32c": (12, 4), "seq": (16, 8),
    "generation": (24, 8), "array_uuid": (32, 16), "boot_id": (48, 16), "cookie": (64, 8), "node": (72, 4),
    "length": (76, 4), "repair": (80, 48), "payload": (128, 3968),
}
for _i in (0, 15):
    SUPER.update({f"member[{_i}].{k}": (1024 + 64 * _i + at, n) for k, (at, n) in MEMBER.items()})
for _i in (0, 63):
    SUPER.update({f"slot[{_i}].{k}": (2048 + 32 * _i + at, n) for k, (at, n) in SLOT.items()})

# Values that no program may write into a member of an order-2 array of five with 16 slots, and a word of what
# examine says about it. Fields in which any value is possible (counters, times) have no lie.
ALL_ONES = -1
LIES = {
    "super": {
        "magic": (0x6c724444, "magic"), "version": (2, "version"), "reserved0": (1, "reserved"), "length": (512, "length"),
        "seq": (0, "seq"), "incompat": (2, "incompat"), "policy": (0x80, "policy"), "array_uuid": (0, "array_uuid"),
        "name": (ALL_ONES, "name"), "order": (4, "order"), "parity": (3, "parity"), "layout": (2, "layout"),
        "reserved1": (1, "reserved"), "chunk": (2048, "chunk"), "block_size": (512, "block_size"),
        "region_size": (5 << 20, "region_size"), "array_blocks": (3, "array_blocks"),
        "data_offset": (4097, "data_offset"), "generation": (0, "generation"), "gen_id": (0, "gen_id"),
        "gen_prev": (1, "gen_prev"), "log_base": (9, "log_base"), "log_offset": (ALL_ONES, "log_offset"),
        "log_blocks": (ALL_ONES, "log_blocks"), "slots": (65, "slots"), "map_offset": (0, "map_offset"),
        "map_blocks": (0, "map_blocks"), "roles": (9, "roles"), "members": (17, "members"),
        "this_member": (16, "this_member"), "reserved2": (1, "reserved"), "reserved3": (1, "reserved"),
        "reserved4": (1, "reserved"), "member[0].uuid": (0, "uuid"), "member[0].state": (9, "state"),
        "member[0].flags": (1, "flags"), "member[0].role": (7, "role"), "member[0].cursor": (1, "cursor"),
        "member[0].since": (99, "generation that never existed"), "member[0].reserved": (1, "reserved"),
        "member[15].state": (1, "entry 15"), "slot[0].flags": (1, "slot table"), "slot[63].node": (3, "entry 63"),
        "slot[63].reserved": (1, "reserved"),
    },
    "log": {
        "magic": (0x6d724444, "magic"), "version": (2, "version"), "slot": (5, "slot"), "index": (1, "index"),
        "seq": (0, "seq"), "generation": (0, "generation"), "array_uuid": (1, "another array"),
        "boot_id": (1, "node is zero"), "cookie": (1, "node is zero"), "length": (0, "length"),
        "repair": (1, "repair"), "payload": (ALL_ONES, "beyond the end"),
    },
}
LIES["map"] = dict(LIES["log"], slot=(0, "slot"), magic=(0x6c724444, "magic"), payload=(ALL_ONES, "valid state"))


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82f63b78 * (crc & 1)
    return crc ^ 0xffffffff


def seal(block):
    block[12:16] = bytes(4)
    block[12:16] = crc32c(block).to_bytes(4, "little")


def table_of(block):
    return SUPER if block.startswith("super") else LOG


def defects():
    """All of them: KIND:BLOCK:FIELD."""
    names = []
    for block in ("super0", "super1", "super", "log", "log-new", "map", "map-new"):
        names += [f"flip:{block}:{field}" for field in table_of(block)]
    for block in ("super", "log", "map"):
        names += [f"lie:{block}:{field}" for field in LIES[block]]
    return names


def word(defect):
    """What examine's sentence holds for it, at least."""
    kind, block, field = defect.split(":")
    return LIES[block][field][1] if kind == "lie" else None


class Member:
    """Where the metadata of a good member lies."""

    def __init__(self, image):
        self.file = image
        sb = self.read(SUPER0)
        if sb[:4] != b"DDrd":
            raise SystemExit("the source is no member: no superblock at byte 4096")
        self.data_offset, = struct.unpack_from("<Q", sb, 144)
        self.log_offset, log_blocks, slots = struct.unpack_from("<QII", sb, 200)
        self.map_offset, map_blocks = struct.unpack_from("<QI", sb, 216)

    def read(self, at):
        self.file.seek(at)
        return bytearray(self.file.read(BLOCK))

    def write(self, at, block):
        self.file.seek(at)
        self.file.write(block)

    def newer(self, base):
        """Of the two places of a block: the one with the higher sequence number."""
        return max((base, base + BLOCK), key=lambda at: struct.unpack_from("<Q", self.read(at), 16))

    def places(self, block):
        supers = {"super0": [SUPER0], "super1": [self.data_offset - BLOCK],
                  "super": [SUPER0, self.data_offset - BLOCK]}
        if block in supers:
            return supers[block]
        base = self.log_offset if block.startswith("log") else self.map_offset
        return [self.newer(base)] if block.endswith("-new") else [base, base + BLOCK]


def damage(kind, block_name, field, block):
    at, size = table_of(block_name)[field]
    if kind == "flip":
        block[at + size // 2] ^= 0x5a
        return
    value = LIES[block_name][field][0]
    block[at:at + size] = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    seal(block)


def make(defect, source, target):
    """Copies the good member @source to @target and puts the defect in; proves that it is there."""
    kind, block_name, field = defect.split(":")
    at, size = table_of(block_name)[field]
    shutil.copyfile(source, target)
    with open(target, "r+b") as image:
        member = Member(image)
        for place in member.places(block_name):
            before = member.read(place)
            block = bytearray(before)
            damage(kind, block_name, field, block)
            member.write(place, block)
            image.flush()
            after = member.read(place)
            changed = {i for i in range(BLOCK) if before[i] != after[i]}
            allowed = set(range(at, at + size)) | (set(range(12, 16)) if kind == "lie" else set())
            if not changed & set(range(at, at + size)) or changed - allowed:
                raise SystemExit(f"{defect}: changed bytes {sorted(changed)}, not the field at {at}")


if __name__ == "__main__":
    if sys.argv[1:] == ["list"]:
        print("\n".join(defects()))
    elif len(sys.argv) == 5 and sys.argv[1] == "make" and sys.argv[2] in defects():
        make(*sys.argv[2:])
    else:
        raise SystemExit(__doc__)
