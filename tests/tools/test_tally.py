# SPDX-License-Identifier: GPL-2.0-or-later
"""tests/tally.py counts what fails as failed, whatever way a runner has of saying it."""

import pathlib
import subprocess

TALLY = pathlib.Path(__file__).resolve().parents[1] / "tally.py"


def tally(kind, path):
    done = subprocess.run(["/usr/bin/python3", TALLY, kind, path], check=True,
                          capture_output=True, text=True)
    return tuple(int(n) for n in done.stdout.split())


def program(directory, name, result, log):
    """What automake leaves of one program of make check."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / f"{name}.trs").write_text(f":test-result: {result}\n:global-test-result: {result}\n")
    (directory / f"{name}.log").write_text(log)


def test_cmocka_counts_each_test(tmp_path):
    program(tmp_path / "unit", "a", "PASS", "[==========] Running 3 test(s).\n[  PASSED  ] 3 test(s).\n")
    program(tmp_path / "unit", "b", "PASS", "no cmocka here\n")
    assert tally("make", tmp_path) == (4, 0)


def test_cmocka_failures(tmp_path):
    program(tmp_path, "a", "FAIL", "[  PASSED  ] 2 test(s).\n[  FAILED  ] geometry: 2 test(s), listed below:\n")
    assert tally("make", tmp_path) == (2, 2)


def test_cmocka_two_groups_in_one_program(tmp_path):
    program(tmp_path, "a", "FAIL", "[  PASSED  ] 2 test(s).\n[  PASSED  ] 1 test(s).\n"
            "[  FAILED  ] log: 1 test(s), listed below:\n")
    assert tally("make", tmp_path) == (3, 1)


def test_a_skipped_test_has_not_passed(tmp_path):
    program(tmp_path, "a", "PASS", "[  PASSED  ] 2 test(s).\n[  SKIPPED ] 1 test(s), listed below:\n")
    program(tmp_path, "b", "SKIP", "")
    assert tally("make", tmp_path) == (2, 2)


def test_a_program_that_died_after_its_tests_failed(tmp_path):
    program(tmp_path, "a", "FAIL", "[  PASSED  ] 2 test(s).\nERROR: AddressSanitizer\n")
    assert tally("make", tmp_path) == (2, 1)


def test_nothing_ran_is_a_failure(tmp_path):
    assert tally("make", tmp_path) == (0, 1)


def junit(path, **counts):
    text = " ".join(f'{k}="{v}"' for k, v in counts.items())
    path.write_text(f'<?xml version="1.0"?><testsuites><testsuite name="pytest" {text}/></testsuites>')
    return path


def test_junit(tmp_path):
    assert tally("junit", junit(tmp_path / "x", tests=9, failures=1, errors=2, skipped=3)) == (3, 6)
    assert tally("junit", junit(tmp_path / "x", tests=9, failures=0, errors=0, skipped=0)) == (9, 0)
    assert tally("junit", junit(tmp_path / "x", tests=0, failures=0, errors=0, skipped=0)) == (0, 1)


def test_junit_that_was_never_written(tmp_path):
    assert tally("junit", tmp_path / "none") == (0, 1)
