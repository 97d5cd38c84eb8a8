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
    """The seed that the user's code is given for one training of a job.

    The first training gets the audit's own seed, so that all arms of one seed are paired. Further
    ones get seeds of their own, and so does a self-check, the arm with "#" in its key: it tells how
    far equal trainings differ by chance.

    Args:
        job, arm: The job and its arm.
        repeat: Number of the repeat, or of a search's candidate, from 0.
    """
    if not repeat and "#" not in arm.key:
        return job.seed
    return seed_of(job.seed, "init", arm.key, repeat) % _LARGEST_SEED


def asked_of(plan: Plan, job: Job, arm: Arm) -> Privacy | None:
    """The privacy that the user's code is asked for in a job; None: to train without privacy.

    A twin, the arm's training once more without noise, is asked for an infinite epsilon.
    """
    target = arm.privacy.target_epsilon
    if target is None:
        return None
    return Privacy(math.inf if job.is_twins else target, plan.training.delta)


def with_groups(table: pa.Table, grouping: Grouping) -> pa.Table:
    """The table with a column of each row's group added, unless it has that column already.

    A row that has no group has no value there.
    """
    if grouping.name in table.column_names:
        return table
    missing = None  # True for each row without a group; None: every row has one
    if grouping.missing is not None:
        missing = grouping.groups == grouping.missing
    names = np.array(grouping.names, object)[grouping.groups]
    return table.append_column(grouping.name, pa.array(names, pa.large_string(), mask=missing))
