"""A search with real trainings.

What each part of it may read, what is charged, and what catches it.
"""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from changed import replace
from jobs import run_here, seed_here
from places import LOANS
from plans import search

from fairaudit.config.options import AuditConfig
from fairaudit.data.inputs.split import draw_split
from fairaudit.data.tabular import load_dataset
from fairaudit.engine.pool import TrainingPool
from fairaudit.errors import ConfigError, PrivacyError
from fairaudit.execution.trained import Sanitised, method_of
from fairaudit.execution.worker import task_of
from fairaudit.methods import teachers
from fairaudit.methods.spec import Guarantee
from fairaudit.metrics.within_model import record_correct
from fairaudit.privacy.events import Gaussian
from fairaudit.privacy.selection import Selection
from fairaudit.tuning import measure, trials
from fairaudit.tuning.limitations import limitations
from fairaudit.tuning.trials import divide
from fairaudit.tuning.validation import draw_validation, validation_groups, validation_size

N = 5


def planned(**given):
    return search(**{"tune": N, **given})[0]


def result_of(plan, arm="dpsgd"):
    return run_here(plan, next(job for job in plan.jobs if job.arm == arm))


def searched(plan, change=lambda arm: arm, prepared=None):
    """The search of one job, its arm or its data changed."""
    job = next(job for job in plan.jobs if job.arm == "dpsgd")
    prepared = prepared or seed_here(plan, job.seed)
    arm = plan.arm("dpsgd")
    task = task_of(plan, job, arm, prepared, None)
    arrays, facts = trials.search(change(arm), method_of(arm), task, prepared)
    return SimpleNamespace(arrays=arrays, facts=facts)


def tried(found):
    return found.facts["tuning"]["candidates"]


def column(found, name):
    return np.array([candidate[name] for candidate in tried(found)])


def test_a_job_leaves_every_candidate_and_its_chance():
    plan = planned(twins="always")
    found, arm = result_of(plan), plan.arm("dpsgd")
    twins = run_here(plan, plan.twins[0]).arrays
    n_test = len(found.arrays["test_rows"])
    assert found.arrays["probabilities"].shape == (N, n_test, 2)
    models = [found.arrays["probabilities"]]
    for twin in ("without_noise", "step"):
        models.append(twins[f"{twin}.probabilities"])
    for before, after in pairwise(models):
        assert before.shape == after.shape == (N, n_test, 2)
        assert not np.array_equal(before, after)
    assert found.arrays["train_count.0"].sum() == found.facts["tuning"]["fit_rows"]
    assert found.arrays["weights"] == pytest.approx(column(found, "weight"))
    drawn = arm.search.candidates(plan.jobs[0].seed)
    assert [c["settings"] for c in tried(found)] == [dict(c.settings) for c in drawn]
    # Candidates of equal settings are trained anew, each on its batches and with its noise.
    assert len({p.tobytes() for p in found.arrays["probabilities"]}) == N


def test_chances_are_those_of_the_tries_that_are_charged():
    """A search that always tries all n, charged as one of K, would put all on the best."""
    plan = planned()
    found, charge = result_of(plan), plan.arm("dpsgd").charge
    order = np.argsort(-column(found, "released_score"), kind="stable")
    assert np.allclose(found.arrays["weights"][order], charge.selection.chances(N))
    assert not np.allclose(found.arrays["weights"], 1 / N)


def test_scores_are_those_of_the_validation_rows():
    plan = planned()
    found = result_of(plan, "sgd")
    prepared = seed_here(plan, 0)
    division = divide(prepared, prepared.pool)
    assert len(division.validation) == found.facts["tuning"]["validation_rows"]
    assert column(found, "score").tolist() == column(found, "released_score").tolist()
    # Scikit-learn's accuracy of an outside model, given by its predictions of the same rows.
    model = Sanitised(None, 2)
    on = np.tile(trials.is_right(model, prepared, division.validation), (N, 1))
    labels = prepared.dataset.labels[prepared.encoded.split.train[division.validation]]
    exact, _ = trials.score(plan.arm("sgd"), 0, on, prepared, division)
    assert exact == pytest.approx([float((labels == 0).mean())] * N)


def test_private_scores_have_the_noise_that_is_charged():
    plan = planned()
    arm = plan.arm("dpsgd")
    rows = None
    differences = []
    for seed in range(60):
        prepared = seed_here(plan, 0)
        division = divide(prepared, prepared.pool)
        right = trials.is_right(Sanitised(None, 2), prepared, division.validation)
        on = np.tile(right, (N, 1))
        exact, released = trials.score(arm, seed, on, prepared, division)
        rows = len(division.validation)
        differences += [b - a for a, b in zip(exact, released, strict=True)]
    noise = arm.charge.score.noise_multiplier
    assert arm.search.score_noise == noise
    assert np.std(differences) * rows == pytest.approx(noise, rel=0.15)
    assert len(set(differences)) == len(differences)  # drawn anew for every candidate of every seed


