# SPDX-License-Identifier: GPL-2.0-or-later
"""What the command reports of a daemon that is stopped, replaced by a stranger, or out of file descriptors; and what the logs report of
disks that disappear.
"""
import time

import pytest

from ddvm.config import time_scale
from serving import DEV, serving  # noqa: F401

VM = {"disks": 6, "size": "96M"}
STRANGER = r"""
import os, socket
s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
s.bind((b"\0ddraidd").ljust(108, b"\0"))
s.listen(16)
print("up", flush=True)
while True:
    c, _ = s.accept()
    while data := c.recv(4096):
        print("got", len(data), flush=True)
"""
COMMANDS = ("status", "when", "events", "stop data", "start data", "set data idle-time=1s", "fail data 1", "fence-ack 2", "verify data start",
            "grow data", "add data /dev/vdf")


def pid_of(serving):
    return serving.node.run("cat /run/ddraid/ddraidd.pid").out.strip()


def refused(serving, command, *words, limit=8):
    """One line on stderr that has all @words, in seconds."""
    began = time.monotonic()
    done = serving.guest.command(command, check=False)
    took = time.monotonic() - began
    assert done.code == 1 and len(done.err.splitlines()) == 1, f"{command}: {done}"
    assert all(word in done.err for word in words), f"{command}: {done.err}"
    assert took < limit * time_scale(), f"{command} took {took:.1f} s"


def test_S20_a_daemon_that_is_stopped(serving):
    """
    Finding S20: no command hangs, each names the process; the array is served again when that process continues. Who follows its events is told, too, and
    gets them then: a pause is no reason to miss what follows.
    """
    serving.begin()
    serving.array()
    pid = pid_of(serving)
    events = serving.node.spawn("exec ddraid events")
    events.wait_output("data: is optimal")
    serving.node.run(f"kill -STOP {pid}")
    try:
        for command in COMMANDS:
            refused(serving, command, f"process {pid}", "is stopped", f"kill -CONT {pid}")
        events.channel.wait_for(lambda: f"kill -CONT {pid}" in events.err, 40)
        assert "is stopped" in events.err and events.poll() is None, (events.err, events.poll())
    finally:
        serving.node.run(f"kill -CONT {pid}")
    events.channel.wait_for(lambda: "answers again" in events.err, 40)
    assert len(events.err.splitlines()) == 2 and events.poll() is None, (events.err, events.poll())
    serving.wait_ready()
    assert serving.guest.status("data")["state"] == "optimal"
    assert serving.write(0).code == 0
    serving.guest.command("fail data 1")
    events.wait_output("member-failed")
    events.kill()
    events.wait(10, check=False)


def test_S20_a_daemon_that_is_stopped_in_mid_command(serving):
    """Finding S20: a start that waits reports after seconds which process it waits for, and ends with the reason."""
    serving.begin()
    serving.guest.create("data", 2, 1, "rotating", [f"/dev/vd{c}" for c in "abcde"], "--overwrite --yes")
    holder = serving.node.spawn("exec flock /dev/vda sh -c 'echo held; exec sleep 600'")
    holder.wait_output("held")
    pid = pid_of(serving)
    start = serving.node.spawn("exec ddraid start --timeout 40 data")
    try:
        serving.node.wait_until("dmsetup ls | grep -q data", 30)
        serving.node.run(f"kill -STOP {pid}")
        assert start.wait(90 * time_scale(), check=False).code == 1
        lines = start.err.splitlines()
        assert f"kill -CONT {pid}" in lines[0] and "waiting for it" in lines[0], start.err
        assert f"kill -CONT {pid}" in lines[-1] and "The device stays" in lines[-1], start.err
    finally:
        serving.node.run(f"kill -CONT {pid}")
        holder.kill()
        holder.wait(20, check=False)


def test_U2_a_stranger_has_the_name(serving):
    """Finding U2: a user who took the name while no daemon ran receives nothing; the daemon reports which process is in its way."""
    node = serving.node
    node.run("mkdir -p /run/ddraid /var/lib/ddraid; modprobe dm_ddraid")
    if node.run("command -v python3", check=False).code != 0:
        pytest.fail("no python in the guest")
    node.put("/tmp/stranger.py", STRANGER.encode())
    stranger = node.spawn("exec python3 /tmp/stranger.py")
    try:
        stranger.wait_output("up")
        pid = node.run("pgrep -f stranger.py | head -1").out.strip()
        for command in COMMANDS:
            refused(serving, command, f"process {pid}", "user 65534", f"kill {pid}", "start ddraidd", limit=3)
        done = node.run("ddraidd --foreground", check=False, timeout=30)
        assert done.code == 1 and f"process {pid}" in done.err and "user 65534" in done.err, done.err
        assert all(line in ("up", "got 24") for line in stranger.out.splitlines()), stranger.out
    finally:
        stranger.kill()
        stranger.wait(10, check=False)
    serving.begin()
    serving.guest.arrays()


