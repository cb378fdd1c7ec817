# SPDX-License-Identifier: GPL-2.0-or-later
"""The writers and readers of a torture on all nodes, and who may write which group of blocks.

ddraid asks of its users what a cluster file system gives: no two nodes write the same block at the same time. So each group of blocks has one
owner at a time, as by a lock of dlm. It goes to another node when its owner has no write of it in flight, or when the owner's machine has lost its power; then
at once, whether ddraid has recovered that node's regions or not, since dlm's recovery may be faster.
"""
import random
import threading

import evidence
import log as logs

GROUP = 4                   # blocks, as in stamp.c
THREADS, PAUSE_US = 4, 30000
TICK = 0.25                 # seconds
HANDOVER = 0.4              # seconds between two
PROGRAM = "/tmp/writer"


class Stamper:
    """One process on one node."""

    def __init__(self, owner, node, number, guest, device):
        self.node, self.number, self.guest = node, number, guest
        self.log = logs.Log(node, number, owner.evidence.now())
        self.clock, self.lock = owner.evidence.now, threading.Lock()
        self.orders, self.ticks, self.over = [], 0, threading.Event()
        self.dead = None                # µs: when its machine had no power any more
        self.control = f"/tmp/control.{number}"
        guest.put(self.control, "")
        self.log.spawned = self.clock()
        self.job = guest.spawn(f"exec {PROGRAM} run {device} {self.control} {owner.run} {node} {number} {THREADS} {owner.seed * 100 + number} {PAUSE_US}",
                               stdin=owner.text)
        self.job.listen(self._heard)
        self.thread = threading.Thread(target=self._send, daemon=True)
        self.thread.start()

    def _heard(self, fd, data):
        if fd == 1:
            with self.lock:
                self.log.feed(data.decode(), self.clock())

    def order(self, text):
        with self.lock:
            self.orders.append(text)

    def _send(self):
        """Orders and ticks, one after the other: a machine that is slow gets fewer."""
        while not self.over.wait(TICK):
            with self.lock:
                orders, self.orders = self.orders, []
            self.ticks += 1
            with self.lock:
                self.log.tick(self.ticks, self.clock())
            text = "".join(f"{order}\n" for order in [f"k {self.ticks}", *orders])
            try:
                self.guest.channel.file_op({"op": "put", "path": self.control, "mode": 0o644, "append": True}, text.encode(), timeout=600)
            except Exception as error:  # pylint: disable=broad-exception-caught  # the machine is gone, or does not answer for ten minutes
                self.error = error
                return

    def alive(self):
        return self.dead is None and not self.log.ended and self.job.poll() is None

    def ops(self):
        with self.lock:
            return list(self.log.ops())

    def waiting(self):
        with self.lock:
            return self.log.waiting()


class Stampers:
    """All of them, over their machines' deaths."""

    def __init__(self, keeper, seed, groups):
        """@groups: the first block of each."""
        self.evidence, self.seed, self.groups = keeper, seed, list(groups)
        self.run = random.Random(f"run {seed} {keeper.began}").randrange(1, 1 << 62)
        self.text = "".join(f"{first}\n" for first in self.groups)
        self.lock = threading.Lock()
        self.all, self.last = [], 0
        self.owner = dict.fromkeys(range(len(self.groups)))     # group -> Stamper
        self.taken = set()                                      # groups whose owner was told to give them back
        self.over = threading.Event()
        self.rng = random.Random(f"owners {seed}")
        self.thread = threading.Thread(target=self._hand_over, daemon=True)

    def begin(self):
        self.thread.start()

    def number(self):
        """Of a process: no two have the same."""
        with self.lock:
            self.last += 1
            return self.last

    def start(self, node, guest, device):
        """On a machine whose array is served."""
        one = Stamper(self, node, self.number(), guest, device)
        with self.lock:
            self.all.append(one)
        return one

    def of(self, node):
        """Those that live there."""
        with self.lock:
            return [s for s in self.all if s.node == node and s.alive()]

    def fallen(self, node):
        """What the last process there said, if it ended without being told to."""
        with self.lock:
            last = [s for s in self.all if s.node == node][-1:]
            return [s.job.err.strip()[-300:] or f"it ended with {s.job.poll()}" for s in last if s.dead is None and not s.log.ended and not s.alive()]

    def died(self, node, at):
        """The machine of these has no power since (before) then."""
        with self.lock:
            for one in self.all:
                if one.node == node and one.dead is None and not one.log.ended:
                    one.dead = at
                    one.over.set()

    def quit(self, nodes, wait):
        """Tells those on these nodes to end, and waits that many seconds; those that have not."""
        some = [s for node in nodes for s in self.of(node)]
        for one in some:
            one.order("q")
        begun = evidence.now_us()
        pause = threading.Event()
        while left := [s for s in some if s.alive()]:
            if evidence.now_us() - begun > wait * 1000000:
                return left
            pause.wait(0.1)
        return []

    def _hand_over(self):
        while not self.over.wait(HANDOVER):
            with self.lock:
                self._returned()
                living = [s for s in self.all if s.alive()]
                for group, one in self.owner.items():
                    if one is None and living:
                        self._give(group, self.rng.choice(living))
                group = self.rng.randrange(len(self.groups))
                one = self.owner[group]
                if one and one.alive() and group not in self.taken:
                    self.taken.add(group)
                    one.order(f"t {group}")

    def _give(self, group, one):
        self.owner[group] = one
        one.order(f"g {group}")

    def _returned(self):
        """Groups without an owner again: it gave them back, has ended, or is dead."""
        for one in self.all:
            with one.lock:
                back, one.log.taken = one.log.taken, []
            for group in back:
                if self.owner[group] is one:
                    self.owner[group] = None
                    self.taken.discard(group)
        for group, one in self.owner.items():
            if one and not one.alive():
                self.owner[group] = None
                self.taken.discard(group)

    def end(self):
        self.over.set()
        self.thread.join()
        for one in self.all:
            one.over.set()
