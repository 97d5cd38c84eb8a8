"""Where each option's value comes from.

Flags over environment over files over preset over defaults.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from fairaudit.config.model_names import is_factory
from fairaudit.config.option_words import option_name
from fairaudit.config.options import AuditConfig
from fairaudit.config.presets import find_preset
from fairaudit.errors import ConfigError, DataError, did_you_mean
from fairaudit.io.reading import read_toml

ENVIRONMENT_PREFIX = "FAIRAUDIT_"
CONFIG_VARIABLE = "FAIRAUDIT_CONFIG"  # the --config option itself, not a field
PROJECT_FILE = "fairaudit.toml"
PYPROJECT = "pyproject.toml"
DEFAULT = "default"
PRESET = "preset "
OPTION = "option"  # the command line, or an argument in Python
# What is not finite is a number too: the range that refuses it says what would do.
_DECIMAL = re.compile(
    r"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|nan|inf(inity)?)", re.IGNORECASE
)

_DEFAULTS = {name: field.get_default() for name, field in AuditConfig.model_fields.items()}
# A plain option speaks for every method, so it silences what a lower layer said for one method.
_PER_METHOD = ("learning_rate", "max_grad_norm", "threshold", "noise_multiplier")
_RIVALS = {"epsilon": "noise_multiplier", "noise_multiplier": "epsilon"}


@dataclass(frozen=True, slots=True)
class OptionLayer:
    """One place that sets options.

    Args:
        origin: What the report calls it: ``option``, ``fairaudit.toml``, ``preset NAME``.
        values: Field name -> raw value; only what this place sets.
    """

    origin: str
    values: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class ResolvedConfig:
    """The options of an audit and where each came from.

    Args:
        config: The options.
        origins: Every field -> its origin; ``default`` where nothing sets it.
        settings_origins: (method as given, setting) -> the origin of its value.
    """

    config: AuditConfig
    origins: Mapping[str, str]
    settings_origins: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @property
    def found(self) -> dict[str, list[str]]:
        """What files that merely lie in the folder decided: file -> options."""
        decided: dict[str, list[str]] = {}
        for name, origin in self.origins.items():
            if origin in (PROJECT_FILE, PYPROJECT):
                decided.setdefault(origin, []).append(name)
        return decided


def resolve_config(
    options: Mapping[str, object],
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    config_file: Path | None = None,
    trust_found: bool = False,
) -> ResolvedConfig:
    """Lay all places that set options over each other, the strongest first.

    A file that merely lies in the folder may have come with the data. It sets options, but names no
    code to run, no place outside of the folder to write to and no cluster to send the data to, and
    makes no gate pass that would be inconclusive.

    Args:
        options: What the command line or the caller gave; None values are not set.
        environment: Variables; those that start with ``FAIRAUDIT_`` count, empty ones do not.
            None reads none.
        folder: Where ``fairaudit.toml`` and ``pyproject.toml`` are looked for; None looks nowhere.
        config_file: The file of ``--config``.
        trust_found: Whether files in the folder may set everything.

    Raises:
        ConfigError: Unknown key, bad value, two options of one layer contradict each other, or a
            file in the folder sets what it may not.
    """
    environment = environment or {}
    if config_file is None and environment.get(CONFIG_VARIABLE):
        config_file = Path(environment[CONFIG_VARIABLE])
    typed = {name: value for name, value in options.items() if value is not None}
    layers = [_checked(OPTION, typed), _checked("environment", _from_environment(environment))]
    if config_file is not None:
        layers.append(_checked(f"file {config_file.name}", _table(config_file)))
    for name in (PROJECT_FILE, PYPROJECT):
        if folder is not None and (folder / name).is_file():
            layers.append(_checked(name, _table(folder / name)))
    chosen = next((layer.values["preset"] for layer in layers if "preset" in layer.values), None)
    if chosen is not None:
        preset = find_preset(str(chosen))
        layers.append(OptionLayer(f"{PRESET}{preset.name}", preset.fields))
    resolved = merge_layers(layers)
    if folder is not None and not trust_found:
        _refuse_untrusted(resolved, folder)
    return resolved


@contextmanager
def naming_found_files(resolved: ResolvedConfig) -> Iterator[None]:
    """Say with every refusal which files that merely lie in the folder had a part in it."""
    try:
        yield
    except (ConfigError, DataError) as error:
        for origin, names in resolved.found.items():
            error.hint = "; ".join(filter(None, (error.hint, f"{origin} sets {', '.join(names)}")))
        raise


def merge_layers(layers: Sequence[OptionLayer]) -> ResolvedConfig:
    """One config from layers, the strongest first.

    A value replaces the weaker ones whole; only ``settings`` merge number by number.

    Raises:
        ConfigError: A value does not fit its field, or no data are named.
    """
    values: dict[str, object] = {}
    origins = dict.fromkeys(_DEFAULTS, DEFAULT)
    settings: dict[str, dict[str, object]] = {}
    said_by: dict[tuple[str, str], str] = {}
    for origin, given in reversed([(layer.origin, layer.values) for layer in layers]):
        for name, value in given.items():
            if name in _RIVALS:
                values.pop(_RIVALS[name], None)
                origins[_RIVALS[name]] = DEFAULT
            if name == "noise_multiplier":
                values["epsilon"] = ()  # the default target would read as one that was met
                origins["epsilon"] = f"not used: noise_multiplier is set ({origin})"
            # A plain option, or an epsilon for all, silences the numbers of single methods.
            void = "noise_multiplier" if name == "epsilon" else name
            if void in _PER_METHOD:
                for numbers in settings.values():
                    numbers.pop(void, None)
            if name != "settings":
                values[name], origins[name] = value, origin
        tables = given.get("settings", {})
        if not isinstance(tables, Mapping) or not all(
            isinstance(numbers, Mapping) for numbers in tables.values()
        ):
            raise ConfigError(f"settings in {origin} must be one table per method")
        for method, numbers in tables.items():
            for key, value in numbers.items():
                name = str(key).replace("-", "_")
                settings.setdefault(str(method), {})[name] = value
                said_by[str(method), name] = origin
        if "settings" in given:
            weaker = origins["settings"]
            origins["settings"] = origin if weaker == DEFAULT else f"{origin}, {weaker}"
    values["settings"] = {method: numbers for method, numbers in settings.items() if numbers}
    if "data" not in values:
        raise ConfigError("no data given", hint="name the file: --data loans.parquet")
    try:
        config = AuditConfig.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = str(first["loc"][0])
        where = ".".join(str(part) for part in first["loc"] if not isinstance(part, int))
        origin = origins.get(field, OPTION)
        if origin == OPTION:
            origin = f"option {option_name(field)}"
        expected = first["msg"].removeprefix("Value error, ")
        raise ConfigError(
            f"{where} = {_shown(first['input'])} ({origin}) does not fit: {expected}"
        ) from None
    return ResolvedConfig(config, origins, said_by)


def parse_pairs(parts: Sequence[str], name: str) -> dict[str, str]:
    """``["a=1", "b=2"]`` as a mapping; the last ``=`` separates, so names may contain one.

    Raises:
        ConfigError: A part has no ``=``.
    """
    pairs: dict[str, str] = {}
    for part in parts:
        key, sign, value = part.rpartition("=")
        if not sign or not key.strip():
            raise ConfigError(f"{option_name(name)} needs NAME=VALUE, got {_shown(part)}")
        pairs[key.strip()] = value.strip()
    return pairs


def nested_settings(pairs: Mapping[str, str]) -> dict[str, dict[str, object]]:
    """``{"global.threshold": "50"}`` as method -> setting -> value.

    Raises:
        ConfigError: A name is not METHOD.SETTING.
    """
    nested: dict[str, dict[str, object]] = {}
    for key, value in pairs.items():
        method, dot, setting = key.partition(".")
        if not dot:
            raise ConfigError(
                f"--settings needs METHOD.SETTING=VALUE, got {_shown(key)}",
                hint="--settings global.threshold=50",
            )
        if not _DECIMAL.fullmatch(value):
            raise ConfigError(f"--settings {_shown(key)} needs a number, got {_shown(value)}")
        nested.setdefault(method, {})[setting.replace("-", "_")] = float(value)
    return nested


def _refuse_untrusted(resolved: ResolvedConfig, folder: Path) -> None:
    """Refuse what a file in the folder may not decide.

    That is what its value does beyond reading data and writing below the folder. What a stronger
    place sets is not its decision.

    Raises:
        ConfigError: The value, its file, and the three ways to allow it.
    """
    config = resolved.config
    home = os.path.realpath(folder)
    out = os.path.realpath(folder / config.out)
    reaches = (
        ("method", any(map(is_factory, config.method)), "runs code"),
        ("model", is_factory(config.model), "runs code"),
        ("trainer", config.trainer, "runs code"),
        ("synthesizer", config.synthesizer, "runs code"),
        ("trust_module", config.trust_module, "vouches for code"),
        ("out", not Path(out).is_relative_to(home), "lies outside of it"),
        ("ray_address", config.ray_address, "is sent the data"),
        ("inconclusive", config.inconclusive == "pass", "lets rules pass"),
        ("trust_claimed_epsilon", config.trust_claimed_epsilon, "vouches for a claim"),
    )
    for name, is_beyond, does in reaches:
        origin = resolved.origins[name]
        if is_beyond and origin in (PROJECT_FILE, PYPROJECT):
            raise ConfigError(
                f"{origin} sets {name} = {_shown(str(getattr(config, name)))}, which {does}; a "
                "file that was only found in the current folder may not decide that",
                hint=f"if you trust it: --trust-config, or --config {origin}; else "
                f"{option_name(name)}",
            )


def _checked(origin: str, given: Mapping[str, object]) -> OptionLayer:
    """The layer of one place, with field names for keys.

    Raises:
        ConfigError: A key is unknown, or epsilon and noise_multiplier are both set.
    """
    values: dict[str, object] = {}
    for key, value in given.items():
        name = key.replace("-", "_")
        if name not in _DEFAULTS:
            raise ConfigError(
                f"unknown key {_shown(key)} in {origin}", hint=did_you_mean(name, _DEFAULTS)
            )
        is_single = isinstance(_DEFAULTS[name], tuple) and isinstance(value, str | int | float)
        values[name] = [value] if is_single else value
    if "epsilon" in values and "noise_multiplier" in values:
        raise ConfigError(
            f"epsilon and noise_multiplier are both set in {origin}",
            hint="keep one: --epsilon calibrates the noise, --noise-multiplier sets it",
        )
    return OptionLayer(origin, values)


def _from_environment(environment: Mapping[str, str]) -> dict[str, object]:
    """What the variables set, in the shape of their fields; numbers are left to validation."""
    values: dict[str, object] = {}
    for variable, text in sorted(environment.items()):
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable == CONFIG_VARIABLE or not text:
            continue
        name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
        if name not in _DEFAULTS:
            variables = [ENVIRONMENT_PREFIX + field.upper() for field in _DEFAULTS]
            hint = did_you_mean(variable, variables)
            raise ConfigError(f"unknown variable {variable} in the environment", hint=hint)
        values[name] = text
        if isinstance(_DEFAULTS[name], dict):
            pairs = parse_pairs(text.split(","), name)
            values[name] = nested_settings(pairs) if name == "settings" else pairs
        elif isinstance(_DEFAULTS[name], tuple):
            between = ";" if name in ("compare", "fail_on") else ","  # a pair has its own comma
            values[name] = [part.strip() for part in text.split(between) if part.strip()]
    return values


def _table(path: Path) -> Mapping[str, object]:
    """The options in a TOML file: all of it, or ``[tool.fairaudit]`` of a project's own file."""
    content = read_toml(path)
    if path.name != PYPROJECT:
        return content
    tool = content.get("tool")
    table = tool.get("fairaudit") if isinstance(tool, dict) else None
    if isinstance(table, dict):
        return table
    return {}


def _shown(value: object) -> str:
    """A value for a message: one line, not too long."""
    text = str(value) if isinstance(value, str) and _DECIMAL.fullmatch(value) else repr(value)
    if len(text) <= 60:
        return text
    return text[:57] + "..."
