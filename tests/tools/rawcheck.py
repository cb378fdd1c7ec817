#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""An independent reader of raw ddraid members: is P, is Q right, and what do log and map say?

Written from the description of the format alone (doc/on-disk-format.md, sections
superblock, dirty log, region map, geometry and owner pages): it shares no line with the rest of
the project, so that one misunderstanding cannot hide in both. It opens members
read-only and must never write to one. Python's standard library only, so that it
runs on the host as well as inside a minimal guest.

Speed comes from working on runs of up to 256 blocks (one rotation unit): XOR of
whole runs as big integers, multiplication in GF(2^8) by bytes.translate().
"""
import argparse
import hashlib
import json
import os
import re
import stat
import struct
import sys

BLOCK = 4096
META = 4096
UNIT = 256                      # blocks for which the roles stay where they are
LOG_REGIONS = (META - 128) * 8
MAP_REGIONS = (META - 128) * 2
MAP_SLOT = 0xffff
SB_MAGIC, LOG_MAGIC, MAP_MAGIC, PAGE_MAGIC = b"DDrd", b"DDrl", b"DDrm", b"DDro"
MEMBER_STATES = {1: "in-sync", 2: "rebuilding", 3: "faulty", 4: "missing", 5: "spare"}
UNWRITTEN, NEEDS_SYNC, CLEAN = 0, 1, 2
PROBE_LIMIT = 256 << 20         # how far to look for copy 1 of a superblock whose copy 0 is damaged


class RawError(Exception):
    """What was found cannot be an array; the text gives the reason."""


# ---- arithmetic -----------------------------------------------------------------------

def _crc_table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = n >> 1 ^ (0x82f63b78 if n & 1 else 0)
        table.append(n)
    return table


_CRC = _crc_table()


def crc32c(data):
    """CRC-32C (Castagnoli, reflected, as in iSCSI) of a bytes object."""
    crc = 0xffffffff
    table = _CRC
    for byte in data:
        crc = table[(crc ^ byte) & 0xff] ^ crc >> 8
    return crc ^ 0xffffffff


def gf_mul(a, b):
    """Product in GF(2^8) modulo x^8 + x^4 + x^3 + x^2 + 1 (0x11d)."""
    out = 0
    while b:
        if b & 1:
            out ^= a
        a <<= 1
        if a & 0x100:
            a ^= 0x11d
        b >>= 1
    return out


def gf_inv(a):
    """Inverse of a nonzero element: a^254."""
    out = 1
    for _ in range(254):
        out = gf_mul(out, a)
    return out


_TABLES = {}


def times(c, data):
    """Every byte of @data multiplied by the constant @c."""
    if c == 1:
        return data
    if c not in _TABLES:
        _TABLES[c] = bytes(gf_mul(c, x) for x in range(256))
    return data.translate(_TABLES[c])


def xor(parts, length):
    """XOR of byte strings of one length."""
    total = 0
    for part in parts:
        total ^= int.from_bytes(part, "little")
    return total.to_bytes(length, "little")


def combine(terms, length):
    """Sum of c * data over pairs (c, data) in GF(2^8)."""
    return xor([times(c, data) for c, data in terms if c], length)


def solve(order, have):
    """How to get all data chunks from the roles in @have.

    Returns a list of one dictionary {role: factor} for each data role, or None when @have
    does not suffice. Plain Gauss elimination over the rows of the code's generator matrix.
    """
    k = 1 << order
    rows = []
    for role in sorted(have):
        if role < k:
            row = [int(i == role) for i in range(k)]
        elif role == k:
            row = [1] * k
        else:
            row, power = [], 1
            for _ in range(k):
                row.append(power)
                power = gf_mul(power, 2)
        rows.append((row, {role: 1}))
    done = []
    for column in range(k):
        pivot = next((r for r in rows if r[0][column]), None)
        if pivot is None:
            return None
        rows.remove(pivot)
        scale = gf_inv(pivot[0][column])
        pivot = ([gf_mul(scale, v) for v in pivot[0]], {r: gf_mul(scale, c) for r, c in pivot[1].items()})

        def clear(row, pivot=pivot, column=column):
            factor = row[0][column]
            vector = [v ^ gf_mul(factor, p) for v, p in zip(row[0], pivot[0])]
            source = dict(row[1])
            for r, c in pivot[1].items():
                source[r] = source.get(r, 0) ^ gf_mul(factor, c)
            return vector, source
        rows = [clear(r) for r in rows]
        done = [clear(r) for r in done] + [pivot]
    return [{r: c for r, c in source.items() if c} for _, source in done]


# ---- what lies on a member ------------------------------------------------------------

SB_HEAD = struct.Struct("<4sHHII Q IIII 16s 64s BBBB IIIQQQ 16s16s QQIIQI HHHHI QQ")
SB_MEMBER = struct.Struct("<16sBBHI QQ III 12s")
SB_SLOT = struct.Struct("<II24s")
SB_OWNERS = struct.Struct("<QH2sI")           # of format 2, at byte 304
PAGE_HEAD = struct.Struct("<4sHHII Q 16s16s HH")
LOG_HEAD = struct.Struct("<4sHHII QQ 16s16s QII 48s")


def crc_ok(block, at):
    stored = int.from_bytes(block[at:at + 4], "little")
    return crc32c(block[:at] + b"\0\0\0\0" + block[at + 4:]) == stored


def parse_superblock(block):
    """A dictionary of the fields, or RawError with all that is wrong."""
    head = SB_HEAD.unpack_from(block)
    owner_offset, owner_pages, _, owner_crc = SB_OWNERS.unpack_from(block, 304)
    (magic, version, _, length, _, seq, compat, ro_compat, incompat, policy, uuid, name, order, parity, layout, _,
     chunk, block_size, region_size, blocks, data_offset, generation, gen_id, gen_prev, log_base, log_offset,
     log_blocks, slots, map_offset, map_blocks, roles, members, this_member, _, _, _, _) = head
    if magic != SB_MAGIC:
        raise RawError("no superblock")
    wrong = []
    if not crc_ok(block, 12):
        raise RawError("superblock crc32c is wrong")
    owner_bytes = 2 * (owner_pages + slots) * META if incompat else 0
    regions = (blocks * BLOCK + region_size - 1) // region_size if region_size else 0
    for good, text in (
            (version == 1, "version"), (length == META, "length"), (order <= 3, "order"), (parity <= 2, "parity"),
            (layout <= 1, "layout"), (chunk == BLOCK >> min(order, 12), "chunk"), (block_size == BLOCK, "block size"),
            (region_size >= 65536 and not region_size & region_size - 1, "region size"),
            (blocks > 0 and not blocks % (1 << min(order, 3)), "array blocks"),
            (data_offset and not data_offset % (1 << 20), "data offset"), (incompat in (0, 1), "incompat"),
            (owner_pages == (-(-slots // 15) + 1 + -(-slots // 30) if incompat else 0), "owner pages"),
            (owner_offset == (data_offset - META - owner_bytes if incompat else 0), "owner offset"),
            (not incompat or owner_offset >= map_offset + 2 * map_blocks * META, "owner area"),
            (roles == (1 << min(order, 12)) + parity, "roles"), (roles <= members <= 16, "members"),
            (this_member < members, "this member"), (1 <= slots <= 64, "slots"),
            (log_blocks * LOG_REGIONS >= regions, "log blocks"), (map_blocks * MAP_REGIONS >= regions, "map blocks")):
        if not good:
            wrong.append(text)
    if wrong:
        raise RawError("superblock fields are wrong: " + ", ".join(wrong))
    table = []
    for i in range(members):
        m_uuid, state, _, role, node, cursor, since, e_read, e_write, e_corr, _ = \
            SB_MEMBER.unpack_from(block, 1024 + 64 * i)
        table.append({"uuid": m_uuid.hex(), "state": MEMBER_STATES.get(state, "none"), "role": role, "cursor": cursor,
                      "since": since, "errors": [e_read, e_write, e_corr]})
    owners = [SB_SLOT.unpack_from(block, 2048 + 32 * i)[0] for i in range(slots)]
    return {"seq": seq, "uuid": uuid.hex(), "name": name.split(b"\0")[0].decode("utf-8", "replace"), "order": order,
            "parity": parity, "layout": ("dedicated", "rotating")[layout], "chunk": chunk, "region_size": region_size,
            "blocks": blocks, "data_offset": data_offset, "generation": generation, "gen_id": gen_id.hex(),
            "gen_prev": gen_prev.hex(), "log_base": log_base, "log_offset": log_offset, "log_blocks": log_blocks,
            "slots": slots, "map_offset": map_offset, "map_blocks": map_blocks, "roles": roles, "members": table,
            "this_member": this_member, "slot_nodes": owners, "compat": compat, "ro_compat": ro_compat,
            "policy": policy, "regions": regions, "format": 1 + incompat, "owner_offset": owner_offset, "owner_pages": owner_pages,
            "owner_crc": owner_crc}


def check_page(page, index, sb):
    """RawError if this is not the page of that index that belongs to the superblock."""
    magic, version, number, length, _, seq, uuid, _, kind, pages = PAGE_HEAD.unpack_from(page)
    slot_pages = -(-sb["slots"] // 15)
    right = 1 if index < slot_pages else 2 if index == slot_pages else 3
    if (magic, version, number, length, seq, uuid.hex(), kind, pages) != \
            (PAGE_MAGIC, 1, index, META, sb["seq"], sb["uuid"], right, sb["owner_pages"]):
        raise RawError(f"owner page {index} is not the superblock's")
    if not crc_ok(page, 12):
        raise RawError(f"owner page {index}: crc32c is wrong")


class Member:
    """One raw member, a block device or an image file, opened read-only."""

    def __init__(self, path):
        self.path = path
        self.fd = os.open(path, os.O_RDONLY)
        self.size = os.lseek(self.fd, 0, os.SEEK_END)
        self.regular = stat.S_ISREG(os.fstat(self.fd).st_mode)
        self.errors = []
        self.sb = None

    def close(self):
        os.close(self.fd)

    def read(self, offset, length):
        """Exactly @length bytes; RawError where the member ends before."""
        out = os.pread(self.fd, length, offset)
        while len(out) < length:
            more = os.pread(self.fd, length - len(out), offset + len(out))
            if not more:
                raise RawError(f"{self.path}: ends at byte {offset + len(out)}, before {offset + length}")
            out += more
        return out

    def check_owners(self, copy, sb):
        """In format 2 a superblock counts only together with its owner pages; RawError if they are not there. They say where each slot's log begins."""
        sb["log_seq"] = [0] * sb["slots"]
        if sb["format"] == 1:
            return
        at = sb["owner_offset"] + copy * (sb["owner_pages"] + 2 * sb["slots"]) * META
        pages = self.read(at, sb["owner_pages"] * META)
        if crc32c(pages) != sb["owner_crc"]:
            raise RawError("its owner pages are other ones")
        for index in range(sb["owner_pages"]):
            check_page(pages[index * META:(index + 1) * META], index, sb)
        for slot in range(sb["slots"]):
            at = slot // 15 * META + 256 * (1 + slot % 15) + 152
            sb["log_seq"][slot] = int.from_bytes(pages[at:at + 8], "little")

    def load(self):
        """Reads both superblock copies; self.sb is the newer valid one, or None."""
        copies = []
        places = [META]
        for place in places:
            if place + META > self.size:
                break
            try:
                sb = parse_superblock(self.read(place, META))
                if place not in (META, sb["data_offset"] - META):
                    raise RawError("no superblock")     # a leftover of something older
                self.check_owners(int(place != META), sb)
            except RawError as error:
                self.errors.append(f"superblock at {place}: {error}")
                if place == META:
                    places += range((1 << 20) - META, min(self.size, PROBE_LIMIT), 1 << 20)
                    continue
                if "no superblock" in str(error) and len(places) > 2:
                    self.errors.pop()
                continue
            copies.append(sb)
            if place == META:
                places.append(sb["data_offset"] - META)
            else:
                break
        self.sb = max(copies, key=lambda s: s["seq"], default=None)

    def extents(self, start, end):
        """Runs (start, end) of bytes that may differ from zero; the whole for a device."""
        if not self.regular:
            return [(start, end)]
        out, at = [], start
        while at < end:
            try:
                data = os.lseek(self.fd, at, os.SEEK_DATA)
            except OSError:
                break
            if data >= end:
                break
            hole = min(os.lseek(self.fd, data, os.SEEK_HOLE), end)
            out.append((data, hole))
            at = hole
        return out


