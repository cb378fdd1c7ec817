# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts the instructions of reads and writes of an array whose daemon is kchan.py; runs in a guest (tests/bench/instructions.py).

usage: kcount.py ORDER PARITY SERVED|nosync NUMBER ROUNDS PATTERN:BYTES...     (members: /dev/ram0 and following; count is beside this file)

Prints a line for each pattern: PATTERN BYTES, and the instructions for one operation in each round.
"""
import pathlib
import subprocess
import sys

from kchan import GRANT, Array, Channel

BLOCKS = 2048           # of the array


def main():
    order, parity, mode, number, rounds, *patterns = sys.argv[1:]
    members = [f"/dev/ram{i}" for i in range((1 << int(order)) + int(parity))]
    a = Array(devices=members, order=int(order), parity=int(parity), blocks=BLOCKS, options="nosync" if mode == "nosync" else "")
    channel = None
    if mode != "nosync":
        # an older module that is compared: what is used of its channel here is as it is today, or it fails
        channel = a.attach(timeout_ms=600000, abi=Channel().bind_abi(a.uuid)[1])
        channel.send(GRANT, start=0, count=a.regions)
    subprocess.run(["dd", "if=/dev/zero", f"of={a.path}", "bs=64k", f"count={BLOCKS // 16}", "oflag=direct", "conv=nocreat", "status=none"], check=True)
    for pattern in patterns:
        what, size = pattern.split(":")
        done = subprocess.run([pathlib.Path(__file__).with_name("count"), a.path, what, size, number, rounds], stdout=subprocess.PIPE, text=True, check=True)
        print(what, size, *done.stdout.split(), flush=True)
    a.remove()
    if channel:
        channel.close()


if __name__ == "__main__":
    main()
