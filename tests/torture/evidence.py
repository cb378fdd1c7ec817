# SPDX-License-Identifier: GPL-2.0-or-later
"""What was done and said in a torture, by the host's clock: the acts of the nemesis, words of daemons, events, states. Kept in a file as it comes."""
import json
import threading
import time

import waits


def now_us():
    """The clock of all times in a torture."""
    return time.monotonic_ns() // 1000


class Evidence:
    """Thread-safe; times are µs since it was made, as all times that people see."""

    def __init__(self, path, echo=print):
        self.began = now_us()
        self.lock = threading.Lock()
        self.lines, self.words, self.health = [], [], []     # (time, source, text); waits.Word; (time, optimal)
        self.file = open(path, "w", encoding="utf-8")
        self.echo = echo

    def now(self):
        return now_us() - self.began

    def add(self, source, text, loud=False):
        """A line of text. `loud`: people see it at once."""
        with self.lock:
            at = self.now()
            self.lines.append((at, source, text))
            if not self.file.closed:
                self.file.write(f"{at / 1e6:9.3f}  {source}: {text}\n")
                self.file.flush()
            if loud:
                self.echo(f"  {at / 1e6:7.1f} s  {source}: {text}", flush=True)

    def hear(self, node, what):
        """A function that takes pieces of a program's output; `what`: "ddraidd" or "events"."""
        rest = {1: b"", 2: b""}

        def heard(fd, data):
            lines = (rest[fd] + data).split(b"\n")
            rest[fd] = lines.pop()
            for line in filter(None, lines):
                self._line(node, what, fd, line.decode(errors="replace"))
        return heard

    def _line(self, node, what, fd, line):
        if what == "events" and fd == 1:
            try:
                event = json.loads(line)
            except ValueError:
                event = {}
            if event.get("event") == "state":
                return
            if waits.names(event):
                self.words.append(waits.Word(self.now(), node, event.get("text", "")))
            if event.get("event") in ("member-failed", "degraded", "failed", "rebuild-start"):
                self.health.append((self.now(), False))
            line = f"event {event.get('event')}: {event.get('text')}"
        self.add(f"node {node} {what}", line)

    def status(self, node, status):
        """An array's status on a node."""
        at, named = self.now(), waits.named_in(status)
        if named:
            self.words.append(waits.Word(at, node, named))
        self.health.append((at, status["state"] == "optimal"))
        cluster = status.get("cluster") or {}
        nodes = " ".join(f"{n['id']}={n['state']}" for n in cluster.get("nodes") or ())
        members = " ".join(f"{m['index']}={m['state']}" for m in status["members"])
        self.add(f"node {node} status", f"{status['state']}, nodes {nodes}, members {members}, waits: {named or 'nothing'}")

    def missing(self, until):
        """Times in which members may have been missing: from the last report of an optimal array before one of another to the first after it."""
        out, since, last = [], None, 0
        for at, optimal in sorted(self.health):
            if not optimal and since is None:
                since = last
            elif optimal and since is not None:
                out.append((since, at))
                since = None
            if optimal:
                last = at
        return out + ([(since, until)] if since is not None else [])

    def between(self, begin, end, sources=("",), most=150):
        """Lines of that time whose source begins so; the first and the last of them if there are more than `most`."""
        with self.lock:
            some = [f"{at / 1e6:9.3f}  {source}: {text}" for at, source, text in self.lines
                    if begin <= at <= end and source.startswith(tuple(sources))]
        if len(some) > most:
            some = [*some[:most // 2], f"... {len(some) - most // 2 * 2} lines more ...", *some[-(most // 2):]]
        return some

    def close(self):
        with self.lock:
            self.file.close()
