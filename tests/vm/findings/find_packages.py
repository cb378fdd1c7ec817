# SPDX-License-Identifier: GPL-2.0-or-later
"""The Debian packages: what is in them."""
import pathlib
import re
import subprocess

from packages import debs  # noqa: F401

FILES = ("README", "cluster.md", "examples/ddraid.conf", "examples/corosync.conf", "examples/dlm.conf")
USER = """
#include "lib/scan.h"
#include "ddraid/format.h"
int main(void)
{
	struct ddr_error err;
	struct ddr_scan scan;

	return ddr_scan_devices(&scan, 0, &err) || sizeof(struct ddr_disk_sb) != 4096;
}
"""


def test_S34_what_a_newcomer_finds(debs, tmp_path):
    """Finding S34: no guide and no sample configuration in the packages, 12 errors of lintian, a module without a version."""
    assert set(debs) == {"ddraid", "ddraid-dkms", "libddraid-dev"}
    tree = tmp_path / "tree"
    for deb in debs.values():
        subprocess.run(["dpkg-deb", "-x", deb, tree], check=True)
    assert [name for name in FILES if not (tree / "usr/share/doc/ddraid" / name).is_file()] == []
    release = subprocess.run(["dpkg-deb", "-f", debs["ddraid"], "Version"], capture_output=True, text=True, check=True).stdout.strip()
    source, = (tree / "usr/src").iterdir()
    assert source.name == f"ddraid-{release}" and f'"{release}"' in (source / "release.h").read_text()

    lintian = subprocess.run(["lintian", "--fail-on", "error", *debs.values()], capture_output=True, text=True, check=False)
    assert lintian.returncode == 0 and not re.search("^E:", lintian.stdout, re.M), lintian.stdout + lintian.stderr

    (tmp_path / "user.c").write_text(USER)
    libraries = tree / "usr/lib/x86_64-linux-gnu"
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "ddraid"], capture_output=True, text=True, check=True,
                           env={"PATH": "/usr/bin", "PKG_CONFIG_PATH": str(libraries / "pkgconfig")}).stdout
    flags = [flag.replace("/usr/", f"{tree}/usr/") if "libddraid" in flag else flag for flag in flags.split()]
    subprocess.run(["gcc", "-o", tmp_path / "user", tmp_path / "user.c", f"-L{libraries}", *flags], check=True)
    assert pathlib.Path(tmp_path / "user").exists()
