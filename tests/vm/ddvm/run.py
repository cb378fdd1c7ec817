# SPDX-License-Identifier: GPL-2.0-or-later
"""The directory of one run of the harness, and what is cleaned up with it.

A run holds a lock on its directory; directories whose lock is free were left by a run that was killed, and the next run removes them.
Directories with logs of a failed test are kept under a name that says so.

Must never remove the directory of a running run. One that is being made has a lock file before it has the lock, so runs are made one after
the other, under a lock of their parent.
"""

import atexit
import fcntl
import pathlib
import shutil
import tempfile
import time

from .config import locked, work_root

KEEP_FAILED = 10


class Run:
    """Directory `path` with disks, sockets, logs; nodes register themselves for the end."""

    def __init__(self):
        with locked(work_root() / "making"):
            self._remove_stale()
            self.path = pathlib.Path(tempfile.mkdtemp(prefix="run-", dir=work_root()))
            self.lock = open(self.path / "lock", "w", encoding="ascii")
            fcntl.flock(self.lock, fcntl.LOCK_EX)
        self.nodes = []
        atexit.register(self.close)

    @staticmethod
    def _remove_stale():
        for old in work_root().glob("run-*"):
            try:
                with open(old / "lock", "r+", encoding="ascii") as handle:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except FileNotFoundError:
                pass    # killed before it had a lock
            except OSError:
                continue
            shutil.rmtree(old, ignore_errors=True)

    def keep_logs(self, title):
        """Copy all logs of this run to a directory of their own and return its path."""
        safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in title)[:100]
        target = work_root() / f"failed-{time.strftime('%Y%m%d-%H%M%S')}-{safe}"
        target.mkdir(parents=True, exist_ok=True)
        for pattern in ("*.console", "*.qemu", "*.log"):
            for path in self.path.glob(pattern):
                shutil.copy(path, target)
        kept = sorted(work_root().glob("failed-*"), key=lambda p: p.stat().st_mtime)
        for old in kept[:-KEEP_FAILED]:
            shutil.rmtree(old, ignore_errors=True)
        return target

    def close(self):
        """Kill what still runs and remove the directory; safe to call twice."""
        for node in self.nodes:
            node.kill()
        self.nodes = []
        shutil.rmtree(self.path, ignore_errors=True)
        self.lock.close()
