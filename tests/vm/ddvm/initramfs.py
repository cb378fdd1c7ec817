# SPDX-License-Identifier: GPL-2.0-or-later
"""A small initramfs: static busybox, the modules to reach the root image, the guest's files.

The guest's own files (init, agent) travel here and not in the root image, so
that changing them never means building the image again.
"""

import gzip
import lzma
import os
import pathlib
import shutil
import stat
import subprocess

from .config import GUEST_FILES, HarnessError

# crc32c_generic: erofs requests it through the crypto API, which no dependency shows.
BOOT_MODULES = ["virtio_pci", "virtio_blk", "virtio_console", "crc32c_generic", "erofs",
                "overlay"]
KEEP_MODULES = ["ext4"]         # loaded only where the root file system outlives a boot
APPLETS = ["cp", "insmod", "ln", "mkdir", "mount", "poweroff", "sleep", "switch_root"]


def _entry(name, mode, data=b"", rdev=(0, 0), ino=0):
    """One record of a cpio archive in the `newc` form (Documentation: initramfs buffer format)."""
    raw = name.encode() + b"\0"
    fields = [ino, mode, 0, 0, 1, 0, len(data), 0, 0, rdev[0], rdev[1], len(raw), 0]
    head = b"070701" + b"".join(b"%08X" % f for f in fields) + raw
    head += b"\0" * (-len(head) % 4)
    return head + data + b"\0" * (-len(data) % 4)


def _pack(files):
    """cpio bytes of [(name, mode, data, rdev)] in that order."""
    out = [_entry(name, mode, data, rdev, ino)
           for ino, (name, mode, data, rdev) in enumerate(files, 1)]
    return b"".join(out) + _entry("TRAILER!!!", 0)


def read_module(path):
    """The module's ELF bytes, whatever it is compressed with."""
    data = pathlib.Path(path).read_bytes()
    if path.suffix == ".xz":
        return lzma.decompress(data)
    if path.suffix == ".gz":
        return gzip.decompress(data)
    if path.suffix == ".zst":
        return subprocess.run(["zstd", "-dc"], input=data, check=True,
                              capture_output=True).stdout
    return data


def _load_order(modules_dir, names):
    """Files of these modules and what they need, in the order of loading.

    Modules that are built into the kernel are left out.
    """
    needs, by_name = {}, {}
    dep_file = modules_dir / "modules.dep"
    for line in dep_file.read_text().splitlines() if dep_file.exists() else []:
        path, _, deps = line.partition(":")
        needs[path] = deps.split()
        by_name[os.path.basename(path).split(".")[0].replace("-", "_")] = path
    order = []

    def visit(path):
        for dep in needs[path]:
            visit(dep)
        if path not in order:
            order.append(path)

    for name in names:
        if name in by_name:
            visit(by_name[name])
    return [modules_dir / p for p in order]


def build(modules_dir):
    """The bytes of the initramfs for the kernel whose /lib/modules/VERSION is `modules_dir`."""
    busybox = shutil.which("busybox")
    if not busybox:
        raise HarnessError("no busybox: apt-get install busybox-static")
    directory, regular = stat.S_IFDIR | 0o755, stat.S_IFREG | 0o755
    files = [(d, directory, b"", (0, 0)) for d in
             ("bin", "dev", "proc", "sys", "mnt", "rw", "modules", "keep", "guest", "layer",
              "layer/ddvm-root", "layer/ddvm-kmods", "layer/ddvm-stage")]
    files += [(f"bin/{a}", stat.S_IFLNK | 0o777, b"busybox", (0, 0)) for a in APPLETS]
    files.append(("dev/console", stat.S_IFCHR | 0o600, b"", (5, 1)))
    files.append(("bin/busybox", regular, pathlib.Path(busybox).read_bytes(), (0, 0)))
    files.append(("init", regular, (GUEST_FILES / "initramfs-init").read_bytes(), (0, 0)))
    for name in ("init", "agent.py", "agent.service", "fence"):
        files.append((f"guest/{name}", regular, (GUEST_FILES / name).read_bytes(), (0, 0)))
    for where, names in (("modules", BOOT_MODULES), ("keep", KEEP_MODULES)):
        for number, path in enumerate(_load_order(modules_dir, names)):
            name = path.name.split(".")[0]
            files.append((f"{where}/{number:02d}-{name}.ko", stat.S_IFREG | 0o644,
                          read_module(path), (0, 0)))
    return _pack(files)
