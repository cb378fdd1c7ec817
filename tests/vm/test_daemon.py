# SPDX-License-Identifier: GPL-2.0-or-later
"""The daemon and the commands that talk to it, with the real module: life, death and restart."""
import errno
import json
import os
import pathlib
import sys
import time

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "drills"), str(TESTS / "tools")]
import tools  # noqa: E402
from guest import CONFIG, Guest  # noqa: E402

VM = {"disks": 6, "size": "96M"}
DEV = "/dev/mapper/data"
REGION = 4 << 20
BLOCKS = REGION // 4096
MEMBERS = [f"/dev/vd{c}" for c in "abcde"]


class Serving:
    """A guest with a daemon and, if asked for, the array `data` of order 2, parity 1 on its first five disks."""

    def __init__(self, node):
        self.node = node
        self.guest = Guest(node)
        self.config = {"idle_time": "1s", "grant_ahead": 0}

    def begin(self, **options):
        self.config.update(options)
        self.guest.start_daemon(**self.config)

    def array(self, parity=1, devices=MEMBERS, order=2):
        self.guest.create_and_start("data", order, parity, "rotating", devices)
        return self.guest.status("data")["uuid"]

    def write(self, region, count=1, check=True):
        """One 4 KiB write to each of @count regions from @region on."""
        return self.node.run(f"for r in $(seq {region} {region + count - 1}); do dd if=/dev/urandom of={DEV} bs=4096 count=1 "
                             f"seek=$((r * {BLOCKS})) oflag=direct conv=nocreat status=none || exit 1; done", check=check)

    def counters(self):
        return self.guest.status("data")["counters"]

    def event(self, name, timeout=20):
        """The first event of this name since watch_events(); waits for it."""
        deadline = time.monotonic() + timeout
        while not (found := [e for e in self.guest.events_seen() if e["event"] == name]):
            assert time.monotonic() < deadline, f"no event {name}: {self.guest.events_seen()}"
            time.sleep(0.2)
        return found[0]

    def end(self):
        """Whatever the test left: everything stops, and the disks are blank again."""
        node = self.node
        if self.guest.daemon and self.guest.daemon.poll() is None:
            node.run("ddraid stop --all --force", check=False, timeout=120)
            self.guest.daemon.kill(15)
            self.guest.daemon.wait(30, check=False)
        node.run("dmsetup remove_all --force; rm -rf /var/lib/ddraid /run/ddraid", check=False)
        for disk in node.disks:
            node.run(f"blkdiscard -z {disk.dev} || dd if=/dev/zero of={disk.dev} bs=1M conv=nocreat", check=False)


@pytest.fixture
def serving(shared_node, stage):
    del stage
    s = Serving(shared_node)
    yield s
    if shared_node.alive():     # after a failure the harness takes the machine away first
        s.end()


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
    assert second.code == 1 and "another ddraidd (pid" in second.err and "waits for a disk that hangs" in second.err
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
    serving.write(0, 4)
    serving.guest.wait_idle("data")
    status = serving.guest.status("data")
    assert status["regions"]["granted"] == 0 and status["regions"]["clean"] == 4
    assert status["counters"]["flushes"] >= 1 and status["counters"]["map_writes"] >= 1
    tools.rawcheck("check", [d.path for d in serving.node.disks[:5]], "--assert-none", "--assert-idle")


def test_plain_removal_leaves_nothing_dirty(serving):
    """The kernel closes all grants and says so before it goes; the daemon takes that down and clears them."""
    serving.begin(idle_time="60s")
    for way in ("dmsetup remove data", "dmsetup suspend data; dmsetup remove data"):
        serving.array()
        serving.write(0, 6)
        assert serving.guest.status("data")["regions"]["granted"] == 6
        line = serving.node.run("ddraid table data").out.strip()
        serving.node.run(way)
        serving.node.run(f"echo '{line}' | dmsetup create data")    # at once: waits for what the daemon still writes
        serving.node.wait_until("ddraid status data --json | grep -q '\"ready\": true'", 20)
        assert serving.guest.status("data")["regions"]["granted"] == 0
        serving.guest.wait_idle("data")
        log = serving.guest.daemon.err
        assert "regions were being written" not in log and "the kernel refused" not in log, log
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


# ---- start and stop refuse ---------------------------------------------------------------

