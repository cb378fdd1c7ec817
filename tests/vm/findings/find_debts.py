# SPDX-License-Identifier: GPL-2.0-or-later
"""Who waits for whom in a cluster, what status and events say of it, and who is declared dead for it (doc/protocol.md, "Debts").

Three nodes write to one array. Each has its own path to member 0, a device that can be suspended: requests to it hang there, and nowhere else.
"""
import datetime
import re
import signal
import time

import pytest

import serving  # noqa: F401 (it makes the drills importable)
import tools
from ddvm.config import time_scale
from load import LEDGER_BLOCKS
from rig import DEV, NAME, REGION, Rig

PULSE = 2               # s
SHOWN = 8 + PULSE       # s: what has lasted 8 s is said everywhere, since the last pulse at least
ANSWER = 20             # s: what a question and its answer may take
IO = 5                  # s: io_timeout
PATH = "path"
AGENT = "/ddvm/fence"
STUCK = """#!/bin/sh
exec dd if=/dev/zero of=/dev/mapper/stuck bs=4096 count=1 oflag=direct conv=nocreat
"""
# A thread of the writer waits for the disk at two looks, which are further apart than a write that is answered.
HANGS = r"""w() { ps -eLo lwp,stat,comm | awk '$2 ~ /^D/ && $3 == "writer" { print $1 }'; }
a=$(w); sleep 2; b=$(w); for t in $a; do echo "$b" | grep -qx "$t" && exit 0; done; exit 1"""
ACK = "has not acknowledged the last change of the members"
FOLD = "has not recorded its earlier writes, and the rebuild of a member waits for that"
KERNEL = "its kernel has not ended older requests"
DISKS = ["/dev/mapper/" + PATH, "/dev/vdb", "/dev/vdc", "/dev/vdd"]
SPARE = "/dev/vde"


class PathRig(Rig):
    """Two parities, so that what was written can be checked while member 0 is out. `own`: {node: its options}."""

    def __init__(self, cluster, own=None, **options):
        super().__init__(cluster, tools.build_writer(cluster.run.path), shape=(1, 2, "rotating"), filesystem=False, **options)
        self.own = own or {}

    def start_daemon(self, number):
        node = self.node(number)
        node.allow_dmesg(r"I/O error|blocked for more than|Call Trace")     # of writers whose disk hangs
        node.run(f"dmsetup create {PATH} --table \"0 $(blockdev --getsz /dev/vda) linear /dev/vda 0\"")
        options, self.options = self.options, {**self.options, **self.own.get(number, {})}
        super().start_daemon(number)
        self.options = options

    def make(self, first):
        """The array; node @first has it before the others, and so is the writer."""
        guest = self.guests[first]
        guest.create(NAME, *self.shape, DISKS, f"--overwrite --yes --region-size {REGION}")
        self.start_one(first)
        self.wait_ready(first)
        self.start([i for i in self.all if i != first])
        assert guest.status(NAME)["cluster"]["writer"] == first
        self.prepare()
        self.mark()

    def who(self, number):
        """As texts name a node."""
        return f"{self.node(number).name} (node {number})"

    # -- disks that hang

    def hang(self, numbers):
        """Requests to member 0 hang on these nodes from now on; when that began. Returns once a write of each of them hangs."""
        began = time.monotonic()
        for i in numbers:
            self.node(i).run(f"dmsetup suspend --nolockfs --noflush {PATH}")
        for i in numbers:
            self.node(i).wait_until(HANGS, 30)
        return began

    def resume(self, numbers):
        self.on_each(lambda i: self.node(i).run(f"dmsetup resume {PATH}"), numbers)

    # -- what they say

    def says(self, number):
        """What status gives as the reason to wait: `waits` with --json, and the line without it; the same but for the time that has passed."""
        return self.guests[number].status(NAME)["cluster"]["waits"] or "", self.guests[number].command(f"status {NAME}").out

    def told(self, numbers, *words, limit=0):
        """Until both forms of status have these words, on each of these nodes. A busy machine takes long to answer; what is late shows in in_time()."""
        deadline = time.monotonic() + (limit + ANSWER) * time_scale()

        def one(i):
            while True:
                seen = self.says(i)
                if all(w in text for w in words for text in seen):
                    return f"  node {i} says: {seen[0]}"
                assert time.monotonic() < deadline, f"node {i} does not say: {words}; but: {seen}; {self.events(i)[-8:]}"
                time.sleep(0.2)

        print("\n".join(self.on_each(one, numbers)))

    def noted(self, numbers, event, *words, limit=0):
        """Until each of these nodes had such an event since the mark; {node: the first one}."""
        deadline, first = time.monotonic() + (limit + ANSWER) * time_scale(), {}
        for i in numbers:
            while not (found := [e for e in self.events(i) if e["event"] == event and all(w in e.get("text", "") for w in words)]):
                assert time.monotonic() < deadline, f"node {i} had no event {event} {words}: {self.events(i)[-8:]}; {self.says(i)}"
                time.sleep(0.2)
            first[i] = found[0]
        return first

    def in_time(self, numbers, began, *words):
        """An event on each of these nodes, at most SHOWN after the event @began there, by its own clock. `waits` of status is set in the same moment."""
        for i, wait in self.noted(numbers, "wait", *words).items():
            after = clock(wait) - clock(self.wait_event(i, began))
            print(f"  node {i}: {after:.1f} s after {began}: {wait['text']}")
            assert after <= SHOWN, f"node {i} said it {after} s after {began}: {self.events(i)}"

    def nobody_fenced(self, but=()):
        """But these, each once."""
        assert sorted(victim for *_, victim, answer in self.cluster.fencer.log if answer == "ok") == sorted(but), self.cluster.fencer.log

    def fenced_at(self, number):
        return [at for at, *_, victim, answer in self.cluster.fencer.log if victim == number and answer == "ok"][-1]

    def unmoved(self, numbers, seconds, but=()):
        """Until each of these nodes says that there was no progress for so long; until then nobody is fenced but these."""
        deadline = time.monotonic() + (seconds + ANSWER) * time_scale()
        for i in numbers:
            while quiet_s(self.says(i)[0]) < seconds:
                assert time.monotonic() < deadline, f"node {i}: {self.says(i)}"
                time.sleep(0.5)
        self.nobody_fenced(but)


