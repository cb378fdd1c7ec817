#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Finds one test by its name, and runs it: what `./quickstart test NAME` calls.

    one.py list                     all names
    one.py needs NAME               what has to be built for it: "programs TARGET...", "stage", "machines", or "drill DRILL"
    one.py run NAME [ARGUMENT...]   runs it; the arguments go to the program, pytest or drill

The names, and what they stand for:

    test-sm, sm                     a program of tests/unit, tests/fuzz, tests/scenarios or tests/sim
    test-sm:CASE, CASE              one case of a unit test program
    03-two-nodes                    a scenario: a file of tests/scenarios
    seed-17                         a seed of the simulator; arguments as in: seed-17 --nodes 3 --trace
    test_create.py, CASE            a file below tests/ that pytest runs, or one case; [PARAMETERS] may follow
    01-grant-before-durable         a mutation: the test that must notice it is run with and without it
    kernel/fua-dropped              the same for the kernel module
    cluster_node                    a drill

A path works too (tests/unit/test-sm.c). A name that several tests have is answered with the full name of each, an unknown
one with those that are near. Exit code: that of the test; 2: no such test, or several.
"""
import ast
import difflib
import os
import pathlib
import re
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("DDRAID_BUILDDIR", TOP / "build"))
PROGRAM = re.compile(r"\btests/(?:unit|fuzz|scenarios|sim)/[\w-]+(?=\s|$)")
CASE = re.compile(r"^static void (\w+)\(void \*\*\w+\)\n\{", re.M)
GUESTS = ("tests/vm",)


class Test:
    """kind, full name, the short names that it answers to, and what runs it."""

    def __init__(self, kind, name, aliases, **how):
        self.kind, self.name, self.aliases, self.how = kind, name, {name, *aliases}, how

    def needs(self):
        if self.kind in ("program", "case"):
            return "programs " + self.how["program"]
        if self.kind == "scenario":
            real = " daemons=1\n" in (TOP / self.how["file"]).read_text()
            return "programs tests/scenarios/run" + (" tests/sim/ddrsim-daemon" if real else "")
        if self.kind == "mutation":
            return "programs"
        if self.kind in ("drill", "kernel mutation"):
            return f"drill {self.how['drill']}"
        return "machines" if self.how["file"].startswith(GUESTS) else "stage"

    def command(self, arguments):
        how = self.how
        if self.kind in ("program", "case"):
            return [str(BUILD / how["program"]), *how.get("arguments", []), *arguments]
        if self.kind == "scenario":
            return [str(BUILD / "tests/scenarios/run"), *arguments, str(TOP / how["file"])]
        if self.kind == "mutation":
            return ["/usr/bin/python3", str(TOP / "tests/mutations/run"), *arguments, how["mutation"]]
        if self.kind in ("drill", "kernel mutation"):
            return ["/usr/bin/python3", str(TOP / f"tests/drills/{how['drill']}.py"), *how.get("arguments", []), *arguments]
        return ["/usr/bin/python3", "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rA", *arguments, str(TOP / how["file"]) + how.get("case", "")]


def programs():
    """The test programs that the makefiles name, and the cases of those that use cmocka."""
    text = (TOP / "Makefile.am").read_text() + "".join(p.read_text() for p in sorted(TOP.glob("tests/*/Makefile.inc")))
    names = set()
    for line in re.findall(r"^check_PROGRAMS \+?=((?:.*\\\n)*.*)$", text, re.M):
        names.update(PROGRAM.findall(line))
    for name in sorted(names):
        short = name.rpartition("/")[2]
        yield Test("program", name, {short, short.removeprefix("test-"), f"{name}.c"}, program=name)
        source = TOP / f"{name}.c"
        for case in CASE.findall(source.read_text()) if source.exists() else ():
            yield Test("case", f"{short}:{case}", {case, f"{name}:{case}", f"{name}.c:{case}"}, program=name, case=case)


def pytest_files():
    paths = [*TOP.glob("tests/*/test_*.py"), *TOP.glob("tests/vm/findings/find_*.py")]
    for path in sorted(paths):
        file = str(path.relative_to(TOP))
        yield Test("pytest", file, {path.name, path.stem}, file=file)
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield Test("pytest", f"{file}::{node.name}", {node.name, f"{path.name}::{node.name}"}, file=file, case=f"::{node.name}")


def tests():
    """All tests."""
    yield from programs()
    for path in sorted(TOP.glob("tests/scenarios/*.txt")):
        yield Test("scenario", str(path.relative_to(TOP)), {path.stem, path.name}, file=str(path.relative_to(TOP)))
    yield from pytest_files()
    for path in sorted(TOP.glob("tests/mutations/*.mut")):
        yield Test("mutation", str(path.relative_to(TOP)), {path.stem, path.name}, mutation=path.stem)
    for path in sorted(TOP.glob("tests/mutations/kernel/*.patch")):
        yield Test("kernel mutation", str(path.relative_to(TOP)), {f"kernel/{path.stem}", path.stem}, drill="mutations-kernel", arguments=[path.stem])
    for path in sorted(TOP.glob("tests/drills/*.py")):
        if "__main__" in path.read_text():
            yield Test("drill", f"tests/drills/{path.name}", {path.stem, f"drill/{path.stem}"}, drill=path.stem)


def seed(name):
    match = re.fullmatch(r"(?:ddrsim[:-])?seed[-:= ]?(\d+)", name)
    return Test("program", name, (), program="tests/sim/ddrsim", arguments=["--seed", match.group(1)]) if match else None


def find(name, known=None):
    """The tests of that name: those whose full name it is, else those whose short name."""
    one = seed(name)
    if one:
        return [one]
    name = name.removeprefix("./")
    base, bracket, parameters = name.partition("[")
    known = list(tests()) if known is None else known
    found = [t for t in known if t.name == base] or [t for t in known if base in t.aliases]
    if bracket:
        found = [t for t in found if t.kind == "pytest" and "case" in t.how]
        for t in found:
            t.how["case"] += bracket + parameters
    return found


def near(name, known):
    """Names that are spelt alike, or that the name is a part of."""
    names = {alias: t.name for t in known for alias in t.aliases}
    close = difflib.get_close_matches(name, names, n=8, cutoff=0.7)
    part = sorted((alias for alias in names if len(name) > 3 and name in alias), key=len)
    return list(dict.fromkeys(names[alias] for alias in [*close, *part]))[:8]


def resolve(name):
    known = list(tests())
    found = find(name, known)
    if len(found) == 1:
        return found[0]
    if found:
        lines = [f"several tests are called {name}; name one in full:"] + [f"  {t.name}" for t in found]
    else:
        lines = [f"there is no test {name}"]
        close = near(name, known)
        lines += ["these are near:"] + [f"  {n}" for n in close] if close else ["./quickstart test lists all names"]
    print("\n".join(lines), file=sys.stderr)
    sys.exit(2)


def run(test, arguments):
    env = dict(os.environ, srcdir=str(TOP), PYTHONDONTWRITEBYTECODE="1", PYTHONPATH=str(TOP / "tests/vm"),
               DDRAID_BUILDDIR=str(BUILD))
    if test.kind == "case":
        env["DDRAID_TEST_CASE"] = test.how["case"]
    where = BUILD if test.kind in ("program", "case", "scenario") else TOP
    print(f"== {test.name}", flush=True)
    return subprocess.run(test.command(arguments), cwd=where, env=env, check=False).returncode


def main():
    what, *rest = sys.argv[1:] or [""]
    if what == "list" and not rest:
        print("\n".join(t.name for t in tests()))
    elif what == "needs" and len(rest) == 1:
        print(resolve(rest[0]).needs())
    elif what == "run" and rest:
        sys.exit(run(resolve(rest[0]), rest[1:]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
