# SPDX-License-Identifier: GPL-2.0-or-later
"""Kernels to boot: Debian 12's, Debian 13's, unstable's, one that finds mistakes, or a directory with one's own.

A kernel is an image that QEMU boots, a release string, a modules tree on the
host (for depmod and initramfs) and the same tree as an erofs layer.
"""

import dataclasses
import hashlib
import lzma
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import zlib

from . import apt, initramfs
from .config import GUEST_FILES, TOP, HarnessError, cache_dir, locked
from .image import mkfs_erofs

SUITES = ("bookworm", "trixie", "sid")
DEBUG_BUILD = TOP / "tests" / "vm" / "debug" / "build"

# The subtrees of /lib/modules/VERSION/kernel that guests use; the rest is most of its size.
MODULE_TREES = ["arch", "block", "crypto", "fs", "lib", "mm", "net", "virt",
                "drivers/block", "drivers/char", "drivers/dca", "drivers/dma", "drivers/md",
                "drivers/net/bonding", "drivers/net", "drivers/nvme", "drivers/scsi",
                "drivers/target", "drivers/virtio", "drivers/watchdog"]
SKIPPED_TREES = ["drivers/net/ethernet", "drivers/net/wireless", "drivers/net/usb",
                 "drivers/net/wwan", "drivers/net/can", "drivers/net/dsa",
                 "drivers/net/phy", "drivers/net/hamradio", "drivers/net/ieee802154"]


@dataclasses.dataclass(frozen=True)
class Kernel:
    """One bootable kernel; all paths are absolute and stay valid for the run."""
    name: str
    release: str
    image: pathlib.Path
    initramfs: pathlib.Path
    modules: pathlib.Path          # holds lib/modules/<release>
    modules_image: pathlib.Path    # the same as erofs

    @property
    def version(self):
        """(major, minor) as numbers."""
        major, minor = self.release.split(".")[:2]
        return int(major), int("".join(c for c in minor if c.isdigit()))


def _decompress(payload):
    if payload[:6] == b"\xfd7zXZ\0":
        return lzma.LZMADecompressor().decompress(payload)
    if payload[:2] == b"\x1f\x8b":
        return zlib.decompressobj(31).decompress(payload)
    if payload[:4] == b"\x28\xb5\x2f\xfd":
        # The frame is followed by its size, which zstd takes for a second, broken frame.
        done = subprocess.run(["zstd", "-dc"], input=payload, capture_output=True, check=False)
        return done.stdout
    raise HarnessError("kernel image: payload is neither xz, gzip nor zstd")


def extract_vmlinux(bzimage):
    """The ELF file inside a bzImage, for booting by PVH.

    Saves the guest's own decompression, two seconds under emulation.  Offsets
    from the kernel's Documentation/arch/x86/boot.rst.
    """
    setup_sects = bzimage[0x1f1] or 4
    if bzimage[0x202:0x206] != b"HdrS":
        raise HarnessError("kernel image: no bzImage")
    offset, length = struct.unpack_from("<II", bzimage, 0x248)
    start = (setup_sects + 1) * 512 + offset
    elf = _decompress(bzimage[start:start + length])
    if elf[:4] != b"\x7fELF":
        raise HarnessError("kernel image: payload holds no ELF file")
    return elf


def _copy_modules(source, tree, release):
    """Copy the wanted part of a modules directory below `tree`, and index it."""
    target = tree / "lib" / "modules" / release
    target.mkdir(parents=True)
    for name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
        if (source / name).exists():
            shutil.copy(source / name, target / name)
    skipped = {str(source / "kernel" / s) for s in SKIPPED_TREES}

    def ignore(directory, names):
        return [n for n in names if os.path.join(directory, n) in skipped]

    for part in MODULE_TREES:
        if (source / "kernel" / part).is_dir():
            shutil.copytree(source / "kernel" / part, target / "kernel" / part,
                            ignore=ignore, dirs_exist_ok=True)
    run_depmod(tree, release)


def run_depmod(base, release):
    """Make modules.dep and friends for base/lib/modules/release."""
    done = subprocess.run(["depmod", "-b", base, release], capture_output=True,
                          text=True, check=False)
    if done.returncode:
        raise HarnessError(f"depmod for {release} failed: {done.stderr.strip()}")


def _load(name, key, release):
    """The Kernel that is in the cache under `key`."""
    final = cache_dir() / f"kernel-{key}"
    tree = final / "modules"
    return Kernel(name, release, final / "image", _initramfs(final, tree, release),
                  tree, final / "modules.erofs")


def _install(name, key, image, modules_source, raw_image=False):
    """Put a kernel into the cache, once for a key, and return it."""
    final = cache_dir() / f"kernel-{key}"
    release = modules_source.name
    with locked(cache_dir() / f"kernel-{key}.lock"):
        if not final.exists():
            work = pathlib.Path(tempfile.mkdtemp(prefix="kernel-", dir=cache_dir()))
            try:
                data = image.read_bytes()
                (work / "image").write_bytes(data if raw_image else extract_vmlinux(data))
                tree = work / "modules"
                usrmerged(tree)
                _copy_modules(modules_source, tree, release)
                mkfs_erofs(work / "modules.erofs", tree)
                work.chmod(0o755)
                work.rename(final)
            finally:
                shutil.rmtree(work, ignore_errors=True)
        return _load(name, key, release)


