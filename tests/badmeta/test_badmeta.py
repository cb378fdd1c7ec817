# SPDX-License-Identifier: GPL-2.0-or-later
"""`ddraid examine` names every defect of a member's metadata, and shows what is still valid beside it."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
import badmeta  # noqa: E402

TOP = pathlib.Path(__file__).resolve().parents[2]
DDRAID = pathlib.Path(os.environ.get("DDRAID_BUILDDIR", TOP / "build")) / "cli" / "ddraid"
DEFECTS = badmeta.defects()


def ddraid(*args, **env):
    return subprocess.run([DDRAID, *map(str, args)], capture_output=True, text=True, timeout=60,
                          env=dict(os.environ, **env))


def new_members(tmp_path_factory, number):
    """The images of a new order-2 array of format @number."""
    paths = [tmp_path_factory.mktemp("good") / f"member{i}" for i in range(5)]
    for path in paths:
        with open(path, "wb") as image:
            image.truncate(4 << 20)
    made = ddraid("create", "fix", "--format", number, "--order", 2, "--allow-files", "--overwrite", "--yes", *paths)
    assert made.returncode == 0, made.stderr
    return paths


@pytest.fixture(scope="module")
def members(tmp_path_factory):
    return new_members(tmp_path_factory, 2)


@pytest.fixture(scope="module")
def members_of_format_1(tmp_path_factory):
    return new_members(tmp_path_factory, 1)


@pytest.fixture
def examine(members, members_of_format_1, tmp_path):
    def run(defect):
        bad = tmp_path / "bad"
        badmeta.make(defect, (members_of_format_1 if defect.startswith("lie:super:") else members)[0], bad)
        done = ddraid("examine", "--json", bad)
        assert done.returncode in (0, 1), done.stderr
        report, = json.loads(done.stdout)
        assert done.returncode == (0 if report["valid"] else 1)
        text = ddraid("examine", bad)
        for error in report["errors"]:
            assert f"  damaged    {error}\n" in text.stdout
        return report
    return run


def of(prefix):
    return [d for d in DEFECTS if d.startswith(prefix)]


def test_the_list_covers_every_field_of_the_header():
    """badmeta's own table has no gap: its fields and the entries of the tables fill the blocks."""
    end = 0
    for name, (at, size) in badmeta.SUPER.items():
        if "[" not in name:
            assert at == end, name
            end = at + size
    assert end == 1024
    assert sum(size for _, size in badmeta.MEMBER.values()) == 64
    assert sum(size for _, size in badmeta.SLOT.values()) == 32
    assert sum(size for _, size in badmeta.LOG.values()) == 4096
    assert sum(size for _, size in badmeta.PAGE.values()) == 256
    assert sum(size for _, size in badmeta.OWNER.values()) == 256
    assert sum(size for _, size in badmeta.DISK.values()) == 256
    assert sum(size for _, size in badmeta.DEBTOR.values()) == 128
    assert sum(size for _, size in badmeta.STAMP.values()) == 4096
    assert badmeta.crc32c(b"123456789") == 0xe3069283


def test_a_good_member_has_no_errors(members):
    done = ddraid("examine", "--json", *members)
    assert done.returncode == 0, done.stderr
    for index, report in enumerate(json.loads(done.stdout)):
        assert report["valid"] and "errors" not in report
        assert report["member"]["index"] == index


@pytest.mark.parametrize("defect", of("flip:super0:") + of("flip:super1:"))
def test_one_superblock_copy_damaged(examine, defect):
    """The other copy serves, and the damaged field is named."""
    copy, field = defect[len("flip:super")], defect.split(":")[2]
    report = examine(defect)
    assert report["valid"] and report["name"] == "fix" and report["order"] == 2 and report["format"] == 2
    error, = report["errors"]
    assert error.startswith(f"superblock copy {copy} at byte ")
    if field in ("magic", "version", "length"):
        assert field in error
    else:
        assert "crc32c is " in error
        if field not in ("crc32c", "seq", "owner_crc"):
            assert f"differs from the valid copy in {field}" in error


@pytest.mark.parametrize("defect", of("flip:super:"))
def test_both_superblock_copies_damaged(examine, defect):
    report = examine(defect)
    assert not report["valid"] and "name" not in report
    text = " ".join(report["errors"])
    assert "superblock" in text
    assert any(w in text for w in ("crc32c", "magic", "version", "length"))


@pytest.mark.parametrize("defect", of("lie:super:"))
def test_a_superblock_that_lies(examine, defect):
    report = examine(defect)
    assert not report["valid"]
    assert badmeta.word(defect) in report["errors"][0]


@pytest.mark.parametrize("defect", of("flip:log-new:") + of("flip:map-new:"))
def test_newer_place_damaged(examine, defect):
    """The older place serves: all of this small array is clean, since create has zeroed it."""
    report = examine(defect)
    assert report["valid"] and report["regions"] > 0
    assert (report["unwritten"], report["unknown"], report["needs_sync"]) == (0, 0, [])
    error, = report["errors"]
    assert ("log of slot 0 block 0 place" if "log" in defect else "region map block 0 place") in error
    assert all(slot["unreadable_blocks"] == 0 for slot in report["slots"])


