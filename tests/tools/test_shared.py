# SPDX-License-Identifier: GPL-2.0-or-later
"""What all nodes share is changed by what the group delivers alone. The compiler sees to that: each of these is a way to break it, and does not compile."""
import pathlib
import re
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
PUMP = '#include "lib/cluster/sm_int.h"\nvoid pump(struct ddr_sm *sm);\nvoid pump(struct ddr_sm *sm)\n{\n\t%s\n}\n'
HANDLER = '#include "lib/cluster/sm_order.h"\nvoid handler(struct ddr_sm_shared *s);\nvoid handler(struct ddr_sm_shared *s)\n{\n\t%s\n}\n'

ALLOWED = {
    "a pump reads what is shared": PUMP % "sm->own.reap_at = sm->shared.failed ? sm->shared.map[0] : 0;",
    "a pump writes what is its own": PUMP % "sm->own.drain[0].over = true;",
    "a handler writes what is shared": HANDLER % "s->failed = true; ddr_order_map(s)[0] = 1;",
}
BROKEN = {
    "a pump writes a field": (PUMP % "sm->shared.failed = true;", "read-only"),
    "a pump writes a node": (PUMP % "sm->shared.nodes[0].lost = true;", "read-only"),
    "a pump writes the map": (PUMP % "sm->shared.map[0] = 1;", "read-only"),
    "a pump writes a version of the map": (PUMP % "sm->shared.version[0].dur = 1;", "read-only"),
    "a pump clears a part": (PUMP % "memset(&sm->shared.change, 0, sizeof(sm->shared.change));", "qualifier"),
    "a pump calls a handler": (PUMP % "ddr_order_member_settle(&sm->shared);", "qualifier"),
    "a pump takes a pointer to write by": (PUMP % "struct ddr_sm_ex *x = sm->shared.ex; x->used = false;", "qualifier"),
    "a pump casts": (PUMP % "((struct ddr_sm_shared *)&sm->shared)->failed = true;", "cast"),
    "a handler looks at what only this node knows": (HANDLER % "s->failed = s->own.stopping;", "own"),
}


def compiled(text):
    return subprocess.run(["gcc", "-std=c11", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{TOP}", f"-I{TOP}/include", "-xc", "-"],
                          input=text, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("what", ALLOWED)
def test_what_is_allowed_compiles(what):
    done = compiled(ALLOWED[what])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("what", BROKEN)
def test_what_breaks_the_rule_does_not_compile(what):
    text, why = BROKEN[what]
    done = compiled(text)
    assert done.returncode != 0
    assert len(re.findall(r"\berror:", done.stderr)) == 1 and why in done.stderr, done.stderr


def test_the_pointer_to_write_by_comes_from_one_file():
    """It has a name of its own; all other code that has it was given it."""
    users = [p.name for p in sorted((TOP / "lib").rglob("*.c")) if re.search(r"(->|\.)in_order\b", p.read_text())]
    assert users == ["sm.c"]


def test_the_way_around_the_compiler_is_taken_where_it_is_said_alone():
    """A cast by way of an integer: to what is written by who may write (sm_order.h), to our part in it (sm_state.h, sm_ask.c), and in the codec (sm_state_codec.c)."""
    casts = {p.name: len(re.findall(r"\(uintptr_t\)", p.read_text())) for p in sorted((TOP / "lib/cluster").glob("*.[ch]"))}
    assert {name: n for name, n in casts.items() if n} == {"sm_ask.c": 1, "sm_order.h": 2, "sm_state_codec.c": 3, "sm_state.h": 2}
