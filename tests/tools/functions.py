# SPDX-License-Identifier: GPL-2.0-or-later
"""The functions of a source in C (kernel style), Python or shell: their names, their lines, their bodies. For the other tools here.

In C a function is what has its brace in the first column, or begins there and ends in the same line. In shell it ends with a brace in the first column.
"""
import ast
import collections
import re

Function = collections.namedtuple("Function", "name first last body")      # lines from 1; body: without comments and texts, else empty

HIDDEN = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])+'", re.S)
NAME = re.compile(r"\b(?!(?:__attribute__|__printf|__releases|__acquires)\b)([A-Za-z_]\w*)[ \t]*\(")
ONE_LINE = re.compile(r"^[A-Za-z_][^=;{]*?\b([A-Za-z_]\w*)\([^{};]*\)\s*\{.*\}$")


def plain(text):
    """@text without comments, and with empty texts; each character keeps its line."""
    return HIDDEN.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def of_c(text):
    lines = plain(text).split("\n")
    found = []
    for at, line in enumerate(lines):
        one = ONE_LINE.match(line)
        if one:
            found.append(Function(one.group(1), at + 1, at + 1, line[line.index("{"):]))
        if line.rstrip() != "{":
            continue
        head = at
        while head and lines[head - 1].strip() and not re.search(r"[;}]\s*$", lines[head - 1]) and not lines[head - 1].startswith("#"):
            head -= 1
        name = NAME.search(" ".join(lines[head:at]))
        end = next((i for i in range(at + 1, len(lines)) if lines[i].startswith("}")), None)
        if name and end is not None:
            found.append(Function(name.group(1), head + 1, end + 1, "\n".join(lines[at:end + 1])))
    return found


def of_python(text):
    return [Function(node.name, node.lineno, node.end_lineno, "") for node in ast.walk(ast.parse(text))
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]


def of_shell(text):
    lines, found = text.split("\n"), []
    for at, line in enumerate(lines):
        head = re.match(r"(?:function )?([\w-]+)\(\)[ \t]*[{(]?", line)
        if head:
            end = at if re.search(r"[})]\s*$", line) and "{" in line else next((i for i in range(at + 1, len(lines)) if lines[i].startswith(("}", ")"))), at)
            found.append(Function(head.group(1), at + 1, end + 1, ""))
    return found


def of(path):
    text = path.read_text()
    if path.suffix in (".c", ".h"):
        return of_c(text)
    return of_python(text) if path.suffix == ".py" else of_shell(text)


def declared(text):
    """What a header in C declares, or defines."""
    lines, own = plain(text).split("\n"), of_c(text)
    for f in own:
        lines[f.first - 1:f.last] = [""] * (f.last - f.first + 1)
    outside = re.sub(r"^#.*(\\\n.*)*", "", "\n".join(lines), flags=re.M)
    return {f.name for f in own} | set(re.findall(r"\b([A-Za-z_]\w*)\([^()]*(?:\([^()]*\)[^()]*)*\)\s*;", outside))
