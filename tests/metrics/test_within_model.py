import numpy as np
import pytest
from fairlearn.metrics import MetricFrame, false_positive_rate, selection_rate, true_positive_rate
from means import seed_scores
from sklearn.metrics import log_loss, precision_score, roc_auc_score

from fairaudit.metrics.within_model import LabelOutcome

BINARY = LabelOutcome(2, 1)


def data(n=400, classes=2, k=3, seed=0):
    rng = np.random.default_rng(seed)
    probabilities = rng.dirichlet([0.7] * classes, size=n).astype(np.float32)
    labels = rng.integers(0, classes, n)
    return probabilities, labels, rng.integers(0, k, n)


def value_of(metric, scores):
    return scores[metric].values


OUTCOMES = [
    LabelOutcome(2, 1),
    LabelOutcome(2, 0),
    LabelOutcome(2, None),
    LabelOutcome(3, 2),
    LabelOutcome(2, 1, 0),
    LabelOutcome(3, 2, 1),
]


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_rates_of_any_class_equal_metric_frame(outcome):
    p, y, g = data(classes=outcome.n_classes)
    scores, predicted = seed_scores(p[None], y, g, 3, outcome), p.argmax(axis=1)
    target = outcome.targets[0]
    for name, rate, of in (
        ("selection_rate", selection_rate, outcome.selected(target)),
        ("tpr", true_positive_rate, target),
        ("fpr", false_positive_rate, target),
        ("precision", precision_score, target),
    ):
        frame = MetricFrame(
            metrics=rate, y_true=y == of, y_pred=predicted == of, sensitive_features=g
        )
        ours = value_of(name if outcome.positive is not None else f"{name}[{target}]", scores)
        assert ours == pytest.approx([*frame.by_group, frame.overall], abs=1e-12)


def test_only_the_selection_rate_turns_on_the_favourable_outcome():
    p, y, g = data()
    plain, turned = (seed_scores(p[None], y, g, 3, o) for o in (BINARY, LabelOutcome(2, 1, 0)))
    chosen = p.argmax(axis=1) == 0
    by_hand = [chosen[g == k].mean() for k in range(3)]
    rate = turned.pop("selection_rate")
    assert rate.values == pytest.approx([*by_hand, chosen.mean()], abs=1e-12)
    for metric, scores in turned.items():
        assert np.array_equal(scores.values, plain[metric].values)


def test_auc_equals_scikit_learn_with_ties():
    p, y, g = data()
    p = np.round(p, 1)  # many ties
    scores = value_of("auc", seed_scores(p[None], y, g, 3, BINARY))
    for k in range(3):
        assert scores[k] == pytest.approx(roc_auc_score(y[g == k], p[g == k, 1]), abs=1e-12)
    assert scores[3] == pytest.approx(roc_auc_score(y, p[:, 1]), abs=1e-12)


def test_loss_equals_scikit_learn():
    p, y, g = data()
    p = (p / p.sum(axis=1, keepdims=True)).clip(1e-6)
    loss = value_of("loss", seed_scores(p[None], y, g, 3, BINARY))
    exact = p.astype(np.float64)
    exact /= exact.sum(axis=1, keepdims=True)
    assert loss[3] == pytest.approx(log_loss(y, exact), abs=1e-5)


@pytest.mark.parametrize(
    "metric", ["accuracy", "loss", "selection_rate", "tpr", "fpr", "precision", "auc"]
)
def test_an_influence_is_what_leaving_the_record_out_does(metric):
    p, y, g = data(n=300)
    scores = seed_scores(p[None], y, g, 3, BINARY)[metric]
    for i in range(0, 300, 37):
        kept = np.arange(300) != i
        left = seed_scores(p[kept][None], y[kept], g[kept], 3, BINARY)[metric]
        for influence, place in ((scores.within[i], g[i]), (scores.whole[i], 3)):
            moved = scores.values[place] - left.values[place]
            assert influence == pytest.approx(moved, rel=0.05, abs=1e-9)


def test_private_runs_of_a_seed_are_averaged_and_not_pooled():
    p, y, g = data()
    q = data(seed=5)[0]
    both = seed_scores(np.stack([p, q]), y, g, 3, BINARY)
    apart = [seed_scores(x[None], y, g, 3, BINARY) for x in (p, q)]
    for metric, scores in both.items():
        mean = (value_of(metric, apart[0]) + value_of(metric, apart[1])) / 2
        assert scores.values == pytest.approx(mean)
    pooled = seed_scores(np.concatenate([p, q])[None], np.tile(y, 2), np.tile(g, 2), 3, BINARY)
    assert abs(value_of("precision", both) - value_of("precision", pooled)).max() > 1e-6


def test_a_rate_without_records_of_its_class_is_undefined():
    p, y, g = data()
    y[g == 1] = 0
    scores = seed_scores(p[None], y, g, 4, BINARY)
    assert np.isnan(value_of("tpr", scores)).tolist() == [False, True, False, True, False]
    assert np.isnan(value_of("auc", scores)).tolist() == [False, True, False, True, False]
    for of_metric in scores.values():
        assert np.isnan(of_metric.values[3])  # a group that does not exist
        assert np.isfinite(of_metric.within).all()


def test_one_broken_record_makes_its_group_undefined():
    p, y, g = data()
    p[0] = np.nan
    scores = seed_scores(p[None], y, g, 3, BINARY)
    broken = g[0]
    for metric in ("accuracy", "loss", "selection_rate", "auc", "calibration_error"):
        assert np.isnan(value_of(metric, scores)[broken]), metric
        assert np.isnan(value_of(metric, scores)[3]), metric
    assert np.isfinite(value_of("accuracy", scores)).sum() == 2


def test_calibration_error_by_hand():
    p = np.array([[0.95, 0.05], [0.91, 0.09], [0.15, 0.85], [0.12, 0.88]], dtype=np.float32)
    y, g = np.array([0, 1, 1, 1]), np.array([0, 1, 0, 1])
    error = value_of("calibration_error", seed_scores(p[None], y, g, 2, BINARY))
    overall = 0.5 * abs(0.07 - 0.5) + 0.5 * abs(0.865 - 1)
    assert error == pytest.approx([(0.05 + 0.15) / 2, (0.91 + 0.12) / 2, overall], abs=1e-6)


def test_calibration_error_of_three_classes_reads_the_confidence():
    p = np.array([[0.72, 0.18, 0.1], [0.1, 0.71, 0.19]], dtype=np.float32)
    outcome = LabelOutcome(3, 0)
    scores = seed_scores(p[None], np.array([0, 2]), np.zeros(2, dtype=np.int64), 1, outcome)
    assert value_of("calibration_error", scores)[0] == pytest.approx(0.715 - 0.5, abs=1e-6)
