"""Candidates trained side by side are those that would be trained alone."""

from dataclasses import replace

import pytest
import torch
from jobs import seed_here
from plans import search
from torch import nn

from fairaudit.engine import joint_training as module
from fairaudit.engine.pool import TrainingPool
from fairaudit.engine.rules import Erm, FlatClip
from fairaudit.execution.trained import method_of
from fairaudit.execution.worker import task_of
from fairaudit.methods.base import Task
from fairaudit.methods.dpsgd import DpSgd
from fairaudit.methods.dpsgd_f import DpSgdF
from fairaudit.privacy.noise import GaussianNoise
from fairaudit.tuning.trials import divide, fit_task

N = 7


@pytest.fixture
def joined(monkeypatch):
    """How many trainings went side by side, each time that some were asked to."""
    sizes, honest = [], module.joined

    def counting(trainings):
        found = honest(trainings)
        sizes.append(len(trainings) if found else 0)
        return found

    monkeypatch.setattr(module, "joined", counting)
    return sizes


def alone(method, tasks):
    """Each by itself: what `fit` says of it."""
    return [method.fit(task, []) for task in tasks]


def assert_same(together, separate):
    """Within the rounding of float32 sums, over a whole training; what was done is equal."""
    for a, b in zip(together, separate, strict=True):
        assert a.event == b.event
        torch.testing.assert_close(a.parameters, b.parameters, rtol=2e-5, atol=2e-5)


def candidates(method):
    """A method and the tasks of one seed's search on the sample."""
    plan, _ = search(tune=N, epochs=4, method=("dpsgd", method))
    job = next(job for job in plan.jobs if job.arm == method)
    prepared = seed_here(plan, 0)
    arm = plan.arm(method)
    task = task_of(plan, job, arm, prepared, None)
    division = divide(prepared, task.pool)
    return method_of(arm), [fit_task(task, arm, c, division) for c in arm.search.candidates(0)]


@pytest.mark.parametrize("method", ["sgd", "dpsgd", "global-adapt", "global"])
def test_a_search_side_by_side_gives_what_each_training_alone_gives(method, joined):
    trainer, tasks = candidates(method)
    found = trainer.fit_all(tasks)
    lengths = [task.epochs for task in tasks]
    most = max(lengths.count(length) for length in lengths)
    assert len(set(lengths)) > 1
    assert len({task.settings["learning_rate"] for task in tasks}) > 2
    if method != "global":  # its rule takes one threshold for all
        assert max(joined) == most > 2
    assert_same(found, alone(trainer, tasks))


def task(number=0, *, model=None, optimizer="sgd", inputs=5, **settings):
    drawn = torch.Generator().manual_seed(3)
    features, labels = torch.randn(400, inputs, generator=drawn), torch.arange(400) % 2
    pool = TrainingPool(features + labels[:, None], labels, labels, n_classes=2, n_groups=2)
    defaults = {"learning_rate": 0.5, "max_grad_norm": 1.0, "noise_multiplier": 1.0}
    return Task(
        arm=f"arm/{number}",
        seed=5,
        repeats=1,
        settings={**defaults, **settings},
        optimizer=optimizer,
        model=model or nn.Sequential(nn.Linear(inputs, 2)),
        pool=pool,
        steps_per_epoch=8,
        epochs=3,
        n_public=400,
        sampling=[f"candidate/{number}"],
        source={},
        budget=2**28,
    )


def several(count=4, **given):
    """Tasks of one model that differ in step and bound."""
    start = nn.Sequential(nn.Linear(5, 2))
    numbers = [{"learning_rate": 0.1 * 3.0**k, "max_grad_norm": 0.5 * 2.0**k} for k in range(count)]
    return [task(k, **{"model": start, **own, **given}) for k, own in enumerate(numbers)]


@pytest.mark.parametrize("optimizer", ["sgd", "momentum", "adam"])
def test_each_replicate_has_its_own_step_and_bound(optimizer, joined):
    tasks = several(optimizer=optimizer)
    assert_same(DpSgd().fit_all(tasks), alone(DpSgd(), tasks))
    assert joined == [4]


