# SPDX-License-Identifier: GPL-2.0-or-later
"""Fixtures for tests on virtual machines.

After each test that passed its own checks, the kernel logs of all machines that
it used are checked too.  When a test fails, the consoles' tails are in its
report and the logs are kept in a directory that the report names.
"""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import ddvm                                                        # noqa: E402
from ddvm import modbuild                                          # noqa: E402
from ddvm.config import stage_dir                                  # noqa: E402

DEFAULTS = {"disks": 5, "size": "64M", "nodes": 1}
DISK_KEYS = ("logical_block_size", "physical_block_size", "iops", "bps", "write_zeroes", "discard")


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: ./quickstart check has no time for it; ./quickstart drill slow_tests runs it")
    config.addinivalue_line(
        "markers", "vm(nodes=1, disks=5, size='64M', memory=768, cpus=2, kernel=None, stage=True, "
        "systemd=False, neighbours=False, persistent=False, append='', iops=0, bps=0, logical_block_size=512, ...): the machines")


class Machines:
    """All machines of the session, by the test or module they belong to."""

    def __init__(self):
        self.run = ddvm.Run()
        self.shared = {}        # module name -> nodes
        self.used = []          # nodes of the test that runs
        self.serial = 0

    def create(self, options):
        """Nodes (switched off) over one set of new disks."""
        options = {**DEFAULTS, **options}
        self.serial += 1
        size = options.pop("size")
        disk_options = {k: options.pop(k) for k in DISK_KEYS if k in options}
        disks = [ddvm.Disk(self.run.path / f"{self.serial}-d{i}.raw", size, f"d{i}",
                           **disk_options) for i in range(options.pop("disks"))]
        count = options.pop("nodes")
        return [ddvm.Node(self.run, f"n{self.serial}-{i + 1}", disks, **options)
                for i in range(count)]

    def discard(self, nodes):
        """Switch machines off for good and remove their disks."""
        for node in nodes:
            node.kill()
            if node in self.run.nodes:      # not after an interrupt: the run is closed by then
                self.run.nodes.remove(node)
            node.forget()
        for disk in {str(d.path) for node in nodes for d in node.disks}:
            pathlib.Path(disk).unlink(missing_ok=True)


_MACHINES = None


def check_machine():
    """End the session with one line if this machine lacks something."""
    try:
        ddvm.check_machine()
    except ddvm.HarnessError as error:
        pytest.exit(f"ddvm: {error}", returncode=3)


def machines():
    """The session's machines; the machine's resources are checked on the first call."""
    global _MACHINES
    if _MACHINES is None:
        check_machine()
        _MACHINES = Machines()
    return _MACHINES


def pytest_sessionstart(session):
    """With workers (pytest-xdist) a worker cannot end the session, so it is checked before them."""
    if getattr(session.config.option, "numprocesses", None):
        check_machine()


def pytest_sessionfinish():
    if _MACHINES is not None:
        _MACHINES.run.close()


def boot_all(nodes):
    """Boot machines side by side."""
    for node in nodes:
        node.start()
    for node in nodes:
        node.ready()
    return nodes


def marker_options(request):
    """Options of the vm markers, the nearest one winning."""
    options = {}
    for mark in reversed(list(request.node.iter_markers("vm"))):
        options.update(mark.kwargs)
    return options


@pytest.fixture
def nodes(request):
    """Fresh machines for this test alone (marker vm), booted, sharing their disks."""
    made = machines().create(marker_options(request))
    machines().used += made
    yield boot_all(made)
    machines().discard(made)


@pytest.fixture
def node(nodes):
    """A fresh machine for this test alone (marker vm), booted."""
    return nodes[0]


@pytest.fixture
def shared_node(request):
    """One machine for all tests of a file, by its VM = {...}; new after a failed test.

    A test may leave it switched off; the next one finds it booted.
    """
    name = request.module.__name__
    if name not in machines().shared:
        machines().shared[name] = machines().create(getattr(request.module, "VM", {}))
    made = machines().shared[name]
    machines().used += made
    for one in made:
        if not one.alive():
            one.kill()
            one.boot()
    return made[0]


@pytest.fixture(scope="module", autouse=True)
def _end_of_module(request):
    yield
    if _MACHINES is not None:
        _MACHINES.discard(_MACHINES.shared.pop(request.module.__name__, []))


@pytest.fixture
def make_nodes():
    """Function that makes machines, switched off, with marker vm's options."""
    made = []

    def make(**options):
        new = machines().create(options)
        made.extend(new)
        machines().used += new
        return new

    yield make
    machines().discard(made)


@pytest.fixture
def make_cluster():
    """Function that makes a cluster of machines, switched off: nodes=3, transport=, rings= and marker vm's options."""
    made = []

    def make(nodes=3, transport="knet", rings=2, **options):
        new = machines().create({"nodes": nodes, **options})
        try:
            cluster = ddvm.Cluster(machines().run, new, transport, rings)
        except ddvm.HarnessError:
            machines().discard(new)
            raise
        made.append(cluster)
        machines().used += new
        return cluster

    yield make
    for cluster in made:
        cluster.close()
        machines().discard(cluster.nodes)


@pytest.fixture
def stage():
    """Directory with what was built; the test fails when nothing was."""
    path = stage_dir()
    assert path, ("nothing is built: run make install DESTDIR=build/stage, or set DDRAID_STAGE")
    return path


@pytest.fixture
def load_forget():
    """Function that loads dm-forget (built for the node's kernel) into a node."""
    def load(target):
        target.load_module(modbuild.test_module("dm-forget", target.kernel))
    return load


@pytest.fixture(autouse=True)
def _forget_used():
    yield
    if _MACHINES is not None:
        _MACHINES.used = []


@pytest.hookimpl(trylast=True)
def pytest_runtest_call(item):
    """Runs after the test's own body, and only when that passed."""
    for one in (_MACHINES.used if _MACHINES is not None else []):
        one.dmesg_check()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    if not report.failed or _MACHINES is None or not _MACHINES.used:
        return
    for one in _MACHINES.used:
        report.sections.append((f"console of {one.name}", one.console_tail()))
        if one.alive():
            one.save_dmesg()
    report.sections.append(("logs", f"kept in {_MACHINES.run.keep_logs(item.name)}"))
    for name, made in list(_MACHINES.shared.items()):
        if any(one in _MACHINES.used for one in made):
            _MACHINES.discard(_MACHINES.shared.pop(name))
