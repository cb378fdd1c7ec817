# SPDX-License-Identifier: GPL-2.0-or-later
"""Rounds from beginning to verdict, with stampers that run here on a file: what each kind of failure is told as."""
import os
import pathlib
import sys
import threading
import time
import types

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "drills"), str(HERE.parent / "vm")]
import history  # noqa: E402
import local  # noqa: E402
import plan  # noqa: E402
import report  # noqa: E402
import session as ss  # noqa: E402
import stampers as st  # noqa: E402
import torture  # noqa: E402
import waits  # noqa: E402
import world as wd  # noqa: E402
from evidence import Evidence  # noqa: E402

STATUS = {"name": "shared", "state": "optimal", "may_fail": 2, "members": [{"index": i, "device": f"/dev/mapper/m{i}", "state": "in-sync"} for i in range(4)],
          "regions": {"suspect": 0}, "verify": {"serial": 4, "state": "idle", "found": 0}, "cluster": {"waits": None, "quorate": True, "nodes": []}}


class FileWorld:
    """What a Session asks of its World, on a file. `at_end`: called when everything has been put right."""

    def __init__(self, evidence, over, directory):
        self.disk = directory / "disk"
        self.disk.write_bytes(b"")
        os.truncate(self.disk, 16 * 16 * 4096)
        program = local.build(directory)
        self.evidence, self.over, self.all, self.ended, self.blocks, self.region_blocks = evidence, over, [1, 2, 3], [], 256, 16
        self.nodes = {i: local.LocalGuest(directory / str(i), program, self.disk) for i in self.all}
        self.ill, self.locks, self.broken = {i: [] for i in self.all}, {i: threading.Lock() for i in self.all}, {}
        self.guests = {i: types.SimpleNamespace(command=lambda *_, **__: None, status=self.status) for i in self.all}
        self.found, self.calls, self.at_end, self.stampers = 0, [], lambda: None, None

    def node(self, number):
        return self.nodes[number]

    def write(self, number):
        self.stampers.start(number, self.nodes[number], self.disk)

    def keep(self, number):
        pass

    def any_status(self):
        return 1, STATUS

    def settle(self):
        assert self.stampers.quit(self.all, 30) == []
        self.at_end()

    def status(self, _):
        return {**STATUS, "verify": {"serial": 5, "state": "idle", "found": self.found}}

    def until(self, what, seconds, done):
        self.calls.append(what)
        return done()

    def raw(self):
        self.calls.append("raw")


@pytest.fixture(name="one")
def fixture_one(tmp_path, monkeypatch):
    """A Session of short rounds."""
    for name, value in (("HANDOVER", 0.05), ("TICK", 0.05), ("PAUSE_US", 2000)):
        monkeypatch.setattr(st, name, value)
    monkeypatch.setattr(ss, "BEFORE", 0)
    one = object.__new__(ss.Session)
    one.seed, one.limit, one.number, one.initial, one.over = 1, 30, 0, {}, threading.Event()
    one.vms, one.stopped, one.watchers = types.SimpleNamespace(path=tmp_path), threading.Event(), []
    one.cluster = types.SimpleNamespace(network=types.SimpleNamespace(heal=lambda: None))
    one.evidence = Evidence(tmp_path / "torture.log", echo=lambda *_, **__: None)
    one.world = FileWorld(one.evidence, one.over, tmp_path)
    one.stampers = one.world.stampers = st.Stampers(one.evidence, 1, one.groups())
    one.first = one.once(1, "fill", one.stampers.groups[::2])
    one.stampers.begin()
    yield one
    for node in one.world.nodes.values():
        node.kill()
        node.close()
    one.stampers.end()
    one.evidence.close()


def test_rounds_pass_and_the_next_knows_what_the_last_left(one, tmp_path):
    said, found = one.round(1, [], 2)
    assert found == [] and "0 acts" in said and "0 unnamed waits" in said
    kept = history.parse((tmp_path / "history-1.log").read_text())
    assert {op.node for op in kept.ops if op.kind == "w"} == {1, 2, 3} and kept.initial == {}
    assert len(one.initial) == 4 * len(one.stampers.groups) and one.world.calls == ["verify is done", "raw"]
    one.round(2, [], 1)
    again = history.parse((tmp_path / "history-2.log").read_text())
    assert len(again.initial) == len(one.initial) and torture.check_file(tmp_path / "history-2.log") == 0