def test_models_are_the_same_to_the_bit_whatever_stands_in_the_validation_rows():
    plan = planned()
    prepared = seed_here(plan, 0)
    changed = prepared.encoded.train.copy()
    changed[draw_validation(prepared.dataset, prepared.encoded.split)] *= -3.0
    pool = TrainingPool(
        trials.torch.from_numpy(changed),
        prepared.pool.labels[:-1],
        prepared.pool.groups[:-1],
        n_classes=2,
        n_groups=prepared.pool.n_groups,
    )
    own = searched(plan, prepared=prepared).arrays["probabilities"]
    beside = searched(plan, prepared=prepared._replace(pool=pool)).arrays["probabilities"]
    assert np.array_equal(own, beside)


def test_fit_and_validation_rows_are_disjoint_and_all():
    plan = planned()
    for seed in (0, 1):
        prepared = seed_here(plan, seed)
        division = divide(prepared, prepared.pool)
        together = np.concatenate([division.fit, division.validation])
        assert np.array_equal(np.sort(together), np.arange(len(prepared.encoded.split.train)))
        assert division.pool.n_records == len(division.fit) == plan.training.n_public
        assert np.array_equal(division.records, prepared.encoded.split.train[division.fit])
        batch = division.pool.gather(trials.torch.arange(len(division.fit)), None)
        assert np.array_equal(batch.inputs.numpy(), prepared.encoded.train[division.fit])


@pytest.mark.parametrize("given", [{}, {"keep": {"F": 0.3}}, {"balance": True}])
def test_validation_rows_are_stratified_and_as_many_at_every_seed(given):
    config = AuditConfig(data=LOANS, group=("sex",), **given)
    dataset = load_dataset(config)
    groups, drawn = dataset.groupings[0].groups, []
    for seed in range(3):
        split = draw_split(dataset, config.split, seed)
        rows = split.train[draw_validation(dataset, split)]
        drawn.append(rows)
        assert len(rows) == validation_size(len(split.train)) == round(0.2 * len(split.train))
        assert (
            np.bincount(groups[rows], minlength=2).tolist()
            == validation_groups(dataset, config.split).tolist()
        )
        for k in (0, 1):
            share = dataset.labels[rows][groups[rows] == k].mean()
            whole = dataset.labels[split.train][groups[split.train] == k].mean()
            assert share == pytest.approx(whole, abs=0.01)
    assert not np.array_equal(*drawn[:2])


def test_a_training_that_no_charge_covers_is_caught():
    plan = planned()
    used = {c.form.event for c in plan.arm("dpsgd").search.candidates(0)}

    def short(arm):
        charge = arm.charge
        left = tuple(
            event for event in charge.trainings if event != max(used, key=lambda e: e.steps)
        )
        search = replace(arm.search, charge=replace(charge, trainings=left))
        return replace(arm, search=search)

    with pytest.raises(AssertionError, match="not charged"):
        searched(plan, change=short)


def test_a_training_that_does_something_else_is_caught(monkeypatch):
    honest = trials.fit_task

    def longer(task, arm, candidate, division):
        found = honest(task, arm, candidate, division)
        return replace(found, epochs=found.epochs + 1)

    monkeypatch.setattr(trials, "fit_task", longer)
    with pytest.raises(AssertionError, match="planned"):
        result_of(planned())


def test_a_diverged_candidate_is_a_constant_model_scored_like_any_other():
    plan = planned(learning_rate=1e6, max_grad_norm=3e5, seed=1)
    found = result_of(plan)
    diverged = column(found, "diverged")
    assert diverged.any()
    assert len(found.arrays["weights"]) == N == len(diverged)
    assert (found.arrays["weights"] > 0).all()
    assert (found.arrays["probabilities"][diverged] == 0.5).all()
    prepared = seed_here(plan, 1)
    division = divide(prepared, prepared.pool)
    labels = prepared.dataset.labels[prepared.encoded.split.train[division.validation]]
    assert column(found, "score")[diverged] == pytest.approx(float((labels == 0).mean()))


def test_a_record_of_which_nothing_finite_is_said_counts_for_itself_alone():
    class Partly:
        def probabilities(self, features, groups):
            found = trials.torch.tensor([[0.2, 0.8]]).repeat(1, len(features), 1).clone()
            found[0, 1] = float("nan")
            return found

    said = (
        Sanitised(Partly(), 2)
        .probabilities(trials.torch.zeros(3, 2), trials.torch.zeros(3))
        .numpy()
    )
    np.testing.assert_allclose(said, [[[0.2, 0.8], [0.5, 0.5], [0.2, 0.8]]])
    assert record_correct(said, np.array([1, 1, 1])).tolist() == [[1.0, 0.0, 1.0]]


