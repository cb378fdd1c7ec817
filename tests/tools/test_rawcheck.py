# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests of the raw checker on arrays made by hand, against byte-by-byte arithmetic.

The images are written here field by field from the description of the format, and
the parity by a table of powers: nothing of rawcheck.py takes part in making them.
"""
import functools
import itertools
import json
import os
import random
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
import rawcheck  # noqa: E402

TOOL = os.path.join(os.path.dirname(__file__), "rawcheck.py")
OFFSET = 1 << 20
REGION = 65536
LAYOUTS = ("dedicated", "rotating")

POWERS = [1]
while len(POWERS) < 255:
    POWERS.append(POWERS[-1] << 1 ^ (0x11d if POWERS[-1] & 0x80 else 0))
LOGS = {value: i for i, value in enumerate(POWERS)}


def brute_parity(chunks):
    """P and Q of one stripe, a byte at a time."""
    p, q = bytearray(len(chunks[0])), bytearray(len(chunks[0]))
    for i, chunk in enumerate(chunks):
        for at, byte in enumerate(chunk):
            p[at] ^= byte
            if byte:
                q[at] ^= POWERS[(LOGS[byte] + i) % 255]
    return bytes(p), bytes(q)


@functools.lru_cache(4096)
def bitwise_crc(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82f63b78 * (crc & 1)
    return crc ^ 0xffffffff


def seal(block):
    """Puts the checksum into bytes 12..15."""
    block[12:16] = bytes(4)
    block[12:16] = bitwise_crc(bytes(block)).to_bytes(4, "little")
    return bytes(block)


class Made:
    """An array in image files, written by hand."""

    def __init__(self, directory, order, parity, layout, blocks=600, seed=1):
        self.k, self.n = 1 << order, (1 << order) + parity
        self.order, self.parity, self.layout, self.blocks = order, parity, layout, blocks
        self.chunk = 4096 >> order
        self.uuid = bytes(range(16))
        self.regions = -(-blocks * 4096 // REGION)
        self.paths = [str(directory / f"m{i}") for i in range(self.n)]
        self.images = [bytearray(OFFSET + blocks * self.chunk + 65536) for _ in range(self.n)]
        self.content = {}
        self.rng = random.Random(seed)
        for m in range(self.n):
            self.superblock(m)
        self.log(0, 0, 2, [])
        self.log(1, 0, 2, [])
        self.map([2] * self.regions)

    def place(self, role, block):
        turn = block // 256 if self.layout == "rotating" else 0
        return (role + turn) % self.n, OFFSET + block * self.chunk

    def write(self, block, data=None):
        data = data or self.rng.randbytes(4096)
        chunks = [data[i * self.chunk:(i + 1) * self.chunk] for i in range(self.k)]
        for role, piece in enumerate((chunks + list(brute_parity(chunks)))[:self.n]):
            member, at = self.place(role, block)
            self.images[member][at:at + self.chunk] = piece
        self.content[block] = data

    def damage(self, role, block, at=5):
        member, start = self.place(role, block)
        self.images[member][start + at] ^= 0x41

    def superblock(self, member, generation=7, seq=3, states=None, copies=(4096, OFFSET - 4096)):
        b = bytearray(4096)

        def put(at, size, value):
            b[at:at + size] = value.to_bytes(size, "little")
        b[0:4] = b"DDrd"
        put(4, 2, 1)
        put(8, 4, 4096)
        put(16, 8, seq)
        b[40:56] = self.uuid
        b[56:60] = b"test"
        put(120, 1, self.order)
        put(121, 1, self.parity)
        put(122, 1, LAYOUTS.index(self.layout))
        put(124, 4, self.chunk)
        put(128, 4, 4096)
        put(132, 4, REGION)
        put(136, 8, self.blocks)
        put(144, 8, OFFSET)
        put(152, 8, generation)
        put(200, 8, 8192)               # log
        put(208, 4, 1)
        put(212, 4, 2)                  # slots
        put(216, 8, 8192 + 2 * 2 * 4096)
        put(224, 4, 1)
        put(228, 2, self.n)
        put(230, 2, self.n)
        put(232, 2, member)
        for i in range(self.n):
            at = 1024 + 64 * i
            b[at:at + 16] = bytes([i + 1] * 16)
            put(at + 16, 1, (states or {}).get(i, 1))
            put(at + 18, 2, i)
        for at in copies:
            self.images[member][at:at + 4096] = seal(b)

    def owners(self, member):
        """Makes the member one of format 2: one page of slots, one of disks, one of debtors, for each copy, and room for the stamps of two slots."""
        area = OFFSET - 4096 - 2 * (3 + 2) * 4096
        for copy, at in enumerate((4096, OFFSET - 4096)):
            b = self.images[member][at:at + 4096]
            pages = b""
            for index in range(3):
                page = bytearray(4096)
                page[0:4] = b"DDro"
                page[4:12] = b"\1\0" + bytes([index, 0]) + (4096).to_bytes(4, "little")
                page[16:24] = b[16:24]
                page[24:40] = self.uuid
                page[56:60] = bytes([index + 1, 0, 3, 0])
                pages += seal(page)
            b[32] = 1
            b[304:320] = area.to_bytes(8, "little") + b"\3\0\0\0" + bitwise_crc(pages).to_bytes(4, "little")
            self.images[member][at:at + 4096] = seal(b)
            place = area + copy * (3 + 2 * 2) * 4096
            self.images[member][place:place + len(pages)] = pages

    def block(self, magic, slot, index, seq, payload):
        b = bytearray(4096)
        b[0:4] = magic
        b[4:6] = (1).to_bytes(2, "little")
        b[6:8] = slot.to_bytes(2, "little")
        b[8:12] = index.to_bytes(4, "little")
        b[16:24] = seq.to_bytes(8, "little")
        b[32:48] = self.uuid
        b[76:80] = (4096).to_bytes(4, "little")
        b[128:128 + len(payload)] = payload
        return seal(b)

    def log(self, slot, index, seq, regions, members=None):
        payload = bytearray(3968)
        for r in regions:
            payload[r // 8] |= 1 << r % 8
        at = 8192 + ((slot + index) * 2 + seq % 2) * 4096
        for m in range(self.n) if members is None else members:
            self.images[m][at:at + 4096] = self.block(b"DDrl", slot, index, seq, payload)

    def map(self, states, seq=2):
        payload = bytearray(3968)
        for r, state in enumerate(states):
            payload[r // 2] |= state << 4 * (r % 2)
        at = 8192 + 2 * 2 * 4096 + seq % 2 * 4096
        for image in self.images:
            image[at:at + 4096] = self.block(b"DDrm", 0xffff, 0, seq, payload)

    def save(self):
        for path, image in zip(self.paths, self.images):
            with open(path, "wb") as stream:        # sparse, as the members of a test machine are
                for at in range(0, len(image), 4096):
                    piece = image[at:at + 4096]
                    if piece.count(0) < len(piece):
                        stream.seek(at)
                        stream.write(piece)
                stream.truncate(len(image))
        return self.paths


def run(command, *args, rc=0):
    done = subprocess.run([sys.executable, TOOL, command, *map(str, args)], capture_output=True, text=True, check=False)
    assert done.returncode == rc, (done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout) if done.stdout else done.stderr


def everything():
    return list(itertools.product(range(4), range(3), LAYOUTS))


def some_blocks(made):
    """Both sides of unit borders, the ends, and single blocks."""
    return sorted({0, 1, 255, 256, 257, 511, 512, made.blocks - 1, 77, 300})


def test_crc_and_field():
    assert rawcheck.crc32c(b"123456789") == 0xe3069283
    assert bitwise_crc(b"123456789") == 0xe3069283
    for a in range(1, 256):
        assert rawcheck.gf_mul(a, rawcheck.gf_inv(a)) == 1
        assert rawcheck.gf_mul(a, 29) == POWERS[(LOGS[a] + LOGS[29]) % 255]


@pytest.mark.parametrize("order,parity,layout", everything())
def test_right_parity_is_right_and_any_damage_is_found(tmp_path, order, parity, layout):
    made = Made(tmp_path, order, parity, layout)
    for block in some_blocks(made):
        made.write(block)
    paths = made.save()
    if not parity:
        assert "without parity" in run("check", *paths, rc=2)
        return
    report = run("check", *paths, "--assert-none")
    assert report["bad_blocks"] == 0 and report["checked_blocks"] >= len(made.content)
    for role in range(made.n):
        for block in (1, 256, made.blocks - 1):
            made.damage(role, block, at=made.chunk - 1)
            array = rawcheck.Array.assemble(made.save())
            bad_p, bad_q, _ = array.check(array.data_runs())
            want_p = [] if role == made.k + 1 else [[block, 1]]
            want_q = [] if role == made.k or parity < 2 else [[block, 1]]
            assert (rawcheck.pairs(bad_p), rawcheck.pairs(bad_q)) == (want_p, want_q), (role, block)
            array.close()
            made.damage(role, block, at=made.chunk - 1)


@pytest.mark.parametrize("order,parity,layout", everything())
def test_content_with_every_member_and_pair_missing(tmp_path, order, parity, layout):
    made = Made(tmp_path, order, parity, layout)
    for block in some_blocks(made):
        made.write(block)
    paths = made.save()
    want = b"".join(made.content.get(b, bytes(4096)) for b in range(made.blocks))
    reference = tmp_path / "reference"
    reference.write_bytes(want)
    for lost in range(parity + 1):
        for gone in itertools.combinations(range(made.n), lost):
            array = rawcheck.Array.assemble(paths, gone)
            assert b"".join(piece for _, piece in array.data([(0, made.blocks)])) == want, gone
            array.close()
    shuffled = random.Random(3).sample(paths, len(paths))
    assert run("data", *shuffled, "--compare", reference)["blocks"] == made.blocks
    if parity + 1 < made.n:
        gone = ",".join(str(i) for i in range(parity + 1))
        assert "do not suffice" in run("data", *paths, "--missing", gone, rc=2)
    member, at = made.place(0, 300)
    made.images[member][at] ^= 1
    report = run("data", *made.save(), "--compare", reference, rc=1)
    assert report["differ"] == [[300, 1]]


@pytest.mark.parametrize("order", range(4))
def test_one_missing_of_two_parities_leaves_something_to_check(tmp_path, order):
    made = Made(tmp_path, order, 2, "rotating")
    for block in some_blocks(made):
        made.write(block)
    paths = made.save()
    for gone in range(made.n):
        assert run("check", *paths, "--missing", gone, "--assert-none")["bad_blocks"] == 0
    victim = made.place(0, 257)[0]
    made.damage(0, 257)
    paths = made.save()
    for gone in range(made.n):
        bad = run("check", *paths, "--missing", gone)["bad_blocks"]
        assert bad == (0 if gone == victim else 1), gone
    assert "no redundancy" in run("check", *paths, "--missing", "0,1", rc=2)


def test_without_superblocks(tmp_path):
    made = Made(tmp_path, 2, 1, "rotating")
    for block in some_blocks(made):
        made.write(block)
    made.damage(1, 300)
    for image in made.images:
        image[:OFFSET] = bytes(OFFSET)
    table = ["--order", 2, "--parity", 1, "--layout", "rotating", "--data-offset", OFFSET, "--blocks", made.blocks]
    paths = made.save()
    assert run("check", *paths, *table)["bad_p"] == [[300, 1]]
    assert run("check", *paths, *table, "--ranges", "0-299,301-599")["bad_blocks"] == 0
    assert "has 5 members, not 4" in run("check", *paths[:4], *table, rc=2)
    assert "no valid superblock" in run("check", *paths, rc=2)


def test_log_takes_the_newest_valid_copy(tmp_path):
    made = Made(tmp_path, 1, 1, "dedicated")
    made.log(0, 0, 4, [1, 2, 3, 9])
    made.log(0, 0, 5, [7], members=[2])         # newer, on one member only: it counts
    made.log(1, 0, 9, [35, 36, 37])
    report = run("state", *made.save())
    assert report["slots"] == {"0": [[7, 1]], "1": [[35, 3]]} and report["dirty"] == [[7, 1], [35, 3]]
    at = 8192 + 4096
    made.images[2][at + 200] ^= 1               # torn: the older one counts again
    assert run("state", *made.save())["slots"]["0"] == [[1, 3], [9, 1]]
    for image in made.images:                   # nothing readable: everything is dirty
        image[8192:8192 + 8192] = bytes(8192)
    report = run("state", *made.save())
    assert report["log_unreadable"] == [[0, 0]] and report["slots"]["0"] == [[0, made.regions]]


def test_inconsistency_against_log_and_map(tmp_path):
    made = Made(tmp_path, 2, 2, "rotating")
    for block in (3, 40, 100):
        made.write(block)
    states = [0] * made.regions
    states[0] = states[2] = 2
    states[6] = 1
    made.map(states)
    written = tmp_path / "written"
    written.write_text("3\n40-40\n100\n")
    args = ("--assert-dirty", "--written", written)
    assert run("check", *made.save(), *args)["unwritten"][0] == [1, 1]
    made.damage(0, 40)                          # region 2, clean and not dirty
    report = run("check", *made.save(), *args, rc=1)
    assert report["bad_clean"] == [[40, 1]] and report["bad_outside_dirty"] == [[40, 1]]
    made.log(1, 0, 4, [2])                      # now the log covers it
    report = run("check", *made.save(), *args)
    assert report["bad_blocks"] == 1 and report["bad_outside_dirty"] == []
    assert "regions are dirty" in " ".join(run("check", *made.paths, "--assert-idle", rc=1)["failures"])
    made.damage(1, 101)                         # never written, in a region that still needs its parity: no fault
    run("check", *made.save(), *args)
    made.damage(1, 100)                         # written there: a fault
    run("check", *made.save(), *args, rc=1)
    run("check", *made.save(), "--assert-written", "--written", written, rc=1)


def test_a_suspect_region_waits_for_its_resync(tmp_path):
    """It was dirty at a crash without a member; once it is resynced (clean), or needs a resync for another reason, there is no excuse."""
    made = Made(tmp_path, 2, 2, "rotating")
    for block in (3, 40):
        made.write(block)
    made.damage(0, 40)                          # region 2
    for state, stray in ((1 | 4, []), (1 | 4 | 8, []), (1, [[40, 1]]), (1 | 8, [[40, 1]]), (2 | 4, [[40, 1]])):
        states = [2] * made.regions
        states[2] = state
        made.map(states)
        report = run("check", *made.save())
        assert report["bad_outside_dirty"] == stray and report["bad_blocks"] == 1, state


def test_written_block_in_a_region_called_unwritten(tmp_path):
    made = Made(tmp_path, 1, 1, "dedicated")
    made.write(20)
    made.map([2, 0] + [2] * (made.regions - 2))
    written = tmp_path / "written"
    written.write_text("20\n")
    report = run("check", *made.save(), "--assert-dirty", "--written", written, rc=1)
    assert "unwritten" in report["failures"][0]


def test_generations_and_damaged_superblocks(tmp_path):
    made = Made(tmp_path, 2, 2, "dedicated")
    made.write(9)
    for m in range(5):                          # member 5 stayed behind
        made.superblock(m, generation=8, seq=4, states={5: 4})
    made.damage(made.n - 1, 9)                  # what it holds does not count
    report = run("check", *made.save(), "--assert-none")
    assert report["stale"] == [made.paths[5]] and report["present"] == [True] * 5 + [False]
    made.images[0][4096 + 50] ^= 1              # copy 0 damaged: copy 1 serves
    assert run("state", *made.save())["present"][0]
    made.images[0][OFFSET - 4096 + 50] ^= 1     # both: the member is not there
    assert not run("state", *made.save())["present"][0]
    assert "same member" in run("state", *made.save(), made.paths[1], rc=2)
    made.uuid = b"x" * 16
    made.superblock(2, generation=8, seq=4)
    assert "different arrays" in run("state", *made.save(), rc=2)


def test_a_superblock_of_format_2_needs_its_owner_pages(tmp_path):
    made = Made(tmp_path, 0, 1, "dedicated")
    for m in range(made.n):
        made.owners(m)
    assert run("state", *made.save())["present"] == [True, True]
    made.images[0][OFFSET - 3 * 4096 + 60] ^= 1             # a page of copy 1: copy 0 serves
    assert run("state", *made.save())["present"] == [True, True]
    made.images[0][OFFSET - 4096 - 10 * 4096 + 60] ^= 1     # and one of copy 0
    assert run("state", *made.save())["present"] == [False, True]
    made.owners(0)
    for place in (4096, OFFSET - 4096):                     # pages of another change
        b = made.images[0][place:place + 4096]
        b[16] += 2
        made.images[0][place:place + 4096] = seal(b)
    assert run("state", *made.save())["present"] == [False, True]


def test_bad_arguments(tmp_path):
    made = Made(tmp_path, 1, 1, "dedicated", blocks=16)
    paths = made.save()
    assert "is no range" in run("check", *paths, "--ranges", "1-x", rc=2)
    assert "below the first" in run("check", *paths, "--ranges", "9-2", rc=2)
    assert "positions 0 to 2" in run("check", *paths, "--missing", "3", rc=2)
    with open(paths[0], "r+b") as stream:
        stream.truncate(OFFSET + 100)
    assert "ends at byte" in run("check", *paths, "--holes", rc=2)
