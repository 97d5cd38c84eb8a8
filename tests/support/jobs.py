"""Jobs of a plan in this process, on data that are read once."""

from functools import lru_cache

from fairaudit.config.options import AuditConfig
from fairaudit.data.inputs.shared import share_inputs
from fairaudit.data.tabular import load_dataset
from fairaudit.execution.seed_data import prepare_seed
from fairaudit.execution.worker import run_job


def inputs_of(plan):
    """What workers of the plan are given."""
    return _inputs(plan.digest, plan.config.model_dump_json())


def run_here(plan, job, source=None):
    """The result of one job."""
    return run_job(plan, job, source, inputs_of(plan))


def seed_here(plan, seed, *, by_pool=False):
    """One seed's data."""
    return prepare_seed(plan, seed, inputs_of(plan), by_pool=by_pool)


@lru_cache(maxsize=4)
def _inputs(digest, options):
    config = AuditConfig.model_validate_json(options)
    return share_inputs(load_dataset(config), config, by_pool=True)
