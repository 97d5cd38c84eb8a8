"""The laws that a private method must keep, for whoever writes one.

In pytest (``fairaudit methods --check NAME`` runs the same)::

    from fairaudit.testing import LAWS

    @pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
    def test_my_method(law):
        law(my_module.SPEC)

Each trains a few steps through the loop that ships, on records made to be unlike each other, and
raises :class:`LawBroken` with what was found. Settings stand at their defaults, at the ends of
their ranges and at corners of all ranges; batches have up to 257 records. They prove no guarantee;
they find what breaks one. Seeds are fixed.
Source: docs/methods.md 9.
"""

import importlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairaudit.engine.loop import NORM_GUARD, Loop, Training
from fairaudit.engine.optimizers import Optimizer
from fairaudit.engine.pool import Batch, TrainingPool
from fairaudit.engine.rules import ClippingRule, Objective, leaves
from fairaudit.engine.sampling import PoissonSampler
from fairaudit.engine.stacked import DEFAULT_BUDGET, Stacked
from fairaudit.methods.base import Task
from fairaudit.methods.defaults import PublicSizes
from fairaudit.methods.gradient import GradientMethod
from fairaudit.methods.spec import MethodSpec
from fairaudit.models.zoo import make_model

RECORDS, WIDTH, GROUPS, STEPS = 12, 5, 3, 4
SIZES = PublicSizes(
    RECORDS,
    WIDTH,
    "logistic",
    GROUPS,
    0,
    1.3,
    STEPS,
    RECORDS / STEPS,
)
NORMS = torch.tensor(
    [
        0.0,
        1e-6,
        0.01,
        0.3,
        0.999,
        1.0,
        1.001,
        3.0,
        17.0,
        1e3,
        1e6,
    ]
)
FEW = GROUPS * len(NORMS)  # records of a batch that has each of these norms in each group
LARGER_BATCHES = (65, 257)
LEFT_OUT = 12  # records of a batch that are left out in turn
MOST_CORNERS = 256  # of all ranges; some of them where there are more
# Answers that a rule's query was given so far, one list for each state that is looked at.
ANSWERS: tuple[list[float], ...] = (
    [],
    [0.0] * 3,
    [3.0, -40.0],
    [1e6, 1e6, -1e6],
    [-1e6] * 5,
    [0.3, 7.0, 2.0, 90.0],
)
RUNS = 1500  # replicates whose noise is looked at
SURE = 4.9  # standard errors that noise leaves with probability 1e-6
LONGEST_ROW = 1.0 + 1e-6  # of a query, whose sensitivity is 1

Law = Callable[[MethodSpec], None]


class LawBroken(AssertionError):
    """A law that a method breaks, with what was found."""


def private_by_steps(spec: MethodSpec) -> GradientMethod:
    """The trainer of a method that these laws can speak about.

    Raises:
        LawBroken: It has no guarantee to check, or does not train through this program's loop.
    """
    if not spec.is_private:
        raise LawBroken(f"{spec.name} claims no guarantee, so there is none to check")
    path, _, name = spec.trainer.partition(":")
    trainer = getattr(importlib.import_module(path), name)()
    kind = type(trainer)
    # It trains through this program's loop where it overrides neither of the two.
    if (
        not spec.trains_by_steps
        or not isinstance(trainer, GradientMethod)
        or kind.fit is not GradientMethod.fit
        or kind._set_up is not GradientMethod._set_up
    ):
        raise LawBroken(f"{spec.name} trains by code of its own, which these laws cannot follow")
    return trainer


def scaled_gradients_keep_the_sensitivity(spec: MethodSpec) -> None:
    """``scale * norm <= sensitivity`` for every norm, group and setting, whatever was answered."""
    for case in _everywhere(spec):
        norms, group = _norms(case.size)
        for rule, released in case.rules():
            scale = rule.scale(released, norms * NORM_GUARD, group)
            bound = rule.sensitivity(released).double().unsqueeze(1)
            if not bool((scale.isfinite() & (scale >= 0)).all()):
                raise case.broken("a scale is negative or not finite")
            worst = float((scale.double() * norms.double() / bound).max())
            if not worst <= 1 + 1e-6:
                raise case.broken(
                    f"a scaled gradient is {worst:.4g} times as long as the sensitivity that is "
                    "claimed"
                )


