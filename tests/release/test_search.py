"""A search for release: the laws of what is drawn, and what is never written of it."""

import json
import math
import weakref
from collections import Counter

import numpy as np
import pytest
from changed import replace
from dp_accounting import dp_event, rdp
from scipy.stats import binom, chi2, geom, kstest, norm

import fairaudit
from fairaudit.config.options import AuditConfig
from fairaudit.data.inputs.shared import share_inputs
from fairaudit.errors import ConfigError, PrivacyError
from fairaudit.execution.seed_data import prepare_rows
from fairaudit.execution.trained import DIVERGED, Sanitised, method_of
from fairaudit.planning.plan import make_plan
from fairaudit.privacy.selection import Selection
from fairaudit.privacy.streams import from_operating_system
from fairaudit.release.planned import ReleaseRequest, plan_release
from fairaudit.release.train import _task, coin_split, train_for_release
from fairaudit.report.load import load_report
from fairaudit.results.estimates import rounded_up
from fairaudit.tuning import release as search
from fairaudit.tuning.release import best_of_tries, released_score, validation_coins
from fairaudit.tuning.score import Accuracy, WorstGroup
from fairaudit.tuning.search import Tuning
from fairaudit.tuning.study import Tuned
from fairaudit.tuning.trials import divided_at

ALARM = 1e-6
N = 4
FILES = ("model.safetensors", "recipe.json", "privacy.json", "MODEL_CARD.md", "evidence.json")


class Says:
    """A finished training that says one class of everybody."""

    def __init__(self, event, favourite):
        self.event, self.favourite = event, favourite

    def probabilities(self, features, groups):
        import torch

        found = torch.full((1, len(features), 2), 0.1)
        found[..., self.favourite] = 0.9
        return found


@pytest.fixture
def choice(stored):
    return plan_release(ReleaseRequest(stored(tune=N), "dpsgd"))


@pytest.fixture
def searched(choice, monkeypatch):
    """Searches without trainings: what each tried, and what it kept."""
    arm, config = choice.arm, choice.config
    with from_operating_system():
        inputs = share_inputs(choice.dataset, config).value
        prepared = prepare_rows(
            inputs, config, coin_split(choice.dataset, config.split), by_pool=False
        )
        task, one = _task(choice, prepared), arm.search.candidate(0, 0)

    def _searched(favourite=lambda number: 0, *, train=None):
        """Places of what was tried and kept; with another ``train``, what was kept."""
        tried = []

        def trained(method, tasks, prepared):
            (own,) = tasks
            forms = {form.epochs: form.event for form in arm.search.forms.values()}
            tried.append(Sanitised(Says(forms[own.epochs], favourite(len(tried))), 2))
            return tried[-1:]

        monkeypatch.setattr(search, "train", train or trained)
        monkeypatch.setattr(Tuning, "candidate", lambda self, seed, number: one)
        with from_operating_system():
            kept = best_of_tries(arm, method_of(arm), task, prepared, n_fit=192)
        return kept if train else (tried, tried.index(kept.model))

    _searched.prepared = prepared
    return _searched


# --- laws
# ----------------------------------------------------------------------------------------------


def test_a_search_tries_as_many_as_the_law_says(searched, monkeypatch):
    """By Pearson's test of 1..9 and more."""
    law, searches = geom(1 / N), 300
    monkeypatch.setattr(search, "released_score", lambda *_: 0.0)
    counts = [len(searched()[0]) for _ in range(searches)]
    seen = np.bincount(np.minimum(counts, 10), minlength=11)[1:]
    expected = searches * np.append(law.pmf(np.arange(1, 10)), law.sf(9))
    assert ((seen - expected) ** 2 / expected).sum() < chi2.isf(ALARM, 9)


def test_a_loser_is_gone_before_the_next_candidate_is_trained(searched, monkeypatch):
    """Of all models that were trained the best alone is in memory while another one trains."""
    scores = [0.0, 2.0, 1.0, 3.0, 2.5]
    alive = []

    def train(method, tasks, prepared):
        alive.append({k for k, model in enumerate(models) if model() is not None})
        model = Sanitised(Says(DIVERGED, 0), 2)
        models.append(weakref.ref(model))
        return [model]

    models = []
    monkeypatch.setattr(Selection, "draw", lambda self, stream: len(scores))
    monkeypatch.setattr(search, "released_score", lambda *_: scores[len(models) - 1])
    kept = searched(train=train)
    assert kept.model is models[3]()
    assert alive == [set(), {0}, {1}, {1}, {3}]


