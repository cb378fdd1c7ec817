# SPDX-License-Identifier: GPL-2.0-or-later
"""The rounds of a torture on one set of machines, and what each is judged by."""
import contextlib
import random
import subprocess
import threading

import ddvm
import tools
from rig import DEV, NAME

import checker
import log as logs
import waits
from evidence import Evidence
from history import History, stamp
from nemesis import Nemesis
from report import MARGIN, Failed, report_findings
from stampers import GROUP, Stampers
from world import FAILURES, Trouble, World

DISKS, SIZE = 5, "64M"              # four members and a spare
REGIONS = 40                        # that are written; two groups in each, so that nodes share regions
BEFORE = 10                         # seconds of a round without a fault
SAMPLE = 4                          # seconds between two questions for a node's status
HEAL = 600                          # seconds for the lanes to undo what they did
HEARD = 10                          # seconds after which the host has heard of every write that had begun


def build(directory):
    """Compiles stamp.c (static, so that it runs in any guest)."""
    target = directory / "stamp"
    subprocess.run(["cc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-pthread", "-o", target,
                    __file__.replace("session.py", "stamp.c")], check=True)
    return target


class Session:
    """begin(), round() some times, finish(), close(). `number`: of the round that runs."""

    def __init__(self, seed, wait_limit):
        self.seed, self.limit, self.number = seed, wait_limit, 0
        self.vms = ddvm.Run()
        disks = [ddvm.Disk(self.vms.path / f"d{i}.raw", SIZE, f"d{i}") for i in range(DISKS)]
        self.cluster = ddvm.Cluster(self.vms, [ddvm.Node(self.vms, f"n{i}", disks) for i in (1, 2, 3)])
        for node in self.cluster.nodes:
            node.forgive(r"INFO: task [^\n]* blocked for more than.*?</TASK>")     # operations wait; how long they may is judged by themselves
        self.evidence = Evidence(self.vms.path / "torture.log")
        self.over = threading.Event()
        self.world = World(self.cluster, build(self.vms.path), self.evidence, self.over)
        self.initial, self.stopped = {}, threading.Event()
        self.watchers = []

    # -- the machines

    def groups(self):
        """Two runs of blocks in each of some regions, all over the array."""
        rng, per = random.Random(f"groups {self.seed}"), self.world.region_blocks
        regions = self.world.blocks // per
        chosen = sorted(rng.sample(range(regions), min(REGIONS, regions)))
        return [region * per + half * per // 2 + rng.randrange(per // 2 - GROUP) for region in chosen for half in (0, 1)]

    @contextlib.contextmanager
    def told(self, what):
        """What must not fail here is a failure of the round."""
        try:
            yield
        except (*FAILURES, ValueError) as error:
            raise Failed(f"{what}: {str(error)[:2000]}", self._log_of_now()) from error

    def _log_of_now(self):
        now = self.evidence.now()
        return ["  the log of the last minutes:", *self.evidence.between(now - 180 * 1000000, now)]

    def begin(self):
        with self.told("the cluster does not start"):
            self.world.boot()
            self.world.create()
        self.stampers = self.world.stampers = Stampers(self.evidence, self.seed, self.groups())
        with self.told("the first half of the blocks cannot be written"):
            self.first = self.once(1, "fill", self.stampers.groups[::2])
        self.stampers.begin()
        for i in self.world.all:
            self._watch(lambda i=i: self.world.sample(i) if i in self.world.guests else None, SAMPLE)
        self._watch(self.world.buried, 0.2)

    def _watch(self, what, apart):
        def loop():
            while not self.stopped.wait(apart):
                what()
        thread = threading.Thread(target=loop, daemon=True)
        thread.start()
        self.watchers.append(thread)

    def once(self, node, what, groups=None):
        """All groups (or these) written or read by one process that nothing disturbs; its Log."""
        groups = self.stampers.groups if groups is None else groups
        one = logs.Log(node, self.stampers.number(), self.evidence.now())
        done = self.world.node(node).run(f"/tmp/writer once {DEV} {self.stampers.run} {node} {one.process} {what}", timeout=240,
                                         stdin="".join(f"{first}\n" for first in groups))
        one.feed(done.out, self.evidence.now())
        return one

    # -- a round

    def round(self, number, acts, seconds):
        """What is to be said of it, and the reports of waits that nobody explained. Failed: anything else."""
        self.number = number
        self.over.clear()
        begun = self.evidence.now()
        every = [self.first] if number == 1 or self.first else []
        self.first = None
        living = self.stampers.all = []
        with self.told("the writers do not start"):
            for i in self.world.all:
                self.world.write(i)
        nemesis = Nemesis(self.world, acts)
        self.over.wait(BEFORE)
        nemesis.begin()
        self.over.wait(seconds)
        self.over.set()
        self.evidence.add("nemesis", "everything is put right", loud=True)
        stuck = nemesis.end(HEAL)
        trouble = until = None
        try:
            if nemesis.failed:
                raise nemesis.failed[0]
            if stuck:
                raise Trouble(f"{', '.join(stuck)} cannot be put right")
            self.cluster.network.heal()
            self.world.settle()
            every += [self.once(i, "read") for i in self.world.all]
        except FAILURES as error:
            trouble, until = error, self.evidence.now()     # the writers may still be at work
            threading.Event().wait(HEARD)
        every += living
        one = self._history(every, until)
        return self._judge(one, nemesis, begun, trouble)

    def _history(self, every, until=None):
        """Of logs and stampers, as the checker needs it; it is kept. `until`: without what was read later, which may be of writes not heard of yet."""
        one = History(initial=self.initial, missing=self.evidence.missing(self.evidence.now()))
        for each in every:
            one.ops += [op for op in each.ops() if op.kind == "w" or until is None or (op.end is not None and op.end <= until)]
            if getattr(each, "dead", None) is not None:
                one.dead[each.node, each.number] = each.dead
        (self.vms.path / f"history-{self.number}.log").write_text("\n".join(one.lines()) + "\n", encoding="utf-8")
        return one

    def _judge(self, one, nemesis, begun, trouble):
        """The data first: what else went wrong may follow from it."""
        verdict = checker.check(one)
        if verdict.findings:
            raise Failed(str(verdict.findings[0]), report_findings(one, verdict, self.evidence))
        if self.world.ended:
            raise Failed("ddraidd ended by itself", [f"node {n}: {code}: {err}" for n, code, err in self.world.ended] + self._log_of_now())
        found = self._waits(one, nemesis)
        if trouble:
            raise Failed(f"it does not settle: {str(trouble)[:3000]}", [line for lines in found for line in lines] + self._log_of_now())
        errors = self._errors(one)
        if errors:
            raise Failed(f"{len(errors)} operations failed", errors[:20] + self._log_of_now())
        self._remember(one)
        with self.told("at rest"):
            self._at_rest()
        skipped = sum(came.startswith("skipped") for *_, came in nemesis.done)
        return (f"{verdict}; {len(nemesis.done)} acts, {skipped} of them skipped; {len(found)} unnamed waits; "
                f"{(self.evidence.now() - begun) / 6e7:.1f} min"), found

    def _waits(self, one, nemesis):
        """Reports of waits that nobody explained."""
        if not self.limit:
            return []
        scale = ddvm.config.time_scale()
        found = waits.unnamed(one.ops, self.evidence.words, self.world.ill, int(self.limit * scale * 1e6), self.evidence.now(), one.dead)
        out = []
        for wait in found[:10]:
            lines = [str(wait), "  what was done then:"]
            lines += [f"    {a / 1e6:7.1f} to {b / 1e6:7.1f} s  {act.lane}: {act.kind}, {came}" for a, b, act, came in sorted(nemesis.done, key=lambda d: d[0])
                      if a < wait.end and wait.begin < b]
            lines += ["  what daemons said:", *self.evidence.between(wait.begin - MARGIN // 2, wait.end + MARGIN // 2, [f"node {i}" for i in self.world.all] + ["nemesis"], 60)]
            print(f"  {wait}", flush=True)
            out.append(lines)
        return out

    def _errors(self, one):
        """Operations that failed on a machine that lived on: no act takes more from the array than its parity covers."""
        out = []
        for op in one.ops:
            dead = one.dead.get((op.node, op.process))
            if op.error and not (dead is not None and dead - op.begin < 180 * 1000000):
                out.append(f"  {checker.say(op, op.first)} (block {op.first})")
        return out

    def _remember(self, one):
        """What the blocks hold now is what the next round begins with."""
        last = max(self.world.all)
        self.initial = {}
        process = max(op.process for op in one.ops if op.node == last)
        for op in one.ops:
            if op.node != last or op.process != process:
                continue
            for at, value in enumerate(op.values):
                values = (value,) if isinstance(value, str) else value
                if all(stamp(v) or v == "0" for v in values):       # else nobody wrote it: anything
                    self.initial[op.first + at] = value

    def _at_rest(self):
        """Nobody writes: the parity is right, as ddraid sees it and on the raw disks."""
        world = self.world
        number, status = world.any_status()
        if status["regions"]["suspect"]:
            world.accept_suspect()              # verify skips what is suspect
        before = status["verify"]["serial"]
        world.guests[number].command(f"verify {NAME} start --priority 1", timeout=60)

        def verified():
            verify = world.guests[number].status(NAME)["verify"]
            return verify if verify["state"] == "idle" and verify["serial"] != before else None
        found = world.until("verify is done", 240, verified)["found"]
        assert found == 0, f"verify found {found} blocks"
        world.raw()

    # -- the end

    def finish(self):
        """The array is stopped everywhere, and is clean."""
        self.stopped.set()
        with self.told("the end"):
            for i in self.world.up():
                self.world.stop_one(i)
            tools.rawcheck("check", self.world.disks(), "--assert-none", "--assert-idle")
            for node in self.cluster.nodes:
                node.dmesg_check()

    def keep(self):
        """Keeps the logs of a failure; where."""
        for node in self.cluster.nodes:
            if node.alive():
                node.save_dmesg()
        return self.vms.keep_logs(f"torture-{self.seed}")

    def close(self):
        self.stopped.set()
        self.over.set()
        if self.world.stampers:
            self.world.stampers.over.set()
        self.evidence.close()
        self.vms.close()
