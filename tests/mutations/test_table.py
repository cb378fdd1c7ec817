# SPDX-License-Identifier: GPL-2.0-or-later
"""The mutations are fit to be tried: documented, applicable to the code as it is, with tests that exist."""
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
from importlib.machinery import SourceFileLoader

import pytest

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parents[1]
sys.path.insert(0, str(HERE))
import table  # noqa: E402

EDIT = re.compile(r"^file: ([^\n]*)\n--- old\n(.*?)\n--- new\n(.*?)\n?--- end$", re.M | re.S)


def test_the_document_is_up_to_date():
    assert (TOP / "doc" / "mutations.md").read_text() == table.table(), "run tests/mutations/table.py >doc/mutations.md"


def test_each_rule_is_broken():
    assert {r for rules, *_ in table.mutations() for r in rules} == set(table.RULES)


@pytest.mark.parametrize("path", sorted(HERE.glob("*.mut")), ids=lambda p: p.stem)
def test_text_applies(path):
    edits = EDIT.findall(path.read_text())
    assert edits
    for name, old, new in edits:
        assert (TOP / name).read_text().count(old) == 1 and old != new, f"its text does not occur once in {name}"


@pytest.mark.parametrize("path", sorted(HERE.glob("*.mut")), ids=lambda p: p.stem)
def test_it_compiles(path):
    """What does not compile breaks no rule, and ends tests/mutations/run."""
    texts = {}
    for name, old, new in EDIT.findall(path.read_text()):
        texts[name] = texts.get(name, (TOP / name).read_text()).replace(old, new)
    for name, text in texts.items():
        if name.endswith(".c"):
            done = subprocess.run(["gcc", "-std=gnu11", "-D_GNU_SOURCE", '-DPACKAGE_VERSION="broken"', "-I.", "-Iinclude", f"-I{(TOP / name).parent}",
                                   "-Werror=implicit-function-declaration", "-fsyntax-only", "-x", "c", "-"],
                                  cwd=TOP, input=text, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr


def test_what_is_changed_is_built():
    """By tests/mutations/run, which compiles what the finders need by itself."""
    spec = importlib.util.spec_from_loader("run", SourceFileLoader("run", str(HERE / "run")))
    run = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run)
    built = {name for part in run.sources(TOP) for name in part}
    daemons = [name for part in run.daemon_sources(TOP)[:2] for name in part]
    for path in sorted(HERE.glob("*.mut")):
        mutation = run.Mutation(path)
        of_unit = run.DAEMON.get(mutation.found_by.partition(":")[2], [])
        for name, _, _ in mutation.edits:
            assert name in built or name in of_unit or (mutation.found_by.startswith("daemons") and name in daemons) or (name.endswith(".h") and (name.startswith("lib/cluster/sm") or of_unit)), f"{path.name}: {name} is not compiled"


@pytest.mark.parametrize("path", sorted(HERE.glob("*/*.patch")), ids=lambda p: p.stem)
def test_patch_applies(path):
    done = subprocess.run(["git", "apply", "--check", "-C1", str(path)], cwd=TOP, capture_output=True, text=True, check=False,
                          env=dict(os.environ, GIT_DIR="/nonexistent"))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("mutation", list(table.mutations()), ids=lambda m: m[1])
def test_its_test_exists(mutation):
    file, _, rest = mutation[3].partition("::")
    path = TOP / file.split(" ")[0]
    assert path.exists(), f"{file} does not exist"
    if rest:
        function, _, case = rest.rstrip("]").partition("[")
        text = path.read_text()
        assert f"def {function}(" in text, f"{file} has no {function}"
        assert not case or re.fullmatch(r"order\d\+\d-\w+", case) or f'"{case}"' in text, f"{function} has no case {case}"
