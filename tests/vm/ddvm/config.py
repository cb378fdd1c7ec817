# SPDX-License-Identifier: GPL-2.0-or-later
"""Where the harness keeps things, and whether the machine can run it.

Every setting comes from the environment, so that a test never has to name a
path of the machine it runs on.  Must never print a trace for a missing
resource: check_machine() says in one line what is missing and what to do.
"""

import contextlib
import fcntl
import os
import pathlib
import shutil
import sys


class HarnessError(Exception):
    """The machine or the request is at fault; the text is one line for the user."""


TOP = pathlib.Path(__file__).resolve().parents[3]
GUEST_FILES = pathlib.Path(__file__).resolve().parent / "guest"

TOOLS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "mmdebstrap": "mmdebstrap",
    "mkfs.erofs": "erofs-utils",
    "busybox": "busybox-static",
    "depmod": "kmod",
    "ip": "iproute2",
    "zstd": "zstd",
    "dpkg-deb": "dpkg",
    "apt-get": "apt",
}

GIB = 1 << 30


def cache_dir():
    """Images and kernels that several runs share; created when absent."""
    path = pathlib.Path(os.environ.get("DDRAID_CACHE", "/var/cache/ddraid"))
    path.mkdir(parents=True, exist_ok=True)
    return path


def work_root():
    """Parent of the directories of single runs (disks, logs, sockets)."""
    path = pathlib.Path(os.environ.get("DDRAID_VMTMP", "/var/tmp/ddraid-vm"))
    path.mkdir(parents=True, exist_ok=True)
    return path


def build_dir():
    return pathlib.Path(os.environ.get("DDRAID_BUILDDIR", TOP / "build"))


def stage_dir():
    """What `make install DESTDIR=` filled, or None where nothing was built."""
    named = os.environ.get("DDRAID_STAGE")
    if named:
        path = pathlib.Path(named)
        if not path.is_dir():
            raise HarnessError(
                f"DDRAID_STAGE={named}: not a directory; run make install DESTDIR={named}")
        return path
    stage = build_dir() / "stage"
    return stage if stage.is_dir() else None


def time_scale():
    """Factor for every time limit; machines without KVM that are busy need more."""
    return float(os.environ.get("DDRAID_VM_TIMESCALE", "1"))


@contextlib.contextmanager
def locked(path):
    """Hold an exclusive lock on `path` (made when absent) for the block's time."""
    with open(path, "w", encoding="ascii") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _mem_available():
    with open("/proc/meminfo", encoding="ascii") as info:
        for line in info:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0


def check_memory(guest_mib):
    """Refuse to start a guest that the machine's free memory does not hold."""
    need = (guest_mib + 128) << 20
    have = _mem_available()
    if have < need:
        raise HarnessError(
            f"a node needs {need >> 20} MiB of memory, only {have >> 20} MiB are "
            "available: stop other machines or lower the node's memory")


def _check_space(path, need):
    free = shutil.disk_usage(path).free
    if free < need:
        raise HarnessError(f"{path}: {free // (1 << 20)} MiB free, the virtual machines "
                           f"need {need // (1 << 20)} MiB: free space or set "
                           "DDRAID_CACHE and DDRAID_VMTMP")


def check_machine():
    """Raise HarnessError unless root, the tools, disk space and memory are there."""
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        raise HarnessError("the virtual machines need Linux on x86_64")
    if os.geteuid() != 0:
        raise HarnessError("the virtual machines need root (image building): use sudo")
    missing = sorted({pkg for tool, pkg in TOOLS.items() if not shutil.which(tool)})
    if missing:
        raise HarnessError("missing packages, install them with: apt-get install "
                           + " ".join(missing))
    _check_space(cache_dir(), 3 * GIB)
    _check_space(work_root(), 3 * GIB)
    check_memory(768)
