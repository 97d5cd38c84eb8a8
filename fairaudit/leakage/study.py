"""What membership inference found, as a report holds it and tells it.

A recipe is an arm of the audit, trained anew on random halves of its rows, with settings and noise
for that many. The ceiling is what its epsilon allows any attack to find. Members are rows that a
model trained on, outsiders rows that it did not. At a rate of false accusations of 5 % the attacker
accuses 5 % of the outsiders.
"""

import math
from collections.abc import Iterator

from fairaudit.errors import numbered
from fairaudit.leakage.messages import AboveCeiling, AttackFailed
from fairaudit.messages.base import Message
from fairaudit.messages.names import arms_text
from fairaudit.metrics.registry import WITHIN
from fairaudit.privacy.events import shown_up
from fairaudit.report.cost_charts import every_group
from fairaudit.report.document import (
    Block,
    Cell,
    Heading,
    Quantity,
    Section,
    Table,
    Text,
    bullets,
    table,
)
from fairaudit.report.measures import main_gap
from fairaudit.report.messages.base import FindingMessage, Subject
from fairaudit.report.model import Report, Study
from fairaudit.report.numbers import OWN_UNIT, POINTS, UNKNOWN, Scale, number, written
from fairaudit.report.safe_names import plain
from fairaudit.report.sections.gaps import gap_table
from fairaudit.report.types.facts import AttackFacts, FailedSeed
from fairaudit.results.estimates import (
    Comparison,
    EpsilonFigure,
    Figure,
    Gap,
    Interval,
    Part,
    interval_of,
)

SHARE = Scale(100.0, lambda value: number(value, decimals=1), suffix=" %")
LITTLE_POWER = 3.0  # an epsilon up to which an attack on so few models finds next to nothing
ACCUSED = 0.05  # share of the outsiders: the "5 %" of leakage_tpr and of the sentences here
_MOST_ROWS = 24  # of a table that are read at once
# metric whose gaps are shown -> title
_COMPARED = {
    "leakage_tpr": "members found at 5 % (points)",
    "leakage_advantage": "difference at one threshold (points)",
}
# metric -> title of its column, scale; a title that starts with "#" marks a column of numbers
_WITHIN = {
    "leakage_tpr": ("#found at 5 %", SHARE),
    "leakage_tpr_at_1": ("#found at 1 %", SHARE),
    "leakage_auc": ("#AUC", OWN_UNIT),
    "change.leakage_tpr": ("#against reference (points)", POINTS._replace(is_spoken=False)),
    "leakage_tpr_global": ("#members accused at one threshold", SHARE),
    "leakage_fpr_global": ("#outsiders accused at it", SHARE),
    "leakage_advantage": ("#difference (points)", POINTS._replace(is_spoken=False)),
}


class AttackedArm(Part):
    """One recipe as it was trained to be attacked.

    Args:
        arm: Key, as in the audit.
        reference: Of the arm that it stands beside, or None.
        epsilon: Of one such model, None where none is proved: of its own events, on half of the
            rows.
        ceiling: The most that any attacker can find, at each rate of false accusations that is
            measured within a group; empty where nothing is proved.
        models_planned, models_finished: Each is a target, and a shadow of the others.
        failed: Trainings without a result.
        trainings: Digest of all that the finished trainings follow from.
    """

    arm: str
    reference: str | None
    epsilon: EpsilonFigure | None
    ceiling: tuple[AttackFacts, ...]
    models_planned: int
    models_finished: int
    failed: tuple[FailedSeed, ...]
    trainings: str

    def at_most(self, rate: float) -> float | None:
        """The share of members that any attack finds at most, at that rate of false accusations.

        None where nothing is proved, or the ceiling is not known at this rate.
        """
        for facts in self.ceiling:
            if facts.false_positive_rate == rate:
                return facts.true_positive_rate
        return None


class Leakage(Study):
    """What membership inference found, by group.

    Args:
        rows: That were attacked; each is in every training with chance one half.
        n_public: Training records that the recipes are sized for, half of the rows.
        delta: Of every epsilon here, the audit's.
        arms: The recipes.
        comparisons: Success of the attack by group, ``leakage_...``, of every recipe, with
            ``reference.`` and ``change.`` beside its reference.
    """

    rows: int
    n_public: int
    delta: Figure
    arms: tuple[AttackedArm, ...]

    @property
    def trainings(self) -> dict[str, str]:
        """Key of each recipe -> digest of all that its finished models follow from.

        Where it is equal in two reports, the same models were attacked.
        """
        return {arm.arm: arm.trainings for arm in self.arms}

    @property
    def unfinished(self) -> dict[str, str]:
        """Key of each recipe that lacks models -> words that say how many have no result."""
        unfinished = {}
        for arm in self.arms:
            if arm.failed:
                models = f"{len(arm.failed)} of {arm.models_planned} models of {arm.arm}"
                unfinished[arm.arm] = f"{models} have no result"
        return unfinished

    def arm(self, key: str) -> AttackedArm | None:
        """The recipe of that arm's key; None where the arm was not attacked."""
        return next((arm for arm in self.arms if arm.arm == key), None)

    def warnings(self) -> Iterator[Message]:
        """A warning for every arm of which a model to be attacked could not be trained."""
        for arm in self.arms:
            if arm.failed:
                yield AttackFailed(
                    arm.arm,
                    failed=len(arm.failed),
                    planned=arm.models_planned,
                    reason=arm.failed[0].message,
                )

    def findings(self, report: Report) -> Iterator[FindingMessage]:
        """A finding for every rate whose whole interval lies above what the arm's epsilon allows.

        Such a rate says that the method or its inputs leak more than is proved. Only the rates
        within a group have a ceiling, and only where epsilon is proved.
        """
        for comparison in self.comparisons:
            arm = self.arm(comparison.arm)
            for group in comparison.by_group:
                for metric, rate in WITHIN.items():
                    estimate = group.estimates.get(metric)
                    most = arm.at_most(rate) if arm else None
                    if estimate is None or estimate.low is None or most is None:
                        continue
                    if estimate.low > most:
                        ceiling = Interval(value=most, low=None, high=None)
                        subject = Subject(
                            arm=comparison.arm,
                            grouping=comparison.grouping,
                            groups=(group.group,),
                            measure=metric,
                            unit="fraction",
                        )
                        yield AboveCeiling(subject, found=interval_of(estimate), most=ceiling)

    def sections(self, report: Report) -> dict[str, Section]:
        """Who is exposed, by group; before the section of rules."""
        return {"gates": _section(report, self)}


