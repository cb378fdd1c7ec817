# SPDX-License-Identifier: GPL-2.0-or-later
"""The nemesis does each act and undoes it, on machines that only note what they are told; and what the log makes of what daemons say."""
import json
import os
import pathlib
import re
import sys
import threading
import time
import types

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "drills"), str(HERE.parent / "vm")]
import checker  # noqa: E402
import evidence as ev  # noqa: E402
import local  # noqa: E402
import nemesis as nem  # noqa: E402
import plan  # noqa: E402
import report  # noqa: E402
import stampers as st  # noqa: E402
import world as wd  # noqa: E402
from history import History, parse  # noqa: E402

CONF = ("totem {\n\tversion: 2\n}\nquorum {\n\tprovider: corosync_votequorum\n}\nnodelist {\n" +
        "".join(f"\tnode {{\n\t\tnodeid: {i}\n\t\tname: n{i}\n\t}}\n" for i in (1, 2, 3)) + "}\n")
MEMBERS = [{"index": i, "device": f"/dev/mapper/m{i}", "state": "in-sync"} for i in range(4)] + [{"index": 4, "device": "/dev/mapper/m4", "state": "spare"}]


class Told:
    """Anything: calls are noted as text."""

    def __init__(self, notes, name, **given):
        self.notes, self.name = notes, name
        self.__dict__.update(given)

    def __getattr__(self, name):
        def call(*args, **_):
            self.notes.append(f"{self.name}.{name}({', '.join(map(str, args))})")
        return call


@pytest.fixture(name="evidence")
def fixture_evidence(tmp_path):
    one = ev.Evidence(tmp_path / "torture.log", echo=lambda *args, **_: None)
    yield one
    one.close()


def fake(evidence, may_fail=2, members=None):
    """A World that does nothing; `notes` has what it was told."""
    notes = []
    nodes = {i: Told(notes, f"n{i}", channel=object(), disks=[]) for i in (1, 2, 3)}
    status = {"state": "optimal", "may_fail": may_fail, "members": members or MEMBERS}
    one = Told(notes, "world", all=[1, 2, 3], over=threading.Event(), evidence=evidence, broken={}, ill={i: [] for i in (1, 2, 3)}, wanted_end={},
               locks={i: threading.Lock() for i in (1, 2, 3)}, guests={i: types.SimpleNamespace(daemon=Told(notes, f"ddraidd{i}")) for i in (1, 2, 3)},
               cluster=Told(notes, "cluster", network=Told(notes, "network"), corosync_conf=lambda: CONF), stampers=Told(notes, "stampers"),
               node=nodes.get, alive=lambda i: True, any_status=lambda: (2, status), daemon_gone=lambda i: True)
    one.try_command = lambda number, text, timeout=0: notes.append(f"ddraid {text}") or True
    one.out_members = lambda s: [(m["index"], m["device"]) for m in s["members"] if m["state"] == "faulty"]
    one.end_daemon = lambda number, patience=0: notes.append(f"end {number}") or True
    return one


def do(world, act):
    """What came of one act."""
    one = nem.Nemesis(world, [])
    one._do(act, int(act.lane.split()[1]) if act.lane.startswith("node") else None)
    (_, _, _, came), = one.done
    return came


def act(lane, kind, **how):
    return plan.Act(0, lane, kind, 0.01, 5, tuple(how.items()))


def test_every_kind_of_a_plan_is_known():
    for lane, kinds in (("node", plan.NODE_KINDS), (plan.DISK, plan.DISK_KINDS), (plan.MEMBER, plan.MEMBER_KINDS)):
        for kind in kinds:
            assert callable(getattr(nem.Nemesis, f"{lane}_{kind}"))
    assert set(nem.ILL) == set(plan.NODE_KINDS)


