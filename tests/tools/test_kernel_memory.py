# SPDX-License-Identifier: GPL-2.0-or-later
"""The module's I/O takes memory in one file, kernel/pages.c: that file's proof that no I/O waits for another one's memory is over all of it."""
import re

import pytest

import walk

# Where an I/O enters the module, and what runs it on: every context in which its code is called.
ENTRIES = ("ddr_map", "ddr_io_work", "ddr_io_woken", "ddr_member_endio")
# Calls that take memory.
TAKES = re.compile(r"k\w*[mzc]alloc\w*|kmem_cache_\w*alloc\w*|kmemdup\w*|kv?asprintf|kstrn?dup|v[mz]alloc\w*|alloc_pages?\w*|__get_free_pages?|get_zeroed_page|"
                   r"mempool_alloc\w*|bio_alloc\w*|bio_kmalloc|bio_clone\w*|alloc_percpu\w*")
LAYER = "pages.c"


def reached(source, entries, now):
    """All functions that are called from @entries, whatever the order."""
    found, todo = set(), list(entries)
    while todo:
        name = todo.pop()
        if name in found or name not in source.body:
            continue
        found.add(name)
        for called in source.calls(name):
            todo += [called, *now.get((name, called), "").split()]
    return found


def takers(source, names):
    """Those of @names that take memory, and where they are."""
    return {name: source.file_of[name] for name in names if any(TAKES.fullmatch(called) for called in source.calls(name))}


def test_an_io_takes_memory_in_one_file():
    source = walk.module()
    names = reached(source, ENTRIES, walk.NOW)
    assert {"ddr_write_take", "ddr_read_go", "ddr_flush_start", "ddr_write_failed", "ddr_error_park", "ddr_region_get_slow", "ddr_buf_get"} <= names
    found = takers(source, names)
    assert {"ddr_buf_get", "ddr_buf_take_pages", "ddr_page_alloc", "ddr_small_alloc", "ddr_large_alloc"} <= set(found)
    assert {name: file for name, file in found.items() if file != LAYER} == {}


def test_it_never_waits_for_io():
    """GFP_KERNEL may write to the array that waits for this memory."""
    source = walk.module()
    for name in takers(source, reached(source, ENTRIES, walk.NOW)):
        assert "GFP_KERNEL" not in source.body[name], name


@pytest.mark.parametrize("call", ["kmalloc(8, GFP_NOIO)", "kvzalloc(8, gfp)", "mempool_alloc(pool, gfp)", "alloc_pages_bulk(gfp, 1, p)", "bio_alloc_clone(b)"])
def test_one_elsewhere_is_found(tmp_path, call):
    (tmp_path / "io.c").write_text("void entry(void)\n{\n\tinner();\n}\n\nstatic void inner(void)\n{\n\tp = " + call + ";\n}\n\n"
                                   "void setup(void)\n{\n\tp = kzalloc(8, GFP_KERNEL);\n}\n")
    source = walk.Source([tmp_path / "io.c"])
    assert takers(source, reached(source, ["entry"], {})) == {"inner": "io.c"}
