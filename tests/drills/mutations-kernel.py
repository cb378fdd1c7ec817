#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Breaks a safety rule in the kernel module on purpose, and sees a named test fail.

Each file in tests/mutations/kernel is a patch whose head names the rule (design,
section 6), what is broken, and the test that must fail. The tests pass first with the
module as it is; then each patch is applied to a copy of the sources, the module is built
and its test runs in a virtual machine. A patch that does not apply or build, and a
test that passes or cannot run at all, is a failure of this drill.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests" / "vm")]

from ddvm.config import HarnessError, check_machine, stage_dir  # noqa: E402
from ddvm import kernel as kernels  # noqa: E402

PATCHES = TOP / "tests" / "mutations" / "kernel"


def head(patch):
    """The lines in front of the diff as a dictionary."""
    return dict(re.findall(r"^(Rule|Breaks|Test): (.+)$", patch.read_text().split("\n---")[0], re.M))


def sources(target):
    """A copy of what the module is built from, under its names in the repository."""
    for part in ("kernel", "lib", "include"):
        shutil.copytree(TOP / part, target / part)


def build(tree, work, release):
    """Path of the module made of @tree; the compiler's words are the error."""
    subprocess.run([TOP / "packaging" / "stage-kernel-source", "copy", "ddraid", tree, work], check=True)
    done = subprocess.run(["make", "-C", f"/usr/src/linux-headers-{release}", f"M={work}", "modules"], capture_output=True,
                          text=True, check=False)
    if done.returncode:
        raise AssertionError(f"does not build: {done.stderr[-1500:]}")
    return work / "dm-ddraid.ko"


def stage_with(module, stage, target, release):
    """A copy of the stage that holds @module instead of the real one."""
    shutil.copytree(stage, target, symlinks=True)
    found = list(target.glob(f"lib/modules/{release}/**/dm-ddraid.ko*"))
    assert len(found) == 1, f"the stage holds {len(found)} modules for {release}"
    shutil.copy(module, found[0])


def run_test(tests, stage, report, tree=TOP):
    """Outcome of each test that ran: {name: 'passed', 'failed' or 'error'}, and pytest's output."""
    env = dict(os.environ, PYTHONPATH=str(TOP / "tests" / "vm"), PYTHONDONTWRITEBYTECODE="1")
    if stage:
        env["DDRAID_STAGE"] = str(stage)
    env["DDRAID_MODULE_SOURCE"] = str(tree)     # for the tests that build the module with test points
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", f"--junitxml={report}",
                           *[str(TOP / t) for t in tests]], capture_output=True, text=True, env=env, check=False, cwd=TOP)
    outcomes = {}
    if report.exists():
        for case in xml.parse(report).iter("testcase"):
            kinds = {child.tag for child in case}
            outcomes[case.get("name")] = ("error" if "error" in kinds else "failed" if "failure" in kinds
                                          else "skipped" if "skipped" in kinds else "passed")
    return outcomes, done.stdout[-3000:] + done.stderr[-1000:]


def mutate(patch, work, stage, release):
    """AssertionError unless the patch's test fails."""
    info = head(patch)
    assert set(info) == {"Rule", "Breaks", "Test"}, "its head lacks Rule, Breaks or Test"
    tree = work / "tree"
    sources(tree)
    done = subprocess.run(["git", "apply", "-C1", str(patch)], cwd=tree, capture_output=True, text=True, check=False,
                          env=dict(os.environ, GIT_DIR="/nonexistent"))
    assert done.returncode == 0, f"does not apply any more: {done.stderr.strip()}"
    module = build(tree, work / "build", release)
    stage_with(module, stage, work / "stage", release)
    outcomes, out = run_test([info["Test"]], work / "stage", work / "report.xml", tree)
    name = info["Test"].split("::")[1]
    assert name in outcomes, f"its test did not run: {out}"
    assert outcomes[name] == "failed", f"{info['Test']} {outcomes[name]}: {out[-600:] if outcomes[name] == 'error' else ''}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="*", help="names of mutations; all if none is given")
    parser.add_argument("--no-baseline", action="store_true", help="do not run the tests with the unbroken module first")
    args = parser.parse_args()
    patches = sorted(p for p in PATCHES.glob("*.patch") if not args.only or p.stem in args.only)
    if not patches or len(patches) < len(set(args.only)):
        print(f"mutations-kernel: no such mutation; they are in {PATCHES}", file=sys.stderr)
        return 2
    start, caught, failures = time.time(), 0, 0
    try:
        check_machine()
        stage, release = stage_dir(), kernels.get().release
        if not stage:
            raise HarnessError("nothing is built: run ./quickstart build first")
    except HarnessError as error:
        print(f"mutations-kernel: {error}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="ddraid-mutation-") as directory:
        if not args.no_baseline:
            tests = sorted({head(p)["Test"] for p in patches})
            outcomes, out = run_test(tests, stage, pathlib.Path(directory) / "baseline.xml")
            bad = [n for n, o in outcomes.items() if o != "passed"]
            if bad or len(outcomes) < len(tests):
                print(f"mutations-kernel: without a mutation these tests fail already: {bad or 'some did not run'}\n{out}")
                return 1
            print(f"without a mutation: {len(outcomes)} tests pass ({time.time() - start:.0f} s)", flush=True)
        for number, patch in enumerate(patches):
            work = pathlib.Path(directory) / str(number)
            work.mkdir()
            began = time.time()
            try:
                mutate(patch, work, stage, release)
                caught += 1
                verdict = f"caught by {head(patch)['Test'].split('/')[-1]}"
            except AssertionError as error:
                failures += 1
                verdict = f"NOT CAUGHT: {error}"
            shutil.rmtree(work)
            print(f"  rule {head(patch).get('Rule', '?'):2} {patch.stem:24} {time.time() - began:4.0f} s  {verdict}", flush=True)
    print(f"mutations-kernel: {caught} caught, {failures} not caught ({time.time() - start:.0f} s)")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
