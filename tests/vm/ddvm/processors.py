# SPDX-License-Identifier: GPL-2.0-or-later
"""Reads what QEMU reports of its emulated processors: does one wait for a timer that has expired, or does one take no interrupts any more?"""

import re

STATE = re.compile(r"^CPU#(\d+)\n.*?\bRSP=(\w+).*?^RIP=(\w+) RFL=(\w+).*?HLT=(\d)", re.M | re.S)
INTERRUPTS = 0x200      # in RFLAGS: interrupts are taken
LAPIC = re.compile(r"^== info lapic (\d+)\n(.*?)(?=^== |\Z)", re.M | re.S)
TIMER = re.compile(r"initial_count = (\d+) current_count = (\d+)")
QUIET = re.compile(r"^[IR][SR]R\s+\(none\)", re.M)     # ISR and IRR: no interrupt is served or waits


def expired(look):
    """
    {processor: where it halts} of those that halt while their local timer is armed and has expired, and no interrupt of it is pending.

    The interrupt handler rearms the timer, or masks it, before the processor halts again. So one that is found like this more than once at
    the same place has not got its interrupt. `look`: the text of Qemu.processors().
    """
    halted = {number: place for number, _, place, _, halt in STATE.findall(look) if halt == "1"}
    found = {}
    for number, text in LAPIC.findall(look):
        timer = TIMER.search(text)
        armed = "LVTT" in text and "masked" not in re.search(r"^LVTT\s.*$", text, re.M)[0]
        if number in halted and armed and timer and int(timer[1]) and not int(timer[2]) and len(QUIET.findall(text)) == 2:
            found[number] = halted[number]
    return found


def lost_timer(looks):
    """Is one found expired in each of these looks, some time apart, and at the same place?"""
    found = [set(expired(look).items()) for look in looks]
    return len(found) > 1 and bool(set.intersection(*found))


def deaf(look):
    """{processor}: which of them do not halt and take no interrupts.  `look`: the text of Qemu.processors()."""
    return {number for number, _, _, flags, halt in STATE.findall(look) if halt == "0" and not int(flags, 16) & INTERRUPTS}


def deaf_for_ever(looks):
    """Does a processor take no interrupts in each of these looks?  A healthy one takes them again after microseconds."""
    return len(looks) > 1 and bool(set.intersection(*map(deaf, looks)))


def stacks(look):
    """{processor: address of its stack's top}.  `look`: the text of Qemu.processors()."""
    return {int(number): int(top, 16) for number, top, _, _, _ in STATE.findall(look)}
