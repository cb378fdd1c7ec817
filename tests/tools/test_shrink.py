# SPDX-License-Identifier: GPL-2.0-or-later
"""A seed that fails shrinks to a short schedule that breaks the same rule again, and none on good code. The drill `shrink` has the long ones."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import shrinking  # noqa: E402


@pytest.fixture(scope="module", name="base")
def fixture_base(tmp_path_factory):
    return tmp_path_factory.mktemp("shrink")


@pytest.mark.parametrize("case", shrinking.SHORT, ids=lambda case: case[0])
def test_a_failing_seed_shrinks(base, case):
    shrinking.shrink(shrinking.mutations(), base, case)
