#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Makes members with one defect each, for the tests of `ddraid examine` and of assembly.

    badmeta.py list
    badmeta.py make DEFECT SOURCE TARGET    SOURCE: the image of a good member

A defect is named KIND:BLOCK:FIELD. KIND is `flip` (bytes changed as a disk would: the
checksum is wrong) or `lie` (a value that cannot be, under a right checksum, as a broken program
would write it). BLOCK is `super0`, `super1`, `super` (both copies), `log` (slot 0, block 0,
both places), `log-new` (its newer place), `map`, `map-new` likewise. The blocks of format 2 are `page0`,
`page1`, `page` (page 0 of the owner pages of that copy of the superblock, or of both), `disks`,
`debtors` (the pages of these, of both copies) and `stamp` (both places of slot 0). The member gets format 2 here too.

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
PAGE = {
    "magic": (0, 4), "version": (4, 2), "index": (6, 2), "length": (8, 4), "crc32c": (12, 4), "seq": (16, 8),
    "array_uuid": (24, 16), "cluster": (40, 16), "kind": (56, 2), "pages": (58, 2), "reserved": (60, 196),
}
OWNER = {
    "node": (0, 4), "state": (4, 1), "renewed": (5, 1), "reserved0": (6, 2), "machine": (8, 16), "boot_id": (24, 16), "cookie": (40, 8),
    "since": (48, 8), "name": (56, 64), "fenced_boot_id": (120, 16), "fenced_cookie": (136, 8), "fenced_time": (144, 8), "log_seq": (152, 8),
    "reserved1": (160, 96),
}
DISK = {
    "kind": (0, 1), "flags": (1, 1), "reserved0": (2, 2), "settle": (4, 4), "since": (8, 8), "unanswered": (16, 8), "member": (24, 16),
    "id": (40, 128), "owes": (168, 16), "reserved1": (184, 72),
}
DEBTOR = {"node": (0, 4), "flags": (4, 4), "machine": (8, 16), "boot_id": (24, 16), "name": (40, 64), "reserved": (104, 24)}
STAMP = {
    "magic": (0, 4), "version": (4, 2), "slot": (6, 2), "length": (8, 4), "crc32c": (12, 4), "seq": (16, 8), "array_uuid": (24, 16),
    "generation": (40, 8), "node": (48, 4), "kind": (52, 2), "reserved0": (54, 2), "machine": (56, 16), "boot_id": (72, 16),
    "cookie": (88, 8), "claim": (96, 16), "time": (112, 8), "stop_ms": (120, 4), "name": (124, 64), "reserved": (188, 3908),
}
for _i in (0, 15):
    SUPER.update({f"member[{_i}].{k}": (1024 + 64 * _i + at, n) for k, (at, n) in MEMBER.items()})
for _i in (0, 63):
    SUPER.update({f"slot[{_i}].{k}": (2048 + 32 * _i + at, n) for k, (at, n) in SLOT.items()})

TABLES = {"page": dict(PAGE), "disks": dict(PAGE), "debtors": dict(PAGE), "stamp": STAMP}
for _i in (0, 14):
    TABLES["page"].update({f"slot[{_i}].{k}": (256 + 256 * _i + at, n) for k, (at, n) in OWNER.items()})
    TABLES["disks"].update({f"disk[{_i}].{k}": (256 + 256 * _i + at, n) for k, (at, n) in DISK.items()})
for _i in (0, 29):
    TABLES["debtors"].update({f"debtor[{_i}].{k}": (256 + 128 * _i + at, n) for k, (at, n) in DEBTOR.items()})

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
        "reserved4": (1, "reserved"), "owner_offset": (4096, "owner_offset"), "owner_pages": (4, "owner_offset"),
        "owner_crc": (1, "owner_offset"), "reserved6": (1, "reserved"), "member[0].uuid": (0, "uuid"), "member[0].state": (9, "state"),
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
PAGE_LIES = {
    "magic": (0x73724444, "owner pages"), "version": (2, "owner pages"), "index": (1, "index"), "length": (512, "owner pages"),
    "seq": (7, "seq"), "array_uuid": (1, "another array"), "cluster": (1, "different clusters"), "kind": (3, "kind"), "pages": (3, "kind"),
    "reserved": (1, "reserved"),
}
LIES["page"] = dict(PAGE_LIES, kind=(2, "kind"), **{
    "slot[0].node": (3, "node"), "slot[0].state": (9, "state"), "slot[14].state": (1, "state"), "slot[0].reserved0": (1, "reserved"),
    "slot[0].cookie": (1, "instance"), "slot[0].name": (ALL_ONES, "node name"), "slot[0].fenced_boot_id": (1, "fenced"),
    "slot[0].fenced_cookie": (1, "instance"), "slot[14].fenced_time": (1, "fenced"), "slot[0].reserved1": (1, "reserved"),
    "slot[0].renewed": (1, "log_seq"), "slot[14].log_seq": (ALL_ONES, "log_seq"),
})
LIES["disks"] = dict(PAGE_LIES, **{
    "disk[0].kind": (1, "id"), "disk[0].flags": (1, "not used"), "disk[0].reserved0": (1, "reserved"), "disk[0].settle": (1, "not used"),
    "disk[0].since": (1, "not used"), "disk[0].unanswered": (1, "not used"), "disk[0].member": (1, "not used"),
    "disk[14].id": (1, "not used"), "disk[0].owes": (1, "not used"), "disk[14].reserved1": (1, "reserved"),
})
LIES["debtors"] = dict(PAGE_LIES, kind=(2, "kind"), **{
    "debtor[0].flags": (1, "reserved"), "debtor[0].machine": (1, "not used"), "debtor[29].boot_id": (1, "not used"),
    "debtor[29].name": (1, "not used"), "debtor[0].reserved": (1, "reserved"),
})
LIES["stamp"] = {
    "magic": (0x6f724444, "magic"), "version": (2, "version"), "slot": (1, "slot"), "length": (512, "length"), "seq": (0, "seq"),
    "array_uuid": (1, "another array"), "generation": (0, "generation"), "node": (0, "instance"), "kind": (3, "kind"),
    "reserved0": (1, "reserved"), "machine": (0, "instance"), "boot_id": (0, "instance"), "claim": (1, "instance"),
    "name": (ALL_ONES, "node name"), "reserved": (1, "reserved"),
}
LIES["map"] = dict(LIES["log"], slot=(0, "slot"), magic=(0x6c724444, "magic"), payload=(ALL_ONES, "valid state"))


