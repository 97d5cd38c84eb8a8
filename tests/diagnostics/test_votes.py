import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from forms import make_pool, make_public, make_task, whole_forms
from oracles import model
from scipy.stats import norm, spearmanr

from fairaudit.diagnostics import votes
from fairaudit.diagnostics.votes import flipping_probability
from fairaudit.metrics.agreement import spearman, spearman_interval
from fairaudit.models.convex import LogisticProblems, minimise

FORMS = {form.key: form for form in whole_forms()}


def counts(*values):
    return torch.tensor([values], dtype=torch.float64)


# docs/methods.md 5.3: unanimous votes of 150 teachers at sigma 50.
@pytest.mark.parametrize(("classes", "printed"), [(2, 0.0170), (3, 0.0312), (10, 0.0975)])
def test_unanimous_votes_flip_as_often_as_was_checked(classes, printed):
    unanimous = counts(150, *[0] * (classes - 1))
    assert float(flipping_probability(unanimous, 50)) == pytest.approx(printed, abs=6e-5)


def test_the_papers_theorem_3_is_right_for_two_classes_only():
    printed = 1 - norm.cdf(150 / (math.sqrt(2) * 50))
    assert float(flipping_probability(counts(150, 0), 50)) == pytest.approx(printed, abs=1e-12)
    assert float(flipping_probability(counts(150, 0, 0), 50)) > 1.8 * printed


@pytest.mark.parametrize("row", [(76, 74), (60, 50, 40), (0, 0, 0), (5, 40, 3, 40), (0, 0, 150, 0, 0)])
def test_flips_equal_those_of_drawn_noise(row):
    rng = np.random.default_rng(0)
    drawn = np.argmax(np.array(row) + 20 * rng.standard_normal((200_000, len(row))), axis=1)
    frequency = (drawn != np.argmax(row)).mean()
    assert float(flipping_probability(counts(*row), 20)) == pytest.approx(
        frequency, abs=5.5 * 0.5 / 200_000**0.5
    )


def test_equal_rows_among_many_get_equal_probabilities_in_their_own_place():
    table = torch.tensor([[9, 1, 0], [4, 3, 3], [1, 9, 0], [9, 1, 0]], dtype=torch.float64)
    found = flipping_probability(table, 3.0)
    assert found[0] == found[3]
    assert found[0] == pytest.approx(float(found[2]))
    for row, p in zip(table, found, strict=True):
        assert float(flipping_probability(row[None], 3.0)) == pytest.approx(float(p))


def study(key="pate-hard", classes=2, **given):
    form, pool = FORMS[key], make_pool(400, classes=classes, groups=3)
    names = {
        "teachers": 15,
        "queries": 60,
        "noise_draws": 400,
        "noise_multiplier": 4.0,
        "student_penalty": 0.3,
    }
    name = "logistic" if classes == 2 else "logistic-multiclass"
    task = make_task(
        form, pool, **{"public": make_public(60, groups=3), "model": model(name), **names, **given}
    )
    return votes.read(form.make(), task, form.make().fit(task, []))


CASES = [("pate-hard", 2), ("pate-soft", 2), ("pate-hard", 4), ("pate-soft", 4)]


@pytest.mark.parametrize(("key", "classes"), CASES)
def test_readings_in_pieces_are_those_at_once(key, classes, monkeypatch):
    at_once = study(key, classes, noise_draws=30)
    monkeypatch.setattr(votes, "_DRAWN_BYTES", 8 * 60 * classes * 7)  # seven draws
    monkeypatch.setattr(votes, "_SUMMED", 7)
    in_pieces = study(key, classes, noise_draws=30)
    torch.testing.assert_close(in_pieces, at_once, rtol=1e-6, atol=1e-9)


def test_a_large_pool_is_ranked_by_a_draw_of_its_records(monkeypatch):
    monkeypatch.setattr(votes, "_RANKED", 59)
    value, low, high = study()["spearman_closeness_flip"]
    assert low <= value <= high
    monkeypatch.setattr(votes, "_RANKED", 60)
    whole = study()["spearman_closeness_flip"][0]
    assert abs(value - whole) < 0.1
    assert value != whole


