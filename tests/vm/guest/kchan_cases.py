#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Runs one case of tests/vm/test_channel.py in a guest:  kchan_cases.py CASE [ARGUMENT]

The cases are case_* of the modules here, by subject. A case makes its arrays and leaves none. It ends with exit code 0 or
with a traceback.
"""
import sys

import kchan_control
import kchan_daemons
import kchan_grants
import kchan_hostile
import kchan_suspend

MODULES = (kchan_control, kchan_daemons, kchan_grants, kchan_hostile, kchan_suspend)


def main():
    case, = [m for m in MODULES if hasattr(m, "case_" + sys.argv[1])]
    sys.exit(getattr(case, "case_" + sys.argv[1])(*sys.argv[2:]))


if __name__ == "__main__":
    main()
