#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Power cuts under a write load, with disks that lose what was not flushed.

Each round: fio, and a load whose sectors identify themselves, write to an array over dm-forget disks, of which a random share of the
unflushed sectors has reached the medium, and which serve requests out of order; the machine is killed at a random moment. Then, on the raw
disks and before anything runs: every inconsistent stripe lies in a region that the log calls dirty. After the restart, at once and again
when the array is idle: everything that was reported durable is there, and all that an fio job wrote which had ended with its fsync. When it
is idle no stripe is inconsistent, nothing is dirty, and what was resynced were the dirty regions (and those whose parity was never
computed), no more. A drill of which less than half of the cuts leave an inconsistent stripe has failed.
"""
import argparse
import collections
import itertools
import pathlib
import random
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "vm")]

import ddvm  # noqa: E402
import tools  # noqa: E402
from guest import Guest  # noqa: E402

SIZES = ("72M", "40M", "24M", "16M")     # of a member, by order: arrays of about the same size
REGIONS = (1 << 16, 1 << 18, 1 << 20)
FIO_BYTES = 4 << 20         # what one fio job writes and verifies
SHAPES = [(2, 1, "rotating"), (1, 1, "dedicated"), (2, 2, "rotating"), (0, 1, "dedicated"), (3, 1, "rotating"),
          (0, 2, "dedicated"), (1, 2, "rotating"), (3, 2, "dedicated"), (2, 0, "dedicated"), (2, 1, "dedicated")]


class Power:
    """One array over several power cuts."""

    def __init__(self, node, writer, shape, rng):
        self.node, self.shape, self.rng = node, shape, rng
        self.writer = writer.read_bytes()
        self.members = [f"/dev/mapper/f{i}" for i in range((1 << shape[0]) + shape[1])]
        self.ledger = tools.Ledger()
        self.sequence = 0
        self.guest = None
        self.blocks = self.ours = None  # of the array; those from 0 on that the writer may use, the rest is fio's
        self.rounds = 0
        self.settled = None             # the fio job that ended with its fsync before the last cut
        self.total = collections.Counter()

    def boot(self):
        """Power on: disks with a volatile cache, the daemon."""
        from ddvm import modbuild
        self.node.boot()
        self.node.load_module(modbuild.test_module("dm-forget", self.node.kernel))
        for i, disk in enumerate(self.node.disks):
            self.node.run(["dmsetup", "create", f"f{i}"], stdin=f"0 {disk.size // 512} forget {disk.dev} 0\n")
        self.node.put("/tmp/writer", self.writer, 0o755)
        self.guest = Guest(self.node, ["/dev/mapper/f*"])
        self.guest.start_daemon(idle_time="300ms")
        self.guest.watch_events()

    def create(self):
        order, parity, layout = self.shape
        self.guest.create("power", order, parity, layout, self.members,
                          f"--region-size {self.rng.choice(REGIONS)}")
        self.guest.start("power")
        self.blocks = int(self.node.run("blockdev --getsize64 /dev/mapper/power").out) // 4096
        self.ours = self.blocks - 4 * FIO_BYTES // 4096

    def raw(self, *options, ok=(0,)):
        return tools.rawcheck("check", [d.path for d in self.node.disks], *options, ok=ok)

    def start_wave(self):
        """A load on a window of the array, once it runs; sequence numbers grow from wave to wave."""
        window = self.rng.randrange(1024, self.ours // 2)
        first = self.rng.randrange(self.ours - window)
        self.sequence += 1 << 24        # more than any wave can use
        job = self.node.spawn(f"exec /tmp/writer load /dev/mapper/power {first} {window} 8 {self.rng.choice((1, 8, 64))} "
                              f"{self.sequence} {self.rng.randrange(1 << 30)} 0 {self.rng.choice((4, 16, 64))}")
        job.wait_output("F ", 60)
        return job

    def fio(self, half, block_size, *more):
        """A command for one half of fio's part of the array."""
        return ("exec fio --name=power --filename=/dev/mapper/power --direct=1 --ioengine=libaio --iodepth=16 --rw=randwrite "
                f"--offset={self.ours * 4096 + 2 * half * FIO_BYTES} --size={FIO_BYTES} --bs={block_size} --verify=crc32c "
                f"--verify_interval=4096 --verify_fatal=1 --output-format=terse --randseed={self.rounds + 1} {' '.join(more)}")

    def start_fio(self):
        """One job to its end, fsync included; then another on the other half, which goes on until the cut."""
        half, size = self.rounds % 2, self.rng.choice(("4k", "16k", "64k"))
        self.node.run(self.fio(half, size, "--do_verify=0 --end_fsync=1"), timeout=120)
        self.settled = half, size
        return self.node.spawn(self.fio(1 - half, "4k", "--do_verify=0 --norandommap --time_based --runtime=600"))

    def cut(self):
        """Waves of load, so that regions become dirty and are cleared; then darkness at a random moment of the last."""
        spread = self.rng.choice((2, 10, 30))
        for disk in range(len(self.members)):
            share = self.rng.choice((0, 20, 50, 80))
            self.node.run(f"dmsetup message f{disk} 0 leak {share} {self.rng.randrange(1 << 30)} && "
                          f"dmsetup message f{disk} 0 delay 0 {spread}")
        fio = self.start_fio()
        for last in (False,) * self.rng.randrange(3) + (True,):
            job = self.start_wave()
            time.sleep(self.rng.uniform(0.5, 2.5))
            if not last:
                job.kill()
                job.wait(60)
                time.sleep(self.rng.uniform(0, 1))
            else:
                self.node.kill()
            self.ledger.read(job.out)
        assert not self.ledger.errors, f"the load saw errors: {self.ledger.errors}"
        assert not fio.err, f"fio saw errors: {fio.err}"

    def check_cut(self):
        """The raw disks right after the cut."""
        if not self.shape[1]:
            return {"bad_blocks": 0, "dirty_count": 0, "needs_sync": [], "regions": 0}
        report = self.raw()
        assert report["bad_outside_dirty"] == [], f"inconsistent stripes outside dirty regions: {report['bad_outside_dirty']}"
        assert report["log_unreadable"] == [], f"log blocks are unreadable: {report['log_unreadable']}"
        self.total["inconsistent"] += report["bad_blocks"]
        self.total["cuts"] += 1
        self.total["biting"] += report["bad_blocks"] > 0
        self.total["regions"] += report["regions"]
        self.total["dirty"] += report["dirty_count"]
        return report

    def verify(self, when):
        """Everything proven durable is there, and no sector is anything but one of ours."""
        result = self.node.run(f"/tmp/writer verify /dev/mapper/power 0 {self.ours}", stdin=self.ledger.expectations(),
                               timeout=180, check=False)
        assert result.code == 0, f"{when}: data is lost: {result.out[-1500:]}{result.err}"
        result = self.node.run(self.fio(*self.settled, "--verify_only"), timeout=180, check=False)
        assert result.code == 0, f"{when}: what fio wrote is lost: {result.out[-500:]}{result.err}"

    def restart(self, cut):
        """On again: recovery by dirty regions only, data there before, during and after."""
        self.boot()
        self.guest.start("power")
        self.verify("during the resync")
        self.guest.wait_idle("power")
        self.verify("after the resync")
        if not self.shape[1]:
            return
        done = [e for e in self.guest.events_seen() if e["event"] == "recovery"]
        found = sum(e["regions"] for e in done)
        assert found == cut["dirty_count"], f"recovery of {found} regions, the log had {cut['dirty_count']} dirty: {done}"
        allowed = cut["dirty_count"] + sum(n for _, n in cut["needs_sync"])
        resynced = sum(e["regions"] for e in self.guest.events_seen() if e["event"] == "resync-done")
        assert cut["dirty_count"] <= resynced <= allowed, f"{resynced} regions resynced, {cut['dirty_count']} to {allowed} needed it"
        cut["resynced"] = resynced
        self.total["resynced"] += resynced
        self.total["never"] += allowed - cut["dirty_count"]
        self.raw("--assert-none", "--assert-idle")
        jobs = self.guest.status("power")["jobs"]
        assert jobs == [], f"nothing is left to do, but status lists {jobs}"

    def round(self):
        """One cut and what follows; a line about it."""
        before = len(self.ledger.durable)
        self.cut()
        cut = self.check_cut()
        self.restart(cut)
        self.rounds += 1
        return (f"{len(self.ledger.durable):6} blocks durable (+{len(self.ledger.durable) - before}), "
                f"{cut['bad_blocks']:4} stripes inconsistent, {cut['dirty_count']:4} of {cut['regions']:4} regions dirty, "
                f"{cut.get('resynced', 0)} resynced")


