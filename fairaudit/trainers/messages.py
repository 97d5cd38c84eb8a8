"""What a reader must know of arms that the user's own code trains: warnings and limitations."""

from dataclasses import dataclass

from fairaudit.errors import numbered
from fairaudit.messages.base import Message
from fairaudit.messages.limits import OneModel
from fairaudit.report.numbers import POINTS, written
from fairaudit.results.estimates import Interval


@dataclass(frozen=True, slots=True)
class _OfArm(Message):
    """A message about one arm, of which ``arm`` is the key."""

    arm: str

    @property
    def about(self) -> str:
        return self.arm


@dataclass(frozen=True, slots=True)
class TrainerDeterministic(_OfArm):
    """The arm was trained twice at the first seed, and both trainings predict the same."""

    code = "trainer_deterministic"
    level = "notice"
    when = "own code predicts the same in two trainings with one seed"

    @property
    def text(self) -> str:
        return (
            f"{self.arm} was trained twice at the first seed: the same predictions, so it looks "
            "deterministic"
        )


@dataclass(frozen=True, slots=True)
class TrainerNotDeterministic(_OfArm):
    """The arm was trained twice at the first seed, and the trainings predict something else.

    ``differs_by`` is the largest difference of a probability.
    """

    code = "trainer_not_deterministic"
    level = "notice"
    when = "own code predicts something else in a second training with one seed"

    differs_by: float

    @property
    def text(self) -> str:
        return (
            f"{self.arm} was trained twice at the first seed: probabilities differ by up to "
            f"{self.differs_by:.2g}"
        )

    @property
    def fix(self) -> str:
        return "draw everything from the seed that it is given, as long as it is audited"


@dataclass(frozen=True, slots=True)
class ClaimBeyondAsked(_OfArm):
    """The arm claims more than it was asked for: ``claim``, as "epsilon 4, asked was 3"."""

    code = "claim_beyond_asked"
    when = "own code claims a larger epsilon or delta than it was asked for"

    claim: str

    @property
    def text(self) -> str:
        return f"{self.arm} claims {self.claim}"

    @property
    def fix(self) -> str:
        return "calibrate it to what is asked"


@dataclass(frozen=True, slots=True)
class PrivacyNotHeeded(_OfArm):
    """The arm predicts the same as ``same_as``, an arm of its code at another epsilon or none."""

    code = "privacy_not_heeded"
    when = "own code predicts the same whatever epsilon it is asked for"

    same_as: str

    @property
    def text(self) -> str:
        return f"{self.arm} predicts at every seed exactly what {self.same_as} does"

    @property
    def fix(self) -> str:
        return "does it read `privacy`?"


@dataclass(frozen=True, slots=True)
class ClassesReordered(_OfArm):
    """The arm's columns of probabilities seem to be in another order than the classes."""

    code = "classes_reordered"
    when = "own code would predict well if its classes stood in another order"

    @property
    def text(self) -> str:
        return f"{self.arm} would predict well if its classes stood in another order"

    @property
    def fix(self) -> str:
        return "columns in the order of data.classes, which is that of data.labels"


@dataclass(frozen=True, slots=True)
class ReferenceBehind(_OfArm):
    """The arm, trained without privacy, is less accurate than ``sgd``: by ``behind``, a share."""

    code = "reference_behind"
    when = "own code without privacy is at least a point less accurate than sgd"

    behind: Interval

    @property
    def text(self) -> str:
        behind = written(self.behind, POINTS)
        return f"{self.arm}, without privacy, is {behind} points of accuracy behind sgd"

    @property
    def fix(self) -> str:
        return "by its settings, its kind of model or rows that it leaves out, not by privacy"


@dataclass(frozen=True, slots=True)
class SyntheticLacks(_OfArm):
    """The arm's synthetic tables lack a group at ``missing_at`` seeds, or else classes of it."""

    code = "synthetic_lacks"
    when = "a synthetic table has no row of a group, or of a class of it"

    group: str
    missing_at: int
    missing_classes: tuple[str, ...]

    @property
    def text(self) -> str:
        lacks = f"of {self.group} no row of {', '.join(self.missing_classes)}"
        if self.missing_at:
            lacks = f"no row of {self.group} at {numbered(self.missing_at, 'seed')}"
        return f"the synthetic table of {self.arm} has {lacks}"

    @property
    def fix(self) -> str:
        return "its costs there are of a model that saw none"


# --- limitations


@dataclass(frozen=True, slots=True)
class OwnTrainer(Message):
    """What the user's code does is not checked, of the arms that it trains."""

    code = "own_trainer"
    level = "limitation"
    when = "own code trains or makes tables"

    arms: tuple[str, ...]

    @property
    def text(self) -> str:
        return (
            f"{', '.join(self.arms)}: made by code that is not of this program, of which only the "
            "outcome is seen. What that code does with the records, and whether a claimed epsilon "
            "holds, is not checked; it may read anything that its user may, test rows included. A "
            "claimed epsilon is of one training; what several reveal adds up."
        )


@dataclass(frozen=True, slots=True)
class OwnTrainerReadings(Message):
    """The gradients of these arms are not seen, so readings that rest on them are missing."""

    code = "own_trainer_readings"
    level = "limitation"
    when = "own code trains or makes tables, so that its gradients are not seen"

    arms: tuple[str, ...]

    @property
    def text(self) -> str:
        return (
            f"For {', '.join(self.arms)} step and clipping cannot be told apart, there is no angle "
            "between a group's gradient and the step, no curve over training and no curvature: "
            "gradients are not seen. A part called noise holds what else differs between a "
            "training and the same without noise."
        )


@dataclass(frozen=True, slots=True)
class OneTable(OneModel):
    """All models are trained on one synthetic table that was given, ``trainings`` of them."""

    trainings: int

    @property
    def text(self) -> str:
        luck = "the choice of test rows"
        if self.trainings > 1:
            luck += " and the luck of training on it"
        return (
            f"One table was given: intervals cover {luck} and nothing else, another table of the "
            "same maker may give other figures. If test rows are among the rows that it was made "
            "of, figures look better than they are."
        )
