import re

import pytest
from changed import replace
from golden import assert_golden
from handmade import (
    arm,
    comparison,
    dataset,
    estimate,
    findings,
    gap,
    metadata,
    plan,
    resolved,
    results,
)

from fairaudit.analysis.build import AuditResults, build_report
from fairaudit.report.main_gap import metric_text
from fairaudit.report.render.markdown import to_markdown

HOSTILE = ("a|b", "line\nbreak", "<script>alert(1)</script>", "\u202egnp.exe", "x" * 5000)


@pytest.fixture
def report():
    return build_report(findings(), metadata())


def hostile_report():
    names = HOSTILE
    settled = resolved(label=names[2], group=[names[0]])
    made = plan(settled.config)
    data = replace(dataset(names), name=names[1] + ".csv", label=names[2])
    compared = comparison(costs=(0.04, 0.01, 0.02, 0.03, 0.0), names=names)
    return build_report(
        AuditResults(settled, made, data, results(made), {}, (compared,)), metadata()
    )


def test_the_markdown_is_as_reviewed(report):
    assert_golden("report.md", to_markdown(report))


def test_it_names_neither_time_nor_place(report):
    later = metadata(seconds={}, created_utc="later", environment={})
    assert to_markdown(build_report(findings(workers=3, out="x"), later)) == to_markdown(report)
    assert "2026-01-02" not in to_markdown(report)


def test_hostile_names_cannot_leave_their_cell():
    text = to_markdown(hostile_report())
    outside = re.sub(r"```.*?```", "", text, flags=re.S)
    assert "<script>" not in outside
    assert "\u202e" not in text
    assert "x" * 60 not in outside
    rows = [line for line in outside.splitlines() if line.startswith("| ")]
    widths = {}
    for line in rows:
        cells = line.replace("\\\\", "").replace("\\|", "").count("|")
        widths.setdefault(cells, []).append(line)
    heads = [line for line in outside.splitlines() if re.fullmatch(r"\|[-:|]+\|", line)]
    assert set(widths) <= {head.count("|") for head in heads}


def test_a_fence_in_the_command_cannot_end_its_block():
    found = findings(label="```\n# hello")
    text = to_markdown(build_report(found, metadata()))
    block = text[text.index("## Reproduce") :]
    assert block.count("\n````\n") == 2


def test_long_tables_are_cut_and_say_so_but_the_main_tables_are_whole():
    names = tuple(f"group {i}" for i in range(30))
    settled = resolved(epsilon=[1, 2, 3], suppress_below=2)
    keys = [f"dpsgd@{i}" for i in range(12)]
    made = plan(settled.config, (arm("sgd", reference=None), *(arm(key) for key in keys)))
    compared = tuple(comparison(key, tuple([0.01] * 30), names=names) for key in keys)
    found = AuditResults(settled, made, dataset(names), results(made), {}, compared)
    text = to_markdown(build_report(found, metadata()))
    rows = {}
    for part in text.split("\n## ")[1:]:
        rows[part.partition("\n")[0]] = part.count("\n| dpsgd@")
    assert rows["Cost by group"] == 12 * 30
    assert rows["Gaps between groups"] == 12
    assert rows["Within each model"] == 14 + 8
    within = text.partition("\n## Within each model\n")[2].partition("\n## ")[0]
    assert "346 more rows are in report.json." in within


def test_where_no_two_groups_can_be_compared_no_pair_and_no_sign_is_named():
    """As three groups of one test row each leave it."""
    nothing = estimate(None, reason="fewer than two groups are large enough")
    kept = {
        "direction": "",
        "minimum_detectable": None,
        "reason": nothing.reason,
    }
    none = gap(
        "", "", 0.0, kind="max", signed=nothing, absolute=nothing, simultaneous=nothing, **kept
    )
    none = replace(none, gated=False)
    found = replace(findings(), comparisons=(replace(comparison(), gaps=(none,)),))
    report = build_report(found, metadata())
    (row,) = [
        line
        for line in to_markdown(report).splitlines()
        if nothing.reason in line and "sex:" in line
    ]
    assert "| sex: no pair | undefined: fewer than two groups are large enough | – |" in row
    assert "| –; never gated: fewer than two groups" in row
    of_accuracy = replace(none, metric="accuracy")
    alone = replace(found, comparisons=(replace(comparison(), reference="", gaps=(of_accuracy,)),))
    (row,) = [
        line
        for line in to_markdown(build_report(alone, metadata())).splitlines()
        if line.startswith("| global-adapt | sex | accuracy")
    ]
    assert row.endswith("| – | – | – |")


def test_the_warning_of_an_undertrained_reference_is_printed():
    found = findings()
    weak = {
        k: replace(r, arrays={**r.arrays, "probabilities": 1 - r.arrays["probabilities"]})
        for k, r in found.results.items()
    }
    assert "reference undertrained" in to_markdown(
        build_report(replace(found, results=weak), metadata())
    )


@pytest.mark.parametrize(
    ("metric", "said"),
    [("change.tpr[1]", "tpr[1] (square)"), ("accuracy", "accuracy"), ("change.auc", "auc")],
)
def test_a_rate_of_one_class_names_the_class(metric, said):
    assert metric_text(metric, ("circle", "square")) == said