def test_stop_refuses_an_open_array(serving):
    serving.begin()
    serving.array()
    holder = serving.node.spawn(f"exec sleep 60 <{DEV}")
    time.sleep(0.5)
    done = serving.guest.command("stop data", check=False)
    assert done.code == 1 and "in use" in done.err
    assert serving.guest.status("data")["state"] == "optimal"
    holder.kill()
    holder.wait(10, check=False)
    serving.guest.stop("data")


def test_commands_without_a_daemon_say_so(serving):
    node = serving.node
    for command in ("start data", "stop data", "status", "when", "events", "set data idle-time=1s", "fail data 1"):
        done = node.run(f"ddraid {command}", check=False)
        assert done.code == 1 and "ddraidd does not answer" in done.err, f"{command}: {done}"
        assert len(done.err.splitlines()) == 1


def test_a_table_without_a_daemon_waits_for_it(serving):
    serving.begin()
    serving.array()
    serving.write(0)
    line = serving.node.run("ddraid table data").out.strip()
    serving.guest.stop("data")
    serving.guest.kill_daemon()
    serving.node.run(f"echo '{line}' | dmsetup create data")
    reader = serving.node.spawn(f"exec dd if={DEV} of=/dev/null bs=4096 count=1 iflag=direct")
    time.sleep(2)
    assert reader.poll() is None, "a read ran before any daemon had said which members are right"
    serving.begin()
    assert reader.wait(30).code == 0
    assert serving.guest.status("data")["ready"]


def wrong(line, position, text):
    words = line.split()
    words[position] = text
    return " ".join(words)


def test_wrong_tables_are_refused_by_the_daemon(serving):
    serving.begin()
    uuid = serving.array()
    serving.write(0, 2)
    line = serving.node.run("ddraid table data").out.strip()
    serving.guest.stop("data")
    words = line.split()
    first = words.index("5") + 1
    assert words[first].startswith("/dev/vd"), line
    swapped = words[:]
    swapped[first], swapped[first + 1] = swapped[first + 1], swapped[first]
    foreign = wrong(line, first + 1, "/dev/vdf")
    cases = [(" ".join(swapped), "position 0"),
             (wrong(line, 7, str(int(words[7]) * 2)), "region sectors"),
             (wrong(wrong(line, 8, str(int(words[8]) + 2048)), 1, str(int(words[1]) - 16384)), "data offset"),
             (wrong(line, 6, "dedicated"), "layout"),
             (wrong(line, 1, str(int(words[1]) + 256)), "length")]
    for table, why in cases:
        serving.node.run(f"echo '{table}' | dmsetup create data")
        done = serving.node.run(f"ddraid status {uuid}; dmsetup status data", check=False)
        deadline = time.monotonic() + 20
        while "error" not in done.out:
            assert time.monotonic() < deadline, f"{table}: {done}"
            time.sleep(0.2)
            done = serving.node.run(f"ddraid status {uuid}; dmsetup status data", check=False)
        assert why in done.out, f"{why}: {done.out}"
        assert done.out.split()[-1] == "detached" and "inactive" in done.out, f"{why}: {done.out}"
        serving.node.run("dmsetup remove --retry data")
    serving.node.run(f"echo '{foreign}' | dmsetup create data")     # a blank disk: this member is missing
    serving.node.wait_until("ddraid status data | grep -q degraded", 20)
    assert serving.guest.status("data")["members"][1]["state"] == "missing"


def test_a_table_that_is_too_short_is_made_longer(serving):
    """As a node has it that was away when the array grew."""
    serving.begin()
    serving.array()
    serving.write(0, 2)
    read = f"dd if={DEV} bs=64k count=32 iflag=direct status=none | sha256sum"
    before = serving.node.run(read).out
    words = serving.node.run("ddraid table data").out.split()
    serving.guest.stop("data")
    short = wrong(" ".join(words), 1, str(int(words[1]) - 4096))
    serving.node.run(f"echo '{short}' | dmsetup create data")
    serving.node.wait_until(f"test $(blockdev --getsz {DEV}) = {words[1]}", 30)
    assert serving.node.run(read).out == before
    serving.write(0, 2)


