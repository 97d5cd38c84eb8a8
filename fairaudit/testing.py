"""The laws that a private method must keep, for whoever writes one.

In pytest (``fairaudit methods --check NAME`` runs the same)::

    from fairaudit.testing import LAWS

    @pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
    def test_my_method(law):
        law(my_module.SPEC)

Each trains a few steps through the loop that ships, on records made to be unlike each other, and raises
:class:`LawBroken` with what was found. They prove no guarantee; they find what breaks one. Seeds are fixed.
Source: docs/methods.md 9.
"""

import importlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairaudit.engine.loop import NORM_GUARD, Loop, Training
from fairaudit.engine.optimizers import Optimizer
from fairaudit.engine.pool import Batch, TrainingPool
from fairaudit.engine.release import GradientSum
from fairaudit.engine.rules import ClippingRule, Objective
from fairaudit.engine.sampling import PoissonSampler
from fairaudit.engine.stacked import DEFAULT_BUDGET, Stacked
from fairaudit.methods.base import Task
from fairaudit.methods.defaults import PublicSizes
from fairaudit.methods.gradient import GradientMethod
from fairaudit.methods.spec import MethodSpec
from fairaudit.models.zoo import make_model
from fairaudit.privacy.streams import numpy_stream

RECORDS, WIDTH, GROUPS, STEPS = 8, 5, 3, 4
RUNS = 1500  # replicates whose noise is looked at
SURE = 4.9  # standard errors that noise leaves with probability 1e-6
LONGEST_ROW = 1.0 + 1e-6  # of a query, whose sensitivity is 1

Law = Callable[[MethodSpec], None]


class LawBroken(AssertionError):
    """A law that a method breaks, with what was found."""


class _Batches(PoissonSampler):
    """Deals the same records at every step."""

    def __init__(self, dealt: Tensor, nobody: int) -> None:
        self.dealt, self.nobody = dealt, nobody
        self.steps_per_epoch = STEPS

    def draw(self) -> tuple[Tensor, Tensor | None]:
        if len(self.dealt) == 1:
            return self.dealt[0], None
        return self.dealt, self.dealt < self.nobody


class _Still(Optimizer):
    """Keeps what was released, and moves the parameters as it is told."""

    def __init__(self, seed: int) -> None:
        super().__init__(1.0)
        self.stream, self.released = numpy_stream(seed, "split", "laws"), list[Tensor]()

    def step(self, theta: Tensor, gradient: Tensor) -> None:
        self.released.append(gradient.clone())
        theta.add_(torch.from_numpy(self.stream.uniform(-0.2, 0.2, theta.shape[1]).astype(np.float32)))


@dataclass
class _Watched:
    """A rule or an objective whose noised answers are replaced by ``told``; what passes is kept."""

    part: Any
    told: bool
    answers: list[Tensor] = field(default_factory=list)
    released: list[dict[str, Tensor]] = field(default_factory=list)
    claims: list[Tensor] = field(default_factory=list)

    def __getattr__(self, name: str) -> object:
        found: object = getattr(self.part, name)
        return found

    def update(self, state: object, answer: Tensor) -> object:
        self.answers.append(answer.clone())
        if self.told:
            cells = torch.linspace(-2.0, 6.0, answer.shape[1]) + len(self.answers)
            answer = cells.expand_as(answer).clone()
        after: object = self.part.update(state, answer)
        return after

    def sensitivity(self, released: object) -> Tensor:
        self.claims.append(self.part.sensitivity(released).clone())
        return self.claims[-1].clone()

    def step(self, released: object) -> object:
        self.released.append(_tensors(released))
        after: object = self.part.step(released)
        return after


@dataclass
class _Steps:
    """A few steps of a method: its watched parts, sums before noise and released gradients, [R, P] each."""

    rule: _Watched
    objective: _Watched
    sums: list[Tensor]
    gradients: list[Tensor]
    loop: Loop


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
    own = [
        each for each in ("fit", "_set_up") if getattr(kind, each, None) is not getattr(GradientMethod, each)
    ]
    if not isinstance(trainer, GradientMethod) or own or not spec.trains_by_steps:
        raise LawBroken(f"{spec.name} trains by code of its own, which these laws cannot follow")
    return trainer


