"""Findings on where a cost comes from, on controls and on the ablation of clipping."""

from collections.abc import Mapping
from dataclasses import dataclass

from fairaudit.report.messages.base import FindingMessage, WrittenNumber
from fairaudit.report.safe_names import plain
from fairaudit.results.estimates import Interval

ALL = 0.995  # share of a cost from which a part is said to be all of it
NEITHER_HALF = "neither half by itself"


@dataclass(frozen=True, slots=True, kw_only=True)
class _FromPart(FindingMessage):
    """A part makes at least half of a cost or gap; its code is ``from_`` and the part's name.

    Args:
        total: The cost, or with groups the gap.
        parts: All known parts by name.
    """

    question = "from"

    total: Interval
    parts: tuple[tuple[str, Interval], ...]

    @property
    def numbers(self) -> dict[str, Interval]:
        """The total, and every known part by its name."""
        return {"total": self.total, **dict(self.parts)}

    @property
    def own_words(self) -> dict[str, str]:
        """``part``: the beginning, as ``All of the gap of 3 points of accuracy comes``.

        A part of nearly all is called all; of a smaller one its number is written.
        """
        subject, part = self.subject, dict(self.parts)[self.code.removeprefix("from_")]
        whole = f"{WrittenNumber(self.total, subject.unit):value} of {plain(subject.of)}"
        whole = f"the gap of {whole}" if subject.groups else f"the {whole}"
        if (part.value or 0.0) >= ALL * (self.total.value or 0.0):
            return {"part": f"All of {whole} comes"}
        return {"part": f"{WrittenNumber(part, subject.unit):plain} of {whole} come"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FromStep(_FromPart):
    """The length of the steps makes most of it."""

    code = "from_step"
    when = "at least half of a cost or gap is shown to come from the length of the steps alone"
    sentence = "{part} from the length of the steps"


@dataclass(frozen=True, slots=True, kw_only=True)
class FromClipping(_FromPart):
    """What else the method does to gradients, as ``reason`` calls it, makes most."""

    code = "from_clipping"
    when = "at least half of a cost or gap is shown to come from how the method changes gradients"
    sentence = "{part} from {reason}"

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FromStepAndClipping(_FromPart):
    """Steps and clipping together make most of it."""

    code = "from_step_and_clipping"
    when = "at least half of a cost or gap is shown to come from clipping and the steps together"
    sentence = "{part} from clipping and the length of the steps, without any noise"


@dataclass(frozen=True, slots=True, kw_only=True)
class FromRegularisation(_FromPart):
    """The penalty makes most of it."""

    code = "from_regularisation"
    when = (
        "at least half of a cost or gap is shown to be there without noise, of a method that "
        "penalises the parameters"
    )
    sentence = "{part} from the penalty, without any noise"


@dataclass(frozen=True, slots=True, kw_only=True)
class FromPartition(_FromPart):
    """Dividing the records among teachers makes most of it."""

    code = "from_partition"
    when = (
        "at least half of a cost or gap is shown to be there without noise, of a method that "
        "divides the records among teachers"
    )
    sentence = "{part} from dividing the records among teachers, without any noise"


@dataclass(frozen=True, slots=True, kw_only=True)
class FromTraining(_FromPart):
    """A trainer's work without its noise makes most of it."""

    code = "from_without_noise"
    when = (
        "at least half of a cost or gap is shown to be there without noise, of a trainer of the "
        "user's own"
    )
    sentence = "{part} from the training without its noise"


@dataclass(frozen=True, slots=True, kw_only=True)
class FromNoise(_FromPart):
    """The noise makes most of it."""

    code = "from_noise"
    when = "at least half of a cost or gap is shown to be added by the noise"
    sentence = "{part} from privacy noise"


@dataclass(frozen=True, slots=True, kw_only=True)
class FromStepAndNoise(_FromPart):
    """The noise, and the steps that it shortens, make most of it."""

    code = "from_step_and_noise"
    when = (
        "at least half of a cost or gap is shown to come from the noise and from steps that a rule "
        "shortens for it"
    )
    sentence = (
        "{part} from privacy noise: {step:bare} through the shorter steps that it forces, "
        "{noise:bare} directly"
    )


# Name of a part -> the finding that it makes most of a cost.
FROM_PART: Mapping[str, type[_FromPart]] = {
    finding.code.removeprefix("from_"): finding
    for finding in (
        FromStep,
        FromClipping,
        FromStepAndClipping,
        FromRegularisation,
        FromPartition,
        FromTraining,
        FromNoise,
        FromStepAndNoise,
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnedAway(FindingMessage):
    """Degrees by which clipping turns the steps away from each group."""

    code = "turned"
    when = (
        "clipping is shown to turn the steps away from one group more than from another, by a "
        "degree at least"
    )
    question = "from"
    sentence = (
        "Clipping turns training away from {a} by {turn_a:degrees}, from {b} by {turn_b:number}: "
        "{a} is trained less than its share"
    )

    turn_a: Interval
    turn_b: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnedToOther(FindingMessage):
    """Degrees away from the first group, and towards the second."""

    code = "turned_apart"
    when = "clipping is shown to turn the steps away from one group and towards another"
    question = "from"
    sentence = (
        "Clipping turns training away from {a} by {turn_a:degrees} and towards {b} by "
        "{turn_b:number}: {a} is trained less than its share"
    )

    turn_a: Interval
    turn_b: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlFinding(FindingMessage):
    """How a method's gap (``size``) compares with that of its control (``matched``).

    The control is DP-SGD that clips as little (docs/methods.md 3.4).
    """

    size: Interval
    matched: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlWorse(ControlFinding):
    """The control's gap is the larger one."""

    code = "matched_worse"
    when = "DP-SGD with matched clipping has the larger gap: this method does more than clip less"
    sentence = (
        "Its gap is {size}, with plain DP-SGD at the same clipping and step {matched}: the method "
        "helps beyond clipping less"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlAlike(ControlFinding):
    """Neither gap is shown to be the larger one."""

    code = "matched_alike"
    when = "the gap under DP-SGD with matched clipping is not shown to be larger or smaller"
    sentence = (
        "Its gap is {size}, with plain DP-SGD at the same clipping and step {matched}: no "
        "advantage over clipping less is detected"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlBetter(ControlFinding):
    """The control's gap is the smaller one."""

    code = "matched_better"
    when = "DP-SGD with matched clipping has the smaller gap"
    sentence = (
        "Its gap is {size}, with plain DP-SGD at the same clipping and step {matched}: worse than "
        "clipping less alone"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClippingHalves(FindingMessage):
    """The gap of clipping, and of each half; ``reason``: which half has it."""

    code = "clipping_halves"
    when = "a gap is detected under clipping without noise, and both halves were trained alone"
    sentence = (
        "Clipping alone has a gap of {whole}; its magnitude alone {shorter}, its direction alone "
        "{turned}: detected for {reason}"
    )

    whole: Interval
    shorter: Interval
    turned: Interval
    reason: str