def test_what_waits_in_a_refused_array_can_be_ended(serving):
    """The device is refused while something reads it: suspend, remove and start itself end what waits there."""
    serving.begin()
    uuid = serving.array()
    line = serving.node.run("ddraid table data").out.strip()
    serving.guest.stop("data")
    read = f"exec dd if={DEV} of=/dev/null bs=4096 count=1 iflag=direct"
    for command in ("dmsetup suspend data; dmsetup remove --retry data", "dmsetup remove --force --retry data"):
        serving.node.run(f"echo '{wrong(line, 6, 'dedicated')}' | dmsetup create data")
        serving.node.wait_until(f"ddraid status {uuid} | grep -q error", 20)
        reader = serving.node.spawn(read)
        serving.node.wait_until("test $(dmsetup status data | awk '{ print $10 }') = 1", 10)
        serving.node.run(command, timeout=20)
        assert reader.wait(10).code == 1 and "Input/output error" in reader.err
    serving.node.run(f"echo '9 {uuid}' > /var/lib/ddraid/{uuid}.generation")
    reader = serving.node.spawn(f"until test -b {DEV}; do sleep 0.05; done; {read}")
    holder = serving.node.spawn("exec flock /dev/vda sleep 4")      # time for the reader to open the device
    time.sleep(0.5)
    done = serving.guest.command("start data", check=False)
    assert done.code == 1 and "was seen at generation 9" in done.err, done
    assert len(done.err.splitlines()) == 1, done
    assert reader.wait(10).code == 1 and "Input/output error" in reader.err
    assert serving.node.run("dmsetup ls").out.strip() in ("", "No devices found")
    holder.wait(20)


def test_a_daemon_that_goes_during_start_costs_nothing(serving):
    """`start --all` waits for one array while the other is served and in use: a daemon that dies is no refusal of either."""
    serving.begin()
    node = serving.node
    serving.guest.create("slow", 1, 0, "dedicated", ["/dev/vda", "/dev/vdb"])
    serving.guest.create("used", 1, 1, "rotating", ["/dev/vdc", "/dev/vdd", "/dev/vde"])
    holder = node.spawn("exec flock /dev/vda sleep 1000")           # the daemon waits for it: without parity it has to
    table = None
    for back in (False, True):
        start = node.spawn("exec ddraid start --all" + ("" if back else " --timeout 40"))
        node.wait_until("ddraid status used | grep -q optimal", 30)
        table = table or node.run("dmsetup table used").out
        writer = node.spawn("exec 3<>/dev/mapper/used; for i in $(seq 15); do dd if=/dev/urandom bs=4096 count=64 oflag=direct "
                            "conv=notrunc status=none seek=$((i * 64)) >&3 || exit 1; sleep 1; done")
        time.sleep(2)
        serving.guest.kill_daemon()
        if not back:
            assert start.wait(90).code == 1
            lines = start.err.splitlines()
            assert len(lines) == 1 and "'slow': ddraidd went away" in lines[0] and "the device stays" in lines[0], start.err
            assert "used: started" in start.out
        serving.begin()
        assert writer.wait(60).code == 0, writer.err
        assert node.run("dmsetup table used").out == table and node.run("dmsetup ls").out.count("\n") == 2
        if not back:
            node.run("dmsetup remove slow")
            serving.guest.stop("used")
    assert start.poll() is None, (start.out, start.err)
    holder.kill(15)
    assert start.wait(60).code == 0, start.err
    assert "slow: started, optimal" in start.out and "used: started, optimal" in start.out and start.err == ""


def test_foreign_and_copied_members_are_refused(serving):
    serving.begin()
    serving.guest.create("other", 0, 1, "dedicated", ["/dev/vda", "/dev/vdf"])
    other = serving.node.run("dd if=/dev/vda bs=1M count=2 | base64 -w0").out
    uuid = serving.array()
    line = serving.node.run("ddraid table data").out.strip()
    serving.guest.stop("data")
    serving.node.put("/tmp/other", other.encode())
    serving.node.run("base64 -d /tmp/other | dd of=/dev/vdf bs=1M conv=nocreat; sync")
    table = line.replace(" 254:64", " /dev/vdf").replace(" /dev/vde", " /dev/vdf")
    assert "/dev/vdf" in table, line
    serving.node.run(f"echo '{table}' | dmsetup create data")
    serving.node.wait_until(f"ddraid status {uuid} | grep -q error", 20)
    assert serving.guest.command(f"status {uuid}").out.count("vdf") >= 1


# ---- members ---------------------------------------------------------------------------