def scaled_gradients_keep_the_sensitivity(spec: MethodSpec) -> None:
    """``scale * norm <= sensitivity`` for every norm and group, whatever was answered so far."""
    for rule, released in _states(spec):
        norms, group = _norms()
        scale, bound = rule.scale(released, norms * NORM_GUARD, group), rule.sensitivity(released)
        if not bool((scale.isfinite() & (scale >= 0)).all()):
            raise LawBroken("a scale is negative or not finite")
        worst = float((scale.double() * norms.double() / bound.double().unsqueeze(1)).max())
        if not worst <= 1 + 1e-6:
            raise LawBroken(
                f"a scaled gradient is {worst:.4g} times as long as the sensitivity that is claimed"
            )


def a_record_is_treated_alone_as_in_company(spec: MethodSpec) -> None:
    """Scale, query row and output gradient of a record do not depend on the others, but for rounding."""
    trainer = private_by_steps(spec)
    task = _task(spec)
    norms, group = _norms()
    for rule, released in _states(spec):
        _alone("the scale", partial(_of_some, rule.scale, released, norms, group))
        if rule.query_noise_multiplier is not None:
            _alone("the query", partial(_of_some, rule.query, released, norms, group))
    objective: Objective[Any] = trainer.objective(task)
    state = objective.init(1, task.facts())
    logits = torch.from_numpy(
        numpy_stream(0, "split", "logits").uniform(-4, 4, (1, norms.shape[1], 2))
    ).float()
    targets = torch.nn.functional.one_hot(group % 2, 2).float()
    _alone("the output gradient", partial(_of_some, objective.output_gradient, state, logits, targets, group))
    if objective.query_noise_multiplier is not None:
        _alone("the objective's query", partial(_of_some, objective.query, state, logits, group))


def a_record_moves_a_query_by_at_most_one(spec: MethodSpec) -> None:
    """A query's row has L2 norm at most 1, and one record more moves the exact answer by no more."""
    norms, group = _norms()
    for rule, released in _states(spec):
        if rule.query_noise_multiplier is not None:
            longest = float(rule.query(released, norms, group).double().norm(dim=-1).max())
            if longest > LONGEST_ROW:
                raise LawBroken(f"a row of the query is {longest:.4g} long, so one record moves it by that")
    for one, other in _neighbours(spec):
        for a, b in ((one.rule, other.rule), (one.objective, other.objective)):
            for before, after in zip(a.answers, b.answers, strict=True):
                moved = float((after - before).double().norm(dim=1).max())
                if moved > LONGEST_ROW + 1e-4:
                    raise LawBroken(f"one record more moves an answer by {moved:.4g}")


def a_record_moves_the_sum_by_at_most_the_sensitivity(spec: MethodSpec) -> None:
    """One record more, all released values equal: the sum before noise moves by at most the sensitivity."""
    for one, other in _neighbours(spec):
        for before, after, claim in zip(one.sums, other.sums, one.rule.claims, strict=True):
            moved = (after - before).double().norm(dim=1) / claim.double()
            if not bool((moved <= 1 + 1e-4).all()):
                raise LawBroken(f"one record more moves the sum by {float(moved.max()):.4g} sensitivities")


def state_follows_from_releases_alone(spec: MethodSpec) -> None:
    """One record more, all released values equal: sensitivity and state stay equal, to the bit."""
    for one, other in _neighbours(spec):
        for a, b in zip(one.rule.claims, other.rule.claims, strict=True):
            if not torch.equal(a, b):
                raise LawBroken("the sensitivity depends on the batch")
        for part, twin in ((one.rule, other.rule), (one.objective, other.objective)):
            for state, copy in zip(part.released, twin.released, strict=True):
                odd = [name for name in state if not torch.equal(state[name], copy[name])]
                if odd:
                    raise LawBroken(f"the state {odd[0]!r} depends on the batch beyond what was released")


