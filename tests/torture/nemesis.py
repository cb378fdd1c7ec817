# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the acts of a plan, a thread for each lane, and undoes each. An act that cannot be done just now is skipped, and said so."""
import contextlib
import re
import signal
import threading
import time

import plan
from rig import NAME
from world import FAILURES

MIND = 15000000             # µs between two looks for members that are out
CONF = "/etc/corosync/corosync.conf"
ILL = ("stop", "kill", "power", "split", "conf", "shm", "clock", "reboot", "leave")


class Skip(Exception):
    """Not now, and why."""


def conf_text(text, number, variant):
    """An edited corosync.conf; None: no file."""
    if variant == "deleted":
        return None
    if variant == "empty":
        return ""
    if variant == "garbage":
        return text[:len(text) // 3] + "}}} nodelist {\n"
    if variant == "other-id":
        return re.sub(rf"nodeid: {number}\n", f"nodeid: {number + 10}\n", text)
    nodes = re.findall(r"\tnode \{\n.*?\n\t\}\n", text, re.DOTALL)     # alone
    for node in nodes:
        if f"nodeid: {number}\n" not in node:
            text = text.replace(node, "")
    return text


class Nemesis:
    """`world`: see there; `acts`: a plan; the round ends when over is set."""

    def __init__(self, world, acts):
        self.world, self.acts, self.over, self.evidence = world, acts, world.over, world.evidence
        self.queues = {lane: [] for lane in [*map(plan.node_lane, world.all), plan.DISK, plan.MEMBER]}
        self.done = []                      # (begin, end, Act, what came of it)
        self.hurt = 0                       # members that acts may have in work
        self.minded = 0
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self._lane, args=(lane,), name=lane, daemon=True) for lane in self.queues]
        self.failed = []                    # exceptions of threads: faults of the test itself

    def begin(self):
        self.began = self.evidence.now()
        for act in self.acts:
            self.queues[act.lane].append(act)
        for thread in self.threads:
            thread.start()

    def end(self, seconds):
        """Waits until all lanes have undone what they did; those that have not in that time."""
        deadline = time.monotonic() + seconds
        for thread in self.threads:
            thread.join(max(0, deadline - time.monotonic()))
        return [thread.name for thread in self.threads if thread.is_alive()]

    # -- lanes

    def _lane(self, lane):
        number = int(lane.split()[1]) if lane.startswith("node ") else None
        try:
            for act in self.queues[lane]:
                while not self.over.is_set() and self.evidence.now() - self.began < act.at * 1e6:
                    self._mind(lane, number)
                    self.over.wait(0.5)
                if self.over.is_set():
                    break
                self._do(act, number)
            while not self.over.is_set():
                self._mind(lane, number)
                self.over.wait(0.5)
        except Exception as error:  # pylint: disable=broad-exception-caught  # of the test: it is told, and the round fails
            self.failed.append(error)
            raise

    def _mind(self, lane, number):
        """Between two acts a node is kept running, and members whose disks work again are added."""
        if number:
            with contextlib.suppress(*FAILURES, KeyError):
                self.world.keep(number)
        elif lane == plan.MEMBER and self.evidence.now() - self.minded > MIND:
            self.minded = self.evidence.now()
            number, status = self.world.any_status()
            broken = {f"/dev/mapper/m{disk}" for _, disk in self.world.broken}
            for _, device in [out for out in self.world.out_members(status or {"members": []}) if out[1] not in broken][:1]:
                self.world.try_command(number, f"add {NAME} {device}", 30)

    def _do(self, act, number):
        begin, came = self.evidence.now(), "done"
        what = getattr(self, f"{'node' if number else act.lane}_{act.kind}")
        span = None
        if number and act.kind in ILL:
            span = [begin, float("inf")]
            self.world.ill[number].append(span)
        self.evidence.add("nemesis", f"{act}", loud=True)
        try:
            if number:
                with self.world.locks[number]:
                    if not self.world.alive(number) or number not in self.world.guests:
                        raise Skip("it is not running")
                    what(act, number)
            else:
                what(act)
        except Skip as why:
            came = f"skipped: {why}"
        except FAILURES as error:
            came = f"cut short: {str(error)[:300]}"
        except KeyError:            # of the world's guests
            came = "cut short: its machine is gone"
        end = self.evidence.now()
        self.done.append((begin, end, act, came))
        self.evidence.add("nemesis", f"{act.lane}: {act.kind} is over, {came}", loud=came != "done")
        if span and self.world.alive(number):
            span[1] = end + 10000000

    # -- nodes

    def _same(self, number, channel):
        """Is it still the same boot?"""
        return self.world.alive(number) and self.world.node(number).channel is channel

    def node_stop(self, act, number):
        job, channel = self.world.guests[number].daemon, self.world.node(number).channel
        job.kill(signal.SIGSTOP)
        self.over.wait(act.lasts)
        if self._same(number, channel):
            job.kill(signal.SIGCONT)

    def node_kill(self, act, number):
        gone = self.world.end_daemon(number, max(20, act.lasts))
        if not gone and self.world.alive(number):
            self.evidence.add(f"node {number}", "ddraidd was killed, and does not end", loud=True)
        self.over.wait(act.lasts)
        if not gone and not self._ended(number, 300):
            raise Skip("ddraidd does not end") if self.world.alive(number) else Skip("the node was fenced")
        self.world.new_daemon(number)
        self.world.serve(number)

    def _ended(self, number, seconds):
        deadline = time.monotonic() + seconds
        while self.world.alive(number) and not self.world.daemon_gone(number) and time.monotonic() < deadline:
            time.sleep(0.5)
        return self.world.alive(number) and self.world.daemon_gone(number)

    def node_power(self, act, number):
        self.world.node(number).kill()
        self.world.buried()
        self.over.wait(act.lasts)
        self.world.bring(number)

    def node_split(self, act, number):
        rings = None if act.get("rings") == "both" else [act.get("rings")]
        self.world.cluster.network.cut(number, rings)
        try:
            self.over.wait(act.lasts)
        finally:
            self.world.cluster.network.join(number, rings)

    def _conf(self, number, text):
        node = self.world.node(number)
        if text is None:
            node.run(f"rm -f {CONF}", timeout=20)
        else:
            node.put(CONF, text)

    def _then(self, act, number):
        if act.get("then") == "reload":
            self.world.node(number).run("timeout 10 corosync-cfgtool -R", timeout=20, check=False)
        elif act.get("then") == "restart" and self.world.end_daemon(number, 30):
            self.world.start_daemon(number)

    def node_conf(self, act, number):
        right = self.world.cluster.corosync_conf()
        self._conf(number, conf_text(right, number, act.get("text")))
        try:
            self._then(act, number)
            if act.get("then") == "restart":        # on a machine whose file names no cluster, an operator tries to start the array
                self.over.wait(3)
                self.world.try_command(number, f"start {NAME}", 20)
            self.over.wait(act.lasts)
        finally:
            if self.world.alive(number):
                self._conf(number, right)
                self._then(act, number)
        if act.get("then") == "restart":
            self.world.watch(number)
            self.world.serve(number)
        elif act.get("then") == "reload":
            self._back_in_corosync(number)

    def _back_in_corosync(self, number):
        """A corosync that reloaded nonsense may need a restart, and its node with it."""
        try:
            self.world.cluster.wait_members([number], [number], timeout=30)
        except FAILURES:
            self.evidence.add(f"node {number}", "corosync does not come back after the reload: power cut")
            self.world.node(number).kill()
            self.world.buried()
            self.world.bring(number)

    def node_shm(self, act, number):
        node, channel = self.world.node(number), self.world.node(number).channel
        node.run("cat /dev/zero >/dev/shm/full 2>/dev/null; true", timeout=60)
        self.over.wait(act.lasts)
        if self._same(number, channel):
            node.run("rm -f /dev/shm/full", timeout=60)

    def node_clock(self, act, number):
        node, channel = self.world.node(number), self.world.node(number).channel
        node.run(f"date -s @{int(time.time()) + act.get('seconds')}", timeout=20)
        self.over.wait(act.lasts)
        if self._same(number, channel):
            node.run(f"date -s @{int(time.time())}", timeout=20)

    def _leave(self, number):
        """The array is stopped there, in order."""
        if self.world.stampers.quit([number], 60):
            raise Skip("its operations do not end")
        if not self.world.try_command(number, f"stop {NAME}", 120):
            self.world.write(number)
            raise Skip("the array cannot be stopped")

    def node_leave(self, act, number):
        self._leave(number)
        self.over.wait(act.lasts)
        self.world.serve(number)

    def node_reboot(self, act, number):
        self._leave(number)
        guest = self.world.guests[number]
        self.world.wanted_end[number] = guest.daemon
        guest.daemon.kill(signal.SIGTERM)
        guest.daemon.wait(60)
        self.world.cluster.stop(number)
        self.world.node(number).shutdown()
        self.world.buried()
        self.over.wait(act.lasts)
        self.world.bring(number)

    # -- disks

    @contextlib.contextmanager
    def _spare_one(self):
        """The array can do without one more member, whatever another lane has begun."""
        number, status = self.world.any_status()
        if status is None:
            raise Skip("no node answers")
        with self.lock:
            if status["state"] not in ("optimal", "degraded") or status["may_fail"] - self.hurt < 1:
                raise Skip(f"the array is {status['state']}, {status['may_fail']} may fail, {self.hurt} are in work")
            self.hurt += 1
        try:
            yield number, status
        finally:
            with self.lock:
                self.hurt -= 1

    @staticmethod
    def _member(act, status):
        members = sorted((m["index"], m["device"]) for m in status["members"] if m["state"] == "in-sync" and m["device"])
        if not members:
            raise Skip("no member is in sync")
        return members[act.pick % len(members)]

    def _tell(self, numbers, disk, words):
        """Words that last: a machine that boots gets them, too."""
        for i in numbers:
            self.world.broken.setdefault((i, disk), []).append(words)
            if i in self.world.guests:
                with contextlib.suppress(*FAILURES):
                    self.world.node(i).run(f"dmsetup message m{disk} 0 {words}", timeout=20)

    def _mend(self, numbers, disk):
        for i in numbers:
            self.world.broken.pop((i, disk), None)
            for words in ("fail none", "hang off", "delay 0") if i in self.world.guests else ():
                with contextlib.suppress(*FAILURES, KeyError):
                    self.world.node(i).run(f"dmsetup message m{disk} 0 {words}", timeout=20)

    def _disk(self, act, words, ill):
        """`ill`: a node that has it alone may wait for it."""
        with self._spare_one() as (_, status):
            index, device = self._member(act, status)
            disk = int(device.rsplit("/m", 1)[1])
            nodes = self.world.all if act.get("nodes") == "all" else [act.pick // 7 % len(self.world.all) + 1]
            self.evidence.add("nemesis", f"member {index} ({device}) on node {', '.join(map(str, nodes))}: {words}", loud=True)
            spans = [[self.evidence.now(), float("inf")] for _ in nodes] if ill and len(nodes) == 1 else []
            for i, span in zip(nodes, spans):
                self.world.ill[i].append(span)
            self._tell(nodes, disk, words)
            try:
                self.over.wait(act.lasts)
            finally:
                self._mend(nodes, disk)
                for span in spans:
                    span[1] = self.evidence.now() + 10000000
            self._take_back(device)

    def _take_back(self, device):
        """If the array has left it out."""
        number, status = self.world.any_status()
        if status and device in [d for _, d in self.world.out_members(status)]:
            self.world.try_command(number, f"add {NAME} {device}")

    def disks_slow(self, act):
        self._disk(act, f"delay {act.get('ms')} {act.get('spread')}", True)

    def disks_hang(self, act):
        self._disk(act, "hang on", True)

    def disks_fail(self, act):
        self._disk(act, f"fail {act.get('what')}", False)

    # -- members

    def members_fail(self, act):
        with self._spare_one() as (number, status):
            index, device = self._member(act, status)
            if not self.world.try_command(number, f"fail {NAME} {index}"):
                raise Skip("it was refused")
            self.over.wait(act.lasts)
            self._take_back(device)

    def members_replace(self, act):
        with self._spare_one() as (number, status):
            index, _ = self._member(act, status)
            if not any(m["state"] == "spare" for m in status["members"]):
                raise Skip("there is no spare")
            if not self.world.try_command(number, f"replace {NAME} {index}"):
                raise Skip("it was refused")
            self.over.wait(act.lasts)
        number, status = self.world.any_status()
        for _, device in self.world.out_members(status or {"members": []})[:1]:
            self.world.try_command(number, f"add {NAME} {device}")

    def members_verify(self, act):
        number, _ = self.world.any_status()
        if number is None or not self.world.try_command(number, f"verify {NAME} start --priority {act.pick % 5 + 1}{' --repair' if act.get('repair') else ''}"):
            raise Skip("it was refused")
        self.over.wait(act.lasts)
        if act.get("then") != "nothing":
            number, _ = self.world.any_status()
            if number is not None:
                self.world.try_command(number, f"verify {NAME} {act.get('then')}")