def test_no_two_candidates_share_noise_or_batches(joined):
    """Equal settings: their models differ by noise alone, or by batches alone."""
    start = nn.Sequential(nn.Linear(5, 2))
    noisy = [replace(task(k, model=start), sampling=["one"]) for k in range(4)]
    sampled = [task(k, model=start, noise_multiplier=0.0) for k in range(4)]
    for tasks in (noisy, sampled):
        models = DpSgd().fit_all(tasks)
        assert len({m.parameters.numpy().tobytes() for m in models}) == 4
        assert_same(models, alone(DpSgd(), tasks))
    assert joined == [4, 4]


def test_a_diverged_candidate_moves_no_other(joined):
    tasks = several()
    endless = replace(tasks[2], settings={**tasks[2].settings, "learning_rate": 1e12})
    models = DpSgd().fit_all([*tasks[:2], endless, tasks[3]])
    assert joined == [4]
    assert models[2] is None
    assert_same([models[0], models[1], models[3]], alone(DpSgd(), [tasks[0], tasks[1], tasks[3]]))


def test_what_one_training_cannot_stand_for_is_trained_alone_to_the_bit(joined):
    network = nn.Sequential(
        nn.Linear(5, 128), nn.Tanh(), nn.Linear(128, 2)
    )  # too large to be faster
    unlike_noise = [
        replace(t, settings={**t.settings, "noise_multiplier": 1.0 + k})
        for k, t in enumerate(several())
    ]
    counts = {"count_noise_multiplier": 10.0, "largest_bound_ratio": 5.0, "against_batch": 0.0}
    for method, tasks, asked in (
        (DpSgd(), several(model=network), []),
        (DpSgd(), unlike_noise, [0]),
        (DpSgdF(), several(**counts), [0]),  # its rule counts against one bound
    ):
        joined.clear()
        for a, b in zip(method.fit_all(tasks), alone(method, tasks), strict=True):
            assert torch.equal(a.parameters, b.parameters)
            assert a.event == b.event
        assert joined == asked


def test_numbers_that_are_no_fields_keep_parts_apart():
    """One training would take the first's for all."""

    class Own(FlatClip):
        def __init__(self, bound, factor):
            object.__setattr__(self, "max_grad_norm", bound)
            object.__setattr__(self, "factor", factor)

    class Weighed(Erm):
        def __init__(self, weight):
            self.weight = weight

    assert Own(1.0, 2.0).stacked_with([Own(1.0, 3.0)]) is None
    assert Weighed(1.0).stacked_with([Weighed(2.0)]) is None
    assert Erm().stacked_with([Weighed(2.0)]) is None
    assert FlatClip(1.0).stacked_with([Own(1.0, 3.0)]) is None
    assert FlatClip(1.0).stacked_with([FlatClip(3.0)]).max_grad_norm.tolist() == [1.0, 3.0]
    assert FlatClip(2.0).stacked_with([FlatClip(2.0)]) == FlatClip(2.0)


def test_a_method_that_trains_in_its_own_way_is_asked_task_by_task():
    class Own(DpSgd):
        def fit(self, task, observers):
            asked.append(task.arm)
            return super().fit(task, observers)

    asked: list[str] = []
    Own().fit_all(several(3))
    assert asked == ["arm/0", "arm/1", "arm/2"]


def test_noise_of_all_is_each_parts_own():
    parts = [GaussianNoise([3]), GaussianNoise([4, 5])]
    for shape in ((7,), (50, 60)):
        together = GaussianNoise.of_all(parts)
        both = [together.fill(torch.empty(3, *shape)).clone() for _ in range(3)]
        fresh = [GaussianNoise([seed]) for seed in (3, 4, 5)]
        for drawn in both:
            own = torch.cat([noise.fill(torch.empty(1, *shape)) for noise in fresh])
            assert torch.equal(drawn, own)
    with pytest.raises(ValueError, match="share a noise seed"):
        GaussianNoise.of_all([GaussianNoise([3]), GaussianNoise([3 + 2**32])])
    parts[0].fill(torch.empty(1, 2))
    with pytest.raises(AssertionError, match="drawn again"):
        GaussianNoise.of_all(parts)
