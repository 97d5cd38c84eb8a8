"""The table that a report is read by: one method and one grouping of the rows.

Its rows are the groups, then the gaps between them, then all rows; its columns are measures. It
holds numbers, not their writing: a terminal, a page, Markdown and a notebook write the same table.
``fairaudit.report.group_rows`` makes it of a stored report.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

from fairaudit.report.types.verdicts import Outcome
from fairaudit.results.estimates import Interval, Reading

RowKind = Literal["group", "gap", "all"]

MOST_GROUPS = 8  # that are read at once; of more the worst, the best and a count are shown
N_WORST = 3  # how many of the worst
FEW_ROWS = 30  # test rows: a group of fewer is shown in grey and stretches no axis


@dataclass(frozen=True, slots=True)
class MeasureColumn:
    """A measure.

    Args:
        metric: Its key in the report, as ``privacy_cost`` or ``tpr_cost[2]``.
        title: Its name.
        counted: What its numbers are counted in, as ``points of accuracy lost``.
    """

    metric: str
    title: str
    counted: str


@dataclass(frozen=True, slots=True)
class Bound:
    """What a rule says of a number: the limit that it sets, and the outcome."""

    limit: float
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class TableCell:
    """One number.

    Args:
        number: With its 95 % interval; its value None where it is undefined.
        reading: What is said of a gap, or of a cost over all rows; "" of any other number.
        reason: Why there is no value or no interval, or why it cannot be told; "" where it can.
        between: The groups of a largest gap, the larger value first; () elsewhere.
        bound: Of the rule that limits this number; None where there is none.
    """

    number: Interval
    reading: Reading = ""
    reason: str = ""
    between: tuple[str, ...] = ()
    bound: Bound | None = None


@dataclass(frozen=True, slots=True)
class TableRow:
    """A group, a gap, or all rows.

    Args:
        kind: Which of the three.
        groups: The group's name; the two of a gap, of which the second is taken from the first;
            () for the largest gap of several, whose groups each cell names, and for all rows.
        cells: One for each column.
        n_test: Distinct test rows; None for a gap, and where the count is suppressed.
        accuracy: Share of test rows that is right without privacy, then with it; None: not known.
        note: Why it cannot be judged, as that it has too few rows; "" where it can.
    """

    kind: RowKind
    groups: tuple[str, ...]
    cells: tuple[TableCell, ...]
    n_test: int | None = None
    accuracy: tuple[float | None, float | None] = (None, None)
    note: str = ""

    @property
    def is_thin(self) -> bool:
        """Whether it rests on too few rows to be judged: it is grey, and stretches no axis."""
        return bool(self.note) or (self.kind == "group" and (self.n_test or 0) < FEW_ROWS)


@dataclass(frozen=True, slots=True)
class GroupTable:
    """One method's numbers by one grouping.

    Args:
        arm, reference, grouping: Of the comparison that it shows; ``reference`` is "" for a model
            by itself.
        columns: The same in every table of a report.
        rows: Groups in the report's order, gaps, all rows.
        comparisons: How many gaps the method's tests are about, in all groupings.
        others: How many groups are left out of the rows, see :attr:`brief`.
    """

    arm: str
    reference: str
    grouping: str
    columns: tuple[MeasureColumn, ...]
    rows: tuple[TableRow, ...]
    comparisons: int
    others: int = 0

    @property
    def groups(self) -> tuple[TableRow, ...]:
        """The rows of single groups."""
        return tuple(row for row in self.rows if row.kind == "group")

    @property
    def is_long(self) -> bool:
        """Whether it has more groups than are read at once."""
        return len(self.groups) > MOST_GROUPS

    @property
    def brief(self) -> "GroupTable":
        """The table with the worst three groups and the best one, where it has many groups.

        Worst and best are by the first column, the best among the groups with a number there.
        Groups that cannot be judged are left out.
        """
        if not self.is_long:
            return self
        judged = [row for row in self.groups if not row.is_thin]
        judged.sort(key=lambda row: -_first_value(row))  # groups without a number come last
        kept = judged[:N_WORST]
        n_known = sum(_first_value(row) > -math.inf for row in judged)
        if n_known > N_WORST:
            kept.append(judged[n_known - 1])  # the best: the last one with a number
        others = len(self.groups) - len(kept)
        rows = (*kept, *(row for row in self.rows if row.kind != "group"))
        return replace(self, rows=rows, others=others)

    @property
    def worst(self) -> TableRow | None:
        """The group that pays most by the first column, of those that can be judged.

        None where none of them has a number there.
        """
        judged = [row for row in self.groups if not row.is_thin and _first_value(row) > -math.inf]
        return max(judged, key=_first_value, default=None)

    def cell(self, row: TableRow, metric: str) -> TableCell | None:
        """A row's cell of a measure; None where the table has no such column."""
        for column, cell in zip(self.columns, row.cells, strict=True):
            if column.metric == metric:
                return cell
        return None

    def axis(self, place: int) -> tuple[float, float]:
        """The ends that a column's axis needs, so that its marks lie within it: (low, high).

        The axis holds zero, the limits of rules, and the column's numbers with their intervals, but
        for those of thin rows.

        Args:
            place: Index of the column.
        """
        reached = [0.0]
        for row in self.rows:
            cell = row.cells[place]
            if cell.number.value is not None and not row.is_thin:
                reached += [cell.number.value, *(cell.number.ends or ())]
            if cell.bound is not None:
                reached.append(cell.bound.limit)
        return min(reached), max(reached)


def _first_value(row: TableRow) -> float:
    """The number of the first column, by which groups are ranked; -inf where it is not known."""
    value = row.cells[0].number.value if row.cells else None
    return -math.inf if value is None else value
