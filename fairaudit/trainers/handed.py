"""What the user's own code is handed: a seed, an epsilon, rows."""

import math

import numpy as np
import pyarrow as pa

from fairaudit.data.dataset import Grouping
from fairaudit.planning.arms import Arm
from fairaudit.planning.plan import Job, Plan
from fairaudit.privacy.streams import seed_of
from fairaudit.trainers.contract import Privacy

_LARGEST_SEED = 2**31  # what numpy, torch and scikit-learn all take


def run_seed(job: Job, arm: Arm, repeat: int) -> int:
    """The audit's seed, so that arms of one seed are paired; other repeats draw anew."""
    if not repeat and "#" not in arm.key:
        return job.seed
    return seed_of(job.seed, "init", arm.key, repeat) % _LARGEST_SEED


def asked_of(
    plan: Plan,
    job: Job,
    arm: Arm,
) -> Privacy | None:
    """What the code is asked for; None: to train without privacy.

    A twin is asked for an infinite epsilon.
    """
    target = arm.privacy.target_epsilon
    if target is None:
        return None
    return Privacy(math.inf if job.is_twins else target, plan.training.delta)


def with_groups(table: pa.Table, grouping: Grouping) -> pa.Table:
    """The table with each row's group as a column, where it has none of that name."""
    if grouping.name in table.column_names:
        return table
    missing = None
    if grouping.missing is not None:
        missing = grouping.groups == grouping.missing
    names = np.array(grouping.names, object)[grouping.groups]
    return table.append_column(
        grouping.name,
        pa.array(
            names,
            pa.large_string(),
            mask=missing,
        ),
    )
