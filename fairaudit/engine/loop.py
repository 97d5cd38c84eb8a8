"""The only gradient training loop.

One step: sample -> forward -> objective asks -> output gradients -> norms -> rule asks -> scale
-> weighted sums -> release -> optimizer -> both advance.
"""

import copy
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from fairaudit.engine.devices import CPU, on_cpu
from fairaudit.engine.observe import Checkpoint, Observer, StepView
from fairaudit.engine.optimizers import Optimizer
from fairaudit.engine.pool import Batch, TrainingPool
from fairaudit.engine.release import (
    GaussianRelease,
    GradientSum,
    Realised,
    Release,
    UnprovenRelease,
)
from fairaudit.engine.replicates import tape_of
from fairaudit.engine.rules import ClippingRule, Objective, PublicFacts, SideQuery
from fairaudit.engine.sampling import PoissonSampler
from fairaudit.engine.stacked import DEFAULT_BUDGET, GradientTape, Stacked
from fairaudit.errors import PrivacyError
from fairaudit.privacy.events import NoisyRelease, SampledGaussian
from fairaudit.privacy.noise import GaussianNoise

# A norm computed in float32 may fall short of the true one by some 1e-6; rules are handed an upper
# bound, so that scale * true norm cannot exceed the sensitivity (rule R7), whoever writes the rule.
NORM_GUARD = 1.0 + 1e-5
# Room for the rounding of a rule's own arithmetic; smaller than the guard, so that what passes
# still lies within the claim.
LARGEST_SHARE = 1.0 + 1e-6

S = TypeVar("S")
TapeMaker = Callable[
    [Stacked, int, int], GradientTape
]  # network, most weight rows, bytes of books kept


class Asking(Generic[S]):
    """One part's side of the step: its state, its query and the noise on it.

    Args:
        part: An objective or a rule.
        replicates: R.
        facts: What is public.
        noise: On its query.
        is_limited: Hold its query rows and factors to what it claims, whoever wrote it.

    ``state`` is what a step begins with; ``released`` is the same with this step's noised answer,
    and equal to it where the part asks nothing.
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
        self.released = part.init(replicates, facts)
        self.state = self.released

    def ask(
        self,
        batch: Tensor,
        group: Tensor,
        present: Tensor | None,
    ) -> None:
        """Sum the part's query over a batch, add noise, let the part digest the answer.

        A part that asks nothing stays as it is.

        Args:
            batch: What the part asks about: logits [R, B, Y] or norms [R, B].
            group: [R, B].
            present: False for padding, [R, B]; None where nothing is padded.

        Raises:
            PrivacyError: A limited part whose query is not one row for each record.
        """
        multiplier = self.part.query_noise_multiplier
        if multiplier is None:
            return
        query = self.part.query(self.state, batch, group)
        if self.is_limited:
            if query.shape[:2] != group.shape:
                raise PrivacyError(
                    f"the query {self.part.query_name!r} is not one row for each record",
                    hint="return a tensor [R, B, Q]",
                )
            query = limited_rows(query)
        if present is not None:
            query = query * present.unsqueeze(-1)
        answer = query.sum(1)
        noise = self.noise.fill(torch.empty_like(answer))
        self.released = self.part.update(self.state, answer.add_(noise, alpha=multiplier))

    def step(self) -> None:
        """Move to the next step's state."""
        self.state = self.released = self.part.step(self.released)


