from changed import replace
from golden import assert_golden
from handmade import arm, built, comparison, estimate, findings, gap
from reports import report_of

from fairaudit.report.render.markdown import to_markdown


def test_the_markdown_is_as_reviewed(report):
    assert_golden("report.md", to_markdown(report))


def test_long_tables_are_cut_and_say_so_but_the_main_tables_are_whole():
    names = tuple(f"group {i}" for i in range(30))
    keys = [f"dpsgd@{i}" for i in range(12)]
    arms = (arm("sgd", reference=None), *(arm(key) for key in keys))
    compared = [comparison(key, tuple([0.01] * 30), names=names) for key in keys]
    options = {"epsilon": [1, 2, 3], "suppress_below": 2}
    text = to_markdown(report_of(*compared, arms=arms, names=names, **options))
    rows = {}
    for part in text.split("\n## ")[1:]:
        rows[part.partition("\n")[0]] = part.count("\n| dpsgd@")
    assert rows["Cost by group"] == 12 * 31
    assert rows["Gaps between groups"] == 12
    assert rows["Within each model"] == 14 + 8
    within = text.partition("\n## Within each model\n")[2].partition("\n## ")[0]
    assert "346 more rows are in report.json." in within


def test_where_no_two_groups_can_be_compared_no_pair_and_no_sign_is_named():
    """As three groups of one test row each leave it."""
    nothing = estimate(None, reason="fewer than two groups are large enough")
    kept = {"direction": "", "minimum_detectable": None, "reason": nothing.reason}
    none = gap(
        "", "", 0.0, kind="max", signed=nothing, absolute=nothing, simultaneous=nothing, **kept
    )
    none = replace(none, gated=False)
    found = replace(findings(), comparisons=(replace(comparison(), gaps=(none,)),))
    report = built(found)
    assert "| sex: no pair | undefined: " in to_markdown(report)
    small = replace(comparison().gaps[0], gated=False, reason="group 'F' has 12 test records")
    found = replace(findings(), comparisons=(replace(comparison(), gaps=(small,)),))
    (row,) = [
        line
        for line in to_markdown(built(found)).splitlines()
        if small.reason in line and line.startswith("|")
    ]
    assert f"| {100 * small.size.value:.1f} |" in row, "no interval beside what cannot be told"