def test_the_best_wins_as_often_as_charged_noise_lets_it(searched, choice, monkeypatch):
    """Of two candidates the better has one more correct record.

    With probability Phi(1 / sqrt 2 s).
    """
    labels = choice.dataset.labels[searched.prepared.encoded.split.train]
    few = min(Counter(labels.tolist()).values()) - 1
    rows = np.concatenate(
        [np.flatnonzero(labels == 0)[:few], np.flatnonzero(labels == 1)[: few + 1]]
    )
    monkeypatch.setattr(search, "validation_coins", lambda n: np.sort(rows))
    monkeypatch.setattr(Selection, "draw", lambda self, stream: 2)
    noise = choice.arm.charge.score.noise_multiplier
    chance = norm.cdf(1 / (math.sqrt(2.0) * noise))
    assert 0.6 < chance < 0.95

    wins = sum(searched(lambda number: number)[1] for _ in range(300))
    assert binom.ppf(ALARM, 300, chance) <= wins <= binom.isf(ALARM, 300, chance)


@pytest.mark.parametrize("rule", [Accuracy(60), WorstGroup(2)])
def test_a_score_is_the_count_of_the_validation_rows_with_fresh_noise(searched, choice, rule):
    """By hand from the labels; ten records of noise, as normal as they should be."""
    prepared = searched.prepared
    places = np.arange(0, len(prepared.encoded.split.train), 3)
    divided = divided_at(places, prepared, _task(choice, prepared).pool)
    rows = prepared.encoded.split.train[places]
    right, groups = choice.dataset.labels[rows] == 1, choice.dataset.groupings[0].groups[rows]
    model = Sanitised(Says(None, 1), 2)
    exact = (
        right.sum() / 60
        if isinstance(rule, Accuracy)
        else min(right[groups == k].mean() for k in (0, 1))
    )
    with from_operating_system():
        assert released_score(rule, 0.0, model, prepared, divided) == pytest.approx(
            exact, abs=1e-12
        )
        noised = [released_score(rule, 10.0, model, prepared, divided) for _ in range(300)]
    assert len(set(noised)) == 300
    if isinstance(rule, Accuracy):
        assert kstest((np.array(noised) - exact) * 60 / 10.0, "norm").pvalue > ALARM


def test_validation_rows_are_coins(searched):
    n, draws = len(searched.prepared.encoded.split.train), 300
    with from_operating_system():
        sizes = np.array([len(validation_coins(n)) for _ in range(draws)])
    least, most = binom.interval(1 - 2 * ALARM, n * draws, 0.2)
    assert least <= sizes.sum() <= most
    assert 0.6 < sizes.var() / (n * 0.16) < 1.5  # a stratified draw has one size


def test_candidates_follow_the_public_prior_and_none_comes_again(choice):
    tuning = choice.arm.search
    with from_operating_system():
        drawn = [tuning.candidate(0, 0) for _ in range(1500)]
    defaults = sum(candidate.is_default for candidate in drawn)
    assert binom.ppf(ALARM, 1500, 0.5) <= defaults <= binom.isf(ALARM, 1500, 0.5)
    steps = [c.settings["learning_rate"] for c in drawn if not c.is_default]
    assert len(set(steps)) == len(steps)
    low, high = (
        np.log(tuning.coordinates["learning_rate"].low),
        np.log(tuning.coordinates["learning_rate"].high),
    )
    assert kstest((np.log(steps) - low) / (high - low), "uniform").pvalue > ALARM


# --- the folder
# ------------------------------------------------------------------------------------------


def test_epsilon_is_the_audits_charged_one(trained):
    made = trained(tune=N)
    told = json.loads((made.folder / "privacy.json").read_text())
    report = load_report(made.report)
    config = made.choice.config.model_copy(update={"n_public": None, "seeds": 2})
    charge = make_plan(config, made.choice.dataset).arm("dpsgd").charge
    assert told["epsilon"] == pytest.approx(charge.epsilon(1e-5), abs=1e-9)
    assert float(f"{told['epsilon']:.6g}") == pytest.approx(
        report.privacy["dpsgd"].epsilon.rdp, rel=2e-6
    )
    assert told["accountant"] == "RDP"
    assert (told["event"]["tries"]["mean"], told["event"]["tries"]["shape"]) == (N, 1.0)
    assert told["event"]["score"]["noise_multiplier"] == charge.score.noise_multiplier
    steps = {each["steps"] for each in told["event"]["trainings"]}
    assert steps == {event.steps for event in charge.trainings}
    assert made.held_out[0].expected is None


