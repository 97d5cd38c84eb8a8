"""Which code a result was made by, read from its files: nothing is imported, so a plan can ask.

The digest of that code enters the identity of a job, so that changed code trains anew.
"""

import ast
import functools
import hashlib
import importlib.util
import sys
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

_PACKAGE = __name__.partition(".")[0]
_METHODS = f"{_PACKAGE}.methods"  # the rest of this package is vouched for by its numerics version
_INSTALLED = {"site-packages", "dist-packages"}


def code_digest(modules: Iterable[str]) -> str:
    """Hash the files of modules and of the code that they import.

    Imports are followed into a module's own package (of a module of fairaudit: into its folder
    alone), into code that is not installed and into fairaudit's methods; other libraries and the
    standard library are left out.

    Args:
        modules: Names as in an import statement. One that has no file adds nothing.

    Returns:
        64 hexadecimal digits, the same wherever the files lie.
    """
    content = hashlib.sha256()
    for name, path in sorted(_files_reached(modules).items()):
        content.update(f"{name}\n".encode())
        content.update(hashlib.sha256(path.read_bytes()).digest())
    return content.hexdigest()


def imported_libraries(modules: Iterable[str]) -> frozenset[str]:
    """Top-level names of the libraries that modules import, themselves or by code of their own.

    Their versions are what a result depends on beside the code.
    """
    files = _files_reached(modules)
    own_packages = {name.partition(".")[0] for name in files} | {_PACKAGE}
    names = {
        each.partition(".")[0]
        for name, path in files.items()
        for each in _imported_names(name, path)
    }
    return frozenset(names - own_packages - sys.stdlib_module_names)


def has_file(module: str) -> bool:
    """Whether an import would find a module, in a file; it is not imported."""
    return _file_of(module) is not None


def _files_reached(modules: Iterable[str]) -> dict[str, Path]:
    """Module name -> its file, for modules and the imports that :func:`code_digest` follows."""
    roots = set(modules)
    # Packages that are followed: of the user's code the top one, of this program's the folder.
    packages = {name.partition(".")[0] for name in roots} - {_PACKAGE}
    packages |= {name.rpartition(".")[0] for name in roots if name.startswith(f"{_PACKAGE}.")}
    files: dict[str, Path] = {}
    seen, waiting = set[str](), list(roots)
    while waiting:
        name = waiting.pop()
        path = None if name in seen else _file_of(name)
        seen.add(name)
        if path is not None and (name in roots or _is_followed(name, path, packages)):
            files[name] = path
            waiting += _imported_names(name, path)
    return files


def _is_followed(name: str, path: Path, packages: Collection[str]) -> bool:
    """Whether a module counts: one of the packages, of this program's methods, or not installed.

    Args:
        name: Of the module.
        path: Its file.
        packages: Names of packages that are followed wherever they lie.
    """
    top = name.partition(".")[0]
    if top == _PACKAGE:
        return any(f"{name}.".startswith(f"{folder}.") for folder in (_METHODS, *packages))
    if top in packages:
        return True
    # Installed code is in a folder of libraries, or has an installer's record beside it.
    home = path.parents[name.count(".") + (path.name == "__init__.py")]  # where ``top`` lies
    return _INSTALLED.isdisjoint(path.parts) and not any(home.glob(f"{top}-*.dist-info"))


def _file_of(name: str) -> Path | None:
    """The file of a module.

    None for a module of the standard library or without a file, and for a name that is no module,
    such as a function of one.
    """
    top, *parts = name.split(".")
    if top in sys.stdlib_module_names:
        return None
    try:
        # Of the top name alone: to find a name with dots, ``find_spec`` would import its parents.
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):  # its entry in sys.modules was made by hand
        return None
    if spec is None:
        return None
    folders = map(Path, spec.submodule_search_locations or ())
    file = Path(spec.origin) if spec.has_location and spec.origin else None
    if parts:
        candidates: list[Path] = []
        for folder in folders:
            place = folder.joinpath(*parts)
            candidates += (place / "__init__.py", place.with_suffix(".py"))
        file = next((candidate for candidate in candidates if candidate.is_file()), None)
    if file is not None and file.is_file():
        return file
    return None


def _imported_names(name: str, path: Path) -> Iterator[str]:
    """Names of all modules that the file of module ``name`` may import, and of their packages.

    ``from a import b`` names ``a.b``, which may be no module. Only Python source is read.
    """
    yield from _with_parents(name)
    if path.suffix == ".py":
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        yield from _imports(path.read_bytes(), package)


@functools.lru_cache(maxsize=1024)
def _imports(source: bytes, package: str) -> tuple[str, ...]:
    """Names of the modules that a source text of a package may import, each once.

    The names are a function of the text, so a process that plans often parses each text once.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return ()  # whoever imports it says so
    return tuple(dict.fromkeys(_named_in(tree, package)))


def _named_in(tree: ast.Module, package: str) -> Iterator[str]:
    """Names in the import statements of a module of ``package``, relative ones made absolute."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_parents(alias.name)
        elif isinstance(node, ast.ImportFrom):
            above: list[str] = []
            if node.level:  # the number of dots: one is the package itself, each more the one above
                parts = package.split(".")
                above = parts[: len(parts) - node.level + 1]
            if node.module:
                above.append(node.module)
            origin = ".".join(above)
            for alias in node.names:  # a name, or a module of the package
                yield from _with_parents(f"{origin}.{alias.name}")


def _with_parents(name: str) -> Iterator[str]:
    """``a``, ``a.b``, ``a.b.c`` for ``a.b.c``: an import runs the packages around a module."""
    parts = name.split(".")
    return (".".join(parts[: count + 1]) for count in range(len(parts)))
