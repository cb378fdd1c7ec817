# SPDX-License-Identifier: GPL-2.0-or-later
"""Disks before they are trusted: what an earlier user left on them, what else stands on a member, disks that hang."""
from serving import DEV, serving  # noqa: F401

VM = {"disks": 6, "size": "96M"}
MIB = 1 << 20


def test_an_old_file_system_does_not_show_on_a_new_array(serving):
    """Finding S11: blkid found the old ext4 on the new array, it mounted, and a rebuild passed over all of it: its file read garbage."""
    node, guest = serving.node, serving.guest
    mirror = ["/dev/vda", "/dev/vdb"]
    serving.begin()
    guest.create_and_start("data", 0, 1, "dedicated", mirror)
    node.run(f"mkfs.ext4 -q -E nodiscard {DEV} && mount {DEV} /mnt && cp /etc/passwd /mnt/file && umount /mnt", timeout=120)
    node.run(f"blkid -p {DEV} | grep -q ext4")
    guest.stop("data")
    node.disks[2].write(MIB, b"garbage." * (40 * MIB // 8))     # what the new spare held
    node.run("blockdev --flushbufs /dev/vdc")
    guest.create_and_start("data", 0, 1, "dedicated", mirror, "--force --spare /dev/vdc")
    assert node.run(f"blkid -p {DEV}", check=False).code == 2
    guest.watch_events()
    guest.command("fail data 1")
    serving.event("rebuild-done", 60)
    guest.command("fail data 0")                        # from now on the former spare alone is read
    size = int(node.run(f"blockdev --getsize64 {DEV}").out)
    for skip in (0, (size - 16 * MIB) // 4096):
        node.run(f"dd if={DEV} bs=4096 skip={skip} count={16 * MIB // 4096} iflag=direct status=none | cmp -n {16 * MIB} - /dev/zero")
    assert node.run(f"blkid -p {DEV}", check=False).code == 2
    guest.stop("data")
