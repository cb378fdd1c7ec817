# SPDX-License-Identifier: GPL-2.0-or-later
"""The daemon and the commands that talk to it, with the real module."""
import errno
import json
import pathlib
import time

import pytest

from serving import DEV, MEMBERS, serving  # noqa: F401
import tools
from guest import CONFIG

VM = {"disks": 6, "size": "96M"}


# ---- life ------------------------------------------------------------------------------

def test_create_start_load_stop_start(serving):
    serving.begin()
    serving.array()
    fio = (f"fio --name=w --filename={DEV} --direct=1 --ioengine=libaio --iodepth=16 --rw=randwrite --bsrange=4k-256k "
           "--size=48m --verify=crc32c --randseed=7 --group_reporting --output-format=terse")
    serving.node.run(fio, timeout=180)
    serving.guest.wait_idle("data")
    serving.guest.stop("data")
    assert serving.node.run("dmsetup ls").out.strip() in ("", "No devices found")
    tools.rawcheck("check", [d.path for d in serving.node.disks[:5]], "--assert-none", "--assert-idle")
    serving.guest.start("data")
    assert serving.guest.status("data")["regions"]["dirty"] == 0
    serving.node.run(fio + " --verify_only", timeout=180)


def test_second_daemon_is_refused(serving):
    serving.begin()
    second = serving.node.run("ddraidd -f", check=False)
    assert second.code == 1 and "another ddraidd (pid" in second.err and "waits for a hung disk" in second.err
    assert serving.guest.daemon.poll() is None


def test_no_process_of_the_daemon_waits_for_its_arrays(serving):
    """Memory: neither the daemon nor the process that fences, and so no agent, frees it by writing; both have locked theirs."""
    serving.begin(transport="corosync")
    pid = serving.node.run("cat /run/ddraid/ddraidd.pid").out.strip()
    helper = serving.node.run(f"cat /proc/{pid}/task/{pid}/children").out.split()
    assert len(helper) == 1
    for one in (pid, helper[0]):
        name, _, fields = serving.node.run(f"cat /proc/{one}/stat").out.rpartition(") ")
        assert int(fields.split()[6]) & 0x80000, f"{name}: without PF_MEMALLOC_NOIO"
        locked = serving.node.run(f"grep VmLck /proc/{one}/status").out.split()
        assert int(locked[1]) > 0, f"{name}: {locked}"


def test_each_cold_region_costs_one_log_write(serving):
    serving.begin(idle_time="60s")
    serving.array()
    before = serving.counters()["log_writes"]
    serving.write(0, 8)                                 # one after the other: nothing to join
    cold = serving.counters()["log_writes"]
    assert cold - before == 8
    for _ in range(3):
        serving.write(0, 8)
    assert serving.counters()["log_writes"] == cold, "a write to a granted region wrote the log"
    assert serving.guest.status("data")["regions"]["dirty"] == 8


def test_idle_regions_are_cleared_after_a_flush(serving):
    serving.begin(idle_time="500ms")
    serving.array()
    zeroed = serving.guest.status("data")["regions"]["clean"]       # by create, at both ends
    serving.write(zeroed, 4)
    serving.guest.wait_idle("data")
    status = serving.guest.status("data")
    assert status["regions"]["granted"] == 0 and status["regions"]["clean"] == zeroed + 4
    assert status["counters"]["flushes"] >= 1 and status["counters"]["map_writes"] >= 1
    serving.check_idle()


def test_plain_removal_leaves_nothing_dirty(serving):
    """The kernel closes all grants and reports that before it goes; the daemon records that and clears them."""
    serving.begin(idle_time="60s")
    for way in ("dmsetup remove data", "dmsetup suspend data; dmsetup remove data"):
        serving.array()
        serving.write(0, 6)
        assert serving.guest.status("data")["regions"]["granted"] == 6
        line = serving.node.run("ddraid table data").out.strip()
        serving.node.run(way)
        serving.node.run(f"echo '{line}' | dmsetup create data")    # at once: waits for what the daemon still writes
        serving.wait_ready()
        assert serving.guest.status("data")["regions"]["granted"] == 0
        serving.guest.wait_idle("data")
        log = serving.guest.daemon.err
        assert "regions were being written" not in log and "the kernel module refused" not in log, log
        serving.write(0, 6)
        serving.guest.stop("data")
        tools.rawcheck("check", [d.path for d in serving.node.disks[:5]], "--assert-none", "--assert-idle")


