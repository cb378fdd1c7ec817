# SPDX-License-Identifier: GPL-2.0-or-later
"""An array of format 2: `ddraid upgrade`, and what a real daemon and kernel do with such an array afterwards. No finding."""
import re

import pytest

from serving import DEV, serving  # noqa: F401

VM = {"disks": 6, "size": "64M"}
MEMBERS = [f"/dev/vd{c}" for c in "abcde"]
SUM = f"dd if={DEV} bs=64k count=64 iflag=direct status=none | sha256sum"


@pytest.mark.parametrize("stop", ["stop", "daemon"])
def test_an_array_is_upgraded_and_used(serving, stop):
    """It holds what it held, takes writes, survives its daemon, loses a member and gets a new one, and is found by its superblocks again."""
    serving.begin()
    serving.array(extra="--overwrite --yes --format 1")
    node = serving.node
    node.run(f"dd if=/dev/urandom of={DEV} bs=64k count=64 oflag=direct conv=nocreat status=none")
    before = node.run(SUM).out
    serving.guest.stop("data")
    node.run("ddraid upgrade data", timeout=60)
    again = node.run("ddraid upgrade data", check=False, timeout=60)
    assert "format 2" in again.out + again.err, again
    serving.guest.start("data")
    assert node.run(SUM).out == before
    serving.write(3)
    before = node.run(SUM).out
    if stop == "daemon":
        serving.guest.kill_daemon()
        serving.begin()
        serving.wait_ready()
        serving.write(4)
    serving.guest.command("fail data 1")
    serving.guest.command("add data /dev/vdf --overwrite --yes", timeout=90)
    serving.guest.command("replace data 1 5", timeout=90, check=False)
    node.wait_until("ddraid status data --json | grep -A8 '\"index\": 5' | grep -q in-sync", 120)
    assert node.run(SUM).out == before
    serving.guest.wait_idle("data")
    serving.guest.stop("data")
    for dev in ("/dev/vda", "/dev/vdc", "/dev/vdf"):
        text = node.run(f"ddraid examine {dev}").out
        assert re.search(r"^ *format +2,", text, re.M), text
    serving.guest.start("data")
    assert node.run(SUM).out == before
    serving.guest.stop("data")
