# SPDX-License-Identifier: GPL-2.0-or-later
"""What `ddraid start` and the daemon begin with: which tables, disks and states they refuse, wait for, or accept."""
import hashlib
import json
import os
import time

import pytest

from serving import DEV, MEMBERS, examine, serving  # noqa: F401
from guest import Guest

VM = {"disks": 6, "size": "96M"}


# ---- tables and daemons ----------------------------------------------------------------

def stop_is_refused(serving):
    """Seconds until it was."""
    began = time.monotonic()
    done = serving.guest.command("stop data", check=False)
    took = time.monotonic() - began
    assert done.code == 1 and "in use" in done.err
    assert serving.guest.status("data")["state"] == "optimal"
    return took


def test_stop_refuses_an_open_array(serving):
    """At once if it is mounted; if not, a process that has it open gets five seconds to close it."""
    serving.begin()
    serving.array()
    holder = serving.node.spawn(f"exec <{DEV}; echo open; exec sleep 600")
    holder.wait_output("open")
    patient = stop_is_refused(serving)
    holder.kill()
    holder.wait(10, check=False)
    serving.node.run(f"mkfs.ext4 -q -E nodiscard {DEV} && mount {DEV} /mnt", timeout=120)
    at_once = stop_is_refused(serving)
    assert at_once + 2.5 < patient, f"refused after {at_once:.1f} s while mounted, {patient:.1f} s while open"
    serving.node.run("umount /mnt")
    serving.guest.stop("data")


def test_stop_waits_for_one_that_only_looks(serving):
    """As udev does whenever one that wrote closes the device."""
    serving.begin()
    serving.array()
    looks = serving.node.spawn(f"exec <{DEV}; echo open; exec sleep 600")
    looks.wait_output("open")
    stop = serving.node.spawn("exec ddraid stop data")
    serving.node.wait_until("grep -q nanosleep /proc/$(pidof ddraid)/wchan", 30)        # it has seen that, and waits
    looks.kill()
    assert stop.wait(60).code == 0, stop.err
    assert not serving.guest.arrays()


def test_commands_without_a_daemon_say_so(serving):
    node = serving.node
    for command in ("start data", "stop data", "status", "when", "events", "set data idle-time=1s", "fail data 1"):
        done = node.run(f"ddraid {command}", check=False)
        assert done.code == 1 and "ddraidd is not running" in done.err, f"{command}: {done}"
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
    serving.node.wait_until("test $(dmsetup status data | awk '{ print $10 }') = 1", 20)
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


def own_node(node, device):
    """The device node by which the daemon locks this disk."""
    return "/dev/ddraid-members/" + node.run(f"stat -L -c '%Hr:%Lr' {device}").out.strip()


def but_waits(text):
    """The output of the command, without what it waited for."""
    return [line for line in text.splitlines() if "waits: " not in line]


def hold(node, device):
    """A process that has a device locked, until it is killed."""
    holder = node.spawn(f"exec flock --no-fork {device} sh -c 'echo held; exec sleep 1000'")
    holder.wait_output("held")
    return holder


def test_what_waits_in_a_refused_array_can_be_ended(serving):
    """A device that was made by hand is refused while a process reads it: suspend and remove end the waiting reads. A device that start
    makes cannot be read before.
    """
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
    holder = hold(serving.node, "/dev/vda")             # until its table is loaded
    start = serving.node.spawn("exec ddraid start data", env=serving.guest.env)
    serving.node.wait_until("dmsetup info data | grep -q INACTIVE", 20)
    serving.node.run(f"! test -e {DEV}")
    holder.kill()
    done = start.wait(60)
    assert done.code == 1 and "was seen at generation 9" in done.err, done
    assert len(but_waits(done.err)) == 1, done
    assert serving.node.run("dmsetup ls").out.strip() in ("", "No devices found")
    holder.wait(20)


