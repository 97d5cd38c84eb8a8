import numpy as np
import pytest
from plans import plan

from fairaudit.analysis.measure import on_rows_of
from fairaudit.metrics.within_model import ArmPredictions


def predictions(seed, rows):
    rows = np.array(rows)
    p = np.stack([np.linspace(0, 1, len(rows)), 1 - np.linspace(0, 1, len(rows))], -1)[None].astype(
        np.float32
    )
    return ArmPredictions(seed, rows, p, np.zeros(2, dtype=np.int64))


@pytest.mark.usefixtures("quick_accountant")
def test_an_arm_is_compared_with_its_reference_and_with_sgd_where_that_is_another():
    made = plan(method=("dpsgd", "output-perturbation"), self_check=True)
    beside = {arm.key: (arm.reference, *arm.other_references) for arm in made.arms}
    assert beside["dpsgd"] == ("sgd",)
    assert beside["output-perturbation"] == ("exact-minimiser", "sgd")
    assert beside["output-perturbation#self-check"] == ("output-perturbation",)


def test_a_baseline_is_read_on_the_rows_on_which_the_arm_was_tested():
    private = [predictions(0, [2, 5, 7])]
    whole = predictions(0, [1, 2, 3, 5, 7, 9])
    (found,) = on_rows_of(private, [whole, predictions(1, [4])])
    assert found.rows.tolist() == [2, 5, 7]
    assert np.array_equal(found.probabilities, whole.probabilities[:, [1, 3, 4]])
    same = predictions(0, [2, 5, 7])
    assert on_rows_of(private, [same])[0] is same