def a_record_is_treated_alone_as_in_company(spec: MethodSpec) -> None:
    """Scale, query row and output gradient of a record do not depend on the others.

    But for rounding.
    """
    for size in (FEW, *LARGER_BATCHES):
        case = _Case(spec, _defaults(spec), size)
        norms, group = _norms(size)
        for rule, released in case.rules():
            _alone("the scale", rule.scale, released, norms, group)
            if rule.query_noise_multiplier is not None:
                _alone("the query", rule.query, released, norms, group)
        objective, state = case.objective()
        logits = _logits(group)
        targets = torch.nn.functional.one_hot(group % 2, 2).float()
        _alone("the output gradient", objective.output_gradient, state, logits, targets, group)
        if objective.query_noise_multiplier is not None:
            _alone("the objective's query", objective.query, state, logits, group)


def a_record_moves_a_query_by_at_most_one(spec: MethodSpec) -> None:
    """A query's row has L2 norm at most 1.

    And one record more moves the exact answer by no more.
    """
    for case in _everywhere(spec):
        for rows in case.query_rows():
            longest = float(rows.double().norm(dim=-1).max())
            if not longest <= LONGEST_ROW:
                raise case.broken(
                    f"a row of the query is {longest:.4g} long, so one record moves it by that"
                )
    for size in (RECORDS, *LARGER_BATCHES):
        case = _Case(spec, _defaults(spec), size)
        for less, whole in case.neighbours():
            for part, twin in _parts(less, whole):
                for before, after in zip(part.answers, twin.answers, strict=True):
                    moved = float((after - before).double().norm(dim=1).max())
                    if not moved <= LONGEST_ROW + 1e-4:
                        raise case.broken(f"one record more moves an answer by {moved:.4g}")


def a_record_moves_the_sum_by_at_most_the_sensitivity(spec: MethodSpec) -> None:
    """One record more, all released values equal.

    The sum before noise moves by at most the sensitivity.
    """
    cases = [_Case(spec, settings, RECORDS) for settings in _ends(spec)]
    cases += [_Case(spec, _defaults(spec), size) for size in LARGER_BATCHES]
    for case in cases:
        for less, whole in case.neighbours():
            claims = less.rule.part.claims
            for before, after, claim in zip(less.sums, whole.sums, claims, strict=True):
                moved = float(((after - before).double().norm(dim=1) / claim.double()).max())
                if not moved <= 1 + 1e-4:
                    raise case.broken(f"one record more moves the sum by {moved:.4g} sensitivities")


def state_follows_from_releases_alone(spec: MethodSpec) -> None:
    """One record more, all released values equal: sensitivity and state stay equal, to the bit."""
    for less, whole in _Case(
        spec,
        _defaults(spec),
        RECORDS,
    ).neighbours():
        for claim, twin_claim in zip(less.rule.part.claims, whole.rule.part.claims, strict=True):
            if not torch.equal(claim, twin_claim):
                raise LawBroken("the sensitivity depends on the batch")
        for part, twin in _parts(less, whole):
            for leaf, twin_leaf in zip(part.states, twin.states, strict=True):
                if not torch.equal(torch.as_tensor(leaf), torch.as_tensor(twin_leaf)):
                    raise LawBroken("the state depends on the batch beyond what was released")


def noise_is_as_large_as_claimed(spec: MethodSpec) -> None:
    """A step without records releases noise alone.

    As large as claimed, new at every step and copy.
    """
    case = _Case(spec, _defaults(spec), RECORDS)
    done = case.trained_on([], repeats=RUNS)
    claims = torch.stack(done.rule.part.claims).double().unsqueeze(-1)
    # What is released is divided by the expected batch size, RECORDS / STEPS.
    noise = torch.stack(done.gradients).double() * RECORDS / STEPS
    _check_noise("the gradient", noise / (claims * case.settings["noise_multiplier"]))
    for part in (done.rule.part, done.objective.part):
        claimed = part.query_noise_multiplier
        if claimed is not None:
            _check_noise(part.query_name, torch.stack(part.answers).double() / claimed)