def test_neither_tries_nor_losers_nor_scores_are_written(stored, trained, monkeypatch, capsys):
    """Searches of 2 and of 9 tries leave the same bytes beside the weights.

    No loser's number is in them.
    """
    stored(method=["dpsgd"], tune=N)  # its candidates are drawn as ever
    tried, scores = [], []
    draw, score = Tuning.candidate, released_score

    def default(self, seed, number):
        tried.append(draw(self, seed, number))
        while not (tried[-1].is_default and tried[-1].form.epochs == 1):
            tried.append(draw(self, seed, number))
        return tried[-1]

    monkeypatch.setattr(Tuning, "candidate", default)
    monkeypatch.setattr(
        search, "released_score", lambda *given: scores.append(score(*given)) or scores[-1]
    )
    folders = []
    for tries in (2, 9):
        monkeypatch.setattr(Selection, "draw", lambda self, stream, tries=tries: tries)
        folders.append(trained(tune=N, name=f"model{tries}").folder)
    assert len(scores) == 11
    for name in set(FILES) - {"model.safetensors", "evidence.json"}:
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()
    assert capsys.readouterr().out == ""
    lost = {c.settings["learning_rate"] for c in tried if not c.is_default}
    for folder in folders:
        assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
        assert not any(path.stat().st_size == 0 for path in folder.iterdir())
        text = "".join((folder / name).read_text() for name in FILES if name != "model.safetensors")
        assert not any(repr(value) in text for value in (*lost, *scores))


def test_a_search_that_keeps_a_diverged_training_says_the_same_of_everybody(trained, monkeypatch):
    """To stop would tell that it diverged; so would trying again."""
    monkeypatch.setattr("fairaudit.methods.gradient.LARGEST_PARAMETER", 0.0)
    made = trained(tune=N)
    model = fairaudit.load_model(made.folder)
    from people import applicants

    assert (model.predict_proba(applicants()) == 0.5).all()
    assert "same of every row" in (made.folder / "MODEL_CARD.md").read_text()
    assert {each.accuracy is None for each in made.held_out} == {False}


def test_a_search_that_is_not_charged_is_refused_with_the_way_out(stored):
    with pytest.raises(PrivacyError, match="the search over 4 settings is not charged") as caught:
        plan_release(ReleaseRequest(stored(tune=N, tune_privacy="uncharged"), "dpsgd"))
    assert caught.value.exit_code == 5
    assert "--tune-privacy charged" in caught.value.hint


def lying(report, arm, facts=None, trials=N, **search):
    """The report with other facts of an arm, or other fields of its search."""
    changed = {}
    if facts is not None:
        arms = [each.model_copy(update=facts) if each.key == arm else each for each in report.arms]
        changed["arms"] = tuple(arms)
    tuned = Tuned.of(report)
    searches = [s.model_copy(update=search) if s.arm == arm else s for s in tuned.searches]
    study = tuned.model_copy(update={"trials": trials, "searches": tuple(searches)})
    return report.model_copy(update={**changed, "studies": {"tuning": study}})


@pytest.fixture
def two(stored):
    """A report on two methods whose noise is calibrated to an epsilon of their searches."""
    options = {"noise_multiplier": None, "epsilon": [12.0], "tune_for": "worst-group", "epochs": 4}
    return stored(method=["dpsgd", "global-adapt"], tune=N, **options)


@pytest.fixture
def planned_of(two, monkeypatch):
    """The release that is planned of a report with this content."""

    def _planned_of(report, method):
        monkeypatch.setattr("fairaudit.release.planned.parsed", lambda *_, **__: report)
        return plan_release(ReleaseRequest(two, method))

    return _planned_of


@pytest.mark.parametrize("method", ["dpsgd", "global-adapt"])
def test_the_search_that_is_released_is_the_audited_one_to_the_last_digit(two, method):
    """Without calibration: ranges, choices, noise and charge are those that the audit planned."""
    choice = plan_release(ReleaseRequest(two, method))
    report = load_report(two)
    config = AuditConfig(**{name: option.value for name, option in report.config.items()})
    audited = make_plan(config, choice.dataset).arm(method)
    assert choice.arm.search == audited.search
    assert choice.arm.privacy == audited.privacy
    held = report.privacy[method]
    assert rounded_up(choice.arm.privacy.epsilon.rdp) == held.epsilon.rdp
    assert choice.arm.privacy.event == held.event


