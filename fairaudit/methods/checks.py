"""Which methods of somebody else passed ``fairaudit methods --check`` on this machine.

And with which code.

The record is one small file per code in the user's cache. An audit trains the same whether it is
there or not; the report says of the arm which of the two it found.
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
    """What stands beside the epsilon of a third-party method that claims one."""
    try:
        passed = json.loads(_record(spec).read_bytes())["code"] == _code(spec)
    except (OSError, ValueError, TypeError, KeyError):
        passed = False
    if passed:
        return Guarantee.CHECKED
    return Guarantee.UNCHECKED


def remember(spec: MethodSpec) -> None:
    """Record that this code passed; another edit, or another version of this program, did not.

    Raises:
        OutputError: The cache cannot be written.
    """
    path = _record(spec)
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "method": spec.name,
        "code": _code(spec),
        "fairaudit": __version__,
    }
    write_atomically(path, json.dumps(content, indent=1).encode())


def _code(spec: MethodSpec) -> str:
    """Identity of all that the method is made of, what it says of itself included."""
    objects = (
        home_of(spec),
        spec.trainer,
        spec.readings,
        *(variant.trainer for variant in spec.variants),
    )
    code = code_digest({name.partition(":")[0] for name in objects if name})
    return hashlib.sha256(f"{__version__}\n{spec.name}\n{code}".encode()).hexdigest()


def _record(spec: MethodSpec) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "fairaudit" / "checks" / f"{_code(spec)[:24]}.json"
