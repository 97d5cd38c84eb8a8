"""Parts of a training that are told what to do and remember what they saw.

They stand at the edges of the real loop (sampler, noise, released values, optimizer), so that what
lies between is the code that ships: gather, forward, backward, ghost norms, rule, sums, release.
"""

from dataclasses import dataclass, field, fields

import torch
from torch import Tensor

from fairaudit.engine.loop import Training, train
from fairaudit.engine.optimizers import Optimizer
from fairaudit.engine.replicates import stack
from fairaudit.engine.rules import ClippingRule, Objective
from fairaudit.engine.stacked import Stacked


class GivenBatches:
    """A sampler that deals the batches it is given.

    Each is a list of record numbers per replicate.
    """

    def __init__(self, batches, records):
        self.batches, self.records = batches, records
        self.steps_per_epoch = len(batches)
        self.taken = 0

    def draw(self):
        parts = self.batches[self.taken]
        self.taken += 1
        if len(parts) == 1:
            return torch.tensor(parts[0], dtype=torch.int64), None
        padded = torch.full((len(parts), max(map(len, parts))), self.records)
        for row, part in zip(padded, parts, strict=True):
            row[: len(part)] = torch.tensor(part, dtype=torch.int64)
        return padded, padded < self.records


class ToldNoise:
    """Noise that is what it is told: one value per draw, the last one for ever."""

    def __init__(self, *values):
        self.values = values or (0.0,)
        self.shapes = []

    @property
    def draws(self):
        return len(self.shapes)

    def fill(self, out):
        value = self.values[min(self.draws, len(self.values) - 1)]
        self.shapes.append(tuple(out.shape))
        return out.fill_(value)


class ToldOptimizer(Optimizer):
    """Keeps released gradients; moves the parameters only where it is told to."""

    def __init__(self, moves=()):
        super().__init__(1.0)
        self.moves = list(moves)
        self.gradients: list[Tensor] = []

    def step(self, theta, gradient):
        self.gradients.append(gradient.clone())
        if self.moves:
            theta.copy_(self.moves.pop(0))


def spread_answer(answer, like):
    """An answer of the shape of ``like`` [R, Q].

    One value for all cells, or values that repeat over them.
    """
    values = torch.as_tensor(answer, dtype=like.dtype).reshape(-1)
    return values[torch.arange(like.shape[-1]) % len(values)].expand_as(like).clone()


class Watched:
    """A part of a method; its noised answers are replaced, what passes is kept."""

    def __init__(self, inner, answers=None):
        self.inner, self.answers = inner, answers
        self.counts, self.states, self.norms, self.claims = [], [], [], []

    @property
    def query_name(self):
        return self.inner.query_name

    @property
    def query_noise_multiplier(self):
        return self.inner.query_noise_multiplier

    def init(self, replicates, facts):
        return self._kept(self.inner.init(replicates, facts))

    def query(self, state, values, group):
        return self.inner.query(state, values, group)

    def update(self, state, answer):
        self.counts.append(answer.clone())
        if self.answers is not None:
            answer = spread_answer(self.answers[len(self.counts) - 1], answer)
        return self.inner.update(state, answer)

    def step(self, released):
        return self._kept(self.inner.step(released))

    def _kept(self, state):
        self.states.append(values_of(state))
        return state


class WatchedObjective(Watched, Objective):
    def output_gradient(self, released, logits, targets, group):
        return self.inner.output_gradient(released, logits, targets, group)

    @property
    def reads_inputs(self):
        return self.inner.reads_inputs

    def rows(self, state, records):
        return self.inner.rows(state, records)

    def gradient(self, released, records):
        return self.inner.gradient(released, records)

    def records_at_once(self, state):
        return self.inner.records_at_once(state)


class WatchedRule(Watched, ClippingRule):
    def sensitivity(self, released):
        self.claims.append(self.inner.sensitivity(released))
        return self.claims[-1]

    def describe(self, released):
        return self.inner.describe(released)

    def scale(self, released, norms, group):
        self.norms.append(norms)
        return self.inner.scale(released, norms, group)


def values_of(state):
    """The tensors of a rule's state, by name."""
    if isinstance(state, Tensor):
        return {"state": state.clone()}
    if state is None:
        return {}
    return {f.name: getattr(state, f.name).clone() for f in fields(state)}


@dataclass
class Seen:
    """What passed through a training, one entry per step.

    Args:
        sums: Pre-noise sums [R, P]. sensitivity: Claimed, [R]. gradients: Released, [R, P].
        counts: Pre-noise answers of the rule's query, [R, Q]. states: Of the rule, one more than
            steps.
        statistics: The same of the objective. norms: Handed to the rule, [R, B].
        noise, query_noise: The stand-ins.
    """

    sums: list = field(default_factory=list)
    sensitivity: list = field(default_factory=list)
    gradients: list = field(default_factory=list)
    counts: list = field(default_factory=list)
    states: list = field(default_factory=list)
    statistics: list = field(default_factory=list)
    norms: list = field(default_factory=list)
    noise: ToldNoise | None = None
    query_noise: ToldNoise | None = None
    statistic_noise: ToldNoise | None = None
    network: Stacked | None = None
    outcome: object = None


def watched(release, seen):
    """The same release, its arguments kept."""
    kind = type(release)

    class Watched(kind):
        def __call__(self, sums, sensitivity, facts, *batch_size):
            seen.sums.append(sums[0].clone())
            seen.sensitivity.append(sensitivity.clone())
            return kind.__call__(self, sums, sensitivity, facts, *batch_size)

    release.__class__ = Watched
    return release


def take_steps(trainer, task, batches, *, noise=(0.0,), answers=None, moves=(), **parts):
    """Train on given batches with told noise and told answers, and tell what was seen.

    Args:
        trainer: A gradient method. batches: One list of record numbers per step (and replicate).
        noise: Value of each step's draw. answers: Noised answer of each step's queries, or None for
            the exact ones. moves: Parameters after each step, or () to leave them.
        parts: Fields of the training that stand in for the method's own.
    """
    per_replicate = [
        batch if batch and isinstance(batch[0], list) else [batch] * task.repeats
        for batch in batches
    ]
    rule = WatchedRule(trainer.rule(task), answers)
    honest = trainer.objective(task)
    objective = WatchedObjective(honest, answers)
    drawn, query, statistic, seen = ToldNoise(*noise), ToldNoise(0.0), ToldNoise(0.0), Seen()
    release = trainer.release(task)
    if hasattr(release, "noise"):
        release.noise = drawn
    optimizer = ToldOptimizer(moves)
    fields = {
        "objective": objective,
        "tape": trainer.tape(honest),
        "rule": rule,
        "release": watched(release, seen),
        "objective_noise": statistic,
        "rule_noise": query,
        "optimizer": optimizer,
        "sampler": GivenBatches(per_replicate, task.pool.n_records),
        "facts": task.facts(),
        "epochs": 1,
        "budget": task.budget,
        **parts,
    }
    seen.network = stack([task.model] * task.repeats, task.seed)
    seen.outcome = train(seen.network, task.pool, Training(**fields))
    seen.gradients, seen.counts, seen.states = optimizer.gradients, rule.counts, rule.states
    seen.noise, seen.query_noise, seen.statistic_noise = drawn, query, statistic
    seen.statistics, seen.norms = objective.counts, rule.norms
    return seen
