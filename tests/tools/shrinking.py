#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Failing seeds shrink: broken code (tests/mutations) fails late, and the schedule that is left is short, fails alike, and passes on good code.

    shrinking.py [short|daemons]    all cases, those that test_shrink.py runs, or those with real daemons

Prints a table: events and acts before, acts after, runs and seconds of CPU. Exit code 1: a schedule is not short enough.
"""
import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile
from importlib.machinery import SourceFileLoader

TOP = pathlib.Path(__file__).resolve().parents[2]
# mutation, nodes, events of a seed, events after which it fails at the earliest, the rule that is broken. What a seed does changes with the simulator,
# so the first seed that fails so is looked for.
LONG = [
    ("02-no-flush", 1, 25000, 10000, "rule 2"),
    ("05-range-ends-with-loss", 3, 25000, 10000, "rule 11"),
    ("06-lost-is-dead", 3, 25000, 10000, "rule 6"),
]
# The same with real daemons.
DAEMONS = [
    ("08-corosync-gone-unnoticed", 3, 30000, 10000, "rule 8"),
    ("01-failed-mark-counts", 3, 30000, 10000, "rule 1"),
]
SHORT = [("02-no-flush", 1, 3000, 0, "rule 2"), ("06-lost-is-dead", 3, 10000, 0, "rule 6")]
SEEDS = 400	# that are tried
MOST = 60	# acts that may be left
SECONDS = 600	# of CPU, for one


def mutations():
    spec = importlib.util.spec_from_loader("run", SourceFileLoader("run", str(TOP / "tests/mutations/run")))
    run = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run)
    run.CFLAGS = [flag for flag in run.CFLAGS if "sanitize" not in flag]	# these runs are long
    return run


def daemons(run, base, name):
    """The same with real daemons."""
    if not (base / "daemons").exists():
        if not (base / "lib").exists():
            run.copy_tree(base)
        run.daemons(base, set(), None)
    top = base / "mutations" / name
    if not top.exists():
        run.copy_tree(top)
    return base / "daemons", run.daemons(top, run.Mutation(TOP / f"tests/mutations/{name}.mut").apply(top), base)


def programs(run, base, name):
    """ddrsim of the good code, made once, and of the mutation."""
    if not (base / "ddrsim").exists():
        run.copy_tree(base)
        common, simulator = run.build(base, set(), None)
        run.link(base, "ddrsim", common + simulator)
    top = base / "mutations" / name
    if not (top / "ddrsim").exists():
        run.copy_tree(top)
        changed = run.Mutation(TOP / f"tests/mutations/{name}.mut").apply(top)
        common, simulator = run.build(top, changed, base)
        run.link(top, "ddrsim", common + simulator)
    return base / "ddrsim", top / "ddrsim"


def output(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def failing(bad, case):
    """The first seed that breaks the rule, and late enough."""
    name, nodes, events, least, rule = case
    for seed in range(1, SEEDS + 1):
        rc, said = output(bad, "--seed", seed, "--nodes", nodes, "--events", events, "--rules-only", "--shrink", 0)
        found = re.search(rf"event (\d+): {rule}: ", said) if rc == 1 else None
        if found and int(found.group(1)) > least:
            return seed
    raise AssertionError(f"{name}: none of {SEEDS} seeds breaks {rule} above event {least}")


def shrink(run, base, case):
    """The numbers of the table. What is not so is an AssertionError."""
    name, nodes, events, _, rule = case
    good, bad = (daemons if case in DAEMONS else programs)(run, base, name)
    seed = failing(bad, case)
    rc, said = output(bad, "--seed", seed, "--nodes", nodes, "--events", events, "--rules-only", "--shrink", SECONDS)
    assert rc == 1 and f": {rule}: " in said, f"{name}: seed {seed} does not fail so again:\n{said[-2000:]}"
    numbers = re.search(r"at event (\d+), after (\d+) acts\. Shrunk to (\d+) in (\d+) runs of \d+ acts in all, ([\d.]+) s", said)
    file = base / f"{name}.txt"
    file.write_text("".join(line + "\n" for line in said.splitlines() if line.startswith(("#", ">"))))
    rc, again = output(bad, "--rules-only", "--run", file)	# as it was found: the broken code may contradict itself before
    assert rc == 1 and f": {rule}: " in again, f"{file.read_text()}\ndoes not break the rule again: {again}"
    rc, again = output(good, "--run", file)
    assert rc == 0, f"{file.read_text()}\nbreaks a rule on good code, too: {again}"
    assert int(numbers.group(3)) < MOST, file.read_text()
    return [seed, *numbers.groups(), file.read_text()]


def main():
    run = mutations()
    with tempfile.TemporaryDirectory(prefix="ddraid-shrink-") as d:
        print(f"{'mutation':28}{'seed':>6}{'event':>8}{'acts':>8}{'left':>6}{'runs':>7}{'CPU s':>8}", flush=True)
        for case in {"short": SHORT, "daemons": DAEMONS}.get("".join(sys.argv[1:]), LONG + DAEMONS):
            try:
                seed, event, acts, left, runs, seconds, text = shrink(run, pathlib.Path(d), case)
            except AssertionError as error:
                sys.exit(f"{case[0]}: {error}")
            print(f"{case[0]:28}{seed:>6}{event:>8}{acts:>8}{left:>6}{runs:>7}{seconds:>8}", flush=True)
            print(text)


if __name__ == "__main__":
    main()
