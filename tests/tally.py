#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts what test runners reported: prints "PASSED FAILED".

    tally.py make DIRECTORY     .trs and .log files that `make check` left below it
    tally.py junit FILE         what pytest --junitxml wrote

A cmocka program counts with each of its tests, any other program as one test.
A test that was skipped has not passed, so it counts as failed; so does a
program that died, and a run in which nothing ran.
"""

import pathlib
import re
import sys
import xml.etree.ElementTree

CMOCKA_PASSED = re.compile(r"^\[  PASSED  \] (\d+) test", re.MULTILINE)
CMOCKA_OTHER = re.compile(r"^\[  (?:FAILED|SKIPPED) *\] .*?(\d+) test", re.MULTILINE)


def tally_program(trs):
    """(passed, failed) of one program that make check ran."""
    result = re.search(r"^:global-test-result: (\w+)", trs.read_text(), re.MULTILINE)
    text = trs.with_suffix(".log").read_text(errors="replace")
    passed = sum(int(n) for n in CMOCKA_PASSED.findall(text))
    other = sum(int(n) for n in CMOCKA_OTHER.findall(text))
    if result and result.group(1) == "PASS":
        return (passed, other) if passed or other else (1, 0)
    return passed, max(other, 1)


def tally_make(directory):
    rows = [tally_program(trs) for trs in sorted(pathlib.Path(directory).rglob("*.trs"))]
    return sum(r[0] for r in rows), sum(r[1] for r in rows)


def tally_junit(path):
    total = bad = 0
    for suite in xml.etree.ElementTree.parse(path).getroot().iter("testsuite"):
        total += int(suite.get("tests"))
        bad += sum(int(suite.get(key, 0)) for key in ("failures", "errors", "skipped"))
    return max(total - bad, 0), bad


def main():
    if len(sys.argv) != 3 or sys.argv[1] not in ("make", "junit"):
        sys.exit("usage: tally.py make DIRECTORY | junit FILE")
    try:
        passed, failed = {"make": tally_make, "junit": tally_junit}[sys.argv[1]](sys.argv[2])
    except (OSError, xml.etree.ElementTree.ParseError) as error:
        print(f"tally.py: {error}", file=sys.stderr)
        passed, failed = 0, 1
    print(passed, failed if passed + failed else 1)


if __name__ == "__main__":
    main()