def noise_is_as_large_as_claimed(spec: MethodSpec) -> None:
    """A step without records releases noise alone: as large as claimed, new at every step and copy."""
    settings = _settings(spec)
    done = _take(spec, [], repeats=RUNS)
    expected = RECORDS / STEPS
    claims = torch.stack(done.rule.claims).double().unsqueeze(-1)
    noise = torch.stack(done.gradients).double() * expected / (claims * settings["noise_multiplier"])
    _is_noise("the gradient", noise)
    for part in (done.rule, done.objective):
        claimed = part.part.query_noise_multiplier
        if claimed is not None:
            _is_noise(part.part.query_name, torch.stack(part.answers).double() / claimed)


def the_event_is_what_the_loop_counted(spec: MethodSpec) -> None:
    """What a training released is what its description says before it, and nothing at noise 0."""
    done = _take(spec, list(range(RECORDS)))
    planned, counted = spec.events(_settings(spec), STEPS, 1), done.loop.event()
    if planned != counted:
        raise LawBroken(f"training released {counted}, and the description says {planned}")
    silent = spec.without_noise(_settings(spec))
    if silent is None or _take(spec, list(range(RECORDS)), settings=silent).loop.event() is not None:
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
    """Every law that the method breaks, by name, with what was found; empty where it keeps them all."""
    found = {}
    for name, law in LAWS.items():
        try:
            law(spec)
        except LawBroken as error:
            found[name] = str(error)
        except Exception as error:  # of the method's own code
            found[name] = f"it raised {type(error).__name__}: {error}"
    return found


def _settings(spec: MethodSpec) -> dict[str, float]:
    """Every setting at its default, or at an inner point of its range; noise that is no special value."""
    sizes = PublicSizes(RECORDS, WIDTH, "logistic", GROUPS, 0, 1.3, STEPS, RECORDS / STEPS)
    found = {}
    for name, setting in spec.settings.items():
        high = setting.high if isinstance(setting.high, float | int) else setting.high.value(sizes)
        value = setting.default.value(sizes) if setting.default else min(max(1.3, setting.low), high)
        found[name] = float(value)
    return found


def _pool() -> TrainingPool:
    """Records of lengths from a hundredth to a hundred, one of them zero."""
    stream = numpy_stream(0, "split", "records")
    x = stream.uniform(-2, 2, size=(RECORDS, WIDTH)) * np.geomspace(0.01, 100.0, RECORDS)[:, None]
    x[2] = 0.0
    labels, groups = torch.arange(RECORDS) % 2, torch.arange(RECORDS) % GROUPS
    return TrainingPool(torch.from_numpy(x.astype(np.float32)), labels, groups, n_classes=2, n_groups=GROUPS)


def _task(spec: MethodSpec, repeats: int = 1, settings: Mapping[str, float] | None = None) -> Task:
    series = np.geomspace(4.0, 2.0, STEPS, dtype=np.float32)[:, None]
    return Task(
        arm=spec.name,
        seed=0,
        repeats=repeats,
        settings=_settings(spec) if settings is None else settings,
        optimizer="sgd",
        model=make_model("logistic", (WIDTH,), 2, hidden=(), activation="tanh", seed=0),
        pool=_pool(),
        steps_per_epoch=STEPS,
        epochs=1,
        n_public=RECORDS,
        sampling=["shared", *(f"own/{number}" for number in range(1, repeats))],
        source={spec.source_series: series} if spec.control_of else {},
        budget=DEFAULT_BUDGET,
    )


def _take(
    spec: MethodSpec, records: list[int], *, repeats: int = 1, settings: Mapping[str, float] | None = None
) -> _Steps:
    """Some steps on these records. Answers are told where there are any, so that neighbours hear the same."""
    trainer, task = private_by_steps(spec), _task(spec, repeats, settings)
    network, made = trainer._set_up(task, [])
    told = bool(records)
    rule, objective = _Watched(made.rule, told), _Watched(made.objective, told)
    optimizer, sums = _Still(0), list[Tensor]()
    nobody = task.pool.n_records
    index = torch.tensor([records or [nobody]]).expand(repeats, -1)
    parts: dict[str, Any] = {"rule": rule, "objective": objective}
    made = replace(made, **parts, optimizer=optimizer, sampler=_Batches(index, nobody))
    loop = _Summing(network, task.pool, made, sums)
    loop.take(STEPS)
    return _Steps(rule, objective, sums, optimizer.released, loop)


