import re
from html import unescape

from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from fairaudit.report.render.markdown import literal
from fairaudit.report.safe_names import NAME_LIMIT, plain


def markdown(name, limit=NAME_LIMIT):
    return literal(plain(name, limit).strip())


# What Markdown gives a meaning, often beside what decides whether it has one.
MEANT = st.text(alphabet="[]()<>|_*`~#&;:!,.-+=\\/\"' 12alté", max_size=40)


def shown_in_a_cell(cell):
    """The text of a table's cell as GitHub shows it; None where the cell is more than text."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    html = parser.render(f"| head |\n|---|\n| {cell} |\n")
    found = re.fullmatch(
        r".*<tbody>\s*<tr>\s*<td>([^<]*)</td>\s*</tr>\s*</tbody>\s*</table>\s*", html, re.S
    )
    return None if found is None else unescape(found[1])


@example("x" * 200)
@example("\u202egnp.exe")
@given(st.text(max_size=80) | MEANT)
def test_a_name_in_a_cell_is_read_as_the_text_that_it_is(name):
    cell = markdown(name)
    assert "\n" not in cell
    assert "<" not in cell
    assert shown_in_a_cell(cell) == plain(name).strip()
    assert plain(name).isprintable()
    assert len(plain(name)) <= NAME_LIMIT


def test_what_markdown_leaves_alone_is_readable_in_a_terminal():
    for text in ("privacy_cost_gap@sex=F > 0.02", "4.1 [-2.6, 5.5]", "R & D", "selection_rate"):
        assert markdown(text) == text
