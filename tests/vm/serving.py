# SPDX-License-Identifier: GPL-2.0-or-later
"""A machine with the daemon and, if wanted, one array: what the tests of the daemon have in common. No tests."""
import contextlib
import pathlib
import subprocess
import sys
import time

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "drills"), str(TESTS / "tools")]
import tools  # noqa: E402
from guest import Guest  # noqa: E402
from ddvm.config import stage_dir, time_scale  # noqa: E402

DEV = "/dev/mapper/data"
REGION = 4 << 20
BLOCKS = REGION // 4096
MEMBERS = [f"/dev/vd{c}" for c in "abcde"]


class Serving:
    """A guest with a daemon and, if wanted, the array `data` of order 2, parity 1 on its first five disks."""

    def __init__(self, node):
        self.node = node
        self.guest = Guest(node)
        self.config = {"idle_time": "1s", "grant_ahead": 0, "take_back": "no"}     # a member that a test takes away stays away

    def begin(self, **options):
        self.config.update(options)
        self.guest.start_daemon(**self.config)

    def array(self, parity=1, devices=MEMBERS, order=2, extra="--overwrite --yes"):
        self.guest.create_and_start("data", order, parity, "rotating", devices, extra)
        return self.guest.status("data")["uuid"]

    def write(self, region, count=1, check=True):
        """One 4 KiB write to each of @count regions from @region on."""
        return self.node.run(f"for r in $(seq {region} {region + count - 1}); do dd if=/dev/urandom of={DEV} bs=4096 count=1 "
                             f"seek=$((r * {BLOCKS})) oflag=direct conv=nocreat status=none || exit 1; done", check=check)

    def counters(self):
        return self.guest.status("data")["counters"]

    def wait_ready(self, timeout=30):
        """Until the daemon serves the array: one that is new answers before it has read the members."""
        self.node.wait_until("ddraid status data --json | grep -q '\"ready\": true'", timeout)

    def event(self, name, timeout=20, count=1):
        """The first event of this name since watch_events(); waits until there are @count of them."""
        deadline = time.monotonic() + timeout * time_scale()
        while len(found := [e for e in self.guest.events_seen() if e["event"] == name]) < count:
            assert time.monotonic() < deadline, f"no event {name}: {self.guest.events_seen()}"
            time.sleep(0.2)
        return found[0]

    def check_idle(self, members=5, timeout=20):
        """The raw check while the array runs: parity is right, and the last mark is cleared on the disks automatically."""
        paths = [disk.path for disk in self.node.disks[:members]]
        deadline = time.monotonic() + timeout * time_scale()
        while "regions" in "".join((report := tools.rawcheck("check", paths, "--assert-none", "--assert-idle", ok=(0, 1)))["failures"]):
            assert time.monotonic() < deadline, report["failures"]
            time.sleep(0.2)
        assert report["code"] == 0, report["failures"]

    @contextlib.contextmanager
    def members_that_hang(self, load_forget):
        """/dev/mapper/f0 to f3 over the first four disks, which hang on command; in the end nothing hangs and they are gone."""
        load_forget(self.node)
        for i, disk in enumerate(self.node.disks[:4]):
            self.node.run(f"dmsetup create f{i} --table '0 {disk.size // 512} forget {disk.dev} 0'")
        members = [f"/dev/mapper/f{i}" for i in range(4)]
        self.guest.env = {"DDRAID_DEVICES": " ".join(members)}
        try:
            yield members
        finally:
            self.node.run("for i in 0 1 2 3; do dmsetup message f$i 0 hang off; done", check=False)
            self.node.run("ddraid stop --all --force", check=False, timeout=60)
            self.node.run("for i in 0 1 2 3; do dmsetup remove --retry f$i; done", check=False)

    def end(self):
        """Whatever the test left: everything stops, and the disks are blank again."""
        node = self.node
        if self.guest.daemon and self.guest.daemon.poll() is None:
            node.run("ddraid stop --all --force", check=False, timeout=120)
            self.guest.daemon.kill(15)
            self.guest.daemon.wait(30, check=False)
        node.run("dmsetup remove_all --force; rm -rf /var/lib/ddraid/* /run/ddraid", check=False)
        left = node.run("dmsetup ls", check=False).out.strip()
        assert left in ("", "No devices found"), f"the test left devices that something holds open: {left}"
        for disk in node.disks:     # what is discarded is a hole of the disk's file and reads as zeroes; zeroes would take space on this machine
            node.run(f"blkdiscard {disk.dev} || blkdiscard -z {disk.dev} || dd if=/dev/zero of={disk.dev} bs=1M conv=nocreat", check=False)


@pytest.fixture
def serving(shared_node, stage):
    del stage
    s = Serving(shared_node)
    yield s
    if shared_node.alive():     # after a failure the harness takes the machine away first
        s.end()


def examine(path):
    """`ddraid examine --json` of an image on the host."""
    program = pathlib.Path(stage_dir()) / "usr/sbin/ddraid"
    return subprocess.run([program, "examine", "--json", path], capture_output=True, text=True, check=True).stdout
