# SPDX-License-Identifier: GPL-2.0-or-later
"""The checker's verdicts: histories that registers allow pass, and each kind of failure is named. Times are small numbers."""
import itertools
import os
import random
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
import checker  # noqa: E402
import history  # noqa: E402

# a block that two threads of node 1 and one of node 2 write; reads by node 3
RIGHT = {
    "empty": "",
    "nothing but reads of what was there": """
        initial 7 1.1.0.1
        r 3.1.0.1 7 1 10 20 1.1.0.1
        r 3.1.0.2 7 1 30 40 1.1.0.1""",
    "one after the other": """
        w 1.1.0.1 7 1 10 20
        r 3.1.0.1 7 1 30 40 1.1.0.1
        w 2.1.0.1 7 1 50 60
        r 3.1.0.2 7 1 70 80 2.1.0.1""",
    "a read beside a write returns the old or the new": """
        initial 7 0
        w 1.1.0.1 7 1 10 50
        r 3.1.0.1 7 1 20 30 0
        r 3.1.1.1 7 1 20 30 1.1.0.1
        r 3.1.0.2 7 1 60 70 1.1.0.1""",
    "a read beside a write returns some of both": """
        initial 7 0
        w 1.1.0.1 7 1 10 50
        r 3.1.0.1 7 1 20 30 1.1.0.1,1.1.0.1,0,0,0,0,0,0
        r 3.1.0.2 7 1 60 70 1.1.0.1""",
    "two writes at the same time, in either order": """
        w 1.1.0.1 7 1 10 50
        w 1.1.1.1 7 1 10 50
        r 3.1.0.1 7 1 60 70 1.1.0.1""",
    "two writes at the same time, and a reader that sees both": """
        w 1.1.0.1 7 1 10 50
        w 1.1.1.1 7 1 10 50
        r 3.1.0.1 7 1 20 30 1.1.1.1
        r 3.1.0.2 7 1 60 70 1.1.0.1""",
    "a write that was cut off took effect": """
        initial 7 0
        w 1.1.0.1 7 1 10 -
        dead 1 1 40
        r 3.1.0.1 7 1 60 70 1.1.0.1""",
    "a write that was cut off took none": """
        initial 7 0
        w 1.1.0.1 7 1 10 -
        dead 1 1 40
        r 3.1.0.1 7 1 60 70 0
        r 3.1.0.2 7 1 80 90 0""",
    "a write that was cut off stopped in the middle, until the block is written again": """
        initial 7 0
        w 1.1.0.1 7 1 10 -
        dead 1 1 40
        r 3.1.0.1 7 1 60 70 1.1.0.1,0,0,0,0,0,1.1.0.1,1.1.0.1
        r 2.1.0.1 7 1 80 90 1.1.0.1,0,0,0,0,0,1.1.0.1,1.1.0.1
        w 2.1.0.2 7 1 100 110
        r 3.1.0.2 7 1 120 130 2.1.0.2""",
    "a write that hangs takes effect late": """
        initial 7 0
        w 1.1.0.1 7 1 10 -
        r 3.1.0.1 7 1 60 70 0
        r 3.1.0.2 7 1 80 90 1.1.0.1""",
    "a write that failed takes effect or does not": """
        initial 7 0
        initial 8 0
        w 1.1.0.1 7 2 10 20 error 5
        r 3.1.0.1 7 2 60 70 1.1.0.1 0""",
    "a write that failed takes effect late": """
        initial 7 0
        w 1.1.0.1 7 1 10 20 error 5
        r 3.1.0.1 7 1 30 40 0
        r 3.1.0.2 7 1 50 60 1.1.0.1""",
    "a write whose begin nobody heard, for its machine died": """
        initial 7 0
        w 1.1.0.1 7 1 10 20
        dead 1 1 40
        r 3.1.0.1 7 1 60 70 1.1.0.2""",
    "what was never written may be anything before": """
        r 3.1.0.1 7 1 10 20 ?00
        r 3.1.0.2 7 1 30 40 0
        w 1.1.0.1 7 1 50 60
        r 3.1.0.3 7 1 70 80 1.1.0.1""",
    "garbage in a block that a death cut off, with a member missing": """
        initial 7 0
        w 1.1.0.1 7 1 10 -
        dead 1 1 40
        missing 30 100
        r 3.1.0.1 7 1 60 70 1.1.0.1,?11,0,0,0,0,0,0
        r 3.1.0.2 7 1 80 90 1.1.0.1,?12,0,0,0,0,0,0
        w 2.1.0.2 7 1 91 95
        r 3.1.0.3 7 1 96 99 2.1.0.2""",
    "garbage while another node writes, with a member missing": """
        initial 7 0
        w 1.1.0.1 7 1 10 50
        missing 0 100
        r 3.1.0.1 7 1 20 30 1.1.0.1,?11,0,0,0,0,0,0
        r 3.1.0.2 7 1 60 70 1.1.0.1""",
    "a mix that the round began with": """
        initial 7 1.1.0.1,1.1.0.1,1.1.0.1,1.1.0.1,0,0,0,0
        r 3.2.0.1 7 1 20 30 1.1.0.1,1.1.0.1,1.1.0.1,1.1.0.1,0,0,0,0""",
    "a read without an end, and one that failed": """
        initial 7 0
        r 3.2.0.1 7 1 20 -
        r 3.2.0.2 7 1 20 30 error 5""",
}

