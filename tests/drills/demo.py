#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The main job, for a newcomer: three machines share an array of five disks, and then things go wrong.

Everything is real: three kernels with the module, corosync, dlm, GFS2 mounted on all three, fio with verification. Each step prints what
happens and why it is safe; the first deviation ends the demo with an error.
"""
import argparse
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "vm")]

import ddvm  # noqa: E402
import tools  # noqa: E402
from load import FIO, verify  # noqa: E402
from rig import DEV, MOUNT, NAME, Rig  # noqa: E402

VICTIM = 3


class Demo:
    def __init__(self, run, kernel):
        disks = [ddvm.Disk(run.path / f"disk{i}.raw", "64M", f"disk{i}") for i in range(5)]
        nodes = [ddvm.Node(run, f"node{i}", disks, kernel=kernel) for i in (1, 2, 3)]
        self.rig = Rig(ddvm.Cluster(run, nodes), tools.build_writer(run.path))
        self.begin = time.monotonic()
        self.summary = []

    # -- what the user sees

    def say(self, text):
        seconds = int(time.monotonic() - self.begin)
        text = text.replace("\n", "\n         ")
        print(f"[{seconds // 60}:{seconds % 60:02}] {text}", flush=True)

    def show(self, number, command):
        """A command as a user would type it, and what it prints."""
        print(f"         node{number}# {command}")
        out = self.rig.node(number).run(command, timeout=120)
        for line in (out.out + out.err).rstrip().splitlines():
            print(f"         {line}")
        sys.stdout.flush()

    def promised(self):
        """How many blocks and records were reported durable so far."""
        return sum(len(ledger.durable) for ledger in self.rig.ledgers.values()), len(self.rig.appended)

    def verify(self, what, numbers=None):
        self.rig.on_each(lambda i: verify(self.rig, i), numbers)
        blocks, records = self.promised()
        self.say(f"Verified {what}, on each node that is up: {blocks} blocks and {records} records that any node was promised, none lost.")
        self.summary.append(f"{what}: {blocks} blocks and {records} records that had been reported durable, none lost")

    # -- steps

    def boot(self):
        self.rig.boot()
        self.say(f"Three virtual machines are up: Linux {self.rig.node(1).kernel.release}, the same five disks of 64 MiB in each, corosync,\n"
                 "dlm_controld, ddraidd. A fence device can cut the power of each.")

    def create(self):
        self.say("Four disks' worth of data, one of parity. Nothing has to be synchronised first: a stripe is one 4 KiB block,\n"
                 "each write is a write of whole stripes, and what nobody wrote needs no parity.")
        disks = " ".join(d.dev for d in self.rig.node(1).disks)
        self.show(1, f"ddraid create {NAME} --order 2 --parity 1 --region-size 1M {disks}")
        self.show(1, f"ddraid start {NAME}")
        self.rig.start([2, 3])
        self.say("The same command on node2 and node3, and all three have the device. Who writes what is agreed over corosync.")
        self.show(2, f"ddraid status {NAME}")

    def mount(self):
        self.rig.prepare()
        self.say("GFS2 on it, mounted on all three at the same time.")
        self.show(3, f"df -h {MOUNT} && mount | grep gfs2")

    def fill(self):
        self.say("fio on all three, each in a file of its own, blocks of 4 to 64 KiB; everything is read back and verified.")
        self.rig.on_each(lambda i: self.rig.node(i).run(f"{FIO.format(node=i)} >/dev/null", timeout=300))
        self.summary.append("fio with verification on three nodes at once: no error")

    def load(self):
        self.say("Load on all three, from now on: fio with verification; synchronous writes, of which each is noted outside of the\n"
                 "machine once it was reported durable; and one file to which all append under a lock.")
        self.rig.mark()
        self.rig.load()
        self.rig.progress()

    def kill_node(self):
        rig, slot = self.rig, self.rig.slot(VICTIM)
        self.say(f"Power cut of node{VICTIM}, in the middle of its writes.")
        rig.die(VICTIM)
        began = time.monotonic()
        cut = rig.raw()
        dirty, total = sum(n for _, n in cut["slots"].get(str(slot), [])), cut["regions"]
        self.say(f"The raw disks at that moment, read by an independent program: inconsistent stripes: {cut['bad_blocks']}, none of them outside\n"
                 f"of the regions that the dirty logs name; node{VICTIM} had {dirty} of {total} regions in its log.")
        rig.wait_fenced(VICTIM)
        rig.wait_recovered(VICTIM)
        seconds = time.monotonic() - began
        rig.progress()
        found = sum(e["regions"] for i in rig.up() for e in rig.events(i) if e["event"] == "recovery" and e["node"] == VICTIM)
        assert found == dirty, f"recovery of {found} regions, the log named {dirty}"
        self.say(f"corosync missed it, its power was cut for certain (else it could write again), and a survivor made the parity of these\n"
                 f"{dirty} regions right, {seconds:.0f} s after the cut. The others needed nothing. The load of the survivors never stopped.")
        self.summary.append(f"node{VICTIM} killed under load: {dirty} of {total} regions resynced, no others, {seconds:.0f} s after the cut")
        stalls = rig.settle()
        longest = max(s["shared"] for s in stalls.values())
        self.summary.append(f"longest wait of a write of the survivors to the array meanwhile: {longest:.2f} s")
        self.verify(f"after the death of node{VICTIM}")

    def come_back(self):
        self.say(f"node{VICTIM} is switched on again, and joins.")
        self.rig.bring([VICTIM])
        self.show(VICTIM, f"ddraid status {NAME}")

    def pull_disk(self):
        rig = self.rig
        self.load()
        self.say("A disk is pulled out, of all three machines.")
        rig.on_each(lambda i: rig.node(i).unplug(rig.node(i).disks[2]))
        for i in rig.up():
            rig.wait_event(i, "member-failed")
        rig.progress()
        rig.stop_load()
        self.say("No load saw an error: the nodes agreed that the disk is out, and wrote that on the other four, before any write went\n"
                 "on without it; what was on it is computed from the others.")
        for i in rig.up():
            state = rig.guests[i].status(NAME)["state"]
            assert state == "degraded", f"on node{i} the array is {state}, not degraded"
        self.show(1, f"ddraid status {NAME}")
        self.summary.append("a disk pulled under load: no error on any node")
        self.verify("without the disk")

    def end(self):
        self.rig.stop()
        for node in self.rig.cluster.nodes:
            node.dmesg_check()
        print(f"\nIn {time.monotonic() - self.begin:.0f} s:")
        for line in self.summary:
            print(f"  * {line}")
        print("The demo ended well.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", help="bookworm, trixie, sid or a directory")
    args = parser.parse_args()
    run = None
    try:
        ddvm.check_machine()
        run = ddvm.Run()
        demo = Demo(run, args.kernel)
        print("ddraid demo: three (virtual) machines share an array of five disks, and what it survives\n")
        for step in (demo.boot, demo.create, demo.mount, demo.fill, demo.load, demo.kill_node, demo.come_back, demo.pull_disk, demo.end):
            step()
    except ddvm.HarnessError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except (AssertionError, ddvm.NodeDied) as error:
        print(f"\ndemo: FAILED: {error}\nlogs: {run.keep_logs('demo')}", file=sys.stderr)
        return 1
    finally:
        if run:
            run.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
