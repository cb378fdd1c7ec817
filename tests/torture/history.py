# SPDX-License-Identifier: GPL-2.0-or-later
"""What the writers and readers of a torture did, and when: the only thing that the checker sees.

An operation has the time before which it cannot have begun and the time after which it cannot have ended any more, in microseconds of one
clock. Its true interval lies within: so if the checker finds no order for these intervals, there is none for the true ones either. Each write
has a value of its own, NODE.PROCESS.THREAD.NUMBER, that stands in each of the eight sectors of its blocks.

As text, a line each (what `torture --check FILE` reads, and the tests):

    initial BLOCK VALUE         what the block held before; without such a line anything
    w VALUE FIRST COUNT BEGIN END [error ERRNO]     END is - if nothing was heard of it any more
    r VALUE FIRST COUNT BEGIN END CONTENT...        VALUE names the read; a CONTENT for each block: one value, or eight joined by commas
    r VALUE FIRST COUNT BEGIN END error ERRNO
    dead NODE PROCESS TIME      its machine lost its power, and wrote nothing any more after that
    missing BEGIN END           members were missing in that time

A value "0" is a sector of zeroes; one that begins with "?" is nothing that stands there rightly.
"""
import dataclasses

SECTORS = 8
INF = float("inf")


@dataclasses.dataclass(slots=True)
class Op:
    """A read or a write of some blocks."""
    kind: str
    node: int
    process: int
    thread: int
    number: int
    first: int
    count: int
    begin: int
    end: int | None = None
    error: int = 0
    values: list | None = None          # of a read: for each block a value, or a tuple of eight

    @property
    def name(self):
        """Of a write: its value."""
        return f"{self.node}.{self.process}.{self.thread}.{self.number}"

    def line(self):
        end = "-" if self.end is None else self.end
        what = f" error {self.error}" if self.error else "".join(f" {content(v)}" for v in self.values or ())
        return f"{self.kind} {self.name} {self.first} {self.count} {self.begin} {end}{what}"


def content(value):
    return value if isinstance(value, str) else ",".join(value)


def contents(text):
    """One value for a block whose sectors agree, else a tuple."""
    values = tuple(text.split(","))
    return values[0] if len(set(values)) == 1 else values


def stamp(value):
    """(node, process, thread, number) of a value that a writer made; None: no writer made it."""
    words = value.split(".")
    return tuple(map(int, words)) if len(words) == 4 and all(w.isdigit() for w in words) else None


@dataclasses.dataclass
class History:
    ops: list = dataclasses.field(default_factory=list)
    initial: dict = dataclasses.field(default_factory=dict)     # block -> value or tuple
    dead: dict = dataclasses.field(default_factory=dict)        # (node, process) -> time
    missing: list = dataclasses.field(default_factory=list)     # (begin, end)

    def lines(self):
        yield from (f"initial {block} {content(value)}" for block, value in sorted(self.initial.items()))
        yield from (op.line() for op in sorted(self.ops, key=lambda op: op.begin))
        yield from (f"dead {node} {process} {at}" for (node, process), at in sorted(self.dead.items()))
        yield from (f"missing {begin} {end}" for begin, end in self.missing)


def _op(kind, name, first, count, begin, end, *rest):
    node, process, thread, number = map(int, name.split("."))
    op = Op(kind, node, process, thread, number, int(first), int(count), int(begin), None if end == "-" else int(end))
    if rest[:1] == ("error",):
        op.error = int(rest[1])
    elif kind == "r":
        op.values = [contents(word) for word in rest]
        if op.end is not None and len(op.values) != op.count:
            raise ValueError(f"read {name} has {len(op.values)} of {op.count} blocks")
    return op


def parse(text):
    """A History of its text; # begins a comment."""
    out = History()
    for line in text.splitlines():
        words = line.partition("#")[0].split()
        if not words:
            continue
        if words[0] in ("r", "w"):
            out.ops.append(_op(*words))
        elif words[0] == "initial":
            out.initial[int(words[1])] = contents(words[2])
        elif words[0] == "dead":
            out.dead[int(words[1]), int(words[2])] = int(words[3])
        elif words[0] == "missing":
            out.missing.append((int(words[1]), int(words[2])))
        else:
            raise ValueError(f"no line of a history: {line}")
    return out
