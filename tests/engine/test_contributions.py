"""What an objective or a rule hands to a step, however strange, moves a sum by its claim at most.

Each is tried through the loop that ships. What a record moves is measured in float64 as the
difference of two sums, with and without the record.
"""

import math
from dataclasses import replace

import pytest
import torch
from forms import FORM, make_pool, make_task
from oracles import model
from stand_ins import ToldNoise, take_steps
from torch import Tensor, nn

from fairaudit.engine.loop import Asking, Loop, scaled
from fairaudit.engine.release import GaussianRelease, Release
from fairaudit.engine.rules import ClippingRule, Erm, FlatClip
from fairaudit.errors import PrivacyError
from fairaudit.methods.dpsgd import DpSgd
from fairaudit.privacy.events import NoisyRelease
from fairaudit.testing import broken_laws

DPSGD = FORM["dpsgd"]
BOUND = 0.5
BATCH = [3, 9, 11, 30]


class Lying(Tensor):
    """A tensor on which no operation limits anything, and which is of any shape that is asked."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        limits = ("where", "clamp", "mul", "div", "aminmax", "reciprocal", "isfinite", "clone")
        if getattr(function, "__name__", "") in limits:
            return args[0]
        return super().__torch_function__(function, types, args, kwargs or {})


def lying(values):
    return values.as_subclass(Lying)


def trainer(*, rule=None, objective=None):
    class Own(DpSgd):
        pass

    if rule is not None:
        Own.rule = lambda self, task: rule(task.settings["max_grad_norm"])
    if objective is not None:
        Own.objective = lambda self, task: objective()
    return Own()


def seen_of(own, batch, *, repeats=1, module=None):
    pool = make_pool(40)
    module = module or model("logistic")
    numbers = {"max_grad_norm": BOUND, "noise_multiplier": 1.0}
    task = make_task(DPSGD, pool, repeats=repeats, model=module, **numbers)
    return take_steps(own, task, [batch])


def moved_by_the_last(own, **how):
    """How far the sum moves when the batch's last record leaves, in claimed sensitivities."""
    whole, without = (seen_of(own, batch, **how) for batch in (BATCH, BATCH[:-1]))
    assert torch.equal(whole.sensitivity[0], without.sensitivity[0])
    difference = whole.sums[0].double() - without.sums[0].double()
    return float((difference.norm(dim=1) / whole.sensitivity[0].double()).max())


class Scaling(FlatClip):
    """Hands over ``made`` of ones [R, B] as factors."""

    @staticmethod
    def made(ones):
        return ones

    def scale(self, released, norms, group):
        return self.made(torch.ones_like(norms))


def scaling(make):
    return type("Made", (Scaling,), {"made": staticmethod(make)})


@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize(
    "make",
    [
        lambda ones: lying(1e6 * ones),
        lambda ones: 1e6 * ones,
        lambda ones: (1000 * ones).long(),
        lambda ones: 1e6 * ones.double(),
        lambda ones: 1e4 * ones.half(),
        lambda ones: (1e6 * ones[:, :1]).expand(ones.shape),
        lambda ones: (1e6 * ones).mT.contiguous().mT,
        lambda ones: 1e6 * torch._neg_view(ones),
        lambda ones: math.nan * ones,
        lambda ones: -math.inf * ones,
        lambda ones: ones > 0,
        lambda ones: (1e6 * ones).requires_grad_(),
        lambda ones: nn.Parameter(1e6 * ones),
    ],
)
def test_factors_of_any_make_are_held_to_the_claim(make, repeats):
    assert moved_by_the_last(trainer(rule=scaling(make)), repeats=repeats) <= 1 + 1e-6


STRANGE_SHAPES = {
    "one for all records": lambda ones: ones[:, :1],
    "one for all replicates": lambda ones: ones[:1],
    "no axis of replicates": lambda ones: ones[0],
    "an axis more": lambda ones: ones.unsqueeze(-1),
    "an axis more in front": lambda ones: ones.unsqueeze(0),
    "a row for each": lambda ones: ones.unsqueeze(-1).expand(*ones.shape, 7),
    "a number": lambda ones: 1.0,
    "a tensor without axes": lambda ones: torch.tensor(1.0),
    "a list": lambda ones: ones.tolist(),
    "an array": lambda ones: ones.numpy(),
    "nothing": lambda ones: None,
    "complex": lambda ones: 1j * ones,
    "sparse": lambda ones: ones.to_sparse(),
    "without numbers": lambda ones: ones.to("meta"),
    "a record more": lambda ones: torch.cat([ones, ones[:, :1]], 1),
}


