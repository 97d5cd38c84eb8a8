"""Errors as users meet them."""

from contextlib import contextmanager

import pytest


@contextmanager
def refused_in_one_line(error, said=""):
    """What is done within raises this error, whose message is one line with these words."""
    with pytest.raises(error) as caught:
        yield caught
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