def test_set_changes_a_running_array(serving):
    serving.begin(idle_time="60s")
    serving.array()
    serving.write(0, 2)
    assert serving.guest.status("data")["regions"]["dirty"] == 2
    serving.guest.command("set data idle-time=500ms resync-parallel=4")
    serving.guest.wait_idle("data")
    for setting in ("idle-time=5", "idle_time=0s", "resync-parallel=9", "nonsense=1", "node_id=7", "idle-time"):
        done = serving.guest.command(f"set data {setting}", check=False)
        assert (done.code == 0) == (setting == "idle-time=5"), f"{setting}: {done}"
        assert done.code in (0, 2), f"{setting}: {done}"
    listed = serving.guest.command("set data").out.splitlines()
    assert "idle_time = 5s" in listed and "resync_parallel = 4" in listed and "suspect_reads = pass" in listed
    for command in ("set nothing idle-time=5s", "set nothing"):
        done = serving.guest.command(command, check=False)
        assert done.code == 1 and "no array 'nothing'" in done.err


def test_events_are_told_as_they_happen(serving):
    serving.begin()
    serving.array()
    serving.guest.watch_events()
    serving.guest.command("fail data 3")
    failed = serving.event("member-failed")
    seen = serving.guest.events_seen()
    assert seen[0]["event"] == "state" and seen[0]["arrays"][0]["name"] == "data"
    assert failed["member"] == 3 and failed["device"] == "/dev/vdd" and failed["name"] == "data" and failed["generation"] == 2
    assert serving.event("degraded")["may_fail"] == 0
    assert serving.guest.command("fail data 1", check=False).code == 1
    serving.guest.stop("data")
    refused = serving.event("refused")
    assert refused["errno"] == errno.EBUSY and refused["member"] == 1 and refused["device"] == "/dev/vdb"
    assert serving.event("clean")["dirty"] == 0
    known = {"time", "name", "uuid", "event", "text", "member", "device", "generation", "may_fail", "errno", "dirty"}
    assert all(set(e) <= known for e in serving.guest.events_seen()[1:]), "a field that the manual does not name"


# ---- members ---------------------------------------------------------------------------

def test_disk_taken_away_under_load(serving):
    serving.begin()
    serving.array(parity=2, devices=MEMBERS + ["/dev/vdf"])
    node = serving.node
    fio = node.spawn(f"exec fio --name=w --filename={DEV} --direct=1 --ioengine=libaio --iodepth=16 --rw=randwrite "
                     "--bsrange=4k-128k --size=64m --verify=crc32c --verify_backlog=64 --verify_fatal=1 --serialize_overlap=1 --time_based "
                     "--runtime=12 --output-format=terse")
    disk = node.disks[2]
    node.wait_until("awk '{ exit $5 < 100 }' /sys/dev/block/$(dmsetup info -c --noheadings -o major,minor --separator : data)/stat", 60)
    node.allow_dmesg(r".*")
    node.unplug(disk)
    assert fio.wait(120).code == 0, fio.err[-1000:]
    serving.write(0)                                    # completes when the daemon knows that the member has failed, whenever the load ended
    status = serving.guest.status("data")
    assert status["state"] == "degraded" and status["members"][2]["state"] == "faulty"
    assert [m["state"] for m in status["members"]].count("in-sync") == 5
    serving.guest.stop("data")
    serving.end()
    node.plug(disk)


