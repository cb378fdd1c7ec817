# SPDX-License-Identifier: GPL-2.0-or-later
"""The devices that are compared: how each is put together over the members, and taken down.

Every kind uses the same members, one after the other. A kind leaves nothing
behind: what it wrote at the members' beginnings is wiped before the next one.
"""
import dataclasses
import json
import re
import time

MIB = 1 << 20
CHUNK_KIB = 64              # of dm-stripe and md: their common choice for mixed loads
DATA_OFFSET = MIB           # of ddraid without superblocks


@dataclasses.dataclass(frozen=True)
class Kind:
    """One device under test; `order` says how many data members it has (2^order)."""
    name: str               # raw stripe md4 md5 md6 dmraid5 ddraid
    order: int = 0
    parity: int = 0
    layout: str = ""
    mode: str = ""          # ddraid: nocalc nosync full

    @property
    def members(self):
        return (1 << self.order) + self.parity

    @property
    def label(self):
        if self.name == "ddraid":
            return f"ddraid {self.mode} +{self.parity} {self.layout}"
        return self.name


def kinds_for(order, with_ddraid, quick=False):
    """All kinds that are compared at one order, peers first."""
    peers = [Kind("stripe", order), Kind("md4", order, 1), Kind("md5", order, 1), Kind("md6", order, 2),
             Kind("dmraid5", order, 1)]
    ours = []
    for parity in (1, 2):
        for layout in ("dedicated", "rotating"):
            for mode in ("nocalc", "nosync", "full"):
                if mode == "nocalc" and (parity, layout) != (1, "dedicated"):
                    continue
                if quick and (parity == 2 and layout == "dedicated"):
                    continue
                ours.append(Kind("ddraid", order, parity, layout, mode))
    return peers + (ours if with_ddraid else [])


