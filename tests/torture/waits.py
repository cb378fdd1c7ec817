# SPDX-License-Identifier: GPL-2.0-or-later
"""Waits that nobody explained: an operation on a healthy node that takes longer than a limit while no daemon names what it waits for.

A pure function of the operations, of what daemons said (`words`), and of when a node was ill: something was done to it that explains a wait of
its own, or it was off.
"""
import dataclasses

QUIET_STATES = ("active", "left")
# Events of `ddraid events` that name why an array waits.
NAMING = {"wait", "node-lost", "node-fenced", "fence-failed", "hangs", "no-space", "cluster-lost", "evicted", "give-up", "failed", "broken"}


@dataclasses.dataclass
class Word:
    """A daemon named a wait."""
    at: int             # µs
    node: int
    text: str


@dataclasses.dataclass
class Wait:
    """The longest part of a wait that nobody explained."""
    node: int
    begin: int
    end: int
    ops: list

    def __str__(self):
        kinds = {op.kind for op in self.ops}
        who = "writers" if kinds == {"w"} else "readers" if kinds == {"r"} else "readers and writers"
        return (f"unnamed wait: {who} of node {self.node} waited {(self.end - self.begin) / 1e6:.0f} s, and nobody said why "
                f"({self.begin / 1e6:.1f} to {self.end / 1e6:.1f} s, {len(self.ops)} operations)")


def named_in(status):
    """What a daemon's status (an object of status --json) names as a reason to wait; None: nothing."""
    cluster = status.get("cluster") or {}
    if cluster.get("waits"):
        return cluster["waits"]
    if cluster.get("quorate") is False:
        return "no quorum"
    for node in cluster.get("nodes") or ():
        if node.get("state") not in QUIET_STATES:
            return f"node {node.get('id')} is {node.get('state')}"
    for field in ("error", "no_space"):
        if status.get(field):
            return str(status[field])
    for field in ("gave_up", "suspended", "stopping"):
        if status.get(field):
            return field.replace("_", " ")
    if status.get("state") == "failed":
        return "the array has failed"
    return None


def names(event):
    """Does an event name a reason to wait?"""
    return event.get("event") in NAMING or (event.get("event") == "view" and not event.get("quorate", 1))


def without(begin, end, cuts):
    """The parts of an interval that none of these intervals covers."""
    parts = [(begin, end)]
    for a, b in cuts:
        parts = [part for x, y in parts for part in ((x, min(y, a)), (max(x, b), y)) if part[0] < part[1]]
    return parts


def unnamed(ops, words, ill, limit, now, dead=None):
    """Waits longer than @limit (µs), the longest first.

    @words: of Word. @ill: node -> [(begin, end)]. @now: an operation without an end has waited until then, or until its machine had no power
    (@dead: (node, process) -> time).
    """
    spoken = sorted(word.at for word in words)
    out = []
    for node in sorted({op.node for op in ops}):
        long = [(op, (dead or {}).get((op.node, op.process), now) if op.end is None else op.end) for op in ops if op.node == node]
        long = sorted(((op, end) for op, end in long if end - op.begin > limit), key=lambda pair: pair[0].begin)
        waits = []      # [begin, end, ops] of waits that touch each other
        for op, end in long:
            for begin, until in without(op.begin, end, ill.get(node, ())):
                cuts = [begin, *(at for at in spoken if begin < at < until), until]
                first, last = max(zip(cuts, cuts[1:]), key=lambda pair: pair[1] - pair[0])
                if last - first <= limit:
                    continue
                for wait in waits:
                    if first < wait[1] and wait[0] < last:
                        wait[0], wait[1] = min(wait[0], first), max(wait[1], last)
                        wait[2].append(op)
                        break
                else:
                    waits.append([first, last, [op]])
        out += [Wait(node, *wait) for wait in waits]
    return sorted(out, key=lambda wait: wait.begin - wait.end)
