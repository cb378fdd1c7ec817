# SPDX-License-Identifier: GPL-2.0-or-later
"""ddraid inside a guest: the daemon, arrays, and the questions that drills ask.

Thin: every method is a command that a user could type, with what is expected of it.
"""
import json
import shlex
import time

CONFIG = "/etc/ddraid/ddraid.conf"
# The ids of the machine and its cluster outlive a boot.
KEEP_STATE = ("d=/dev/disk/by-id/virtio-ddvm-state; "
              "if [ -e $d ] && ! mountpoint -q /var/lib/ddraid; then mount -t ext4 $d /var/lib/ddraid; fi")


class Guest:
    """ddraid on one node; `devices`: where the command may look for members (all disks if empty)."""

    def __init__(self, node, devices=()):
        self.node = node
        self.env = {"DDRAID_DEVICES": " ".join(devices)} if devices else {}
        self.program = "ddraidd"
        self.daemon = None
        self.events = None

    # -- daemon

    def start_daemon(self, wait=True, **options):
        """Runs ddraidd in the foreground as a job of the harness; options go to its configuration."""
        self.node.run(f"modprobe dm_ddraid; mkdir -p /etc/ddraid /run/ddraid /var/lib/ddraid; {KEEP_STATE}")
        # A machine of the harness ends with its QEMU, which has all of its disks' commands done or dropped by then.
        text = "".join(f"{key} = {value}\n" for key, value in {"settle": "0", **options}.items())
        self.node.put(CONFIG, text)
        self.daemon = self.node.spawn(f"exec {self.program} --foreground")
        if wait:
            self.wait_daemon()

    def wait_daemon(self):
        """Until it answers; its own words are in the error if it does not."""
        deadline = time.monotonic() + 60
        while self.command("status --json", check=False).code != 0:
            assert self.daemon.poll() is None, f"ddraidd ended with {self.daemon.poll()}: {self.daemon.err[-2000:]}"
            assert time.monotonic() < deadline, f"ddraidd does not answer: {self.daemon.err[-2000:]}"
            time.sleep(0.1)

    def kill_daemon(self):
        """kill -9, and wait until it is gone."""
        self.daemon.kill()
        assert self.daemon.wait(30).code == -9, "the daemon had ended before"

    def watch_events(self):
        """From now on events_seen() gives what happens; the first one is the state, which the daemon's answer to the listener holds."""
        self.events = self.node.spawn("exec ddraid events --json")
        self.events.wait_output('"event":"state"')

    def events_seen(self):
        """All events since watch_events() as dictionaries."""
        return [json.loads(line) for line in self.events.out.splitlines(keepends=True) if line.endswith("\n")]

    # -- command

    def command(self, text, check=True, timeout=60):
        return self.node.run(f"ddraid {text}", check=check, timeout=timeout, env=self.env)

    def create(self, name, order, parity, layout, devices, extra=""):
        paths = " ".join(shlex.quote(d) for d in devices)
        return self.command(f"create {name} --order {order} --parity {parity} --layout {layout} {extra} {paths}")

    def start(self, name, extra=""):
        """The device's path."""
        self.command(f"start {extra} {name}")
        return f"/dev/mapper/{name}"

    def create_and_start(self, name, order, parity, layout, devices, extra="--overwrite --yes"):
        self.create(name, order, parity, layout, devices, extra)
        return self.start(name)

    def stop(self, name):
        self.command(f"stop {name}", timeout=120)

    def arrays(self):
        """All objects of `status --json`."""
        return json.loads(self.command("status --json").out)

    def status(self, name):
        """The array's object of `status --json`."""
        return next(a for a in self.arrays() if a["name"] == name)

    def busy(self, name):
        """Why the array is not idle yet, or None."""
        regions = self.status(name)["regions"]
        if regions["dirty"] or regions["needs_sync"]:
            return f"{regions['dirty']} dirty, {regions['needs_sync']} to sync"
        return None

    def wait_idle(self, name, timeout=120):
        """Until nothing is dirty and nothing waits for a resync."""
        deadline = time.monotonic() + timeout
        while why := self.busy(name):
            assert time.monotonic() < deadline, f"{name} is still busy after {timeout} s: {why}"
            time.sleep(0.3)
