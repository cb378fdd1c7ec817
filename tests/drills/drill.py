# SPDX-License-Identifier: GPL-2.0-or-later
"""How a drill of a cluster runs as a program: machines, rounds, and the result that it prints."""
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


class Tally:
    """How many rounds of each variant passed; a drill without variants has one, without a name."""

    def __init__(self, variants, count):
        self.count, self.passed = count, dict.fromkeys(variants, 0)
        self.now = "the beginning"

    def __str__(self):
        return ", ".join(f"{passed} of {self.count} rounds{f' {name}' if name else ''}" for name, passed in self.passed.items())


def rounds(rig, round_of, count, between=None, tally=None):
    """Begin, `count` rounds of each variant in turn (each prints what it saw), end (`between`: see Rig.finish).

    `round_of`: a function, or those of the variants by their names; each counts its own rounds.
    """
    variants = round_of if isinstance(round_of, dict) else {"": round_of}
    tally = tally or Tally(variants, count)
    began = time.monotonic()
    rig.boot()
    rig.create()
    print(f"  {len(rig.all)} nodes share the array after {time.monotonic() - began:.0f} s", flush=True)
    for number in range(1, count + 1):
        for name, one in variants.items():
            began = time.monotonic()
            tally.now = f"round {number}{f' {name}' if name else ''}"
            rig.mark()
            seen = one(rig, number)
            tally.passed[name] += 1
            print(f"  {number:3} {f'{name}: ' if name else ''}{seen} ({time.monotonic() - began:.0f} s)", flush=True)
    tally.now = "the end"
    rig.finish(between)


def save_words(run, cluster, rig):
    """The last output of the programs on the nodes, beside the machines' own logs."""
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
    """`round_of`: see rounds(); `votes`: {id: votes}; `kind`: of rig; `options`: of ddraid.conf. Returns the exit code."""
    variants = round_of if isinstance(round_of, dict) else {"": round_of}
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="of each variant" if len(variants) > 1 else None)
    if len(variants) > 1:
        parser.add_argument("--only", choices=list(variants), help="this variant alone")
    args = parser.parse_args()
    if len(variants) > 1 and args.only:
        variants = {args.only: variants[args.only]}
    tally = Tally(variants, args.rounds)
    run = rig = None
    try:
        ddvm.check_machine()
        run = ddvm.Run()
        disks = [ddvm.Disk(run.path / f"d{i}.raw", SIZE, f"d{i}") for i in range(disks)]
        cpus = 2 if nodes <= 3 else 1   # of each machine: more of them than this are too many for emulation on a few processors
        cluster = ddvm.Cluster(run, [ddvm.Node(run, f"n{i}", disks, cpus=cpus) for i in range(1, nodes + 1)], votes=votes)
        print(f"{name}: {args.rounds} rounds{f' of each of {len(variants)} variants' if len(variants) > 1 else ''} on {nodes} nodes", flush=True)
        rig = kind(cluster, tools.build_writer(run.path), filesystem=filesystem, **options)
        rounds(rig, variants, args.rounds, tally=tally)
        print(f"{name}: {tally}, nothing lost")
    except ddvm.HarnessError as error:
        print(f"{name}: {error}\n{name}: ended after {tally}", file=sys.stderr)
        return 1
    except (AssertionError, ddvm.NodeDied) as error:
        for node in run.nodes:
            if node.alive():
                node.save_dmesg()
        save_words(run, cluster, rig)
        print(f"{name}: {tally.now} FAILED: {error}\nfenced: {cluster.fencer.log}\nlogs: {run.keep_logs(name)}\n"
              f"{name}: FAILED in {tally.now}, after {tally}", file=sys.stderr)
        return 1
    finally:
        if run:
            run.close()
    return 0
