# SPDX-License-Identifier: GPL-2.0-or-later
"""Member disks: sparse raw files that any number of nodes may open at once.

All QEMUs go through the host's page cache, so nodes see each other's writes,
and what QEMU acknowledged survives its SIGKILL (flushed or not: a volatile
cache is what dm-forget is for).
"""

import dataclasses
import os
import pathlib

from .config import HarnessError

# A request counts as one I/O up to this size, and as more above.
LIMIT_IO_SIZE = 65536


@dataclasses.dataclass
class Disk:
    """One disk; sizes in bytes; `iops` and `bps` limit it, for each node separately."""
    path: pathlib.Path
    size: int
    serial: str
    logical_block_size: int = 512
    physical_block_size: int = 512
    iops: int = 0
    bps: int = 0
    write_zeroes: bool = True
    discard: bool = True

    def __post_init__(self):
        self.path = pathlib.Path(self.path)
        self.size, self.bps = parse_size(self.size), parse_size(self.bps)
        if len(self.serial) > 20:
            raise HarnessError(f"disk serial {self.serial}: longer than virtio's 20 bytes")
        if not self.path.exists():
            with open(self.path, "wb") as handle:
                handle.truncate(self.size)

    @property
    def dev(self):
        """The disk's path in the guest, the same on all nodes."""
        return f"/dev/disk/by-id/virtio-{self.serial}"

    def read(self, offset, length):
        """Raw bytes from the host's side (coherent with all nodes)."""
        with open(self.path, "rb") as handle:
            return os.pread(handle.fileno(), length, offset)

    def write(self, offset, data):
        """Damage or prepare the disk from the host's side."""
        with open(self.path, "r+b") as handle:
            os.pwrite(handle.fileno(), data, offset)

    def wipe(self):
        """Make the whole disk a hole (zeroes) again."""
        os.truncate(self.path, 0)
        os.truncate(self.path, self.size)

    def limit(self):
        """QEMU throttle-group properties, or None where the disk is unlimited."""
        props = {}
        if self.iops:
            props["iops-total"] = self.iops
            props["iops-size"] = LIMIT_IO_SIZE
        if self.bps:
            props["bps-total"] = self.bps
        return props or None


def parse_size(text):
    """Bytes of a size such as 64M, 2GiB or 4096 (a plain number)."""
    if isinstance(text, int):
        return text
    number = text.rstrip("kKMGTiB")
    unit = text[len(number):].rstrip("iB").upper()
    return int(number) << {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[unit]