@pytest.mark.parametrize("one, begun, undone", [
    (act("node 3", "stop"), r"ddraidd3\.kill\((Signals\.SIGSTOP|19)\)", r"ddraidd3\.kill\((Signals\.SIGCONT|18)\)"),
    (act("node 3", "kill"), "end 3", r"world\.new_daemon\(3\)"),
    (act("node 3", "power"), r"n3\.kill", r"world\.bring\(3\)"),
    (act("node 3", "split", rings="both"), r"network\.cut\(3, None\)", r"network\.join\(3, None\)"),
    (act("node 3", "split", rings=1), r"network\.cut\(3, \[1\]\)", r"network\.join\(3, \[1\]\)"),
    (act("node 3", "conf", text="deleted", then="nothing"), r"n3\.run\(rm -f", r"n3\.put\(/etc/corosync/corosync.conf, totem"),
    (act("node 3", "conf", text="empty", then="reload"), r"corosync-cfgtool", r"n3\.put\(/etc/corosync/corosync.conf, totem"),
    (act("node 3", "shm"), "cat /dev/zero >/dev/shm/full", "rm -f /dev/shm/full"),
    (act("node 3", "clock", seconds=3600), "date -s @", "date -s @"),
    (act("node 3", "leave"), "ddraid stop shared", r"world\.serve\(3\)"),
    (act("node 3", "reboot"), r"n3\.shutdown", r"world\.bring\(3\)"),
    (act("disks", "slow", nodes="all", ms=200, spread=50), r"n1\.run\(dmsetup message m1 0 delay 200 50\)", r"n1\.run\(dmsetup message m1 0 delay 0\)"),
    (act("disks", "hang", nodes="one"), r"n1\.run\(dmsetup message m1 0 hang on\)", r"n1\.run\(dmsetup message m1 0 hang off\)"),
    (act("disks", "fail", nodes="all", what="write"), r"n3\.run\(dmsetup message m1 0 fail write\)", r"n3\.run\(dmsetup message m1 0 fail none\)"),
    (act("members", "fail"), "ddraid fail shared 1", ""),
    (act("members", "replace"), "ddraid replace shared 1", ""),
    (act("members", "verify", repair=True, then="pause"), "ddraid verify shared start --priority 1 --repair", "ddraid verify shared pause")])
def test_it_is_done_and_undone(evidence, one, begun, undone):
    world = fake(evidence)
    assert do(world, one) == "done"
    first = [i for i, note in enumerate(world.notes) if re.search(begun, note)]
    assert first, world.notes
    assert not undone or any(re.search(undone, note) for note in world.notes[first[0] + 1:]), world.notes
    assert world.broken == {}
    assert all(end < float("inf") for spans in world.ill.values() for _, end in spans)


def test_a_restart_with_an_edited_file(evidence):
    world = fake(evidence)
    world.over.set()        # at once
    assert do(world, act("node 2", "conf", text="alone", then="restart")) == "done"
    steps = [re.search(r"^(end|world\.start_daemon|n2\.put|ddraid start|world\.serve)", note) for note in world.notes]
    assert [s.group(1) for s in steps if s] == ["n2.put", "end", "world.start_daemon", "ddraid start", "n2.put", "end", "world.start_daemon", "world.serve"]


def test_no_more_is_hurt_than_the_array_can_do_without(evidence):
    for may, said in ((0, "skipped"), (1, "done")):
        assert do(fake(evidence, may), act("disks", "hang", nodes="all")).startswith(said)
        assert do(fake(evidence, may), act("members", "fail")).startswith(said)
    world = fake(evidence, 1)
    one = nem.Nemesis(world, [])
    with one._spare_one():
        one._do(act("members", "fail"), None)
    assert one.done[0][3].startswith("skipped") and one.hurt == 0


def test_what_failed_is_taken_back(evidence):
    members = [dict(m) for m in MEMBERS]
    world = fake(evidence, members=members)

    def fails(number, text, timeout=0):
        world.notes.append(f"ddraid {text}")
        if text.startswith("fail"):
            members[int(text.split()[2])]["state"] = "faulty"
        return True
    world.try_command = fails
    assert do(world, act("members", "fail")) == "done"
    assert [n for n in world.notes if n.startswith("ddraid")] == ["ddraid fail shared 1", "ddraid add shared /dev/mapper/m1"]


def test_a_member_that_was_left_out_is_added_once_its_disk_works(evidence):
    world = fake(evidence, members=[*MEMBERS[:3], {**MEMBERS[3], "state": "faulty"}])
    one = nem.Nemesis(world, [])
    one.minded = -nem.MIND * 2
    world.broken[2, 3] = ["hang on"]
    one._mind(plan.MEMBER, None)
    assert not any("add" in note for note in world.notes)
    world.broken.clear()
    one._mind(plan.MEMBER, None)        # too soon after the last look
    assert not any("add" in note for note in world.notes)
    one.minded = -nem.MIND * 2
    one._mind(plan.DISK, None)
    assert not any("add" in note for note in world.notes)
    one._mind(plan.MEMBER, None)
    assert [n for n in world.notes if n.startswith("ddraid")] == ["ddraid add shared /dev/mapper/m3"]


def test_a_machine_that_is_gone_cuts_an_act_short(evidence):
    world = fake(evidence)

    def gone(*_):
        raise wd.NodeDied("n3: the machine is gone")
    world.bring = gone
    assert do(world, act("node 3", "power")).startswith("cut short")