def test_a_daemon_that_goes_during_start_costs_nothing(serving):
    """`start --all` waits for one array while the other is served and in use: a daemon that dies is no refusal of either."""
    serving.begin()
    node = serving.node
    serving.guest.create("slow", 1, 0, "dedicated", ["/dev/vda", "/dev/vdb"])
    serving.guest.create("used", 1, 1, "rotating", ["/dev/vdc", "/dev/vdd", "/dev/vde"])
    holder = hold(node, own_node(node, "/dev/vda"))                 # the daemon waits for it: without parity it has to
    table = None
    for back in (False, True):
        start = node.spawn("exec ddraid start --all" + ("" if back else " --timeout 40"))
        node.wait_until("ddraid status used | grep -q optimal && test -b /dev/mapper/used", 30)     # it is there once it can be read
        table = table or node.run("dmsetup table used").out
        writer = node.spawn("exec 3<>/dev/mapper/used; echo open; for i in $(seq 15); do dd if=/dev/urandom bs=4096 count=64 oflag=direct "
                            "conv=notrunc status=none seek=$((i * 64)) >&3 || exit 1; sleep 1; done")
        writer.wait_output("open", 30)
        start.wait_output("used: started", 30)
        serving.guest.kill_daemon()
        if not back:
            assert start.wait(90).code == 1
            lines = but_waits(start.err)
            assert len(lines) == 2 and "ddraidd is not running" in lines[0] and "waiting for it" in lines[0], start.err
            assert "'slow': ddraidd is not running" in lines[1] and "The device stays" in lines[1], start.err
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
    assert "slow: started, optimal" in start.out and "used: started, optimal" in start.out
    # a machine that is slow enough has it meet the daemon that is not ready yet
    assert all("it is starting or ending" in line and "waiting for it" in line for line in but_waits(start.err)), start.err


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
    """The daemon is stopped when the table is changed by hand: writes and flushes wait until it has judged the table."""
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
    node.run(f"dd if={DEV} of=/dev/null bs=1M skip=4 count=4 iflag=direct")        # reads elsewhere continue
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
    serving.guest.command("start data --degraded --yes")
    assert serving.guest.status("data")["state"] == "degraded"
    serving.write(0, 1)
    serving.guest.stop("data")
    serving.guest.env = {}
    serving.guest.start("data")                         # the other half is stale now, and known to be
    assert serving.guest.status("data")["members"][1]["state"] != "in-sync"


def test_start_with_members_missing_is_durable_and_leaves_spares_alone(serving):
    """Generation 3 is on every member that is present before start ends, and on the spare, which stays one."""
    serving.begin(hot_spare="no")
    serving.guest.create("data", 1, 2, "rotating", MEMBERS[:4], "--spare /dev/vde")
    serving.guest.start("data")
    serving.guest.command("fail data 0")
    serving.guest.stop("data")
    serving.guest.env = {"DDRAID_DEVICES": "/dev/vda /dev/vdc /dev/vdd /dev/vde"}
    serving.guest.start("data")
    serving.node.kill()
    paths = [d.path for d in serving.node.disks[:5]]
    reports = [json.loads(examine(path))[0] for path in paths]
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
    assert "/dev/vde has no role in array 'data' (spare)" in status, status


def test_array_of_another_node_is_not_started_without_a_cluster(serving):
    """A slot with an owner: that node may be writing now, in a cluster that this machine does not know of yet."""
    def restarted(node):
        serving.guest.daemon.kill(15)
        serving.guest.daemon.wait(30, check=False)
        serving.begin(node_id=node)

    def on_disks():
        return [hashlib.sha256(disk.path.read_bytes()).digest() for disk in serving.node.disks]

    serving.begin(node_id=2)
    serving.array()
    serving.write(0, 1)
    serving.guest.stop("data")
    disks = on_disks()
    restarted(1)
    for what in ("data", "--all", "data --degraded"):
        done = serving.guest.command(f"start {what}", check=False)
        assert done.code == 1 and "slot 0 of its dirty log belongs to node 2" in done.err and "ddraid start --adopt data" in done.err, done
    assert "data" not in serving.node.run("dmsetup ls").out.split()
    assert on_disks() == disks
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
    assert start.err == ("ddraid start: warning: 'late' has no disk for member 1 yet; waiting for 30 seconds at most\n")
    assert serving.guest.status("late")["generation"] == 1
    serving.guest.stop("late")
    node.run("rm /run/disks/vdb")
    begun = time.monotonic()
    done = serving.guest.command("start --all --wait-disks 4")
    assert time.monotonic() - begun >= 4 and "late: started, degraded" in done.out and "whole: is already started" in done.out
    serving.guest.stop("late")
    for command in ("start --all", "start late"):       # the superblocks record that it has failed
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
    done = serving.guest.command("start data --degraded --yes", check=False)
    assert done.code == 1 and "generation" in done.err, done
    assert serving.node.run("dmsetup ls").out.strip() in ("", "No devices found")


