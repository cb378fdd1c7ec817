# SPDX-License-Identifier: GPL-2.0-or-later
"""Each line that the kernel module writes to the log names its array or device."""
import pathlib
import re

KERNEL = pathlib.Path(__file__).resolve().parents[2] / "kernel"
LINE = re.compile(r'\b(?:DM(?:CRIT|ERR|WARN|INFO|DEBUG)(?:_LIMIT)?|pr_[a-z_]+|printk[a-z_]*)\(\s*"((?:[^"\\]|\\.)*)",\s*([^,;)]*)')


def test_each_line_begins_with_the_array():
    """Finding S41: at three in the morning "member 1 failed" is of no use on a machine with ten arrays."""
    lines = [(path.name, *m.groups()) for path in sorted(KERNEL.glob("*.c")) for m in LINE.finditer(path.read_text(encoding="utf-8"))]
    assert len(lines) > 15, "the lines are not found any more"
    assert [line for line in lines if not (line[1].startswith("%s: ") and line[2].endswith("label"))] == []
    calls = sum(len(re.findall(r"\b(?:DM(?:CRIT|ERR|WARN|INFO|DEBUG)(?:_LIMIT)?|pr_[a-z_]+|printk[a-z_]*)\(", path.read_text(encoding="utf-8")))
                for path in KERNEL.glob("*.c"))
    assert calls == len(lines), "a line of the log that this test cannot read"
