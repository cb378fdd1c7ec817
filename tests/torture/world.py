# SPDX-License-Identifier: GPL-2.0-or-later
"""The machines of a torture: three nodes, an array of four members (order 1, P and Q) and a spare, each below a dm-forget on each node.

Nothing here expects that a command succeeds while the nemesis works: what fails is noted and tried again, as a supervisor does. What must succeed is
said in settle().
"""
import json
import threading
import time

from ddvm.channel import NodeDied
from ddvm.config import time_scale
from faulty import FaultyRig
from guest import Guest
from rig import DEV, NAME

SHM = "64m"
PATIENCE = 300              # seconds
FAILURES = (AssertionError, NodeDied, OSError)      # of a command in a guest; CommandFailed and CommandTimeout are AssertionErrors
OPTIONS = {"io_timeout": "10s", "away_time": "15s", "daemon_timeout": "20s", "fence_timeout": "30s"}


class Trouble(AssertionError):
    """The cluster does not do what it must."""


class World(FaultyRig):
    """`evidence`: what happens is noted there. `over`: an event; from then on everything is put right."""

    def __init__(self, cluster, stamp, evidence, over):
        super().__init__(cluster, stamp, shape=(1, 2, "rotating"), spares=1, filesystem=False, **OPTIONS)
        self.evidence, self.over = evidence, over
        self.stampers = None
        self.broken = {}                    # (node, disk) -> words that its dm-forget was told
        self.locks = {i: threading.Lock() for i in self.all}        # who starts or ends something on a node holds its lock
        self.ill = {i: [] for i in self.all}                        # [begin, end] in which waits there are the nemesis' own
        self.running = set()                # nodes whose machine should have power and has been seen with it
        self.ended = []                     # daemons that ended by themselves
        self.burying = threading.Lock()
        self.asked = 0                      # how often any node was asked for its status
        self.wanted_end = {}                # node -> the job of a daemon that was killed on purpose

    def prepare(self):
        self.blocks = int(self.node(min(self.guests)).run(f"blockdev --getsize64 {DEV}").out) // 4096

    # -- a node's life

    def boot(self, numbers=None, alone=False):
        super().boot(numbers, alone)
        for i in numbers or self.all:
            self.cluster.corosync[i].listen(self.evidence.hear(i, "corosync"))

    def start_daemon(self, number):
        node = self.node(number)
        node.run(f"mount -o remount,size={SHM} /dev/shm 2>/dev/null || mount -t tmpfs -o size={SHM} shm /dev/shm", check=False)
        super().start_daemon(number)
        self.guests[number].daemon.listen(self.evidence.hear(number, "ddraidd"))

    def watch(self, number):
        super().watch(number)
        self.guests[number].events.listen(self.evidence.hear(number, "events"))
        self.running.add(number)

    def layer(self, number, index):
        super().layer(number, index)
        for words in self.broken.get((number, index), ()):
            self.node(number).run(f"dmsetup message m{index} 0 {words}")

    def alive(self, number):
        return number in self.running and self.node(number).alive()

    def buried(self):
        """Notes machines that lost their power, by whom ever; to be called often, and before one is switched on."""
        with self.burying:
            self._bury()

    def _bury(self):
        for i in sorted(self.running):
            node = self.node(i)
            if node.alive():
                continue
            with node.power:        # whoever cuts it holds this until the machine is gone
                pass
            at = self.evidence.now()
            self.running.discard(i)
            self.guests.pop(i, None)
            self.stampers.died(i, at)
            self.ill[i].append([at, float("inf")])
            fenced = self.cluster.fencer.log
            who = next((f"{program} of node {asker}" for _, asker, program, victim, answer in reversed(fenced) if victim == i and answer == "ok"), "")
            self.evidence.add(f"node {i}", f"its power is off{f' (last fenced by {who})' if who else ''}", loud=True)

    def bring(self, number):
        """From power off (one that hangs in its boot is cut off) to writing, as a machine does that boots: returns when it serves, or raises."""
        self.node(number).kill()
        self.buried()
        self.guests.pop(number, None)
        self.evidence.add(f"node {number}", "boots")
        self.cluster.boot([number])
        node = self.node(number)
        self.cluster.start_corosync([number], wait=False)
        self.cluster.corosync[number].listen(self.evidence.hear(number, "corosync"))
        node.put("/tmp/writer", self.writer, 0o755)
        self.guests[number] = Guest(node)
        self.start_daemon(number)
        self.watch(number)
        self.serve(number)

    def serve(self, number):
        """Starts the array, though the cluster may not be ready for that for a while, and what writes on it."""
        deadline = time.monotonic() + PATIENCE * time_scale()
        while True:
            try:
                self.guests[number].command(f"start {NAME}", timeout=120)
                break
            except FAILURES as error:
                if not self.alive(number) or self.daemon_gone(number) or time.monotonic() > deadline:
                    raise
                self.evidence.add(f"node {number} start", str(error)[-300:])
                time.sleep(2)
        self.write(number)

    def write(self, number):
        if not self.stampers.of(number):
            for why in self.stampers.fallen(number):
                self.evidence.add(f"node {number} writer", why)
            self.stampers.start(number, self.node(number), DEV)
        self.well(number)

    def well(self, number):
        """The node is nobody's patient any more: after a moment its waits count."""
        for span in self.ill[number]:
            span[1] = min(span[1], self.evidence.now() + 10000000)

    def daemon_gone(self, number):
        """Has the daemon ended?"""
        guest = self.guests.get(number)
        return guest is not None and guest.daemon is not None and guest.daemon.poll() is not None

    def new_daemon(self, number):
        """After the last one has ended."""
        self.start_daemon(number)
        self.watch(number)

    def end_daemon(self, number, patience=120):
        """kill -9, and wait for the end; False: it does not end (a request of it hangs in the kernel), or the machine is gone."""
        guest = self.guests[number]
        self.wanted_end[number] = guest.daemon
        guest.daemon.kill()
        deadline = time.monotonic() + patience * time_scale()
        while self.alive(number) and guest.daemon.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
        return self.alive(number) and guest.daemon.poll() is not None

    def keep(self, number):
        """What a supervisor does for a node that nothing is done to: power on, daemon on, array started."""
        with self.locks[number]:
            if not self.alive(number):
                self.bring(number)
            elif self.daemon_gone(number):
                guest = self.guests[number]
                if self.wanted_end.get(number) is not guest.daemon:
                    self.evidence.add(f"node {number}", f"ddraidd ended by itself with {guest.daemon.poll()}", loud=True)
                    if guest.daemon.poll() not in (0, 1):
                        self.ended.append((number, guest.daemon.poll(), guest.daemon.err[-1500:]))
                self.new_daemon(number)
                self.serve(number)
            elif not self.stampers.of(number):
                self.serve(number)
            elif self.guests[number].events.poll() is not None:     # it ends when the daemon stands still for 15 s
                guest = self.guests[number]
                guest.events = guest.node.spawn("exec ddraid events --json")
                guest.events.listen(self.evidence.hear(number, "events"))

    # -- what may be asked of any node

    def any_status(self):
        """(node, status) of a node that answers; (None, None): none does."""
        numbers = sorted(self.guests)
        self.asked += 1
        for i in numbers[self.asked % len(numbers):] + numbers[:self.asked % len(numbers)] if numbers else ():
            try:
                return i, self.guests[i].status(NAME)
            except (*FAILURES, KeyError, StopIteration, ValueError):
                continue
        return None, None

    def sample(self, number):
        """Notes a node's status."""
        try:
            done = self.guests[number].command("status --json", check=False, timeout=10)
            if done.code == 0:
                self.evidence.status(number, next(a for a in json.loads(done.out) if a["name"] == NAME))
            else:
                self.evidence.add(f"node {number} status", done.err.strip()[-300:])
        except (*FAILURES, KeyError, StopIteration, ValueError) as error:
            self.evidence.add(f"node {number} status", f"no answer: {str(error)[:200]}")

    def try_command(self, number, text, timeout=90):
        """A command of an operator that may be refused; was it done?"""
        try:
            done = self.guests[number].command(text, check=False, timeout=timeout)
        except (*FAILURES, KeyError) as error:
            self.evidence.add(f"node {number} command", f"ddraid {text}: {str(error)[:300]}")
            return False
        self.evidence.add(f"node {number} command", f"ddraid {text}: {'done' if done.code == 0 else done.err.strip()[-300:]}")
        return done.code == 0

    def out_members(self, status):
        """Disks of members that are out and have a device: (index, path)."""
        return [(m["index"], m["device"]) for m in status["members"] if m["state"] in ("faulty", "missing") and m["device"]]

    # -- the end of a round

    def until(self, what, seconds, done):
        """Waits until done() gives something; what it gave."""
        deadline = time.monotonic() + seconds * time_scale()
        last = None
        while True:
            try:
                result = done()
                if result:
                    return result
            except (*FAILURES, KeyError, StopIteration, ValueError) as error:
                last = error
            if time.monotonic() > deadline:
                raise Trouble(f"{what}: not in {seconds} s after everything was put right; {last or self._states()}")
            time.sleep(0.5)

    def _states(self):
        out = {}
        for i in sorted(self.guests):
            try:
                status = self.guests[i].status(NAME)
                out[i] = {"state": status["state"], "waits": status["cluster"]["waits"], "regions": status["regions"], "jobs": status["jobs"],
                          "members": [(m["index"], m["state"]) for m in status["members"]]}
            except (*FAILURES, KeyError, StopIteration, ValueError) as error:
                out[i] = str(error)[:200]
        return out

    def all_serve(self):
        """Do all nodes see all nodes at work? Starts what does not run."""
        for i in self.all:
            self.keep(i)
        for i in self.all:
            cluster = self.guests[i].status(NAME)["cluster"]
            if not cluster["quorate"] or {n["id"] for n in cluster["nodes"] if n["state"] == "active"} != set(self.all):
                return False
        idle = [i for i in self.all if not self.stampers.of(i)]
        if idle:
            raise Trouble(f"nothing writes on node {', '.join(map(str, idle))}")
        return True

    def whole(self):
        """Is every role in sync? Takes back what is out."""
        number, status = self.any_status()
        if status["state"] == "optimal" and not any(j["type"] in ("rebuild", "replace") for j in status["jobs"]):
            spare = [m for m in status["members"] if m["state"] == "spare"]
            out = self.out_members(status)
            if spare or not out:
                return True
        if not any(j["type"] in ("rebuild", "replace") for j in status["jobs"]):
            for _, device in self.out_members(status)[:1]:
                self.try_command(number, f"add {NAME} {device}")
        return False

    def idle(self):
        return not any(guest.busy(NAME) for guest in self.guests.values())

    def settle(self):
        """All is well again within minutes, or Trouble says what is not."""
        self.until("all nodes serve the array", 300, self.all_serve)
        left = self.stampers.quit(self.all, 120 * time_scale())
        if left:
            waiting = [f"{op.kind} {op.name} of block {op.first} since {begin / 1e6:.1f} s" for s in left for op, begin in s.waiting()]
            raise Trouble(f"operations that do not end, 120 s after everything was put right: {', '.join(waiting) or [s.job.err for s in left]}; {self._states()}")
        self.until("every member is in sync", 300, self.whole)      # without load: rebuilds have run beside writers before
        self.try_command(self.any_status()[0], f"verify {NAME} stop")      # one that an act began
        self.until("nothing is dirty", 180, self.idle)
