"""Options that take one of a few words."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, cast

from fairaudit.errors import ConfigError, did_you_mean

STDOUT = Path("-")
_COUNTED = ("fail", "pass")


def folder(text: str) -> Path:
    """A folder by its name.

    Raises:
        ConfigError: The text is empty; as a path it would be the current folder.
    """
    if not text:
        raise ConfigError("the folder has an empty name", hint="name one; . is the current folder")
    return Path(text)


def counted(word: str | None) -> Literal["fail", "pass"] | None:
    """What an inconclusive rule counts as.

    Raises:
        ConfigError: Another word.
    """
    if word is not None and word not in _COUNTED:
        raise ConfigError(
            f"--inconclusive takes fail or pass, not {word!r}", hint=did_you_mean(word, _COUNTED)
        )
    return cast(Literal["fail", "pass"] | None, word)


def formats(given: Iterable[str], known: Sequence[str]) -> list[str]:
    """The formats of a repeated or comma-separated option, each once.

    Raises:
        ConfigError: One of them does not exist.
    """
    names = list(dict.fromkeys(part.strip() for text in given for part in text.split(",") if part.strip()))
    for name in names:
        if name not in known:
            raise ConfigError(f"unknown format {name!r}", hint=did_you_mean(name, known))
    return names
