# SPDX-License-Identifier: GPL-2.0-or-later
"""tests/prove.py: an interrupted proof continues where it was, a change of code starts it over, a change of doc/ does not, and a failure is named.

On a small repository, with a program in place of ddrsim that records the seeds that it gets.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

PROVE = pathlib.Path(__file__).resolve().parents[1] / "prove.py"
DDRSIM = r"""#!/bin/bash
here=$(dirname "$DDRAID_CACHE")
while [ $# -gt 0 ]; do
	case $1 in --seeds) seeds=$2 ;; --seed) seeds=$2-$2 ;; --nodes) nodes=$2 ;; --shrink) shrink=1 ;; esac
	shift
done
for s in $(seq "${seeds%-*}" "${seeds#*-}"); do
	if [ "$s" = "$(cat "$here/bad" 2>/dev/null)" ]; then
		echo "seed $s, event 9: rule 1: it is bad"
		[ -z "$shrink" ] || printf '> sim seed=%s nodes=%s\n> 1: start\n' "$s" "$nodes"
		exit 1
	fi
done
sleep "${DDRSIM_SLEEP:-0}"
[ -n "$shrink" ] || echo "$nodes $seeds" >>"$here/ran"
"""


TORTURE = r"""import os, sys
here = os.path.dirname(os.environ["DDRAID_CACHE"])
seed = sys.argv[2]
with open(here + "/tortured", "a") as file:
    file.write(seed + "\n")
