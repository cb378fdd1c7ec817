# SPDX-License-Identifier: GPL-2.0-or-later
"""The network of a cluster of machines: a namespace of its own, one bridge a ring, a tap a NIC.

It is invisible outside the namespace, and disappears with the process that holds it: there is nothing to clean up.
"""

import ctypes
import os
import pathlib
import signal
import subprocess

from .config import HarnessError

CLONE_NEWNET = 0x40000000
PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


def enter(namespace):
    """Move this process (between fork and exec) into the network namespace of file `namespace`."""
    handle = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    if _LIBC.setns(handle, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")
    os.close(handle)


def _unshare():
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if _LIBC.unshare(CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare")


class Network:
    """`rings` separate networks for `count` machines; machine i (from 1) has one NIC in each."""

    def __init__(self, count, rings=2):
        if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
            raise HarnessError("clusters of machines need /dev/net/tun: load the kernel's module "
                               "tun, or give this container the device")
        self.count, self.rings = count, rings
        try:
            # pylint: disable-next=consider-using-with
            self.holder = subprocess.Popen(["sleep", "infinity"], preexec_fn=_unshare,
                                           stdin=subprocess.DEVNULL)
        except subprocess.SubprocessError as error:
            raise HarnessError("clusters of machines need network namespaces, and the kernel "
                               "refuses a new one: run as root of the machine, or give this "
                               "container CAP_SYS_ADMIN") from error
        self.path = pathlib.Path(f"/proc/{self.holder.pid}/ns/net")
        self._ip("link set lo up")
        for ring in range(rings):
            self._bridge(ring, 0)
            for number in range(1, count + 1):
                self._ip(f"tuntap add dev {self.tap(ring, number)} mode tap")
                self._ip(f"link set {self.tap(ring, number)} master {self._name(ring, 0)} up")

    def _ip(self, command):
        done = subprocess.run(["ip", *command.split()], preexec_fn=lambda: enter(self.path),
                              capture_output=True, text=True, check=False)
        if done.returncode:
            raise HarnessError(f"ip {command} failed in the machines' network: "
                               f"{done.stderr.strip()}")

    @staticmethod
    def _name(ring, group):
        return f"r{ring}g{group}"

    def _bridge(self, ring, group):
        # Learned addresses would outlive a partition and its healing by minutes.
        self._ip(f"link add {self._name(ring, group)} type bridge ageing_time 0 mcast_snooping 0")
        self._ip(f"link set {self._name(ring, group)} up")

    @staticmethod
    def tap(ring, number):
        """Name of the host's end of a NIC."""
        return f"t{ring}n{number}"

    @staticmethod
    def mac(ring, number):
        return f"52:54:00:dd:{ring:02x}:{number:02x}"

    @staticmethod
    def address(ring, number):
        """IPv4 address of a machine in a ring (all of a ring are in one /24)."""
        return f"10.77.{ring}.{number}"

    def devices(self, number):
        """QEMU's arguments for the NICs of a machine."""
        arguments = []
        for ring in range(self.rings):
            arguments += ["-netdev", f"tap,id=net{ring},ifname={self.tap(ring, number)},"
                          "script=no,downscript=no", "-device",
                          f"virtio-net-pci,netdev=net{ring},mac={self.mac(ring, number)},romfile="]
        return arguments

    # -- faults -------------------------------------------------------------

    def cut(self, number, rings=None):
        """Take a machine's NICs (of all rings, or these) out of their bridges."""
        for ring in range(self.rings) if rings is None else rings:
            self._ip(f"link set {self.tap(ring, number)} nomaster")

    def join(self, number, rings=None, group=0):
        """Put a machine's NICs back."""
        for ring in range(self.rings) if rings is None else rings:
            self._ip(f"link set {self.tap(ring, number)} master {self._name(ring, group)}")

    def partition(self, *groups):
        """Split into groups of machines, ([1, 2], [3]), that see only each other; the rest is isolated."""
        made = self._links()
        for number in range(1, self.count + 1):
            self.cut(number)
        for group, members in enumerate(groups):
            for ring in range(self.rings):
                if self._name(ring, group) not in made:
                    self._bridge(ring, group)
            for number in members:
                self.join(number, group=group)

    def heal(self):
        """All machines see each other again."""
        for number in range(1, self.count + 1):
            self.join(number)

    def _links(self):
        done = subprocess.run(["ip", "-o", "link"], preexec_fn=lambda: enter(self.path),
                              capture_output=True, text=True, check=True)
        return {line.split()[1].rstrip(":") for line in done.stdout.splitlines()}

    def close(self):
        """The namespace disappears with the last machine in it."""
        self.holder.kill()
        self.holder.wait()
