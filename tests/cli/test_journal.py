# SPDX-License-Identifier: GPL-2.0-or-later
"""What the command prints when its stderr is the journal, as in a unit."""
import os
import pathlib
import subprocess

TOP = pathlib.Path(__file__).resolve().parents[2]
DDRAID = pathlib.Path(os.environ.get("DDRAID_BUILDDIR", TOP / "build")) / "cli" / "ddraid"


def test_errors_have_their_priority(tmp_path):
    """Finding S37: what a unit's command fails with is an error in the journal too; nowhere else has the line a priority before it."""
    log = tmp_path / "journal"
    with open(log, "w", encoding="utf-8") as stream:
        st = os.fstat(stream.fileno())
        for known in (f"{st.st_dev}:{st.st_ino}", f"{st.st_dev}:{st.st_ino + 1}", ""):
            subprocess.run([DDRAID, "examine", tmp_path / "none"], stdout=subprocess.DEVNULL, stderr=stream, env=dict(os.environ, JOURNAL_STREAM=known), timeout=60,
                           check=False)
    lines = log.read_text().splitlines()
    assert len(lines) == 3 and lines[0].startswith("<3>ddraid examine: ") and all(line.startswith("ddraid examine: ") for line in lines[1:]), lines
