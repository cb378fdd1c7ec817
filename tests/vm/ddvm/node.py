# SPDX-License-Identifier: GPL-2.0-or-later
"""A node: one virtual machine over several boots, its disks, commands in it.

    node = Node(run, "n1", disks=[...]); node.boot()
    node.run("ddraid status").out
    node.kill(); node.boot()        power cut, and on again
"""

import os
import re
import sys
import threading
import time

from . import image, kernel as kernels, stage as stages
from .channel import Channel, CommandTimeout, NodeDied
from .config import HarnessError, stage_dir, time_scale
from .disks import LIMIT_IO_SIZE, parse_size
from .processors import deaf_for_ever, lost_timer, stacks
from .qemu import Qemu
from .saved import Saved

BAD_LOG = re.compile("|".join([
    r"\bWARNING: ", r"\bBUG: ", r"\bOops\b", r"\bBUG: KASAN", r"\bUBSAN: ", r"\bKCSAN: ",
    r"Call Trace:", r"kernel BUG at", r"possible circular locking", r"possible recursive locking",
    r"inconsistent lock state", r"possible irq lock inversion", r"suspicious RCU usage",
    r"blocked for more than \d+ seconds", r"soft lockup", r"rcu: INFO: .* stall",
    r"general protection fault", r"unable to handle", r"Kernel panic", r"list_(add|del) corruption",
    r"refcount_t: ", r"new suspected memory leaks", r"sleeping function called from",
    r"scheduling while atomic", r"workqueue: .* is flushing !WQ_MEM_RECLAIM",
    r"bad unlock balance", r"held lock freed", r"Bad page state", r"invoked oom-killer"]))

LOST_TIMER = re.compile(r"rcu: .*timer wakeup didn't happen for \d+ jiffies")

PORT_COUNT = 24     # PCIe root ports: disks, hot plug, three layers, what is kept
LAYER_PORTS = 4
KEPT_SIZE = 1 << 30     # bytes; a sparse file
STATE_SIZE = 16 << 20


