# SPDX-License-Identifier: GPL-2.0-or-later
"""The daemon's death and restart under load, with the real module: what continues, what is resynced."""
import contextlib
import json
import time

from serving import BLOCKS, DEV, MEMBERS, REGION, examine, serving  # noqa: F401
import tools
from guest import Guest

VM = {"disks": 6, "size": "96M"}


def test_daemon_killed_under_load(serving):
    def bound():
        return int(serving.node.run("dmesg | grep -c 'a daemon has attached'", check=False).out)

    serving.begin()
    serving.array()
    before = bound()
    fio = serving.node.spawn(f"exec fio --name=w --filename={DEV} --direct=1 --ioengine=libaio --iodepth=16 --rw=randwrite "
                             "--bsrange=4k-128k --size=100m --verify=crc32c --verify_backlog=64 --verify_fatal=1 "
                             "--serialize_overlap=1 --time_based --runtime=20 --output-format=terse")
    for _ in range(3):
        time.sleep(2)
        serving.guest.kill_daemon()
        time.sleep(1)
        serving.begin()
        serving.wait_ready()
    assert fio.wait(120).code == 0, fio.err[-1000:]
    assert bound() == before + 3, "each daemon has to bind the array once"
    serving.guest.wait_idle("data")
    serving.check_idle()


@contextlib.contextmanager
def last_block_of_region_0_is_slow(serving, seconds):
    """
    The array, with a first member whose writes to its part of that block take so long. Such a write keeps the region in use, whatever
    the scheduler does to the writer: a region in which no write is in progress for a moment is closed by a daemon that ends.
    """
    node, under = serving.node, MEMBERS[0]
    end = node.disks[0].size // 512
    node.run(f"modprobe dm-delay && dmsetup create slow --table '0 {end} linear {under} 0'")
    try:
        serving.array(devices=["/dev/mapper/slow", *MEMBERS[1:]])
        geometry = json.loads(node.run("ddraid examine --json /dev/mapper/slow").out)[0]
        at = (geometry["data_offset"] + (BLOCKS - 1) * geometry["chunk"]) // 512
        size = geometry["chunk"] // 512
        node.run(f"dmsetup create spot --table '0 {size} delay {under} {at} 0 {under} {at} {seconds * 1000} {under} {at} 0'")
        node.put("/tmp/slow", f"0 {at} linear {under} 0\n{at} {size} linear /dev/mapper/spot 0\n{at + size} {end - at - size} linear {under} {at + size}\n")
        node.run("dmsetup load slow /tmp/slow && dmsetup suspend slow && dmsetup resume slow")
        yield
    finally:
        node.run("ddraid stop --all --force; dmsetup remove --retry slow; dmsetup remove --retry spot", check=False, timeout=120)


def test_sigterm_leaves_the_array_and_a_new_daemon_takes_it_over(serving):
    """Writes to granted regions continue without a daemon; the marks of the other regions are cleared before the daemon ends."""
    serving.begin(idle_time="60s")
    with last_block_of_region_0_is_slow(serving, 25):
        leave_and_take_over(serving)


def leave_and_take_over(serving):
    node = serving.node
    serving.write(1, 2)
    writer = node.spawn(f"exec fio --name=w --filename={DEV} --rw=randwrite --bs=4k --size={REGION - 4096} --direct=1 --ioengine=libaio --iodepth=8 "
                        "--thread --time_based --runtime=600 --output-format=terse")

    def goes_on():
        writes = "awk '{ print $5 }' /sys/dev/block/$(stat -L -c %Hr:%Lr " + DEV + ")/stat"
        begun = int(node.run(writes).out)
        node.wait_until(f"test $({writes}) -gt {begun + 100}", 30)

    goes_on()
    slow = node.spawn(f"exec dd if=/dev/urandom of={DEV} bs=4096 seek={BLOCKS - 1} count=1 oflag=direct conv=nocreat status=none")
    node.wait_until("dmsetup status spot | grep -q 'delay 0 1 0'", 10)
    serving.guest.daemon.kill(15)
    assert serving.guest.daemon.wait(30).code == 0
    assert slow.poll() is None, "the slow write has ended too early to show anything"
    assert node.run("dmsetup status data").out.split()[-1] == "detached"
    goes_on()
    serving.begin()
    serving.wait_ready()
    regions = serving.guest.status("data")["regions"]
    assert regions["granted"] == 1 and regions["dirty"] == 1, f"what the kernel holds was not taken over, or what nobody writes was not cleared: {regions}"
    log = serving.counters()["log_writes"]
    goes_on()
    assert serving.counters()["log_writes"] == log
    writer.kill()
    writer.wait(30, check=False)
    slow.wait(60)


def test_power_cut_resyncs_the_dirty_regions_only(serving):
    serving.begin(idle_time="60s")
    serving.array()
    serving.node.run(f"dd if=/dev/urandom of={DEV} bs=1M count=40 oflag=direct conv=nocreat")   # regions 0 to 9
    serving.guest.command("set data idle-time=500ms")
    serving.guest.wait_idle("data")
    serving.guest.command("set data idle-time=60s")
    serving.write(2, 3)                                 # dirty: 2, 3, 4
    serving.node.kill()
    paths = [d.path for d in serving.node.disks[:5]]
    assert tools.rawcheck("check", paths)["code"] == 0
    geometry = json.loads(examine(paths[0]))[0]
    offset, chunk = geometry["data_offset"], geometry["chunk"]
    # a crash in the middle of a write: parity of a block of region 3 is wrong (and of region 7, which nothing may touch)
    for region in (3, 7):
        block = region * BLOCKS + 17
        member = (4 + block // 256) % 5
        disk = serving.node.disks[member]
        disk.write(offset + block * chunk, bytes(b ^ 0xff for b in disk.read(offset + block * chunk, chunk)))
    serving.node.boot()
    serving.guest = Guest(serving.node)
    serving.begin(idle_time="500ms")
    serving.guest.watch_events()
    serving.guest.start("data")
    serving.guest.wait_idle("data")
    serving.event("resync-done")
    done = [e for e in serving.guest.events_seen() if e["event"] == "resync-done"]
    assert len(done) == 1 and done[0]["regions"] == 3 and done[0]["blocks"] == 1, serving.guest.events_seen()
    report = tools.rawcheck("check", paths, ok=(0, 1))
    text = json.dumps(report)
    assert str(7 * BLOCKS + 17) in text and str(3 * BLOCKS + 17) not in text, "not exactly the dirty regions were resynced"