def _crc_of_byte(crc):
    for _ in range(8):
        crc = crc >> 1 ^ 0x82f63b78 * (crc & 1)
    return crc


CRC_OF_BYTE = [_crc_of_byte(byte) for byte in range(256)]


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc = crc >> 8 ^ CRC_OF_BYTE[(crc ^ byte) & 0xff]
    return crc ^ 0xffffffff


def seal(block):
    block[12:16] = bytes(4)
    block[12:16] = crc32c(block).to_bytes(4, "little")


def table_of(block):
    return SUPER if block.startswith("super") else TABLES.get(block.rstrip("01"), LOG)


def of_format_2(block):
    return block.rstrip("01") in TABLES


def defects():
    """All of them: KIND:BLOCK:FIELD."""
    names = []
    for block in ("super0", "super1", "super", "log", "log-new", "map", "map-new", "page0", "page1", "page", "disks", "debtors", "stamp"):
        names += [f"flip:{block}:{field}" for field in table_of(block)]
    for block in ("super", "log", "map", "page", "disks", "debtors", "stamp"):
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
        self.log_offset, log_blocks, self.slots = struct.unpack_from("<QII", sb, 200)
        self.map_offset, map_blocks = struct.unpack_from("<QI", sb, 216)
        self.supers = [SUPER0, self.data_offset - BLOCK]
        self.slot_pages = -(-self.slots // 15)
        self.pages = self.slot_pages + 1 + -(-self.slots // 30)
        self.owner_offset = self.data_offset - BLOCK - 2 * (self.pages + self.slots) * BLOCK

    def read(self, at):
        self.file.seek(at)
        return bytearray(self.file.read(BLOCK))

    def write(self, at, block):
        self.file.seek(at)
        self.file.write(block)

    def newer(self, base):
        """Of the two places of a block: the one with the higher sequence number."""
        return max((base, base + BLOCK), key=lambda at: struct.unpack_from("<Q", self.read(at), 16))

    def page(self, copy, index):
        return self.owner_offset + (index + copy * (self.pages + 2 * self.slots)) * BLOCK

    def stamp(self, place):
        return self.owner_offset + (self.pages + place) * BLOCK

    def places(self, block):
        """Where the block is that a defect damages."""
        index = {"page": 0, "disks": self.slot_pages, "debtors": self.slot_pages + 1}
        copies = {"0": [0], "1": [1]}.get(block[-1], [0, 1])
        if block.startswith("super"):
            return [self.supers[copy] for copy in copies]
        if block == "stamp":
            return [self.stamp(place) for place in copies]
        if of_format_2(block):
            return [self.page(copy, index[block.rstrip("01")]) for copy in copies]
        base = self.log_offset if block.startswith("log") else self.map_offset
        return [self.newer(base)] if block.endswith("-new") else [base, base + BLOCK]

    def name_pages(self, copy):
        """The checksum of its pages into a copy of the superblock."""
        sb = self.read(self.supers[copy])
        pages = b"".join(self.read(self.page(copy, i)) for i in range(self.pages))
        struct.pack_into("<QHHI", sb, 304, self.owner_offset, self.pages, 0, crc32c(pages))
        seal(sb)
        self.write(self.supers[copy], sb)

    def raise_format(self):
        """Makes it a member of format 2: pages of which nothing is known, and two stamps of a node in slot 0."""
        for copy in (0, 1):
            sb = self.read(self.supers[copy])
            sb[32] |= 1
            self.write(self.supers[copy], sb)
            for index in range(self.pages):
                page = bytearray(BLOCK)
                kind = 1 if index < self.slot_pages else 2 if index == self.slot_pages else 3
                struct.pack_into("<IHHIIQ16s16sHH", page, 0, 0x6f724444, 1, index, BLOCK, 0, struct.unpack_from("<Q", sb, 16)[0],
                                 bytes(sb[40:56]), bytes(16), kind, self.pages)
                seal(page)
                self.write(self.page(copy, index), page)
            stamp = bytearray(BLOCK)
            struct.pack_into("<IHHIIQ16sQIHH16s16s", stamp, 0, 0x73724444, 1, 0, BLOCK, 0, 2 + copy, bytes(sb[40:56]), 1, 1, 1, 0,
                             b"machine of node 1"[:16], b"boot id of node 1"[:16])
            seal(stamp)
            self.write(self.stamp(copy), stamp)
            self.name_pages(copy)


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
        if of_format_2(block_name):
            member.raise_format()
        for copy, place in enumerate(member.places(block_name)):
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
            if kind == "lie" and of_format_2(block_name) and block_name != "stamp":
                member.name_pages(copy)   # or its superblock would not be believed, and the lie not be read


if __name__ == "__main__":
    if sys.argv[1:] == ["list"]:
        print("\n".join(defects()))
    elif len(sys.argv) == 5 and sys.argv[1] == "make" and sys.argv[2] in defects():
        make(*sys.argv[2:])
    else:
        raise SystemExit(__doc__)