bad = here + "/bad-seed"
assert sys.argv[1] == "--seed" and sys.argv[3:] == ["--minutes", "2.0"]
sys.exit(int(os.path.exists(bad) and dict([open(bad).read().split()]).get(seed, 0)))
"""


@pytest.fixture(name="place")
def fixture_place(tmp_path):
    top = tmp_path / "top"
    for name, text in (("lib/x.c", "one"), ("doc/x.md", "one"), ("tests/drills/flip.py", "# __main__\nimport sys, os\nos.path.exists(sys.argv[0] + '.edits') and open('lib/x.c', 'a').write('.')\n"
                        "sys.exit(os.path.exists(sys.argv[0] + '.bad'))\n"),
                       ("tests/torture/torture.py", TORTURE), ("build/tests/sim/ddrsim", DDRSIM), ("build/tests/sim/ddrsim-daemon", DDRSIM), (".gitignore", "/build\n")):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    for program in ("ddrsim", "ddrsim-daemon"):
        (top / "build/tests/sim" / program).chmod(0o755)
    git(top, "init", "-q")
    git(top, "add", ".")
    git(top, "commit", "-q", "-m", "one")
    return tmp_path


def git(top, *arguments):
    subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@example.org", *arguments], cwd=top, check=True)


def command(place, *arguments):
    return [sys.executable, str(PROVE), "--top", str(place / "top"), *arguments]


def environment(place, **more):
    return dict(os.environ, DDRAID_CACHE=str(place / "cache"), DDRAID_BUILDDIR=str(place / "top/build"), **more)


def prove(place, *arguments, **more):
    done = subprocess.run(command(place, *arguments), cwd=place / "top", env=environment(place, **more), capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def ran(place):
    return (place / "ran").read_text().split("\n")[:-1] if (place / "ran").exists() else []


def seeds(place, *more):
    return prove(place, "seeds", "--seeds", "60", "--events", "100", "--nodes", "3", "--jobs", "1", *more)


def test_all_is_proved_and_not_again(place):
    rc, said = seeds(place)
    assert rc == 0 and "PROVED: 60 seeds x 100 events, 3 nodes" in said and "since 20" in said
    assert len(ran(place)) == 6
    rc, said = seeds(place)
    assert rc == 0 and "60 of 60 passed, 0 to do" in said and len(ran(place)) == 6


def test_a_proof_that_is_killed_goes_on_where_it_was(place):
    with subprocess.Popen(command(place, "seeds", "--seeds", "60", "--events", "100", "--nodes", "3", "--jobs", "1"),
                          env=environment(place, DDRSIM_SLEEP="0.3"), stdout=subprocess.DEVNULL, start_new_session=True) as proof:
        limit = time.monotonic() + 120
        while len(ran(place)) < 3 and time.monotonic() < limit:
            time.sleep(0.05)
        os.killpg(proof.pid, signal.SIGKILL)
    before = ran(place)
    assert 3 <= len(before) < 6
    _, status = seeds(place, "--status")
    done = int(re.search(r"(\d+) of 60 passed", status).group(1))
    assert len(before) - 1 <= done / 10 <= len(before)
    rc, said = seeds(place)
    assert rc == 0 and "PROVED: 60 seeds" in said
    assert len(ran(place)) <= 7 and set(ran(place)) == {f"3 {a}-{a + 9}" for a in range(1, 60, 10)}


def test_doc_adds_up_and_lib_begins_anew(place):
    seeds(place)
    (place / "top/doc/x.md").write_text("two")
    git(place / "top", "commit", "-q", "-a", "-m", "two")
    rc, said = seeds(place)
    assert rc == 0 and len(ran(place)) == 6
    assert len(re.search(r"commits: (.*?)\)", said).group(1).split(", ")) == 2
    (place / "top/lib/x.c").write_text("two")
    rc, said = seeds(place)
    assert rc == 0 and "0 of 60 passed, 60 to do" in said and len(ran(place)) == 12
    (place / "top/lib/x.c").write_text("one")
    assert seeds(place)[0] == 0 and len(ran(place)) == 12


def test_more_seeds_are_only_those_that_are_missing(place):
    prove(place, "seeds", "--seeds", "25", "--events", "100", "--nodes", "3", "--jobs", "1")
    seeds(place)
    assert ran(place)[:4] == ["3 1-10", "3 11-20", "3 21-25", "3 26-35"]


def test_a_seed_that_fails_is_named_and_shrunk(place):
    (place / "bad").write_text("37")
    rc, said = seeds(place)
    assert rc == 1 and "FAILED: seed 37 of 100 events, 3 nodes: rule 1: it is bad" in said
    file = pathlib.Path(re.search(r"has 1 lines: (\S+)", said).group(1))
    assert "> sim seed=37 nodes=3\n> 1: start\n" in file.read_text()
    assert "FAILED" in seeds(place, "--status")[1]
    rc, said = seeds(place)			# and again: it is the first that is tried
    assert rc == 1 and len(ran(place)) == 3
    (place / "bad").unlink()
    assert seeds(place)[0] == 0


def test_drills_count_and_a_failure_ends_the_proof(place):
    rc, said = prove(place, "drills", "--times", "3")
    assert rc == 0 and "PROVED: 1 drills, 3 times each: flip" in said
    bad = place / "top/tests/drills/flip.py.bad"
    rc, said = prove(place, "drills", "--times", "4")
    assert "3 of 4 passed, 1 to do" in said and rc == 0
    git(place / "top", "commit", "-q", "--allow-empty", "-m", "three")
    (place / "top/.gitignore").write_text("/build\n*.bad\n")
    bad.write_text("")
    rc, said = prove(place, "drills", "--times", "5")
    assert rc == 1 and "FAILED: drill flip, 5 of 5" in said
    assert prove(place, "drills", "nothing")[0] == 2


def tortured(place):
    return [int(seed) for seed in (place / "tortured").read_text().split()]


def test_torture_resumes_over_seeds(place):
    """A seed that fails is named, is the first of the next run, and those that passed are not run again."""
    (place / "bad-seed").write_text("3 1")
    rc, said = prove(place, "torture", "--seeds", "4", "--minutes", "2")
    assert rc == 1 and "FAILED: torture, seed 3: exit code 1; log: " in said and tortured(place) == [1, 2, 3]
    assert "2 of 4 seeds passed, 2 to do; seed 3 FAILED" in prove(place, "torture", "--seeds", "4", "--minutes", "2", "--status")[1]
    (place / "bad-seed").unlink()
    rc, said = prove(place, "torture", "--seeds", "5", "--minutes", "2")
    assert rc == 0 and tortured(place) == [1, 2, 3, 3, 4, 5]
    assert "PROVED: torture of 5 seeds x 2 minutes of faults: no failure" in said
    assert "5 of 5" in prove(place, "torture", "--seeds", "5", "--minutes", "2", "--status")[1]
    (place / "bad-seed").write_text("6 3")		# the machine could not run it
    rc, said = prove(place, "torture", "--seeds", "6", "--minutes", "2")
    assert rc == 1 and "exit code 3" in said
    assert "5 of 6 seeds passed, 1 to do\n" in prove(place, "torture", "--seeds", "6", "--minutes", "2", "--status")[1]


def test_seeds_of_real_daemons_count_apart(place):
    assert seeds(place)[0] == 0
    rc, said = seeds(place, "--daemon")
    assert rc == 0 and "PROVED: 60 seeds x 100 events, 3 nodes with real daemons" in said and len(ran(place)) == 12


def test_what_was_built_of_other_files_is_not_run(place):
    before = prove(place, "tree")[1].strip()
    (place / "top/lib/x.c").write_text("two")
    rc, said = prove(place, "seeds", "--seeds", "10", "--nodes", "3", DDRAID_PROVE_TREE=before)
    assert rc == 3 and "changed while it was built" in said and ran(place) == []
    assert prove(place, "seeds", "--seeds", "10", "--nodes", "3", DDRAID_PROVE_TREE=prove(place, "tree")[1].strip())[0] == 0


def test_a_drill_during_which_files_changed_counts_for_nothing(place):
    (place / "top/.gitignore").write_text("/build\n*.edits\n")
    edits = place / "top/tests/drills/flip.py.edits"
    edits.write_text("")
    before = prove(place, "tree")[1]
    rc, said = prove(place, "drills", "--times", "2")
    assert rc == 3 and "counts for nothing" in said and prove(place, "tree")[1] != before
    edits.unlink()
    assert "0 of 2 passed, 2 to do" in prove(place, "drills", "--times", "2", "--status")[1]
    (place / "top/lib/x.c").write_text("one")
    assert prove(place, "tree")[1] == before and "0 of 2 passed, 2 to do" in prove(place, "drills", "--times", "2", "--status")[1]
