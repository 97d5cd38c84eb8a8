"""Laws of every verdict: any report, any rule."""

from changed import replace
from handmade import arm, comparison, estimate, gap, privacy
from hypothesis import given
from hypothesis import strategies as st
from reports import report_of

from fairaudit.errors import ConfigError
from fairaudit.gate.check import check
from fairaudit.gate.grammar import parse_rule, parse_rules
from fairaudit.gate.vocabulary import find_metric, metric_names
from fairaudit.methods.catalog import Guarantee

OUTCOMES = ("pass", "inconclusive", "fail")
METRICS = ("privacy_cost", "accuracy", "impact_ratio", "excess_risk")
# Of a report without attacks; a rule about leakage is refused there.
NAMES = [name for name in metric_names() if not find_metric(name).study]

number = st.floats(-1, 1, allow_nan=False).map(lambda x: round(x, 4))
reason = st.sampled_from(["", "", "", "group 'F' has 7 test records", "3 seeds are too few; use 5"])


@st.composite
def estimates(draw):
    """Sure, unsure, without interval, undefined, of few seeds: whatever a report may hold."""
    value = draw(st.none() | number)
    half = draw(st.none() | st.floats(1e-6, 0.5))
    made = estimate(value, half)
    seeds = draw(st.integers(1, 6))
    by_seed = draw(st.lists(number, max_size=6)) if value is not None else []
    return replace(made, n_seeds=seeds, by_seed=tuple(by_seed), reason=draw(reason) or made.reason)


@st.composite
def comparisons(draw, key):
    made = comparison(key)

    def drawn(measure):
        why = draw(reason)
        found = {name: draw(estimates()) for name in METRICS if draw(st.booleans())}
        return replace(measure, estimates=found, gated=not why, reason=why)

    gaps = [
        replace(
            gap("F", "M", 0.1, kind=kind, metric=metric),
            signed=draw(estimates()),
            gated=not why,
            reason=why,
        )
        for metric in METRICS
        for kind in ("pair", "max")
        for why in [draw(reason)]
        if draw(st.booleans())
    ]
    return replace(
        made,
        overall=drawn(made.overall),
        by_group=tuple(map(drawn, made.by_group)),
        gaps=tuple(gaps),
    )


@st.composite
def reports(draw):
    keys = draw(
        st.sampled_from([(), ("dpsgd",), ("dpsgd@1", "dpsgd@3"), ("dpsgd", "global-adapt")])
    )
    kinds = st.sampled_from([Guarantee.ESTABLISHED, Guarantee.NOT_ESTABLISHED])
    arms = (arm("sgd", reference=None), *(arm(key, privacy=privacy(draw(kinds))) for key in keys))
    failures = tuple(f"{key}-2" for key in keys if draw(st.integers(0, 5)) == 0)
    compared = [draw(comparisons(key)) for key in keys if draw(st.integers(0, 5))]
    lone = replace(comparison("sgd"), reference="", gaps=())
    return report_of(lone, *compared, arms=arms, failures=failures)


@st.composite
def rules(draw):
    metric = draw(
        st.sampled_from(NAMES) | st.sampled_from([*METRICS, *(f"{m}_gap" for m in METRICS)])
    )
    statistic = draw(st.sampled_from(["", "", ".mean", ".ci_low", ".ci_high"]))
    is_of_arm = parse_rule(f"{metric} > 0.5").metric.kind == "arm"
    group = (
        ""
        if is_of_arm
        else draw(st.sampled_from(["", "", "@sex", "@sex=F", "@sex=M", "@sex=F,M", "@overall"]))
    )
    chosen = draw(st.sampled_from(["", "", ":sgd"]))
    head = f"{metric}{statistic}{group}{chosen}"
    ends = st.tuples(st.sampled_from([">", ">=", "<", "<="]), number)
    return draw(ends.map(lambda end: f"{head} {end[0]} {end[1]}").filter(_is_open))


def _is_open(text):
    """Whether the rule is not decided before anything is measured."""
    try:
        parse_rule(text)
    except ConfigError:
        return False
    return True


@given(reports(), st.lists(rules(), min_size=1, max_size=4, unique=True))
def test_every_rule_has_one_outcome_and_the_worst_is_the_verdict_in_any_order(report, texts):
    found, backward = (check(report, parse_rules(t)) for t in (texts, texts[::-1]))
    assert [gate.rule for gate in found.gates] == [rule.text for rule in parse_rules(texts)]
    assert sorted(backward.gates, key=repr) == sorted(found.gates, key=repr)
    for gate in found.gates:
        told = [target.outcome for target in gate.targets] or ["inconclusive"]
        assert gate.outcome == max(told, key=OUTCOMES.index)
        for target in gate.targets:
            if target.value is None:
                assert target.outcome == "inconclusive"
            if target.reason and target.outcome != "inconclusive":
                # A rule about several numbers fails by the interval that holds for them together.
                assert target.outcome == "fail"
                assert target.reason.startswith("by ")
                assert target.reason.endswith(", too")
    assert found.outcome == max((g.outcome for g in found.gates), key=OUTCOMES.index)
    assert found.exit_code() == {"pass": 0, "fail": 1, "inconclusive": 3}[found.outcome]


@given(reports(), rules())
def test_a_threshold_that_is_eased_never_fails_what_passed(report, text):
    """And no condition and its reverse both pass."""
    rule = parse_rule(text)

    def outcome(operator, at):
        return check(report, [replace(rule, operator=operator, number=at)]).gates[0].outcome

    here = outcome(rule.operator, rule.number)
    eased = outcome(rule.operator, rule.number + (0.3 if rule.fails_above else -0.3))
    assert OUTCOMES.index(eased) <= OUTCOMES.index(here)
    if check(report, [rule]).gates[0].targets:
        reverse = {">": "<=", ">=": "<", "<": ">=", "<=": ">"}[rule.operator]
        assert not (here == "pass" and outcome(reverse, rule.number) == "pass")
