# SPDX-License-Identifier: GPL-2.0-or-later
"""`ddraid create` and `table` on image files: what is made, and that refusals change nothing.

Block devices in use, 4Kn and 512e disks are tests/vm/test_badinput.py's.
"""
import hashlib
import json
import os
import pathlib
import pty
import resource
import signal
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
DDRAID = pathlib.Path(os.environ.get("DDRAID_BUILDDIR", TOP / "build")) / "cli" / "ddraid"
MIB = 1 << 20
ANYTHING = ("--allow-files", "--overwrite", "--yes")      # images, whatever they hold


def ddraid(*args, preexec=None, **env):
    return subprocess.run([DDRAID, *map(str, args)], capture_output=True, text=True, timeout=60, preexec_fn=preexec,
                          env=dict(os.environ, **env))


@pytest.fixture
def images(tmp_path):
    def make(count, size=8 * MIB):
        paths = [tmp_path / f"disk{i}" for i in range(count)]
        for path in paths:
            with open(path, "wb") as image:
                image.truncate(size)
        return paths
    return make


def resize(path, size):
    with open(path, "r+b") as image:
        image.truncate(size)


def digest(paths):
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]


def refused(paths, args, words, code=1, preexec=None):
    before = digest(paths)
    done = ddraid(*args, preexec=preexec)
    assert done.returncode == code, done
    assert digest(paths) == before
    lines = done.stderr.splitlines()
    assert len(lines) == (1 if code == 1 else 2), done.stderr
    assert words in lines[0], lines[0]


@pytest.mark.parametrize("args, words", [
    ((), "give the name"),
    (("t",), "give the name of the array and its devices"),
    (("t", "--order", "4"), "--order must be"),
    (("t", "--order", "1x"), "--order must be"),
    (("t", "--order", "1", "--parity", "3"), "--parity must be"),
    (("t", "--order", "1", "--layout", "x"), "--layout must be"),
    (("t", "--order", "1", "--region-size", "3M"), "--region-size must be"),
    (("t", "--order", "1", "--region-size", "1Mbit"), "--region-size must be"),
    (("t", "--order", "1", "--region-size", "18446744073709551616"), "--region-size must be"),
    (("t", "--order", "1", "--nodes", "65"), "--nodes must be"),
    (("t", "--order", "1", "--format", "0"), "--format must be 1"),
    (("t", "--order", "1", "--format", "3"), "--format must be 1"),
    (("t", "--order", "1", "--unknown"), "--unknown"),
    (("t", "--order"), "'--order' needs a value"),
    (("t", "-x"), "unknown option '-x'"),
    (("-t", "--order", "1"), "unknown option '-t'"),
    (("a\nb", "--order", "1"), "'a?b' cannot name an array"),
    (("x" * 64, "--order", "1"), "cannot name an array"),
    (("control", "--order", "1"), "'control' cannot name an array: /dev/mapper/control belongs to device-mapper itself"),
    (("0e6f9f86-0000-4000-8000-000000000000", "--order", "1"), "it looks like a uuid"),
])
def test_usage(images, args, words):
    paths = images(3)
    if args == ():
        refused(paths, ("create",), words, 2)
    else:
        refused(paths, ("create", *args, *([] if args in (("t",), ("t", "--order")) else paths)), words, 2)


@pytest.mark.parametrize("options, count, words", [
    (("--order", "0"), 3, "needs 2 devices, 3 were given"),
    (("--order", "3", "--parity", "2"), 9, "needs 10 devices, 9 were given"),
    ((), 3, "--order is missing"),
])
def test_number_of_devices(images, options, count, words):
    paths = images(count)
    refused(paths, ("create", "t", *ANYTHING, *options, *paths), words, 2)


def test_start_takes_a_time():
    for word in ("0", "5x", "-1", "86401", ""):
        done = ddraid("start", "x", "--timeout", word)
        assert done.returncode == 2 and "--timeout takes seconds" in done.stderr, done


@pytest.mark.parametrize("args", [("set", "--nosuch"), ("set", "a", "-x"), ("fence-ack", "--yes"), ("fail", "--yes", "a", "1"), ("remove", "a", "--all")])
def test_a_command_without_options_refuses_them(args):
    done = ddraid(*args)
    assert done.returncode == 2 and f"unknown or misused option '{next(a for a in args if a[0] == '-')}'" in done.stderr, done


