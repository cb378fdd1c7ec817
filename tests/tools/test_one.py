# SPDX-License-Identifier: GPL-2.0-or-later
"""tests/one.py (`./quickstart test`): every kind of test is found by its name, and runs."""
import os
import pathlib
import subprocess
import sys

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("DDRAID_BUILDDIR", TOP / "build"))
sys.path.insert(0, str(TOP / "tests"))
import one  # noqa: E402


@pytest.fixture(scope="module", name="known")
def all_tests():
    return list(one.tests())


@pytest.mark.parametrize("name, kind, needs", [
    ("test-sm", "program", "programs tests/unit/test-sm"),
    ("sm-wait", "program", "programs tests/unit/test-sm-wait"),
    ("tests/unit/test-sm.c", "program", "programs tests/unit/test-sm"),
    ("ddrsim", "program", "programs tests/sim/ddrsim"),
    ("nonsense_is_survived", "case", "programs tests/unit/test-sm-hostile"),
    ("test-sm-hostile:nonsense_is_survived", "case", "programs tests/unit/test-sm-hostile"),
    ("03-two-nodes", "scenario", "programs tests/scenarios/run"),
    ("sim-03-table-of-before", "scenario", "programs tests/scenarios/run tests/sim/ddrsim-daemon"),
    ("seed-17", "program", "programs tests/sim/ddrsim"),
    ("test_create.py", "pytest", "stage"),
    ("test_every_shape[3-2]", "pytest", "stage"),
    ("test_grows_under_load", "pytest", "machines"),
    ("find_boot.py", "pytest", "machines"),
    ("01-grant-before-durable", "mutation", "programs"),
    ("kernel/fua-dropped", "kernel mutation", "drill mutations-kernel"),
    ("cluster_node", "drill", "drill cluster_node"),
])
def test_the_kind_is_found_by_the_name(known, name, kind, needs):
    found = one.find(name, known)
    assert [t.kind for t in found] == [kind]
    assert found[0].needs() == needs


def test_every_unit_test_program_is_known(known):
    """And each full name is the name of one test alone."""
    names = [t.name for t in known]
    assert len(names) == len(set(names))
    for path in sorted((TOP / "tests/unit").glob("test-*.c")):
        assert f"tests/unit/{path.stem}" in names, f"{path.name} is in no makefile"


def call(*arguments, **env):
    return subprocess.run(["/usr/bin/python3", TOP / "tests/one.py", *arguments], capture_output=True, text=True, check=False,
                          env=dict(os.environ, DDRAID_BUILDDIR=str(BUILD), **env))


def test_an_unknown_name_lists_near_ones():
    done = call("needs", "fua-droped")
    assert done.returncode == 2 and "no test fua-droped" in done.stderr and "fua-dropped.patch" in done.stderr


def test_a_name_of_several_lists_them():
    done = call("needs", "test_usage")
    assert done.returncode == 2 and "tests/cli/test_create.py::test_usage" in done.stderr and "tests/cli/test_estimate.py::test_usage" in done.stderr


def test_one_case_runs_alone():
    if not (BUILD / "tests/unit/test-sm-hostile").exists():
        subprocess.run(["make", "-C", BUILD, "tests/unit/test-sm-hostile"], check=True, capture_output=True)
    done = call("run", "test-sm-hostile:nonsense_is_survived")
    assert done.returncode == 0 and "nonsense_is_survived" in done.stdout and "1 test(s) run" in done.stdout


def test_what_pytest_runs_takes_a_case():
    done = call("run", "test_a_skipped_test_has_not_passed")
    assert done.returncode == 0 and "1 passed" in done.stdout


def test_the_help_names_it():
    text = (TOP / "quickstart").read_text()
    assert "  test NAME " in text and "  coverage " in text
