# SPDX-License-Identifier: GPL-2.0-or-later
"""A cluster with a file that is written once and only read from then on, and whose place on the disks is known."""
import json

from rig import MOUNT, NAME, Rig

STILL = 12                      # MiB

# prints the first block of the array of each piece of the file, and how many it has
FIEMAP = r"""
import fcntl, struct, sys
f = open(sys.argv[1], "rb")
buf = bytearray(struct.pack("=QQIIII", 0, 1 << 62, 1, 0, 512, 0) + bytes(56 * 512))
fcntl.ioctl(f, 0xC020660B, buf)
for i in range(struct.unpack_from("=I", buf, 20)[0]):
    logical, physical, length = struct.unpack_from("=QQQ", buf, 32 + 56 * i)
    print(physical // 4096, length // 4096)
"""


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
        node.put("/tmp/fiemap.py", FIEMAP.encode())
        pieces = [tuple(map(int, line.split())) for line in node.run(f"python3 -SIE /tmp/fiemap.py {MOUNT}/still").out.splitlines()]
        self.still_blocks = [b for first, n in pieces for b in range(first, first + n)]
        assert len(self.still_blocks) == (STILL << 20) // 4096, pieces
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
