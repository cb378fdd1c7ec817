#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Long proofs that resume: what `./quickstart prove NAME` calls.

    prove.py seeds [--seeds N] [--events M] [--nodes LIST] [--jobs J]   random schedules: N seeds of M events with each number of nodes
    prove.py drills [--times T] [NAME...]                               all drills (or those), T times each
    prove.py torture [--seeds N] [--minutes M]                          N seeds of the register test across real nodes, M minutes of faults each
    prove.py NAME --status                                              what is proved, and what is still to do

What passed is kept in DDRAID_CACHE/prove, one file for each proof and tree. The tree is the content of all files of the
repository but doc/ and texts that no program reads: commits that differ in those only add up. A proof that was cut goes on
where it was; any other change begins anew. What ran while such a file changed counts for no tree. Exit code: 0 all is proved, 1
something failed (the seed is named and shrunk), 2 usage, 3 the tree changed.

    prove.py tree       prints the tree: quickstart gives it, as it was before the build, in DDRAID_PROVE_TREE
"""
import argparse
import concurrent.futures
import datetime
import fcntl
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

TOP = pathlib.Path(__file__).resolve().parents[1]
TEXTS = {"README", "README.md", "NEWS", "CONTRIBUTING.md", "COPYING", "COPYING.LGPL", ".gitignore"}
AT_ONCE = 10		# seeds of one run of ddrsim: what is lost if the proof is cut
SHRINK_SECONDS = 120


def say(text):
    print(text, flush=True)


def files(top):
    """What the repository holds, also what is not committed yet; without git what lies there."""
    done = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=top, capture_output=True, check=False)
    if done.returncode == 0:
        return sorted(set(os.fsdecode(done.stdout).split("\0")) - {""})
    return sorted(str(p.relative_to(top)) for p in top.rglob("*") if p.is_file() and p.relative_to(top).parts[0] not in ("build", ".git"))


def tree(top):
    """A hash of all that can change behaviour."""
    total = hashlib.sha256()
    for name in files(top):
        path = top / name
        if name in TEXTS or name.startswith("doc/") or not (path.is_file() or path.is_symlink()):
            continue
        content = os.fsencode(os.readlink(path)) if path.is_symlink() else path.read_bytes()
        total.update(f"{name}\0{os.access(path, os.X_OK):d}\0{len(content)}\0".encode())
        total.update(content)
    return total.hexdigest()[:16]


def commit(top):
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=top, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "no commit"


def stamp():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


class Changed(Exception):
    """The files are not those any more whose proof this is."""


class Record:
    """What passed, and what failed, of one proof on one tree. Written after each step, as a whole or not at all."""

    def __init__(self, name, top):
        self.top, self.tree = top, tree(top)
        self.directory = pathlib.Path(os.environ.get("DDRAID_CACHE", "/var/cache/ddraid")) / "prove"
        self.directory.mkdir(parents=True, exist_ok=True)
        self.path = self.directory / f"{name}-{self.tree}.json"
        self.data = {"tree": self.tree, "since": stamp(), "commits": [], "passed": {}, "failed": {}}
        if self.path.exists():
            self.data = json.loads(self.path.read_text())

    def lock(self):
        self.file = open(self.path.with_suffix(".lock"), "w", encoding="utf-8")
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"prove: this proof is running already, on the same tree ({self.path.with_suffix('.lock')})")
        if commit(self.top) not in self.data["commits"]:
            self.data["commits"].append(commit(self.top))

    def same(self):
        """The files are still those of this record. What ran or was built meanwhile may be neither of the old nor of the new ones."""
        if tree(self.top) != self.tree:
            raise Changed("files of the repository changed meanwhile, so the last run counts for nothing; run it again")

    def save(self):
        new = self.path.with_suffix(".new")
        with open(new, "w", encoding="utf-8") as to:
            json.dump(self.data, to, indent=1)
            to.flush()
            os.fsync(to.fileno())
        new.replace(self.path)

    def passed(self, kind):
        return self.data["passed"].setdefault(kind, [])

    def on(self):
        commits = ", ".join(self.data["commits"]) or "none yet"
        return f"tree {self.tree} (commits: {commits}), since {self.data['since']}"


# ---- ranges of seeds: [[1, 40], [61, 80]] -----------------------------------------


def add(ranges, first, last):
    """Joined and in order."""
    out = []
    for a, b in sorted([*ranges, [first, last]]):
        if out and a <= out[-1][1] + 1:
            out[-1][1] = max(out[-1][1], b)
        else:
            out.append([a, b])
    return out


def count(ranges, most):
    return sum(max(0, min(b, most) - a + 1) for a, b in ranges)


def missing(ranges, most):
    """Pieces of at most AT_ONCE seeds that are not in @ranges."""
    at = 1
    for a, b in [*ranges, [most + 1, most + 1]]:
        while at < min(a, most + 1):
            last = min(at + AT_ONCE - 1, a - 1, most)
            yield at, last
            at = last + 1
        at = max(at, b + 1)


# ---- seeds -------------------------------------------------------------------------


def kind_of(nodes, args):
    return f"{args.events} events, {nodes} node{'s' if nodes > 1 else ''}{' with real daemons' if args.daemon else ''}"


def shrink(record, ddrsim, seed, nodes, events):
    path = record.directory / f"seed-{seed}-{nodes}-{record.tree}.txt"
    done = subprocess.run([ddrsim, "--seed", str(seed), "--nodes", str(nodes), "--events", str(events), "--shrink", str(SHRINK_SECONDS)],
                          capture_output=True, text=True, check=False)
    path.write_text(re.sub(r"^(?![>#])", "# ", done.stdout, flags=re.M))
    return path


def failed(record, ddrsim, kind, nodes, args, said):
    match = re.search(r"^seed (\d+), event \d+: (.*)$", said, re.M)
    if not match:
        say(f"prove: ddrsim ended with an error and named no seed:\n{said[-2000:]}")
        return 1
    seed = int(match.group(1))
    record.data["failed"].setdefault(kind, {})[str(seed)] = match.group(2)
    record.save()
    say(f"FAILED: seed {seed} of {kind}: {match.group(2)}")
    say(f"  replay: ddrsim {'--daemon ' if args.daemon else ''}--seed {seed} --events {args.events} --nodes {nodes} --trace")
    if args.daemon:
        return 1
    say("  shrinking it ...")
    path = shrink(record, ddrsim, seed, nodes, args.events)
    acts = sum(line.startswith("> ") for line in path.read_text().splitlines()) - 1
    say(f"  the shortest schedule that was found has {acts} lines: {path}\n  run it: build/tests/scenarios/run {path}")
    return 1


def own_copy(record, program):
    """The program as it is now: the tree may change while the proof goes on."""
    build = pathlib.Path(os.environ.get("DDRAID_BUILDDIR", record.top / "build"))
    copy = record.directory / f"{program}-{record.tree}-{os.getpid()}"
    shutil.copy2(build / "tests/sim" / program, copy)
    try:
        record.same()
    except Changed:
        copy.unlink()
        raise
    return copy


def seeds_status(record, args):
    for nodes in args.nodes:
        kind = kind_of(nodes, args)
        done = count(record.passed(kind), args.seeds)
        say(f"seeds with {kind}: {done} of {args.seeds} passed, {args.seeds - done} to do" +
            "".join(f"; seed {seed} FAILED: {why}" for seed, why in record.data["failed"].get(kind, {}).items()))
    say(f"on {record.on()}")


def seeds_of(record, ddrsim, nodes, args):
    kind = kind_of(nodes, args)
    begun, before = time.monotonic(), count(record.passed(kind), args.seeds)

    def run(piece):
        done = subprocess.run([ddrsim, "--seeds", f"{piece[0]}-{piece[1]}", "--nodes", str(nodes), "--events", str(args.events), "--quiet"],
                              capture_output=True, text=True, check=False)
        return piece, done.returncode, done.stdout + done.stderr

    again = [(int(seed), int(seed)) for seed in record.data["failed"].get(kind, {})]	# first of all: they decide
    pieces = iter([*again, *missing(record.passed(kind), args.seeds)])
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        waiting = {pool.submit(run, piece) for _, piece in zip(range(args.jobs), pieces)}
        while waiting:
            ready, waiting = concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in ready:
                (first, last), rc, said = future.result()
                if rc:
                    return failed(record, ddrsim, kind, nodes, args, said)
                record.data["passed"][kind] = add(record.passed(kind), first, last)
                record.save()
                piece = next(pieces, None)
                if piece:
                    waiting.add(pool.submit(run, piece))
            done = count(record.passed(kind), args.seeds)
            left = (args.seeds - done) * (time.monotonic() - begun) / max(1, done - before)
            say(f"seeds with {kind}: {done} of {args.seeds} passed, {args.seeds - done} to do, about {left / 60:.0f} min")
    record.data["failed"].pop(kind, None)
    return 0


def seeds(record, args):
    ddrsim = own_copy(record, "ddrsim-daemon" if args.daemon else "ddrsim")
    try:
        for nodes in args.nodes:
            if seeds_of(record, ddrsim, nodes, args):
                return 1
    finally:
        ddrsim.unlink()
    record.save()
    for nodes in args.nodes:
        say(f"PROVED: {count(record.passed(kind_of(nodes, args)), args.seeds)} seeds x {kind_of(nodes, args)}: no rule was broken")
    say(f"on {record.on()}")
    return 0


# ---- drills ------------------------------------------------------------------------


def drill_names(record, args):
    known = sorted(p.stem for p in (record.top / "tests/drills").glob("*.py") if "__main__" in p.read_text())
    unknown = set(args.names) - set(known)
    if unknown:
        print(f"prove: there is no drill {', '.join(sorted(unknown))}; ./quickstart drill lists them", file=sys.stderr)
        sys.exit(2)
    return args.names or known


def drills_status(record, args):
    for name in drill_names(record, args):
        done = min(args.times, len(record.passed(name)))
        why = record.data["failed"].get(name)
        say(f"drill {name}: {done} of {args.times} passed, {args.times - done} to do" + (f"; FAILED last time, log: {why}" if why else ""))
    say(f"on {record.on()}")


def drills(record, args):
    names = drill_names(record, args)
    left = sum(args.times - min(args.times, len(record.passed(name))) for name in names)
    for turn in range(1, args.times + 1):	# each once, then each twice: what breaks often is seen early
        for name in names:
            if len(record.passed(name)) >= turn:
                continue
            log = record.directory / f"drill-{name}-{record.tree}.log"
            say(f"drill {name}, {turn} of {args.times}; {left} runs to do")
            with open(log, "w", encoding="utf-8") as to:
                rc = subprocess.run(["/usr/bin/python3", str(record.top / f"tests/drills/{name}.py")], stdout=to, stderr=to,
                                    stdin=subprocess.DEVNULL, check=False).returncode
            record.same()	# a drill runs what lies in the tree
            if rc:
                record.data["failed"][name] = str(log)
                record.save()
                say(f"FAILED: drill {name}, {turn} of {args.times}: exit code {rc}; log: {log}")
                return 1
            record.passed(name).append(stamp())
            record.data["failed"].pop(name, None)
            record.save()
            left -= 1
    say(f"PROVED: {len(names)} drills, {args.times} times each: {', '.join(names)}\non {record.on()}")
    return 0


# ---- torture -----------------------------------------------------------------------


def torture_kind(args):
    return f"{args.minutes:g} minutes of faults"


def torture_status(record, args):
    kind = torture_kind(args)
    done = count(record.passed(kind), args.seeds)
    say(f"torture with {kind}: {done} of {args.seeds} seeds passed, {args.seeds - done} to do" +
        "".join(f"; seed {seed} FAILED, log: {log}" for seed, log in record.data["failed"].get(kind, {}).items()))
    say(f"on {record.on()}")


def torture(record, args):
    kind = torture_kind(args)
    failed_seeds = record.data["failed"].setdefault(kind, {})
    left = [int(seed) for seed in failed_seeds]		# first of all: they decide
    left += [seed for first, last in missing(record.passed(kind), args.seeds) for seed in range(first, last + 1) if seed not in left]
    for seed in left:
        log = record.directory / f"torture-{seed}-{record.tree}.log"
        say(f"torture, seed {seed}, {kind}; {args.seeds - count(record.passed(kind), args.seeds)} seeds to do")
        with open(log, "w", encoding="utf-8") as to:
            rc = subprocess.run(["/usr/bin/python3", str(record.top / "tests/torture/torture.py"), "--seed", str(seed), "--minutes", str(args.minutes)],
                                stdout=to, stderr=to, stdin=subprocess.DEVNULL, check=False).returncode
        record.same()	# it runs what lies in the tree
        if rc:
            if rc == 1:		# else the machine could not run it, which says nothing of the seed
                failed_seeds[str(seed)] = str(log)
                record.save()
            say(f"FAILED: torture, seed {seed}: exit code {rc}; log: {log}")
            return 1
        failed_seeds.pop(str(seed), None)
        record.data["passed"][kind] = add(record.passed(kind), seed, seed)
        record.save()
    say(f"PROVED: torture of {count(record.passed(kind), args.seeds)} seeds x {kind}: no failure\non {record.on()}")
    return 0


def arguments():
    parser = argparse.ArgumentParser(prog="./quickstart prove", description=__doc__.splitlines()[0])
    parser.add_argument("--top", type=pathlib.Path, default=TOP, help=argparse.SUPPRESS)
    kinds = parser.add_subparsers(dest="name", required=True, metavar="NAME")
    one = kinds.add_parser("seeds", help="random schedules in the simulator")
    one.add_argument("--seeds", type=int, default=10000, help="seeds from 1 [10000]")
    one.add_argument("--events", type=int, default=10000, help="events of each [10000]")
    one.add_argument("--nodes", type=lambda text: [int(n) for n in text.split(",")], default=[1, 3], help="numbers of nodes [1,3]")
    one.add_argument("--jobs", type=int, default=os.cpu_count())
    one.add_argument("--daemon", action="store_true", help="with real daemons (doc/simulator.md)")
    kinds.add_parser("tree", help="the tree that a proof would be of")
    two = kinds.add_parser("drills", help="faults under load in virtual machines")
    two.add_argument("--times", type=int, default=10, help="how often each [10]")
    two.add_argument("names", nargs="*", metavar="DRILL")
    three = kinds.add_parser("torture", help="the register test across real nodes")
    three.add_argument("--seeds", type=int, default=20, help="seeds from 1 [20]")
    three.add_argument("--minutes", type=float, default=10, help="of faults, of each seed [10]")
    for each in (one, two, three):
        each.add_argument("--status", action="store_true", help="only say what is proved and what is to do")
    return parser.parse_args()


def main():
    args = arguments()
    if args.name == "tree":
        print(tree(args.top.resolve()))
        return 0
    record = Record(args.name, args.top.resolve())
    status, proof = {"seeds": (seeds_status, seeds), "drills": (drills_status, drills), "torture": (torture_status, torture)}[args.name]
    if args.status:
        status(record, args)
        return 0
    if (os.environ.get("DDRAID_PROVE_TREE") or record.tree) != record.tree:
        say("prove: files of the repository changed while it was built; run it again")
        return 3
    record.lock()
    record.save()
    status(record, args)
    try:
        return proof(record, args)
    except Changed as why:
        say(f"prove: {why}")
        return 3


if __name__ == "__main__":
    sys.exit(main())