def test_failed_member_stays_out_after_a_restart(serving):
    serving.begin()
    serving.array()
    serving.write(0, 4)
    before = serving.node.run(f"dd if={DEV} bs=1M count=16 iflag=direct | sha256sum").out
    serving.guest.command("fail data /dev/vdb")
    serving.node.wait_until("ddraid status data | grep -q degraded", 20)
    status = serving.guest.status("data")
    assert status["generation"] == 2 and status["members"][1]["state"] == "faulty"
    assert serving.node.run(f"dd if={DEV} bs=1M count=16 iflag=direct | sha256sum").out == before
    serving.write(5, 4)
    after = serving.node.run(f"dd if={DEV} bs=1M count=40 iflag=direct | sha256sum").out
    serving.guest.stop("data")
    serving.guest.start("data")
    status = serving.guest.status("data")
    assert status["state"] == "degraded" and status["members"][1]["state"] == "faulty"
    assert serving.node.run(f"dd if={DEV} bs=1M count=40 iflag=direct | sha256sum").out == after


def test_stale_member_in_a_table_by_hand_is_not_read(serving):
    serving.begin()
    serving.array()
    line = serving.node.run("ddraid table data").out.strip()    # with all five devices
    serving.guest.command("fail data 0")
    serving.node.wait_until("ddraid status data | grep -q degraded", 20)
    serving.node.run(f"dd if=/dev/urandom of={DEV} bs=1M count=8 oflag=direct conv=nocreat")
    after = serving.node.run(f"dd if={DEV} bs=1M count=8 iflag=direct | sha256sum").out
    serving.guest.stop("data")
    serving.node.run(f"echo '{line}' | dmsetup create data")
    serving.node.wait_until("ddraid status data | grep -q 'degraded'", 20)
    assert serving.guest.status("data")["members"][0]["state"] == "faulty"
    assert serving.node.run(f"dd if={DEV} bs=1M count=8 iflag=direct | sha256sum").out == after


def test_nothing_is_complete_without_a_member_that_a_new_table_leaves_out(serving):
    """The daemon stands still when the table is changed by hand: writes and flushes wait until it has judged the table."""
    serving.begin(idle_time="60s", daemon_timeout="100s")
    serving.array()
    node = serving.node
    serving.write(0, 2)
    line = node.run("ddraid table data").out.strip()
    serving.guest.daemon.kill(19)
    node.run(f"dmsetup suspend --noflush data; echo '{line.replace(MEMBERS[1], '-')}' | dmsetup load data; dmsetup resume data")
    data = os.urandom(4 * 4096)
    node.put("/tmp/new", data)
    write = node.spawn(["dd", "if=/tmp/new", f"of={DEV}", "bs=4096", "oflag=direct,dsync", "conv=nocreat"])
    node.wait_until("test $(dmsetup status data | awk '{ print $10 }') = 1", 30)
    node.run(f"dd if={DEV} of=/dev/null bs=1M skip=4 count=4 iflag=direct")        # reads elsewhere go on
    assert write.poll() is None
    serving.guest.daemon.kill(18)
    assert write.wait(60).code == 0, write.err
    status = serving.guest.status("data")
    assert status["state"] == "degraded" and status["members"][1]["state"] == "missing" and status["generation"] == 2
    node.run(f"cmp -n {len(data)} /tmp/new {DEV}")
    serving.guest.stop("data")
    node.run(f"echo '{line}' | dmsetup create data")       # the device is back, and stale
    node.wait_until("ddraid status data | grep -q degraded", 20)
    assert serving.guest.status("data")["members"][1]["state"] == "missing"
    node.run(f"cmp -n {len(data)} /tmp/new {DEV}")


def test_members_missing_at_start_need_the_operator_where_others_could_have_gone_on(serving):
    serving.begin()
    serving.guest.create_and_start("data", 0, 1, "dedicated", ["/dev/vda", "/dev/vdb"])
    serving.write(0, 1)
    serving.guest.stop("data")
    serving.guest.env = {"DDRAID_DEVICES": "/dev/vda"}
    done = serving.guest.command("start data", check=False)
    assert done.code == 1 and "--degraded" in done.err
    serving.guest.command("start data --degraded")
    assert serving.guest.status("data")["state"] == "degraded"
    serving.write(0, 1)
    serving.guest.stop("data")
    serving.guest.env = {}
    serving.guest.start("data")                         # the other half is stale now, and known to be
    assert serving.guest.status("data")["members"][1]["state"] != "in-sync"


