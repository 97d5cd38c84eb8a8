"""What readings cost beside training, counted."""

import pytest
from plans import plan

pytestmark = pytest.mark.usefixtures("quick_accountant")

SAMPLE = {"n_public": 4800, "batch_size": 126, "epochs": 27, "method": ("dpsgd",)}
ADULT = {"n_public": 39074, "delta": 1e-6, "batch_size": 507, "epochs": 20, "method": ("dpsgd",)}
# Measured by benchmarks/diagnostics_cost.py, CPU times of one run: readings of full / training of
# the arms and of half of their twins.
MEASURED = {
    "sample, logistic": (SAMPLE, 1.71),
    "sample, mlp": ({**SAMPLE, "epochs": 20, "model": "mlp"}, 5.85),
    "adult, logistic": (ADULT, 1.13),
    "adult, 100 epochs": ({**ADULT, "epochs": 100}, 0.23),
    "adult, mlp": ({**ADULT, "model": "mlp"}, 1.44),
}


@pytest.mark.parametrize("case", MEASURED)
def test_the_count_predicts_what_was_measured(case):
    options, full = MEASURED[case]
    found = plan(**options).effort
    assert full / 1.7 < found.full / found.work_without_readings < 1.7 * full


def test_the_level_is_basic_unless_another_is_asked_for():
    assert plan(**SAMPLE).config.diagnostics == "basic"
    assert plan(**SAMPLE, diagnostics="full").config.diagnostics == "full"
    levels = ("off", "basic", "full")
    jobs = [{job.id for job in plan(**SAMPLE, diagnostics=level).jobs} for level in levels]
    assert not jobs[0] & jobs[1] | jobs[1] & jobs[2]