class Node:
    """One machine.  All limits of time are seconds on an idle machine (config.time_scale)."""

    def __init__(self, run, name, disks=(), memory=768, cpus=2, kernel=None, stage=True,
                 append="", systemd=False, devices=(), neighbours=False, persistent=False, counting=False):
        """`stage`: True for the built one if there is any, False for none, or a directory.

        `devices`: further QEMU arguments.  `neighbours` (with systemd): LVM, multipath, Pacemaker and so on are installed.
        `persistent`: what is written to the root file system outlives a boot, as on a real machine, where else each boot
        begins with a new one.  `counting`: its one processor's time stamp counter counts the instructions that it executes.  Nothing
        starts before boot().
        """
        self.session, self.name = run, name
        self.disks = list(disks)
        self.memory, self.cpus, self.append = memory, cpus, append
        self.systemd, self.neighbours, self.persistent, self.counting = systemd, neighbours, persistent, counting
        self.devices = list(devices)
        self.kernel = kernels.get(kernel)
        self.stage = stage_dir() if stage is True else (stage or None)
        self.qemu = self.channel = None
        self.boots = 0
        self.boot_seconds = None
        self.ports = {}             # disk serial -> number of its root port
        self.unplugged = {}         # disk serial -> in which boot
        self.looks = []             # at the processors, when it did not come up
        self.allowed, self.forgiven = [], []
        self.namespace = None       # file of the network namespace that the machine runs in
        self.after_start = None     # called when QEMU runs
        self.power = threading.Lock()
        run.nodes.append(self)

    # -- power --------------------------------------------------------------

    def start(self, interactive=False):
        """Switch on without waiting for the agent (ready() does)."""
        if self.qemu is not None and self.qemu.alive():
            raise HarnessError(f"{self.name}: is running already")
        self.boots += 1
        layers = [("ddvm-root", image.root_image(self.systemd, self.neighbours)),
                  ("ddvm-kmods", self.kernel.modules_image)]
        if self.stage:
            layers.append(("ddvm-stage",
                           stages.pack(self.stage, self.kernel, self.session.path)))
        append = "ddvm.layers=" + ",".join(name for name, _ in layers)
        append += (" ddvm.systemd" if self.systemd else "") + (" ddvm.persistent" if self.persistent else "")
        append += (" ddvm.shell" if interactive else "") + " " + self.append
        devices = self._disk_arguments(layers) + self._kept_arguments() + self.devices
        self.qemu = Qemu(self.name, self.session.path, self.boots, self.memory, self.cpus,
                         self.kernel, append, devices, self.namespace, self.counting)
        self.started = time.monotonic()
        self.saved, state = None, None
        if not interactive and Saved.allowed(self, self.qemu):
            self.saved = Saved(self.qemu, self.disks, layers)
            state = self.saved.take(self.session.path / f"{self.name}.state")
        self.resumed = state is not None
        self.qemu.start(interactive, state)
        self.channel = Channel(self.qemu.agent_path, self.name)
        if self.after_start:
            self.after_start()

    def ready(self, timeout=120, again=120):
        """Wait until the agent answers, at most `timeout`; switched on once more, for `again`, where QEMU is at fault.

        Version 7.2 dies of SIGSEGV once in some hundred boots; and now and then one of two emulated processors gets no timer
        interrupt any more. The processors' state shows that, or the guest's kernel says it once its limit for RCU stalls
        (qemu.CMDLINE) is over. And once in some thousand boots it goes on with the translation of code that the guest has changed
        meanwhile: a write discards the old translation before it changes the code, and another processor can translate the
        old one in between. Where Linux patches itself, the processor then meets a breakpoint that is long gone, for ever.
        """
        try:
            return self._wait_agent(timeout)
        except NodeDied:
            if not self.qemu.crashed():
                raise
            fault = "QEMU crashed"
        except CommandTimeout:
            if self._code_stale():
                fault = "QEMU ran code that the guest had changed"
            elif self._timer_lost():
                fault = "QEMU lost a processor's timer"
            else:
                raise
        print(f"{self.name}: {fault} before anything of a test ran; it is started again", file=sys.stderr)
        self.kill()
        self._console_path().rename(self._console_path().with_suffix(".emulator"))
        self.start()
        return self._wait_agent(again)

    def _console_path(self):
        return self.session.path / f"{self.name}.{self.boots}.console"

    def _code_stale(self):
        """
        Does a processor that takes no interrupts take some once its code is translated again? Not at once: it has two minutes of timers to
        catch up with, an instruction at a time, and may be found in their handlers again and again.
        """
        def hears(looks):
            return len(looks) > 1 and not deaf_for_ever(looks)

        if not deaf_for_ever(self.looks):
            return False
        self.qemu.translate_anew()
        self.save_processors("anew", 30, hears)
        return hears(self.looks)

    def _timer_lost(self, patience=45):
        if lost_timer(self.looks):
            return True
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            if LOST_TIMER.search(self._console_path().read_text(errors="replace")):
                return True
            time.sleep(1)
        return False

    def _wait_agent(self, timeout):
        """The machine's console is in the error if the agent does not answer."""
        try:
            if not self._begin(timeout):
                self.save_processors()
                raise CommandTimeout(f"{self.name}: no agent after {timeout} s\n"
                                     f"{self.console_tail()}")
        except NodeDied as error:
            raise NodeDied(f"{self.name}: died while booting\n{self.console_tail()}") from error
        self.boot_seconds = time.monotonic() - self.started
        return self

    def _begin(self, timeout):
        """Waits until the agent has begun. False: it never came up."""
        if not self._up(timeout):
            return False
        if self.saved and not self.resumed:
            self.saved.save(self.qemu)
            self._start_over()
            if not self._up(timeout):
                return False
        if self.resumed:
            self.channel.begin({"name": self.name, "time": time.time()}, os.urandom(256))
        else:
            self.channel.begin({})
        return self.channel.wait_for(lambda: self.channel.boot_id, timeout)

    def _up(self, timeout):
        return self.resumed or self.channel.wait_for(lambda: self.channel.up, timeout)

    def _start_over(self):
        """The machine ends, and resumes from its saved state, in the same boot."""
        self.kill()
        self._console_path().rename(self._console_path().with_suffix(".saved"))
        self.boots -= 1
        self.start()

    def boot(self, timeout=120):
        """Switch on and wait until commands can be run."""
        self.start()
        return self.ready(timeout)

    def kill(self):
        """Power cut: the machine is gone when this returns, and writes nothing any more.

        From any thread: a fence device may cut it too.
        """
        with self.power:
            if self.qemu is not None:
                self.qemu.kill()
            if self.channel is not None:
                self.channel.close()

    def shutdown(self, timeout=60):
        """Orderly end: sync and power off, then as kill()."""
        self.spawn("systemctl poweroff" if self.systemd else
                   "sync; echo o > /proc/sysrq-trigger")
        if not self.qemu.wait(timeout):
            raise CommandTimeout(f"{self.name}: did not power off\n{self.console_tail()}")
        self.kill()

    def reset(self):
        """kill() and boot()."""
        self.kill()
        return self.boot()

    def alive(self):
        return self.qemu is not None and self.qemu.alive()

    # -- commands -----------------------------------------------------------

    def spawn(self, cmd, stdin=b"", env=None):
        """Start a command (string: by sh; list: as it is); a Job: poll wait kill out err."""
        data = stdin.encode() if isinstance(stdin, str) else stdin
        return self.channel.spawn(cmd, data, env)

    def run(self, cmd, timeout=60, check=True, stdin=b"", env=None):
        """Run a command to its end: Result with code, out, err.

        CommandFailed when `check` and the code is not 0; CommandTimeout; NodeDied.
        """
        return self.spawn(cmd, stdin, env).wait(timeout, check)

    def put(self, path, data, mode=0o644):
        """Write a file in the guest; `data` str or bytes."""
        data = data.encode() if isinstance(data, str) else data
        piece = 1 << 20
        for at in range(0, max(len(data), 1), piece):
            self.channel.file_op({"op": "put", "path": path, "mode": mode, "append": at > 0},
                                 data[at:at + piece])

    def get(self, path):
        """Bytes of a file in the guest."""
        return self.channel.file_op({"op": "get", "path": path})

    def wait_until(self, cmd, timeout=60, interval=0.2):
        """Run `cmd` again and again until its code is 0; AssertionError when it never is."""
        deadline = time.monotonic() + timeout * time_scale()
        while True:
            result = self.run(cmd, check=False)
            if result.code == 0:
                return result
            assert time.monotonic() < deadline, f"{self.name}: never succeeded: {cmd}: {result}"
            time.sleep(interval)

    def load_module(self, path, params=""):
        """insmod a module file of the host (nothing if it is loaded already)."""
        name = path.name.split(".")[0].replace("-", "_")
        if self.run(f"test -d /sys/module/{name}", check=False).code == 0:
            return
        needs = self._module_needs(path)
        if needs:
            self.run(["modprobe", "-a", *needs])
        self.put(f"/tmp/{path.name}", path.read_bytes())
        self.run(f"insmod /tmp/{path.name} {params}")

    @staticmethod
    def _module_needs(path):
        """Names of the modules that a module file depends on."""
        data = path.read_bytes()
        at = data.find(b"\0depends=")
        return [n for n in data[at + 9:data.index(b"\0", at + 9)].decode().split(",")
                if n] if at >= 0 else []

    # -- disks --------------------------------------------------------------

    def _port(self, key):
        number = self.ports.setdefault(key, len(self.ports))
        if number >= PORT_COUNT:
            raise HarnessError(f"{self.name}: more than {PORT_COUNT - LAYER_PORTS} disks")
        return f"port{number}"

    def _disk_arguments(self, layers):
        """Root ports, members, then layers: members are the first disks of the guest."""
        arguments = []
        self.ports = {}
        for number in range(PORT_COUNT):
            arguments += ["-device", f"pcie-root-port,id=port{number},chassis={number + 1},"
                          f"slot={number + 1},bus=pcie.0,multifunction=on,"
                          f"addr={hex(0x10 + number // 8)}.{number % 8}"]
        for disk in self.disks:
            arguments += self._disk_blockdev(disk)
            arguments += ["-device", ",".join(f"{k}={v}" for k, v in
                                              self._disk_device(disk).items())]
        for serial, path in layers:
            arguments += ["-blockdev", f"driver=file,node-name={serial},filename={path},"
                          "read-only=on,locking=off", "-device",
                          f"virtio-blk-pci,drive={serial},serial={serial},"
                          f"bus={self._port(serial)}"]
        return arguments

    def _kept_arguments(self):
        """The disk that outlives a boot; made at the first one. It holds what was written to the root file system, or /var/lib/ddraid alone."""
        serial, size = ("ddvm-kept", KEPT_SIZE) if self.persistent else ("ddvm-state", STATE_SIZE)
        path = self._kept_path()
        if not path.exists():
            image.make_ext4(path, size)
        return ["-blockdev", f"driver=file,node-name={serial},filename={path},cache.direct=off", "-device",
                f"virtio-blk-pci,drive={serial},serial={serial},bus={self._port(serial)}"]

    def _kept_path(self):
        return self.session.path / f"{self.name}.kept"

    def forget(self):
        """What it had written to its root file system is gone: for a machine that is switched off for good."""
        self._kept_path().unlink(missing_ok=True)

    def _disk_blockdev(self, disk):
        arguments = ["-object", f"iothread,id=io-{disk.serial}", "-blockdev",
                     f"driver=file,node-name=file-{disk.serial},filename={disk.path},"
                     "locking=off,aio=threads,discard=unmap,cache.direct=off,cache.no-flush=off"]
        node = f"file-{disk.serial}"
        if disk.limit():
            limits = ",".join(f"x-{k}={v}" for k, v in disk.limit().items())
            arguments += ["-object", f"throttle-group,id=tg-{disk.serial},{limits}", "-blockdev",
                          f"driver=throttle,node-name=limit-{disk.serial},"
                          f"throttle-group=tg-{disk.serial},file={node}"]
            node = f"limit-{disk.serial}"
        return arguments

    def _disk_device(self, disk):
        top = f"limit-{disk.serial}" if disk.limit() else f"file-{disk.serial}"
        return {"driver": "virtio-blk-pci", "id": f"disk-{disk.serial}", "drive": top,
                "share-rw": "on", "write-cache": "on", "serial": disk.serial,
                "iothread": f"io-{disk.serial}", "bus": self._port(disk.serial),
                "logical_block_size": disk.logical_block_size,
                "physical_block_size": max(disk.physical_block_size, disk.logical_block_size),
                "discard": "on" if disk.discard else "off",
                "write-zeroes": "on" if disk.write_zeroes else "off"}

    def unplug(self, disk, timeout=30):
        """Take a disk away from the running machine: I/O on it fails, its paths are gone.

        A writer that creates files (dd without conv=nocreat) may then make a
        regular file of that name.
        """
        block = self.run(["readlink", disk.dev]).out.strip().rsplit("/", 1)[-1]
        self.qemu.qmp.execute("device_del", id=f"disk-{disk.serial}")
        try:
            # Not until QEMU has given it up, which now and then is half a minute after the guest has lost the disk.
            self.wait_until(f"! [ -e /sys/block/{block} ]", timeout)
        except AssertionError:
            # the log then shows what it hangs in
            self.run("echo w >/proc/sysrq-trigger; echo l >/proc/sysrq-trigger", check=False, timeout=10)
            raise CommandTimeout(f"{self.name}: the guest did not give up disk {disk.serial}") from None
        self.unplugged[disk.serial] = self.boots
        self.run(["rm", "-f", disk.dev])

    def set_limit(self, disk, iops=0, bps=0):
        """Change the limits (0: none) of a disk that was made with limits."""
        if not disk.limit():
            raise HarnessError(f"disk {disk.serial}: was made without iops or bps, "
                               "so that it cannot be limited while the machine runs")
        limits = {"iops-total": iops, "bps-total": parse_size(bps)}
        if iops:
            limits["iops-size"] = LIMIT_IO_SIZE
        self.qemu.qmp.execute("qom-set", path=f"/objects/tg-{disk.serial}", property="limits",
                              value=limits)

    def plug(self, disk, timeout=30):
        """Give an unplugged disk back to the running machine."""
        device = self._disk_device(disk)
        if self.unplugged.pop(disk.serial, None) == self.boots:
            # Not with the guest: QEMU keeps what belongs to a disk as long as something refers to it.
            deadline = time.monotonic() + 4 * timeout * time_scale()
            while self.qemu.qmp.has_disk(device["id"], device["drive"]):
                if time.monotonic() > deadline:
                    raise CommandTimeout(f"{self.name}: QEMU did not give up disk {disk.serial}")
                time.sleep(0.05)
        self.qemu.qmp.execute("device_add", **device)
        self.wait_until(
            f"for d in /sys/block/*; do [ \"$(cat $d/serial 2>/dev/null)\" = {disk.serial} ] && "
            f"ln -sfn ../../${{d##*/}} {disk.dev} && exit 0; done; exit 1", timeout)

    # -- logs ---------------------------------------------------------------

    def console(self):
        """Everything that all boots wrote to the serial console, as text."""
        paths = [self.session.path / f"{self.name}.{n}.console" for n in range(1, self.boots + 1)]
        return "".join(p.read_text(errors="replace") for p in paths if p.exists())

    def console_tail(self, lines=40):
        return "\n".join(["-- console of " + self.name,
                          *self.console().splitlines()[-lines:], "--"])

    def dmesg(self):
        """The running kernel's log."""
        return self.run("dmesg").out

    def save_dmesg(self):
        """
        Write the running kernel's log to the run's directory. If the guest does not answer, what its processors are at is written
        instead: whether the kernel hangs or the emulator is seen only there.
        """
        try:
            text = self.run("dmesg", timeout=10, check=False).out
        except (CommandTimeout, NodeDied) as error:
            text = f"{error}\n"
            if self.alive():
                self.save_processors("hangs")
                text += "QEMU lost a processor's timer\n" if lost_timer(self.looks) else ""
        (self.session.path / f"{self.name}.dmesg.log").write_text(text, errors="replace")

    def save_processors(self, name="processors", looks=3, enough=lambda looks: False):
        """Look at the machine's processors, a second apart, `looks` times or until enough(looks); what is seen goes to the run's directory as well."""
        self.looks = []
        end = ""
        try:
            while len(self.looks) < looks and not enough(self.looks):
                self.looks.append(self.qemu.processors(self.cpus))
                time.sleep(1)
            end = self.qemu.stacks(stacks(self.looks[-1]))
        except (HarnessError, OSError) as error:
            end = f"{error}\n"
        path = self.session.path / f"{self.name}.{self.boots}.{name}.log"
        path.write_text("".join(self.looks) + end, encoding="utf-8")

    def allow_dmesg(self, pattern):
        """Lines that match this regular expression are expected and no fault."""
        self.allowed.append(re.compile(pattern))

    def forgive(self, pattern):
        """A whole piece of log that matches this regular expression (. is any character) is no fault."""
        self.forgiven.append(re.compile(pattern, re.DOTALL))

    def dmesg_check(self):
        """AssertionError when any boot's kernel log shows a fault of the kernel."""
        text = self.console()
        if self.alive():
            try:
                text += self.dmesg()
            except NodeDied:
                pass
        for pattern in self.forgiven:
            text = pattern.sub("", text)
        bad = [line for line in text.splitlines()
               if BAD_LOG.search(line)
               and not any(p.search(line) for p in self.allowed)]
        assert not bad, (f"{self.name}: the kernel's log holds:\n" + "\n".join(bad[:20]) + "\n"
                         + self.console_tail(80))
