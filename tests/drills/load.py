# SPDX-License-Identifier: GPL-2.0-or-later
"""The load of a cluster's nodes on an array during failures, and the check that none of it is lost.

On GFS2, for each node: a file of its own whose every sector identifies itself (writer.c), a file of its own that fio writes and verifies
again and again, and records appended to a file of all nodes under a lock. On the device itself two pulses: 4 KiB written again and again,
in a region of the node's own and in one that all nodes share. Without the file system these sectors are on the device, with a window for
each node. What is reported durable is recorded on the host as it is printed, so that the record outlives the node.
"""
import pathlib
import time

LEDGER_BLOCKS = 1024            # of a node's ledger: a file of 4 MiB, or a window of the device
THREADS, LONGEST = 2, 16        # of its writer; blocks of a write
SHARED_FILE = "/mnt/shared"
APPEND = pathlib.Path(__file__).resolve().parent / "append.py"
FIO = ("fio --name=load --directory=/mnt --filename=fio{node} --size=512k --bsrange=4k-64k --rw=randwrite --direct=1 --ioengine=libaio "
       "--iodepth=4 --thinktime=20ms --thinktime_blocks=4 --serialize_overlap=1 --fallocate=none --verify=crc32c --verify_interval=4096 --verify_fatal=1 --end_fsync=1 "
       "--randrepeat=0 --output-format=terse")
PULSE_SECONDS, BEAT_MS = 3600, 100
# Loads that pause, so that several emulated machines on a few processors still answer; a stall is then the fault's.
APART, PAUSE_US = 8, 10000


def fill(node, number):
    """The files of a node, allocated once so that what follows rewrites blocks."""
    node.run(f"dd if=/dev/zero of=/mnt/ledger{number} bs=64k count={LEDGER_BLOCKS * 4096 >> 16} conv=fsync 2>&1", timeout=120)


# prints the first block of the array of each piece of a file, and how many it has; the pieces are in order and without holes
FIEMAP = r"""
import fcntl, os, struct, sys
f, at = open(sys.argv[1], "rb"), 0
while at < os.fstat(f.fileno()).st_size:
    buf = bytearray(struct.pack("=QQIIII", at, 1 << 62, 1, 0, 512, 0) + bytes(56 * 512))
    fcntl.ioctl(f, 0xC020660B, buf)
    pieces = [struct.unpack_from("=QQQ", buf, 32 + 56 * i) for i in range(struct.unpack_from("=I", buf, 20)[0])]
    if not pieces or pieces[0][0] > at:
        sys.exit(f"a hole at byte {at}")
    for logical, physical, length in pieces:
        if logical + length > at:
            print((physical + at - logical) // 4096, (logical + length - at) // 4096)
            at = logical + length
"""


def file_blocks(node, path):
    """The array's blocks that a file has, in its order."""
    node.put("/tmp/fiemap.py", FIEMAP.encode())
    pieces = [tuple(map(int, line.split())) for line in node.run(f"python3 -SIE /tmp/fiemap.py {path}").out.splitlines()]
    return [b for first, n in pieces for b in range(first, first + n)]


def place(rig, number):
    """(file or device, first block) of a node's ledger."""
    return (f"/mnt/ledger{number}", 0) if rig.filesystem else ("/dev/mapper/shared", (number - 1) * LEDGER_BLOCKS)


class Load:
    """The load of one node, from its beginning to its end or the node's."""

    def __init__(self, rig, number, append=True, threads=THREADS, longest=LONGEST, rest=0):
        """`rest`: seconds between two runs of fio. An emulated machine spends more on its start than on its writes."""
        self.rig, self.number, self.node = rig, number, rig.node(number)
        self.ledger = rig.ledgers[number]
        rig.sequence += 1 << 24         # more than any load can use
        path, first = place(rig, number)
        self.writes = threads, longest, rig.sequence, rig.sequence >> 24        # what its writes follow from
        self.node.run("rm -f /tmp/stop")
        self.jobs = {"ledger": rig.start_load(number, f"exec /tmp/writer load {path} {first} {LEDGER_BLOCKS} {threads} {longest} "
                                                      f"{rig.sequence} {rig.sequence >> 24} 0 {APART} {PAUSE_US}")}
        own = rig.tail() + (number - 1) * rig.region_blocks
        shared = rig.tail() + len(rig.all) * rig.region_blocks + number
        for name, block in (("own", own), ("shared", shared)):
            self.jobs[name] = rig.start_load(number, f"exec /tmp/writer pulse /dev/mapper/shared {block} 1 {PULSE_SECONDS} {BEAT_MS}")
        if rig.filesystem and append:
            self.node.put("/tmp/append", APPEND.read_bytes(), 0o755)
            self.jobs["append"] = rig.start_load(number, f"exec /tmp/append {SHARED_FILE} {number}")
        if rig.filesystem:
            self.jobs["fio"] = rig.start_load(number, f"while [ ! -e /tmp/stop ]; do {FIO.format(node=number)} >/dev/null || exit 1; echo verified; "
                                               f"sleep {rest}; done")

    def wait_running(self):
        for name, job in self.jobs.items():
            job.wait_output("F " if name == "ledger" else "\n", 120)

    def check(self):
        """No part of it has ended or seen an error."""
        for name, job in self.jobs.items():
            assert job.poll() is None, f"node {self.number}: {name} ended with {job.poll()}: {job.out[-300:]} {job.err[-500:]}"

    def progress(self, timeout):
        """Until each part has done something more."""
        self.check()
        seen = {name: len(job.out) for name, job in self.jobs.items()}
        for name, job in self.jobs.items():
            job.channel.wait_for(lambda job=job, name=name: len(job.out) > seen[name] or job.poll() is not None, timeout)
            assert len(job.out) > seen[name], f"node {self.number}: {name} stands still: {self.rig.guests[self.number].status('shared')}"
        self.check()

    def beats(self, name, times, timeout=30):
        """Waits until a pulse has beaten this many more times."""
        job = self.jobs[name]
        seen = job.out.count("\n")
        job.channel.wait_for(lambda: job.out.count("\n") >= seen + times, timeout)
        assert job.out.count("\n") >= seen + times, f"node {self.number}: its pulse stopped: {job.out[-200:]}"

    def stands_still(self, seconds):
        """Nothing of it writes for this long, once what had ended before was printed; and nothing has failed."""
        time.sleep(1)
        before = {name: len(job.out) for name, job in self.jobs.items()}
        time.sleep(seconds)
        moved = [name for name, job in self.jobs.items() if len(job.out) != before[name]]
        assert not moved, f"node {self.number} has no quorum and went on with {moved}"
        self.check()

    def note(self):
        """What was promised so far."""
        self.ledger.read(self.jobs["ledger"].out)
        assert not self.ledger.errors, f"node {self.number}: the load saw errors: {self.ledger.errors}"
        if "append" in self.jobs:
            for line in self.jobs["append"].out.splitlines(keepends=True):
                if line.endswith("\n"):
                    self.rig.appended[int(line)] = self.number

    def stop(self):
        """Ends it, and returns the longest stalls of its pulses in seconds by name."""
        self.check()
        if "fio" in self.jobs:
            self.node.run(": > /tmp/stop")
        for name in ("ledger", "own", "shared"):
            self.jobs[name].kill()
        for name, job in self.jobs.items():
            code = job.wait(120).code
            assert code == (0 if name in ("append", "fio") else -9), f"node {self.number}: {name}: {job.out[-300:]} {job.err[-1000:]}"
        self.note()
        return self.stalls()

    def stalls(self):
        """The longest stall of each pulse so far, in seconds."""
        return {name: stall(self.jobs[name].out) for name in ("own", "shared")}


