# SPDX-License-Identifier: GPL-2.0-or-later
"""Races and small faults of the kernel module, with the module that has test points: tests/vm/guest/kraces_cases.py,
ksmall_cases.py and kfault_cases.py, in a guest.

The guest's kernel poisons memory that was freed, so that a use of it is seen without KASAN too.
"""
import pathlib

import pytest

from ddvm import modbuild

VM = {"disks": 4, "size": "32M", "append": "slub_debug=FZP", "memory": 1024}
GUEST = pathlib.Path(__file__).resolve().parents[1] / "guest"


@pytest.fixture
def guest(shared_node, load_forget):
    """The shared machine with the test points' module, dm-forget and the cases."""
    shared_node.load_module(modbuild.points_module(shared_node.kernel))
    load_forget(shared_node)
    shared_node.run("mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing")
    for name in ("kchan.py", "kforget.py", "kpoint.py", "kraces_cases.py", "ksmall_cases.py", "kfault_cases.py"):
        shared_node.put(f"/tmp/{name}", (GUEST / name).read_bytes())
    return shared_node


def run(node, case, cases="kraces_cases", timeout=120):
    node.run(["python3", f"/tmp/{cases}.py", case], timeout=timeout)


@pytest.mark.parametrize("case", ["gate_write", "gate_kill", "gate_flush", "gate_read", "gate_late"])
def test_gate_is_checked_in_the_generation(guest, case):
    """Finding K3: the gate was looked at first and the generation entered afterwards; between them the state could change and count as
    obeyed."""
    run(guest, case)


@pytest.mark.parametrize("case", ["cursor", "cursor_shadow", "cursor_mirror"])
def test_cursor_of_a_rebuild(guest, case):
    """Finding K8: only the first block of a read was compared with the rebuild's cursor."""
    run(guest, case)


def test_queues_outlive_what_uses_them(guest):
    """Finding K6: the array's queues were destroyed in an order that let late work use one that was gone."""
    run(guest, "turned_away")


def test_trace_after_the_device(guest):
    """Finding K7: a tracepoint followed the pointer to the mapped device after that was gone."""
    run(guest, "parked_then_gone")


SMALL = ["tries", "bind", "background", "priority", "many_wait", "reload", "mirror_alignment", "large_pieces", "flush_given_back"]


@pytest.mark.parametrize("case", SMALL)
def test_small_faults(guest, case):
    """Finding K10: each of the small ones whose behaviour can be seen; the cases say what is right."""
    run(guest, case, "ksmall_cases")


@pytest.mark.parametrize("case", ["log", "log_of_two"])
def test_the_log_names_the_array(guest, case):
    """Finding S41: lines about members had the number of the device alone, those about a table's devices nothing at all; and the
    lines of an array with many errors kept those of all others out of the log."""
    run(guest, case, "ksmall_cases")


FAULTS = ["alloc_create", "alloc_reload", "alloc_daemon", "pages", "member_write", "member_read", "member_read_checked", "member_read_mirror",
          "member_flush", "member_zeroes", "member_shadow", "two_fail", "late", "late_load"]


@pytest.mark.parametrize("case", FAULTS)
def test_faults(guest, case):
    """Every allocation that may fail, every member operation that may fail or end late; data and parity are right afterwards."""
    run(guest, case, "kfault_cases", timeout=300)


def test_module_without_memory(node):
    """Each allocation of the module's start fails once: it is not loaded, nothing is left, and then it is loaded."""
    module = modbuild.points_module(node.kernel)
    node.run("modprobe -a dm_mod raid6_pq xor")
    node.put(f"/tmp/{module.name}", module.read_bytes())
    for skip in range(20):
        if node.run(f"insmod /tmp/{module.name} 'points=\"alloc fail 1 {skip}\"'", check=False).code == 0:
            break
    assert skip >= 3, "fewer allocations than the module has"
    node.run("dmsetup targets | grep -q ddraid && test -c /dev/ddraid")
