import math

from hypothesis import given
from hypothesis import strategies as st

from fairaudit.privacy.events import shown_up
from fairaudit.report.numbers import CHANGES, UNKNOWN, figure, written
from fairaudit.results.estimates import Interval, rounded, rounded_down, rounded_up

numbers = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300)


@given(numbers)
def test_bounds_are_rounded_outward(value):
    assert rounded_down(value) <= value <= rounded_up(value)


@given(numbers)
def test_rounding_is_to_six_digits(value):
    for way in (rounded, rounded_down, rounded_up):
        assert float(f"{way(value):.5e}") == way(value) == way(way(value))
        assert math.isclose(way(value), value, rel_tol=1.01e-5, abs_tol=5e-324)


@given(st.floats(0.001, 1000))
def test_an_epsilon_is_never_shown_smaller_than_it_is(value):
    assert float(shown_up(value)) >= value
    assert float(shown_up(value)) <= value + 0.01


def test_an_epsilon_at_its_target_is_shown_as_its_target():
    assert shown_up(3.0) == "3.00"
    assert shown_up(2.9951) == "3.00"
    assert shown_up(3.0049) == "3.01"
    assert [shown_up(v) for v in (0.005, 0.0123, 0.1, 0.0, 1e-9)] == [
        *("0.0050", "0.013", "0.10", "0.00", "0.000001")
    ]


def test_what_rounding_leaves_of_zero_is_0():
    left = 0.3 - 0.1 - 0.2
    assert left != 0
    assert [figure(value) for value in (left, -left, 0.0, None)] == ["0", "0", "0", UNKNOWN]
    assert figure(-4.8263e-7) == "-4.826e-07"
    shown = written(Interval(value=left, low=-0.02, high=-left), CHANGES)
    assert shown == "0 [-0.02, 0]"
