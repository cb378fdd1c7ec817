# SPDX-License-Identifier: GPL-2.0-or-later
"""Times of the host for what a guest reports: never later than it may have begun, never earlier than it may have ended; and the program itself."""
import os
import pathlib
import random
import subprocess
import sys
import time

import pytest

sys.path.insert(0, os.path.dirname(__file__))
import checker  # noqa: E402
import history  # noqa: E402
import log  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent


def test_bounds_hold_whatever_is_late():
    """Operations with known true times; the guest's clock is off by hours and 0.5 % wrong, and lines and ticks take up to 2 s."""
    for seed, rate in ((1, 1.005), (2, 0.995), (3, 0.6)):
        rng, one = random.Random(seed), log.Log(2, 1, 0)

        def guest(at, rate=rate):
            return int(7 * 3600e6 + at * rate)
        events, true = [], {}
        for n in range(1, 200):     # (host's time at which it arrives, what, ...)
            sent = n * 250000
            events.append((sent, "sent", n))
            seen = sent + int(rng.choice((3000, 20000, 2000000)) * rng.random())
            events.append((seen, "line", f"K {guest(seen)} {n}"))
        at = 100000
        for n in range(1, 400):
            end = at + rng.randrange(1000, 200000)
            true[n] = at, end
            events.append((at, "line", f"B {guest(at)} 0 {n} w {n} 1"))
            events.append((end, "line", f"E {guest(end)} 0 {n} 0"))
            at = end + rng.randrange(1000)
        last = 0
        for at, what, value in sorted(events, key=lambda e: (e[0], str(e[2]))):
            if what == "sent":
                one.tick(value, at)
            else:
                last = max(last, at + int(rng.choice((1000, 1000, 300000)) * rng.random()))
                one.feed(value + "\n", last)
        widths = []
        for op in one.ops():
            begin, end = true[op.number]
            assert op.begin <= begin and op.end >= end, (seed, op, begin, end)
            widths.append(op.end - op.begin - (end - begin))
        assert sorted(widths)[len(widths) // 2] < 500000 / rate


def test_pieces_of_lines_and_what_has_not_ended():
    one = log.Log(1, 4, 50)
    one.feed("H 1000\nG 1001 3\nG 1001 4\nB 1002 0 1 w 12", 100)
    assert not one.open and one.owned == {3, 4}
    one.feed(" 2\nB 1003 1 1 r 8 1\nE 1005 1 1 0 0,0,0,0,1.1.0.1,0,0,0\nT 1006 3\n", 120)
    ops = {op.name: op for op in one.ops()}
    assert ops["1.4.0.1"].end is None and ops["1.4.0.1"].begin == 50 and ops["1.4.0.1"].count == 2
    assert ops["1.4.1.1"].values == [("0", "0", "0", "0", "1.1.0.1", "0", "0", "0")] and ops["1.4.1.1"].end <= 120
    assert [(op.name, begin) for op, begin in one.waiting()] == [("1.4.0.1", 50)]
    assert one.taken == [3] and one.owned == {4} and not one.ended


def test_an_error_is_no_value():
    one = log.Log(1, 4, 0)
    one.feed("B 10 0 1 r 12 1\nE 11 0 1 5\nQ 12\n", 100)
    op, = one.ops()
    assert op.error == 5 and op.values is None and one.ended


def test_a_clock_that_runs_too_fast_is_no_evidence():
    one = log.Log(1, 4, 0)
    one.tick(1, 1000)
    one.feed("K 0 1\nB 900000 0 1 w 12 1\nE 900001 0 1 0\n", 2000)
    with pytest.raises(ValueError, match="ran too fast"):
        list(one.ops())


# ---- the program, on a file -------------------------------------------------------------------


@pytest.fixture(scope="module", name="stamp")
def fixture_stamp(tmp_path_factory):
    directory = tmp_path_factory.mktemp("stamp")
    target = directory / "stamp"
    subprocess.run(["cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-pthread", "-o", target, HERE / "stamp.c"], check=True)
    return target


@pytest.fixture(name="disk")
def fixture_disk(tmp_path):
    image = tmp_path / "disk"
    image.write_bytes(b"")
    os.truncate(image, 1 << 20)
    return image


GROUPS = "".join(f"{g * 16}\n" for g in range(16))


def us():
    return time.monotonic_ns() // 1000


def once(stamp, disk, what, node=1, process=1, run="77"):
    one = log.Log(node, process, us())
    done = subprocess.run([stamp, "once", disk, run, str(node), str(process), what], input=GROUPS, capture_output=True, text=True, check=True)
    one.feed(done.stdout, us())
    assert one.ended
    return one


def test_what_is_written_is_read(stamp, disk):
    ops = [*once(stamp, disk, "read", 3).ops(), *once(stamp, disk, "fill").ops(), *once(stamp, disk, "read", 3, 2).ops()]
    verdict = checker.check(history.History(ops))
    assert verdict.findings == [] and (verdict.reads, verdict.writes, verdict.blocks) == (32, 16, 64)
    assert [op.values for op in ops if op.process == 2][0] == ["1.1.0.1"] * 4


def damaged(stamp, disk, change):
    """What a read finds of the first group after the file was changed."""
    once(stamp, disk, "fill")
    with open(disk, "r+b") as file:
        change(file)
    ops = list(once(stamp, disk, "read", 3, 2).ops())
    return ops[0].values


def put(at, data):
    def change(file):
        file.seek(at)
        file.write(data)
    return change


def test_damage_is_seen(stamp, disk):
    values = damaged(stamp, disk, put(4096 + 512 + 300, b"x"))      # a byte within a sector
    assert values[0] == "1.1.0.1" and values[1][1].startswith("?") and set(values[1]) - {values[1][1]} == {"1.1.0.1"}
    assert damaged(stamp, disk, put(512, bytes(512)))[0][1] == "0"


def test_stamps_of_other_places_and_runs_are_seen(stamp, disk):
    def move(file):
        file.seek(4096)
        data = file.read(512)
        put(0, data)(file)
    assert damaged(stamp, disk, move)[0][0] == "?b1.s0:1.1.0.1"
    once(stamp, disk, "fill", run="78")
    assert next(once(stamp, disk, "read", 3, 2).ops()).values == ["?run"] * 4


def test_owners_hand_groups_over(stamp, disk, tmp_path):
    """Two processes that own groups in turn: their history is right, and only the owner writes."""
    jobs = {}
    for node in (1, 2):
        control = tmp_path / f"control{node}"
        control.write_text("")
        # pylint: disable-next=consider-using-with
        process = subprocess.Popen([stamp, "run", disk, control, "77", str(node), "1", "3", "5", "200"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        process.stdin.write(GROUPS.encode())
        process.stdin.close()
        os.set_blocking(process.stdout.fileno(), False)
        jobs[node] = process, control, log.Log(node, 1, us())

    def order(node, text):
        with open(jobs[node][1], "a", encoding="ascii") as control:
            control.write(text + "\n")

    def follow(until):
        deadline = time.monotonic() + 30
        while not until():
            assert time.monotonic() < deadline
            for process, _, one in jobs.values():
                one.feed((process.stdout.read() or b"").decode(), us())
            time.sleep(0.002)

    owner, number = {}, 0
    for group in range(16):
        owner[group] = 1 + group % 2
        order(owner[group], f"g {group}")
    for turn in range(12):
        number += 1
        for node in (1, 2):
            jobs[node][2].tick(number, us())
            order(node, f"k {number}")
        group = turn % 16
        old, new = owner[group], 3 - owner[group]
        done = len(jobs[new][2].done)
        order(old, f"t {group}")
        follow(lambda one=jobs[old][2], group=group: group in one.taken)
        jobs[old][2].taken.remove(group)
        order(new, f"g {group}")
        owner[group] = new
        follow(lambda one=jobs[new][2], done=done: len(one.done) > done + 20)
    for node in (1, 2):
        order(node, "q")
    follow(lambda: all(one.ended for _, _, one in jobs.values()))
    for process, _, _ in jobs.values():
        assert process.wait(10) == 0
        process.stdout.close()
    ops = [op for _, _, one in jobs.values() for op in one.ops()] + list(once(stamp, disk, "read", 3).ops())
    verdict = checker.check(history.History(ops))
    assert verdict.findings == [], verdict.findings[0]
    assert verdict.writes > 100 and verdict.reads > 100 and verdict.open == 0
    assert {op.node for op in ops if op.kind == "w"} == {1, 2}