class Bench:
    """Makes and removes kinds in one guest over a list of member devices of one size."""

    def __init__(self, node, members, size, cluster=None):
        """`members`: paths in the guest; `size`: bytes of each; `cluster`: drills.guest.Guest for mode full."""
        self.node, self.members, self.size, self.cluster = node, members, size, cluster

    def setup(self, kind):
        """The path of the device for `kind`."""
        used = self.members[:kind.members]
        path = getattr(self, "_make_" + kind.name)(kind, used)
        self.node.run(f"test -b $(readlink -f {path})")
        return path

    def settled(self, kind):
        """Called after the device was written over once: waits for what runs behind the scenes."""
        if kind.mode == "full":
            self.cluster.wait_idle("bench", timeout=300)

    def teardown(self, kind):
        if kind.name.startswith("md"):
            self.node.run("mdadm -q --stop /dev/md100")
        elif kind.mode == "full":
            self.cluster.stop("bench")
        elif kind.name != "raw":
            self.node.run("dmsetup remove --retry bench")
            if kind.name == "dmraid5":
                for i in range(kind.members):
                    self.node.run(f"dmsetup remove --retry meta{i}; dmsetup remove --retry data{i}")
        for member in self.members[:kind.members]:
            self.node.run(f"dd if=/dev/zero of={member} bs=1M count={min(32, self.size // MIB)} oflag=direct conv=nocreat 2>/dev/null; "
                          f"dd if=/dev/zero of={member} bs=1M count=1 seek={self.size // MIB - 1} oflag=direct "
                          "conv=nocreat 2>/dev/null")

    # -- peers

    def _table(self, name, line):
        self.node.run(["dmsetup", "create", name], stdin=line + "\n")
        return f"/dev/mapper/{name}"

    def _make_raw(self, _kind, used):
        return used[0]

    def _make_stripe(self, _kind, used):
        chunk = CHUNK_KIB * 2
        each = self.size // 512 // chunk * chunk
        parts = " ".join(f"{d} 0" for d in used)
        return self._table("bench", f"0 {each * len(used)} striped {len(used)} {chunk} {parts}")

    def make_md(self, level, used, clean=True):
        """@clean: without its first resync."""
        options = [] if level == 1 else [f"--chunk={CHUNK_KIB}"]
        options += [] if level == 0 else ["--bitmap=internal"]
        options += ["--assume-clean"] if clean and level else []
        self.node.run(["mdadm", "-q", "--create", "/dev/md100", "--run", "--metadata=1.2", f"--level={level}",
                       f"--raid-devices={len(used)}", *options, *used])
        return "/dev/md100"

    def _make_md4(self, _kind, used):
        return self.make_md(4, used)

    def _make_md5(self, _kind, used):
        return self.make_md(5, used)

    def _make_md6(self, _kind, used):
        return self.make_md(6, used)

    def _make_dmraid5(self, _kind, used):
        meta, chunk = 4 * MIB // 512, CHUNK_KIB * 2
        each = (self.size // 512 - meta) // chunk * chunk
        parts = []
        for i, device in enumerate(used):
            self.node.run(f"dd if=/dev/zero of={device} bs=1M count=4 oflag=direct conv=nocreat 2>/dev/null")
            parts.append(self._table(f"meta{i}", f"0 {meta} linear {device} 0"))
            parts.append(self._table(f"data{i}", f"0 {each} linear {device} {meta}"))
        return self._table("bench", f"0 {each * (len(used) - 1)} raid raid5_ls 4 {chunk} nosync region_size 8192 "
                                    f"{len(used)} " + " ".join(parts))

    # -- ddraid

    def _make_ddraid(self, kind, used):
        if kind.mode == "full":
            return self.cluster.create_and_start("bench", kind.order, kind.parity, kind.layout, used)
        step = MIB // 512
        each = (self.size - DATA_OFFSET) // MIB * MIB // 512 // step * step
        options = {"nosync": "1 nosync", "nocalc": "2 nosync nocalc"}[kind.mode]
        return self._table("bench", f"0 {each << kind.order} ddraid - {kind.order} {kind.parity} {kind.layout} 8192 "
                                    f"{DATA_OFFSET // 512} {len(used)} {' '.join(used)} {options}")


# ---- members -----------------------------------------------------------------------------

def ram_members(node, count, mib):
    """brd ram disks: nothing but the CPU limits them."""
    node.run(f"modprobe brd rd_nr={count} rd_size={mib * 1024} max_part=0")
    return [f"/dev/ram{i}" for i in range(count)]


def latency_members(node, count, mib, microseconds):
    """null_blk devices that keep what is written and answer after a fixed time."""
    node.run("modprobe null_blk nr_devices=0")
    base = "/sys/kernel/config/nullb"
    for i in range(count):
        settings = {"size": mib, "memory_backed": 1, "irqmode": 2, "completion_nsec": microseconds * 1000,
                    "hw_queue_depth": 128, "blocksize": 512, "power": 1}
        node.run(f"mkdir {base}/nullb{i} && cd {base}/nullb{i} && " +
                 " && ".join(f"echo {v} > {k}" for k, v in settings.items()))
    return [f"/dev/nullb{i}" for i in range(count)]


# ---- fio ---------------------------------------------------------------------------------

PATTERNS = {
    # name: fio arguments, depth
    "seqwrite": ("--rw=write --bs=1M", 16),
    "seqwrite2": ("--rw=write --bs=1M --numjobs=2", 16),
    "seqread": ("--rw=read --bs=1M", 16),
    "randwrite": ("--rw=randwrite --bs=4k", 16),
    "randread": ("--rw=randread --bs=4k", 16),
    "write3": ("--rw=write --bs=64k --numjobs=3", 4),
    "read3": ("--rw=read --bs=64k --numjobs=3", 4),
    "mixed": ("--rw=randrw --rwmixread=70 --bs=4k", 16),
    "write1": ("--rw=randwrite --bs=4k", 1),
    "read1": ("--rw=randread --bs=4k", 1),
}


def command(path, pattern, span, runtime, ramp):
    """fio's, which prints JSON; several jobs share the span."""
    options, depth = PATTERNS[pattern]
    if jobs := re.search(r"numjobs=(\d)", options):
        span = span // int(jobs[1]) // MIB * MIB
        options += f" --offset_increment={span} --group_reporting"
    return (f"fio --output-format=json --name=b --filename={path} --direct=1 --ioengine=libaio "
            f"--iodepth={depth} --size={span} --time_based --runtime={runtime} --ramp_time={ramp} "
            f"--norandommap --randseed=1 --end_fsync=0 {options}")


def fio(node, path, pattern, span, runtime, ramp):
    """One measurement: {iops, mibs, lat_us} over reads and writes together; several jobs share the span."""
    out = node.run(command(path, pattern, span, runtime, ramp), timeout=120 + 10 * runtime).out
    job = json.loads(out[out.index("{"):])["jobs"][0]
    if job["error"]:
        raise RuntimeError(f"fio {pattern} on {path}: error {job['error']}")
    ops = [job[d] for d in ("read", "write") if job[d]["total_ios"]]
    total = sum(o["total_ios"] for o in ops)
    if not total:
        raise RuntimeError(f"fio {pattern} on {path}: no I/O was done in {runtime} s")
    return {"iops": sum(o["iops"] for o in ops), "mibs": sum(o["bw_bytes"] for o in ops) / MIB,
            "lat_us": sum(o["lat_ns"]["mean"] * o["total_ios"] for o in ops) / total / 1000}


def fill(node, path, span):
    """Writes the measured span once: allocates ram, marks regions, gives every stripe its parity."""
    node.run(f"dd if=/dev/zero of={path} bs=1M count={span // MIB} oflag=direct conv=nocreat,fsync 2>/dev/null",
             timeout=300)
    time.sleep(0.2)
