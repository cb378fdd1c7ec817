# SPDX-License-Identifier: GPL-2.0-or-later
"""No include runs up, by the table of rooms.py; and what would is seen."""
import pathlib
import shutil

import pytest

import rooms


def test_no_include_runs_up():
    assert not rooms.faults()


def test_the_table_has_rooms_that_there_are():
    for name, uses in rooms.ROOMS.items():
        for use in (name, *uses.split()):
            assert (rooms.TOP / use).exists(), use


def test_rooms_use_no_circle():
    """Of two rooms one is below: else the table itself lets them know each other."""
    uses = {name: {rooms.room(use) if use.endswith(".h") else use for use in text.split()} - {name} for name, text in rooms.ROOMS.items()}
    uses["lib/disk"].discard("lib")		# lib/error.h, which includes nothing
    uses["lib/cluster"].discard("lib")
    while uses:
        bottom = [name for name, below in uses.items() if not below & set(uses)]
        assert bottom, f"these use each other: {' '.join(uses)}"
        for name in bottom:
            del uses[name]


@pytest.mark.parametrize("file, line, said", [
    ("lib/math/parity.c", '#include "lib/disk/layout.h"', "lib/math/parity.c includes lib/disk/layout.h"),
    ("lib/cluster/sm.c", '#include "lib/disk/devio.h"', "lib/cluster/sm.c includes lib/disk/devio.h"),
    ("daemon/disk/stall.c", '# include "daemon/array/array.h"', "daemon/disk/stall.c includes daemon/array/array.h"),
    ("daemon/array/drive.c", '#include "../ipc/ipc_server.h"', "daemon/array/drive.c includes daemon/ipc/ipc_server.h"),
    ("include/ddraid/uapi.h", '#include "lib/error.h"', "include/ddraid/uapi.h includes lib/error.h"),
    ("daemon/base/clock.c", '#include "nowhere.h"', "daemon/base/clock.c: there is no nowhere.h"),
    ("daemon/cellar/new.c", "", "daemon/cellar/new.c: the folder daemon/cellar is no room"),
])
def test_what_runs_up_is_seen(tmp_path, file, line, said):
    for part in ("include", "lib", "daemon", "cli", "kernel"):
        shutil.copytree(rooms.TOP / part, tmp_path / part, ignore=shutil.ignore_patterns("*.o"))
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    path.write_text((path.read_text() if path.exists() else "") + f"\n{line}\n")
    found = rooms.faults(pathlib.Path(tmp_path))
    assert len(found) == 1 and found[0].startswith(said), found
