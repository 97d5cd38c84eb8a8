"""Methods that train by gradient steps: a rule, a release, and nothing else to tell them apart."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch

from fairaudit.engine.devices import working_on
from fairaudit.engine.loop import TapeMaker, Training, train
from fairaudit.engine.observe import Observer
from fairaudit.engine.optimizers import make_optimizer
from fairaudit.engine.release import ExactRelease, GaussianRelease, Release, UnprovenRelease
from fairaudit.engine.replicates import stack, tape_of
from fairaudit.engine.rules import ClippingRule, Erm, FlatClip, NoClip, Objective
from fairaudit.engine.sampling import PoissonSampler
from fairaudit.engine.stacked import Stacked
from fairaudit.methods.base import Method, Task, TrainedReplicates, diverged
from fairaudit.methods.objectives import FairLens
from fairaudit.methods.rules.global_adaptive import GlobalAdaptiveClip
from fairaudit.methods.rules.global_clip import GlobalClip
from fairaudit.methods.rules.group_adaptive import GroupAdaptiveClip
from fairaudit.methods.rules.reweighted import ReweightedClip
from fairaudit.privacy.noise import noise_stream
from fairaudit.privacy.streams import numpy_stream

THRESHOLD_CEILING = 1e4  # largest threshold, in units of max_grad_norm
LARGEST_PARAMETER = 1e8  # inputs are standardised: beyond it nothing was learned
SETTLED = 0.8  # share of the steps, counted from the last, that a matched threshold averages over


class GradientMethod(Method):
    """Trains through the engine's loop; a method says how to scale and how to release."""

    def objective(self, task: Task) -> Objective[Any]:
        """What is differentiated."""
        return Erm()

    def tape(self, objective: Objective[Any]) -> TapeMaker:
        """How a batch goes through the network."""
        return tape_of

    @abstractmethod
    def rule(self, task: Task) -> ClippingRule[Any]:
        """How each record's gradient is scaled."""

    def release(self, task: Task) -> Release | UnprovenRelease:
        """Gaussian noise from the arm's own stream."""
        noise = noise_stream(task.seed, "noise", task.arm, task.repeats)
        return GaussianRelease(task.settings["noise_multiplier"], noise)

    def learning_rate(self, task: Task) -> float:
        """Step size."""
        return task.settings["learning_rate"]

    def fit(self, task: Task, observers: Sequence[Observer]) -> TrainedReplicates:
        """Train all repeats side by side from this seed's one start."""
        with working_on(task.device):
            network, training = self._set_up(task, observers)
            outcome = train(network, task.pool.to(task.device), training)
        # Released values only (rule R9). Records that overflow count as zero, so an exploded model may
        # stand still at huge finite parameters.
        if not bool((network.theta.abs() <= LARGEST_PARAMETER).all()):
            raise diverged(task.arm, task.seed, self.learning_rate(task), "parameters")
        return TrainedReplicates(network, outcome.trace, outcome.event, checkpoints=outcome.checkpoints)

    def _set_up(self, task: Task, observers: Sequence[Observer]) -> tuple[Stacked, Training]:
        network = stack([task.model] * task.repeats, task.seed, task.device)
        streams = [numpy_stream(task.seed, "sampling", label) for label in task.sampling]
        objective = self.objective(task)
        training = Training(
            objective=objective,
            rule=self.rule(task),
            release=self.release(task),
            objective_noise=noise_stream(task.seed, "query", f"{task.arm}/objective", task.repeats),
            rule_noise=noise_stream(task.seed, "query", f"{task.arm}/rule", task.repeats),
            optimizer=make_optimizer(task.optimizer, self.learning_rate(task)),
            sampler=PoissonSampler(streams, task.pool.n_records, task.steps_per_epoch),
            facts=task.facts(),
            epochs=task.epochs,
            observers=observers,
            checkpoints=frozenset(task.checkpoints),
            budget=task.budget,
            tape=self.tape(objective),
        )
        return network, training


class Sgd(GradientMethod):
    """The non-private reference: same start, same batches, no clipping, no noise."""

    def rule(self, task: Task) -> NoClip:
        """Gradients as they are."""
        return NoClip()

    def release(self, task: Task) -> ExactRelease:
        """No noise."""
        return ExactRelease()


