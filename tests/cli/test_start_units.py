# SPDX-License-Identifier: GPL-2.0-or-later
"""`ddraid start --all --units`, which ddraid.service runs: the units that it starts, and how often it opens each disk. Needs no daemon."""
import collections
import ctypes
import json
import os
import pathlib
import struct
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
DDRAID = pathlib.Path(os.environ.get("DDRAID_BUILDDIR", TOP / "build")) / "cli" / "ddraid"
MIB, IN_OPEN = 1 << 20, 0x20


@pytest.fixture
def machine(tmp_path):
    """A directory with a systemctl that only keeps its arguments, and what creates an array of three disks in it."""
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "systemctl").write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/units\n')
    (bin_ / "systemctl").chmod(0o755)

    def create(name):
        paths = [tmp_path / f"{name}{i}" for i in range(3)]
        for path in paths:
            path.write_bytes(b"")
            os.truncate(path, 8 * MIB)
        made = subprocess.run([DDRAID, "create", name, "--allow-files", "--order", "1", "--json", *paths], capture_output=True, text=True, timeout=60, check=True,
                              env=dict(os.environ, DDRAID_DEVICES="/nothing"))
        return paths, json.loads(made.stdout)["uuid"]
    return tmp_path, create


def start(tmp_path, listed):
    """The units that were started, and how often each file was opened."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    files = {libc.inotify_add_watch(fd, os.fsencode(path), IN_OPEN): path.name for path in tmp_path.iterdir() if path.stat().st_size == 8 * MIB}
    (tmp_path / "units").write_text("")
    done = subprocess.run([DDRAID, "start", "--all", "--units"], capture_output=True, text=True, timeout=120, check=False,
                          env=dict(os.environ, DDRAID_DEVICES=" ".join(map(str, listed)), PATH=f"{tmp_path}/bin:{os.environ['PATH']}"))
    assert done.returncode == 0, done
    events, opened = os.read(fd, 1 << 16), collections.Counter()
    os.close(fd)
    while events:
        wd, _, _, length = struct.unpack_from("iIII", events)
        opened[files[wd]] += 1
        events = events[16 + length:]
    return (tmp_path / "units").read_text().split(), opened


def test_the_listed_disks_are_opened_once(machine):
    """A list in the environment decides which disks are read, whatever udev knows of them, and an array that lacks one is no reason to read others."""
    tmp_path, create = machine
    one, one_uuid = create("one")
    two, two_uuid = create("two")
    units, opened = start(tmp_path, one)
    assert units == ["--no-block", "start", f"ddraid-start@{one_uuid}.service"]
    assert opened == {"one0": 1, "one1": 1, "one2": 1}
    units, opened = start(tmp_path, [*one, *two[1:]])
    assert units == ["--no-block", "start", f"ddraid-start@{one_uuid}.service", f"ddraid-start@{two_uuid}.service"]
    assert opened == {"one0": 1, "one1": 1, "one2": 1, "two1": 1, "two2": 1}


def test_a_damaged_disk_is_searched(machine):
    """An array of which only second superblocks are left is found, too."""
    tmp_path, create = machine
    paths, uuid = create("one")
    for path in paths:
        with open(path, "r+b") as disk:
            disk.write(bytes(8192))
    assert start(tmp_path, paths)[0] == ["--no-block", "start", f"ddraid-start@{uuid}.service"]
