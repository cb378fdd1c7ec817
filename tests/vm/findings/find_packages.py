# SPDX-License-Identifier: GPL-2.0-or-later
"""The Debian packages: what is in them, and what their removal, upgrade and purge do to arrays that are in use."""
import json
import pathlib
import re
import subprocess

from packages import debs, doctored, machine  # noqa: F401

VM = {"disks": 3, "size": "64M", "systemd": True}
FILES = ("README", "cluster.md", "examples/ddraid.conf", "examples/corosync.conf", "examples/dlm.conf")
USER = """
#include "lib/disk/scan.h"
#include "ddraid/format.h"
int main(void)
{
	struct ddr_error err;
	struct ddr_scan scan;

	return ddr_scan_devices(&scan, 0, &err) || sizeof(struct ddr_disk_sb) != 4096;
}
"""


def before(tree):
    """The programs of another build."""
    for name in ("ddraid", "ddraidd"):
        with open(tree / "usr/sbin" / name, "ab") as handle:
            handle.write(b"\0before")


def test_S17_packages_stay_under_an_array(machine, debs):
    """Findings S17 and S34: the removal succeeded, and everything on the array hung forever; a purge left /var/lib/ddraid, and there was
    no sample.
    """
    node = machine.node
    machine.begin(debs["ddraid"], debs["ddraid-dkms"])
    pid = machine.pid()
    for name in ("ddraid", "ddraid-dkms"):
        done = machine.dpkg("-r", name, check=False)
        assert done.code != 0 and "data: mounted on /mnt" in done.err and "ddraid stop --all" in done.err, done
        machine.version(name)
    assert machine.pid() == pid
    machine.write()
    node.run("umount /mnt")
    assert machine.dpkg("-r", "ddraid", check=False).code != 0, "nobody has it open, but the daemon still serves it"

    node.run("mkdir /etc/ddraid && cp /usr/share/doc/ddraid/examples/ddraid.conf /etc/ddraid/ && ddraidd --dump-config", timeout=30)
    node.run("ip addr add 10.0.1.1/24 dev lo && ip addr add 10.0.2.1/24 dev lo && corosync-keygen -l -k /etc/corosync/authkey >/dev/null "
             "&& corosync -f -t -c /usr/share/doc/ddraid/examples/corosync.conf", timeout=60)
    node.run("ddraid stop --all")
    machine.dpkg("-r", "ddraid-dkms", "ddraid")
    assert node.run("pgrep -x ddraidd", check=False).code == 1
    node.run("test -e /var/lib/ddraid && test -e /etc/ddraid/ddraid.conf")
    machine.dpkg("-P", "ddraid-dkms", "ddraid")
    left = node.run("find /var/lib /etc /run /usr/share/doc -name '*ddraid*'").out
    assert left == "", left
    machine.end()


def test_S33_an_upgrade_under_an_array(machine, debs, doctored):
    """Finding S33: the previous daemon kept running from a deleted file, and nothing reported that."""
    node = machine.node
    machine.begin(doctored(debs["ddraid"], "0.0.9", before), debs["ddraid-dkms"])
    pid = machine.pid()
    node.put("/root/load", "while ! [ -e /root/enough ]; do dd if=/dev/zero of=/mnt/load bs=64k count=16 oflag=direct conv=notrunc status=none || exit 1; done\n")
    load = node.spawn("exec sh /root/load")
    machine.install(debs["ddraid"])
    assert machine.pid() not in ("0", pid)
    assert node.run(f"readlink /proc/{machine.pid()}/exe").out.strip() == "/usr/sbin/ddraidd"
    machine.write()
    node.run("touch /root/enough")
    load.wait(60)
    status = node.run("ddraid status --json")
    assert status.err == "" and json.loads(status.out)[0]["state"] == "optimal", status

    node.run("cp -p /usr/sbin/ddraidd /root/ddraidd && mv /root/ddraidd /usr/sbin/ddraidd")
    for command in ("ddraid status", "ddraid status --json"):
        done = node.run(command)
        assert f"ddraidd (process {machine.pid()}) runs a program file that was replaced" in done.err and "systemctl restart ddraidd" in done.err, done
    node.run("sed -i 's/\\x00" + machine.version().replace(".", "[.]") + "\\x00/\\x000.0.9\\x00/g' /usr/sbin/ddraidd && systemctl restart ddraidd", timeout=90)
    node.run("mv /usr/sbin/ddraidd /root/ddraidd.other")
    done = node.run("ddraid status")
    assert "is release 0.0.9" in done.err, done
    machine.write()
    machine.end()


def test_S33_an_upgrade_that_could_not_serve_the_array(machine, debs, doctored):
    """Finding S33: the new package did not look at the interface of the module that is loaded."""
    def other_interface(tree):
        before(tree)
        script = tree / "DEBIAN/preinst"
        if script.exists():
            text, n = re.subn(r'"\$abi" != "\d+"', '"$abi" != "77"', script.read_text())
            assert n == 1
            script.write_text(text.replace("version 6 of the kernel", "version 77 of the kernel"))

    node = machine.node
    machine.begin(debs["ddraid"], debs["ddraid-dkms"])
    version, pid = machine.version(), machine.pid()
    newer = doctored(debs["ddraid"], "9.0", other_interface)
    done = machine.install(newer, check=False)
    assert done.code != 0 and "kernel interface" in done.err and "data: mounted on /mnt" in done.err and "ddraid stop --all" in done.err, done
    assert machine.version() == version and machine.pid() == pid
    assert node.run(f"readlink /proc/{pid}/exe").out.strip() == "/usr/sbin/ddraidd", "the old program is still in its place"
    machine.write()
    node.run("umount /mnt && ddraid stop --all")
    machine.install(newer)
    assert machine.version() == "9.0" and machine.pid() not in ("0", pid)
    machine.end()


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
