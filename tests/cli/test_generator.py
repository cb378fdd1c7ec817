# SPDX-License-Identifier: GPL-2.0-or-later
"""The systemd generator: which units stop with corosync, according to the transport that ddraidd reports."""
import pathlib
import subprocess

import pytest

TOP = pathlib.Path(__file__).resolve().parents[2]
UNITS = ("ddraid.service", "ddraid-all.service", "ddraid-stop.service", "ddraidd.service")


@pytest.fixture
def generate(tmp_path):
    """Runs the generator of a machine whose ddraidd prints @says; {unit: drop-in}."""
    def run(says):
        daemon, out = tmp_path / "sbin/ddraidd", tmp_path / "out"
        daemon.parent.mkdir(exist_ok=True)
        daemon.write_text(f"#!/bin/sh\n[ \"$*\" = --transport ] && {says}\n")
        daemon.chmod(0o755)
        script = tmp_path / "generator"
        script.write_text((TOP / "packaging/systemd/ddraid-generator.in").read_text().replace("@sbindir@", str(daemon.parent)))
        done = subprocess.run(["sh", script, out, out, out], capture_output=True, text=True, timeout=30)
        assert done.returncode == 0 and not done.stderr, done
        return {p.parent.name.removesuffix(".d"): p.read_text() for p in out.glob("*/*.conf")}
    return run


def test_S36_with_corosync_its_orderly_stop_stops_the_arrays(generate):
    """Finding S36: PartOf=, which takes a stop and a restart along, and no crash; the order puts our stop before that of corosync."""
    written = generate("echo corosync")
    assert set(UNITS) <= set(written)
    for text in written.values():
        lines = text.splitlines()
        assert "[Unit]" in lines and "PartOf=corosync.service" in lines and "After=corosync.service" in lines
        assert not any(line.startswith(("BindsTo=", "Requires=")) for line in lines), text


@pytest.mark.parametrize("says", ["echo local", "exit 1", "{ echo broken >&2; exit 1; }"])
def test_without_corosync_its_stop_leaves_the_arrays_alone(generate, says):
    assert not generate(says)
