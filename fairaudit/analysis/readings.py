"""What the methods' own diagnostics read of finished trainings.

A reading is a named number, or one for each group, that a training leaves in its result and that
says how the method behaved; it is no metric of the model.
"""

from collections.abc import Collection, Mapping

import numpy as np
from numpy.typing import NDArray

from fairaudit.analysis.arm_readings import finished, known_mean
from fairaudit.data.dataset import Dataset
from fairaudit.methods.catalog import find
from fairaudit.planning.plan import Plan
from fairaudit.report.types.measured import Reading
from fairaudit.results.estimates import finite
from fairaudit.results.jobs import JobResult

Float64 = NDArray[np.float64]
Results = Mapping[str, JobResult]

# readings that the program takes of every method: name -> what it is, in the order of the report
MEANINGS: Mapping[str, str] = {
    "group_noise_multiplier": "noise next to the group's longest gradient, mean over steps"
}


def readings(
    plan: Plan, dataset: Dataset, results: Results, hidden: Collection[str] = ()
) -> dict[str, tuple[Reading, ...]]:
    """Every reading of every arm, by seed and as the mean over its finished seeds.

    Args:
        plan, dataset, results: The audit.
        hidden: Suppressed groups, whose numbers become None.

    Returns:
        Key of the arm -> its readings; an arm without readings is left out.
    """
    groups = dataset.groupings[0].names
    by_arm: dict[str, list[Reading]] = {}
    for arm in plan.arms:
        spec = find(arm.method)
        for name, meaning in {**MEANINGS, **spec.meanings}.items():
            values = read_by_seed(plan, arm.key, name, results)
            if not values:
                continue
            stacked = np.stack(list(values.values()))
            width = stacked.shape[1]  # a number of each group, or numbers of the training
            if width == len(groups) > 1:
                columns = groups
            else:
                columns = ("",) * width
            columns = spec.columns.get(name, columns)
            if columns == groups:
                # In place: ``stacked`` is an array of its own.
                stacked[:, [group in hidden for group in groups]] = np.nan
            reading = Reading(
                name=name,
                meaning=meaning,
                columns=columns,
                values=tuple(known_mean(column) for column in stacked.T),
                by_seed=tuple(tuple(map(finite, row)) for row in stacked),
            )
            by_arm.setdefault(arm.key, []).append(reading)
    return {key: tuple(read) for key, read in by_arm.items()}


def read_by_seed(plan: Plan, arm: str, name: str, results: Results) -> dict[int, Float64]:
    """Seed -> one reading of an arm, ``[columns]``, at each finished seed that has it."""
    return {
        seed: np.asarray(result.arrays[f"reading.{name}"], dtype=np.float64)
        for seed, result in finished(plan, arm, results).items()
        if f"reading.{name}" in result.arrays
    }
