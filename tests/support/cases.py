"""Cases of one test, of which the fast run takes some."""

import pytest


def every_third(cases):
    """All cases, a tuple for several parameters; those between every third one are slow."""
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=pytest.mark.slow if number % 3 else (),
        )
        for number, case in enumerate(cases)
    ]
