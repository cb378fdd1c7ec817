# SPDX-License-Identifier: GPL-2.0-or-later
"""The drills' load and verifier judge rightly: what is lost, torn or garbage is seen."""
import os
import subprocess
import sys
import time

import pytest

sys.path[:0] = [os.path.dirname(__file__), os.path.join(os.path.dirname(__file__), "..", "vm")]
import tools  # noqa: E402

BLOCKS = 2048
CUT = (4, 32, 1 << 24, 5)       # threads, blocks of a write, first number and seed of a load that is killed


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """(writer, image file, its durable runs) after a short load."""
    directory = tmp_path_factory.mktemp("writer", numbered=True)
    writer = tools.build_writer(directory)
    image = directory / "disk"
    image.write_bytes(b"")
    os.truncate(image, BLOCKS * 4096)
    done = subprocess.run([writer, "load", image, "0", str(BLOCKS), "4", "32", "1", "7", "1"], capture_output=True,
                          text=True, check=True)
    ledger = tools.Ledger()
    ledger.read(done.stdout)
    assert ledger.durable and not ledger.errors
    return writer, image, ledger


def verify(writer, image, text, cut=()):
    """`cut`: THREADS, MAX, SEQ and SEED of a load whose power was cut."""
    done = subprocess.run([writer, "verify", image, "0", str(BLOCKS), *map(str, cut)], input=text, capture_output=True, text=True,
                          check=False)
    return done.returncode, done.stdout


def patch(image, at, data):
    """Overwrites bytes and returns what was there."""
    with open(image, "r+b") as stream:
        stream.seek(at)
        old = stream.read(len(data))
        stream.seek(at)
        stream.write(data)
    return old


def flip(image, at):
    """Another byte than the one that was there, which it returns."""
    old = patch(image, at, b"\0")
    patch(image, at, bytes([old[0] ^ 0xff]))
    return old


def test_untouched_is_right(written):
    writer, image, ledger = written
    code, out = verify(writer, image, ledger.expectations())
    assert code == 0 and f"expected {len(ledger.durable)} " in out and "bad 0" in out


def test_lost_write_is_seen(written):
    writer, image, ledger = written
    block, seq = next(iter(ledger.durable.items()))
    code, out = verify(writer, image, ledger.expectations() + f"{block} 1 {seq + 1000000}\n")
    assert code == 1 and f"block {block}: lost" in out


@pytest.mark.parametrize("at,data,word", [(100, None, "garbage"), (8, b"\x01", "garbage"), (512, bytes(512), "lost")])
def test_damaged_sector_is_seen(written, at, data, word):
    writer, image, ledger = written
    block = max(ledger.durable)
    old = patch(image, block * 4096 + at, data) if data else flip(image, block * 4096 + at)
    code, out = verify(writer, image, ledger.expectations())
    patch(image, block * 4096 + at, old)
    assert code == 1 and f"block {block}: {word}" in out


def stream(thread):
    """The writes of a thread of CUT: (number, first, count) without end."""
    threads, longest, seq, seed = CUT
    state, part, mask = seed * 1000003 + thread, BLOCKS // threads, (1 << 64) - 1

    def mix():
        nonlocal state
        state = (state + 0x9e3779b97f4a7c15) & mask
        z = state
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 & mask
        z = (z ^ z >> 27) * 0x94d049bb133111eb & mask
        return z ^ z >> 31
    number = seq + thread
    while True:
        count = 1 + mix() % longest
        first = thread * part + mix() % (part - count + 1)
        mix()
        yield number, first, count
        number += threads


class Killed:
    """A load that was killed, and of each thread its last write, the ones after it, and a block that none of these touches."""

    def __init__(self, writer, image):
        self.writer, self.image = writer, image
        job = subprocess.Popen([writer, "load", image, "0", str(BLOCKS), *map(str, CUT), "0", "64", "2000"], stdout=subprocess.PIPE, text=True)
        time.sleep(1.5)
        job.kill()
        ledger = tools.Ledger()
        ledger.read(job.communicate()[0])
        part = BLOCKS // CUT[0]
        on_disk = [max(self.numbers(block)) for block in range(BLOCKS)]
        self.last, self.later, self.rest = [], [], []
        for thread in range(CUT[0]):
            writes = stream(thread)
            shown = max(on_disk[thread * part:(thread + 1) * part])
            self.last.append(next(w for w in writes if w[0] == shown))
            self.later.append([next(writes) for _ in range(50)])
            near = {b for _, first, count in [self.last[-1], *self.later[-1]] for b in range(first, first + count)}
            self.rest.append(next(b for b in range(thread * part, (thread + 1) * part) if b not in near and b in ledger.durable))
        lasts = {number for number, _, _ in self.last}
        self.known = "".join(f"{b} 1 {n}\n" for b, n in ledger.durable.items() if n not in lasts)

    def numbers(self, block):
        """Of the block's sectors, as their heads say."""
        with open(self.image, "rb") as handle:
            handle.seek(block * 4096)
            data = handle.read(4096)
        return [int.from_bytes(data[at + 16:at + 24], "little") for at in range(0, 4096, 512)]

    def verify(self, blocks, cut=True, more=""):
        """With garbage in these blocks, which is undone afterwards: (code, output)."""
        old = [flip(self.image, b * 4096 + 1300) for b in blocks]
        result = verify(self.writer, self.image, self.known + more, CUT if cut else ())
        for b, was in zip(blocks, old):
            patch(self.image, b * 4096 + 1300, was)
        return result


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    directory = tmp_path_factory.mktemp("killed", numbered=True)
    image = directory / "disk"
    image.write_bytes(b"")
    os.truncate(image, BLOCKS * 4096)
    return Killed(tools.build_writer(directory), image)


