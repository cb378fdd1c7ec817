# SPDX-License-Identifier: GPL-2.0-or-later
"""A single node is a group of one. Where the code asks for a cluster all the same, doc/protocol.md says why, and says how often."""
import collections
import pathlib
import re

TOP = pathlib.Path(__file__).resolve().parents[2]
# shared.cluster of the state machine, its configuration, and the transport's
ASKS = re.compile(r"\b(?:s|shared|cfg|transport)(?:->|\.)cluster\b(?! =[^=])")


def code(path):
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(), flags=re.S)
    return re.sub(r'"(\\.|[^"\\])*"', '""', text)


def asked():
    """How often each file asks, by file. What hands the answer on (.cluster = ..., s->cluster = ...) does not ask."""
    times = collections.Counter()
    for part in ("lib", "daemon", "cli"):
        for path in sorted((TOP / part).rglob("*.[ch]")):
            text = re.sub(r"\.cluster = [\w>.-]*cluster\b", "", re.sub(r"->cluster = cfg->cluster;", "", code(path)))
            times[str(path.relative_to(TOP))] += len(ASKS.findall(text))
    return +times


def table():
    text = (TOP / "doc/protocol.md").read_text()
    for files, times, what, why in re.findall(r"^\| (`(?:lib|daemon)/[^|]*`) \| (\d+) \| ([^|]+) \| ([^|]+) \|$", text, re.M):
        yield re.findall(r"`([^`]+)`", files), int(times), what.strip(), why.strip()


def test_each_place_that_asks_for_a_cluster_has_its_reason():
    listed = {name for files, _, _, _ in table() for name in files}
    assert listed == set(asked())
    for _, _, what, why in table():
        assert len(what.split()) >= 4 and len(why.split()) >= 8


def test_no_question_was_added():
    assert sum(times for _, times, _, _ in table()) == sum(asked().values())