def _section(report: Report, leakage: Leakage) -> Section:
    """The section on membership attacks."""
    models = max((arm.models_finished for arm in leakage.arms), default=0)
    intro = (
        f"{numbered(models, 'model')} of each method, each trained on a random half of "
        f"{leakage.rows:,} rows with settings and noise for {leakage.n_public:,}, each attacked "
        "with all others as shadow models: members found where 5 % (1 %) of outsiders are accused. "
        "One threshold for all groups accuses 5 % of all outsiders; of that only the difference "
        "says that a group leaks."
    )
    blocks: tuple[Block, ...] = (
        Text(intro),
        _within_groups(report, leakage),
        Heading("Gaps in leakage"),
        _gaps(report, leakage),
        *bullets(_scope(leakage)),
    )
    title = "Who is exposed: membership inference"
    return Section("leakage", title, blocks, brief=(Text(_sentence(leakage, models)),))


def _within_groups(report: Report, leakage: Leakage) -> Table:
    """The table of what the attack finds in each group, beside the most that epsilon allows."""
    rows: list[tuple[Cell, ...]] = []
    for comparison, group in every_group(leakage.comparisons):
        ceiling = _ceiling(leakage, comparison.arm)
        cells = [Quantity(group.estimates.get(m), scale) for m, (_, scale) in _WITHIN.items()]
        rows.append(
            (
                plain(comparison.arm),
                report.name_of(comparison.grouping, group.group),
                group.n_test,
                *cells,
                UNKNOWN if ceiling is None else rate_text(ceiling),
                plain(group.reason, 60),
            )
        )
    titles = [title for title, _ in _WITHIN.values()]
    head = ("method", "group", "#rows", *titles, "#no attack above", "note")
    return table(head, rows, most=_MOST_ROWS)


def _scope(leakage: Leakage) -> list[str]:
    """Sentences on what the attack can show: each arm's epsilon, and where it has little power."""
    sentences, weak = [], []
    for arm in leakage.arms:
        if arm.epsilon is None:
            continue
        if arm.epsilon <= LITTLE_POWER:
            weak.append(arm.arm)
        epsilon = f"epsilon {shown_up(arm.epsilon)} of one model, delta {leakage.delta:g}"
        sentences.append(f"{plain(arm.arm)}: {epsilon}.")
    sentences.append(
        "Finding nothing does not show that nothing leaks: epsilon alone bounds all attacks."
    )
    if weak:
        names = plain(arms_text(weak), 300)
        sentences.append(
            f"At epsilon {LITTLE_POWER:g} and below ({names}) the attack has little power."
        )
    return sentences


def _gaps(report: Report, leakage: Leakage) -> Table:
    """The table of gaps between groups, each beside the smallest that would have been detected."""
    shown: list[tuple[Comparison, Gap, str]] = []
    for comparison in leakage.comparisons:
        for metric, title in _COMPARED.items():
            gap = main_gap(comparison, metric)
            if gap is not None:
                shown.append((comparison, gap, title))
    return gap_table(report, shown)


def _sentence(leakage: Leakage, models: int) -> str:
    """What a terminal shows of the section: members found in up to four groups of each arm.

    ``models``: how many were trained of each method.
    """
    texts = []  # a line has room for few groups and arms
    # First the arms that have a reference: False sorts before True.
    for comparison in sorted(leakage.comparisons, key=lambda c: not c.reference):
        ceiling = _ceiling(leakage, comparison.arm)
        limit = ""
        if ceiling is not None:
            limit = f" (no attack above {rate_text(ceiling)})"
        rates = []
        measured = [group for group in comparison.by_group if group.estimates]
        for group in measured[:4]:
            rate = written(group.estimates.get("leakage_tpr"), SHARE)
            rates.append(f"{plain(group.group, 16)} {rate}")
        texts.append(f"{plain(comparison.arm)} {', '.join(rates)}{limit}")
    return (
        f"Membership inference on {numbered(models, 'model')} of random halves, members found "
        f"where 5 % of outsiders are accused: {'; '.join(texts[:6])}"
    )


def rate_text(value: float) -> str:
    """The most that any attack can find, in per cent; rounded up, for it is an upper bound."""
    # A tenth of a per cent is the last digit; less than 1e-9 of it is rounding, not a value above.
    return f"{math.ceil(1000 * value - 1e-9) / 10:g} %"


def _ceiling(leakage: Leakage, key: str) -> float | None:
    """The most members that any attack finds where 5 % of outsiders are accused, as a share.

    None where no epsilon bounds it. ``key``: of the arm.
    """
    arm = leakage.arm(key)
    if arm:
        return arm.at_most(ACCUSED)
    return None
