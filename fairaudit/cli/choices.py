"""Options that take one of a few words."""

from typing import Literal, cast

from fairaudit.errors import ConfigError, did_you_mean

_COUNTED = ("fail", "pass")


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
