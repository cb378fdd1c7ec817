# SPDX-License-Identifier: GPL-2.0-or-later
"""The drills' load and verifier judge rightly: what is lost, torn or garbage is seen."""
import os
import subprocess
import sys

import pytest

sys.path[:0] = [os.path.dirname(__file__), os.path.join(os.path.dirname(__file__), "..", "vm")]
import tools  # noqa: E402

BLOCKS = 2048


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


def verify(writer, image, text, garbage=0):
    done = subprocess.run([writer, "verify", image, "0", str(BLOCKS), str(garbage)], input=text, capture_output=True, text=True,
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


def test_garbage_is_allowed_up_to_a_number_and_never_what_is_old(written):
    writer, image, ledger = written
    one, two = sorted(ledger.durable)[:2]
    old = flip(image, one * 4096 + 100), flip(image, two * 4096 + 100)
    allowed = [verify(writer, image, ledger.expectations(), n)[0] for n in (0, 1, 2)]
    patch(image, one * 4096 + 100, old[0])
    patch(image, two * 4096 + 100, old[1])
    lost = verify(writer, image, ledger.expectations() + f"{one} 1 {ledger.durable[one] + 1000000}\n", BLOCKS)[0]
    assert (allowed, lost) == ([1, 1, 0], 1)


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