def test_start_with_members_missing_is_durable_and_leaves_spares_alone(serving):
    """Generation 3 lies on every member that is there before start ends, and on the spare, which stays one."""
    serving.begin(hot_spare="no")
    serving.guest.create("data", 1, 2, "rotating", MEMBERS[:4], "--spare /dev/vde")
    serving.guest.start("data")
    serving.guest.command("fail data 0")
    serving.guest.stop("data")
    serving.guest.env = {"DDRAID_DEVICES": "/dev/vda /dev/vdc /dev/vdd /dev/vde"}
    serving.guest.start("data")
    serving.node.kill()
    paths = [d.path for d in serving.node.disks[:5]]
    reports = [json.loads(serving_examine(path))[0] for path in paths]
    assert [r["generation"] for r in reports] == [1, 2, 3, 3, 3]
    assert [m["state"] for m in reports[2]["members"]] == ["faulty", "missing", "in-sync", "in-sync", "spare"]
    assert reports[4]["member"]["state"] == "spare"
    serving.node.boot()
    serving.guest = Guest(serving.node)
    serving.begin(hot_spare="no")
    assert "spare, member 4 of array data" in serving.guest.command("examine /dev/vde").out
    done = serving.guest.command("start data")
    assert "member 1 is stale (/dev/vdb)" in done.err and "vde" not in done.err, done
    assert [m["state"] for m in serving.guest.status("data")["members"]] == ["faulty", "missing", "in-sync", "in-sync", "spare"]
    serving.guest.stop("data")
    line = serving.node.run("ddraid table data").out.split()
    line[-4] = "/dev/vde"
    serving.node.run(f"echo '{' '.join(line)}' | dmsetup create data")
    serving.node.wait_until("ddraid status | grep -q error", 20)
    status = serving.guest.command("status").out
    assert "/dev/vde plays no role in array 'data' (spare)" in status, status


def test_array_of_another_node_is_not_started_without_a_cluster(serving):
    """A slot with an owner: that node may be writing now, in a cluster that this machine does not know of yet."""
    def restarted(node):
        serving.guest.daemon.kill(15)
        serving.guest.daemon.wait(30, check=False)
        serving.begin(node_id=node)

    serving.begin(node_id=2)
    serving.array()
    serving.write(0, 1)
    serving.guest.stop("data")
    disks = serving.node.run("cat /dev/vd[a-e] | sha256sum").out
    restarted(1)
    for what in ("data", "--all", "data --degraded"):
        done = serving.guest.command(f"start {what}", check=False)
        assert done.code == 1 and "slot 0 of its dirty log belongs to node 2" in done.err and "fence-ack" in done.err, done
    assert "data" not in serving.node.run("dmsetup ls").out.split()
    assert serving.node.run("cat /dev/vd[a-e] | sha256sum").out == disks
    restarted(2)
    serving.guest.start("data")


def test_start_all_waits_for_disks_that_come_late(serving):
    """A disk that comes some seconds after the others is no reason to start without it; one that never comes keeps nothing down."""
    serving.begin()
    node = serving.node
    serving.guest.create("late", 1, 1, "rotating", ["/dev/vda", "/dev/vdb", "/dev/vdc"])
    serving.guest.create("whole", 0, 1, "dedicated", ["/dev/vdd", "/dev/vde"])
    node.run("rm -rf /run/disks; mkdir /run/disks; ln -s /dev/vda /dev/vdc /dev/vdd /dev/vde /run/disks/")
    serving.guest.env = {"DDRAID_DEVICES": "/run/disks/*"}
    start = node.spawn("exec ddraid start --all", env=serving.guest.env)
    node.wait_until("ddraid status whole | grep -q optimal", 30)    # it lacks nothing, and does not wait for the other one
    time.sleep(2)
    assert "late" not in node.run("dmsetup ls").out.split() and start.poll() is None
    node.run("ln -s /dev/vdb /run/disks/")
    assert start.wait(30).code == 0, start.err
    assert "late: started, optimal" in start.out and "whole: started, optimal" in start.out
    assert start.err == ("ddraid start: warning: 'late' has no disk for member 1 yet: it is waited for, 30 seconds at most\n")
    assert serving.guest.status("late")["generation"] == 1
    serving.guest.stop("late")
    node.run("rm /run/disks/vdb")
    begun = time.monotonic()
    done = serving.guest.command("start --all --wait-disks 4")
    assert time.monotonic() - begun >= 4 and "late: started, degraded" in done.out and "whole: is started already" in done.out
    serving.guest.stop("late")
    for command in ("start --all", "start late"):       # the superblocks know that it is out
        begun = time.monotonic()
        assert "degraded" in serving.guest.command(command).out and time.monotonic() - begun < 20
        serving.guest.stop("late")


