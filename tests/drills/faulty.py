# SPDX-License-Identifier: GPL-2.0-or-later
"""A cluster whose members can be made to fail as disks do, on one node or on all, for the drills of failing disks.

On each node each disk is below a dm-forget without a cache (tests/modules), and the array is made of these; a fault that is set there
affects only that node. Two parities, so that the rest can be checked while a member is missing.
"""
from ddvm import modbuild

from rig import NAME, REGION
from still import StillRig


class FaultyRig(StillRig):
    """Members by their number; spares follow them."""

    def __init__(self, *args, shape=(1, 2, "rotating"), spares=0, **options):
        super().__init__(*args, shape=shape, **options)
        self.members = (1 << shape[0]) + shape[1]
        self.spares = spares

    def start_daemon(self, number):
        node = self.node(number)
        node.allow_dmesg(r".*(I/O error|bad sector|dm-\d+|ddraid|gfs2).*")
        if node.run("dmsetup info m0", check=False).code:
            node.load_module(modbuild.test_module("dm-forget", node.kernel))
            for index in range(len(node.disks)):
                self.layer(number, index)
        super().start_daemon(number)

    def layer(self, number, index):
        """What can fail, above a disk."""
        node, disk = self.node(number), self.node(number).disks[index]
        node.run(["dmsetup", "create", f"m{index}", "--table", f"0 {disk.size // 512} forget {disk.dev} 0 through"])

    def create(self):
        first = self.guests[min(self.guests)]
        devices = [f"/dev/mapper/m{i}" for i in range(self.members + self.spares)]
        first.create(NAME, *self.shape, devices[:self.members], f"--region-size {REGION} " +
                     " ".join(f"--spare {d}" for d in devices[self.members:]))
        self.start()
        self.prepare()

    def disks_by_index(self):
        """{index in the array: (number of the disk, its state)}; a disk that was added again may have another index."""
        members = self.guests[min(self.guests)].status(NAME)["members"]
        return {m["index"]: (int(m["device"].rsplit("/m", 1)[1]), m["state"]) for m in members if m["device"]}

    # -- faults

    def tell(self, index, words, numbers=None):
        """A message to a disk on nodes (all, or these) side by side."""
        self.on_each(lambda i: self.node(i).run(f"dmsetup message m{index} 0 {words}"), numbers)

    def heal(self, index, numbers=None):
        for words in ("fail none", "hang off", "delay 0", "bad clear"):
            self.tell(index, words, numbers)

    # -- what the array says of it

    def wait_failed(self, index, timeout=90):
        for i in self.up():
            self.wait_event(i, "member-failed", timeout, member=index)

    def wait_whole(self, timeout=240, whole=True, **fields):
        """Waits until all nodes have finished the (last) rebuild, and the array is optimal, unless other members have failed."""
        for i in self.up():
            self.wait_event(i, "rebuild-done", timeout, **fields)
        for i in self.up() if whole else ():
            status = self.guests[i].status(NAME)
            assert status["state"] == "optimal", status

    def back(self, by, index, whole=True):
        """The member works again, and is added on one node; waits until it has what it missed."""
        self.mark()
        self.heal(index)
        self.node(by).run(f"ddraid add {NAME} /dev/mapper/m{index}", timeout=90)
        for i in self.up():
            assert self.wait_event(i, "rebuild-start", 90)["member"] == index
        self.wait_whole(whole=whole)

    def assert_nobody_fenced(self):
        assert not any(any(self.node_fenced(i)) for i in self.all), f"somebody was fenced: {self.cluster.fencer.log}"