def test_edits_of_corosync_conf():
    alone = nem.conf_text(CONF, 2, "alone")
    assert re.findall("nodeid: ([0-9]+)", alone) == ["2"] and alone.count("{") == alone.count("}")
    assert re.findall("nodeid: ([0-9]+)", nem.conf_text(CONF, 2, "other-id")) == ["1", "12", "3"]
    assert nem.conf_text(CONF, 2, "deleted") is None and nem.conf_text(CONF, 2, "empty") == ""
    assert nem.conf_text(CONF, 2, "garbage").count("{") != nem.conf_text(CONF, 2, "garbage").count("}")
    assert {"alone", "deleted", "empty", "garbage", "other-id"} == set(plan.CONFS)


def test_lanes_run_side_by_side_and_end(evidence):
    world = fake(evidence)
    acts = [plan.Act(0, "node 3", "stop", 60, 5), plan.Act(0.1, "members", "fail", 60, 5), plan.Act(50, "node 1", "stop", 1, 5)]
    one = nem.Nemesis(world, acts)
    one.begin()
    deadline = time.monotonic() + 20
    while not any("ddraid fail" in n for n in world.notes):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert any("ddraidd3.kill" in n for n in world.notes) and not one.done
    world.over.set()
    assert one.end(20) == [] and sorted(a.kind for _, _, a, _ in one.done) == ["fail", "stop"] and one.failed == []


# ---- words of daemons --------------------------------------------------------------------------


def status(state="optimal", waits=None):
    return {"name": "shared", "state": state, "members": MEMBERS, "cluster": {"waits": waits, "quorate": True, "nodes": [{"id": 1, "state": "active"}]}}


def test_words_and_health(evidence):
    evidence.status(1, status())
    assert evidence.words == [] and evidence.missing(10**9) == []
    heard = evidence.hear(2, "events")
    for event in ({"event": "state", "arrays": []}, {"event": "member-error", "text": "x"}, {"event": "hangs", "text": "member 3 hangs"}):
        heard(1, json.dumps(event).encode()[:7])
        heard(1, json.dumps(event).encode()[7:] + b"\n")
    assert [(w.node, w.text) for w in evidence.words] == [(2, "member 3 hangs")]
    evidence.status(1, status(waits="the superblocks"))
    assert evidence.words[-1].text == "the superblocks"
    heard(1, b'{"event":"member-failed","text":"out"}\n')
    (since, until), = evidence.missing(evidence.now())
    assert since <= evidence.health[-1][0] <= until
    evidence.status(1, status())
    assert [b < 10**9 for _, b in evidence.missing(10**9)] == [True]
    assert "node 2 events: event hangs: member 3 hangs" in "\n".join(evidence.between(0, 10**9, ["node 2"]))
    assert evidence.between(0, 10**9, ["node 3"]) == []


def test_a_report_shows_what_matters(evidence):
    evidence.add("node 2 ddraidd", "something of that time")
    one = parse("w 1.1.0.1 7 1 10 20\nw 2.1.0.1 7 1 30 40\nr 3.1.0.1 7 1 50 60 1.1.0.1")
    text = "\n".join(report.report_findings(one, checker.check(one), evidence))
    assert "stale read, block 7" in text and text.count("\n> ") == 3 and "something of that time" in text


# ---- stampers, on a file instead of machines ----------------------------------------------------


def test_stampers_over_a_death(tmp_path, evidence, monkeypatch):
    """Three nodes; one dies (its process is killed), and its groups get new owners; what is left ends, and the history is right."""
    monkeypatch.setattr(st, "HANDOVER", 0.1)
    monkeypatch.setattr(st, "TICK", 0.02)
    monkeypatch.setattr(st, "PAUSE_US", 1000)
    program, disk = local.build(tmp_path), tmp_path / "disk"
    disk.write_bytes(b"")
    os.truncate(disk, 1 << 20)
    many = st.Stampers(evidence, 1, [g * 16 for g in range(16)])
    guests = {}
    for i in (1, 2, 3):
        guests[i] = local.LocalGuest(tmp_path / str(i), program, disk)
        many.start(i, guests[i], disk)
    many.begin()

    def until(what):
        deadline = time.monotonic() + 60
        while not what():
            assert time.monotonic() < deadline
            time.sleep(0.01)
    until(lambda: all(len(s.log.done) > 100 for s in many.all) and all(many.owner.values()))
    dead = many.of(3)[0]
    guests[3].kill()
    many.died(3, evidence.now())
    until(lambda: not any(one is dead for one in many.owner.values()))
    until(lambda: sum(entry[0].kind == "w" for s in many.all for entry in list(s.log.done)) > 200)
    assert many.quit([1, 2, 3], 30) == []
    many.end()
    one = History([op for s in many.all for op in s.ops()], dead={(s.node, s.number): s.dead for s in many.all if s.dead is not None})
    verdict = checker.check(one)
    assert verdict.findings == [], "\n".join(verdict.findings[0].lines())
    assert list(one.dead) == [(3, 3)] and verdict.writes > 200
    for guest in guests.values():
        guest.close()
