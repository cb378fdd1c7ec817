#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The matrix: every order, parity and layout, healthy and with every member and pair missing.

For each geometry: fio writes half of a small array with verification (4 jobs, depth 16,
blocks of 4 KiB to 1 MiB), the raw members are checked on the host by rawcheck.py, and
then for each set of missing members the half is read back through reconstruction, the
other half is written and verified degraded, and the device's SHA-256 in the guest must be
that of the raw members without the missing ones. The same through ext4 and XFS.

As a drill it runs everything, with and without the daemon; tests/vm/test_matrix.py takes a part.
"""
import argparse
import dataclasses
import itertools
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "vm")]

import tools  # noqa: E402

MIB = 1 << 20
HALF = 8 * MIB              # four jobs of 2 MiB; two halves are the array, more units than members
BLOCKS = 2 * HALF // 4096
MEMBERS = 10
DISK_SIZE = "330M"          # XFS wants 300 MiB, of which order 0 has one member's
REGION = 4 * MIB


@dataclasses.dataclass(frozen=True)
class Geometry:
    order: int
    parity: int
    layout: str

    @property
    def n(self):
        return (1 << self.order) + self.parity

    def __str__(self):
        return f"order{self.order}+{self.parity}-{self.layout}"

    def missing_sets(self):
        """Every set of members that the parity covers, the empty one apart."""
        return [s for lost in range(1, self.parity + 1) for s in itertools.combinations(range(self.n), lost)]


def geometries():
    return [Geometry(*g) for g in itertools.product(range(4), range(3), ("dedicated", "rotating"))]


def sample_sets(geometry):
    """For CI: each kind of pair (data and data, data and P, data and Q, P and Q) once over the two layouts."""
    k, n = 1 << geometry.order, geometry.n
    rotating = geometry.layout == "rotating"
    if geometry.parity < 2:
        return [(0,), (n - 1,)][:1 + rotating] if geometry.parity else []
    return [(0, k), (k - 1, k + 1)] if rotating else [(k - 1,), (0, k - 1) if k > 1 else (0, k), (k, k + 1)]


def fio(path, base, write, size=HALF // 4):
    """Command that writes and verifies, or verifies, one half of the device."""
    mode = "--rw=randwrite --do_verify=1 --verify_backlog=32" if write else "--rw=randread"
    return (f"fio --name=m --filename={path} --direct=1 --ioengine=libaio --iodepth=16 --bsrange=4k-1M --numjobs=4 "
            f"--offset={base} --size={size} --offset_increment={size} --verify=crc32c --verify_interval=4096 "
            f"--verify_fatal=1 --group_reporting --output-format=terse {mode} >/dev/null")


class NoSync:
    """Arrays without daemon or superblocks, by dmsetup alone."""

    OFFSET = MIB

    def __init__(self, node):
        self.node = node
        node.run("modprobe dm_ddraid")

    def wipe(self, geometry):
        for disk in self.node.disks[:geometry.n]:
            disk.wipe()

    def start(self, geometry, missing=(), blocks=BLOCKS, options="1 nosync"):
        """The device's path."""
        devices = " ".join("-" if i in missing else d.dev for i, d in enumerate(self.node.disks[:geometry.n]))
        self.node.run(["dmsetup", "create", "m"],
                      stdin=f"0 {blocks * 8} ddraid - {geometry.order} {geometry.parity} {geometry.layout} "
                            f"{REGION // 512} {self.OFFSET // 512} {geometry.n} {devices} {options}\n")
        return "/dev/mapper/m"

    def stop(self):
        self.node.run("dmsetup remove --retry m")

    def raw(self, command, geometry, *options, blocks=BLOCKS, missing=(), ok=(0,)):
        paths = [d.path for d in self.node.disks[:geometry.n]]
        lost = ["--missing", ",".join(map(str, missing))] if missing else []
        return tools.rawcheck(command, paths, "--order", geometry.order, "--parity", geometry.parity, "--layout",
                              geometry.layout, "--data-offset", self.OFFSET, "--blocks", blocks, "--region-size", REGION,
                              *lost, *options, ok=ok)


def sha(node, path):
    """The device's content as its user sees it."""
    return node.run(f"dd if={path} bs=1M iflag=direct count={2 * HALF // MIB} 2>/dev/null | sha256sum", timeout=120).out.split()[0]