def test_older_generation_than_seen_is_vetoed(serving):
    serving.begin()
    serving.guest.create_and_start("data", 0, 1, "dedicated", ["/dev/vda", "/dev/vdb"])
    serving.guest.command("fail data 1")
    serving.node.wait_until("ddraid status data | grep -q degraded", 20)
    serving.guest.stop("data")
    serving.node.wait_until("grep -q '^2 ' /var/lib/ddraid/*.generation", 10)
    serving.guest.env = {"DDRAID_DEVICES": "/dev/vdb"}  # the one that was failed comes alone
    done = serving.guest.command("start data --degraded", check=False)
    assert done.code == 1 and "generation" in done.err, done
    assert serving.node.run("dmsetup ls").out.strip() in ("", "No devices found")


def test_disk_taken_away_under_load(serving):
    serving.begin()
    serving.array(parity=2, devices=MEMBERS + ["/dev/vdf"])
    node = serving.node
    fio = node.spawn(f"exec fio --name=w --filename={DEV} --direct=1 --ioengine=libaio --iodepth=16 --rw=randwrite "
                     "--bsrange=4k-128k --size=64m --verify=crc32c --verify_backlog=64 --verify_fatal=1 --serialize_overlap=1 --time_based "
                     "--runtime=12 --output-format=terse")
    time.sleep(3)
    disk = node.disks[2]
    node.allow_dmesg(r".*")
    node.unplug(disk)
    try:
        assert fio.wait(120).code == 0, fio.err[-1000:]
        status = serving.guest.status("data")
        assert status["state"] == "degraded" and status["members"][2]["state"] == "faulty"
        assert [m["state"] for m in status["members"]].count("in-sync") == 5
        serving.guest.stop("data")
    finally:
        node.plug(disk)


def test_member_that_hangs_is_out_in_time(serving, load_forget):
    """No answer at all: after io_timeout the member is out, it is told, and writes go on without it."""
    node = serving.node
    load_forget(node)
    for i, disk in enumerate(node.disks[:4]):
        node.run(f"dmsetup create f{i} --table '0 {disk.size // 512} forget {disk.dev} 0'")
    serving.guest.env = {"DDRAID_DEVICES": "/dev/mapper/f0 /dev/mapper/f1 /dev/mapper/f2 /dev/mapper/f3"}
    try:
        serving.begin(io_timeout="3s", idle_time="60s")
        serving.array(parity=2, order=1, devices=[f"/dev/mapper/f{i}" for i in range(4)])
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
        # a write that waits for its member's answer, in a granted region: told as well, and right once it comes
        node.run("dmsetup message f2 0 hang on")
        waiting = node.spawn(f"exec dd if=/dev/urandom of={DEV} bs=4096 count=1 oflag=direct conv=nocreat")
        node.wait_until("ddraid status data | grep -q '/dev/mapper/f2.*faulty' || "
                        "ddraid status data | grep -q 'faulty.*/dev/mapper/f2'", 15)
        assert waiting.poll() is None
        node.run("dmsetup message f2 0 hang off")
        assert waiting.wait(20).code == 0
        serving.write(3)
        assert serving.guest.status("data")["state"] == "degraded"
    finally:
        node.run("for i in 0 1 2 3; do dmsetup message f$i 0 hang off; done", check=False)
        serving.node.run("ddraid stop --all --force", check=False, timeout=60)
        node.run("for i in 0 1 2 3; do dmsetup remove --retry f$i; done", check=False)