def make(run, name, shape, writer, seed, kernel=None):
    """A Power over new disks, not booted."""
    count = (1 << shape[0]) + shape[1]
    disks = [ddvm.Disk(run.path / f"{name}-{i}.raw", SIZES[shape[0]], f"p{i}") for i in range(count)]
    return Power(ddvm.Node(run, name, disks, kernel=kernel), writer, shape, random.Random(seed))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=None, help="repeat a drill's choices (not its timing)")
    parser.add_argument("--kernel")
    return parser.parse_args()


def main():
    args = arguments()
    seed = args.seed if args.seed is not None else int(time.time())
    start, failed, total, power = time.time(), 0, collections.Counter(), None
    print(f"power: {args.rounds} rounds, seed {seed}")
    try:
        ddvm.check_machine()
        run = ddvm.Run()
        writer = tools.build_writer(run.path)
        per_shape = -(-args.rounds // len(SHAPES))
        number = 0
        for index, shape in enumerate(itertools.cycle(SHAPES)):
            if number >= args.rounds:
                break
            power = make(run, f"power{index}", shape, writer, seed + index, args.kernel)
            try:
                power.boot()
                power.create()
                for _ in range(min(per_shape, args.rounds - number)):
                    number += 1
                    began = time.time()
                    line = power.round()
                    print(f"  {number:3} order {shape[0]} +{shape[1]} {shape[2]:9} {line} ({time.time() - began:.0f} s)", flush=True)
                power.node.dmesg_check()
            except (AssertionError, ddvm.NodeDied) as error:
                failed += 1
                print(f"  {number:3} order {shape[0]} +{shape[1]} {shape[2]:9} FAILED: {error}\n"
                      f"      logs: {run.keep_logs(f'power-{seed}-{number}')}", flush=True)
            total += power.total
            power.node.kill()
            for disk in power.node.disks:
                disk.path.unlink()
    except ddvm.HarnessError as error:
        print(f"power: {error}", file=sys.stderr)
        return 1
    run.close()
    if args.rounds >= 10 and total["biting"] * 2 < total["cuts"]:
        failed += 1
        print("  hardly a cut left an inconsistent stripe: the drill proves nothing")
    print(f"power: {args.rounds} cuts, {failed} failed ({time.time() - start:.0f} s). With parity: {total['biting']} of {total['cuts']} cuts left "
          f"inconsistent stripes, {total['inconsistent']} in all, none outside of dirty regions; of {total['regions']} regions "
          f"{total['dirty']} were dirty and {total['never']} had never been synced, {total['resynced']} were resynced")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
