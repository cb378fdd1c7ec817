# SPDX-License-Identifier: GPL-2.0-or-later
"""tests/coverage.py counts a line once, however often its file was built, and names what did not run."""
import importlib.util
import pathlib

SPEC = importlib.util.spec_from_file_location("ddraid_coverage", pathlib.Path(__file__).resolve().parents[1] / "coverage.py")
coverage = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(coverage)


def lines(*counts, function="f"):
    return [{"line_number": n, "count": count, "function_name": function} for n, count in enumerate(counts, 1)]


def test_a_line_that_ran_in_one_build_ran():
    known = {}
    coverage.add(known, lines(1, 0, 0))
    coverage.add(known, lines(0, 0, 5))
    assert coverage.ratio(list(known.values())) == (2, 3, 100 * 2 / 3)


def test_what_did_not_run_is_named():
    files = {"lib/math/a.c": {}, "daemon/b.c": {}}
    coverage.add(files["lib/math/a.c"], lines(1, 0, 0, 4, 0))
    coverage.add(files["daemon/b.c"], lines(1, 1))
    text = "\n".join(coverage.report(files))
    assert "not: 2-3, 5" in text and "lib/math/a.c" in text
    assert "daemon/b.c" not in text
    assert "lib in all" in text and "virtual machines" in text
    assert "daemon/b.c" in "\n".join(coverage.report(files, True))


def test_the_glue_is_what_the_simulator_links():
    files = coverage.glue()
    assert "daemon/job/job_copy.c" in files and "daemon/array/identity.c" in files and "daemon/group/link_store.c" in files
    assert len(files) == len(set(files)) > 40


def test_a_file_of_the_glue_needs_more_than_80_percent():
    files = {name: {1: [1, "f"]} for name in coverage.glue()}
    assert coverage.report_seeds(files)[1]
    files["daemon/job/job.c"] = {n: [n <= 4, "f"] for n in range(1, 6)}
    out, good = coverage.report_seeds(files)
    assert not good and any("80.0 %" in line and "at most" in line for line in out)
    del files["daemon/job/job.c"]  # nothing of it was built or ran
    assert not coverage.report_seeds(files)[1]