def usrmerged(tree):
    """Make the top of a layer's tree: /lib and so on are links, as in the root image.

    A layer with a real /lib would hide the root image's.
    """
    for name in ("bin", "lib", "lib64", "sbin"):
        (tree / "usr" / name).mkdir(parents=True)
        (tree / name).symlink_to(f"usr/{name}")


def _initramfs(directory, tree, release):
    """The kernel's initramfs; rebuilt when a guest file changed."""
    digest = hashlib.sha256(str((initramfs.BOOT_MODULES, initramfs.KEEP_MODULES)).encode())
    for path in sorted(GUEST_FILES.iterdir()):
        digest.update(path.read_bytes())
    digest.update(pathlib.Path(initramfs.__file__).read_bytes())
    path = directory / f"initramfs-{digest.hexdigest()[:16]}"
    if not path.exists():
        part = directory / f"initramfs.{os.getpid()}.part"
        part.write_bytes(initramfs.build(tree / "lib" / "modules" / release))
        part.rename(path)
    return path


def _installed_bookworm():
    """(image, modules directory) of the newest installed 6.1 package kernel, or None."""
    found = []
    for image in pathlib.Path("/boot").glob("vmlinuz-6.1.0-*-amd64"):
        modules = pathlib.Path("/lib/modules") / image.name.split("-", 1)[1]
        if (modules / "kernel").is_dir():
            found.append((int(image.name.split("-")[2]), image, modules))
    return max(found)[1:] if found else None


def _from_suite(suite):
    """Download a suite's kernel packages, once, and put the kernel into the cache."""
    marker = cache_dir() / f"kernel-suite-{suite}"
    with locked(cache_dir() / f"kernel-suite-{suite}.lock"):
        if marker.exists():
            key, release = marker.read_text().split()
            if (cache_dir() / f"kernel-{key}").exists():
                return _load(suite, key, release)
        private = apt.PrivateApt(suite)
        private.update()
        packages = private.kernel_packages()
        with tempfile.TemporaryDirectory(prefix="debs-", dir=cache_dir()) as work:
            private.unpack(packages, work)
            work = pathlib.Path(work)
            modules = [m for m in work.glob("**/lib/modules/*") if (m / "kernel").is_dir()]
            images = list(work.glob("boot/vmlinuz-*")) + list(work.glob("**/modules/*/vmlinuz"))
            if len(modules) != 1 or not images:
                raise HarnessError(f"suite {suite}: kernel packages {packages} hold "
                                   f"{len(images)} images and {len(modules)} module trees")
            key = f"{suite}-{modules[0].name}"
            kernel = _install(suite, key, images[0], modules[0])
        marker.write_text(f"{key} {kernel.release}\n")
        return kernel


def debug_directory():
    """The directory of the kernel that finds mistakes, with `tree` to build modules in; built if it is missing."""
    directory = cache_dir() / "kernel-with-debugging"
    with locked(cache_dir() / "kernel-with-debugging.lock"):
        if not directory.is_dir():
            done = subprocess.run([DEBUG_BUILD, directory], capture_output=True, text=True, check=False)
            if done.returncode:
                raise HarnessError(f"the debug kernel does not build: {done.stderr.strip()[-2000:]}")
    return directory


def get(name=None):
    """The Kernel called `name`.

    bookworm, trixie, sid: Debian's; debug: with KASAN, lockdep and more, built from
    Debian 12's source (half an hour, once); anything else: a directory that holds
    `bzImage` and `lib/modules/RELEASE` (a debug kernel; booted as bzImage,
    since one with KASAN does not start by PVH).  Default: DDRAID_KERNEL, or
    bookworm.
    """
    name = name or os.environ.get("DDRAID_KERNEL") or "bookworm"
    if name == "bookworm" and _installed_bookworm():
        image, modules = _installed_bookworm()
        stamp = f"{image.stat().st_size}-{image.stat().st_mtime_ns}"
        digest = hashlib.sha256(stamp.encode()).hexdigest()[:8]
        return _install(name, f"{modules.name}-{digest}", image, modules)
    if name in SUITES:
        return _from_suite(name)
    directory = debug_directory() if name == "debug" else pathlib.Path(name)
    trees = [m for m in directory.glob("lib/modules/*") if m.is_dir()]
    if not (directory / "bzImage").is_file() or len(trees) != 1:
        raise HarnessError(f"kernel {name}: neither one of {', '.join(SUITES)}, debug nor a "
                           "directory with bzImage and lib/modules/RELEASE")
    stat = (directory / "bzImage").stat()
    digest = hashlib.sha256(f"{directory}{stat.st_size}{stat.st_mtime_ns}".encode())
    return _install(name, f"own-{digest.hexdigest()[:12]}", directory / "bzImage",
                    trees[0], raw_image=True)