def test_a_member_that_hangs_holds_up_no_start(serving, load_forget):
    """What hangs in it keeps its own lock alone: after a stop the same daemon serves the array without it."""
    node = serving.node
    load_forget(node)
    for i, disk in enumerate(node.disks[:4]):
        node.run(f"dmsetup create f{i} --table '0 {disk.size // 512} forget {disk.dev} 0'")
    serving.guest.env = {"DDRAID_DEVICES": "/dev/mapper/f0 /dev/mapper/f1 /dev/mapper/f2 /dev/mapper/f3"}
    try:
        serving.begin(io_timeout="3s", idle_time="60s")
        serving.array(parity=2, order=1, devices=[f"/dev/mapper/f{i}" for i in range(4)])
        node.run("dmsetup message f1 0 hang on")
        serving.write(0)                                # the mark waits for the member, which is out then
        assert serving.guest.status("data")["members"][1]["state"] == "faulty"
        serving.guest.stop("data")
        # the command itself waits for a minute for what it looks at: it is not to look at that one
        serving.guest.env = {"DDRAID_DEVICES": "/dev/mapper/f0 /dev/mapper/f2 /dev/mapper/f3"}
        begun = time.monotonic()
        serving.guest.command("start data", timeout=60)
        serving.write(1)
        took = time.monotonic() - begun
        assert took < 12, f"{took:.1f} s"
        assert serving.guest.status("data")["state"] == "degraded"
    finally:
        node.run("for i in 0 1 2 3; do dmsetup message f$i 0 hang off; done", check=False)
        serving.node.run("ddraid stop --all --force", check=False, timeout=60)
        node.run("for i in 0 1 2 3; do dmsetup remove --retry f$i; done", check=False)


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
    assert done.code == 1 and "is no member of array 'more'" in done.err
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
    serving.write(0, 40)
    node.wait_until("ddraid status data --json | grep -q '\"needs_sync\": 40'", 30)

    def synced(seconds):
        """MiB a second of regions that leave needs-sync."""
        begun, before = time.monotonic(), guest.status("data")["regions"]["needs_sync"]
        time.sleep(seconds)
        after = guest.status("data")["regions"]["needs_sync"]
        return (before - after) * 4 / (time.monotonic() - begun)

    for setting in ("resync_min_rate=64K", "resync_max_rate=4M", "resync=run"):
        guest.command(f"set data {setting}")
    rate = synced(6)
    assert 1.5 < rate < 6.5, f"{rate:.1f} MiB/s with at most 4"
    guest.command("set data resync_min_rate=2M")
    load = node.spawn(f"exec fio --name=r --filename={DEV} --direct=1 --ioengine=libaio --iodepth=1 --rw=randread --bs=4k --size=64m "
                      "--thread --time_based --runtime=60 --thinktime=20000 --output-format=terse")
    time.sleep(1)
    guest.command("set data resync_max_rate=0")
    time.sleep(1)
    rate = synced(6)
    assert 0.4 < rate < 4.5, f"{rate:.1f} MiB/s under load with at least 2"
    load.kill()                                         # a thread: nothing goes on without it
    load.wait(20, check=False)
    guest.wait_idle("data", 60)


# ---- death and restart ------------------------------------------------------------------

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
    assert fio.wait(120).code == 0, fio.err[-1000:]
    assert bound() == before + 3, "each daemon has to bind the array once"
    serving.guest.wait_idle("data")
    tools.rawcheck("check", [d.path for d in serving.node.disks[:5]], "--assert-none", "--assert-idle")


def test_sigterm_leaves_the_array_and_a_new_daemon_takes_it_over(serving):
    serving.begin(idle_time="60s")
    serving.array()
    serving.write(0, 3)
    serving.guest.daemon.kill(15)
    assert serving.guest.daemon.wait(30).code == 0
    assert serving.node.run("dmsetup status data").out.split()[-1] == "detached"
    serving.write(0, 3)                                 # granted: goes on without a daemon
    serving.begin()
    serving.node.wait_until("ddraid status data --json | grep -q '\"ready\": true'", 20)
    regions = serving.guest.status("data")["regions"]
    assert regions["granted"] == 3 and regions["dirty"] == 3, "what the kernel holds was not taken over"
    log = serving.counters()["log_writes"]
    serving.write(0, 3)
    assert serving.counters()["log_writes"] == log


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
    geometry = json.loads(serving_examine(paths[0]))[0]
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
    done = [e for e in serving.guest.events_seen() if e["event"] == "resync-done"]
    assert len(done) == 1 and done[0]["regions"] == 3 and done[0]["blocks"] == 1, serving.guest.events_seen()
    report = tools.rawcheck("check", paths, ok=(0, 1))
    text = json.dumps(report)
    assert str(7 * BLOCKS + 17) in text and str(3 * BLOCKS + 17) not in text, "not exactly the dirty regions were resynced"


