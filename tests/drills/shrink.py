#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Three failures of above 10,000 events each shrink to fewer than 60 acts. No machines: the simulator alone (tests/tools/shrinking.py)."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import shrinking  # noqa: E402

if __name__ == "__main__":
    sys.argv[1:] = []
    shrinking.main()
