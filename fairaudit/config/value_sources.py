"""Where each option's value comes from: flag, environment, file, preset or default, in that order.

Each of these places is a *layer* of values. A *found* file is one that merely lies in the current
folder (``fairaudit.toml``, ``pyproject.toml``): nobody named it, so it may not decide everything.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from fairaudit.config.addresses import Address
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
# Origins of a value, as the report names them; a file's is its name.
DEFAULT = "default"  # nobody set it
PRESET = "preset "  # before the preset's name
OPTION = "option"  # the command line, or an argument in Python
# nan and inf are let through as numbers: the check of the setting's range refuses them, and says
# what the range is.
_DECIMAL = re.compile(
    r"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|nan|inf(inity)?)", re.IGNORECASE
)

_DEFAULTS = {name: field.get_default() for name, field in AuditConfig.model_fields.items()}
# Options for all methods that --settings can also give for one method. Such an option replaces what
# a weaker layer says for single methods.
_PER_METHOD = ("learning_rate", "max_grad_norm", "threshold", "noise_multiplier")
# Options of which one at most is in force: a stronger layer's replaces a weaker layer's other.
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
    def options_by_file(self) -> dict[str, list[str]]:
        """Found file -> the options whose value comes from it."""
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
    trust_config: bool = False,
) -> ResolvedConfig:
    """Collect the options that every place sets, and merge them, the strongest place first.

    A found file may have come with the data. It sets options, but names no code to run, no place
    outside of the folder to write to and no cluster to send the data to, and makes no gate pass
    that would be inconclusive.

    Args:
        options: What the command line or the caller gave; None values are not set.
        environment: Variables; those that start with ``FAIRAUDIT_`` count, empty ones do not.
            None reads none.
        folder: Where ``fairaudit.toml`` and ``pyproject.toml`` are looked for; None looks nowhere.
        config_file: The file of ``--config``.
        trust_config: Whether found files may set everything.

    Raises:
        ConfigError: Unknown key, bad value, two options of one layer contradict each other, or a
            file in the folder sets what it may not.
    """
    environment = environment or {}
    if config_file is None and environment.get(CONFIG_VARIABLE):
        config_file = Path(environment[CONFIG_VARIABLE])
    typed = {name: value for name, value in options.items() if value is not None}
    layers = [_layer(OPTION, typed), _layer("environment", _from_environment(environment))]
    if config_file is not None:
        layers.append(_layer(f"file {config_file.name}", _options_of_file(config_file)))
    for name in (PROJECT_FILE, PYPROJECT):
        if folder is not None and (folder / name).is_file():
            layers.append(_layer(name, _options_of_file(folder / name)))
    chosen = next((layer.values["preset"] for layer in layers if "preset" in layer.values), None)
    if chosen is not None:
        preset = find_preset(str(chosen))
        layers.append(OptionLayer(f"{PRESET}{preset.name}", preset.fields))
    resolved = merge_layers(layers)
    if folder is not None and not trust_config:
        _refuse_untrusted(resolved, folder)
    return resolved


@contextmanager
def naming_config_files(resolved: ResolvedConfig) -> Iterator[None]:
    """In the ``with`` block, add to the hint of an error which found files set which options.

    The user may not know of these files. Errors are those of options and data.
    """
    try:
        yield
    except (ConfigError, DataError) as error:
        for origin, names in resolved.options_by_file.items():
            error.hint = "; ".join(filter(None, (error.hint, f"{origin} sets {', '.join(names)}")))
        raise


def merge_layers(layers: Sequence[OptionLayer]) -> ResolvedConfig:
    """Merge layers, given the strongest first, into one configuration, and validate it.

    A stronger layer's value replaces the weaker ones. Only ``settings`` merge number by number, and
    an option for all methods removes the numbers of that name that weaker layers set for single
    methods.

    Raises:
        ConfigError: A value does not fit its field, or no data are named.
    """
    merged = _MergedLayers()
    for layer in reversed(layers):  # the weakest first: a stronger one replaces what it says
        merged.add(layer)
    values = dict(merged.values)
    # An option for all methods may have removed every number of a method.
    values["settings"] = {method: numbers for method, numbers in merged.settings.items() if numbers}
    in_force = set(merged.settings_origins.values())
    origins = [layer.origin for layer in layers if layer.origin in in_force]
    merged.origins["settings"] = ", ".join(origins) or DEFAULT
    if "data" not in values:
        raise ConfigError("no data given", hint="name the file: --data loans.parquet")
    try:
        config = AuditConfig.model_validate(values)
    except ValidationError as error:
        raise _misfit(error, merged.origins) from None
    return ResolvedConfig(config, merged.origins, merged.settings_origins)


@dataclass(slots=True)
class _MergedLayers:
    """What layers set together, filled from the weakest to the strongest.

    Args:
        values: Field -> raw value, ``settings`` aside.
        origins: Every field but ``settings`` -> its origin.
        settings: Method as given -> setting -> raw value.
        settings_origins: (method as given, setting) -> the origin of its value.
    """

    values: dict[str, object] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=lambda: dict.fromkeys(_DEFAULTS, DEFAULT))
    settings: dict[str, dict[str, object]] = field(default_factory=dict)
    settings_origins: dict[tuple[str, str], str] = field(default_factory=dict)

    def add(self, layer: OptionLayer) -> None:
        """Put a layer above those that were added before.

        Raises:
            ConfigError: Its settings are not one table per method.
        """
        origin = layer.origin
        for name, value in layer.values.items():
            if name in _RIVALS:
                self.values.pop(_RIVALS[name], None)
                self.origins[_RIVALS[name]] = DEFAULT
            if name == "noise_multiplier":
                # Without this the default of epsilon would look like a target that was met.
                self.values["epsilon"] = ()
                self.origins["epsilon"] = f"not used: noise_multiplier is set ({origin})"
            # An option for all methods removes what weaker layers said of it for single methods; an
            # epsilon removes their noise multipliers.
            replaced = "noise_multiplier" if name == "epsilon" else name
            if replaced in _PER_METHOD:
                for method, numbers in self.settings.items():
                    numbers.pop(replaced, None)
                    self.settings_origins.pop((method, replaced), None)
            if name != "settings":
                self.values[name], self.origins[name] = value, origin
        # Last, so that a layer's options for all methods do not remove its own settings.
        if "settings" in layer.values:
            self._add_settings(layer.values["settings"], origin)

    def _add_settings(self, tables: object, origin: str) -> None:
        """Take over numbers of single methods, one by one; ``tables``: as the layer holds them.

        Raises:
            ConfigError: ``tables`` is not one table per method.
        """
        if not isinstance(tables, Mapping) or not all(
            isinstance(numbers, Mapping) for numbers in tables.values()
        ):
            raise ConfigError(f"settings in {origin} must be one table per method")
        for method, numbers in tables.items():
            for key, value in numbers.items():
                name = str(key).replace("-", "_")
                self.settings.setdefault(str(method), {})[name] = value
                self.settings_origins[str(method), name] = origin


def _misfit(error: ValidationError, origins: Mapping[str, str]) -> ConfigError:
    """The error to raise for the first value that pydantic refused: it names value and origin."""
    first = error.errors(include_url=False)[0]
    field = str(first["loc"][0])
    # The path of names to the value; whole numbers in it are places in a list.
    where = ".".join(str(part) for part in first["loc"] if not isinstance(part, int))
    origin = origins.get(field, OPTION)
    if origin == OPTION:
        origin = f"option {option_name(field)}"
    expected = first["msg"].removeprefix("Value error, ")  # pydantic's, before our own words
    return ConfigError(f"{where} = {_shown(first['input'])} ({origin}) does not fit: {expected}")


def parse_pairs(parts: Sequence[str], name: str) -> dict[str, str]:
    """``["a=1", "b=2"]`` as a mapping; the last ``=`` separates, so names may contain one.

    In pairs of ``contrast`` and ``zero`` the first ``=`` separates, for a value may be ``<=25``.

    Args:
        parts: What was typed, each NAME=VALUE.
        name: Field of the option.

    Raises:
        ConfigError: A part has no ``=``.
    """
    pairs: dict[str, str] = {}
    for part in parts:
        is_first = name in ("contrast", "zero")
        key, sign, value = part.partition("=") if is_first else part.rpartition("=")
        if not sign or not key.strip():
            raise ConfigError(f"{option_name(name)} needs NAME=VALUE, got {_shown(part)}")
        pairs[key.strip()] = value.strip()
    return pairs


def nested_settings(pairs: Mapping[str, str]) -> dict[str, dict[str, object]]:
    """``{"global.threshold": "50"}`` as method -> setting -> value: ``50.0`` as a float.

    Raises:
        ConfigError: A name is not METHOD.SETTING, or a value is no number.
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
    """Refuse values of found files that do more than read data and write below the folder.

    Only values in force count: what a stronger place replaced is not looked at.

    Args:
        resolved: The merged options.
        folder: Where the files were found.

    Raises:
        ConfigError: There is such a value. The error names it, the file, and the three ways to
            allow it.
    """
    config = resolved.config
    home = os.path.realpath(folder)
    out = os.path.realpath(folder / config.out)
    # Option, whether its value may not come from a found file (of a text: it is not empty), and
    # what such a value does.
    reaches = (
        ("method", any(map(is_factory, config.method)), "runs code"),
        ("model", is_factory(config.model), "runs code"),
        ("trainer", config.trainer, "runs code"),
        ("synthesizer", config.synthesizer, "runs code"),
        ("trust_module", config.trust_module, "vouches for code"),
        ("out", not Path(out).is_relative_to(home), "lies outside of it"),
        ("data", isinstance(config.data, Address), "is read from elsewhere"),
        ("public_data", isinstance(config.public_data, Address), "is read from elsewhere"),
        ("synthetic", isinstance(config.synthetic, Address), "is read from elsewhere"),
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


def _layer(origin: str, given: Mapping[str, object]) -> OptionLayer:
    """Check the keys of one place, and return its layer, with field names for keys.

    A single value of a field that holds several becomes a list of one.

    Args:
        origin: What the report calls the place.
        given: Key, with dashes or underscores -> raw value.

    Raises:
        ConfigError: A key is unknown, a number or a text is said to be true or false, or epsilon
            and noise_multiplier are both set.
    """
    values: dict[str, object] = {}
    for key, value in given.items():
        name = key.replace("-", "_")
        if name not in _DEFAULTS:
            raise ConfigError(
                f"unknown key {_shown(key)} in {origin}", hint=did_you_mean(name, _DEFAULTS)
            )
        parts = value if isinstance(value, list | tuple) else [value]
        truths = [str(part).lower() for part in parts if isinstance(part, bool)]
        if truths and not isinstance(_DEFAULTS[name], bool):
            raise ConfigError(f"{key} = {truths[0]} in {origin}: it is no option of true or false")
        is_single = isinstance(_DEFAULTS[name], tuple) and isinstance(value, str | int | float)
        values[name] = [value] if is_single else value
    if "epsilon" in values and "noise_multiplier" in values:
        raise ConfigError(
            f"epsilon and noise_multiplier are both set in {origin}",
            hint="keep one: --epsilon calibrates the noise, --noise-multiplier sets it",
        )
    return OptionLayer(origin, values)


def _from_environment(environment: Mapping[str, str]) -> dict[str, object]:
    """The options that variables ``FAIRAUDIT_NAME`` set: field -> text, list of texts, or mapping.

    Texts become numbers when the merged options are validated.

    Raises:
        ConfigError: A variable names no option, or a pair is not NAME=VALUE.
    """
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
            # Only a comma before NAME= separates: a value may hold others, as 18,30 does.
            pairs = parse_pairs(re.split(r",(?=[^,]*=)", text), name)
            values[name] = nested_settings(pairs) if name == "settings" else pairs
        elif isinstance(_DEFAULTS[name], tuple):
            between = ";" if name in ("compare", "fail_on") else ","  # a pair has its own comma
            values[name] = [part.strip() for part in text.split(between) if part.strip()]
    return values


def _options_of_file(path: Path) -> Mapping[str, object]:
    """The options in a TOML file: the whole content, but of ``pyproject.toml`` one table.

    That table is ``[tool.fairaudit]``; a ``pyproject.toml`` without it sets no options.

    Raises:
        ConfigError: The file cannot be read, or ``tool.fairaudit`` is no table.
    """
    content = read_toml(path)
    if path.name != PYPROJECT:
        return content
    tool = content.get("tool")
    if not isinstance(tool, dict) or "fairaudit" not in tool:
        return {}
    table = tool["fairaudit"]
    if not isinstance(table, dict):
        raise ConfigError(
            f"tool.fairaudit = {_shown(table)} in {path.name} must be a table of options",
            hint="write [tool.fairaudit] and each option below it",
        )
    return table


def _shown(value: object) -> str:
    """A value for a message: one line of at most 60 characters, quoted unless it is a number."""
    text = str(value) if isinstance(value, str) and _DECIMAL.fullmatch(value) else repr(value)
    if len(text) <= 60:
        return text
    return text[:57] + "..."
