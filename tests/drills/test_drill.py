# SPDX-License-Identifier: GPL-2.0-or-later
"""How a drill counts its rounds, and what it takes for garbage that may be; without machines."""
import os
import sys
import types

import pytest

sys.path[:0] = [os.path.dirname(__file__), os.path.join(os.path.dirname(__file__), "..", "vm")]
import drill  # noqa: E402
import load  # noqa: E402


class NoRig:
    """Nothing happens on it."""
    all = [1]

    def __getattr__(self, name):
        return lambda *args: None


def test_each_variant_has_its_rounds(capsys):
    seen = []

    def one(name):
        return lambda rig, number: seen.append((name, number)) or f"{name} {number}"
    tally = drill.Tally(("a", "b"), 3)
    drill.rounds(NoRig(), {"a": one("a"), "b": one("b")}, 3, tally=tally)
    assert seen == [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("a", 3), ("b", 3)]
    assert str(tally) == "3 of 3 rounds a, 3 of 3 rounds b"
    assert [line.split("(")[0].strip() for line in capsys.readouterr().out.splitlines()[1:]] == [f"{n} {v}: {v} {n}" for n in (1, 2, 3) for v in "ab"]


def test_a_failure_is_told_by_variant():
    def fails(rig, number):
        assert number < 2
    tally = drill.Tally(("a", "b"), 3)
    with pytest.raises(AssertionError):
        drill.rounds(NoRig(), {"a": lambda rig, number: "", "b": fails}, 3, tally=tally)
    assert (str(tally), tally.now) == ("2 of 3 rounds a, 1 of 3 rounds b", "round 2 b")


def test_without_variants():
    tally = drill.Tally(("",), 2)
    drill.rounds(NoRig(), lambda rig, number: "", 2, tally=tally)
    assert str(tally) == "2 of 2 rounds"


def rig_with(suspect, said, code=0, filesystem=False):
    """A rig whose verifier reports this, and whose array has these runs of suspect regions; the verifier's arguments are in .asked."""
    asked = []

    def run(command, **_):
        asked.append(command.split())
        return types.SimpleNamespace(code=code, out=said, err="")
    return types.SimpleNamespace(
        filesystem=filesystem, blocks=8192, region_blocks=256, asked=asked, cut={1: (2, 16, 1 << 24, 1)},
        ledgers={i: types.SimpleNamespace(expectations=lambda: "") for i in (1, 2)}, node=lambda i: types.SimpleNamespace(run=run),
        guests={2: types.SimpleNamespace(status=lambda name: {"suspect": suspect})})


SAID = "block 300: in flight, sequence 5 to 7, durable was 5\nchecked 1 expected 1 torn 0 in flight 1 bad 0\n"


def test_only_the_ledger_of_who_died_is_granted_anything():
    rig = rig_with([[0, 2]], "checked 1 expected 1 torn 0 in flight 0 bad 0\n")
    assert load.verify(rig, 2, torn=True) == {}
    assert [a[5:] for a in rig.asked] == [["2", "16", "16777216", "1"], []]
    rig.asked.clear()
    load.verify(rig, 2)
    assert [a[5:] for a in rig.asked] == [[], []]


def test_garbage_is_in_a_suspect_region():
    assert load.verify(rig_with([[1, 1]], SAID), 2, torn=True) == {1: [300], 2: [300]}
    with pytest.raises(AssertionError, match="outside of the suspect regions .*300, 1"):
        load.verify(rig_with([[0, 1], [2, 5]], SAID), 2, torn=True)


def test_evidence_is_in_the_message():
    with pytest.raises(AssertionError, match="(?s)block 300: garbage.*16777216"):
        load.verify(rig_with([], SAID.replace("in flight,", "garbage,"), code=1), 2, torn=True)
