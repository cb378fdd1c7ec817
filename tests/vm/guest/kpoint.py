# SPDX-License-Identifier: GPL-2.0-or-later
"""The test points of dm-ddraid-points.ko, which is loaded; runs in a guest.

kernel/points.h lists them, kernel/points.c describes how they work.
"""
import contextlib

from kchan import wait_for

FILE = "/sys/module/dm_ddraid_points/parameters/points"


def point(name, *words):
    """What happens at this point from now on: hold [NUMBER]; fail [NUMBER [SKIP]]; status WORD [NUMBER [SKIP [ROLE]]]; off."""
    with open(FILE, "w", encoding="ascii") as f:
        f.write(" ".join(map(str, (name, *words))))


def counts(name):
    """(passed, hurt, held) of a point since its "off"."""
    with open(FILE, encoding="ascii") as f:
        words, = [line.split() for line in f if line.split()[0] == name]
    return int(words[3]), int(words[5]), int(words[7])


def all_off():
    with open(FILE, encoding="ascii") as f:
        names = [line.split()[0] for line in f]
    for name in names:
        point(name, "off")


class Held:
    """A thread is held at a point, until go()."""

    def __init__(self, name, number=1):
        self.name, self.number = name, number
        point(name, "off")
        point(name, "hold", number)

    def wait(self, timeout=10):
        wait_for(lambda: counts(self.name)[2] == self.number, timeout, lambda: f"nobody comes to {self.name}")

    def go(self):
        point(self.name, "off")
        wait_for(lambda: counts(self.name)[2] == 0)


@contextlib.contextmanager
def held(name, number=1):
    h = Held(name, number)
    try:
        yield h
    finally:
        point(name, "off")
