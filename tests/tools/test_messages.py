# SPDX-License-Identifier: GPL-2.0-or-later
"""doc/messages.md is what the sources and doc/messages.txt make of it, and each error has a text."""
import pathlib
import re
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import messages  # noqa: E402


def test_the_document_is_up_to_date():
    assert (messages.TOP / "doc" / "messages.md").read_text() == messages.document(), "run tests/tools/messages.py >doc/messages.md"


def test_each_message_has_its_entry():
    lines, gone = messages.missing(messages.everything(), *messages.advice())
    assert not lines, "doc/messages.txt needs an entry (| what to do, or = a part that only informs) for:\n" + "\n".join(lines)
    assert not gone, "doc/messages.txt has entries of messages that no longer exist:\n" + "\n".join(gone)


def test_an_entry_that_lacks_and_one_that_is_stale_are_noticed():
    everything = [(None, [("a.c", "no room for N bytes", True), ("a.c", "is full", None), ("a.c", "began", False)])]
    assert messages.missing(everything, {"no room for N bytes": "do"}, {"is full"}) == ([], [])
    lines, gone = messages.missing(everything, {"no place for N bytes": "do"}, set())
    assert lines == ["a.c: no room for N bytes (was: no place for N bytes)", "a.c: is full"] and gone == ["no place for N bytes"]


def test_each_kind_is_found():
    for group, rows in messages.everything():
        assert rows, f"{group.title}: none is found any more"


@pytest.mark.parametrize("source, place", [
    ('f(a, "x y")', "f"), ('if (a) return "x y"', ""), ('g(b ? "x y" : c)', "g"), ('static struct t list[] = { { 1, "x y" } };', "static struct t list[] "),
    ('int f(void) { x = "x y"; }', "int f(void) { x "),
])
def test_the_place_of_a_text_is_found(source, place):
    assert messages.enclosing(source, source.index('"x y"')) == place


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


def commands():
    """Name -> usage of each ddraid command, as cli/main.c has them."""
    text = (messages.TOP / "cli" / "main.c").read_text()
    table = text[text.index("commands[] = {"):text.index("#define N_COMMANDS")]
    rows = re.findall(r'\{ "([a-z-]+)",\s*((?:"[^"]*"\s*)+),', table)
    return {name: "".join(re.findall(r'"([^"]*)"', usage)) for name, usage in rows}


def wrong_commands(text):
    """Commands in backquotes that a text tells the reader to type, and that ddraid does not have."""
    known, wrong = commands(), []
    for typed in re.findall(r"`ddraid ([^`]*)`", text):
        name, *rest = typed.split()
        options = [word for word in rest if word.startswith("--") and word != "--help"]
        if name not in known and name not in ("help", "COMMAND") or any(option not in known.get(name, "") for option in options):
            wrong.append(typed)
    return wrong


def test_the_advice_names_commands_and_options_that_exist():
    assert len(commands()) > 15
    assert wrong_commands(messages.ADVICE.read_text()) == []


def test_a_command_that_does_not_exist_is_noticed():
    assert wrong_commands("`ddraid heal NAME`, `ddraid add NAME DEV --rebuild`, `ddraid add NAME DEV`") == ["heal NAME", "add NAME DEV --rebuild"]
