# SPDX-License-Identifier: GPL-2.0-or-later
"""Locks on members: udev never delays the daemon, nor the daemon udev; a member that is only locked is not lost."""
import json
import pathlib
import subprocess
import time

import pytest

from serving import DEV, MEMBERS, serving  # noqa: F401
from ddvm.config import time_scale

VM = {"disks": 6, "size": "64M"}
OWN = "/dev/ddraid-members"
BETWEEN = pathlib.Path(__file__).resolve().parents[1] / "probe" / "between.c"


def own_node(node, device):
    """ddraid's own device node for a disk; made by the first process that locks it."""
    number = node.run(f"stat -L -c '%Hr:%Lr' {device}").out.strip()
    return f"{OWN}/{number}"


def hold(node, device, program="sleep", how="--exclusive"):
    """A process by the name of @program that has a device locked, until it is killed."""
    node.run(f"test /bin/sleep -ef /tmp/{program} || ln -sf /bin/sleep /tmp/{program}")
    holder = node.spawn(f"exec flock {how} --no-fork {device} sh -c 'echo held $$; exec /tmp/{program} 1000'")
    holder.wait_output("held")
    return holder, f"{program} (pid {holder.out.split()[1]})"


def states(serving):
    return [m["state"] for m in serving.guest.status("data")["members"]]


# ---- udev ------------------------------------------------------------------------------

def change_events(node, disks):
    """How long udev takes for a change event of each disk, and what it logs meanwhile."""
    node.run("journalctl --sync; journalctl --rotate; journalctl --vacuum-time=1s; udevadm control --log-level=debug")
    begun = time.monotonic()
    node.run(f"udevadm trigger --action=change {disks} && udevadm settle --timeout=60", timeout=90)
    took = time.monotonic() - begun
    return took, node.run("udevadm control --log-level=info; journalctl --sync; journalctl -b -u systemd-udevd -o cat").out


@pytest.mark.vm(disks=4, size="64M", systemd=True)
def test_S2_events_of_members_are_not_delayed(node):
    """Findings S2, U12: udev handles the events of members, and of a spare, while the array is up, as fast as before."""
    members = " ".join(d.dev for d in node.disks[:3])
    spare = node.disks[3].dev
    node.run(f"systemctl start ddraidd && ddraid create data --order 1 --spare {spare} {members} && udevadm settle")
    before, _ = change_events(node, f"{members} {spare}")
    node.run("ddraid start data && udevadm settle", timeout=60)
    node.wait_until("ddraid status data --json | grep -q '\"state\": \"spare\"'", 20)
    took, seen = change_events(node, f"{members} {spare}")
    assert "Processing device" in seen or "processed" in seen, seen[-500:]
    assert "locked" not in seen, [line for line in seen.splitlines() if "locked" in line]
    assert took < 2 * before + 5, f"{took:.1f} s, {before:.1f} s while it was down"
    node.run("ddraid stop data")


# ---- a lock of another program at the start ----------------------------------------------

def test_S19_a_member_that_another_program_locked_is_not_lost(serving):
    """Findings S19, S42: the start waits for the lock, names the process that has it after 3 s, and continues with the member when
    io_timeout is over.
    """
    node, guest = serving.node, serving.guest
    serving.begin(io_timeout="8s")
    serving.array()
    guest.stop("data")
    before = json.loads(node.run("ddraid examine --json /dev/vda").out)[0]["generation"]
    holder, who = hold(node, "/dev/vdb")
    begun = time.monotonic()
    start = node.spawn("exec ddraid start data", env=guest.env)
    node.wait_until("ddraid status data --json | grep -q 'is locked by'", 10)
    waits = guest.status("data")["cluster"]["waits"]
    assert "/dev/vdb" in waits and who in waits, waits
    assert start.wait(60).code == 0, start.err
    assert 7 < time.monotonic() - begun < 30 * time_scale()
    assert who in start.err and "/dev/vdb" in start.err, start.err
    assert who in guest.daemon.err, guest.daemon.err
    assert holder.poll() is None
    status = guest.status("data")
    assert status["state"] == "optimal" and set(states(serving)) == {"in-sync"}
    assert status["generation"] == before
    holder.kill()
    holder.wait(20)