def clock(event):
    return datetime.datetime.fromisoformat(event["time"].rstrip("Z")).timestamp()


def seconds_in(text, before, behind):
    """The number between the two in a text; 0 if they are not there."""
    found = re.search(re.escape(before) + "([0-9]+)" + re.escape(behind), text)
    return int(found.group(1)) if found else 0


def quiet_s(text):
    return seconds_in(text, "(no progress for ", " s)")


@pytest.fixture
def debts(make_cluster, stage):
    """Function that makes the rig, with all nodes up and the array on them; of three nodes, with options of ddraid.conf."""
    del stage

    def up(first=1, **options):
        rig = PathRig(make_cluster(nodes=3, disks=5, size="48M"), **options)
        rig.boot()
        rig.make(first)
        return rig

    return up


def ends_well(rig, numbers=None):
    """The load of these nodes goes on, and all that was reported durable is there on each node; the longest stalls."""
    rig.progress(numbers)
    cut = list(rig.cut)
    stalls = rig.settle(torn=bool(cut), raw=False)
    for i in cut:       # what it was writing may be anything, and its next load begins with what is there
        rig.node(1).run(f"dd if=/dev/zero of={DEV} bs=64k count={LEDGER_BLOCKS >> 4} seek={(i - 1) * LEDGER_BLOCKS >> 4} oflag=direct conv=nocreat 2>&1")
    print("  longest stalls: " + ", ".join(f"node {i} {max(s.values()):.1f} s" for i, s in sorted(stalls.items())))
    return stalls


# ---- what is said


def test_a_kernel_that_does_not_answer_its_daemon(debts):
    """A disk hangs below one node, within io_timeout, and the members change: all name that node, why, who waits, and what will happen."""
    rig = debts(io_timeout="600s")
    rig.load()
    rig.progress()
    rig.hang([3])
    rig.guests[1].command(f"fail {NAME} 0")
    rig.in_time(rig.all, "member-failed", f"{rig.who(3)} {ACK}", "waiting: ", KERNEL, "it is declared dead")
    rig.told(rig.all, f"{rig.who(3)} {ACK}", f"waiting: {rig.who(1)}, {rig.who(2)}", KERNEL, "If it makes no progress, it is declared dead in 2", "and its node fenced")
    rig.progress([1, 2])
    rig.resume([3])
    rig.noted(rig.all, "wait-over", f"this has ended: {rig.who(3)} {ACK}")
    assert not any(ACK in text for i in rig.all for text in rig.says(i))
    ends_well(rig)
    rig.nobody_fenced()


def test_a_daemon_that_is_stopped(debts):
    """A node owes an answer, and its daemon is stopped: its silence is the reason. Then it is declared dead, and fenced once."""
    rig = debts()
    rig.load()
    rig.progress()
    rig.guests[3].daemon.kill(signal.SIGSTOP)
    stopped = time.monotonic()
    asked = rig.node(1).spawn(f"ddraid fail {NAME} 0")
    rig.in_time([1, 2], "member-failed", f"{rig.who(3)} {ACK}", "The reason: nothing was heard of its daemon for about",
                "it may be stopped, or hang. After ten seconds of silence it is declared dead")
    rig.wait_fenced(3)
    print(f"  node 3 was fenced {rig.fenced_at(3) - stopped:.1f} s after its daemon was stopped")
    rig.wait_recovered(3)
    rig.noted([1, 2], "wait-over", f"this has ended: {rig.who(3)} {ACK}")
    asked.wait(60)
    ends_well(rig, [1, 2])
    rig.nobody_fenced(but=[3])


