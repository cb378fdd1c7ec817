# SPDX-License-Identifier: GPL-2.0-or-later
"""The top layer of a guest: what `make install DESTDIR=` filled, as an erofs file.

The guest sees it as installed: programs in /usr/sbin, modules found by modprobe.
"""

import hashlib
import os
import pathlib
import shutil

from .image import mkfs_erofs
from .kernel import run_depmod, usrmerged

_PACKED = {}


def _fingerprint(directory):
    digest = hashlib.sha256()
    for path in sorted(directory.rglob("*")):
        stat = path.lstat()
        digest.update(f"{path}\0{stat.st_mode}\0{stat.st_size}\0{stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def _copy(source, tree):
    """Copy a stage into the usr-merged `tree` (links of the target tree are followed)."""
    for directory, subdirs, names in os.walk(source):
        relative = pathlib.Path(directory).relative_to(source)
        (tree / relative).mkdir(parents=True, exist_ok=True)
        links = [s for s in subdirs if os.path.islink(os.path.join(directory, s))]
        for name in names + links:
            shutil.copy2(os.path.join(directory, name), tree / relative / name,
                         follow_symlinks=False)


def _index_modules(tree, kernel):
    """Let depmod see the kernel's modules and the stage's together; keep its result only."""
    ours = tree / "lib" / "modules" / kernel.release
    linked = ours / "kernel.ddvm"
    linked.symlink_to(kernel.modules / "lib" / "modules" / kernel.release / "kernel")
    # depmod follows links to directories at the top level; the names it writes
    # have to be those of the guest.
    linked.rename(ours / "kernel")
    for name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
        source = kernel.modules / "lib" / "modules" / kernel.release / name
        if source.exists():
            shutil.copy(source, ours / name)
    run_depmod(tree, kernel.release)
    (ours / "kernel").unlink()


def pack(directory, kernel, work):
    """Path of the erofs layer for a stage directory and a kernel, made below `work`."""
    directory = pathlib.Path(directory).resolve()
    key = (work, _fingerprint(directory), kernel.release)      # it is removed with the run that made it
    if key not in _PACKED:
        name = f"stage-{key[1]}-{kernel.release}"
        tree = work / name
        usrmerged(tree)
        _copy(directory, tree)
        if (tree / "lib" / "modules" / kernel.release).is_dir():
            _index_modules(tree, kernel)
        mkfs_erofs(work / f"{name}.erofs", tree, same=True)      # or no other run had a use for what is saved (saved.py)
        shutil.rmtree(tree)
        _PACKED[key] = work / f"{name}.erofs"
    return _PACKED[key]
