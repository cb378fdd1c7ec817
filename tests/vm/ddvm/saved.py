# SPDX-License-Identifier: GPL-2.0-or-later
"""Saved states of machines that have just booted.

An emulated machine boots for ten seconds and more, and resumes from a saved state within one. A state is saved when the agent is up and
before anything of a test ran, and serves each later boot of a machine with the same hardware, kernel and layers, of this run and of others.
What is each boot's own comes after it: the boot id (the kernel makes it when it is first read), the random numbers, the clock, the name
(agent.py, "begin").

Must never serve a machine that could tell the difference: one whose root file system outlives the boot, one with systemd (it has read the
boot id), one whose disks hold partitions (the kernel reads tables when it finds a disk). DDRAID_VM_BOOT=real forces real boots.
"""

import functools
import hashlib
import os
import pathlib
import re
import shutil

from .config import locked, work_root
from .qemu import BINARY

MOST_BYTES = 3 << 30        # of all states; those not used for the longest time go


@functools.lru_cache(maxsize=64)
def _content(path, *_of_stat):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def _identity(path):
    """Of a file that is unchanged if its age and size are."""
    stat = os.stat(path)
    return f"{path} {stat.st_mtime_ns} {stat.st_size}"


def _partitioned(path):
    """Has the disk a table that the kernel would read? By their signatures: DOS and GPT."""
    with open(path, "rb") as handle:
        start = handle.read(8192)
    return start[510:512] == b"\x55\xaa" or any(start[at:at + 8] == b"EFI PART" for at in (512, 4096))


class Saved:
    """The state from which a machine with this command line may resume; whether it exists or not yet."""

    def __init__(self, qemu, disks, layers):
        """`qemu`: not started; `disks`: its members; `layers`: (serial, path) of what its root is made of."""
        host = str(qemu.serial.parent)
        # Names of the host's files are no part of the machine; what its images hold is.
        hardware = [re.sub(re.escape(host) + "[^,]*", "", argument) for argument in qemu.hardware]
        # The states hold the host's time stamp counter, which restarts with the host.
        boot_id = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
        parts = [boot_id, _identity(shutil.which(BINARY)), *hardware, *(str(os.stat(d.path).st_size) for d in disks)]
        for serial, path in layers:
            stat = os.stat(path)        # each run packs its own stage, and all run the same one
            parts += [serial, _content(path, stat.st_mtime_ns, stat.st_size) if host in str(path) else _identity(path)]
        key = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:24]
        self.path = work_root() / f"booted-{key}"

    @staticmethod
    def allowed(node, qemu):
        """May a boot of this machine resume from a state, or save one?"""
        return (qemu.emulated and not node.systemd and not node.persistent and os.environ.get("DDRAID_VM_BOOT") != "real"
                and not any(_partitioned(d.path) for d in node.disks))

    def take(self, link):
        """A link to the state, which cannot be removed meanwhile; None if there is no state."""
        link.unlink(missing_ok=True)
        try:
            os.link(self.path, link)
        except FileNotFoundError:
            return None
        os.utime(link)
        return link

    def save(self, qemu):
        """Saves the running machine, which is stopped afterwards."""
        part = self.path.with_name(f"{self.path.name}.{os.getpid()}.{qemu.name}.part")
        try:
            qemu.save(part)
            part.rename(self.path)
        finally:
            part.unlink(missing_ok=True)
        self._make_room()

    @staticmethod
    def _make_room():
        with locked(work_root() / "making"):
            states = sorted(work_root().glob("booted-*"), key=lambda path: path.stat().st_mtime, reverse=True)
            total = 0
            for path in states:
                total += path.stat().st_size
                if total > MOST_BYTES:
                    path.unlink()
