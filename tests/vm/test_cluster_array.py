# SPDX-License-Identifier: GPL-2.0-or-later
"""One array on three nodes, and one round of the drill in which a node loses its power."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "drills"))
import cluster_node  # noqa: E402
import tools  # noqa: E402


def test_a_node_loses_its_power(stage, make_cluster, tmp_path):
    del stage
    cluster = make_cluster(disks=cluster_node.DISKS, size=cluster_node.SIZE)
    cluster_node.run(cluster, tools.build_writer(tmp_path))
