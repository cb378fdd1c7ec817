# SPDX-License-Identifier: GPL-2.0-or-later
"""The index of doc/ is complete, and the paths that CONTRIBUTING.md names exist."""
import pathlib
import re

TOP = pathlib.Path(__file__).resolve().parents[2]


def test_the_index_names_every_document():
    index = (TOP / "doc" / "README.md").read_text()
    linked = {target.rstrip("/") for target in re.findall(r"\]\(([^)#]+)\)", index)}
    assert [t for t in sorted(linked) if not (TOP / "doc" / t).exists()] == []
    there = {p.name for p in (TOP / "doc").iterdir() if p.name not in ("README.md", "Makefile.inc")}
    assert sorted(there - linked) == [], "doc/README.md does not name them"


def test_contributing_names_paths_that_exist():
    text = (TOP / "CONTRIBUTING.md").read_text()
    paths = set(re.findall(r"`((?:include|lib|daemon|cli|kernel|tests|doc)/[\w./-]*)`", text)) | set(re.findall(r"\]\(([^)#:]+)\)", text))
    paths = {p for p in paths if ("." in p or p.endswith("/")) and "NN" not in p and "*" not in p}
    assert len(paths) > 20
    assert [p for p in sorted(paths) if not (TOP / p).exists()] == []
