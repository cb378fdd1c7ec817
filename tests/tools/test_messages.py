# SPDX-License-Identifier: GPL-2.0-or-later
"""doc/messages.md is what the sources and doc/messages.txt make of it, and each error has a text."""
import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import messages  # noqa: E402


def test_the_document_is_up_to_date():
    assert (messages.TOP / "doc" / "messages.md").read_text() == messages.document(), "run tests/tools/messages.py >doc/messages.md"


def test_each_error_says_what_to_do():
    lines, gone = messages.missing(messages.advice())
    assert not lines, "write in doc/messages.txt what to do for:\n" + "\n".join(lines)
    assert not gone, "doc/messages.txt has texts of messages that exist no longer:\n" + "\n".join(gone)


def test_each_kind_is_found():
    for group in messages.GROUPS:
        assert messages.messages(group), f"{group.title}: none is found any more"


@pytest.mark.parametrize("expression, texts", [
    ('"%s: a" " b"', ["…: a b"]),
    ('ok ? "one %u" : "two"', ["one N", "two"]),
    ('"process %" PRIu32 " of %.*s"', ["process N of …"]),
    ('"100 %% of 0x%llx"', ["100 % of 0xN"]),
    ('fmt', []),
])
def test_formats_are_read(expression, texts):
    assert [messages.shown(t) for t in messages.literals(expression)] == texts


def test_arguments_are_split():
    assert messages.arguments_at('f(a, "b, (\\"", g(c, d)) + 1', 1) == ["a", '"b, (\\""', "g(c, d)"]
