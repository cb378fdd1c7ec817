# SPDX-License-Identifier: GPL-2.0-or-later
"""Build modules that only tests load (tests/modules, and dm-ddraid with test points) for the kernel of a node.

The source tree is never written to: Kbuild works on a copy in the cache.  A
kernel of another release needs that release's compiler, in a chroot that
DDRAID_KCHROOT_<SUITE> names, or that is made here.
"""

import hashlib
import os
import pathlib
import shutil
import subprocess

from . import apt, kernel as kernels
from .config import TOP, HarnessError, cache_dir, locked

SOURCE = TOP / "tests" / "modules"


def _sources():
    return sorted(p for p in SOURCE.rglob("*")
                  if p.is_file() and (p.name == "Kbuild" or p.suffix in (".c", ".h")))


def _digest():
    digest = hashlib.sha256()
    for path in _sources():
        digest.update(str(path.relative_to(SOURCE)).encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def build_chroot(suite):
    """A directory with gcc, make and the kernel headers of another Debian release."""
    named = os.environ.get(f"DDRAID_KCHROOT_{suite.upper()}")
    if named:
        return pathlib.Path(named)
    path = cache_dir() / f"chroot-{suite}"
    with locked(cache_dir() / f"chroot-{suite}.lock"):
        if not path.is_dir():
            part = cache_dir() / f"chroot-{suite}.part"
            shutil.rmtree(part, ignore_errors=True)
            apt.bootstrap(suite, ["gcc", "make", "linux-headers-amd64"], part)
            part.rename(path)
    return path


def _make(kernel, work, *more):
    """Run Kbuild on the links in `work`."""
    target = [*more, "modules"]
    if kernel.name in ("bookworm", "debug"):
        headers = (pathlib.Path(f"/lib/modules/{kernel.release}/build") if kernel.name == "bookworm"
                   else kernels.debug_directory() / "tree")
        if not headers.is_dir():
            raise HarnessError(f"no headers of kernel {kernel.release}: "
                               "apt-get install linux-headers-amd64")
        return subprocess.run(["make", "-C", headers, f"M={work}", *target],
                              capture_output=True, text=True, check=False)
    chroot = build_chroot(kernel.name)
    if not (chroot / "usr" / "src" / f"linux-headers-{kernel.release}").is_dir():
        raise HarnessError(f"{chroot}: holds no headers of {kernel.release}; remove it, and "
                           f"{cache_dir()}/kernel-suite-{kernel.name}, to get both anew")
    inner = chroot / "ddvm" / work.name
    shutil.rmtree(inner, ignore_errors=True)
    shutil.copytree(work, inner)
    done = subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", f"--root={chroot}", "--mount-proc",
         "make", "-C", f"/usr/src/linux-headers-{kernel.release}",
         f"M=/ddvm/{work.name}", *target], capture_output=True, text=True, check=False)
    for built in inner.rglob("*.ko"):
        shutil.copy(built, work / built.relative_to(inner))
    shutil.rmtree(inner)
    return done


def _built(kernel, work, what, *more):
    """Run Kbuild in `work`; a compiler's warning is an error here."""
    done = _make(kernel, work, *more)
    if done.returncode or "warning:" in done.stderr:
        raise HarnessError(f"{what} for {kernel.release} do not compile "
                           f"cleanly:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    (work / "done").touch()


def test_module(name, kernel):
    """Path of NAME.ko built for `kernel`."""
    work = cache_dir() / f"testmod-{_digest()}-{kernel.release}"
    with locked(cache_dir() / f"testmod-{kernel.release}.lock"):
        if not (work / "done").exists():
            shutil.rmtree(work, ignore_errors=True)
            for path in _sources():
                copy = work / path.relative_to(SOURCE)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, copy)
            _built(kernel, work, "tests/modules")
    found = list(work.rglob(f"{name}.ko"))
    if not found:
        raise HarnessError(f"tests/modules builds no {name}.ko")
    return found[0]


def ddraid_module(tree, kernel, points=False):
    """Path of dm-ddraid.ko for `kernel`, or with the test points dm-ddraid-points.ko, made of the sources in `tree`.

    It is kept in the cache: about two seconds, once for each state of the sources.
    """
    name, *options = ("points", "DDR_TEST_POINTS=1") if points else ("module",)
    digest = hashlib.sha256()
    for path in sorted(p for part in ("kernel", "lib", "include") for p in (tree / part).rglob("*")
                       if p.is_file() and (p.name == "Kbuild" or p.suffix in (".c", ".h"))):
        digest.update(str(path.relative_to(tree)).encode() + path.read_bytes())
    work = cache_dir() / f"{name}-{digest.hexdigest()[:16]}-{kernel.release}"
    with locked(cache_dir() / f"{name}-{kernel.release}.lock"):
        if not (work / "done").exists():
            shutil.rmtree(work, ignore_errors=True)
            subprocess.run([TOP / "packaging" / "stage-kernel-source", "copy", "ddraid", tree, work], check=True)
            _built(kernel, work, f"the sources of dm-ddraid in {tree}", *options)
    return work / ("dm-ddraid-points.ko" if points else "dm-ddraid.ko")


def points_module(kernel):
    """Path of dm-ddraid-points.ko for `kernel`: dm-ddraid with the test points of kernel/points.h.

    It is made of this tree's sources, or of those in DDRAID_MODULE_SOURCE (a mutation's).
    """
    return ddraid_module(pathlib.Path(os.environ.get("DDRAID_MODULE_SOURCE", TOP)), kernel, points=True)