def the_event_is_what_the_loop_counted(spec: MethodSpec) -> None:
    """What a training released is what its description says before it, and nothing at noise 0."""
    case = _Case(spec, _defaults(spec), RECORDS)
    planned = spec.events(case.settings, STEPS, 1)
    counted = case.trained_on(list(range(RECORDS))).event()
    if planned != counted:
        raise LawBroken(f"training released {counted}, and the description says {planned}")
    silent = spec.without_noise(case.settings)
    claims_nothing = (
        silent is not None and _Case(spec, silent, RECORDS).trained_on([0]).event() is None
    )
    if not claims_nothing:
        raise LawBroken("without noise something is still claimed")


LAWS: dict[str, Law] = {
    "sensitivity": scaled_gradients_keep_the_sensitivity,
    "per-record": a_record_is_treated_alone_as_in_company,
    "query": a_record_moves_a_query_by_at_most_one,
    "contribution": a_record_moves_the_sum_by_at_most_the_sensitivity,
    "state": state_follows_from_releases_alone,
    "noise": noise_is_as_large_as_claimed,
    "event": the_event_is_what_the_loop_counted,
}


def broken_laws(spec: MethodSpec) -> dict[str, str]:
    """Every law that the method breaks, by name, with what was found.

    Empty where it keeps them all.
    """
    broken = {}
    for name, law in LAWS.items():
        try:
            law(spec)
        except LawBroken as error:
            broken[name] = str(error)
        except Exception as error:  # of the method's own code
            broken[name] = f"it raised {type(error).__name__}: {error}"
    return broken


class _Batches(PoissonSampler):
    """Deals the same records at every step; without any, padding to every replicate."""

    def __init__(self, records: list[int], repeats: int) -> None:
        self.steps_per_epoch = STEPS
        self.records_dealt, self.repeats = torch.tensor(records), repeats

    def draw(self) -> tuple[Tensor, Tensor | None]:
        if len(self.records_dealt):
            return self.records_dealt, None
        nobody = torch.full((self.repeats, 1), RECORDS)
        return nobody, nobody < RECORDS


class _Moving(Optimizer):
    """Keeps what was released, and moves the parameters by what nothing released decides."""

    def __init__(self) -> None:
        super().__init__(1.0)
        self.released: list[Tensor] = []

    def step(self, theta: Tensor, gradient: Tensor) -> None:
        self.released.append(gradient.clone())
        number = torch.arange(1, theta.shape[1] + 1)
        theta.add_(torch.sin(number * len(self.released) ** 2), alpha=0.2)


@dataclass
class _Watched:
    """A rule or an objective that keeps what it is asked and answers.

    Args:
        part: The rule or objective.
        is_replaced: Whether states move by fixed numbers instead of its answers, so that two
            trainings on other records see the same states: what differs then was read off a batch.
    """

    part: Any
    is_replaced: bool
    answers: list[Tensor] = field(default_factory=list)
    states: list[object] = field(default_factory=list)
    claims: list[Tensor] = field(default_factory=list)

    def __getattr__(self, name: str) -> object:
        of_part: object = getattr(self.part, name)
        return of_part

    def update(self, state: object, answer: Tensor) -> object:
        """Record the answer and hand it on, or a made-up answer in its place."""
        self.answers.append(answer.clone())
        if self.is_replaced:
            # Another number for every cell and step; some negative, as noise makes counts.
            cells = torch.linspace(
                -2.0,
                6.0,
                answer.shape[1],
            ) + len(self.answers)
            answer = cells.expand_as(answer).clone()
        after: object = self.part.update(state, answer)
        return after

    def sensitivity(self, released: object) -> Tensor:
        claim: Tensor = self.part.sensitivity(released)
        self.claims.append(claim.clone())
        return claim

    def step(self, released: object) -> object:
        for leaf in leaves(released):
            self.states.append(leaf.clone() if isinstance(leaf, Tensor) else leaf)
        after: object = self.part.step(released)
        return after


