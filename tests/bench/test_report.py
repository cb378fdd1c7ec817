# SPDX-License-Identifier: GPL-2.0-or-later
"""The judge of the bench: made-up figures must pass and miss where they should."""
import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
import report  # noqa: E402


def figure(group, name, pattern, number=0, order=2, mode="", parity=0, layout="", **values):
    return {"group": group, "order": order, "name": name, "mode": mode, "parity": parity, "layout": layout,
            "label": f"{name} {mode} {layout}", "pattern": pattern, "round": number,
            **{"mibs": 0.0, "iops": 0.0, "lat_us": 0.0, **values}}


def ours(group, pattern, mode="full", layout="rotating", **values):
    return figure(group, "ddraid", pattern, mode=mode, parity=1, layout=layout, **values)


def only(judged):
    assert len(judged) == 1, judged
    return judged[0]


def test_more_is_better():
    stripe = figure("throttled", "stripe", "seqwrite", mibs=100.0)
    assert only(report.judge([stripe, ours("throttled", "seqwrite", mibs=95.0)]))["met"]
    assert not only(report.judge([stripe, ours("throttled", "seqwrite", mibs=94.9)]))["met"]


def test_less_is_better():
    md5 = figure("latency", "md5", "write1", parity=1, lat_us=1000.0)
    assert only(report.judge([md5, ours("latency", "write1", lat_us=600.0)]))["met"]
    assert not only(report.judge([md5, ours("latency", "write1", lat_us=601.0)]))["met"]


def test_raw_member_counts_for_every_order():
    raw = figure("throttled", "raw", "randwrite", order=None, iops=1000.0)
    judged = only(report.judge([raw, ours("throttled", "randwrite", iops=951.0)]))
    assert judged["met"] and judged["order"] == 2


def test_rotating_reads_have_their_own_limit():
    stripe = figure("throttled", "stripe", "seqread", mibs=100.0)
    assert not only(report.judge([stripe, ours("throttled", "seqread", mibs=114.0)]))["met"]
    assert only(report.judge([stripe, ours("throttled", "seqread", layout="dedicated", mibs=96.0)]))["met"]


def test_full_is_compared_with_nosync_of_the_same_shape():
    other = figure("throttled", "ddraid", "seqwrite", mode="nosync", parity=2, layout="rotating", mibs=1.0)
    same = ours("throttled", "seqwrite", mode="nosync", mibs=100.0)
    judged = only(report.judge([other, same, ours("throttled", "seqwrite", mibs=97.0)]))
    assert judged["median"] == 0.97 and not judged["met"]


def test_the_median_of_the_rounds_counts_and_the_text_says_so():
    results = []
    for number, (mine, theirs) in enumerate(((50.0, 100.0), (99.0, 100.0), (100.0, 100.0))):
        results.append(figure("throttled", "stripe", "seqwrite", number, mibs=theirs))
        results.append(dict(ours("throttled", "seqwrite", mibs=mine), round=number))
    judged = report.judge(results)
    assert only(judged)["met"] and judged[0]["ratios"] == [0.5, 0.99, 1.0]
    text = report.verdicts(judged)
    assert "0.500 / 0.990 / 1.000" in text and "1 of 1 met" in text
    assert "0.500 / 0.990 / 1.000" in report.table(results)


def test_nothing_measured_is_nothing_met():
    assert report.judge([]) == []
