# SPDX-License-Identifier: GPL-2.0-or-later
"""What installing, upgrading and removing the Debian packages does to the machine, by the very scripts that debhelper makes of packaging/debian.

The packages themselves are installed in tests/vm/findings/find_packages.py.
"""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
UNITS = ("ddraid.service", "ddraidd.service")


def number(file, name):
    return re.search(rf"^#define {name}\s+(\d+)u", (TOP / "include/ddraid" / file).read_text(), re.M)[1]


ABI, PROTOCOL, LOWEST = (int(number(*what)) for what in (("uapi.h", "DDR_ABI_VERSION"), ("proto.h", "DDR_MSG_VERSION"), ("proto.h", "DDR_MSG_LOWEST")))


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """debian/ of a source tree in which the maintainer scripts of all packages are made."""
    tree = tmp_path_factory.mktemp("tree")
    files = tree / "debian/ddraid/lib/systemd/system"
    files.mkdir(parents=True)
    shutil.copytree(TOP / "packaging/debian", tree / "debian", dirs_exist_ok=True)
    shutil.copytree(TOP / "include", tree / "include")
    for unit in UNITS:
        text = (TOP / f"packaging/systemd/{unit}.in").read_text().replace("@sbindir@", "/usr/sbin")
        (files / unit).write_text(text)
    for target in ("override_dh_installsystemd", "override_dh_installdeb"):
        done = subprocess.run(["make", "-s", "-f", "debian/rules", target], cwd=tree, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (target, done.stderr)
    return tree / "debian"


@pytest.fixture
def package(built, tmp_path):
    """The scripts of the package ddraid, and the root of a machine that has its files and has not run them yet."""
    root = tmp_path / "root"
    shutil.copytree(built / "ddraid/lib", root / "lib")
    (root / "etc/systemd/system").mkdir(parents=True)
    return built / "ddraid/DEBIAN", root


def configure(package, *args):
    scripts, root = package
    done = subprocess.run(["sh", "-e", scripts / "postinst", "configure", *args], capture_output=True, text=True, timeout=60,
                          env=dict(os.environ, DPKG_ROOT=str(root), DPKG_MAINTSCRIPT_PACKAGE="ddraid"))
    assert done.returncode == 0, done.stderr


def enabled(package):
    return sorted(str(p.relative_to(package[1])) for p in (package[1] / "etc/systemd/system").rglob("*") if p.is_symlink())


def test_installing_enables_and_starts_nothing(package):
    """A machine that sees a cluster's disks, and is not in the cluster yet, must not start the cluster's arrays automatically."""
    configure(package)
    assert enabled(package) == []
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


# ---- what the scripts do on a machine whose arrays, units and module are played ----------------------------------------------------

SERVED = "data: 0 262144 ddraid AAAAA 8/8 idle 0/0 0 0 0 attached"
NOSYNC = "bench: 0 262144 ddraid AAAAA 8/8 idle 0/0 0 0 0 nosync"
STUBS = {
    "ischroot": "exit 1",
    "dmsetup": """case $1 in
        status) [ -n "$DEVICES" ] || { echo "No devices found"; exit 0; }
                [ "$DEVICES" != broken ] || exit 1
                echo "$DEVICES" ;;
        info) echo dm-7 253 7 ;;
        esac""",
    "systemctl": """[ "$1" != show ] || { echo "$MAIN_PID"; exit 0; }
        echo "systemctl $*" >>"$CALLS" """,
    "deb-systemd-invoke": """echo "deb-systemd-invoke $*" >>"$CALLS"; [ "$STOPS" != no ]""",
    "deb-systemd-helper": "exit 0",
    "modinfo": "echo NEW",
    "modprobe": """echo "modprobe $*" >>"$CALLS" """,
}


@pytest.fixture
def machine(package, tmp_path):
    """Function that runs a maintainer script of a package; the result has what the script called in `calls`."""
    if os.geteuid() != 0:
        pytest.skip("mount namespaces need root")
    stubs, calls = tmp_path / "stubs", tmp_path / "calls"
    stubs.mkdir()
    for name, text in STUBS.items():
        (stubs / name).write_text(f"#!/bin/sh\n{text}\n")
        (stubs / name).chmod(0o755)

    def run(script, *args, name="ddraid", devices="", abi=ABI, protocol=f"{LOWEST} {PROTOCOL}", running=None, main_pid=0, stops="yes"):
        """@running: what the daemon that runs has written about itself, or None: none runs."""
        path = package[0].parents[1] / name / "DEBIAN" / script
        assert path.exists(), f"{name} has no {script}"
        calls.write_text("")
        setup = "mount -t tmpfs none /sys/module && mount -t tmpfs none /run && mkdir -p /sys/module/dm_ddraid/parameters /run/systemd/system /run/ddraid"
        if abi:
            setup += f" && echo {abi} >/sys/module/dm_ddraid/parameters/abi"
        if protocol:
            setup += f" && echo {protocol} >/sys/module/dm_ddraid/parameters/protocol"
        if running is not None:
            setup += " && echo $$ >/run/ddraid/ddraidd.pid"
            setup += f" && printf '{running}' | sed s/PID/$$/ >/run/ddraid/ddraidd.release"
        done = subprocess.run(["unshare", "--mount", "sh", "-c", f'{setup} && sh "$@"', "sh", path, *args], capture_output=True, text=True, timeout=60,
                              env={"PATH": f"{stubs}:{os.environ['PATH']}", "DPKG_MAINTSCRIPT_PACKAGE": name, "DEVICES": devices, "CALLS": str(calls),
                                   "MAIN_PID": str(main_pid), "STOPS": stops})
        done.calls = calls.read_text().splitlines()
        return done

    return run


def test_S17_what_is_up_keeps_the_packages(machine):
    """Finding S17: the packages were removed while a file system on an array was mounted, which then hung forever."""
    for up in (SERVED, SERVED.replace("attached", "detached"), f"{NOSYNC}\n{SERVED}"):
        done = machine("prerm", "remove", devices=up)
        assert done.returncode == 1 and "  data" in done.stderr and "ddraid stop --all" in done.stderr, done
        assert done.calls == [], "nothing is stopped by a removal that is refused"
    for up in (SERVED, NOSYNC):
        done = machine("prerm", "remove", name="ddraid-dkms", devices=up)
        assert done.returncode == 1 and "ddraid stop --all" in done.stderr, done
    for name in ("ddraid", "ddraid-dkms"):      # it is not known: then there may be one
        done = machine("prerm", "remove", name=name, devices="broken")
        assert done.returncode != 0 and "which arrays are up" in done.stderr, done
        assert machine("prerm", "upgrade", "2.0", name=name, devices=SERVED).returncode == 0


def test_removing_stops_the_units(machine):
    """The command is removed with the package: afterwards nobody could stop the daemon cleanly."""
    for up in ("", NOSYNC):
        done = machine("prerm", "remove", devices=up)
        assert done.returncode == 0 and done.calls == ["deb-systemd-invoke stop ddraid.service ddraid-all.service ddraid-stop.service ddraidd.service"], done
    done = machine("prerm", "remove", stops="no")
    assert done.returncode == 1 and "the package stays" in done.stderr, done
    assert machine("prerm", "remove", name="ddraid-dkms").returncode == 0


def test_S33_what_runs_decides_whether_an_upgrade_may_be(machine):
    """Finding S33: the new daemon is what systemd starts from then on, so it must be able to take over the arrays that are up."""
    ours = f"pid=PID\\nabi={ABI}\\nlowest={LOWEST}\\nprotocol={PROTOCOL}\\ntransport=corosync\\n"
    other = ours.replace(f"protocol={PROTOCOL}", "protocol=9999")

    def upgrade(**options):
        return machine("preinst", "upgrade", "0.0.9", **options)

    assert upgrade(devices=SERVED, running=ours).returncode == 0
    assert upgrade(devices="", abi="9999", running=other).returncode == 0
    assert upgrade(devices=NOSYNC, abi="9999").returncode == 0
    for abi, word in (("9999", "speaks 9999"), ("", "an older version")):
        done = upgrade(devices=SERVED, abi=abi, running=ours)
        assert done.returncode == 1 and word in done.stderr and f"version {ABI} of the kernel interface" in done.stderr, done
        assert "  data" in done.stderr and "ddraid stop --all" in done.stderr, done
    for protocol in (f"{LOWEST - 1} {LOWEST - 1}", f"{PROTOCOL + 1} {PROTOCOL + 2}", ""):
        done = upgrade(devices=SERVED, protocol=protocol, running=ours)
        assert done.returncode == 1 and f"the loaded kernel module serves {protocol.replace(' ', ' to ') or '0 to 0'}: it could not serve" in done.stderr, done
        assert upgrade(devices="", protocol=protocol, running=ours).returncode == 0
    assert upgrade(devices=SERVED, protocol=f"{LOWEST - 3} {LOWEST}", running=ours).returncode == 0
    assert upgrade(devices=SERVED, protocol=f"{PROTOCOL} {PROTOCOL + 3}", running=ours).returncode == 0
    done = upgrade(devices=SERVED, running=other)
    assert done.returncode == 1 and "on all nodes" in done.stderr and "9999" in done.stderr, done
    done = upgrade(devices=SERVED, running=ours.replace(f"lowest={LOWEST}", f"lowest={LOWEST - 1}"))      # the cluster may use that one
    assert done.returncode == 1 and f"speaks {LOWEST - 1} to {PROTOCOL}: " in done.stderr, done
    assert upgrade(devices=SERVED, running=ours.replace(f"lowest={LOWEST}\\n", "")).returncode == 0, "the first releases spoke one version"
    assert upgrade(devices=SERVED, running=other.replace("corosync", "local")).returncode == 0
    done = upgrade(devices=SERVED, running=ours.replace("PID", "1"))
    assert done.returncode == 1 and "an older version" in done.stderr, done
    assert upgrade(devices=SERVED).returncode == 0, "without a daemon the array waits for the new one"
    assert upgrade(devices="broken").returncode != 0


def test_S33_an_upgrade_restarts_the_daemon_that_runs(machine):
    """Finding S33: the daemon of before ran on from a deleted file."""
    restart = "systemctl try-restart ddraidd.service"
    done = machine("postinst", "configure", "0.0.9", devices=SERVED, main_pid=7)
    assert done.returncode == 0 and restart in done.calls, done
    for arguments, options in ((("configure",), {"main_pid": 7}), (("configure", "0.0.9"), {}), (("abort-remove",), {"main_pid": 7})):
        assert restart not in machine("postinst", *arguments, **options).calls, (arguments, options)
    done = machine("postinst", "configure", "0.0.9", devices=SERVED, abi="9999", main_pid=7)
    assert done.returncode == 0 and restart not in done.calls and "NOT restarted" in done.stderr, done


def test_S33_the_new_module_is_loaded_when_nothing_is_up(machine):
    """Finding S33: else the module of before stays, and the administrator reads until when."""
    done = machine("postinst", "configure", "0.0.9", name="ddraid-dkms", main_pid=7)
    assert done.returncode == 0, done
    assert done.calls == ["systemctl stop ddraidd.service", "modprobe -r dm-ddraid", "modprobe dm-ddraid", "systemctl --no-block start ddraidd.service"]
    for up in (SERVED, NOSYNC, "broken"):
        done = machine("postinst", "configure", "0.0.9", name="ddraid-dkms", devices=up, main_pid=7)
        assert done.returncode == 0 and done.calls == [] and "stays until the next boot" in done.stdout, done


def test_S34_purge_leaves_nothing_of_ours(package):
    """Finding S34: /var/lib/ddraid stayed after a purge; what an administrator has put beside our configuration does stay."""
    scripts, root = package

    def postrm(*args):
        subprocess.run(["sh", "-e", scripts / "postrm", *args], check=True, timeout=60,
                       env=dict(os.environ, DPKG_ROOT=str(root), DPKG_MAINTSCRIPT_PACKAGE="ddraid"))

    (root / "var/lib/ddraid").mkdir(parents=True)
    (root / "var/lib/ddraid/machine").write_text("x")
    (root / "etc/ddraid").mkdir(parents=True)
    (root / "etc/ddraid/ddraid.conf").write_text("log_level = info\n")
    (root / "etc/ddraid/fence").write_text("x")
    postrm("remove")
    postrm("abort-upgrade", "2.0")
    assert (root / "var/lib/ddraid/machine").exists() and (root / "etc/ddraid/ddraid.conf").exists()
    postrm("purge")
    assert not (root / "var/lib/ddraid").exists() and [p.name for p in (root / "etc/ddraid").iterdir()] == ["fence"]
    (root / "etc/ddraid/fence").unlink()
    postrm("purge")
    assert not (root / "etc/ddraid").exists()