def test_S19_a_member_that_ddraid_locked_comes_back(serving):
    """Finding S19: a member stays locked through ddraid's own node: the array starts without it, reports why, and takes it back when it is free."""
    node, guest = serving.node, serving.guest
    serving.begin(io_timeout="4s")
    serving.array()
    own = own_node(node, "/dev/vdb")
    guest.stop("data")
    holder, who = hold(node, own)
    refused = guest.command("create other --overwrite --yes --order 1 --parity 0 /dev/vdb /dev/vdf", check=False)
    assert refused.code == 1 and f"/dev/vdb: is locked by {who}" in refused.err, refused
    start = guest.command("start data")
    assert "degraded" in start.out and "member 1, /dev/vdb" in start.err and who in start.err, start
    assert "not used: locked by" in guest.command("status data").out
    serving.write(0, 3)
    assert guest.status("data")["members"][1]["state"] == "missing"
    holder.kill()
    holder.wait(20)
    node.wait_until("ddraid status data | grep -q optimal", 60)
    assert set(states(serving)) == {"in-sync"} and guest.status("data")["members"][1]["reason"] is None
    told = [line for line in guest.daemon.err.splitlines() if "searching for member" in line]
    assert len(told) <= 2, told
    serving.check_idle()


# ---- first locked, then read, then believed ------------------------------------------------

@pytest.fixture
def between(tmp_path):
    """The bytes of tests/vm/probe/between.c as a library to be preloaded."""
    subprocess.run(["cc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", tmp_path / "between.so", BETWEEN],
                   check=True)
    return (tmp_path / "between.so").read_bytes()


def test_U1_a_disk_that_another_program_took_before_the_lock_stays_its_own(serving, between):
    """Finding U1: a member that is looked for was read; before it was locked it was given to another array, and the daemon wrote over that."""
    node, guest = serving.node, serving.guest
    serving.begin()
    guest.create("other", 1, 0, "dedicated", ["/dev/vde", "/dev/vdf"], "--overwrite --yes")
    guest.create("data", 1, 1, "rotating", ["/dev/vda", "/dev/vdb", "/dev/vdc"], "--overwrite --yes")
    guest.env = {"DDRAID_DEVICES": "/dev/vda /dev/vdb"}
    guest.command("start --degraded --yes data")
    guest.daemon.kill(15)
    guest.daemon.wait(30)
    node.put("/tmp/between.so", between, 0o755)
    node.put("/run/between.sh", "dd if=/dev/vde of=/dev/vdc bs=1M oflag=direct conv=nocreat status=none\n")
    guest.daemon = node.spawn("exec ddraidd --foreground", env={"LD_PRELOAD": "/tmp/between.so"})
    guest.wait_daemon()
    serving.wait_ready()
    node.run("stat -L -c '%Hr:%Lr' /dev/vdc > /run/between.device")
    guest.command("add data /dev/vdc", check=False)
    node.wait_until("test -e /run/between.done", 20)
    time.sleep(5)                                       # the daemon may take it, and write to it, in that time
    node.run("cmp /dev/vde /dev/vdc")                   # all of it is as the other program left it
    assert states(serving)[2] == "missing", guest.status("data")["members"]
    assert "is no longer that member" in guest.daemon.err, guest.daemon.err
    node.run("rm -f /run/between.*; blkdiscard -z /dev/vdc || dd if=/dev/zero of=/dev/vdc bs=1M conv=nocreat", check=False)


# ---- the proof that a dead daemon's I/O has ended ------------------------------------------

def test_the_lock_lasts_as_long_as_the_io(serving, load_forget):
    """The daemon dies while a request hangs in one member: the lock of that member stays until the request ends; the other locks, and
    all usual nodes, are free.
    """
    node = serving.node
    with serving.members_that_hang(load_forget) as members:
        serving.begin(io_engine="io_uring", io_timeout="60s", idle_time="60s")
        serving.array(parity=2, order=1, devices=members)
        node.run("dmsetup message f1 0 hang on")
        writer = node.spawn(f"exec dd if=/dev/urandom of={DEV} bs=4096 count=1 oflag=direct conv=nocreat")     # a cold region: a mark
        node.wait_until(f"awk '{{ exit $1 + $2 == 0 }}' /sys/dev/block/{own_node(node, members[1]).split('/')[-1]}/inflight", 20)
        serving.guest.kill_daemon()
        free = node.run("for f in 0 1 2 3; do " + " ".join(["flock -n", OWN + "/$(dmsetup info -c --noheadings -o major,minor --separator : f$f)", "true"])
                        + " && echo own$f; flock -n /dev/mapper/f$f true && echo usual$f; done", check=False).out.split()
        assert sorted(free) == ["own0", "own2", "own3", "usual0", "usual1", "usual2", "usual3"], free
        node.run("dmsetup message f1 0 hang off")
        node.wait_until(f"flock -n {own_node(node, '/dev/mapper/f1')} true", 10)
        serving.begin()
        assert writer.wait(60).code == 0, writer.err
        serving.wait_ready()
        assert set(states(serving)) == {"in-sync"}
