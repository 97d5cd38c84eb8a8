"""Names of a package that are imported when they are first used, so that it loads fast.

``python -m fairaudit`` puts the current folder first on ``sys.path`` and imports the package, and
with it this file, before ``__main__`` takes the folder away: neither may import what Python itself
has not imported by then.
"""

from importlib import import_module


class LazyNames:
    """A package's ``__getattr__``, which imports a public name from its home on first use.

    Args:
        package: Its name, for the error about a name that it does not have.
        homes: Public name -> the module that defines it.
    """

    def __init__(self, package: str, homes: dict[str, str]) -> None:
        self.package, self.homes = package, homes

    def __call__(self, name: str) -> object:
        """What the package has under a name, whose home is imported; AttributeError for others."""
        if name not in self.homes:
            raise AttributeError(f"module {self.package!r} has no attribute {name!r}")
        return getattr(import_module(self.homes[name]), name)
