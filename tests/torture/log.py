# SPDX-License-Identifier: GPL-2.0-or-later
"""The output of a stamper (stamp.c) as operations with times of the host's clock.

The guest's monotonic clock orders what one guest does; nobody sets it, but it began anywhere, and a machine that gets no processor is late
with everything. So no offset is believed. Causes and effects bound each time instead:

- The host sends the stamper ticks, and notes when. What comes after a tick in the guest came after that moment on the host.
- What a line reports came before the host received the line.

Between a tick and an event, and between an event and a line, the guest's clock tells how much time passed, at least: it may be slow by any
amount, and fast by DRIFT.
"""
import bisect

from history import Op, contents

DRIFT = 0.02
NEAR = 16           # ticks before, and pieces of output after an event that are looked at


class Log:
    """Of one stamper: NODE and PROCESS name it."""

    def __init__(self, node, process, spawned):
        """@spawned: µs of the host's clock at which nothing of it ran yet."""
        self.node, self.process, self.spawned = node, process, spawned
        self.sent = {}                          # number of a tick -> host's µs before it was sent
        self.ticks, self.received = [], []      # (guest's µs, host's µs)
        self.open, self.done = {}, []           # thread -> [Op, guest's begin, None]
        self.owned, self.taken, self.ended = set(), [], False
        self.rest = ""

    # -- what arrives

    def tick(self, number, now):
        """To be called before a tick is sent."""
        self.sent[number] = now

    def feed(self, text, now):
        """A piece of output that has been received."""
        lines = (self.rest + text).split("\n")
        self.rest = lines.pop()
        at = None
        for line in lines:
            if line:
                at = self._line(line.split())
        if at is not None:
            self.received.append((at, now))

    def _line(self, words):
        """Returns the guest's time of it."""
        what, at = words[0], int(words[1])
        if what == "K":
            number = int(words[2])
            if number in self.sent:
                self.ticks.append((at, self.sent.pop(number)))
        elif what == "B":
            thread, number, kind, first, count = int(words[2]), int(words[3]), words[4], int(words[5]), int(words[6])
            self.open[thread] = [Op(kind, self.node, self.process, thread, number, first, count, 0), at, None]
        elif what == "E":
            entry = self.open.pop(int(words[2]))
            op = entry[0]
            if op.number != int(words[3]):
                raise ValueError(f"{op.name} ended as {' '.join(words[:4])}")
            op.error = int(words[4])
            if op.kind == "r" and not op.error:
                op.values = [contents(w) for w in words[5:]]
            entry[2] = at
            self.done.append(entry)
        elif what == "G":
            self.owned.add(int(words[2]))
        elif what == "T":
            self.owned.discard(int(words[2]))
            self.taken.append(int(words[2]))
        elif what == "Q":
            self.ended = True
        elif what != "H":
            raise ValueError(f"no line of a stamper: {' '.join(words)}")
        return at

    # -- times

    def earliest(self, at):
        """The host's time before which the guest's clock cannot have said `at`."""
        last = bisect.bisect_right(self.ticks, (at, float("inf")))
        return max([self.spawned, *(int(host + (1 - DRIFT) * (at - guest)) for guest, host in self.ticks[max(0, last - NEAR):last])])

    def latest(self, at):
        """The host's time by which it said so; None: it has not been heard of."""
        first = bisect.bisect_left(self.received, (at, 0))
        some = self.received[first:first + NEAR]
        return min((int(host - (1 - DRIFT) * (guest - at)) for guest, host in some), default=None)

    def ops(self):
        """All operations so far, those that have not ended too."""
        for op, begin, end in [*self.done, *self.open.values()]:
            op.begin = self.earliest(begin)
            op.end = None if end is None else self.latest(end)
            if op.end is not None and op.end < op.begin:
                raise ValueError(f"the clock of node {self.node} ran too fast: {op.name} ended {op.begin - op.end} µs before it began")
            yield op

    def waiting(self):
        """Operations that have not ended: (Op, begin)."""
        return [(op, self.earliest(begin)) for op, begin, _ in list(self.open.values())]
