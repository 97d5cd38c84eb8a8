"""What the trainings of the user's own code show, as a report holds it."""

from collections.abc import Iterator, Sequence
from typing import Literal

from fairaudit.errors import numbered
from fairaudit.report.conditions import RISK, detected_split
from fairaudit.report.document import Cell, Section, Text, table
from fairaudit.report.facts import ReportWarning, Study
from fairaudit.report.findings import Knob
from fairaudit.report.model import Report
from fairaudit.report.numbers import POINTS, UNKNOWN, written
from fairaudit.report.parts import split_cost
from fairaudit.report.safe_names import plain
from fairaudit.results.estimates import Comparison, Figure, Interval, Part

NAME = "trainers"
_MOST_ROWS = 24


class OwnArm(Part):
    """One arm.

    Args:
        arm: Key.
        differs_by: The largest difference of a probability between two trainings with one seed;
            None where there was one alone.
        beyond: What it claims beyond what it was asked for, in words; or "".
        same_as: Another arm of the code, without privacy or at another epsilon, that predicts the
            same at every seed; or "".
        is_reordered: With its classes in another order it would predict well, at every seed.
        behind: Of what it trains without privacy, the accuracy that it lacks beside ``sgd``; None
            for others, and where it is not told to be more than a point.
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
        arm, grouping, group: Where: an arm's table, and a group of a grouping.
        real_share, share: Of the rows.
        real_rate, rate: Of the positive class among the group's rows; None without such a class, or
            without rows.
        missing_at: Seeds at which the table has no row of the group.
        missing_classes: Classes that the group has in the real rows, and at some seed not here.
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
    """Everything that is read of them beside costs."""

    arms: tuple[OwnArm, ...]
    groups: tuple[SyntheticGroup, ...]


def warnings(study: Trainers) -> Iterator[ReportWarning]:
    """Whether code is deterministic, claims too much, heeds privacy, and leaves groups out."""
    for arm in study.arms:
        if arm.differs_by is not None:
            beginning = f"{arm.arm} was trained twice at the first seed: "
            code, fix = "trainer_deterministic", ""
            message = f"{beginning}the same predictions, so it looks deterministic"
            if arm.differs_by:  # of probabilities
                code = "trainer_not_deterministic"
                message = f"{beginning}probabilities differ by up to {arm.differs_by:.2g}"
                fix = "draw everything from the seed that it is given, as long as it is audited"
            yield _warning(code, arm.arm, message, fix, level="notice")
        if arm.beyond:
            message = f"{arm.arm} claims {arm.beyond}"
            yield _warning("claim_beyond_asked", arm.arm, message, "calibrate it to what is asked")
        if arm.same_as:
            message = f"{arm.arm} predicts at every seed exactly what {arm.same_as} does"
            yield _warning("privacy_not_heeded", arm.arm, message, "does it read `privacy`?")
        if arm.is_reordered:
            message = f"{arm.arm} would predict well if its classes stood in another order"
            fix = "columns in the order of data.classes, which is that of data.labels"
            yield _warning("classes_reordered", arm.arm, message, fix)
        if arm.behind is not None:
            message = (
                f"{arm.arm}, without privacy, is {written(arm.behind, POINTS)} points of accuracy "
                "behind sgd"
            )
            fix = "by its settings, its kind of model or rows that it leaves out, not by privacy"
            yield _warning("reference_behind", arm.arm, message, fix)
    for group in study.groups:
        lacks = ""
        if group.missing_at:
            lacks = f"no row of {group.group} at {numbered(group.missing_at, 'seed')}"
        elif group.missing_classes:
            lacks = f"of {group.group} no row of {', '.join(group.missing_classes)}"
        if lacks:
            message = f"the synthetic table of {group.arm} has {lacks}"
            fix = "its costs there are of a model that saw none"
            yield _warning("synthetic_lacks", group.arm, message, fix)


def _warning(
    code: str,
    arm: str,
    message: str,
    fix: str,
    level: Literal["warning", "notice"] = "warning",
) -> ReportWarning:
    """A warning of the report about one arm."""
    return ReportWarning(
        code=code,
        level=level,
        message=message,
        fix=fix,
        arm=arm,
    )


def knob(compared: Sequence[Comparison]) -> Knob | None:
    """What to change of an arm: less noise, where noise is most of the loss.

    Where most is there without, other settings, if both that part and the whole cost are told.
    """
    for comparison in compared:
        split = detected_split(comparison)
        if split is None:
            split = split_cost(comparison, comparison.overall, RISK)
        if split is None:
            continue
        part = split.largest()
        if part.name != "without_noise":
            return "own noise"
        is_told = bool(split.a) or split.metric in comparison.paid
        return "own settings" if is_told and part.is_above else None
    return None


def section(report: Report) -> Section | None:
    """The groups of synthetic tables; None where there is no such table."""
    study = Trainers.of(report)
    if study is None or not study.groups:
        return None
    rows: list[tuple[Cell, ...]] = []
    for group in study.groups:
        shares = group.real_share, group.share, group.real_rate, group.rate
        written = [UNKNOWN if share is None else f"{100 * share:.1f} %" for share in shares]
        name = report.name_of(group.grouping, group.group)
        rows.append((plain(group.arm), name, *written))
    head = ("method", "group", "#real rows", "#synthetic rows", "#base rate, real", "#synthetic")
    intro = Text("Groups in the synthetic tables beside the real training rows, means over seeds.")
    return Section(
        "synthetic",
        "The synthetic tables",
        (
            intro,
            table(
                head,
                rows,
                most=_MOST_ROWS,
            ),
        ),
    )


SECTIONS = {"metrics": section}
