# SPDX-License-Identifier: GPL-2.0-or-later
"""The Debian packages, as `make deb` builds them, and machines on which dpkg installs them. No tests."""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from ddvm.config import HarnessError, stage_dir

TOP = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("DDRAID_BUILDDIR", TOP / "build"))
NAMES = ("ddraid", "ddraid-dkms", "libddraid-dev")
SOURCES = ("cli", "daemon", "doc", "include", "kernel", "lib", "packaging", "Makefile.am", "README", "configure.ac")
# DKMS itself would have to compile in the guest, for minutes: the module that `make` has built for the guest's kernel is there already.
DKMS = {
    "DEBIAN/control": "Package: dkms\nVersion: 99\nArchitecture: all\nMaintainer: ddraid tests <tests@ddraid.invalid>\nDescription: stand-in\n",
    "usr/lib/dkms/common.postinst": "#!/bin/sh\nexit 0\n",
    "usr/sbin/dkms": "#!/bin/sh\nexit 0\n",
}


def _stale(debs):
    """Was a source changed after the packages were built?"""
    source = re.search(r"^abs_top_srcdir = (.+)$", (BUILD / "Makefile").read_text(), re.M)[1]
    files = (p for part in SOURCES for p in ([pathlib.Path(source, part)] if pathlib.Path(source, part).is_file() else pathlib.Path(source, part).rglob("*")))
    newest = max((p.stat().st_mtime for p in files if p.is_file() and "__pycache__" not in p.parts), default=0)
    return not debs or newest > min(p.stat().st_mtime for p in debs)


@pytest.fixture(scope="session")
def debs():
    """{name: path of the package}; built where they are not, or older than a source."""
    found = sorted((BUILD / "deb").glob("*.deb"))
    if _stale(found):
        done = subprocess.run(["make", "-C", BUILD, "deb"], capture_output=True, text=True, check=False, timeout=1200,
                              env=dict(os.environ, DEB_BUILD_OPTIONS="nocheck"))
        if done.returncode:
            raise HarnessError(f"make deb failed: {done.stderr[-2000:]}")
        found = sorted((BUILD / "deb").glob("*.deb"))
    return {name: path for path in found for name in NAMES if path.name.startswith(f"{name}_")}


def packed(tree, target):
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, target], check=True, capture_output=True)
    return target


@pytest.fixture
def doctored(tmp_path):
    """Function that makes of a package one of another version, after `edit` has changed its unpacked tree."""
    def make(deb, version, edit):
        tree = tmp_path / f"tree-{version}"
        subprocess.run(["dpkg-deb", "-R", deb, tree], check=True)
        control = tree / "DEBIAN/control"
        control.write_text(re.sub(r"^Version: .+$", f"Version: {version}", control.read_text(), flags=re.M))
        edit(tree)
        done = packed(tree, tmp_path / f"{deb.name.split('_')[0]}_{version}.deb")
        shutil.rmtree(tree)
        return done
    return make


class Machine:
    """A guest with systemd and the kernel module of the build, but nothing else of it."""

    def __init__(self, node, dkms):
        self.node, self.dkms = node, dkms
        node.run("rm -f /etc/dpkg/dpkg.cfg.d/*")       # the guest's image leaves documents out

    def dpkg(self, *args, check=True):
        return self.node.run(["dpkg", *args], check=check, timeout=180)

    def install(self, *debs, check=True):
        for deb in debs:
            self.node.put(f"/root/{deb.name}", deb.read_bytes())
        return self.dpkg("-i", *(f"/root/{deb.name}" for deb in debs), check=check)

    def end(self):
        """The next test finds the machine as this one did."""
        self.node.run("! mountpoint -q /mnt || umount /mnt; ! command -v ddraid || ddraid stop --all", timeout=120)
        self.dpkg("-P", "ddraid-dkms", "ddraid", "dkms")
        self.node.run("for d in " + " ".join(d.dev for d in self.node.disks) + "; do blkdiscard -f -z $d || exit 1; done", timeout=120)

    def begin(self, *debs):
        """All that is needed to serve arrays, from these packages; an array that is mounted."""
        self.install(self.dkms, *debs)
        self.node.run("systemctl enable --now ddraidd ddraid", timeout=120)
        self.node.run("ddraid create data --order 1 " + " ".join(d.dev for d in self.node.disks))
        self.node.run("ddraid start data && udevadm settle && mkfs.ext4 -q -E nodiscard /dev/mapper/data && mount /dev/mapper/data /mnt", timeout=120)

    def write(self):
        """A write that is through to the members."""
        self.node.run("dd if=/dev/urandom of=/mnt/file bs=64k count=64 conv=fsync status=none", timeout=60)

    def pid(self):
        return self.node.run("systemctl show -P MainPID ddraidd").out.strip()

    def version(self, name="ddraid"):
        """Of the package, if it is completely installed (whatever dpkg was last requested to do with it)."""
        state, version = (self.node.run(["dpkg-query", "-W", "-f", "${db:Status-Abbrev}\t${Version}", name]).out.split("\t"))
        assert state[1:] == "i ", state
        return version


@pytest.fixture
def machine(request, tmp_path_factory):
    """The file's one machine, by its VM; a test that passes leaves it as it was."""
    if "stage" not in request.module.VM:
        modules = tmp_path_factory.mktemp("modules")
        shutil.copytree(stage_dir() / "lib/modules", modules / "lib/modules")
        request.module.VM["stage"] = modules
    tree = tmp_path_factory.mktemp("dkms")
    for name, text in DKMS.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
        (tree / name).chmod(0o644 if name.endswith("control") else 0o755)
    return Machine(request.getfixturevalue("shared_node"), packed(tree, tree.parent / f"{tree.name}.deb"))
