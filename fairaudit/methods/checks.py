"""Which third-party methods passed ``fairaudit methods --check``, with which code, on this machine.

The record of a pass is one small file in the user's cache, named by a hash of the method's code. An
audit trains the same whether the file is there or not; the report calls the arm's epsilon checked
or unchecked.
"""

import hashlib
import json
import os
from pathlib import Path

from fairaudit import __version__
from fairaudit.io.atomic import write_atomically
from fairaudit.io.code_digest import code_digest
from fairaudit.methods.catalog import home_of
from fairaudit.methods.spec import Guarantee, MethodSpec


def as_checked(spec: MethodSpec) -> Guarantee:
    """The guarantee to state for a third-party method that claims an epsilon.

    CHECKED where its present code is on record as having passed the checks, else UNCHECKED.
    """
    try:
        passed = json.loads(_record_path(spec).read_bytes())["code"] == _code_identity(spec)
    except (OSError, ValueError, TypeError, KeyError):  # no file, or one that is no such record
        passed = False
    if passed:
        return Guarantee.CHECKED
    return Guarantee.UNCHECKED


def remember(spec: MethodSpec) -> None:
    """Record that the method passed the checks with its present code.

    After an edit of that code, or in another version of this program, the record counts no more.

    Raises:
        OutputError: The cache cannot be written.
    """
    path = _record_path(spec)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {"method": spec.name, "code": _code_identity(spec), "fairaudit": __version__}
    write_atomically(path, json.dumps(content, indent=1).encode())


def _code_identity(spec: MethodSpec) -> str:
    """Hash of the method's name, of this program's version and of all code that it consists of.

    That is the modules of its description, trainer, readings and variants, and what these import.
    """
    objects = (
        home_of(spec),
        spec.trainer,
        spec.readings,
        *(variant.trainer for variant in spec.variants),
    )
    code = code_digest({name.partition(":")[0] for name in objects if name})
    return hashlib.sha256(f"{__version__}\n{spec.name}\n{code}".encode()).hexdigest()


def _record_path(spec: MethodSpec) -> Path:
    """Where the record for the method's present code lies, whether or not it exists."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "fairaudit" / "checks" / f"{_code_identity(spec)[:24]}.json"
