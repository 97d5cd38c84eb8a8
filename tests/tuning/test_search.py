"""Candidates come from a public prior that arms share.

And their chances from the tries that are charged.
"""

import math
from dataclasses import replace
from types import SimpleNamespace as Namespace

import numpy as np
import pytest
from scipy import stats

from fairaudit.errors import ConfigError
from fairaudit.methods.catalog import find
from fairaudit.methods.defaults import PublicSizes, Search, Setting
from fairaudit.planning.draft import ArmDraft
from fairaudit.privacy.accounting import calibrate, epsilon
from fairaudit.privacy.selection import Selection
from fairaudit.report.types.facts import Schedule
from fairaudit.tuning.charge import search_around
from fairaudit.tuning.ranges import search_ranges
from fairaudit.tuning.search import Coordinate

SIZES = PublicSizes(n_public=10_000, columns=9, model="logistic", pool=1_000)
DEFAULTS = {
    "sgd": {"learning_rate": 0.2},
    "dpsgd": {"learning_rate": 0.1, "max_grad_norm": 4.0},
    "global-adapt": {
        "learning_rate": 0.1,
        "max_grad_norm": 4.0,
        "threshold": 4.0,
        "tolerance": 1.0,
        "threshold_learning_rate": 0.1,
        "count_noise_multiplier": 10.0,
    },
    "output-perturbation": {
        "penalty": 1e-3,
        "feature_norm": 1.0,
        "intercept": 1.0,
        "noise_draws": 100.0,
    },
    "exact-minimiser": {"penalty": 1e-3, "feature_norm": 1.0, "intercept": 1.0},
    "pate-hard": {
        "teachers": 40.0,
        "queries": 900.0,
        "teacher_penalty": 0.01,
        "student_penalty": 0.01,
        "learning_rate": 0.04,
        "noise_draws": 100.0,
    },
}


def around(method, epochs=20, spec=None):
    spec, settings = spec or find(method), DEFAULTS[method]
    noised = (
        {**settings, "noise_multiplier": 1.0} if "noise_multiplier" in spec.settings else settings
    )
    schedule = Schedule(n_public=SIZES.n_public, steps_per_epoch=50, epochs=epochs)
    return Draft(spec, None, Namespace(sizes=SIZES, given=noised), schedule, 1e-6)


class Draft(ArmDraft):
    """Of the settings of a table, whatever the epsilon."""

    def settings(self, target):
        return dict(self.resolver.given)


def tuning(method, trials=20, base=None, goal="accuracy", **given):
    return search_around(around(method, **given), trials, goal)(base)


def shares(search, seeds, name):
    """Where on its log range each candidate that is not the default lies."""
    c = search.coordinates[name]
    found = [
        math.log(candidate.settings[name] / c.low) / math.log(c.high / c.low)
        for seed in range(seeds)
        for candidate in search.candidates(seed)
        if not candidate.is_default
    ]
    return np.array(found)


def test_half_of_the_candidates_are_the_default_and_the_others_log_uniform():
    search = tuning("dpsgd")
    drawn = [candidate for seed in range(40) for candidate in search.candidates(seed)]
    defaults = [candidate for candidate in drawn if candidate.is_default]
    assert stats.binomtest(len(defaults), len(drawn), 0.5).pvalue > 1e-3
    assert all(c.settings == {**search.settings} and c.form.epochs == 20 for c in defaults)
    for name in ("learning_rate", "max_grad_norm"):
        assert stats.kstest(shares(search, 40, name), "uniform").pvalue > 1e-3
    lengths = [c.form.epochs for c in drawn if not c.is_default]
    assert set(lengths) == {5, 10, 20, 40}
    assert stats.chisquare(np.unique(lengths, return_counts=True)[1]).pvalue > 1e-3
    rate, bound = shares(search, 40, "learning_rate"), shares(search, 40, "max_grad_norm")
    assert abs(stats.spearmanr(rate, bound).statistic) < 0.2


@pytest.mark.parametrize(
    ("reference", "private", "shared"),
    [("sgd", "dpsgd", "learning_rate"), ("exact-minimiser", "output-perturbation", "penalty")],
)
def test_a_reference_and_its_private_arm_share_what_both_search(reference, private, shared):
    own, other = tuning(reference), tuning(private)
    for seed in (0, 7):
        for a, b in zip(own.candidates(seed), other.candidates(seed), strict=True):
            assert a.is_default == b.is_default
            assert a.form.epochs == b.form.epochs
            factor = a.settings[shared] / own.settings[shared]
            assert b.settings[shared] / other.settings[shared] == pytest.approx(factor)


def test_candidates_are_a_function_of_the_seed_and_their_number():
    search = tuning("dpsgd")
    assert search.candidates(3) == tuning("dpsgd").candidates(3)
    assert search.candidates(3) != search.candidates(4)
    assert tuning("dpsgd", trials=5).candidates(3) == search.candidates(3)[:5]


