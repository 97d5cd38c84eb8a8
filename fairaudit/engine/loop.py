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
# Of the network, the most sums in a step, and the bytes that may be kept between the passes.
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

    def ask(self, batch: Tensor, group: Tensor, present: Tensor | None) -> None:
        """Sum the part's query over a batch, add noise, and update ``released`` by the answer.

        A part without a query stays as it is.

        Args:
            batch: What the query is computed from: logits [R, B, Y] for an objective, norms [R, B]
                for a rule.
            group: Each record's group, [R, B].
            present: False for padding, [R, B]; None where nothing is padded.

        Raises:
            PrivacyError: The part is limited and its query is not one row for each record.
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
            or its query is not one row for each record.
    """
    upper = norms * NORM_GUARD
    rule.ask(upper, group, present)
    # A copy: the rule's ``scale`` may write over its state.
    sensitivity = rule.part.sensitivity(rule.released).clone()
    scale: Tensor = rule.part.scale(rule.released, upper, group)
    if rule.is_limited:
        # Norms are multiplied again: the rule may have written over ``upper``.
        scale = limited_scale(scale, norms * NORM_GUARD, sensitivity)
    return scale, sensitivity


def limited_scale(scale: Tensor, upper: Tensor, sensitivity: Tensor) -> Tensor:
    """A rule's factors, cut so that no scaled gradient is longer than the claimed sensitivity.

    A factor's size is at most ``sensitivity * LARGEST_SHARE / upper``, and one that is not finite
    becomes 0. A record's limit depends on its own norm and the claim, not on other records.

    Args:
        scale: A rule's factors, [R, B].
        upper: Upper bounds of the gradients' norms, [R, B]; where 0, any finite factor stays.
        sensitivity: As the rule claims it, [R].

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
    # In the common case one test against the smallest claim of all replicates is enough. Where it
    # fails, each replicate's own claim limits its factors; those within it stay as they are.
    shortest, longest = torch.aminmax(scale * upper)
    largest = min(claims) * LARGEST_SHARE
    if -largest <= shortest.item() and longest.item() <= largest:  # False for NaN
        return scale
    limit = (sensitivity * LARGEST_SHARE).unsqueeze(-1) / upper
    limit = limit.where(upper > 0, math.inf)
    return scale.where(scale.isfinite(), 0.0).clamp(-limit, limit)


def limited_rows(query: Tensor) -> Tensor:
    """A query's rows [R, B, Q], shortened to L2 norm ``LARGEST_SHARE`` where they are longer.

    So one record moves the sum by at most that. A row that is not finite becomes 0.
    """
    norms: Tensor = torch.linalg.vector_norm(query, dim=-1, keepdim=True)
    if not norms.numel() or norms.max().item() <= LARGEST_SHARE:
        return query
    shortened = query * norms.reciprocal().mul(LARGEST_SHARE).clamp(max=1.0)
    return shortened.where(norms.isfinite(), 0.0)


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
        """The readings of one replicate, [1, ...] each, as those of a training by itself."""
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
    """Train ``network`` in place on ``pool``.

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
    """Whether a release adds noise for a guarantee, so that parts must be held to their claims.

    Without noise nothing is claimed, and an unproven release trains as its method was published.
    """
    return isinstance(release, GaussianRelease) and release.noise_multiplier > 0


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
        asks = training.objective.query_noise_multiplier is not None
        # A query reads the logits before the backward pass, which would clean them otherwise.
        logits = self.tape.forward(batch.inputs, batch.norms, clean=asks)
        group = self._with_axis(batch.group)
        if asks:
            objective.ask(self._with_axis(logits), group, batch.present)
        delta = training.objective.output_gradient(
            objective.released, logits, batch.targets, batch.group
        )
        if batch.present is not None:
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
        """
        released = copy.deepcopy((self.objective.released, self.rule.released, sensitivity))
        objective, rule, bound = released
        theta = self.network.theta.clone()
        eta = self.training.optimizer.learning_rate
        # Several trainings that run as one (abreast.py) have a learning rate each, and keep no
        # checkpoints.
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
            unclipped=training.rule.scale(  # the factor of a zero gradient
                self.rule.released, torch.zeros_like(norms), group
            ),
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
        for part in (training.objective, training.rule):
            if part.query_noise_multiplier is not None:
                releases.append(NoisyRelease(part.query_name, part.query_noise_multiplier))
        return SampledGaussian(training.sampler.steps_per_epoch, self.taken, tuple(releases))

    def _with_axis(self, values: Tensor) -> Tensor:
        """``values`` with a leading replicate axis, which they lack where R is 1."""
        if self.single:
            return values.unsqueeze(0)
        return values

    def _sums(self, scale: Tensor) -> list[Tensor]:
        """The sums named by the release's ``rows``, [R, P] each, in the tape's own memory."""
        weights = []
        for row in self.training.release.rows:
            weights.append(scale if row is GradientSum.CLIPPED else torch.ones_like(scale))
        return self.tape.sums(weights)

    def _close(self, sums: list[Tensor], sensitivity: Tensor, batch: Batch) -> Tensor:
        """The gradient [R, P] that the release makes of the sums.

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
        groups = torch.zeros(len(group), self.pool.n_groups).scatter_add_(1, group, present)
        realised = Realised(groups.sum(1), groups, training.rule.describe(self.rule.released))
        return training.release(sums, sensitivity, training.facts, realised)
