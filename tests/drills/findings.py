#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What trials and reviews found to be wrong (doc/field-defects.md), tried again in virtual machines.

    ./quickstart drill findings                 all of tests/vm/findings
    ./quickstart drill findings create locks    find_create.py and find_locks.py alone
    ./quickstart drill findings -k S11          the tests with S11 in their names

These tests take longer than check has time for; the shortest of them are part of check, in tests/vm.
"""
import argparse
import sys

import vm_tests

FILES = {p.stem.removeprefix("find_"): p for p in sorted((vm_tests.VM / "findings").glob("find_*.py"))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-k", metavar="EXPRESSION", default="", help="only tests whose names match, as in pytest")
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help="of " + ", ".join(FILES) + "; all if none is given")
    args = parser.parse_args()
    unknown = sorted(set(args.subjects) - set(FILES))
    if unknown:
        parser.error(f"no subject {', '.join(unknown)}; they are {', '.join(FILES)}")
    return vm_tests.run([FILES[s] for s in args.subjects or FILES], "-k", args.k)


if __name__ == "__main__":
    sys.exit(main())
