# SPDX-License-Identifier: GPL-2.0-or-later
"""Races and small faults of the kernel module, with the module that has test points: tests/vm/guest/kraces_cases.py, in a guest.

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
    for name in ("kchan.py", "kerr_cases.py", "kpoint.py", "kraces_cases.py"):
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
    run(guest, "park_kick")


def test_trace_after_the_device(guest):
    """Finding K7: a tracepoint followed the pointer to the mapped device after that was gone."""
    run(guest, "parked_then_gone")
