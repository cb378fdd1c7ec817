# SPDX-License-Identifier: GPL-2.0-or-later
"""Disks that become members and cease to be, and the names of arrays: replacements, rename, wipe."""
from serving import DEV, serving  # noqa: F401

VM = {"disks": 6, "size": "96M"}
MIB = 1 << 20


def test_a_replacement_that_is_a_little_smaller(serving):
    """Findings S14, P10: a disk 8 sectors smaller was refused: "has 256 MiB, and the members need 256 MiB"."""
    node, guest = serving.node, serving.guest
    sectors = node.disks[0].size // 512
    for name, size in (("little", sectors - 8), ("small", sectors - sectors // 50)):
        node.run(f"dmsetup create {name} --table '0 {size} linear /dev/vde 0'" if name == "little" else
                 f"dmsetup create {name} --table '0 {size} linear /dev/vdf 0'")
    try:
        serving.begin()
        guest.create_and_start("data", 1, 1, "rotating", ["/dev/vda", "/dev/vdb", "/dev/vdc"])
        node.run(f"dd if=/dev/urandom of=/tmp/written bs=1M count=8 status=none && dd if=/tmp/written of={DEV} bs=1M oflag=direct status=none")
        grown = guest.command("grow data", check=False)
        assert grown.code == 1 and "stays free" in grown.err, grown         # it is not for the array to grow into
        refused = guest.command("add data /dev/mapper/small", check=False)
        has = (sectors - sectors // 50) * 512
        assert refused.code == 1 and f"/dev/mapper/small has {has} bytes" in refused.err and "are missing" in refused.err, refused
        guest.watch_events()
        guest.command("fail data 1")
        guest.command("add data /dev/mapper/little")
        serving.event("rebuild-done", 60)
        guest.command("fail data 0")                    # what is read now comes from the new disk
        node.run(f"dd if={DEV} bs=1M count=8 iflag=direct status=none | cmp - /tmp/written")
        guest.stop("data")
        assert "degraded" in guest.command("start data").out        # and the small one is found and used again
        node.run(f"dd if={DEV} bs=1M count=8 iflag=direct status=none | cmp - /tmp/written")
        guest.stop("data")
    finally:
        node.run("ddraid stop --all --force; dmsetup remove --retry little; dmsetup remove --retry small", check=False)
