# SPDX-License-Identifier: GPL-2.0-or-later
"""What the cases of the channel share. See kchan_cases.py."""
import contextlib
import mmap
import os
import re
import subprocess
import uuid

from kchan import Array, BLOCK, GRANT, IO, LOCK, wait_for

RB = 256        # blocks in a region of the usual array


@contextlib.contextmanager
def array(**kwargs):
    """An array that is gone afterwards, whatever waits in it."""
    a = Array(**kwargs)
    try:
        yield a
    finally:
        # force ends what waits; the waiting process may take a moment to close the device
        wait_for(lambda: not (a.dm("remove", "--force", a.name, check=False), os.path.exists(a.path))[1], 30)


def stops(a):
    """How often the kernel has reported that the array's writes wait because its daemon does not respond."""
    log = subprocess.run(["dmesg"], capture_output=True, check=True).stdout.decode(errors="replace")
    return len(re.findall(rf"{uuid.UUID(bytes=a.uuid)} \({a.name}\): no daemon serves the array, (?:reads and )?writes wait", log))


def grant(ch, r):
    ch.send(GRANT, seq=r.seq, start=r.start, count=r.count)


def written(a, ch, region, data=0x11):
    """Writes the first block of a region that is not granted yet, granting it."""
    w = IO(a.path, region * RB, data)
    r = ch.until(LOCK, start=region)
    grant(ch, r)
    assert w.done() == 0
    return r


def member_bytes(a, block, blocks):
    """What the members hold of a range, past every cache."""
    out = []
    for device in a.devices:
        fd = os.open(device, os.O_RDONLY | os.O_DIRECT)
        area = mmap.mmap(-1, blocks * BLOCK // 2)
        assert os.preadv(fd, [area], a.offset * 512 + block * BLOCK // 2) == len(area)
        out.append(bytes(area))
        os.close(fd)
    return out
