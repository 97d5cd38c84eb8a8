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

Neighbours are two trainings of which one lacks a record of the other. A method has two parts that
may ask the batch a noised query: its rule, which scales each record's gradient to a claimed
sensitivity, and its objective, which is differentiated. A part's state moves by released values
alone. Tensors have the shape [R, B, ...] of R replicates (runs side by side) and B records of a
batch; Q is the number of cells of a query.
Source: docs/methods.md 9.
"""

import importlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairaudit.engine.contributions import NORM_GUARD, numbers
from fairaudit.engine.loop import Loop, Training
from fairaudit.engine.optimizers import Optimizer
from fairaudit.engine.pool import Batch, TrainingPool
from fairaudit.engine.rules import ClippingRule, Objective, StepRecords, leaves
from fairaudit.engine.sampling import PoissonSampler
from fairaudit.engine.stacked import DEFAULT_BUDGET, Stacked
from fairaudit.errors import PrivacyError
from fairaudit.methods.base import Task
from fairaudit.methods.defaults import PublicSizes
from fairaudit.methods.gradient import GradientMethod
from fairaudit.methods.spec import MethodSpec
from fairaudit.models.zoo import make_model

RECORDS, WIDTH, GROUPS, STEPS = 12, 5, 3, 4  # WIDTH: inputs of a record; STEPS: of the one epoch
SIZES = PublicSizes(
    n_public=RECORDS,
    columns=WIDTH,
    model="logistic",
    groups=GROUPS,
    noise_multiplier=1.3,
    steps=STEPS,
    expected_batch_size=RECORDS / STEPS,
)
NORMS = torch.tensor(  # of gradients, which a rule is handed
    [0.0, 1e-6, 0.01, 0.3, 0.999, 1.0, 1.001, 3.0, 17.0, 1e3, 1e6]
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
SURE = 4.9  # standard errors that an honest mean exceeds with probability 1e-6
LONGEST_ROW = 1.0 + 1e-6  # norm of a query's row, which its sensitivity of 1 allows; with rounding

Law = Callable[[MethodSpec], None]


class LawBroken(AssertionError):
    """A law that a method breaks, with what was found."""


def private_by_steps(spec: MethodSpec) -> GradientMethod:
    """The trainer of a method that these laws can check.

    Raises:
        LawBroken: It has no guarantee to check, or does not train through this program's loop.

    Example:
        >>> from fairaudit.methods.catalog import find
        >>> type(private_by_steps(find("dpsgd"))).__name__
        'DpSgd'
        >>> private_by_steps(find("sgd"))
        Traceback (most recent call last):
        fairaudit.testing.LawBroken: sgd claims no guarantee, so there is none to check
    """
    if not spec.is_private:
        raise LawBroken(f"{spec.name} claims no guarantee, so there is none to check")
    path, _, name = spec.trainer.partition(":")
    trainer = getattr(importlib.import_module(path), name)()
    kind = type(trainer)
    # A trainer that overrides neither ``fit`` nor ``_set_up`` trains through this program's loop.
    if (
        not spec.trains_by_steps
        or not isinstance(trainer, GradientMethod)
        or kind.fit is not GradientMethod.fit
        or kind._set_up is not GradientMethod._set_up
    ):
        raise LawBroken(f"{spec.name} trains by code of its own, which these laws cannot follow")
    return trainer


def scaled_gradients_keep_the_sensitivity(spec: MethodSpec) -> None:
    """Check that ``scale * norm <= sensitivity`` for every norm, group and setting.

    It is checked in every state that the rule reaches by the answers in ANSWERS, however strange.

    Raises:
        LawBroken: A factor is negative or not finite, or makes a gradient longer than claimed.

    Example:
        >>> from fairaudit.methods.catalog import find
        >>> scaled_gradients_keep_the_sensitivity(find("dpsgd-f"))  # silent: it keeps the law
    """
    for case in _cases(spec):
        norms, group = _norms_and_groups(case.size)
        for rule, released in case.rules():
            # As the loop does: a rule is handed norms that are longer by what rounding may hide.
            scale = _factors(rule, released, norms * NORM_GUARD, group)
            claim = _as_numbers("the sensitivity", rule.sensitivity(released), norms.shape[:1])
            bound = claim.double().unsqueeze(1)
            if not bool((scale.isfinite() & (scale >= 0)).all()):
                raise case.broken("a scale is negative or not finite")
            worst = float((scale.double() * norms.double() / bound).max())
            if not worst <= 1 + 1e-6:  # refuses NaN, too
                raise case.broken(
                    f"a scaled gradient is {worst:.4g} times as long as the sensitivity that is "
                    "claimed"
                )


def a_record_is_treated_alone_as_in_company(spec: MethodSpec) -> None:
    """Check that a record's scale, query row and output gradient read no other record of the batch.

    Each is compared with what the record has in a batch of its own; rounding is no difference.

    Raises:
        LawBroken: One of them differs.

    Example:
        >>> from fairaudit.methods.catalog import find
        >>> a_record_is_treated_alone_as_in_company(find("dpsgd-f"))  # silent: it keeps the law
    """
    for size in (FEW, *LARGER_BATCHES):  # records of a batch
        case = _Case(spec, _defaults(spec), size)
        norms, group = _norms_and_groups(size)
        for rule, released in case.rules():
            _test_alone("the scale", partial(_factors, rule), released, norms, group)
            if rule.query_noise_multiplier is not None:
                _test_alone("the query", partial(_rows, rule), released, norms, group)
        records = _records(group)
        for objective, released in case.objectives():
            gradient = partial(_output_gradient, objective)
            _test_alone("the output gradient", gradient, released, *records)
            if objective.query_noise_multiplier is not None:
                query = partial(_rows_of_records, objective)
                _test_alone("the query", query, released, *records)


def a_record_moves_a_query_by_at_most_one(spec: MethodSpec) -> None:
    """Check that a query has sensitivity 1.

    A record's row has L2 norm at most 1, and one record more moves the answer before noise by at
    most 1 in L2 norm.

    Raises:
        LawBroken: A row is longer, or an answer moves by more.

    Example:
        >>> from fairaudit.methods.catalog import find
        >>> a_record_moves_a_query_by_at_most_one(find("dpsgd-f"))  # silent: it keeps the law
    """
    for case in _cases(spec):
        for rows in case.query_rows():
            longest = float(rows.double().norm(dim=-1).max())
            if not longest <= LONGEST_ROW:
                raise case.broken(
                    f"a row of the query is {longest:.4g} long, so one record moves it by that"
                )
    for size in (RECORDS, *LARGER_BATCHES):
        case = _Case(spec, _defaults(spec), size)
        for fewer, whole in case.neighbours():
            for part, whole_part in _matching_parts(fewer, whole):
                for answer, whole_answer in zip(part.answers, whole_part.answers, strict=True):
                    # Both have the same noise, which the difference cancels but for rounding.
                    moved = float((whole_answer - answer).double().norm(dim=1).max())
                    if not moved <= LONGEST_ROW + 1e-4:
                        raise case.broken(f"one record more moves an answer by {moved:.4g}")


def a_record_moves_the_sum_by_at_most_the_sensitivity(spec: MethodSpec) -> None:
    """Check that one record more moves the sum of scaled gradients by at most the sensitivity.

    All released values are the same for both neighbours.

    Raises:
        LawBroken: The sum before noise moves by more.

    Example:
        >>> from fairaudit.methods.catalog import find
        >>> a_record_moves_the_sum_by_at_most_the_sensitivity(find("dpsgd-f"))  # silent: it does
    """
    cases = [_Case(spec, settings, RECORDS) for settings in _settings_at_ends(spec)]
    cases += [_Case(spec, _defaults(spec), size) for size in LARGER_BATCHES]
    for case in cases:
        for fewer, whole in case.neighbours():
            claims = fewer.rule.part.claims  # "state" checks that those of ``whole`` are equal
            for total, whole_total, claim in zip(fewer.sums, whole.sums, claims, strict=True):
                moved = float(((whole_total - total).double().norm(dim=1) / claim.double()).max())
                if not moved <= 1 + 1e-4:
                    raise case.broken(f"one record more moves the sum by {moved:.4g} sensitivities")


def state_follows_from_releases_alone(spec: MethodSpec) -> None:
    """Check that sensitivity and states are equal for neighbours, to the bit.

    All released values are the same for both, so what differs was read off the batch.

    Raises:
        LawBroken: A sensitivity or a state differs.

    Example:
        >>> from fairaudit.methods.catalog import find
        >>> state_follows_from_releases_alone(find("dpsgd-f"))  # silent: it keeps the law
    """
    for fewer, whole in _Case(spec, _defaults(spec), RECORDS).neighbours():
        for claim, whole_claim in zip(fewer.rule.part.claims, whole.rule.part.claims, strict=True):
            if not torch.equal(claim, whole_claim):
                raise LawBroken("the sensitivity depends on the batch")
        for part, whole_part in _matching_parts(fewer, whole):
            for leaf, whole_leaf in zip(part.states, whole_part.states, strict=True):
                if not torch.equal(torch.as_tensor(leaf), torch.as_tensor(whole_leaf)):
                    raise LawBroken("the state depends on the batch beyond what was released")


def noise_is_as_large_as_claimed(spec: MethodSpec) -> None:
    """Check the noise of gradient and queries in steps without records, which release noise alone.

    The noise must be as large as claimed, and new for every step, replicate and coordinate.

    Raises:
        LawBroken: The noise is smaller or larger, or drawn more than once.

    Example:
        >>> from fairaudit.methods.catalog import find
        >>> noise_is_as_large_as_claimed(find("dpsgd-f"))  # silent: it keeps the law
    """
    case = _Case(spec, _defaults(spec), RECORDS)
    loop = case.trained_on([], repeats=RUNS)
    claims = torch.stack(loop.rule.part.claims).double().unsqueeze(-1)  # [T, R, 1]
    # A step releases the sum over the expected batch size, RECORDS / STEPS: multiplied back here.
    noise = torch.stack(loop.gradients).double() * RECORDS / STEPS
    _check_noise("the gradient", noise / (claims * case.settings["noise_multiplier"]))
    for part in (loop.rule.part, loop.objective.part):
        claimed = part.query_noise_multiplier
        if claimed is not None:
            _check_noise(part.query_name, torch.stack(part.answers).double() / claimed)


def the_event_is_what_the_loop_counted(spec: MethodSpec) -> None:
    """Check that the loop counts the privacy event that the method's description plans.

    Also that the description gives settings without noise, and that with these nothing is claimed.

    Raises:
        LawBroken: The two events differ, there are no settings without noise, or an event is
            claimed without noise.

    Example:
        >>> from fairaudit.methods.catalog import find
        >>> the_event_is_what_the_loop_counted(find("dpsgd-f"))  # silent: it keeps the law
    """
    case = _Case(spec, _defaults(spec), RECORDS)
    planned = spec.events(case.settings, STEPS, 1)
    counted = case.trained_on(list(range(RECORDS))).event()
    if planned != counted:
        raise LawBroken(f"training released {counted}, and the description says {planned}")
    noiseless = spec.without_noise(case.settings)
    if noiseless is None or _Case(spec, noiseless, RECORDS).trained_on([0]).event() is not None:
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
    """Every law that the method breaks: name of the law -> what was found, in words.

    Empty where it keeps them all. A law at which the method's own code raises counts as broken.

    Example:
        >>> from fairaudit.methods.catalog import find
        >>> broken_laws(find("dpsgd"))
        {}
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


