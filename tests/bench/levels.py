#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A single disk, RAID 0, 1, 10 and 5 (md) and ddraid's orders on the same disks, in one virtual machine and one run.

Of each: what a large sequential write and read get, and the rates of init and reconstruct. These two count what all disks of the array together have read and
written, as disk appliances report it: disks times size, by the time. Init is md's first resync; ddraid needs none, so for it that is the
resync of an array that was written as a whole while resync was paused. Reconstruct is the rebuild of one disk onto another, of an array
that was written as a whole. The disks are limited by QEMU, one is kept as the spare. Ratios count; figures do not travel.
"""
import argparse
import dataclasses
import pathlib
import statistics
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "vm"), str(HERE.parent / "drills")]

import devices  # noqa: E402
import session  # noqa: E402
from ddvm import Disk, Node  # noqa: E402
from guest import Guest  # noqa: E402

MIB = devices.MIB
SIZE, DISKS = 128, 11                   # MiB of a disk; the last one is the spare
LIMITS = {"iops": 1000, "bps": 25 * MIB}
NAME, MD = "bench", "/dev/md100"


@dataclasses.dataclass(frozen=True)
class Level:
    """One line of the table. `md`: its level, None for a single disk and for ddraid, whose `order` and `parity` count then."""
    label: str
    disks: int
    md: int | None = None
    order: int | None = None
    parity: int = 0

    @property
    def spare(self):
        return self.md in (1, 5, 10) or self.order is not None


def ddraid(order, parity):
    return Level(f"ddraid order {order} +{parity}", (1 << order) + parity, None, order, parity)


LEVELS = [
    Level("single disk", 1),
    Level("RAID 1", 2, 1), ddraid(0, 1),
    ddraid(1, 1),
    Level("RAID 0", 4, 0), Level("RAID 10", 4, 10), Level("RAID 5", 4, 5), ddraid(1, 2),
    Level("RAID 0", 5, 0), Level("RAID 5", 5, 5), ddraid(2, 1),
    Level("RAID 10", 6, 10), ddraid(2, 2),
    Level("RAID 0", 9, 0), Level("RAID 5", 9, 5), ddraid(3, 1),
    Level("RAID 10", 10, 10), Level("RAID 5", 10, 5), ddraid(3, 2),
]


class Levels:
    """One node with the disks; `figures`: a dictionary for each level and round."""

    def __init__(self, run, runtime):
        self.disks = [Disk(run.path / f"level-{i}.raw", SIZE * MIB, f"l{i}", **LIMITS) for i in range(DISKS)]
        self.node = Node(run, "bench-levels", self.disks, memory=1024)
        self.runtime, self.figures = runtime, []
        self.node.boot()
        self.node.run("modprobe -a dm_mod raid0 raid1 raid10 raid456", timeout=120)
        self.node.run("echo 1000000 >/proc/sys/dev/raid/speed_limit_min; echo 1000000 >/proc/sys/dev/raid/speed_limit_max")
        self.guest = Guest(self.node)
        self.guest.start_daemon(idle_time="500ms", resync_max_rate="0", verify_every="0", hot_spare="no")
        self.bench = devices.Bench(self.node, [d.dev for d in self.disks], SIZE * MIB, self.guest)

    # -- what an array's work is, and how long it takes

    def until(self, done, timeout=900):
        """Seconds until done() is true."""
        began = time.monotonic()
        while not done():
            assert time.monotonic() - began < timeout, "it does not end"
            time.sleep(0.05)
        return time.monotonic() - began

    def md_idle(self):
        return self.node.run(f"cat /sys/block/{MD.rsplit('/', 1)[1]}/md/sync_action").out.strip() == "idle"

    def rate(self, level, seconds):
        """MiB a second of all its disks."""
        return level.disks * SIZE / seconds

    def write(self, path, size):
        self.node.run(f"dd if=/dev/zero of={path} bs=1M count={size // MIB} oflag=direct conv=nocreat,fsync 2>/dev/null", timeout=600)

    # -- the arrays

    def md(self, level, used):
        """Path, init."""
        self.bench.make_md(level.md, used, clean=False)
        if level.md == 0:
            return MD, None
        return MD, self.rate(level, self.until(self.md_idle))

    def md_reconstruct(self, level, used):
        self.node.run(["mdadm", "-q", MD, "--fail", used[0], "--remove", used[0]])
        self.node.run(["mdadm", "-q", MD, "--add", self.disks[-1].dev])
        degraded = f"/sys/block/{MD.rsplit('/', 1)[1]}/md/degraded"
        return self.rate(level, self.until(lambda: self.node.run(f"cat {degraded}").out.strip() == "0"))

    def ddraid(self, level, used):
        layout = "rotating" if level.order else "dedicated"
        for disk in self.disks:         # those that the last level had and this one has not would say that the name is taken
            self.node.run(f"ddraid wipe --yes {disk.dev}", check=False)
        self.guest.create(NAME, level.order, level.parity, layout, used, f"--overwrite --yes --spare {self.disks[-1].dev}")
        self.guest.start(NAME)
        path = f"/dev/mapper/{NAME}"
        self.guest.command(f"set {NAME} resync=paused")
        self.write(path, self.size_of(path))
        time.sleep(2)                   # grants are given back, so that all of it is known to need the resync
        self.guest.command(f"set {NAME} resync=run")
        return path, self.rate(level, self.until(lambda: not self.guest.busy(NAME)))

    def ddraid_reconstruct(self, level):
        self.guest.command(f"set {NAME} hot_spare=yes")
        self.guest.command(f"fail {NAME} 0")
        return self.rate(level, self.until(lambda: self.guest.status(NAME)["state"] == "optimal"))

    def size_of(self, path):
        return int(self.node.run(f"blockdev --getsize64 {path}").out)

    def measure(self, level, number):
        used = [d.dev for d in self.disks[:level.disks]]
        if level.order is not None:
            path, init = self.ddraid(level, used)
        else:
            path, init = (used[0], None) if level.md is None else self.md(level, used)
        size = self.size_of(path)
        self.write(path, size)
        figures = {"label": level.label, "disks": level.disks, "round": number, "size": size, "init": init, "reconstruct": None}
        if level.order is not None:
            self.guest.wait_idle(NAME)
        for pattern in ("seqwrite", "seqread"):
            figures[pattern] = devices.fio(self.node, path, pattern, size // MIB * MIB, self.runtime, 2)["mibs"]
        if level.order is not None:
            self.guest.wait_idle(NAME)
            figures["reconstruct"] = self.ddraid_reconstruct(level)
            self.guest.stop(NAME)
        elif level.md is not None:
            figures["reconstruct"] = self.md_reconstruct(level, used) if level.spare else None
            self.node.run(f"mdadm -q --stop {MD}")
        for disk in self.disks:
            self.node.run(f"wipefs -qa {disk.dev}; dd if=/dev/zero of={disk.dev} bs=1M count=1 oflag=direct conv=nocreat 2>/dev/null")
        self.figures.append(figures)
        print(line(level, [figures], None), flush=True)


COLUMNS = ("seqwrite", "seqread", "init", "reconstruct")


def line(level, rounds, base):
    """Medians in MiB/s; behind write and read, over the single disk's."""
    parts = [f"  {level.label:16} {level.disks:3} disks {rounds[0]['size'] / MIB:7.0f} MiB"]
    for what in COLUMNS:
        values = [r[what] for r in rounds if r[what] is not None]
        if not values:
            parts.append(f"{'-':>9}" + " " * (8 if base else 0))
            continue
        middle = statistics.median(values)
        parts.append(f"{middle:9.1f}" + (f" ({middle / base[what]:5.2f})" if base and base.get(what) else " " * (8 if base else 0)))
    return " ".join(parts)


