from itertools import combinations, permutations

import numpy as np
import pytest
from changed import replace
from scipy import stats

from fairaudit.analysis.disclosure import Disclosure
from fairaudit.analysis.family import reported
from fairaudit.data.dataset import Grouping
from fairaudit.data.groups import NamedPair
from fairaudit.metrics import tables
from fairaudit.metrics.compare import SEVERAL_SPLITS, Evaluation, Twin, compare, measure_reference
from fairaudit.metrics.intervals import MetricTable
from fairaudit.metrics.registry import costs, within_model
from fairaudit.metrics.within_model import ArmPredictions, LabelOutcome

# Of one training on its rows; what several say of them is measured elsewhere.
METRICS = tuple(spec.name for spec in within_model() if "retrained" not in spec.needs)


def drawn_predictions(
    sizes=(900, 600),
    seeds=5,
    classes=2,
    cost=(0.0, 0.4),
    seed=0,
    tests=0.4,
    lift=((0.0, 0.0), (0.0, 0.0)),
):
    """Labels, groups and both arms' predictions; group k's private logits get noise cost[k].

    ``lift[arm][k]`` is added to the logits of the last class, the private arm first.
    """
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    labels = rng.integers(0, classes, len(groups))
    logits = rng.normal(size=(len(groups), classes)) + 1.5 * np.eye(classes)[labels]
    k = len(sizes)
    private, baseline = [], []
    for s in range(seeds):
        rows = np.sort(rng.choice(len(groups), int(tests * len(groups)), replace=False))
        noise = np.array(cost)[groups[rows]][:, None] * 3
        hurt = logits[rows] + noise * rng.normal(size=(len(rows), classes))
        train = np.arange(1, k + 1) * 100
        beside = logits[rows].copy()
        for arm, moved in enumerate((hurt, beside)):
            moved[:, -1] += np.resize(lift[arm], k)[groups[rows]]
        private.append(ArmPredictions(s, rows, softmax(hurt[None]), train))
        baseline.append(ArmPredictions(s, rows, softmax(beside[None]), train))
    names = tuple("MFXYZ"[:k])
    return private, baseline, labels, Grouping("sex", groups, names)


def softmax(z):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return (e / e.sum(axis=-1, keepdims=True)).astype(np.float32)


def evaluation(labels, grouping, positive=1, classes=2):
    return Evaluation(labels, grouping, LabelOutcome(classes, positive), SEVERAL_SPLITS)


def compared(data, positive=1, classes=2):
    private, baseline, *shared = data
    return compare(evaluation(*shared, positive, classes), "dpsgd", "sgd", private, baseline)


def gap_of(comparison, metric, kind="pair", a=None, b=None):
    found = [g for g in comparison.gaps if g.metric == metric and g.kind == kind]
    found = [g for g in found if a is None or (g.a, g.b) == (a, b)]
    assert len(found) == 1
    return found[0]


@pytest.fixture(scope="module")
def plain():
    return drawn_predictions()


def test_every_documented_number_is_there(plain):
    c = compared(plain)
    assert {"accuracy", "loss", "tpr", "impact_ratio", "auc", "calibration_error"} <= {*METRICS}
    keys = {*costs(), *METRICS, *(f"reference.{m}" for m in METRICS)}
    for group in (*c.by_group, c.overall):
        assert set(group.estimates) == keys
    expected = {*costs()} | {
        f"{side}{m}" for side in ("", "reference.", "change.") for m in METRICS
    }
    assert {g.metric for g in c.gaps} == expected
    assert {g.kind for g in c.gaps} == {"pair", "population", "max"}


def test_privacy_cost_and_excess_risk_are_means_of_paired_differences(plain):
    private, baseline, labels, grouping = plain
    c = compared(plain)
    for k, group in enumerate(c.by_group):
        lost, gained = [], []
        for a, b in zip(private, baseline, strict=True):
            own = grouping.groups[a.rows] == k
            y = labels[a.rows][own]
            p, q = a.probabilities[0][own].astype(float), b.probabilities[0][own].astype(float)
            lost.append((q.argmax(1) == y).mean() - (p.argmax(1) == y).mean())
            at = np.arange(len(y)), y
            gained.append((np.log(q[at]) - np.log(p[at])).mean())
        assert group.estimates["privacy_cost"].value == pytest.approx(np.mean(lost), abs=1e-12)
        assert group.estimates["privacy_cost"].by_seed == pytest.approx(lost)
        assert group.estimates["excess_risk"].value == pytest.approx(np.mean(gained), abs=1e-12)


