"""Every message has one code, one sentence in one place, and an explanation."""

import ast
from collections import Counter
from dataclasses import fields

import mypy.api
import pytest
from places import ROOT

from fairaudit.capabilities.installed import CAPABILITIES
from fairaudit.cli import app
from fairaudit.messages.base import Message
from fairaudit.messages.data import DuplicateRows
from fairaudit.metrics.registry import PARTS
from fairaudit.report.messages.base import SERIES, FindingMessage, Subject
from fairaudit.report.messages.catalog import every_message, messages
from fairaudit.results.estimates import Interval

PACKAGE = ROOT / "fairaudit"
NAMES = {message.__name__ for message in every_message()}
# What several findings have in common, which is no message.
COMMON = {"ConstantFinding", "RatioFinding", "ControlFinding"}
FINDINGS = [message for message in every_message() if issubclass(message, FindingMessage)]


def is_home(path):
    """Whether a module may hold sentences of messages."""
    return path.parent.name == "messages" or path.name == "messages.py"


def trees(*, homes):
    for path in sorted(PACKAGE.rglob("*.py")):
        if is_home(path) == homes:
            yield str(path.relative_to(PACKAGE)), ast.parse(path.read_bytes())


def test_each_code_is_owned_by_one_message():
    owned = Counter(message.code for message in every_message() if "code" in vars(message))
    assert len(owned) > 90
    assert [code for code, owners in owned.items() if owners > 1] == []
    assert set(owned) == set(messages())
    # What says a code of another case is a case of its owner.
    assert all(issubclass(message, messages()[message.code]) for message in every_message())


def test_every_message_that_any_room_defines_is_known():
    defined = set()
    for where, tree in trees(homes=True):
        for node in ast.walk(tree):
            is_class = isinstance(node, ast.ClassDef) and not where.endswith("messages/base.py")
            if is_class and node.bases and not node.name.startswith("_"):
                defined.add(node.name)
    assert defined - COMMON == NAMES
    assert {"leakage", "trainers"} <= {one.name for one in CAPABILITIES if one.messages()}


@pytest.mark.parametrize("code", messages())
def test_every_code_is_explained(code, capsys):
    assert app.main(["explain", code]) == 0
    said = capsys.readouterr().out.strip()
    assert said.startswith(f"{code}: ")
    assert " where " in said
    assert " where the same" not in said  # as what? nobody who asks of one code knows
    assert said.endswith(".")
    assert not said.endswith("..")


def test_the_codes_are_listed_by_what_they_are(capsys):
    assert app.main(["explain"]) == 0
    lists = dict(line.split(": ", 1) for line in capsys.readouterr().out.strip().splitlines())
    assert "few_seeds" in lists["Warnings"]
    assert "not_attacked" in lists["Notices"]
    assert "fixed_seeds" in lists["Limitations"]
    assert "gap" in lists["Findings"]


