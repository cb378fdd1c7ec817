#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Prints the files above 500 lines and the functions above 70, each with the reason why it stays as it is.

    sizes.py            the table; ends with 1 if a reason is missing or stale

The reasons are in sizes.txt beside this file: one or more lines "| FILE" or "| FILE FUNCTION()", then the reason for all of them, then an
empty line.
"""
import collections
import pathlib
import sys

import functions

TOP = pathlib.Path(__file__).resolve().parents[2]
REASONS = pathlib.Path(__file__).with_suffix(".txt")
FILE_LINES, FUNCTION_LINES = 500, 70
PARTS = "include lib daemon cli kernel tests"


def sources(top):
    for part in PARTS.split():
        yield from sorted(path for path in (top / part).rglob("*") if path.suffix in (".c", ".h", ".py"))
    yield top / "quickstart"


def large(top):
    """What is above the limits: name -> lines, the largest files first, then the functions."""
    files, parts = {}, {}
    for path in sources(top):
        text = path.read_text()
        name, lines = path.relative_to(top).as_posix(), text.count("\n")
        if lines > FILE_LINES:
            files[name] = lines
        for f in functions.of(path):
            if f.last - f.first + 1 > FUNCTION_LINES:
                parts[f"{name} {f.name}()"] = f.last - f.first + 1
    return {name: n for some in (files, parts) for name, n in sorted(some.items(), key=lambda item: -item[1])}


def reasons(text):
    """Name -> reason, and the names that are there twice."""
    found, names, twice = {}, [], []
    for block in text.split("\n\n"):
        lines = [line for line in block.strip().split("\n") if not line.startswith("#")]
        names = [line[2:].strip() for line in lines if line.startswith("| ")]
        for name in names:
            twice += [name] if name in found else []
            found[name] = " ".join(line.strip() for line in lines if not line.startswith("| "))
    return found, twice


def faults(top, text):
    there, (why, twice) = large(top), reasons(text)
    return ([f"{name}: {n} lines, and no reason: split it, or say in sizes.txt why not" for name, n in there.items() if not why.get(name)] +
            [f"{name}: no longer above the limit, or gone: take it out of sizes.txt" for name in why if name not in there] +
            [f"{name}: twice in sizes.txt" for name in twice])


def main():
    text = REASONS.read_text()
    why, _ = reasons(text)
    by_reason = collections.defaultdict(list)
    for name, n in large(TOP).items():
        by_reason[why.get(name, "NO REASON")].append(f"{n:5} {name}")
    for reason, names in by_reason.items():
        print("\n".join(names) + f"\n      {reason}\n")
    found = faults(TOP, text)
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
