# SPDX-License-Identifier: GPL-2.0-or-later
"""The state machine is in layers: a file calls its own functions and those of lower files alone. The list is in lib/cluster/sm_int.h, lowest first."""
import pathlib
import re

CLUSTER = pathlib.Path(__file__).resolve().parents[2] / "lib/cluster"


def code(path):
    """A source without comments and texts."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(), flags=re.S)
    return re.sub(r'"(\\.|[^"\\])*"', '""', text)


def order():
    """The files, from the bottom to the top."""
    head = (CLUSTER / "sm_int.h").read_text().split("#ifndef")[0]
    return re.findall(r"^ \*\t(sm\w*\.c)\t", head, re.M)


def definitions(files):
    """Which file defines a function that others may call."""
    where = {}
    for name in files:
        for head in re.findall(r"^(?!static\b)[a-z][\w *]*?\b(ddr_\w+)\([^;{]*\)\n\{", code(CLUSTER / name), re.M):
            where[head] = name
    return where


def test_each_file_has_its_layer():
    files = order()
    assert sorted(files) == sorted(p.name for p in CLUSTER.glob("sm*.c"))
    assert len(files) == len(set(files))


def test_a_delivered_message_changes_what_is_shared_alone():
    """Its handlers cannot reach what only this node knows: they get no struct ddr_sm."""
    names = [name for name in order() if name.startswith("sm_order")] + ["sm_order.h", "sm_mark.c", "sm_apply.c", "sm_room.c"]
    assert len(names) == 10
    for name in names:
        assert not re.search(r"struct ddr_sm\b|\bsm->", code(CLUSTER / name)), name


def test_no_file_calls_up():
    files = order()
    where = definitions(files)
    assert len(where) > 200
    for name in files:
        for called in set(re.findall(r"(?<![\w.>])(ddr_\w+)(?=\()", code(CLUSTER / name))):
            if called in where:
                assert files.index(where[called]) <= files.index(name), f"{name} calls {called}() up in {where[called]}"
