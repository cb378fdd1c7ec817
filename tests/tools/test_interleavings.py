# SPDX-License-Identifier: GPL-2.0-or-later
"""The tables of interleavings in doc/protocol.md name the scenarios that exist, and say of each whether it holds.

And a scenario that is marked as known fails for everything but the failure that is written down in it.
"""
import os
import pathlib
import re
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("DDRAID_BUILDDIR", TOP / "build"))
DOC = (TOP / "doc/protocol.md").read_text()
SCENARIOS = {p.stem: p.read_text() for p in (TOP / "tests/scenarios").glob("*.txt")}


def rows(heading, columns):
    """The cells of the first table with this number of columns below the heading."""
    section = re.search(rf"^## {re.escape(heading)}.*?\n(.*?)(?=^## )", DOC, re.M | re.S).group(1)
    tables = [[[cell.strip() for cell in line.strip().strip("|").split("|")] for line in table.splitlines()]
              for table in re.findall(r"(?:^\|.*\n)+", section, re.M)]
    return next(table[2:] for table in tables if len(table[0]) == columns)


EARLY = rows("Interleavings, and what proves each", 4)
LATE = rows("Interleavings 20 to 53", 5)
RULES = {row[0] for row in rows("Interleavings 20 to 53", 2)}


def known(scenario):
    return re.findall(r"^> known (.*)$", SCENARIOS[scenario], re.M)


def scenarios_of(number):
    return {name for name in SCENARIOS if name.startswith(f"note-{number:02}-")}


def test_each_interleaving_has_one_row():
    assert [row[0] for row in LATE] == [str(n) for n in range(20, 54)]
    assert {row[0].split()[0] for row in EARLY} - {"-"} == {str(n) for n in range(1, 18)} - {"11"}, "11, 18 and 19 stand below the table"


@pytest.mark.parametrize("row", LATE, ids=lambda row: row[0])
def test_the_row_says_what_its_scenario_does(row):
    number, what, proof, mutation, state = row
    named = set(re.findall(r"(?<![\w/-])note-[\w-]+", proof))
    assert named == scenarios_of(int(number))
    assert what
    for scenario in named:
        assert SCENARIOS[scenario].startswith(f"# Note {number}: ")
        assert known(scenario) == (re.findall(r"^known: (\w+)$", state) or []), f"{scenario} and the state of its row differ"
    if state == "holds":
        assert proof
    elif state.startswith("known: "):
        assert named and state[7:] in RULES
    else:
        assert re.fullmatch(r"not yet: \w+", state) and state[9:] in RULES and not proof and not mutation


def test_what_the_rows_name_exists():
    for _, _, proof, mutations, _ in LATE:
        for path, function in re.findall(r"`(tests/[\w/.-]+)(?:::(\w+))?`", proof):
            text = (TOP / path).read_text()
            assert not function or re.search(rf"^(?:def|static void) {function}\(", text, re.M), f"{path}::{function}"
        for name in filter(None, mutations.split(", ")):
            file = TOP / "tests/mutations" / (f"{name}.patch" if name.startswith("kernel/") else f"{name}.mut")
            assert file.exists(), name


def test_each_rule_closes_something():
    assert RULES == {row[4].split(": ")[1] for row in LATE if ": " in row[4]}


def test_the_first_table_names_its_scenarios():
    named = {name for row in EARLY for name in re.findall(r"(?<![\w/-])(?:note-)?[01]\d-[\w-]+", row[2])}
    assert sorted(name for name in named if name not in SCENARIOS) == []
    there = {name for number in range(1, 20) for name in scenarios_of(number)}
    assert sorted(there - named) == [], "no row names them"
    assert [name for name in there if known(name)] == []


# ---- the runner ------------------------------------------------------------------

STARTS = """\
> init order=2 parity=1 regions=4
> up
> log 0 0
> map 0 cccc
> view 1
    event VIEW a=1 b=1
"""
EXPECTS = STARTS.replace("> view", "> never event VIEW\n> view")
BROKEN = EXPECTS + "    broken: never event VIEW\n"


@pytest.fixture(scope="module", name="runner")
def fixture_runner():
    subprocess.run(["make", "-C", str(BUILD), "tests/scenarios/run"], check=True, stdout=subprocess.DEVNULL)
    return BUILD / "tests/scenarios/run"


@pytest.mark.parametrize("text, passes, said", [
    (STARTS, True, "1 scenarios, 0 failed, 0 more are known to fail"),
    (BROKEN, False, "broken: never event VIEW"),
    ("> known L8\n" + BROKEN, True, "1 scenarios, 0 failed, 1 more are known to fail"),
    ("> known L8\n" + EXPECTS, False, "known to fail until L8 is built, but not so"),
    ("> known L8\n" + BROKEN.replace("b=1", "b=2"), False, "known to fail until L8 is built, but not so"),
    ("> known L8\n" + STARTS, False, "nothing is broken any more: take the mark away"),
    (STARTS + "> must event VIEW\n", True, "0 failed"),
    (STARTS + "> since\n> must event VIEW\n    broken: there is no event VIEW\n", False, "broken: there is no event VIEW"),
    ("> known L8\n" + STARTS + "> since\n> must event VIEW\n    broken: there is no event VIEW\n", True, "1 more are known to fail"),
], ids=["passes", "broken", "known", "known and not recorded", "known and another answer", "known and not broken", "must", "must since", "known must"])
def test_what_is_known_fails_as_written_and_only_so(runner, tmp_path, text, passes, said):
    path = tmp_path / "scenario.txt"
    path.write_text(text)
    done = subprocess.run([runner, path], capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == passes, done.stdout
    assert said in done.stdout


@pytest.mark.parametrize("text", [BROKEN, "> known L8\n" + STARTS], ids=["broken", "known and not broken"])
def test_an_expectation_is_not_rewritten(runner, tmp_path, text):
    path = tmp_path / "scenario.txt"
    path.write_text(text)
    assert subprocess.run([runner, "--rewrite", path], capture_output=True, check=False).returncode == 1
    assert path.read_text() == text