class _Unlimited(Loop):
    """A loop that leaves a method to keep its claims by itself, and the sums before noise."""

    def __init__(
        self,
        network: Stacked,
        pool: TrainingPool,
        training: Training,
    ) -> None:
        super().__init__(network, pool, training)
        self.rule.is_limited = self.objective.is_limited = False
        self.sums: list[Tensor] = []
        assert isinstance(training.optimizer, _Moving)
        self.gradients = training.optimizer.released

    def _close(
        self,
        sums: list[Tensor],
        sensitivity: Tensor,
        batch: Batch,
    ) -> Tensor:
        """Record the sum before it is released."""
        self.sums.append(sums[0].clone())
        return super()._close(sums, sensitivity, batch)


@dataclass(frozen=True)
class _Case:
    """A method at some settings, on so many records."""

    spec: MethodSpec
    settings: Mapping[str, float]
    size: int

    def broken(self, what: str) -> LawBroken:
        """What was found, with the settings that are not at their defaults."""
        default = _defaults(self.spec)
        moved = []
        for name, value in self.settings.items():
            if value != default[name]:
                moved.append(f"{name} {value:g}")
        return LawBroken(f"{what} at {', '.join(moved)}" if moved else what)

    def task(self, repeats: int = 1) -> Task:
        """A small training of the method under test, on made-up records."""
        source = {}
        if self.spec.control_of:
            series = np.geomspace(4.0, 2.0, STEPS, dtype=np.float32)
            source[self.spec.source_series] = series[:, None]
        return Task(
            arm=self.spec.name,
            seed=0,
            repeats=repeats,
            settings=self.settings,
            optimizer="sgd",
            model=make_model(
                "logistic",
                (WIDTH,),
                2,
                hidden=(),
                activation="tanh",
                seed=0,
            ),
            pool=_pool(self.size),
            steps_per_epoch=STEPS,
            epochs=1,
            n_public=RECORDS,
            sampling=["shared"] * repeats,
            source=source,
            budget=DEFAULT_BUDGET,
        )

    def rules(self) -> Iterator[tuple[ClippingRule[Any], Any]]:
        """The method's rule in states that answers of every kind lead to."""
        trainer, task = private_by_steps(self.spec), self.task()
        norms, group = _norms(FEW)
        for answers in ANSWERS:
            rule = trainer.rule(task)
            released = rule.init(1, task.facts())
            for answer in answers:
                if rule.query_noise_multiplier is not None:
                    cells = torch.full_like(
                        rule.query(
                            released,
                            norms,
                            group,
                        )[:, 0],
                        answer,
                    )
                    cells[:, 1::2] *= 0.5
                    released = rule.update(released, cells)
                released = rule.step(released)
            yield rule, released

    def objective(self) -> tuple[Objective[Any], Any]:
        """The method's objective in its first state."""
        task = self.task()
        objective: Objective[Any] = private_by_steps(self.spec).objective(task)
        return objective, objective.init(1, task.facts())

    def query_rows(self) -> Iterator[Tensor]:
        """Rows of all queries, in every state of the rule, [1, B, Q]."""
        norms, group = _norms(self.size)
        for rule, released in self.rules():
            if rule.query_noise_multiplier is not None:
                yield rule.query(released, norms, group)
        objective, state = self.objective()
        if objective.query_noise_multiplier is not None:
            yield objective.query(state, _logits(group), group)

    def trained_on(
        self,
        records: list[int],
        repeats: int = 1,
    ) -> _Unlimited:
        """STEPS steps on these records, whose batches are all of them.

        Sums are kept before their noise and gradients after it; neither moves the parameters.

        Answers of queries are replaced by the same numbers whichever records there are, so that
        neighbours go through the same states; of no records they stay as they are.
        """
        task = self.task(repeats)
        network, made = private_by_steps(self.spec)._set_up(task, [])
        is_replaced = bool(records)
        parts: dict[str, Any] = {
            "rule": _Watched(made.rule, is_replaced),
            "objective": _Watched(made.objective, is_replaced),
            "optimizer": _Moving(),
            "sampler": _Batches(records, repeats),
        }
        loop = _Unlimited(network, task.pool, replace(made, **parts))
        loop.take(STEPS)
        return loop

    def neighbours(self) -> Iterator[tuple[_Unlimited, _Unlimited]]:
        """Trainings on all records but one, and on all: some records in turn."""
        records = list(range(self.size))
        whole = self.trained_on(records)
        for left_out in np.linspace(
            0,
            self.size - 1,
            LEFT_OUT,
        ).astype(int):
            without = [*records[:left_out], *records[left_out + 1 :]]
            yield self.trained_on(without), whole


