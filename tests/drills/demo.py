#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The main job, for a newcomer: five disks become an array, and then things go wrong.

Everything is real: a kernel with the module, the daemon, XFS, fio with verification. Each
step says what happens and why it is safe; the first thing that is not as it should be
ends the demo with an error.
"""
import argparse
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "vm")]

import ddvm  # noqa: E402
import tools  # noqa: E402
from guest import Guest  # noqa: E402

DEV = "/dev/mapper/demo"
FILES = ("fio --name=demo --directory=/mnt --direct=1 --ioengine=libaio --iodepth=16 --bsrange=4k-1M --numjobs=4 --size=12M "
         "--verify=crc32c --verify_interval=4096 --verify_fatal=1 --group_reporting --output-format=terse --fallocate=none")
LEDGER_BLOCKS = 4096        # a file of 16 MiB in which every sector says what it is


class Demo:
    def __init__(self, run, kernel):
        disks = [ddvm.Disk(run.path / f"disk{i}.raw", "160M", f"disk{i}") for i in range(5)]
        self.node = ddvm.Node(run, "demo", disks, kernel=kernel)
        self.guest = Guest(self.node)
        self.writer = tools.build_writer(run.path).read_bytes()
        self.ledger = tools.Ledger()
        self.begin = time.monotonic()
        self.summary = []
        self.sequence = 1

    # -- what the user sees

    def say(self, text):
        seconds = int(time.monotonic() - self.begin)
        print(f"[{seconds // 60}:{seconds % 60:02}] {text}", flush=True)

    def show(self, command):
        """A command as a user would type it, and what it prints."""
        print(f"         # {command}")
        out = self.node.run(command, timeout=120)
        for line in (out.out + out.err).rstrip().splitlines():
            print(f"         {line}")
        sys.stdout.flush()

    # -- steps

    def boot(self, again=False):
        self.node.boot()
        self.node.put("/tmp/writer", self.writer, 0o755)
        self.guest.start_daemon(idle_time="2s")
        self.guest.watch_events()
        if not again:
            self.say(f"A virtual machine is up: Linux {self.node.kernel.release}, five disks of 160 MiB, ddraidd.")

    def create(self):
        self.say("Four disks' worth of data, one of parity. Nothing has to be synchronised first: a stripe is one 4 KiB block,\n"
                 "         each write is a write of whole stripes, and what nobody wrote needs no parity.")
        disks = " ".join(d.dev for d in self.node.disks)
        self.show(f"ddraid create demo --order 2 --parity 1 {disks}")
        self.show("ddraid start demo")
        self.show("ddraid status demo")

    def fill(self):
        self.show(f"mkfs.xfs -q -f {DEV} && mount {DEV} /mnt && df -h /mnt")
        self.node.run(f"dd if=/dev/zero of=/mnt/ledger bs=1M count={LEDGER_BLOCKS * 4096 >> 20} conv=fsync 2>/dev/null; sync")
        self.say("fio writes 48 MiB in four files, blocks of 4 KiB to 1 MiB, and verifies all of it.")
        self.node.run(f"{FILES} --rw=randwrite --do_verify=1 --end_fsync=1 >/dev/null", timeout=300)
        self.summary.append("48 MiB written and verified by fio on the healthy array")

    def load(self):
        """A load that knows what it was promised: each durable write is noted outside of the machine."""
        job = self.node.spawn(f"exec /tmp/writer load /mnt/ledger 0 {LEDGER_BLOCKS} 8 32 {self.sequence} {self.sequence} 0")
        self.sequence += 1 << 32
        job.wait_output("F ", 60)
        return job

    def note(self, job):
        self.ledger.read(job.out)
        assert not self.ledger.errors, f"the load saw an error: {self.ledger.errors}"

    def verify(self, what):
        self.node.run(f"{FILES} --rw=randread >/dev/null", timeout=300)
        result = self.node.run(f"/tmp/writer verify /mnt/ledger 0 {LEDGER_BLOCKS}", stdin=self.ledger.expectations(),
                               timeout=120, check=False)
        assert result.code == 0, f"{what}: {result.out}"
        self.say(f"Verified {what}: fio's files, and {len(self.ledger.durable)} blocks that were reported durable.")
        self.summary.append(f"nothing lost {what}: {len(self.ledger.durable)} durable blocks and fio's 48 MiB verified")

    def raw(self, *options):
        return tools.rawcheck("check", [d.path for d in self.node.disks], *options)

    def power_cut(self):
        self.say("Under a load of small synchronous writes: power cut. The machine is gone between two instructions.")
        job = self.load()
        time.sleep(3)
        self.node.kill()
        self.note(job)
        report = self.raw()
        assert report["bad_outside_dirty"] == [], f"stripes are wrong outside the dirty log: {report['bad_outside_dirty']}"
        total = report["regions"]
        self.say(f"On the raw disks {report['bad_blocks']} stripes are inconsistent, none of them outside of the "
                 f"{report['dirty_count']} regions (of {total}) that the dirty log names.")
        self.boot(again=True)
        self.show("ddraid start demo")
        start = time.monotonic()
        self.guest.wait_idle("demo")
        found = sum(e["regions"] for e in self.guest.events_seen() if e["event"] == "recovery")
        assert found == report["dirty_count"], f"recovery of {found} regions, the log named {report['dirty_count']}"
        self.say(f"Resync of {found} regions instead of {total}: done {time.monotonic() - start:.1f} s after the start; the array was in use at once.")
        self.summary.append(f"power cut: {found} of {total} regions resynced, no others")
        self.node.run(f"mount {DEV} /mnt")
        self.verify("after the power cut")
        self.raw("--assert-none", "--assert-idle")
        self.say("The raw disks, read by an independent program: every stripe's parity is right.")

    def pull_disk(self):
        disk = self.node.disks[2]
        self.say("Under load again: a disk is pulled out.")
        job = self.load()
        time.sleep(1)
        self.node.unplug(disk)
        time.sleep(3)
        assert job.poll() is None, f"the load ended: {job.out[-200:]}{job.err}"
        job.kill()
        job.wait(30)
        self.note(job)
        state = self.guest.status("demo")["state"]
        assert state == "degraded", f"the array is {state}, not degraded"
        self.say("The load saw no error: the daemon took the disk out of the array, on all other disks, before the write went on.")
        self.show("ddraid status demo")
        self.verify("with a disk missing")
        self.node.run("umount /mnt")

    def end(self):
        self.show("ddraid stop demo")
        self.node.dmesg_check()
        self.node.shutdown()
        print(f"\nIn {time.monotonic() - self.begin:.0f} s:")
        for line in self.summary:
            print(f"  * {line}")
        print("The demo ended well.")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", help="bookworm, trixie, sid or a directory")
    args = parser.parse_args()
    run = demo = None
    try:
        ddvm.check_machine()
        run = ddvm.Run()
        demo = Demo(run, args.kernel)
        print("ddraid demo: an array of five disks on one (virtual) machine, and what it survives\n")
        for step in (demo.boot, demo.create, demo.fill, demo.power_cut, demo.pull_disk, demo.end):
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