class _FixedBatches(PoissonSampler):
    """Deals the same records at every step, to one replicate; or none at all, to any number."""

    def __init__(self, records: list[int], repeats: int) -> None:
        self.steps_per_epoch = STEPS
        self.records_dealt, self.repeats = torch.tensor(records), repeats

    def draw(self) -> tuple[Tensor, Tensor | None]:
        """The records [B] and None; without records one entry of padding for every replicate.

        Padding has the number of the pool's null record, and False for its presence, [R, 1] each.
        """
        if len(self.records_dealt):
            return self.records_dealt, None
        # The null record's number is N, which is RECORDS: no other pool is trained on no records.
        nobody = torch.full((self.repeats, 1), RECORDS)
        return nobody, nobody < RECORDS


class _RecordingOptimizer(Optimizer):
    """Keeps the released gradients, and moves the parameters by numbers fixed beforehand.

    With fixed moves neighbours pass through the same parameters.
    """

    def __init__(self) -> None:
        super().__init__(1.0)  # a learning rate that ``step`` does not read
        self.released: list[Tensor] = []

    def step(self, theta: Tensor, gradient: Tensor) -> None:
        """Keep the gradient [R, P] and move ``theta [R, P]`` by sines of place and step."""
        self.released.append(gradient.clone())
        number = torch.arange(1, theta.shape[1] + 1)
        theta.add_(torch.sin(number * len(self.released) ** 2), alpha=0.2)


