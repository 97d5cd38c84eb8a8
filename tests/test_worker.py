"""One job through the process that trains it: what it leaves behind for the report."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fairaudit.config import AuditConfig
from fairaudit.data.public import load_inputs
from fairaudit.data.tabular import load_dataset
from fairaudit.errors import DataError
from fairaudit.plan import make_plan
from fairaudit.worker import run_job

LOANS = Path(__file__).resolve().parents[1] / "sample_data" / "loans.parquet"


def planned(**given):
    fields = {"data": LOANS, "group": ("sex",), "seeds": 1, "epochs": 2, "noise_multiplier": 1.0}
    config = AuditConfig(**{**fields, **given})
    return make_plan(config, load_dataset(config))


def result_of(plan, arm):
    return run_job(plan, next(job for job in plan.jobs if job.arm == arm), None)


@pytest.mark.parametrize("method", ["dpsgd-f", "reweight"])
def test_a_rule_that_treats_groups_unlike_leaves_its_multipliers_and_each_groups_epsilon(method):
    plan = planned(method=(method,))
    arm, result = plan.arm(method), result_of(plan, method)
    names = load_dataset(plan.config).groupings[0].names
    multipliers = result.arrays["trace.group_noise_multiplier"]
    assert multipliers.shape == (plan.schedule.steps, 1, len(names))
    assert (multipliers >= 1.0 - 1e-6).all()
    assert result.arrays["reading.group_noise_multiplier"] == pytest.approx(multipliers.mean((0, 1)))
    own = result.arrays["reading.individual_epsilon"]
    assert own.shape == (len(names),)
    assert (own > 0).all()
    assert (own <= arm.privacy.epsilon_pld * 1.001).all()
    # The larger the noise next to a group, the smaller its epsilon.
    order = np.argsort(multipliers.mean((0, 1)))
    assert sorted(own, reverse=True) == list(own[order])


@pytest.mark.parametrize(
    ("arm", "given"),
    [
        ("dpsgd", {"method": ("dpsgd",)}),
        ("dpsgd-f:author-code", {"method": ("dpsgd-f",), "variant": ("author-code",)}),
        ("dpsgd-f", {"method": ("dpsgd-f",), "noise_multiplier": 0.0}),
    ],
)
def test_no_other_arm_has_a_groups_epsilon(arm, given):
    """Not where groups are treated alike, and never where there is no guarantee to describe."""
    assert "reading.individual_epsilon" not in result_of(planned(**given), arm).arrays


def test_data_that_come_with_the_job_give_what_data_read_here_give():
    plan = planned(
        method=("pate-hard",), public_data=LOANS, settings={"pate-hard": {"teachers": 5}}, epochs=1
    )
    inputs = load_inputs(load_dataset(plan.config), plan.config)
    absent = {"data": Path("absent.parquet"), "public_data": Path("absent.parquet")}
    elsewhere = replace(plan, config=plan.config.model_copy(update=absent))
    with pytest.raises(DataError, match="absent"):
        run_job(elsewhere, plan.jobs[0], None)
    for job in plan.jobs:
        read = run_job(plan, job, None)
        brought = run_job(elsewhere, job, None, inputs)
        assert read.arrays.keys() == brought.arrays.keys()
        for name, array in read.arrays.items():
            assert array.tobytes() == brought.arrays[name].tobytes(), name
