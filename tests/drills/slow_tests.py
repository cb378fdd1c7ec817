#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The tests in virtual machines that check has no time for: those of tests/vm that are marked slow.

    ./quickstart drill slow_tests                 all of them
    ./quickstart drill slow_tests matrix forget   those of test_matrix.py and test_forget.py alone

What they show, a shorter test of the same file shows in check, by another example.
"""
import argparse
import sys

import vm_tests

FILES = {p.stem.removeprefix("test_"): p for p in sorted(vm_tests.VM.glob("test_*.py")) if "mark.slow" in p.read_text(encoding="utf-8")}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help="of " + ", ".join(FILES) + "; all if none is given")
    args = parser.parse_args()
    unknown = sorted(set(args.subjects) - set(FILES))
    if unknown:
        parser.error(f"no subject {', '.join(unknown)}; they are {', '.join(FILES)}")
    return vm_tests.run([FILES[s] for s in args.subjects or FILES], "-m", "slow")


if __name__ == "__main__":
    sys.exit(main())
