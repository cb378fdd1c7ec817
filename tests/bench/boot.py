#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What ddraid costs a machine with 36 SCSI disks at its boot (findings S18, S32, P2).

One virtual machine with systemd, LVM and multipath-tools boots in three ways, in turn. Three arrays of five disks each are there in all of them; the
other disks are empty. A boot lasts until udev is through with all disks and no job of systemd is left. The medians count.

  without   ddraid's udev rules are masked, and its units are disabled.
  rules     everything is installed, and udev's rules probe each disk and ask for the units of the three arrays; these start nothing, since ddraidd
            and ddraid.service are disabled. This is "boot time with the rules": the target applies to its ratio to a boot without ddraid.
  arrays    ddraidd and ddraid.service are enabled: the module is loaded, the daemon starts, and the three arrays are started. Their work runs beside
            the boot, which waits for none of it, but it takes processor time. The ratio is printed, without a target.
"""
import argparse
import pathlib
import statistics
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "vm"), str(HERE.parent / "vm" / "findings")]

import session  # noqa: E402
from ddvm import Node  # noqa: E402
from many_disks import ARRAYS, prepare, scsi  # noqa: E402

RULES = ("59-ddraid-array.rules", "62-ddraid-member.rules")
TARGET = 1.05
KINDS = {"without": "without ddraid", "rules": "with the rules, no units", "arrays": "with three arrays started"}
# When udev is through with all disks, in seconds since the kernel began.
SETTLED = """[Unit]
Description=the time at which udev has settled
DefaultDependencies=no
Requires=systemd-udev-settle.service
After=systemd-udev-settle.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'cut -d" " -f1 /proc/uptime >/run/settled'

[Install]
WantedBy=multi-user.target
"""


def seconds(node, kind):
    """From the kernel's begin until udev has settled and the machine is up, in a boot of this kind."""
    for rule in RULES:
        node.run(f"ln -sf /dev/null /etc/udev/rules.d/{rule}" if kind == "without" else f"rm -f /etc/udev/rules.d/{rule}")
    node.run(f"systemctl {'enable' if kind == 'arrays' else 'disable'} ddraidd ddraid; sync")
    node.shutdown(180)
    node.boot(300)
    node.wait_until("test -s /run/settled && systemctl is-system-running --wait | grep -q -e running -e degraded", 300)
    up = float(node.run("systemctl show -P UserspaceTimestampMonotonic; systemctl show -P FinishTimestampMonotonic").out.split()[1]) / 1e6
    members = int(node.run("grep -l ddraid_member /run/udev/data/b* | wc -l", check=False).out)
    assert (members == 0) == (kind == "without"), f"udev knows {members} members in a boot {KINDS[kind]}"
    if kind == "arrays":
        node.wait_until(f"test $(ddraid status --json | grep -o optimal | wc -l) = {ARRAYS}", 60)
    else:
        assert node.run("systemctl is-active ddraidd ddraid", check=False).out.split() == ["inactive"] * 2
    return max(up, float(node.run("cat /run/settled").out))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boots", type=int, default=5, help="of each kind")
    session.one_target(parser, "bench-boot.json")
    args = parser.parse_args()
    found = {kind: [] for kind in KINDS}

    def measure(run):
        node = Node(run, "bench-boot", systemd=True, neighbours=True, persistent=True, memory=1024, devices=scsi(run.path))
        node.boot(300)
        prepare(node)
        node.put("/etc/systemd/system/settled.service", SETTLED)
        node.run("systemctl enable settled")
        for _ in range(args.boots):
            for kind, text in KINDS.items():
                found[kind].append(seconds(node, kind))
                print(f"  boot {text}: {found[kind][-1]:.1f} s", flush=True)

    if not session.within_run(measure):
        return 1
    median = {kind: statistics.median(found[kind]) for kind in KINDS}
    ratio, started = median["rules"] / median["without"], median["arrays"] / median["without"]
    print(f"  medians: with three arrays started {median['arrays']:.1f} s: ratio {started:.3f} (no target)")
    return session.judged(f"medians: without ddraid {median['without']:.1f} s, with the rules {median['rules']:.1f} s, ratio {ratio:.3f}, "
                          f"target at most {TARGET}", ratio <= TARGET, {**found, "ratio": ratio, "ratio_arrays": started}, "bench-boot.json", args)


if __name__ == "__main__":
    sys.exit(main())
