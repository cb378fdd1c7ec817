#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What resync, rebuild and verify get, and what they cost, on disks that QEMU limits, in one virtual machine and one run.

An order-2 array with one parity and a spare. First what a member streams; then, with the array idle, the first resync, the rebuild of an array that was
written as a whole, and of one of which a tenth was; then verify at each priority: what three jobs that write, and three that read, one after the other in
pieces of 64 KiB, lose beside it, and how much longer it takes beside a load that never pauses. Ratios count; figures do not travel.
"""
import argparse
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "vm"), str(HERE.parent / "drills")]

import devices  # noqa: E402
import session  # noqa: E402
from ddvm import Disk, Node  # noqa: E402
from guest import Guest  # noqa: E402

MIB = devices.MIB
NAME, DEV = "data", "/dev/mapper/data"
MEMBERS, SIZE = 5, 160                  # MiB of a member; another disk is the spare
SETTLE = 0.5                            # s, after the load or verify has begun or ended
LIMITS = {"iops": 1000, "bps": 25 * MIB}
TARGETS = {
    # what: (least, most) of the ratio
    "first resync over the slowest member": (0.90, None), "rebuild over the slowest member": (0.90, None),
    "rebuild of a tenth over that of all": (None, 0.15),
    "loss of writes, verify at 5": (None, 0.03), "loss of reads, verify at 5": (None, 0.05),
}


class Jobs:
    """One node with an array on limited disks; `figures`: what was measured."""

    def __init__(self, run, runtime, rounds):
        self.disks = [Disk(run.path / f"jobs-{i}.raw", SIZE * MIB, f"j{i}", **LIMITS) for i in range(MEMBERS + 1)]
        self.node = Node(run, "bench-jobs", self.disks, memory=1024)
        self.runtime, self.rounds, self.figures = runtime, rounds, {}
        self.node.boot()
        self.guest = Guest(self.node)
        self.guest.start_daemon(idle_time="500ms", resync_max_rate="0", verify_every="0")
        self.guest.watch_events()

    def say(self, what, value, unit):
        self.figures[what] = value
        print(f"  {what:52} {value:9.3f} {unit}", flush=True)

    def array(self):
        paths = [d.dev for d in self.disks]
        self.guest.create(NAME, 2, 1, "rotating", paths[:MEMBERS], f"--overwrite --yes --spare {paths[MEMBERS]}")
        self.guest.start(NAME)
        self.bytes = int(self.node.run(f"blockdev --getsize64 {DEV}").out)

    def fill(self, share):
        self.node.run(f"dd if=/dev/urandom of={DEV} bs=1M count={int(self.bytes * share) // MIB} oflag=direct conv=nocreat,fsync 2>/dev/null", timeout=600)

    def event(self, name, seen):
        deadline = time.monotonic() + 600
        while True:
            found = [e for e in self.guest.events_seen()[seen:] if e["event"] == name]
            if found:
                return found[-1]
            assert time.monotonic() < deadline, f"no event {name}: {self.guest.status(NAME)}"
            time.sleep(0.02)

    # -- measurements

    def member(self):
        """What the slowest member streams, in MiB a second."""
        rates = []
        for disk in self.disks:
            began = time.monotonic()
            self.node.run(f"dd if={disk.dev} of=/dev/null bs=1M count={SIZE} iflag=direct 2>/dev/null", timeout=120)
            rates.append(SIZE / (time.monotonic() - began))
        self.say("slowest member, streaming", min(rates), "MiB/s")
        return min(rates)

    def first_resync(self, stream):
        self.array()
        self.guest.command(f"set {NAME} resync=paused")
        self.fill(1)
        seconds = self.until_idle()
        self.say("first resync of all", seconds, "s")
        self.say("first resync over the slowest member", self.bytes / 4 / MIB / seconds / stream, "")

    def until_idle(self):
        time.sleep(2)
        began = time.monotonic()
        self.guest.command(f"set {NAME} resync=run")
        while self.guest.busy(NAME):
            assert time.monotonic() - began < 600, self.guest.busy(NAME)
            time.sleep(0.05)
        return time.monotonic() - began

    def rebuild(self, label):
        seen = len(self.guest.events_seen())
        self.guest.command(f"fail {NAME} 0")
        self.event("rebuild-start", seen)
        began = time.monotonic()
        self.event("rebuild-done", seen)
        seconds = time.monotonic() - began
        self.say(f"rebuild of {label}", seconds, "s")
        return seconds

    def verify(self, priority, wait=True):
        seen = len(self.guest.events_seen())
        began = time.monotonic()
        self.guest.command(f"verify {NAME} start --priority {priority}")
        if wait:
            done = self.event("verify-done", seen)
            assert done["found"] == 0, done
        return time.monotonic() - began

    def served(self):
        """(seconds, MiB that the array has read and written)."""
        up, stat = self.node.run(f"cat /proc/uptime /sys/dev/block/$(dmsetup info -c --noheadings -o major,minor {NAME})/stat").out.splitlines()
        return float(up.split()[0]), (int(stat.split()[2]) + int(stat.split()[6])) / 2048

    def speed(self, seconds):
        time.sleep(SETTLE)
        began, before = self.served()
        time.sleep(seconds)
        ended, after = self.served()
        return (after - before) / (ended - began)

    def verifying(self):
        return [j for j in self.guest.status(NAME)["jobs"] if j["type"] == "verify"]

    def beside_verify(self, priority, seconds):
        self.verify(priority, wait=False)
        beside = self.speed(seconds)
        running = self.verifying()
        assert running and running[0]["done"], f"verify read nothing or ended before the measurement did: that is no cost: {running}"
        self.guest.command(f"verify {NAME} stop")
        return beside

    def costs(self, pattern, label):
        """
        What verify at each priority takes from a load that never pauses, and goes on all the time: what that gets beside the
        verify over what it gets before and after, over all rounds. A verify that goes first is soon done, so it has less time.
        """
        fio = self.node.spawn(f"exec {devices.command(DEV, pattern, self.bytes // 2, 36000, 0)}")
        time.sleep(3)
        for priority in range(1, 6):
            seconds, beside, alone = self.runtime if priority > 3 else 4, [], []
            before = self.speed(seconds)
            for _ in range(self.rounds):
                beside.append(self.beside_verify(priority, seconds))
                after = self.speed(seconds)
                alone.append((before + after) / 2)
                before = after
            losses = [1 - b / a for b, a in zip(beside, alone)]
            self.say(f"loss of {label}, verify at {priority}", 1 - sum(beside) / sum(alone), f"({min(losses):.3f} to {max(losses):.3f})")
        self.end(fio)

    def end(self, fio):
        assert fio.poll() is None, f"the load ended: {fio.err[-500:]}"
        # The parent alone, which tells its jobs: a job of fio 3.33 that gets the signal itself may wait for ever for I/O that it has not
        # submitted, on any device (dm-stripe: 2 of 31 times; of the parent alone 0 of 100).
        self.node.run("pkill -INT -o -x fio", check=False)
        fio.wait(60)

    def under_load(self, priority, alone):
        """A verify that ends while the disks are never idle, over one that is alone."""
        fio = self.node.spawn(f"exec fio --name=l --filename={DEV} --direct=1 --ioengine=libaio --iodepth=4 --rw=rw --bs=64k --numjobs=3 --group_reporting "
                              f"--size={self.bytes // 3} --offset_increment={self.bytes // 3} --time_based --runtime=3600 --output-format=terse")
        time.sleep(3)
        beside = self.verify(priority)
        self.end(fio)
        self.say(f"verify at {priority} under full load over verify alone", beside / alone, "times as long")

    def all(self):
        stream = self.member()
        self.first_resync(stream)
        whole = self.rebuild("an array written as a whole")
        self.say("rebuild over the slowest member", self.bytes / 4 / MIB / whole / stream, "")
        self.guest.stop(NAME)
        self.array()
        self.fill(0.1)
        while self.guest.busy(NAME):
            time.sleep(0.1)
        self.say("rebuild of a tenth over that of all", self.rebuild("an array of which a tenth was written") / whole, "")
        self.fill(1)
        while self.guest.busy(NAME):
            time.sleep(0.1)
        alone = self.verify(1)
        self.say("verify alone", alone, "s")
        self.costs("write3", "writes")
        self.costs("read3", "reads")
        for priority in range(1, 6):
            self.under_load(priority, alone)


def verdicts(figures):
    missed = 0
    for what, (least, most) in TARGETS.items():
        value = figures[what]
        met = (least is None or value >= least) and (most is None or value <= most)
        missed += not met
        print(f"  {what:52} {value:6.3f}  target {f'>= {least}' if least else f'<= {most}'}  {'met' if met else 'MISSED'}")
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runtime", type=int, default=10, help="seconds of one measurement of a load")
    parser.add_argument("--rounds", type=int, default=5, help="how often the cost of each priority is measured")
    parser.add_argument("--json", metavar="FILE", help="where the figures go (default: build/bench-jobs.json)")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when a target is missed")
    args = parser.parse_args()
    jobs = []

    def measure(run):
        jobs.append(Jobs(run, args.runtime, args.rounds))
        jobs[0].all()

    if not session.within_run(measure):
        return 1
    path = session.keep({"kernel": jobs[0].node.kernel.release, "runtime": args.runtime, "rounds": args.rounds, "figures": jobs[0].figures}, "bench-jobs.json", args.json)
    missed = verdicts(jobs[0].figures)
    print(f"\nfigures: {path}")
    return 1 if args.strict and missed else 0


if __name__ == "__main__":
    sys.exit(main())