def serving_examine(path):
    """`ddraid examine --json` of an image on the host."""
    import subprocess
    from ddvm.config import stage_dir
    program = pathlib.Path(stage_dir()) / "usr/sbin/ddraid"
    return subprocess.run([program, "examine", "--json", path], capture_output=True, text=True, check=True,
                          env={**os.environ}).stdout


def test_dirty_and_degraded_start_is_not_silent(serving):
    serving.begin(idle_time="60s")
    serving.array()
    serving.write(1, 2)
    serving.node.kill()
    serving.node.boot()
    serving.guest = Guest(serving.node, [d for d in MEMBERS if d != "/dev/vdc"])
    serving.begin()
    done = serving.guest.command("start data --degraded")
    assert "crash" in done.err and "missing" in done.err, done
    serving.node.wait_until("ddraid status data | grep -q SUSPECT", 30)
    assert serving.guest.status("data")["regions"]["suspect"] == 2
    serving.guest.command("set data suspect-reads=error")
    serving.guest.stop("data")
    assert "suspect-reads = error" in serving.node.run("ddraid examine /dev/vdb").out       # it is the array's, and on the disks
    serving.guest.command("start data --degraded")
    assert "suspect_reads = error" in serving.guest.command("set data").out
    serving.guest.command("set data suspect=accept")
    serving.node.wait_until("! ddraid status data | grep -q SUSPECT", 30)


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
    tools.rawcheck("check", [d.path for d in serving.node.disks[:5]], "--assert-none", "--assert-idle")


# ---- configuration -----------------------------------------------------------------------

@pytest.mark.parametrize("text, why", [
    ("idle_time = 5s\nnonsense = 1\n", f"{CONFIG}:2: unknown option 'nonsense'"),
    ("idle_time = soon\n", f"{CONFIG}:1: idle_time = 'soon': expected a time"),
    ("transport = pigeons\n", f"{CONFIG}:1: transport = 'pigeons': expected one of auto, local, corosync"),
    ("idle_time 5s\n", f"{CONFIG}:1: 'idle_time 5s' is not 'key = value'"),
    ("# fine\n\nnode_id = 0\n", f"{CONFIG}:3: node_id = '0': expected a number from 1"),
])
def test_config_errors_name_file_and_line(serving, text, why):
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
        def hear(seconds):
            heard, end = [], time.monotonic() + seconds
            while (left := end - time.monotonic()) > 0:
                s.settimeout(left)
                try:
                    heard += s.recv(4096).decode().split("\\n")
                except TimeoutError:
                    pass
            return heard
        running = hear(5)
        os.kill(d.pid, signal.SIGSTOP)
        hear(0.3)
        stopped = hear(2)
        os.kill(d.pid, signal.SIGCONT)
        d.terminate()
        print(running.count("READY=1"), running.count("WATCHDOG=1"), stopped.count("WATCHDOG=1"), d.wait(10), hear(0.5).count("STOPPING=1"))
    """
    serving.node.run(f"modprobe dm_ddraid; mkdir -p /run/ddraid; rm -f /run/notify {CONFIG}")
    serving.node.put("/tmp/notify.py", listener.encode())
    ready, fed, stopped, code, stopping = map(int, serving.node.run("python3 -SIE /tmp/notify.py").out.split())
    assert ready == 1 and fed >= 5 and stopped == 0 and code == 0 and stopping == 1, (ready, fed, stopped, code, stopping)


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
    "set nonsense": "expected a time", "fail nobody": "is no member", "fail a path": "is no member",
    "fail without a member": "is no member", "header says 17": "not one JSON object", "another id": "done",
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


def test_a_listener_that_does_not_read_is_dropped(serving):
    serving.begin(idle_time="60s")
    serving.array()
    serving.guest.command("fail data 0")                # from now on failing another one is refused
    serving.node.put("/tmp/hostile.py", (pathlib.Path(__file__).parent / "guest/ipc_hostile.py").read_bytes(), 0o755)
    deaf = serving.node.spawn("exec /tmp/hostile.py 300")
    deaf.wait_output("deaf", 20)
    for _ in range(8):
        assert serving.node.run("/tmp/hostile.py flood 500", timeout=300).out.split() == ["flood", "500"]
        if "a listener to events is too slow; it is dropped" in serving.guest.daemon.err:
            break
    else:
        raise AssertionError("no listener was dropped")
    assert serving.guest.status("data")["state"] == "degraded"
    deaf.kill()
    deaf.wait(10, check=False)
    serving.write(0, 2)
