# SPDX-License-Identifier: GPL-2.0-or-later
"""What every measuring program does around its measurement: is the machine fit, is anything built, machines and their end, where the figures go."""
import json
import os
import pathlib
import sys

from ddvm import HarnessError, Run, check_machine
from ddvm.config import stage_dir

TOP = pathlib.Path(__file__).resolve().parents[2]


def within_run(measure, need_stage=True):
    """measure(run), with a run that is closed afterwards; False, and the reason on stderr, if that is not possible here."""
    run = None
    try:
        check_machine()
        if need_stage and not stage_dir():
            raise HarnessError("nothing is built: run ./quickstart build first")
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