@dataclass
class _RecordedPart:
    """Stands in for a rule or an objective, passes calls on to it and records what went through.

    Args:
        part: The rule or objective.
        is_replaced: Whether the part is handed fixed numbers in place of the noised answers to its
            query, so that neighbours pass through the same states: what differs then was read off
            a batch.
        answers: The noised answers of its query, [R, Q] each, one a step.
        states: Tensors and numbers of its state, of all steps.
        claims: The sensitivities that a rule claimed, [R] each, one a step.
    """

    part: Any
    is_replaced: bool
    answers: list[Tensor] = field(default_factory=list)
    states: list[object] = field(default_factory=list)
    claims: list[Tensor] = field(default_factory=list)

    def __getattr__(self, name: str) -> object:
        """The part's own attribute, for all that is not recorded here."""
        of_part: object = getattr(self.part, name)
        return of_part

    def update(self, state: object, answer: Tensor) -> object:
        """Record the noised answer and hand it to the part, or fixed numbers in its place."""
        self.answers.append(answer.clone())
        if self.is_replaced:
            # A different number for every cell and step; some negative, as noised counts may be.
            cells = torch.linspace(-2.0, 6.0, answer.shape[1]) + len(self.answers)
            answer = cells.expand_as(answer).clone()
        after: object = self.part.update(state, answer)
        return after

    def sensitivity(self, released: object) -> Tensor:
        """The sensitivity that the rule claims, [R], which is recorded."""
        claim: Tensor = self.part.sensitivity(released)
        self.claims.append(claim.clone())
        return claim

    def step(self, released: object) -> object:
        """The part's next state; the state ``released``, which the part leaves, is recorded."""
        for leaf in leaves(released):
            self.states.append(leaf.clone() if isinstance(leaf, Tensor) else leaf)
        after: object = self.part.step(released)
        return after


