"""The ways beside a search for settings, and how their arms are named."""

from typing import Final, Literal

Way = Literal["default", "reused"]
DEFAULT: Final = "default"
REUSED: Final = "reused"


def key_of(arm: str, way: str) -> str:
    """The name of an arm on that way, as variants are named: ``dpsgd:default@3`` of ``dpsgd@3``."""
    method, at, epsilon = arm.partition("@")
    return f"{method}:{way}{at}{epsilon}" if way else arm