def test_the_usage_of_each_command_fits_a_terminal():
    for line in ddraid("help").stdout.splitlines():
        if line.startswith("  "):
            done = ddraid(line.split()[0], "--help")
            assert done.returncode == 0 and max(map(len, done.stdout.splitlines())) <= 110, done
            assert max(map(len, done.stdout.split("\n\n")[0].splitlines())) <= 80, done


def test_help_and_version():
    for args in ((), ("help",), ("--help",), ("-h",)):
        done = ddraid(*args)
        assert "commands:" in (done.stdout if args else done.stderr) and done.returncode == (0 if args else 2)
    for args in (("help", "create"), ("create", "--help"), ("create", "-h")):
        done = ddraid(*args)
        assert done.returncode == 0 and done.stdout.startswith("usage: ddraid create NAME"), done
    for args in (("help", "me"), ("me",)):
        done = ddraid(*args)
        assert done.returncode == 2 and done.stderr == "ddraid: unknown command 'me'; ddraid help lists the commands\n", done
    for word, meant in (("stat", "status"), ("Status", "status"), ("statsu", "status"), ("stauts", "status"), ("fenceack", "fence-ack"), ("examin", "examine"),
                        ("verfiy", "verify"), ("st", None), ("xyz", None), ("a", None), ("x" * 300, None), ("--all", None)):
        done = ddraid(word)
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done
        assert (f"did you mean '{meant}'? ddraid help" if meant else "'; ddraid help") in done.stderr, done.stderr
    assert len({ddraid(word).stdout for word in ("version", "--version", "-V")}) == 1


def test_settings_are_checked_before_any_is_sent():
    """The second setting is wrong, and not even the first is sent."""
    done = ddraid("set", "data", "idle_time=5s", "resync=maybe")
    assert done.returncode == 2 and "resync = 'maybe'" in done.stderr, done


def test_users_are_told_to_become_root():
    for args, words in ((("table", "x"), "only root may read the disks"), (("status",), "only root may talk to ddraidd")):
        done = subprocess.run(["unshare", "--user", "--map-user=1000", DDRAID, *args], capture_output=True, text=True, timeout=60,
                              check=False)
        assert done.returncode == 1 and words in done.stderr and len(done.stderr.splitlines()) == 1, done


