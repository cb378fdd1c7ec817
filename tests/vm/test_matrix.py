# SPDX-License-Identifier: GPL-2.0-or-later
"""fio with verification over the geometries, healthy and degraded (a part of tests/drills/matrix.py)."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "drills"))
import matrix  # noqa: E402

VM = {"disks": matrix.MEMBERS + 1, "size": matrix.DISK_SIZE}
FILE_SYSTEMS = [(matrix.Geometry(0, 1, "dedicated"), "ext4", (0,)), (matrix.Geometry(1, 2, "rotating"), "xfs", (0, 2)),
                (matrix.Geometry(2, 1, "rotating"), "ext4", (1,)), (matrix.Geometry(2, 1, "rotating"), "xfs", (4,)),
                (matrix.Geometry(3, 2, "rotating"), "ext4", (2, 8))]
# With the daemon: a mirror, each layout, a data member with each parity, both parities.
SERVED = [(matrix.Geometry(0, 1, "dedicated"), [(0,)]), (matrix.Geometry(1, 2, "dedicated"), [(0, 2), (2, 3)]),
          (matrix.Geometry(2, 1, "rotating"), [(4,)]), (matrix.Geometry(3, 2, "rotating"), [(0, 7), (3, 9)])]
SERVED_FILE_SYSTEMS = [(matrix.Geometry(1, 1, "rotating"), "xfs", (1,)), (matrix.Geometry(2, 2, "rotating"), "ext4", (0, 5))]


def in_check(geometry):
    """Each order, each parity, and both layouts."""
    return (geometry.order, geometry.parity, geometry.layout) in [(0, 1, "dedicated"), (1, 2, "rotating"), (2, 0, "dedicated"), (2, 1, "rotating"),
                                                                 (3, 2, "dedicated")]


def some(cases, chosen):
    """Those that check has no time for are marked so."""
    return [c if chosen(c) else pytest.param(*(c if isinstance(c, tuple) else (c,)), marks=pytest.mark.slow) for c in cases]


@pytest.fixture
def nosync(shared_node, stage):
    """The shared machine with the module, and no device of an earlier test."""
    del stage
    shared_node.run("dmsetup remove_all --force", check=False)
    return matrix.NoSync(shared_node)


@pytest.fixture
def daemon(shared_node, stage):
    """The same with a daemon that runs."""
    del stage
    shared_node.run("dmsetup remove_all --force", check=False)
    return matrix.Daemon(shared_node)


@pytest.mark.parametrize("geometry", some(matrix.geometries(), in_check), ids=str)
def test_verify_healthy_and_degraded(nosync, geometry):
    matrix.run_geometry(nosync, geometry, matrix.sample_sets(geometry))


@pytest.mark.parametrize("geometry,kind,missing", some(FILE_SYSTEMS, lambda case: case[0].order == 0 or case[1] == "xfs" and case[0].order == 2), ids=lambda v: str(v).replace(" ", ""))
def test_file_system(nosync, geometry, kind, missing):
    matrix.file_system(nosync, geometry, kind, missing)


@pytest.mark.parametrize("geometry,sets", some(SERVED, lambda case: case[0].order in (0, 2)), ids=lambda v: str(v).replace(" ", ""))
def test_with_daemon(daemon, geometry, sets):
    matrix.run_geometry(daemon, geometry, sets)


@pytest.mark.parametrize("geometry,kind,missing", some(SERVED_FILE_SYSTEMS, lambda case: case[1] == "ext4"), ids=lambda v: str(v).replace(" ", ""))
def test_file_system_with_daemon(daemon, geometry, kind, missing):
    matrix.file_system(daemon, geometry, kind, missing)