class DpSgd(GradientMethod):
    """Flat clipping. Source: Abadi et al. 2016; docs/methods.md 3.1."""

    def rule(self, task: Task) -> FlatClip:
        """Down to C."""
        return FlatClip(task.settings["max_grad_norm"])


class Global(GradientMethod):
    """Global scaling. Source: Bu et al. 2021; docs/methods.md 3.2."""

    def rule(self, task: Task) -> ClippingRule[Any]:
        """C/Z within Z, else nothing."""
        return GlobalClip(task.settings["max_grad_norm"], task.settings["threshold"])


class GlobalAdapt(GradientMethod):
    """Global scaling with an adaptive threshold. Source: Esipova et al. 2023, Alg. 2; docs/methods.md 3.3."""

    def rule(self, task: Task) -> ClippingRule[Any]:
        """C / max(norm, Z)."""
        return GlobalAdaptiveClip(
            max_grad_norm=task.settings["max_grad_norm"],
            threshold=task.settings["threshold"],
            tolerance=task.settings["tolerance"],
            threshold_learning_rate=task.settings["threshold_learning_rate"],
            count_noise_multiplier=task.settings["count_noise_multiplier"],
            ceiling=THRESHOLD_CEILING * task.settings["max_grad_norm"],
        )


class DpSgdMatched(DpSgd):
    """DPSGD that clips at the threshold global-adapt settled on, with its effective step.

    global-adapt is flat clipping at Z with the step times C/Z. If this arm does as well, clipping
    less is what helped, not scaling globally. It reads released thresholds of the same seed's run, so
    its own use composes with that run's; it serves the audit, not a release.

    Source: docs/methods.md 3.4.
    """

    def rule(self, task: Task) -> FlatClip:
        """Down to the settled threshold."""
        return FlatClip(self._settled(task))

    def learning_rate(self, task: Task) -> float:
        """The effective step of global-adapt: eta C / Z."""
        return task.settings["learning_rate"] * task.settings["max_grad_norm"] / self._settled(task)

    @staticmethod
    def _settled(task: Task) -> float:
        thresholds = torch.from_numpy(task.source["threshold"]).double()
        late = thresholds[-max(1, math.ceil(SETTLED * len(thresholds))) :]
        return float(late.log().mean().exp())


class DpSgdF(GradientMethod):
    """A clipping bound for each group. Source: Xu et al. 2021, Alg. 2; docs/methods.md 3.5."""

    def rule(self, task: Task) -> GroupAdaptiveClip:
        """C_k by the group's noised share of clipped records."""
        settings = task.settings
        return GroupAdaptiveClip(
            max_grad_norm=settings["max_grad_norm"],
            count_noise_multiplier=settings["count_noise_multiplier"],
            largest_bound_ratio=settings["largest_bound_ratio"],
            against_batch=settings["against_batch"] != 0.0,
            noise_multiplier=settings["noise_multiplier"],
        )


class Reweight(GradientMethod):
    """A weight for each group. Source: Xu et al. 2021, Alg. 3; docs/methods.md 3.6."""

    def rule(self, task: Task) -> ReweightedClip:
        """theta_k by the group's noised count."""
        settings = task.settings
        return ReweightedClip(
            max_grad_norm=settings["max_grad_norm"],
            count_noise_multiplier=settings["count_noise_multiplier"],
            smallest_count=settings["smallest_count"],
            largest_weight=settings["largest_weight"],
            noise_multiplier=settings["noise_multiplier"],
        )


class FairLensDecoupled(DpSgd):
    """Flat clipping of a penalised loss. Source: Tran et al. 2021, eq. (6); docs/methods.md 3.7."""

    def objective(self, task: Task) -> FairLens:
        """The penalty, its group statistics released with noise in proportion to the gradient's."""
        settings = task.settings
        return FairLens(
            gamma2=settings["gamma2"],
            noise_multiplier=settings["statistic_noise_ratio"] * settings["noise_multiplier"],
            decay=settings["statistic_decay"],
            smallest_count=settings["smallest_count"],
            smallest_share=settings["smallest_share"],
            n_classes=task.pool.n_classes,
        )
