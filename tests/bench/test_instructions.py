# SPDX-License-Identifier: GPL-2.0-or-later
"""What the count of instructions reads and says, with made-up figures."""
import os
import pathlib
import subprocess
import sys

import pytest

sys.path[:0] = [os.path.dirname(__file__), str(pathlib.Path(__file__).resolve().parents[1] / "vm")]
import instructions  # noqa: E402

KEY = ("order 2+1", "served", "write", 4096)


def test_the_median_of_the_rounds_counts():
    assert instructions.read_lines("write 4096 30 10 20\nread 65536 7 7 900\n") == {("write", 4096): 20, ("read", 65536): 7}


def test_two_hundredths_more_are_met_and_said(capsys):
    assert instructions.show({KEY: 10200}, {KEY: 10000}) == []
    assert "ratio 1.020" in capsys.readouterr().out


def test_more_than_that_is_missed(capsys):
    assert instructions.show({KEY: 10201}, {KEY: 10000}) == [KEY]
    assert "MISSED" in capsys.readouterr().out


def test_what_only_one_has_is_not_compared():
    assert instructions.ratios({KEY: 1, (instructions.RAW, "", "read", 4096): 1}, {KEY: 2}) == {KEY: 0.5}


def test_a_directory_is_taken_as_it_is(tmp_path):
    assert instructions.sources(str(tmp_path), "/nonexistent") == tmp_path


def test_neither_a_commit_nor_a_directory(tmp_path):
    with pytest.raises(instructions.HarnessError, match="neither a directory nor a commit"):
        instructions.sources("no-such-commit", tmp_path)


def test_the_program_compiles(tmp_path):
    done = subprocess.run([instructions.build_counter(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "usage" in done.stderr
