"""What was read of the steps of private trainings -> numbers and gaps of the comparisons.

The interval of such a number is about the steps that were taken and new people of the group: over
seeds as any other's (``metrics/intervals.py``), and over training records by leaving out one of ten
blocks of the group's rows at a time. A row lies in one block at every seed, so what seeds share is
counted once. Two groups have no row in common, and the batches are given.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fairaudit.analysis.arm_readings import finished, nan_mean, over_repeats
from fairaudit.data.dataset import Dataset, Grouping
from fairaudit.methods.catalog import find
from fairaudit.metrics.gaps import GroupSelection, checked_contrast, gaps_of
from fairaudit.metrics.intervals import MetricTable, contrast, estimate
from fairaudit.metrics.quantiles import quantiles
from fairaudit.metrics.registry import METRICS, MISALIGNMENT, of_steps
from fairaudit.planning.plan import Arm, Plan
from fairaudit.report.misalignment import GroupSteps, StepReadings
from fairaudit.results.estimates import Estimate, Gap, Measured, finite, undefined
from fairaudit.results.jobs import JobResult
from fairaudit.results.steps import BATCHES, BLOCKS, STEPS, TURNED, array_name

Float64 = NDArray[np.float64]
Results = Mapping[str, JobResult]

# (t / z)^2 with t at the nine degrees of freedom of ten blocks. Intervals multiply a variance over
# records by z^2, so one that is multiplied by this factor gets t^2 (docs/methods.md 8.3).
_BLOCK_FACTOR = (quantiles(0.975, BLOCKS - 1)[0] / quantiles(0.975, BLOCKS - 1)[1]) ** 2
TOO_FEW = (
    "too few training rows of this group, or its gradient is no different from zero beside chance"
)
IS_OFF = "not read: --diagnostics off"
IS_SEARCH = "not read: several settings were tried"
OWN_CODE_TRAINS = "code of your own trains it, so its steps are not seen"
NO_STEPS = "it does not train by steps that clip gradients"
NOT_KEPT = "its steps were not kept"
NO_RESULT = "no seed finished"


def why_unread(plan: Plan, arm: Arm, results: Results) -> str:
    """Why the steps of an arm were not read, in words; "" where they were.

    Args:
        plan: Holds the options and the jobs.
        arm: A private arm.
        results: Job id -> result.
    """
    done = finished(plan, arm.key, results)
    if any(STEPS in result.arrays for result in done.values()):
        return ""
    if arm.capability:
        return OWN_CODE_TRAINS
    if not find(arm.method).trains_by_steps:
        return NO_STEPS
    if plan.config.diagnostics == "off":
        return IS_OFF
    if arm.search is not None:
        return IS_SEARCH
    return NOT_KEPT if done else NO_RESULT


class ArmSteps:
    """What was read of one arm's steps by one grouping.

    Args:
        plan, arm: The arm.
        number: Place of the grouping.
        results: Job id -> result.
        groups: K.

    Attributes:
        of_seed: Seed -> arrays of its training (``results/steps.py``), of those that were read.
        seeds: Those seeds, in the plan's order.
        steps: The checkpoints, [C].
    """

    def __init__(self, plan: Plan, arm: Arm, number: int, results: Results, groups: int) -> None:
        self.number, self.groups = number, groups
        self.of_seed = {
            seed: result.arrays
            for seed, result in finished(plan, arm.key, results).items()
            if STEPS in result.arrays
        }
        self.seeds = tuple(self.of_seed)
        self.steps: tuple[int, ...] = ()
        if self.seeds:  # the checkpoints are the same at every seed
            of_first = np.asarray(self.of_seed[self.seeds[0]][STEPS])
            self.steps = tuple(int(step) for step in of_first)

    def series(self, name: str) -> Float64:
        """A reading's mean over repeats, [S, C, K + 1, J]; NaN where it is undefined.

        Index 0 of J = BLOCKS + 1 is over all rows that were read, j over all but those of block j.
        """
        key = array_name(self.number, name)
        nothing = np.full((len(self.steps), self.groups + 1, BLOCKS + 1), np.nan)
        return np.stack(
            [over_repeats(a[key]) if key in a else nothing for a in self.of_seed.values()]
        )

    @property
    def rows(self) -> Float64:
        """Rows that were read of each group and of all, in the mean over seeds, [K + 1]."""
        key = array_name(self.number, "rows")
        of_seeds = np.stack([np.asarray(a[key], np.float64) for a in self.of_seed.values()])
        return np.asarray(of_seeds.mean(0))

    @property
    def term_batches(self) -> float | None:
        """Batches behind the terms of a checkpoint, in the mean over those that have terms.

        None without such a checkpoint. All groupings share the batches, which stand with the first.
        """
        counts = np.concatenate(
            [np.asarray(a[array_name(0, "batches")], np.float64) for a in self.of_seed.values()]
        )
        return finite(counts[counts > 0].mean()) if (counts > 0).any() else None

    @property
    def train_rows(self) -> float:
        """Training rows, in the mean over seeds."""
        key = f"train_count.{self.number}"
        return float(np.mean([np.asarray(a[key]).sum() for a in self.of_seed.values()]))

    def table(self, name: str, unit: str, bounds: tuple[float, float]) -> MetricTable:
        """A reading's mean over checkpoints at every seed, with its variances over records.

        A checkpoint at which the reading is undefined for a group is left out of that group's
        mean. The variance over records is the jackknife's over B = 10 blocks of rows, (B - 1) / B
        times the sum of squared deviations of the values with one block left out. A row lies in
        the same block at every seed, so V_rec and V_shared follow as from influences of records
        (``Influences.covariance``). Source: docs/methods.md 8.3, 6.3.
        """
        means = nan_mean(np.moveaxis(self.series(name), 1, 0))  # [S, K + 1, J]
        whole, without_block = means[..., 0], means[..., 1:]
        deviations = without_block - without_block.mean(-1, keepdims=True)  # [S, K + 1, BLOCKS]
        seeds = len(whole)
        scale = _BLOCK_FACTOR * (BLOCKS - 1) / BLOCKS
        all_pairs = scale * _products(deviations.sum(0))  # of all S^2 pairs of seeds
        same_seed = scale * sum(_products(of_seed) for of_seed in deviations)
        between_seeds = all_pairs
        if seeds > 1:
            between_seeds = (all_pairs - same_seed) / (seeds * (seeds - 1))
        # Groups (or all rows) whose value is undefined at some seed; where one has a value at every
        # seed, the others get their reason by group, in `_estimate`.
        missing = np.isnan(whole).any(0)
        reason = TOO_FEW if missing.all() else ""
        return MetricTable(
            name=name,
            unit=unit,
            by_seed=whole,
            covariance=np.stack([all_pairs / seeds**2, between_seeds]),
            counts=np.rint(self.rows).astype(np.int64),
            reason=reason,
            bounds=bounds,
        )


def _products(deviations: Float64) -> Float64:
    """Sums over blocks of products of deviations: [K + 1, BLOCKS] -> [K + 1, K + 1].

    Two groups share no row, so what their products are is chance: they are set to 0.
    """
    products = np.asarray(deviations @ deviations.T)
    groups = len(products) - 1
    of_groups = products[:groups, :groups]  # a view, without the row and column of all rows
    of_groups[~np.eye(groups, dtype=bool)] = 0.0
    return products


def with_step_readings(
    measured: Measured, plan: Plan, grouping: Grouping, number: int, results: Results
) -> Measured:
    """The comparison of a private arm with the numbers and gaps that were read of its steps.

    Where nothing was read every number is there and undefined, with the reason.

    Args:
        measured: The comparison.
        plan: Of the audit.
        grouping: By which it is cut.
        number: Place of the grouping.
        results: Job id -> result.
    """
    arm = plan.arm(measured.arm)
    why = why_unread(plan, arm, results)
    groups = [*measured.by_group, measured.overall]
    readings_by_group: list[dict[str, Estimate]] = [{} for _ in groups]
    gaps: list[Gap] = []
    if why:
        for spec in of_steps():
            for estimates in readings_by_group:
                estimates[spec.name] = undefined(why, spec.unit, n_test=None)  # rows not known
    else:
        steps = ArmSteps(plan, arm, number, results, len(grouping.names))
        selection = _selection(measured, grouping, len(steps.seeds), plan.config.suppress_below)
        turned = steps.table(TURNED, "ratio", METRICS["direction"].bounds)
        for spec in of_steps():
            table = steps.table(spec.name, spec.unit, spec.bounds)
            for k, estimates in enumerate(readings_by_group):
                estimates[spec.name] = _estimate(table, k, selection)
            if spec.has_gap:
                gaps += _gaps(table, selection, turned, grouping.names)
    revised = [
        group.model_copy(update={"estimates": {**group.estimates, **more}})
        for group, more in zip(groups, readings_by_group, strict=True)
    ]
    update: dict[str, object] = {"by_group": tuple(revised[:-1]), "overall": revised[-1]}
    return measured.model_copy(update={**update, "gaps": (*measured.gaps, *gaps)})


def _selection(
    measured: Measured, grouping: Grouping, seeds: int, suppressed_below: int
) -> GroupSelection:
    """Which groups may be compared: by their test rows, as for every number of the comparison."""
    counts = [group.n_test or 0 for group in (*measured.by_group, measured.overall)]
    return GroupSelection(
        names=grouping.names,
        missing=grouping.missing,
        counts=np.asarray(counts, dtype=np.int64),
        n_seeds=seeds,
        suppressed_below=suppressed_below,
    )


def _estimate(table: MetricTable, k: int, selection: GroupSelection) -> Estimate:
    """The number of group k, or of all rows where k is K; undefined where no row was read of it."""
    rows = int(table.counts[k])
    if not rows:
        return undefined("no training row of this group", table.unit, n_test=0)
    if np.isnan(table.by_seed[:, k]).all():
        return undefined(TOO_FEW, table.unit, n_test=rows)
    spread = checked_contrast(table, selection, k)
    if np.isnan(table.by_seed[:, k]).any():  # at some seeds: `spread.reason` says at how many
        spread = replace(spread, reason=f"{spread.reason}: {TOO_FEW}")
    return estimate(spread)


def _gaps(
    table: MetricTable, selection: GroupSelection, turned: MetricTable, names: Sequence[str]
) -> Iterator[Gap]:
    """The gaps of one reading; those of misalignment with the number that decides about them.

    Args:
        table: The reading.
        selection: Which groups may be compared.
        turned: What turning takes from each group, to first order.
        names: Of the groups.
    """
    for gap in gaps_of(table, selection):
        if table.name == MISALIGNMENT and gap.a and gap.b:
            pair = contrast(turned, names.index(gap.a), names.index(gap.b))
            gap = gap.model_copy(update={"tested": estimate(pair)})
        yield gap


def step_readings(
    plan: Plan, dataset: Dataset, results: Results, hidden: Mapping[str, Collection[str]]
) -> tuple[StepReadings, ...]:
    """How the steps of every private arm were read, for each grouping, with curves.

    Args:
        plan, dataset, results: The audit.
        hidden: Name of a grouping -> its suppressed groups, which are left out.
    """
    read = []
    for arm in plan.arms:
        if arm.reference is None:
            continue  # the reference itself, which clips nothing
        why = why_unread(plan, arm, results)
        for number, grouping in enumerate(dataset.groupings):
            if why:
                # Readings that say in place of the steps why this method's groups pay.
                instead = tuple(find(arm.method).meanings) if why == NO_STEPS else ()
                read.append(
                    StepReadings(
                        arm=arm.key, grouping=grouping.name, reason=why, method_readings=instead
                    )
                )
                continue
            steps = ArmSteps(plan, arm, number, results, len(grouping.names))
            read.append(_readings(plan, arm, grouping, steps, hidden.get(grouping.name, ())))
    return tuple(read)


def _readings(
    plan: Plan, arm: Arm, grouping: Grouping, steps: ArmSteps, hidden: Collection[str]
) -> StepReadings:
    """How the steps of one arm were read by one grouping; ``hidden``: suppressed groups."""
    curves = {}
    for spec in of_steps():
        curves[spec.name] = steps.series(spec.name)[..., 0]  # [S, C, K + 1], over all rows read
    angles = curves[MISALIGNMENT]
    # Terms (as ``direction``) may be read at fewer checkpoints than angles are.
    terms = [c for c in range(len(steps.steps)) if np.isfinite(curves["direction"][:, c]).any()]
    groups = []
    for k, name in enumerate((*grouping.names, "")):  # "" is all rows
        if name not in hidden:
            over_seeds = {
                reading: tuple(map(finite, nan_mean(values[..., k])))
                for reading, values in curves.items()
            }
            groups.append(
                # ``undefined``: pairs of seed and checkpoint without an angle; a group without rows
                # has none that could be there.
                GroupSteps(
                    group=name,
                    rows=float(steps.rows[k]),
                    undefined=int(np.isnan(angles[..., k]).sum()) if steps.rows[k] else 0,
                    curves=over_seeds,
                )
            )
    return StepReadings(
        arm=arm.key,
        grouping=grouping.name,
        steps=steps.steps,
        total_steps=plan.training.steps,
        term_steps=tuple(steps.steps[c] for c in terms),
        rows=float(steps.rows[-1]),
        train_rows=steps.train_rows,
        batches=BATCHES,
        term_batches=steps.term_batches,
        seeds=len(steps.seeds),
        groups=tuple(groups),
    )
