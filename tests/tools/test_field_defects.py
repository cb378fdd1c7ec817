# SPDX-License-Identifier: GPL-2.0-or-later
"""Every test that doc/field-defects.md names exists, and every row names one or says that there is none."""
import pathlib
import re

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
ROWS = [line.strip("|").split("|") for line in (TOP / "doc/field-defects.md").read_text().splitlines()
        if line.startswith("| ") and not line.startswith(("| ---", "| what goes wrong"))]
NAMED = sorted({name for row in ROWS for name in re.findall(r"`(tests/[^`]+)`", row[-1])})


def exists(name):
    """path, path::function of C or python, path::function[case]"""
    path, _, rest = name.partition("::")
    file = TOP / path
    if not file.is_file():
        return False
    function, _, case = rest.rstrip("]").partition("[")
    text = file.read_text()
    pattern = rf"^def {function}\(" if path.endswith(".py") else rf"^static void {function}\(void \*\*"
    return (not function or re.search(pattern, text, re.M) is not None) and (not case or f'"{case}"' in text)


def test_rows():
    assert len(ROWS) > 20
    for row in ROWS:
        assert len(row) == 3 and ("`tests/" in row[-1] or "no test yet" in row[-1]), row


@pytest.mark.parametrize("name", NAMED)
def test_exists(name):
    assert exists(name), f"{name} does not exist"


@pytest.mark.parametrize("name", ["tests/unit/test-sm.c::no_such_test", "tests/none.c", "tests/vm/test_errors.py::test_errors[none]"])
def test_what_does_not_exist_is_seen(name):
    assert not exists(name)