def test_no_sentence_is_made_elsewhere():
    """A message is given names and numbers, and no other module defines one."""
    made, given_words = set(), []
    for where, tree in trees(homes=False):
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
                assert not bases & {*NAMES, Message.__name__}, (where, node.name)
            if not isinstance(node, ast.Call):
                continue
            name = ast.unparse(node.func).rpartition(".")[2]
            if name not in NAMES:
                continue
            made.add(name)
            for part in (*node.args, *(keyword.value for keyword in node.keywords)):
                for inner in ast.walk(part):
                    words = isinstance(inner, ast.Constant) and isinstance(inner.value, str)
                    is_sentence = words and len(inner.value.split()) > 3
                    if isinstance(inner, ast.JoinedStr) or is_sentence:
                        given_words.append((where, ast.unparse(node)))
    assert given_words == []
    # All but those that are chosen in a table or by a condition are made in sight.
    by_condition = {"UnlabelledDropped", "UnpredictedDropped", "Copies", "DuplicateRows"}
    by_condition |= {"RuleFailed", "RuleOpen", "RulePassed", "OneAnswerLeft", "ClassLost"}
    by_condition |= {"CostDetected", "RateFell", "GapDetected", "RateGap"}
    by_condition |= {"GapOfGains", "RateGapRisen"}
    of_kinds = set()
    for finding in FINDINGS:
        if (COMMON | {"_FromPart"}) & {base.__name__ for base in finding.__mro__}:
            of_kinds.add(finding.__name__)
    assert NAMES - made == by_condition | of_kinds


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda finding: finding.code)
def test_a_finding_names_in_its_sentence_what_it_is_made_of(finding):
    """Every number of a sentence is a field, so that mypy sees one that lacks."""
    of = {"grouping": "sex", "groups": ("F", "M"), "of": "accuracy", "change": "falls"}
    subject = Subject("dpsgd", **of, unit="fraction")
    number = Interval(value=0.25, low=0.125, high=0.5)
    given = {}
    for part in fields(finding):
        if part.name == "parts":
            given["parts"] = tuple((name, number) for name in PARTS)
        elif part.type in (Interval, Interval | None):
            given[part.name] = number
    message = finding(subject, reason="NAMED", **given)
    assert message.about == "dpsgd"
    assert message.text.endswith(".")
    assert not set("{}") & {*message.text, *message.item_text}
    assert bool(message.item_text) == bool(SERIES.get(message.series))
    assert ("NAMED" in message.text) == ("{reason}" in finding.sentence)


def test_conditions_of_findings_make_no_sentence():
    """What a finding says stands in ``report/messages``, or with the capability that has it."""
    path = PACKAGE / "report" / "conditions.py"
    tree = ast.parse(path.read_bytes())
    docstrings = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.FunctionDef) and ast.get_docstring(node)
    }
    words = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            is_reading = node.value in ("not certain", "cannot tell")
            if " " in node.value.strip() and not is_reading and node not in docstrings:
                words.append(node.value)
    assert len(docstrings) > 20
    assert words == []


def test_a_report_stores_messages_in_one_place():
    stored = []
    for where, tree in trees(homes=False):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in (
                "ReportWarning",
                "Limitation",
            ):
                stored.append(where)
    assert stored == []


def test_messages_are_values():
    for message in every_message():
        assert message.__hash__ is not None
        assert message.__dataclass_params__.frozen
        assert not any(field.type in ("dict", "list") for field in fields(message))


WRONG = """
from fairaudit.messages.training import FewSeeds, ManyGroups
from fairaudit.report.messages.base import Subject
from fairaudit.report.messages.costs import CostDetected

FewSeeds()
FewSeeds("two")
ManyGroups(3, seeds=2)
ManyGroups(3, seeds=2, enough=10).texts
CostDetected(Subject("dpsgd"))
"""


@pytest.mark.slow  # it checks types
def test_a_lacking_or_wrong_number_is_an_error_of_types(tmp_path):
    program = tmp_path / "wrong.py"
    program.write_text(WRONG)
    options = ("--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(tmp_path))
    said, _, code = mypy.api.run([*options, str(program)])
    assert code == 1
    assert [line.rpartition(" ")[2] for line in said.splitlines() if ": error:" in line] == [
        "[call-arg]",
        "[arg-type]",
        "[call-arg]",
        "[attr-defined]",
        "[call-arg]",
    ]


@pytest.mark.parametrize(
    ("repeated", "rows", "share"),
    [
        (3, 1_000, "0.3"),
        (994, 1_000, "99"),
        (996, 1_000, "99.6"),
        (999, 1_000, "99.9"),
        (99_999, 100_000, "99.9"),
        (5, 5, "100"),
    ],
)
def test_a_share_of_equal_rows_is_a_plain_number_and_100_only_of_all(repeated, rows, share):
    message = DuplicateRows(repeated=repeated, rows=rows, are_predicted=False)
    assert f"({share} %)" in message.text
