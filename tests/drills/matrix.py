#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""The matrix: every order, parity and layout, intact and with every member and pair missing.

For each geometry fio writes the array's first units with verification (4 jobs, depth 16, blocks of 4 KiB to 1 MiB); then rawcheck.py reads
the raw members on the host: parity right in every stripe, and byte by byte what the device showed. For each set of missing members the
members are put back to that state, and with the set missing fio reads the first half through reconstruction, writes the other half anew and
verifies it; the raw members must again hold what the device shows, the first half as it was, the other half new, and parity right where one
is left. Each half has a unit for each rotation. The same is done through ext4 and XFS.

Two systems: nosync, arrays by dmsetup alone; daemon, arrays with superblocks, dirty log and ddraidd.
As a drill it runs everything; tests/vm/test_matrix.py takes a part.
"""
import argparse
import dataclasses
import fnmatch
import itertools
import pathlib
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "vm")]

import tools  # noqa: E402
from guest import Guest  # noqa: E402

MIB = 1 << 20
BLOCK = 4096
MEMBERS = 10
LANES = 2                   # arrays that the drill works on at the same time
COPY_SIZE = 64 * MIB        # the machine's last disk takes copies of what devices show, for the host to read
DISK_SIZE = "330M"          # XFS needs 300 MiB; order 0 has only one member's
FS_BLOCKS = 320 * MIB // BLOCK
SECONDS = 300               # limit of one script in the guest


@dataclasses.dataclass(frozen=True)
class Geometry:
    order: int
    parity: int
    layout: str

    @property
    def n(self):
        return (1 << self.order) + self.parity

    @property
    def half(self):
        """Bytes of one half: units of 1 MiB, no fewer than members, so that each rotation is met in each half."""
        return max(8, self.n + self.n % 2) * MIB

    @property
    def blocks(self):
        return 2 * self.half // BLOCK

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


def writes(base, size, seed):
    """A load for fio(): four jobs write and verify @size bytes from @base; other seeds write other bytes."""
    return (f"--name=write{seed} --stonewall --rw=randwrite --do_verify=1 --verify_backlog=32 --randseed={seed} "
            f"--offset={base} --size={size // 4} --offset_increment={size // 4}")


def reads(base, size):
    """A load for fio(): four jobs read and verify."""
    return (f"--name=read --stonewall --rw=randread --offset={base} --size={size // 4} "
            f"--offset_increment={size // 4}")


def fio(target, *loads):
    """A command that runs @loads one after the other; one process, since starting it costs more than its I/O."""
    options = ("--direct=1 --ioengine=libaio --iodepth=16 --bsrange=4k-1M --numjobs=4 --verify=crc32c "
               "--verify_interval=4096 --verify_fatal=1 --group_reporting --output-format=terse")
    return "fio " + " ".join(f"{load} {target} {options}" for load in loads) + " >/dev/null\n"


class System:
    """One array at a time on ten disks of a node, lane by lane. A subclass defines how it is made, started, stopped, found."""

    stop = NotImplemented

    def __init__(self, node, lane=0):
        self.node, self.lane = node, lane
        self.array = f"m{lane}"
        self.path = f"/dev/mapper/{self.array}"
        self.saved = []

    def disks(self, geometry):
        return self.node.disks[self.lane * MEMBERS:][:geometry.n]

    def make(self, geometry):
        """A new array on members that hold nothing. Nor do the other disks: an earlier array of the same name would be in the way."""
        for disk in self.node.disks[self.lane * MEMBERS:][:MEMBERS]:
            disk.wipe()

    def start(self, geometry, missing, blocks, verify):
        """The shell command that makes the device, of at least @blocks blocks."""
        raise NotImplementedError

    def session(self, geometry, work, missing=(), blocks=0, verify=False):
        """Starts the array, runs the shell commands @work, stops it; their output. The guest then caches nothing of it."""
        paths = " ".join(d.dev for d in self.disks(geometry))
        script = (f"set -e\n{self.start(geometry, missing, blocks or geometry.blocks, verify)} >&2\n{work}"
                  f"{self.stop.format(self.array)} >&2\n"
                  f"blockdev --flushbufs {paths}\n")
        return self.node.run(script, timeout=SECONDS).out

    def save(self, geometry):
        """Remembers what the members of the stopped array hold."""
        self.saved = [tools.extents(d.path) for d in self.disks(geometry)]

    def restore(self, geometry):
        """Puts the members back to what save() saw."""
        for disk, extents in zip(self.disks(geometry), self.saved):
            disk.wipe()
            for offset, data in extents:
                disk.write(offset, data)

    def raw(self, command, geometry, *options, missing=(), blocks=0, ok=(0,)):
        """rawcheck.py on the members of the stopped array."""
        raise NotImplementedError

    def copy(self, geometry):
        """The shell command that copies what the device shows to the last disk."""
        return (f"dd if={self.path} of={self.node.disks[-1].dev} bs=1M count={2 * geometry.half // MIB} "
                f"seek={self.lane * COPY_SIZE // MIB} iflag=direct oflag=direct conv=nocreat,notrunc 2>/dev/null\n")

    def shown(self, geometry):
        """What the device showed at copy()."""
        return self.node.disks[-1].read(self.lane * COPY_SIZE, 2 * geometry.half)


class NoSync(System):
    """Arrays without daemon or superblocks, by dmsetup alone."""

    name = "nosync"
    stop = "dmsetup remove --retry {}"
    OFFSET = MIB
    REGION = 4 * MIB

    def __init__(self, node, lane=0):
        super().__init__(node, lane)
        node.run("modprobe dm_ddraid")

    def start(self, geometry, missing, blocks, verify):
        devices = " ".join("-" if i in missing else d.dev for i, d in enumerate(self.disks(geometry)))
        shape = f"{geometry.order} {geometry.parity} {geometry.layout} {self.REGION // 512} {self.OFFSET // 512} {geometry.n}"
        options = "2 nosync verify_reads" if verify else "1 nosync"
        return f"dmsetup create {self.array} --table '0 {blocks * 8} ddraid - {shape} {devices} {options}'"

    def raw(self, command, geometry, *options, missing=(), blocks=0, ok=(0,)):
        lost = ["--missing", ",".join(map(str, missing))] if missing else []
        return tools.rawcheck(command, [d.path for d in self.disks(geometry)], "--order", geometry.order, "--parity",
                              geometry.parity, "--layout", geometry.layout, "--data-offset", self.OFFSET, "--blocks",
                              blocks or geometry.blocks, "--region-size", self.REGION, *lost, *options, ok=ok)


class Daemon(System):
    """Arrays with superblocks and dirty log that ddraidd serves; a missing member is one that is not given to start."""

    name = "daemon"
    REGION = MIB            # a grant for each unit
    # The daemon refuses members older than what it has seen; restore() makes such ones on purpose.
    stop = "rm -f /var/lib/ddraid/*.generation; ddraid stop {}"

    def __init__(self, node, lane=0):
        super().__init__(node, lane)
        self.blank = None, []       # a geometry, and the members of a new array of it
        self.guest = Guest(node)
        if self.guest.command("status --json", check=False).code:
            self.guest.start_daemon(idle_time="1s", take_back="no")     # the missing ones are there, and only not given to start

    def make(self, geometry):
        if self.blank[0] == geometry:
            self.saved = self.blank[1]
            self.restore(geometry)
            return
        super().make(geometry)
        self.guest.create(self.array, geometry.order, geometry.parity, geometry.layout, [d.dev for d in self.disks(geometry)],
                          f"--region-size {self.REGION} --nodes 2")
        self.save(geometry)
        self.blank = geometry, self.saved

    def start(self, geometry, missing, blocks, verify):
        devices = " ".join(d.dev for i, d in enumerate(self.disks(geometry)) if i not in missing)
        if verify:          # which also shows that a table loaded by hand does as well
            return (f"export DDRAID_DEVICES='{devices}'; set -- $(ddraid table {self.array})\n"
                    f'dmsetup create {self.array} --uuid "DDRAID-$4" --table "$* 1 verify_reads"')
        return f"export DDRAID_DEVICES='{devices}'; ddraid start {'--degraded --yes' if missing else ''} {self.array}"

    def raw(self, command, geometry, *options, missing=(), blocks=0, ok=(0,)):
        """The superblocks must show which members are missing, and the log that nothing is dirty."""
        ranges = ["--ranges", f"0-{(blocks or geometry.blocks) - 1}"] if command == "data" else []
        paths = [d.path for d in self.disks(geometry)]
        report = tools.rawcheck(command, paths, *ranges, *options, ok=ok)
        state = report if command == "check" else tools.rawcheck("state", paths)
        assert state["present"] == [i not in missing for i in range(geometry.n)], f"present: {state['present']}"
        assert not state["dirty"] and not state["log_unreadable"] and not state["map_unreadable"], f"log: {state}"
        return report


SYSTEMS = {s.name: s for s in (NoSync, Daemon)}


def check_parity(system, geometry, missing=(), blocks=0):
    """Every stripe's parity on the raw members, where enough of it is left."""
    if len(missing) >= geometry.parity:
        return
    report = system.raw("check", geometry, "--assert-none", missing=missing, blocks=blocks)
    assert blocks or report["checked_blocks"] >= geometry.blocks, f"{report['checked_blocks']} blocks were checked"


