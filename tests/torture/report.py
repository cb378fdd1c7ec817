# SPDX-License-Identifier: GPL-2.0-or-later
"""What is printed of a failure: what proves it, the operations that matter, and the lines of the log that matter."""
import checker
import history

MARGIN = 20 * 1000000       # µs of log before and after a failure


class Failed(Exception):
    """A failure that was found: its report, line by line."""

    def __init__(self, title, lines):
        super().__init__(title)
        self.lines = [title, *lines]


def report_findings(one, verdict, evidence):
    """The lines of a failed check: for each block what proves it, its operations, and the log."""
    lines = []
    for finding in verdict.findings[:5]:
        lines += finding.lines()
        lines.append(f"  the operations of block {finding.block} (> proves it):")
        lines += checker.of_block(one, finding.block, finding.ops)
        if evidence:
            times = [t for op in finding.ops for t in (op.begin, op.end) if t is not None and t != -history.INF]
            lines.append("  the log of that time:")
            lines += evidence.between(min(times, default=0) - MARGIN, max(times, default=0) + MARGIN)
    if len(verdict.findings) > 5:
        lines.append(f"... and {len(verdict.findings) - 5} blocks more")
    return lines
