# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests of tests/vm, run by a drill as check runs them: files side by side, as many as check takes."""
import os
import pathlib
import subprocess
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
VM = TOP / "tests" / "vm"
MOST = 4        # machines' files side by side: the memory of a small machine has room for no more


def run(files, *options, env=None):
    """Runs pytest on these files (paths) with further options of it; its exit code. `env`: more variables for it."""
    workers = min(os.cpu_count() or 1, MOST, len(files))
    beside = ["-n", str(workers), "--dist", "loadfile"] if workers > 1 else []
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", "-ra", *beside, *options, *map(str, files)]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": str(VM), **(env or {})}, check=False).returncode
