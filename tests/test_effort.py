"""What readings cost beside training, counted: what --diagnostics auto goes by."""

import pytest
from plans import plan

from fairaudit.cli.lines import plan_lines

pytestmark = pytest.mark.usefixtures("quick_accountant")

SAMPLE = {"n_public": 4800, "batch_size": 126, "epochs": 27, "method": ("dpsgd",)}
ADULT = {"n_public": 39074, "delta": 1e-6, "batch_size": 507, "epochs": 20, "method": ("dpsgd",)}
# Measured by benchmarks/diagnostics_cost.py, CPU times of one run: readings of full / training (on
# Adult with the network: whole jobs).
MEASURED = {
    "sample, logistic": (SAMPLE, 0.87),
    "sample, mlp": ({**SAMPLE, "epochs": 20, "model": "mlp"}, 3.08),
    "adult, logistic": (ADULT, 0.54),
    "adult, 100 epochs": ({**ADULT, "epochs": 100}, 0.11),
    "adult, mlp": ({**ADULT, "model": "mlp"}, 0.95),
}


@pytest.mark.parametrize("case", MEASURED)
def test_the_count_predicts_what_was_measured(case):
    options, full = MEASURED[case]
    found = plan(**options).effort
    assert full / 1.7 < found.full / found.beside_readings < 1.7 * full


def test_full_is_read_where_it_is_cheap_and_the_plan_says_so_with_its_reason():
    cheap, dear = plan(**ADULT | {"epochs": 100}), plan(**SAMPLE)
    assert (cheap.config.diagnostics, dear.config.diagnostics) == ("full", "basic")
    for found, level in ((cheap, "full"), (dear, "basic")):
        said = found.training.rules["diagnostics"]
        assert said.startswith(f"{level} (")
        assert f"  read    diagnostics: {said}" in list(plan_lines(found, seconds=1, cores=1))
    given = plan(**SAMPLE, diagnostics="full")
    assert "diagnostics" not in given.training.rules


def test_auto_trains_nothing_else_than_the_level_that_it_chooses():
    for options in (ADULT | {"epochs": 100}, SAMPLE):
        auto = plan(**options)
        named = plan(**options, diagnostics=auto.config.diagnostics)
        assert [job.id for job in auto.jobs] == [job.id for job in named.jobs]
        other = plan(
            **options, diagnostics="full" if auto.config.diagnostics == "basic" else "basic"
        )
        assert not {job.id for job in auto.jobs} & {job.id for job in other.jobs}
