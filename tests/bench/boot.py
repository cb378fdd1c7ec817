#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""What ddraid's udev rules and units cost a machine with 36 SCSI disks at its boot (findings S18, S32, P2).

One virtual machine with systemd, LVM and multipath-tools boots with ddraid's rules and units, and without, in turn. Three arrays of five disks each are
there in both; the other disks are empty. A boot lasts until udev is through with all disks and no job of systemd is left. The medians count.
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


def seconds(node, ours):
    """From the kernel's begin until udev has settled and the machine is up, in a boot with our rules and units, or without."""
    for rule in RULES:
        node.run(f"rm -f /etc/udev/rules.d/{rule}" if ours else f"ln -sf /dev/null /etc/udev/rules.d/{rule}")
    node.run(f"systemctl {'enable' if ours else 'disable'} ddraidd ddraid; sync")
    node.shutdown(180)
    node.boot(300)
    node.wait_until("test -s /run/settled && systemctl is-system-running --wait | grep -q -e running -e degraded", 300)
    up = float(node.run("systemctl show -P UserspaceTimestampMonotonic; systemctl show -P FinishTimestampMonotonic").out.split()[1]) / 1e6
    if ours:
        node.wait_until(f"test $(ddraid status --json | grep -o optimal | wc -l) = {ARRAYS}", 60)
    return max(up, float(node.run("cat /run/settled").out))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boots", type=int, default=5, help="of each kind")
    session.one_target(parser, "bench-boot.json")
    args = parser.parse_args()
    found = {True: [], False: []}

    def measure(run):
        node = Node(run, "bench-boot", systemd=True, neighbours=True, persistent=True, memory=1024, devices=scsi(run.path))
        node.boot(300)
        prepare(node)
        node.put("/etc/systemd/system/settled.service", SETTLED)
        node.run("systemctl enable settled")
        for _ in range(args.boots):
            for ours in (False, True):
                found[ours].append(seconds(node, ours))
                print(f"  boot {'with' if ours else 'without'} ddraid: {found[ours][-1]:.1f} s", flush=True)

    if not session.within_run(measure):
        return 1
    ratio = statistics.median(found[True]) / statistics.median(found[False])
    return session.judged(f"medians: with ddraid {statistics.median(found[True]):.1f} s, without {statistics.median(found[False]):.1f} s, "
                          f"ratio {ratio:.3f}, target at most {TARGET}", ratio <= TARGET,
                          {"with": found[True], "without": found[False], "ratio": ratio}, "bench-boot.json", args)


if __name__ == "__main__":
    sys.exit(main())
