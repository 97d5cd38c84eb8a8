"""How a number with its interval is written: one function, whoever shows it."""

import pytest

from fairaudit.report.numbers import (
    CHANGES,
    GATED,
    OWN_UNIT,
    PERCENT,
    POINTS,
    THOUSANDTHS,
    interval_alone,
    value_alone,
    written,
)
from fairaudit.results.estimates import Interval, undefined


def number(value, low=None, high=None):
    return Interval(value=value, low=low, high=high)


@pytest.mark.parametrize(
    ("scale", "known", "alone"),
    [
        (POINTS, "-2.9 [-4.6, -0.3]", "-2.9 (no interval)"),
        (OWN_UNIT, "-0.029 [-0.046, -0.003]", "-0.029"),
        (PERCENT, "-3 % [-5, 0]", "-3 %"),
        (THOUSANDTHS, "-29.4 [-45.7, -3.21]", "-29.4"),
        (CHANGES, "-0.02944 [-0.04567, -0.003211]", "-0.02944"),
        (GATED, "-0.02944 [-0.04567, -0.003211]", "-0.02944"),
    ],
)
def test_a_number_is_written_on_its_scale_with_what_is_known_of_it(scale, known, alone):
    assert written(number(-0.029441, -0.045671, -0.0032111), scale) == known
    assert written(number(-0.029441), scale) == alone
    assert f"{value_alone(number(-0.029441, -0.1, 0.1), scale)}" == alone.removesuffix(
        " (no interval)"
    )


def test_what_is_undefined_is_never_zero_and_says_why_where_it_is_spoken_of():
    nothing = undefined("no row of the class", "fraction")
    assert written(nothing, POINTS) == "undefined: no row of the class"
    assert written(number(None), POINTS) == "undefined"
    assert written(None, POINTS) == "not measured"
    assert {written(x, scale) for x in (nothing, None) for scale in (OWN_UNIT, CHANGES, GATED)} == {
        "–"
    }
    assert written(nothing, PERCENT, unknown="unknown") == "unknown"
    assert (value_alone(nothing, GATED), interval_alone(nothing, GATED)) == ("–", "–")


def test_zero_has_no_sign_and_an_exact_number_is_not_understated():
    assert written(number(-0.0001, -0.0002, 0.0), POINTS) == "0.0 [0.0, 0.0]"
    exact = number(3.13488, 3.13488, 3.13488)
    assert (written(exact, GATED), interval_alone(exact, GATED)) == ("3.14", "[3.14, 3.14]")
    assert written(exact, CHANGES) == "3.135 [3.135, 3.135]"
