"""PATE: teachers on disjoint records label a public pool by noised votes for a student.

A query is a record of the student pool that the teachers vote on; a teacher's shard is its part of
the training records. In shapes m is the number of queries, R of replicates (one student for each
draw of the noise), Y of classes, d of inputs, T of teachers, B of records in a batch.

Source: Papernot et al. 2017, 2018; Tran and Fioretto 2023; docs/methods.md 5.
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fairaudit.engine.loop import Trace
from fairaudit.engine.network import flatten
from fairaudit.engine.observe import Observer
from fairaudit.engine.replicates import stack, tape_of
from fairaudit.engine.stacked import Stacked
from fairaudit.errors import DivergedError
from fairaudit.methods.base import Method, PublicPool, Task, TrainedModels, TrainedReplicates
from fairaudit.methods.pate import BATCH
from fairaudit.models.convex import (
    BoundedInputs,
    LogisticModels,
    LogisticProblems,
    minimise,
    scores,
)
from fairaudit.privacy.events import Gaussian
from fairaudit.privacy.noise import noise_stream
from fairaudit.privacy.streams import numpy_stream, seed_of

RELEASED = "votes"  # what is released, by the name that the privacy event has for it
# One record sits in one teacher; its vote may leave one cell for another.
VOTE_SENSITIVITY = math.sqrt(2.0)
# Norm to which inputs are clipped. No usual record is longer; one that is must not stop a teacher
# from being solved.
LONGEST = 1e4
INPUTS = BoundedInputs(LONGEST, 1.0)  # of the models with a convex loss
QUERIES_AT_ONCE = 4096  # that all networks answer in one pass


@dataclass(frozen=True, slots=True)
class Descent:
    """The schedule of a plain gradient descent, see :func:`descend`.

    Args:
        steps: How many, of every replicate.
        learning_rate: Step size.
        penalty: lambda of lambda/2 |theta|^2, which is added to the loss.
    """

    steps: int
    learning_rate: float
    penalty: float


def descend(network: Stacked, draw: Callable[[], tuple[Tensor, Tensor]], descent: Descent) -> None:
    """Train ``network`` in place on the mean cross-entropy of the drawn records.

    Replicates that diverge do not stop the others: teachers have records of their own, and to stop
    for one of them would reveal something about its records.

    Args:
        network: R replicates.
        draw: Returns the next batch, inputs [R, B, ...] and targets [R, B, Y]; a row of targets
            that are all 0 stands for no record.
        descent: Schedule.
    """
    tape = tape_of(network)
    single = network.replicates == 1  # then the tape wants its tensors without the axis R
    for _ in range(descent.steps):
        x, targets = draw()
        logits = tape.forward(x[0] if single else x)
        if single:
            logits = logits.unsqueeze(0)
        # p - y, the gradient in the logits; 0 for a row without a record, whose targets sum to 0.
        delta = targets.sum(-1, keepdim=True) * torch.softmax(logits, -1) - targets
        delta = delta / targets.shape[1]  # the loss is a mean over the B rows
        tape.backward(delta[0] if single else delta)
        gradient = tape.sums([torch.ones(targets.shape[:2])])[0]
        network.theta.sub_(gradient + descent.penalty * network.theta, alpha=descent.learning_rate)


def refuse_diverged(network: Stacked, descent: Descent) -> None:
    """Stop where a student diverged; students read released labels only, so this reveals nothing.

    Raises:
        DivergedError: A replicate's parameters are not finite.
    """
    if not torch.isfinite(network.theta).all():
        raise DivergedError(
            f"diverged: parameters are not finite after {descent.steps} steps",
            hint=f"use a smaller step, e.g. --learning-rate {descent.learning_rate / 10:.2g}",
        )


class Pate(Method):
    """What the forms with hard and with soft labels share; they differ in ``labels``.

    A repeat is a draw of the noise; teachers are trained once. A record's teacher depends on its
    own id alone, each teacher on its own records alone: one record moves one vote per query. The
    inputs' encoding is fitted on the pool, never on the teachers' records, for what is fitted
    across shards would let one record move every vote.
    """

    # Whether labels are distributions: no probability is negative, and they sum to 1.
    keeps_the_simplex: ClassVar[bool] = True

    def labels(self, task: Task, votes: Tensor, noise: Tensor) -> Tensor:
        """The student's targets [R, m, Y] from votes [m, Y] and noise on them [R, m, Y]."""
        raise NotImplementedError

    def fit(self, task: Task, observers: Sequence[Observer]) -> TrainedReplicates:
        """Train teachers, count their votes, then train a student for each draw of the noise.

        The method's reference has no noise multiplier: its students see the votes as they are, and
        its event is None. Votes and queries are kept for the diagnostics.
        """
        queried = queries(task)
        votes = collect_votes(task, queried)
        multiplier = task.settings.get("noise_multiplier", 0.0)
        noise = votes.new_zeros(task.repeats, *votes.shape)
        event = None
        if multiplier > 0:
            draws = noise_stream(task.seed, "noise", task.arm, task.repeats)
            noise = draws.fill(noise) * vote_noise(task)
            event = Gaussian(RELEASED, multiplier, len(votes) * draws.draws)
        students = train_students(task, queried, self.labels(task, votes, noise))
        kept = {"votes": votes, "x": queried}
        return TrainedReplicates(students, Trace(), event, kept)


