import numpy as np
import pytest

from fairaudit.metrics.within_model import (
    PROBABILITY_FLOOR,
    predicted_class,
    record_correct,
    record_loss,
)


def probabilities(*rows):
    return np.array([rows], dtype=np.float32)


def test_an_underflown_softmax_has_a_finite_loss():
    loss = record_loss(probabilities([1.0, 0.0]), np.array([1]))
    assert loss[0, 0] == pytest.approx(-np.log(PROBABILITY_FLOOR))
    assert loss.dtype == np.float64


def test_a_tie_goes_to_the_lower_class_with_two_classes_and_with_three():
    assert predicted_class(probabilities([0.5, 0.5])).tolist() == [[0]]
    assert predicted_class(probabilities([0.4, 0.4, 0.2])).tolist() == [[0]]


def test_a_broken_probability_is_undefined_and_never_wrong_or_right():
    p = probabilities([np.nan, np.nan], [0.1, 0.9])
    labels = np.array([0, 1])
    assert np.isnan(record_correct(p, labels)[0]).tolist() == [True, False]
    assert np.isnan(record_loss(p, labels)[0]).tolist() == [True, False]