class _UnlimitedLoop(Loop):
    """The loop that ships, without its own limits on factors and rows, so that breaches show.

    ``sums`` are those of the scaled gradients before noise, ``gradients`` what was released, [R, P]
    each, one a step.
    """

    def __init__(self, network: Stacked, pool: TrainingPool, training: Training) -> None:
        super().__init__(network, pool, training)
        self.rule.is_limited = self.objective.is_limited = False
        self.sums: list[Tensor] = []
        assert isinstance(training.optimizer, _RecordingOptimizer)
        self.gradients = training.optimizer.released

    def _close(self, sums: list[Tensor], sensitivity: Tensor, batch: Batch) -> Tensor:
        """Record the sum of scaled gradients, then let the loop make the step's gradient of it."""
        self.sums.append(sums[0].clone())
        return super()._close(sums, sensitivity, batch)


@dataclass(frozen=True)
class _Case:
    """A method to be checked at some settings, on ``size`` made-up records."""

    spec: MethodSpec
    settings: Mapping[str, float]
    size: int

    def broken(self, what: str) -> LawBroken:
        """The error to raise: what was found, and the settings that are not at their defaults."""
        default = _defaults(self.spec)
        changed = []
        for name, value in self.settings.items():
            if value != default[name]:
                changed.append(f"{name} {value:g}")
        return LawBroken(f"{what} at {', '.join(changed)}" if changed else what)

    def task(self, repeats: int = 1) -> Task:
        """A small training of the method under test, on made-up records."""
        source = {}
        # A control reads a series of another method's run, of which there is none here.
        # One is made up, from 4 to 2: [T, 1], as of one repeat.
        if self.spec.control_of:
            series = np.geomspace(4.0, 2.0, STEPS, dtype=np.float32)
            source[self.spec.source_series] = series[:, None]
        return Task(
            arm=self.spec.name,
            seed=0,
            repeats=repeats,
            settings=self.settings,
            optimizer="sgd",
            model=make_model("logistic", (WIDTH,), 2, hidden=(), activation="tanh", seed=0),
            pool=_made_up_pool(self.size),
            steps_per_epoch=STEPS,
            epochs=1,
            n_public=RECORDS,
            sampling=["shared"] * repeats,
            source=source,
            budget=DEFAULT_BUDGET,
        )

    def rules(self) -> Iterator[tuple[ClippingRule[Any], Any]]:
        """For each list in ANSWERS the method's rule, and the state to which these answers lead.

        A rule that asks nothing takes as many steps without an answer.
        """
        trainer, task = private_by_steps(self.spec), self.task()
        norms, group = _norms_and_groups(FEW)
        for answers in ANSWERS:
            rule = trainer.rule(task)
            released = rule.init(1, task.facts())
            for answer in answers:
                if rule.query_noise_multiplier is not None:
                    rows = _rows(rule, released, norms, group)
                    released = rule.update(released, _cells(rows, answer))
                released = rule.step(released)
            yield rule, released

    def objectives(self) -> Iterator[tuple[Objective[Any], Any]]:
        """For each list in ANSWERS the method's objective, and the state to which these lead.

        Of an objective that asks nothing, the first state alone.
        """
        trainer, task = private_by_steps(self.spec), self.task()
        records = _records(_norms_and_groups(FEW)[1])
        for answers in ANSWERS:
            objective: Objective[Any] = trainer.objective(task)
            released = objective.init(1, task.facts())
            for answer in answers:
                if objective.query_noise_multiplier is not None:
                    rows = _rows_of_records(objective, released, *records)
                    released = objective.update(released, _cells(rows, answer))
                released = objective.step(released)
            yield objective, released
            if objective.query_noise_multiplier is None:
                return  # no answers, so only the state at the first step is looked at

    def query_rows(self) -> Iterator[Tensor]:
        """Rows of all queries, [1, B, Q]: the rule's in each state, and the objective's."""
        norms, group = _norms_and_groups(self.size)
        for rule, released in self.rules():
            if rule.query_noise_multiplier is not None:
                yield _rows(rule, released, norms, group)
        for objective, released in self.objectives():
            if objective.query_noise_multiplier is not None:
                yield _rows_of_records(objective, released, *_records(group))

    def trained_on(self, records: list[int], repeats: int = 1) -> _UnlimitedLoop:
        """The loop after STEPS steps of which every batch holds exactly these records.

        With it come the sums, gradients, answers, states and sensitivities of its steps. Answers to
        queries are replaced by numbers that are the same whichever records there are, so that
        neighbours pass through the same states. Without records the answers are left as they are:
        they are noise alone then, which is to be looked at.

        Args:
            records: Numbers of the records; [] for batches of none.
            repeats: How many replicates; above 1 only without records.
        """
        task = self.task(repeats)
        network, training = private_by_steps(self.spec)._set_up(task, [])
        is_replaced = bool(records)
        parts: dict[str, Any] = {
            "rule": _RecordedPart(training.rule, is_replaced),
            "objective": _RecordedPart(training.objective, is_replaced),
            "optimizer": _RecordingOptimizer(),
            "sampler": _FixedBatches(records, repeats),
        }
        loop = _UnlimitedLoop(network, task.pool, replace(training, **parts))
        loop.take(STEPS)
        return loop

    def neighbours(self) -> Iterator[tuple[_UnlimitedLoop, _UnlimitedLoop]]:
        """Pairs of trainings: on all records but one, then on all; LEFT_OUT records in turn.

        The second is one and the same training in all pairs.
        """
        records = list(range(self.size))
        whole = self.trained_on(records)
        for left_out in np.linspace(0, self.size - 1, LEFT_OUT).astype(int):
            without = [*records[:left_out], *records[left_out + 1 :]]
            yield self.trained_on(without), whole


