# SPDX-License-Identifier: GPL-2.0-or-later
"""Files that use each other, directly or through others, cannot be read or changed one by one: how many of them may do so."""
import os
import pathlib
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("DDRAID_BUILDDIR", TOP / "build"))
OBJECTS = {"lib": "*.o", "daemon": "ddraidd-*.o", "cli": "*.o", "kmod": "*.o"}
MOST = {"lib": 4, "daemon": 4, "cli": 4, "kmod": 8}


def symbols(path):
    """(defined, used) of an object file."""
    listed = subprocess.run(["nm", "-g", path], capture_output=True, text=True, check=True).stdout
    pairs = [line.split()[-2:] for line in listed.splitlines()]
    return {name for kind, name in pairs if kind != "U"}, {name for kind, name in pairs if kind == "U"}


def uses(table):
    """{file: files whose names it uses}; a name that several define belongs to none."""
    owner = {}
    for file, (defined, _) in table.items():
        for name in defined:
            owner[name] = None if name in owner else file
    return {file: {owner.get(name) for name in used} - {None, file} for file, (_, used) in table.items()}


def reached(graph, start):
    """All files that are used from this one on."""
    found, todo = set(), [start]
    while todo:
        new = graph[todo.pop()] - found
        found |= new
        todo += new
    return found


def circles(graph):
    """Sets of files that reach each other."""
    reach = {file: reached(graph, file) for file in graph}
    return {frozenset(other for other in reach[file] if file in reach[other]) for file in graph if file in reach[file]}


def objects(part):
    """The files of the build for one part, without those that tests compile once more: tests_unit_test_x-FILE.o."""
    return [path for path in sorted((BUILD / part).rglob(OBJECTS[part])) if "-" not in path.name.removeprefix("ddraidd-")]


def test_circles_are_found():
    table = {"a": ({"a1"}, {"b1"}), "b": ({"b1"}, {"c1", "d1"}), "c": ({"c1"}, {"a1"}), "d": ({"d1"}, {"e1"}), "e": ({"e1", "x"}, set()), "f": ({"x"}, {"a1", "x"})}
    assert circles(uses(table)) == {frozenset("abc")}


@pytest.mark.parametrize("part", MOST)
def test_no_circle_is_large(part):
    found = objects(part)
    assert len(found) > 20, f"{BUILD / part} has not been built: ./quickstart build"
    large = [sorted(c) for c in circles(uses({path.name: symbols(path) for path in found})) if len(c) > MOST[part]]
    assert not large, f"more than {MOST[part]} files of {part} use each other in a circle: {large}"
