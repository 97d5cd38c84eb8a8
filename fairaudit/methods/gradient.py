"""Methods that train by gradient steps: a rule, a release, and nothing else to tell them apart.

What a step is made of is imported when one is trained, so that the files of methods, which hold
what each is beside its rule, can be read without torch.
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

LARGEST_PARAMETER = 1e8  # inputs are standardised: beyond it nothing was learned


class GradientMethod(Method):
    """Trains through the engine's loop; a method says how to scale and how to release."""

    def objective(self, task: Task) -> Objective[Any]:
        """What is differentiated."""
        return Erm()

    def tape(self, objective: Objective[Any]) -> TapeMaker:
        """How a batch goes through the network."""
        from fairaudit.engine.replicates import tape_of

        return tape_of

    @abstractmethod
    def rule(self, task: Task) -> ClippingRule[Any]:
        """How each record's gradient is scaled."""

    def release(self, task: Task) -> Release | UnprovenRelease:
        """Gaussian noise from the arm's own stream."""
        from fairaudit.engine.release import GaussianRelease
        from fairaudit.privacy.noise import noise_stream

        noise = noise_stream(task.seed, "noise", task.arm, task.repeats)
        return GaussianRelease(task.settings["noise_multiplier"], noise)

    def learning_rate(self, task: Task) -> float:
        """Step size."""
        return task.settings["learning_rate"]

    def fit(self, task: Task, observers: Sequence[Observer]) -> TrainedReplicates:
        """Train all repeats side by side from this seed's one start."""
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
        """Small models of one length side by side where the method's parts can, others in turn.

        What goes side by side follows from public numbers, never from time or load, for the two
        ways differ by the rounding of their sums.
        """
        from fairaudit.engine.abreast import at_once
        from fairaudit.engine.replicates import stack

        has_own_way = type(self).fit is not GradientMethod.fit
        if len(tasks) == 1 or has_own_way:
            return super().fit_all(tasks, observers)
        size = at_once(stack([tasks[0].model]), tasks[0].n_public / tasks[0].steps_per_epoch)
        lengths: dict[int, list[int]] = {}
        for place, task in enumerate(tasks):
            lengths.setdefault(task.epochs, []).append(place)
        trained: dict[int, TrainedReplicates | None] = {}
        for places in lengths.values():
            for start in range(0, len(places), size):
                some = places[start : start + size]
                some_tasks = [tasks[place] for place in some]
                models = None
                if len(some_tasks) > 1:
                    models = self._abreast(some_tasks, observers)
                trained |= zip(
                    some,
                    models or super().fit_all(some_tasks, observers),
                    strict=True,
                )
        return [trained[place] for place in range(len(tasks))]

    def _abreast(
        self, tasks: Sequence[Task], observers: Sequence[Observer]
    ) -> list[TrainedReplicates | None] | None:
        """One training of them all, taken apart again; None where one cannot stand for all.

        In the list a None stands for a model that diverged.
        """
        from fairaudit.engine.abreast import abreast
        from fairaudit.engine.devices import working_on
        from fairaudit.engine.loop import train
        from fairaudit.engine.replicates import stack

        first = tasks[0]
        with working_on(first.device):
            # Without observers: those of the common training are set below.
            training = abreast([self._set_up(task, [])[1] for task in tasks])
            if training is None:
                return None
            network = stack(
                [task.model for task in tasks],
                first.seed,
                first.device,
            )
            training = replace(training, observers=observers)
            outcome = train(network, first.pool.to(first.device), training)
            models: list[TrainedReplicates | None] = []
            for place, task in enumerate(tasks):
                alone = stack([task.model], first.seed, first.device)
                alone.theta.copy_(network.theta[place])
                model = TrainedReplicates(alone, outcome.trace.of(place), outcome.event)
                models.append(model if _is_sound(alone) else None)
        return models

    def _set_up(
        self,
        task: Task,
        observers: Sequence[Observer],
    ) -> tuple[Stacked, Training]:
        """The stacked network and the training that the method's parts make of a task."""
        from fairaudit.engine.loop import Training
        from fairaudit.engine.optimizers import OPTIMIZERS
        from fairaudit.engine.replicates import stack
        from fairaudit.engine.sampling import PoissonSampler
        from fairaudit.privacy.noise import noise_stream
        from fairaudit.privacy.streams import numpy_stream

        network = stack(
            [task.model] * task.repeats,
            task.seed,
            task.device,
        )
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
    """Whether something was learned. Reads released values only (rule R9).

    Records that overflow count as zero, so an exploded model may stand still at huge finite
    parameters.
    """
    return bool((network.theta.abs() <= LARGEST_PARAMETER).all())
