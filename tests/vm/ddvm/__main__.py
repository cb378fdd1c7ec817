# SPDX-License-Identifier: GPL-2.0-or-later
"""python3 -m ddvm shell: a node with its console on this terminal, for people.

    python3 -m ddvm shell [--disks N] [--size S] [--memory MIB] [--kernel K] [--systemd]
    python3 -m ddvm prepare [--kernel K]    make image and kernel, so that tests start at once
"""

import argparse
import subprocess
import sys

from . import Disk, HarnessError, Node, Run, check_machine, image, kernel


def _arguments():
    parser = argparse.ArgumentParser(prog="ddvm", description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["shell", "prepare"])
    parser.add_argument("--disks", type=int, default=5)
    parser.add_argument("--size", default="256M")
    parser.add_argument("--memory", type=int, default=768)
    parser.add_argument("--kernel")
    parser.add_argument("--systemd", action="store_true")
    return parser.parse_args()


def _shell(options):
    run = Run()
    disks = [Disk(run.path / f"d{i}.raw", options.size, f"d{i}") for i in range(options.disks)]
    node = Node(run, "shell", disks, memory=options.memory, kernel=options.kernel,
                systemd=options.systemd)
    raw = sys.stdin.isatty()
    saved = subprocess.run(["stty", "-g"], capture_output=True, text=True,
                           check=True).stdout.strip() if raw else ""
    print("members are /dev/vda ...; `echo o > /proc/sysrq-trigger` ends the machine")
    try:
        node.start(interactive=True)
        node.qemu.process.wait()
    finally:
        run.close()
        if raw:
            subprocess.run(["stty", saved], check=False)


def main():
    options = _arguments()
    try:
        check_machine()
        if options.command == "prepare":
            image.root_image(options.systemd)
            print(kernel.get(options.kernel).release)
        else:
            _shell(options)
    except HarnessError as error:
        sys.exit(f"ddvm: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