class PateHard(Pate):
    """The student sees the class with the most noised votes; ties go to the lowest class."""

    def labels(self, task: Task, votes: Tensor, noise: Tensor) -> Tensor:
        """The winner of each query's noised votes as a one-hot label, ``[R, m, Y]``."""
        winner = (votes + noise).argmax(-1)
        return torch.nn.functional.one_hot(winner, votes.shape[-1]).double()


class PateSoft(Pate):
    """The student sees the noised shares of the votes, projected to the simplex."""

    def labels(self, task: Task, votes: Tensor, noise: Tensor) -> Tensor:
        """The noised shares of the votes, ``[R, m, Y]``, projected to the nearest distribution.

        A published form leaves the projection out (``keeps_the_simplex``): then shares may be
        negative, and the student's loss unbounded below.
        """
        shares = (votes + noise) / task.settings["teachers"]
        if self.keeps_the_simplex:
            return project_to_simplex(shares)
        return shares


def vote_noise(task: Task) -> float:
    """Standard deviation of the noise on each count of votes: noise multiplier x sensitivity."""
    return task.settings["noise_multiplier"] * VOTE_SENSITIVITY


def is_convex(task: Task) -> bool:
    """Whether the model is one linear layer with bias: then the loss is convex.

    Teachers and students of it are solved exactly; networks are trained by steps.
    """
    layers = flatten(task.model)
    return len(layers) == 1 and type(layers[0]) is torch.nn.Linear and layers[0].bias is not None


def queries(task: Task) -> Tensor:
    """Inputs of the queries, the records of the student pool that are labelled, [m, d]."""
    return torch.from_numpy(_pool(task).features[query_rows(task).numpy()])


def query_rows(task: Task) -> Tensor:
    """Indices of the queries in the student pool, ascending, [m]: all, or drawn by the seed."""
    available, queries = len(_pool(task).features), int(task.settings["queries"])
    assert queries <= available, f"{queries} queries planned, {available} records in the pool"
    order = numpy_stream(task.seed, "split", "queries").permutation(available)
    return torch.from_numpy(np.sort(order[:queries]))


def assign_teachers(records: NDArray[np.int64], teachers: int, seed: int) -> NDArray[np.int64]:
    """Each record's teacher, [N] in 0..teachers-1, from its own id and the seed alone.

    So a record that is added or removed leaves every other record with its teacher. Cutting a
    permutation into equal blocks would move most of them to other teachers.

    Args:
        records: Ids of the training records, [N].
        teachers: How many.
        seed: Audit seed, the hash's key.
    """
    key = seed_of(seed, "split", "teachers").to_bytes(8, "little")
    digests = (hashlib.blake2b(r.tobytes(), digest_size=8, key=key).digest() for r in records)
    return np.fromiter(
        (int.from_bytes(d, "little") % teachers for d in digests), np.int64, len(records)
    )


def query_inputs(queried: Tensor) -> Tensor:
    """Inputs of the queries [m, d] as a convex loss reads them: bounded, [m, d + 1] float64."""
    # INPUTS does not standardise by group, so any group will do.
    return INPUTS(queried, torch.zeros(len(queried), dtype=torch.int64))


def collect_votes(task: Task, queried: Tensor) -> Tensor:
    """Train the teachers and count their votes for each class, [m, Y] float64.

    A teacher without records votes for class 0.

    Args:
        task: Training records with their ids, model and settings.
        queried: Inputs of the queries, [m, d].
    """
    assert task.records is not None, "PATE needs ids of the training records"
    teachers = int(task.settings["teachers"])
    teacher_of_record = torch.from_numpy(assign_teachers(task.records, teachers, task.seed))
    votes = torch.zeros(len(queried), task.pool.n_classes, dtype=torch.float64)
    sizes = torch.bincount(teacher_of_record, minlength=teachers)
    # Indices of the records of each teacher, ascending; empty for a teacher without records.
    shards = torch.split(torch.argsort(teacher_of_record, stable=True), sizes.tolist())
    if is_convex(task):
        _linear_votes(task, queried, shards, votes)
    else:
        _network_votes(task, queried, shards, votes)
    return votes


def _count(votes: Tensor, winners: Tensor) -> None:
    """Add the votes of k teachers on m queries, class indices [m, k], to ``votes [m, Y]``."""
    votes.scatter_add_(1, winners, torch.ones_like(winners, dtype=votes.dtype))


