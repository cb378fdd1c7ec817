# SPDX-License-Identifier: GPL-2.0-or-later
"""Each file above 500 lines and each function above 70 has a reason in sizes.txt, and no reason is stale."""
import sizes


def test_what_is_large_has_a_reason():
    assert sizes.faults(sizes.TOP, sizes.REASONS.read_text()) == []


def made_up(top):
    for part in sizes.PARTS.split():
        (top / part).mkdir()
    (top / "quickstart").write_text("long() {\n" + "\ttrue\n" * 70 + "}\n")
    (top / "lib/long.c").write_text("int x;\n" * 501)
    (top / "cli/short.c").write_text("int x;\n" * 500)
    (top / "daemon/f.c").write_text("int fits(void)\n{\n" + "\tx();\n" * 67 + "}\nint large(void)\n{\n" + "\tx();\n" * 68 + "}\n")
    (top / "tests/t.py").write_text("def large():\n" + "    x = 1\n" * 70 + "\n\ndef fits():\n" + "    x = 1\n" * 69)


def test_what_is_large_is_seen(tmp_path):
    made_up(tmp_path)
    assert sizes.large(tmp_path) == {"lib/long.c": 501, "quickstart long()": 72, "daemon/f.c large()": 71, "tests/t.py large()": 71}


def test_reasons_are_compared(tmp_path):
    made_up(tmp_path)
    text = "# none of these\n\n| lib/long.c\n| daemon/f.c large()\nBecause.\n\n| cli/short.c\nIt was long.\n\n| tests/t.py large()\n\n| lib/long.c\nTwice.\n"
    found = sizes.faults(tmp_path, text)
    assert [line.split(":")[0] for line in found] == ["quickstart long()", "tests/t.py large()", "cli/short.c", "lib/long.c"]
    assert [line.split(": ")[1].split(",")[0] for line in found] == ["72 lines", "71 lines", "no longer above the limit", "twice in sizes.txt"]