# ---- sets of numbers as runs -----------------------------------------------------------

def merge(runs):
    """Sorted, disjoint half-open runs that cover the same numbers."""
    out = []
    for start, end in sorted(r for r in runs if r[0] < r[1]):
        if out and start <= out[-1][1]:
            out[-1][1] = max(out[-1][1], end)
        else:
            out.append([start, end])
    return [tuple(r) for r in out]


def intersect(a, b):
    """What both lists of runs (merged) cover."""
    out, i, j = [], 0, 0
    while i < len(a) and j < len(b):
        start, end = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if start < end:
            out.append((start, end))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return out


def subtract(a, b):
    """What @a covers and @b does not."""
    inverse, at = [], 0
    for start, end in b:
        inverse.append((at, start))
        at = end
    inverse.append((at, 1 << 80))
    return intersect(a, merge(inverse))


def count(runs):
    return sum(end - start for start, end in runs)


def parse_ranges(text):
    """Runs from '0-255,1000,...' (both ends belong to the run), from a file's lines, or from JSON pairs [start, count]."""
    runs = []
    for word in re.split(r"[,\s]+", text.strip()):
        if not word:
            continue
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", word)
        if not match:
            raise RawError(f"{word!r} is no range; give FIRST-LAST or a number")
        first, last = int(match.group(1)), int(match.group(2) or match.group(1))
        if last < first:
            raise RawError(f"{word!r}: the last number is below the first")
        runs.append((first, last + 1))
    return merge(runs)


