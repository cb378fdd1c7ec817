# SPDX-License-Identifier: GPL-2.0-or-later
"""How a drill of a cluster runs as a program: machines, rounds, and what it says in the end."""
import argparse
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "vm")]

import ddvm  # noqa: E402
import tools  # noqa: E402
from rig import Rig  # noqa: E402

DISKS, SIZE = 5, "64M"


def rounds(rig, round_of, count, between=None):
    """Begin, `count` rounds (each prints what it saw), end (`between`: see Rig.finish)."""
    began = time.monotonic()
    rig.boot()
    rig.create()
    print(f"  {len(rig.all)} nodes share the array after {time.monotonic() - began:.0f} s", flush=True)
    for number in range(1, count + 1):
        began = time.monotonic()
        rig.mark()
        seen = round_of(rig, number)
        print(f"  {number:3} {seen} ({time.monotonic() - began:.0f} s)", flush=True)
    rig.finish(between)


def save_words(run, cluster, rig):
    """What the programs on the nodes said last, beside the machines' own logs."""
    for i in cluster.dlm:
        if cluster.node(i).alive():
            done = cluster.node(i).run("dlm_tool status; dlm_tool ls -n; dlm_tool dump", check=False, timeout=60)
            (run.path / f"n{i}.dlm_tool.log").write_text(done.out + done.err)
    for i, guest in rig.guests.items() if rig else ():
        for what, job in (("daemon", guest.daemon), ("events", guest.events), ("corosync", cluster.corosync.get(i)),
                          ("dlm", cluster.dlm.get(i))):
            if job:
                (run.path / f"n{i}.{what}.log").write_text(job.out + job.err)


def main(name, doc, round_of, nodes=3, disks=DISKS, votes=(), filesystem=True, kind=Rig, **options):
    """`votes`: {id: votes}; `kind`: of rig; `options`: of ddraid.conf. Returns the exit code."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args()
    run = rig = None
    try:
        ddvm.check_machine()
        run = ddvm.Run()
        disks = [ddvm.Disk(run.path / f"d{i}.raw", SIZE, f"d{i}") for i in range(disks)]
        cpus = 2 if nodes <= 3 else 1   # of each machine: more of them than this are too many for emulation on a few processors
        cluster = ddvm.Cluster(run, [ddvm.Node(run, f"n{i}", disks, cpus=cpus) for i in range(1, nodes + 1)], votes=votes)
        print(f"{name}: {args.rounds} rounds on {nodes} nodes", flush=True)
        rig = kind(cluster, tools.build_writer(run.path), filesystem=filesystem, **options)
        rounds(rig, round_of, args.rounds)
        print(f"{name}: {args.rounds} rounds, nothing lost")
    except ddvm.HarnessError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    except (AssertionError, ddvm.NodeDied) as error:
        for node in run.nodes:
            if node.alive():
                node.save_dmesg()
        save_words(run, cluster, rig)
        print(f"{name}: FAILED: {error}\nfenced: {cluster.fencer.log}\nlogs: {run.keep_logs(name)}", file=sys.stderr)
        return 1
    finally:
        if run:
            run.close()
    return 0
