# SPDX-License-Identifier: GPL-2.0-or-later
"""Failing members and mismatches where a daemon decides: kerr_cases.py, kflush_cases.py
and kread_cases.py of tests/vm/guest, in a guest.

What the target does without a daemon is in test_target.py.
"""
import pathlib

import pytest

VM = {"disks": 3, "size": "32M"}
GUEST = pathlib.Path(__file__).resolve().parent / "guest"

CASES = {
    "kerr_cases": ["write_out", "leaving", "write_again", "write_fails", "absent", "absent_back", "other_device", "empty_device", "error_of_the_one_before",
                   "one_record", "read_and_flush", "two_members", "member_joins", "applied_waits", "rebind", "suspend", "kill"],
    "kflush_cases": ["flush", "flush_of_others", "flush_under_way", "flush_two", "flush_kept_lost", "flush_kept_lost_late"],
    "kread_cases": ["read_error", "bad_sector", "read_lost", "mismatch", "suspect", "rebuilding", "load"],
}
FILE = {case: file for file, cases in CASES.items() for case in cases}


@pytest.mark.parametrize("case", FILE)
def test_errors(shared_node, stage, load_forget, case):
    del stage
    shared_node.run("modprobe dm-ddraid")
    load_forget(shared_node)
    for name in ("kchan.py", "kforget.py", f"{FILE[case]}.py"):
        shared_node.put(f"/tmp/{name}", (GUEST / name).read_bytes())
    shared_node.run(["python3", f"/tmp/{FILE[case]}.py", case], timeout=180)