@pytest.mark.parametrize(("key", "classes"), CASES)
def test_theorem_2_and_corollary_2_as_corrected_hold(key, classes):
    found = study(key, classes)
    mean, error = found["deviation"]
    square, square_error = found["deviation_square"]
    assert 0 < mean <= found["deviation_bound"] + 4 * error
    assert square <= found["deviation_square_sharp"] + 4 * square_error
    assert found["deviation_square_sharp"] <= found["deviation_square_bound"] * (1 + 1e-9)


@pytest.mark.parametrize(("key", "classes"), CASES)
def test_theorem_1_holds_and_its_tighter_smoothness_is_tighter(key, classes):
    found = study(key, classes)
    assert 0 <= found["xi"] <= found["xi_bound_tight"] <= found["xi_bound"]
    assert (found["beta_mean"] <= found["beta_largest"]).all()


def test_corollary_2_as_printed_is_caught():
    """docs/methods.md 5.4: with p squared, one record of least squares breaks it, or a logistic one."""
    p, x, penalty = 0.1, 0.05, 1.0
    record = torch.tensor([[x]], dtype=torch.float64)
    labels = torch.tensor([[[0.0, 1.0]], [[1.0, 0.0]]], dtype=torch.float64)
    a, b = minimise(LogisticProblems(record, labels, penalty))
    square = p * float((a - b).square().sum())
    assert p**2 * x**2 / penalty**2 < square <= p * x**2 / penalty**2


def test_bounds_are_not_claimed_where_no_theorem_covers_the_student():
    for found in (
        study("pate-soft:no-project", noise_multiplier=0.5, noise_draws=20),
        study(model=model("mlp-relu"), noise_draws=3, epochs=1),
    ):
        assert found["xi"].isfinite().all()
        assert found["deviation"].isfinite().all()
        assert found["deviation_bound"].isnan().all()
        assert found["xi_bound"].isnan().all()


def test_readings_by_group_have_a_column_per_group():
    found = study(noise_draws=30)
    for name in ("flip_probability", "closeness", "input_norm", "excess_risk", "gradient_norm", "beta_mean"):
        assert found[name].shape == (3,)
    assert (found["closeness"] >= 0).all()
    assert (found["closeness"] <= 0.5).all()


def test_a_pool_of_unknown_groups_is_read_as_one():
    found = study(public=replace(make_public(60), groups=None), noise_draws=30)
    assert found["flip_probability"].shape == (1,)
    assert found["xi"].item() == 0


def test_more_noise_flips_more_and_deviates_more():
    quiet, loud = study(noise_multiplier=1.0, noise_draws=60), study(noise_multiplier=20.0, noise_draws=60)
    assert (quiet["flip_probability"] < loud["flip_probability"]).all()
    assert quiet["deviation"][0] < loud["deviation"][0]


def test_rank_correlations_equal_scipys_with_ties():
    rng = np.random.default_rng(0)
    a = rng.integers(5, size=200).astype(float)
    b = a + rng.normal(size=200).round(1)
    assert spearman(a, b) == pytest.approx(spearmanr(a, b).statistic)
    assert math.isnan(spearman(a, np.ones(200)))


def test_bootstrap_intervals_cover_the_true_correlation():
    rng = np.random.default_rng(1)
    true = 6 / math.pi * math.asin(0.6 / 2)  # Spearman's of normals correlated by 0.6
    covered = 0
    for _ in range(60):
        a = rng.normal(size=150)
        b = 0.6 * a + 0.8 * rng.normal(size=150)
        value, low, high = spearman_interval(a, b, rng)
        assert low <= value <= high
        covered += low <= true <= high
    assert covered >= 50  # 95 % nominal: fewer than one file in 10,000 shows less
    assert np.isnan(spearman_interval(np.ones(5), np.ones(5), rng)).all()
