# SPDX-License-Identifier: GPL-2.0-or-later
"""ddvm: real kernels in QEMU for the tests of ddraid (see tests/vm/README)."""

from .channel import CommandFailed, CommandTimeout, Job, NodeDied, Result
from .cluster import Cluster
from .config import HarnessError, check_machine
from .disks import Disk, parse_size
from .node import Node
from .run import Run

__all__ = ["Cluster", "CommandFailed", "CommandTimeout", "Disk", "HarnessError", "Job", "Node",
           "NodeDied", "Result", "Run", "check_machine", "parse_size"]
