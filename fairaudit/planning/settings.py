"""Where the numbers of an audit's methods come from: given, else by rule.

In their ranges, and read.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from fairaudit.config.options import AuditConfig
from fairaudit.errors import ConfigError, did_you_mean
from fairaudit.methods.catalog import find
from fairaudit.methods.defaults import SCHEDULE_RULES, PublicSizes
from fairaudit.methods.spec import MethodSpec

Place = tuple[str, str]  # method, setting


@dataclass(frozen=True, slots=True)
class SettingsResolver:
    """Where an arm's numbers come from: the options, else the rules; remembers what was decided.

    Args:
        config: The options.
        sizes: What a rule may read.
        origins: Setting -> the rule that set it.
        omitted: Method that `all` left out -> why.
    """

    config: AuditConfig
    sizes: PublicSizes
    origins: dict[str, str] = field(default_factory=dict)
    omitted: dict[str, str] = field(default_factory=dict)

    def by_rule(self, name: str) -> float:
        """The documented default of that name."""
        self.origins[name] = SCHEDULE_RULES[name].text
        return SCHEDULE_RULES[name].value(self.sizes)

    def default(self, spec: MethodSpec, name: str) -> float:
        """The documented default of a method's setting.

        Raises:
            ConfigError: It has none.
        """
        rule = spec.known_settings[name].default
        if rule is None:
            raise ConfigError(
                f"{spec.name}: {name} has no default",
                hint=f"give it: --settings {spec.name}.{name}=VALUE",
            )
        self.origins[name] = rule.text
        return rule.value(self.sizes)

    def own(self, spec: MethodSpec) -> dict[str, float]:
        """Settings that name the method, over those of what it controls or is the reference of."""
        merged: dict[str, float] = {}
        for key in (spec.model, spec.name):
            for name, values in self.config.settings.items():
                if find(name).name == key:
                    merged |= values
        return merged

    def checked(self, spec: MethodSpec, name: str, value: float) -> float:
        """The value, where it lies in the setting's range: a NaN would come out as epsilon 0.

        Raises:
            ConfigError: It does not; the message names the range.
        """
        setting = spec.known_settings[name]
        if not setting.admits(value, self.sizes):
            raise ConfigError(
                f"{spec.name}: {name} is {value:g}, which is not {setting.range(self.sizes)}",
                hint=f"{name}: {setting.meaning}",
            )
        return float(value)


def check_settings(numbers: SettingsResolver) -> None:
    """Every given setting exists and lies in its range, whether or not its method is trained."""
    seen: dict[tuple[str, str], str] = {}
    for name, values in numbers.config.settings.items():
        spec = find(name)
        model = find(spec.model) if spec.model else spec
        names = tuple(dict.fromkeys((*spec.known_settings, *model.known_settings)))
        for setting, value in values.items():
            if setting not in names:
                raise ConfigError(
                    f"method {spec.name!r} has no setting {setting!r}",
                    hint=did_you_mean(setting, names),
                )
            if seen.setdefault((spec.name, setting), name) != name:
                raise ConfigError(
                    f"{name}.{setting} and {seen[spec.name, setting]}.{setting} say the same twice",
                    hint="give one of them",
                )
            numbers.checked(spec if setting in spec.known_settings else model, setting, value)


def unread_settings(
    numbers: SettingsResolver, trained: Iterable[tuple[str, Iterable[str]]]
) -> dict[Place, str]:
    """Given settings that nothing reads, by method and setting as given, and why.

    Args:
        numbers: Resolves the settings that were asked for.
        trained: Method of each arm, and names of the numbers that it has.
    """
    read: set[Place] = set()
    for method, settings in trained:
        spec = find(method)
        names = {*settings, *spec.conversions}
        if spec.control_of:
            names.add("threshold")
        for name in names:
            read.add((spec.name, name))
            if spec.model:
                read.add((spec.model, name))
    methods = {method for method, _ in read}
    unread: dict[Place, str] = {}
    for given, values in numbers.config.settings.items():
        method = find(given).name
        why = "no form that is trained reads it"
        if method not in methods:
            why = f"{method} is not trained"
            if method in numbers.omitted:
                why = f"{why}: {numbers.omitted[method]}"
        for name in values:
            if (method, name) not in read:
                unread[given, name] = why
    return unread