def test_T9_an_agent_that_hangs(debts):
    """Finding T9: the node whose fence agent hangs is named until fence_timeout, and then the next one is, which fences."""
    timeout = 30
    rig = debts(own={1: {"fence_command": "/run/stuck"}}, fence_timeout=f"{timeout}s")
    rig.node(1).put("/run/stuck", STUCK.encode(), 0o755)
    rig.node(1).run("dmsetup create stuck --table '0 8 zero' && dmsetup suspend stuck")
    rig.load([1, 2])
    rig.progress()
    rig.die(3)
    for i in (1, 2):
        rig.wait_event(i, "node-lost", node=3)
    rig.told([1, 2], f"{rig.who(3)} is lost: its regions wait until it is fenced or returns. It is the turn of {rig.who(1)} to fence it")
    rig.noted([1, 2], "wait", "fencing failed; the next node tries", limit=timeout)
    rig.wait_fenced(3)
    assert [asker for _, asker, *_ in rig.cluster.fencer.log] == [2], rig.cluster.fencer.log
    rig.wait_recovered(3)
    assert not any("is lost" in text for i in (1, 2) for text in rig.says(i))
    ends_well(rig)
    rig.nobody_fenced(but=[3])
    rig.node(1).run("dmsetup resume stuck")


def test_a_disk_that_hangs_on_all_nodes(debts):
    """All owe their answer, for the same reason, and all wait for it: nobody is declared dead, and that is said."""
    owe = IO + 10
    rig = debts(io_timeout=f"{IO}s", owe_time=f"{owe}s")
    rig.load()
    rig.progress()
    rig.hang(rig.all)
    for i in rig.all:
        rig.wait_event(i, "member-failed", IO + 30, member=0)
    rig.told(rig.all, ACK, KERNEL, "waiting: ", "Nobody is declared dead for this while those who wait for it wait for their own disks or kernels, too")
    for debtor in rig.all:
        rig.in_time(rig.all, "member-failed", f"{rig.who(debtor)} {ACK}", KERNEL)
    rig.unmoved(rig.all, owe + 4 * PULSE)
    rig.resume(rig.all)
    for debtor in rig.all:
        rig.noted(rig.all, "wait-over", f"{rig.who(debtor)} {ACK}")
    ends_well(rig)
    rig.nobody_fenced()


# ---- verdicts


def declared_dead(rig, victim, hung, failed, owe):
    """The node is fenced once, not before owe_time, and soon after it."""
    rig.wait_fenced(victim, timeout=owe + 60)
    at = rig.fenced_at(victim)
    print(f"  node {victim} was fenced {at - hung:.1f} s after its disk hung, {at - failed:.1f} s after the member failed (owe_time {owe} s)")
    assert at - hung >= IO + owe, "too early"
    assert at - failed <= owe + (4 * PULSE + 10) * time_scale(), "too late"


def test_T2_who_does_not_do_what_it_owes_is_declared_dead(debts):
    """Findings T2, T3: after owe_time the node whose kernel hangs is fenced; the others go on meanwhile and after it; it comes back."""
    owe = 30
    rig = debts(io_timeout=f"{IO}s", owe_time=f"{owe}s")
    rig.load()
    rig.progress()
    hung = rig.hang([3])
    rig.wait_event(1, "member-failed", IO + 30, member=0)
    failed = time.monotonic()
    rig.in_time(rig.all, "member-failed", f"{rig.who(3)} {ACK}", KERNEL)
    rig.told(rig.all, f"{rig.who(3)} {ACK}", KERNEL, "it is declared dead in ")
    rig.progress([1, 2])
    rig.nobody_fenced()
    declared_dead(rig, 3, hung, failed, owe)
    assert any("was declared dead, for it has not acknowledged" in rig.guests[i].daemon.err for i in (1, 2))
    rig.wait_recovered(3)
    stalls = ends_well(rig)
    rig.nobody_fenced(but=[3])
    longest = max(s for node in stalls.values() for s in node.values())
    assert longest <= IO + 20 * time_scale(), f"the others stood for {longest:.1f} s"
    rig.bring([3])
    rig.load()
    ends_well(rig)
    rig.nobody_fenced(but=[3])