def stall(text):
    """The longest write of a pulse, in seconds; the last line may be torn."""
    lines = [line.split() for line in text.splitlines(keepends=True) if line.startswith("P ") and line.endswith("\n")]
    return max((int(line[2]) for line in lines), default=0) / 1e6


def verify(rig, on, torn=False):
    """All data that was reported durable, read on node `on`; {node: blocks of its ledger that are garbage, and may be}.

    `torn`: nodes lost their power while a data member was missing. Then the format promises less of the blocks that they were writing at that
    moment, and of no others: a chunk of such a block may have content that was never written, and its region is listed as suspect (doc/design.md,
    "The idea" and "After a crash"; doc/on-disk-format.md, 4). So a block may be garbage if both of these hold:
    - It was in flight on a node that died (rig.cut): each thread of a load has one write in flight at most, and which ones a load makes
      follows from its seed. So all garbage of a thread must lie in one write, of at most LONGEST blocks, that is later than all that was
      reported durable and than all that the disk shows to have ended (writer.c, find_in_flight).
    - It lies in a region that is suspect now. (What earlier rounds left suspect was accepted: Rig.accept_suspect.)
    All data that was acknowledged and was not being written again must be right, in suspect regions too, and so must all data of survivors.
    """
    node, harmed = rig.node(on), {}
    for i, ledger in rig.ledgers.items():
        path, first = place(rig, i)
        cut = rig.cut.get(i, ()) if torn else ()
        result = node.run(f"/tmp/writer verify {path} {first} {LEDGER_BLOCKS} {' '.join(map(str, cut))}", stdin=ledger.expectations(), timeout=240, check=False)
        assert result.code == 0, (f"what node {i} wrote, read on {on}: {result.out[-6000:]} {result.err}; its load when its power was cut (threads, "
                                  f"blocks of a write, first number, seed): {cut}; status: {rig.guests[on].status('shared')}")
        blocks = [int(line.split()[1].rstrip(":")) for line in result.out.splitlines() if ": in flight," in line]
        if blocks:
            assert_suspect(rig, on, i, blocks, result.out)
            harmed[i] = blocks
    if rig.filesystem:
        verify_appended(node.get(SHARED_FILE), rig.appended, on)
    return harmed


def assert_suspect(rig, on, number, blocks, words):
    """The regions of these blocks of a node's ledger are listed as suspect."""
    path, _ = place(rig, number)
    where = file_blocks(rig.node(on), path) if rig.filesystem else range(rig.blocks)
    suspect = {r for first, count in rig.guests[on].status("shared")["suspect"] for r in range(first, first + count)}
    stray = {b: (where[b], where[b] // rig.region_blocks) for b in blocks if where[b] // rig.region_blocks not in suspect}
    assert not stray, (f"node {number}'s blocks, read on {on}, are garbage outside of the suspect regions {sorted(suspect)}: (block of the array, region) "
                       f"by block of its ledger: {stray}; {words[-6000:]}")


def verify_appended(content, promised, on):
    records = [tuple(map(int, line.split())) for line in content.splitlines()]
    numbers = [number for number, _ in records]
    assert numbers == list(range(1, len(numbers) + 1)), f"read on node {on}: the shared file's records are {numbers[:20]} ... {numbers[-5:]}"
    lost = [number for number, node in promised.items() if number > len(records) or records[number - 1][1] != node]
    assert not lost, f"read on node {on}: of {len(records)} records in the shared file these were another's: {lost[:20]}"