def test_each_override_has_its_option(images, tmp_path):
    """Finding P1: `--force` overrode at once that a disk holds data, is another array's, and has physical sectors larger than a chunk."""
    paths = images(3)
    shape = ("create", "t", "--order", 1, "--allow-files")
    for command in (("create", "t", "--order", 1, "--force", *paths), ("add", "t", paths[0], "--force"), ("replace", "t", "0", paths[0], "--force")):
        done = ddraid(*command)
        assert done.returncode == 2 and "--overwrite" in done.stderr and "--allow-512e" in done.stderr, done
    subprocess.run(["/sbin/mkfs.ext4", "-q", "-F", paths[1]], check=True)
    for options in ((), ("--allow-512e", "--yes"), ("--unequal", "--yes"), ("--yes",)):
        refused(paths, (*shape, *options, *paths), f"{paths[1]}: holds data (ext4 file system); use another device, or --overwrite")
    refused(paths, (*shape, "--overwrite", *paths), f"{paths[1]}: destroying what it holds (ext4 file system); there is no terminal to ask on. Give --yes")
    refused(paths, ("create", "t", "--order", 1, "--overwrite", "--yes", *paths), "is not a block device")
    for answer, code in (("no\n", 1), ("\x04", 1), ("yes\n", 0)):
        before = digest(paths)
        master, slave = pty.openpty()
        process = subprocess.Popen([DDRAID, *map(str, shape), "--overwrite", *paths], stdin=slave, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        os.close(slave)
        os.write(master, answer.encode())
        _, err = process.communicate(timeout=60)
        os.close(master)
        assert process.returncode == code and "Type yes to continue" in err and "destroying what it holds" in err, (process.returncode, err)
        assert (digest(paths) == before) == (code == 1)
    fresh = [tmp_path / f"fresh{i}" for i in range(3)]
    for path in fresh:
        path.touch()
        resize(path, 8 * MIB)
    assert ddraid("create", "other", *shape[2:], *fresh).returncode == 0         # nothing is overridden, so there is no question


def test_files_need_an_option(images):
    paths = images(3)
    refused(paths, ("create", "t", "--order", 1, *paths), "is not a block device")


def test_same_device_twice(images, tmp_path):
    paths = images(3)
    refused(paths, ("create", "t", "--order", 1, *ANYTHING, paths[0], paths[1], paths[0]), "are the same device")
    link = tmp_path / "link"
    link.symlink_to(paths[1])
    refused(paths, ("create", "t", "--order", 1, *ANYTHING, *paths[:2], link), "are the same device")
    hard = tmp_path / "hard"
    os.link(paths[0], hard)
    refused(paths, ("create", "t", "--order", 1, *ANYTHING, *paths, "--spare", hard), "are the same device")


def test_too_small(images):
    paths = images(3, MIB + MIB // 2)
    refused(paths, ("create", "t", "--order", 1, *ANYTHING, *paths), "too small")
    with open(paths[1], "r+b") as image:
        image.truncate(100)
    refused(paths, ("create", "t", "--order", 1, *ANYTHING, *paths), f"{paths[1]}: ")


@pytest.mark.parametrize("which", [0, 2, 3], ids=["first", "last", "spare"])
def test_unequal_sizes(images, which):
    """More than 1 % is refused by name and size, spares too if they are the smaller ones; less is not."""
    paths = images(4, 20 * MIB)
    args = ("create", "t", "--order", 1, *ANYTHING, *paths[:3], "--spare", paths[3])
    resize(paths[which], 20 * MIB - 20 * MIB // 50)
    refused(paths, args, f"{paths[which]} has {(20 * MIB - 20 * MIB // 50) // 512 * 512} bytes (19.6 MiB) and {paths[which == 0]} has 20971520 bytes (20 MiB)")
    refused(paths, (*[a for a in args if a != "--yes"], "--unequal"), "the disks differ in size")
    assert ddraid(*args, "--unequal").returncode == 0
    resize(paths[which], 20 * MIB - 20 * MIB // 128)
    assert ddraid(*args).returncode == 0
    resize(paths[which], 20 * MIB)
    resize(paths[3], 40 * MIB)
    made = ddraid(*args)
    assert made.returncode == 0 and f"{paths[3]}: 5" in made.stderr and "stays unused" in made.stderr, made


@pytest.mark.parametrize("size", [64 * MIB + 512, 512 * MIB, 12 << 30])
def test_a_disk_that_is_a_little_smaller_fits(images, size):
    """Findings S14, P10: a disk of another maker, a few sectors smaller, was refused as a replacement. create leaves 1 % free, or 100 MiB."""
    paths = images(3, size)
    left = min(size // 100, 100 * MIB)
    array = json.loads(ddraid("create", "t", "--order", 1, *ANYTHING, "--json", *paths).stdout)
    used = array["data_offset"] + array["size"] // 4096 * array["chunk"] + 65536
    assert size - left - 8192 < used <= size - left
    resize(paths[0], size - left)               # the disk that takes its place
    line = ddraid("table", "t", DDRAID_DEVICES=" ".join(map(str, paths)))
    assert line.returncode == 0 and " - " not in line.stdout and line.stderr == "", line
    # what is there belongs to no array
    for path in paths[1:]:
        with open(path, "rb") as image:
            image.seek(size - min(left, MIB))
            assert not any(image.read())


def test_sizes_are_told_in_bytes(images):
    """Finding S14: "has 256 MiB, and the members need 256 MiB"."""
    paths = images(3, 100 * MIB)
    resize(paths[1], 98 * MIB + 512)
    refused(paths, ("create", "t", "--order", 1, *ANYTHING, *paths),
            f"{paths[1]} has {98 * MIB + 512} bytes (98.0 MiB) and {paths[0]} has {100 * MIB} bytes (100 MiB)")


def test_missing_and_wrong_files(images, tmp_path):
    paths = images(2)
    refused(paths, ("create", "t", "--order", 1, *ANYTHING, *paths, tmp_path / "none"), "No such file")
    refused(paths, ("create", "t", "--order", 1, *ANYTHING, *paths, "/dev/null"), "is not a block device")
    refused(paths, ("create", "t", "--order", 1, *ANYTHING, *paths, tmp_path), "is not a block device")


def test_a_failed_write_says_what_is_left(images):
    """The tail cannot be written: what was overwritten is named, and nothing that looks like an array is left."""
    paths = images(3)

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4 * MIB, 4 * MIB))

    untouched = digest(paths[1:])
    done = ddraid("create", "t", "--order", 1, *ANYTHING, *paths, preexec=limit)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert f"content of {paths[0]} is overwritten" in done.stderr and str(paths[1]) not in done.stderr
    assert digest(paths[1:]) == untouched
    assert ddraid("examine", paths[0]).returncode == 1


SHAPES = [(order, parity) for order in range(4) for parity in range(3)]


@pytest.mark.parametrize("order, parity", SHAPES)
def test_every_shape(images, order, parity):
    roles = (1 << order) + parity
    paths = images(roles + 1)
    made = ddraid("create", "a.b", "--order", order, "--parity", parity, *ANYTHING, "--json", "--nodes", 3,
                  "--region-size", "64K", "--spare", paths[-1], *paths[:-1])
    assert made.returncode == 0 and made.stderr == "", made
    array = json.loads(made.stdout)
    assert array["layout"] == ("rotating" if order and parity else "dedicated")
    assert array["chunk"] == 4096 >> order and array["slots"] == 3 and array["region_size"] == 65536
    reports = json.loads(ddraid("examine", "--json", *paths).stdout)
    for index, report in enumerate(reports):
        assert report["valid"] and "errors" not in report
        assert report["array_uuid"] == array["uuid"]
        assert report["size"] == array["size"] and report["suspect_reads"] == "pass"
        assert report["member"]["index"] == index
        assert report["member"]["role"] == (index if index < roles else None)
        assert report["member"]["uuid"] == array["members"][index]["uuid"]
        assert [s["dirty"] for s in report["slots"]] == [[]] * 3
        # both ends are zeroed, and clean where there is parity
        left = max(0, (report["size"] - 16 * MIB) // 65536 - 16 * MIB // 65536) if parity else -(-report["size"] // 65536)
        assert report["unwritten"] == left and report["needs_sync"] == []
    # the member holds its share, and a tail that is not used
    assert array["data_offset"] + array["size"] // 4096 * array["chunk"] + 65536 <= 8 * MIB
    line = ddraid("table", "--uuid", array["uuid"], DDRAID_DEVICES=" ".join(map(str, paths)))
    assert line.stdout == (f"0 {array['size'] // 512} ddraid {array['uuid']} {order} {parity} {array['layout']} 128 "
                           f"{array['data_offset'] // 512} {roles} {' '.join(map(str, paths[:-1]))}\n")
    assert line.stderr == ""


def test_an_array_of_each_format(images):
    """Format 2 is the default, and what upgrade has nothing to do for; format 1 is what an older release knows."""
    paths = images(3)
    for options, number in (((), 2), (("--format", "2"), 2), (("--format", "1"), 1)):
        made = ddraid("create", "t", "--order", "1", *ANYTHING, "--json", *options, *paths)
        assert made.returncode == 0 and json.loads(made.stdout)["format"] == number, made
        shown = ddraid("examine", "--json", *paths)
        assert [disk["format"] for disk in json.loads(shown.stdout)] == 3 * [number], shown
        assert f"\n  format    {number}" in ddraid("create", "t", "--order", "1", *ANYTHING, *options, *paths).stdout


def test_overwrite_replaces_what_is_there(images):
    """An ext4 file system on one, an older array on another: both are named, and neither is found afterwards."""
    paths = images(3)
    subprocess.run(["/sbin/mkfs.ext4", "-q", "-F", paths[0]], check=True)
    assert ddraid("create", "old", "--order", 0, *ANYTHING, *paths[1:]).returncode == 0
    made = ddraid("create", "new", "--order", 1, *ANYTHING, *paths)
    assert made.returncode == 0
    assert f"{paths[0]}: destroying what it holds (ext4 file system)" in made.stderr
    assert f"{paths[1]}: destroying what it holds (member of ddraid array old)" in made.stderr
    for path in paths:
        probe = subprocess.run(["/sbin/blkid", "-p", path], capture_output=True, text=True, check=False)
        assert probe.stdout == "", probe.stdout
        assert json.loads(ddraid("examine", "--json", path).stdout)[0]["name"] == "new"
    everything = " ".join(map(str, paths))
    assert "no device belongs" in ddraid("table", "old", DDRAID_DEVICES=everything).stderr


@pytest.mark.parametrize("order, parity", [(0, 0), (0, 1)])
def test_nothing_of_an_old_array_shows_on_a_new_one(images, order, parity):
    """Finding S11: a file system in an array, then `create` again on the same disks: blkid found it on the new array, and it mounted."""
    paths = images(1 + parity, 24 * MIB)
    args = ("--order", order, "--parity", parity, *ANYTHING, "--json")
    old = json.loads(ddraid("create", "old", *args, *paths).stdout)
    probe = ["/sbin/blkid", "-p", "-O", str(old["data_offset"]), "-S", str(old["size"]), "-o", "value", "-s", "TYPE"]
    for path in paths:
        subprocess.run(["/sbin/mkfs.ext4", "-q", "-F", "-E", f"offset={old['data_offset']}", path, f"{old['size'] // 1024}k"], check=True)
        assert subprocess.run([*probe, path], capture_output=True, text=True, check=False).stdout.strip() == "ext4"
    made = ddraid("create", "new", *args, *paths)
    assert made.returncode == 0
    assert (json.loads(made.stdout)["data_offset"], json.loads(made.stdout)["size"]) == (old["data_offset"], old["size"])
    for path in paths:
        assert subprocess.run([*probe, path], capture_output=True, text=True, check=False).stdout == ""


def test_output_that_cannot_be_written(images):
    paths = images(2)
    assert ddraid("create", "t", "--order", 0, *ANYTHING, *paths).returncode == 0
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run([DDRAID, "examine", paths[0]], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1 and "cannot write the output" in done.stderr


def test_the_name_of_another_array_is_refused(images):
    """Finding S13: two arrays with the same name: create accepted that, and one of them could never be started."""
    five = images(5)
    everything = " ".join(map(str, five))
    one, two = five[:2], five[2:4]
    args = ("create", "same", "--order", 0, *ANYTHING)
    assert ddraid(*args, *one, DDRAID_DEVICES=everything).returncode == 0
    before = digest(five)
    done = ddraid(*args, *two, DDRAID_DEVICES=everything)
    assert done.returncode == 1 and "an array with the name same already exists" in done.stderr and done.stderr.count("\n") == 1, done
    done = ddraid(*args, one[0], two[0], DDRAID_DEVICES=everything)         # a disk of it is left over
    assert done.returncode == 1 and f"{one[1]} belongs to it" in done.stderr, done
    assert digest(five) == before
    assert ddraid(*args, *one, DDRAID_DEVICES=everything).returncode == 0   # recreated on its own disks
    assert ddraid("create", "other", "--order", 0, *ANYTHING, *two, DDRAID_DEVICES=everything).returncode == 0


def test_new_names_are_checked():
    """Findings S15, P8: rename takes no name that cannot work, and needs two."""
    for name, words in (("control", "device-mapper itself"), ("0e6f9f86-0000-4000-8000-000000000000", "looks like a uuid"), ("a b", "a name consists"),
                        ("-x", "unknown option '-x'")):
        done = ddraid("rename", "data", name)
        assert done.returncode == 2 and words in done.stderr, done
    for args in ((), ("data",), ("data", "a", "b")):
        assert ddraid("rename", *args).returncode == 2


def test_table_refuses(images, tmp_path):
    six = images(6)
    one, two = six[:3], six[3:]
    for paths in (one, two):
        assert ddraid("create", "same", "--order", 1, *ANYTHING, *paths, DDRAID_DEVICES=str(paths[0])).returncode == 0

    def table(which, paths, words):
        done = ddraid("table", which, DDRAID_DEVICES=" ".join(map(str, paths)))
        assert done.returncode == 1 and done.stdout == "" and len(done.stderr.splitlines()) == 1
        assert words in done.stderr
    table("same", one + two, "two arrays have the name same")
    table("same", one[:1], "needs 2 members in sync, and has 1")
    table("other", one, "no device belongs to an array with the name other")
    table("0e6f9f86-0000-4000-8000-000000000000", one, "with the uuid")
    copy = tmp_path / "copy"
    copy.write_bytes(one[2].read_bytes())
    table("same", [*one, copy], "are the same member, 2")
    degraded = ddraid("table", "same", DDRAID_DEVICES=" ".join(map(str, one[:2])))
    assert degraded.returncode == 0 and degraded.stdout.endswith(" -\n")
    assert "degraded: member 2 is missing" in degraded.stderr