def run_geometry(system, geometry, sets):
    """All phases of one geometry; AssertionError says what was wrong."""
    node = system.node
    system.wipe(geometry)
    path = system.start(geometry)
    node.run(f"{fio(path, 0, True)} && {fio(path, HALF, True)}", timeout=240)
    healthy = sha(node, path)
    system.stop()
    if geometry.parity:
        report = system.raw("check", geometry, "--holes", "--assert-none")
        assert report["checked_blocks"] == BLOCKS
    assert system.raw("data", geometry)["sha256"] == healthy, f"{geometry}: raw members do not hold what the device shows"
    if geometry.parity:
        path = system.start(geometry, options="2 nosync verify_reads")
        node.run(fio(path, 0, False), timeout=180)
        status = node.run("dmsetup status m").out.split()
        assert status[7] == "0", f"{geometry}: verify_reads counts mismatches: {' '.join(status)}"
        system.stop()
    for missing in sets:
        path = system.start(geometry, missing)
        node.run(f"{fio(path, 0, False)} && {fio(path, HALF, True)}", timeout=240)
        content = sha(node, path)
        system.stop()
        raw = system.raw("data", geometry, missing=missing)["sha256"]
        assert raw == content, f"{geometry} without {missing}: raw members and device differ"
        if len(missing) < geometry.parity:
            system.raw("check", geometry, "--holes", "--assert-none", missing=missing)


def file_system(system, geometry, kind, missing):
    """One file system: made and written healthy, verified and written again with members missing, checked."""
    node, blocks = system.node, 320 * MIB // 4096
    mkfs = {"ext4": "mkfs.ext4 -q -F -E lazy_itable_init=0,nodiscard", "xfs": "mkfs.xfs -q -f -K"}[kind]
    check = {"ext4": "e2fsck -f -n", "xfs": "xfs_repair -n"}[kind]
    work = ("fio --name=f --directory=/mnt --direct=1 --ioengine=libaio --iodepth=16 --bsrange=4k-1M --numjobs=4 "
            "--size=3M --verify=crc32c --verify_interval=4096 --verify_fatal=1 --group_reporting --output-format=terse ")
    system.wipe(geometry)
    path = system.start(geometry, blocks=blocks)
    node.run(f"{mkfs} {path} && mount {path} /mnt && {work} --rw=randwrite --do_verify=1 --fallocate=none >/dev/null && "
             f"umount /mnt && {check} {path}", timeout=300)
    system.stop()
    if geometry.parity:
        system.raw("check", geometry, "--assert-none", blocks=blocks)
    path = system.start(geometry, missing, blocks=blocks)
    node.run(f"mount {path} /mnt && {work} --rw=randread >/dev/null && {work} --filename_format=again.\\$jobnum "
             f"--rw=randwrite --do_verify=1 >/dev/null && umount /mnt && {check} {path}", timeout=300)
    system.stop()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", default="0,1,2,3")
    parser.add_argument("--kernel", help="bookworm, trixie, sid or a directory")
    parser.add_argument("--sample", action="store_true", help="only the missing sets that CI takes")
    parser.add_argument("--no-fs", action="store_true", help="without the file systems")
    return parser.parse_args()


def main():
    import ddvm
    args = arguments()
    orders = [int(o) for o in args.orders.split(",")]
    start, passed, failed = time.time(), 0, 0
    try:
        ddvm.check_machine()
        run = ddvm.Run()
        node = ddvm.Node(run, "matrix", [ddvm.Disk(run.path / f"m{i}.raw", DISK_SIZE, f"m{i}") for i in range(MEMBERS)],
                         kernel=args.kernel)
        node.boot()
    except ddvm.HarnessError as error:
        print(f"matrix: {error}", file=sys.stderr)
        return 1
    print(f"matrix: kernel {node.kernel.release}")
    system = NoSync(node)
    for geometry in (g for g in geometries() if g.order in orders):
        sets = sample_sets(geometry) if args.sample else geometry.missing_sets()
        steps = [("raw", lambda g=geometry, s=sets: run_geometry(system, g, s))]
        if not args.no_fs:
            lost = geometry.missing_sets()[-1] if geometry.parity else ()
            steps += [(kind, lambda g=geometry, k=kind, m=lost: file_system(system, g, k, m)) for kind in ("ext4", "xfs")]
        for name, step in steps:
            began = time.time()
            try:
                step()
                passed += 1
                verdict = "passed"
            except AssertionError as error:
                failed += 1
                verdict = f"FAILED: {error}"
                node.reset()
                system = NoSync(node)
            print(f"  {str(geometry):22} {name:5} {len(sets) if name == 'raw' else 1:3} missing sets "
                  f"{time.time() - began:6.1f} s  {verdict}", flush=True)
    try:
        node.dmesg_check()
    except AssertionError as error:
        failed += 1
        print(f"  kernel log: {error}")
    run.close()
    print(f"matrix: {passed} passed, {failed} failed ({time.time() - start:.0f} s)")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
