"""Whether groups are in one order by a reading and by cost, where a number is lacking."""

from types import SimpleNamespace

import numpy as np

from fairaudit.analysis.arm_readings import ArmReadings
from fairaudit.analysis.build_causes import _agreements
from fairaudit.metrics.intervals import MetricTable, contrast, estimate

NAMES = ("hessian_trace", "mean_input_norm", "mean_closeness")


def test_a_group_without_test_rows_at_one_seed_is_left_out_there_alone():
    risks = np.array([[0.1, 0.2, 0.15], [0.1, np.nan, 0.1], [0.3, 0.2, 0.2]])  # [S, K + 1]
    table = MetricTable(
        "excess_risk", "nats", risks, np.array([np.eye(3) * 1e-4] * 2), np.array([40, 40, 80])
    )
    estimates = [estimate(contrast(table, k)) for k in (0, 1)]
    assert [one.by_seed for one in estimates] == [(0.1, 0.1, 0.3), (0.2, None, 0.2)]
    assert [one.n_seeds for one in estimates] == [3, 2]
    # F has the larger readings at every seed. Its risk is the larger one at the last; nobody knows
    # at the second.
    traces = np.tile([[2.0, 1.0, 1.5]], (3, 1))[:, None]  # [S, C, K + 1]
    readings = ArmReadings((0,), 2, (0, 1, 2), dict.fromkeys(NAMES, traces))
    groups = [
        SimpleNamespace(group=name, estimates={"excess_risk": one})
        for name, one in zip("FM", estimates, strict=True)
    ]
    found = list(_agreements(readings, ["F", "M"], SimpleNamespace(by_group=groups)))
    assert [(one.reading, one.value) for one in found] == [(name, 0.5) for name in NAMES]
