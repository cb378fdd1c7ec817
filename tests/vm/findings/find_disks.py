# SPDX-License-Identifier: GPL-2.0-or-later
"""Disks before they are used: what an earlier user left on them, what other data is on a member, disks that hang."""
import time

from ddvm.config import time_scale
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
    guest.create_and_start("data", 0, 1, "dedicated", mirror, "--overwrite --yes --spare /dev/vdc")
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


def test_a_member_that_was_overwritten_is_left_out(serving):
    """Finding S35: after mkfs or mkswap on a member of a stopped array the next start reported "optimal" while hundreds of blocks were
    wrong.
    """
    node, guest = serving.node, serving.guest
    serving.begin()
    serving.array()
    node.run(f"dd if=/dev/urandom of=/tmp/written bs=1M count=8 status=none && dd if=/tmp/written of={DEV} bs=1M oflag=direct status=none")
    guest.wait_idle("data")
    guest.stop("data")
    node.run("mkswap /dev/vdb && dd if=/dev/urandom of=/dev/vdb bs=1M seek=1 count=4 conv=nocreat status=none")    # it finds nothing there
    started = guest.command("start data")
    assert "/dev/vdb is not used: it also holds a swap" in started.err and "degraded" in started.out, started
    assert [m["state"] for m in guest.status("data")["members"]][1] != "in-sync"
    node.run(f"dd if={DEV} bs=1M count=8 iflag=direct status=none | cmp - /tmp/written")
    refused = guest.command("add data /dev/vdb", check=False)
    assert refused.code == 1 and "(swap other, member of ddraid array data)" in refused.err, refused
    guest.watch_events()
    guest.command("add --overwrite --yes data /dev/vdb")
    serving.event("rebuild-done", 60)
    assert guest.status("data")["state"] == "optimal"
    guest.command("fail data 0")
    node.run(f"dd if={DEV} bs=1M count=8 iflag=direct status=none | cmp - /tmp/written")


def test_a_disk_that_hangs_delays_no_start(serving, load_forget):
    """Finding T14: with a hung disk of no array, and a hung spare, each attempt of `start` and `start --all` took a minute."""
    node, guest = serving.node, serving.guest
    load_forget(node)
    for name, disk in (("h0", "/dev/vde"), ("h1", "/dev/vdf")):
        node.run(f"dmsetup create {name} --table \"0 $(blockdev --getsz {disk}) forget {disk} 0\"")
    serving.begin()
    guest.create("data", 1, 1, "rotating", ["/dev/vda", "/dev/vdb", "/dev/vdc"], "--spare /dev/mapper/h1")

    def start(command):
        """Seconds until the array runs."""
        begun = time.monotonic()
        job = node.spawn(f"exec ddraid {command}")
        node.wait_until("ddraid status data --json | grep -q '\"ready\": true'", 50)
        took = time.monotonic() - begun
        node.run("dd if=/dev/mapper/data of=/dev/null bs=1M count=4 iflag=direct status=none")
        assert job.wait(50).code == 0, job.err
        guest.stop("data")
        return took

    quiet = start("start data")                         # the emulated machine's own pace
    node.run("for i in 0 1; do dmsetup message h$i 0 hang on; done")
    try:
        for command in ("start data", "start --all --wait-disks 0"):
            took = start(command)
            print(f"{command} took {took:.1f} s, and {quiet:.1f} s where no disk hangs")
            assert took < 3 * time_scale() + quiet, f"{command} took {took:.1f} s, and {quiet:.1f} s where no disk hangs"
    finally:
        node.run("for i in 0 1; do dmsetup message h$i 0 hang off; done; ddraid stop --all; for i in 0 1; do dmsetup remove --retry h$i; done",
                 check=False)


def test_a_disk_that_hangs_as_an_argument(serving, load_forget):
    """Finding T14: `create` and `add` with a disk that hangs hung with it; they name it and end, and nothing was changed."""
    node, guest = serving.node, serving.guest
    load_forget(node)
    node.run("dmsetup create h0 --table \"0 $(blockdev --getsz /dev/vde) forget /dev/vde 0\"")
    serving.begin()
    guest.create_and_start("data", 1, 1, "rotating", ["/dev/vda", "/dev/vdb", "/dev/vdc"])
    generation = guest.status("data")["generation"]
    node.run("dmsetup message h0 0 hang on")
    try:
        for command in ("create --overwrite --yes other --order 0 --parity 1 /dev/vdd /dev/mapper/h0", "add --overwrite --yes data /dev/mapper/h0"):
            begun = time.monotonic()
            done = guest.command(command, check=False)
            took = time.monotonic() - begun
            warned, failed = done.err.splitlines()
            assert done.code == 1 and "/dev/mapper/h0 does not answer: waiting for it" in warned, done
            assert "/dev/mapper/h0 has not answered for 20 seconds: nothing was changed" in failed, done
            assert took < 25 + 5 * time_scale(), f"{command} took {took:.1f} s"
        assert guest.status("data")["generation"] == generation and len(guest.status("data")["members"]) == 3
        refused = node.run("ddraid examine /dev/vdd", check=False)
        assert refused.code != 0, f"something was written to /dev/vdd: {refused.out}"
    finally:
        node.run("dmsetup message h0 0 hang off", check=False)
    node.wait_until("! pgrep -x ddraid", 20)                # what hung has ended, and does nothing more
    guest.command("add data /dev/mapper/h0")
    node.wait_until("ddraid status data --json | grep -q '\"state\": \"spare\"'", 20)
    guest.stop("data")
    node.run("dmsetup remove --retry h0")


def test_members_with_long_names_can_be_replaced(serving):
    """Finding S10: mapper names of 87 characters: status showed 63 of each, add and replace could not read the superblock."""
    node, guest = serving.node, serving.guest
    names = [f"3600140500000000{i}" + "x" * 87 for i in range(4)]
    for name, disk in zip(names, node.disks):
        node.run(f"dmsetup create {name} --table \"0 $(blockdev --getsz {disk.dev}) linear {disk.dev} 0\"")
    paths = [f"/dev/mapper/{name}" for name in names]
    try:
        serving.begin()
        guest.create_and_start("data", 1, 1, "rotating", paths[:3])
        assert [m["device"] for m in guest.status("data")["members"]] == paths[:3]
        guest.watch_events()
        guest.command(f"replace data {paths[1]} {paths[3]}")
        serving.event("rebuild-done", 180)
        assert guest.status("data")["members"][3]["device"] == paths[3]
        guest.command(f"fail data {paths[0]}")
        assert serving.event("member-failed")["device"] == paths[0]
        guest.command(f"add data {paths[0]}")
        serving.event("rebuild-done", 60, 2)
        guest.stop("data")
    finally:
        node.run("ddraid stop --all --force; " + "; ".join(f"dmsetup remove --retry {name}" for name in names), check=False)
