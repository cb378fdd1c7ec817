# SPDX-License-Identifier: GPL-2.0-or-later
"""fio with verification over the geometries, healthy and degraded (a part of tests/drills/matrix.py)."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "drills"))
import matrix  # noqa: E402

VM = {"disks": matrix.MEMBERS, "size": matrix.DISK_SIZE}
FILE_SYSTEMS = [(matrix.Geometry(0, 1, "dedicated"), "ext4", (0,)), (matrix.Geometry(1, 2, "rotating"), "xfs", (0, 2)),
                (matrix.Geometry(2, 1, "rotating"), "ext4", (1,)), (matrix.Geometry(2, 1, "rotating"), "xfs", (4,)),
                (matrix.Geometry(3, 2, "rotating"), "ext4", (2, 8))]


@pytest.fixture
def system(shared_node, stage):
    """The shared machine with the module, and no device of an earlier test."""
    del stage
    shared_node.run("dmsetup remove_all --force", check=False)
    return matrix.NoSync(shared_node)


@pytest.mark.parametrize("geometry", matrix.geometries(), ids=str)
def test_verify_healthy_and_degraded(system, geometry):
    matrix.run_geometry(system, geometry, matrix.sample_sets(geometry))


@pytest.mark.parametrize("geometry,kind,missing", FILE_SYSTEMS, ids=lambda v: str(v).replace(" ", ""))
def test_file_system(system, geometry, kind, missing):
    matrix.file_system(system, geometry, kind, missing)
