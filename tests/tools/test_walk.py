# SPDX-License-Identifier: GPL-2.0-or-later
"""The way of a write bio through the module gets no longer, and the tool that follows it counts right."""
import pathlib
import re

import pytest

import functions
import walk

MADE_UP = {
    "door.c": """
/* door(); in a comment is no call */
static int door(struct bio *bio)
{
	say("room()");
	return hall(bio, size(bio));
}
""",
    "hall.h": "int hall(struct bio *bio, int n);\nvoid hall_end(struct bio *bio);\nvoid helper(void);\n",
    "hall.c": """
static void hall_end(struct bio *bio)
{
	helper();
}

int hall(struct bio *bio, int n)
{
	cellar(n);
	if (n)
		failed(bio);
	bio->end = hall_end;
	later(bio);
	cellar(0);		/* was read before */
	return 0;
}
""",
    "helper.c": "void helper(void)\n{\n}\n",
    "cellar.h": "void cellar(int n);\nstatic inline int size(struct bio *bio) { return 1; }\n",
    "cellar.c": """
void cellar(int n)
{
	stairs(n);
}

static void stairs(int n)
{
}

void run(struct bio *bio)
{
	bio->end(bio);
}
""",
    "failed.c": "void failed(struct bio *bio)\n{\n\tcellar(1);\n}\n",
}


@pytest.fixture
def house(tmp_path):
    for name, text in MADE_UP.items():
        (tmp_path / name).write_text(text)
    return walk.Source(sorted(tmp_path.iterdir()))


def made_up(house, **more):
    return walk.Walk(house, "door", {"failed"}, {("run", "bio->end"): "hall_end"}, {("hall", "later"): "run"}, **more)


def test_rooms_are_what_a_header_speaks_for(house):
    assert house.room_of == {"door.c": "door", "hall.c": "hall", "hall.h": "hall", "helper.c": "hall", "cellar.c": "cellar", "cellar.h": "cellar",
                             "failed.c": "failed"}


def test_the_walk_goes_as_a_reader_does(house):
    found = made_up(house)
    assert [(room, name, back) for _, room, _, name, back in found.steps] == [
        ("door", "door", False),
        ("cellar", "size", False),              # an argument comes before the call that it is for
        ("door", "door", True),
        ("hall", "hall", False),
        ("cellar", "cellar", False),
        ("cellar", "stairs", False),            # not back to hall, nor to door: nothing new is called there
        ("cellar", "run", False),               # a context of its own
        ("hall", "hall_end", False),
        ("hall", "helper", False),
    ]
    assert found.rooms == ["door", "cellar", "hall"]
    assert found.returns == [("cellar", "door", "door"), ("hall", "cellar", "cellar"), ("cellar", "hall", "hall_end")]
    assert not found.undeclared()


def test_by_file_each_file_is_a_room(house):
    found = made_up(house, by_file=True)
    assert found.rooms == ["door", "cellar", "hall", "helper"]
    assert len(found.returns) == 3


def test_what_is_entered_costs(house):
    found = walk.Walk(house, "door", (), {("run", "bio->end"): "hall_end"}, {("hall", "later"): "run"})
    assert found.rooms == ["door", "cellar", "hall", "failed"]
    assert len(found.returns) == 5              # back in hall for failed(), and cellar's run() comes behind it


def test_a_pointer_of_which_nobody_says_where_it_leads_is_seen(house):
    assert walk.Walk(house, "door", {"failed"}, {}, {("hall", "later"): "run"}).undeclared() == ["hall hands on hall_end", "run calls bio->end()"]


@pytest.mark.parametrize("way", walk.WAYS)
def test_the_way_of_a_write_gets_no_longer(way):
    source = walk.module()
    assert walk.numbers(source, way) == walk.MOST[way], "longer: why? shorter: lower MOST in walk.py"
    assert not walk.walk(source, way).undeclared()


def test_a_write_for_which_all_is_ready_visits_few_rooms():
    rooms, returns, _, _ = walk.numbers(walk.module(), "ready")
    assert rooms <= 8 and returns <= 15


def test_the_document_says_why_the_walk_comes_back():
    text = (pathlib.Path(walk.__file__).resolve().parents[2] / "doc/walk.md").read_text()
    rows = re.findall(r"^\| (\w+) \| (\w+) \| `(\w+)` \| .+ \|$", text, re.M)
    assert rows == walk.walk(walk.module(), "waits").returns
    ready, waits = (walk.numbers(walk.module(), way)[1] for way in ("ready", "waits"))
    assert re.search(rf"\b{ready} times\b.*\b{waits} times\b", text, re.S)


def test_the_tables_name_functions_that_there_are_and_are_needed():
    source = walk.module()
    handed = [name for targets in [*walk.NOW.values(), *walk.LATER.values()] for name in targets.split()]
    assert [name for name in [*walk.FAILS, *walk.WAITS, *handed] if name not in source.body] == []
    for (name, called) in [*walk.NOW, *walk.LATER]:
        assert called in source.calls(name), f"{name} does not call {called}()"
    read = walk.walk(source, "waits").read
    for name in walk.FAILS:
        assert any(name in source.calls(other) + list(source.handed(other)) for other in read), f"no write comes to {name}()"
    assert [name for name in walk.WAITS if name not in read] == []


def test_both_ways_end():
    for way in walk.WAYS:
        assert {"ddr_map", "ddr_io_submit", "ddr_member_endio", "ddr_write_end", "ddr_io_finish"} <= walk.walk(walk.module(), way).read


def test_functions_are_found():
    text = "#define X(a) \\\n\tf(a)\n/* int no(void)\n{\n} */\nstatic __printf(1, 2) void\nfirst(const char *text,\n      int more)\n{\n\tif (more) {\n\t}\n}\n" \
        "int one(void) { return 0; }\nstruct s {\n\tint (*p)(int);\n};\n"
    assert [(f.name, f.first, f.last) for f in functions.of_c(text)] == [("first", 6, 12), ("one", 13, 13)]
    assert functions.declared("#define D(x) f(x)\nint a(int b);\nvoid c(void (*d)(int e),\n\tint f);\nstatic inline int g(void)\n{\n\treturn h();\n}\n") == {"a", "c", "g"}
