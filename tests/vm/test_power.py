# SPDX-License-Identifier: GPL-2.0-or-later
"""Two rounds each of the power-cut drill for the simplest and the largest kind of parity (tests/drills/power.py does many, of ten shapes)."""
import pathlib
import random
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "drills"))
import power  # noqa: E402
import tools  # noqa: E402


@pytest.mark.parametrize("shape", [pytest.param((0, 1, "dedicated"), marks=pytest.mark.slow), (2, 2, "rotating")], ids=lambda s: f"order{s[0]}+{s[1]}-{s[2]}")
def test_power_cut_under_load(shape, stage, make_nodes, tmp_path):
    del stage
    node = make_nodes(disks=(1 << shape[0]) + shape[1], size=power.SIZES[shape[0]])[0]
    drill = power.Power(node, tools.build_writer(tmp_path), shape, random.Random(power.SHAPES.index(shape)))
    drill.boot()
    drill.create()
    for _ in range(2):
        drill.round()
