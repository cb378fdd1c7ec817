# SPDX-License-Identifier: GPL-2.0-or-later
"""One QEMU process: command line, QMP, power.

Knows nothing of what runs in the guest.  Ends its own process by pid, and does
not return from kill() before all of its threads are gone, since they may still
write to disks.
"""

import concurrent.futures
import ctypes
import json
import os
import pathlib
import shlex
import signal
import socket
import subprocess
import tempfile
import time

from . import network, tsc
from .config import HarnessError, cache_dir, check_memory, locked, time_scale

BINARY = "qemu-system-x86_64"
MACHINE = "q35,vmport=off,smm=off,hpet=off"
TCG = ["-accel", "tcg,thread=multi,tb-size=256", "-cpu", "max,la57=off"]
KVM = ["-accel", "kvm", "-cpu", "host"]
# One processor, whose time is the number of instructions that it has executed, in ns; while it is idle time passes as usual.
COUNTING = ["-accel", "tcg,thread=single,tb-size=256", "-cpu", "max,la57=off", "-icount", "shift=0"]
COUNTING_KHZ = 1000000
CMDLINE = ("mitigations=off nokaslr tsc=reliable no_timer_check audit=0 apparmor=0 "
           "random.trust_cpu=on watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=120 "
           "panic=-1 console=ttyS0 loglevel=5 log_buf_len=4M")

# The BIOS leaves disks alone that are not boot disks. It would set up a ring for each, near the end of memory, where QEMU then puts the
# initramfs: as many disks as tests have reach into it, and a disk that looks at its ring before Linux resets it ends QEMU ("Looped
# descriptor").
BOOT = ["-boot", "strict=on"]

# The parent-death signal depends on the thread that forked: this one lives as long as the harness, whichever thread a test boots a node from.
_LAUNCHER = concurrent.futures.ThreadPoolExecutor(max_workers=1)
_LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1


