"""The only gradient training loop.

One step: sample -> forward -> objective asks -> output gradients -> norms -> rule asks -> scale
-> weighted sums -> release -> optimizer -> both advance.

The objective and the clipping rule are a step's two parts. A part with a query asks it: the query
is summed over the batch, and the sum with noise is the answer. R replicates train side by side; a
batch has B records, and where replicates drew fewer, they are padded with records that are not
present. Where R is 1, network and batch leave out the replicate axis, [(R,) B, ...]; queries and
rules always see it. A tape carries a batch through the network (``stacked.py``). "Rule R7" and the
like are the rules of a private step in docs/methods.md 1.3.
"""

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from fairaudit.engine.contributions import NORM_GUARD, limited_rows, limited_scale, numbers
from fairaudit.engine.devices import CPU, on_cpu
from fairaudit.engine.observe import Checkpoint, Observer, StepView
from fairaudit.engine.optimizers import Optimizer
from fairaudit.engine.pool import Batch, TrainingPool
from fairaudit.engine.release import GradientSum, Realised, Release, UnprovenRelease
from fairaudit.engine.replicates import tape_of
from fairaudit.engine.rules import ClippingRule, Objective, PublicFacts, SideQuery, StepRecords
from fairaudit.engine.sampling import PoissonSampler
from fairaudit.engine.stacked import DEFAULT_BUDGET, GradientTape, Stacked
from fairaudit.privacy.events import NoisyRelease, SampledGaussian
from fairaudit.privacy.noise import GaussianNoise

S = TypeVar("S")
# Of the network, ``most_sums`` and ``budget``, as :func:`~fairaudit.engine.replicates.tape_of`.
TapeMaker = Callable[[Stacked, int, int], GradientTape]


class Asking(Generic[S]):
    """One part of the step with its state and the noise on its query.

    Args:
        part: An objective or a rule.
        replicates: R.
        facts: What is public.
        noise: Of its query's answers.
        is_limited: Whether query rows are cut to norm 1 and a rule's factors to the claimed
            sensitivity, so that the guarantee does not rest on who wrote the part.

    ``state`` is what a step begins with; ``released`` is the same with this step's noised answer,
    and equal to it where the part asks nothing. ``multiplier`` is the part's
    ``query_noise_multiplier``, read once: with it noise is drawn and the query is charged.
    """

    part: Any  # an Objective or a ClippingRule, each with calls of its own

    def __init__(
        self,
        part: SideQuery[S],
        replicates: int,
        facts: PublicFacts,
        noise: GaussianNoise,
        *,
        is_limited: bool,
    ) -> None:
        self.part = part
        self.noise = noise
        self.is_limited = is_limited
        self.multiplier = part.query_noise_multiplier
        self.released = part.init(replicates, facts)
        self.state = self.released

    def ask(self, batch: Tensor | StepRecords, group: Tensor, present: Tensor | None) -> None:
        """Sum the part's query over a batch, add noise, and update ``released`` by the answer.

        A part without a query stays as it is.

        Args:
            batch: What the query is computed from: the records, with an axis of replicates, for an
                objective, norms [R, B] for a rule.
            group: Each record's group, [R, B].
            present: False for padding, [R, B]; None where nothing is padded.

        Raises:
            PrivacyError: The part's query is not one row [Q] of real numbers for each record.
        """
        if self.multiplier is None:
            return
        if isinstance(batch, StepRecords):
            answer = self._sum_of_records(batch, present)
        else:
            answer = self._sum(self.part.query(self.state, batch, group), batch, group, present)
        noise = self.noise.fill(torch.empty_like(answer))
        self.released = self.part.update(self.state, answer.add_(noise, alpha=self.multiplier))

    def _sum_of_records(self, records: StepRecords, present: Tensor | None) -> Tensor:
        """The sum of an objective's rows, [R, Q].

        Rows are made for as many records at a time as the objective's ``records_at_once`` says.

        Args:
            records: Of the batch, with the axis of replicates.
            present: False for padding, [R, B]; None where nothing is padded.
        """
        count = records.group.shape[1]
        at_once = self.part.records_at_once(self.state)
        if at_once is None or count <= at_once:
            rows = self.part.rows(self.state, records)
            return self._sum(rows, records.logits, records.group, present)
        total: Tensor | None = None
        for start in range(0, count, at_once):
            piece = slice(start, start + at_once)
            of_piece = records.some(piece)
            piece_present = None if present is None else present[:, piece]
            rows = self.part.rows(self.state, of_piece)
            piece_sum = self._sum(rows, of_piece.logits, of_piece.group, piece_present)
            total = piece_sum if total is None else total.add_(piece_sum)
        assert total is not None, "count > at_once, so there is a record"
        return total

    def _sum(self, rows: object, like: Tensor, group: Tensor, present: Tensor | None) -> Tensor:
        """The sum of a query's rows, [R, Q], each held to norm 1; padding adds nothing.

        Args:
            rows: What the part returned: refused unless they are real numbers [R, B, Q].
            like: Gives the sum's device and type.
            group: [R, B], read for its shape.
            present: False for padding, [R, B]; None where nothing is padded.
        """
        # None: Q may be any number of cells.
        query = numbers(rows, (*group.shape, None), like, f"the query {self.part.query_name!r}")
        if self.is_limited:
            query = limited_rows(query)
        if present is not None:
            query = query * present.unsqueeze(-1)
        return query.sum(1)

    def step(self) -> None:
        """Move to the next step's state."""
        self.state = self.released = self.part.step(self.released)