def test_member_that_hangs_is_out_in_time(serving, load_forget):
    """No answer at all: after io_timeout the member fails, this is reported, and writes continue without it."""
    node = serving.node
    with serving.members_that_hang(load_forget) as members:
        serving.begin(io_timeout="3s", idle_time="60s")
        serving.array(parity=2, order=1, devices=members)
        serving.guest.watch_events()
        node.run("dmsetup message f1 0 hang on")
        begun = time.monotonic()
        serving.write(0)                                # a cold region: the mark waits for the member
        took = time.monotonic() - begun
        assert 2 < took < 12, f"{took:.1f} s"
        failed = serving.event("member-failed")
        assert failed["member"] == 1 and failed["device"] == "/dev/mapper/f1"
        assert serving.guest.status("data")["members"][1]["state"] == "faulty"
        node.run("dmsetup message f1 0 hang off")
        # a write that waits for its member's answer, in a granted region: reported as well, and right once it comes
        node.run("dmsetup message f2 0 hang on")
        waiting = node.spawn(f"exec dd if=/dev/urandom of={DEV} bs=4096 count=1 oflag=direct conv=nocreat")
        node.wait_until("ddraid status data | grep -q '/dev/mapper/f2.*faulty' || "
                        "ddraid status data | grep -q 'faulty.*/dev/mapper/f2'", 15)
        assert waiting.poll() is None
        node.run("dmsetup message f2 0 hang off")
        assert waiting.wait(20).code == 0
        serving.write(3)
        assert serving.guest.status("data")["state"] == "degraded"


def test_two_arrays_on_one_daemon(serving):
    """Each with its own members, load, failure and end; nothing of one shows in the other."""
    node, guest = serving.node, serving.guest
    serving.begin(idle_time="500ms")
    guest.create_and_start("data", 1, 1, "rotating", MEMBERS[:3])
    guest.create_and_start("more", 0, 2, "dedicated", MEMBERS[3:] + ["/dev/vdf"])
    guest.watch_events()
    loads = [node.spawn(f"exec fio --name=w --filename=/dev/mapper/{name} --direct=1 --ioengine=libaio --iodepth=8 --rw=randwrite "
                        "--bsrange=4k-128k --size=32m --verify=crc32c --verify_fatal=1 --serialize_overlap=1 "
                        "--output-format=terse") for name in ("data", "more")]
    guest.command("fail more 1")
    assert serving.event("member-failed")["name"] == "more"
    for load in loads:
        assert load.wait(120).code == 0, load.err[-1000:]
    assert guest.status("data")["state"] == "optimal" and guest.status("more")["state"] == "degraded"
    done = guest.command("fail more 7", check=False)
    assert done.code == 1 and "is not a member of array 'more'" in done.err
    guest.stop("more")
    serving.write(0)
    assert [a["name"] for a in json.loads(guest.command("status --json").out)] == ["data"]
    guest.start("more")
    guest.command("set more idle-time=700ms")
    guest.wait_idle("data")                             # a degraded array does not sync in the background
    node.wait_until("ddraid status more --json | grep -q '\"dirty\": 0'", 30)
    guest.command("stop --all")
    tools.rawcheck("check", [d.path for d in node.disks[:3]], "--assert-none", "--assert-idle")
    assert all(e["name"] in ("data", "more") for e in guest.events_seen()[1:])


def test_resync_keeps_to_its_rates(serving):
    """At most resync_max_rate, and resync_min_rate while the array is in use; as fast as it can without them."""
    node, guest = serving.node, serving.guest
    serving.begin(idle_time="200ms", resync="paused")
    serving.array()
    serving.write(serving.guest.status("data")["regions"]["clean"], 40)     # behind what create has zeroed
    node.wait_until("ddraid status data --json | grep -q '\"needs_sync\": 40'", 30)

    def synced():
        """MiB a second of regions that leave needs-sync: by the median of the times of three pairs, which no single stall moves."""
        times, left = [], guest.status("data")["regions"]["needs_sync"]
        deadline = time.monotonic() + 120
        while len(times) < 4:
            assert time.monotonic() < deadline, f"resync does not go on: {times}"
            if left - (now := guest.status("data")["regions"]["needs_sync"]) >= 2:      # two of them are resynced side by side
                times.append((time.monotonic(), left - now))
                left = now
            time.sleep(0.1)
        return sorted(4 * regions / (end - begin) for (begin, _), (end, regions) in zip(times, times[1:]))[1]

    for setting in ("resync_min_rate=64K", "resync_max_rate=4M", "resync=run"):
        guest.command(f"set data {setting}")
    rate = synced()
    assert 1.5 < rate < 6.5, f"{rate:.1f} MiB/s with at most 4"
    guest.command("set data resync_min_rate=2M")
    load = node.spawn(f"exec fio --name=r --filename={DEV} --direct=1 --ioengine=libaio --iodepth=1 --rw=randread --bs=4k --size=64m "
                      "--thread --time_based --runtime=600 --thinktime=20000 --output-format=terse")
    reads = f"$(cut -c1-9 /sys/dev/block/$(dmsetup info -c --noheadings -o major,minor {DEV})/stat)"
    begun = int(node.run(f"echo {reads}").out)
    node.wait_until(f"test {reads} -gt {begun + 100}", 60)      # the daemon checks four times a second whether the array is in use
    guest.command("set data resync_max_rate=0")
    rate = synced()
    assert 0.4 < rate < 4.5, f"{rate:.1f} MiB/s under load with at least 2"
    load.kill()                                         # a thread: nothing continues without it
    load.wait(20, check=False)
    guest.wait_idle("data", 60)


