#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A register test across real nodes, by Jepsen's method: what `./quickstart torture` runs.

Three virtual machines under corosync share an array. Processes on all of them write stamped blocks and read them, while a nemesis, whose plan follows from the
seed alone, stops and kills daemons, cuts power and networks, edits corosync.conf, makes disks slow, hang or fail, fills /dev/shm, moves clocks,
reboots nodes, and fails, replaces and verifies members. At the end of each round of five minutes everything is put right; then every block is read on every node,
the parity is verified, the raw disks are read, and the history is checked.

Exit code: 0 no failure; 1 a failure (printed with its seed, the operations that matter and the log); 2 usage; 3 this machine cannot run it.
"""
import argparse
import pathlib
import random
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "drills"), str(HERE.parent / "vm")]

import checker  # noqa: E402
import history  # noqa: E402
import plan  # noqa: E402
from report import Failed, report_findings  # noqa: E402

ROUND = 300                 # seconds
WAIT_LIMIT = 30             # seconds that an operation may wait without a word


def check_file(path):
    """Checks a kept history again."""
    one = history.parse(pathlib.Path(path).read_text(encoding="utf-8"))
    verdict = checker.check(one)
    print(f"{path}: {verdict}")
    print("\n".join(report_findings(one, verdict, None)) or "it is one that registers allow")
    return 1 if verdict.findings else 0


def arguments():
    parser = argparse.ArgumentParser(prog="./quickstart torture", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, help="of the nemesis; drawn and printed if not given")
    parser.add_argument("--minutes", type=float, default=10, help="of faults; in rounds of five [10]")
    parser.add_argument("--round", type=int, help="this round of the seed alone")
    parser.add_argument("--wait-limit", type=float, default=WAIT_LIMIT,
                        help=f"seconds that an operation on a healthy node may wait without a daemon naming the reason; 0: any time [{WAIT_LIMIT}]")
    parser.add_argument("--plan", action="store_true", help="only print what the nemesis would do")
    parser.add_argument("--check", metavar="HISTORY", help="only check a history that was kept")
    args = parser.parse_args()
    if args.minutes <= 0 or (args.round is not None and args.round < 1):
        parser.error("--minutes and --round must be positive")
    if args.seed is None:
        args.seed = random.SystemRandom().randrange(1, 1000000)
    return args


def rounds_of(args):
    """(number, seconds) of each."""
    if args.round:
        return [(args.round, ROUND)]
    seconds, out = args.minutes * 60, []
    while seconds > 0:
        out.append((len(out) + 1, ROUND))
        seconds -= ROUND
    return out


def run(args):
    """The machines, and round after round."""
    import ddvm
    import session
    try:
        ddvm.check_machine()
        one = session.Session(args.seed, args.wait_limit)
    except ddvm.HarnessError as error:
        print(f"torture: {error}", file=sys.stderr)
        return 3
    began, unnamed = time.monotonic(), []
    try:
        one.begin()
        for number, seconds in rounds_of(args):
            acts = plan.plan(args.seed, number, seconds=seconds)
            print(f"torture: seed {args.seed}, round {number}: {len(acts)} acts in {seconds} s", flush=True)
            said, waits = one.round(number, acts, seconds)
            unnamed += waits
            print(f"torture: seed {args.seed}, round {number}: {said}", flush=True)
        one.finish()
        if unnamed:
            raise Failed(f"{len(unnamed)} unnamed waits", [line for lines in unnamed for line in lines])
    except Failed as failed:
        print("\n".join(failed.lines), file=sys.stderr)
        print(f"torture: FAILED: seed {args.seed}, round {one.number}: {failed}\n  replay: ./quickstart torture --seed {args.seed} --round {one.number}\n"
              f"  history and logs: {one.keep()}", file=sys.stderr)
        return 1
    except ddvm.HarnessError as error:
        print(f"torture: {error}\n  logs: {one.keep()}", file=sys.stderr)
        return 3
    finally:
        one.close()
    print(f"torture: seed {args.seed}: {len(rounds_of(args))} rounds in {(time.monotonic() - began) / 60:.0f} min, no failure")
    return 0


def main():
    args = arguments()
    if args.check:
        return check_file(args.check)
    if args.plan:
        for number, seconds in rounds_of(args):
            print(f"seed {args.seed}, round {number}", *plan.plan(args.seed, number, seconds=seconds), sep="\n")
        return 0
    threading.current_thread().name = "torture"
    return run(args)


if __name__ == "__main__":
    sys.exit(main())
