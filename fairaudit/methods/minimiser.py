"""Output perturbation: the exact minimiser plus one Gaussian draw.

In shapes R is the number of replicates, n of records, d of inputs with the constant, Y of classes.

Source: Chaudhuri et al. 2011; Tran et al. 2021, sec. 5; docs/methods.md 4.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from fairaudit.engine.loop import Trace
from fairaudit.engine.observe import Observer
from fairaudit.engine.pool import TrainingPool
from fairaudit.methods.base import Method, Task, TrainedReplicates
from fairaudit.models.convex import (
    TOLERANCE,
    BoundedInputs,
    LogisticModels,
    LogisticProblems,
    minimise,
)
from fairaudit.privacy.events import Gaussian
from fairaudit.privacy.noise import GaussianNoise, noise_stream

RELEASED = "minimiser"  # name of the released vector in the privacy event


def sensitivity(
    *, feature_norm: float, intercept: float, penalty: float, n_public: int, classes: int
) -> float:
    """How far adding or removing one record can move the released minimiser, in L2 norm.

    ``L / (n0 lambda)`` with L the largest gradient of a record, ``sqrt(R^2 + b^2)`` for two classes
    and sqrt(2) times that for more, plus twice what the solver may have left: it stops at a
    gradient of TOLERANCE, so TOLERANCE / lambda away.

    Args:
        feature_norm: R, the norm to which a record's inputs are clipped.
        intercept: b, the constant input that is appended to them.
        penalty: lambda, weight of half the squared norm of the parameters.
        n_public: n0, the divisor of the sum of losses.
        classes: Y.

    Source: docs/methods.md 4.1, 4.2.
    """
    lipschitz = math.hypot(feature_norm, intercept) * (1.0 if classes == 2 else math.sqrt(2.0))
    return lipschitz / (n_public * penalty) + 2.0 * TOLERANCE / penalty


class BoundedRecords(NamedTuple):
    """Training records as the proof of the sensitivity needs them.

    features [n, d] float64 of bounded norm, the constant last; targets [n, Y] float64; groups [n].
    """

    features: Tensor
    targets: Tensor
    groups: Tensor


def bounded(pool: TrainingPool, inputs: BoundedInputs) -> BoundedRecords:
    """All training records of a pool, their inputs clipped and with the constant appended."""
    records = pool.everything()
    x = inputs(records.inputs, records.group)
    return BoundedRecords(x, records.targets.double(), records.group)


class OutputPerturbation(Method):
    """The exact minimiser of a strongly convex loss, released with noise.

    A repeat is a new draw of the noise on the same minimiser, so a hundred of them cost no further
    training.
    """

    def inputs(self, task: Task) -> BoundedInputs:
        """How a record's inputs are bounded: clipped to norm R, then the constant b is appended."""
        return BoundedInputs(task.settings["feature_norm"], task.settings["intercept"])

    def fit(self, task: Task, observers: Sequence[Observer]) -> TrainedReplicates:
        """Solve the convex problem once, then draw each repeat's noise on its minimiser.

        The method's reference has no noise multiplier: its repeats are the minimiser itself, and
        its event is None.
        """
        inputs = self.inputs(task)
        records = bounded(task.pool, inputs)
        problem = LogisticProblems(
            records.features,
            records.targets.unsqueeze(0),
            penalty=task.settings["penalty"],
            divisor=float(task.n_public),
        )
        point = minimise(problem)
        multiplier = task.settings.get("noise_multiplier", 0.0)
        readings = {"minimiser": point}
        if multiplier <= 0:  # the reference has none
            weights = point.expand(task.repeats, -1, -1).clone()
            return TrainedReplicates(LogisticModels(weights, inputs), Trace(), None, readings)
        draws = noise_stream(task.seed, "noise", task.arm, task.repeats)
        weights = point + noise_std(task) * draws.fill(
            point.new_empty(task.repeats, *point.shape[1:])
        )
        event = self.event(multiplier, draws)  # after the draws above, which it counts
        return TrainedReplicates(LogisticModels(weights, inputs), Trace(), event, readings)

    def event(self, multiplier: float, draws: GaussianNoise) -> Gaussian | None:
        """What was released: as many noised vectors as noise was drawn for; that is counted, one.

        None in a published form that has no guarantee.
        """
        return Gaussian(RELEASED, multiplier, draws.draws)


def noise_std(task: Task) -> float:
    """Standard deviation of the noise on each coordinate: sensitivity times noise multiplier."""
    delta = sensitivity(
        feature_norm=task.settings["feature_norm"],
        intercept=task.settings["intercept"],
        penalty=task.settings["penalty"],
        n_public=task.n_public,
        classes=task.pool.n_classes,
    )
    return delta * task.settings["noise_multiplier"]