def blocks_where(one, other, same):
    """Numbers of the blocks in which two byte strings are (not) the same."""
    return [at // BLOCK for at in range(0, len(one), BLOCK) if (one[at:at + BLOCK] == other[at:at + BLOCK]) == same]


def check_content(system, geometry, missing=()):
    """The raw members hold byte by byte what the device showed, which is returned."""
    out = system.node.session.path / f"content-{system.array}"
    report = system.raw("data", geometry, "--out", out, missing=missing)
    shown, content = system.shown(geometry), out.read_bytes()[:2 * geometry.half]
    out.unlink()
    assert report["blocks"] == geometry.blocks and len(content) == len(shown)
    wrong = blocks_where(content, shown, False)
    assert not wrong, f"the raw members do not hold what the device shows in {len(wrong)} blocks, first {wrong[:9]}"
    return shown


def run_missing(system, geometry, missing, healthy, seed):
    """One set of missing members, from the members that show @healthy."""
    half = geometry.half
    system.restore(geometry)
    system.session(geometry, fio(f"--filename={system.path}", reads(0, half), writes(half, half, seed)) +
                   system.copy(geometry), missing)
    now = check_content(system, geometry, missing)
    assert now[:half] == healthy[:half], "what was written before the members were missing has changed"
    same = blocks_where(now[half:], healthy[half:], True)
    assert not same, f"{len(same)} blocks of the other half were not written anew, first {same[:9]}"
    check_parity(system, geometry, missing)


def run_geometry(system, geometry, sets, done=lambda what: None):
    """All phases of one geometry; AssertionError with what was wrong. done(text) is called for each set that passed."""
    size, target = 2 * geometry.half, f"--filename={system.path}"
    system.make(geometry)
    system.session(geometry, fio(target, writes(0, size, 1)) + system.copy(geometry))
    healthy = check_content(system, geometry)
    check_parity(system, geometry)
    system.save(geometry)
    if geometry.parity:
        out = system.session(geometry, fio(target, reads(0, size)) + f"dmsetup status {system.array}\n", verify=True)
        assert out.split()[7] == "0", f"verify_reads counts mismatches: {out}"
    done("healthy")
    for seed, missing in enumerate(sets, 2):
        try:
            run_missing(system, geometry, missing, healthy, seed)
            done(f"without {missing}")
        except AssertionError as error:
            raise AssertionError(f"{system.name} {geometry} without {missing}: {error}") from error


def file_system(system, geometry, kind, missing, done=lambda what: None):
    """One file system: made and written healthy, verified and written again with members missing, checked."""
    path, place = system.path, f"/mnt/{system.array}"
    mkfs = {"ext4": f"mkfs.ext4 -q -F -E lazy_itable_init=0,nodiscard {path} 320m",
            "xfs": f"mkfs.xfs -q -f -K -d size=320m {path}"}[kind]
    mount = f"mkdir -p {place}\nmount {path} {place}\n"
    end = f"umount {place}\n" + {"ext4": "e2fsck -f -n", "xfs": "xfs_repair -n"}[kind] + f" {path} >&2\n"
    target = f"--directory={place} --fallocate=none"
    first, again = (f"--name={name} --stonewall --size=3M" for name in ("first", "again"))
    system.make(geometry)
    work = fio(target, f"{first} --rw=randwrite --do_verify=1")
    system.session(geometry, f"{mkfs}\n{mount}{work}{end}", blocks=FS_BLOCKS)
    check_parity(system, geometry, blocks=FS_BLOCKS)
    done("healthy")
    work = fio(target, f"{first} --rw=randread", f"{again} --rw=randwrite --do_verify=1")
    system.session(geometry, f"{mount}{work}{end}", missing, blocks=FS_BLOCKS)
    check_parity(system, geometry, missing, blocks=FS_BLOCKS)
    if missing:
        done(f"without {missing}")


# ---- the drill -------------------------------------------------------------------------

class Drill:
    """Runs the steps that the arguments choose, in parallel lanes; after a failed one on a freshly booted machine."""

    def __init__(self, run, args):
        import ddvm
        self.args, self.run = args, run
        disks = [ddvm.Disk(run.path / f"m{i}.raw", DISK_SIZE, f"m{i}") for i in range(LANES * MEMBERS + 1)]
        self.node = ddvm.Node(run, "matrix", disks, memory=1024, kernel=args.kernel)
        self.node.boot()
        self.lock = threading.Lock()
        self.systems = {}
        self.passed = self.failed = self.combinations = 0

    def steps(self):
        """(title, class of the system, function of a system and of the callback for each combination) in turn."""
        for name, geometry in itertools.product(self.args.system.split(","), geometries()):
            sets = sample_sets(geometry) if self.args.sample else geometry.missing_sets()
            lost = geometry.missing_sets()[-1] if geometry.parity else ()
            of_geometry = [("raw", lambda s, done, g=geometry, m=sets: run_geometry(s, g, m, done))]
            of_geometry += [(kind, lambda s, done, g=geometry, k=kind, m=lost: file_system(s, g, k, m, done))
                            for kind in ("ext4", "xfs")]
            for kind, function in of_geometry:
                title = f"{name} {geometry} {kind}"
                if fnmatch.fnmatch(title, f"*{self.args.only}*"):
                    yield title, SYSTEMS[name], function

    def system(self, kind, lane):
        """The lane's system of that class since the machine was booted."""
        with self.lock:
            if (kind, lane) not in self.systems:
                self.systems[kind, lane] = kind(self.node, lane)
            return self.systems[kind, lane]

    def step(self, lane, title, kind, function):
        """One step, counted."""
        import ddvm
        began, verdict, combinations = time.time(), "passed", []

        def done(what):
            combinations.append(what)
            with self.lock:
                self.combinations += 1
            if self.args.verbose:
                print(f"    {title} {what}", flush=True)

        try:
            function(self.system(kind, lane), done)
            self.node.dmesg_check()
        except (AssertionError, ddvm.NodeDied, OSError) as error:   # what fails in the guest is an AssertionError, too
            verdict = f"FAILED: {error}\n    logs: {self.run.keep_logs(f'matrix-{title}')}"
        with self.lock:
            self.passed += verdict == "passed"
            self.failed += verdict != "passed"
            print(f"  {title:32} {len(combinations):3} combinations {time.time() - began:6.1f} s  {verdict}", flush=True)

    def work(self, lane, steps, failed_before):
        """One lane: steps until there is no more, or one has failed in any lane."""
        while self.failed == failed_before:
            with self.lock:
                step = next(steps, None)
            if step is None:
                return
            self.step(lane, *step)

    def all(self):
        import ddvm
        todo = list(self.steps())
        steps = iter(todo)
        while self.passed + self.failed < len(todo):
            before, done = self.failed, self.passed + self.failed
            lanes = [threading.Thread(target=self.work, args=(lane, steps, before), daemon=True) for lane in range(LANES)]
            for lane in lanes:
                lane.start()
            for lane in lanes:
                lane.join()
            if self.passed + self.failed == done:
                raise ddvm.HarnessError(f"{len(todo) - done} steps did not run")
            if self.failed == before:
                continue
            self.node.kill()
            self.node.boots = 0         # its console has been judged
            self.systems.clear()
            self.node.boot()


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", help="bookworm, trixie, sid or a directory")
    parser.add_argument("--system", default=",".join(SYSTEMS), help="nosync, daemon, or both as they are run [%(default)s]")
    parser.add_argument("--only", default="*", metavar="PATTERN",
                        help="only steps whose name holds it: 'order3+2-rotating raw', 'xfs', 'daemon order2*ext4'")
    parser.add_argument("--sample", action="store_true", help="only the missing sets that CI takes")
    parser.add_argument("--verbose", action="store_true", help="a line for each combination")
    args = parser.parse_args()
    if not set(args.system.split(",")) <= set(SYSTEMS):
        parser.error(f"--system: choose from {', '.join(SYSTEMS)}")
    return args


def main():
    import ddvm
    args, start, run, drill, complete = arguments(), time.time(), None, None, True
    try:
        ddvm.check_machine()
        run = ddvm.Run()
        drill = Drill(run, args)
        print(f"matrix: kernel {drill.node.kernel.release}, {args.system}", flush=True)
        drill.all()
    except (ddvm.HarnessError, ddvm.NodeDied) as error:
        print(f"matrix: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("matrix: interrupted; not everything was run")
        if not drill:
            return 1
        complete = False
    finally:
        if run:
            run.close()
    seconds = int(time.time() - start)
    print(f"matrix: {drill.passed} passed, {drill.failed} failed; {drill.combinations} combinations of geometry and missing "
          f"members verified in {seconds // 60} min {seconds % 60} s")
    return 0 if complete and drill.passed and not drill.failed else 1


if __name__ == "__main__":
    sys.exit(main())