def _matching_parts(first: Loop, second: Loop) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """The pair of the two loops' rules, and the pair of their objectives."""
    return (first.rule.part, second.rule.part), (first.objective.part, second.objective.part)


def _defaults(spec: MethodSpec) -> dict[str, float]:
    """Every setting at its default; one without a default at 1.3, or at the nearest value allowed.

    The noise multiplier has no default. At 1.3 and not at 1 a missing or squared factor shows.
    """
    settings = {}
    for name, setting in spec.settings.items():
        # For a setting without a default; else the next lines take its place.
        settings[name] = min(max(1.3, setting.low), setting.highest(SIZES))
        if setting.default:
            settings[name] = float(setting.default.value(SIZES))
    return settings


def _settings_at_ends(spec: MethodSpec) -> Iterator[dict[str, float]]:
    """The defaults, then settings of which one at a time is at either end of its range."""
    default = _defaults(spec)
    yield default
    for name, setting in spec.settings.items():
        for end in (setting.low, setting.highest(SIZES)):
            yield {**default, name: end}


def _cases(spec: MethodSpec) -> Iterator[_Case]:
    """Cases at the defaults with larger batches, at ends of single ranges and at corners of all.

    At a corner every setting is at an end of its range. FEW records have each norm in each group.
    """
    for size in LARGER_BATCHES:
        yield _Case(spec, _defaults(spec), size)
    for settings in _settings_at_ends(spec):
        yield _Case(spec, settings, FEW)
    corners = 2 ** len(spec.settings)
    # The bits of a corner's number say which settings are at the high end. An odd stride visits
    # corners at both ends of every range.
    for corner in range(0, corners, (corners // MOST_CORNERS) | 1):
        settings = {}
        for place, (name, setting) in enumerate(spec.settings.items()):
            is_high = (corner >> place) & 1
            settings[name] = setting.highest(SIZES) if is_high else setting.low
        yield _Case(spec, settings, FEW)


def _made_up_pool(size: int) -> TrainingPool:
    """A pool of ``size`` records, in pairs of equal inputs and different labels.

    So a method that confuses records is found out. The inputs have lengths from a hundredth to a
    thousand, in every group; those of record 2 are zeros.
    """
    number = torch.arange(size)
    pairs = math.ceil(size / 2)
    directions = torch.sin(torch.arange(1.0, 1 + pairs * WIDTH)).view(pairs, WIDTH)
    x = (directions * torch.logspace(-2, 3, pairs).unsqueeze(1))[number // 2]
    x[2] = 0.0
    # Labels 0 and 1 within a pair, one group for both of its records.
    return TrainingPool(x, number % 2, number // 2 % GROUPS, n_classes=2, n_groups=GROUPS)


def _norms_and_groups(size: int) -> tuple[Tensor, Tensor]:
    """Norms of gradients and the records' groups, [1, size] each: every norm in every group."""
    number = torch.arange(size).unsqueeze(0)
    return NORMS[number % len(NORMS)], number // len(NORMS) % GROUPS


def _logits(group: Tensor) -> Tensor:
    """Made-up logits [1, B, 2] of two classes, for as many records as there are groups [1, B]."""
    return 4.0 * torch.sin(torch.arange(2.0 * group.numel())).view(*group.shape, 2)


def _records(group: Tensor) -> StepRecords:
    """Made-up records of the groups [1, B], with inputs of norm from a hundredth to a thousand."""
    count = group.numel()
    # Every seventh length in turn, so that neighbouring records are not of nearly one length.
    lengths = torch.logspace(-2, 3, count)[torch.arange(count) * 7 % count]
    directions = torch.sin(torch.arange(1.0, 1.0 + count * WIDTH)).view(count, WIDTH)
    inputs = (directions * lengths.unsqueeze(1)).view(*group.shape, WIDTH)
    targets = torch.nn.functional.one_hot(group % 2, 2).float()
    return StepRecords(inputs, _logits(group), targets, group)


def _cells(rows: Tensor, answer: float) -> Tensor:
    """A made-up answer [1, Q] to a query with these rows [1, B, Q]; not all cells are equal."""
    cells = torch.full_like(rows[:, 0], answer)
    cells[:, 1::2] *= 0.5
    return cells


def _as_numbers(what: str, values: object, shape: Sequence[int | None]) -> Tensor:
    """What a part hands over, as the loop takes it: real numbers of that shape.

    Args:
        what: The values' name, for the message.
        values: As the part returned them.
        shape: That they must have; None is an axis of any length.

    Raises:
        LawBroken: It is something else.
    """
    try:
        return numbers(values, shape, NORMS, what)
    except PrivacyError as error:
        raise LawBroken(error.message) from error


def _rows(part: Any, state: object, batch: Tensor, group: Tensor) -> Tensor:  # noqa: ANN401
    """The rows [R, B, Q] of a rule's query; LawBroken where they are no rows."""
    return _as_numbers("the query", part.query(state, batch, group), (*group.shape, None))


def _rows_of_records(part: Any, state: object, *batch: Tensor) -> Tensor:  # noqa: ANN401
    """The rows [R, B, Q] of an objective's query; LawBroken where they are no rows."""
    records = StepRecords(*batch)
    return _as_numbers("the query", part.rows(state, records), (*records.group.shape, None))


def _factors(rule: ClippingRule[Any], released: object, norms: Tensor, group: Tensor) -> Tensor:
    """A rule's factors [R, B]; LawBroken where they are not one for each record."""
    return _as_numbers("the scale", rule.scale(released, norms, group), norms.shape)


def _output_gradient(objective: Objective[Any], released: object, *batch: Tensor) -> Tensor:
    """An objective's output gradient [R, B, Y]; LawBroken where it is not one row a record."""
    records = StepRecords(*batch)
    gradient = objective.gradient(released, records)
    return _as_numbers("the output gradient", gradient, records.logits.shape)


def _test_alone(what: str, call: Callable[..., Tensor], state: object, *batch: Tensor) -> None:
    """Check that a record's value is the same in the batch and in a batch of its own.

    Args:
        what: The value, in words.
        call: What computes it, from state and batch, for every record: [1, B, ...].
        state: The part's state, the same for both.
        batch: Tensors of the batch, [1, B, ...] each.

    Raises:
        LawBroken: It differs by more than rounding.
    """
    together = call(state, *batch).clone()
    for number in range(together.shape[1]):
        own = slice(number, number + 1)
        value = call(state, *(values[:, own] for values in batch))
        if not torch.allclose(value, together[:, own], 1e-5, 1e-7):
            raise LawBroken(f"{what} of a record depends on the records beside it")


def _check_noise(name: str, noise: Tensor) -> None:
    """Check that the noise [T, R, D], in units of what is claimed, is independent, of variance 1.

    T steps, R replicates, D coordinates. ``name`` is of what the noise is on.

    Raises:
        LawBroken: The variance is another, or neighbours along an axis correlate.
    """
    count = noise.numel()
    # The mean of the squares of n standard normals has standard error sqrt(2 / n).
    spread = float(noise.square().mean())
    if abs(spread - 1) > SURE * math.sqrt(2 / count):
        raise LawBroken(
            f"the noise of {name} has {math.sqrt(spread):.3f} of the standard deviation claimed"
        )
    for axis, what in enumerate(("steps", "copies", "coordinates")):
        length = noise.shape[axis] - 1
        # Products of neighbours along this axis: their mean is 0 where draws are independent.
        products = noise.narrow(axis, 0, length) * noise.narrow(axis, 1, length)
        if length and abs(float(products.mean())) > SURE / math.sqrt(products.numel()):
            raise LawBroken(f"the noise of {name} is not new for all {what}")
