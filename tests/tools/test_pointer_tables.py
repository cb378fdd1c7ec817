# SPDX-License-Identifier: GPL-2.0-or-later
"""A struct of several function pointers has several implementations: an interface with one implementation hides which function is called.

In lib/ and daemon/. A twin in a unit test or in the simulator counts; a single pointer is a callback, and may have one.
"""
import pathlib
import re

import functions

TOP = pathlib.Path(__file__).resolve().parents[2]
POINTER = re.compile(r"\(\*(\w+)\)\s*\(")


def tables(text):
    """The structs of a source with two function pointers or more: name -> their names."""
    found = {}
    for name, body in re.findall(r"\bstruct (\w+) \{\n(.*?)\n\}", functions.plain(text), re.S):
        pointers = POINTER.findall(body)
        if len(pointers) > 1:
            found[name] = pointers
    return found


def implementations(pointers, texts):
    """What the first pointers of a table are set to, anywhere. The one with the most counts: some may be left out."""
    return max(len({value for text in texts for value in re.findall(rf"(?:\.|->){name}\s*=\s*(\w+)", text)}) for name in pointers)


def lonely(top):
    product = [p for part in ("lib", "daemon") for p in sorted((top / part).rglob("*.[ch]"))]
    texts = [functions.plain(p.read_text()) for p in product + sorted((top / "tests").rglob("*.[ch]"))]
    return [f"{path.relative_to(top)}: struct {name} ({', '.join(pointers)})" for path in product
            for name, pointers in tables(path.read_text()).items() if implementations(pointers, texts) < 2]


def test_no_table_has_a_single_implementation():
    assert lonely(TOP) == []


def test_the_tables_are_seen():
    seen = {name for part in ("lib", "daemon") for p in (TOP / part).rglob("*.[ch]") for name in tables(p.read_text())}
    assert {"ddr_transport_ops", "ddr_transport_events", "ddr_aio_engine"} & seen == {"ddr_transport_ops", "ddr_transport_events", "ddr_aio_engine"}, seen


def test_one_that_is_alone_is_seen(tmp_path):
    for part in ("lib", "daemon", "tests/unit"):
        (tmp_path / part).mkdir(parents=True)
    (tmp_path / "lib/a.h").write_text("struct ops {\n\tint (*one)(void);\n\tint (*two)(void);\n};\nstruct single {\n\tint (*one)(void);\n};\n")
    (tmp_path / "lib/a.c").write_text("static const struct ops ops = { .one = first, .two = second };\n")
    assert lonely(tmp_path) == ["lib/a.h: struct ops (one, two)"]
    (tmp_path / "tests/unit/t.c").write_text("static const struct ops played = { .one = played_one, .two = second };\n")
    assert lonely(tmp_path) == []
