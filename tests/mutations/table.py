#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Prints doc/mutations.md: each safety rule, the ways in which it is broken on purpose, and the test that must notice.

    table.py >doc/mutations.md

test_table.py checks that the file is up to date, that every mutation still applies, and that
the tests that they name exist.
"""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
# Mutations that do not concern safety have the number 0, and come last.
RULES = {
    1: "A region is marked durably before a chunk of it is written; a write completes only when all members have it",
    2: "A mark is cleared only after close, end of writes, flush and a durable clear; after an error the region is resynced",
    3: "A failure of a member is agreed on and in the superblocks before the request that met it completes",
    4: "A member that the array needs stays in it",
    5: "A write (W) and an exclusive range (EX) never overlap",
    6: "A dead node is recovered only after its fencing",
    7: "A dead daemon does not prove that its node is dead; without a daemon writes stop in time, and marks stay",
    8: "Without quorum, or on a fenced node, nothing is granted and no I/O continues",
    9: "Reconstruction uses only members in sync; blocks that may be garbage are listed",
    10: "All input is checked",
    11: "The disks decide; unreadable counts as dirty; stale disks are refused",
    12: "A change is on disk before it is sent to other nodes, and sent before it takes effect in memory",
    0: "Settings take effect, and status shows the present state",
}
OPENING = """# Each safety rule, broken on purpose

Printed by `tests/mutations/table.py`; a test checks that this page is up to date. `*.mut` are changes of the state machine and the
formats; `tests/mutations/run` tries them, and prints how many seeds the simulator (`ddrsim`) needed. `kernel/` contains patches of the
module; `./quickstart drill mutations-kernel` tries them in virtual machines.
"""


def mutations():
    """(rules, name, what it breaks, the test that must notice) of every mutation."""
    for path in sorted(HERE.glob("*.mut")):
        text = path.read_text()
        rules, finder = re.search(r"^rule: (.*)\nfound-by: (.*)$", text, re.M).groups()
        kind, _, name = finder.partition(":")
        where = {"unit": f"tests/unit/{name}.c", "scenario": f"tests/scenarios/{name}.txt",
                 "ddrsim": f"tests/sim (ddrsim --nodes {name})" if name else "tests/sim (ddrsim)",
                 "daemons": f"tests/sim (ddrsim --daemon --nodes {name.replace(':', ' --finding ')})" if name else "tests/sim (ddrsim --daemon)"}[kind]
        yield [int(r) for r in rules.split(",")], path.stem, text.split("\n", 1)[0].lstrip("# "), where
    for path in sorted(HERE.glob("*/*.patch")):
        head = dict(re.findall(r"^(Rule|Breaks|Test): (.+)$", path.read_text().split("\n---")[0], re.M))
        yield [int(head["Rule"])], f"{path.parent.name}/{path.stem}", head["Breaks"], head["Test"]


def table():
    """The document."""
    out = [OPENING]
    for rule, text in RULES.items():
        rows = [m for m in mutations() if m[0][0] == rule]
        if not rows:
            continue
        out.append(f"\n## {f'Rule {rule}' if rule else 'Beside the rules'}: {text}\n\n| mutation | what it breaks | what must notice |\n| --- | --- | --- |\n")
        for rules, name, breaks, test in rows:
            also = "".join(f" (and rule {r})" for r in rules[1:])
            out.append(f"| `{name}` | {breaks}{also} | `{test}` |\n")
    return "".join(out)


if __name__ == "__main__":
    sys.stdout.write(table())
