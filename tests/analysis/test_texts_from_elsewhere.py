"""A report from elsewhere is text: whatever its strings hold, every rendering keeps its structure.

Reports are filled from the types of the model alone, so that a new field is covered on the day it
is added. Each has one text in every place where it may have one, so names fit each other; what is
shown of it is compared with the same report whose texts are a harmless word.
"""

import dataclasses
import enum
import io
import re
import types
import typing
import xml.etree.ElementTree as ElementTree
from functools import cache
from html.parser import HTMLParser

import pytest
from cases import every_third
from markdown_it import MarkdownIt
from pydantic import BaseModel

from fairaudit.capabilities.installed import CAPABILITIES
from fairaudit.cli import printing
from fairaudit.cli.console import Screen
from fairaudit.cli.lines import result_lines, warning_lines
from fairaudit.cli.lines_compare import change_lines
from fairaudit.cli.lines_gate import tell_github, verdict_lines, workflow_commands
from fairaudit.gate.comparison import compare_reports
from fairaudit.report.model import Report
from fairaudit.report.render.html import to_html
from fairaudit.report.render.junit import gates_to_junit
from fairaudit.report.render.markdown import to_markdown

HARMLESS = "word"
HOSTILE = (
    *("<b>x", "</td>x", "<!-- x", "<script>x", "&lt;x", "<http://e.x>", "http://e.x", "www.e.x"),
    *("[x](y)", "![x](y)", "](javascript:x", "[x]: y", "`x`", "``", "*x*", "**x", "_x_", "~~x~~"),
    *("a|b", "a\\", "a\\|b", "$x$", "\n# x", "\n\n# x", "x\n---", "\r\n\r\n| a | b |\n|---|---|"),
    *(
        "\n```\n",
        "\n~~~\n",
        "- x",
        "+ x",
        "* x",
        "1. x",
        "1) x",
        "> x",
        "# x",
        "    x",
        "\tx",
        "---",
    ),
    *(
        "***",
        "===",
        "x\u2028# x",
        "x\x85# x",
        "x\x0b# x",
        "\x1b[31mx",
        "\x9b31mx",
        "\u202ex",
        "\x07x",
    ),
    *("\x00x", "::error::x", "\n::error::x", " ::error::x", "x##[error]x", "%0A::error::x"),
    *("{{ 7*7 }}", "]]>x", "\ufdd0x", "\u200bx"),
)
METRICS = (
    *(
        "privacy_cost",
        "excess_risk",
        "accuracy",
        "reference.accuracy",
        "selection_rate",
        "tpr",
        "loss",
    ),
    *("impact_ratio", "change.accuracy"),
)
# Keys and names that a rendering looks for; elsewhere the text under test stands.
KEYS = {
    "estimates": METRICS,
    "parts": ("direction", "magnitude_effective", "noise", "magnitude", "clipping"),
    "statistics": (
        "angle_turned",
        "hessian_trace",
        "clipped_share",
        "mean_closeness",
        "mean_input_norm",
    ),
    "rules": ("epochs",),
}
NAMES = {"metric": METRICS, "kind": ("max", "pair")}


class Filler:
    """Values for every field of a model.

    ``turn`` picks among choices, so that all of them come up.
    """

    def __init__(self, text, turn):
        self.text, self.turn = text, turn

    def model(self, kind, **fixed):
        fields = {
            name: self.value(field.annotation, name) for name, field in kind.model_fields.items()
        }
        return {**fields, **fixed}

    def value(self, kind, name):
        if name == "studies":
            return {c.name: self.model(c.study, name=c.name) for c in CAPABILITIES if c.study}
        origin, inside = typing.get_origin(kind), typing.get_args(kind)
        if origin is typing.Annotated:
            return self.value(inside[0], name)
        if origin is typing.Literal:
            return inside[self.turn % len(inside)]
        if origin in (typing.Union, types.UnionType):
            return self.value(next(k for k in inside if k is not type(None)), name)
        if origin is tuple and inside[-1] is not Ellipsis:
            return [self.value(each, name) for each in inside]
        if origin is tuple:
            return self.several(inside[0], name)
        if origin is dict:
            return {key: self.value(inside[1], name) for key in (*KEYS.get(name, ()), self.text)}
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return self.model(kind)
        if dataclasses.is_dataclass(kind):
            hints = typing.get_type_hints(kind)
            return {field: self.value(hints[field], field) for field in hints}
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return list(kind)[self.turn % len(list(kind))]
        return {str: self.text, bool: self.turn % 2 == 0, int: 3, float: 0.25}.get(kind, self.text)

    def several(self, kind, name):
        if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
            return [self.value(kind, name)]
        found = [self.model(kind)]
        for field, names in NAMES.items():
            if (
                kind.model_fields.get(field) is not None
                and kind.model_fields[field].annotation is str
            ):
                found += [{**found[0], field: each} for each in names]
        return found


