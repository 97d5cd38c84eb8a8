from changed import replace
from golden import assert_golden
from handmade import arm, built, comparison, estimate, findings, gap
from reports import report_of

from fairaudit.report.render.markdown import to_markdown


def test_the_markdown_is_as_reviewed(report):
    assert_golden("report.md", to_markdown(report))


def test_every_table_is_whole():
    names = tuple(f"group {i}" for i in range(30))
    keys = [f"dpsgd@{i}" for i in range(12)]
    arms = (arm("sgd", reference=None), *(arm(key) for key in keys))
    compared = [comparison(key, tuple([0.01] * 30), names=names) for key in keys]
    options = {"epsilon": [1, 2, 3], "suppress_below": 2}
    text = to_markdown(report_of(*compared, arms=arms, names=names, **options))
    parts = {part.partition("\n")[0]: part for part in text.split("\n## ")[1:]}
    assert parts["Summary"].count("\n| group ") == 12 * 30
    assert parts["Summary"].count("\n| all rows ") == 12
    assert parts["Gaps between groups"].count("\n| dpsgd@") == 12
    # Of each group its metrics and its impact ratio, then the changes that are detected.
    assert parts["Within each model"].count("\n| dpsgd@") == 2 * 12 * 30 + 12
    assert "report.json" not in "".join(parts[name] for name in parts if name != "Limitations")


def test_where_no_two_groups_can_be_compared_no_pair_and_no_sign_is_named():
    """As three groups of one test row each leave it."""
    nothing = estimate(None, reason="fewer than two groups are large enough")
    kept = {
        "reading": "cannot tell",
        "direction": "",
        "minimum_detectable": None,
        "reason": nothing.reason,
    }
    none = gap("", "", 0.0, kind="max", signed=nothing, **kept)
    none = replace(none, gated=False)
    found = replace(findings(), comparisons=(replace(comparison(), gaps=(none,)),))
    report = built(found)
    assert "| sex: no pair | – | – | cannot tell: fewer than two groups" in to_markdown(report)
    small = replace(comparison().gaps[0], gated=False, reason="group 'F' has 12 test records")
    found = replace(findings(), comparisons=(replace(comparison(), gaps=(small,)),))
    (row,) = [
        line
        for line in to_markdown(built(found)).splitlines()
        if small.reason in line and line.startswith("|")
    ]
    assert f"| {100 * small.signed.value:.1f} |" in row, "no interval beside what cannot be told"


def test_a_metric_that_no_group_has_is_no_column():
    """As the rates of more than two classes, of which the tables of gaps have each class's own."""
    report = built()
    compared = []
    for one in report.comparisons:
        groups = []
        for group in one.by_group:
            known = dict(group.estimates)
            for name in {"selection_rate", "reference.selection_rate"} & set(known):
                known[name] = replace(known[name], value=None, low=None, high=None, reason="none")
            groups.append(replace(group, estimates=known))
        compared.append(replace(one, by_group=tuple(groups)))
    lacking = report.model_copy(update={"comparisons": tuple(compared)})
    heads = []
    for shown in (report, lacking):
        section = to_markdown(shown).split("## Within each model")[1].split("\n## ")[0]
        heads.append(next(line for line in section.splitlines() if line.startswith("| method")))
    assert ["selection rate" in head for head in heads] == [True, False]
    assert "impact ratio" in heads[1]
