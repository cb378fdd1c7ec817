#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Prints doc/messages.md: the messages of the module, the daemon and the command, with what to do for each error.

    messages.py >doc/messages.md

The messages are read from the sources. What to do is written by hand in doc/messages.txt: one or more lines that
begin with "| ", each a message as this program prints it, then the text for all of them, then an empty line.
test_messages.py sees that doc/messages.md is up to date, that each error of the module and the daemon's log has a text, and that
no text is left of a message that exists no longer.
"""
import difflib
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

    def __init__(self, title, text, files, calls, errors=None, complete=False):
        self.title, self.text, self.files, self.calls = title, text, files, calls
        self.errors = errors or (lambda name, arguments: True)
        self.complete = complete        # each error has to have a text


def is_logged_error(name, arguments):
    return not re.fullmatch(r"LOG_(INFO|NOTICE|DEBUG)", arguments[0])


EVENTS = "daemon/array/events.c"
GROUPS = (
    Group("Events of an array", "`ddraid events` prints them, and the daemon's log has them behind `array '…': `. ddraid(8) explains their fields.",
          [], {}, None, True),
    Group("Kernel module: log", "In the kernel's log (`journalctl -k`), behind `device-mapper: ddraid: `. The first `…` names the array.",
          ["kernel/*.c"], {"DMCRIT": 0, "DMERR": 0, "DMERR_LIMIT": 0, "DMWARN": 0, "DMWARN_LIMIT": 0, "DMINFO": 0},
          lambda name, arguments: name != "DMINFO", True),
    Group("Kernel module: tables that are refused", "In the kernel's log, behind `device-mapper: table: MAJOR:MINOR: ddraid: `. `ddraid start` makes the "
          "tables itself; with a table of your own, see dm-ddraid(7).", ["kernel/*.c"], {"error =": 0}, None, True),
    Group("Daemon: log", "In the daemon's log (`journalctl -u ddraidd`).", ["daemon/**/*.c", "daemon/*.c"], {"qb_log": 1}, is_logged_error, True),
    Group("Daemon: at its start", "On standard error, which systemd keeps in the journal, behind `ddraidd: `.", ["daemon/**/*.c", "daemon/*.c"],
          {"fprintf": 1}, lambda name, arguments: arguments[0] == "stderr", True),
    Group("Daemon: faults in ddraid", "In the text of event bug.", ["lib/cluster/*.c"], {"ddr_sm_bug": 1}),
    Group("Daemon: reasons of events", "In the text of an event, most of event refused and event failed.", ["lib/cluster/*.c", "daemon/**/*.c"],
          {"ddr_sm_event": 2, "ddr_sm_evict": 1, "ddr_sm_give_up": 1, "ddr_event_plain": 3}),
    Group("Daemon: answers to the command", "`ddraid` prints them behind its own name.", ["daemon/**/*.c", "daemon/*.c"],
          {"ddr_client_error": 1, "refuse": 3, "ddr_drive_break": 1}),
    Group("Library: reasons", "They appear within messages of the daemon and of the command.", ["lib/**/*.c", "daemon/**/*.c", "daemon/*.c"],
          {"ddr_error_set": 1, "ddr_error_prefix": 1}),
    Group("Command: errors", "On standard error, behind `ddraid COMMAND: `.", ["cli/*.c"], {"cli_fail": 1, "cli_warn": 1}),
    Group("Command: wrong use", "On standard error, followed by the usage; exit code 2.", ["cli/*.c"], {"cli_usage": 1}),
)


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
                                  path.read_text(encoding="utf-8"), re.M))
    out = {name: value for name, value in out.items() if '"' in value}
    return {name: re.sub(r'"(?:[^"\\]|\\.)*"|\w+', lambda m: out.get(m.group(), m.group()), value) for name, value in out.items()}


MACROS = string_macros()


def literals(expression):
    """The texts that an expression may be: one, or both of a conditional. Adjacent literals are one text."""
    expression = re.sub(r'"(?:[^"\\]|\\.)*"|\b\w+\b', lambda m: MACROS.get(m.group(), m.group()), expression)
    out, end = [], None
    for match in LITERAL.finditer(expression):
        piece = match.group(1) if match.group(1) is not None else "u"       # PRIu64 and the like stand behind a %
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


def events():
    """Those of arrays, with their names as messages."""
    path = TOP / EVENTS
    found = {}
    for name, priority in re.findall(r'\{ "([\w-]+)", (LOG_\w+)', path.read_text(encoding="utf-8")):
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
    """What to do, by message."""
    out = {}
    for block in re.split(r"\n\s*\n", ADVICE.read_text(encoding="utf-8")):
        lines = [line for line in block.splitlines() if line.strip() and not line.startswith("#")]
        names = [line[2:].strip() for line in lines if line.startswith("| ")]
        text = " ".join(line.strip() for line in lines if not line.startswith("| "))
        for name in names:
            if name in out or not text:
                raise SystemExit(f"{ADVICE.name}: {name}: {'twice' if name in out else 'no text'}")
            out[name] = text
    return out


def missing(known):
    """Errors that must have a text and have none, each with the text of a message that is gone and looks like it."""
    present = {message for group in GROUPS for _, message, _ in messages(group)}
    gone = [name for name in known if name not in present]
    lines = []
    for group in GROUPS:
        for file, message, error in messages(group):
            if group.complete and error and message not in known:
                near = difflib.get_close_matches(message, gone, n=1, cutoff=0.5)
                lines.append(f"{file}: {message}" + (f" (was: {near[0]})" if near else ""))
    return lines, gone


def cell(text):
    return text.replace("|", "\\|").replace("<", "&lt;")


def document():
    known = advice()
    out = [OPENING]
    for group in GROUPS:
        rows = messages(group)
        errors = [(file, message) for file, message, error in rows if error]
        without = sum(message not in known for _, message in errors)
        out.append(f"\n## {group.title}\n\n{group.text}\n")
        if without:
            out.append(f"What to do is not written yet for {without} of these {len(errors)} messages; most name the cause and the remedy themselves.\n")
        out.append("\n| message | what to do | source |\n| --- | --- | --- |\n")
        out += [f"| `{cell(message)}` | {known.get(message, '')} | {file} |\n" for file, message in errors]
        other = [(file, message) for file, message, error in rows if not error]
        if other:
            out.append("\nFor information; nothing to do:\n\n")
            out += [f"- `{message}` ({file})\n" for file, message in other]
    return "".join(out)


if __name__ == "__main__":
    sys.stdout.write(document())
