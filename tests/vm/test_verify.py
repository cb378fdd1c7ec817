# SPDX-License-Identifier: GPL-2.0-or-later
"""Verify on one node, with the real module: rot is found, and repaired where the right content is known; bad sectors are rewritten."""
import base64
import json

import pytest

from serving import DEV, serving  # noqa: F401
from test_rebuild import fill, raw, tools, verify

VM = {"disks": 6, "size": "96M"}
DATA = 1 << 20                  # of these arrays: bytes before the data area
CHUNK = 1024
BLOCKS = 256                    # of a region


def begin(serving, parity, devices=None, **options):
    serving.begin(**options)
    serving.guest.create_and_start("data", 2, parity, "rotating", devices or [d.dev for d in serving.node.disks[:4 + parity]])
    serving.guest.watch_events()
    assert serving.node.run(f"ddraid examine --json {(devices or ['/dev/vda'])[0]} | grep -c '\"data_offset\": {DATA},'").out.strip() == "1"


def filled(serving, parity, megabytes=8, **options):
    begin(serving, parity, **options)
    fill(serving, megabytes)
    serving.guest.wait_idle("data")


def member_of(role, block, roles):
    """The member that has a role of a block: doc/on-disk-format.md, 6, rotating."""
    return (role + block // 256) % roles


def rot(serving, member, block, sectors=1):
    """What the member holds of a block becomes something else, behind everybody's back."""
    serving.node.run(f"dd if=/dev/urandom of={serving.node.disks[member].dev} bs=512 seek={(DATA + block * CHUNK) // 512} count={sectors} "
                     "oflag=direct conv=notrunc,nocreat status=none")


def run_verify(serving, options=""):
    """One verify from begin to end: its record."""
    before = len([e for e in serving.guest.events_seen() if e["event"] == "verify-done"])
    serving.node.run(f"ddraid verify data start --priority 1 {options}")
    serving.node.wait_until("test $(ddraid verify data status --json | grep -c '\"state\": \"idle\"') = 1", 60)
    serving.event("verify-done", 20, before + 1)       # the event may come later than the status
    done = [e for e in serving.guest.events_seen() if e["event"] == "verify-done"]
    assert len(done) == before + 1, done
    return json.loads(serving.node.run("ddraid verify data status --json").out)


def events(serving, name):
    return [e for e in serving.guest.events_seen() if e["event"] == name]


def test_what_rots_is_put_right_with_two_parities(serving):
    """Data, P and Q: whichever chunk is wrong, the others say so, and what it was."""
    filled(serving, 2)
    result = run_verify(serving)
    assert (result["found"], result["repaired"]) == (0, 0)
    wrong = {}
    for role, turn in enumerate((1, 5) * 3):        # each role once, and each member once: 1, 0, 3, 2, 5, 4
        block = 256 * turn + 3 + 35 * role
        wrong[member_of(role, block, 6)] = block
        rot(serving, member_of(role, block, 6), block, 1 + role % 2)
    assert list(wrong) == [1, 0, 3, 2, 5, 4], wrong
    result = run_verify(serving)
    assert (result["found"], result["repaired"]) == (6, 6), result
    serving.node.wait_until("test $(dmsetup status data | awk '{ print $8 }') = 6", 20)
    seen = {e["member"]: (e["first_block"], e["blocks"]) for e in events(serving, "repaired")}
    assert {m: first for m, (first, _) in seen.items()} == wrong and all(n == 1 for _, n in seen.values()), seen
    assert [m["errors"]["corrected"] for m in serving.guest.status("data")["members"]] == [1] * 6
    assert run_verify(serving)["found"] == 0
    verify(serving, 8)
    serving.guest.wait_idle("data")
    serving.guest.stop("data")
    raw(serving)
    serving.guest.start("data")         # the counts and the date of it stay
    result = json.loads(serving.node.run("ddraid verify data status --json").out)
    assert result["serial"] == 3 and result["ended"] >= result["begun"] > 1700000000
    assert [m["errors"]["corrected"] for m in serving.guest.status("data")["members"]] == [1] * 6


def test_with_one_parity_it_is_told_and_nothing_is_guessed(serving):
    filled(serving, 1)
    assert (member_of(4, 11, 5), member_of(1, 40, 5)) == (4, 1)
    rot(serving, 4, 11)                 # P
    rot(serving, 1, 40)                 # data
    result = run_verify(serving)
    assert (result["found"], result["repaired"]) == (2, 0), result
    found = sorted((e["first_block"], e["blocks"]) for e in events(serving, "mismatch"))
    assert found == [(11, 1), (40, 1)] or found == [(11, 30)], found
    serving.node.wait_until("ddraid status data | grep -q ' 0 dirty'", 20)
    disks = [d.path for d in serving.node.disks[:5]]
    assert tools.rawcheck("check", disks, "--assert-none", ok=(1,))["failures"] == ["2 inconsistent stripes, first 11"]
    kept = [f for f in result["findings"] if not f["repaired"]]
    assert sum(f["found"] for f in kept) == 2 and {f["member"] for f in kept} == {None}, kept
    assert min(f["first_block"] for f in kept) == 11 and min(f["position"] for f in kept) == 11 * 4096, kept
    result = run_verify(serving, "--repair")
    assert (result["found"], result["repaired"]) == (2, 2), result
    assert sum(f["found"] for f in result["findings"] if f["repaired"] and f["member"] is not None) == 2, result
    assert "repaired on member" in serving.node.run("ddraid verify data status").out
    assert run_verify(serving)["found"] == 0
    serving.guest.stop("data")
    raw(serving, skip=(5,))


def test_verify_under_load_writes_nothing(serving):
    """What others write while it reads looks wrong for a moment: nothing is found, and nothing is written."""
    filled(serving, 2, 16)
    fio = serving.node.spawn(f"exec fio --name=w --filename={DEV} --direct=1 --ioengine=libaio --iodepth=16 --rw=randwrite --bsrange=4k-64k --size=16m "
                             "--verify=crc32c --verify_backlog=64 --verify_fatal=1 --serialize_overlap=1 --time_based --runtime=12 --output-format=terse")
    for _ in range(3):
        result = run_verify(serving)
        assert (result["found"], result["repaired"]) == (0, 0), result
    assert fio.wait(120).code == 0, fio.err[-1000:]
    assert not events(serving, "repaired") and not events(serving, "mismatch")


def test_it_goes_on_after_the_daemon_died(serving):
    """With priority 5 under load it takes long: paused, over the death of the daemon, to its end."""
    filled(serving, 2, 32)
    fio = serving.node.spawn(f"exec fio --name=w --filename={DEV} --direct=1 --ioengine=libaio --iodepth=4 --rw=randread --bs=64k --size=32m "
                             "--thread --time_based --runtime=600 --output-format=terse")
    reads = f"$(cut -c1-9 /sys/dev/block/$(dmsetup info -c --noheadings -o major,minor {DEV})/stat)"
    begun = int(serving.node.run(f"echo {reads}").out)
    serving.node.wait_until(f"test {reads} -gt {begun + 3000}", 60)     # the daemon checks four times a second whether the array is in use
    serving.node.run("ddraid verify data start --priority 5")
    serving.node.wait_until("ddraid when data | grep -q 'priority 5'", 20)
    serving.node.run("ddraid verify data pause")
    status = json.loads(serving.node.run("ddraid verify data status --json").out)
    assert status["state"] == "paused"
    result = serving.node.run("ddraid verify data status").out
    assert "paused" in result and "%" in result
    serving.guest.daemon.kill(9)
    serving.guest.daemon.wait(30, check=False)
    serving.guest.start_daemon(**serving.config)
    serving.node.wait_until("ddraid verify data status | grep -q paused", 30)
    serving.guest.watch_events()
    serving.node.run("ddraid verify data start --priority 1")
    serving.event("verify-done", 90)
    status = json.loads(serving.node.run("ddraid verify data status --json").out)
    assert (status["serial"], status["found"]) == (1, 0)
    # a fio that is told to end may wait for events that it has already had; if it is killed, and one process, it ends once the array has no
    # I/O of it in flight
    fio.kill()
    assert fio.wait(30).code != 0
    stop = serving.node.run("ddraid verify data stop", check=False)
    assert stop.code == 1 and "no verify is running" in stop.err


@pytest.mark.parametrize("kind", ["", pytest.param("ioerr", marks=pytest.mark.slow)], ids=["medium", "ioerr"])
def test_bad_sectors_are_rewritten(serving, load_forget, kind):
    """One that a read meets, and one that only verify meets: both can be read again afterwards, and no member was lost.

    The same holds if the disk reports only that a read failed.
    """
    load_forget(serving.node)
    devices = []
    for i, disk in enumerate(serving.node.disks[:5]):
        serving.node.run(["dmsetup", "create", f"f{i}", "--table", f"0 {disk.size // 512} forget {disk.dev} 0"])
        devices.append(f"/dev/mapper/f{i}")
    filled(serving, 1, devices=devices)
    serving.node.allow_dmesg(r".*(bad sector|I/O error|ddraid).*")

    def bad(member):
        return int(serving.node.run(f"dmsetup status f{member}").out.split("bad=")[1].split()[0])
    serving.node.run(f"dmsetup message f1 0 bad add {(DATA + 20 * CHUNK) // 512} 3 {kind}")
    serving.node.run(f"dmsetup message f3 0 bad add {(DATA + 700 * CHUNK) // 512} 1 {kind}")
    assert (bad(1), bad(3)) == (3, 1)
    serving.node.run(f"dd if={DEV} of=/dev/null bs=64k count=4 iflag=direct status=none")       # meets that of member 1
    repaired = serving.event("repaired")
    assert repaired["member"] == 1 and "bad sector" in repaired["text"], repaired
    serving.node.wait_until("test $(ddraid status data --json | grep -c 'corrected\": 2') = 1", 20)
    assert run_verify(serving)["found"] == 1
    assert [m["errors"]["corrected"] for m in serving.guest.status("data")["members"]] == [0, 2, 0, 1, 0]
    assert [m["state"] for m in serving.guest.status("data")["members"]] == ["in-sync"] * 5
    assert not events(serving, "member-failed")
    assert (bad(1), bad(3)) == (0, 0)
    for member, block, sectors in ((1, 20, 3), (3, 700, 1)):            # and what was rewritten can be read
        serving.node.run(f"dd if=/dev/mapper/f{member} of=/dev/null bs=512 skip={(DATA + block * CHUNK) // 512} count={sectors} iflag=direct status=none")
    verify(serving, 8)


def with_checksums(node, index):
    """A dm-integrity device over a disk, each sector of which is readable; its path."""
    disk, name = node.disks[index], f"sum{index}"
    node.run(f"dd if=/dev/zero of={disk.dev} bs=64k count=1 oflag=direct conv=nocreat status=none")

    def table(sectors):
        return f"dmsetup create {name} --table '0 {sectors} integrity {disk.dev} 0 - J 1 internal_hash:crc32c'"
    node.run(f"{table(8)} && dmsetup remove {name}")        # creates its superblock, which records the size
    node.run(table(int.from_bytes(disk.read(16, 8), "little")))
    node.run(f"dd if=/dev/zero of=/dev/mapper/{name} bs=1M oflag=direct conv=nocreat status=none", check=False, timeout=120)
    return f"/dev/mapper/{name}"


def test_checksums_below_members_turn_rot_into_bad_sectors(serving):
    """dm-integrity below each member: with one parity, silent rot on a disk is repaired by a read and by verify."""
    serving.node.run("modprobe -a dm_integrity crc32c", timeout=60)
    devices = [with_checksums(serving.node, i) for i in range(5)]
    filled(serving, 1, megabytes=4, devices=devices)
    serving.node.allow_dmesg(r".*(integrity|checksum|ddraid|I/O error).*")

    def rot_below(member, block):
        chunk = serving.node.run(f"dd if={devices[member]} bs={CHUNK} skip={DATA // CHUNK + block} count=1 iflag=direct status=none | base64 -w0").out
        disk, wanted = serving.node.disks[member], base64.b64decode(chunk)
        at = disk.read(0, disk.size).find(wanted)
        assert at > 0 and len(set(wanted)) > 16, "the chunk is not found on the disk"
        disk.write(at + 512, bytes(b ^ 0xff for b in wanted[512:]))
        read = serving.node.run(f"dd if={devices[member]} of=/dev/null bs={CHUNK} skip={DATA // CHUNK + block} count=1 iflag=direct status=none", check=False)
        assert read.code, "dm-integrity does not notice"
    rot_below(1, 20)
    rot_below(3, 700)
    serving.node.run(f"dd if={DEV} of=/dev/null bs=64k count=4 iflag=direct status=none")
    assert serving.event("repaired")["member"] == 1
    serving.node.wait_until("test $(ddraid status data --json | grep -c 'corrected\": 1') = 1", 20)
    result = run_verify(serving)
    assert (result["found"], result["repaired"]) == (1, 1), result
    assert [m["errors"]["corrected"] for m in serving.guest.status("data")["members"]] == [0, 1, 0, 1, 0]
    assert [m["state"] for m in serving.guest.status("data")["members"]] == ["in-sync"] * 5
    for member, block in ((1, 20), (3, 700)):
        serving.node.run(f"dd if={devices[member]} of=/dev/null bs={CHUNK} skip={DATA // CHUNK + block} count=1 iflag=direct status=none")
    verify(serving, 4)


@pytest.mark.parametrize("parity", [1, 2])
def test_checked_reads(serving, parity):
    """verify_reads: rot is never returned to a reader. With two parities the read repairs it; with one it fails, and reports which blocks."""
    filled(serving, parity)
    read = f"dd if={DEV} of=/tmp/read bs=64k count=8 iflag=direct status=none && sha256sum /tmp/read"
    before = serving.node.run(read).out
    assert serving.node.run("ddraid table data --verify-reads").out.split()[-2:] == ["1", "verify_reads"]
    serving.guest.stop("data")
    serving.guest.command("start data --verify-reads")
    assert serving.node.run("dmsetup table data").out.split()[-2:] == ["1", "verify_reads"]
    assert serving.node.run(read).out == before
    rot(serving, 2, 21)
    result = serving.node.run(read, check=False)
    if parity == 2:
        assert (result.code, result.out) == (0, before), result
        serving.event("repaired")
        repaired = events(serving, "repaired")
        assert [(e["member"], e["first_block"], e["blocks"]) for e in repaired] == [(2, 21, 1)], repaired
        assert run_verify(serving)["found"] == 0
    else:
        serving.node.allow_dmesg(r".*(I/O error|ddraid).*")
        assert result.code != 0 and "Input/output error" in result.err, result
        assert "parity does not match" in serving.event("member-error")["text"]


def test_what_is_refused(serving):
    begin(serving, 1)
    for line, code, text in (("start --priority 6", 2, "1 (verify first)"), ("begin", 2, "is not start"), ("pause", 1, "no verify is running"),
                             ("stop --repair", 2, "belong to start"), ("start --json", 2, "--json belongs to status")):
        result = serving.node.run(f"ddraid verify data {line}", check=False)
        assert result.code == code and text in result.err, result
    result = serving.node.run("ddraid verify nobody status", check=False)
    assert result.code == 1 and "nobody" in result.err
    assert "never verified" in serving.node.run("ddraid verify data status").out


def test_the_schedule(serving):
    """Nothing begins outside of the hours; within them verify begins automatically, and again; a request of an operator ignores the hours."""
    hour = int(serving.node.run("date +%H").out)
    closed = f"{(hour + 3) % 24}-{(hour + 5) % 24}"
    filled(serving, 2, verify_every="3s", verify_hours=closed)

    def status():
        return json.loads(serving.node.run("ddraid verify data status --json").out)
    serving.node.wait_until("ddraid verify data status | grep -q 'it waits: the current hour is outside verify_hours'", 60)
    first = status()
    assert (first["state"], first["serial"], first["begun"]) == ("idle", 0, None), first
    assert run_verify(serving)["serial"] == 1                           # an operator may
    serving.node.run("ddraid set data verify_hours=0-24")
    serving.node.wait_until("test $(ddraid verify data status --json | grep -o '\"serial\": *[0-9]*' | grep -o '[0-9]*$') -gt 2", 60)
    assert any("started by verify_every" in e["text"] for e in events(serving, "verify-start"))
    serving.node.run("ddraid set data verify_every=0")
    serving.node.wait_until("ddraid verify data status | grep -q '^data: idle'", 90)
    assert status()["due"] is None
    wrong = serving.node.run("ddraid set data verify_hours=7-7", check=False)
    assert wrong.code == 2 and "22-6" in wrong.err