WRONG = {
    "stale read": ("""
        w 1.1.0.1 7 1 10 20
        w 2.1.0.1 7 1 30 40
        r 3.1.0.1 7 1 50 60 1.1.0.1""", "stale read.*1.1.0.1 after 2.1.0.1"),
    "stale read of one sector": ("""
        w 1.1.0.1 7 1 10 20
        w 2.1.0.1 7 1 30 -
        r 3.1.0.1 7 1 50 60 2.1.0.1
        r 3.1.0.2 7 1 70 80 2.1.0.1,2.1.0.1,1.1.0.1,2.1.0.1,2.1.0.1,2.1.0.1,2.1.0.1,2.1.0.1""", "an old value is back.*sector 2"),
    "lost write": ("""
        initial 7 0
        w 1.1.0.1 7 1 10 20
        r 3.1.0.1 7 1 50 60 0""", "stale read.*reads as 0"),
    "lost write, and then another": ("""
        initial 7 0
        w 1.1.0.1 7 1 10 20
        r 3.1.0.1 7 1 50 60 0
        w 1.1.0.2 7 1 70 80
        r 3.1.0.2 7 1 90 95 1.1.0.2""", "stale read.*reads as 0"),
    "torn block": ("""
        w 1.1.0.1 7 1 10 50
        w 1.1.1.1 7 1 10 50
        r 3.1.0.1 7 1 60 70 1.1.0.1,1.1.0.1,1.1.0.1,1.1.0.1,1.1.1.1,1.1.1.1,1.1.1.1,1.1.1.1""", "torn block.*1.1.0.1 and 1.1.1.1"),
    "torn block, of what was there and what was written": ("""
        initial 7 3.9.0.1
        w 1.1.0.1 7 1 10 20
        r 3.1.0.1 7 1 60 70 1.1.0.1,1.1.0.1,1.1.0.1,1.1.0.1,1.1.0.1,1.1.0.1,1.1.0.1,3.9.0.1""", "torn block"),
    "torn block, of zeroes that nobody knew of": ("""
        w 1.1.0.1 7 1 10 20
        r 3.1.0.1 7 1 60 70 1.1.0.1,1.1.0.1,1.1.0.1,1.1.0.1,1.1.0.1,1.1.0.1,1.1.0.1,0""", "torn block"),
    "an old value is back": ("""
        initial 7 0
        w 1.1.0.1 7 1 10 -
        dead 1 1 40
        r 3.1.0.1 7 1 50 60 1.1.0.1
        r 3.1.0.2 7 1 70 80 0""", "an old value is back.*0 again after 1.1.0.1"),
    "a write that was cut off lands after its machine was dead": ("""
        initial 7 0
        w 1.1.0.1 7 1 10 -
        dead 1 1 40
        r 3.1.0.1 7 1 50 60 0
        r 3.1.0.2 7 1 70 80 1.1.0.1""", "an old value is back|no order"),
    "a write that was cut off lands over one that came after": ("""
        initial 7 0
        w 1.1.0.1 7 1 10 -
        dead 1 1 40
        w 2.1.0.1 7 1 50 60
        r 3.1.0.1 7 1 70 80 1.1.0.1""", "stale read.*1.1.0.1 after 2.1.0.1"),
    "a value nobody wrote": ("""
        initial 7 0
        w 1.1.0.1 7 1 10 20
        r 3.1.0.1 7 1 50 60 1.1.0.2""", "nobody wrote.*1.1.0.2"),
    "a stamp of another place": ("""
        initial 7 0
        r 3.1.0.1 7 1 50 60 ?b8.s0:1.1.0.2""", "nobody wrote.*b8"),
    "garbage without a reason": ("""
        initial 7 0
        w 1.1.0.1 7 1 10 -
        dead 1 1 40
        r 3.1.0.1 7 1 60 70 1.1.0.1,?11,0,0,0,0,0,0""", "nobody wrote"),
    "garbage while another node writes, and no member is missing": ("""
        initial 7 0
        w 1.1.0.1 7 1 10 50
        missing 100 200
        r 3.1.0.1 7 1 20 30 1.1.0.1,?11,0,0,0,0,0,0""", "nobody wrote"),
    "garbage though the block was rewritten": ("""
        initial 7 0
        w 1.1.0.1 7 1 10 -
        dead 1 1 40
        missing 30 200
        w 2.1.0.2 7 1 91 95
        r 3.1.0.1 7 1 96 99 2.1.0.2,?12,2.1.0.2,2.1.0.2,2.1.0.2,2.1.0.2,2.1.0.2,2.1.0.2""", "nobody wrote"),
    "garbage beside a write of the same node": ("""
        initial 7 0
        w 3.1.1.1 7 1 10 50
        missing 0 100
        r 3.1.0.1 7 1 20 30 0,?11,0,0,0,0,0,0""", "nobody wrote"),
    "a write of a number that its thread had passed before its machine died": ("""
        initial 7 0
        w 1.1.0.5 7 1 10 20
        dead 1 1 40
        r 3.1.0.1 7 1 60 70 1.1.0.4""", "nobody wrote"),
    "a value of a machine that lives": ("""
        initial 7 0
        w 1.1.0.1 7 1 10 20
        r 3.1.0.1 7 1 60 70 1.1.0.2""", "nobody wrote"),
    "read before it was written": ("""
        initial 7 0
        r 3.1.0.1 7 1 10 20 1.1.0.1
        w 1.1.0.1 7 1 30 40""", "read before it was written"),
    "zeroes are back": ("""
        w 1.1.0.1 7 1 10 20
        r 3.1.0.1 7 1 30 40 0""", "stale read.*reads as 0"),
    "two readers that disagree about two writes at the same time": ("""
        w 1.1.0.1 7 1 10 50
        w 1.1.1.1 7 1 10 50
        r 3.1.0.1 7 1 60 70 1.1.0.1
        r 2.1.0.1 7 1 80 90 1.1.1.1""", "an old value is back|no order|stale"),
    "the second block of a run": ("""
        initial 7 0
        initial 8 0
        w 1.1.0.1 7 2 10 20
        r 3.1.0.1 7 2 60 70 1.1.0.1 0""", "stale read, block 8"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right(name):
    verdict = checker.check(history.parse(RIGHT[name]))
    assert [str(f) for f in verdict.findings] == []


@pytest.mark.parametrize("name", WRONG)
def test_wrong(name):
    import re
    text, message = WRONG[name]
    verdict = checker.check(history.parse(text))
    assert len(verdict.findings) == 1, verdict
    assert re.search(message, str(verdict.findings[0])), verdict.findings[0]
    lines = list(verdict.findings[0].lines())
    assert len(lines) > 1, "no operation is shown that proves it"


def test_garbage_is_counted():
    verdict = checker.check(history.parse(RIGHT["garbage in a block that a death cut off, with a member missing"]))
    assert verdict.garbage == 2 and "2 sectors that nobody wrote" in str(verdict)


def test_text_and_back():
    for text in [*RIGHT.values(), *(text for text, _ in WRONG.values())]:
        one = history.parse(text)
        again = history.parse("\n".join(one.lines()))
        assert list(one.lines()) == list(again.lines())
        assert [str(f) for f in checker.check(one).findings] == [str(f) for f in checker.check(again).findings]


def test_operations_of_a_block():
    text, _ = WRONG["stale read"]
    one = history.parse(text + "\nr 3.1.0.7 9 1 50 60 0")
    finding = checker.check(one).findings[0]
    lines = checker.of_block(one, finding.block, finding.ops)
    assert len(lines) == 3 and sum(line.startswith("> ") for line in lines) == 3
    many = history.parse("\n".join(f"w 1.1.0.{n} 7 1 {n * 10} {n * 10 + 5}" for n in range(1, 200)))
    near = checker.of_block(many, 7, [many.ops[100]], most=20)
    assert len(near) == 20 and sum(line.startswith("> ") for line in near) == 1 and "wrote 1.1.0.101" in "".join(near)


# ---- against a search through all orders -----------------------------------------------------


def allowed(ops):
    """Is there an order of the operations that a register allows? By trying all of them: (kind, value, begin, end)."""
    def go(left, value):
        if not left:
            return True
        first_end = min(end for _, _, _, end in left)
        for i, (kind, v, begin, _) in enumerate(left):
            if begin <= first_end and (kind == "w" or v == value) and go(left[:i] + left[i + 1:], v if kind == "w" else value):
                return True
        return False
    must = [op for op in ops if op[3] is not None]
    may = [(k, v, b, history.INF) for k, v, b, e in ops if e is None]
    return any(go(must + list(some), "0") for n in range(len(may) + 1) for some in itertools.combinations(may, n))


def test_like_a_search_of_all_orders():
    rng, seen = random.Random(5), {True: 0, False: 0}
    for _ in range(3000):
        lines, ops, n = ["initial 7 0"], [], rng.randrange(1, 4)
        for i in range(1, n + 1):
            begin = rng.randrange(30) * 2
            end = begin + 1 + rng.randrange(12) * 2 if rng.random() < 0.8 else None
            ops.append(("w", f"1.1.{i}.1", begin, end))
            lines.append(f"w 1.1.{i}.1 7 1 {begin} {'-' if end is None else end}")
        for i in range(rng.randrange(1, 5)):
            begin = rng.randrange(40) * 2
            end = begin + 1 + rng.randrange(8) * 2
            value = rng.choice(["0"] + [op[1] for op in ops if op[0] == "w" and op[2] < end])
            ops.append(("r", value, begin, end))
            lines.append(f"r 3.1.{i}.1 7 1 {begin} {end} {value}")
        right = allowed(ops)
        seen[right] += 1
        assert bool(checker.check(history.parse("\n".join(lines))).findings) != right, "\n".join(lines)
    assert min(seen.values()) > 500, seen


def test_a_long_history_is_checked_in_time():
    rng, lines, at, last = random.Random(1), [], 0, {}
    for n in range(1, 40001):
        at += 10
        block = rng.randrange(64)
        if rng.random() < 0.5 or block not in last:
            last[block] = f"1.1.0.{n}"
            lines.append(f"w 1.1.0.{n} {block} 1 {at} {at + 5}")
        else:
            lines.append(f"r 2.1.0.{n} {block} 1 {at} {at + 5} {last[block]}")
    import time
    one, began = history.parse("\n".join(lines)), time.process_time()
    assert checker.check(one).findings == []
    assert time.process_time() - began < 20
