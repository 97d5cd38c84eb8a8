"""An arm's two twins at one seed, which split its cost into step, clipping and noise.

The first trains as the arm does but without noise. The second takes its *steps alone*: plain SGD
whose gradients are multiplied, at every step, by the factor that the first twin's clipping rule
gives a gradient that it does not clip. Both have the arm's start, batches, learning rate and
optimizer, and neither is private. Source: docs/methods.md 7.1.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fairaudit.diagnostics.observers import FactorOfStep
from fairaudit.errors import DivergedError
from fairaudit.execution.outcomes import outcome
from fairaudit.execution.seed_data import SeedData
from fairaudit.execution.trained import noiseless
from fairaudit.methods.base import Method, Task, TrainedReplicates
from fairaudit.methods.catalog import find
from fairaudit.methods.gradient import GradientMethod
from fairaudit.methods.steps_alone import FACTOR, StepsAlone
from fairaudit.planning.arms import Arm
from fairaudit.results.jobs import STEP_FACT, WITHOUT_NOISE, Array, JobContent, StepTwin


def train_twins(
    arm: Arm, method: Method, task: Task, prepared: SeedData, reference_rate: float
) -> JobContent:
    """Train an arm's twins at one seed.

    Args:
        arm: An arm that trains by steps with noise.
        method, task: How the arm trains.
        prepared: The seed's data.
        reference_rate: Learning rate of plain SGD (the reference) in this audit.

    Returns:
        The twins' part of :class:`JobResult`. Arrays: ``without_noise.NAME`` of the first twin and
        ``step.NAME`` of the second, where it was trained. Facts: under ``step`` the
        :class:`StepTwin` that says what became of the second.
    """
    task = replace(task, checkpoints=())  # nothing is read of a twin's steps
    if arm.search is not None:
        arrays, kind = arm.search.train_twins(arm, method, task, prepared)
        return arrays, {STEP_FACT: kind}
    first_task = noiseless(arm, task)
    first = method.fit(first_task, [FactorOfStep()])
    assert first.event is None, f"the twin of {arm.key} released {first.event}"
    arrays = named(WITHOUT_NOISE, outcome(first_task, first, prepared))
    second_task = task_of_steps_alone(arm, method, task, first)
    if second_task is None:
        return arrays, {STEP_FACT: StepTwin.NONE}
    steps_alone = StepsAlone(method)
    # With the reference's batches and its length of step, the steps alone are the reference, which
    # is trained already. Its batches come from the stream ``shared``: of several repeats the first
    # alone has it (``task_of``).
    has_its_batches = set(task.sampling) == {"shared"}
    if has_its_batches and steps_alone.takes_steps_of(second_task, reference_rate):
        return arrays, {STEP_FACT: StepTwin.REFERENCE}
    try:
        second = steps_alone.fit(second_task, [])
        arrays |= named(STEP_FACT, outcome(second_task, second, prepared))
    except DivergedError:  # steps that are not clipped may diverge: the cost then has two parts
        return arrays, {STEP_FACT: StepTwin.NONE}
    return arrays, {STEP_FACT: StepTwin.TRAINED}


def task_of_steps_alone(
    arm: Arm, method: Method, task: Task, first: TrainedReplicates
) -> Task | None:
    """The task of the second twin, which takes the steps alone; None where there is no such twin.

    There is none where the length of a step and clipping cannot be told apart: the method makes all
    gradients equally long, does not train by steps of the engine, or has a factor that is not
    finite.

    Args:
        arm, method, task: How the arm trains.
        first: The first twin, with the factor of each of its steps in its trace.
    """
    if find(arm.method).is_normalised or not isinstance(method, GradientMethod):
        return None
    _, of_steps = first.trace.stacked()[FACTOR]  # steps [T], factors [T, R]
    factors = of_steps.float().numpy()
    if not np.isfinite(factors).all():
        return None
    return replace(task, source={**task.source, FACTOR: factors})


def named(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The same arrays, each under the name ``PREFIX.NAME``."""
    return {f"{prefix}.{name}": values for name, values in arrays.items()}
