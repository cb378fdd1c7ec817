# SPDX-License-Identifier: GPL-2.0-or-later
"""What the drills share on the host's side: the writer and its ledger, the raw checker, what files hold."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
RAWCHECK = HERE.parent / "tools" / "rawcheck.py"


def build_writer(directory):
    """Compiles writer.c (static, so that it runs in any guest) into @directory; its path."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler, "no C compiler: apt-get install gcc libc6-dev"
    target = pathlib.Path(directory) / "writer"
    if not target.exists():
        subprocess.run([compiler, "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-pthread", "-o", target,
                        HERE / "writer.c"], check=True)
    return target


class Ledger:
    """What the load's output proves: durable[block] = the highest sequence number reported durable."""

    def __init__(self):
        self.durable = {}
        self.errors = []
        self.ended = False
        self.highest = 0
        self.reports = 0

    def read(self, text):
        """Takes complete lines only: a line that the power cut tore proves nothing."""
        for line in text.splitlines(keepends=True):
            words = line.split()
            if not line.endswith("\n") or not words:
                continue
            if words[0] == "F":
                seq, first, count = map(int, words[1:])
                self.reports += 1
                self.highest = max(self.highest, seq)
                for block in range(first, first + count):
                    if self.durable.get(block, 0) < seq:
                        self.durable[block] = seq
            elif words[0] == "E":
                self.errors.append(line.strip())
            elif words[0] == "END":
                self.ended = True

    def expectations(self):
        """Lines for the verifier: first, count, sequence; neighbours of one number joined."""
        lines, run = [], None
        for block in sorted(self.durable):
            seq = self.durable[block]
            if run and block == run[0] + run[1] and seq == run[2]:
                run[1] += 1
                continue
            run = [block, 1, seq]
            lines.append(run)
        return "".join(f"{a} {b} {c}\n" for a, b, c in lines)

    def blocks(self):
        """The durable blocks as lines FIRST-LAST for the raw checker."""
        runs = []
        for block in sorted(self.durable):
            if runs and runs[-1][1] == block - 1:
                runs[-1][1] = block
            else:
                runs.append([block, block])
        return "".join(f"{a}-{b}\n" for a, b in runs)


def extents(path):
    """What a sparse file holds outside of its holes: pairs of offset and bytes."""
    out, at = [], 0
    with open(path, "rb") as handle:
        fd, end = handle.fileno(), os.fstat(handle.fileno()).st_size
        while at < end:
            try:
                start = os.lseek(fd, at, os.SEEK_DATA)
            except OSError:     # no data from here to the end
                break
            at = os.lseek(fd, start, os.SEEK_HOLE)
            out.append((start, os.pread(fd, at - start, start)))
    return out


def rawcheck(command, paths, *options, ok=(0,)):
    """Runs the raw checker on image files or devices; its report, with its exit code as "code"."""
    done = subprocess.run([sys.executable, str(RAWCHECK), command, *map(str, paths), *map(str, options)],
                          capture_output=True, text=True, check=False)
    assert done.returncode in ok, f"rawcheck {command}: code {done.returncode}: {done.stderr}{done.stdout[-2000:]}"
    report = json.loads(done.stdout) if done.stdout else {}
    report["code"], report["stderr"] = done.returncode, done.stderr
    return report
