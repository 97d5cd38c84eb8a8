import contextlib

import pytest

from fairaudit.privacy.streams import from_operating_system


@pytest.fixture(params=["seeds", "operating system"])
def any_source(request):
    """The law holds for an audit's seeded draws and for those of a model for release."""
    with (
        from_operating_system() if request.param == "operating system" else contextlib.nullcontext()
    ):
        yield
