#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes the tables of the state machine's small machines into doc/protocol.md, from the lists in lib/cluster/sm_cells.h that the code runs by.

    cells.py            prints them
    cells.py --write    puts them into the document

test_cells.py sees that the document has them as they are.
"""
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
LISTS = TOP / "lib/cluster/sm_cells.h"
DOCUMENT = TOP / "doc/protocol.md"
BEGIN, END = "<!-- cells.py: from here -->\n", "<!-- cells.py: to here -->\n"
TITLES = {
    "RANGE": "A range of ours (Ranges)",
    "WORK": "A region in resync (Works)",
    "FIX": "The repair of a place (Verify, and repair in place)",
    "WRITE": "The write of a block of our log, or of the map (No space; The map)",
    "TRANS": "Our part in a change of the superblocks (Members)",
}


def word(name):
    return name.lower().replace("_", " ")


def cells():
    """machine, state, event, next state, what happens: in the order of the lists."""
    code = LISTS.read_text(encoding="utf-8")
    found = re.findall(r'^\tC\((\w+), (\w+), (\w+), (\w+), "([^"]*)"\)', code, re.M)
    if len(found) != len(re.findall(r"^\tC\(", code, re.M)):
        raise SystemExit(f"{LISTS}: a cell that is not understood")
    return found


def names(machine, kind):
    """The states (STATES, S) or events (EVENTS, E) of a machine."""
    code = LISTS.read_text(encoding="utf-8")
    text = re.search(rf"^#define DDR_{kind}_{machine}\({kind[0]}\) \\\n((?:\t.*\n)+?)(?=\S|\n)", code, re.M).group(1)
    return re.findall(rf"\b{kind[0]}\((\w+)\)", text)


def tables():
    out = []
    for machine, title in TITLES.items():
        out += [f"### {title}\n", "| state | event | next state | what happens |", "| --- | --- | --- | --- |"]
        out += [f"| {word(state)} | {word(event)} | {word(to)} | {text} |" for m, state, event, to, text in cells() if m == machine]
        out.append("")
    return "\n".join(out)


def parts():
    text = DOCUMENT.read_text(encoding="utf-8")
    return text[:text.index(BEGIN) + len(BEGIN)], text[text.index(BEGIN) + len(BEGIN):text.index(END)], text[text.index(END):]


def main():
    if sys.argv[1:] == ["--write"]:
        before, _, after = parts()
        DOCUMENT.write_text(before + tables() + after, encoding="utf-8")
    else:
        print(tables(), end="")


if __name__ == "__main__":
    main()
