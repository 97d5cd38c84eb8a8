"""Which code a result was made by, read from its files: nothing is imported, so a plan can ask."""

import ast
import hashlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

_PACKAGE = __name__.partition(".")[0]
_METHODS = f"{_PACKAGE}.methods"  # the rest of this package is vouched for by its numerics version
_INSTALLED = {"site-packages", "dist-packages"}


def code_digest(modules: Iterable[str]) -> str:
    """Identity of the code of modules.

    Their files, and those of the modules that they are built from.

    Imports are followed into a module's own package (of this one: into its own folder), into code
    that is not installed and into this package's methods; other libraries and the standard library
    are left out.

    Args:
        modules: Names as in an import statement. One that has no file adds nothing.

    Returns:
        64 hexadecimal digits, the same wherever the files lie.
    """
    content = hashlib.sha256()
    for name, path in sorted(_closure(modules).items()):
        content.update(f"{name}\n".encode())
        content.update(hashlib.sha256(path.read_bytes()).digest())
    return content.hexdigest()


def imported_libraries(modules: Iterable[str]) -> frozenset[str]:
    """Top-level names of libraries that modules import, or the code beside them."""
    files = _closure(modules)
    own_packages = {name.partition(".")[0] for name in files} | {_PACKAGE}
    names = {
        each.partition(".")[0] for name, path in files.items() for each in _imported(name, path)
    }
    return frozenset(names - own_packages - sys.stdlib_module_names)


def has_file(module: str) -> bool:
    """Whether a module is found, as an import would find it, in a file."""
    importlib.invalidate_caches()
    return _file(module) is not None


def _closure(modules: Iterable[str]) -> dict[str, Path]:
    """Module name -> its file, for these modules and all that they import of code like theirs."""
    roots = set(modules)
    packages = {name.partition(".")[0] for name in roots} - {_PACKAGE}
    packages |= {name.rpartition(".")[0] for name in roots if name.startswith(f"{_PACKAGE}.")}
    files: dict[str, Path] = {}
    seen, waiting = set[str](), list(roots)
    while waiting:
        name = waiting.pop()
        path = None if name in seen else _file(name)
        seen.add(name)
        if path is None:
            continue
        top = name.partition(".")[0]
        if top == _PACKAGE:
            folders = (_METHODS, *packages)
            is_followed = any(f"{name}.".startswith(f"{folder}.") for folder in folders)
        else:
            # An installer puts a library into its usual folder, or a record of it beside it.
            home = path.parents[name.count(".") + (path.name == "__init__.py")]
            is_listed = any(home.glob(f"{top}-*.dist-info"))
            is_followed = top in packages or (_INSTALLED.isdisjoint(path.parts) and not is_listed)
        if name in roots or is_followed:
            files[name] = path
            waiting += _imported(name, path)
    return files


def _file(name: str) -> Path | None:
    """The file of a module, or None: of the standard library, a name inside a module, not there."""
    top, *parts = name.split(".")
    if top in sys.stdlib_module_names:
        return None
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):  # of a module that was made by hand
        return None
    if spec is None:
        return None
    folders = map(Path, spec.submodule_search_locations or ())
    file = Path(spec.origin) if spec.has_location and spec.origin else None
    if parts:
        places = [folder.joinpath(*parts) for folder in folders]
        files = [
            file for place in places for file in (place / "__init__.py", place.with_suffix(".py"))
        ]
        file = next((file for file in files if file.is_file()), None)
    if file is not None and file.is_file():
        return file
    return None


def _imported(name: str, path: Path) -> Iterator[str]:
    """What a file may import, each with the packages that it lies in."""
    yield from _with_parents(name)
    if path.suffix != ".py":
        return
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return  # whoever imports it says so
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_parents(alias.name)
        elif isinstance(node, ast.ImportFrom):
            above: list[str] = []
            if node.level:
                parts = package.split(".")
                above = parts[: len(parts) - node.level + 1]
            if node.module:
                above.append(node.module)
            origin = ".".join(above)
            for alias in node.names:  # a name, or a module of the package
                yield from _with_parents(f"{origin}.{alias.name}")


def _with_parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[: count + 1]) for count in range(len(parts)))
