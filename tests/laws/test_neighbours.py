"""Two neighbouring batches through the code that trains.

Sums within the claim, noise and divisor alike.

The released values are forced to be equal on both sides: with fresh noise the difference would hold
the noise, and the check would mean nothing. Source: docs/methods.md 9.
"""

import math
from dataclasses import fields
from functools import cache

import pytest
import torch
from forms import FLAWS, FORM, PRIVATE, PUBLISHED, each, make_task
from hypothesis import given
from hypothesis import strategies as st
from oracles import model
from stand_ins import take_steps
from torch import nn

from fairaudit.engine import loop as loop_module
from fairaudit.engine.pool import TrainingPool
from fairaudit.engine.rules import FlatClip
from fairaudit.errors import PrivacyError
from fairaudit.methods.dpsgd import DpSgd
from fairaudit.methods.global_adapt import GlobalAdapt, GlobalAdaptiveClip

K, WIDTH = 3, 7
ROUNDING = 1e-5  # float32; docs/methods.md 1.3, R7
EXPECTED = 10.0  # qN

norms = st.one_of(st.just(0.0), st.floats(-4, 4).map(lambda e: 10.0**e))
BAD = (math.nan, math.inf, -math.inf, 1e30)
records = st.fixed_dictionaries(
    {
        "length": st.one_of(norms, norms, norms, st.sampled_from(BAD)),
        "along": st.booleans(),  # along the added record, so that clipped vectors add up or cancel
        "label": st.integers(0, 1),
        "group": st.integers(0, K - 1),
    }
)
situations = st.fixed_dictionaries(
    {
        "batch": st.lists(records, max_size=8),
        "added": records,
        "max_grad_norm": st.floats(-2, 1).map(lambda e: 10.0**e),
        "threshold_over_bound": st.floats(0, 2).map(lambda e: 10.0**e),
        "noise_multiplier": st.floats(0.3, 5.0),
        "answer": st.lists(st.floats(-30, 30), min_size=1, max_size=6),  # by cell, repeated
        "tolerance": st.floats(0, 2),
        "deep": st.booleans(),
        "replicates": st.sampled_from([1, 2]),
        "seed": st.integers(0, 1000),
    }
)


@cache
def flat_start():
    """A layer whose record gradients are collinear when the inputs are: no bias, no start."""
    start = nn.Sequential(nn.Linear(WIDTH, 2, bias=False))
    nn.init.zeros_(start[0].weight)
    return start


def pool_of(rows, seed):
    generator = torch.Generator().manual_seed(seed)
    axis = nn.functional.normalize(torch.randn(WIDTH, generator=generator), dim=0)
    features = []
    for row in rows:
        other = nn.functional.normalize(torch.randn(WIDTH, generator=generator), dim=0)
        features.append((axis if row["along"] else other) * row["length"])
    return TrainingPool(
        torch.stack(features),
        torch.tensor([row["label"] for row in rows]),
        torch.tensor([row["group"] for row in rows]),
        n_classes=2,
        n_groups=K,
    )


def task_of(form, situation, pool):
    bound = situation["max_grad_norm"]
    less = {}
    if situation["deep"] and form.key == "fairlens":
        less = {"gamma1": 0.0}  # a network has no half about clipping
    return make_task(
        form,
        pool,
        **less,
        repeats=situation["replicates"],
        n_public=60,
        steps_per_epoch=6,
        model=model("mlp-tanh", situation["seed"], WIDTH) if situation["deep"] else flat_start(),
        max_grad_norm=bound,
        threshold=bound * situation["threshold_over_bound"],
        noise_multiplier=situation["noise_multiplier"],
        tolerance=situation["tolerance"],
    )


def one_step(form, trainer, situation, batch, pool, noise):
    task = task_of(form, situation, pool)
    return take_steps(trainer, task, [batch], noise=(noise,), answers=[situation["answer"]])


def neighbour_law(form, situation, trainer=None):
    """The law on one pair (B, B + x): which of its clauses are broken."""
    trainer = trainer or form.make()
    pool = pool_of([*situation["batch"], situation["added"]], situation["seed"])
    n = len(situation["batch"])
    without, with_x = list(range(n)), list(range(n + 1))
    quiet = [one_step(form, trainer, situation, b, pool, 0.0) for b in (without, with_x)]
    loud = [one_step(form, trainer, situation, b, pool, 1.0) for b in (without, with_x)]
    return judge(form, situation, quiet, loud)


