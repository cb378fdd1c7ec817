#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What `ddraid status` of an array with a million regions takes, beside that of one with a thousand, in one virtual machine.

Two arrays of three members, of which one is for parity. The second array shows what the command itself takes on this machine: the difference is what the
number of regions costs. Medians count.
"""
import argparse
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "vm"), str(HERE.parent / "drills")]

import session  # noqa: E402
from ddvm import Disk, Node  # noqa: E402
from guest import Guest  # noqa: E402

GIB = 1 << 30
MOST = 50                       # ms, of the difference
ARRAYS = {                      # name: (bytes of a member, size of a region, regions at least)
    "million": (63 * GIB // 2, "64KiB", 1000000),
    "thousand": (GIB // 20, "64KiB", 1000),
}
# The time of each of a number of calls, in ms; the interpreter's own start does not count.
TIMES = """import subprocess, sys, time
for _ in range(int(sys.argv[2])):
    at = time.monotonic()
    subprocess.run(["ddraid", "status", sys.argv[1], "--json"], check=True, stdout=subprocess.DEVNULL)
    print(1000 * (time.monotonic() - at))
"""


def measure(run, calls):
    """{array: ms of each call}"""
    disks = {name: [Disk(run.path / f"{name}-{i}.raw", size, f"{name[:4]}{i}") for i in range(3)] for name, (size, _, _) in ARRAYS.items()}
    node = Node(run, "bench-status", [d for some in disks.values() for d in some], memory=1024)
    node.boot()
    guest = Guest(node)
    guest.start_daemon(idle_time="500ms", verify_every="0")
    node.put("/tmp/times.py", TIMES)
    found = {}
    for name, (_, region, least) in ARRAYS.items():
        guest.create_and_start(name, 1, 1, "rotating", [d.dev for d in disks[name]], f"--overwrite --yes --region-size {region}")
        guest.wait_idle(name)
        regions = guest.status(name)["regions"]["total"]
        assert regions >= least, f"array {name} has {regions} regions"
    for name in ARRAYS:
        found[name] = [float(line) for line in node.run(["python3", "/tmp/times.py", name, str(calls)], timeout=300).out.split()]
        print(f"  status of array {name}: median {statistics.median(found[name]):.1f} ms, {min(found[name]):.1f} to {max(found[name]):.1f}", flush=True)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=50, help="of each array")
    session.one_target(parser, "bench-status.json")
    args = parser.parse_args()
    found = {}
    if not session.within_run(lambda run: found.update(measure(run, args.calls))):
        return 1
    ms = statistics.median(found["million"]) - statistics.median(found["thousand"])
    return session.judged(f"a million regions cost {ms:.1f} ms, target at most {MOST}", ms <= MOST, {"calls": found, "difference": ms},
                          "bench-status.json", args)


if __name__ == "__main__":
    sys.exit(main())
