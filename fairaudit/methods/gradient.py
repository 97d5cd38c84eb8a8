"""The base of all methods that train by gradient steps.

They differ in the objective, the clipping rule, the release and the step size, and in nothing else.
The engine is imported only where something is trained, so that the methods' files, which import
this one, can be read without torch.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any  # noqa: TID251 - it is read without torch

from fairaudit.engine.rules import Erm
from fairaudit.methods.base import Method, Task, TrainedReplicates, diverged

if TYPE_CHECKING:
    from fairaudit.engine.loop import TapeMaker, Training
    from fairaudit.engine.observe import Observer
    from fairaudit.engine.release import Release, UnprovenRelease
    from fairaudit.engine.rules import ClippingRule, Objective
    from fairaudit.engine.stacked import Stacked

LARGEST_PARAMETER = 1e8  # inputs are standardised: beyond it a training has diverged


class GradientMethod(Method):
    """Trains through the engine's loop; a subclass gives at least the clipping rule.

    Example:
        >>> from fairaudit.engine.rules import FlatClip
        >>> class HalfBound(GradientMethod):
        ...     def rule(self, task):
        ...         return FlatClip(task.settings["max_grad_norm"] / 2)
    """

    def objective(self, task: Task) -> Objective[Any]:
        """What is differentiated; by default each record's cross-entropy alone."""
        return Erm()

    def tape(self, objective: Objective[Any]) -> TapeMaker:
        """What makes the tape: the forward pass of a batch, its gradients' norms and their sums.

        By default the engine's own choice for the network.
        """
        from fairaudit.engine.replicates import tape_of

        return tape_of

    @abstractmethod
    def rule(self, task: Task) -> ClippingRule[Any]:
        """The clipping rule: how each record's gradient is scaled, and the sensitivity of that."""

    def release(self, task: Task) -> Release | UnprovenRelease:
        """What makes the step's gradient of the sum of scaled gradients.

        By default it adds Gaussian noise from the arm's own stream, ``noise_multiplier`` times the
        sensitivity, and divides by qN.
        """
        from fairaudit.engine.release import GaussianRelease
        from fairaudit.privacy.noise import noise_stream

        noise = noise_stream(task.seed, "noise", task.arm, task.repeats)
        return GaussianRelease(task.settings["noise_multiplier"], noise)

    def learning_rate(self, task: Task) -> float:
        """Step size of the optimizer."""
        return task.settings["learning_rate"]

    def fit(self, task: Task, observers: Sequence[Observer]) -> TrainedReplicates:
        """Train all repeats side by side as replicates, from the seed's one initial model.

        Raises:
            DivergedError: A parameter is huge or not finite.
        """
        from fairaudit.engine.devices import working_on
        from fairaudit.engine.loop import train

        with working_on(task.device):
            network, training = self._set_up(task, observers)
            outcome = train(network, task.pool.to(task.device), training)
        if not _is_sound(network):
            raise diverged(task.arm, task.seed, self.learning_rate(task), "parameters")
        return TrainedReplicates(
            network, outcome.trace, outcome.event, checkpoints=outcome.checkpoints
        )

    def fit_all(
        self, tasks: Sequence[Task], observers: Sequence[Observer] = ()
    ) -> list[TrainedReplicates | None]:
        """As :meth:`Method.fit_all`, with small models side by side, as replicates of one training.

        Side by side go tasks of equally many epochs whose objectives, rules and releases can be
        joined; others are trained in turn. Which tasks go side by side follows from public numbers,
        never from time or load: the sums of the two ways are rounded differently, and a run must
        give the same numbers again.
        """
        from fairaudit.engine.joint_training import at_once
        from fairaudit.engine.replicates import stack

        has_own_fit = type(self).fit is not GradientMethod.fit  # which cannot be joined here
        if len(tasks) == 1 or has_own_fit:
            return super().fit_all(tasks, observers)
        # How many trainings go side by side; 1 where that would not be faster.
        size = at_once(stack([tasks[0].model]), tasks[0].n_public / tasks[0].steps_per_epoch)
        places_by_epochs: dict[int, list[int]] = {}  # number of epochs -> indices of such tasks
        for place, task in enumerate(tasks):
            places_by_epochs.setdefault(task.epochs, []).append(place)
        trained: dict[int, TrainedReplicates | None] = {}
        for places in places_by_epochs.values():
            for start in range(0, len(places), size):
                some = places[start : start + size]
                some_tasks = [tasks[place] for place in some]
                models = None  # not trained yet
                if len(some_tasks) > 1:
                    models = self._fit_side_by_side(some_tasks, observers)
                if models is None:
                    models = super().fit_all(some_tasks, observers)
                trained |= zip(some, models, strict=True)
        return [trained[place] for place in range(len(tasks))]

    def _fit_side_by_side(
        self, tasks: Sequence[Task], observers: Sequence[Observer]
    ) -> list[TrainedReplicates | None] | None:
        """Train the tasks as the replicates of one training, and take its result apart by task.

        Returns:
            One result per task, in their order, with None for a task that diverged. None in place
            of the list where the tasks cannot be joined, so that the caller trains them in turn.
        """
        from fairaudit.engine.devices import working_on
        from fairaudit.engine.joint_training import joined
        from fairaudit.engine.loop import train
        from fairaudit.engine.replicates import stack

        first = tasks[0]
        with working_on(first.device):
            # Only the trainings, [1], are joined; the common one gets its observers below.
            training = joined([self._set_up(task, [])[1] for task in tasks])
            if training is None:
                return None
            network = stack([task.model for task in tasks], first.seed, first.device)
            training = replace(training, observers=observers)
            outcome = train(network, first.pool.to(first.device), training)
            models: list[TrainedReplicates | None] = []
            for place, task in enumerate(tasks):
                # The task's replicate as a network of its own.
                alone = stack([task.model], first.seed, first.device)
                alone.theta.copy_(network.theta[place])
                model = TrainedReplicates(alone, outcome.trace.of(place), outcome.event)
                models.append(model if _is_sound(alone) else None)
        return models

    def _set_up(self, task: Task, observers: Sequence[Observer]) -> tuple[Stacked, Training]:
        """The replicates' network, at its start, and the training that this method makes of a task.

        The training joins the method's objective, rule and release with the task's schedule,
        sampling streams and optimizer.
        """
        from fairaudit.engine.loop import Training
        from fairaudit.engine.optimizers import OPTIMIZERS
        from fairaudit.engine.replicates import stack
        from fairaudit.engine.sampling import PoissonSampler
        from fairaudit.privacy.noise import noise_stream
        from fairaudit.privacy.streams import numpy_stream

        network = stack([task.model] * task.repeats, task.seed, task.device)
        streams = [numpy_stream(task.seed, "sampling", label) for label in task.sampling]
        objective = self.objective(task)
        training = Training(
            objective=objective,
            rule=self.rule(task),
            release=self.release(task),
            objective_noise=noise_stream(task.seed, "query", f"{task.arm}/objective", task.repeats),
            rule_noise=noise_stream(task.seed, "query", f"{task.arm}/rule", task.repeats),
            optimizer=OPTIMIZERS[task.optimizer](self.learning_rate(task)),
            sampler=PoissonSampler(streams, task.pool.n_records, task.steps_per_epoch),
            facts=task.facts(),
            epochs=task.epochs,
            observers=observers,
            checkpoints=frozenset(task.checkpoints),
            budget=task.budget,
            tape=self.tape(objective),
        )
        return network, training


def _is_sound(network: Stacked) -> bool:
    """Whether the training did not diverge: no parameter is beyond LARGEST_PARAMETER, or NaN.

    Huge finite parameters count as diverged, too: records whose gradients overflow count as zero,
    so an exploded model may stand still there. The check costs no privacy, because parameters are
    released values (rule R9).
    """
    return bool((network.theta.abs() <= LARGEST_PARAMETER).all())
