# SPDX-License-Identifier: GPL-2.0-or-later
"""Is a history one that registers allow, one register for each sector of each block? A pure function of the history.

Each write has a value of its own, so there is no search: all operations of one value (its write and the reads that returned it) form a
cluster, and a cluster its zone: from the first end to the last begin among them. If the first end comes before the last begin, the zone is
"forward": the register held this value during all of it. Otherwise it is "backward": it held it at some moment within. A history is
linearizable if and only if no read ends before the write of its value begins, no two forward zones overlap, and no backward zone lies
within a forward one. Phillip B. Gibbons and Ephraim Korach, "Testing Shared Memories", SIAM Journal on Computing 26(4), 1997, section 4;
in these words in Wojciech Golab, Xiaozhou Li and Mehul A. Shah, "Analyzing Consistency Properties for Fun and Profit", PODC 2011.

What ddraid promises beside that (doc/design.md, "The idea"; dm-ddraid(7), "Reading and writing"):

- A write whose end nobody heard of may take effect at any time until its machine has lost its power, and for ever if it has not.
- A read may return sectors of several values side by side only if all but one of them are of writes that were in flight during the read, or
  that their machine's death cut off.
- A sector that nobody wrote may be returned only while members are missing, or after they were: of a block that a death cut off in mid-write and
  that was not rewritten since; or of one that another node is writing at that moment. (A read that reconstructs excludes writers of its own
  node alone.) Such sectors are counted.
"""
import bisect
import collections
import dataclasses

from history import INF, SECTORS, Op, stamp

UNWRITTEN = "0"


@dataclasses.dataclass
class Finding:
    rule: str
    block: int
    text: str
    ops: list           # those that prove it

    def __str__(self):
        return f"{self.rule}, block {self.block}: {self.text}"

    def lines(self):
        """With the operations that prove it, in the order of their begin."""
        yield str(self)
        for op in sorted(self.ops, key=lambda op: op.begin):
            yield f"    {say(op, self.block)}"


def say(op, block):
    """An operation, as far as it concerns the block."""
    end = "?" if op.end is None else f"{op.end / 1e6:.3f}"
    head = f"{op.begin / 1e6:10.3f} to {end:>10} s  node {op.node}, process {op.process}, thread {op.thread}: "
    if op.kind == "w":
        return head + f"wrote {op.name}" + (f" (error {op.error})" if op.error else " (no end heard)" if op.end is None else "")
    if op.error or op.values is None:
        return head + f"read {op.name}: " + (f"error {op.error}" if op.error else "no end heard")
    value = op.values[block - op.first]
    return head + "read " + (value if isinstance(value, str) else " ".join(value))


@dataclasses.dataclass
class Cluster:
    """A value: its write, the time by which it must have taken effect, and who read it."""
    value: str
    write: Op | None            # None: it stood there before
    begin: float
    end: float
    settled: bool               # it is known to have ended well
    reads: list = dataclasses.field(default_factory=list)

    def zone(self):
        """(first end, last begin)"""
        return min([self.end, *(r.end for r in self.reads)]), max([self.begin, *(r.begin for r in self.reads)])


