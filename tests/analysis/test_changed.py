import pytest
from changed import replace
from handmade import comparison, estimate, gap
from scipy import stats

from fairaudit.analysis.build_measured import disclosed
from fairaudit.analysis.detected import changed_gaps
from fairaudit.metrics.intervals import among

METRICS = (
    "tpr",
    "fpr",
    "auc",
    "precision",
    "accuracy",
    "loss",
    "selection_rate",
    "calibration_error",
)


def half_of(many, seeds=5):
    level = 1 - 0.025 / many
    t, z = stats.t.ppf(level, seeds - 1) * 0.004, stats.norm.ppf(level) * 0.006
    return (t**2 + z**2) ** 0.5


def changing(key, change, metrics=METRICS):
    """Each metric's gap changes by as much."""
    gaps = [gap("F", "M", change, half_of(1), metric=f"change.{metric}") for metric in metrics]
    return disclosed(replace(comparison(key), gaps=tuple(gaps)), least=0)


@pytest.mark.parametrize("many", [1, 2, 16, 300])
def test_an_interval_that_several_share_is_that_of_bonferroni(many):
    one = estimate(0.1, half_of(1))
    shared = among(one, many)
    assert (shared.low, shared.high) == pytest.approx((0.1 - half_of(many), 0.1 + half_of(many)))
    assert (shared.value, shared.by_seed) == (one.value, one.by_seed)


def test_a_change_is_told_by_the_interval_that_holds_for_all_that_could_be_told():
    """Twin: picked by its own interval, every one of the sixteen would be told."""
    between = (half_of(8) + half_of(16)) / 2
    assert half_of(1) < between
    alone = changed_gaps([changing("dpsgd", between)])
    assert len(alone) == 8
    assert changed_gaps([changing("dpsgd", between), changing("global-adapt", between)]) == ()
    both = changed_gaps([changing("dpsgd", 1.01 * half_of(16)), changing("global-adapt", between)])
    assert {(g.arm, g.a, g.b) for g in both} == {("dpsgd", "F", "M")}
    assert [g.metric for g in both] == list(METRICS)
    assert both[0].change.low == pytest.approx(0.01 * half_of(16))


def test_a_change_of_one_seed_is_not_told():
    made = changing("dpsgd", 0.5)
    bare = [replace(g, signed=replace(g.signed, low=None, high=None)) for g in made.gaps]
    assert changed_gaps([replace(made, gaps=tuple(bare))]) == ()
