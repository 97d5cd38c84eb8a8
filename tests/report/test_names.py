import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairaudit.report.names import NAME_LIMIT, markdown, plain

HOSTILE = [
    "a|b",
    "line\nbreak",
    "<script>alert(1)</script>",
    "\u202egnp.exe",
    "x" * 5000,
    "\u2028",
    "a\x00b",
    "`code`",
    "[link](http://x)",
    "\u200bhidden",
    "#" + "h" * 3,
    "\\",
    "&lt;",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_one_short_visible_line(name):
    shown = plain(name)
    assert len(shown) <= NAME_LIMIT
    assert shown.isprintable()
    assert "\n" not in markdown(name)


@given(st.text(max_size=80))
def test_no_text_can_leave_its_cell(name):
    cell = markdown(name)
    assert "\n" not in cell
    assert "<" not in cell
    assert ">" not in cell
    assert not pipes_out(cell)
    assert plain(name).isprintable()


def test_ordinary_names_stay_as_they_are():
    for name in ("sex", "Ünïcode 名前", ">50K"[1:], "35-44", "(missing)"):
        assert plain(name) == name


def pipes_out(cell):
    return "|" in cell.replace("\\\\", "").replace("\\|", "")


def test_a_backslash_cannot_eat_the_escape_of_a_pipe():
    only_pipes = "\\|".replace("|", "\\|")
    assert pipes_out(only_pipes), "the broken variant must be caught"
    assert not pipes_out(markdown("\\|"))
