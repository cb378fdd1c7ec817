# SPDX-License-Identifier: GPL-2.0-or-later
"""The rate of the guest's time stamp counter, measured on the host.

Under software emulation the guest's counter is the host's. A guest kernel finds its rate in the first milliseconds, against an emulated
timer, and where the host was busy just then it finds a wrong one: its clock then runs up to tens of times too fast, and every timeout in it
expires early. So the rate is passed to the kernel.
"""

import ctypes
import functools
import mmap
import platform
import time

# rdtsc; shl $32,%rdx; or %rdx,%rax; ret
_RDTSC = bytes.fromhex("0f31" "48c1e220" "4809d0" "c3")
WINDOW_S = 0.1
TRIES = 5


def _sample(read):
    """(counter, ns) read at the same moment: the closest of a few tries."""
    best = None
    for _ in range(50):
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        counter = read()
        after = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
        if best is None or after - before < best[0]:
            best = (after - before, counter, (before + after) // 2)
    return best[1], best[2]


@functools.lru_cache(maxsize=1)
def rate_khz():
    """Cycles a millisecond, or None where the host has no such counter."""
    if platform.machine() != "x86_64":
        return None
    code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(_RDTSC)
    read = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    rates = []
    for _ in range(TRIES):
        first = _sample(read)
        time.sleep(WINDOW_S)
        last = _sample(read)
        rates.append((last[0] - first[0]) * 1_000_000 // (last[1] - first[1]))
    return sorted(rates)[TRIES // 2]
