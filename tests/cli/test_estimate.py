# SPDX-License-Identifier: GPL-2.0-or-later
"""`ddraid estimate` for an array that is not made yet:

what it prints, and what it refuses. The figures are checked in tests/unit/test-estimate.c.
"""
import json

import pytest

from test_create import ddraid

SHAPE = ("--order", "2", "--member-size", "4T", "--rate", "180M")
TIB = 1 << 40


def test_as_a_person_reads_it():
    done = ddraid("estimate", *SHAPE, "--iops", 120, "--afr", 2, "--unreadable", "1e-15")
    assert (done.returncode, done.stderr) == (0, "")
    for words in ("order 2, parity 1, rotating: 5 disks, 1 of them may fail", "4 of 5 disks", "read 720 MiB/s to 900 MiB/s, write 720 MiB/s",
                  "read 120 to 150 a second, write 120", "rebuild        6 h 48 min while the array is idle; 19 days 10 h under constant load", "resync_min_rate 10 MiB", "more disks fail than the parity covers: "):
        assert words in done.stdout, f"{words!r} is not in:\n{done.stdout}"


def test_as_a_program_reads_it():
    done = ddraid("estimate", *SHAPE, "--json")
    got = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    assert got["members"] == 5 and got["write_rate"] == 4 * (180 << 20) and got["array_lost"] is None and got["name"] is None
    assert 0.999 * 16 * TIB < got["size"] < 16 * TIB
    assert [round(s / got["verify_s"], 3) for s in got["verify_busy_s"]] == [1, 2, 5, 12.5, 50]


def test_without_parity_no_rebuild_meets_anything():
    got = json.loads(ddraid("estimate", *SHAPE, "--parity", 0, "--afr", 2, "--unreadable", "1e-15", "--json").stdout)
    assert got["block_lost"] is None and round(got["array_lost"], 4) == round(1 - 0.98 ** 4, 4), got


def test_without_parity_it_warns_of_the_loss():
    done = ddraid("estimate", *SHAPE, "--parity", 0)
    assert done.returncode == 0 and "the array is lost when any disk fails" in done.stdout and "rebuild" not in done.stdout


@pytest.mark.parametrize("args, words", [
    ((), "give the name of an array, or --order and --member-size"),
    (("--order", "2", "--rate", "1M"), "give the name of an array, or --order and --member-size"),
    (("--order", "2", "--member-size", "4T"), "--rate is missing"),
    (("data", "--order", "2", "--rate", "1M"), "'data' has its own"),
    (("a", "b", "--rate", "1M"), "give one name, not 2"),
    ((*SHAPE, "--order", "4"), "--order must be"),
    ((*SHAPE, "--parity", "3"), "--parity must be"),
    ((*SHAPE, "--layout", "left"), "--layout must be"),
    ((*SHAPE, "--member-size", "0"), "--member-size must be"),
    ((*SHAPE, "--rate", "fast"), "--rate must be bytes per second"),
    ((*SHAPE, "--rate", "0"), "--rate must be bytes per second"),
    ((*SHAPE, "--rate", "2P"), "--rate must be bytes per second"),
    ((*SHAPE, "--iops", "-3"), "--iops must be"),
    ((*SHAPE, "--iops", "nan"), "--iops must be"),
    ((*SHAPE, "--written", "0"), "--written must be"),
    ((*SHAPE, "--written", "101"), "--written must be"),
    ((*SHAPE, "--afr", "100"), "--afr must be"),
    ((*SHAPE, "--afr", "1%"), "--afr must be"),
    ((*SHAPE, "--afr", "1", "--unreadable", "1"), "--unreadable must be"),
    ((*SHAPE, "--afr", "1", "--wait", "1e9"), "--wait must be"),
    ((*SHAPE, "--wait", "3"), "need --afr"),
    ((*SHAPE, "--sized"), "--sized"),
    ((*SHAPE, "--afr"), "'--afr' needs a value"),
])
def test_usage(args, words):
    done = ddraid("estimate", *args)
    assert done.returncode == 2 and done.stdout == ""
    assert words in done.stderr.splitlines()[0], done.stderr


@pytest.mark.parametrize("size, words", [("1M", "too small"), ("500T", "1 PiB")])
def test_members_that_make_no_array(size, words):
    done = ddraid("estimate", "--order", 2, "--member-size", size, "--rate", "1M")
    assert done.returncode == 1 and words in done.stderr and len(done.stderr.splitlines()) == 1, done
