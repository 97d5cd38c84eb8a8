"""Names of a package that are imported when they are first used, so that it loads fast."""

from collections.abc import Callable, Mapping
from importlib import import_module


def names_of(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """A package's ``__getattr__``, which imports a public name from its home on first use.

    Args:
        package: Its name, for the error about a name that it does not have.
        homes: Public name -> the module that defines it.
    """

    def find(name: str) -> object:
        """What the package has under a name; its home is imported."""
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return find
