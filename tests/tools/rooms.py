#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Which folder may include what: the rooms of the tree, from the bottom to the top.

    rooms.py            prints each include that runs up, and ends with 1 if there is one

A room is a folder without the folders in it. The table below lists, for each, what its files may include beside the room itself: other
rooms, or single headers. Code that needs something of a higher room takes a callback when it is made, or reports to the event sink
(daemon/base/sink.h).
"""
import os
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]

FORMATS = "lib/disk/format.h lib/disk/format_owner.h lib/disk/layout.h"
LIB = "include lib lib/math lib/disk lib/wire lib/cluster lib/node"
ROOMS = {
    # what is on disks, on the wire and in the channel
    "include": "",
    # the library
    "lib/math": "include",
    "lib/disk": "include lib/math lib/error.h",
    "lib/wire": "include lib/math",
    "lib/cluster": f"include lib/math lib/wire lib/error.h {FORMATS}",
    "lib/node": "include lib/math lib/wire",
    "lib": "include lib/math lib/disk lib/wire lib/cluster lib/node",
    # the daemon
    "daemon/base": LIB,
    "daemon/disk": f"{LIB} daemon/base",
    "daemon/job": f"{LIB} daemon/base daemon/disk",
    "daemon/group": f"{LIB} daemon/base",
    "daemon/kernel": f"{LIB} daemon/base",
    "daemon/array": f"{LIB} daemon/base daemon/disk daemon/job daemon/group daemon/kernel",
    "daemon/ipc": f"{LIB} daemon/base daemon/disk daemon/job daemon/group daemon/kernel daemon/array",
    "daemon": f"{LIB} daemon/base daemon/disk daemon/job daemon/group daemon/kernel daemon/array daemon/ipc",
    # the command, and the kernel module with what is compiled for old kernels
    "cli": LIB,
    "kernel": "include lib/math kernel/compat",
    "kernel/compat": "",
}
# Made when the tree is built.
MADE = {"release.h"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<(ddraid/[^>]+)>)', re.M)


def sources(top):
    for part in ("include", "lib", "daemon", "cli", "kernel"):
        for path in sorted((top / part).rglob("*.[ch]")):
            yield path.relative_to(top).as_posix()


def header(top, file, name):
    """Where an include of @file leads; None: nowhere in the tree."""
    for base in (os.path.dirname(file), "", "include", "kernel"):
        path = os.path.normpath(os.path.join(base, name))
        if (top / path).is_file():
            return path
    return None


def room(file):
    """include/ and kernel/compat/ are one room each; of all others the folder is it."""
    for whole in ("include", "kernel/compat"):
        if file.startswith(f"{whole}/"):
            return whole
    return os.path.dirname(file)


def faults(top=TOP):
    """A line for each include that the table does not allow, for each folder that it does not know, and for each header that is not there."""
    found = []
    for file in sources(top):
        own = room(file)
        if own not in ROOMS:
            found.append(f"{file}: the folder {own} is no room of tests/tools/rooms.py")
            continue
        may = {own, *ROOMS[own].split()}
        for quoted, angled in INCLUDE.findall((top / file).read_text()):
            name = quoted or angled
            target = header(top, file, name)
            if target is None and name not in MADE:
                found.append(f"{file}: there is no {name}")
            elif target and target not in may and room(target) not in may:
                found.append(f"{file} includes {target}: {own} may use {ROOMS[own] or 'nothing'}")
    return found


def main():
    found = faults()
    print("\n".join(found) or f"{len(ROOMS)} rooms: no include runs up")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
