# SPDX-License-Identifier: GPL-2.0-or-later
"""From single measurements to ratios, a table, and the project's targets."""
import dataclasses
import statistics


@dataclasses.dataclass(frozen=True)
class Target:
    """What a ratio has to be. `better` is 'more' (at least `limit`) or 'less' (at most)."""
    text: str
    group: str
    pattern: str
    over: tuple             # (kind name, mode) that it is compared with, at the same order
    limit: float
    orders: tuple = (1, 2, 3)
    layouts: tuple = ("dedicated", "rotating")
    better: str = "more"
    value: str = "mibs"
    modes: tuple = ("full",)
    parities: tuple = (1, 2)


TARGETS = [
    Target("sequential write over dm-stripe", "throttled", "seqwrite", ("stripe", ""), 0.95),
    Target("sequential read over dm-stripe, dedicated", "throttled", "seqread", ("stripe", ""), 0.95,
           layouts=("dedicated",)),
    Target("sequential read over dm-stripe, rotating", "throttled", "seqread", ("stripe", ""), 1.15, orders=(1, 2),
           layouts=("rotating",)),
    Target("random 4 KiB write over one raw member", "throttled", "randwrite", ("raw", ""), 0.95, value="iops"),
    Target("full over nosync, sequential write", "throttled", "seqwrite", ("ddraid", "nosync"), 0.98),
    Target("full over nosync, random write", "throttled", "randwrite", ("ddraid", "nosync"), 0.98, value="iops"),
    Target("4 KiB write at depth 1, time over md RAID5", "latency", "write1", ("md5", ""), 0.6, better="less",
           value="lat_us"),
    Target("sequential write over md RAID5", "ram", "seqwrite", ("md5", ""), 3.0),
    Target("sequential write over dm-stripe", "ram", "seqwrite", ("stripe", ""), 0.5),
    Target("sequential write of two jobs over md RAID5", "ram", "seqwrite2", ("md5", ""), 3.0),
    Target("sequential write of two jobs over dm-stripe", "ram", "seqwrite2", ("stripe", ""), 0.5),
    Target("random 4 KiB write over md RAID5", "ram", "randwrite", ("md5", ""), 1.0, value="iops"),
]


def spread(values):
    """min, median and max as text."""
    return f"{min(values):.3f} / {statistics.median(values):.3f} / {max(values):.3f}"


def rounds_of(results, group, order, kind, pattern, value):
    """{round: figure} of one kind; kind: (name, mode, parity, layout) with None for any."""
    found = {}
    for r in results:
        same = (r["group"] == group and r["pattern"] == pattern and r["name"] == kind[0]
                and r["order"] in (order, None)
                and all(want is None or r[key] == want
                        for key, want in zip(("mode", "parity", "layout"), kind[1:])))
        if same:
            found[r["round"]] = r[value]
    return found


def ratios(ours, theirs):
    """Figure over figure for each round that has both."""
    return [ours[n] / theirs[n] for n in sorted(ours) if n in theirs and theirs[n]]


def judge(results):
    """Every target at every order, parity and layout that was measured: list of dictionaries."""
    out = []
    for target in TARGETS:
        for order in target.orders:
            for parity in target.parities:
                for layout in target.layouts:
                    for mode in target.modes:
                        ours = rounds_of(results, target.group, order, ("ddraid", mode, parity, layout),
                                         target.pattern, target.value)
                        name, other = target.over
                        same = (parity, layout) if name == "ddraid" else (None, None)
                        theirs = rounds_of(results, target.group, order,
                                           (name, other if name == "ddraid" else None, *same), target.pattern,
                                           target.value)
                        found = ratios(ours, theirs)
                        if not found:
                            continue
                        middle = statistics.median(found)
                        good = middle >= target.limit if target.better == "more" else middle <= target.limit
                        out.append({"target": target.text, "group": target.group, "order": order, "parity": parity,
                                    "layout": layout, "limit": target.limit, "better": target.better,
                                    "ratios": found, "median": middle, "met": good})
    return out


def table(results):
    """Text: for each group, order and pattern the kinds beside dm-stripe (min / median / max over rounds)."""
    lines = []
    for group in dict.fromkeys(r["group"] for r in results):
        for order in sorted({r["order"] for r in results if r["group"] == group and r["order"] is not None}):
            rows = [r for r in results if r["group"] == group and r["order"] in (order, None)]
            patterns = list(dict.fromkeys(r["pattern"] for r in rows))
            lines.append(f"\n{group} members, order {order} ({1 << order} data members): figures, and over dm-stripe "
                         "min / median / max")
            for pattern in patterns:
                lines.append(f"  {pattern}")
                value = {"seqwrite": "mibs", "seqwrite2": "mibs", "seqread": "mibs", "write1": "lat_us",
                         "read1": "lat_us"}.get(pattern, "iops")
                unit = {"mibs": "MiB/s", "iops": "IOPS", "lat_us": "us"}[value]
                base = rounds_of(rows, group, order, ("stripe", None, None, None), pattern, value)
                for label in dict.fromkeys(r["label"] for r in rows if r["pattern"] == pattern):
                    mine = {r["round"]: r[value] for r in rows if r["label"] == label and r["pattern"] == pattern}
                    found = ratios(mine, base)
                    lines.append(f"    {label:32} {statistics.median(mine.values()):10.1f} {unit:6}"
                                 + (f" {spread(found)}" if found else ""))
    return "\n".join(lines)


def verdicts(judged):
    """Text: one line for each target that could be judged."""
    lines = ["\ntargets (ratio: min / median / max; the median counts)"]
    for j in judged:
        sign = ">=" if j["better"] == "more" else "<="
        lines.append(f"  {'pass  ' if j['met'] else 'missed'} {j['group']:9} order {j['order']} +{j['parity']} "
                     f"{j['layout']:9} {j['target']:44} {sign} {j['limit']:.2f}: {spread(j['ratios'])}")
    met = sum(j["met"] for j in judged)
    lines.append(f"  {met} of {len(judged)} met")
    return "\n".join(lines)