def test_owe_time_0_declares_nobody_dead(debts):
    """With owe_time 0 all wait, and say so."""
    rig = debts(io_timeout=f"{IO}s", owe_time="0")
    rig.load()
    rig.progress()
    rig.hang([3])
    rig.wait_event(1, "member-failed", IO + 30, member=0)
    rig.in_time(rig.all, "member-failed", f"{rig.who(3)} {ACK}", KERNEL)
    rig.told(rig.all, f"{rig.who(3)} {ACK}", KERNEL, "Nobody is declared dead for this, as owe_time is 0")
    rig.unmoved(rig.all, 4 * IO + 10 + 4 * PULSE)       # more than it would be without the option
    rig.progress([1, 2])
    rig.resume([3])
    rig.noted(rig.all, "wait-over", f"{rig.who(3)} {ACK}")
    ends_well(rig)
    rig.nobody_fenced()


def test_of_two_that_wait_for_each_other_one_is_declared_dead(debts):
    """A disk hangs on two nodes of three: each waits for the other one. The higher one is fenced; the other is not, since there would be no quorum."""
    owe = IO + 10
    rig = debts(io_timeout=f"{IO}s", owe_time=f"{owe}s")
    rig.load()
    rig.progress()
    hung = rig.hang([2, 3])
    rig.wait_event(1, "member-failed", IO + 30, member=0)
    failed = time.monotonic()
    for debtor in (2, 3):
        rig.in_time(rig.all, "member-failed", f"{rig.who(debtor)} {ACK}", KERNEL)
    declared_dead(rig, 3, hung, failed, owe)
    rig.told([1, 2], f"{rig.who(2)} {ACK}", KERNEL,
             "It is not declared dead for this, since the cluster would have no quorum without it", limit=owe)
    rig.unmoved([1, 2], owe + 4 * PULSE, but=[3])
    rig.resume([2])
    rig.wait_recovered(3)
    ends_well(rig)
    rig.nobody_fenced(but=[3])


def write_regions(rig, number, count):
    """One write to each of so many regions, which stay marked."""
    rig.node(number).run(f"for r in $(seq 8 {7 + count}); do dd if=/dev/urandom of={DEV} bs=64k count=1 seek=$((r * {REGION >> 16})) "
                         "oflag=direct conv=nocreat status=none || exit 1; done", timeout=120)


def test_only_the_end_of_a_chain_is_declared_dead(debts):
    """Node 2 replaces a disk and waits for node 1, which has to resync first, and waits for node 3, whose disk hangs. Node 3 is fenced, and no other."""
    owe = 30
    rig = debts(first=2, io_timeout=f"{IO}s", owe_time=f"{owe}s", idle_time="600s")
    write_regions(rig, 3, 24)
    rig.slow("64K")
    rig.die(3)
    rig.wait_fenced(3)
    rig.wait_recovered(3)
    rig.guests[2].command(f"replace {NAME} 1 {SPARE} --overwrite --yes", timeout=90)
    for i in (1, 2):
        rig.wait_event(i, "rebuild-start")
    rig.in_time([1, 2], "rebuild-start", f"{rig.who(1)} {FOLD}", "it resyncs regions first")
    rig.told([1, 2], f"{rig.who(1)} {FOLD}", f"waiting: {rig.who(2)}", "it resyncs regions first")
    rig.boot([3])
    rig.start([3])
    deadline = time.monotonic() + (owe + 2 * ANSWER) * time_scale()
    while seconds_in(rig.says(2)[0], "for ", " s now") < owe + 2 * PULSE:       # node 1 works, however long that takes
        assert time.monotonic() < deadline, rig.says(2)
        time.sleep(0.5)
    assert quiet_s(rig.says(2)[0]) < owe, rig.says(2)
    rig.nobody_fenced(but=[3])
    rig.mark()
    # Without udev nobody makes the node of a device whose table the daemon exchanges (for the replacement) while `start` still hides it.
    rig.node(3).run(f"dmsetup mknodes && test -b {DEV}")
    rig.load([3])
    hung = rig.hang([3])
    rig.wait_event(1, "member-failed", IO + 30, member=0)
    failed = time.monotonic()
    rig.told([1, 2], f"{rig.who(1)} {FOLD}", f"it waits itself for {rig.who(3)}, which {ACK}",
             f"It is not declared dead while it waits itself for {rig.who(3)}")
    rig.in_time([1, 2], "member-failed", f"{rig.who(3)} {ACK}", KERNEL)
    declared_dead(rig, 3, hung, failed, owe)
    rig.wait_recovered(3)
    rig.slow(None)
    for i in (1, 2):
        rig.wait_event(i, "rebuild-done", 120)
    rig.nobody_fenced(but=[3, 3])
    rig.noted([1, 2], "wait-over", f"{rig.who(1)} {FOLD}")