# ---- the array -------------------------------------------------------------------------

class Array:
    """Members by position. position[p] is the member that holds role (p - turn), or None.

    sb carries order, parity, layout, chunk, blocks, data_offset, region_size, roles; with superblocks also the rest.
    """

    def __init__(self, sb, position, stale=(), missing=()):
        self.sb = sb
        self.k = 1 << sb["order"]
        self.n = self.k + sb["parity"]
        self.position = list(position)
        self.stale = list(stale)
        for index in missing:
            if not 0 <= index < self.n:
                raise RawError(f"--missing {index}: the array has positions 0 to {self.n - 1}")
            self.position[index] = None
        self.region_blocks = sb["region_size"] // BLOCK

    def close(self):
        """Closes the members that are in use."""
        for member in filter(None, self.position):
            member.close()

    @classmethod
    def assemble(cls, paths, missing=()):
        """From superblocks: the highest generation on any member wins; older members are stale."""
        members = [Member(p) for p in paths]
        for member in members:
            member.load()
        with_sb = [m for m in members if m.sb]
        if not with_sb:
            raise RawError("no valid superblock on any of: " + " ".join(paths))
        if len({m.sb["uuid"] for m in with_sb}) != 1:
            raise RawError("the members belong to different arrays")
        best = max(with_sb, key=lambda m: (m.sb["generation"], m.sb["seq"])).sb
        position, stale = [None] * best["roles"], []
        for member in with_sb:
            entry = best["members"][member.sb["this_member"]]
            if member.sb["generation"] != best["generation"] or entry["state"] != "in-sync":
                if entry["state"] != "spare":
                    stale.append(member)
            elif entry["role"] < best["roles"]:
                if position[entry["role"]]:
                    raise RawError(f"{position[entry['role']].path} and {member.path} are the same member")
                position[entry["role"]] = member
        return cls(best, position, stale, missing)

    @classmethod
    def from_table(cls, paths, order, parity, layout, data_offset, blocks, region_size, missing=()):
        """Without superblocks (nosync): the geometry and the members in their order; '-' is a missing one."""
        sb = {"order": order, "parity": parity, "layout": layout, "chunk": BLOCK >> order, "blocks": blocks,
              "data_offset": data_offset, "region_size": region_size, "roles": (1 << order) + parity,
              "regions": -(-blocks * BLOCK // region_size)}
        if len(paths) != sb["roles"]:
            raise RawError(f"order {order} with parity {parity} has {sb['roles']} members, not {len(paths)}")
        return cls(sb, [None if p == "-" else Member(p) for p in paths], (), missing)

    # -- log and map

    def _newest(self, offset, magic, slot, index, since=0):
        """The newest valid copy of a log or map block over both places of all in-sync members; None: there is none, or one is older than @since."""
        best = None
        for member in (m for m in self.position if m):
            for place in (0, 1):
                block = member.read(offset + (index * 2 + place) * META, META)
                head = LOG_HEAD.unpack_from(block)
                if (head[0] != magic or head[1] != 1 or head[2] != slot or head[3] != index or head[11] != META
                        or head[5] & 1 != place or head[7].hex() != self.sb["uuid"] or not crc_ok(block, 12)):
                    continue
                if head[5] < since:
                    return None
                if best is None or head[5] > best[0][5]:
                    best = (head, block[128:])
        return best

    def repairs(self):
        """Regions that some slot has marked for a repair alone, read from one member and without a check of checksums: for a caller that
        waits for one.
        """
        sb, member, found = self.sb, next(m for m in self.position if m), set()
        for at in range(sb["slots"] * sb["log_blocks"]):
            head = max((member.read(sb["log_offset"] + (at * 2 + place) * META, 128) for place in (0, 1)), key=lambda h: int.from_bytes(h[16:24], "little"))
            index = int.from_bytes(head[8:12], "little")
            found.update(index * LOG_REGIONS + n - 1 for n in struct.unpack_from("<24H", head, 80) if n)
        return found

    def dirty(self):
        """(per slot {slot: runs of regions}, runs over all slots, list of unreadable (slot, block)).

        A log block without a valid copy counts as all dirty.
        """
        slots, unreadable, everything = {}, [], []
        sb = self.sb
        for slot in range(sb["slots"]):
            runs = []
            base = sb["log_offset"] + slot * sb["log_blocks"] * 2 * META
            for index in range(sb["log_blocks"]):
                first = index * LOG_REGIONS
                end = min(first + LOG_REGIONS, sb["regions"])
                if first >= end:
                    break
                found = self._newest(base, LOG_MAGIC, slot, index, sb["log_seq"][slot])
                if found is None:
                    unreadable.append((slot, index))
                    runs.append((first, end))
                    continue
                bits = int.from_bytes(found[1], "little")
                if bits >> end - first:
                    raise RawError(f"slot {slot} log block {index}: bits behind the last region are set")
                while bits:
                    low = (bits & -bits).bit_length() - 1
                    length = (~(bits >> low) & (bits >> low) + 1).bit_length() - 1
                    runs.append((first + low, first + low + length))
                    bits &= -1 << low + length
            slots[slot] = merge(runs)
            everything += runs
        return slots, merge(everything), unreadable

    def map(self):
        """(one byte a region: the map's nibble, list of unreadable map blocks). An unreadable block reads as NEEDS_SYNC."""
        out, unreadable = bytearray(), []
        for index in range(self.sb["map_blocks"]):
            found = self._newest(self.sb["map_offset"], MAP_MAGIC, MAP_SLOT, index)
            if found is None:
                unreadable.append(index)
                out += bytes([NEEDS_SYNC]) * MAP_REGIONS
                continue
            for byte in found[1]:
                out.append(byte & 15)
                out.append(byte >> 4)
        return bytes(out[:self.sb["regions"]]), unreadable

    def regions_of(self, runs):
        """Runs of blocks to the runs of regions that they touch."""
        size = self.region_blocks
        return merge([(start // size, (end - 1) // size + 1) for start, end in runs])

    def blocks_of(self, regions):
        """Runs of regions to the runs of blocks in them."""
        size = self.region_blocks
        return merge([(start * size, min(end * size, self.sb["blocks"])) for start, end in regions])

    # -- stripes

    def data_runs(self):
        """Runs of blocks in which some member holds allocated bytes; everything else reads as zero on all."""
        base, chunk = self.sb["data_offset"], self.sb["chunk"]
        runs = []
        for member in (m for m in self.position if m):
            for start, end in member.extents(base, base + self.sb["blocks"] * chunk):
                runs.append(((start - base) // chunk, -(-(end - base) // chunk)))
        return merge(runs)

    def pieces(self, runs):
        """Cuts runs of blocks at the rotation units and yields (start, count, {role: bytes})."""
        base, chunk = self.sb["data_offset"], self.sb["chunk"]
        for start, end in intersect(runs, [(0, self.sb["blocks"])]):
            while start < end:
                length = min(end, (start // UNIT + 1) * UNIT) - start
                turn = start // UNIT % self.n if self.sb["layout"] == "rotating" else 0
                roles = {}
                for position, member in enumerate(self.position):
                    if member:
                        roles[(position - turn) % self.n] = member.read(base + start * chunk, length * chunk)
                yield start, length, roles
                start += length

    def check(self, runs):
        """Stripes whose parity is wrong in @runs: (runs with P wrong, runs with Q wrong, blocks checked).

        A missing member is reconstructed from what is there; with as many missing as there is
        parity nothing can be checked, which is an error of the caller.
        """
        absent = self.position.count(None)
        if not self.sb["parity"]:
            raise RawError("an array without parity has nothing to check")
        if absent >= self.sb["parity"]:
            raise RawError(f"{absent} member(s) missing: no redundancy is left to check")
        bad, checked = {"P": [], "Q": []}, 0
        for start, length, roles in self.pieces(runs):
            checked += length
            size = length * self.sb["chunk"]
            for name, differs in self._differences(roles, size):
                if any(differs):
                    bad[name] += self._chunks(start, differs)
        return merge(bad["P"]), merge(bad["Q"]), checked

    def _differences(self, roles, size):
        """Pairs (which parity, bytes that are zero where it is right)."""
        k = self.k
        lost = [r for r in range(self.n) if r not in roles]
        if lost and lost[0] < k:        # rebuilt from P, so that only Q is left to prove it
            roles = dict(roles)
            roles[lost[0]] = xor([roles[r] for r in range(k + 1) if r in roles], size)
        elif k in roles:
            yield "P", xor([roles[r] for r in range(k + 1)], size)
        if k + 1 in roles and self.sb["parity"] == 2:
            total = roles[k - 1]        # Horner: ((D[k-1] * 2 + D[k-2]) * 2 + ...) + D[0]
            for role in range(k - 2, -1, -1):
                total = xor([times(2, total), roles[role]], size)
            yield "Q", xor([total, roles[k + 1]], size)

    def _chunks(self, start, differs):
        """Runs of the blocks whose chunk in @differs is not all zero."""
        chunk, out, at = self.sb["chunk"], [], 0
        nonzero = re.compile(rb"[^\0]")
        while match := nonzero.search(differs, at):
            index = match.start() // chunk
            out.append((start + index, start + index + 1))
            at = (index + 1) * chunk
        return out

    def data(self, runs):
        """Yields (start, bytes) of the device's content, reconstructed where members are missing."""
        have_all = None
        for start, length, roles in self.pieces(runs):
            size = length * self.sb["chunk"]
            if have_all != set(roles):
                have_all = set(roles)
                recipe = solve(self.sb["order"], have_all)
                if recipe is None:
                    raise RawError(f"members missing: roles {sorted(have_all)} do not suffice")
            columns = [combine([(c, roles[r]) for r, c in how.items()], size) for how in recipe]
            chunk = self.sb["chunk"]
            yield start, b"".join([column[at:at + chunk] for at in range(0, size, chunk) for column in columns])


# ---- the command -----------------------------------------------------------------------

def pairs(runs):
    """Runs for JSON: [first, count]."""
    return [[start, end - start] for start, end in runs]


def open_array(args):
    missing = [int(m) for m in args.missing.split(",")] if args.missing else []
    if args.order is None:
        return Array.assemble(args.device, missing)
    return Array.from_table(args.device, args.order, args.parity, args.layout, args.data_offset, args.blocks,
                            args.region_size, missing)


def wanted(args, array):
    """The runs of blocks that the caller chose."""
    runs = [(0, array.sb["blocks"])]
    if args.ranges:
        runs = intersect(runs, parse_ranges(args.ranges))
    if args.ranges_file:
        with open(args.ranges_file, encoding="ascii") as stream:
            runs = intersect(runs, parse_ranges(stream.read()))
    return runs


def describe(array):
    """Log and map as found: dirty regions by slot, states counted and listed. The report, the dirty regions, those of each state, the suspect ones."""
    slots, dirty, log_bad = array.dirty()
    states, map_bad = array.map()
    listed = {UNWRITTEN: [], NEEDS_SYNC: [], CLEAN: []}
    flags = {4: [], 8: []}
    at = 0
    while at < len(states):
        end = at + 1
        while end < len(states) and states[end] == states[at]:
            end += 1
        listed.setdefault(states[at] & 3, []).append((at, end))
        for flag in flags:
            if states[at] & flag:
                flags[flag].append((at, end))
        at = end
    report = {
        "uuid": array.sb["uuid"], "name": array.sb["name"], "order": array.sb["order"], "parity": array.sb["parity"],
        "layout": array.sb["layout"], "blocks": array.sb["blocks"], "region_blocks": array.region_blocks,
        "regions": array.sb["regions"], "generation": array.sb["generation"],
        "members": [{"state": m["state"], "role": m["role"], "cursor": m["cursor"]} for m in array.sb["members"]],
        "present": [bool(m) for m in array.position], "stale": [m.path for m in array.stale],
        "dirty": pairs(dirty), "dirty_count": count(dirty),
        "slots": {str(s): pairs(r) for s, r in slots.items() if r}, "log_unreadable": log_bad,
        "map_unreadable": map_bad, "unwritten": pairs(listed[UNWRITTEN]), "needs_sync": pairs(listed[NEEDS_SYNC]),
        "clean": pairs(listed[CLEAN]), "suspect": pairs(flags[4]), "written_while_missing": pairs(flags[8]),
        "map_invalid": pairs(listed.get(3, [])),
    }
    return report, dirty, listed, merge(flags[4])


def cmd_state(args, array):
    report, *_ = describe(array)
    report["superblock"] = array.sb
    return report, []


def cmd_check(args, array):
    """Parity of every chosen stripe, and what the log and the map promised about the wrong ones."""
    failures = []
    runs = wanted(args, array)
    if not args.holes:
        runs = intersect(runs, array.data_runs())
    bad_p, bad_q, checked = array.check(runs)
    bad = merge(bad_p + bad_q)
    report = {"checked_blocks": checked, "bad_blocks": count(bad), "bad_p": pairs(bad_p), "bad_q": pairs(bad_q),
              "bad_regions": pairs(array.regions_of(bad))}
    written = None
    if args.written:
        with open(args.written, encoding="ascii") as stream:
            written = parse_ranges(stream.read())
        report["bad_written"] = pairs(intersect(bad, written))
    if args.order is None:
        state, dirty, listed, suspect = describe(array)
        report.update(state)
        in_dirty = array.blocks_of(dirty)
        # the parity of these cannot be computed until the member whose data was missing at a crash is back
        waiting = array.blocks_of(intersect(merge(listed[NEEDS_SYNC]), suspect))
        report["bad_outside_dirty"] = pairs(subtract(subtract(bad, in_dirty), waiting))
        report["bad_clean"] = pairs(intersect(subtract(bad, in_dirty), array.blocks_of(merge(listed[CLEAN]))))
        if args.assert_dirty:
            scope = bad if written is None else intersect(bad, written)
            stray = subtract(scope, in_dirty)
            if written is None:     # never-written blocks of a region whose parity is not computed yet are no fault
                stray = subtract(stray, array.blocks_of(merge(listed[NEEDS_SYNC])))
            if stray:
                failures.append(f"{count(stray)} inconsistent stripes outside the dirty regions, first {stray[0][0]}")
            if report["bad_clean"]:
                failures.append(f"inconsistent stripes in clean regions: {report['bad_clean'][:4]}")
            lost = intersect(array.blocks_of(merge(listed[UNWRITTEN])), written or [])
            lost = subtract(lost, in_dirty)
            if lost:
                failures.append(f"{count(lost)} written blocks in regions that the map calls unwritten")
        if args.assert_idle and dirty:
            failures.append(f"{count(dirty)} regions are dirty")
        if args.assert_idle and listed[NEEDS_SYNC]:
            failures.append(f"{count(listed[NEEDS_SYNC])} regions need a resync")
    if args.assert_none and bad:
        failures.append(f"{count(bad)} inconsistent stripes, first {bad[0][0]}")
    if args.assert_written and intersect(bad, written):
        failures.append(f"{count(intersect(bad, written))} written stripes are inconsistent, "
                        f"first {intersect(bad, written)[0][0]}")
    return report, failures


def cmd_data(args, array):
    """The device's content: into a file, compared with a file, or its SHA-256."""
    runs, digest, failures, total, differ = wanted(args, array), hashlib.sha256(), [], 0, []
    out = open(args.out, "r+b" if os.path.exists(args.out) else "w+b") if args.out else None
    other = open(args.compare, "rb") if args.compare else None
    for start, content in array.data(runs):
        total += len(content) // BLOCK
        digest.update(content)
        if out:
            out.seek(start * BLOCK)
            out.write(content)
        if other:
            other.seek(start * BLOCK)
            theirs = other.read(len(content)).ljust(len(content), b"\0")
            if theirs != content:
                differ += [(start + i, start + i + 1) for i in range(len(content) // BLOCK)
                           if content[i * BLOCK:(i + 1) * BLOCK] != theirs[i * BLOCK:(i + 1) * BLOCK]]
    for stream in filter(None, (out, other)):
        stream.close()
    report = {"blocks": total, "sha256": digest.hexdigest(), "differ": pairs(merge(differ))}
    if differ:
        failures.append(f"{len(differ)} blocks differ from {args.compare}, first {differ[0][0]}")
    return report, failures


def arguments():
    parser = argparse.ArgumentParser(description="Independent reader and checker of raw ddraid members.")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("device", nargs="+", help="members: devices or image files (without superblocks: in order)")
    common.add_argument("--missing", help="positions to treat as missing: 0,3")
    common.add_argument("--ranges", help="blocks: FIRST-LAST,...")
    common.add_argument("--ranges-file", help="the same from a file")
    common.add_argument("--order", type=int, help="no superblocks: take this geometry")
    common.add_argument("--parity", type=int, default=1)
    common.add_argument("--layout", choices=("dedicated", "rotating"), default="dedicated")
    common.add_argument("--data-offset", type=int, default=0, help="bytes")
    common.add_argument("--blocks", type=int)
    common.add_argument("--region-size", type=int, default=4 << 20)
    sub = parser.add_subparsers(dest="command", required=True)
    sub.add_parser("state", parents=[common], help="superblock, log, map").set_defaults(run=cmd_state)
    check = sub.add_parser("check", parents=[common], help="parity of every stripe")
    check.set_defaults(run=cmd_check)
    check.add_argument("--holes", action="store_true", help="read also what is a hole in all image files")
    check.add_argument("--written", help="file with the blocks that were written: FIRST-LAST lines")
    check.add_argument("--assert-none", action="store_true", help="fail if any stripe is inconsistent")
    check.add_argument("--assert-written", action="store_true", help="fail if a stripe of --written is inconsistent")
    check.add_argument("--assert-dirty", action="store_true",
                       help="fail if an inconsistent (written) stripe lies outside the dirty regions, or in a clean one")
    check.add_argument("--assert-idle", action="store_true", help="fail if a region is dirty or needs a resync")
    data = sub.add_parser("data", parents=[common], help="content of the device from the members")
    data.set_defaults(run=cmd_data)
    data.add_argument("--out", help="write it there (sparse, at its place)")
    data.add_argument("--compare", help="compare with this file or device")
    args = parser.parse_args()
    if args.order is not None and not args.blocks:
        parser.error("--order needs --blocks")
    if getattr(args, "assert_written", False) and not args.written:
        parser.error("--assert-written needs --written")
    return args


def main():
    args = arguments()
    try:
        array = open_array(args)
        if args.order is not None and args.command == "state":
            raise RawError("an array without superblocks has no log")
        report, failures = args.run(args, array)
    except (RawError, OSError) as error:
        print(f"rawcheck: {error}", file=sys.stderr)
        return 2
    report["failures"] = failures
    json.dump(report, sys.stdout)
    print()
    for failure in failures:
        print(f"rawcheck: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
