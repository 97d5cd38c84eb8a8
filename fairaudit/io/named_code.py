"""Code that an option names, ``package.module:NAME``: where its module is found, and its import.

Where Python finds the module (it is installed, or on ``PYTHONPATH``), nothing is added to where
Python looks. Else it lies in the *folder*, where the command is run: from then on modules of that
folder are found too, after all others, so that the named one can import what lies beside it. No
file of the folder can then stand in for Python's own modules, for an installed package, or for a
package that this program imports itself (``PACKAGES``), installed or not. Before an option names
code that lies there, nothing of the folder is found at all. It joins ``sys.path``, in which
libraries look for plugins too, in the process of a trainer alone.
"""

import os
import sys
from collections.abc import Sequence
from importlib import import_module, invalidate_caches
from importlib.machinery import FileFinder, ModuleSpec, PathFinder
from importlib.util import find_spec
from pkgutil import get_importer
from types import ModuleType

# What this program imports itself: imported name -> what pip installs. Most are imported where they
# are used, so that a gate needs few.
PACKAGES = {
    "PIL": "pillow",
    "cryptography": "cryptography",
    "dp_accounting": "dp-accounting",
    "jinja2": "jinja2",
    "markupsafe": "markupsafe",
    "numpy": "numpy",
    "opacus": "opacus",
    "pandas": "pandas",
    "pyarrow": "pyarrow",
    "pydantic": "pydantic",
    "ray": "ray",
    "rich": "rich",
    "safetensors": "safetensors",
    "scipy": "scipy",
    "sklearn": "scikit-learn",
    "torch": "torch",
    "typer": "typer",
    "vl_convert": "vl-convert-python",
}
_NEVER_HERE = sys.stdlib_module_names | PACKAGES.keys() | {__name__.partition(".")[0]}


class _FolderFinder:
    """At the end of ``sys.meta_path``: finds modules of one folder that are found nowhere else.

    Args:
        folder: Its path.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        _restrict(folder)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Where the folder has the module; None where it has none, or may not have it.

        Args:
            name: Name of the module.
            path: Where the package around the module says that its modules are; None for a module
                of the top level.
            target: Not used; Python hands it over.
        """
        return PathFinder.find_spec(name, [self.folder]) if path is None else None


class _Restricted:
    """What Python asks for the modules of one folder, without those that never come from it."""

    def __init__(self, finder: FileFinder) -> None:
        self._finder = finder

    def find_spec(self, name: str, target: ModuleType | None = None) -> ModuleSpec | None:
        """Where the folder has the module; None where it has none, or may not have it."""
        return None if name in _NEVER_HERE else self._finder.find_spec(name, target)

    def invalidate_caches(self) -> None:
        """Forget which files the folder had."""
        self._finder.invalidate_caches()


def _restrict(place: str) -> None:
    """Let no import take one of ``_NEVER_HERE`` from the folder ``place``."""
    finder = get_importer(place)
    if isinstance(finder, FileFinder):  # not restricted yet
        sys.path_importer_cache[place] = _Restricted(finder)


_announced: list[str] = []  # the last one is the folder, in a process that does not run in it


def folder() -> str:
    """The folder of modules that options name; "" where the current folder was deleted."""
    try:
        return _announced[-1] if _announced else os.getcwd()
    except FileNotFoundError:
        return ""


def look_in(place: str) -> None:
    """Make ``place`` the folder in this process, a worker that runs elsewhere than the command."""
    _announced.append(place)


def put_on_path(place: str) -> None:
    """Put a folder at the end of ``sys.path``, for a process that is the user's code's own.

    Processes that the code starts by multiprocessing are handed ``sys.path``.
    """
    if place not in sys.path:
        _restrict(place)
        sys.path.append(place)


def make_findable(module: str) -> None:
    """Let imports find a module that an option names, where it lies in the folder; import nothing.

    Args:
        module: As in an import statement.
    """
    invalidate_caches()  # a file may have been written just now
    top, place = module.partition(".")[0], folder()
    if top in _NEVER_HERE or top in sys.modules or _spec_of(top) is not None:
        return
    if PathFinder.find_spec(top, [place]) is not None:
        sys.meta_path.append(_FolderFinder(place))


def import_named(module: str) -> ModuleType:
    """Import a module that an option names.

    Args:
        module: As in an import statement.

    Raises:
        BaseException: Whatever the import raises.
    """
    make_findable(module)
    return import_module(module)


def advice(module: str) -> str:
    """The hint where a module that an option names cannot be imported."""
    return hidden(module) or "run where the module lies, or name its folder in PYTHONPATH"


def hidden(module: str) -> str:
    """The hint where the folder has a module, and an import finds another one of its name.

    Args:
        module: As in an import statement.

    Returns:
        "" where the folder has no such module, or an import finds the folder's own.
    """
    top, here = module.partition(".")[0], os.path.join(folder(), "")
    if not os.path.isfile(f"{here}{top}.py") and not os.path.isdir(here + top):
        return ""
    spec = _spec_of(top)
    if top not in _NEVER_HERE:
        # Where Python finds the module: its file, and a package's folders. If nowhere, the folder's
        # own would be found once it is looked in.
        places = [spec.origin, *(spec.submodule_search_locations or ())] if spec else [here]
        if any(place is not None and place.startswith(here) for place in places):
            return ""
    return f"a module {top!r} of Python's or of a package comes before yours: rename yours"


def _spec_of(top: str) -> ModuleSpec | None:
    """Where Python finds a module of the top level; None where it does not."""
    try:
        return find_spec(top)
    except (ImportError, ValueError):  # no name of a module, or one that was made by hand
        return getattr(sys.modules.get(top), "__spec__", None)