class Block:
    """All operations of one block."""

    def __init__(self, number, history):
        self.number, self.history = number, history
        self.writes, self.reads = {}, []        # value -> Op

    def end(self, write):
        """When it has taken effect, or never will."""
        if write.end is not None and not write.error:
            return write.end
        return self.history.dead.get((write.node, write.process), INF)

    def settled(self, value, before):
        """Was all of its write over before this time, and well?"""
        write = self.writes.get(value)
        return write is None or (write.end is not None and not write.error and write.end < before)

    def row(self, read):
        """The eight values that a read returned."""
        value = read.values[self.number - read.first]
        return (value,) * SECTORS if isinstance(value, str) else value

    def initial(self):
        """The eight values before all; None: unknown."""
        value = self.history.initial.get(self.number)
        return (value,) * SECTORS if isinstance(value, str) else value

    # -- what may be returned that nobody wrote

    def _degraded(self, begin, end):
        return any(a <= end and begin <= b for a, b in self.history.missing)

    def _cut_off(self, write, read):
        """A death cut this write off, and nobody has rewritten the block before the read."""
        dead = self.history.dead.get((write.node, write.process))
        if dead is None or (write.end is not None and not write.error) or write.begin > read.end:
            return False
        return not any(w.begin >= dead and w.end is not None and not w.error and w.end <= read.begin for w in self.writes.values())

    def may_be_garbage(self, read):
        for write in self.writes.values():
            beside = write.node != read.node and write.begin <= read.end and self.end(write) >= read.begin
            if beside and self._degraded(read.begin, read.end):
                return True
            if self._cut_off(write, read) and self._degraded(write.begin, read.end):
                return True
        return False

    # -- checks

    def phantoms(self, last):
        """Writes that were read, and whose begin nobody heard, because their machine's death came first.

        @last: (node, process, thread) -> the last operation that was heard of.
        """
        for read in self.reads:
            for value in set(self.row(read)):
                made = stamp(value)
                if not made or value in self.writes or made[:2] not in self.history.dead:
                    continue
                before = last.get(made[:3])
                if before is None or made[3] > before.number:
                    self.writes[value] = Op("w", *made, self.number, 1, before.begin if before else -INF)

    def clusters(self, sector):
        initial = self.initial()
        out = {}
        if initial is None or initial[sector] not in self.writes:
            value = UNWRITTEN if initial is None else initial[sector]
            out[value] = Cluster(value, None, -INF, -INF, True)
        for value, write in self.writes.items():
            out[value] = Cluster(value, write, write.begin, self.end(write), write.end is not None and not write.error)
        return out

    def check(self):
        """(findings, sectors that were garbage and may be)"""
        findings, garbage, columns, rows = [], 0, {}, []
        for read in self.reads:
            row = self.row(read)
            findings += self.mix(read, row)
            rows.append(row)
        for sector in range(SECTORS):
            column = tuple(row[sector] for row in rows)
            initial = self.initial()
            columns.setdefault((column, initial[sector] if initial else None), sector)
        for (column, _), sector in columns.items():
            found, allowed = self.check_sector(sector, column)
            findings += found
            garbage += allowed
        return findings[:1], garbage    # one of a block is enough: the rest follows from it

    def mix(self, read, row):
        """Values side by side, of which at most one may have been at rest."""
        if len(set(row)) < 2:
            return []
        initial = self.initial()
        known = [v for v in dict.fromkeys(row) if stamp(v) or v in (initial or (UNWRITTEN,))]
        old = [v for v in known if self.settled(v, read.begin)]
        if len(old) < 2:
            return []
        if initial is not None and all(v in initial for v in old):
            return []           # it was found so, and none of it was rewritten; the sectors' own order says whether that may be
        return [Finding("torn block", self.number, f"a read has sectors of {' and '.join(old)}, and neither was being written",
                        [read, *(self.writes[v] for v in old if v in self.writes)])]

    def check_sector(self, sector, column):
        clusters, garbage = self.clusters(sector), 0
        for read, value in zip(self.reads, column):
            if value not in clusters:
                if stamp(value) is None and self.may_be_garbage(read):
                    garbage += 1
                    continue
                if stamp(value) is None and self.initial() is None and not any(self.settled(v, read.begin) for v in self.writes):
                    value = UNWRITTEN
                else:
                    return [Finding("a value that nobody wrote", self.number, f"sector {sector} reads as {value}", [read])], garbage
            clusters[value].reads.append(read)
        for cluster in clusters.values():
            for read in cluster.reads:
                if read.end < cluster.begin:
                    return [Finding("read before it was written", self.number, f"sector {sector} reads as {cluster.value}", [read, cluster.write])], garbage
        pair = conflict([c for c in clusters.values() if c.reads or c.settled])
        return ([self.explain(sector, *pair)] if pair else []), garbage

    def explain(self, sector, one, two):
        """In words, why the two values have no order."""
        for old, new in ((one, two), (two, one)):
            late = [r for r in old.reads if r.begin > new.end]
            if new.settled and late and old.end < new.begin:
                return Finding("stale read", self.number, f"sector {sector} reads as {old.value} after {new.value} was written",
                               ops_of(old, new, late[:1]))
        for old, new in ((one, two), (two, one)):
            for between in new.reads:
                before = [r for r in old.reads if r.end < between.begin]
                late = [r for r in old.reads if r.begin > between.end]
                if late and (before or old.end < between.begin):
                    return Finding("an old value is back", self.number, f"sector {sector} reads as {old.value} again after {new.value} was read",
                                   ops_of(old, new, [between, *before[-1:], *late[:1]]))
        return Finding("no order", self.number, f"sector {sector}: {one.value} and {two.value} have no order that fits all reads",
                       ops_of(one, two, [*one.reads, *two.reads]))


