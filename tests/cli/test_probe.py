# SPDX-License-Identifier: GPL-2.0-or-later
"""`ddraid-probe`, which udev's rule runs at each event: what it prints of a member, and that the first superblock decides."""
import os
import pathlib
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
CLI = pathlib.Path(os.environ.get("DDRAID_BUILDDIR", TOP / "build")) / "cli"
MIB = 1 << 20


def probe(path):
    return subprocess.run([CLI / "ddraid-probe", path], capture_output=True, text=True, timeout=20, check=False)


@pytest.fixture
def member(tmp_path):
    paths = [tmp_path / f"disk{i}" for i in range(3)]
    for path in paths:
        path.write_bytes(b"")
        os.truncate(path, 8 * MIB)
    made = subprocess.run([CLI / "ddraid", "create", "data.1", "--allow-files", "--order", "1", *paths], capture_output=True, text=True, timeout=60, check=False)
    assert made.returncode == 0, made.stderr
    return paths[1]


def test_a_member(member):
    """Findings S18, U10: it prints all that libblkid prints of members of other kinds."""
    done = probe(member)
    assert done.returncode == 0, done
    said = dict(line.split("=", 1) for line in done.stdout.splitlines())
    assert said["ID_FS_TYPE"] == "ddraid_member" and said["ID_FS_USAGE"] == "raid" and said["ID_FS_VERSION"] == "2"
    assert said["ID_FS_LABEL"] == said["ID_FS_LABEL_ENC"] == "data.1"
    shown = subprocess.run([CLI / "ddraid", "examine", "--json", member], capture_output=True, text=True, timeout=20, check=True).stdout
    assert f'"array_uuid": "{said["ID_FS_UUID"]}"' in shown and said["ID_FS_UUID_SUB"] in shown
    assert said["ID_FS_UUID_ENC"] == said["ID_FS_UUID"] != said["ID_FS_UUID_SUB"]


def test_one_read_decides(member):
    """Findings S18, U10: what is damaged in the first superblock is not searched for elsewhere, but left to us all the same."""
    with open(member, "r+b") as disk:
        disk.seek(4096 + 600)
        disk.write(b"damaged")
    assert probe(member).stdout.split() == ["ID_FS_TYPE=ddraid_member", "ID_FS_USAGE=raid"]
    with open(member, "r+b") as disk:
        disk.seek(4096)
        disk.write(bytes(4096))
    assert probe(member).returncode == 1 and probe(member).stdout == ""


def test_what_is_no_member(tmp_path):
    """Nothing is printed of a disk without a superblock, one that is too short, and one that is missing."""
    disk = tmp_path / "disk"
    for content in (bytes(MIB), os.urandom(MIB), b"short", b""):
        disk.write_bytes(content)
        done = probe(disk)
        assert (done.returncode, done.stdout) == (1, ""), (content[:8], done)
    assert probe(tmp_path / "none").returncode == 1