class _Summing(Loop):
    """Keeps the sums that a release is given."""

    def __init__(self, network: Stacked, pool: TrainingPool, training: Training, kept: list[Tensor]) -> None:
        super().__init__(network, pool, training)
        self.kept = kept

    def _close(self, sums: dict[GradientSum, Tensor], sensitivity: Tensor, batch: Batch) -> Tensor:
        self.kept.append(sums[self.training.release.rows[0]].clone())
        return super()._close(sums, sensitivity, batch)


def _neighbours(spec: MethodSpec) -> Iterator[tuple[_Steps, _Steps]]:
    """Trainings on all records but one, and on all: each record in turn."""
    everybody = list(range(RECORDS))
    whole = _take(spec, everybody)
    for left_out in everybody:
        yield _take(spec, [number for number in everybody if number != left_out]), whole


def _states(spec: MethodSpec) -> Iterator[tuple[ClippingRule[Any], Any]]:
    """The method's rule in states that answers of every kind lead to."""
    trainer, task = private_by_steps(spec), _task(spec)
    norms, group = _norms()
    for answers in ([], [0.0] * 3, [3.0, -40.0], [1e6, 1e6, -1e6], [-1e6] * 5, [0.3, 7.0, 2.0, 90.0]):
        rule = trainer.rule(task)
        released = rule.init(1, task.facts())
        for answer in answers:
            if rule.query_noise_multiplier is not None:
                like = rule.query(released, norms, group)[:, 0]
                signs = torch.where(torch.arange(like.shape[1]) % 2 == 0, 1.0, 0.5)
                released = rule.update(released, (answer * signs).expand_as(like).clone())
            released = rule.step(released)
        yield rule, released


def _norms() -> tuple[Tensor, Tensor]:
    """Norms of every size, each in every group, [1, B]."""
    sizes = torch.tensor([0.0, 1e-6, 0.01, 0.3, 0.999, 1.0, 1.001, 3.0, 17.0, 1e3, 1e6])
    return sizes.repeat(GROUPS).unsqueeze(0), torch.arange(GROUPS).repeat_interleave(len(sizes)).unsqueeze(0)


def _of_some(call: Callable[..., Tensor], state: object, *values: Tensor | slice) -> Tensor:
    """The value for some records, the last argument: a slice."""
    *batch, records = values
    return call(state, *(each[:, records] for each in batch if isinstance(each, Tensor)))


def _alone(what: str, value: Callable[[slice], Tensor]) -> None:
    together = value(slice(None)).clone()
    for number in range(together.shape[1]):
        if not torch.allclose(value(slice(number, number + 1)), together[:, number : number + 1], 1e-5, 1e-7):
            raise LawBroken(f"{what} of a record depends on the records beside it")


def _is_noise(name: str, noise: Tensor) -> None:
    """Whether [T, R, ...] are independent draws of variance 1."""
    count = noise.numel()
    spread = float(noise.square().mean())
    if abs(spread - 1) > SURE * math.sqrt(2 / count):
        raise LawBroken(f"the noise of {name} has {math.sqrt(spread):.3f} of the standard deviation claimed")
    pairs = {
        "steps": (noise[:-1], noise[1:]),
        "copies": (noise[:, :-1], noise[:, 1:]),
        "coordinates": (noise[..., :-1], noise[..., 1:]),
    }
    for what, (one, other) in pairs.items():
        if one.numel() and abs(float((one * other).mean())) > SURE / math.sqrt(one.numel()):
            raise LawBroken(f"the noise of {name} is not new for all {what}")


def _tensors(state: object) -> dict[str, Tensor]:
    """The tensors of a state, by name."""
    if isinstance(state, Tensor):
        return {"state": state.clone()}
    parts: dict[str, object] = {}
    if is_dataclass(state):
        parts = {each.name: getattr(state, each.name) for each in fields(state)}
    elif isinstance(state, tuple | list):
        parts = {str(number): each for number, each in enumerate(state)}
    return {f"{name}/{key}": t for name, each in parts.items() for key, t in _tensors(each).items()}
