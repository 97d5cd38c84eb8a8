import pytest
from changed import replace
from handmade import arm, comparison, estimate
from reports import report_of, with_measure

from fairaudit.errors import ConfigError
from fairaudit.gate.comparison import compare_reports


def found(before, after, metric, group, **kept):
    changes = compare_reports(before, after, **kept).changes
    return next(c for c in changes if (c.metric, c.group) == (metric, group))


def test_a_change_within_both_intervals_does_not_exceed_them_and_a_large_one_does():
    before = report_of(comparison(costs=(0.041, 0.012)))
    after = report_of(comparison(costs=(0.061, 0.112)))
    small = found(before, after, "privacy_cost", "F")
    assert (small.before, small.after, small.exceeds) == (0.041, 0.061, False)
    assert small.change == pytest.approx(0.02)
    large = found(before, after, "privacy_cost", "M")
    assert large.exceeds is True
    assert large.low > 0
    changes = compare_reports(before, after)
    worse_for = [[finding.groups for finding in those] for those in (changes.gone, changes.new)]
    assert worse_for == [[("F", "M")], [("M", "F")]]
    assert compare_reports(after, after).new == ()


def test_what_is_undefined_in_one_report_is_neither_changed_nor_unchanged():
    gone = report_of(with_measure(comparison(), "F", estimates={"accuracy": estimate(None)}))
    for before, after in ((report_of(), gone), (gone, report_of())):
        change = found(before, after, "accuracy", "F")
        assert change.exceeds is None
        assert "no row of the class" in change.reason


def test_a_gap_that_one_report_lacks_is_no_change():
    lacking = report_of(replace(comparison(), gaps=()))
    for before, after in ((report_of(), lacking), (lacking, report_of())):
        names = {change.metric for change in compare_reports(before, after).changes}
        assert "privacy_cost_gap" not in names


def test_options_arms_and_epsilons_that_differ_are_named():
    arms = (arm("sgd", reference=None), arm("global-adapt"), arm("dpsgd"))
    after = report_of(comparison(), comparison("dpsgd"), arms=arms, epochs=7)
    changes = compare_reports(report_of(), after)
    assert [(o.name, o.before, o.after) for o in changes.options] == [("epochs", None, 7)]
    assert (changes.only_before, changes.only_after) == ((), ("dpsgd",))
    assert [(e.arm, e.before, e.after) for e in changes.epsilon] == [
        ("sgd", None, None),
        ("global-adapt", 3.13488, 3.13488),
    ]


def of_other(report, **changes):
    return report.model_copy(update={"data": report.data.model_copy(update=changes)})


def test_other_data_are_refused_unless_allowed():
    other = of_other(report_of(), sha256="0" * 64)
    with pytest.raises(ConfigError, match="are of different data"):
        compare_reports(report_of(), other)
    assert compare_reports(report_of(), other, other_data=True).same_data is False


MORE_CLASSES = [*report_of().data.label.classes, report_of().data.label.classes[0]]


@pytest.mark.parametrize(
    "change",
    [{"column": "hired"}, {"positive": "0"}, {"favourable": "0"}, {"classes": MORE_CLASSES}],
)
def test_another_label_is_refused_always(change):
    label = report_of().data.label.model_copy(update=change)
    with pytest.raises(ConfigError, match="different"):
        compare_reports(report_of(), of_other(report_of(), label=label), other_data=True)
