# SPDX-License-Identifier: GPL-2.0-or-later
"""One array on three nodes with GFS2 on it, and one round of the drill in which a node loses its power; then what a write costs."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "drills"))
import cluster_counts  # noqa: E402
import cluster_node  # noqa: E402
import drill  # noqa: E402
import rig  # noqa: E402
import tools  # noqa: E402


def test_a_node_loses_its_power(stage, make_cluster, tmp_path):
    """All of the drill but how long writes stood still, which other tests beside this one would spoil."""
    del stage
    cluster = make_cluster(disks=drill.DISKS, size=drill.SIZE)
    drill.rounds(rig.Rig(cluster, tools.build_writer(tmp_path)), lambda one, _: cluster_node.say(3, cluster_node.death(one, 3)), 1,
                 between=lambda one: print(cluster_counts.round_of(one, 1)))
