#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Lines of lib, daemon and cli that ran: what `./quickstart coverage` prints at its end.

    coverage.py [--all] BUILD-DIRECTORY
    coverage.py --seeds BUILD-DIRECTORY

Reads what a build with `--coverage` left in its directory: lines by folder, then the files and functions of which less than
90 % ran, with the lines that did not; --all lists all files. A line of a file that is built several times ran if it ran in any.
Guests are not counted: what only a virtual machine reaches (device-mapper, corosync, a real disk that fails) shows as not run.
Neither is what a process does that ends by _exit() or a signal, as the fence helper does.

--seeds: `./quickstart coverage --seeds`. Runs random seeds of the simulator with real daemons (SEEDS), and prints which share of each file of the daemon
ran that is linked into it (tests/unit/Makefile.inc, twin_daemon). Exit code 1: a rule was broken, or at most 80 % of a file ran: then the simulated
world has to be taught what it does not do.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[1]
PARTS = ("lib", "daemon", "cli")
LOW = 90

SEEDS = (("1-140", 3000, 1), ("1-70", 3000, 3), ("1-80", 10000, 3))  # seeds, events, nodes
ENOUGH = 80


def gcov(notes):
    """The files of one object, as gcov's JSON has them."""
    done = subprocess.run(["gcov", "--json-format", "--stdout", str(notes)], cwd=notes.parent, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          check=False)
    out = []
    for line in done.stdout.splitlines():
        if line.strip():
            report = json.loads(line)
            out += [(pathlib.Path(os.path.normpath(os.path.join(report["current_working_directory"], file["file"]))), file["lines"])
                    for file in report["files"]]
    return out


def collect(build):
    """{file: {line: [times, function]}} of the sources below lib, daemon and cli."""
    files = collections.defaultdict(dict)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for reports in pool.map(gcov, sorted(build.rglob("*.gcno"))):
            for path, lines in reports:
                if path.is_relative_to(TOP) and path.relative_to(TOP).parts[0] in PARTS:
                    add(files[str(path.relative_to(TOP))], lines)
    return files


def add(known, lines):
    for line in lines:
        entry = known.setdefault(line["line_number"], [0, line.get("function_name", "")])
        entry[0] += line["count"]


def ratio(lines):
    """(ran, all, percent) of lines."""
    ran = sum(times > 0 for times, _ in lines)
    return ran, len(lines), 100 * ran / len(lines) if lines else 100.0


def spans(numbers):
    """1-3, 7"""
    out = []
    for n in sorted(numbers):
        if out and n == out[-1][1] + 1:
            out[-1][1] = n
        else:
            out.append([n, n])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in out)


def report(files, everything=False):
    """What is printed, line by line."""
    folders = collections.defaultdict(list)
    for name, lines in files.items():
        folder = str(pathlib.PurePath(name).parent)
        folders[folder] += lines.values()
        if "/" in folder:
            folders[folder.partition("/")[0] + " in all"] += lines.values()
    yield f"{'folder':28} {'ran':>7} {'of':>7}"
    for folder in sorted(folders):
        yield "{:28} {:7} {:7} {:6.1f} %".format(folder, *ratio(folders[folder]))
    total = ratio([line for lines in files.values() for line in lines.values()])
    yield "{:28} {:7} {:7} {:6.1f} %".format("all", *total)
    yield ""
    yield "all files:" if everything else f"files and functions of which less than {LOW} % ran:"
    for name, lines in sorted(files.items()):
        functions = collections.defaultdict(list)
        for number, (times, function) in lines.items():
            functions[function].append((times, number))
        low = {f: found for f, found in functions.items() if f and ratio(found)[2] < LOW}
        if everything or low or ratio(list(lines.values()))[2] < LOW:
            yield "{:44} {:7} {:7} {:6.1f} %".format(name, *ratio(list(lines.values())))
        for function, found in sorted(low.items(), key=lambda item: min(n for _, n in item[1])):
            yield "    {:40} {:7} {:7} {:6.1f} %   not: {}".format(function, *ratio(found), spans(n for times, n in found if not times))
    yield ""
    yield "Not counted: what runs in virtual machines only, and processes that end by _exit() or a signal."


def glue():
    """The files of daemon/ that are linked into the simulator."""
    text = (TOP / "tests" / "unit" / "Makefile.inc").read_text()
    lines = re.search(r"^twin_daemon = (?:.*\\\n)*.*$", text, re.M)
    return sorted(re.findall(r"daemon/\S+\.c", lines.group(0)))


def run_seeds(build):
    """Only what these seeds run counts. False: a rule was broken."""
    good = True
    for old in build.rglob("*.gcda"):
        old.unlink()
    for seeds, events, nodes in SEEDS:
        good &= subprocess.run([str(build / "tests/sim/ddrsim-daemon"), "--seeds", seeds, "--events", str(events), "--nodes", str(nodes), "--shrink", "0"],
                               check=False).returncode == 0
    return good


def report_seeds(files):
    """(lines to print, whether all is well)."""
    out, good, total = [], True, [0, 0]
    for name in glue():
        ran, of, percent = ratio(list(files.get(name, {0: [0, ""]}).values()))
        total[0] += ran
        total[1] += of
        good &= percent > ENOUGH
        out.append(f"{name:44} {ran:7} {of:7} {percent:6.1f} %{'' if percent > ENOUGH else f'   at most {ENOUGH} %'}")
    out.append(f"{'all':44} {total[0]:7} {total[1]:7} {100 * total[0] / total[1]:6.1f} %")
    return out, good


def seeds(build):
    """The exit code of --seeds."""
    held = run_seeds(build)
    lines, good = report_seeds(collect(build))
    print("\n".join(lines))
    return 0 if held and good else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="list all files")
    parser.add_argument("--seeds", action="store_true", help="what random seeds with real daemons run of these")
    parser.add_argument("build", type=pathlib.Path)
    options = parser.parse_args()
    if options.seeds:
        sys.exit(seeds(options.build.resolve()))
    files = collect(options.build.resolve())
    if not files:
        sys.exit(f"coverage.py: nothing ran in {options.build}; ./quickstart coverage builds and runs it")
    print("\n".join(report(files, options.all)))


if __name__ == "__main__":
    main()
