# SPDX-License-Identifier: GPL-2.0-or-later
"""`ddraid wipe`, and the way to do the same by hand that the manual gives, on image files. Running arrays are tests/vm/findings/find_names.py's."""
import json
import os
import pty
import re
import struct
import subprocess
import sys

import pytest

from test_create import ANYTHING, DDRAID, MIB, TOP, ddraid, digest, images, resize  # noqa: F401

sys.path.insert(0, str(TOP / "tests/badmeta"))
import badmeta  # noqa: E402


def make(images, count=3, size=8 * MIB, *more):                # noqa: F811
    paths = images(count, size)
    done = ddraid("create", "data", "--order", 1, *ANYTHING, "--json", *more, *paths, DDRAID_DEVICES=str(paths[0]))
    assert done.returncode == 0, done
    return paths, json.loads(done.stdout)


def wipe(*args, devices=""):
    return ddraid("wipe", "--allow-files", *args, DDRAID_DEVICES=devices or "/nothing")


def nothing_is_left(path):
    report, = json.loads(ddraid("examine", "--json", path).stdout)
    assert not report["valid"] and "no superblock (the block is all zeroes" in str(report["errors"]), report
    assert subprocess.run(["/sbin/blkid", "-p", path], capture_output=True, check=False).returncode == 2


def change(path, array, edit):
    """@edit changes both superblocks, whose checksums are then recomputed. The owner pages follow."""
    with open(path, "r+b") as image:
        member = badmeta.Member(image)
        for at in (4096, array["data_offset"] - 4096):
            image.seek(at)
            block = bytearray(image.read(4096))
            edit(block)
            badmeta.seal(block)
            image.seek(at)
            image.write(block)
        for copy in (0, 1):
            for index in range(member.pages):
                page = member.read(member.page(copy, index))
                page[16:24] = member.read(member.supers[copy])[16:24]
                if index == 0:
                    page[256:261] = block[2048:2052] + bytes([any(block[2048:2052])])
                badmeta.seal(page)
                member.write(member.page(copy, index), page)
            member.name_pages(copy)


def test_both_copies_go(images):                               # noqa: F811
    """Finding P7: the command that the manual gave left the second superblock, and the array came back."""
    paths, array = make(images)
    done = wipe("--yes", paths[1])
    assert done.returncode == 0 and done.stdout == f"{paths[1]}: wiped\n", done
    assert f"{paths[1]} is member 1 of array 'data' (uuid {array['uuid']})" in done.stderr
    nothing_is_left(paths[1])
    line = ddraid("table", "data", DDRAID_DEVICES=" ".join(map(str, paths)))
    assert line.returncode == 0 and line.stdout.split()[-2] == "-", line
    assert wipe("--yes", paths[0], paths[2]).returncode == 0
    for path in paths:
        nothing_is_left(path)


@pytest.mark.parametrize("shape", [(8 * MIB, ()), (700 * MIB, ("--nodes", 64, "--region-size", "64K"))], ids=["small", "large"])
def test_the_manual_way_clears_both_copies(images, shape):     # noqa: F811
    """Finding P7: `dd ... count=1`, as the manual had it, leaves the second copy, which is all that an array needs."""
    paths, array = make(images, 3, shape[0], *shape[1])
    assert array["data_offset"] > MIB or shape[0] == 8 * MIB
    command, = re.findall(r"^\.B (dd if=/dev/zero of=DEV .*)$", (TOP / "doc/ddraid.8").read_text(), re.M)
    subprocess.run(command.replace("DEV", str(paths[1])).split() + ["conv=notrunc,fsync", "status=none"], check=True)
    nothing_is_left(paths[1])