def test_threads_where_io_uring_is_off(serving):
    if serving.node.run("sysctl -n kernel.io_uring_disabled", check=False).code == 0:
        serving.node.run("sysctl -w kernel.io_uring_disabled=2")
        serving.begin(io_engine="auto")
    else:
        serving.begin(io_engine="threads")
    serving.array()
    serving.node.run(f"dd if=/dev/urandom of={DEV} bs=1M count=20 oflag=direct conv=nocreat")
    serving.guest.wait_idle("data")
    assert "metadata by threads" in serving.guest.daemon.err
    serving.check_idle()


# ---- configuration -----------------------------------------------------------------------

@pytest.mark.parametrize("text, why", [
    ("idle_time = 5s\nnonsense = 1\n", f"{CONFIG}:2: unknown option 'nonsense'"),
    ("idle_time = soon\n", f"{CONFIG}:1: idle_time = 'soon': expected a time"),
    ("transport = pigeons\n", f"{CONFIG}:1: transport = 'pigeons': expected one of auto, local, corosync"),
    ("idle_time 5s\n", f"{CONFIG}:1: 'idle_time 5s' is not 'key = value'"),
    ("# fine\n\nnode_id = 0\n", f"{CONFIG}:3: node_id = '0': expected a number from 1"),
])
def test_config_errors_name_file_and_line(serving, text, why):
    serving.node.run("mkdir -p /etc/ddraid")
    serving.node.put(CONFIG, text)
    done = serving.node.run("ddraidd -f", check=False)
    serving.node.run(f"rm {CONFIG}")
    assert done.code == 1 and why in done.err, done
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("text", [
    "log-syslog = no\nlog_level = error\nio_engine = threads\n",
    "log_level = debug\nrun_dir = /run/other\nstate_dir = /run/state\nio_engine = io_uring\n",
    "node_id = 4294967295\nidle_time = 3600s\nresync = paused\nresync_min_rate = 64K\nresync_max_rate = 1T\n"
    "resync_parallel = 8\ngrant_ahead = 64\ndaemon_timeout = 600s\nio_timeout = 60min\n",
])
def test_every_option_from_start_to_end(serving, text):
    """In the background, with an array: start, status, SIGHUP, stop, SIGTERM."""
    node = serving.node
    node.run("modprobe dm_ddraid; mkdir -p /etc/ddraid /run/state")
    node.put(CONFIG, text)
    node.run("ddraidd", timeout=30)
    pid = node.run("cat /run/ddraid/ddraidd.pid || cat /run/other/ddraidd.pid").out.strip()
    try:
        serving.array()
        serving.write(0)
        node.run(f"kill -HUP {pid}; ddraid status data && ddraid stop data")
    finally:
        node.run(f"kill {pid}")
        node.wait_until(f"! kill -0 {pid} 2>/dev/null", 20)
    assert not [line for line in node.dmesg().splitlines() if "segfault" in line]


