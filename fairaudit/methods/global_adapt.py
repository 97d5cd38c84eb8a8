"""DPSGD-Global-Adapt: global scaling whose threshold follows a noised count.

In symbols C is the clipping bound ``max_grad_norm``, Z the threshold, tau the tolerance, eta_Z the
threshold's learning rate and qN the expected batch size; R is the number of replicates, B of
records in a batch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar  # noqa: TID251 - it is read without torch

from fairaudit.engine.rules import ClippingRule, PublicFacts
from fairaudit.methods.defaults import COUNT_NOISE_MULTIPLIER, FLAT, THRESHOLD, Rule, Setting
from fairaudit.methods.gradient import GradientMethod
from fairaudit.methods.spec import Guarantee, MethodSpec

if TYPE_CHECKING:
    from torch import Tensor

    from fairaudit.methods.base import Task

THRESHOLD_CEILING = 1e4  # largest threshold, in units of max_grad_norm

GLOBAL_ADAPT = MethodSpec(
    name="global-adapt",
    aliases=("dpsgd-global-adapt", "adapt"),
    summary="scale every gradient by C/Z, longer ones down to C; Z follows a noised count; add "
    "noise",
    source="Esipova et al. 2023, Alg. 2",
    guarantee=Guarantee.ESTABLISHED,
    gap_on_sample=(2.9, 1.0, 4.8),
    trainer=f"{__name__}:GlobalAdapt",
    settings={
        **FLAT,
        "threshold": THRESHOLD,
        "tolerance": Setting(
            "a norm above so many Z counts as exceeding",
            0.0,
            1e6,
            "Z",
            default=Rule("1", lambda s: 1.0),
        ),
        "threshold_learning_rate": Setting(
            "how far Z shrinks where nothing exceeds it",
            0.0,
            10.0,
            "log Z per step",
            default=Rule("0.1", lambda s: 0.1),
        ),
        "count_noise_multiplier": COUNT_NOISE_MULTIPLIER,
    },
    side_queries={"count": "count_noise_multiplier"},
    scales_by_threshold=True,
)


@dataclass(frozen=True, slots=True)
class ThresholdState:
    """The rule's state, [R] each, all released or public.

    Args:
        threshold: Z of this step.
        exceeding: Noised share of records whose norm exceeded tau Z, of this step's query.
        expected_batch_size: qN.
    """

    threshold: Tensor
    exceeding: Tensor
    expected_batch_size: Tensor


@dataclass(frozen=True, slots=True)
class GlobalAdaptiveClip(ClippingRule[ThresholdState]):
    """Scale every gradient by C/Z, or down to C if longer than Z; Z follows a noised count.

    The count is of records whose norm exceeds tau Z; Z grows where many do, and else shrinks.

    Equal to flat clipping at Z with the step times C/Z, which is why `dpsgd-matched` is its
    control. The count is divided by qN; the published form divides by the realised batch size.

    Source: Esipova et al. 2023, Alg. 2; docs/methods.md 3.3. Guarantee: scale * norm <=
    max_grad_norm for every norm and every Z > 0; one record moves the count by at most 1.
    """

    per_replicate: ClassVar[frozenset[str]] = frozenset({"threshold"})

    max_grad_norm: float  # C
    threshold: float | Tensor  # Z at step 0
    tolerance: float  # tau: a norm above tau * Z counts as exceeding
    threshold_learning_rate: float  # shrinkage of log Z per step
    count_noise_multiplier: float  # sigma_c, in records
    ceiling: float  # largest Z; bounds what exp() can do

    query_name: ClassVar[str] = "count"

    @property
    def query_noise_multiplier(self) -> float:
        """sigma_c, in records: the count has sensitivity 1."""
        return self.count_noise_multiplier

    def init(self, replicates: int, facts: PublicFacts) -> ThresholdState:
        """The state before the first step: Z at its start, or C if that is more.

        Z never falls below C, for then C/Z would lengthen gradients; the published algorithm
        presupposes it.
        """
        # One value for each replicate: trainings that run side by side may differ in it.
        start = facts.each(self.threshold).clamp_min(self.max_grad_norm)
        expected = facts.expected_batch_size
        return ThresholdState(start, expected.new_zeros(replicates), expected)

    def query(self, state: ThresholdState, norms: Tensor, group: Tensor) -> Tensor:
        """What each record adds to the count, [R, B, 1]: 1 where its norm exceeds tau Z, else 0."""
        return (
            (norms > self.tolerance * state.threshold.unsqueeze(-1)).to(norms.dtype).unsqueeze(-1)
        )

    def update(self, state: ThresholdState, answer: Tensor) -> ThresholdState:
        """The state with the noised count ``answer [R, 1]`` as a share of the expected batch."""
        return replace(state, exceeding=answer[:, 0] / state.expected_batch_size)

    def sensitivity(self, released: ThresholdState) -> Tensor:
        """C for every replicate, [R]: no scaled gradient is longer, whatever Z is."""
        return released.threshold.new_full(released.threshold.shape, self.max_grad_norm)

    def scale(self, released: ThresholdState, norms: Tensor, group: Tensor) -> Tensor:
        """Each record's factor, C / max(norm, Z), [R, B]."""
        return self.max_grad_norm / norms.maximum(released.threshold.unsqueeze(-1))

    def step(self, released: ThresholdState) -> ThresholdState:
        """The next step's state: Z exp(-eta_Z + share), kept within [C, ceiling]."""
        moved = released.threshold * (released.exceeding - self.threshold_learning_rate).exp()
        return replace(released, threshold=moved.clamp(self.max_grad_norm, self.ceiling))

    def describe(self, released: ThresholdState) -> dict[str, Tensor]:
        """The series for the trace: Z of this step, [R]."""
        return {"threshold": released.threshold}


class GlobalAdapt(GradientMethod):
    """Global scaling with an adaptive threshold.

    Source: Esipova et al. 2023, Alg. 2; docs/methods.md 3.3.
    """

    # The class of the rule, in whose place published forms have another.
    clip: ClassVar[type[GlobalAdaptiveClip]] = GlobalAdaptiveClip

    def rule(self, task: Task) -> ClippingRule[Any]:
        """The clipping rule of a training: factor C / max(norm, Z), with Z adapted at each step."""
        return self.clip(
            max_grad_norm=task.settings["max_grad_norm"],
            threshold=task.settings["threshold"],
            tolerance=task.settings["tolerance"],
            threshold_learning_rate=task.settings["threshold_learning_rate"],
            count_noise_multiplier=task.settings["count_noise_multiplier"],
            ceiling=THRESHOLD_CEILING * task.settings["max_grad_norm"],
        )
