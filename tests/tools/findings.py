#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Do random seeds with real daemons find what real use has shown, without a scenario written for it? (tests/sim/finding.c, doc/simulator.md)

    findings.py [-s SEEDS] [-e EVENTS] [NAME...]

Where one is corrected, a mutation takes the correction out; and the same seeds must pass with it. The others are known: they are found until they are
corrected. Prints a table: the first seed, its event, and the events of all seeds until then. Exit code 1: one was not found, or a corrected one was.
"""
import argparse
import importlib.util
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from importlib.machinery import SourceFileLoader

TOP = pathlib.Path(__file__).resolve().parents[2]
# finding: the mutation that takes its correction out, or None
FINDINGS = {"T1": "06-no-cluster-is-recorded", "T2": "06-silent-daemon-is-waited-for", "T3": "06-silent-daemon-is-waited-for", "T4": None, "T6": None, "T7": None,
            "T8": None, "T9": None, "T10": None, "T11": "06-silent-daemon-is-waited-for", "S27": "03-written-without-a-look"}


def mutations():
    spec = importlib.util.spec_from_loader("run", SourceFileLoader("run", str(TOP / "tests/mutations/run")))
    run = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run)
    return run


def program(run, base, mutation):
    """ddrsim-daemon of the tree, or of the tree with a mutation."""
    top = base / (mutation or "tree")
    if not (top / "daemons").exists():
        run.copy_tree(top)
        changed = run.Mutation(TOP / f"tests/mutations/{mutation}.mut").apply(top) if mutation else set()
        run.daemons(top, changed, base / "tree" if mutation else None)
    return top / "daemons"


def look(daemons, finding, args):
    """(seed, event, what was said), or None."""
    done = subprocess.run([daemons, "--seeds", f"1-{args.seeds}", "--events", str(args.events), "--nodes", "3", "--rules-only", "--quiet", "--finding", finding],
                          capture_output=True, text=True, check=False)
    found = re.search(r"^seed (\d+), event (\d+): (.*)$", done.stdout, re.M)
    if (done.returncode != 0) != bool(found):
        raise SystemExit(f"{finding}: exit code {done.returncode}: {done.stdout}{done.stderr}")
    return (int(found.group(1)), int(found.group(2)), found.group(3)) if found else None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-s", "--seeds", type=int, default=200)
    parser.add_argument("-e", "--events", type=int, default=5000)
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    run = mutations()
    bad = 0
    with tempfile.TemporaryDirectory(prefix="ddraid-findings-") as d:
        base = pathlib.Path(d)
        print("| finding | code | first seed | its event | events of all | CPU s | what the run said |\n| --- | --- | --- | --- | --- | --- | --- |", flush=True)
        for finding in args.names or FINDINGS:
            mutation = FINDINGS[finding]
            tree = program(run, base, None)
            if mutation and look(tree, finding, args):
                print(f"{finding} is found although it is corrected", file=sys.stderr)
                bad += 1
            from_s = time.monotonic()
            found = look(program(run, base, mutation) if mutation else tree, finding, args)
            seconds = time.monotonic() - from_s
            bad += not found
            code = f"`{mutation}`" if mutation else "as it is"
            if found:
                seed, event, text = found
                print(f"| {finding} | {code} | {seed} | {event} | {(seed - 1) * args.events + event} | {seconds:.0f} | {text} |", flush=True)
            else:
                print(f"| {finding} | {code} | none of {args.seeds} | | {args.seeds * args.events} | {seconds:.0f} | |", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
