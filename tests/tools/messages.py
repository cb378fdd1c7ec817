#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Prints doc/messages.md: the messages of the module, the daemon and the command, with what to do for each error.

    messages.py >doc/messages.md

The messages are read from the sources. A text of two or more words is a message if a function that reports takes it (GROUPS). All other
texts of two or more words may become part of a message (PARTS), except those that are output or help (OUTPUT, HELP).

What to do is written by hand in doc/messages.txt: one or more lines that begin with "| ", each a message as this program prints it, then the
text for all of them, then an empty line. A line that begins with "= " names a part that only informs. test_messages.py fails if doc/messages.md
is out of date, if an error or a part has no entry, or if an entry names a message that no longer exists.
"""
import difflib
import functools
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
ADVICE = TOP / "doc" / "messages.txt"

LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"|\b(PRI[a-zA-Z0-9]+)\b')
FORMAT = re.compile(r"%[-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh|h|ll|l|z|j)?([a-zA-Z%])")
OPENING = """# Messages

Printed by `tests/tools/messages.py` from the sources and from `messages.txt`, where what to do is written by hand; a test compares.
`…` stands for a text (a name, a device, a reason), `N` for a number. Search for a part of the message that has neither.

A message that begins with `array '…'` concerns that array alone. `ddraid status` shows its state, `ddraid events` what happened to it,
`journalctl -u ddraidd` what the daemon logged, and `journalctl -k` what the kernel module logged.
"""


class Group:
    """Messages of one kind: where they appear, which calls in which files make them, and which of these are errors."""

    def __init__(self, title, text, files, calls, errors=None):
        self.title, self.text, self.files, self.calls = title, text, files, calls
        self.errors = errors or (lambda name, arguments: True)


def is_logged_error(name, arguments):
    return not re.fullmatch(r"LOG_(INFO|NOTICE|DEBUG)", arguments[0])


EVENTS = "daemon/array/events.c"
GROUPS = (
    Group("Events of an array", "`ddraid events` prints them, and the daemon's log has them behind `array '…': `. ddraid(8) explains their fields.",
          [], {}),
    Group("Kernel module: log", "In the kernel's log (`journalctl -k`), behind `device-mapper: ddraid: `. The first `…` names the array.",
          ["kernel/*.c"], {"DMCRIT": 0, "DMERR": 0, "DMERR_LIMIT": 0, "DMWARN": 0, "DMWARN_LIMIT": 0, "DMINFO": 0},
          lambda name, arguments: name != "DMINFO"),
    Group("Kernel module: tables that are refused", "In the kernel's log, behind `device-mapper: table: MAJOR:MINOR: ddraid: `. `ddraid start` makes the "
          "tables itself; with a table of your own, see dm-ddraid(7).", ["kernel/*.c"], {"error =": 0, "ddr_bad": 1}),
    Group("Daemon: log", "In the daemon's log (`journalctl -u ddraidd`).", ["daemon/**/*.c", "daemon/*.c"], {"qb_log": 1}, is_logged_error),
    Group("Daemon: at its start", "On standard error, which systemd keeps in the journal, behind `ddraidd: `.", ["daemon/**/*.c", "daemon/*.c"],
          {"fprintf": 1}, lambda name, arguments: arguments[0] == "stderr"),
    Group("Daemon: faults in ddraid", "In the text of event bug.", ["lib/cluster/*.c"], {"ddr_sm_bug": 1}),
    Group("Daemon: reasons of events", "In the text of an event, most of event refused and event failed.", ["lib/cluster/*.c", "daemon/**/*.c"],
          {"ddr_sm_event": 2, "ddr_sm_evict": 1, "ddr_sm_give_up": 1, "ddr_event_plain": 3}, lambda name, arguments: None),
    Group("Daemon: answers to the command", "`ddraid` prints them behind its own name.", ["daemon/**/*.c", "daemon/*.c"],
          {"ddr_client_error": 1, "refuse": 3, "ddr_drive_break": 1}),
    Group("Library: reasons", "They appear within messages of the daemon and of the command.", ["lib/**/*.c", "daemon/**/*.c", "daemon/*.c"],
          {"ddr_error_set": 1, "ddr_error_call": 2, "ddr_error_prefix": 1}),
    Group("Command: errors", "On standard error, behind `ddraid COMMAND: `.", ["cli/*.c"], {"cli_fail": 1, "cli_warn": 1}),
    Group("Command: wrong use", "On standard error, followed by the usage; exit code 2.", ["cli/*.c"], {"cli_usage": 1}),
)

PARTS = (
    Group("Kernel module: parts", "They appear within messages of the module.", ["kernel/*.[ch]"], {}),
    Group("State machine: parts", "They appear within events, within what an array `waits` for (`ddraid status`), and within answers to the command.",
          ["lib/cluster/*.[ch]"], {}),
    Group("Library: parts", "They appear within messages of the daemon and of the command.", ["include/**/*.h", "lib/**/*.[ch]"], {}),
    Group("Daemon: parts", "They appear within events, within the daemon's log, and within answers to the command.", ["daemon/**/*.[ch]"], {}),
    Group("Command: parts", "They appear within what `ddraid` prints.", ["cli/*.[ch]"], {}),
)
# Texts that these functions take are no messages: they are output, are compared, are for programs, or name a fault in the code. C() is a row of the tables in doc/protocol.md.
OUTPUT = re.compile(r"printf|puts|str(n?casen?)?n?cmp|strstr|strpbrk|strspn|f?s?scanf|DMEMIT|seq_printf|TP_printk|TRACE_\w+|MODULE_\w+|module_param\w*|sd_notify|"
                    r"json_object_\w+|static_assert|_Static_assert|BUILD_BUG_ON\w*|WARN_ONCE|__attribute__|fopen|system|C")
# Nor are the texts in tables of these types: they are help.
HELP = re.compile(r"struct (cli_command|ddr_option)\b")


def arguments_at(text, at):
    """The arguments of a call whose parenthesis is at @at, and what follows it."""
    depth, start, out, i = 0, at + 1, [], at
    while i < len(text):
        c = text[i]
        if c == '"' or c == "'":
            i += 1
            while text[i] != c:
                i += 2 if text[i] == "\\" else 1
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
            if depth == 0:
                return out + [text[start:i].strip()]
        elif c == "," and depth == 1:
            out.append(text[start:i].strip())
            start = i + 1
        i += 1
    return out


def string_macros():
    """Macros that are a text."""
    out = {}
    for pattern in ("include/**/*.h", "lib/**/*.[ch]", "daemon/**/*.[ch]", "cli/*.[ch]", "kernel/*.[ch]"):
        for path in TOP.glob(pattern):
            out.update(re.findall(r'^#define\s+(\w+)\s+((?:"(?:[^"\\]|\\.)*"|[A-Z_]+)(?:\s+(?:"(?:[^"\\]|\\.)*"|[A-Z_]+))*)\s*(?:/\*.*)?$',
                                  path.read_text(encoding="utf-8").replace("\\\n", " "), re.M))
    out = {name: value for name, value in out.items() if '"' in value}
    return {name: re.sub(r'"(?:[^"\\]|\\.)*"|\w+', lambda m: out.get(m.group(), m.group()), value) for name, value in out.items()}


MACROS = string_macros()


def literals(expression):
    """The texts that an expression may be: one, or both of a conditional. Adjacent literals are one text."""
    expression = re.sub(r'"(?:[^"\\]|\\.)*"|\b\w+\b', lambda m: MACROS.get(m.group(), m.group()), expression)
    out, end = [], None
    for match in LITERAL.finditer(expression):
        piece = match.group(1) if match.group(1) is not None else "u"       # PRIu64 and the like follow a %
        if end is not None and not expression[end:match.start()].strip():
            out[-1] += piece
        elif match.group(1) is not None:
            out.append(piece)
        else:
            continue
        end = match.end()
    return out


def shown(text):
    """A format as people read it."""
    text = text.replace('\\"', '"').replace("\\n", " ").replace("\\t", " ").replace("\\\\", "\\").strip()
    return FORMAT.sub(lambda m: {"%": "%", "s": "…", "c": "…"}.get(m.group(1), "N"), text)


def enclosing(text, at):
    """The function call whose argument is at @at, or the declaration whose initializer is."""
    depth = 0
    for i in range(at - 1, -1, -1):
        c = text[i]
        if c in ")}]":
            depth += 1
        elif c in "({[" and depth:
            depth -= 1
        elif c == "(":
            name = re.search(r"\w+$", text[max(0, i - 60):i].rstrip())
            if name and name.group() not in ("if", "return", "while"):
                return name.group()
        elif c == "{" and not text[:i].rstrip().endswith(("=", ",", "{")):
            return ""
        elif c == "=" and not depth and re.search(r"[\w\]]\s*$", text[max(0, i - 60):i]) and text[i + 1:i + 2] != "=":
            return text[text.rfind("\n", 0, i) + 1:i]
        elif c == ";" and not depth:
            return ""
    return ""


def code(path):
    """A file without comments and string macros (which show where they are used); its literals masked, so that brackets in them do not count."""
    text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.S).replace("\\\n", " ")
    text = re.sub(r"^#\s*include.*$", "", text, flags=re.M)
    text = re.sub(r"^#define\s+(\w+)\s.*$", lambda m: "" if m.group(1) in MACROS else m.group(), text, flags=re.M)
    return text


def is_text(message):
    """Two words or more, not counting placeholders."""
    return re.search(r"[A-Za-z]{2}.* .*[a-z]{2}", re.sub(r"\b[NU]\b|…", "", message)) is not None


def parts(group, elsewhere):
    """(file, message) of the texts that no group has."""
    word = r"(?:\"(?:[^\"\\\n]|\\.)*\"|\bPRI\w+\b|" + "|".join(rf"\b{name}\b" for name in sorted(MACROS, key=len, reverse=True)) + ")"
    found = {}
    for path in sorted({p for pattern in group.files for p in TOP.glob(pattern)}):
        text = code(path)
        masked = re.sub(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)+'", lambda m: m.group()[0] + "x" * (len(m.group()) - 2) + m.group()[0], text)
        for match in re.finditer(rf"{word}(?:\s*{word})*", text):
            place = None
            for message in literals(match.group()):
                message = shown(message).removeprefix("ddraidd: ")
                if message in elsewhere or message in found or not is_text(message):
                    continue
                place = enclosing(masked, match.start()) if place is None else place
                if not OUTPUT.fullmatch(place) and not HELP.search(place):
                    found[message] = str(path.relative_to(TOP))
    elsewhere.update(found)
    return sorted(((file, message) for message, file in found.items()))


def events():
    """Those of arrays, with their names as messages."""
    path = TOP / EVENTS
    found = {}
    for name, priority in re.findall(r'\{ \.name = "([\w-]+)", \.priority = (LOG_\w+)', path.read_text(encoding="utf-8")):
        found[name] = found.get(name, False) or is_logged_error("", [priority])
    return [(EVENTS, f"event {name}", error) for name, error in sorted(found.items())]


def messages(group):
    """(file, message, is it an error) of each message of a group; each message once."""
    if not group.calls:
        return events()
    found = {}
    paths = sorted({p for pattern in group.files for p in TOP.glob(pattern)})
    for path in paths:
        text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.S)
        for name, index in group.calls.items():
            if name.endswith("="):
                sites = [(m.end(), [m.group(1)]) for m in re.finditer(rf"\b{re.escape(name)}\s*((?:\"(?:[^\"\\]|\\.)*\"\s*)+)", text)]
            else:
                sites = [(m.end(), arguments_at(text, m.end() - 1)) for m in re.finditer(rf"\b{name}\(", text)]
            for _, arguments in sites:
                if len(arguments) <= index or (name == "fprintf" and arguments[0] != "stderr"):
                    continue
                for message in literals(arguments[index]):
                    message = shown(message).removeprefix("ddraidd: ")
                    if not re.search(r"[a-z]{2}", message):
                        continue
                    error = found.get(message, (None, False))[1] or group.errors(name, arguments)
                    found.setdefault(message, (str(path.relative_to(TOP)), error))
                    found[message] = (found[message][0], error)
    return [(file, message, error) for message, (file, error) in sorted(found.items(), key=lambda item: (item[1][0], item[0]))]


def advice():
    """What to do, by message; and the parts that only inform."""
    out, informs = {}, set()
    for block in re.split(r"\n\s*\n", ADVICE.read_text(encoding="utf-8")):
        lines = [line for line in block.splitlines() if line.strip() and not line.startswith("#")]
        names = [line[2:].strip() for line in lines if line.startswith("| ")]
        quiet = [line[2:].strip() for line in lines if line.startswith("= ")]
        text = " ".join(line.strip() for line in lines if not line.startswith(("| ", "= ")))
        for name in names + quiet:
            if name in out or name in informs or (name in names) != bool(text):
                raise SystemExit(f"{ADVICE.name}: {name}: " + ("twice" if name in out or name in informs else "no text, or one that belongs to none"))
        out.update((name, text) for name in names)
        informs.update(quiet)
    return out, informs


@functools.cache
def everything():
    """(group, [(file, message, is it an error; None: the entry says so)]) of all groups."""
    out = [(group, messages(group)) for group in GROUPS]
    elsewhere = {message for _, rows in out for _, message, _ in rows}
    # the state machine's parts come before those of the whole library
    return out + [(group, [(file, message, None) for file, message in parts(group, elsewhere)]) for group in PARTS]


def missing(all_messages, known, informs):
    """Messages without the entry that they need, each with the name of an entry that is stale and looks like it; and the stale entries."""
    present = {message for _, rows in all_messages for _, message, _ in rows}
    gone = [name for name in [*known, *sorted(informs)] if name not in present]
    lines = []
    for _, rows in all_messages:
        for file, message, error in rows:
            if message not in known and (error or (error is None and message not in informs)):
                near = difflib.get_close_matches(message, gone, n=1, cutoff=0.5)
                lines.append(f"{file}: {message}" + (f" (was: {near[0]})" if near else ""))
    return lines, gone


def cell(text):
    return text.replace("|", "\\|").replace("<", "&lt;")


def document():
    known, _ = advice()
    out = [OPENING]
    for group, rows in everything():
        errors = [(file, message) for file, message, error in rows if error or (error is None and message in known)]
        other = [(file, message) for file, message, error in rows if (file, message) not in errors]
        out.append(f"\n## {group.title}\n\n{group.text}\n")
        if errors:
            out.append("\n| message | what to do | source |\n| --- | --- | --- |\n")
            out += [f"| `{cell(message)}` | {known.get(message, '')} | {file} |\n" for file, message in errors]
        if other:
            out.append("\nFor information; nothing to do:\n\n")
            out += [f"- `{message}` ({file})\n" for file, message in other]
    return "".join(out)


if __name__ == "__main__":
    sys.stdout.write(document())