@pytest.mark.parametrize("strange", STRANGE_SHAPES)
@pytest.mark.parametrize("where", ["scale", "output gradient", "sensitivity"])
def test_what_is_not_one_number_or_row_for_each_is_refused(where, strange):
    make = STRANGE_SHAPES[strange]

    class Objective(Erm):
        def output_gradient(self, released, logits, targets, group):
            return make(Erm.output_gradient(self, released, logits, targets, group))

    class Claiming(FlatClip):
        def sensitivity(self, released):
            # Of one replicate [1] and of many a claim of the first alone would be broadcast.
            return make(released.unsqueeze(0)[:, :1].expand(-1, 2))

    own = {
        "scale": trainer(rule=scaling(make)),
        "output gradient": trainer(objective=Objective),
        "sensitivity": trainer(rule=Claiming),
    }
    # Three replicates of four records: each axis is of another length, and none of length 1.
    with pytest.raises(PrivacyError) as raised:
        seen_of(own[where], BATCH, repeats=3)
    assert raised.value.hint
    assert "\n" not in str(raised.value)
    assert where in raised.value.message


class Counts(FlatClip):
    """Asks a query of rows that ``row`` makes of zeros [R, B]; keeps the answers."""

    query_name = "count"
    query_noise_multiplier = 1.0
    row = None

    def init(self, replicates, facts):
        object.__setattr__(self, "answers", [])
        return FlatClip.init(self, replicates, facts)

    def query(self, state, norms, group):
        return type(self).row(torch.zeros_like(norms))

    def update(self, state, answer):
        self.answers.append(answer)
        return state


def counts(row):
    return type("Asks", (Counts,), {"row": staticmethod(row)})


def answer_of(row, records):
    asking = Asking(counts(row)(BOUND), 2, make_task(DPSGD, make_pool(40), repeats=2).facts(),
                    ToldNoise(0.0), is_limited=True)  # fmt: skip
    norms = torch.ones(2, records)
    asking.ask(norms, torch.zeros(2, records, dtype=torch.int64), None)
    return asking.part.answers[0].double()


def unit_rows_of_a_square(zeros):
    """[R, B, 16, 16]: each of its sixteen rows is of length 1, and the whole of length 4."""
    square = zeros[..., None, None].repeat(1, 1, 16, 16)
    square[..., 0] = 1.0
    return square


@pytest.mark.parametrize(
    "row",
    [
        unit_rows_of_a_square,
        lambda zeros: zeros[..., None, None] + 1.0,
        lambda zeros: zeros + 1.0,
        lambda zeros: zeros[:, :1, None] + 1.0,
        lambda zeros: zeros[:1, :, None] + 1.0,
        lambda zeros: zeros[0, :, None] + 1.0,
        lambda zeros: torch.cat([zeros, zeros], 1).unsqueeze(-1) + 1.0,
        lambda zeros: torch.complex(zeros, zeros + 1.0).unsqueeze(-1),
        lambda zeros: lying(unit_rows_of_a_square(zeros)),
        lambda zeros: 1.0,
    ],
)
def test_a_query_that_is_not_one_row_for_each_record_is_refused(row):
    with pytest.raises(PrivacyError, match="count"):
        answer_of(row, 5)


@pytest.mark.parametrize(
    "row",
    [
        lambda zeros: unit_rows_of_a_square(zeros).flatten(2),
        lambda zeros: lying(zeros.unsqueeze(-1) + 77.0),
        lambda zeros: (zeros.unsqueeze(-1) + 3.0).long(),
        lambda zeros: zeros.unsqueeze(-1) == 0.0,
        lambda zeros: (zeros.unsqueeze(-1) + 1.0).half().expand(-1, -1, 9),
        lambda zeros: torch._neg_view(zeros.unsqueeze(-1) + 5.0),
        lambda zeros: (zeros.unsqueeze(-1) + 1e30).double(),
        lambda zeros: zeros.new_zeros(*zeros.shape, 0),
    ],
)
def test_a_record_moves_the_answer_of_any_query_by_at_most_one(row):
    moved = (answer_of(row, 6) - answer_of(row, 5)).norm(dim=1)
    assert (moved <= 1 + 2e-6).all()


def spec_of(made):
    """A method that is dpsgd with another trainer, which the laws find in this module."""
    globals()["Tried"] = type(made)
    return replace(DPSGD.spec, trainer=f"{__name__}:Tried")


