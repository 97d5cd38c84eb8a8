import pytest
from handmade import built


@pytest.fixture(scope="session")
def report():
    """The hand-made one."""
    return built()
