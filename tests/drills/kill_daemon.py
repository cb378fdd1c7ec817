#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""kill -9 of ddraidd under load, again and again.

While the daemon is away: fio sees no error; a write to a granted region completes; a write to a region that is not granted waits, and
succeeds once the daemon is back; and when the daemon stays away for longer than the bound, granted regions stop too, and resume afterwards.
At the end every durable block is there and every stripe is right on the raw disks.
"""
import argparse
import pathlib
import random
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "vm")]

import ddvm  # noqa: E402
import tools  # noqa: E402
from guest import Guest  # noqa: E402

SIZE = "200M"
REGION = 1 << 20
REGION_BLOCKS = REGION // 4096
BOUND = 4                   # seconds: daemon_timeout of this drill
DEV = "/dev/mapper/kill"


class Drill:
    """An array of five disks with three loads on it: fio, the writer, a pulse on one region."""

    def __init__(self, node, writer, rng, say=print):
        self.node, self.rng, self.say = node, rng, say
        self.guest = Guest(node)
        self.options = {"idle_time": "3s", "daemon_timeout": f"{BOUND}s"}
        self.writer = writer.read_bytes()
        self.ledger = tools.Ledger()

    def set_up(self):
        self.node.put("/tmp/writer", self.writer, 0o755)
        self.guest.start_daemon(**self.options)
        self.guest.create_and_start("kill", 2, 1, "rotating", [d.dev for d in self.node.disks], f"--region-size {REGION}")
        regions = self.guest.status("kill")["regions"]["total"]
        self.third = regions // 3 * REGION_BLOCKS
        # the last third: the pulse's region, then one cold region for each kill
        self.pulse_block = 2 * self.third
        self.cold = self.pulse_block + 8 * REGION_BLOCKS
        self.end = regions * REGION_BLOCKS - REGION_BLOCKS

    def start_loads(self, seconds):
        self.fio = self.node.spawn(
            f"exec fio --name=k --filename={DEV} --direct=1 --ioengine=libaio --iodepth=16 --rw=randwrite --bsrange=4k-256k "
            f"--size={self.third * 4096 // 2} --offset_increment={self.third * 4096 // 2} --numjobs=2 --verify=crc32c "
            f"--verify_interval=4096 --verify_backlog=64 --verify_fatal=1 --time_based --runtime={seconds} "
            "--serialize_overlap=1 --group_reporting --output-format=terse")
        self.load = self.node.spawn(f"exec /tmp/writer load {DEV} {self.third} {self.third} 4 16 1 {self.rng.randrange(1 << 30)} "
                                    f"{seconds}")
        self.pulse = self.node.spawn(f"exec /tmp/writer pulse {DEV} {self.pulse_block} 4 {seconds}")

    def beats(self):
        """Durations of the pulse's writes so far, in microseconds."""
        return [int(line.split()[2]) for line in self.pulse.out.splitlines(keepends=True)
                if line.startswith("P") and line.endswith("\n")]

    def kill_once(self, away):
        """One death of @away seconds; away is below the bound."""
        self.guest.kill_daemon()
        before = len(self.beats())
        cold = self.cold
        self.cold += 2 * REGION_BLOCKS
        assert self.cold < self.end, "no cold region is left: make the disks larger"
        waiting = self.node.spawn(f"exec dd if=/dev/zero of={DEV} bs=4096 count=1 seek={cold} oflag=direct conv=nocreat")
        time.sleep(away)
        beats = len(self.beats()) - before
        assert waiting.poll() is None, f"a write to a region without a grant ended without a daemon: {waiting.out}{waiting.err}"
        assert beats >= 1, "no write to a granted region ended while the daemon was away"
        self.guest.start_daemon(**self.options)
        assert waiting.wait(30).code == 0, f"the write that waited failed: {waiting.err}"
        return beats

    def beyond_the_bound(self):
        """The daemon is away for longer than the bound: all writes stop, and resume afterwards."""
        self.guest.kill_daemon()
        time.sleep(BOUND + 2)
        before = len(self.beats())
        time.sleep(3)
        assert len(self.beats()) - before <= 1, "writes go on although the daemon is away for longer than the bound"
        self.guest.start_daemon(**self.options)
        deadline = time.monotonic() + 20
        while len(self.beats()) <= before + 1:
            assert time.monotonic() < deadline, "writes do not go on after the daemon came back"
            time.sleep(0.2)

    def finish(self):
        for name, job in (("fio", self.fio), ("the load", self.load), ("the pulse", self.pulse)):
            result = job.wait(300)
            assert result.code == 0, f"{name} saw an error: {result.out[-500:]}{result.err[-1500:]}"
        self.ledger.read(self.load.out)
        assert self.ledger.ended and not self.ledger.errors and self.ledger.durable, f"load: {self.ledger.errors}"
        result = self.node.run(f"/tmp/writer verify {DEV} {self.third} {self.third}", stdin=self.ledger.expectations(),
                               timeout=180, check=False)
        assert result.code == 0, f"data is lost: {result.out}"
        self.guest.wait_idle("kill")
        tools.rawcheck("check", [d.path for d in self.node.disks], "--assert-none", "--assert-idle")


def run_drill(node, writer, kills, rng, say=print, beyond=True):
    """The whole drill; AssertionError with what was wrong. Returns the number of durable blocks."""
    drill = Drill(node, writer, rng, say)
    drill.set_up()
    drill.start_loads(kills * 7 + 25)
    time.sleep(2)
    for number in range(kills):
        away = rng.uniform(1.0, BOUND - 1.5)
        beats = drill.kill_once(away)
        say(f"  {number + 1:3} away for {away:.1f} s: {beats} writes to a granted region meanwhile, the cold one waited")
        time.sleep(rng.uniform(0.5, 2))
    if beyond:
        drill.beyond_the_bound()
        say(f"      away for longer than {BOUND} s: all writes stopped, and went on afterwards")
    drill.finish()
    return len(drill.ledger.durable)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--kernel")
    args = parser.parse_args()
    start, run = time.time(), None
    print(f"kill_daemon: {args.kills} kills, seed {args.seed}")
    try:
        ddvm.check_machine()
        run = ddvm.Run()
        disks = [ddvm.Disk(run.path / f"k{i}.raw", SIZE, f"k{i}") for i in range(5)]
        node = ddvm.Node(run, "kill", disks, kernel=args.kernel)
        node.boot()
        durable = run_drill(node, tools.build_writer(run.path), args.kills, random.Random(args.seed),
                            lambda line: print(line, flush=True))
        node.dmesg_check()
    except ddvm.HarnessError as error:
        print(f"kill_daemon: {error}", file=sys.stderr)
        return 1
    except (AssertionError, ddvm.NodeDied) as error:
        print(f"kill_daemon: FAILED: {error}\n  logs: {run.keep_logs(f'kill-{args.seed}')}")
        return 1
    finally:
        if run:
            run.close()
    print(f"kill_daemon: {args.kills} kills, no error to fio, {durable} durable blocks all there, every stripe right "
          f"({time.time() - start:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