def test_one_copy_and_damaged_ones(images):                    # noqa: F811
    """All remains of a superblock are wiped; what another program has written in its place stays."""
    paths, array = make(images)
    second = array["data_offset"] - 4096
    for path, at, text in ((paths[0], 4096, bytes(4096)), (paths[1], second, bytes(4096)), (paths[2], 4096 + 100, b"damage"), (paths[2], second + 100, b"damage")):
        with open(path, "r+b") as image:
            image.seek(at)
            image.write(text)
    done = wipe("--yes", *paths)
    assert done.returncode == 0 and done.stdout.count(": wiped\n") == 3 and "damaged" in done.stderr, done
    for path in paths:
        nothing_is_left(path)
    paths, array = make(images)
    with open(paths[0], "r+b") as image:
        image.seek(4096)
        image.write(b"not ours" * 512)
    assert wipe("--yes", paths[0]).returncode == 0
    with open(paths[0], "rb") as image:
        image.seek(4096)
        assert image.read(4096) == b"not ours" * 512
        image.seek(second)
        assert not any(image.read(4096))


def test_an_older_array_behind_it(images):                     # noqa: F811
    """The copies of several arrays lie at several places: none is left."""
    paths, array = make(images, 2 + 1, 700 * MIB, "--nodes", 64, "--region-size", "64K")
    with open(paths[0], "r+b") as image:                        # one copy of an array that had its data further behind
        image.seek(array["data_offset"] - 4096)
        block = bytearray(image.read(4096))
        block[40:56] = b"another array..."
        struct.pack_into("<Q", block, 144, array["data_offset"] + MIB)
        badmeta.seal(block)
        image.seek(array["data_offset"] + MIB - 4096)
        image.write(block)
    assert wipe("--yes", paths[0]).returncode == 0
    nothing_is_left(paths[0])


def test_what_it_may_not_touch(images, tmp_path):               # noqa: F811
    """Finding P7: what is no member, what a node may have in use, what is not meant."""
    paths, array = make(images)
    other = tmp_path / "other"
    other.touch()
    resize(other, 8 * MIB)
    subprocess.run(["/sbin/mkfs.ext4", "-q", "-F", other], check=True)

    def refused(words, *args, devices=""):
        before = digest([*paths, other])
        done = wipe(*args, devices=devices)
        assert done.returncode == 1 and words in done.stderr.splitlines()[-1], done
        assert digest([*paths, other]) == before
    refused("it has no ddraid superblock", "--yes", other)
    refused("it has no ddraid superblock", "--yes", paths[0], other)      # and the first one was not touched either
    refused("there is no terminal to ask on. Give --yes to confirm", paths[0])
    done = ddraid("wipe", "--yes", paths[0])
    assert done.returncode == 1 and "is not a block device" in done.stderr, done
    assert ddraid("wipe").returncode == 2
    change(paths[0], array, lambda block: struct.pack_into("<I", block, 2048, 7))
    refused("which is in use by node 7, or that node died while using it", "--yes", paths[0])
    # another disk of the array is newer, and this is reported too
    change(paths[1], array, lambda block: (struct.pack_into("<I", block, 2048, 9), struct.pack_into("<Q", block, 16, struct.unpack_from("<Q", block, 16)[0] + 2)))
    refused("which is in use by node 9", "--yes", paths[0], devices=str(paths[1]))
    assert wipe("--yes", "--overwrite", paths[0]).returncode == 0
    nothing_is_left(paths[0])


@pytest.mark.parametrize("answer, code", [("yes\n", 0), ("no\n", 1), ("\n", 1), ("y\n", 1), ("\x04", 1)])
def test_it_asks(images, answer, code):                        # noqa: F811
    """Finding P1: an override needs a confirmation on a terminal."""
    paths, _ = make(images)
    before = digest(paths)
    master, slave = pty.openpty()
    process = subprocess.Popen([DDRAID, "wipe", "--allow-files", str(paths[0])], stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=dict(os.environ, DDRAID_DEVICES="/nothing"))
    os.close(slave)
    os.write(master, answer.encode())
    _, err = process.communicate(timeout=60)
    os.close(master)
    assert process.returncode == code and "Type yes to continue" in err, (process.returncode, err)
    assert (digest(paths) == before) == (code == 1)
    if code:
        assert "nothing was changed" in err
