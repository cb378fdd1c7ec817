# SPDX-License-Identifier: GPL-2.0-or-later
"""Which waits count as unexplained. Times are seconds here."""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
import waits  # noqa: E402
from history import Op  # noqa: E402

LIMIT, NOW = 30, 1000


def op(node, begin, end, kind="w"):
    return Op(kind, node, 1, 0, 1, 7, 1, begin * 1000000, None if end is None else end * 1000000)


def unnamed(ops, said=(), ill=None):
    words = [waits.Word(at * 1000000, 1, "node 3 is fencing") for at in said]
    ill = {node: [(a * 1000000, b * 1000000) for a, b in some] for node, some in (ill or {}).items()}
    found = waits.unnamed(ops, words, ill, LIMIT * 1000000, NOW * 1000000)
    return [(w.node, w.begin // 1000000, w.end // 1000000) for w in found]


def test_nobody_said_why():
    assert unnamed([op(1, 10, 12), op(1, 100, 163), op(2, 110, 120)]) == [(1, 100, 163)]


def test_short_waits_need_no_reason():
    assert unnamed([op(1, 100, 130)]) == []


def test_an_operation_that_never_ended():
    assert unnamed([op(1, 900, None)]) == [(1, 900, 1000)]


def test_an_operation_that_its_machine_did_not_outlive():
    found = waits.unnamed([op(1, 900, None), op(2, 500, None)], [], {}, LIMIT * 1000000, NOW * 1000000, {(1, 1): 910000000, (2, 1): 600000000})
    assert [(w.node, w.end) for w in found] == [(2, 600000000)]


def test_it_was_named_in_time():
    assert unnamed([op(1, 100, 163)], [110, 115, 140]) == []


def test_it_was_named_once_and_then_not_any_more():
    assert unnamed([op(1, 100, 163)], [105]) == [(1, 105, 163)]


def test_it_was_named_late():
    assert unnamed([op(1, 100, 190)], [150, 180]) == [(1, 100, 150)]


def test_what_was_said_before_or_after_is_no_reason():
    assert unnamed([op(1, 100, 163)], [90, 100, 163, 170]) == [(1, 100, 163)]


def test_a_node_that_is_ill_may_wait():
    assert unnamed([op(3, 100, 163)], ill={3: [(95, 160)]}) == []
    assert unnamed([op(1, 100, 163)], ill={3: [(95, 160)]}) == [(1, 100, 163)]
    assert unnamed([op(3, 100, 200)], ill={3: [(95, 110)]}) == [(3, 110, 200)]


def test_operations_of_one_wait_are_one_wait():
    found = waits.unnamed([op(1, 100, 160), op(1, 105, 161), op(1, 105, 170, "r"), op(2, 100, 150)], [], {}, LIMIT * 1000000, NOW * 1000000)
    assert [(w.node, len(w.ops)) for w in found] == [(1, 3), (2, 1)]
    assert "readers and writers of node 1 waited 70 s, and nobody said why" in str(found[0]) and "writers of node 2" in str(found[1])


HEALTHY = {"name": "shared", "state": "optimal", "error": None, "no_space": None, "gave_up": False, "suspended": False, "stopping": False,
           "jobs": [{"waits": "x"}], "cluster": {"waits": None, "quorate": True, "nodes": [{"id": 1, "state": "active"}, {"id": 3, "state": "active"}]}}


def test_a_healthy_status_names_nothing():
    assert waits.named_in(HEALTHY) is None
    assert waits.named_in({**HEALTHY, "state": "degraded"}) is None


@pytest.mark.parametrize("change, said", [
    ({"cluster": {"waits": "the superblocks: member 2"}}, "member 2"), ({"cluster": {"quorate": False}}, "quorum"),
    ({"cluster": {"nodes": [{"id": 3, "state": "suspect"}]}}, "node 3 is suspect"), ({"error": "it is gone"}, "it is gone"),
    ({"gave_up": True}, "gave up"), ({"suspended": True}, "suspended"), ({"state": "failed"}, "failed")])
def test_a_status_that_names_something(change, said):
    status = {**HEALTHY, **change}
    if "cluster" in change:
        status["cluster"] = {**HEALTHY["cluster"], **change["cluster"]}
    assert said in waits.named_in(status)


def test_events_that_name_something():
    assert waits.names({"event": "hangs"}) and waits.names({"event": "node-lost"}) and waits.names({"event": "view", "quorate": 0})
    assert not any(waits.names({"event": e}) for e in ("member-error", "member-failed", "degraded", "state", "rebuild-start"))
    assert not waits.names({"event": "view", "quorate": 1})