def _die_with_parent():
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _probe_kvm(image, initrd):
    """Whether a stock kernel gets to its first program under KVM."""
    with tempfile.TemporaryDirectory() as work:
        log = pathlib.Path(work) / "serial"
        command = [BINARY, "-machine", MACHINE, *KVM, "-m", "256", "-nodefaults",
                   "-display", "none", "-no-reboot", "-kernel", str(image),
                   "-initrd", str(initrd), "-serial", f"file:{log}",
                   "-append", CMDLINE + " ddvm.probe"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as probe:
            deadline = time.monotonic() + 8
            works = False
            while not works and probe.poll() is None and time.monotonic() < deadline:
                time.sleep(0.1)
                works = log.exists() and b"ddvm: probe" in log.read_bytes()
            probe.kill()
    return works


def acceleration(image, initrd):
    """Flags for KVM where it really boots a guest, else for TCG.

    /dev/kvm may exist and yet not run a guest, so only a real boot counts; its
    outcome is remembered until the host boots again.  DDRAID_VM_ACCEL=tcg or
    kvm decides without the probe.
    """
    wanted = os.environ.get("DDRAID_VM_ACCEL")
    if wanted not in (None, "", "kvm", "tcg"):
        raise HarnessError(f"DDRAID_VM_ACCEL={wanted}: neither kvm nor tcg")
    if wanted:
        return KVM if wanted == "kvm" else TCG
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return TCG
    boot_id = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")
    memory = cache_dir() / "accel"
    with locked(cache_dir() / "accel.lock"):
        known = memory.read_text(encoding="ascii").split() if memory.exists() else []
        if known[:1] != [boot_id.strip()]:
            known = [boot_id.strip(), "kvm" if _probe_kvm(image, initrd) else "tcg"]
            memory.write_text(" ".join(known) + "\n", encoding="ascii")
    return KVM if known[1] == "kvm" else TCG


def clock(accel):
    """The kernel parameters about its time stamp counter."""
    rate = COUNTING_KHZ if accel is COUNTING else tsc.rate_khz() if accel is TCG else None
    return f"tsc_early_khz={rate}" if rate else ""


class Qmp:
    """QEMU's control socket: execute() returns the answer or raises HarnessError."""

    def __init__(self, path):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(60 * time_scale())
        self.sock.connect(str(path))
        self.stream = self.sock.makefile("rw", encoding="utf-8")
        self._receive()
        self.execute("qmp_capabilities")

    def _receive(self):
        line = self.stream.readline()
        if not line:
            raise HarnessError("QEMU closed its control socket")
        return json.loads(line)

    def execute(self, command, **arguments):
        request = {"execute": command}
        if arguments:
            request["arguments"] = arguments
        self.stream.write(json.dumps(request) + "\n")
        self.stream.flush()
        while True:
            answer = self._receive()
            if "event" in answer:
                continue
            if "error" in answer:
                raise HarnessError(f"QEMU refused {command}: {answer['error']['desc']}")
            return answer["return"]

    def has_disk(self, device, node):
        """Has QEMU a device of this id, or one that had it and uses this block node to its end?

        Asked of its state: of a virtio disk that goes QEMU sends two events, which come in no order and up to half a minute apart, so that
        the late one of a removal looks like the early one of the next.
        """
        return any(child["name"] == device for child in self.execute("qom-list", path="/machine/peripheral")) or \
            any(user.get("inserted", {}).get("node-name") == node for user in self.execute("query-block"))

    def close(self):
        self.stream.close()
        self.sock.close()


ACCEPTS = "00010000"        # flags of a listening socket in /proc/net/unix: __SO_ACCEPTCON


def _listens(pid, path):
    """Does the process, or another one of its network namespace, listen on this socket? Its file is there a moment before."""
    try:
        table = pathlib.Path(f"/proc/{pid}/net/unix").read_text(encoding="utf-8")
    except OSError:
        return False            # it has just ended
    return any(fields[3] == ACCEPTS and fields[-1] == str(path) for fields in map(str.split, table.splitlines()))


class Qemu:
    """A machine that is switched on; a new one for each boot."""

    def __init__(self, name, directory, boot, memory_mib, cpus, kernel, append, devices,
                 namespace=None, counting=False):
        """`directory` gets sockets and logs; `boot` numbers them; `devices` are arguments.

        `namespace`: file of the network namespace to run in. `counting`: the time stamp counter counts instructions.
        """
        check_memory(memory_mib)
        self.namespace = namespace
        self.name = name
        self.serial = directory / f"{name}.{boot}.console"
        self.agent_path = directory / f"{name}.agent"
        self.qmp_path = directory / f"{name}.qmp"
        self.stderr = directory / f"{name}.{boot}.qemu"
        for path in (self.agent_path, self.qmp_path):
            path.unlink(missing_ok=True)
        accel = COUNTING if counting else acceleration(kernel.image, kernel.initramfs)
        self.emulated = accel is TCG
        # What the guest can see of its machine, but for its name and the counter's rate.
        self.hardware = [
            "-machine", MACHINE, *accel, "-m", str(memory_mib), "-smp", str(cpus), "-nodefaults", "-no-user-config",
            *BOOT, "-kernel", str(kernel.image), "-initrd", str(kernel.initramfs), f"{CMDLINE} {append}",
            "-device", "virtio-serial-pci,id=vser", "-device",
            "virtserialport,bus=vser.0,chardev=agent,name=ddvm.agent",
            "-object", "rng-random,id=rng,filename=/dev/urandom",
            "-device", "virtio-rng-pci,rng=rng", *devices]
        options = [a for a in self.hardware if not a.startswith(CMDLINE)]
        self.command = [
            BINARY, "-name", name, "-display", "none", "-no-reboot",
            "-append", f"{CMDLINE} {clock(accel)} ddvm.name={name} {append}",
            "-qmp", f"unix:{self.qmp_path},server=on,wait=off",
            "-chardev", f"socket,id=agent,path={self.agent_path},server=on,wait=off", *options]
        self.process = None
        self.qmp = None

    def start(self, interactive=False, state=None):
        """Start the process; with `interactive` the console is this terminal. `state`: a file of save() to go on from."""
        incoming = ["-incoming", f"exec:cat {shlex.quote(str(state))}"] if state else []
        console = (["-chardev", f"stdio,id=con,signal=off,logfile={self.serial}"] if interactive
                   else ["-chardev", f"file,id=con,path={self.serial}"])
        command = [*self.command, *console, "-serial", "chardev:con", *incoming]

        def prepare():
            _die_with_parent()
            if self.namespace:
                network.enter(self.namespace)

        def launch():
            with open(self.stderr, "wb") as log:
                return subprocess.Popen(
                    command, stdin=None if interactive else subprocess.DEVNULL,
                    stdout=None if interactive else log, stderr=log,
                    start_new_session=not interactive, preexec_fn=prepare)

        self.process = _LAUNCHER.submit(launch).result()
        deadline = time.monotonic() + 30 * time_scale()
        while not all(_listens(self.pid, path) for path in (self.qmp_path, self.agent_path)):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                reason = self.stderr.read_text(errors="replace").strip()
                raise HarnessError(f"QEMU for {self.name} did not start: {reason[-400:]}")
            time.sleep(0.02)
        self.qmp = Qmp(self.qmp_path)
        if state:
            self._go_on(deadline)

    def _go_on(self, deadline):
        """The state is read; it was saved of a machine that was stopped."""
        while (status := self.qmp.execute("query-status")["status"]) == "inmigrate":
            if time.monotonic() > deadline:
                raise HarnessError(f"QEMU for {self.name} does not go on from its state: {self.stderr.read_text(errors='replace')[-400:]}")
            time.sleep(0.02)
        if status != "running":
            self.qmp.execute("cont")

    @property
    def pid(self):
        return self.process.pid

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def processors(self, cpus):
        """
        The state of the emulated processors and their timers, as text, to find out why a guest hangs. A QEMU that does not answer this soon
        hangs itself, and is of no use any more.
        """
        return self._ask(["info registers -a", *(f"info lapic {n}" for n in range(cpus)), "info pic"])

    def stacks(self, tops):
        """The stacks of the processors as text; `tops`: {processor: address}."""
        return "".join(self._ask([f"x /256gx {top:#x}"], **{"cpu-index": number}) for number, top in tops.items())

    def _ask(self, commands, **arguments):
        """What the monitor answers to these, soon, under a line with each."""
        def ask(command):
            answer = self.qmp.execute("human-monitor-command", **{"command-line": command, **arguments})
            return f"== {command}\n{answer}".replace("\r", "")

        usual = self.qmp.sock.gettimeout()
        self.qmp.sock.settimeout(5 * time_scale())
        try:
            return "".join(map(ask, commands))
        finally:
            self.qmp.sock.settimeout(usual)

    def translate_anew(self):
        """
        From now on the guest's code is translated one instruction at a time: no translation made before is used any more, and the
        guest is some times slower. Without emulation this does nothing.
        """
        for command in ("singlestep on", "one-insn-per-tb on"):     # until 8.0, and since
            self.qmp.execute("human-monitor-command", **{"command-line": command})

    def save(self, path):
        """
        Write the machine's state to a file, from which a machine with the same hardware can resume. It is stopped first, so that nothing
        changes while it is written, and has to be ended afterwards: only the other one continues.
        """
        self.qmp.execute("stop")
        self.qmp.execute("migrate-set-parameters", **{"max-bandwidth": 1 << 40})
        self.qmp.execute("migrate", uri=f"exec:cat >{shlex.quote(str(path))}")
        deadline = time.monotonic() + 60 * time_scale()
        while (state := self.qmp.execute("query-migrate").get("status")) != "completed":
            if state in ("failed", "cancelled") or time.monotonic() > deadline:
                raise HarnessError(f"QEMU did not save {self.name} to {path}: {state}")
            time.sleep(0.02)

    def kill(self):
        """SIGKILL, and wait for the end.

        wait() reaps the leader, which the kernel allows only when every other
        thread of the process has ended: no write of this machine follows.
        """
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        if self.qmp is not None:
            self.qmp.close()
            self.qmp = None

    def crashed(self):
        """Did the program die of its own error (QEMU 7.2 does so once in some hundred boots)?"""
        try:
            return self.process.wait(10) == -signal.SIGSEGV
        except subprocess.TimeoutExpired:
            return False

    def wait(self, timeout):
        """True once the machine switched itself off."""
        try:
            self.process.wait(timeout * time_scale())
        except subprocess.TimeoutExpired:
            return False
        return True