def test_arms_of_a_seed_train_on_the_same_batches_with_noise_of_their_own():
    plan = planned(method=("dpsgd", "global-adapt"), noise_multiplier=0.0, max_grad_norm=1e5)
    sgd, dpsgd = result_of(plan, "sgd"), result_of(plan, "dpsgd")
    for a, b, c in zip(tried(sgd), tried(dpsgd), range(N), strict=True):
        if a["is_default"]:  # no clipping, no noise: the reference's own training
            assert a["settings"]["learning_rate"] == b["settings"]["learning_rate"]
            np.testing.assert_allclose(
                sgd.arrays["probabilities"][c], dpsgd.arrays["probabilities"][c], atol=1e-5
            )


def test_worst_group_is_refused_where_noise_would_steer_it():
    with pytest.raises(ConfigError, match=r"validation rows; with noise of .* are needed"):
        planned(tune_for="worst-group", noise_multiplier=30.0)
    arm = planned(tune_for="worst-group").arm("dpsgd")
    multiplier = arm.charge.score.noise_multiplier
    assert arm.search.score_noise == pytest.approx(multiplier * 2**0.5)


EVERY_ROW = 3840  # a batch of all fit rows, whose accounting takes no time


def test_a_charged_arm_meets_its_target_and_costs_more_than_one_training():
    methods = ("dpsgd", "global-adapt", "dpsgd-f")
    plan = planned(noise_multiplier=None, epsilon=(3.0,), method=methods, batch_size=EVERY_ROW)
    for arm in plan.arms[1:]:
        privacy = arm.privacy
        assert privacy.headline == privacy.epsilon.rdp <= 3.0
        assert privacy.headline >= 0.99 * 3.0
        assert privacy.epsilon.pld is None
        assert privacy.base_epsilon < 2.0
        fit, validation = arm.charge.epsilons(plan.training.delta)
        assert max(fit, validation) == privacy.headline
        assert min(fit, validation) > 0.98 * 3.0
        assert privacy.event in arm.charge.trainings
    assert plan.arm("sgd").search.score_noise == 0.0
    assert plan.arm("sgd").search.selection == plan.arm("dpsgd").search.selection
    assert plan.training.epsilon_if_all_released is None


def test_tries_are_geometric_unless_only_fewer_are_affordable():
    """At epsilon 1 a geometric number leaves too little for the counts of batches."""
    name = "global-adapt"
    counts = {
        "method": (name,),
        "noise_multiplier": None,
        "settings": {name: {"count_noise_multiplier": 16.0}},
        "batch_size": EVERY_ROW,
    }
    for target, shape in ((1.0, 0.0), (3.0, 1.0)):
        plan = planned(**counts, epsilon=(target,), tune=20)
        arm = plan.arm(name)
        assert arm.search.selection == arm.charge.selection == Selection(20.0, shape)
        assert 0.99 * target <= arm.privacy.headline <= target
        told = measure._search(arm, plan, {})
        assert (told.mean_tries, told.shape_tries) == (20.0, shape)
        assert f"(truncated negative binomial, shape {shape:g})" in arm.privacy.reason
    with pytest.raises(
        PrivacyError, match=r"0.5 cannot be met by a search, which leaves less .* counts"
    ):
        planned(**counts, epsilon=(0.5,), tune=20)


def test_an_uncharged_search_claims_no_epsilon_for_itself():
    fields = {"epsilon": (3.0,), "tune_privacy": "uncharged", "batch_size": EVERY_ROW}
    plan = planned(noise_multiplier=None, **fields)
    privacy, tuning = plan.arm("dpsgd").privacy, plan.arm("dpsgd").search
    assert privacy.epsilon is None
    assert privacy.event is None
    assert privacy.guarantee.value == "not established"
    assert (
        "established for one training (epsilon 3.00); the search over 5 settings is not charged"
        in (privacy.reason)
    )
    assert tuning.score_noise == 0.0
    assert tuning.selection is None
    found = result_of(plan)
    assert sorted(found.arrays["weights"]) == [0.0, 0.0, 0.0, 0.0, 1.0]


def test_no_reading_is_taken_of_candidates():
    plan = planned()
    assert plan.config.diagnostics == "basic"
    assert not [name for name in result_of(plan).arrays if name.startswith("misalignment.")]


