# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes in flight hold grants, ranges and blocks, and those that wait behind them: tests/vm/guest/kflight_cases.py, in a guest."""
import pathlib

import pytest

VM = {"disks": 3, "size": "32M"}
GUEST = pathlib.Path(__file__).resolve().parent / "guest"


@pytest.mark.parametrize("case", ["reap", "drain", "overlap", "kill", "stop", "freeze", "memory", "sleeper", "cold", "stop_behind_sleepers"])
def test_flight(shared_node, stage, load_forget, case):
    """Finding K2: sleeper. Finding T13: cold. Finding K5: stop_behind_sleepers. The cases describe what they show."""
    del stage
    shared_node.run("modprobe dm-ddraid")
    load_forget(shared_node)
    for name in ("kchan.py", "kforget.py", "kflight_cases.py"):
        shared_node.put(f"/tmp/{name}", (GUEST / name).read_bytes())
    shared_node.run(["python3", "/tmp/kflight_cases.py", case], timeout=120)