def scaled(
    rule: Asking[Any], norms: Tensor, group: Tensor, present: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Let a rule ask its query of one batch, if it has one, and then scale the records' gradients.

    The loop and the optimiser for Opacus both call it.

    Args:
        rule: The rule and its state, into which the answer goes.
        norms: L2 norms of the records' gradients, [R, B].
        group: Each record's group, [R, B].
        present: False for padding, [R, B]; None where nothing is padded.

    Returns:
        (each record's factor [R, B], the sensitivity [R] that the rule claims of the scaled
        gradients).

    Raises:
        PrivacyError: The rule is limited and claims a sensitivity that is negative or not finite,
            or what the rule hands over is not one number, or one query row, for each record.
    """
    upper = norms * NORM_GUARD
    rule.ask(upper, group, present)
    claim = rule.part.sensitivity(rule.released)
    # Copied now: the rule's ``scale`` may write over its state.
    sensitivity = numbers(claim, norms.shape[:1], norms, "the clipping rule's sensitivity")
    factors = rule.part.scale(rule.released, upper, group)
    scale = numbers(factors, norms.shape, norms, "the clipping rule's scale")
    if rule.is_limited:
        # Norms are multiplied again: the rule may have written over ``upper``.
        scale = limited_scale(scale, norms * NORM_GUARD, sensitivity)
    return scale, sensitivity


def records_for(objective: Objective[Any], batch: Batch, logits: Tensor) -> StepRecords:
    """A batch as an objective is handed it, with logits [(R,) B, Y].

    Inputs are a copy, and only for an objective that reads them: the backward pass reads those of
    the batch again, with norms that were taken before, so nobody may write over them.
    """
    if objective.reads_inputs:
        inputs = batch.inputs.clone()
    else:
        inputs = batch.inputs[..., :0]  # no numbers, so that none can be read
    return StepRecords(inputs, logits, batch.targets, batch.group)


@dataclass(frozen=True, slots=True)
class Training:
    """Everything a training is made of.

    Args:
        objective, rule: The method's parts: what is differentiated, how gradients are scaled.
        release: How a step closes: what is made of the sum of scaled gradients.
        objective_noise, rule_noise: Noise on their queries.
        optimizer: Moves theta along the released gradient.
        sampler: Draws the batches.
        facts: What is public.
        epochs: Passes; steps are epochs * sampler.steps_per_epoch.
        observers: Read each step for diagnostics, and change nothing.
        checkpoints: Numbers of the steps to keep a copy of, for readings after training.
        budget: Bytes of activations kept between the passes; affects performance only.
        tape: Makes what carries a batch through the network.
    """

    objective: Objective[Any]
    rule: ClippingRule[Any]
    release: Release | UnprovenRelease
    objective_noise: GaussianNoise
    rule_noise: GaussianNoise
    optimizer: Optimizer
    sampler: PoissonSampler
    facts: PublicFacts
    epochs: int
    observers: Sequence[Observer] = ()
    checkpoints: Collection[int] = ()
    budget: int = DEFAULT_BUDGET
    tape: TapeMaker = tape_of


@dataclass(slots=True)
class Trace:
    """Readings over time, by the name of the series: steps [T_obs], values T_obs times [R, ...].

    T_obs is the number of steps at which a series was recorded; it may differ between series.
    """

    steps: dict[str, list[int]] = field(default_factory=dict)
    values: dict[str, list[Tensor]] = field(default_factory=dict)

    def add(self, step: int, readings: Mapping[str, Tensor]) -> None:
        """Append one step's readings, ``[R, ...]`` each, by the name of their series."""
        for name, value in readings.items():
            self.steps.setdefault(name, []).append(step)
            self.values.setdefault(name, []).append(value)

    def of(self, replicate: int) -> "Trace":
        """The readings of one replicate (its index), [1, ...] each, as of a training by itself."""
        values = {}
        for name, series in self.values.items():
            values[name] = [value[replicate : replicate + 1] for value in series]
        return Trace(self.steps, values)

    def stacked(self) -> dict[str, tuple[list[int], Tensor]]:
        """Each series by name as (steps [T_obs], values [T_obs, R, ...])."""
        return {
            name: (self.steps[name], torch.stack(values)) for name, values in self.values.items()
        }


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a training did.

    Args:
        trace: Its readings over time.
        event: What it released, for comparison with the plan; None: no guarantee is claimed.
        checkpoints: The steps that were kept, in their order.
    """

    trace: Trace
    event: SampledGaussian | None
    checkpoints: tuple[Checkpoint, ...]


def train(network: Stacked, pool: TrainingPool, training: Training) -> Outcome:
    """Train ``network`` in place on ``pool``, for all epochs of ``training``.

    Same streams give the same bits on the same hardware, with or without observers and whatever
    the memory budget. On an empty batch the step is noise alone. The outcome's tensors lie on the
    CPU.
    """
    loop = Loop(network, pool, training)
    loop.take(training.epochs * training.sampler.steps_per_epoch)
    trace = loop.trace
    checkpoints = tuple(loop.checkpoints)
    if pool.device != CPU:
        trace = on_cpu(trace)
        checkpoints = on_cpu(checkpoints)
    return Outcome(trace, loop.event(), checkpoints)


def claims_sensitivity(release: Release | UnprovenRelease) -> bool:
    """Whether a release has an event, so that parts must be held to their claims.

    Without noise nothing is claimed, and an unproven release trains as its method was published.
    """
    return isinstance(release, Release) and release.event() is not None


class Loop:
    """A training that can be taken some steps at a time; :func:`train` takes them all.

    ``taken`` counts the steps taken; ``single`` says that there is one replicate.

    Args:
        network: The stacked replicates, with parameters ``theta [R, P]``.
        pool: Training records.
        training: Sampler, objective, rule, release and optimiser.
    """

    def __init__(self, network: Stacked, pool: TrainingPool, training: Training) -> None:
        self.network = network
        self.pool = pool
        self.training = training
        replicates = network.replicates
        facts = training.facts
        self.single = replicates == 1
        is_limited = claims_sensitivity(training.release)
        self.objective = Asking(
            training.objective, replicates, facts, training.objective_noise, is_limited=is_limited
        )
        self.rule = Asking(
            training.rule, replicates, facts, training.rule_noise, is_limited=is_limited
        )
        self.trace = Trace()
        self.checkpoints: list[Checkpoint] = []
        self.taken = 0
        # A step asks for one sum for each of the release's rows.
        self.tape = training.tape(network, len(training.release.rows), training.budget)

    @torch.inference_mode()  # nothing asks for autograd, whose bookkeeping costs a tenth
    def take(self, steps: int) -> None:
        """Take so many more steps."""
        for _ in range(steps):
            self._step()

    def _step(self) -> None:
        """Take one step, in the order that the module's first lines give."""
        step = self.taken
        training = self.training
        objective = self.objective
        rule = self.rule
        batch = self.pool.gather(*training.sampler.draw())
        asks = objective.multiplier is not None
        # Records that are not finite count as zero (rule R6). The backward pass sees to that, but
        # an objective's query reads the logits before it, so they are cleaned now.
        logits = self.tape.forward(batch.inputs, batch.norms, clean=asks)
        group = self._with_axis(batch.group)
        records = records_for(training.objective, batch, logits)
        if asks:
            objective.ask(StepRecords(*map(self._with_axis, records)), group, batch.present)
        gradient = training.objective.gradient(objective.released, records)
        delta = numbers(gradient, logits.shape, logits, "the objective's output gradient")
        if batch.present is not None:  # so that padding has a gradient of 0, whatever it is
            delta = delta * batch.present.unsqueeze(-1)
        norms = self._with_axis(self.tape.backward(delta))
        scale, sensitivity = scaled(rule, norms, group, batch.present)
        if step in training.checkpoints:  # before theta moves
            self.checkpoints.append(self._checkpoint(step, sensitivity))
        sums = self._sums(scale)
        if training.observers:
            view = self._view(batch, logits, norms, scale)
            for observer in training.observers:
                self.trace.add(step, observer.observe(view))
        self.trace.add(step, training.objective.describe(objective.released))
        self.trace.add(step, training.rule.describe(rule.released))
        training.optimizer.step(self.network.theta, self._close(sums, sensitivity, batch))
        if isinstance(training.release, UnprovenRelease):
            self.trace.add(step, training.release.describe())
        objective.step()
        rule.step()
        self.taken += 1

    def _checkpoint(self, step: int, sensitivity: Tensor) -> Checkpoint:
        """A copy of this step, before theta moves, for readings after training.

        A copy, because training moves theta in place and a reader may write over what it is given.
        ``sensitivity`` [R] is what the rule claims at this step.
        """
        released = copy.deepcopy((self.objective.released, self.rule.released, sensitivity))
        objective, rule, bound = released
        theta = self.network.theta.clone()
        eta = self.training.optimizer.learning_rate
        # Trainings that run as one (joint_training.py) have a learning rate each, and keep none.
        assert isinstance(eta, float), "checkpoints are of one training"
        return Checkpoint(step, theta, objective, rule, bound, eta)

    def _view(self, batch: Batch, logits: Tensor, norms: Tensor, scale: Tensor) -> StepView:
        """The step as observers see it: logits ``[R, B, Y]``, norms and factors ``[R, B]``."""
        training = self.training
        group = self._with_axis(batch.group)
        return StepView(
            step=self.taken,
            last_of_epoch=(self.taken + 1) % training.sampler.steps_per_epoch == 0,
            logits=self._with_axis(logits),
            targets=self._with_axis(batch.targets),
            norms=norms,
            scale=scale,
            # The factor of a gradient that is too short to be clipped: of norm 0.
            unclipped=training.rule.scale(self.rule.released, torch.zeros_like(norms), group),
            group=group,
            index=self._with_axis(batch.records),
            present=batch.present,
            step_factor=partial(training.rule.step_factor, self.rule.released, training.facts),
            n_groups=self.pool.n_groups,
        )

    def event(self) -> SampledGaussian | None:
        """What the steps taken so far released, counted here and not copied from the plan.

        None where no guarantee is claimed: the release is unproven, or has no noise.
        """
        training = self.training
        if not isinstance(training.release, Release):
            return None
        gradient = training.release.event()
        if gradient is None:
            return None
        releases = [gradient]
        for asking in (self.objective, self.rule):
            if asking.multiplier is not None:
                releases.append(NoisyRelease(asking.part.query_name, asking.multiplier))
        return SampledGaussian(training.sampler.steps_per_epoch, self.taken, tuple(releases))

    def _with_axis(self, values: Tensor) -> Tensor:
        """``values`` with a leading replicate axis, which they lack where R is 1."""
        if self.single:
            return values.unsqueeze(0)
        return values

    def _sums(self, scale: Tensor) -> list[Tensor]:
        """The sums named by the release's ``rows``, [R, P] each, in the tape's own memory.

        ``scale`` [R, B] are the rule's factors.
        """
        weights = []
        for row in self.training.release.rows:
            if row is GradientSum.CLIPPED:
                weights.append(scale)
            else:  # the gradient of padding is 0, so a weight of 1 adds nothing
                weights.append(torch.ones_like(scale))
        return self.tape.sums(weights)

    def _close(self, sums: list[Tensor], sensitivity: Tensor, batch: Batch) -> Tensor:
        """The gradient [R, P] that the release makes of the sums and the claimed sensitivity [R].

        Only an unproven release is told anything of the batch: its number of records, by group,
        and what the rule describes of its state.
        """
        training = self.training
        if isinstance(training.release, Release):
            return training.release(sums, sensitivity, training.facts)
        group = self._with_axis(batch.group)
        present = torch.ones(group.shape)
        if batch.present is not None:
            present = batch.present.to(torch.float32)
        # How many records of each group are present, [R, K].
        counts = torch.zeros(len(group), self.pool.n_groups).scatter_add_(1, group, present)
        realised = Realised(counts.sum(1), counts, training.rule.describe(self.rule.released))
        return training.release(sums, sensitivity, training.facts, realised)