def test_damage_is_a_failure_and_its_block_is_told(one, tmp_path):
    block = one.stampers.groups[0] + 1

    def damage():
        with open(one.world.disk, "r+b") as file:
            file.seek(block * 4096 + 1024)
            file.write(b"rot")
    one.world.at_end = damage
    with pytest.raises(report.Failed, match=f"nobody wrote, block {block}: sector 2") as failed:
        one.round(1, [], 1)
    assert any(line.startswith("> ") for line in failed.value.lines) and any("the log of that time" in line for line in failed.value.lines)
    assert torture.check_file(tmp_path / "history-1.log") == 1


def test_a_lost_write_is_a_failure(one):
    """The file is put back to what it was some time ago."""
    def back():
        one.world.disk.write_bytes(one.old)
    one.world.at_end = back
    one.old = one.world.disk.read_bytes()       # after the first half was written
    with pytest.raises(report.Failed, match="stale read|an old value is back"):
        one.round(1, [], 2)


def test_what_does_not_settle_is_a_failure(one):
    def hangs():
        raise wd.Trouble("node 2 does not come back")
    one.world.at_end = hangs
    with pytest.raises(report.Failed, match="does not settle: node 2 does not come back"):
        one.round(1, [], 1)


def test_writes_that_were_not_heard_of_yet_are_waited_for(one, monkeypatch):
    """Writers are at work when a round fails, and what one has begun may be read by another before its words arrive."""
    monkeypatch.setattr(ss, "HEARD", 2)
    held = []

    def late(writer):
        with writer.lock:
            del writer.log.feed
            for text, now in held:
                writer.log.feed(text, now)

    def settle():
        writer = [s for s in one.stampers.all if s.node == 2][0]
        writer.log.feed = lambda text, now: held.append((text, now))
        time.sleep(1.5)
        threading.Timer(0.5, late, [writer]).start()
        raise wd.Trouble("node 2 does not come back")
    one.world.settle = settle
    with pytest.raises(report.Failed, match="does not settle: node 2 does not come back"):
        one.round(1, [], 1)
    assert held


def test_wrong_parity_is_a_failure(one):
    one.world.found = 3
    with pytest.raises(report.Failed, match="verify found 3 blocks"):
        one.round(1, [], 1)


def test_a_daemon_that_dies_is_a_failure(one):
    one.world.ended.append((2, -11, "its last words"))
    with pytest.raises(report.Failed, match="ended by itself") as failed:
        one.round(1, [], 1)
    assert "node 2: -11: its last words" in failed.value.lines


def test_an_operation_that_fails_is_a_failure_if_its_machine_lives(one):
    def errors():
        done = [s for s in one.stampers.all if s.node == 2][0].log.done
        done[-1][0].error, done[-1][0].values = 5, None
    one.world.at_end = errors
    with pytest.raises(report.Failed, match="1 operations failed") as failed:
        one.round(1, [], 1)
    assert "node 2" in failed.value.lines[1] and "error 5" in failed.value.lines[1]


def test_unnamed_waits_are_reported_and_the_run_goes_on(one):
    one.limit = 0.4
    acts = [plan.Act(0, plan.MEMBER, "verify", 0.2, 1, (("repair", False), ("then", "nothing")))]
    one.world.try_command = lambda *_, **__: True
    original = ss.waits.unnamed
    try:
        ss.waits.unnamed = lambda ops, words, ill, limit, now, dead: [waits.Wait(1, 0, 63000000, [op for op in ops if op.kind == "w"][:2])]
        said, found = one.round(1, acts, 1)
    finally:
        ss.waits.unnamed = original
    assert "1 unnamed waits" in said
    assert found[0][0].startswith("unnamed wait: writers of node 1 waited 63 s, and nobody said why") and any("members: verify, done" in line for line in found[0])


def test_rounds_of_a_run():
    def of(**more):
        return torture.rounds_of(types.SimpleNamespace(**{"round": None, "minutes": 10, **more}))
    assert of() == [(1, 300), (2, 300)] and of(minutes=1) == [(1, 300)] and of(round=4) == [(4, 300)] and len(of(minutes=60)) == 12
