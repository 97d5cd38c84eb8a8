"""What every method promises that releases something about all records at once.

And its reference.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import dp_accounting
import numpy as np
import pytest
import torch
from forms import Form, each, make_pool, make_task, whole_forms
from oracles import model

from fairaudit.engine.pool import TrainingPool
from fairaudit.methods.catalog import find
from fairaudit.methods.minimiser import sensitivity

FORMS = whole_forms()
PRIVATE = tuple(form for form in FORMS if form.is_private)
TEACHERS = {"teachers": 5, "queries": 20}


def trained(form, pool=None, **task):
    return form.make().fit(make_task(form, pool or make_pool(), **{**TEACHERS, **task}), [])


@each(PRIVATE)
def test_without_noise_the_model_is_its_references_and_nothing_is_claimed(form):
    quiet = trained(form, noise_multiplier=0.0)
    reference = find(form.spec.reference)
    clean = trained(Form(reference, None, reference.trainer))
    torch.testing.assert_close(quiet.parameters, clean.parameters, rtol=0, atol=1e-7)
    assert quiet.event is None
    assert not torch.allclose(
        trained(form, noise_multiplier=3.0).parameters, clean.parameters, atol=1e-3
    )


@pytest.mark.usefixtures("any_source")
@each(PRIVATE)
@pytest.mark.parametrize("repeats", [1, 3])
def test_the_event_known_before_training_is_that_which_training_counted(form, repeats):
    # Noisy labels that are not projected may be negative: at a penalty this large the student's
    # loss is convex whatever noise the operating system gives.
    task = {"noise_multiplier": 1.3, "student_penalty": 100.0}
    settings = form.settings(**task, **TEACHERS)
    done = trained(form, repeats=repeats, **task)
    assert done.event == form.spec.events(settings, 6, 2)
    assert done.event is not None


def test_group_normalisation_reads_groups_and_its_entry_says_so():
    (form,) = (f for f in FORMS if f.variant == "group-normalise")
    pool, other = make_pool(), make_pool()
    other.groups[:30] = 1 - other.groups[:30]
    assert not torch.equal(trained(form, pool).parameters, trained(form, other).parameters)
    (variant,) = form.spec.variants
    assert variant.reads_groups


# --- the neighbour law: what is released moves by no more than its claimed sensitivity
# -------------------


def without(pool, row):
    """The pool without one record."""
    kept = torch.arange(pool.n_records) != row
    batch = pool.gather(torch.arange(pool.n_records), None)
    return TrainingPool(
        batch.inputs[kept],
        batch.targets.argmax(-1)[kept],
        batch.group[kept],
        n_classes=pool.n_classes,
        n_groups=pool.n_groups,
    )


def neighbours(form, number, **task):
    """A task and the same without one record.

    Public facts are equal, and so are the others' ids.
    """
    pool = make_pool(40, seed=number, classes=task.pop("classes", 2))
    row = number % 40
    own = make_task(form, pool, n_public=40, **{**TEACHERS, **task})
    less = replace(own, pool=without(pool, row), records=np.delete(own.records, row))
    return own, less


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("seed", range(12))
def test_a_minimiser_moves_by_no_more_than_the_claimed_sensitivity(seed, classes):
    (form,) = (f for f in PRIVATE if f.spec.name == "output-perturbation")
    penalty = (3.0, 0.3, 0.01)[seed % 3]
    own, less = neighbours(form, seed, penalty=penalty, noise_multiplier=0.0, classes=classes)
    moved = (form.make().fit(own, []).parameters - form.make().fit(less, []).parameters).norm()
    claimed = sensitivity(
        feature_norm=1.0, intercept=1.0, penalty=penalty, n_public=40, classes=classes
    )
    assert 0 < moved <= claimed


@each([f for f in FORMS if "votes" in str(f.spec.gaussian)])
@pytest.mark.parametrize("name", ["logistic", "mlp-relu"])
@pytest.mark.parametrize("seed", range(5))
def test_one_record_moves_one_vote_per_query(form, name, seed):
    own, less = neighbours(form, seed, model=model(name))
    before, after = (form.make().fit(task, []).kept["votes"] for task in (own, less))
    assert (before.sum(1) == TEACHERS["teachers"]).all()
    moved = (before - after).norm(dim=1)
    assert set(moved.round(decimals=6).tolist()) <= {0.0, round(math.sqrt(2), 6)}


# --- the claim against something else than the claim: the shift by brute force, the noise as it is
# drawn ---

SIGMA, DRAWS = 1.3, 2_000  # of the noise on each number


class Released(NamedTuple):
    """What a fit hands on: without its noise [m, P], and the noise itself [R, m, P]; m queries."""

    exact: torch.Tensor
    noise: torch.Tensor


def released(form, task, monkeypatch):
    """Read where post-processing begins.

    At the model's parameters, or at the labels made of votes.
    """
    method = form.make()
    if form.spec.name == "output-perturbation":
        done = method.fit(task, [])
        exact = done.kept["minimiser"].flatten(1)
        return Released(exact, (done.parameters - exact).unsqueeze(1))
    seen = []

    def heard(self, task, votes, noise):
        seen.append(Released(votes, noise.clone()))
        return (votes + noise).softmax(-1)

    with monkeypatch.context() as patched:
        patched.setattr(type(method), "labels", heard)
        patched.setattr(
            "fairaudit.methods.teachers.train_students", lambda task, queried, targets: None
        )
        method.fit(task, [])
    return seen[0]


def opposed(form, **task):
    """2,000 records that pull one way and one that pulls another, and the same without the one.

    The many are so sure that they hardly answer when the one goes: no records of this form were
    found that move the minimiser further.
    """
    x, labels = np.zeros((2001, 7), dtype=np.float32), np.zeros(2001, dtype=np.int64)
    x[:-1, 0], x[-1, 1], labels[-1] = 1e3, 1e3, 1
    pool = TrainingPool(
        torch.from_numpy(x),
        torch.from_numpy(labels),
        torch.zeros(2001, dtype=torch.int64),
        n_classes=2,
        n_groups=2,
    )
    own = make_task(form, pool, **{**TEACHERS, "penalty": 4 / 2001, **task})
    return own, replace(own, pool=without(pool, 2000), records=own.records[:-1])


def pairs(form, **task):
    """Neighbours that may move what is released by as much as it can be moved."""
    if form.spec.name == "output-perturbation":
        return [opposed(form, **task)]
    return [neighbours(form, seed, **task) for seed in range(8)]


def drawn_noise(form, monkeypatch):
    """[R, m, P] of many draws, and the settings that it was drawn with."""
    own, _ = pairs(form)[0]
    settings = {**own.settings, "noise_multiplier": SIGMA}
    task = replace(own, settings=settings, repeats=DRAWS, sampling=["x"] * DRAWS)
    return released(form, task, monkeypatch).noise, settings


@each(PRIVATE)
def test_the_noise_that_is_released_covers_the_shift_found_by_brute_force(form, monkeypatch):
    """std = sigma * sensitivity with the sensitivity at least the farthest shift.

    And not far above it.
    """
    noise, settings = drawn_noise(form, monkeypatch)
    covered = float(noise.square().mean().sqrt()) / SIGMA
    farthest = 0.0
    for own, less in pairs(form, noise_multiplier=0.0):
        before, after = (released(form, task, monkeypatch).exact for task in (own, less))
        farthest = max(farthest, float((before - after).norm(dim=1).max()))
    tolerance = 5.0 / math.sqrt(2 * noise.numel())
    assert farthest <= covered * (1 + tolerance)
    assert covered <= farthest / 0.78 * (1 + tolerance)
    # What is claimed of one release is its noise over its shift.
    event = form.spec.events(settings, 6, 2)
    assert event.noise_multiplier == SIGMA
    assert float(noise.mean().abs()) < 5.0 * SIGMA * covered / math.sqrt(noise.numel())
    each = noise.flatten(1).std(0) / (SIGMA * covered)  # of every number, over draws
    assert ((each - 1).abs() < 6.0 / math.sqrt(2 * DRAWS) + tolerance).all()


@pytest.mark.usefixtures("any_source")
@each(PRIVATE)
def test_the_noise_that_is_released_is_fresh_in_every_number_and_draw(form, monkeypatch):
    noise, _ = drawn_noise(form, monkeypatch)
    numbers = noise.flatten(1) / noise.std()  # [R, m P]
    limit = 6.0 / math.sqrt(DRAWS)
    assert (torch.corrcoef(numbers[:, :12].T) - torch.eye(len(numbers[0, :12]))).abs().max() < limit
    beside = (numbers[1:] * numbers[:-1]).mean(0).abs().max()
    assert beside < limit


@each(PRIVATE)
def test_the_noise_that_is_released_does_not_depend_on_the_records(form, monkeypatch):
    """With the same stream, the noise on both neighbours is the same to the bit."""
    own, less = neighbours(form, 3, noise_multiplier=2.0)
    noises = [released(form, task, monkeypatch).noise for task in (own, less)]
    assert float(noises[0].abs().max()) > 0
    torch.testing.assert_close(noises[0], noises[1], rtol=0, atol=1e-12)


@each(PRIVATE)
@pytest.mark.parametrize("queries", [20, 300])
def test_the_noise_of_a_target_meets_it_over_all_queries_together(form, queries):
    """By the library's curve of one Gaussian: so many of shift 1 are one of shift sqrt(queries)."""
    settings = form.settings(**{**TEACHERS, "queries": queries})
    sigma = form.spec.mechanism.calibrated(settings, 6, 2, delta=1e-5, target=2.0)
    count = queries if "queries" in settings else 1
    reached = dp_accounting.get_epsilon_gaussian(sigma / math.sqrt(count), 1e-5)
    assert 2.0 * (1 - 1e-3) < reached <= 2.0