def ops_of(one, two, more):
    return [op for op in (one.write, two.write) if op] + list(more)


def conflict(clusters):
    """Two clusters that cannot be put in an order, or None."""
    zones = [(*c.zone(), c) for c in clusters]
    forward = sorted((z for z in zones if z[0] < z[1]), key=lambda z: z[:2])
    for (_, last, one), (first, _, two) in zip(forward, forward[1:]):
        if first < last:
            return one, two
    firsts = [z[0] for z in forward]
    for first, last, cluster in zones:
        if first < last:
            continue
        at = bisect.bisect_left(firsts, last) - 1       # the last forward zone that begins before this backward one
        if at >= 0 and forward[at][1] > first:
            return forward[at][2], cluster
    return None


@dataclasses.dataclass
class Verdict:
    findings: list
    blocks: int
    reads: int
    writes: int
    open: int           # writes whose end nobody heard
    garbage: int

    def __str__(self):
        return (f"{self.reads} reads and {self.writes} writes of {self.blocks} blocks ({self.open} writes without an end)" +
                (f", {self.garbage} sectors that nobody wrote, where that may be" if self.garbage else ""))


def check(history):
    """The Verdict on a history; it is right if there are no findings."""
    blocks, last = {}, {}
    for op in history.ops:
        key = op.node, op.process, op.thread
        if key not in last or last[key].number < op.number:
            last[key] = op
        if op.kind == "r" and (op.end is None or op.error):
            continue
        for number in range(op.first, op.first + op.count):
            block = blocks.get(number)
            if block is None:
                block = blocks[number] = Block(number, history)
            if op.kind == "w":
                block.writes[op.name] = op
            else:
                block.reads.append(op)
    findings, garbage = [], 0
    for number in sorted(blocks):
        blocks[number].phantoms(last)
        found, allowed = blocks[number].check()
        findings += found
        garbage += allowed
    kinds = collections.Counter(op.kind for op in history.ops)
    unended = sum(op.kind == "w" and (op.end is None or op.error != 0) for op in history.ops)
    return Verdict(findings, len(blocks), kinds["r"], kinds["w"], unended, garbage)


def of_block(history, block, around=(), most=60):
    """The operations of a block, as lines: those near in time to `around` (operations) if there are more than `most`."""
    ops = sorted((op for op in history.ops if op.first <= block < op.first + op.count), key=lambda op: op.begin)
    marks = [op.begin for op in around if op.begin > -INF]
    if len(ops) > most and marks:
        near = sorted(ops, key=lambda op: min(abs(op.begin - m) for m in marks))[:most]
        ops = [op for op in ops if any(op is n for n in near)]
    return [("> " if any(op is a for a in around) else "  ") + say(op, block) for op in ops[:most]]
