# SPDX-License-Identifier: GPL-2.0-or-later
"""A cluster with a file that is written once and only read from then on, and whose place on the disks is known."""
import json

from load import file_blocks
from rig import MOUNT, NAME, Rig

STILL = 12                      # MiB


class StillRig(Rig):
    """`still_blocks`: the array's blocks that the file has, in its order."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.still, self.still_blocks, self.data_offset = None, [], 0

    def prepare(self):
        super().prepare()
        node = self.node(min(self.guests))
        node.run(f"dd if=/dev/urandom of={MOUNT}/still bs=1M count={STILL} conv=fsync 2>/dev/null", timeout=180)
        self.still = node.run(f"sha256sum {MOUNT}/still", timeout=120).out
        self.still_blocks = file_blocks(node, f"{MOUNT}/still")
        assert len(self.still_blocks) == (STILL << 20) // 4096, self.still_blocks
        device = self.guests[min(self.guests)].status(NAME)["members"][0]["device"]
        self.data_offset = json.loads(node.run(f"ddraid examine --json {device}").out)[0]["data_offset"]

    def sector(self, block):
        """Of a member: the first one of its chunk of the block."""
        return (self.data_offset + block * (4096 >> self.shape[0])) // 512

    def read_still(self):
        """From the disks, on all nodes side by side."""
        def read(i):
            self.node(i).run("echo 3 >/proc/sys/vm/drop_caches")
            assert self.node(i).run(f"sha256sum {MOUNT}/still", timeout=120).out == self.still, f"node {i} reads something else"
        self.on_each(read)