def train_students(task: Task, queried: Tensor, targets: Tensor) -> TrainedModels:
    """R students, one for each set of labels, all from one start and on one order of batches.

    Where the loss is convex they are its exact minimisers.

    Args:
        task: Model, schedule and penalty.
        queried: Inputs of the queries, [m, d].
        targets: Labels of the queries for each student, [R, m, Y].

    Raises:
        DivergedError: A student that is a network diverged.
    """
    penalty = task.settings["student_penalty"]
    if is_convex(task):
        x = query_inputs(queried)
        return LogisticModels(minimise(LogisticProblems(x, targets, penalty)), INPUTS)
    network = stack([task.model] * len(targets), task.seed)
    stream, size = numpy_stream(task.seed, "sampling", "student"), len(queried)

    def draw() -> tuple[Tensor, Tensor]:
        """A batch of queried records ``[R, B, ...]``, the same for all students, and its labels."""
        batch = torch.from_numpy(stream.integers(size, size=min(BATCH, size)))
        return queried[batch.expand(len(targets), -1)], targets[:, batch].float()

    steps = task.epochs * math.ceil(size / BATCH)
    descent = Descent(steps, task.settings["learning_rate"], penalty)
    descend(network, draw, descent)
    refuse_diverged(network, descent)
    return network


def project_to_simplex(shares: Tensor) -> Tensor:
    """The distribution nearest to each row in L2, [..., Y].

    It is max(0, share - t), with t such that the entries sum to 1: of the k entries that stay above
    0, the largest, t = (their sum - 1) / k. Source: Duchi et al. 2008.
    """
    ordered = shares.sort(-1, descending=True).values
    excess = ordered.cumsum(-1) - 1.0
    position = torch.arange(1, shares.shape[-1] + 1, dtype=shares.dtype)
    kept = (ordered * position > excess).sum(-1, keepdim=True)  # k
    return (shares - excess.gather(-1, kept - 1) / kept).clamp_min(0.0)


def _pool(task: Task) -> PublicPool:
    """The task's student pool, which every task of PATE has."""
    assert task.public is not None, "PATE needs a student pool"
    return task.public


def _linear_votes(task: Task, queried: Tensor, shards: Sequence[Tensor], votes: Tensor) -> None:
    """Solve teachers with a convex loss, each on its own shard, and add to ``votes [m, Y]``.

    One is solved after the other: stacked shards would be padded to one length, which would let a
    record's presence reach the rounding of other teachers.

    Args:
        task: Training records and penalty.
        queried: Inputs of the queries, [m, d].
        shards: Indices of each teacher's training records; empty for one without records.
        votes: What the votes are added to, in place.
    """
    x_queried = query_inputs(queried)
    for shard in shards:
        if not len(shard):  # a teacher without records votes for class 0
            votes[:, 0] += 1.0
            continue
        records = task.pool.gather(shard, None)
        x, targets = INPUTS(records.inputs, records.group), records.targets.double().unsqueeze(0)
        theta = minimise(LogisticProblems(x, targets, task.settings["teacher_penalty"]))
        _count(votes, scores(x_queried, theta)[0].argmax(-1, keepdim=True))  # [0]: one model


def _network_votes(task: Task, queried: Tensor, shards: Sequence[Tensor], votes: Tensor) -> None:
    """Train teachers that are networks as stacked replicates, and add to ``votes [m, Y]``.

    Each has batches of its own shard, drawn by a stream of its own. The arguments are those of
    :func:`_linear_votes`.
    """
    teachers = len(shards)
    streams = [numpy_stream(task.seed, "sampling", "teacher", number) for number in range(teachers)]
    network = stack([task.model] * teachers, task.seed)

    def draw() -> tuple[Tensor, Tensor]:
        """A batch for every teacher from its own shard: inputs ``[T, B, ...]``, targets.

        A teacher without records gets rows that stand for no record.
        """
        # At first all are the null record, the row behind all others, which stands for no record.
        rows = torch.full((teachers, BATCH), task.pool.n_records)
        for number, shard in enumerate(shards):
            if len(shard):
                stream = streams[number]
                rows[number] = shard[torch.from_numpy(stream.integers(len(shard), size=BATCH))]
        batch = task.pool.gather(rows, rows < task.pool.n_records)
        # Inputs longer than LONGEST are shortened to it, each record by itself, as INPUTS does;
        # inputs that are not finite become 0.
        lengths = batch.norms.view(*rows.shape, *[1] * len(task.pool.shape))
        x = torch.where(
            torch.isfinite(lengths), batch.inputs * (LONGEST / lengths).clamp_max(1.0), 0.0
        )
        return x, batch.targets

    # A public number of steps: one that followed a shard's size would follow its records.
    steps = task.epochs * math.ceil(task.n_public / teachers / BATCH)
    descend(
        network,
        draw,
        Descent(steps, task.settings["learning_rate"], task.settings["teacher_penalty"]),
    )
    # A teacher that diverged votes for class 0, as one without records does: to stop the training
    # would reveal something about its records.
    finite = network.theta.isfinite().all(1)
    votes_zero = torch.tensor([len(shard) == 0 for shard in shards]) | ~finite  # [T]
    for start in range(0, len(queried), QUERIES_AT_ONCE):
        some = slice(start, start + QUERIES_AT_ONCE)
        winners = network.probabilities(queried[some]).argmax(-1)
        _count(votes[some], winners.masked_fill(votes_zero.unsqueeze(1), 0).T)
