# SPDX-License-Identifier: GPL-2.0-or-later
"""The channel between kernel and daemon, with an exerciser that simulates the daemon.

The cases are those of tests/vm/guest/kchan_cases.py and run in the guest; each makes arrays of its own over the members, and the kernel's
log is checked after each.
"""
import pathlib

import pytest

VM = {"disks": 5, "size": "64M"}
GUEST = pathlib.Path(__file__).resolve().parent / "guest"

CASES = ["control", "control_overrun", "bind", "bind_loaded", "not_root", "enable", "freeze", "kill", "fail_if_no_daemon", "fail_if_no_daemon_ex", "grant",
         "ahead", "waits_before_ahead", "reap", "closed_before_lock", "rebind", "not_before_held", "drain", "drain_rebind", "drain_held",
         "daemon_hung", "silence_ends_with_enable", "reads_stop", "not_enabled_is_no_daemon", "suspend_noflush", "suspend_noflush_alone", "suspend_flush",
         "suspend_unserved", "suspend_noflush_load", "remove", "removed_while_turning", "removed_behind_ex", "reload",
         "member_error", "member_error_alone", "member", "small", "blocking_read", "hostile", "unload"]
LOADS = {"drain_load": "8", "daemon_death": "10000", "daemon_deaths": "8", "binds_under_load": "40"}
SEEDS = ["1", "2", "3"]


@pytest.fixture
def guest(shared_node, stage):
    """The shared machine with the module and the exerciser."""
    del stage
    shared_node.run("modprobe dm-ddraid")
    for path in GUEST.glob("kchan*.py"):
        shared_node.put(f"/tmp/{path.name}", path.read_bytes())
    return shared_node


def run(node, case, *args, timeout=120):
    node.run(["python3", "/tmp/kchan_cases.py", case, *args], timeout=timeout)


@pytest.mark.parametrize("case", CASES)
def test_channel(guest, case):
    run(guest, case)


@pytest.mark.parametrize("case", LOADS)
def test_channel_under_load(guest, case):
    run(guest, case, LOADS[case], timeout=240)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_records_under_load(guest, seed):
    run(guest, "fuzz", "6", seed, timeout=180)