def test_watchdog_is_fed_while_the_loop_runs(serving):
    listener = """if True:
        import os, signal, socket, subprocess, time
        s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        s.bind("/run/notify")
        d = subprocess.Popen(["ddraidd"], env=dict(os.environ, NOTIFY_SOCKET="/run/notify", WATCHDOG_USEC="1500000"))
        def hear(seconds, enough=lambda heard: False):
            heard, end = [], time.monotonic() + seconds
            while not enough(heard):
                s.settimeout(max(end - time.monotonic(), 0))    # in the end: what has come already
                try:
                    now = s.recv(4096).decode().split("\\n")
                except (TimeoutError, BlockingIOError):
                    break
                heard += [(word, time.monotonic()) for word in now]
            return heard
        def times(heard, word):
            return [t for w, t in heard if w == word]
        running = hear(60, lambda heard: times(heard, "READY=1") and len(times(heard, "WATCHDOG=1")) >= 7)
        fed = times(running, "WATCHDOG=1")
        pause = sorted(b - a for a, b in zip(fed, fed[1:]))[len(fed) // 2 - 1]
        os.kill(d.pid, signal.SIGSTOP)
        while open(f"/proc/{d.pid}/stat").read().rpartition(") ")[2][0] != "T":
            time.sleep(0.01)
        hear(0)
        stopped = hear(2)
        os.kill(d.pid, signal.SIGCONT)
        d.terminate()
        code = d.wait(60)
        print(len(times(running, "READY=1")), len(fed), pause, len(times(stopped, "WATCHDOG=1")), code, len(times(hear(0), "STOPPING=1")))
    """
    serving.node.run(f"modprobe dm_ddraid; mkdir -p /run/ddraid; rm -f /run/notify {CONFIG}")
    serving.node.put("/tmp/notify.py", listener.encode())
    ready, fed, pause, stopped, code, stopping = map(float, serving.node.run("python3 -SIE /tmp/notify.py", timeout=150).out.split())
    assert ready == 1 and fed >= 7 and pause < 1 and stopped == 0 and code == 0 and stopping == 1, (ready, fed, pause, stopped, code, stopping)


# ---- clients -----------------------------------------------------------------------------

EXPECTED = {
    "not json": "not one JSON object", "nothing": "not one JSON object", "half an object": "not one JSON object",
    "an array": "not one JSON object", "two objects": "not one JSON object", "trailing bytes": "not one JSON object",
    "zero bytes": "not one JSON object", "bad utf-8": "not one JSON object", "deep": "not one JSON object",
    "no cmd": "unknown request", "cmd is a number": "unknown request", "unknown cmd": "unknown request 'reboot'",
    "long cmd": "unknown request", "status of a number": "names no array",
    "status with a control character": "names no array", "status with a zero byte": "names no array",
    "status of a long name": "names no array", "wait without a name": "names no array",
    "wait for ever": "timeout_ms", "wait for a negative time": "timeout_ms", "wait for nothing": "no array 'x'",
    "set without a key": "needs a key", "set a node's option": "not an array's option",
    "set nonsense": "expected a time", "fail nobody": "is not a member", "fail a path": "is not a member",
    "fail without a member": "is not a member", "header says 17": "not one JSON object", "another id": "done",
    "two at once": "not answered yet",
}


def test_hostile_clients(serving):
    serving.begin()
    serving.array()
    serving.node.put("/tmp/hostile.py", (pathlib.Path(__file__).parent / "guest/ipc_hostile.py").read_bytes(), 0o755)
    done = serving.node.run("/tmp/hostile.py", timeout=300)
    answers = dict(line.split("\t") for line in done.out.splitlines())
    for what, why in EXPECTED.items():
        assert why in answers[what], f"{what}: {answers[what]}"
    for size in (0, 15, -1, 1 << 30):
        assert answers[f"header says {size}"].startswith("no answer"), answers
    assert answers["crowd"] == "16 of 20"
    assert serving.guest.daemon.poll() is None, serving.guest.daemon.err
    time.sleep(1)                                       # clients that went are forgotten
    assert serving.guest.status("data")["state"] == "optimal"
    serving.write(0, 2)


@pytest.mark.slow
def test_a_listener_that_does_not_read_is_dropped(serving):
    serving.begin(idle_time="60s")
    serving.array()
    serving.guest.command("fail data 0")                # from now on failing another one is refused
    serving.node.put("/tmp/hostile.py", (pathlib.Path(__file__).parent / "guest/ipc_hostile.py").read_bytes(), 0o755)
    deaf = serving.node.spawn("exec /tmp/hostile.py 300")
    deaf.wait_output("deaf", 20)
    for _ in range(8):
        assert serving.node.run("/tmp/hostile.py flood 500", timeout=300).out.split() == ["flood", "500"]
        if "a client reads events too slowly; it was disconnected" in serving.guest.daemon.err:
            break
    else:
        raise AssertionError("no listener was dropped")
    assert serving.guest.status("data")["state"] == "degraded"
    deaf.kill()
    deaf.wait(10, check=False)
    serving.write(0, 2)
