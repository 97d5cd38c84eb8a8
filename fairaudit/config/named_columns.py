"""Names of columns, given by an option for a file that does not name them itself."""

import os.path
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fairaudit.errors import ConfigError

_ATTRIBUTE: Final = re.compile(r"([^:|]+):\s*\S.*")  # a line of C4.5's names, as "age: continuous."
_CLASS: Final = "class"
_MOST: Final = 1 << 20  # characters of a file of names


def read_names(value: object) -> object:
    """Run by pydantic before validation: a path or ``a,b,c`` becomes the names.

    A file holds a name in each line, or all in one line between commas, or is one of UCI's
    ``.names`` files, whose lines ``age: continuous.`` name the columns before the class.
    A list of several names is returned as it is.

    Raises:
        ConfigError: One text is neither a file nor a list of names; the file cannot be read, is too
            long or holds no names; a name is empty or given twice.

    Example:
        >>> read_names("age, sex,income")
        ('age', 'sex', 'income')
    """
    if isinstance(value, list | tuple):
        if len(value) != 1:
            return _without_doubles(value)
        value = value[0]  # typed once: a file, or names in one text
    if not isinstance(value, str | Path):
        return value
    if not str(value):
        return ()
    path = Path(value)
    # A text with a comma is a list of names, even where a file is called so.
    # ``Path.is_file`` would raise of a text that is too long for the name of a file.
    if "," not in str(value) and os.path.isfile(path):
        return _without_doubles(_in_file(path))
    names = tuple(name.strip() for name in str(value).split(","))
    if len(names) < 2:
        raise ConfigError(
            f"--names {str(value)[:60]!r} is no file, and no list of names",
            hint="give a file with a name in each line, or a,b,c",
        )
    return _without_doubles(names)


def _in_file(path: Path) -> tuple[str, ...]:
    """The names that a file holds: of UCI's kind, or one in each line, or all in one line.

    Raises:
        ConfigError: As :func:`read_names`.
    """
    try:
        with path.open(encoding="utf-8-sig") as stream:
            text = stream.read(_MOST + 1)
    except (OSError, UnicodeError):
        raise ConfigError(f"--names {path.name} cannot be read", hint="save it as UTF-8") from None
    if len(text) > _MOST:
        raise ConfigError(
            f"--names {path.name} is too long for a file of names",
            hint=f"at most {_MOST:,} characters are read",
        )
    lines = [line.partition("|")[0].strip() for line in text.splitlines()]  # "|" begins a comment
    lines = [line for line in lines if line]
    attributes = [match[1].strip() for line in lines if (match := _ATTRIBUTE.fullmatch(line))]
    if len(attributes) > 1:  # UCI's kind, which gives the class no name of its own
        return (*attributes, _CLASS)
    if len(lines) == 1:
        lines = [name.strip() for name in lines[0].split(",")]
    if not lines:
        raise ConfigError(f"--names {path.name} holds no names")
    return tuple(lines)


def _without_doubles(names: Sequence[object]) -> Sequence[object]:
    """The names; ConfigError where one is empty or given twice."""
    if all(isinstance(name, str) for name in names) and (
        "" in names or len(set(names)) < len(names)
    ):
        raise ConfigError("--names gives an empty name, or one twice")
    return names
