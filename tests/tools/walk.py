#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Follows a write bio through the kernel module: which rooms the walk visits, and how often it comes back to one that it has left.

    walk.py [ready|waits]       the way of a write for which all is ready, or that waits for all that it can; its returns; the numbers

The walk is that of somebody who reads the source. It begins with .map. It enters a function where it is called first, in the order of the text, and goes on
behind that call in the caller. What it has read once it does not read again. What runs later (a work item, the end of a member bio) comes after the context
that left it behind, in the order in which that was done.

A room is what one header speaks for: the header, and the files whose functions it declares. Headers that speak for the same file are one room, so the private
contract of the engine (io.h) makes one room of the files that share it. A file for which no header speaks is a room of its own.

A return is a step into a room that the walk has left before: by a call, with the next context, or back in a caller that has something left to call. The last
call of a function needs no way back. The same is counted with each file as a room.
"""
import collections
import functools
import pathlib
import re
import sys

import functions as sources

TOP = pathlib.Path(__file__).resolve().parents[2]
START = "ddr_map"

# What runs where a pointer is called: (in which function, the call in the text) -> the functions.
NOW = {
    ("ddr_wait_over", "a->wake"): "ddr_io_wake",
    ("ddr_command_run", "ddr_commands[i].run"): "ddr_cmd_grant",
    ("ddr_buf_get", "mempool_alloc"): "ddr_small_alloc ddr_large_alloc",
    ("ddr_buf_take_pages", "mempool_alloc"): "ddr_page_alloc",
    ("ddr_buf_free_pages", "mempool_free"): "ddr_page_free",
    ("ddr_buf_put", "mempool_free"): "ddr_small_free ddr_large_free",
}
# What runs later, in a context of its own: (in which function, the call in the text) -> the functions.
LATER = {
    ("ddr_io_submit", "submit_bio_noacct"): "ddr_member_endio",
    ("ddr_io_queue", "queue_delayed_work"): "ddr_io_work ddr_io_woken",
    ("ddr_channel_wake", "wake_up_poll"): "ddr_channel_read ddr_channel_write",  # the daemon reads LOCK, and writes GRANT
}
# Files that are no rooms of the way, and why.
NO_ROOM = {
    "points.h": "nothing in the module that is installed",
    "points.c": "nothing in the module that is installed",
    "trace.h": "trace points say what happens and change nothing",
    "geometry.h": "of lib/math: what is computed from the arguments alone",
}
# Functions that a write does not enter while nothing fails, and why.
FAILS = {
    "ddr_phase_check": "only in a module for tests",
    "ddr_read_run": "reads",
    "ddr_flush_run": "flushes",
    "ddr_error_report": "a member failed",
    "ddr_error_park": "a member failed",
    "ddr_error_of_flush_op": "a member failed",
    "ddr_write_failed": "a member failed",
    "ddr_write_answered": "a member failed",
    "ddr_io_refused": "it may not wait, and ends",
    "ddr_array_shadow_readable": "a disk is being replaced, and its place is not read any more",
    "ddr_control_fill": "a descriptor that is bound to no array",
}
# Functions that are entered only when the write has to wait, or when something waits for it, and why.
WAITS = {
    "ddr_array_admit_slow": "at the gate",
    "ddr_io_turn_away": "the gate was shut meanwhile",
    "ddr_region_get_slow": "for a grant",
    "ddr_region_look_ahead": "the first write since the grant",
    "ddr_channel_wake": "for a grant",
    "ddr_range_behind_ex": "for a range",
    "ddr_range_notify": "somebody waits for this range",
    "ddr_wait_begin": "may it wait?",
    "ddr_wait_over": "what it waited for has come",
}
WAYS = {"ready": {**FAILS, **WAITS}, "waits": FAILS}
# At most so many: rooms and returns, the same with each file as a room. Lower them when the way gets shorter.
MOST = {"ready": (6, 8, 16, 51), "waits": (8, 14, 21, 72)}


class Source:
    """The functions of some files: where they are, and which functions they call, in the order of the text."""

    CALL = re.compile(r"(?<![\w.>])([A-Za-z_]\w*)[ \t]*\(|((?:\w+(?:\[\w+\])?(?:->|\.))+\w+)\(")
    NAMED = re.compile(r"(?<![\w.>])(?<!struct )(?<!enum )([A-Za-z_]\w*)\b(?![ \t]*\()")

    def __init__(self, files):
        self.file_of, self.body = {}, {}
        for path in files:
            for f in sources.of(path):
                if f.name not in self.body or path.suffix == ".c":
                    self.body[f.name] = f.body
                    self.file_of[f.name] = path.name
        self.room_of = self.rooms(files)

    def rooms(self, files):
        """Which room a file is in: the first name of those that headers tie together."""
        tied = {path.name: {path.name} for path in files}
        for path in files:
            if path.suffix != ".h":
                continue
            for name in sources.declared(path.read_text()):
                one, other = tied[path.name], tied.get(self.file_of.get(name), set())
                one |= other
                for file in one:
                    tied[file] = one
        return {file: min(pathlib.Path(name).stem for name in room if name.endswith(".h") or len(room) == 1) for file, room in tied.items()}

    @functools.cache
    def calls(self, name):
        """What @name calls, in the order in which the calls are made: those in an argument before the call that it is for."""
        text, found = self.body[name], []
        for m in self.CALL.finditer(text):
            depth, at = 1, m.end()
            while depth and at < len(text):
                depth += {"(": 1, ")": -1}.get(text[at], 0)
                at += 1
            found.append((at, m.group(1) or m.group(2)))
        return [called for _, called in sorted(found)]

    def handed(self, name):
        """Functions that @name mentions without calling them: they run through a pointer."""
        return {word for word in self.NAMED.findall(self.body[name]) if word in self.body}


class Walk:
    """@by_file: each file is a room. Afterwards: .rooms in the order of the first visit, .returns as (room left, room entered, function), .steps."""

    def __init__(self, source, start=START, not_entered=(), now=None, later=None, no_room=(), by_file=False):
        self.source, self.not_entered, self.no_room, self.by_file = source, not_entered, no_room, by_file
        self.now, self.later = now or {}, later or {}
        self.read, self.steps, self.here, self.rooms, self.returns = set(), [], None, [], []
        contexts = collections.deque([start])
        while contexts:
            name = contexts.popleft()
            if self.enters(name):
                self.enter(name, 0, contexts)

    def step(self, name, depth, back=False):
        file = self.source.file_of[name]
        room = pathlib.Path(file).stem if self.by_file else self.source.room_of[file]
        if room != self.here:
            if room in self.rooms:
                self.returns.append((self.here, room, name))
            else:
                self.rooms.append(room)
        if room != self.here or not back:
            self.steps.append((depth, room, file, name, back))
        self.here = room

    def enters(self, name):
        return name in self.source.body and name not in self.read and name not in self.not_entered and self.source.file_of[name] not in self.no_room

    def enter(self, name, depth, contexts):
        self.read.add(name)
        self.step(name, depth)
        for called in self.source.calls(name):
            contexts.extend(self.later.get((name, called), "").split())
            for target in [called, *self.now.get((name, called), "").split()]:
                if self.enters(target):
                    self.step(name, depth, True)        # behind the call before: the walk is here again
                    self.enter(target, depth + 1, contexts)

    def undeclared(self):
        """Pointers to functions, in what was read, that the tables do not resolve."""
        known = {name for targets in [*self.now.values(), *self.later.values()] for name in targets.split()} | set(self.not_entered)
        return sorted([f"{name} hands on {other}" for name in self.read for other in self.source.handed(name) - known] +
                      [f"{name} calls {called}()" for name in self.read for called in self.source.calls(name)
                       if re.search(r"->|\.", called) and (name, called) not in self.now])


@functools.cache
def module():
    return Source([*sorted((TOP / "kernel").glob("*.[ch]")), TOP / "lib/math/geometry.h"])


def walk(source, way, by_file=False):
    return Walk(source, START, WAYS[way], NOW, LATER, NO_ROOM, by_file)


def numbers(source, way):
    rooms, files = walk(source, way), walk(source, way, True)
    return len(rooms.rooms), len(rooms.returns), len(files.rooms), len(files.returns)


def show(source, way):
    found = walk(source, way)
    for depth, room, file, name, back in found.steps:
        print(f"{room:10} {file:14} {'  ' * depth}{'(back in) ' if back else ''}{name}")
    print()
    for (left, entered), n in collections.Counter((left, entered) for left, entered, _ in found.returns).most_common():
        print(f"{n:3} from {left} to {entered}")
    print(f"\n{way}: %d rooms, %d returns; with each file as a room %d and %d\nrooms: {' '.join(found.rooms)}" % numbers(source, way))


def main():
    ways = sys.argv[1:] or list(WAYS)
    if set(ways) - set(WAYS):
        sys.exit(__doc__)
    for way in ways:
        show(module(), way)


if __name__ == "__main__":
    main()
