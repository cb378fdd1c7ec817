#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""ddraid beside its peers, in one run on the same members, in a virtual machine.

Three kinds of members: disks that QEMU limits to 1000 IOPS and 25 MiB/s (what the
layout gives), ram disks (what the CPU pays), and disks with a fixed latency of 1 ms
(how many rounds of I/O a write takes). Ratios count; figures do not travel.
"""
import argparse
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "vm"), str(HERE.parent / "drills")]

import devices  # noqa: E402
import report  # noqa: E402
import session  # noqa: E402
from ddvm import Disk, Node  # noqa: E402

MIB = devices.MIB
GROUPS = {
    # group: (patterns, members' MiB, span MiB that is measured, seconds before it counts)
    # Before it counts every region of the span must have been granted: two disks of 25 MiB/s need 2.6 s for the span.
    "throttled": (("seqwrite", "seqread", "randwrite", "randread", "mixed"), 160, 128, 3),
    "ram": (("seqwrite", "seqwrite2", "seqread", "randwrite", "randread", "mixed"), 96, 64, 1),
    "latency": (("write1", "read1"), 64, 32, 1),
}
MEMBERS = 10


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="order 2, one round, short measurements")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runtime", type=int, default=4, help="seconds of one measurement")
    parser.add_argument("--groups", default=",".join(GROUPS), help="of " + ",".join(GROUPS))
    parser.add_argument("--orders", default="1,2,3")
    parser.add_argument("--kinds", help="only kinds whose label contains one of these words (comma-separated)")
    parser.add_argument("--patterns", help="only these patterns")
    parser.add_argument("--peers-only", action="store_true", help="without ddraid (nothing needs to be built)")
    parser.add_argument("--no-daemon", action="store_true", help="without ddraid's mode full")
    parser.add_argument("--kernel", help="kernel of the machine: bookworm, trixie, sid or a directory")
    parser.add_argument("--json", metavar="FILE", help="where the figures go (default: build/bench.json)")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a target is missed")
    args = parser.parse_args()
    if args.quick:
        args.rounds, args.runtime, args.orders = 1, 2, "2"
    args.groups = args.groups.split(",")
    args.orders = [int(o) for o in args.orders.split(",")]
    unknown = [g for g in args.groups if g not in GROUPS]
    if unknown or any(o not in (1, 2, 3) for o in args.orders) or args.rounds < 1 or args.runtime < 1:
        parser.error("groups are " + ", ".join(GROUPS) + "; orders 1 to 3; rounds and runtime from 1")
    return args


def boot(run, group, args):
    """A node with the group's members: (node, member paths)."""
    size = GROUPS[group][1]
    limits = {"iops": 1000, "bps": 25 * MIB} if group == "throttled" else {}
    disks = []
    if group == "throttled":
        disks = [Disk(run.path / f"bench-{i}.raw", size * MIB, f"b{i}", **limits) for i in range(MEMBERS)]
    memory = 768 + (0 if disks else MEMBERS * size * 5 // 4)
    node = Node(run, f"bench-{group}", disks, memory=memory, kernel=args.kernel,
                stage=False if args.peers_only else True)
    node.boot()
    node.run("modprobe -a dm_mod raid456 dm_raid", timeout=120)
    if group == "ram":
        return node, devices.ram_members(node, MEMBERS, size)
    if group == "latency":
        return node, devices.latency_members(node, MEMBERS, size, 1000)
    return node, [d.dev for d in disks]


def chosen(kinds, args):
    if not args.kinds:
        return kinds
    words = args.kinds.split(",")
    return [k for k in kinds if k.name in ("raw", "stripe") or any(w in k.label for w in words)]


def measure(bench, kind, group, number, args, say):
    """All patterns of a group on one kind."""
    patterns, _, span, ramp = GROUPS[group]
    if args.patterns:
        patterns = [p for p in patterns if p in args.patterns.split(",")]
    path = bench.setup(kind)
    try:
        devices.fill(bench.node, path, span * MIB)
        bench.settled(kind)
        for pattern in patterns:
            figures = devices.fio(bench.node, path, pattern, span * MIB, args.runtime, ramp)
            say(group, kind, pattern, figures)
            yield {"group": group, "order": kind.order if kind.name != "raw" else None, "name": kind.name,
                   "mode": kind.mode, "parity": kind.parity, "layout": kind.layout, "label": kind.label,
                   "pattern": pattern, "round": number, **figures}
    finally:
        if bench.node.alive():
            bench.teardown(kind)


def run_group(run, group, args, results):
    node, members = boot(run, group, args)
    guest = None
    if not args.peers_only:
        node.run("modprobe dm_ddraid", timeout=60)
        if not args.no_daemon:
            from guest import Guest
            guest = Guest(node)
            guest.start_daemon()
    bench = devices.Bench(node, members, GROUPS[group][1] * MIB, guest)

    def say(group, kind, pattern, f):
        print(f"  {group:9} order {kind.order} {kind.label:32} {pattern:9} {f['mibs']:8.1f} MiB/s {f['iops']:9.0f} IOPS "
              f"{f['lat_us']:9.0f} us", flush=True)

    for number in range(args.rounds):
        print(f"{group}: round {number + 1} of {args.rounds}", flush=True)
        results += measure(bench, devices.Kind("raw"), group, number, args, say)
        for order in args.orders:
            kinds = devices.kinds_for(order, not args.peers_only, args.quick)
            kinds = [k for k in kinds if not (args.no_daemon and k.mode == "full")]
            for kind in chosen(kinds, args):
                results += measure(bench, kind, group, number, args, say)
    node.dmesg_check()
    node.kill()
    return node.kernel.release


def main():
    args = arguments()
    start, results, release = time.time(), [], None

    def measure_all(run):
        nonlocal release
        for group in args.groups:
            release = run_group(run, group, args, results)

    if not session.within_run(measure_all, need_stage=not args.peers_only):
        return 1
    judged = report.judge(results)
    path = session.keep({"kernel": release, "seconds": round(time.time() - start), "rounds": args.rounds,
                         "runtime": args.runtime, "results": results, "targets": judged}, "bench.json", args.json)
    print(report.table(results))
    if judged:
        print(report.verdicts(judged))
    print(f"\nfigures: {path} ({time.time() - start:.0f} s)")
    return 1 if args.strict and not all(j["met"] for j in judged) else 0


if __name__ == "__main__":
    sys.exit(main())
