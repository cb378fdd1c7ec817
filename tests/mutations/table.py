#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Prints doc/mutations.md: each safety rule, the ways in which it is broken on purpose, and who notices.

    table.py >doc/mutations.md

test_table.py sees that the file is up to date, that every mutation still applies, and that
the tests that they name exist.
"""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
RULES = {
    1: "Marked durably before a chunk is submitted; completed only when all members have it",
    2: "A mark goes only after close, end, flush, durable clear; an error means resync",
    3: "A member that failed is out, agreed and in the superblocks, before the request completes",
    4: "A member that the array cannot do without stays",
    5: "W and EX never overlap",
    6: "A dead node is recovered after its fencing",
    7: "A dead daemon is no proof; without one writes stop in time; marks stay",
    8: "Without quorum, or fenced: nothing is granted and nothing goes on",
    9: "Reconstruction uses only what is in sync; what may be garbage is listed",
    10: "All input is checked",
    11: "The truth is on disk; unreadable means dirty; stale is refused",
    12: "On disk before on the wire before in memory",
}
OPENING = """# Each safety rule, broken on purpose

Printed by `tests/mutations/table.py`; a test compares. `*.mut` are changes of the state machine and the formats, tried by
`tests/mutations/run` (which prints how many seeds the simulator, `ddrsim`, took); `kernel/` holds patches, tried by
`./quickstart drill mutations-kernel` in virtual machines.
"""


def mutations():
    """(rules, name, what it breaks, who must notice) of every mutation."""
    for path in sorted(HERE.glob("*.mut")):
        text = path.read_text()
        rules, finder = re.search(r"^rule: (.*)\nfound-by: (.*)$", text, re.M).groups()
        kind, _, name = finder.partition(":")
        where = {"unit": f"tests/unit/{name}.c", "scenario": f"tests/scenarios/{name}.txt",
                 "ddrsim": f"tests/sim (ddrsim --nodes {name})" if name else "tests/sim (ddrsim)"}[kind]
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
        out.append(f"\n## Rule {rule}: {text}\n\n| mutation | what it breaks | who must notice |\n| --- | --- | --- |\n")
        for rules, name, breaks, test in rows:
            also = "".join(f" (and rule {r})" for r in rules[1:])
            out.append(f"| `{name}` | {breaks}{also} | `{test}` |\n")
    return "".join(out)


if __name__ == "__main__":
    sys.stdout.write(table())
