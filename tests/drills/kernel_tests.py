#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The kernel module's tests on another kernel than check's: an older, a newer, or one that finds mistakes.

    ./quickstart drill kernel_tests --kernel debug      KASAN, lockdep, sleeping in atomic context, object lifetimes

Runs the tests of the target, its channel, its errors, what is in flight, and a part of the matrix, the slow ones too. A line of the
kernel's log that reports a mistake fails the test during which it appeared.
"""
import argparse
import os
import sys

import vm_tests

SUBJECTS = ("flight", "errors", "channel", "target", "matrix")
SLOW = {"debug": "4"}       # how much longer everything may take


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default="bookworm", help="bookworm, trixie, sid, debug or a directory")
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help="of " + ", ".join(SUBJECTS) + "; all if none is given")
    args = parser.parse_args()
    unknown = sorted(set(args.subjects) - set(SUBJECTS))
    if unknown:
        parser.error(f"no subject {', '.join(unknown)}; they are {', '.join(SUBJECTS)}")
    env = {"DDRAID_KERNEL": args.kernel}
    if args.kernel in SLOW:
        env["DDRAID_VM_TIMESCALE"] = os.environ.get("DDRAID_VM_TIMESCALE", SLOW[args.kernel])
    return vm_tests.run([vm_tests.VM / f"test_{s}.py" for s in args.subjects or SUBJECTS], env=env)


if __name__ == "__main__":
    sys.exit(main())