@pytest.mark.parametrize("method", ["dpsgd", "global-adapt"])
def test_a_search_is_not_calibrated_again(two, method, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("noise comes from the report")

    monkeypatch.setattr("fairaudit.methods.spec.SampledMechanism.calibrated", refuse)
    monkeypatch.setattr("fairaudit.tuning.charge.base_epsilon", refuse)
    monkeypatch.setattr("fairaudit.tuning.charge.score_noise", refuse)
    plan_release(ReleaseRequest(two, method))


@pytest.mark.parametrize("factor", [pytest.param(0.9, marks=pytest.mark.slow), 0.999, 1.1])
def test_other_noise_of_one_form_is_refused_or_costs_what_is_said(two, planned_of, factor):
    """What it costs at least: by the library alone, of each training by itself."""
    report = load_report(two)
    stored_search = Tuned.of(report).search("dpsgd")
    tries = stored_search.mean_tries, stored_search.shape_tries
    refused = 0
    for place in range(len(stored_search.forms)):
        forms = list(stored_search.forms)
        noise = forms[place].noise_multiplier * factor
        forms[place] = forms[place].model_copy(update={"noise_multiplier": noise})
        try:
            choice = planned_of(lying(report, "dpsgd", forms=tuple(forms)), "dpsgd")
        except ConfigError:
            refused += 1
            continue
        for form in forms:
            steps = int(form.choices["epochs"]) * report.training.steps_per_epoch
            step = dp_event.PoissonSampledDpEvent(
                1 / report.training.steps_per_epoch, dp_event.GaussianDpEvent(form.noise_multiplier)
            )
            accountant = rdp.RdpAccountant()
            training = dp_event.SelfComposedDpEvent(step, steps)
            accountant.compose(dp_event.RepeatAndSelectDpEvent(training, *tries))
            least = accountant.get_epsilon(report.training.delta)
            assert least <= choice.arm.privacy.headline * (1 + 1e-6)
    assert refused == len(stored_search.forms) if factor == 0.9 else refused > 0


def test_a_report_that_claims_another_search_or_other_numbers_is_refused(two, planned_of):
    report = load_report(two)
    arm = next(arm for arm in report.arms if arm.key == "dpsgd")
    search = Tuned.of(report).search("dpsgd")
    first, *others = search.forms
    noiseless = first.model_copy(update={"noise_multiplier": 0.0})
    longer = first.model_copy(update={"choices": {"epochs": 16.0}})
    rate = search.searched["learning_rate"]
    wider = {**search.searched, "learning_rate": rate.model_copy(update={"high": rate.high * 2})}
    lies = [
        *({"facts": {"settings": {**arm.settings, n: v * 1.001}}} for n, v in arm.settings.items()),
        {"facts": {"privacy": arm.privacy.model_copy(update={"delta": 2e-5})}},
        {"trials": 9},
        {"trials": 9, "mean_tries": 9.0},
        {"mean_tries": 2.0},
        {"shape_tries": 0.0},
        {"shape_tries": -2.0},
        {"shape_tries": None},
        {"score_noise_multiplier": search.score_noise_multiplier * 0.99},
        {"score_noise_multiplier": -search.score_noise_multiplier},
        # Of these epsilon would be infinite, or no number at all.
        *({"score_noise_multiplier": noise} for noise in (5e-324, 1e-200, 1e-160, 1e200, 1e308)),
        {"searched": wider},
        {"forms": tuple(others)},
        {"forms": (*others, longer)},
        {"forms": (*others, noiseless)},
        {"forms": (first, *search.forms)},
    ]
    for lie in lies:
        with pytest.raises(ConfigError, match=r"another guarantee|in another way"):
            planned_of(lying(report, "dpsgd", **lie), "dpsgd")


def test_a_report_of_a_version_that_stored_no_noise_of_candidates_says_what_to_do(two, planned_of):
    report = load_report(two)
    for lacking in ({"forms": ()}, {"score_noise_multiplier": None}):
        with pytest.raises(ConfigError, match="does not hold the noise") as caught:
            planned_of(lying(report, "dpsgd", **lacking), "dpsgd")
        assert caught.value.hint == "audit again with this version"


def test_a_search_of_other_tries_or_other_trainings_than_charged_does_not_run(choice):
    arm = choice.arm
    longer = replace(
        arm.search, forms={k: replace(f, event=None) for k, f in arm.search.forms.items()}
    )
    fewer = replace(arm.search, selection=Selection(2.0, 0.0))
    for tuning in (longer, fewer):
        with pytest.raises(AssertionError, match="charged"):
            train_for_release(replace(choice, arm=replace(arm, search=tuning)))
