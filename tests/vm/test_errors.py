# SPDX-License-Identifier: GPL-2.0-or-later
"""Failing members and mismatches where a daemon decides: tests/vm/guest/kerr_cases.py, in a guest.

What the target does without a daemon is in test_target.py.
"""
import pathlib

import pytest

VM = {"disks": 3, "size": "32M"}
GUEST = pathlib.Path(__file__).resolve().parent / "guest"

CASES = ["write_out", "leaving", "write_again", "write_fails", "absent", "absent_back", "other_device", "empty_device", "error_of_the_one_before", "one_record", "read_and_flush", "two_members",
         "flush", "flush_of_others", "flush_under_way", "flush_two", "flush_kept_lost", "flush_kept_lost_late", "read_error", "bad_sector", "read_lost", "member_joins", "applied_waits", "rebind", "suspend", "kill", "mismatch", "suspect", "rebuilding", "load"]


@pytest.mark.parametrize("case", CASES)
def test_errors(shared_node, stage, load_forget, case):
    del stage
    shared_node.run("modprobe dm-ddraid")
    load_forget(shared_node)
    for name in ("kchan.py", "kerr_cases.py"):
        shared_node.put(f"/tmp/{name}", (GUEST / name).read_bytes())
    shared_node.run(["python3", "/tmp/kerr_cases.py", case], timeout=180)
