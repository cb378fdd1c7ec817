# SPDX-License-Identifier: GPL-2.0-or-later
"""What every measuring program does around its measurement: is the machine fit, is anything built, machines and their end, where the figures go."""
import json
import os
import pathlib
import shutil
import sys

from ddvm import HarnessError, Run, check_machine
from ddvm.config import stage_dir

MEMORY, ROOM = pathlib.Path("/dev/shm"), 4 << 30
TOP = pathlib.Path(__file__).resolve().parents[2]


def available():
    """Bytes of memory that programs may have."""
    lines = pathlib.Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))


def disks_in_memory():
    """
    Where there is room the disks are files in memory. On a disk of this machine each flush of theirs waits for what that has to write, and
    not only the limits are measured: while another program wrote a lot, a rebuild of 6.5 s took 26 s, and 9 s with the disks in memory.
    """
    if "DDRAID_VMTMP" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= ROOM and available() >= 2 * ROOM:
        os.environ["DDRAID_VMTMP"] = str(MEMORY / "ddraid-vm")
        os.environ["DDRAID_VM_BOOT"] = "real"       # saved states of machines would fill that memory, and stay
    print(f"disks are in {os.environ.get('DDRAID_VMTMP', 'files of a real disk, whose speed counts')}", flush=True)


def within_run(measure, need_stage=True):
    """measure(run), with a run that is closed afterwards; False, and the reason on stderr, if that is not possible here."""
    run = None
    try:
        check_machine()
        if need_stage and not stage_dir():
            raise HarnessError("nothing is built: run ./quickstart build first")
        disks_in_memory()
        run = Run()
        measure(run)
        return True
    except HarnessError as error:
        print(f"bench: {error}", file=sys.stderr)
        return False
    finally:
        if run:
            run.close()


def keep(figures, name, asked=None):
    """Writes the figures as JSON, to @asked or to a file of that name in the build directory; where they are."""
    path = pathlib.Path(asked or pathlib.Path(os.environ.get("DDRAID_BUILDDIR", TOP / "build")) / name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(figures, indent=1), encoding="utf-8")
    return path


def one_target(parser, name):
    """The options of a program that measures against one target; @name: of its file of figures."""
    parser.add_argument("--json", metavar="FILE", help=f"where the figures go (default: build/{name})")
    parser.add_argument("--strict", action="store_true", help="exit with 1 when the target is missed")


def judged(what, met, figures, name, args):
    """Says @what was measured against the target, keeps the figures, and returns the exit code; @args: with the options of one_target()."""
    print(f"  {what}: {'met' if met else 'MISSED'}")
    print(f"\nfigures: {keep(figures, name, args.json)}")
    return 1 if args.strict and not met else 0
