"""What the trainings of the user's own code show, as a report holds it."""

from collections.abc import Iterator, Sequence

from fairaudit.messages.base import Message
from fairaudit.report.document import Cell, Section, Text, table
from fairaudit.report.model import Report, Study
from fairaudit.report.numbers import UNKNOWN
from fairaudit.report.parts import detected_split, split_cost
from fairaudit.report.remedies import RISK, is_slight
from fairaudit.report.safe_names import plain
from fairaudit.report.types.findings import Knob
from fairaudit.results.estimates import Comparison, Figure, Interval, Part
from fairaudit.trainers.messages import (
    ClaimBeyondAsked,
    ClassesReordered,
    PrivacyNotHeeded,
    ReferenceBehind,
    SyntheticLacks,
    TrainerDeterministic,
    TrainerNotDeterministic,
)

NAME = "trainers"
_MOST_ROWS = 24


class OwnArm(Part):
    """What is seen of one arm that the user's own code trains.

    Args:
        arm: Its key.
        differs_by: The largest difference of a probability between two trainings with one seed;
            None where only one was trained.
        beyond: The epsilon or delta that it claims beyond what it was asked for, in words; or "".
        same_as: Key of another arm of the same code, without privacy or at another epsilon, that
            predicts the same at every seed; or "".
        is_reordered: Whether it would predict well at every seed, were its classes in another
            order.
        behind: How much less accurate than ``sgd`` it is, where it is what the code trains without
            privacy; None for other arms, and where that is not shown to be a point or more.
    """

    arm: str
    differs_by: Figure | None
    beyond: str
    same_as: str
    is_reordered: bool
    behind: Interval | None


class SyntheticGroup(Part):
    """A group in an arm's synthetic tables beside the real training rows, means over seeds.

    Args:
        arm, grouping, group: Whose table, and which group of which grouping.
        real_share, share: The group's share of the real rows, and of the synthetic ones.
        real_rate, rate: Share of the positive class among the group's rows, real and synthetic;
            None without such a class, or without rows.
        missing_at: Number of seeds at which the table has no row of the group.
        missing_classes: Classes that the group has in the real rows, but not in the table of some
            seed.
    """

    arm: str
    grouping: str
    group: str
    real_share: Figure
    share: Figure
    real_rate: Figure | None
    rate: Figure | None
    missing_at: int
    missing_classes: tuple[str, ...]


class Trainers(Study):
    """What a report holds of the arms of the user's own code, beside their costs."""

    arms: tuple[OwnArm, ...]
    groups: tuple[SyntheticGroup, ...]

    def warnings(self) -> Iterator[Message]:
        """The report's warnings about the user's own code, in the order of the arms.

        A notice says whether code looks deterministic. Warnings are of code that claims more than
        it was asked for, does not heed ``privacy``, returns classes in another order, predicts
        worse than ``sgd`` without privacy, or makes tables that lack a group or a class of it.
        """
        for arm in self.arms:
            if arm.differs_by is not None:  # trained twice, at the first seed
                yield (
                    TrainerNotDeterministic(arm.arm, arm.differs_by)
                    if arm.differs_by
                    else TrainerDeterministic(arm.arm)
                )
            if arm.beyond:
                yield ClaimBeyondAsked(arm.arm, arm.beyond)
            if arm.same_as:
                yield PrivacyNotHeeded(arm.arm, arm.same_as)
            if arm.is_reordered:
                yield ClassesReordered(arm.arm)
            if arm.behind is not None:
                yield ReferenceBehind(arm.arm, arm.behind)
        for group in self.groups:
            if group.missing_at or group.missing_classes:
                yield SyntheticLacks(
                    group.arm, group.group, group.missing_at, group.missing_classes
                )

    def knob(self, compared: Sequence[Comparison]) -> Knob | None:
        """What to change so that an arm of the user's code costs less: its noise or its settings.

        A cost has two parts, what is there without noise and what noise adds. Its larger part
        decides. The first comparison with a cost that was split and is not slight is read: its
        detected gap or cost, else its loss over all rows.

        Args:
            compared: The arm's comparisons, one for each grouping.

        Returns:
            ``own noise``, less noise (a larger epsilon, more rows), where noise is the larger part.
            ``own settings``, other settings of the code, where the part without noise is larger and
            both it and the gap or cost are detected. None, nothing, where they are not, or where no
            such cost was split.
        """
        for comparison in compared:
            split = detected_split(comparison)
            if split is None:
                split = split_cost(comparison, comparison.overall, RISK)
            if split is None or is_slight(split):
                continue
            larger = split.largest()
            if larger.name != "without_noise":
                return "own noise"
            # A split of a gap names its group `a`, and only detected gaps are split; `paid` lists
            # the metrics whose cost is detected.
            is_detected = bool(split.a) or split.metric in comparison.paid
            return "own settings" if is_detected and larger.is_above else None
        return None

    def sections(self, report: Report) -> dict[str, Section]:
        """The section on synthetic tables, before that on metrics; none without such a table."""
        return {"metrics": _section(report, self)} if self.groups else {}


def _section(report: Report, study: Trainers) -> Section:
    """A table of each group's share and base rate, in synthetic tables beside the real rows."""
    rows: list[tuple[Cell, ...]] = []
    for group in study.groups:
        shares = group.real_share, group.share, group.real_rate, group.rate
        written = [UNKNOWN if share is None else f"{100 * share:.1f} %" for share in shares]
        name = report.name_of(group.grouping, group.group)
        rows.append((plain(group.arm), name, *written))
    head = ("method", "group", "#real rows", "#synthetic rows", "#base rate, real", "#synthetic")
    intro = Text("Groups in the synthetic tables beside the real training rows, means over seeds.")
    return Section("synthetic", "The synthetic tables", (intro, table(head, rows, most=_MOST_ROWS)))
