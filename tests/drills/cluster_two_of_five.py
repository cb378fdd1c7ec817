#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Two nodes of five lose their power at the same moment.

Topology: five nodes, one array of five disks (order 2, one parity), GFS2 on it, mounted on all.
Phases: load on all; two nodes die at once; both are fenced, the dirty regions of both (counted, and no others) are taken over; the three
survivors continue; all data that was reported durable is read on each of them; the two come back together.
"""
import sys
import time

import drill
from cluster_node import dirty_of, recovered_regions


def round_of(rig, number):
    victims = [(number + 2) % 5 + 1, (number * 2 + 2) % 5 + 1] if number % 5 else [1, 2]
    slots = [rig.slot(i) for i in victims]
    rig.load()
    rig.progress()
    rig.die(*victims)
    began = time.monotonic()
    cut = rig.raw()
    for victim in victims:
        rig.wait_fenced(victim)
    rig.wait_recovered(*victims)
    recovered = time.monotonic() - began
    rig.progress()
    counts = [dirty_of(cut, slot) for slot in slots]
    found = [recovered_regions(rig, victim) for victim in victims]
    assert found == counts, f"regions recovered: {found}; dirty in the dead nodes' slots: {counts}"
    rig.settle()
    rig.bring(victims)
    return f"nodes {victims} died: recovered after {recovered:.1f} s ({counts} regions)"


if __name__ == "__main__":
    sys.exit(drill.main("cluster_two_of_five", __doc__, round_of, nodes=5))
