# SPDX-License-Identifier: GPL-2.0-or-later
"""The tables of the small machines in doc/protocol.md are those that the code runs by, and every state and event has a use."""
import pathlib
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import cells  # noqa: E402

CLUSTER = cells.TOP / "lib/cluster"


def test_the_document_is_up_to_date():
    assert cells.parts()[1] == cells.tables(), "run tests/tools/cells.py --write"


@pytest.mark.parametrize("machine", cells.TITLES)
def test_each_state_and_event_is_used(machine):
    rows = [row for row in cells.cells() if row[0] == machine]
    states, events = cells.names(machine, "STATES"), cells.names(machine, "EVENTS")
    assert {row[2] for row in rows} == set(events)
    assert {row[1] for row in rows} == {row[3] for row in rows} == set(states)
    assert len({row[1:3] for row in rows}) == len(rows), "two cells for one state and event"


def test_no_state_is_set_beside_the_tables():
    """But where all of the object is forgotten, which is a memset() or a new one."""
    for path in sorted(CLUSTER.glob("sm*.c")):
        direct = re.findall(r"^.*\bstate = DDR_(?:R|WK|FX|W|T)_.*$", path.read_text(encoding="utf-8"), re.M)
        assert not direct or path.name == "sm_state_codec.c" and len(direct) == 1, f"{path.name}: {direct}"