def test_a_member_that_hangs_holds_up_no_start(serving, load_forget):
    """What hangs in it keeps its own lock alone: after a stop the same daemon serves the array without it."""
    node = serving.node
    with serving.members_that_hang(load_forget) as members:
        serving.begin(io_timeout="3s", idle_time="60s")
        serving.array(parity=2, order=1, devices=members)
        node.run("dmsetup message f1 0 hang on")
        serving.write(0)                                # the mark waits for the member, which then fails
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


def test_dirty_and_degraded_start_is_not_silent(serving):
    serving.begin(idle_time="60s")
    serving.array()
    serving.write(1, 2)
    serving.node.kill()
    serving.node.boot()
    serving.guest = Guest(serving.node, [d for d in MEMBERS if d != "/dev/vdc"])
    serving.begin()
    done = serving.guest.command("start data --degraded --yes")
    assert "crash" in done.err and "missing" in done.err, done
    serving.node.wait_until("ddraid status data | grep -q SUSPECT", 30)
    assert serving.guest.status("data")["regions"]["suspect"] == 2
    serving.guest.command("set data suspect-reads=error")
    serving.guest.stop("data")
    assert "suspect-reads = error" in serving.node.run("ddraid examine /dev/vdb").out       # it is the array's, and on the disks
    serving.guest.command("start data --degraded --yes")
    assert "suspect_reads = error" in serving.guest.command("set data").out
    serving.guest.command("set data suspect=accept")
    serving.node.wait_until("! ddraid status data | grep -q SUSPECT", 30)


# ---- what to expect ---------------------------------------------------------------------

@pytest.mark.slow
def test_bench_reads_disks_and_estimate_says_what_they_make(serving):
    """Nothing is written, not even to a disk that is in use, and the line that bench ends with is one for estimate."""
    node = serving.node
    serving.begin()
    serving.array()
    serving.guest.command("set data resync_min_rate=2M")
    node.run("dd if=/dev/urandom of=/dev/vdf bs=1M count=96 oflag=direct status=none", timeout=120)
    before = node.run("sha256sum /dev/vdf", timeout=60).out
    done = node.run("ddraid bench --seconds 1 /dev/vdf /dev/vda", timeout=120)
    assert node.run("sha256sum /dev/vdf", timeout=60).out == before
    first, second, last = done.out.splitlines()
    assert first.startswith("/dev/vdf: sequential ") and second.startswith("/dev/vda: sequential "), done.out
    figures = last.split(" ... ")[1]
    said = node.run(f"ddraid estimate data {figures}").out
    assert said.startswith("data: order 2, parity 1, rotating: 5 disks") and "(resync_min_rate 2 MiB)" in said, said
    one, = json.loads(node.run("ddraid bench --seconds 1 --json /dev/vdf", timeout=60).out)
    assert min(one["rate_begin"], one["rate_end"]) <= one["rate"] <= max(one["rate_begin"], one["rate_end"]) and one["iops"] > 0, one
    estimate = json.loads(node.run(f"ddraid estimate data --rate {one['rate']:.0f} --json").out)
    status = serving.guest.status("data")
    assert (estimate["size"], estimate["region_size"]) == (status["size"], status["region_size"])
    assert abs(estimate["rebuild_busy_s"] / (status["size"] / (2 << 20)) - 1) < 0.001, estimate


def test_bench_says_what_it_cannot_read(serving):
    node = serving.node
    node.run("echo 0 65536 linear /dev/vdf 0 | dmsetup create small")
    for args, words in (("/dev/none", "/dev/none"), ("/dev/mapper/small", "64 MiB"), ("/tmp", "/tmp")):
        done = node.run(f"ddraid bench --seconds 1 {args}", check=False)
        assert done.code == 1 and words in done.err and len(done.err.splitlines()) == 1, done
    done = node.run("command=$(command -v ddraid); PATH=/nowhere $command bench /dev/vdf", check=False)
    assert done.code == 1 and "bench needs fio" in done.err, done
    for args in ("", "--seconds 0 /dev/vdf", "--write /dev/vdf"):
        assert node.run(f"ddraid bench {args}", check=False).code == 2
