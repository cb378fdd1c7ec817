#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""How many instructions the kernel needs for a read or write of an array on ram disks, with this module, and with another one beside it.

One emulated processor counts the instructions that it executes (QEMU's -icount), so the figures are the same on each machine, and do not depend on its
load: two runs differ by less than 0.2 %. One program reads or writes with direct I/O, one operation after the other. All regions are granted. What is counted is
all of an operation: system call, block layer, device-mapper, ddraid, the ram disks. A repeated string instruction counts once for each repetition.

--beside takes a commit, or a directory with the sources, and compares: a ratio above 1.02 is a miss.
"""
import argparse
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "vm")]

import devices  # noqa: E402
import session  # noqa: E402
from ddvm import HarnessError, Node, modbuild  # noqa: E402

TOP = HERE.parents[1]
GUEST = TOP / "tests" / "vm" / "guest"
ARRAYS = ((0, 1), (1, 1), (2, 1), (3, 1), (2, 2))      # order, parity
PATTERNS = ("write:4096", "read:4096", "write:65536", "read:65536")
MOST = 1.02
MEMBERS, MIB = 9, 16
RAW = "ram disk"
FIGURES = "bench-instructions.json"


def build_counter(directory):
    """Compiles count.c (static, so that it runs in any guest); its path."""
    target = pathlib.Path(directory) / "count"
    subprocess.run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-o", target, HERE / "count.c"], check=True)
    return target


def sources(beside, directory):
    """The directory with the sources that --beside names; those of a commit are unpacked into @directory."""
    if pathlib.Path(beside).is_dir():
        return pathlib.Path(beside).resolve()
    archive = subprocess.run(["git", "archive", beside, "kernel", "lib", "include", "packaging", "configure.ac"], cwd=TOP, capture_output=True, check=False)
    if archive.returncode:
        raise HarnessError(f"--beside {beside}: neither a directory nor a commit: {archive.stderr.decode()}")
    subprocess.run(["tar", "-x", "-C", directory], input=archive.stdout, check=True)
    return pathlib.Path(directory)


def read_lines(text):
    """{(read or write, bytes): instructions of an operation, the median of the rounds}"""
    found = {}
    for line in text.splitlines():
        what, size, *rounds = line.split()
        found[what, int(size)] = statistics.median(map(int, rounds))
    return found


def count_module(node, module, args):
    """{(array, mode, read or write, bytes): instructions} with this module, which is unloaded afterwards."""
    node.load_module(module)
    found = {}
    for mode in args.modes:
        for order, parity in ARRAYS:
            out = node.run(["python3", "/tmp/kcount.py", str(order), str(parity), mode, str(args.number), str(args.rounds), *PATTERNS], timeout=1200).out
            for (what, size), n in read_lines(out).items():
                found[f"order {order}+{parity}", mode, what, size] = n
    node.run("udevadm settle 2>/dev/null; rmmod dm_ddraid")
    return found


def count_raw(node, args):
    """The same of a single ram disk: what an operation takes without an array."""
    out = ""
    for pattern in PATTERNS:
        what, size = pattern.split(":")
        out += " ".join([what, size, *node.run(["/tmp/count", "/dev/ram0", what, size, str(args.number), str(args.rounds)], timeout=600).out.split()]) + "\n"
    return {(RAW, "", what, size): n for (what, size), n in read_lines(out).items()}


def ratios(ours, theirs):
    """{key: ours / theirs} of all that both have."""
    return {key: ours[key] / theirs[key] for key in ours if theirs.get(key)}


def show(ours, theirs):
    """A table of the figures, and the keys whose ratio is too high."""
    compared = ratios(ours, theirs)
    missed = [key for key, ratio in compared.items() if ratio > MOST]
    for key, n in ours.items():
        array, mode, what, size = key
        text = f"  {array:10} {mode:8} {what:6} {size // 1024:3} KiB  {n:8.0f}"
        if key in compared:
            text += f"  before {theirs[key]:8.0f}  ratio {compared[key]:.3f}{'  MISSED' if key in missed else ''}"
        print(text)
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beside", metavar="COMMIT|DIRECTORY", help="another module, measured in the same machine")
    parser.add_argument("--modes", default="served,nosync", type=lambda text: text.split(","))
    parser.add_argument("--number", type=int, default=2000, help="operations of a round")
    parser.add_argument("--rounds", type=int, default=3)
    session.one_target(parser, FIGURES)
    args = parser.parse_args()
    ours, theirs = {}, {}

    def measure(run):
        node = Node(run, "bench-count", memory=768 + MEMBERS * MIB * 5 // 4, cpus=1, stage=False, counting=True)
        with tempfile.TemporaryDirectory() as directory:
            modules = [(modbuild.ddraid_module(TOP, node.kernel), ours)]
            if args.beside:
                modules.append((modbuild.ddraid_module(sources(args.beside, directory), node.kernel), theirs))
            node.boot(600)
            node.put("/tmp/count", build_counter(directory).read_bytes(), 0o755)
        for name in ("kchan.py", "kcount.py"):
            node.put(f"/tmp/{name}", (GUEST / name).read_bytes())
        devices.ram_members(node, MEMBERS, MIB)
        devices.fill(node, "/dev/ram0", MIB << 20)
        ours.update(count_raw(node, args))
        for module, into in modules:
            into.update(count_module(node, module, args))

    if not session.within_run(measure, need_stage=False):
        return 1
    missed = show(ours, theirs)
    figures = {"ours": [[*key, n] for key, n in ours.items()], "beside": [[*key, n] for key, n in theirs.items()]}
    if theirs:
        return session.judged(f"at most {MOST} times as many instructions as {args.beside}", not missed, figures, FIGURES, args)
    print(f"\nfigures: {session.keep(figures, FIGURES, args.json)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