@cache
def hostile_report(text, turn):
    return Report.model_validate(Filler(text, turn).model(Report))


TURNS = 4


@pytest.fixture(scope="module")
def harmless_markdown():
    return [structure(to_markdown(hostile_report(HARMLESS, turn))) for turn in range(TURNS)]


@pytest.fixture(scope="module")
def harmless_page():
    """Its tags, and the characters that steer or hide something."""
    page = to_html(hostile_report(HARMLESS, 0))
    return Tags(page).found, unsafe(page.replace("\t", ""))


@pytest.fixture(scope="module")
def harmless_lines(tmp_path_factory):
    """How many lines of each kind the harmless reports have."""
    folder = tmp_path_factory.mktemp("harmless")
    with pytest.MonkeyPatch.context() as patched:
        return {
            (lines, turn): len(lines(hostile_report(HARMLESS, turn), patched, folder).splitlines())
            for lines in (printed_text, annotated)
            for turn in range(TURNS)
        }


def structure(markdown):
    """Every token of the text and of its lines, without what is written in them."""
    tokens = []
    for token in (
        MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(markdown)
    ):
        markup = token.markup if token.type != "fence" else "`"  # a fence is as long as it must be
        tokens.append((token.type, token.tag, markup, tuple(sorted(token.attrs))))
        tokens += [
            (c.type, c.tag, tuple(sorted(c.attrs.items())))
            for c in token.children or ()
            if c.type != "text"
        ]
    return tokens


def unsafe(text):
    """Characters that steer a terminal or hide something."""
    return sorted({hex(ord(c)) for c in text if not c.isprintable() and c not in "\n"})


def outside_of_code(markdown):
    return re.sub(r"(?ms)^(`{3,})\n.*?^\1$", "", markdown)


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_a_report_changes_the_structure_of_its_markdown(text, harmless_markdown):
    turn = HOSTILE.index(text) % TURNS
    shown = to_markdown(hostile_report(text, turn))
    assert structure(shown) == harmless_markdown[turn], shown
    assert not unsafe(shown)
    links = re.search(r"(?<!\\)://|(?<!\\)www\.", outside_of_code(shown))
    assert not links, "a link by GitHub's rules"
    assert "##[" not in shown


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append(
            (tag, [name for name, _ in attrs], [v for n, v in attrs if n in ("href", "src")])
        )

    def handle_comment(self, data):
        self.found.append(("comment",))


@pytest.mark.parametrize("text", [t for t in HOSTILE if set(t) & set("<&[`\n\x1b{]")])
def test_nor_of_its_page(text, harmless_page):
    page, (tags, steering) = to_html(hostile_report(text, 0)), harmless_page
    assert Tags(page).found == tags
    assert set(unsafe(page.replace("\t", ""))) <= set(steering)


@pytest.mark.parametrize("text", every_third(HOSTILE))
def test_nor_of_its_xml_its_lines_and_its_annotations(text, harmless_lines, monkeypatch, tmp_path):
    turn = HOSTILE.index(text) % TURNS
    report, clean = hostile_report(text, turn), hostile_report(HARMLESS, turn)
    trees = [ElementTree.fromstring(gates_to_junit(r, "")) for r in (report, clean)]
    assert [e.tag for e in trees[0].iter()] == [e.tag for e in trees[1].iter()]
    for lines in (printed_text, annotated):
        shown = lines(report, monkeypatch, tmp_path)
        assert not unsafe(shown)
        assert len(shown.splitlines()) == harmless_lines[lines, turn]
        assert "##[" not in shown
        if lines is printed_text:
            assert not re.search(r"(?m)^\s*::", shown)


def printed_text(report, monkeypatch, tmp_path):
    """What `run`, `gate`, `compare` and `report` print."""
    other = report.model_copy(update={"verdict": "fail"})
    out, err = io.StringIO(), io.StringIO()
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", err)
    screen = Screen()
    screen.lines(result_lines(report, 1000))  # a long name takes no measure's room
    screen.lines(warning_lines(report, verbose=True))
    screen.lines(verdict_lines(report, None))
    printing.print_stdout(change_lines(compare_reports(report, other), every=True))
    printing.print_stdout([to_markdown(report), gates_to_junit(report, "")])
    monkeypatch.undo()
    return out.getvalue() + err.getvalue()


def annotated(report, monkeypatch, tmp_path):
    """What a job of GitHub Actions is told: one command a gate, and a summary."""
    err, summary = io.StringIO(), tmp_path / "summary.md"
    summary.write_text("")
    monkeypatch.setattr("sys.stderr", err)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    tell_github(report, None)
    monkeypatch.undo()
    assert err.getvalue().count("\n") == len(list(workflow_commands(report, None)))
    assert all(
        re.match(r"::(error|warning) title=fairaudit gate \w+::", line)
        for line in err.getvalue().splitlines()
    )
    assert structure(summary.read_text()) == structure(to_markdown(report))
    return err.getvalue() + summary.read_text()