def judge(form, situation, quiet, loud):
    broken = set()
    claimed = [seen.sensitivity[0].double() for seen in quiet]
    sums = [seen.sums[0].double() for seen in quiet]
    released = [seen.gradients[0].double() * EXPECTED for seen in quiet]
    std = [
        (b.gradients[0].double() - a.gradients[0].double()) * EXPECTED
        for a, b in zip(quiet, loud, strict=True)
    ]
    if not all(torch.isfinite(s).all() for s in sums):
        return {"finite"}
    if not torch.equal(*claimed):
        broken.add("sensitivity")
    moved = (sums[1] - sums[0]).norm(dim=1)
    if (moved > claimed[0] * (1 + ROUNDING)).any():
        broken.add("sum")
    # What leaves the release with no noise is the sum over qN, and with unit noise one std more:
    # two readings of a release that may do anything to the sum on its way.
    size = max(float(s.abs().max()) for s in (*sums, claimed[0]))
    if any((r - s).abs().max() > 1e-5 * size for r, s in zip(released, sums, strict=True)):
        broken.add("divisor")
    least = situation["noise_multiplier"] * claimed[0][:, None]
    if not torch.allclose(std[0], std[1], rtol=1e-4, atol=1e-5 * size):
        broken.add("noise")
    if form.spec.is_private and any((s < least * (1 - 1e-4) - 1e-5 * size).any() for s in std):
        broken.add("noise too small")
    counts = [seen.counts[0].double() for seen in quiet if seen.counts]
    if counts and (counts[1] - counts[0]).norm(dim=1).max() > 1 + ROUNDING:
        broken.add("count")
    statistics = [seen.statistics[0].double() for seen in quiet if seen.statistics]
    if statistics and (statistics[1] - statistics[0]).norm(dim=1).max() > 1 + ROUNDING:
        broken.add("statistic")
    alone, company = (seen.norms[0] for seen in quiet)
    # A batch of another size sums in another order: float32 moves what a long record's units are
    # handed, and so its norm, by its length times eps: at 4,541 1.40271 alone, 1.40257 in company,
    # 1.40263 in float64.
    lengths = (
        torch.tensor([row["length"] for row in situation["batch"]])
        .nan_to_num(0, 0, 0)
        .clamp(max=1e4)
    )
    rounding = 1e-6 + alone * (1e-4 + torch.finfo(torch.float32).eps * lengths)
    if ((alone - company[:, : alone.shape[1]]).abs() > rounding).any():
        broken.add("company")  # rule R1: a record's own gradient saw the added one
    if counts and any((c != c.round()).any() for c in counts):
        broken.add("count not whole")
    return broken


@each(PRIVATE)
@given(situation=situations)
def test_one_record_moves_what_is_released_by_no_more_than_is_claimed(form, situation):
    assert neighbour_law(form, situation) == set()


def record(length, label=0, group=0, along=True):
    return {"length": length, "along": along, "label": label, "group": group}


OPPOSED = {
    "batch": [record(50.0)] * 5,
    "added": record(50.0, label=1, group=1),
    "max_grad_norm": 1.0,
    "threshold_over_bound": 100.0,
    "noise_multiplier": 1.0,
    "answer": [3.0],
    "tolerance": 0.1,
    "deep": False,
    "replicates": 1,
    "seed": 0,
}


ONE_LONG_AMONG_SHORT = {**OPPOSED, "batch": [record(1.0)] * 5, "added": record(1000.0, group=1)}


# Noised counts that give the added record's group 1 a negative weight, or a negative bound.
NEGATIVE_COUNT = {**OPPOSED, "answer": [4.0, -0.5, 5.0]}
NEGATIVE_SHARE = {**OPPOSED, "answer": [4.0, 6.0, 5.0, 5.0, -7.0, 5.0]}
# Clipped shares of (1/9, 8/9, 0): only the added record is of the group with the largest bound. The
# last value is what a form that counts the batch in units of 1e5 reads as 20 records.
UNEVEN = {**OPPOSED, "answer": [1.0, 8.0, 0.0, 8.0, 1.0, 8.0, 2e6]}
DEEP = {
    **OPPOSED,
    "deep": True,
    "batch": [record(3.0, i % 2, i % 2, along=False) for i in range(6)],
}


