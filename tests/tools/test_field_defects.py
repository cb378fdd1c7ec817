# SPDX-License-Identifier: GPL-2.0-or-later
"""Every test that doc/field-defects.md names exists, and every row names one or states that there is none.

The table of findings (four columns) and the tests name each other: a test says "Finding S11" or "Findings S12, U5".
"""
import pathlib
import re

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
DOC = TOP / "doc/field-defects.md"
HEADS = ("| ---", "| what goes wrong", "| number")
ROWS = [[cell.strip() for cell in line.strip().strip("|").split(" | ")] for line in DOC.read_text().splitlines()
        if line.startswith("| ") and not line.startswith(HEADS)]
FINDINGS = [row for row in ROWS if len(row) == 4]
NAMED = sorted({name for row in ROWS for name in re.findall(r"`(tests/[^`]+)`", row[-1])})
NUMBER = r"[TSKUP][0-9]+"


def sayings(text):
    """{number: {function}}: a function is of the number that the comment or docstring at its head says."""
    said = {}
    for match in re.finditer(rf"\bFindings? ({NUMBER}(?:(?:, | and ){NUMBER})*)", text):
        before = list(re.finditer(r"^def (test_\w+)\(", text[:match.start()], re.M))
        after = re.search(r"^static void (\w+)\(void \*\*", text[match.end():], re.M)
        python = before and '"""' in text[before[-1].end():match.start()]
        function = before[-1].group(1) if python else after.group(1) if after else None
        for number in re.findall(NUMBER, match.group(1)):
            said.setdefault(number, set()).add(function)
    return said


def all_that_say():
    """{(number, "tests/path::function")}"""
    said = set()
    for file in sorted(TOP.glob("tests/**/*.py")) + sorted(TOP.glob("tests/**/*.c")):
        if file == pathlib.Path(__file__).resolve():
            continue
        for number, functions in sayings(file.read_text()).items():
            said |= {(number, f"{file.relative_to(TOP)}::{function}") for function in functions}
    return said


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
        assert len(row) in (3, 4) and ("`tests/" in row[-1] or "no test yet" in row[-1]), row


def test_findings_have_one_row_each():
    numbers = [number for row in FINDINGS for number in row[0].split(", ")]
    assert all(re.fullmatch(NUMBER, number) for number in numbers), numbers
    assert len(numbers) == len(set(numbers)), sorted(n for n in numbers if numbers.count(n) > 1)


def test_findings_and_tests_name_each_other():
    rows = {(number, name.partition("[")[0]) for row in FINDINGS for number in row[0].split(", ")
            for name in re.findall(r"`(tests/[^`]+::[^`]+)`", row[-1])}
    said = all_that_say()
    assert not said - rows, f"these tests say a finding that doc/field-defects.md does not name them for: {sorted(said - rows)}"
    assert not rows - said, f"doc/field-defects.md names tests that do not say the finding: {sorted(rows - said)}"


@pytest.mark.parametrize("text,said", [
    ('def test_a(x):\n    """Finding S11: old data."""\n', {"S11": {"test_a"}}),
    ("/* Findings S12, U5: torn. */\nstatic void torn(void **state)\n", {"S12": {"torn"}, "U5": {"torn"}}),
    ("/* A Finding of nothing. */\nstatic void torn(void **state)\n", {}),
])
def test_what_tests_say_is_read(text, said):
    assert sayings(text) == said


@pytest.mark.parametrize("name", NAMED)
def test_exists(name):
    assert exists(name), f"{name} does not exist"


@pytest.mark.parametrize("name", ["tests/unit/test-sm.c::no_such_test", "tests/none.c", "tests/vm/test_errors.py::test_errors[none]"])
def test_what_does_not_exist_is_seen(name):
    assert not exists(name)
