"""One private step at q = 1, many times over, through the code that trains.

Replicates of one network stand for repetitions. Source: docs/methods.md 9.
"""

from dataclasses import replace

import pytest
import torch
from forms import FORM, PRIVATE, each, make_pool, make_task
from oracles import model
from stand_ins import GivenBatches, ToldOptimizer, WatchedRule

from fairaudit.engine.loop import train
from fairaudit.engine.network import Network
from fairaudit.engine.pool import TrainingPool
from fairaudit.engine.release import ExactRelease, GaussianRelease
from fairaudit.engine.rules import PublicFacts
from fairaudit.privacy.noise import noise_stream

RUNS = 1000
SIGMA, BOUND = 1.3, 0.5  # unlike their squares


@pytest.mark.parametrize(
    "release", [GaussianRelease(0.0, noise_stream(0, "noise", "dpsgd", 2)), ExactRelease()]
)
def test_every_replicate_is_divided_by_its_own_expected_batch_size(release):
    facts = PublicFacts(8, torch.tensor([2.0, 5.0]), n_groups=2, n_classes=2)
    found = release((torch.full((2, 3), 10.0),), torch.ones(2), facts)
    assert found.tolist() == [[5.0] * 3, [2.0] * 3]


class Bare(GaussianRelease):
    """The sum as it is."""

    def __call__(self, sums, sensitivity, facts):
        return sums[0].div_(facts.divisor)


@pytest.mark.parametrize("name", ["dpsgd", "global-adapt"])
def test_what_one_record_adds_is_no_longer_than_the_bound_to_the_last_bit(name):
    """Norms and products are rounded to 24 bits.

    What a rule is handed makes up for it (rule R7).
    """
    form = FORM[name]
    draw = torch.Generator().manual_seed(3)
    features = 30.0 * torch.randn(RUNS, 20, generator=draw)
    zeros = torch.zeros(RUNS, dtype=torch.int64)
    pool = TrainingPool(features, zeros, zeros, n_classes=2, n_groups=2)
    numbers = {"noise_multiplier": SIGMA, "max_grad_norm": BOUND, "threshold": 2 * BOUND}
    length = {"repeats": RUNS, "n_public": 8, "steps_per_epoch": 1, "epochs": 1}
    task = make_task(form, pool, model=model("logistic", 0, pool.width), **numbers, **length)
    watched = WatchedRule(form.make().rule(task))
    _, training = form.make()._set_up(task, [])
    optimizer = ToldOptimizer()
    given = {
        "rule": watched,
        "release": Bare(SIGMA, training.release.noise),
        "optimizer": optimizer,
        "sampler": GivenBatches([[[r] for r in range(RUNS)]], pool.n_records),
    }
    train(Network([task.model] * RUNS), pool, replace(training, **given))
    lengths = 8.0 * optimizer.gradients[0].double().norm(dim=1)
    bounds = watched.claims[0].double()
    assert (lengths <= bounds).all()
    assert (lengths > 0.9999 * bounds).sum() > RUNS / 2  # most are clipped


@each(PRIVATE)
def test_repeats_draw_batches_of_their_own_where_the_task_says_so(form):
    """Equal labels share a stream, unlike ones do not; another seed draws other batches."""

    def batches(**task):
        method = form.make()
        made = make_task(form, make_pool(), repeats=3, sampling=["shared", "shared", "own"], **task)
        _, training = method._set_up(made, [])
        padded, present = training.sampler.draw()
        assert training.sampler.steps_per_epoch == made.steps_per_epoch
        return [tuple(row[there].tolist()) for row, there in zip(padded, present, strict=True)]

    first, second, third = batches(seed=0)
    assert first == second != third
    assert batches(seed=1)[0] != first