def test_T15_dev_shm_is_full(serving):
    """Finding T15: the daemon runs; what is full is named, and commands work again when it is not."""
    serving.begin()
    serving.array()
    serving.node.run("dd if=/dev/zero of=/dev/shm/fill bs=1M 2>/dev/null; true", timeout=120)
    try:
        for command in ("status", "stop data", "events"):
            refused(serving, command, "/dev/shm is full", "ddraidd runs", limit=3)
        assert serving.write(0).code == 0
    finally:
        serving.node.run("rm -f /dev/shm/fill")
    assert serving.guest.status("data")["state"] == "optimal"


def test_T15_no_more_files(serving):
    """Finding T15: if a daemon cannot open more files, the message does not advise to start it."""
    serving.begin()
    pid = pid_of(serving)
    used = int(serving.node.run(f"ls /proc/{pid}/fd | wc -l").out)
    for more in (0, 1, 2):
        serving.node.run(f"prlimit --pid {pid} --nofile={used + more}:4096")
        refused(serving, "status", "files", "LimitNOFILE=")
    serving.node.run(f"prlimit --pid {pid} --nofile=1024:4096")
    serving.guest.arrays()


def test_S24_a_spare_that_takes_no_writes(serving):
    """Finding S24: its disk has a failing part, which only the rebuild writes: reported and counted as a write."""
    node = serving.node
    node.run("printf '0 65536 linear /dev/vdf 0\\n65536 16384 error\\n81920 114688 linear /dev/vdf 81920\\n' | dmsetup create bad")
    serving.guest.env = {"DDRAID_DEVICES": "/dev/vda /dev/vdb /dev/vdc /dev/vdd /dev/vde /dev/mapper/bad"}
    try:
        serving.begin()
        serving.guest.create_and_start("data", 2, 1, "rotating", [f"/dev/vd{c}" for c in "abcde"], "--overwrite --yes --spare /dev/mapper/bad")
        serving.write(24, 20)
        serving.guest.wait_idle("data")
        serving.guest.watch_events()
        serving.guest.command("fail data 1")
        error = serving.event("member-error", 60)
        assert (error["member"], error["operation"], error["error"]) == (5, "write", "I/O error"), error
        assert "on write of blocks" in error["text"]
        errors = next(m for m in serving.guest.status("data")["members"] if m["index"] == 5)["errors"]
        assert errors["write"] >= 1 and errors["read"] == 0, errors
        assert "array 'data': member 5 (/dev/mapper/bad): a job's write" in serving.guest.daemon.err
    finally:
        node.run("ddraid stop --all --force; dmsetup remove --retry bad", check=False, timeout=120)
        serving.guest.env = {}


def test_S41_a_disk_is_pulled(serving):
    """Finding S41: every log entry names the array and the member, and reports that the device is gone; each event comes once."""
    node = serving.node
    serving.begin()
    serving.array()
    serving.write(0)
    serving.guest.watch_events()
    virtio = node.run("basename $(readlink -f /sys/block/vdb/device)").out.strip()
    node.run(f"echo {virtio} > /sys/bus/virtio/drivers/virtio_blk/unbind", timeout=60)
    try:
        serving.write(3, 4)                                         # regions that need marks first, and then blocks
        failed = serving.event("member-failed", 30)
        assert failed["member"] == 1 and "its device is gone" in failed["text"], failed
        deadline = time.monotonic() + 60 * time_scale()
        while serving.guest.status("data")["regions"]["dirty"]:     # what was never written before waits for the member to be synced
            assert time.monotonic() < deadline, "regions stay dirty"
            time.sleep(0.2)
        events = serving.guest.events_seen()
        assert [e["text"] for e in events if e["event"] == "degraded"] == ["degraded: 0 more members may fail"]
        assert all(e["error"] == "device gone" for e in events if e["event"] == "member-error" and e["member"] == 1), events
        log = serving.guest.daemon.err
        assert "array 'data': member 1 (/dev/vdb)" in log and "the device is gone" in log, log
        for word in ("No space left", "bad sector", "no space"):
            assert word not in log, log
    finally:
        node.run("ddraid stop --all --force", check=False, timeout=120)
        serving.guest.daemon.kill(15)
        serving.guest.daemon.wait(30, check=False)
        node.run(f"echo {virtio} > /sys/bus/virtio/drivers/virtio_blk/bind", timeout=60)
        node.wait_until("test -b /dev/vdb", 30)
