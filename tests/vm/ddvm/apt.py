# SPDX-License-Identifier: GPL-2.0-or-later
"""Packages of any Debian suite, from the archive that this machine already uses.

The machine's own apt state is read and never changed: other suites live in a
private state directory in the cache.
"""

import re
import subprocess
import tempfile

from .config import HarnessError, cache_dir, locked

KERNEL_PART = re.compile(r"linux-(image|binary|modules|base)-(?=\d)[a-z0-9.+~-]+$")


def _machine_archives():
    """[(uri, release, component)] of the machine's binary package sources."""
    out = subprocess.run(
        ["apt-get", "indextargets", "--format",
         "$(REPO_URI) $(RELEASE) $(COMPONENT) $(LABEL)", "Created-By: Packages"],
        capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in out.splitlines()]
    return [tuple(r[:3]) for r in rows if len(r) == 4 and r[3].startswith("Debian")]


def sources(suite):
    """sources.list text for `suite`, derived from the machine's own configuration.

    bookworm gets what the machine has of bookworm (updates and security too);
    another suite gets the archive of bookworm under that suite's name.
    """
    own = _machine_archives()
    rows = [r for r in own if r[1].split("-")[0] == suite and r[2] == "main"]
    if not rows:
        uris = {u for u, release, comp in own if comp == "main" and "-" not in release}
        rows = [(u, suite, "main") for u in sorted(uris)]
    if not rows:
        raise HarnessError("apt has no Debian package source: run apt-get update, or "
                           "add one to /etc/apt/sources.list.d")
    return "".join(f"deb {u} {release} {comp}\n" for u, release, comp in rows)


def options():
    """The machine's own settings for fetching (proxies, checks), as apt.conf text."""
    out = subprocess.run(["apt-config", "dump"], capture_output=True, text=True,
                         check=True).stdout
    return "".join(line + "\n" for line in out.splitlines()
                   if re.match(r"Acquire::(http|https|Check-|Retries|ForceIPv)", line))


def bootstrap(suite, packages, tree, more=()):
    """Install `packages` of a suite into the new directory `tree`, without recommendations."""
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
        conf.write(options() + 'APT::Install-Recommends "false";\n')
        conf.flush()
        done = subprocess.run(
            ["mmdebstrap", "--quiet", "--variant=minbase", "--mode=root",
             f"--aptopt={conf.name}", "--include=" + ",".join(packages), *more,
             suite, str(tree), "-"],
            input=sources(suite), capture_output=True, text=True, check=False)
    if done.returncode:
        errors = [ln for ln in done.stderr.splitlines() if ln.startswith("E:")]
        raise HarnessError(f"mmdebstrap of suite {suite} failed: "
                           + (errors[0] if errors else done.stderr.strip()[-200:]))


class PrivateApt:
    """apt for one suite with its own lists and cache."""

    def __init__(self, suite):
        self.suite = suite
        self.dir = cache_dir() / f"apt-{suite}"
        self.updated = False

    def _options(self):
        pairs = {
            "Dir::Etc::sourcelist": self.dir / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
            "Dir::State": self.dir / "state",
            "Dir::State::Lists": self.dir / "lists",
            "Dir::State::status": self.dir / "status",
            "Dir::Cache": self.dir / "cache",
            "Acquire::Languages": "none",
            "APT::Sandbox::User": "root",
        }
        return [arg for key, val in pairs.items() for arg in ("-o", f"{key}={val}")]

    def _run(self, tool, *args, cwd=None):
        done = subprocess.run([tool, *self._options(), *args], cwd=cwd,
                              capture_output=True, text=True, check=False)
        if done.returncode:
            reason = (done.stderr.strip() or done.stdout.strip()).splitlines()
            raise HarnessError(f"{tool} {args[0]} for suite {self.suite} failed: "
                               f"{reason[0] if reason else 'no message'}; is the "
                               "package archive reachable?")
        return done.stdout

    def update(self):
        """Fetch the suite's package lists, once an object."""
        if self.updated:
            return
        for sub in ("state", "lists/partial", "cache/archives/partial"):
            (self.dir / sub).mkdir(parents=True, exist_ok=True)
        (self.dir / "sources.list").write_text(sources(self.suite))
        (self.dir / "status").touch()
        self._run("apt-get", "update")
        self.updated = True

    def depends(self, package):
        """Names that `package` depends on."""
        out = self._run("apt-cache", "depends", package)
        return re.findall(r"^\s*\|?Depends: ([^<\s]+)$", out, re.MULTILINE)

    def version(self, package):
        out = self._run("apt-cache", "show", "--no-all-versions", package)
        return re.search(r"^Version: (.+)$", out, re.MULTILINE).group(1)

    def kernel_packages(self):
        """The packages that hold the suite's newest kernel image and modules."""
        found, todo = [], ["linux-image-amd64"]
        while todo:
            for name in self.depends(todo.pop()):
                if KERNEL_PART.match(name) and name not in found:
                    found.append(name)
                    todo.append(name)
        if not found:
            raise HarnessError(f"suite {self.suite}: linux-image-amd64 names no kernel package")
        return found

    def unpack(self, packages, target):
        """Download `packages` and unpack them below the directory `target`."""
        debs = self.dir / "debs"
        with locked(self.dir / "debs.lock"):
            debs.mkdir(exist_ok=True)
            self._run("apt-get", "download", *packages, cwd=debs)
            for deb in sorted(debs.glob("*.deb")):
                if deb.name.split("_")[0] in packages:
                    subprocess.run(["dpkg-deb", "-x", deb, target], check=True)
                deb.unlink()