def test_a_longer_threshold_takes_a_longer_step_and_the_bound_stays():
    """global-adapt scales by C/Z: the way that a step goes is the learning rate times C/Z."""
    search = tuning("global-adapt")
    assert set(search.coordinates) == {"learning_rate", "threshold", "epochs"}
    found = [c for c in search.candidates(0) if not c.is_default]
    for candidate in found:
        settings = candidate.settings
        assert settings["max_grad_norm"] == 4.0
        way = settings["learning_rate"] * settings["max_grad_norm"] / settings["threshold"]
        assert 0.1 / 16 <= way <= 0.1 * 16
    ways = [math.log(c.settings["learning_rate"] / c.settings["threshold"]) for c in found]
    plain = [
        math.log(c.settings["learning_rate"])
        for c in tuning("dpsgd").candidates(0)
        if not c.is_default
    ]
    assert np.corrcoef(ways, plain)[0, 1] == pytest.approx(1.0)


@pytest.mark.parametrize("epochs", [1, 3, 20])
def test_no_candidate_trains_for_less_than_an_epoch(epochs):
    lengths = {
        c.form.epochs for seed in range(5) for c in tuning("dpsgd", epochs=epochs).candidates(seed)
    }
    assert min(lengths) >= 1
    assert max(lengths) == 2 * epochs


def test_teachers_are_whole_and_in_their_range():
    search = tuning("pate-hard")
    teachers = {c.settings["teachers"] for seed in range(10) for c in search.candidates(seed)}
    assert all(value == int(value) and 10 <= value <= 160 for value in teachers)
    assert "epochs" not in search.coordinates


def test_every_candidate_has_its_own_noise_at_one_and_the_same_epsilon():
    search = tuning("dpsgd", base=1.5)
    events = {c.form.event for seed in range(5) for c in search.candidates(seed)}
    assert events == set(search.events)
    assert len(events) == 4
    for event in events:
        assert 0.997 * 1.5 <= epsilon(event, 1e-6) <= 1.5
    for candidate in search.candidates(0):
        assert (
            candidate.settings["noise_multiplier"]
            == candidate.form.event.releases[0].noise_multiplier
        )
    by_epochs = {c.form.epochs: c.settings["noise_multiplier"] for c in search.candidates(0)}
    assert by_epochs[20] == calibrate(50, 1000, 1e-6, 1.5)
    assert sorted(by_epochs.values()) == [by_epochs[n] for n in sorted(by_epochs)]


def test_given_noise_stays_and_what_it_costs_follows_the_length():
    search = tuning("dpsgd")
    assert {f.noise_multiplier for f in search.forms.values()} == {1.0}
    costs = {f.epochs: epsilon(f.event, 1e-6) for f in search.forms.values()}
    assert costs[5] < costs[10] < costs[20] < costs[40]


def test_a_range_that_changes_what_is_released_is_refused():
    spec = find("global-adapt")

    def searching(search):
        noisy = Setting("noise", 0.1, 1e6, search=search)
        return replace(spec, settings={**spec.settings, "count_noise_multiplier": noisy})

    with pytest.raises(ConfigError, match="no charge covers it"):
        tuning("global-adapt", spec=searching(Search(0.5, 2.0)))
    found = tuning("global-adapt", spec=searching(Search(choices=(1.0, 2.0))))
    assert len(found.events) == 8  # two noises of four lengths


def test_chances_follow_the_scores_and_the_tries_that_are_charged():
    selection = Selection(4.0, 0.0)
    search = replace(tuning("dpsgd", trials=4), selection=selection)
    weights = search.weights([0.2, 0.9, -0.1, 0.9])
    best, second, third, last = selection.chances(4)
    assert weights.tolist() == [third, best, last, second]
    assert weights.sum() == pytest.approx(1.0)
    assert weights.min() > 0.0


def test_all_tries_keep_the_best():
    assert tuning("dpsgd", trials=3).weights([0.2, 0.1, 0.4]).tolist() == [0.0, 0.0, 1.0]


@pytest.mark.parametrize("scores", [[0.1, math.nan], [0.1], [0.1, 0.2, 0.3], [0.1, math.inf]])
def test_every_candidate_has_a_score(scores):
    with pytest.raises(ValueError, match="finite scores"):
        tuning("dpsgd", trials=2).weights(scores)


def test_a_setting_near_an_end_is_at_the_edge():
    wide = Coordinate(1.0, 1 / 16, 16.0)
    assert wide.is_at_edge(15.9)
    assert wide.is_at_edge(1 / 15)
    assert not wide.is_at_edge(4.0)
    few = Coordinate(20.0, 20.0, 20.0, (5.0, 10.0, 20.0, 40.0))
    assert [few.is_at_edge(v) for v in few.choices] == [True, False, False, True]
    search = tuning("global-adapt", trials=200)
    for candidate in search.candidates(1):
        named = search.at_edge(candidate)
        assert ("epochs" in named) == (candidate.form.epochs in (5, 40))
        if candidate.is_default:
            assert named == ()


def test_candidates_of_declared_ranges_lie_in_them_and_a_log_scale_is_even():
    ranges = {
        "rate": Namespace(low=1e-4, high=1.0, log=True),
        "size": Namespace(low=2.0, high=10.0, log=False),
    }
    search = search_ranges(Namespace(tune=400, tune_for="accuracy"), ranges)
    default, *others = search.candidates(0)
    assert default.settings == {}
    rates, sizes = ([other.settings[name] for other in others] for name in ranges)
    assert 1e-4 <= min(rates) < np.median(rates) == pytest.approx(1e-2, rel=0.5)
    assert 2.0 <= min(sizes) < np.median(sizes) == pytest.approx(6.0, abs=0.6)
    assert max(rates) <= 1.0
    assert max(sizes) <= 10.0
