#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""A node loses its power under load.

Topology: three nodes, each writing blocks of its own of one array of five disks (order 2, one parity);
corosync over two rings; a fence device that cuts the power.
Phases: all start the array at once; load on all; node N dies; it is fenced, its dirty regions are taken over by
one survivor and no others are resynced; the survivors' load goes on meanwhile, without an error; everything that anybody was
promised is read on every survivor; the node comes back, joins and writes; in the end all stop the array, no
stripe is wrong, nothing is dirty.
"""
import argparse
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "vm")]

import ddvm  # noqa: E402
import tools  # noqa: E402
from rig import NAME, Rig  # noqa: E402

DISKS, SIZE = 5, "64M"


def round_of(rig, victim):
    """One death and its mending; seconds from the death to the recovery."""
    survivors = [i for i in rig.ledgers if i != victim]
    rig.load()
    time.sleep(2)
    rig.die(victim)
    began = time.monotonic()
    cut = rig.raw()
    assert cut["bad_outside_dirty"] == [], f"inconsistent stripes outside dirty regions: {cut['bad_outside_dirty']}"
    rig.cluster.wait_fenced(victim)
    for i in survivors:
        rig.wait_event(i, "node-recovered", 60, node=victim)
    seconds = time.monotonic() - began
    for i in survivors:
        rig.progress(i)
    rig.stop_load()
    rig.wait_idle()
    for i in survivors:
        rig.verify(i)
    rig.raw("--assert-none")
    return seconds


def run(cluster, writer, rounds=1):
    rig = Rig(cluster, writer)
    rig.boot()
    rig.create()
    rig.start()
    rig.wait_active([1, 2, 3])
    for number in range(rounds):
        victim = 3 - number % 3
        seconds = round_of(rig, victim)
        print(f"node {victim} died: recovered after {seconds:.1f} s", flush=True)
        rig.boot([victim])
        rig.start([victim])
        rig.wait_active([1, 2, 3])
        rig.verify(victim)
    rig.load()
    time.sleep(1)
    rig.stop_load()
    rig.stop()
    rig.raw("--assert-none", "--assert-idle")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args()
    run_directory = None
    try:
        ddvm.check_machine()
        run_directory = ddvm.Run()
        disks = [ddvm.Disk(run_directory.path / f"d{i}.raw", SIZE, f"d{i}") for i in range(DISKS)]
        nodes = [ddvm.Node(run_directory, f"n{i}", disks) for i in (1, 2, 3)]
        cluster = ddvm.Cluster(run_directory, nodes)
        run(cluster, tools.build_writer(run_directory.path), args.rounds)
        print(f"{NAME}: {args.rounds} deaths, nothing lost")
    except ddvm.HarnessError as error:
        print(f"cluster_node: {error}", file=sys.stderr)
        return 1
    except (AssertionError, ddvm.NodeDied) as error:
        print(f"cluster_node: FAILED: {error}\nlogs: {run_directory.keep_logs('cluster_node')}", file=sys.stderr)
        return 1
    finally:
        if run_directory:
            run_directory.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
