# SPDX-License-Identifier: GPL-2.0-or-later
"""The nemesis' plan follows from the seed alone, and has in it what it is for."""
import collections
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(__file__))
import plan  # noqa: E402


def test_it_is_a_function_of_the_seed():
    one = [str(a) for a in plan.plan(7, 2)]
    program = f"import sys; sys.path.insert(0, {os.path.dirname(os.path.abspath(__file__))!r}); import plan; print(*plan.plan(7, 2), sep='\\n')"
    for hashes in ("0", "1", "77"):     # another process, with other hashes
        done = subprocess.run([sys.executable, "-c", program], env=dict(os.environ, PYTHONHASHSEED=hashes), capture_output=True, text=True, check=True)
        assert done.stdout.splitlines() == one
    assert one != [str(a) for a in plan.plan(8, 2)] and one != [str(a) for a in plan.plan(7, 3)]


def test_all_kinds_occur():
    seen = collections.Counter((act.lane.split()[0], act.kind) for seed in range(60) for act in plan.plan(seed, 1))
    wanted = {("node", k) for k in plan.NODE_KINDS} | {(plan.DISK, k) for k in plan.DISK_KINDS} | {(plan.MEMBER, k) for k in plan.MEMBER_KINDS}
    assert set(seen) == wanted and min(seen.values()) > 5, seen


def test_a_lane_does_one_thing_after_the_other():
    for seed in range(60):
        until = {}
        for act in plan.plan(seed, 3):
            assert 0 <= act.at < 300 and act.at >= until.get(act.lane, 0), f"seed {seed}: {act}"
            until[act.lane] = act.at + act.lasts


def outs(acts):
    return [(a.at, a.at + a.lasts, a.lane) for a in acts if a.kind in plan.OUT and a.lane not in (plan.DISK, plan.MEMBER)]


def test_most_rounds_keep_a_majority_and_some_do_not():
    def alone(acts):
        some = outs(acts)
        return not any(a[2] != b[2] and a[0] < b[1] and b[0] < a[1] for a in some for b in some)
    kept = sum(alone(plan.plan(seed, 1)) for seed in range(100))
    assert 60 < kept < 100


def test_a_daemon_is_stopped_while_members_change():
    """T2 needs a daemon that stands for longer than the limit of waits, and a change of the members meanwhile."""
    def meets(acts):
        stops = [a for a in acts if a.kind == "stop" and a.lasts > 40]
        changes = [a for a in acts if a.kind == "fail"]
        return any(s.at < c.at < s.at + s.lasts - 35 for s in stops for c in changes)
    assert sum(meets(plan.plan(seed, number)) for seed in range(10) for number in range(1, 13)) > 12
