"""Options as one types them in a shell."""

from collections.abc import Iterable, Iterator, Mapping

from fairaudit.capabilities.installed import CAPABILITIES
from fairaudit.config.options import OPTIONS, AuditConfig
from fairaudit.errors import ConfigError

_JOINED = {option.field for option in OPTIONS if option.joined}


def option_name(field: str) -> str:
    """The command-line spelling of a field: ``batch_size`` is ``--batch-size``."""
    return "--" + field.replace("_", "-")


def option_given(config: AuditConfig, fields: Iterable[str]) -> str:
    """The first of these options that is not at its default, as ``--name``; "" where all are."""
    for name in fields:
        if getattr(config, name) != AuditConfig.model_fields[name].get_default():
            return option_name(name)
    return ""


def refuse_alone(config: AuditConfig) -> None:
    """Refuse an option that has no effect, since another option or a capability is missing.

    Raises:
        ConfigError: About the first such option.
    """
    installed = {capability.name for capability in CAPABILITIES}
    for option in OPTIONS:
        changed = option_given(config, [option.field])
        if not changed:
            continue
        if option.capability and option.capability not in installed:
            raise ConfigError(
                f"{changed}: this installation has no {option.capability}", hint="leave it out"
            )
        if option.needs and not option_given(config, [option.needs]):
            needed = option_name(option.needs)
            raise ConfigError(f"{changed} is about {needed}", hint=f"add {needed}, or leave it out")


def words_of(name: str, value: object) -> Iterator[str]:
    """One option and its value as words of a command line; several where it has several values."""
    option = option_name(name)
    if isinstance(value, bool):
        yield option if value else "--no-" + option.removeprefix("--")
    elif isinstance(value, tuple | list):
        texts = list(map(str, value))
        if name in _JOINED and len(texts) > 1 and not any("," in text for text in texts):
            value = (",".join(texts),)
        for item in value:
            yield from (option, str(item))
    elif isinstance(value, Mapping):
        for pair in _pairs(value):
            yield from (option, pair)
    else:
        yield from (option, str(value))


def _pairs(table: Mapping[str, object]) -> Iterator[str]:
    """The entries of a mapping as KEY=VALUE, those of a mapping within it as KEY.INNER=VALUE."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from (f"{key}.{pair}" for pair in _pairs(value))
        else:
            yield f"{key}={value}"