def shares_of(predictions, labels, groups, k, answer, among=None):
    """Seed by seed: of group k's rows (of class ``among``) the share predicted as ``answer``."""
    values = []
    for p in predictions:
        rows = groups[p.rows] == k
        if among is not None:
            rows &= labels[p.rows] == among
        values.append((p.probabilities[0][rows].argmax(1) == answer).mean())
    return np.array(values)


@pytest.mark.parametrize(
    ("outcome", "answer"),
    [
        (LabelOutcome(2, 1), 1),
        (LabelOutcome(2, 0), 0),
        (LabelOutcome(2, 1, favourable=0), 0),
        (LabelOutcome(2, None), 1),
    ],
)
def test_rates_lost_are_those_of_the_favourable_class(plain, outcome, answer):
    private, baseline, labels, grouping = plain
    on = Evaluation(labels, grouping, outcome, SEVERAL_SPLITS)
    c = compare(on, "dpsgd", "sgd", private, baseline)
    for k, group in enumerate(c.by_group):
        for cost, among in (("tpr_cost", answer), ("selection_cost", None)):
            own, other = (
                shares_of(arm, labels, grouping.groups, k, answer, among)
                for arm in (private, baseline)
            )
            assert group.estimates[cost].by_seed == pytest.approx(other - own)
            assert group.estimates[cost].low < np.mean(other - own) < group.estimates[cost].high


def test_of_three_classes_each_has_a_hit_rate_that_is_lost():
    private, baseline, labels, grouping = data = drawn_predictions(sizes=(600, 500), classes=3)
    for positive in (None, 1):
        c = compared(data, positive, classes=3)
        lost = {gap.metric for gap in c.gaps if gap.metric.partition("[")[0] in costs()}
        assert {name for name in lost if "[" in name} == {f"tpr_cost[{k}]" for k in range(3)}
        assert "privacy_cost" in lost
        assert not lost & {"tpr_cost", "selection_cost"}
        for k, group in enumerate(c.by_group):
            for y in range(3):
                own, other = (
                    shares_of(arm, labels, grouping.groups, k, y, y) for arm in (private, baseline)
                )
                lost = group.estimates[f"tpr_cost[{y}]"]
                assert lost.by_seed == pytest.approx(other - own)


def test_classes_in_doubt_are_those_that_a_group_gets_a_fifth_as_often():
    """Of three classes, X loses the last, M the last in part; the private shift of F is none."""
    data = drawn_predictions(
        (500, 400, 300), classes=3, cost=(0, 0, 0), lift=((-1.9, 0, -9), (0, 0, 0))
    )
    private, baseline, labels, grouping = data
    c = compared(data, None, classes=3)
    expected = {}
    for k, group in enumerate("MFX"):
        for y in range(3):
            own, other = (
                shares_of(arm, labels, grouping.groups, k, y) for arm in (private, baseline)
            )
            if (own - other / 5).mean() < 0:
                expected[group, y] = own, other
    assert set(expected) == {("X", 2)}
    (share,) = c.doubtful
    own, other = expected[share.group, share.answer]
    assert share.private.by_seed == pytest.approx(own)
    assert share.reference.by_seed == pytest.approx(other)
    assert share.kept.by_seed == pytest.approx(own - other / 5)
    assert (share.given, share.looked_at) == (3, 9)
    # Nobody of X is predicted so; what is left varies by a fifth of the reference.
    assert share.kept.training_sd == pytest.approx(share.reference.training_sd / 5)
    assert share.private.records_sd < share.kept.records_sd < share.reference.records_sd


LIFTS = ((-9.0, 0.0, -3.2, -0.4, -9.0), (-9.0, 0.0, 0.0, 0.0, 0.0))


def test_a_group_that_gets_one_answer_is_found_whatever_the_reference_does():
    """M and Z get nothing but class 0, X hardly anything else; M so by the reference too."""
    data = drawn_predictions((500, 400, 1500, 400, 40), cost=(0,) * 5, lift=LIFTS)
    private, baseline, labels, grouping = data
    c = compared(data)
    alone = measure_reference(evaluation(labels, grouping), "sgd", baseline)
    assert {one.group: one.is_every_row for one in c.constant} == {"M": True, "X": False, "Z": True}
    assert [(one.group, one.is_every_row) for one in alone.constant] == [("M", True)]
    for one in c.constant:
        k = grouping.names.index(one.group)
        own = shares_of(private, labels, grouping.groups, k, 1)
        assert (one.answer, one.is_certain) == (0, True)
        assert one.other.by_seed == pytest.approx(own)
        truth = [(labels[p.rows] == 1)[grouping.groups[p.rows] == k].mean() for p in private]
        assert one.truth == pytest.approx(np.mean(truth))
        assert own.mean() < one.truth / 5


