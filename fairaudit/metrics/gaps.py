"""Gaps between groups: which may be compared, and which gap an audit of this size would find.

Groups have indices ``0..K - 1``; index K stands for all test rows. A *reason* says why a number has
no interval or no value, and is "" where it has both. A number is *gated* where rules in CI
(``fairaudit.gate``) may decide by it; one with a reason never is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from fairaudit.errors import numbered
from fairaudit.metrics.intervals import MetricTable, Spread, contrast, estimate, largest
from fairaudit.metrics.registry import spec_of
from fairaudit.metrics.within_model import Int64
from fairaudit.results.estimates import Gap, Reading, finite, undefined


def minimum_detectable(spread: Spread, pairs: int = 1) -> float | None:
    """The gap that an audit of this size would find with power .80; None without an interval.

    A gap is found when it exceeds the half-width h of its interval, so this is ``h + t_.80 SE``
    with ``SE^2 = V_seed + V_shared`` and Satterthwaite's degrees of freedom. Of gaps of this size
    .79 to .80 are found. With ``t_.975 SE`` in place of h it would be .72, at 5 seeds and equal
    variances. Source: docs/methods.md 6.7.

    Args:
        spread: The gap with its variances.
        pairs: How many gaps share the 5 % of the interval (Bonferroni).

    Example:
        >>> import numpy as np
        >>> still = Spread(np.full(5, 0.05), 0.05, 0.0, 1e-4, 1e-4, 2000, 10**9, unit="fraction")
        >>> round(minimum_detectable(still), 4)  # (1.96 + 0.84) standard errors of 0.01
        0.028
    """
    if spread.reason:
        return None
    v_seed, v_shared = spread.seed_variance, spread.shared_variance
    variance = v_seed + v_shared
    if variance == 0:  # the interval has no width, so every gap but 0 is found
        return 0.0
    seeds = len(spread.by_seed)
    # Satterthwaite: degrees = variance^2 / sum of (each variance^2 / its own degrees). At least 1:
    # one seed or record has 0, by which nothing can be divided.
    weighted = v_seed**2 / max(seeds - 1, 1) + v_shared**2 / max(spread.n_min - 1, 1)
    # Past a million degrees t is normal; the cap also answers a denominator that vanishes.
    degrees = min(variance**2 / weighted, 1e6) if weighted > 0 else 1e6
    from scipy.special import stdtrit  # scipy takes 0.4 s to import; `plan` never needs it

    # Each gap has degrees of its own, so the cache of `quantiles` (plain Python) would not help.
    return spread.half_width(pairs) + float(stdtrit(degrees, 0.80)) * math.sqrt(variance)


LEAST_RECORDS = 30  # distinct test records of a group
LEAST_OF_CLASS = 10  # distinct records that a rate rests on
LEAST_SEEDS = 5  # fewer seeds are shown, not gated
NO_OVERALL_RATIO = "an impact ratio compares groups; all rows together have none"


@dataclass(frozen=True, slots=True)
class GroupSelection:
    """The groups of one grouping as they are in the test rows of all seeds.

    Args:
        names: Group names, ``[K]``.
        missing: Index of the group that holds the rows without a group's name; None: there is none.
        counts: Distinct test records, ``[K + 1]``, the last over all.
        n_seeds: Seeds measured.
        one_model: Whether one model is what is measured, so that one seed is enough.
        suppressed_below: A group of fewer test records is hidden, so compared with no other.
        each: The word for one of the seeds in messages: ``seed``, or ``training``.

    Example:
        >>> import numpy as np
        >>> counts = np.array([40, 20, 9, 69])
        >>> selection = GroupSelection(("F", "M", "?"), missing=2, counts=counts, n_seeds=5)
        >>> [selection.too_few(k) for k in range(3)]
        ['', "group 'M' has 20 test records; 30 are needed", 'rows without a group']
        >>> selection.eligible, selection.too_few_seeds
        ([0], '')
    """

    names: tuple[str, ...]
    missing: int | None
    counts: Int64
    n_seeds: int
    one_model: bool = False
    suppressed_below: int = 0
    each: str = "seed"

    def too_few(self, k: int) -> str:
        """Why group k is left out of the largest gap and of gates, or ""; always "" for k = K."""
        n = int(self.counts[k])
        if k == len(self.names):
            return ""
        if k == self.missing:
            return "rows without a group"
        if not n:
            return f"group {self.names[k]!r} has no test records"
        if n < self.suppressed_below:
            return f"suppressed: fewer than {numbered(self.suppressed_below, 'test row')}"
        if n < LEAST_RECORDS:
            return (
                f"group {self.names[k]!r} has {numbered(n, 'test record')}; {LEAST_RECORDS} are "
                "needed"
            )
        return ""

    @property
    def eligible(self) -> list[int]:
        """Indices of the groups that are large enough to take part in the largest gap."""
        return [k for k in range(len(self.names)) if not self.too_few(k)]

    @property
    def pairs(self) -> int:
        """How many pairs the eligible groups make, which share the 5 % (Bonferroni); at least 1."""
        k = len(self.eligible)
        return max(1, k * (k - 1) // 2)

    @property
    def too_few_seeds(self) -> str:
        """Why no number is gated, whatever its group, or "": fewer seeds than ``LEAST_SEEDS``.

        "" for a single model, whose intervals are over test records alone.
        """
        n = self.n_seeds
        if self.one_model:
            return ""
        if n >= LEAST_SEEDS:
            return ""
        counted = numbered(n, f"{self.each} is", f"{self.each}s are")
        return f"{counted} too few; use {LEAST_SEEDS}"


def checked_contrast(
    table: MetricTable, selection: GroupSelection, a: int, b: int | None = None
) -> Spread:
    """:func:`contrast`, with a reason for no interval where a or b has too few records.

    A reason that the contrast has itself stays, unless a group has no records at all: that says
    more than "undefined at every seed".

    Args:
        table: The metric.
        selection: The groups and their sizes.
        a: Group index; K for all test rows.
        b: Likewise, or None for the value of a alone.

    Example:
        >>> import numpy as np
        >>> by_seed = np.tile([0.9, 0.8, 0.84], (5, 1))  # five seeds, two groups, all rows
        >>> covariance = np.array([np.diag([1e-4, 1e-4, 5e-5])] * 2)
        >>> counts = np.array([40, 60, 100])
        >>> tpr = MetricTable("tpr", "fraction", by_seed, covariance, np.array([7, 30, 37]))
        >>> selection = GroupSelection(("F", "M"), None, counts, n_seeds=5)
        >>> checked_contrast(tpr, selection, 0, 1).reason
        "rests on 7 test records in group 'F'; 10 are needed"
    """
    spread = contrast(table, a, b)
    if a == len(selection.names) and "groups" in spec_of(table.name).needs:
        return replace(spread, reason=NO_OVERALL_RATIO)
    if spread.reason:
        empty = next((k for k in (a, b) if k is not None and not selection.counts[k]), None)
        if empty is None:
            return spread
        why = selection.too_few(empty) if empty < len(selection.names) else "no test records"
        return replace(spread, reason=why)
    for k in (a, b):
        if k is not None and (thin := _too_thin(table, selection, k)):
            return replace(spread, reason=thin)
    return spread


def _too_thin(table: MetricTable, selection: GroupSelection, k: int) -> str:
    """Why group k (K: all rows) has too few records for an interval of this metric, or "".

    A rate of one class needs some records of that class. A loss has no floor under its variance, so
    in a small group its interval would be too narrow.
    """
    n, of_group = int(table.counts[k]), int(selection.counts[k])
    where = f" in group {selection.names[k]!r}" if k < len(selection.names) else ""
    # The rate rests on fewer records than the group has, as tpr on the positives alone.
    if n < of_group and n < LEAST_OF_CLASS:
        return f"rests on {numbered(n, 'test record')}{where}; {LEAST_OF_CLASS} are needed"
    spec = spec_of(table.name)
    if n < spec.least_records:
        return f"{numbered(n, 'test record')}{where}; {spec.noun} needs {spec.least_records}"
    return ""


def gaps_of(table: MetricTable, selection: GroupSelection) -> list[Gap]:
    """Every gap of one metric: pairs, each group against all rows, and the largest.

    A group without test records has no gap. A gap's interval holds with 95 % for that gap alone;
    that of the largest shares the 5 % among the pairs of groups that are large enough, and so does
    the test that decides which gaps are detected. A gap to all rows is tested at the level of a
    pair and is not counted as one: what a report asserts is tested anew, beside all else
    (``analysis/family.py``).

    Example:
        >>> import numpy as np
        >>> by_seed = np.tile([0.9, 0.8, 0.84], (5, 1))  # five seeds, two groups, all rows
        >>> covariance = np.array([np.diag([1e-4, 1e-4, 5e-5])] * 2)
        >>> counts = np.array([40, 60, 100])
        >>> accuracy = MetricTable("accuracy", "fraction", by_seed, covariance, counts)
        >>> selection = GroupSelection(("F", "M"), None, counts, n_seeds=5)
        >>> [(gap.kind, gap.a, gap.b, gap.direction) for gap in gaps_of(accuracy, selection)][::3]
        [('pair', 'F', 'M', 'worse for M'), ('max', 'F', 'M', 'worse for M')]
    """
    whole = len(selection.names)
    present = [k for k in range(whole) if selection.counts[k]]
    sharing = selection.pairs
    gaps = [_gap(table, selection, a, b, sharing) for a, b in combinations(present, 2)]
    if "groups" not in spec_of(table.name).needs:  # an impact ratio does not exist for all rows
        gaps += [_gap(table, selection, a, whole, sharing) for a in present]
    return [*gaps, _largest(table, selection)]


def _gap(table: MetricTable, selection: GroupSelection, a: int, b: int, sharing: int) -> Gap:
    """The gap between groups ``a`` and ``b``, or between ``a`` and all rows where b is K.

    ``sharing``: how many pairs share the 5 % of the test which detects it (``selection.pairs``).
    """
    spread = checked_contrast(table, selection, a, b)
    # The first reason that holds is told, in this order.
    small = selection.too_few(a) or selection.too_few(b)
    reason = (
        small
        or spread.reason
        or selection.too_few_seeds
        or too_few_for_gates(table, selection, (a, b))
    )
    gap = Gap(
        metric=table.name,
        kind="population" if b == len(selection.names) else "pair",
        a=selection.names[a],
        b="" if b == len(selection.names) else selection.names[b],
        signed=estimate(spread),
        direction="",
        minimum_detectable=finite(minimum_detectable(spread)),
        gated=not reason,
        reason=reason,
    )
    # Without an interval the half-width is NaN, so the comparison is false.
    return judged(gap, is_detected=abs(spread.value) > spread.half_width(sharing))


def judged(gap: Gap, *, is_detected: bool) -> Gap:
    """The gap with its ``reading`` and ``direction`` set by the result of a test.

    ``reading`` says in words whether the groups are detected to differ; ``direction`` whom the gap
    disfavours, if they are. A gap is detected only where its own interval excludes zero, too, and
    gates may read it.

    Args:
        gap: The gap with its interval.
        is_detected: Whether the test, which allows for other comparisons, rejects.

    Example:
        >>> import numpy as np
        >>> by_seed = np.tile([0.9, 0.8, 0.84], (5, 1))  # five seeds, two groups, all rows
        >>> covariance = np.array([np.diag([1e-4, 1e-4, 5e-5])] * 2)
        >>> counts = np.array([40, 60, 100])
        >>> accuracy = MetricTable("accuracy", "fraction", by_seed, covariance, counts)
        >>> pair = gaps_of(accuracy, GroupSelection(("F", "M"), None, counts, n_seeds=5))[0]
        >>> [judged(pair, is_detected=told).reading for told in (True, False)]
        ['detected', 'not certain']
    """
    value = gap.signed.value
    reading: Reading = "cannot tell"
    if gap.gated and gap.signed.ends is not None:
        reading = "not detected"
        if gap.signed.excludes_zero:
            reading = "detected" if is_detected else "not certain"
    disfavoured = ""
    if reading == "detected" and value is not None:
        # A gap to all rows has "" in the place of b.
        disfavoured = direction(gap.metric, gap.a, gap.b or None, value)
    return gap.model_copy(update={"reading": reading, "direction": disfavoured})


def _largest(table: MetricTable, selection: GroupSelection) -> Gap:
    """The largest gap between groups that are large enough, the larger value first.

    A group whose value is undefined at some seed is left out; since its gap could be the largest,
    the result then has no interval. With fewer than two groups left it has no value either.
    """
    pairs = selection.pairs
    left_out = [k for k in selection.eligible if np.isnan(table.by_seed[:, k]).any()]
    usable = [k for k in selection.eligible if k not in left_out]
    if len(usable) < 2:
        why = checked_contrast(table, selection, left_out[0]).reason if left_out else ""
        why = why or "fewer than two groups are large enough"
        return Gap(
            metric=table.name,
            kind="max",
            a="",
            b="",
            signed=undefined(why, table.unit),
            direction="",
            minimum_detectable=None,
            gated=False,
            reason=why,
            reading="cannot tell",
        )
    # Two groups, the one of the lower index first -> their difference.
    spreads = {pair: checked_contrast(table, selection, *pair) for pair in combinations(usable, 2)}
    a, b = max(spreads, key=lambda pair: abs(spreads[pair].value))
    if spreads[a, b].value < 0:  # the larger value first
        a, b = b, a
    top = checked_contrast(table, selection, a, b)
    size = largest(list(spreads.values()), pairs)
    # One pair without an interval leaves the largest without: that pair's gap could be larger.
    no_interval = next((spread.reason for spread in spreads.values() if spread.reason), "")
    if left_out:
        no_interval = f"{table.name} is undefined for group {selection.names[left_out[0]]!r}"
    if no_interval:
        size = size.model_copy(update={"low": None, "high": None, "reason": no_interval})
    reason = no_interval or selection.too_few_seeds or too_few_for_gates(table, selection, usable)
    gap = Gap(
        metric=table.name,
        kind="max",
        a=selection.names[a],
        b=selection.names[b],
        signed=size,
        direction="",
        minimum_detectable=finite(minimum_detectable(top, pairs)),
        gated=not reason,
        reason=reason,
    )
    # No abs(): `top` is the larger value less the smaller one.
    return judged(gap, is_detected=top.value > top.half_width(pairs))


def too_few_for_gates(table: MetricTable, selection: GroupSelection, groups: Sequence[int]) -> str:
    """Why gates do not read this metric for these groups, or ""; index K stands for all rows.

    The reason names the first group with fewer records than the metric's ``least_gated``.

    Example:
        >>> import numpy as np
        >>> counts = np.array([150, 300, 450])
        >>> covariance = np.zeros((2, 3, 3))
        >>> loss = MetricTable("loss", "nats", np.full((5, 3), 0.4), covariance, counts)
        >>> selection = GroupSelection(("F", "M"), None, counts, n_seeds=5)
        >>> too_few_for_gates(loss, selection, [0, 1])
        "group 'F' has 150 test records; a gate on a loss needs 200"
    """
    spec = spec_of(table.name)
    small = [k for k in groups if table.counts[k] < spec.least_gated]
    if not small:
        return ""
    k = small[0]
    where = f"group {selection.names[k]!r} has" if k < len(selection.names) else "there are"
    count = numbered(int(table.counts[k]), "test record")
    return f"{where} {count}; a gate on {spec.noun} needs {spec.least_gated}"


def direction(metric: str, a: str, b: str | None, value: float) -> str:
    """Say in words which group a difference disfavours, as ``worse for F``.

    For a metric of which more is not better or worse in itself (a selection rate): who has the
    lower value. Only for a difference whose interval excludes zero.

    Args:
        metric: Of the gap.
        a, b: The groups; b is None for all rows.
        value: The value of a minus that of b.

    Example:
        >>> direction("accuracy", "F", "M", -0.1), direction("selection_rate", "F", "M", -0.1)
        ('worse for F', 'lower for F')
    """
    spec = spec_of(metric)
    if spec.is_judged:
        a_is_worse = (value > 0) == (spec.worst == "highest")
        if b is None:
            return f"{'worse' if a_is_worse else 'better'} for {a}"
        return f"worse for {a if a_is_worse else b}"
    if b is None:
        return f"{'higher' if value > 0 else 'lower'} for {a}"
    return f"lower for {b if value > 0 else a}"