def _parts(first: Loop, second: Loop) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """The rules of two loops, and their objectives."""
    return (first.rule.part, second.rule.part), (first.objective.part, second.objective.part)


def _defaults(spec: MethodSpec) -> dict[str, float]:
    """Every setting at its default, or at an inner point of its range.

    Noise that is no special value.
    """
    settings = {}
    for name, setting in spec.settings.items():
        settings[name] = min(max(1.3, setting.low), setting.highest(SIZES))
        if setting.default:
            settings[name] = float(setting.default.value(SIZES))
    return settings


def _ends(spec: MethodSpec) -> Iterator[dict[str, float]]:
    """The defaults, then each setting in turn at either end of its range."""
    default = _defaults(spec)
    yield default
    for name, setting in spec.settings.items():
        for end in (setting.low, setting.highest(SIZES)):
            yield {**default, name: end}


def _everywhere(spec: MethodSpec) -> Iterator[_Case]:
    """Larger batches at the defaults, the ends of single settings, and corners of all ranges."""
    for size in LARGER_BATCHES:
        yield _Case(spec, _defaults(spec), size)
    for settings in _ends(spec):
        yield _Case(spec, settings, FEW)
    corners = 2 ** len(spec.settings)
    # A step that is odd visits corners at both ends of every range.
    for corner in range(0, corners, corners // MOST_CORNERS | 1):
        settings = {}
        for place, (name, setting) in enumerate(spec.settings.items()):
            is_high = corner >> place & 1
            settings[name] = setting.highest(SIZES) if is_high else setting.low
        yield _Case(spec, settings, FEW)


def _pool(size: int) -> TrainingPool:
    """Pairs of equal records with unlike labels, so that one of each pair is taken for the other.

    Of lengths from a hundredth to a thousand in every group; one record is zero.
    """
    number = torch.arange(size)
    pairs = -(-size // 2)
    directions = torch.sin(torch.arange(1.0, 1 + pairs * WIDTH)).view(pairs, WIDTH)
    x = (
        directions
        * torch.logspace(
            -2,
            3,
            pairs,
        ).unsqueeze(1)
    )[number // 2]
    x[2] = 0.0
    return TrainingPool(
        x,
        number % 2,
        number // 2 % GROUPS,
        n_classes=2,
        n_groups=GROUPS,
    )


def _norms(size: int) -> tuple[Tensor, Tensor]:
    """Norms of every size in every group, [1, size]."""
    number = torch.arange(size).unsqueeze(0)
    return NORMS[number % len(NORMS)], number // len(NORMS) % GROUPS


def _logits(group: Tensor) -> Tensor:
    """Logits of two classes, [1, B, 2]."""
    return 4.0 * torch.sin(torch.arange(2.0 * group.numel())).view(*group.shape, 2)


def _alone(
    what: str,
    call: Callable[..., Tensor],
    state: object,
    *batch: Tensor,
) -> None:
    """Check that a record's value, of tensors [1, B, ...], is the same without the others."""
    together = call(state, *batch).clone()
    for number in range(together.shape[1]):
        own = slice(number, number + 1)
        value = call(state, *(values[:, own] for values in batch))
        if not torch.allclose(value, together[:, own], 1e-5, 1e-7):
            raise LawBroken(f"{what} of a record depends on the records beside it")


def _check_noise(name: str, noise: Tensor) -> None:
    """Check that [T, R, D] are independent draws of variance 1."""
    count = noise.numel()
    spread = float(noise.square().mean())
    if abs(spread - 1) > SURE * math.sqrt(2 / count):
        raise LawBroken(
            f"the noise of {name} has {math.sqrt(spread):.3f} of the standard deviation claimed"
        )
    for axis, what in enumerate(("steps", "copies", "coordinates")):
        length = noise.shape[axis] - 1
        # Of neighbours along this axis, which are 0 in the mean where draws are independent.
        products = noise.narrow(
            axis,
            0,
            length,
        ) * noise.narrow(
            axis,
            1,
            length,
        )
        if length and abs(float(products.mean())) > SURE / math.sqrt(products.numel()):
            raise LawBroken(f"the noise of {name} is not new for all {what}")
