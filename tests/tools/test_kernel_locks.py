# SPDX-License-Identifier: GPL-2.0-or-later
"""A function of the module whose comment says under which lock it is called says so to lockdep as well."""
import pathlib
import re

import pytest

import functions

KERNEL = pathlib.Path(__file__).resolve().parents[2] / "kernel"
COMMENT = re.compile(r"/\*(?:(?!\*/).)*\*/\s*\Z", re.S)
ASSERTS = re.compile(r"lockdep_assert_held\w*\(")


def relying(text):
    """{function: does it assert the lock?} of those whose comment begins a sentence, or goes on, with "under" and a lock."""
    lines, found = text.split("\n"), {}
    for function in functions.of_c(text):
        comment = COMMENT.search("\n".join(lines[:function.first - 1]) + "\n")
        if comment and re.search(r"\b[Uu]nder\b[^.:]*\b(lock|mutex|\w+_mutex|rmutex|wmutex|\w+->lock)\b", re.sub(r"\s*\n \* ?", " ", comment.group())):
            found[function.name] = bool(ASSERTS.search(function.body))
    return found


def test_who_relies_on_a_lock_asserts_it():
    found = {}
    for path in sorted(KERNEL.glob("*.c")):
        found.update({f"{path.name}: {name}": asserted for name, asserted in relying(path.read_text()).items()})
    assert len(found) > 20
    assert [name for name, asserted in found.items() if not asserted] == []


@pytest.mark.parametrize("comment", ["/* Under the lock. */", "/* Does it. Under a->lock, at\n * the first resume. */", "/*\n * Under\n * ctl_mutex: no.\n */"])
def test_one_that_does_not_is_found(comment):
    assert relying(f"{comment}\nstatic void f(int a)\n{{\n\tg(a);\n}}\n") == {"f": False}
    assert relying(f"{comment}\nstatic void f(int a)\n{{\n\tlockdep_assert_held(&a->lock);\n}}\n") == {"f": True}


@pytest.mark.parametrize("comment", ["/* Any context. */", "/* Suspect regions are read under suspicion. */", "/* Under the lock. */\nint x;\n"])
def test_others_are_left_alone(comment):
    assert relying(f"{comment}\nstatic void f(int a)\n{{\n\tg(a);\n}}\n") == {}
