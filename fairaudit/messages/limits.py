"""What the figures of a report do not say: its limitations.

What holds for every audit stands in docs/epsilon.md. Source: docs/methods.md 10.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fairaudit.errors import numbered
from fairaudit.messages.base import Message
from fairaudit.messages.names import arms_text

# --- what a guarantee does not cover


@dataclass(frozen=True, slots=True)
class ReportNotPrivate(Message):
    """That a report itself is not private; every report says it."""

    code = "report_not_private"
    level = "limitation"
    when = "any report is made"

    @property
    def text(self) -> str:
        return "This report is computed from raw rows and is not private: handle it like the data."


@dataclass(frozen=True, slots=True)
class PerRun(Message):
    """How many private models an audit trains."""

    code = "per_run"
    level = "limitation"
    when = "private models are trained, each of which has an epsilon of its own"

    models: int

    @property
    def text(self) -> str:
        models = numbered(self.models, "private model")
        return f"Epsilon is for one model of one run; this audit trains {models} on the same rows."


@dataclass(frozen=True, slots=True)
class FixedSeeds(Message):
    """That the noise of an audit can be computed again; every audit says it."""

    code = "fixed_seeds"
    level = "limitation"
    when = "models are trained"

    @property
    def text(self) -> str:
        return "Release no model of an audit: its seeds are fixed, so its noise can be recomputed."


@dataclass(frozen=True, slots=True)
class MethodRemark(Message):
    """What a method itself says of its guarantee."""

    code = "method"
    level = "limitation"
    when = "a trained method has something of its own to say"

    method: str
    remark: str

    @property
    def text(self) -> str:
        return f"{self.method}: {self.remark}"


@dataclass(frozen=True, slots=True)
class ReadsOtherArm(Message):
    """Arms that read thresholds which another arm's training released."""

    code = "reads_other_arm"
    level = "limitation"
    when = "a control copies what another method's training released"

    arms: tuple[str, ...]

    @property
    def text(self) -> str:
        return (
            f"{_readers(self.arms)} thresholds that another method's training released. Their "
            "privacy cost adds up: a control for this audit, not a model to release."
        )


@dataclass(frozen=True, slots=True)
class GroupLabelUsed(Message):
    """Arms that read the group label, and whether every model is given it as a feature."""

    code = "group_label_used"
    level = "limitation"
    when = "a method reads the group label, or models are given it"

    arms: tuple[str, ...]
    is_feature: bool

    @property
    def text(self) -> str:
        readers = [_readers(self.arms)] if self.arms else []
        if self.is_feature:
            readers.append("Every model is given")
        return (
            f"{'; '.join(readers)} the group label: people are treated differently by group, which "
            "may need a legal basis of its own."
        )


@dataclass(frozen=True, slots=True)
class Students:
    """Arms of PATE whose students learn from equally many teachers by equally many queries."""

    arms: tuple[str, ...]
    teachers: int
    queries: int

    def __str__(self) -> str:
        teachers = numbered(self.teachers, "teacher")
        queries = numbered(self.queries, "query", "queries")
        return f"{arms_text(self.arms)}: {teachers}, {queries}"


@dataclass(frozen=True, slots=True)
class StudentPool(Message):
    """Arms whose students learn from public rows, and whether these are a table of their own."""

    code = "student_pool"
    level = "limitation"
    when = "PATE's student learns from rows that no epsilon covers"

    students: tuple[Students, ...]
    is_given: bool

    @property
    def text(self) -> str:
        records = "half of the test rows of the audited file"
        if self.is_given:
            records = "the public table that was given"
        students = "; ".join(map(str, self.students))
        return (
            f"The student pool is not protected: features and groups of {records} are taken as "
            f"public, and epsilon covers the teachers' records only. {students}."
        )


@dataclass(frozen=True, slots=True)
class RepeatedRows(Message):
    """How many rows repeat an earlier one."""

    code = "duplicates"
    level = "limitation"
    when = "rows are equal to an earlier one"

    rows: int

    @property
    def text(self) -> str:
        rows = numbered(self.rows, "row repeats", "rows repeat")
        return (
            f"Epsilon protects one row, and {rows} an earlier one: a person with several rows is "
            "protected less."
        )


@dataclass(frozen=True, slots=True)
class Suppression(Message):
    """The fewest test rows of a group that is shown."""

    code = "suppression"
    level = "limitation"
    when = "--suppress-below hides small groups"

    least: int

    @property
    def text(self) -> str:
        least = numbered(self.least, "test row")
        return (
            f"Groups with fewer than {least} are suppressed; totals may still allow a subtraction."
        )


# --- what intervals and tests do not cover


@dataclass(frozen=True, slots=True)
class Statistics(Message):
    """Distinct test rows of the smallest group (None: no group has any), and gaps computed."""

    code = "statistics"
    level = "limitation"
    when = "any report is made"

    smallest: int | None
    gaps: int

    @property
    def text(self) -> str:
        smallest = "no test rows"
        if self.smallest is not None:
            smallest = numbered(self.smallest, "distinct test row")
        return f"The smallest group has {smallest}; {self._gaps}"

    @property
    def _gaps(self) -> str:
        gaps = numbered(self.gaps, "gap was", "gaps were")
        return f"{gaps} computed, of which some stand out by chance."


@dataclass(frozen=True, slots=True)
class ScoredStatistics(Statistics):
    """The same of given predictions; ``models``: how many models each method has."""

    models: int

    @property
    def text(self) -> str:
        models = numbered(self.models, "model")
        smallest = numbered(self.smallest or 0, "row")
        return f"{models} per method; the smallest group has {smallest}; {self._gaps}"


@dataclass(frozen=True, slots=True)
class ThisFile(Message):
    """That intervals are about models trained on this file's rows; every audit says it."""

    code = "this_file"
    level = "limitation"
    when = "models are trained and tested on rows of one file"

    @property
    def text(self) -> str:
        return (
            "Intervals are about models trained on rows of this file. For newly collected data "
            "they can be too narrow: in simulations they held a new file's gap in loss in 82 to "
            "99 %, in selection rates in 69 to 100 %, not 95 %."
        )


@dataclass(frozen=True, slots=True)
class GivenTestRows(Message):
    """That given predictions are taken to be on test rows; every report on such says it."""

    code = "test_rows"
    level = "limitation"
    when = "predictions are given"

    @property
    def text(self) -> str:
        return (
            "The rows are taken to be test rows. Predictions on rows that a model was trained on "
            "make every figure look better than it is, and differently for each group."
        )


@dataclass(frozen=True, slots=True)
class OneModel(Message):
    """That intervals leave out another training, where predictions of one seed are given."""

    code = "one_model"
    level = "limitation"
    when = "predictions of one model are given for each method"

    @property
    def text(self) -> str:
        return (
            "One model was given for each method. The intervals cover the choice of test rows and "
            "nothing else: another training of the same method may give other figures."
        )


def _readers(arms: Sequence[str]) -> str:
    """The arms as the subject of a sentence with its verb: ``dpsgd, global read``."""
    return f"{arms_text(arms)} {'reads' if len(arms) == 1 else 'read'}"
