# SPDX-License-Identifier: GPL-2.0-or-later
"""What installing the Debian package does to the machine, by the very scripts that debhelper makes of packaging/debian."""
import os
import pathlib
import shutil
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
UNITS = ("ddraid.service", "ddraidd.service")


@pytest.fixture
def package(tmp_path):
    """The package's tree with its maintainer scripts, and the root of a machine that has the files and not yet run them."""
    tree, root = tmp_path / "tree", tmp_path / "root"
    files = tree / "debian/ddraid/lib/systemd/system"
    files.mkdir(parents=True)
    shutil.copytree(TOP / "packaging/debian", tree / "debian", dirs_exist_ok=True)
    for unit in UNITS:
        text = (TOP / f"packaging/systemd/{unit}.in").read_text().replace("@sbindir@", "/usr/sbin")
        (files / unit).write_text(text)
    for command in (["make", "-s", "-f", "debian/rules", "override_dh_installsystemd"], ["dh_installdeb", "-p", "ddraid"]):
        done = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (command, done.stderr)
    shutil.copytree(tree / "debian/ddraid/lib", root / "lib")
    (root / "etc/systemd/system").mkdir(parents=True)
    return tree / "debian/ddraid/DEBIAN", root


def configure(package, *args):
    scripts, root = package
    done = subprocess.run(["sh", "-e", scripts / "postinst", "configure", *args], capture_output=True, text=True, timeout=60,
                          env=dict(os.environ, DPKG_ROOT=str(root), DPKG_MAINTSCRIPT_PACKAGE="ddraid"))
    assert done.returncode == 0, done.stderr


def enabled(package):
    return sorted(str(p.relative_to(package[1])) for p in (package[1] / "etc/systemd/system").rglob("*") if p.is_symlink())


def test_installing_enables_and_starts_nothing(package):
    """A machine that sees a cluster's disks, and is not in the cluster yet, must not start the cluster's arrays by itself."""
    configure(package)
    assert enabled(package) == []
    postinst = (package[0] / "postinst").read_text()
    assert "deb-systemd-invoke" not in postinst and "systemctl" not in postinst, postinst
    configure(package, "1.0-1")         # and so does the next version
    assert enabled(package) == []


def test_an_upgrade_leaves_enabled_what_the_administrator_enabled(package):
    configure(package)
    wants = package[1] / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir()
    for unit in UNITS:
        (wants / unit).symlink_to(f"/lib/systemd/system/{unit}")
    configure(package, "1.0-1")
    assert len(enabled(package)) == len(UNITS)


def test_removing_stops_the_units(package):
    """The command goes with the package: afterwards nobody could stop the arrays in order."""
    prerm = (package[0] / "prerm").read_text()
    assert '"$1" = remove' in prerm and "deb-systemd-invoke stop ddraid.service ddraidd.service" in prerm, prerm