@each(PUBLISHED)
def test_a_published_form_breaks_the_law_by_what_is_known_to_be_wrong_with_it(form):
    situations = (OPPOSED, NEGATIVE_COUNT, NEGATIVE_SHARE, UNEVEN, DEEP)
    found = set().union(*(neighbour_law(form, situation) for situation in situations))
    assert FLAWS[form.key] - {"negative"} <= found


class Lying(FlatClip):
    """Flat clipping whose factors are some times as large as its claim allows."""

    times = 100.0

    def scale(self, released, norms, group):
        return FlatClip.scale(self, released, norms, group) * self.times


class LyingDownwards(Lying):
    times = -100.0


class NotFinite(Lying):
    times = math.inf


class LyingQuery(GlobalAdaptiveClip):
    """Counts a record a hundred times, in two cells of which one is negative."""

    def query(self, state, norms, group):
        row = (norms > self.tolerance * state.threshold.unsqueeze(-1)).to(norms.dtype)
        return torch.stack((row, -row), -1) * 100.0


def with_rule(kind):
    class Broken(DpSgd):
        def rule(self, task):
            return kind(task.settings["max_grad_norm"])

    return Broken()


class AsksTooMuch(GlobalAdapt):
    def rule(self, task):
        good = super().rule(task)
        return LyingQuery(**{f.name: getattr(good, f.name) for f in fields(good)})


HELD = {
    "factors a hundredfold": ("dpsgd", with_rule(Lying), "sum"),
    "negative factors": ("dpsgd", with_rule(LyingDownwards), "sum"),
    "factors that are not finite": ("dpsgd", with_rule(NotFinite), "finite"),
    "rows a hundredfold": ("global-adapt", AsksTooMuch(), "count"),
}


@pytest.mark.parametrize("replicates", [1, 2])
@pytest.mark.parametrize(("name", "trainer", "clause"), HELD.values(), ids=HELD)
def test_a_step_holds_a_method_that_lies_to_what_it_claims(
    name, trainer, clause, replicates, monkeypatch
):
    def broken():
        found = set()
        for situation in (OPPOSED, ONE_LONG_AMONG_SHORT):
            given = {**situation, "replicates": replicates}
            found |= neighbour_law(FORM[name], given, trainer)
        return found

    assert broken() <= {"count not whole"}
    monkeypatch.setattr(loop_module, "limited_scale", lambda scale, *_: scale)
    monkeypatch.setattr(loop_module, "limited_rows", lambda query: query)
    assert clause in broken()


@pytest.mark.parametrize("claim", [-1.0, math.nan, math.inf])
def test_a_claim_that_is_no_size_is_refused(claim):
    class Claiming(FlatClip):
        def sensitivity(self, released):
            return released * 0 + claim

    with pytest.raises(PrivacyError, match="claims a sensitivity of"):
        neighbour_law(FORM["dpsgd"], OPPOSED, with_rule(Claiming))


@pytest.mark.parametrize("bad", BAD, ids=str)
@each(PRIVATE)
def test_a_record_that_is_not_finite_moves_no_bit_of_what_is_released(form, bad):
    situation = {**OPPOSED, "added": {**OPPOSED["added"], "length": bad}}
    pool = pool_of([*situation["batch"], situation["added"]], 0)
    without, with_x = (
        one_step(form, form.make(), situation, list(range(n)), pool, 0.5).gradients[0]
        for n in (5, 6)
    )
    assert torch.equal(without, with_x)


@each(PRIVATE)
def test_a_record_that_was_not_drawn_changes_nothing(form):
    """Neither the file's other records nor their number reach a step: only the frozen N does."""
    rows = [record(3.0 * (i + 1), i % 2, i % K, along=False) for i in range(13)]
    steps = []
    for count in (12, 13):
        task = task_of(form, {**DEEP, "tolerance": 0.0}, pool_of(rows[:count], 3))
        seen = take_steps(
            form.make(), task, [[0, 4, 5], [1]], noise=(0.0, 1.0), answers=[2.0, -4.0]
        )
        steps.append(seen.gradients)
    for a, b in zip(*steps, strict=True):
        assert torch.equal(a, b)