def table(figures):
    base = {what: statistics.median(f[what] for f in figures if f["label"] == LEVELS[0].label) for what in COLUMNS[:2]}
    base |= {what: statistics.median(f["seqread"] for f in figures if f["label"] == LEVELS[0].label) for what in COLUMNS[2:]}
    lines = ["", "MiB/s, and over what a single disk reads or writes; init and reconstruct: of all disks together",
             " " * 37 + "    write             read              init              reconstruct"]
    for level in LEVELS:
        rounds = [f for f in figures if (f["label"], f["disks"]) == (level.label, level.disks)]
        if rounds:
            lines.append(line(level, rounds, base))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--runtime", type=int, default=6, help="seconds of one measurement of a load")
    parser.add_argument("--json", metavar="FILE", help="where the figures go (default: build/bench-levels.json)")
    parser.add_argument("--disks", type=int, nargs="+", metavar="N", help="only the levels that take so many disks; the single disk is always there")
    args = parser.parse_args()
    levels = [level for level in LEVELS if not args.disks or level.disks in (1, *args.disks)]
    if len(levels) == 1:
        parser.error(f"no level takes so many disks; they take {', '.join(str(n) for n in sorted({level.disks for level in LEVELS}))}")
    made = []

    def measure(run):
        made.append(Levels(run, args.runtime))
        for number in range(args.rounds):
            for level in levels:
                made[0].measure(level, number)

    if not session.within_run(measure):
        return 1
    path = session.keep({"kernel": made[0].node.kernel.release, "runtime": args.runtime, "figures": made[0].figures}, "bench-levels.json", args.json)
    print(table(made[0].figures))
    print(f"\nfigures: {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