@pytest.mark.parametrize(
    ("own", "laws"),
    [
        (trainer(rule=counts(unit_rows_of_a_square)), {"query", "per-record"}),
        (trainer(rule=scaling(lambda ones: 1e-9 * ones[:, :1])), {"sensitivity", "per-record"}),
        (trainer(rule=scaling(lambda ones: 1e-9j * ones)), {"sensitivity", "per-record"}),
    ],
)
def test_the_laws_name_what_is_not_one_row_for_each_record(own, laws):
    broken = broken_laws(spec_of(own))
    assert laws <= set(broken)
    for law in laws:
        assert not broken[law].startswith("it raised"), broken[law]


class Shrinking(nn.Module):
    """A network whose gradients are so small that all their squares read as 0 in float32."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(
            torch.ones(2, 7)
        )  # of no layer, so that norms are not rounded up

    def forward(self, x):
        return x @ self.weight.mT * 1e-25


@pytest.mark.parametrize("factor", [1e30, -1e37, 1e20])
def test_a_gradient_whose_norm_reads_as_zero_is_held_to_the_claim(factor):
    own = trainer(rule=scaling(lambda ones: factor * ones))
    seen = seen_of(own, BATCH, module=Shrinking())
    assert not seen.norms[0].any()
    assert moved_by_the_last(own, module=Shrinking()) <= 1e-3
    # A factor that a small norm explains stays: gradients are of some 1e-25.
    gentle = seen_of(trainer(rule=scaling(lambda ones: 1e10 * ones)), BATCH, module=Shrinking())
    assert 1e-17 < float(gentle.sums[0].norm()) < 1e-12


HELD = []  # what the last objective handed over


class Keeping(Erm):
    def output_gradient(self, released, logits, targets, group):
        HELD[:] = [Erm.output_gradient(self, released, logits, targets, group)]
        return HELD[0]


class WritingLater(FlatClip):
    """Once norms are known, lengthens the output gradients of which they were computed."""

    def scale(self, released, norms, group):
        HELD[0].mul_(1e6)
        return FlatClip.scale(self, released, norms, group)


def test_what_was_handed_over_can_no_longer_be_written_to():
    own = trainer(rule=WritingLater, objective=Keeping)
    assert moved_by_the_last(own) <= 1 + 1e-6


class Wavering(Counts):
    """Says at each look that its noise is twice as large."""

    looks = 0

    @property
    def query_noise_multiplier(self):
        type(self).looks += 1
        return 2.0**self.looks

    @staticmethod
    def row(zeros):
        return zeros.unsqueeze(-1)


def test_a_query_is_charged_for_the_noise_that_was_drawn():
    own = trainer(rule=Wavering)
    task = make_task(DPSGD, make_pool(40), max_grad_norm=BOUND, noise_multiplier=1.0)
    network, training = own._set_up(task, [])
    loop = Loop(network, task.pool, replace(training, rule_noise=ToldNoise(1.0)))
    loop.take(3)
    drawn = {answer.item() for answer in loop.rule.part.answers}
    assert drawn == {loop.event().releases[1].noise_multiplier}


class OwnRelease(Release):
    """Adds no noise, and says that it does."""

    def __call__(self, sums, sensitivity, facts):
        return sums[0]

    def event(self):
        return NoisyRelease("gradient", 1.0)


@pytest.mark.parametrize("release", [OwnRelease(), GaussianRelease(1.0, ToldNoise(0.0))])
def test_whatever_claims_an_event_is_limited(release):
    task = make_task(DPSGD, make_pool(40), max_grad_norm=BOUND, noise_multiplier=1.0)
    network, training = DpSgd()._set_up(task, [])
    loop = Loop(network, task.pool, replace(training, release=release))
    assert loop.rule.is_limited
    assert loop.objective.is_limited


class Negative(ClippingRule):
    def __init__(self, claim):
        self.claim = claim

    def init(self, replicates, facts):
        return None

    def sensitivity(self, released):
        return self.claim

    def scale(self, released, norms, group):
        return torch.ones_like(norms)


@pytest.mark.parametrize(
    "claim", [torch.tensor([-1.0]), torch.tensor([math.nan]), lying(torch.tensor([math.inf]))]
)
def test_a_claim_that_is_no_length_is_refused(claim):
    asking = Asking(Negative(claim), 1, None, ToldNoise(0.0), is_limited=True)
    with pytest.raises(PrivacyError, match="sensitivity"):
        scaled(asking, torch.ones(1, 4), torch.zeros(1, 4, dtype=torch.int64))


def test_a_claim_in_whole_numbers_is_one():
    asking = Asking(Negative(torch.tensor([2])), 1, None, ToldNoise(0.0), is_limited=True)
    scale, claim = scaled(asking, torch.full((1, 3), 8.0), torch.zeros(1, 3, dtype=torch.int64))
    assert claim.tolist() == [2.0]
    assert scale[0].tolist() == pytest.approx([0.25] * 3, rel=2e-5)