def scaled(
    rule: Asking[Any],
    norms: Tensor,
    group: Tensor,
    present: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """What a rule makes of one batch: it asks, if it does, and then scales.

    Args:
        rule: The rule and its state, which moves by the answer.
        norms: Of the records' gradients, [R, B].
        group: [R, B].
        present: False for padding, [R, B]; None where nothing is padded.

    Returns:
        Each record's factor [R, B], and the sensitivity [R].

    Raises:
        PrivacyError: A limited rule claims a sensitivity that is negative or not finite, or asks
            with other than one row for each record.
    """
    upper = norms * NORM_GUARD
    rule.ask(upper, group, present)
    # A copy: what is called after it may write over the state.
    sensitivity = rule.part.sensitivity(rule.released).clone()
    scale: Tensor = rule.part.scale(rule.released, upper, group)
    if rule.is_limited:
        # Taken anew: a rule may have written over what it was handed.
        scale = limited_scale(scale, norms * NORM_GUARD, sensitivity)
    return scale, sensitivity


def limited_scale(scale: Tensor, upper: Tensor, sensitivity: Tensor) -> Tensor:
    """Factors that make no gradient longer than the sensitivity.

    A factor's size is at most ``sensitivity * LARGEST_SHARE / upper``, and one that is not finite
    becomes 0. A record's limit reads its own norm and the claim, and nothing of other records.

    Args:
        scale: A rule's factors, [R, B].
        upper: Upper bounds of the gradients' norms, [R, B]; at 0 a finite factor stays.
        sensitivity: As claimed, [R].

    Raises:
        PrivacyError: A sensitivity that is negative or not finite.
    """
    claims = sensitivity.tolist()
    for claim in claims:
        if not 0.0 <= claim < math.inf:
            raise PrivacyError(
                f"the clipping rule claims a sensitivity of {claim:g}",
                hint="ClippingRule.sensitivity returns finite numbers, 0 or more",
            )
    if not scale.numel():
        return scale
    # One test in the common case, against the smallest claim of all replicates: where it fails, the
    # clamp below takes each replicate's own claim, and so changes no factor that keeps it.
    shortest, longest = torch.aminmax(scale * upper)
    largest = min(claims) * LARGEST_SHARE
    if -largest <= shortest.item() and longest.item() <= largest:  # False for NaN
        return scale
    limit = (sensitivity * LARGEST_SHARE).unsqueeze(-1) / upper
    limit = limit.where(upper > 0, math.inf)
    return scale.where(scale.isfinite(), 0.0).clamp(-limit, limit)


def limited_rows(query: Tensor) -> Tensor:
    """Rows [R, B, Q] of L2 norm at most ``LARGEST_SHARE``; one that is not finite becomes 0."""
    norms: Tensor = torch.linalg.vector_norm(
        query,
        dim=-1,
        keepdim=True,
    )
    if not norms.numel() or norms.max().item() <= LARGEST_SHARE:
        return query
    shortened = query * norms.reciprocal().mul(LARGEST_SHARE).clamp(max=1.0)
    return shortened.where(norms.isfinite(), 0.0)


@dataclass(frozen=True, slots=True)
class Training:
    """Everything a training is made of.

    Args:
        objective, rule: The method.
        release: How a step closes.
        objective_noise, rule_noise: Noise of their queries.
        optimizer: Moves theta.
        sampler: Draws the batches.
        facts: What is public.
        epochs: Passes; steps are epochs * sampler.steps_per_epoch.
        observers: Readers.
        checkpoints: Steps kept for readings after training.
        budget: Bytes of activations kept; performance only.
        tape: How a batch goes through the network.
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
    """Readings over time: series name -> steps [T_obs] and values [T_obs, R, ...]."""

    steps: dict[str, list[int]] = field(default_factory=dict)
    values: dict[str, list[Tensor]] = field(default_factory=dict)

    def add(
        self,
        step: int,
        readings: Mapping[str, Tensor],
    ) -> None:
        """Append one step's readings, ``[R, ...]`` each."""
        for name, value in readings.items():
            self.steps.setdefault(name, []).append(step)
            self.values.setdefault(name, []).append(value)

    def of(self, replicate: int) -> "Trace":
        """The readings of one replicate."""
        values = {}
        for name, series in self.values.items():
            values[name] = [value[replicate : replicate + 1] for value in series]
        return Trace(self.steps, values)

    def stacked(self) -> dict[str, tuple[list[int], Tensor]]:
        """Each series as (steps, values)."""
        return {
            name: (self.steps[name], torch.stack(values)) for name, values in self.values.items()
        }


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a training did.

    Its readings, what it released, for comparison with the plan, and checkpoints.
    """

    trace: Trace
    event: SampledGaussian | None
    checkpoints: tuple[Checkpoint, ...]


def train(network: Stacked, pool: TrainingPool, training: Training) -> Outcome:
    """Train ``network`` in place on ``pool``.

    Same streams give the same bits on the same hardware, with or without observers and whatever
    the memory budget. An empty batch takes a step of noise alone. What is handed back lies on the
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
    """Whether a rule is held to what it claims: what is not proved trains as it was published."""
    return isinstance(release, GaussianRelease) and release.noise_multiplier > 0


class Loop:
    """A training that can be taken some steps at a time; :func:`train` takes them all.

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
            training.objective,
            replicates,
            facts,
            training.objective_noise,
            is_limited=is_limited,
        )
        self.rule = Asking(
            training.rule, replicates, facts, training.rule_noise, is_limited=is_limited
        )
        self.trace = Trace()
        self.checkpoints: list[Checkpoint] = []
        self.taken = 0
        self.tape = training.tape(network, len(training.release.rows), training.budget)

    @torch.inference_mode()  # nothing asks for autograd, whose bookkeeping costs a tenth
    def take(self, steps: int) -> None:
        """Take so many steps."""
        for _ in range(steps):
            self._step()

    def _step(self) -> None:
        """One step, in the order that the module's first lines give."""
        step = self.taken
        training = self.training
        objective = self.objective
        rule = self.rule
        batch = self.pool.gather(*training.sampler.draw())
        asks = training.objective.query_noise_multiplier is not None
        logits = self.tape.forward(batch.inputs, batch.norms, clean=asks)
        group = self._lead(batch.group)
        if asks:
            objective.ask(self._lead(logits), group, batch.present)
        delta = training.objective.output_gradient(
            objective.released, logits, batch.targets, batch.group
        )
        if batch.present is not None:
            delta = delta * batch.present.unsqueeze(-1)
        norms = self._lead(self.tape.backward(delta))
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
        training.optimizer.step(
            self.network.theta,
            self._close(
                sums,
                sensitivity,
                batch,
            ),
        )
        if isinstance(training.release, UnprovenRelease):
            self.trace.add(step, training.release.describe())
        objective.step()
        rule.step()
        self.taken += 1

    def _checkpoint(self, step: int, sensitivity: Tensor) -> Checkpoint:
        """This step, copied: training moves theta in place, and a reader may do what it likes."""
        released = copy.deepcopy(
            (
                self.objective.released,
                self.rule.released,
                sensitivity,
            )
        )
        objective, rule, bound = released
        theta = self.network.theta.clone()
        eta = self.training.optimizer.learning_rate
        # Trainings side by side have a learning rate for each, and keep no checkpoints.
        assert isinstance(eta, float), "checkpoints are of one training"
        return Checkpoint(step, theta, objective, rule, bound, eta)

    def _view(
        self,
        batch: Batch,
        logits: Tensor,
        norms: Tensor,
        scale: Tensor,
    ) -> StepView:
        """The step as observers see it: logits ``[R, B, Y]``, norms and factors ``[R, B]``."""
        training = self.training
        group = self._lead(batch.group)
        return StepView(
            step=self.taken,
            last_of_epoch=(self.taken + 1) % training.sampler.steps_per_epoch == 0,
            logits=self._lead(logits),
            targets=self._lead(batch.targets),
            norms=norms,
            scale=scale,
            unclipped=training.rule.scale(  # the factor of a zero gradient
                self.rule.released,
                torch.zeros_like(norms),
                group,
            ),
            group=group,
            index=self._lead(batch.records),
            present=batch.present,
            step_factor=partial(
                training.rule.step_factor,
                self.rule.released,
                training.facts,
            ),
            n_groups=self.pool.n_groups,
        )

    def event(self) -> SampledGaussian | None:
        """What was done, counted here and not copied from the plan; None: nothing is claimed."""
        training = self.training
        if not isinstance(training.release, Release):
            return None
        gradient = training.release.event()
        if gradient is None:
            return None
        releases = [gradient]
        for part in (training.objective, training.rule):
            if part.query_noise_multiplier is not None:
                releases.append(NoisyRelease(part.query_name, part.query_noise_multiplier))
        return SampledGaussian(training.sampler.steps_per_epoch, self.taken, tuple(releases))

    def _lead(self, values: Tensor) -> Tensor:
        """With the replicate axis that the single-replicate fast path leaves out."""
        if self.single:
            return values.unsqueeze(0)
        return values

    def _sums(self, scale: Tensor) -> list[Tensor]:
        """The sums that the release asks for, [R, P] each, in the tape's own memory."""
        weights = []
        for row in self.training.release.rows:
            weights.append(scale if row is GradientSum.CLIPPED else torch.ones_like(scale))
        return self.tape.sums(weights)

    def _close(
        self,
        sums: list[Tensor],
        sensitivity: Tensor,
        batch: Batch,
    ) -> Tensor:
        """The gradient [R, P] that the release makes of the sums.

        Only an unproven release is told about the batch: the number of its records, by group.
        """
        training = self.training
        if isinstance(training.release, Release):
            return training.release(sums, sensitivity, training.facts)
        group = self._lead(batch.group)
        present = torch.ones(group.shape)
        if batch.present is not None:
            present = batch.present.to(torch.float32)
        groups = torch.zeros(len(group), self.pool.n_groups).scatter_add_(
            1,
            group,
            present,
        )
        realised = Realised(
            groups.sum(1),
            groups,
            training.rule.describe(self.rule.released),
        )
        return training.release(sums, sensitivity, training.facts, realised)
