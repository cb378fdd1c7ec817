# SPDX-License-Identifier: GPL-2.0-or-later
"""doc/walk.md names files that exist, and functions that are in the file named last before them; and no step is without one."""
import pathlib
import re

import functions

TOP = pathlib.Path(__file__).resolve().parents[2]
NAMED = re.compile(r"`((?:lib|daemon|kernel|cli|include|tests)/[\w./-]+)`|`(\w+)\(\)`")


def faults(text, top):
    found, file, known = [], None, {}
    for path, name in NAMED.findall(text):
        if path:
            file = path
            if not (top / file).is_file():
                found.append(f"there is no {file}")
            elif file not in known:
                known[file] = {f.name for f in functions.of(top / file)}
        elif name not in known.get(file, ()):
            found.append(f"{name}() is not in {file}")
    return found


def test_each_step_is_where_the_page_says():
    text = (TOP / "doc/walk.md").read_text()
    assert len(NAMED.findall(text)) > 100
    assert faults(text, TOP) == []


def test_each_step_names_a_file_and_a_function():
    text = (TOP / "doc/walk.md").read_text()
    steps = re.findall(r"^\d+\. .*(?:\n {3,4}\S.*)*", text, re.M)
    assert len(steps) > 35
    for step in steps:
        named = NAMED.findall(step)
        assert any(path for path, _ in named) and any(name for _, name in named), step


def test_what_is_wrong_is_seen(tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/a.c").write_text("int here(void)\n{\n\treturn there();\n}\n")
    assert faults("`lib/a.c` `here()`, `there()`; `lib/b.c` `here()`", tmp_path) == ["there() is not in lib/a.c", "there is no lib/b.c", "here() is not in lib/b.c"]