def test_what_somebody_else_claims_stays_a_claim_when_its_search_is_charged(monkeypatch):
    monkeypatch.setattr("fairaudit.planning.guarantees.home_of", lambda spec: spec.name == "dpsgd")
    monkeypatch.setattr(
        "fairaudit.planning.guarantees.as_checked", lambda spec: Guarantee.UNCHECKED
    )
    privacy = planned().arm("dpsgd").privacy
    assert privacy.guarantee is Guarantee.UNCHECKED
    assert privacy.headline > privacy.base_epsilon > 0.0
    privacy = planned(tune_privacy="uncharged").arm("dpsgd").privacy
    assert privacy.guarantee is Guarantee.NOT_ESTABLISHED
    assert privacy.reason.startswith("claimed by its author for one training (epsilon ")


def test_delta_is_of_all_training_rows_and_the_schedule_of_the_fit_rows():
    plan, whole = planned(), planned(tune=None)
    assert plan.training.delta == whole.training.delta
    assert plan.training.n_public == whole.training.n_public - validation_size(
        whole.training.n_public
    )


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"repeats": 2}, "--repeats"),
        ({"diagnostics": "full"}, "--diagnostics full"),
        ({"method": ("ablation",)}, "ablation"),
        ({"method": ("dpsgd-matched",)}, "dpsgd-matched"),
        ({"tune": None, "tune_for": "worst-group"}, "--tune-for"),
        ({"tune": None, "tune_privacy": "uncharged"}, "--tune-privacy"),
    ],
)
def test_what_does_not_go_with_a_search_is_refused(given, what):
    with pytest.raises(ConfigError, match=what):
        planned(**given)


@pytest.mark.usefixtures("quick_accountant")
def test_all_leaves_controls_out_and_says_so():
    plan = planned(method=("all",), epsilon=(), noise_multiplier=2.0)
    assert "dpsgd-matched" not in {arm.method for arm in plan.arms}
    assert any("dpsgd-matched" in notice.text for notice in plan.notices)


@pytest.mark.parametrize("method", ["output-perturbation", "pate-hard"])
def test_methods_without_steps_are_tuned_too(method):
    plan = planned(
        method=(method,), noise_multiplier=None, epsilon=(3.0,), tune=2, tune_for="worst-group"
    )
    for arm in plan.arms:
        found = result_of(plan, arm.key)
        assert found.arrays["weights"].sum() == pytest.approx(1.0)
        assert np.isfinite(found.arrays["probabilities"]).all()
    charge = plan.arm(method).charge
    assert len(charge.trainings) == 1
    assert isinstance(charge.trainings[0], Gaussian)


def test_a_teacher_that_diverges_moves_its_own_votes_alone():
    """To stop, or to leave out its candidate, would let one teacher's record move everything."""
    fields = {"method": ("pate-hard",), "tune": None, "model": "mlp", "hidden": (4,), "epochs": 1}
    plan = planned(
        **fields, noise_multiplier=None, epsilon=(3.0,), settings={"pate-hard": {"teachers": 4}}
    )
    job = next(job for job in plan.jobs if job.arm == "pate-hard")
    prepared = seed_here(plan, 0, by_pool=True)
    task = task_of(plan, job, plan.arm("pate-hard"), prepared, None)
    queried = teachers.queries(task)
    votes = teachers.collect_votes(task, queried)
    teacher = teachers.assign_teachers(task.records, 4, task.seed)
    poisoned = prepared.encoded.train.copy()
    poisoned[np.flatnonzero(teacher == 2)] = 1e30
    pool = TrainingPool(
        trials.torch.from_numpy(poisoned),
        task.pool.labels[:-1],
        task.pool.groups[:-1],
        n_classes=2,
        n_groups=task.pool.n_groups,
    )
    changed = teachers.collect_votes(replace(task, pool=pool), queried)
    assert changed.sum() == votes.sum()
    assert (changed - votes).abs().max() <= 1.0
    endless = replace(task, settings={**task.settings, "learning_rate": 1e30})
    assert (teachers.collect_votes(endless, queried)[:, 0] == 4).all()


def texts(messages):
    return {message.code: message.text for message in messages}


@pytest.mark.usefixtures("quick_accountant")
def test_a_report_says_what_a_search_leaves_open_and_how_many_models_there_are():
    methods = {"method": ("dpsgd", "global-adapt"), "seeds": 2}
    charged = texts(limitations(planned(**methods)))
    uncharged = texts(limitations(planned(**methods, tune_privacy="uncharged")))
    assert charged.keys() == uncharged.keys() == {"hyperparameters", "per_run", "configuration"}
    assert charged["hyperparameters"] != uncharged["hyperparameters"]
    assert f"{2 * 2} private models" in charged["per_run"]
    assert f"best of {N} trainings" in uncharged["hyperparameters"]
    assert "per_run" not in texts(limitations(planned(noise_multiplier=0.0)))
    assert not list(limitations(planned(tune=None)))