@pytest.mark.parametrize("defect", of("flip:log:") + of("lie:log:"))
def test_both_places_of_a_log_block_damaged(examine, defect):
    """Never "nothing dirty"."""
    report = examine(defect)
    assert report["valid"]
    assert report["slots"][0]["unreadable_blocks"] == 1
    assert len(report["errors"]) == 3
    assert "count as dirty" in report["errors"][2]
    assert (badmeta.word(defect) or "log of slot 0") in report["errors"][0]


@pytest.mark.parametrize("defect", of("flip:map:") + of("lie:map:"))
def test_both_places_of_a_map_block_damaged(examine, defect):
    report = examine(defect)
    assert report["valid"]
    assert report["unknown"] == report["regions"] and report["unwritten"] == 0
    assert "count as written" in report["errors"][2]
    assert (badmeta.word(defect) or "region map") in report["errors"][0]


def test_a_member_of_format_2(members, tmp_path):
    """badmeta's own writer of format 2, from the document, and the reader agree."""
    good = tmp_path / "good"
    shutil.copyfile(members[0], good)
    with open(good, "r+b") as image:
        badmeta.Member(image).raise_format()
    done = ddraid("examine", "--json", good)
    assert done.returncode == 0, done.stdout
    report, = json.loads(done.stdout)
    assert report["format"] == 2 and "errors" not in report
    assert report["slots"][0]["stamp"]["number"] == 3 and report["slots"][0]["stamp"]["node"] == 1


@pytest.mark.parametrize("defect", of("flip:page0:") + of("flip:page1:"))
def test_owner_pages_of_one_superblock_copy_damaged(examine, defect):
    """A superblock without its pages counts as torn; the other copy serves."""
    report = examine(defect)
    assert report["valid"] and report["format"] == 2
    error, = report["errors"]
    assert error.startswith(f"superblock copy {defect[len('flip:page')]} at byte ") and "owner pages" in error


@pytest.mark.parametrize("defect", of("flip:page:") + of("flip:disks:") + of("flip:debtors:"))
def test_owner_pages_of_both_superblock_copies_damaged(examine, defect):
    report = examine(defect)
    assert not report["valid"] and "name" not in report
    assert all("owner pages" in error for error in report["errors"][-2:]), report["errors"]


@pytest.mark.parametrize("defect", of("lie:page:") + of("lie:disks:") + of("lie:debtors:"))
def test_owner_pages_that_lie(examine, defect):
    report = examine(defect)
    assert not report["valid"]
    assert badmeta.word(defect) in report["errors"][0]


@pytest.mark.parametrize("defect", of("flip:stamp:") + of("lie:stamp:"))
def test_both_stamps_of_a_slot_damaged(examine, defect):
    """A stamp that is not valid proves nothing, and costs nothing."""
    report = examine(defect)
    assert report["valid"] and not any(slot["stamp"] for slot in report["slots"])
    assert len(report["errors"]) == 2
    for place, error in enumerate(report["errors"]):
        assert error.startswith(f"stamp {place} of slot 0 at byte ")
        assert (badmeta.word(defect) or "") in error


def test_what_cannot_be_opened_is_not_called_damaged(tmp_path):
    absent = tmp_path / "absent"
    done = ddraid("examine", absent)
    assert done.returncode == 1
    assert done.stdout.splitlines() == [f"{absent}: no valid member", f"  unread     {absent}: No such file or directory"]


def test_assembly_uses_the_other_copy(members, tmp_path):
    """A damaged copy costs nothing; two of them cost the member."""
    bad = tmp_path / "bad"
    for defect, missing in (("flip:super0:order", 0), ("flip:super1:order", 0), ("flip:super:order", 1),
                            ("lie:super:order", 1)):
        badmeta.make(defect, members[0], bad)
        listed = " ".join(map(str, [bad, *members[1:]]))
        line = ddraid("table", "fix", DDRAID_DEVICES=listed)
        assert line.returncode == 0, line.stderr
        devices = line.stdout.split()[10:15]
        assert devices.count("-") == missing
        assert devices[1:] == [str(m) for m in members[1:]]
        assert ("degraded" in line.stderr) == bool(missing)


def test_the_document_has_the_same_fields():
    """doc/on-disk-format.md against the table that the defects are made by."""
    document = (TOP / "doc" / "on-disk-format.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (\d+) \| `(\w+)` \|", document, re.M)
    header = {name: at for name, at in badmeta.SUPER.items() if "[" not in name}
    tables = [header, badmeta.MEMBER, badmeta.SLOT, badmeta.LOG,
              badmeta.PAGE, badmeta.OWNER, badmeta.DISK, badmeta.DEBTOR, badmeta.STAMP]
    expected = [field for table in tables for field in table.items()]
    assert [(name, (int(at), int(size))) for at, size, name in rows] == expected