@pytest.mark.parametrize(
    ("size", "of_each", "found"),
    [
        (60, 30, [False]),  # its few rows leave open whether others get another answer
        (1500, 750, [True]),
        (1500, 9, []),  # hardly a row is of another class
    ],
)
def test_whether_a_group_gets_one_answer_is_open_where_rows_are_few(size, of_each, found):
    labels = np.zeros(2 * size, dtype=np.int64)
    labels[:of_each] = labels[size : size + size // 2] = 1
    grouping = Grouping("sex", np.repeat([0, 1], size), ("F", "M"))
    rows = np.arange(2 * size)
    guess = np.where(rows < size, rows % 20 == 0, labels)  # of F one in twenty is given class 1
    p = np.stack([1 - guess, guess], -1).astype(np.float32)[None]
    private = [ArmPredictions(seed, rows, p, np.array([50, 50])) for seed in range(5)]
    c = compared((private, private, labels, grouping))
    assert [one.is_certain for one in c.constant if one.group == "F"] == found
    assert "M" not in [one.group for one in c.constant]


def test_a_small_group_is_looked_at_for_lost_classes_and_named_in_no_gap():
    data = drawn_predictions(
        (500, 400, 12), classes=3, cost=(0, 0, 0), lift=((-9, 0, -9), (0, 0, 0))
    )
    c = compared(data, None, classes=3)
    assert {share.looked_at for share in c.doubtful} == {3 * 3}
    small = [gap for gap in c.gaps if "X" in (gap.a, gap.b)]
    assert len(small) > 9
    assert {gap.direction for gap in small} == {""}


def test_the_group_that_pays_is_named_and_the_gap_resolved(plain):
    c = compared(plain)
    for metric in ("privacy_cost", "excess_risk"):
        for kind in ("pair", "max"):
            gap = gap_of(c, metric, kind)
            assert gap.direction == "worse for F"
            assert gap.larger_first.signed.low > 0
            assert gap.gated
    assert gap_of(c, "accuracy").direction == "worse for F"
    assert gap_of(c, "privacy_cost", "population", "M", "").direction == "better for M"
    assert gap_of(c, "reference.accuracy").direction == ""


def test_a_change_of_accuracy_is_the_privacy_cost_with_the_other_sign(plain):
    c = compared(plain)
    cost, change = gap_of(c, "privacy_cost").signed, gap_of(c, "change.accuracy").signed
    assert change.value == -cost.value
    assert (change.low, change.high) == pytest.approx((-cost.high, -cost.low))
    assert gap_of(c, "change.loss").signed == gap_of(c, "excess_risk").signed


def test_a_within_model_gap_and_its_change_fit_together(plain):
    c = compared(plain)
    for m in ("accuracy", "tpr", "precision", "auc", "impact_ratio", "calibration_error"):
        values = [gap_of(c, side + m).signed.value for side in ("", "reference.", "change.")]
        assert values[0] - values[1] == pytest.approx(values[2], abs=1e-12), m


def test_the_largest_gap_is_taken_after_averaging_over_seeds():
    """The broken variant averages each seed's |gap|: without a true gap it is far from 0."""
    data = drawn_predictions(cost=(0.3, 0.3), seed=3)
    gap = gap_of(compared(data), "privacy_cost", "max")
    per_seed = np.abs(gap.signed.by_seed).mean()
    assert gap.signed.value == pytest.approx(abs(np.mean(gap.signed.by_seed)))
    assert gap.signed.value < 0.9 * per_seed


def test_of_two_groups_the_largest_gap_is_the_pair_in_the_order_of_who_pays_more(plain):
    c = compared(plain)
    pair, top = gap_of(c, "privacy_cost"), gap_of(c, "privacy_cost", "max")
    assert (pair.a, pair.b, top.a, top.b) == ("M", "F", "F", "M")
    assert (top.signed.low, top.signed.high) == (-pair.signed.high, -pair.signed.low)
    turned = pair.larger_first
    assert (turned.a, turned.b, turned.direction) == ("F", "M", top.direction)
    assert turned.signed.value == top.signed.value == -pair.signed.value
    assert turned.signed.by_seed == tuple(-value for value in pair.signed.by_seed)
    assert turned.reversed == pair


def test_three_groups_are_judged_together():
    c = compared(drawn_predictions((500, 400, 300), cost=(0.0, 0.2, 0.5)))
    pairs = [gap_of(c, "privacy_cost", "pair", a, b) for a, b in combinations("MFX", 2)]
    level, ends = 1 - 0.025 / 3, []
    for pair in pairs:
        s = pair.signed
        v = (
            stats.t.ppf(level, 4) ** 2 * s.training_sd**2
            + stats.norm.ppf(level) ** 2 * s.records_sd**2
        )
        ends.append((abs(s.value) - v**0.5, abs(s.value) + v**0.5))
        assert s.high - s.value < v**0.5, "a pair has its own interval"
        assert bool(pair.direction) == (ends[-1][0] > 0)
    top = gap_of(c, "privacy_cost", "max")
    assert (top.a, top.b) == ("X", "M")
    assert top.signed.high == pytest.approx(max(high for _, high in ends))
    assert top.signed.low == pytest.approx(max(low for low, _ in ends))


def test_a_pair_is_resolved_among_all_pairs_or_by_its_own_interval():
    measured = compared(
        drawn_predictions((500, 400, 300, 300, 300), cost=(0.0, 0.2, 0.25, 0.3, 0.35))
    )
    pairs = [gap for gap in measured.gaps if gap.kind == "pair" and not gap.signed.reason]
    asked = [NamedPair(measured.grouping, gap.b, gap.a) for gap in pairs]
    (told,) = reported([measured], Disclosure(named=asked)).comparisons
    read = {(g.metric, g.a, g.b): g for g in told.gaps if g.kind == "pair"}
    # Costs are judged together, beside all that is judged of the arm.
    pairs = [gap for gap in pairs if gap.metric not in costs()]
    for gap in pairs:
        alone = read[gap.metric, gap.a, gap.b]
        assert alone.named
        assert not gap.named
        assert alone.gated == gap.gated
        is_apart = gap.gated and (gap.signed.low > 0 or gap.signed.high < 0)
        assert bool(alone.direction) == is_apart
        assert alone.reading == (
            ("not detected", "detected")[is_apart] if gap.gated else "cannot tell"
        )
        assert gap.reading == alone.reading or (gap.reading, is_apart) == ("not certain", True)
        assert gap.direction == (alone.direction if gap.reading == "detected" else "")
    assert any(read[gap.metric, gap.a, gap.b].direction and not gap.direction for gap in pairs)
    assert any(gap.direction for gap in pairs)


def test_identical_arms_cost_exactly_nothing():
    private, _, labels, grouping = drawn_predictions()
    c = compared((private, private, labels, grouping))
    risk = c.by_group[1].estimates["excess_risk"]
    assert (risk.value, risk.low, risk.high) == (0.0, 0.0, 0.0)
    cost = c.by_group[1].estimates["privacy_cost"]
    assert cost.value == 0.0
    assert cost.low < 0 < cost.high  # the floor: none seen is not none


def test_a_small_group_is_shown_and_neither_gated_nor_the_maximum():
    c = compared(drawn_predictions((900, 600, 25), cost=(0.0, 0.1, 3.0)))
    small = c.by_group[2]
    assert small.n_test <= 25
    assert small.estimates["privacy_cost"].value is not None
    assert not small.gated
    assert "30 are needed" in small.reason
    assert gap_of(c, "privacy_cost", "max").a == "F"
    pair = gap_of(c, "privacy_cost", "pair", "M", "X")
    assert not pair.gated
    assert (pair.reading, pair.direction) == ("cannot tell", "")
    assert small.estimates["loss"].low is None  # no floor, so no interval on so few
    # two large groups remain: their pair needs no Bonferroni
    pair = gap_of(c, "privacy_cost", "pair", "M", "F")
    assert pair.signed.excludes_zero == (pair.reading == "detected")


def test_rows_without_a_group_are_shown_and_never_in_a_maximum():
    private, baseline, labels, grouping = drawn_predictions((600, 500, 400), cost=(0.0, 0.1, 3.0))
    grouping = replace(grouping, missing=2)
    c = compared((private, baseline, labels, grouping))
    assert not c.by_group[2].gated
    assert c.by_group[2].estimates["privacy_cost"].low is not None
    assert gap_of(c, "privacy_cost", "max").a == "F"


def test_an_absent_group_has_no_number_and_a_reason():
    private, baseline, labels, grouping = drawn_predictions()
    wider = Grouping("sex", grouping.groups, ("M", "F", "X"))

    def widened(p):
        return replace(p, train_count=np.append(p.train_count, 0))

    c = compared(([widened(p) for p in private], [widened(p) for p in baseline], labels, wider))
    absent = c.by_group[2]
    assert absent.n_test == 0
    assert not absent.gated
    for name, e in absent.estimates.items():
        assert e.value is None, name
        assert e.reason, name
    assert not [g for g in c.gaps if "X" in (g.a, g.b)]
    assert (absent.n_train, c.overall.n_train) == (0, 300)


def test_a_rate_on_fewer_than_ten_of_its_class_has_no_interval_and_no_gate():
    private, baseline, labels, grouping = drawn_predictions(tests=1.0)
    labels = labels.copy()
    few = np.flatnonzero(grouping.groups == 1)
    labels[few] = 0
    labels[few[:9]] = 1
    c = compared((private, baseline, labels, grouping))
    tpr = c.by_group[1].estimates["tpr"]
    assert tpr.value is not None
    assert tpr.low is None
    assert "10 are needed" in tpr.reason
    assert not gap_of(c, "tpr", "max").gated
    assert gap_of(c, "fpr", "max").gated
    labels[few[:10]] = 1
    assert (
        compared((private, baseline, labels, grouping)).by_group[1].estimates["tpr"].low is not None
    )


def test_a_loss_is_gated_from_two_hundred_records_only():
    c = compared(drawn_predictions((900, 150)))
    gap = gap_of(c, "excess_risk")
    assert not gap.gated
    assert "200" in gap.reason
    assert gap.signed.high is not None
    assert (gap.reading, gap.direction) == ("cannot tell", "")
    assert gap_of(c, "privacy_cost").gated


def test_nobody_selected_is_undefined_and_bars_the_gate():
    private, baseline, labels, grouping = drawn_predictions()
    flat = np.tile(np.float32([0.9, 0.1]), (1, len(private[0].rows), 1))
    private = [replace(p, probabilities=flat) for p in private]
    c = compared((private, baseline, labels, grouping))
    for metric in ("precision", "impact_ratio"):
        assert c.by_group[0].estimates[metric].value is None
        assert c.by_group[0].estimates[metric].reason
        top = gap_of(c, metric, "max")
        assert top.signed.value is None
        assert not top.gated
        assert top.reason
    assert c.by_group[0].estimates["selection_rate"].value == 0.0
    assert c.by_group[0].estimates["reference.precision"].low is not None


def test_a_diverged_seed_is_left_out_and_counted():
    private, baseline, labels, grouping = drawn_predictions(seeds=6)
    c = compared((private[:2] + private[3:], baseline, labels, grouping))
    assert {g.signed.n_seeds for g in c.gaps} == {5}
    kept = compared((private[:2] + private[3:], baseline[:2] + baseline[3:], labels, grouping))
    assert kept == c


def test_fewer_than_five_seeds_are_shown_and_not_gated():
    c = compared(drawn_predictions(seeds=4))
    gap = gap_of(c, "privacy_cost", "max")
    assert gap.signed.low is not None
    assert not gap.gated
    assert "too few; use 5" in gap.reason
    assert not c.by_group[0].gated


def test_one_seed_has_values_and_no_interval():
    c = compared(drawn_predictions(seeds=1))
    gap = gap_of(c, "privacy_cost", "max")
    assert gap.signed.value is not None
    assert gap.signed.low is None
    assert gap.minimum_detectable is None
    assert not gap.gated


def test_no_common_seed_leaves_every_number_undefined():
    private, baseline, labels, grouping = drawn_predictions(seeds=2)
    c = compared((private[:1], baseline[1:], labels, grouping))
    assert {e.value for g in c.by_group for e in g.estimates.values()} == {None}
    assert c.by_group[0].estimates["privacy_cost"].reason
    assert set(c.by_group[0].estimates) == set(compared(drawn_predictions()).by_group[0].estimates)


def test_arms_tested_on_different_rows_are_refused():
    private, baseline, labels, grouping = drawn_predictions()
    private[0] = replace(private[0], rows=private[0].rows[::-1])
    with pytest.raises(AssertionError, match="different rows"):
        compared((private, baseline, labels, grouping))


def test_renaming_groups_renames_the_result(plain):
    private, baseline, labels, grouping = plain
    swapped = Grouping("sex", 1 - grouping.groups, ("F", "M"))

    def flipped(p):
        return replace(p, train_count=p.train_count[::-1])

    a = compared(plain)
    b = compared(([flipped(p) for p in private], [flipped(p) for p in baseline], labels, swapped))
    for metric in ("privacy_cost", "tpr", "impact_ratio", "change.auc"):
        x, y = gap_of(a, metric, "max"), gap_of(b, metric, "max")
        assert (x.a, x.b, x.direction) == (y.a, y.b, y.direction)
        assert x.signed.high == pytest.approx(y.signed.high, abs=1e-12)
        x, y = gap_of(a, metric), gap_of(b, metric)
        assert x.signed.value == pytest.approx(-y.signed.value, abs=1e-12)


def test_without_a_known_positive_class_rates_are_per_class_and_the_ratio_says_why():
    c = compared(drawn_predictions(classes=3), positive=None, classes=3)
    e = c.by_group[0].estimates
    assert e["impact_ratio"].value is None
    assert "favourable" in e["impact_ratio"].reason
    assert e["tpr"].value is None
    assert sum(e[f"selection_rate[{k}]"].value for k in range(3)) == pytest.approx(1.0)
    assert gap_of(c, "change.tpr[2]").signed.value is not None


def test_many_classes_with_a_positive_one_are_one_against_the_rest():
    c = compared(drawn_predictions(classes=3), positive=2, classes=3)
    assert c.by_group[0].estimates["auc"].low is not None
    assert c.by_group[0].estimates["impact_ratio"].value is not None


def test_the_impact_ratio_is_of_the_most_selected_group_and_matches_a_jackknife(plain):
    private, _, labels, grouping = plain
    c = compared(plain)
    ratio = {g.group: g.estimates["impact_ratio"] for g in c.by_group}
    rates = {g.group: g.estimates["selection_rate"].value for g in c.by_group}
    top = max(rates, key=rates.get)
    other = min(rates, key=rates.get)
    assert (ratio[top].value, ratio[top].low, ratio[top].high) == (1.0, 1.0, 1.0)
    assert ratio[other].value == pytest.approx(rates[other] / rates[top], rel=0.01)
    assert c.overall.estimates["impact_ratio"].value is None
    moved = []
    for i in range(0, len(labels), 15):
        kept = [p.rows != i for p in private]

        def without(p, keep):
            return replace(p, rows=p.rows[keep], probabilities=p.probabilities[:, keep])

        less = [without(p, keep) for p, keep in zip(private, kept, strict=True)]
        m = measure_reference(evaluation(labels, grouping), "x", less)
        now = next(g for g in m.by_group if g.group == other).estimates["impact_ratio"]
        moved.append(now.value - ratio[other].value)
    assert ratio[other].records_sd == pytest.approx((15 * np.sum(np.square(moved))) ** 0.5, rel=0.2)


def test_calibration_has_values_and_gaps_but_no_interval(plain):
    gap = gap_of(compared(plain), "calibration_error", "max")
    assert gap.signed.value is not None
    assert gap.signed.low is None
    assert not gap.gated
    assert "biased" in gap.reason


@pytest.mark.parametrize("at", [(0, 0, 0, 0, 0), (0, 0, 0, 1, 1), (0, 1, 2, 3, 4)])
def test_the_floor_counts_by_what_seeds_have_in_common(at):
    """One error of the private arm at each seed: at the same record, or at others."""
    n, seeds = 60, 5
    groups, labels = np.repeat([0, 1], n), np.ones(2 * n, dtype=np.int64)
    right = np.tile([0.1, 0.9], (2 * n, 1)).astype(np.float32)
    nothing = np.ones(2, dtype=np.int64)
    private, baseline = [], []
    for seed in range(seeds):
        wrong = right.copy()
        wrong[at[seed]] = 0.9, 0.1
        private.append(ArmPredictions(seed, np.arange(2 * n), wrong[None], nothing))
        baseline.append(ArmPredictions(seed, np.arange(2 * n), right[None], nothing))
    found = compared((private, baseline, labels, Grouping("sex", groups, ("F", "M"))))
    cost = gap_of(found, "privacy_cost").signed
    lost = np.zeros((seeds, n))
    lost[np.arange(seeds), at] = 1.0
    psi = (lost - lost.mean(1, keepdims=True)) / n
    of_mean = (psi.mean(0) ** 2).sum()
    of_two = np.mean([psi[s] @ psi[t] for s, t in permutations(range(seeds), 2)])
    share = np.clip(of_two / (psi**2).sum(1).mean(), 0, 1)
    assert share == pytest.approx({1: 1.0, 2: 0.389, 5: 0.0}[len(set(at))], abs=0.001)
    floor = 2 / (n + 2) ** 2
    variance = of_two + share * floor + floor  # in the other group nothing differs: all of it
    assert cost.records_sd**2 == pytest.approx(variance)
    assert cost.conservative_sd**2 == pytest.approx(of_mean + share * floor + floor)


def test_a_change_of_precision_rests_on_rows_that_both_arms_select():
    data = drawn_predictions(seeds=1, lift=((-2.0, -2.0), (2.0, 2.0)))
    private, baseline, _, grouping = data
    chosen = [p.probabilities[0, :, 1] > 0.5 for p in (private[0], baseline[0])]
    behind = chosen[0] & chosen[1]
    assert behind.sum() < 0.5 * (chosen[0] | chosen[1]).sum()
    of_group = np.bincount(grouping.groups[private[0].rows[behind]])
    gap = gap_of(compared(data), "change.precision", "pair").signed
    assert gap.n_test == of_group.sum()


def test_the_largest_of_three_gaps_could_be_found_less_easily_than_its_pair_alone():
    found = compared(drawn_predictions((400, 300, 200), cost=(0.0, 0.2, 0.5)))
    top = gap_of(found, "privacy_cost", "max")
    pair = gap_of(found, "privacy_cost", "pair", *sorted((top.a, top.b), key="MFX".index))
    assert top.minimum_detectable > 1.1 * pair.minimum_detectable


def test_a_change_of_impact_ratio_has_each_arms_own_most_selected_group():
    """Variances against a numerical derivative of both ratios in all rates together."""
    rates = np.array([0.5, 0.3, 0.42]), np.array([0.2, 0.6, 0.37])  # two groups, all rows
    draws = np.random.default_rng(0).normal(size=(6, 6)) * 0.02
    joint = draws @ draws.T
    cross = (joint[:3, 3:] + joint[:3, 3:].T) / 2
    joint[:3, 3:], joint[3:, :3] = cross, cross
    own, other = joint[:3, :3], joint[3:, 3:]
    covariances = (own, other, own + other - 2 * cross)
    made = {}
    for side, value, covariance in zip(
        ("", "reference.", "change."), (*rates, rates[0] - rates[1]), covariances, strict=True
    ):
        name = f"{side}selection_rate"
        twice = np.stack([covariance, covariance])
        made[name] = MetricTable(name, "fraction", np.tile(value, (5, 1)), twice, np.full(3, 90))
    change = tables.impact_change(made, [0, 1])["change.impact_ratio"]

    def ratios(both):
        return (both[:3] / both[0] - both[3:] / both[4])[:2]

    at, step = np.concatenate(rates), 1e-6
    gradient = [(ratios(at + move) - ratios(at - move)) / (2 * step) for move in step * np.eye(6)]
    expected = np.array(gradient).T @ joint @ np.array(gradient)
    assert change.by_seed[0, :2] == pytest.approx(ratios(at))
    np.testing.assert_allclose(change.covariance[0, :2, :2], expected, rtol=1e-6, atol=1e-12)


def test_the_reference_by_itself_has_the_numbers_it_has_beside_an_arm(plain):
    _, baseline, labels, grouping = plain
    alone = measure_reference(evaluation(labels, grouping), "sgd", baseline)
    beside = compared(plain)
    for a, b in zip(
        (*alone.by_group, alone.overall), (*beside.by_group, beside.overall), strict=True
    ):
        assert set(a.estimates) == set(METRICS)
        for metric in METRICS:
            assert a.estimates[metric] == b.estimates[f"reference.{metric}"], metric
    assert gap_of(alone, "tpr") == replace(gap_of(beside, "reference.tpr"), metric="tpr")
    assert alone.reference == ""


def with_twins(data, lacking=()):
    """The comparison with two twins whose predictions lie between both arms'."""
    private, baseline, labels, grouping = data
    pairs = zip(private, baseline, strict=True)
    between = {"step": [], "clipping": []}
    for p, q in pairs:
        for part, share in (("step", 0.8), ("clipping", 0.4)):
            mixed = (1 - share) * p.probabilities + share * q.probabilities
            between[part].append(replace(p, probabilities=mixed))
    twins = [Twin("step", between["step"])]
    twins.append(Twin("clipping", [p for p in between["clipping"] if p.seed not in lacking]))
    on = evaluation(labels, grouping)
    return compare(on, "dpsgd", "sgd", private, baseline, twins), between


def test_the_parts_of_a_cost_are_the_costs_between_its_twins(plain):
    """Value and interval of each as if it were a whole cost, of groups and gaps.

    And they sum to it.
    """
    private, baseline, labels, grouping = plain
    found, between = with_twins(plain)
    stages = {
        "step": (between["step"], baseline),
        "clipping": (between["clipping"], between["step"]),
        "noise": (private, between["clipping"]),
    }
    for part, (after, before) in stages.items():
        alone = compare(evaluation(labels, grouping), "dpsgd", "sgd", after, before)
        for cost in ("privacy_cost", "excess_risk"):
            for mine, own in zip(
                (*found.by_group, found.overall), (*alone.by_group, alone.overall), strict=True
            ):
                assert mine.estimates[f"{cost}.{part}"] == own.estimates[cost]
                assert mine.ungated.get(f"{cost}.{part}") == own.ungated.get(cost)
            for kind in ("pair", "max"):
                ours, theirs = gap_of(found, f"{cost}.{part}", kind), gap_of(alone, cost, kind)
                assert replace(ours, metric=cost) == theirs
    for cost in ("privacy_cost", "excess_risk"):
        whole = found.overall.estimates
        parts = [whole[f"{cost}.{part}"] for part in stages]
        assert sum(part.value for part in parts) == pytest.approx(whole[cost].value)
        by_seed = np.sum([part.by_seed for part in parts], 0)
        assert by_seed == pytest.approx(np.array(whole[cost].by_seed))
        both, step, noise = (
            whole[f"{cost}.{part}"] for part in ("step_and_noise", "step", "noise")
        )
        of_seeds = np.sum([step.by_seed, noise.by_seed], 0)
        assert np.array(both.by_seed) == pytest.approx(of_seeds)
        assert both.training_sd == pytest.approx(of_seeds.std(ddof=1) / len(of_seeds) ** 0.5)
        halves = [one.high - one.value for one in (both, step, noise)]
        assert halves[0] < halves[1] + halves[2]


def test_a_twin_that_is_the_reference_adds_nothing_for_sure(plain):
    private, baseline, labels, grouping = plain
    twins = [Twin("step", baseline), Twin("clipping", with_twins(plain)[1]["clipping"])]
    found = compare(evaluation(labels, grouping), "dpsgd", "sgd", private, baseline, twins)
    for cost in ("privacy_cost", "excess_risk"):
        for measure in (*found.by_group, found.overall):
            step = measure.estimates[f"{cost}.step"]
            assert (step.value, step.low, step.high) == (0.0, 0.0, 0.0)


def test_without_a_part_of_clipping_step_and_noise_are_the_whole_cost(plain):
    """With its interval, which a sum of both intervals would be wider than."""
    private, baseline, labels, grouping = plain
    quiet = with_twins(plain)[1]["clipping"]
    twins = [Twin("step", quiet), Twin("clipping", quiet)]
    found = compare(evaluation(labels, grouping), "dpsgd", "sgd", private, baseline, twins)
    for cost in ("privacy_cost", "excess_risk", "tpr_cost", "selection_cost"):
        for measure in (*found.by_group, found.overall):
            both, whole = measure.estimates[f"{cost}.step_and_noise"], measure.estimates[cost]
            assert (both.low, both.value, both.high) == pytest.approx(
                (whole.low, whole.value, whole.high)
            )


def test_a_twin_that_lacks_a_seed_leaves_the_parts_without_a_value(plain):
    found, _ = with_twins(plain, lacking=(2,))
    whole = compared(plain)
    for name in (
        "privacy_cost.step",
        "privacy_cost.clipping",
        "privacy_cost.noise",
        "excess_risk.clipping",
        "excess_risk.noise",
    ):
        estimate = found.overall.estimates[name]
        assert estimate.value is None
        assert "no result at seed 2" in estimate.reason
        assert gap_of(found, name).signed.value is None
    assert found.overall.estimates["privacy_cost"] == whole.overall.estimates["privacy_cost"]