@pytest.mark.parametrize("threads", [(0,), (1,), (0, 1)])
def test_what_was_in_flight_at_a_cut_may_be_garbage(killed, threads):
    """The last write of each thread, as the disk shows it: all of its blocks, and only where a load was cut."""
    blocks = [b for thread in threads for b in range(killed.last[thread][1], sum(killed.last[thread][1:]))]
    code, out = killed.verify(blocks)
    assert code == 0 and all(f"block {b}: in flight" in out for b in blocks) and f"in flight {len(blocks)} bad 0" in out
    assert killed.verify([])[0] == 0
    code, out = killed.verify(blocks, cut=False)
    assert code == 1 and f"block {blocks[0]}: garbage" in out, "a survivor's block that was not in flight"


def test_what_was_to_be_written_next_may_be_garbage(killed):
    """Of a write in flight nothing else need be seen: it is known by what the load would do next."""
    _, first, count = killed.later[0][0]
    code, out = killed.verify(range(first, first + count))
    assert code == 0 and f"in flight {count} bad 0" in out


@pytest.mark.parametrize("cut", [False, True])
def test_garbage_at_rest_is_seen(killed, cut):
    """An acknowledged block that was not being written: of the thread whose write was in flight, beside that write, and of another one."""
    for thread in range(CUT[0]):
        code, out = killed.verify([killed.rest[thread]], cut)
        assert code == 1 and f"block {killed.rest[thread]}: garbage" in out and "bad 1" in out
    code, out = killed.verify([killed.last[0][1], killed.rest[0]], cut)
    assert code == 1 and f"block {killed.rest[0]}: garbage" in out and f"block {killed.last[0][1]}: garbage" in out, "one write cannot have harmed both"
    code, out = killed.verify([killed.last[0][1], killed.rest[1]], cut)
    assert code == 1 and f"block {killed.rest[1]}: garbage" in out
    assert (f"block {killed.last[0][1]}: in flight" in out) == cut


def test_what_was_durable_was_not_in_flight(killed):
    """The last write was reported durable to the load: its blocks are at rest, except where the next one would write again."""
    for thread in range(CUT[0]):
        number, first, count = killed.last[thread]
        for block in (first, first + count - 1):
            # of the writes after the next one each would have to cover all before it
            code, out = killed.verify([block], more=f"{first} {count} {number}\n")
            covers = next((i for i, (_, to, m) in enumerate(killed.later[thread]) if all(
                to <= b < to + m for _, f, c in [(0, block, 1), *killed.later[thread][:i]] for b in (f, f + c - 1))), None)
            assert code == (covers is None) and (f"block {block}: garbage" in out) == bool(code), (block, covers, out)


def test_what_was_in_flight_is_not_older_than_what_was_durable(killed):
    """Beside the chunk that may be anything there is the old or the new."""
    _, first, _ = killed.last[0]
    code, out = killed.verify([first], more=f"{first} 1 {CUT[2] + (1 << 30)}\n")
    assert code == 1 and f"block {first}: lost" in out


def test_misplaced_block_is_seen(written):
    writer, image, ledger = written
    one, two = sorted(ledger.durable)[:2]
    with open(image, "rb") as stream:
        stream.seek(one * 4096)
        piece = stream.read(4096)
    old = patch(image, two * 4096, piece)
    code, out = verify(writer, image, ledger.expectations())
    patch(image, two * 4096, old)
    assert code == 1 and f"block {two}: garbage" in out


def test_errors_of_the_device_are_reported(written, tmp_path):
    writer, _, _ = written
    short = tmp_path / "short"
    os.truncate(os.open(short, os.O_CREAT | os.O_RDWR), 4096)
    done = subprocess.run([writer, "verify", short, "0", "64"], input="", capture_output=True, text=True, check=False)
    assert done.returncode == 2
    done = subprocess.run([writer, "load", short, "0", "1"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "usage" in done.stderr
