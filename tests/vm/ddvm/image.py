# SPDX-License-Identifier: GPL-2.0-or-later
"""The root file system of all guests: Debian packages in one read-only erofs file.

Made once for a package list and suite, then shared by every node of every run.
Nothing of ddraid is in it; what was built comes as a second layer (stage.py).
"""

import hashlib
import os
import shutil
import subprocess
import tempfile

from . import apt
from .config import HarnessError, cache_dir, locked

SUITE = "bookworm"

PACKAGES = sorted("""
    bsdextrautils corosync dlm-controld dmsetup e2fsprogs fio gfs2-utils iproute2
    iputils-ping kmod libblkid1 libcmap4 libcpg4 libdevmapper1.02.1 libisal2
    libjson-c5 libqb100 libquorum5 libsystemd0 libudev1 liburing2 libuuid1 mdadm nbd-client
    nbd-server procps python3 python3-minimal strace stress-ng util-linux xfsprogs
    """.split())

SYSTEMD_PACKAGES = sorted(PACKAGES + ["dbus", "systemd-sysv", "udev"])
# What else administrators have on a machine with arrays.
NEIGHBOURS = sorted(SYSTEMD_PACKAGES + """
    cryptsetup-bin dmeventd gdisk kpartx lvm2 lvm2-lockd multipath-tools pacemaker
    pacemaker-cli-utils parted psmisc sg3-utils
    """.split())

NOT_NEEDED = ["/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*",
              "/usr/share/info/*", "/boot/*"]


# Neither the time of the packing nor a new id is in it.
SAME = ["-T", "1600000000", "-U", "6464766d-0000-4000-8000-000000000001"]


def mkfs_erofs(target, tree, same=False):
    """
    Pack directory `tree` into the erofs file `target`, which appears whole or not at all. `same`: equal trees make equal files, whose
    files are all of one age.
    """
    part = f"{target}.{os.getpid()}.part"
    done = subprocess.run(["mkfs.erofs", "--quiet", "--all-root", *(SAME if same else []), part, tree],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        raise HarnessError(f"mkfs.erofs {target} failed: {done.stderr.strip()}")
    os.rename(part, target)


def make_ext4(path, size):
    """An empty ext4 of that many bytes in a sparse file."""
    with open(path, "wb") as handle:
        handle.truncate(size)
    done = subprocess.run(["/sbin/mkfs.ext4", "-q", "-F", path], capture_output=True, text=True, check=False)
    if done.returncode:
        raise HarnessError(f"mkfs.ext4 {path} failed: {done.stderr.strip()}")


def root_image(systemd=False, neighbours=False):
    """Path of the root image; builds it (about half a minute) when it is not cached."""
    packages = NEIGHBOURS if neighbours else SYSTEMD_PACKAGES if systemd else PACKAGES
    key = hashlib.sha256("\n".join([SUITE, *packages, *NOT_NEEDED]).encode()).hexdigest()[:16]
    path = cache_dir() / f"root-{key}.erofs"
    with locked(cache_dir() / f"root-{key}.lock"):
        if path.exists():
            return path
        work = tempfile.mkdtemp(prefix="root-", dir=cache_dir())
        try:
            tree = os.path.join(work, "tree")
            apt.bootstrap(SUITE, packages, tree,
                          [f"--dpkgopt=path-exclude={p}" for p in NOT_NEEDED])
            mkfs_erofs(path, tree)
        finally:
            shutil.rmtree(work, ignore_errors=True)
    return path
